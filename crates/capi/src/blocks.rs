//! The malloc family and roots.

use crate::errors::{Code, Failure, Outcome, code, guarded, no_room, set_errno};
use crate::handle::Perdure;
use heap::{ErrorKind, Heap};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;

/// What is aligned to more than this is an error, not a request.
const ALIGNMENT_MAX: usize = 1 << 40;

/// A handle that C gave.
///
/// # Safety
/// Null, or what `perdure_open` gave and `perdure_close` did not take.
pub(crate) unsafe fn handle<'a>(heap: *const Perdure) -> Outcome<&'a Perdure> {
    // SAFETY: as the caller owes.
    unsafe { heap.as_ref() }.ok_or_else(|| Failure::invalid("the heap is NULL"))
}

/// As a function that returns a block or NULL with errno.
fn block(body: impl FnOnce() -> Outcome<*mut c_void>) -> *mut c_void {
    match guarded(body) {
        Ok(pointer) => pointer,
        Err(code) => {
            set_errno(match code {
                Code::Invalid | Code::Damaged => libc::EINVAL,
                Code::ReadOnly => libc::EROFS,
                Code::Full | Code::Io => libc::ENOMEM,
                _ => libc::EIO,
            });
            null_mut()
        }
    }
}

impl Perdure {
    fn pointer(&self, offset: u64) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.start + offset as usize)
    }

    fn block_of(&self, pointer: *const c_void) -> Outcome<u64> {
        let offset = self.offset(pointer as usize)?;
        match self.heap().block_bytes(offset) {
            Ok(_) => Ok(offset),
            Err(_) => Err(Failure::invalid(format!(
                "{pointer:p} is not a block of this heap, or was freed"
            ))),
        }
    }

    /// An error of this heap, which knows its name and its limit.
    fn refused(&self, heap: &Heap, error: heap::Error) -> Failure {
        match *error.kind() {
            ErrorKind::Full { wanted_bytes, .. } => {
                let limit_bytes = heap.facts().map_or(0, |facts| facts.limit_bytes);
                no_room(&self.path, limit_bytes, wanted_bytes)
            }
            _ => error.into(),
        }
    }

    fn allocate(&self, size: usize, alignment: usize, zeroed: bool) -> Outcome<*mut c_void> {
        let mut heap = self.heap();
        let offset = heap.block_new(size as u64, alignment as u64);
        let offset = offset.map_err(|error| self.refused(&heap, error))?;
        self.note_growth(&heap);
        if zeroed && size > 0 {
            heap.block_clear(offset, size as u64)?;
        }
        Ok(self.pointer(offset))
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_malloc(heap: *mut Perdure, size: usize) -> *mut c_void {
    // SAFETY: as the caller owes.
    block(|| unsafe { handle(heap) }?.allocate(size, 1, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_calloc(
    heap: *mut Perdure,
    count: usize,
    size: usize,
) -> *mut c_void {
    block(|| {
        let bytes = count.checked_mul(size).ok_or_else(|| Failure {
            code: Code::Full,
            message: format!("{count} times {size} bytes are more than there can be"),
        })?;
        // SAFETY: as the caller owes.
        unsafe { handle(heap) }?.allocate(bytes, 1, true)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_aligned_alloc(
    heap: *mut Perdure,
    alignment: usize,
    size: usize,
) -> *mut c_void {
    block(|| {
        if !alignment.is_power_of_two() || alignment > ALIGNMENT_MAX {
            return Err(Failure::invalid(format!(
                "an alignment of {alignment}: it must be a power of two up to {ALIGNMENT_MAX}"
            )));
        }
        // SAFETY: as the caller owes.
        unsafe { handle(heap) }?.allocate(size, alignment, false)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_realloc(
    heap: *mut Perdure,
    old: *mut c_void,
    size: usize,
) -> *mut c_void {
    block(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        if old.is_null() {
            return handle.allocate(size, 1, false);
        }
        let offset = handle.block_of(old)?;
        let mut heap = handle.heap();
        let resized = heap.block_resize(offset, size as u64);
        let resized = resized.map_err(|error| handle.refused(&heap, error))?;
        handle.note_growth(&heap);
        Ok(handle.pointer(resized))
    })
}

/// As `perdure_free`, for who tells of errors in another way.
///
/// # Safety
/// As [`handle`].
pub(crate) unsafe fn free(heap: *mut Perdure, old: *mut c_void) -> Result<(), Code> {
    if old.is_null() {
        return Ok(());
    }
    guarded(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        let offset = handle.block_of(old)?;
        handle.heap().block_free(offset)?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_free(heap: *mut Perdure, old: *mut c_void) {
    // SAFETY: as the caller owes.
    if unsafe { free(heap, old) }.is_err() {
        set_errno(libc::EINVAL);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_usable_size(heap: *mut Perdure, block: *const c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    let bytes = guarded(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        let offset = handle.block_of(block)?;
        Ok(handle.heap().block_bytes(offset)?)
    });
    bytes.map_or(0, |bytes| bytes as usize)
}

/// A text that C gave.
///
/// # Safety
/// Null, or a text that ends with a zero.
pub(crate) unsafe fn text<'a>(text: *const c_char, what: &str) -> Outcome<&'a CStr> {
    if text.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not null, and as the caller owes.
    Ok(unsafe { CStr::from_ptr(text) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_set_root(
    heap: *mut Perdure,
    name: *const c_char,
    pointer: *const c_void,
) -> c_int {
    code(|| {
        // SAFETY: as the caller owes.
        let (handle, name) = unsafe { (handle(heap)?, text(name, "the root's name")?) };
        let offset = match pointer.is_null() {
            true => None,
            false => Some(handle.offset(pointer as usize)?),
        };
        let mut heap = handle.heap();
        let named = heap.name_set(name.to_bytes(), offset);
        named.map_err(|error| handle.refused(&heap, error))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_root(heap: *mut Perdure, name: *const c_char) -> *mut c_void {
    set_errno(0);
    block(|| {
        // SAFETY: as the caller owes.
        let (handle, name) = unsafe { (handle(heap)?, text(name, "the root's name")?) };
        let found = handle.heap().name_find(name.to_bytes())?;
        match found {
            None => Ok(null_mut()),
            Some(offset) if offset < handle.reserved() as u64 => Ok(handle.pointer(offset)),
            Some(offset) => Err(Failure {
                code: Code::Damaged,
                message: format!("the root {name:?} leads to {offset}, outside the heap"),
            }),
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdure_each_root(
    heap: *mut Perdure,
    visit: Option<unsafe extern "C" fn(*const c_char, *mut c_void, *mut c_void) -> c_int>,
    context: *mut c_void,
) -> c_int {
    let mut roots = Vec::new();
    let mut to_call = None;
    let listed = code(|| {
        // SAFETY: as the caller owes.
        let handle = unsafe { handle(heap) }?;
        to_call = Some(visit.ok_or_else(|| Failure::invalid("the function to call is NULL"))?);
        handle.heap().for_each_name(&mut |name, offset| {
            roots.push((name.to_vec(), handle.pointer(offset)));
            Ok(())
        })?;
        Ok(())
    });
    let Some(visit) = to_call.filter(|_| listed == 0) else {
        return listed;
    };
    for (name, pointer) in roots {
        let name = CString::new(name).unwrap_or_default(); // came from C: without zeros
        // SAFETY: a function of the program's with arguments as the header says.
        let answer = unsafe { visit(name.as_ptr(), pointer, context) };
        if answer != 0 {
            return answer;
        }
    }
    0
}
