//! The named character classes, `[:alpha:]` and its kin.
//!
//! Invariant: in [`Charset::Bytes`] they are those of the C locale; in [`Charset::Utf8`] they follow glibc's
//! C.UTF-8 (compared with gawk 5.2.1 for every code point: beside letters added to Unicode since, alpha has the
//! combining letters here and lower lacks four title case letters).

use std::sync::OnceLock;

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use crate::text::Charset;

type Ranges = Vec<(u32, u32)>;

const NAMES: [&[u8]; 12] = [
    b"alpha", b"digit", b"alnum", b"upper", b"lower", b"space", b"blank", b"punct", b"print",
    b"graph", b"cntrl", b"xdigit",
];

/// The ranges of class `name`, both ends included; `None` if there is no such class.
pub(super) fn named(cs: Charset, name: &[u8]) -> Option<&'static [(u32, u32)]> {
    static ASCII: [OnceLock<Ranges>; 12] = [const { OnceLock::new() }; 12];
    static UNICODE: [OnceLock<Ranges>; 12] = [const { OnceLock::new() }; 12];
    let index = NAMES.iter().position(|n| *n == name)?;
    let ranges = match cs {
        Charset::Bytes => ASCII[index].get_or_init(|| ascii(name)),
        Charset::Utf8 => UNICODE[index].get_or_init(|| unicode(name)),
    };
    Some(ranges)
}

fn ascii(name: &[u8]) -> Ranges {
    let contains = |b: u8| match name {
        b"alpha" => b.is_ascii_alphabetic(),
        b"digit" => b.is_ascii_digit(),
        b"alnum" => b.is_ascii_alphanumeric(),
        b"upper" => b.is_ascii_uppercase(),
        b"lower" => b.is_ascii_lowercase(),
        b"space" => b == b' ' || (b'\t'..=b'\r').contains(&b),
        b"blank" => b == b' ' || b == b'\t',
        b"punct" => b.is_ascii_punctuation(),
        b"print" => b == b' ' || b.is_ascii_graphic(),
        b"graph" => b.is_ascii_graphic(),
        b"cntrl" => b.is_ascii_control(),
        _ => b.is_ascii_hexdigit(),
    };
    (0..0x80u8)
        .filter(|b| contains(*b))
        .map(|b| (u32::from(b), u32::from(b)))
        .collect()
}

/// A set from Unicode's tables by its property's name.
fn property(name: &str) -> ClassUnicode {
    // The names are constants below; one that the tables lack would give an empty set, which a test excludes.
    match regex_syntax::parse(&format!(r"\p{{{name}}}")).map(|hir| hir.into_kind()) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        _ => ClassUnicode::empty(),
    }
}

fn set(ranges: &[(char, char)]) -> ClassUnicode {
    ClassUnicode::new(
        ranges
            .iter()
            .map(|&(low, high)| ClassUnicodeRange::new(low, high)),
    )
}

fn space() -> ClassUnicode {
    // glibc leaves out the no-break spaces.
    set(&[
        ('\t', '\r'),
        (' ', ' '),
        ('\u{1680}', '\u{1680}'),
        ('\u{2000}', '\u{2006}'),
        ('\u{2008}', '\u{200A}'),
        ('\u{2028}', '\u{2029}'),
        ('\u{205F}', '\u{205F}'),
        ('\u{3000}', '\u{3000}'),
    ])
}

fn cntrl() -> ClassUnicode {
    set(&[
        ('\0', '\u{1F}'),
        ('\u{7F}', '\u{9F}'),
        ('\u{2028}', '\u{2029}'),
    ])
}

fn alnum() -> ClassUnicode {
    // Digits of other scripts are letters to glibc: only ASCII's are digits in C.
    let mut class = property("Alphabetic");
    class.union(&property("Nd"));
    class
}

fn print() -> ClassUnicode {
    let mut class = set(&[('\0', '\u{10FFFF}')]);
    class.difference(&property("Cn"));
    class.difference(&cntrl());
    class
}

fn graph() -> ClassUnicode {
    let mut class = print();
    class.difference(&space());
    class
}

fn unicode(name: &[u8]) -> Ranges {
    let class = match name {
        b"alpha" => {
            let mut class = alnum();
            class.difference(&set(&[('0', '9')]));
            class
        }
        b"alnum" => alnum(),
        b"upper" => {
            // glibc counts title case letters (ǅ) as upper case.
            let mut class = property("Uppercase");
            class.union(&property("Lt"));
            class
        }
        b"lower" => property("Lowercase"),
        b"space" => space(),
        b"blank" => {
            let mut class = space();
            class.difference(&set(&[('\n', '\r'), ('\u{2028}', '\u{2029}')]));
            class
        }
        b"punct" => {
            let mut class = graph();
            class.difference(&alnum());
            class
        }
        b"print" => print(),
        b"graph" => graph(),
        b"cntrl" => cntrl(),
        // The rest are ASCII in every locale.
        _ => return ascii(name),
    };
    class
        .iter()
        .map(|range| (range.start() as u32, range.end() as u32))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_members_and_extends_the_c_locale() {
        for name in NAMES {
            let unicode = named(Charset::Utf8, name).unwrap();
            for &(low, high) in named(Charset::Bytes, name).unwrap() {
                assert!(
                    unicode.iter().any(|&(l, h)| l <= low && high <= h),
                    "{name:?} {low}"
                );
            }
        }
        assert!(named(Charset::Utf8, b"foo").is_none());
        for (name, members) in [
            (&b"alpha"[..], "éßΣж日"),
            (b"upper", "ÉΣЖ"),
            (b"lower", "éσж"),
            (b"punct", "«»–…"),
        ] {
            for c in members.chars() {
                let code = c as u32;
                let ranges = named(Charset::Utf8, name).unwrap();
                assert!(ranges.iter().any(|&(l, h)| l <= code && code <= h), "{c}");
            }
        }
    }
}
