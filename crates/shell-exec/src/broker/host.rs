//! A host and the one connection to it: the system's `ssh`, or Slurm's `srun`, with an agent at its other end.
//!
//! The invariant: whatever goes wrong, everybody who has a job there is told. A connection from which nothing has come for a while, though it
//! was asked, is as good as cut.

use std::collections::{HashMap, VecDeque};
use std::io::BufReader;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::group::Group;
use crate::config::Config;
use crate::flow::{Outgoing, locked};
use crate::slurm::Placement;
use crate::wire::{
    Busy, FarHello, Frame, FromAgent, Hello, HostState, PIECE, PROTOCOL, ToAgent, View,
};

/// How long a host that could not be reached is left alone; twice as long each time, but not longer than the second.
const REST: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(60)];
/// How long a node of Slurm's may take to say its first word: a job may have to wait for its turn.
const SLOW: Duration = Duration::from_secs(24 * 3600);
/// How long somebody waits for a host to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the other end may say nothing while there are jobs.
const SILENCE: Duration = Duration::from_secs(20);
/// From so many bytes on it is measured how fast they came.
const SEEN_MIN: u64 = 4 << 20;
/// How many measurements of a round trip count.
const ROUND_TRIPS: usize = 16;
/// How many are made at the beginning, when both machines are busy with that, and at first how long after each other; then twice as long each time.
const ROUND_TRIPS_FIRST: u32 = 7;
const ROUND_TRIP_PAUSE: Duration = Duration::from_millis(10);
/// How often it is asked then.
const ASKING: Duration = Duration::from_secs(5);

/// How hosts are reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reach {
    /// The program and its first arguments; the host and the far command come behind them.
    pub ssh: Vec<String>,
    /// The far command.
    pub agent: String,
}

impl Reach {
    /// As the environment says: `NEARSH_SSH`, words with blanks between, and `NEARSH_AGENT`.
    pub fn of_environment() -> Reach {
        let value = |name: &str, default: &str| {
            let value = std::env::var(name).unwrap_or_default();
            if value.is_empty() {
                default.into()
            } else {
                value
            }
        };
        let ssh = value("NEARSH_SSH", "ssh");
        Reach {
            ssh: ssh.split_whitespace().map(String::from).collect(),
            agent: value("NEARSH_AGENT", "nearsh agent --stdio"),
        }
    }

    /// Starts ssh, which is to start an agent (nobody is asked for a password), or srun, if the host is a node that Slurm is to find.
    ///
    /// # Errors
    /// Why ssh or srun itself cannot be run.
    pub fn start(&self, host: &str) -> Result<Child, String> {
        let mut command = match Placement::read(host) {
            Some(placement) => placement.command(&Config::of_this_process(None), &self.agent),
            None => {
                let (program, arguments) = self.ssh.split_first().ok_or("no ssh is named")?;
                let mut command = Command::new(program);
                command
                    .args(arguments)
                    .args(["-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"])
                    .args(["--", host, &self.agent]);
                command
            }
        };
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))
    }
}

/// A host.
pub struct Host {
    /// Its name, as ssh takes it.
    pub name: String,
    views: Vec<View>,
    state: Mutex<State>,
    changed: Condvar,
    numbers: AtomicU32,
    /// How often it could not be reached, since it last was.
    failures: AtomicU32,
}

enum State {
    Closed,
    /// Since when.
    Opening(Instant),
    Open(Arc<Connection>),
    Failed(String, Instant),
}

/// An open connection.
pub struct Connection {
    /// What is sent to the agent.
    pub out: Outgoing,
    /// What it said of itself.
    pub hello: FarHello,
    /// Which group a job is of, and which of its legs it is.
    groups: Mutex<HashMap<u32, (Arc<Group>, usize)>>,
    /// The same of a stream.
    streams: Mutex<HashMap<u32, (Arc<Group>, usize)>>,
    heard: AtomicU64,
    is_lost: AtomicBool,
    since: Instant,
    /// How long it took to make it.
    took: Duration,
    /// A message's way there and back, in microseconds, as it was measured lately: the least of these counts, for the machines may have been busy.
    round_trips: Mutex<VecDeque<u64>>,
    /// When the last was asked for, in microseconds since the connection began.
    asked: AtomicU64,
    /// How fast bytes came at best, in bytes in a second; 0: not measured.
    down: AtomicU64,
    /// Since when bytes come, and how many; none: none have come yet.
    burst: Mutex<Option<(Instant, u64)>>,
    /// As the agent told it last; see [`FarHello::busy`].
    busy: Mutex<Busy>,
    /// Commands that are others there.
    different: Mutex<Vec<String>>,
    /// When a group last ended, in milliseconds since the connection began.
    worked: AtomicU64,
    /// How long it is kept without work; none: for as long as the broker runs.
    keep: Option<Duration>,
}

/// Whether Slurm has to find a node first.
fn is_slow(host: &str) -> bool {
    Placement::read(host).is_some()
}

impl Host {
    /// A host that is not yet connected.
    pub fn new(name: &str, views: &[View]) -> Arc<Host> {
        Arc::new(Host {
            name: name.to_owned(),
            views: views.to_vec(),
            state: Mutex::new(State::Closed),
            changed: Condvar::new(),
            numbers: AtomicU32::new(1),
            failures: AtomicU32::new(0),
        })
    }

    fn rest(&self) -> Duration {
        let times = self.failures.load(Ordering::Relaxed).min(16);
        (REST[0] * (1 << times)).min(REST[1])
    }

    /// For how long a connection is waited for. Slurm may be asked for a node for as long as that; who was not given one lately waits for it no more.
    fn patience(&self) -> Duration {
        let had_none = is_slow(&self.name) && self.failures.load(Ordering::Relaxed) > 0;
        if had_none { Duration::ZERO } else { PATIENCE }
    }

    /// A number that no job and no stream of this host has.
    pub fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// What is known of it.
    pub fn known(&self) -> HostState {
        let mut known = HostState::unknown(&self.name);
        let state = locked(&self.state);
        if let State::Failed(why, when) = &*state {
            known.trouble = Some(why.clone());
            known.rests = when.elapsed() <= self.rest();
        }
        if let State::Opening(since) = &*state {
            known.rests = since.elapsed() >= self.patience();
        }
        if let State::Open(connection) = &*state {
            let hello = &connection.hello;
            let micros = |cell: &AtomicU64| match cell.load(Ordering::Relaxed) {
                0 => None,
                measured => Some(measured as f64),
            };
            known.is_open = true;
            known.different = locked(&connection.different).clone();
            let least = locked(&connection.round_trips).iter().copied().min();
            known.round_trip_s = least.map(|micros| micros as f64 / 1e6);
            known.down = micros(&connection.down);
            known.connect_s = Some(connection.took.as_secs_f64());
            let busy = connection.busy();
            known.idle_cores = Some(busy.idle_cores(hello.cores.into()));
        }
        known
    }

    /// Begins to connect, if nobody has, and comes back at once.
    pub fn open(self: &Arc<Self>, reach: &Reach) {
        let mut state = locked(&self.state);
        let begins = match &*state {
            State::Closed => true,
            State::Failed(_, when) => when.elapsed() > self.rest(),
            State::Opening(_) | State::Open(_) => false,
        };
        if begins {
            *state = State::Opening(Instant::now());
            let (host, reach) = (self.clone(), reach.clone());
            std::thread::spawn(move || host.connect(&reach));
        }
    }

    /// The connection, once it is open.
    ///
    /// # Errors
    /// Why there is none, for people.
    pub fn connection(self: &Arc<Self>, reach: &Reach) -> Result<Arc<Connection>, String> {
        self.open(reach);
        let patience = self.patience();
        let mut state = locked(&self.state);
        loop {
            match &*state {
                State::Open(connection) => return Ok(connection.clone()),
                State::Failed(why, _) => return Err(why.clone()),
                State::Closed => return Err(format!("the connection to {} ended", self.name)),
                State::Opening(since) => {
                    // Who comes later waits no longer than who came first.
                    let left = patience.saturating_sub(since.elapsed());
                    if left.is_zero() {
                        return Err(format!("{} does not answer", self.name));
                    }
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn become_(&self, state: State) {
        *locked(&self.state) = state;
        self.changed.notify_all();
    }

    /// Connects, and listens until the connection ends.
    fn connect(self: &Arc<Self>, reach: &Reach) {
        let failed = |why: String| {
            self.failures.fetch_add(1, Ordering::Relaxed);
            self.become_(State::Failed(why, Instant::now()));
        };
        let begun = Instant::now();
        let mut child = match reach.start(&self.name) {
            Ok(child) => child,
            Err(why) => return failed(why),
        };
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return failed("a connection without pipes".into());
        };
        let mut from = BufReader::with_capacity(PIECE + 4096, stdout);
        let out = Outgoing::new(stdin, |_| {});
        out.tell(&ToAgent::Hello(Hello {
            protocol: PROTOCOL,
            views: self.views.clone(),
        }));
        // Whoever says nothing at all is not waited for either.
        let deadline = if is_slow(&self.name) { SLOW } else { SILENCE };
        let child_id = rustix::process::Pid::from_child(&child);
        let (answered, is_answered) = std::sync::mpsc::channel::<()>();
        let watcher = std::thread::spawn(move || {
            if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) =
                is_answered.recv_timeout(deadline)
            {
                let _ = rustix::process::kill_process(child_id, rustix::process::Signal::KILL);
            }
        });
        let answer = match Frame::read(&mut from) {
            Ok(Some(Frame::Message(payload))) => Frame::message(&payload).ok(),
            _ => None,
        };
        drop(answered);
        // The child is waited for behind this: until then its number is nobody else's.
        let _ = watcher.join();
        let Some(FromAgent::Hello(hello)) = answer else {
            drop(out);
            return failed(self.why_not(child));
        };
        if hello.protocol != PROTOCOL {
            let _ = child.kill();
            let _ = child.wait();
            return failed(format!(
                "nearsh {} on {} speaks another protocol than this one ({} and {PROTOCOL})",
                hello.version, self.name, hello.protocol
            ));
        }
        let connection = Arc::new(Connection {
            out,
            busy: Mutex::new(hello.busy),
            hello,
            groups: Mutex::default(),
            streams: Mutex::default(),
            heard: AtomicU64::new(0),
            is_lost: AtomicBool::new(false),
            since: Instant::now(),
            took: begun.elapsed(),
            round_trips: Mutex::default(),
            asked: AtomicU64::new(0),
            down: AtomicU64::new(0),
            burst: Mutex::default(),
            different: Mutex::default(),
            worked: AtomicU64::new(0),
            // Others may be waiting for a node that nobody uses.
            keep: (Placement::read(&self.name)).map(|_| Config::of_this_process(None).keep()),
        });
        connection.ask();
        self.failures.store(0, Ordering::Relaxed);
        self.become_(State::Open(connection.clone()));
        let watched = Arc::new(Mutex::new(child));
        {
            let (connection, watched) = (Arc::downgrade(&connection), watched.clone());
            let host = self.clone();
            std::thread::spawn(move || {
                for times in 0..ROUND_TRIPS_FIRST {
                    std::thread::sleep(ROUND_TRIP_PAUSE * (1 << times));
                    if let Some(connection) = connection.upgrade() {
                        connection.ask();
                    }
                }
                while let Some(connection) = connection.upgrade() {
                    if connection.is_silent() || host.gives_up(&connection) {
                        let _ = locked(&watched).kill();
                        return;
                    }
                    drop(connection);
                    std::thread::sleep(ASKING);
                }
            });
        }
        connection.listen(&mut from);
        // Nobody finds it any more, then everybody on it is told.
        let mut state = locked(&self.state);
        if matches!(&*state, State::Open(open) if Arc::ptr_eq(open, &connection)) {
            *state = State::Closed;
        }
        drop(state);
        self.changed.notify_all();
        connection.lost(&format!("the connection to {} was cut", self.name));
        let mut child = locked(&watched);
        let _ = child.kill();
        let _ = child.wait();
    }

    /// Ends a connection that nobody has needed for too long; no: it is kept. From then on nobody finds it.
    fn gives_up(&self, connection: &Arc<Connection>) -> bool {
        let mut state = locked(&self.state);
        // Who has found it before, and has not begun yet, holds it besides its thread, its watcher and the state.
        let is_free = Arc::strong_count(connection) <= 3 && connection.is_idle();
        let gives_up =
            is_free && matches!(&*state, State::Open(open) if Arc::ptr_eq(open, connection));
        if gives_up {
            *state = State::Closed;
        }
        gives_up
    }

    /// Waits a little for the first measurement of a connection's round trip.
    pub fn wait_for_round_trip(&self) {
        let until = Instant::now() + Duration::from_secs(1);
        let lacks = || {
            let known = self.known();
            known.is_open && known.round_trip_s.is_none()
        };
        while lacks() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What ssh or srun, or the shell at its other end, had to say.
    fn why_not(&self, mut child: Child) -> String {
        let _ = child.kill();
        let said = child.wait_with_output().map(|output| output.stderr);
        let said = said.unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rfind(|line| !line.trim().is_empty());
        match last {
            Some(line) => format!("no agent on {}: {line}", self.name),
            None => format!("no agent on {}: nothing was said", self.name),
        }
    }
}

impl Connection {
    /// A group begins: messages about its job and frames of its streams go to it.
    pub fn enter(&self, job: u32, streams: &[u32], group: &Arc<Group>, leg: usize) {
        let of = (group.clone(), leg);
        locked(&self.groups).insert(job, of.clone());
        locked(&self.streams).extend(streams.iter().map(|&number| (number, of.clone())));
        // The connection may have been lost before it was in the list of those who are told.
        if self.is_lost.load(Ordering::SeqCst) {
            group.lost("the connection was cut");
        }
    }

    /// A group has ended.
    pub fn leave(&self, job: u32, streams: &[u32]) {
        self.worked
            .store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
        let is_idle = {
            let mut groups = locked(&self.groups);
            groups.remove(&job);
            groups.is_empty()
        };
        if is_idle {
            *locked(&self.burst) = None;
        }
        let mut known = locked(&self.streams);
        for number in streams {
            known.remove(number);
        }
    }

    /// How busy the machine is. What ran for us and has ended counts no more, although its agent, who looks twice in a second, may not have told it:
    /// the commands of a script follow each other at once.
    fn busy(&self) -> Busy {
        let told = *locked(&self.busy);
        let own = if self.is_working() { told.own } else { 0 };
        Busy { own, ..told }
    }

    /// Whether anything runs for us.
    pub fn is_working(&self) -> bool {
        !locked(&self.groups).is_empty()
    }

    fn listen(&self, from: &mut impl std::io::Read) {
        while let Ok(Some(frame)) = Frame::read(from) {
            self.heard
                .store(self.since.elapsed().as_millis() as u64, Ordering::Relaxed);
            if let Frame::Message(payload) = &frame {
                match Frame::message(payload) {
                    Ok(message) => self.hear(message),
                    Err(_) => return,
                }
            }
            if let Frame::Data(_, bytes) = &frame {
                self.came(bytes.len());
            }
            let of = frame
                .stream()
                .and_then(|number| locked(&self.streams).get(&number).cloned());
            if let Some((group, leg)) = of {
                group.pass(leg, frame);
            }
        }
    }

    fn hear(&self, message: FromAgent) {
        let job = match &message {
            FromAgent::Pong(asked) => return self.answered(*asked),
            FromAgent::Busy(busy) => return *locked(&self.busy) = *busy,
            FromAgent::Hello(_) | FromAgent::Compared(_) => return,
            FromAgent::Started { job, .. }
            | FromAgent::Refused { job, .. }
            | FromAgent::Failed { job, .. }
            | FromAgent::Exited { job, .. }
            | FromAgent::Joined { job, .. } => *job,
        };
        let of = locked(&self.groups).get(&job).cloned();
        if let Some((group, leg)) = of {
            group.hear(leg, message);
        }
    }

    /// A command was found to be another one there.
    pub fn differs(&self, command: &str) {
        let mut different = locked(&self.different);
        if !different.iter().any(|known| known == command) {
            different.push(command.to_owned());
        }
    }

    /// Measures the round trip anew, if that was not done lately: the first may have been taken while the other end was still busy with beginning.
    pub fn measure(&self) {
        let asked = Duration::from_micros(self.asked.load(Ordering::Relaxed));
        if self.since.elapsed().saturating_sub(asked) > ASKING {
            self.ask();
        }
    }

    fn ask(&self) {
        let now = self.since.elapsed().as_micros() as u64;
        self.asked.store(now, Ordering::Relaxed);
        // What it is asked comes back: when that was.
        self.out.tell(&ToAgent::Ping(now as u32));
    }

    fn answered(&self, asked: u32) {
        let now = self.since.elapsed().as_micros() as u32;
        let took = u64::from(now.wrapping_sub(asked).max(1));
        let mut round_trips = locked(&self.round_trips);
        if round_trips.len() >= ROUND_TRIPS {
            round_trips.pop_front();
        }
        round_trips.push_back(took);
    }

    /// So many bytes came. How fast they come at best, some megabytes at a time, is what the line can do: often they come as slowly as they are made.
    fn came(&self, bytes: usize) {
        let mut burst = locked(&self.burst);
        let Some((since, sum)) = &mut *burst else {
            *burst = Some((Instant::now(), 0));
            return;
        };
        *sum += bytes as u64;
        if *sum >= SEEN_MIN {
            let micros = (since.elapsed().as_micros() as u64).max(1);
            let speed = sum.saturating_mul(1_000_000) / micros;
            self.down.fetch_max(speed, Ordering::Relaxed);
            *burst = None;
        }
    }

    fn lost(&self, why: &str) {
        self.is_lost.store(true, Ordering::SeqCst);
        let groups: Vec<_> = locked(&self.groups)
            .drain()
            .map(|(_, (group, _))| group)
            .collect();
        locked(&self.streams).clear();
        for group in groups {
            group.lost(why);
        }
    }

    /// Whether it has had nothing to do for longer than it is kept.
    fn is_idle(&self) -> bool {
        let worked = Duration::from_millis(self.worked.load(Ordering::Relaxed));
        let rests = self.since.elapsed().saturating_sub(worked);
        !self.is_working() && self.keep.is_some_and(|keep| rests > keep)
    }

    /// Whether nothing has come for too long; asks if nothing has come lately.
    fn is_silent(&self) -> bool {
        let heard = Duration::from_millis(self.heard.load(Ordering::Relaxed));
        let quiet = self.since.elapsed().saturating_sub(heard);
        if !self.is_working() || quiet < ASKING {
            // Whoever begins a job now has all the time.
            return false;
        }
        if quiet < SILENCE {
            self.ask();
        }
        quiet >= SILENCE
    }
}
