//! `|&`: commands and connections that the program both writes to and reads from.
//!
//! Invariant: a command is waited for when both its ends are closed, not before: it may still be read from.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, OutputModes, tcgetattr, tcsetattr};

use super::close::Others;
use super::network::Address;
use super::out::{Out, Sink};
use super::processes::wait;
use super::source::Terminal;
use super::{Manner, Side, Slot, StreamError, Streams, shown};
use crate::records::RecordReader;

/// `O_NOCTTY`: the terminal is the command's, not ours.
const NO_CONTROL: i32 = 0o400;

/// A command or connection with two ends.
pub(super) struct Coprocess {
    /// None for a connection.
    child: Option<Child>,
    pub(super) to: Option<Slot>,
    from: Option<RecordReader>,
    pub(super) opened: u64,
}

impl Streams {
    /// The coprocess of that command, started if it is not running.
    pub(super) fn coprocess(
        &mut self,
        command: &[u8],
        manner: Manner,
    ) -> Result<&mut Coprocess, StreamError> {
        if !self.coprocesses.contains_key(command) {
            let mut made = if let Some(address) = Address::parse(command) {
                self.flush_outputs();
                self.connection(command, &address)?
            } else if manner.terminal {
                self.on_terminal(command)?
            } else {
                self.on_pipes(command)?
            };
            made.opened = self.next_opening();
            self.coprocesses.insert(command.to_vec(), made);
        }
        Ok(self.coprocesses.get_mut(command).expect("just started"))
    }

    fn on_pipes(&mut self, command: &[u8]) -> Result<Coprocess, StreamError> {
        self.flush_outputs();
        let mut child = self.start(command, |shell| {
            Ok(shell.stdin(Stdio::piped()).stdout(Stdio::piped()))
        })?;
        let to = child.stdin.take();
        let to = to.map(|stdin| self.place(Out::new(command, Sink::Pipe(stdin))));
        let from = child.stdout.take().map(|stdout| self.reader(stdout));
        Ok(Coprocess {
            child: Some(child),
            to,
            from,
            opened: 0,
        })
    }

    fn connection(&mut self, name: &[u8], address: &Address<'_>) -> Result<Coprocess, StreamError> {
        let socket = self.connect(name, address)?;
        let other = socket.try_clone().map_err(|source| StreamError::Connect {
            name: shown(name),
            source,
        })?;
        let to = self.place(Out::new(name, Sink::Socket(socket)));
        Ok(Coprocess {
            child: None,
            to: Some(to),
            from: Some(self.reader(other)),
            opened: 0,
        })
    }

    /// `PROCINFO[command, "pty"]`
    fn on_terminal(&mut self, command: &[u8]) -> Result<Coprocess, StreamError> {
        self.flush_outputs();
        let failed = |source| StreamError::Start {
            command: shown(command),
            source,
        };
        let (master, slave) = self.with_descriptors(|_| terminal()).map_err(failed)?;
        let reading = master.try_clone().map_err(failed)?;
        let child = self.start_session(command, true, |shell| {
            Ok(shell.stdin(slave.try_clone()?).stdout(slave.try_clone()?))
        })?;
        let to = self.place(Out::new(command, Sink::Terminal(master)));
        Ok(Coprocess {
            child: Some(child),
            to: Some(to),
            from: Some(self.reader(Terminal(reading))),
            opened: 0,
        })
    }

    /// What a coprocess prints, for `getline`; it is started if it is not running. All outputs are flushed first: it
    /// may be waiting for them.
    ///
    /// # Errors
    /// It cannot be started, or this end was closed.
    pub fn input_coprocess(
        &mut self,
        command: &[u8],
        manner: Manner,
    ) -> Result<&mut RecordReader, StreamError> {
        self.flush_outputs();
        let reader = self.coprocess(command, manner)?.from.as_mut();
        reader.ok_or_else(|| StreamError::EndClosed {
            name: shown(command),
            side: Side::From,
        })
    }

    /// AWK's `close` with a second argument: one end of a coprocess. When both ends are closed the command is waited for
    /// and its status given; else 0. What is no coprocess is closed as [`Streams::close`] does.
    pub fn close_side(&mut self, command: &[u8], side: Side) -> f64 {
        let Some(process) = self.coprocesses.get_mut(command) else {
            return self.close(command);
        };
        match side {
            Side::To => {
                let slot = process.to.take();
                self.recent = None;
                if let Some(slot) = slot {
                    self.close_output(slot, Others::First);
                }
            }
            Side::From => process.from = None,
        }
        let over = |process: &Coprocess| process.to.is_none() && process.from.is_none();
        if self.coprocesses.get(command).is_some_and(over) {
            let process = self.coprocesses.remove(command);
            return process.and_then(|process| process.child).map_or(0.0, wait);
        }
        0.0
    }

    /// Closes both ends of a coprocess and waits for it.
    pub(super) fn close_coprocess(&mut self, command: &[u8], others: Others) -> f64 {
        let Some(mut process) = self.coprocesses.remove(command) else {
            return -1.0;
        };
        self.recent = None;
        if let Some(slot) = process.to.take() {
            if let Slot::Open(index) = slot
                && let Some(out) = self.outs[index].as_mut()
            {
                out.hang_up();
            }
            self.close_output(slot, others);
        }
        drop(process.from.take());
        process.child.map_or(0.0, wait)
    }
}

/// A new pseudo-terminal's two sides. It does not echo what the program writes, and does not put carriage returns into
/// what the command prints, as gawk's.
fn terminal() -> io::Result<(File, File)> {
    let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let path = ptsname(&master, Vec::new())?;
    let path = path.into_string().map_err(io::Error::other)?;
    let slave = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(NO_CONTROL)
        .open(path)?;
    let mut modes = tcgetattr(&slave)?;
    modes.local_modes.remove(LocalModes::ECHO);
    modes.output_modes.remove(OutputModes::ONLCR);
    tcsetattr(&slave, OptionalActions::Now, &modes)?;
    Ok((File::from(master), slave))
}

/// Ends what is written to a terminal by the character that means so: its master cannot be half closed.
pub(super) fn end_of_file(master: &mut File) {
    use std::io::Write;
    const EOT: u8 = 4;
    // A command that is gone needs no end.
    let _ = master.write_all(&[EOT]);
}
