//! Errors as codes, and the last one of each thread in words.
//!
//! The invariant: the numbers are those of `enum perdure_error` in `include/perdure.h`, for good.

use heap::{Error, ErrorKind};
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// `enum perdure_error`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Code {
    Ok = 0,
    Invalid = 1,
    Io = 2,
    Absent = 3,
    Format = 4,
    Damaged = 5,
    Journal = 6,
    Locked = 7,
    Full = 8,
    Untrusted = 9,
    Poisoned = 10,
    ReadOnly = 11,
    Address = 12,
    Race = 13,
    TooMany = 14,
    Unsupported = 15,
    Internal = 16,
}

const TEXTS: [&CStr; 17] = [
    c"no error",
    c"an argument that cannot be",
    c"the operating system refused",
    c"there is no such heap",
    c"not a heap, or of another version",
    c"the heap is damaged",
    c"the heap's journal is missing or another heap's",
    c"another process writes the heap",
    c"the heap is full",
    c"others could have written the file",
    c"a flush failed; close the heap and open it again",
    c"open for reading only",
    c"something else lies where the heap must",
    c"a thread stored while a commit was taken; nothing was committed",
    c"too many heaps are open",
    c"not supported here",
    c"a bug of libperdure",
];

/// What went wrong on this side of the heap.
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure {
            code: Code::Invalid,
            message: message.into(),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        use ErrorKind as K;
        let code = match error.kind() {
            K::Io { source, .. } | K::Creation { source, .. } => match source.raw_os_error() {
                Some(libc::ENOSPC | libc::EDQUOT) => Code::Full,
                _ => Code::Io,
            },
            K::Absent { .. } => Code::Absent,
            K::NotAHeap { .. } | K::Version { .. } => Code::Format,
            K::Damaged { .. } => Code::Damaged,
            K::HeapMissing { .. }
            | K::JournalMissing { .. }
            | K::JournalForeign { .. }
            | K::JournalCut { .. } => Code::Journal,
            K::Locked { .. } => Code::Locked,
            K::Full { .. } | K::MemoryFull { .. } => Code::Full,
            K::Untrusted { .. } => Code::Untrusted,
            K::Poisoned { .. } => Code::Poisoned,
            K::NotAWriter { .. } => Code::ReadOnly,
            K::AddressTaken { .. } | K::NoAddressSpace { .. } => Code::Address,
            K::StoredMeanwhile { .. } => Code::Race,
            K::TooManyRegions => Code::TooMany,
            K::NoPageTracking { .. } => Code::Unsupported,
            _ => Code::Internal,
        };
        Failure {
            code,
            message: in_c(&error.to_string()),
        }
    }
}

/// What is called otherwise by programs that are used on a command line; and who stores by address still has what it stored.
const IN_C: [(&str, &str); 5] = [
    ("--lock-timeout=SECONDS", "lock_wait_ms"),
    ("with --snapshot", "with PERDURE_SNAPSHOT"),
    ("(--snapshot)", "(PERDURE_SNAPSHOT)"),
    ("(--trust)", "(PERDURE_TRUST)"),
    (
        "; the heap is as of its last commit: make room and run again",
        "; the heap's file is as of its last commit: make room and try again",
    ),
];

fn in_c(message: &str) -> String {
    let replaced = |text: String, &(there, here): &(&str, &str)| text.replace(there, here);
    IN_C.iter().fold(message.to_string(), replaced)
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Remembers it as the thread's last, and gives its code.
pub(crate) fn note(failure: Failure) -> Code {
    let bytes: Vec<u8> = failure.message.into_bytes();
    let text = bytes.into_iter().filter(|&b| b != 0).collect::<Vec<u8>>();
    // A thread that is ending has no place for it any more.
    let _ = LAST.try_with(|last| *last.borrow_mut() = CString::new(text).unwrap_or_default());
    failure.code
}

pub(crate) fn set_errno(errno: c_int) {
    // SAFETY: the thread's own errno, which is always there.
    unsafe { *libc::__errno_location() = errno };
}

/// Runs what a C function does. A panic is a bug of ours and must not unwind into C.
pub(crate) fn guarded<T>(body: impl FnOnce() -> Outcome<T>) -> Result<T, Code> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(failure)) => Err(note(failure)),
        Err(_) => Err(note(Failure {
            code: Code::Internal,
            message: "a bug of libperdure; please report it with what the program printed".into(),
        })),
    }
}

/// As a function that returns a code.
pub(crate) fn code(body: impl FnOnce() -> Outcome<()>) -> c_int {
    match guarded(body) {
        Ok(()) => Code::Ok as c_int,
        Err(code) => code as c_int,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn perdure_strerror(code: c_int) -> *const c_char {
    let known = usize::try_from(code).ok().and_then(|code| TEXTS.get(code));
    known.copied().unwrap_or(c"an unknown error").as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn perdure_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr())
        .unwrap_or(c"".as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header is what programs were compiled against.
    #[test]
    fn the_headers_numbers_are_the_codes() {
        let header = include_str!("../include/perdure.h");
        let mut found = Vec::new();
        for line in header.lines() {
            let Some((name, rest)) = line.trim().split_once(" = ") else {
                continue;
            };
            if name == "PERDURE_OK" || name.starts_with("PERDURE_E") {
                let number = rest.split([',', ' ']).next().and_then(|n| n.parse().ok());
                found.push((name, number));
            }
        }
        let codes = [
            ("PERDURE_OK", Code::Ok),
            ("PERDURE_EINVAL", Code::Invalid),
            ("PERDURE_EIO", Code::Io),
            ("PERDURE_EABSENT", Code::Absent),
            ("PERDURE_EFORMAT", Code::Format),
            ("PERDURE_EDAMAGED", Code::Damaged),
            ("PERDURE_EJOURNAL", Code::Journal),
            ("PERDURE_ELOCKED", Code::Locked),
            ("PERDURE_EFULL", Code::Full),
            ("PERDURE_EUNTRUSTED", Code::Untrusted),
            ("PERDURE_EPOISONED", Code::Poisoned),
            ("PERDURE_EREADONLY", Code::ReadOnly),
            ("PERDURE_EADDRESS", Code::Address),
            ("PERDURE_ERACE", Code::Race),
            ("PERDURE_ETOOMANY", Code::TooMany),
            ("PERDURE_EUNSUPPORTED", Code::Unsupported),
            ("PERDURE_EINTERNAL", Code::Internal),
        ];
        assert_eq!(found, codes.map(|(name, code)| (name, Some(code as i32))));
        assert_eq!(TEXTS.len(), codes.len());
    }

    /// Each is said by the heap's errors as it is replaced here, and no option of a program is left.
    #[test]
    fn messages_name_what_c_programs_have() {
        let source = include_str!("../../region/src/error.rs");
        for (there, here) in IN_C {
            assert!(source.contains(there), "{there:?} is said no more");
            assert_eq!(in_c(there), here);
        }
        for line in in_c(source).lines().filter(|line| line.contains(" --")) {
            assert!(line.contains("perdure check --"), "{line}");
        }
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(code(|| panic!("on purpose")), Code::Internal as c_int);
        let message = LAST.with(|last| last.borrow().clone());
        assert!(message.to_str().unwrap().contains("bug"));
    }
}
