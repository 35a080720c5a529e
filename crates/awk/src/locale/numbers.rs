//! How a locale writes numbers: LC_NUMERIC.
//!
//! Invariant: what is written by [`Numbers::localize`] has the same digits as before.

use std::borrow::Cow;

use super::{find, texts};
use crate::num;

/// A sign of at most four bytes: one character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
struct Mark {
    bytes: [u8; 4],
    len: u8,
}

impl Mark {
    const POINT: Mark = Mark {
        bytes: [b'.', 0, 0, 0],
        len: 1,
    };

    fn of(text: &[u8]) -> Option<Mark> {
        let mut mark = Mark::default();
        mark.bytes.get_mut(..text.len())?.copy_from_slice(text);
        mark.len = text.len() as u8;
        Some(mark)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// Decimal point and groups of digits of a locale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    point: Mark,
    separator: Mark,
    /// Sizes of groups from the right, the last of them for all that follow; 0 behind the last.
    grouping: [u8; 4],
    /// The point is the locale's in all numbers and not only in those of `%'f`.
    everywhere: bool,
}

impl Default for Numbers {
    /// The C locale's: a point and no groups.
    fn default() -> Numbers {
        Numbers {
            point: Mark::POINT,
            separator: Mark::default(),
            grouping: [0; 4],
            everywhere: false,
        }
    }
}

impl Numbers {
    /// Those of a locale by its name, as LC_ALL, LC_NUMERIC or LANG give it. The C locale's if there is no such locale or
    /// its encoding has not the characters.
    pub fn of_locale(name: &str) -> Numbers {
        Numbers::found(name).unwrap_or_default()
    }

    fn found(name: &str) -> Option<Numbers> {
        let (locale, encoding) = find(name)?;
        let mut texts = texts::texts(locale).split(char::from(texts::END));
        let mark = |text| Mark::of(&encoding.write(text)?);
        let mut numbers = Numbers {
            point: mark(texts.next()?)?,
            separator: mark(texts.next()?)?,
            ..Numbers::default()
        };
        if numbers.separator.len > 0 {
            for (slot, size) in numbers.grouping.iter_mut().zip(texts.next()?.bytes()) {
                *slot = size - b'0';
            }
        }
        Some(numbers)
    }

    /// With the locale's point in all numbers, read and written: `--use-lc-numeric`.
    pub fn everywhere(self) -> Numbers {
        Numbers {
            everywhere: self.point != Mark::POINT,
            ..self
        }
    }

    /// The point that all numbers have, if it is another than the C locale's.
    #[inline]
    pub fn other_point(&self) -> Option<&[u8]> {
        self.everywhere.then(|| self.point.bytes())
    }

    /// What option `-v` assigns: a number with a point has the locale's instead, so that it is one. gawk reads numbers there
    /// by the C locale, because scripts write them.
    pub(crate) fn of_assignment<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(point) = self.other_point() else {
            return Cow::Borrowed(text);
        };
        match (num::scan_literal(text), memchr::memchr(b'.', text)) {
            (Some((_, end)), Some(at)) if end == text.len() => {
                Cow::Owned([&text[..at], point, &text[at + 1..]].concat())
            }
            _ => Cow::Borrowed(text),
        }
    }

    /// Whether the `'` flag changes nothing.
    pub fn is_plain(&self) -> bool {
        self.point == Mark::POINT && self.grouping[0] == 0
    }

    /// Makes the number from `from` on, written as in C and without its sign, the locale's: its point if `pointed` and
    /// groups of digits if `grouped`. Gives back how many bytes more it has than characters.
    #[cold]
    pub(crate) fn localize(
        &self,
        out: &mut Vec<u8>,
        from: usize,
        pointed: bool,
        grouped: bool,
    ) -> usize {
        let mut wider = 0;
        if pointed
            && self.point != Mark::POINT
            && let Some(at) = memchr::memchr(b'.', &out[from..])
        {
            out.splice(from + at..=from + at, self.point.bytes().iter().copied());
            wider += self.point.bytes().len() - 1;
        }
        if grouped {
            wider += self.group(out, from);
        }
        wider
    }

    /// Puts separators into the digits from `from` on, up to the first byte that is none.
    fn group(&self, out: &mut Vec<u8>, from: usize) -> usize {
        let is_digit = |b: &&u8| b.is_ascii_digit();
        let mut left = out[from..].iter().take_while(is_digit).count();
        let mut wider = 0;
        let mut sizes = self.grouping.iter().filter(|size| **size > 0);
        let mut size = 0;
        loop {
            // The last size is for all that follow.
            size = sizes.next().map_or(size, |size| usize::from(*size));
            if size == 0 || left <= size {
                return wider;
            }
            left -= size;
            let at = from + left;
            out.splice(at..at, self.separator.bytes().iter().copied());
            wider += self.separator.bytes().len() - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_as_the_locale_groups_them() {
        for (locale, digits, expected) in [
            ("en_US.UTF-8", "1234567", "1,234,567"),
            ("en_US.UTF-8", "123", "123"),
            ("en_US.UTF-8", "1234567.5678", "1,234,567.5678"),
            ("de_DE.UTF-8", "1234567.5678", "1.234.567,5678"),
            ("fr_FR.UTF-8", "1234567", "1\u{202f}234\u{202f}567"),
            (
                "unm_US.UTF-8",
                "12345678901",
                "12\u{202f}345\u{202f}67\u{202f}89\u{202f}01",
            ),
            ("C.UTF-8", "1234567.5", "1234567.5"),
            ("xx_YY.UTF-8", "1234567.5", "1234567.5"),
        ] {
            let mut out = b"x".to_vec();
            out.extend_from_slice(digits.as_bytes());
            let numbers = Numbers::of_locale(locale);
            let wider = numbers.localize(&mut out, 1, true, true);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(&text[1..], expected, "{locale}");
            assert_eq!(wider, text.len() - text.chars().count(), "{locale}");
        }
        let latin = Numbers::of_locale("fr_FR.ISO-8859-1");
        assert_eq!(latin.separator.bytes(), b"\xa0");
        let unwritable = Numbers::of_locale("ps_AF.ISO-8859-6");
        assert_eq!(unwritable, Numbers::default());
    }

    #[test]
    fn only_a_point_that_differs_is_another() {
        let point = |name| Numbers::of_locale(name).everywhere();
        assert_eq!(point("de_DE.UTF-8").other_point(), Some(&b","[..]));
        assert_eq!(point("ps_AF.UTF-8").other_point(), Some("٫".as_bytes()));
        assert_eq!(point("en_US.UTF-8").other_point(), None);
        assert_eq!(Numbers::of_locale("de_DE.UTF-8").other_point(), None);
    }
}
