//! Input: the records of the main input, and what goes wrong while they are read.
//!
//! Invariant: `record.reader` is the main input while `Input::open` holds.

mod ahead;
mod count;
mod getline;
mod operands;
mod skip;
mod sum;

pub(super) use ahead::LookAhead;
pub(super) use count::Batch;
pub(super) use getline::Into;
pub use operands::assignment;
pub(super) use skip::Skip;

use awk_syntax::names::Special;

use super::Vm;
use super::resume::Segment;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::Separator;
use crate::streams::{StreamError, wants_limit};
use crate::value::Value;

/// What a name on the command line assigns to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NamedVariable {
    /// A global scalar of the program.
    Global(u32),
    /// A global array of the program.
    Array(u32),
    /// A special variable, perhaps an array.
    Special(Special),
    /// A function.
    Function,
}

/// The operands and how far they have been used.
pub struct Input {
    /// ARGV from 1 on, unless the program may change ARGV: then the array is asked.
    pub(super) operands: Vec<Vec<u8>>,
    /// The operands as they were given.
    given: Vec<Vec<u8>>,
    /// Names that assignments among the operands may mean.
    pub(super) names: std::collections::HashMap<Vec<u8>, NamedVariable>,
    /// Assigned variables that the program does not mention: a heap keeps them all the same.
    pub others: Vec<(Vec<u8>, Value)>,
    /// Operands of the form `name=value` are files.
    pub no_assignments: bool,
    pub(super) warn: Box<dyn FnMut(String)>,
    next: usize,
    /// What is left to read of an operand whose positions are kept.
    segments: std::collections::VecDeque<Segment>,
    open: bool,
    is_stdin: bool,
    any_file: bool,
    finished: bool,
}

impl Input {
    /// `warn` is told about operands that cannot be read.
    pub fn new(
        operands: Vec<Vec<u8>>,
        names: std::collections::HashMap<Vec<u8>, NamedVariable>,
        warn: Box<dyn FnMut(String)>,
    ) -> Input {
        Input {
            given: operands.clone(),
            operands,
            names,
            others: Vec::new(),
            no_assignments: false,
            warn,
            next: 1,
            segments: Default::default(),
            open: false,
            is_stdin: false,
            any_file: false,
            finished: false,
        }
    }
}

impl Input {
    /// Whether anything has been read or looked for.
    pub(super) fn has_begun(&self) -> bool {
        self.open || self.any_file || self.finished || self.next > 1
    }

    /// Number of the operand that is opened next.
    pub(super) fn next_operand(&self) -> usize {
        self.next
    }

    /// The operands before `number` are done with.
    pub(super) fn set_next_operand(&mut self, number: usize) {
        self.next = number;
    }
}

/// What a read of the main input gives.
enum Read {
    /// A record, as a range of the reader's buffer.
    Record(std::ops::Range<usize>),
    /// There is no more.
    End,
    /// The current file could not be read; it is still open.
    Failed(std::io::Error),
}

impl Vm<'_> {
    /// ERRNO and `PROCINFO["errno"]` say why something could not be done.
    pub(super) fn set_errno(&mut self, error: &StreamError) -> Result<()> {
        let reason = Value::text(error.reason().as_bytes(), false);
        self.settings.set(Special::ERRNO, reason)?;
        let number = f64::from(error.number().unwrap_or(0));
        self.set_procinfo(b"errno", &Value::Num(number))
    }

    /// ERRNO says that there is nothing wrong.
    pub(super) fn clear_errno(&mut self) -> Result<()> {
        self.settings.set(Special::ERRNO, Value::text(b"", false))?;
        self.set_procinfo(b"errno", &Value::Num(0.0))
    }

    /// The next record of the main input into the reader's buffer.
    #[inline]
    fn read_main(&mut self) -> Result<Read> {
        loop {
            if self.resume.is_some() {
                self.before_unfinished();
            }
            if self.input.open
                && let Some(reader) = &mut self.record.reader
            {
                match reader.next(&self.settings.separator) {
                    Ok(Some(range)) => {
                        if self.resume.is_some() && self.is_unfinished()? {
                            self.end_file()?;
                            continue;
                        }
                        self.since_commit += 1;
                        self.settings.nr += 1.0;
                        self.settings.fnr += 1.0;
                        return Ok(Read::Record(range));
                    }
                    Ok(None) => self.end_file()?,
                    Err(error) if wants_limit(&error) => {
                        let name = self.settings.get(Special::FILENAME);
                        let name = self.settings.text_of(&name);
                        self.tell_limit(&name)?;
                        continue;
                    }
                    Err(error) => return Ok(Read::Failed(error)),
                }
            }
            if !self.input.segments.is_empty() {
                self.open_segment()?;
                continue;
            }
            if self.input.finished || !self.open_next()? {
                self.input.finished = true;
                return Ok(Read::End);
            }
        }
    }

    #[cold]
    pub(super) fn read_error(&self, error: &std::io::Error) -> Fatal {
        let name = self.settings.text_of(&self.settings.get(Special::FILENAME));
        let shown = if name.is_empty() {
            "standard input".into()
        } else {
            format!("{:?}", String::from_utf8_lossy(&name))
        };
        Fatal::operand(format!("cannot read {shown}: {}", system_reason(error)))
    }

    /// After an error of the main input, for the rules: the end of the run, or, where ENDFILE rules can see ERRNO, the end of
    /// that file.
    #[cold]
    fn read_past(&mut self, mut error: std::io::Error) -> Result<Read> {
        while self.code.end_file.is_some() {
            self.note_read_error(error)?;
            self.end_file()?;
            error = match self.read_main()? {
                Read::Failed(error) => error,
                read => return Ok(read),
            };
        }
        Err(self.read_error(&error))
    }

    /// ERRNO after a read of the main input that failed.
    fn note_read_error(&mut self, source: std::io::Error) -> Result<()> {
        let name = String::new();
        self.set_errno(&StreamError::Read { name, source })
    }

    /// Tells the next read of `name` how long it may wait: `PROCINFO[name, "READ_TIMEOUT"]`, in milliseconds.
    #[cold]
    fn tell_limit(&mut self, name: &[u8]) -> Result<()> {
        let limit = self.procinfo_about(name, b"READ_TIMEOUT")?;
        let limit_ms = limit.map(|value| value.to_num().max(0.0) as u64);
        self.streams.patience().tell(limit_ms);
        Ok(())
    }

    /// The next record as `$0`; false at the end of input.
    #[inline]
    pub(super) fn next_record(&mut self) -> Result<bool> {
        if let Some(byte) = self.settings.plain_lines
            && let Some(reader) = &mut self.record.reader
            && let Some(range) = reader.ready_line(byte)
        {
            self.settings.nr += 1.0;
            self.settings.fnr += 1.0;
            self.record.set_read(range, &self.settings)?;
            self.look_ahead();
            return Ok(true);
        }
        self.next_record_in_full()
    }

    #[inline(never)]
    fn next_record_in_full(&mut self) -> Result<bool> {
        if self.parallel.is_some() {
            self.begin_parallel()?;
        }
        self.commit_if_due()?;
        self.pass_over();
        let read = match self.read_main()? {
            Read::Failed(error) => self.read_past(error)?,
            read => read,
        };
        let Read::Record(range) = read else {
            return Ok(false);
        };
        self.take_record(range)?;
        self.look_ahead();
        let is_plain = self.resume.is_none()
            && self.json.is_none()
            && self.commit_every == 0
            && self.code.required.is_empty()
            && !self.code.uses(Special::RT);
        self.settings.plain_lines = match *self.settings.separator {
            Separator::Byte(byte) if is_plain && self.input.open => Some(byte),
            _ => None,
        };
        Ok(true)
    }

    /// What was read from the main input becomes `$0`.
    #[inline]
    fn take_record(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        self.record.set_read(range, &self.settings)?;
        if self.code.uses(Special::RT) {
            self.note_terminator()?;
        }
        if let Some(array) = self.json {
            self.load_json(array)?;
        }
        Ok(())
    }

    /// Between two records: commits if there were enough since the last commit.
    #[inline]
    fn commit_if_due(&mut self) -> Result<()> {
        if self.commit_every > 0 && self.since_commit >= self.commit_every {
            self.commit()?;
            self.since_commit = 0;
        }
        Ok(())
    }

    /// RT is what ended the record that was just read from the main input.
    fn note_terminator(&mut self) -> Result<()> {
        if let Some(reader) = &self.record.reader {
            let text = Value::text(reader.terminator(), false);
            self.settings.set(Special::RT, text)?;
        }
        Ok(())
    }
}
