//! What instructions do with the numbers and values on the stacks.
//!
//! Invariant: nothing here knows of the code: an operation takes its operands from where they lie and leaves its result there.

use awk_syntax::ast::ArithOp;

use super::Vm;
use crate::code::{Leave, NumFn, Step};
use crate::error::{Fatal, Step as Result};
use crate::format::Format;
use crate::value::{Value, compare};

impl Vm<'_> {
    #[inline]
    pub(super) fn num_function(&mut self, f: NumFn, n: f64) -> f64 {
        match f {
            NumFn::Cos => n.cos(),
            NumFn::Exp => n.exp(),
            NumFn::Int => n.trunc(),
            NumFn::Log | NumFn::Sqrt if n < 0.0 => self.out_of_range(f, n),
            NumFn::Log => n.ln(),
            NumFn::Sin => n.sin(),
            NumFn::Sqrt => n.sqrt(),
        }
    }

    #[inline]
    pub(super) fn leave(&mut self, step: Step, old: f64) {
        match step.leave {
            Leave::Nothing => {}
            Leave::Old => self.nums.push(old),
            Leave::New => self.nums.push(old + step.delta()),
        }
    }

    /// Whether the value on top is that of a `case`: it matches, for a regular expression, or is equal.
    pub(super) fn is_case(&mut self, case: &Value) -> Result<bool> {
        let subject = self.vals.last().cloned().unwrap_or(Value::Uninit);
        if let Value::Regex(text) = case {
            let regex = self.compiled(text)?;
            let subject = self.settings.text_of(&subject);
            return Ok(self.cased(&regex).is_match(&subject));
        }
        let order = compare(
            &subject,
            case,
            &self.settings.convfmt,
            self.settings.folded(),
        );
        Ok(order == Some(std::cmp::Ordering::Equal))
    }

    #[inline]
    pub(super) fn compare_top(&mut self) -> Option<std::cmp::Ordering> {
        let b = self.pop_val();
        let a = self.pop_val();
        if let (Value::Num(a), Value::Num(b)) = (&a, &b) {
            return a.partial_cmp(b);
        }
        compare(&a, &b, &self.settings.convfmt, self.settings.folded())
    }

    pub(super) fn compare_texts(&mut self) -> std::cmp::Ordering {
        let right = self.pop_mark();
        let left = self.pop_mark();
        let order = match self.settings.folded() {
            None => self.text[left..right].cmp(&self.text[right..]),
            Some(charset) => {
                crate::value::compare_folded(charset, &self.text[left..right], &self.text[right..])
            }
        };
        self.text.truncate(left);
        order
    }
}

/// `s = s more`.
pub(super) fn grow(place: &mut Value, more: &[u8], convfmt: &Format) {
    if place.grow(more) {
        return;
    }
    // Room to grow, so that appending in a loop does not begin with many moves.
    let mut text = Vec::with_capacity(more.len() * 2 + 64);
    place.append_to(convfmt, &mut text);
    text.extend_from_slice(more);
    *place = if text.len() > crate::value::SMALL_MAX {
        Value::long(text, false)
    } else {
        Value::text(&text, false)
    };
}

/// Arithmetic on two numbers.
#[inline]
pub(crate) fn arith(op: ArithOp, a: f64, b: f64) -> Result<f64> {
    Ok(match op {
        ArithOp::Add => a + b,
        ArithOp::Sub => a - b,
        ArithOp::Mul => a * b,
        ArithOp::Div if b == 0.0 => return Err(Fatal::new("division by zero")),
        ArithOp::Div => a / b,
        ArithOp::Mod if b == 0.0 => return Err(Fatal::new("division by zero in `%`")),
        ArithOp::Mod => remainder(a, b),
        ArithOp::Pow => power(a, b),
    })
}

/// `%`, with a short way for whole numbers: `fmod` is slow.
#[inline]
fn remainder(a: f64, b: f64) -> f64 {
    let (x, y) = (a as i64, b as i64);
    // Within 2^53 both are exact; a negative zero must stay one.
    if x as f64 == a && y as f64 == b && x > 0 && y > 0 {
        return (x % y) as f64;
    }
    a % b
}

#[inline]
fn power(a: f64, b: f64) -> f64 {
    if b == 2.0 { a * a } else { a.powf(b) }
}

/// The number of a field.
#[inline]
pub(super) fn field_number(n: f64) -> Result<usize> {
    if (0.0..4e9).contains(&n) {
        return Ok(n as usize);
    }
    Err(Fatal::new(format!("attempt to access field {n}")))
}
