//! Memory of a region: one reservation of address space, the committed part mapped privately from the file, the rest
//! anonymous; and what was spilled mapped so that stores reach the file that it was spilled to.
//!
//! The invariant: every byte of `[0, len)` is readable and writable memory of ours for the life of the `Map`, so an
//! offset that was checked against the region's end (which is at most `len`) may be dereferenced.

use crate::error::{Error, ErrorKind};
use crate::layout::{PAGE_BYTES, RESERVE_BYTES_MIN};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64};

/// Fresh memory beyond this is worth huge pages; below it, zeroing two megabytes would dominate a short run.
const HUGE_FROM_BYTES: u64 = 8 << 20;

pub(crate) struct Map {
    base: NonNull<u8>,
    len: u64,
    huge_up_to: u64,
    /// Part of another reservation, and not to be given back with this.
    is_lent: bool,
}

// SAFETY: the mapping is the Map's alone, and bound to no thread.
unsafe impl Send for Map {}

impl Map {
    /// Reserves up to `wanted` bytes of zeroed memory that costs nothing until it is touched. Where an address-space
    /// limit forbids so much it takes about a quarter to a half of what there is: the rest of the program lives there too.
    pub(crate) fn reserve(wanted: u64) -> Result<Map, Error> {
        let mut len = wanted;
        loop {
            match Map::reserve_exact(len) {
                Ok(map) if len == wanted || len / 2 < RESERVE_BYTES_MIN => return Ok(map),
                Ok(whole) => {
                    drop(whole);
                    return Map::reserve_exact(len / 2);
                }
                Err(_) if len / 2 >= RESERVE_BYTES_MIN => len /= 2,
                Err(error) => return Err(error),
            }
        }
    }

    /// As [`Map::reserve`], all or nothing.
    pub(crate) fn reserve_exact(len: u64) -> Result<Map, Error> {
        match reserve_memory(0, len, READ_WRITE) {
            Ok(base) => Ok(Map {
                base,
                len,
                huge_up_to: 0,
                is_lent: false,
            }),
            Err(source) => Err(ErrorKind::NoAddressSpace {
                wanted_bytes: len,
                source,
            }
            .into()),
        }
    }

    /// As [`Map::reserve_exact`], at this address and nowhere else; an error if anything is there.
    pub(crate) fn reserve_at(address: u64, len: u64) -> Result<Map, Error> {
        Map::reserve_protected_at(address, len, READ_WRITE)
    }

    /// As [`Map::reserve_at`], for reading: nothing that a kernel counts which does not give more memory than it has.
    pub(crate) fn reserve_read_only_at(address: u64, len: u64) -> Result<Map, Error> {
        Map::reserve_protected_at(address, len, libc::PROT_READ)
    }

    fn reserve_protected_at(address: u64, len: u64, protection: i32) -> Result<Map, Error> {
        let reserved = reserve_memory(address, len, protection).and_then(|base| {
            if base.as_ptr() as u64 == address {
                return Ok(base);
            }
            // Something was there, or somebody between us and the kernel (ThreadSanitizer) does not want memory there.
            // SAFETY: just mapped, and nobody knows of it.
            unsafe { libc::munmap(base.as_ptr().cast(), len as usize) };
            Err(io::Error::from_raw_os_error(libc::EEXIST))
        });
        match reserved {
            Ok(base) => Ok(Map {
                base,
                len,
                huge_up_to: 0,
                is_lent: false,
            }),
            Err(source) => Err(ErrorKind::AddressTaken {
                address,
                wanted_bytes: len,
                source,
            }
            .into()),
        }
    }

    /// A part of a reservation that was left for ever: `len` bytes at `address`.
    pub(crate) fn lent(address: u64, len: u64) -> Map {
        let base = std::ptr::with_exposed_provenance_mut(address as usize);
        Map {
            base: NonNull::new(base).expect("a reservation does not begin at 0"),
            len,
            huge_up_to: 0,
            is_lent: true,
        }
    }

    /// Little of it is used, here and there: it is not part of core dumps, and never in huge pages.
    pub(crate) fn use_sparsely(&self) {
        for advice in [libc::MADV_NOHUGEPAGE, libc::MADV_DONTDUMP] {
            let _ = self.advise(0, self.len, advice);
        }
    }

    /// Stays mapped until the process ends.
    pub(crate) fn leave_for_ever(self) {
        self.base.as_ptr().expose_provenance();
        std::mem::forget(self);
    }

    /// Reserves what lies right behind, up to `len`; false if something is there.
    pub(crate) fn grow(&mut self, len: u64) -> bool {
        let behind = self.base() as u64 + self.len;
        Map::reserve_at(behind, len - self.len).is_ok_and(|more| self.append(more))
    }

    /// Takes in what lies right behind; false if it does not.
    pub(crate) fn append(&mut self, more: Map) -> bool {
        let behind = self.base() as u64 + self.len;
        if more.base() as u64 != behind || more.is_lent != self.is_lent {
            return false;
        }
        self.len += more.len;
        std::mem::forget(more); // it is part of this one now
        true
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// A byte that several threads access.
    #[inline]
    pub(crate) fn byte(&self, index: u64) -> &AtomicU8 {
        assert!(index < self.len);
        // SAFETY: in bounds of memory of ours (asserted); who asks for it so accesses the memory as atomics only.
        unsafe { AtomicU8::from_ptr(self.base().add(index as usize)) }
    }

    /// Eight of them, at a multiple of eight.
    #[inline]
    pub(crate) fn eight(&self, index: u64) -> &AtomicU64 {
        assert!(index.is_multiple_of(8) && index + 8 <= self.len);
        // SAFETY: as in `byte`; maps begin at pages, so the word is aligned.
        unsafe { AtomicU64::from_ptr(self.base().add(index as usize).cast()) }
    }

    /// The bytes `[start, end)`.
    pub(crate) fn slice(&self, start: u64, end: u64) -> &[u8] {
        assert!(start <= end && end <= self.len);
        // SAFETY: in bounds of the reservation (asserted), readable for the life of self; stores go through &mut self.
        unsafe {
            std::slice::from_raw_parts(self.base().add(start as usize), (end - start) as usize)
        }
    }

    pub(crate) fn slice_mut(&mut self, start: u64, end: u64) -> &mut [u8] {
        assert!(start <= end && end <= self.len);
        // SAFETY: as in `slice`, and exclusive through &mut self.
        unsafe {
            std::slice::from_raw_parts_mut(self.base().add(start as usize), (end - start) as usize)
        }
    }

    /// Copies `[start, start + into.len())` as it is at some moment, word by word: other threads may store there meanwhile. By an instruction,
    /// because to the compiler (and to ThreadSanitizer) a load of what is being stored to is an error.
    pub(crate) fn copy_while_stored_to(&self, start: u64, into: &mut [u8; PAGE_BYTES as usize]) {
        assert!(start.is_multiple_of(8) && start + PAGE_BYTES <= self.len);
        // SAFETY: in bounds of the reservation (asserted), readable for the life of self.
        let from = unsafe { self.base().add(start as usize) };
        #[cfg(target_arch = "x86_64")]
        // SAFETY: reads a page from there and writes `into`, which is as long; the direction flag is clear, as the calling convention has it.
        unsafe {
            std::arch::asm!(
                "rep movsq",
                inout("rcx") PAGE_BYTES / 8 => _,
                inout("rsi") from => _,
                inout("rdi") into.as_mut_ptr() => _,
                options(nostack, preserves_flags),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        for (i, word) in into.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: as above, and aligned.
            *word = unsafe { from.cast::<[u8; 8]>().add(i).read_volatile() };
        }
    }

    /// Called before `[start, end)` of anonymous memory is first used.
    pub(crate) fn prepare(&mut self, start: u64, end: u64) {
        const HUGE: u64 = 2 << 20;
        if end < HUGE_FROM_BYTES || end <= self.huge_up_to {
            return;
        }
        // Ask well ahead, so that this is one call in many extensions.
        let from = self.huge_up_to.max(start).next_multiple_of(HUGE);
        let to = (end + end / 2).next_multiple_of(HUGE).min(self.len);
        let _ = self.advise(from, to, libc::MADV_HUGEPAGE);
        self.huge_up_to = to;
    }

    /// Makes `[start, end)` a private copy of the same range of a file whose first byte is at `from`: reads see the file, writes
    /// stay here. What lies before `from` is left as it is.
    pub(crate) fn map_private(
        &mut self,
        file: BorrowedFd<'_>,
        from: u64,
        start: u64,
        end: u64,
    ) -> io::Result<()> {
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        self.map_fixed(file.as_raw_fd(), flags, start.max(from), end, from)
    }

    /// Makes `[start, end)` the same range of `file`: writes reach the file whenever the kernel likes. The file must have
    /// the range and its space.
    pub(crate) fn map_shared(
        &mut self,
        file: BorrowedFd<'_>,
        start: u64,
        end: u64,
    ) -> io::Result<()> {
        self.map_fixed(file.as_raw_fd(), libc::MAP_SHARED, start, end, 0)?;
        self.read_singly(start, end);
        Ok(())
    }

    /// As [`Map::map_shared`], of a file on a byte-addressable medium; `sync`: its space on the medium is mapped, and known to be
    /// durable, before a store goes through.
    pub(crate) fn map_medium(
        &mut self,
        file: BorrowedFd<'_>,
        start: u64,
        end: u64,
        sync: bool,
    ) -> io::Result<()> {
        let flags = if sync {
            libc::MAP_SHARED_VALIDATE | libc::MAP_SYNC
        } else {
            libc::MAP_SHARED
        };
        self.map_fixed(file.as_raw_fd(), flags, start, end, 0)
    }

    /// A page of `[start, end)` that is missing is read alone. What is used at random, an index say, would be read with
    /// megabytes around it, at the cost of what is in use (read-ahead of 8 MiB, 512 MiB of memory: 2.4 instead of 20 MB/s of
    /// growth; 2026-11). Who goes through it in order says so: [`Map::will_need`].
    pub(crate) fn read_singly(&mut self, start: u64, end: u64) {
        assert!(start.is_multiple_of(PAGE_BYTES) && end <= self.len);
        let _ = self.advise(start, end, libc::MADV_RANDOM);
    }

    /// Makes `[start, end)` anonymous memory of zeros, as it was in the beginning.
    pub(crate) fn map_anonymous(&mut self, start: u64, end: u64) -> io::Result<()> {
        self.huge_up_to = self.huge_up_to.min(start);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        self.map_fixed(-1, flags, start, end, 0)
    }

    fn map_fixed(
        &mut self,
        file: RawFd,
        flags: i32,
        start: u64,
        end: u64,
        from: u64,
    ) -> io::Result<()> {
        assert!(
            start.is_multiple_of(PAGE_BYTES) && end.is_multiple_of(PAGE_BYTES) && end <= self.len
        );
        if start >= end {
            return Ok(());
        }
        let offset = if file < 0 {
            0
        } else {
            (start - from).cast_signed()
        };
        // SAFETY: MAP_FIXED replaces pages inside our own reservation only (asserted); nothing borrows them (&mut).
        let got = unsafe {
            libc::mmap(
                self.base().add(start as usize).cast(),
                (end - start) as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_FIXED,
                file,
                offset,
            )
        };
        if got == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Lets the kernel take the memory of `[start, end)` first, but for the pages that are used again.
    pub(crate) fn cool(&mut self, start: u64, end: u64) {
        assert!(start.is_multiple_of(PAGE_BYTES) && end <= self.len);
        let _ = self.advise(start, end, libc::MADV_COLD);
    }

    /// Starts reading `[start, end)` of a mapped file, as far as it is not in memory.
    pub(crate) fn will_need(&self, start: u64, end: u64) {
        let end = end.min(self.len);
        let _ = self.advise(start, end, libc::MADV_WILLNEED);
    }

    /// Enters the pages of `[start, end)` of a medium into the page table at once: one fault for each, when it is written first, takes longer than
    /// the write. May do nothing (Linux before 5.14).
    pub(crate) fn populate(&mut self, start: u64, end: u64) {
        let start = start.next_multiple_of(PAGE_BYTES);
        let end = end.min(self.len);
        let _ = self.advise(start, end, libc::MADV_POPULATE_WRITE);
    }

    /// Drops the private pages of `[start, end)`: a mapped range shows the file again, anonymous memory zeros.
    pub(crate) fn drop_pages(&mut self, start: u64, end: u64) -> io::Result<()> {
        assert!(start.is_multiple_of(PAGE_BYTES) && end <= self.len);
        // All callers re-read what they need afterwards, and nothing borrows it (&mut).
        self.advise(start, end, libc::MADV_DONTNEED)
    }

    /// What the kernel is to do with `[start, end)`; nothing where that is empty. Who gives advice that changes content has the map to himself.
    fn advise(&self, start: u64, end: u64, advice: i32) -> io::Result<()> {
        if start >= end {
            return Ok(());
        }
        assert!(end <= self.len);
        // SAFETY: the range lies in our reservation (asserted); only `drop_pages` changes content, under &mut.
        let code = unsafe {
            libc::madvise(
                self.base().add(start as usize).cast(),
                (end - start) as usize,
                advice,
            )
        };
        if code == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.is_lent {
            return;
        }
        // SAFETY: the reservation is ours and nothing borrows from it any more.
        unsafe { libc::munmap(self.base().cast(), self.len as usize) };
    }
}

const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Zeroed memory that is backed only where it is touched; at `address`, unless that is 0 or something is there. As a hint, which the kernel
/// follows where it can: ThreadSanitizer drops addresses that it does not want and keeps the flags, and would map page 0.
fn reserve_memory(address: u64, len: u64, protection: i32) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping where there is none: a hint replaces nothing.
    let got = unsafe {
        libc::mmap(
            std::ptr::without_provenance_mut(address as usize),
            len as usize,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if got == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(NonNull::new(got.cast()).expect("mmap does not return null without MAP_FIXED"))
}
