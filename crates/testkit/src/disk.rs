//! A simulated disk: what a file shows now, what would be left of it after a power cut, and faults at chosen
//! operations.
//!
//! The model (`docs/format.md`, "the medium"): an *atom* is written at once, a sector of a disk or eight bytes of a
//! byte-addressable medium; between two flushes every written atom may arrive or not, in any order, in any of the versions that were written;
//! so may every change of the length. A write that fails has done a part, up to a multiple of eight bytes. A flush that fails has brought an
//! unknown part to the medium, and the rest is *clean in the cache*: it is still seen, and no later flush will bring it, unless it is
//! written again.
//!
//! Every operation of any file of a machine has a number, so that a run can be stopped or made to fail at each of them.

use crate::rng::Rng;
use region::Storage;
use region::storage::Flusher;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// The atom of a disk.
pub const SECTOR: usize = 512;
/// The atom of memory: what a processor stores at once.
pub const WORD: usize = 8;

/// What happens at the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power goes: the operation is half done in the cache, and every later one fails.
    PowerCut,
    /// The operation fails after doing a part of its work.
    Fails { errno: i32 },
}

/// One machine: its files share the count of operations and the faults.
#[derive(Clone)]
pub struct Machine(Arc<Mutex<State>>);

struct State {
    files: Vec<FileState>,
    operations: u64,
    fault: Option<(u64, Fault)>,
    dead: bool,
    rng: Rng,
    /// Writing beyond this many bytes in a file is ENOSPC.
    capacity: u64,
}

#[derive(Clone)]
struct FileState {
    live: Vec<u8>,
    durable: Vec<u8>,
    /// Bytes of an atom.
    atom: usize,
    /// Versions of each atom written since the last good flush, oldest first, each with the number of the operation that wrote it.
    unsynced: BTreeMap<usize, Vec<Version>>,
    /// Lengths that the file had since then, likewise.
    lengths: Vec<(u64, usize)>,
    /// The operation that is under way.
    now: u64,
    /// How often it was changed.
    changes: i128,
}

/// What an atom was, and by which operation.
type Version = (u64, Box<[u8]>);

/// What is on the media of a machine that lost its power, with what may or may not have arrived.
#[derive(Clone)]
pub struct Wreck {
    files: Vec<FileState>,
}

/// A file of a [`Machine`].
pub struct SimFile {
    machine: Machine,
    index: usize,
}

impl Machine {
    /// A machine with these files on a disk, all durable.
    pub fn new(files: Vec<Vec<u8>>, seed: u64) -> Machine {
        Machine::with_atoms(SECTOR, files, seed)
    }

    /// As [`Machine::new`], on a medium that writes so many bytes at once.
    pub fn with_atoms(atom: usize, files: Vec<Vec<u8>>, seed: u64) -> Machine {
        let files = files.into_iter().map(|bytes| FileState {
            live: bytes.clone(),
            durable: bytes,
            atom,
            unsynced: BTreeMap::new(),
            lengths: Vec::new(),
            now: 0,
            changes: 0,
        });
        Machine(Arc::new(Mutex::new(State {
            files: files.collect(),
            operations: 0,
            fault: None,
            dead: false,
            rng: Rng::new(seed),
            capacity: u64::MAX,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .expect("a panic elsewhere has failed the test already")
    }

    /// The `index`th file, as a storage.
    pub fn file(&self, index: usize) -> Box<dyn Storage> {
        Box::new(SimFile {
            machine: self.clone(),
            index,
        })
    }

    /// Has `fault` happen at operation number `at`, counted from 0.
    pub fn fault_at(&self, at: u64, fault: Fault) {
        self.state().fault = Some((at, fault));
    }

    /// No file can become longer than this.
    pub fn limit_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Operations so far.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Flushes what was written to a file by its operations before number `begun`: a flush that ends now and began then, while others wrote on.
    ///
    /// # Errors
    /// Those of faults.
    pub fn flush_up_to(&self, index: usize, begun: u64) -> io::Result<()> {
        let mut guard = self.state();
        let state = &mut *guard;
        let fault = state.step(index)?;
        let file = &mut state.files[index];
        match fault {
            None => {
                file.sync_before(begun);
                Ok(())
            }
            Some(Fault::PowerCut) => Err(io::Error::other("the power went")),
            Some(Fault::Fails { errno }) => {
                file.half_sync(&mut state.rng);
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }

    /// Whether the power went.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// What a process sees that starts after another was killed: the same cache, the same boot.
    pub fn live(&self) -> Vec<Vec<u8>> {
        self.state()
            .files
            .iter()
            .map(|file| file.live.clone())
            .collect()
    }

    /// As of now, if the power went now.
    pub fn wreck(&self) -> Wreck {
        Wreck {
            files: self.state().files.clone(),
        }
    }

    /// The same machine after a process was killed: caches stay, faults are gone.
    pub fn survivor(&self, seed: u64) -> Machine {
        let state = self.state();
        Machine(Arc::new(Mutex::new(State {
            files: state.files.clone(),
            operations: 0,
            fault: None,
            dead: false,
            rng: Rng::new(seed),
            capacity: u64::MAX,
        })))
    }
}

impl Wreck {
    /// Number of choices: written atoms and changed lengths whose fate is open.
    pub fn open_choices(&self) -> usize {
        self.files
            .iter()
            .map(|f| f.unsynced.len() + usize::from(!f.lengths.is_empty()))
            .sum()
    }

    /// One of the states that the media may be in. `pick(versions)` chooses, for each atom and length, among 0 (what
    /// was durable) to `versions` (the newest).
    pub fn image(&self, mut pick: impl FnMut(usize) -> usize) -> Vec<Vec<u8>> {
        let image = |file: &FileState, pick: &mut dyn FnMut(usize) -> usize| {
            let mut bytes = file.durable.clone();
            let len = match pick_if(file.lengths.len(), pick) {
                0 => file.durable.len(),
                n => file.lengths[n - 1].1,
            };
            let longest = file
                .lengths
                .iter()
                .map(|&(_, len)| len)
                .max()
                .unwrap_or(0)
                .max(bytes.len());
            bytes.resize(longest.next_multiple_of(file.atom), 0);
            for (&atom, versions) in &file.unsynced {
                let choice = pick(versions.len());
                let at = atom * file.atom;
                if choice > 0 && at < bytes.len() {
                    bytes[at..at + file.atom].copy_from_slice(&versions[choice - 1].1);
                }
            }
            bytes.resize(len, 0);
            bytes
        };
        self.files
            .iter()
            .map(|file| image(file, &mut pick))
            .collect()
    }
}

fn pick_if(versions: usize, pick: &mut dyn FnMut(usize) -> usize) -> usize {
    if versions == 0 { 0 } else { pick(versions) }
}

impl State {
    /// Counts an operation of a file. `Some(fault)` if one happens now.
    fn step(&mut self, index: usize) -> io::Result<Option<Fault>> {
        if self.dead {
            return Err(io::Error::other("the power is off"));
        }
        let number = self.operations;
        self.files[index].now = number;
        self.operations += 1;
        match self.fault {
            Some((at, fault)) if at == number => {
                self.dead = fault == Fault::PowerCut;
                Ok(Some(fault))
            }
            _ => Ok(None),
        }
    }
}

impl FileState {
    fn zeros(&self) -> Box<[u8]> {
        vec![0; self.atom].into_boxed_slice()
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        if end > self.live.len() {
            self.resize(end);
        }
        self.live[offset..end].copy_from_slice(bytes);
        self.touch(offset, end);
    }

    fn note(&mut self, atom: usize, content: Box<[u8]>) {
        self.unsynced
            .entry(atom)
            .or_default()
            .push((self.now, content));
    }

    /// The atoms of `[from, to)` have a new version.
    fn touch(&mut self, from: usize, to: usize) {
        self.changes += 1;
        for atom in from / self.atom..to.div_ceil(self.atom) {
            let mut content = self.zeros();
            let have = self.live.len().min((atom + 1) * self.atom) - atom * self.atom;
            content[..have].copy_from_slice(&self.live[atom * self.atom..][..have]);
            self.note(atom, content);
        }
    }

    fn resize(&mut self, len: usize) {
        if len != self.live.len() {
            self.changes += 1;
            let old = self.live.len();
            self.live.resize(len, 0);
            self.lengths.push((self.now, len));
            if len < old {
                // What was cut off reads as zeros if the file grows again, in the cache and later on the medium.
                self.touch(len, old.min(len.next_multiple_of(self.atom)));
                let gone: Vec<usize> = self
                    .unsynced
                    .range(len.div_ceil(self.atom)..)
                    .map(|(&s, _)| s)
                    .collect();
                let durable = len.div_ceil(self.atom)..self.durable.len().div_ceil(self.atom);
                for atom in gone.into_iter().chain(durable) {
                    let zeros = self.zeros();
                    self.note(atom, zeros);
                }
            }
        }
    }

    /// What was written by operations before this number is durable.
    fn sync_before(&mut self, begun: u64) {
        let before = |&(written, _): &(u64, usize)| written < begun;
        let known = self.lengths.iter().filter(|length| before(length)).count();
        let newest = self.lengths.drain(..known).next_back();
        let len = match newest {
            _ if self.lengths.is_empty() => self.live.len(),
            Some((_, len)) => len,
            None => self.durable.len(),
        };
        self.durable.resize(len.next_multiple_of(self.atom), 0);
        let (size, durable) = (self.atom, &mut self.durable);
        self.unsynced.retain(|&atom, versions| {
            let older = versions.iter().filter(|(written, _)| *written < begun);
            let older = older.count();
            if let Some((_, newest)) = versions.drain(..older).next_back()
                && atom * size < durable.len()
            {
                durable[atom * size..(atom + 1) * size].copy_from_slice(&newest);
            }
            !versions.is_empty()
        });
        self.durable.resize(len, 0);
    }

    /// A flush that failed: some of it arrived, the rest nobody will bring.
    fn half_sync(&mut self, rng: &mut Rng) {
        let lost = std::mem::take(&mut self.unsynced);
        if rng.chance(2) {
            self.durable.resize(self.live.len(), 0);
        }
        self.lengths.clear();
        for (atom, versions) in lost {
            let at = atom * self.atom;
            if rng.chance(2) && at + self.atom <= self.durable.len() {
                self.durable[at..at + self.atom]
                    .copy_from_slice(&versions.last().expect("never empty").1);
            }
        }
    }
}

impl SimFile {
    /// Runs one operation with its fault: `whole` does all of it, `part` what is done when it fails half-way.
    fn operate(
        &self,
        whole: impl FnOnce(&mut FileState),
        part: impl FnOnce(&mut FileState, &mut Rng),
    ) -> io::Result<()> {
        let mut guard = self.machine.state();
        let state = &mut *guard;
        let fault = state.step(self.index)?;
        let file = &mut state.files[self.index];
        match fault {
            None => {
                whole(file);
                Ok(())
            }
            Some(fault) => {
                part(file, &mut state.rng);
                Err(match fault {
                    Fault::PowerCut => io::Error::other("the power went"),
                    Fault::Fails { errno } => io::Error::from_raw_os_error(errno),
                })
            }
        }
    }

    fn check_capacity(&self, end: u64) -> io::Result<()> {
        const ENOSPC: i32 = 28;
        if end > self.machine.state().capacity {
            Err(io::Error::from_raw_os_error(ENOSPC))
        } else {
            Ok(())
        }
    }
}

impl Storage for SimFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.machine.state().files[self.index].live.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let state = self.machine.state();
        let live = &state.files[self.index].live;
        let at = offset as usize;
        match at.checked_add(buf.len()).and_then(|end| live.get(at..end)) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.check_capacity(offset + buf.len() as u64)?;
        let part = |file: &mut FileState, rng: &mut Rng| {
            let end = offset as usize + rng.below(buf.len() as u64 + 1) as usize;
            let some = (end / WORD * WORD).saturating_sub(offset as usize);
            file.write(&buf[..some], offset as usize);
        };
        self.operate(|file| file.write(buf, offset as usize), part)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.operate(|file| file.resize(len as usize), |_, _| ())
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.check_capacity(offset + len)?;
        let end = (offset + len) as usize;
        self.operate(|file| file.resize(file.live.len().max(end)), |_, _| ())
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let (from, to) = (offset as usize, (offset + len) as usize);
        let punch = |file: &mut FileState| {
            let to = to.min(file.live.len());
            if from < to {
                file.live[from..to].fill(0);
                file.touch(from, to);
            }
        };
        self.operate(punch, |_, _| ())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.flush()
    }
    fn flusher(&self) -> Option<Arc<dyn Flusher>> {
        Some(Arc::new(SimFile {
            machine: self.machine.clone(),
            index: self.index,
        }))
    }

    fn is_by_bytes(&self) -> bool {
        self.machine.state().files[self.index].atom < SECTOR
    }

    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn version(&self) -> io::Result<Option<i128>> {
        Ok(Some(self.machine.state().files[self.index].changes))
    }

    fn mark_version(&mut self) -> io::Result<Option<i128>> {
        self.version()
    }
}

impl Flusher for SimFile {
    fn flush(&self) -> io::Result<()> {
        let mut guard = self.machine.state();
        let state = &mut *guard;
        let fault = state.step(self.index)?;
        let file = &mut state.files[self.index];
        match fault {
            None => {
                file.sync_before(u64::MAX);
                Ok(())
            }
            Some(Fault::PowerCut) => Err(io::Error::other("the power went")),
            Some(Fault::Fails { errno }) => {
                file.half_sync(&mut state.rng);
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }
}
