//! A place where commands can be tried: nothing of the user's is changed, whatever they do.
//!
//! A process of our own program enters namespaces of its own (mounts, network, host name) in which everything can be read and nothing can
//! be written but one folder in memory. In that folder lie sample files, or a copy of the user's folder, which is shown in place of it.
//!
//! The invariant: when any of this cannot be had, nothing is tried.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, utimensat};
use xxhash_rust::xxh3::xxh3_64;

use crate::agent::view::own_namespace;
use crate::mounts::unescaped;

/// Most bytes and most files of a folder that is copied.
const COPY_BYTES: u64 = 256 << 20;
const COPY_FILES: usize = 20_000;

/// Devices that commands may have. Disks are not among them.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// The folders of a place for trials.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Where commands are started.
    pub work: PathBuf,
    /// What `work` looks like before each trial.
    pub master: PathBuf,
    /// The home of the commands, which is empty.
    pub home: PathBuf,
    /// Their folder for temporary files.
    pub tmp: PathBuf,
    /// Where their outputs go.
    pub out: PathBuf,
    /// What is there before sample files are: nothing, or a repository.
    pub ground: PathBuf,
}

impl Sandbox {
    /// Gives this process a place for trials, in memory at `base`. `shown`: a folder of which a copy is shown in place of it; none: an empty one.
    /// To be called while the process has one thread.
    ///
    /// # Errors
    /// What cannot be had, for people.
    pub fn enter(base: &Path, shown: Option<&Path>) -> Result<Sandbox, String> {
        let original = match shown {
            None => None,
            Some(folder) => Some(
                rustix::fs::open(
                    folder,
                    OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
                    Mode::empty(),
                )
                .map_err(|error| format!("{}: {error}", folder.display()))?,
            ),
        };
        own_namespace()?;
        // Where there is no other network there is at least none that is reached by accident: what a command asks for is seen in any case.
        for flags in [
            CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWIPC,
            CloneFlags::CLONE_NEWUTS,
        ] {
            let _ = unshare(flags);
        }
        let none = None::<&str>;
        mount(
            Some("none"),
            base,
            Some("tmpfs"),
            // Who looks at a file changes nothing about it.
            MsFlags::MS_NOSUID | MsFlags::MS_NOATIME,
            Some("mode=755"),
        )
        .map_err(|error| format!("no memory for files: {}", error.desc()))?;
        let at = |name: &str| {
            let path = base.join(name);
            fs::create_dir(&path)
                .map(|()| path)
                .map_err(|error| error.to_string())
        };
        let mut sandbox = Sandbox {
            work: at("work")?,
            master: at("master")?,
            home: at("home")?,
            tmp: at("tmp")?,
            out: at("out")?,
            ground: at("ground")?,
        };
        if let (Some(folder), Some(original)) = (shown, original) {
            let from = PathBuf::from(format!("/proc/self/fd/{}", original.as_raw_fd()));
            let mut room = Room {
                bytes: COPY_BYTES,
                files: COPY_FILES,
            };
            copy(&from, &sandbox.master, &mut room)
                .map_err(|error| format!("{} cannot be copied: {error}", folder.display()))?;
            let bind = MsFlags::MS_BIND;
            mount(Some(&sandbox.work), folder, none, bind, none)
                .map_err(|error| format!("{}: {}", folder.display(), error.desc()))?;
            sandbox.work = folder.to_path_buf();
        }
        only_read(&[base, &sandbox.work])?;
        devices()?;
        std::env::set_current_dir(&sandbox.work).map_err(|error| error.to_string())?;
        Ok(sandbox)
    }

    /// Makes the folder what it was in the beginning.
    ///
    /// # Errors
    /// What could not be done.
    pub fn renew(&self) -> io::Result<()> {
        for folder in [&self.work, &self.home, &self.tmp] {
            empty(folder)?;
        }
        copy_all(&self.master, &self.work)
    }

    /// Has `work` begin as another folder of this place.
    ///
    /// # Errors
    /// What could not be copied.
    pub fn begin_as(&self, folder: &Path) -> io::Result<()> {
        empty(&self.master)?;
        copy_all(folder, &self.master)
    }

    /// Another name for the host; nothing where there can be none.
    pub fn rename_host(&self, name: &str) {
        let _ = rustix::system::sethostname(name.as_bytes());
    }

    /// All that is in the folder.
    ///
    /// # Errors
    /// What could not be read.
    pub fn state(&self) -> io::Result<State> {
        let mut state = State::new();
        note(&self.work, &mut state)?;
        Ok(state)
    }
}

/// Files by their paths.
pub type State = BTreeMap<PathBuf, Entry>;

/// What there is of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Kind and permissions.
    pub mode: u32,
    /// XXH3-64 of its bytes, or of what a link leads to; none of a folder.
    pub digest: Option<u64>,
    /// When it was changed, in seconds and nanoseconds; not of a folder, whose time follows its entries.
    pub changed: Option<(i64, i64)>,
}

fn note(folder: &Path, state: &mut State) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let meta = path.symlink_metadata()?;
        let digest = if meta.is_symlink() {
            Some(xxh3_64(&fs::read_link(&path)?.into_os_string().into_vec()))
        } else if meta.is_file() {
            Some(xxh3_64(&readable(&path, &meta)?))
        } else {
            None
        };
        let changed = (!meta.is_dir()).then(|| (meta.mtime(), meta.mtime_nsec()));
        if meta.is_dir() {
            note(&path, state)?;
        }
        let mode = meta.mode();
        state.insert(
            path,
            Entry {
                mode,
                digest,
                changed,
            },
        );
    }
    Ok(())
}

/// A file's bytes, though its permissions may be against it: they are our own files.
fn readable(path: &Path, meta: &fs::Metadata) -> io::Result<Vec<u8>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let mode = meta.permissions();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            let bytes = fs::read(path);
            fs::set_permissions(path, mode)?;
            bytes
        }
        other => other,
    }
}

/// Removes what is in a folder.
///
/// # Errors
/// What could not be removed.
pub fn empty(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.symlink_metadata()?.is_dir() {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700))?;
            fs::remove_dir_all(&path)?;
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Copies what is in a folder, however much it is.
///
/// # Errors
/// What could not be copied.
pub fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    let mut room = Room {
        bytes: u64::MAX,
        files: usize::MAX,
    };
    copy(from, to, &mut room)
}

/// How much more may be copied.
struct Room {
    bytes: u64,
    files: usize,
}

/// Copies what is in a folder: files, folders and links, with their permissions and times.
fn copy(from: &Path, to: &Path, room: &mut Room) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        let meta = path.symlink_metadata()?;
        let more = if meta.is_file() { meta.len() } else { 0 };
        let left = room.bytes.checked_sub(more);
        let (Some(left), true) = (left, room.files > 0) else {
            return Err(io::Error::other(format!(
                "it has more than {} MB or {COPY_FILES} files; start in a smaller folder",
                COPY_BYTES >> 20
            )));
        };
        room.bytes = left;
        room.files -= 1;
        let kind = meta.file_type();
        if kind.is_symlink() {
            symlink(fs::read_link(&path)?, &to)?;
        } else if kind.is_dir() {
            fs::create_dir(&to)?;
            copy(&path, &to, room)?;
        } else if kind.is_file() {
            fs::copy(&path, &to)?;
        } else if kind.is_fifo() || kind.is_socket() {
            continue;
        } else {
            return Err(io::Error::other(format!(
                "{}: a device",
                entry.file_name().display()
            )));
        }
        if kind.is_dir() {
            fs::set_permissions(&to, meta.permissions())?;
        }
        let time = |seconds: i64, nanoseconds: i64| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: time(meta.atime(), meta.atime_nsec()),
            last_modification: time(meta.mtime(), meta.mtime_nsec()),
        };
        utimensat(CWD, &to, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// Lets nothing be written but what is at these places.
fn only_read(but: &[&Path]) -> Result<(), String> {
    let text = fs::read("/proc/self/mountinfo").map_err(|error| error.to_string())?;
    for line in text.split(|&byte| byte == b'\n') {
        let mut fields = line.split(|&byte| byte == b' ').skip(4);
        let (Some(at), Some(options)) = (fields.next(), fields.next()) else {
            continue;
        };
        let at = PathBuf::from(OsString::from_vec(unescaped(at)));
        if but.contains(&at.as_path()) {
            continue;
        }
        let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        // What was forbidden stays so; else the kernel refuses.
        for option in options.split(|&byte| byte == b',') {
            flags |= match option {
                b"nosuid" => MsFlags::MS_NOSUID,
                b"nodev" => MsFlags::MS_NODEV,
                b"noexec" => MsFlags::MS_NOEXEC,
                b"noatime" => MsFlags::MS_NOATIME,
                b"nodiratime" => MsFlags::MS_NODIRATIME,
                b"relatime" => MsFlags::MS_RELATIME,
                _ => MsFlags::empty(),
            };
        }
        let none = None::<&str>;
        let done = mount(none, &at, none, flags, none);
        // One that another hides cannot be reached, by nobody.
        if let Err(error) = done
            && !matches!(error, nix::errno::Errno::EINVAL | nix::errno::Errno::ENOENT)
        {
            return Err(format!(
                "{} cannot be made read-only: {}",
                at.display(),
                error.desc()
            ));
        }
    }
    let probe = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open("/.nearsh");
    match probe {
        Err(_) => Ok(()),
        Ok(_) => {
            let _ = fs::remove_file("/.nearsh");
            Err("the root folder can be written all the same".into())
        }
    }
}

/// A `/dev` with nothing in it that could be harmed.
fn devices() -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("/dev: {error}");
    let dev = Path::new("/dev");
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let opened = DEVICES.map(|name| rustix::fs::open(dev.join(name), flags, Mode::empty()).ok());
    let none = None::<&str>;
    let desc = |error: nix::errno::Errno| told(&error.desc());
    mount(
        Some("none"),
        dev,
        Some("tmpfs"),
        MsFlags::MS_NOSUID,
        Some("mode=755"),
    )
    .map_err(desc)?;
    for (name, device) in DEVICES.iter().zip(&opened) {
        let Some(device) = device else { continue };
        let at = dev.join(name);
        fs::write(&at, "").map_err(|error| told(&error))?;
        let from = format!("/proc/self/fd/{}", device.as_raw_fd());
        mount(Some(from.as_str()), &at, none, MsFlags::MS_BIND, none).map_err(desc)?;
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(target, dev.join(name)).map_err(|error| told(&error))?;
    }
    fs::create_dir(dev.join("shm")).map_err(|error| told(&error))
}
