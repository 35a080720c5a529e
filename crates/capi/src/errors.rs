//! Errors as codes, and the last one of each thread in words.
//!
//! The invariant: the numbers are those of `enum perdure_error` in `include/perdure.h`, for good.

use heap::{Error, ErrorKind};
use region::layout::RESERVE_BYTES_MAX;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

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
    c"another process, or another handle of this one, writes it",
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

fn code_of(error: &Error) -> Code {
    use ErrorKind as K;
    match error.kind() {
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
        K::NoPageTracking { source } => match source.raw_os_error() {
            Some(libc::EMFILE) => Code::Io,
            _ => Code::Unsupported,
        },
        _ => Code::Internal,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            code: code_of(&error),
            message: in_c(&error.to_string()),
        }
    }
}

/// An error of a program's own file, at `path`, which is no heap.
pub(crate) fn of_file(error: &Error, path: &Path) -> Failure {
    let name = path.display();
    let message = match error.kind() {
        ErrorKind::Locked { waited_ms, .. } => format!(
            "file \"{name}\": another process has it open, and one at a time can; waited {:.1} s for it",
            *waited_ms as f64 / 1000.0
        ),
        ErrorKind::JournalForeign { journal, .. } => format!(
            "file \"{name}\": \"{name}.perdure\" and \"{journal}\" have syncs of another file of this name, which may be half-way between two \
             without them; put that file back beside them, or, to do without it and them, remove the two"
        ),
        ErrorKind::JournalCut { journal, bytes, .. } => format!(
            "file \"{name}\": \"{journal}\" was cut to {bytes} bytes, and the last syncs may have been behind them; put the whole one back, or, to have \
             the file as it is, which may be half-way between two syncs, remove \"{name}.perdure\" and \"{journal}\""
        ),
        ErrorKind::AddressTaken {
            wanted_bytes,
            source,
            ..
        }
        | ErrorKind::NoAddressSpace {
            wanted_bytes,
            source,
        } => format!(
            "file \"{name}\": cannot have {wanted_bytes} bytes of address space for it: {source}; is there a limit (ulimit -v), or is this \
             ThreadSanitizer, which leaves no room for such files?"
        ),
        _ => in_file(&in_c(&error.to_string()), path),
    };
    Failure {
        code: code_of(error),
        message,
    }
}

/// What is called otherwise by programs that are used on a command line; and who stores by address still has what it stored.
const IN_C: [(&str, &str); 8] = [
    ("--lock-timeout=SECONDS", "lock_wait_ms"),
    ("with --snapshot", "with PERDURE_SNAPSHOT"),
    ("(--snapshot)", "(PERDURE_SNAPSHOT)"),
    ("(--trust)", "(PERDURE_TRUST)"),
    (
        "; the heap is as of its last commit: make room and run again",
        "; the heap's file is as of its last commit: make room and try again",
    ),
    (
        "the heap is as of its last commit: delete from it, or start a larger one",
        STILL_THERE,
    ),
    (
        "is there a limit (ulimit -v)?",
        "is there a limit (ulimit -v), or is this ThreadSanitizer, which keeps the places of heaps for itself (PERDURE_ANYWHERE)?",
    ),
    (
        "is it open in this process already, or another heap with the same home?",
        "is it open in this process already, or another heap with the same home, or is this ThreadSanitizer, which keeps all homes for itself? \
         PERDURE_ANYWHERE maps a heap where there is room",
    ),
];

/// And what is otherwise of files: after [`IN_C`].
const OF_FILES: [(&str, &str); 5] = [
    (
        "to read it without the right to write, open it as a snapshot (PERDURE_SNAPSHOT)",
        "who syncs it needs the right to write it, and to make files beside it",
    ),
    (
        "the heap's file is as of its last commit: make room and try again",
        "the file is as of its last sync: make room and try again",
    ),
    (
        "open the heap again: it will",
        "close the file and open it again: it will",
    ),
    (
        "be at its last commit that reached the medium",
        "be as of its last sync that reached the medium",
    ),
    (
        "it is open as a snapshot, whose changes are private",
        "it was opened before a fork, and this is the child, whose stores are its own",
    ),
];

fn in_file(message: &str, path: &Path) -> String {
    let replaced = |text: String, &(there, here): &(&str, &str)| text.replace(there, here);
    let text = OF_FILES.iter().fold(message.to_string(), replaced);
    let name = path.display();
    let named = format!("file \"{name}\"");
    // What lies beside it is what the region is called.
    text.replace(&format!("heap \"{name}.perdure\""), &named)
        .replace(&format!("heap \"{name}\""), &named)
}

/// Whose end a process would wait for is its own.
pub(crate) fn open_already(kind: &str, path: &Path) -> Failure {
    Failure {
        code: Code::Locked,
        message: format!(
            "{kind} \"{}\": this process has it open already; use the handle that it has, or close it first",
            path.display()
        ),
    }
}

/// A program that ends has what the file has; one that goes on has what it stored.
const STILL_THERE: &str = "what was stored since the last commit is still there: free something and go on, or go back with perdure_abort";

/// No room in a heap. What it says itself is about a run that ends here, and of its limit it knows how much address space there is.
pub(crate) fn no_room(path: &Path, limit_bytes: u64, wanted_bytes: u64) -> Failure {
    let path = path.display();
    let bound = match limit_bytes {
        0 => format!("; a heap can have at most {RESERVE_BYTES_MAX} bytes"),
        limit => format!(" below its limit of {limit} bytes"),
    };
    Failure {
        code: Code::Full,
        message: format!(
            "heap \"{path}\": full: {wanted_bytes} more bytes do not fit{bound}; {STILL_THERE}"
        ),
    }
}

fn in_c(message: &str) -> String {
    let replaced = |text: String, &(there, here): &(&str, &str)| text.replace(there, here);
    IN_C.iter().fold(message.to_string(), replaced)
}

/// Room for a message: what is longer loses its middle. It comes out of every thread's stack, so it is not the largest path there can be.
const MESSAGE_BYTES: usize = 2048;
/// Stands for what is left out.
const LEFT_OUT: &str = " ... ";

/// A text of C's: up to the first zero.
type Message = [u8; MESSAGE_BYTES];

const _: () = assert!(!std::mem::needs_drop::<Cell<Message>>());

thread_local! {
    /// Always at one address while the thread lives, and nothing that has to be dropped: programs ask for it in handlers of exit and in destructors
    /// of threads' data, when what has a destructor is gone; and they may have asked before the error came, as arguments of one call.
    static LAST: Cell<Message> = const { Cell::new([0; MESSAGE_BYTES]) };
    static LAST_CODE: Cell<Code> = const { Cell::new(Code::Ok) };
}

fn as_message(text: &str) -> Message {
    let text = text.replace('\0', "");
    let room = MESSAGE_BYTES - 1;
    let text = match text.len() <= room {
        true => text,
        false => {
            // The end says what to do next.
            let part = (room - LEFT_OUT.len()) / 2;
            let is_boundary = |at: &usize| text.is_char_boundary(*at);
            let head = (0..=part).rev().find(is_boundary);
            let tail = (text.len() - part..text.len()).find(is_boundary);
            let head = head.map_or("", |end| &text[..end]);
            let tail = tail.map_or("", |start| &text[start..]);
            [head, LEFT_OUT, tail].concat()
        }
    };
    let mut message = [0; MESSAGE_BYTES];
    message[..text.len()].copy_from_slice(text.as_bytes());
    message
}

/// Remembers it as the thread's last, and gives its code.
pub(crate) fn note(failure: Failure) -> Code {
    LAST.set(as_message(&failure.message));
    LAST_CODE.set(failure.code);
    failure.code
}

/// Of what was noted last.
pub(crate) fn last_code() -> Code {
    LAST_CODE.get()
}

/// What was noted last.
pub(crate) fn last_message() -> String {
    let bytes = LAST.get();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
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
    LAST.with(|last| last.as_ptr().cast())
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
        let source = in_c(source);
        for (there, _) in OF_FILES {
            assert!(source.contains(there), "{there:?} is said no more");
        }
        for line in source.lines().filter(|line| line.contains(" --")) {
            assert!(line.contains("perdure check --"), "{line}");
        }
    }

    #[test]
    fn a_panic_becomes_an_error() {
        assert_eq!(code(|| panic!("on purpose")), Code::Internal as c_int);
        assert!(last_message().contains("bug"));
    }

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        for (unit, bytes) in [("x", 1), ("\u{e4}", 2), ("\u{20ac}", 3), ("\u{1f600}", 4)] {
            for units in MESSAGE_BYTES / bytes - 20..MESSAGE_BYTES / bytes + 20 {
                let text = format!("begin{}end", unit.repeat(units));
                note(Failure::invalid(text.clone()));
                let noted = last_message();
                if text.len() < MESSAGE_BYTES {
                    assert_eq!(noted, text);
                    continue;
                }
                let (head, tail) = noted.split_once(LEFT_OUT).expect("it is too long");
                assert!(text.starts_with(head) && head.len() > 1000, "{head}");
                assert!(text.ends_with(tail) && tail.len() > 1000, "{tail}");
                assert!(noted.len() < MESSAGE_BYTES);
            }
        }
        note(Failure::invalid("one\0two"));
        assert_eq!(last_message(), "onetwo");
    }
}
