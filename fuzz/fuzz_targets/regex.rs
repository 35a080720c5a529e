//! Patterns and texts: the matcher beside one that tries everything, and beside itself.
//!
//! Two kinds of input, by the first byte. Odd: choices that make a pattern from a grammar, with its tree, which the slow matcher
//! walks. Even: dialect, length of the pattern, pattern and text, all of any bytes, for which only what must hold for every
//! pattern is checked.
#![no_main]

use arbitrary::Unstructured;
use awk::regex::{Options, Regex, Syntax};
use awk::text::Charset;
use libfuzzer_sys::fuzz_target;

/// A pattern as a tree.
#[derive(Debug)]
enum Node {
    Char(u8),
    Any,
    Set(Vec<u8>, bool),
    Start,
    End,
    Concat(Vec<Node>),
    Either(Vec<Node>),
    Repeat(Box<Node>, u32, Option<u32>),
    Group(Box<Node>),
}

/// Few letters, so that texts match.
const LETTERS: &[u8] = b"abcABx\n";

/// As long as the sets of places of the slow matcher, which are 64 bits.
const TEXT_LEN_MAX: usize = 24;

struct Grammar<'a, 'b> {
    choices: &'b mut Unstructured<'a>,
    group_count: usize,
}

impl Grammar<'_, '_> {
    fn letter(&mut self) -> arbitrary::Result<u8> {
        Ok(*self.choices.choose(LETTERS)?)
    }

    fn either(&mut self, depth: u32) -> arbitrary::Result<Node> {
        let count = self.choices.int_in_range(1..=3)?;
        let mut branches = Vec::new();
        for _ in 0..count {
            branches.push(self.concat(depth)?);
        }
        Ok(Node::Either(branches))
    }

    fn concat(&mut self, depth: u32) -> arbitrary::Result<Node> {
        let count = self.choices.int_in_range(0..=4)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            parts.push(self.piece(depth)?);
        }
        Ok(Node::Concat(parts))
    }

    fn piece(&mut self, depth: u32) -> arbitrary::Result<Node> {
        let atom = match self.choices.int_in_range(0..=10)? {
            0..=3 => Node::Char(self.letter()?),
            4 => Node::Any,
            5 => {
                let mut set = vec![self.letter()?];
                if self.choices.arbitrary()? {
                    set.push(self.letter()?);
                }
                Node::Set(set, self.choices.arbitrary()?)
            }
            6 => return Ok(Node::Start),
            7 => return Ok(Node::End),
            _ if depth == 0 => Node::Any,
            _ => {
                self.group_count += 1;
                Node::Group(Box::new(self.either(depth - 1)?))
            }
        };
        let (min, max) = match self.choices.int_in_range(0..=9)? {
            0 => (0, None),
            1 => (1, None),
            2 => (0, Some(1)),
            3 => (2, Some(2)),
            4 => (1, Some(3)),
            5 => (2, None),
            _ => return Ok(atom),
        };
        Ok(Node::Repeat(Box::new(atom), min, max))
    }
}

fn write(node: &Node, out: &mut Vec<u8>) {
    match node {
        Node::Char(c) => out.push(*c),
        Node::Any => out.push(b'.'),
        Node::Set(set, negated) => {
            out.extend_from_slice(if *negated { b"[^" } else { b"[" });
            out.extend_from_slice(set);
            out.push(b']');
        }
        Node::Start => out.push(b'^'),
        Node::End => out.push(b'$'),
        Node::Concat(parts) => parts.iter().for_each(|part| write(part, out)),
        Node::Either(branches) => {
            for (index, branch) in branches.iter().enumerate() {
                if index > 0 {
                    out.push(b'|');
                }
                write(branch, out);
            }
        }
        Node::Repeat(inner, min, max) => {
            write(inner, out);
            let sign = match (min, max) {
                (0, None) => "*".to_string(),
                (1, None) => "+".to_string(),
                (0, Some(1)) => "?".to_string(),
                (n, None) => format!("{{{n},}}"),
                (n, Some(m)) => format!("{{{n},{m}}}"),
            };
            out.extend_from_slice(sign.as_bytes());
        }
        Node::Group(inner) => {
            out.push(b'(');
            write(inner, out);
            out.push(b')');
        }
    }
}

/// All ends of matches of `node` that start at one of `starts` (a bit each).
fn ends(node: &Node, text: &[u8], fold: bool, starts: u64) -> u64 {
    let each = |test: &dyn Fn(u8) -> bool| {
        (0..text.len())
            .filter(|i| starts >> i & 1 == 1 && test(text[*i]))
            .fold(0, |set, i| set | 1 << (i + 1))
    };
    let same = |a: u8, b: u8| a == b || fold && a.eq_ignore_ascii_case(&b);
    match node {
        Node::Char(c) => each(&|t| same(t, *c)),
        Node::Any => each(&|_| true),
        Node::Set(set, negated) => each(&|t| set.iter().any(|c| same(t, *c)) != *negated),
        Node::Start => starts & 1,
        Node::End => starts & 1 << text.len(),
        Node::Concat(parts) => parts
            .iter()
            .fold(starts, |at, part| ends(part, text, fold, at)),
        Node::Either(branches) => branches
            .iter()
            .fold(0, |set, branch| set | ends(branch, text, fold, starts)),
        Node::Repeat(inner, min, max) => {
            let mut at = (0..*min).fold(starts, |at, _| ends(inner, text, fold, at));
            let mut all = at;
            for _ in *min..max.unwrap_or(min + text.len() as u32 + 1) {
                at = ends(inner, text, fold, at);
                all |= at;
            }
            all
        }
        Node::Group(inner) => ends(inner, text, fold, starts),
    }
}

fn slow_find(node: &Node, text: &[u8], fold: bool, from: usize) -> Option<(usize, usize)> {
    (from..=text.len()).find_map(|start| {
        let all = ends(node, text, fold, 1 << start);
        (all != 0).then(|| (start, 63 - all.leading_zeros() as usize))
    })
}

fn against_the_slow_one(choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let charset = if choices.arbitrary()? {
        Charset::Utf8
    } else {
        Charset::Bytes
    };
    let from_end: usize = choices.int_in_range(0..=TEXT_LEN_MAX)?;
    let mut text = Vec::new();
    for _ in 0..choices.int_in_range(0..=TEXT_LEN_MAX)? {
        text.push(*choices.choose(LETTERS)?);
    }
    let mut grammar = Grammar {
        choices,
        group_count: 0,
    };
    let node = grammar.either(3)?;
    let group_count = grammar.group_count;
    let mut pattern = Vec::new();
    write(&node, &mut pattern);
    let shown = String::from_utf8_lossy(&pattern).into_owned();
    let from = text.len().saturating_sub(from_end);
    let regex = match Regex::new(&pattern, charset, false) {
        Ok(regex) => regex,
        Err(error) => panic!("/{shown}/: {error}"),
    };
    assert_eq!(regex.group_count(), group_count, "/{shown}/");
    for (regex, fold) in [(&regex, false), (regex.insensitive(), true)] {
        let expected = slow_find(&node, &text, fold, from);
        let shown = format!("/{shown}/ fold {fold} on {text:?} from {from}");
        assert_eq!(regex.find_at(&text, from), expected, "{shown}");
        if from == 0 {
            assert_eq!(regex.is_match(&text), expected.is_some(), "{shown}");
        }
        let mut places = Vec::new();
        assert_eq!(
            regex.captures_at(&text, from, &mut places),
            expected.is_some(),
            "{shown}"
        );
        // No more can be asked of a group: gawk's places, which these are, need not be of what the group matches.
        let (start, end) = expected.unwrap_or_default();
        for (group_start, group_end) in places.iter().flatten() {
            assert!(
                start <= *group_start && group_start <= group_end && *group_end <= end,
                "{shown}: {places:?}"
            );
        }
    }
    Ok(())
}

/// A pattern of any bytes on a text of any bytes.
fn against_itself(dialect: u8, pattern: &[u8], text: &[u8]) {
    let options = Options {
        charset: if dialect & 1 == 0 {
            Charset::Utf8
        } else {
            Charset::Bytes
        },
        syntax: match dialect >> 1 & 3 {
            0 | 1 => Syntax::Gawk,
            2 => Syntax::Posix,
            _ => Syntax::Traditional,
        },
        ignore_case: false,
    };
    let Ok(regex) = Regex::compile(pattern, options) else {
        return;
    };
    let folding = Options {
        ignore_case: true,
        ..options
    };
    let mut places = Vec::new();
    let mut from = 0;
    let mut is_first = true;
    while from <= text.len() {
        let found = regex.find_at(text, from);
        if is_first {
            assert_eq!(regex.is_match(text), found.is_some());
        }
        is_first = false;
        assert_eq!(regex.captures_at(text, from, &mut places), found.is_some());
        let Some((start, end)) = found else { break };
        assert!(from <= start && start <= end && end <= text.len());
        assert_eq!(places.len(), regex.group_count() + 1);
        assert_eq!(places[0], found);
        for (group_start, group_end) in places.iter().flatten() {
            assert!(start <= *group_start && group_start <= group_end && *group_end <= end);
        }
        // What is found from where it starts is the same.
        assert_eq!(regex.find_at(text, start), found);
        from = if end > start { end } else { end + 1 };
    }
    let insensitive = regex.insensitive();
    if let Ok(folded) = Regex::compile(pattern, folding) {
        assert_eq!(folded.find_at(text, 0), insensitive.find_at(text, 0));
    }
    let swapped: Vec<u8> = text.iter().map(|b| swap_case(*b)).collect();
    assert_eq!(
        insensitive.find_at(text, 0),
        insensitive.find_at(&swapped, 0),
        "the text in the other case"
    );
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() {
        byte ^ 0x20
    } else {
        byte
    }
}

fuzz_target!(|data: &[u8]| match data {
    [kind, rest @ ..] if kind % 2 == 1 => {
        // Too few bytes are the end of an input, not a fault.
        let _ = against_the_slow_one(&mut Unstructured::new(rest));
    }
    [_, dialect, pattern_len, rest @ ..] => {
        let (pattern, text) = rest.split_at(usize::from(*pattern_len).min(rest.len()));
        against_itself(*dialect, pattern, text);
    }
    _ => {}
});
