//! How stages end, of which each may be several processes on several hosts, and joins that put together what those print.
//!
//! The invariant: of each stage it is said once that it has ended, and not before all that could change how is known.

use shell_plan::annotation::Status;

use super::{Leg, Role};
use crate::combine;
use crate::flow::PIPE_BYTES;
use crate::wire::{Ending, PASSED_ON, Used};

/// What a stage is known to have come to.
struct Stage {
    status: Status,
    moves_input: bool,
    /// As in [`Role::ignores_pipe`].
    ignores_pipe: bool,
    /// Its processes must all end well: what puts their output together knows no other.
    is_strict: bool,
    /// Whether its helper is gone.
    is_gone: bool,
    /// What its processes have used; none: that of one is not known.
    used: Option<Used>,
    /// Where its input and output ended.
    positions: [Option<u64>; 2],
    /// Somebody did not want all that its processes printed together.
    is_unread: bool,
    /// How many streams of messages have not ended.
    speaking: usize,
    /// Whether it was said how it ended.
    is_told: bool,
}

/// A process: its leg and number there, its stage, and how it has ended.
struct Process {
    at: (usize, usize),
    stage: usize,
    ending: Option<Ending>,
}

/// A join: its leg and number there, the stage and descriptor that it reads or writes for, if it does, and whether it has ended.
struct Join {
    at: (usize, usize),
    of: Option<(usize, usize)>,
    has_ended: bool,
}

/// The ends of a group's stages.
pub struct Ends {
    stages: Vec<Stage>,
    processes: Vec<Process>,
    joins: Vec<Join>,
}

impl Ends {
    /// Of a group that has not begun. `strict`: the stage whose processes must all end well.
    pub fn new<'a>(
        legs: &[Leg],
        roles: impl Iterator<Item = &'a Role>,
        strict: Option<usize>,
    ) -> Ends {
        let stage = |(member, role): (usize, &Role)| Stage {
            status: role.status,
            moves_input: role.moves_input,
            ignores_pipe: role.ignores_pipe,
            is_strict: strict == Some(member),
            is_gone: false,
            used: Some(Used::default()),
            positions: [None; 2],
            is_unread: false,
            speaking: role.stderr.streams.len(),
            is_told: false,
        };
        let (mut processes, mut joins) = (Vec::new(), Vec::new());
        for (leg, of) in legs.iter().enumerate() {
            let own = of.member_of.iter().enumerate();
            processes.extend(own.map(|(number, &stage)| Process {
                at: (leg, number),
                stage,
                ending: None,
            }));
            let own = of.descriptor_of.iter().enumerate();
            joins.extend(own.map(|(number, &of)| Join {
                at: (leg, number),
                of,
                has_ended: false,
            }));
        }
        Ends {
            stages: roles.enumerate().map(stage).collect(),
            processes,
            joins,
        }
    }

    /// A helper is gone: whatever its processes come to is of its own making.
    pub fn gone(&mut self, stage: usize) {
        self.stages[stage].is_gone = true;
    }

    /// One of a stage's streams of messages has ended.
    pub fn says_no_more(&mut self, stage: usize) {
        let speaking = &mut self.stages[stage].speaking;
        *speaking = speaking.saturating_sub(1);
    }

    /// A process has ended. Gives back its stage, and whether what that has printed is not what one process would have; none: it is no stage's.
    pub fn exited(
        &mut self,
        at: (usize, usize),
        ending: Ending,
        positions: [Option<u64>; 2],
        used: Option<Used>,
    ) -> Option<(usize, bool)> {
        let process = self.processes.iter_mut().find(|process| process.at == at)?;
        process.ending = Some(ending);
        let number = process.stage;
        let of_stage = self.processes.iter().filter(|of| of.stage == number);
        let is_part = of_stage.count() > 1;
        let stage = &mut self.stages[number];
        // One that somebody has killed says nothing of the next.
        let is_usual = matches!(ending, Ending::Status(0 | 1) | Ending::UNREAD);
        stage.used = match (stage.used, used.filter(|_| is_usual)) {
            (Some(sum), Some(used)) => Some(Used {
                read: sum.read + used.read,
                written: sum.written + used.written,
                micros: sum.micros + used.micros,
            }),
            _ => None,
        };
        // A reader that has enough ends them, too.
        let is_well = matches!(ending, Ending::Status(0) | Ending::UNREAD);
        // One of several that somebody else has killed has left out what the others have no part in.
        let is_killed = matches!(ending, Ending::Signal(signal) if !PASSED_ON.iter().any(|&passed| passed as i32 == signal));
        let is_killed = is_part && is_killed && !is_well && !stage.is_gone;
        // One process would have complained.
        let is_doubtful = is_part && stage.status == Status::Well && !is_well;
        let is_unread = stage.ignores_pipe && ending == Ending::UNREAD;
        let moves = [stage.moves_input, true];
        for ((known, position), moves) in stage.positions.iter_mut().zip(positions).zip(moves) {
            *known = (*known).max(position.filter(|_| moves));
        }
        Some((
            number,
            stage.is_strict && !is_well || is_doubtful || is_killed || is_unread,
        ))
    }

    /// A join has ended. Gives back the stage whose output that was, if it was one's, and whether one process would have ended otherwise for it.
    pub fn joined(
        &mut self,
        at: (usize, usize),
        position: Option<u64>,
        is_unread: bool,
    ) -> Option<(usize, bool)> {
        let join = self.joins.iter_mut().find(|join| join.at == at)?;
        join.has_ended = true;
        let (stage, side) = join.of?;
        let of = &mut self.stages[stage];
        of.positions[side] = of.positions[side].max(position);
        of.is_unread |= side == 1 && is_unread;
        (side == 1).then_some((stage, of.ignores_pipe && of.is_unread))
    }

    /// How a stage has ended, if that was not said yet and nothing can change it. `waits`: what it says may.
    pub fn judge(&mut self, stage: usize, waits: bool) -> Option<Ending> {
        let mut joins = self.joins.iter();
        let has_joined = joins.all(|join| join.has_ended || join.of != Some((stage, 1)));
        let own = self.processes.iter().filter(|of| of.stage == stage);
        let endings = own.map(|process| process.ending);
        let endings: Vec<Ending> = endings.collect::<Option<_>>()?;
        let of = &mut self.stages[stage];
        if of.is_told || !has_joined || waits && of.speaking > 0 {
            return None;
        }
        of.is_told = true;
        // What one process writes waits for its reader when the pipe is full, and one that ends without having read it ends the process.
        let written = of.used.map_or(0, |used| used.written);
        if of.is_unread && written > PIPE_BYTES as u64 {
            return Some(Ending::UNREAD);
        }
        Some(together(of.status, &endings))
    }

    /// Whether all has ended, and of all stages it was said how.
    pub fn are_all(&self) -> bool {
        self.stages.iter().all(|stage| stage.is_told)
            && self.joins.iter().all(|join| join.has_ended)
    }

    /// Where each stage's input and output ended.
    pub fn positions(&self) -> impl Iterator<Item = [Option<u64>; 2]> {
        self.stages.iter().map(|stage| stage.positions)
    }

    /// What each stage has used.
    pub fn used(&self) -> Vec<Option<Used>> {
        self.stages.iter().map(|stage| stage.used).collect()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(speaking: usize) -> Stage {
        Stage {
            status: Status::Highest,
            moves_input: false,
            ignores_pipe: false,
            is_strict: false,
            is_gone: false,
            used: Some(Used::default()),
            positions: [None; 2],
            is_unread: false,
            speaking,
            is_told: false,
        }
    }

    /// One stage of two processes on two hosts, whose output is put together on the first.
    fn two() -> Ends {
        let process = |leg| Process {
            at: (leg, 0),
            stage: 0,
            ending: None,
        };
        Ends {
            stages: vec![stage(1)],
            processes: vec![process(0), process(1)],
            joins: vec![Join {
                at: (0, 0),
                of: Some((0, 1)),
                has_ended: false,
            }],
        }
    }

    fn written(bytes: u64) -> Option<Used> {
        Some(Used {
            read: 1,
            written: bytes,
            micros: 1,
        })
    }

    #[test]
    fn a_stage_has_ended_when_all_of_it_has() {
        let well = Ending::Status(0);
        let mut ends = two();
        assert_eq!(
            ends.exited((0, 0), well, [None; 2], written(1)),
            Some((0, false))
        );
        assert_eq!(ends.judge(0, true), None);
        assert_eq!(
            ends.exited((1, 0), Ending::Status(2), [None; 2], written(1)),
            Some((0, false))
        );
        assert_eq!(ends.judge(0, false), None);
        assert_eq!(ends.joined((0, 0), Some(7), false), Some((0, false)));
        assert_eq!(ends.judge(0, true), None);
        ends.says_no_more(0);
        assert!(!ends.are_all());
        assert_eq!(ends.judge(0, true), Some(Ending::Status(2)));
        assert_eq!(ends.judge(0, true), None);
        assert!(ends.are_all());
        assert_eq!(ends.positions().collect::<Vec<_>>(), [[None, Some(7)]]);
        assert_eq!(ends.used(), [None]);
    }

    #[test]
    fn what_it_says_does_not_matter_when_nothing_waits_for_it() {
        let mut ends = two();
        for leg in 0..2 {
            ends.exited((leg, 0), Ending::Status(0), [None; 2], written(1));
        }
        ends.joined((0, 0), None, false);
        assert_eq!(ends.judge(0, true), None);
        assert_eq!(ends.judge(0, false), Some(Ending::Status(0)));
        let used = ends.used()[0].map(|used| (used.read, used.written));
        assert_eq!(used, Some((2, 2)));
    }

    #[test]
    fn a_reader_that_has_gone_ends_those_that_had_more_to_write_than_a_pipe_holds() {
        for (bytes, ending) in [(1, Ending::Status(0)), (60 << 10, Ending::UNREAD)] {
            let mut ends = two();
            for leg in 0..2 {
                ends.exited((leg, 0), Ending::Status(0), [None; 2], written(bytes));
            }
            ends.joined((0, 0), None, true);
            assert_eq!(ends.judge(0, false), Some(ending), "{bytes}");
        }
    }

    #[test]
    fn one_of_several_that_somebody_has_killed_is_not_made_good_by_the_others() {
        let killed = Ending::Signal(9);
        let exited = |ends: &mut Ends, ending| ends.exited((0, 0), ending, [None; 2], None);
        assert_eq!(exited(&mut two(), killed), Some((0, true)));
        assert_eq!(exited(&mut two(), Ending::UNREAD), Some((0, false)));
        assert_eq!(exited(&mut two(), Ending::Signal(15)), Some((0, false)));
        let mut ends = two();
        ends.gone(0);
        assert_eq!(exited(&mut ends, killed), Some((0, false)));
        let mut ends = two();
        ends.processes.pop();
        assert_eq!(exited(&mut ends, killed), Some((0, false)));
        let mut ends = two();
        ends.stages[0].ignores_pipe = true;
        assert_eq!(exited(&mut ends, Ending::UNREAD), Some((0, true)));
        assert_eq!(exited(&mut ends, Ending::Status(0)), Some((0, false)));
        assert_eq!(ends.joined((0, 0), None, true), Some((0, true)));
        let mut ends = two();
        ends.stages[0].status = Status::Well;
        assert_eq!(exited(&mut ends, Ending::Status(1)), Some((0, true)));
        let mut ends = two();
        ends.stages[0].is_strict = true;
        assert_eq!(exited(&mut ends, Ending::Status(1)), Some((0, true)));
        assert_eq!(ends.exited((7, 7), killed, [None; 2], None), None);
    }
}
