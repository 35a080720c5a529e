//! Time of day, and texts in other languages.
//!
//! Invariant: the time zone is that of TZ as commands would see it, so that an assignment to `ENVIRON["TZ"]` counts.

use std::os::unix::ffi::OsStringExt;
use std::time::{SystemTime, UNIX_EPOCH};

use awk_syntax::names::{Builtin, Special};

use super::Vm;
use crate::code::Arr;
use crate::error::Step as Result;
use crate::time::{self, Zone};
use crate::value::Value;

/// What `strftime` does without a format.
pub(super) const DEFAULT_FORMAT: &str = "%a %b %e %H:%M:%S %Z %Y";

/// Seconds since 1970.
pub(super) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs() as f64)
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
                let zone = self.zone()?;
                let civil = time::timestamp_from(moment).and_then(|seconds| {
                    if in_utc(2) {
                        time::utc(seconds)
                    } else {
                        zone.local(seconds)
                    }
                });
                if let Some(civil) = civil {
                    time::strftime(&format, &civil, zone, &mut out);
                }
                Value::text(&out, false)
            }
        })
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
        let domain = |vm: &Self, at: usize| match args.get(at) {
            Some(value) => vm.settings.text_of(value),
            None => vm.settings.text_of(&vm.settings.get(Special::TEXTDOMAIN)),
        };
        Ok(match which {
            Builtin::Bindtextdomain => {
                let folder = self.settings.text_of(&args[0]);
                let domain = domain(self, 1);
                if !folder.is_empty() {
                    self.text_folders.insert(domain, folder.clone());
                }
                Value::text(&folder, false)
            }
            Builtin::Dcngettext if args[2].to_num() != 1.0 => {
                Value::text(&self.settings.text_of(&args[1]), false)
            }
            _ => Value::text(&self.settings.text_of(&args[0]), false),
        })
    }
}
