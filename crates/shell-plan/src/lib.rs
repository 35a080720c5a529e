//! From the text of a shell script, annotations of commands and facts about files, links and hosts to a plan.
//!
//! Pure: nothing here looks at files, processes, the clock, the environment or the network. Who calls gives facts, and gets
//! back what should be done.

pub mod annotation;
pub mod nest;
pub mod plan;
pub mod program;
pub mod script;
