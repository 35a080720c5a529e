//! Exit statuses, as `perdure --help` lists them.

use std::process::ExitCode;

/// How a run of perdure ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Done; the answer is yes.
    Ok = 0,
    /// There is no such variable or element, or the check found damage.
    Negative = 1,
    /// The command line was wrong. (The library that reads it exits with the same number.)
    Usage = 2,
    /// A file could not be opened, made or written.
    File = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
