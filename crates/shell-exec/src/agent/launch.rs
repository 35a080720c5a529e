//! The last step before a command: a process of our own program takes on what the command must inherit and becomes it.
//!
//! The invariant: nothing is done between the last of these settings and the command's first instruction, and when one of them cannot be
//! made the command does not run.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr,
};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::signal::SigSet;
use nix::sys::stat::{Mode, umask};
use serde::{Deserialize, Serialize};

use crate::program;
use crate::wire::{Access, Limits};

/// The word by which our own program knows that it is to launch a command.
pub const WORD: &str = "@launch";

/// What to take on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Launch {
    /// The command's file.
    pub program: Vec<u8>,
    /// Mask, limits, and signals that are ignored.
    pub limits: Limits,
    /// What it may touch; none: anything.
    pub access: Option<Vec<Access>>,
    /// It must not run without bounds.
    pub is_restricted: bool,
}

impl Launch {
    /// As a word of a command line.
    pub fn to_word(&self) -> OsString {
        let bytes = postcard::to_stdvec(self).unwrap_or_default();
        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
        digits.collect::<String>().into()
    }

    fn of_word(word: &OsStr) -> Option<Launch> {
        let digits = word.as_bytes();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        postcard::from_bytes(&bytes?).ok()
    }
}

/// Our own program, about to become a command whose words are its further arguments; through a shell where signals are to be ignored, which that can do
/// and Rust cannot.
///
/// # Errors
/// It is not known where our program lies.
pub fn command(launch: &Launch) -> io::Result<Command> {
    let me = std::env::current_exe()?;
    let ignored = launch.limits.ignored.iter();
    let ignored: Vec<String> = ignored.map(ToString::to_string).collect();
    let mut command = if ignored.is_empty() {
        Command::new(&me)
    } else {
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(format!("trap '' {}; exec \"$@\"", ignored.join(" ")))
            .arg("sh")
            .arg(&me);
        shell
    };
    command.arg(WORD).arg(launch.to_word());
    Ok(command)
}

/// Becomes the command whose words follow the launch itself. Comes back with what went wrong, for people.
pub fn run(words: &[OsString]) -> String {
    let Some((launch, words)) = words
        .split_first()
        .and_then(|(first, rest)| Some((Launch::of_word(first)?, rest)))
    else {
        return "no launch".into();
    };
    // The agent holds some back, and children inherit that.
    if let Err(error) = SigSet::empty().thread_set_mask() {
        return format!("signals cannot be let through: {}", error.desc());
    }
    // Bounds first: they need more descriptors than the command may be allowed.
    if let Some(access) = &launch.access
        && let Err(why) = confine(access, launch.is_restricted)
    {
        return why;
    }
    let own = umask(Mode::from_bits_truncate(launch.limits.umask));
    if launch.limits.adds_umask {
        umask(own | Mode::from_bits_truncate(launch.limits.umask));
    }
    for &(number, soft) in &launch.limits.soft {
        if let Err(why) = lower(number, soft) {
            return why;
        }
    }
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let file = PathBuf::from(OsStr::from_bytes(&launch.program));
    let Err(error) = program::execute(&file, words, &environment);
    format!("{}: {}", file.display(), error.desc())
}

/// The resources of which a shell's `ulimit` may have lowered the limit, by Linux' numbers.
pub const RESOURCES: [(u32, Resource); 7] = [
    (0, Resource::RLIMIT_CPU),
    (1, Resource::RLIMIT_FSIZE),
    (2, Resource::RLIMIT_DATA),
    (3, Resource::RLIMIT_STACK),
    (4, Resource::RLIMIT_CORE),
    (7, Resource::RLIMIT_NOFILE),
    (9, Resource::RLIMIT_AS),
];

fn lower(number: u32, soft: u64) -> Result<(), String> {
    let Some(&(_, resource)) = RESOURCES.iter().find(|(known, _)| *known == number) else {
        return Err(format!("an unknown limit: {number}"));
    };
    let told = |error: nix::errno::Errno| format!("a limit cannot be set: {}", error.desc());
    let (_, hard) = getrlimit(resource).map_err(told)?;
    setrlimit(resource, soft.min(hard), hard).map_err(told)
}

/// Folders without which no program runs; they may be read.
pub(crate) const SYSTEM: [&str; 12] = [
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys",
    "/run",
];

/// Devices that any program may write.
const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/shm",
];

/// Whether the kernel knows such bounds.
pub fn has_bounds() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(|ruleset| ruleset.create());
    ruleset.is_ok()
}

/// Bounds what this process may touch (landlock(7)). A kernel that has no such bounds runs it without: the annotation's word counts
/// then, as it does on the near side.
fn confine(access: &[Access], is_restricted: bool) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| format!("its bounds cannot be set: {error}");
    let abi = ABI::V3;
    let ruleset = Ruleset::default()
        .set_compatibility(if is_restricted {
            CompatLevel::HardRequirement
        } else {
            CompatLevel::BestEffort
        })
        .handle_access(AccessFs::from_all(abi))
        .and_then(|ruleset| ruleset.create())
        .map_err(|error| told(&error))?;
    let mut rules = Vec::new();
    let mut add = |path: &Path, write: bool| -> Result<(), String> {
        let opened = match PathFd::new(path) {
            Ok(opened) => opened,
            // What is not there cannot be touched.
            Err(_) if path.symlink_metadata().is_err() => return Ok(()),
            Err(error) => return Err(told(&error)),
        };
        let mut rights = if write {
            AccessFs::from_all(abi)
        } else {
            AccessFs::from_read(abi)
        };
        if !path.is_dir() {
            rights &= AccessFs::from_file(abi);
        }
        rules.push(PathBeneath::new(opened, rights));
        Ok(())
    };
    for folder in SYSTEM {
        add(Path::new(folder), false)?;
    }
    for device in DEVICES {
        add(Path::new(device), true)?;
    }
    for Access { path, write } in access {
        add(Path::new(OsStr::from_bytes(path)), *write)?;
    }
    ruleset
        .add_rules(rules.into_iter().map(Ok::<_, landlock::RulesetError>))
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(|error| told(&error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launch_survives_a_command_line() {
        let launch = Launch {
            program: b"/bin/\xff".to_vec(),
            limits: Limits {
                umask: 0o27,
                adds_umask: true,
                soft: vec![(1, 512)],
                ignored: vec![13],
            },
            access: Some(vec![Access {
                path: b"/a b".to_vec(),
                write: true,
            }]),
            is_restricted: true,
        };
        assert_eq!(Launch::of_word(&launch.to_word()), Some(launch));
        assert_eq!(Launch::of_word("0".as_ref()), None);
        assert_eq!(Launch::of_word("zz".as_ref()), None);
    }
}
