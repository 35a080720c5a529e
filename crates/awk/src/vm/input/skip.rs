//! Records that no rule can select are passed over together: where every rule begins with a regular expression, and each
//! match of it contains a literal, the reader's buffer is searched for that, and not each record for a match.
//!
//! Invariant: a record that is passed over matches no rule; it counts in NR and FNR; the last record of the buffer is never
//! passed over, so that END finds the last one of all in `$0`.

use crate::records::Separator;
use crate::vm::Vm;

/// Searches in a row that may pass nothing over before the search rests, and for how many records.
const IDLE_MAX: u32 = 16;
const REST: u32 = 500;

/// How worthwhile it has been.
#[derive(Default)]
pub(in crate::vm) struct Skip {
    idle: u32,
    rest: u32,
}

impl Vm<'_> {
    /// Before the next record is read for the rules.
    #[inline]
    pub(super) fn pass_over(&mut self) {
        if self.code.required.is_some() {
            self.pass_over_lacking();
        }
    }

    fn pass_over_lacking(&mut self) {
        if self.skip.rest > 0 {
            self.skip.rest -= 1;
            return;
        }
        let (Some(finder), Separator::Byte(end)) = (&self.code.required, &*self.settings.separator)
        else {
            return;
        };
        let every_record_counts = self.resume.is_some()
            || self.json.is_some()
            || self.watch.is_some()
            || self.settings.folded().is_some()
            || finder.needle().contains(end);
        if every_record_counts || !self.input.open {
            return;
        }
        let Some(reader) = &mut self.record.reader else {
            return;
        };
        let passed = reader.pass_over(*end, finder);
        self.since_commit += passed;
        self.settings.nr += passed as f64;
        self.settings.fnr += passed as f64;
        self.skip.idle = if passed == 0 { self.skip.idle + 1 } else { 0 };
        if self.skip.idle > IDLE_MAX {
            self.skip = Skip {
                idle: 0,
                rest: REST,
            };
        }
    }
}
