//! Decimal and hexadecimal digits of floats, rounded in the direction of ROUNDMODE.
//!
//! Invariant: digits are those of the exact number, rounded once.

use std::cmp::Ordering;

use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};

use super::arith::{divide_rounded, shift_rounded};
use super::text::times_power_of_ten;
use super::{Finite, Rounding};

/// Powers of ten beyond this are approximated before they are computed exactly.
const EXACT_SCALE_MAX: i64 = 4000;

/// Digits of a magnitude and the exponent (of ten) of the first.
pub struct Digits {
    /// At least one; the first is no zero.
    pub digits: Vec<u8>,
    /// See there.
    pub exponent: i64,
}

/// `|n| * 10^scale`, rounded to an integer.
pub fn scaled(n: &Finite, scale: i64, rounding: Rounding) -> UBig {
    let negative = n.is_negative();
    let magnitude = n.mantissa.clone().into_parts().1;
    // 10^s = 5^s 2^s. What is surely below a hundredth need not be computed.
    if n.top() + scale * 10 / 3 + 8 < 0 && scale >= 0 || scale < 0 && n.top() + scale * 3 < -8 {
        let up = rounding.grows(negative, Ordering::Less, false);
        return if up { UBig::ONE } else { UBig::ZERO };
    }
    if scale >= 0 {
        let shift = n.exponent + scale;
        let product = magnitude * UBig::from(5u8).pow(scale as usize);
        return if shift >= 0 {
            product << shift as usize
        } else {
            shift_rounded(product, -shift as usize, false, negative, rounding)
        };
    }
    let power = UBig::from(5u8).pow(-scale as usize);
    let shift = n.exponent + scale;
    if shift >= 0 {
        divide_rounded(&(magnitude << shift as usize), &power, negative, rounding)
    } else {
        divide_rounded(&magnitude, &(power << -shift as usize), negative, rounding)
    }
}

/// The first `count` digits.
pub fn leading(n: &Finite, count: usize, rounding: Rounding) -> Digits {
    // The exponent of the first digit, or one less: log10(2) from below.
    let bits = n.top() - 1;
    let mut exponent = (bits as f64 * std::f64::consts::LOG10_2 - 1e-6).floor() as i64;
    loop {
        let scale = count as i64 - 1 - exponent;
        let rounded = if scale.abs() > EXACT_SCALE_MAX.max(2 * count as i64) {
            far_scaled(n, scale, count, rounding)
        } else {
            scaled(n, scale, rounding)
        };
        let digits = rounded.to_string().into_bytes();
        if digits.len() == count {
            return Digits { digits, exponent };
        }
        if digits.len() == count + 1 && digits[1..].iter().all(|b| *b == b'0') {
            // A power of ten is one at every place; but was it rounded at the right one? Either way it is written so.
            return Digits {
                digits: digits[..count].to_vec(),
                exponent: exponent + 1,
            };
        }
        exponent += digits.len() as i64 - count as i64;
    }
}

/// `scaled`, by way of an approximation of the power of ten where that decides.
fn far_scaled(n: &Finite, scale: i64, count: usize, rounding: Rounding) -> UBig {
    let mut precision = count * 10 / 3 + 80;
    for _ in 0..3 {
        if let Some(near) = times_power_of_ten(n, scale, precision) {
            let unit = near.top() - precision as i64 + 4;
            let edge = |by: i64| {
                let down = unit.min(near.exponent);
                let mantissa = (near.mantissa.clone() << (near.exponent - down) as usize)
                    + (IBig::from(by) << (unit - down) as usize);
                Finite::new(mantissa, down).map(|edge| scaled(&edge, 0, rounding))
            };
            if let (Some(low), Some(high)) = (edge(-1), edge(1))
                && low == high
            {
                return low;
            }
        }
        precision *= 2;
    }
    scaled(n, scale, rounding)
}

/// Hexadecimal digits of a magnitude, `behind` of them behind the point, and the exponent (of two): the digit before the
/// point is 8 to f if there are none behind it, else the exponent is a multiple of 4, as MPFR writes them.
pub fn hexadecimal(n: &Finite, behind: usize, rounding: Rounding) -> (UBig, i64) {
    let magnitude = n.mantissa.clone().into_parts().1;
    let exponent = match behind {
        0 => n.top() - 4,
        _ => (n.top() - 1).div_euclid(4) * 4,
    };
    let shift = n.exponent - exponent + 4 * behind as i64;
    let rounded = if shift >= 0 {
        magnitude << shift as usize
    } else {
        shift_rounded(magnitude, -shift as usize, false, n.is_negative(), rounding)
    };
    // Rounded up to 10 hexadecimal.
    if rounded.bit_len() > 4 * behind + 4 {
        return (rounded >> 4usize, exponent + 4);
    }
    (rounded, exponent)
}
