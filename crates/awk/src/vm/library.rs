//! Functions of the libraries that `@load` and `-l` bring: those that gawk ships, under the same names.
//!
//! Invariant: a function that fails gives -1 (or what gawk's gives) and says why in ERRNO; none of them ends the run but for
//! arguments that mean nothing.
//!
//! Source: gawk manual, "The Sample Extensions in the gawk Distribution".

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use awk_syntax::names::{Builtin, Library};

use super::{NamedVariable, Vm};
use crate::error::{Fatal, Step as Result};
use crate::streams::StreamError;
use crate::text;
use crate::value::Value;

mod arrays;
mod files;
mod inplace;
mod patterns;
mod processes;
mod walk;

pub(super) use inplace::Inplace;

/// Variables that a library defines; they are there when the program begins, and no heap keeps them.
const NUMBERS: [(Library, &str, f64); 9] = [
    (Library::Filefuncs, "FTS_COMFOLLOW", 1.0),
    (Library::Filefuncs, "FTS_LOGICAL", 2.0),
    (Library::Filefuncs, "FTS_NOCHDIR", 4.0),
    (Library::Filefuncs, "FTS_PHYSICAL", 16.0),
    (Library::Filefuncs, "FTS_SEEDOT", 32.0),
    (Library::Filefuncs, "FTS_XDEV", 64.0),
    (Library::Filefuncs, "FTS_SKIP", 1024.0),
    (Library::Fnmatch, "FNM_NOMATCH", 1.0),
    (Library::Revoutput, "REVOUT", 0.0),
];

/// The letter of a kind of file in `readdir`'s records.
pub(super) fn letter(kind: std::fs::FileType) -> char {
    match files::type_name(kind).1 {
        '-' => 'f',
        '?' => 'u',
        letter => letter,
    }
}

/// The coprocess of library `revtwoway`.
const MIRROR: &[u8] = b"/magic/mirror";

impl Vm<'_> {
    /// Whether a coprocess is the looking-glass of library `revtwoway`.
    pub(super) fn is_mirror(&self, name: &[u8]) -> bool {
        name == MIRROR && self.code.libraries.contains(&Library::Revtwoway)
    }

    /// What is printed to it comes back line by line, with its characters reversed.
    pub(super) fn write_mirror(&mut self, text: &[u8]) {
        let line = text.strip_suffix(b"\n").unwrap_or(text);
        let line = self.reversed(line);
        self.mirror.push_back(line);
    }

    /// The next of those lines.
    pub(super) fn mirrored(&mut self) -> Option<Vec<u8>> {
        self.mirror.pop_front()
    }

    /// Library `revoutput`: files that are opened while REVOUT is true get every line reversed.
    pub(super) fn reverse_output(&mut self, name: &[u8], line: &[u8]) -> Option<Vec<u8>> {
        let n = self.library_global(Library::Revoutput, "REVOUT")?;
        if !self.reversed.contains(name) {
            if !self.globals[n as usize].truth() || self.streams.is_open(name) {
                return None;
            }
            self.reversed.insert(name.to_vec());
        }
        let ends = line.ends_with(&self.settings.ors);
        let body = line.len() - if ends { self.settings.ors.len() } else { 0 };
        let mut out = self.reversed(&line[..body]);
        out.extend_from_slice(&line[body..]);
        Some(out)
    }

    /// The characters from the last to the first.
    fn reversed(&self, text: &[u8]) -> Vec<u8> {
        let mut starts = Vec::new();
        let mut at = 0;
        while at < text.len() {
            starts.push(at);
            at += text::next_char(self.settings.charset, &text[at..]).1;
        }
        let mut out = Vec::with_capacity(text.len());
        let mut end = text.len();
        for start in starts.into_iter().rev() {
            out.extend_from_slice(&text[start..end]);
            end = start;
        }
        out
    }

    /// Sets the variables of the loaded libraries.
    ///
    /// # Errors
    /// No memory.
    pub fn define_library_variables(&mut self) -> Result<()> {
        for (library, name, value) in NUMBERS {
            if let Some(n) = self.library_global(library, name) {
                self.globals[n as usize] = Value::Num(value);
                self.store.keep_out(n);
            }
        }
        if let Some(n) = self.library_global(Library::Fnmatch, "FNM") {
            self.store.make_transient(n)?;
            let array = self.array(crate::code::Arr(n))?;
            for (name, value) in patterns::FLAGS {
                let slot = self.store.entry(array, name.as_bytes())?;
                self.store.set_num(array, slot, f64::from(value))?;
            }
        }
        for name in inplace::VARIABLES {
            if let Some(n) = self.library_global(Library::Inplace, name) {
                self.globals[n as usize] = Value::Uninit;
                self.store.keep_out(n);
            }
        }
        Ok(())
    }

    /// The number of a global that the program mentions, if the library is loaded.
    fn library_global(&self, library: Library, name: &str) -> Option<u32> {
        if !self.code.libraries.contains(&library) {
            return None;
        }
        match self.input.names.get(name.as_bytes()) {
            Some(NamedVariable::Global(n) | NamedVariable::Array(n)) => Some(*n),
            _ => None,
        }
    }

    /// A variable of a loaded library that only SYMTAB asks for.
    pub(super) fn library_number(&self, name: &[u8]) -> Option<f64> {
        let found = NUMBERS.iter().find(|(library, known, _)| {
            known.as_bytes() == name && self.code.libraries.contains(library)
        });
        found.map(|(_, _, value)| *value)
    }

    /// Calls a library's function.
    ///
    /// # Errors
    /// Arguments that mean nothing; trouble of the heap.
    pub(super) fn library_function(&mut self, which: Builtin, args: &[Value]) -> Result<Value> {
        match which {
            Builtin::Chdir => {
                let path = self.path_argument(&args[0]);
                self.status(std::env::set_current_dir(path))
            }
            Builtin::Stat => self.stat(args),
            Builtin::Statvfs => self.statvfs(args),
            Builtin::Fts => self.fts(args),
            Builtin::Fnmatch => self.fnmatch(args),
            Builtin::Fork => self.fork(),
            Builtin::Wait | Builtin::Waitpid => self.wait(args),
            Builtin::InplaceBegin => self.begin_inplace(&args[0]),
            Builtin::InplaceEnd => self.end_inplace(&args[1]),
            Builtin::Ord => {
                let text = self.settings.text_of(&args[0]);
                let first = if text.is_empty() {
                    0
                } else {
                    text::next_char(self.settings.charset, &text).0
                };
                Ok(Value::Num(f64::from(first)))
            }
            Builtin::Chr => Ok(self.chr(&args[0])),
            Builtin::Readfile => self.readfile(&args[0]),
            Builtin::Writea => self.writea(args),
            Builtin::Reada => self.reada(args),
            Builtin::Writeall => self.writeall(&args[0]),
            Builtin::Readall => self.readall(&args[0]),
            Builtin::Gettimeofday => {
                let now = std::time::SystemTime::now();
                let since = now.duration_since(std::time::UNIX_EPOCH);
                Ok(Value::Num(since.map_or(0.0, |d| d.as_secs_f64())))
            }
            Builtin::Sleep => self.sleep(args[0].to_num()),
            Builtin::Strptime => {
                let text = self.settings.text_of(&args[0]);
                let format = match args.get(1) {
                    Some(format) => self.settings.text_of(format),
                    None => super::timing::DEFAULT_FORMAT.into(),
                };
                let dates = self.settings.dates.clone();
                let zone = self.zone()?;
                let found = crate::time::strptime(&text, &format, zone, dates.get());
                Ok(Value::Num(found.map_or(-1.0, |seconds| seconds as f64)))
            }
            other => Err(Fatal::new(format!(
                "`{}` is a function of a library that is not loaded",
                other.name()
            ))),
        }
    }

    /// 0, or -1 with ERRNO.
    fn status(&mut self, result: io::Result<()>) -> Result<Value> {
        match result {
            Ok(()) => Ok(Value::Num(0.0)),
            Err(error) => self.failed(error),
        }
    }

    /// -1, with ERRNO.
    fn failed(&mut self, source: io::Error) -> Result<Value> {
        let name = String::new();
        self.set_errno(&StreamError::OpenInput { name, source })?;
        Ok(Value::Num(-1.0))
    }

    fn path_argument(&self, value: &Value) -> PathBuf {
        PathBuf::from(OsStr::from_bytes(&self.settings.text_of(value)))
    }

    /// The character of a code; a byte where characters are bytes.
    fn chr(&self, value: &Value) -> Value {
        let code = value.to_num().trunc();
        let mut out = Vec::new();
        match self.settings.charset {
            text::Charset::Bytes => out.push(code as i64 as u8),
            text::Charset::Utf8 => match char::from_u32(code as u32) {
                Some(c) => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
                None => out.push(code as i64 as u8),
            },
        }
        Value::text(&out, false)
    }

    fn sleep(&mut self, seconds: f64) -> Result<Value> {
        if seconds.is_nan() || !(0.0..=1e12).contains(&seconds) {
            return self.failed(io::Error::from_raw_os_error(22)); // EINVAL
        }
        // What was printed so far is worth seeing meanwhile, but gawk's sleep does not flush either.
        std::thread::sleep(std::time::Duration::from_secs_f64(seconds));
        Ok(Value::Num(0.0))
    }
}
