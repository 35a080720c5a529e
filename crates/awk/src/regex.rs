//! POSIX extended regular expressions with AWK's and gawk's escapes, matched leftmost-longest.
//!
//! Invariant: a match is the one POSIX asks for: of all that start first, the longest. A pattern is parsed when it is
//! made, so that its errors come early; what only some programs need (the automaton, groups' places, the form that
//! ignores case) is built at its first use and kept. No pattern makes the time more than linear in the text for a
//! given pattern, or the memory more than a fixed limit. Called by the VM, `fields` and `records`.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::fmt;

use memchr::memmem::Finder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use crate::text::Charset;

mod ahead;
mod automaton;
mod classes;
mod direct;
mod greedy;
mod groups;
mod parse;
mod required;
mod steps;
mod ways;

use automaton::Automaton;
use groups::Groups;

/// A pattern that could not be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid regular expression: {what} at byte {offset} of the pattern")]
pub struct RegexError {
    /// Where in the pattern, in bytes from 0.
    pub offset: usize,
    /// What is wrong there.
    pub what: String,
}

/// Whose regular expressions are read. All know intervals: gawk 5.3 has them with `--traditional` too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Syntax {
    /// POSIX's with gawk's operators (`\y \B \< \> \w \W \s \S` and the anchors of the text's ends).
    #[default]
    Gawk,
    /// Without gawk's operators and `\x` or `\u` escapes; a repetition sign without an operand is an error.
    Posix,
    /// Without gawk's operators.
    Traditional,
}

/// How a pattern is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// What a character is.
    pub charset: Charset,
    /// Which operators there are.
    pub syntax: Syntax,
    /// Letters match their other case too, by Unicode's simple case folding (ASCII's in [`Charset::Bytes`]).
    pub ignore_case: bool,
}

impl Options {
    /// gawk's syntax, with case.
    pub fn new(charset: Charset) -> Options {
        Options {
            charset,
            syntax: Syntax::Gawk,
            ignore_case: false,
        }
    }
}

/// Places of groups in a text, in bytes: `None` for a group that took no part in the match.
pub type Places = Vec<Option<(usize, usize)>>;

/// A compiled pattern. It keeps scratch memory inside, so that it is shared by `Rc`, not between threads.
pub struct Regex {
    source: Box<[u8]>,
    options: Options,
    /// Parenthesised groups in the pattern.
    group_count: usize,
    plan: Plan,
    groups: OnceCell<Option<Box<Groups>>>,
    insensitive: OnceCell<Option<Box<Regex>>>,
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

/// A match in text that may go on, for [`Regex::find_partial`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Partial {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// No continuation of the text can change this match.
    pub(crate) settled: bool,
}

/// A pattern whose numeric escapes (`\x2e`, `\052`) are what they stand for, operators included, as gawk and POSIX read
/// them; in traditional patterns they stand for plain characters. Within brackets the parser reads them.
fn live_escapes(pattern: &[u8], syntax: Syntax) -> Cow<'_, [u8]> {
    let begins = |pair: &[u8]| pair[0] == b'\\' && matches!(pair[1], b'x' | b'0'..=b'7');
    if syntax == Syntax::Traditional || !pattern.windows(2).any(begins) {
        return Cow::Borrowed(pattern);
    }
    let mut out = Vec::with_capacity(pattern.len());
    let mut in_brackets = false;
    let mut at = 0;
    while at < pattern.len() {
        let rest = &pattern[at..];
        if in_brackets {
            let class = matches!(rest, [b'[', b':' | b'.' | b'=', ..]);
            let end = class
                .then(|| rest[2..].windows(2).position(|p| p == [rest[1], b']']))
                .flatten();
            let used = end.map_or(1, |end| end + 4);
            in_brackets = !(used == 1 && rest[0] == b']');
            out.extend_from_slice(&rest[..used]);
            at += used;
            continue;
        }
        match rest {
            [b'\\', b'x', digits @ ..] if syntax == Syntax::Gawk => {
                let len = digits
                    .iter()
                    .take(2)
                    .take_while(|b| b.is_ascii_hexdigit())
                    .count();
                let text = std::str::from_utf8(&digits[..len]).unwrap_or_default();
                match u8::from_str_radix(text, 16) {
                    Ok(byte) if is_operator(byte) => out.push(byte),
                    _ => out.extend_from_slice(&rest[..2 + len]),
                }
                at += 2 + len;
            }
            [b'\\', b'0'..=b'7', ..] => {
                let digits = &rest[1..];
                let len = digits
                    .iter()
                    .take(3)
                    .take_while(|b| (b'0'..=b'7').contains(b))
                    .count();
                let value = digits[..len]
                    .iter()
                    .fold(0u32, |n, b| n * 8 + u32::from(b - b'0'));
                match u8::try_from(value) {
                    Ok(byte) if is_operator(byte) => out.push(byte),
                    _ => out.extend_from_slice(&rest[..1 + len]),
                }
                at += 1 + len;
            }
            [b'\\', _, ..] => {
                out.extend_from_slice(&rest[..2]);
                at += 2;
            }
            [b'[', tail @ ..] => {
                // A bracket directly behind the opening one, or behind its `^`, is a member.
                let mut len = 1 + usize::from(tail.first() == Some(&b'^'));
                len += usize::from(rest.get(len) == Some(&b']'));
                out.extend_from_slice(&rest[..len]);
                in_brackets = true;
                at += len;
            }
            _ => {
                out.push(rest[0]);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

fn is_operator(byte: u8) -> bool {
    b".*+?()[]{}|^$".contains(&byte)
}

impl Regex {
    /// Compiles `pattern` in gawk's syntax; see [`Regex::compile`].
    ///
    /// # Errors
    /// As [`Regex::compile`].
    pub fn new(pattern: &[u8], cs: Charset, ignore_case: bool) -> Result<Regex, RegexError> {
        Regex::compile(
            pattern,
            Options {
                ignore_case,
                ..Options::new(cs)
            },
        )
    }

    /// Parses `pattern`; automata are built when they are first needed.
    ///
    /// Cost: a few microseconds, and tens at the first match of common patterns; keep the result.
    ///
    /// # Errors
    /// Anything gawk 5.3 refuses, groups nested more than 250 deep, and patterns whose automaton needs more than
    /// 16 MiB.
    pub fn compile(pattern: &[u8], options: Options) -> Result<Regex, RegexError> {
        let source = live_escapes(pattern, options.syntax);
        let pattern = source.as_ref();
        let parsed = parse::parse(pattern, options, parse::Parens::Group)?;
        let plan = match plain(&parsed.hir) {
            Some(plan) => plan,
            None => Plan::Automaton(Box::new(Automaton::new(parsed.hir)?)),
        };
        Ok(Regex {
            source: pattern.into(),
            options,
            group_count: parsed.group_count,
            plan,
            groups: OnceCell::new(),
            insensitive: OnceCell::new(),
        })
    }

    /// The pattern as it was given.
    pub fn source(&self) -> &[u8] {
        &self.source
    }

    /// How many parenthesised groups the pattern has.
    pub fn group_count(&self) -> usize {
        self.group_count
    }

    /// What the pattern takes with all that was built for it, in bytes, about. Searches build more as they go.
    pub fn memory_bytes(&self) -> usize {
        let plan = match &self.plan {
            Plan::Literal(finder) => finder.needle().len(),
            Plan::Prefix(s) | Plan::Suffix(s) | Plan::Whole(s) => s.len(),
            Plan::Run(_) => size_of::<Run>(),
            Plan::Automaton(a) => size_of::<Automaton>() + a.memory_bytes(),
        };
        let groups = self.groups.get().and_then(Option::as_deref);
        let insensitive = self.insensitive.get().and_then(Option::as_deref);
        size_of::<Regex>()
            + self.source.len()
            + plan
            + groups.map_or(0, Groups::memory_bytes)
            + insensitive.map_or(0, Regex::memory_bytes)
    }

    /// The same pattern with case ignored: gawk's IGNORECASE. Built at the first call and kept, so that a program can
    /// switch for each match.
    #[inline]
    pub fn insensitive(&self) -> &Regex {
        if self.options.ignore_case {
            return self;
        }
        self.insensitive
            .get_or_init(|| self.fold())
            .as_deref()
            .unwrap_or(self)
    }

    /// `None` where case makes no difference.
    #[cold]
    fn fold(&self) -> Option<Box<Regex>> {
        let options = Options {
            ignore_case: true,
            ..self.options
        };
        // The pattern was read once, so that it cannot fail to be read; folding makes an automaton larger by a factor
        // that is small beside the limit's distance from what a machine has, so that the limit is not asked again.
        let parsed = parse::parse(&self.source, options, parse::Parens::Group).ok()?;
        let plan = match plain(&parsed.hir) {
            Some(plan) => plan,
            None => Plan::Automaton(Box::new(Automaton::unlimited(parsed.hir))),
        };
        Some(Box::new(Regex {
            source: self.source.clone(),
            options,
            group_count: self.group_count,
            plan,
            groups: OnceCell::new(),
            insensitive: OnceCell::new(),
        }))
    }

    /// The match that [`Regex::find_at`] gives and where its groups lie: `places[0]` is the whole match, `places[n]`
    /// group `n`, up to [`Regex::group_count`]. False, and `places` empty, if there is no match.
    ///
    /// As in gawk, among the ways to match the same text a branch or a turn of a repetition that stands first in the
    /// pattern is preferred, and a group within a repetition keeps its place of the last turn it took part in.
    ///
    /// Cost: the search, and if the pattern has groups about as much for the text of the match, or some tens of times that where
    /// the ways that it prefers are mostly wrong.
    ///
    /// # Panics
    /// If `from` is past the end of `hay`.
    pub fn captures_at(&self, hay: &[u8], from: usize, places: &mut Places) -> bool {
        places.clear();
        let Some((start, end)) = self.find_at(hay, from) else {
            return false;
        };
        places.push(Some((start, end)));
        if self.group_count > 0 {
            places.resize(self.group_count + 1, None);
            let groups = self.groups.get_or_init(|| {
                let parsed =
                    parse::parse(&self.source, self.options, parse::Parens::Capture).ok()?;
                Some(Box::new(Groups::new(&parsed.hir)))
            });
            if let Some(groups) = groups {
                groups.fill(hay, start, end, places);
            }
        }
        true
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
            Plan::Automaton(a) => a.is_match(hay),
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

    /// The byte that is all that matches, if there is one.
    pub(crate) fn one_byte(&self) -> Option<u8> {
        match self.literal() {
            Some([byte]) => Some(*byte),
            _ => None,
        }
    }

    /// The set of bytes one of which is all that matches, if it is one.
    pub(crate) fn one_of(&self) -> Option<&[bool; 256]> {
        match &self.plan {
            Plan::Run(run) if !run.repeated => Some(&run.contains),
            _ => None,
        }
    }

    /// Strings that are part of every match, as far as they can be told; the longest first.
    pub fn required(&self) -> Vec<Vec<u8>> {
        let mut literals = match &self.plan {
            Plan::Literal(finder) => vec![finder.needle().to_vec()],
            Plan::Prefix(s) | Plan::Suffix(s) | Plan::Whole(s) => vec![s.clone()],
            Plan::Run(_) => Vec::new(),
            Plan::Automaton(a) => required::literals(a.hir()),
        };
        literals.retain(|literal| !literal.is_empty() && !self.options.ignore_case);
        literals
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
            Plan::Automaton(a) => a.longest_bytes(),
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
            Plan::Automaton(a) => &("automaton", a.hir().to_string()),
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

#[cfg(test)]
mod tests;
