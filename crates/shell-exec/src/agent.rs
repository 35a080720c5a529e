//! The agent: our program on the machine that has the data, started there by ssh. It speaks [`crate::wire`] on standard input and output.
//!
//! The invariant: when the connection ends, for whatever reason, every process that it started is told to end, and killed if it does
//! not; nothing is left behind.

mod below;
mod job;
pub mod launch;
mod quiet;
mod stretch;
pub(crate) mod view;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use shell_plan::plan::Combiner;

use crate::combine::{Failure, Part, Room, combine};
use crate::flow::{Inbox, Incoming, Outgoing, Sending, Tally, Window, locked, receive_all};
use crate::load::Load;
use crate::slurm;
use crate::tools::Tools;
use crate::wire::{Busy, FarHello, Frame, FromAgent, Hello, Job, PIECE, PROTOCOL, ToAgent, WINDOW};
use job::{End, OneJoin, OneProcess, Refusal, Target, position};
use quiet::{COMPLAINS, Checked, Quiet};
use stretch::Stretch;
use view::Views;

/// How an agent is to behave.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Only folders beneath this one are shown.
    pub beneath: Option<PathBuf>,
}

/// How long processes may take to end when nobody wants them any more.
const GRACE: Duration = Duration::from_secs(2);

/// Serves one connection, until its end.
///
/// # Errors
/// Why it ended otherwise than by the other side, for people.
pub fn serve(options: &Options) -> Result<(), String> {
    let owned = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let said = |error: io::Error| format!("the connection: {error}");
    let stdin = owned(rustix::stdio::stdin()).map_err(said)?;
    let stdout = owned(rustix::stdio::stdout()).map_err(said)?;
    // A reader that is gone is an error of writing here; those who are started get their signals back.
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    pipe.thread_block()
        .map_err(|error| error.desc().to_owned())?;
    let mut from = BufReader::with_capacity(PIECE + 4096, stdin);
    let Some(hello) = first(&mut from)? else {
        return Ok(());
    };
    // Before there is a second thread: namespaces are a thread's own.
    let beneath = match &options.beneath {
        None => None,
        Some(folder) => Some(
            folder
                .canonicalize()
                .map_err(|error| format!("{}: {error}", folder.display()))?,
        ),
    };
    let (views, answers) = if hello.protocol == PROTOCOL {
        view::give(&hello.views, beneath.as_deref())
    } else {
        view::give(&[], None)
    };
    let tools = Tools::of_this_machine();
    let out = Outgoing::new(stdout, |_| {});
    let mut load = Load::default();
    let busy = load.look();
    out.tell(&FromAgent::Hello(FarHello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        views: answers,
        sees_owners: views.sees_owners,
        cores: cores(),
        busy,
        libc: tools.libc.clone(),
        locales: tools.locales(),
        has_bounds: launch::has_bounds(),
    }));
    {
        let out = out.clone();
        std::thread::spawn(move || tell_load(load, busy, &out));
    }
    let agent = Arc::new(Agent {
        out,
        views,
        tools,
        streams: Mutex::default(),
        jobs: Mutex::default(),
        cancelled: Mutex::default(),
        takes_jobs: RwLock::new(true),
    });
    let ended = agent.listen(&mut from);
    agent.end_all();
    ended
}

fn first(from: &mut impl io::Read) -> Result<Option<Hello>, String> {
    match Frame::read(from) {
        Ok(None) => Ok(None),
        Ok(Some(Frame::Message(payload))) => match Frame::message(&payload) {
            Ok(ToAgent::Hello(hello)) => Ok(Some(hello)),
            _ => Err("whoever called does not speak as nearsh does".into()),
        },
        Ok(Some(_)) => Err("whoever called does not speak as nearsh does".into()),
        Err(error) => Err(format!("the connection: {error}")),
    }
}

/// How many processors are ours to use.
fn cores() -> u32 {
    let all = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    slurm::cores().map_or(all, |own| own.min(all))
}

/// How often the other side is told how busy this machine is, if that has changed.
const TELLING: Duration = Duration::from_millis(500);
/// By how much, in hundredths.
const CHANGED: u32 = 20;

/// Tells it as long as the connection is there.
fn tell_load(mut load: Load, mut told: Busy, out: &Outgoing) {
    loop {
        std::thread::sleep(TELLING);
        let now = load.look();
        if now
            .others
            .abs_diff(told.others)
            .max(now.own.abs_diff(told.own))
            >= CHANGED
        {
            told = now;
            out.tell(&FromAgent::Busy(now));
        }
    }
}

/// A join that can begin.
struct ReadyJoin {
    how: Combiner,
    parts: Vec<Part>,
    into: Box<dyn Write + Send>,
    file: Option<OwnedFd>,
    clean: Vec<Stretch>,
    quiet: Option<OwnedFd>,
    /// The streams that it reads and writes.
    streams: Vec<u32>,
}

enum Stream {
    /// We send.
    Out(Arc<Window>),
    /// We receive.
    In(Arc<Inbox>),
}

struct Agent {
    out: Outgoing,
    views: Views,
    tools: Tools,
    streams: Mutex<HashMap<u32, Stream>>,
    /// The processes of each job.
    jobs: Mutex<HashMap<u32, Vec<Arc<Target>>>>,
    /// Jobs that were cancelled before they ran.
    cancelled: Mutex<HashSet<u32>>,
    /// Whether jobs are still taken; held while one is started, so that none is begun behind the back of who ends them all.
    takes_jobs: RwLock<bool>,
}

impl Agent {
    fn listen(self: &Arc<Self>, from: &mut impl io::Read) -> Result<(), String> {
        loop {
            let frame = match Frame::read(from) {
                Ok(None) => return Ok(()),
                Ok(Some(frame)) => frame,
                Err(error) => return Err(format!("the connection: {error}")),
            };
            match frame {
                Frame::Message(payload) => {
                    let message =
                        Frame::message(&payload).map_err(|error| format!("{error}, from there"))?;
                    self.hear(message);
                }
                Frame::Data(number, bytes) => {
                    if let Some(Stream::In(inbox)) = locked(&self.streams).get(&number) {
                        inbox
                            .push(bytes)
                            .map_err(|_| "more came than was asked for".to_owned())?;
                    }
                }
                Frame::Credit(number, bytes) => {
                    if let Some(Stream::Out(window)) = locked(&self.streams).get(&number) {
                        window.add(bytes);
                    }
                }
                Frame::End(number) => {
                    if let Some(Stream::In(inbox)) = locked(&self.streams).get(&number) {
                        inbox.end();
                    }
                }
                Frame::Reset(number) => {
                    if let Some(Stream::Out(window)) = locked(&self.streams).get(&number) {
                        window.close();
                    }
                }
            }
        }
    }

    fn hear(self: &Arc<Self>, message: ToAgent) {
        match message {
            ToAgent::Hello(_) => {}
            ToAgent::Ping(number) => self.out.tell(&FromAgent::Pong(number)),
            ToAgent::Compare { path, commands } => {
                let agent = self.clone();
                std::thread::spawn(move || {
                    let compared = commands
                        .iter()
                        .map(|(name, tool)| job::compare(name, &path, tool, &agent.tools));
                    agent.out.tell(&FromAgent::Compared(compared.collect()));
                });
            }
            ToAgent::Signal {
                job,
                process,
                signal,
            } => {
                let target = (locked(&self.jobs).get(&job))
                    .and_then(|targets| targets.get(process as usize).cloned());
                if let Some(target) = target {
                    target.signal(signal);
                }
            }
            ToAgent::Cancel { job } => {
                let mut jobs = locked(&self.jobs);
                match jobs.remove(&job) {
                    Some(targets) => drop(std::thread::spawn(move || end(&targets))),
                    // It is just being started, or has ended.
                    None => drop(locked(&self.cancelled).insert(job)),
                }
            }
            ToAgent::Start(job) => {
                // Checks may take their time, and other jobs go on.
                let agent = self.clone();
                std::thread::spawn(move || agent.start(&job));
            }
        }
    }

    fn start(self: &Arc<Self>, job: &Job) {
        let number = job.number;
        let takes = self
            .takes_jobs
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if !*takes {
            return;
        }
        let running = match job::start(job, &self.views, &self.tools) {
            Ok(running) => running,
            Err(Refusal {
                why,
                different,
                misfit,
            }) => {
                self.out.tell(&FromAgent::Refused {
                    job: number,
                    why,
                    different,
                    misfit,
                });
                return;
            }
        };
        let targets: Vec<_> = (running.processes.iter())
            .map(|one| Target::of(&one.child))
            .collect();
        {
            let mut jobs = locked(&self.jobs);
            if locked(&self.cancelled).remove(&number) {
                let targets = targets.clone();
                std::thread::spawn(move || end(&targets));
            } else {
                jobs.insert(number, targets.clone());
            }
        }
        drop(takes);
        // Streams are known before the other side hears of them.
        let mut flows = Vec::new();
        for (fd, number, first) in running.ins {
            let inbox = self.inbox(number);
            flows.push((fd, inbox, number, first));
        }
        for (number, window) in running.outs.windows() {
            locked(&self.streams).insert(number, Stream::Out(window));
        }
        let joins: Vec<_> = (running.joins.into_iter())
            .map(|join| self.joined(join))
            .collect();
        self.out.tell(&FromAgent::Started {
            job: number,
            files: running.files,
        });
        for (fd, inbox, number, first) in flows {
            let agent = self.clone();
            std::thread::spawn(move || {
                let tally = Tally::default();
                let _ = receive_all(fd, &inbox, &agent.out, number, first, &tally);
                locked(&agent.streams).remove(&number);
            });
        }
        let (agent, outs) = (self.clone(), running.outs);
        std::thread::spawn(move || {
            outs.run(&agent.out, |number| {
                locked(&agent.streams).remove(&number);
            });
        });
        for feed in running.feeds {
            let agent = self.clone();
            std::thread::spawn(move || {
                if let Err(error) = feed.run() {
                    let why = format!("a file cannot be read there: {error}");
                    agent.out.tell(&FromAgent::Failed { job: number, why });
                }
                // The end of the pipe comes behind that.
                drop(feed);
            });
        }
        for (index, join) in joins.into_iter().enumerate() {
            let agent = self.clone();
            std::thread::spawn(move || agent.join(number, index as u32, join));
        }
        let processes = running.processes.into_iter().zip(targets);
        for (process, (OneProcess { child, files }, target)) in processes.enumerate() {
            let agent = self.clone();
            let changes = (job.processes.get(process)).map_or(Vec::new(), |of| of.changes.clone());
            std::thread::spawn(move || {
                let (ending, used) = target.wait(child);
                let positions = files
                    .each_ref()
                    .map(|file| file.as_ref().and_then(position));
                agent.out.tell(&FromAgent::Exited {
                    job: number,
                    process: process as u32,
                    ending,
                    positions,
                    used,
                    modes: agent.views.modes(changes),
                });
                let mut jobs = locked(&agent.jobs);
                let is_over = jobs
                    .get(&number)
                    .is_some_and(|targets| targets.iter().all(|target| !target.is_there()));
                if is_over {
                    jobs.remove(&number);
                }
            });
        }
    }

    /// A stream that comes.
    fn inbox(&self, number: u32) -> Arc<Inbox> {
        let inbox = Inbox::new();
        locked(&self.streams).insert(number, Stream::In(inbox.clone()));
        inbox
    }

    /// A stream that goes.
    fn window(&self, number: u32) -> Arc<Window> {
        let window = Window::new(WINDOW);
        locked(&self.streams).insert(number, Stream::Out(window.clone()));
        window
    }

    /// A join with its ends ready to be read and written.
    fn joined(&self, join: OneJoin) -> ReadyJoin {
        let mut streams = Vec::new();
        let parts = (join.parts.into_iter())
            .map(|part| -> Part {
                match part {
                    End::Fd(fd) => Box::new(File::from(fd)),
                    End::Stream(number, first) => {
                        streams.push(number);
                        let inbox = self.inbox(number);
                        Box::new(Incoming::new(inbox, self.out.clone(), number, first))
                    }
                }
            })
            .collect();
        let into: Box<dyn Write + Send> = match join.into {
            End::Fd(fd) => Box::new(File::from(fd)),
            End::Stream(number, _) => {
                streams.push(number);
                let window = self.window(number);
                Box::new(Sending::new(window, self.out.clone(), number))
            }
        };
        ReadyJoin {
            how: join.how,
            parts,
            into,
            file: join.file,
            clean: join.clean,
            quiet: join.quiet,
            streams,
        }
    }

    fn join(&self, job: u32, number: u32, join: ReadyJoin) {
        let mut into = join.into;
        let room = Room::of_this_machine();
        let (clean, quiet) = (join.clean, join.quiet);
        let looking = std::thread::spawn(move || {
            (clean.iter().map(|stretch| stretch.has_zero(u64::MAX)))
                .find(|found| !matches!(found, Ok(false)))
        });
        let quiet = quiet.map(Quiet::listen);
        let mut checked = Checked {
            into: &mut *into,
            quiet: quiet.as_ref(),
        };
        let (trouble, is_unread) = match combine(&join.how, join.parts, &mut checked, &room) {
            Ok(()) => (None, false),
            // Nobody wants the rest: as for a process that writes to a pipe.
            Err(Failure::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe => (None, true),
            Err(failure) => (Some(failure.to_string()), false),
        };
        let trouble = trouble.or_else(|| match looking.join() {
            Ok(None) => None,
            Ok(Some(Err(error))) => Some(error.to_string()),
            _ => Some("its input is binary".into()),
        });
        let complains = quiet.is_some_and(Quiet::ends);
        let trouble = trouble.or_else(|| complains.then(|| COMPLAINS.to_owned()));
        let position = join.file.as_ref().and_then(position);
        let has_failed = trouble.is_some();
        let message = FromAgent::Joined {
            job,
            join: number,
            position,
            trouble,
            is_unread,
        };
        // What is not all must not be taken for it: that is told before the end.
        if has_failed {
            self.out.tell(&message);
            drop(into);
        } else {
            drop(into);
            self.out.tell(&message);
        }
        for number in join.streams {
            // Who reads ahead of a join sees that it is over when more comes. Nothing more comes in now, and who sends it must be told so.
            if let Some(Stream::In(inbox)) = locked(&self.streams).remove(&number) {
                inbox.cut();
                self.out.send(Frame::Reset(number));
            }
        }
    }

    /// Ends everything that runs.
    fn end_all(&self) {
        *self
            .takes_jobs
            .write()
            .unwrap_or_else(PoisonError::into_inner) = false;
        let targets: Vec<Arc<Target>> = locked(&self.jobs).drain().flat_map(|(_, t)| t).collect();
        end(&targets);
    }
}

/// Tells processes to end, and kills those that do not.
fn end(targets: &[Arc<Target>]) {
    for target in targets {
        for signal in [Signal::SIGHUP, Signal::SIGTERM, Signal::SIGCONT] {
            target.signal(signal as i32);
        }
    }
    let until = Instant::now() + GRACE;
    while targets.iter().any(|target| target.is_there()) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    for target in targets {
        target.signal(Signal::SIGKILL as i32);
    }
}
