//! What locales say about numbers and dates, by their names.
//!
//! Invariant: a locale is a value. Nothing here asks the environment or the machine's own locale files, so that a name means
//! the same on every machine; the data are glibc's, through the crate `pure-rust-locales`.

use std::borrow::Cow;

mod dates;
mod numbers;
mod texts;

pub use dates::{Dates, DatesOf, Era, Part};
pub use numbers::Numbers;

/// How texts of a locale are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Encoding {
    /// As they are.
    #[default]
    Utf8,
    /// ISO 8859-1.
    Latin1,
    /// ISO 8859-15: Latin-1 but for eight characters.
    Latin9,
    /// Another one: what is not ASCII cannot be written.
    Ascii,
}

impl Encoding {
    /// The text in this encoding; `None` if it has a character that cannot be written.
    pub fn write<'a>(self, text: &'a str) -> Option<Cow<'a, [u8]>> {
        if self == Encoding::Utf8 || text.is_ascii() {
            return Some(Cow::Borrowed(text.as_bytes()));
        }
        let bytes: Option<Vec<u8>> = text.chars().map(|c| self.byte(c)).collect();
        bytes.map(Cow::Owned)
    }

    fn byte(self, c: char) -> Option<u8> {
        // What glibc writes for the blank and the apostrophe between groups of digits.
        let c = match c {
            '\u{202f}' => '\u{a0}',
            '\u{2019}' => '\'',
            c => c,
        };
        let replaced = ['¤', '¦', '¨', '´', '¸', '¼', '½', '¾'];
        match u8::try_from(c) {
            Ok(byte) if byte < 0x80 => Some(byte),
            Ok(byte) if self == Encoding::Latin1 => Some(byte),
            Ok(byte) if self == Encoding::Latin9 && !replaced.contains(&c) => Some(byte),
            _ => None,
        }
    }

    /// In capitals, as C's `toupper` makes them of single bytes: only ASCII in UTF-8.
    pub fn make_upper(self, text: &mut [u8]) {
        text.make_ascii_uppercase();
        if self.is_latin() {
            for byte in text {
                if matches!(byte, 0xe0..=0xfe) && *byte != 0xf7 {
                    *byte -= 0x20;
                }
            }
        }
    }

    /// In small letters, likewise.
    pub fn make_lower(self, text: &mut [u8]) {
        text.make_ascii_lowercase();
        if self.is_latin() {
            for byte in text {
                if matches!(byte, 0xc0..=0xde) && *byte != 0xd7 {
                    *byte += 0x20;
                }
            }
        }
    }

    fn is_latin(self) -> bool {
        matches!(self, Encoding::Latin1 | Encoding::Latin9)
    }
}

/// The data and the encoding of a locale: `de_DE.UTF-8`, `de_DE`, `sr_RS.UTF-8@latin`. `None` for C, POSIX and for names
/// that there are not.
fn find(name: &str) -> Option<(pure_rust_locales::Locale, Encoding)> {
    use pure_rust_locales::Locale;
    // The commonest, and no locale of the crate's.
    if matches!(name, "" | "C" | "POSIX" | "C.UTF-8") {
        return None;
    }
    let (rest, modifier) = match name.split_once('@') {
        Some((rest, modifier)) => (rest, Some(modifier)),
        None => (name, None),
    };
    let (base, codeset) = match rest.split_once('.') {
        Some((base, codeset)) => (base, Some(codeset)),
        None => (rest, None),
    };
    let modified = modifier.and_then(|m| Locale::try_from(format!("{base}@{m}").as_str()).ok());
    // A modifier that says nothing is passed over.
    let locale = modified.or_else(|| Locale::try_from(base).ok())?;
    // One that the crate has got since its names were listed in `texts` is not there yet.
    if locale == Locale::POSIX || texts::texts(locale).is_empty() {
        return None;
    }
    let codeset = codeset.map(|codeset| {
        let mut plain = codeset.to_ascii_lowercase();
        plain.retain(|c| c.is_ascii_alphanumeric());
        plain
    });
    let encoding = match codeset.as_deref() {
        Some("utf8") => Encoding::Utf8,
        Some("iso88591") => Encoding::Latin1,
        Some("iso885915") => Encoding::Latin9,
        Some(_) => Encoding::Ascii,
        None if modifier == Some("euro") => Encoding::Latin9,
        // What glibc takes for the languages of Western Europe. Texts of most others do not fit, and are C's then.
        None => Encoding::Latin1,
    };
    Some((locale, encoding))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_setlocale_reads_them() {
        let found = |name: &str| find(name).map(|(l, e)| (l.to_string(), e));
        for (name, locale, encoding) in [
            ("de_DE.UTF-8", "de_DE", Encoding::Utf8),
            ("de_DE.utf8", "de_DE", Encoding::Utf8),
            ("de_DE", "de_DE", Encoding::Latin1),
            ("de_DE.ISO-8859-1", "de_DE", Encoding::Latin1),
            ("de_DE@euro", "de_DE@euro", Encoding::Latin9),
            ("de_DE.ISO8859-15@euro", "de_DE@euro", Encoding::Latin9),
            ("de_DE.UTF-8@nothing", "de_DE", Encoding::Utf8),
            ("sr_RS.UTF-8@latin", "sr_RS@latin", Encoding::Utf8),
            ("ru_RU.KOI8-R", "ru_RU", Encoding::Ascii),
        ] {
            assert_eq!(found(name), Some((locale.to_string(), encoding)), "{name}");
        }
        for name in [
            "",
            "C",
            "POSIX",
            "C.UTF-8",
            "de",
            "xx_YY.UTF-8",
            "DE_de",
            "@",
            ".",
            "../x",
        ] {
            assert_eq!(found(name), None, "{name}");
        }
    }

    #[test]
    fn texts_are_written_in_the_encoding_or_not_at_all() {
        let write = |e: Encoding, text| e.write(text).map(Cow::into_owned);
        assert_eq!(write(Encoding::Utf8, "März"), Some("März".into()));
        assert_eq!(write(Encoding::Latin1, "März"), Some(b"M\xe4rz".to_vec()));
        assert_eq!(
            write(Encoding::Latin1, "1\u{202f}2"),
            Some(b"1\xa02".to_vec())
        );
        assert_eq!(write(Encoding::Latin9, "¤"), None);
        assert_eq!(write(Encoding::Ascii, "März"), None);
        assert_eq!(write(Encoding::Latin1, "marzec ź"), None);
        let mut text = b"M\xe4rz\xf7".to_vec();
        Encoding::Latin1.make_upper(&mut text);
        assert_eq!(text, b"M\xc4RZ\xf7");
        Encoding::Latin9.make_lower(&mut text);
        assert_eq!(text, b"m\xe4rz\xf7");
        let mut text = "März".as_bytes().to_vec();
        Encoding::Utf8.make_upper(&mut text);
        assert_eq!(text, "MäRZ".as_bytes());
    }
}
