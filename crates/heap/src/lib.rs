//! Objects that survive: blocks, text, tables and named roots inside a [`region::Region`].
//!
//! A [`Heap`] is a region with an allocator and tables in it. Everything refers to everything by offset, so a heap may
//! lie anywhere in memory. The allocator's and the tables' own bookkeeping are stores like any other: commit makes them
//! permanent together with the data, abort and crash take them back together.
//!
//! The invariant: a heap file is untrusted. Whatever its bytes, every operation ends with a result or an error that names
//! an offset; none reads or writes outside the region.
//!
//! ```
//! use heap::{Cell, Heap};
//! let mut heap = Heap::volatile()?;
//! let words = heap.root("words")?;
//! let slot = heap.entry(words, b"river")?;
//! heap.cell_set_num(slot, 7.0)?;
//! let found = heap.find(words, b"river")?.expect("just inserted");
//! assert_eq!(heap.cell(found)?, Cell::Num(7.0));
//! # Ok::<(), heap::Error>(())
//! ```

mod alloc;
mod cell;
mod check;
mod fetch;
pub mod layout;
mod places;
mod program;
mod run;
mod sequence;
mod table;
mod walk;
mod zones;

pub use cell::{Cell, Slot};
pub use check::{Problem, Report};
pub use fetch::Fetched;
pub use region::{
    Access, ByAddress, CommitStats, Durability, Error, ErrorKind, Facts, Flush, Flushed, Forked,
    LIMIT_BYTES_MIN, Media, Memory, Missed, Options, Pin, Place, Result, Tracking, Verify,
    journal_path, mark_address, mark_closed_descriptors, mark_lines, reserve_card_space, sums_path,
};
pub use table::Table;
pub use walk::{Element, Elements};

use layout::{HEADER, HEAP_MAGIC, HEAP_VERSION, header};
use region::{DATA_START, PAGE_BYTES, Region};
use std::path::Path;

/// An open heap: a file's working copy, or anonymous memory. See the crate's documentation.
pub struct Heap {
    region: Region,
    /// From the header, where it never changes.
    hash_seed: u64,
    /// See `long_texts_written`.
    long_texts: u64,
    places: places::Places,
}

/// From this length on a text counts as long: see [`Heap::long_texts_written`].
pub const LONG_TEXT_BYTES: usize = 512;

impl Heap {
    /// A heap in anonymous memory, forgotten when dropped.
    ///
    /// # Errors
    /// When there is no address space.
    pub fn volatile() -> Result<Heap> {
        let mut heap = Heap {
            region: Region::volatile()?,
            hash_seed: 0,
            long_texts: 0,
            places: places::Places::new(),
        };
        heap.format()?;
        Ok(heap)
    }

    /// Opens the heap file `path`, or makes it; see [`Options`].
    ///
    /// # Errors
    /// Every way in which a file can be no heap, damaged, locked, or not ours to open has its [`ErrorKind`].
    pub fn open(path: &Path, options: Options) -> Result<Heap> {
        let without_journal = options.discard_journal && options.access == Access::Writer;
        let mut region = Region::open(path, options)?;
        if without_journal {
            zones::uncover_zones(&mut region)?;
        }
        Heap::on(region)
    }

    /// A heap on an open region: one that is empty is made a heap.
    ///
    /// # Errors
    /// When the region holds no heap, or one of another version.
    pub fn on(region: Region) -> Result<Heap> {
        let mut heap = Heap {
            region,
            hash_seed: 0,
            long_texts: 0,
            places: places::Places::new(),
        };
        if heap.region.end() == DATA_START {
            heap.format()?;
            if heap.region.is_persistent() && !heap.region.is_snapshot() {
                heap.region.commit(Durability::Durable)?;
            }
            return Ok(heap);
        }
        let r = &heap.region;
        if r.get::<u64>(HEADER + header::MAGIC)? != HEAP_MAGIC {
            return Err(r.damaged(HEADER, "the heap's header has another magic"));
        }
        let version: u32 = r.get(HEADER + header::VERSION)?;
        if version != HEAP_VERSION {
            return Err(r.damaged(
                HEADER + header::VERSION,
                format!("objects of format {version}, this program reads {HEAP_VERSION}"),
            ));
        }
        heap.hash_seed = r.get(HEADER + header::HASH_SEED)?;
        Ok(heap)
    }

    fn format(&mut self) -> Result<()> {
        self.region.extend(PAGE_BYTES)?;
        // RandomState's keys come from the operating system once a process; hashing nothing with them gives a secret.
        let seed =
            std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), self.region.end());
        let r = &mut self.region;
        r.put(HEADER + header::MAGIC, HEAP_MAGIC)?;
        r.put(HEADER + header::VERSION, HEAP_VERSION)?;
        r.put(HEADER + header::HASH_SEED, seed)?;
        self.hash_seed = seed;
        let roots = self.table_new()?;
        self.region.put(HEADER + header::ROOTS, roots.0)
    }

    /// Whether a file stands behind this heap.
    pub fn is_persistent(&self) -> bool {
        self.region.is_persistent()
    }

    /// Whether this is a reader's snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.region.is_snapshot()
    }

    /// What there is to tell about the files; none for memory.
    pub fn facts(&self) -> Option<Facts> {
        self.region.facts()
    }

    /// Where the heap lies in memory: for programs that store by address ([`Options::by_address`]).
    pub fn address(&self) -> usize {
        self.region.address()
    }

    /// Bytes from [`Heap::address`] on that are the heap's, to grow into.
    pub fn reserved_bytes(&self) -> u64 {
        self.region.reserved_bytes()
    }

    /// As [`Region::note_unseen_stores`].
    pub fn note_unseen_stores(&mut self) {
        self.region.note_unseen_stores();
    }

    /// As [`Region::watch_missed_stores`].
    pub fn watch_missed_stores(&mut self) {
        self.region.watch_missed_stores();
    }

    /// As [`Region::missed`].
    pub fn missed(&self) -> Missed {
        self.region.missed()
    }

    /// Bytes of the region in use or reserved for use.
    pub fn end_bytes(&self) -> u64 {
        self.region.end()
    }

    /// How many blocks are handed out.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn live_blocks(&self) -> Result<u64> {
        self.region.get(HEADER + header::LIVE_BLOCKS)
    }

    /// Usable bytes of the blocks that are handed out.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn live_bytes(&self) -> Result<u64> {
        self.region.get(HEADER + header::LIVE_BYTES)
    }

    /// The table of all named roots: name to table.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn roots(&self) -> Result<Table> {
        let offset = self.inside(self.region.get(HEADER + header::ROOTS)?)?;
        Ok(Table(offset))
    }

    /// The root `name`, a table; made if there is none.
    ///
    /// # Errors
    /// When the heap is full or damaged.
    pub fn root(&mut self, name: &str) -> Result<Table> {
        if let Some(table) = self.root_find(name)? {
            return Ok(table);
        }
        let roots = self.roots()?;
        let table = self.table_new()?;
        match self.entry(roots, name.as_bytes()) {
            Ok(slot) => {
                self.cell_set(slot, Cell::Table(table))?;
                Ok(table)
            }
            Err(error) => {
                self.table_free(table)?; // a full heap must not keep what nothing refers to
                Err(error)
            }
        }
    }

    /// An offset that was read out of the heap, before anything is added to it: such sums cannot overflow afterwards.
    #[inline]
    fn inside(&self, offset: u64) -> Result<u64> {
        if offset < self.region.end() {
            Ok(offset)
        } else {
            Err(self.outside(offset))
        }
    }

    #[cold]
    #[inline(never)]
    fn outside(&self, offset: u64) -> Error {
        self.region.damaged(
            offset,
            format!(
                "a reference to beyond the end of the heap ({} bytes)",
                self.region.end()
            ),
        )
    }

    /// The root `name`, if there is one.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn root_find(&self, name: &str) -> Result<Option<Table>> {
        let Some(slot) = self.find(self.roots()?, name.as_bytes())? else {
            return Ok(None);
        };
        match self.cell(slot)? {
            Cell::Table(table) => Ok(Some(table)),
            _ => Err(self
                .region
                .damaged(slot.0, format!("the root \"{name}\" is no table"))),
        }
    }

    /// Makes every change since the last commit permanent, all at once; see [`Region::commit`]. Nothing for memory.
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn commit(&mut self, durability: Durability) -> Result<CommitStats> {
        self.region.commit(durability)
    }

    /// Waits until every commit so far is on the medium.
    ///
    /// # Errors
    /// As [`Region::flush`].
    pub fn flush(&mut self) -> Result<CommitStats> {
        self.region.flush()
    }

    /// Makes a copy of the process, in which this heap is a reader's snapshot.
    ///
    /// # Errors
    /// As [`Region::fork`].
    pub fn fork(&mut self) -> Result<Forked> {
        self.region.fork()
    }

    /// As [`Region::make_durable`].
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn make_durable(&mut self) -> Result<CommitStats> {
        self.region.make_durable()
    }

    /// As [`Region::flushes_at_once`].
    pub fn flushes_at_once(&self) -> bool {
        self.region.flushes_at_once()
    }

    /// As [`Region::begin_flush`].
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn begin_flush(&mut self) -> Result<Option<Flush>> {
        self.region.begin_flush()
    }

    /// As [`Region::end_flush`].
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn end_flush(&mut self, flushed: Flushed) -> Result<CommitStats> {
        self.region.end_flush(flushed)
    }

    /// As [`Region::commits`].
    pub fn commits(&self) -> u64 {
        self.region.commits()
    }

    /// As [`Region::durable_commits`].
    pub fn durable_commits(&self) -> u64 {
        self.region.durable_commits()
    }

    /// As [`Region::prepare_fork`].
    ///
    /// # Errors
    /// As [`Region::prepare_fork`].
    pub fn prepare_fork(&self) -> Result<Pin> {
        self.region.prepare_fork()
    }

    /// As [`Region::become_child`].
    pub fn become_child(&mut self, pin: Pin) {
        self.region.become_child(pin);
    }

    /// Back to the last commit. Every [`Table`] and [`Slot`] handed out since is void.
    ///
    /// # Errors
    /// As [`Region::abort`].
    pub fn abort(&mut self) -> Result<()> {
        self.long_texts += 1;
        self.places.forget_all();
        self.region.abort()
    }

    /// How often the bytes of a text of at least [`LONG_TEXT_BYTES`] may have changed: as long as it stays the same, the
    /// same address and length mean the same text, so that what was found out about it still holds.
    pub fn long_texts_written(&self) -> u64 {
        self.long_texts
    }

    /// Takes the bytes of the last commit as they are: notes the sum of every page anew. See [`Region::reseal`].
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn reseal(&mut self) -> Result<bool> {
        self.region.reseal()
    }

    /// Gives the heap up; what was not committed is forgotten. Free space that is worth it goes back to the file system.
    ///
    /// # Errors
    /// As [`Region::close`]; nothing committed is lost by an error.
    pub fn close(mut self, durability: Durability) -> Result<CommitStats> {
        let mut trimmed = CommitStats::default();
        if self.is_persistent()
            && !self.is_snapshot()
            && durability == Durability::Durable
            && self.has_undiscarded_zones()?
        {
            self.places.forget_all();
            self.region.abort()?;
            if self.region.checkpoint()? && self.discard_free_zones()? > 0 {
                trimmed = self.region.commit(Durability::Durable)?;
            }
        }
        let mut stats = self.region.close(durability)?;
        stats.flushes += trimmed.flushes;
        stats.journal_bytes += trimmed.journal_bytes;
        Ok(stats)
    }
}
