//! Inputs that may be waited for only so long, and files that may be closed meanwhile.
//!
//! Invariant: a read that takes longer than its limit gives `ETIMEDOUT`, and loses nothing: what arrives later is there for
//! the next read. A parked file is read on where it was, or not at all. Only one read of a run is under way at a time, so that one [`Patience`] serves all its inputs.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `ETIMEDOUT` and `EIO`, Linux's numbers.
const TIMED_OUT: i32 = 110;
const IO_ERROR: i32 = 5;
/// `ESTALE`.
const STALE: i32 = 116;

/// How long reads wait.
#[derive(Debug, Default)]
pub struct Patience {
    /// The limit of the next read, 0 for none.
    limit_ms: Cell<u64>,
    /// The limit where the program says nothing.
    pub(super) usual_ms: Cell<u64>,
    /// Each read first asks the machine for its limit, because the program may have changed it (PROCINFO).
    asks: Cell<bool>,
    is_told: Cell<bool>,
}

/// "Tell me the limit, then read again": see [`wants_limit`].
#[derive(Debug)]
struct WantsLimit;

impl fmt::Display for WantsLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the limit of the wait is not known")
    }
}

impl std::error::Error for WantsLimit {}

/// Whether a read failed only because it wants to be told its limit by [`Patience::tell`].
pub fn wants_limit(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<WantsLimit>())
}

/// Whether a read that failed so may succeed when it is tried again: it took too long, or nothing was there.
pub fn may_retry(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl Patience {
    /// From now on each read asks for its limit.
    pub fn ask(&self) {
        self.asks.set(true);
    }

    /// Limits the next read; 0 lets it wait for ever, `None` is the usual limit.
    pub fn tell(&self, limit_ms: Option<u64>) {
        self.limit_ms.set(limit_ms.unwrap_or(self.usual_ms.get()));
        self.is_told.set(true);
    }

    /// Whether reads may not wait for ever, or have to ask.
    pub(super) fn is_limited(&self) -> bool {
        self.asks.get() || self.usual_ms.get() > 0
    }

    fn wait(&self, source: &impl AsFd) -> io::Result<()> {
        if self.asks.get() {
            if !self.is_told.replace(false) {
                return Err(io::Error::other(WantsLimit));
            }
        } else {
            self.limit_ms.set(self.usual_ms.get());
        }
        let limit_ms = self.limit_ms.get();
        if limit_ms == 0 {
            return Ok(());
        }
        let end = Instant::now() + Duration::from_millis(limit_ms);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(io::Error::other)?;
            let mut fds = [PollFd::new(source, PollFlags::IN)];
            match poll(&mut fds, Some(&left)) {
                Ok(0) => return Err(io::Error::from_raw_os_error(TIMED_OUT)),
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A source that has a descriptor, read with [`Patience`].
pub(super) struct Waiting<R> {
    pub(super) inner: R,
    pub(super) patience: Rc<Patience>,
}

impl<R: Read + AsFd> Read for Waiting<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.patience.wait(&self.inner)?;
        self.inner.read(buf)
    }
}

/// A file of `getline`, shared by its reader and by [`super::Streams`], who parks it when descriptors run out.
#[derive(Clone)]
pub(super) struct InputFile {
    state: Rc<RefCell<State>>,
    patience: Rc<Patience>,
}

enum State {
    Open(File),
    /// Given up for a while.
    Parked {
        path: PathBuf,
        /// Device and inode.
        identity: (u64, u64),
        offset: u64,
    },
}

impl InputFile {
    pub(super) fn new(file: File, patience: Rc<Patience>) -> InputFile {
        InputFile {
            state: Rc::new(RefCell::new(State::Open(file))),
            patience,
        }
    }

    pub(super) fn is_parked(&self) -> bool {
        matches!(*self.state.borrow(), State::Parked { .. })
    }

    /// Closes a regular file that a path leads to; false for anything else: it would not be the same when it is opened again.
    pub(super) fn park(&self) -> bool {
        let parked = match &*self.state.borrow() {
            State::Open(file) => whereabouts(file),
            State::Parked { .. } => None,
        };
        let is_parked = parked.is_some();
        if let Some(parked) = parked {
            *self.state.borrow_mut() = parked;
        }
        is_parked
    }

    /// Opens it again where it was.
    pub(super) fn reopen(&self) -> io::Result<()> {
        let file = match &*self.state.borrow() {
            State::Open(_) => return Ok(()),
            State::Parked {
                path,
                identity,
                offset,
            } => {
                let mut file = File::open(path)?;
                let meta = file.metadata()?;
                if (meta.dev(), meta.ino()) != *identity {
                    return Err(io::Error::from_raw_os_error(STALE));
                }
                file.seek(SeekFrom::Start(*offset))?;
                file
            }
        };
        *self.state.borrow_mut() = State::Open(file);
        Ok(())
    }
}

/// How a file is found again. The system knows its path now: the program may have changed directory, or renamed it.
fn whereabouts(mut file: &File) -> Option<State> {
    let meta = file.metadata().ok()?;
    let identity = (meta.dev(), meta.ino());
    if !meta.is_file() {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let found = std::fs::metadata(&path).ok()?;
    Some(State::Parked {
        offset: file.stream_position().ok()?,
        path: ((found.dev(), found.ino()) == identity).then_some(path)?,
        identity,
    })
}

impl Read for InputFile {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        // `Streams::input_file` has opened it again, with other files parked if need be.
        self.reopen()?;
        match &mut *self.state.borrow_mut() {
            State::Open(file) => {
                self.patience.wait(&*file)?;
                file.read(buf)
            }
            State::Parked { .. } => Err(io::Error::from_raw_os_error(STALE)),
        }
    }
}

/// The process's standard input, past the standard library's buffer: the engine buffers by itself.
pub(super) struct Stdin;

impl Read for Stdin {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), buf)?)
    }
}

impl AsFd for Stdin {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        rustix::stdio::stdin()
    }
}

/// The master side of a pseudo-terminal. When the last process on the other side is gone, Linux gives `EIO`: the end.
pub(super) struct Terminal(pub(super) std::fs::File);

impl Read for Terminal {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf) {
            Err(error) if error.raw_os_error() == Some(IO_ERROR) => Ok(0),
            result => result,
        }
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}
