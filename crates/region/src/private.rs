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
    /// Pages of it that were blank when they were committed.
    blank: u64,
    /// Which other pages were stored to since they were mapped.
    stored: PageSet,
}

impl Private {
    /// With a budget of so many bytes, or what the machine has room for.
    pub(crate) fn new(budget_bytes: Option<u64>) -> Private {
        Private {
            budget: Budget::new(budget_bytes),
            grown: 0..0,
            blank: 0,
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

    /// Whether fresh space that was committed, so many pages of it blank, is to stay as it is; then it does. What is hardly used would take huge pages.
    pub(crate) fn keep_growth(&mut self, fresh: &Range<u64>, blank: u64) -> bool {
        let start = match &self.grown {
            grown if grown.is_empty() => fresh.start,
            grown if grown.end == fresh.start => grown.start,
            _ => return false,
        };
        let blank = self.blank + blank;
        let is_used = blank * PAGE_BYTES <= ((fresh.end - start) / 2).max(ASKED_FROM_BYTES);
        let kept = is_used && self.allows(fresh.end - start);
        if kept {
            self.grown = start..fresh.end;
            self.blank = blank;
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
                self.blank = 0;
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

#[cfg(test)]
mod tests {
    use crate::faulty::make_faulty;
    use crate::layout::PAGE_BYTES;
    use crate::{ByAddress, Durability, Options, Place, Region, Tracking, Verify};
    use std::path::Path;
    use std::sync::atomic::Ordering;

    const PIECE_PAGES: u64 = 64;

    fn open(path: &Path, tracking: Tracking) -> Region {
        let options = Options {
            by_address: Some(ByAddress {
                tracking,
                place: Place::Anywhere,
                ..ByAddress::default()
            }),
            create: true,
            ..Options::writer()
        };
        Region::open(path, options).unwrap()
    }

    fn store(region: &mut Region, offset: u64, bytes: &[u8], is_marked: bool) {
        let address = region.address() + offset as usize;
        if is_marked {
            crate::mark_address(address, bytes.len());
        } else {
            region.note_unseen_stores();
        }
        // SAFETY: in bounds of the region, which nothing borrows.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(address)
                .copy_from(bytes.as_ptr(), bytes.len());
        };
    }

    fn folder() -> tempfile::TempDir {
        let in_memory = tempfile::tempdir_in("/dev/shm");
        in_memory.or_else(|_| tempfile::tempdir()).unwrap()
    }

    /// A heap of so many pages, grown in pieces, of each of which the first `filled` were stored to; and where they begin.
    fn grown(path: &Path, pages: u64, filled: u64) -> (Region, u64) {
        let mut region = open(path, Tracking::Lines);
        let start = region.end();
        for _ in 0..pages / PIECE_PAGES {
            let piece = region.extend(PIECE_PAGES * PAGE_BYTES).unwrap();
            for page in 0..filled {
                store(&mut region, piece + page * PAGE_BYTES, &[1; 64], true);
            }
        }
        region.commit(Durability::Durable).unwrap();
        (region, start)
    }

    fn kept_bytes(region: &Region) -> u64 {
        let kept = region.outside.as_ref().unwrap().private.grown();
        kept.end - kept.start
    }

    #[test]
    fn growth_that_is_hardly_used_is_mapped_from_the_file() {
        let folder = folder();
        let (full, _) = grown(&folder.path().join("a.heap"), 1024, PIECE_PAGES);
        assert_eq!(kept_bytes(&full), 1024 * PAGE_BYTES);
        let (mut hardly, _) = grown(&folder.path().join("b.heap"), 64, 2);
        for _ in 0..200 {
            let piece = hardly.extend(PIECE_PAGES * PAGE_BYTES).unwrap();
            store(&mut hardly, piece, &[1; 64], true);
            hardly.commit(Durability::Durable).unwrap();
        }
        assert!(kept_bytes(&hardly) <= 20 << 20, "{}", kept_bytes(&hardly));
    }

    /// What could not be seen is found by comparing all private pages: at the first time with all growth that was kept, and then no more.
    #[test]
    fn something_unseen_now_and_then_costs_little() {
        const PAGES: u64 = 4096;
        let folder = folder();
        let (mut region, start) = grown(&folder.path().join("a.heap"), PAGES, PIECE_PAGES);
        let generation = |region: &Region| region.backing.as_ref().unwrap().superblock.generation;
        let first = generation(&region);
        // All pages are named, and a checkpoint leaves their sums for later.
        let mut round = 1;
        while generation(&region) == first {
            round += 1;
            for page in 0..PAGES {
                store(&mut region, start + page * PAGE_BYTES, &[round; 64], true);
            }
            region.commit(Durability::Durable).unwrap();
        }
        for i in 0..4 {
            for k in 0..20 {
                store(&mut region, start + k * 97 * PAGE_BYTES, &[i; 8], true);
                region.commit(Durability::Durable).unwrap();
            }
            store(&mut region, start + 77, &[i + 100], false);
            let stats = region.commit(Durability::Durable).unwrap();
            assert!(stats.lines <= 2, "{i}: {stats:?}");
            store(&mut region, start, &[i], true);
            region.commit(Durability::Durable).unwrap();
            assert_eq!(kept_bytes(&region), 0, "it was given back");
        }
        // And lazy commits stay lazy.
        for i in 0..6 {
            for k in 0..100 {
                store(&mut region, start + k * 10 * PAGE_BYTES, &[i; 8], true);
            }
            store(&mut region, start + 77, &[i], false);
            let stats = region.commit(Durability::Lazy).unwrap();
            assert_eq!(stats.flushes, 0);
        }
    }

    /// A process that tracked lines ended without closing: pages without a sum are no holes, and verify mode sees what is missed there.
    #[test]
    fn a_sum_that_is_owed_is_no_hole() {
        let folder = folder();
        let path = folder.path().join("a.heap");
        let (mut region, start) = grown(&path, PIECE_PAGES, PIECE_PAGES);
        assert!(region.checkpoint().unwrap());
        store(&mut region, start, &[2; 8], true);
        region.commit(Durability::Durable).unwrap();
        assert!(region.checkpoint().unwrap());
        drop(region);
        let mut region = open(&path, Tracking::Both);
        let address = region.address() + start as usize;
        // SAFETY: in bounds of the region, which nothing borrows.
        unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write(3) };
        region.commit(Durability::Durable).unwrap();
        assert_eq!(region.missed().lines, 1);
        region.close(Durability::Durable).unwrap();
        let options = Options {
            verify: Verify::Report,
            ..Options::snapshot()
        };
        let region = Region::open(&path, options).unwrap();
        assert!(region.unsound_pages().is_empty());
    }

    /// A commit of growth failed, and what it had written lies behind the end: growth that is hardly used must not find it there.
    #[test]
    fn what_a_failed_commit_wrote_is_in_no_later_one() {
        let folder = folder();
        let mut region = open(&folder.path().join("a.heap"), Tracking::Lines);
        region.extend(PAGE_BYTES).unwrap();
        region.commit(Durability::Durable).unwrap();
        let [_, journal] = make_faulty(&mut region);
        let fresh = region.extend(1 << 20).unwrap();
        store(&mut region, fresh, &[0xAA; 1 << 20], true);
        journal.write.store(1, Ordering::Relaxed);
        assert!(region.commit(Durability::Durable).is_err());
        region.abort().unwrap();
        region.extend(PAGE_BYTES).unwrap();
        region.commit(Durability::Durable).unwrap();
        let much = region.extend(128 << 20).unwrap();
        store(&mut region, much + (64 << 20), &[3; 8], true);
        region.commit(Durability::Durable).unwrap();
        let bytes = region.bytes(much, 1 << 20).unwrap();
        assert!(bytes.iter().all(|&b| b == 0));
    }

    /// The kernel names a page once only: if it could not be compared then, it must be at the next commit.
    #[test]
    fn a_comparison_that_failed_forgets_nothing() {
        let folder = folder();
        let path = folder.path().join("a.heap");
        let mut region = open(&path, Tracking::Pages);
        let start = region.extend(8 * PAGE_BYTES).unwrap();
        store(&mut region, start, &[1; 8 * 4096], false);
        region.commit(Durability::Durable).unwrap();
        region.checkpoint().unwrap(); // so that there is no copy to compare with
        let [heap, _] = make_faulty(&mut region);
        store(&mut region, start + 2 * PAGE_BYTES, &[2; 8], false);
        heap.read.store(1, Ordering::Relaxed);
        assert!(region.commit(Durability::Durable).is_err());
        store(&mut region, start + 5 * PAGE_BYTES, &[2; 8], false);
        region.commit(Durability::Durable).unwrap();
        drop(region);
        let region = Region::open(&path, Options::snapshot()).unwrap();
        let found = [2, 5].map(|page| region.bytes(start + page * PAGE_BYTES, 1).unwrap()[0]);
        assert_eq!(found, [2, 2]);
    }
}
