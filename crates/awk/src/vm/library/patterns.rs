//! `fnmatch`: file name patterns.
//!
//! Invariant: matching takes time in proportion to the lengths of pattern and text multiplied, whatever the stars.
//!
//! Source: POSIX, "Pattern Matching Notation"; the flags are GNU's.

use super::super::Vm;
use crate::error::Step as Result;
use crate::text::{self, Charset};
use crate::value::Value;

const NOESCAPE: u32 = 2;
const PATHNAME: u32 = 1;
const PERIOD: u32 = 4;
const LEADING_DIR: u32 = 8;
const CASEFOLD: u32 = 16;

/// The elements of FNM.
pub(super) const FLAGS: [(&str, u32); 6] = [
    ("CASEFOLD", CASEFOLD),
    ("FILE_NAME", PATHNAME),
    ("LEADING_DIR", LEADING_DIR),
    ("NOESCAPE", NOESCAPE),
    ("PATHNAME", PATHNAME),
    ("PERIOD", PERIOD),
];

/// A piece of a pattern.
enum Piece {
    Char(u32),
    Any,
    Star,
    /// Ranges, and whether the others are meant.
    Set(Vec<(u32, u32)>, bool),
}

fn chars(charset: Charset, bytes: &[u8]) -> Vec<u32> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (code, width) = text::next_char(charset, &bytes[at..]);
        out.push(code);
        at += width;
    }
    out
}

/// The ranges of a POSIX class, in ASCII.
fn class(name: &str) -> Option<Vec<(u32, u32)>> {
    let holds: fn(&u8) -> bool = match name {
        "alpha" => u8::is_ascii_alphabetic,
        "digit" => u8::is_ascii_digit,
        "alnum" => u8::is_ascii_alphanumeric,
        "upper" => u8::is_ascii_uppercase,
        "lower" => u8::is_ascii_lowercase,
        "space" => |b| b.is_ascii_whitespace() || *b == 0x0b,
        "blank" => |b| matches!(b, b' ' | b'\t'),
        "punct" => u8::is_ascii_punctuation,
        "print" => |b| (b' '..=b'~').contains(b),
        "graph" => u8::is_ascii_graphic,
        "cntrl" => u8::is_ascii_control,
        "xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    let members = (0..=127u8).filter(holds);
    Some(members.map(|b| (u32::from(b), u32::from(b))).collect())
}

/// The set that begins behind a `[`, and where it ends; `None`: the bracket stands for itself.
fn set(pattern: &[u32], flags: u32) -> Option<(Piece, usize)> {
    let mut at = 0;
    let inverted = matches!(
        pattern.first().and_then(|c| char::from_u32(*c)),
        Some('!' | '^')
    );
    if inverted {
        at += 1;
    }
    let mut ranges = Vec::new();
    let first = at;
    loop {
        let c = *pattern.get(at)?;
        if c == u32::from(']') && at > first {
            return Some((Piece::Set(ranges, inverted), at + 1));
        }
        if c == u32::from('[') && pattern.get(at + 1) == Some(&u32::from(':')) {
            let rest = &pattern[at + 2..];
            let end = rest
                .windows(2)
                .position(|pair| pair == [u32::from(':'), u32::from(']')])?;
            let name: String = rest[..end]
                .iter()
                .filter_map(|c| char::from_u32(*c))
                .collect();
            ranges.extend(class(&name)?);
            at += end + 4;
            continue;
        }
        let mut low = c;
        at += 1;
        if c == u32::from('\\') && flags & NOESCAPE == 0 {
            low = *pattern.get(at)?;
            at += 1;
        }
        let is_range = pattern.get(at) == Some(&u32::from('-'))
            && pattern.get(at + 1).is_some_and(|c| *c != u32::from(']'));
        if is_range {
            ranges.push((low, pattern[at + 1]));
            at += 2;
        } else {
            ranges.push((low, low));
        }
    }
}

fn pieces(pattern: &[u32], flags: u32) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < pattern.len() {
        let c = pattern[at];
        at += 1;
        out.push(match char::from_u32(c) {
            Some('*') => Piece::Star,
            Some('?') => Piece::Any,
            Some('[') => match set(&pattern[at..], flags) {
                Some((piece, used)) => {
                    at += used;
                    piece
                }
                None => Piece::Char(c),
            },
            Some('\\') if flags & NOESCAPE == 0 => {
                at += 1;
                match pattern.get(at - 1) {
                    Some(escaped) => Piece::Char(*escaped),
                    // With nothing to escape it matches nothing, as in glibc; POSIX leaves it open.
                    None => Piece::Set(Vec::new(), false),
                }
            }
            _ => Piece::Char(c),
        });
    }
    out
}

fn fold(c: u32, flags: u32) -> u32 {
    if flags & CASEFOLD == 0 {
        return c;
    }
    let lower = char::from_u32(c).map(char::to_lowercase);
    lower.and_then(|mut l| l.next()).map_or(c, u32::from)
}

/// Whether the whole of `text` matches.
fn matches(pattern: &[Piece], text: &[u32], flags: u32) -> bool {
    let slash = u32::from('/');
    let is_hidden = |at: usize| {
        let leads = at == 0 || (flags & PATHNAME != 0 && text[at - 1] == slash);
        flags & PERIOD != 0 && leads && text[at] == u32::from('.')
    };
    // Positions in the pattern that the text so far can have led to.
    let close = |states: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            if states[at] && matches!(pattern[at], Piece::Star) {
                states[at + 1] = true;
            }
        }
    };
    let mut states = vec![false; pattern.len() + 1];
    states[0] = true;
    close(&mut states);
    for (at, &c) in text.iter().enumerate() {
        if states[pattern.len()] && c == slash && flags & LEADING_DIR != 0 {
            return true;
        }
        let is_border = flags & PATHNAME != 0 && c == slash;
        let wild = !is_border && !is_hidden(at);
        let mut next = vec![false; pattern.len() + 1];
        for (n, piece) in pattern.iter().enumerate() {
            if !states[n] {
                continue;
            }
            match piece {
                Piece::Star if wild => next[n] = true,
                Piece::Any if wild => next[n + 1] = true,
                Piece::Set(ranges, inverted) if wild => {
                    let folded = fold(c, flags);
                    let holds = ranges.iter().any(|(low, high)| {
                        (*low..=*high).contains(&c)
                            || (fold(*low, flags)..=fold(*high, flags)).contains(&folded)
                    });
                    next[n + 1] |= holds != *inverted;
                }
                Piece::Char(wanted) => next[n + 1] |= fold(*wanted, flags) == fold(c, flags),
                _ => {}
            }
        }
        close(&mut next);
        states = next;
    }
    states[pattern.len()]
}

impl Vm<'_> {
    /// `fnmatch(pattern, string, flags)`: 0 if it matches, else `FNM_NOMATCH`.
    pub(super) fn fnmatch(&mut self, args: &[Value]) -> Result<Value> {
        let charset = self.settings.charset;
        let flags = args[2].to_num() as u32;
        let pattern = chars(charset, &self.settings.text_of(&args[0]));
        let text = chars(charset, &self.settings.text_of(&args[1]));
        let hit = matches(&pieces(&pattern, flags), &text, flags);
        Ok(Value::Num(if hit { 0.0 } else { 1.0 }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_posix_says() {
        for (pattern, text, flags, wanted) in [
            ("*.a", "foo.a", 0, true),
            ("*.a", "foo.b", 0, false),
            ("f?o", "foo", 0, true),
            ("[a-c]x", "bx", 0, true),
            ("[!a-c]x", "bx", 0, false),
            ("[]x]", "]", 0, true),
            ("[[:digit:]]*", "7up", 0, true),
            ("*", "a/b", PATHNAME, false),
            ("*", ".x", PERIOD, false),
            ("ABC", "abc", CASEFOLD, true),
            ("a\\*", "a*", 0, true),
            ("a\\*", "a\\x", NOESCAPE, true),
            ("\\", "\\", 0, false),
            ("\\", "\\", NOESCAPE, true),
            ("a", "a/b", LEADING_DIR, true),
            ("[a", "[a", 0, true),
            (
                "a*a*a*a*a*a*a*a*b",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                0,
                false,
            ),
        ] {
            let (p, t) = (
                chars(Charset::Utf8, pattern.as_bytes()),
                chars(Charset::Utf8, text.as_bytes()),
            );
            let hit = matches(&pieces(&p, flags), &t, flags);
            assert_eq!(hit, wanted, "{pattern} {text}");
        }
    }
}
