//! Numbers of any size and precision: what `--bignum` computes with.
//!
//! Two kinds, as in gawk: integers without limit but memory's, and binary floats that are rounded to PREC bits in the
//! direction that ROUNDMODE names. Integers and their products are exact; whatever has a point, an exponent or a
//! remainder is a float. Everything is computed exactly, or with guard bits until the rounding is certain, and then
//! rounded once.
//!
//! Invariants: the mantissa of a `Finite` is odd; an `Integer` inside a [`Value`] is beyond 2^53 in magnitude (smaller ones
//! are `Value::Num`, which stay integers); no integer has more than [`INTEGER_BITS_MAX`] bits.
//!
//! Source: gawk manual, "Arithmetic and Arbitrary-Precision Arithmetic with gawk"; MPFR manual, "Rounding".

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

use dashu_int::{IBig, Sign};

use crate::value::Value;

pub mod arith;
pub mod bits;
pub mod decimal;
pub mod format;
pub mod functions;
pub mod text;

/// Integers of more bits are refused (2^30 bits are 128 MiB): GMP, too, ends in an error, a little later.
pub const INTEGER_BITS_MAX: usize = 1 << 30;

/// Largest exponent of a float: beyond it lies infinity. MPFR's default.
pub const EXPONENT_MAX: i64 = (1 << 30) - 1;

/// Largest PREC: 2 MiB for a number.
pub const PRECISION_MAX: usize = 1 << 24;

/// What computes, for PROCINFO.
pub const LIBRARY: &str = "dashu 0.6";

/// Integers up to here are held as `Value::Num`.
const SMALL: f64 = 9_007_199_254_740_992.0;

/// In which direction a float is rounded: the values of ROUNDMODE.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rounding {
    /// To the nearest, halves to the even one: `N`.
    #[default]
    Nearest,
    /// Toward zero: `Z`.
    Zero,
    /// Toward plus infinity: `U`.
    Up,
    /// Toward minus infinity: `D`.
    Down,
    /// Away from zero: `A`.
    Away,
}

impl Rounding {
    /// The direction that a value of ROUNDMODE names.
    pub fn of_name(name: &[u8]) -> Option<Rounding> {
        Some(match name {
            b"N" | b"n" => Rounding::Nearest,
            b"Z" | b"z" => Rounding::Zero,
            b"U" | b"u" => Rounding::Up,
            b"D" | b"d" => Rounding::Down,
            b"A" | b"a" => Rounding::Away,
            _ => return None,
        })
    }

    /// Whether a magnitude that lies between two neighbours becomes the larger. `half`: where it lies beside the middle.
    fn grows(self, negative: bool, half: Ordering, odd: bool) -> bool {
        match self {
            Rounding::Nearest => half == Ordering::Greater || (half == Ordering::Equal && odd),
            Rounding::Zero => false,
            Rounding::Up => !negative,
            Rounding::Down => negative,
            Rounding::Away => true,
        }
    }
}

/// How results are rounded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Bits of a float: PREC.
    pub precision: usize,
    /// ROUNDMODE.
    pub rounding: Rounding,
    /// Exponents (of a mantissa in [1/2, 1)) of the largest and the smallest number.
    exponents: (i64, i64),
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            precision: 53,
            rounding: Rounding::Nearest,
            exponents: (EXPONENT_MAX, -EXPONENT_MAX),
        }
    }
}

impl Rules {
    /// Takes over a value of PREC: a number of bits, or the name of an IEEE 754 format, whose range of exponents then holds
    /// too. False if it is none.
    pub fn set_precision(&mut self, value: &Value) -> bool {
        if let Some(name) = value.as_bytes() {
            let name = name.to_ascii_lowercase();
            // Precision, largest exponent; the smallest one is that of the smallest subnormal number.
            let format = match name.as_slice() {
                b"half" => Some((11, 16)),
                b"single" => Some((24, 128)),
                b"double" => Some((53, 1024)),
                b"quad" => Some((113, 16384)),
                b"oct" => Some((237, 262_144)),
                _ => None,
            };
            if let Some((precision, largest)) = format {
                self.precision = precision;
                self.exponents = (largest, 4 - largest - precision as i64);
                return true;
            }
        }
        let bits = value.to_num();
        if !(1.0..=PRECISION_MAX as f64).contains(&bits) {
            return false;
        }
        self.precision = bits as usize;
        self.exponents = Rules::default().exponents;
        true
    }

    /// The rules by which a function of an integer, or a conversion for floats, is rounded: to as many bits as the integer
    /// has, and 64 at least (as gawk does, which shows in `sqrt(2)`).
    pub fn wide(self, n: &IBig) -> Rules {
        let bits = bit_length(n) - n.trailing_zeros().unwrap_or(0);
        Rules {
            precision: self.precision.max(bits).max(64),
            ..self
        }
    }

    /// Takes over a value of ROUNDMODE; false if it is none.
    pub fn set_rounding(&mut self, value: &Value) -> bool {
        match value.as_bytes().and_then(Rounding::of_name) {
            Some(rounding) => {
                self.rounding = rounding;
                true
            }
            None => false,
        }
    }
}

thread_local! {
    // Comparisons and conversions happen where no settings are at hand (sorts, keys, formats): the machine of a thread says
    // here how it computes. `None`: with doubles.
    static RULES: Cell<Option<Rules>> = const { Cell::new(None) };
}

/// Says how this thread computes from now on; `None`: with doubles.
pub fn set_rules(rules: Option<Rules>) {
    RULES.set(rules);
}

/// How this thread rounds, if it computes with exact numbers.
#[inline]
pub fn rules() -> Option<Rules> {
    RULES.get()
}

/// A float.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Float {
    /// No number; only its sign is written.
    Nan {
        /// Written with a minus.
        negative: bool,
    },
    /// Beyond all numbers.
    Infinite {
        /// Below.
        negative: bool,
    },
    /// Zero, which has a sign.
    Zero {
        /// Came from below.
        negative: bool,
    },
    /// All others.
    Finite(Finite),
}

/// `mantissa * 2^exponent`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finite {
    /// Odd.
    pub mantissa: IBig,
    /// See there.
    pub exponent: i64,
}

/// An exact number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exact {
    /// An integer.
    Integer(IBig),
    /// A float.
    Float(Float),
}

impl Finite {
    /// `mantissa * 2^exponent`, exactly; `None` for zero.
    pub fn new(mantissa: IBig, exponent: i64) -> Option<Finite> {
        let zeros = mantissa.trailing_zeros()?;
        Some(Finite {
            mantissa: if zeros == 0 {
                mantissa
            } else {
                mantissa >> zeros
            },
            exponent: exponent + zeros as i64,
        })
    }

    /// Whether it is below zero.
    pub fn is_negative(&self) -> bool {
        self.mantissa.sign() == Sign::Negative
    }

    /// Its exponent with a mantissa in [1/2, 1).
    pub fn top(&self) -> i64 {
        self.exponent + bit_length(&self.mantissa) as i64
    }

    /// As an integer, what is behind the point cut off.
    pub fn truncated(&self) -> IBig {
        if self.exponent >= 0 {
            return self.mantissa.clone() << self.exponent as usize;
        }
        if self.top() <= 0 {
            return IBig::ZERO;
        }
        // A shift rounds down; what is wanted is rounding toward zero.
        let (sign, magnitude) = self.mantissa.clone().into_parts();
        IBig::from_parts(sign, magnitude >> (-self.exponent) as usize)
    }
}

/// Bits of the magnitude.
pub fn bit_length(n: &IBig) -> usize {
    let (_, words) = n.as_sign_words();
    match words.last() {
        Some(top) => words.len() * dashu_int::Word::BITS as usize - top.leading_zeros() as usize,
        None => 0,
    }
}

impl Float {
    /// A double, exactly.
    pub fn of_double(n: f64) -> Float {
        let negative = n.is_sign_negative();
        if n.is_nan() {
            return Float::Nan { negative };
        }
        if n.is_infinite() {
            return Float::Infinite { negative };
        }
        let bits = n.to_bits();
        let fraction = (bits & ((1 << 52) - 1)) as i64;
        let (mantissa, exponent) = match (bits >> 52) & 0x7ff {
            0 => (fraction, -1074),
            biased => (fraction | 1 << 52, biased as i64 - 1075),
        };
        let signed = if negative { -mantissa } else { mantissa };
        match Finite::new(IBig::from(signed), exponent) {
            Some(finite) => Float::Finite(finite),
            None => Float::Zero { negative },
        }
    }

    /// Whether its sign is a minus.
    pub fn is_negative(&self) -> bool {
        match self {
            Float::Nan { negative } | Float::Infinite { negative } | Float::Zero { negative } => {
                *negative
            }
            Float::Finite(finite) => finite.is_negative(),
        }
    }

    /// The nearest double.
    pub fn to_double(&self) -> f64 {
        let magnitude = match self {
            Float::Nan { .. } => f64::NAN,
            Float::Infinite { .. } => f64::INFINITY,
            Float::Zero { .. } => 0.0,
            Float::Finite(finite) => return finite_to_double(finite),
        };
        magnitude.copysign(if self.is_negative() { -1.0 } else { 1.0 })
    }

    /// As an integer, if it is one.
    pub fn as_integer(&self) -> Option<IBig> {
        match self {
            Float::Zero { .. } => Some(IBig::ZERO),
            Float::Finite(finite) if finite.exponent >= 0 => Some(finite.truncated()),
            _ => None,
        }
    }
}

fn finite_to_double(finite: &Finite) -> f64 {
    let mut double = Rules {
        precision: 53,
        rounding: Rounding::Nearest,
        exponents: (1024, -1073),
    };
    // Rounded once, to as many bits as a double of that size has.
    double.precision = (finite.top() + 1074).clamp(1, 53) as usize;
    match arith::round(finite.mantissa.clone(), finite.exponent, false, double) {
        Float::Finite(rounded) => {
            let mantissa = rounded.mantissa.to_f64().value();
            // Two steps, because 2^exponent alone may be no double.
            let half = (rounded.exponent / 2) as i32;
            mantissa * 2f64.powi(half) * 2f64.powi(rounded.exponent as i32 - half)
        }
        Float::Infinite { negative: false } => f64::INFINITY,
        Float::Infinite { negative: true } => f64::NEG_INFINITY,
        _ if finite.is_negative() => -0.0,
        _ => 0.0,
    }
}

impl Exact {
    /// The number that a value is, text converted by `rules`.
    pub fn of(value: &Value, rules: Rules) -> Exact {
        match value {
            Value::Num(n) => Exact::of_double(*n),
            Value::Bool(b) => Exact::Integer(IBig::from(u8::from(*b))),
            Value::Exact(exact) => (**exact).clone(),
            Value::Small(_) | Value::Long(..) => {
                text::parse_prefix(value.as_bytes().unwrap_or_default(), rules)
            }
            _ => Exact::Integer(IBig::ZERO),
        }
    }

    /// The number that the machine holds as this double.
    pub fn of_double(n: f64) -> Exact {
        if n.abs() <= SMALL && n.trunc() == n && !(n == 0.0 && n.is_sign_negative()) {
            return Exact::Integer(IBig::from(n as i64));
        }
        Exact::Float(Float::of_double(n))
    }

    /// As the machine holds it.
    pub fn into_value(self) -> Value {
        if let Exact::Integer(n) = &self
            && let Ok(small) = i64::try_from(n)
            && small.unsigned_abs() <= 1 << 53
        {
            return Value::Num(small as f64);
        }
        Value::Exact(Rc::new(self))
    }

    /// The nearest double.
    pub fn to_double(&self) -> f64 {
        match self {
            Exact::Integer(n) => match Finite::new(n.clone(), 0) {
                Some(finite) => finite_to_double(&finite),
                None => 0.0,
            },
            Exact::Float(float) => float.to_double(),
        }
    }

    /// As a float of as many bits as it has.
    pub fn to_float(&self) -> Float {
        match self {
            Exact::Integer(n) => {
                Finite::new(n.clone(), 0).map_or(Float::Zero { negative: false }, Float::Finite)
            }
            Exact::Float(float) => float.clone(),
        }
    }

    /// Without what is behind the point; `None` for infinities and NaN.
    pub fn truncated(&self) -> Option<IBig> {
        match self {
            Exact::Integer(n) => Some(n.clone()),
            Exact::Float(Float::Zero { .. }) => Some(IBig::ZERO),
            Exact::Float(Float::Finite(finite)) => Some(finite.truncated()),
            Exact::Float(_) => None,
        }
    }

    /// Whether it is zero.
    pub fn is_zero(&self) -> bool {
        match self {
            Exact::Integer(n) => n.is_zero(),
            Exact::Float(float) => matches!(float, Float::Zero { .. }),
        }
    }

    /// Which is larger; `None` if one is no number.
    pub fn compare(&self, other: &Exact) -> Option<Ordering> {
        enum Size {
            Low,
            Zero,
            Finite(Finite),
            High,
        }
        fn size(exact: &Exact) -> Option<Size> {
            let finite = |n: Option<Finite>| n.map_or(Size::Zero, Size::Finite);
            Some(match exact {
                Exact::Integer(n) => finite(Finite::new(n.clone(), 0)),
                Exact::Float(Float::Nan { .. }) => return None,
                Exact::Float(Float::Infinite { negative: true }) => Size::Low,
                Exact::Float(Float::Infinite { negative: false }) => Size::High,
                Exact::Float(Float::Zero { .. }) => Size::Zero,
                Exact::Float(Float::Finite(n)) => Size::Finite(n.clone()),
            })
        }
        fn rank(size: &Size) -> i32 {
            match size {
                Size::Low => -2,
                Size::Zero => 0,
                Size::Finite(n) if n.is_negative() => -1,
                Size::Finite(_) => 1,
                Size::High => 2,
            }
        }
        if let (Exact::Integer(a), Exact::Integer(b)) = (self, other) {
            return Some(a.cmp(b));
        }
        let (a, b) = (size(self)?, size(other)?);
        Some(match (&a, &b) {
            (Size::Finite(a), Size::Finite(b)) if a.is_negative() == b.is_negative() => {
                let by_top = a.top().cmp(&b.top());
                let larger = if by_top != Ordering::Equal {
                    by_top
                } else {
                    // Their leading bits are at the same place, so neither shift is longer than a mantissa.
                    let down = a.exponent.min(b.exponent);
                    let magnitude = |n: &Finite| {
                        n.mantissa.clone().into_parts().1 << (n.exponent - down) as usize
                    };
                    magnitude(a).cmp(&magnitude(b))
                };
                if a.is_negative() {
                    larger.reverse()
                } else {
                    larger
                }
            }
            _ => rank(&a).cmp(&rank(&b)),
        })
    }
}

/// Compares two values that are numbers or look like them.
pub fn compare_values(left: &Value, right: &Value, rules: Rules) -> Option<Ordering> {
    Exact::of(left, rules).compare(&Exact::of(right, rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(n: &Exact) -> String {
        String::from_utf8(text::to_stored(n)).unwrap()
    }

    #[test]
    fn what_a_heap_keeps_reads_back_as_the_same_number() {
        let rules = Rules {
            precision: 300,
            ..Rules::default()
        };
        for written in [
            "0",
            "-0.0",
            "1.5",
            "-1.5625",
            "0.1",
            "1e300",
            "-1e-300",
            "+inf",
            "-inf",
            "+nan",
            "-nan",
            "123456789012345678901234567890",
            "-9007199254740993",
            "3.0",
        ] {
            let n = text::parse_prefix(written.as_bytes(), rules);
            assert_eq!(
                text::from_stored(&text::to_stored(&n)),
                Some(n),
                "{written}"
            );
        }
        let n = text::parse_prefix(b"-1.5625", rules);
        assert_eq!(text(&n), "F-19p-4");
        assert_eq!(n.to_double(), -1.5625);
        for damaged in [
            &b"I"[..],
            b"I1x",
            b"F",
            b"F1",
            b"Fzp0",
            b"F1p",
            b"F1p99999999999999",
            b"Q",
        ] {
            assert_eq!(text::from_stored(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn doubles_are_the_nearest_ones() {
        let rules = Rules {
            precision: 2000,
            ..Rules::default()
        };
        for written in [
            "0.1",
            "1e308",
            "1.8e308",
            "-1e400",
            "4.9e-324",
            "2.4e-324",
            "2.5e-324",
            "1e-310",
            "9007199254740993",
            "2.2250738585072011e-308",
            "123456789012345678901234567890",
        ] {
            let expected: f64 = written.parse().unwrap();
            let n = text::parse_prefix(written.as_bytes(), rules);
            assert_eq!(n.to_double().to_bits(), expected.to_bits(), "{written}");
        }
        for n in [0.1, -0.0, 5e-324, f64::MAX, f64::MIN_POSITIVE, 1e17, -3.0] {
            assert_eq!(Float::of_double(n).to_double().to_bits(), n.to_bits());
        }
    }

    #[test]
    fn numbers_of_either_kind_compare_exactly() {
        let rules = Rules::default();
        let n = |written: &str| text::parse_prefix(written.as_bytes(), rules);
        assert_eq!(
            n("9007199254740993").compare(&n("9007199254740992.0")),
            Some(Ordering::Greater)
        );
        assert_eq!(
            n("-9007199254740993").compare(&n("-9007199254740992.0")),
            Some(Ordering::Less)
        );
        assert_eq!(n("0").compare(&n("-0.0")), Some(Ordering::Equal));
        assert_eq!(n("1e400").compare(&n("+inf")), Some(Ordering::Less));
        assert_eq!(n("+nan").compare(&n("1")), None);
    }

    #[test]
    fn far_numbers_still_decide_the_rounding() {
        let add = |a: &str, b: &str, rounding| {
            let rules = Rules {
                rounding,
                ..Rules::default()
            };
            let (a, b) = (
                text::parse_prefix(a.as_bytes(), rules),
                text::parse_prefix(b.as_bytes(), rules),
            );
            arith::binary(awk_syntax::ast::ArithOp::Add, &a, &b, rules)
                .unwrap()
                .to_double()
        };
        let above = 1.0 + f64::EPSILON;
        assert_eq!(add("1.0", "1e-300", Rounding::Up), above);
        assert_eq!(add("1.0", "1e-300", Rounding::Nearest), 1.0);
        assert_eq!(
            add("1.0", "-1e-300", Rounding::Zero),
            1.0 - f64::EPSILON / 2.0
        );
        assert_eq!(add("-1.0", "-1e-300", Rounding::Away), -above);
    }

    #[test]
    fn integers_that_would_fill_the_memory_are_refused() {
        let rules = Rules::default();
        let n = |written: &str| text::parse_prefix(written.as_bytes(), rules);
        let pow =
            |a: &str, b: &str| arith::binary(awk_syntax::ast::ArithOp::Pow, &n(a), &n(b), rules);
        let message = pow("2", "1000000000000").unwrap_err().to_string();
        assert!(message.contains("1000000000000 bits"), "{message}");
        assert!(pow("3", "99999999999999999999999999").is_err());
        assert!(pow("-1", "99999999999999999999999999").is_ok());
        let shift = [n("1"), n("1000000000000")];
        assert!(bits::function(awk_syntax::names::Builtin::Lshift, &shift).is_err());
    }
}
