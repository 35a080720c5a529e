//! Which stage a stage has the names of its files from: `find | sort | xargs grep x`.
//!
//! Invariant: of a giver it is known which folders all names are in that come out of it, and nothing between it and who takes them prints
//! anything but some of those names, whole.

use super::commands::name;
use super::{Facts, Stage, Stdin};
use crate::annotation::{Call, Effect, File, Given, Kind};

/// A stage that gives names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Giver {
    pub stage: usize,
    /// Names are what they should be only if none has blanks, quotes and the like in it.
    pub plain: bool,
}

/// Who gives a stage its names; none if it takes none.
///
/// # Errors
/// Why that is not known, for people.
pub(super) fn giver(facts: &Facts<'_>, k: usize) -> Option<Result<Giver, String>> {
    let call = facts.stages.get(k)?.call.as_ref().ok()?;
    let zeros = match call.given {
        Given::Words => false,
        Given::Zeros => true,
        Given::Nothing | Given::Found => return None,
    };
    // What grep takes for binary it says something else of.
    let mut is_searched = false;
    let unknown = || Some(Err("names of its files come from its input".to_owned()));
    for at in (0..k).rev() {
        let reads_it = facts.stages[at + 1].stdin == Stdin::Stage;
        let stage = &facts.stages[at];
        if !reads_it || stage.is_merged {
            return unknown();
        }
        if finds(stage, zeros) {
            let plain = !zeros || is_searched;
            let mut names = trees(stage).map(|tree| named(stage, tree));
            if plain && !names.all(is_plain) {
                return unknown();
            }
            return Some(Ok(Giver { stage: at, plain }));
        }
        if !keeps_names(stage, zeros) {
            return unknown();
        }
        is_searched |= name(stage).ends_with("grep");
    }
    unknown()
}

/// The trees in which a giver finds names, among its files.
pub(super) fn trees<'s>(stage: &'s Stage<'_>) -> impl Iterator<Item = usize> + 's {
    let call = stage.call.as_ref().ok();
    let files = call.map_or(&[][..], |call| &call.files);
    let is_tree = move |file: &File| {
        let is_operand = call.is_some_and(|call| call.operands.binary_search(&file.word).is_ok());
        file.kind == Kind::Tree && file.from == 0 && is_operand
    };
    (0..files.len()).filter(move |&at| is_tree(&files[at]))
}

fn named<'s>(stage: &'s Stage<'_>, file: usize) -> &'s [u8] {
    let file = stage
        .call
        .as_ref()
        .ok()
        .and_then(|call| call.files.get(file));
    file.map_or(&[], |file| file.name(&stage.words))
}

/// How deep below the trees that it names a call of `find` looks, if that is limited: what may be read is no deeper than that and one more.
pub fn depth(call: &Call<'_>, words: &[Vec<u8>]) -> Option<u32> {
    let limits = call
        .texts
        .iter()
        .filter(|(option, ..)| *option == "-maxdepth");
    let limits = limits.map(|&(_, word, from)| {
        let text = std::str::from_utf8(words.get(word)?.get(from..)?).ok()?;
        text.parse::<u32>().ok()?.checked_add(1)
    });
    let limits: Option<Vec<u32>> = limits.collect();
    limits?.into_iter().max()
}

/// Whether a name is one word to all who read words, and text to all who read text.
pub fn is_plain(name: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"'\"\\".contains(byte);
    !name.is_empty() && name.iter().all(is_plain)
}

/// Whether a stage prints names of what it finds in trees, and nothing else.
fn finds(stage: &Stage<'_>, zeros: bool) -> bool {
    let Ok(call) = &stage.call else { return false };
    let has = |option: &str| call.options.contains(&option);
    let ends = if zeros {
        has("-print0") && !has("-print")
    } else {
        !has("-print0")
    };
    name(stage) == "find"
        && call.given == Given::Nothing
        && call.of.effect == Effect::Pure
        && ends
        && !has("-printf")
}

/// Whether a stage prints some of the names that it reads, in any order, and nothing else.
fn keeps_names(stage: &Stage<'_>, zeros: bool) -> bool {
    let Ok(call) = &stage.call else { return false };
    let known: &[&str] = match name(stage) {
        "grep" | "egrep" | "fgrep" => &[
            "-E",
            "-F",
            "-G",
            "-e",
            "-f",
            "-i",
            "-w",
            "-x",
            "-z",
            "-v",
            "-m",
            "-s",
            "-a",
            "--line-buffered",
            "-h",
        ],
        "sort" => &[
            "-b",
            "-d",
            "-f",
            "-g",
            "-i",
            "-M",
            "-h",
            "-n",
            "-r",
            "-V",
            "-k",
            "-s",
            "-S",
            "-t",
            "-u",
            "-z",
            "--parallel",
        ],
        "head" | "tail" => &["-n", "-NUM", "-q", "-z"],
        "uniq" => &["-d", "-f", "-i", "-s", "-u", "-z", "-w"],
        "cat" => &["-u"],
        _ => return false,
    };
    let only_stdin = !call
        .files
        .iter()
        .any(|file| file.from == 0 && call.operands.binary_search(&file.word).is_ok());
    let fits = zeros == call.options.contains(&"-z") || name(stage) == "cat";
    only_stdin
        && call.stdin
        && fits
        && call.of.effect == Effect::Pure
        && call.options.iter().all(|option| known.contains(option))
}
