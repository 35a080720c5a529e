//! Conversions of numbers: integers and doubles as C writes them, then as the locale does.
//!
//! Invariant: a number is written without its sign at the end of the output, then sign, prefix and padding are put around it.
//! Called by `format` and `format::text`.

use std::io::Write as _;

use super::floats::{
    FIXED_MAX, fixed, push_fixed, push_general, push_hexadecimal, push_scientific,
};
use super::layout::{finish, insert, leading_zeros, pad, put};
use super::parse::Flags;
use super::{Arg, Spec};
use crate::exact::{self, Exact};
use crate::locale::Numbers;
use crate::num::{parse_prefix, push_integer};

pub(super) fn number_of(arg: Arg<'_>) -> f64 {
    match arg {
        Arg::Num(n) => n,
        Arg::Str(s) | Arg::StrNum(s) => parse_prefix(s),
        Arg::Exact(n) => n.to_double(),
    }
}

/// Infinities and NaN as gawk spells them.
pub(super) fn special(n: f64) -> &'static [u8] {
    match (n.is_nan(), n.is_sign_negative()) {
        (true, true) => b"-nan",
        (true, false) => b"+nan",
        (false, true) => b"-inf",
        (false, false) => b"+inf",
    }
}

/// A number as C writes it.
#[inline(always)] // or each number of a format pays for a call more
pub(super) fn write_plain(spec: &Spec, arg: Arg<'_>, out: &mut Vec<u8>) {
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
pub(super) fn write_localized(spec: &Spec, numbers: &Numbers, arg: Arg<'_>, out: &mut Vec<u8>) {
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

fn write_number(spec: &Spec, n: f64, out: &mut Vec<u8>) {
    if !n.is_finite() {
        // gawk 5.3 writes these always with their sign, never padded with zeros.
        let from = out.len();
        out.extend_from_slice(special(n));
        return finish(out, from, spec, b"", b"", false);
    }
    if write_short(spec, n, out) {
        return;
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
    let sign = sign_of(negative, spec.flags);
    finish(out, from, spec, sign, prefix, zeros);
}

fn sign_of(negative: bool, flags: Flags) -> &'static [u8] {
    match (negative, flags.plus, flags.space) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    }
}

/// The commonest: whole and hexadecimal numbers of 64 bits without a precision, and fractions of few digits. False for all others,
/// of which nothing is written.
#[inline]
fn write_short(spec: &Spec, n: f64, out: &mut Vec<u8>) -> bool {
    let zeros = spec.flags.zero && !spec.flags.left;
    match (spec.letter, spec.precision) {
        (b'd' | b'i', None) if n.abs() < 1e18 => {
            let mut buffer = itoa::Buffer::new();
            let digits = buffer.format(n.abs() as u64).as_bytes();
            put(
                out,
                spec,
                sign_of(n <= -1.0, spec.flags),
                b"",
                digits,
                zeros,
            );
        }
        (b'x', None) if (0.0..1e18).contains(&n) && !spec.flags.alternate => {
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            let mut left = n as u64;
            let mut buffer = [0; 16];
            let mut at = buffer.len();
            loop {
                at -= 1;
                buffer[at] = DIGITS[(left & 15) as usize];
                left >>= 4;
                if left == 0 {
                    break;
                }
            }
            put(out, spec, b"", b"", &buffer[at..], zeros);
        }
        (b'f', precision) if !spec.flags.alternate => {
            let mut buffer = [0; FIXED_MAX];
            let Some(digits) = fixed(n.abs(), precision.unwrap_or(6), &mut buffer) else {
                return false;
            };
            let sign = sign_of(n.is_sign_negative(), spec.flags);
            put(out, spec, sign, b"", digits, zeros);
        }
        _ => return false,
    }
    true
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
