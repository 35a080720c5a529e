//! Parts of files: looked at, and written into pipes.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::io::{Errno, pread};
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, splice};

use crate::flow::{self, Tally};
use crate::wire::PIECE;

/// A part of a file.
pub struct Stretch {
    /// The file.
    pub file: OwnedFd,
    /// Which part.
    pub range: Range<u64>,
}

impl Stretch {
    /// Whether one of the first `most` bytes is zero.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn has_zero(&self, most: u64) -> Result<bool, Errno> {
        let mut bytes = vec![0; PIECE];
        let end = self.range.end.min(self.range.start.saturating_add(most));
        let mut at = self.range.start;
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX);
            let count = count.min(bytes.len());
            match pread(&self.file, &mut bytes[..count], at) {
                Ok(0) => break,
                Ok(had) if bytes[..had].contains(&0) => return Ok(true),
                Ok(had) => at += had as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// A part of a file, and the pipe that it is to be written into.
pub struct Feed {
    part: Stretch,
    into: OwnedFd,
}

/// How much a pipe holds that a part of a file goes through.
const FEED: usize = 1 << 20;

impl Feed {
    /// Of a part into a pipe.
    pub fn new(part: Stretch, into: OwnedFd) -> Feed {
        // Who reads should not have to wait for each small piece; a kernel that gives no more gives what it has.
        let _ = fcntl_setpipe_size(&into, FEED);
        Feed { part, into }
    }

    /// Writes it all, until its end or until nobody reads.
    ///
    /// # Errors
    /// Why it cannot be read. Who reads the pipe takes its end for that of the part, which it is not then.
    pub fn run(&self) -> Result<(), Errno> {
        let mut at = self.part.range.start;
        while at < self.part.range.end {
            let left = usize::try_from(self.part.range.end - at).unwrap_or(usize::MAX);
            let flags = SpliceFlags::empty();
            match splice(
                &self.part.file,
                Some(&mut at),
                &self.into,
                None,
                left.min(FEED),
                flags,
            ) {
                Ok(0) | Err(Errno::PIPE) => return Ok(()),
                Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::INVAL | Errno::NOSYS) => return self.copy(at),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes the rest where the kernel cannot move it.
    fn copy(&self, mut at: u64) -> Result<(), Errno> {
        let mut bytes = vec![0; PIECE];
        while at < self.part.range.end {
            let most = usize::try_from(self.part.range.end - at).unwrap_or(usize::MAX);
            let most = most.min(bytes.len());
            let had = match pread(&self.part.file, &mut bytes[..most], at) {
                Ok(0) => return Ok(()),
                Ok(had) => had,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            if flow::write_piece(&self.into, &bytes[..had], &Tally::default()).is_err() {
                return Ok(());
            }
            at += had as u64;
        }
        Ok(())
    }
}
