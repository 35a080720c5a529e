//! What the planner knows of commands by their names, besides their annotations: whether what they print is whole lines, how fast they
//! are, what they ask of their surroundings.
//!
//! Invariant: a command that is in none of these lists is the worst that the list is about. Only the speeds are guesses; they decide how
//! soon something is done, never what.

use super::{Stage, Stdout};
use crate::annotation::{Call, Given, Volume};
use crate::program::Ends;

/// A command's name without its folder; of one that others run, its own.
pub(super) fn name<'s>(stage: &'s Stage<'_>) -> &'s str {
    named(stage, stage.call.as_ref().map_or(0, |call| call.at))
}

fn named<'s>(stage: &'s Stage<'_>, word: usize) -> &'s str {
    let word = stage.words.get(word).map_or(&b""[..], |word| word);
    let name = word.rsplit(|&byte| byte == b'/').next().unwrap_or(word);
    std::str::from_utf8(name).unwrap_or("")
}

fn has(stage: &Stage<'_>, options: &[&str]) -> bool {
    let call = stage.call.as_ref();
    call.is_ok_and(|call| call.options.iter().any(|option| options.contains(option)))
}

/// Whether what a command prints is whole lines. Those with a program are read instead.
pub(super) fn ends(stage: &Stage<'_>) -> Ends {
    let zeros = [
        "-z",
        "-Z",
        "--null",
        "-0",
        "-print0",
        "--zero",
        "--zero-terminated",
    ];
    let gives = |call: &Call<'_>| call.given != Given::Nothing;
    if has(stage, &zeros) || stage.call.as_ref().is_ok_and(gives) {
        return Ends::Unknown;
    }
    match name(stage) {
        "grep" | "egrep" | "fgrep" | "cut" | "sort" | "uniq" | "wc" | "md5sum" | "sha1sum"
        | "sha224sum" | "sha256sum" | "sha384sum" | "sha512sum" | "b2sum" | "cksum" | "find"
        | "factor" | "file" => Ends::Always,
        "cat" | "fold" | "expand" | "unexpand" | "fmt" | "head" | "tail" => Ends::IfInput,
        // With another separator lines are something else.
        "tac" if !has(stage, &["-s", "-b", "-r"]) => Ends::IfInput,
        "tr" if leaves_line_ends(stage) => Ends::IfInput,
        "gzip" | "gunzip" | "zcat" | "xz" | "unxz" | "xzcat" | "zstd" | "zstdcat" => Ends::LookedAt,
        _ => Ends::Unknown,
    }
}

/// Whether `tr` leaves newlines as they are: its first set is letters, digits and other visible characters and blanks, from which no
/// range leads over a newline.
fn leaves_line_ends(stage: &Stage<'_>) -> bool {
    let Ok(call) = &stage.call else { return false };
    if has(stage, &["-c", "-C", "--complement"]) {
        return false;
    }
    let Some(set) = call.operands.first().map(|&word| &stage.words[word]) else {
        return false;
    };
    let classes = [
        "[:upper:]",
        "[:lower:]",
        "[:alpha:]",
        "[:digit:]",
        "[:alnum:]",
        "[:punct:]",
        "[:blank:]",
    ];
    let mut rest = String::from_utf8_lossy(set).into_owned();
    for class in classes {
        rest = rest.replace(class, "");
    }
    !rest.contains("[:")
        && !rest.contains("[=")
        && rest
            .bytes()
            .all(|b| (b' '..=b'~').contains(&b) && b != b'\\')
}

/// Whether a command does the same with a pipe in place of a file.
pub(super) fn reads_pipes(stage: &Stage<'_>) -> bool {
    [
        "cat",
        "comm",
        "cut",
        "diff",
        "egrep",
        "expand",
        "fgrep",
        "fold",
        "grep",
        "head",
        "join",
        "jq",
        "nl",
        "paste",
        "rev",
        "sed",
        "sort",
        "tr",
        "unexpand",
        "uniq",
        "awk",
        "gawk",
        "mawk",
        "nawk",
        "original-awk",
        "pmawk",
    ]
    .contains(&name(stage))
}

/// Whether a command looks at files and folders, and not at what is in files.
pub(super) fn looks_only(stage: &Stage<'_>) -> bool {
    // What it finds is read by others.
    if stage
        .call
        .as_ref()
        .is_ok_and(|call| call.given == Given::Found)
    {
        return false;
    }
    [
        "find", "ls", "du", "stat", "chmod", "rm", "touch", "mkdir", "ln", "readlink", "git",
    ]
    .contains(&name(stage))
}

/// Whether a command goes into the folders of a folder.
pub fn goes_below(stage: &Stage<'_>) -> bool {
    match name(stage) {
        "find" => !has(stage, &["-maxdepth"]),
        "du" | "git" => true,
        "grep" | "egrep" | "fgrep" | "diff" => has(stage, &["-r"]),
        "ls" => has(stage, &["-R"]),
        "tar" => has(stage, &["-c"]),
        _ => false,
    }
}

/// Whether a command may end before it has read its input. What annotations say is about a use; some uses of grep do so only with
/// certain options.
pub(super) fn ends_early(stage: &Stage<'_>, by_program: Option<bool>) -> bool {
    let Ok(call) = &stage.call else { return true };
    match (by_program, name(stage)) {
        (Some(early), _) => early,
        (None, "grep" | "egrep" | "fgrep") => {
            call.of.early && has(stage, &["-m", "-q", "-l", "-L"])
        }
        (None, _) => call.of.early,
    }
}

/// How much at most a command reads before it ends, if that is known.
pub(super) fn reads_at_most(stage: &Stage<'_>) -> Option<f64> {
    // All but the last lines need all input; that cannot be told from the first lines here, and costs a wrong guess only.
    (name(stage) == "head").then_some(128e3)
}

/// Whether nothing comes out before all has gone in.
pub(super) fn waits(stage: &Stage<'_>) -> bool {
    let Ok(call) = &stage.call else { return false };
    match name(stage) {
        "sort" => call.of.name != "merge",
        "tac" | "q" | "shuf" | "column" | "tsort" | "ptx" | "tail" => true,
        "head" => false,
        _ => call.of.volume == Volume::Few && !call.of.early,
    }
}

/// Whether the last stage of a pipeline does something else if it prints to a terminal.
pub(super) fn asks_terminal(stage: &Stage<'_>) -> bool {
    if stage.stdout != Stdout::Terminal {
        return false;
    }
    let asks = |name: &str| {
        let names = [
            "ls", "find", "git", "jq", "bzip2", "gzip", "xz", "zstd", "lz4", "tar",
        ];
        names.contains(&name)
    };
    match &stage.call {
        Ok(call) if call.given != Given::Nothing => {
            let is_colour = |word: &Vec<u8>| word.starts_with(b"--colo");
            call.runs.iter().any(|&word| asks(named(stage, word)))
                || stage.words.iter().any(is_colour)
                || has(stage, &["-print", "-print0", "-printf"])
        }
        _ => asks(name(stage)) || has(stage, &["--color", "--colour"]),
    }
}

/// Variables of the environment by which a command reads or keeps files that its call does not name, or by which it takes more options.
/// All locale variables matter besides, to who says whether a host has the command.
pub fn matters(name: &str) -> &'static [&'static str] {
    match name {
        "pmawk" => &["PMAWK_HEAP", "GAWK_PERSIST_FILE", "AWKPATH", "AWKLIBPATH"],
        "gawk" => &["GAWK_PERSIST_FILE", "AWKPATH", "AWKLIBPATH"],
        "git" => &[
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_COMMON_DIR",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            "GIT_CONFIG_GLOBAL",
            "GIT_CONFIG_SYSTEM",
            "GIT_EXTERNAL_DIFF",
        ],
        "grep" | "egrep" | "fgrep" => &["GREP_OPTIONS"],
        "tar" => &["TAR_OPTIONS", "TAPE"],
        "file" => &["MAGIC"],
        "bzip2" | "bunzip2" | "bzcat" => &["BZIP", "BZIP2"],
        "gzip" | "gunzip" | "zcat" => &["GZIP"],
        "xz" | "unxz" | "xzcat" => &["XZ_DEFAULTS", "XZ_OPT"],
        _ => &[],
    }
}

/// How many bytes a command takes in in a second of a processor, as long as nothing was measured.
pub(super) fn usual_speed(stage: &Stage<'_>) -> f64 {
    match name(stage) {
        "cat" | "head" | "tail" | "tee" => 2e9,
        "wc" | "grep" | "fgrep" => 800e6,
        "tr" | "cksum" | "md5sum" | "b2sum" => 500e6,
        "cut" | "uniq" | "sha256sum" => 150e6,
        "sort" => 40e6,
        "jq" | "gzip" | "gunzip" | "zcat" => 25e6,
        "xz" | "bzip2" | "mogrify" => 5e6,
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" | "pmawk" | "sed" => 100e6,
        _ => 200e6,
    }
}
