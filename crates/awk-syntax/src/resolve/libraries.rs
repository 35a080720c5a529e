//! Calls of library functions: `sleep(1)` is a call like any other until it is known that the program loads `time`; and of
//! `intdiv`, which is built in unless the program brings its own.
//!
//! Invariant: afterwards a library's function is called by `ExprKind::Builtin` wherever its library is loaded, before and
//! behind the `@load`, and by `ExprKind::Call` nowhere.

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::names::{Builtin, Library, Names, Origin, Symbol};

/// The function called `name` in one of `libraries`.
pub(super) fn function(names: &Names, name: Symbol, libraries: &[Library]) -> Option<Builtin> {
    let which = Builtin::from_name(names.text(name).as_bytes())?;
    match which.origin() {
        Origin::Library(library) if libraries.contains(&library) => Some(which),
        _ => None,
    }
}

/// Makes the calls of library functions known as such.
pub(super) struct Rewrite<'a> {
    pub(super) names: &'a Names,
    pub(super) libraries: &'a [Library],
    /// The name `intdiv`, if neither program nor heap define it.
    pub(super) intdiv: Option<Symbol>,
    pub(super) diagnostics: &'a mut Diagnostics,
}

impl Rewrite<'_> {
    pub(super) fn rule(&mut self, rule: &mut Rule) {
        match &mut rule.pattern {
            Pattern::Expr(e) => self.expr(e),
            Pattern::Range(from, to) => {
                self.expr(from);
                self.expr(to);
            }
            _ => {}
        }
        if let Some(body) = &mut rule.body {
            self.body(body);
        }
    }

    pub(super) fn body(&mut self, body: &mut [Stmt]) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &mut Stmt) {
        match &mut statement.kind {
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::Print { args, to, .. } => {
                self.list(args);
                if let Some(to) = to {
                    self.expr(&mut to.target);
                }
            }
            StmtKind::If { arms, otherwise } => {
                for (cond, body) in arms {
                    self.expr(cond);
                    self.body(body);
                }
                self.body(otherwise.as_deref_mut().unwrap_or_default());
            }
            StmtKind::While { cond, body } | StmtKind::DoWhile { body, cond } => {
                self.expr(cond);
                self.body(body);
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                for part in [init, step].into_iter().flatten() {
                    self.statement(part);
                }
                if let Some(cond) = cond {
                    self.expr(cond);
                }
                self.body(body);
            }
            StmtKind::ForIn { array, body, .. } => {
                self.array(array);
                self.body(body);
            }
            StmtKind::Switch { subject, cases } => {
                self.expr(subject);
                for case in cases {
                    self.body(&mut case.body);
                }
            }
            StmtKind::Block(body) => self.body(body),
            StmtKind::Exit(value) | StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.expr(value);
                }
            }
            StmtKind::Delete { array, subs } => {
                self.array(array);
                self.list(subs.as_deref_mut().unwrap_or_default());
            }
            StmtKind::Next | StmtKind::NextFile | StmtKind::Break | StmtKind::Continue => {}
        }
    }

    fn array(&mut self, array: &mut ArrayExpr) {
        for subs in &mut array.path {
            self.list(subs);
        }
    }

    fn list(&mut self, list: &mut [Expr]) {
        for e in list {
            self.expr(e);
        }
    }

    fn expr(&mut self, e: &mut Expr) {
        match &mut e.kind {
            ExprKind::Num(_)
            | ExprKind::Str(_)
            | ExprKind::Translated(_)
            | ExprKind::Regex(_)
            | ExprKind::TypedRegex(_)
            | ExprKind::Var(_) => {}
            ExprKind::Field(inner)
            | ExprKind::Group(inner)
            | ExprKind::Not(inner)
            | ExprKind::Minus(inner)
            | ExprKind::Plus(inner)
            | ExprKind::Step { target: inner, .. } => self.expr(inner),
            ExprKind::Index { array, subs } | ExprKind::In { array, subs } => {
                self.array(array);
                self.list(subs);
            }
            ExprKind::Tuple(list)
            | ExprKind::Concat(list)
            | ExprKind::And(list)
            | ExprKind::Or(list)
            | ExprKind::IndirectCall { args: list, .. }
            | ExprKind::Builtin { args: list, .. } => self.list(list),
            ExprKind::Arith { first, rest } => {
                self.expr(first);
                for (_, operand) in rest {
                    self.expr(operand);
                }
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
            } => {
                self.expr(left);
                self.expr(right);
            }
            ExprKind::Cond { arms, otherwise } => {
                for (cond, yes) in arms {
                    self.expr(cond);
                    self.expr(yes);
                }
                self.expr(otherwise);
            }
            ExprKind::Getline { target, from } => {
                if let Some(target) = target {
                    self.expr(target);
                }
                if let GetlineFrom::File(source)
                | GetlineFrom::Command(source)
                | GetlineFrom::Coprocess(source) = from
                {
                    self.expr(source);
                }
            }
            ExprKind::Call { name, args } => {
                self.list(args);
                let which = if self.intdiv == Some(*name) {
                    Some(Builtin::Intdiv)
                } else {
                    function(self.names, *name, self.libraries)
                };
                if let Some(which) = which {
                    let (least, most) = which.arity();
                    if args.len() < least || args.len() > most {
                        let wanted = if least == most {
                            least.to_string()
                        } else {
                            format!("{least} to {most}")
                        };
                        let message = format!(
                            "`{}` takes {wanted} argument(s), here are {}",
                            which.name(),
                            args.len()
                        );
                        self.diagnostics.misuse(e.span, message);
                    }
                    e.kind = ExprKind::Builtin {
                        which,
                        args: std::mem::take(args),
                        parens: true,
                    };
                }
            }
        }
    }
}
