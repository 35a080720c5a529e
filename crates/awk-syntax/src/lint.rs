//! Warnings about the tree of a program (`--lint`): what is doubtful, or not every AWK's.
//!
//! Invariant: the tree is only looked at; a program runs alike with and without. What the words and numbers of the text
//! give away, the lexer says. The wording is gawk's; "unreachable statement" and "value is not used" of a built-in
//! function are ours. What needs the values of a run (uninitialised variables) is the interpreter's.

use std::collections::HashSet;

use crate::ast::*;
use crate::diagnostic::{Diagnostics, Lint};
use crate::names::{Builtin, Names, Symbol};
use crate::resolve::Resolved;
use crate::span::{Sources, Span};

/// The name of sources that no file holds: gawk adds the missing end of line to those.
pub const COMMAND_LINE: &str = "cmd. line";

/// Warns about the sources themselves, and about a program without text.
pub(crate) fn sources(sources: &Sources, tree: &Program, diagnostics: &mut Diagnostics) {
    let mut last = Span::default();
    for number in 0..sources.len() as u32 {
        let source = sources.get(number);
        let end = source.text.len() as u32;
        last = Span {
            source: number,
            start: end,
            end,
        };
        if source.text.is_empty() {
            let message = format!("source file `{}' is empty", source.name);
            diagnostics.lint(Lint::General, last, message);
        } else if source.name != COMMAND_LINE && !source.text.ends_with(b"\n") {
            diagnostics.lint(Lint::General, last, "source file does not end in newline");
        }
    }
    let empty = tree.rules.is_empty() && tree.functions.is_empty() && tree.loads.is_empty();
    if empty && !sources.is_empty() {
        diagnostics.lint(Lint::General, last, "no program text at all!");
    }
}

/// Warns about rules and the program's own functions.
pub(crate) fn program(resolved: &Resolved, diagnostics: &mut Diagnostics) {
    let mut check = Check {
        names: &resolved.names,
        diagnostics,
        rule: None,
        called: HashSet::new(),
    };
    let (mut begins, mut ends) = (0, 0);
    for rule in &resolved.rules {
        let count = match rule.pattern {
            Pattern::Begin => &mut begins,
            Pattern::End => &mut ends,
            _ => &mut 0,
        };
        *count += 1;
        if *count > 1 {
            let message = "old awk does not support multiple `BEGIN' or `END' rules";
            check.diagnostics.lint(Lint::Old, rule.span, message);
        }
        check.rule = Some(&rule.pattern);
        for e in rule.pattern_exprs() {
            check.expr(e);
        }
        check.body(rule.body.as_deref().unwrap_or_default());
    }
    check.rule = None;
    let own = || resolved.functions.iter().filter(|f| !f.from_lookup);
    for f in own() {
        check.body(&f.function.body);
    }
    let called = check.called;
    for f in own() {
        let name = resolved.names.text(f.function.name);
        for (param, span) in &f.function.params {
            if resolved.globals.iter().any(|g| g.name == *param) {
                let param = resolved.names.text(*param);
                let message =
                    format!("function `{name}': parameter `{param}' shadows global variable");
                diagnostics.lint(Lint::General, *span, message);
            }
        }
        if !called.contains(&f.function.name) {
            let message = format!("function `{name}' defined but never called directly");
            diagnostics.lint(Lint::General, f.function.name_span, message);
        }
    }
}

struct Check<'a> {
    names: &'a Names,
    diagnostics: &'a mut Diagnostics,
    /// The pattern of the rule that is looked at; `None` in functions.
    rule: Option<&'a Pattern>,
    called: HashSet<Symbol>,
}

impl Check<'_> {
    fn note(&mut self, class: Lint, span: Span, message: impl Into<String>) {
        self.diagnostics.lint(class, span, message);
    }

    fn body(&mut self, body: &[Stmt]) {
        for (at, statement) in body.iter().enumerate() {
            self.statement(statement);
            let leaves = matches!(
                statement.kind,
                StmtKind::Next
                    | StmtKind::NextFile
                    | StmtKind::Exit(_)
                    | StmtKind::Return(_)
                    | StmtKind::Break
                    | StmtKind::Continue
            );
            if leaves && let Some(next) = body.get(at + 1) {
                self.note(Lint::General, next.span, "unreachable statement");
            }
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Expr(e) => self.unused(e),
            StmtKind::Print {
                printf: false,
                args,
                ..
            } if args.is_empty() && matches!(self.rule, Some(Pattern::Begin | Pattern::End)) => {
                let message = "plain `print' in BEGIN or END rule should probably be `print \"\"'";
                let span = statement.span;
                self.diagnostics
                    .lint_once(Lint::General, span, || message.into());
            }
            StmtKind::If { arms, .. } => {
                for (cond, _) in arms {
                    self.condition(cond);
                }
            }
            StmtKind::While { cond, .. } | StmtKind::DoWhile { cond, .. } => self.condition(cond),
            StmtKind::For {
                cond: Some(cond), ..
            } => self.condition(cond),
            _ => {}
        }
        if let StmtKind::Print { to: Some(to), .. } = &statement.kind
            && matches!(to.target.kind, ExprKind::Concat(_))
        {
            let sign = match to.kind {
                RedirectKind::File => ">",
                RedirectKind::Append => ">>",
                RedirectKind::Pipe => "|",
                RedirectKind::Coprocess => "|&",
            };
            let message = format!("concatenation as I/O `{sign}' redirection target is ambiguous");
            if to.kind == RedirectKind::File {
                self.note(Lint::General, to.target.span, message);
            }
        }
        if let StmtKind::ForIn { array, .. } | StmtKind::Delete { array, .. } = &statement.kind {
            self.array(array);
        }
        let parts = statement.parts();
        for e in parts.exprs {
            self.expr(e);
        }
        for body in parts.bodies {
            self.body(body);
        }
    }

    fn condition(&mut self, cond: &Expr) {
        if let ExprKind::Assign { op: None, .. } = cond.kind {
            let message = "assignment used in conditional context";
            self.note(Lint::General, cond.span, message);
        }
    }

    /// An expression as a statement.
    fn unused(&mut self, e: &Expr) {
        if let ExprKind::Builtin { which, .. } = e.kind
            && is_pure(which)
        {
            let message = format!("the value of `{}' is not used", which.name());
            self.note(Lint::General, e.span, message);
        } else if !has_effect(e) {
            self.note(Lint::General, e.span, "statement has no effect");
        }
    }

    fn array(&mut self, array: &ArrayExpr) {
        if !array.path.is_empty() {
            let message = "multidimensional arrays are a gawk extension";
            self.note(Lint::Extension, array.span, message);
        }
    }

    fn expr(&mut self, e: &Expr) {
        let is_regex = |e: &Expr| matches!(e.kind, ExprKind::Regex(_));
        match &e.kind {
            ExprKind::Index { array, .. } => self.array(array),
            ExprKind::In { array, subs } => {
                self.array(array);
                let message = "old awk does not support the keyword `in' except after `for'";
                self.note(Lint::Old, e.span, message);
                if subs.len() > 1 {
                    let message = "old awk does not support multidimensional arrays";
                    self.note(Lint::Old, e.span, message);
                }
            }
            ExprKind::Compare { right, .. } if is_regex(right) => {
                let message = "regular expression on right of comparison";
                self.note(Lint::General, right.span, message);
            }
            ExprKind::Assign { value, .. } if is_regex(value) => {
                let message = "regular expression on right of assignment";
                self.note(Lint::General, value.span, message);
            }
            ExprKind::Call { name, .. } => {
                self.called.insert(*name);
            }
            ExprKind::IndirectCall { .. } => {
                let message = "indirect function calls are a gawk extension";
                self.note(Lint::Extension, e.span, message);
            }
            ExprKind::Getline {
                from: GetlineFrom::Main,
                ..
            } if matches!(self.rule, Some(Pattern::End)) => {
                let message = "non-redirected `getline' undefined inside END action";
                self.note(Lint::General, e.span, message);
            }
            ExprKind::Builtin {
                which,
                args,
                parens,
            } => self.builtin(*which, args, *parens, e.span),
            _ => {}
        }
        for child in e.children() {
            self.expr(child);
        }
    }

    fn builtin(&mut self, which: Builtin, args: &[Expr], parens: bool, span: Span) {
        match (which, args) {
            (Builtin::Length, []) if !parens => {
                self.diagnostics.lint_once(Lint::General, span, || {
                    "call of `length' without parentheses is not portable".into()
                });
            }
            (Builtin::Close, [_, _]) => {
                let message = "close: second argument is a gawk extension";
                self.note(Lint::Extension, span, message);
            }
            (Builtin::Match, [_, _, _]) => {
                let message = "match: third argument is a gawk extension";
                self.note(Lint::Extension, span, message);
            }
            (Builtin::Sub | Builtin::Gsub, [_, _, target])
                if matches!(target.kind, ExprKind::Str(_)) =>
            {
                let message = format!(
                    "{}: string literal as last argument of substitute has no effect",
                    which.name()
                );
                self.note(Lint::Invalid, target.span, message);
            }
            (Builtin::Split, [_, _, by, ..]) if matches!(&by.kind, ExprKind::Str(s) if s.is_empty()) =>
            {
                let message = "split: null string for third arg is a non-standard extension";
                self.note(Lint::Extension, by.span, message);
            }
            (Builtin::Substr, [_, start, ..]) if matches!(start.kind, ExprKind::Num(n) if n < 1.0) =>
            {
                let message = "substr: start index is invalid, using 1";
                self.note(Lint::Invalid, start.span, message);
            }
            _ => {}
        }
        // Functions that programs know by other names are called through variables.
        if let (Builtin::Asort | Builtin::Asorti, [.., how]) = (which, args)
            && let ExprKind::Str(name) = &how.kind
            && let Ok(name) = std::str::from_utf8(name)
            && let Some(symbol) = self.names.find(name)
        {
            self.called.insert(symbol);
        }
    }
}

/// Whether a call does nothing but compute a value.
fn is_pure(which: Builtin) -> bool {
    use Builtin::*;
    matches!(
        which,
        Atan2
            | Cos
            | Exp
            | Index
            | Int
            | Length
            | Log
            | Sin
            | Sprintf
            | Sqrt
            | Substr
            | Tolower
            | Toupper
            | And
            | Compl
            | Dcgettext
            | Dcngettext
            | Gensub
            | Isarray
            | Lshift
            | Mkbool
            | Mktime
            | Or
            | Rshift
            | Strftime
            | Strtonum
            | Systime
            | Typeof
            | Xor
    )
}

/// Whether computing it can change anything. Reading an element makes it, which programs rely on.
fn has_effect(e: &Expr) -> bool {
    let itself = match &e.kind {
        ExprKind::Assign { .. }
        | ExprKind::Step { .. }
        | ExprKind::Call { .. }
        | ExprKind::IndirectCall { .. }
        | ExprKind::Getline { .. }
        | ExprKind::Index { .. } => true,
        ExprKind::Builtin { which, .. } => !is_pure(*which),
        _ => false,
    };
    itself || e.children().into_iter().any(has_effect)
}
