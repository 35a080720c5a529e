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

mod candidate;
mod machine;
mod plan;
mod position;
mod segment;

use std::collections::HashMap;

use heap::{Cell, Heap};

use position::Position;
pub(super) use segment::Segment;

/// Root of the positions: keys are `JOB` NUL `SERIAL`, values as `Position::to_text` writes them.
pub const POSITIONS: &str = "awk.positions";

/// A position that no run has used for so long is forgotten: the file is gone.
const FORGET_SECONDS: f64 = 400.0 * 86_400.0;

/// The positions of a job.
pub struct Resume {
    job: Vec<u8>,
    /// One for each content, by its serial number.
    known: HashMap<u64, Position>,
    /// The serial number that the next new content gets.
    next: u64,
    /// What is being read.
    current: Option<Segment>,
    changed: Vec<u64>,
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
                    && let Some(serial) = number(file)
                    && let Some(position) = Position::from_text(bytes)
                {
                    known.insert(serial, position);
                }
                Ok(())
            })?;
        }
        Ok(Resume {
            job: job.to_vec(),
            next: known.keys().max().map_or(0, |last| last + 1),
            known,
            current: None,
            changed: Vec::new(),
        })
    }

    fn key(&self, serial: u64) -> Vec<u8> {
        let mut key = self.job.clone();
        key.push(0);
        key.extend_from_slice(serial.to_string().as_bytes());
        key
    }
}
