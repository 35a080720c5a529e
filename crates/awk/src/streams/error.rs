//! What can go wrong with a stream, and how it is worded.
//!
//! Invariant: every error has the number and the words of the system that ERRNO shows, and a message that names the stream.

use std::io;

use super::Side;
use crate::error::system_reason;

/// `EBADF`, Linux's number.
const BAD_DESCRIPTOR: i32 = 9;

/// `ENOENT`.
const NO_ENTRY: i32 = 2;

/// What could not be done with a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The reader of standard output is gone: the program should end quietly.
    #[error("standard output: broken pipe")]
    StdoutClosed,
    /// A file could not be opened for reading.
    #[error("cannot open file {name:?} for reading: {}", system_reason(source))]
    OpenInput {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A directory was given where text is read.
    #[error("cannot read {name:?}: it is a directory; give a file")]
    IsDirectory {
        /// The directory.
        name: String,
    },
    /// An open input could not be read.
    #[error("cannot read {name:?}: {}", system_reason(source))]
    Read {
        /// The file or command.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A file could not be opened for writing.
    #[error("cannot open file {name:?} for writing: {}", system_reason(source))]
    OpenOutput {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("cannot start command {command:?}: {}", system_reason(source))]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// A connection could not be made.
    #[error("cannot connect {name:?}: {}", system_reason(source))]
    Connect {
        /// The name that begins with `/inet`.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A name that begins with `/inet` has a host, service or port that means nothing here.
    #[error("cannot connect {name:?}: {what}")]
    Address {
        /// The name.
        name: String,
        /// What is wrong with it.
        what: String,
    },
    /// An end of a coprocess is used after it was closed.
    #[error("cannot {} {name:?}: `close(..., \"{}\")` has closed that end; close the other end too before it is started again",
        match side { Side::To => "write to", Side::From => "read from" },
        match side { Side::To => "to", Side::From => "from" })]
    EndClosed {
        /// The command.
        name: String,
        /// Which end.
        side: Side,
    },
    /// Bytes could not be written.
    #[error("cannot write to {name:?}: {}", system_reason(source))]
    Write {
        /// The file or command.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl StreamError {
    fn source(&self) -> Option<&io::Error> {
        match self {
            StreamError::OpenInput { source, .. }
            | StreamError::Read { source, .. }
            | StreamError::OpenOutput { source, .. }
            | StreamError::Start { source, .. }
            | StreamError::Connect { source, .. }
            | StreamError::Write { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The system's number of the reason, if it has one.
    pub fn number(&self) -> Option<i32> {
        match self {
            StreamError::StdoutClosed => Some(32),       // EPIPE on Linux
            StreamError::IsDirectory { .. } => Some(21), // EISDIR
            StreamError::Address { .. } => Some(NO_ENTRY),
            StreamError::EndClosed { .. } => Some(BAD_DESCRIPTOR),
            _ => self.source().and_then(io::Error::raw_os_error),
        }
    }

    /// The system's reason, for ERRNO.
    pub fn reason(&self) -> String {
        match (self.source(), self.number()) {
            (Some(source), _) => system_reason(source),
            (None, Some(number)) => system_reason(&io::Error::from_raw_os_error(number)),
            (None, None) => self.to_string(),
        }
    }

    /// Whether a pipe's reader is gone.
    pub(super) fn is_broken_pipe(&self) -> bool {
        match self {
            StreamError::StdoutClosed => true,
            _ => self
                .source()
                .is_some_and(|source| source.kind() == io::ErrorKind::BrokenPipe),
        }
    }
}
