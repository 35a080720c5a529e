//! Stages of one pipeline find each other.
//!
//! The shell starts the stages of a pipeline one by one, each with a helper that asks where it should run. Only together can that be
//! said. Two of them are neighbours if one's output is the pipe that is the other's input.
//!
//! The invariant: a stage is in one chain at most, and a chain is complete when no stage of it can still get a neighbour.

use crate::wire::{StageCall, Stdio};

/// A stage that waits, with what its owner keeps beside it.
pub struct Waiting<T> {
    /// What it is.
    pub call: StageCall,
    /// Whose it is.
    pub owner: T,
}

/// All that wait.
pub struct Meeting<T> {
    waiting: Vec<Waiting<T>>,
    /// Pipes at which somebody runs here, who did not ask or was told so.
    settled: Vec<u64>,
}

/// How many pipes are remembered. A neighbour comes within milliseconds.
const REMEMBERED: usize = 256;

impl<T> Default for Meeting<T> {
    fn default() -> Self {
        Meeting {
            waiting: Vec::new(),
            settled: Vec::new(),
        }
    }
}

fn pipe(stdio: &Stdio) -> Option<u64> {
    match stdio {
        Stdio::Pipe(inode) => Some(*inode),
        _ => None,
    }
}

impl<T> Meeting<T> {
    /// A stage has come. Gives back its chain, in order, if it is complete now.
    pub fn arrive(&mut self, call: StageCall, owner: T) -> Option<Vec<Waiting<T>>> {
        self.waiting.push(Waiting { call, owner });
        self.complete(self.waiting.len() - 1)
    }

    /// Somebody at these pipes runs here. Gives back the chains that are complete now.
    pub fn settle(&mut self, stdio: &[Stdio; 2]) -> Vec<Vec<Waiting<T>>> {
        let pipes: Vec<u64> = stdio.iter().filter_map(pipe).collect();
        if self.settled.len() > REMEMBERED {
            self.settled.drain(..REMEMBERED / 2);
        }
        self.settled.extend(&pipes);
        let mut chains = Vec::new();
        for inode in pipes {
            let at = |w: &Waiting<T>| w.call.stdio.iter().any(|s| pipe(s) == Some(inode));
            if let Some(index) = self.waiting.iter().position(at) {
                chains.extend(self.complete(index));
            }
        }
        chains
    }

    /// A stage that waited is gone.
    pub fn leave(&mut self, is: impl Fn(&T) -> bool) -> Vec<Vec<Waiting<T>>> {
        match self.waiting.iter().position(|waiting| is(&waiting.owner)) {
            None => Vec::new(),
            Some(index) => {
                let gone = self.waiting.remove(index);
                self.settle(&gone.call.stdio)
            }
        }
    }

    /// A stage waits for no more neighbours. Gives back its chain if it is complete now.
    pub fn give_up(&mut self, is: impl Fn(&T) -> bool) -> Vec<Vec<Waiting<T>>> {
        let Some(index) = self.waiting.iter().position(|waiting| is(&waiting.owner)) else {
            return Vec::new();
        };
        // A pipe of which only one end is known is one that leads elsewhere.
        let mine: Vec<u64> = self.waiting[index]
            .call
            .stdio
            .iter()
            .filter_map(pipe)
            .collect();
        let ends = |inode: u64| {
            let stdio = self.waiting.iter().flat_map(|w| &w.call.stdio);
            stdio.filter(|s| pipe(s) == Some(inode)).count()
        };
        let lone: Vec<u64> = mine.into_iter().filter(|&inode| ends(inode) == 1).collect();
        self.settled.extend(lone);
        if let Some(chain) = self.complete(index) {
            return vec![chain];
        }
        // Whoever is at the other end is no neighbour of this one, whatever it waits for. This one does not.
        let sides = [0, 1].into_iter();
        let strange: Vec<u64> = sides
            .filter(|&side| self.neighbour(index, side).is_none())
            .filter_map(|side| pipe(&self.waiting[index].call.stdio[side]))
            .collect();
        self.settled.extend(strange);
        self.complete(index).into_iter().collect()
    }

    /// The stage before (side 0) or behind (1) another one. Their pipe says enough: a shell that has gone meanwhile is not the parent any more.
    fn neighbour(&self, at: usize, side: usize) -> Option<usize> {
        let call = &self.waiting[at].call;
        let inode = pipe(&call.stdio[side])?;
        let ends = |w: &Waiting<T>| pipe(&w.call.stdio[1 - side]) == Some(inode);
        (self.waiting.iter()).position(|w| fits(call, side, w) && ends(w))
    }

    /// The chain of a stage, taken out, if it is complete.
    fn complete(&mut self, index: usize) -> Option<Vec<Waiting<T>>> {
        // Places count from this stage.
        let mut chain = vec![(0, index)];
        for (side, step) in [(0, -1_i64), (1, 1)] {
            let (mut at, mut place) = (index, 0);
            loop {
                let call = &self.waiting[at].call;
                let Some(inode) = pipe(&call.stdio[side]) else {
                    break;
                };
                let is_loose = call.helpers.is_empty();
                let expected = usize::try_from(next(call, side)).ok();
                let expected = expected.and_then(|next| call.helpers.get(next));
                if !(is_loose || expected == Some(&true)) || self.settled.contains(&inode) {
                    break;
                }
                let same = |w: &Waiting<T>| fits(call, side, w) && w.call.shell == call.shell;
                match self.neighbour(at, side) {
                    Some(neighbour) if chain.iter().any(|&(_, known)| known == neighbour) => break,
                    Some(neighbour) => {
                        place += step;
                        chain.push((place, neighbour));
                        at = neighbour;
                    }
                    // It is there, and has its input or output elsewhere.
                    None if !is_loose
                        && self.waiting.iter().any(|w| {
                            same(w) && !matches!(w.call.stdio[1 - side], Stdio::Pipe(_))
                        }) =>
                    {
                        break;
                    }
                    None => return None,
                }
            }
        }
        let owned = std::mem::take(&mut self.waiting);
        let mut taken = Vec::new();
        for (index, waiting) in owned.into_iter().enumerate() {
            match chain.iter().find(|(_, known)| *known == index) {
                Some((place, _)) => taken.push((*place, waiting)),
                None => self.waiting.push(waiting),
            }
        }
        taken.sort_by_key(|(place, _)| *place);
        Some(taken.into_iter().map(|(_, waiting)| waiting).collect())
    }
}

/// The place of the stage before or behind.
fn next(call: &StageCall, side: usize) -> i64 {
    i64::from(call.stage) + if side == 0 { -1 } else { 1 }
}

/// Whether a stage that waits may be the one before or behind a call, by where it stands in the script.
fn fits<T>(call: &StageCall, side: usize, waiting: &Waiting<T>) -> bool {
    let is_loose = call.helpers.is_empty();
    waiting.call.helpers.is_empty() == is_loose
        && waiting.call.pipeline == call.pipeline
        && (is_loose || i64::from(waiting.call.stage) == next(call, side))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(number: u32, helpers: &str, stdin: Stdio, stdout: Stdio) -> StageCall {
        StageCall {
            began: 0,
            shell: 7,
            session: 7,
            pipeline: 3,
            stage: number,
            helpers: helpers.chars().map(|c| c == '1').collect(),
            words: Vec::new(),
            environment: Vec::new(),
            folder: Vec::new(),
            limits: crate::wire::Limits::default(),
            stdio: [stdin, stdout],
            is_merged: false,
            changes: Vec::new(),
            program: Vec::new(),
            place: Err(String::new()),
        }
    }

    fn owners(chain: Option<Vec<Waiting<char>>>) -> String {
        chain.map_or("-".into(), |chain| chain.iter().map(|w| w.owner).collect())
    }

    use Stdio::{Here, Pipe};

    #[test]
    fn a_chain_is_complete_when_all_of_it_has_come_in_whatever_order() {
        let stages = [
            ('a', stage(0, "111", Here, Pipe(1))),
            ('b', stage(1, "111", Pipe(1), Pipe(2))),
            ('c', stage(2, "111", Pipe(2), Here)),
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let mut meeting = Meeting::default();
            let mut seen = Vec::new();
            for index in order {
                let (owner, call) = stages[index].clone();
                seen.push(owners(meeting.arrive(call, owner)));
            }
            assert_eq!(seen, ["-", "-", "abc"]);
        }
    }

    #[test]
    fn stages_without_helpers_and_files_end_a_chain() {
        let mut meeting = Meeting::default();
        let alone = |meeting: &mut Meeting<char>, call| owners(meeting.arrive(call, 'x'));
        assert_eq!(alone(&mut meeting, stage(1, "010", Pipe(1), Pipe(2))), "x");
        assert_eq!(alone(&mut meeting, stage(0, "11", Here, Here)), "x");
        // Its left neighbour writes elsewhere.
        assert_eq!(alone(&mut meeting, stage(1, "11", Pipe(9), Here)), "-");
        assert_eq!(owners(meeting.arrive(stage(0, "11", Here, Here), 'y')), "y");
    }

    #[test]
    fn who_runs_here_is_waited_for_no_longer() {
        let mut meeting = Meeting::default();
        assert_eq!(
            owners(meeting.arrive(stage(1, "11", Pipe(1), Here), 'b')),
            "-"
        );
        let chains = meeting.settle(&[Here, Pipe(1)]);
        assert_eq!(
            chains
                .into_iter()
                .map(|c| owners(Some(c)))
                .collect::<String>(),
            "b"
        );
        // The other way round.
        meeting.settle(&[Here, Pipe(2)]);
        assert_eq!(
            owners(meeting.arrive(stage(1, "11", Pipe(2), Here), 'c')),
            "c"
        );
        assert_eq!(
            owners(meeting.arrive(stage(0, "11", Here, Pipe(3)), 'd')),
            "-"
        );
        assert!(meeting.leave(|owner| *owner == 'd').is_empty());
        assert_eq!(
            owners(meeting.arrive(stage(1, "11", Pipe(3), Here), 'e')),
            "e"
        );
    }

    #[test]
    fn stages_meet_whose_shell_has_gone_meanwhile() {
        let mut meeting = Meeting::default();
        assert_eq!(
            owners(meeting.arrive(stage(0, "11", Stdio::Null, Stdio::Pipe(1)), 'a')),
            "-"
        );
        let mut orphan = stage(1, "11", Stdio::Pipe(1), Stdio::Null);
        orphan.shell = 1;
        assert_eq!(owners(meeting.arrive(orphan, 'b')), "ab");
    }

    #[test]
    fn who_gives_up_waits_no_more_whoever_is_at_the_other_end() {
        let mut meeting = Meeting::default();
        meeting.arrive(stage(0, "11", Stdio::Null, Stdio::Pipe(1)), 'a');
        let mut other = stage(1, "11", Stdio::Pipe(1), Stdio::Null);
        other.pipeline = 99;
        assert_eq!(owners(meeting.arrive(other, 'b')), "-");
        let given_up = |meeting: &mut Meeting<char>, who: char| {
            let chains = meeting.give_up(|owner| *owner == who);
            chains
                .into_iter()
                .map(|chain| owners(Some(chain)))
                .collect::<Vec<_>>()
        };
        assert_eq!(given_up(&mut meeting, 'a'), ["a"]);
        assert_eq!(given_up(&mut meeting, 'b'), ["b"]);
    }

    #[test]
    fn who_gives_up_goes_with_its_neighbour_that_still_waits() {
        let mut meeting = Meeting::default();
        meeting.arrive(stage(0, "111", Stdio::Null, Stdio::Pipe(1)), 'a');
        meeting.arrive(stage(1, "111", Stdio::Pipe(1), Stdio::Pipe(2)), 'b');
        assert!(meeting.give_up(|owner| *owner == 'a').is_empty());
        assert_eq!(
            owners(meeting.arrive(stage(2, "111", Stdio::Pipe(2), Stdio::Null), 'c')),
            "abc"
        );
    }

    #[test]
    fn shims_find_each_other_by_their_pipes_alone() {
        let loose = |stdin, stdout| stage(0, "", stdin, stdout);
        let mut meeting = Meeting::default();
        let come = |meeting: &mut Meeting<char>, call, owner| owners(meeting.arrive(call, owner));
        assert_eq!(come(&mut meeting, loose(Pipe(1), Pipe(2)), 'b'), "-");
        assert_eq!(come(&mut meeting, loose(Here, Pipe(1)), 'a'), "-");
        assert_eq!(come(&mut meeting, loose(Pipe(2), Here), 'c'), "abc");
        // A neighbour that is no shim.
        assert_eq!(come(&mut meeting, loose(Here, Pipe(3)), 'd'), "-");
        let chains = meeting.give_up(|owner| *owner == 'd');
        assert_eq!(
            chains
                .into_iter()
                .map(|c| owners(Some(c)))
                .collect::<String>(),
            "d"
        );
        // One that has come, and whose other neighbour is missing.
        assert_eq!(come(&mut meeting, loose(Here, Pipe(4)), 'e'), "-");
        assert_eq!(come(&mut meeting, loose(Pipe(4), Pipe(5)), 'f'), "-");
        assert!(meeting.give_up(|owner| *owner == 'e').is_empty());
        let chains = meeting.give_up(|owner| *owner == 'f');
        assert_eq!(
            chains
                .into_iter()
                .map(|c| owners(Some(c)))
                .collect::<String>(),
            "ef"
        );
    }

    #[test]
    fn pipelines_of_one_place_in_the_script_do_not_mix() {
        let mut meeting = Meeting::default();
        assert_eq!(
            owners(meeting.arrive(stage(0, "11", Here, Pipe(1)), 'a')),
            "-"
        );
        assert_eq!(
            owners(meeting.arrive(stage(0, "11", Here, Pipe(2)), 'b')),
            "-"
        );
        assert_eq!(
            owners(meeting.arrive(stage(1, "11", Pipe(2), Here), 'c')),
            "bc"
        );
        assert_eq!(
            owners(meeting.arrive(stage(1, "11", Pipe(1), Here), 'd')),
            "ad"
        );
    }
}
