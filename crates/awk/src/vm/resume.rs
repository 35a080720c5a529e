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
//! | was rotated away and read, and has got more since | that, before the new one |
//! | was copied and truncated (`copytruncate`) | the rest of the copy, then the file from its beginning |
//! | was replaced by a copy of itself, perhaps longer (a restore, an editor, another device number) | from the position on |
//! | is another one and the old one is nowhere | the new one, with a warning |
//!
//! Invariants: a position is the end of a record that was processed, and is in the heap exactly if what was made of the record
//! is; a file that is truncated and written again while it is read ends the run, which has then read nothing (its rest may have been
//! taken for what came before); a record without its terminator, which somebody may still be writing, is left for the next run unless the file was
//! rotated away and nobody has written to it for a while.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use heap::{Cell, Heap};
use xxhash_rust::xxh3::xxh3_64;

use super::Vm;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::Separator;

/// Root of the positions: keys are `JOB` NUL `DEVICE:INODE`, values as [`Position::to_text`].
pub const POSITIONS: &str = "awk.positions";

/// Bytes at the head, and before the position, that tell whether a file is the same.
const SAMPLE_BYTES: u64 = 4096;

/// A position that no run has used for so long is forgotten: the file is gone.
const FORGET_SECONDS: f64 = 400.0 * 86_400.0;

/// Who has a file open that was rotated away writes to it until he opens the new one; after so many seconds without a
/// write that is over.
const QUIET_SECONDS: f64 = 60.0;

/// So much the clock of files may be behind that of the system.
const CLOCK_SECONDS: f64 = 0.05;

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
    /// When the job first read a file of that name: those that were rotated before are not its concern.
    since: f64,
    /// It was rotated away and read to its end.
    finished: bool,
    /// The name that it was read for: that of the operand, also when the file has been renamed since.
    name: Vec<u8>,
}

impl Position {
    /// Of a file of which nothing was read.
    fn start(since: f64) -> Position {
        Position {
            offset: 0,
            fnr: 0.0,
            head: Sample::of(b""),
            tail: Sample::of(b""),
            used: 0.0,
            since,
            finished: false,
            name: Vec::new(),
        }
    }

    /// Whether `file` holds what was read when this position was noted.
    fn fits(&self, file: &File) -> bool {
        let tail_at = self.offset - self.tail.len.min(self.offset);
        file.metadata().is_ok_and(|meta| meta.len() >= self.offset)
            && Sample::take(file, 0, self.head.len) == Some(self.head)
            && Sample::take(file, tail_at, self.tail.len) == Some(self.tail)
    }

    /// Whether `file`, of so many bytes, is the one that was read: a short beginning, or nothing, many files share.
    fn proves(&self, file: &File, bytes: u64) -> bool {
        (self.offset > SAMPLE_BYTES || self.offset == bytes) && self.fits(file)
    }

    /// Numbers in decimal, hashes in hexadecimal, then the name.
    fn to_text(&self) -> Vec<u8> {
        let mut text = format!(
            "{} {} {} {:016x} {} {:016x} {} {} {} ",
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

    fn from_text(text: &[u8]) -> Option<Position> {
        let mut parts = text.splitn(10, |b| *b == b' ');
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
            since: word()?.parse().ok()?,
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
    since: f64,
    /// The file was rotated away.
    rotated: bool,
    /// Nobody writes to the file any more: its last record counts without a terminator too.
    whole: bool,
    /// Where reading stopped before the end of what the reader took.
    stopped_at: Option<u64>,
    /// A file that is no more, which this one goes on: its position ends in the commit in which this one begins.
    replaces: Option<Identity>,
}

/// What to read for an operand.
#[derive(Default)]
struct Plan {
    /// Stretches of files, in order.
    segments: Vec<Segment>,
    /// Positions whose files are nowhere.
    gone: Vec<Identity>,
}

/// The positions of a job.
pub struct Resume {
    job: Vec<u8>,
    known: HashMap<Identity, Position>,
    /// What is being read.
    current: Option<Segment>,
    changed: Vec<Identity>,
}

/// Seconds since 1970, as exact as they are known: two looks at files are often less than one apart.
fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
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

    /// What to read for an operand.
    fn plan(&self, operand: &[u8], file: File) -> std::io::Result<Plan> {
        let path = absolute(Path::new(OsStr::from_bytes(operand)));
        let own = identity(&file.metadata()?);
        let name = path.as_os_str().as_bytes().to_vec();
        if let Some(position) = self.position_of(own, &name, &file) {
            // Under its old name there is another file: this one was rotated.
            let old = std::fs::metadata(OsStr::from_bytes(&position.name));
            let moved = position.name != name && old.is_ok_and(|meta| identity(&meta) != own);
            let logical = if moved { &position.name } else { &name };
            let mut plan = Plan::default();
            if !moved {
                let beside = beside(&path, own);
                plan.segments = self.late(&beside, &name)?;
                // It may have been copied and truncated while nothing, or a line of headings, had been read of it.
                self.rotated_since(&beside, &name, position.since, &file, &mut plan.segments);
            }
            let segment = Segment::new(file, own, logical.clone(), position, moved)?;
            plan.segments.push(segment);
            return Ok(plan);
        }
        // What was read under this name, or this number, has become something else.
        let mut before: Vec<(Identity, &Position)> = self
            .of_name(&name)
            .filter(|(number, p)| *number != own || !p.fits(&file))
            .collect();
        if let Some(position) = self.known.get(&own)
            && position.name != name
        {
            before.push((own, position));
        }
        before.sort_by(|a, b| a.1.used.total_cmp(&b.1.used));
        // What is finished only tells since when files may have been rotated.
        if before.iter().any(|(_, p)| !p.finished) {
            before.retain(|(_, p)| !p.finished);
        } else if before.len() > 1 {
            before.drain(..before.len() - 1);
        }
        let mut plan = Plan::default();
        if before.is_empty() {
            let start = Position::start(now());
            plan.segments
                .push(Segment::new(file, own, name, &start, false)?);
            return Ok(plan);
        }
        let beside = beside(&path, own);
        plan.segments = self.late(&beside, &name)?;
        let segments = &mut plan.segments;
        for (number, position) in &before {
            let neighbour = self.find_in(&beside, *number, position);
            // What was read is at the beginning of this file: it replaced the other one. A short beginning, such as a line of
            // headings, many files have: there a rotated one comes first.
            let is_here = neighbour.is_none()
                || neighbour.is_some_and(|n| n.number != *number) && position.offset > SAMPLE_BYTES;
            if is_here && *number != own && position.offset > 0 && position.fits(&file) {
                let file = file.try_clone()?;
                let mut segment = Segment::new(file, own, name.clone(), position, false)?;
                segment.replaces = Some(*number);
                segments.push(segment);
                return Ok(plan);
            }
            let Some(neighbour) = neighbour else {
                if !position.finished {
                    plan.gone.push(*number);
                }
                continue;
            };
            // A copy may have a position of its own by now, beside that of the file that it was copied from.
            if segments.iter().any(|s| s.identity == neighbour.number) {
                continue;
            }
            let found = File::open(&neighbour.path)?;
            let further = self.position_of(neighbour.number, &name, &found);
            let position = further.unwrap_or(position);
            let mut segment = Segment::new(found, neighbour.number, name.clone(), position, true)?;
            segment.replaces = Some(*number).filter(|n| ![own, neighbour.number].contains(n));
            segments.push(segment);
        }
        let since = before.iter().map(|(_, p)| p.since).reduce(f64::min);
        let start = Position::start(since.unwrap_or_else(now));
        self.rotated_since(&beside, &name, start.since, &file, segments);
        segments.push(Segment::new(file, own, name, &start, false)?);
        Ok(plan)
    }

    /// The position of a file by its number, unless that was another file's: then more is known to be in this one.
    fn position_of(&self, number: Identity, name: &[u8], file: &File) -> Option<&Position> {
        let position = self.known.get(&number).filter(|p| p.fits(file))?;
        let more = |p: &Position| p.offset > position.offset && p.fits(file);
        let is_proof = position.offset > SAMPLE_BYTES || !self.of_name(name).any(|(_, p)| more(p));
        is_proof.then_some(position)
    }

    /// The positions of the files that were read under a name.
    fn of_name<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = (Identity, &'a Position)> {
        self.known
            .iter()
            .filter(move |(_, p)| p.name == name)
            .map(|(number, p)| (*number, p))
    }

    /// What was written to rotated files after they had been read: by a daemon that had not opened the new one.
    fn late(&self, beside: &[Neighbour], name: &[u8]) -> std::io::Result<Vec<Segment>> {
        let mut segments = Vec::new();
        for neighbour in beside {
            let number = neighbour.number;
            let Some(known) = self.known.get(&number).filter(|p| p.name == name) else {
                continue;
            };
            // The number alone, with nothing read, could be that of any file by now.
            if neighbour.bytes <= known.offset || (known.offset == 0 && !neighbour.is_rotated) {
                continue;
            }
            let file = File::open(&neighbour.path)?;
            if let Some(position) = self.position_of(number, name, &file) {
                segments.push(Segment::new(file, number, name.to_vec(), position, true)?);
            }
        }
        Ok(segments)
    }

    /// Adds files that were rotated since the job began and never read: several rotations since the last run. Those that hold
    /// the same as one that was read, or is to be read, are copies.
    fn rotated_since(
        &self,
        beside: &[Neighbour],
        name: &[u8],
        since: f64,
        own: &File,
        segments: &mut Vec<Segment>,
    ) {
        // Positions are forgotten after a time, and with them that such files were read.
        let oldest = since.max(now() - FORGET_SECONDS) - CLOCK_SECONDS;
        let mut found: Vec<&Neighbour> = beside
            .iter()
            .filter(|n| n.is_rotated && n.written >= oldest)
            .collect();
        found.sort_by(|a, b| a.written.total_cmp(&b.written));
        for neighbour in found {
            let number = neighbour.number;
            let Ok(file) = File::open(&neighbour.path) else {
                continue;
            };
            // A known number may be a file that was truncated before it was rotated. A file that was read may be back, out of
            // its compressed form; a short beginning many files have.
            if self.position_of(number, name, &file).is_some()
                || self
                    .of_name(name)
                    .any(|(_, p)| p.finished && p.proves(&file, neighbour.bytes))
                || segments
                    .iter()
                    .any(|s| s.identity == number || is_copy(&file, &s.file))
                || is_copy(&file, own)
            {
                continue;
            }
            let start = Position::start(since);
            if let Ok(segment) = Segment::new(file, number, name.to_vec(), &start, true) {
                segments.push(segment);
            }
        }
    }

    /// The file that a position was noted in: by its number, or a copy by what it holds.
    fn find_in<'a>(
        &self,
        beside: &'a [Neighbour],
        number: Identity,
        position: &Position,
    ) -> Option<&'a Neighbour> {
        let fits = |n: &Neighbour| File::open(&n.path).is_ok_and(|file| position.fits(&file));
        // Of a file from which nothing was read only its number and its name are known.
        let own = beside.iter().find(|n| n.number == number);
        if let Some(own) = own
            && (position.offset > 0 || own.is_rotated)
            && fits(own)
        {
            return Some(own);
        }
        // What was read before this position was noted is another file with the same beginning.
        let is_other = |n: &Neighbour| {
            let older = self.known.get(&n.number).filter(|p| p.used < position.used);
            older.is_some_and(|p| File::open(&n.path).is_ok_and(|file| p.proves(&file, n.bytes)))
        };
        beside
            .iter()
            .filter(|n| position.offset > 0 && n.is_rotated && fits(n) && !is_other(n))
            .min_by(|a, b| a.written.total_cmp(&b.written))
    }
}

/// Whether a file is a copy of another one, perhaps of when that was shorter, or the other of it. A short beginning many files
/// share.
fn is_copy(file: &File, other: &File) -> bool {
    let len = |file: &File| file.metadata().map_or(0, |meta| meta.len());
    let shared = len(file).min(len(other));
    if shared < len(file) && shared <= SAMPLE_BYTES {
        return false;
    }
    let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut at = 0;
    while at < shared {
        let part = (shared - at).min(left.len() as u64) as usize;
        let (left, right) = (&mut left[..part], &mut right[..part]);
        let read = file.read_exact_at(left, at);
        if read.and_then(|()| other.read_exact_at(right, at)).is_err() || left != right {
            return false;
        }
        at += part as u64;
    }
    shared > 0
}

/// A file in the folder of an operand.
struct Neighbour {
    path: PathBuf,
    number: Identity,
    bytes: u64,
    /// When it was written to last, in seconds since 1970.
    written: f64,
    /// Its name is what rotation makes of the operand's.
    is_rotated: bool,
}

/// When a file was written to last, in seconds since 1970.
fn written(meta: &std::fs::Metadata) -> f64 {
    meta.mtime() as f64 + meta.mtime_nsec() as f64 / 1e9
}

/// The other files in the folder of `path`.
fn beside(path: &Path, own: Identity) -> Vec<Neighbour> {
    let base = path.file_name().unwrap_or_default().as_bytes();
    let Some(Ok(entries)) = path.parent().map(std::fs::read_dir) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let number = identity(&meta);
        if meta.is_file() && number != own {
            found.push(Neighbour {
                path: entry.path(),
                number,
                bytes: meta.len(),
                written: written(&meta),
                is_rotated: is_rotated_name(entry.file_name().as_bytes(), base),
            });
        }
    }
    found
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
    /// Where the last line ends that counts; `from`, if none does.
    fn end_of_lines(&self, from: u64, byte: u8) -> std::io::Result<u64> {
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
        rotated: bool,
    ) -> std::io::Result<Segment> {
        file.seek(SeekFrom::Start(position.offset))?;
        let quiet = now() - written(&file.metadata()?) >= QUIET_SECONDS;
        Ok(Segment {
            head: head_bytes(&file, SAMPLE_BYTES),
            file,
            identity,
            name,
            offset: position.offset,
            fnr: position.fnr,
            since: position.since,
            rotated,
            whole: rotated && quiet,
            stopped_at: None,
            replaces: None,
        })
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
        let plan = resume.plan(operand, file).map_err(|error| {
            Fatal::operand(format!(
                "cannot read {:?}: {}",
                shown(),
                system_reason(&error)
            ))
        })?;
        for number in plan.gone {
            self.give_up(number, &shown());
        }
        Ok(plan.segments)
    }

    /// A file that was read in part is nowhere: that is said once.
    fn give_up(&mut self, number: Identity, operand: &str) {
        let Some(resume) = &mut self.resume else {
            return;
        };
        resume.changed.push(number);
        if let Some(position) = resume.known.get_mut(&number) {
            position.finished = true;
            let offset = position.offset;
            (self.input.warn)(format!(
                "warning: --resume: {operand:?} is not the file that was read before, and that one is not beside it: what it \
                 got after byte {offset} is not counted"
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
    ///
    /// # Errors
    /// The separator is one that ends no record.
    #[cold]
    pub(super) fn is_unfinished(&mut self) -> Result<bool> {
        let Some(reader) = &self.record.reader else {
            return Ok(false);
        };
        if self.settings.separator.is_never() {
            return Err(Fatal::operand(
                "--resume: with RS = \"^$\" all of a file is one record, which has no end as long as something may be added: \
                 there is no position to come back to",
            ));
        }
        let terminator = reader.terminator();
        let finished = match *self.settings.separator {
            // At the end of what is there, one newline may be followed by more of the paragraph.
            Separator::Paragraph => terminator.len() >= 2,
            // A match that touches the end of what is there may become longer.
            ref separator => !terminator.is_empty() && !reader.may_grow(separator),
        };
        let before = reader.record_offset();
        let current = self.resume.as_mut().and_then(|r| r.current.as_mut());
        Ok(match current {
            Some(segment) if !segment.whole && !finished => {
                segment.stopped_at = Some(segment.offset + before);
                true
            }
            _ => false,
        })
    }

    /// The rest of the file is of no interest (`nextfile`), up to the end of its last record.
    pub(super) fn skip_segment(&mut self) -> Result<()> {
        let consumed = self.record.reader.as_ref().map_or(0, |r| r.consumed());
        let Some(segment) = self.resume.as_mut().and_then(|r| r.current.as_mut()) else {
            return Ok(());
        };
        let separator = Rc::clone(&self.settings.separator);
        if let Separator::Byte(byte) = *separator {
            match segment.end_of_lines(segment.offset + consumed, byte) {
                Ok(end) => segment.stopped_at = Some(end),
                Err(error) => return Err(self.read_error(&error)),
            }
            return Ok(());
        }
        self.record.detach();
        while let Some(reader) = &mut self.record.reader {
            match reader.next(&separator) {
                Ok(Some(_)) if self.is_unfinished()? => break,
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return Err(self.read_error(&error)),
            }
        }
        Ok(())
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
            since: segment.since,
            finished: ends && segment.rotated && (segment.whole || segment.stopped_at.is_none()),
            name: segment.name.clone(),
        };
        let identity = segment.identity;
        if let Some(number) = segment.replaces.take() {
            // Its number may become that of a copy.
            resume.known.remove(&number);
            resume.changed.push(number);
        }
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
            let Some(position) = resume.known.get(&identity) else {
                heap.remove(table, &resume.key(identity))?;
                continue;
            };
            let text = position.to_text();
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
            since: 1.7e9,
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
