//! Where the program begins: before Rust's runtime would.
//!
//! The runtime ignores SIGPIPE and opens `/dev/null` for standard descriptors that are closed. Both would be inherited by the shell
//! and the commands that this process becomes, which must find everything as the user's shell left it. So the loader's call
//! comes here, and nothing of that happens (docs/decisions/015-before-main.md).

/// What the C library calls. Its arguments are those that the standard library notes at the same time.
// SAFETY: the one function of this name in the program, with the signature that the C library expects; the arguments are not used.
#[allow(unsafe_code)] // the name is the linker's, which Rust cannot check
#[unsafe(no_mangle)]
extern "C" fn main(_count: i32, _words: *const *const u8) -> i32 {
    i32::from(crate::run())
}
