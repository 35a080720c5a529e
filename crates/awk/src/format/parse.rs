//! Format strings, taken apart.
//!
//! Invariant: what is no conversion is text, as in gawk; nothing is refused here. Called by `format` alone.

use crate::locale::Numbers;

#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// Bytes of `source` that stand for themselves.
    Literal(std::ops::Range<usize>),
    Conversion(Conversion),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion {
    pub flags: Flags,
    pub width: Size,
    pub precision: Size,
    /// The conversion letter.
    pub letter: u8,
    /// Which argument it converts, from 0.
    pub arg: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub left: bool,
    pub plus: bool,
    pub space: bool,
    pub alternate: bool,
    pub zero: bool,
    /// `'`, in a locale that writes numbers in another way than C.
    pub grouped: bool,
    /// It is not written as in C.
    pub localized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    Absent,
    Given(usize),
    /// `*`: the value of this argument.
    Argument(usize),
}

/// What a format string is made of.
pub(super) struct Parsed {
    pub pieces: Vec<Piece>,
    /// How many arguments it uses.
    pub args_needed: usize,
    /// Some conversions have a `count$`, some have not.
    pub mixed: bool,
    /// There is a `0$`, or a `$` without a number.
    pub zero_position: bool,
}

/// Reads a format from left to right.
struct Parser<'a> {
    fmt: &'a [u8],
    at: usize,
    numbers: Numbers,
    /// Next argument of conversions without `count$`.
    next_arg: usize,
    args_needed: usize,
    sequential: bool,
    positional: bool,
    zero_position: bool,
}

impl Parser<'_> {
    fn peek(&self) -> Option<u8> {
        self.fmt.get(self.at).copied()
    }

    fn digits(&mut self) -> Option<usize> {
        let from = self.at;
        let mut value = 0usize;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value
                .saturating_mul(10)
                .saturating_add(usize::from(digit - b'0'));
            self.at += 1;
        }
        (self.at > from).then_some(value)
    }

    /// `N$` at the cursor: the argument's index from 0.
    fn position(&mut self) -> Option<usize> {
        let from = self.at;
        let n = self.digits().unwrap_or(0);
        if self.peek() == Some(b'$') {
            self.at += 1;
            if n == 0 {
                self.zero_position = true;
                return None;
            }
            self.args_needed = self.args_needed.max(n);
            return Some(n - 1);
        }
        self.at = from;
        None
    }

    fn take_arg(&mut self) -> usize {
        let arg = self.next_arg;
        self.next_arg += 1;
        self.args_needed = self.args_needed.max(self.next_arg);
        self.sequential = true;
        arg
    }

    fn size(&mut self) -> Size {
        if self.peek() == Some(b'*') {
            self.at += 1;
            let arg = self.position().unwrap_or_else(|| self.take_arg());
            return Size::Argument(arg);
        }
        self.digits().map_or(Size::Absent, Size::Given)
    }

    /// A conversion after its `%`; `None` if what is there is none, the cursor wherever it has come to.
    fn conversion(&mut self) -> Option<Conversion> {
        let position = self.position();
        let mut flags = Flags::default();
        while let Some(b) = self.peek() {
            match b {
                b'-' => flags.left = true,
                b'+' => flags.plus = true,
                b' ' => flags.space = true,
                b'#' => flags.alternate = true,
                b'0' => flags.zero = true,
                b'\'' => flags.grouped = !self.numbers.is_plain(),
                _ => break,
            }
            self.at += 1;
        }
        flags.localized = flags.grouped || self.numbers.other_point().is_some();
        let width = self.size();
        let precision = if self.peek() == Some(b'.') {
            self.at += 1;
            match self.size() {
                Size::Absent => Size::Given(0),
                size => size,
            }
        } else {
            Size::Absent
        };
        // One length modifier means nothing here and is passed over, as in gawk.
        if matches!(self.peek(), Some(b'h' | b'l' | b'L' | b'j' | b't' | b'z')) {
            self.at += 1;
        }
        let letter = self.peek()?;
        match letter {
            b'd' | b'i' | b'o' | b'x' | b'X' | b'u' | b'c' | b's' | b'e' | b'E' | b'f' | b'F'
            | b'g' | b'G' | b'a' | b'A' => {
                self.at += 1;
                // A width's own position does not count: `%*2$d` is allowed among conversions in order.
                self.positional |= position.is_some();
                let arg = position.unwrap_or_else(|| self.take_arg());
                Some(Conversion {
                    flags,
                    width,
                    precision,
                    letter,
                    arg,
                })
            }
            b'%' => {
                self.at += 1;
                Some(Conversion {
                    flags,
                    width: Size::Absent,
                    precision: Size::Absent,
                    letter,
                    arg: 0,
                })
            }
            _ => None,
        }
    }
}

/// Takes `fmt` apart; `numbers` says which flags mean something.
pub(super) fn parse(fmt: &[u8], numbers: Numbers) -> Parsed {
    let mut parser = Parser {
        fmt,
        at: 0,
        numbers,
        next_arg: 0,
        args_needed: 0,
        sequential: false,
        positional: false,
        zero_position: false,
    };
    let mut pieces = Vec::new();
    let mut literal_from = 0;
    // Not by `memchr`: its first call asks the processor what it can do, which is dear where that is a virtual one, and the formats
    // that every run reads are of four bytes.
    while let Some(offset) = fmt[parser.at..].iter().position(|b| *b == b'%') {
        let percent = parser.at + offset;
        parser.at = percent + 1;
        let before = (parser.next_arg, parser.args_needed);
        match parser.conversion() {
            Some(conversion) => {
                if percent > literal_from {
                    pieces.push(Piece::Literal(literal_from..percent));
                }
                literal_from = parser.at;
                if conversion.letter == b'%' {
                    pieces.push(Piece::Literal(parser.at - 1..parser.at));
                } else {
                    pieces.push(Piece::Conversion(conversion));
                }
            }
            // The `%` begins no conversion: a `*` in it has used no argument.
            None => (parser.next_arg, parser.args_needed) = before,
        }
    }
    if literal_from < fmt.len() {
        pieces.push(Piece::Literal(literal_from..fmt.len()));
    }
    Parsed {
        pieces,
        args_needed: parser.args_needed,
        mixed: parser.sequential && parser.positional,
        zero_position: parser.zero_position,
    }
}
