//! Looks at records ahead of the current one: where the rules look into a large array with a field as the key, the memory that
//! they will touch is fetched while earlier records are worked on.
//!
//! Invariant: no effect but on time. What is guessed wrong (FS changes, the array is another) is fetched in vain.

use heap::{Fetched, Slot};

use crate::code::Arr;
use crate::error::Step as Result;
use crate::record::Field;
use crate::records::Separator;
use crate::settings::Notation;
use crate::value::ArrayRef;
use crate::vm::Vm;

/// How many records ahead the index, the entry and a long key are fetched.
const FIRST: usize = 12;
const SECOND: usize = 8;
const THIRD: usize = 4;
/// Hashes that are kept: a power of two, more than `FIRST`.
const KEPT: usize = 16;
/// The same for fields of one record.
const FIELDS_FIRST: usize = 4;
const FIELDS_SECOND: usize = 2;
const FIELDS_KEPT: usize = 8;
/// An array with fewer elements lies in the processor's caches.
const ELEMENTS_MIN: u64 = 20_000;
/// So often, in records, the arrays are looked at again.
const AGAIN: u32 = 1 << 14;

/// See the top of the file.
#[derive(Default)]
pub(in crate::vm) struct LookAhead {
    /// Records until the arrays are looked at again.
    left: u32,
    /// It is worth it.
    is_on: bool,
    /// The record's number, and the keys of those ahead by their number modulo [`KEPT`], for each array.
    at: usize,
    fetched: [[Fetched; KEPT]; 4],
    /// Fields by their number, modulo [`FIELDS_KEPT`].
    fields: [Fetched; FIELDS_KEPT],
}

impl Vm<'_> {
    /// A record was read for the rules.
    #[inline]
    pub(super) fn look_ahead(&mut self) {
        if self.code.looked_up.is_empty() {
            return;
        }
        if self.ahead.left == 0 {
            self.judge_ahead();
        }
        self.ahead.left -= 1;
        if self.ahead.is_on {
            self.fetch_ahead();
        }
    }

    /// The element of `array`, which the rules look into first of all, at a field of the record as the key.
    #[inline]
    pub(in crate::vm) fn entry_ahead(
        &mut self,
        array: ArrayRef,
        field: u32,
    ) -> Result<Option<Slot>> {
        if !self.ahead.is_on || array.scratch || self.code.looked_up[0].1 != field {
            return Ok(None);
        }
        let fetched = &self.ahead.fetched[0][self.ahead.at % KEPT];
        match self.record.get(field as usize, &self.settings) {
            Field::Text(key) => Ok(Some(self.store.main.entry_fetched(
                array.table,
                key,
                fetched,
            )?)),
            _ => Ok(None),
        }
    }

    /// Field `n` is a key of `array`: its neighbours are likely to be the next.
    #[inline]
    pub(in crate::vm) fn look_ahead_in_record(&mut self, array: Arr, n: usize) {
        let Some(array) = self.store.known_array(array).filter(|a| !a.scratch) else {
            return;
        };
        let heap = &self.store.main;
        if !heap.is_table_large(array.table, ELEMENTS_MIN) {
            return;
        }
        let fetched = &mut self.ahead.fields;
        if let Some(key) = self.record.cut_field(n + FIELDS_FIRST) {
            fetched[(n + FIELDS_FIRST) % FIELDS_KEPT] = heap.fetch(array.table, key);
        }
        heap.fetch_entry(&fetched[(n + FIELDS_SECOND) % FIELDS_KEPT]);
    }

    /// Whether an array is so large that it is worth it.
    #[cold]
    fn judge_ahead(&mut self) {
        let is_large = |(array, _): &(Arr, u32)| {
            let array = self.store.known_array(*array)?;
            let count = self.store.main.table_len(array.table).ok()?;
            (!array.scratch && count >= ELEMENTS_MIN).then_some(())
        };
        let plain = self.record.notation == Notation::Plain
            && matches!(*self.settings.separator, Separator::Byte(_));
        self.ahead.is_on = plain
            && self
                .code
                .looked_up
                .iter()
                .any(|pair| is_large(pair).is_some());
        self.ahead.left = AGAIN;
    }

    fn fetch_ahead(&mut self) {
        let Some(reader) = &mut self.record.reader else {
            return;
        };
        let at = self.ahead.at + 1;
        self.ahead.at = at;
        let line = reader.line_ahead(FIRST);
        let heap = &self.store.main;
        let looked_up = self.code.looked_up.iter().zip(&mut self.ahead.fetched);
        for ((array, field), fetched) in looked_up {
            let Some(array) = self.store.known_array(*array).filter(|a| !a.scratch) else {
                continue;
            };
            let key = line.and_then(|line| self.settings.splitter.glance(line, *field));
            if let Some(key) = key {
                fetched[(at + FIRST) % KEPT] = heap.fetch(array.table, key);
            }
            heap.fetch_entry(&fetched[(at + SECOND) % KEPT]);
            heap.fetch_text(&fetched[(at + THIRD) % KEPT]);
        }
    }
}
