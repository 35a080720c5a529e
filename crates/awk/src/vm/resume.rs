//! `--resume`: how far each input file has been read, committed together with what was made of it.
//!
//! A job that is run again, after a crash or every hour on growing and rotated logs, goes on where its last commit left
//! off: every line is counted exactly once. A file is known again by device, inode and the bytes at the head and just before
//! the position, so that a file that was truncated, or a new one under an old number, is not taken for the old one.
//!
//! | since the last run the file | what is read |
//! |---|---|
//! | has grown, or not changed | from the position on |
//! | was renamed, and a new one made (rotation) | the rest of the old one, files that were rotated in between, the new one |
//! | was copied and truncated (`copytruncate`) | the rest of the copy, then the file from its beginning |
//! | is another one and the old one is nowhere | the new one, with a warning |
//!
//! Invariants: a position is the end of a record that was processed, and is in the heap exactly if what was made of the record
//! is; a file that is truncated and written again while it is read ends the run, which has then read nothing (its rest may have been
//! taken for what came before); a record without its terminator, which somebody may still be writing, is left for the next run unless the file was
//! rotated away.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use heap::{Cell, Heap};
use xxhash_rust::xxh3::xxh3_64;

use super::Vm;
use super::timing::now;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::Separator;

/// Root of the positions: keys are `JOB` NUL `DEVICE:INODE`, values as [`Position::to_text`].
pub const POSITIONS: &str = "awk.positions";

/// Bytes at the head, and before the position, that tell whether a file is the same.
const SAMPLE_BYTES: u64 = 4096;

/// A position that no run has used for so long is forgotten: the file is gone.
const FORGET_SECONDS: f64 = 400.0 * 86_400.0;

/// Device and inode.
type Identity = (u64, u64);

/// Length and hash of some bytes of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Sample {
    len: u64,
    hash: u64,
}

impl Sample {
    fn of(bytes: &[u8]) -> Sample {
        Sample {
            len: bytes.len() as u64,
            hash: xxh3_64(bytes),
        }
    }

    /// Of `len` bytes from `at` on; `None` if they are not there.
    fn take(file: &File, at: u64, len: u64) -> Option<Sample> {
        let mut bytes = vec![0; len as usize];
        file.read_exact_at(&mut bytes, at).ok()?;
        Some(Sample::of(&bytes))
    }
}

/// How far a file has been read.
#[derive(Clone, PartialEq, Debug)]
struct Position {
    offset: u64,
    /// Records up to there: FNR goes on.
    fnr: f64,
    head: Sample,
    tail: Sample,
    /// When it was last used, in seconds since 1970.
    used: f64,
    /// It was rotated away and read to its end.
    finished: bool,
    /// The name that it was read for: that of the operand, also when the file has been renamed since.
    name: Vec<u8>,
}

impl Position {
    /// Whether `file` holds what was read when this position was noted.
    fn fits(&self, file: &File) -> bool {
        let tail_at = self.offset - self.tail.len.min(self.offset);
        file.metadata().is_ok_and(|meta| meta.len() >= self.offset)
            && Sample::take(file, 0, self.head.len) == Some(self.head)
            && Sample::take(file, tail_at, self.tail.len) == Some(self.tail)
    }

    /// Numbers in decimal, hashes in hexadecimal, then the name.
    fn to_text(&self) -> Vec<u8> {
        let mut text = format!(
            "{} {} {} {:016x} {} {:016x} {} {} ",
            self.offset,
            self.fnr,
            self.head.len,
            self.head.hash,
            self.tail.len,
            self.tail.hash,
            self.used,
            u8::from(self.finished)
        )
        .into_bytes();
        text.extend_from_slice(&self.name);
        text
    }

    fn from_text(text: &[u8]) -> Option<Position> {
        let mut parts = text.splitn(9, |b| *b == b' ');
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
            used: word()?.parse().ok()?,
            finished: word()? == "1",
            name: parts.next()?.to_vec(),
        };
        Some(position)
    }
}

/// A stretch of a file that is to be read.
pub(super) struct Segment {
    pub(super) file: File,
    identity: Identity,
    name: Vec<u8>,
    /// The bytes at its head, as they were when they were first seen.
    head: Vec<u8>,
    /// Where it begins.
    offset: u64,
    pub(super) fnr: f64,
    /// Nobody writes to the file any more: its last record counts without a terminator too.
    whole: bool,
    /// Where reading stopped before the end of what the reader took.
    stopped_at: Option<u64>,
}

/// The positions of a job.
pub struct Resume {
    job: Vec<u8>,
    known: HashMap<Identity, Position>,
    /// What is being read.
    current: Option<Segment>,
    changed: Vec<Identity>,
}

fn identity(meta: &std::fs::Metadata) -> Identity {
    (meta.dev(), meta.ino())
}

/// The same name for a file wherever the run was started.
fn absolute(path: &Path) -> PathBuf {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = path.file_name().unwrap_or(path.as_os_str());
    parent
        .canonicalize()
        .map_or_else(|_| path.to_path_buf(), |parent| parent.join(name))
}

/// Whether a file's name is what rotation makes of `name`: `log.1`, `log-20261120`, `log.2026-11-20`.
fn is_rotated_name(name: &[u8], of: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(of) else {
        return false;
    };
    matches!(rest.first(), Some(b'.' | b'-' | b'_'))
        && rest.len() > 1
        && rest[1..]
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_'))
}

impl Resume {
    /// The positions of `job` that the heap has.
    ///
    /// # Errors
    /// Damage.
    pub fn open(heap: &Heap, job: &[u8]) -> heap::Result<Resume> {
        let mut known = HashMap::new();
        if let Some(table) = heap.root_find(POSITIONS)? {
            heap.for_each(table, &mut |key, cell| {
                let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
                let of_job = key
                    .strip_prefix(job)
                    .and_then(|rest| rest.strip_prefix(b"\0"));
                if let (Some(file), Cell::Str { bytes, .. }) = (of_job, cell)
                    && let Some(colon) = file.iter().position(|b| *b == b':')
                    && let (Some(device), Some(inode)) =
                        (number(&file[..colon]), number(&file[colon + 1..]))
                    && let Some(position) = Position::from_text(bytes)
                {
                    known.insert((device, inode), position);
                }
                Ok(())
            })?;
        }
        Ok(Resume {
            job: job.to_vec(),
            known,
            current: None,
            changed: Vec::new(),
        })
    }

    fn key(&self, (device, inode): Identity) -> Vec<u8> {
        let mut key = self.job.clone();
        key.push(0);
        key.extend_from_slice(format!("{device}:{inode}").as_bytes());
        key
    }

    /// The stretches to read for an operand, in order, and the positions whose files are gone.
    fn plan(&self, operand: &[u8], file: File) -> std::io::Result<(Vec<Segment>, Vec<Identity>)> {
        let path = absolute(Path::new(OsStr::from_bytes(operand)));
        let own = identity(&file.metadata()?);
        let name = path.as_os_str().as_bytes().to_vec();
        if let Some(position) = self.known.get(&own)
            && position.fits(&file)
        {
            // Under its old name there is another file: this one was rotated.
            let old = std::fs::metadata(OsStr::from_bytes(&position.name));
            let moved = position.name != name && old.is_ok_and(|meta| identity(&meta) != own);
            let logical = if moved { position.name.clone() } else { name };
            let segment = Segment::new(file, own, logical, position, moved)?;
            return Ok((vec![segment], Vec::new()));
        }
        // What was read under this name, or this number, has become something else.
        let mut before: Vec<(Identity, &Position)> = self
            .known
            .iter()
            .filter(|(number, p)| p.name == name || **number == own)
            .map(|(number, p)| (*number, p))
            .collect();
        before.sort_by(|a, b| a.1.used.total_cmp(&b.1.used));
        // What is finished only tells since when files may have been rotated.
        if before.iter().any(|(_, p)| !p.finished) {
            before.retain(|(_, p)| !p.finished);
        } else if before.len() > 1 {
            before.drain(..before.len() - 1);
        }
        let (mut segments, mut gone, mut since) = (Vec::new(), Vec::new(), None);
        for (number, position) in &before {
            let Some(found) = self.find_beside(&path, own, *number, position) else {
                if !position.finished {
                    gone.push(*number);
                }
                continue;
            };
            let meta = found.metadata()?;
            since = since.max(Some((meta.mtime(), meta.mtime_nsec())));
            let moved = identity(&meta);
            // A copy may have a position of its own by now, beside that of the file that it was copied from.
            if segments.iter().any(|s: &Segment| s.identity == moved) {
                continue;
            }
            let further = self.known.get(&moved).filter(|p| p.fits(&found));
            let position = further.unwrap_or(position);
            segments.push(Segment::new(found, moved, name.clone(), position, true)?);
        }
        if let Some(since) = since {
            let heads = before.iter().map(|(_, p)| p.head).collect::<Vec<_>>();
            segments.extend(self.rotated_since(&path, own, since, &heads));
        }
        segments.push(Segment::from_start(file, own, name)?);
        Ok((segments, gone))
    }

    /// The file, in the folder of `path`, that a position was noted in: by its number, or a copy by what it holds.
    fn find_beside(
        &self,
        path: &Path,
        own: Identity,
        old: Identity,
        position: &Position,
    ) -> Option<File> {
        let mut copy = None;
        for entry in std::fs::read_dir(path.parent()?).ok()?.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let number = identity(&meta);
            let is_copy = is_rotated_name(
                entry.file_name().as_bytes(),
                path.file_name().unwrap_or_default().as_bytes(),
            );
            if !meta.is_file() || number == own || !(number == old || is_copy) {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else {
                continue;
            };
            if position.offset > 0 && position.fits(&file) {
                if number == old {
                    return Some(file);
                }
                copy = Some(file);
            }
        }
        copy
    }

    /// Files that were rotated since a time and never read: several rotations since the last run. Those that begin as a file
    /// that was read are copies of it.
    fn rotated_since(
        &self,
        path: &Path,
        own: Identity,
        since: (i64, i64),
        heads: &[Sample],
    ) -> Vec<Segment> {
        let base = path.file_name().unwrap_or_default().as_bytes();
        let Some(Ok(entries)) = path.parent().map(std::fs::read_dir) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for entry in entries.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            let number = identity(&meta);
            let time = (meta.mtime(), meta.mtime_nsec());
            // The clock of file times is coarse: a file as old as the one that was read last may come after it.
            if !meta.is_file()
                || time < since
                || number == own
                || !is_rotated_name(entry.file_name().as_bytes(), base)
            {
                continue;
            }
            let Ok(file) = File::open(entry.path()) else {
                continue;
            };
            // A known number may be a file that was truncated before it was rotated.
            if self.known.get(&number).is_some_and(|p| p.fits(&file)) {
                continue;
            }
            let is_copy = |head: &Sample| {
                head.len > 0 && Sample::take(&file, 0, head.len).as_ref() == Some(head)
            };
            if heads.iter().any(is_copy) {
                continue;
            }
            let name = path.as_os_str().as_bytes().to_vec();
            if let Ok(mut segment) = Segment::from_start(file, number, name) {
                segment.whole = true;
                found.push((time, segment));
            }
        }
        found.sort_by_key(|(time, _)| *time);
        found.into_iter().map(|(_, segment)| segment).collect()
    }
}

/// Up to `len` bytes from the beginning of a file.
fn head_bytes(file: &File, len: u64) -> Vec<u8> {
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

impl Segment {
    /// The samples for a position; `None` if what was read may not have been what was there at the beginning.
    fn samples(&mut self, offset: u64) -> Option<(Sample, Sample)> {
        let len = SAMPLE_BYTES.min(offset);
        let now = head_bytes(&self.file, SAMPLE_BYTES);
        let known = self.head.len().min(now.len());
        let same = self.head[..known] == now[..known] && now.len() >= self.head.len();
        if same {
            self.head = now;
            let head = &self.head[..self.head.len().min(len as usize)];
            let tail = Sample::take(&self.file, offset - len, len);
            return Some((Sample::of(head), tail.unwrap_or(Sample::of(b""))));
        }
        // It was truncated. Nothing was read since if it ends before the position.
        let shorter = self.file.metadata().is_ok_and(|meta| meta.len() < offset);
        let head = &self.head[..self.head.len().min(len as usize)];
        shorter.then(|| (Sample::of(head), Sample::of(b"")))
    }

    fn new(
        mut file: File,
        identity: Identity,
        name: Vec<u8>,
        position: &Position,
        whole: bool,
    ) -> std::io::Result<Segment> {
        file.seek(SeekFrom::Start(position.offset))?;
        Ok(Segment {
            head: head_bytes(&file, SAMPLE_BYTES),
            file,
            identity,
            name,
            offset: position.offset,
            fnr: position.fnr,
            whole,
            stopped_at: None,
        })
    }

    fn from_start(file: File, identity: Identity, name: Vec<u8>) -> std::io::Result<Segment> {
        let start = Position {
            offset: 0,
            fnr: 0.0,
            head: Sample::of(b""),
            tail: Sample::of(b""),
            used: 0.0,
            finished: false,
            name: Vec::new(),
        };
        Segment::new(file, identity, name, &start, false)
    }
}

impl Vm<'_> {
    /// The stretches of files to read for an operand.
    pub(super) fn segments(&mut self, operand: &[u8], file: File) -> Result<Vec<Segment>> {
        let Some(resume) = &self.resume else {
            return Ok(Vec::new());
        };
        let shown = || String::from_utf8_lossy(operand).into_owned();
        if !file.metadata().is_ok_and(|meta| meta.is_file()) {
            return Err(Fatal::operand(format!(
                "--resume: {:?} is no regular file: there is no position to come back to",
                shown()
            )));
        }
        let (segments, gone) = resume.plan(operand, file).map_err(|error| {
            Fatal::operand(format!(
                "cannot read {:?}: {}",
                shown(),
                system_reason(&error)
            ))
        })?;
        for number in gone {
            self.give_up(number, &shown());
        }
        Ok(segments)
    }

    /// A file that was read in part is nowhere: that is said once.
    fn give_up(&mut self, number: Identity, operand: &str) {
        let Some(resume) = &mut self.resume else {
            return;
        };
        if let Some(position) = resume.known.get_mut(&number) {
            position.finished = true;
            resume.changed.push(number);
            (self.input.warn)(format!(
                "warning: --resume: {operand:?} is not the file that was read before, and that one is not beside it: what it \
                 got after byte {} is not counted",
                position.offset
            ));
        }
    }

    /// A stretch begins.
    pub(super) fn begin_segment(&mut self, segment: Segment) {
        if let Some(resume) = &mut self.resume {
            resume.current = Some(segment);
        }
    }

    /// Before a record is read that may be left for the next run: `$0` must outlive it then.
    #[inline]
    pub(super) fn before_unfinished(&mut self) {
        let ready = match (&self.record.reader, &*self.settings.separator) {
            (Some(reader), Separator::Byte(byte)) => reader.has_line(*byte),
            _ => false,
        };
        if !ready {
            self.record.detach();
        }
    }

    /// Whether the record that was just read is to be left for the next run. The stretch ends before it then.
    #[cold]
    pub(super) fn is_unfinished(&mut self, len: usize) -> bool {
        let Some(reader) = &self.record.reader else {
            return false;
        };
        let terminator = reader.terminator();
        let finished = match *self.settings.separator {
            // At the end of what is there, one newline may be followed by more of the paragraph.
            Separator::Paragraph => terminator.len() >= 2,
            // A match that touches the end of what is there may become longer.
            ref separator => !terminator.is_empty() && !reader.may_grow(separator),
        };
        let before = reader.consumed() - (len + terminator.len()) as u64;
        let current = self.resume.as_mut().and_then(|r| r.current.as_mut());
        match current {
            Some(segment) if !segment.whole && !finished => {
                segment.stopped_at = Some(segment.offset + before);
                true
            }
            _ => false,
        }
    }

    /// The rest of the file is of no interest (`nextfile`).
    pub(super) fn skip_segment(&mut self) {
        let current = self.resume.as_mut().and_then(|r| r.current.as_mut());
        if let Some(segment) = current
            && let Ok(meta) = segment.file.metadata()
        {
            segment.stopped_at = Some(meta.len());
        }
    }

    /// Notes how far the current stretch has been read; `ends`: it is over.
    ///
    /// # Errors
    /// The file was truncated and written again meanwhile.
    pub(super) fn note_position(&mut self, ends: bool) -> Result<()> {
        let fnr = self.settings.fnr;
        let consumed = self.record.reader.as_ref().map_or(0, |r| r.consumed());
        let Some(resume) = &mut self.resume else {
            return Ok(());
        };
        let Some(segment) = &mut resume.current else {
            return Ok(());
        };
        let offset = segment.stopped_at.unwrap_or(segment.offset + consumed);
        let Some((head, tail)) = segment.samples(offset) else {
            return Err(Fatal::operand(format!(
                "--resume: {:?} was truncated and written again while it was read: nothing since the last commit is counted; \
                 run the job again",
                String::from_utf8_lossy(&segment.name)
            )));
        };
        let position = Position {
            offset,
            fnr,
            head,
            tail,
            used: now(),
            finished: ends && segment.whole,
            name: segment.name.clone(),
        };
        let identity = segment.identity;
        resume.known.insert(identity, position);
        if !resume.changed.contains(&identity) {
            resume.changed.push(identity);
        }
        if ends {
            resume.current = None;
        }
        Ok(())
    }

    /// Puts the positions into the heap, for the commit that follows.
    pub(super) fn save_positions(&mut self) -> Result<()> {
        self.note_position(false)?;
        let Some(resume) = &mut self.resume else {
            return Ok(());
        };
        let heap = &mut self.store.main;
        let table = heap.root(POSITIONS)?;
        for identity in std::mem::take(&mut resume.changed) {
            let text = resume.known[&identity].to_text();
            let slot = heap.entry(table, &resume.key(identity))?;
            let (bytes, maybe_num) = (text.as_slice(), false);
            heap.cell_set(slot, Cell::Str { bytes, maybe_num })?;
        }
        let oldest = now() - FORGET_SECONDS;
        let old: Vec<Identity> = resume
            .known
            .iter()
            .filter(|(_, p)| p.used < oldest)
            .map(|(identity, _)| *identity)
            .collect();
        for identity in old {
            heap.remove(table, &resume.key(identity))?;
            resume.known.remove(&identity);
        }
        Ok(())
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
            used: 1.8e9,
            finished: true,
            name: b"/var/log/a log".to_vec(),
        };
        assert_eq!(Position::from_text(&position.to_text()), Some(position));
        assert_eq!(Position::from_text(b"1 2 3"), None);
        assert_eq!(Position::from_text(b"1 2 99999999999 0 0 0 0 0 /x"), None);
    }

    #[test]
    fn names_of_rotated_files() {
        for name in ["log.1", "log-20261120", "log.2026-11-20"] {
            assert!(is_rotated_name(name.as_bytes(), b"log"), "{name}");
        }
        for name in ["log", "log.", "log.gz", "log.1.gz", "logs.1", "log.bak"] {
            assert!(!is_rotated_name(name.as_bytes(), b"log"), "{name}");
        }
    }
}
