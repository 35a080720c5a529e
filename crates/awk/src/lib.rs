//! The AWK engine: resolved tree to code, and the machine that runs it on records, streams and a heap.
//!
//! The way in is [`interp`]: `load` a program, then `run` it. A run is a transaction on its heap: the normal end (also by
//! `exit`) commits, an error commits nothing. Nothing here prints on its own account, exits the process or touches signals.

pub mod code;
pub mod compile;
pub mod debugger;
pub mod error;
pub mod exact;
pub mod fields;
pub mod format;
pub mod gettext;
pub mod interp;
pub mod json;
pub mod locale;
pub mod num;
pub mod record;
pub mod records;
pub mod regex;
pub mod scan;
pub mod settings;
pub mod store;
pub mod streams;
mod surroundings;
pub mod text;
pub mod time;
pub mod value;
pub mod vm;
pub mod watch;

pub use error::{Error, system_reason};
pub use interp::{Language, Loaded, Setup, load, pretty, run, template};
pub use surroundings::{find_source, why_not_found};
pub use vm::{EndProcess, JOBS_MAX, WhenNative, assignment};
