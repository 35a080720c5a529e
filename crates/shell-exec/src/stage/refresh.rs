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
    /// These, of which some may not be there yet.
    pub fn of(paths: impl Iterator<Item = PathBuf>) -> Changed {
        let mut files: Vec<(PathBuf, bool)> = Vec::new();
        for path in paths {
            let above = path.parent().map(Path::to_path_buf);
            for path in [Some(path), above].into_iter().flatten() {
                if !files.iter().any(|(known, _)| *known == path) {
                    let is_there = path.symlink_metadata().is_ok();
                    files.push((path, is_there));
                }
            }
        }
        Changed { files }
    }

    /// They were changed.
    pub fn forget(&self) {
        let mut is_gone = false;
        for (path, was_there) in &self.files {
            is_gone |= !remembered_anew(path) && *was_there;
        }
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
