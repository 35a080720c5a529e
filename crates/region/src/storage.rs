//! All reading, writing and flushing of heap files and journals: one small trait, so that a simulated disk can stand
//! behind the same code as a real one.
//!
//! The invariant: nothing else in the project writes or flushes a heap file or its journal.

use std::fs::{File, FileTimes};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file of bytes with an explicit flush. What was written is durable only once a later [`Storage::sync`] returned
/// `Ok`; after a failed one nothing is known of the writes since the last good one.
pub trait Storage: Send {
    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Whether there are no bytes at all.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// The bytes themselves, where they lie in memory.
    fn in_memory(&self, _offset: u64, _len: u64) -> Option<&[u8]> {
        None
    }
    /// Fills `buf` from `offset`; reaching the end of the file first is `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf` at `offset`, extending the file where needed. On an error any part may have been written.
    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Cuts or extends with zeros.
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    /// Reserves the medium's space for `len` bytes from `offset`, extending the file: later writes there do not fail
    /// for want of room.
    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()>;
    /// Gives the medium's space of a range back; it reads as zeros afterwards. May do nothing.
    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()>;
    /// Asks for what was written in `range` to be brought to the medium soon, and waits for what was asked for in `before`.
    /// That bounds the memory that waits to be written; it promises nothing about what a crash leaves.
    fn write_back(&mut self, _range: Range<u64>, _before: Range<u64>) -> io::Result<()> {
        Ok(())
    }
    /// Whether writes of less than a sector cost less: on media that are addressed by bytes.
    fn is_by_bytes(&self) -> bool {
        false
    }
    /// Makes everything written so far durable.
    fn sync(&mut self) -> io::Result<()>;
    /// What does so from another thread while this one writes on; none where a flush takes no time to speak of, or there is no
    /// such thing.
    fn flusher(&self) -> Option<Arc<dyn Flusher>> {
        None
    }
    /// The file to map; none where the bytes must be read into memory instead.
    fn mappable(&self) -> Option<BorrowedFd<'_>>;
    /// Which offset is the first byte of the file to map; a multiple of the page.
    fn mapped_from(&self) -> u64 {
        0
    }
    /// One past the last byte that is there, where that is not for the region to say: memory behind its page cannot be read.
    fn present_end(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }
    /// Something that is different whenever anybody has changed the file since [`Storage::mark_version`] returned it; none where
    /// there is no telling.
    fn version(&self) -> io::Result<Option<i128>> {
        Ok(None)
    }
    /// As [`Storage::version`], and different from what anybody's change will make of it, however soon it comes.
    fn mark_version(&mut self) -> io::Result<Option<i128>> {
        Ok(None)
    }
}

/// Brings a storage's writes to the medium beside whoever writes to it.
pub trait Flusher: Send + Sync {
    /// Makes what was written before this was called durable. An error that the storage's own flush is told is told here too, whichever comes
    /// first, and the other way round.
    fn flush(&self) -> io::Result<()>;
}

impl Flusher for File {
    fn flush(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// A file of the operating system.
pub struct FileStorage(pub File);

impl FileStorage {
    /// Where the next data or the next hole is, from `offset` on (`whence`: `SEEK_DATA` or `SEEK_HOLE`); none behind the
    /// last. A file system without holes says that all is data.
    pub(crate) fn seek(&self, offset: u64, whence: libc::c_int) -> io::Result<Option<u64>> {
        // SAFETY: plain call on a descriptor that we own; no memory is involved.
        let at = unsafe { libc::lseek(self.0.as_raw_fd(), offset.cast_signed(), whence) };
        if at >= 0 {
            return Ok(Some(at.cast_unsigned()));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::ENXIO) {
            Ok(None)
        } else {
            Err(error)
        }
    }
}

impl FileStorage {
    fn sync_range(&self, range: Range<u64>, how: libc::c_uint) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let (offset, len) = (range.start.cast_signed(), range.end - range.start);
        // SAFETY: plain call on a descriptor that we own; no memory is involved.
        let code =
            unsafe { libc::sync_file_range(self.0.as_raw_fd(), offset, len.cast_signed(), how) };
        if code == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // A file system that has nothing to write back.
            Some(libc::EINVAL | libc::ENOSYS | libc::ESPIPE | libc::EOPNOTSUPP) => Ok(()),
            _ => Err(error),
        }
    }
}

/// Asks btrfs to overwrite a file, which must be empty, where it is, instead of writing it elsewhere: a flush of a journal is a third then. Its
/// bytes lose the file system's checksums, and a journal has its own. Elsewhere, and if it cannot be, nothing.
pub(crate) fn overwrite_in_place(file: &File) {
    const BTRFS_SUPER_MAGIC: i64 = 0x9123_683E;
    const FS_NOCOW_FL: libc::c_int = 0x0080_0000;
    let mut status = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: the structure is the call's, which fills it if it returns 0.
    if unsafe { libc::fstatfs(file.as_raw_fd(), status.as_mut_ptr()) } != 0 {
        return;
    }
    // SAFETY: it was filled.
    if unsafe { status.assume_init() }.f_type != BTRFS_SUPER_MAGIC {
        return;
    }
    let mut flags: libc::c_int = 0;
    // SAFETY: the request reads the flags of our descriptor into an int, whatever its name says.
    if unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_GETFLAGS, &raw mut flags) } == 0 {
        flags |= FS_NOCOW_FL;
        // SAFETY: as above; a refusal changes nothing.
        unsafe { libc::ioctl(file.as_raw_fd(), libc::FS_IOC_SETFLAGS, &raw const flags) };
    }
}

impl Storage for FileStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(buf, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let before = self.len()?;
        // posix_fallocate and not fallocate: glibc falls back to writing where the file system has no preallocation.
        // SAFETY: plain call on a descriptor that we own; no memory is involved.
        let code = unsafe {
            libc::posix_fallocate(self.0.as_raw_fd(), offset.cast_signed(), len.cast_signed())
        };
        if code == 0 {
            return Ok(());
        }
        // ext4 and others keep what they had reserved until there was no more: all the space that there was.
        if self.len()? > before {
            self.0.set_len(before)?;
        }
        Err(io::Error::from_raw_os_error(code))
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: as above.
        let code = unsafe {
            libc::fallocate(
                self.0.as_raw_fd(),
                mode,
                offset.cast_signed(),
                len.cast_signed(),
            )
        };
        if code == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // A file system without holes keeps the space; that costs room, not correctness.
        if error.raw_os_error() == Some(libc::EOPNOTSUPP) {
            Ok(())
        } else {
            Err(error)
        }
    }

    fn write_back(&mut self, range: Range<u64>, before: Range<u64>) -> io::Result<()> {
        self.sync_range(before, libc::SYNC_FILE_RANGE_WAIT_BEFORE)?;
        self.sync_range(range, libc::SYNC_FILE_RANGE_WRITE)
    }

    fn sync(&mut self) -> io::Result<()> {
        // fdatasync: the size is flushed with it when it matters for reading the data back (POSIX).
        self.0.sync_data()
    }

    fn flusher(&self) -> Option<Arc<dyn Flusher>> {
        // A description of its own: of each the kernel remembers which errors it was told.
        let own = File::open(format!("/proc/self/fd/{}", self.0.as_raw_fd())).ok()?;
        Some(Arc::new(own))
    }

    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn version(&self) -> io::Result<Option<i128>> {
        let meta = self.0.metadata()?;
        Ok(Some(nanoseconds(meta.mtime(), meta.mtime_nsec())))
    }

    /// Kernels take the time of a change from a clock that ticks every few milliseconds, so that two changes may have one time. A time that
    /// was set has nanoseconds that no tick has.
    fn mark_version(&mut self) -> io::Result<Option<i128>> {
        let now = SystemTime::now();
        let Ok(since) = now.duration_since(UNIX_EPOCH) else {
            return Ok(None);
        };
        let times = FileTimes::new().set_modified(now);
        // Only its owner may set a file's time; and some file systems keep seconds only.
        if self.0.set_times(times).is_err() {
            return Ok(None);
        }
        let version = self.version()?;
        Ok(version.filter(|&version| version == since.as_nanos().cast_signed()))
    }
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> i128 {
    i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_was_marked_is_no_other_ones() {
        let file = tempfile::tempfile().unwrap();
        let mut own = FileStorage(file.try_clone().unwrap());
        let mut seen = Vec::new();
        for _ in 0..200 {
            let marked = own
                .mark_version()
                .unwrap()
                .expect("a file system with nanoseconds");
            assert_eq!(own.version().unwrap(), Some(marked));
            // The kernel's own time for it, from a clock that ticks: set by us, it has all its digits.
            let mtime = file.metadata().unwrap().modified().unwrap();
            let since = mtime.duration_since(UNIX_EPOCH).unwrap();
            assert_eq!(since.as_nanos().cast_signed(), marked);
            seen.push(marked);
        }
        seen.dedup();
        assert_eq!(seen.len(), 200, "one is as another");
    }
}
