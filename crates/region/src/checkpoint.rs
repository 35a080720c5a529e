//! Checkpoints: the heap file and the sums of its pages are flushed, a superblock says so, and the journal begins anew.
//!
//! The invariant: the journal is recycled only after the heap file, its sums and then a superblock were flushed (rule 3 of `commit.rs`).

use crate::backing::Backing;
use crate::by_address::Outside;
use crate::commit::CommitStats;
use crate::error::Error;
use crate::journal;
use crate::layout::{
    FRAMES_START, PAGE_BYTES, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock, salt,
};
use crate::map::Map;
use crate::pages::PageNotes;
use crate::spill::Spill;
use crate::storage::Storage;
use crate::sums::Compared;
use crate::{Region, Result};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

/// A running writer checkpoints when its journal exceeds a quarter of the heap, within these bounds.
const CHECKPOINT_BYTES: Range<u64> = 4 << 20..64 << 20;
/// A recycled journal file longer than this is cut.
const JOURNAL_KEPT_BYTES: u64 = 64 << 20;

impl Region {
    /// Flushes the heap file and recycles the journal now, so that the next open has nothing to replay. Returns whether
    /// it was possible: not while a reader pins an earlier commit, nor with uncommitted stores.
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn checkpoint(&mut self) -> Result<bool> {
        self.see_stores()?;
        let Some(backing) = &mut self.backing else {
            return Ok(false);
        };
        backing.check_writer("checkpoint")?;
        if !self.cards.is_clean() || self.end != backing.tail.end {
            return Ok(false);
        }
        let mut stats = CommitStats::default();
        backing.flush(&mut stats)?;
        if !backing.apply(&self.map, self.outside.as_mut(), &self.spill, &mut stats)? {
            return Ok(false);
        }
        self.spill_is_over()?;
        let backing = self.backing.as_mut();
        backing.map_or(Ok(false), |backing| {
            backing.checkpoint_if_unread(&mut stats)
        })
    }

    /// The same if everything committed is in the heap file already, whatever is stored meanwhile.
    pub(crate) fn checkpoint_beside_stores(&mut self) -> Result<bool> {
        match &mut self.backing {
            Some(backing) if backing.writer && backing.applied_seq == backing.tail.seq => {
                backing.check_writer("checkpoint")?;
                backing.checkpoint_if_unread(&mut CommitStats::default())
            }
            _ => Ok(false),
        }
    }

    /// Takes the bytes of the last commit as they are, whatever the sums said: checkpoints, and notes the sum of every page
    /// anew. Costs reading the heap. Returns whether it was possible, as [`Region::checkpoint`].
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn reseal(&mut self) -> Result<bool> {
        if !self.checkpoint()? {
            return Ok(false);
        }
        let Some(backing) = &mut self.backing else {
            return Ok(false);
        };
        // A checkpoint writes both superblocks, but not what lies behind them in their pages.
        let blank = [0; PAGE_BYTES as usize - SUPERBLOCK_BYTES];
        for offset in SUPERBLOCK_OFFSETS {
            backing
                .heap
                .write_at(&blank, offset + SUPERBLOCK_BYTES as u64)
                .map_err(|e| Error::io(backing.path_text(), "blank its first pages", e))?;
        }
        let first = crate::DATA_START;
        let sums = journal::page_sums(self.map.slice(first, self.end));
        backing.checkpoint_with(backing.tail.end, Some(&sums), &mut CommitStats::default())
    }

    /// Gives the medium's space of `[offset, offset + len)` back; its content is zeros or garbage afterwards. Only for
    /// space that is free in the last commit too. Returns whether it was done: not while any reader pins a commit.
    ///
    /// # Errors
    /// [`ErrorKind::Io`], and [`ErrorKind::NotAWriter`].
    pub fn discard(&mut self, offset: u64, len: u64) -> Result<bool> {
        let Some(backing) = &mut self.backing else {
            self.map
                .drop_pages(offset, offset + len)
                .map_err(|e| Error::io("(memory)", "drop pages", e))?;
            return Ok(true);
        };
        backing.check_writer("discard")?;
        let settled = backing.applied_seq == backing.tail.seq && offset + len <= backing.tail.end;
        if !settled
            || !backing.sums.is_there()
            || backing.tail.offset != FRAMES_START
            || offset < crate::DATA_START
        {
            return Ok(false); // a frame in the journal could be replayed over it, or its fresh checksum be asked for
        }
        if !backing
            .locks
            .begin_apply(backing.tail.seq)
            .map_err(|e| backing.io("look for readers", e))?
        {
            return Ok(false);
        }
        backing.later.forget(offset / PAGE_BYTES, len / PAGE_BYTES);
        let discarded = backing
            .sums
            .forget(offset / PAGE_BYTES, len / PAGE_BYTES)
            .and_then(|()| backing.heap.discard(offset, len));
        backing
            .locks
            .end_apply()
            .map_err(|e| backing.io("unlock", e))?;
        discarded.map_err(|e| backing.io("give space back", e))?;
        self.map
            .drop_pages(offset, offset + len)
            .map_err(|e| Error::io("(memory)", "drop pages", e))?;
        Ok(true)
    }
}

impl Backing {
    /// Flushes the heap file, advances the superblock and recycles the journal (rule 3). All must be applied. The sums of its
    /// pages are those in `sums`, or what the frames since the last checkpoint say.
    fn checkpoint(
        &mut self,
        end: u64,
        sums: Option<&[u64]>,
        stats: &mut CommitStats,
    ) -> Result<()> {
        debug_assert!(self.applied_seq == self.tail.seq && self.pending.is_empty());
        self.sync_heap(stats)?;
        let next = Superblock {
            generation: self.superblock.generation + 1,
            seq: self.tail.seq,
            end,
            ..self.superblock.clone()
        };
        let frames = Frames {
            journal: &*self.journal,
            journal_len: self.journal_len,
            superblock: &self.superblock,
            end: self.tail.offset,
        };
        let named = self.named_sums.take();
        let (heap, later) = (&*self.heap, &mut self.later);
        let updated = self.sums.update(&next, |note| {
            let mut unknown = PageNotes::of_last();
            let mut note_known = |page, sum| {
                unknown.extend([(page, u64::from(sum == 0))]);
                match sum {
                    0 => Ok(()),
                    sum => note(page, sum),
                }
            };
            let whole = match (sums, named) {
                (Some(sums), _) => {
                    let mut pages = (crate::DATA_START / PAGE_BYTES..).zip(sums);
                    pages.try_for_each(|(page, &sum)| note_known(page, sum))?;
                    true
                }
                (None, Some(mut named)) => {
                    let mut pages = named.in_order().iter();
                    pages.try_for_each(|&(page, sum)| note_known(page, sum))?;
                    true
                }
                (None, None) => frames.for_each_sum(&mut note_known)?,
            };
            later.add_sums(unknown.in_order(), heap, end, note)?;
            Ok(whole)
        });
        stats.flushes += 1;
        self.poison_on_error("write the sums of its pages", updated)?;
        let bytes = next.encode();
        let first = (next.generation % 2) as usize;
        stats.flushes += 1;
        let written = self
            .heap
            .write_at(&bytes, SUPERBLOCK_OFFSETS[first])
            .and_then(|()| self.heap.sync());
        self.poison_on_error("write the superblock", written)?;
        // The other copy follows so that damage to either leaves the newest. It may arrive whenever it likes.
        let written = self.heap.write_at(&bytes, SUPERBLOCK_OFFSETS[1 - first]);
        self.poison_on_error("write the superblock's copy", written)?;
        self.superblock = next;
        self.tail.end = end;
        self.tail.offset = FRAMES_START;
        self.tail.chain = salt(&self.superblock.uuid, self.superblock.generation);
        self.applied_tail = self.tail;
        self.testified_seq = self.tail.seq;
        self.tail_spoiled = false; // what lies there is of the generation before
        self.fresh_seqs.clear();
        self.named_sums = Some(PageNotes::of_last());
        if self.journal_len > JOURNAL_KEPT_BYTES
            && self.journal.set_len(CHECKPOINT_BYTES.start).is_ok()
        {
            self.journal_len = CHECKPOINT_BYTES.start;
        }
        self.write_note();
        Ok(())
    }

    pub(crate) fn checkpoint_is_due(&self) -> bool {
        let journal = self.tail.offset - FRAMES_START;
        journal > (self.tail.end / 4).clamp(CHECKPOINT_BYTES.start, CHECKPOINT_BYTES.end)
    }
}

impl Backing {
    /// [`Backing::checkpoint`], unless a reader is just opening or needs the journal.
    pub(crate) fn checkpoint_if_unread(&mut self, stats: &mut CommitStats) -> Result<bool> {
        self.checkpoint_with(self.tail.end, None, stats)
    }

    /// Flushes and applies everything, and checkpoints with another end. False if a reader is in the way.
    pub(crate) fn checkpoint_at(
        &mut self,
        end: u64,
        map: &Map,
        outside: &mut Outside,
        spill: &Spill,
        stats: &mut CommitStats,
    ) -> Result<bool> {
        self.clear_tail(stats)?;
        self.flush(stats)?;
        Ok(self.apply(map, Some(outside), spill, stats)?
            && self.checkpoint_with(end, None, stats)?)
    }

    fn checkpoint_with(
        &mut self,
        end: u64,
        sums: Option<&[u64]>,
        stats: &mut CommitStats,
    ) -> Result<bool> {
        if !self
            .locks
            .begin_apply(self.tail.seq)
            .map_err(|e| self.io("look for readers", e))?
        {
            return Ok(false);
        }
        let done = self.checkpoint(end, sums, stats);
        self.locks.end_apply().map_err(|e| self.io("unlock", e))?;
        done.map(|()| true)
    }
}

/// The frames since the checkpoint.
struct Frames<'b> {
    journal: &'b dyn Storage,
    journal_len: u64,
    superblock: &'b Superblock,
    end: u64,
}

impl Frames<'_> {
    /// What they say of the pages that they touched, later ones overriding; false if not all can be read.
    fn for_each_sum(&self, note: &mut dyn FnMut(u64, u64) -> io::Result<()>) -> io::Result<bool> {
        journal::for_each_frame(
            self.journal,
            self.journal_len,
            self.superblock,
            self.end,
            |frame| journal::for_each_sum(self.journal, frame, &mut *note),
        )
    }
}

impl Backing {
    /// Compares the pages of a working copy just opened with the sums that they should have.
    pub(crate) fn compare_pages(&self, map: &Map) -> io::Result<Compared> {
        let pages = crate::DATA_START / PAGE_BYTES..self.tail.end / PAGE_BYTES;
        let mut sums = BTreeMap::new();
        let frames = Frames {
            journal: &*self.journal,
            journal_len: self.journal_len,
            superblock: &self.superblock,
            end: self.tail.offset,
        };
        let whole = frames.for_each_sum(&mut |page, sum| {
            sums.insert(page, sum);
            Ok(())
        })?;
        if !whole {
            return Ok(Compared {
                unsound: Vec::new(),
                without_sum: pages.end - pages.start,
            });
        };
        self.sums.compare(map, pages.start, pages.end, &sums)
    }
}
