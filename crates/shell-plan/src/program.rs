//! Programs among a command's arguments (AWK, sed, jq), read for what they do with files and with their input.
//!
//! The invariant: a text that is not understood entirely gives a reading that moves and splits nothing. What is said here holds for
//! every implementation of the language that people have under the names of the annotations.

use serde::{Deserialize, Serialize};

use crate::annotation::{Call, Combine, Language};

mod awk;
mod jq;
mod sed;

/// What was found out about a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Why it must run where it was started: it reads, writes or runs what its call does not name.
    pub stays: Option<String>,
    /// It may end before its input does.
    pub early: bool,
    /// How what it prints for parts of its input, cut at line ends, is put together; or why it cannot be.
    pub lines: Result<Together, String>,
    /// It prints nothing before its input ends.
    pub waits: bool,
    /// Whether what it prints ends with a line's end.
    pub ends: Ends,
    /// It may print the names of its files.
    pub names: bool,
    /// The command itself shares its files among processes if it is told to (`pmawk -j`), where that changes nothing.
    pub shares: bool,
}

/// How outputs of parts become one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Together {
    /// In a way that annotations know, too.
    As(Combine),
    /// Each line is a key and a count, and counts of one key are added. In which order lines come, nobody can tell: only if what
    /// follows puts them in one.
    Counts {
        /// The count stands behind the key.
        key_first: bool,
    },
    /// Each of these lines is texts and sums of whatever the input has, with a blank between them. If all that is added is whole numbers, sums
    /// of parts are sums of the whole; who runs the parts has to look.
    Sums(Vec<Vec<SumColumn>>),
}

/// What a column of a line of sums is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum SumColumn {
    /// This, always.
    Text(Vec<u8>),
    /// A number, or nothing if nothing was added.
    Sum,
}

/// Whether a command's output is whole lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ends {
    /// Always, or there is no output.
    Always,
    /// If its input is.
    IfInput,
    /// It usually is, and is looked at.
    LookedAt,
    /// It is not known to be.
    Unknown,
}

impl Reading {
    /// Of a program that was not understood.
    fn unknown(why: &str) -> Reading {
        Reading {
            stays: Some(why.to_owned()),
            early: true,
            lines: Err(why.to_owned()),
            waits: false,
            ends: Ends::Unknown,
            names: true,
            shares: false,
        }
    }
}

/// Reads the program of a call. `texts` are the texts of `call.programs`, in that order; none of a file that could not be read.
pub fn read(
    language: Language,
    words: &[Vec<u8>],
    call: &Call<'_>,
    texts: &[Option<Vec<u8>>],
) -> Reading {
    let Some(texts) = texts.iter().cloned().collect::<Option<Vec<Vec<u8>>>>() else {
        return Reading::unknown("its program could not be read");
    };
    if texts.is_empty() || texts.len() != call.programs.len() {
        return Reading::unknown("its program is not known");
    }
    match language {
        Language::Awk => awk::read(words, call, &texts),
        Language::Sed => sed::read(call, &texts.join(&b'\n')),
        Language::Jq => jq::read(call, &texts.join(&b'\n')),
    }
}
