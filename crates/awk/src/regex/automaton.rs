//! The automata behind a pattern that is not plain.
//!
//! Invariant: the start of a match comes from an ordinary leftmost search, its end from a second, anchored one that goes
//! on until nothing can match any more, unless [`greedy`] proves that the first search's end is the same. They are built when
//! following all ways by hand ([`ways`]) has cost about as much as building them, and not at all where [`direct`] serves. Called by
//! `regex` alone.

use std::cell::{OnceCell, RefCell};

use regex_automata::hybrid;
use regex_automata::hybrid::LazyStateID;
use regex_automata::meta;
use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Class, Hir, HirKind};

use super::direct::Direct;
use super::ways::{Outcome, Ways};
use super::{RegexError, greedy};

/// Memory for one compiled automaton, in bytes: some hundred thousand states.
const AUTOMATON_BYTES_MAX: usize = 16 << 20;

/// A pattern whose automaton is estimated below this, in bytes, is known to keep the limit without being built: the
/// estimate is high.
const SURELY_SMALL_BYTES: usize = AUTOMATON_BYTES_MAX;

/// Building an automaton takes about as long as following so many steps by hand, and one more for each so many of its bytes, as
/// estimated (measured 2026-11-20: 45 us for `abcdefgh`, 420 us for `\w`, estimated at 52 kB; 5-10 ns a step).
const STEPS_AT_LEAST: usize = 4096;
const BYTES_PER_STEP: usize = 2;

/// Memory for the states that searching builds as it goes, in bytes, for each direction.
const CACHE_BYTES: usize = 2 << 20;

/// A pattern and what has been built for it so far.
pub(super) struct Automaton {
    hir: Hir,
    /// The end that `search` finds is the longest one's.
    is_longest: bool,
    /// What a match that is not empty can begin with.
    first: OnceCell<greedy::Bytes>,
    /// Searches until `search` is worth building; `None` where it is built at once.
    ways: OnceCell<Ways>,
    /// Built when `ways` gives up; `None` if it is not the way for this pattern.
    direct: OnceCell<Option<Box<Direct>>>,
    /// Built when `direct` gives up. `None` only if it cannot be built, which [`Automaton::new`] excludes.
    search: OnceCell<Option<Search>>,
    /// Built when a match's end is first asked for: patterns that are only tested never need it.
    ends: OnceCell<Option<Ends>>,
}

/// Finds where a match starts.
struct Search {
    engine: meta::Regex,
    cache: RefCell<meta::Cache>,
}

/// Finds where the longest match from a given start ends.
struct Ends {
    dfa: hybrid::dfa::DFA,
    cache: RefCell<hybrid::dfa::Cache>,
    /// For texts that the automaton gives up on: word borders beside bytes that are not ASCII.
    fallback: OnceCell<Option<(PikeVM, RefCell<thompson::pikevm::Cache>)>>,
}

impl Automaton {
    /// # Errors
    /// A pattern whose automaton is too large.
    pub(super) fn new(hir: Hir) -> Result<Automaton, RegexError> {
        let automaton = Automaton::unlimited(hir);
        if estimated_bytes(&automaton.hir) > SURELY_SMALL_BYTES {
            let search = Search::new(&automaton.hir, Some(AUTOMATON_BYTES_MAX))?;
            let _ = automaton.search.set(Some(search));
        }
        Ok(automaton)
    }

    /// For a form of a pattern that [`Automaton::new`] has accepted.
    pub(super) fn unlimited(hir: Hir) -> Automaton {
        Automaton {
            is_longest: greedy::is_longest(&hir),
            hir,
            first: OnceCell::new(),
            ways: OnceCell::new(),
            direct: OnceCell::new(),
            search: OnceCell::new(),
            ends: OnceCell::new(),
        }
    }

    pub(super) fn hir(&self) -> &Hir {
        &self.hir
    }

    /// Length in bytes of the longest possible match, if there is a limit.
    pub(super) fn longest_bytes(&self) -> Option<usize> {
        self.hir.properties().maximum_len()
    }

    /// What the pattern and all that was built for it takes, in bytes; this grows with what is searched.
    pub(super) fn memory_bytes(&self) -> usize {
        let ways = self.ways.get().map_or(0, Ways::memory_bytes);
        let search = self.search.get().and_then(Option::as_ref);
        let search = search.map_or(0, |search| {
            search.engine.memory_usage() + search.cache.borrow().memory_usage()
        });
        let ends = self.ends.get().and_then(Option::as_ref);
        let direct = self.direct.get().and_then(Option::as_deref);
        hir_bytes(&self.hir)
            + ways
            + direct.map_or(0, Direct::memory_bytes)
            + search
            + ends.map_or(0, Ends::memory_bytes)
    }

    #[inline]
    fn search(&self) -> Option<&Search> {
        self.search
            .get_or_init(|| Search::new(&self.hir, None).ok())
            .as_ref()
    }

    /// Makes it a pattern that is much used: by the general engine alone, or by what is best for it.
    #[cfg(test)]
    pub(super) fn build(&self, general: bool) {
        if general {
            let _ = self.direct.set(None);
        } else {
            self.direct();
        }
        self.search();
    }

    #[cfg(test)]
    pub(super) fn is_direct(&self) -> bool {
        self.direct.get().is_some_and(Option::is_some)
    }

    #[inline]
    fn direct(&self) -> Option<&Direct> {
        self.direct
            .get_or_init(|| Direct::new(&self.hir).map(Box::new))
            .as_deref()
    }

    /// Not yet much used.
    #[inline]
    fn is_new(&self) -> bool {
        self.direct.get().is_none() && self.search.get().is_none()
    }

    /// Searches by hand as long as that is cheaper than an automaton.
    #[cold]
    fn search_by_hand(&self, hay: &[u8], from: usize, any: bool) -> Outcome {
        let ways = self.ways.get_or_init(|| {
            let effort = STEPS_AT_LEAST + estimated_bytes(&self.hir) / BYTES_PER_STEP;
            Ways::new(&self.hir, effort)
        });
        ways.search(hay, from, any)
    }

    #[inline]
    pub(super) fn is_match(&self, hay: &[u8]) -> bool {
        if self.is_new() {
            match self.search_by_hand(hay, 0, true) {
                Outcome::Match(..) => return true,
                Outcome::None => return false,
                Outcome::GivenUp => {}
            }
        }
        if let Some(found) = self.direct().and_then(|d| d.search(hay, 0, true)) {
            return found.is_some();
        }
        let input = Input::new(hay).earliest(true);
        self.search().is_some_and(|search| {
            search
                .engine
                .search_half_with(&mut search.cache.borrow_mut(), &input)
                .is_some()
        })
    }

    pub(super) fn find_at(&self, hay: &[u8], from: usize) -> Option<(usize, usize)> {
        if self.is_new() {
            match self.search_by_hand(hay, from, false) {
                Outcome::Match(start, end) => return Some((start, end)),
                Outcome::None => return None,
                Outcome::GivenUp => {}
            }
        }
        if let Some(found) = self.direct().and_then(|d| d.search(hay, from, false)) {
            return found;
        }
        let input = Input::new(hay).range(from..);
        let search = self.search()?;
        let found = search
            .engine
            .search_with(&mut search.cache.borrow_mut(), &input)?;
        let (start, end) = (found.start(), found.end());
        if self.is_longest {
            return Some((start, end));
        }
        Some((
            start,
            self.ends().map_or(end, |ends| {
                ends.longest(&self.hir, hay, start).unwrap_or(end)
            }),
        ))
    }

    /// `None` only if the automaton cannot be built, which a successful `search` of the same form excludes.
    fn ends(&self) -> Option<&Ends> {
        self.ends.get_or_init(|| Ends::new(&self.hir)).as_ref()
    }

    /// Whether no continuation of `hay` changes the leftmost match in `hay[from..]`, which begins at `start`.
    pub(super) fn is_settled(&self, hay: &[u8], from: usize, start: usize) -> bool {
        let Some(ends) = self.ends() else {
            return false;
        };
        // Only what reaches the end of `hay` can change; a word border also looks one character ahead.
        let reach = self
            .longest_bytes()
            .map_or(usize::MAX, |len| len.saturating_add(4));
        let low = from.max((hay.len() + 1).saturating_sub(reach));
        // A match that begins earlier may still be under way behind the one found.
        let first = self.first.get_or_init(|| greedy::first_bytes(&self.hir).0);
        (low..=start).all(|at| !first.contains(hay[at]) || ends.is_settled(hay, at))
    }
}

impl Search {
    fn new(hir: &Hir, limit: Option<usize>) -> Result<Search, RegexError> {
        let config = meta::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            // Empty matches inside a character are for the caller to judge: texts need not be UTF-8.
            .utf8_empty(false)
            .nfa_size_limit(limit)
            .hybrid_cache_capacity(CACHE_BYTES)
            .which_captures(thompson::WhichCaptures::Implicit)
            .onepass(false)
            .backtrack(false);
        let engine = meta::Builder::new()
            .configure(config)
            .build_from_hir(hir)
            .map_err(|error| RegexError {
                offset: 0,
                what: match error.size_limit() {
                    Some(limit) => {
                        format!("the pattern needs more than {limit} bytes as an automaton")
                    }
                    None => error.to_string(),
                },
            })?;
        let cache = RefCell::new(engine.create_cache());
        Ok(Search { engine, cache })
    }
}

/// What the tree of a pattern takes, in bytes, about.
fn hir_bytes(hir: &Hir) -> usize {
    // A node has its properties in a block of its own.
    const NODE: usize = 160;
    NODE + match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0,
        HirKind::Literal(l) => l.0.len(),
        HirKind::Class(Class::Bytes(class)) => 2 * class.ranges().len(),
        HirKind::Class(Class::Unicode(class)) => 8 * class.ranges().len(),
        HirKind::Capture(c) => hir_bytes(&c.sub),
        HirKind::Repetition(r) => hir_bytes(&r.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().map(hir_bytes).sum(),
    }
}

/// About how much memory the automaton of `hir` needs, in bytes, rather too much than too little.
fn estimated_bytes(hir: &Hir) -> usize {
    const STATE: usize = 48;
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => STATE,
        HirKind::Literal(l) => STATE.saturating_mul(l.0.len()),
        HirKind::Class(Class::Bytes(class)) => STATE + 8 * class.ranges().len(),
        HirKind::Class(Class::Unicode(class)) if class.is_ascii() => {
            STATE + 8 * class.ranges().len()
        }
        // A range of code points is up to four sequences of up to four bytes, most of which are shared. Read backwards they are
        // larger: `\w`, of 803 ranges, takes 38 kB, `[^x]` 760 bytes (measured with regex-automata 0.4.18).
        HirKind::Class(Class::Unicode(class)) => 800 + 64 * class.ranges().len(),
        HirKind::Capture(c) => estimated_bytes(&c.sub),
        HirKind::Repetition(r) => {
            let turns = r.max.unwrap_or(r.min).max(r.min).max(1) as usize;
            (STATE + estimated_bytes(&r.sub)).saturating_mul(turns)
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts
            .iter()
            .fold(STATE, |sum, part| sum.saturating_add(estimated_bytes(part))),
    }
}

/// The states of `hir`; a machine that tells where a match ends by its captures must have the implicit one.
pub(super) fn longest_nfa(hir: &Hir, captures: thompson::WhichCaptures) -> Option<thompson::NFA> {
    thompson::Compiler::new()
        .syntax(syntax::Config::new().utf8(false))
        .configure(
            thompson::Config::new()
                .utf8(false)
                .which_captures(captures)
                .shrink(false),
        )
        .build_from_hir(hir)
        .ok()
}

impl Ends {
    fn new(hir: &Hir) -> Option<Ends> {
        let nfa = longest_nfa(hir, thompson::WhichCaptures::None)?;
        let config = hybrid::dfa::Config::new()
            .match_kind(MatchKind::All)
            .unicode_word_boundary(true)
            .cache_capacity(CACHE_BYTES)
            // A pattern with many states gets the least memory that works instead of an error.
            .skip_cache_capacity_check(true);
        let dfa = hybrid::dfa::Builder::new()
            .configure(config)
            .build_from_nfa(nfa)
            .ok()?;
        let cache = RefCell::new(dfa.create_cache());
        Some(Ends {
            dfa,
            cache,
            fallback: OnceCell::new(),
        })
    }

    fn memory_bytes(&self) -> usize {
        let fallback = self.fallback.get().and_then(Option::as_ref);
        let fallback = fallback.map_or(0, |(vm, cache)| {
            vm.get_nfa().memory_usage() + cache.borrow().memory_usage()
        });
        self.dfa.memory_usage() + self.cache.borrow().memory_usage() + fallback
    }

    fn longest(&self, hir: &Hir, hay: &[u8], start: usize) -> Option<usize> {
        let input = Input::new(hay).range(start..).anchored(Anchored::Yes);
        match self
            .dfa
            .try_search_fwd(&mut self.cache.borrow_mut(), &input)
        {
            Ok(found) => found.map(|m| m.offset()),
            Err(_) => self.longest_slowly(hir, &input),
        }
    }

    #[cold]
    fn longest_slowly(&self, hir: &Hir, input: &Input<'_>) -> Option<usize> {
        let fallback = self.fallback.get_or_init(|| {
            let vm = PikeVM::builder()
                .configure(PikeVM::config().match_kind(MatchKind::All))
                .build_from_nfa(longest_nfa(hir, thompson::WhichCaptures::Implicit)?)
                .ok()?;
            let cache = RefCell::new(vm.create_cache());
            Some((vm, cache))
        });
        let (vm, cache) = fallback.as_ref()?;
        let mut captures = Captures::matches(vm.get_nfa().group_info().clone());
        vm.search(&mut cache.borrow_mut(), input, &mut captures);
        captures.get_match().map(|m| m.end())
    }

    /// Whether every match from `start` on is over before the end of `hay`: the automaton is dead by then.
    fn is_settled(&self, hay: &[u8], start: usize) -> bool {
        let input = Input::new(hay).range(start..).anchored(Anchored::Yes);
        let mut cache = self.cache.borrow_mut();
        let Ok(mut state) = self.dfa.start_state_forward(&mut cache, &input) else {
            return false;
        };
        for &byte in &hay[start..] {
            match self.dfa.next_state(&mut cache, state, byte) {
                Ok(next) if next.is_dead() => return true,
                Ok(next) if !next.is_quit() => state = next,
                _ => return false,
            }
        }
        // A match is reported one byte late: the state after the last byte may be alive for that alone. So the next
        // byte, whichever it is, must report what the text's end reports, and the one after it nothing.
        let Ok(at_end) = self.dfa.next_eoi_state(&mut cache, state) else {
            return false;
        };
        let classes = self.dfa.byte_classes();
        let mut reporting: Vec<LazyStateID> = Vec::new();
        for byte in classes
            .representatives(0..=255)
            .filter_map(|unit| unit.as_u8())
        {
            match self.dfa.next_state(&mut cache, state, byte) {
                Ok(next) if next.is_dead() && !at_end.is_match() => {}
                Ok(next) if next.is_match() && at_end.is_match() => {
                    if !reporting.contains(&next) {
                        reporting.push(next);
                    }
                }
                _ => return false,
            }
        }
        reporting.iter().all(|&state| {
            self.dfa
                .next_eoi_state(&mut cache, state)
                .is_ok_and(|next| next.is_dead())
                && classes
                    .representatives(0..=255)
                    .filter_map(|unit| unit.as_u8())
                    .all(|byte| {
                        self.dfa
                            .next_state(&mut cache, state, byte)
                            .is_ok_and(|next| next.is_dead())
                    })
        })
    }
}
