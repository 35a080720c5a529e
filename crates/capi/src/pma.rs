//! pma's interface, over one heap of the process: see `include/pma.h`.
//!
//! The invariant: what was stored is committed when the program ends in the ordinary way, and at `pma_commit`, and at no other time.

use crate::blocks::{
    free, perdure_calloc, perdure_malloc, perdure_realloc, perdure_root, perdure_set_root,
};
use crate::calls::{perdure_commit, perdure_get_stats, perdure_open};
use crate::errors::{Code, last_code, last_message};
use crate::handle::Perdure;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// Where the one root is kept.
const ROOT: &CStr = c"pma";

#[unsafe(no_mangle)]
pub static pma_version: [u8; 14] = *b"perdure 0.1.0\0";
#[unsafe(no_mangle)]
pub static pma_errno: AtomicI32 = AtomicI32::new(0);

/// `struct pma_state` of the header.
#[repr(C)]
pub struct PmaState {
    init: AtomicI32,
    vrb: AtomicI32,
    file: AtomicPtr<c_char>,
    err: AtomicI32,
}

#[unsafe(no_mangle)]
pub static pma_state: PmaState = PmaState {
    init: AtomicI32::new(0),
    vrb: AtomicI32::new(0),
    file: AtomicPtr::new(null_mut()),
    err: AtomicI32::new(0),
};

static HEAP: AtomicPtr<Perdure> = AtomicPtr::new(null_mut());
static FALLBACK_ROOT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// What is going on, decided once a call.
enum Mode {
    Persistent(*mut Perdure),
    Fallback,
}

fn mode() -> Option<Mode> {
    match pma_state.init.load(Ordering::Acquire) {
        1 => Some(Mode::Persistent(HEAP.load(Ordering::Acquire))),
        2 => Some(Mode::Fallback),
        _ => {
            failed(Code::Invalid as c_int, "pma_init was not called, or failed");
            None
        }
    }
}

/// To say what happens is what this interface asks of a library, by its verbosity.
#[expect(
    clippy::print_stderr,
    reason = "pma's interface: verbosity is about standard error"
)]
fn say(least: c_int, message: &str) {
    if pma_state.vrb.load(Ordering::Relaxed) >= least {
        eprintln!("pma: {message}");
    }
}

fn failed(code: c_int, what: &str) {
    pma_errno.store(code, Ordering::Relaxed);
    pma_state.err.store(code, Ordering::Relaxed);
    say(1, &format!("ERROR: {what}"));
}

/// Passes a block on, and notes if there is none.
fn noted(block: *mut c_void) -> *mut c_void {
    if block.is_null() {
        failed(last_code() as c_int, &last_message());
    }
    block
}

extern "C" fn at_exit() {
    if matches!(pma_state.init.load(Ordering::Acquire), 1) {
        pma_commit();
        // SAFETY: our own handle, never closed.
        unsafe { &*HEAP.load(Ordering::Acquire) }.append_report();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pma_init(verbose: c_int, file: *const c_char) -> c_int {
    pma_state.vrb.store(verbose.clamp(0, 3), Ordering::Relaxed);
    if pma_state.init.load(Ordering::Acquire) != 0 {
        failed(Code::Invalid as c_int, "pma_init is called a second time");
        return Code::Invalid as c_int;
    }
    if file.is_null() {
        say(2, "WARNING: no file: ordinary memory, forgotten at the end");
        pma_state.init.store(2, Ordering::Release);
        return 0;
    }
    let mut opened = null_mut();
    // SAFETY: a text of the program's, and a place of ours.
    let code = unsafe { perdure_open(file, null(), &raw mut opened) };
    if code != 0 {
        failed(code, &last_message());
        return code;
    }
    HEAP.store(opened, Ordering::Release);
    // SAFETY: the text is the program's, which the interface has kept as given; nobody here frees it.
    pma_state
        .file
        .store(unsafe { libc::strdup(file) }, Ordering::Release);
    pma_state.init.store(1, Ordering::Release);
    // SAFETY: a function that lives as long as the library.
    if unsafe { libc::atexit(at_exit) } != 0 {
        failed(
            Code::Unsupported as c_int,
            "no room to note that the heap is to be committed at the end",
        );
        return Code::Unsupported as c_int;
    }
    say(3, "the heap is open");
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pma_malloc(size: usize) -> *mut c_void {
    match mode() {
        // SAFETY: our own handle, never closed; else an ordinary allocation.
        Some(Mode::Persistent(heap)) => noted(unsafe { perdure_malloc(heap, size) }),
        // SAFETY: as above.
        Some(Mode::Fallback) => unsafe { libc::malloc(size) },
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pma_calloc(count: usize, size: usize) -> *mut c_void {
    match mode() {
        // SAFETY: our own handle, never closed; else an ordinary allocation.
        Some(Mode::Persistent(heap)) => noted(unsafe { perdure_calloc(heap, count, size) }),
        // SAFETY: as above.
        Some(Mode::Fallback) => unsafe { libc::calloc(count, size) },
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pma_realloc(block: *mut c_void, size: usize) -> *mut c_void {
    match mode() {
        // SAFETY: our own handle, never closed, which checks the block; else the program's own allocation.
        Some(Mode::Persistent(heap)) => noted(unsafe { perdure_realloc(heap, block, size) }),
        // SAFETY: as above.
        Some(Mode::Fallback) => unsafe { libc::realloc(block, size) },
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pma_free(block: *mut c_void) {
    match mode() {
        // SAFETY: our own handle, never closed, which checks the block; else the program's own allocation.
        Some(Mode::Persistent(heap)) => match unsafe { free(heap, block) } {
            Ok(()) => {}
            Err(code) => failed(code as c_int, &last_message()),
        },
        // SAFETY: as above.
        Some(Mode::Fallback) => unsafe { libc::free(block) },
        None => {}
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pma_set_root(pointer: *mut c_void) {
    match mode() {
        Some(Mode::Persistent(heap)) => {
            // SAFETY: our own handle, never closed, which checks the pointer.
            let code = unsafe { perdure_set_root(heap, ROOT.as_ptr(), pointer) };
            if code != 0 {
                failed(code, &last_message());
            }
        }
        Some(Mode::Fallback) => FALLBACK_ROOT.store(pointer, Ordering::Release),
        None => {}
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pma_get_root() -> *mut c_void {
    match mode() {
        // SAFETY: our own handle, never closed.
        Some(Mode::Persistent(heap)) => unsafe { perdure_root(heap, ROOT.as_ptr()) },
        Some(Mode::Fallback) => FALLBACK_ROOT.load(Ordering::Acquire),
        None => null_mut(),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pma_commit() -> c_int {
    match mode() {
        Some(Mode::Persistent(heap)) => {
            // SAFETY: our own handle, never closed.
            let code = unsafe { perdure_commit(heap) };
            if code != 0 {
                failed(code, &last_message());
            }
            code
        }
        Some(Mode::Fallback) => 0,
        None => Code::Invalid as c_int,
    }
}

#[expect(
    clippy::print_stderr,
    reason = "pma's interface: it prints to standard error"
)]
#[unsafe(no_mangle)]
pub extern "C" fn pma_check_and_dump() {
    let Some(mode) = mode() else { return };
    let Mode::Persistent(heap) = mode else {
        failed(
            Code::Invalid as c_int,
            "without a file there is nothing to check",
        );
        return;
    };
    // SAFETY: our own handle, never closed.
    let handle = unsafe { &*heap };
    let mut stats = crate::calls::PerdureStats::sized();
    // SAFETY: our own handle, and a structure of ours.
    let code = unsafe { perdure_get_stats(heap, &raw mut stats) };
    match handle.heap().check() {
        Ok(report) if code == 0 => {
            eprintln!("pma: perdure {}, {stats}", env!("CARGO_PKG_VERSION"));
            for problem in &report.problems {
                eprintln!("pma: ERROR: at {}: {}", problem.offset, problem.what);
            }
            if report.is_clean() {
                eprintln!("pma: checked: no problem");
            } else {
                failed(Code::Damaged as c_int, "the heap is damaged");
            }
        }
        Ok(_) => failed(code, &last_message()),
        Err(error) => failed(Code::Io as c_int, &error.to_string()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn pma_set_avail_mem(_value: c_ulong) {}
