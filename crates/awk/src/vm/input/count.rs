//! What is only counted: records in which the rules do nothing but `n[$k]++`, and the fields of a record in
//! `for (i = 1; i <= NF; i++) n[$i]++`. Many keys are taken together, in a few passes over them, so that the memory of all
//! their elements is on its way at once, and none waits for another.
//!
//! Invariant: afterwards all is as if the machine had counted them one by one. What is not plain, or goes wrong, is left to the
//! machine, which comes to it next.

use heap::{Fetched, Heap, Table};

use crate::code::{Arr, KeyCase};
use crate::error::Step as Result;
use crate::fields::Splitter;
use crate::settings::Notation;
use crate::store::num_in;
use crate::value::Value;
use crate::vm::Vm;

/// Keys at a time: not many more than the processor fetches at once.
const KEYS: usize = 32;
/// Records of so many bytes are an error, which the machine tells.
const TOO_LONG: usize = u32::MAX as usize;

/// Keys by their places in a text, and what is known of their elements.
pub(in crate::vm) struct Batch {
    places: [(usize, usize); KEYS],
    fetched: [Fetched; KEYS],
    count: usize,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch {
            places: [(0, 0); KEYS],
            fetched: [Fetched::default(); KEYS],
            count: 0,
        }
    }
}

impl Batch {
    /// Adds the key at `at..at + len` of `text`; there must be room.
    #[inline(always)]
    fn add(&mut self, heap: &Heap, t: Table, text: &[u8], at: usize, len: usize) {
        self.places[self.count] = (at, len);
        self.fetched[self.count] = heap.fetch_within(t, text, at, len);
        self.count += 1;
    }

    /// Adds `delta` to the elements of the keys, and forgets them; how many went well before one did not.
    #[inline]
    fn apply(&mut self, heap: &mut Heap, t: Table, text: &[u8], delta: f64) -> usize {
        let count = std::mem::take(&mut self.count);
        for fetched in &mut self.fetched[..count] {
            heap.find_ahead(fetched);
        }
        for fetched in &self.fetched[..count] {
            heap.fetch_text_ahead(fetched);
        }
        let keys = self.places[..count].iter().zip(&self.fetched);
        for (done, (&(at, len), fetched)) in keys.enumerate() {
            let Ok(slot) = heap.entry_of_fetched(t, &text[at..at + len], fetched) else {
                return done;
            };
            let is_done = match heap.cell_num(slot) {
                Some(n) => heap.cell_replace_num(slot, n + delta).is_ok(),
                None => {
                    num_in(heap, slot).is_ok_and(|n| heap.cell_set_num(slot, n + delta).is_ok())
                }
            };
            if !is_done {
                return done;
            }
        }
        count
    }
}

/// Where a field of the line at `start..end` lies, and its length, if that is seen at a glance.
#[inline(always)]
pub(super) fn field_of_line(
    splitter: &Splitter,
    text: &[u8],
    start: usize,
    end: usize,
    field: u32,
) -> Option<(usize, usize)> {
    match end - start {
        0..TOO_LONG => splitter.glance_at(text, start, end, field),
        _ => None,
    }
}

impl Vm<'_> {
    /// Counts records that lie ready.
    #[inline]
    pub(in crate::vm) fn count_records(
        &mut self,
        array: Arr,
        field: u32,
        delta: f64,
    ) -> Result<()> {
        if let Some(byte) = self.byte_of_lines() {
            while self.count_lines(byte, array, field, delta)? {}
        }
        Ok(())
    }

    /// Counts some; false if there may be none that can be counted so.
    fn count_lines(&mut self, byte: u8, array: Arr, field: u32, delta: f64) -> Result<bool> {
        // An array that nothing has been counted in yet is made by the machine.
        let (Some(table), Some(reader)) = (self.table_of(array), &mut self.record.reader) else {
            return Ok(false);
        };
        let heap = &mut self.store.main;
        let splitter = &self.settings.splitter;
        let (text, mut start, ends) = reader.ready_lines(byte);
        for &end in ends.iter().take(KEYS) {
            let Some((at, len)) = field_of_line(splitter, text, start, end, field) else {
                break;
            };
            self.batch.add(heap, table, text, at, len);
            start = end + 1;
        }
        let wanted = ends.len().min(KEYS);
        let count = self.batch.apply(heap, table, text, delta);
        if count == 0 {
            return Ok(false);
        }
        self.take_lines(count)?;
        Ok(count == wanted)
    }

    /// What ends a record, if the next ones may be taken many at a time.
    #[inline]
    pub(super) fn byte_of_lines(&self) -> Option<u8> {
        let is_plain = self.record.notation == Notation::Plain;
        self.settings.plain_lines.filter(|_| is_plain)
    }

    /// `count` of the lines that lie ready, at least one, are done with: the last one is `$0`.
    #[inline]
    pub(super) fn take_lines(&mut self, count: usize) -> Result<()> {
        let Some(reader) = &mut self.record.reader else {
            return Ok(());
        };
        let last = reader.give_lines(count);
        self.settings.nr += count as f64;
        self.settings.fnr += count as f64;
        self.record.set_read(last, &self.settings)
    }

    /// The table of a global array that is there.
    fn table_of(&self, array: Arr) -> Option<Table> {
        let array = self.store.known_array(array)?;
        (!array.scratch).then_some(array.table)
    }

    /// Counts the fields from the one on whose number global `var` has, as the loop that follows would.
    pub(in crate::vm) fn count_fields(&mut self, array: Arr, var: u32, case: KeyCase, delta: f64) {
        let (Some(table), &Value::Num(first)) = (self.table_of(array), &self.globals[var as usize])
        else {
            return;
        };
        let Some((record, spans)) = self.record.cut_places() else {
            return;
        };
        let from = first as usize;
        if from as f64 != first || from == 0 || from > spans.len() {
            return;
        }
        let text = match case {
            KeyCase::AsItIs => record,
            // Where letters are of more than one byte, the machine knows them.
            _ if !record.is_ascii() => return,
            case => {
                self.scratch.clear();
                self.scratch.extend_from_slice(record);
                match case {
                    KeyCase::Upper => self.scratch.make_ascii_uppercase(),
                    _ => self.scratch.make_ascii_lowercase(),
                }
                &self.scratch
            }
        };
        let mut next = from;
        for spans in spans[from - 1..].chunks(KEYS) {
            for &(start, end) in spans {
                let (at, len) = (start as usize, (end - start) as usize);
                self.batch.add(&self.store.main, table, text, at, len);
            }
            let count = self.batch.apply(&mut self.store.main, table, text, delta);
            next += count;
            if count < spans.len() {
                break;
            }
        }
        self.globals[var as usize] = Value::Num(next as f64);
    }
}
