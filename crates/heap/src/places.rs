//! Where the elements with whole numbers for keys lie: a note beside the heap, in memory of the process, so that `a[i]` in a
//! loop costs a look into an array and not a hash, the digits of the key and two lines that are far away. Elements of a
//! table's run ([`crate::run`]) need no notes.
//!
//! Invariant: a place that is noted is the entry of that key in that table. So whoever moves or removes an entry says so, and
//! going back to an earlier state of the heap forgets all.

use crate::cell::integer_of;

/// Tables with notes at a time; a table has its place among them by its offset.
const TABLES: usize = 64;
/// Tables with fewer elements are quick to search anyway.
const ELEMENTS_MIN: u64 = 3;
/// Keys are noted up to so many times the number of elements: so notes take at most 16 bytes an element.
const SPREAD: u64 = 4;
/// Smallest bound of keys.
const KEYS_MIN: u64 = 1024;
/// Entries lie at multiples of this.
const UNIT: u64 = 16;

#[derive(Default)]
struct Notes {
    table: u64,
    /// By key: the entry's offset / [`UNIT`]; 0 where it is not known.
    entries: Vec<u32>,
    /// How often another table would have liked to have this place.
    wanted: u64,
}

/// The tables for which it is known where the next element in the order of insertion lies: see [`crate::sequence`].
const SEQUENCES: usize = 4;

/// See the top of the file.
pub(crate) struct Places {
    tables: Vec<Notes>,
    /// A table and the place behind the entry asked for last; 0 where there is none.
    next: [(u64, u64); SEQUENCES],
    /// Which of them is overwritten next.
    oldest: usize,
}

fn home(table: u64) -> usize {
    (table / crate::layout::TABLE_BYTES) as usize % TABLES
}

impl Places {
    pub(crate) fn new() -> Places {
        Places {
            tables: Vec::new(),
            next: [(0, 0); SEQUENCES],
            oldest: 0,
        }
    }

    /// What [`Places::note_next`] noted of this table last; 0 for nothing.
    #[inline(always)]
    pub(crate) fn next(&self, table: u64) -> u64 {
        let noted = self.next.iter().find(|noted| noted.0 == table);
        noted.map_or(0, |noted| noted.1)
    }

    /// Where the next element of a table may lie.
    #[inline(always)]
    pub(crate) fn note_next(&mut self, table: u64, entry: u64) {
        let known = self.next.iter().position(|noted| noted.0 == table);
        let at = known.unwrap_or_else(|| {
            self.oldest = (self.oldest + 1) % SEQUENCES;
            self.oldest
        });
        self.next[at] = (table, entry);
    }

    fn forget_next(&mut self, table: u64) {
        for noted in &mut self.next {
            if noted.0 == table {
                noted.1 = 0;
            }
        }
    }

    /// The entry of key `n`, if it is known.
    #[inline(always)]
    pub(crate) fn get(&self, table: u64, n: i64) -> Option<u64> {
        let notes = self.tables.get(home(table))?;
        if notes.table != table {
            return None;
        }
        // A negative number is beyond all keys.
        let entry = *notes.entries.get(n as usize)?;
        (entry != 0).then_some(u64::from(entry) * UNIT)
    }

    /// Notes that key `n` of a table with `count` elements has its entry here.
    pub(crate) fn note(&mut self, table: u64, count: u64, n: i64, entry: u64) {
        let bound = (count * SPREAD).max(KEYS_MIN);
        if count < ELEMENTS_MIN || n < 0 || n as u64 >= bound || entry / UNIT > u64::from(u32::MAX)
        {
            return;
        }
        if self.tables.is_empty() {
            self.tables.resize_with(TABLES, Notes::default);
        }
        let notes = &mut self.tables[home(table)];
        if notes.table != table {
            // As often as it had notes: so forgetting them costs next to nothing.
            notes.wanted += 1;
            if notes.wanted <= notes.entries.len() as u64 {
                return;
            }
            *notes = Notes {
                table,
                ..Notes::default()
            };
        }
        let at = n as usize;
        if at >= notes.entries.len() {
            let room = (at + 1).max(notes.entries.len() * 2);
            notes.entries.resize(room.min(bound as usize), 0);
        }
        notes.entries[at] = (entry / UNIT) as u32;
    }

    /// The element with this key is gone, or elsewhere.
    pub(crate) fn forget_key(&mut self, table: u64, key: &[u8]) {
        self.forget_next(table);
        if let Some(notes) = self.tables.get_mut(home(table))
            && notes.table == table
            && let Some(n) = integer_of(key)
            && let Some(entry) = notes.entries.get_mut(n as usize)
        {
            *entry = 0;
        }
    }

    /// All elements of the table are gone.
    pub(crate) fn forget_table(&mut self, table: u64) {
        self.forget_next(table);
        if let Some(notes) = self.tables.get_mut(home(table))
            && notes.table == table
        {
            *notes = Notes::default();
        }
    }

    pub(crate) fn forget_all(&mut self) {
        self.tables.clear();
        self.next = [(0, 0); SEQUENCES];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found_until_it_is_forgotten() {
        let mut places = Places::new();
        let (a, b) = (4096, 4096 + 64 * TABLES as u64);
        assert_eq!(places.get(a, 3), None);
        places.note(a, 100, 3, 160);
        assert_eq!(places.get(a, 3), Some(160));
        for n in [-1, 4, 1_000_000] {
            assert_eq!(places.get(a, n), None);
        }
        places.note(a, 100, 1_000_000, 320);
        assert_eq!(places.get(a, 1_000_000), None, "beyond the bound");
        // Another table with the same home waits until it has asked often.
        places.note(b, 100, 3, 480);
        assert_eq!((places.get(a, 3), places.get(b, 3)), (Some(160), None));
        for _ in 0..10 {
            places.note(b, 100, 3, 480);
        }
        assert_eq!((places.get(a, 3), places.get(b, 3)), (None, Some(480)));
        places.forget_key(b, b"3");
        assert_eq!(places.get(b, 3), None);
        places.note(b, 100, 5, 640);
        places.forget_table(b);
        assert_eq!(places.get(b, 5), None);
    }
}
