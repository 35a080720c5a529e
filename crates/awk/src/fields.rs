//! How a record is cut into fields.
//!
//! Invariant: the fields that a [`Splitter`] gives, in order and however many are asked for at a time, are those of one
//! pass from left to right; positions are byte offsets into the record, which must be shorter than 4 GiB. Called by
//! the VM for `$n`, `NF` and `split`.

use std::rc::Rc;

use memchr::memmem::Finder;

use crate::regex::{Regex, RegexError};
use crate::text::{self, Charset};

/// What lies between fields.
#[derive(Debug)]
pub enum Splitter {
    /// `FS = " "`: runs of space, tab and newline; those at the ends of the record do not count.
    Blanks,
    /// Any one byte.
    Byte(u8),
    /// A regular expression; empty matches do not separate.
    Regex(Rc<Regex>),
    /// `FS = ""`: every character is a field.
    Chars,
    /// A string of several bytes.
    Str(Box<Finder<'static>>),
}

/// Where a lazy split has come to. The default is the record's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitState {
    /// Where the next field begins, or the blanks before it.
    at: usize,
    done: bool,
}

impl SplitState {
    /// Whether all fields have been given.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done
    }
}

#[inline]
fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n')
}

impl Splitter {
    /// The splitter for a value of FS (or the third argument of `split`). A single character other than a space
    /// stands for itself, also one that is special in regular expressions, whatever `ignore_case` says.
    ///
    /// # Errors
    /// Those of [`Regex::new`], for longer values.
    pub fn from_fs(fs: &[u8], cs: Charset, ignore_case: bool) -> Result<Splitter, RegexError> {
        match fs {
            b"" => Ok(Splitter::Chars),
            b" " => Ok(Splitter::Blanks),
            [byte] => Ok(Splitter::Byte(*byte)),
            _ if text::char_count(cs, fs) == 1 => Ok(Splitter::plain(fs)),
            _ => Ok(Splitter::from_regex(Rc::new(Regex::new(
                fs,
                cs,
                ignore_case,
            )?))),
        }
    }

    /// The splitter for a regular expression, reduced to a plain one where it is a plain string.
    pub fn from_regex(regex: Rc<Regex>) -> Splitter {
        match regex.literal() {
            Some(literal) if !literal.is_empty() => Splitter::plain(literal),
            _ => Splitter::Regex(regex),
        }
    }

    fn plain(separator: &[u8]) -> Splitter {
        match separator {
            [byte] => Splitter::Byte(*byte),
            _ => Splitter::Str(Box::new(Finder::new(separator).into_owned())),
        }
    }

    /// Appends start and end of every field of `rec`. With `paragraph` (`RS = ""`) a newline separates too where the
    /// separator is a single character; for a longer one it does not: gawk, mawk and the one true awk agree, against
    /// POSIX.
    #[inline]
    pub fn split(&self, cs: Charset, rec: &[u8], paragraph: bool, out: &mut Vec<(u32, u32)>) {
        self.split_some(
            cs,
            rec,
            paragraph,
            &mut SplitState::default(),
            usize::MAX,
            out,
        );
    }

    /// Appends the next `want` fields, or what is left of them, and moves `state` on. The same record and `paragraph`
    /// must be given until `state` is done.
    pub fn split_some(
        &self,
        cs: Charset,
        rec: &[u8],
        paragraph: bool,
        state: &mut SplitState,
        want: usize,
        out: &mut Vec<(u32, u32)>,
    ) {
        debug_assert!(
            u32::try_from(rec.len()).is_ok(),
            "record of {} bytes",
            rec.len()
        );
        if state.done || want == 0 {
            return;
        }
        if rec.is_empty() {
            state.done = true;
            return;
        }
        match self {
            Splitter::Blanks => split_blanks(rec, state, want, out),
            Splitter::Byte(byte) if paragraph && *byte != b'\n' => {
                cut(
                    rec,
                    state,
                    want,
                    out,
                    memchr::memchr2_iter(*byte, b'\n', &rec[state.at..]),
                    1,
                );
            }
            Splitter::Byte(byte) => {
                cut(
                    rec,
                    state,
                    want,
                    out,
                    memchr::memchr_iter(*byte, &rec[state.at..]),
                    1,
                );
            }
            Splitter::Str(finder) if paragraph && text::char_count(cs, finder.needle()) == 1 => {
                split_by(rec, state, want, out, |from| {
                    let hit = finder
                        .find(&rec[from..])
                        .map(|at| (from + at, from + at + finder.needle().len()));
                    let newline =
                        memchr::memchr(b'\n', &rec[from..]).map(|at| (from + at, from + at + 1));
                    hit.into_iter().chain(newline).min()
                });
            }
            Splitter::Str(finder) => {
                cut(
                    rec,
                    state,
                    want,
                    out,
                    finder.find_iter(&rec[state.at..]),
                    finder.needle().len(),
                );
            }
            Splitter::Regex(regex) => split_by(rec, state, want, out, |from| {
                regex.find_filled_at(rec, from)
            }),
            Splitter::Chars => split_chars(cs, rec, state, want, out),
        }
    }
}

fn split_blanks(rec: &[u8], state: &mut SplitState, want: usize, out: &mut Vec<(u32, u32)>) {
    let mut at = state.at;
    let mut left = want;
    loop {
        while at < rec.len() && is_blank(rec[at]) {
            at += 1;
        }
        if at == rec.len() {
            state.done = true;
            return;
        }
        if left == 0 {
            state.at = at;
            return;
        }
        let start = at;
        at += 1;
        while at < rec.len() && !is_blank(rec[at]) {
            at += 1;
        }
        out.push((start as u32, at as u32));
        left -= 1;
    }
}

/// Cuts at separators of `len` bytes whose positions, from `state.at` on, `hits` gives.
#[inline]
fn cut(
    rec: &[u8],
    state: &mut SplitState,
    want: usize,
    out: &mut Vec<(u32, u32)>,
    hits: impl Iterator<Item = usize>,
    len: usize,
) {
    let base = state.at;
    let mut start = base;
    let mut left = want;
    for hit in hits {
        out.push((start as u32, (base + hit) as u32));
        start = base + hit + len;
        left -= 1;
        if left == 0 {
            state.at = start;
            return;
        }
    }
    out.push((start as u32, rec.len() as u32));
    state.done = true;
}

/// Cuts where `next(from)` says that the next separator lies.
#[inline]
fn split_by(
    rec: &[u8],
    state: &mut SplitState,
    want: usize,
    out: &mut Vec<(u32, u32)>,
    mut next: impl FnMut(usize) -> Option<(usize, usize)>,
) {
    for _ in 0..want {
        match next(state.at) {
            Some((start, end)) => {
                out.push((state.at as u32, start as u32));
                state.at = end;
            }
            None => {
                out.push((state.at as u32, rec.len() as u32));
                state.done = true;
                return;
            }
        }
    }
}

fn split_chars(
    cs: Charset,
    rec: &[u8],
    state: &mut SplitState,
    want: usize,
    out: &mut Vec<(u32, u32)>,
) {
    for _ in 0..want {
        if state.at == rec.len() {
            break;
        }
        let end = state.at + text::next_char(cs, &rec[state.at..]).1;
        out.push((state.at as u32, end as u32));
        state.at = end;
    }
    state.done = state.at == rec.len();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(fs: &str, rec: &str, paragraph: bool) -> Vec<String> {
        let splitter = Splitter::from_fs(fs.as_bytes(), Charset::Utf8, false).unwrap();
        let mut all = Vec::new();
        splitter.split(Charset::Utf8, rec.as_bytes(), paragraph, &mut all);
        for step in 1..4 {
            let (mut some, mut state) = (Vec::new(), SplitState::default());
            while !state.is_done() {
                let before = some.len();
                splitter.split_some(
                    Charset::Utf8,
                    rec.as_bytes(),
                    paragraph,
                    &mut state,
                    step,
                    &mut some,
                );
                assert!(some.len() <= before + step);
            }
            assert_eq!(some, all, "{fs:?} on {rec:?}, {step} at a time");
        }
        all.iter()
            .map(|&(start, end)| rec[start as usize..end as usize].to_string())
            .collect()
    }

    #[test]
    fn fields_are_cut_as_gawk_cuts_them() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("|", "a|b", &["a", "b"]),
            ("\\|", "a|b", &["a", "b"]),
            ("\\", "a\\b", &["a", "b"]),
            ("t", "atb\tc", &["a", "b\tc"]),
            ("\t", "a b\tc", &["a b", "c"]),
            ("[ ]", "a b  c", &["a", "b", "", "c"]),
            (" ", "  a b \t\n", &["a", "b"]),
            (" ", "a\x0bb\x0cc\rd", &["a\x0bb\x0cc\rd"]),
            (" ", "   ", &[]),
            ("^", "a^b", &["a", "b"]),
            ("^a", "aab", &["", "ab"]),
            ("\\^", "^a^b", &["", "a", "b"]),
            (".", "a..b.c", &["a", "", "b", "c"]),
            ("x*", "aXbxc", &["aXb", "c"]),
            ("[0-9]*", "a1b22c", &["a", "b", "c"]),
            ("b$", "abab", &["aba", ""]),
            ("[", "ab[c", &["ab", "c"]),
            (",", "", &[]),
            (",", ",", &["", ""]),
            ("::", "a::b:c::", &["a", "b:c", ""]),
            ("é", "aéb", &["a", "b"]),
            ("", "aéb", &["a", "é", "b"]),
            ("", "", &[]),
        ];
        for (fs, rec, expected) in cases {
            assert_eq!(fields(fs, rec, false), *expected, "{fs:?} on {rec:?}");
        }
    }

    #[test]
    fn newline_separates_paragraphs_fields_beside_one_character() {
        let cases: &[(&str, &str, &[&str])] = &[
            (",", "a,b\nc,d", &["a", "b", "c", "d"]),
            ("\t", "a\nb", &["a", "b"]),
            ("\n", "a\nb", &["a", "b"]),
            (" ", "a b\nc", &["a", "b", "c"]),
            ("é", "aéb\nc", &["a", "b", "c"]),
            ("x+", "axb\ncxd", &["a", "b\nc", "d"]),
            ("xx", "axxb\nc", &["a", "b\nc"]),
            ("", "ab\nc", &["a", "b", "\n", "c"]),
        ];
        for (fs, rec, expected) in cases {
            assert_eq!(fields(fs, rec, true), *expected, "{fs:?} on {rec:?}");
        }
    }
}
