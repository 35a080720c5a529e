//! What can go wrong with a region: data in the variant, wording in one `Display`.
//!
//! Each message says what could not be done, with which value, why, and the next step.

use std::fmt;
use std::io;

/// An error of this crate; one pointer wide, because it travels in the results of hot paths.
pub struct Error(Box<ErrorKind>);

/// The kinds of [`Error`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused an operation.
    Io {
        path: String,
        action: &'static str,
        source: io::Error,
    },
    /// A heap could not be made, so there is none.
    Creation {
        path: String,
        action: &'static str,
        source: io::Error,
    },
    /// There is no such heap, but a journal that has been in use, and whose heap it would be.
    HeapMissing { path: String, journal: String },
    /// There is no such heap, and making one was not asked for.
    Absent { path: String },
    /// The file is not a heap.
    NotAHeap { path: String, why: String },
    /// The file, a heap or its journal, is of a version that this program does not read.
    Version { path: String, found: u32 },
    /// The file is a heap, and something in it cannot be true.
    Damaged {
        path: String,
        offset: u64,
        what: String,
    },
    /// The heap's journal is not beside it.
    JournalMissing { path: String, journal: String },
    /// The journal belongs to another heap.
    JournalForeign { path: String, journal: String },
    /// The journal is shorter than it was made.
    JournalCut {
        path: String,
        journal: String,
        bytes: u64,
    },
    /// Another process writes, and the time to wait for it is over.
    Locked {
        path: String,
        waited_ms: u64,
        writer_pid: u64,
    },
    /// No room for more: the heap's limit is reached.
    Full {
        path: String,
        limit_bytes: u64,
        wanted_bytes: u64,
    },
    /// No room for more without a file: all address space that was reserved is in use.
    MemoryFull { limit_bytes: u64, wanted_bytes: u64 },
    /// Others could have written this file, and trusting it was not asked for.
    Untrusted { path: String, why: String },
    /// A flush failed earlier: what reached the medium is unknown until the heap is opened again.
    Poisoned { path: String },
    /// The operation needs a writer, and this is a snapshot or memory.
    NotAWriter { path: String, action: &'static str },
    /// No address space for the mapping.
    NoAddressSpace {
        wanted_bytes: u64,
        source: io::Error,
    },
    /// Something else lies where the heap must, because data in it point there.
    AddressTaken {
        address: u64,
        wanted_bytes: u64,
        source: io::Error,
    },
    /// More heaps are open in this process than can be stored to by address.
    TooManyRegions,
    /// The kernel cannot tell which pages a program stored to.
    NoPageTracking { source: io::Error },
    /// Another thread stored while a commit was being taken.
    StoredMeanwhile { path: String, address: u64 },
}

impl Error {
    /// What happened.
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    #[cold]
    pub(crate) fn io(path: impl Into<String>, action: &'static str, source: io::Error) -> Error {
        ErrorKind::Io {
            path: path.into(),
            action,
            source,
        }
        .into()
    }

    #[cold]
    pub(crate) fn creation(
        path: impl Into<String>,
        action: &'static str,
        source: io::Error,
    ) -> Error {
        ErrorKind::Creation {
            path: path.into(),
            action,
            source,
        }
        .into()
    }

    /// Something in the bytes of a heap that cannot be true. For the layers above, which know what they read.
    #[cold]
    pub fn damaged(path: impl Into<String>, offset: u64, what: impl Into<String>) -> Error {
        ErrorKind::Damaged {
            path: path.into(),
            offset,
            what: what.into(),
        }
        .into()
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Error {
        Error(Box::new(kind))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            ErrorKind::Io { source, .. }
            | ErrorKind::Creation { source, .. }
            | ErrorKind::NoAddressSpace { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Which limit of the process it was, if it was one that the system's words do not name.
fn limit_of(source: &io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => "; close some, or raise the process' limit (ulimit -n)",
        Some(libc::EFBIG) => "; is there a limit (ulimit -f)?",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use ErrorKind as K;
        match &*self.0 {
            K::Io {
                path,
                action,
                source,
            } => {
                write!(f, "heap \"{path}\": cannot {action}: {source}")?;
                match source.raw_os_error() {
                    Some(libc::ENOSPC | libc::EDQUOT) => {
                        write!(
                            f,
                            "; the heap is as of its last commit: make room and run again"
                        )
                    }
                    Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                        write!(
                            f,
                            "; to read it without the right to write, open it as a snapshot (--snapshot)"
                        )
                    }
                    _ => f.write_str(limit_of(source)),
                }
            }
            K::Creation {
                path,
                action,
                source,
            } => {
                write!(f, "heap \"{path}\": cannot {action}: {source}; ")?;
                match source.raw_os_error() {
                    Some(libc::ENOSPC | libc::EDQUOT) => {
                        write!(f, "there is no heap yet: make room and run again")
                    }
                    _ => write!(f, "there is no heap yet{}", limit_of(source)),
                }
            }
            K::HeapMissing { path, journal } => write!(
                f,
                "heap \"{path}\": the file is missing, but its journal \"{journal}\" is there, so no empty heap was made in its place; \
                 put the heap back beside its journal (the two belong together when a heap is moved or copied), or, to begin anew, \
                 remove \"{journal}\""
            ),
            K::Absent { path } => {
                write!(
                    f,
                    "heap \"{path}\": no such file; \"perdure create {path}\" makes an empty heap"
                )
            }
            K::NotAHeap { path, why } => write!(f, "\"{path}\" is not a heap: {why}"),
            K::Version { path, found } => write!(
                f,
                "\"{path}\" is of format {found}, this program reads {}; use the release of Perdure that made it",
                crate::layout::FORMAT_VERSION
            ),
            K::Damaged { path, offset, what } => write!(
                f,
                "heap \"{path}\": damaged at offset {offset}: {what}; \"perdure check {path}\" says what can be saved"
            ),
            K::JournalMissing { path, journal } => write!(
                f,
                "heap \"{path}\": its journal \"{journal}\" is missing, and the last commits may be in it; put it back beside \
                 the heap (the two belong together when a heap is moved or copied), or, if it is lost, go back to the last \
                 checkpoint with \"perdure check --discard-journal {path}\""
            ),
            K::JournalForeign { path, journal } => write!(
                f,
                "heap \"{path}\": \"{journal}\" is not its journal but another heap's or no journal at all; put the right one beside \
                 the heap, or, if it is lost, go back to the last checkpoint with \"perdure check --discard-journal {path}\""
            ),
            K::JournalCut {
                path,
                journal,
                bytes,
            } => write!(
                f,
                "heap \"{path}\": its journal \"{journal}\" was cut to {bytes} bytes, and the last commits may have been behind them; put \
                 the whole one back, or, if it is lost, go back to the last checkpoint with \"perdure check --discard-journal {path}\""
            ),
            K::Locked {
                path,
                waited_ms,
                writer_pid,
            } => {
                write!(f, "heap \"{path}\": another process is writing")?;
                if *writer_pid != 0 {
                    write!(f, " (process {writer_pid})")?;
                }
                write!(
                    f,
                    "; waited {:.1} s for it; wait longer with --lock-timeout=SECONDS, or read the last commit with --snapshot",
                    *waited_ms as f64 / 1000.0
                )
            }
            K::Full {
                path,
                limit_bytes,
                wanted_bytes,
            } => write!(
                f,
                "heap \"{path}\": full: {wanted_bytes} more bytes do not fit below its limit of {limit_bytes} bytes; \
                 the heap is as of its last commit: delete from it, or start a larger one"
            ),
            K::MemoryFull {
                limit_bytes,
                wanted_bytes,
            } => write!(
                f,
                "memory is full: {wanted_bytes} more bytes do not fit into the {limit_bytes} bytes that arrays in no heap file may \
                 take; let the process have more address space (ulimit -v), or the program keep less"
            ),
            K::Untrusted { path, why } => write!(
                f,
                "heap \"{path}\": refused, because {why}; whoever can write a heap can change your data: \
                 chmod or chown it, or, if you trust its writers, say so (--trust)"
            ),
            K::Poisoned { path } => write!(
                f,
                "heap \"{path}\": an earlier flush failed, so what is on the medium is not known; open the heap again: it will \
                 be at its last commit that reached the medium, or a later one"
            ),
            K::NotAWriter { path, action } => {
                write!(
                    f,
                    "heap \"{path}\": cannot {action}: it is open as a snapshot, whose changes are private"
                )
            }
            K::NoAddressSpace {
                wanted_bytes,
                source,
            } => write!(
                f,
                "cannot reserve {wanted_bytes} bytes of address space: {source}; is there a limit (ulimit -v)?"
            ),
            K::AddressTaken {
                address,
                wanted_bytes,
                source,
            } => write!(
                f,
                "cannot have the {wanted_bytes} bytes at address {address:#x}, where this heap's data say that it lies: {source}; \
                 is it open in this process already, or another heap with the same home?"
            ),
            K::TooManyRegions => write!(f, "64 heaps are open in this process already; close one"),
            K::NoPageTracking { source } => write!(
                f,
                "cannot find out which pages are written to: {source}{}",
                match limit_of(source) {
                    "" => "; is /proc mounted?",
                    limit => limit,
                }
            ),
            K::StoredMeanwhile { path, address } => write!(
                f,
                "heap \"{path}\": nothing was committed: another thread stored near {address:#x} while the commit was taken; \
                 let threads store between perdure_begin and perdure_end"
            ),
        }
    }
}
