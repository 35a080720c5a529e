//! Consecutive stages that run elsewhere together, and the helpers that stand for them here.
//!
//! The invariant: no helper's process ends before all of the group has: then each could still run its command here if the connection
//! is lost, with the pipes between them that the shell made and that nobody has used.

mod ends;
mod order;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::host::Connection;
use super::work::{Role, Stream};
use crate::flow::Outgoing;
use crate::slurm;
use crate::wire::{
    Ending, Frame, FromAgent, FromBroker, Job, Misfit, Record, Standing, ToAgent, Used,
};
use ends::Ends;
use order::{Order, Told};

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
    progress: Mutex<Progress>,
    since: Instant,
    records: Arc<Records>,
    otherwise: Otherwise,
    learn: Learn,
}

/// What a plan should have known.
pub enum Correction {
    /// Something is not as it was taken to be.
    Misfit(Misfit),
    /// This host cannot do its part, and others have the same files.
    Without(String),
}

/// What is done then; whether the stages are to be planned again, or that is only to be remembered.
pub type Otherwise = Box<dyn Fn(Correction, bool) + Send + Sync>;

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
    /// Files that legs have opened in parts, and their inodes: those of one name must be one.
    opened: HashMap<Vec<u8>, u64>,
    /// For each member, permissions of what it may have changed.
    modes: Vec<HashMap<Vec<u8>, u32>>,
    order: Order,
    ends: Ends,
    /// Whether somebody sees to it that nobody waits for ever.
    is_guarded: bool,
    /// Which helpers have heard that they stand for something.
    taken: Vec<bool>,
    /// Which helpers have written all.
    written: Vec<bool>,
    over: bool,
    record: Record,
}

/// Why all of a group is to run here.
struct Abandoned(String);

/// What a step of a group comes to.
type Step = Result<(), Abandoned>;

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
        let roles = || members.iter().map(|member| &member.role);
        let (order, ends) = (
            Order::new(roles(), again),
            Ends::new(&legs, roles(), strict),
        );
        let group = Arc::new_cyclic(|me| Group {
            me: me.clone(),
            routes,
            again,
            progress: Mutex::new(Progress {
                started: vec![false; legs.len()],
                opened: HashMap::new(),
                modes: vec![HashMap::new(); count],
                order,
                ends,
                is_guarded: false,
                taken: vec![false; count],
                written: vec![false; count],
                over: false,
                record,
            }),
            legs,
            last,
            since: Instant::now(),
            records: records.clone(),
            otherwise,
            learn,
            members,
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

    /// It is over: for those who ask what was.
    fn keep(&self, progress: &mut Progress, trouble: Option<&str>, is_lost: bool) {
        let record = &mut progress.record;
        record.took = self.since.elapsed().as_micros() as u64;
        record.trouble = trouble.map(str::to_owned);
        record.is_lost = is_lost;
        self.records.add(record.clone());
    }

    fn tell_all(&self, message: &FromBroker) {
        for member in &self.members {
            member.helper.tell(message);
        }
    }

    /// A frame from an agent, for one of the helpers or another agent.
    pub fn pass(&self, leg: usize, frame: Frame) {
        self.step(|progress| progress.order.push(Told::Frame(leg, frame)));
    }

    /// Does something, and then all that can be done of what has come.
    fn step(&self, first: impl FnOnce(&mut Progress)) {
        let mut progress = self.progress();
        if progress.over {
            return;
        }
        first(&mut progress);
        let done = self.go_on(&mut progress);
        drop(progress);
        match done {
            Ok(()) => self.perhaps_over(),
            Err(Abandoned(why)) => self.abandon(&why),
        }
    }

    /// What has come goes on its way, in the order in which it came.
    fn go_on(&self, progress: &mut Progress) -> Step {
        while let Some(told) = progress.order.next() {
            match told {
                Told::Frame(leg, frame) => self.deliver(progress, leg, frame)?,
                Told::Message(leg, message) => self.take(progress, leg, message)?,
                Told::Helper(member, frame) => self.tell(progress, member, frame),
            }
        }
        if progress.order.is_stopped() && !std::mem::replace(&mut progress.is_guarded, true) {
            let group = self.me.clone();
            std::thread::spawn(move || guard(&group));
        }
        Ok(())
    }

    fn tell(&self, progress: &mut Progress, member: usize, frame: Frame) {
        let mut send = |member: usize, frame| self.members[member].helper.send(frame);
        progress.order.tell(member, frame, &mut send);
    }

    fn deliver(&self, progress: &mut Progress, leg: usize, frame: Frame) -> Step {
        let Some(number) = frame.stream() else {
            return Ok(());
        };
        let bytes = match &frame {
            Frame::Data(_, bytes) => bytes.len() as u64,
            _ => 0,
        };
        match self.routes.get(&(leg, number)) {
            None => {}
            Some(&Route::Leg((to, stream))) => {
                progress.record.came += bytes;
                progress.record.went += bytes;
                self.legs[to].connection.out.send(frame.renumbered(stream));
            }
            Some(&Route::Helper(member, stream)) => {
                let is_message = progress.order.is_message(member, stream);
                let frame = frame.renumbered(stream);
                if progress.order.gives(member, &frame) && progress.order.is_holding() {
                    progress
                        .order
                        .put_back(Told::Frame(leg, frame.renumbered(number)));
                    return self.tell_held(progress);
                }
                progress.record.came += bytes;
                match frame {
                    Frame::Data(_, bytes) if is_message => {
                        self.says(progress, member, stream, bytes)?;
                    }
                    Frame::End(_) if is_message => {
                        progress.ends.says_no_more(member);
                        let held = progress.order.hold(member, Frame::End(stream));
                        if let Some(frame) = held {
                            self.tell(progress, member, frame);
                        }
                        self.judge(progress, member)?;
                    }
                    frame => self.tell(progress, member, frame),
                }
            }
        }
        Ok(())
    }

    /// A message of a member, for its helper. It is held back as long as nothing was given yet: what fails before that is run again here, and
    /// complains as it does here, whatever it was that it may not touch there, or that is called otherwise.
    fn says(&self, progress: &mut Progress, member: usize, stream: u32, bytes: Vec<u8>) -> Step {
        let role = &self.members[member].role;
        if role.is_silent || self.counts_records(member) {
            (self.otherwise)(Correction::Misfit(Misfit::Apart), false);
            return Err(Abandoned("a part of it complains".into()));
        }
        if self.again && has_other_name(&bytes) {
            return Err(Abandoned("it calls a file there by another name".into()));
        }
        let frame = Frame::Data(stream, bytes);
        if let Some(frame) = progress.order.hold(member, frame) {
            self.tell(progress, member, frame);
        } else if progress.order.holds_enough() {
            self.tell_held(progress)?;
        }
        Ok(())
    }

    /// Whether what a member complains of is of no use: here it would be said otherwise, and it can be run again for that.
    fn counts_records(&self, member: usize) -> bool {
        self.again && self.members[member].role.counts_records
    }

    /// What was held back is passed on, and nothing is held back from now on.
    fn tell_held(&self, progress: &mut Progress) -> Step {
        progress.order.release();
        for member in 0..self.members.len() {
            self.judge(progress, member)?;
        }
        Ok(())
    }

    /// A frame from a helper, for the agent.
    pub fn pass_back(&self, member: usize, frame: Frame) {
        let Some(number) = frame.stream() else {
            return;
        };
        match &frame {
            Frame::Data(_, bytes) if bytes.is_empty() => {
                self.step(|progress| progress.order.answered(member));
                return;
            }
            Frame::Data(_, bytes) => self.progress().record.went += bytes.len() as u64,
            Frame::Reset(_) => self.step(|progress| progress.order.falls_silent(member)),
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
            FromAgent::Started { files, .. } => self.started(leg, files),
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
                if !self.end(Some(&why), false) {
                    return;
                }
                self.cancel();
                let host = &self.legs[leg].host;
                match misfit {
                    Some(misfit) => (self.otherwise)(Correction::Misfit(misfit), true),
                    None if slurm::is_further(host) => {
                        (self.otherwise)(Correction::Without(host.clone()), true);
                    }
                    None => self.tell_all(&FromBroker::Local { why }),
                }
            }
            message => self.step(|progress| progress.order.push(Told::Message(leg, message))),
        }
    }

    /// What an agent says of a process or a join that has ended.
    fn take(&self, progress: &mut Progress, leg: usize, message: FromAgent) -> Step {
        match message {
            FromAgent::Exited {
                process,
                ending,
                positions,
                used,
                modes,
                ..
            } => {
                let at = (leg, process as usize);
                if let Some(&member) = self.legs[leg].member_of.get(process as usize) {
                    progress.modes[member].extend(modes);
                }
                let exited = progress.ends.exited(at, ending, positions, used);
                self.has_part_ended(progress, exited)
            }
            FromAgent::Joined {
                join,
                position,
                trouble,
                is_unread,
                ..
            } => {
                if let Some(why) = trouble {
                    (self.otherwise)(Correction::Misfit(Misfit::Apart), false);
                    return Err(Abandoned(why));
                }
                let joined = progress
                    .ends
                    .joined((leg, join as usize), position, is_unread);
                self.has_part_ended(progress, joined)
            }
            FromAgent::Started { .. }
            | FromAgent::Refused { .. }
            | FromAgent::Failed { .. }
            | FromAgent::Hello(_)
            | FromAgent::Pong(_)
            | FromAgent::Busy(_)
            | FromAgent::Compared(_) => Ok(()),
        }
    }

    /// A part of a member has ended, and whether as no one process would have.
    fn has_part_ended(&self, progress: &mut Progress, of: Option<(usize, bool)>) -> Step {
        match of {
            Some((_, true)) if self.again => Err(Abandoned("a part of it failed there".into())),
            Some((member, _)) => self.judge(progress, member),
            None => self.settle(progress),
        }
    }

    /// A leg has begun, and has opened these files.
    fn started(&self, leg: usize, files: Vec<(Vec<u8>, u64)>) {
        let mut progress = self.progress();
        if progress.over {
            return;
        }
        progress.started[leg] = true;
        for (path, inode) in files {
            if *progress.opened.entry(path).or_insert(inode) != inode {
                drop(progress);
                return self.abandon("a file was replaced by another meanwhile");
            }
        }
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
                    let role = &member.role;
                    member.helper.tell(&FromBroker::Remote(Standing {
                        host: hosts.join(", "),
                        stdin: role.stdin,
                        stdout: role.stdout.clone(),
                        stderr: role.stderr.clone(),
                        files: role.files.clone(),
                        again: self.again,
                        is_last: number + 1 == self.members.len(),
                    }));
                }
                drop(progress);
                self.step(|progress| progress.order.begin());
            }
            [only] if self.last == Some(*only) && !self.again && leg != *only => {
                let of = &self.legs[*only];
                of.connection.out.tell(&ToAgent::Start(of.job.clone()));
            }
            _ => {}
        }
    }

    /// Tells how a member has ended, if it has and all that it says is known, or matters no more.
    fn judge(&self, progress: &mut Progress, member: usize) -> Step {
        let waits = progress.order.is_holding() || self.counts_records(member);
        let ending = progress.ends.judge(member, waits);
        let Some(ending) = ending else {
            return self.settle(progress);
        };
        // 126 and 127 are what our own program says of a command that could not be run, too.
        let is_ours = matches!(ending, Ending::Status(126 | 127));
        let complains = progress.order.holds(member);
        let fails = is_ours || ending != Ending::Status(0) && complains;
        if fails && progress.order.is_holding() && self.again {
            return Err(Abandoned(
                "it failed there before it had given anything".into(),
            ));
        }
        let modes = std::mem::take(&mut progress.modes[member]);
        let exited = Frame::of(&FromBroker::Exited {
            ending,
            modes: modes.into_iter().collect(),
        });
        if let Some(exited) = progress.order.hold(member, exited) {
            self.members[member].helper.send(exited);
        }
        self.settle(progress)
    }

    /// What is held back is passed on if nothing more can come that would make it wrong.
    fn settle(&self, progress: &mut Progress) -> Step {
        if progress.order.is_holding() && progress.ends.are_all() {
            self.tell_held(progress)?;
        }
        Ok(())
    }

    /// It is over; no: it was before.
    fn end(&self, trouble: Option<&str>, can_be_lost: bool) -> bool {
        let mut progress = self.progress();
        if std::mem::replace(&mut progress.over, true) {
            return false;
        }
        let has_begun = progress.started.iter().all(|&is| is);
        let is_lost = can_be_lost && has_begun && !self.again;
        self.keep(&mut progress, trouble, is_lost);
        true
    }

    /// All of it is to run here.
    pub fn abandon(&self, why: &str) {
        if self.end(Some(why), true) {
            self.cancel();
            self.tell_all(&FromBroker::Lost(why.to_owned()));
        }
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
            progress.ends.gone(member);
            progress.order.falls_silent(member);
            progress.taken[member]
        };
        if is_taken {
            self.kill(member);
            self.step(|_| ());
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
            let is_written = progress.written.iter().all(|&is| is);
            if progress.over || !is_written || !progress.ends.are_all() {
                return;
            }
            progress.over = true;
            self.keep(&mut progress, None, false);
            let positions: Vec<_> = progress.ends.positions().collect();
            (positions, progress.ends.used())
        };
        for (leg, of) in self.legs.iter().enumerate() {
            of.connection.leave(of.job.number, &self.streams(leg));
        }
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
        let mut progress = group.progress();
        if progress.over || !progress.order.is_stopped() {
            progress.is_guarded = false;
            return;
        }
        let questions = Some(progress.order.questions());
        drop(progress);
        if before == questions {
            group.step(|progress| progress.order.go_on());
        }
        before = questions;
    }
}

/// Whether a message has the name of a file that was sent there, which is no name of the user's.
fn has_other_name(bytes: &[u8]) -> bool {
    bytes.windows(8).any(|part| part == b"/dev/fd/")
}
