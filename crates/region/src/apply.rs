//! Bringing committed lines from the journal, or from the working copy, to the heap file.
//!
//! The invariant: only what was flushed is applied, and nothing that a reader who pins an earlier commit could see.

use crate::backing::Backing;
use crate::by_address::Outside;
use crate::cards::DirtyPage;
use crate::commit::{APPLY_CHUNK_BYTES, CommitStats};
use crate::journal::{self, Tail};
use crate::layout::{FRAMES_START, PAGE_BYTES};
use crate::map::Map;
use crate::pages::PageNotes;
use crate::spill::Spill;
use crate::storage::Storage;
use crate::{Region, Result};
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// A journal up to this size is left as it is at the end; a longer one is worth two flushes of the heap file.
const CHECKPOINT_AT_CLOSE_BYTES: u64 = 1 << 20;
/// Where a program stores by address, commits are brought to the heap file when so much of the journal waits: lines that change again and
/// again are written there once.
const APPLIED_LATE_BYTES: u64 = 256 << 10;
/// While a writer runs, its note is behind by up to this much of the journal, which is what others read when they open.
const NOTE_EVERY_BYTES: u64 = 64 << 10;
/// Private copies of committed pages beyond this many (64 MiB) are dropped after a commit.
const PRIVATE_PAGES_KEPT: usize = 16 << 10;

impl Region {
    /// Flushes and applies what is committed, and checkpoints when that is due or `closing` makes it worth while. The
    /// working copy is clean.
    pub(crate) fn settle(&mut self, stats: &mut CommitStats, closing: bool) -> Result<()> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        backing.flush(stats)?;
        let waits = backing.tail.offset - backing.applied_tail.offset;
        let late = self.outside.as_mut().is_some_and(Outside::is_applied_late);
        if late && !closing && waits < APPLIED_LATE_BYTES {
            return Ok(());
        }
        if !backing.apply(&self.map, self.outside.as_mut(), &self.spill, stats)? {
            return Ok(());
        }
        self.spill_is_over()?;
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        // Private pages equal the file's now. Few are kept, because the next commit will want the same ones again; many
        // are memory that the kernel could not take back. Programs that store by address may be storing: see `commit`.
        if self.outside.is_none() && backing.private_pages > private_pages_kept(&self.spill) {
            drop_private_pages(backing, &mut self.map, backing.tail.end)?;
        }
        let journal_bytes = backing.tail.offset - FRAMES_START;
        let is_long = journal_bytes > CHECKPOINT_AT_CLOSE_BYTES;
        if backing.checkpoint_is_due() || closing && (is_long || !backing.later.is_empty()) {
            backing.later.is_now |= closing;
            backing.checkpoint_if_unread(stats)?;
        }
        Ok(())
    }

    /// All that is committed is in the heap file, and the working copy is clean: nothing needs to be elsewhere.
    pub(crate) fn spill_is_over(&mut self) -> Result<()> {
        let Some(backing) = self.backing.as_mut().filter(|_| self.spill.has_granules()) else {
            return Ok(());
        };
        let heap = &*backing.heap;
        let mapped = self
            .spill
            .forget_granules(&mut self.map, heap, backing.tail.end);
        backing.poison_on_error("map the heap", mapped.map(|_| ()))
    }
}

impl Backing {
    /// Brings the heap file to the last commit if all is flushed and no reader stands in the way; the working copy must
    /// be clean. Returns whether it did.
    pub(crate) fn apply(
        &mut self,
        map: &Map,
        outside: Option<&mut Outside>,
        spill: &Spill,
        stats: &mut CommitStats,
    ) -> Result<bool> {
        if self.applied_seq == self.tail.seq {
            return Ok(true);
        }
        debug_assert_eq!(self.flushed_seq, self.tail.seq, "rule 1");
        if self.fresh_seqs.iter().any(|&seq| seq < self.tail.seq) {
            self.testify(stats)?;
        }
        self.look_for_others()?;
        if !self
            .locks
            .begin_apply(self.tail.seq)
            .map_err(|e| self.io("look for readers", e))?
        {
            return Ok(false);
        }
        let whole_pages = spill.has_granules();
        let written = match &outside {
            Some(outside) if !outside.keeps_copies() => self.write_back_frames(),
            Some(outside) => {
                let copies = Committed::Copies(outside);
                write_back(&mut *self.heap, &copies, &mut self.pending, whole_pages)
            }
            None => {
                let map = Committed::Map(map);
                write_back(&mut *self.heap, &map, &mut self.pending, whole_pages)
            }
        };
        let unlocked = self.locks.end_apply();
        match written {
            Ok(bytes) => stats.applied_bytes += bytes,
            // The lines stay pending and the journal has them: nothing is lost, but the file may be half-way between
            // two commits, so nothing but replaying may follow.
            Err(error) => {
                return self
                    .poison_on_error("write back", Err(error))
                    .map(|()| false);
            }
        }
        unlocked.map_err(|e| self.io("unlock", e))?;
        self.mark_own_changes();
        self.pending.clear();
        self.unapplied = Some(Vec::new());
        if let Some(outside) = outside {
            outside.is_applied();
        }
        self.applied_seq = self.tail.seq;
        self.applied_tail = self.tail;
        // Not at every commit: the note is another page of the journal, which the next flush would have to write too
        // (1.36 instead of 1.1 times a bare write and flush where that takes 0.1 ms; 2026-11-20).
        let noted = self.note.as_ref().map_or(FRAMES_START, |note| note.tail);
        if self.tail.offset >= noted + NOTE_EVERY_BYTES {
            self.write_note();
        }
        Ok(true)
    }

    /// Writes the lines of the frames that the heap file does not hold yet to it, from the journal; returns the bytes written.
    fn write_back_frames(&mut self) -> io::Result<u64> {
        if let Some(runs) = self.unapplied.take() {
            return write_back_runs(&*self.journal, &mut *self.heap, &runs);
        }
        let (journal, heap) = (&*self.journal, &mut *self.heap);
        let mut contents = journal::RunBytes::of(journal)?;
        let (mut total, mut at) = (0, self.applied_tail);
        let mut buffer = Vec::new();
        while at.seq < self.tail.seq {
            let frame = journal::next(journal, self.journal_len, at, self.superblock.generation)?;
            let frame = frame.ok_or_else(|| {
                io::Error::other("a frame of the journal that was valid is not any more")
            })?;
            journal::for_each_run(journal, &frame, |run, from| {
                buffer.resize((run.end - run.start) as usize, 0);
                contents.read(&mut buffer, from)?;
                total += run.end - run.start;
                heap.write_at(&buffer, run.start)
            })?
            .map_err(io::Error::other)?;
            at = Tail::behind(&frame);
        }
        Ok(total)
    }

    /// Of the pages in `wanted`: the runs that wait in the journal to be applied, in the order of their commits. Nothing where they are not
    /// remembered.
    pub(crate) fn unapplied_by_page(
        &self,
        wanted: &[Range<u64>],
    ) -> HashMap<u64, Vec<(Range<u64>, u64)>> {
        let mut by_page: HashMap<u64, Vec<(Range<u64>, u64)>> = HashMap::new();
        for (run, from) in self.unapplied.iter().flatten() {
            let next = wanted.partition_point(|range| range.end <= run.start);
            if wanted.get(next).is_some_and(|range| range.start < run.end) {
                let page = by_page.entry(run.start / PAGE_BYTES).or_default();
                page.push((run.clone(), *from));
            }
        }
        by_page
    }

    /// Puts runs of a page that wait in the journal over what the heap file holds of it.
    pub(crate) fn overlay(
        &self,
        page: &mut [u8; PAGE_BYTES as usize],
        runs: &[(Range<u64>, u64)],
    ) -> io::Result<()> {
        for (run, from) in runs {
            let start = (run.start % PAGE_BYTES) as usize;
            let len = (run.end - run.start) as usize;
            self.journal.read_at(&mut page[start..start + len], *from)?;
        }
        Ok(())
    }
}

/// Writes the pending lines to the heap file, adjacent ranges in one go; returns the bytes written. `whole_pages`: their other
/// lines too, which are the same there; where memory is short, a page that is written in part has to be read first.
fn write_back(
    heap: &mut dyn Storage,
    committed: &Committed<'_>,
    pending: &mut PageNotes,
    whole_pages: bool,
) -> io::Result<u64> {
    let mut total = 0;
    let mut joined: Range<u64> = 0..0;
    let mut gathered = Vec::new();
    let mut write = |range: &Range<u64>| -> io::Result<()> {
        total += range.end - range.start;
        if range.is_empty() {
            return Ok(());
        }
        heap.write_at(committed.bytes(range, &mut gathered)?, range.start)
    };
    for &(page, lines) in pending.in_order() {
        let lines = if whole_pages { u64::MAX } else { lines };
        for range in (DirtyPage { page, lines }).write_back_ranges() {
            if range.start == joined.end && range.end - joined.start <= APPLY_CHUNK_BYTES {
                joined.end = range.end;
            } else {
                write(&joined)?;
                joined = range;
            }
        }
    }
    write(&joined)?;
    Ok(total)
}

/// Writes runs that lie in the journal to the heap file: of each line the last content only, in ascending order. Returns the bytes written.
fn write_back_runs(
    journal: &dyn Storage,
    heap: &mut dyn Storage,
    runs: &[(Range<u64>, u64)],
) -> io::Result<u64> {
    // Of each page the latest first.
    let mut order: Vec<(u64, u32)> = runs
        .iter()
        .zip(0_u32..)
        .map(|((run, _), index)| (run.start / PAGE_BYTES, !index))
        .collect();
    order.sort_unstable();
    let mut buffer = [0; PAGE_BYTES as usize];
    let mut total = 0;
    for of_page in order.chunk_by(|a, b| a.0 == b.0) {
        let mut done = 0;
        for &(_, index) in of_page {
            let (run, from) = &runs[!index as usize];
            let DirtyPage { page, lines } = DirtyPage::of(run);
            let lines = lines & !done;
            done |= lines;
            for part in (DirtyPage { page, lines }).runs() {
                let from = from + (part.start - run.start);
                let len = part.end - part.start;
                let bytes = match journal.in_memory(from, len) {
                    Some(bytes) => bytes,
                    None => {
                        let bytes = &mut buffer[..len as usize];
                        journal.read_at(bytes, from)?;
                        bytes
                    }
                };
                heap.write_at(bytes, part.start)?;
                total += len;
            }
        }
    }
    Ok(total)
}

/// Where the bytes of the last commit are that the heap file does not hold yet.
enum Committed<'a> {
    /// In the working copy, which is clean.
    Map(&'a Map),
    /// In copies, whatever became of the working copy.
    Copies(&'a Outside),
}

impl Committed<'_> {
    fn bytes<'b>(&'b self, range: &Range<u64>, gathered: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        let outside = match self {
            Committed::Map(map) => return Ok(map.slice(range.start, range.end)),
            Committed::Copies(outside) => outside,
        };
        gathered.clear();
        let mut at = range.start;
        while at < range.end {
            let page = at / PAGE_BYTES;
            let end = ((page + 1) * PAGE_BYTES).min(range.end);
            let copy = outside.committed(page).ok_or_else(|| {
                io::Error::other(format!(
                    "no copy of page {page}, which waits to be written back"
                ))
            })?;
            let within = |at: u64| (at - page * PAGE_BYTES) as usize;
            gathered.extend_from_slice(&copy[within(at)..within(end)]);
            at = end;
        }
        Ok(gathered)
    }
}

/// How many copies of committed pages are worth keeping.
fn private_pages_kept(spill: &Spill) -> usize {
    let granted = spill.budget.granted_at_least() / 2 / PAGE_BYTES;
    PRIVATE_PAGES_KEPT.min(usize::try_from(granted).unwrap_or(usize::MAX))
}

/// Drops the private copies of pages below `end`: the heap file holds the same.
fn drop_private_pages(backing: &mut Backing, map: &mut Map, end: u64) -> Result<()> {
    if backing.heap.mappable().is_none() {
        return Ok(());
    }
    backing.private_pages = 0;
    let dropped = map.drop_pages(crate::DATA_START, end);
    backing.poison_on_error("drop private pages", dropped)
}
