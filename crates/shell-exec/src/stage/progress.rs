//! A line on the terminal about a command that runs elsewhere and takes long.
//!
//! The invariant: the line is there only while nobody else prints. It is erased before this process writes to the terminal, before others may
//! (who read what it writes into a pipe, the shell that goes on), and before it stops or ends.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use shell_plan::plan::explain;

use crate::flow::locked;
use crate::shims;

/// How long a command is given before anybody wants to know, and how often the line is drawn anew.
const PATIENCE: Duration = Duration::from_secs(2);
const PERIOD: Duration = Duration::from_millis(250);

/// Opens a terminal without making it ours, and without waiting for it.
const NO_CONTROL: i32 = nix::libc::O_NOCTTY | nix::libc::O_NONBLOCK;

/// Where the output of this process goes in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leads {
    /// To the terminal, at once: a line would be in the way.
    ToTerminal,
    /// To a command whose output goes to the terminal. It may print as soon as it has read something.
    ByAnother,
    /// To one that has a line of its own.
    ToHelper,
    /// Elsewhere.
    Elsewhere,
}

/// The line.
pub struct Progress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The terminal, locked for us, as long as the line is there.
    drawn: Option<File>,
    /// There will be no line again.
    is_over: bool,
    /// The process is about to be stopped.
    is_paused: bool,
    /// So many bytes have come.
    came: u64,
    /// Others may print when the first of them has been written.
    until_first: bool,
}

impl Progress {
    /// A line about a command on a host; `counts`: what it prints comes here. None where nobody could see it, or wants to.
    pub fn begin(host: &str, command: &OsStr, counts: bool) -> Option<Arc<Progress>> {
        let quiet = std::env::var_os(super::QUIET).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name == "dumb");
        if quiet || is_dumb || !rustix::termios::isatty(rustix::stdio::stderr()) {
            return None;
        }
        let progress = Arc::new(Progress {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let name = Path::new(command).file_name().unwrap_or(command);
        let what = format!("nearsh: {host}: {}: ", printable(name));
        let drawing = progress.clone();
        std::thread::spawn(move || drawing.draw(&what, counts));
        Some(progress)
    }

    /// Erases the line; there will be none again.
    pub fn end(&self) {
        let mut state = locked(&self.state);
        state.is_over = true;
        state.erase();
        self.changed.notify_all();
    }

    /// So many bytes have come, and will be written.
    pub fn comes(&self, bytes: usize) {
        let mut state = locked(&self.state);
        state.came += bytes as u64;
        if state.until_first {
            state.is_over = true;
            state.erase();
            self.changed.notify_all();
        }
    }

    /// Erases the line; it comes again when this is called with `false`.
    pub fn pause(&self, is_paused: bool) {
        let mut state = locked(&self.state);
        state.is_paused = is_paused;
        state.erase();
    }

    fn draw(&self, what: &str, counts: bool) {
        let began = Instant::now();
        let mut wait = PATIENCE;
        let mut is_known = false;
        let mut state = locked(&self.state);
        loop {
            let until = Instant::now() + wait;
            while let Some(left) = until.checked_duration_since(Instant::now())
                && !state.is_over
            {
                state = match self.changed.wait_timeout(state, left) {
                    Ok((state, _)) => state,
                    Err(error) => error.into_inner().0,
                };
            }
            if state.is_over {
                return;
            }
            wait = PERIOD;
            if !is_known {
                is_known = true;
                let leads = if counts { leads() } else { Leads::Elsewhere };
                match leads {
                    Leads::ToTerminal | Leads::ToHelper => return,
                    Leads::ByAnother if state.came > 0 => return,
                    Leads::ByAnother => state.until_first = true,
                    Leads::Elsewhere => {}
                }
            }
            let came = state.came;
            let time = began.elapsed().as_secs();
            state.show(&if came > 0 {
                format!("{what}{} came, {time} s", explain::bytes(came as f64))
            } else {
                format!("{what}{time} s")
            });
        }
    }
}

impl State {
    fn show(&mut self, text: &str) {
        let stderr = rustix::stdio::stderr();
        // In the background it would be somebody else's terminal.
        let is_in_front =
            rustix::termios::tcgetpgrp(stderr).ok() == Some(rustix::process::getpgrp());
        if self.is_paused || !is_in_front {
            self.erase();
            return;
        }
        let columns = rustix::termios::tcgetwinsize(stderr).map_or(0, |size| size.ws_col);
        // Some do not know their size.
        let columns = if columns == 0 { 80 } else { columns };
        // One that fills the last column may begin another line.
        let most = usize::from(columns).saturating_sub(1);
        if self.drawn.is_none() {
            self.drawn = terminal();
        }
        if let Some(terminal) = &self.drawn {
            let text: String = text.chars().take(most).collect();
            write(terminal, &format!("\r{text}\x1b[K"));
        }
    }

    fn erase(&mut self) {
        if let Some(terminal) = self.drawn.take() {
            write(&terminal, "\r\x1b[K");
        }
    }
}

/// The terminal, opened anew, and locked against lines of others that are there at the same time; none: there is one.
fn terminal() -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    options.custom_flags(NO_CONTROL);
    let terminal = options.open("/proc/self/fd/2").ok()?;
    flock(&terminal, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(terminal)
}

/// A terminal that takes nothing has no line.
fn write(to: impl AsFd, text: &str) {
    let _ = rustix::io::write(to, text.as_bytes());
}

/// A name that does nothing to a terminal.
fn printable(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    text.chars().filter(|c| !c.is_control()).take(40).collect()
}

/// Where standard output leads, as far as that can be seen.
fn leads() -> Leads {
    let mut own = PathBuf::from("/proc/self/fd/1");
    // A pipeline is not that long; a chain that leads back to itself ends here.
    for _ in 0..64 {
        let Ok(meta) = own.metadata() else {
            return Leads::Elsewhere;
        };
        match meta.mode() & 0o170_000 {
            0o020_000 => {
                let mut options = OpenOptions::new();
                options.write(true).custom_flags(NO_CONTROL);
                let is_terminal = options.open(&own).is_ok_and(rustix::termios::isatty);
                return match (is_terminal, own == Path::new("/proc/self/fd/1")) {
                    (false, _) => Leads::Elsewhere,
                    (true, true) => Leads::ToTerminal,
                    (true, false) => Leads::ByAnother,
                };
            }
            0o010_000 => {}
            _ => return Leads::Elsewhere,
        }
        let Ok(pipe) = fs::read_link(&own) else {
            return Leads::Elsewhere;
        };
        // A shell that reads it for itself reads it by another descriptor.
        let Some(reader) = reader(&pipe) else {
            return Leads::Elsewhere;
        };
        if shims::is_ours(&reader.join("exe")) {
            return Leads::ToHelper;
        }
        own = reader.join("fd/1");
    }
    Leads::Elsewhere
}

/// The process whose standard input this is.
fn reader(pipe: &Path) -> Option<PathBuf> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes.map(|entry| entry.path()).find(|process| {
        let is_process = process
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes()[0].is_ascii_digit());
        is_process && fs::read_link(process.join("fd/0")).is_ok_and(|link| link == pipe)
    })
}
