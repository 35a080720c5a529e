//! `printf`: format strings parsed once, and numbers to text by CONVFMT and OFMT.
//!
//! Invariant: what is written is what C's `printf` writes for the same double, correctly rounded at any precision,
//! with gawk's answers where C has none (infinities as integers, integers beyond 64 bits, characters). Called by the VM.

use crate::exact::{self, Exact};
use crate::locale::Numbers;
use crate::num::push_integer;
use crate::text::Charset;

mod floats;
mod layout;
mod numbers;
mod parse;
mod text;

pub(crate) use floats::push_point;
pub(crate) use layout::{finish, leading_zeros, pad};

use floats::push_general;
use numbers::{number_of, special, write_localized, write_plain};
use parse::{Conversion, Flags, Parsed, Piece, Size};
use text::{write_char, write_text};

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

/// A conversion whose sizes are known.
#[derive(Clone, Copy)]
pub(crate) struct Spec {
    pub flags: Flags,
    pub width: usize,
    pub precision: Option<usize>,
    pub letter: u8,
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
        let Parsed {
            pieces,
            args_needed,
            mixed,
            zero_position,
        } = parse::parse(fmt, numbers);
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

#[cfg(test)]
mod tests;
