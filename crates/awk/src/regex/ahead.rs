//! Where the groups of a match lie, by going ahead from its start.
//!
//! Invariant: of the ways from one reading step on those are tried, in the order in which they are preferred, that read the next
//! byte; the first that leads to the match's end is the one that is known to be preferred when all ways are followed backwards
//! from there, as [`super::groups`] does. Mostly a byte leaves one way, or the first is the right one: then this costs a table's
//! look for each byte, and less where steps follow each other or a repetition goes on. Where it is wrong too often this gives up.
//! Called by [`super::groups`].

use std::cell::RefCell;

use regex_automata::util::look::Look as Border;

use super::groups::Marks;
use super::steps::{Step, Steps};

/// More steps than this are not looked at.
const STEPS_MAX: usize = 1000;

/// Memory for ways, in bytes.
const BYTES_MAX: usize = 128 << 10;

/// How often the text may be read, on average.
const READS_MAX: usize = 16;

/// See the top of the file.
pub(super) struct Ahead {
    /// For each step: its fork, if it reads nothing.
    forks: Box<[Option<u32>]>,
    list: Vec<Fork>,
    sets: Vec<Set>,
    /// Those of each set, in order of preference.
    ways: Vec<Way>,
    /// Steps at which groups begin and end.
    passed: Vec<Step>,
    borders: Vec<Border>,
    /// For each step: how many steps from there on read one byte each and are followed by the next.
    runs: Box<[u32]>,
    /// Borders at the end of a match matter: none are passed where there is a way without, and everywhere there is none.
    ends: (bool, bool),
    /// The choices on the way.
    choices: RefCell<Vec<Choice>>,
}

/// Where the ways part.
struct Fork {
    /// The number of a set among the fork's, for each byte.
    by_byte: [u8; 256],
    at_end: u8,
    first_set: u32,
}

/// The ways that a byte leaves.
#[derive(Clone, Copy)]
struct Set {
    first: u32,
    count: u32,
}

/// Steps that read nothing, and the one that does, or the match, behind them.
#[derive(Clone, Copy)]
struct Way {
    /// The ranges of what is passed.
    passed: (u32, u32),
    borders: (u32, u32),
    to: u32,
}

/// One of several ways that was taken.
#[derive(Clone, Copy)]
struct Choice {
    at: usize,
    step: usize,
    chosen: u32,
}

/// What is on the way to a step.
#[derive(Clone, Default)]
struct Path {
    passed: Vec<Step>,
    borders: Vec<Border>,
    /// Steps, to see circles.
    steps: Vec<usize>,
}

impl Fork {
    /// The number of the set that is left at `at`.
    #[inline(always)]
    fn number(&self, text: &[u8], at: usize) -> u8 {
        match text.get(at) {
            Some(byte) => self.by_byte[usize::from(*byte)],
            None => self.at_end,
        }
    }
}

impl Ahead {
    /// `None` if a pattern is too large, or has ways in circles.
    pub(super) fn new(steps: &Steps) -> Option<Ahead> {
        let count = steps.list.len();
        if count > STEPS_MAX {
            return None;
        }
        let mut ahead = Ahead {
            forks: vec![None; count].into(),
            list: Vec::new(),
            sets: Vec::new(),
            ways: Vec::new(),
            passed: Vec::new(),
            borders: Vec::new(),
            runs: vec![0; count].into(),
            ends: (false, true),
            choices: RefCell::new(Vec::new()),
        };
        let behind = |at: &usize| *at == 0 || steps.list[at - 1].reads();
        for at in (0..count).filter(behind) {
            if !steps.list[at].reads() {
                ahead.forks[at] = Some(ahead.list.len() as u32);
                ahead.add_fork(steps, at)?;
                if ahead.memory_bytes() > BYTES_MAX {
                    return None;
                }
            }
        }
        for at in (0..count).rev() {
            if matches!(steps.list[at], Step::Byte(_) | Step::Bytes(_)) {
                ahead.runs[at] = 1 + ahead.runs[at + 1];
            }
        }
        Some(ahead)
    }

    /// What it takes, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&*self.list)
            + size_of_val(&*self.sets)
            + size_of_val(&*self.ways)
            + size_of_val(&*self.passed)
            + self.forks.len() * 12
    }

    fn add_fork(&mut self, steps: &Steps, at: usize) -> Option<()> {
        let mut by_byte: Vec<Vec<u32>> = vec![Vec::new(); 256];
        let mut at_end = Vec::new();
        let mut ways: Vec<Way> = Vec::new();
        let mut seen = vec![false; steps.list.len()];
        let mut bordered = false;
        // Steps to go on from, the preferred ones last.
        let mut open = vec![(at, Path::default())];
        while let Some((step, mut path)) = open.pop() {
            if path.steps.contains(&step) {
                return None;
            }
            if std::mem::replace(&mut seen[step], true) {
                // A preferred way leads here, unless a border bars it.
                if bordered {
                    return None;
                }
                continue;
            }
            path.steps.push(step);
            match steps.list[step] {
                Step::Split(a, b) => {
                    open.push((b, path.clone()));
                    open.push((a, path));
                }
                Step::Jump(to) => open.push((to, path)),
                Step::Border(border) => {
                    bordered = true;
                    path.borders.push(border);
                    open.push((step + 1, path));
                }
                kind @ (Step::Open(_) | Step::Close { .. }) => {
                    path.passed.push(kind);
                    open.push((step + 1, path));
                }
                end => {
                    let way = ways.len() as u32;
                    let is_bordered = !path.borders.is_empty();
                    let (passed, borders) = (self.passed.len() as u32, self.borders.len() as u32);
                    self.passed.extend(path.passed);
                    self.borders.extend(path.borders);
                    ways.push(Way {
                        passed: (passed, self.passed.len() as u32),
                        borders: (borders, self.borders.len() as u32),
                        to: step as u32,
                    });
                    if let Step::Match = end {
                        self.ends.0 |= is_bordered;
                        self.ends.1 &= is_bordered;
                        at_end.push(way);
                        continue;
                    }
                    for (byte, left) in by_byte.iter_mut().enumerate() {
                        if steps.begins(end, byte as u8) {
                            left.push(way);
                        }
                    }
                }
            }
        }
        let mut sets: Vec<Vec<u32>> = Vec::new();
        let mut number = |left: Vec<u32>| {
            let known = sets.iter().position(|set| *set == left);
            u8::try_from(known.unwrap_or_else(|| {
                sets.push(left);
                sets.len() - 1
            }))
            .ok()
        };
        let mut numbers = [0; 256];
        for (byte, left) in by_byte.into_iter().enumerate() {
            numbers[byte] = number(left)?;
        }
        let at_end = number(at_end)?;
        self.list.push(Fork {
            by_byte: numbers,
            at_end,
            first_set: self.sets.len() as u32,
        });
        for set in sets {
            self.sets.push(Set {
                first: self.ways.len() as u32,
                count: set.len() as u32,
            });
            self.ways.extend(set.iter().map(|way| ways[*way as usize]));
        }
        Some(())
    }

    /// Notes the groups of the match from `start` to `end`; false, and nonsense noted, if they are to be found otherwise.
    pub(super) fn fill(
        &self,
        steps: &Steps,
        hay: &[u8],
        (start, end): (usize, usize),
        marks: &mut Marks<'_>,
    ) -> bool {
        let (some, all) = self.ends;
        if all || !some {
            return self.follow(steps, hay, (start, end), true, marks);
        }
        if self.follow(steps, hay, (start, end), false, marks) {
            return true;
        }
        marks.restart();
        self.follow(steps, hay, (start, end), true, marks)
    }

    fn follow(
        &self,
        steps: &Steps,
        hay: &[u8],
        (start, end): (usize, usize),
        borders_at_end: bool,
        marks: &mut Marks<'_>,
    ) -> bool {
        let text = &hay[..end];
        let mut choices = self.choices.borrow_mut();
        choices.clear();
        let mut left = READS_MAX * (end - start + 16);
        // A choice was wrong: marks are made when all choices are known.
        let mut is_astray = false;
        // Which of the known choices is next, when all are.
        let mut known: Option<usize> = None;
        let mut chosen: Option<u32> = None;
        let (mut at, mut step) = (start, 0);
        loop {
            let went = 'go: {
                if let Some(fork) = self.forks[step] {
                    let fork = &self.list[fork as usize];
                    let number = fork.number(text, at);
                    let set = self.sets[fork.first_set as usize + usize::from(number)];
                    let way = match (set.count, &mut known) {
                        (0, _) => break 'go false,
                        (1, _) => 0,
                        (_, None) => chosen.take().unwrap_or_else(|| {
                            let chosen = 0;
                            choices.push(Choice { at, step, chosen });
                            chosen
                        }),
                        (_, Some(next)) => {
                            *next += 1;
                            choices[*next - 1].chosen
                        }
                    };
                    let way = self.ways[(set.first + way) as usize];
                    let bars = |border: &Border| {
                        at == end && !borders_at_end || !steps.borders(*border, hay, at)
                    };
                    let (from, to) = way.borders;
                    let is_free = from == to;
                    if !is_free && self.borders[from as usize..to as usize].iter().any(bars) {
                        break 'go false;
                    }
                    let (from, to) = way.passed;
                    if !is_astray {
                        for passed in &self.passed[from as usize..to as usize] {
                            marks.pass(passed, at);
                        }
                    }
                    let before = std::mem::replace(&mut step, way.to as usize);
                    if step + 1 == before && from == to && is_free && set.count == 1 {
                        // Around in a repetition of one character.
                        let is_bytes = self.runs[step] > 0;
                        let goes_on = |b: &&u8| {
                            fork.by_byte[usize::from(**b)] == number && (is_bytes || **b < 0x80)
                        };
                        let turns = text[at..].iter().take_while(goes_on).count();
                        if turns > 0 {
                            at += turns;
                            step = before;
                            break 'go true;
                        }
                    }
                }
                let run = self.runs[step] as usize;
                if run > 0 {
                    if at + run > end {
                        break 'go false;
                    }
                    // Where there was no choice, the match is known to read this.
                    let reads =
                        |n: usize| steps.length(text, at + n, steps.list[step + n]).is_some();
                    if !choices.is_empty() && !(0..run).all(reads) {
                        break 'go false;
                    }
                    at += run;
                    step += run;
                    break 'go true;
                }
                if let Step::Match = steps.list[step] {
                    if !is_astray {
                        return at == end;
                    }
                    // Once more, with all choices known.
                    is_astray = false;
                    known = Some(0);
                    marks.restart();
                    (at, step) = (start, 0);
                    break 'go true;
                }
                let length = || steps.length(text, at, steps.list[step]);
                let Some(length) = (at < end).then(length).flatten() else {
                    break 'go false;
                };
                at += length;
                step += 1;
                true
            };
            if went {
                continue;
            }
            if known.is_some() {
                return false;
            }
            is_astray = true;
            loop {
                let Some(last) = choices.last_mut() else {
                    return false;
                };
                last.chosen += 1;
                let fork = self.forks[last.step].map_or(0, |fork| fork as usize);
                let fork = &self.list[fork];
                let number = usize::from(fork.number(text, last.at));
                if last.chosen < self.sets[fork.first_set as usize + number].count {
                    let read = at.saturating_sub(last.at) + 4;
                    match left.checked_sub(read) {
                        Some(less) => left = less,
                        None => return false,
                    }
                    (at, step) = (last.at, last.step);
                    chosen = Some(last.chosen);
                    break;
                }
                choices.pop();
            }
        }
    }
}
