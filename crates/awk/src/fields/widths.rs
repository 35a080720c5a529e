//! FIELDWIDTHS: fields by their places.
//!
//! Invariant: widths are at least one and skips are followed by a field, so that every field moves on through the
//! record; all are counted in characters. Called by [`super::Splitter`].

use crate::text::{self, Charset};

/// A parsed FIELDWIDTHS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widths {
    columns: Vec<Column>,
}

/// One field: how much is passed over before it, and how long it is at most. In characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Column {
    skip: usize,
    /// `None` for `*`: all that is left.
    width: Option<usize>,
}

/// A value of FIELDWIDTHS that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WidthsError {
    /// No number, zero, or a number beyond 32 bits.
    #[error("invalid FIELDWIDTHS value, for field {field}, near `{near}'")]
    Invalid {
        /// Which field, from 1.
        field: usize,
        /// The value from the bad number on.
        near: String,
    },
    /// `*` with something behind it.
    #[error("`*' must be the last designator in FIELDWIDTHS")]
    StarNotLast,
}

fn is_blank(b: &u8) -> bool {
    matches!(b, b' ' | b'\t')
}

/// A number that is not zero and fits 32 bits, and what follows it.
fn number(text: &[u8]) -> Option<(usize, &[u8])> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    let len = digits
        .iter()
        .position(|b| !b.is_ascii_digit())
        .unwrap_or(digits.len());
    let value: u32 = std::str::from_utf8(&digits[..len]).ok()?.parse().ok()?;
    (value > 0).then_some((value as usize, &digits[len..]))
}

impl Widths {
    /// Parses `3 2:4 *`: three characters, four after two that belong to no field, and the rest.
    ///
    /// # Errors
    /// Anything else, in gawk 5.3's words.
    pub fn parse(value: &[u8]) -> Result<Widths, WidthsError> {
        let mut columns = Vec::new();
        let mut rest = value;
        loop {
            rest = &rest[rest.iter().take_while(|b| is_blank(b)).count()..];
            if rest.is_empty() {
                return Ok(Widths { columns });
            }
            let invalid = |near: &[u8]| WidthsError::Invalid {
                field: columns.len() + 1,
                near: String::from_utf8_lossy(near).into_owned(),
            };
            let mut skip = 0;
            let mut from = rest;
            if !from.starts_with(b"*") {
                let (first, after) = number(from).ok_or_else(|| invalid(from))?;
                match after.strip_prefix(b":") {
                    Some(field) => (skip, from) = (first, field),
                    None if after.first().is_none_or(is_blank) => {
                        columns.push(Column {
                            skip,
                            width: Some(first),
                        });
                        rest = after;
                        continue;
                    }
                    None => return Err(invalid(from)),
                }
            }
            if let Some(after) = from.strip_prefix(b"*") {
                if !after.iter().all(is_blank) {
                    return Err(WidthsError::StarNotLast);
                }
                columns.push(Column { skip, width: None });
                rest = after;
                continue;
            }
            match number(from) {
                Some((width, after)) if after.first().is_none_or(is_blank) => {
                    columns.push(Column {
                        skip,
                        width: Some(width),
                    });
                    rest = after;
                }
                _ => return Err(invalid(from)),
            }
        }
    }

    /// The field of column `index` in `rec`, of which `at` bytes are used up; `None` if there is none.
    pub(super) fn field(
        &self,
        cs: Charset,
        rec: &[u8],
        at: usize,
        index: usize,
    ) -> Option<(usize, usize)> {
        let column = self.columns.get(index)?;
        if at == rec.len() {
            return None;
        }
        let start = at + text::char_to_byte(cs, &rec[at..], column.skip);
        let end = column.width.map_or(rec.len(), |width| {
            start + text::char_to_byte(cs, &rec[start..], width)
        });
        Some((start, end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(widths: &str, rec: &str) -> Vec<String> {
        let widths = Widths::parse(widths.as_bytes()).unwrap();
        let (mut at, mut all) = (0, Vec::new());
        while let Some((start, end)) = widths.field(Charset::Utf8, rec.as_bytes(), at, all.len()) {
            all.push(rec[start..end].to_string());
            at = end;
        }
        all
    }

    #[test]
    fn columns_are_cut_as_gawk_cuts_them() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("3 2:4 *", "abcdefghijkl", &["abc", "fghi", "jkl"]),
            ("3 2:4 *", "abcdef", &["abc", "f"]),
            ("3 2:4 *", "ab", &["ab"]),
            ("3 2:4 *", "abcdefghi", &["abc", "fghi"]),
            ("3 2:4 *", "abcd", &["abc", ""]),
            ("3 3", "abcdefghi", &["abc", "def"]),
            ("3 3", "abcd", &["abc", "d"]),
            ("3 3", "", &[]),
            ("2 2", "éàùx", &["éà", "ùx"]),
            ("", "abc", &[]),
            (" ", "abc", &[]),
            ("3:*", "abcde", &["de"]),
            ("2:*", "ab", &[""]),
            ("2 1:*", "abc", &["ab", ""]),
            ("2 1:*", "ab", &["ab"]),
            ("3\t2", "abcde", &["abc", "de"]),
            ("2147483647 3", "abc", &["abc"]),
            ("2  *  ", "abc", &["ab", "c"]),
            ("+3", "abcd", &["abc"]),
            ("1:+2", "abcd", &["bc"]),
            ("3 5:2", "abcde", &["abc", ""]),
        ];
        for (widths, rec, expected) in cases {
            assert_eq!(fields(widths, rec), *expected, "{widths:?} on {rec:?}");
        }
    }

    #[test]
    fn bad_widths_are_named_as_gawk_names_them() {
        for (widths, field, near) in [
            ("a", 1, "a"),
            ("0 3", 1, "0 3"),
            ("3 0 3", 2, "0 3"),
            ("-1", 1, "-1"),
            ("3:", 1, ""),
            (":3", 1, ":3"),
            ("3a", 1, "3a"),
            ("99999999999", 1, "99999999999"),
            ("1,2", 1, "1,2"),
            ("1:0", 1, "0"),
            ("1: 2", 1, " 2"),
            ("1 :2", 2, ":2"),
            ("0x3", 1, "0x3"),
            ("1 2\n3", 2, "2\n3"),
        ] {
            let expected = WidthsError::Invalid {
                field,
                near: near.to_string(),
            };
            assert_eq!(
                Widths::parse(widths.as_bytes()),
                Err(expected),
                "{widths:?}"
            );
        }
        for widths in ["* 3", "3 *5", "** "] {
            let got = Widths::parse(widths.as_bytes());
            assert_eq!(got, Err(WidthsError::StarNotLast), "{widths:?}");
        }
    }
}
