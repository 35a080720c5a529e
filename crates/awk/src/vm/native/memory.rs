//! Memory that is run: written once, then never again.

use std::io;

use memmap2::{Mmap, MmapMut};

/// Machine code.
pub(super) struct Executable(Mmap);

impl Executable {
    /// Code that refers to nothing by its distance, so that it runs wherever it lies.
    pub(super) fn new(code: &[u8]) -> io::Result<Executable> {
        let mut memory = MmapMut::map_anon(code.len().max(1))?;
        memory[..code.len()].copy_from_slice(code);
        Ok(Executable(memory.make_exec()?))
    }

    /// Its first instruction.
    pub(super) fn entry(&self) -> *const u8 {
        self.0.as_ptr()
    }
}
