//! `-i inplace`: what is printed while a file is read replaces the file.
//!
//! Invariant: a file is replaced by renaming, when it was read to its end: a run that is stopped before leaves it as it was.
//! Output of BEGIN and END goes to standard output as ever.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use awk_syntax::names::{Library, Special};

use super::super::{NamedVariable, Vm};
use crate::error::{Fatal, Step as Result, system_reason};
use crate::value::Value;

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
    /// A variable of the namespace `inplace`; `None` if the program was not read with `-i inplace`.
    fn inplace_variable(&self, name: &str) -> Option<Value> {
        match self.input.names.get(name.as_bytes()) {
            Some(NamedVariable::Global(n)) => Some(self.globals[*n as usize].clone()),
            _ => None,
        }
    }

    /// The current file was opened: from now on standard output is what replaces it, if that is wished.
    pub(in crate::vm) fn begin_inplace(&mut self) -> Result<()> {
        if !self.code.libraries.contains(&Library::Inplace) {
            return Ok(());
        }
        let enabled = self.inplace_variable("inplace::enable");
        if !enabled.is_some_and(|value| value.truth()) {
            return Ok(());
        }
        let name = self.settings.text_of(&self.settings.get(Special::FILENAME));
        let path = self.path_argument(&Value::text(&name, false));
        let cannot = |error: &io::Error| {
            Fatal::operand(format!(
                "inplace: cannot replace {path:?}: {}",
                system_reason(error)
            ))
        };
        let meta = std::fs::metadata(&path).map_err(|error| cannot(&error))?;
        if !meta.is_file() {
            let shown = path.display();
            self.warn(&format!(
                "inplace: \"{shown}\" is no regular file, it is left alone"
            ));
            return Ok(());
        }
        // The file behind a link is replaced, not the link.
        let path = path.canonicalize().map_err(|error| cannot(&error))?;
        let (new, file) = beside(&path).map_err(|error| cannot(&error))?;
        let kept = std::fs::set_permissions(&new, std::fs::Permissions::from_mode(meta.mode()));
        // Only root may give files away; whoever edits in place keeps the file otherwise.
        let _ = std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()));
        let output = self.streams.redirect_stdout(file, &name)?;
        self.inplace = Some(Inplace { path, new, output });
        kept.map_err(|error| Fatal::operand(format!("inplace: {}", system_reason(&error))))
    }

    /// The file was read to its end and the next one begins, or there is none.
    pub(in crate::vm) fn end_inplace(&mut self) -> Result<()> {
        let Some(mut inplace) = self.inplace.take() else {
            return Ok(());
        };
        let suffix = self.inplace_variable("inplace::suffix");
        let suffix = suffix.map_or_else(Vec::new, |value| self.settings.text_of(&value));
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
        })
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
