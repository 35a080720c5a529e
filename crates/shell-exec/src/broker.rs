//! The broker: one process per user in the background, which holds a connection to each host and in which the stages of a pipeline meet.
//!
//! Helpers come and go with each command of a script; what they share must live longer. It is started by the first who needs it, and ends when
//! nobody has needed it for a while.
//!
//! The invariant: it passes frames on and never holds more than credit allows; when it ends, helpers see it and do what can be done without.

mod decide;
pub(crate) mod facts;
mod group;
mod host;
mod meeting;
mod socket;

use std::collections::HashMap;
use std::io::BufReader;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;

use crate::flow::{Outgoing, locked};
use crate::tools::Tools;
use crate::wire::{
    Frame, FromBroker, HostState, Job, PIECE, Process, Record, Sink, Source, StageCall, Stdio,
    ToBroker, View,
};
use shell_plan::plan::{Learned, plan};

use decide::{Away, away, can_be_repeated, ends};
use group::{Group, Member, Records};
pub use group::{STDERR, STDIN, STDOUT};
use host::Host;
pub use host::Reach;
use meeting::{Meeting, Waiting};
pub use socket::{begin, connect};

/// The word by which our own program knows that it is to be a broker.
pub const WORD: &str = "@broker";

/// How long it stays without anybody.
const IDLE: Duration = Duration::from_secs(600);

/// What ran elsewhere lately, oldest first; none: there is no broker.
pub fn records() -> Option<Vec<Record>> {
    match answer(connect()?, &ToBroker::Records)? {
        FromBroker::Records(records) => Some(records),
        _ => None,
    }
}

/// What a broker says of itself and of hosts.
#[derive(Clone, PartialEq, Debug)]
pub struct Told {
    /// Its process.
    pub process: u32,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// What it knows.
    pub hosts: Vec<HostState>,
}

/// What the broker knows; none: there is none. If hosts are named with their views it is begun, and connects to them first.
pub fn hosts(connect_to: Vec<(String, Vec<View>)>) -> Option<Told> {
    let stream = if connect_to.is_empty() {
        connect()?
    } else {
        begin().ok()?
    };
    let message = ToBroker::Hosts {
        connect: connect_to,
    };
    match answer(stream, &message)? {
        FromBroker::Hosts {
            process,
            began,
            hosts,
        } => Some(Told {
            process,
            began,
            hosts,
        }),
        _ => None,
    }
}

/// The broker's answer to a message.
fn answer(mut stream: UnixStream, message: &ToBroker) -> Option<FromBroker> {
    Frame::of(message).write(&mut stream).ok()?;
    match Frame::read(&mut stream).ok()?? {
        Frame::Message(payload) => Frame::message(&payload).ok(),
        _ => None,
    }
}

/// How many scripts' wishes are remembered.
const SESSIONS: usize = 1000;

type HostKey = (String, Vec<Vec<u8>>);

/// A broker.
struct Broker {
    reach: Reach,
    tools: Tools,
    /// By name and by what is mounted of it.
    hosts: Mutex<HashMap<HostKey, Arc<Host>>>,
    meeting: Mutex<Meeting<Arc<Visitor>>>,
    /// The last scripts, and whether their stages run elsewhere whenever they can.
    sessions: Mutex<Vec<(u32, bool)>>,
    visits: AtomicUsize,
    records: Arc<Records>,
    /// In milliseconds since 1970.
    began: u64,
}

/// A helper, seen from here.
struct Visitor {
    out: Outgoing,
    state: Mutex<Visit>,
}

#[derive(Default)]
struct Visit {
    /// The group that it is in, and as which of its stages.
    group: Option<(Arc<Group>, usize)>,
    /// Whether it has left.
    is_gone: bool,
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |since| since.as_millis() as u64)
}

/// Serves helpers on the socket that is standard input and lies at this path, until nobody has come for a while.
pub fn serve(at: &Path) {
    let _ = nix::unistd::setsid();
    let Ok(listener) = rustix::stdio::stdin().try_clone_to_owned() else {
        return;
    };
    let listener = &UnixListener::from(listener);
    let reach = Reach::of_environment();
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let _ = pipe.thread_block();
    let broker = Arc::new(Broker {
        reach,
        tools: Tools::of_this_machine(),
        hosts: Mutex::default(),
        meeting: Mutex::default(),
        sessions: Mutex::default(),
        visits: AtomicUsize::new(0),
        records: Arc::default(),
        began: now_ms(),
    });
    loop {
        if !socket::comes(listener, IDLE) {
            if broker.visits.load(Ordering::Relaxed) == 0 {
                let _ = std::fs::remove_file(at);
                return;
            }
            continue;
        }
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            // Whoever came is gone again, or there are too many for now.
            Err(error) if error.raw_os_error() != Some(Errno::NOTSOCK.raw_os_error()) => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Err(_) => return,
        };
        if !socket::is_own(&stream) {
            continue;
        }
        let broker = broker.clone();
        std::thread::spawn(move || {
            broker.visits.fetch_add(1, Ordering::Relaxed);
            broker.receive(stream);
            broker.visits.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

impl Broker {
    /// Serves one helper, until it ends.
    fn receive(self: &Arc<Self>, stream: UnixStream) {
        let Ok(write) = stream.try_clone() else {
            return;
        };
        let visitor = Arc::new(Visitor {
            out: Outgoing::new(write, |_| {}),
            state: Mutex::default(),
        });
        let mut from = BufReader::with_capacity(PIECE + 4096, stream);
        while let Ok(Some(frame)) = Frame::read(&mut from) {
            let entered = locked(&visitor.state).group.clone();
            match (frame, entered) {
                (Frame::Message(payload), entered) => match Frame::message(&payload) {
                    Ok(message) => self.hear(&visitor, message, entered),
                    Err(_) => break,
                },
                (frame, Some((group, member))) => group.pass_back(member, frame),
                (_, None) => {}
            }
        }
        let chains = locked(&self.meeting).leave(|other| Arc::ptr_eq(other, &visitor));
        self.settle(chains);
        let group = {
            let mut state = locked(&visitor.state);
            state.is_gone = true;
            state.group.take()
        };
        if let Some((group, member)) = group {
            group.gone(member);
        }
    }

    fn hear(
        self: &Arc<Self>,
        visitor: &Arc<Visitor>,
        message: ToBroker,
        entered: Option<(Arc<Group>, usize)>,
    ) {
        match (message, entered) {
            (
                ToBroker::Session {
                    session,
                    always,
                    hosts,
                },
                _,
            ) => {
                let mut sessions = locked(&self.sessions);
                sessions.retain(|(known, _)| *known != session);
                if sessions.len() >= SESSIONS {
                    sessions.remove(0);
                }
                sessions.push((session, always));
                drop(sessions);
                for (name, views) in hosts {
                    self.host(&name, &views).open(&self.reach);
                }
            }
            (ToBroker::Here { stdio }, _) => {
                let chains = locked(&self.meeting).settle(&stdio);
                self.settle(chains);
            }
            (ToBroker::Stage(call), _) => {
                // From now on it goes nowhere without an answer.
                visitor.out.tell(&FromBroker::Wait);
                let chain = locked(&self.meeting).arrive(*call, visitor.clone());
                self.settle(chain);
            }
            (ToBroker::Alone, _) => {
                let chain = locked(&self.meeting).give_up(|other| Arc::ptr_eq(other, visitor));
                self.settle(chain);
            }
            (ToBroker::Records, _) => {
                visitor.out.tell(&FromBroker::Records(self.records.all()));
            }
            (ToBroker::Hosts { connect }, _) => {
                let hosts: Vec<Arc<Host>> = (connect.iter())
                    .map(|(name, views)| self.host(name, views))
                    .collect();
                for host in &hosts {
                    host.open(&self.reach);
                }
                for host in &hosts {
                    if host.connection(&self.reach).is_ok() {
                        host.wait_for_round_trip();
                    }
                }
                let mut names: Vec<String> = (locked(&self.hosts).keys())
                    .map(|(name, _)| name.clone())
                    .collect();
                names.sort();
                names.dedup();
                visitor.out.tell(&FromBroker::Hosts {
                    process: std::process::id(),
                    began: self.began,
                    hosts: names.iter().map(|name| self.known(name)).collect(),
                });
            }
            (ToBroker::Signal(signal), Some((group, member))) => group.signal(member, signal),
            (ToBroker::Written, Some((group, member))) => group.written(member),
            (ToBroker::Abandon, Some((group, _))) => {
                group.abandon("what it has to write cannot be written here");
            }
            (ToBroker::Signal(_) | ToBroker::Written | ToBroker::Abandon, None) => {}
        }
    }

    fn host(&self, name: &str, views: &[View]) -> Arc<Host> {
        let at = views.iter().map(|view| view.at.clone()).collect();
        locked(&self.hosts)
            .entry((name.to_owned(), at))
            .or_insert_with(|| Host::new(name, views))
            .clone()
    }

    fn settle(self: &Arc<Self>, chains: impl IntoIterator<Item = Vec<Waiting<Arc<Visitor>>>>) {
        for chain in chains {
            let (calls, visitors): (Vec<StageCall>, Vec<Arc<Visitor>>) =
                (chain.into_iter()).map(|w| (w.call, w.owner)).unzip();
            let (groups, why) = self.decide(&calls);
            for (index, visitor) in visitors.iter().enumerate() {
                if !groups.iter().any(|group| group.stages.contains(&index)) {
                    let why = why.get(index).cloned().unwrap_or_default();
                    visitor.out.tell(&FromBroker::Local { why });
                }
            }
            for away in groups {
                let (broker, calls) = (self.clone(), calls.clone());
                let visitors = visitors[away.stages.clone()].to_vec();
                std::thread::spawn(move || {
                    if let Err(why) = broker.send(&calls, &away, &visitors) {
                        for visitor in &visitors {
                            visitor.out.tell(&FromBroker::Local { why: why.clone() });
                        }
                    }
                });
            }
        }
    }

    /// Which stages of a chain run elsewhere, and for each of all, why where it does.
    fn decide(&self, calls: &[StageCall]) -> (Vec<Away>, Vec<String>) {
        let session = calls.first().map(|call| call.session);
        let sessions = locked(&self.sessions);
        let always = sessions
            .iter()
            .any(|(known, always)| Some(*known) == session && *always);
        drop(sessions);
        if always {
            return (away(calls), Vec::new());
        }
        let mut names: Vec<&String> = Vec::new();
        for call in calls {
            let of = call
                .place
                .as_ref()
                .ok()
                .and_then(|place| place.host.as_ref());
            let stdio = call.stdio.iter().filter_map(|stdio| match stdio {
                Stdio::There { host, .. } => Some(host),
                _ => None,
            });
            names.extend(of.into_iter().chain(stdio));
        }
        names.sort();
        names.dedup();
        if names.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let known: Vec<HostState> = names.into_iter().map(|name| self.known(name)).collect();
        let annotations = facts::annotations(calls);
        let facts = facts::facts(calls, &annotations, &known, Learned::default());
        let plan = plan(&facts);
        let why = plan.stages.iter().map(|stage| stage.why.clone());
        (facts::away(&plan, &known), why.collect())
    }

    /// What is known of a host: whichever of its connections knows most.
    fn known(&self, name: &str) -> HostState {
        let hosts = locked(&self.hosts);
        let of = hosts.iter().filter(|((known, _), _)| known == name);
        of.map(|(_, host)| host.known())
            .max_by_key(|known| known.is_open)
            .unwrap_or_else(|| Host::new(name, &[]).known())
    }

    /// Sends a group to its host.
    fn send(
        &self,
        calls: &[StageCall],
        away: &Away,
        visitors: &[Arc<Visitor>],
    ) -> Result<(), String> {
        let views = (calls[away.stages.clone()].iter())
            .flat_map(|call| &call.place)
            .map(|place| &place.views)
            .find(|views| !views.is_empty());
        let views = views.map_or(&[][..], |views| views);
        let host = self.host(&away.host, views);
        let connection = host.connection(&self.reach)?;
        if let Some(why) = connection.hello.views.iter().flatten().next() {
            return Err(why.clone());
        }
        let job = host.number();
        let (mut processes, mut streams_of, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        for index in away.stages.clone() {
            let call = &calls[index];
            let place = call.place.as_ref().map_err(Clone::clone)?;
            if place.shows_owners && !connection.hello.sees_owners {
                return Err("it shows who owns files".into());
            }
            let program = Path::new(std::ffi::OsStr::new(
                std::str::from_utf8(&call.program).map_err(|_| "a program's name")?,
            ));
            let tool = self
                .tools
                .tool(program, place.version.as_ref())
                .ok_or("the command cannot be read here")?;
            let mut number = || host.number();
            let (stdin, stdout) = ends(calls, away, index, &mut number);
            let stderr = (!call.is_merged).then(|| host.number());
            let stream = |source: &Source| match source {
                Source::Stream(number) => Some(*number),
                _ => None,
            };
            let sunk = |sink: &Sink| match sink {
                Sink::Stream(number) => Some(*number),
                _ => None,
            };
            let streams = [stream(&stdin), sunk(&stdout), stderr];
            streams_of.push(streams);
            checks.extend(place.checks.iter().cloned());
            for stdio in &call.stdio {
                if let Stdio::There {
                    path, seen, host, ..
                } = stdio
                    && *host == away.host
                {
                    checks.push(crate::wire::Checked {
                        path: path.clone(),
                        seen: *seen,
                    });
                }
            }
            processes.push(Process {
                words: call.words.clone(),
                environment: call.environment.clone(),
                folder: call.folder.clone(),
                limits: call.limits.clone(),
                stdin,
                stdout,
                stderr,
                tool,
                locales: self.tools.needed(place.locales.iter().map(String::as_str)),
                access: Some(place.access.clone()),
            });
        }
        let places: Vec<_> = calls[away.stages.clone()]
            .iter()
            .filter_map(|call| call.place.as_ref().ok())
            .collect();
        let again = match (processes.first(), processes.last()) {
            (Some(first), Some(last)) => can_be_repeated(&places, &first.stdin, &last.stdout),
            _ => false,
        };
        let members = (visitors.iter().zip(streams_of))
            .map(|(visitor, streams)| Member {
                helper: visitor.out.clone(),
                streams,
                role: FromBroker::Remote {
                    host: host.name.clone(),
                    stdin: streams[0].is_some(),
                    stdout: streams[1].is_some(),
                    stderr: streams[2].is_some(),
                    again,
                },
            })
            .collect();
        let stages = &calls[away.stages.clone()];
        let names = stages.iter().map(|call| call.words.first());
        let record = Record {
            session: stages[0].session,
            host: host.name.clone(),
            commands: (names.flatten())
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
            began: now_ms(),
            took: 0,
            came: 0,
            went: 0,
            trouble: None,
        };
        let group = Group::new(&connection, job, members, record, &self.records);
        for (member, visitor) in visitors.iter().enumerate() {
            let mut state = locked(&visitor.state);
            state.group = Some((group.clone(), member));
            if state.is_gone {
                group.abandon("a stage of it is gone");
                return Ok(());
            }
        }
        connection.out.tell(&crate::wire::ToAgent::Start(Job {
            number: job,
            processes,
            checks,
        }));
        Ok(())
    }
}
