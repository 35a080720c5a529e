//! Consecutive stages that run elsewhere together, and the helpers that stand for them here.
//!
//! The invariant: no helper's process ends before all of the group has: then each could still run its command here if the connection
//! is lost, with the pipes between them that the shell made and that nobody has used.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::host::Connection;
use crate::flow::Outgoing;
use crate::wire::{Ending, Frame, FromAgent, FromBroker, Record, ToAgent};

/// The numbers of a helper's streams.
pub const STDIN: u32 = 1;
/// Standard output.
pub const STDOUT: u32 = 2;
/// Standard error.
pub const STDERR: u32 = 3;

/// A stage that runs elsewhere, as its helper is to be told.
pub struct Member {
    /// The way to the helper.
    pub helper: Outgoing,
    /// The streams of the connection that are its input, output and errors.
    pub streams: [Option<u32>; 3],
    /// What it is told when it runs.
    pub role: FromBroker,
}

/// A group.
pub struct Group {
    connection: Arc<Connection>,
    job: u32,
    members: Vec<Member>,
    progress: Mutex<Progress>,
    record: Mutex<Record>,
    since: Instant,
    records: Arc<Records>,
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
    started: bool,
    over: bool,
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

/// How many bytes of messages wait, at most.
const HELD: usize = 64 << 10;

impl Group {
    /// A group whose job is about to be sent.
    pub fn new(
        connection: &Arc<Connection>,
        job: u32,
        members: Vec<Member>,
        record: Record,
        records: &Arc<Records>,
    ) -> Arc<Group> {
        let count = members.len();
        let group = Arc::new(Group {
            connection: connection.clone(),
            job,
            members,
            progress: Mutex::new(Progress {
                started: false,
                over: false,
                exited: vec![false; count],
                written: vec![false; count],
                complains: vec![false; count],
                held: Vec::new(),
                held_bytes: 0,
                is_told: false,
            }),
            record: Mutex::new(record),
            since: Instant::now(),
            records: records.clone(),
        });
        if !group.can_be_repeated() {
            group.progress().is_told = true;
        }
        connection.enter(job, &group.streams(), &group);
        group
    }

    fn streams(&self) -> Vec<u32> {
        self.members
            .iter()
            .flat_map(|member| member.streams)
            .flatten()
            .collect()
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, note: impl FnOnce(&mut Record)) {
        note(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// It is over: for those who ask what was.
    fn keep(&self, trouble: Option<&str>) {
        self.note(|record| {
            record.took = self.since.elapsed().as_micros() as u64;
            record.trouble = trouble.map(str::to_owned);
            self.connection.came(record.came, record.took);
            self.records.add(record.clone());
        });
    }

    fn tell_all(&self, message: &FromBroker) {
        for member in &self.members {
            member.helper.tell(message);
        }
    }

    /// Whether all of it may be run again from the beginning.
    fn can_be_repeated(&self) -> bool {
        let repeats =
            |member: &Member| matches!(member.role, FromBroker::Remote { again: true, .. });
        self.members.iter().all(repeats)
    }

    /// Whether messages of errors are to wait. What fails before it has given anything is run again here, and complains as it does here:
    /// whatever it was that it may not touch there, or that is called otherwise.
    fn holds(&self, member: usize, stream: u32, bytes: &[u8]) -> bool {
        let mut progress = self.progress();
        if progress.is_told {
            return false;
        }
        if stream == STDERR {
            progress.complains[member] = true;
            progress.held_bytes += bytes.len();
            let frame = Frame::Data(STDERR, bytes.to_vec());
            progress.held.push((member, frame));
            if progress.held_bytes < HELD {
                return true;
            }
        }
        drop(progress);
        self.tell_held();
        stream == STDERR
    }

    /// What waited is passed on, and nothing waits from now on.
    fn tell_held(&self) {
        let mut progress = self.progress();
        progress.is_told = true;
        for (member, frame) in std::mem::take(&mut progress.held) {
            self.members[member].helper.send(frame);
        }
    }

    /// A frame from the agent, for one of the helpers.
    pub fn pass(&self, frame: Frame) {
        let (Frame::Data(number, _)
        | Frame::Credit(number, _)
        | Frame::End(number)
        | Frame::Reset(number)) = frame
        else {
            return;
        };
        let of = |(at, member): (usize, &Member)| {
            let index = member.streams.iter().position(|s| *s == Some(number))?;
            Some((at, index as u32 + STDIN))
        };
        let Some((member, stream)) = self.members.iter().enumerate().find_map(of) else {
            return;
        };
        match &frame {
            Frame::Data(_, bytes) => {
                self.note(|record| record.came += bytes.len() as u64);
                if self.holds(member, stream, bytes) {
                    return;
                }
            }
            Frame::End(_) if stream == STDERR => {
                let mut progress = self.progress();
                if !progress.is_told {
                    progress.held.push((member, Frame::End(STDERR)));
                    return;
                }
            }
            _ => {}
        }
        self.members[member].helper.send(frame.renumbered(stream));
    }

    /// A frame from a helper, for the agent.
    pub fn pass_back(&self, member: usize, frame: Frame) {
        let number = match &frame {
            Frame::Message(_) => return,
            Frame::Data(number, _)
            | Frame::Credit(number, _)
            | Frame::End(number)
            | Frame::Reset(number) => *number,
        };
        if let Frame::Data(_, bytes) = &frame {
            self.note(|record| record.went += bytes.len() as u64);
        }
        let index = number.wrapping_sub(STDIN) as usize;
        let stream = self.members[member].streams.get(index).copied().flatten();
        if let Some(stream) = stream {
            self.connection.out.send(frame.renumbered(stream));
        }
    }

    /// What the agent says of the job.
    pub fn hear(&self, message: FromAgent) {
        match message {
            FromAgent::Started { .. } => {
                let mut progress = self.progress();
                if progress.over {
                    return;
                }
                progress.started = true;
                for member in &self.members {
                    member.helper.tell(&member.role);
                }
            }
            FromAgent::Refused { why, different, .. } => {
                if let Some(process) = different {
                    self.note(|record| {
                        if let Some(command) = record.commands.get(process as usize) {
                            self.connection.differs(command);
                        }
                    });
                }
                self.progress().over = true;
                self.connection.leave(self.job, &self.streams());
                self.keep(Some(&why));
                self.tell_all(&FromBroker::Local { why });
            }
            FromAgent::Exited {
                process,
                ending,
                positions,
                ..
            } => self.exited(process as usize, ending, positions),
            FromAgent::Hello(_) | FromAgent::Pong(_) | FromAgent::Compared(_) => {}
        }
    }

    fn exited(&self, member: usize, ending: Ending, positions: [Option<u64>; 2]) {
        let Some(of) = self.members.get(member) else {
            return;
        };
        let fails = {
            let mut progress = self.progress();
            progress.exited[member] = true;
            // 126 and 127 are what our own program says of a command that could not be run, too.
            let is_ours = matches!(ending, Ending::Status(126 | 127));
            let failed = is_ours || ending != Ending::Status(0) && progress.complains[member];
            failed && !progress.is_told && !progress.over
        };
        if fails && self.can_be_repeated() {
            self.abandon("it failed there before it had given anything");
            return;
        }
        let exited = Frame::of(&FromBroker::Exited { ending, positions });
        let all_have = {
            let mut progress = self.progress();
            if progress.is_told {
                of.helper.send(exited);
            } else {
                progress.held.push((member, exited));
            }
            progress.exited.iter().all(|&is| is)
        };
        if all_have {
            self.tell_held();
        }
        self.perhaps_over();
    }

    /// All of it is to run here.
    pub fn abandon(&self, why: &str) {
        self.connection.out.tell(&ToAgent::Cancel { job: self.job });
        for member in 0..self.members.len() {
            self.close(member);
        }
        self.connection.leave(self.job, &self.streams());
        self.lost(why);
    }

    /// A helper has written all that there was.
    pub fn written(&self, member: usize) {
        self.progress().written[member] = true;
        self.perhaps_over();
    }

    /// A helper has got a signal.
    pub fn signal(&self, member: usize, signal: i32) {
        self.connection.out.tell(&ToAgent::Signal {
            job: self.job,
            process: member as u32,
            signal,
        });
    }

    /// A helper is gone, killed most likely.
    pub fn gone(&self, member: usize) {
        let started = {
            let mut progress = self.progress();
            if progress.over {
                return;
            }
            progress.written[member] = true;
            progress.started
        };
        if started {
            self.kill(member);
            self.perhaps_over();
        } else {
            // It may run here by now, with the shell's pipes: so must the others.
            self.abandon("a stage of it is gone");
        }
    }

    fn kill(&self, member: usize) {
        self.signal(member, nix::sys::signal::Signal::SIGKILL as i32);
        self.close(member);
    }

    /// What a process and its children still write is nobody's, and nothing more comes for it.
    fn close(&self, member: usize) {
        for stream in self.members[member].streams[1..].iter().flatten() {
            self.connection.out.send(Frame::Reset(*stream));
        }
        if let Some(stream) = self.members[member].streams[0] {
            self.connection.out.send(Frame::End(stream));
        }
    }

    fn perhaps_over(&self) {
        {
            let mut progress = self.progress();
            let all = |list: &[bool]| list.iter().all(|&is| is);
            if progress.over || !all(&progress.exited) || !all(&progress.written) {
                return;
            }
            progress.over = true;
        }
        self.connection.leave(self.job, &self.streams());
        self.keep(None);
        self.tell_all(&FromBroker::Done);
    }

    /// The connection is lost.
    pub fn lost(&self, why: &str) {
        {
            let mut progress = self.progress();
            if progress.over {
                return;
            }
            progress.over = true;
        }
        self.keep(Some(why));
        self.tell_all(&FromBroker::Lost(why.to_owned()));
    }
}
