//! `fts`: a file hierarchy as an array of arrays.
//!
//! Invariant: a directory is an array of its entries, with one under "." that describes itself; anything else is an array with
//! "path", and "stat" or "error". No directory is entered twice on one way down, so links cannot make the walk endless.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::Vm;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::value::{ArrayRef, Value};

const COMFOLLOW: u32 = 1;
const LOGICAL: u32 = 2;
const PHYSICAL: u32 = 16;
const SEEDOT: u32 = 32;
const XDEV: u32 = 64;
const SKIP: u32 = 1024;

/// Deepest directory that is entered: what the stack of the process bears.
const DEPTH_MAX: usize = 2000;

struct Walk {
    flags: u32,
    device: u64,
    /// Directories on the way down.
    above: HashSet<(u64, u64)>,
    failed: bool,
}

impl Vm<'_> {
    /// `fts(pathlist, flags, filedata)`
    pub(super) fn fts(&mut self, args: &[Value]) -> Result<Value> {
        let list = self.array_argument("fts", 1, args.first())?;
        let flags = args[1].to_num() as u32;
        let data = self.array_argument("fts", 3, args.get(2))?;
        if (flags & LOGICAL == 0) == (flags & PHYSICAL == 0) {
            return Err(Fatal::new(
                "fts: exactly one of FTS_LOGICAL and FTS_PHYSICAL must be among the flags",
            ));
        }
        let paths = self.pairs(list)?;
        self.clear(data)?;
        let mut failed = false;
        for (_, value) in paths {
            let path = self.path_argument(&value);
            let mut walk = Walk {
                flags,
                device: 0,
                above: HashSet::new(),
                failed: false,
            };
            let key = path.as_os_str().as_bytes().to_vec();
            self.visit(&mut walk, data, &key, &path, 0)?;
            failed |= walk.failed;
        }
        Ok(Value::Num(if failed { -1.0 } else { 0.0 }))
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
            Err(error) => {
                walk.failed = true;
                return self.describe(own, path, Err(error));
            }
        };
        if depth == 0 {
            walk.device = meta.dev();
        }
        let identity = (meta.dev(), meta.ino());
        let other_device = walk.flags & XDEV != 0 && meta.dev() != walk.device;
        let skipped = walk.flags & SKIP != 0 && depth > 0;
        if !meta.is_dir() || other_device || skipped || walk.above.contains(&identity) {
            return self.describe(own, path, Ok(meta));
        }
        let slot = self.store.entry(own, b".")?;
        let itself = self.store.make_inner(own, slot)?;
        self.describe(itself, path, Ok(meta))?;
        if depth >= DEPTH_MAX {
            walk.failed = true;
            return Ok(());
        }
        let entries = match std::fs::read_dir(path) {
            Ok(entries) => entries,
            Err(error) => {
                walk.failed = true;
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
