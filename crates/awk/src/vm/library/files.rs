//! What the system knows of files: `stat`, `statvfs`; a whole file as a string.

use std::fs::{FileType, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::super::Vm;
use crate::error::Step as Result;
use crate::value::{ArrayRef, Value};

/// The word for a kind of file, and its letter in a mode.
pub(super) fn type_name(kind: FileType) -> (&'static str, char) {
    if kind.is_dir() {
        ("directory", 'd')
    } else if kind.is_symlink() {
        ("symlink", 'l')
    } else if kind.is_block_device() {
        ("blockdev", 'b')
    } else if kind.is_char_device() {
        ("chardev", 'c')
    } else if kind.is_fifo() {
        ("fifo", 'p')
    } else if kind.is_socket() {
        ("socket", 's')
    } else if kind.is_file() {
        ("file", '-')
    } else {
        ("unknown", '?')
    }
}

/// A mode as `ls -l` writes it.
fn mode_text(letter: char, mode: u32) -> String {
    let mut text = String::from(letter);
    for (shift, special, set, only) in [
        (6, 0o4000, 's', 'S'),
        (3, 0o2000, 's', 'S'),
        (0, 0o1000, 't', 'T'),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => set,
            (false, true) => only,
        });
    }
    text
}

impl Vm<'_> {
    /// `stat(path, array [, follow])`
    pub(super) fn stat(&mut self, args: &[Value]) -> Result<Value> {
        let path = self.path_argument(&args[0]);
        let array = self.array_argument("stat", 2, args.get(1))?;
        let follow = args.get(2).is_some_and(Value::truth);
        self.clear(array)?;
        let found = if follow {
            std::fs::metadata(&path)
        } else {
            std::fs::symlink_metadata(&path)
        };
        match found {
            Ok(meta) => {
                self.store_stat(array, &path, &meta)?;
                Ok(Value::Num(0.0))
            }
            Err(error) => self.failed(error),
        }
    }

    /// The elements that describe a file.
    pub(super) fn store_stat(
        &mut self,
        array: ArrayRef,
        path: &Path,
        meta: &Metadata,
    ) -> Result<()> {
        let kind = meta.file_type();
        let (word, letter) = type_name(kind);
        let numbers = [
            ("dev", meta.dev() as f64),
            ("ino", meta.ino() as f64),
            ("mode", f64::from(meta.mode())),
            ("nlink", meta.nlink() as f64),
            ("uid", f64::from(meta.uid())),
            ("gid", f64::from(meta.gid())),
            ("size", meta.size() as f64),
            ("blocks", meta.blocks() as f64),
            ("atime", meta.atime() as f64),
            ("mtime", meta.mtime() as f64),
            ("ctime", meta.ctime() as f64),
            ("blksize", meta.blksize() as f64),
            ("devbsize", 512.0),
        ];
        self.store_element(
            array,
            "name",
            &Value::text(path.as_os_str().as_bytes(), false),
        )?;
        for (key, value) in numbers {
            self.store_element(array, key, &Value::Num(value))?;
        }
        if kind.is_block_device() || kind.is_char_device() {
            let device = meta.rdev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            self.store_element(array, "rdev", &Value::Num(device as f64))?;
            self.store_element(array, "major", &Value::Num(f64::from(major)))?;
            self.store_element(array, "minor", &Value::Num(f64::from(minor)))?;
        }
        let mode = mode_text(letter, meta.mode());
        self.store_element(array, "pmode", &Value::text(mode.as_bytes(), false))?;
        if kind.is_symlink()
            && let Ok(target) = std::fs::read_link(path)
        {
            let target = Value::text(target.as_os_str().as_bytes(), false);
            self.store_element(array, "linkval", &target)?;
        }
        self.store_element(array, "type", &Value::text(word.as_bytes(), false))
    }

    pub(super) fn store_element(
        &mut self,
        array: ArrayRef,
        key: &str,
        value: &Value,
    ) -> Result<()> {
        let slot = self.store.entry(array, key.as_bytes())?;
        self.store.set(array, slot, value)
    }

    /// `statvfs(path, array)`
    pub(super) fn statvfs(&mut self, args: &[Value]) -> Result<Value> {
        let path = self.path_argument(&args[0]);
        let array = self.array_argument("statvfs", 2, args.get(1))?;
        self.clear(array)?;
        let about = match rustix::fs::statvfs(&path) {
            Ok(about) => about,
            Err(error) => return self.failed(error.into()),
        };
        for (key, value) in [
            ("bsize", about.f_bsize),
            ("frsize", about.f_frsize),
            ("blocks", about.f_blocks),
            ("bfree", about.f_bfree),
            ("bavail", about.f_bavail),
            ("files", about.f_files),
            ("ffree", about.f_ffree),
            ("favail", about.f_favail),
            ("fsid", about.f_fsid),
            ("flag", about.f_flag.bits()),
            ("namemax", about.f_namemax),
        ] {
            self.store_element(array, key, &Value::Num(value as f64))?;
        }
        Ok(Value::Num(0.0))
    }

    /// `readfile(path)`: all of the file, or nothing with ERRNO.
    pub(super) fn readfile(&mut self, path: &Value) -> Result<Value> {
        match std::fs::read(self.path_argument(path)) {
            Ok(bytes) => Ok(Value::text(&bytes, false)),
            Err(error) => {
                self.failed(error)?;
                Ok(Value::text(b"", false))
            }
        }
    }
}
