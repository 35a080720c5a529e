//! Going back to the last commit: what was stored since is forgotten, wherever it was spilled to.
//!
//! The invariant: afterwards the working copy holds the last commit, whether the heap file does or its journal.

use crate::backing::Backing;
use crate::cards::DirtyPage;
use crate::journal;
use crate::layout::PAGE_BYTES;
use crate::map::Map;
use crate::open::{OPENING_LIMIT, read_superblock};
use crate::private::read_again;
use crate::spill::{Replayed, Spill};
use crate::{Region, Result};
use std::io;
use std::ops::Range;

impl Region {
    /// Back to the last commit: forgets every store since.
    ///
    /// # Errors
    /// When the committed bytes cannot be read again; then the region is poisoned.
    pub fn abort(&mut self) -> Result<()> {
        let dirty = self.stored_pages()?;
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        let committed = backing.tail.end;
        self.cards.clear();
        let fresh_end = std::mem::replace(&mut self.end, committed);
        let fresh = committed..fresh_end;
        let (map, spill) = (&mut self.map, &mut self.spill);
        let grown = match &self.outside {
            Some(outside) => outside.private.grown().clone(),
            None => 0..0,
        };
        let restored = if backing.writer {
            restore(map, spill, backing, &dirty, fresh, &grown, true)
        } else {
            restore_snapshot(map, spill, backing, &dirty, fresh, &grown)
        };
        backing.poison_on_error("go back to the last commit", restored)?;
        if let Some(outside) = &mut self.outside {
            outside.is_undone();
        }
        self.allow_growth();
        Ok(())
    }
}

/// [`restore`] for a reader, which does not own the journal: while it was away the writer may have brought the pinned commit
/// to the heap file and recycled the journal. Nothing later can have been applied (rule 1), so the file is enough then.
fn restore_snapshot(
    map: &mut Map,
    spill: &mut Spill,
    backing: &mut Backing,
    dirty: &[DirtyPage],
    fresh: Range<u64>,
    grown: &Range<u64>,
) -> io::Result<()> {
    // Keeps the writer from applying and recycling between the question and the reading.
    if !backing.locks.begin_opening(OPENING_LIMIT)? {
        return Err(io::Error::other(
            "the writer is writing back and does not finish",
        ));
    }
    let done = read_superblock(&*backing.heap, &backing.path_text())
        .map_err(io::Error::other)
        .and_then(|now| {
            let journal_is_ours = now.generation == backing.superblock.generation;
            restore(map, spill, backing, dirty, fresh, grown, journal_is_ours)
        });
    backing.locks.release_opening()?;
    done
}

/// Brings the pages in `dirty` back to the committed state, and the fresh ones to zeros. What the heap file does not
/// hold is replayed from the journal, unless `with_journal` says that it holds everything by now.
fn restore(
    map: &mut Map,
    spill: &mut Spill,
    backing: &mut Backing,
    dirty: &[DirtyPage],
    fresh: Range<u64>,
    grown: &Range<u64>,
    with_journal: bool,
) -> io::Result<()> {
    map.drop_pages(spill.fresh_start(fresh.start).min(fresh.end), fresh.end)?;
    if spill.fresh_is_mapped() {
        spill.forget_fresh(map, fresh.start)?;
        if backing.writer && !backing.poisoned {
            // What was there is garbage now, and fresh space is zero.
            backing.heap.set_len(fresh.start)?;
            backing.allocated_end = fresh.start;
        }
    }
    let spilled = if spill.has_granules() {
        spill.forget_granules(map, &*backing.heap, fresh.start)?
    } else {
        Vec::new()
    };
    let mut pending_hit = spilled.iter().any(|run| {
        let pages = run.start / PAGE_BYTES..run.end.div_ceil(PAGE_BYTES);
        backing.pending.has_any(pages)
    });
    let mut pages = dirty.iter().peekable();
    while let Some(first) = pages.next() {
        let mut last = first.page;
        pending_hit |= backing.pending.of(first.page).is_some();
        while let Some(next) = pages.next_if(|next| next.page == last + 1) {
            last = next.page;
            pending_hit |= backing.pending.of(last).is_some();
        }
        let range = first.page * PAGE_BYTES..(last + 1) * PAGE_BYTES;
        map.drop_pages(range.start, range.end)?;
        read_again(map, backing, range, grown)?;
    }
    if pending_hit && with_journal {
        backing.replay_pending(map, spill, |page| {
            dirty.binary_search_by_key(&page, |d| d.page).is_ok()
                || is_in(&spilled, page * PAGE_BYTES)
        })?;
    }
    Ok(())
}

/// Whether one of `runs`, which are in ascending order, has `offset`.
fn is_in(runs: &[Range<u64>], offset: u64) -> bool {
    let behind = runs.partition_point(|run| run.start <= offset);
    behind > 0 && offset < runs[behind - 1].end
}

impl Backing {
    /// Copies the lines of committed frames that the heap file does not hold yet into the pages that `wanted` names.
    fn replay_pending(
        &mut self,
        map: &mut Map,
        spill: &mut Spill,
        wanted: impl Fn(u64) -> bool,
    ) -> io::Result<()> {
        let mut replayed = Replayed::new(self.tail.end);
        let (journal, heap, path) = (&*self.journal, &*self.heap, &self.path);
        let present = heap.present_end()?.unwrap_or(u64::MAX);
        if let Some(runs) = &self.unapplied {
            for (run, from) in runs {
                let page = run.start / PAGE_BYTES;
                if wanted(page) && run.start < present {
                    journal.read_at(map.slice_mut(run.start, run.end), *from)?;
                    replayed.note(page, map, spill, heap, path);
                }
            }
            self.private_pages += replayed.private_pages();
            return Ok(());
        }
        let mut contents = journal::RunBytes::of(journal)?;
        let whole = journal::for_each_frame(
            journal,
            self.journal_len,
            &self.superblock,
            self.tail.offset,
            |frame| {
                if frame.header.seq <= self.applied_seq {
                    return Ok(true);
                }
                let runs = journal::for_each_run(journal, frame, |run, at| {
                    let page = run.start / PAGE_BYTES;
                    if !wanted(page) || run.start >= present {
                        return Ok(());
                    }
                    contents.read(map.slice_mut(run.start, run.end), at)?;
                    replayed.note(page, map, spill, heap, path);
                    Ok(())
                })?;
                Ok(runs.is_ok())
            },
        )?;
        self.private_pages += replayed.private_pages();
        if !whole {
            return Err(io::Error::other(
                "a frame of the journal that was valid is not any more",
            ));
        }
        Ok(())
    }
}
