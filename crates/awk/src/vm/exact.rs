//! `--bignum`: the machine's arithmetic on exact numbers.
//!
//! Invariant: a small integer is a `Value::Num` before and after, and where two of them give another, no exact number is
//! made.

use awk_syntax::ast::ArithOp;
use awk_syntax::names::{Builtin, Special};
use dashu_int::IBig;

use super::{Vm, field_number};
use crate::code::Op;
use crate::error::{Fatal, Step as Result};
use crate::exact::functions::{self, Function};
use crate::exact::{self, Exact, Float, Rules, arith, bits, text};
use crate::value::Value;

/// Up to here integers are held as doubles.
const SMALL: f64 = 9_007_199_254_740_992.0;

fn rules() -> Rules {
    exact::rules().unwrap_or_default()
}

/// Whether it is an integer that a double holds.
fn small(value: &Value) -> Option<f64> {
    match value {
        Value::Num(n)
            if n.trunc() == *n && n.abs() <= SMALL && !(*n == 0.0 && n.is_sign_negative()) =>
        {
            Some(*n)
        }
        _ => None,
    }
}

/// An operator on two values.
pub(super) fn binary(op: ArithOp, a: &Value, b: &Value) -> Result<Value> {
    if let (Some(a), Some(b)) = (small(a), small(b)) {
        let n = match op {
            ArithOp::Add => a + b,
            ArithOp::Sub => a - b,
            ArithOp::Mul => a * b,
            ArithOp::Mod if b != 0.0 => a % b,
            _ => f64::NAN,
        };
        // A result below 2^53 was not rounded.
        if n.abs() < SMALL {
            return Ok(Value::Num(n + 0.0));
        }
    }
    let rules = rules();
    let (a, b) = (Exact::of(a, rules), Exact::of(b, rules));
    Ok(arith::binary(op, &a, &b, rules)?.into_value())
}

/// `+` or `-` before a value.
pub(super) fn unary(value: &Value, minus: bool) -> Value {
    if let Some(n) = small(value)
        && n != 0.0
    {
        return Value::Num(if minus { -n } else { n });
    }
    let rules = rules();
    arith::unary(&Exact::of(value, rules), minus, rules).into_value()
}

/// One more or less.
pub(super) fn step(value: &Value, down: bool) -> Result<Value> {
    let op = if down { ArithOp::Sub } else { ArithOp::Add };
    binary(op, value, &Value::Num(1.0))
}

/// The number that a value is, rounded to the precision of now: what `x++` gives.
pub(super) fn number(value: &Value) -> Value {
    unary(value, false)
}

impl Vm<'_> {
    /// Runs an instruction for exact numbers. Apart from the loop, which would have a larger frame for everybody.
    #[cold]
    #[inline(never)]
    pub(super) fn exact(&mut self, op: Op) -> Result<()> {
        match op {
            Op::ExactConst(n) => self.vals.push(self.literals[n as usize].clone()),
            Op::ExactArith(op) => {
                let b = self.pop_val();
                let a = self.pop_val();
                self.vals.push(binary(op, &a, &b)?);
            }
            Op::ExactNeg => {
                let n = self.pop_val();
                self.vals.push(unary(&n, true));
            }
            Op::ExactPlus => {
                let n = self.pop_val();
                self.vals.push(unary(&n, false));
            }
            Op::ExactSwapped(op) => {
                let a = self.pop_val();
                let b = self.pop_val();
                self.vals.push(binary(op, &a, &b)?);
            }
            Op::ExactUnder(op) => {
                let a = self.pop_val();
                let key = self.pop_val();
                let b = self.pop_val();
                self.vals.push(key);
                self.vals.push(binary(op, &a, &b)?);
            }
            Op::ExactStep { down, old } => {
                let n = self.pop_val();
                let new = step(&n, down)?;
                if old {
                    self.vals.push(number(&n));
                }
                self.vals.push(new);
            }
            Op::ExactStepUnder { down } => {
                let n = self.pop_val();
                let key = self.pop_val();
                self.vals.push(number(&n));
                self.vals.push(key);
                self.vals.push(step(&n, down)?);
            }
            Op::ValFieldPeek => {
                let at = field_number(self.nums.last().copied().unwrap_or(0.0))?;
                let v = self.field(at);
                self.vals.push(v);
            }

            op => unreachable!("{op:?} is not for exact numbers"),
        }
        Ok(())
    }

    /// Reads the literals of the program by PREC and ROUNDMODE as they are now.
    pub(super) fn read_literals(&mut self) {
        let rules = rules();
        for literal in self.code.literals.iter().skip(self.literals.len()) {
            let decimal = text::parse_literal(&literal.text, false, rules);
            // The lexer knows whether a leading zero makes an octal number.
            let n = if decimal.to_double() == literal.near {
                decimal
            } else {
                match text::parse_literal(&literal.text, true, rules) {
                    octal @ Exact::Integer(_) => octal,
                    Exact::Float(_) => decimal,
                }
            };
            self.literals
                .push(arith::sign(n, literal.minus).into_value());
        }
    }

    /// Follows an assignment to PREC or ROUNDMODE.
    #[cold]
    pub(super) fn set_rules(&mut self, s: Special, value: &Value) {
        let Some(mut rules) = exact::rules() else {
            return;
        };
        let taken = match s {
            Special::PREC => rules.set_precision(value),
            _ => rules.set_rounding(value),
        };
        if taken {
            exact::set_rules(Some(rules));
            return;
        }
        let shown = String::from_utf8_lossy(&self.settings.text_of(value)).into_owned();
        self.warn(&format!(
            "{} value `{shown}' is invalid; the one before stays in force",
            s.name()
        ));
    }

    /// A function that gives an exact number; `None` if it is none of those.
    pub(super) fn exact_builtin(
        &mut self,
        which: Builtin,
        args: &[Value],
    ) -> Result<Option<Value>> {
        let rules = rules();
        let number = |at: usize| {
            args.get(at)
                .map_or(Exact::Integer(IBig::ZERO), |v| Exact::of(v, rules))
        };
        let function = match which {
            Builtin::Cos => Function::Cos,
            Builtin::Exp => Function::Exp,
            Builtin::Log => Function::Log,
            Builtin::Sin => Function::Sin,
            Builtin::Sqrt => Function::Sqrt,
            _ => return self.exact_other(which, args, &number, rules),
        };
        let (x, rules) = match number(0) {
            Exact::Integer(n) => {
                let rules = rules.wide(&n);
                (Exact::Integer(n).to_float(), rules)
            }
            Exact::Float(x) => (x, rules),
        };
        if matches!(which, Builtin::Log | Builtin::Sqrt)
            && x.is_negative()
            && matches!(x, Float::Finite(_) | Float::Infinite { .. })
        {
            let shown = String::from_utf8_lossy(&self.settings.text_of(&args[0])).into_owned();
            self.warn(&format!(
                "{}: received negative argument {shown}",
                which.name()
            ));
        }
        let result = functions::function(function, &x, rules)?;
        Ok(Some(Exact::Float(result).into_value()))
    }

    fn exact_other(
        &mut self,
        which: Builtin,
        args: &[Value],
        number: &dyn Fn(usize) -> Exact,
        rules: Rules,
    ) -> Result<Option<Value>> {
        let result = match which {
            Builtin::Int => match number(0) {
                Exact::Float(float) => {
                    let whole = Exact::Float(float.clone()).truncated();
                    whole.map_or(Exact::Float(float), Exact::Integer)
                }
                integer => integer,
            },
            Builtin::Atan2 => {
                let (y, x) = (number(0).to_float(), number(1).to_float());
                Exact::Float(functions::angle(&y, &x, rules)?)
            }
            Builtin::And
            | Builtin::Or
            | Builtin::Xor
            | Builtin::Compl
            | Builtin::Lshift
            | Builtin::Rshift => {
                let numbers: Vec<Exact> = (0..args.len()).map(number).collect();
                Exact::Integer(bits::function(which, &numbers)?)
            }
            Builtin::Strtonum => match &args[0] {
                value @ (Value::Small(_) | Value::Long(..) | Value::Regex(_))
                    if super::builtins::kind(value) != "strnum" =>
                {
                    text::strtonum(&self.settings.text_of(value), rules)
                }
                _ => number(0),
            },
            Builtin::Intdiv => {
                let array = self.array_argument("intdiv", 3, args.get(2))?;
                let divided = arith::integer_division(&number(0), &number(1));
                self.clear(array)?;
                let (quotient, rest) = match divided {
                    Ok(pair) => pair,
                    Err(why) => {
                        self.warn(&format!("intdiv: {why}: there is no result"));
                        return Ok(Some(Value::Num(-1.0)));
                    }
                };
                for (key, n) in [("quotient", quotient), ("remainder", rest)] {
                    let slot = self.store.entry(array, key.as_bytes())?;
                    let value = Exact::Integer(n).into_value();
                    self.store.set(array, slot, &value)?;
                }
                Exact::Integer(IBig::ZERO)
            }
            Builtin::Srand => {
                let seed = match args {
                    [] => None,
                    _ => Some(
                        number(0)
                            .truncated()
                            .ok_or_else(|| Fatal::new("srand: an infinity or NaN is no seed"))?,
                    ),
                };
                if let Some(seed) = &seed {
                    self.nums.push(Exact::Integer(seed.clone()).to_double());
                }
                self.srand(seed.is_some());
                let before = Value::Num(self.pop_num());
                let now = match seed {
                    Some(seed) => Exact::Integer(seed).into_value(),
                    None => Value::Num(self.seed),
                };
                let before = self.exact_seed.replace(now).unwrap_or(before);
                return Ok(Some(before));
            }
            _ => return Ok(None),
        };
        Ok(Some(result.into_value()))
    }
}
