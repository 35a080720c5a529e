//! `--resume`: how far each input file has been read, committed together with what was made of it.
//!
//! A job that is run again, after a crash or every hour on growing and rotated logs, goes on where its last commit left
//! off: every line is counted exactly once. What a position belongs to is not a file but a *content*, which grows in one file, is
//! renamed with it, copied, and cut off when its file is truncated.
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
//! The rules that decide whether this is the content that was read (`plan.rs`), and what goes wrong without each:
//!
//! 1. *A content has one position, with a serial number for a key.* Under the inode for a key the position of a log's next content,
//!    after a truncation, overwrites that of the content that is in the copy by now, and the copy is read again.
//! 2. *A position fits only a file that has its bytes*: at the head, just before the offset, and at least so many. The number of
//!    a dead file may be that of any other one at once (ext4).
//! 3. *A position is claimed by at most one file, and a file claims at most one.* Bytes in common are counted alike whichever
//!    of two files with the same beginning goes on from the position, as long as the other one begins at 0. So short positions, of
//!    a line of headings or so, may go to the wrong file, and no line is lost.
//! 4. *The furthest position goes first.* A file that holds the bytes of a far one is not the file of a nearer one, even if it has
//!    its number.
//! 5. *Over 4 KiB the bytes decide (a strong position), below them the number (device, inode, birth) does.* Short contents are the
//!    same by chance; long ones are copies, also with other numbers.
//! 6. *Of several files with a strong position's content the longest is read, the name's own at a tie; the others are copies.*
//!    They are what `copytruncate` has made and not yet truncated, and what a restore left behind.
//! 7. *A file that claims no position is read from 0* if it has the name, or a rotated name and was written to since the job began;
//!    unless it is a copy of one that is read. A short one counts as a copy only of the name's own file, with times as of
//!    a copy: a daemon's logs that all have the same line are no copies.
//! 8. *A short position that is finished goes by its bytes only to a rotated file of just its length that was not written to
//!    since*: one that was compressed and is back. Otherwise the dead positions of short logs would swallow new ones.
//! 9. *A position of nothing (offset 0) proves nothing*: it keeps since when the job reads that name, and goes to the file of its
//!    number if that is sure, to an unread one, or away.
//! 10. *A plan is made again until no file changed meanwhile, and no name in the folder*: a file that is renamed while its folder is
//!     read may be seen under neither name. Empty rotated files, and short ones that are still at the beginning
//!     of the name's own, wait for the next run. In the middle of `copytruncate` a copy is anything from nothing to all of the file.
//! 11. *Bytes that were processed are compared with the file before a position is noted* (`segment.rs`): it may be truncated and
//!     written again while it is read. Its rest may have been taken for what came before; such a run has read nothing.
//!
//! Invariants: a position is the end of a record that was processed, and is in the heap exactly if what was made of the record
//! is; a record without its terminator, which somebody may still be writing, is left for the next run unless the file was
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
