//! POSIX extended regular expressions with AWK's escapes, matched leftmost-longest.
//!
//! Invariant: a match is the one POSIX asks for: of all that start first, the longest. The start comes from an ordinary
//! leftmost search; the end from a second, anchored one that goes on until nothing can match any more, unless
//! [`greedy`] proves that the first search's end is the same. No pattern makes the time more than linear in the text
//! for a given pattern, or the memory more than a fixed limit. Called by the VM, `fields` and `records`.

use std::cell::{OnceCell, RefCell};
use std::fmt;

use memchr::memmem::Finder;
use regex_automata::hybrid;
use regex_automata::hybrid::LazyStateID;
use regex_automata::meta;
use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::text::Charset;

mod classes;
mod greedy;
mod parse;

/// Memory for one compiled automaton, in bytes: some hundred thousand states.
const AUTOMATON_BYTES_MAX: usize = 16 << 20;

/// Memory for the states that searching builds as it goes, in bytes, for each direction.
const CACHE_BYTES: usize = 2 << 20;

/// A pattern that could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression: {what} at byte {offset} of the pattern")]
pub struct RegexError {
    /// Where in the pattern, in bytes from 0.
    pub offset: usize,
    /// What is wrong there.
    pub what: String,
}

/// A compiled pattern. It keeps scratch memory inside, so that it is shared by `Rc`, not between threads.
pub struct Regex {
    plan: Plan,
}

/// The cheapest way to match.
enum Plan {
    /// A plain string.
    Literal(Box<Finder<'static>>),
    /// A plain string at the text's start (`^abc`).
    Prefix(Vec<u8>),
    /// A plain string at the text's end (`abc$`).
    Suffix(Vec<u8>),
    /// The whole text (`^abc$`).
    Whole(Vec<u8>),
    /// One of some ASCII characters, or a run of them (`[ ,]`, `\n+`): the usual separators.
    Run(Box<Run>),
    Automaton(Box<Automaton>),
}

struct Run {
    contains: [bool; 256],
    /// Any number of them from one up; otherwise one.
    repeated: bool,
}

impl Run {
    /// The plan for a set or a repetition of one from once up, if all members are ASCII: then they are bytes in any
    /// charset.
    fn of(hir: &Hir) -> Option<Run> {
        let (set, repeated) = match hir.kind() {
            HirKind::Repetition(r) if r.min == 1 && r.max.is_none() && r.greedy => (&*r.sub, true),
            _ => (hir, false),
        };
        let mut contains = [false; 256];
        match set.kind() {
            HirKind::Literal(l) if l.0.len() == 1 && l.0[0].is_ascii() => {
                contains[usize::from(l.0[0])] = true
            }
            HirKind::Class(Class::Bytes(class)) => {
                class.iter().for_each(|r| {
                    contains[usize::from(r.start())..=usize::from(r.end())].fill(true)
                });
            }
            HirKind::Class(Class::Unicode(class)) if class.is_ascii() => {
                class
                    .iter()
                    .for_each(|r| contains[r.start() as usize..=r.end() as usize].fill(true));
            }
            _ => return None,
        }
        Some(Run { contains, repeated })
    }

    #[inline]
    fn find(&self, hay: &[u8], from: usize) -> Option<(usize, usize)> {
        let is_member = |b: &u8| self.contains[usize::from(*b)];
        let start = from + hay[from..].iter().position(is_member)?;
        if !self.repeated {
            return Some((start, start + 1));
        }
        let rest = &hay[start + 1..];
        let more = rest
            .iter()
            .position(|b| !is_member(b))
            .unwrap_or(rest.len());
        Some((start, start + 1 + more))
    }
}

struct Automaton {
    search: meta::Regex,
    cache: RefCell<meta::Cache>,
    /// The end that `search` finds is the longest one's.
    is_longest: bool,
    hir: Hir,
    /// What a match that is not empty can begin with.
    first: greedy::Bytes,
    /// Length in bytes of the longest possible match, if there is a limit.
    longest_bytes: Option<usize>,
    /// Built when a match's end is first asked for: patterns that are only tested never need it.
    ends: OnceCell<Option<Ends>>,
}

/// Finds where the longest match from a given start ends.
struct Ends {
    dfa: hybrid::dfa::DFA,
    cache: RefCell<hybrid::dfa::Cache>,
    /// For texts that the automaton gives up on: word borders beside bytes that are not ASCII.
    fallback: OnceCell<Option<(PikeVM, RefCell<thompson::pikevm::Cache>)>>,
}

/// A match in text that may go on, for [`Regex::find_partial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// No continuation of the text can change this match.
    pub(crate) settled: bool,
}

impl Regex {
    /// Compiles `pattern`; `ignore_case` folds letters as Unicode's simple case folding does.
    ///
    /// Cost: tens of microseconds for common patterns; keep the result.
    ///
    /// # Errors
    /// Anything gawk 5.2.1 refuses, groups nested more than 250 deep, and patterns whose automaton needs more than
    /// 16 MiB.
    pub fn new(pattern: &[u8], cs: Charset, ignore_case: bool) -> Result<Regex, RegexError> {
        let hir = parse::parse(pattern, cs, ignore_case)?;
        if let Some(plan) = plain(&hir) {
            return Ok(Regex { plan });
        }
        let config = meta::Config::new()
            .match_kind(MatchKind::LeftmostFirst)
            // Empty matches inside a character are for the caller to judge: texts need not be UTF-8.
            .utf8_empty(false)
            .nfa_size_limit(Some(AUTOMATON_BYTES_MAX))
            .hybrid_cache_capacity(CACHE_BYTES)
            .which_captures(thompson::WhichCaptures::Implicit)
            .onepass(false)
            .backtrack(false);
        let search = meta::Builder::new()
            .configure(config)
            .build_from_hir(&hir)
            .map_err(|error| RegexError {
                offset: 0,
                what: match error.size_limit() {
                    Some(limit) => {
                        format!("the pattern needs more than {limit} bytes as an automaton")
                    }
                    None => error.to_string(),
                },
            })?;
        let cache = RefCell::new(search.create_cache());
        let is_longest = greedy::is_longest(&hir);
        let longest_bytes = hir.properties().maximum_len();
        let first = greedy::first_bytes(&hir).0;
        Ok(Regex {
            plan: Plan::Automaton(Box::new(Automaton {
                search,
                cache,
                is_longest,
                hir,
                first,
                longest_bytes,
                ends: OnceCell::new(),
            })),
        })
    }

    /// Whether the pattern matches anywhere in `hay`.
    #[inline]
    pub fn is_match(&self, hay: &[u8]) -> bool {
        match &self.plan {
            Plan::Literal(finder) => finder.find(hay).is_some(),
            Plan::Prefix(s) => hay.starts_with(s),
            Plan::Suffix(s) => hay.ends_with(s),
            Plan::Whole(s) => hay == &s[..],
            Plan::Run(run) => hay.iter().any(|b| run.contains[usize::from(*b)]),
            Plan::Automaton(a) => {
                let input = Input::new(hay).earliest(true);
                a.search
                    .search_half_with(&mut a.cache.borrow_mut(), &input)
                    .is_some()
            }
        }
    }

    /// Start and end of the leftmost-longest match that starts at or after `from`. `^` matches only at 0, and word
    /// borders see what lies before `from`. An empty match may lie anywhere in `from..=hay.len()`.
    ///
    /// # Panics
    /// If `from` is past the end of `hay`.
    #[inline]
    pub fn find_at(&self, hay: &[u8], from: usize) -> Option<(usize, usize)> {
        match &self.plan {
            Plan::Literal(finder) => {
                let start = from + finder.find(&hay[from..])?;
                Some((start, start + finder.needle().len()))
            }
            Plan::Prefix(s) => (from == 0 && hay.starts_with(s)).then_some((0, s.len())),
            Plan::Suffix(s) => {
                let start = hay.len().checked_sub(s.len())?;
                (start >= from && hay.ends_with(s)).then_some((start, hay.len()))
            }
            Plan::Whole(s) => (from == 0 && hay == &s[..]).then_some((0, hay.len())),
            Plan::Run(run) => run.find(hay, from),
            Plan::Automaton(a) => a.find_at(hay, from),
        }
    }

    /// The string that the pattern is, if it is a plain one.
    pub fn literal(&self) -> Option<&[u8]> {
        match &self.plan {
            Plan::Literal(finder) => Some(finder.needle()),
            _ => None,
        }
    }

    /// [`Regex::find_at`] for a text of which more may come: says whether what was found is certain. A match of the
    /// empty string is passed over.
    pub(crate) fn find_partial(&self, hay: &[u8], from: usize) -> Option<Partial> {
        let (start, end) = self.find_filled_at(hay, from)?;
        let settled = match &self.plan {
            Plan::Literal(_) | Plan::Prefix(_) => true,
            Plan::Suffix(_) | Plan::Whole(_) => false,
            Plan::Run(run) => !run.repeated || end < hay.len(),
            Plan::Automaton(a) => a.is_settled(hay, from, start),
        };
        Some(Partial {
            start,
            end,
            settled,
        })
    }

    /// The first match at or after `from` that is not empty: what separates fields and records.
    #[inline]
    pub(crate) fn find_filled_at(&self, hay: &[u8], mut from: usize) -> Option<(usize, usize)> {
        loop {
            let (start, end) = self.find_at(hay, from)?;
            if end > start {
                return Some((start, end));
            }
            if start == hay.len() {
                return None;
            }
            from = start + 1;
        }
    }

    /// Length in bytes of the longest possible match, if there is a limit.
    pub(crate) fn longest_bytes(&self) -> Option<usize> {
        match &self.plan {
            Plan::Literal(finder) => Some(finder.needle().len()),
            Plan::Prefix(s) | Plan::Suffix(s) | Plan::Whole(s) => Some(s.len()),
            Plan::Run(run) => (!run.repeated).then_some(1),
            Plan::Automaton(a) => a.longest_bytes,
        }
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan: &dyn fmt::Debug = match &self.plan {
            Plan::Literal(finder) => &(
                "literal",
                String::from_utf8_lossy(finder.needle()).into_owned(),
            ),
            Plan::Prefix(s) => &("prefix", String::from_utf8_lossy(s).into_owned()),
            Plan::Suffix(s) => &("suffix", String::from_utf8_lossy(s).into_owned()),
            Plan::Whole(s) => &("whole", String::from_utf8_lossy(s).into_owned()),
            Plan::Run(run) => &("run", run.repeated),
            Plan::Automaton(a) => &("automaton", a.hir.to_string()),
        };
        f.debug_tuple("Regex").field(plan).finish()
    }
}

/// The plan for patterns that are a string with or without anchors.
fn plain(hir: &Hir) -> Option<Plan> {
    let literal = |hir: &Hir| match hir.kind() {
        HirKind::Literal(l) => Some(l.0.to_vec()),
        _ => None,
    };
    let look = |hir: &Hir, look: Look| matches!(hir.kind(), HirKind::Look(l) if *l == look);
    match hir.kind() {
        HirKind::Empty => Some(Plan::Literal(Box::new(Finder::new(b"").into_owned()))),
        HirKind::Literal(l) => Some(Plan::Literal(Box::new(Finder::new(&l.0).into_owned()))),
        HirKind::Concat(parts) => match &parts[..] {
            [start, s] if look(start, Look::Start) => Some(Plan::Prefix(literal(s)?)),
            [s, end] if look(end, Look::End) => Some(Plan::Suffix(literal(s)?)),
            [start, end] if look(start, Look::Start) && look(end, Look::End) => {
                Some(Plan::Whole(Vec::new()))
            }
            [start, s, end] if look(start, Look::Start) && look(end, Look::End) => {
                Some(Plan::Whole(literal(s)?))
            }
            _ => None,
        },
        _ => Run::of(hir).map(|run| Plan::Run(Box::new(run))),
    }
}

impl Automaton {
    fn find_at(&self, hay: &[u8], from: usize) -> Option<(usize, usize)> {
        let input = Input::new(hay).range(from..);
        let found = self
            .search
            .search_with(&mut self.cache.borrow_mut(), &input)?;
        let (start, end) = (found.start(), found.end());
        if self.is_longest {
            return Some((start, end));
        }
        Some((
            start,
            self.ends()
                .map_or(end, |ends| ends.longest(hay, start).unwrap_or(end)),
        ))
    }

    /// `None` only if the automaton cannot be built, which a successful `search` of the same form excludes.
    fn ends(&self) -> Option<&Ends> {
        self.ends.get_or_init(|| Ends::new(&self.hir)).as_ref()
    }

    /// Whether no continuation of `hay` changes the leftmost match in `hay[from..]`, which begins at `start`.
    fn is_settled(&self, hay: &[u8], from: usize, start: usize) -> bool {
        let Some(ends) = self.ends() else {
            return false;
        };
        // Only what reaches the end of `hay` can change; a word border also looks one character ahead.
        let reach = self
            .longest_bytes
            .map_or(usize::MAX, |len| len.saturating_add(4));
        let low = from.max((hay.len() + 1).saturating_sub(reach));
        // A match that begins earlier may still be under way behind the one found.
        (low..=start).all(|at| !self.first.contains(hay[at]) || ends.is_settled(hay, at))
    }
}

impl Ends {
    fn new(hir: &Hir) -> Option<Ends> {
        let nfa = thompson::Compiler::new()
            .syntax(syntax::Config::new().utf8(false))
            .configure(
                thompson::Config::new()
                    .utf8(false)
                    .which_captures(thompson::WhichCaptures::None)
                    .shrink(false),
            )
            .build_from_hir(hir)
            .ok()?;
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

    fn longest(&self, hay: &[u8], start: usize) -> Option<usize> {
        let input = Input::new(hay).range(start..).anchored(Anchored::Yes);
        match self
            .dfa
            .try_search_fwd(&mut self.cache.borrow_mut(), &input)
        {
            Ok(found) => found.map(|m| m.offset()),
            Err(_) => self.longest_slowly(&input),
        }
    }

    #[cold]
    fn longest_slowly(&self, input: &Input<'_>) -> Option<usize> {
        let fallback = self.fallback.get_or_init(|| {
            let vm = PikeVM::builder()
                .configure(PikeVM::config().match_kind(MatchKind::All))
                .build_from_nfa(self.dfa.get_nfa().clone())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// `match()` as AWK gives it: 1-based start and length.
    fn found(pattern: &str, hay: &str) -> Option<(usize, usize)> {
        let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
        let hit = regex.find_at(hay.as_bytes(), 0);
        assert_eq!(
            hit.is_some(),
            regex.is_match(hay.as_bytes()),
            "{pattern} on {hay}"
        );
        hit.map(|(start, end)| (start + 1, end - start))
    }

    #[test]
    fn signs_without_an_operand_stand_for_themselves() {
        for (pattern, hay, expected) in [
            ("*a", "*a", Some((1, 2))),
            ("+a", "+a", Some((1, 2))),
            ("a|*b", "b", None),
            ("a|*b", "*b", Some((1, 2))),
            ("(*b)", "*b", Some((1, 2))),
            ("^*b", "*b", Some((1, 2))),
            ("^*b", "b", None),
            ("a**", "aaa", Some((1, 3))),
            ("a+*", "aaa", Some((1, 3))),
            ("{1}", "{1}", Some((1, 3))),
            ("^{1}", "{1}", Some((1, 3))),
            ("(^*a)", "*a", Some((1, 2))),
            (r"\>*b", "a*b", Some((2, 2))),
            (")", ")", Some((1, 1))),
            ("a)", "a)", Some((1, 2))),
        ] {
            assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
        }
    }

    #[test]
    fn intervals_are_gawks() {
        for (pattern, hay, expected) in [
            ("a{2}{3}", "aaaaaaa", Some((1, 6))),
            ("a{", "a{", Some((1, 2))),
            ("a{x", "a{x", Some((1, 3))),
            ("a{,2}", "aaa", Some((1, 2))),
            ("a{,}", "aaa", Some((1, 3))),
            ("a{1,2", "a{1,2", Some((1, 5))),
            ("a{0}", "a", Some((1, 0))),
            ("a{0,0}b", "ab", Some((2, 1))),
            ("a{1}{", "a{", Some((1, 2))),
            (r"a\{1}", "a{1}", Some((1, 4))),
            ("a{2,3}{2}", "aaaaa", Some((1, 5))),
            ("a{32767}", "a", None),
        ] {
            assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
        }
    }

    #[test]
    fn brackets_are_posix_with_awks_escapes() {
        for (pattern, hay, expected) in [
            ("[]a]", "]", Some((1, 1))),
            ("[^]a]", "]b", Some((2, 1))),
            ("[a-]", "-", Some((1, 1))),
            (r"[a\]b]", "b]", Some((1, 1))),
            ("[[:alpha:][:digit:]]", "1", Some((1, 1))),
            ("[:alpha:]", "a", Some((1, 1))),
            ("[[=a=]]", "a", Some((1, 1))),
            ("[[.-.]]", "-", Some((1, 1))),
            ("[a[.-.]z]", "-", Some((1, 1))),
            ("[[.a.]-c]", "b", Some((1, 1))),
            ("[--a]", ".", Some((1, 1))),
            (r"[\/]", "/", Some((1, 1))),
            (r"[\w]", "w", Some((1, 1))),
            (r"[\w]", "a", None),
            (r"[a\-z]", "b", None),
            (r"[a\n]", "\n", Some((1, 1))),
            (r"[\b]", "\x08", Some((1, 1))),
            (r"[\135]", "]", Some((1, 1))),
            (r"[a-\x63]", "b", Some((1, 1))),
            ("[[:alpha:]-]", "-", Some((1, 1))),
            ("[[a]", "[", Some((1, 1))),
            (r"[\[:alpha:]]", "a]", Some((1, 2))),
            ("[a-é]", "b", Some((1, 1))),
            ("[^\n]", "é", Some((1, 2))),
        ] {
            assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
        }
    }

    #[test]
    fn escapes_and_anchors_are_gawks() {
        for (pattern, hay, expected) in [
            (r"\52", "aa*", Some((3, 1))),
            (r"a\x2a", "aa*", Some((2, 2))),
            (r"\x414", "A4", Some((1, 2))),
            (r"\x", "x", Some((1, 1))),
            (r"\8", "8", Some((1, 1))),
            (r"\018", "\x018", Some((1, 2))),
            (r"\303\251*", "éé", Some((1, 4))),
            (r"\q", "q", Some((1, 1))),
            (r"\y", "ab cd", Some((1, 0))),
            (r"\Bb", "ab", Some((2, 1))),
            (r"\<b", "a b", Some((3, 1))),
            (r"\yé", "aé", None),
            (r"\w+", "  ab_1 ", Some((3, 4))),
            (r"\s", "a b", Some((2, 1))),
            (r"a\'", "a", Some((1, 1))),
            ("x*^b", "b", Some((1, 1))),
            ("b$x*", "b", Some((1, 1))),
            ("a^b", "a^b", None),
            ("a|^b", "cb", None),
            ("()", "a", Some((1, 0))),
            ("a||b", "b", Some((1, 1))),
            ("(|a)b", "ab", Some((1, 2))),
            ("a.c", "a\nc", Some((1, 3))),
            ("^b", "a\nb", None),
            ("(a|ab)(c|bcd)(d*)", "abcd", Some((1, 4))),
            ("[[:upper:]]+", "aÉÀb", Some((2, 4))),
        ] {
            assert_eq!(found(pattern, hay), expected, "{pattern} on {hay}");
        }
    }

    #[test]
    fn invalid_bytes_match_no_character() {
        let find = |pattern: &[u8], hay: &[u8]| {
            Regex::new(pattern, Charset::Utf8, false)
                .unwrap()
                .find_at(hay, 0)
        };
        assert_eq!(find(b"a.b", b"a\xffb"), None);
        assert_eq!(find(b"[^a]", b"a\xffb"), Some((2, 3)));
        assert_eq!(find(b"\\xff", b"a\xffb"), Some((1, 2)));
        assert_eq!(find(b"a\0b", b"xa\0b"), Some((1, 4)));
        let bytes = Regex::new(b"a.b", Charset::Bytes, false).unwrap();
        assert_eq!(bytes.find_at(b"a\xffb", 0), Some((0, 3)));
    }

    #[test]
    fn bad_patterns_say_what_and_where() {
        for (pattern, offset, what) in [
            ("(", 0, "unmatched ("),
            ("a(b(c)", 1, "unmatched ("),
            ("x[", 1, "unmatched ["),
            ("[a", 0, "unmatched ["),
            ("[]", 0, "unmatched ["),
            ("[a\\", 0, "unmatched ["),
            ("[[:alpha:", 1, "unmatched [:"),
            ("a\\", 1, "trailing backslash"),
            ("a{2,1}", 1, "invalid content of {}"),
            ("a{32768}", 1, "repetition count"),
            ("a{99999999999999999999}", 1, "repetition count"),
            ("[z-a]", 1, "invalid range end"),
            ("[a-c-e]", 1, "invalid range end"),
            ("[[:alpha:]-z]", 1, "invalid range end"),
            ("[a-[:digit:]]", 1, "invalid range end"),
            ("[[:foo:]]", 1, "invalid character class name [:foo:]"),
            ("[[.hyphen.]]", 1, "invalid collation character"),
        ] {
            let error = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap_err();
            assert!(
                error.offset == offset && error.what.starts_with(what),
                "{pattern}: {error}"
            );
        }
    }

    #[test]
    fn huge_patterns_are_refused_not_built() {
        for pattern in [
            "(a{1000}){1000}".to_string(),
            "((a{1000}){1000}){1000}".into(),
            "(".repeat(100_000),
            {
                let mut p = "a".to_string();
                for _ in 0..1000 {
                    p.push_str("{2}");
                }
                p
            },
        ] {
            assert!(Regex::new(pattern.as_bytes(), Charset::Utf8, false).is_err());
        }
        let nested = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        assert_eq!(found(&nested, "ba"), Some((2, 1)));
        // Exponential for a backtracking engine.
        let hay = "a".repeat(5000);
        assert_eq!(found("(a*)*(a*)*(a*)*b", &hay), None);
        assert_eq!(found("(a|aa)*", &hay), Some((1, 5000)));
    }

    #[test]
    fn case_is_ignored_on_request() {
        let find = |pattern: &str, hay: &str| {
            Regex::new(pattern.as_bytes(), Charset::Utf8, true)
                .unwrap()
                .find_at(hay.as_bytes(), 0)
        };
        assert_eq!(find("abc", "xABC"), Some((1, 4)));
        assert_eq!(find("é", "É"), Some((0, 2)));
        assert_eq!(find("[^A]", "ab"), Some((1, 2)));
        assert_eq!(find("[a-b]+", "ABC"), Some((0, 2)));
    }

    #[test]
    fn searches_go_on_from_a_position() {
        let regex = |p: &str| Regex::new(p.as_bytes(), Charset::Utf8, false).unwrap();
        assert_eq!(regex("^a").find_at(b"aa", 1), None);
        assert_eq!(regex("^[ab]").find_at(b"aa", 1), None);
        assert_eq!(regex("a*").find_at(b"baa", 1), Some((1, 3)));
        assert_eq!(regex(r"\<[ab]").find_at(b"aa", 1), None);
        assert_eq!(regex("a$").find_at(b"aa", 2), None);
        assert_eq!(regex("").find_at(b"aa", 2), Some((2, 2)));
    }

    #[test]
    fn partial_matches_say_whether_they_may_grow() {
        let partial = |p: &str, hay: &str| {
            let regex = Regex::new(p.as_bytes(), Charset::Utf8, false).unwrap();
            regex
                .find_partial(hay.as_bytes(), 0)
                .map(|m| (m.start, m.end, m.settled))
        };
        assert_eq!(partial("x+", "axx"), Some((1, 3, false)));
        assert_eq!(partial("x+", "axxb"), Some((1, 3, true)));
        assert_eq!(partial("x|xy*z", "axyy"), Some((1, 2, false)));
        assert_eq!(partial("x|xy*z", "axyya"), Some((1, 2, true)));
        assert_eq!(partial("x$", "ax"), Some((1, 2, false)));
        assert_eq!(partial("xx", "axx"), Some((1, 3, true)));
        assert_eq!(partial("x*", "abc"), None);
        assert_eq!(partial("a.*b|x", "a..x"), Some((3, 4, false)));
        assert_eq!(partial("a[^c]*b|x", "a.cx"), Some((3, 4, true)));
        assert_eq!(partial("abcd|bc?", "zabc"), Some((2, 4, false)));
    }
}
