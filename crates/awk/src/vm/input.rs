//! Input: the operands one after the other as the main input, and `getline`.
//!
//! Invariant: `record.reader` is the main input while `Input::open` holds; standard input lives in `Streams`, is lent to the
//! record while it is the main input and given back afterwards.

use std::rc::Rc;

use awk_syntax::lex::unescape;
use awk_syntax::names::{Library, Special};

use super::resume::Segment;
use super::{Phase, Vm};
use crate::code::{Arr, From, NumFn};
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::RecordReader;
use crate::streams::StreamError;
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
        if dialect.builtin(&shown()).is_some() {
            return Err(Fatal::operand(format!(
                "cannot assign to `{}` from the command line: it is a built-in function",
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
        if self.resume.is_some() && (operand == b"-" || operand == b"/dev/stdin") {
            return Err(Fatal::operand(
                "--resume: standard input has no position to come back to; give the files themselves",
            ));
        }
        if operand == b"-" || operand == b"/dev/stdin" {
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
        let mut reader = RecordReader::new(Box::new(file));
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
        let Some(entry) = self.code.begin_file else {
            return Ok(true);
        };
        match error {
            Some(error) => self.set_errno(error)?,
            None => self.clear_errno()?,
        }
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
        self.close_current();
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

    fn close_current(&mut self) {
        self.record.detach();
        if self.resume.is_some() {
            self.note_position(true);
        }
        if let Some(reader) = self.record.reader.take()
            && self.input.is_stdin
        {
            *self.streams.stdin() = reader;
        }
        self.input.open = false;
        self.input.is_stdin = false;
    }

    pub(super) fn skip_file(&mut self) -> Result<()> {
        if self.input.open {
            self.skip_segment();
            self.end_file()?;
        }
        Ok(())
    }

    /// The next record of the main input into the reader's buffer; `None` at the end of all input.
    #[inline]
    fn read_main(&mut self) -> Result<Option<std::ops::Range<usize>>> {
        loop {
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
                        return Ok(Some(range));
                    }
                    Ok(None) => self.end_file()?,
                    Err(error) => return Err(self.read_error(&error)),
                }
            }
            if !self.input.segments.is_empty() {
                self.open_segment()?;
                continue;
            }
            if self.input.finished || !self.open_next()? {
                self.input.finished = true;
                return Ok(None);
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

    /// The next record as `$0`; false at the end of input.
    #[inline]
    pub(super) fn next_record(&mut self) -> Result<bool> {
        if self.commit_every > 0 {
            self.count_to_commit()?;
        }
        self.record.before_read();
        match self.read_main()? {
            Some(range) => {
                self.record.set_read(range, &self.settings)?;
                if self.code.uses(Special::RT) {
                    self.note_terminator()?;
                }
                if let Some(array) = self.json {
                    self.load_json(array)?;
                }
                Ok(true)
            }
            None => Ok(false),
        }
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
        if !into_value {
            return Ok(if self.next_record()? { 1.0 } else { 0.0 });
        }
        // `$0` stays: it must not live in the buffer that is about to be read on.
        self.record.detach();
        let Some(range) = self.read_main()? else {
            return Ok(0.0);
        };
        if let Some(reader) = &self.record.reader {
            self.vals.push(Value::input(&reader.buffer()[range]));
        }
        if self.code.uses(Special::RT) {
            self.note_terminator()?;
        }
        Ok(1.0)
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
        let lent =
            self.input.is_stdin && (name == b"-" || name == b"/dev/stdin") && from == From::File;
        if lent {
            self.record.detach();
        }
        if matches!(from, From::Command | From::Coprocess) && !self.streams.is_running(name) {
            self.export_environment()?;
        }
        let reader = match from {
            From::File if lent => match &mut self.record.reader {
                Some(reader) => reader,
                None => return Ok(-1.0),
            },
            From::File => match self.streams.input_file(name) {
                Ok(reader) => reader,
                Err(StreamError::IsDirectory { .. })
                    if self.code.libraries.contains(&Library::Readdir) =>
                {
                    let made = folder_reader(name);
                    match made {
                        Ok(reader) => self.streams.add_input(name, reader),
                        Err(error) => return self.no_line(error),
                    }
                }
                Err(error) => return self.no_line(error),
            },
            From::Main | From::Command => match self.streams.input_command(name) {
                Ok(reader) => reader,
                Err(error) => return self.no_line(error),
            },
            From::Coprocess => match self.streams.input_coprocess(name) {
                Ok(reader) => reader,
                Err(error) => return self.no_line(error),
            },
        };
        let line = match reader.next(&separator) {
            Ok(Some(range)) => Value::input(&reader.buffer()[range]),
            Ok(None) => return Ok(0.0),
            Err(source) => {
                let name = String::from_utf8_lossy(name).into_owned();
                return self.no_line(StreamError::OpenInput { name, source });
            }
        };
        if self.code.uses(Special::RT) {
            let text = Value::text(reader.terminator(), false);
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

    /// `getline` failed: its value, and ERRNO.
    fn no_line(&mut self, error: StreamError) -> Result<f64> {
        if matches!(error, StreamError::StdoutClosed) {
            return Err(Fatal::broken_pipe());
        }
        self.set_errno(&error)?;
        Ok(-1.0)
    }
}
