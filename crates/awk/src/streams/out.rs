//! One buffered output.
//!
//! Invariant: bytes leave the buffer either to the system or with an error. One exception is made on purpose: what a command,
//! coprocess or connection reads no more is dropped in silence, by [`Out::flush`] if it was given no more than a pipe holds, by
//! `close` and other flushes that no `print` asked for in any case. Its status says whether that is wrong.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin};

use super::{StreamError, shown};

/// Output is handed to the system in pieces of this many bytes.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// What a pipe holds that nobody reads: Linux's usual size.
const PIPE_BYTES: u64 = 64 << 10;

/// Where the bytes of an [`Out`] go.
pub(super) enum Sink {
    Writer(Box<dyn Write>),
    File(File),
    /// A file given up when descriptors ran out; opened again, to append, whenever its buffer goes out.
    Parked,
    /// What no name opens a second time: a descriptor the process was started with, a socket.
    Handle(File),
    /// A command whose input this is.
    Child(Child),
    /// The input of a coprocess.
    Pipe(ChildStdin),
    /// A coprocess's connection; the other side is told when this ends.
    Socket(File),
    /// A coprocess's terminal, seen from its master side.
    Terminal(File),
}

/// A buffered output.
///
/// The hot path appends to [`Out::buffer`] and then calls [`Out::settle`].
pub struct Out {
    pub(super) name: Vec<u8>,
    pub(super) buf: Vec<u8>,
    pub(super) sink: Sink,
    /// The buffer goes out when it holds this many bytes: 1 for terminals, pipes and standard error.
    pub(super) limit_bytes: usize,
    pub(super) is_stdout: bool,
    /// What was handed to the system, or tried to.
    written_bytes: u64,
}

impl Out {
    pub(super) fn new(name: &[u8], sink: Sink) -> Out {
        Out {
            name: name.to_vec(),
            buf: Vec::new(),
            sink,
            limit_bytes: BUFFER_BYTES,
            is_stdout: false,
            written_bytes: 0,
        }
    }

    /// The bytes not yet handed to the system: append to them, then call [`Out::settle`].
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Hands the buffer to the system if it has grown to its limit. Call after each statement's output: an output to
    /// a terminal goes out then.
    ///
    /// # Errors
    /// As [`Out::flush`].
    #[inline]
    pub fn settle(&mut self) -> Result<(), StreamError> {
        if self.buf.len() >= self.limit_bytes {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Appends `bytes`; the same as filling the buffer and settling.
    ///
    /// # Errors
    /// As [`Out::flush`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.buf.extend_from_slice(bytes);
        self.settle()
    }

    /// Hands all bytes to the system.
    ///
    /// # Errors
    /// [`StreamError::StdoutClosed`] for a broken pipe on standard output, else [`StreamError::Write`]. The bytes are
    /// dropped: they would fail again.
    #[cold]
    pub fn flush(&mut self) -> Result<(), StreamError> {
        let result = match self.flush_io() {
            Err(error) if self.may_be_unread(&error) => Ok(()),
            result => result,
        };
        self.written_bytes += self.buf.len() as u64;
        self.buf.clear();
        if self.buf.capacity() > 4 * BUFFER_BYTES {
            self.buf.shrink_to(BUFFER_BYTES);
        }
        result.map_err(|source| {
            if self.is_stdout && source.kind() == io::ErrorKind::BrokenPipe {
                StreamError::StdoutClosed
            } else {
                StreamError::Write {
                    name: shown(&self.name),
                    source,
                }
            }
        })
    }

    /// A command that ends without reading leaves the outcome of the first writes to chance: had it ended a moment later, they
    /// would have found room in the pipe. Its status says whether something is wrong.
    fn may_be_unread(&self, error: &io::Error) -> bool {
        error.kind() == io::ErrorKind::BrokenPipe
            && self.feeds_process()
            && self.written_bytes < PIPE_BYTES
    }

    pub(super) fn flush_io(&mut self) -> io::Result<()> {
        if self.buf.is_empty() {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Writer(writer) => {
                writer.write_all(&self.buf)?;
                writer.flush()
            }
            Sink::File(file) | Sink::Handle(file) | Sink::Socket(file) | Sink::Terminal(file) => {
                file.write_all(&self.buf)
            }
            Sink::Child(child) => match &mut child.stdin {
                Some(stdin) => stdin.write_all(&self.buf),
                None => Ok(()),
            },
            Sink::Pipe(stdin) => stdin.write_all(&self.buf),
            // Closed again at once: thousands of files may be parked, and `with_descriptors` leaves one descriptor.
            Sink::Parked => OpenOptions::new()
                .append(true)
                .create(true)
                .open(std::ffi::OsStr::from_bytes(&self.name))?
                .write_all(&self.buf),
        }
    }

    /// A terminal's command learns of the end by the terminal going away, not by a character.
    pub(super) fn hang_up(&mut self) {
        self.sink = match std::mem::replace(&mut self.sink, Sink::Parked) {
            Sink::Terminal(master) => Sink::Handle(master),
            sink => sink,
        };
    }

    /// Whether a process reads what is written here.
    pub(super) fn feeds_process(&self) -> bool {
        matches!(
            self.sink,
            Sink::Child(_) | Sink::Pipe(_) | Sink::Socket(_) | Sink::Terminal(_)
        )
    }
}
