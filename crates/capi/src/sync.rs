//! What threads wait by. The models put their own in its place (`tests/models.rs`): modules that take it from here are run by them as they are.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
pub(crate) use std::thread_local;
