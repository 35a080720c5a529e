//! Who writes and who reads: open-file-description locks on bytes far beyond the end of the heap file. They die with
//! the process (or the last descriptor), so there is nothing to clean up after a crash.
//!
//! | bytes | held by | shared | meaning |
//! |---|---|---|---|
//! | `WRITER` | the writer | no | at most one writer |
//! | `OPENING` | a reader that opens, shortly | yes | the writer does not touch the committed bytes meanwhile |
//! | | the writer that applies or recycles, shortly | no | a reader that opens waits for it |
//! | `PINS + seq` | a reader of commit `seq` | yes | nothing after `seq` may be applied to the heap file |
//!
//! Volatile and simulated storages have no locks ([`Locks::none`]): they have one user.

use crate::layout::COUNT_MAX;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

const WRITER: i64 = 1 << 61;
const OPENING: i64 = WRITER + 1;
const PINS: i64 = 1 << 62;

/// The lock operations on one heap file, or on none.
pub(crate) struct Locks {
    file: Option<File>,
}

impl Locks {
    pub(crate) fn none() -> Locks {
        Locks { file: None }
    }

    /// All locks of one user go through this descriptor. Its description should be nobody else's: whoever has it holds the
    /// locks.
    pub(crate) fn on(file: File) -> Locks {
        Locks { file: Some(file) }
    }

    /// The file whose bytes are locked.
    pub(crate) fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    fn set(&self, kind: i32, start: i64, len: i64) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(true);
        };
        let request = request(kind, start, len);
        loop {
            // SAFETY: F_OFD_SETLK reads the flock structure during the call only.
            let code =
                unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const request) };
            if code == 0 {
                return Ok(true);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
                Some(libc::EINTR) => {}
                _ => return Err(error),
            }
        }
    }

    /// Whether somebody else holds a lock in the range that would keep an exclusive one from being taken.
    fn is_held(&self, start: i64, len: i64) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let mut request = request(libc::F_WRLCK, start, len);
        // SAFETY: F_OFD_GETLK writes into the flock structure during the call only.
        let code = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut request) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(i32::from(request.l_type) != libc::F_UNLCK)
    }

    /// Tries until `limit` has passed; `waiting` is called once, when it turns out that there is a wait.
    fn set_within(
        &self,
        kind: i32,
        start: i64,
        limit: Duration,
        waiting: &mut dyn FnMut(),
    ) -> io::Result<bool> {
        if self.set(kind, start, 1)? {
            return Ok(true);
        }
        // Polling, because F_OFD_SETLKW has no time limit and a signal handler is not ours to install.
        let begun = Instant::now();
        let mut pause = Duration::from_micros(200);
        let mut told = false;
        while begun.elapsed() < limit {
            if !told && begun.elapsed() > Duration::from_millis(500) {
                waiting();
                told = true;
            }
            std::thread::sleep(pause.min(limit.saturating_sub(begun.elapsed())));
            if self.set(kind, start, 1)? {
                return Ok(true);
            }
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(false)
    }

    /// Becomes the writer; false when another is after `limit`.
    pub(crate) fn lock_writer(
        &self,
        limit: Duration,
        waiting: &mut dyn FnMut(),
    ) -> io::Result<bool> {
        self.set_within(libc::F_WRLCK, WRITER, limit, waiting)
    }

    /// A reader starts to open: waits for a writer that is just applying.
    pub(crate) fn begin_opening(&self, limit: Duration) -> io::Result<bool> {
        self.set_within(libc::F_RDLCK, OPENING, limit, &mut || ())
    }

    /// A reader has opened commit `seq`: it pins it.
    pub(crate) fn end_opening(&self, seq: u64) -> io::Result<()> {
        let pinned = self.set(libc::F_RDLCK, PINS + seq.min(COUNT_MAX).cast_signed(), 1)?;
        debug_assert!(pinned, "pins are shared and nobody takes them exclusively");
        self.release_opening()
    }

    /// A reader that pins a commit already has looked at the files again, between [`Locks::begin_opening`] and this.
    pub(crate) fn release_opening(&self) -> io::Result<()> {
        self.set(libc::F_UNLCK, OPENING, 1).map(drop)
    }

    /// The writer wants to bring the heap file to commit `seq`: false while a reader opens or pins an earlier one.
    /// Never waits. After true, [`Locks::end_apply`] is owed.
    pub(crate) fn begin_apply(&self, seq: u64) -> io::Result<bool> {
        if !self.set(libc::F_WRLCK, OPENING, 1)? {
            return Ok(false);
        }
        if self.is_held(PINS, seq.min(COUNT_MAX).cast_signed())? {
            self.end_apply()?;
            return Ok(false);
        }
        Ok(true)
    }

    pub(crate) fn end_apply(&self) -> io::Result<()> {
        self.set(libc::F_UNLCK, OPENING, 1).map(drop)
    }
}

fn request(kind: i32, start: i64, len: i64) -> libc::flock {
    // SAFETY: flock is a plain C structure for which all zeros is valid; OFD locks want l_pid to be 0.
    let mut request: libc::flock = unsafe { std::mem::zeroed() };
    request.l_type = kind as libc::c_short;
    request.l_whence = libc::SEEK_SET as libc::c_short;
    request.l_start = start;
    request.l_len = len;
    request
}
