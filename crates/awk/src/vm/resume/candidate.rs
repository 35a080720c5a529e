//! The files that an operand's content may be in: itself, what rotation made of it, and files that were it.
//!
//! Invariant: files are looked at one at a time, so that thousands of rotated ones need no more than one descriptor.

use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::position::{Identity, Position, SAMPLE_BYTES, Sample, head_bytes, now, written};

/// Of a copy that has begun there are more than [`SAMPLE_BYTES`] after so long.
const BEGUN_SECONDS: f64 = 2.0;

/// A file that may hold what was read, or what is to be read.
pub(super) struct Candidate {
    pub(super) path: PathBuf,
    pub(super) identity: Identity,
    pub(super) bytes: u64,
    /// When it was written to last, in seconds since 1970.
    pub(super) written: f64,
    /// Its name is what rotation makes of the operand's.
    pub(super) is_rotated: bool,
    /// The operand is open already: its name may be another file's by now. And the bytes at its head.
    file: Option<(File, Vec<u8>)>,
    /// The sample that was last taken of its head: nearly all are of the same length.
    head: Cell<Option<Sample>>,
}

impl Candidate {
    fn new(path: PathBuf, meta: &std::fs::Metadata, is_rotated: bool) -> Candidate {
        Candidate {
            path,
            identity: Identity::of(meta),
            bytes: meta.len(),
            written: written(meta),
            is_rotated,
            file: None,
            head: Cell::new(None),
        }
    }

    /// The operand itself.
    ///
    /// # Errors
    /// The system does not tell what the file is.
    pub(super) fn own(path: PathBuf, file: File) -> std::io::Result<Candidate> {
        let mut own = Candidate::new(path, &file.metadata()?, false);
        let head = head_bytes(&file, SAMPLE_BYTES.min(own.bytes));
        own.file = Some((file, head));
        Ok(own)
    }

    /// The file, unless another one has its name by now.
    pub(super) fn open(&self) -> Option<File> {
        if let Some((file, _)) = &self.file {
            return file.try_clone().ok();
        }
        let file = File::open(&self.path).ok()?;
        let meta = file.metadata().ok()?;
        (Identity::of(&meta) == self.identity).then_some(file)
    }

    /// Whether the file is as it was when it was found; the operand may have grown.
    pub(super) fn is_same(&self) -> bool {
        if let Some((file, head)) = &self.file {
            let has_all = file.metadata().is_ok_and(|meta| meta.len() >= self.bytes);
            return has_all && head_bytes(file, head.len() as u64) == *head;
        }
        let meta = self.open().and_then(|file| file.metadata().ok());
        meta.is_some_and(|meta| meta.len() == self.bytes && written(&meta) == self.written)
    }

    /// Whether the file holds what was read when `position` was noted.
    pub(super) fn fits(&self, position: &Position) -> bool {
        if self.bytes < position.offset {
            return false;
        }
        let known = self.head.get().filter(|head| head.len == position.head.len);
        if known.is_some_and(|head| head != position.head) {
            return false;
        }
        let Some(file) = self.open() else {
            return false;
        };
        if known.is_none() {
            let Some(head) = Sample::take(&file, 0, position.head.len) else {
                return false;
            };
            self.head.set(Some(head));
            if head != position.head {
                return false;
            }
        }
        let tail_at = position.offset - position.tail.len.min(position.offset);
        Sample::take(&file, tail_at, position.tail.len) == Some(position.tail)
    }

    /// Whether all of the file is at the beginning of another one, of which it was copied or is being copied: the same lines
    /// twice. Short contents may be the same by chance (a daemon's first line), so there the times must be those of a copy, too.
    pub(super) fn is_copy_of(&self, other: &Candidate) -> bool {
        if self.bytes > other.bytes {
            return false;
        }
        let is_younger = self.identity.birth == 0 || self.identity.birth > other.identity.birth;
        let is_begun = now() - self.written < BEGUN_SECONDS;
        let is_whole = self.bytes == other.bytes && self.written >= other.written;
        if self.bytes <= SAMPLE_BYTES && !(is_younger && (is_begun || is_whole)) {
            return false;
        }
        let (Some(file), Some(other)) = (self.open(), other.open()) else {
            return false;
        };
        let (mut left, mut right) = (vec![0; 64 << 10], vec![0; 64 << 10]);
        let mut at = 0;
        while at < self.bytes {
            let part = (self.bytes - at).min(left.len() as u64) as usize;
            let (left, right) = (&mut left[..part], &mut right[..part]);
            let read = file.read_exact_at(left, at);
            if read.and_then(|()| other.read_exact_at(right, at)).is_err() || left != right {
                return false;
            }
            at += part as u64;
        }
        true
    }
}

/// The same name for a file wherever the run was started.
pub(super) fn absolute(path: &Path) -> PathBuf {
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
pub(super) fn is_rotated_name(name: &[u8], of: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(of) else {
        return false;
    };
    matches!(rest.first(), Some(b'.' | b'-' | b'_'))
        && rest.len() > 1
        && rest[1..]
            .iter()
            .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'_'))
}

/// The other files in the folder of `path` that have a rotated name, or that `is_known` says were read under its own.
pub(super) fn beside(
    path: &Path,
    own: Option<Identity>,
    is_known: impl Fn(Identity) -> bool,
) -> Vec<Candidate> {
    let base = path.file_name().unwrap_or_default().as_bytes();
    let Some(Ok(entries)) = path.parent().map(std::fs::read_dir) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut seen: HashSet<Identity> = own.into_iter().collect();
    for entry in entries.flatten() {
        let Ok(meta) = entry.metadata() else { continue };
        let identity = Identity::of(&meta);
        let is_rotated = is_rotated_name(entry.file_name().as_bytes(), base);
        // A file that has two names is there once.
        if meta.is_file() && (is_rotated || is_known(identity)) && seen.insert(identity) {
            found.push(Candidate::new(entry.path(), &meta, is_rotated));
        }
    }
    found
}

/// The path that a position's name is.
pub(super) fn path_of(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}

#[cfg(test)]
mod tests {
    use super::*;

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
