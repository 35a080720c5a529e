//! Outputs of several hosts that become one here, in the helper of the stage that prints them.
//!
//! The invariant: what is written is a beginning of what one process would have printed, whatever is cut when: nothing is written after a
//! part ended before its end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use shell_plan::plan::Combiner;

use super::remote::settled;
use crate::combine::{self, Failure, Part, Room};
use crate::flow::{Incoming, Outgoing, Tally, locked};
use crate::wire::ToBroker;

/// The number of the first descriptor that is neither input, output nor errors.
const FIRST_PART: i32 = 3;

/// Outputs that are to become one.
pub struct Parts {
    /// They, in their order.
    pub parts: Vec<Incoming>,
    /// By what means; none: there is but one.
    pub how: Option<Combiner>,
    /// Where they go.
    pub into: OwnedFd,
    /// The last of it is held back; see [`Held`].
    pub holds_back: bool,
    /// Set if something was not held back as long as it should have been.
    pub is_early: Arc<AtomicBool>,
    /// Grows by what is written.
    pub tally: Arc<Tally>,
}

/// How a helper puts outputs together.
pub struct Joining {
    /// The stage's command, which some outputs are put together by.
    program: PathBuf,
    /// Signals that it does not get.
    ignored: SigSet,
    child: Mutex<Option<Child>>,
    is_stopped: AtomicBool,
}

/// Writes, and counts what was written.
struct Counted {
    file: File,
    tally: Arc<Tally>,
    /// Why it could be written no more.
    failed: Option<Errno>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let wrote = self.file.write(bytes).inspect_err(|error| {
            if error.kind() != io::ErrorKind::Interrupted {
                self.failed = Errno::from_io_error(error);
            }
        })?;
        self.tally.add(&bytes[..wrote]);
        Ok(wrote)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes, and holds the last of it back until all has ended well, so that what was written when somebody complains is what a single process would have written
/// by then, whatever it keeps in a buffer of its own. Whoever reads it waits for that no longer than [`HELD_BACK_TIME`].
struct Held(Arc<Mutex<HeldState>>);

struct HeldState {
    into: Counted,
    bytes: Vec<u8>,
    since: Instant,
    holds: bool,
}

/// How much is held back: more than any command keeps in a buffer.
const HELD_BACK: usize = 64 << 10;
/// And how long at most.
const HELD_BACK_TIME: Duration = Duration::from_secs(1);

impl Held {
    fn new(into: Counted, holds: bool, is_early: Arc<AtomicBool>) -> Held {
        let state = Arc::new(Mutex::new(HeldState {
            into,
            bytes: Vec::new(),
            since: Instant::now(),
            holds,
        }));
        if holds {
            let state = Arc::downgrade(&state);
            std::thread::spawn(move || release(&state, &is_early));
        }
        Held(state)
    }

    /// Nothing comes any more: what is held back is written if all has ended well. Gives back why it could not be written, if so.
    fn end(self, is_well: bool) -> Option<Errno> {
        let mut state = locked(&self.0);
        state.holds = false;
        let rest = std::mem::take(&mut state.bytes);
        if is_well {
            let _ = state.into.write_all(&rest);
        }
        let settled = settled(&state.into.file).err();
        state.into.failed.or(settled)
    }
}

impl Write for Held {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = locked(&self.0);
        if !state.holds {
            return state.into.write(bytes);
        }
        if state.bytes.is_empty() {
            state.since = Instant::now();
        }
        state.bytes.extend_from_slice(bytes);
        let excess = state.bytes.len().saturating_sub(HELD_BACK);
        if excess > 0 {
            let excess: Vec<u8> = state.bytes.drain(..excess).collect();
            // What is left has come lately.
            state.since = Instant::now();
            state.into.write_all(&excess)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Has what was held back for too long written, and nothing held back any more.
fn release(state: &Weak<Mutex<HeldState>>, is_early: &AtomicBool) {
    loop {
        std::thread::sleep(HELD_BACK_TIME / 8);
        let Some(state) = state.upgrade() else {
            return;
        };
        let mut state = locked(&state);
        if !state.holds {
            return;
        }
        if !state.bytes.is_empty() && state.since.elapsed() >= HELD_BACK_TIME {
            is_early.store(true, Ordering::SeqCst);
            state.holds = false;
            let bytes = std::mem::take(&mut state.bytes);
            // Who writes next meets what is wrong, or who ends.
            let _ = state.into.write_all(&bytes);
            return;
        }
    }
}

impl Joining {
    /// `ignored`: the signals that this process did not get before it began to stand for a command.
    pub fn new(program: PathBuf, ignored: SigSet) -> Joining {
        Joining {
            program,
            ignored,
            child: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        }
    }

    /// What is still to come never will: nothing more is written by a command that would take that for an end.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        if let Some(child) = &mut *locked(&self.child) {
            let _ = child.kill();
        }
    }

    /// Puts outputs together. If they do not fit, all is to run here.
    ///
    /// # Errors
    /// Why they could not be written.
    pub fn join(&self, parts: Parts, out: &Outgoing) -> Result<(), Errno> {
        let into = Counted {
            file: File::from(parts.into),
            tally: parts.tally,
            failed: None,
        };
        let mut into = Held::new(into, parts.holds_back, parts.is_early);
        let how = parts.how.unwrap_or(Combiner::Concat);
        let joined = match &how {
            Combiner::Merge(words) => self.by_names(words, parts.parts, &mut into),
            Combiner::Again(words) => {
                self.by_input(words, &Combiner::Concat, parts.parts, &mut into)
            }
            Combiner::Sums { words, .. } => self.by_input(words, &how, parts.parts, &mut into),
            how => {
                let room = Room::of_this_machine();
                let parts = parts.parts.into_iter();
                let parts = parts.map(|part| -> Part { Box::new(part) }).collect();
                combine::combine(how, parts, &mut into, &room)
            }
        };
        let failed = into.end(joined.is_ok() && !self.is_stopped.load(Ordering::SeqCst));
        match (joined, failed) {
            (Ok(()), None) => Ok(()),
            // That is not the fault of the parts. A temporary file that cannot be written is something else.
            (_, Some(errno)) => Err(errno),
            (Err(_), None) => {
                out.tell(&ToBroker::Abandon);
                Ok(())
            }
        }
    }

    /// By a command that reads parts by their names.
    fn by_names(
        &self,
        words: &[Vec<u8>],
        parts: Vec<Incoming>,
        into: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (mut mappings, mut names) = (Vec::new(), Vec::new());
        let mut feeds = Vec::new();
        for (part, number) in parts.into_iter().zip(FIRST_PART..) {
            let (read, write) = pipe()?;
            mappings.push(FdMapping {
                parent_fd: read,
                child_fd: number,
            });
            names.push(format!("/dev/fd/{number}").into_bytes());
            feeds.push((part, write));
        }
        let words = combine::by_names(words, &names);
        let mut command = self.command(&words)?;
        command.stdin(Stdio::null());
        command
            .fd_mappings(mappings)
            .map_err(|_| Failure::Unfit("two parts under one name".into()))?;
        self.run(command, feeds, into)
    }

    /// By a command that reads on its standard input what the parts come to.
    fn by_input(
        &self,
        words: &[Vec<u8>],
        how: &Combiner,
        parts: Vec<Incoming>,
        into: &mut dyn Write,
    ) -> Result<(), Failure> {
        let (read, write) = pipe()?;
        let mut command = self.command(words)?;
        command.stdin(read);
        let room = Room::of_this_machine();
        let parts = parts.into_iter();
        let parts = parts.map(|part| -> Part { Box::new(part) }).collect();
        let how = how.clone();
        let feed = std::thread::spawn(move || {
            let mut write = File::from(write);
            combine::combine(&how, parts, &mut write, &room)
        });
        self.run(command, Vec::new(), into)?;
        match feed.join() {
            // It may have read enough.
            Ok(Err(Failure::Io(error))) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Ok(fed) => fed,
            Err(_) => Err(Failure::Unfit("a part was not read".into())),
        }
    }

    fn command(&self, words: &[Vec<u8>]) -> Result<Command, Failure> {
        let name = words.first();
        let name = name.ok_or_else(|| Failure::Unfit("a command without a name".into()))?;
        let mut command = Command::new(&self.program);
        command.arg0(std::ffi::OsStr::from_bytes(name));
        command.args(
            words[1..]
                .iter()
                .map(|word| std::ffi::OsStr::from_bytes(word)),
        );
        command.stdout(Stdio::piped());
        Ok(command)
    }

    fn run(
        &self,
        mut command: Command,
        feeds: Vec<(Incoming, OwnedFd)>,
        into: &mut dyn Write,
    ) -> Result<(), Failure> {
        let mut output = {
            let mut child = locked(&self.child);
            if self.is_stopped.load(Ordering::SeqCst) {
                return Ok(());
            }
            let mine = self.ignored.thread_swap_mask(SigmaskHow::SIG_SETMASK);
            let spawned = command.spawn();
            if let Ok(mine) = mine {
                let _ = mine.thread_set_mask();
            }
            // Its ends of the pipes are its own from here on.
            drop(command);
            let mut spawned = spawned?;
            let output = spawned.stdout.take();
            *child = Some(spawned);
            output.ok_or_else(|| Failure::Unfit("a command without output".into()))?
        };
        for (mut part, pipe) in feeds {
            std::thread::spawn(move || io::copy(&mut part, &mut File::from(pipe)));
        }
        let copied = io::copy(&mut output, into);
        drop(output);
        let status = locked(&self.child).take().map(|mut child| child.wait());
        copied?;
        match status {
            _ if self.is_stopped.load(Ordering::SeqCst) => Ok(()),
            Some(Ok(status)) if status.success() => Ok(()),
            _ => Err(Failure::Unfit("the command that merges them failed".into())),
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    fn held(file: &File) -> (Held, Arc<Tally>, Arc<AtomicBool>) {
        let (tally, is_early) = (Arc::<Tally>::default(), Arc::<AtomicBool>::default());
        let into = Counted {
            file: file.try_clone().unwrap(),
            tally: tally.clone(),
            failed: None,
        };
        (Held::new(into, true, is_early.clone()), tally, is_early)
    }

    fn content(mut file: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_last_of_it_is_written_at_a_good_end_alone() {
        let all: Vec<u8> = (0..200_000_u32).map(|at| at as u8).collect();
        for is_well in [true, false] {
            let file = tempfile::tempfile().unwrap();
            let (mut held, tally, is_early) = held(&file);
            for piece in all.chunks(7_000) {
                held.write_all(piece).unwrap();
            }
            assert_eq!(tally.sum().0, (all.len() - HELD_BACK) as u64);
            assert_eq!(held.end(is_well), None);
            let written = if is_well {
                all.len()
            } else {
                all.len() - HELD_BACK
            };
            assert_eq!(content(file), all[..written]);
            assert_eq!(tally.sum().0, written as u64);
            assert!(!is_early.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn nobody_waits_for_it_for_long() {
        let file = tempfile::tempfile().unwrap();
        let (mut held, tally, is_early) = held(&file);
        held.write_all(b"first").unwrap();
        assert_eq!(tally.sum().0, 0);
        let until = Instant::now() + 30 * HELD_BACK_TIME;
        while tally.sum().0 == 0 && Instant::now() < until {
            std::thread::sleep(HELD_BACK_TIME / 20);
        }
        assert!(is_early.load(Ordering::SeqCst));
        held.write_all(b" second").unwrap();
        assert_eq!(tally.sum().0, 12);
        assert_eq!(held.end(false), None);
        assert_eq!(content(file), b"first second");
    }
}
