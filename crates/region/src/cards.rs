//! Which lines of the committed part were stored to since the last commit: one byte per line ("card"), and a list of
//! the pages that have any.
//!
//! The invariant: a committed line whose content in the working copy may differ from the committed state has its card
//! set, and its page is in the list. So a commit costs in proportion to what changed, never to the heap.
//!
//! Where a program stores by address, it and we set the cards of [`crate::marks`] instead, and there is no list. The page-granular
//! tracker (`written.rs`, for stores that nobody marks) feeds them too: it finds the dirty pages, compares lines with the committed
//! image, and calls [`Cards::mark`] for those that differ.

use crate::error::{Error, ErrorKind};
use crate::layout::{LINE_BYTES, PAGE_BYTES, PAGE_LINES};
use crate::map::Map;
use crate::marks::Marks;
use crate::registry::Listed;

/// A span of dirty lines in one page, as a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirtyPage {
    pub(crate) page: u64,
    /// Bit i: line i of the page.
    pub(crate) lines: u64,
}

pub(crate) struct Cards {
    /// One byte per line of the region's address space, zero pages until touched. None where nothing is tracked.
    bytes: Option<Map>,
    /// Pages with at least one card, in the order of their first store.
    pages: Vec<u64>,
    /// Stores below this offset are tracked; 0 where nothing is committed.
    tracked_end: u64,
    /// Pages of the list before this one were spilled.
    spilled: usize,
    /// The length of the list beyond which [`Cards::mark`] says so.
    pages_max: usize,
    /// In place of `bytes` and `pages` where a program stores by address.
    listed: Option<Listed>,
}

/// Beyond this many pages (64 MiB of the region) the memory of cards is given back instead of being zeroed.
const CLEARED_PAGES_MAX: usize = 16 << 10;

impl Cards {
    pub(crate) fn none() -> Cards {
        Cards {
            bytes: None,
            pages: Vec::new(),
            tracked_end: 0,
            spilled: 0,
            pages_max: usize::MAX,
            listed: None,
        }
    }

    /// For a program that stores by address to `[0, tracked_end)` of a region of `region_len` bytes that lies at `address`.
    pub(crate) fn by_address(
        address: usize,
        region_len: u64,
        tracked_end: u64,
    ) -> Result<Cards, Error> {
        let listed = Listed::new(Marks::new(address, region_len)?);
        Ok(Cards {
            tracked_end,
            listed: Some(listed.ok_or(ErrorKind::TooManyRegions)?),
            ..Cards::none()
        })
    }

    /// For a region of `region_len` bytes of which `[0, tracked_end)` is committed.
    pub(crate) fn new(region_len: u64, tracked_end: u64) -> Result<Cards, Error> {
        let bytes = Map::reserve_exact(region_len / LINE_BYTES)?; // cards for every line, or no region at all
        Ok(Cards {
            bytes: Some(bytes),
            pages: Vec::new(),
            tracked_end,
            spilled: 0,
            pages_max: usize::MAX,
            listed: None,
        })
    }

    /// The region of a program that stores by address is so long from now on; false if there is no room for that.
    pub(crate) fn grow(&mut self, region_len: u64) -> bool {
        self.listed
            .as_mut()
            .is_some_and(|listed| listed.grow(region_len))
    }

    pub(crate) fn set_tracked_end(&mut self, end: u64) {
        self.tracked_end = end;
    }

    /// Notes a store to `len` (at least 1) bytes at `offset`; to be called for every store. True if that made more dirty
    /// pages than [`Cards::grow_by`] allowed: then it is time to spill some.
    #[inline]
    pub(crate) fn mark(&mut self, offset: u64, len: u64) -> bool {
        offset < self.tracked_end && self.mark_tracked(offset, len)
    }

    #[inline]
    fn mark_tracked(&mut self, offset: u64, len: u64) -> bool {
        let Some(cards) = &self.bytes else {
            self.mark_listed(offset, len);
            return false;
        };
        let first = offset / LINE_BYTES;
        let last = (offset + (len - 1)) / LINE_BYTES;
        // SAFETY: tracked_end is at most the region's length, and there is a card for each line of it (Cards::new).
        let first_is_set = unsafe { *cards.base().add(first as usize) } != 0;
        (first != last || !first_is_set) && self.mark_lines(first, last)
    }

    #[inline(never)]
    fn mark_listed(&self, offset: u64, len: u64) {
        if let Some(listed) = &self.listed {
            listed.marks().mark(offset, len);
        }
    }

    #[cold]
    #[inline(never)]
    fn mark_lines(&mut self, first: u64, last: u64) -> bool {
        let last = last.min((self.tracked_end - 1) / LINE_BYTES);
        let Some(map) = &mut self.bytes else {
            return false;
        };
        for page in first / PAGE_LINES..=last / PAGE_LINES {
            let cards = map.slice_mut(page * PAGE_LINES, (page + 1) * PAGE_LINES);
            if mask_of(cards) == 0 {
                self.pages.push(page);
            }
            let from = first.saturating_sub(page * PAGE_LINES);
            let to = (last - page * PAGE_LINES).min(PAGE_LINES - 1);
            cards[from as usize..=to as usize].fill(1);
        }
        self.pages.len() > self.pages_max
    }

    /// The dirty pages that were not spilled, each perhaps among those that were.
    pub(crate) fn unspilled(&self) -> &[u64] {
        &self.pages[self.spilled..]
    }

    /// All dirty pages so far are spilled.
    pub(crate) fn note_spilled(&mut self) {
        self.spilled = self.pages.len();
    }

    /// Allows `pages` more dirty pages.
    pub(crate) fn grow_by(&mut self, pages: usize) {
        self.pages_max = self.pages.len().saturating_add(pages);
    }

    pub(crate) fn is_clean(&self) -> bool {
        match &self.listed {
            Some(listed) => !listed.marks().is_marked(self.tracked_end),
            None => self.pages.is_empty(),
        }
    }

    /// The dirty lines of a page, as a mask.
    pub(crate) fn lines_of(&self, page: u64) -> u64 {
        match (&self.listed, &self.bytes) {
            (Some(listed), _) => listed.marks().lines_of(page),
            (None, Some(map)) => mask_of(map.slice(page * PAGE_LINES, (page + 1) * PAGE_LINES)),
            (None, None) => 0,
        }
    }

    /// The dirty pages in ascending order.
    pub(crate) fn dirty(&mut self) -> Vec<DirtyPage> {
        if let Some(listed) = &self.listed {
            let marks = listed.marks();
            let pages = marks.marked_pages(self.tracked_end).into_iter();
            let lines = |page| DirtyPage {
                page,
                lines: marks.lines_of(page),
            };
            // A signal may have come between a summary and its card.
            return pages.map(lines).filter(|dirty| dirty.lines != 0).collect();
        }
        self.pages.sort_unstable();
        self.spilled = 0; // the order is lost; those that were spilled will be found so again
        let Some(map) = &self.bytes else {
            return Vec::new();
        };
        let lines = |page: u64| mask_of(map.slice(page * PAGE_LINES, (page + 1) * PAGE_LINES));
        self.pages
            .iter()
            .map(|&page| DirtyPage {
                page,
                lines: lines(page),
            })
            .collect()
    }

    /// The dirty pages as in [`Cards::dirty`], for a commit: [`Cards::are_committed`] or [`Cards::put_back`] follows.
    pub(crate) fn take(&mut self) -> Vec<DirtyPage> {
        let Some(listed) = &self.listed else {
            return self.dirty();
        };
        let mut taken = Vec::new();
        let note = &mut |page, lines| taken.push(DirtyPage { page, lines });
        listed.marks().take(self.tracked_end, note);
        taken
    }

    /// What was taken is not committed.
    pub(crate) fn put_back(&self, taken: &[DirtyPage]) {
        let Some(listed) = &self.listed else {
            return; // it was left there
        };
        for run in taken.iter().flat_map(|page| page.runs()) {
            listed.marks().mark(run.start, run.end - run.start);
        }
    }

    /// What was taken is committed.
    pub(crate) fn are_committed(&mut self) {
        if self.listed.is_none() {
            self.clear();
        }
    }

    /// Forgets all cards.
    pub(crate) fn clear(&mut self) {
        if let Some(listed) = &self.listed {
            listed.marks().clear();
        }
        if let Some(map) = &mut self.bytes {
            let len = self.tracked_end.next_multiple_of(PAGE_BYTES * LINE_BYTES) / LINE_BYTES;
            let many = self.pages.len() > CLEARED_PAGES_MAX;
            if !many || map.drop_pages(0, len.min(map.len())).is_err() {
                for &page in &self.pages {
                    map.slice_mut(page * PAGE_LINES, (page + 1) * PAGE_LINES)
                        .fill(0);
                }
            }
            if many {
                self.pages = Vec::new();
            }
        }
        self.pages.clear();
        self.spilled = 0;
    }
}

/// The set cards of one page as a mask.
fn mask_of(cards: &[u8]) -> u64 {
    let mut mask = 0;
    for (i, &card) in cards.iter().enumerate() {
        mask |= u64::from(card) << i;
    }
    mask
}

impl DirtyPage {
    /// The lines of a run, which is in one page.
    pub(crate) fn of(run: &std::ops::Range<u64>) -> DirtyPage {
        let page = run.start / PAGE_BYTES;
        let count = (run.end - run.start) / LINE_BYTES;
        let lines = u64::MAX >> (PAGE_LINES - count) << (run.start / LINE_BYTES % PAGE_LINES);
        DirtyPage { page, lines }
    }

    /// The runs of adjacent dirty lines, as byte ranges of the region.
    pub(crate) fn runs(self) -> impl Iterator<Item = std::ops::Range<u64>> {
        let start = self.page * PAGE_BYTES;
        let mut rest = self.lines;
        std::iter::from_fn(move || {
            if rest == 0 {
                return None;
            }
            let from = u64::from(rest.trailing_zeros());
            let ones = u64::from((!(rest >> from)).trailing_zeros()).min(PAGE_LINES - from);
            rest = if from + ones == PAGE_LINES {
                0
            } else {
                rest >> (from + ones) << (from + ones)
            };
            Some(start + from * LINE_BYTES..start + (from + ones) * LINE_BYTES)
        })
    }

    /// How many runs there are.
    pub(crate) fn run_count(self) -> u32 {
        (self.lines & !(self.lines << 1)).count_ones()
    }

    /// The ranges to write back: the runs, with the narrowest gaps between them closed as long as that makes the bytes
    /// at most 2.5 times the dirty ones. (A gap's lines are written with the content that they have in the file anyway;
    /// a write is a system call, which costs as much as copying a page.)
    pub(crate) fn write_back_ranges(self) -> Vec<std::ops::Range<u64>> {
        let mut ranges: Vec<_> = self.runs().collect();
        let dirty = u64::from(self.lines.count_ones()) * LINE_BYTES;
        let mut spare = dirty * 3 / 2;
        let mut gaps: Vec<(u64, usize)> = ranges
            .windows(2)
            .enumerate()
            .map(|(i, pair)| (pair[1].start - pair[0].end, i + 1))
            .collect();
        gaps.sort_unstable();
        let mut closed = 0u64; // bit i: the gap before run i is closed
        for (bytes, run) in gaps {
            if bytes > spare {
                break;
            }
            spare -= bytes;
            closed |= 1 << run;
        }
        for run in (1..ranges.len()).rev() {
            if closed >> run & 1 == 1 {
                ranges[run - 1].end = ranges[run].end;
                ranges.remove(run);
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_runs_and_only_below_the_tracked_end() {
        let mut cards = Cards::new(1 << 26, 3 * PAGE_BYTES).unwrap();
        cards.mark(PAGE_BYTES + 60, 8);
        cards.mark(PAGE_BYTES + 4095, 1);
        cards.mark(2 * PAGE_BYTES, 4096 * 3);
        cards.mark(3 * PAGE_BYTES, 8);
        let dirty = cards.dirty();
        assert_eq!(dirty.len(), 2);
        assert_eq!(dirty[0].lines, 0b11 | 1 << 63);
        let runs: Vec<_> = dirty[0].runs().collect();
        assert_eq!(runs, [4096..4096 + 128, 8192 - 64..8192]);
        assert_eq!(
            dirty[1].runs().collect::<Vec<_>>(),
            std::slice::from_ref(&(8192..12288))
        );
        // Two lines and one far off: the gap of 61 lines is not worth writing.
        assert_eq!(dirty[0].write_back_ranges(), runs);
        cards.clear();
        assert!(cards.is_clean() && cards.dirty().is_empty());
    }

    #[test]
    fn narrow_gaps_are_closed_within_the_bound() {
        for lines in [
            0b1011,
            0x8000_0000_0000_0001,
            u64::MAX,
            0x1111_1111_1111_1111,
            0x0F0F_0001_0001_8001,
        ] {
            let page = DirtyPage { page: 0, lines };
            let ranges = page.write_back_ranges();
            let bytes: u64 = ranges.iter().map(|r| r.end - r.start).sum();
            assert!(
                bytes * 2 <= u64::from(lines.count_ones()) * LINE_BYTES * 5,
                "{lines:#x}"
            );
            for run in page.runs() {
                assert!(
                    ranges
                        .iter()
                        .any(|r| r.start <= run.start && run.end <= r.end),
                    "{lines:#x}"
                );
            }
        }
        assert_eq!(
            DirtyPage {
                page: 0,
                lines: 0b1011
            }
            .write_back_ranges()
            .len(),
            1
        );
    }
}
