//! `printf`: format strings parsed once, and numbers to text by CONVFMT and OFMT.
//!
//! Invariant: what is written is what C's `printf` writes for the same double, correctly rounded at any precision,
//! with gawk's answers where C has none (infinities as integers, integers beyond 64 bits, characters). Called by the VM.

use std::io::Write as _;

use crate::exact::{self, Exact};
use crate::locale::Numbers;
use crate::num::{parse_prefix, push_integer};
use crate::text::{self, Charset};

/// A width or precision beyond this is refused: 2^28 bytes for one conversion. (C's limit is 2^31.)
const SIZE_MAX: usize = 1 << 28;

/// A parsed format string; cheap to use again and again, so keep it.
#[derive(Clone, Debug)]
pub struct Format {
    source: Vec<u8>,
    pieces: Vec<Piece>,
    args_needed: usize,
    error: Option<FormatError>,
    /// Precision of a format that is one plain `%.Ng`: the usual CONVFMT.
    plain_g: Option<usize>,
    numbers: Numbers,
}

/// An argument of `printf`. An uninitialised value is `Str(b"")`.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// A number.
    Num(f64),
    /// A string.
    Str(&'a [u8]),
    /// Input text that looks numeric: written as it is by `%s`, a number for all else.
    StrNum(&'a [u8]),
    /// A number of any size.
    Exact(&'a Exact),
}

/// Why a format could not be written. Nothing is left in the output then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// Fewer arguments than the conversions use.
    #[error(
        "not enough arguments to satisfy format string: {format:?} uses {needed}, {given} given"
    )]
    NotEnoughArguments {
        /// The whole format.
        format: String,
        /// How many arguments it uses.
        needed: usize,
        /// How many there were.
        given: usize,
    },
    /// `%2$s` beside `%s`.
    #[error("format string {format:?}: must use `count$' on all formats or none")]
    MixedPositions {
        /// The whole format.
        format: String,
    },
    /// `%0$s` or `%$s`.
    #[error("format string {format:?}: argument index with `$' must be > 0")]
    ZeroPosition {
        /// The whole format.
        format: String,
    },
    /// A width or precision that no output can have.
    #[error("format string {format:?}: width or precision {size} is larger than {SIZE_MAX}")]
    TooWide {
        /// The whole format.
        format: String,
        /// The size asked for.
        size: String,
    },
}

#[derive(Clone, Debug)]
enum Piece {
    /// Bytes of `source` that stand for themselves.
    Literal(std::ops::Range<usize>),
    Conversion(Conversion),
}

#[derive(Clone, Copy, Debug)]
struct Conversion {
    flags: Flags,
    width: Size,
    precision: Size,
    /// The conversion letter.
    letter: u8,
    /// Which argument it converts, from 0.
    arg: usize,
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
enum Size {
    Absent,
    Given(usize),
    /// `*`: the value of this argument.
    Argument(usize),
}

/// A conversion whose sizes are known.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    pub flags: Flags,
    pub width: usize,
    pub precision: Option<usize>,
    pub letter: u8,
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

impl Format {
    /// Parses `fmt`. Never fails: what is no conversion stands for itself (as in gawk), and errors that only the
    /// writing can meet are reported by [`Format::write`].
    pub fn parse(fmt: &[u8]) -> Format {
        Format::parse_in(fmt, Numbers::default())
    }

    /// What it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Format>() + self.source.len() + size_of_val(&*self.pieces)
    }

    /// [`Format::parse`], `numbers` saying what the `'` flag does and what a decimal point is.
    pub fn parse_in(fmt: &[u8], numbers: Numbers) -> Format {
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
        while let Some(offset) = memchr::memchr(b'%', &fmt[parser.at..]) {
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
        let (args_needed, mixed) = (parser.args_needed, parser.sequential && parser.positional);
        let zero_position = parser.zero_position;
        let mut format = Format {
            source: fmt.to_vec(),
            pieces,
            args_needed,
            error: None,
            plain_g: None,
            numbers,
        };
        format.error = if zero_position {
            Some(FormatError::ZeroPosition {
                format: format.shown(),
            })
        } else if mixed {
            Some(FormatError::MixedPositions {
                format: format.shown(),
            })
        } else {
            format.oversize()
        };
        if let [Piece::Conversion(c)] = format.pieces[..]
            && c.letter == b'g'
            && c.flags == Flags::default()
            && c.width == Size::Absent
            && let Size::Given(precision) = c.precision
            && precision <= 17
        {
            format.plain_g = Some(precision.max(1));
        }
        format
    }

    fn oversize(&self) -> Option<FormatError> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Conversion(Conversion {
                width: Size::Given(size),
                ..
            })
            | Piece::Conversion(Conversion {
                precision: Size::Given(size),
                ..
            }) if *size > SIZE_MAX => Some(FormatError::TooWide {
                format: self.shown(),
                size: size.to_string(),
            }),
            _ => None,
        })
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.source).into_owned()
    }

    /// The precision, if the format is one plain `%.Ng` whose point is a point.
    pub fn plain_g(&self) -> Option<usize> {
        self.plain_g
    }

    /// Appends a number that is no integer by this format, as CONVFMT or OFMT.
    #[cold]
    pub fn push_exact(&self, n: &Exact, out: &mut Vec<u8>) {
        let letter = |p: &Piece| matches!(p, Piece::Conversion(c) if c.letter == b's');
        if self.pieces.iter().any(letter)
            || self
                .write(Charset::Bytes, self, &[Arg::Exact(n)], out)
                .is_err()
        {
            let usual = self.usual();
            exact::format::push_text(n, &usual, exact::rules().unwrap_or_default(), out);
        }
    }

    /// What takes the place of a CONVFMT or OFMT that cannot format one number.
    fn usual(&self) -> Format {
        Format::parse_in(b"%.6g", self.numbers)
    }

    /// How many arguments [`Format::write`] uses; more are ignored.
    pub fn args_needed(&self) -> usize {
        self.args_needed
    }

    /// Appends the formatted `args` to `out`. `convfmt` turns numbers into text for `%s`. Widths and precisions of
    /// `%s` and `%c` count characters.
    ///
    /// # Errors
    /// Too few arguments, `count$` on some conversions only, or a size beyond C's limits; `out` is then as it was.
    pub fn write(
        &self,
        cs: Charset,
        convfmt: &Format,
        args: &[Arg<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        let start = out.len();
        let result = self.write_pieces(cs, convfmt, args, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn write_pieces(
        &self,
        cs: Charset,
        convfmt: &Format,
        args: &[Arg<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), FormatError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        if args.len() < self.args_needed {
            return Err(FormatError::NotEnoughArguments {
                format: self.shown(),
                needed: self.args_needed,
                given: args.len(),
            });
        }
        for piece in &self.pieces {
            match piece {
                Piece::Literal(range) => out.extend_from_slice(&self.source[range.clone()]),
                Piece::Conversion(conversion) => {
                    let spec = self.resolve(conversion, args)?;
                    write_conversion(cs, &spec, &self.numbers, convfmt, args[conversion.arg], out);
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn resolve(&self, conversion: &Conversion, args: &[Arg<'_>]) -> Result<Spec, FormatError> {
        let mut spec = Spec {
            flags: conversion.flags,
            width: 0,
            precision: None,
            letter: conversion.letter,
        };
        match conversion.width {
            Size::Absent => {}
            Size::Given(width) => spec.width = width,
            Size::Argument(arg) => {
                let width = self.size_argument(args[arg])?;
                spec.flags.left |= width < 0;
                spec.width = width.unsigned_abs() as usize;
            }
        }
        match conversion.precision {
            Size::Absent => {}
            Size::Given(precision) => spec.precision = Some(precision),
            // A negative precision counts as none (C, 7.23.6.1).
            Size::Argument(arg) => {
                spec.precision = usize::try_from(self.size_argument(args[arg])?).ok()
            }
        }
        Ok(spec)
    }

    fn size_argument(&self, arg: Arg<'_>) -> Result<i64, FormatError> {
        let size = number_of(arg);
        if size.abs() > SIZE_MAX as f64 {
            return Err(FormatError::TooWide {
                format: self.shown(),
                size: size.to_string(),
            });
        }
        Ok(size as i64)
    }
}

fn number_of(arg: Arg<'_>) -> f64 {
    match arg {
        Arg::Num(n) => n,
        Arg::Str(s) | Arg::StrNum(s) => parse_prefix(s),
        Arg::Exact(n) => n.to_double(),
    }
}

/// Appends `n` as text: integral values as integers of any size, infinities and NaN as gawk spells them, all else by
/// `convfmt` (CONVFMT, or OFMT for `print`).
///
/// A `convfmt` that cannot format one number (`%s`, two conversions) is replaced by `%.6g`: gawk 5.2.1 crashes on the
/// former and stops on the latter.
#[inline]
pub fn number_to_text(n: f64, convfmt: &Format, out: &mut Vec<u8>) {
    let integer = n as i64;
    // -0.0 is `0` here, and i64::MAX rounds up to a double it is not equal to.
    if integer as f64 == n && integer != i64::MAX {
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(integer).as_bytes());
    } else {
        fraction_to_text(n, convfmt, out);
    }
}

fn fraction_to_text(n: f64, convfmt: &Format, out: &mut Vec<u8>) {
    if !n.is_finite() {
        out.extend_from_slice(special(n));
    } else if n.fract() == 0.0 {
        push_integer(out, n);
    } else if let Some(precision) = convfmt.plain_g {
        if n < 0.0 {
            out.push(b'-');
        }
        push_general(out, n.abs(), precision, false);
    } else {
        by_convfmt(n, convfmt, out);
    }
}

#[cold]
fn by_convfmt(n: f64, convfmt: &Format, out: &mut Vec<u8>) {
    let text = convfmt
        .pieces
        .iter()
        .any(|p| matches!(p, Piece::Conversion(c) if c.letter == b's'));
    if text
        || convfmt
            .write(Charset::Bytes, convfmt, &[Arg::Num(n)], out)
            .is_err()
    {
        // Never an error: one conversion, one number.
        let _ = convfmt
            .usual()
            .write(Charset::Bytes, convfmt, &[Arg::Num(n)], out);
    }
}

fn special(n: f64) -> &'static [u8] {
    match (n.is_nan(), n.is_sign_negative()) {
        (true, true) => b"-nan",
        (true, false) => b"+nan",
        (false, true) => b"-inf",
        (false, false) => b"+inf",
    }
}

fn write_conversion(
    cs: Charset,
    spec: &Spec,
    numbers: &Numbers,
    convfmt: &Format,
    arg: Arg<'_>,
    out: &mut Vec<u8>,
) {
    match spec.letter {
        b's' => match arg {
            Arg::Str(s) | Arg::StrNum(s) => write_text(cs, spec, s, out),
            Arg::Num(n) => {
                let from = out.len();
                number_to_text(n, convfmt, out);
                if spec.precision.is_some() || spec.width > out.len() - from {
                    let text = out.split_off(from);
                    write_text(cs, spec, &text, out);
                }
            }
            Arg::Exact(n) => {
                let mut text = Vec::new();
                exact::format::push_text(n, convfmt, exact::rules().unwrap_or_default(), &mut text);
                write_text(cs, spec, &text, out);
            }
        },
        b'c' => write_char(cs, spec, arg, out),
        _ if spec.flags.localized => write_localized(spec, numbers, arg, out),
        _ => write_plain(spec, arg, out),
    }
}

/// A number as C writes it.
#[inline(always)] // or each number of a format pays for a call more
fn write_plain(spec: &Spec, arg: Arg<'_>, out: &mut Vec<u8>) {
    match exact::rules() {
        None => write_number(spec, number_of(arg), out),
        Some(rules) => {
            let n = match arg {
                Arg::Num(n) => &Exact::of_double(n),
                Arg::Str(s) | Arg::StrNum(s) => &exact::text::parse_prefix(s, rules),
                Arg::Exact(n) => n,
            };
            exact::format::write_number(spec, n, rules, out);
        }
    }
}

/// A number as the locale writes it: as C does but without padding, then made the locale's.
#[cold]
fn write_localized(spec: &Spec, numbers: &Numbers, arg: Arg<'_>, out: &mut Vec<u8>) {
    let is_decimal = matches!(spec.letter, b'd' | b'i' | b'u');
    let is_integer = is_decimal || matches!(spec.letter, b'o' | b'x' | b'X');
    let is_hexadecimal = matches!(spec.letter, b'a' | b'A');
    let plain = Spec {
        flags: Flags {
            left: false,
            zero: false,
            ..spec.flags
        },
        width: 0,
        // Its zeros come before the groups. Only that a zero disappears at no precision is C's.
        precision: spec.precision.filter(|p| !is_decimal || *p == 0),
        letter: spec.letter,
    };
    let start = out.len();
    write_plain(&plain, arg, out);
    let mut from = start + usize::from(matches!(out.get(start), Some(b'-' | b'+' | b' ')));
    if out[from..].starts_with(b"0x") || out[from..].starts_with(b"0X") {
        from += 2;
    }
    let is_finite = out
        .get(from)
        .is_none_or(|b| !matches!(b, b'i' | b'n' | b'I' | b'N'));
    let grouped =
        spec.flags.grouped && (is_decimal || matches!(spec.letter, b'f' | b'F' | b'g' | b'G'));
    let pointed = numbers.other_point().is_some() || !is_hexadecimal;
    let wider = numbers.localize(out, from, pointed, grouped);
    if is_decimal && is_finite {
        leading_zeros(out, from, spec.precision);
    }
    // Widths of integers count bytes (gawk), of others characters (glibc).
    let width = spec.width + if is_integer { 0 } else { wider };
    let fill = width.saturating_sub(out.len() - start);
    if spec.flags.left {
        pad(out, b' ', fill);
    } else if spec.flags.zero && is_finite && !(is_integer && spec.precision.is_some()) {
        insert(out, from, b'0', fill);
    } else {
        insert(out, start, b' ', fill);
    }
}

/// `%s`: at most `precision` characters, padded with blanks.
fn write_text(cs: Charset, spec: &Spec, s: &[u8], out: &mut Vec<u8>) {
    let s = match spec.precision {
        Some(precision) if precision < s.len() => &s[..text::char_to_byte(cs, s, precision)],
        _ => s,
    };
    if spec.width == 0 {
        out.extend_from_slice(s);
        return;
    }
    let fill = spec.width.saturating_sub(text::char_count(cs, s));
    if !spec.flags.left {
        pad(out, b' ', fill);
    }
    out.extend_from_slice(s);
    if spec.flags.left {
        pad(out, b' ', fill);
    }
}

/// `%c`: the character with that number, or the first of a string (NUL if it is empty, as gawk and mawk have it).
fn write_char(cs: Charset, spec: &Spec, arg: Arg<'_>, out: &mut Vec<u8>) {
    let mut encoded = [0; 6];
    let mut charset = cs;
    let one: &[u8] = match arg {
        Arg::Str([]) => b"\0",
        Arg::Str(s) => &s[..text::next_char(cs, s).1],
        Arg::Num(_) | Arg::StrNum(_) | Arg::Exact(_) => {
            // Modulo 2^32, then what UTF-8 can hold; the rest falls back to its lowest byte (gawk in glibc's C.UTF-8).
            let code = match arg {
                Arg::Exact(n) => exact::format::rounded(n, exact::rules().unwrap_or_default()),
                arg => number_of(arg).trunc(),
            };
            let code = (code % 4_294_967_296.0) as i64 as u32;
            let len = encode(cs, code, &mut encoded);
            // gawk counts the width of a character that is made in bytes.
            charset = Charset::Bytes;
            &encoded[..len]
        }
    };
    write_text(
        charset,
        &Spec {
            precision: None,
            ..*spec
        },
        one,
        out,
    );
}

/// UTF-8 of `code` in its original form (RFC 2279), which glibc writes for codes past Unicode's end.
fn encode(cs: Charset, code: u32, out: &mut [u8; 6]) -> usize {
    let len = match code {
        _ if cs == Charset::Bytes => 1,
        0xD800..=0xDFFF => 1,
        0..=0x7F => 1,
        0x80..=0x7FF => 2,
        0x800..=0xFFFF => 3,
        0x1_0000..=0x1F_FFFF => 4,
        0x20_0000..=0x3FF_FFFF => 5,
        0x400_0000..=0x7FFF_FFFF => 6,
        _ => 1,
    };
    if len == 1 {
        out[0] = code as u8;
        return 1;
    }
    for (i, byte) in out[..len].iter_mut().rev().enumerate() {
        *byte = 0x80 | (code >> (6 * i) & 0x3F) as u8;
    }
    out[0] |= (0xFF00 >> len) as u8;
    len
}

pub(crate) fn pad(out: &mut Vec<u8>, byte: u8, count: usize) {
    out.resize(out.len() + count, byte);
}

fn write_number(spec: &Spec, n: f64, out: &mut Vec<u8>) {
    if !n.is_finite() {
        // gawk 5.3 writes these always with their sign, never padded with zeros.
        let from = out.len();
        out.extend_from_slice(special(n));
        return finish(out, from, spec, b"", b"", false);
    }
    // Written without sign at the end of `out`, then sign and padding are put around it.
    let from = out.len();
    let mut negative = n.is_sign_negative();
    let mut zeros = spec.flags.zero && !spec.flags.left;
    let mut prefix: &[u8] = b"";
    match spec.letter {
        b'd' | b'i' => {
            let whole = n.trunc();
            negative = whole < 0.0;
            zeros &= spec.precision.is_none();
            // Only a zero disappears at no precision, not what is cut to zero.
            if n != 0.0 || spec.precision != Some(0) {
                push_integer(out, whole.abs());
            }
            leading_zeros(out, from, spec.precision);
        }
        b'o' | b'x' | b'X' | b'u' => {
            let whole = n.trunc();
            // -2^63 and 2^64 are the ends of what 64 bits hold; beyond them gawk changes to %g.
            if !(-9223372036854775808.0..18446744073709551616.0).contains(&whole) {
                return write_number(
                    &Spec {
                        letter: b'g',
                        flags: Flags {
                            alternate: spec.flags.alternate && spec.letter != b'u',
                            zero: spec.flags.zero
                                && (spec.letter != b'u' || spec.precision.is_none()),
                            ..spec.flags
                        },
                        ..*spec
                    },
                    n,
                    out,
                );
            }
            let bits = if whole < 0.0 {
                whole as i64 as u64
            } else {
                whole as u64
            };
            zeros &= spec.precision.is_none();
            prefix = push_bits(out, bits, n != 0.0, spec);
            leading_zeros(out, from, spec.precision);
            return finish(out, from, spec, b"", prefix, zeros);
        }
        b'f' | b'F' => push_fixed(
            out,
            n.abs(),
            spec.precision.unwrap_or(6),
            spec.flags.alternate,
        ),
        b'e' | b'E' => push_scientific(
            out,
            n.abs(),
            spec.precision.unwrap_or(6),
            spec.flags.alternate,
        ),
        b'g' | b'G' => push_general(
            out,
            n.abs(),
            spec.precision.unwrap_or(6).max(1),
            spec.flags.alternate,
        ),
        _ => {
            prefix = b"0x";
            push_hexadecimal(out, n.abs(), spec.precision, spec.flags.alternate);
        }
    }
    let sign: &[u8] = match (negative, spec.flags.plus, spec.flags.space) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    };
    finish(out, from, spec, sign, prefix, zeros);
}

/// Octal, hexadecimal or decimal digits of `bits`, the whole part of a number that is not zero if `filled`; gives back the prefix that goes before padding zeros.
fn push_bits(out: &mut Vec<u8>, bits: u64, filled: bool, spec: &Spec) -> &'static [u8] {
    if !filled && spec.precision == Some(0) {
        if spec.letter == b'o' && spec.flags.alternate {
            out.push(b'0');
        }
        return b"";
    }
    let mark = spec.flags.alternate && filled;
    // Writing to a Vec cannot fail.
    let _ = match spec.letter {
        b'o' => {
            // The mark counts as a digit of the precision.
            if mark
                && spec
                    .precision
                    .is_none_or(|p| p < bits.checked_ilog2().unwrap_or(0) as usize / 3 + 2)
                && bits != 0
            {
                out.push(b'0');
            }
            write!(out, "{bits:o}")
        }
        b'x' => write!(out, "{bits:x}"),
        b'X' => write!(out, "{bits:X}"),
        _ => {
            out.extend_from_slice(itoa::Buffer::new().format(bits).as_bytes());
            Ok(())
        }
    };
    match spec.letter {
        b'x' if mark => b"0x",
        b'X' if mark => b"0X",
        _ => b"",
    }
}

/// Puts zeros before the digits from `from` on until there are `precision` of them.
pub(crate) fn leading_zeros(out: &mut Vec<u8>, from: usize, precision: Option<usize>) {
    let digits = out.len() - from;
    if let Some(precision) = precision
        && precision > digits
    {
        insert(out, from, b'0', precision - digits);
    }
}

fn insert(out: &mut Vec<u8>, at: usize, byte: u8, count: usize) {
    let end = out.len();
    out.resize(end + count, byte);
    out.copy_within(at..end, at + count);
    out[at..at + count].fill(byte);
}

/// Puts sign, prefix and padding around the digits from `from` on, and makes them upper case if the letter is.
#[inline]
pub(crate) fn finish(
    out: &mut Vec<u8>,
    from: usize,
    spec: &Spec,
    sign: &[u8],
    prefix: &[u8],
    zeros: bool,
) {
    if !sign.is_empty() || !prefix.is_empty() {
        insert(out, from, b' ', sign.len() + prefix.len());
        out[from..from + sign.len()].copy_from_slice(sign);
        out[from + sign.len()..from + sign.len() + prefix.len()].copy_from_slice(prefix);
    }
    let fill = spec.width.saturating_sub(out.len() - from);
    if fill > 0 {
        if spec.flags.left {
            pad(out, b' ', fill);
        } else if zeros {
            insert(out, from + sign.len() + prefix.len(), b'0', fill);
        } else {
            insert(out, from, b' ', fill);
        }
    }
    if spec.letter.is_ascii_uppercase() {
        out[from..].make_ascii_uppercase();
    }
}

/// Powers of ten for [`scaled`]: with 53 bits of mantissa all products stay below 2^128.
const SCALE_MAX: i32 = 22;

const fn power_of_ten(n: u32) -> u128 {
    10u128.pow(n)
}

/// `x * 10^scale` rounded to an integer, halves to the even one, exactly; `None` when 128 bits do not hold the way.
/// `x` is finite and not negative.
#[inline]
fn scaled(x: f64, scale: i32) -> Option<u128> {
    let bits = x.to_bits();
    let (mantissa, exponent) = match (bits >> 52) as i32 {
        0 => (bits, -1074),
        biased => (bits & ((1 << 52) - 1) | 1 << 52, biased - 1075),
    };
    if scale.abs() > SCALE_MAX {
        return None;
    }
    let power = power_of_ten(scale.unsigned_abs());
    let mantissa = u128::from(mantissa);
    if scale >= 0 {
        let product = mantissa * power;
        if exponent >= 0 {
            return (exponent as u32 <= product.leading_zeros()).then(|| product << exponent);
        }
        let shift = -exponent as u32;
        if shift > 127 {
            // The product is below 2^127, less than a half.
            return Some(0);
        }
        let (whole, rest) = (product >> shift, product & ((1 << shift) - 1));
        return Some(round_even(whole, rest, 1 << shift));
    }
    let (numerator, divisor) = if exponent >= 0 {
        if exponent > 70 {
            return None;
        }
        (mantissa << exponent, power)
    } else {
        let shift = -exponent as u32;
        if shift + 1 >= power.leading_zeros() {
            return None;
        }
        (mantissa, power << shift)
    };
    Some(round_even(
        numerator / divisor,
        numerator % divisor,
        divisor,
    ))
}

#[inline]
fn round_even(whole: u128, rest: u128, divisor: u128) -> u128 {
    let half = divisor / 2;
    let odd_divisor = divisor & 1 == 1;
    let up = rest > half || (rest == half && !odd_divisor && divisor > 1 && whole & 1 == 1);
    whole + u128::from(up)
}

/// `%.{precision}f` of a finite `x >= 0`.
fn push_fixed(out: &mut Vec<u8>, x: f64, precision: usize, point: bool) {
    if precision <= 15
        && x < 1e18
        && let Some(value) = scaled(x, precision as i32)
        && let Ok(value) = u64::try_from(value)
    {
        push_point(out, value, precision);
    } else {
        // Writing to a Vec cannot fail. Rust's precision ends at 65535; what a double has ends at 1074.
        let digits = precision.min(1100);
        let _ = write!(out, "{x:.digits$}");
        pad(out, b'0', precision - digits);
    }
    if point && precision == 0 {
        out.push(b'.');
    }
}

/// Writes `value / 10^decimals`.
#[inline]
fn push_point(out: &mut Vec<u8>, value: u64, decimals: usize) {
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(value).as_bytes();
    if decimals == 0 {
        out.extend_from_slice(digits);
    } else if digits.len() > decimals {
        let (whole, fraction) = digits.split_at(digits.len() - decimals);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        pad(out, b'0', decimals - digits.len());
        out.extend_from_slice(digits);
    }
}

/// The `count` (1 to 17) leading decimal digits of a finite `x > 0`, rounded, and the exponent of the first.
fn leading_digits(x: f64, count: usize) -> Option<(u64, i32)> {
    let binary = (x.to_bits() >> 52) as i32 - 1023;
    // log10(2) from below: the estimate is never above floor(log10(x)) and at most one below. An estimate above it
    // would round at the wrong digit.
    let estimate = ((i64::from(binary) * 315_652) >> 20) as i32;
    let limit = power_of_ten(count as u32);
    // Rounding up to the next power of ten may add a second step.
    for exponent in estimate..estimate + 3 {
        let digits = scaled(x, count as i32 - 1 - exponent)?;
        if digits < limit {
            return (digits >= limit / 10).then_some((digits as u64, exponent));
        }
    }
    None
}

/// The same for any `x` and count: digits as text.
#[cold]
fn leading_digits_slowly(x: f64, count: usize) -> (Vec<u8>, i32) {
    // A double has at most 767 significant decimal digits; the rest are zeros.
    let real = count.min(800);
    let decimals = real - 1;
    let text = format!("{x:.decimals$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mut digits: Vec<u8> = mantissa.bytes().filter(|b| *b != b'.').collect();
    pad(&mut digits, b'0', count - real);
    (digits, exponent.parse().unwrap_or(0))
}

/// Calls `then` with the `count` leading digits of `x >= 0` and the decimal exponent.
#[inline]
fn with_digits(x: f64, count: usize, then: impl FnOnce(&[u8], i32)) {
    if x == 0.0 {
        if count <= 17 {
            then(&b"00000000000000000"[..count], 0)
        } else {
            then(&vec![b'0'; count], 0)
        }
    } else if count <= 17
        && let Some((digits, exponent)) = leading_digits(x, count)
    {
        then(itoa::Buffer::new().format(digits).as_bytes(), exponent);
    } else {
        let (digits, exponent) = leading_digits_slowly(x, count);
        then(&digits, exponent);
    }
}

fn push_exponent(out: &mut Vec<u8>, digits: &[u8], exponent: i32, point: bool) {
    out.push(digits[0]);
    if digits.len() > 1 || point {
        out.push(b'.');
    }
    out.extend_from_slice(&digits[1..]);
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let magnitude = exponent.unsigned_abs();
    if magnitude < 10 {
        out.push(b'0');
    }
    out.extend_from_slice(itoa::Buffer::new().format(magnitude).as_bytes());
}

/// `%.{precision}e` of a finite `x >= 0`.
fn push_scientific(out: &mut Vec<u8>, x: f64, precision: usize, point: bool) {
    with_digits(x, precision + 1, |digits, exponent| {
        push_exponent(out, digits, exponent, point)
    });
}

/// `%.{precision}g` of a finite `x >= 0`; `precision` at least 1. `keep` is the `#` flag: trailing zeros stay.
fn push_general(out: &mut Vec<u8>, x: f64, precision: usize, keep: bool) {
    with_digits(x, precision, |digits, exponent| {
        let digits = if keep { digits } else { trim_zeros(digits) };
        if exponent < -4 || i64::from(exponent) >= precision as i64 {
            push_exponent(out, digits, exponent, keep);
        } else if exponent < 0 {
            out.extend_from_slice(b"0.");
            pad(out, b'0', -exponent as usize - 1);
            out.extend_from_slice(digits);
        } else {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.extend_from_slice(digits);
                pad(out, b'0', whole - digits.len());
                if keep {
                    out.push(b'.');
                }
            } else {
                out.extend_from_slice(&digits[..whole]);
                out.push(b'.');
                out.extend_from_slice(&digits[whole..]);
            }
        }
    });
}

/// Cuts trailing zeros, but not the first digit.
fn trim_zeros(digits: &[u8]) -> &[u8] {
    let mut len = digits.len();
    while len > 1 && digits[len - 1] == b'0' {
        len -= 1;
    }
    &digits[..len]
}

/// `%a` of a finite `x >= 0` without its `0x`, as glibc lays it out: one digit, then as many as are not zero.
fn push_hexadecimal(out: &mut Vec<u8>, x: f64, precision: Option<usize>, point: bool) {
    let bits = x.to_bits();
    let (mut mantissa, exponent) = match (bits >> 52) as i32 {
        0 => (bits, if bits == 0 { 0 } else { -1022 }),
        biased => (bits & ((1 << 52) - 1) | 1 << 52, biased - 1023),
    };
    let digits = match precision {
        Some(digits) if digits < 13 => {
            let drop = 4 * (13 - digits as u32);
            let (kept, rest, half) = (
                mantissa >> drop,
                mantissa & ((1 << drop) - 1),
                1u64 << (drop - 1),
            );
            let up = rest > half || (rest == half && kept & 1 == 1);
            mantissa = (kept + u64::from(up)) << drop;
            digits
        }
        Some(digits) => digits,
        None => 13 - (mantissa.trailing_zeros().min(52) / 4) as usize,
    };
    out.push(b'0' + (mantissa >> 52) as u8);
    if digits > 0 || point {
        out.push(b'.');
    }
    let fraction = format!("{:013x}", mantissa & ((1 << 52) - 1));
    out.extend_from_slice(&fraction.as_bytes()[..digits.min(13)]);
    pad(out, b'0', digits.saturating_sub(13));
    // Writing to a Vec cannot fail.
    let _ = write!(out, "p{exponent:+}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: &str, numbers: Numbers, args: &[Arg<'_>]) -> Result<String, FormatError> {
        let mut out = Vec::new();
        let convfmt = Format::parse(b"%.6g");
        Format::parse_in(format.as_bytes(), numbers)
            .write(Charset::Utf8, &convfmt, args, &mut out)
            .map(|()| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn numbers_are_written_as_the_locale_writes_them() {
        for (locale, format, n, expected) in [
            ("en_US.UTF-8", "%'d", 1234567.0, "1,234,567"),
            ("en_US.UTF-8", "%'d", -123.0, "-123"),
            ("en_US.UTF-8", "%'12d|", 1234567.0, "   1,234,567|"),
            ("en_US.UTF-8", "%'.10d", 1234567.0, "01,234,567"),
            ("en_US.UTF-8", "%'.2f", 1234567.891, "1,234,567.89"),
            ("en_US.UTF-8", "%'u", 1e6, "1,000,000"),
            ("en_US.UTF-8", "%'x", 1e6, "f4240"),
            ("C.UTF-8", "%'d", 1234567.0, "1234567"),
            ("de_DE.UTF-8", "%'.2f", -1234567.891, "-1.234.567,89"),
            (
                "de_DE.UTF-8",
                "%1$'e %1$a %1$f",
                1.5,
                "1,500000e+00 0x1.8p+0 1.500000",
            ),
            ("fr_FR.UTF-8", "%'11d|", 12345.0, "   12\u{202f}345|"),
            ("fr_FR.UTF-8", "%'9.1f|", 12345.5, " 12\u{202f}345,5|"),
            ("fr_FR.UTF-8", "%'010.1f|", -12345.5, "-012\u{202f}345,5|"),
        ] {
            let got = written(format, Numbers::of_locale(locale), &[Arg::Num(n)]);
            assert_eq!(got.as_deref(), Ok(expected), "{locale} {format}");
        }
    }

    #[test]
    fn the_point_is_the_locales_where_it_is_wanted() {
        let german = Numbers::of_locale("de_DE.UTF-8").everywhere();
        for (format, n, expected) in [
            ("%1$.2f %1$g %1$d", 2.5, "2,50 2,5 2"),
            ("%a", 1.5, "0x1,8p+0"),
            ("%s", 2.5, "2.5"), // written by CONVFMT, which is C's here
        ] {
            let got = written(format, german, &[Arg::Num(n)]);
            assert_eq!(got.as_deref(), Ok(expected), "{format}");
        }
        for (convfmt, expected) in [("%.6g", "2,5"), ("%.1f", "2,5"), ("%s", "2,5"), ("%d", "2")] {
            let mut out = Vec::new();
            number_to_text(2.5, &Format::parse_in(convfmt.as_bytes(), german), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{convfmt}");
        }
        let pashto = Numbers::of_locale("ps_AF.UTF-8").everywhere();
        let got = written("%1$6.2f|%1$06.2f", pashto, &[Arg::Num(1.5)]);
        assert_eq!(got.as_deref(), Ok("  1٫50|001٫50"));
    }

    #[test]
    fn positions_and_sequence_do_not_mix_but_for_widths() {
        let args = [Arg::Num(5.0), Arg::Num(10.0)];
        let write = |format: &str| written(format, Numbers::default(), &args);
        assert_eq!(write("%2$d %1$d").as_deref(), Ok("10 5"));
        assert_eq!(write("%1$*2$d|").as_deref(), Ok("         5|"));
        assert_eq!(write("%*2$d|").as_deref(), Ok("         5|"));
        for mixed in ["%2$d %d", "%d %2$d", "%1$*d"] {
            assert!(
                matches!(write(mixed), Err(FormatError::MixedPositions { .. })),
                "{mixed}"
            );
        }
        for zero in ["%0$d", "%$d"] {
            assert!(
                matches!(write(zero), Err(FormatError::ZeroPosition { .. })),
                "{zero}"
            );
        }
        assert!(matches!(
            write("%3$d"),
            Err(FormatError::NotEnoughArguments { needed: 3, .. })
        ));
    }
}
