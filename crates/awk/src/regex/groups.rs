//! Where the groups of a match lie.
//!
//! Invariant: given a match's start and end, one way through the pattern is followed from left to right, and at each
//! choice the first branch is taken from which that end can still be reached; so a walk never goes back, and its cost
//! is the pattern's size times the match's length; a shorter way to the same answer is tried first ([`super::ahead`]). These are the choices of the matcher that gawk has, which is not
//! quite what POSIX asks for: `(a|ab)(c|bcd)` on `abcd` gives `a` and `bcd` (compared with gawk 5.3.2). Called by
//! `regex` alone.

use std::cell::RefCell;
use std::collections::VecDeque;

use regex_syntax::hir::Hir;

use super::Places;
use super::ahead::Ahead;
use super::steps::{Step, Steps};

/// Memory for what is known about positions, in bytes, above which a long match is worked on in blocks.
const KNOWN_BYTES: usize = 1 << 20;

/// Bytes of the longest character.
const CHAR_BYTES: usize = 4;

/// A pattern's steps, whose groups are captures.
pub(super) struct Groups {
    steps: Steps,
    /// The short way, for patterns that have one.
    ahead: Option<Ahead>,
    /// There is a group whose empty turn leaves things as they were.
    remembers: bool,
    /// See [`Marks`].
    prior: RefCell<Places>,
}

/// What a match lies in.
#[derive(Clone, Copy)]
struct Text<'a> {
    hay: &'a [u8],
    /// Where the match ends.
    end: usize,
    /// Borders may be passed there.
    borders_at_end: bool,
}

/// From which steps the match's end can be reached, for positions from `low` on: one bit for each step.
struct Known {
    low: usize,
    words: usize,
    bits: Vec<u64>,
}

impl Known {
    fn row(&self, at: usize) -> &[u64] {
        let from = (at - self.low) * self.words;
        &self.bits[from..from + self.words]
    }

    fn contains(&self, at: usize, step: usize) -> bool {
        self.row(at)[step / 64] >> (step % 64) & 1 == 1
    }
}

impl Groups {
    /// For `hir` with its captures.
    pub(super) fn new(hir: &Hir) -> Groups {
        let steps = Steps::new(hir);
        let remembers = |step: &Step| matches!(step, Step::Close { optional: true, .. });
        Groups {
            ahead: Ahead::new(&steps),
            remembers: steps.list.iter().any(remembers),
            prior: RefCell::new(Places::new()),
            steps,
        }
    }

    /// The same without the short way.
    #[cfg(test)]
    pub(super) fn slow(hir: &Hir) -> Groups {
        Groups {
            ahead: None,
            ..Groups::new(hir)
        }
    }

    #[cfg(test)]
    pub(super) fn has_short_way(&self) -> bool {
        self.ahead.is_some()
    }

    /// What they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.steps.memory_bytes() + self.ahead.as_ref().map_or(0, Ahead::memory_bytes)
    }

    /// Fills `places[1..]` for the match from `start` to `end`.
    ///
    /// gawk passes no border at the end of a match if there is a way without: `(^)?` on an empty text takes no turn.
    pub(super) fn fill(&self, hay: &[u8], start: usize, end: usize, places: &mut Places) {
        if let Some(ahead) = &self.ahead {
            let mut prior = self.prior.borrow_mut();
            let mut marks = self.marks(places, &mut prior);
            if ahead.fill(&self.steps, hay, (start, end), &mut marks) {
                return;
            }
            marks.restart();
        }
        let text = Text {
            hay,
            end,
            borders_at_end: false,
        };
        if self.steps.has_borders && !self.walk(&text, start, places) {
            let text = Text {
                borders_at_end: true,
                ..text
            };
            self.walk(&text, start, places);
        } else if !self.steps.has_borders {
            self.walk(&text, start, places);
        }
    }

    fn marks<'p>(&self, places: &'p mut Places, prior: &'p mut Places) -> Marks<'p> {
        if self.remembers {
            prior.clone_from(places);
        }
        Marks {
            places,
            prior,
            remembers: self.remembers,
        }
    }

    /// False, and `places` left alone, if the end cannot be reached.
    fn walk(&self, text: &Text<'_>, start: usize, places: &mut Places) -> bool {
        let words = self.steps.list.len().div_ceil(64);
        let end = text.end;
        let len = end - start + 1;
        // Blocks of about the square root keep both what is kept for each block and the block itself small.
        let block = if len.saturating_mul(words * 8) <= KNOWN_BYTES {
            len
        } else {
            (len as f64).sqrt() as usize * 2 + CHAR_BYTES
        };
        // From the end: the first rows of each block, from which the block before it can be worked out again.
        let mut tails = vec![vec![0; words * CHAR_BYTES]];
        let mut known = Known {
            low: end + 1,
            words,
            bits: Vec::new(),
        };
        for low in (start..end + 1).step_by(block).rev() {
            let tail = tails.last().map_or(&[][..], |tail| &tail[..]);
            known = self.know(text, low, end.min(low + block - 1), tail);
            tails.push(known.bits[..words * CHAR_BYTES].to_vec());
        }
        if !known.contains(start, 0) {
            return false;
        }
        tails.pop();
        let mut prior = self.prior.borrow_mut();
        let mut walk = Walk {
            marks: self.marks(places, &mut prior),
            step: 0,
            at: start,
            seen: Vec::new(),
        };
        let mut done = walk.go(self, text, &known, end.min(start + block - 1));
        while !done {
            tails.pop();
            let low = known.low + block;
            let tail = tails.last().map_or(&[][..], |tail| &tail[..]);
            let high = end.min(low + block - 1);
            known = self.know(text, low, high, tail);
            done = walk.go(self, text, &known, high);
        }
        true
    }

    /// What is known from `low` to `high` and of the [`CHAR_BYTES`] positions behind, which are given.
    fn know(&self, text: &Text<'_>, low: usize, high: usize, tail: &[u64]) -> Known {
        let words = self.steps.list.len().div_ceil(64);
        let mut known = Known {
            low,
            words,
            bits: vec![0; (high - low + 1) * words],
        };
        known.bits.extend_from_slice(tail);
        let mut row = vec![0u64; words];
        for at in (low..=high).rev() {
            row.fill(0);
            for (i, step) in self.steps.list.iter().enumerate() {
                let reached = match step {
                    Step::Match => at == text.end,
                    _ if at == text.end => false,
                    _ => self
                        .steps
                        .length(text.hay, at, *step)
                        .is_some_and(|len| at + len <= text.end && known.contains(at + len, i + 1)),
                };
                row[i / 64] |= u64::from(reached) << (i % 64);
            }
            // Steps that read nothing lead mostly forward, so that few rounds settle them.
            loop {
                let mut changed = false;
                for (i, step) in self.steps.list.iter().enumerate().rev() {
                    let is_set = |to: usize| row[to / 64] >> (to % 64) & 1 == 1;
                    let reached = match step {
                        Step::Split(a, b) => is_set(*a) || is_set(*b),
                        Step::Jump(to) => is_set(*to),
                        Step::Open(_) | Step::Close { .. } => is_set(i + 1),
                        Step::Border(look) => {
                            is_set(i + 1)
                                && (at < text.end || text.borders_at_end)
                                && self.steps.borders(*look, text.hay, at)
                        }
                        _ => false,
                    };
                    if reached && !is_set(i) {
                        row[i / 64] |= 1 << (i % 64);
                        changed = true;
                    }
                }
                if !changed {
                    break;
                }
            }
            let from = (at - low) * words;
            known.bits[from..from + words].copy_from_slice(&row);
        }
        known
    }
}

/// The one way that is followed.
struct Walk<'a> {
    marks: Marks<'a>,
    step: usize,
    at: usize,
    /// Steps passed at this position.
    seen: Vec<usize>,
}

impl Walk<'_> {
    /// Goes on while the position is at most `high`; true when the end is reached.
    fn go(&mut self, groups: &Groups, text: &Text<'_>, known: &Known, high: usize) -> bool {
        while self.at <= high {
            let step = &groups.steps.list[self.step];
            let next = match step {
                Step::Match => return true,
                Step::Split(a, b) => {
                    let (first, second) =
                        (known.contains(self.at, *a), known.contains(self.at, *b));
                    // A turn that read nothing is not taken again.
                    if first && !(second && self.seen.contains(a)) {
                        *a
                    } else {
                        *b
                    }
                }
                Step::Jump(to) => *to,
                Step::Open(_) | Step::Close { .. } | Step::Border(_) => {
                    self.marks.pass(step, self.at);
                    self.step + 1
                }
                _ => {
                    // Only steps from which the end is reached are entered.
                    let Some(len) = (self.at < text.end)
                        .then(|| groups.steps.length(text.hay, self.at, *step))
                        .flatten()
                    else {
                        return true;
                    };
                    self.at += len;
                    self.step += 1;
                    self.seen.clear();
                    continue;
                }
            };
            self.seen.push(self.step);
            self.step = next;
            // Each step is passed at most a few times at one position; more is a walk in a circle, which repetitions of
            // repetitions of nothing are able to make: `(()+|a|)*`.
            if self.seen.len() > 4 * groups.steps.list.len() {
                self.leave_circle(groups, known);
            }
        }
        false
    }

    /// Takes the shortest way from here to a step that reads, or to the match. There is one, since only steps from which
    /// the end is reached are entered.
    fn leave_circle(&mut self, groups: &Groups, known: &Known) {
        let mut before = vec![None; groups.steps.list.len()];
        let mut queue = VecDeque::from([self.step]);
        let mut way = Vec::new();
        while let Some(at) = queue.pop_front() {
            let next = match &groups.steps.list[at] {
                Step::Split(a, b) => [Some(*a), Some(*b)],
                Step::Jump(to) => [Some(*to), None],
                Step::Open(_) | Step::Close { .. } | Step::Border(_) => [Some(at + 1), None],
                _ => {
                    let prior = |at: &usize| before[*at].filter(|_| *at != self.step);
                    way.extend(std::iter::successors(Some(at), prior));
                    break;
                }
            };
            for next in next.into_iter().flatten() {
                if before[next].is_none() && known.contains(self.at, next) {
                    before[next] = Some(at);
                    queue.push_back(next);
                }
            }
        }
        for step in way.into_iter().rev() {
            self.marks.pass(&groups.steps.list[step], self.at);
            self.step = step;
        }
        self.seen.clear();
    }
}

/// The places of groups, while they are found.
pub(super) struct Marks<'a> {
    places: &'a mut Places,
    /// The places when a group that is not empty was last left, if that can matter.
    prior: &'a mut Places,
    remembers: bool,
}

impl Marks<'_> {
    /// As if nothing were noted.
    pub(super) fn restart(&mut self) {
        self.places[1..].fill(None);
        if self.remembers {
            self.prior.clone_from(self.places);
        }
    }

    /// What a step that reads nothing does to the places.
    #[inline]
    pub(super) fn pass(&mut self, step: &Step, at: usize) {
        match step {
            Step::Open(group) => self.places[*group] = Some((at, usize::MAX)),
            Step::Close { group, optional } => self.close(*group, *optional, at),
            _ => {}
        }
    }

    #[inline]
    fn close(&mut self, group: usize, optional: bool, at: usize) {
        let Some((open, _)) = self.places[group] else {
            return;
        };
        if open < at {
            self.places[group] = Some((open, at));
            if self.remembers {
                self.prior.clone_from(self.places);
            }
        } else if optional && self.prior[group].is_some() {
            // An empty turn after others leaves things as they were.
            self.places.clone_from(self.prior);
        } else {
            self.places[group] = Some((open, at));
        }
    }
}
