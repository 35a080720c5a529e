//! The machine's side: the stretches of an operand are read one after the other, and how far goes into the commit.
//!
//! Invariant: a position is put into the heap by the commit that has what was made of the records up to it, and by no other.

use std::fs::File;
use std::rc::Rc;

use heap::Cell;

use super::position::{Position, now};
use super::segment::Segment;
use super::{FORGET_SECONDS, POSITIONS};
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::Separator;
use crate::vm::Vm;

impl Vm<'_> {
    /// The stretches of files to read for an operand.
    pub(in crate::vm) fn segments(&mut self, operand: &[u8], file: File) -> Result<Vec<Segment>> {
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
        for serial in plan.gone {
            self.give_up(serial, &shown());
        }
        if let Some(resume) = &mut self.resume {
            resume.changed.extend(plan.spare.iter().chain(&plan.kept));
            for serial in plan.spare {
                resume.known.remove(&serial);
            }
            for serial in plan.kept {
                if let Some(position) = resume.known.get_mut(&serial) {
                    position.used = now();
                }
            }
        }
        Ok(plan.segments)
    }

    /// A content that was read in part is nowhere: that is said once.
    fn give_up(&mut self, serial: u64, operand: &str) {
        let Some(resume) = &mut self.resume else {
            return;
        };
        resume.changed.push(serial);
        if let Some(position) = resume.known.get_mut(&serial) {
            position.finished = true;
            let offset = position.offset;
            (self.input.warn)(format!(
                "warning: --resume: {operand:?} is not the file that was read before, and that one is not beside it: what it \
                 got after byte {offset} is not counted"
            ));
        }
    }

    /// A stretch begins.
    pub(in crate::vm) fn begin_segment(&mut self, segment: Segment) {
        if let Some(resume) = &mut self.resume {
            resume.current = Some(segment);
        }
    }

    /// Before a record is read that may be left for the next run: `$0` must outlive it then.
    #[inline]
    pub(in crate::vm) fn before_unfinished(&mut self) {
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
    pub(in crate::vm) fn is_unfinished(&mut self) -> Result<bool> {
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
    pub(in crate::vm) fn skip_segment(&mut self) -> Result<()> {
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
    pub(in crate::vm) fn note_position(&mut self, ends: bool) -> Result<()> {
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
            identity: segment.identity,
            used: now(),
            since: segment.since,
            finished: ends && segment.rotated && (segment.whole || segment.stopped_at.is_none()),
            name: segment.name.clone(),
        };
        let serial = *segment.serial.get_or_insert(resume.next);
        resume.next = resume.next.max(serial + 1);
        resume.known.insert(serial, position);
        if !resume.changed.contains(&serial) {
            resume.changed.push(serial);
        }
        if ends {
            resume.current = None;
        }
        Ok(())
    }

    /// Puts the positions into the heap, for the commit that follows.
    pub(in crate::vm) fn save_positions(&mut self) -> Result<()> {
        self.note_position(false)?;
        let Some(resume) = &mut self.resume else {
            return Ok(());
        };
        let heap = &mut self.store.main;
        let table = heap.root(POSITIONS)?;
        for serial in std::mem::take(&mut resume.changed) {
            let Some(position) = resume.known.get(&serial) else {
                heap.remove(table, &resume.key(serial))?;
                continue;
            };
            let text = position.to_text();
            let slot = heap.entry(table, &resume.key(serial))?;
            let (bytes, maybe_num) = (text.as_slice(), false);
            heap.cell_set(slot, Cell::Str { bytes, maybe_num })?;
        }
        let oldest = now() - FORGET_SECONDS;
        let old: Vec<u64> = resume
            .known
            .iter()
            .filter(|(_, p)| p.used < oldest)
            .map(|(serial, _)| *serial)
            .collect();
        for serial in old {
            heap.remove(table, &resume.key(serial))?;
            resume.known.remove(&serial);
        }
        Ok(())
    }
}
