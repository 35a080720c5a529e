//! When one search is enough.
//!
//! Invariant: [`is_longest`] is true only if, for every text and start, the match that a leftmost-first engine prefers
//! is also the longest. The arguments are beside the cases; a doubtful expression is answered with false, which costs
//! a second search and no correctness.

use regex_syntax::hir::{Class, Hir, HirKind};

/// Whether the preferred match of `hir` is its longest at every start.
pub(super) fn is_longest(hir: &Hir) -> bool {
    if has_one_end(hir) {
        return true;
    }
    match hir.kind() {
        HirKind::Repetition(_) => is_counted(hir),
        HirKind::Concat(parts) => parts.iter().enumerate().all(|(i, part)| {
            // Of a repetition followed by what cannot begin like one more turn of it, any smaller count leaves the rest
            // only the empty match, so that the largest count that works ends last.
            let rest = &parts[i + 1..];
            has_one_end(part)
                || (is_counted(part) && !first_bytes(part).0.meets(&first_of_all(rest).0))
        }),
        HirKind::Alternation(branches) => {
            // At most one branch can match where no two begin alike and none is empty.
            let mut seen = Bytes::default();
            branches.iter().all(|branch| {
                let (first, nullable) = first_bytes(branch);
                let apart = !nullable && !seen.meets(&first);
                seen.add(&first);
                apart && is_longest(branch)
            })
        }
        _ => false,
    }
}

/// Whether a match that starts at a given place can end at one place only.
fn has_one_end(hir: &Hir) -> bool {
    match hir.kind() {
        // UTF-8 is prefix-free: a class matches one character, and where it ends is no choice.
        HirKind::Empty | HirKind::Literal(_) | HirKind::Look(_) | HirKind::Class(_) => true,
        HirKind::Repetition(r) => r.max == Some(r.min) && has_one_end(&r.sub),
        HirKind::Capture(c) => has_one_end(&c.sub),
        HirKind::Concat(parts) => parts.iter().all(has_one_end),
        HirKind::Alternation(branches) => {
            let literals: Option<Vec<&[u8]>> = branches
                .iter()
                .map(|branch| match branch.kind() {
                    HirKind::Literal(l) => Some(&*l.0),
                    _ => None,
                })
                .collect();
            // Quadratic, hence the bound; no literal may begin with another.
            literals.is_some_and(|all| {
                all.len() <= 64
                    && all.iter().enumerate().all(|(i, a)| {
                        all.iter()
                            .enumerate()
                            .all(|(j, b)| i == j || !b.starts_with(a))
                    })
            })
        }
    }
}

/// A greedy repetition whose turns have one end each and are not empty: more turns end later.
fn is_counted(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(r) => {
            r.greedy
                && has_one_end(&r.sub)
                && r.sub.properties().minimum_len().is_some_and(|len| len > 0)
        }
        _ => false,
    }
}

/// A set of byte values.
#[derive(Clone, Copy, Default)]
pub(super) struct Bytes([u64; 4]);

impl Bytes {
    fn add_range(&mut self, low: u8, high: u8) {
        for b in low..=high {
            self.0[usize::from(b >> 6)] |= 1 << (b & 63);
        }
    }

    fn add(&mut self, other: &Bytes) {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a |= b;
        }
    }

    pub(super) fn contains(&self, b: u8) -> bool {
        self.0[usize::from(b >> 6)] >> (b & 63) & 1 == 1
    }

    fn meets(&self, other: &Bytes) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }
}

/// The bytes that a non-empty match can begin with (or more), and whether the empty match is possible.
pub(super) fn first_bytes(hir: &Hir) -> (Bytes, bool) {
    let mut set = Bytes::default();
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => (set, true),
        HirKind::Literal(l) => {
            set.add_range(l.0[0], l.0[0]);
            (set, false)
        }
        HirKind::Class(Class::Bytes(class)) => {
            for range in class.iter() {
                set.add_range(range.start(), range.end());
            }
            (set, false)
        }
        HirKind::Class(Class::Unicode(class)) => {
            let lead = |c: char| c.encode_utf8(&mut [0; 4]).as_bytes()[0];
            for range in class.iter() {
                set.add_range(lead(range.start()), lead(range.end()));
            }
            (set, false)
        }
        HirKind::Repetition(r) => {
            let (first, nullable) = first_bytes(&r.sub);
            (first, nullable || r.min == 0)
        }
        HirKind::Capture(c) => first_bytes(&c.sub),
        HirKind::Concat(parts) => first_of_all(parts),
        HirKind::Alternation(branches) => {
            let mut nullable = false;
            for branch in branches {
                let (first, empty) = first_bytes(branch);
                set.add(&first);
                nullable |= empty;
            }
            (set, nullable)
        }
    }
}

fn first_of_all(parts: &[Hir]) -> (Bytes, bool) {
    let mut set = Bytes::default();
    for part in parts {
        let (first, nullable) = first_bytes(part);
        set.add(&first);
        if !nullable {
            return (set, false);
        }
    }
    (set, true)
}
