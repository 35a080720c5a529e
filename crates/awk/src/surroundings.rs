//! What a program text finds around it: functions and variables of the heap, files to include.
//!
//! Invariant: each file is read into a program once, whatever names lead to it.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use awk_syntax::{Included, Sources, World};
use heap::{Cell, Heap};

use crate::error::system_reason;
use crate::store::{FUNCTIONS, GLOBALS, stored_function};

/// A file's identity: device and inode.
type Identity = (u64, u64);

/// Lends the reader of programs the stack of a thread.
pub(crate) fn lend_stack(
    stack_bytes: usize,
    work: &mut (dyn FnMut() + Send),
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(stack_bytes);
        let handle = thread
            .spawn_scoped(scope, work)
            .map_err(|error| system_reason(&error))?;
        handle
            .join()
            .map_err(|panic| std::panic::resume_unwind(panic))
    })
}

/// See the top of the file.
pub(crate) struct Surroundings<'h> {
    heap: &'h Heap,
    /// What the heap could not give.
    pub(crate) trouble: Option<heap::Error>,
    path: Vec<PathBuf>,
    main_files: HashSet<Identity>,
    included: HashSet<Identity>,
    /// Included files that are part of this program.
    own: HashSet<&'static str>,
}

/// What `-i inplace` includes: rules around those of the program. A file ends when the next one begins, so that what ENDFILE
/// rules print is in it. `INPLACE_SUFFIX` is what gawk before 5 called the suffix.
const INPLACE: &str = "\
@load \"inplace\"
@namespace \"inplace\"
BEGIN {
	if (typeof(enable) == \"untyped\")
		enable = 1
}
BEGINFILE {
	if (filename != \"\")
		end(filename, suffix != \"\" ? suffix : awk::INPLACE_SUFFIX)
	filename = enable && begin(FILENAME, suffix) == 0 ? FILENAME : \"\"
}
END {
	if (filename != \"\")
		end(filename, suffix != \"\" ? suffix : awk::INPLACE_SUFFIX)
}
";

fn identity(path: &Path) -> Option<Identity> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

/// The file that `name` means for `-f`, `-i` and `@include`: a name with a slash is a path; any other is looked for in
/// `path`, first as it is and then with `.awk` behind it (gawk manual, "The AWKPATH Environment Variable").
pub fn find_source(name: &str, path: &[PathBuf]) -> Option<PathBuf> {
    let is_there = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|meta| !meta.is_dir());
    let with_suffix = format!("{name}.awk");
    let names = [name, &with_suffix];
    if name.contains('/') {
        return names.iter().map(PathBuf::from).find(is_there);
    }
    names
        .iter()
        .flat_map(|name| path.iter().map(move |folder| folder.join(name)))
        .find(is_there)
}

/// Why [`find_source`] gave nothing, as the end of a message: what was looked for, and where.
pub fn why_not_found(name: &str, path: &[PathBuf]) -> String {
    if Path::new(name).is_dir() {
        return "it is a directory".to_string();
    }
    let place = if name.contains('/') {
        match std::fs::metadata(name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return system_reason(&error);
            }
            _ => String::new(),
        }
    } else {
        let folders: Vec<String> = path.iter().map(|p| p.display().to_string()).collect();
        format!(" in {} (AWKPATH)", folders.join(":"))
    };
    if name.ends_with(".awk") {
        format!("there is no `{name}'{place}")
    } else {
        format!("there is no `{name}' or `{name}.awk'{place}")
    }
}

impl<'h> Surroundings<'h> {
    /// For the program in `sources`, whose names are those of the files that it was read from.
    pub(crate) fn new(heap: &'h Heap, sources: &Sources, path: Vec<PathBuf>) -> Surroundings<'h> {
        let names = (0..sources.len()).map(|n| PathBuf::from(&sources.get(n as u32).name));
        Surroundings {
            heap,
            trouble: None,
            path,
            main_files: names.filter_map(|name| identity(&name)).collect(),
            included: HashSet::new(),
            own: HashSet::new(),
        }
    }

    fn try_read<T: Default>(&mut self, read: impl FnOnce(&Heap) -> heap::Result<T>) -> T {
        if !self.heap.is_persistent() {
            return T::default();
        }
        read(self.heap).unwrap_or_else(|error| {
            self.trouble.get_or_insert(error);
            T::default()
        })
    }
}

impl World for Surroundings<'_> {
    fn function_text(&mut self, name: &str) -> Option<Vec<u8>> {
        self.try_read(|heap| stored_function(heap, name))
    }

    fn function_names(&mut self) -> Vec<String> {
        self.try_read(|heap| {
            let mut names = Vec::new();
            if let Some(table) = heap.root_find(FUNCTIONS)? {
                heap.for_each(table, &mut |name, _| {
                    names.push(String::from_utf8_lossy(name).into_owned());
                    Ok(())
                })?;
            }
            Ok(names)
        })
    }

    fn global_names(&mut self) -> Vec<(String, bool)> {
        self.try_read(|heap| {
            let mut names = Vec::new();
            if let Some(table) = heap.root_find(GLOBALS)? {
                heap.for_each(table, &mut |name, cell| {
                    let is_array = matches!(cell, Cell::Table(_));
                    names.push((String::from_utf8_lossy(name).into_owned(), is_array));
                    Ok(())
                })?;
            }
            Ok(names)
        })
    }

    fn include(&mut self, name: &str, _from: &str) -> Result<Included, String> {
        // Whatever lies on AWKPATH: the file that gawk installs there is for gawk's library.
        if matches!(name, "inplace" | "inplace.awk") {
            if !self.own.insert("inplace") {
                return Ok(Included::AlreadyThere);
            }
            return Ok(Included::Text {
                name: "inplace.awk (built in)".to_string(),
                text: INPLACE.into(),
            });
        }
        let Some(path) = find_source(name, &self.path) else {
            return Err(why_not_found(name, &self.path));
        };
        let shown = path.display().to_string();
        if let Some(identity) = identity(&path) {
            if self.main_files.contains(&identity) {
                return Ok(Included::MainFile);
            }
            if !self.included.insert(identity) {
                return Ok(Included::AlreadyThere);
            }
        }
        match std::fs::read(&path) {
            Ok(text) => Ok(Included::Text { name: shown, text }),
            Err(error) => Err(system_reason(&error)),
        }
    }
}
