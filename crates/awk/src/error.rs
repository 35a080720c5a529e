//! What can end a run early, and how it is worded.
//!
//! Invariant: a `Fatal` is small (one pointer), so that the machine's `Result`s are cheap.

use std::fmt;

/// Why a program could not be loaded or run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program text has errors: one rendered line each, `name:line:column: message`.
    #[error("{}", .0.join("\n"))]
    Syntax(Vec<String>),
    /// The program text cannot run, because a name is used as what it is not: lines as in [`Error::Syntax`].
    #[error("{}", .0.join("\n"))]
    Misuse(Vec<String>),
    /// The heap holds a variable as another kind than the program uses it.
    #[error("{0}")]
    Kind(String),
    /// A fatal error while running, with program and data position.
    #[error("{0}")]
    Run(String),
    /// The debugger was left before the program ended.
    #[error("the debugger was left")]
    Quit,
    /// The reader of standard output went away: to be quiet about.
    #[error("standard output was closed by its reader")]
    BrokenPipe,
    /// The heap failed.
    #[error("{0}")]
    Heap(#[from] heap::Error),
}

/// An error inside the machine, before positions are added to it.
#[derive(Debug)]
pub struct Fatal(Box<Reason>);

/// What happened.
#[derive(Debug)]
pub enum Reason {
    /// To be told to the user with positions.
    Message(String),
    /// Nothing in the program caused it, but an operand or option: to be told without positions.
    Operand(String),
    /// See [`Error::BrokenPipe`].
    BrokenPipe,
    /// The debugger's user has seen enough: the run ends, and nothing is committed.
    Quit,
    /// `exit` where the machine runs code in the middle of an instruction: no error.
    Exit,
}

impl Fatal {
    /// With a message.
    #[cold]
    pub fn new(message: impl Into<String>) -> Fatal {
        Fatal(Box::new(Reason::Message(message.into())))
    }

    /// With a message about an operand or option.
    #[cold]
    pub fn operand(message: impl Into<String>) -> Fatal {
        Fatal(Box::new(Reason::Operand(message.into())))
    }

    /// Quietly.
    #[cold]
    pub fn broken_pipe() -> Fatal {
        Fatal(Box::new(Reason::BrokenPipe))
    }

    /// See [`Reason::Quit`].
    #[cold]
    pub fn quit() -> Fatal {
        Fatal(Box::new(Reason::Quit))
    }

    /// See [`Reason::Exit`].
    #[cold]
    pub fn exit() -> Fatal {
        Fatal(Box::new(Reason::Exit))
    }

    /// What happened.
    pub fn reason(&self) -> &Reason {
        &self.0
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            Reason::Message(message) | Reason::Operand(message) => f.write_str(message),
            Reason::BrokenPipe => f.write_str("standard output was closed by its reader"),
            Reason::Exit => f.write_str("exit"),
            Reason::Quit => f.write_str("the debugger was left"),
        }
    }
}

impl From<heap::Error> for Fatal {
    #[cold]
    fn from(error: heap::Error) -> Fatal {
        Fatal::new(error.to_string())
    }
}

/// The system's words for an error, without the number that the standard library puts behind them.
pub fn system_reason(error: &std::io::Error) -> String {
    let words = error.to_string();
    match words.find(" (os error ") {
        Some(end) => words[..end].to_string(),
        None => words,
    }
}

/// Result of the machine's steps.
pub type Step<T> = Result<T, Fatal>;
