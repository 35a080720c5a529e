//! Failure-atomic files: a program's own file as a region.

use crate::blocks::text;
use crate::calls::default_tracking;
use crate::errors::{Code, Failure, Outcome, code, guarded, of_file, open_already};
use crate::handle::{Identity, Listed, is_written_here};
use crate::marks;
use crate::report;
use region::{ByAddress, CommitStats, DATA_START, ErrorKind, Place, Region, Tracking};
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// `perdure_file` of the header.
pub struct PerdureFile {
    region: Mutex<Region>,
    /// The file.
    pub(crate) written: Option<Identity>,
    /// For people.
    pub(crate) path: PathBuf,
    pub(crate) tracking: Tracking,
    totals: Mutex<CommitStats>,
    pub(crate) start: usize,
    reach: u64,
    /// Stores that nobody could mark may have happened since its last sync.
    pub(crate) unseen: AtomicBool,
}

impl PerdureFile {
    pub(crate) fn region(&self) -> MutexGuard<'_, Region> {
        self.region.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn sync(&self) -> Outcome<()> {
        marks::spread_unseen();
        let mut region = self.region();
        if self.unseen.swap(false, Ordering::Relaxed) {
            region.note_unseen_stores();
        }
        let stats = region.commit_file();
        let stats = stats.map_err(|error| of_file(&error, &self.path))?;
        self.totals().add(stats);
        Ok(())
    }

    pub(crate) fn totals(&self) -> MutexGuard<'_, CommitStats> {
        self.totals.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// What this handle did so far.
    pub(crate) fn total(&self) -> CommitStats {
        *self.totals()
    }
}

/// # Safety
/// Null, or what `perdure_file_open` gave and `perdure_file_close` did not take.
pub(crate) unsafe fn handle<'a>(file: *const PerdureFile) -> Outcome<&'a PerdureFile> {
    // SAFETY: as the caller owes.
    unsafe { file.as_ref() }.ok_or_else(|| Failure::invalid("the file is NULL"))
}

fn open(fd: c_int, path: &Path) -> Outcome<Box<PerdureFile>> {
    if fd < 0 {
        return Err(Failure::invalid(format!("{fd} is no descriptor")));
    }
    // SAFETY: the program's descriptor, used during this call only; one that is not open is an error of the duplication.
    let own = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned();
    let file = own
        .map(File::from)
        .map_err(|e| Failure::invalid(format!("\"{}\": descriptor {fd}: {e}", path.display())))?;
    check_identity(&file, fd, path)?;
    // In messages, too, it has the name beside which its journal lies.
    let real = path.canonicalize();
    let real = real.map_err(|e| Failure::invalid(format!("\"{}\": {e}", path.display())))?;
    let path = real.as_path();
    check_access(&file, fd, path)?;
    let identity = Identity::of(path);
    let is_written_here = || identity.is_some_and(is_written_here);
    if is_written_here() {
        return Err(open_already("file", path));
    }
    let tracking = default_tracking()?;
    let by_address = ByAddress {
        tracking,
        place: Place::Arena,
        ..ByAddress::default()
    };
    let opened = Region::open_file(file, path, by_address);
    let mut region = opened.map_err(|error| match error.kind() {
        ErrorKind::Locked { .. } if is_written_here() => open_already("file", path),
        _ => of_file(&error, path),
    })?;
    if report::is_wanted() {
        region.watch_missed_stores();
    }
    Ok(Box::new(PerdureFile {
        written: identity,
        start: region.address() + DATA_START as usize,
        reach: region.reserved_bytes() - DATA_START,
        region: Mutex::new(region),
        path: path.into(),
        tracking,
        totals: Mutex::new(CommitStats::default()),
        unseen: AtomicBool::new(false),
    }))
}

/// What lies beside a file is found by its path: it must be that file's. And only what is a file has anything beside it.
fn check_identity(file: &File, fd: c_int, path: &Path) -> Outcome<()> {
    let refused = |why: String| {
        Err(Failure::invalid(format!(
            "file \"{}\": {why}",
            path.display()
        )))
    };
    let open = match file.metadata() {
        Ok(open) if open.is_file() => open,
        Ok(_) => return refused(format!("descriptor {fd} is of no regular file")),
        Err(e) => return refused(format!("descriptor {fd}: {e}")),
    };
    match std::fs::metadata(path) {
        Ok(named) if (named.dev(), named.ino()) == (open.dev(), open.ino()) => Ok(()),
        Ok(_) => refused(format!("descriptor {fd} is of another file")),
        Err(e) => refused(format!("descriptor {fd} is of no file of this name: {e}")),
    }
}

/// Who syncs a file reads and writes it. Found out before anything is made beside it, and not by the first sync.
fn check_access(file: &File, fd: c_int, path: &Path) -> Outcome<()> {
    // SAFETY: asks for the flags of a descriptor of ours.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    let (code, only) = match flags & libc::O_ACCMODE {
        libc::O_RDWR => return Ok(()),
        libc::O_WRONLY => (Code::Invalid, "writing"),
        _ => (Code::ReadOnly, "reading"),
    };
    Err(Failure {
        code,
        message: format!(
            "file \"{}\": descriptor {fd} is open for {only} only; open it with O_RDWR",
            path.display()
        ),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_open(
    fd: c_int,
    path: *const c_char,
    opened: *mut *mut PerdureFile,
) -> c_int {
    code(|| {
        // SAFETY: null, or a place for a pointer, as the caller owes.
        let Some(opened) = (unsafe { opened.as_mut() }) else {
            return Err(Failure::invalid("the place for the file is NULL"));
        };
        *opened = null_mut();
        // SAFETY: as the caller owes.
        let path = unsafe { text(path, "the path") }?;
        let file = open(fd, Path::new(OsStr::from_bytes(path.to_bytes())))?;
        Listed::File(&raw const *file).list();
        *opened = Box::into_raw(file);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_memory(file: *mut PerdureFile) -> *mut c_void {
    // SAFETY: as the caller owes.
    let start = guarded(|| Ok(unsafe { handle(file) }?.start));
    start.map_or(null_mut(), std::ptr::with_exposed_provenance_mut)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_reach(file: *mut PerdureFile) -> u64 {
    // SAFETY: as the caller owes.
    guarded(|| Ok(unsafe { handle(file) }?.reach)).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_keep_private(file: *mut PerdureFile) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        unsafe { handle(file) }?.region().keep_file_private();
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_sync(file: *mut PerdureFile) -> c_int {
    // SAFETY: as the caller owes.
    code(|| unsafe { handle(file) }?.sync())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_abort(file: *mut PerdureFile) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(file) }?;
        marks::spread_unseen();
        handle.unseen.store(false, Ordering::Relaxed);
        let aborted = handle.region().abort();
        aborted.map_err(|error| of_file(&error, &handle.path))
    })
}

/// Takes a file from C, and ends what it was.
///
/// # Safety
/// What `perdure_file_open` gave, and the caller gives back.
unsafe fn end(file: *mut PerdureFile, end: fn(Region) -> region::Result<()>) -> Outcome<()> {
    Listed::File(file).unlist();
    // SAFETY: as the caller owes.
    let file = unsafe { Box::from_raw(file) };
    file.append_report();
    let region = file.region.into_inner().unwrap_or_else(|e| e.into_inner());
    end(region).map_err(|error| of_file(&error, &file.path))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_close(file: *mut PerdureFile) -> c_int {
    if file.is_null() {
        return 0;
    }
    // SAFETY: as the caller owes.
    code(|| unsafe { end(file, Region::close_file) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_leave(file: *mut PerdureFile) -> c_int {
    if file.is_null() {
        return 0;
    }
    // SAFETY: as the caller owes.
    code(|| unsafe { end(file, Region::leave_file) })
}
