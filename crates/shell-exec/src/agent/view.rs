//! Folders of this machine under the names that another machine has for them.
//!
//! A command that names `/mnt/log/today` prints that name, and says it in messages; so `/export/log` must be seen as `/mnt/log` by the
//! processes that run it. A mount namespace of this process alone shows it so: as root, or as a user in a namespace of their own
//! (`user_namespaces(7)`).
//!
//! The invariant: nothing of this is seen by any other process of the machine, and nothing is written to its disks. What a mount point
//! needs and is not there (`/mnt/log`, where there is no `/mnt`) is made in memory, with everything else of that folder bound into it.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

use super::below;
use crate::wire::{Access, Below, Checked, Seen, View};

/// Most entries of a folder that are bound into a copy of it.
const ENTRIES: usize = 2000;

/// The folders that are seen under other names, each opened.
#[derive(Debug)]
pub struct Views {
    shown: Vec<Shown>,
    /// Whether files of other users are seen as theirs: not so in a namespace of users.
    pub sees_owners: bool,
    /// Whether nothing but these folders is to be had by this agent.
    pub is_restricted: bool,
}

#[derive(Debug)]
struct Shown {
    at: PathBuf,
    root: OwnedFd,
}

/// Gives this process the views that can be given; for each, why not if not. To be called while it has one thread.
///
/// `beneath`: only folders beneath this one.
pub fn give(wanted: &[View], beneath: Option<&Path>) -> (Views, Vec<Option<String>>) {
    let mut views = Views {
        shown: Vec::new(),
        sees_owners: true,
        is_restricted: beneath.is_some(),
    };
    if wanted.is_empty() {
        return (views, Vec::new());
    }
    // A node that has the mounts themselves need not be shown anything.
    let is_as_here = beneath.is_none() && wanted.iter().all(|view| view.at == view.export);
    let namespace = if is_as_here {
        Ok(true)
    } else {
        own_namespace()
    };
    match namespace {
        Ok(sees_owners) => views.sees_owners = sees_owners,
        Err(why) => return (views, vec![Some(why); wanted.len()]),
    }
    // All are opened before any is shown: one may hide another's export.
    let opened: Vec<Result<OwnedFd, String>> = wanted.iter().map(|v| open(v, beneath)).collect();
    let mut answers = Vec::new();
    for (view, root) in wanted.iter().zip(opened) {
        let at = PathBuf::from(OsStr::from_bytes(&view.at));
        let shown = root.and_then(|root| {
            if is_as_here {
                return Ok(root);
            }
            show(&root, &at)
                .map(|()| root)
                .map_err(|why| format!("{} cannot be shown here: {why}", at.display()))
        });
        match shown {
            Ok(root) => {
                views.shown.push(Shown { at, root });
                answers.push(None);
            }
            Err(why) => answers.push(Some(why)),
        }
    }
    (views, answers)
}

/// A mount namespace of our own. Whether owners are seen in it.
pub(crate) fn own_namespace() -> Result<bool, String> {
    let is_root = nix::unistd::geteuid().is_root();
    let flags = if is_root {
        CloneFlags::CLONE_NEWNS
    } else {
        CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWUSER
    };
    let (user, group) = (nix::unistd::geteuid(), nix::unistd::getegid());
    unshare(flags).map_err(|error| {
        format!(
            "this user may have no namespaces there ({}): as an administrator, allow unprivileged user namespaces",
            error.desc()
        )
    })?;
    let said = |error: std::io::Error| format!("a namespace of users could not be set up: {error}");
    if !is_root {
        fs::write("/proc/self/setgroups", "deny").map_err(said)?;
        fs::write("/proc/self/uid_map", format!("{user} {user} 1")).map_err(said)?;
        fs::write("/proc/self/gid_map", format!("{group} {group} 1")).map_err(said)?;
    }
    // What the machine mounts and unmounts from now on is seen here, too; nothing that is mounted here is seen there.
    let flags = MsFlags::MS_REC | MsFlags::MS_SLAVE;
    mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
        .map_err(|error| format!("mounts cannot be made our own: {}", error.desc()))?;
    Ok(is_root)
}

/// Opens an export, if it is what the near machine sees under its mount.
fn open(view: &View, beneath: Option<&Path>) -> Result<OwnedFd, String> {
    let export = PathBuf::from(OsStr::from_bytes(&view.export));
    let export = if export.is_absolute() {
        export
    } else {
        // ssh says where it is.
        let home = std::env::var_os("HOME").ok_or("there is no home folder")?;
        Path::new(&home).join(export)
    };
    let whole = export
        .canonicalize()
        .map_err(|error| format!("{}: {error}", export.display()))?;
    if beneath.is_some_and(|folder| !whole.starts_with(folder)) {
        return Err(format!(
            "{} is not beneath the folder that this agent is restricted to",
            whole.display()
        ));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(&whole, flags, Mode::empty())
        .map_err(|error| format!("{}: {error}", whole.display()))?;
    let seen = rustix::fs::fstat(&root).map_err(|error| error.to_string())?;
    if !agrees(&view.root, &seen) {
        return Err(format!(
            "{} is another folder than the one that is mounted",
            whole.display()
        ));
    }
    Ok(root)
}

/// Makes a folder be seen at a path.
fn show(root: &OwnedFd, at: &Path) -> Result<(), Errno> {
    let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
    let source = format!("/proc/self/fd/{}", root.as_raw_fd());
    if !at.is_dir() {
        make_room(at)?;
    }
    mount(Some(source.as_str()), at, None::<&str>, bind, None::<&str>)
}

/// Has a folder be there, in memory: the deepest folder above it that exists is replaced by one with the same entries.
fn make_room(at: &Path) -> Result<(), Errno> {
    let above = at
        .ancestors()
        .skip(1)
        .find(|folder| folder.is_dir())
        .ok_or(Errno::ENOENT)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let real = rustix::fs::open(above, flags, Mode::empty()).map_err(errno)?;
    let real = format!("/proc/self/fd/{}", real.as_raw_fd());
    // A new root cannot be mounted over the old one: it is built elsewhere, and entered.
    let is_root = above == Path::new("/");
    let built = if is_root { Path::new("/tmp") } else { above };
    let entries: Vec<fs::DirEntry> = fs::read_dir(&real)
        .map_err(|_| Errno::EACCES)?
        .take(ENTRIES + 1)
        .flatten()
        .collect();
    if entries.len() > ENTRIES {
        return Err(Errno::E2BIG);
    }
    let kept = if is_root {
        Some(rustix::fs::open(built, flags, Mode::empty()).map_err(errno)?)
    } else {
        None
    };
    let none = None::<&str>;
    mount(
        Some("none"),
        built,
        Some("tmpfs"),
        MsFlags::empty(),
        Some("mode=755"),
    )?;
    for entry in entries {
        let to = built.join(entry.file_name());
        let from = match &kept {
            Some(tmp) if entry.file_name() == "tmp" => {
                PathBuf::from(format!("/proc/self/fd/{}", tmp.as_raw_fd()))
            }
            _ => entry.path(),
        };
        let kind = entry.file_type().map_err(|_| Errno::EIO)?;
        let made = if kind.is_symlink() {
            fs::read_link(&from).and_then(|target| std::os::unix::fs::symlink(target, &to))
        } else if kind.is_dir() {
            fs::create_dir(&to)
        } else {
            fs::write(&to, b"")
        };
        made.map_err(|_| Errno::EIO)?;
        if !kind.is_symlink() {
            let bind = MsFlags::MS_BIND | MsFlags::MS_REC;
            mount(Some(&from), &to, none, bind, none)?;
        }
    }
    let below = at.strip_prefix(above).map_err(|_| Errno::EINVAL)?;
    fs::create_dir_all(built.join(below)).map_err(|_| Errno::EIO)?;
    if is_root {
        nix::unistd::chroot(built)?;
        nix::unistd::chdir("/")?;
    }
    Ok(())
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::from_raw(error.raw_os_error())
}

impl Views {
    /// Opens a file of a view; nothing that leads out of it, by whatever links, is opened.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, String> {
        let path = Path::new(OsStr::from_bytes(path));
        let told = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
        // Of mounts in mounts the innermost has it.
        let of = |shown: &&Shown| path.starts_with(&shown.at);
        let shown = (self.shown.iter().filter(of))
            .max_by_key(|shown| shown.at.as_os_str().len())
            .ok_or_else(|| told(&"not in a folder that is shown"))?;
        let below = path.strip_prefix(&shown.at).map_err(|why| told(&why))?;
        if below.components().any(|part| part == Component::ParentDir) {
            return Err(told(&"a name with \"..\""));
        }
        let below = if below.as_os_str().is_empty() {
            Path::new(".")
        } else {
            below
        };
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        openat2(
            &shown.root,
            below,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            beneath,
        )
        .map_err(|error| told(&error))
    }

    /// The permissions of these, as far as they are there.
    pub fn modes(&self, paths: Vec<Vec<u8>>) -> Vec<(Vec<u8>, u32)> {
        let mode = |path: &[u8]| {
            let found = self.open(path, OFlags::PATH | OFlags::NOFOLLOW).ok()?;
            Some(rustix::fs::fstat(found).ok()?.st_mode & 0o7777)
        };
        let found = paths
            .into_iter()
            .filter_map(|path| Some((mode(&path)?, path)));
        found.map(|(mode, path)| (path, mode)).collect()
    }

    /// Whether a process of a restricted agent may be given what is asked for it: files of the views, and nothing that could have it run something else.
    ///
    /// # Errors
    /// What it may not have, for people.
    pub fn permit(
        &self,
        access: Option<&Vec<Access>>,
        environment: &[Vec<u8>],
    ) -> Result<(), String> {
        if !self.is_restricted {
            return Ok(());
        }
        for Access { path, .. } in access.ok_or("this agent runs nothing without bounds")? {
            if path != b"/tmp" {
                // What is not there yet cannot be opened, and not be touched either: its folder is named besides.
                match self.open(path, OFlags::PATH) {
                    Err(why) if why.ends_with(&rustix::io::Errno::NOENT.to_string()) => {}
                    opened => drop(opened?),
                }
            }
        }
        let refused = |pair: &&Vec<u8>| {
            let bad: [&[u8]; 4] = [b"LD_", b"BASH_ENV=", b"ENV=", b"GCONV_PATH="];
            bad.iter().any(|name| pair.starts_with(name))
        };
        match environment.iter().find(refused) {
            Some(pair) => Err(format!(
                "this agent takes no {}",
                String::from_utf8_lossy(pair)
            )),
            None => Ok(()),
        }
    }

    /// Whether a file looks here as it does on the near side.
    ///
    /// # Errors
    /// That it does not, for people.
    pub fn check(&self, checked: &Checked) -> Result<(), String> {
        let found = self.open(&checked.path, OFlags::PATH);
        let name = || String::from_utf8_lossy(&checked.path).into_owned();
        if checked.seen.kind == 0 {
            return match found {
                Err(why) if why.ends_with(&rustix::io::Errno::NOENT.to_string()) => Ok(()),
                Err(why) => Err(why),
                Ok(_) => Err(format!("{}: is there, on the host", name())),
            };
        }
        let found = found?;
        let seen = rustix::fs::fstat(&found).map_err(|error| error.to_string())?;
        if !agrees(&checked.seen, &seen) {
            return Err(format!("{}: looks different on the host", name()));
        }
        let is_folder = seen.st_mode & 0o170_000 == 0o040_000;
        if checked.below == Below::Anything || !is_folder {
            return Ok(());
        }
        let is_plain = checked.below == Below::Plain;
        below::look(&found, is_plain, checked.depth).map_err(|why| format!("{}: {why}", name()))
    }

    /// Whether the last byte of a file is a newline, or it has none.
    pub fn ends_line(&self, path: &[u8]) -> Result<bool, String> {
        let file = self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let told = |error: rustix::io::Errno| error.to_string();
        let size = rustix::fs::fstat(&file).map_err(told)?.st_size as u64;
        let Some(last) = size.checked_sub(1) else {
            return Ok(true);
        };
        let mut byte = [0];
        let had = rustix::io::pread(&file, &mut byte, last).map_err(told)?;
        Ok(had == 1 && byte == *b"\n")
    }
}

/// Whether what is here may be what the near side sees. It may be newer: mounts show what files were some seconds ago, and who
/// opens one gets it as it is. It may not be older: then something has not arrived.
fn agrees(near: &Seen, here: &rustix::fs::Stat) -> bool {
    let kind = here.st_mode & 0o170_000;
    let same_inode = near.inode == 0 || near.inode == here.st_ino;
    if near.kind != kind || !same_inode || here.st_mtime < near.changed {
        return false;
    }
    let is_file = kind == 0o100_000;
    !is_file || here.st_mtime > near.changed || here.st_size as u64 >= near.size
}
