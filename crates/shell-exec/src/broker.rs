//! The broker: one process per user in the background, which holds a connection to each host and in which the stages of a pipeline meet.
//!
//! Helpers come and go with each command of a script; what they share must live longer. It is started by the first who needs it, and ends when
//! nobody has needed it for a while.
//!
//! The invariant: it passes frames on and never holds more than credit allows; when it ends, helpers see it and do what can be done without.

pub(crate) mod facts;
mod group;
mod host;
mod meeting;
pub(crate) mod memory;
mod socket;
mod work;

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::BufReader;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use nix::sys::signal::{SigSet, Signal};
use rustix::io::Errno;

use crate::flow::{Outgoing, locked};
use crate::tools::Tools;
use crate::wire::{
    Frame, FromBroker, HostState, Misfit, PIECE, Record, StageCall, ToBroker, Used, View,
};
use crate::{clock, mounts, slurm};
use shell_plan::plan::{Cost, Plan, plan};

use group::{Correction, Group, Leg, Member, Records, Task};
use host::Host;
pub use host::Reach;
use meeting::{Meeting, Waiting};
use memory::Memory;
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

/// For how long it is believed how far a host is that nobody is connected to.
const PROBE_KEPT: Duration = Duration::from_secs(60);

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
    /// Words of stages that follow each other, whose outputs for parts could not be put together.
    apart: Mutex<Vec<Vec<Vec<Vec<u8>>>>>,
    visits: AtomicUsize,
    records: Arc<Records>,
    memory: Memory,
    /// Which mounts were asked how far away their host is, and when.
    probed: Mutex<Vec<(String, Instant)>>,
    /// In milliseconds since 1970.
    began: u64,
}

/// A helper, seen from here.
struct Visitor {
    out: Outgoing,
    state: Mutex<Visit>,
}

/// What was found out about the files of a chain.
#[derive(Clone, Default)]
struct Findings {
    /// As in [`facts::facts`].
    unended: Vec<Vec<u8>>,
    /// Sums cannot be put together.
    is_apart: bool,
    /// It was seen how far hosts are of which that was not known.
    is_probed: bool,
    /// Hosts that nobody was connected to have been connected to since, if they could be.
    is_connected: bool,
    /// Hosts that cannot do their part, where others have the same files.
    without: Vec<String>,
}

/// Why a group was not sent.
struct Unsent {
    /// For people.
    why: String,
    /// The host that is why, if one is.
    at: Option<String>,
}

impl From<String> for Unsent {
    fn from(why: String) -> Unsent {
        Unsent { why, at: None }
    }
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
        apart: Mutex::default(),
        visits: AtomicUsize::new(0),
        records: Arc::default(),
        memory: Memory::of_this_user(),
        probed: Mutex::default(),
        began: now_ms(),
    });
    loop {
        if !socket::comes(listener, IDLE) {
            if broker.visits.load(Ordering::Relaxed) == 0 {
                broker.memory.save(true);
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

/// Why one of these files, with what is in it, or of these folders is not to be had on a host: it has refused to show what that lies in.
fn refusal<'a>(
    views: &[View],
    answers: &[Option<String>],
    files: impl Iterator<Item = &'a [u8]>,
    folders: impl Iterator<Item = &'a [u8]>,
) -> Option<String> {
    let path = |bytes: &'a [u8]| Path::new(OsStr::from_bytes(bytes));
    let (files, folders): (Vec<&Path>, Vec<&Path>) =
        (files.map(path).collect(), folders.map(path).collect());
    let is_needed = |view: &View| {
        let at = Path::new(OsStr::from_bytes(&view.at));
        let has = |path: &&Path| path.starts_with(at);
        files.iter().chain(&folders).any(has) || files.iter().any(|file| at.starts_with(file))
    };
    let mut refused = views.iter().zip(answers);
    refused.find_map(|(view, why)| why.clone().filter(|_| is_needed(view)))
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
                    // What is near is soon connected to, and most scripts need none of it.
                    let far = self.known(&name).round_trip_s;
                    if always || far.is_none_or(|far| far >= facts::NEAR_S) {
                        self.host(&name, &views).open(&self.reach);
                    }
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
                self.connect(&hosts);
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
            (ToBroker::Taken, Some((group, member))) => group.taken(member),
            (ToBroker::Signal(signal), Some((group, member))) => group.signal(member, signal),
            (ToBroker::Written, Some((group, member))) => group.written(member),
            (ToBroker::Abandon, Some((group, _))) => {
                group.abandon("what it has to write cannot be written here");
            }
            (
                ToBroker::Taken | ToBroker::Signal(_) | ToBroker::Written | ToBroker::Abandon,
                None,
            ) => {}
        }
    }

    fn host(&self, name: &str, views: &[View]) -> Arc<Host> {
        let at = |view: &View| [&view.at[..], b"\0", &view.export].concat();
        let at = views.iter().map(at).collect();
        locked(&self.hosts)
            .entry((name.to_owned(), at))
            .or_insert_with(|| Host::new(name, views))
            .clone()
    }

    fn settle(self: &Arc<Self>, chains: impl IntoIterator<Item = Vec<Waiting<Arc<Visitor>>>>) {
        for chain in chains {
            let (calls, visitors): (Vec<StageCall>, Vec<Arc<Visitor>>) =
                (chain.into_iter()).map(|w| (w.call, w.owner)).unzip();
            self.run(&calls, &visitors, &Findings::default());
        }
    }

    /// Has the stages of a chain run where they are to.
    fn run(self: &Arc<Self>, calls: &[StageCall], visitors: &[Arc<Visitor>], files: &Findings) {
        let here = |visitor: &Visitor, why: &str| {
            let why = why.to_owned();
            visitor.out.tell(&FromBroker::Local { why });
        };
        let unprobed = self.unprobed(calls);
        if !unprobed.is_empty() && !files.is_probed {
            let files = Findings {
                is_probed: true,
                ..files.clone()
            };
            self.later(calls, visitors, files, move |broker| broker.probe(unprobed));
            return;
        }
        let Some((plan, known)) = self.decide(calls, files) else {
            for visitor in visitors {
                here(visitor, "nothing that it works on is elsewhere");
            }
            return;
        };
        let unconnected = self.unconnected(calls, &plan, &known);
        if !unconnected.is_empty() && !files.is_connected {
            let files = Findings {
                is_connected: true,
                ..files.clone()
            };
            self.later(calls, visitors, files, move |broker| {
                broker.connect(&unconnected);
            });
            return;
        }
        for (index, visitor) in visitors.iter().enumerate() {
            if !work::is_away(&plan, index) {
                let why = plan.stages.get(index).map(|stage| stage.why.as_str());
                here(visitor, why.unwrap_or_default());
            }
        }
        for group in plan.groups {
            let (broker, known) = (self.clone(), known.clone());
            let (calls, files) = (calls.to_vec(), files.clone());
            let visitors = visitors[work::stages(&group)].to_vec();
            std::thread::spawn(move || {
                let sent = broker.send(&calls, &group, plan.cost, &known, &visitors, &files);
                match sent {
                    Ok(()) => {}
                    Err(Unsent { at: Some(host), .. }) if slurm::is_further(&host) => {
                        let mut files = files;
                        files.without.push(host);
                        broker.run(&calls[work::stages(&group)], &visitors, &files);
                    }
                    Err(Unsent { why, .. }) => {
                        for visitor in &visitors {
                            here(visitor, &why);
                        }
                    }
                }
            });
        }
    }

    /// Goes on with a chain when something has been done that takes time.
    fn later(
        self: &Arc<Self>,
        calls: &[StageCall],
        visitors: &[Arc<Visitor>],
        files: Findings,
        first: impl FnOnce(&Broker) + Send + 'static,
    ) {
        let (broker, calls, visitors) = (self.clone(), calls.to_vec(), visitors.to_vec());
        std::thread::spawn(move || {
            first(&broker);
            broker.run(&calls, &visitors, &files);
        });
    }

    /// The hosts that a plan uses and that nobody is connected to: how busy they are and how far away was not known to it.
    fn unconnected(&self, calls: &[StageCall], plan: &Plan, known: &[HostState]) -> Vec<Arc<Host>> {
        let of_group = |group: &shell_plan::plan::Group| {
            let lanes = group.lanes.iter().map(|lane| lane.host).collect::<Vec<_>>();
            lanes.into_iter().chain(group.place.host())
        };
        let mut used: Vec<usize> = plan.groups.iter().flat_map(of_group).collect();
        used.sort_unstable();
        used.dedup();
        (used.into_iter())
            .filter_map(|host| known.get(host))
            .filter(|known| !known.is_open)
            .map(|known| self.host(&known.name, facts::views_of(calls, &known.name)))
            .collect()
    }

    /// The hosts of a chain that nobody is connected to and that were not asked lately how far they are, with a folder of each. What is remembered from
    /// another day may be of another network.
    fn unprobed(&self, calls: &[StageCall]) -> Vec<(String, PathBuf)> {
        let mut probed = locked(&self.probed);
        probed.retain(|(_, when)| when.elapsed() < PROBE_KEPT);
        (facts::hosts_of(calls).into_iter())
            .filter(|name| !self.known(name).is_open && !slurm::is_further(name))
            .filter(|name| !probed.iter().any(|(known, _)| known == name))
            .filter_map(|name| {
                let view = facts::views_of(calls, &name).first()?;
                let at = PathBuf::from(OsStr::from_bytes(&view.at));
                Some((name, at))
            })
            .collect()
    }

    /// Sees how far hosts are by asking their mounts what no mount remembers.
    fn probe(&self, unprobed: Vec<(String, PathBuf)>) {
        let asking: Vec<_> = (unprobed.into_iter())
            .map(|(name, at)| (name, std::thread::spawn(move || mounts::round_trip(&at))))
            .collect();
        for (name, asked) in asking {
            locked(&self.probed).push((name.clone(), Instant::now()));
            let mut host = HostState::unknown(&name);
            host.round_trip_s = asked.join().ok().flatten();
            self.memory.note_host(&host);
        }
        self.memory.save(false);
    }

    /// Connects to all of these at once, as far as they can be reached.
    fn connect(&self, unconnected: &[Arc<Host>]) {
        for host in unconnected {
            host.open(&self.reach);
        }
        for host in unconnected {
            if host.connection(&self.reach).is_ok() {
                host.wait_for_round_trip();
            }
        }
    }

    /// Which stages of a chain run elsewhere, and what is known of the hosts that the plan speaks of; none: it has nothing to do with any.
    fn decide(&self, calls: &[StageCall], files: &Findings) -> Option<(Plan, Vec<HostState>)> {
        let session = calls.first().map(|call| call.session);
        let always = (locked(&self.sessions).iter())
            .any(|(known, always)| Some(*known) == session && *always);
        let names = facts::hosts_of(calls);
        if names.is_empty() {
            return None;
        }
        let mut known: Vec<HostState> = names.iter().map(|name| self.known(name)).collect();
        for host in &mut known {
            host.rests |= files.without.contains(&host.name);
        }
        let mut facts = facts::facts(calls, &known, &files.unended);
        self.memory.teach(&mut facts);
        facts.eager = always;
        let apart = locked(&self.apart);
        let is_apart = |stages: &Vec<Vec<Vec<u8>>>| {
            let mut parts = calls.windows(stages.len());
            parts.any(|part| part.iter().map(|call| &call.words).eq(stages))
        };
        facts.unfit = files.is_apart || apart.iter().any(is_apart);
        drop(apart);
        Some((plan(&facts), known))
    }

    /// Sums that one of these stages made could not be put together.
    fn remember_apart(&self, calls: &[StageCall]) {
        if calls.is_empty() {
            return;
        }
        let mut apart = locked(&self.apart);
        if apart.len() >= SESSIONS {
            apart.remove(0);
        }
        apart.push(calls.iter().map(|call| call.words.clone()).collect());
    }

    /// What is known of a host: whichever of its connections knows most.
    fn known(&self, name: &str) -> HostState {
        let hosts = locked(&self.hosts);
        let of = hosts.iter().filter(|((known, _), _)| known == name);
        let mut known = of
            .map(|(_, host)| host.known())
            .max_by_key(|known| known.is_open)
            .unwrap_or_else(|| HostState::unknown(name));
        drop(hosts);
        self.memory.remind(&mut known);
        known
    }

    /// What was measured while a group ran is remembered.
    fn learn(&self, calls: &[StageCall], hosts: &[Arc<Host>], used: &[Option<Used>]) {
        for (call, used) in calls.iter().zip(used) {
            if let Some(used) = used {
                self.memory.note_stage(call, *used);
            }
        }
        for host in hosts {
            self.memory.note_host(&host.known());
        }
        self.memory.save(false);
    }

    /// Sends a group to its hosts.
    fn send(
        self: &Arc<Self>,
        calls: &[StageCall],
        group: &shell_plan::plan::Group,
        cost: Cost,
        known: &[HostState],
        visitors: &[Arc<Visitor>],
        files: &Findings,
    ) -> Result<(), Unsent> {
        let hosts: Vec<Arc<Host>> = (known.iter())
            .map(|known| self.host(&known.name, facts::views_of(calls, &known.name)))
            .collect();
        let mut number = |host: usize| hosts[host].number();
        let work = work::work(calls, group, known, &self.tools, &mut number)?;
        for leg in &work.legs {
            hosts[leg.host].open(&self.reach);
        }
        let mut legs = Vec::new();
        for leg in work.legs {
            let host = &hosts[leg.host];
            let at = |why: String| Unsent {
                why,
                at: Some(host.name.clone()),
            };
            let connection = host.connection(&self.reach).map_err(at)?;
            let views = facts::views_of(calls, &host.name);
            let checked = leg.job.checks.iter().map(|one| one.path.as_slice());
            let folders = leg.job.processes.iter().map(|one| one.folder.as_slice());
            if let Some(why) = refusal(views, &connection.hello.views, checked, folders) {
                return Err(at(why));
            }
            let shows_owners = |call: &StageCall| {
                let place = call.place.as_ref();
                place.is_ok_and(|place| place.shows_owners)
            };
            if calls[work::stages(group)].iter().any(shows_owners) && !connection.hello.sees_owners
            {
                return Err(at("it shows who owns files".into()));
            }
            let mut job = leg.job;
            job.number = host.number();
            legs.push(Leg {
                connection,
                job,
                member_of: leg.stage_of,
                descriptor_of: leg.descriptor_of,
                host: host.name.clone(),
            });
        }
        let members = (visitors.iter().zip(work.roles))
            .map(|(visitor, role)| Member {
                helper: visitor.out.clone(),
                role,
            })
            .collect();
        let stages = &calls[work::stages(group)];
        let names = stages.iter().map(|call| call.words.first());
        let mut of_hosts: Vec<&str> = legs.iter().map(|leg| leg.host.as_str()).collect();
        of_hosts.dedup();
        // The shell may have had to make a file for the last of all, and nothing was planned before that was there.
        let began = calls.iter().map(|call| call.began).max();
        let record = Record {
            session: stages[0].session,
            host: of_hosts.join(", "),
            commands: (names.flatten())
                .map(|name| String::from_utf8_lossy(name).into_owned())
                .collect(),
            began: now_ms(),
            planned: clock::micros().saturating_sub(began.unwrap_or_default()),
            took: 0,
            expected: (cost.seconds * 1e6) as u64,
            came: 0,
            expected_came: group.output_bytes as u64,
            went: 0,
            trouble: None,
            is_lost: false,
        };
        // If something is not as it was taken to be, the same stages are planned again.
        let otherwise = {
            let (broker, calls) = (self.clone(), stages.to_vec());
            let (visitors, files) = (visitors.to_vec(), files.clone());
            move |correction: Correction, again: bool| {
                let mut files = files.clone();
                match correction {
                    Correction::Misfit(Misfit::Unended(path)) => files.unended.push(path),
                    Correction::Misfit(Misfit::Apart) => {
                        files.is_apart = true;
                        broker.remember_apart(&calls);
                    }
                    Correction::Without(host) => files.without.push(host),
                }
                if again {
                    broker.run(&calls, &visitors, &files);
                }
            }
        };
        let learn = {
            let (broker, calls) = (self.clone(), stages.to_vec());
            let hosts: Vec<Arc<Host>> = (legs.iter())
                .filter_map(|leg: &Leg| hosts.iter().find(|host| host.name == leg.host))
                .cloned()
                .collect();
            // Nobody waits for a file to be written.
            move |used: Vec<Option<Used>>| {
                let (broker, calls, hosts) = (broker.clone(), calls.clone(), hosts.clone());
                std::thread::spawn(move || broker.learn(&calls, &hosts, &used));
            }
        };
        let task = Task {
            legs,
            last: work.last,
            members,
            relays: work.relays,
            again: work.again,
            strict: work.strict,
            record,
            otherwise: Box::new(otherwise),
            learn: Box::new(learn),
        };
        let group = Group::new(task, &self.records);
        for (member, visitor) in visitors.iter().enumerate() {
            let mut state = locked(&visitor.state);
            state.group = Some((group.clone(), member));
            if state.is_gone {
                group.abandon("a stage of it is gone");
                return Ok(());
            }
        }
        group.begin();
        Ok(())
    }
}
