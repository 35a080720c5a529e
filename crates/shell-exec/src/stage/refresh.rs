//! What this machine remembers of files that were changed on their host is made to be forgotten.
//!
//! NFS asks again whenever a file is opened. sshfs keeps what it knows of names for twenty seconds, and the kernel above it for one: a file that
//! has grown there reads as short as it was here. A file that it opens sshfs asks about anew. What is in a folder it forgets only when it changes the
//! folder itself: so that is given the permissions that it has, again, and which those are its host has just told. (What is remembered here of them may be
//! what they were before somebody changed them.)
//!
//! The invariants: when this returns, who opens, lists or looks at one of these files here sees what is there; and no permissions are others than before.

use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// How long the kernel believes in a name that is gone (FUSE's `entry_timeout`, unless it was mounted with another one).
const NAMES: Duration = Duration::from_secs(1);

/// Bits that are lost when somebody else's permissions are set.
const SPECIAL: u32 = 0o6000;

/// Files that a command is to change, and what was known of them before it did.
pub struct Changed {
    files: Vec<(PathBuf, bool)>,
}

impl Changed {
    /// These, each with whether it is there already; nobody is asked for that. Folders of those that are there are there, too.
    pub fn of(paths: impl Iterator<Item = (PathBuf, bool)>) -> Changed {
        let mut files: Vec<(PathBuf, bool)> = Vec::new();
        for (path, is_there) in paths {
            let above = path.parent().map(Path::to_path_buf);
            for path in [Some(path), above].into_iter().flatten() {
                match files.iter_mut().find(|(known, _)| *known == path) {
                    Some((_, was_there)) => *was_there |= is_there,
                    None => files.push((path, is_there)),
                }
            }
        }
        Changed { files }
    }

    /// Their names.
    pub fn paths(&self) -> Vec<Vec<u8>> {
        let names = self.files.iter().map(|(path, _)| path.as_os_str());
        names.map(|name| name.as_bytes().to_vec()).collect()
    }

    /// They were changed, and have these permissions on their host. The mounts are asked about all of them at once: each question takes a round trip or two.
    pub fn forget(&self, modes: &[(Vec<u8>, u32)]) {
        let is_gone = |(path, was_there): &(PathBuf, bool)| {
            let mode = (modes.iter()).find(|(of, _)| of == path.as_os_str().as_bytes());
            !remembered_anew(path, mode.map(|(_, mode)| *mode)) && *was_there
        };
        let is_gone = match self.files.split_first() {
            None => false,
            Some((first, others)) => std::thread::scope(|scope| {
                let begin =
                    |of| std::thread::Builder::new().spawn_scoped(scope, move || is_gone(of));
                let asked: Vec<_> = others.iter().map(|of| (of, begin(of))).collect();
                // As many at once as there may be threads.
                (asked.into_iter()).fold(is_gone(first), |any, (of, asked)| {
                    let gone = asked.map_or(None, |asked| asked.join().ok());
                    gone.unwrap_or_else(|| is_gone(of)) || any
                })
            }),
        };
        if is_gone {
            std::thread::sleep(NAMES);
        }
    }
}

/// Has a file be looked at on its host, where its permissions are these, if they are known; no: it is not there.
fn remembered_anew(path: &Path, mode: Option<u32>) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let look = || statx(CWD, path, flags, StatxFlags::BASIC_STATS);
    let Ok(seen) = look() else {
        return false;
    };
    let kind = u32::from(seen.stx_mode) & 0o170_000;
    if kind == 0o100_000 && fs::File::open(path).is_ok() {
        // What sshfs knows now, the kernel is to know, too.
        return look().is_ok();
    }
    let is_link = kind == 0o120_000;
    if let Some(mode) = mode.filter(|mode| !is_link && mode & SPECIAL == 0) {
        // Not ours to set, perhaps: then it is as it was.
        let _ = fs::set_permissions(path, Permissions::from_mode(mode));
    }
    true
}
