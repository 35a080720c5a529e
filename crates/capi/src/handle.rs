//! An open heap as C sees it, and all that are open in the process.
//!
//! The invariant: a heap is listed exactly while its handle is valid. Who holds the list's lock may use any of them.

use crate::errors::{Failure, Outcome};
use crate::files::PerdureFile;
use crate::gate::{self, Gate, Shared};
use crate::marks;
use crate::report;
use heap::{CommitStats, Durability, Heap, Pin, Tracking};
use region::Region;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once};

/// `perdure` of the header.
pub struct Perdure {
    heap: Mutex<Heap>,
    /// Of the file whose writer this handle is.
    written: Option<Identity>,
    /// Held while the medium is waited for, before `heap` is locked and without it in between.
    flushing: Mutex<()>,
    /// For people.
    pub(crate) path: PathBuf,
    pub(crate) tracking: Tracking,
    pub(crate) gate: Gate,
    /// Where it lies: never changes.
    pub(crate) start: usize,
    /// How far it may reach: grows with the heap.
    reserved: AtomicUsize,
    totals: Mutex<CommitStats>,
    /// Stores that nobody could mark may have happened since its last commit.
    unseen: AtomicBool,
}

/// All that are open.
static OPEN: Mutex<Vec<Listed>> = Mutex::new(Vec::new());

/// Something open, while its handle is valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listed {
    Heap(*const Perdure),
    File(*const PerdureFile),
}

// SAFETY: what it points to is shared between threads anyway, and lives while it is listed.
unsafe impl Send for Listed {}

/// Which file it is, as long as it is open.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// None if there is no such file.
    pub(crate) fn of(path: &Path) -> Option<Identity> {
        std::fs::metadata(path).ok().map(|file| Identity {
            device: file.dev(),
            inode: file.ino(),
        })
    }
}

/// Whether this process writes the file already: then it would wait for itself. Not a child of a fork, which has the handle of a writer and is none.
pub(crate) fn is_written_here(file: Identity) -> bool {
    list().iter().any(|listed| {
        // SAFETY: listed, so valid while the list is locked.
        unsafe {
            match *listed {
                Listed::Heap(heap) => {
                    (*heap).written == Some(file) && !(*heap).heap().is_snapshot()
                }
                Listed::File(open) => {
                    (*open).written == Some(file) && !(*open).region().is_snapshot()
                }
            }
        }
    })
}

impl Listed {
    pub(crate) fn list(self) {
        static AT_FORK: Once = Once::new();
        AT_FORK.call_once(|| {
            // SAFETY: the three functions live for ever and take no arguments.
            unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        });
        list().push(self);
    }

    pub(crate) fn unlist(self) {
        list().retain(|listed| *listed != self);
    }

    /// # Safety
    /// While the list is locked, and it is in it.
    unsafe fn unseen(&self) -> &AtomicBool {
        // SAFETY: as the caller owes.
        unsafe {
            match *self {
                Listed::Heap(heap) => &(*heap).unseen,
                Listed::File(file) => &(*file).unseen,
            }
        }
    }
}

impl Perdure {
    pub(crate) fn open(mut heap: Heap, path: PathBuf, tracking: Tracking) -> Box<Perdure> {
        if report::is_wanted() {
            heap.watch_missed_stores();
        }
        let handle = Box::new(Perdure {
            start: heap.address(),
            reserved: AtomicUsize::new(reserved(&heap)),
            written: Identity::of(&path).filter(|_| !heap.is_snapshot()),
            heap: Mutex::new(heap),
            flushing: Mutex::new(()),
            path,
            tracking,
            gate: Gate::default(),
            totals: Mutex::new(CommitStats::default()),
            unseen: AtomicBool::new(false),
        });
        Listed::Heap(&raw const *handle).list();
        handle
    }

    pub(crate) fn close(self: Box<Perdure>) -> Outcome<()> {
        Listed::Heap(&raw const *self).unlist();
        self.gate.leave_for_good();
        self.append_report();
        let heap = self.heap.into_inner().unwrap_or_else(|e| e.into_inner());
        heap.close(Durability::Durable)?;
        Ok(())
    }

    pub(crate) fn heap(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn totals(&self) -> MutexGuard<'_, CommitStats> {
        self.totals.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What this handle did so far.
    pub(crate) fn total(&self) -> CommitStats {
        *self.totals()
    }

    fn add(&self, stats: CommitStats) {
        self.totals().add(stats);
    }

    pub(crate) fn reserved(&self) -> usize {
        self.reserved.load(Ordering::Acquire)
    }

    /// A block was allocated, perhaps farther away than any before: before anybody has its address.
    pub(crate) fn note_growth(&self, heap: &Heap) {
        self.reserved.store(reserved(heap), Ordering::Release);
    }

    /// The offset of an address in this heap.
    pub(crate) fn offset(&self, address: usize) -> Outcome<u64> {
        match address.checked_sub(self.start) {
            Some(offset) if offset < self.reserved() => Ok(offset as u64),
            _ => Err(Failure::invalid(format!(
                "the address {address:#x} is not in this heap, which begins at {:#x}",
                self.start
            ))),
        }
    }

    /// Takes a cut of everything stored, and brings it to the medium.
    pub(crate) fn commit(&self) -> Outcome<()> {
        match self.cut(Durability::Durable)? {
            (_, true) => Ok(()),
            (seq, false) => self.wait(seq),
        }
    }

    /// Takes a cut of everything stored; returns the number of the last commit that has it. It is on its way to the medium.
    pub(crate) fn commit_lazily(&self) -> Outcome<u64> {
        Ok(self.cut(Durability::Lazy)?.0)
    }

    /// Returns also whether it is on the medium. If it is to be, and that takes time, it is waited for outside: the others need not wait too.
    fn cut(&self, durability: Durability) -> Outcome<(u64, bool)> {
        let cut = self.gate.alone(true, || -> Outcome<(u64, bool)> {
            marks::spread_unseen();
            let mut heap = self.heap();
            if self.unseen.swap(false, Ordering::Relaxed) {
                heap.note_unseen_stores();
            }
            let is_durable = durability == Durability::Durable && heap.flushes_at_once();
            let stats = heap.commit(match is_durable {
                true => Durability::Durable,
                false => Durability::Lazy,
            })?;
            self.add(stats);
            Ok((stats.seq, is_durable))
        })?;
        match cut {
            Shared::Done(done) => Ok(done),
            // At least as far as the one that served this thread.
            Shared::DoneByAnother => Ok((self.heap().commits(), false)),
        }
    }

    fn turn_to_flush(&self) -> MutexGuard<'_, ()> {
        self.flushing.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns when this commit is on the medium. Other threads store, allocate and commit meanwhile; of those that wait, one flushes for all
    /// whose commits are there when it begins.
    pub(crate) fn wait(&self, commit: u64) -> Outcome<()> {
        let _turn = self.turn_to_flush();
        let mut heap = self.heap();
        let last = heap.commits();
        if commit > last {
            return Err(Failure::invalid(format!(
                "commit {commit} is to be waited for, and there are {last}"
            )));
        }
        if heap.is_snapshot() {
            return Ok(());
        }
        if heap.durable_commits() >= commit {
            return Ok(());
        }
        let Some(flush) = heap.begin_flush()? else {
            return Ok(());
        };
        drop(heap);
        let flushed = flush.run();
        let stats = self.heap().end_flush(flushed)?;
        self.add(stats);
        Ok(())
    }

    pub(crate) fn abort(&self) -> Outcome<()> {
        self.gate.alone(false, || -> Outcome<()> {
            marks::spread_unseen();
            let mut heap = self.heap();
            if self.unseen.swap(false, Ordering::Relaxed) {
                heap.note_unseen_stores(); // they are undone too
            }
            heap.abort()?;
            Ok(())
        })?;
        Ok(())
    }
}

fn reserved(heap: &Heap) -> usize {
    usize::try_from(heap.reserved_bytes()).unwrap_or(usize::MAX)
}

fn list() -> MutexGuard<'static, Vec<Listed>> {
    OPEN.lock().unwrap_or_else(|e| e.into_inner())
}

/// Something was stored that nobody saw: whatever is open asks the kernel at its own next commit.
pub(crate) fn unseen_everywhere() {
    for listed in list().iter() {
        // SAFETY: listed, and the list is locked.
        unsafe { listed.unseen() }.store(true, Ordering::Relaxed);
    }
}

/// The open heap that an address lies in.
pub(crate) fn of_address(address: usize) -> Option<*const Perdure> {
    list().iter().find_map(|listed| match *listed {
        Listed::Heap(heap) => {
            // SAFETY: listed, so valid while the list is locked.
            let open = unsafe { &*heap };
            let at = address.checked_sub(open.start)?;
            (at < open.reserved()).then_some(heap)
        }
        Listed::File(_) => None,
    })
}

// ---------------------------------------------------------------------------------------------------- fork

/// What is locked across a fork, so that the child finds nothing half done.
struct Forking {
    /// Before the list is unlocked, and what is in it may go.
    held: Vec<Held>,
    open: MutexGuard<'static, Vec<Listed>>,
}

enum Held {
    Heap(HeldHeap),
    File {
        region: MutexGuard<'static, Region>,
        totals: MutexGuard<'static, CommitStats>,
        pin: Option<Pin>,
    },
}

/// All that a child could not get back from a thread that it does not have; in the order in which it is locked.
struct HeldHeap {
    handle: &'static Perdure,
    _turn: MutexGuard<'static, ()>,
    heap: MutexGuard<'static, Heap>,
    _totals: MutexGuard<'static, CommitStats>,
    gate: gate::Held<'static>,
    pin: Option<Pin>,
}

// SAFETY: only ever touched by the thread that forks: between before_fork and the two others nothing else runs.
unsafe impl Send for Forking {}

static FORKING: Mutex<Option<Forking>> = Mutex::new(None);

fn forking() -> MutexGuard<'static, Option<Forking>> {
    FORKING.lock().unwrap_or_else(|e| e.into_inner())
}

extern "C" fn before_fork() {
    let open = list();
    let held = open.iter().map(|listed| match *listed {
        Listed::Heap(heap) => {
            // SAFETY: listed, and the list stays locked until after the fork.
            let handle = unsafe { &*heap };
            let turn = handle.turn_to_flush();
            let heap = handle.heap();
            Held::Heap(HeldHeap {
                handle,
                pin: heap.prepare_fork().ok(),
                _turn: turn,
                heap,
                _totals: handle.totals(),
                gate: handle.gate.hold_for_fork(),
            })
        }
        Listed::File(file) => {
            // SAFETY: as above.
            let file = unsafe { &*file };
            let region = file.region();
            Held::File {
                pin: region.prepare_fork().ok(),
                region,
                totals: file.totals(),
            }
        }
    });
    let held = held.collect();
    *forking() = Some(Forking { open, held });
}

extern "C" fn in_parent() {
    drop(forking().take());
}

extern "C" fn in_child() {
    let Some(Forking { open, held }) = forking().take() else {
        return;
    };
    for held in held {
        match held {
            Held::Heap(mut held) => {
                let pin = held.pin.unwrap_or_else(Pin::none);
                held.heap.become_child(pin);
                held.handle.gate.become_child(held.gate);
            }
            Held::File {
                mut region,
                totals: _totals,
                pin,
            } => region.become_child(pin.unwrap_or_else(Pin::none)),
        }
    }
    drop(open);
}
