//! `getline`: from the main input, a file, a command or a coprocess.

use std::rc::Rc;

use awk_syntax::names::Special;

use super::Read;
use super::operands::folder_reader;
use crate::code::From;
use crate::error::{Fatal, Step as Result};
use crate::records::RecordReader;
use crate::streams::{Manner, StreamError, is_stdin, may_retry, wants_limit};
use crate::value::Value;
use crate::vm::{Phase, Vm};

impl Vm<'_> {
    /// What `getline` gives after a failed read of `name`: -2 if the program wants to try again, else -1.
    fn failed_getline(&mut self, name: &[u8], error: &std::io::Error) -> Result<f64> {
        let again = may_retry(error) && self.procinfo_about(name, b"RETRY")?.is_some();
        Ok(if again { -2.0 } else { -1.0 })
    }

    pub(in crate::vm) fn getline(&mut self, from: From, into_value: bool) -> Result<()> {
        if from != From::Main {
            self.refuse_in_sandbox("redirection of input")?;
        }
        let status = match from {
            From::Main => self.getline_main(into_value)?,
            From::File | From::Command | From::Coprocess => {
                let mark = self.pop_mark();
                let mut name = std::mem::take(&mut self.scratch);
                name.clear();
                name.extend_from_slice(&self.text[mark..]);
                self.text.truncate(mark);
                let status = self.getline_other(from, &name, into_value);
                self.scratch = name;
                status?
            }
        };
        self.nums.push(status);
        Ok(())
    }

    fn getline_main(&mut self, into_value: bool) -> Result<f64> {
        // A rule that reads on is in the middle of something; a loop in BEGIN reads all there is.
        if self.phase == Phase::Begin {
            self.commit_if_due()?;
        }
        if into_value {
            // `$0` stays: it must not live in the buffer that is about to be read on.
            self.record.detach();
        }
        let range = match self.read_main()? {
            Read::Record(range) => range,
            Read::End => return Ok(0.0),
            Read::Failed(error) => return self.main_getline_failed(error),
        };
        if !into_value {
            self.take_record(range)?;
            return Ok(1.0);
        }
        if let Some(reader) = &self.record.reader {
            self.vals.push(Value::input(&reader.buffer()[range]));
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

    fn getline_other(&mut self, from: From, name: &[u8], into_value: bool) -> Result<f64> {
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
            return self.read_mirror(into_value);
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
            let reader = self.other_reader(from, lent, name, manner);
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
                    return self.take_line(line, ended_by, into_value);
                }
                Err(error) if wants_limit(&error) => self.tell_limit(name)?,
                Err(source) => {
                    let value = self.failed_getline(name, &source)?;
                    if value == -1.0
                        && let Ok(reader) = self.other_reader(from, lent, name, manner)
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

    /// What `getline` reads from; `lent` if it is standard input while that is the main input.
    fn other_reader(
        &mut self,
        from: From,
        lent: bool,
        name: &[u8],
        manner: Manner,
    ) -> std::result::Result<&mut RecordReader, StreamError> {
        match from {
            From::File => match &mut self.record.reader {
                Some(reader) if lent => Ok(reader),
                _ => self.streams.input_file(name),
            },
            From::Main | From::Command => self.streams.input_command(name),
            From::Coprocess => self.streams.input_coprocess(name, manner),
        }
    }

    /// What `getline` has read from elsewhere than the main input becomes `$0` or a value.
    fn take_line(
        &mut self,
        line: Option<Value>,
        ended_by: Option<Value>,
        into_value: bool,
    ) -> Result<f64> {
        let Some(line) = line else {
            return Ok(0.0);
        };
        if let Some(text) = ended_by {
            self.settings.set(Special::RT, text)?;
        }
        // NR stays, also for commands: gawk, mawk and the one true awk agree, against POSIX's table.
        if into_value {
            self.vals.push(line);
        } else {
            self.record
                .set_text(line.as_bytes().unwrap_or_default(), &self.settings)?;
        }
        Ok(1.0)
    }
}
