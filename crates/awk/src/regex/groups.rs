//! Where the groups of a match lie.
//!
//! Invariant: given a match's start and end, one way through the pattern is followed from left to right, and at each
//! choice the first branch is taken from which that end can still be reached; so a walk never goes back, and its cost
//! is the pattern's size times the match's length. These are the choices of the matcher that gawk has, which is not
//! quite what POSIX asks for: `(a|ab)(c|bcd)` on `abcd` gives `a` and `bcd` (compared with gawk 5.3.2). Called by
//! `regex` alone.

use std::collections::VecDeque;

use regex_automata::util::look::{Look as Border, LookMatcher};
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use super::Places;
use crate::text::{self, Charset};

/// Memory for what is known about positions, in bytes, above which a long match is worked on in blocks.
const KNOWN_BYTES: usize = 1 << 20;

/// Bytes of the longest character.
const CHAR_BYTES: usize = 4;

/// A pattern as steps; a step goes on to the one after it unless it says otherwise.
pub(super) struct Groups {
    steps: Vec<Step>,
    has_borders: bool,
    looks: LookMatcher,
}

enum Step {
    Byte(u8),
    /// A byte of a set.
    Bytes(Box<[bool; 256]>),
    /// A character within sorted ranges.
    Chars(Box<[(u32, u32)]>),
    Border(Border),
    /// The first is preferred.
    Split(usize, usize),
    Jump(usize),
    Open(usize),
    Close {
        group: usize,
        /// The group is the operand of a repetition's turn that need not be taken.
        optional: bool,
    },
    Match,
}

/// What is known of the operand of a repetition when the steps of one of its turns are made.
///
/// That a group is all of an optional turn matters when it is left without having read anything. gawk forgets it in the
/// copies that it makes of an operand for `+` and intervals, except for the copy that becomes the first optional turn.
#[derive(Clone, Copy, Default)]
struct Turn {
    optional: bool,
    copy: bool,
}

/// What a match lies in.
#[derive(Clone, Copy)]
struct Text<'a> {
    cs: Charset,
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
    /// The steps of `hir`, whose groups are captures.
    /// Memory, in bytes, about.
    pub(super) fn held_bytes(&self) -> usize {
        let own = |step: &Step| match step {
            Step::Bytes(_) => 256,
            Step::Chars(ranges) => size_of_val(&**ranges),
            _ => 0,
        };
        self.steps
            .iter()
            .map(|step| size_of::<Step>() + own(step))
            .sum()
    }

    pub(super) fn new(hir: &Hir) -> Groups {
        let mut groups = Groups {
            steps: Vec::new(),
            has_borders: false,
            looks: LookMatcher::new(),
        };
        groups.add(hir, Turn::default());
        groups.steps.push(Step::Match);
        groups.has_borders = groups
            .steps
            .iter()
            .any(|step| matches!(step, Step::Border(_)));
        groups
    }

    fn hole(&mut self) -> usize {
        self.steps.push(Step::Jump(0));
        self.steps.len() - 1
    }

    /// Adds the steps of `hir`.
    fn add(&mut self, hir: &Hir, turn: Turn) {
        let inner = Turn {
            optional: false,
            ..turn
        };
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(l) => self.steps.extend(l.0.iter().map(|b| Step::Byte(*b))),
            HirKind::Class(Class::Bytes(class)) => {
                let mut set = Box::new([false; 256]);
                for r in class.iter() {
                    set[usize::from(r.start())..=usize::from(r.end())].fill(true);
                }
                self.steps.push(Step::Bytes(set));
            }
            HirKind::Class(Class::Unicode(class)) => {
                let ranges = class.iter().map(|r| (r.start() as u32, r.end() as u32));
                self.steps.push(Step::Chars(ranges.collect()));
            }
            HirKind::Look(look) => self.steps.push(Step::Border(border(*look))),
            HirKind::Capture(c) => {
                let group = c.index as usize;
                self.steps.push(Step::Open(group));
                self.add(&c.sub, inner);
                self.steps.push(Step::Close {
                    group,
                    optional: turn.optional,
                });
            }
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.add(part, inner)),
            HirKind::Alternation(branches) => self.add_branches(branches, inner),
            HirKind::Repetition(r) => self.add_repetition(r, inner),
        }
    }

    fn add_branches(&mut self, branches: &[Hir], turn: Turn) {
        let splits: Vec<usize> = (1..branches.len()).map(|_| self.hole()).collect();
        let mut ends = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            if i > 0 {
                ends.push(self.hole());
                // `a|b|c` is `(a|b)|c`: the last split made is the innermost, between the first two.
                let split = splits[splits.len() - i];
                self.steps[split] = Step::Split(split + 1, self.steps.len());
            }
            self.add(branch, turn);
        }
        let after = self.steps.len();
        for end in ends {
            self.steps[end] = Step::Jump(after);
        }
    }

    fn add_repetition(&mut self, r: &Repetition, turn: Turn) {
        for i in 0..r.min {
            let copy = turn.copy || i > 0;
            self.add(
                &r.sub,
                Turn {
                    copy,
                    optional: false,
                },
            );
        }
        let first = Turn {
            copy: turn.copy || r.min > 0,
            optional: !turn.copy,
        };
        let later = Turn {
            copy: true,
            optional: false,
        };
        let Some(max) = r.max else {
            let split = self.hole();
            self.add(&r.sub, first);
            self.steps.push(Step::Jump(split));
            self.steps[split] = Step::Split(split + 1, self.steps.len());
            return;
        };
        // `x{0,3}` is `(((x)?x)?x)?`: how many turns is decided before where each ends.
        let turns = max.saturating_sub(r.min) as usize;
        let splits: Vec<usize> = (0..turns).map(|_| self.hole()).collect();
        for (i, split) in splits.into_iter().rev().enumerate() {
            self.add(&r.sub, if i == 0 { first } else { later });
            self.steps[split] = Step::Split(split + 1, self.steps.len());
        }
    }

    /// Fills `places[1..]` for the match from `start` to `end`.
    ///
    /// gawk passes no border at the end of a match if there is a way without: `(^)?` on an empty text takes no turn.
    pub(super) fn fill(
        &self,
        cs: Charset,
        hay: &[u8],
        start: usize,
        end: usize,
        places: &mut Places,
    ) {
        let text = Text {
            cs,
            hay,
            end,
            borders_at_end: false,
        };
        if self.has_borders && !self.walk(&text, start, places) {
            let text = Text {
                borders_at_end: true,
                ..text
            };
            self.walk(&text, start, places);
        } else if !self.has_borders {
            self.walk(&text, start, places);
        }
    }

    /// False, and `places` left alone, if the end cannot be reached.
    fn walk(&self, text: &Text<'_>, start: usize, places: &mut Places) -> bool {
        let words = self.steps.len().div_ceil(64);
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
        let mut walk = Walk {
            prior: places.clone(),
            places,
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
        let words = self.steps.len().div_ceil(64);
        let mut known = Known {
            low,
            words,
            bits: vec![0; (high - low + 1) * words],
        };
        known.bits.extend_from_slice(tail);
        let mut row = vec![0u64; words];
        for at in (low..=high).rev() {
            row.fill(0);
            for (i, step) in self.steps.iter().enumerate() {
                let reached = match step {
                    Step::Match => at == text.end,
                    _ if at == text.end => false,
                    _ => text
                        .length(at, step)
                        .is_some_and(|len| at + len <= text.end && known.contains(at + len, i + 1)),
                };
                row[i / 64] |= u64::from(reached) << (i % 64);
            }
            // Steps that read nothing lead mostly forward, so that few rounds settle them.
            loop {
                let mut changed = false;
                for (i, step) in self.steps.iter().enumerate().rev() {
                    let is_set = |to: usize| row[to / 64] >> (to % 64) & 1 == 1;
                    let reached = match step {
                        Step::Split(a, b) => is_set(*a) || is_set(*b),
                        Step::Jump(to) => is_set(*to),
                        Step::Open(_) | Step::Close { .. } => is_set(i + 1),
                        Step::Border(look) => {
                            is_set(i + 1)
                                && (at < text.end || text.borders_at_end)
                                && self.looks.matches(*look, text.hay, at)
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

impl Text<'_> {
    /// Length in bytes of what a reading step reads at `at`, which must lie before the end of `hay`.
    fn length(&self, at: usize, step: &Step) -> Option<usize> {
        match step {
            Step::Byte(byte) => (self.hay[at] == *byte).then_some(1),
            Step::Bytes(set) => set[usize::from(self.hay[at])].then_some(1),
            Step::Chars(ranges) => {
                let (code, len) = text::next_char(self.cs, &self.hay[at..]);
                if len == 1 && code >= 0x80 {
                    return None;
                }
                let above = ranges.partition_point(|(low, _)| *low <= code);
                (above > 0 && code <= ranges[above - 1].1).then_some(len)
            }
            _ => None,
        }
    }
}

/// The one way that is followed.
struct Walk<'a> {
    places: &'a mut Places,
    /// The places when a group that is not empty was last left.
    prior: Places,
    step: usize,
    at: usize,
    /// Steps passed at this position.
    seen: Vec<usize>,
}

impl Walk<'_> {
    /// Goes on while the position is at most `high`; true when the end is reached.
    fn go(&mut self, groups: &Groups, text: &Text<'_>, known: &Known, high: usize) -> bool {
        while self.at <= high {
            let step = &groups.steps[self.step];
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
                    self.pass(step);
                    self.step + 1
                }
                _ => {
                    // Only steps from which the end is reached are entered.
                    let Some(len) = (self.at < text.end)
                        .then(|| text.length(self.at, step))
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
            if self.seen.len() > 4 * groups.steps.len() {
                self.leave_circle(groups, known);
            }
        }
        false
    }

    /// Takes the shortest way from here to a step that reads, or to the match. There is one, since only steps from which
    /// the end is reached are entered.
    fn leave_circle(&mut self, groups: &Groups, known: &Known) {
        let mut before = vec![None; groups.steps.len()];
        let mut queue = VecDeque::from([self.step]);
        let mut way = Vec::new();
        while let Some(at) = queue.pop_front() {
            let next = match &groups.steps[at] {
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
            self.pass(&groups.steps[step]);
            self.step = step;
        }
        self.seen.clear();
    }

    /// What a step that reads nothing does to the places.
    fn pass(&mut self, step: &Step) {
        match step {
            Step::Open(group) => self.places[*group] = Some((self.at, usize::MAX)),
            Step::Close { group, optional } => self.close(*group, *optional),
            _ => {}
        }
    }

    fn close(&mut self, group: usize, optional: bool) {
        let Some((open, _)) = self.places[group] else {
            return;
        };
        if open < self.at {
            self.places[group] = Some((open, self.at));
            self.prior.clone_from(self.places);
        } else if optional && self.prior[group].is_some() {
            // An empty turn after others leaves things as they were.
            self.places.clone_from(&self.prior);
        } else {
            self.places[group] = Some((open, self.at));
        }
    }
}

fn border(look: Look) -> Border {
    match look {
        Look::Start => Border::Start,
        Look::End => Border::End,
        Look::WordAscii => Border::WordAscii,
        Look::WordAsciiNegate => Border::WordAsciiNegate,
        Look::WordUnicode => Border::WordUnicode,
        Look::WordUnicodeNegate => Border::WordUnicodeNegate,
        Look::WordStartAscii => Border::WordStartAscii,
        Look::WordEndAscii => Border::WordEndAscii,
        Look::WordStartUnicode => Border::WordStartUnicode,
        Look::WordEndUnicode => Border::WordEndUnicode,
        Look::StartLF => Border::StartLF,
        Look::EndLF => Border::EndLF,
        Look::StartCRLF => Border::StartCRLF,
        Look::EndCRLF => Border::EndCRLF,
        Look::WordStartHalfAscii => Border::WordStartHalfAscii,
        Look::WordEndHalfAscii => Border::WordEndHalfAscii,
        Look::WordStartHalfUnicode => Border::WordStartHalfUnicode,
        Look::WordEndHalfUnicode => Border::WordEndHalfUnicode,
    }
}
