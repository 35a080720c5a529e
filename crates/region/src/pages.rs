//! Small collections of pages: what is noted of some, and sets of many.
//!
//! The invariant: noting costs the same whatever was noted before. Order is made when it is asked for.

/// A number for each of some pages, of which the same page is noted again and again.
pub(crate) struct PageNotes {
    /// The first `ordered` are in ascending order, a page each; the rest as they came.
    entries: Vec<(u64, u64)>,
    ordered: usize,
    /// What two notes of a page come to, the earlier first.
    join: fn(u64, u64) -> u64,
}

/// Fewer than this are left as they came.
const UNORDERED_MIN: usize = 1024;

impl PageNotes {
    /// Where a later note replaces the earlier.
    pub(crate) fn of_last() -> PageNotes {
        PageNotes::new(|_, later| later)
    }

    /// Where the notes are masks, and what is in either counts.
    pub(crate) fn of_masks() -> PageNotes {
        PageNotes::new(|earlier, later| earlier | later)
    }

    fn new(join: fn(u64, u64) -> u64) -> PageNotes {
        PageNotes {
            entries: Vec::new(),
            ordered: 0,
            join,
        }
    }

    pub(crate) fn extend(&mut self, notes: impl IntoIterator<Item = (u64, u64)>) {
        self.entries.extend(notes);
        if self.entries.len() > 2 * self.ordered + UNORDERED_MIN {
            self.order();
        }
    }

    fn order(&mut self) {
        if self.ordered == self.entries.len() {
            return;
        }
        let join = self.join;
        self.entries.sort_by_key(|&(page, _)| page); // stable: later notes behind earlier ones
        self.entries.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = join(earlier.1, later.1);
            }
            is_same
        });
        self.ordered = self.entries.len();
    }

    /// An upper bound of how many pages there are; at most twice as many, but for the first thousand.
    pub(crate) fn len_max(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.ordered = 0;
    }

    /// In ascending order, each page once.
    pub(crate) fn in_order(&mut self) -> &[(u64, u64)] {
        self.order();
        &self.entries
    }

    pub(crate) fn of(&mut self, page: u64) -> Option<u64> {
        let entries = self.in_order();
        let at = entries.binary_search_by_key(&page, |entry| entry.0).ok()?;
        Some(entries[at].1)
    }

    /// Whether there is any of these pages.
    pub(crate) fn has_any(&mut self, pages: std::ops::Range<u64>) -> bool {
        let entries = self.in_order();
        let first = entries.partition_point(|entry| entry.0 < pages.start);
        entries.get(first).is_some_and(|entry| entry.0 < pages.end)
    }
}

/// A set of pages, a bit each up to the last one that was ever in it.
#[derive(Default)]
pub(crate) struct PageSet {
    bits: Vec<u64>,
    len: u64,
}

impl PageSet {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn insert(&mut self, page: u64) {
        let index = (page / 64) as usize;
        if index >= self.bits.len() {
            self.bits.resize((index + 1).next_power_of_two(), 0);
        }
        let bit = 1 << (page % 64);
        self.len += u64::from(self.bits[index] & bit == 0);
        self.bits[index] |= bit;
    }

    pub(crate) fn remove(&mut self, page: u64) {
        let Some(word) = self.bits.get_mut((page / 64) as usize) else {
            return;
        };
        let bit = 1 << (page % 64);
        self.len -= u64::from(*word & bit != 0);
        *word &= !bit;
    }

    /// The first one from `page` on.
    pub(crate) fn next_from(&self, page: u64) -> Option<u64> {
        let first = (page / 64) as usize;
        let mut word = self.bits.get(first)? & (u64::MAX << (page % 64));
        let mut rest = self.bits.iter().enumerate().skip(first + 1);
        let mut index = first;
        while word == 0 {
            (index, word) = rest.next().map(|(index, &word)| (index, word))?;
        }
        Some(index as u64 * 64 + u64::from(word.trailing_zeros()))
    }

    pub(crate) fn clear(&mut self) {
        *self = PageSet::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    #[test]
    fn notes_are_what_a_map_would_have() {
        let mut notes = [PageNotes::of_last(), PageNotes::of_masks()];
        let mut models = [BTreeMap::new(), BTreeMap::new()];
        let mut state = 7_u64;
        for step in 0..20_000_u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let (page, value) = (state >> 40 & 0xFFF, state >> 8 & 0xFF);
            notes[0].extend([(page, value)]);
            notes[1].extend([(page, value)]);
            models[0].insert(page, value);
            *models[1].entry(page).or_insert(0) |= value;
            if step % 977 == 0 {
                let asked = state >> 20 & 0xFFF;
                for (notes, model) in notes.iter_mut().zip(&models) {
                    assert_eq!(notes.of(asked), model.get(&asked).copied());
                    let some = asked..asked + 3;
                    assert_eq!(
                        notes.has_any(some.clone()),
                        model.range(some).next().is_some()
                    );
                }
            }
        }
        for (notes, model) in notes.iter_mut().zip(&models) {
            assert!(notes.len_max() >= model.len());
            let expected: Vec<_> = model.iter().map(|(&page, &note)| (page, note)).collect();
            assert_eq!(notes.in_order(), expected);
            notes.clear();
            assert!(notes.is_empty() && notes.of(1).is_none());
        }
    }

    #[test]
    fn a_set_is_a_set() {
        let mut set = PageSet::default();
        let mut model = BTreeSet::new();
        assert_eq!(set.next_from(0), None);
        let mut state = 5_u64;
        for _ in 0..5000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let page = state >> 33 & 0x7FF;
            if state >> 60 < 5 {
                set.remove(page);
                model.remove(&page);
            } else {
                set.insert(page);
                model.insert(page);
            }
            assert_eq!(set.len(), model.len() as u64);
            let from = state >> 20 & 0xFFF;
            assert_eq!(set.next_from(from), model.range(from..).next().copied());
        }
    }
}
