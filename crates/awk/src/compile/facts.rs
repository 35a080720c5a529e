//! What is known of an expression without running it.

use awk_syntax::Place;
use awk_syntax::ast::*;
use awk_syntax::names::{Builtin, Special};

use super::Compiler;

impl Compiler<'_> {
    /// Whether it always gives a number.
    pub(super) fn is_num(&self, e: &Expr) -> bool {
        if self.is_exact(e) {
            return false;
        }
        match &e.kind {
            ExprKind::Num(_)
            | ExprKind::Regex(_)
            | ExprKind::Not(_)
            | ExprKind::Minus(_)
            | ExprKind::Plus(_)
            | ExprKind::Arith { .. }
            | ExprKind::Power { .. }
            | ExprKind::Compare { .. }
            | ExprKind::Match { .. }
            | ExprKind::In { .. }
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Step { .. }
            | ExprKind::Getline { .. } => true,
            ExprKind::Var(name) => match self.program.place(*name, self.inside) {
                Place::Special(s) => is_num_special(s),
                _ => false,
            },
            ExprKind::Group(inner) => self.is_num(inner),
            ExprKind::Cond { arms, otherwise } => {
                arms.iter().all(|(_, yes)| self.is_num(yes)) && self.is_num(otherwise)
            }
            ExprKind::Assign { op, value, .. } => op.is_some() || self.is_num(value),
            ExprKind::Builtin { which, args, .. } => gives_number(*which, args),
            _ => false,
        }
    }

    /// Whether it always gives a string that is no numeric string.
    pub(super) fn is_text(&self, e: &Expr) -> bool {
        match &e.ungrouped().kind {
            ExprKind::Str(_) | ExprKind::Concat(_) => true,
            ExprKind::Builtin { which, .. } => {
                matches!(
                    which,
                    Builtin::Sprintf | Builtin::Substr | Builtin::Tolower | Builtin::Toupper
                )
            }
            _ => false,
        }
    }
}

/// Special variables that always hold numbers.
pub(super) fn is_num_special(s: Special) -> bool {
    matches!(
        s,
        Special::NR | Special::NF | Special::FNR | Special::RSTART | Special::RLENGTH
    )
}

/// Whether a function has an instruction that leaves a number on the number stack.
pub(super) fn gives_number(which: Builtin, args: &[Expr]) -> bool {
    use Builtin::*;
    match which {
        Atan2 | Close | Cos | Exp | Fflush | Gsub | Index | Int | Length | Log | Rand | Sin
        | Sqrt | Srand | Sub | System => true,
        Match | Split => args.len() <= 3,
        _ => false,
    }
}

/// Where a function takes an array.
pub(super) fn is_array_argument(which: Builtin, at: usize) -> bool {
    use Builtin::*;
    match which {
        Asort | Asorti => at < 2,
        Split | Patsplit => at == 1 || at == 3,
        Match | Intdiv => at == 2,
        Fts => at == 0 || at == 2,
        Stat | Statvfs | Reada | Writea => at == 1,
        _ => false,
    }
}

/// Where a function takes a regular expression.
pub(super) fn is_regex_argument(which: Builtin, at: usize) -> bool {
    use Builtin::*;
    match which {
        Gensub => at == 0,
        Match => at == 1,
        Split | Patsplit => at == 2,
        _ => false,
    }
}

/// The number of a field that is known now.
pub(super) fn const_field(number: &Expr) -> Option<u32> {
    let n = fold(number)?;
    (0.0..=1e6).contains(&n).then_some(n as u32)
}

/// The value of a constant expression. Division by zero is left to the machine, which reports it if it is reached.
pub(super) fn fold(e: &Expr) -> Option<f64> {
    match &e.kind {
        ExprKind::Num(n) => Some(*n),
        ExprKind::Group(inner) | ExprKind::Plus(inner) => fold(inner),
        ExprKind::Minus(inner) => Some(-fold(inner)?),
        ExprKind::Not(inner) => Some(if fold(inner)? == 0.0 { 1.0 } else { 0.0 }),
        ExprKind::Arith { first, rest } => {
            let mut n = fold(first)?;
            for (op, operand) in rest {
                let m = fold(operand)?;
                n = match op {
                    ArithOp::Add => n + m,
                    ArithOp::Sub => n - m,
                    ArithOp::Mul => n * m,
                    ArithOp::Div if m != 0.0 => n / m,
                    ArithOp::Mod if m != 0.0 => n % m,
                    _ => return None,
                };
            }
            Some(n)
        }
        _ => None,
    }
}

/// Whether computing it changes no variable, calls no function and does no output or input: then the order in which it is
/// computed relative to its neighbours does not show.
pub(super) fn is_quiet(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Num(_)
        | ExprKind::Str(_)
        | ExprKind::Regex(_)
        | ExprKind::TypedRegex(_)
        | ExprKind::Var(_) => true,
        ExprKind::Field(inner)
        | ExprKind::Group(inner)
        | ExprKind::Not(inner)
        | ExprKind::Minus(inner)
        | ExprKind::Plus(inner) => is_quiet(inner),
        ExprKind::Index { array, subs } | ExprKind::In { subs, array } => {
            subs.iter().all(is_quiet) && array.path.iter().flatten().all(is_quiet)
        }
        ExprKind::Tuple(list)
        | ExprKind::Concat(list)
        | ExprKind::And(list)
        | ExprKind::Or(list) => list.iter().all(is_quiet),
        ExprKind::Arith { first, rest } => is_quiet(first) && rest.iter().all(|(_, e)| is_quiet(e)),
        ExprKind::Power {
            base: left,
            exponent: right,
        }
        | ExprKind::Compare { left, right, .. }
        | ExprKind::Match { left, right, .. } => is_quiet(left) && is_quiet(right),
        ExprKind::Cond { arms, otherwise } => {
            let both = |(cond, yes): &(Expr, Expr)| is_quiet(cond) && is_quiet(yes);
            arms.iter().all(both) && is_quiet(otherwise)
        }
        ExprKind::Builtin { which, args, .. } => {
            let pure = matches!(
                which,
                Builtin::Atan2
                    | Builtin::Cos
                    | Builtin::Exp
                    | Builtin::Index
                    | Builtin::Int
                    | Builtin::Length
                    | Builtin::Log
                    | Builtin::Sin
                    | Builtin::Sprintf
                    | Builtin::Sqrt
                    | Builtin::Substr
                    | Builtin::Tolower
                    | Builtin::Toupper
            );
            pure && args.iter().all(is_quiet)
        }
        ExprKind::Assign { .. }
        | ExprKind::Step { .. }
        | ExprKind::Call { .. }
        | ExprKind::IndirectCall { .. }
        | ExprKind::Translated(_)
        | ExprKind::Getline { .. } => false,
    }
}

/// The regular expression that `$0` matches whenever `e` is true, if there is one.
pub(super) fn matched_by(e: &Expr) -> Option<&[u8]> {
    match &e.ungrouped().kind {
        ExprKind::Regex(text) => Some(text),
        ExprKind::Match {
            negated: false,
            left,
            right,
        } => {
            let is_whole =
                matches!(&left.ungrouped().kind, ExprKind::Field(n) if const_field(n) == Some(0));
            match &right.ungrouped().kind {
                ExprKind::Regex(text) if is_whole => Some(text),
                _ => None,
            }
        }
        // What comes before the last is always computed.
        ExprKind::And(operands) => operands.first().and_then(matched_by),
        _ => None,
    }
}
