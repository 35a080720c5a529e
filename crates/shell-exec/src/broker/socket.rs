//! Where a user's broker is found, and how it is begun.
//!
//! The invariant: nobody but the user can connect, or have the user connect to something else: the folder is the user's own, and no other
//! may write to it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::unistd::{Uid, geteuid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use xxhash_rust::xxh3::xxh3_64;

/// The folder of the user's sockets, which is made if need be.
fn folder() -> io::Result<PathBuf> {
    let user = geteuid();
    let run = PathBuf::from(format!("/run/user/{user}"));
    let folder = if is_private(&run, user) {
        run.join("nearsh")
    } else {
        PathBuf::from(format!("/tmp/nearsh-{user}"))
    };
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_private(&folder, user) {
        Ok(folder)
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is not this user's alone", folder.display()),
        ))
    }
}

fn is_private(folder: &Path, user: Uid) -> bool {
    folder.symlink_metadata().is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == user.as_raw() && meta.permissions().mode() & 0o022 == 0
    })
}

/// The socket of brokers that are this very program (after an update there is another one) and see the same files and hosts.
fn path() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let meta = program.metadata()?;
    let namespace = |name: &str| fs::read_link(format!("/proc/self/ns/{name}"));
    let text = format!(
        "{} {} {} {} {:?} {:?}",
        program.display(),
        meta.ino(),
        meta.mtime(),
        meta.mtime_nsec(),
        namespace("mnt")?,
        namespace("net")?,
    );
    Ok(folder()?.join(format!("{:016x}", xxh3_64(text.as_bytes()))))
}

/// The user's broker, if there is one.
pub fn connect() -> Option<UnixStream> {
    UnixStream::connect(path().ok()?).ok()
}

/// The user's broker, begun if there is none.
///
/// # Errors
/// Why there is none.
pub fn begin() -> io::Result<UnixStream> {
    let path = path()?;
    if let Ok(stream) = UnixStream::connect(&path) {
        return Ok(stream);
    }
    // One beginner at a time.
    let lock = File::create(path.with_extension("lock"))?;
    lock.lock()?;
    if let Ok(stream) = UnixStream::connect(&path) {
        return Ok(stream);
    }
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path)?;
    // It outlives this process, which becomes a shell that should have no children that it does not know: so it is a grandchild.
    let status = Command::new("/bin/sh")
        .arg("-c")
        // In the background a shell gives nothing on descriptor 0.
        .arg("exec 3<&0; \"$@\" <&3 3<&- >/dev/null 2>&1 &")
        .arg("sh")
        .arg(std::env::current_exe()?)
        .arg(super::WORD)
        .arg(&path)
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(listener)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .status()?;
    if !status.success() {
        return Err(io::Error::other("no process could be begun"));
    }
    UnixStream::connect(&path)
}

/// Waits until somebody connects; no: nobody did, in that time.
pub fn comes(listener: &UnixListener, most: Duration) -> bool {
    let most = Timespec {
        tv_sec: most.as_secs().cast_signed(),
        tv_nsec: most.subsec_nanos().into(),
    };
    let mut polled = [PollFd::new(listener, PollFlags::IN)];
    !matches!(poll(&mut polled, Some(&most)), Ok(0))
}

/// Whether it is the same user at the other end.
pub fn is_own(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream)
        .is_ok_and(|peer| peer.uid.as_raw() == geteuid().as_raw())
}
