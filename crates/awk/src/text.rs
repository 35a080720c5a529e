//! Characters: where they begin and end, how many there are, and their case.
//!
//! Invariant: every function cuts a byte string into the same characters. In [`Charset::Bytes`] each byte is one; in
//! [`Charset::Utf8`] each well-formed sequence is one and every byte that belongs to none is one by itself, so that no
//! byte string is refused and none is changed by being measured. Called by the VM's string functions and by `format`.

mod measure;

use memchr::memmem::Finder;

use crate::scan;

use std::ops::Range;

pub use measure::Measure;

/// What a character is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charset {
    /// The C locale: a character is a byte.
    Bytes,
    /// UTF-8; a byte outside any well-formed sequence counts as one character.
    Utf8,
}

/// Length in bytes of the character at the front of `s`; `s` must not be empty.
#[inline]
fn utf8_len(s: &[u8]) -> usize {
    let first = s[0];
    if first < 0x80 {
        return 1;
    }
    // The second byte has a narrower range after E0, ED, F0 and F4 (Unicode, table 3-7).
    let (len, low, high) = match first {
        0xC2..=0xDF => (2, 0x80, 0xBF),
        0xE0 => (3, 0xA0, 0xBF),
        0xED => (3, 0x80, 0x9F),
        0xE1..=0xEF => (3, 0x80, 0xBF),
        0xF0 => (4, 0x90, 0xBF),
        0xF1..=0xF3 => (4, 0x80, 0xBF),
        0xF4 => (4, 0x80, 0x8F),
        _ => return 1,
    };
    if s.len() < len || s[1] < low || s[1] > high {
        return 1;
    }
    if s[2..len].iter().all(|b| b & 0xC0 == 0x80) {
        len
    } else {
        1
    }
}

/// The first character of `s`, which must not be empty: its code point, or its byte value when the byte belongs to no
/// well-formed sequence, and its length in bytes.
#[inline]
pub fn next_char(cs: Charset, s: &[u8]) -> (u32, usize) {
    let first = u32::from(s[0]);
    if cs == Charset::Bytes || first < 0x80 {
        return (first, 1);
    }
    let tail = |i: usize| u32::from(s[i] & 0x3F);
    match utf8_len(s) {
        2 => ((first & 0x1F) << 6 | tail(1), 2),
        3 => ((first & 0x0F) << 12 | tail(1) << 6 | tail(2), 3),
        4 => (
            (first & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3),
            4,
        ),
        _ => (first, 1),
    }
}

/// Number of characters in `s`.
#[inline]
pub fn char_count(cs: Charset, s: &[u8]) -> usize {
    if cs == Charset::Bytes || scan::is_ascii(s) {
        s.len()
    } else {
        count_utf8(s)
    }
}

fn count_utf8(s: &[u8]) -> usize {
    s.utf8_chunks()
        .map(|chunk| chunk.valid().chars().count() + chunk.invalid().len())
        .sum()
}

/// Byte offset of the `nth` character (0-based); `s.len()` at or past the end.
#[inline]
pub fn char_to_byte(cs: Charset, s: &[u8], nth: usize) -> usize {
    let reach = nth.min(s.len());
    // Characters before `nth` are bytes as long as all of them are ASCII, whatever follows.
    if cs == Charset::Bytes || scan::is_ascii(&s[..reach]) {
        reach
    } else {
        walk(s, nth)
    }
}

fn walk(s: &[u8], nth: usize) -> usize {
    let mut at = 0;
    let mut left = nth;
    while left > 0 && at < s.len() {
        if left >= 8 && s.len() - at >= 8 && s[at..at + 8].is_ascii() {
            at += 8;
            left -= 8;
        } else {
            at += utf8_len(&s[at..]);
            left -= 1;
        }
    }
    at
}

/// Number of characters that begin before byte offset `byte`, which should lie on a character's border.
#[inline]
pub fn byte_to_char(cs: Charset, s: &[u8], byte: usize) -> usize {
    char_count(cs, &s[..byte.min(s.len())])
}

/// The bytes of `substr(s, m, n)`: at most `n` characters from position `m` on, counted from 1.
///
/// Fractions are cut off, and a start before the first character counts as the first without shortening `n`: gawk
/// 5.2.1 and the one true awk agree on both. Any float is safe: a NaN start is the first character, a NaN length
/// gives nothing, infinities reach to the ends.
pub fn substr_range(cs: Charset, s: &[u8], m: f64, n: Option<f64>) -> Range<usize> {
    let (skip, count) = substr_bounds(m, n);
    if skip >= s.len() || count == 0 {
        return 0..0;
    }
    let from = char_to_byte(cs, s, skip);
    if count >= s.len() - from {
        return from..s.len();
    }
    from..from + char_to_byte(cs, &s[from..], count)
}

/// Characters that `substr(_, m, n)` leaves out, and then takes.
fn substr_bounds(m: f64, n: Option<f64>) -> (usize, usize) {
    (substr_skipped(m), n.map_or(usize::MAX, |n| n as usize))
}

/// Characters that `substr(_, m)` leaves out.
#[inline]
pub fn substr_skipped(m: f64) -> usize {
    // `max` picks 1 for NaN; `as` saturates, so that a huge start lies past the end like any other.
    m.max(1.0) as usize - 1
}

/// Looks for texts in texts: programs look for the same one again and again, and to make a finder costs more than to use it.
#[derive(Default)]
pub struct Sought {
    last: Vec<u8>,
    finder: Option<Finder<'static>>,
}

impl Sought {
    /// As [`find`].
    pub fn find(&mut self, cs: Charset, s: &[u8], t: &[u8]) -> usize {
        if t.len() < 2 || !t.is_ascii() {
            return find(cs, s, t);
        }
        if self.last != t {
            self.last.clear();
            self.last.extend_from_slice(t);
            self.finder = None;
            return find(cs, s, t);
        }
        let finder = self
            .finder
            .get_or_insert_with(|| Finder::new(t).into_owned());
        finder.find(s).map_or(0, |at| byte_to_char(cs, s, at) + 1)
    }
}

/// As [`find`], of a text that is looked for again and again.
#[inline]
pub fn find_with(cs: Charset, s: &[u8], wanted: &Finder<'_>) -> usize {
    match wanted.needle() {
        [_, _, ..] if cs == Charset::Bytes || wanted.needle().is_ascii() => {
            wanted.find(s).map_or(0, |at| byte_to_char(cs, s, at) + 1)
        }
        other => find(cs, s, other),
    }
}

/// AWK's `index(s, t)`: the 1-based character position of the first `t` in `s`, or 0. An empty `t` is found at once, at 1.
pub fn find(cs: Charset, s: &[u8], t: &[u8]) -> usize {
    if t.is_empty() {
        return 1;
    }
    // Well-formed text can only be found on borders; a stray byte could be found inside a character.
    if cs == Charset::Utf8 && !t.is_ascii() && std::str::from_utf8(t).is_err() {
        return find_stray(s, t);
    }
    let hit = if t.len() == 1 {
        memchr::memchr(t[0], s)
    } else {
        memchr::memmem::find(s, t)
    };
    hit.map_or(0, |at| byte_to_char(cs, s, at) + 1)
}

fn find_stray(s: &[u8], t: &[u8]) -> usize {
    let mut at = 0;
    let mut position = 1;
    while at + t.len() <= s.len() {
        if s[at..].starts_with(t) {
            let mut end = at;
            while end < at + t.len() {
                end += utf8_len(&s[end..]);
            }
            if end == at + t.len() {
                return position;
            }
        }
        at += utf8_len(&s[at..]);
        position += 1;
    }
    0
}

/// Appends `s` in lower case to `out`. Only characters whose other case is a single character change; in
/// [`Charset::Bytes`] only ASCII letters do.
pub fn to_lower(cs: Charset, s: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if cs == Charset::Bytes || scan::is_ascii(s) {
        out.extend_from_slice(s);
        out[start..].make_ascii_lowercase();
    } else {
        map_chars(s, lower_char, out);
    }
}

/// Appends `s` in upper case to `out`, by the same rules as [`to_lower`].
pub fn to_upper(cs: Charset, s: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if cs == Charset::Bytes || scan::is_ascii(s) {
        out.extend_from_slice(s);
        out[start..].make_ascii_uppercase();
    } else {
        map_chars(s, upper_char, out);
    }
}

fn map_chars(s: &[u8], map: fn(char) -> char, out: &mut Vec<u8>) {
    let mut utf8 = [0; 4];
    for chunk in s.utf8_chunks() {
        for c in chunk.valid().chars() {
            out.extend_from_slice(map(c).encode_utf8(&mut utf8).as_bytes());
        }
        out.extend_from_slice(chunk.invalid());
    }
}

fn only<I: Iterator<Item = char>>(mut mapped: I) -> Option<char> {
    let first = mapped.next()?;
    mapped.next().is_none().then_some(first)
}

fn lower_char(c: char) -> char {
    // The one letter whose full mapping is longer than its simple one (UnicodeData.txt).
    if c == '\u{130}' {
        'i'
    } else {
        only(c.to_lowercase()).unwrap_or(c)
    }
}

fn upper_char(c: char) -> char {
    let simple = |distance| char::from_u32(c as u32 + distance).unwrap_or(c);
    match c {
        // Greek with iota subscript: the full mapping is two letters, the simple one is the title case letter.
        '\u{1F80}'..='\u{1F87}' | '\u{1F90}'..='\u{1F97}' | '\u{1FA0}'..='\u{1FA7}' => simple(8),
        '\u{1FB3}' | '\u{1FC3}' | '\u{1FF3}' => simple(9),
        _ => only(c.to_uppercase()).unwrap_or(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Charset::{Bytes, Utf8};

    fn substr(s: &str, m: f64, n: Option<f64>) -> &str {
        &s[substr_range(Utf8, s.as_bytes(), m, n)]
    }

    #[test]
    fn invalid_bytes_count_one_each() {
        for (s, n) in [
            (&b"a\xffb"[..], 3),
            (b"\xe2\x82", 2),
            (b"h\xc3\xa9\xe2\x82x\xf0\x9f\x98\x80z", 7),
            (b"\xed\xa0\x80", 3),
            (b"\xc0\x80", 2),
            (b"", 0),
        ] {
            assert_eq!(char_count(Utf8, s), n, "{s:?}");
            assert_eq!(char_count(Bytes, s), s.len());
            let mut at = 0;
            for nth in 0..n {
                assert_eq!(char_to_byte(Utf8, s, nth), at, "{s:?} {nth}");
                assert_eq!(byte_to_char(Utf8, s, at), nth);
                at += next_char(Utf8, &s[at..]).1;
            }
            assert_eq!(char_to_byte(Utf8, s, n), s.len());
            assert_eq!(char_to_byte(Utf8, s, usize::MAX), s.len());
        }
    }

    #[test]
    fn next_char_decodes_every_scalar_value() {
        let mut utf8 = [0; 4];
        for c in (0..0x11_0000).filter_map(char::from_u32) {
            let s = c.encode_utf8(&mut utf8).as_bytes();
            assert_eq!(next_char(Utf8, s), (c as u32, s.len()));
        }
    }

    #[test]
    fn substr_cuts_fractions_and_clips_as_gawk() {
        assert_eq!(substr("hello", 2.0, Some(3.0)), "ell");
        assert_eq!(substr("hello", 0.0, Some(2.0)), "he");
        assert_eq!(substr("hello", -1.0, Some(3.0)), "hel");
        assert_eq!(substr("hello", 1.9, None), "hello");
        assert_eq!(substr("héllo", 2.0, Some(2.0)), "él");
        assert_eq!(substr("hello", f64::NAN, None), "hello");
        assert_eq!(substr("hello", 2.0, Some(f64::NAN)), "");
        assert_eq!(substr("hello", 2.0, Some(f64::INFINITY)), "ello");
        assert_eq!(substr("hello", -1e300, Some(1e301)), "hello");
        assert_eq!(substr("hello", 1e300, None), "");
        assert_eq!(substr("", 1.0, Some(1.0)), "");
    }

    #[test]
    fn find_counts_characters_and_ignores_halves() {
        assert_eq!(find(Utf8, "aéz".as_bytes(), b"z"), 3);
        assert_eq!(find(Bytes, "aéz".as_bytes(), b"z"), 4);
        assert_eq!(find(Utf8, "é".as_bytes(), b"\xa9"), 0);
        assert_eq!(find(Utf8, "é".as_bytes(), b"\xc3"), 0);
        assert_eq!(find(Utf8, b"\xe2\x82", b"\x82"), 2);
        assert_eq!(find(Utf8, b"abc", b""), 1);
    }

    #[test]
    fn case_is_mapped_one_to_one() {
        let upper = |s: &str| {
            let mut out = Vec::new();
            to_upper(Utf8, s.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        let lower = |s: &str| {
            let mut out = Vec::new();
            to_lower(Utf8, s.as_bytes(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(upper("éßçÿµŉİi"), "ÉßÇŸΜŉİI");
        assert_eq!(lower("ÉİΣ"), "éiσ");
        let mut out = Vec::new();
        to_upper(Utf8, b"a\xff\xc3\xa9", &mut out);
        assert_eq!(out, b"A\xff\xc3\x89");
    }
}
