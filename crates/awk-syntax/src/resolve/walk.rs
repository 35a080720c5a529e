//! One walk over the tree that tells how names are used.
//!
//! Invariant: every name of the tree is told exactly once, as a call, a scalar, an array or as what it may be either of.

use crate::ast::*;
use crate::names::{Builtin, Symbol};
use crate::span::Span;

/// What a walk wants to see.
pub(super) trait Walk {
    fn call(&mut self, _name: Symbol, _args: &[Expr], _span: Span) -> bool {
        true
    }
    fn scalar(&mut self, _name: Symbol, _span: Span) {}
    fn array(&mut self, _name: Symbol, _span: Span) {}
    /// A bare name that may be either: an argument of `length`, `typeof`, or of a function that only a variable names.
    fn either(&mut self, _name: Symbol, _span: Span) {}
    /// A call through a variable.
    fn indirect(&mut self) {}
    /// A special array, `FUNCTAB` or `SYMTAB`, of which an element or the whole is written, or its elements deleted.
    fn written(&mut self, _name: Symbol, _how: Written, _span: Span) {}
}

pub(super) fn walk_rule(walk: &mut impl Walk, rule: &Rule) {
    match &rule.pattern {
        Pattern::Expr(e) => walk_expr(walk, e),
        Pattern::Range(from, to) => {
            walk_expr(walk, from);
            walk_expr(walk, to);
        }
        Pattern::Begin | Pattern::End | Pattern::BeginFile | Pattern::EndFile | Pattern::Always => {
        }
    }
    if let Some(body) = &rule.body {
        walk_body(walk, body);
    }
}

pub(super) fn walk_body(walk: &mut impl Walk, body: &[Stmt]) {
    for statement in body {
        walk_statement(walk, statement);
    }
}

fn walk_statement(walk: &mut impl Walk, statement: &Stmt) {
    match &statement.kind {
        StmtKind::Expr(e) => walk_expr(walk, e),
        StmtKind::Print { args, to, .. } => {
            walk_list(walk, args);
            if let Some(to) = to {
                walk_expr(walk, &to.target);
            }
        }
        StmtKind::If { arms, otherwise } => {
            for (cond, body) in arms {
                walk_expr(walk, cond);
                walk_body(walk, body);
            }
            if let Some(body) = otherwise {
                walk_body(walk, body);
            }
        }
        StmtKind::While { cond, body } | StmtKind::DoWhile { body, cond } => {
            walk_expr(walk, cond);
            walk_body(walk, body);
        }
        StmtKind::For {
            init,
            cond,
            step,
            body,
        } => {
            if let Some(init) = init {
                walk_statement(walk, init);
            }
            if let Some(cond) = cond {
                walk_expr(walk, cond);
            }
            walk_body(walk, body);
            if let Some(step) = step {
                walk_statement(walk, step);
            }
        }
        StmtKind::ForIn {
            var,
            var_span,
            array,
            body,
        } => {
            walk.scalar(*var, *var_span);
            walk_array(walk, array);
            walk_body(walk, body);
        }
        StmtKind::Block(body) => walk_body(walk, body),
        StmtKind::Exit(value) | StmtKind::Return(value) => {
            if let Some(value) = value {
                walk_expr(walk, value);
            }
        }
        StmtKind::Delete { array, subs } => {
            walk_array(walk, array);
            walk.written(array.name, Written::Delete, array.span);
            if let Some(subs) = subs {
                walk_list(walk, subs);
            }
        }
        StmtKind::Switch { subject, cases } => {
            walk_expr(walk, subject);
            for case in cases {
                walk_body(walk, &case.body); // labels are constants
            }
        }
        StmtKind::Next | StmtKind::NextFile | StmtKind::Break | StmtKind::Continue => {}
    }
}

/// How an array is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    /// `a[i] = 1`
    Element,
    /// `delete a`, `delete a[i]`
    Delete,
    /// Filled by a built-in function.
    Filled(Builtin),
}

fn walk_list(walk: &mut impl Walk, list: &[Expr]) {
    for e in list {
        walk_expr(walk, e);
    }
}

fn walk_array(walk: &mut impl Walk, array: &ArrayExpr) {
    walk.array(array.name, array.span);
    for subs in &array.path {
        walk_list(walk, subs);
    }
}

/// What is assigned to.
fn walk_target(walk: &mut impl Walk, target: &Expr) {
    walk_expr(walk, target);
    if let ExprKind::Index { array, .. } = &target.kind {
        walk.written(array.name, Written::Element, target.span);
    }
}

pub(super) fn walk_expr(walk: &mut impl Walk, e: &Expr) {
    match &e.kind {
        ExprKind::Num(_)
        | ExprKind::Str(_)
        | ExprKind::Translated(_)
        | ExprKind::Regex(_)
        | ExprKind::TypedRegex(_) => {}
        ExprKind::Var(name) => walk.scalar(*name, e.span),
        ExprKind::Field(inner)
        | ExprKind::Group(inner)
        | ExprKind::Not(inner)
        | ExprKind::Minus(inner)
        | ExprKind::Plus(inner) => walk_expr(walk, inner),
        ExprKind::Index { array, subs } => {
            walk_array(walk, array);
            walk_list(walk, subs);
        }
        ExprKind::Tuple(list)
        | ExprKind::Concat(list)
        | ExprKind::And(list)
        | ExprKind::Or(list) => walk_list(walk, list),
        ExprKind::Arith { first, rest } => {
            walk_expr(walk, first);
            for (_, operand) in rest {
                walk_expr(walk, operand);
            }
        }
        ExprKind::Power {
            base: left,
            exponent: right,
        }
        | ExprKind::Compare { left, right, .. }
        | ExprKind::Match { left, right, .. } => {
            walk_expr(walk, left);
            walk_expr(walk, right);
        }
        ExprKind::In { subs, array } => {
            walk_list(walk, subs);
            walk_array(walk, array);
        }
        ExprKind::Cond { arms, otherwise } => {
            for (cond, yes) in arms {
                walk_expr(walk, cond);
                walk_expr(walk, yes);
            }
            walk_expr(walk, otherwise);
        }
        ExprKind::Assign { target, value, .. } => {
            walk_target(walk, target);
            walk_expr(walk, value);
        }
        ExprKind::Step { target, .. } => walk_target(walk, target),
        ExprKind::Call { name, args } => {
            if walk.call(*name, args, e.span) {
                walk_list(walk, args);
            }
        }
        ExprKind::IndirectCall {
            name,
            name_span,
            args,
        } => {
            walk.indirect();
            walk.scalar(*name, *name_span);
            for arg in args {
                match &arg.kind {
                    ExprKind::Var(name) => walk.either(*name, arg.span),
                    _ => walk_expr(walk, arg),
                }
            }
        }
        ExprKind::Builtin { which, args, .. } => walk_builtin(walk, *which, args),
        ExprKind::Getline { target, from } => {
            if let Some(target) = target {
                walk_target(walk, target);
            }
            match from {
                GetlineFrom::Main => {}
                GetlineFrom::File(source)
                | GetlineFrom::Command(source)
                | GetlineFrom::Coprocess(source) => walk_expr(walk, source),
            }
        }
    }
}

/// What an argument of a built-in function has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Value,
    /// An array that is read.
    Array,
    /// An array that the function fills.
    Filled,
    Either,
}

fn wanted(which: Builtin, at: usize) -> Wanted {
    use Builtin::*;
    match (which, at) {
        (Split | Patsplit, 1 | 3)
        | (Match | Intdiv | Fts, 2)
        | (Asort | Asorti, 1)
        | (Stat | Statvfs | Reada | Typeof, 1) => Wanted::Filled,
        (Asort | Asorti | Fts, 0) | (Writea, 1) => Wanted::Array,
        (Length | Typeof | Isarray, 0) => Wanted::Either,
        _ => Wanted::Value,
    }
}

fn walk_builtin(walk: &mut impl Walk, which: Builtin, args: &[Expr]) {
    for (at, arg) in args.iter().enumerate() {
        let bare = arg.ungrouped();
        let wanted = wanted(which, at);
        match (&bare.kind, wanted) {
            (ExprKind::Var(name), Wanted::Array | Wanted::Filled) => walk.array(*name, arg.span),
            (ExprKind::Var(name), Wanted::Either) => walk.either(*name, arg.span),
            _ => walk_expr(walk, arg),
        }
        if wanted == Wanted::Filled
            && let ExprKind::Var(name) = &bare.kind
        {
            walk.written(*name, Written::Filled(which), arg.span);
        }
    }
}
