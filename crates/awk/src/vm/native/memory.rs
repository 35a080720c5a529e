//! Memory that is run: written once, then never again. The only place that calls what was not compiled with the program.

use std::io;

use memmap2::{Mmap, MmapMut};

use super::support::Context;

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

    /// Runs code that `Compiler` made with the signature of a loop's: gives where the machine goes on, or a function's
    /// status.
    #[allow(unsafe_code)] // docs/decisions/005-native-code.md
    pub(super) fn run(&self, context: &mut Context<'_, '_>) -> i64 {
        type Entry = extern "C" fn(&mut Context<'_, '_>) -> i64;
        // SAFETY: `Compiler` makes code of this signature for this processor, and `self` keeps it mapped for longer than
        // the call. It stores to the fields of the context at `offset_of!` and to its own stack only, follows no address
        // but those of `support`'s functions and of the table of functions, whose code `Native` keeps, and gives each the
        // arguments of its declared signature.
        let entry = unsafe { std::mem::transmute::<*const u8, Entry>(self.entry()) };
        entry(context)
    }
}
