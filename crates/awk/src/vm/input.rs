//! Input: the operands one after the other as the main input, and `getline`.
//!
//! Invariant: `record.reader` is the main input while `Input::open` holds; standard input lives in `Streams`, is lent to the
//! record while it is the main input and given back afterwards.

use std::rc::Rc;

use awk_syntax::lex::{is_keyword, unescape};
use awk_syntax::names::{Library, Special};

use super::resume::Segment;
use super::{Phase, Vm};
use crate::code::{Arr, From, NumFn};
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::RecordReader;
use crate::streams::{Manner, StreamError, is_stdin, may_retry, wants_limit};
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

/// The entries of a directory, one to a line: inode, name, letter of the kind (gawk manual, "Reading Directories").
fn folder_reader(name: &[u8]) -> std::result::Result<RecordReader, StreamError> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{DirEntryExt, MetadataExt};
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name));
    let failed = |source| StreamError::OpenInput {
        name: String::from_utf8_lossy(name).into_owned(),
        source,
    };
    let mut lines = Vec::new();
    let mut line = |inode: u64, name: &[u8], letter: char| {
        lines.extend_from_slice(format!("{inode}/").as_bytes());
        lines.extend_from_slice(name);
        lines.extend_from_slice(format!("/{letter}\n").as_bytes());
    };
    for special in [".", ".."] {
        let meta = std::fs::metadata(path.join(special)).map_err(failed)?;
        line(meta.ino(), special.as_bytes(), 'd');
    }
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let letter = match entry.file_type() {
            Ok(kind) => super::library::letter(kind),
            Err(_) => 'u',
        };
        line(entry.ino(), entry.file_name().as_bytes(), letter);
    }
    let mut reader = RecordReader::new(Box::new(std::io::Cursor::new(lines)));
    reader.take_lines();
    Ok(reader)
}

/// `name=value`, if the operand is one.
pub fn assignment(operand: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = operand.iter().position(|b| *b == b'=')?;
    let name = &operand[..equals];
    let begins = name
        .first()
        .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_');
    let is_name = begins && name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    if is_name {
        return Some((name, &operand[equals + 1..]));
    }
    // `ns::name=value`
    let colons = name.windows(2).position(|pair| pair == b"::")?;
    let parts = [&name[..colons], &name[colons + 2..]];
    let is_part = |part: &&[u8]| {
        part.first()
            .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
            && part.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_')
    };
    parts
        .iter()
        .all(is_part)
        .then(|| (name, &operand[equals + 1..]))
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
    /// Assigns as `-v` and operands do: escape sequences count, and the value is a numeric string if it looks like one.
    ///
    /// # Errors
    /// The name is an array's or a function's, or the value does not suit a special variable.
    pub fn assign_named(&mut self, name: &[u8], text: &[u8]) -> Result<()> {
        let mut value = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            if text[at] == b'\\' {
                let (used, warning) = unescape(&text[at..], self.code.dialect, &mut value);
                if let Some(warning) = warning {
                    (self.input.warn)(format!("warning: {warning}"));
                }
                at += used;
            } else {
                value.push(text[at]);
                at += 1;
            }
        }
        let dialect = self.code.dialect;
        let value = match value.as_slice() {
            [b'@', b'/', regex @ .., b'/'] if dialect.is_gawk() => {
                Value::Regex(Rc::new(regex.to_vec()))
            }
            text => Value::input(text),
        };
        let name = name.strip_prefix(b"awk::").unwrap_or(name);
        let shown = || String::from_utf8_lossy(name);
        if dialect.builtin(&shown()).is_some() || is_keyword(&shown(), dialect) {
            return Err(Fatal::operand(format!(
                "cannot assign to `{}` from the command line: it is a word of the language",
                shown()
            )));
        }
        match self.input.names.get(name) {
            Some(NamedVariable::Global(n)) => {
                let n = *n;
                if self.store.global_is_array(n) {
                    self.store.refuse_assignment(name)?;
                    return Err(Fatal::operand(format!(
                        "cannot assign to `{}` from the command line: it is an array",
                        shown()
                    )));
                }
                self.globals[n as usize] = value;
            }
            Some(NamedVariable::Special(s)) if !s.is_array() => {
                let s = *s;
                self.set_special(s, value)?;
            }
            Some(_) => {
                return Err(Fatal::operand(format!(
                    "cannot assign to `{}` from the command line: it is an array or a function",
                    shown()
                )));
            }
            None => {
                self.store.refuse_assignment(name)?;
                self.input.others.retain(|(other, _)| other != name);
                self.input.others.push((name.to_vec(), value));
            }
        }
        Ok(())
    }

    /// Operand number `n`; `None` past ARGC or for a deleted element.
    fn operand(&mut self, n: usize) -> Result<Option<Vec<u8>>> {
        if !self.code.uses(Special::ARGV) {
            return Ok(self.input.operands.get(n - 1).cloned());
        }
        let array = self.store.global_array(Arr::ARGV, &[])?;
        let Some(slot) = self.store.heap_of(array)?.find_int(array.table, n as i64)? else {
            return Ok(None);
        };
        let value = self.store.get(array, slot)?;
        Ok(Some(self.settings.text_of(&value)))
    }

    /// Opens the next file of the main input, working off assignments on the way; false when there is none.
    fn open_next(&mut self) -> Result<bool> {
        self.end_inplace()?;
        let count = self.settings.get(Special::ARGC).to_num();
        while (self.input.next as f64) < count {
            let n = self.input.next;
            self.input.next += 1;
            let Some(operand) = self.operand(n)? else {
                continue;
            };
            if operand.is_empty() {
                continue;
            }
            if !self.input.no_assignments
                && let Some((name, text)) = assignment(&operand)
            {
                self.assign_named(name, text)?;
                continue;
            }
            self.input.any_file = true;
            self.settings.argind = n as f64;
            if self.open_operand(&operand)? {
                return Ok(true);
            }
        }
        if self.input.any_file {
            return Ok(false);
        }
        if self.resume.is_some() {
            return Err(Fatal::operand("--resume: no files are given"));
        }
        self.input.any_file = true;
        self.lend_stdin();
        self.settings
            .set(Special::FILENAME, Value::text(b"-", false))?;
        self.begin_file(None)
    }

    fn open_operand(&mut self, operand: &[u8]) -> Result<bool> {
        if self.resume.is_some() && is_stdin(operand) {
            return Err(Fatal::operand(
                "--resume: standard input has no position to come back to; give the files themselves",
            ));
        }
        if is_stdin(operand) {
            self.lend_stdin();
        } else {
            match self.streams.open_input(operand) {
                Ok(_) if self.sandbox && !self.input.given.iter().any(|g| g == operand) => {
                    let shown = String::from_utf8_lossy(operand);
                    return Err(Fatal::operand(format!(
                        "cannot open file {shown:?} for reading: with --sandbox only the files on the command line"
                    )));
                }
                Ok(file) if self.resume.is_some() => {
                    self.input.segments = self.segments(operand, file)?.into();
                    self.settings
                        .set(Special::FILENAME, Value::input(operand))?;
                    self.open_segment()?;
                    return Ok(true);
                }
                Ok(file) => {
                    let reader = self.file_reader(file)?;
                    self.open_reader(reader);
                }
                Err(StreamError::IsDirectory { .. }) if self.reads_folders() => {
                    let reader = folder_reader(operand)
                        .map_err(|error| Fatal::operand(error.to_string()))?;
                    self.open_reader(reader);
                }
                Err(StreamError::StdoutClosed) => return Err(Fatal::broken_pipe()),
                Err(error) if self.code.begin_file.is_some() => {
                    self.settings
                        .set(Special::FILENAME, Value::input(operand))?;
                    self.settings.fnr = 0.0;
                    return self.begin_file(Some(&error));
                }
                Err(error @ StreamError::IsDirectory { .. }) => {
                    (self.input.warn)(format!("warning: {error}: skipped"));
                    return Ok(false);
                }
                Err(error) => return Err(Fatal::operand(error.to_string())),
            }
        }
        self.settings
            .set(Special::FILENAME, Value::input(operand))?;
        self.settings.fnr = 0.0;
        self.begin_file(None)
    }

    fn open_reader(&mut self, reader: RecordReader) {
        self.record.detach();
        self.record.reader = Some(reader);
        self.input.is_stdin = false;
        self.input.open = true;
    }

    /// A reader for an operand; of all its bytes as one record if library `readfile` is told so.
    fn file_reader(&mut self, file: std::fs::File) -> Result<RecordReader> {
        let mut reader = self.streams.reader(file);
        if self.code.libraries.contains(&Library::Readfile) && self.procinfo(b"readfile")?.is_some()
        {
            reader.take_all();
        }
        Ok(reader)
    }

    /// Library `readdir`: directories are files of their entries.
    fn reads_folders(&self) -> bool {
        self.code.libraries.contains(&Library::Readdir)
    }

    /// Opens the next stretch of an operand whose positions are kept.
    fn open_segment(&mut self) -> Result<()> {
        let Some(segment) = self.input.segments.pop_front() else {
            return Ok(());
        };
        let file = segment.file.try_clone().map_err(|error| {
            Fatal::operand(format!(
                "cannot open an input file once more: {}",
                system_reason(&error)
            ))
        })?;
        self.record.detach();
        self.record.reader = Some(RecordReader::new(Box::new(file)));
        self.input.is_stdin = false;
        self.input.open = true;
        self.settings.fnr = segment.fnr;
        self.begin_segment(segment);
        self.begin_file(None)?;
        Ok(())
    }

    /// Runs the BEGINFILE rules for the file that was just opened, or could not be; false if it is to be skipped.
    fn begin_file(&mut self, error: Option<&StreamError>) -> Result<bool> {
        if error.is_none() {
            self.begin_inplace()?;
        }
        match error {
            Some(error) => self.set_errno(error)?,
            None => self.clear_errno()?,
        }
        let Some(entry) = self.code.begin_file else {
            return Ok(true);
        };
        self.record.detach();
        self.record.set_text(b"", &self.settings)?;
        let wanted = self.call_block(entry, Phase::BeginFile)?;
        match error {
            Some(error) if wanted => return Err(Fatal::operand(error.to_string())),
            None if !wanted => self.end_file()?,
            _ => {}
        }
        Ok(wanted)
    }

    /// Closes the current file and runs the ENDFILE rules.
    fn end_file(&mut self) -> Result<()> {
        self.close_current()?;
        if let Some(entry) = self.code.end_file {
            self.call_block(entry, Phase::EndFile)?;
        }
        Ok(())
    }

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

    fn lend_stdin(&mut self) {
        self.record.detach();
        let empty = RecordReader::new(Box::new(std::io::empty()));
        self.record.reader = Some(std::mem::replace(self.streams.stdin(), empty));
        self.input.is_stdin = true;
        self.input.open = true;
        self.settings.fnr = 0.0;
    }

    fn close_current(&mut self) -> Result<()> {
        self.record.detach();
        if self.resume.is_some() {
            self.note_position(true)?;
        }
        if let Some(reader) = self.record.reader.take()
            && self.input.is_stdin
        {
            *self.streams.stdin() = reader;
        }
        self.input.open = false;
        self.input.is_stdin = false;
        Ok(())
    }

    pub(super) fn skip_file(&mut self) -> Result<()> {
        if self.input.open {
            self.skip_segment();
            self.end_file()?;
        }
        Ok(())
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
                        if self.resume.is_some() && self.is_unfinished(range.len()) {
                            self.end_file()?;
                            continue;
                        }
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
    fn read_error(&self, error: &std::io::Error) -> Fatal {
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

    /// What `getline` gives after a failed read of `name`: -2 if the program wants to try again, else -1.
    fn failed_getline(&mut self, name: &[u8], error: &std::io::Error) -> Result<f64> {
        let again = may_retry(error) && self.procinfo_about(name, b"RETRY")?.is_some();
        Ok(if again { -2.0 } else { -1.0 })
    }

    /// The next record as `$0`; false at the end of input.
    #[inline]
    pub(super) fn next_record(&mut self) -> Result<bool> {
        if self.commit_every > 0 {
            self.count_to_commit()?;
        }
        let read = match self.read_main()? {
            Read::Failed(error) => self.read_past(error)?,
            read => read,
        };
        let Read::Record(range) = read else {
            return Ok(false);
        };
        self.take_record(range)?;
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

    /// A record is about to be read: commits if there were enough since the last commit.
    fn count_to_commit(&mut self) -> Result<()> {
        if self.since_commit == self.commit_every {
            self.commit()?;
            self.since_commit = 0;
        }
        self.since_commit += 1;
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

    pub(super) fn getline(&mut self, from: From, into_value: bool) -> Result<()> {
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
        if into_value {
            // `$0` stays: it must not live in the buffer that is about to be read on.
            self.record.detach();
        } else if self.commit_every > 0 {
            self.count_to_commit()?;
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
                Err(error @ StreamError::EndClosed { .. }) => return Err(error.into()),
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

impl Vm<'_> {
    /// Tells the user what does not end the run.
    pub(super) fn warn(&mut self, message: &str) {
        let place = match self.code.spans.get(self.position()) {
            Some(span) => self.place(*span) + ": ",
            None => String::new(),
        };
        (self.input.warn)(format!("{place}warning: {message}"));
    }

    /// Tells the user what is doubtful (LINT).
    #[cold]
    pub(super) fn lint(&mut self, message: &str) -> Result<()> {
        if self.lint_is_fatal {
            return Err(Fatal::new(message));
        }
        self.warn(message);
        Ok(())
    }

    /// A function got what it has no answer for.
    #[cold]
    pub(super) fn out_of_range(&mut self, function: NumFn, n: f64) -> f64 {
        let name = if function == NumFn::Log {
            "log"
        } else {
            "sqrt"
        };
        self.warn(&format!("{name}: received negative argument {n}"));
        f64::NAN.copysign(-1.0)
    }

    /// An element is read that was never set.
    #[cold]
    pub(super) fn lint_element(&mut self, array: Arr) -> Result<()> {
        let name = self.array_name(array);
        self.lint(&format!("reference to uninitialized element of `{name}`"))
    }

    fn array_name(&self, array: Arr) -> String {
        match array {
            Arr::TOP => "an array inside another".to_string(),
            Arr(n) if n & Arr::LOCAL != 0 => self.local_name(n & !Arr::LOCAL),
            array => match array.as_special() {
                Some(special) => special.name().to_string(),
                None => self.code.globals[array.0 as usize].clone(),
            },
        }
    }
}
