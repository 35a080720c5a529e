//! Tree to text: for `--dump=ast` and for checking what is stored.
//!
//! Invariant: reading the text again gives the same tree (spans aside). The tree keeps the program's own parentheses, so
//! none are added; `tests/round_trip.rs` checks this on random programs.

use crate::ast::*;
use crate::names::{Names, Symbol};

/// The whole program.
pub fn program(program: &Program, names: &Names) -> String {
    let mut p = Printer {
        names,
        out: String::new(),
        indent: 0,
    };
    for rule in &program.rules {
        p.rule(rule);
        p.out.push('\n');
    }
    for function in &program.functions {
        p.function(function);
        p.out.push('\n');
    }
    p.out
}

/// One function definition.
pub fn function(function: &Function, names: &Names) -> String {
    let mut p = Printer {
        names,
        out: String::new(),
        indent: 0,
    };
    p.function(function);
    p.out
}

struct Printer<'a> {
    names: &'a Names,
    out: String,
    indent: usize,
}

impl Printer<'_> {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn name(&mut self, symbol: Symbol) {
        self.out.push_str(self.names.text(symbol));
    }

    fn rule(&mut self, rule: &Rule) {
        match &rule.pattern {
            Pattern::Begin => self.text("BEGIN"),
            Pattern::End => self.text("END"),
            Pattern::BeginFile => self.text("BEGINFILE"),
            Pattern::EndFile => self.text("ENDFILE"),
            Pattern::Always => {}
            Pattern::Expr(e) => self.expr(e),
            Pattern::Range(from, to) => {
                self.expr(from);
                self.text(", ");
                self.expr(to);
            }
        }
        if let Some(body) = &rule.body {
            self.text(" ");
            self.block(body);
        }
        self.text("\n");
    }

    fn function(&mut self, function: &Function) {
        self.text("function ");
        self.name(function.name);
        self.text("(");
        for (at, (param, _)) in function.params.iter().enumerate() {
            if at > 0 {
                self.text(", ");
            }
            self.name(*param);
        }
        self.text(")\n");
        self.block(&function.body);
        self.text("\n");
    }

    fn block(&mut self, body: &[Stmt]) {
        self.text("{\n");
        self.indent += 1;
        for statement in body {
            self.line(statement);
        }
        self.indent -= 1;
        self.tabs();
        self.text("}");
    }

    fn tabs(&mut self) {
        for _ in 0..self.indent {
            self.out.push('\t');
        }
    }

    fn line(&mut self, statement: &Stmt) {
        self.tabs();
        self.statement(statement);
        self.text("\n");
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::Print {
                printf,
                args,
                parens,
                to,
            } => {
                self.text(if *printf { "printf" } else { "print" });
                if *parens {
                    self.text("(");
                    self.list(args);
                    self.text(")");
                } else if !args.is_empty() {
                    self.text(" ");
                    self.list(args);
                }
                if let Some(to) = to {
                    self.text(match to.kind {
                        RedirectKind::File => " > ",
                        RedirectKind::Append => " >> ",
                        RedirectKind::Pipe => " | ",
                        RedirectKind::Coprocess => " |& ",
                    });
                    self.expr(&to.target);
                }
            }
            StmtKind::If { arms, otherwise } => {
                for (at, (cond, body)) in arms.iter().enumerate() {
                    self.text(if at == 0 { "if (" } else { " else if (" });
                    self.expr(cond);
                    self.text(") ");
                    self.block(body);
                }
                if let Some(body) = otherwise {
                    self.text(" else ");
                    self.block(body);
                }
            }
            StmtKind::While { cond, body } => {
                self.text("while (");
                self.expr(cond);
                self.text(") ");
                self.block(body);
            }
            StmtKind::DoWhile { body, cond } => {
                self.text("do ");
                self.block(body);
                self.text(" while (");
                self.expr(cond);
                self.text(")");
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                self.text("for (");
                if let Some(init) = init {
                    self.statement(init);
                }
                self.text("; ");
                if let Some(cond) = cond {
                    self.expr(cond);
                }
                self.text("; ");
                if let Some(step) = step {
                    self.statement(step);
                }
                self.text(") ");
                self.block(body);
            }
            StmtKind::ForIn {
                var, array, body, ..
            } => {
                self.text("for (");
                self.name(*var);
                self.text(" in ");
                self.array(array);
                self.text(") ");
                self.block(body);
            }
            StmtKind::Switch { subject, cases } => {
                self.text("switch (");
                self.expr(subject);
                self.text(") {\n");
                for case in cases {
                    self.case(case);
                }
                self.tabs();
                self.text("}");
            }
            StmtKind::Block(body) => self.block(body),
            StmtKind::Next => self.text("next"),
            StmtKind::NextFile => self.text("nextfile"),
            StmtKind::Exit(value) => self.keyword("exit", value.as_ref()),
            StmtKind::Return(value) => self.keyword("return", value.as_ref()),
            StmtKind::Break => self.text("break"),
            StmtKind::Continue => self.text("continue"),
            StmtKind::Delete { array, subs, .. } => {
                self.text("delete ");
                self.array(array);
                if let Some(subs) = subs {
                    self.subscripts(subs);
                }
            }
        }
    }

    fn case(&mut self, case: &Case) {
        self.tabs();
        match &case.label {
            None => self.text("default:\n"),
            Some(label) => {
                self.text("case ");
                self.expr(label);
                self.text(":\n");
            }
        }
        self.indent += 1;
        for statement in &case.body {
            self.line(statement);
        }
        self.indent -= 1;
    }

    fn array(&mut self, array: &ArrayExpr) {
        self.name(array.name);
        for subs in &array.path {
            self.subscripts(subs);
        }
    }

    fn subscripts(&mut self, subs: &[Expr]) {
        self.text("[");
        self.list(subs);
        self.text("]");
    }

    fn keyword(&mut self, word: &str, value: Option<&Expr>) {
        self.text(word);
        if let Some(value) = value {
            self.text(" ");
            self.expr(value);
        }
    }

    fn list(&mut self, list: &[Expr]) {
        self.joined(list, ", ");
    }

    fn joined(&mut self, list: &[Expr], between: &str) {
        for (at, e) in list.iter().enumerate() {
            if at > 0 {
                self.text(between);
            }
            self.expr(e);
        }
    }

    fn prefix(&mut self, sign: &str, operand: &Expr) {
        self.text(sign);
        // `- -x` must not become `--x`.
        self.text(" ");
        self.expr(operand);
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Num(n) if n.is_infinite() => self.text("1e999"),
            ExprKind::Num(n) => {
                let text = format!("{n:?}");
                self.text(&text);
            }
            ExprKind::Str(s) => self.string(s),
            ExprKind::Translated(s) => {
                self.text("_");
                self.string(s);
            }
            ExprKind::Regex(r) => self.regex(r),
            ExprKind::TypedRegex(r) => {
                self.text("@");
                self.regex(r);
            }
            ExprKind::Var(name) => self.name(*name),
            ExprKind::Field(number) => {
                self.text("$");
                self.expr(number);
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
            ExprKind::Tuple(list) => {
                self.text("(");
                self.list(list);
                self.text(")");
            }
            ExprKind::Not(operand) => self.prefix("!", operand),
            ExprKind::Minus(operand) => self.prefix("-", operand),
            ExprKind::Plus(operand) => self.prefix("+", operand),
            ExprKind::Arith { first, rest } => {
                self.expr(first);
                for (op, operand) in rest {
                    self.text(" ");
                    self.text(op.text());
                    self.text(" ");
                    self.expr(operand);
                }
            }
            ExprKind::Power { base, exponent } => {
                self.expr(base);
                self.text(" ^ ");
                self.expr(exponent);
            }
            ExprKind::Concat(list) => self.joined(list, " "),
            ExprKind::Compare { op, left, right } => {
                self.expr(left);
                self.text(" ");
                self.text(op.text());
                self.text(" ");
                self.expr(right);
            }
            ExprKind::Match {
                negated,
                left,
                right,
            } => {
                self.expr(left);
                self.text(if *negated { " !~ " } else { " ~ " });
                self.expr(right);
            }
            ExprKind::In { subs, array, .. } => {
                if let [sub] = subs.as_slice() {
                    self.expr(sub);
                } else {
                    self.text("(");
                    self.list(subs);
                    self.text(")");
                }
                self.text(" in ");
                self.array(array);
            }
            ExprKind::And(list) => self.joined(list, " && "),
            ExprKind::Or(list) => self.joined(list, " || "),
            ExprKind::Cond { cond, yes, no } => {
                self.expr(cond);
                self.text(" ? ");
                self.expr(yes);
                self.text(" : ");
                self.expr(no);
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
                self.text("(");
                self.list(args);
                self.text(")");
            }
            ExprKind::IndirectCall { name, args, .. } => {
                self.text("@");
                self.name(*name);
                self.text("(");
                self.list(args);
                self.text(")");
            }
            ExprKind::Builtin {
                which,
                args,
                parens,
            } => {
                self.text(which.name());
                if *parens {
                    self.text("(");
                    self.list(args);
                    self.text(")");
                }
            }
            ExprKind::Getline { target, from } => {
                match from {
                    GetlineFrom::Command(command) => {
                        self.expr(command);
                        self.text(" | ");
                    }
                    GetlineFrom::Coprocess(command) => {
                        self.expr(command);
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
                    self.expr(file);
                }
            }
        }
    }

    fn string(&mut self, s: &[u8]) {
        self.text("\"");
        for &byte in s {
            match byte {
                b'"' => self.text("\\\""),
                b'\\' => self.text("\\\\"),
                b'\n' => self.text("\\n"),
                b'\t' => self.text("\\t"),
                b'\r' => self.text("\\r"),
                0x20..=0x7e => self.out.push(byte as char),
                _ => self.out.push_str(&format!("\\{byte:03o}")),
            }
        }
        self.text("\"");
    }

    /// A regular expression is text for another parser: bytes stay as they are, except what would end it. Bytes that are no
    /// UTF-8 are written as octal escapes, which that parser reads as the same bytes.
    fn regex(&mut self, r: &[u8]) {
        self.text("/");
        let mut rest = r;
        while !rest.is_empty() {
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text,
                Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
            };
            let mut chars = valid.chars();
            while let Some(c) = chars.next() {
                match c {
                    '\\' => {
                        self.out.push('\\');
                        if let Some(next) = chars.next() {
                            self.out.push(next);
                        }
                    }
                    '/' => self.text("\\/"),
                    '\n' => self.text("\\n"),
                    c => self.out.push(c),
                }
            }
            rest = &rest[valid.len()..];
            if let Some((&byte, after)) = rest.split_first() {
                self.out.push_str(&format!("\\{byte:03o}"));
                rest = after;
            }
        }
        self.text("/");
    }
}
