//! What instrumented programs and this library have in common: `cpp/pass/abi.h`.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Instrumented code stores 1: something may have been stored that it could not see.
#[unsafe(no_mangle)]
static __perdure_unseen: AtomicU8 = AtomicU8::new(0);
/// Calls into code without instrumentation that have not returned, and one for each reason that never ends.
#[unsafe(no_mangle)]
static __perdure_unseen_calls: AtomicU64 = AtomicU64::new(0);

/// Passes on that something may have been stored since this was called last that instrumented code could not see: to all that is
/// open, because nobody knows where.
pub(crate) fn spread_unseen() {
    let unseen = __perdure_unseen.load(Ordering::Acquire) != 0
        && __perdure_unseen.swap(0, Ordering::AcqRel) != 0;
    if unseen || __perdure_unseen_calls.load(Ordering::Acquire) != 0 {
        crate::handle::unseen_everywhere();
    }
}

/// What the program says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Instrumented {
    No,
    Yes,
    /// In a way that asks for verify mode.
    Verify,
}

pub(crate) fn instrumented() -> Instrumented {
    match program_says() {
        0 => Instrumented::No,
        bits if bits & 2 != 0 => Instrumented::Verify,
        _ => Instrumented::Yes,
    }
}

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    // The address of what every instrumented object defines, or null: a weak reference, which Rust cannot spell.
    ".weak __perdure_instrumented",
    ".hidden perdure_instrumented_address",
    ".globl perdure_instrumented_address",
    ".type perdure_instrumented_address, @function",
    "perdure_instrumented_address:",
    "mov rax, qword ptr [rip + __perdure_instrumented@GOTPCREL]",
    "ret",
    ".size perdure_instrumented_address, . - perdure_instrumented_address",
);

/// What an instrumented program calls with all general registers but r11 in use (clang's `preserve_most`), and with any stack: what an
/// ordinary function may change of them is kept, and the stack aligned.
#[cfg(target_arch = "x86_64")]
macro_rules! keeping_registers {
    ($(#[$told:meta])* $name:ident calls $function:path) => {
        $(#[$told])*
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(_: usize, _: usize) {
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "push rax",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "push r8",
                "push r9",
                "push r10",
                "and rsp, -16",
                "call {function}",
                "lea rsp, [rbp - 64]",
                "pop r10",
                "pop r9",
                "pop r8",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop rax",
                "pop rbp",
                "ret",
                function = sym $function,
            );
        }
    };
}

#[cfg(target_arch = "x86_64")]
keeping_registers! {
    /// An address, and how many bytes from there on may be stored to.
    __perdure_mark calls mark_bytes
}
#[cfg(target_arch = "x86_64")]
keeping_registers! {
    /// The first and the last line.
    __perdure_mark_lines calls mark_lines
}

extern "C" fn mark_bytes(address: usize, size: usize) {
    heap::mark_address(address, size);
}

extern "C" fn mark_lines(first: usize, last: usize) {
    heap::mark_lines(first, last);
}

#[cfg(target_arch = "x86_64")]
fn program_says() -> u8 {
    unsafe extern "C" {
        fn perdure_instrumented_address() -> *const u8;
    }
    // SAFETY: the function above reads one word; what it returns is null or a byte that lives for ever.
    unsafe { perdure_instrumented_address().as_ref() }.map_or(0, |says| *says)
}

#[cfg(not(target_arch = "x86_64"))]
fn program_says() -> u8 {
    0
}

/// Instrumented programs and libraries call this first. Without cards their first store would be a fault at an address that tells nobody anything.
#[unsafe(no_mangle)]
pub extern "C" fn __perdure_prepare() {
    // They keep books on all memory that is mapped: of so much, until there is none left.
    let preloaded = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    let preloaded = preloaded.as_encoded_bytes();
    let keeps_books = |tool: &[u8]| preloaded.windows(tool.len()).any(|part| part == tool);
    if keeps_books(b"/vgpreload_memcheck") || keeps_books(b"/vgpreload_helgrind") {
        refuse(
            "libperdure: valgrind's memcheck and helgrind cannot run programs that were compiled with perdure-cc; compile this one with another \
             compiler for them (and give memcheck --leak-check=no: else it reads all that is reserved for a heap, for minutes), or use \
             -fsanitize=address\n",
        );
    }
    if !heap::reserve_card_space() {
        refuse(
            "libperdure: a program that was compiled with perdure-cc needs 2 TiB of address space for its cards (address space only, no memory), \
             and there is not so much at 0x200000000000; see \"ulimit -v\", and what else is mapped there\n",
        );
    }
}

fn refuse(says: &str) -> ! {
    // SAFETY: writes bytes of a constant, and ends the process before anything of the program has run: there is nobody to return an error to.
    unsafe {
        libc::write(2, says.as_ptr().cast(), says.len());
        libc::_exit(127);
    }
}

/// mlockall(2) for programs with this library: what is in memory, and what comes there later, stays. The kernel's own would first fetch everything
/// that is mapped, and what is reserved for cards and for heaps to grow is more than any memory.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(flags: c_int) -> c_int {
    // SAFETY: locks memory, and changes no content.
    let code = unsafe { libc::syscall(libc::SYS_mlockall, flags | libc::MCL_ONFAULT) };
    code as c_int
}

#[unsafe(no_mangle)]
pub extern "C" fn perdure_mark(address: *const c_void, size: usize) {
    heap::mark_address(address as usize, size);
}

#[cfg(test)]
mod tests {
    use region::layout::{LINE_BYTES, arena};

    /// The pass was compiled with the header's numbers.
    #[test]
    fn the_pass_header_has_the_arenas_numbers() {
        let header = include_str!("../../../cpp/pass/abi.h");
        let number = |name: &str| -> u64 {
            let define = format!("#define PERDURE_{name} ");
            let line = header.lines().find_map(|line| line.strip_prefix(&define));
            let word = line.and_then(|rest| rest.split_whitespace().next());
            let word = word.unwrap_or_else(|| panic!("no {name}"));
            let digits = word.trim_end_matches("ull");
            match digits.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
                None => digits.parse().unwrap(),
            }
        };
        let [shift, bias] = match cfg!(tsan) {
            false => ["ARENA_SHIFT", "CARD_BIAS"],
            true => ["TSAN_ARENA_SHIFT", "TSAN_CARD_BIAS"],
        };
        assert_eq!(number(shift), u64::from(arena::SHIFT));
        assert_eq!(number("ARENA") << arena::SHIFT, arena::START);
        assert_eq!(1 << number("CARD_SHIFT"), LINE_BYTES);
        assert_eq!(number(bias), arena::CARD_BIAS);
    }
}
