//! Exit statuses: gawk's, 1 for what is wrong with the command line or the program's text, 2 for what ends a run.

use std::process::ExitCode;

/// How a run of pmawk ended, apart from `exit N` in the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// The command line or the program text has errors: nothing was run.
    Error = 1,
    /// A fatal error while running or with the heap: nothing was committed.
    Fatal = 2,
    /// The reader of the output went away, as in `pmawk ... | head`; nothing was committed. What shells show for an awk that
    /// SIGPIPE ended, so that scripts which allow for that one need not know another.
    BrokenPipe = 141,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
