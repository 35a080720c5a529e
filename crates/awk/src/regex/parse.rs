//! AWK's regular expressions to `regex-syntax`'s intermediate form.
//!
//! Invariant: the form denotes the language of the POSIX extended expression with AWK's and gawk's escapes (checked
//! against gawk 5.3.2); it says nothing about which match is preferred. No pattern text is ever made for another
//! parser, so that nothing can be read twice with different rules.

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

use super::classes;
use super::{Options, RegexError, Syntax};
use crate::text::{self, Charset};

/// POSIX's RE_DUP_MAX as glibc and gawk have it.
const REPEAT_MAX: u32 = 32767;

/// Groups and stacked repetitions: the compiler of automata recurses on them.
const DEPTH_MAX: usize = 250;

/// All characters of any charset.
const EVERY: [(u32, u32); 1] = [(0, u32::MAX)];

/// What parentheses are in the form that is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parens {
    /// Nothing of their own: the form is simpler and searches are faster.
    Group,
    /// Captures, numbered from 1.
    Capture,
}

/// A pattern's form.
pub(super) struct Parsed {
    pub(super) hir: Hir,
    pub(super) group_count: usize,
}

/// Parses `pattern` whole.
pub(super) fn parse(
    pattern: &[u8],
    options: Options,
    parens: Parens,
) -> Result<Parsed, RegexError> {
    let mut parser = Parser {
        pattern,
        at: 0,
        cs: options.charset,
        syntax: options.syntax,
        ignore_case: options.ignore_case,
        parens,
        depth: 0,
        group_count: 0,
    };
    let hir = parser.alternation()?;
    debug_assert_eq!(parser.at, pattern.len());
    Ok(Parsed {
        hir,
        group_count: parser.group_count as usize,
    })
}

struct Parser<'a> {
    pattern: &'a [u8],
    at: usize,
    cs: Charset,
    syntax: Syntax,
    ignore_case: bool,
    parens: Parens,
    /// Open groups.
    depth: usize,
    /// Groups opened so far.
    group_count: u32,
}

/// One character of a pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Char {
    /// A code point, or any byte in [`Charset::Bytes`].
    Code(u32),
    /// A byte that is no character.
    Stray(u8),
}

/// What stands in a bracket expression.
enum Item {
    Char(Char),
    Class(&'static [(u32, u32)]),
}

/// What a backslash gives outside brackets.
enum Escape {
    Char(Char),
    Hir(Hir),
    Anchor(Look),
}

fn error<T>(offset: usize, what: impl Into<String>) -> Result<T, RegexError> {
    Err(RegexError {
        offset,
        what: what.into(),
    })
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.pattern.get(self.at).copied()
    }

    fn alternation(&mut self) -> Result<Hir, RegexError> {
        let mut branches = vec![self.branch()?];
        while self.peek() == Some(b'|') {
            self.at += 1;
            branches.push(self.branch()?);
        }
        // gawk's matcher prefers the second branch to a first one that is empty; this decides about groups alone.
        if let [first, _, ..] = &branches[..]
            && *first.kind() == HirKind::Empty
            && self.parens == Parens::Capture
        {
            branches.swap(0, 1);
        }
        Ok(Hir::alternation(branches))
    }

    fn branch(&mut self) -> Result<Hir, RegexError> {
        let mut atoms = Vec::new();
        // An atom takes the repetition signs that follow it. One that is met here is at the start or after an anchor
        // and stands for itself (POSIX leaves it undefined), or is refused in POSIX mode.
        let mut has_operand = false;
        while let Some(b) = self.peek() {
            let had_operand = std::mem::replace(&mut has_operand, false);
            let atom = match b {
                b'|' => break,
                b')' if self.depth > 0 => break,
                b'^' | b'$' => {
                    self.at += 1;
                    atoms.push(Hir::look(if b == b'^' { Look::Start } else { Look::End }));
                    continue;
                }
                b'(' => self.group()?,
                b'[' => self.bracket()?,
                b'.' => {
                    self.at += 1;
                    self.class_of(&EVERY, false)
                }
                b'*' | b'+' | b'?' | b'{' if self.syntax == Syntax::Posix && !had_operand => {
                    return error(self.at, "invalid preceding regular expression");
                }
                b'\\' => match self.escape()? {
                    Escape::Char(c) => self.literal(c),
                    Escape::Hir(hir) => hir,
                    Escape::Anchor(look) => {
                        atoms.push(Hir::look(look));
                        continue;
                    }
                },
                _ => {
                    let c = self.character();
                    self.literal(c)
                }
            };
            has_operand = true;
            atoms.push(self.repetitions(atom)?);
        }
        Ok(Hir::concat(atoms))
    }

    fn group(&mut self) -> Result<Hir, RegexError> {
        let open = self.at;
        if self.depth == DEPTH_MAX {
            return error(open, format!("groups nested more than {DEPTH_MAX} deep"));
        }
        self.at += 1;
        self.depth += 1;
        self.group_count += 1;
        let index = self.group_count;
        let inner = self.alternation()?;
        self.depth -= 1;
        if self.peek() != Some(b')') {
            return error(open, "unmatched (");
        }
        self.at += 1;
        Ok(match self.parens {
            Parens::Group => inner,
            Parens::Capture => Hir::capture(Capture {
                index,
                name: None,
                sub: Box::new(inner),
            }),
        })
    }

    fn repetitions(&mut self, mut atom: Hir) -> Result<Hir, RegexError> {
        let mut stacked = 0;
        let mut last = None;
        loop {
            let sign = self.at;
            let bounds = match self.peek() {
                Some(b'*') => (0, None),
                Some(b'+') => (1, None),
                Some(b'?') => (0, Some(1)),
                Some(b'{') => match self.interval()? {
                    Some(bounds) => bounds,
                    None => return Ok(atom),
                },
                _ => return Ok(atom),
            };
            if self.at == sign {
                self.at += 1;
            }
            // `**` and `++` mean no more than one sign.
            if last == Some(bounds) && matches!(bounds, (0, None) | (1, None) | (0, Some(1))) {
                continue;
            }
            last = Some(bounds);
            stacked += 1;
            if stacked + self.depth > DEPTH_MAX {
                return error(
                    sign,
                    format!("repetitions nested more than {DEPTH_MAX} deep"),
                );
            }
            let (min, max) = bounds;
            atom = Hir::repetition(Repetition {
                min,
                max,
                greedy: true,
                sub: Box::new(atom),
            });
        }
    }

    /// `{n}`, `{n,}`, `{,m}`, `{n,m}`; anything else but `{}` leaves the brace to stand for itself.
    fn interval(&mut self) -> Result<Option<(u32, Option<u32>)>, RegexError> {
        let open = self.at;
        self.at += 1;
        let min = self.number();
        let comma = self.peek() == Some(b',');
        let max = if comma {
            self.at += 1;
            self.number()
        } else {
            min
        };
        if min.is_none() && !comma && self.peek() == Some(b'}') {
            return error(open, "invalid content of {}: no number");
        }
        if self.peek() != Some(b'}') || (min.is_none() && !comma) {
            self.at = open;
            return Ok(None);
        }
        self.at += 1;
        if min.is_some_and(|n| n > REPEAT_MAX) || max.is_some_and(|n| n > REPEAT_MAX) {
            return error(open, format!("repetition count larger than {REPEAT_MAX}"));
        }
        let least = min.unwrap_or(0);
        if max.is_some_and(|most| most < least) {
            return error(
                open,
                "invalid content of {}: the first number is larger than the second",
            );
        }
        Ok(Some((least, max)))
    }

    fn number(&mut self) -> Option<u32> {
        let from = self.at;
        let mut value = 0u32;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value
                .saturating_mul(10)
                .saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        (self.at > from).then_some(value)
    }

    /// The character at the cursor, which must not be at the end.
    fn character(&mut self) -> Char {
        let (code, len) = text::next_char(self.cs, &self.pattern[self.at..]);
        self.at += len;
        if self.cs == Charset::Utf8 && len == 1 && code >= 0x80 {
            Char::Stray(code as u8)
        } else {
            Char::Code(code)
        }
    }

    fn escape(&mut self) -> Result<Escape, RegexError> {
        let backslash = self.at;
        let Some(&letter) = self.pattern.get(backslash + 1) else {
            return error(backslash, "trailing backslash");
        };
        if self.syntax != Syntax::Gawk {
            return Ok(Escape::Char(self.escaped_char()?));
        }
        let word = |this: &Self, negated| {
            let mut ranges = classes::named(this.cs, b"alnum")
                .unwrap_or_default()
                .to_vec();
            ranges.push((u32::from(b'_'), u32::from(b'_')));
            this.class_of(&ranges, negated)
        };
        let space = |this: &Self, negated| {
            this.class_of(
                classes::named(this.cs, b"space").unwrap_or_default(),
                negated,
            )
        };
        let unicode = self.cs == Charset::Utf8;
        let look = |wide, narrow| Escape::Anchor(if unicode { wide } else { narrow });
        let escape = match letter {
            b'w' => Escape::Hir(word(self, false)),
            b'W' => Escape::Hir(word(self, true)),
            b's' => Escape::Hir(space(self, false)),
            b'S' => Escape::Hir(space(self, true)),
            b'y' => look(Look::WordUnicode, Look::WordAscii),
            b'B' => look(Look::WordUnicodeNegate, Look::WordAsciiNegate),
            b'<' => look(Look::WordStartUnicode, Look::WordStartAscii),
            b'>' => look(Look::WordEndUnicode, Look::WordEndAscii),
            b'`' => Escape::Anchor(Look::Start),
            b'\'' => Escape::Anchor(Look::End),
            _ => return Ok(Escape::Char(self.escaped_char()?)),
        };
        self.at += 2;
        Ok(escape)
    }

    /// A backslash and what it makes a plain character.
    fn escaped_char(&mut self) -> Result<Char, RegexError> {
        let backslash = self.at;
        if let Some(byte) = self.numeric_escape() {
            return Ok(self.complete(byte));
        }
        if let Some(code) = self.code_point_escape() {
            return Ok(code);
        }
        let Some(&letter) = self.pattern.get(backslash + 1) else {
            return error(backslash, "trailing backslash");
        };
        let control = match letter {
            b'a' => 0x07,
            b'b' => 0x08,
            b't' => 0x09,
            b'n' => 0x0A,
            b'v' => 0x0B,
            b'f' => 0x0C,
            b'r' => 0x0D,
            // Any other character stands for itself.
            _ => {
                self.at += 1;
                return Ok(self.character());
            }
        };
        self.at += 2;
        Ok(Char::Code(control))
    }

    /// `\ddd` (octal) or `\xhh` at the cursor.
    fn numeric_escape(&mut self) -> Option<u8> {
        let rest = self.pattern.get(self.at..)?.strip_prefix(b"\\")?;
        let (digits, radix, most) = match rest.first()? {
            b'x' if self.syntax != Syntax::Posix => (&rest[1..], 16, 2),
            b'0'..=b'7' => (rest, 8, 3),
            _ => return None,
        };
        let mut value = 0u32;
        let mut count = 0;
        for digit in digits
            .iter()
            .take(most)
            .map_while(|b| char::from(*b).to_digit(radix))
        {
            value = value * radix + digit;
            count += 1;
        }
        if count == 0 {
            return None;
        }
        self.at += 1 + (rest.len() - digits.len()) + count;
        Some(value as u8)
    }

    /// `\u` and up to eight hexadecimal digits at the cursor, if they name a character that the charset has.
    fn code_point_escape(&mut self) -> Option<Char> {
        if self.syntax == Syntax::Posix {
            return None;
        }
        let digits = self.pattern.get(self.at..)?.strip_prefix(b"\\u")?;
        let count = digits
            .iter()
            .take(8)
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        let text = std::str::from_utf8(&digits[..count]).ok()?;
        let c = char::from_u32(u32::from_str_radix(text, 16).ok()?)?;
        if self.cs == Charset::Bytes && !c.is_ascii() {
            return None;
        }
        self.at += 2 + count;
        Some(Char::Code(c as u32))
    }

    /// Joins bytes given by number to the character that they spell, if they do.
    fn complete(&mut self, first: u8) -> Char {
        if self.cs == Charset::Bytes || first < 0x80 {
            return Char::Code(u32::from(first));
        }
        let after_first = self.at;
        let mut bytes = vec![first];
        while bytes.len() < 4 {
            let Some(byte) = self.numeric_escape() else {
                break;
            };
            bytes.push(byte);
            let (code, len) = text::next_char(self.cs, &bytes);
            if len == bytes.len() {
                return Char::Code(code);
            }
        }
        self.at = after_first;
        Char::Stray(first)
    }

    fn literal(&self, c: Char) -> Hir {
        match c {
            Char::Stray(byte) => Hir::literal([byte]),
            Char::Code(code) if self.ignore_case => self.class_of(&[(code, code)], false),
            Char::Code(code) if self.cs == Charset::Bytes => Hir::literal([code as u8]),
            Char::Code(code) => {
                let mut utf8 = [0; 4];
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                Hir::literal(c.encode_utf8(&mut utf8).as_bytes())
            }
        }
    }

    /// The characters in `ranges`, or all others; both ends are part of a range and may lie past the charset's end.
    fn class_of(&self, ranges: &[(u32, u32)], negated: bool) -> Hir {
        // Of every character nothing is missing, and to look up each of the million was most of the cost of a `.`.
        let folds = self.ignore_case && *ranges != EVERY;
        if self.cs == Charset::Bytes {
            let mut class = ClassBytes::new(
                ranges
                    .iter()
                    .filter(|(low, _)| *low <= 0xFF)
                    .map(|&(low, high)| ClassBytesRange::new(low as u8, high.min(0xFF) as u8)),
            );
            if folds {
                class.case_fold_simple();
            }
            if negated {
                class.negate();
            }
            return Hir::class(Class::Bytes(class));
        }
        let mut class = ClassUnicode::new(ranges.iter().filter_map(|&(low, high)| {
            // Ranges come from characters and tables; an end in the surrogates moves inwards.
            let low = if (0xD800..0xE000).contains(&low) {
                0xE000
            } else {
                low
            };
            let high = high.min(0x10_FFFF);
            let high = if (0xD800..0xE000).contains(&high) {
                0xD7FF
            } else {
                high
            };
            let (low, high) = (char::from_u32(low)?, char::from_u32(high)?);
            (low <= high).then(|| ClassUnicodeRange::new(low, high))
        }));
        if folds {
            class.case_fold_simple();
        }
        if negated {
            class.negate();
        }
        Hir::class(Class::Unicode(class))
    }

    fn bracket(&mut self) -> Result<Hir, RegexError> {
        let open = self.at;
        self.at += 1;
        let negated = self.peek() == Some(b'^');
        if negated {
            self.at += 1;
        }
        let mut ranges = Vec::new();
        let mut first = true;
        loop {
            match self.peek() {
                None => return error(open, "unmatched ["),
                Some(b']') if !first => break,
                _ => {}
            }
            first = false;
            let item_at = self.at;
            let item = self.bracket_item(open)?;
            // `s---`: the range is the one from `-` to `-`.
            let dashes = self.pattern[self.at..].starts_with(b"---");
            let is_dash = matches!(item, Item::Char(Char::Code(code)) if code == u32::from(b'-'));
            if !self.at_range() || (dashes && !is_dash) {
                match item {
                    Item::Char(Char::Code(code)) => ranges.push((code, code)),
                    // A byte that is no character is never one of those a bracket matches.
                    Item::Char(Char::Stray(_)) => {}
                    Item::Class(class) => ranges.extend_from_slice(class),
                }
                continue;
            }
            self.at += 1;
            let high = self.bracket_item(open)?;
            match (item, high) {
                (Item::Char(Char::Code(low)), Item::Char(Char::Code(high)))
                    if low <= high && !self.at_range() =>
                {
                    ranges.push((low, high));
                }
                _ => return error(item_at, "invalid range end"),
            }
        }
        self.at += 1;
        Ok(self.class_of(&ranges, negated))
    }

    /// Whether the cursor is at a `-` that makes a range: not the last in its bracket.
    fn at_range(&self) -> bool {
        self.peek() == Some(b'-') && self.pattern.get(self.at + 1).is_some_and(|b| *b != b']')
    }

    fn bracket_item(&mut self, open: usize) -> Result<Item, RegexError> {
        match (self.peek(), self.pattern.get(self.at + 1)) {
            (None, _) => error(open, "unmatched ["),
            (Some(b'\\'), None) => error(open, "unmatched ["),
            (Some(b'\\'), Some(_)) => Ok(Item::Char(self.escaped_char()?)),
            (Some(b'['), Some(&kind @ (b':' | b'.' | b'='))) => {
                let from = self.at + 2;
                let Some(len) = memchr::memmem::find(&self.pattern[from..], &[kind, b']']) else {
                    return error(self.at, format!("unmatched [{}", char::from(kind)));
                };
                let name = &self.pattern[from..from + len];
                let start = self.at;
                self.at = from + len + 2;
                let shown = String::from_utf8_lossy(name);
                if kind == b':' {
                    return match classes::named(self.cs, name) {
                        Some(class) => Ok(Item::Class(class)),
                        None => error(start, format!("invalid character class name [:{shown}:]")),
                    };
                }
                let end = self.at;
                self.at = from;
                if name.is_empty() {
                    return error(start, "invalid collation character: none given");
                }
                let c = self.character();
                if self.at != from + len {
                    return error(start, format!("invalid collation character {shown:?}"));
                }
                self.at = end;
                Ok(Item::Char(c))
            }
            _ => Ok(Item::Char(self.character())),
        }
    }
}
