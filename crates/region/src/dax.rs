//! Storage on byte-addressable media: files that are mapped and written with processor instructions, without system calls.
//!
//! What is written goes past the caches with non-temporal stores, or is written back from them line by line; a fence makes it durable. That
//! holds where the file system maps the medium itself (`MAP_SYNC`: ext4 and XFS with `dax` on persistent or CXL memory). On other
//! file systems whose files are memory (tmpfs) the same instructions run, for measurements; what is durable there lasts as long as the
//! machine runs.
//!
//! The invariant: after `sync` everything written before is in the medium's domain, and so is the file's length. Such media write eight
//! bytes atomically and not a sector: whatever the format takes for whole has a checksum.

use crate::layout::{LINE_BYTES, PAGE_BYTES, RESERVE_BYTES_MAX};
use crate::map::Map;
use crate::storage::{FileStorage, Storage};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// What a file system is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Media {
    /// Byte-addressable media where the file system has them, else system calls.
    #[default]
    Any,
    /// System calls.
    Files,
    /// Instructions, whether the file system has such media or not: for measurements.
    Memory,
}

pub(crate) struct DaxStorage {
    file: FileStorage,
    map: Map,
    /// Of the file; all of it is mapped.
    len: u64,
    /// The length, or where the file's space lies, changed since the last sync.
    is_changed: bool,
    /// The medium itself is mapped.
    is_real: bool,
}

impl DaxStorage {
    /// None if `media` leaves it open and the file system has no such medium; the file comes back then.
    pub(crate) fn new(file: File, media: Media) -> io::Result<Result<DaxStorage, FileStorage>> {
        if media == Media::Files || !cfg!(target_arch = "x86_64") {
            return Ok(Err(FileStorage(file)));
        }
        let is_real = maps_the_medium(&file);
        if !is_real && media == Media::Any {
            return Ok(Err(FileStorage(file)));
        }
        let map = Map::reserve_exact(RESERVE_BYTES_MAX).map_err(io::Error::other)?;
        let mut storage = DaxStorage {
            len: 0,
            file: FileStorage(file),
            map,
            is_changed: false,
            is_real,
        };
        storage.map_up_to(storage.file.len()?)?;
        Ok(Ok(storage))
    }

    fn map_up_to(&mut self, len: u64) -> io::Result<()> {
        let (from, to) = (
            self.len.next_multiple_of(PAGE_BYTES),
            len.next_multiple_of(PAGE_BYTES),
        );
        if to > self.map.len() {
            return Err(io::Error::from_raw_os_error(libc::EFBIG));
        }
        if from < to {
            self.map
                .map_medium(self.file.0.as_fd(), from, to, self.is_real)?;
        }
        self.len = len;
        Ok(())
    }
}

/// Whether pages of the medium itself can be mapped.
fn maps_the_medium(file: &File) -> bool {
    // SAFETY: a new mapping at an address of the kernel's choice, which is removed again at once.
    unsafe {
        let got = libc::mmap(
            std::ptr::null_mut(),
            PAGE_BYTES as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC,
            file.as_raw_fd(),
            0,
        );
        if got == libc::MAP_FAILED {
            return false;
        }
        libc::munmap(got, PAGE_BYTES as usize);
    }
    true
}

impl Storage for DaxStorage {
    fn len(&self) -> io::Result<u64> {
        // A reader's file grows by its writer's hand.
        self.file.len()
    }

    fn in_memory(&self, offset: u64, len: u64) -> Option<&[u8]> {
        let end = offset.checked_add(len)?;
        (end <= self.len).then(|| self.map.slice(offset, end))
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        match self.in_memory(offset, buf.len() as u64) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => self.file.read_at(buf, offset),
        }
    }

    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        let end = offset + buf.len() as u64;
        if end > self.len {
            self.set_len(end)?;
        }
        write_through(self.map.slice_mut(offset, end), buf);
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        if len == self.len {
            return Ok(());
        }
        self.is_changed = true;
        if len < self.len {
            // Not mapped any longer than it is there: what is behind would be a signal.
            self.len = len;
            let kept = len.next_multiple_of(PAGE_BYTES);
            let mapped_end = self.map.len();
            self.map.map_anonymous(kept, mapped_end)?;
        }
        self.file.set_len(len)?;
        self.map_up_to(len)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.is_changed = true;
        self.file.allocate(offset, len)?;
        self.map_up_to((offset + len).max(self.len))?;
        // What was asked for is about to be written.
        self.map.populate(offset, offset + len);
        Ok(())
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.is_changed = true;
        self.file.discard(offset, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        fence();
        if self.is_changed {
            self.file.0.sync_all()?;
            self.is_changed = false;
        }
        Ok(())
    }

    fn is_by_bytes(&self) -> bool {
        true
    }

    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        self.file.mappable()
    }
}

#[cfg(target_arch = "x86_64")]
fn fence() {
    // SAFETY: an instruction that every processor of this kind has.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

/// Copies so that a later fence makes it durable.
#[cfg(target_arch = "x86_64")]
fn write_through(to: &mut [u8], from: &[u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    assert_eq!(to.len(), from.len());
    let line = LINE_BYTES as usize;
    // Whole lines go past the cache. What is left of a line at either end is written in it and then back.
    let head = to.as_ptr().align_offset(line).min(to.len());
    let lines = (to.len() - head) / line * line;
    let (to_head, rest) = to.split_at_mut(head);
    let (to_lines, to_tail) = rest.split_at_mut(lines);
    let (from_head, rest) = from.split_at(head);
    let (from_lines, from_tail) = rest.split_at(lines);
    for (to, from) in to_lines
        .chunks_exact_mut(16)
        .zip(from_lines.chunks_exact(16))
    {
        // SAFETY: 16 bytes each; the target is aligned, because lines are.
        unsafe {
            let words = _mm_loadu_si128(from.as_ptr().cast::<__m128i>());
            _mm_stream_si128(to.as_mut_ptr().cast::<__m128i>(), words);
        }
    }
    for (to, from) in [(to_head, from_head), (to_tail, from_tail)] {
        if !to.is_empty() {
            to.copy_from_slice(from);
            write_back_lines(to);
        }
    }
}

/// Writes cached lines back: at most two, because what is left of a line is shorter than one.
#[cfg(target_arch = "x86_64")]
fn write_back_lines(bytes: &[u8]) {
    let first = bytes.as_ptr();
    let last = &raw const bytes[bytes.len() - 1];
    for line in [first, last] {
        // SAFETY: flushing a line of memory that is ours changes no content.
        unsafe { std::arch::x86_64::_mm_clflush(line) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn fence() {}

#[cfg(not(target_arch = "x86_64"))]
fn write_through(to: &mut [u8], from: &[u8]) {
    to.copy_from_slice(from); // never reached: there is no DaxStorage here
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_is_written_is_in_the_file() {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let path = folder.as_ref().unwrap().path().join("x");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        let other = File::open(&path).unwrap();
        let Ok(Ok(mut storage)) = DaxStorage::new(file, Media::Memory) else {
            panic!("no such storage");
        };
        let mut model = Vec::new();
        for step in 0..2000_u64 {
            let offset = step * 7919 % 50_000;
            let bytes = vec![step as u8; (step * 31 % 700) as usize];
            storage.write_at(&bytes, offset).unwrap();
            let end = offset as usize + bytes.len();
            if model.len() < end {
                model.resize(end, 0);
            }
            model[offset as usize..end].copy_from_slice(&bytes);
            if step % 500 == 499 {
                let len = 20_000 + step;
                storage.set_len(len).unwrap();
                model.resize(len as usize, 0);
            }
        }
        storage.sync().unwrap();
        let mut seen = vec![0; model.len()];
        other.read_exact_at(&mut seen, 0).unwrap();
        assert!(seen == model);
        assert_eq!(storage.len().unwrap(), model.len() as u64);
        let mut read = vec![0; 1000];
        storage.read_at(&mut read, 12_345).unwrap();
        assert_eq!(read, model[12_345..13_345]);
        assert!(storage.read_at(&mut read, model.len() as u64 - 10).is_err());
    }
}
