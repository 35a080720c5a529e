//! How much goes through each stage, and how long that takes a processor: what was measured of such calls before, or else what
//! their annotations say.
//!
//! Invariant: measured is preferred to said. Where nothing was measured there are two guesses: what is likely, and what would make a
//! plan look worst, so that a plan is not chosen on hope.

use super::commands::{ends_early, looks_only, name, reads_at_most, usual_speed, waits};
use super::givers::{giver, trees};
use super::{Facts, FileKind, Named, Place, Stage, Stdin};
use crate::annotation::{Call, Combine, Folder, Given, Kind, Language, Volume};
use crate::program::{Reading, Together};

/// With which guesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Guess {
    /// What is likely.
    Likely,
    /// What makes plans look bad: filters let everything pass, and what may end early does.
    Worst,
}

/// So many letters are a text that most lines do not have.
const RARE: usize = 5;

/// What goes through a stage.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Flow {
    /// Bytes it reads, of files and of standard input.
    pub input: f64,
    /// Those of standard input.
    pub stdin: f64,
    /// Bytes it prints.
    pub output: f64,
    /// Seconds of a processor.
    pub cpu_s: f64,
    /// Nothing comes out before all has gone in.
    pub waits: bool,
    /// What it prints does not grow with its input.
    pub few: bool,
    /// How much of each file it names it reads, of 1.
    pub fraction: f64,
}

/// What standard input brings if nobody knows.
const UNKNOWN_BYTES: f64 = 1e6;
/// Some lines.
const FEW_BYTES: f64 = 200.0;
/// What looking at an entry of a folder costs a processor.
const ENTRY_CPU_S: f64 = 3e-6;

pub(super) fn flows(facts: &Facts<'_>, readings: &[Option<Reading>], guess: Guess) -> Vec<Flow> {
    let mut flows: Vec<Flow> = Vec::with_capacity(facts.stages.len());
    let mut before = 0.0;
    for (k, (stage, reading)) in facts.stages.iter().zip(readings).enumerate() {
        let told_of = told_of(facts, k);
        let told_of = told_of.iter().map(|named| named.size_bytes as f64).sum();
        let flow = flow(facts, stage, reading.as_ref(), (before, told_of), guess);
        before = flow.output;
        flows.push(flow);
    }
    // Who reads little makes those before it stop early, if they hand on what they read.
    for k in (0..flows.len()).rev() {
        let stage = &facts.stages[k];
        let most = match reads_at_most(stage) {
            Some(most) => Some(most),
            None if guess == Guess::Worst && ends_early(stage, early(&readings[k])) => Some(128e3),
            None => match (facts.stages.get(k + 1), &stage.call) {
                (Some(next), Ok(call))
                    if next.stdin == Stdin::Stage
                        && flows[k + 1].fraction < 1.0
                        && matches!(call.of.volume, Volume::Same | Volume::More)
                        && !flows[k].waits =>
                {
                    Some(flows[k + 1].stdin)
                }
                _ => None,
            },
        };
        let flow = &mut flows[k];
        if let Some(most) = most.filter(|most| *most < flow.input) {
            let fraction = most / flow.input;
            flow.fraction = fraction;
            flow.input *= fraction;
            flow.stdin *= fraction;
            flow.cpu_s *= fraction;
            flow.output *= if flow.few { 1.0 } else { fraction };
        }
    }
    flows
}

fn early(reading: &Option<Reading>) -> Option<bool> {
    reading.as_ref().map(|reading| reading.early)
}

fn flow(
    facts: &Facts<'_>,
    stage: &Stage<'_>,
    reading: Option<&Reading>,
    (before, told_of): (f64, f64),
    guess: Guess,
) -> Flow {
    let unknown = match guess {
        Guess::Likely => UNKNOWN_BYTES,
        Guess::Worst => 64.0 * UNKNOWN_BYTES,
    };
    let stdin = match &stage.stdin {
        Stdin::Stage => before,
        Stdin::File { file, offset } => file.size_bytes.saturating_sub(*offset) as f64,
        Stdin::Terminal => 0.0,
        Stdin::Other { bytes } => bytes.map_or(unknown, |bytes| bytes as f64),
    };
    let Ok(call) = &stage.call else {
        // Nobody knows; as much as goes in, without effort.
        return Flow {
            input: stdin,
            stdin,
            output: stdin,
            fraction: 1.0,
            ..Flow::default()
        };
    };
    let stdin = if call.stdin { stdin } else { 0.0 };
    let is_read = |kind: Kind| {
        matches!(
            kind,
            Kind::Input | Kind::Tree | Kind::Update | Kind::Assignment
        )
    };
    let files = stage.files.iter().zip(&call.files);
    let files: Vec<&Named> = files
        .filter(|(_, file)| is_read(file.kind))
        .map(|(named, _)| named)
        .collect();
    let content: f64 = if looks_only(stage) {
        0.0
    } else {
        files.iter().map(|named| named.size_bytes as f64).sum()
    };
    let entries = entries(stage);
    let input = stdin + content + told_of;
    // This very call, or else one of its class; of the class nobody knows whether the next call lets more pass.
    let learned = &facts.learned.commands;
    let this = learned.get(&call_key(&stage.words, call));
    let class = learned.get(&selectivity_key(&stage.words, call));
    let measured = match guess {
        Guess::Likely => this.or(class),
        Guess::Worst => this,
    };
    // An AWK program that prints at its end only prints sums, or something for each key that it has seen.
    let at_end = call.of.program == Some(Language::Awk) && reading.is_some_and(|r| r.waits);
    let sums = reading
        .is_some_and(|r| matches!(r.lines, Ok(Together::As(Combine::Sum) | Together::Sums(_))));
    let keys = at_end && !sums;
    let few = call.of.volume == Volume::Few || at_end;
    let output = match (measured, call.of.volume, guess) {
        (_, Volume::Few, _) => FEW_BYTES + 40.0 * entries,
        (Some(measured), ..) => input * measured.selectivity,
        // As many keys as there are: each lane prints about as many as one alone would.
        (None, Volume::Same, Guess::Likely) if keys => 0.01 * input + FEW_BYTES,
        (None, Volume::Same, Guess::Worst) if keys => 0.2 * input + FEW_BYTES,
        (None, Volume::Same, _) if few => FEW_BYTES,
        (None, Volume::Same, _) => input,
        // What is looked for is rare, and what is left out.
        (None, Volume::Less, Guess::Likely) if call.options.contains(&"-v") => 0.8 * input,
        (None, Volume::Less, Guess::Likely) => 0.2 * input,
        (None, Volume::Less, Guess::Worst) if is_rare(stage, call) => 0.5 * input,
        (None, Volume::Less, Guess::Worst) => input,
        (None, Volume::More, Guess::Likely) => 4.0 * input,
        (None, Volume::More, Guess::Worst) => 10.0 * input,
    };
    let speed = (this.or(class)).map_or_else(|| usual_speed(stage), |measured| measured.speed);
    Flow {
        input,
        stdin,
        output,
        cpu_s: input / speed.max(1.0) + entries * ENTRY_CPU_S,
        waits: reading.map_or_else(|| waits(stage), |reading| reading.waits),
        few,
        fraction: 1.0,
    }
}

/// Where files are that a stage reads and does not name: the trees of who tells it of them, or its folder.
pub(super) fn told_of<'f>(facts: &'f Facts<'_>, k: usize) -> Vec<&'f Named> {
    let own = &facts.stages[k];
    let finds = |call: &Call<'_>| call.given == Given::Found && call.reads_folder;
    if own.call.as_ref().is_ok_and(finds) {
        return vec![&own.folder];
    }
    let Some(Ok(giver)) = giver(facts, k) else {
        return Vec::new();
    };
    let stage = &facts.stages[giver.stage];
    let in_folder = stage.call.as_ref().is_ok_and(|call| call.reads_folder);
    let trees = trees(stage).map(|tree| &stage.files[tree]);
    trees.chain(in_folder.then_some(&stage.folder)).collect()
}

/// How many entries of folders a stage looks at.
pub(super) fn entries(stage: &Stage<'_>) -> f64 {
    looks(stage).iter().map(|(_, entries)| entries).sum()
}

/// Where the folders are whose entries a stage looks at, and how many those are.
pub(super) fn looks(stage: &Stage<'_>) -> Vec<(Place, f64)> {
    let Ok(call) = &stage.call else {
        return Vec::new();
    };
    let trees = stage.files.iter().zip(&call.files);
    let trees = trees.filter(|(named, _)| named.kind == FileKind::Folder);
    let mut list: Vec<(Place, f64)> = trees
        .map(|(named, _)| (named.at, named.entries.max(1) as f64))
        .collect();
    if call.reads_folder || call.of.folder == Folder::Writes {
        list.push((stage.folder.at, stage.folder.entries as f64));
    }
    list
}

/// What a call looks for: it stands behind an option, or is the first operand that is no file.
fn pattern<'w>(words: &'w [Vec<u8>], call: &Call<'_>) -> Option<&'w [u8]> {
    let given = call.texts.iter().find(|(option, ..)| *option == "-e");
    let given = given.map(|&(_, word, from)| &words[word][from..]);
    let is_file = |word: &usize| {
        let mut files = call.files.iter();
        files.any(|file| file.word == *word && file.from == 0)
    };
    let operand = call.operands.iter().find(|word| !is_file(word));
    given.or(operand.map(|&word| words[word].as_slice()))
}

/// Whether a call prints lines with a text of some length in them: half of all lines have that at most, or nobody would look for it.
fn is_rare(stage: &Stage<'_>, call: &Call<'_>) -> bool {
    let is_grep = ["grep", "egrep", "fgrep"].contains(&name(stage));
    let several =
        call.options.contains(&"-v") || call.texts.iter().filter(|of| of.0 == "-e").count() > 1;
    if !is_grep || several {
        return false;
    }
    let (mut run, mut longest, mut is_quoted) = (0, 0, false);
    for &byte in pattern(&stage.words, call).unwrap_or_default() {
        if byte == b'|' || byte == b'\n' {
            return false;
        }
        // A quoted letter means something else, another character itself; a class, a repetition or any character ends the text.
        let is_itself = if is_quoted {
            !byte.is_ascii_alphanumeric()
        } else {
            !b".*[]^$\\+?{}()".contains(&byte)
        };
        if is_itself {
            run += 1;
            longest = longest.max(run);
        } else if byte != b'\\' || is_quoted {
            run = 0;
        }
        is_quoted = byte == b'\\' && !is_quoted;
    }
    longest >= RARE
}

/// The class of calls to which one belongs, for what is measured of them: the command, its use, which options it has, and the coarse shape
/// of its pattern or program.
pub fn selectivity_key(words: &[Vec<u8>], call: &Call<'_>) -> String {
    let word = words.get(call.at).map_or(&b""[..], |word| word);
    let name = word.rsplit(|&byte| byte == b'/').next().unwrap_or(word);
    let mut options: Vec<&str> = call.options.clone();
    options.sort_unstable();
    options.dedup();
    let mut shape = String::new();
    if !call.runs.is_empty() {
        // What it runs is what takes in and prints.
        for &word in &call.runs {
            shape = format!("{shape}{} ", String::from_utf8_lossy(&words[word]));
        }
    } else if call.programs.is_empty() {
        if let Some(text) = pattern(words, call) {
            shape = self::shape(text);
        }
    } else {
        for program in &call.programs {
            shape = format!("{shape}{:08x}", hash(program.name(words)));
        }
    }
    format!(
        "{}/{}/{}/{shape}",
        String::from_utf8_lossy(name),
        call.of.name,
        options.join(",")
    )
}

/// One call among those of its class: whatever it says besides the names of its files.
pub fn call_key(words: &[Vec<u8>], call: &Call<'_>) -> String {
    let mut said = Vec::new();
    for (number, word) in words.iter().enumerate().skip(call.at + 1) {
        let mut at = 0;
        for file in call.files.iter().filter(|file| file.word == number) {
            said.extend_from_slice(&word[at..file.from]);
            at = file.to;
        }
        said.extend_from_slice(&word[at..]);
        said.push(0);
    }
    // How many files there are makes no other call of it.
    while said.ends_with(b"\0") {
        said.pop();
    }
    format!("{}/{:08x}", selectivity_key(words, call), hash(&said))
}

/// A pattern's shape: whether it is plain text, and of about which length.
fn shape(pattern: &[u8]) -> String {
    let special = |byte: &u8| b".*[]^$\\+?{}()|".contains(byte);
    let anchored = pattern.first() == Some(&b'^') || pattern.last() == Some(&b'$');
    let length = pattern.len().next_power_of_two().min(32);
    match (pattern.iter().any(special), anchored) {
        (false, _) => format!("text{length}"),
        (true, true) => format!("anchored{length}"),
        (true, false) => format!("regex{length}"),
    }
}

/// FNV-1a, which is the same everywhere and always.
fn hash(text: &[u8]) -> u32 {
    text.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// What a stage is called in what people read.
pub(super) fn label(stage: &Stage<'_>) -> String {
    let mut words = stage
        .words
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned());
    let first = words.next().unwrap_or_default();
    let mut label = first.rsplit('/').next().unwrap_or(&first).to_owned();
    for word in words {
        let plain = |c: char| c.is_alphanumeric() || "/_-+.,@%:=^".contains(c);
        label.push(' ');
        if !word.is_empty() && word.chars().all(plain) {
            label.push_str(&word);
        } else {
            label.push_str(&format!("'{}'", word.replace('\n', " ")));
        }
    }
    label
}
