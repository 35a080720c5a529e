//! Exit statuses, as `perdure-cc --help` lists them. All others are clang's.

use std::process::ExitCode;

/// Why clang was not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// A tool is missing, or an option of ours is wrong. No status that clang uses.
    Ours = 125,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
