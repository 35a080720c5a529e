//! `getline`: from the main input, a file, a command or a coprocess.

use std::rc::Rc;

use awk_syntax::names::Special;

use super::Read;
use super::operands::folder_reader;
use crate::code::From;
use crate::error::{Fatal, Step as Result};
use crate::record::Record;
use crate::records::{RecordReader, Separator};
use crate::streams::{Manner, StreamError, Streams, is_stdin, may_retry, wants_limit};
use crate::value::Value;
use crate::vm::{Phase, Vm};

/// Where a line goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::vm) enum Into {
    /// `$0`
    Record,
    /// The value stack.
    Value,
    /// A global variable.
    Global(u32),
}

impl Vm<'_> {
    /// A global is about to be assigned text: it must not be an array.
    fn settle_scalar(&self, n: u32) -> Result<()> {
        if matches!(self.globals[n as usize], Value::Uninit) && self.store.global_is_array(n) {
            return Err(self.global_array_as_scalar(n));
        }
        Ok(())
    }

    /// What `getline` gives after a failed read of `name`: -2 if the program wants to try again, else -1.
    fn failed_getline(&mut self, name: &[u8], error: &std::io::Error) -> Result<f64> {
        let again = may_retry(error) && self.procinfo_about(name, b"RETRY")?.is_some();
        Ok(if again { -2.0 } else { -1.0 })
    }

    pub(in crate::vm) fn getline(&mut self, from: From, into: Into) -> Result<()> {
        if from != From::Main {
            self.refuse_in_sandbox("redirection of input")?;
        }
        let status = match from {
            From::Main => self.getline_main(into)?,
            From::File | From::Command | From::Coprocess => {
                let mark = self.pop_mark();
                let mut name = std::mem::take(&mut self.scratch);
                name.clear();
                name.extend_from_slice(&self.text[mark..]);
                self.text.truncate(mark);
                let status = self.getline_other(from, &name, into);
                self.scratch = name;
                status?
            }
        };
        self.nums.push(status);
        Ok(())
    }

    fn getline_main(&mut self, into: Into) -> Result<f64> {
        // A rule that reads on is in the middle of something; a loop in BEGIN reads all there is.
        if self.phase == Phase::Begin {
            self.commit_if_due()?;
        }
        if into != Into::Record {
            // `$0` stays: it must not live in the buffer that is about to be read on.
            self.record.detach();
        }
        let range = match self.read_main()? {
            Read::Record(range) => range,
            Read::End => return Ok(0.0),
            Read::Failed(error) => return self.main_getline_failed(error),
        };
        if into == Into::Record {
            self.take_record(range)?;
            return Ok(1.0);
        }
        if let Into::Global(n) = into {
            self.settle_scalar(n)?;
        }
        if let Some(reader) = &self.record.reader {
            let line = &reader.buffer()[range];
            match into {
                Into::Global(n) => self.globals[n as usize].set_input(line),
                Into::Value | Into::Record => self.vals.push(Value::input(line)),
            }
        }
        if self.code.uses(Special::RT) {
            self.note_terminator()?;
        }
        Ok(1.0)
    }

    #[cold]
    fn main_getline_failed(&mut self, error: std::io::Error) -> Result<f64> {
        let name = self.settings.get(Special::FILENAME);
        let name = self.settings.text_of(&name);
        let value = self.failed_getline(&name, &error)?;
        self.note_read_error(error)?;
        if value == -1.0
            && let Some(reader) = &mut self.record.reader
        {
            // The next read goes on with the next file.
            reader.give_up();
        }
        Ok(value)
    }

    /// See [`crate::code::Op::GetlineAgain`]: nothing else is asked of most lines.
    #[inline]
    pub(in crate::vm) fn getline_again(&mut self, name: u32, n: u32) -> bool {
        let byte = match *self.settings.separator {
            Separator::Byte(byte) if !self.code.uses(Special::RT) => byte,
            _ => return false,
        };
        let has_failures = self.streams.has_failures();
        let file = self.globals[name as usize].as_bytes();
        let reader = file.and_then(|file| self.streams.recent_file(file));
        let place = &mut self.globals[n as usize];
        if let Some(reader) = reader
            && !matches!(place, Value::Uninit)
            && !has_failures
            && let Some(range) = reader.ready_line(byte)
        {
            place.set_input(&reader.buffer()[range]);
            self.nums.push(1.0);
            return true;
        }
        false
    }

    fn getline_other(&mut self, from: From, name: &[u8], into: Into) -> Result<f64> {
        if name.is_empty() {
            let sign = match from {
                From::Main | From::File => "<",
                From::Command => "|",
                From::Coprocess => "|&",
            };
            return Err(Fatal::new(format!(
                "expression for `{sign}` redirection is an empty string"
            )));
        }
        if from == From::Coprocess && self.is_mirror(name) {
            let line = self.mirrored().map(|line| Value::input(&line));
            return self.take_line(line, None, into);
        }
        let separator = Rc::clone(&self.settings.separator);
        let lent = self.input.is_stdin && is_stdin(name) && from == From::File;
        if lent {
            self.record.detach();
        }
        let mut manner = Manner::default();
        if matches!(from, From::Command | From::Coprocess) && !self.streams.is_running(name) {
            self.export_environment()?;
            manner = self.manner(name)?;
        }
        let keeps_terminator = self.code.uses(Special::RT);
        let reads_folders = self.reads_folders();
        loop {
            let (streams, record) = (&mut self.streams, &mut self.record);
            let reader = other_reader(streams, record, from, lent, name, manner);
            let reader = match reader {
                Ok(reader) => reader,
                Err(StreamError::IsDirectory { .. }) if reads_folders => {
                    match folder_reader(name) {
                        Ok(reader) => self.streams.add_input(name, reader),
                        Err(error) => {
                            self.set_errno(&error)?;
                            return Ok(-1.0);
                        }
                    }
                }
                // As gawk: who reads until there is no more would take it for a command without output.
                Err(error @ (StreamError::EndClosed { .. } | StreamError::Start { .. })) => {
                    return Err(error.into());
                }
                Err(error) => {
                    self.set_errno(&error)?;
                    return Ok(-1.0);
                }
            };
            match reader.next(&separator) {
                // Nothing else is asked of most lines.
                Ok(Some(range)) if !keeps_terminator && matches!(into, Into::Global(_)) => {
                    let Into::Global(n) = into else { continue };
                    if matches!(self.globals[n as usize], Value::Uninit)
                        && self.store.global_is_array(n)
                    {
                        return Err(self.global_array_as_scalar(n));
                    }
                    self.globals[n as usize].set_input(&reader.buffer()[range]);
                    self.note_failures()?;
                    return Ok(1.0);
                }
                Ok(range) => {
                    let line = range.map(|range| Value::input(&reader.buffer()[range]));
                    let ended_by =
                        keeps_terminator.then(|| Value::text(reader.terminator(), false));
                    match from {
                        From::File if line.is_none() => self.streams.end_file(name),
                        From::Command if line.is_none() => self.streams.end_command(name),
                        _ => {}
                    }
                    self.note_failures()?;
                    return self.take_line(line, ended_by, into);
                }
                Err(error) if wants_limit(&error) => self.tell_limit(name)?,
                Err(source) => {
                    let value = self.failed_getline(name, &source)?;
                    if value == -1.0
                        && let Ok(reader) = other_reader(
                            &mut self.streams,
                            &mut self.record,
                            from,
                            lent,
                            name,
                            manner,
                        )
                    {
                        reader.give_up();
                    }
                    let name = String::from_utf8_lossy(name).into_owned();
                    self.set_errno(&StreamError::Read { name, source })?;
                    return Ok(value);
                }
            }
        }
    }

    /// What `getline` has read from elsewhere than the main input becomes `$0` or a value.
    fn take_line(
        &mut self,
        line: Option<Value>,
        ended_by: Option<Value>,
        into: Into,
    ) -> Result<f64> {
        let Some(line) = line else {
            return Ok(0.0);
        };
        if let Some(text) = ended_by {
            self.settings.set(Special::RT, text)?;
        }
        // NR stays, also for commands: gawk, mawk and the one true awk agree, against POSIX's table.
        match into {
            Into::Value => self.vals.push(line),
            Into::Global(n) => {
                self.settle_scalar(n)?;
                self.globals[n as usize] = line;
            }
            Into::Record => {
                let line = line.as_bytes().unwrap_or_default();
                self.record.set_text(line, &self.settings)?;
            }
        }
        Ok(1.0)
    }
}

/// What `getline` reads from; `lent` if it is standard input while that is the main input.
fn other_reader<'a>(
    streams: &'a mut Streams,
    record: &'a mut Record,
    from: From,
    lent: bool,
    name: &[u8],
    manner: Manner,
) -> std::result::Result<&'a mut RecordReader, StreamError> {
    match from {
        From::File => match &mut record.reader {
            Some(reader) if lent => Ok(reader),
            _ => streams.input_file(name),
        },
        From::Main | From::Command => streams.input_command(name),
        From::Coprocess => streams.input_coprocess(name, manner),
    }
}
