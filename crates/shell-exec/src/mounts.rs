//! Which folders of this machine lie on another one, as the kernel says (proc(5), `/proc/self/mountinfo`), and where they are reached.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::config::{self, Config, Engine, Served, Via};

/// A folder that another machine serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Where it is mounted.
    pub at: PathBuf,
    /// By what: `nfs4`, `cifs`, `fuse.sshfs`.
    pub kind: String,
    /// Where commands that use it run: who serves it, with a user if that was named (`USER@HOST`), a proxy, or a node of Slurm
    /// ([`crate::slurm::Placement`]).
    pub host: String,
    /// How many hosts have it, of which that is the first: nodes of Slurm.
    pub nodes: u32,
    /// Which folder of that machine it is, if that is told: not so for CIFS, where a share has a name.
    pub export: Option<PathBuf>,
    /// What is mounted, as `mount` lists it, if it is not `host` that serves it.
    pub stands_for: Option<String>,
}

impl Mount {
    /// Whether it is NFS, of any version: it shows the host's own inodes, and asks again whenever a file is opened.
    pub fn is_nfs(&self) -> bool {
        self.kind.starts_with("nfs")
    }

    /// Whether it is a share: permissions and the order of a folder are not those of the host, and what is written there is seen here late.
    pub fn is_share(&self) -> bool {
        is_share(&self.kind)
    }

    /// Whether it is a program's.
    pub fn is_fuse(&self) -> bool {
        self.kind.starts_with("fuse.")
    }

    /// Whether this machine may remember of its files what is so no more.
    pub fn remembers(&self) -> bool {
        self.is_fuse() || self.is_share()
    }
}

/// Has what was written to the file system of a folder sent to who serves it, and waits for that.
///
/// # Errors
/// Those of the system.
pub fn flush(folder: &Path) -> rustix::io::Result<()> {
    use rustix::fs::{Mode, OFlags, open, syncfs};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    syncfs(open(folder, flags, Mode::empty())?)
}

/// How long a message to who serves a folder takes there and back, in seconds: as long as asking for its free space, which NFS and sshfs always ask
/// for; none: it answers from memory, or not.
pub fn round_trip(folder: &Path) -> Option<f64> {
    /// Not even another process is asked in so many microseconds.
    const MICROS_MIN: u64 = 60;
    /// What is so near is measured several times, for the machine may be busy with something else once.
    const NEAR: u64 = 5000;
    let mut least = u64::MAX;
    for _ in 0..3 {
        let began = clock::micros();
        rustix::fs::statvfs(folder).ok()?;
        least = least.min(clock::micros() - began);
        if least >= NEAR {
            break;
        }
    }
    (least >= MICROS_MIN).then_some(least as f64 / 1e6)
}

/// Those of this process.
pub fn of_this_process() -> Vec<Mount> {
    chosen(None).0
}

/// Those of this process, and what was said of them; `engine` is what its command line says.
pub fn chosen(engine: Option<Engine>) -> (Vec<Mount>, Config) {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    // On most machines there are none, and nothing need be read for them.
    let config = if has_remote(&text) {
        Config::of_this_process(engine)
    } else {
        Config::default()
    };
    (remote(&text, &config), config)
}

fn has_remote(text: &[u8]) -> bool {
    let kinds = text
        .windows(3)
        .enumerate()
        .filter(|(_, part)| part == b" - ");
    let mut kinds = kinds.map(|(at, _)| &text[at + 3..]);
    kinds.any(|kind| {
        let is = |known: &&str| kind.starts_with(known.as_bytes());
        KINDS.iter().any(is) || CLUSTER.iter().any(is)
    })
}

/// The mounts of other machines that `text`, which is a `mountinfo`, has; later ones hide earlier ones at the same place.
pub fn remote(text: &[u8], config: &Config) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    if !has_remote(text) {
        return mounts;
    }
    for line in text.split(|&byte| byte == b'\n') {
        let Some(entry) = entry(line) else { continue };
        // Whatever is mounted over a folder hides what was there.
        mounts.retain(|mount| !mount.at.starts_with(&entry.at));
        mounts.extend(mount(entry, config));
    }
    mounts
}

/// What the kinds begin with of which another machine has the folder.
const KINDS: [&str; 4] = ["nfs", "fuse.sshfs", "cifs", "smb3"];

/// And those that many machines have together, of which no one has the folder: they are of use by Slurm, or if a line says where.
const CLUSTER: [&str; 10] = [
    "lustre",
    "gpfs",
    "ceph",
    "beegfs",
    "fhgfs",
    "pvfs2",
    "panfs",
    "wekafs",
    "fuse.ceph-fuse",
    "fuse.glusterfs",
];

fn is_share(kind: &str) -> bool {
    kind == "cifs" || kind == "smb3"
}

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
pub(crate) fn unescaped(field: &[u8]) -> Vec<u8> {
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

fn mount(entry: Entry, config: &Config) -> Option<Mount> {
    let below = Path::new(&OsString::from_vec(entry.root))
        .strip_prefix("/")
        .ok()?
        .to_path_buf();
    let is_share = is_share(&entry.kind);
    let below_it = |folder: PathBuf| {
        // Of a share the name may have been given with the folder in it, which is the root then besides.
        if below.as_os_str().is_empty() || is_share && folder.ends_with(&below) {
            folder
        } else {
            folder.join(&below)
        }
    };
    let text = String::from_utf8_lossy(&entry.source).into_owned();
    let served = Served::read(&entry.source).map(|served| Served {
        folder: below_it(served.folder),
        ..served
    });
    let reached = |host: String, export: Option<PathBuf>, stands_for: Option<String>| Mount {
        at: entry.at.clone(),
        kind: entry.kind.clone(),
        host,
        nodes: 1,
        export,
        stands_for,
    };
    let is_ssh = entry.kind == "fuse.sshfs";
    let by_slurm = || {
        let node = config.placement.to_string();
        Mount {
            nodes: config.nodes(),
            ..reached(node, Some(entry.at.clone()), Some(text.clone()))
        }
    };
    match served.as_ref().and_then(|served| config.via(served)) {
        Some((Via::Host(host, folder), _)) => return Some(reached(host, Some(folder), Some(text))),
        Some((Via::Slurm, _)) => return Some(by_slurm()),
        None => {}
    }
    let is_known = |kinds: &[&str]| kinds.iter().any(|kind| entry.kind.starts_with(kind));
    // What a user has mounted by sshfs nodes do not have.
    if config.engine == Some(Engine::Slurm) && !is_ssh && (is_known(&KINDS) || is_known(&CLUSTER)) {
        return Some(by_slurm());
    }
    match entry.kind.as_str() {
        // "HOST:/EXPORT"; an IPv6 address has brackets. The folder of the mount's root is below it.
        "nfs" | "nfs4" | "fuse.sshfs" => {
            let (host, export) = config::host_and_folder(&entry.source)?;
            let host = std::str::from_utf8(host).ok()?.to_owned();
            let export = Path::new(std::str::from_utf8(export).ok()?);
            // sshfs: a path that does not begin with a slash is below the home folder, which its other end knows.
            let is_told = export.is_absolute() || is_ssh;
            let export = is_told.then(|| below_it(export.to_path_buf()));
            Some(reached(host, export, None))
        }
        "cifs" | "smb3" => {
            let share = entry.source.strip_prefix(b"//")?;
            let host = share.split(|&byte| byte == b'/').next()?;
            let host = std::str::from_utf8(host).ok()?.to_owned();
            Some(reached(host, None, None))
        }
        _ => None,
    }
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
        let mounts = remote(text, &Config::default());
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
        let none = Config::default();
        assert!(remote(text, &none).is_empty());
        assert!(remote(b"nonsense\n\n1 2 3\n", &none).is_empty());
    }

    /// Some mounts and what they are taken for: `AT HOST EXPORT [what it stands for]`.
    fn seen(text: &str, said: &str) -> Vec<String> {
        let mut config = Config::default();
        config.add(Path::new("/config"), said.as_bytes());
        assert!(config.wrong.is_empty(), "{:?}", config.wrong);
        let mounts = remote(text.as_bytes(), &config);
        let line = |m: &Mount| {
            let export = m
                .export
                .as_ref()
                .map_or("-".into(), |p| p.display().to_string());
            let of = m
                .stands_for
                .as_ref()
                .map_or(String::new(), |of| format!(" [{of}]"));
            format!("{} {} {export}{of}", m.at.display(), m.host)
        };
        mounts.iter().map(line).collect()
    }

    const SITE: &str = "40 22 0:33 / /home rw - nfs4 filer:/export/home rw\n\
        41 22 0:34 /sub /mnt/sub rw - nfs filer:/export/home rw\n\
        42 22 0:35 / /mnt/share rw - cifs //Filer/share/dir rw\n\
        43 22 0:36 /dir /mnt/deep rw - smb3 //filer/share/dir rw\n\
        44 22 0:37 / /home/me/far rw - fuse.sshfs me@far:/srv rw\n\
        45 22 0:38 / /scratch rw - lustre 10.0.0.1@tcp:/work rw\n\
        46 22 0:39 / /fs1 rw - gpfs fs1 rw\n";

    #[test]
    fn a_line_of_the_configuration_puts_a_proxy_where_the_filer_was() {
        let said = "filer:/export via proxy:/mnt\n//filer/share via proxy:/srv\n10.0.0.1@tcp:/work via login:/scratch\n";
        let expected = [
            "/home proxy /mnt/home [filer:/export/home]",
            "/mnt/sub proxy /mnt/home/sub [filer:/export/home]",
            "/mnt/share proxy /srv/dir [//Filer/share/dir]",
            "/mnt/deep proxy /srv/dir [//filer/share/dir]",
            "/home/me/far me@far /srv",
            "/scratch login /scratch [10.0.0.1@tcp:/work]",
        ];
        assert_eq!(seen(SITE, said), expected);
        let without = [
            "/home filer /export/home",
            "/mnt/sub filer /export/home/sub",
            "/mnt/share Filer -",
            "/mnt/deep filer -",
            "/home/me/far me@far /srv",
        ];
        assert_eq!(seen(SITE, ""), without);
    }

    #[test]
    fn nodes_of_slurm_have_what_is_mounted_here_under_the_same_name() {
        let expected = [
            "/home slurm:0 /home [filer:/export/home]",
            "/mnt/sub proxy /mnt/sub [filer:/export/home]",
            "/mnt/share slurm:0 /mnt/share [//Filer/share/dir]",
            "/mnt/deep slurm:0 /mnt/deep [//filer/share/dir]",
            "/home/me/far me@far /srv",
            "/scratch slurm:0 /scratch [10.0.0.1@tcp:/work]",
            "/fs1 slurm:0 /fs1 [fs1]",
        ];
        assert_eq!(
            seen(
                SITE,
                "engine slurm\nfiler:/export/home/sub via proxy:/mnt/sub\n"
            ),
            expected
        );
        let one = seen(SITE, "far:/srv via slurm\n");
        assert!(
            one.contains(&"/home/me/far slurm:0 /home/me/far [me@far:/srv]".to_owned()),
            "{one:?}"
        );
        assert!(
            one.contains(&"/home filer /export/home".to_owned()),
            "{one:?}"
        );
    }
}
