//! Which pages a program wrote to, as the kernel knows it: for stores that nobody marks.
//!
//! Two ways, the same answer. *Armed*: pages are write-protected with userfaultfd's asynchronous mode, which costs 0.7 us when one is first
//! written to again, and `PAGEMAP_SCAN` names those that were and arms them again (Linux 6.7). *Private*: a page of a private
//! file mapping that was ever written to is the process' own, and `/proc/self/pagemap` tells it from one that is the file's; that
//! costs nothing at all when storing, but such a page stays one until it is dropped, so it is a candidate at each commit.
//!
//! The invariant: a page of the range whose bytes in memory may differ from what they were when it was last mapped, dropped or
//! armed is named. Others may be named too: whoever asks compares.

use crate::layout::PAGE_BYTES;
use crate::map::Map;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// The kernel's interface (linux/userfaultfd.h, linux/fs.h), which the libc crate does not have.
mod kernel {
    pub(super) const UFFD_API: u64 = 0xAA;
    pub(super) const UFFD_USER_MODE_ONLY: i32 = 1;
    /// Write-protection of pages that are not there yet is remembered.
    pub(super) const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
    /// A write to a protected page is let through and noted.
    pub(super) const FEATURE_WP_ASYNC: u64 = 1 << 15;
    pub(super) const REGISTER_MODE_WP: u64 = 1 << 1;
    pub(super) const UFFDIO_API: u64 = 0xC018_AA3F;
    pub(super) const UFFDIO_REGISTER: u64 = 0xC020_AA00;
    pub(super) const PAGEMAP_SCAN: u64 = 0xC060_6610;
    pub(super) const SCAN_WP_MATCHING: u64 = 1;
    pub(super) const SCAN_CHECK_WPASYNC: u64 = 2;
    pub(super) const PAGE_IS_WRITTEN: u64 = 1 << 1;
    pub(super) const PAGE_IS_FILE: u64 = 1 << 2;
    pub(super) const PAGE_IS_PRESENT: u64 = 1 << 3;
    pub(super) const PAGE_IS_SWAPPED: u64 = 1 << 4;
    pub(super) const PAGE_IS_PFNZERO: u64 = 1 << 5;

    #[repr(C)]
    pub(super) struct Api {
        pub(super) api: u64,
        pub(super) features: u64,
        pub(super) ioctls: u64,
    }

    #[repr(C)]
    pub(super) struct Register {
        pub(super) start: u64,
        pub(super) len: u64,
        pub(super) mode: u64,
        pub(super) ioctls: u64,
    }

    #[repr(C)]
    #[derive(Clone, Copy, Default)]
    pub(super) struct PageRegion {
        pub(super) start: u64,
        pub(super) end: u64,
        pub(super) categories: u64,
    }

    #[repr(C)]
    pub(super) struct ScanArg {
        pub(super) size: u64,
        pub(super) flags: u64,
        pub(super) start: u64,
        pub(super) end: u64,
        pub(super) walk_end: u64,
        pub(super) vec: u64,
        pub(super) vec_len: u64,
        pub(super) max_pages: u64,
        pub(super) category_inverted: u64,
        pub(super) category_mask: u64,
        pub(super) category_anyof_mask: u64,
        pub(super) return_mask: u64,
    }

    const _: () = {
        assert!(size_of::<Api>() == 24);
        assert!(size_of::<Register>() == 32);
        assert!(size_of::<ScanArg>() == 96);
    };
}

/// Runs of pages that one scan returns.
const RUNS_PER_SCAN: usize = 512;
/// Entries of `/proc/self/pagemap`, eight bytes a page: in memory, in swap, the file's.
const ENTRY_PRESENT: u64 = 1 << 63;
const ENTRY_SWAPPED: u64 = 1 << 62;
const ENTRY_OF_FILE: u64 = 1 << 61;

/// How the kernel is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Armed,
    Private,
}

pub(crate) struct Written {
    pagemap: File,
    /// Keeps pages protected; none in the private way.
    fault_fd: Option<OwnedFd>,
    /// The kernel has no `PAGEMAP_SCAN`: entries are read one by one.
    by_entries: bool,
}

impl Written {
    /// The armed way where the kernel has it and it is wanted, else the private one.
    pub(crate) fn new(wanted: Way) -> io::Result<Written> {
        Ok(Written {
            pagemap: File::open("/proc/self/pagemap")?,
            fault_fd: match wanted {
                Way::Armed => fault_descriptor().ok(),
                Way::Private => None,
            },
            by_entries: false,
        })
    }

    /// The private way from now on, and of this process: `/proc/self` was another one before a fork.
    pub(crate) fn stop_watching(&mut self) {
        self.fault_fd = None;
        if let Ok(own) = File::open("/proc/self/pagemap") {
            self.pagemap = own;
        }
    }

    pub(crate) fn way(&self) -> Way {
        match self.fault_fd {
            Some(_) => Way::Armed,
            None => Way::Private,
        }
    }

    /// `range` of `map` was mapped anew: from now on it is watched.
    pub(crate) fn watch(&mut self, map: &Map, range: Range<u64>) -> io::Result<()> {
        let Some(fd) = &self.fault_fd else {
            return Ok(());
        };
        if range.is_empty() {
            return Ok(());
        }
        assert!(range.start.is_multiple_of(PAGE_BYTES) && range.end <= map.len());
        let mut register = kernel::Register {
            start: map.base() as u64 + range.start,
            len: range.end - range.start,
            mode: kernel::REGISTER_MODE_WP,
            ioctls: 0,
        };
        // SAFETY: the structure is the ioctl's and lives during the call; the range is our own mapping (asserted), whose
        // content it does not change.
        let code =
            unsafe { libc::ioctl(fd.as_raw_fd(), kernel::UFFDIO_REGISTER, &raw mut register) };
        if code != 0 {
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOMEM)) {
                return Err(error);
            }
            // Memory of a kind that this kernel cannot watch: all in the other way, then.
            self.fault_fd = None;
        }
        Ok(())
    }

    /// Calls `note` with each run of pages (as offsets) of `range` that may have been written to since they were last named here
    /// (in the private way: since they were mapped or dropped), in ascending order.
    pub(crate) fn for_each(
        &mut self,
        map: &Map,
        range: Range<u64>,
        note: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        match self.way() {
            Way::Armed => self.scan(map, range, true, note),
            Way::Private => self.for_each_private(map, range, note),
        }
    }

    /// As [`Written::for_each`] in the private way, whichever this is.
    pub(crate) fn for_each_private(
        &mut self,
        map: &Map,
        range: Range<u64>,
        note: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        assert!(range.start.is_multiple_of(PAGE_BYTES) && range.end <= map.len());
        if !self.by_entries {
            match self.scan(map, range.clone(), false, note) {
                Err(e) if is_unknown(&e) => self.by_entries = true,
                done => return done,
            }
        }
        self.read_entries(map, range, note)
    }

    fn scan(
        &self,
        map: &Map,
        range: Range<u64>,
        armed: bool,
        note: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        assert!(range.start.is_multiple_of(PAGE_BYTES) && range.end <= map.len());
        use kernel::{PAGE_IS_FILE, PAGE_IS_PFNZERO, PAGE_IS_PRESENT, PAGE_IS_SWAPPED};
        let base = map.base() as u64;
        let mut runs = [kernel::PageRegion::default(); RUNS_PER_SCAN];
        // What is the file's, or the page of zeros, nobody wrote to.
        let unwritten = PAGE_IS_FILE | PAGE_IS_PFNZERO;
        let mut arg = kernel::ScanArg {
            size: size_of::<kernel::ScanArg>() as u64,
            flags: 0,
            start: base + range.start,
            end: base + range.end,
            walk_end: 0,
            vec: runs.as_mut_ptr() as u64,
            vec_len: RUNS_PER_SCAN as u64,
            max_pages: 0,
            category_inverted: unwritten,
            category_mask: unwritten,
            category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
            return_mask: PAGE_IS_PRESENT,
        };
        if armed {
            arg.flags = kernel::SCAN_WP_MATCHING | kernel::SCAN_CHECK_WPASYNC;
            arg.category_mask |= kernel::PAGE_IS_WRITTEN;
        }
        while arg.start < arg.end {
            // SAFETY: the structure is the ioctl's; `vec` points to `vec_len` runs that live until the loop ends. Protecting pages
            // in asynchronous mode changes nothing that the program could see.
            let found = unsafe {
                libc::ioctl(self.pagemap.as_raw_fd(), kernel::PAGEMAP_SCAN, &raw mut arg)
            };
            if found < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            for run in &runs[..found as usize] {
                note(run.start - base..run.end - base);
            }
            if arg.walk_end <= arg.start {
                break;
            }
            arg.start = arg.walk_end;
        }
        Ok(())
    }

    #[expect(clippy::host_endian_bytes, reason = "the kernel's, not a file's")]
    fn read_entries(
        &self,
        map: &Map,
        range: Range<u64>,
        note: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        let mut buffer = [0; 32 << 10];
        let mut run = 0..0;
        let first = map.base() as u64 / PAGE_BYTES;
        let mut page = range.start / PAGE_BYTES;
        let end = range.end / PAGE_BYTES;
        while page < end {
            let entries = ((end - page) as usize).min(buffer.len() / 8);
            let bytes = &mut buffer[..entries * 8];
            self.pagemap.read_exact_at(bytes, (first + page) * 8)?;
            for entry in bytes.as_chunks::<8>().0 {
                let entry = u64::from_ne_bytes(*entry);
                let is_there = entry & (ENTRY_PRESENT | ENTRY_SWAPPED) != 0;
                if is_there && entry & ENTRY_OF_FILE == 0 {
                    let at = page * PAGE_BYTES;
                    if run.end == at && !run.is_empty() {
                        run.end += PAGE_BYTES;
                    } else {
                        if !run.is_empty() {
                            note(run);
                        }
                        run = at..at + PAGE_BYTES;
                    }
                }
                page += 1;
            }
        }
        if !run.is_empty() {
            note(run);
        }
        Ok(())
    }
}

/// The kernel does not know the request.
fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL))
}

/// A descriptor that arms pages, if the kernel can do that without anybody answering faults.
fn fault_descriptor() -> io::Result<OwnedFd> {
    let flags = libc::O_CLOEXEC | libc::O_NONBLOCK | kernel::UFFD_USER_MODE_ONLY;
    // SAFETY: plain system call; no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that was just made and is nobody else's.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut api = kernel::Api {
        api: kernel::UFFD_API,
        features: kernel::FEATURE_WP_ASYNC | kernel::FEATURE_WP_UNPOPULATED,
        ioctls: 0,
    };
    // SAFETY: the structure is the ioctl's and lives during the call.
    let code = unsafe { libc::ioctl(fd.as_raw_fd(), kernel::UFFDIO_API, &raw mut api) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const PAGES: u64 = 2000;

    /// A private mapping of a file, watched in this way, and the pages that it names.
    fn watched(way: Way) -> (Map, Written, File) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGES * PAGE_BYTES).unwrap();
        file.write_all_at(&vec![7; (PAGES * PAGE_BYTES) as usize], 0)
            .unwrap();
        let mut map = Map::reserve_exact(1 << 30).unwrap();
        map.map_private(file.as_fd(), 0, 0, PAGES * PAGE_BYTES)
            .unwrap();
        let mut written = Written::new(way).unwrap();
        written.watch(&map, 0..PAGES * PAGE_BYTES).unwrap();
        (map, written, file)
    }

    fn named(written: &mut Written, map: &Map) -> Vec<u64> {
        let mut pages = Vec::new();
        let mut note = |run: Range<u64>| pages.extend(run.step_by(PAGE_BYTES as usize));
        written
            .for_each(map, 0..PAGES * PAGE_BYTES, &mut note)
            .unwrap();
        pages.iter().map(|at| at / PAGE_BYTES).collect()
    }

    fn store(map: &mut Map, page: u64) {
        map.slice_mut(page * PAGE_BYTES + 5, page * PAGE_BYTES + 6)[0] += 1;
    }

    #[test]
    fn what_is_written_is_named_and_what_is_read_is_not() {
        for (way, by_entries) in [
            (Way::Armed, false),
            (Way::Private, false),
            (Way::Private, true),
        ] {
            let (mut map, mut written, _file) = watched(way);
            written.by_entries = by_entries;
            let read: u64 = (0..PAGES)
                .map(|p| u64::from(map.slice(p * PAGE_BYTES, (p + 1) * PAGE_BYTES)[9]))
                .sum();
            assert_eq!(read, 7 * PAGES);
            assert!(named(&mut written, &map).is_empty(), "{way:?}");
            for page in [3, 4, 5, 900, 1999] {
                store(&mut map, page);
            }
            assert_eq!(named(&mut written, &map), [3, 4, 5, 900, 1999], "{way:?}");
            let again = named(&mut written, &map);
            if written.way() == Way::Armed {
                assert!(again.is_empty());
            } else {
                assert_eq!(again, [3, 4, 5, 900, 1999]);
            }
            map.drop_pages(0, PAGES * PAGE_BYTES).unwrap();
            assert!(named(&mut written, &map).is_empty());
            store(&mut map, 4);
            store(&mut map, 77);
            assert_eq!(named(&mut written, &map), [4, 77], "{way:?}");
            // More runs than one scan gives.
            for page in (0..PAGES).step_by(2) {
                store(&mut map, page);
            }
            let many = named(&mut written, &map);
            let expected: Vec<u64> = (0..PAGES).filter(|p| p % 2 == 0).collect();
            let even = |p: &&u64| p.is_multiple_of(2);
            assert_eq!(
                many.iter().filter(even).copied().collect::<Vec<_>>(),
                expected
            );
        }
    }

    #[test]
    fn what_the_kernel_writes_for_the_program_is_named() {
        use std::io::Read;
        for way in [Way::Armed, Way::Private] {
            let (mut map, mut written, _file) = watched(way);
            let mut zeros = File::open("/dev/zero").unwrap();
            zeros
                .read_exact(map.slice_mut(8 * PAGE_BYTES, 8 * PAGE_BYTES + 100))
                .unwrap();
            assert_eq!(named(&mut written, &map), [8]);
        }
    }
}
