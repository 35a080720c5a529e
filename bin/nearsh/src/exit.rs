//! Exit statuses of nearsh itself. Of a script it is the shell's.

/// How a call of nearsh ended that did not become a shell or a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// All went well.
    Ok = 0,
    /// What was asked for could not be written; of the doctor: a mount cannot be used; of a check: an annotation lies.
    Error = 1,
    /// The command line has errors: nothing was run. As bash's.
    Usage = 2,
    /// An annotation could not be checked.
    Unchecked = 3,
    /// A command could not be run, though it is there.
    NoCommand = 126,
    /// There is no shell to run the script.
    NoShell = 127,
}
