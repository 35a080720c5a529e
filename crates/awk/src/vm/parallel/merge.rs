//! Putting together what two processes made of stretches that follow each other.
//!
//! Invariant: before anything is changed it is known that all of it can be put together.

use std::rc::Rc;

use awk_syntax::independence::{Merge, MergeArray};
use awk_syntax::names::Special;
use heap::Cell;

use super::stretches::Stretch;
use super::wire::Left;
use super::{EXACT_BELOW, GaveUp, Vm, is_whole};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::store::value_of;
use crate::value::{ArrayRef, Value, compare};

/// The error for what another process left and this one does not understand: it was not written to its end.
fn torn() -> Fatal {
    Fatal::new("what another process left is not whole")
}

/// The number that a cell is in a sum; none if it holds an array.
fn number(cell: Cell<'_>) -> f64 {
    value_of(cell).map_or(f64::NAN, |value| value.to_num())
}

/// Nothing was ever assigned to it.
fn is_nothing(value: &Value) -> bool {
    matches!(value, Value::Uninit | Value::Unassigned)
}

impl Vm<'_> {
    /// Takes over what was left by the process that read `stretch`, which follows what has been read so far; false if that
    /// would not be what one process gets.
    pub(super) fn put_together(&mut self, bytes: &[u8], stretch: &Stretch) -> Result<bool> {
        let mut left = Left(bytes);
        let mut numbers = [0.0; 6];
        for n in &mut numbers {
            *n = left.f64().ok_or_else(torn)?;
        }
        let [records, fnr, argind, rstart, rlength, volume] = numbers;
        if !self.sums_stay_exact(left.clone(), volume)? {
            if let Some(parallel) = &mut self.parallel {
                parallel.inexact.get_or_insert(GaveUp::Fraction);
            }
            return Ok(false);
        }
        let Some(parallel) = &mut self.parallel else {
            return Ok(false);
        };
        parallel.volume += volume;
        let plan = Rc::clone(&parallel.plan);
        self.settings.nr += records;
        let begun_inside = stretch.start.offset > 0 && argind == stretch.start.operand as f64;
        let counted = begun_inside && !plan.counts_records;
        self.settings.fnr = if counted {
            self.settings.fnr + fnr
        } else {
            fnr
        };
        if plan.matches && !rstart.is_nan() {
            self.settings.set(Special::RSTART, Value::Num(rstart))?;
            self.settings.set(Special::RLENGTH, Value::Num(rlength))?;
        }
        // Who follows an extreme is told by whether that was taken.
        let mut won = Vec::new();
        let mut following = Vec::new();
        for (n, merge) in &plan.scalars {
            let Some(cell) = left.cell().ok_or_else(torn)? else {
                continue;
            };
            let value = value_of(cell)?;
            match merge {
                Merge::Follow(leader) => following.push((*n, *leader, value)),
                merge => {
                    if self.merge_scalar(*n, *merge, value) {
                        won.push(*n);
                    }
                }
            }
        }
        for (n, leader, value) in following {
            if won.contains(&leader) {
                self.globals[n as usize] = value;
            }
        }
        for (n, merge) in &plan.arrays {
            self.merge_array(*n, *merge, &mut left)?;
        }
        self.element = Default::default();
        Ok(true)
    }

    /// Whether the sums so far are whole numbers, and all of them together small enough.
    fn sums_stay_exact(&mut self, mut left: Left<'_>, volume: f64) -> Result<bool> {
        let Some(parallel) = &self.parallel else {
            return Ok(false);
        };
        let plan = Rc::clone(&parallel.plan);
        if volume + parallel.volume >= EXACT_BELOW {
            return Ok(false);
        }
        let filled = parallel.filled.clone();
        for (n, merge) in &plan.scalars {
            let is_set = left.cell().ok_or_else(torn)?.is_some();
            let held = &self.globals[*n as usize];
            if *merge == Merge::Sum && is_set && !is_whole(held.to_num()) {
                return Ok(false);
            }
        }
        for ((n, merge), filled) in plan.arrays.iter().zip(filled) {
            let is_sum = *merge == MergeArray::Elements(Merge::Sum);
            let array = self.store.known_array(Arr(*n)).filter(|_| filled);
            if left.u8().ok_or_else(torn)? == 0 {
                continue;
            }
            for _ in 0..left.u64().ok_or_else(torn)? {
                let key = left.bytes().ok_or_else(torn)?;
                left.cell().ok_or_else(torn)?;
                let Some(array) = array else { continue };
                let heap = self.store.heap_of(array)?;
                let Some(slot) = heap.find(array.table, key)? else {
                    continue;
                };
                let cell = heap.cell(slot)?;
                // An array there is an error, with its place.
                let is_array = matches!(cell, Cell::Table(_));
                if is_array || is_sum && !is_whole(number(cell)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// True if the value was taken.
    fn merge_scalar(&mut self, n: u32, merge: Merge, value: Value) -> bool {
        let held = &self.globals[n as usize];
        let merged = match merge {
            Merge::Sum => Value::Num(held.to_num() + value.to_num()),
            Merge::Append => {
                let mut text = self.settings.text_of(held);
                text.extend_from_slice(value.as_bytes().unwrap_or_default());
                Value::text(&text, false)
            }
            Merge::Extreme { greater, .. } => {
                if !self.is_beyond(&value, &self.globals[n as usize], greater) {
                    return false;
                }
                value
            }
            Merge::Last | Merge::Follow(_) => value,
        };
        self.globals[n as usize] = merged;
        true
    }

    /// Whether a value takes the place of the one held.
    fn is_beyond(&self, value: &Value, held: &Value, greater: bool) -> bool {
        use std::cmp::Ordering::{Greater, Less};
        let is_empty = held.as_bytes().is_some_and(<[u8]>::is_empty);
        if is_nothing(held) || is_empty {
            return true;
        }
        let order = compare(value, held, &self.settings.convfmt, None);
        order == Some(if greater { Greater } else { Less })
    }

    fn merge_array(&mut self, n: u32, merge: MergeArray, left: &mut Left<'_>) -> Result<()> {
        if left.u8().ok_or_else(torn)? == 0 {
            return Ok(());
        }
        let array = self.store.global_array(Arr(n), &self.code.globals)?;
        if merge == MergeArray::Whole {
            self.store.heap_of(array)?.table_clear(array.table)?;
        }
        for _ in 0..left.u64().ok_or_else(torn)? {
            let key = left.bytes().ok_or_else(torn)?;
            let cell = left.cell().ok_or_else(torn)?.ok_or_else(torn)?;
            match merge {
                MergeArray::Elements(merge) => self.merge_element(array, key, merge, cell)?,
                MergeArray::Made => self.make_element(array, key, cell)?,
                MergeArray::Whole => {
                    let slot = self.store.entry(array, key)?;
                    self.store.heap_of(array)?.cell_set(slot, cell)?;
                }
            }
        }
        Ok(())
    }

    /// An element that somebody looked at, if it is not there.
    fn make_element(&mut self, array: ArrayRef, key: &[u8], cell: Cell<'_>) -> Result<()> {
        let heap = self.store.heap_of(array)?;
        let slot = heap.entry(array.table, key)?;
        if heap.cell(slot)? == Cell::Uninit {
            heap.cell_set(slot, cell)?;
        }
        Ok(())
    }

    fn merge_element(
        &mut self,
        array: ArrayRef,
        key: &[u8],
        merge: Merge,
        cell: Cell<'_>,
    ) -> Result<()> {
        let heap = self.store.heap_of(array)?;
        let slot = heap.entry(array.table, key)?;
        match merge {
            Merge::Sum => {
                let sum = number(heap.cell(slot)?) + number(cell);
                if !heap.cell_replace_num(slot, sum)? {
                    heap.cell_set(slot, Cell::Num(sum))?;
                }
            }
            Merge::Append => {
                let held = self.store.get(array, slot)?;
                let mut text = self.settings.text_of(&held);
                if let Cell::Str { bytes, .. } = cell {
                    text.extend_from_slice(bytes);
                }
                let bytes = text.as_slice();
                let cell = Cell::Str {
                    bytes,
                    maybe_num: false,
                };
                self.store.heap_of(array)?.cell_set(slot, cell)?;
            }
            Merge::Extreme { greater, .. } => {
                let value = value_of(cell)?;
                if is_nothing(&value) {
                    return self.make_element(array, key, cell); // it was only looked at
                }
                let held = self.store.get(array, slot)?;
                if self.is_beyond(&value, &held, greater) {
                    self.store.set(array, slot, &value)?;
                }
            }
            Merge::Last | Merge::Follow(_) => heap.cell_set(slot, cell)?,
        }
        Ok(())
    }
}
