//! The program's memory: the system's, with the program asked how to end when there is no more.
//!
//! Without this a refused allocation ends a Rust program by SIGABRT and a backtrace. The invariant: a request that the
//! system grants is the system's answer, unchanged; one that it refuses never returns. For `#[global_allocator]` of the
//! programs; libraries do not use it. It stands in this crate because `unsafe` may.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with an end for the program when memory is refused.
///
/// Costs one comparison of the answer: nothing measurable (2026-11, three million turns of concatenation and toupper).
pub struct Memory {
    refused: fn(usize) -> !,
}

impl Memory {
    /// `refused` is called with the bytes asked for, on whichever thread asked. It must not allocate (what it asks for
    /// would be refused too, and call it again) and must not unwind: it writes its message and ends the process.
    pub const fn new(refused: fn(usize) -> !) -> Memory {
        Memory { refused }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, bytes: usize) -> ! {
        (self.refused)(bytes)
    }

    #[inline]
    fn granted(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if block.is_null() {
            self.refuse(bytes);
        }
        block
    }
}

// SAFETY: every block comes from `System` and goes back to it with the layout it was asked with; a null pointer is never
// given back, and `refuse` does not return, so it cannot unwind through here (its type; what it calls is its caller's word,
// see `new`).
unsafe impl GlobalAlloc for Memory {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: our caller promises what `System` asks: a size that is not 0.
        self.granted(unsafe { System.alloc(layout) }, layout.size())
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as in `alloc`.
        self.granted(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: our caller promises a block of ours, which is one of `System`'s, with its layout, and a size that is not
        // 0 and fits.
        self.granted(unsafe { System.realloc(block, layout, size) }, size)
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as in `realloc`.
        unsafe { System.dealloc(block, layout) }
    }
}
