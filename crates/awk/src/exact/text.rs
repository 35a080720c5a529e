//! Exact numbers from text, to text, and as a heap keeps them.
//!
//! Invariant: [`from_stored`] reads what [`to_stored`] writes as the same number (docs/format.md, kinds `I` and `F`).

use dashu_int::{IBig, Sign, UBig};

use super::arith::{divide_finite, overflow, round, underflow};
use super::functions::{settle, to_repr};
use super::{EXPONENT_MAX, Exact, Finite, Float, Rules, rules};
use crate::num;
use crate::value::Value;

/// Powers of ten beyond this are approximated before they are computed exactly.
const EXACT_SCALE_MAX: i64 = 4000;

fn integer(digits: &[u8], radix: u32) -> IBig {
    let text = std::str::from_utf8(digits).unwrap_or_default();
    IBig::from_str_radix(text, radix).unwrap_or(IBig::ZERO)
}

/// The number that `s` begins with, as [`num::parse_prefix`] finds it: an integer if it has neither point nor exponent.
pub fn parse_prefix(s: &[u8], rules: Rules) -> Exact {
    match num::scan(s) {
        Some((near, end)) => parse_number(&num::with_point(&s[..end]), near, rules),
        None => Exact::Integer(IBig::ZERO),
    }
}

/// A number in program text; the lexer knows where it ends. A leading zero makes an octal one if all digits are.
pub fn parse_literal(s: &[u8], octal: bool, rules: Rules) -> Exact {
    match s {
        [b'0', b'x' | b'X', digits @ ..] => Exact::Integer(prefix_in(digits, 16)),
        [b'0', digits @ ..]
            if octal && !digits.is_empty() && digits.iter().all(|b| (b'0'..=b'7').contains(b)) =>
        {
            Exact::Integer(integer(digits, 8))
        }
        _ => match num::scan_literal(s) {
            Some((near, end)) => parse_number(&s[..end], near, rules),
            None => Exact::Integer(IBig::ZERO),
        },
    }
}

/// The integer that the digits at the front are.
fn prefix_in(s: &[u8], radix: u32) -> IBig {
    let valid = s.iter().take_while(|b| (**b as char).is_digit(radix));
    match valid.count() {
        0 => IBig::ZERO,
        end => integer(&s[..end], radix),
    }
}

/// `strtonum`: hexadecimal and octal by their prefixes, all else decimal.
pub fn strtonum(s: &[u8], rules: Rules) -> Exact {
    let trimmed = s.trim_ascii_start();
    let (minus, digits) = match trimmed {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let signed = |n: IBig| Exact::Integer(if minus { -n } else { n });
    match digits {
        [b'0', b'x' | b'X', rest @ ..] => signed(prefix_in(rest, 16)),
        [b'0', rest @ ..]
            if !rest
                .iter()
                .take_while(|b| b.is_ascii_digit() || num::continues_decimal(**b))
                .any(|b| !(b'0'..=b'7').contains(b)) =>
        {
            signed(prefix_in(rest, 8))
        }
        _ => parse_prefix(s, rules),
    }
}

/// Text of which `num::scan` has found all to be a number, with the double nearest to it.
fn parse_number(s: &[u8], near: f64, rules: Rules) -> Exact {
    let s = s.trim_ascii_start();
    // A vertical tab is a blank too.
    let s = &s[s.iter().take_while(|b| **b == 0x0b).count()..];
    let s = s.trim_ascii_start();
    let (negative, digits) = match s {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let signed = |n: IBig| if negative { -n } else { n };
    if digits.iter().all(u8::is_ascii_digit) {
        let octal = num::is_octal(digits);
        let radix = if octal { 8 } else { 10 };
        return Exact::Integer(signed(integer(digits, radix)));
    }
    match digits {
        [b'0', b'x' | b'X', hex @ ..] => {
            return if hex.iter().all(u8::is_ascii_hexdigit) {
                Exact::Integer(signed(integer(hex, 16)))
            } else {
                Exact::Float(Float::of_double(near))
            };
        }
        [b'0'..=b'9' | b'.', ..] => {}
        _ => return Exact::Float(Float::of_double(near)), // a word
    }
    let (mantissa, exponent) = match digits.iter().position(|b| matches!(b, b'e' | b'E')) {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &b""[..]),
    };
    let point = mantissa.iter().position(|b| *b == b'.');
    let behind = point.map_or(0, |at| mantissa.len() - at - 1);
    let all: Vec<u8> = mantissa.iter().copied().filter(|b| *b != b'.').collect();
    let written = std::str::from_utf8(exponent).unwrap_or_default();
    let written = match written.parse::<i64>() {
        Ok(n) => n.clamp(-(1 << 40), 1 << 40),
        Err(_) if written.is_empty() => 0,
        Err(_) if written.starts_with('-') => -(1 << 40),
        Err(_) => 1 << 40,
    };
    let sign = if negative {
        Sign::Negative
    } else {
        Sign::Positive
    };
    let magnitude = integer(&all, 10).into_parts().1;
    Exact::Float(decimal(sign, magnitude, written - behind as i64, rules))
}

/// `magnitude * 10^scale`, rounded.
fn decimal(sign: Sign, magnitude: UBig, scale: i64, rules: Rules) -> Float {
    let negative = sign == Sign::Negative;
    let Some(m) = Finite::new(IBig::from_parts(sign, magnitude), 0) else {
        return Float::Zero { negative };
    };
    let (largest, smallest) = rules.exponents;
    // The magnitude is at least 2^(top-1), and 3.3 < log2(10) < 3.4.
    let low = |factor: f64| m.top() as f64 + scale as f64 * factor;
    if scale > 0 && low(3.3) > EXPONENT_MAX as f64 + 8.0 {
        return overflow(negative, rules, largest);
    }
    if scale < 0 && low(3.3) < -(EXPONENT_MAX as f64) - rules.precision as f64 - 8.0 {
        return underflow(negative, rules, smallest);
    }
    if scale.abs() > EXACT_SCALE_MAX {
        let mut precision = rules.precision + 64;
        for _ in 0..4 {
            if let Some(near) = times_power_of_ten(&m, scale, precision)
                && let Some(float) = settle(&near, precision - 4, rules)
            {
                return float;
            }
            precision *= 2;
        }
    }
    let power = IBig::from(UBig::from(5u8).pow(scale.unsigned_abs() as usize));
    if scale >= 0 {
        return round(m.mantissa * power, m.exponent + scale, false, rules);
    }
    let divisor = Finite {
        mantissa: power,
        exponent: -scale,
    };
    divide_finite(&m, &divisor, rules)
}

/// `n * 10^scale`, off by a few units of the last of its `precision` bits.
pub fn times_power_of_ten(n: &Finite, scale: i64, precision: usize) -> Option<Finite> {
    use dashu_float::round::mode::HalfEven;
    use dashu_float::{Context, FBig, Repr};
    let context = Context::<HalfEven>::new(precision);
    let ten = Repr::<2>::new(IBig::from(10), 0);
    let power: FBig<HalfEven, 2> = context.powi(&ten, IBig::from(scale)).ok()?.value();
    let product: FBig<HalfEven, 2> = context.mul(&to_repr(n), power.repr()).ok()?.value();
    Finite::new(
        product.repr().significand().clone(),
        product.repr().exponent() as i64,
    )
}

/// Appends the digits of an integer.
pub fn push_integer(n: &IBig, out: &mut Vec<u8>) {
    use std::io::Write as _;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{n}");
}

/// How infinities and NaN are written.
pub fn word(float: &Float) -> &'static [u8] {
    match (float, float.is_negative()) {
        (Float::Nan { .. }, true) => b"-nan",
        (Float::Nan { .. }, false) => b"+nan",
        (_, true) => b"-inf",
        (_, false) => b"+inf",
    }
}

/// The bytes of a cell, its kind first.
pub fn to_stored(n: &Exact) -> Vec<u8> {
    use std::io::Write as _;
    let mut out = Vec::new();
    // Writing to a Vec cannot fail.
    let _ = match n {
        Exact::Integer(n) => write!(out, "I{n}"),
        Exact::Float(Float::Finite(n)) => {
            write!(out, "F{}p{}", n.mantissa.in_radix(16), n.exponent)
        }
        Exact::Float(Float::Zero { negative }) => {
            write!(out, "F{}0p0", if *negative { "-" } else { "" })
        }
        Exact::Float(float) => {
            out.push(b'F');
            out.extend_from_slice(word(float));
            Ok(())
        }
    };
    out
}

/// The value that a cell's bytes mean; to a run that computes with doubles, the nearest one.
pub fn stored_value(bytes: &[u8]) -> Option<Value> {
    let n = from_stored(bytes)?;
    Some(match rules() {
        Some(_) => n.into_value(),
        None => Value::Num(n.to_double()),
    })
}

/// The number that a cell's bytes mean.
pub fn from_stored(bytes: &[u8]) -> Option<Exact> {
    match bytes {
        [b'I', digits @ ..] => {
            let text = std::str::from_utf8(digits).ok()?;
            Some(Exact::Integer(IBig::from_str_radix(text, 10).ok()?))
        }
        [b'F', text @ ..] => {
            let negative = text.first() == Some(&b'-');
            match text {
                b"+inf" | b"-inf" => return Some(Exact::Float(Float::Infinite { negative })),
                b"+nan" | b"-nan" => return Some(Exact::Float(Float::Nan { negative })),
                _ => {}
            }
            let (mantissa, exponent) = std::str::from_utf8(text).ok()?.split_once('p')?;
            let mantissa = IBig::from_str_radix(mantissa, 16).ok()?;
            let exponent: i64 = exponent.parse().ok()?;
            if exponent.unsigned_abs() > 1 << 40 {
                return None;
            }
            Some(Exact::Float(match Finite::new(mantissa, exponent) {
                Some(finite) => Float::Finite(finite),
                None => Float::Zero { negative },
            }))
        }
        _ => None,
    }
}
