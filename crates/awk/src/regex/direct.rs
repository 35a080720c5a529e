//! Matches that are tried where they can begin: a small table that is followed from there to the longest end.
//!
//! Invariant: gives the leftmost-longest match, as the automata do, or gives up: attempts that fail may read no more than a few
//! times the text, so that searches stay linear. One search costs no more than the bytes it reads, which for matches that are
//! many and short is most of what a general engine costs. Called by `automaton` alone.

use std::cell::Cell;

use memchr::memmem::Finder;
use regex_automata::Anchored;
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::primitives::StateID;
use regex_automata::{Input, MatchKind};
use regex_syntax::hir::{Hir, HirKind, Look};

use super::automaton::longest_nfa;
use super::greedy;

/// Limits of the automaton that the table is made of, and of the work to make it, in bytes.
const TABLE_BYTES_MAX: usize = 512 << 10;
const WORK_BYTES_MAX: usize = 1 << 20;

/// Searches that were given up before no more is tried.
const GIVEN_UP_MAX: u32 = 8;

/// See the top of the file.
pub(super) struct Direct {
    classes: Box<[u8; 256]>,
    /// The next state for a state and a byte's class. A state's number is the place of its row; the first row is the state
    /// from which nothing matches.
    next: Box<[u32]>,
    start: u32,
    /// From this one on, states at which a match may end.
    accepting: u32,
    begin: Begin,
    /// Only the text's end ends a match.
    to_end: bool,
    given_up: Cell<u32>,
}

/// Where a match can begin.
enum Begin {
    TextStart,
    Anywhere,
    With(Box<Finder<'static>>),
    Two(u8, u8),
    Three(u8, u8, u8),
    OneOf(greedy::Bytes),
}

/// Nothing matches from this state on.
const DEAD: u32 = 0;

impl Direct {
    /// `None` if another way is better, or the table would be too large.
    pub(super) fn new(hir: &Hir) -> Option<Direct> {
        let (at_start, to_end, inner) = without_ends(hir);
        if !inner.properties().look_set().is_empty() {
            return None;
        }
        let nullable = inner.properties().minimum_len() == Some(0);
        let begin = match prefix(&inner) {
            _ if at_start => Begin::TextStart,
            _ if nullable && to_end => return None,
            _ if nullable => Begin::Anywhere,
            Some(text) => Begin::With(Box::new(Finder::new(text).into_owned())),
            None => {
                let first = greedy::first_bytes(&inner).0;
                let members: Vec<u8> = (0..=255).filter(|b| first.contains(*b)).collect();
                match members[..] {
                    [a, b] => Begin::Two(a, b),
                    [a, b, c] => Begin::Three(a, b, c),
                    // Of many texts that are looked for at once a general engine finds the first faster.
                    _ if matches!(inner.kind(), HirKind::Alternation(_)) => return None,
                    _ => Begin::OneOf(first),
                }
            }
        };
        let config = dense::Config::new()
            .match_kind(MatchKind::All)
            .start_kind(StartKind::Anchored)
            .accelerate(false)
            .dfa_size_limit(Some(TABLE_BYTES_MAX))
            .determinize_size_limit(Some(WORK_BYTES_MAX));
        let dfa = dense::Builder::new()
            .configure(config)
            .build_from_nfa(&longest_nfa(&inner, WhichCaptures::None)?)
            .ok()?;
        let table = Table::of(&dfa)?;
        Some(Direct {
            classes: table.classes,
            next: table.next,
            start: table.start,
            accepting: table.accepting,
            begin,
            to_end,
            given_up: Cell::new(0),
        })
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Direct>() + 256 + size_of_val(&*self.next)
    }

    /// The leftmost-longest match from `from` on; with `any` some end of a match. `None`: it is for others to search.
    #[inline]
    pub(super) fn search(
        &self,
        hay: &[u8],
        from: usize,
        any: bool,
    ) -> Option<Option<(usize, usize)>> {
        if self.given_up.get() >= GIVEN_UP_MAX {
            return None;
        }
        if let Begin::TextStart = self.begin {
            let end = (from == 0).then(|| self.follow(hay, 0, any).0).flatten();
            return Some(end.map(|end| (0, end)));
        }
        // What failing attempts may still read.
        let mut left = 2 * (hay.len() - from) + 256;
        let mut at = from;
        loop {
            let rest = &hay[at..];
            let skipped = match &self.begin {
                Begin::With(finder) => match finder.needle() {
                    [one] => memchr::memchr(*one, rest),
                    _ => finder.find(rest),
                },
                Begin::Two(a, b) => memchr::memchr2(*a, *b, rest),
                Begin::Three(a, b, c) => memchr::memchr3(*a, *b, *c, rest),
                Begin::OneOf(first) => rest.iter().position(|b| first.contains(*b)),
                Begin::Anywhere | Begin::TextStart => Some(0),
            };
            let Some(skipped) = skipped else {
                return Some(None);
            };
            at += skipped;
            let (end, read) = self.follow(hay, at, any);
            if let Some(end) = end {
                return Some(Some((at, end)));
            }
            match left.checked_sub(read - at + 4) {
                Some(less) => left = less,
                None => {
                    self.given_up.set(self.given_up.get() + 1);
                    return None;
                }
            }
            at += 1;
            if at > hay.len() {
                return Some(None);
            }
        }
    }

    /// The longest end of a match that begins at `start` (with `any` the first one), and how far the text was read.
    #[inline]
    fn follow(&self, hay: &[u8], start: usize, any: bool) -> (Option<usize>, usize) {
        let mut state = self.start;
        let mut end = (state >= self.accepting).then_some(start);
        if any && end.is_some() && !self.to_end {
            return (end, start);
        }
        let mut at = start;
        for &byte in &hay[start..] {
            state = self.next[state as usize + usize::from(self.classes[usize::from(byte)])];
            at += 1;
            if state >= self.accepting {
                end = Some(at);
                if any && !self.to_end {
                    return (end, at);
                }
            } else if state == DEAD {
                break;
            }
        }
        if self.to_end && !(at == hay.len() && state >= self.accepting) {
            end = None;
        }
        (end, at)
    }
}

/// Whether a pattern begins with `^` and ends with `$`, and what is between.
fn without_ends(hir: &Hir) -> (bool, bool, Hir) {
    let is = |hir: &Hir, look: Look| matches!(hir.kind(), HirKind::Look(l) if *l == look);
    let HirKind::Concat(parts) = hir.kind() else {
        return (false, false, hir.clone());
    };
    let at_start = is(&parts[0], Look::Start);
    let to_end = is(&parts[parts.len() - 1], Look::End);
    let inner = &parts[usize::from(at_start)..parts.len() - usize::from(to_end)];
    (at_start, to_end, Hir::concat(inner.to_vec()))
}

/// The text that every match begins with.
fn prefix(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(group) => prefix(&group.sub),
        HirKind::Concat(parts) => prefix(parts.first()?),
        HirKind::Repetition(r) if r.min > 0 => prefix(&r.sub),
        _ => None,
    }
}

struct Table {
    classes: Box<[u8; 256]>,
    next: Box<[u32]>,
    start: u32,
    accepting: u32,
}

impl Table {
    /// The states that can be reached and from which a match can be; those at which one ends come last.
    fn of(dfa: &dense::DFA<Vec<u32>>) -> Option<Table> {
        let classes = dfa.byte_classes();
        let bytes: Vec<u8> = classes
            .representatives(0..=255)
            .filter_map(|unit| unit.as_u8())
            .collect();
        let input = Input::new(b"").anchored(Anchored::Yes);
        let first = dfa.start_state_forward(&input).ok()?;
        let mut states = vec![first];
        let mut numbers = std::collections::HashMap::from([(first, 0)]);
        let mut to: Vec<usize> = Vec::new();
        let mut at = 0;
        while at < states.len() {
            for &byte in &bytes {
                let next: StateID = dfa.next_state(states[at], byte);
                if dfa.is_quit_state(next) {
                    return None;
                }
                to.push(*numbers.entry(next).or_insert_with(|| {
                    states.push(next);
                    states.len() - 1
                }));
            }
            at += 1;
        }
        // The automaton tells of a match one byte late: what it would tell at the text's end is what is so now.
        let accepts = |state: &StateID| dfa.is_match_state(dfa.next_eoi_state(*state));
        let accepts: Vec<bool> = states.iter().map(accepts).collect();
        let mut alive = accepts.clone();
        loop {
            let mut changed = false;
            for state in (0..states.len()).rev() {
                let targets = &to[state * bytes.len()..][..bytes.len()];
                if !alive[state] && targets.iter().any(|next| alive[*next]) {
                    alive[state] = true;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let order = |wanted: bool| {
            let accepts = &accepts;
            let alive = &alive;
            (0..states.len()).filter(move |s| alive[*s] && accepts[*s] == wanted)
        };
        let order: Vec<usize> = order(false).chain(order(true)).collect();
        let stride = bytes.len();
        let mut rows = vec![DEAD; states.len()];
        for (at, state) in order.iter().enumerate() {
            rows[*state] = u32::try_from((at + 1) * stride).ok()?;
        }
        let mut next = vec![DEAD; stride];
        for state in &order {
            next.extend(to[state * stride..][..stride].iter().map(|s| rows[*s]));
        }
        let quiet = order.iter().filter(|state| !accepts[**state]).count();
        let mut class_of = Box::new([0; 256]);
        for byte in 0..=255u8 {
            // The class of the end is the last one, and no byte's.
            class_of[usize::from(byte)] = classes.get(byte);
        }
        Some(Table {
            classes: class_of,
            next: next.into(),
            start: rows[0],
            accepting: u32::try_from((quiet + 1) * stride).ok()?,
        })
    }
}
