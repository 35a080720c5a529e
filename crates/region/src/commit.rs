//! Commits of a region with a file behind it.
//!
//! The rules that this file keeps, with `backing.rs`, `apply.rs` and `checkpoint.rs` (the arguments are in `docs/format.md`):
//! 1. a frame is applied to the heap file only after it was flushed, and only while no reader pins an earlier commit;
//! 2. a frame is applied over fresh space of an earlier frame of the same generation only when a flushed frame
//!    testifies that the earlier one was durable (else its fresh checksums would no longer hold);
//! 3. the journal is recycled only after the heap file and then a superblock were flushed;
//! 4. after a failed flush nothing more is written through this handle.

use crate::by_address::Outside;
use crate::cards::DirtyPage;
use crate::error::ErrorKind;
use crate::journal::Contents;
use crate::layout::{PAGE_BYTES, page_sum};
use crate::map::Map;
use crate::spill::Spill;
use crate::{Durability, Region, Result};
use std::cell::Cell;
use std::ops::Range;

/// Adjacent lines are written back in pieces of up to this.
pub(crate) const APPLY_CHUNK_BYTES: u64 = 1 << 20;

/// Spilled memory is asked for so far ahead when a commit goes through it.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// What one commit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitStats {
    /// Number of the commit; unchanged when there was nothing to commit.
    pub seq: u64,
    /// 64-byte lines that were stored to since the commit before.
    pub lines: u64,
    /// Bytes appended to the journal.
    pub journal_bytes: u64,
    /// Bytes of fresh space written straight to their place.
    pub fresh_bytes: u64,
    /// Bytes written back to the heap file through the page cache.
    pub applied_bytes: u64,
    /// Calls of `fdatasync` or its like.
    pub flushes: u64,
}

impl CommitStats {
    /// What both did; the later one's number.
    pub fn add(&mut self, later: CommitStats) {
        self.seq = later.seq;
        self.lines += later.lines;
        self.journal_bytes += later.journal_bytes;
        self.fresh_bytes += later.fresh_bytes;
        self.applied_bytes += later.applied_bytes;
        self.flushes += later.flushes;
    }
}

impl Region {
    /// Makes every store since the last commit permanent, all at once.
    ///
    /// Costs one append and, when `durable`, one flush of the journal; with fresh space also a flush of the heap file.
    /// Bytes written are proportional to the lines that changed. Without changes it does nothing.
    ///
    /// # Errors
    /// When the journal or fresh space cannot be written (no room, say) nothing has changed: the stores are still
    /// uncommitted, and may be committed again or aborted. When a flush fails the handle is poisoned.
    pub fn commit(&mut self, durability: Durability) -> Result<CommitStats> {
        let mut stats = CommitStats::default();
        if let Some(backing) = &self.backing {
            backing.check_writer("commit")?;
            self.see_stores()?;
            self.commit_sparse_growth(&mut stats)?;
        }
        let Some(backing) = &mut self.backing else {
            return Ok(stats); // memory has no last commit to go back to
        };
        stats.seq = backing.tail.seq;
        let old_end = backing.tail.end;
        backing.clear_tail(&mut stats)?;
        let unspilled = self.cards.unspilled().len();
        let mut dirty = self.cards.take();
        if let Some(outside) = &self.outside {
            self.cards.put_back(&outside.leave_compared(&mut dirty));
        }
        if dirty.is_empty() && self.end == old_end {
            if durability == Durability::Durable && backing.flushed_seq != backing.tail.seq {
                self.settle(&mut stats, false)?; // lazy commits before this one
            }
            return Ok(stats);
        }
        let seq = backing.tail.seq;
        let committed = self.commit_pages(&dirty, unspilled, durability, stats);
        if committed.is_err() && self.commits() == seq {
            self.cards.put_back(&dirty);
        }
        committed
    }

    /// The stores to `pages`, whose cards were taken, and what is behind the committed end. If it fails before there is a commit, they have
    /// to be put back.
    fn commit_pages(
        &mut self,
        pages: &[DirtyPage],
        unspilled: usize,
        durability: Durability,
        mut stats: CommitStats,
    ) -> Result<CommitStats> {
        let Some(backing) = &mut self.backing else {
            return Ok(stats);
        };
        let old_end = backing.tail.end;
        let present = backing.heap.present_end();
        let present = present.map_err(|e| backing.io("ask its length", e))?;
        // What was stored behind the end of a file that was cut is gone.
        let is_gone = |page: &DirtyPage| present.is_some_and(|end| page.page * PAGE_BYTES >= end);
        let there = pages.partition_point(|page| !is_gone(page));
        let dirty = &pages[..there];
        // After this the working copy of a program that stores by address is not looked at any more.
        let outside = &mut self.outside;
        let copies = match outside {
            Some(outside) if outside.keeps_copies() => outside.copy(&self.map, dirty),
            _ => Vec::new(),
        };
        if let Some(outside) = outside {
            let verified = outside.check_nothing_stored(&self.map, &mut self.cards, old_end);
            match verified.map_err(|e| backing.io("find out what was stored", e))? {
                None => {}
                Some(offset) => {
                    let address = self.map.base() as u64 + offset;
                    let path = backing.path_text();
                    return Err(ErrorKind::StoredMeanwhile { path, address }.into());
                }
            }
        }
        stats.fresh_bytes = self.end - old_end;
        let had_leftovers = backing.has_leftovers;
        backing.has_leftovers |= stats.fresh_bytes > 0;
        // What was spilled is there already.
        let mut at = self.spill.fresh_start(old_end).min(self.end);
        for chunk in self
            .map
            .slice(at, self.end)
            .chunks(APPLY_CHUNK_BYTES as usize)
        {
            backing
                .heap
                .write_at(chunk, at)
                .map_err(|e| backing.io("write fresh space", e))?;
            at += chunk.len() as u64;
        }
        let sums_of = |pages: &mut dyn Iterator<Item = u64>| -> Vec<u64> {
            let ahead = ReadAhead::over(&self.map, &self.spill);
            let sum = |page| {
                let start = page * PAGE_BYTES;
                ahead.at(start);
                page_sum(self.map.slice(start, start + PAGE_BYTES))
            };
            pages.map(sum).collect()
        };
        let fresh_sums = sums_of(&mut (old_end / PAGE_BYTES..self.end / PAGE_BYTES));
        let mut page_sums = match outside {
            None => sums_of(&mut dirty.iter().map(|dirty| dirty.page)),
            Some(outside) if outside.keeps_copies() => {
                copies.iter().map(|page| page_sum(&page[..])).collect()
            }
            // Not known: a page may hold stores that were not marked. A checkpoint looks what it became.
            Some(_) => vec![0; dirty.len()],
        };
        let known = dirty
            .iter()
            .zip(&mut page_sums)
            .filter(|(_, sum)| **sum != 0);
        for (dirty, sum) in known {
            let hollow = backing.is_hollow(dirty.page);
            if hollow.map_err(|e| backing.io("read its sums", e))? {
                *sum = 0;
            }
        }

        let contents = Contents {
            generation: backing.superblock.generation,
            durable_seq: backing.flushed_seq,
            new_end: self.end,
            time_s: (backing.now_s)(),
            nonce: backing.nonce,
            pages: dirty,
            page_sums: &page_sums,
            fresh_sums: &fresh_sums,
        };
        stats.lines = contents.lines();
        let map = &self.map;
        let ahead = ReadAhead::over(map, &self.spill);
        let line = |run: &Range<u64>| {
            if copies.is_empty() {
                ahead.at(run.start);
                return map.slice(run.start, run.end);
            }
            let page = run.start / PAGE_BYTES;
            let index = dirty.partition_point(|dirty| dirty.page < page);
            let within = |at: u64| (at - page * PAGE_BYTES) as usize;
            &copies[index][within(run.start)..within(run.end)]
        };
        let spill = Some(&mut self.spill).filter(|spill| spill.is_active());
        backing.append(&contents, line, spill, &mut stats)?;
        stats.seq = backing.tail.seq;
        backing.has_leftovers = had_leftovers;
        if stats.fresh_bytes > 0 {
            backing.fresh_seqs.push(stats.seq);
            backing.heap_unflushed = true;
        }
        if let Some(outside) = outside {
            outside.is_committed(dirty, copies);
            // Where nobody stores now: but for the pages of this commit, the heap file holds what private ones do.
            let many = outside.holds_many() && outside.may_drop_pages();
            if many && backing.pending.is_empty() {
                outside.give_back(&mut self.map, backing, dirty, old_end)?;
            }
        }
        let waits = dirty.iter().map(|dirty| (dirty.page, dirty.lines));
        backing.pending.extend(waits);
        backing.end_is_known = true;
        backing.private_pages += unspilled;
        self.cards.are_committed();
        self.cards.set_tracked_end(self.end);
        // Fresh space that was committed becomes a private mapping of the file, so that its memory can be evicted.
        let fresh = old_end..self.end;
        let blank_sum = match &fresh_sums[..] {
            [] => 0,
            _ => page_sum(&[0; PAGE_BYTES as usize]),
        };
        let blank = fresh_sums.iter().filter(|&&sum| sum == blank_sum).count();
        let keeps = |outside: &mut Outside| outside.keep_growth(&fresh, blank as u64);
        let watched = match outside.as_mut().map(keeps) {
            Some(true) => Ok(()),
            is_by_address => self
                .spill
                .fresh_is_committed(&mut self.map, &*backing.heap, fresh.clone())
                .and_then(
                    |()| match outside.as_mut().filter(|_| is_by_address.is_some()) {
                        Some(outside) => outside.watch(&self.map, fresh),
                        None => Ok(()),
                    },
                ),
        };
        backing.poison_on_error("map the heap", watched)?;
        // Lines that wait to be written back are memory that the kernel cannot take back.
        let waiting = backing.private_pages as u64 * PAGE_BYTES;
        let is_to_settle = match outside {
            Some(outside) => outside.is_to_settle(backing.tail.offset),
            None => waiting > self.spill.budget.granted_at_least() / 2,
        };
        if durability == Durability::Durable || is_to_settle {
            self.settle(&mut stats, false)?;
        }
        if self.outside.is_none() {
            self.allow_growth();
        }
        Ok(stats)
    }

    /// Brings every commit so far to the medium and to the heap file, and checkpoints when that is due. Stores of a program by address
    /// may go on meanwhile; else the working copy must be clean, or this is [`Region::flush`].
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn make_durable(&mut self) -> Result<CommitStats> {
        if self.outside.is_none() && (!self.cards.is_clean() || self.end != self.committed_end()) {
            return self.flush();
        }
        let mut stats = CommitStats::default();
        if let Some(backing) = &self.backing {
            backing.check_writer("flush")?;
            stats.seq = backing.tail.seq;
            self.settle(&mut stats, false)?;
        }
        Ok(stats)
    }

    /// How many commits there are.
    pub fn commits(&self) -> u64 {
        self.backing.as_ref().map_or(0, |b| b.tail.seq)
    }

    /// Commits up to this number are known to be on the medium.
    pub fn durable_commits(&self) -> u64 {
        self.backing.as_ref().map_or(0, |b| b.flushed_seq)
    }

    /// Waits until every commit so far is on the medium. Uncommitted stores stay as they are.
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn flush(&mut self) -> Result<CommitStats> {
        let mut stats = CommitStats::default();
        if let Some(backing) = &mut self.backing {
            backing.check_writer("flush")?;
            stats.seq = backing.tail.seq;
            backing.flush(&mut stats)?;
        }
        Ok(stats)
    }

    /// Brings what is committed to where it belongs and gives the handle up. Uncommitted stores are forgotten. Lazy
    /// commits are not flushed for it: they wait in the journal.
    ///
    /// # Errors
    /// As [`Region::commit`]; nothing committed is lost by an error.
    pub fn close(mut self, durability: Durability) -> Result<CommitStats> {
        let mut stats = CommitStats::default();
        if !self.backing.as_ref().is_some_and(|backing| backing.writer) {
            return Ok(stats);
        }
        self.see_stores()?;
        if !self.cards.is_clean() || self.end != self.committed_end() {
            self.abort()?;
        }
        let Some(backing) = &mut self.backing else {
            return Ok(stats);
        };
        backing.check_writer("close")?;
        stats.seq = backing.tail.seq;
        // The reserve is for a running writer, and what one that was killed had there is of no use. An error costs room, not
        // data.
        if backing.end_is_known && backing.heap.len().is_ok_and(|len| len > backing.tail.end) {
            let _ = backing
                .clear_tail(&mut stats)
                .map(|()| backing.heap.set_len(backing.tail.end));
        }
        if durability == Durability::Durable {
            self.settle(&mut stats, true)?;
        }
        if let Some(backing) = &mut self.backing {
            let is_noted = backing
                .note
                .as_ref()
                .is_some_and(|note| note.applied_seq == backing.tail.seq);
            if backing.applied_seq == backing.tail.seq && !is_noted {
                backing.write_note();
            }
        }
        Ok(stats)
    }
}

/// Asks for what was spilled before it is gone through in ascending order: page by page the medium would be waited for.
struct ReadAhead<'m> {
    map: &'m Map,
    /// Up to here it was asked for; none where nothing was spilled.
    asked: Option<Cell<u64>>,
}

impl<'m> ReadAhead<'m> {
    fn over(map: &'m Map, spill: &Spill) -> ReadAhead<'m> {
        let asked = spill.is_active().then(|| Cell::new(0));
        ReadAhead { map, asked }
    }

    fn at(&self, offset: u64) {
        let Some(asked) = &self.asked else { return };
        if offset + READ_AHEAD_BYTES / 2 >= asked.get() {
            let start = asked.get().max(offset) / PAGE_BYTES * PAGE_BYTES;
            let end = (offset + READ_AHEAD_BYTES).next_multiple_of(PAGE_BYTES);
            self.map.will_need(start, end);
            asked.set(end);
        }
    }
}
