//! Errors of those whose outputs are put together, where there must be none: messages have a place among the output that is not known then.
//!
//! The invariant: nothing is written that was made after a complaint. Who complains does so before what it prints next, and before its end; so what it
//! said can be read when that can.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Somebody listens to errors.
pub struct Quiet {
    errors: Arc<File>,
    has_heard: Arc<AtomicBool>,
    listener: JoinHandle<()>,
}

impl Quiet {
    /// Begins to listen. Whoever complains is not held up.
    pub fn listen(errors: OwnedFd) -> Quiet {
        let errors = Arc::new(File::from(errors));
        let has_heard = Arc::new(AtomicBool::new(false));
        let listener = {
            let (errors, has_heard) = (errors.clone(), has_heard.clone());
            move || {
                // What can be read is left there until everybody knows.
                if !is_silent(&errors, None) {
                    has_heard.store(true, Ordering::SeqCst);
                    let _ = io::copy(&mut &*errors, &mut io::sink());
                }
            }
        };
        Quiet {
            errors,
            has_heard,
            listener: std::thread::spawn(listener),
        }
    }

    fn complains(&self) -> bool {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        !is_silent(&self.errors, Some(&now)) || self.has_heard.load(Ordering::SeqCst)
    }

    /// Whether anybody has complained, when all have ended.
    pub fn ends(self) -> bool {
        let is_known = self.listener.join().is_ok();
        !is_known || self.has_heard.load(Ordering::SeqCst)
    }
}

/// Whether nothing can be read, now or until the end.
fn is_silent(errors: &File, most: Option<&Timespec>) -> bool {
    loop {
        let mut polled = [PollFd::new(errors, PollFlags::IN)];
        match poll(&mut polled, most) {
            Ok(_) => return !polled[0].revents().contains(PollFlags::IN),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

/// What is said of a part that complains.
pub const COMPLAINS: &str = "a part of it complains";

/// Writes as long as nobody has complained.
pub struct Checked<'a> {
    /// Where to.
    pub into: &'a mut (dyn Write + Send),
    /// Who would have; none: nobody minds.
    pub quiet: Option<&'a Quiet>,
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.quiet.is_some_and(Quiet::complains) {
            return Err(io::Error::other(COMPLAINS));
        }
        self.into.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn pipe() -> (OwnedFd, File) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        (read, File::from(write))
    }

    #[test]
    fn nothing_is_written_behind_a_complaint() {
        for _ in 0..200 {
            let (errors, mut said) = pipe();
            let quiet = Quiet::listen(errors);
            let mut written = Vec::new();
            let mut into = Checked {
                into: &mut written,
                quiet: Some(&quiet),
            };
            into.write_all(b"before").unwrap();
            said.write_all(b"a complaint").unwrap();
            let error = into.write_all(b"behind").unwrap_err();
            assert_eq!(error.to_string(), COMPLAINS);
            assert!(into.write_all(b"behind").is_err());
            drop(said);
            assert_eq!(written, b"before");
            assert!(quiet.ends());
        }
    }

    #[test]
    fn who_says_nothing_is_waited_for() {
        let (errors, said) = pipe();
        let second = said.as_fd().try_clone_to_owned().unwrap();
        let quiet = Quiet::listen(errors);
        assert!(!quiet.complains());
        drop(said);
        assert!(!quiet.complains());
        drop(second);
        assert!(!quiet.complains());
        assert!(!quiet.ends());
    }

    #[test]
    fn who_complains_much_is_not_held_up() {
        let (errors, mut said) = pipe();
        let quiet = Quiet::listen(errors);
        said.write_all(&vec![b'x'; 1 << 20]).unwrap();
        drop(said);
        assert!(quiet.ends());
    }
}
