//! Roots, powers, logarithms and angles.
//!
//! Invariant: a result is the exact one rounded once. It is computed with guard bits, and again with more, until all numbers
//! within its error round alike (Ziv, 1991).

use dashu_float::round::mode::HalfEven;
use dashu_float::{ConstCache, Context, FBig, FpError, Repr};
use dashu_int::ops::{BitTest, SquareRootRem};
use dashu_int::{IBig, Sign};

use super::arith::{add_finite, overflow, round, special, underflow};
use super::{EXPONENT_MAX, Exact, Finite, Float, Rounding, Rules, bit_length};
use crate::error::{Fatal, Step};

/// Bits by which the first try is more precise than the result.
const GUARD_BITS: usize = 32;

/// Tries before a result is taken for exact: then it is a number of that precision, or the middle of two.
const TRIES_MAX: usize = 6;

/// Powers of more bits than this are not computed exactly first.
const EXACT_POWER_BITS: u64 = 1 << 14;

/// An angle's bits before the point that are reduced: they cost as many digits of pi.
const ANGLE_BITS_MAX: i64 = 1 << 22;

/// Functions of one number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Function {
    Cos,
    Exp,
    Log,
    Sin,
    Sqrt,
}

/// What the other library computes with.
pub fn to_repr(n: &Finite) -> Repr<2> {
    Repr::new(n.mantissa.clone(), n.exponent as isize)
}

/// Back from it; `None` for what is not finite, or zero.
fn of_repr(n: &Repr<2>) -> Option<Finite> {
    if n.is_infinite() {
        return None;
    }
    Finite::new(n.significand().clone(), n.exponent() as i64)
}

/// A double that has the sign and kind of a float, for the rules of infinities and zeros: its size is lost.
pub fn stand_in(n: &Float) -> f64 {
    match n {
        Float::Finite(n) if n.is_negative() => -1.0,
        Float::Finite(_) => 1.0,
        n => n.to_double(),
    }
}

/// Rounds an approximation of `precision` bits, if all numbers within its error round alike.
pub fn settle(near: &Finite, precision: usize, rules: Rules) -> Option<Float> {
    // Four units of the last place of the approximation, to both sides.
    let unit = near.top() - precision as i64 + 2;
    let beside = |sign: IBig| Finite {
        mantissa: sign,
        exponent: unit,
    };
    let wide = Rules {
        precision: precision + 8,
        rounding: Rounding::Nearest,
        ..Rules::default()
    };
    let edge = |sign: IBig| match add_finite(near, &beside(sign), wide) {
        Float::Finite(n) => Some(round(n.mantissa, n.exponent, false, rules)),
        _ => None,
    };
    let (low, high) = (edge(IBig::NEG_ONE)?, edge(IBig::ONE)?);
    (low == high).then_some(low)
}

/// Computes with more and more precision until the rounding is certain.
fn certain(
    rules: Rules,
    extra_bits: usize,
    mut compute: impl FnMut(Context<HalfEven>) -> Result<FBig<HalfEven, 2>, FpError>,
) -> Step<Float> {
    let mut precision = rules.precision + GUARD_BITS + extra_bits;
    let mut tries = 0;
    loop {
        let near = match compute(Context::new(precision)) {
            Ok(near) => near,
            Err(FpError::Overflow(sign)) => {
                return Ok(overflow(sign == Sign::Negative, rules, rules.exponents.0));
            }
            Err(FpError::Underflow(sign)) => {
                return Ok(underflow(sign == Sign::Negative, rules, rules.exponents.1));
            }
            Err(error) => return Err(Fatal::new(format!("arbitrary precision: {error}"))),
        };
        let Some(near) = of_repr(near.repr()) else {
            return Ok(Float::Zero { negative: false });
        };
        if let Some(result) = settle(&near, precision, rules) {
            return Ok(result);
        }
        tries += 1;
        if tries == TRIES_MAX {
            return Ok(round(near.mantissa, near.exponent, false, rules));
        }
        precision += precision / 2 + GUARD_BITS;
    }
}

/// A number beside `n` that is nearer than any rounding can tell, above or below it in magnitude.
fn beside(n: &Finite, larger: bool, rules: Rules) -> Float {
    let distance = (bit_length(&n.mantissa) + rules.precision + 8) as i64;
    let mut nudge = Finite {
        mantissa: IBig::ONE,
        exponent: n.top() - distance,
    };
    if n.is_negative() == larger {
        nudge.mantissa = IBig::NEG_ONE;
    }
    add_finite(n, &nudge, rules)
}

/// A function of one number.
///
/// # Errors
/// An angle so large that it would cost too many digits of pi.
pub fn function(f: Function, x: &Float, rules: Rules) -> Step<Float> {
    let x = match x {
        Float::Finite(x) => x,
        x => {
            let n = x.to_double();
            return Ok(match (f, x) {
                (_, Float::Nan { .. }) => Float::Nan { negative: false },
                (Function::Cos, _) => special(n.cos()),
                (Function::Exp, _) => special(n.exp()),
                (Function::Log, _) => special(n.ln()),
                (Function::Sin, _) => special(n.sin()),
                (Function::Sqrt, _) => special(n.sqrt()),
            });
        }
    };
    let tiny = x.top() < -(rules.precision as i64) - 8;
    let repr = to_repr(x);
    let one = Finite {
        mantissa: IBig::ONE,
        exponent: 0,
    };
    match f {
        Function::Sqrt | Function::Log if x.is_negative() => Ok(Float::Nan { negative: false }),
        Function::Sqrt => Ok(square_root(x, rules)),
        Function::Log if *x == one => Ok(Float::Zero { negative: false }),
        Function::Log => certain(rules, 0, |c| Ok(c.ln(&repr, None)?.value())),
        // exp(x) = 1 + x + ..., cos(x) = 1 - x^2/2 + ..., sin(x) = x - x^3/6 + ...
        Function::Exp if tiny => Ok(beside(&one, !x.is_negative(), rules)),
        Function::Exp => {
            let size = x.to_double_size();
            let (largest, smallest) = rules.exponents;
            if size > (largest as f64 + 1.0) * std::f64::consts::LN_2 {
                return Ok(overflow(false, rules, largest));
            }
            if size < (smallest as f64 - 2.0) * std::f64::consts::LN_2 {
                return Ok(underflow(false, rules, smallest));
            }
            certain(rules, 0, |c| Ok(c.exp(&repr, None)?.value()))
        }
        Function::Cos if tiny => Ok(beside(&one, false, rules)),
        Function::Sin
            if 2 * x.top() < -(rules.precision as i64) - 8 - bit_length(&x.mantissa) as i64 =>
        {
            Ok(beside(x, false, rules))
        }
        Function::Sin | Function::Cos => {
            let bits = x.top();
            if bits > ANGLE_BITS_MAX {
                return Err(Fatal::new(format!(
                    "an angle of {bits} bits before the point is too large for sin and cos; {ANGLE_BITS_MAX} is the most"
                )));
            }
            let mut cache = ConstCache::new();
            certain(rules, 0, |c| {
                Ok(match f {
                    Function::Sin => c.sin(&repr, Some(&mut cache))?.value(),
                    _ => c.cos(&repr, Some(&mut cache))?.value(),
                })
            })
        }
    }
}

impl Finite {
    /// About its value as a double, for estimates.
    fn to_double_size(&self) -> f64 {
        Float::Finite(self.clone()).to_double()
    }
}

fn square_root(x: &Finite, rules: Rules) -> Float {
    let (_, mut magnitude) = x.mantissa.clone().into_parts();
    let wanted = 2 * (rules.precision as i64 + 4);
    let mut shift = (wanted - magnitude.bit_len() as i64).max(0);
    if (x.exponent - shift) % 2 != 0 {
        shift += 1;
    }
    magnitude <<= shift as usize;
    let (root, rest) = magnitude.sqrt_rem();
    round(
        IBig::from(root),
        (x.exponent - shift) / 2,
        !rest.is_zero(),
        rules,
    )
}

/// The angle of a point.
///
/// # Errors
/// None in practice: the retries of the library below.
pub fn angle(y: &Float, x: &Float, rules: Rules) -> Step<Float> {
    if matches!((y, x), (Float::Nan { .. }, _) | (_, Float::Nan { .. })) {
        return Ok(Float::Nan { negative: false });
    }
    // A point on an axis or infinitely far: a multiple of pi/4, which the stand-ins tell.
    let eighths = match (y, x) {
        (Float::Finite(_), Float::Finite(_)) => None,
        _ => Some(stand_in(y).atan2(stand_in(x)) / std::f64::consts::FRAC_PI_4),
    };
    if let Some(eighths) = eighths {
        if eighths == 0.0 {
            return Ok(Float::of_double(eighths));
        }
        let count = IBig::from(eighths.round() as i64);
        return certain(rules, 8, |c| {
            let pi: FBig<HalfEven, 2> = c.pi(None).value();
            let product = pi.repr().significand() * &count;
            let repr = Repr::new(product, pi.repr().exponent() - 2);
            Ok(FBig::from_repr(repr, Context::new(c.precision() + 8)))
        });
    }
    let (Float::Finite(y), Float::Finite(x)) = (y, x) else {
        return Ok(Float::Nan { negative: false });
    };
    // atan(t) = t - t^3/3: beside the quotient, and in the left half beside pi.
    if y.top() - x.top() < -(2 * rules.precision as i64) - 64 && !x.is_negative() {
        let wide = Rules {
            precision: 2 * rules.precision + 64,
            rounding: Rounding::Zero,
            ..rules
        };
        return Ok(match super::arith::divide_finite(y, x, wide) {
            Float::Finite(t) => beside(&t, false, rules),
            other => other,
        });
    }
    let (y, x) = (to_repr(y), to_repr(x));
    certain(rules, 0, |c| Ok(c.atan2(&y, &x, None)?.value()))
}

/// `base ^ exponent`.
///
/// # Errors
/// None in practice: the retries of the library below.
pub fn power(base: &Exact, exponent: &Exact, rules: Rules) -> Step<Float> {
    // An integer exponent is meant exactly, every other operand as a float.
    let whole = match exponent {
        Exact::Integer(n) => Some(n.clone()),
        Exact::Float(Float::Finite(n)) if n.exponent >= 0 && n.top() < 4096 => Some(n.truncated()),
        _ => None,
    };
    let (x, y) = (base.to_float(), exponent.to_float());
    let (Float::Finite(x), Float::Finite(y)) = (&x, &y) else {
        return Ok(power_special(&x, &y));
    };
    let one = x.exponent == 0 && x.mantissa.clone().into_parts().1.is_one();
    if whole.is_none() && x.is_negative() && y.exponent < 0 {
        return Ok(Float::Nan { negative: false });
    }
    let odd = y.exponent == 0;
    let negative = x.is_negative() && odd;
    if one {
        return Ok(Float::of_double(if negative { -1.0 } else { 1.0 }));
    }
    let x_size = Finite {
        mantissa: IBig::from(x.mantissa.clone().into_parts().1),
        exponent: x.exponent,
    };
    if let Some(float) = beyond_range(&x_size, y, negative, rules) {
        return Ok(float);
    }
    if let Some(n) = &whole
        && let Ok(size) = u64::try_from(n.clone().into_parts().1)
        && size.saturating_mul(bit_length(&x.mantissa) as u64) <= EXACT_POWER_BITS
    {
        let exact = Finite {
            mantissa: x.mantissa.pow(size as usize),
            exponent: x.exponent * size as i64,
        };
        let unit = Finite {
            mantissa: IBig::ONE,
            exponent: 0,
        };
        return Ok(match n.sign() {
            Sign::Positive => round(exact.mantissa, exact.exponent, false, rules),
            Sign::Negative => super::arith::divide_finite(&unit, &exact, rules),
        });
    }
    let flipped = Rules {
        rounding: match rules.rounding {
            Rounding::Up if negative => Rounding::Down,
            Rounding::Down if negative => Rounding::Up,
            rounding => rounding,
        },
        ..rules
    };
    let repr = to_repr(&x_size);
    let result = match whole {
        Some(n) => certain(flipped, 16, |c| Ok(c.powi(&repr, n.clone())?.value()))?,
        None => {
            let y = to_repr(y);
            certain(flipped, 16, |c| Ok(c.powf(&repr, &y, None)?.value()))?
        }
    };
    Ok(if negative { opposite(result) } else { result })
}

fn opposite(n: Float) -> Float {
    match n {
        Float::Finite(n) => Float::Finite(Finite {
            mantissa: -n.mantissa,
            exponent: n.exponent,
        }),
        Float::Infinite { negative } => Float::Infinite {
            negative: !negative,
        },
        Float::Zero { negative } => Float::Zero {
            negative: !negative,
        },
        nan => nan,
    }
}

/// An infinity or zero, if `x^y` is surely beyond what floats reach.
fn beyond_range(x: &Finite, y: &Finite, negative: bool, rules: Rules) -> Option<Float> {
    let ln: FBig<HalfEven, 2> = Context::<HalfEven>::new(64)
        .ln(&to_repr(x), None)
        .ok()?
        .value();
    let bits = of_repr(ln.repr())?.to_double_size() / std::f64::consts::LN_2 * y.to_double_size();
    let reach = EXPONENT_MAX as f64 + 64.0 + rules.precision as f64;
    let sign = if negative { -1.0 } else { 1.0 };
    let (largest, smallest) = rules.exponents;
    if bits > reach {
        return Some(overflow(sign < 0.0, rules, largest));
    }
    (bits < -reach).then(|| underflow(sign < 0.0, rules, smallest))
}

/// Powers with a zero, an infinity, or what is no number: C's rules for `pow`, which look only at signs, at whether the
/// base is beyond one, and at whether the exponent is odd.
fn power_special(x: &Float, y: &Float) -> Float {
    let base = match x {
        Float::Finite(n) => {
            let size = match n.top() {
                ..=0 => 0.5,
                1 if n.exponent == 0 => 1.0,
                _ => 2.0,
            };
            if n.is_negative() { -size } else { size }
        }
        x => x.to_double(),
    };
    let exponent = match y {
        Float::Finite(n) => {
            let size = match n.exponent {
                0 => 3.0,
                1.. => 2.0,
                _ => 0.5,
            };
            if n.is_negative() { -size } else { size }
        }
        y => y.to_double(),
    };
    special(base.powf(exponent))
}
