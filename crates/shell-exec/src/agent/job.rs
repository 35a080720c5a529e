//! The processes of one job.
//!
//! The invariant: a job runs whole or not at all: until the last of its processes is made, none has read or written anything that the
//! other side could have seen; what fails before that is a refusal, and everything is as if it had not been asked for.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::fs::{OFlags, SeekFrom, fcntl_setfl, seek};
use rustix::pipe::{PipeFlags, pipe_with};

use super::launch::{self, Launch};
use super::view::Views;
use crate::program::{self, Found};
use crate::tools::Tools;
use crate::wire::{Comparison, Ending, Job, Process, Sink, Source, Tool};

/// A process that runs, and what of its descriptors goes over the connection.
pub struct Running {
    /// The process.
    pub child: Child,
    /// Its input, to be written to, and the number of the stream.
    pub stdin: Option<(OwnedFd, u32)>,
    /// Its output, to be read.
    pub stdout: Option<(OwnedFd, u32)>,
    /// Its errors, to be read.
    pub stderr: Option<(OwnedFd, u32)>,
    /// The files that it reads and writes, to see in the end how far it got.
    pub files: [Option<OwnedFd>; 2],
}

/// Why a job is not run.
pub struct Refusal {
    /// For people.
    pub why: String,
    /// The process whose command is another one here, if that is why.
    pub different: Option<u32>,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal {
            why,
            different: None,
        }
    }
}

/// Starts all processes of a job.
///
/// # Errors
/// Why none of them runs.
pub fn start(job: &Job, views: &Views, tools: &Tools) -> Result<Vec<Running>, Refusal> {
    for checked in &job.checks {
        views.check(checked)?;
    }
    for process in &job.processes {
        views.permit(process.access.as_ref(), &process.environment)?;
    }
    // All commands are looked for before any is started.
    let programs = (job.processes.iter().enumerate())
        .map(|(number, process)| {
            program_of(process, tools, views).map_err(|why| Refusal {
                why,
                different: Some(number as u32),
            })
        })
        .collect::<Result<Vec<PathBuf>, Refusal>>()?;
    let mut running: Vec<Running> = Vec::new();
    let mut previous = None;
    for (process, program) in job.processes.iter().zip(&programs) {
        match start_one(process, program, previous.take(), views) {
            Ok((one, next)) => {
                running.push(one);
                previous = next;
            }
            Err(why) => {
                for mut one in running {
                    let _ = one.child.kill();
                    let _ = one.child.wait();
                }
                return Err(why.into());
            }
        }
    }
    Ok(running)
}

fn program_of(process: &Process, tools: &Tools, views: &Views) -> Result<PathBuf, String> {
    let name = process.words.first().ok_or("a command without a name")?;
    let path = process.environment.iter();
    let path = path
        .filter_map(|pair| pair.strip_prefix(b"PATH="))
        .next()
        .ok_or("a command without PATH")?;
    // A restricted agent runs the system's own programs that it knows, and no others.
    let path = if views.is_restricted {
        let known = std::str::from_utf8(name).is_ok_and(crate::annotations::has);
        if !known {
            return Err("this agent runs commands with annotations alone".into());
        }
        b"/usr/local/bin:/usr/bin:/bin"
    } else {
        path
    };
    let name = OsStr::from_bytes(name);
    match program::find(name, OsStr::from_bytes(path), &|_| false) {
        Found::Program(found) => {
            tools.same(&found, &process.tool, &process.locales)?;
            Ok(found)
        }
        _ => Err(format!("there is no {}", name.display())),
    }
}

/// Whether a command is the near side's, locales apart.
pub fn compare(name: &str, path: &[u8], tool: &Tool, tools: &Tools) -> Comparison {
    match program::find(name.as_ref(), OsStr::from_bytes(path), &|_| false) {
        Found::Program(found) if tools.same(&found, tool, &[]).is_ok() => Comparison::Same,
        Found::Program(_) => Comparison::Different,
        _ => Comparison::Absent,
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), String> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| format!("no pipe: {error}"))
}

type Started = (Running, Option<OwnedFd>);

fn start_one(
    process: &Process,
    program: &Path,
    previous: Option<OwnedFd>,
    views: &Views,
) -> Result<Started, String> {
    let mut command = command(process, program, views)?;
    let (mut stdin, mut stdout, mut next) = (None, None, None);
    let mut files = [None, None];
    command.stdin(match &process.stdin {
        Source::Null => Stdio::null(),
        Source::Previous => previous
            .ok_or("there is no process before the first")?
            .into(),
        Source::Stream(number) => {
            let (read, write) = pipe()?;
            stdin = Some((write, *number));
            read.into()
        }
        Source::File { path, from } => {
            let file = views.open(path, OFlags::RDONLY)?;
            seek(&file, SeekFrom::Start(*from)).map_err(|error| error.to_string())?;
            files[0] = Some(file.try_clone().map_err(|error| error.to_string())?);
            file.into()
        }
    });
    let null = || {
        let null = std::fs::File::options().write(true).open("/dev/null");
        null.map(OwnedFd::from)
            .map_err(|error| format!("/dev/null: {error}"))
    };
    let output: OwnedFd = match &process.stdout {
        Sink::Null => null()?,
        Sink::Next => {
            let (read, write) = pipe()?;
            next = Some(read);
            write
        }
        Sink::Stream(number) => {
            let (read, write) = pipe()?;
            stdout = Some((read, *number));
            write
        }
        Sink::File { path, at } => {
            let file = views.open(path, OFlags::WRONLY)?;
            match at {
                Some(at) => seek(&file, SeekFrom::Start(*at)).map(|_| ()),
                None => fcntl_setfl(&file, OFlags::APPEND),
            }
            .map_err(|error| error.to_string())?;
            if at.is_some() {
                files[1] = Some(file.try_clone().map_err(|error| error.to_string())?);
            }
            file
        }
    };
    let stderr = match process.stderr {
        None => {
            command.stderr(output.try_clone().map_err(|error| error.to_string())?);
            None
        }
        Some(number) => {
            let (errors, write) = pipe()?;
            command.stderr(write);
            Some((errors, number))
        }
    };
    command.stdout(output);
    let child = command
        .spawn()
        .map_err(|error| format!("no process could be made: {error}"))?;
    let running = Running {
        child,
        stdin,
        stdout,
        stderr,
        files,
    };
    Ok((running, next))
}

/// Our own program, about to become the command; through a shell where signals are to be ignored, which that can do and Rust cannot.
fn command(process: &Process, program: &Path, views: &Views) -> Result<Command, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let launch = Launch {
        program: program.as_os_str().as_bytes().to_vec(),
        limits: process.limits.clone(),
        access: process.access.clone(),
        is_restricted: views.is_restricted,
    };
    let mut command = if process.limits.ignored.is_empty() {
        Command::new(&me)
    } else {
        let ignored: Vec<String> = (process.limits.ignored.iter())
            .map(ToString::to_string)
            .collect();
        let mut shell = Command::new("/bin/sh");
        shell
            .arg("-c")
            .arg(format!("trap '' {}; exec \"$@\"", ignored.join(" ")))
            .arg("sh")
            .arg(&me);
        shell
    };
    command.arg(launch::WORD).arg(launch.to_word());
    command.args(process.words.iter().map(|word| OsStr::from_bytes(word)));
    command.env_clear();
    for pair in &process.environment {
        let equals = pair.iter().position(|&byte| byte == b'=');
        let (name, value) = pair.split_at(equals.unwrap_or(pair.len()));
        let value = value.strip_prefix(b"=").unwrap_or_default();
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    command.current_dir(OsString::from(OsStr::from_bytes(&process.folder)));
    command.process_group(0);
    Ok(command)
}

/// A process that signals may be sent to, as long as it is there.
#[derive(Debug)]
pub struct Target(Mutex<Option<Pid>>);

impl Target {
    /// That of a child.
    pub fn of(child: &Child) -> Arc<Target> {
        let pid = i32::try_from(child.id()).ok().map(Pid::from_raw);
        Arc::new(Target(Mutex::new(pid)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals the process, and those that it made.
    pub fn signal(&self, signal: i32) {
        if let (Some(pid), Ok(signal)) = (*self.lock(), Signal::try_from(signal)) {
            let _ = killpg(pid, signal);
        }
    }

    /// Whether it has not ended.
    pub fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    /// Waits for its end. Its number is forgotten before anybody else can get it.
    pub fn wait(&self, mut child: Child) -> Ending {
        let pid = rustix::process::Pid::from_child(&child);
        let end = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), end)
        {}
        let mut target = self.lock();
        *target = None;
        match child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Ending::Status(code as u8),
                (None, Some(signal)) => Ending::Signal(signal),
                (None, None) => Ending::Status(255),
            },
            Err(_) => Ending::Status(255),
        }
    }
}

/// How far a process got in a file.
pub fn position(file: &OwnedFd) -> Option<u64> {
    seek(file, SeekFrom::Current(0)).ok()
}
