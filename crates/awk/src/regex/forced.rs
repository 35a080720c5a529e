//! Where the groups of a match lie in a pattern that leaves one way only.
//!
//! Invariant: of the ways that read nothing from one reading step on, each leads to another step, and no two of these steps
//! read the same byte; so the next byte of the match alone says which way is taken, and any other matcher would take it too.
//! What follows costs about a table's look for each byte, and less where steps follow each other or a repetition goes on.
//! Called by [`super::groups`].

use super::groups::Marks;
use super::steps::{Step, Steps};

/// More steps than this are not looked at.
const STEPS_MAX: usize = 1000;

/// Memory for ways, in bytes.
const BYTES_MAX: usize = 128 << 10;

/// No way.
const NONE: u8 = u8::MAX;

/// See the top of the file.
pub(super) struct Forced {
    /// For each step: its fork, if it reads nothing.
    forks: Box<[Option<u32>]>,
    list: Vec<Fork>,
    ways: Vec<Way>,
    /// Steps at which groups begin and end.
    passed: Vec<Step>,
    /// For each step: how many steps from there on read one byte each and are followed by the next.
    runs: Box<[u32]>,
}

/// Where the ways part.
struct Fork {
    /// The number of the way among the fork's, for each byte.
    by_byte: Box<[u8; 256]>,
    at_end: u8,
    first_way: u32,
}

/// Steps that read nothing, and the one that does, or the match, behind them.
#[derive(Clone, Copy)]
struct Way {
    passed: (u32, u32),
    to: u32,
}

impl Forced {
    /// `None` if a byte leaves a choice somewhere.
    pub(super) fn new(steps: &Steps) -> Option<Forced> {
        let count = steps.list.len();
        if count > STEPS_MAX {
            return None;
        }
        let mut forced = Forced {
            forks: vec![None; count].into(),
            list: Vec::new(),
            ways: Vec::new(),
            passed: Vec::new(),
            runs: vec![0; count].into(),
        };
        let behind = |at: &usize| *at == 0 || steps.list[at - 1].reads();
        for at in (0..count).filter(behind) {
            if !steps.list[at].reads() {
                forced.forks[at] = Some(forced.list.len() as u32);
                forced.add_fork(steps, at)?;
                if forced.memory_bytes() > BYTES_MAX {
                    return None;
                }
            }
        }
        for at in (0..count).rev() {
            if matches!(steps.list[at], Step::Byte(_) | Step::Bytes(_)) {
                forced.runs[at] = 1 + forced.runs[at + 1];
            }
        }
        Some(forced)
    }

    /// What it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.list.len() * (256 + size_of::<Fork>())
            + size_of_val(&*self.ways)
            + size_of_val(&*self.passed)
            + self.forks.len() * 12
    }

    fn add_fork(&mut self, steps: &Steps, at: usize) -> Option<()> {
        let mut fork = Fork {
            by_byte: Box::new([NONE; 256]),
            at_end: NONE,
            first_way: self.ways.len() as u32,
        };
        let mut seen = vec![false; steps.list.len()];
        // Steps to go on from, and what was passed on the way there.
        let mut open: Vec<(usize, Vec<Step>)> = vec![(at, Vec::new())];
        while let Some((step, mut passed)) = open.pop() {
            if std::mem::replace(&mut seen[step], true) {
                return None;
            }
            match steps.list[step] {
                Step::Split(a, b) => {
                    open.push((b, passed.clone()));
                    open.push((a, passed));
                }
                Step::Jump(to) => open.push((to, passed)),
                Step::Border(_) => open.push((step + 1, passed)),
                kind @ (Step::Open(_) | Step::Close { .. }) => {
                    passed.push(kind);
                    open.push((step + 1, passed));
                }
                end => {
                    let way = u8::try_from(self.ways.len() - fork.first_way as usize).ok()?;
                    if way == NONE {
                        return None;
                    }
                    let from = self.passed.len() as u32;
                    self.passed.extend(passed);
                    self.ways.push(Way {
                        passed: (from, self.passed.len() as u32),
                        to: step as u32,
                    });
                    if let Step::Match = end {
                        fork.at_end = way;
                        continue;
                    }
                    for (byte, taken) in fork.by_byte.iter_mut().enumerate() {
                        if steps.begins(end, byte as u8) {
                            if *taken != NONE {
                                return None;
                            }
                            *taken = way;
                        }
                    }
                }
            }
        }
        self.list.push(fork);
        Some(())
    }

    /// Notes the groups of the match from `start` to `end`; false if that is none.
    pub(super) fn follow(
        &self,
        steps: &Steps,
        hay: &[u8],
        start: usize,
        end: usize,
        marks: &mut Marks<'_>,
    ) -> bool {
        let text = &hay[..end];
        let (mut at, mut step) = (start, 0);
        loop {
            if let Some(fork) = self.forks[step] {
                let fork = &self.list[fork as usize];
                let chosen = text
                    .get(at)
                    .map_or(fork.at_end, |b| fork.by_byte[usize::from(*b)]);
                if chosen == NONE {
                    return false;
                }
                let way = self.ways[fork.first_way as usize + usize::from(chosen)];
                let (from, to) = way.passed;
                for passed in &self.passed[from as usize..to as usize] {
                    marks.pass(passed, at);
                }
                let before = step;
                step = way.to as usize;
                if step + 1 == before && from == to && self.runs[step] > 0 {
                    // Around in a repetition of one byte.
                    let turns = text[at..]
                        .iter()
                        .take_while(|b| fork.by_byte[usize::from(**b)] == chosen);
                    at += turns.count();
                    step += 1;
                    continue;
                }
            }
            match self.runs[step] {
                0 => {
                    if let Step::Match = steps.list[step] {
                        return at == end;
                    }
                    let Some(len) = (at < end)
                        .then(|| steps.length(text, at, steps.list[step]))
                        .flatten()
                    else {
                        return false;
                    };
                    at += len;
                    step += 1;
                }
                run => {
                    at += run as usize;
                    step += run as usize;
                }
            }
            if at > end {
                return false;
            }
        }
    }
}
