//! A stretch of a file that is read, and what is known of its bytes when a position in it is noted.
//!
//! Invariant: a position is noted only if the file still has what was processed, or ends before it.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use super::candidate::Candidate;
use super::position::{Identity, Position, SAMPLE_BYTES, Sample, head_bytes, now, written};

/// Who has a file open that was rotated away writes to it until he opens the new one; after so many seconds without a
/// write that is over.
const QUIET_SECONDS: f64 = 60.0;

/// What is known of the bytes of a content.
#[derive(Default)]
struct Taken {
    /// The bytes at its head: as they were when they were first seen, then as they were processed.
    head: Vec<u8>,
    /// The last bytes that were processed, and where in the file they end.
    last: Vec<u8>,
    end: u64,
}

/// Gives a file's bytes to the reader, and remembers some.
struct Source {
    file: File,
    taken: Rc<RefCell<Taken>>,
}

impl Read for Source {
    fn read(&mut self, block: &mut [u8]) -> std::io::Result<usize> {
        let len = self.file.read(block)?;
        let (block, taken) = (&block[..len], &mut *self.taken.borrow_mut());
        // What goes on from the head belongs to it.
        let known = (taken.head.len() as u64).checked_sub(taken.end);
        if let Some(more) = known.and_then(|known| block.get(known as usize..)) {
            let lacking = SAMPLE_BYTES as usize - taken.head.len();
            taken
                .head
                .extend_from_slice(&more[..more.len().min(lacking)]);
        }
        if len > 0 {
            taken.last.clear();
            taken
                .last
                .extend_from_slice(&block[len.saturating_sub(SAMPLE_BYTES as usize)..]);
            taken.end += len as u64;
        }
        Ok(len)
    }
}

/// A stretch of a file that is to be read.
pub(in crate::vm) struct Segment {
    file: File,
    pub(super) identity: Identity,
    /// The number of its position; a new content has none before it is noted.
    pub(super) serial: Option<u64>,
    pub(super) name: Vec<u8>,
    taken: Rc<RefCell<Taken>>,
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
        let taken = Taken {
            head: head_bytes(&file, SAMPLE_BYTES),
            last: Vec::new(),
            end: position.offset,
        };
        Ok(Some(Segment {
            taken: Rc::new(RefCell::new(taken)),
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

    /// What the reader is to read.
    ///
    /// # Errors
    /// There are too many open files.
    pub(in crate::vm) fn source(&self) -> std::io::Result<Box<dyn Read>> {
        Ok(Box::new(Source {
            file: self.file.try_clone()?,
            taken: Rc::clone(&self.taken),
        }))
    }

    /// The samples for a position; `None` if what was read may not have been what was there at the beginning, or if that is
    /// not known.
    pub(super) fn samples(&self, offset: u64) -> Option<(Sample, Sample)> {
        let taken = &mut *self.taken.borrow_mut();
        let len = SAMPLE_BYTES.min(offset);
        let now = head_bytes(&self.file, SAMPLE_BYTES);
        let last_at = taken.end - taken.last.len() as u64;
        let last = Sample::take(&self.file, last_at, taken.last.len() as u64);
        if now.starts_with(&taken.head)
            && now.len() as u64 >= len
            && last == Some(Sample::of(&taken.last))
            && let Some(tail) = Sample::take(&self.file, offset - len, len)
        {
            taken.head = now;
            return Some((Sample::of(&taken.head[..len as usize]), tail));
        }
        // It was truncated. Nothing was read since if it ends before the position.
        let shorter = self.file.metadata().is_ok_and(|meta| meta.len() < offset);
        let head = taken.head.get(..len as usize).filter(|_| shorter)?;
        Some((Sample::of(head), Sample::of(b"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;

    /// A log with a line of headings, planned and then grown by `lines` before it is read.
    fn read(folder: &std::path::Path, lines: &str) -> (std::path::PathBuf, Segment) {
        let path = folder.join("log");
        fs::write(&path, "#head\n").unwrap();
        let candidate = Candidate::own(path.clone(), File::open(&path).unwrap()).unwrap();
        let start = Position::start(0.0);
        let segment = Segment::new(&candidate, None, &start, b"log", false).unwrap();
        let mut log = File::options().append(true).open(&path).unwrap();
        log.write_all(lines.as_bytes()).unwrap();
        let segment = segment.unwrap();
        let mut all = Vec::new();
        segment.source().unwrap().read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 6 + lines.len());
        (path, segment)
    }

    #[test]
    fn a_log_that_is_truncated_and_written_again_while_it_is_read_has_no_samples() {
        let folder = tempfile::tempdir().unwrap();
        let (path, segment) = read(folder.path(), "1\n2\n");
        assert!(segment.samples(10).is_some());
        // The same headings, and as long as it was.
        fs::write(&path, "#head\n3\n4\n5\n").unwrap();
        assert!(segment.samples(10).is_none());
        fs::write(&path, "#head\n1\n2\n5\n").unwrap();
        assert!(segment.samples(10).is_some());
    }

    #[test]
    fn a_log_that_was_truncated_after_it_was_read_has_the_samples_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let (path, segment) = read(folder.path(), "1\n2\n");
        fs::write(&path, "").unwrap();
        let (head, _) = segment.samples(10).unwrap();
        assert_eq!(head, Sample::of(b"#head\n1\n2\n"));
    }
}
