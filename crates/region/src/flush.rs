//! Flushing beside the others: one thread waits for the medium while others store, allocate and commit.
//!
//! The invariant: a commit counts as durable only if it was in the journal, and everything it rests on was flushed, before the flush of the
//! journal began that says so.

use crate::commit::CommitStats;
use crate::storage::Flusher;
use crate::{Region, Result};
use std::io;
use std::sync::Arc;

/// Committed frames are brought to the heap file when so much of the journal waits, even if there are newer ones that a flush must be waited for
/// first: else threads that always commit would let it grow.
const WAITING_BYTES_MAX: u64 = 4 << 20;

/// A flush that is to be done: see [`Region::begin_flush`].
pub struct Flush {
    flusher: Arc<dyn Flusher>,
    seq: u64,
    stats: CommitStats,
}

/// What became of it.
pub struct Flushed {
    seq: u64,
    stats: CommitStats,
    outcome: io::Result<()>,
}

impl Flush {
    /// Waits for the medium. Needs nothing of the region, which others may use meanwhile.
    pub fn run(self) -> Flushed {
        Flushed {
            outcome: self.flusher.flush(),
            seq: self.seq,
            stats: self.stats,
        }
    }
}

impl Region {
    /// Whether the medium takes no time to speak of: a commit may as well be durable at once.
    pub fn flushes_at_once(&self) -> bool {
        let backing = self.backing.as_ref();
        backing.is_none_or(|backing| backing.journal.is_by_bytes())
    }

    /// As [`Region::make_durable`], in three steps: this one, [`Flush::run`], [`Region::end_flush`]. The commits so far are durable when the
    /// third returned; between the first and the third the region may be used, but one such flush is enough at a time. None: they are durable now.
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn begin_flush(&mut self) -> Result<Option<Flush>> {
        let Some(backing) = &mut self.backing else {
            return Ok(None);
        };
        backing.check_writer("flush")?;
        let journal = &*backing.journal;
        let flusher = backing.flusher.get_or_insert_with(|| journal.flusher());
        let Some(flusher) = flusher.clone().filter(|_| self.outside.is_some()) else {
            return self.make_durable().map(|_| None);
        };
        if backing.flushed_seq == backing.tail.seq {
            return Ok(None);
        }
        let mut stats = CommitStats::default();
        backing.flush_all_but_journal(&mut stats)?;
        Ok(Some(Flush {
            flusher,
            seq: backing.tail.seq,
            stats,
        }))
    }

    /// The last of the three steps.
    ///
    /// # Errors
    /// As [`Region::commit`]: when the flush failed the handle is poisoned.
    pub fn end_flush(&mut self, flushed: Flushed) -> Result<CommitStats> {
        let Flushed {
            seq,
            mut stats,
            outcome,
        } = flushed;
        let Some(backing) = &mut self.backing else {
            return Ok(stats);
        };
        backing.check_writer("flush")?;
        stats.seq = seq;
        backing.journal_is_flushed(seq, outcome, &mut stats)?;
        let waits = backing.tail.offset - backing.applied_tail.offset;
        if backing.flushed_seq == backing.tail.seq || waits > WAITING_BYTES_MAX {
            self.settle(&mut stats, false)?;
        }
        Ok(stats)
    }
}
