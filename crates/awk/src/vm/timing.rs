//! Time of day, and texts in other languages.
//!
//! Invariant: the time zone is that of TZ as commands would see it, so that an assignment to `ENVIRON["TZ"]` counts.

use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use awk_syntax::names::{Builtin, Special};

use super::Vm;
use crate::code::Arr;
use crate::error::Step as Result;
use crate::gettext::{self, Catalogue};
use crate::locale::Dates;
use crate::time::{self, Zone};
use crate::value::Value;

/// What `strftime` does without a format.
pub(super) const DEFAULT_FORMAT: &str = "%a %b %e %H:%M:%S %Z %Y";

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs() as f64)
}

/// Where translations are if `bindtextdomain` does not say.
const DEFAULT_FOLDER: &str = "/usr/share/locale";

/// What is known of texts in other languages.
#[derive(Default)]
pub(super) struct Translations {
    /// Folders by text domain.
    folders: HashMap<Vec<u8>, Vec<u8>>,
    /// Catalogues by text domain and category; `None`: there is none.
    catalogues: HashMap<(Vec<u8>, Vec<u8>), Option<Catalogue>>,
}

impl Vm<'_> {
    /// `systime`, `strftime`, `mktime`.
    pub(super) fn time_function(&mut self, which: Builtin, args: &[Value]) -> Result<Value> {
        let in_utc = |at: usize| args.get(at).is_some_and(Value::truth);
        Ok(match which {
            Builtin::Systime => Value::Num(now()),
            Builtin::Mktime => {
                let date = self.settings.text_of(&args[0]);
                let zone = self.zone()?;
                Value::Num(zone.mktime(&date, in_utc(1)) as f64)
            }
            _ => {
                let format = match args.first() {
                    Some(format) => self.settings.text_of(format),
                    None => match self.procinfo(b"strftime")? {
                        Some(format) => self.settings.text_of(&format),
                        None => DEFAULT_FORMAT.into(),
                    },
                };
                let moment = args.get(1).map_or_else(now, Value::to_num);
                let mut out = Vec::new();
                let dates = self.settings.dates.clone();
                let zone = self.zone()?;
                let civil = time::timestamp_from(moment).and_then(|seconds| {
                    if in_utc(2) {
                        time::utc(seconds)
                    } else {
                        zone.local(seconds)
                    }
                });
                if let Some(civil) = civil {
                    time::strftime(&format, &civil, zone, dates.get(), &mut out);
                }
                Value::text(&out, false)
            }
        })
    }

    /// Date and time as C's `ctime` has them, for people.
    pub(crate) fn date_text(&mut self) -> String {
        let mut out = Vec::new();
        if let Ok(zone) = self.zone()
            && let Some(civil) = time::timestamp_from(now()).and_then(|now| zone.local(now))
        {
            time::strftime(b"%c", &civil, zone, &Dates::default(), &mut out);
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// A variable of the environment as commands would get it.
    pub(super) fn environment(&mut self, name: &[u8]) -> Result<Option<Vec<u8>>> {
        if !self.code.uses(Special::ENVIRON) {
            let name = std::ffi::OsString::from_vec(name.to_vec());
            return Ok(std::env::var_os(name).map(OsStringExt::into_vec));
        }
        let array = self.array(Arr::ENVIRON)?;
        match self.store.heap_of(array)?.find(array.table, name)? {
            Some(slot) => {
                let value = self.store.get(array, slot)?;
                Ok(Some(self.settings.text_of(&value)))
            }
            None => Ok(None),
        }
    }

    /// The time zone, read anew when TZ has changed.
    pub(super) fn zone(&mut self) -> Result<&Zone> {
        let tz = self.environment(b"TZ")?;
        if self.zone.as_ref().is_none_or(|(known, _)| *known != tz) {
            let folder = std::env::var_os("TZDIR").map(std::path::PathBuf::from);
            let zone = Zone::from_tz(tz.as_deref(), folder.as_deref());
            self.zone = Some((tz, zone));
        }
        Ok(&self.zone.as_ref().expect("set above").1)
    }

    /// `bindtextdomain`, `dcgettext`, `dcngettext`.
    pub(super) fn translation(&mut self, which: Builtin, args: &[Value]) -> Result<Value> {
        let text = |vm: &Self, at: usize| args.get(at).map(|value| vm.settings.text_of(value));
        let own_domain = |vm: &Self| vm.settings.text_of(&vm.settings.get(Special::TEXTDOMAIN));
        if which == Builtin::Bindtextdomain {
            let folder = text(self, 0).unwrap_or_default();
            let domain = text(self, 1).unwrap_or_else(|| own_domain(self));
            if !folder.is_empty() {
                self.translations.folders.insert(domain.clone(), folder);
                self.translations.catalogues.clear();
            }
            let bound = self.translations.folders.get(&domain);
            return Ok(Value::text(bound.map_or(b"", Vec::as_slice), false));
        }
        let plural = which == Builtin::Dcngettext;
        let rest = if plural { 3 } else { 1 };
        let domain = text(self, rest).unwrap_or_else(|| own_domain(self));
        let category = text(self, rest + 1).unwrap_or_else(|| b"LC_MESSAGES".to_vec());
        let original = text(self, 0).unwrap_or_default();
        let count = if plural {
            args[2].to_num().clamp(0.0, 1e18) as u64
        } else {
            1
        };
        let catalogue = self.catalogue(&domain, &category)?;
        let found = match (catalogue, plural) {
            (Some(catalogue), false) => catalogue.message(&original),
            (Some(catalogue), true) => catalogue.plural(&original, count),
            (None, _) => None,
        };
        let found = found.map(<[u8]>::to_vec);
        Ok(match found {
            Some(translated) => Value::text(&translated, false),
            None if plural => {
                let other = text(self, 1).unwrap_or_default();
                Value::text(gettext::untranslated(&original, &other, count), false)
            }
            None => Value::text(&original, false),
        })
    }

    /// The catalogue of a text domain for the locale of the environment, read when it is first wanted.
    fn catalogue(&mut self, domain: &[u8], category: &[u8]) -> Result<Option<&Catalogue>> {
        let key = (domain.to_vec(), category.to_vec());
        if !self.translations.catalogues.contains_key(&key) {
            let words = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let mut locale = Vec::new();
            for name in [&b"LC_ALL"[..], category, b"LANG"] {
                if let Some(text) = self.environment(name)?.filter(|text| !text.is_empty()) {
                    locale = text;
                    break;
                }
            }
            let locale = words(&locale);
            let is_c = matches!(locale.as_str(), "" | "C" | "POSIX") || locale.starts_with("C.");
            let mut locales = vec![locale];
            if !is_c && let Some(list) = self.environment(b"LANGUAGE")? {
                let list = words(&list);
                let wanted: Vec<String> = list
                    .split(':')
                    .filter(|name| !name.is_empty())
                    .map(str::to_string)
                    .collect();
                locales.splice(..0, wanted);
            }
            let locales: Vec<&str> = locales.iter().map(String::as_str).collect();
            let folder = self.translations.folders.get(domain);
            let folder = folder.map_or(DEFAULT_FOLDER.into(), |folder| words(folder));
            let (domain, category) = (words(domain), words(category));
            let found = gettext::load(Path::new(&folder), &locales, &category, &domain);
            self.translations.catalogues.insert(key.clone(), found);
        }
        let found = self.translations.catalogues.get(&key);
        Ok(found.and_then(Option::as_ref))
    }
}
