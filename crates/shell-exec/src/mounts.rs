//! Which folders of this machine lie on another one, as the kernel says (proc(5), `/proc/self/mountinfo`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A folder that another machine serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Where it is mounted.
    pub at: PathBuf,
    /// By what: `nfs4`, `cifs`, `fuse.sshfs`.
    pub kind: String,
    /// Who serves it, with a user if that was named: `USER@HOST`.
    pub host: String,
    /// Which folder of that machine it is, if that is told: not so for CIFS, where a share has a name.
    pub export: Option<PathBuf>,
}

impl Mount {
    /// Whether it is NFS, of any version: it shows the host's own inodes, and asks again whenever a file is opened.
    pub fn is_nfs(&self) -> bool {
        self.kind.starts_with("nfs")
    }
}

/// Those of this process.
pub fn of_this_process() -> Vec<Mount> {
    remote(&std::fs::read("/proc/self/mountinfo").unwrap_or_default())
}

/// The mounts of other machines that `text`, which is a `mountinfo`, has; later ones hide earlier ones at the same place.
pub fn remote(text: &[u8]) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    // On most machines there are none.
    let has = |kind: &[u8]| text.windows(kind.len()).any(|part| part == kind);
    if !KINDS.iter().any(|kind| has(kind)) {
        return mounts;
    }
    for line in text.split(|&byte| byte == b'\n') {
        let Some(entry) = entry(line) else { continue };
        // Whatever is mounted over a folder hides what was there.
        mounts.retain(|mount| !mount.at.starts_with(&entry.at));
        mounts.extend(mount(entry));
    }
    mounts
}

/// What the kinds begin with, as they stand in a line.
const KINDS: [&[u8]; 4] = [b" - nfs", b" - fuse.sshfs", b" - cifs", b" - smb3"];

struct Entry {
    at: PathBuf,
    kind: String,
    source: Vec<u8>,
    /// Which folder of the file system is mounted, `/` if all of it.
    root: Vec<u8>,
}

fn entry(line: &[u8]) -> Option<Entry> {
    // 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
    let mut fields = line.split(|&byte| byte == b' ');
    let root = unescaped(fields.nth(3)?);
    let at = unescaped(fields.next()?);
    let mut fields = fields.skip_while(|field| *field != b"-");
    fields.next()?;
    let kind = String::from_utf8(fields.next()?.to_vec()).ok()?;
    let source = unescaped(fields.next()?);
    Some(Entry {
        at: PathBuf::from(OsString::from_vec(at)),
        kind,
        source,
        root,
    })
}

/// `\040` and the like, which stand for blanks, tabs, newlines and backslashes.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| byte == b'\\');
        let octal = octal.filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match octal {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0_u32, |v, d| v * 8 + u32::from(d - b'0'));
                bytes.push(value as u8);
                rest = &behind[3..];
            }
            None => {
                bytes.push(byte);
                rest = behind;
            }
        }
    }
    bytes
}

fn mount(entry: Entry) -> Option<Mount> {
    let source = String::from_utf8(entry.source).ok()?;
    let below = OsString::from_vec(entry.root);
    let below = Path::new(&below).strip_prefix("/").ok()?.to_path_buf();
    let (host, export) = match entry.kind.as_str() {
        // "HOST:/EXPORT"; an IPv6 address has brackets. The folder of the mount's root is below it.
        "nfs" | "nfs4" | "fuse.sshfs" => {
            let (host, export) = match source
                .strip_prefix('[')
                .and_then(|rest| rest.split_once("]:"))
            {
                Some(split) => split,
                None => source.split_once(':')?,
            };
            let export = Path::new(export);
            // sshfs: a path that does not begin with a slash is below the home folder, which its other end knows.
            let is_told = export.is_absolute() || entry.kind == "fuse.sshfs";
            let export = is_told.then(|| {
                if below.as_os_str().is_empty() {
                    export.to_path_buf()
                } else {
                    export.join(&below)
                }
            });
            (host.to_owned(), export)
        }
        "cifs" | "smb3" => {
            let share = source.strip_prefix("//")?;
            (share.split('/').next()?.to_owned(), None)
        }
        _ => return None,
    };
    Some(Mount {
        at: entry.at,
        kind: entry.kind,
        host,
        export,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_other_machines_are_found() {
        let text = b"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n\
            40 22 0:33 / /mnt/data rw - nfs4 filer:/export/data rw,vers=4.2\n\
            41 22 0:34 /sub /mnt/with\\040blank rw shared:5 - nfs4 [fe80::1]:/export rw\n\
            42 22 0:35 / /home/me/far rw,nosuid - fuse.sshfs me@far:/srv/far rw\n\
            43 22 0:36 / /mnt/home rw - fuse.sshfs far: rw\n\
            44 22 0:37 / /mnt/share rw - cifs //filer/share rw\n\
            45 22 0:38 / /tmp rw - tmpfs tmpfs rw\n";
        let mounts = remote(text);
        let seen: Vec<(&str, &str, Option<&str>)> = (mounts.iter())
            .map(|m| {
                let export = m.export.as_ref().and_then(|path| path.to_str());
                (m.at.to_str().unwrap(), m.host.as_str(), export)
            })
            .collect();
        let expected = [
            ("/mnt/data", "filer", Some("/export/data")),
            ("/mnt/with blank", "fe80::1", Some("/export/sub")),
            ("/home/me/far", "me@far", Some("/srv/far")),
            ("/mnt/home", "far", Some("")),
            ("/mnt/share", "filer", None),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_mounted_over_a_mount_hides_it() {
        let text = b"40 22 0:33 / /mnt/data rw - nfs4 filer:/export rw\n\
            41 40 0:34 / /mnt/data/deep rw - nfs4 other:/deep rw\n\
            42 22 0:35 / /mnt/data rw - tmpfs tmpfs rw\n";
        assert!(remote(text).is_empty());
        assert!(remote(b"nonsense\n\n1 2 3\n").is_empty());
    }
}
