//! Expressions, with gawk's blanks and parentheses.

use super::Printer;
use crate::ast::*;
use crate::names::{Builtin, Origin};
use crate::span::Span;

/// Whether it has an operator between two operands.
pub(super) fn is_binary(kind: &ExprKind) -> bool {
    matches!(
        kind,
        ExprKind::Arith { .. }
            | ExprKind::Power { .. }
            | ExprKind::Concat(_)
            | ExprKind::Compare { .. }
            | ExprKind::Match { .. }
            | ExprKind::In { .. }
            | ExprKind::And(_)
            | ExprKind::Or(_)
            | ExprKind::Cond { .. }
            | ExprKind::Assign { .. }
    )
}

fn is_getline(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Getline { .. })
}

/// A call through a variable, which gawk keeps apart on the right of arithmetic and on either side of what binds looser.
fn is_indirect(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::IndirectCall { .. })
}

fn is_assignment(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Assign { .. })
}

fn is_prefix(kind: &ExprKind) -> bool {
    matches!(
        kind,
        ExprKind::Not(_) | ExprKind::Minus(_) | ExprKind::Plus(_)
    )
}

impl Printer<'_> {
    pub(super) fn list(&mut self, list: &[Expr]) {
        for (at, e) in list.iter().enumerate() {
            if at > 0 {
                self.text(", ");
            }
            self.expr(e);
        }
    }

    pub(super) fn array(&mut self, array: &ArrayExpr) {
        self.name(array.name);
        for subs in &array.path {
            self.subscripts(subs);
        }
    }

    pub(super) fn subscripts(&mut self, subs: &[Expr]) {
        self.text("[");
        self.list(subs);
        self.text("]");
    }

    /// An operand, in parentheses unless `bare` says that it needs none, or it begins with one. That is gawk's rule, and
    /// it is safe: what begins with a parenthesis is read with the same operators bound, since none of those added here
    /// is needed for the meaning but those around signs, `getline` and assignments, which begin with none.
    pub(super) fn operand(&mut self, e: &Expr, bare: impl FnOnce(&ExprKind) -> bool) {
        let start = self.out.len();
        self.expr(e);
        if !bare(&e.kind) && !self.out[start..].starts_with('(') {
            self.out.insert(start, '(');
            self.text(")");
        }
    }

    fn operands(&mut self, list: &[Expr], between: &str, bare: impl Fn(&ExprKind) -> bool) {
        for (at, e) in list.iter().enumerate() {
            if at > 0 {
                self.text(between);
            }
            self.operand(e, &bare);
        }
    }

    /// `sign operand`. A second sign of the same kind is kept apart by parentheses: `--x` is something else.
    fn prefix(&mut self, sign: &str, operand: &Expr) {
        self.text(sign);
        let clash = |kind: &ExprKind| match (sign, kind) {
            ("-", ExprKind::Minus(_)) | ("+", ExprKind::Plus(_)) => true,
            ("-", ExprKind::Step { down, prefix, .. }) => *down && *prefix,
            ("+", ExprKind::Step { down, prefix, .. }) => !*down && *prefix,
            _ => false,
        };
        self.operand(operand, |kind| {
            !clash(kind)
                && !matches!(kind, ExprKind::Power { .. } | ExprKind::Assign { .. })
                && !is_getline(kind)
        });
    }

    fn call_args(&mut self, args: &[Expr]) {
        self.text("(");
        self.list(args);
        self.text(")");
    }

    fn source_text(&mut self, span: Span) {
        let text = self.sources.slice(span);
        self.out.push_str(&String::from_utf8_lossy(text));
    }

    pub(super) fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Num(_) => self.source_text(e.span),
            ExprKind::Str(s) => self.string(s),
            ExprKind::Translated(s) => {
                self.text("_");
                self.string(s);
            }
            ExprKind::Regex(_) | ExprKind::TypedRegex(_) => self.regex(e.span),
            ExprKind::Var(name) => self.name(*name),
            ExprKind::Field(number) => {
                self.text("$");
                self.operand(number, |kind| !is_getline(kind));
            }
            ExprKind::Index { array, subs } => {
                self.array(array);
                self.subscripts(subs);
            }
            ExprKind::Group(inner) => {
                self.text("(");
                self.expr(inner);
                self.text(")");
            }
            ExprKind::Tuple(list) => self.call_args(list),
            ExprKind::Not(operand) => self.prefix("! ", operand),
            ExprKind::Minus(operand) => self.prefix("-", operand),
            ExprKind::Plus(operand) => self.prefix("+", operand),
            ExprKind::Arith { first, rest } => {
                let bare = |kind: &ExprKind| !is_getline(kind) && !is_assignment(kind);
                self.operand(first, bare);
                for (op, operand) in rest {
                    self.text(" ");
                    self.text(op.text());
                    self.text(" ");
                    self.operand(operand, |kind| bare(kind) && !is_indirect(kind));
                }
            }
            ExprKind::Power { base, exponent } => {
                self.operand(base, |kind| !is_getline(kind));
                self.text(" ^ ");
                self.operand(exponent, |kind| match kind {
                    ExprKind::Minus(inner) => matches!(inner.kind, ExprKind::Num(_)),
                    kind => {
                        !is_prefix(kind)
                            && !is_getline(kind)
                            && !is_assignment(kind)
                            && !is_indirect(kind)
                    }
                });
            }
            ExprKind::Concat(list) => self.operands(list, " ", |kind| {
                !is_getline(kind)
                    && !is_assignment(kind)
                    && !is_indirect(kind)
                    && !matches!(
                        kind,
                        ExprKind::Arith { .. } | ExprKind::Power { .. } | ExprKind::Regex(_)
                    )
            }),
            ExprKind::Compare { op, left, right } => {
                let bare = |kind: &ExprKind| {
                    !is_getline(kind)
                        && !is_assignment(kind)
                        && !is_indirect(kind)
                        && !matches!(kind, ExprKind::In { .. } | ExprKind::Match { .. })
                };
                self.operand(left, bare);
                self.text(" ");
                self.text(op.text());
                self.text(" ");
                self.operand(right, bare);
            }
            ExprKind::Match {
                negated,
                left,
                right,
            } => {
                let bare = |kind: &ExprKind| !is_getline(kind) && !is_binary(kind);
                self.operand(left, bare);
                self.text(if *negated { " !~ " } else { " ~ " });
                self.operand(right, bare);
            }
            ExprKind::In { subs, array } => {
                match subs.as_slice() {
                    [sub] => self.operand(sub, |kind| !is_assignment(kind) && !is_indirect(kind)),
                    subs => self.call_args(subs),
                }
                self.text(" in ");
                self.array(array);
            }
            ExprKind::And(list) | ExprKind::Or(list) => {
                let sign = if matches!(e.kind, ExprKind::And(_)) {
                    " && "
                } else {
                    " || "
                };
                self.operands(list, sign, |kind| {
                    !is_assignment(kind) && !is_indirect(kind)
                });
            }
            ExprKind::Cond { arms, otherwise } => {
                for (cond, yes) in arms {
                    self.operand(cond, |kind| !is_assignment(kind));
                    self.text(" ? ");
                    self.expr(yes);
                    self.text(" : ");
                }
                self.expr(otherwise);
            }
            ExprKind::Assign { target, op, value } => {
                self.expr(target);
                self.text(" ");
                self.text(op.map_or("", ArithOp::text));
                self.text("= ");
                self.expr(value);
            }
            ExprKind::Step {
                target,
                down,
                prefix,
            } => {
                let sign = if *down { "--" } else { "++" };
                if *prefix {
                    self.text(sign);
                    self.expr(target);
                } else {
                    self.expr(target);
                    self.text(sign);
                }
            }
            ExprKind::Call { name, args } => {
                self.name(*name);
                self.call_args(args);
            }
            ExprKind::IndirectCall { name, args, .. } => {
                self.text("@");
                self.name(*name);
                self.call_args(args);
            }
            ExprKind::Builtin { which, args, .. } => self.builtin(*which, args),
            ExprKind::Getline { target, from } => self.getline(target.as_deref(), from),
        }
    }

    /// A call of a built-in function; gawk writes out what a missing argument stands for.
    fn builtin(&mut self, which: Builtin, args: &[Expr]) {
        if matches!(which.origin(), Origin::Library(_)) && self.namespace.is_some() {
            self.text("awk::"); // it is no word of the language
        }
        self.text(which.name());
        self.text("(");
        self.list(args);
        self.text(match (which, args.len()) {
            (Builtin::Length, 0) => "$0",
            (Builtin::Sub | Builtin::Gsub, 2) | (Builtin::Gensub, 3) => ", $0",
            (Builtin::Split, 2) => ", FS",
            (Builtin::Patsplit, 2) => ", FPAT",
            _ => "",
        });
        self.text(")");
    }

    fn getline(&mut self, target: Option<&Expr>, from: &GetlineFrom) {
        let bare = |kind: &ExprKind| !is_binary(kind) && !is_getline(kind);
        match from {
            GetlineFrom::Command(command) => {
                self.operand(command, bare);
                self.text(" | ");
            }
            GetlineFrom::Coprocess(command) => {
                self.operand(command, bare);
                self.text(" |& ");
            }
            GetlineFrom::Main | GetlineFrom::File(_) => {}
        }
        self.text("getline");
        if let Some(target) = target {
            self.text(" ");
            self.expr(target);
        }
        if let GetlineFrom::File(file) = from {
            self.text(" < ");
            self.operand(file, bare);
        }
    }

    fn string(&mut self, s: &[u8]) {
        self.text("\"");
        for &byte in s {
            match byte {
                b'"' => self.text("\\\""),
                b'\\' => self.text("\\\\"),
                _ => self.byte(byte),
            }
        }
        self.text("\"");
    }

    /// A regular expression as the source has it: its backslashes are another parser's business. Characters stay what
    /// they are, where gawk writes octal numbers for all but ASCII: behind a backslash these would be something else.
    fn regex(&mut self, span: Span) {
        let mut rest = self.sources.slice(span);
        while !rest.is_empty() {
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
            };
            let mut chars = valid.chars();
            while let Some(c) = chars.next() {
                match (c, chars.as_str().chars().next()) {
                    ('\\', Some('\n')) => {
                        chars.next(); // a continued line
                    }
                    ('\\', Some(next)) => {
                        chars.next();
                        self.out.extend(['\\', next]);
                    }
                    (c, _) if c.is_ascii_control() => self.byte(c as u8),
                    (c, _) => self.out.push(c),
                }
            }
            rest = &rest[valid.len()..];
            if let Some((&byte, after)) = rest.split_first() {
                self.byte(byte);
                rest = after;
            }
        }
    }

    fn byte(&mut self, byte: u8) {
        match byte {
            0x07 => self.text("\\a"),
            0x08 => self.text("\\b"),
            0x0c => self.text("\\f"),
            b'\n' => self.text("\\n"),
            b'\r' => self.text("\\r"),
            b'\t' => self.text("\\t"),
            0x0b => self.text("\\v"),
            0x20..=0x7e => self.out.push(byte as char),
            _ => self.out.push_str(&format!("\\{byte:03o}")),
        }
    }
}
