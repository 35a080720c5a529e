//! Growth by much more than is used: a program that asks for gigabytes and stores to a few pages of them.
//!
//! Fresh space is written to its place when it is committed, which costs what it is long. Where most of it was never touched, the
//! heap's end moves by a checkpoint instead: the file's space there is reserved and reads as zeros, which is what was committed then; and
//! what was touched becomes changed lines like any other.
//!
//! The invariant: before a superblock names the new end, the file has its space up to there, and it is zeros.

use crate::layout::PAGE_BYTES;
use crate::{CommitStats, Error, Region, Result};
use std::ops::Range;

/// Smaller growth is written as it is.
pub(crate) const UNTOUCHED_BYTES_MIN: u64 = 64 << 20;
/// And growth of which more than this part was touched: its pages would be written twice.
const TOUCHED_PART_MAX: u64 = 8;

impl Region {
    /// Moves the committed end over fresh space that is mostly untouched. Nothing where that does not apply, or a reader pins an earlier
    /// commit. What was stored is as uncommitted as before.
    pub(crate) fn commit_sparse_growth(&mut self, stats: &mut CommitStats) -> Result<()> {
        let (Some(outside), Some(backing)) = (&mut self.outside, &mut self.backing) else {
            return Ok(());
        };
        let fresh = backing.committed_end()..self.end;
        if fresh.end - fresh.start < UNTOUCHED_BYTES_MIN || backing.has_leftovers {
            return Ok(());
        }
        let path = backing.path_text();
        let io = |action: &'static str| {
            let path = path.clone();
            move |e| Error::io(path, action, e)
        };
        let mut runs = Vec::new();
        let note = &mut |run: Range<u64>| runs.push(run);
        outside
            .private_pages(&self.map, fresh.clone(), note)
            .map_err(io("find out what was stored"))?;
        let touched: u64 = runs.iter().map(|run| run.end - run.start).sum();
        if touched > (fresh.end - fresh.start) / TOUCHED_PART_MAX
            || !backing.checkpoint_at(fresh.end, &self.map, outside, &self.spill, stats)?
        {
            return Ok(());
        }
        let mut kept = Vec::with_capacity(touched as usize);
        for run in &runs {
            kept.extend_from_slice(self.map.slice(run.start, run.end));
        }
        let mapped = self
            .spill
            .fresh_is_committed(&mut self.map, &*backing.heap, fresh.clone())
            .and_then(|()| outside.watch(&self.map, fresh.clone()));
        backing.poison_on_error("map the heap", mapped)?;
        self.cards.set_tracked_end(fresh.end);
        let mut rest = &kept[..];
        for run in &runs {
            let (bytes, behind) = rest.split_at((run.end - run.start) as usize);
            // Pages of zeros, a stack's or an arena's, are what is committed already.
            for (at, page) in (run.start..)
                .step_by(PAGE_BYTES as usize)
                .zip(bytes.chunks(PAGE_BYTES as usize))
            {
                if page.iter().any(|&b| b != 0) {
                    self.map
                        .slice_mut(at, at + PAGE_BYTES)
                        .copy_from_slice(page);
                    self.cards.mark(at, PAGE_BYTES);
                }
            }
            rest = behind;
        }
        // These stores are ours, and marked.
        let seen = outside.watch_from_now(&self.map, fresh);
        seen.map_err(io("watch its pages"))
    }
}
