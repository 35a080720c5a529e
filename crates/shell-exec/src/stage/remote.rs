//! A stage that runs elsewhere: this process stands for it here, in the place that the shell made for it.
//!
//! It reads and writes the descriptors that the shell gave it, so that whoever is at their other ends (pipes, terminals, files with limits)
//! meets a process as always; it passes signals on; and it ends as the command ended.
//!
//! The invariant: as long as the command has not been told to run elsewhere nothing was read, and nothing is lost by running it here.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, Signal, raise, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;

use super::join::{Joining, Parts};
use super::progress::Progress;
use super::refresh::Changed;
use crate::flow::{Inbox, Incoming, Outgoing, PIPE_BYTES, Tally, Window, receive_all, send_all};
use crate::wire::{
    Ending, FIRST_IN, Frame, FromBroker, Output, PASSED_ON, StageCall, Standing, Stdio, ToBroker,
    WINDOW,
};

/// How long a broker may take to say anything at all.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long neighbours are waited for by a shim, which does not know whether there are any. The shell starts the stages of a pipeline one after the other,
/// at once.
const GRACE: Duration = Duration::from_millis(5);
/// And by a stage that knows of them. One that has failed to start is known by its pipe; others may be held up.
const LONG_GRACE: Duration = Duration::from_millis(400);

/// What became of a stage.
pub enum Outcome {
    /// It runs here, from the beginning, and why.
    Here(String),
    /// It ran, and ended so.
    Ended(Ending),
    /// It was begun elsewhere, and cannot be ended so; it runs here, from the beginning: all is as it was then.
    Back,
    /// It was begun elsewhere and can be begun again here, with these signals held back; what was written already is to be left out.
    Again(Written, SigSet),
    /// Nobody knows what became of it.
    Lost(String),
}

/// Why nothing more comes from the broker.
const GONE: &str = "nearsh's process in the background ended";
/// What should never be said.
const PUZZLING: &str = "nearsh's process in the background said what makes no sense";

/// How many bytes were written for a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// To standard output.
    pub output: u64,
    /// The XXH3-64 of that.
    pub checksum: u64,
    /// To standard error.
    pub errors: u64,
    /// More of the output than one process would have written before it complained.
    pub is_early: bool,
}

/// Signals that are held back, and given back when this is dropped.
struct Held {
    before: SigSet,
}

impl Held {
    fn hold(signals: &SigSet) -> Option<Held> {
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(signals), Some(&mut before)).ok()?;
        Some(Held { before })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

/// Has a stage run wherever the broker says.
pub fn run(broker: UnixStream, call: StageCall, list: &dyn Fn(&str), changed: Changed) -> Outcome {
    let program = PathBuf::from(OsStr::from_bytes(&call.program));
    let ignored = call.limits.ignored.clone();
    let is_loose = call.helpers.is_empty();
    let command = OsString::from_vec(call.words.first().cloned().unwrap_or_default());
    let is_written_there = matches!(call.stdio[1], Stdio::There { .. });
    let grace = Some(if is_loose { GRACE } else { LONG_GRACE });
    let follows = (call.place.as_ref()).is_ok_and(|place| place.touched.is_empty());
    let follows = is_loose && follows && matches!(call.stdio[0], Stdio::Pipe(_));
    let stdio = call.stdio.clone();
    let mut signals = SigSet::empty();
    for signal in PASSED_ON {
        if !ignored.contains(&(signal as i32)) {
            signals.add(signal);
        }
    }
    let mut held_back = signals;
    held_back.add(Signal::SIGPIPE);
    let Some(held) = Held::hold(&held_back) else {
        return Outcome::Here(String::new());
    };
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK);
    let (Ok(signals), Ok(write)) = (signals, broker.try_clone()) else {
        return Outcome::Here(String::new());
    };
    let mut write = write;
    let asked = Frame::of(&ToBroker::Stage(Box::new(call))).write(&mut write);
    if asked.is_err() {
        return Outcome::Here(String::new());
    }
    let waiting = Waiting {
        signals: &signals,
        held: &held,
        held_back: &held_back,
        follows,
        stdio,
    };
    let role = match waiting.answer(&broker, grace) {
        Ok(role) => role,
        Err(why) => return Outcome::Here(why),
    };
    list(&format!("on {}", role.host));
    let counts = !role.stdout.streams.is_empty();
    // Of several that run there together the last one tells of all.
    let progress = if counts || is_written_there {
        Progress::begin(&role.host, &command, counts)
    } else {
        None
    };
    let incoming = role.stdout.streams.iter().chain(&role.stderr.streams);
    let outgoing = (role.stdin.iter()).chain(role.files.iter().map(|(stream, _)| stream));
    let stage = Stage {
        progress,
        complaints: role.stderr.streams.clone(),
        changed: Arc::new(changed),
        out: Outgoing::new(write, |_| {}),
        windows: outgoing
            .map(|&stream| (stream, Window::new(FIRST_IN)))
            .collect(),
        inboxes: incoming.map(|&stream| (stream, Inbox::new())).collect(),
        pumps: Mutex::default(),
        output_failed: Arc::default(),
        has_ended: AtomicBool::new(false),
        is_lost: Arc::default(),
        writes: !role.stdout.streams.is_empty(),
        is_last: role.is_last,
        has_told: Arc::default(),
        again: role.again,
        ignores_pipe: ignored.contains(&(Signal::SIGPIPE as i32)),
        began_at: beginning(),
        written: Default::default(),
        is_early: Arc::default(),
        joining: Arc::new(Joining::new(program, held.before)),
    };
    let outcome = stage.serve(&broker, signals, &role);
    // All threads keep signals back from here on: those that are to end this process come last.
    let before = held.before;
    if matches!(outcome, Outcome::Back) {
        drop(held);
    } else {
        std::mem::forget(held);
    }
    match outcome {
        Outcome::Again(written, _) => Outcome::Again(written, before),
        outcome => outcome,
    }
}

/// Where standard output is, if that is a file: its length if all is written to its end.
fn beginning() -> Option<u64> {
    let stdout = rustix::stdio::stdout();
    let stat = rustix::fs::fstat(stdout).ok()?;
    if stat.st_mode & 0o170_000 != 0o100_000 {
        return None;
    }
    if appends() {
        return u64::try_from(stat.st_size).ok();
    }
    seek(stdout, SeekFrom::Current(0)).ok()
}

fn appends() -> bool {
    rustix::fs::fcntl_getfl(rustix::stdio::stdout())
        .is_ok_and(|flags| flags.contains(rustix::fs::OFlags::APPEND))
}

/// Has standard output, if it grows at its end, end there again.
fn ends_at(at: u64) -> bool {
    let cut = || {
        let stdout = rustix::stdio::stdout().try_clone_to_owned()?;
        File::from(stdout).set_len(at)
    };
    !appends() || cut().is_ok()
}

/// Has the kernel say now what it would say when a file is closed: that of a mount tells only then that there is no more room, and only whoever
/// closes it first.
pub(super) fn settled(file: impl AsFd) -> Result<(), Errno> {
    let Ok(copy) = file.as_fd().try_clone_to_owned() else {
        return Ok(());
    };
    nix::unistd::close(copy).map_err(|error| Errno::from_raw_os_error(error as i32))
}

/// A stage that nobody has told where to run.
struct Waiting<'a> {
    signals: &'a SignalFd,
    held: &'a Held,
    held_back: &'a SigSet,
    /// It was called by a shim, and what it reads may come from another one.
    follows: bool,
    stdio: [Stdio; 2],
}

impl Waiting<'_> {
    /// Waits for what the broker says. `grace`: how long for neighbours.
    ///
    /// # Errors
    /// Why the command is to run here.
    fn answer(self, broker: &UnixStream, mut grace: Option<Duration>) -> Result<Standing, String> {
        let Waiting {
            signals,
            held,
            held_back,
            follows,
            stdio,
        } = self;
        let mut patience = Some(PATIENCE);
        // Where neighbours may be, as far as is known.
        let mut ends = stdio.map(|stdio| match stdio {
            Stdio::Pipe(_) => Some(stdio),
            _ => None,
        });
        loop {
            let most = grace.or(patience).map(|p| Timespec {
                tv_sec: p.as_secs().cast_signed(),
                tv_nsec: p.subsec_nanos().into(),
            });
            let (stdin, stdout) = (rustix::stdio::stdin(), rustix::stdio::stdout());
            let input = if follows {
                PollFlags::IN
            } else {
                PollFlags::empty()
            };
            let mut polled = vec![
                PollFd::new(broker, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
            ];
            // That nobody has a pipe's other end any more is said without being asked for.
            let sides = [
                PollFd::new(&stdin, input),
                PollFd::new(&stdout, PollFlags::empty()),
            ];
            let watched: Vec<usize> = (0..2)
                .filter(|&side| grace.is_some() && ends[side].is_some())
                .collect();
            polled.extend(watched.iter().map(|&side| sides[side].clone()));
            let came = match poll(&mut polled, most.as_ref()) {
                Ok(0) if grace.is_none() => {
                    return Err("nearsh's process in the background does not answer".into());
                }
                Ok(came) => came,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.to_string()),
            };
            let mut has_input = false;
            for (&side, polled) in watched.iter().zip(&polled[2..]) {
                let came = polled.revents();
                has_input |= came.contains(PollFlags::IN);
                if came.intersects(PollFlags::HUP | PollFlags::ERR) {
                    // The neighbour has failed to start, for a redirection of its own as a rule: nobody comes.
                    let end = ends[side].take().unwrap_or(Stdio::Here);
                    let _ = Frame::of(&ToBroker::Here {
                        stdio: [Stdio::Here, end],
                    })
                    .write(&mut &*broker);
                }
            }
            if grace.is_some() && (came == 0 || has_input) {
                // Who writes already, or does not come, is no neighbour that waits as we do.
                grace = None;
                let _ = Frame::of(&ToBroker::Alone).write(&mut &*broker);
                continue;
            }
            let (said, signalled) = (
                !polled[0].revents().is_empty(),
                !polled[1].revents().is_empty(),
            );
            if signalled {
                // Nothing runs yet: it means this process, as it would have meant the command.
                let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&held.before), None);
                if let Some(held) = Held::hold(held_back) {
                    std::mem::forget(held);
                }
            }
            if !said {
                continue;
            }
            // Read without a buffer: what follows belongs to somebody else.
            let payload = match Frame::read(&mut &*broker) {
                Ok(Some(Frame::Message(payload))) => payload,
                Ok(Some(_)) => return Err(PUZZLING.into()),
                _ => return Err(GONE.into()),
            };
            match Frame::message(&payload).map_err(|error| error.to_string())? {
                FromBroker::Wait => patience = None,
                FromBroker::Remote(standing) => {
                    if Frame::of(&ToBroker::Taken).write(&mut &*broker).is_err() {
                        return Err(GONE.into());
                    }
                    return Ok(standing);
                }
                FromBroker::Local { why } | FromBroker::Lost(why) => return Err(why),
                FromBroker::Exited { .. }
                | FromBroker::Done { .. }
                | FromBroker::Records(_)
                | FromBroker::Hosts { .. } => {
                    return Err(PUZZLING.into());
                }
            }
        }
    }
}

/// What this process has written to a file of a mount is on its way: to close a descriptor of it is to wait for that (FUSE_FLUSH). Else who asks for the
/// file's length is told the one that it has by then.
fn flush_output() -> io::Result<()> {
    drop(rustix::stdio::stdout().try_clone_to_owned()?);
    Ok(())
}

struct Stage {
    /// What people see of it meanwhile.
    progress: Option<Arc<Progress>>,
    /// Streams of standard error.
    complaints: Vec<u32>,
    changed: Arc<Changed>,
    out: Outgoing,
    /// Of standard input, and of files of this machine.
    windows: HashMap<u32, Arc<Window>>,
    /// Of standard output and error.
    inboxes: HashMap<u32, Arc<Inbox>>,
    pumps: Mutex<Vec<JoinHandle<()>>>,
    /// Why not all of that could be written.
    output_failed: Arc<Mutex<Option<Errno>>>,
    /// Whether the command has ended: standard output is closed then.
    has_ended: AtomicBool,
    /// Whether the rest will never come.
    is_lost: Arc<AtomicBool>,
    /// Whether its output comes to this process.
    writes: bool,
    /// Whether no stage of its group comes behind it.
    is_last: bool,
    /// Whether the broker was told that all is written.
    has_told: Arc<AtomicBool>,
    /// Whether the command can be begun again here.
    again: bool,
    /// Whether it would have been told that nobody reads its output, instead of being ended by a signal.
    ignores_pipe: bool,
    /// Where standard output was, if it is a file.
    began_at: Option<u64>,
    /// How many bytes were written to standard output and error.
    written: [Arc<Tally>; 2],
    /// As in [`Written::is_early`].
    is_early: Arc<AtomicBool>,
    joining: Arc<Joining>,
}

impl Stage {
    fn serve(&self, broker: &UnixStream, signals: SignalFd, role: &Standing) -> Outcome {
        {
            let (out, progress) = (self.out.clone(), self.progress.clone());
            std::thread::spawn(move || pass_signals(&signals, &out, progress.as_deref()));
        }
        if let Some(stream) = role.stdin
            && let Ok(fd) = rustix::stdio::stdin().try_clone_to_owned()
        {
            self.read_from(fd, stream);
        }
        for (stream, path) in &role.files {
            match File::open(OsStr::from_bytes(path)) {
                Ok(file) => self.read_from(file.into(), *stream),
                Err(_) => self.out.tell(&ToBroker::Abandon),
            }
        }
        let (stdout, stderr) = (rustix::stdio::stdout(), rustix::stdio::stderr());
        self.write_to(stdout.try_clone_to_owned(), 0, &role.stdout);
        self.write_to(stderr.try_clone_to_owned(), 1, &role.stderr);
        self.listen(broker)
    }

    /// Has what a descriptor gives sent on a stream.
    fn read_from(&self, fd: OwnedFd, stream: u32) {
        if let Some(window) = self.windows.get(&stream) {
            let (window, out) = (window.clone(), self.out.clone());
            std::thread::spawn(move || {
                // The command itself meets it.
                if send_all(fd, &window, &out, stream).is_err() {
                    out.tell(&ToBroker::Abandon);
                }
            });
        }
    }

    /// Has what comes for a descriptor written to it.
    fn write_to(&self, fd: io::Result<OwnedFd>, side: usize, output: &Output) {
        let inbox = |stream: &u32| {
            self.inboxes
                .get(stream)
                .map(|inbox| (*stream, inbox.clone()))
        };
        let streams: Vec<(u32, Arc<Inbox>)> = output.streams.iter().filter_map(inbox).collect();
        if streams.is_empty() {
            return;
        }
        let (out, how) = (self.out.clone(), output.how.clone());
        // On a terminal nobody counts the bytes, and somebody waits for them.
        let is_terminal = fd.as_ref().is_ok_and(rustix::termios::isatty);
        let holds_back = output.holds_back && !is_terminal;
        let is_early = self.is_early.clone();
        if output.holds_back && is_terminal {
            is_early.store(true, Ordering::SeqCst);
        }
        let failed = self.output_failed.clone();
        let (can_go_back, ignores_pipe) = (self.can_go_back(), self.again && self.ignores_pipe);
        let is_ended = !self.ignores_pipe;
        let (tally, joining) = (self.written[side].clone(), self.joining.clone());
        let pump = std::thread::spawn(move || {
            let written = match (fd, streams.as_slice(), how) {
                (Ok(fd), [(stream, inbox)], None) if !holds_back => {
                    let received = receive_all(&fd, inbox, &out, *stream, WINDOW, &tally);
                    received.and_then(|()| if side == 0 { settled(&fd) } else { Ok(()) })
                }
                (Ok(fd), _, how) => {
                    let parts = (streams.into_iter())
                        .map(|(stream, inbox)| Incoming::new(inbox, out.clone(), stream, WINDOW));
                    let parts = Parts {
                        parts: parts.collect(),
                        how,
                        into: fd,
                        holds_back,
                        is_early,
                        tally,
                    };
                    joining.join(parts, &out)
                }
                // It is closed: writing to it fails, for the command too.
                (Err(_), _, _) => {
                    for (stream, _) in streams {
                        out.send(Frame::Reset(stream));
                    }
                    Ok(())
                }
            };
            if (side, written) == (1, Err(Errno::PIPE)) && is_ended {
                // It would have been ended by its first message.
                out.tell(&ToBroker::Signal(Signal::SIGPIPE as i32));
            }
            if let (0, Err(error)) = (side, written) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                if can_go_back || ignores_pipe && error == Errno::PIPE {
                    out.tell(&ToBroker::Abandon);
                }
            }
        });
        self.pumps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(pump);
    }

    fn listen(&self, broker: &UnixStream) -> Outcome {
        let mut from = BufReader::with_capacity(crate::wire::PIECE + 4096, broker);
        let mut ended = None;
        loop {
            let frame = match Frame::read(&mut from) {
                Ok(Some(frame)) => frame,
                // The others have ended, or their output is nobody's.
                _ if self.is_last && self.has_told.load(Ordering::SeqCst) => {
                    return match ended {
                        Some(ending) => Outcome::Ended(ending),
                        None => self.lost(GONE.into()),
                    };
                }
                _ => return self.lost(GONE.into()),
            };
            match frame {
                Frame::Message(payload) => match Frame::message(&payload) {
                    Ok(FromBroker::Exited { ending, modes }) => {
                        ended = Some(ending);
                        for window in self.windows.values() {
                            window.close();
                        }

                        self.has_ended.store(true, Ordering::SeqCst);
                        self.finish(modes);
                    }
                    Ok(FromBroker::Done { positions }) => {
                        return match ended {
                            // It may have ended well, there; here it could not have written all of its output.
                            Some(_) if self.has_no_reader() => Outcome::Ended(Ending::UNREAD),
                            Some(ending) => match self.failure() {
                                Some(error) if error != Errno::PIPE => {
                                    Outcome::Lost(format!("its output cannot be written: {error}"))
                                }
                                _ => {
                                    go_on(positions);
                                    Outcome::Ended(ending)
                                }
                            },
                            None => Outcome::Lost("how it ended was not told".into()),
                        };
                    }
                    Ok(FromBroker::Lost(why)) => return self.lost(why),
                    _ => {}
                },
                Frame::Data(stream, bytes) => {
                    if let Some(progress) = &self.progress {
                        if self.complaints.contains(&stream) {
                            progress.end();
                        } else {
                            progress.comes(bytes.len());
                        }
                    }
                    if let Some(inbox) = self.inboxes.get(&stream) {
                        // One that sends too much is cut off as one that is damaged.
                        if inbox.push(bytes).is_err() {
                            return Outcome::Lost("more came than was asked for".into());
                        }
                    }
                }
                Frame::Credit(stream, bytes) => {
                    if let Some(window) = self.windows.get(&stream) {
                        window.add(bytes);
                    }
                }
                Frame::Reset(stream) => {
                    if let Some(window) = self.windows.get(&stream) {
                        window.close();
                    }
                }
                Frame::End(stream) => {
                    if let Some(inbox) = self.inboxes.get(&stream) {
                        inbox.end();
                    }
                }
            }
        }
    }

    /// Whether what cannot be written is met by the command itself, at the same byte: it begins again where the output began.
    fn can_go_back(&self) -> bool {
        self.again && self.began_at.is_some()
    }

    fn end_progress(&self) {
        if let Some(progress) = &self.progress {
            progress.end();
        }
    }

    fn failure(&self) -> Option<Errno> {
        *self
            .output_failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a signal would have ended the command, for nobody reads its output.
    fn has_no_reader(&self) -> bool {
        self.failure() == Some(Errno::PIPE) && !self.ignores_pipe
    }

    /// The command has ended; its last bytes are written by those who write them, then the broker is told.
    fn finish(&self, modes: Vec<(Vec<u8>, u32)>) {
        let pumps = std::mem::take(&mut *self.pumps.lock().unwrap_or_else(PoisonError::into_inner));
        let (out, changed) = (self.out.clone(), self.changed.clone());
        let (is_lost, writes) = (self.is_lost.clone(), self.writes);
        let (failed, can_go_back) = (self.output_failed.clone(), self.can_go_back());
        let ignores_pipe = self.again && self.ignores_pipe;
        let (progress, has_told) = (self.progress.clone(), self.has_told.clone());
        let finishing = std::thread::spawn(move || {
            for pump in pumps {
                let _ = pump.join();
            }
            // Else all of it is run again, and the rest of the output goes where the beginning went.
            let failed = *failed.lock().unwrap_or_else(PoisonError::into_inner);
            let begins_again =
                failed.is_some_and(|error| can_go_back || ignores_pipe && error == Errno::PIPE);
            if is_lost.load(Ordering::SeqCst) || begins_again {
                return;
            }
            // Parts that were put together may have come long after the command's end.
            if let Some(progress) = progress {
                progress.end();
            }
            let _ = flush_output();
            changed.forget(&modes);
            // Who reads its output should see the end of that now, though this process stays until its whole group has ended. A pipe to the next of
            // the group stays as it is: they may need it yet.
            if writes && let Ok(null) = File::open("/dev/null") {
                let _ = rustix::stdio::dup2_stdout(&null);
            }
            out.tell(&ToBroker::Written);
            has_told.store(true, Ordering::SeqCst);
        });
        let mut pumps = self.pumps.lock().unwrap_or_else(PoisonError::into_inner);
        pumps.push(finishing);
    }

    fn lost(&self, why: String) -> Outcome {
        self.end_progress();
        self.is_lost.store(true, Ordering::SeqCst);
        self.joining.stop();
        for inbox in self.inboxes.values() {
            inbox.cut();
        }
        let pumps = std::mem::take(&mut *self.pumps.lock().unwrap_or_else(PoisonError::into_inner));
        for pump in pumps {
            let _ = pump.join();
        }
        let _ = flush_output();
        self.changed.forget(&[]);
        if !self.again {
            return Outcome::Lost(why);
        }
        if self.has_no_reader() {
            return Outcome::Ended(Ending::UNREAD);
        }
        // It is told so itself, instead: what it writes again is nobody's either.
        if self.failure() == Some(Errno::PIPE) {
            return Outcome::Back;
        }
        // The command itself meets what could not be written, at the same byte.
        let (output, checksum) = self.written[0].sum();
        let written = Written {
            output,
            checksum,
            errors: self.written[1].sum().0,
            is_early: self.is_early.load(Ordering::SeqCst),
        };
        if let (Some(_), Some(at)) = (self.failure(), self.began_at) {
            let stdout = rustix::stdio::stdout();
            // If somebody else has written there, too, that is not ours to take back.
            let is_alone = beginning() == Some(at + written.output);
            if is_alone && seek(stdout, SeekFrom::Start(at)).is_ok() && ends_at(at) {
                return Outcome::Back;
            }
        }
        let is_closed = self.writes && self.has_ended.load(Ordering::SeqCst);
        if (written.output, written.errors) == (0, 0) && !is_closed {
            return Outcome::Back;
        }
        Outcome::Again(written, SigSet::empty())
    }
}

/// Input and output that are files go on where the command ended.
fn go_on(positions: [Option<u64>; 2]) {
    let fds = [rustix::stdio::stdin(), rustix::stdio::stdout()];
    for (fd, position) in fds.into_iter().zip(positions) {
        if let Some(position) = position {
            let _ = seek(fd, SeekFrom::Start(position));
        }
    }
}

/// Passes signals on. A stop stops the command first and then this process, as the shell expects; a continuation goes the other way.
fn pass_signals(signals: &SignalFd, out: &Outgoing, progress: Option<&Progress>) {
    loop {
        let mut polled = [PollFd::new(signals, PollFlags::IN)];
        let _ = poll(&mut polled, None);
        let Ok(Some(info)) = signals.read_signal() else {
            continue;
        };
        let Ok(signal) = Signal::try_from(info.ssi_signo as i32) else {
            continue;
        };
        if signal == Signal::SIGTSTP {
            out.tell(&ToBroker::Signal(Signal::SIGSTOP as i32));
            if let Some(progress) = progress {
                progress.pause(true);
            }
            let mut stop = SigSet::empty();
            stop.add(Signal::SIGTSTP);
            // Let it happen to this process: it goes on behind this when it is continued.
            let _ = stop.thread_unblock();
            let _ = raise(Signal::SIGTSTP);
            let _ = stop.thread_block();
            if let Some(progress) = progress {
                progress.pause(false);
            }
            out.tell(&ToBroker::Signal(Signal::SIGCONT as i32));
        } else {
            out.tell(&ToBroker::Signal(signal as i32));
        }
    }
}

/// Ends this process as the command ended, if that was by a signal.
pub fn end_as(ending: Ending) {
    let Ending::Signal(number) = ending else {
        return;
    };
    // The command has left its core where it ran, if any.
    let _ = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0);
    if let Ok(signal) = Signal::try_from(number) {
        let mut one = SigSet::empty();
        one.add(signal);
        let _ = one.thread_unblock();
        let _ = raise(signal);
    }
}

/// Where bytes go that were written before.
struct LeftOut(Tally);

impl io::Write for LeftOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.add(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs a command again, here, and leaves out what was written for it already. Gives back how it ended.
///
/// # Errors
/// It cannot be run, or begins with something else now.
pub fn again(
    mut command: std::process::Command,
    written: Written,
    is_merged: bool,
    held_back: &SigSet,
) -> io::Result<Ending> {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Stdio;
    let ignores_pipe = super::ignores(Signal::SIGPIPE);
    // What goes to one place is counted together, and comes together again. But no messages were, if they should have come in the middle of it.
    let merged = if is_merged && !written.is_early {
        let (from, to) = io::pipe()?;
        command.stdout(to.try_clone()?).stderr(to);
        Some(from)
    } else {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        None
    };
    // A child inherits what is held back.
    let mine = held_back.thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let child = command.spawn();
    if let Ok(mine) = mine {
        let _ = mine.thread_set_mask();
    }
    let mut child = child?;
    // It has the pipe's ends for writing, too.
    drop(command);
    let output = child.stdout.take().map(OwnedFd::from);
    let outputs = (output.or(merged.map(OwnedFd::from)), child.stderr.take());
    let errors = std::thread::spawn(move || {
        // What it complains of may differ: it is this machine's complaint now.
        if let Some(from) = outputs.1 {
            // Nor is it anybody's fault if it cannot be written.
            let _ = copy_behind(from, rustix::stdio::stderr().as_fd(), written.errors, None);
        }
    });
    let copied = outputs.0.map_or(Ok(()), |from| {
        let checksum = Some(written.checksum);
        copy_behind(
            File::from(from),
            rustix::stdio::stdout().as_fd(),
            written.output,
            checksum,
        )
    });
    let status = child.wait()?;
    let _ = errors.join();
    match copied {
        // It may have ended well: it could not have written that itself.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe && !ignores_pipe => {
            return Ok(Ending::UNREAD);
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(io::Error::other(
                "it was run again, and did not begin with what was written already",
            ));
        }
        _ => {}
    }
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Status(code as u8),
        (None, signal) => Ending::Signal(signal.unwrap_or(9)),
    })
}

/// Copies what follows the first `skipped` bytes.
///
/// # Errors
/// It cannot be written; or (invalid data) there were not so many bytes, or others.
fn copy_behind(
    mut from: impl Read,
    to: std::os::fd::BorrowedFd<'_>,
    skipped: u64,
    checksum: Option<u64>,
) -> io::Result<()> {
    let mut left_out = LeftOut(Tally::default());
    let copied = io::copy(&mut from.by_ref().take(skipped), &mut left_out);
    let (bytes, sum) = left_out.0.sum();
    if copied.is_ok() && (bytes < skipped || checksum.is_some_and(|known| known != sum)) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut to = File::from(to.try_clone_to_owned()?);
    let mut piece = vec![0; PIPE_BYTES];
    let mut all = bytes;
    loop {
        let had = match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            had => had?,
        };
        if had == 0 {
            return Ok(());
        }
        all += had as u64;
        match to.write_all(&piece[..had]) {
            // A pipe would have taken so much from it whether somebody reads or not.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe && all <= PIPE_BYTES as u64 => {
                return Ok(());
            }
            written => written?,
        }
    }
}
