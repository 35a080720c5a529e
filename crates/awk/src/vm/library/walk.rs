//! `fts`: a file hierarchy as an array of arrays.
//!
//! Invariant: a directory is an array of its entries, with one under "." that describes itself; anything else is an array with
//! "path", and "stat" or "error". What cannot be read is told of there: the call fails only for its arguments, and changes
//! nothing then. No directory is entered twice on one way down, so links cannot make the walk endless.

use std::collections::HashSet;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::Vm;
use crate::error::{Step as Result, system_reason};
use crate::value::{ArrayRef, Value};

const COMFOLLOW: u32 = 1;
const LOGICAL: u32 = 2;
const PHYSICAL: u32 = 16;
const SEEDOT: u32 = 32;
const XDEV: u32 = 64;
const SKIP: u32 = 1024;

/// `EINVAL` and `ENOENT`, Linux's numbers.
const INVALID_ARGUMENT: i32 = 22;
const NO_ENTRY: i32 = 2;

/// Deepest directory that is entered: what the stack of the process bears.
const DEPTH_MAX: usize = 2000;

struct Walk {
    flags: u32,
    device: u64,
    /// Directories on the way down.
    above: HashSet<(u64, u64)>,
}

/// What a path of the list is called in the tree: what stands behind its last slash. Only the root is called by a slash.
fn root_key(path: &Path) -> &[u8] {
    let bytes = path.as_os_str().as_bytes();
    match bytes.iter().rposition(|b| *b == b'/') {
        Some(slash) if bytes != b"/" => &bytes[slash + 1..],
        _ => bytes,
    }
}

impl Vm<'_> {
    /// `fts(pathlist, flags, filedata)`
    pub(super) fn fts(&mut self, args: &[Value]) -> Result<Value> {
        let list = self.array_argument("fts", 1, args.first())?;
        let flags = args[1].to_num() as u32;
        let data = self.array_argument("fts", 3, args.get(2))?;
        if (flags & LOGICAL == 0) == (flags & PHYSICAL == 0) {
            return self.failed(io::Error::from_raw_os_error(INVALID_ARGUMENT));
        }
        let mut paths = Vec::new();
        for (_, value) in self.pairs(list)? {
            if !matches!(value, Value::Array(_)) {
                paths.push(self.path_argument(&value));
            }
        }
        if paths.is_empty() || paths.iter().any(|path| path.as_os_str().is_empty()) {
            return self.failed(io::Error::from_raw_os_error(NO_ENTRY));
        }
        for path in paths {
            let mut walk = Walk {
                flags,
                device: 0,
                above: HashSet::new(),
            };
            let key = root_key(&path);
            self.remove_element(data, key)?;
            self.visit(&mut walk, data, key, &path, 0)?;
        }
        Ok(Value::Num(0.0))
    }

    fn visit(
        &mut self,
        walk: &mut Walk,
        parent: ArrayRef,
        key: &[u8],
        path: &Path,
        depth: usize,
    ) -> Result<()> {
        let follow = walk.flags & LOGICAL != 0 || (depth == 0 && walk.flags & COMFOLLOW != 0);
        let found = if follow {
            std::fs::metadata(path).or_else(|_| std::fs::symlink_metadata(path))
        } else {
            std::fs::symlink_metadata(path)
        };
        let slot = self.store.entry(parent, key)?;
        let own = self.store.make_inner(parent, slot)?;
        let meta = match found {
            Ok(meta) => meta,
            Err(error) => return self.describe(own, path, Err(error)),
        };
        if depth == 0 {
            walk.device = meta.dev();
        }
        let identity = (meta.dev(), meta.ino());
        let other_device = walk.flags & XDEV != 0 && meta.dev() != walk.device;
        if !meta.is_dir() || other_device || walk.above.contains(&identity) {
            return self.describe(own, path, Ok(meta));
        }
        let slot = self.store.entry(own, b".")?;
        let itself = self.store.make_inner(own, slot)?;
        self.describe(itself, path, Ok(meta))?;
        if walk.flags & SKIP != 0 {
            return Ok(());
        }
        if depth >= DEPTH_MAX {
            let reason = format!("directories more than {DEPTH_MAX} deep are not entered");
            return self.store_element(itself, "error", &Value::text(reason.as_bytes(), false));
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                let reason = system_reason(&error);
                return self.store_element(itself, "error", &Value::text(reason.as_bytes(), false));
            }
        };
        let mut names: Vec<PathBuf> = entries.flatten().map(|e| e.file_name().into()).collect();
        names.sort();
        if walk.flags & SEEDOT != 0 {
            names.insert(0, PathBuf::from(".."));
        }
        walk.above.insert(identity);
        for name in names {
            let below = path.join(&name);
            if name.as_os_str() == ".." {
                let slot = self.store.entry(own, b"..")?;
                let inner = self.store.make_inner(own, slot)?;
                self.describe(inner, &below, std::fs::symlink_metadata(&below))?;
                continue;
            }
            self.visit(walk, own, name.as_os_str().as_bytes(), &below, depth + 1)?;
        }
        walk.above.remove(&identity);
        Ok(())
    }

    fn describe(
        &mut self,
        array: ArrayRef,
        path: &Path,
        found: std::io::Result<std::fs::Metadata>,
    ) -> Result<()> {
        let text = Value::text(path.as_os_str().as_bytes(), false);
        self.store_element(array, "path", &text)?;
        match found {
            Ok(meta) => {
                let slot = self.store.entry(array, b"stat")?;
                let stat = self.store.make_inner(array, slot)?;
                self.store_stat(stat, path, &meta)
            }
            Err(error) => {
                let reason = system_reason(&error);
                self.store_element(array, "error", &Value::text(reason.as_bytes(), false))
            }
        }
    }
}
