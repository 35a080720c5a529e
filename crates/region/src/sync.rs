//! What threads share data by. The models put their own in its place (`crates/capi/tests/models.rs`): modules that take it from here are run by
//! them as they are.

pub(crate) use std::sync::atomic;
