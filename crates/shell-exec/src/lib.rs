//! Shell scripts and their stages as processes: the user's shell runs a script, and a helper before some of its commands
//! decides where each is run.
//!
//! The invariant: what stays local is the command itself, in the process that the shell made for it, with everything that the
//! shell gave it. Nothing here changes signals, descriptors, limits or the environment on that way.

pub mod agent;
pub mod annotate;
pub mod annotations;
pub mod broker;
mod clock;
pub mod combine;
pub mod config;
pub mod doctor;
pub mod explain;
pub mod flow;
mod load;
pub mod mounts;
pub mod program;
pub mod script;
pub mod shims;
pub mod slurm;
pub mod stage;
pub mod tools;
pub mod wire;
