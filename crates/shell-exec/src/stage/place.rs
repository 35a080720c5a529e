//! Where a stage might run: which machine has the files that it names, and what else it needs to be the same there.
//!
//! The invariant: a stage of which anything is not understood has no place but here. What is asked of a mount here (does the file exist, how
//! long is it) is asked in the way that its command would have asked first.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, fcntl_getfl, fstat, open, seek, statat};
use shell_plan::annotation::{Call, Effect, Folder, Given, Kind, Shown};
use shell_plan::plan::depth;
use shell_plan::program;

use super::refresh::Changed;
use crate::mounts::{self, Mount};
use crate::slurm::Placement;
use crate::wire::{Below, Checked, FileFact, Place, Seen, Stdio, Touched, View};
use crate::{annotations, clock};

/// What a stage is called with.
pub struct Stage<'a> {
    /// Its words.
    pub words: &'a [OsString],
    /// Its environment.
    pub environment: &'a [(OsString, OsString)],
    /// The folder it is in.
    pub folder: &'a Path,
    /// Folders of other machines.
    pub mounts: &'a [Mount],
    /// For how long mounts had to be waited for that were asked about files, in microseconds. The command would have waited, too.
    pub waited: Cell<u64>,
}

/// How a shell opens a file for a redirection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// `<`
    Read,
    /// `>`
    Write,
    /// `>>`
    Append,
}

/// The longest program that is read for what it does.
const PROGRAM: usize = 256 << 10;

/// What there is of a file that is not there.
const ABSENT: Seen = Seen {
    kind: 0,
    size: 0,
    changed: 0,
    inode: 0,
};

/// Files are compared to the second where a mount shows no more; whole seconds are compared everywhere.
fn seen(stat: &rustix::fs::Stat, mount: &Mount) -> Seen {
    Seen {
        kind: stat.st_mode & 0o170_000,
        size: stat.st_size as u64,
        changed: stat.st_mtime,
        // What sshfs shows are numbers of its own.
        inode: if mount.is_nfs() { stat.st_ino } else { 0 },
    }
}

/// A number that two names have if they are of one file.
fn identity_of(stat: &rustix::fs::Stat) -> u64 {
    stat.st_ino ^ stat.st_dev.rotate_left(40)
}

impl Stage<'_> {
    /// Asks a mount.
    fn ask<T>(&self, question: impl FnOnce() -> T) -> T {
        let began = clock::micros();
        let answer = question();
        let took = clock::micros().saturating_sub(began);
        self.waited.set(self.waited.get() + took);
        answer
    }

    /// Where it may run besides here, or why nowhere. `stdio`: what its standard input and output are.
    ///
    /// # Errors
    /// Why it runs here, for people.
    pub fn place(&self, stdio: &[Stdio; 2]) -> Result<Place, String> {
        let name = self.words.first().and_then(|word| word.to_str());
        let name = name.ok_or("its name is no text")?;
        let annotation = annotations::of(name).ok_or("there is no annotation of it")?;
        let (nest, words) = self.nest()?;
        let (locales, runs) = self.inside(&nest, stdio)?;
        let call = nest.call;
        if !self.shows_the_same(&call) {
            return Err("it tells what looks otherwise over the mount than there".into());
        }
        let mut place = Place {
            hosts: Vec::new(),
            touched: Vec::new(),
            reads_stdin: call.stdin,
            is_pure: call.of.effect == Effect::Pure,
            files: Vec::new(),
            programs: Vec::new(),
            folder_host: (self.mount_of(self.folder)).map(|mount| mount.host.clone()),
            locales,
            version: annotation.version.clone(),
            runs,
            shows_owners: call.of.shows.contains(&Shown::Owners),
        };
        for file in &call.files {
            let fact = self.add_file(&mut place, file.name(&words), file.kind)?;
            place.files.push(fact);
        }
        self.add_programs(&mut place, &call, &words)?;
        if call.reads_folder || call.of.folder == Folder::Writes {
            let mount = self.mount_of(self.folder);
            let mount = mount.ok_or("it looks at its folder, which is here")?;
            if self.has_other_below(mount, self.folder) {
                return Err("another machine's folder is mounted in its folder".into());
            }
            let writes = call.of.folder == Folder::Writes;
            self.add(&mut place, mount, self.folder, writes)?;
        }
        if call.given == Given::Found {
            let depth = depth(&call, &words).filter(|_| !call.goes_below);
            for touched in &mut place.touched {
                touched.checked.below = Below::Inside;
                touched.checked.depth = depth;
            }
        }
        if place.hosts.is_empty() && call.of.effect != Effect::Pure {
            return Err("it leaves something behind".into());
        }
        for stdio in stdio {
            if let Stdio::There { host, .. } = stdio {
                self.add_host(&mut place, host)?;
            }
        }
        Ok(place)
    }

    /// Reads the programs of a call (AWK, sed, jq) for what they do.
    fn add_programs(
        &self,
        place: &mut Place,
        call: &Call<'_>,
        words: &[Vec<u8>],
    ) -> Result<(), String> {
        let Some(language) = call.of.program else {
            return Ok(());
        };
        for file in &call.programs {
            let text = file.name(words);
            if file.kind == Kind::Program {
                place.programs.push((Some(text.to_vec()), None));
                continue;
            }
            let fact = self.add_file(place, text, Kind::Input)?;
            let path = self.folder.join(OsStr::from_bytes(text));
            let text = std::fs::read(path)
                .ok()
                .filter(|text| text.len() <= PROGRAM);
            place.programs.push((text, Some(fact)));
        }
        let texts: Vec<_> = place
            .programs
            .iter()
            .map(|(text, _)| text.clone())
            .collect();
        let reading = program::read(language, words, call, &texts);
        match reading.stays {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    /// Whether any of the words could be the name of a file on a mount, or the folder is on one.
    pub fn may_name_files_there(&self) -> bool {
        self.mounts.iter().any(|mount| {
            let at = mount.at.as_os_str().as_bytes();
            let has = |word: &OsString| word.as_bytes().windows(at.len()).any(|part| part == at);
            self.folder.starts_with(&mount.at)
                || mount.at.starts_with(self.folder)
                || self.words.iter().any(has)
        })
    }

    /// Whether a mount shows what the call shows as the host does.
    fn shows_the_same(&self, call: &Call<'_>) -> bool {
        let is_nfs = self.mounts.iter().all(|m| m.is_nfs());
        let has_share = (self.mounts.iter()).any(|m| m.is_share() && m.export.is_some());
        call.of.shows.iter().all(|shown| match shown {
            Shown::Modes | Shown::Order => !has_share,
            Shown::Inodes | Shown::Links | Shown::Blocks | Shown::Times => is_nfs,
            // Their names come from each machine's own lists.
            Shown::Owners => false,
        })
    }

    /// The mount that a path is in, by its text.
    fn mount_of(&self, path: &Path) -> Option<&Mount> {
        let within = self.mounts.iter().filter(|m| path.starts_with(&m.at));
        within
            .max_by_key(|mount| mount.at.as_os_str().len())
            .filter(|mount| mount.export.is_some())
    }

    fn add_file(&self, place: &mut Place, name: &[u8], kind: Kind) -> Result<FileFact, String> {
        let name = Path::new(OsStr::from_bytes(name));
        let path = self.folder.join(name);
        let here = FileFact {
            host: None,
            path: path.as_os_str().as_bytes().to_vec(),
            seen: ABSENT,
            identity: 0,
        };
        if name == Path::new("/dev/null") {
            return Ok(here);
        }
        let told = |what: &str| format!("{}: {what}", name.display());
        if kind == Kind::Scratch {
            let is_anywhere = name.starts_with("/tmp");
            return if is_anywhere {
                Ok(here)
            } else {
                Err(told("a folder of this machine"))
            };
        }
        let write = matches!(kind, Kind::Output | Kind::Update);
        // `..` goes up from where a link leads.
        let goes_up = path.components().any(|part| part == Component::ParentDir);
        match self.mount_of(&path) {
            Some(_) if goes_up => Err(told("a name with \"..\"")),
            // There is something else in the place of that.
            Some(mount) if kind == Kind::Tree && self.has_other_below(mount, &path) => {
                Err(told("another machine's folder is mounted in it"))
            }
            Some(mount) => self.add(place, mount, &path, write),
            None if !write && kind != Kind::Tree => {
                sent(here).ok_or(told("a file of this machine"))
            }
            None => Err(told("a file of this machine")),
        }
    }

    /// Whether a folder of another machine than a mount's is mounted beneath a path.
    fn has_other_below(&self, mount: &Mount, path: &Path) -> bool {
        let mut mounts = self.mounts.iter();
        mounts.any(|other| other.host != mount.host && other.at.starts_with(path))
    }

    /// Notes that a host has to do with the stage.
    fn add_host(&self, place: &mut Place, host: &str) -> Result<(), String> {
        if !place.hosts.iter().any(|(known, _)| known == host) {
            let views = self.ask(|| views(self.mounts, host));
            let views = views.ok_or("a mount does not answer")?;
            place.hosts.push((host.to_owned(), views.clone()));
            let of_it = self.mounts.iter().filter(|mount| mount.host == host);
            let nodes = of_it.map(|mount| mount.nodes).max().unwrap_or(1);
            if let Some(first) = Placement::read(host) {
                let others = (1..nodes).map(|number| Placement { number, ..first });
                (place.hosts).extend(others.map(|node| (node.to_string(), views.clone())));
            }
        }
        Ok(())
    }

    /// Notes that a file of a mount is used.
    fn add(
        &self,
        place: &mut Place,
        mount: &Mount,
        path: &Path,
        write: bool,
    ) -> Result<FileFact, String> {
        self.add_host(place, &mount.host)?;
        if write && mount.is_share() {
            let name = path.display();
            return Err(format!(
                "{name}: what is written into a share there is seen here late"
            ));
        }
        let mut identity = 0;
        let place_of = match self.ask(|| statat(rustix::fs::CWD, path, AtFlags::empty())) {
            Ok(stat) => {
                identity = identity_of(&stat);
                seen(&stat, mount)
            }
            Err(rustix::io::Errno::NOENT) => ABSENT,
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        // Who looks at a file has what was written to it here sent to the host first (nfs(5), "close-to-open"). Files in a folder are not looked at.
        let is_folder = place_of.kind == 0o040_000;
        if is_folder && (mount.is_nfs() || mount.is_share()) {
            let flushed = self.ask(|| mounts::flush(path));
            flushed.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        // Links that lead out of the mount lead somewhere else on the host.
        let above = path.parent().filter(|above| above.starts_with(&mount.at));
        if let Some(above) = above {
            let told = |error: &dyn std::fmt::Display| format!("{}: {error}", above.display());
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = self.ask(|| open(above, flags, Mode::empty()));
            let opened = opened.map_err(|error| told(&error))?;
            let real = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd()));
            if !real.map_err(|error| told(&error))?.starts_with(&mount.at) {
                return Err(told(&"a link out of the mount"));
            }
        }
        let path = path.as_os_str().as_bytes().to_vec();
        place.touched.push(Touched {
            host: mount.host.clone(),
            checked: Checked {
                path: path.clone(),
                seen: place_of,
                ends_line: false,
                below: Below::Anything,
                depth: None,
            },
            write,
        });
        Ok(FileFact {
            host: Some(mount.host.clone()),
            path,
            seen: place_of,
            identity,
        })
    }

    /// Files that are changed where this machine would not notice, if the stage runs elsewhere.
    pub fn changed(&self, place: Option<&Place>, stdout: &Stdio) -> Changed {
        let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let written = place.into_iter().flat_map(|place| &place.touched);
        let written = written.filter(|touched| touched.write).flat_map(|touched| {
            let file = path(&touched.checked.path);
            let above = file.parent().map(Path::to_path_buf);
            let is_there = touched.checked.seen != ABSENT;
            let both = std::iter::once(file).chain(above);
            both.map(move |path| (path, is_there))
        });
        let output = match stdout {
            Stdio::There { path: name, .. } => Some((path(name), true)),
            _ => None,
        };
        let forgets = |(path, _): &(PathBuf, bool)| {
            let mount = self.mount_of(path);
            mount.is_some_and(Mount::remembers)
        };
        Changed::of(written.chain(output).filter(forgets))
    }

    /// Descriptors 0 and 1 of this process. `None`: the command would fail with it, or do with it what only it knows.
    pub fn stdio(&self) -> [Option<Stdio>; 2] {
        [
            self.one(rustix::stdio::stdin(), OFlags::WRONLY),
            self.one(rustix::stdio::stdout(), OFlags::RDONLY),
        ]
    }

    /// Whether messages go where any process could write them. A command may see that it cannot, and end otherwise for it.
    pub fn has_usual_errors(&self) -> bool {
        self.one(rustix::stdio::stderr(), OFlags::RDONLY).is_some()
    }

    /// Whether a mount of a host has the host's mask for new files besides the user's.
    pub fn adds_umask(&self, host: &str) -> bool {
        let of = |mount: &&Mount| mount.host == host;
        (self.mounts.iter().filter(of)).any(|mount| mount.kind == "fuse.sshfs")
    }

    /// What a descriptor is, unless it is opened so that it is of no use.
    fn one(&self, fd: BorrowedFd<'_>, useless: OFlags) -> Option<Stdio> {
        let stat = self.ask(|| fstat(fd)).ok()?;
        if fcntl_getfl(fd).ok()? & OFlags::ACCMODE == useless {
            return None;
        }
        match stat.st_mode & 0o170_000 {
            0o010_000 => Some(Stdio::Pipe(identity_of(&stat))),
            0o020_000 if is_null(&stat) => Some(Stdio::Null),
            // Other devices do as they like.
            0o020_000 if rustix::termios::isatty(fd) => Some(Stdio::Terminal),
            0o020_000 => None,
            0o100_000 if useless == OFlags::RDONLY && is_shared(&stat) => Some(Stdio::Here),
            0o100_000 => Some(self.there(fd, &stat).unwrap_or(Stdio::Here)),
            0o040_000 => None,
            _ => Some(Stdio::Here),
        }
    }

    /// What a descriptor would be if a shell opened this file for it: to read it, or to write it anew or at its end.
    ///
    /// # Errors
    /// Why it could not be read.
    pub fn opened(&self, name: &Path, opening: Opening) -> Result<Stdio, String> {
        if name == Path::new("/dev/null") {
            return Ok(Stdio::Null);
        }
        let path = self.folder.join(name);
        let found = statat(rustix::fs::CWD, &path, AtFlags::empty());
        if let (Opening::Read, Err(error)) = (opening, &found) {
            return Err(format!("{}: {error}", name.display()));
        }
        let has_parent = path.components().any(|part| part == Component::ParentDir);
        let Some(mount) = self.mount_of(&path).filter(|_| !has_parent) else {
            return Ok(Stdio::Here);
        };
        let mut seen = match &found {
            Ok(stat) => seen(stat, mount),
            // The shell makes it.
            Err(_) => Seen {
                kind: 0o100_000,
                ..ABSENT
            },
        };
        if seen.kind != 0o100_000 {
            return Ok(Stdio::Here);
        }
        if opening != Opening::Read && mount.is_share() {
            return Ok(Stdio::Here);
        }
        if opening == Opening::Write {
            seen.size = 0;
        }
        Ok(Stdio::There {
            host: mount.host.clone(),
            at: 0,
            append: opening == Opening::Append,
            seen,
            identity: found.as_ref().map_or(0, identity_of),
            path: path.into_os_string().as_bytes().to_vec(),
        })
    }

    fn there(&self, fd: BorrowedFd<'_>, stat: &rustix::fs::Stat) -> Option<Stdio> {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?;
        let mount = self.mount_of(&path)?;
        let named = self.ask(|| statat(rustix::fs::CWD, &path, AtFlags::empty()));
        let named = named.ok()?;
        if (named.st_dev, named.st_ino) != (stat.st_dev, stat.st_ino) {
            return None;
        }
        let flags = fcntl_getfl(fd).ok()?;
        // As of a command that writes into a share itself.
        if mount.is_share() && flags & OFlags::ACCMODE != OFlags::RDONLY {
            return None;
        }
        Some(Stdio::There {
            host: mount.host.clone(),
            at: seek(fd, rustix::fs::SeekFrom::Current(0)).ok()?,
            append: flags.contains(OFlags::APPEND),
            seen: seen(&named, mount),
            identity: identity_of(&named),
            path: path.into_os_string().as_bytes().to_vec(),
        })
    }
}

/// The longest file of this machine that is sent to a host for what is read there.
const SENT: u64 = 64 << 20;

/// Where what is read depends on who reads it.
const OWN: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A file of this machine that may be sent to where it is read; it must be there as long as anybody may begin to read it again.
fn sent(file: FileFact) -> Option<FileFact> {
    let path = Path::new(OsStr::from_bytes(&file.path));
    if OWN.iter().any(|folder| path.starts_with(folder)) {
        return None;
    }
    // Others are not opened: who waits for a reader of a pipe waits for the command.
    let stat = statat(rustix::fs::CWD, path, AtFlags::empty()).ok()?;
    let size = u64::try_from(stat.st_size).ok()?;
    let kind = stat.st_mode & 0o170_000;
    if kind != 0o100_000 || size > SENT {
        return None;
    }
    std::fs::File::open(path).ok()?;
    Some(FileFact {
        seen: Seen {
            kind,
            size,
            changed: stat.st_mtime,
            inode: stat.st_ino,
        },
        identity: identity_of(&stat),
        ..file
    })
}

/// Whether the shell has a file open that is standard output: then others may write to it at the same time, behind each other by the one position that they
/// have in common, which a host has not. One that the shell opened for this command alone it has not open itself.
fn is_shared(stat: &rustix::fs::Stat) -> bool {
    use std::os::unix::fs::MetadataExt;
    let shell = nix::unistd::getppid();
    let Ok(list) = std::fs::read_dir(format!("/proc/{shell}/fd")) else {
        return true;
    };
    // Who has lost its shell does not know who else there is. What runs in the background may be one of several, for which the shell had a file open
    // that it has closed meanwhile; scripts' shells have such commands ignore Interrupt (POSIX, Asynchronous Lists).
    shell.as_raw() == 1
        || super::ignores(nix::sys::signal::Signal::SIGINT)
        || list.flatten().any(|entry| {
            let meta = std::fs::metadata(entry.path());
            meta.is_ok_and(|meta| (meta.dev(), meta.ino()) == (stat.st_dev, stat.st_ino))
        })
}

/// Whether a device is the one that throws everything away.
fn is_null(stat: &rustix::fs::Stat) -> bool {
    stat.st_mode & 0o170_000 == 0o020_000 && stat.st_rdev == rustix::fs::makedev(1, 3)
}

/// Whether messages go where output goes, in one order: into the same pipe or terminal, or to the same place of a file.
pub fn is_merged() -> bool {
    let (one, other) = (rustix::stdio::stdout(), rustix::stdio::stderr());
    let (Ok(first), Ok(second)) = (fstat(one), fstat(other)) else {
        return false;
    };
    // Nobody sees in which order what is thrown away.
    if is_null(&first) {
        return false;
    }
    let at = |fd| seek(fd, rustix::fs::SeekFrom::Current(0)).ok();
    (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino) && at(one) == at(other)
}

/// All that is mounted of a host.
pub fn views(mounts: &[Mount], host: &str) -> Option<Vec<View>> {
    let of = mounts.iter().filter(|mount| mount.host == host);
    of.filter_map(|mount| {
        let export = mount.export.as_ref()?;
        Some((mount, export))
    })
    .map(|(mount, export)| {
        let stat = match statat(rustix::fs::CWD, &mount.at, AtFlags::empty()) {
            Ok(stat) => stat,
            // Somebody else's: nothing of it is this user's.
            Err(rustix::io::Errno::ACCESS) => return Some(None),
            Err(_) => return None,
        };
        let mut root = seen(&stat, mount);
        // A node has the same file system there, whose root has one number everywhere, or but the folder over which that is mounted elsewhere.
        if Placement::read(host).is_some() {
            root.inode = stat.st_ino;
        }
        Some(Some(View {
            at: mount.at.as_os_str().as_bytes().to_vec(),
            export: export.as_os_str().as_bytes().to_vec(),
            root,
            is_fuse: mount.is_fuse(),
        }))
    })
    .collect::<Option<Vec<Option<View>>>>()
    .map(|views| views.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a command may run that stands in a mount of this kind, which `proxy` has: a host, or why none.
    fn placed(kind: &str, words: &[&str]) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().canonicalize().unwrap();
        std::fs::write(at.join("file"), "a line\n").unwrap();
        let mounts = [Mount {
            at: at.clone(),
            kind: kind.into(),
            host: "proxy".into(),
            export: Some("/srv".into()),
            nodes: 1,
            stands_for: Some("//filer/share".into()),
        }];
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let stage = Stage {
            words: &words,
            environment: &[],
            folder: &at,
            mounts: &mounts,
            waited: Cell::default(),
        };
        let place = stage.place(&[Stdio::Null, Stdio::Here]);
        let written = stage.opened(Path::new("file"), Opening::Write).unwrap();
        let read = stage.opened(Path::new("file"), Opening::Read).unwrap();
        assert!(matches!(read, Stdio::There { .. }), "{read:?}");
        assert_eq!(matches!(written, Stdio::There { .. }), kind != "cifs");
        place.map(|place| place.hosts.into_iter().map(|(host, _)| host).collect())
    }

    #[test]
    fn what_writes_into_a_share_or_shows_what_only_a_share_has_runs_here() {
        for kind in ["cifs", "nfs4"] {
            assert_eq!(placed(kind, &["grep", "x", "file"]), Ok("proxy".into()));
        }
        for words in [&["sort", "-o", "file", "file"][..], &["find", "."]] {
            assert_eq!(placed("nfs4", words), Ok("proxy".into()), "{words:?}");
            assert!(placed("cifs", words).is_err(), "{words:?}");
        }
    }
}
