//! The forms in which programs sum up and look for extremes.
//!
//! Invariant: two expressions are the same only if they are written alike, but for parentheses and places.

use crate::ast::*;

/// A variable that becomes another value if that is larger, or smaller.
#[derive(Clone, Copy, Debug)]
pub struct Extreme<'a> {
    /// The variable or element.
    pub target: &'a Expr,
    /// What it is compared with and becomes.
    pub value: &'a Expr,
    /// It becomes the larger of the two.
    pub greater: bool,
    /// Where it holds nothing, it becomes the value whatever that is.
    pub guarded: bool,
    /// What else is done then.
    pub rest: &'a [Stmt],
}

/// `if (value > target) target = value` and its kin: the condition and what is done.
pub fn extreme<'a>(cond: &'a Expr, body: &'a [Stmt]) -> Option<Extreme<'a>> {
    let mut body = body;
    while let [
        Stmt {
            kind: StmtKind::Block(inner),
            ..
        },
    ] = body
    {
        body = inner;
    }
    let (first, rest) = body.split_first()?;
    let StmtKind::Expr(assignment) = &first.kind else {
        return None;
    };
    let ExprKind::Assign {
        target,
        op: None,
        value,
    } = &assignment.ungrouped().kind
    else {
        return None;
    };
    if matches!(target.kind, ExprKind::Field(_)) {
        return None;
    }
    // Whoever looks at the value first must not make elements in another order.
    let looks_up = |e: &Expr| !e.children().is_empty() && indexes(e);
    let in_target = match &target.kind {
        ExprKind::Index { subs, .. } => subs.iter().any(indexes),
        _ => false,
    };
    if looks_up(value) || in_target {
        return None;
    }
    let (guard, comparison) = match &cond.ungrouped().kind {
        ExprKind::Or(operands) => match operands.as_slice() {
            [guard, comparison] => (Some(guard), comparison.ungrouped()),
            _ => return None,
        },
        _ => (None, cond.ungrouped()),
    };
    let ExprKind::Compare { op, left, right } = &comparison.kind else {
        return None;
    };
    let larger_left = match op {
        CompareOp::Gt => true,
        CompareOp::Lt => false,
        _ => return None,
    };
    let greater = if same(left, value) && same(right, target) {
        larger_left
    } else if same(left, target) && same(right, value) {
        !larger_left
    } else {
        return None;
    };
    let guarded = match guard {
        Some(guard) if is_guard(guard, target) => true,
        Some(_) => return None,
        None => false,
    };
    Some(Extreme {
        target,
        value,
        greater,
        guarded,
        rest,
    })
}

/// Whether an element of an array is looked up in it.
fn indexes(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Index { .. }) || e.children().into_iter().any(indexes)
}

/// Whether it is true exactly where `target` holds nothing: `target == ""`, `!(k in a)` for `a[k]`.
fn is_guard(guard: &Expr, target: &Expr) -> bool {
    match &guard.ungrouped().kind {
        ExprKind::Compare {
            op: CompareOp::Eq,
            left,
            right,
        } => {
            let is_empty =
                |e: &Expr| matches!(&e.ungrouped().kind, ExprKind::Str(s) if s.is_empty());
            same(left, target) && is_empty(right) || same(right, target) && is_empty(left)
        }
        ExprKind::Not(inner) => match (&inner.ungrouped().kind, &target.kind) {
            (
                ExprKind::In { subs, array },
                ExprKind::Index {
                    array: held,
                    subs: wanted,
                },
            ) => array.name == held.name && held.path.is_empty() && same_list(subs, wanted),
            _ => false,
        },
        _ => false,
    }
}

/// `x = x + n`: what is added to the variable, and whether it is taken away from it. It does nothing else.
pub fn summand<'a>(target: &Expr, value: &'a Expr) -> Option<(&'a Expr, bool)> {
    let ExprKind::Arith { first, rest } = &value.ungrouped().kind else {
        return None;
    };
    let found = match rest.as_slice() {
        [(ArithOp::Add, n)] if is_var(target) && same(first, target) => Some((n, false)),
        [(ArithOp::Sub, n)] if is_var(target) && same(first, target) => Some((n, true)),
        [(ArithOp::Add, n)] if is_var(target) && same(n, target) => Some((&**first, false)),
        _ => None,
    };
    found.filter(|(n, _)| is_quiet(n))
}

fn is_var(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Var(_))
}

/// `x = x text`: what is appended. It does nothing else.
pub(super) fn appended<'a>(target: &Expr, value: &'a Expr) -> Option<&'a [Expr]> {
    let ExprKind::Concat(list) = &value.ungrouped().kind else {
        return None;
    };
    match list.split_first() {
        Some((first, rest)) if first.is_lvalue() && same(first, target) => {
            Some(rest).filter(|rest| rest.iter().all(is_quiet))
        }
        _ => None,
    }
}

fn same_list(a: &[Expr], b: &[Expr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Whether both are written alike and give the same wherever they stand: nothing in them changes anything.
fn same(a: &Expr, b: &Expr) -> bool {
    use ExprKind as K;
    match (&a.ungrouped().kind, &b.ungrouped().kind) {
        (K::Num(a), K::Num(b)) => a.to_bits() == b.to_bits(),
        (K::Str(a), K::Str(b)) => a == b,
        (K::Var(a), K::Var(b)) => a == b,
        (K::Field(a), K::Field(b))
        | (K::Minus(a), K::Minus(b))
        | (K::Plus(a), K::Plus(b))
        | (K::Not(a), K::Not(b)) => same(a, b),
        (K::Concat(a), K::Concat(b)) => same_list(a, b),
        (
            K::Index {
                array: a,
                subs: subs_a,
            },
            K::Index {
                array: b,
                subs: subs_b,
            },
        ) => {
            a.name == b.name && a.path.is_empty() && b.path.is_empty() && same_list(subs_a, subs_b)
        }
        (
            K::Arith {
                first: a,
                rest: more_a,
            },
            K::Arith {
                first: b,
                rest: more_b,
            },
        ) => {
            same(a, b)
                && more_a.len() == more_b.len()
                && more_a
                    .iter()
                    .zip(more_b)
                    .all(|((op_a, a), (op_b, b))| op_a == op_b && same(a, b))
        }
        (
            K::Builtin {
                which: a,
                args: args_a,
                ..
            },
            K::Builtin {
                which: b,
                args: args_b,
                ..
            },
        ) => {
            use crate::names::Builtin::{Int, Length, Substr, Tolower, Toupper};
            a == b
                && matches!(a, Int | Length | Substr | Tolower | Toupper)
                && same_list(args_a, args_b)
        }
        _ => false,
    }
}

/// Whether it does nothing but give a value.
pub(super) fn is_quiet(e: &Expr) -> bool {
    use crate::names::Builtin as B;
    let is_own = match &e.kind {
        ExprKind::Assign { .. }
        | ExprKind::Step { .. }
        | ExprKind::Call { .. }
        | ExprKind::IndirectCall { .. }
        | ExprKind::Getline { .. } => false,
        ExprKind::Builtin { which, .. } => {
            !matches!(which, B::Sub | B::Gsub | B::Match | B::Split | B::Patsplit)
        }
        _ => true,
    };
    is_own && e.children().into_iter().all(is_quiet)
}
