//! jq filters.
//!
//! A filter is applied to each value by itself unless it asks for others (`input`) or the options put them together. But where a
//! value ends, no line end tells: only with `-R`, when lines are the values, may the input be cut.

use super::{Ends, Reading, Together};
use crate::annotation::{Call, Combine};

/// What a filter may name that looks at something besides its value, and what that is. Modules are files.
const OUTSIDE: [(&str, &str); 8] = [
    ("import", "it loads modules"),
    ("include", "it loads modules"),
    ("modulemeta", "it loads modules"),
    ("get_search_list", "it tells where modules are"),
    ("now", "it asks the clock"),
    ("localtime", "it asks the zone of its machine"),
    ("strflocaltime", "it asks the zone of its machine"),
    (
        "mktime",
        "it is about time, which versions treat differently",
    ),
];

/// What looks at other values, or at where the input is; those may run elsewhere, but not on parts.
const ACROSS: [&str; 9] = [
    "input",
    "inputs",
    "input_line_number",
    "input_filename",
    "debug",
    "stderr",
    "halt",
    "halt_error",
    "env",
];

pub(super) fn read(call: &Call<'_>, text: &[u8]) -> Reading {
    let has = |names: &[&str]| call.options.iter().any(|option| names.contains(option));
    let names = words(text);
    let named = |word: &str| names.contains(&word.as_bytes());
    let stays = OUTSIDE.iter().find(|(word, _)| named(word));
    let raw = has(&["-R"]) && !has(&["-s", "-n", "--stream", "--seq"]);
    let across = ACROSS.iter().find(|word| named(word));
    let lines = match across {
        _ if has(&["-s", "--slurp"]) => Err("all values are one (-s)".to_owned()),
        _ if has(&["-e"]) => Err("its exit status is that of the last value (-e)".to_owned()),
        Some(word) => Err(format!("`{word}` looks beyond one value")),
        None if raw => Ok(Together::As(Combine::Concat)),
        None => Err("a value may go on behind a line's end".to_owned()),
    };
    Reading {
        stays: stays.map(|(_, why)| (*why).to_owned()),
        early: named("halt") || named("halt_error") || has(&["-n"]),
        lines,
        waits: has(&["-s"]),
        ends: if has(&["-j", "--seq"]) || named("stderr") {
            Ends::Unknown
        } else {
            Ends::Always
        },
        names: named("input_filename") || named("$__prog_args"),
        shares: false,
    }
}

/// All names in a filter. Those in strings count too, which is more than there is: a name in `"\(input)"` is one. What a
/// definition or a key of an object makes of a name is not looked at either.
fn words(text: &[u8]) -> Vec<&[u8]> {
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte == b'$';
    text.split(|byte| !is_letter(byte))
        .filter(|word| !word.is_empty())
        .collect()
}
