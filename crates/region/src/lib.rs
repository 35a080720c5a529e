//! Bytes that survive: a file whose content changes atomically.
//!
//! A [`Region`] is a span of memory, from offset 0 to [`Region::end`], that is the private working copy of a
//! file. [`Region::commit`] makes all stores since the last commit permanent at once; [`Region::abort`] forgets
//! them. After a crash at any moment the file, together with its journal, holds exactly some committed state: the
//! last durable one or a later one, never a mixture. `docs/format.md` draws the files and argues the cases.
//!
//! The invariant of this crate: **no uncommitted byte ever reaches the committed part of the heap file.** It knows
//! bytes, lines and pages; it knows nothing of the objects that live in them (that is the crate `heap`).
//!
//! Without a file ([`Region::volatile`]) the same memory is anonymous, and commit and abort are not available.

mod abort;
mod apply;
mod backing;
mod budget;
mod by_address;
mod card_space;
mod cards;
mod checkpoint;
mod commit;
mod create;
mod dax;
mod descriptors;
mod error;
#[cfg(test)]
mod faulty;
mod file;
mod flush;
mod fork;
mod journal;
pub mod layout;
mod lock;
mod map;
mod marks;
mod memory;
mod open;
mod pages;
mod private;
mod read;
mod registry;
mod sparse;
mod spill;
pub mod storage;
mod sums;
mod sync;
mod watch;
mod written;

pub use by_address::{ByAddress, Missed, Place, Tracking};
pub use card_space::reserve_card_space;
pub use commit::CommitStats;
pub use dax::Media;
pub use descriptors::mark_closed_descriptors;
pub use error::{Error, ErrorKind};
pub use flush::{Flush, Flushed};
pub use fork::{Forked, Pin};
pub use layout::{DATA_START, LINE_BYTES, PAGE_BYTES};
pub use memory::Memory;
pub use open::{
    Access, Facts, LIMIT_BYTES_MIN, Options, Redundancy, Verify, journal_path, sums_path,
};
pub use registry::{mark_address, mark_lines};
pub use storage::Storage;

/// The result of every operation that may fail here.
pub type Result<T> = std::result::Result<T, Error>;

/// Whether [`Region::commit`] waits for the medium.
///
/// Atomicity is not a choice: with either, a crash leaves some committed state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Commit returns after the flush: the state survives a power cut.
    #[default]
    Durable,
    /// No flush on the critical path: a killed process loses nothing, a power cut may go back to an earlier commit. (Where
    /// memory is short a commit may flush all the same: see [`Options::memory_budget_bytes`].)
    Lazy,
}

/// The working copy of a heap file, or anonymous memory. See the crate's documentation.
pub struct Region {
    /// Dirty lines. Gone before the memory is: as long as they can be found by address, nobody else may lie there.
    cards: cards::Cards,
    /// Memory.
    map: map::Map,
    /// One past the last byte that may be used, in the working copy; a multiple of the page.
    end: u64,
    /// The largest `end` allowed, from the superblock or from the reservation of addresses.
    end_max: u64,
    /// What stands behind the memory; none for a volatile region.
    backing: Option<backing::Backing>,
    /// What of the memory is in files before it is committed, because there is too much of it.
    spill: spill::Spill,
    /// For programs that store by address.
    outside: Option<by_address::Outside>,
}

impl Region {
    /// Anonymous memory that behaves like a heap file's working copy and is forgotten at the end.
    ///
    /// # Errors
    /// When not even a gigabyte of address space can be reserved.
    pub fn volatile() -> Result<Region> {
        let map = map::Map::reserve(layout::RESERVE_BYTES_MAX)?;
        let end_max = map.len();
        let cards = cards::Cards::none();
        Ok(Region {
            map,
            cards,
            end: DATA_START,
            end_max,
            backing: None,
            spill: spill::Spill::new(None),
            outside: None,
        })
    }

    /// One past the last usable byte of the working copy.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// One past the last byte of the last commit; [`DATA_START`] for a region never committed.
    pub fn committed_end(&self) -> u64 {
        self.backing
            .as_ref()
            .map_or(DATA_START, |b| b.committed_end())
    }

    /// Whether a file stands behind this region.
    pub fn is_persistent(&self) -> bool {
        self.backing.is_some()
    }

    /// Whether this region is a reader's snapshot: its changes are private and cannot be committed.
    pub fn is_snapshot(&self) -> bool {
        self.backing.as_ref().is_some_and(|b| b.is_snapshot())
    }

    /// Makes `bytes` more bytes usable at the end (rounded up to whole pages), zeroed, and returns their offset.
    ///
    /// The file's space is reserved before the memory is handed out, so that a full disk is an error here and not a
    /// signal later.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] at the region's limit, [`ErrorKind::MemoryFull`] without a file, [`ErrorKind::Io`] when the file system has no room.
    pub fn extend(&mut self, bytes: u64) -> Result<u64> {
        let start = self.end;
        let new_end = bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .and_then(|bytes| start.checked_add(bytes))
            .filter(|&end| end <= self.end_max || self.grow_reservation(end))
            .ok_or_else(|| self.full(bytes))?;
        if let Some(backing) = &mut self.backing {
            backing.reserve_space(new_end)?;
        }
        // Huge pages for what is filled; who asks for very much at once by address may hardly use it.
        let is_filled = self.outside.is_none() || bytes < sparse::UNTOUCHED_BYTES_MIN;
        if is_filled && !self.spill.fresh_is_mapped() {
            self.map.prepare(start, new_end);
        }
        self.end = new_end;
        if new_end > self.spill.end_max() {
            self.relieve();
        }
        Ok(start)
    }

    /// Where a program stores by address, address space is reserved as it is needed: homes of other heaps lie behind.
    #[cold]
    fn grow_reservation(&mut self, end: u64) -> bool {
        let limit = match &self.backing {
            Some(backing) if backing.superblock.limit != 0 => backing.superblock.limit,
            _ => layout::RESERVE_BYTES_MAX,
        };
        if self.outside.is_none() || end > limit {
            return false;
        }
        let len = end.next_multiple_of(layout::arena::HOME_STEP);
        // Memory first: cards of what is not there are never looked at.
        if len > self.map.len() && !self.map.grow(len) || !self.cards.grow(len) {
            return false;
        }
        self.end_max = self.map.len().min(limit);
        true
    }

    #[cold]
    fn full(&self, wanted_bytes: u64) -> Error {
        let limit_bytes = self.end_max;
        match &self.backing {
            Some(backing) => ErrorKind::Full {
                path: backing.path_text(),
                limit_bytes,
                wanted_bytes,
            },
            None => ErrorKind::MemoryFull {
                limit_bytes,
                wanted_bytes,
            },
        }
        .into()
    }

    /// The name to use in messages.
    fn path_text(&self) -> String {
        self.backing
            .as_ref()
            .map_or_else(|| "(memory)".into(), |b| b.path_text())
    }
}
