//! The processes of one job.
//!
//! The invariant: a job runs whole or not at all: until the last of its processes is made, none has read or written anything that the
//! other side could have seen; what fails before that is a refusal, and everything is as if it had not been asked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use rustix::fs::{Mode, OFlags, SeekFrom, fcntl_setfl, fstat, open, seek};
use rustix::io::pread;
use rustix::pipe::{PipeFlags, pipe_with};
use shell_plan::plan::{Combiner, line_start};

use super::launch::{self, Launch};
use super::stretch::{Feed, Stretch};
use super::view::Views;
use crate::combine::{Part, Room, combine};
use crate::flow::outlets::Outlets;

use crate::program::{self, Found};
use crate::tools::Tools;
use crate::wire::{
    Comparison, Ending, FIRST_IN, Job, Join, Misfit, Process, Rehearsal, Sink, Source, Tool, Used,
    WINDOW,
};

/// What runs for a job, and what of its descriptors goes over the connection.
pub struct Running {
    /// The processes, as in the job.
    pub processes: Vec<OneProcess>,
    /// Pipes to be written to from streams: the stream's number, and the credit that it begins with.
    pub ins: Vec<(OwnedFd, u32, u32)>,
    /// Pipes to be read into streams.
    pub outs: Outlets,
    /// Files of which parts are read, and their inodes.
    pub files: Vec<(Vec<u8>, u64)>,
    /// Parts of files to be written into pipes.
    pub feeds: Vec<Feed>,
    /// The joins, as in the job.
    pub joins: Vec<OneJoin>,
}

/// A process that runs.
pub struct OneProcess {
    /// It.
    pub child: Child,
    /// The files that it reads and writes, to see in the end how far it got.
    pub files: [Option<OwnedFd>; 2],
}

/// Outputs that are to become one.
pub struct OneJoin {
    /// By what means.
    pub how: Combiner,
    /// Where they come from.
    pub parts: Vec<End>,
    /// Where it goes.
    pub into: End,
    /// The file that is written or read, to see in the end how far that got.
    pub file: Option<OwnedFd>,
    /// What must have no zero byte.
    pub clean: Vec<Stretch>,
    /// What must be empty.
    pub quiet: Option<OwnedFd>,
}

/// One end of a join.
pub enum End {
    /// A descriptor.
    Fd(OwnedFd),
    /// A stream, and the credit that it begins with.
    Stream(u32, u32),
}

/// Why a job is not run.
pub struct Refusal {
    /// For people.
    pub why: String,
    /// The command that is another one here, if that is why.
    pub different: Option<String>,
    /// What is otherwise than it was taken to be, if that is why.
    pub misfit: Option<Misfit>,
}

impl From<String> for Refusal {
    fn from(why: String) -> Refusal {
        Refusal {
            why,
            different: None,
            misfit: None,
        }
    }
}

/// The pipes of a job, each end until it is taken.
#[derive(Default)]
struct Pipes(HashMap<u32, [Option<OwnedFd>; 2]>);

impl Pipes {
    fn end(&mut self, number: u32, side: usize) -> Result<OwnedFd, String> {
        let ends = match self.0.entry(number) {
            Entry::Occupied(ends) => ends.into_mut(),
            Entry::Vacant(place) => {
                let (read, write) = pipe()?;
                place.insert([Some(read), Some(write)])
            }
        };
        ends[side]
            .take()
            .ok_or_else(|| "a pipe with more than two ends".to_owned())
    }

    fn reader(&mut self, number: u32) -> Result<OwnedFd, String> {
        self.end(number, 0)
    }

    fn writer(&mut self, number: u32) -> Result<OwnedFd, String> {
        self.end(number, 1)
    }

    /// Whether each has two ends that are somebody's.
    fn are_whole(&self) -> bool {
        let taken = |ends: &[Option<OwnedFd>; 2]| ends.iter().all(Option::is_none);
        self.0.values().all(taken)
    }
}

/// Starts all processes of a job.
///
/// # Errors
/// Why none of them runs.
pub fn start(job: &Job, views: &Views, tools: &Tools) -> Result<Running, Refusal> {
    for checked in &job.checks {
        views.check(checked)?;
        if checked.ends_line && !views.ends_line(&checked.path)? {
            let name = String::from_utf8_lossy(&checked.path);
            return Err(Refusal {
                why: format!("{name}: its last line has no end"),
                different: None,
                misfit: Some(Misfit::Unended(checked.path.clone())),
            });
        }
    }
    for process in &job.processes {
        views.permit(process.access.as_ref(), &process.environment)?;
    }
    // All commands are looked for before any is started.
    let programs = (job.processes.iter())
        .map(|process| {
            let found = program_of(process, tools, views);
            found.map_err(|(name, why)| Refusal {
                why,
                different: Some(String::from_utf8_lossy(&name).into_owned()),
                misfit: None,
            })
        })
        .collect::<Result<Vec<PathBuf>, Refusal>>()?;
    if let Some(rehearsal) = &job.rehearsal {
        rehearse(job, rehearsal, &programs, views)?;
    }
    let mut starting = Starting::new(views)?;
    let started = (job.processes.iter().zip(&programs))
        .try_for_each(|(process, program)| starting.process(process, program))
        .and_then(|()| job.joins.iter().try_for_each(|join| starting.join(join)))
        .and_then(|()| {
            let whole = starting.pipes.are_whole();
            whole.then_some(()).ok_or("a pipe with one end".to_owned())
        });
    if let Err(why) = started {
        starting.running.end();
        return Err(Refusal {
            misfit: (why == BINARY).then_some(Misfit::Apart),
            why,
            different: None,
        });
    }
    Ok(starting.running)
}

/// Why files that are no text are not searched in parts.
const BINARY: &str = "it has a zero byte";

impl Running {
    /// Ends what was started of it.
    fn end(self) {
        for mut one in self.processes {
            let _ = one.child.kill();
            let _ = one.child.wait();
        }
    }
}

/// How long a rehearsal may take.
const REHEARSAL: Duration = Duration::from_secs(1);
/// How much of a file is read before anything else is done with it.
const REHEARSED: u64 = 64 << 10;

/// Runs a lane on the first lines of its file, to see whether what it prints can be put together with others.
fn rehearse(
    job: &Job,
    rehearsal: &Rehearsal,
    programs: &[PathBuf],
    views: &Views,
) -> Result<(), Refusal> {
    /// The number of no other pipe.
    const LAST: u32 = u32::MAX;
    let mut starting = Starting::new(views)?;
    let count = rehearsal.processes.len();
    let mut begin = |number: usize, at: u32| -> Result<(), String> {
        let at = at as usize;
        let (of, program) =
            (job.processes.get(at).zip(programs.get(at))).ok_or("a process that is not there")?;
        let mut process = of.clone();
        process.stderr = Some(Sink::Null);
        if number == 0 {
            let Source::Lines { begin, to, .. } = &mut process.stdin else {
                return Err("a rehearsal without lines".into());
            };
            *to = Some(*begin + REHEARSED);
            if let Source::Lines { begin, from, .. } = &mut process.stdin {
                *from = *begin;
            }
        }
        if number + 1 == count {
            process.stdout = Sink::Pipe(LAST);
        }
        starting.process(&process, program)
    };
    let begun = (rehearsal.processes.iter().enumerate())
        .try_for_each(|(number, &at)| begin(number, at))
        .and_then(|()| starting.pipes.reader(LAST));
    let mut running = starting.running;
    let output = match begun {
        Ok(output) if running.ins.is_empty() => output,
        begun => {
            running.end();
            let why = begun.map_or_else(|why| why, |_| "a rehearsal with streams".to_owned());
            return Err(why.into());
        }
    };
    for feed in running.feeds.drain(..) {
        std::thread::spawn(move || {
            let _ = feed.run();
        });
    }
    // One that takes long is ended; what it has printed by then is no sum.
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let ending = std::thread::spawn(move || {
        let _ = is_over.recv_timeout(REHEARSAL);
        running.end();
    });
    let room = Room::of_this_machine();
    let part: Part = Box::new(File::from(output));
    let fits = combine(&rehearsal.how, vec![part], &mut std::io::sink(), &room);
    drop(over);
    let _ = ending.join();
    fits.map_err(|failure| Refusal {
        why: failure.to_string(),
        different: None,
        misfit: Some(Misfit::Apart),
    })
}

/// Where a restricted agent looks for commands.
const SYSTEM_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";

/// The program of a process, if that and those that it runs are the near side's; otherwise which is not, and why.
fn program_of(
    process: &Process,
    tools: &Tools,
    views: &Views,
) -> Result<PathBuf, (Vec<u8>, String)> {
    let name = process.words.first().cloned().unwrap_or_default();
    let path = process.environment.iter();
    let path = path.filter_map(|pair| pair.strip_prefix(b"PATH=")).next();
    let Some(path) = path else {
        return Err((name, "a command without PATH".into()));
    };
    // A restricted agent runs the system's own programs that it knows, and no others.
    let own = if views.is_restricted {
        SYSTEM_PATH
    } else {
        path
    };
    let told = |why| (name.clone(), why);
    let found = one_program(&name, own, &process.tool, tools, views).map_err(told)?;
    let same = tools.same(&found, &process.tool, &process.locales);
    same.map_err(|why| (name.clone(), why))?;
    for run in &process.runs {
        let told = |why| (run.name.clone(), why);
        let found = one_program(&run.name, &run.path, &run.tool, tools, views).map_err(told)?;
        if views.is_restricted {
            let system = one_program(&run.name, SYSTEM_PATH, &run.tool, tools, views);
            if system.map_err(told)? != found {
                return Err(told(
                    "this agent runs the system's own commands alone".into(),
                ));
            }
        }
    }
    Ok(found)
}

/// A command in some folders, if it is the near side's.
fn one_program(
    name: &[u8],
    path: &[u8],
    tool: &Tool,
    tools: &Tools,
    views: &Views,
) -> Result<PathBuf, String> {
    if views.is_restricted {
        let known = std::str::from_utf8(name).is_ok_and(crate::annotations::has);
        if !known {
            return Err("this agent runs commands with annotations alone".into());
        }
    }
    let name = OsStr::from_bytes(name);
    match program::find(name, OsStr::from_bytes(path), &|_| false) {
        Found::Program(found) => {
            tools.same(&found, tool, &[])?;
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

/// What can be said of a descriptor that could not be made.
fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A job that is being started.
struct Starting<'a> {
    views: &'a Views,
    /// Files that were opened, by their names: another of that name may take its place meanwhile, and all lanes read the same one.
    files: HashMap<Vec<u8>, OwnedFd>,
    pipes: Pipes,
    running: Running,
}

impl Starting<'_> {
    fn new(views: &Views) -> Result<Starting<'_>, String> {
        Ok(Starting {
            views,
            files: HashMap::new(),
            pipes: Pipes::default(),
            running: Running {
                processes: Vec::new(),
                ins: Vec::new(),
                outs: Outlets::new().map_err(told)?,
                files: Vec::new(),
                feeds: Vec::new(),
                joins: Vec::new(),
            },
        })
    }

    /// A file to be read, with an offset of its own.
    fn open(&mut self, path: &[u8]) -> Result<OwnedFd, String> {
        let first = match self.files.entry(path.to_vec()) {
            Entry::Occupied(file) => file.into_mut(),
            Entry::Vacant(place) => place.insert(self.views.open(path, OFlags::RDONLY)?),
        };
        let again = format!("/proc/self/fd/{}", first.as_raw_fd());
        open(again, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(told)
    }

    /// A descriptor to be read.
    fn source(&mut self, source: &Source) -> Result<OwnedFd, String> {
        match source {
            Source::Null => null(OFlags::RDONLY),
            Source::Pipe(number) => self.pipes.reader(*number),
            Source::Stream(number) | Source::Relay(number) => {
                let (read, write) = pipe()?;
                let first = first_credit(source);
                self.running.ins.push((write, *number, first));
                Ok(read)
            }
            Source::File { path, from } => {
                let file = self.open(path)?;
                seek(&file, SeekFrom::Start(*from)).map_err(told)?;
                Ok(file)
            }
            Source::Lines { to, .. } => {
                let part = self.stretch(source)?;
                if to.is_none() {
                    // The rest is read as a file is.
                    seek(&part.file, SeekFrom::Start(part.range.start)).map_err(told)?;
                    return Ok(part.file);
                }
                let (read, into) = pipe()?;
                self.running.feeds.push(Feed::new(part, into));
                Ok(read)
            }
        }
    }

    /// The part of a file that a source is; all that is behind its end now, too, if it has none.
    fn stretch(&mut self, source: &Source) -> Result<Stretch, String> {
        match source {
            Source::File { path, from } => Ok(Stretch {
                file: self.open(path)?,
                range: *from..u64::MAX,
            }),
            Source::Lines {
                path,
                begin,
                from,
                to,
            } => {
                let file = self.open(path)?;
                let stat = fstat(&file).map_err(told)?;
                let size = stat.st_size as u64;
                self.running.files.push((path.clone(), stat.st_ino));
                let within = *begin..size.max(*begin);
                let start = |at: u64| {
                    line_start(at, &within, |offset, count| {
                        let mut bytes = vec![0; count];
                        let had = pread(&file, &mut bytes, offset)?;
                        bytes.truncate(had);
                        Ok(bytes)
                    })
                    .map_err(|error: rustix::io::Errno| told(error))
                };
                let range = start(*from)?..to.map_or(Ok(u64::MAX), start)?;
                Ok(Stretch { file, range })
            }
            _ => Err("no part of a file".into()),
        }
    }

    /// A descriptor to be written.
    fn sink(&mut self, sink: &Sink) -> Result<OwnedFd, String> {
        match sink {
            Sink::Null => null(OFlags::WRONLY),
            Sink::Pipe(number) => self.pipes.writer(*number),
            Sink::Stream(number) => {
                let (read, write) = pipe()?;
                self.running.outs.add(read, *number).map_err(told)?;
                Ok(write)
            }
            Sink::File { path, at } => {
                let file = self.views.open(path, OFlags::WRONLY)?;
                match at {
                    Some(at) => seek(&file, SeekFrom::Start(*at)).map(|_| ()),
                    None => fcntl_setfl(&file, OFlags::APPEND),
                }
                .map_err(told)?;
                Ok(file)
            }
        }
    }

    fn process(&mut self, process: &Process, program: &Path) -> Result<(), String> {
        let mut words = process.words.clone();
        let mut more = Vec::new();
        for (number, input) in process.inputs.iter().enumerate() {
            let fd = self.source(&input.source)?;
            let child = FIRST_INPUT + number as i32;
            let word = words
                .get_mut(input.word as usize)
                .ok_or("a word that is not there")?;
            word.truncate(input.from as usize);
            word.extend_from_slice(format!("/dev/fd/{child}").as_bytes());
            more.push(FdMapping {
                parent_fd: fd,
                child_fd: child,
            });
        }
        let mut command = command(process, &words, program, self.views)?;
        let input = self.source(&process.stdin)?;
        let output = self.sink(&process.stdout)?;
        let read = matches!(
            process.stdin,
            Source::File { .. } | Source::Lines { to: None, .. }
        );
        let written = matches!(process.stdout, Sink::File { at: Some(_), .. });
        let copy = |fd: &OwnedFd, wanted: bool| {
            let copy = wanted.then(|| fd.try_clone().map_err(told));
            copy.transpose()
        };
        let files = [copy(&input, read)?, copy(&output, written)?];
        command.stderr(match &process.stderr {
            None => output.try_clone().map_err(told)?,
            Some(sink) => self.sink(sink)?,
        });
        command.stdin(input).stdout(output);
        if !more.is_empty() {
            command
                .fd_mappings(more)
                .map_err(|_| "two inputs under one name")?;
        }
        let child = command
            .spawn()
            .map_err(|error| format!("no process could be made: {error}"))?;
        self.running.processes.push(OneProcess { child, files });
        Ok(())
    }

    fn join(&mut self, join: &Join) -> Result<(), String> {
        let mut parts = Vec::new();
        let mut file = None;
        for part in &join.parts {
            parts.push(match part {
                Source::Stream(number) | Source::Relay(number) => {
                    End::Stream(*number, first_credit(part))
                }
                other => {
                    let fd = self.source(other)?;
                    if matches!(other, Source::File { .. }) {
                        file = Some(fd.try_clone().map_err(told)?);
                    }
                    End::Fd(fd)
                }
            });
        }
        let into = match &join.into {
            Sink::Stream(number) => End::Stream(*number, WINDOW),
            other => {
                let fd = self.sink(other)?;
                if matches!(other, Sink::File { at: Some(_), .. }) {
                    file = Some(fd.try_clone().map_err(told)?);
                }
                End::Fd(fd)
            }
        };
        let clean = join.clean.iter().map(|source| self.stretch(source));
        let clean = clean.collect::<Result<Vec<Stretch>, String>>()?;
        for stretch in &clean {
            if stretch.has_zero(REHEARSED).map_err(told)? {
                return Err(BINARY.into());
            }
        }
        let quiet = join.quiet.as_ref().map(|of| self.source(of)).transpose()?;
        self.running.joins.push(OneJoin {
            how: join.how.clone(),
            parts,
            into,
            file,
            clean,
            quiet,
        });
        Ok(())
    }
}

/// The number of the first descriptor that is neither input, output nor errors.
const FIRST_INPUT: i32 = 3;

fn first_credit(source: &Source) -> u32 {
    match source {
        Source::Relay(_) => WINDOW,
        _ => FIRST_IN,
    }
}

fn null(flags: OFlags) -> Result<OwnedFd, String> {
    let opened = open("/dev/null", flags | OFlags::CLOEXEC, Mode::empty());
    opened.map_err(|error| format!("/dev/null: {error}"))
}

/// Our own program, about to become the command.
fn command(
    process: &Process,
    words: &[Vec<u8>],
    program: &Path,
    views: &Views,
) -> Result<Command, String> {
    let launch = Launch {
        program: program.as_os_str().as_bytes().to_vec(),
        limits: process.limits.clone(),
        access: process.access.clone(),
        is_restricted: views.is_restricted,
    };
    let mut command = launch::command(&launch).map_err(told)?;
    command.args(words.iter().map(|word| OsStr::from_bytes(word)));
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

    /// Waits for its end, and says what it took. Its number is forgotten before anybody else can get it.
    pub fn wait(&self, mut child: Child) -> (Ending, Option<Used>) {
        let pid = rustix::process::Pid::from_child(&child);
        let end = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) =
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), end)
        {}
        let used = used(child.id());
        let mut target = self.lock();
        *target = None;
        let ending = match child.wait() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Ending::Status(code as u8),
                (None, Some(signal)) => Ending::Signal(signal),
                (None, None) => Ending::Status(255),
            },
            Err(_) => Ending::Status(255),
        };
        (ending, used)
    }
}

/// What the kernel counts times in for users, in microseconds: `USER_HZ` is 100 (proc(5)).
const TICK: u64 = 10_000;

/// What a process took that has ended and was not waited for yet.
fn used(process: u32) -> Option<Used> {
    let io = std::fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    let count = |name: &str| {
        let mut lines = io.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind its name, which is between brackets and may have blanks and brackets: the fields from the third on.
    let (_, fields) = stat.rsplit_once(')')?;
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
    Some(Used {
        read: count("rchar:")?,
        written: count("wchar:")?,
        micros: ticks * TICK,
    })
}

/// How far a process got in a file.
pub fn position(file: &OwnedFd) -> Option<u64> {
    seek(file, SeekFrom::Current(0)).ok()
}
