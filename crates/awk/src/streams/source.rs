//! Inputs that may be waited for only so long.
//!
//! Invariant: a read that takes longer than its limit gives `ETIMEDOUT`, and loses nothing: what arrives later is there for
//! the next read. Only one read of a run is under way at a time, so that one [`Patience`] serves all its inputs.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `ETIMEDOUT` and `EIO`, Linux's numbers.
const TIMED_OUT: i32 = 110;
const IO_ERROR: i32 = 5;

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
