//! Names that are no files: the standard streams and open descriptors.
//!
//! Invariant: a program reaches only the descriptors that the process was started with. Those that it opened itself, the heap
//! among them, are close-on-exec, and are not to be had by guessing numbers.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// `O_CLOEXEC`, `O_APPEND` and the bits of `O_RDONLY`, `O_WRONLY` and `O_RDWR` as `/proc` shows them.
const CLOSE_ON_EXEC: u64 = 0o2_000_000;
const APPEND: u64 = 0o2000;
const ACCESS: u64 = 0o3;

/// Whether a name means standard input.
pub fn is_stdin(name: &[u8]) -> bool {
    name == b"-" || name == b"/dev/stdin" || descriptor(name) == Some(0)
}

/// What a name means as an output.
pub(super) enum Target {
    Stdout,
    Stderr,
    Descriptor(u32),
    File,
}

pub(super) fn target(name: &[u8]) -> Target {
    match name {
        b"-" | b"/dev/stdout" => Target::Stdout,
        b"/dev/stderr" => Target::Stderr,
        _ => match descriptor(name) {
            Some(1) => Target::Stdout,
            Some(2) => Target::Stderr,
            Some(number) => Target::Descriptor(number),
            None => Target::File,
        },
    }
}

/// The number of `/dev/fd/NUMBER`.
pub(super) fn descriptor(name: &[u8]) -> Option<u32> {
    let digits = name.strip_prefix(b"/dev/fd/")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A duplicate of a descriptor that the process was started with.
///
/// # Errors
/// There is no such descriptor.
pub(super) fn inherited(number: u32) -> io::Result<File> {
    let missing = || io::Error::from(rustix::io::Errno::NOENT);
    let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name))?;
        Some(line.trim())
    };
    let flags = field("flags:").and_then(|text| u64::from_str_radix(text, 8).ok());
    let flags = flags.ok_or_else(missing)?;
    if flags & CLOSE_ON_EXEC != 0 {
        return Err(missing());
    }
    let duplicate = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|own| pidfd_getfd(own, number as i32, PidfdGetfdFlags::empty()));
    if let Ok(duplicate) = duplicate {
        return Ok(File::from(duplicate));
    }
    // Before Linux 5.6, or where a sandbox forbids it: opened once more, at the same position.
    let position = field("pos:").and_then(|text| text.parse().ok());
    let mut file = OpenOptions::new()
        .read(flags & ACCESS != 1)
        .write(flags & ACCESS != 0)
        .custom_flags((flags & APPEND) as i32)
        .open(format!("/proc/self/fd/{number}"))?;
    if let (Ok(true), Some(position)) = (file.metadata().map(|meta| meta.is_file()), position) {
        file.seek(SeekFrom::Start(position))?;
    }
    Ok(file)
}
