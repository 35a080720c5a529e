//! What a working copy that a program stores to by address holds in memory of the process' own, which the kernel cannot take back: copies
//! of the heap file's pages that were stored to, and growth that was committed and stays where it was made.
//!
//! The invariant: a page in [`Private::grown`] is anonymous memory, and any other committed one a private mapping of the heap file. Of
//! either kind there is at most about half of the budget, unless something waits to be brought to the heap file.

use crate::backing::Backing;
use crate::budget::{ASKED_FROM_BYTES, Budget};
use crate::cards::DirtyPage;
use crate::layout::PAGE_BYTES;
use crate::map::Map;
use crate::pages::PageSet;
use crate::{DATA_START, Result};
use std::io;
use std::ops::Range;

pub(crate) struct Private {
    budget: Budget,
    /// Growth that stays as it was made, perhaps in huge pages: mapped from the file, each page of it would fault and be copied when
    /// it is stored to again, and be looked up singly when it is read (an update took 0.2 us more for the one, a read for the other; 2026-11).
    grown: Range<u64>,
    /// Which other pages were stored to since they were mapped.
    stored: PageSet,
}

impl Private {
    /// With a budget of so many bytes, or what the machine has room for.
    pub(crate) fn new(budget_bytes: Option<u64>) -> Private {
        Private {
            budget: Budget::new(budget_bytes),
            grown: 0..0,
            stored: PageSet::default(),
        }
    }

    /// Whether so many bytes are within half of the budget.
    fn allows(&mut self, bytes: u64) -> bool {
        bytes <= ASKED_FROM_BYTES.min(self.budget.granted()) / 2 || bytes <= self.budget.ask() / 2
    }

    pub(crate) fn grown(&self) -> &Range<u64> {
        &self.grown
    }

    /// Whether fresh space that was committed is to stay as it is; then it does.
    pub(crate) fn keep_growth(&mut self, fresh: &Range<u64>) -> bool {
        let start = match &self.grown {
            grown if grown.is_empty() => fresh.start,
            grown if grown.end == fresh.start => grown.start,
            _ => return false,
        };
        let kept = self.allows(fresh.end - start);
        if kept {
            self.grown = start..fresh.end;
        }
        kept
    }

    /// These pages were stored to and are committed.
    pub(crate) fn note_stored(&mut self, dirty: &[DirtyPage]) {
        for &DirtyPage { page, .. } in dirty {
            if !self.grown.contains(&(page * PAGE_BYTES)) {
                self.stored.insert(page);
            }
        }
    }

    /// Whether there are more copies of pages than are worth keeping.
    pub(crate) fn has_many(&mut self) -> bool {
        !self.allows(self.stored.len() * PAGE_BYTES)
    }

    /// Drops copies of pages below `end` but for those in `kept`, which are in ascending order: the heap file must hold the same. With `all`,
    /// growth too.
    pub(crate) fn give_back(
        &mut self,
        map: &mut Map,
        backing: &mut Backing,
        kept: &[DirtyPage],
        end: u64,
        all: bool,
    ) -> Result<()> {
        let Some(file) = backing.heap.mappable() else {
            return Ok(());
        };
        let from = backing.heap.mapped_from();
        let grown = self.grown.clone();
        let is_grown = |page: &&DirtyPage| grown.contains(&(page.page * PAGE_BYTES));
        let mut given = Ok(());
        if all && !grown.is_empty() {
            let range = |page: &DirtyPage| page.page * PAGE_BYTES..(page.page + 1) * PAGE_BYTES;
            let slice = |page: &DirtyPage| map.slice(range(page).start, range(page).end).to_vec();
            let copies: Vec<Vec<u8>> = kept.iter().filter(is_grown).map(slice).collect();
            given = map.map_private(file, from, grown.start, grown.end);
            if given.is_ok() {
                for (page, copy) in kept.iter().filter(is_grown).zip(copies) {
                    let range = range(page);
                    map.slice_mut(range.start, range.end).copy_from_slice(&copy);
                }
                self.grown = 0..0;
            }
        }
        let mut start = DATA_START;
        let stops = kept.iter().map(|dirty| dirty.page * PAGE_BYTES);
        for stop in stops.chain([end]) {
            for part in without(start..stop, &self.grown) {
                given = given.and_then(|()| map.drop_pages(part.start, part.end));
            }
            start = stop + PAGE_BYTES;
        }
        backing.poison_on_error("drop private pages", given)?;
        self.stored.clear();
        self.note_stored(kept);
        Ok(())
    }
}

/// What of `range` is not in `hole`.
pub(crate) fn without(range: Range<u64>, hole: &Range<u64>) -> [Range<u64>; 2] {
    let (start, end) = (range.start, range.end.max(range.start));
    if hole.is_empty() {
        return [start..end, end..end];
    }
    let before = hole.start.clamp(start, end);
    let behind = hole.end.clamp(start, end);
    [start..before, behind..end]
}

/// Reads what of `range` is in `grown` from the heap file: dropped, it would be zeros.
pub(crate) fn read_again(
    map: &mut Map,
    backing: &Backing,
    range: Range<u64>,
    grown: &Range<u64>,
) -> io::Result<()> {
    let part = match backing.heap.mappable() {
        None => range,
        Some(_) => range.start.max(grown.start)..range.end.min(grown.end),
    };
    if part.is_empty() {
        return Ok(());
    }
    let bytes = map.slice_mut(part.start, part.end);
    backing.heap.read_at(bytes, part.start)
}
