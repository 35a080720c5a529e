//! A position: how far a content was read, how it is known again, and the text of it that the heap keeps.
//!
//! Invariant: the samples are of the bytes that were processed, so a position fits a file only if that has at least so many bytes,
//! and the same at its head and before the offset.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_64;

/// Bytes at the head, and before the position, that tell whether a content is the same. What more than this was read of is known by
/// its bytes alone; fewer may be headings, which many files share.
pub(super) const SAMPLE_BYTES: u64 = 4096;

/// What the system says a file is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Identity {
    pub(super) device: u64,
    pub(super) inode: u64,
    /// In nanoseconds since 1970; 0 where the file system does not know. It tells files apart that had the same inode one after the
    /// other, unless they were made within one tick of the system's clock.
    pub(super) birth: u64,
}

impl Identity {
    pub(super) fn of(meta: &Metadata) -> Identity {
        let birth = meta.created().ok();
        let birth = birth.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        Identity {
            device: meta.dev(),
            inode: meta.ino(),
            birth: birth.map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(0)),
        }
    }
}

/// Seconds since 1970, as exact as they are known: two looks at files are often less than one apart.
pub(super) fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
}

/// When a file was written to last, in seconds since 1970.
pub(super) fn written(meta: &Metadata) -> f64 {
    meta.mtime() as f64 + meta.mtime_nsec() as f64 / 1e9
}

/// Up to `len` bytes from the beginning of a file.
pub(super) fn head_bytes(file: &File, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(n) if n > 0 => filled += n,
            _ => break,
        }
    }
    bytes.truncate(filled);
    bytes
}

/// Length and hash of some bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sample {
    pub(super) len: u64,
    pub(super) hash: u64,
}

impl Sample {
    pub(super) fn of(bytes: &[u8]) -> Sample {
        Sample {
            len: bytes.len() as u64,
            hash: xxh3_64(bytes),
        }
    }

    /// Of `len` bytes from `at` on; `None` if they are not there.
    pub(super) fn take(file: &File, at: u64, len: u64) -> Option<Sample> {
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(Sample::of(&bytes))
    }
}

/// How far a content has been read.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Position {
    pub(super) offset: u64,
    /// Records up to there: FNR goes on.
    pub(super) fnr: f64,
    pub(super) head: Sample,
    pub(super) tail: Sample,
    /// The file that it was last read in.
    pub(super) identity: Identity,
    /// When it was last used, in seconds since 1970.
    pub(super) used: f64,
    /// When the job first read a file of that name: those that were rotated before are not its concern.
    pub(super) since: f64,
    /// It was rotated away and read to its end, or is nowhere and that was said.
    pub(super) finished: bool,
    /// The name that it was read for: that of the operand, also when the file has been renamed since.
    pub(super) name: Vec<u8>,
}

impl Position {
    /// Of a content of which nothing was read.
    pub(super) fn start(since: f64) -> Position {
        Position {
            offset: 0,
            fnr: 0.0,
            head: Sample::of(b""),
            tail: Sample::of(b""),
            identity: Identity {
                device: 0,
                inode: 0,
                birth: 0,
            },
            used: 0.0,
            since,
            finished: false,
            name: Vec::new(),
        }
    }

    /// More was read than headings have: what fits holds the same content.
    pub(super) fn is_strong(&self) -> bool {
        self.offset > SAMPLE_BYTES
    }

    /// Numbers in decimal, hashes in hexadecimal, then the name.
    pub(super) fn to_text(&self) -> Vec<u8> {
        let Identity {
            device,
            inode,
            birth,
        } = self.identity;
        let mut text = format!(
            "{} {} {} {:016x} {} {:016x} {device} {inode} {birth} {} {} {} ",
            self.offset,
            self.fnr,
            self.head.len,
            self.head.hash,
            self.tail.len,
            self.tail.hash,
            self.used,
            self.since,
            u8::from(self.finished)
        )
        .into_bytes();
        text.extend_from_slice(&self.name);
        text
    }

    pub(super) fn from_text(text: &[u8]) -> Option<Position> {
        let mut parts = text.splitn(13, |b| *b == b' ');
        let mut word = || std::str::from_utf8(parts.next()?).ok();
        let number = |word: Option<&str>| word?.parse::<u64>().ok();
        let hash = |word: Option<&str>| u64::from_str_radix(word?, 16).ok();
        let position = Position {
            offset: number(word())?,
            fnr: word()?.parse().ok()?,
            head: Sample {
                len: number(word()).filter(|len| *len <= SAMPLE_BYTES)?,
                hash: hash(word())?,
            },
            tail: Sample {
                len: number(word()).filter(|len| *len <= SAMPLE_BYTES)?,
                hash: hash(word())?,
            },
            identity: Identity {
                device: number(word())?,
                inode: number(word())?,
                birth: number(word())?,
            },
            used: word()?.parse().ok()?,
            since: word()?.parse().ok()?,
            finished: word()? == "1",
            name: parts.next()?.to_vec(),
        };
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_they_were_written() {
        let position = Position {
            offset: 1234,
            fnr: 56.0,
            head: Sample { len: 78, hash: 9 },
            tail: Sample {
                len: 78,
                hash: u64::MAX,
            },
            identity: Identity {
                device: 1,
                inode: 2,
                birth: 1_800_000_000_123_456_789,
            },
            used: 1.8e9,
            since: 1.7e9,
            finished: true,
            name: b"/var/log/a log".to_vec(),
        };
        assert_eq!(Position::from_text(&position.to_text()), Some(position));
        assert_eq!(Position::from_text(b"1 2 3"), None);
        assert_eq!(
            Position::from_text(b"1 2 99999999999 0 0 0 0 0 0 0 0 0 /x"),
            None
        );
    }
}
