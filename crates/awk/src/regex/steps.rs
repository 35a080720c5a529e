//! A pattern as steps that read characters: small, and made at once.
//!
//! Invariant: the ways through the steps, in order of preference, are those of gawk's matcher. A class is held once, however
//! often a repetition copies it, so that a pattern takes what it says and not what its automaton would. Called by [`super::groups`]
//! and [`super::ways`].

use std::collections::HashMap;

use regex_automata::util::look::{Look as Border, LookMatcher};
use regex_syntax::hir::{Class, Hir, HirKind, Look, Repetition};

use crate::text::{self, Charset};

/// A pattern as steps; a step goes on to the one after it unless it says otherwise.
pub(super) struct Steps {
    pub(super) list: Vec<Step>,
    sets: Vec<Set>,
    pub(super) has_borders: bool,
    looks: LookMatcher,
}

#[derive(Clone, Copy)]
pub(super) enum Step {
    Byte(u8),
    /// A byte of a set.
    Bytes(u32),
    /// A character of a set.
    Chars(u32),
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

impl Step {
    /// Whether it reads a character; any other is passed at one place.
    pub(super) fn reads(&self) -> bool {
        matches!(self, Step::Byte(_) | Step::Bytes(_) | Step::Chars(_))
    }
}

/// The members of a class.
struct Set {
    /// Of bytes: all; of characters: those of ASCII.
    bytes: [bool; 256],
    /// All characters, sorted.
    ranges: Box<[(u32, u32)]>,
}

impl Set {
    fn of(class: &Class) -> Set {
        let mut bytes = [false; 256];
        let mut ranges = Vec::new();
        match class {
            Class::Bytes(class) => {
                for r in class.iter() {
                    bytes[usize::from(r.start())..=usize::from(r.end())].fill(true);
                }
            }
            Class::Unicode(class) => {
                ranges.extend(class.iter().map(|r| (r.start() as u32, r.end() as u32)));
                for &(low, high) in ranges.iter().take_while(|r| r.0 < 0x80) {
                    bytes[low as usize..=high.min(0x7F) as usize].fill(true);
                }
            }
        }
        Set {
            bytes,
            ranges: ranges.into(),
        }
    }
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

/// The steps while they are made.
struct Build {
    list: Vec<Step>,
    sets: Vec<Set>,
    /// The class in the tree that each of `sets` was made of: the copies of a repetition share it.
    classes: HashMap<*const Class, u32>,
}

impl Steps {
    /// The steps of `hir`.
    pub(super) fn new(hir: &Hir) -> Steps {
        let mut build = Build {
            list: Vec::new(),
            sets: Vec::new(),
            classes: HashMap::new(),
        };
        build.add(hir, Turn::default());
        build.list.push(Step::Match);
        let mut list = build.list;
        list.shrink_to_fit();
        Steps {
            has_borders: list.iter().any(|step| matches!(step, Step::Border(_))),
            list,
            sets: build.sets,
            looks: LookMatcher::new(),
        }
    }

    /// What they take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let ranges: usize = self.sets.iter().map(|set| set.ranges.len()).sum();
        size_of_val(&*self.list) + size_of_val(&*self.sets) + ranges * size_of::<(u32, u32)>()
    }

    /// Length in bytes of what a reading step reads at `at`, which must lie before the end of `hay`.
    #[inline(always)] // a call costs more than most steps
    pub(super) fn length(&self, hay: &[u8], at: usize, step: Step) -> Option<usize> {
        let first = hay[at];
        match step {
            Step::Byte(byte) => (first == byte).then_some(1),
            Step::Bytes(set) => self.sets[set as usize].bytes[usize::from(first)].then_some(1),
            Step::Chars(set) if first < 0x80 => {
                self.sets[set as usize].bytes[usize::from(first)].then_some(1)
            }
            Step::Chars(set) => {
                // In texts of bytes, too: alternatives such as `é|z` become a class of characters there, meaning UTF-8's bytes.
                let (code, len) = text::next_char(Charset::Utf8, &hay[at..]);
                if len == 1 {
                    return None;
                }
                let ranges = &self.sets[set as usize].ranges;
                let above = ranges.partition_point(|(low, _)| *low <= code);
                (above > 0 && code <= ranges[above - 1].1).then_some(len)
            }
            _ => None,
        }
    }

    /// Whether what a reading step reads may begin with this byte: not less than what it does.
    pub(super) fn begins(&self, step: Step, byte: u8) -> bool {
        match step {
            Step::Byte(only) => only == byte,
            Step::Bytes(set) => self.sets[set as usize].bytes[usize::from(byte)],
            Step::Chars(set) => {
                let set = &self.sets[set as usize];
                set.bytes[usize::from(byte)]
                    || byte >= 0x80 && set.ranges.last().is_some_and(|(_, high)| *high >= 0x80)
            }
            _ => false,
        }
    }

    /// Whether a border lies at `at`.
    pub(super) fn borders(&self, border: Border, hay: &[u8], at: usize) -> bool {
        self.looks.matches(border, hay, at)
    }
}

impl Build {
    fn set(&mut self, class: &Class) -> u32 {
        let sets = &mut self.sets;
        *self.classes.entry(class).or_insert_with(|| {
            sets.push(Set::of(class));
            sets.len() as u32 - 1
        })
    }

    fn hole(&mut self) -> usize {
        self.list.push(Step::Jump(0));
        self.list.len() - 1
    }

    /// Adds the steps of `hir`.
    fn add(&mut self, hir: &Hir, turn: Turn) {
        let inner = Turn {
            optional: false,
            ..turn
        };
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Literal(l) => self.list.extend(l.0.iter().map(|b| Step::Byte(*b))),
            HirKind::Class(class) => {
                let set = self.set(class);
                self.list.push(match class {
                    Class::Bytes(_) => Step::Bytes(set),
                    Class::Unicode(_) => Step::Chars(set),
                });
            }
            HirKind::Look(look) => self.list.push(Step::Border(border(*look))),
            HirKind::Capture(c) => {
                let group = c.index as usize;
                self.list.push(Step::Open(group));
                self.add(&c.sub, inner);
                self.list.push(Step::Close {
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
                self.list[split] = Step::Split(split + 1, self.list.len());
            }
            self.add(branch, turn);
        }
        let after = self.list.len();
        for end in ends {
            self.list[end] = Step::Jump(after);
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
            self.list.push(Step::Jump(split));
            self.list[split] = Step::Split(split + 1, self.list.len());
            return;
        };
        // `x{0,3}` is `(((x)?x)?x)?`: how many turns is decided before where each ends.
        let turns = max.saturating_sub(r.min) as usize;
        let splits: Vec<usize> = (0..turns).map(|_| self.hole()).collect();
        for (i, split) in splits.into_iter().rev().enumerate() {
            self.add(&r.sub, if i == 0 { first } else { later });
            self.list[split] = Step::Split(split + 1, self.list.len());
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
