//! Opening, commits, places, and what happened.

use crate::blocks::{handle, text};
use crate::errors::{Failure, Outcome, code, guarded, open_already};
use crate::files::PerdureFile;
use crate::handle::{Identity, Perdure, is_written_here, of_address};
use crate::marks::{Instrumented, instrumented};
use heap::{Access, ByAddress, ErrorKind, Heap, Media, Options, Place, Tracking};
use std::ffi::{OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;

const CREATE: u32 = 1;
const SNAPSHOT: u32 = 2;
const TRUST: u32 = 4;
const ANYWHERE: u32 = 8;

/// `perdure_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PerdureOptions {
    size: usize,
    flags: u32,
    tracking: u32,
    limit: u64,
    lock_wait_ms: i64,
}

const DEFAULT: PerdureOptions = PerdureOptions {
    size: size_of::<PerdureOptions>(),
    flags: CREATE,
    tracking: 0,
    limit: 0,
    lock_wait_ms: -1,
};

/// How stores become known, if the program leaves it open.
pub(crate) fn default_tracking() -> Outcome<Tracking> {
    match std::env::var_os("PERDURE_TRACK") {
        Some(word) if word == "pages" => Ok(Tracking::Pages),
        Some(word) if word == "lines" => Ok(Tracking::Lines),
        Some(word) if word == "verify" => Ok(Tracking::Both),
        Some(word) if !word.is_empty() => Err(Failure::invalid(format!(
            "PERDURE_TRACK is {word:?} in the environment; it can be pages, lines or verify"
        ))),
        _ => Ok(match instrumented() {
            Instrumented::No => Tracking::Pages,
            Instrumented::Yes => Tracking::Lines,
            Instrumented::Verify => Tracking::Both,
        }),
    }
}

/// How the medium is written.
fn media() -> Outcome<Media> {
    match std::env::var_os("PERDURE_MEDIA") {
        Some(word) if word == "memory" => Ok(Media::Memory),
        Some(word) if word == "files" => Ok(Media::Files),
        Some(word) if !word.is_empty() => Err(Failure::invalid(format!(
            "PERDURE_MEDIA is {word:?} in the environment; it can be memory or files"
        ))),
        _ => Ok(Media::Any),
    }
}

impl PerdureOptions {
    fn understood(&self) -> Outcome<Options> {
        if self.size != size_of::<PerdureOptions>() {
            return Err(Failure::invalid(format!(
                "options of {} bytes; start from PERDURE_OPTIONS",
                self.size
            )));
        }
        let unknown = self.flags & !(CREATE | SNAPSHOT | TRUST | ANYWHERE);
        if unknown != 0 {
            return Err(Failure::invalid(format!("unknown flags {unknown:#x}")));
        }
        let has = |flag| self.flags & flag != 0;
        if has(SNAPSHOT) && self.limit != 0 {
            return Err(Failure::invalid("a limit for a snapshot"));
        }
        let tracking = match self.tracking {
            0 => default_tracking()?,
            1 => Tracking::Pages,
            2 => Tracking::Lines,
            3 => Tracking::Both,
            other => return Err(Failure::invalid(format!("unknown tracking {other}"))),
        };
        let place = match (has(ANYWHERE), instrumented()) {
            (false, _) => Place::Home,
            // Instrumented code takes what lies outside the arena for no heap, and marks nothing there. A snapshot needs no marks.
            (true, Instrumented::Yes | Instrumented::Verify) if !has(SNAPSHOT) => Place::Arena,
            (true, _) => Place::Anywhere,
        };
        let base = if has(SNAPSHOT) {
            Options::snapshot()
        } else {
            Options::writer()
        };
        let lock_timeout = match u64::try_from(self.lock_wait_ms) {
            Ok(ms) => Duration::from_millis(ms),
            Err(_) => base.lock_timeout,
        };
        Ok(Options {
            create: has(CREATE) && !has(SNAPSHOT),
            limit_bytes: self.limit,
            trust: has(TRUST),
            lock_timeout,
            by_address: Some(ByAddress {
                tracking,
                place,
                media: media()?,
            }),
            ..base
        })
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_open(
    path: *const c_char,
    options: *const PerdureOptions,
    opened: *mut *mut Perdure,
) -> c_int {
    code(|| {
        // SAFETY: null, or a place for a pointer, as the caller owes.
        let Some(opened) = (unsafe { opened.as_mut() }) else {
            return Err(Failure::invalid("the place for the heap is NULL"));
        };
        *opened = null_mut();
        // SAFETY: as the caller owes.
        let (path, options) = unsafe { (text(path, "the path")?, options.as_ref()) };
        let options = options.unwrap_or(&DEFAULT).understood()?;
        let tracking = options
            .by_address
            .map_or_else(Tracking::default, |how| how.tracking);
        let path = Path::new(OsStr::from_bytes(path.to_bytes()));
        let is_written_here = || Identity::of(path).is_some_and(is_written_here);
        if options.access == Access::Writer && is_written_here() {
            return Err(open_already("heap", path));
        }
        let opened_now = Heap::open(path, options);
        let heap = opened_now.map_err(|error| match error.kind() {
            // Another thread was faster.
            ErrorKind::Locked { .. } if is_written_here() => open_already("heap", path),
            _ => error.into(),
        })?;
        *opened = Box::into_raw(Perdure::open(heap, path.into(), tracking));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_close(heap: *mut Perdure) -> c_int {
    if heap.is_null() {
        return 0;
    }
    code(|| {
        // SAFETY: what perdure_open gave, and the caller gives it back.
        unsafe { Box::from_raw(heap) }.close()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_commit(heap: *mut Perdure) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        handle.commit()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_commit_lazy(heap: *mut Perdure, ticket: *mut u64) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        let commit = unsafe { handle(heap) }?.commit_lazily()?;
        // SAFETY: null, or a place for a number.
        if let Some(ticket) = unsafe { ticket.as_mut() } {
            *ticket = commit;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_wait(heap: *mut Perdure, ticket: u64) -> c_int {
    // SAFETY: as the caller owes.
    code(|| unsafe { handle(heap) }?.wait(ticket))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_abort(heap: *mut Perdure) -> c_int {
    // SAFETY: as the caller owes.
    code(|| unsafe { handle(heap) }?.abort())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_begin(heap: *mut Perdure) {
    // Nothing to report to: a NULL here is reported by whatever is called in the section.
    let _ = guarded(|| {
        // SAFETY: as the caller owes.
        unsafe { handle(heap) }?.gate.begin();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_end(heap: *mut Perdure) {
    let _ = guarded(|| {
        // SAFETY: as the caller owes.
        match unsafe { handle(heap) }?.gate.end() {
            true => Ok(()),
            false => Err(Failure::invalid("perdure_end without perdure_begin")),
        }
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn perdure_of(address: *const c_void) -> *mut Perdure {
    of_address(address as usize).map_or(null_mut(), <*const Perdure>::cast_mut)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_offset(heap: *mut Perdure, pointer: *const c_void) -> u64 {
    if pointer.is_null() {
        return 0;
    }
    // SAFETY: as the caller owes.
    guarded(|| unsafe { handle(heap) }?.offset(pointer as usize)).unwrap_or(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_at(heap: *mut Perdure, offset: u64) -> *mut c_void {
    if offset == 0 {
        return null_mut();
    }
    let address = guarded(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        match usize::try_from(offset) {
            Ok(offset) if offset < handle.reserved() => Ok(handle.start + offset),
            _ => Err(Failure::invalid(format!("{offset} is outside the heap"))),
        }
    });
    address.map_or(null_mut(), std::ptr::with_exposed_provenance_mut)
}

/// `perdure_stats` of the header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PerdureStats {
    size: usize,
    commits: u64,
    durable: u64,
    heap_bytes: u64,
    live_blocks: u64,
    live_bytes: u64,
    lines: u64,
    journal_bytes: u64,
    flushes: u64,
    missed_lines: u64,
    address: u64,
    tracking: u64,
}

impl PerdureStats {
    pub(crate) fn sized() -> PerdureStats {
        PerdureStats {
            size: size_of::<PerdureStats>(),
            ..PerdureStats::default()
        }
    }

    /// Writes as much of it as the program knows of.
    ///
    /// # Safety
    /// Null, or a structure of the program's whose size is set.
    unsafe fn give(mut self, stats: *mut PerdureStats) -> Outcome<()> {
        if stats.is_null() {
            return Err(Failure::invalid("the place for the figures is NULL"));
        }
        // SAFETY: not null: a structure of which at least the size is there and set.
        self.size = unsafe { (&raw const (*stats).size).read() };
        if self.size < size_of::<usize>() || self.size > 4 * size_of::<PerdureStats>() {
            return Err(Failure::invalid(format!(
                "figures of {} bytes; set size to sizeof(perdure_stats)",
                self.size
            )));
        }
        let known = self.size.min(size_of::<PerdureStats>());
        // SAFETY: the program's structure has that many bytes, of which no more are written than there are of ours.
        unsafe {
            std::ptr::copy_nonoverlapping((&raw const self).cast::<u8>(), stats.cast(), known);
        }
        Ok(())
    }
}

impl std::fmt::Display for PerdureStats {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "at {:#x}: {} bytes, {} blocks of {} bytes in use, {} commits",
            self.address, self.heap_bytes, self.live_blocks, self.live_bytes, self.commits
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_get_stats(heap: *mut Perdure, stats: *mut PerdureStats) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        let total = handle.total();
        let heap = handle.heap();
        let found = PerdureStats {
            size: 0,
            commits: heap.commits(),
            durable: heap.durable_commits(),
            heap_bytes: heap.end_bytes(),
            live_blocks: heap.live_blocks()?,
            live_bytes: heap.live_bytes()?,
            lines: total.lines,
            journal_bytes: total.journal_bytes,
            flushes: total.flushes,
            missed_lines: heap.missed().lines,
            address: handle.start as u64,
            tracking: number_of(handle.tracking),
        };
        // SAFETY: as the caller owes.
        unsafe { found.give(stats) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_file_get_stats(
    file: *mut PerdureFile,
    stats: *mut PerdureStats,
) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { crate::files::handle(file) }?;
        let total = handle.total();
        let region = handle.region();
        let found = PerdureStats {
            commits: region.commits(),
            durable: region.durable_commits(),
            lines: total.lines,
            journal_bytes: total.journal_bytes,
            flushes: total.flushes,
            missed_lines: region.missed().lines,
            address: handle.start as u64,
            tracking: number_of(handle.tracking),
            ..PerdureStats::default()
        };
        // SAFETY: as the caller owes.
        unsafe { found.give(stats) }
    })
}

/// `enum perdure_tracking`.
fn number_of(tracking: Tracking) -> u64 {
    match tracking {
        Tracking::Pages => 1,
        Tracking::Lines => 2,
        Tracking::Both => 3,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_missed(
    heap: *mut Perdure,
    places: *mut *const c_void,
    count: usize,
) -> usize {
    let known = guarded(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        let offsets = handle.heap().missed().offsets;
        for (i, &offset) in offsets.iter().enumerate().take(count) {
            let place = std::ptr::with_exposed_provenance(handle.start + offset as usize);
            // SAFETY: there is room for `count` pointers, as the caller owes.
            unsafe { places.add(i).write(place) };
        }
        Ok(offsets.len())
    });
    known.unwrap_or(0)
}
