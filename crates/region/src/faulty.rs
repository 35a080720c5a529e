//! For tests: storages of which a chosen operation fails, over real files.

use crate::Region;
use crate::storage::{FileStorage, Storage};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The nth read or write from now on fails; 0: none does.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) read: AtomicU64,
    pub(crate) write: AtomicU64,
}

struct Faulty {
    inner: Box<dyn Storage>,
    faults: Arc<Faults>,
}

fn is_due(countdown: &AtomicU64) -> bool {
    let before = countdown.load(Ordering::Relaxed);
    countdown.store(before.saturating_sub(1), Ordering::Relaxed);
    before == 1
}

/// From now on the region's heap file and its journal fail as they are told.
pub(crate) fn make_faulty(region: &mut Region) -> [Arc<Faults>; 2] {
    let backing = region.backing.as_mut().expect("a file behind the region");
    [&mut backing.heap, &mut backing.journal].map(|storage| {
        let faults = Arc::new(Faults::default());
        let nothing = Box::new(FileStorage(tempfile::tempfile().unwrap()));
        *storage = Box::new(Faulty {
            inner: std::mem::replace(storage, nothing),
            faults: faults.clone(),
        });
        faults
    })
}

impl Storage for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if is_due(&self.faults.read) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        self.inner.read_at(buf, offset)
    }

    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        if is_due(&self.faults.write) {
            self.inner.write_at(&buf[..buf.len() / 2 / 8 * 8], offset)?;
            return Err(io::Error::from_raw_os_error(libc::ENOSPC));
        }
        self.inner.write_at(buf, offset)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.allocate(offset, len)
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.discard(offset, len)
    }

    fn write_back(&mut self, range: Range<u64>, before: Range<u64>) -> io::Result<()> {
        self.inner.write_back(range, before)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()
    }

    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        self.inner.mappable()
    }

    fn mapped_from(&self) -> u64 {
        self.inner.mapped_from()
    }
}
