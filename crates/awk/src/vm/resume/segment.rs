//! A stretch of a file that is read, and what is known of its bytes when a position in it is noted.
//!
//! Invariant: a position is noted only if the file still has what was processed, or ends before it.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use super::candidate::Candidate;
use super::position::{Identity, Position, SAMPLE_BYTES, Sample, head_bytes, now, written};

/// Who has a file open that was rotated away writes to it until he opens the new one; after so many seconds without a
/// write that is over.
const QUIET_SECONDS: f64 = 60.0;

/// A stretch of a file that is to be read.
pub(in crate::vm) struct Segment {
    pub(in crate::vm) file: File,
    pub(super) identity: Identity,
    /// The number of its position; a new content has none before it is noted.
    pub(super) serial: Option<u64>,
    pub(super) name: Vec<u8>,
    /// The bytes at its head, as they were when they were first seen.
    head: Vec<u8>,
    /// Where it begins.
    pub(super) offset: u64,
    pub(in crate::vm) fnr: f64,
    pub(super) since: f64,
    /// The file was rotated away.
    pub(super) rotated: bool,
    /// Nobody writes to the file any more: its last record counts without a terminator too.
    pub(super) whole: bool,
    /// Where reading stopped before the end of what the reader took.
    pub(super) stopped_at: Option<u64>,
}

impl Segment {
    /// From `position` on; `None` if the file is there no more.
    ///
    /// # Errors
    /// The system does not tell what the file is, or cannot go to the position.
    pub(super) fn new(
        candidate: &Candidate,
        serial: Option<u64>,
        position: &Position,
        name: &[u8],
        rotated: bool,
    ) -> std::io::Result<Option<Segment>> {
        let Some(mut file) = candidate.open() else {
            return Ok(None);
        };
        file.seek(SeekFrom::Start(position.offset))?;
        let quiet = now() - written(&file.metadata()?) >= QUIET_SECONDS;
        Ok(Some(Segment {
            head: head_bytes(&file, SAMPLE_BYTES),
            file,
            identity: candidate.identity,
            serial,
            name: name.to_vec(),
            offset: position.offset,
            fnr: position.fnr,
            since: position.since,
            rotated,
            whole: rotated && quiet,
            stopped_at: None,
        }))
    }

    /// Where the last line ends that counts; `from`, if none does.
    pub(super) fn end_of_lines(&self, from: u64, byte: u8) -> std::io::Result<u64> {
        let mut end = self.file.metadata()?.len();
        if self.whole {
            return Ok(end.max(from));
        }
        let mut block = vec![0; 64 << 10];
        while end > from {
            let len = (end - from).min(block.len() as u64);
            let block = &mut block[..len as usize];
            self.file.read_exact_at(block, end - len)?;
            if let Some(at) = memchr::memrchr(byte, block) {
                return Ok(end - len + at as u64 + 1);
            }
            end -= len;
        }
        Ok(from)
    }

    /// The samples for a position; `None` if what was read may not have been what was there at the beginning, or if that is
    /// not known.
    pub(super) fn samples(&mut self, offset: u64) -> Option<(Sample, Sample)> {
        let len = SAMPLE_BYTES.min(offset);
        let now = head_bytes(&self.file, SAMPLE_BYTES);
        if now.starts_with(&self.head)
            && now.len() as u64 >= len
            && let Some(tail) = Sample::take(&self.file, offset - len, len)
        {
            self.head = now;
            return Some((Sample::of(&self.head[..len as usize]), tail));
        }
        // It was truncated. Nothing was read since if it ends before the position.
        let shorter = self.file.metadata().is_ok_and(|meta| meta.len() < offset);
        let head = self.head.get(..len as usize).filter(|_| shorter)?;
        Some((Sample::of(head), Sample::of(b"")))
    }
}
