//! What can only be seen by running a call several times: whether it is pure, whether it may be cut and how its parts are put together, and what
//! it depends on.
//!
//! The invariant: everything runs in the folder as it was before, but for the one thing that is changed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use shell_plan::annotation::{Annotation, Call, Effect, Kind, Names, Shown, Status, Stdin, Volume};
use shell_plan::plan::Combiner;
use shell_plan::program::{Reading, Together};

use super::judge::{Lie, differences};
use super::sandbox::Sandbox;
use super::watch::{INPUT_BYTES_MAX, Ran, Trial};
use crate::combine::{Part, Room, by_names, combine, status};

/// Most places at which an input is cut.
const CUTS_MAX: usize = 8;

/// A call that did what it was called for.
pub struct Measured<'a> {
    pub sandbox: &'a Sandbox,
    /// How it was run, unwatched.
    pub trial: Trial<'a>,
    pub annotation: &'a Annotation,
    pub call: &'a Call<'a>,
    pub words: &'a [Vec<u8>],
    pub reading: Option<&'a Reading>,
    /// The first time.
    pub ran: &'a Ran,
}

impl Measured<'_> {
    /// All lies that are found so.
    ///
    /// # Errors
    /// What could not be run.
    pub fn lies(&self) -> io::Result<Vec<Lie>> {
        let mut lies = Vec::new();
        if !self.call.inner.is_empty()
            || self.reading.is_some_and(|reading| reading.stays.is_some())
        {
            return Ok(lies);
        }
        match self.call.of.effect {
            Effect::Pure => {
                let again = self.again()?;
                // A copy of a file has another number than the file, and times of its own.
                let is_copy = [Shown::Inodes, Shown::Times];
                let is_copy = is_copy
                    .iter()
                    .any(|shown| self.call.of.shows.contains(shown));
                let first = if is_copy {
                    &self.trial.run()?
                } else {
                    self.ran
                };
                if (again.status, &again.output) != (first.status, &first.output) {
                    // All that is compared below would differ as well.
                    return Ok(vec![Lie::NotPure]);
                }
                self.surroundings(&mut lies)?;
                self.parts(&mut lies)?;
                self.volume(&mut lies)?;
            }
            Effect::Idempotent => {
                self.again()?;
                let once = self.sandbox.state()?;
                self.trial.run()?;
                let twice = self.sandbox.state()?;
                let paths = differences(&once, &twice, false).into_iter();
                lies.extend(paths.map(Lie::NotIdempotent));
            }
            Effect::Once => {}
        }
        Ok(lies)
    }

    fn again(&self) -> io::Result<Ran> {
        self.sandbox.renew()?;
        self.trial.run()
    }

    /// What of files and of the locale it depends on.
    fn surroundings(&self, lies: &mut Vec<Lie>) -> io::Result<()> {
        let of = &self.call.of;
        if !self.call.files.is_empty() || self.call.reads_folder {
            for shown in [Shown::Times, Shown::Modes, Shown::Links, Shown::Inodes] {
                // All of these change the time of the last change of any kind.
                let has_times = of.shows.contains(&Shown::Times);
                // And here the numbers of the files are others than in the first run.
                let has_numbers = of.shows.contains(&Shown::Inodes);
                if of.shows.contains(&shown) || has_times || has_numbers {
                    continue;
                }
                self.sandbox.renew()?;
                let changed = change(&self.sandbox.work, &self.sandbox.tmp, shown);
                if changed.is_err() {
                    continue;
                }
                let output = self.trial.run()?.output;
                // A file that is made anew may be listed elsewhere.
                let is_same = if of.shows.contains(&Shown::Order) {
                    let bytes = |text: &[u8]| {
                        let mut bytes = text.to_vec();
                        bytes.sort_unstable();
                        bytes
                    };
                    bytes(&output) == bytes(&self.ran.output)
                } else {
                    output == self.ran.output
                };
                if !is_same {
                    lies.push(Lie::Shows(shown));
                }
            }
        }
        if !self.annotation.locale.iter().any(|name| name == "LC_CTYPE") {
            let as_ever = self.again()?;
            let mut environment = self.trial.environment.to_vec();
            environment.push(("LC_CTYPE".into(), "C".into()));
            let trial = Trial {
                environment: &environment,
                ..self.trial.clone()
            };
            if trial.run()?.output != as_ever.output {
                lies.push(Lie::Locale("LC_CTYPE"));
            }
        }
        Ok(())
    }

    /// How much it prints.
    fn volume(&self, lies: &mut Vec<Lie>) -> io::Result<()> {
        let takes_input =
            self.call.stdin && self.call.files.is_empty() && !self.trial.input.is_empty();
        if !takes_input {
            return Ok(());
        }
        let times = INPUT_BYTES_MAX / self.trial.input.len();
        let more = self.trial.input.repeat(times);
        let ran = self.run(self.trial.words, &more)?;
        if ran.status != 0 {
            return Ok(());
        }
        match self.call.of.volume {
            Volume::Less if ran.output.len() > 2 * more.len() => lies.push(Lie::PrintsMore),
            Volume::Few if ran.output.len() > 4 * self.ran.output.len() + 4096 => {
                lies.push(Lie::PrintsManyLines);
            }
            _ => {}
        }
        Ok(())
    }

    /// Cut as the planner cuts: at line ends of its only input, and between its operands.
    fn parts(&self, lies: &mut Vec<Lie>) -> io::Result<()> {
        let of = &self.call.of;
        let is_input = |word: &usize| {
            let mut files = self.call.files.iter();
            files.any(|file| {
                file.word == *word
                    && file.from == 0
                    && matches!(file.kind, Kind::Input | Kind::Tree)
            })
        };
        let operands: Vec<usize> = (self.call.operands.iter().copied())
            .filter(is_input)
            .collect();
        let has_program = self.reading.is_some();
        let (lines, apart) = match self.reading {
            Some(reading) => {
                let several = ["-i", "-s"];
                let several = self.call.options.iter().any(|o| several.contains(o));
                let together = reading.lines.clone().ok();
                (together.clone(), together.filter(|_| !several))
            }
            None => {
                let nameless = of.names == Names::Several && of.apart_with.is_empty();
                (
                    of.lines.map(Together::As),
                    of.apart.filter(|_| !nameless).map(Together::As),
                )
            }
        };
        if let Some(lines) = lines {
            let file = match operands.as_slice() {
                [] if self.call.stdin => Some(None),
                [only] if !self.call.stdin && of.stdin == Stdin::WithoutInputs => Some(Some(*only)),
                _ => None,
            };
            if let Some(file) = file.filter(|_| of.names != Names::Always) {
                let how = combiner(&lines, self.words, &operands, has_program);
                self.cut(&how, file, lies)?;
            }
        }
        if let Some(apart) = apart
            && operands.len() > 1
            && !self.call.stdin
        {
            let how = combiner(&apart, self.words, &operands, has_program);
            self.one_by_one(&how, &operands, lies)?;
        }
        Ok(())
    }

    /// Compares the whole with its parts, cut at each line's end.
    fn cut(&self, how: &Combiner, file: Option<usize>, lies: &mut Vec<Lie>) -> io::Result<()> {
        let path = file.map(|word| {
            let name = OsString::from_vec(self.words[word].clone());
            self.sandbox.work.join(name)
        });
        self.sandbox.renew()?;
        let plain = match &path {
            None => self.trial.input.to_vec(),
            Some(path) if path.is_file() => fs::read(path)?,
            Some(_) => return Ok(()),
        };
        let mut words = self.words.to_vec();
        if let Some(word) = file {
            words.remove(word);
        }
        let words = arguments(&how.lane_words(&words));
        for whole in inputs(&plain) {
            let ran = match &path {
                None => self.run(self.trial.words, &whole)?,
                Some(path) => {
                    self.sandbox.renew()?;
                    fs::write(path, &whole)?;
                    self.trial.run()?
                }
            };
            // Who fails with all of it may fail with parts in another way.
            if ran.status > 1 {
                continue;
            }
            let ends = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
            let cuts: Vec<usize> = ends
                .map(|(at, _)| at + 1)
                .filter(|at| *at < whole.len())
                .collect();
            let step = cuts.len().div_ceil(CUTS_MAX).max(1);
            for (number, &cut) in cuts.iter().enumerate().step_by(step) {
                let mut parts = Vec::new();
                for part in [&whole[..cut], &whole[cut..]] {
                    parts.push(self.run(&words, part)?);
                }
                let line = number + 2;
                let (output, ended) = match self.put_together(how, &parts) {
                    Ok(together) => together,
                    // It would be run whole then.
                    Err(_) => continue,
                };
                if !is_same(how, &output, &ran.output) {
                    lies.push(Lie::Lines(line));
                    return Ok(());
                }
                if ended != ran.status {
                    lies.push(Lie::LinesStatus(line));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn one_by_one(
        &self,
        how: &Combiner,
        operands: &[usize],
        lies: &mut Vec<Lie>,
    ) -> io::Result<()> {
        let mut parts = Vec::new();
        for kept in operands {
            let words = self.words.iter().enumerate();
            let mut words: Vec<Vec<u8>> = words
                .filter(|(word, _)| word == kept || !operands.contains(word))
                .map(|(_, word)| word.clone())
                .collect();
            let with = self.call.of.apart_with.iter();
            words.splice(1..1, with.map(|word| word.as_bytes().to_vec()));
            self.sandbox.renew()?;
            parts.push(self.run(&arguments(&how.lane_words(&words)), self.trial.input)?);
        }
        let Ok((output, ended)) = self.put_together(how, &parts) else {
            return Ok(());
        };
        if !is_same(how, &output, &self.ran.output) {
            lies.push(Lie::Apart);
        } else if ended != self.ran.status {
            lies.push(Lie::ApartStatus);
        }
        Ok(())
    }

    fn run(&self, words: &[OsString], input: &[u8]) -> io::Result<Ran> {
        let trial = Trial {
            words,
            input: &input[..input.len().min(INPUT_BYTES_MAX)],
            ..self.trial.clone()
        };
        trial.run()
    }

    /// Outputs and statuses of parts, put together.
    fn put_together(&self, how: &Combiner, parts: &[Ran]) -> io::Result<(Vec<u8>, i32)> {
        let statuses: Vec<i32> = parts.iter().map(|part| part.status).collect();
        let ended = status(self.call.of.status, &statuses);
        if self.call.of.status == Status::Well && ended != 0 {
            return Err(io::Error::other("it would be run whole then"));
        }
        if let Combiner::Merge(words) = how {
            let mut names = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                let path = self.sandbox.tmp.join(format!("part-{number}"));
                fs::write(&path, &part.output)?;
                names.push(path.into_os_string().into_vec());
            }
            let merged = self.run(&arguments(&by_names(words, &names)), b"")?;
            return Ok((merged.output, ended.max(merged.status)));
        }
        let room = Room {
            memory_bytes: 1 << 20,
            folder: self.sandbox.tmp.clone(),
        };
        let readers = parts
            .iter()
            .map(|part| -> Part { Box::new(io::Cursor::new(part.output.clone())) });
        let mut output = Vec::new();
        combine(how, readers.collect(), &mut output, &room)
            .map_err(|failure| io::Error::other(failure.to_string()))?;
        if let Combiner::Again(words) | Combiner::Sums { words, .. } = how {
            let again = self.run(&arguments(words), &output)?;
            return Ok((again.output, ended.max(again.status)));
        }
        Ok((output, ended))
    }
}

fn combiner(
    together: &Together,
    words: &[Vec<u8>],
    operands: &[usize],
    has_program: bool,
) -> Combiner {
    match together {
        Together::As(combine) => Combiner::of(*combine, words, 0, operands, has_program),
        Together::Sums(lines) => Combiner::of_sums(words, lines),
        Together::Counts { key_first } => Combiner::of_counts(*key_first),
    }
}

/// Keys and counts come in any order.
fn is_same(how: &Combiner, one: &[u8], other: &[u8]) -> bool {
    match how {
        Combiner::Counts { .. } => sorted(one) == sorted(other),
        _ => one == other,
    }
}

fn sorted(text: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// What is cut: the input as it is, without its last line's end, and with bytes in it that are no text.
fn inputs(plain: &[u8]) -> Vec<Vec<u8>> {
    let mut all = vec![plain.to_vec()];
    if let Some(open) = plain.strip_suffix(b"\n") {
        all.push(open.to_vec());
        let mut lines: Vec<&[u8]> = plain.split_inclusive(|byte| *byte == b'\n').collect();
        let middle = lines.len() / 2;
        lines.insert(middle, b"no text: \xff\x00 a 1\n");
        all.push(lines.concat());
    }
    all
}

fn arguments(words: &[Vec<u8>]) -> Vec<OsString> {
    let words = words.iter();
    words.map(|word| OsString::from_vec(word.clone())).collect()
}

/// Changes one thing about all files of a folder.
fn change(folder: &Path, aside: &Path, what: Shown) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let meta = path.symlink_metadata()?;
        if meta.is_dir() {
            change(&path, aside, what)?;
        }
        let other = aside.join(format!(
            "{}-{}",
            std::os::unix::fs::MetadataExt::ino(&meta),
            entry.file_name().display()
        ));
        match what {
            Shown::Times => {
                let time = Timespec {
                    tv_sec: 1_234_567_890,
                    tv_nsec: 5,
                };
                let times = Timestamps {
                    last_access: time,
                    last_modification: time,
                };
                utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
            }
            Shown::Modes => {
                let mode = meta.permissions().mode() ^ 0o070;
                fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
            }
            Shown::Links if meta.is_file() => fs::hard_link(&path, other)?,
            Shown::Inodes if meta.is_file() => {
                // The old one stays, so that its number is not given again.
                let times = Timestamps {
                    last_access: time_of(&meta),
                    last_modification: time_of(&meta),
                };
                fs::rename(&path, &other)?;
                fs::copy(&other, &path)?;
                utimensat(CWD, &path, &times, AtFlags::empty())?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn time_of(meta: &fs::Metadata) -> Timespec {
    use std::os::unix::fs::MetadataExt;
    Timespec {
        tv_sec: meta.mtime(),
        tv_nsec: meta.mtime_nsec(),
    }
}
