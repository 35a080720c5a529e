//! One stage of a script: the helper that stands before its command.
//!
//! The invariant: a stage that is not run elsewhere becomes its command, and a command that cannot be run is reported as the
//! shell would have done, which meant to run it itself.

mod inside;
mod join;
pub(crate) mod place;
mod progress;
mod refresh;
mod remote;

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use crate::agent::launch::{self, Launch};
use crate::mounts::{self, Mount};
use crate::program::{self, Found};
use crate::wire::{Ending, Frame, Limits, StageCall, Stdio, ToBroker};
use crate::{agent, broker, clock, shims};
use place::{Stage, views};
use remote::Outcome;

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
    /// The process that began the script: what was asked of it holds for all its stages.
    pub session: u32,
}

impl Tag {
    /// Reads `@LINE:PIPELINE:STAGE:HELPERS:SESSION`.
    pub fn read(word: &OsStr) -> Option<Tag> {
        let text = word.to_str()?.strip_prefix('@')?;
        let mut parts = text.split(':');
        let mut number = || parts.next()?.parse().ok();
        let (line, pipeline, stage) = (number()?, number()?, number()?);
        let helpers = parts.next()?;
        let session = parts.next()?.parse().ok()?;
        let is_right = |c: char| c == '0' || c == '1';
        if parts.next().is_some() || !helpers.chars().all(is_right) || stage >= helpers.len() {
            return None;
        }
        Some(Tag {
            line,
            pipeline,
            stage,
            helpers: helpers.chars().map(|c| c == '1').collect(),
            session,
        })
    }
}

/// The environment variable that has stages say where they run, if it is `list`.
pub const DEBUG: &str = "NEARSH_DEBUG";

/// The environment variable that has no stage draw a line about how far it has come, if it is not empty.
pub const QUIET: &str = "NEARSH_QUIET";

/// Why a command could not be run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What the shell would have said.
    pub message: Vec<u8>,
    /// The exit status that it would have given (POSIX 2.8.2): 127 if there is nothing of the name, 126 if it cannot be run.
    pub status: u8,
}

/// Becomes the command, or stands for it while it runs elsewhere: does not return unless that fails, or is done.
/// `tag`: where in an edited script it is; none: it was called by a shim.
pub fn run(tag: Option<&Tag>, words: &[OsString]) -> Failure {
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
    let found = match program::find(name, &path, &shims::is_ours) {
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
    if let Some(done) = elsewhere(tag, words, &environment, &found) {
        return done;
    }
    // bash tells a command by which path it was run; it has told us that of the helper, or the shim.
    for (name, value) in &mut environment {
        if name == "_" && shims::is_ours(Path::new(value)) {
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

/// Tells the broker that this process is about to become the shell that runs a script, so that connections are open when its first
/// stage needs one. Without a broker all runs here.
pub fn begin_session(always: bool, mounts: &[Mount]) {
    let mut names: Vec<&String> = mounts.iter().map(|mount| &mount.host).collect();
    names.sort();
    names.dedup();
    let hosts: Vec<_> = (names.into_iter())
        .filter_map(|host| Some((host.clone(), views(mounts, host)?)))
        .filter(|(_, views)| !views.is_empty())
        .collect();
    if hosts.is_empty() {
        return;
    }
    if let Ok(mut broker) = broker::begin() {
        let session = ToBroker::Session {
            session: std::process::id(),
            always,
            hosts,
        };
        let _ = Frame::of(&session).write(&mut broker);
        // The first stage may be there before a broker that has just begun has read this; tests want to know where it runs.
        if always && Frame::of(&ToBroker::Records).write(&mut broker).is_ok() {
            let _ = Frame::read(&mut broker);
        }
    }
}

/// Has the stage run elsewhere, if it can and that is worth it; none: it is to run here.
fn elsewhere(
    tag: Option<&Tag>,
    words: &[OsString],
    environment: &[(OsString, OsString)],
    program: &Path,
) -> Option<Failure> {
    let began = clock::micros();
    let mounts = mounts::of_this_process();
    if mounts.is_empty() {
        return None;
    }
    let folder = std::env::current_dir().ok()?;
    let stage = Stage {
        words,
        environment,
        folder: &folder,
        mounts: &mounts,
        waited: Cell::default(),
    };
    let stdio = stage.stdio();
    let is_plain = stdio.iter().all(Option::is_some) && stage.has_usual_errors();
    // A neighbour waits at the other one all the same, if that is a pipe.
    let stdio = stdio.map(|stdio| stdio.unwrap_or(Stdio::Here));
    // A shim does not know its pipeline; any pipe may lead to another one.
    let has_neighbour = |step: isize, stdio: &Stdio| {
        let has = tag.is_none_or(|tag| {
            let neighbour = tag.stage.checked_add_signed(step);
            neighbour.and_then(|stage| tag.helpers.get(stage)) == Some(&true)
        });
        has && matches!(stdio, Stdio::Pipe(_))
    };
    let follows = has_neighbour(-1, &stdio[0]);
    let reads_there = matches!(stdio[0], Stdio::There { .. });
    // Most stages have nothing to do with any mount: for them nothing is read and asked.
    let place = if !(follows || reads_there || stage.may_name_files_there()) {
        Err("it has nothing to do with another machine".into())
    } else if is_plain {
        stage.place(&stdio)
    } else {
        Err("one of its descriptors 0, 1 and 2 is closed, or a device".into())
    };
    let list = |what: &str| {
        let wanted = environment
            .iter()
            .any(|(name, value)| name == DEBUG && value == "list");
        if wanted {
            let line = tag.map_or(String::new(), |tag| format!("line {}: ", tag.line));
            let text = format!("nearsh: {line}{}: {what}\n", words[0].display());
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
        }
    };
    let begins = place.as_ref().is_ok_and(|place| {
        !place.touched.is_empty() || place.reads_stdin && matches!(stdio[0], Stdio::There { .. })
    });
    if place.is_err() || !(begins || follows) {
        list(&match &place {
            Ok(_) => "here: it begins a pipeline, and its input is here".to_owned(),
            Err(why) => format!("here: {why}"),
        });
        // Those that come behind need not wait for this one.
        if (follows || has_neighbour(1, &stdio[1]))
            && let Some(mut broker) = broker::connect()
        {
            let _ = Frame::of(&ToBroker::Here { stdio }).write(&mut broker);
        }
        return None;
    }
    let broker = broker::begin().ok()?;
    let hosts = place.as_ref().map_or(&[][..], |place| &place.hosts);
    let adds_umask = hosts.iter().any(|(host, _)| stage.adds_umask(host));
    let changed = stage.changed(place.as_ref().ok(), &stdio[1]);
    let bytes = |text: &OsStr| text.as_bytes().to_vec();
    let is_merged = place::is_merged();
    let call = StageCall {
        shell: nix::unistd::getppid().as_raw(),
        began: began + stage.waited.get(),
        session: tag.map_or(0, |tag| tag.session),
        pipeline: tag.map_or(0, |tag| tag.pipeline as u64),
        stage: tag.map_or(0, |tag| tag.stage as u32),
        helpers: tag.map_or(Vec::new(), |tag| tag.helpers.clone()),
        words: stage.far_words(zone().as_deref()),
        environment: far_environment(environment),
        folder: bytes(folder.as_os_str()),
        limits: limits(adds_umask),
        stdio,
        is_merged,
        changes: changed.paths(),
        program: bytes(program.as_os_str()),
        place,
    };
    let ending = match remote::run(broker, call, &list, changed) {
        Outcome::Here(why) => {
            list(&format!("here: {why}"));
            return None;
        }
        Outcome::Back => {
            list("here after all");
            return None;
        }
        Outcome::Ended(ending) => ending,
        Outcome::Again(written, held_back) => {
            let launch = Launch {
                program: bytes(program.as_os_str()),
                limits: limits(false),
                access: None,
                is_restricted: false,
            };
            let ran = launch::command(&launch).and_then(|mut command| {
                command.args(words).env_clear();
                command.envs(environment.iter().map(|(name, value)| (name, value)));
                remote::again(command, written, is_merged, &held_back)
            });
            match ran {
                Ok(ending) => ending,
                Err(error) => {
                    return Some(Failure {
                        message: format!("nearsh: {}: {error}\n", program.display()).into_bytes(),
                        status: 255,
                    });
                }
            }
        }
        Outcome::Lost(why) => {
            let name = words[0].display();
            return Some(Failure {
                message: format!("nearsh: {why}; {name} may have done its work or a part of it, and was not run again\n")
                    .into_bytes(),
                status: 255,
            });
        }
    };
    remote::end_as(ending);
    Some(Failure {
        message: Vec::new(),
        status: match ending {
            Ending::Status(status) => status,
            Ending::Signal(number) => (128 + number) as u8,
        },
    })
}

/// The environment that the command is to have on another machine: this one, but for what means another place there.
fn far_environment(environment: &[(OsString, OsString)]) -> Vec<Vec<u8>> {
    let mut pairs: Vec<Vec<u8>> = (environment.iter())
        // Where temporary files and libraries lie is that machine's affair.
        .filter(|(name, _)| name != "TMPDIR" && !name.as_bytes().starts_with(b"LD_"))
        .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
        .collect();
    let has_zone = environment.iter().any(|(name, _)| name == "TZ");
    let zone = zone().filter(|_| !has_zone);
    pairs.extend(zone.map(|name| format!("TZ={name}").into_bytes()));
    pairs
}

/// The time zone of this machine.
fn zone() -> Option<String> {
    let path = std::fs::read_link("/etc/localtime").ok()?;
    let (_, name) = path.to_str()?.split_once("zoneinfo/")?;
    Some(name.to_owned())
}

/// What this process has inherited, and the command should.
fn limits(adds_umask: bool) -> Limits {
    let mask = nix::sys::stat::umask(nix::sys::stat::Mode::empty());
    nix::sys::stat::umask(mask);
    let soft = agent::launch::RESOURCES
        .iter()
        .filter_map(|&(number, resource)| {
            let (soft, _) = nix::sys::resource::getrlimit(resource).ok()?;
            (soft != nix::libc::RLIM_INFINITY).then_some((number, soft))
        });
    let ignored = ignored().unwrap_or_default();
    Limits {
        umask: mask.bits(),
        adds_umask,
        soft: soft.collect(),
        ignored: (1..=64).filter(|n| ignored >> (n - 1) & 1 == 1).collect(),
    }
}

/// The signals that this process ignores, one bit each; none: that is not to be seen.
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether this process ignores a signal, as far as that is to be seen.
fn ignores(signal: nix::sys::signal::Signal) -> bool {
    ignored().is_none_or(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

/// What a shell puts before a message: `NAME: line 12: ` if it is bash, `NAME: 12: ` if another one.
fn message(tag: Option<&Tag>, what: &[u8]) -> Vec<u8> {
    let mut message = script_name();
    let Some(tag) = tag else {
        message.extend_from_slice(b": ");
        message.extend_from_slice(what);
        message.push(b'\n');
        return message;
    };
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
        let tag = Tag::read("@12:3:1:110:77".as_ref()).unwrap();
        assert_eq!((tag.line, tag.pipeline, tag.stage), (12, 3, 1));
        assert_eq!(tag.helpers, [true, true, false]);
        assert_eq!(tag.session, 77);
        for wrong in [
            "@",
            "@1:2:3",
            "@1:2:3::4",
            "@1:2:1:1:4",
            "@1:2:0:2:4",
            "@1:2:0:1:",
            "@1:2:0:1",
            "@1:2:0:1:4:",
            "12:3:0:1:4",
            "@x:1:0:1:4",
        ] {
            assert_eq!(Tag::read(wrong.as_ref()), None, "{wrong}");
        }
    }
}
