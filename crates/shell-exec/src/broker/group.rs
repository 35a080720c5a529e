//! Consecutive stages that run elsewhere together, and the helpers that stand for them here.
//!
//! The invariant: no helper's process ends before all of the group has: then each could still run its command here if the connection
//! is lost, with the pipes between them that the shell made and that nobody has used.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use shell_plan::annotation::Status;

use super::host::Connection;
use super::work::{Role, Stream};
use crate::combine;
use crate::flow::{Outgoing, PIPE_BYTES};
use crate::wire::{Ending, Frame, FromAgent, FromBroker, Job, Misfit, Record, ToAgent, Used};

/// A stage that runs elsewhere, and its helper.
pub struct Member {
    /// The way to the helper.
    pub helper: Outgoing,
    /// How it stands for the stage.
    pub role: Role,
}

/// What one host does for a group.
pub struct Leg {
    /// The connection to it.
    pub connection: Arc<Connection>,
    /// What it is to do.
    pub job: Job,
    /// Of each process, whose it is.
    pub member_of: Vec<usize>,
    /// Of each join, whose input (0) or output (1) it reads or writes, if it does.
    pub descriptor_of: Vec<Option<(usize, usize)>>,
    /// The host, for people.
    pub host: String,
}

/// What a group is to do.
pub struct Task {
    /// What each host does.
    pub legs: Vec<Leg>,
    /// The leg that is begun when all others have, if it cannot be done again.
    pub last: Option<usize>,
    /// Its stages.
    pub members: Vec<Member>,
    /// Streams from one leg to another.
    pub relays: Vec<(Stream, Stream)>,
    /// All of it may be run again from the beginning.
    pub again: bool,
    /// As in [`super::work::Work`].
    pub strict: Option<usize>,
    /// What is kept of it.
    pub record: Record,
    /// See there.
    pub otherwise: Otherwise,
    /// See there.
    pub learn: Learn,
}

/// A group.
pub struct Group {
    me: Weak<Group>,
    legs: Vec<Leg>,
    /// The leg that is begun when all others have.
    last: Option<usize>,
    members: Vec<Member>,
    /// Where each stream of a leg leads.
    routes: HashMap<Stream, Route>,
    again: bool,
    strict: Option<usize>,
    progress: Mutex<Progress>,
    record: Mutex<Record>,
    since: Instant,
    records: Arc<Records>,
    otherwise: Otherwise,
    learn: Learn,
}

/// What is done if something is otherwise than it was taken to be; whether the stages are to be planned again, or that is only to be remembered.
pub type Otherwise = Box<dyn Fn(Misfit, bool) + Send + Sync>;

/// Told at a good end what each stage has used, if that is known of all processes that were it.
pub type Learn = Box<dyn Fn(Vec<Option<Used>>) + Send + Sync>;

/// The other end of a stream.
#[derive(Clone, Copy)]
enum Route {
    /// A helper, and the stream's number there.
    Helper(usize, u32),
    /// Another leg, and the stream's number there.
    Leg(Stream),
}

/// What ran elsewhere lately.
#[derive(Default)]
pub struct Records(Mutex<VecDeque<Record>>);

impl Records {
    /// How many are kept.
    const MOST: usize = 1000;

    /// One more.
    pub fn add(&self, record: Record) {
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() >= Self::MOST {
            records.pop_front();
        }
        records.push_back(record);
    }

    /// All, oldest first.
    pub fn all(&self) -> Vec<Record> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        records.iter().cloned().collect()
    }
}

struct Progress {
    /// Which legs have begun.
    started: Vec<bool>,
    /// Whether helpers know that they stand for something elsewhere, and nothing waits that came for them before.
    is_open: bool,
    /// Whether what waits is on its way.
    is_opening: bool,
    /// What waits.
    unread: VecDeque<Told>,
    /// Of each member, whether its helper was sent output or messages of which it has not been asked whether they are written.
    unasked: Vec<[bool; 2]>,
    /// And how many of such questions it has not answered.
    asked: Vec<usize>,
    /// Which helpers answer no more: one whose output nobody reads stops to write.
    mute: Vec<bool>,
    /// How many questions there were.
    questions: u64,
    /// Whether somebody sees to it that nobody waits for ever.
    is_guarded: bool,
    /// Which helpers have heard it.
    taken: Vec<bool>,
    /// Which helpers are gone.
    gone: Vec<bool>,
    over: bool,
    /// Of each leg's processes, how they ended.
    endings: Vec<Vec<Option<Ending>>>,
    /// Of each member, what its processes have used.
    used: Vec<Option<Used>>,
    /// Of each leg's joins, whether they have.
    joined: Vec<Vec<bool>>,
    /// Whether somebody did not want all that a member's processes printed together.
    unread_output: Vec<bool>,
    /// Where each member's input and output ended.
    positions: Vec<[Option<u64>; 2]>,
    /// How each member has ended, while it is not known whether it has said something.
    ending: Vec<Option<Ending>>,
    /// Of each member, how many streams of messages have not ended.
    speaking: Vec<usize>,
    exited: Vec<bool>,
    written: Vec<bool>,
    /// Who has written messages.
    complains: Vec<bool>,
    /// What waits: messages, and that somebody has ended.
    held: Vec<(usize, Frame)>,
    held_bytes: usize,
    /// Whether nothing waits any more.
    is_told: bool,
}

impl Progress {
    fn is_asking(&self) -> bool {
        self.asked.iter().any(|&count| count > 0)
    }
}

/// What comes for helpers.
enum Told {
    /// From an agent, for whomever.
    Frame(usize, Frame),
    /// The same.
    Message(usize, FromAgent),
    /// For the helper of this member.
    Helper(usize, Frame),
}

/// Signals that users send to their commands, that are passed on, and that end: Hangup, Interrupt, Quit, User 1 and 2, Alarm, Terminated.
const PASSED_ON: [i32; 7] = [1, 2, 3, 10, 12, 14, 15];

/// How many bytes of messages wait, at most.
const HELD: usize = 64 << 10;

/// How long a message waits for output to be written, or output for a message, at least: who reads both may want the other first.
const MESSAGE: Duration = Duration::from_millis(200);

impl Group {
    /// A group that is about to begin: [`Group::begin`] is next.
    pub fn new(task: Task, records: &Arc<Records>) -> Arc<Group> {
        let Task {
            legs,
            last,
            members,
            relays,
            again,
            strict,
            record,
            otherwise,
            learn,
        } = task;
        let count = members.len();
        let of_helpers = members.iter().enumerate().flat_map(|(member, of)| {
            let streams = of.role.streams.iter().zip(1..);
            streams.map(move |(stream, number)| (*stream, Route::Helper(member, number)))
        });
        let of_relays = (relays.into_iter())
            .flat_map(|(from, to)| [(from, Route::Leg(to)), (to, Route::Leg(from))]);
        let routes = of_helpers.chain(of_relays).collect();
        let group = Arc::new_cyclic(|me| Group {
            me: me.clone(),
            routes,
            again,
            strict,
            progress: Mutex::new(Progress {
                started: vec![false; legs.len()],
                is_open: false,
                is_opening: false,
                unread: VecDeque::new(),
                unasked: vec![[false; 2]; count],
                asked: vec![0; count],
                mute: vec![false; count],
                questions: 0,
                is_guarded: false,
                taken: vec![false; count],
                gone: vec![false; count],
                over: false,
                endings: (legs.iter())
                    .map(|leg| vec![None; leg.job.processes.len()])
                    .collect(),
                used: vec![Some(Used::default()); count],
                joined: (legs.iter())
                    .map(|leg| vec![false; leg.job.joins.len()])
                    .collect(),
                unread_output: vec![false; count],
                positions: vec![[None; 2]; count],
                ending: vec![None; count],
                speaking: (members.iter())
                    .map(|member| member.role.stderr.streams.len())
                    .collect(),
                exited: vec![false; count],
                written: vec![false; count],
                complains: vec![false; count],
                held: Vec::new(),
                held_bytes: 0,
                is_told: !again,
            }),
            legs,
            last,
            members,
            record: Mutex::new(record),
            since: Instant::now(),
            records: records.clone(),
            otherwise,
            learn,
        });
        for (leg, of) in group.legs.iter().enumerate() {
            of.connection
                .enter(of.job.number, &group.streams(leg), &group, leg);
        }
        group
    }

    /// The hosts are told what to do. One that may leave something behind is told when all others have begun: should one refuse, nothing has happened.
    pub fn begin(&self) {
        for leg in &self.legs {
            leg.connection.measure();
        }
        let waits = |leg: usize| !self.again && self.legs.len() > 1 && self.last == Some(leg);
        for (leg, of) in self.legs.iter().enumerate() {
            if !waits(leg) {
                of.connection.out.tell(&ToAgent::Start(of.job.clone()));
            }
        }
    }

    fn streams(&self, leg: usize) -> Vec<u32> {
        let of = self.routes.keys().filter(|(of, _)| *of == leg);
        of.map(|(_, number)| *number).collect()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut Record)) {
        note(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// It is over: for those who ask what was.
    fn keep(&self, trouble: Option<&str>, is_lost: bool) {
        self.note(|record| {
            record.took = self.since.elapsed().as_micros() as u64;
            record.trouble = trouble.map(str::to_owned);
            record.is_lost = is_lost;
            self.records.add(record.clone());
        });
    }

    fn tell_all(&self, message: &FromBroker) {
        for member in &self.members {
            member.helper.tell(message);
        }
    }

    /// A message of a member, for its helper. It waits as long as nothing was given yet: what fails before that is run again here, and
    /// complains as it does here, whatever it was that it may not touch there, or that is called otherwise.
    fn says(&self, member: usize, stream: u32, bytes: Vec<u8>) {
        if self.again && has_other_name(&bytes) {
            self.abandon("it calls a file there by another name");
            return;
        }
        let mut progress = self.progress();
        if progress.is_told {
            drop(progress);
            self.tell(member, Frame::Data(stream, bytes));
            return;
        }
        progress.complains[member] = true;
        progress.held_bytes += bytes.len();
        progress.held.push((member, Frame::Data(stream, bytes)));
        if progress.held_bytes >= HELD {
            drop(progress);
            self.tell_held();
        }
    }

    /// Sends a helper what it is to write. Who writes what to one place does so in the order in which it came, or whoever reads that does not
    /// understand it: so a message waits until all that came before is written, and what comes behind it until it is.
    fn tell(&self, member: usize, frame: Frame) {
        let (Frame::Data(stream, _) | Frame::End(stream)) = frame else {
            self.members[member].helper.send(frame);
            return;
        };
        let is_message = self.is_error(member, stream);
        let is_end = matches!(frame, Frame::End(_));
        let mut progress = self.progress();
        if is_message && !is_end {
            for other in 0..self.members.len() {
                self.ask(&mut progress, other, 0);
                self.ask(&mut progress, other, 1);
            }
            if progress.is_asking() {
                progress.unread.push_front(Told::Helper(member, frame));
                self.wait(&mut progress);
                return;
            }
        }
        let side = usize::from(is_message);
        if is_end {
            // Nobody answers for it behind that.
            self.ask(&mut progress, member, side);
        } else {
            progress.unasked[member][side] = true;
        }
        self.members[member].helper.send(frame);
        if is_message && !is_end {
            self.ask(&mut progress, member, side);
            if progress.is_asking() {
                self.wait(&mut progress);
            }
        }
    }

    /// Has everything wait for answers.
    fn wait(&self, progress: &mut Progress) {
        progress.is_open = false;
        if !std::mem::replace(&mut progress.is_guarded, true) {
            let group = self.me.clone();
            std::thread::spawn(move || guard(&group));
        }
    }

    /// Asks a helper to say when all is written that it was sent so far for its output (0) or messages (1).
    fn ask(&self, progress: &mut Progress, member: usize, side: usize) {
        let role = &self.members[member].role;
        let output = [&role.stdout, &role.stderr][side];
        if !std::mem::take(&mut progress.unasked[member][side]) || progress.mute[member] {
            return;
        }
        // Of several that become one nobody knows when they are written.
        let ([stream], None) = (output.streams.as_slice(), &output.how) else {
            return;
        };
        progress.asked[member] += 1;
        progress.questions += 1;
        let question = Frame::Data(*stream, Vec::new());
        self.members[member].helper.send(question);
    }

    /// A helper has written what it was asked for; or it writes no more, whatever it was asked.
    fn answered(&self, member: usize, is_last: bool) {
        {
            let mut progress = self.progress();
            progress.mute[member] |= is_last;
            let before = progress.asked[member];
            progress.asked[member] = if is_last { 0 } else { before.saturating_sub(1) };
            if before == 0 || progress.is_asking() {
                return;
            }
        }
        self.open();
    }

    /// One of a member's streams of messages has ended.
    fn ends_message(&self, member: usize, stream: u32) {
        {
            let mut progress = self.progress();
            progress.speaking[member] = progress.speaking[member].saturating_sub(1);
            if !progress.is_told {
                progress.held.push((member, Frame::End(stream)));
                drop(progress);
                self.judge(member);
                return;
            }
        }
        self.tell(member, Frame::End(stream));
        self.judge(member);
    }

    fn is_error(&self, member: usize, stream: u32) -> bool {
        self.members[member].role.stderr.streams.contains(&stream)
    }

    /// What waited is passed on, and nothing waits from now on.
    fn tell_held(&self) {
        {
            let mut progress = self.progress();
            progress.is_told = true;
            progress.is_open = false;
            for (member, frame) in std::mem::take(&mut progress.held).into_iter().rev() {
                progress.unread.push_front(Told::Helper(member, frame));
            }
        }
        for member in 0..self.members.len() {
            self.judge(member);
        }
        self.open();
    }

    /// A frame from an agent, for one of the helpers or another agent.
    pub fn pass(&self, leg: usize, frame: Frame) {
        if let Some(Told::Frame(leg, frame)) = self.opened(Told::Frame(leg, frame)) {
            self.deliver(leg, frame);
        }
    }

    /// What came, unless it has to wait because a host has not begun yet: helpers must hear first that they stand for something. Or because
    /// something that came before is not written yet.
    fn opened(&self, told: Told) -> Option<Told> {
        let mut progress = self.progress();
        if progress.is_open {
            return Some(told);
        }
        if !progress.over {
            progress.unread.push_back(told);
        }
        None
    }

    /// What has waited goes on its way, in the order in which it came, and what comes from now on does not wait.
    fn open(&self) {
        if std::mem::replace(&mut self.progress().is_opening, true) {
            return;
        }
        loop {
            let mut progress = self.progress();
            if progress.over {
                progress.unread.clear();
            }
            let next = if progress.is_asking() {
                self.wait(&mut progress);
                None
            } else {
                progress.is_open = progress.unread.is_empty();
                progress.unread.pop_front()
            };
            progress.is_opening = next.is_some();
            drop(progress);
            match next {
                None => return,
                Some(Told::Frame(leg, frame)) => self.deliver(leg, frame),
                Some(Told::Message(leg, message)) => self.take(leg, message),
                Some(Told::Helper(member, frame)) => self.tell(member, frame),
            }
        }
    }

    fn deliver(&self, leg: usize, frame: Frame) {
        let Some(number) = frame.stream() else {
            return;
        };
        let bytes = match &frame {
            Frame::Data(_, bytes) => bytes.len() as u64,
            _ => 0,
        };
        match self.routes.get(&(leg, number)) {
            None => {}
            Some(&Route::Leg((to, stream))) => {
                self.note(|record| {
                    record.came += bytes;
                    record.went += bytes;
                });
                self.legs[to].connection.out.send(frame.renumbered(stream));
            }
            Some(&Route::Helper(member, stream)) => {
                let is_error = self.is_error(member, stream);
                let is_first = bytes > 0 && !is_error && !self.progress().is_told;
                if is_first {
                    self.progress().unread.push_front(Told::Frame(leg, frame));
                    self.tell_held();
                    return;
                }
                self.note(|record| record.came += bytes);
                match frame {
                    Frame::Data(_, bytes) if is_error => self.says(member, stream, bytes),
                    Frame::End(_) if is_error => self.ends_message(member, stream),
                    frame => self.tell(member, frame.renumbered(stream)),
                }
            }
        }
    }

    /// A frame from a helper, for the agent.
    pub fn pass_back(&self, member: usize, frame: Frame) {
        let Some(number) = frame.stream() else {
            return;
        };
        if let Frame::Data(_, bytes) = &frame {
            self.note(|record| record.went += bytes.len() as u64);
        }
        match &frame {
            Frame::Data(_, bytes) if bytes.is_empty() => {
                self.answered(member, false);
                return;
            }
            Frame::Reset(_) => self.answered(member, true),
            _ => {}
        }
        let index = number.wrapping_sub(1) as usize;
        let stream = self.members[member].role.streams.get(index);
        if let Some(&(leg, stream)) = stream {
            self.legs[leg].connection.out.send(frame.renumbered(stream));
        }
    }

    /// What an agent says of its job.
    pub fn hear(&self, leg: usize, message: FromAgent) {
        match message {
            FromAgent::Started { .. } => self.started(leg),
            FromAgent::Failed { why, .. } => self.abandon(&why),
            FromAgent::Refused {
                why,
                different,
                misfit,
                ..
            } => {
                if let Some(command) = different {
                    self.legs[leg].connection.differs(&command);
                }
                if std::mem::replace(&mut self.progress().over, true) {
                    return;
                }
                self.cancel();
                self.keep(Some(&why), false);
                match misfit {
                    Some(misfit) => (self.otherwise)(misfit, true),
                    None => self.tell_all(&FromBroker::Local { why }),
                }
            }
            message => {
                let told = self.opened(Told::Message(leg, message));
                if let Some(Told::Message(leg, message)) = told {
                    self.take(leg, message);
                }
            }
        }
    }

    /// What an agent says of a process or a join that has ended.
    fn take(&self, leg: usize, message: FromAgent) {
        match message {
            FromAgent::Exited {
                process,
                ending,
                positions,
                used,
                ..
            } => {
                self.count(leg, process as usize, ending, used);
                self.ended(leg, process as usize, ending, positions);
            }
            FromAgent::Joined {
                join,
                position,
                trouble,
                is_unread,
                ..
            } => self.joined(leg, join as usize, position, trouble, is_unread),
            FromAgent::Started { .. }
            | FromAgent::Refused { .. }
            | FromAgent::Failed { .. }
            | FromAgent::Hello(_)
            | FromAgent::Pong(_)
            | FromAgent::Load(_)
            | FromAgent::Compared(_) => {}
        }
    }

    /// A leg has begun.
    fn started(&self, leg: usize) {
        let mut progress = self.progress();
        if progress.over {
            return;
        }
        progress.started[leg] = true;
        let missing: Vec<usize> = (0..self.legs.len())
            .filter(|&leg| !progress.started[leg])
            .collect();
        match missing.as_slice() {
            [] => {
                let mut hosts: Vec<&str> = Vec::new();
                for leg in &self.legs {
                    if !hosts.contains(&leg.host.as_str()) {
                        hosts.push(&leg.host);
                    }
                }
                for (number, member) in self.members.iter().enumerate() {
                    let Role {
                        stdin,
                        stdout,
                        stderr,
                        files,
                        ..
                    } = member.role.clone();
                    member.helper.tell(&FromBroker::Remote {
                        host: hosts.join(", "),
                        stdin,
                        stdout,
                        stderr,
                        files,
                        again: self.again,
                        is_last: number + 1 == self.members.len(),
                    });
                }
                drop(progress);
                self.open();
            }
            [only] if self.last == Some(*only) && !self.again && leg != *only => {
                let of = &self.legs[*only];
                of.connection.out.tell(&ToAgent::Start(of.job.clone()));
            }
            _ => {}
        }
    }

    /// What a process has used is added to its stage's. One that somebody has killed says nothing of the next.
    fn count(&self, leg: usize, process: usize, ending: Ending, used: Option<Used>) {
        let Some(&member) = self.legs[leg].member_of.get(process) else {
            return;
        };
        let is_well = matches!(ending, Ending::Status(0 | 1) | Ending::Signal(13));
        let sum = &mut self.progress().used[member];
        *sum = match (*sum, used.filter(|_| is_well)) {
            (Some(sum), Some(used)) => Some(Used {
                read: sum.read + used.read,
                written: sum.written + used.written,
                micros: sum.micros + used.micros,
            }),
            _ => None,
        };
    }

    /// A process has ended; with the last of a member's, that has.
    fn ended(&self, leg: usize, process: usize, ending: Ending, positions: [Option<u64>; 2]) {
        let Some(&member) = self.legs[leg].member_of.get(process) else {
            return;
        };
        // A reader that has enough ends them, too.
        let is_well = matches!(ending, Ending::Status(0) | Ending::Signal(13));
        // One of several that somebody else has killed has left out what the others have no part in.
        let own = self.legs.iter().flat_map(|leg| &leg.member_of);
        let is_part = own.filter(|of| **of == member).count() > 1;
        let is_killed = matches!(ending, Ending::Signal(signal) if !PASSED_ON.contains(&signal));
        let is_ours = self.progress().gone[member];
        let is_broken = is_part && is_killed && !is_well && !is_ours;
        if (self.strict == Some(member) && !is_well || is_broken) && self.again {
            self.abandon("a part of it failed there");
            return;
        }
        let ending = {
            let mut progress = self.progress();
            progress.endings[leg][process] = Some(ending);
            let moves = [self.members[member].role.moves_input, true];
            for (side, position) in positions.into_iter().enumerate() {
                let position = position.filter(|_| moves[side]);
                let known = &mut progress.positions[member][side];
                *known = (*known).max(position);
            }
            let mut all = Vec::new();
            for (of, endings) in self.legs.iter().zip(&progress.endings) {
                let own = of.member_of.iter().zip(endings);
                all.extend(own.filter(|(of, _)| **of == member).map(|(_, e)| *e));
            }
            let all: Option<Vec<Ending>> = all.into_iter().collect();
            all.map(|all| together(self.members[member].role.status, &all))
        };
        if let Some(ending) = ending {
            self.progress().ending[member] = Some(ending);
            self.judge(member);
        }
    }

    /// Whether all that puts together what a member's processes print has ended.
    fn has_joined(&self, progress: &Progress, member: usize) -> bool {
        let legs = self.legs.iter().zip(&progress.joined);
        let mut joins = legs.flat_map(|(leg, joined)| leg.descriptor_of.iter().zip(joined));
        joins.all(|(of, &is)| is || *of != Some((member, 1)))
    }

    /// Sees what a member's end means, if it has ended and all that it says is known, or matters no more.
    fn judge(&self, member: usize) {
        let ending = {
            let mut progress = self.progress();
            if !progress.is_told && progress.speaking[member] > 0
                || !self.has_joined(&progress, member)
            {
                return;
            }
            // What one process writes waits for its reader when the pipe is full, and one that ends without having read it ends the process.
            let written = progress.used[member].map_or(0, |used| used.written);
            let is_ended = progress.unread_output[member] && written > PIPE_BYTES as u64;
            let ending = progress.ending[member].take();
            let by_pipe = Ending::Signal(nix::sys::signal::Signal::SIGPIPE as i32);
            ending.map(|ending| if is_ended { by_pipe } else { ending })
        };
        if let Some(ending) = ending {
            self.exited(member, ending);
        }
    }

    /// A join has ended.
    fn joined(
        &self,
        leg: usize,
        join: usize,
        position: Option<u64>,
        trouble: Option<String>,
        is_unread: bool,
    ) {
        if let Some(why) = trouble {
            (self.otherwise)(Misfit::Apart, false);
            self.abandon(&why);
            return;
        }
        let descriptor = self.legs[leg].descriptor_of.get(join).copied().flatten();
        {
            let mut progress = self.progress();
            let Some(joined) = progress.joined[leg].get_mut(join) else {
                return;
            };
            *joined = true;
            if let Some((member, side)) = descriptor {
                let known = &mut progress.positions[member][side];
                *known = (*known).max(position);
                progress.unread_output[member] |= side == 1 && is_unread;
            }
        }
        if let Some((member, 1)) = descriptor {
            self.judge(member);
        }
        self.settle();
        self.perhaps_over();
    }

    fn exited(&self, member: usize, ending: Ending) {
        let fails = {
            let mut progress = self.progress();
            progress.exited[member] = true;
            // 126 and 127 are what our own program says of a command that could not be run, too.
            let is_ours = matches!(ending, Ending::Status(126 | 127));
            let failed = is_ours || ending != Ending::Status(0) && progress.complains[member];
            failed && !progress.is_told && !progress.over
        };
        if fails && self.again {
            self.abandon("it failed there before it had given anything");
            return;
        }
        {
            let mut progress = self.progress();
            let exited = Frame::of(&FromBroker::Exited { ending });
            if progress.is_told {
                self.members[member].helper.send(exited);
            } else {
                progress.held.push((member, exited));
            }
        }
        self.settle();
        self.perhaps_over();
    }

    /// What waits is passed on if nothing more can come that would make it wrong.
    fn settle(&self) {
        let is_settled = {
            let progress = self.progress();
            let mut joined = progress.joined.iter().flatten();
            progress.exited.iter().all(|&is| is) && joined.all(|&is| is)
        };
        if is_settled {
            self.tell_held();
        }
    }

    /// All of it is to run here.
    pub fn abandon(&self, why: &str) {
        let has_begun = {
            let mut progress = self.progress();
            if std::mem::replace(&mut progress.over, true) {
                return;
            }
            progress.started.iter().all(|&is| is)
        };
        self.cancel();
        self.keep(Some(why), has_begun && !self.again);
        self.tell_all(&FromBroker::Lost(why.to_owned()));
    }

    /// What still runs is ended, and nothing of it is heard any more.
    fn cancel(&self) {
        for (leg, of) in self.legs.iter().enumerate() {
            let job = of.job.number;
            of.connection.out.tell(&ToAgent::Cancel { job });
            let streams = self.streams(leg);
            for &number in &streams {
                // Of those that come here the one counts, of the others the other.
                of.connection.out.send(Frame::Reset(number));
                of.connection.out.send(Frame::End(number));
            }
            of.connection.leave(job, &streams);
        }
    }

    /// A helper has heard that it stands for something elsewhere.
    pub fn taken(&self, member: usize) {
        self.progress().taken[member] = true;
    }

    /// A helper has written all that there was.
    pub fn written(&self, member: usize) {
        self.progress().written[member] = true;
        self.perhaps_over();
    }

    /// A helper has got a signal.
    pub fn signal(&self, member: usize, signal: i32) {
        for of in &self.legs {
            let own = of.member_of.iter().enumerate();
            for (process, _) in own.filter(|(_, is)| **is == member) {
                of.connection.out.tell(&ToAgent::Signal {
                    job: of.job.number,
                    process: process as u32,
                    signal,
                });
            }
        }
    }

    /// A helper is gone, killed most likely.
    pub fn gone(&self, member: usize) {
        let is_taken = {
            let mut progress = self.progress();
            if progress.over {
                return;
            }
            progress.written[member] = true;
            progress.gone[member] = true;
            progress.taken[member]
        };
        if is_taken {
            self.answered(member, true);
            self.kill(member);
            self.perhaps_over();
        } else {
            // It may run here by now, with the shell's pipes: so must the others.
            self.abandon("a stage of it is gone");
        }
    }

    fn kill(&self, member: usize) {
        self.signal(member, nix::sys::signal::Signal::SIGKILL as i32);
        let role = &self.members[member].role;
        for (&(leg, number), stream) in role.streams.iter().zip(1..) {
            let is_fed = role.stdin == Some(stream) || role.files.iter().any(|f| f.0 == stream);
            // What the processes still write is nobody's, and nothing more comes for them.
            let frame = if is_fed {
                Frame::End(number)
            } else {
                Frame::Reset(number)
            };
            self.legs[leg].connection.out.send(frame);
        }
    }

    fn perhaps_over(&self) {
        let (positions, used) = {
            let mut progress = self.progress();
            let all = |list: &[bool]| list.iter().all(|&is| is);
            let is_joined = progress.joined.iter().all(|joined| all(joined));
            if progress.over || !is_joined || !all(&progress.exited) || !all(&progress.written) {
                return;
            }
            progress.over = true;
            (progress.positions.clone(), progress.used.clone())
        };
        for (leg, of) in self.legs.iter().enumerate() {
            of.connection.leave(of.job.number, &self.streams(leg));
        }
        self.keep(None, false);
        (self.learn)(used);
        for (member, positions) in self.members.iter().zip(positions) {
            member.helper.tell(&FromBroker::Done { positions });
        }
    }

    /// A connection is lost.
    pub fn lost(&self, why: &str) {
        self.abandon(why);
    }
}

/// Ends the waiting for what is not written for long.
fn guard(group: &Weak<Group>) {
    let mut before = None;
    loop {
        std::thread::sleep(MESSAGE);
        let Some(group) = group.upgrade() else {
            return;
        };
        let is_stuck = {
            let mut progress = group.progress();
            if progress.over || !progress.is_asking() {
                progress.is_guarded = false;
                return;
            }
            let is_stuck = before == Some(progress.questions);
            before = Some(progress.questions);
            if is_stuck {
                progress.asked.fill(0);
            }
            is_stuck
        };
        if is_stuck {
            group.open();
        }
    }
}

/// Whether a message has the name of a file that was sent there, which is no name of the user's.
fn has_other_name(bytes: &[u8]) -> bool {
    bytes.windows(8).any(|part| part == b"/dev/fd/")
}

/// How processes that are one stage ended, as one would have.
fn together(status: Status, endings: &[Ending]) -> Ending {
    if let [only] = endings {
        return *only;
    }
    let numbers: Vec<i32> = (endings.iter())
        .map(|ending| match ending {
            Ending::Status(status) => i32::from(*status),
            Ending::Signal(signal) => 128 + signal,
        })
        .collect();
    let whole = combine::status(status, &numbers);
    let by_signal = |ending: &&Ending| matches!(ending, Ending::Signal(s) if 128 + s == whole);
    let signal = endings.iter().find(by_signal);
    signal.copied().unwrap_or(Ending::Status(whole as u8))
}
