//! What the code of a program whose records several processes share looks at besides (`-j`): that sums are exact and extremes
//! have an order, whoever reads which record.

use awk_syntax::Place;
use awk_syntax::ast::*;
use awk_syntax::independence::{Merge, MergeArray, extreme, summand};
use awk_syntax::names::Symbol;

use super::{Compiler, Target};
use crate::code::Op;

impl<'a> Compiler<'a> {
    /// How a global scalar is put together.
    fn merge(&self, n: u32) -> Option<Merge> {
        self.shared.and_then(|plan| plan.scalar(n))
    }

    /// How the elements of a global array are.
    fn merge_elements(&self, name: Symbol) -> Option<Merge> {
        let plan = self.shared?;
        match self.program.place(name, self.inside) {
            Place::Global(n) => match plan.array(n) {
                Some(MergeArray::Elements(merge)) => Some(merge),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether numbers that are added to it make a sum of several processes.
    fn is_shared_sum(&self, place: &Target<'a>) -> bool {
        let merge = match place {
            Target::Global(n) => self.merge(*n),
            Target::Elem(array, _) => self.merge_elements(array.name),
            _ => None,
        };
        merge == Some(Merge::Sum)
    }

    /// Before the number on top is added to a variable, or taken away.
    pub(super) fn check_summand(&mut self, place: &Target<'a>) {
        if self.is_shared_sum(place) {
            self.emit(Op::CheckWhole);
        }
    }

    /// `x = x + n` as `x += n`, so that what is added is seen.
    pub(super) fn adds(&mut self, target: &'a Expr, place: &Target<'a>, value: &'a Expr) -> bool {
        if !self.is_shared_sum(place) {
            return false;
        }
        let Some((n, down)) = summand(target, value) else {
            return false;
        };
        self.num(n);
        let op = if down { ArithOp::Sub } else { ArithOp::Add };
        self.arith_assign(place, op, false);
        true
    }

    /// Before `if (value > target)`, where that looks for an extreme.
    pub(super) fn check_extreme(&mut self, cond: &'a Expr, body: &'a [Stmt]) {
        if self.shared.is_none() {
            return;
        }
        let Some(found) = extreme(cond, body) else {
            return;
        };
        let merge = match &found.target.kind {
            ExprKind::Var(name) => match self.program.place(*name, self.inside) {
                Place::Global(n) => self.merge(n),
                _ => None,
            },
            ExprKind::Index { array, .. } => self.merge_elements(array.name),
            _ => None,
        };
        if matches!(merge, Some(Merge::Extreme { .. })) {
            self.val(found.value);
            self.emit(Op::CheckNumber);
        }
    }
}
