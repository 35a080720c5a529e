//! Rounding, and the operators.
//!
//! Invariant: every float is rounded once, by [`round`], from a value that is exact or exact but for a sticky bit.

use std::cmp::Ordering;

use awk_syntax::ast::ArithOp;
use dashu_int::ops::{BitTest, DivRem};
use dashu_int::{IBig, Sign, UBig};

use super::{Exact, Finite, Float, INTEGER_BITS_MAX, Rounding, Rules, bit_length, functions};
use crate::error::{Fatal, Step};

/// Bits kept below the rounding place where a far smaller number is only known to be there.
const GUARD_BITS: i64 = 4;

/// `mantissa * 2^exponent`, plus something smaller than one unit of the mantissa, away from zero, if `sticky`: rounded.
/// With `sticky` the mantissa must have at least two bits more than the precision.
pub fn round(mantissa: IBig, exponent: i64, sticky: bool, rules: Rules) -> Float {
    let (sign, magnitude) = mantissa.into_parts();
    let negative = sign == Sign::Negative;
    if magnitude.is_zero() {
        return Float::Zero { negative };
    }
    let bits = magnitude.bit_len() as i64;
    let (largest, smallest) = rules.exponents;
    // Subnormal numbers have fewer bits: none below the smallest number.
    let kept = (rules.precision as i64).min(exponent + bits - (smallest - 1));
    if kept < 0 {
        return underflow(negative, rules, smallest);
    }
    let dropped = bits - kept;
    let (magnitude, exponent) = if dropped > 0 {
        let rounded = shift_rounded(
            magnitude,
            dropped as usize,
            sticky,
            negative,
            rules.rounding,
        );
        (rounded, exponent + dropped)
    } else {
        (magnitude, exponent)
    };
    if magnitude.is_zero() {
        return Float::Zero { negative };
    }
    match Finite::new(IBig::from_parts(sign, magnitude), exponent) {
        Some(finite) if finite.top() > largest => overflow(negative, rules, largest),
        Some(finite) => Float::Finite(finite),
        None => Float::Zero { negative },
    }
}

/// `magnitude / 2^by`, rounded; `sticky` as for [`round`].
pub fn shift_rounded(
    magnitude: UBig,
    by: usize,
    sticky: bool,
    negative: bool,
    rounding: Rounding,
) -> UBig {
    if by == 0 {
        return magnitude;
    }
    let below_half = by > 1
        && magnitude
            .trailing_zeros()
            .is_some_and(|zeros| zeros < by - 1);
    let rest = magnitude.bit(by - 1) || below_half || sticky;
    let half = match (magnitude.bit(by - 1), below_half || sticky) {
        (true, true) => Ordering::Greater,
        (true, false) => Ordering::Equal,
        (false, _) => Ordering::Less,
    };
    let whole = magnitude >> by;
    let up = rest && rounding.grows(negative, half, whole.bit(0));
    if up { whole + UBig::ONE } else { whole }
}

/// `numerator / divisor`, rounded to an integer.
pub fn divide_rounded(
    numerator: &UBig,
    divisor: &UBig,
    negative: bool,
    rounding: Rounding,
) -> UBig {
    let (whole, rest) = numerator.div_rem(divisor);
    if rest.is_zero() {
        return whole;
    }
    let half = (rest << 1usize).cmp(divisor);
    if rounding.grows(negative, half, whole.bit(0)) {
        whole + UBig::ONE
    } else {
        whole
    }
}

/// What lies beyond the largest number.
pub fn overflow(negative: bool, rules: Rules, largest: i64) -> Float {
    if rules.rounding.grows(negative, Ordering::Greater, true) {
        return Float::Infinite { negative };
    }
    let ones = IBig::from(UBig::ones(rules.precision));
    let mantissa = if negative { -ones } else { ones };
    let exponent = largest - rules.precision as i64;
    Float::Finite(Finite { mantissa, exponent })
}

/// What lies below half of the smallest number.
pub fn underflow(negative: bool, rules: Rules, smallest: i64) -> Float {
    if !rules.rounding.grows(negative, Ordering::Less, false) {
        return Float::Zero { negative };
    }
    Float::Finite(Finite {
        mantissa: if negative { IBig::NEG_ONE } else { IBig::ONE },
        exponent: smallest - 1,
    })
}

/// A sum. Numbers that are far apart are not put beside each other: the smaller only decides the rounding.
pub fn add_finite(a: &Finite, b: &Finite, rules: Rules) -> Float {
    let (high, low) = if a.top() >= b.top() { (a, b) } else { (b, a) };
    let room = (rules.precision as i64).max(bit_length(&high.mantissa) as i64) + GUARD_BITS;
    if high.top() - low.top() > room {
        let down = high.top() - room;
        let mantissa = high.mantissa.clone() << (high.exponent - down) as usize;
        // The smaller pulls toward or away from zero by less than one unit.
        let mantissa = match (high.is_negative(), low.is_negative()) {
            (false, true) => mantissa - IBig::ONE,
            (true, false) => mantissa + IBig::ONE,
            _ => mantissa,
        };
        return round(mantissa, down, true, rules);
    }
    let down = high.exponent.min(low.exponent);
    let aligned = |n: &Finite| n.mantissa.clone() << (n.exponent - down) as usize;
    let sum = aligned(high) + aligned(low);
    if sum.is_zero() {
        return zero_sum(rules);
    }
    round(sum, down, false, rules)
}

/// The zero that two numbers cancel to.
fn zero_sum(rules: Rules) -> Float {
    Float::Zero {
        negative: rules.rounding == Rounding::Down,
    }
}

/// A quotient.
pub fn divide_finite(a: &Finite, b: &Finite, rules: Rules) -> Float {
    let (sign_a, mut numerator) = a.mantissa.clone().into_parts();
    let (sign_b, divisor) = b.mantissa.clone().into_parts();
    let wanted = rules.precision as i64 + GUARD_BITS;
    let shift = wanted + divisor.bit_len() as i64 - numerator.bit_len() as i64;
    let shift = shift.max(0);
    numerator <<= shift as usize;
    let (quotient, rest) = numerator.div_rem(divisor);
    round(
        IBig::from_parts(sign_a * sign_b, quotient),
        a.exponent - b.exponent - shift,
        !rest.is_zero(),
        rules,
    )
}

/// The remainder of a division that is cut to an integer, with the sign of `a`.
fn remainder_finite(a: &Finite, b: &Finite, rules: Rules) -> Float {
    let negative = a.is_negative();
    if a.top() < b.top() {
        return round(a.mantissa.clone(), a.exponent, false, rules);
    }
    let (_, dividend) = a.mantissa.clone().into_parts();
    let (_, divisor) = b.mantissa.clone().into_parts();
    let down = a.exponent.min(b.exponent);
    let divisor = divisor << (b.exponent - down) as usize;
    let rest = if a.exponent > down {
        // 2^n modulo the divisor, so that a huge dividend is never written out.
        power_of_two_times(dividend, (a.exponent - down) as usize, &divisor)
    } else {
        dividend % &divisor
    };
    if rest.is_zero() {
        return Float::Zero { negative };
    }
    let sign = if negative {
        Sign::Negative
    } else {
        Sign::Positive
    };
    round(IBig::from_parts(sign, rest), down, false, rules)
}

/// `n * 2^by` modulo `divisor`.
fn power_of_two_times(n: UBig, by: usize, divisor: &UBig) -> UBig {
    let mut power = UBig::ONE % divisor;
    for bit in (0..usize::BITS).rev() {
        power = power.sqr() % divisor;
        if by >> bit & 1 == 1 {
            power = (power << 1usize) % divisor;
        }
    }
    (n % divisor) * power % divisor
}

/// Refuses an integer of too many bits.
///
/// # Errors
/// More than [`INTEGER_BITS_MAX`].
pub fn check_bits(bits: usize) -> Step<()> {
    if bits <= INTEGER_BITS_MAX {
        return Ok(());
    }
    Err(Fatal::new(format!(
        "the result would be an integer of {bits} bits; the most that is computed is {INTEGER_BITS_MAX}; a float (2.0 instead of 2) has no such limit"
    )))
}

/// An operator.
///
/// # Errors
/// Division by zero; an integer that would be too large.
pub fn binary(op: ArithOp, a: &Exact, b: &Exact, rules: Rules) -> Step<Exact> {
    if matches!(op, ArithOp::Div | ArithOp::Mod) && b.is_zero() {
        return Err(Fatal::new(match op {
            ArithOp::Div => "division by zero",
            _ => "division by zero in `%`",
        }));
    }
    if let (Exact::Integer(a), Exact::Integer(b)) = (a, b)
        && let Some(result) = integers(op, a, b)?
    {
        return Ok(Exact::Integer(result));
    }
    if op == ArithOp::Pow {
        return functions::power(a, b, rules).map(Exact::Float);
    }
    // An integer zero is not there at all: the other keeps its sign, even if it is zero or no number.
    match (op, a, b) {
        (ArithOp::Add | ArithOp::Sub, Exact::Float(_), Exact::Integer(zero)) if zero.is_zero() => {
            return Ok(unary(a, false, rules));
        }
        (ArithOp::Add | ArithOp::Sub, Exact::Integer(zero), Exact::Float(_)) if zero.is_zero() => {
            return Ok(unary(b, op == ArithOp::Sub, rules));
        }
        _ => {}
    }
    Ok(Exact::Float(floats(
        op,
        &a.to_float(),
        &b.to_float(),
        rules,
    )))
}

/// An operator on integers whose result is one.
fn integers(op: ArithOp, a: &IBig, b: &IBig) -> Step<Option<IBig>> {
    Ok(match op {
        ArithOp::Add => Some(a + b),
        ArithOp::Sub => Some(a - b),
        ArithOp::Mul => {
            check_bits(bit_length(a) + bit_length(b))?;
            Some(a * b)
        }
        ArithOp::Div => {
            let (quotient, rest) = a.div_rem(b);
            rest.is_zero().then_some(quotient)
        }
        ArithOp::Mod => Some(a % b),
        ArithOp::Pow if b.sign() == Sign::Negative => None,
        ArithOp::Pow => Some(integer_power(a, b)?),
    })
}

fn integer_power(base: &IBig, exponent: &IBig) -> Step<IBig> {
    if base.is_zero() || *base == IBig::ONE {
        return Ok(if exponent.is_zero() {
            IBig::ONE
        } else {
            base.clone()
        });
    }
    if *base == IBig::NEG_ONE {
        return Ok(if exponent.bit(0) {
            IBig::NEG_ONE
        } else {
            IBig::ONE
        });
    }
    let exponent = usize::try_from(exponent).unwrap_or(usize::MAX);
    // A number of n bits is at least 2^(n-1).
    check_bits((bit_length(base) - 1).saturating_mul(exponent))?;
    Ok(base.pow(exponent))
}

/// An operator on floats, but `^`.
fn floats(op: ArithOp, a: &Float, b: &Float, rules: Rules) -> Float {
    if let (Float::Finite(a), Float::Finite(b)) = (a, b) {
        return match op {
            ArithOp::Add => add_finite(a, b, rules),
            ArithOp::Sub => add_finite(a, &negated(b), rules),
            ArithOp::Mul => round(
                &a.mantissa * &b.mantissa,
                a.exponent + b.exponent,
                false,
                rules,
            ),
            ArithOp::Mod => remainder_finite(a, b, rules),
            _ => divide_finite(a, b, rules),
        };
    }
    match (op, a, b) {
        // What is added to zero stays, but for the rounding.
        (ArithOp::Add | ArithOp::Sub, Float::Finite(a), Float::Zero { .. }) => {
            return round(a.mantissa.clone(), a.exponent, false, rules);
        }
        (ArithOp::Add, Float::Zero { .. }, Float::Finite(b)) => {
            return round(b.mantissa.clone(), b.exponent, false, rules);
        }
        (ArithOp::Sub, Float::Zero { .. }, Float::Finite(b)) => {
            return round(-b.mantissa.clone(), b.exponent, false, rules);
        }
        (ArithOp::Mod, Float::Finite(a), Float::Infinite { .. }) => {
            return round(a.mantissa.clone(), a.exponent, false, rules);
        }
        (ArithOp::Add | ArithOp::Sub, Float::Zero { negative: x }, Float::Zero { negative: y }) => {
            let y = *y != (op == ArithOp::Sub);
            if *x != y {
                return zero_sum(rules);
            }
        }
        _ => {}
    }
    // Zeros, infinities and what is no number follow the rules that doubles have; of another number only the sign counts.
    let (x, y) = (functions::stand_in(a), functions::stand_in(b));
    special(match op {
        ArithOp::Add => x + y,
        ArithOp::Sub => x - y,
        ArithOp::Mul => x * y,
        ArithOp::Mod => x % y,
        _ => x / y,
    })
}

/// A zero, an infinity, or no number, which has no sign when it is made.
pub fn special(n: f64) -> Float {
    if n.is_nan() {
        return Float::Nan { negative: false };
    }
    Float::of_double(n)
}

fn negated(n: &Finite) -> Finite {
    Finite {
        mantissa: -n.mantissa.clone(),
        exponent: n.exponent,
    }
}

/// The number, or with `minus` its opposite, exactly: what a literal is.
pub fn sign(n: Exact, minus: bool) -> Exact {
    match n {
        Exact::Float(Float::Finite(n)) if minus => Exact::Float(Float::Finite(negated(&n))),
        n if minus => unary(&n, true, Rules::default()),
        n => n,
    }
}

/// The operators with one operand: `+` and `-` round a float to the precision of now.
pub fn unary(n: &Exact, minus: bool, rules: Rules) -> Exact {
    match n {
        Exact::Integer(n) if minus && n.is_zero() => Exact::Float(Float::Zero { negative: true }),
        Exact::Integer(n) if minus => Exact::Integer(-n.clone()),
        Exact::Integer(n) => Exact::Integer(n.clone()),
        Exact::Float(Float::Finite(n)) => {
            let n = if minus { negated(n) } else { n.clone() };
            Exact::Float(round(n.mantissa, n.exponent, false, rules))
        }
        Exact::Float(float) if minus => Exact::Float(match float {
            Float::Nan { negative } => Float::Nan {
                negative: !negative,
            },
            Float::Infinite { negative } => Float::Infinite {
                negative: !negative,
            },
            _ => Float::Zero {
                negative: !float.is_negative(),
            },
        }),
        Exact::Float(float) => Exact::Float(float.clone()),
    }
}

/// `intdiv`: quotient and remainder of the integers that are left when what is behind the points is cut off.
///
/// # Errors
/// Why there is none, in words.
pub fn integer_division(a: &Exact, b: &Exact) -> Result<(IBig, IBig), &'static str> {
    let whole = |n: &Exact| n.truncated().ok_or("infinity and NaN cannot be divided");
    let (a, b) = (whole(a)?, whole(b)?);
    if b.is_zero() {
        return Err("division by zero");
    }
    Ok(a.div_rem(&b))
}
