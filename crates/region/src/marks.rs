//! Marks from outside: programs that store by address, from any thread, tell here which lines they stored to.
//!
//! A card for each line, as in `cards.rs`; and, because there is no list that many threads could write, two levels of summary
//! over them: a byte for each page, and a byte for each block of 512 pages. What is marked is found through them in proportion to
//! what is marked, and a look at a heap of 64 GiB in which nothing is costs 32 KiB.
//!
//! The invariant: whoever sees a card set may rely on its summaries being set: they are stored first. Marking takes no lock and no memory,
//! so that signal handlers may; forgetting marks (`clear`) is for a moment in which nobody stores (a commit's).
//!
//! `crates/capi/tests/models.rs` runs this file in all orders that threads may take.

use crate::card_space;
use crate::error::Error;
use crate::layout::{LINE_BYTES, PAGE_BYTES, PAGE_LINES, RESERVE_BYTES_MAX, arena};
use crate::map::Map;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::ops::Range;

/// Pages that one byte of the upper summary stands for: 2 MiB.
const BLOCK_PAGES: u64 = 512;

/// The marks of one region.
pub(crate) struct Marks {
    /// Where the region lies in memory, and its length.
    pub(crate) start: usize,
    len: AtomicU64,
    /// As long as the region needs; and the summaries as long as it could ever need.
    cards: Map,
    pages: Map,
    blocks: Map,
    /// Up to here blocks were marked since the last `clear`: nobody needs to look further.
    blocks_end: AtomicU64,
}

// SAFETY: what several threads access is bytes, and all of them only as atomics.
unsafe impl Sync for Marks {}

/// In the arena cards lie where instrumented programs look for them, if there is room.
fn card_window(start: u64, len: u64) -> Option<Map> {
    if start >> arena::SHIFT != 1 {
        return None;
    }
    card_space::window(start, len)
}

/// Only where it is not set: what many threads only read stays in the caches of all.
#[inline]
fn set(byte: &AtomicU8, order: Ordering) {
    if byte.load(Ordering::Relaxed) == 0 {
        byte.store(1, order);
    }
}

#[inline]
fn set_word(map: &Map, index: u64) {
    const SET: u64 = 0x0101_0101_0101_0101;
    let word = map.eight(index);
    if word.load(Ordering::Relaxed) != SET {
        word.store(SET, Ordering::Release);
    }
}

impl Marks {
    /// For `len` bytes of memory from the address `start`, which may become more. In the arena the cards lie where instrumented programs look for them.
    pub(crate) fn new(start: usize, len: u64) -> Result<Marks, Error> {
        let card_bytes = len / LINE_BYTES;
        let cards = match card_window(start as u64, len) {
            Some(cards) => cards,
            None => Map::reserve_exact(card_bytes)?,
        };
        let pages = RESERVE_BYTES_MAX.max(len) / PAGE_BYTES;
        Ok(Marks {
            start,
            len: AtomicU64::new(len),
            cards,
            pages: Map::reserve_exact(pages.next_multiple_of(PAGE_BYTES))?,
            blocks: Map::reserve_exact((pages / BLOCK_PAGES + 8).next_multiple_of(PAGE_BYTES))?,
            blocks_end: AtomicU64::new(0),
        })
    }

    /// Cards for `len` bytes; false if there is no room.
    fn grow_cards(&mut self, len: u64) -> bool {
        let has = self.cards.len() * LINE_BYTES;
        if len <= has {
            return true;
        }
        // Its own, which what lies behind is free for; or more of the space's.
        self.cards.grow(len / LINE_BYTES)
            || card_window(self.start as u64 + has, len - has)
                .is_some_and(|more| self.cards.append(more))
    }

    /// The region is `len` bytes long from now on; false if there is no room for cards.
    pub(crate) fn grow(&mut self, len: u64) -> bool {
        if len / PAGE_BYTES > self.pages.len() || !self.grow_cards(len) {
            return false;
        }
        self.len.store(len, Ordering::Release);
        true
    }

    pub(crate) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Notes a store to `len` bytes at `offset`, as far as they are the region's.
    pub(crate) fn mark(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        if offset >= end {
            return;
        }
        let (first, last) = (offset / LINE_BYTES, (end - 1) / LINE_BYTES);
        let blocks_end = last / PAGE_LINES / BLOCK_PAGES + 1;
        if self.blocks_end.load(Ordering::Relaxed) < blocks_end {
            self.blocks_end.fetch_max(blocks_end, Ordering::Relaxed);
        }
        for page in first / PAGE_LINES..=last / PAGE_LINES {
            set(self.blocks.byte(page / BLOCK_PAGES), Ordering::Relaxed);
            set(self.pages.byte(page), Ordering::Relaxed);
        }
        // After the summaries: another thread that sees a card set does without them.
        let mut line = first;
        while line <= last {
            if line.is_multiple_of(8) && line + 8 <= last + 1 {
                set_word(&self.cards, line);
                line += 8;
            } else {
                set(self.cards.byte(line), Ordering::Release);
                line += 1;
            }
        }
    }

    /// The pages below `end` (an offset) that have marks, in ascending order.
    pub(crate) fn marked_pages(&self, end: u64) -> Vec<u64> {
        let mut found = Vec::new();
        self.for_each_marked(end, &mut |page| found.push(page));
        found
    }

    /// Whether any page below `end` (an offset) has marks.
    pub(crate) fn is_marked(&self, end: u64) -> bool {
        self.marked_blocks(end).any(|pages| {
            marked_bytes(&self.pages, pages.start, pages.end)
                .next()
                .is_some()
        })
    }

    /// The pages below `end` of blocks that have marks.
    fn marked_blocks(&self, end: u64) -> impl Iterator<Item = Range<u64>> {
        let pages_end = end.min(self.len()).div_ceil(PAGE_BYTES);
        let blocks_end = self.blocks_end.load(Ordering::Relaxed);
        let blocks_end = blocks_end.min(pages_end.div_ceil(BLOCK_PAGES));
        marked_bytes(&self.blocks, 0, blocks_end)
            .map(move |block| block * BLOCK_PAGES..((block + 1) * BLOCK_PAGES).min(pages_end))
    }

    fn for_each_marked(&self, end: u64, note: &mut dyn FnMut(u64)) {
        for pages in self.marked_blocks(end) {
            marked_bytes(&self.pages, pages.start, pages.end).for_each(&mut *note);
        }
    }

    /// The marked lines of a page, as a mask.
    pub(crate) fn lines_of(&self, page: u64) -> u64 {
        (0..PAGE_LINES / 8).fold(0, |mask, i| {
            // Each byte is 0 or 1: the product brings them side by side into the highest byte.
            let cards = self
                .cards
                .eight(page * PAGE_LINES + i * 8)
                .load(Ordering::Relaxed);
            mask | (cards.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (i * 8)
        })
    }

    /// Forgets all marks, and names those below `end`: pages in ascending order, each with its lines. Nobody may store meanwhile: a mark that
    /// is set now may be lost.
    pub(crate) fn take(&self, end: u64, note: &mut dyn FnMut(u64, u64)) {
        let pages_end = end.div_ceil(PAGE_BYTES);
        for pages in self.marked_blocks(self.len()) {
            for page in marked_bytes(&self.pages, pages.start, pages.end) {
                let lines = self.lines_of(page);
                // A signal may have come between a summary and its card.
                if lines != 0 {
                    for at in (page * PAGE_LINES..(page + 1) * PAGE_LINES).step_by(8) {
                        self.cards.eight(at).store(0, Ordering::Relaxed);
                    }
                    if page < pages_end {
                        note(page, lines);
                    }
                }
                self.pages.byte(page).store(0, Ordering::Relaxed);
            }
            self.blocks
                .byte(pages.start / BLOCK_PAGES)
                .store(0, Ordering::Relaxed);
        }
        self.blocks_end.store(0, Ordering::Relaxed);
    }

    /// Forgets all marks, as [`Marks::take`].
    pub(crate) fn clear(&self) {
        self.take(0, &mut |_, _| ());
    }
}

/// Whether 64 bytes at a multiple of that are all 0.
fn is_blank(map: &Map, index: u64) -> bool {
    let word = |i: u64| map.eight(index + i * 8).load(Ordering::Relaxed);
    (0..8).fold(0, |all, i| all | word(i)) == 0
}

/// The bytes from `start` to `end` that are not 0; many at a time where there is nothing.
fn marked_bytes(map: &Map, start: u64, end: u64) -> impl Iterator<Item = u64> {
    let mut at = start;
    std::iter::from_fn(move || {
        while at < end {
            if at.is_multiple_of(64) && at + 64 <= map.len() && is_blank(map, at) {
                at += 64;
                continue;
            }
            if at.is_multiple_of(8) && map.eight(at).load(Ordering::Relaxed) == 0 {
                at += 8;
                continue;
            }
            let here = at;
            at += 1;
            if map.byte(here).load(Ordering::Relaxed) != 0 {
                return Some(here);
            }
        }
        None
    })
}
