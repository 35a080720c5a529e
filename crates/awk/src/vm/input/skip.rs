//! Records that no rule can select are passed over together: where every rule begins with a regular expression, and each
//! match of it contains a literal, the reader's buffer is searched for that, and not each record for a match. Of several literals
//! the one is searched that has passed over most: which is rare depends on the data.
//!
//! Invariant: a record that is passed over matches no rule; it counts in NR and FNR; the last record of the buffer is never
//! passed over, so that END finds the last one of all in `$0`.

use crate::records::Separator;
use crate::vm::Vm;

/// Searches for each literal before one is chosen, and for that one before all are tried again.
const TRIAL: u32 = 32;
const TERM: u32 = 4096;
/// For so many records nothing is searched if no literal has passed over a record with every second search.
const REST: u32 = 500;

/// How worthwhile it has been.
#[derive(Default)]
pub(in crate::vm) struct Skip {
    rest: u32,
    /// Which literal is searched, how often, and how many records that has passed over.
    at: usize,
    searches: u32,
    passed: u64,
    is_chosen: bool,
    /// The best of those that have been tried.
    best: (u64, usize),
}

impl Skip {
    fn note(&mut self, passed: u64, literals: usize) {
        self.searches += 1;
        self.passed += passed;
        if self.searches < if self.is_chosen { TERM } else { TRIAL } {
            return;
        }
        let (searches, passed) = (self.searches, self.passed);
        (self.searches, self.passed) = (0, 0);
        if self.is_chosen {
            let pays = passed * 2 >= u64::from(searches);
            if literals > 1 || !pays {
                *self = Skip::default();
            }
            return;
        }
        if passed > self.best.0 {
            self.best = (passed, self.at);
        }
        self.at += 1;
        if self.at == literals {
            (self.at, self.is_chosen) = (self.best.1, true);
            if self.best.0 * 2 < u64::from(searches) {
                *self = Skip {
                    rest: REST,
                    ..Skip::default()
                };
            }
        }
    }
}

impl Vm<'_> {
    /// Before the next record is read for the rules.
    #[inline]
    pub(super) fn pass_over(&mut self) {
        if !self.code.required.is_empty() {
            self.pass_over_lacking();
        }
    }

    fn pass_over_lacking(&mut self) {
        if self.skip.rest > 0 {
            self.skip.rest -= 1;
            return;
        }
        let Separator::Byte(end) = *self.settings.separator else {
            return;
        };
        let required = &self.code.required;
        let finder = &required[self.skip.at];
        let every_record_counts = self.resume.is_some()
            || self.json.is_some()
            || self.watch.is_some()
            || self.settings.folded().is_some();
        if every_record_counts || !self.input.open {
            return;
        }
        let Some(reader) = &mut self.record.reader else {
            return;
        };
        let passed = if finder.needle().contains(&end) {
            0
        } else {
            reader.pass_over(end, finder)
        };
        self.since_commit += passed;
        self.settings.nr += passed as f64;
        self.settings.fnr += passed as f64;
        self.skip.note(passed, required.len());
    }
}
