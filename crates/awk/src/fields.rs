//! How a record is cut into fields.
//!
//! Invariant: the fields that a [`Splitter`] gives, in order and however many are asked for at a time, are those of one
//! pass from left to right; positions are byte offsets into the record, which must be shorter than 4 GiB. Called by
//! the VM for `$n`, `NF`, `split` and `patsplit`. Comma-separated values are [`csv`]'s.

use std::rc::Rc;

use memchr::memmem::Finder;

use crate::regex::{Options, Regex, RegexError, Syntax};
use crate::scan;
use crate::text::{self, Charset};

pub mod csv;
pub mod tsv;
mod widths;

pub use widths::{Widths, WidthsError};

/// What lies between fields, or what they are.
#[derive(Debug)]
pub enum Splitter {
    /// `FS = " "`: runs of space, tab and newline; those at the ends of the record do not count.
    Blanks,
    /// Any one byte.
    Byte(u8),
    /// One byte whose other case counts too, but only beside the newline that separates in paragraphs: gawk with
    /// IGNORECASE.
    FoldedByte(u8),
    /// A regular expression; empty matches do not separate.
    Regex {
        /// The expression.
        regex: Rc<Regex>,
        /// Its form that ignores case is meant.
        ignore_case: bool,
    },
    /// `FS = ""`: every character is a field.
    Chars,
    /// A string of several bytes.
    Str(Box<Finder<'static>>),
    /// The whole record is one field: `FS = ""` in POSIX and traditional mode.
    Whole,
    /// Fields are what the expression matches: FPAT and `patsplit`.
    Pattern {
        /// The expression.
        regex: Rc<Regex>,
        /// Its form that ignores case is meant.
        ignore_case: bool,
    },
    /// Fields have their places: FIELDWIDTHS.
    Widths(Widths),
}

/// Where a lazy split has come to. The default is the record's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitState {
    /// Where the next field begins, or the blanks before it.
    at: usize,
    /// Fields given so far; counted for widths only.
    given: usize,
    /// A field that is not empty ends at `at`; kept for patterns only.
    adjacent: bool,
    done: bool,
}

impl SplitState {
    /// Whether all fields have been given.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.done
    }
}

/// Where field `n` lies and its length, if it ends in the first block of the record at `start..end` of `text`.
#[inline]
fn near(text: &[u8], start: usize, end: usize, byte: u8, n: u32) -> Option<(usize, usize)> {
    let block = text[start..].first_chunk::<{ scan::BLOCK }>()?;
    let len = end - start;
    let valid = if len < scan::BLOCK {
        (1 << len) - 1
    } else {
        !0
    };
    let mut bits = scan::places_in_block(block, byte) & valid;
    let mut at = 0;
    for _ in 1..n {
        if bits == 0 {
            return None;
        }
        at = bits.trailing_zeros() as usize + 1;
        bits &= bits - 1;
    }
    let to = match bits {
        0 if len <= scan::BLOCK => len,
        0 => return None,
        bits => bits.trailing_zeros() as usize,
    };
    Some((start + at, to - at)).filter(|_| n > 0)
}

/// Where word `n`, from 1, of the record at `start..end` of `text` begins, and its length.
#[inline]
fn word_at(text: &[u8], start: usize, end: usize, n: u32) -> Option<(usize, usize)> {
    // The bits of what is in a word, of the bytes from `at` on.
    let words = |at: usize| match text.get(at..at + scan::STEP) {
        // What lies behind the record makes short records no case of their own.
        Some(bytes) => {
            let (chunk, _) = scan::Chunk::of(bytes);
            let valid = match end - at {
                len @ ..scan::STEP => (1 << len) - 1,
                _ => scan::ALL,
            };
            !chunk.blanks() & valid
        }
        None => {
            let (chunk, valid) = scan::Chunk::of(&text[at..end]);
            !chunk.blanks() & valid
        }
    };
    let mut at = start;
    let mut before = 0;
    let mut left = n;
    let (first, mut bits) = loop {
        if at >= end {
            return None;
        }
        let bits = words(at);
        let mut starts = bits & !(bits << 1 | before);
        let found = starts.count_ones();
        if found >= left {
            for _ in 1..left {
                starts &= starts - 1;
            }
            let first = starts.trailing_zeros();
            break (at + first as usize, bits);
        }
        left -= found;
        before = bits >> (scan::STEP - 1);
        at += scan::STEP;
    };
    // The word ends at the first byte behind its beginning that is in none.
    let mut inside = u32::MAX << (first - at);
    loop {
        let stop = (!bits & inside & scan::ALL).trailing_zeros() as usize;
        if stop < scan::STEP {
            return Some((first, at + stop - first));
        }
        at += scan::STEP;
        if at >= end {
            return Some((first, end - first));
        }
        bits = words(at);
        inside = u32::MAX;
    }
}

impl Splitter {
    /// The splitter for a value of FS in gawk's syntax; see [`Splitter::compile`].
    ///
    /// # Errors
    /// Those of [`Regex::compile`], for longer values.
    pub fn from_fs(fs: &[u8], cs: Charset, ignore_case: bool) -> Result<Splitter, RegexError> {
        Splitter::compile(
            fs,
            Options {
                ignore_case,
                ..Options::new(cs)
            },
        )
    }

    /// The splitter for a value of FS (or the third argument of `split`). A single character other than a space
    /// stands for itself, also one that is special in regular expressions, and if it is one byte, whatever
    /// `ignore_case` says.
    ///
    /// # Errors
    /// Those of [`Regex::compile`], for longer values.
    pub fn compile(fs: &[u8], options: Options) -> Result<Splitter, RegexError> {
        match fs {
            b"" if options.syntax != Syntax::Gawk => Ok(Splitter::Whole),
            b"" => Ok(Splitter::Chars),
            b" " => Ok(Splitter::Blanks),
            [byte] if options.ignore_case && byte.is_ascii_alphabetic() => {
                Ok(Splitter::FoldedByte(*byte))
            }
            [byte] => Ok(Splitter::Byte(*byte)),
            _ if !options.ignore_case && text::char_count(options.charset, fs) == 1 => {
                Ok(Splitter::plain(fs))
            }
            _ => Ok(Splitter::from_regex(Rc::new(Regex::compile(fs, options)?))),
        }
    }

    /// The splitter for a regular expression, reduced to a plain one where it is a plain string. One that is written as
    /// a single byte stands for that byte, as in FS: `split(s, a, /./)` cuts at points.
    pub fn from_regex(regex: Rc<Regex>) -> Splitter {
        Splitter::from_regex_with(regex, false)
    }

    /// [`Splitter::from_regex`] for an expression that was compiled with case, while `ignore_case` says whether it
    /// counts. As in gawk, case always counts in a single byte.
    pub fn from_regex_with(regex: Rc<Regex>, ignore_case: bool) -> Splitter {
        match (regex.source(), regex.literal()) {
            ([byte], _) => Splitter::Byte(*byte),
            (_, Some(literal)) if !literal.is_empty() && !ignore_case => Splitter::plain(literal),
            _ => Splitter::Regex { regex, ignore_case },
        }
    }

    fn plain(separator: &[u8]) -> Splitter {
        match separator {
            [byte] => Splitter::Byte(*byte),
            _ => Splitter::Str(Box::new(Finder::new(separator).into_owned())),
        }
    }

    /// Appends start and end of every field of `rec`. With `paragraph` (`RS = ""`) a newline separates too where the
    /// separator is a single byte; for a longer one it does not: gawk, mawk and the one true awk agree, against POSIX.
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

    /// Field `n`, from 0, of a record, if the splitter is one that can tell quickly; n 0 is the record.
    #[inline]
    pub fn glance<'a>(&self, rec: &'a [u8], n: u32) -> Option<&'a [u8]> {
        match self {
            _ if n == 0 => Some(rec),
            Splitter::Byte(byte) => {
                let mut start = 0;
                for _ in 1..n {
                    start += scan::Places::new(&rec[start..], *byte).next()? + 1;
                }
                let rest = &rec[start..];
                let end = scan::Places::new(rest, *byte).next();
                Some(&rest[..end.unwrap_or(rest.len())])
            }
            Splitter::Blanks => {
                let (start, len) = word_at(rec, 0, rec.len(), n)?;
                Some(&rec[start..start + len])
            }
            _ => None,
        }
    }

    /// [`Splitter::glance`] into the record at `start..end` of `text`: where the field begins there, and its length.
    #[inline]
    pub fn glance_at(
        &self,
        text: &[u8],
        start: usize,
        end: usize,
        n: u32,
    ) -> Option<(usize, usize)> {
        if let Splitter::Blanks = self
            && n > 0
        {
            return word_at(text, start, end, n);
        }
        if let Splitter::Byte(byte) = self
            && let Some(found) = near(text, start, end, *byte, n)
        {
            return Some(found);
        }
        let record = &text[start..end];
        let field = self.glance(record, n)?;
        let at = field.as_ptr() as usize - record.as_ptr() as usize;
        Some((start + at, field.len()))
    }

    /// [`Splitter::split`], and what lies before, between and behind the fields: see [`separators`]. Nothing is between
    /// the fields of an empty record.
    pub fn split_with_seps(
        &self,
        cs: Charset,
        rec: &[u8],
        paragraph: bool,
        fields: &mut Vec<(u32, u32)>,
        seps: &mut Vec<(u32, u32)>,
    ) {
        let from = fields.len();
        self.split(cs, rec, paragraph, fields);
        if !rec.is_empty() {
            separators(rec.len(), &fields[from..], seps);
        }
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
            Splitter::FoldedByte(byte) if paragraph => {
                let (lower, upper) = (byte.to_ascii_lowercase(), byte.to_ascii_uppercase());
                let hits = memchr::memchr3_iter(lower, upper, b'\n', &rec[state.at..]);
                cut(rec, state, want, out, hits, 1);
            }
            Splitter::Byte(byte) | Splitter::FoldedByte(byte) => {
                let hits = scan::Places::new(&rec[state.at..], *byte);
                cut(rec, state, want, out, hits, 1);
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
            Splitter::Regex { regex, ignore_case } => {
                let regex = with_case(regex, *ignore_case);
                split_by(rec, state, want, out, |from| {
                    regex.find_filled_at(rec, from)
                });
            }
            Splitter::Chars => split_chars(cs, rec, state, want, out),
            Splitter::Whole => {
                out.push((0, rec.len() as u32));
                state.done = true;
            }
            Splitter::Pattern { regex, ignore_case } => {
                let regex = with_case(regex, *ignore_case);
                split_by_pattern(cs, regex, rec, state, want, out);
            }
            Splitter::Widths(widths) => {
                for _ in 0..want {
                    let Some((start, end)) = widths.field(cs, rec, state.at, state.given) else {
                        state.done = true;
                        return;
                    };
                    out.push((start as u32, end as u32));
                    state.at = end;
                    state.given += 1;
                }
            }
        }
    }
}

/// What lies before, between and behind `fields` of a record of `len` bytes: one range more than there are fields. The
/// record must have been split whole.
///
/// `split` stores the first and the last only if they are not empty (which they are unless blanks separate), `patsplit`
/// stores all; neither stores any for an empty record.
pub fn separators(len: usize, fields: &[(u32, u32)], seps: &mut Vec<(u32, u32)>) {
    let mut from = 0;
    for &(start, end) in fields {
        seps.push((from, start));
        from = end;
    }
    seps.push((from, len as u32));
}

fn with_case(regex: &Regex, ignore_case: bool) -> &Regex {
    if ignore_case {
        regex.insensitive()
    } else {
        regex
    }
}

/// Gives what `regex` matches: an empty match counts unless it touches the field before. The text before the place
/// reached is not seen, so that `^` matches at each. After an empty match at that place the next search begins one character
/// on, after another one where it lies: `\B` finds all its places. All this is as gawk has it.
fn split_by_pattern(
    cs: Charset,
    regex: &Regex,
    rec: &[u8],
    state: &mut SplitState,
    want: usize,
    out: &mut Vec<(u32, u32)>,
) {
    let mut left = want;
    while left > 0 {
        let Some((start, end)) = regex.find_at(&rec[state.at..], 0) else {
            state.done = true;
            return;
        };
        let (start, end) = (state.at + start, state.at + end);
        if start < end || start > state.at || !state.adjacent {
            out.push((start as u32, end as u32));
            left -= 1;
        }
        if start == end && end == rec.len() {
            state.done = true;
            return;
        }
        let steps = end == state.at;
        state.adjacent = !steps;
        state.at = end;
        if steps {
            state.at += text::next_char(cs, &rec[end..]).1;
        }
    }
}

fn split_blanks(rec: &[u8], state: &mut SplitState, want: usize, out: &mut Vec<(u32, u32)>) {
    let mut left = want;
    // The place where a field began that has not ended yet.
    let mut open = None;
    let mut base = state.at;
    loop {
        let text = &rec[base..];
        let (chunk, valid) = scan::Chunk::of(text);
        // What lies behind the record separates too.
        let blanks = chunk.blanks() & valid | !valid;
        let before = u32::from(open.is_none());
        // Where blanks begin or end.
        let mut edges = (blanks ^ (blanks << 1 | before)) & scan::ALL;
        while edges != 0 {
            let at = base + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            match open.take() {
                None if left == 0 => {
                    state.at = at;
                    return;
                }
                None => open = Some(at as u32),
                Some(start) => {
                    out.push((start, at as u32));
                    left -= 1;
                }
            }
        }
        if text.len() < scan::STEP {
            state.done = true;
            return;
        }
        base += scan::STEP;
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

    #[test]
    fn a_glance_sees_what_splitting_finds() {
        let pieces = [
            "",
            "a",
            "bc",
            "0123456789abcde",
            "0123456789abcdef",
            "ö",
            "ends-after-more-than-sixteen",
        ];
        let gaps = [" ", "\t\n", "                 ", ""];
        let text = |seed: usize| {
            (0..seed % 6).fold(String::new(), |text, i| {
                let piece = pieces[(seed / (i + 1) + i * 5) % pieces.len()];
                text + gaps[(seed / 7 + i) % gaps.len()] + piece
            })
        };
        for fs in [" ", "\t", "b"] {
            let splitter = Splitter::from_fs(fs.as_bytes(), Charset::Utf8, false).unwrap();
            for seed in 0..3000 {
                let record = text(seed);
                let wanted = fields(fs, &record, false);
                let long = format!("before{record}behind and more text");
                for n in 1..8 {
                    let field = wanted.get(n - 1).map(String::as_bytes);
                    let seen = splitter.glance(record.as_bytes(), n as u32);
                    let place = splitter.glance_at(long.as_bytes(), 6, 6 + record.len(), n as u32);
                    let within = place.map(|(at, len)| &long.as_bytes()[at..at + len]);
                    // An empty record has no fields, and one that is empty tells the same.
                    assert_eq!(
                        seen.unwrap_or_default(),
                        field.unwrap_or_default(),
                        "{record:?} {n}"
                    );
                    assert_eq!(seen, within, "{record:?} {n}");
                }
            }
        }
    }

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
            ("é", "aéb\nc", &["a", "b\nc"]),
            ("x+", "axb\ncxd", &["a", "b\nc", "d"]),
            ("xx", "axxb\nc", &["a", "b\nc"]),
            ("", "ab\nc", &["a", "b", "\n", "c"]),
        ];
        for (fs, rec, expected) in cases {
            assert_eq!(fields(fs, rec, true), *expected, "{fs:?} on {rec:?}");
        }
    }

    fn shown(splitter: &Splitter, rec: &str) -> (Vec<String>, Vec<String>) {
        let (mut fields, mut seps) = (Vec::new(), Vec::new());
        splitter.split(Charset::Utf8, rec.as_bytes(), false, &mut fields);
        let (mut one, mut state) = (Vec::new(), SplitState::default());
        while !state.is_done() {
            splitter.split_some(
                Charset::Utf8,
                rec.as_bytes(),
                false,
                &mut state,
                1,
                &mut one,
            );
        }
        assert_eq!(one, fields, "{splitter:?} on {rec:?}, one at a time");
        separators(rec.len(), &fields, &mut seps);
        let text = |all: &[(u32, u32)]| {
            all.iter()
                .map(|&(start, end)| rec[start as usize..end as usize].to_string())
                .collect()
        };
        (text(&fields), text(&seps))
    }

    #[test]
    fn patterns_find_fields_as_gawk_does() {
        let cases: &[(&str, &str, &[&str], &[&str])] = &[
            ("[^,]*", "a,b,c", &["a", "b", "c"], &["", ",", ",", ""]),
            (
                "[^,]*",
                ",a,,b,",
                &["", "a", "", "b", ""],
                &["", ",", ",", ",", ",", ""],
            ),
            ("[^,]*", ",", &["", ""], &["", ",", ""]),
            ("x*", "abc", &["", "", "", ""], &["", "a", "b", "c", ""]),
            ("", "abc", &["", "", "", ""], &["", "a", "b", "c", ""]),
            ("a", "aaa", &["a", "a", "a"], &["", "", "", ""]),
            ("a*", "baab", &["", "aa", ""], &["", "b", "b", ""]),
            ("b?", "abba", &["", "b", "b", ""], &["", "a", "", "a", ""]),
            ("x*", "éxé", &["", "x", ""], &["", "é", "é", ""]),
            ("a", "bAb", &[], &["bAb"]),
            ("^a|b", "a b c", &["a", "b"], &["", " ", " c"]),
            ("b*$", "ab", &["b"], &["a", ""]),
            ("^.", "abc", &["a", "b", "c"], &["", "", "", ""]),
            ("^a", "aab", &["a", "a"], &["", "", "b"]),
            ("$", "zz", &[""], &["zz", ""]),
            ("\\<a", "ab ab", &["a", "a"], &["", "b ", "b"]),
            (
                "([^,]*)|(\"[^\"]+\")",
                "a,\"b,c\",d",
                &["a", "\"b,c\"", "d"],
                &["", ",", ",", ""],
            ),
        ];
        for (pattern, rec, fields, seps) in cases {
            let regex = Rc::new(Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap());
            let splitter = Splitter::Pattern {
                regex,
                ignore_case: false,
            };
            let (got, between) = shown(&splitter, rec);
            assert_eq!(
                (&got[..], &between[..]),
                (
                    &fields.iter().map(|s| s.to_string()).collect::<Vec<_>>()[..],
                    &seps.iter().map(|s| s.to_string()).collect::<Vec<_>>()[..]
                ),
                "{pattern:?} on {rec:?}"
            );
        }
    }

    #[test]
    fn separators_are_given_back() {
        let cases: &[(&str, &str, &[&str])] = &[
            (" ", "  a b  ", &["  ", " ", "  "]),
            (" ", "   ", &["   "]),
            (" ", "\n a\tb\n", &["\n ", "\t", "\n"]),
            ("[0-9]*", "a1b22c", &["", "1", "22", ""]),
            ("", "aé", &["", "", ""]),
            ("::", "::a::b", &["", "::", "::", ""]),
        ];
        for (fs, rec, expected) in cases {
            let splitter = Splitter::from_fs(fs.as_bytes(), Charset::Utf8, false).unwrap();
            assert_eq!(shown(&splitter, rec).1, *expected, "{fs:?} on {rec:?}");
        }
    }

    #[test]
    fn case_is_ignored_where_gawk_ignores_it() {
        let fold = |fs: &str, rec: &str, paragraph| {
            let splitter = Splitter::from_fs(fs.as_bytes(), Charset::Utf8, true).unwrap();
            let mut all = Vec::new();
            splitter.split(Charset::Utf8, rec.as_bytes(), paragraph, &mut all);
            all.len()
        };
        assert_eq!(fold("X", "aXbx", false), 2);
        assert_eq!(fold("[X]", "aXbx", false), 3);
        assert_eq!(fold("xx", "aXXbxx", false), 3);
        assert_eq!(fold("É", "éaÉb", false), 3);
        assert_eq!(fold("x", "aXb\nc", true), 3);
        let regex = |text: &[u8]| Rc::new(Regex::new(text, Charset::Utf8, false).unwrap());
        for (pattern, count) in [(&b"a"[..], 1), (b"[a]", 2), (b"ab", 2)] {
            let splitter = Splitter::from_regex_with(regex(pattern), true);
            assert_eq!(shown(&splitter, "bABb").0.len(), count, "{pattern:?}");
        }
        let splitter = Splitter::Pattern {
            regex: regex(b"a"),
            ignore_case: true,
        };
        assert_eq!(shown(&splitter, "bAb").0, ["A"]);
    }

    #[test]
    fn posix_has_no_character_splitting() {
        let options = Options {
            syntax: Syntax::Posix,
            ..Options::new(Charset::Utf8)
        };
        let splitter = Splitter::compile(b"", options).unwrap();
        assert_eq!(shown(&splitter, "a b").0, ["a b"]);
    }
}
