//! Calls that are tried of themselves: the examples of an annotation, and others that its grammar allows; and the files for them.
//!
//! The invariant: every call is one that the annotation describes. What a text should be, no annotation says: the examples' texts are tried,
//! and then a few that many commands understand.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use shell_plan::annotation::{Annotation, Call, File, Kind, Row, Syntax, Use};

use super::watch::Trial;
use crate::program::{self, Found};

/// Texts for arguments of which no example has one.
const TEXTS: [&str; 6] = ["1", "a", ":", "2,3", "c", "%s"];
/// Names for files: unlike anything that is in them.
const NAMES: [&str; 2] = ["sample-one", "sample-two"];
/// When all sample files were changed: in 2001.
const CHANGED: i64 = 1_000_000_000;

/// A call.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Words(pub Vec<Vec<u8>>);

impl Words {
    /// As arguments of a process.
    pub fn arguments(&self) -> Vec<OsString> {
        let words = self.0.iter();
        words.map(|word| OsString::from_vec(word.clone())).collect()
    }
}

/// Calls of a command; each once.
pub fn calls(annotation: &Annotation, name: &str) -> Vec<Words> {
    let mut known = Known::default();
    let mut all: Vec<Words> = Vec::new();
    for example in annotation.examples.iter().filter(|e| e.fits.is_some()) {
        let mut words = example.words();
        let Some(first) = words.first_mut() else {
            continue;
        };
        *first = name.as_bytes().to_vec();
        if let Ok(call) = annotation.call(&words, false) {
            known.learn(&call, &words);
            all.push(Words(words));
        }
    }
    for of in &annotation.uses {
        all.extend(generated(annotation, of, name, &known));
    }
    let mut seen = std::collections::BTreeSet::new();
    all.retain(|words| seen.insert(words.clone()));
    all
}

/// What examples have for texts.
#[derive(Default)]
struct Known {
    /// By the names of options.
    arguments: BTreeMap<String, Vec<Vec<u8>>>,
    /// By the names of uses: operands that are no files.
    operands: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Known {
    fn learn(&mut self, call: &Call<'_>, words: &[Vec<u8>]) {
        for &(option, word, from) in &call.texts {
            let texts = self.arguments.entry(option.to_owned()).or_default();
            texts.push(words[word][from..].to_vec());
        }
        let texts = self.operands.entry(call.of.name.clone()).or_default();
        let is_file = |word: &usize| {
            let mut files = call.files.iter().chain(&call.programs);
            // In a query they are but a part of it.
            let is_whole = |file: &File| (file.from, file.to) == (0, words[file.word].len());
            files.any(|file| file.word == *word && file.kind != Kind::Program && is_whole(file))
        };
        let operands = call.operands.iter().filter(|word| !is_file(word));
        texts.extend(
            operands
                .map(|&word| &words[word])
                .filter(|w| *w != b"-")
                .cloned(),
        );
    }

    /// An argument of an option, or an operand, of a kind; the `number`-th one if it is a file.
    fn value(&self, kind: Kind, texts: Option<&Vec<Vec<u8>>>, number: usize) -> Vec<u8> {
        match kind {
            Kind::Text | Kind::Count | Kind::NoVariable | Kind::Program | Kind::Query => {
                let known = texts.and_then(|texts| texts.get(number).or(texts.first()));
                known.map_or_else(|| TEXTS[0].into(), Clone::clone)
            }
            Kind::Command => b"true".to_vec(),
            Kind::Variable => b"A=1".to_vec(),
            Kind::Scratch => b"/tmp".to_vec(),
            Kind::Output => format!("made-{number}").into_bytes(),
            Kind::Input | Kind::Tree | Kind::Update | Kind::ProgramFile | Kind::Assignment => {
                NAMES[number % 2].into()
            }
        }
    }
}

/// Calls of one use: the plainest, and with each option that it may have.
fn generated(annotation: &Annotation, of: &Use, name: &str, known: &Known) -> Vec<Words> {
    let options = of.options.as_ref().unwrap_or(&annotation.options);
    let row = |name: &String| options.rows.iter().find(|row| row.names[0] == *name);
    let musts: Vec<Option<&Row>> = if of.with.is_empty() {
        vec![None]
    } else {
        of.with.iter().map(row).collect()
    };
    let mut all = Vec::new();
    for (at, must) in musts.iter().enumerate() {
        for inputs in [1, 2] {
            all.extend(build(
                options.syntax,
                of,
                name,
                known,
                *must,
                None,
                inputs,
                0,
            ));
        }
        // With the others of `with` it is the same use.
        if at > 0 {
            continue;
        }
        let is_free = |row: &&Row| {
            !of.without.contains(&row.names[0])
                && must.is_none_or(|must| must.names[0] != row.names[0])
        };
        for extra in options.rows.iter().filter(is_free) {
            let takes_text = extra.takes == Some(Kind::Text);
            let has_known = known.arguments.contains_key(&extra.names[0]);
            let texts = if takes_text && !has_known {
                TEXTS.len()
            } else {
                1
            };
            for text in 0..texts {
                let words = build(options.syntax, of, name, known, *must, Some(extra), 1, text);
                all.extend(words);
            }
        }
    }
    // What was made should mean what it was made for, or at least something.
    all.retain(|words| annotation.call(&words.0, false).is_ok());
    all
}

#[expect(clippy::too_many_arguments, reason = "the parts of a call")]
fn build(
    syntax: Syntax,
    of: &Use,
    name: &str,
    known: &Known,
    must: Option<&Row>,
    extra: Option<&Row>,
    inputs: usize,
    text: usize,
) -> Option<Words> {
    let mut options = Vec::new();
    let mut names = Vec::new();
    for row in must.into_iter().chain(extra) {
        names.push(row.names[0].as_str());
        let is_number = row.names[0] == "-NUM";
        let name = if is_number { "-2" } else { &row.names[0] };
        let Some(kind) = row.takes else {
            options.push(name.as_bytes().to_vec());
            continue;
        };
        let texts = known.arguments.get(&row.names[0]);
        let value = match (kind, texts) {
            (Kind::Text, None) => TEXTS[text].into(),
            _ => known.value(kind, texts, 0),
        };
        match (row.optional, name.starts_with("--")) {
            (true, false) => options.push(name.as_bytes().to_vec()),
            (_, true) => options.push([name.as_bytes(), b"=", &value].concat()),
            (false, false) => {
                options.push(name.as_bytes().to_vec());
                options.push(value);
                if kind == Kind::Command {
                    options.push(b";".to_vec());
                }
            }
        }
    }
    let mut operands = Vec::new();
    let texts = known.operands.get(&of.name);
    let (mut files, mut strings) = (0, 0);
    let is_there = |option: &String| names.contains(&option.as_str());
    for operand in &of.operands {
        if operand.unless.iter().any(is_there) {
            continue;
        }
        let times = match (operand.optional, operand.repeated) {
            (_, true) => inputs,
            (true, false) if inputs > 1 => return None,
            _ => 1,
        };
        for _ in 0..times {
            let number = if matches!(operand.kind, Kind::Text | Kind::Program) {
                strings += 1;
                strings - 1
            } else {
                files += 1;
                files - 1
            };
            operands.push(known.value(operand.kind, texts, number));
        }
    }
    let mut words = vec![name.as_bytes().to_vec()];
    words.extend(of.first.first().map(|first| first.as_bytes().to_vec()));
    // An expression stands behind.
    if syntax == Syntax::Words {
        words.extend(operands);
        words.extend(options);
    } else {
        words.extend(options);
        words.extend(operands);
    }
    Some(Words(words))
}

/// What may be in files, each kind with a name.
pub struct Samples {
    kinds: Vec<(&'static str, [Vec<u8>; 2])>,
}

const TEXT: &str = "pear 3\napple 10\n\napple 10\napple 2 x\nbanana\t7:y\nüber 5 a\nBanana 7\n\n\nthe end 1\n-4 k\n0x1f a:b:c\nzebra 3\nzebra 3\nlast 12\n";

impl Samples {
    /// Text, and what commands make of it.
    pub fn make(trial: &Trial<'_>, path: &OsStr) -> io::Result<Samples> {
        let other = TEXT
            .lines()
            .rev()
            .map(|line| format!("{line}\n"))
            .collect::<String>()
            .replace("pear", "cherry");
        let sorted = |text: &str| {
            let mut lines: Vec<&str> = text.lines().collect();
            lines.sort_unstable();
            lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect::<String>()
        };
        let both = |one: &str, two: &str| [one.as_bytes().to_vec(), two.as_bytes().to_vec()];
        let mut kinds = vec![
            ("", both(TEXT, &other)),
            ("sorted", both(&sorted(TEXT), &sorted(&other))),
            ("numbers", both("12\n7\n100\n7\n3\n", "5\n44\n7\n")),
            (
                "json",
                both(
                    "{\"a\":1,\"b\":[2,3]}\n{\"a\":4,\"b\":[]}\n{\"a\":5,\"b\":[6]}\n",
                    "{\"a\":7,\"b\":[8]}\n",
                ),
            ),
            (
                "picture",
                both("P2\n2 2\n9\n1 2 3 4\n", "P2\n1 2\n9\n8 7\n"),
            ),
            (
                "base64",
                both("YXBwbGUgMTAKcGVhciAzCg==\n", "emVicmEgMwo=\n"),
            ),
        ];
        let made: [(&str, &[&str]); 6] = [
            ("gz", &["gzip", "-nc"]),
            ("bz2", &["bzip2", "-c"]),
            ("xz", &["xz", "-c"]),
            ("zst", &["zstd", "-c"]),
            ("lz4", &["lz4", "-c"]),
            ("tar", &["tar", "-cf", "-", "-C", "/etc", "hostname"]),
        ];
        for (kind, words) in made {
            let Found::Program(program) = program::find(words[0].as_ref(), path, &|_| false) else {
                continue;
            };
            let words: Vec<OsString> = words.iter().map(Into::into).collect();
            let mut pair = [Vec::new(), Vec::new()];
            for (made, from) in pair.iter_mut().zip(both(TEXT, &other)) {
                let trial = Trial {
                    program: &program,
                    words: &words,
                    input: &from,
                    ..trial.clone()
                };
                *made = trial.run()?.output;
            }
            kinds.push((kind, pair));
        }
        Ok(Samples { kinds })
    }

    /// How many kinds there are.
    pub fn count(&self) -> usize {
        self.kinds.len()
    }

    /// Input of a kind.
    pub fn input(&self, kind: usize) -> &[u8] {
        &self.kinds[kind].1[0]
    }

    /// What a file of this name has in it: its name says that, or else the kind does.
    fn of(&self, name: &Path, kind: usize, number: usize) -> &[u8] {
        let ending = name.extension().and_then(OsStr::to_str);
        let ending = ending.map(|ending| if ending == "tgz" { "gz" } else { ending });
        let named = ending.and_then(|ending| self.kinds.iter().find(|(kind, _)| *kind == ending));
        &named.unwrap_or(&self.kinds[kind]).1[number % 2]
    }

    /// Puts the files of a call into a folder. `made`: what is there of those that are written.
    pub fn put(
        &self,
        folder: &Path,
        call: &Call<'_>,
        words: &[Vec<u8>],
        kind: usize,
        made: Made,
    ) -> io::Result<()> {
        let programs = call.programs.iter();
        let programs = programs.filter(|file| file.kind == Kind::ProgramFile);
        for (number, file) in call.files.iter().chain(programs).enumerate() {
            let name = Path::new(OsStr::from_bytes(file.name(words)));
            if name.is_absolute() || file.kind == Kind::Scratch {
                continue;
            }
            let path = folder.join(name);
            if let Some(above) = path.parent() {
                fs::create_dir_all(above)?;
            }
            if path.symlink_metadata().is_ok() {
                continue;
            }
            let is_tree = match (file.kind, made) {
                (Kind::Output, Made::Nothing | Made::Link) => continue,
                (Kind::Output, Made::Folder) | (Kind::Tree, _) => true,
                _ => name.as_os_str().as_bytes().ends_with(b"/"),
            };
            let bytes = self.of(name, kind, number);
            if is_tree {
                let sub = path.join("sub");
                fs::create_dir_all(&sub)?;
                fs::write(path.join("inner-one"), bytes)?;
                fs::write(sub.join("inner-two"), self.of(name, kind, number + 1))?;
            } else if file.kind == Kind::ProgramFile {
                fs::write(&path, b"1\n")?;
            } else if made == Made::Link {
                let beside = path.with_file_name(format!("it-leads-here-{number}"));
                fs::write(&beside, bytes)?;
                std::os::unix::fs::symlink(beside.file_name().unwrap_or_default(), &path)?;
            } else {
                fs::write(&path, bytes)?;
            }
        }
        if call.reads_folder {
            fs::write(folder.join("lying-about"), self.input(kind))?;
        }
        date(folder)
    }
}

/// Has all that is in a folder be of one time.
fn date(folder: &Path) -> io::Result<()> {
    let time = Timespec {
        tv_sec: CHANGED,
        tv_nsec: 0,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.symlink_metadata()?.is_dir() {
            date(&path)?;
        }
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// What is there of files that are to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// Nothing.
    Nothing,
    /// Files.
    File,
    /// Folders with files.
    Folder,
    /// Nothing, and files that are read are links to others.
    Link,
}
