//! What this machine remembers of files that were changed on their host is made to be forgotten.
//!
//! NFS asks again whenever a file is opened. sshfs keeps what it knows of names for twenty seconds, and the kernel above it for one: a file that
//! has grown there reads as short as it was here. What sshfs changes itself it forgets: so each file is given the permissions that it has, again.
//!
//! The invariant: when this returns, who opens, lists or looks at one of these files here sees what is there.

use std::fs::{self, Permissions};
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

    /// They were changed. The mounts are asked about all of them at once: each question takes a round trip or two.
    pub fn forget(&self) {
        let is_gone = |(path, was_there): &(PathBuf, bool)| !remembered_anew(path) && *was_there;
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

/// Has a file be looked at on its host; no: it is not there.
fn remembered_anew(path: &Path) -> bool {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let Ok(seen) = statx(CWD, path, flags, StatxFlags::BASIC_STATS) else {
        return false;
    };
    let mode = u32::from(seen.stx_mode);
    if mode & 0o170_000 == 0o120_000 {
        return true;
    }
    let same = Permissions::from_mode(mode & 0o7777);
    if mode & SPECIAL != 0 || fs::set_permissions(path, same).is_err() {
        // Not ours to set: opening it tells sshfs at least.
        let _ = fs::File::open(path);
    }
    true
}
