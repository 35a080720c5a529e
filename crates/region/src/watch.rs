//! Which instruction stores without a mark: for verify mode, where somebody wants to know.
//!
//! The place of a line that was missed is watched by the processor, by a debug register of each thread (`perf_event_open(2)`), until the next
//! commit. If the line was missed again by then, whatever stored to the place meanwhile did it without a mark, and the kernel has noted which
//! instructions that were. No thread is stopped and no signal is sent; what the kernel itself stores (`read(2)` into a heap) goes through and is not named.
//!
//! The invariant: where the machine or the kernel (`kernel.perf_event_paranoid`) does not allow it, nothing is watched, and nothing else changes.

use crate::layout::{LINE_BYTES, PAGE_BYTES};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kernel's interface (linux/perf_event.h, linux/hw_breakpoint.h), which the libc crate does not have.
mod kernel {
    pub(super) const TYPE_BREAKPOINT: u32 = 5;
    pub(super) const BREAKPOINT_W: u32 = 2;
    pub(super) const SAMPLE_IP: u64 = 1;
    /// Bits 5 and 6: not in the kernel, not in a hypervisor.
    pub(super) const USER_ONLY: u64 = 1 << 5 | 1 << 6;
    pub(super) const CLOSE_ON_EXEC: u64 = 1 << 3;
    pub(super) const RECORD_SAMPLE: u32 = 9;

    /// The first 72 bytes of the structure, which is what the kernel has known since breakpoints can be of some length.
    #[repr(C)]
    #[derive(Default)]
    pub(super) struct Attributes {
        pub(super) kind: u32,
        pub(super) size: u32,
        pub(super) config: u64,
        pub(super) sample_period: u64,
        pub(super) sample_type: u64,
        pub(super) read_format: u64,
        pub(super) flags: u64,
        pub(super) wakeup: u32,
        pub(super) breakpoint: u32,
        pub(super) address: u64,
        pub(super) len: u64,
    }
    const _: () = assert!(size_of::<Attributes>() == 72);

    /// Of the page in front of the notes: one past the last note, and where the first one is.
    pub(super) const DATA_HEAD: usize = 1024;
    pub(super) const NOTES: usize = super::PAGE_BYTES as usize;
}

/// A processor watches no more places than this.
const PLACES_MAX: usize = 4;
/// Bytes at a place, which is a multiple of it.
const PLACE_BYTES: u64 = 8;
/// More threads than this are not watched: each takes descriptors and memory.
const THREADS_MAX: usize = 64;

/// The places that are watched, as offsets in the region; the newest last.
#[derive(Default)]
pub(crate) struct Watches {
    places: Vec<u64>,
    watched: Vec<Watched>,
}

/// A place as one thread stores to it.
struct Watched {
    place: u64,
    notes: Notes,
}

/// What the kernel notes: a page about the notes and a page of them.
struct Notes {
    /// None in a process that was split off, which does not have it.
    pages: Option<NonNull<u8>>,
    _fd: OwnedFd,
}

// SAFETY: the mapping is bound to no thread.
unsafe impl Send for Notes {}

impl Watches {
    /// The instructions that stored to watched places of the line at `offset` since [`Watches::begin`]. (Each is the one behind the store.)
    pub(crate) fn stored_to(&self, offset: u64) -> impl Iterator<Item = u64> {
        let line = offset / LINE_BYTES;
        let of_line = self.watched.iter();
        let of_line = of_line.filter(move |watched| watched.place / LINE_BYTES == line);
        of_line.flat_map(|watched| watched.notes.instructions())
    }

    /// The byte at `offset` was stored to without a mark, and nobody knows by what: it is to be watched.
    pub(crate) fn want(&mut self, offset: u64) {
        let place = offset / PLACE_BYTES * PLACE_BYTES;
        if self.places.contains(&place) {
            return;
        }
        if self.places.len() == PLACES_MAX {
            self.places.remove(0);
        }
        self.places.push(place);
    }

    /// It is known now what stores to this line.
    pub(crate) fn forget(&mut self, offset: u64) {
        let line = offset / LINE_BYTES;
        self.places.retain(|place| place / LINE_BYTES != line);
    }

    /// In a process that was split off: it has the descriptors and not the memory, and commits nothing.
    pub(crate) fn become_child(&mut self) {
        for watched in &mut self.watched {
            watched.notes.pages = None;
        }
        *self = Watches::default();
    }

    /// Forgets what was noted, and watches the places in the region at `base` for all threads that there are now.
    pub(crate) fn begin(&mut self, base: u64) {
        self.watched.clear();
        if self.places.is_empty() {
            return;
        }
        let threads = threads();
        for &place in &self.places {
            for &thread in &threads {
                if let Ok(notes) = Notes::of(thread, base + place) {
                    self.watched.push(Watched { place, notes });
                }
            }
        }
    }
}

/// The threads of this process; none if there are too many.
fn threads() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let threads: Vec<i32> = numbers.take(THREADS_MAX + 1).collect();
    if threads.len() > THREADS_MAX {
        return Vec::new();
    }
    threads
}

impl Notes {
    fn of(thread: i32, address: u64) -> io::Result<Notes> {
        let attributes = kernel::Attributes {
            kind: kernel::TYPE_BREAKPOINT,
            size: size_of::<kernel::Attributes>() as u32,
            sample_period: 1,
            sample_type: kernel::SAMPLE_IP,
            flags: kernel::USER_ONLY,
            breakpoint: kernel::BREAKPOINT_W,
            address,
            len: PLACE_BYTES,
            ..kernel::Attributes::default()
        };
        // SAFETY: the structure is the call's and lives during it; no other memory is involved.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                thread,
                -1, // on any processor
                -1, // in no group
                kernel::CLOSE_ON_EXEC,
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that was just made and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        // SAFETY: a new mapping where there is none.
        let pages = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE_BYTES as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if pages == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Notes {
            pages: NonNull::new(pages.cast()),
            _fd: fd,
        })
    }

    /// Notes that came while there was no room are lost: there are a few hundred then, which will do.
    fn instructions(&self) -> Vec<u64> {
        let Some(pages) = self.pages else {
            return Vec::new();
        };
        // SAFETY: a word of the first page, which the kernel stores to.
        let head = unsafe { AtomicU64::from_ptr(pages.as_ptr().add(kernel::DATA_HEAD).cast()) };
        let end = head.load(Ordering::Acquire).min(PAGE_BYTES) as usize;
        // SAFETY: the second page; up to `end` the kernel stores to it no more.
        let notes = unsafe { std::slice::from_raw_parts(pages.as_ptr().add(kernel::NOTES), end) };
        // Each begins with its kind (4 bytes), 2 bytes and its length (2 bytes).
        let mut found = Vec::new();
        let mut rest = notes;
        while let Some((head, behind)) = rest.split_first_chunk::<8>() {
            let len = usize::from(u16::from(head[6]) | u16::from(head[7]) << 8);
            if len < 8 || len > rest.len() {
                break;
            }
            let kind = u32::from(head[0]) | u32::from(head[1]) << 8;
            if let (kernel::RECORD_SAMPLE, Some(word)) = (kind, behind.first_chunk::<8>()) {
                found.push(crate::layout::get_u64(word, 0));
            }
            rest = &rest[len..];
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        if let Some(pages) = self.pages {
            // SAFETY: the mapping is ours, and nothing borrows from it any more.
            unsafe { libc::munmap(pages.as_ptr().cast(), 2 * PAGE_BYTES as usize) };
        }
    }
}
