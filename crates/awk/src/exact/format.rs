//! `printf`'s conversions of exact numbers.
//!
//! Invariant: what is written is the exact number, rounded once in the direction of ROUNDMODE; signs, prefixes and padding
//! are those of `format.rs`. Unlike there, `%o`, `%x` and `%u` of a negative number have a minus.

use dashu_int::{IBig, Sign, UBig};

use super::arith::round;
use super::text::{push_integer, word};
use super::{Exact, Finite, Float, Rounding, Rules, bit_length, decimal};
use crate::format::{Format, Spec, finish, leading_zeros, pad, push_point};

/// Appends `n` as text by CONVFMT or OFMT: integers, also those that are floats, with all digits.
pub fn push_text(n: &Exact, convfmt: &Format, rules: Rules, out: &mut Vec<u8>) {
    let float = match n {
        Exact::Integer(n) => return push_integer(n, out),
        Exact::Float(float) => float,
    };
    match float {
        Float::Nan { .. } | Float::Infinite { .. } => out.extend_from_slice(word(float)),
        float => match float.as_integer() {
            Some(n) => push_integer(&n, out),
            None => match (convfmt.plain_g(), float) {
                (Some(precision), Float::Finite(n)) => {
                    if n.is_negative() {
                        out.push(b'-');
                    }
                    push_general(Some(n), precision, false, rules.rounding, out);
                }
                _ => convfmt.push_exact(n, out),
            },
        },
    }
}

/// The integer that `%c` takes a fraction for, as a double.
pub(crate) fn rounded(n: &Exact, rules: Rules) -> f64 {
    match n {
        Exact::Float(Float::Finite(n)) if n.exponent < 0 => {
            let magnitude = decimal::scaled(n, 0, rules.rounding).to_f64().value();
            if n.is_negative() {
                -magnitude
            } else {
                magnitude
            }
        }
        n => n.to_double(),
    }
}

/// One conversion of a number.
pub(crate) fn write_number(spec: &Spec, n: &Exact, rules: Rules, out: &mut Vec<u8>) {
    let from = out.len();
    if let Exact::Float(float @ (Float::Nan { .. } | Float::Infinite { .. })) = n {
        out.extend_from_slice(word(float));
        return finish(out, from, spec, b"", b"", false);
    }
    if matches!(spec.letter, b'd' | b'i' | b'o' | b'x' | b'X' | b'u') {
        return write_integer(spec, n, out);
    }
    let float = match n {
        Exact::Integer(n) => &round(n.clone(), 0, false, rules.wide(n)),
        Exact::Float(float) => float,
    };
    let negative = float.is_negative();
    let finite = match float {
        Float::Finite(n) => Some(n),
        Float::Zero { .. } => None,
        // An integer beyond the exponents of an IEEE 754 format.
        Float::Infinite { .. } | Float::Nan { .. } => {
            return write_number(spec, &Exact::Float(float.clone()), rules, out);
        }
    };
    let (rounding, point) = (rules.rounding, spec.flags.alternate);
    let precision = spec.precision.unwrap_or(6);
    let mut prefix: &[u8] = b"";
    match spec.letter {
        b'f' | b'F' => push_fixed(finite, precision, point, rounding, out),
        b'e' | b'E' => push_scientific(finite, precision, point, rounding, out),
        b'g' | b'G' => push_general(finite, precision.max(1), point, rounding, out),
        _ => {
            prefix = b"0x";
            push_hexadecimal(finite, precision, point, rounding, out);
        }
    }
    let sign: &[u8] = match (negative, spec.flags.plus, spec.flags.space) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    };
    let zeros = spec.flags.zero && !spec.flags.left;
    finish(out, from, spec, sign, prefix, zeros);
}

fn write_integer(spec: &Spec, n: &Exact, out: &mut Vec<u8>) {
    let from = out.len();
    let (sign, magnitude) = n.truncated().unwrap_or(IBig::ZERO).into_parts();
    let negative = sign == Sign::Negative && !magnitude.is_zero();
    // Only a zero disappears at no precision, not what is cut to zero.
    let filled = !n.is_zero();
    let signed = matches!(spec.letter, b'd' | b'i');
    let mark = spec.flags.alternate && filled;
    if filled || spec.precision != Some(0) {
        push_radix(&magnitude, spec.letter, out);
    }
    // The mark of an octal number counts as a digit of its precision.
    let digits = out.len() - from;
    if spec.letter == b'o'
        && spec.flags.alternate
        && out.get(from) != Some(&b'0')
        && spec.precision.is_none_or(|precision| precision <= digits)
    {
        out.insert(from, b'0');
    }
    leading_zeros(out, from, spec.precision);
    let prefix: &[u8] = match spec.letter {
        b'x' if mark => b"0x",
        b'X' if mark => b"0X",
        _ => b"",
    };
    let sign: &[u8] = match (
        negative,
        spec.flags.plus && signed,
        spec.flags.space && signed,
    ) {
        (true, ..) => b"-",
        (_, true, _) => b"+",
        (_, _, true) => b" ",
        _ => b"",
    };
    let zeros = spec.flags.zero && !spec.flags.left && spec.precision.is_none();
    finish(out, from, spec, sign, prefix, zeros);
}

fn push_radix(magnitude: &UBig, letter: u8, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to a Vec cannot fail.
    let _ = match letter {
        b'o' => write!(out, "{magnitude:o}"),
        b'x' | b'X' => write!(out, "{magnitude:x}"),
        _ => write!(out, "{magnitude}"),
    };
}

/// `%.{precision}f` of a magnitude; `None` is zero.
fn push_fixed(
    n: Option<&Finite>,
    precision: usize,
    point: bool,
    rounding: Rounding,
    out: &mut Vec<u8>,
) {
    // As many decimals as it has bits behind the point; behind them are zeros.
    let decimals = n.map_or(0, |n| {
        usize::try_from(-n.exponent).unwrap_or(0).min(precision)
    });
    let scaled = n.map_or(UBig::ZERO, |n| {
        decimal::scaled(n, decimals as i64, rounding)
    });
    push_point(out, scaled.to_string().as_bytes(), decimals);
    if precision > decimals {
        if decimals == 0 {
            out.push(b'.');
        }
        pad(out, b'0', precision - decimals);
    } else if point && precision == 0 {
        out.push(b'.');
    }
}

/// The first `count` digits with zeros behind what the number has, and the exponent of the first.
fn leading(n: Option<&Finite>, count: usize, rounding: Rounding) -> (Vec<u8>, i64) {
    let Some(n) = n else {
        return (vec![b'0'; count], 0);
    };
    // A number m 2^e has the digits of m 5^-e or of m 2^e: never more than this many.
    let bits = bit_length(&n.mantissa) as i64 + n.exponent.abs() * 3;
    let have = (bits / 3 + 2) as usize;
    let decimal::Digits {
        mut digits,
        exponent,
    } = decimal::leading(n, count.min(have), rounding);
    digits.resize(count, b'0');
    (digits, exponent)
}

fn push_exponent(letter: u8, exponent: i64, out: &mut Vec<u8>) {
    use std::io::Write as _;
    let sign = if exponent < 0 { '-' } else { '+' };
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{}{sign}{:02}", letter as char, exponent.abs());
}

fn push_mantissa(digits: &[u8], point: bool, out: &mut Vec<u8>) {
    out.push(digits[0]);
    if digits.len() > 1 || point {
        out.push(b'.');
    }
    out.extend_from_slice(&digits[1..]);
}

/// `%.{precision}e` of a magnitude.
fn push_scientific(
    n: Option<&Finite>,
    precision: usize,
    point: bool,
    rounding: Rounding,
    out: &mut Vec<u8>,
) {
    let (digits, exponent) = leading(n, precision + 1, rounding);
    push_mantissa(&digits, point, out);
    push_exponent(b'e', exponent, out);
}

/// `%.{precision}g` of a magnitude; `all`: with the zeros at the end.
fn push_general(
    n: Option<&Finite>,
    precision: usize,
    all: bool,
    rounding: Rounding,
    out: &mut Vec<u8>,
) {
    let (mut digits, exponent) = leading(n, precision, rounding);
    if !all {
        let kept = digits.iter().rposition(|b| *b != b'0').unwrap_or(0) + 1;
        digits.truncate(kept);
    }
    if exponent < -4 || exponent >= precision as i64 {
        push_mantissa(&digits, all, out);
        return push_exponent(b'e', exponent, out);
    }
    let whole = exponent + 1;
    if whole <= 0 {
        out.extend_from_slice(b"0.");
        pad(out, b'0', -whole as usize);
        out.extend_from_slice(&digits);
        return;
    }
    let whole = whole as usize;
    if digits.len() < whole {
        digits.resize(whole, b'0');
    }
    out.extend_from_slice(&digits[..whole]);
    if digits.len() > whole || all {
        out.push(b'.');
    }
    out.extend_from_slice(&digits[whole..]);
}

/// `%.{precision}a` of a magnitude, without its `0x`.
fn push_hexadecimal(
    n: Option<&Finite>,
    precision: usize,
    point: bool,
    rounding: Rounding,
    out: &mut Vec<u8>,
) {
    let Some(n) = n else {
        out.push(b'0');
        if precision > 0 || point {
            out.push(b'.');
        }
        pad(out, b'0', precision);
        return out.extend_from_slice(b"p+0");
    };
    let have = precision.min(bit_length(&n.mantissa) / 4 + 2);
    let have = if precision == 0 { 0 } else { have };
    let (digits, exponent) = decimal::hexadecimal(n, have, rounding);
    let digits = format!("{digits:x}").into_bytes();
    push_mantissa(&digits, point, out);
    pad(out, b'0', precision - have);
    let sign = if exponent < 0 { "" } else { "+" };
    out.extend_from_slice(format!("p{sign}{exponent}").as_bytes());
}
