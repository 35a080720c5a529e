//! Standard descriptors that are closed when the program starts.
//!
//! Rust's runtime opens `/dev/null` for them before `main`, so that no file of the program gets their numbers; with that,
//! output that goes nowhere looks written, and input that is not there looks empty. Here they are looked at before the runtime
//! does, and a program that wants to can have them fail as closed ones do.
//!
//! The invariant: nothing is changed unless the program asks for it.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bit *n*: descriptor *n* was closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);

extern "C" fn look() {
    for descriptor in 0..3 {
        // SAFETY: asks for the flags of a number, open or not; no memory is involved.
        if unsafe { libc::fcntl(descriptor, libc::F_GETFD) } == -1 {
            CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
        }
    }
}

// SAFETY: the section holds pointers to functions without arguments that the loader calls once, before `main` and before
// there are threads. (It passes arguments, which the C calling convention lets a function ignore.) `look` needs nothing of
// Rust's runtime: it makes system calls and changes an atomic.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Makes standard input, output and error fail if they were closed when the program started: reading and writing give
/// `EBADF` again, also to the commands that the program starts. To be called first in `main`.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub fn mark_closed_descriptors() -> io::Result<()> {
    let closed = CLOSED.load(Ordering::Relaxed);
    for descriptor in (0..3).filter(|n| closed & 1 << n != 0) {
        // Open for the direction that nobody uses: the number stays taken, and its use is an error.
        let way = if descriptor == 0 {
            libc::O_WRONLY
        } else {
            libc::O_RDONLY
        };
        // SAFETY: the path is a constant that ends with a zero, and the new descriptor belongs to nobody else. dup2 closes
        // the one of that number that the runtime opened, and does not hand out to anybody.
        let marked = unsafe {
            let other = libc::open(c"/dev/null".as_ptr(), way | libc::O_CLOEXEC);
            let marked = if other == -1 {
                -1
            } else {
                libc::dup2(other, descriptor)
            };
            if other > 2 {
                libc::close(other);
            }
            marked
        };
        if marked == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
