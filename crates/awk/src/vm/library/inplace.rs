//! Library `inplace`: what is printed between `inplace::begin` and `inplace::end` replaces a file. `-i inplace` includes the
//! rules that call them for each file that is read.
//!
//! Invariant: a file is replaced by renaming, by `inplace::end`: a run that is stopped before leaves it as it was.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use super::super::Vm;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::streams::is_stdin;
use crate::value::Value;

/// The variables of its rules, which no heap keeps: what one run is told to replace says nothing of the next.
pub(super) const VARIABLES: [&str; 4] = [
    "inplace::enable",
    "inplace::suffix",
    "inplace::filename",
    "INPLACE_SUFFIX",
];

/// A file that is being replaced.
pub struct Inplace {
    path: PathBuf,
    new: PathBuf,
    output: crate::streams::Redirected,
}

impl Drop for Inplace {
    /// The run ends early, or the file was renamed already: then there is nothing left to remove.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.new);
    }
}

impl Vm<'_> {
    /// `inplace::begin(file, suffix)`: from now on standard output is what replaces the file. 0; -1 with a warning, and ERRNO
    /// if the system said why, for what cannot be replaced.
    ///
    /// # Errors
    /// Another file is being replaced; no new file can be written beside this one.
    pub(super) fn begin_inplace(&mut self, file: &Value) -> Result<Value> {
        if let Some(inplace) = &self.inplace {
            return Err(Fatal::new(format!(
                "inplace::begin: {:?} is being replaced already; call inplace::end first",
                inplace.path
            )));
        }
        let name = self.settings.text_of(file);
        let shown = String::from_utf8_lossy(&name).into_owned();
        if name.is_empty() || is_stdin(&name) {
            self.warn(&format!(
                "inplace::begin: {shown:?} is no file that can be replaced, it is only read"
            ));
            return Ok(Value::Num(-1.0));
        }
        let path = self.path_argument(file);
        let meta = match std::fs::metadata(&path) {
            Ok(meta) => meta,
            Err(error) => {
                let reason = system_reason(&error);
                self.warn(&format!(
                    "inplace::begin: cannot replace {shown:?}: {reason}"
                ));
                return self.failed(error);
            }
        };
        if !meta.is_file() {
            self.warn(&format!(
                "inplace::begin: {shown:?} is no regular file, it is left alone"
            ));
            return Ok(Value::Num(-1.0));
        }
        let cannot = |error: &io::Error| {
            Fatal::operand(format!(
                "inplace: cannot replace {path:?}: {}",
                system_reason(error)
            ))
        };
        // The file behind a link is replaced, not the link.
        let path = path.canonicalize().map_err(|error| cannot(&error))?;
        let (new, file) = beside(&path).map_err(|error| cannot(&error))?;
        let kept = std::fs::set_permissions(&new, std::fs::Permissions::from_mode(meta.mode()));
        // Only root may give files away; whoever edits in place keeps the file otherwise.
        let _ = std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()));
        let output = self.streams.redirect_stdout(file, &name)?;
        self.inplace = Some(Inplace { path, new, output });
        kept.map_err(|error| Fatal::operand(format!("inplace: {}", system_reason(&error))))?;
        Ok(Value::Num(0.0))
    }

    /// `inplace::end(file, suffix)`: the file that `inplace::begin` was called for is replaced, kept under its name with the
    /// suffix if there is one, and standard output is again what it was. 0, with a warning if there was none. (gawk's would
    /// replace whatever `file` says here by what was printed for another.)
    ///
    /// # Errors
    /// It cannot be replaced.
    pub(super) fn end_inplace(&mut self, suffix: &Value) -> Result<Value> {
        let Some(mut inplace) = self.inplace.take() else {
            self.warn("inplace::end: no file is being replaced");
            return Ok(Value::Num(0.0));
        };
        let suffix = self.settings.text_of(suffix);
        self.streams.restore_stdout(&mut inplace.output)?;
        let replaced = (|| {
            if !suffix.is_empty() {
                let mut backup: OsString = inplace.path.clone().into_os_string();
                backup.push(std::ffi::OsStr::from_bytes(&suffix));
                std::fs::rename(&inplace.path, &backup)?;
            }
            std::fs::rename(&inplace.new, &inplace.path)
        })();
        replaced.map_err(|error| {
            Fatal::operand(format!(
                "inplace: cannot replace {:?}: {}",
                inplace.path,
                system_reason(&error)
            ))
        })?;
        Ok(Value::Num(0.0))
    }
}

/// A new file in the same folder.
fn beside(path: &std::path::Path) -> io::Result<(PathBuf, File)> {
    let folder = path.parent().unwrap_or(std::path::Path::new("."));
    let pid = std::process::id();
    for n in 0..1000 {
        let mut name = OsString::from(".");
        name.push(path.file_name().unwrap_or_default());
        name.push(format!(".{pid}-{n}.new"));
        let new = folder.join(name);
        match File::options().write(true).create_new(true).open(&new) {
            Ok(file) => return Ok((new, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
