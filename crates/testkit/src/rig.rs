//! Machines that are namespaces of this one, with a real sshd each, and a client that has their folders mounted (`tests/near/rig`).
//!
//! The invariant: all that a rig starts ends with the command that it was started for.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

/// The folder of the rig, and of what is run in it.
pub const NEAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/near");

/// Why a test is left out, if it is: `./x test` sets the variable where what it needs can be had.
pub fn lack(variable: &str) -> Option<String> {
    let is_set = std::env::var_os(variable).is_some();
    (!is_set)
        .then(|| format!("left out: {variable} is not set, as ./x test does where it can be had"))
}

/// A rig that has not begun.
pub struct Rig {
    /// `rig up` with its options so far.
    pub command: Command,
    _folder: TempDir,
}

impl Rig {
    /// With these hosts.
    ///
    /// # Panics
    /// If there is no folder for it.
    pub fn new(hosts: &[&str]) -> Rig {
        Rig::within(Command::new("env"), hosts)
    }

    /// The same, started by a command that runs the words behind its own.
    ///
    /// # Panics
    /// The same.
    pub fn within(mut command: Command, hosts: &[&str]) -> Rig {
        // Not in /tmp and /dev/shm, which hosts have for themselves.
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        command
            .arg(format!("{NEAR}/rig"))
            .arg("up")
            .arg(folder.path());
        command.args(["--hosts", &hosts.join(","), "--with-parent"]);
        command.stdin(Stdio::null());
        Rig {
            command,
            _folder: folder,
        }
    }

    /// With more options.
    #[must_use]
    pub fn with<T: AsRef<OsStr>>(mut self, options: &[T]) -> Rig {
        self.command.args(options);
        self
    }

    /// Runs words on its client.
    ///
    /// # Panics
    /// If the rig cannot be started.
    pub fn run<T: AsRef<OsStr>>(mut self, words: &[T]) -> Output {
        self.command.arg("--").args(words).output().unwrap()
    }
}

/// Of the lines that a script has printed at least so many begin with `ok`, and none with `WRONG`.
///
/// # Panics
/// If that is not so.
pub fn is_fine(output: &Output, right: usize) {
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let fine = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(
        fine >= right && !said.contains("WRONG"),
        "{fine} are right\n{said}{errors}"
    );
}
