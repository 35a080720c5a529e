//! Commit, apply and checkpoint of a region with a file behind it.
//!
//! The rules that this file keeps (the arguments are in `docs/format.md`):
//! 1. a frame is applied to the heap file only after it was flushed, and only while no reader pins an earlier commit;
//! 2. a frame is applied over fresh space of an earlier frame of the same generation only when a flushed frame
//!    testifies that the earlier one was durable (else its fresh checksums would no longer hold);
//! 3. the journal is recycled only after the heap file and then a superblock were flushed;
//! 4. after a failed flush nothing more is written through this handle.

use crate::by_address::Outside;
use crate::cards::DirtyPage;
use crate::error::{Error, ErrorKind};
use crate::journal::{self, Contents, Frame, Tail};
use crate::layout::{
    FRAME_HEADER_BYTES, FRAMES_START, NOTE_BYTES, NOTE_OFFSET, Note, PAGE_BYTES, SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSETS, Superblock, page_sum, salt,
};
use crate::lock::Locks;
use crate::map::Map;
use crate::open::Redundancy;
use crate::spill::Spill;
use crate::storage::{Flusher, Storage};
use crate::sums::{Compared, Sums};
use crate::{Durability, Region, Result};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// A journal up to this size is left as it is at the end; a longer one is worth two flushes of the heap file.
const CHECKPOINT_AT_CLOSE_BYTES: u64 = 1 << 20;
/// Where commits come from marks alone, they are brought to the heap file when so much of the journal waits: lines that change again and
/// again are written there once.
const APPLIED_LATE_BYTES: u64 = 256 << 10;
/// A running writer checkpoints when its journal exceeds a quarter of the heap, within these bounds.
const CHECKPOINT_BYTES: Range<u64> = 4 << 20..64 << 20;
/// A recycled journal file longer than this is cut.
const JOURNAL_KEPT_BYTES: u64 = 64 << 20;
/// While a writer runs, its note is behind by up to this much of the journal, which is what others read when they open.
const NOTE_EVERY_BYTES: u64 = 64 << 10;
/// The journal file grows in steps from this, written with zeros ahead, so that an append changes no metadata of the
/// file system and its flush is one write. (Where bytes are addressed, to have the space is enough.)
const JOURNAL_STEP_BYTES: Range<u64> = 32 << 10..8 << 20;
/// Space of the heap file is reserved ahead by an eighth of its size, within these bounds.
const HEAP_STEP_BYTES: Range<u64> = 64 << 10..256 << 20;
/// Private copies of committed pages beyond this many (64 MiB) are dropped after a commit.
const PRIVATE_PAGES_KEPT: usize = 16 << 10;
/// Adjacent lines are written back in pieces of up to this.
const APPLY_CHUNK_BYTES: u64 = 1 << 20;

/// So many runs, and so many pages' sums, are remembered of frames that were written: some megabytes.
const REMEMBERED_MAX: u64 = 128 << 10;
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

/// Files, locks and positions behind a region.
pub(crate) struct Backing {
    pub(crate) path: PathBuf,
    pub(crate) heap: Box<dyn Storage>,
    pub(crate) journal: Box<dyn Storage>,
    /// Its flusher, once one was asked for.
    pub(crate) flusher: Option<Option<Arc<dyn Flusher>>>,
    pub(crate) sums: Sums,
    /// Pages that did not hold their sums when the heap was opened with [`crate::Verify::Report`].
    pub(crate) unsound_pages: Vec<u64>,
    /// Found at opening with `Verify::Report`.
    pub(crate) redundancy: Redundancy,
    pub(crate) locks: Locks,
    pub(crate) writer: bool,
    pub(crate) superblock: Superblock,
    /// It was read, but nobody of this boot vouches that it is on the medium: a flush of it may have failed, with its
    /// bytes left clean in the cache. It is written again before the journal that it supersedes is overwritten.
    pub(crate) superblock_suspect: bool,
    /// Behind the last commit.
    pub(crate) tail: Tail,
    pub(crate) journal_len: u64,
    /// Commits up to here are known to be on the medium.
    pub(crate) flushed_seq: u64,
    /// Commits up to here are in the heap file.
    pub(crate) applied_seq: u64,
    /// Where the frame after those begins.
    pub(crate) applied_tail: Tail,
    /// The runs of the frames behind that, in their order, and where in the journal the content of each lies; none where this handle did not write
    /// all of them, or there are very many.
    pub(crate) unapplied: Option<Vec<(Range<u64>, u64)>>,
    /// The sum of each page that the frames since the checkpoint name, 0 where their writer did not know it; none as above.
    pub(crate) named_sums: Option<HashMap<u64, u64>>,
    /// Commits up to here are named durable by a frame in the journal, or by the superblock.
    pub(crate) testified_seq: u64,
    /// Commits of this generation that brought fresh space and are not testified yet.
    pub(crate) fresh_seqs: Vec<u64>,
    /// Frames found at open of which it is not known that they were flushed. After a failed flush the kernel may hold
    /// them clean in its cache and not on the medium, so they are written once more before the next flush.
    pub(crate) suspects: Vec<Frame>,
    /// Committed lines that the heap file does not hold yet, as a mask per page.
    pub(crate) pending: BTreeMap<u64, u64>,
    /// Committed pages of the working copy that were stored to, and so copied, since they were last dropped or spilled, but for
    /// those that are dirty now; an upper bound.
    pub(crate) private_pages: usize,
    /// The heap file has unflushed fresh space.
    pub(crate) heap_unflushed: bool,
    /// A file that its program makes longer: so long it is on the medium. See [`Storage::present_end`].
    pub(crate) durable_len: Option<u64>,
    /// What lies behind the committed end of the heap file is of no use: not so while a lost journal leaves that end in doubt.
    pub(crate) end_is_known: bool,
    /// Behind the committed end the heap file may hold what a commit that failed wrote there.
    pub(crate) has_leftovers: bool,
    /// Space of the heap file reserved so far; 0 when not looked at yet.
    pub(crate) allocated_end: u64,
    pub(crate) boot: [u8; 16],
    /// See [`Contents::nonce`].
    pub(crate) nonce: u64,
    /// The note as it stands beside the journal, if this boot can believe it.
    pub(crate) note: Option<Note>,
    pub(crate) poisoned: bool,
    /// Behind the tail there may be a whole frame that is no commit: an append that failed left it, or its fresh space had
    /// not arrived when the heap was opened. Fresh space written anew, or cut off, could make it one.
    pub(crate) tail_spoiled: bool,
    /// Of the last frame, for people.
    pub(crate) time_s: u64,
    /// The clock, in seconds since 1970.
    pub(crate) now_s: fn() -> u64,
}

impl Backing {
    pub(crate) fn committed_end(&self) -> u64 {
        self.tail.end
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        !self.writer
    }

    pub(crate) fn path_text(&self) -> String {
        self.path.display().to_string()
    }

    fn io(&self, action: &'static str, source: io::Error) -> Error {
        Error::io(self.path_text(), action, source)
    }

    pub(crate) fn check_writer(&self, action: &'static str) -> Result<()> {
        if self.poisoned {
            return Err(ErrorKind::Poisoned {
                path: self.path_text(),
            }
            .into());
        }
        if !self.writer {
            return Err(ErrorKind::NotAWriter {
                path: self.path_text(),
                action,
            }
            .into());
        }
        Ok(())
    }

    /// Whether the heap file's bytes of a page may be others on the medium: its space was given back, and the hole, which reads as zeros, may not
    /// have arrived. So only lines that a frame has are known to be there after a power cut: nothing can be concluded from the others, and
    /// they have no sum before the next checkpoint.
    pub(crate) fn is_hollow(&mut self, page: u64) -> io::Result<bool> {
        Ok(page * PAGE_BYTES < self.superblock.end && self.sums.is_unknown(page)?)
    }

    /// Rule 4: whatever `result` says, an error closes this handle for writing.
    pub(crate) fn poison_on_error(
        &mut self,
        action: &'static str,
        result: io::Result<()>,
    ) -> Result<()> {
        result.map_err(|source| {
            self.poisoned = true;
            self.io(action, source)
        })
    }

    /// Makes sure that the file has space up to `end`. Called before memory is handed out.
    pub(crate) fn reserve_space(&mut self, end: u64) -> Result<()> {
        if !self.writer {
            return Ok(()); // a snapshot's growth stays in memory
        }
        self.check_writer("grow")?;
        self.clear_tail(&mut CommitStats::default())?;
        if self.allocated_end == 0 {
            // What stands behind the committed end is garbage of a run that did not commit: fresh space must be zero.
            let committed = self.tail.end;
            self.heap
                .set_len(committed)
                .map_err(|e| self.io("cut the unused end", e))?;
            self.allocated_end = committed;
        }
        if end > self.allocated_end {
            let step = (end / 8)
                .clamp(HEAP_STEP_BYTES.start, HEAP_STEP_BYTES.end)
                .next_multiple_of(PAGE_BYTES);
            let limit = if self.superblock.limit == 0 {
                u64::MAX
            } else {
                self.superblock.limit
            };
            let from = self.allocated_end;
            let ahead = (end + step).min(limit).max(end);
            // Ahead is a wish, what is needed is a must.
            let got = match self.heap.allocate(from, ahead - from) {
                Ok(()) => ahead,
                Err(_) => {
                    self.heap
                        .allocate(from, end - from)
                        .map_err(|e| self.io("reserve space", e))?;
                    end
                }
            };
            self.allocated_end = got;
        }
        Ok(())
    }

    /// Makes the journal file long enough for a frame of `bytes` at the tail, ahead of it with zeros.
    fn reserve_journal(&mut self, bytes: u64) -> io::Result<()> {
        let needed = self.tail.offset + bytes;
        if needed <= self.journal_len {
            return Ok(());
        }
        let step = self
            .journal_len
            .clamp(JOURNAL_STEP_BYTES.start, JOURNAL_STEP_BYTES.end);
        let target = (needed + step).next_multiple_of(PAGE_BYTES);
        // Large frames are not written twice: only what lies behind the frame is filled.
        let from = if bytes > JOURNAL_STEP_BYTES.end {
            needed
        } else {
            self.journal_len
        };
        if self.journal.is_by_bytes() {
            self.journal.allocate(from, target - from)?;
        } else {
            let zeros = vec![0; (target - from) as usize];
            self.journal.write_at(&zeros, from)?;
        }
        self.journal_len = target;
        Ok(())
    }

    /// Writes once more what may be in the page cache only, see [`Backing::suspects`].
    fn rewrite_suspects(&mut self) -> io::Result<()> {
        for frame in std::mem::take(&mut self.suspects) {
            rewrite(
                &mut *self.journal,
                frame.offset,
                frame.end_offset() - frame.offset,
            )?;
            if frame.has_fresh() && frame.header.seq > self.testified_seq {
                let (start, end) = (frame.header.old_end, frame.header.new_end);
                rewrite(&mut *self.heap, start, end - start)?;
                self.heap_unflushed = true;
            }
        }
        Ok(())
    }

    /// Flushes the heap file. The note is withdrawn meanwhile: if the flush fails, lines that were applied may be clean
    /// in the cache and not on the medium, so they must be replayed, and nobody may believe that they need not.
    pub(crate) fn sync_heap(&mut self, stats: &mut CommitStats) -> Result<()> {
        let withdrawn = self.journal.write_at(&[0; NOTE_BYTES], NOTE_OFFSET);
        self.poison_on_error("write the journal's note", withdrawn)?;
        let len = self.heap.present_end();
        stats.flushes += 1;
        let synced = len.and_then(|len| self.heap.sync().map(|()| len));
        self.durable_len = *synced.as_ref().unwrap_or(&None);
        self.poison_on_error("flush the heap", synced.map(|_| ()))?;
        self.heap_unflushed = false;
        Ok(())
    }

    /// Brings every committed frame to the medium.
    fn flush(&mut self, stats: &mut CommitStats) -> Result<()> {
        if self.flushed_seq == self.tail.seq {
            return Ok(());
        }
        self.flush_all_but_journal(stats)?;
        let synced = self.journal.sync();
        self.journal_is_flushed(self.tail.seq, synced, stats)
    }

    /// What committed frames need to be true, on the medium: the first part of [`Backing::flush`].
    pub(crate) fn flush_all_but_journal(&mut self, stats: &mut CommitStats) -> Result<()> {
        let rewritten = self.rewrite_suspects();
        self.poison_on_error("write unflushed commits again", rewritten)?;
        if self.heap_unflushed {
            self.sync_heap(stats)?;
            self.store_note();
        }
        Ok(())
    }

    /// The last part: what became of a flush of the journal that began when frames up to `seq` were in it.
    pub(crate) fn journal_is_flushed(
        &mut self,
        seq: u64,
        outcome: io::Result<()>,
        stats: &mut CommitStats,
    ) -> Result<()> {
        stats.flushes += 1;
        self.poison_on_error("flush the journal", outcome)?;
        self.flushed_seq = self.flushed_seq.max(seq);
        Ok(())
    }

    /// Sees to it that what lies behind the tail can never be a frame again (see [`Backing::tail_spoiled`]): before the heap
    /// file changes behind its committed end, and before a commit that has nothing to say is reported durable.
    ///
    /// A frame takes its place, and not zeros: what it testifies must not be lost with it.
    fn clear_tail(&mut self, stats: &mut CommitStats) -> Result<()> {
        if self.tail_spoiled {
            self.testify(stats)?;
        }
        Ok(())
    }

    /// Appends a frame that says nothing but that all before it are durable, and flushes it (rule 2).
    fn testify(&mut self, stats: &mut CommitStats) -> Result<()> {
        let contents = Contents {
            generation: self.superblock.generation,
            durable_seq: self.flushed_seq,
            new_end: self.tail.end,
            time_s: self.time_s,
            nonce: self.nonce,
            pages: &[],
            page_sums: &[],
            fresh_sums: &[],
        };
        self.append(&contents, |_| &[], None, stats)?;
        self.flush(stats)
    }

    /// Appends a frame. Once this returns, the commit has happened; what can still fail is
    /// its way to the medium.
    fn append<'m>(
        &mut self,
        contents: &Contents<'_>,
        line: impl Fn(&Range<u64>) -> &'m [u8],
        spill: Option<&mut Spill>,
        stats: &mut CommitStats,
    ) -> Result<()> {
        if self.superblock_suspect {
            let bytes = self.superblock.encode();
            let rewritten = SUPERBLOCK_OFFSETS
                .iter()
                .try_for_each(|&at| self.heap.write_at(&bytes, at))
                .and_then(|()| self.heap.sync());
            stats.flushes += 1;
            self.poison_on_error("write the superblock again", rewritten)?;
            self.superblock_suspect = false;
        }
        let reserved = self.reserve_journal(contents.stored_bytes());
        reserved.map_err(|e| self.io("append to the journal", e))?;
        let heap = &mut *self.heap;
        let poisoned = &mut self.poisoned;
        let check = || match spill {
            Some(spill) => spill
                .check(heap, contents.new_end)
                .inspect_err(|_| *poisoned = true), // rule 4: it is reported once only
            None => Ok(()),
        };
        let appended = journal::append(&mut *self.journal, self.tail, contents, line, check);
        match appended {
            Ok((tail, bytes)) => {
                stats.journal_bytes += bytes;
                self.remember(contents);
                self.tail = tail;
                self.time_s = contents.time_s;
                self.tail_spoiled = false;
                self.note_testimony(contents.durable_seq);
                Ok(())
            }
            Err(error) => {
                self.tail_spoiled = true;
                let _ = self
                    .journal
                    .write_at(&[0; FRAME_HEADER_BYTES], self.tail.offset);
                Err(self.io("append to the journal", error))
            }
        }
    }

    /// What a frame that is being appended says, so that it need not be read again.
    fn remember(&mut self, contents: &Contents<'_>) {
        let (more_runs, more_sums) = (contents.run_count(), contents.sum_count());
        let fits = |have: usize, more: u64| have as u64 + more <= REMEMBERED_MAX;
        let runs = self.unapplied.as_mut();
        if let Some(runs) = runs.filter(|runs| fits(runs.len(), more_runs)) {
            let mut at = self.tail.offset + contents.lines_start();
            runs.extend(contents.runs().map(|run| {
                let from = at;
                at += run.end - run.start;
                (run, from)
            }));
        } else {
            self.unapplied = None;
        }
        let sums = self.named_sums.as_mut();
        if let Some(sums) = sums.filter(|sums| fits(sums.len(), more_sums)) {
            let changed = contents.pages.iter().map(|dirty| dirty.page);
            let fresh = self.tail.end / PAGE_BYTES..contents.new_end / PAGE_BYTES;
            sums.extend(changed.zip(contents.page_sums.iter().copied()));
            sums.extend(fresh.zip(contents.fresh_sums.iter().copied()));
        } else {
            self.named_sums = None;
        }
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

    fn note_testimony(&mut self, durable_seq: u64) {
        self.testified_seq = self.testified_seq.max(durable_seq);
        self.fresh_seqs.retain(|&seq| seq > durable_seq);
    }

    /// Brings the heap file to the last commit if all is flushed and no reader stands in the way; the working copy must
    /// be clean. Returns whether it did.
    fn apply(
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
                write_back(&mut *self.heap, &copies, &self.pending, whole_pages)
            }
            None => {
                let map = Committed::Map(map);
                write_back(&mut *self.heap, &map, &self.pending, whole_pages)
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

    /// Notes that everything committed is applied.
    fn write_note(&mut self) {
        if !self.superblock_suspect {
            self.note = Some(Note {
                boot: self.boot,
                generation: self.superblock.generation,
                applied_seq: self.applied_seq,
                tail: self.tail.offset,
                chain: self.tail.chain,
                end: self.tail.end,
                time_s: self.time_s,
            });
            self.store_note();
        }
    }

    /// The note saves work and nothing depends on it, so an error is none.
    pub(crate) fn store_note(&mut self) {
        if let Some(note) = &self.note {
            let _ = self.journal.write_at(&note.encode(), NOTE_OFFSET);
        }
    }

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
        let updated = self.sums.update(&next, |note| {
            let mut unknown = BTreeSet::new();
            let whole = match (sums, named) {
                (Some(sums), _) => {
                    let mut pages = (crate::DATA_START / PAGE_BYTES..).zip(sums);
                    pages.try_for_each(|(page, &sum)| note(page, sum))?;
                    true
                }
                (None, Some(named)) => {
                    for (page, sum) in named {
                        if sum == 0 {
                            unknown.insert(page);
                        } else {
                            note(page, sum)?;
                        }
                    }
                    true
                }
                (None, None) => frames.for_each_sum(&mut |page, sum| {
                    if sum == 0 {
                        unknown.insert(page);
                    } else {
                        unknown.remove(&page);
                    }
                    note(page, sum)
                })?,
            };
            // What their writer did not know is what was made of them.
            let mut bytes = vec![0; PAGE_BYTES as usize];
            for page in unknown {
                self.heap.read_at(&mut bytes, page * PAGE_BYTES)?;
                note(page, page_sum(&bytes))?;
            }
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
        self.named_sums = Some(HashMap::new());
        if self.journal_len > JOURNAL_KEPT_BYTES
            && self.journal.set_len(CHECKPOINT_BYTES.start).is_ok()
        {
            self.journal_len = CHECKPOINT_BYTES.start;
        }
        self.write_note();
        Ok(())
    }

    fn checkpoint_is_due(&self) -> bool {
        let journal = self.tail.offset - FRAMES_START;
        journal > (self.tail.end / 4).clamp(CHECKPOINT_BYTES.start, CHECKPOINT_BYTES.end)
    }
}

/// Reads a range and writes it back, so that the next flush covers it.
fn rewrite(storage: &mut dyn Storage, offset: u64, len: u64) -> io::Result<()> {
    let mut buffer = vec![0; len.min(APPLY_CHUNK_BYTES) as usize];
    let mut done = 0;
    while done < len {
        let chunk = &mut buffer[..(len - done).min(APPLY_CHUNK_BYTES) as usize];
        storage.read_at(chunk, offset + done)?;
        storage.write_at(chunk, offset + done)?;
        done += chunk.len() as u64;
    }
    Ok(())
}

/// Writes the pending lines to the heap file, adjacent ranges in one go; returns the bytes written. `whole_pages`: their other
/// lines too, which are the same there; where memory is short, a page that is written in part has to be read first.
fn write_back(
    heap: &mut dyn Storage,
    committed: &Committed<'_>,
    pending: &BTreeMap<u64, u64>,
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
    for (&page, &lines) in pending {
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

/// Writes runs that lie in the journal to the heap file: of each line the last content only. Returns the bytes written.
fn write_back_runs(
    journal: &dyn Storage,
    heap: &mut dyn Storage,
    runs: &[(Range<u64>, u64)],
) -> io::Result<u64> {
    let mut written: HashMap<u64, u64> = HashMap::new();
    let mut buffer = [0; PAGE_BYTES as usize];
    let mut total = 0;
    for (run, from) in runs.iter().rev() {
        let page = run.start / PAGE_BYTES;
        let all = DirtyPage::of(run);
        let done = written.entry(page).or_default();
        let lines = all.lines & !*done;
        *done |= lines;
        for part in (DirtyPage { page, lines }).runs() {
            let bytes = &mut buffer[..(part.end - part.start) as usize];
            journal.read_at(bytes, from + (part.start - run.start))?;
            heap.write_at(bytes, part.start)?;
            total += bytes.len() as u64;
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
        let mut dirty = self.cards.dirty();
        if dirty.is_empty() && self.end == old_end {
            if durability == Durability::Durable && backing.flushed_seq != backing.tail.seq {
                self.settle(&mut stats, false)?; // lazy commits before this one
            }
            return Ok(stats);
        }
        let present = backing.heap.present_end();
        if let Some(end) = present.map_err(|e| backing.io("ask its length", e))? {
            // What was stored behind the end of a file that was cut is gone.
            dirty.retain(|dirty| dirty.page < end.div_ceil(PAGE_BYTES));
        }
        // From here on the working copy of a program that stores by address is not looked at any more.
        let outside = &mut self.outside;
        let copies = match outside {
            Some(outside) if outside.keeps_copies() => outside.copy(&self.map, &dirty),
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
        for (dirty, sum) in dirty.iter().zip(&mut page_sums) {
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
            pages: &dirty,
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
        backing.has_leftovers = false;
        if stats.fresh_bytes > 0 {
            backing.fresh_seqs.push(stats.seq);
            backing.heap_unflushed = true;
        }
        let kept_max = private_pages_kept(&self.spill);
        if let Some(outside) = outside {
            outside.is_committed(&dirty, copies);
            // Nobody stores now: but for the pages of this commit, the heap file holds what private ones do.
            let many = backing.private_pages > kept_max || outside.sees_many();
            if many && backing.pending.is_empty() {
                drop_private_pages(backing, &mut self.map, &dirty, old_end)?;
            }
        }
        for page in &dirty {
            *backing.pending.entry(page.page).or_default() |= page.lines;
        }
        backing.end_is_known = true;
        backing.private_pages += unspilled;
        self.cards.clear();
        self.cards.set_tracked_end(self.end);
        // Fresh space that was committed becomes a private mapping of the file, so that its memory can be evicted.
        let remapped =
            self.spill
                .fresh_is_committed(&mut self.map, &*backing.heap, old_end..self.end);
        let watched = remapped.and_then(|()| match outside {
            Some(outside) => outside.watch(&self.map, old_end..self.end),
            None => Ok(()),
        });
        backing.poison_on_error("map the heap", watched)?;
        // Lines that wait to be written back are memory that the kernel cannot take back.
        let waiting = backing.private_pages as u64 * PAGE_BYTES;
        if durability == Durability::Durable || waiting > self.spill.budget.granted_at_least() / 2 {
            self.settle(&mut stats, false)?;
        }
        self.allow_growth();
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

    /// Flushes and applies what is committed, and checkpoints when that is due or `closing` makes it worth while. The
    /// working copy is clean.
    pub(crate) fn settle(&mut self, stats: &mut CommitStats, closing: bool) -> Result<()> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        backing.flush(stats)?;
        let waits = backing.tail.offset - backing.applied_tail.offset;
        let late = self.outside.as_ref().is_some_and(Outside::is_applied_late);
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
            drop_private_pages(backing, &mut self.map, &[], backing.tail.end)?;
        }
        let journal_bytes = backing.tail.offset - FRAMES_START;
        if backing.checkpoint_is_due() || closing && journal_bytes > CHECKPOINT_AT_CLOSE_BYTES {
            backing.checkpoint_if_unread(stats)?;
        }
        Ok(())
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

    /// All that is committed is in the heap file, and the working copy is clean: nothing needs to be elsewhere.
    fn spill_is_over(&mut self) -> Result<()> {
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

/// How many copies of committed pages are worth keeping.
fn private_pages_kept(spill: &Spill) -> usize {
    let granted = spill.budget.granted_at_least() / 2 / PAGE_BYTES;
    PRIVATE_PAGES_KEPT.min(usize::try_from(granted).unwrap_or(usize::MAX))
}

/// Drops the private copies of pages below `end` but for those in `kept`, which are in ascending order: the heap file holds the same.
fn drop_private_pages(
    backing: &mut Backing,
    map: &mut Map,
    kept: &[DirtyPage],
    end: u64,
) -> Result<()> {
    if backing.heap.mappable().is_none() {
        return Ok(());
    }
    backing.private_pages = 0;
    let mut from = crate::DATA_START;
    for to in kept
        .iter()
        .map(|dirty| dirty.page * PAGE_BYTES)
        .chain([end])
    {
        let dropped = map.drop_pages(from, to.max(from));
        backing.poison_on_error("drop private pages", dropped)?;
        from = to + PAGE_BYTES;
    }
    Ok(())
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
    /// [`Backing::checkpoint`], unless a reader is just opening or needs the journal.
    fn checkpoint_if_unread(&mut self, stats: &mut CommitStats) -> Result<bool> {
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
