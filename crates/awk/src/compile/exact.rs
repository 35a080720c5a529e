//! Arithmetic for `--bignum`: in value mode, with instructions of its own.
//!
//! Invariant: nothing here runs unless the program is compiled for exact numbers; then a number on the number stack is
//! one that a double holds exactly, or one that only a double is wanted of (a field number, a position in text).

use awk_syntax::ast::*;
use awk_syntax::names::Builtin;

use super::facts::fold;
use super::{Compiler, Target};
use crate::code::*;

impl<'a> Compiler<'a> {
    /// The number that an expression is known to be, if a double does for it.
    pub(super) fn known(&self, e: &Expr) -> Option<f64> {
        if !self.wish.exact {
            return fold(e);
        }
        match &e.kind {
            ExprKind::Num(n) => self.is_small_integer(e, *n).then_some(*n),
            ExprKind::Group(inner) | ExprKind::Plus(inner) => self.known(inner),
            // `-0` is a float: integers have no negative zero.
            ExprKind::Minus(inner) => self.known(inner).filter(|n| *n != 0.0).map(|n| -n),
            ExprKind::Not(inner) => Some(f64::from(u8::from(self.known(inner)? == 0.0))),
            _ => None,
        }
    }

    /// Whether a literal is an integer that the machine holds as a double.
    fn is_small_integer(&self, e: &Expr, n: f64) -> bool {
        let text = self.program.sources.slice(e.span);
        let written = text.iter().all(u8::is_ascii_digit)
            || text.starts_with(b"0x")
            || text.starts_with(b"0X");
        written && n < 9_007_199_254_740_992.0
    }

    /// Whether an expression is arithmetic that must not be done with doubles.
    pub(super) fn is_exact(&self, e: &Expr) -> bool {
        self.wish.exact
            && match &e.kind {
                ExprKind::Num(_) | ExprKind::Minus(_) | ExprKind::Plus(_) => {
                    self.known(e).is_none()
                }
                ExprKind::Arith { .. }
                | ExprKind::Power { .. }
                | ExprKind::Step { .. }
                | ExprKind::Assign { op: Some(_), .. } => true,
                ExprKind::Builtin { which, .. } => is_exact_function(*which),
                _ => false,
            }
    }

    /// A number in the program text, perhaps with minuses directly before it, that no double holds. The machine reads it when
    /// the run begins, by the PREC and ROUNDMODE of then; in `-(0.1)` and `+0.1` the sign is an operator, which rounds.
    pub(super) fn literal(&mut self, e: &Expr) -> Option<u32> {
        if !self.wish.exact || self.known(e).is_some() {
            return None;
        }
        let (mut minus, mut inner) = (false, e);
        let near = loop {
            match &inner.kind {
                ExprKind::Minus(operand) => {
                    minus = !minus;
                    inner = operand;
                }
                ExprKind::Num(near) => break *near,
                _ => return None,
            }
        };
        let text = self.program.sources.slice(inner.span).to_vec();
        self.code.literals.push(Literal { text, near, minus });
        Some((self.code.literals.len() - 1) as u32)
    }

    /// The value of an expression for which `is_exact` holds.
    pub(super) fn exact_value(&mut self, e: &'a Expr) {
        if let Some(n) = self.literal(e) {
            self.emit(Op::ExactConst(n));
            return;
        }
        match &e.kind {
            ExprKind::Minus(operand) => {
                self.val(operand);
                self.emit(Op::ExactNeg);
            }
            ExprKind::Plus(operand) => {
                self.val(operand);
                self.emit(Op::ExactPlus);
            }
            ExprKind::Arith { first, rest } => {
                self.val(first);
                for (op, operand) in rest {
                    self.val(operand);
                    self.emit(Op::ExactArith(*op));
                }
            }
            ExprKind::Power { base, exponent } => {
                self.val(base);
                self.val(exponent);
                self.emit(Op::ExactArith(ArithOp::Pow));
            }
            ExprKind::Assign {
                target,
                op: Some(op),
                value,
            } => self.exact_assign(target, *op, value, true),
            ExprKind::Step {
                target,
                down,
                prefix,
            } => {
                let leave = if *prefix { Leave::New } else { Leave::Old };
                self.exact_step(target, Step { down: *down, leave });
            }
            ExprKind::Builtin { which, args, .. } => {
                for arg in args {
                    self.val(arg);
                }
                self.emit(Op::Builtin {
                    which: *which,
                    args: args.len() as u32,
                });
            }
            other => unreachable!("{other:?} is no exact arithmetic"),
        }
    }

    /// Pushes the value of a place whose computing needs nothing on a stack.
    fn load(&mut self, place: &Target<'a>) {
        match *place {
            Target::Global(n) => self.emit(Op::ValGlobal(n)),
            Target::Local(n) => self.emit(Op::ValLocal(n)),
            Target::Special(s) => self.emit(Op::ValSpecial(s)),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::ValFieldPeek);
            }
            Target::Elem(..) | Target::Symbol(_) => unreachable!("elements have keys"),
        }
    }

    /// Stores behind `load`.
    fn store_loaded(&mut self, place: &Target<'a>, keep: bool) {
        match *place {
            Target::Field(_) => self.emit(Op::StoreField { keep }),
            _ => self.store(place, keep),
        }
    }

    /// `target op= value`; with `keep` the new value stays on the value stack.
    pub(super) fn exact_assign(
        &mut self,
        target: &'a Expr,
        op: ArithOp,
        value: &'a Expr,
        keep: bool,
    ) {
        self.val(value);
        if let ExprKind::Index { array, subs } = &target.kind {
            let element = self.element(array, subs);
            self.peek(element);
            self.emit(Op::ExactUnder(op));
            self.store_under(element, keep);
            return;
        }
        let place = self.target(target);
        self.load(&place);
        self.emit(Op::ExactSwapped(op));
        self.store_loaded(&place, keep);
    }

    /// `++` and `--`.
    pub(super) fn exact_step(&mut self, target: &'a Expr, step: Step) {
        let keep = step.leave == Leave::New;
        let down = step.down;
        let old = step.leave == Leave::Old;
        if let ExprKind::Index { array, subs } = &target.kind {
            let element = self.element(array, subs);
            self.peek(element);
            self.emit(if old {
                Op::ExactStepUnder { down }
            } else {
                Op::ExactStep { down, old }
            });
            self.store_under(element, keep);
            return;
        }
        let place = self.target(target);
        self.load(&place);
        self.emit(Op::ExactStep { down, old });
        self.store_loaded(&place, keep);
    }
}

/// Functions of numbers whose results a double does not hold.
pub(super) fn is_exact_function(which: Builtin) -> bool {
    use Builtin::*;
    matches!(which, Atan2 | Cos | Exp | Int | Log | Sin | Sqrt | Srand)
}
