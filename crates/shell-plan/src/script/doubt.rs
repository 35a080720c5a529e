//! Why a script is left as it is.
//!
//! The invariant: a script that could tell the difference, by looking at its own text, at the shell's bookkeeping or at what
//! a name means, is never edited. Doubt is cheap: the original runs, and nothing is wrong.

use std::fmt;

use super::Language;
use super::find::Find;

/// Longest text that is edited, in bytes: the kernel takes no argument above 128 KiB (execve(2), `MAX_ARG_STRLEN`).
const TEXT_MAX: usize = 100_000;

/// Why a script is not edited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// The parser does not understand it.
    Syntax(String),
    /// It is longer than what can be handed to a shell as an argument.
    Long,
    /// It has bytes that no text has, or ends in the middle of something.
    NotText,
    /// It asks the shell about itself: this word.
    Asks(String),
    /// This command may define functions or aliases that nobody sees here.
    Defines(String),
    /// This command changes how commands are read or reported.
    Reads(String),
    /// A file whose text is handed to the shell is reported by another name, or ends with another status, where this is there.
    Reported(String),
    /// The edited text, read again, is not the old one with helpers in it.
    Differs,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(what) => write!(f, "its syntax was not understood: {what}"),
            Self::Long => write!(f, "it is longer than {TEXT_MAX} bytes"),
            Self::NotText => f.write_str("it has zero bytes, or ends in the middle of a word"),
            Self::Asks(word) => write!(f, "\"{word}\" asks the shell about the script's own text"),
            Self::Defines(word) => write!(f, "\"{word}\" may give commands another meaning"),
            Self::Reads(word) => {
                write!(f, "\"{word}\" changes how commands are read or reported")
            }
            Self::Reported(word) => {
                write!(
                    f,
                    "where it has {word}, bash reports a text otherwise than a file"
                )
            }
            Self::Differs => f.write_str("the edited text reads differently"),
        }
    }
}

/// Names of variables that tell a script what it was called with, or show its commands.
const ASKING: [&str; 6] = [
    "BASH_SOURCE",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_ARGV",
    "BASH_ARGC",
    "FUNCNAME[",
];

/// The doubts that the bytes themselves raise.
pub(super) fn of_text(text: &[u8]) -> Option<Doubt> {
    if text.len() > TEXT_MAX {
        return Some(Doubt::Long);
    }
    if text.contains(&0) || text.ends_with(b"\\") || text.ends_with(b"\\\n") {
        return Some(Doubt::NotText);
    }
    let has = |word: &str| text.windows(word.len()).any(|w| w == word.as_bytes());
    for word in ASKING {
        if has(word) {
            return Some(Doubt::Asks(word.trim_end_matches('[').into()));
        }
    }
    for word in ["$-", "${-"] {
        if has(word) {
            return Some(Doubt::Asks(word.into()));
        }
    }
    None
}

/// The doubts that its commands raise.
pub(super) fn of_commands(found: &Find, language: Language) -> Option<Doubt> {
    found
        .commands
        .iter()
        .find_map(|words| of_command(words, language))
}

/// The doubts about a file, whose text is handed to the shell with the file's name: bash calls a text "environment" in messages from inside
/// functions, and ends with 127 instead of 1 when an expansion is fatal.
pub(super) fn of_file(text: &[u8], found: &Find, language: Language) -> Option<Doubt> {
    if language != Language::Bash {
        return None;
    }
    if let Some(name) = found.functions.first() {
        return Some(Doubt::Reported(format!("functions ({name})")));
    }
    let sets_unset = |words: &Vec<String>| {
        let mut options = words.iter().skip(1).take_while(|word| *word != "--");
        words[0] == "set"
            && options.any(|w| w == "nounset" || w.starts_with('-') && w.contains('u'))
    };
    if found.commands.iter().any(sets_unset) {
        return Some(Doubt::Reported("\"set -u\"".into()));
    }
    let fatal = (0..text.len()).any(|at| {
        let Some(rest) = text[at..].strip_prefix(b"${") else {
            return false;
        };
        let is_name = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_!@*[]".contains(byte);
        let behind = &rest[rest.iter().take_while(is_name).count()..];
        behind
            .strip_prefix(b":")
            .unwrap_or(behind)
            .starts_with(b"?")
    });
    fatal.then(|| Doubt::Reported("\"${NAME?...}\"".into()))
}

fn of_command(words: &[String], language: Language) -> Option<Doubt> {
    let (name, arguments) = words.split_first()?;
    let plain = |word: &str| !word.contains(['$', '`', '\'', '"', '\\']);
    let any = |flags: &[char]| {
        arguments
            .iter()
            .take_while(|word| *word != "--")
            .any(|word| word.starts_with(['-', '+']) && word.contains(flags))
    };
    let asks = || Some(Doubt::Asks(name.clone()));
    let reads = || Some(Doubt::Reads(words.join(" ")));
    match name.as_str() {
        // What they read may define a function by the name of a command.
        "eval" | "." | "source" | "alias" | "enable" => Some(Doubt::Defines(name.clone())),
        "history" | "fc" | "jobs" | "caller" => asks(),
        // The table of commands that were looked for; "-r" empties it.
        "hash" if arguments.iter().all(|word| word != "-r") => asks(),
        // Without names they print everything, functions too.
        "declare" | "typeset" | "local" | "readonly" | "export" if any(&['f', 'F', 'p']) => asks(),
        "declare" | "typeset" | "export" | "readonly" if arguments.is_empty() => asks(),
        "type" if language == Language::Bash => asks(),
        "command" if any(&['V']) => asks(),
        "set" => {
            let Some(first) = arguments.first() else {
                return asks();
            };
            if first == "--" {
                return None;
            }
            let mut rest = arguments.iter();
            while let Some(word) = rest.next() {
                if word == "--" {
                    break;
                }
                if !plain(word) {
                    return reads();
                }
                let Some(letters) = word.strip_prefix(['-', '+']) else {
                    break;
                };
                // Tracing, monitoring, keyword assignments and not running at all.
                if letters.contains(['x', 'v', 'm', 'k', 'n', 'T', 'E', 'H', 'p', 't', 'r']) {
                    return reads();
                }
                if letters.contains('o') {
                    match rest.next().map(String::as_str) {
                        Some(
                            "errexit" | "nounset" | "pipefail" | "noglob" | "noclobber"
                            | "allexport" | "braceexpand" | "hashall" | "notify" | "physical",
                        ) => {}
                        _ => return reads(),
                    }
                }
            }
            None
        }
        "shopt" => {
            let known = |word: &String| {
                matches!(
                    word.as_str(),
                    "-s" | "-u"
                        | "-q"
                        | "nullglob"
                        | "failglob"
                        | "dotglob"
                        | "globstar"
                        | "nocaseglob"
                        | "nocasematch"
                        | "lastpipe"
                        | "inherit_errexit"
                        | "checkwinsize"
                )
            };
            if arguments.iter().all(known) {
                None
            } else {
                reads()
            }
        }
        "trap"
            if arguments
                .iter()
                .any(|word| word == "DEBUG" || word == "RETURN") =>
        {
            reads()
        }
        _ => None,
    }
}
