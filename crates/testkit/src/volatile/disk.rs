//! A disk with a volatile write cache: what it shows now, and every write and flush in the order in which they came.
//!
//! The invariant: the recording is complete. Whatever the disk ever showed since the recording began can be made from its base
//! and its records, and so can whatever a power cut could have left.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a disk writes atomically.
pub const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// The content of a disk. A clone shares what neither changes, so it costs little.
#[derive(Clone, Default)]
pub struct Image {
    /// Pages that are not all zeros, or were not once.
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

impl Image {
    /// Fills `into` from `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (page, at, part) in pieces(offset, into.len()) {
            match self.pages.get(&page) {
                Some(bytes) => into[part.clone()].copy_from_slice(&bytes[at..at + part.len()]),
                None => into[part].fill(0),
            }
        }
    }

    /// Puts `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, at, part) in pieces(offset, bytes.len()) {
            // Journals are made of many megabytes of zeros.
            if part.len() == PAGE_BYTES && bytes[part.clone()].iter().all(|&byte| byte == 0) {
                self.pages.remove(&page);
                continue;
            }
            let page = self
                .pages
                .entry(page)
                .or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[at..at + part.len()].copy_from_slice(&bytes[part]);
        }
    }

    /// Puts zeros into a range; whole pages of it take no memory any more.
    pub fn zero(&mut self, offset: u64, len: u64) {
        let (first, last) = (
            offset.div_ceil(PAGE_BYTES as u64),
            (offset + len) / PAGE_BYTES as u64,
        );
        if first >= last {
            // Within two pages at most.
            return self.write(offset, &vec![0; len as usize]);
        }
        let gone: Vec<u64> = self
            .pages
            .range(first..last)
            .map(|(&page, _)| page)
            .collect();
        for page in gone {
            self.pages.remove(&page);
        }
        let (head, tail) = (first * PAGE_BYTES as u64, last * PAGE_BYTES as u64);
        self.write(offset, &vec![0; (head - offset) as usize]);
        self.write(tail, &vec![0; (offset + len - tail) as usize]);
    }

    /// Does what a record says.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::Write { offset, bytes } => self.write(*offset, bytes),
            Record::Zero { offset, len } => self.zero(*offset, *len),
            Record::Flush => {}
        }
    }

    /// Pages with something in them: where they begin, and their bytes.
    pub fn pages(&self) -> impl Iterator<Item = (u64, &[u8; PAGE_BYTES])> {
        self.pages
            .iter()
            .map(|(page, bytes)| (page * PAGE_BYTES as u64, &**bytes))
    }
}

/// The pieces of a range, by page: page, where in it, where in the range.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let position = offset + done as u64;
        let at = (position % PAGE_BYTES as u64) as usize;
        let count = (PAGE_BYTES - at).min(len - done);
        let part = done..done + count;
        done += count;
        Some((position / PAGE_BYTES as u64, at, part))
    })
}

/// One thing that the disk was asked to do.
#[derive(Clone, Debug)]
pub enum Record {
    Write {
        offset: u64,
        bytes: Arc<[u8]>,
    },
    /// Zeros were written, or the space was given back.
    Zero {
        offset: u64,
        len: u64,
    },
    /// All that was written before it is on the medium.
    Flush,
}

/// What happened to a disk since it had the content `base`, all of which was on the medium.
#[derive(Clone, Default)]
pub struct Recording {
    pub base: Image,
    pub records: Vec<Record>,
}

/// A disk; clones are the same disk.
#[derive(Clone)]
pub struct Disk(Arc<Mutex<State>>);

struct State {
    len_bytes: u64,
    live: Image,
    recording: Option<Recording>,
    flushes: u64,
}

impl Disk {
    /// A disk of zeros.
    pub fn new(len_bytes: u64) -> Disk {
        Disk(Arc::new(Mutex::new(State {
            len_bytes,
            live: Image::default(),
            recording: None,
            flushes: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .expect("a panic elsewhere has failed the test already")
    }

    pub fn len_bytes(&self) -> u64 {
        self.state().len_bytes
    }

    /// Flushes since it was made.
    pub fn flushes(&self) -> u64 {
        self.state().flushes
    }

    /// Another disk is put in its place. Whoever uses it must have been told to forget what it read.
    pub fn load(&self, image: Image) {
        let mut state = self.state();
        state.live = image;
        state.recording = None;
    }

    /// As of now.
    pub fn image(&self) -> Image {
        self.state().live.clone()
    }

    /// From now on all is recorded; what the disk shows now is taken to be on the medium.
    pub fn record(&self) {
        let mut state = self.state();
        state.recording = Some(Recording {
            base: state.live.clone(),
            records: Vec::new(),
        });
    }

    /// Records so far; 0 while nothing is recorded.
    pub fn position(&self) -> usize {
        self.state()
            .recording
            .as_ref()
            .map_or(0, |recording| recording.records.len())
    }

    /// What was recorded; the recording ends.
    pub fn recorded(&self) -> Recording {
        self.state().recording.take().unwrap_or_default()
    }

    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let state = self.state();
        let mut bytes = vec![0; len.min(state.len_bytes.saturating_sub(offset) as usize)];
        state.live.read(offset, &mut bytes);
        bytes
    }

    /// Does what `record` says, in the cache: it is on the medium after the next flush, and until then perhaps.
    pub fn operate(&self, record: Record) {
        let mut state = self.state();
        state.live.apply(&record);
        state.flushes += u64::from(matches!(record, Record::Flush));
        if let Some(recording) = &mut state.recording {
            recording.records.push(record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn an_image_is_what_was_written() {
        let mut rng = Rng::new(3);
        let len = 5 * PAGE_BYTES;
        let (mut plain, mut image) = (vec![0; len], Image::default());
        for _ in 0..2000 {
            let from = rng.below(len as u64) as usize;
            let count = rng.below((len - from) as u64 + 1) as usize;
            let before = image.clone();
            if rng.chance(2) {
                plain[from..from + count].fill(0);
                image.zero(from as u64, count as u64);
            } else {
                let bytes = rng.bytes(count);
                plain[from..from + count].copy_from_slice(&bytes);
                image.write(from as u64, &bytes);
            }
            let mut read = vec![1; len];
            image.read(0, &mut read);
            assert_eq!(read, plain);
            drop(before);
        }
    }

    #[test]
    fn a_clone_keeps_its_content() {
        let mut image = Image::default();
        image.write(100, b"first");
        let copy = image.clone();
        image.write(100, b"later");
        let mut read = [0; 5];
        copy.read(100, &mut read);
        assert_eq!(&read, b"first");
    }
}
