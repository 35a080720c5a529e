//! The agent: our program on the machine that has the data, started there by ssh. It speaks [`crate::wire`] on standard input and output.
//!
//! The invariant: when the connection ends, for whatever reason, every process that it started is told to end, and killed if it does
//! not; nothing is left behind.

mod job;
pub mod launch;
mod view;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::flow::{Inbox, Outgoing, Window, locked, receive_all, send_all};
use crate::tools::Tools;
use crate::wire::{
    FIRST_IN, FarHello, Frame, FromAgent, Hello, Job, PIECE, PROTOCOL, ToAgent, WINDOW,
};
use job::{Refusal, Running, Target, position};
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
    out.tell(&FromAgent::Hello(FarHello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        views: answers,
        sees_owners: views.sees_owners,
        cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        load: load(),
        libc: tools.libc.clone(),
        locales: tools.locales(),
        has_bounds: launch::has_bounds(),
    }));
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

/// The load of the last minute, in hundredths (proc(5)).
fn load() -> u32 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split(' ').next().unwrap_or_default();
    (first.parse::<f64>().unwrap_or_default() * 100.0) as u32
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
            Err(Refusal { why, different }) => {
                self.out.tell(&FromAgent::Refused {
                    job: number,
                    why,
                    different,
                });
                return;
            }
        };
        let targets: Vec<_> = running.iter().map(|one| Target::of(&one.child)).collect();
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
        {
            let mut streams = locked(&self.streams);
            for one in &running {
                let stdin = one.stdin.as_ref().map(|(_, number)| {
                    let inbox = Inbox::new();
                    streams.insert(*number, Stream::In(inbox.clone()));
                    inbox
                });
                let mut window = |number: u32| {
                    let window = Window::new(WINDOW);
                    streams.insert(number, Stream::Out(window.clone()));
                    window
                };
                let stdout = one.stdout.as_ref().map(|(_, number)| window(*number));
                let stderr = one.stderr.as_ref().map(|(_, number)| window(*number));
                flows.push((stdin, stdout, stderr));
            }
        }
        self.out.tell(&FromAgent::Started { job: number });
        for (process, ((one, target), flow)) in
            running.into_iter().zip(targets).zip(flows).enumerate()
        {
            let agent = self.clone();
            let Running {
                child,
                stdin,
                stdout,
                stderr,
                files,
            } = one;
            let (inbox, window, errors) = flow;
            let mut pumps = Vec::new();
            if let (Some((fd, number)), Some(inbox)) = (stdin, inbox) {
                let agent = self.clone();
                // Not waited for: it may have nothing more to write, and not know it.
                std::thread::spawn(move || {
                    let _ = receive_all(fd, &inbox, &agent.out, number, FIRST_IN);
                    locked(&agent.streams).remove(&number);
                });
            }
            for (from, window) in [stdout.zip(window), stderr.zip(errors)]
                .into_iter()
                .flatten()
            {
                let agent = self.clone();
                let (fd, number) = from;
                pumps.push(std::thread::spawn(move || {
                    send_all(fd, &window, &agent.out, number);
                    locked(&agent.streams).remove(&number);
                }));
            }
            std::thread::spawn(move || {
                let ending = target.wait(child);
                let positions = files
                    .each_ref()
                    .map(|file| file.as_ref().and_then(position));
                agent.out.tell(&FromAgent::Exited {
                    job: number,
                    process: process as u32,
                    ending,
                    positions,
                });
                for pump in pumps {
                    let _ = pump.join();
                }
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
