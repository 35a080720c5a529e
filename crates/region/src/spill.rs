//! Working copies larger than memory: what was stored and is not committed goes to files when it exceeds the budget, and is
//! mapped from there, so that the kernel can take its memory back.
//!
//! * *Fresh space* (behind the committed end) goes to its place in the heap file: nobody looks there until a frame names it.
//! * *Copies of committed pages* go to a scratch file without a name, at the same offsets, in granules, so that the number of
//!   mappings stays bounded. It dies with the process.
//!
//! Both are mapped shared: from then on stores reach the file by themselves, and a page that is stored to again needs no
//! bookkeeping. The invariant: spilling changes no byte of the working copy and none of the committed part of the heap file, so
//! the protocol of `commit.rs` does not know of it; and every byte that is mapped shared has its space in the file.
//!
//! Spilling is tried and not needed: where it fails (no room for scratch, say) all stays in memory as before.

use crate::budget::Budget;
use crate::layout::{DATA_START, PAGE_BYTES};
use crate::map::Map;
use crate::storage::{FileStorage, Storage};
use crate::{Error, Region, Result};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes are moved to files in pieces of this.
const PIECE_BYTES: u64 = 1 << 20;
/// So much may wait for the medium at once: enough to keep it busy, little beside any budget. Without such a bound dirty
/// pages fill a control group of version 1, which does not slow writers down, and its killer comes.
const WAITING_BYTES: u64 = 16 << 20;
/// A granule has at least this, and there are at most [`GRANULES_MAX`] of them: twice as many mappings are a quarter of
/// what Linux allows a process.
const GRANULE_BYTES_MIN: u64 = 64 << 10;
const GRANULES_MAX: u64 = 16 << 10;
/// Smaller heaps are taken to fit into memory.
const ADVISED_FROM_BYTES: u64 = 256 << 20;
/// Space of the scratch file for a snapshot's growth is reserved ahead by this.
const SCRATCH_STEP_BYTES: u64 = 16 << 20;

/// What was spilled, and where to.
pub(crate) struct Spill {
    pub(crate) budget: Budget,
    scratch: Option<FileStorage>,
    /// Spilling failed: nothing more is tried.
    disabled: bool,
    granule_bytes: u64,
    /// A bit for each granule of committed space: it is mapped from the scratch file.
    granules: Vec<u64>,
    /// One past the fresh space that is mapped shared, from the committed end on; 0 if there is none.
    fresh_end: u64,
    /// Up to here fresh space was given to `pacer`.
    paced_end: u64,
    pacer: Pacer,
    /// The region's end beyond which it is time to look at the budget again.
    end_max: u64,
}

/// Bounds what waits to be written to the medium.
#[derive(Default)]
struct Pacer {
    asked: VecDeque<Range<u64>>,
    asked_bytes: u64,
}

impl Pacer {
    /// Asks for `range` to be written; returns what was written by now.
    fn push(&mut self, storage: &mut dyn Storage, range: Range<u64>) -> io::Result<Range<u64>> {
        let mut before = 0..0;
        if self.asked_bytes > WAITING_BYTES {
            before = self.asked.pop_front().unwrap_or(before);
            self.asked_bytes -= before.end - before.start;
        }
        self.asked_bytes += range.end - range.start;
        self.asked.push_back(range.clone());
        storage.write_back(range, before.clone())?;
        Ok(before)
    }
}

impl Spill {
    /// With a budget of so many bytes, or what the machine has room for.
    pub(crate) fn new(budget_bytes: Option<u64>) -> Spill {
        Spill {
            budget: Budget::new(budget_bytes),
            scratch: None,
            disabled: false,
            granule_bytes: 0,
            granules: Vec::new(),
            fresh_end: 0,
            paced_end: 0,
            pacer: Pacer::default(),
            end_max: u64::MAX,
        }
    }

    #[inline]
    pub(crate) fn end_max(&self) -> u64 {
        self.end_max
    }

    /// Whether fresh space is mapped from a file, and not anonymous memory.
    pub(crate) fn fresh_is_mapped(&self) -> bool {
        self.fresh_end != 0
    }

    /// One past the fresh space that is in its place in the file already, without a write; `committed_end` if none is.
    pub(crate) fn fresh_start(&self, committed_end: u64) -> u64 {
        self.fresh_end.max(committed_end)
    }

    /// Whether anything is mapped shared.
    pub(crate) fn is_active(&self) -> bool {
        self.fresh_is_mapped() || self.has_granules()
    }

    /// Whether copies of committed pages are in the scratch file.
    pub(crate) fn has_granules(&self) -> bool {
        !self.granules.is_empty()
    }

    fn has_granule(&self, index: u64) -> bool {
        let word = self.granules.get(index as usize / 64);
        word.is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// The parts of `[0, end)` that are mapped from the scratch file, adjacent granules as one.
    fn granule_runs(&self, end: u64) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for index in 0..self.granules.len() as u64 * 64 {
            if !self.has_granule(index) {
                continue;
            }
            let start = index * self.granule_bytes;
            let range = start..(start + self.granule_bytes).min(end);
            match runs.last_mut().filter(|run| run.end == range.start) {
                Some(run) => run.end = range.end,
                None => runs.push(range),
            }
        }
        runs.retain(|run| !run.is_empty());
        runs
    }

    /// Moves the granules of `pages` (in any order, repeated or not), which lie below `committed_end`, to the scratch file.
    /// `heap` tells where that should lie.
    pub(crate) fn move_pages(
        &mut self,
        map: &mut Map,
        heap: &dyn Storage,
        path: &Path,
        pages: impl Iterator<Item = u64>,
        committed_end: u64,
    ) -> io::Result<()> {
        if self.granules.is_empty() {
            self.granule_bytes = (committed_end / GRANULES_MAX)
                .next_power_of_two()
                .max(GRANULE_BYTES_MIN);
        }
        let granule_pages = self.granule_bytes / PAGE_BYTES;
        let mut wanted: Vec<u64> = pages
            .map(|page| page / granule_pages)
            .filter(|&index| !self.has_granule(index))
            .collect();
        wanted.sort_unstable();
        wanted.dedup();
        let scratch = match &mut self.scratch {
            Some(scratch) => scratch,
            none => none.insert(scratch_file(heap.mappable(), path)?),
        };
        let mut pacer = Pacer::default();
        for &index in &wanted {
            let start = index * self.granule_bytes;
            let end = (start + self.granule_bytes).min(committed_end);
            // Before the store is mapped, so that a full disk is an error here and not a signal later.
            scratch.allocate(start, end - start)?;
            for piece in pieces(start..end) {
                scratch.write_at(map.slice(piece.start, piece.end), piece.start)?;
                map.map_shared(scratch.0.as_fd(), piece.start, piece.end)?;
                pacer.push(scratch, piece)?;
            }
            let word = index as usize / 64;
            if word >= self.granules.len() {
                self.granules.resize(word + 1, 0);
            }
            self.granules[word] |= 1 << (index % 64);
        }
        Ok(())
    }

    /// Moves the fresh space of `range` to its place in `file`, and maps what lies behind it up to `file_end`, where the
    /// file's space ends.
    fn move_fresh(
        &mut self,
        map: &mut Map,
        file: &mut dyn Storage,
        range: Range<u64>,
        file_end: u64,
    ) -> io::Result<()> {
        let not_mappable = || io::Error::from(io::ErrorKind::Unsupported);
        for piece in pieces(range.clone()) {
            file.write_at(map.slice(piece.start, piece.end), piece.start)?;
            let mapped = file.mappable().ok_or_else(not_mappable)?;
            map.map_shared(mapped, piece.start, piece.end)?;
            self.fresh_end = piece.end;
            self.paced_end = piece.end;
            self.pacer.push(file, piece)?;
        }
        let mapped = file.mappable().ok_or_else(not_mappable)?;
        map.map_shared(mapped, range.end, file_end)?;
        self.fresh_end = file_end;
        Ok(())
    }

    /// Before a frame is sealed: an error if what was spilled may have been lost on its way to its file and back.
    pub(crate) fn check(&mut self, heap: &mut dyn Storage, end: u64) -> io::Result<()> {
        if self.fresh_end != 0 {
            heap.write_back(0..0, 0..end)?;
        }
        if let Some(scratch) = self.scratch.as_mut().filter(|_| !self.granules.is_empty()) {
            scratch.write_back(0..0, 0..end)?;
        }
        Ok(())
    }

    /// What was fresh is committed up to `end`: it becomes a private mapping of the heap file; what was mapped ahead becomes
    /// anonymous again.
    pub(crate) fn fresh_is_committed(
        &mut self,
        map: &mut Map,
        heap: &dyn Storage,
        fresh: Range<u64>,
    ) -> io::Result<()> {
        if let Some(file) = heap.mappable() {
            map.map_private(file, heap.mapped_from(), fresh.start, fresh.end)?;
            self.advise(map, fresh.end);
        }
        self.forget_fresh(map, fresh.end)
    }

    /// To be called when `[0, committed_end)` was mapped from the heap file: a heap that does not fit into memory is used like
    /// an index, whatever the layer above does with it.
    pub(crate) fn advise(&mut self, map: &mut Map, committed_end: u64) {
        if committed_end >= ADVISED_FROM_BYTES && committed_end / 2 > self.budget.ask() {
            map.read_singly(0, committed_end);
        }
    }

    /// Makes fresh space from `start` on, as far as it is mapped shared, anonymous memory of zeros.
    pub(crate) fn forget_fresh(&mut self, map: &mut Map, start: u64) -> io::Result<()> {
        let fresh_end = std::mem::take(&mut self.fresh_end);
        if fresh_end == 0 {
            return Ok(());
        }
        self.pacer = Pacer::default();
        map.map_anonymous(start.min(fresh_end), fresh_end)
    }

    /// Maps what is in the scratch file from the heap file again, and forgets the scratch file's content. Returns what it was.
    pub(crate) fn forget_granules(
        &mut self,
        map: &mut Map,
        heap: &dyn Storage,
        committed_end: u64,
    ) -> io::Result<Vec<Range<u64>>> {
        let runs = self.granule_runs(committed_end);
        for run in &runs {
            match heap.mappable() {
                Some(file) => map.map_private(file, heap.mapped_from(), run.start, run.end)?,
                None => {
                    map.map_anonymous(run.start, run.end)?;
                    heap.read_at(map.slice_mut(run.start, run.end), run.start)?;
                }
            }
        }
        if !runs.is_empty() && heap.mappable().is_some() {
            self.advise(map, committed_end);
        }
        self.granules.clear();
        if self.fresh_end == 0
            && let Some(scratch) = &mut self.scratch
        {
            scratch.set_len(0)?;
        }
        Ok(runs)
    }

    /// A copy of everything that is mapped shared, for a process that is about to be split off.
    pub(crate) fn copy(
        &self,
        map: &Map,
        path: &Path,
        heap: &dyn Storage,
        fresh: Range<u64>,
    ) -> io::Result<Spill> {
        let mut copy = Spill {
            scratch: None,
            granules: self.granules.clone(),
            pacer: Pacer::default(),
            ..*self
        };
        if !self.is_active() {
            return Ok(copy);
        }
        let mut scratch = scratch_file(heap.mappable(), path)?;
        let mut pacer = Pacer::default();
        let mut runs = self.granule_runs(fresh.start);
        if self.fresh_end != 0 {
            copy.fresh_end = fresh.end;
            runs.push(fresh);
        }
        for run in runs {
            scratch.allocate(run.start, run.end - run.start)?;
            for piece in pieces(run) {
                scratch.write_at(map.slice(piece.start, piece.end), piece.start)?;
                pacer.push(&mut scratch, piece)?;
            }
        }
        copy.scratch = Some(scratch);
        Ok(copy)
    }

    /// Puts a [`Spill::copy`] of `from` in its place, in the process that was split off.
    pub(crate) fn take_over(
        &mut self,
        map: &mut Map,
        copy: Spill,
        committed_end: u64,
    ) -> io::Result<()> {
        let mapped_end = self.fresh_end;
        *self = copy;
        let Some(scratch) = &self.scratch else {
            return Ok(());
        };
        for run in self.granule_runs(committed_end) {
            map.map_shared(scratch.0.as_fd(), run.start, run.end)?;
        }
        if self.fresh_end != 0 {
            map.map_shared(scratch.0.as_fd(), committed_end, self.fresh_end)?;
            map.map_anonymous(self.fresh_end, mapped_end)?;
        }
        Ok(())
    }
}

/// Pages that were copied out of the journal into the working copy, so that a long journal does not fill memory.
pub(crate) struct Replayed {
    committed_end: u64,
    /// Those that were not spilled, in the order of the copying, perhaps repeated.
    pages: Vec<u64>,
}

impl Replayed {
    pub(crate) fn new(committed_end: u64) -> Replayed {
        Replayed {
            committed_end,
            pages: Vec::new(),
        }
    }

    /// A line of `page` was copied.
    pub(crate) fn note(
        &mut self,
        page: u64,
        map: &mut Map,
        spill: &mut Spill,
        heap: &dyn Storage,
        path: &Path,
    ) {
        if self.pages.last() == Some(&page) {
            return;
        }
        self.pages.push(page);
        let bytes = self.private_pages() as u64 * PAGE_BYTES;
        if bytes <= spill.budget.granted() || bytes <= spill.budget.ask() || spill.disabled {
            return;
        }
        let pages = self.pages.drain(..);
        if spill
            .move_pages(map, heap, path, pages, self.committed_end)
            .is_err()
        {
            spill.disabled = true;
        }
    }

    /// How many pages are copies in private memory; an upper bound.
    pub(crate) fn private_pages(&self) -> usize {
        self.pages.len()
    }
}

fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = range.end;
    range
        .step_by(PIECE_BYTES as usize)
        .map(move |start| start..(start + PIECE_BYTES).min(end))
}

/// A file without a name: beside the heap, where there is room for it if anywhere; else where large temporary files belong.
/// A file system in memory would not help. For a heap that is no file, memory.
fn scratch_file(heap: Option<BorrowedFd<'_>>, path: &Path) -> io::Result<FileStorage> {
    let Some(heap) = heap else {
        // SAFETY: the name is a constant that ends with a zero byte; no other memory is involved.
        let fd = unsafe { libc::memfd_create(c"scratch".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and ours alone.
        return Ok(FileStorage(unsafe { File::from_raw_fd(fd) }));
    };
    let beside = path.parent().unwrap_or(Path::new("/"));
    let beside = if beside.as_os_str().is_empty() {
        Path::new(".")
    } else {
        beside
    };
    let temporary = Path::new("/var/tmp");
    let folders = if lies_in_memory(heap) {
        [temporary, beside]
    } else {
        [beside, temporary]
    };
    let open = |folder| {
        OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(libc::O_TMPFILE)
            .open(folder)
    };
    open(folders[0])
        .or_else(|_| open(folders[1]))
        .map(FileStorage)
}

fn lies_in_memory(file: BorrowedFd<'_>) -> bool {
    // SAFETY: plain numbers, of which zero is a value.
    let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: fstatfs fills the structure during the call only.
    let code = unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut facts) };
    code == 0 && [libc::TMPFS_MAGIC, 0x8584_58f6].contains(&facts.f_type) // the other is ramfs
}

impl Region {
    /// How much of what is not committed lies in files, so that it takes memory only while it is used. In whole granules.
    pub fn spilled_bytes(&self) -> u64 {
        let committed_end = self.committed_end();
        let granules = self.spill.granule_runs(committed_end);
        let fresh = self.spill.fresh_end.min(self.end).max(committed_end) - committed_end;
        fresh + granules.iter().map(|run| run.end - run.start).sum::<u64>()
    }

    /// Bytes of fresh space, and of copies of committed pages, that are in private memory. Upper bounds.
    fn private_bytes(&self) -> (u64, u64) {
        let Some(backing) = &self.backing else {
            return (0, 0);
        };
        let fresh = self
            .end
            .saturating_sub(self.spill.fresh_start(backing.committed_end()));
        let pages = backing.private_pages + self.cards.unspilled().len();
        (fresh, pages as u64 * PAGE_BYTES)
    }

    /// Sets how far fresh space and dirty pages may grow before [`Region::relieve`] is called: each by half of what is left.
    pub(crate) fn allow_growth(&mut self) {
        if self.backing.is_none() || self.spill.disabled {
            self.spill.end_max = u64::MAX;
            self.cards.grow_by(usize::MAX);
            return;
        }
        let (fresh, committed) = self.private_bytes();
        let left = self
            .spill
            .budget
            .granted()
            .saturating_sub(fresh + committed);
        self.cards.grow_by((left / 2 / PAGE_BYTES) as usize);
        self.spill.end_max = if self.spill.fresh_end == 0 {
            self.end + left / 2
        } else {
            self.spill
                .fresh_end
                .min(self.spill.paced_end + 2 * PIECE_BYTES)
        };
    }

    /// To be called when there is more uncommitted memory than was allowed: spills some if that is needed.
    #[cold]
    #[inline(never)]
    pub(crate) fn relieve(&mut self) {
        if self.try_relieve().is_err() {
            self.spill.disabled = true;
        }
        self.allow_growth();
    }

    fn try_relieve(&mut self) -> Result<()> {
        if self.spill.disabled || self.backing.is_none() {
            return Ok(());
        }
        if self.spill.fresh_end != 0 {
            self.follow_growth()?;
        }
        let budget = self.spill.budget.ask();
        let (fresh, committed) = self.private_bytes();
        if budget.saturating_sub(fresh + committed) > budget / 16 {
            return Ok(()); // the allowance was used up, not the budget
        }
        if fresh >= committed {
            self.spill_fresh(self.end)
        } else {
            self.spill_committed()
        }
    }

    /// Fresh space is mapped shared already: maps what was added, which nobody has stored to yet, and keeps the medium busy.
    fn follow_growth(&mut self) -> Result<()> {
        if self.end > self.spill.fresh_end {
            self.spill_fresh(self.spill.fresh_end)?;
        }
        // Not what was added last: it is still being filled.
        let range = self.spill.paced_end..self.end.saturating_sub(PIECE_BYTES);
        let Some(backing) = self.backing.as_mut().filter(|_| !range.is_empty()) else {
            return Ok(());
        };
        self.spill.paced_end = range.end;
        let pushed = match &mut self.spill.scratch {
            Some(scratch) if !backing.writer => self.spill.pacer.push(scratch, range),
            _ => self.spill.pacer.push(&mut *backing.heap, range),
        };
        let mut written = 0..0;
        let pushed = pushed.map(|range| written = range);
        backing.poison_on_error("write fresh space", pushed)?;
        self.map.cool(written.start, written.end);
        Ok(())
    }

    /// Moves fresh space to a file, up to `filled`: what lies behind that has not been stored to.
    fn spill_fresh(&mut self, filled: u64) -> Result<()> {
        let end = self.end;
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        let text = backing.path_text();
        let failed = |error| Error::io(&text, "spill fresh space", error);
        let moved = self.spill.fresh_start(backing.committed_end())..filled;
        if backing.writer {
            backing.reserve_space(end)?;
            if backing.heap.mappable().is_none() {
                // There only that it is written early matters, not the memory.
                for piece in pieces(moved) {
                    let bytes = self.map.slice(piece.start, piece.end);
                    backing.heap.write_at(bytes, piece.start).map_err(failed)?;
                }
                return Ok(());
            }
            let file_end = backing.allocated_end.min(self.map.len());
            let heap = &mut *backing.heap;
            return self
                .spill
                .move_fresh(&mut self.map, heap, moved, file_end)
                .map_err(failed);
        }
        // A snapshot's growth is its own.
        let mut scratch = match self.spill.scratch.take() {
            Some(scratch) => scratch,
            None => scratch_file(backing.heap.mappable(), &backing.path).map_err(failed)?,
        };
        let file_end = (end + SCRATCH_STEP_BYTES).min(self.map.len());
        let allocated = scratch.allocate(moved.start, file_end - moved.start);
        let done = allocated.and_then(|()| {
            self.spill
                .move_fresh(&mut self.map, &mut scratch, moved, file_end)
        });
        self.spill.scratch = Some(scratch);
        done.map_err(failed)
    }

    fn spill_committed(&mut self) -> Result<()> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        let committed_end = backing.committed_end();
        let waiting = backing.pending.in_order().iter().map(|entry| entry.0);
        let pages = self.cards.unspilled().iter().copied().chain(waiting);
        let heap = &*backing.heap;
        self.spill
            .move_pages(&mut self.map, heap, &backing.path, pages, committed_end)
            .map_err(|error| Error::io(backing.path_text(), "spill changed pages", error))?;
        self.cards.note_spilled();
        // The rest of the private pages equal the file's.
        if backing.private_pages > 0 && heap.mappable().is_some() {
            let mut start = DATA_START;
            for run in self.spill.granule_runs(committed_end) {
                let _ = self.map.drop_pages(start, run.start); // memory, not correctness
                start = run.end;
            }
            let _ = self.map.drop_pages(start, committed_end);
        }
        backing.private_pages = 0;
        Ok(())
    }
}
