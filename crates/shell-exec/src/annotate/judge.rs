//! What a command did, held against what its annotation says of the call.
//!
//! The invariant: nothing is called a lie that the annotation leaves open; and a call that failed proves only what it did, not what it
//! left undone.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use shell_plan::annotation::{Call, Effect, Folder, Kind, Names, Shown};
use shell_plan::program::Reading;

use super::sandbox::{Sandbox, State};
use super::watch::{Deed, Ran, plain};
use crate::agent::launch::SYSTEM;

/// Where an annotation is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lie {
    /// It reads a file whose name is only a text, it is said.
    ReadsText(PathBuf),
    /// It asks what there is of a file whose name is only a text, it is said.
    LooksAtText(PathBuf),
    /// It reads a file or folder that nothing names.
    ReadsUnnamed(PathBuf),
    /// It reads a file that is only written, it is said.
    ReadsOutput(PathBuf),
    /// It never touches a file that is read, it is said.
    LeavesFile(PathBuf),
    /// It changes a file whose name is only a text, it is said.
    WritesText(PathBuf),
    /// It changes a file that is only read, it is said.
    WritesInput(PathBuf),
    /// It changes a file that nothing names.
    WritesUnnamed(PathBuf),
    /// It changes a file, and is pure, it is said.
    Leaves(PathBuf),
    /// It lists the folder it is started in.
    ReadsFolder,
    /// It reads standard input.
    ReadsInput,
    /// It does not read standard input.
    LeavesInput,
    /// It ends before its input does.
    EndsEarly,
    /// It asks for other machines.
    Connects,
    /// It prints something else the second time.
    NotPure,
    /// This file is another one after the second time.
    NotIdempotent(PathBuf),
    /// Cut before this line of its input, its parts give something else when they are put together.
    Lines(usize),
    /// Its parts end with another status when they are put together.
    LinesStatus(usize),
    /// Given its files one by one it gives something else when that is put together.
    Apart,
    /// The same of its status.
    ApartStatus,
    /// It prints the name of a file.
    PrintsName(PathBuf),
    /// What it prints depends on this.
    Shows(Shown),
    /// What it prints depends on this category of the locale.
    Locale(&'static str),
    /// It prints much more than it reads.
    PrintsMore,
    /// It prints more the more it reads.
    PrintsManyLines,
    /// It does not print a version when it is asked so.
    NoVersion,
}

/// A call that was tried once.
pub struct Tried<'a> {
    /// What it means.
    pub call: &'a Call<'a>,
    /// Files of the home folder that it may read.
    pub settings: &'a [String],
    /// Its words.
    pub words: &'a [Vec<u8>],
    /// The command's file.
    pub program: &'a Path,
    /// What is known of the program among its arguments.
    pub reading: Option<&'a Reading>,
    /// What it did.
    pub ran: &'a Ran,
    /// What was in the folder before.
    pub before: &'a State,
    /// And after.
    pub after: &'a State,
}

impl Tried<'_> {
    /// Whether it did what it was called for.
    pub fn succeeded(&self) -> bool {
        match self.ran.status {
            0 => true,
            // Something was not found, or is not the same.
            1 => self.ran.errors.is_empty(),
            // It prints without an end, and was ended by the limit.
            status => status == 128 + nix::libc::SIGXFSZ,
        }
    }

    /// Whether it has read its input, or touched a file that it names.
    pub fn has_begun(&self, sandbox: &Sandbox) -> bool {
        let named = self.named(sandbox);
        let touches = |path: &Path| named.iter().any(|(name, _)| path.starts_with(name));
        self.ran.reads_input || self.ran.done.iter().any(|done| touches(&done.path))
    }

    /// The files that it names, whole.
    fn named(&self, sandbox: &Sandbox) -> Vec<(PathBuf, Kind)> {
        let programs = self.call.programs.iter();
        let programs = programs.filter(|file| file.kind == Kind::ProgramFile);
        let files = self.call.files.iter().chain(programs);
        files
            .map(|file| {
                let name = OsStr::from_bytes(file.name(self.words));
                (plain(&sandbox.work.join(name)), file.kind)
            })
            .collect()
    }

    /// What it names that is no file, as if it were one.
    fn texts(&self, sandbox: &Sandbox) -> Vec<PathBuf> {
        let is_file = |word: usize| {
            let mut files = self.call.files.iter().chain(&self.call.programs);
            files.any(|file| file.word == word)
        };
        let operands = self.call.operands.iter().filter(|word| !is_file(**word));
        let texts = (operands.map(|&word| (word, 0)))
            .chain(self.call.texts.iter().map(|&(_, word, from)| (word, from)));
        texts
            .map(|(word, from)| OsStr::from_bytes(&self.words[word][from..]))
            .filter(|text| !text.is_empty())
            .map(|text| plain(&sandbox.work.join(text)))
            .collect()
    }

    /// Whether it may end before its input does.
    pub fn is_early(&self) -> bool {
        self.call.of.early || self.reading.is_some_and(|reading| reading.early)
    }

    /// All lies that one run shows.
    pub fn lies(&self, sandbox: &Sandbox) -> Vec<Lie> {
        let mut lies = Vec::new();
        // The other command has an annotation of its own; what an unread program does is not claimed.
        let is_open = !self.call.inner.is_empty()
            || self.reading.is_some_and(|reading| reading.stays.is_some());
        if is_open {
            return lies;
        }
        self.deeds(sandbox, &mut lies);
        self.changes(sandbox, &mut lies);
        self.input(&mut lies);
        if self.ran.connects {
            lies.push(Lie::Connects);
        }
        if self.succeeded() {
            self.output(sandbox, &mut lies);
        }
        lies
    }

    fn deeds(&self, sandbox: &Sandbox, lies: &mut Vec<Lie>) {
        let of = &self.call.of;
        let (named, texts) = (self.named(sandbox), self.texts(sandbox));
        let has_folder = self.call.reads_folder || of.folder == Folder::Writes;
        for done in &self.ran.done {
            let path = &done.path;
            let path_of = || path.clone();
            // A script is read by its shell.
            if path == self.program && done.deed != Deed::Writes {
                continue;
            }
            let kinds: Vec<Kind> = (named.iter())
                .filter(|(name, kind)| {
                    name == path || path.starts_with(name) && !matches!(kind, Kind::ProgramFile)
                })
                .map(|(_, kind)| *kind)
                .collect();
            if !kinds.is_empty() {
                let is_written = |kind: &Kind| matches!(kind, Kind::Output | Kind::Update);
                let only_output = kinds.iter().all(|kind| *kind == Kind::Output);
                let was_there = self
                    .before
                    .get(path)
                    .is_some_and(|entry| entry.digest.is_some());
                match done.deed {
                    // What was changed is seen by the folder; this is about files elsewhere, and what failed.
                    Deed::Writes if !done.succeeded && !kinds.iter().any(is_written) => {
                        lies.push(Lie::WritesInput(path_of()));
                    }
                    Deed::Reads if done.succeeded && only_output && was_there => {
                        lies.push(Lie::ReadsOutput(path_of()));
                    }
                    _ => {}
                }
                continue;
            }
            let is_within = path.starts_with(&sandbox.work);
            let is_own = [&sandbox.tmp, &sandbox.out]
                .iter()
                .any(|folder| path.starts_with(folder));
            let is_system = SYSTEM.iter().any(|folder| path.starts_with(folder))
                || path.starts_with("/dev")
                || path.starts_with("/tmp") && !path.starts_with(&sandbox.home);
            if is_within {
                let was_there = self.before.contains_key(path) || *path == sandbox.work;
                match done.deed {
                    _ if has_folder => {}
                    Deed::Lists if *path == sandbox.work => lies.push(Lie::ReadsFolder),
                    Deed::Reads if *path == sandbox.work => {}
                    Deed::Reads | Deed::Lists if texts.contains(path) && was_there => {
                        lies.push(Lie::ReadsText(path_of()));
                    }
                    // It tries whether a text is a file, and there is none.
                    Deed::Reads if !done.succeeded && texts.contains(path) => {}
                    // Some look themselves where a link leads that they read.
                    Deed::Reads if named.iter().any(|(name, _)| leads_to(name, path)) => {}
                    // What it has made itself it may read.
                    Deed::Reads | Deed::Lists if was_there || !self.makes(path) => {
                        lies.push(Lie::ReadsUnnamed(path_of()));
                    }
                    Deed::Looks if done.succeeded && was_there && texts.contains(path) => {
                        lies.push(Lie::LooksAtText(path_of()));
                    }
                    _ => {}
                }
                continue;
            }
            let is_above = named.iter().any(|(name, _)| name.starts_with(path))
                || sandbox.work.starts_with(path);
            let is_setting = (self.settings.iter())
                .any(|file| path.starts_with(sandbox.home.join(file)) && done.deed == Deed::Reads);
            if is_own || is_above || is_setting {
                continue;
            }
            match done.deed {
                Deed::Writes
                    if !is_system || !path.starts_with("/dev") && !path.starts_with("/proc") =>
                {
                    lies.push(Lie::WritesUnnamed(path_of()));
                }
                Deed::Reads | Deed::Lists if !is_system => lies.push(Lie::ReadsUnnamed(path_of())),
                _ => {}
            }
        }
        if self.succeeded() && !self.is_early() {
            for (name, kind) in &named {
                let is_read = matches!(
                    kind,
                    Kind::Input | Kind::Tree | Kind::Update | Kind::ProgramFile
                );
                let is_touched = self.ran.done.iter().any(|done| done.path.starts_with(name));
                if is_read && !is_touched && !name.starts_with("/dev") {
                    lies.push(Lie::LeavesFile(name.clone()));
                }
            }
        }
    }

    fn makes(&self, path: &Path) -> bool {
        let mut done = self.ran.done.iter();
        done.any(|done| done.deed == Deed::Writes && done.path == path)
    }

    /// Files that are others than before.
    fn changes(&self, sandbox: &Sandbox, lies: &mut Vec<Lie>) {
        let of = &self.call.of;
        let (named, texts) = (self.named(sandbox), self.texts(sandbox));
        for path in differences(self.before, self.after, true) {
            let kinds = named.iter().filter(|(name, _)| path.starts_with(name));
            let kinds: Vec<Kind> = kinds.map(|(_, kind)| *kind).collect();
            let is_written = kinds
                .iter()
                .any(|kind| matches!(kind, Kind::Output | Kind::Update));
            // Who fails may leave the new file beside the old one.
            let beside = |(name, kind): &(PathBuf, Kind)| {
                *kind == Kind::Update && name.parent() == path.parent()
            };
            if !self.succeeded() && named.iter().any(beside) {
                continue;
            }
            // Folders above one that is made.
            let leads_there = named.iter().any(|(name, kind)| {
                matches!(kind, Kind::Output | Kind::Update) && name.starts_with(&path)
            });
            lies.push(
                if is_written || leads_there || of.folder == Folder::Writes {
                    if of.effect != Effect::Pure {
                        continue;
                    }
                    Lie::Leaves(path)
                } else if !kinds.is_empty() {
                    Lie::WritesInput(path)
                } else if texts.contains(&path) {
                    Lie::WritesText(path)
                } else {
                    Lie::WritesUnnamed(path)
                },
            );
        }
    }

    fn input(&self, lies: &mut Vec<Lie>) {
        let ran = self.ran;
        if ran.reads_input && !self.call.stdin {
            lies.push(Lie::ReadsInput);
        }
        if !self.succeeded() || self.is_early() {
            return;
        }
        if self.call.stdin && !ran.reads_input {
            lies.push(Lie::LeavesInput);
        }
        if ran.reads_input && !ran.reads_all_input {
            lies.push(Lie::EndsEarly);
        }
    }

    /// Names in what it prints.
    fn output(&self, sandbox: &Sandbox, lies: &mut Vec<Lie>) {
        let inputs = |kind: &Kind| matches!(kind, Kind::Input | Kind::Tree | Kind::Update);
        let files = self.call.files.iter().filter(|file| inputs(&file.kind));
        let files: Vec<_> = files.collect();
        let is_free = match self.call.of.names {
            Names::Always => true,
            Names::Several => files.len() > 1,
            Names::Never => self.reading.is_some_and(|reading| reading.names),
        };
        for file in files {
            let name = file.name(self.words);
            // Short ones are found in anything.
            let is_printed = name.len() > 5 && has(&self.ran.output, name);
            let other_words = self.words.iter().enumerate();
            let is_told = other_words
                .filter(|(word, _)| *word != file.word)
                .any(|(_, word)| has(word, name));
            if is_printed && !is_free && !is_told {
                lies.push(Lie::PrintsName(plain(
                    &sandbox.work.join(OsStr::from_bytes(name)),
                )));
            }
        }
    }
}

fn has(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len().max(1)).any(|window| window == part)
}

/// Files that are others in two states. `by_time`: also if only their times are.
pub fn differences(one: &State, other: &State, by_time: bool) -> Vec<PathBuf> {
    let plain = |state: &State, path: &PathBuf| {
        state.get(path).map(|entry| {
            let mut entry = entry.clone();
            entry.changed = entry.changed.filter(|_| by_time);
            entry
        })
    };
    let mut paths: Vec<&PathBuf> = one.keys().chain(other.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
        .into_iter()
        .filter(|path| plain(one, path) != plain(other, path))
        .cloned()
        .collect()
}

/// Whether one path is a link to the other one.
fn leads_to(link: &Path, path: &Path) -> bool {
    let target = link.read_link().ok();
    target.is_some_and(|to| plain(&link.with_file_name(to)) == path)
}
