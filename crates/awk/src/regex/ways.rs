//! Matching by following all ways through a pattern's steps at once: slow for each byte, but ready at once and small.
//!
//! Invariant: gives the leftmost-longest match, as the automaton does, or gives up when it has worked as long as building the
//! automaton would have taken: so a pattern that is made, matched once and thrown away costs no automaton, and any other costs at
//! most twice. Source: K. Thompson, "Regular Expression Search Algorithm" (1968). Called by `automaton` alone.

use std::cell::Cell;

use regex_syntax::hir::Hir;

use super::greedy::{self, Bytes};
use super::steps::{Step, Steps};

/// Bytes of the longest character, and one more: the positions at which ways can be waiting.
const AHEAD: usize = 5;

/// See the top of the file.
pub(super) struct Ways {
    steps: Steps,
    /// What a match that is not empty can begin with.
    first: Bytes,
    nullable: bool,
    /// Steps that may still be taken.
    left: Cell<usize>,
}

/// What a search comes to.
pub(super) enum Outcome {
    Match(usize, usize),
    None,
    /// An automaton is worth its price.
    GivenUp,
}

impl Ways {
    /// For `hir`, until `effort` steps have been taken.
    pub(super) fn new(hir: &Hir, effort: usize) -> Ways {
        let (first, nullable) = greedy::first_bytes(hir);
        Ways {
            steps: Steps::new(hir),
            first,
            nullable,
            left: Cell::new(effort),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.steps.memory_bytes()
    }

    /// The leftmost-longest match from `from` on; with `any`, whether there is one, at some place.
    pub(super) fn search(&self, hay: &[u8], from: usize, any: bool) -> Outcome {
        let mut left = self.left.get();
        // What is to be made anew for each search.
        left = left.saturating_sub(self.steps.list.len() / 16 + 8);
        let outcome = self.follow(hay, from, any, &mut left);
        self.left.set(left);
        if left == 0 {
            return Outcome::GivenUp;
        }
        outcome
    }

    fn follow(&self, hay: &[u8], from: usize, any: bool, left: &mut usize) -> Outcome {
        let steps = &self.steps;
        // The ways that wait at a position, by its remainder: a step and where the match began.
        let mut waiting: [Vec<(usize, usize)>; AHEAD] = Default::default();
        let mut waiting_count = 0;
        // The last position, and one, at which a step was passed.
        let mut passed = vec![0; steps.list.len()];
        let mut found: Option<(usize, usize)> = None;
        let mut stack = Vec::new();
        let mut at = from;
        while *left > 0 {
            if waiting_count == 0 {
                if found.is_some() {
                    break;
                }
                if !self.nullable {
                    // Nothing is under way: on to where something can begin.
                    let begins = |b: &u8| self.first.contains(*b);
                    match hay[at..].iter().position(begins) {
                        Some(skipped) => at += skipped,
                        None => break,
                    }
                }
            }
            let mut here = std::mem::take(&mut waiting[at % AHEAD]);
            waiting_count -= here.len();
            // Of several ways to a step the one that began first counts: its end is as good, its start better.
            here.sort_unstable_by_key(|way| way.1);
            if found.is_none()
                && (self.nullable || hay.get(at).is_some_and(|b| self.first.contains(*b)))
            {
                here.push((0, at));
            }
            for (step, start) in here.drain(..) {
                if found.is_some_and(|(first, _)| start > first) {
                    break;
                }
                stack.push(step);
                while let Some(step) = stack.pop() {
                    if passed[step] == at + 1 {
                        continue;
                    }
                    passed[step] = at + 1;
                    *left = left.saturating_sub(1);
                    match steps.list[step] {
                        Step::Match => {
                            if any {
                                return Outcome::Match(start, at);
                            }
                            // Starts come in order: a later one is no better.
                            if found.is_none_or(|(first, _)| start <= first) {
                                found = Some((start, at));
                            }
                        }
                        Step::Split(a, b) => stack.extend([b, a]),
                        Step::Jump(to) => stack.push(to),
                        Step::Open(_) | Step::Close { .. } => stack.push(step + 1),
                        Step::Border(border) => {
                            if steps.borders(border, hay, at) {
                                stack.push(step + 1);
                            }
                        }
                        reading => {
                            if at < hay.len()
                                && let Some(len) = steps.length(hay, at, reading)
                            {
                                waiting[(at + len) % AHEAD].push((step + 1, start));
                                waiting_count += 1;
                            }
                        }
                    }
                }
            }
            // Its memory serves again: nothing waits here until the positions have come round.
            waiting[at % AHEAD] = here;
            if at == hay.len() {
                break;
            }
            at += 1;
        }
        match found {
            Some((start, end)) => Outcome::Match(start, end),
            None => Outcome::None,
        }
    }
}
