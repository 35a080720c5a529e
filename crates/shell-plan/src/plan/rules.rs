//! What must not be: which stage may run on which host, and which may be cut. Never a question of cost.
//!
//! Invariant: a stage of which anything is unknown runs here. Each refusal is a sentence about the stage, for people.

use super::commands::{asks_terminal, ends, ends_early, matters, name, reads_pipes};
use super::givers::{giver, trees};
use std::ops::Range;

use super::volume::looks;
use super::{Facts, FileKind, Named, Place, Stage, Stdin, Stdout, There};
use crate::annotation::{Call, Combine, Effect, File, Folder, Kind, Names, Shown};
use crate::program::{self, Ends, Reading, Together};

/// Facts, and what follows from them for each stage.
pub(super) struct Known<'f, 'a> {
    pub facts: &'f Facts<'a>,
    /// Of stages that have a program.
    pub readings: Vec<Option<Reading>>,
    /// For each stage and host, why it may not run there, its files left aside.
    stays: Vec<Vec<Option<String>>>,
    /// The same with all its files.
    refusals: Vec<Vec<Option<String>>>,
    /// For each stage, which of its files are operands to be read, ascending.
    operands: Vec<Vec<usize>>,
}

impl<'f, 'a> Known<'f, 'a> {
    pub fn new(facts: &'f Facts<'a>) -> Known<'f, 'a> {
        let readings = facts.stages.iter().map(|stage| {
            let call = stage.call.as_ref().ok()?;
            let texts: Vec<_> = stage
                .programs
                .iter()
                .map(|(text, _)| text.clone())
                .collect();
            let language = call.of.program?;
            Some(program::read(language, &stage.words, call, &texts))
        });
        let mut known = Known {
            facts,
            readings: readings.collect(),
            stays: Vec::new(),
            refusals: Vec::new(),
            operands: facts.stages.iter().map(operands).collect(),
        };
        let rewrites = known.reads_what_it_writes();
        known.stays = (0..facts.stages.len())
            .map(|k| {
                let at_all = if rewrites {
                    Some("the pipeline reads a file that it writes".to_owned())
                } else {
                    known.stays_anywhere(k)
                };
                let one = |host: usize| at_all.clone().or_else(|| known.stays_from(k, host));
                (0..facts.hosts.len()).map(one).collect()
            })
            .collect();
        known.refusals = (0..facts.stages.len())
            .map(|k| {
                let files: Vec<usize> = (0..facts.stages[k].files.len()).collect();
                let one = |host: usize| known.refusal_with(k, host, &files);
                (0..facts.hosts.len()).map(one).collect()
            })
            .collect();
        known
    }

    /// Which of a stage's files are operands to be read, ascending.
    pub fn operands(&self, stage: usize) -> &[usize] {
        &self.operands[stage]
    }

    /// The host at which files are said to be that this one has.
    pub fn home(&self, host: usize) -> usize {
        self.facts.hosts[host].has_files_of.unwrap_or(host)
    }

    /// Whether a host has the files that are at a place.
    pub fn has(&self, host: usize, place: Place) -> bool {
        place == Place::Host(host) || place == Place::Host(self.home(host))
    }

    /// The call of a stage that may run elsewhere.
    pub fn call(&self, stage: usize) -> Option<&'f Call<'a>> {
        self.facts.stages[stage].call.as_ref().ok()
    }

    /// Why a stage may not run on a host with all its files.
    pub fn refusal(&self, stage: usize, host: usize) -> Option<&str> {
        self.refusals[stage][host].as_deref()
    }

    /// The same if it is given these of its files alone.
    pub fn refusal_with(&self, stage: usize, host: usize, files: &[usize]) -> Option<String> {
        if let Some(why) = &self.stays[stage][host] {
            return Some(why.clone());
        }
        let of = &self.facts.stages[stage];
        let call = self.call(stage)?;
        let mut programs = of.programs.iter().zip(&call.programs);
        let named = programs.find_map(|((_, named), file)| {
            named
                .as_ref()
                .and_then(|named| self.file_refusal(stage, host, named, file))
        });
        named.or_else(|| {
            files
                .iter()
                .find_map(|&at| self.file_refusal(stage, host, &of.files[at], &call.files[at]))
        })
    }

    /// Why a stage stays here whatever the host is.
    pub fn stays_anywhere(&self, k: usize) -> Option<String> {
        let stage = &self.facts.stages[k];
        let call = match &stage.call {
            Ok(call) => call,
            Err(why) => return Some(why.clone()),
        };
        if call.files.len() != stage.files.len() || call.programs.len() != stage.programs.len() {
            return Some("not all of its files are known".to_owned());
        }
        if !call.inner.is_empty() {
            return Some("it runs another command".to_owned());
        }
        if let Some(Err(why)) = giver(self.facts, k) {
            return Some(why);
        }
        let set = |name: &&&str| {
            stage
                .environment
                .iter()
                .any(|(set, _)| set == name.as_bytes())
        };
        if let Some(variable) = matters(name(stage)).iter().find(set) {
            return Some(format!("{variable} is set, which may name files"));
        }
        if asks_terminal(stage) {
            return Some("it looks whether it prints to a terminal".to_owned());
        }
        if call.of.program.is_some() {
            let reading = self.readings[k].as_ref();
            match reading.map(|reading| &reading.stays) {
                None => return Some("its program is not known".to_owned()),
                Some(Some(why)) => return Some(why.clone()),
                Some(None) => {}
            }
        }
        let shared = call.stdin && !matches!(stage.stdin, Stdin::Stage);
        if shared && stage.stdin == Stdin::Terminal {
            return Some("it reads from the terminal".to_owned());
        }
        if shared && ends_early(stage, self.early(k)) {
            return Some("others may read what it leaves of its input".to_owned());
        }
        None
    }

    fn stays_from(&self, k: usize, host: usize) -> Option<String> {
        let stage = &self.facts.stages[k];
        let call = self.call(k)?;
        let of = &self.facts.hosts[host];
        match stage.there.get(host) {
            Some(There::Same) => {}
            Some(There::Different) => {
                return Some(format!("{} has another {}", of.name, name(stage)));
            }
            Some(There::OtherLocale) => return Some(format!("{} has not its locale", of.name)),
            Some(There::Absent) | None => {
                return Some(format!("{} has no {}", of.name, name(stage)));
            }
        }
        if (call.of.folder == Folder::Writes || call.reads_folder)
            && !self.has(host, stage.folder.at)
        {
            return Some(format!(
                "it looks at its folder, which is not on {}",
                of.name
            ));
        }
        let differs = |shown: &&Shown| of.mount.differs.contains(shown);
        let forgives =
            |shown: &&Shown| **shown == Shown::Order && self.has_lines(k) && self.any_order(k + 1);
        let takes_names = giver(self.facts, k).is_some();
        if takes_names && !self.names_are_of(k, host) {
            return Some(format!("files that it is told of are not on {}", of.name));
        }
        let looks = call.reads_folder || !call.files.is_empty() || takes_names;
        let mut shown = call.of.shows.iter();
        if looks && shown.any(|shown| differs(&shown) && !forgives(&shown)) {
            return Some(format!(
                "it tells what looks otherwise over the mount than on {}",
                of.name
            ));
        }
        None
    }

    fn file_refusal(&self, k: usize, host: usize, named: &Named, file: &File) -> Option<String> {
        let stage = &self.facts.stages[k];
        let call = self.call(k)?;
        let of = &self.facts.hosts[host];
        let says_names = match call.of.names {
            Names::Never => false,
            Names::Several => self.operands[k].len() > 1,
            Names::Always => true,
        } || self.readings[k]
            .as_ref()
            .is_some_and(|reading| reading.names);
        let moved = !self.has(host, named.at);
        if says_names && !of.any_name && (moved || !named.same_name) {
            return Some(format!(
                "it prints names of files, and they are others on {}",
                of.name
            ));
        }
        match (file.kind, named.kind) {
            // It is said to be absent by its name.
            (kind, FileKind::Absent)
                if kind != Kind::Output && (moved || !named.same_name && !of.any_name) =>
            {
                Some("a file that it names is not there".to_owned())
            }
            (_, FileKind::Other) => Some("it names something that is no file".to_owned()),
            (Kind::Output | Kind::Update | Kind::Scratch | Kind::Tree, _) if moved => {
                Some(format!("a file that it names is not on {}", of.name))
            }
            (Kind::Input | Kind::ProgramFile, FileKind::Folder) => {
                Some("it names a folder where a file should be".to_owned())
            }
            _ if moved && !reads_pipes(stage) => {
                Some(format!("a file that it names is not on {}", of.name))
            }
            _ => None,
        }
    }

    /// Whether all files that a stage is told of are on a host.
    fn names_are_of(&self, k: usize, host: usize) -> bool {
        let Some(Ok(giver)) = giver(self.facts, k) else {
            return false;
        };
        let stage = &self.facts.stages[giver.stage];
        let in_folder = self.call(giver.stage).is_some_and(|call| call.reads_folder);
        let mut trees = trees(stage).map(|tree| &stage.files[tree]);
        trees.all(|named| self.has(host, named.at))
            && (!in_folder || self.has(host, stage.folder.at))
    }

    /// Whether a group that begins with a stage may have this one in it, whole: who names its files must be in it, too.
    pub fn has_giver(&self, from: usize, k: usize) -> bool {
        match giver(self.facts, k) {
            None => true,
            Some(Ok(giver)) => giver.stage >= from,
            Some(Err(_)) => false,
        }
    }

    /// Whether anything that these stages work on is on a host.
    pub fn concerns(&self, stages: Range<usize>, host: usize) -> bool {
        let at = Place::Host(host);
        self.facts.stages[stages].iter().any(|stage| {
            let programs = stage
                .programs
                .iter()
                .filter_map(|(_, named)| named.as_ref());
            let stdin = match &stage.stdin {
                Stdin::File { file, .. } => Some(file),
                _ => None,
            };
            let mut files = stage.files.iter().chain(programs).chain(stdin);
            files.any(|named| named.at == at)
                || matches!(&stage.stdout, Stdout::File(file) if file.at == at)
                || looks(stage).iter().any(|(place, _)| *place == at)
        })
    }

    /// Whether a file is written that another stage reads or writes, or that the shell has made empty for a stage that reads it: then
    /// it matters who does what when.
    fn reads_what_it_writes(&self) -> bool {
        let mut read = Vec::new();
        let mut written = Vec::new();
        for (k, stage) in self.facts.stages.iter().enumerate() {
            let Ok(call) = &stage.call else { continue };
            for (named, file) in stage.files.iter().zip(&call.files) {
                let Some(identity) = named.identity else {
                    continue;
                };
                if file.kind != Kind::Output {
                    read.push((k, identity));
                }
                if matches!(file.kind, Kind::Output | Kind::Update) {
                    written.push((Some(k), identity));
                }
            }
            if let Stdin::File { file, .. } = &stage.stdin {
                read.extend(file.identity.map(|identity| (k, identity)));
            }
            if let Stdout::File(file) = &stage.stdout {
                written.extend(file.identity.map(|identity| (None, identity)));
            }
        }
        let clash = |(k, file): &(Option<usize>, u64)| {
            let others = written
                .iter()
                .filter(|(other, of)| of == file && other != k);
            let readers = read
                .iter()
                .filter(|(other, of)| of == file && Some(*other) != *k);
            others.count() + readers.count() > 0
        };
        written.iter().any(clash)
    }

    /// Whether a stage, if it has a program, may end early by that.
    pub fn early(&self, stage: usize) -> Option<bool> {
        self.readings[stage].as_ref().map(|reading| reading.early)
    }

    /// Whether a stage may end before it has read its input.
    pub fn ends_early(&self, stage: usize) -> bool {
        ends_early(&self.facts.stages[stage], self.early(stage))
    }

    /// Whether a stage leaves nothing behind.
    pub fn is_pure(&self, stage: usize) -> bool {
        let call = self.call(stage);
        call.is_some_and(|call| call.of.effect == Effect::Pure)
    }

    /// Whether what a stage prints is lines, as far as its input is.
    fn has_lines(&self, stage: usize) -> bool {
        matches!(self.ends(stage), Ends::Always | Ends::IfInput)
    }

    /// Whether what a stage prints is whole lines.
    pub fn ends(&self, stage: usize) -> Ends {
        match &self.readings[stage] {
            Some(reading) => reading.ends,
            None => ends(&self.facts.stages[stage]),
        }
    }

    /// How outputs for parts of a stage's input are put together, cut at line ends or between operands; none if it may not be cut.
    pub fn together(&self, stage: usize, apart: bool) -> Option<Together> {
        let call = self.call(stage)?;
        let complains = self.facts.unfit && self.facts.stages[stage].is_merged;
        if call.of.effect != Effect::Pure || complains {
            return None;
        }
        if let Some(reading) = &self.readings[stage] {
            let several = call.options.contains(&"-i") || call.options.contains(&"-s");
            let together = reading.lines.clone().ok().filter(|_| !apart || !several);
            let is_sure = |together: &Together| !matches!(together, Together::Sums(_));
            // Words are put behind the first one for those.
            return together.filter(|of| is_sure(of) || !self.facts.unfit && call.at == 0);
        }
        let says = if apart { call.of.apart } else { call.of.lines };
        let nameless = call.of.names == Names::Several && call.of.apart_with.is_empty();
        let is_sure = |says: &Combine| *says != Combine::Text || !self.facts.unfit;
        says.filter(is_sure)
            .filter(|_| !apart || !nameless)
            .map(Together::As)
    }

    /// Whether the order of the lines that come out before this stage makes no difference to what the pipeline prints.
    pub fn any_order(&self, from: usize) -> bool {
        for k in from..self.facts.stages.len() {
            let stage = &self.facts.stages[k];
            let Some(call) = self.call(k) else {
                return false;
            };
            if stage.stdin != Stdin::Stage || !call.stdin || !self.reads_only_stdin(k) {
                return false;
            }
            // Lines that compare as equal stay in their order with -s, and only the first of them is left with -u.
            if name(stage) == "sort" && call.of.name == "sort" {
                return !call
                    .options
                    .iter()
                    .any(|option| ["-s", "-u"].contains(option));
            }
            match self.together(k, false) {
                Some(Together::As(Combine::Sum) | Together::Counts { .. }) => return true,
                Some(Together::As(Combine::Concat)) if self.has_lines(k) && !self.ends_early(k) => {
                }
                _ => return false,
            }
        }
        false
    }

    /// Whether standard input is all that a stage takes in by lines: other files, as lists of patterns, go with its options.
    pub fn reads_only_stdin(&self, k: usize) -> bool {
        let Some(call) = self.call(k) else {
            return false;
        };
        let mut files = call.files.iter();
        !files.any(|file| file.from == 0 && call.operands.binary_search(&file.word).is_ok())
    }
}

/// The files of a stage that are operands to be read.
fn operands(stage: &Stage<'_>) -> Vec<usize> {
    let Ok(call) = &stage.call else {
        return Vec::new();
    };
    let is_operand = |file: &File| {
        matches!(file.kind, Kind::Input | Kind::Tree)
            && file.from == 0
            && call.operands.binary_search(&file.word).is_ok()
    };
    (0..call.files.len())
        .filter(|&at| is_operand(&call.files[at]))
        .collect()
}
