//! The parts of a tree's nodes, for walks that treat all of them alike.
//!
//! Invariant: every expression and every statement of a node is among its parts once, in the order of the source.

use super::{ArrayExpr, Expr, ExprKind, GetlineFrom, Pattern, Rule, Stmt, StmtKind};

/// What a statement consists of.
#[derive(Debug, Default)]
pub struct Parts<'a> {
    /// Its own expressions; those of statements in it are theirs.
    pub exprs: Vec<&'a Expr>,
    /// Statements in it, each list with a run of its own.
    pub bodies: Vec<&'a [Stmt]>,
}

impl Rule {
    /// The expressions of its pattern.
    pub fn pattern_exprs(&self) -> Vec<&Expr> {
        match &self.pattern {
            Pattern::Expr(e) => vec![e],
            Pattern::Range(from, to) => vec![from, to],
            Pattern::Begin
            | Pattern::End
            | Pattern::BeginFile
            | Pattern::EndFile
            | Pattern::Always => Vec::new(),
        }
    }
}

impl Stmt {
    /// Its parts.
    pub fn parts(&self) -> Parts<'_> {
        let mut parts = Parts::default();
        let Parts { exprs, bodies } = &mut parts;
        match &self.kind {
            StmtKind::Expr(e) => exprs.push(e),
            StmtKind::Print { args, to, .. } => {
                exprs.extend(args);
                exprs.extend(to.iter().map(|to| &to.target));
            }
            StmtKind::If { arms, otherwise } => {
                for (cond, body) in arms {
                    exprs.push(cond);
                    bodies.push(body);
                }
                bodies.extend(otherwise.as_deref());
            }
            StmtKind::While { cond, body } | StmtKind::DoWhile { body, cond } => {
                exprs.push(cond);
                bodies.push(body);
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                bodies.extend(init.as_deref().map(std::slice::from_ref));
                exprs.extend(cond);
                bodies.push(body);
                bodies.extend(step.as_deref().map(std::slice::from_ref));
            }
            StmtKind::ForIn { array, body, .. } => {
                exprs.extend(array.subscripts());
                bodies.push(body);
            }
            StmtKind::Switch { subject, cases } => {
                exprs.push(subject);
                for case in cases {
                    exprs.extend(&case.label);
                    bodies.push(&case.body);
                }
            }
            StmtKind::Block(body) => bodies.push(body),
            StmtKind::Exit(value) | StmtKind::Return(value) => exprs.extend(value),
            StmtKind::Delete { array, subs } => {
                exprs.extend(array.subscripts());
                exprs.extend(subs.iter().flatten());
            }
            StmtKind::Next | StmtKind::NextFile | StmtKind::Break | StmtKind::Continue => {}
        }
        parts
    }
}

impl ArrayExpr {
    /// All subscripts.
    pub fn subscripts(&self) -> impl Iterator<Item = &Expr> {
        self.path.iter().flatten()
    }
}

impl Expr {
    /// The operands, arguments and subscripts.
    pub fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Num(_)
            | ExprKind::Str(_)
            | ExprKind::Translated(_)
            | ExprKind::Regex(_)
            | ExprKind::TypedRegex(_)
            | ExprKind::Var(_) => Vec::new(),
            ExprKind::Field(inner)
            | ExprKind::Group(inner)
            | ExprKind::Not(inner)
            | ExprKind::Minus(inner)
            | ExprKind::Plus(inner)
            | ExprKind::Step { target: inner, .. } => vec![inner],
            ExprKind::Index { array, subs } => array.subscripts().chain(subs).collect(),
            ExprKind::In { subs, array } => subs.iter().chain(array.subscripts()).collect(),
            ExprKind::Tuple(list)
            | ExprKind::Concat(list)
            | ExprKind::And(list)
            | ExprKind::Or(list)
            | ExprKind::Call { args: list, .. }
            | ExprKind::IndirectCall { args: list, .. }
            | ExprKind::Builtin { args: list, .. } => list.iter().collect(),
            ExprKind::Arith { first, rest } => {
                let rest = rest.iter().map(|(_, operand)| operand);
                std::iter::once(&**first).chain(rest).collect()
            }
            ExprKind::Power {
                base: left,
                exponent: right,
            }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::Match { left, right, .. }
            | ExprKind::Assign {
                target: left,
                value: right,
                ..
            } => vec![left, right],
            ExprKind::Cond { arms, otherwise } => {
                let pairs = arms.iter().flat_map(|(cond, yes)| [cond, yes]);
                pairs.chain([&**otherwise]).collect()
            }
            ExprKind::Getline { target, from } => {
                let source = match from {
                    GetlineFrom::Main => None,
                    GetlineFrom::File(source) => {
                        return target.iter().map(|t| &**t).chain([&**source]).collect();
                    }
                    GetlineFrom::Command(source) | GetlineFrom::Coprocess(source) => Some(source),
                };
                source
                    .into_iter()
                    .chain(target.as_ref())
                    .map(|e| &**e)
                    .collect()
            }
        }
    }
}
