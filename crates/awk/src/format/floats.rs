//! The digits of doubles: `%f`, `%e`, `%g` and `%a` without sign and padding.
//!
//! Invariant: correctly rounded at any precision, halves to the even digit, as C's `printf` does. In 128 bits where they hold the
//! way, else by Rust's own formatting. Called by `format` and `numbers`.

use std::io::Write as _;

use super::layout::pad;

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

/// Bytes that [`fixed`] may need.
pub(super) const FIXED_MAX: usize = 24;

/// `%.{precision}f` of a finite `x >= 0`, at the end of `buffer`, if 64 bits hold all digits.
#[inline]
pub(super) fn fixed(x: f64, precision: usize, buffer: &mut [u8; FIXED_MAX]) -> Option<&[u8]> {
    if precision > 15 || x >= 1e18 {
        return None;
    }
    let value = u64::try_from(scaled(x, precision as i32)?).ok()?;
    let mut written = itoa::Buffer::new();
    let digits = written.format(value).as_bytes();
    // As many digits as there are decimals and one more, with zeros before them, and the point.
    let fraction = precision.min(digits.len());
    let (whole, fraction) = digits.split_at(digits.len() - fraction);
    let mut at = FIXED_MAX - fraction.len();
    buffer[at..].copy_from_slice(fraction);
    if precision > 0 {
        for _ in fraction.len()..precision {
            at -= 1;
            buffer[at] = b'0';
        }
        at -= 1;
        buffer[at] = b'.';
    }
    if whole.is_empty() {
        at -= 1;
        buffer[at] = b'0';
    } else {
        let end = at;
        at -= whole.len();
        buffer[at..end].copy_from_slice(whole);
    }
    Some(&buffer[at..])
}

/// `%.{precision}f` of a finite `x >= 0`.
pub(super) fn push_fixed(out: &mut Vec<u8>, x: f64, precision: usize, point: bool) {
    if precision <= 15
        && x < 1e18
        && let Some(value) = scaled(x, precision as i32)
        && let Ok(value) = u64::try_from(value)
    {
        let mut buffer = itoa::Buffer::new();
        push_point(out, buffer.format(value).as_bytes(), precision);
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

/// Writes `digits` with a point before the last `decimals` of them.
#[inline]
pub(crate) fn push_point(out: &mut Vec<u8>, digits: &[u8], decimals: usize) {
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
pub(super) fn push_scientific(out: &mut Vec<u8>, x: f64, precision: usize, point: bool) {
    with_digits(x, precision + 1, |digits, exponent| {
        push_exponent(out, digits, exponent, point)
    });
}

/// `%.{precision}g` of a finite `x >= 0`; `precision` at least 1. `keep` is the `#` flag: trailing zeros stay.
pub(super) fn push_general(out: &mut Vec<u8>, x: f64, precision: usize, keep: bool) {
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
pub(super) fn push_hexadecimal(out: &mut Vec<u8>, x: f64, precision: Option<usize>, point: bool) {
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
