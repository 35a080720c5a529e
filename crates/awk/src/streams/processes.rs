//! Commands: starting them with the right environment and output, and what is left when they end.
//!
//! Invariant: children inherit the standard descriptors and those that the process itself was started with; the standard
//! library opens all others close-on-exec.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use super::{StreamError, Streams, shown};

/// What the shell is started by, where the command gets a session and a terminal of its own.
const SET_SESSION: &str = "setsid";

/// `close` and `system`: the exit code, 256 + signal for a command that one ended, 512 + signal with a core file
/// (gawk 5.3, "Return Values from close()").
pub fn status_value(status: ExitStatus) -> f64 {
    match (status.code(), status.signal()) {
        (Some(code), _) => f64::from(code),
        (None, Some(signal)) => f64::from(signal + if status.core_dumped() { 512 } else { 256 }),
        (None, None) => -1.0,
    }
}

/// Closes the child's input and waits.
pub(super) fn wait(mut child: Child) -> f64 {
    child.wait().map_or(-1.0, status_value)
}

impl Streams {
    fn shell(&self, command: &[u8], own_session: bool) -> Command {
        let mut shell = if own_session {
            let mut set_session = Command::new(SET_SESSION);
            set_session.args(["--ctty", "/bin/sh"]);
            set_session
        } else {
            Command::new("/bin/sh")
        };
        shell.arg("-c").arg(OsStr::from_bytes(command));
        if let Some(variables) = &self.environment {
            let text = |bytes: &'_ [u8]| -> OsString { OsStr::from_bytes(bytes).to_os_string() };
            shell.env_clear();
            shell.envs(
                variables
                    .iter()
                    .map(|(name, value)| (text(name), text(value))),
            );
        }
        if let Some(file) = &self.redirected
            && let Ok(file) = file.try_clone()
        {
            shell.stdout(file);
        }
        shell
    }

    pub(super) fn start(
        &mut self,
        command: &[u8],
        set_up: impl Fn(&mut Command) -> io::Result<&mut Command>,
    ) -> Result<Child, StreamError> {
        self.start_session(command, false, set_up)
    }

    /// With a session of its own, whose terminal is the command's standard input, where the system has `setsid` for it;
    /// without, the command runs in our session and only its streams are the terminal.
    pub(super) fn start_session(
        &mut self,
        command: &[u8],
        own_session: bool,
        set_up: impl Fn(&mut Command) -> io::Result<&mut Command>,
    ) -> Result<Child, StreamError> {
        let started = self
            .with_descriptors(|streams| set_up(&mut streams.shell(command, own_session))?.spawn());
        match started {
            Err(error) if own_session && error.kind() == io::ErrorKind::NotFound => {
                self.start_session(command, false, set_up)
            }
            started => started.map_err(|source| StreamError::Start {
                command: shown(command),
                source,
            }),
        }
    }

    /// AWK's `system`: flushes all outputs, runs `sh -c command` and gives how it ended; `None` if it could not be started.
    pub fn system(&mut self, command: &[u8]) -> Option<ExitStatus> {
        self.flush_outputs();
        let started = self.start(command, |command| Ok(command));
        started.ok()?.wait().ok()
    }

    pub(super) fn start_writing_to(&mut self, command: &[u8]) -> Result<Child, StreamError> {
        self.flush_outputs();
        self.start(command, |command| Ok(command.stdin(Stdio::piped())))
    }

    pub(super) fn start_reading_from(&mut self, command: &[u8]) -> Result<Child, StreamError> {
        self.flush_outputs();
        self.start(command, |command| Ok(command.stdout(Stdio::piped())))
    }
}
