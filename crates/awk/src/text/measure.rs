//! A string's length and borders in characters, kept from one question to the next.
//!
//! A program that takes a long string apart (`for (i = 1; i <= length(s); i++) c = substr(s, i, 1)`) asks the same string
//! again and again; without this each question would walk all of it.
//!
//! Invariant: what a measure knows is true of the string it is always used with; whoever changes that string tells it by
//! `grown` or `forget`. Answers are those of the functions in `text`.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use super::{Charset, char_count, char_to_byte, substr_bounds};

/// Characters from one border that is kept to the next.
const STEP: usize = 64;

/// So near to where counting can begin it is not worth while to measure the whole string.
const NEAR: usize = 512;

/// To measure all of a string up to this length, in bytes, costs about as much as to ask whether that is worth while.
const MEASURED: usize = 4096;

const UNKNOWN: usize = usize::MAX;

/// See the top of the file. Costs 8 bytes for each 64 characters of a string that has characters of several bytes, when
/// one far from its beginning is asked for.
#[derive(Debug)]
pub struct Measure {
    chars: Cell<usize>,
    /// Byte offset of each `STEP`th character, as far as they are known.
    borders: RefCell<Vec<usize>>,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure {
            chars: Cell::new(UNKNOWN),
            borders: RefCell::new(Vec::new()),
        }
    }
}

impl Measure {
    /// The string is another one now.
    pub fn forget(&mut self) {
        self.chars.set(UNKNOWN);
        self.borders.get_mut().clear();
    }

    /// `more` was appended to the string.
    pub fn grown(&mut self, more: &[u8]) {
        if self.chars.get() == UNKNOWN {
            return;
        }
        if more.is_ascii() {
            self.chars.set(self.chars.get() + more.len());
        } else {
            // It could complete a character that was begun.
            self.forget();
        }
    }

    /// Only this part is left of the string.
    pub fn cut(&mut self, range: Range<usize>, before: usize) {
        if self.chars.get() == before {
            // All are single bytes.
            self.chars.set(range.len());
        } else {
            self.forget();
        }
    }

    /// Number of characters in `s`.
    pub fn chars(&self, cs: Charset, s: &[u8]) -> usize {
        if self.chars.get() == UNKNOWN {
            self.chars.set(char_count(cs, s));
        }
        self.chars.get()
    }

    /// Whether each character is a byte; false also where that is not worth while to be found out.
    #[inline]
    pub fn is_plain(&self, cs: Charset, s: &[u8]) -> bool {
        let is_measured = self.chars.get() != UNKNOWN || s.len() <= MEASURED;
        cs == Charset::Bytes || is_measured && self.chars(cs, s) == s.len()
    }

    /// The bytes of `substr(s, m, n)`: see [`super::substr_range`].
    pub fn substr_range(&self, cs: Charset, s: &[u8], m: f64, n: Option<f64>) -> Range<usize> {
        let (skip, count) = substr_bounds(m, n);
        if skip >= s.len() || count == 0 {
            return 0..0;
        }
        if self.is_plain(cs, s) {
            return skip..skip.saturating_add(count).min(s.len());
        }
        let from = self.byte(cs, s, skip);
        if count >= s.len() - from {
            return from..s.len();
        }
        if count <= NEAR {
            return from..from + char_to_byte(cs, &s[from..], count);
        }
        from..self.byte(cs, s, skip + count)
    }

    /// Byte offset of the `nth` character (0-based); `s.len()` at or past the end.
    fn byte(&self, cs: Charset, s: &[u8], nth: usize) -> usize {
        if nth <= NEAR {
            return char_to_byte(cs, s, nth);
        }
        let chars = self.chars(cs, s);
        if nth >= chars {
            return s.len();
        }
        if chars == s.len() {
            return nth;
        }
        let mut borders = self.borders.borrow_mut();
        if borders.is_empty() {
            borders.push(0);
        }
        while borders.len() <= nth / STEP {
            let last = borders[borders.len() - 1];
            borders.push(last + char_to_byte(cs, &s[last..], STEP));
        }
        let border = borders[nth / STEP];
        border + char_to_byte(cs, &s[border..], nth % STEP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::substr_range;
    use Charset::{Bytes, Utf8};

    #[test]
    fn answers_are_those_of_measuring_anew() {
        let plain = b"abc".repeat(700);
        let mixed = "aé€😀".as_bytes().repeat(400);
        let broken = b"a\xff\xc3\xa9\xe2\x82".repeat(300);
        for s in [&plain[..], &mixed, &broken, b"", b"\xc3"] {
            for cs in [Bytes, Utf8] {
                let measure = Measure::default();
                assert_eq!(measure.chars(cs, s), char_count(cs, s));
                for at in (0..s.len() + 3).chain([usize::MAX >> 12]) {
                    for n in [None, Some(1.0), Some(70.0), Some(600.0), Some(1e300)] {
                        let m = at as f64;
                        assert_eq!(
                            measure.substr_range(cs, s, m, n),
                            substr_range(cs, s, m, n),
                            "{cs:?} {at} {n:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_string_that_grows_is_measured_right() {
        let mut s = Vec::new();
        let mut measure = Measure::default();
        for part in ["x".repeat(600), "é".repeat(900), "y".repeat(700)] {
            s.extend_from_slice(part.as_bytes());
            measure.grown(part.as_bytes());
            assert_eq!(measure.chars(Utf8, &s), char_count(Utf8, &s));
            let last = char_count(Utf8, &s) as f64;
            let range = measure.substr_range(Utf8, &s, last, Some(1.0));
            assert_eq!(range.end, s.len());
        }
        // Halves of one character.
        for half in [&b"\xc3"[..], b"\xa9", b"z"] {
            s.extend_from_slice(half);
            measure.grown(half);
            assert_eq!(measure.chars(Utf8, &s), char_count(Utf8, &s));
        }
        measure.forget();
        assert_eq!(measure.chars(Utf8, b"ab"), 2);
    }
}
