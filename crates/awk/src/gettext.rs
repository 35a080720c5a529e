//! Translations from message catalogues (`.mo` files): what `dcgettext`, `dcngettext` and `bindtextdomain` are made of.
//!
//! Invariant: a catalogue is untrusted. Every offset is checked where it is used, so that a damaged file lacks messages
//! and does no more. The format is GNU gettext's ("The Format of GNU MO Files" in its manual), in either byte order.

use std::path::{Path, PathBuf};

mod plural;

use plural::Plural;

/// A larger catalogue is refused, in bytes.
const CATALOGUE_BYTES_MAX: u64 = 64 << 20;

/// The messages of one domain in one language.
#[derive(Debug)]
pub struct Catalogue {
    bytes: Vec<u8>,
    is_big_endian: bool,
    count: usize,
    originals: usize,
    translations: usize,
    plural: Plural,
}

impl Catalogue {
    /// Reads a catalogue from the bytes of a `.mo` file; `None` if they are none.
    pub fn parse(bytes: Vec<u8>) -> Option<Catalogue> {
        let is_big_endian = match bytes.get(..4)? {
            [0xDE, 0x12, 0x04, 0x95] => false,
            [0x95, 0x04, 0x12, 0xDE] => true,
            _ => return None,
        };
        let mut catalogue = Catalogue {
            bytes,
            is_big_endian,
            count: 0,
            originals: 0,
            translations: 0,
            plural: Plural::germanic(),
        };
        // The upper half of the revision is the major one; only 0 and 1 are defined.
        if catalogue.word(4)? >> 16 > 1 {
            return None;
        }
        let count = catalogue.word(8)?;
        // Each message has eight bytes in both tables.
        if count > catalogue.bytes.len() / 16 {
            return None;
        }
        catalogue.originals = catalogue.word(12)?;
        catalogue.translations = catalogue.word(16)?;
        catalogue.count = count;
        if let Some(header) = catalogue.find(b"")
            && let Some(plural) = Plural::from_header(header)
        {
            catalogue.plural = plural;
        }
        Some(catalogue)
    }

    fn word(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at.checked_add(4)?)?;
        let fold = |word: usize, byte: &u8| word << 8 | usize::from(*byte);
        Some(if self.is_big_endian {
            bytes.iter().fold(0, fold)
        } else {
            bytes.iter().rev().fold(0, fold)
        })
    }

    /// Entry `index` of the table at `table`.
    fn text(&self, table: usize, index: usize) -> Option<&[u8]> {
        let entry = table.checked_add(index.checked_mul(8)?)?;
        let (len, from) = (self.word(entry)?, self.word(entry.checked_add(4)?)?);
        self.bytes.get(from..from.checked_add(len)?)
    }

    /// The translation of the message whose key is `original`, with all its plural forms. The table is sorted, so that
    /// the cost is logarithmic.
    fn find(&self, original: &[u8]) -> Option<&[u8]> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let key = self.text(self.originals, middle)?;
            // A message with a plural has it behind a NUL in its key.
            let key = key.split(|b| *b == 0).next().unwrap_or(key);
            match key.cmp(original) {
                std::cmp::Ordering::Equal => return self.text(self.translations, middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The translation of `original`; `None` if there is none or it is empty.
    pub fn message(&self, original: &[u8]) -> Option<&[u8]> {
        let all = self.find(original)?;
        all.split(|b| *b == 0)
            .next()
            .filter(|text| !text.is_empty())
    }

    /// The translation of `singular` in the form that the language has for `n` things.
    pub fn plural(&self, singular: &[u8], n: u64) -> Option<&[u8]> {
        let all = self.find(singular)?;
        let form = self.plural.form(n);
        all.split(|b| *b == 0)
            .nth(form)
            .filter(|text| !text.is_empty())
    }
}

/// Which of two English forms stands for `n` things where there is no translation.
pub fn untranslated<'a>(singular: &'a [u8], plural: &'a [u8], n: u64) -> &'a [u8] {
    if n == 1 { singular } else { plural }
}

/// The files in which the catalogue of `domain` for `locale` may be, best first:
/// `folder/de_AT.UTF-8/LC_MESSAGES/domain.mo`, then without the codeset, and without the country. `category` is such as
/// `LC_MESSAGES`. Empty for the C and POSIX locales, which are not translated, and for names that would leave the
/// folder.
pub fn candidates(folder: &Path, locale: &str, category: &str, domain: &str) -> Vec<PathBuf> {
    let is_c = matches!(locale, "" | "C" | "POSIX") || locale.starts_with("C.");
    if is_c || domain.is_empty() || [locale, domain].iter().any(|name| name.contains('/')) {
        return Vec::new();
    }
    let (base, modifier) = match locale.split_once('@') {
        Some((base, modifier)) => (base, Some(modifier)),
        None => (locale, None),
    };
    let without_codeset = base.split('.').next().unwrap_or(base);
    let language = without_codeset.split('_').next().unwrap_or(without_codeset);
    let mut names: Vec<String> = Vec::new();
    for base in [base, without_codeset, language] {
        let with = modifier.map(|modifier| format!("{base}@{modifier}"));
        for name in with.into_iter().chain([base.to_string()]) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    // What has the modifier is nearer than what has not.
    names.sort_by_key(|name| modifier.is_some() && !name.contains('@'));
    names
        .iter()
        .map(|name| {
            folder
                .join(name)
                .join(category)
                .join(format!("{domain}.mo"))
        })
        .collect()
}

/// Reads the first catalogue that is there, of `domain` for any of `locales` in their order (LANGUAGE lists several);
/// `None` if there is none.
pub fn load(folder: &Path, locales: &[&str], category: &str, domain: &str) -> Option<Catalogue> {
    locales
        .iter()
        .flat_map(|locale| candidates(folder, locale, category, domain))
        .find_map(|path| {
            let about = std::fs::metadata(&path).ok()?;
            if !about.is_file() || about.len() > CATALOGUE_BYTES_MAX {
                return None;
            }
            Catalogue::parse(std::fs::read(&path).ok()?)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalogue of sorted messages.
    fn made(messages: &[(&str, &str)], is_big_endian: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let word = |out: &mut Vec<u8>, value: usize| {
            let mut bytes: Vec<u8> = (0..4).map(|i| (value >> (8 * i)) as u8).collect();
            if is_big_endian {
                bytes.reverse();
            }
            out.extend(bytes);
        };
        let count = messages.len();
        for value in [0x9504_12DE, 0, count, 28, 28 + 8 * count, 0, 0] {
            word(&mut out, value);
        }
        let mut at = 28 + 16 * count;
        for texts in [
            messages.iter().map(|m| m.0).collect::<Vec<_>>(),
            messages.iter().map(|m| m.1).collect(),
        ] {
            for text in texts {
                word(&mut out, text.len());
                word(&mut out, at);
                at += text.len() + 1;
            }
        }
        for text in messages
            .iter()
            .map(|m| m.0)
            .chain(messages.iter().map(|m| m.1))
        {
            out.extend(text.as_bytes());
            out.push(0);
        }
        out
    }

    const POLISH: &[(&str, &str)] = &[
        (
            "",
            "Content-Type: text/plain; charset=UTF-8\nPlural-Forms: nplurals=3; plural=(n==1 ? 0 : \
             n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);\n",
        ),
        ("a file\0%d files", "plik\0pliki\0plików"),
        ("hello", "cześć"),
        ("untranslated", ""),
    ];

    #[test]
    fn messages_and_plurals_are_found_in_both_byte_orders() {
        for is_big_endian in [false, true] {
            let catalogue = Catalogue::parse(made(POLISH, is_big_endian)).unwrap();
            assert_eq!(catalogue.message(b"hello"), Some("cześć".as_bytes()));
            assert_eq!(catalogue.message(b"bye"), None);
            assert_eq!(catalogue.message(b"untranslated"), None);
            for (n, form) in [
                (1, "plik"),
                (2, "pliki"),
                (5, "plików"),
                (12, "plików"),
                (23, "pliki"),
            ] {
                assert_eq!(catalogue.plural(b"a file", n), Some(form.as_bytes()), "{n}");
            }
        }
        assert_eq!(untranslated(b"one", b"many", 1), b"one");
        assert_eq!(untranslated(b"one", b"many", 0), b"many");
    }

    #[test]
    fn damaged_catalogues_do_no_harm() {
        let good = made(POLISH, false);
        for len in 0..good.len() {
            if let Some(catalogue) = Catalogue::parse(good[..len].to_vec()) {
                catalogue.message(b"hello");
            }
        }
        let mut state = 9u64;
        for _ in 0..20_000 {
            let mut bytes = good.clone();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            if let Some(catalogue) = Catalogue::parse(bytes) {
                catalogue.message(b"hello");
                catalogue.plural(b"a file", state);
            }
        }
    }

    #[test]
    fn catalogues_are_looked_for_from_the_nearest_locale_on() {
        let shown = |locale| {
            candidates(Path::new("/l"), locale, "LC_MESSAGES", "d")
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            shown("de_AT.UTF-8"),
            [
                "/l/de_AT.UTF-8/LC_MESSAGES/d.mo",
                "/l/de_AT/LC_MESSAGES/d.mo",
                "/l/de/LC_MESSAGES/d.mo"
            ]
        );
        assert_eq!(shown("sr@latin")[0], "/l/sr@latin/LC_MESSAGES/d.mo");
        for none in ["C", "POSIX", "C.UTF-8", "", "../x"] {
            assert!(shown(none).is_empty(), "{none}");
        }
    }

    #[test]
    fn files_are_read_from_their_folder() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("pl/LC_MESSAGES");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join("d.mo"), made(POLISH, false)).unwrap();
        let catalogue = load(folder.path(), &["xx", "pl_PL.UTF-8"], "LC_MESSAGES", "d").unwrap();
        assert_eq!(catalogue.message(b"hello"), Some("cześć".as_bytes()));
        assert!(load(folder.path(), &["xx"], "LC_MESSAGES", "d").is_none());
    }
}
