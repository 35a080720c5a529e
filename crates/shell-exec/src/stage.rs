//! One stage of a script: the helper that stands before its command.
//!
//! The invariant: a stage that is not run elsewhere becomes its command, and a command that cannot be run is reported as the
//! shell would have done, which meant to run it itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::program::{self, Found};

/// Where a stage is in its script, as the tag behind the helper says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tag {
    /// The line of the command, from 1.
    pub line: usize,
    /// Which pipeline of the script it is in.
    pub pipeline: usize,
    /// Which stage of it, from 0.
    pub stage: usize,
    /// Which of its stages have helpers.
    pub helpers: Vec<bool>,
}

impl Tag {
    /// Reads `@LINE:PIPELINE:STAGE:HELPERS`.
    pub fn read(word: &OsStr) -> Option<Tag> {
        let text = word.to_str()?.strip_prefix('@')?;
        let mut parts = text.split(':');
        let mut number = || parts.next()?.parse().ok();
        let (line, pipeline, stage) = (number()?, number()?, number()?);
        let helpers = parts.next()?;
        let is_right = |c: char| c == '0' || c == '1';
        if parts.next().is_some() || !helpers.chars().all(is_right) || stage >= helpers.len() {
            return None;
        }
        Some(Tag {
            line,
            pipeline,
            stage,
            helpers: helpers.chars().map(|c| c == '1').collect(),
        })
    }
}

/// Why a command could not be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What the shell would have said.
    pub message: Vec<u8>,
    /// The exit status that it would have given (POSIX 2.8.2): 127 if there is nothing of the name, 126 if it cannot be run.
    pub status: u8,
}

/// Becomes the command: does not return unless that fails.
pub fn run(tag: &Tag, words: &[OsString]) -> Failure {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let Some(path) = path.map(|(_, value)| value.clone()) else {
        // A shell without PATH tries the name itself.
        let mut what = words
            .first()
            .map_or(Vec::new(), |name| name.as_bytes().to_vec());
        what.extend_from_slice(b": No such file or directory");
        return Failure {
            message: message(tag, &what),
            status: 127,
        };
    };
    let says = |what: &[u8], status: u8| Failure {
        message: message(tag, what),
        status,
    };
    let Some(name) = words.first() else {
        return says(b"no command", 127);
    };
    let found = match program::find(name, &path, &|_| false) {
        Found::Program(found) | Found::NoProgram(found) => found,
        Found::Nothing => {
            let mut what = name.as_bytes().to_vec();
            what.extend_from_slice(if is_bash() {
                b": command not found"
            } else {
                b": not found"
            });
            return says(&what, 127);
        }
    };
    // bash tells a command by which path it was run; it has told us that of the helper.
    let me = std::env::current_exe().unwrap_or_default();
    for (name, value) in &mut environment {
        if name == "_" && *value == *me.as_os_str() {
            value.clone_from(&found.as_os_str().to_owned());
        }
    }
    let Err(mut error) = program::execute(&found, words, &environment);
    if error == Errno::ENOEXEC {
        // A script without "#!": the shell would have run it itself (POSIX, Command Search and Execution).
        let shell = shell();
        let mut again = vec![shell.as_os_str().to_owned(), found.as_os_str().to_owned()];
        again.extend_from_slice(&words[1..]);
        Err(error) = program::execute(&shell, &again, &environment);
    }
    let mut what = found.as_os_str().as_bytes().to_vec();
    what.extend_from_slice(b": ");
    what.extend_from_slice(error.desc().as_bytes());
    says(&what, if error == Errno::ENOENT { 127 } else { 126 })
}

/// What a shell puts before a message: `NAME: line 12: ` if it is bash, `NAME: 12: ` if another one.
fn message(tag: &Tag, what: &[u8]) -> Vec<u8> {
    let mut message = script_name();
    let word = if is_bash() { "line " } else { "" };
    message.extend_from_slice(format!(": {word}{}: ", tag.line).as_bytes());
    message.extend_from_slice(what);
    message.push(b'\n');
    message
}

/// The program of the shell that started this stage.
fn shell() -> PathBuf {
    let link = format!("/proc/{}/exe", nix::unistd::getppid());
    std::fs::read_link(link).unwrap_or_else(|_| PathBuf::from("/bin/sh"))
}

fn is_bash() -> bool {
    shell().file_name() == Some(OsStr::new("bash"))
}

/// What the shell calls its script: the word behind the text that it was given, or else itself.
fn script_name() -> Vec<u8> {
    let line = std::fs::read(format!("/proc/{}/cmdline", nix::unistd::getppid()));
    let line = line.unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|&byte| byte == 0).collect();
    let text = words.iter().position(|word| *word == b"-c");
    let name = text
        .and_then(|at| words.get(at + 2))
        .filter(|name| !name.is_empty());
    name.or(words.first())
        .map_or_else(Vec::new, |name| name.to_vec())
}

/// A path that a shell takes as one word, whatever characters it has.
pub fn is_plain(path: &Path) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/_-+.,@%:".contains(byte);
    let bytes = path.as_os_str().to_owned().into_vec();
    !bytes.is_empty() && bytes.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_nothing_else_is() {
        let tag = Tag::read("@12:3:1:110".as_ref()).unwrap();
        assert_eq!((tag.line, tag.pipeline, tag.stage), (12, 3, 1));
        assert_eq!(tag.helpers, [true, true, false]);
        for wrong in [
            "@",
            "@1:2:3",
            "@1:2:3:",
            "@1:2:1:1",
            "@1:2:0:2",
            "@1:2:0:1:",
            "12:3:0:1",
            "@x:1:0:1",
        ] {
            assert_eq!(Tag::read(wrong.as_ref()), None, "{wrong}");
        }
    }
}
