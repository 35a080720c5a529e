//! Files, locks and positions behind a region, and how frames get into its journal and to the medium.
//!
//! The invariant: after a failed flush nothing more is written through this handle (rule 4 of `commit.rs`).

use crate::Result;
use crate::commit::{APPLY_CHUNK_BYTES, CommitStats};
use crate::error::{Error, ErrorKind};
use crate::file::Others;
use crate::journal::{self, Contents, Frame, Tail};
use crate::layout::{
    FRAME_HEADER_BYTES, NOTE_BYTES, NOTE_OFFSET, Note, PAGE_BYTES, SUPERBLOCK_OFFSETS, Superblock,
};
use crate::lock::Locks;
use crate::open::Redundancy;
use crate::pages::PageNotes;
use crate::spill::Spill;
use crate::storage::{Flusher, Storage};
use crate::sums::{Later, Sums};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// The journal file grows in steps from this, written with zeros ahead, so that an append changes no metadata of the
/// file system and its flush is one write. (Where bytes are addressed, to have the space is enough.)
const JOURNAL_STEP_BYTES: Range<u64> = 32 << 10..8 << 20;
/// Space of the heap file is reserved ahead by an eighth of its size, within these bounds.
const HEAP_STEP_BYTES: Range<u64> = 64 << 10..256 << 20;
/// So many runs, and so many pages' sums, are remembered of frames that were written: some megabytes.
const REMEMBERED_MAX: u64 = 128 << 10;

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
    pub(crate) named_sums: Option<PageNotes>,
    /// See [`Later`].
    pub(crate) later: Later,
    /// Commits up to here are named durable by a frame in the journal, or by the superblock.
    pub(crate) testified_seq: u64,
    /// Commits of this generation that brought fresh space and are not testified yet.
    pub(crate) fresh_seqs: Vec<u64>,
    /// Frames found at open of which it is not known that they were flushed. After a failed flush the kernel may hold
    /// them clean in its cache and not on the medium, so they are written once more before the next flush.
    pub(crate) suspects: Vec<Frame>,
    /// Committed lines that the heap file does not hold yet, as a mask per page.
    pub(crate) pending: PageNotes,
    /// Committed pages of the working copy that were stored to, and so copied, since they were last dropped or spilled, but for
    /// those that are dirty now; an upper bound.
    pub(crate) private_pages: usize,
    /// The heap file has unflushed fresh space.
    pub(crate) heap_unflushed: bool,
    /// A file that its program makes longer: so long it is on the medium. See [`Storage::present_end`].
    pub(crate) durable_len: Option<u64>,
    /// For a file of the program's own.
    pub(crate) others: Option<Others>,
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

    pub(crate) fn io(&self, action: &'static str, source: io::Error) -> Error {
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
    pub(crate) fn flush(&mut self, stats: &mut CommitStats) -> Result<()> {
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
    pub(crate) fn clear_tail(&mut self, stats: &mut CommitStats) -> Result<()> {
        if self.tail_spoiled {
            self.testify(stats)?;
        }
        Ok(())
    }

    /// Appends a frame that says nothing but that all before it are durable, and flushes it (rule 2).
    pub(crate) fn testify(&mut self, stats: &mut CommitStats) -> Result<()> {
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
    pub(crate) fn append<'m>(
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
        if let Some(sums) = sums.filter(|sums| fits(sums.len_max(), more_sums)) {
            let changed = contents.pages.iter().map(|dirty| dirty.page);
            let fresh = self.tail.end / PAGE_BYTES..contents.new_end / PAGE_BYTES;
            sums.extend(changed.zip(contents.page_sums.iter().copied()));
            sums.extend(fresh.zip(contents.fresh_sums.iter().copied()));
        } else {
            self.named_sums = None;
        }
    }

    fn note_testimony(&mut self, durable_seq: u64) {
        self.testified_seq = self.testified_seq.max(durable_seq);
        self.fresh_seqs.retain(|&seq| seq > durable_seq);
    }

    /// Notes that everything committed is applied.
    pub(crate) fn write_note(&mut self) {
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
