//! The operands: assignments among them, and the files of the main input, one after the other.
//!
//! Invariant: standard input lives in `Streams`, is lent to the record while it is the main input and given back afterwards.

use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use awk_syntax::lex::{is_keyword, unescape};
use awk_syntax::names::{Library, Special};

use super::NamedVariable;
use crate::code::Arr;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::records::RecordReader;
use crate::streams::{StreamError, is_stdin};
use crate::value::Value;
use crate::vm::parallel::{Operand, reader_of};
use crate::vm::{Phase, Vm};

/// The entries of a directory, one to a line: inode, name, letter of the kind (gawk manual, "Reading Directories").
pub(super) fn folder_reader(name: &[u8]) -> std::result::Result<RecordReader, StreamError> {
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
            Ok(kind) => crate::vm::library::letter(kind),
            Err(_) => 'u',
        };
        line(entry.ino(), entry.file_name().as_bytes(), letter);
    }
    let mut reader = RecordReader::new(Box::new(std::io::Cursor::new(lines)));
    reader.take_lines();
    Ok(reader)
}

/// Files of the kernel have bytes, whatever their lengths.
fn has_bytes(path: &std::path::Path) -> bool {
    use std::io::Read;
    let first = std::fs::File::open(path).and_then(|mut file| file.read(&mut [0]));
    first.is_ok_and(|len| len > 0)
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
    pub(in crate::vm) fn operand(&mut self, n: usize) -> Result<Option<Vec<u8>>> {
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
    pub(in crate::vm) fn open_next(&mut self) -> Result<bool> {
        let count = self.settings.get(Special::ARGC).to_num();
        loop {
            if self.parallel.is_some() && self.is_stretch_over() {
                return self.next_stretch();
            }
            if self.input.next as f64 >= count {
                break;
            }
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
        } else if self.reads_at_once() {
            match self.streams.begin_input(operand) {
                Ok(mut reader) => {
                    if self.wants_whole_files()? {
                        reader.take_all();
                    }
                    self.open_reader(reader);
                }
                Err(error) => return self.not_opened(operand, &error),
            }
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
                    let reader = match self.stretch_end(self.settings.argind as usize) {
                        Some(end) => reader_of(file, 0, Some(end))
                            .map_err(|error| self.read_error(&error))?,
                        None => self.file_reader(file)?,
                    };
                    self.open_reader(reader);
                }
                Err(error) => return self.not_opened(operand, &error),
            }
        }
        self.begin_operand(operand)
    }

    /// Nothing would come between opening a file and its first read that a program, or who watches it, could see; and the file is
    /// read to its end.
    fn reads_at_once(&self) -> bool {
        self.code.begin_file.is_none()
            && self.resume.is_none()
            && !self.sandbox
            && self.parallel.is_none()
    }

    /// What an operand means that could not be opened as a file; true if there is something to read.
    #[cold]
    fn not_opened(&mut self, operand: &[u8], error: &StreamError) -> Result<bool> {
        match error {
            StreamError::IsDirectory { .. } if self.reads_folders() => {
                let reader =
                    folder_reader(operand).map_err(|error| Fatal::operand(error.to_string()))?;
                self.open_reader(reader);
                self.begin_operand(operand)
            }
            StreamError::StdoutClosed => Err(Fatal::broken_pipe()),
            error if self.code.begin_file.is_some() => {
                self.settings
                    .set(Special::FILENAME, Value::input(operand))?;
                self.settings.fnr = 0.0;
                self.begin_file(Some(error))
            }
            StreamError::IsDirectory { .. } if self.code.dialect.is_gawk() => {
                self.skip_folder(error);
                Ok(false)
            }
            error => Err(Fatal::operand(error.to_string())),
        }
    }

    fn begin_operand(&mut self, operand: &[u8]) -> Result<bool> {
        self.settings
            .set(Special::FILENAME, Value::input(operand))?;
        self.settings.fnr = 0.0;
        self.begin_file(None)
    }

    /// Goes on reading a file in its middle; FNR is the caller's.
    pub(in crate::vm) fn read_on(&mut self, operand: &[u8], reader: RecordReader) -> Result<bool> {
        self.input.any_file = true;
        self.open_reader(reader);
        self.settings
            .set(Special::FILENAME, Value::input(operand))?;
        self.begin_file(None)
    }

    /// Works off the assignments before the first file.
    pub(in crate::vm) fn work_off_assignments(&mut self) -> Result<()> {
        let count = self.settings.get(Special::ARGC).to_num();
        while (self.input.next as f64) < count {
            let operand = self.operand(self.input.next)?;
            let operand = operand.unwrap_or_default();
            match assignment(&operand) {
                Some((name, text)) if !self.input.no_assignments => {
                    self.assign_named(name, text)?;
                }
                _ if operand.is_empty() => {}
                _ => break,
            }
            self.input.next += 1;
        }
        Ok(())
    }

    /// The files that are to be read; the inner error says what is not a file that several may read.
    pub(in crate::vm) fn files_to_read(
        &mut self,
    ) -> Result<std::result::Result<Vec<Operand>, String>> {
        let count = self.settings.get(Special::ARGC).to_num();
        let mut files = Vec::new();
        let mut number = 1;
        while (number as f64) < count {
            let operand = self.operand(number)?.unwrap_or_default();
            let shown = String::from_utf8_lossy(&operand).into_owned();
            let is_assignment = !self.input.no_assignments && assignment(&operand).is_some();
            if is_assignment && files.is_empty() || operand.is_empty() {
                number += 1;
                continue;
            }
            if is_assignment {
                let why = format!("`{shown}` is an assignment between the files");
                return Ok(Err(why));
            }
            // What lies there is not always what its name is opened as.
            let is_device = is_stdin(&operand) || operand.starts_with(b"/dev/");
            let path = std::path::PathBuf::from(std::ffi::OsStr::from_bytes(&operand));
            match std::fs::metadata(&path) {
                Ok(meta) if meta.len() == 0 && has_bytes(&path) => {
                    return Ok(Err(format!("{shown:?} does not say how long it is")));
                }
                Ok(meta) if meta.is_file() && !is_device => files.push(Operand {
                    number,
                    bytes: meta.len(),
                    path,
                }),
                _ => return Ok(Err(format!("{shown:?} is not a regular file"))),
            }
            number += 1;
        }
        if files.is_empty() {
            return Ok(Err(
                "standard input cannot be read from several places".into()
            ));
        }
        Ok(Ok(files))
    }

    fn skip_folder(&mut self, error: &StreamError) {
        let shown = match error {
            StreamError::IsDirectory { name } => format!("{name:?} is a directory"),
            error => error.to_string(),
        };
        (self.input.warn)(format!("warning: {shown}: skipped"));
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
        if self.wants_whole_files()? {
            reader.take_all();
        }
        Ok(reader)
    }

    /// Library `readfile` is told that a file is one record.
    fn wants_whole_files(&mut self) -> Result<bool> {
        Ok(self.code.libraries.contains(&Library::Readfile)
            && self.procinfo(b"readfile")?.is_some())
    }

    /// Library `readdir`: directories are files of their entries.
    pub(super) fn reads_folders(&self) -> bool {
        self.code.libraries.contains(&Library::Readdir)
    }

    /// Opens the next stretch of an operand whose positions are kept.
    pub(super) fn open_segment(&mut self) -> Result<()> {
        let Some(segment) = self.input.segments.pop_front() else {
            return Ok(());
        };
        if self.wants_whole_files()? {
            return Err(Fatal::operand(
                "--resume: with PROCINFO[\"readfile\"] all of a file is one record, which has no end as long as something may be \
                 added: there is no position to come back to",
            ));
        }
        let source = segment.source().map_err(|error| {
            Fatal::operand(format!(
                "cannot open an input file once more: {}",
                system_reason(&error)
            ))
        })?;
        self.record.detach();
        self.record.reader = Some(RecordReader::new(source));
        self.input.is_stdin = false;
        self.input.open = true;
        self.settings.fnr = segment.fnr;
        self.begin_segment(segment);
        self.begin_file(None)?;
        Ok(())
    }

    /// Runs the BEGINFILE rules for the file that was just opened, or could not be; false if it is to be skipped.
    fn begin_file(&mut self, error: Option<&StreamError>) -> Result<bool> {
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
            Some(error @ StreamError::IsDirectory { .. }) if wanted => {
                self.skip_folder(error);
                return Ok(false);
            }
            Some(error) if wanted => return Err(Fatal::operand(error.to_string())),
            None if !wanted => self.end_file()?,
            _ => {}
        }
        Ok(wanted)
    }

    /// Closes the current file and runs the ENDFILE rules.
    pub(super) fn end_file(&mut self) -> Result<()> {
        self.close_current()?;
        if let Some(entry) = self.code.end_file {
            self.call_block(entry, Phase::EndFile)?;
        }
        Ok(())
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
        match self.record.reader.take() {
            Some(reader) if self.input.is_stdin => *self.streams.stdin() = reader,
            Some(reader) => self.streams.retire(reader),
            None => {}
        }
        self.input.open = false;
        self.settings.plain_lines = None;
        self.input.is_stdin = false;
        Ok(())
    }

    pub(in crate::vm) fn skip_file(&mut self) -> Result<()> {
        if self.input.open {
            self.skip_segment()?;
            self.end_file()?;
        }
        Ok(())
    }
}
