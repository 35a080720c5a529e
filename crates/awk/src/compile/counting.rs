//! Programs that count and add up: the places where the machine may take many keys or records at once (`vm/input/count.rs`,
//! `vm/input/sum.rs`).

use awk_syntax::Place;
use awk_syntax::ast::*;
use awk_syntax::names::{Builtin, Special};

use super::Compiler;
use crate::code::*;

impl<'a> Compiler<'a> {
    /// Notes it if all that the rules for records do is to count a field in a global array.
    pub(super) fn count_in_batches(&mut self) {
        let globals = self.code.globals.len();
        let rules = &mut self.code.ops[self.code.main_start as usize..];
        if let [
            next,
            Op::StepElemField {
                array,
                field,
                step:
                    Step {
                        down,
                        leave: Leave::Nothing,
                    },
            },
            Op::Jump(_),
        ] = rules
            && let Op::NextRecord { end } = *next
            && (array.0 as usize) < globals
        {
            *next = Op::NextCounted {
                array: *array,
                field: *field,
                down: *down,
                end,
            };
        }
    }

    /// The same if all that they do is to add a field to a global.
    pub(super) fn sum_in_batches(&mut self) {
        let rules = &mut self.code.ops[self.code.main_start as usize..];
        let checked = matches!(rules, [_, _, Op::CheckWhole, ..]);
        let (next, field, sum) = match rules {
            [next, Op::NumField(field), sum, Op::Jump(_)] => (next, *field, *sum),
            [next, Op::NumField(field), Op::CheckWhole, sum, Op::Jump(_)] => (next, *field, *sum),
            _ => return,
        };
        if let Op::ArithGlobal {
            n,
            op: ArithOp::Add,
            keep: false,
        } = sum
            && let Op::NextRecord { end } = *next
        {
            *next = Op::NextSummed {
                n,
                field,
                checked,
                end,
            };
        }
    }

    /// In front of the loop `for (...; i <= NF; i++) a[$i]++`, where the key may also be `tolower($i)` or `toupper($i)`.
    pub(super) fn count_at_once(&mut self, cond: &'a Expr, step: &'a Stmt, body: &'a [Stmt]) {
        if self.wish.exact || self.wish.marked || !self.wish.ahead {
            return;
        }
        let counted = self.up_to_fields(cond).and_then(|var| {
            let StmtKind::Expr(step) = &step.kind else {
                return None;
            };
            let [one] = body else { return None };
            let StmtKind::Expr(one) = &one.kind else {
                return None;
            };
            let is_next = matches!(&step.kind, ExprKind::Step { target, down: false, .. }
                if self.is_global(target, var));
            is_next.then(|| self.counts_field(one, var)).flatten()
        });
        if let Some(op) = counted {
            self.emit(op);
        }
    }

    /// The global `i` of `i <= NF`.
    fn up_to_fields(&self, cond: &Expr) -> Option<u32> {
        let ExprKind::Compare {
            op: CompareOp::Le,
            left,
            right,
        } = &cond.ungrouped().kind
        else {
            return None;
        };
        let place = |e: &Expr| match e.ungrouped().kind {
            ExprKind::Var(name) => Some(self.program.place(name, self.inside)),
            _ => None,
        };
        match (place(left)?, place(right)?) {
            (Place::Global(var), Place::Special(Special::NF)) => Some(var),
            _ => None,
        }
    }

    fn is_global(&self, e: &Expr, var: u32) -> bool {
        match e.ungrouped().kind {
            ExprKind::Var(name) => self.program.place(name, self.inside) == Place::Global(var),
            _ => false,
        }
    }

    /// The instruction for `a[$i]++`.
    fn counts_field(&self, e: &Expr, var: u32) -> Option<Op> {
        let ExprKind::Step { target, down, .. } = &e.kind else {
            return None;
        };
        let ExprKind::Index { array, subs } = &target.kind else {
            return None;
        };
        let ([sub], []) = (subs.as_slice(), array.path.as_slice()) else {
            return None;
        };
        let Place::Global(array) = self.program.place(array.name, self.inside) else {
            return None;
        };
        let (case, field) = match &sub.ungrouped().kind {
            ExprKind::Builtin { which, args, .. } => match (which, args.as_slice()) {
                (Builtin::Tolower, [field]) => (KeyCase::Lower, field),
                (Builtin::Toupper, [field]) => (KeyCase::Upper, field),
                _ => return None,
            },
            _ => (KeyCase::AsItIs, sub),
        };
        match &field.ungrouped().kind {
            ExprKind::Field(number) if self.is_global(number, var) => Some(Op::CountFields {
                array: Arr(array),
                var,
                case,
                down: *down,
            }),
            _ => None,
        }
    }
}
