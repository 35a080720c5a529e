//! Statements: what each does to the flow of control.

use std::rc::Rc;

use awk_syntax::Span;
use awk_syntax::ast::*;
use awk_syntax::names::Special;

use super::facts::{fold, is_quiet};
use super::{Compiler, Label, Loop};
use crate::code::*;
use crate::format::Format;
use crate::value::Value;

impl<'a> Compiler<'a> {
    pub(super) fn body(&mut self, body: &'a [Stmt]) {
        for statement in body {
            self.statement(statement);
        }
    }

    pub(super) fn statement(&mut self, statement: &'a Stmt) {
        self.span = statement.span;
        let span = statement.span;
        self.mark(Event::Statement, span);
        match &statement.kind {
            StmtKind::Expr(e) => self.effect(e),
            StmtKind::Print {
                printf, args, to, ..
            } => self.print(*printf, args, to.as_ref()),
            StmtKind::If { arms, otherwise } => {
                if let ([(cond, body)], None) = (arms.as_slice(), otherwise) {
                    self.check_extreme(cond, body);
                }
                let done = self.label();
                for (at, (cond, body)) in arms.iter().enumerate() {
                    let next = self.label();
                    if at > 0 {
                        self.mark(Event::Condition, cond.span);
                    }
                    self.jump(cond, next, false);
                    self.mark(Event::True, cond.span);
                    self.body(body);
                    if at + 1 < arms.len() || otherwise.is_some() {
                        self.emit_jump(Op::Jump, done);
                    }
                    self.here(next);
                }
                if let Some(body) = otherwise {
                    self.body(body);
                }
                self.here(done);
            }
            StmtKind::While { cond, body } => {
                let (again, start, out) = (self.label(), self.label(), self.label());
                self.emit_jump(Op::Jump, again);
                self.here(start);
                let number = self.begin_loop();
                self.loop_body(span, body, again, out);
                self.here(again);
                self.jump(cond, start, true);
                self.end_loop(number);
                self.here(out);
            }
            StmtKind::DoWhile { body, cond } => {
                let (again, start, out) = (self.label(), self.label(), self.label());
                self.here(start);
                let number = self.begin_loop();
                self.loop_body(span, body, again, out);
                self.here(again);
                self.jump(cond, start, true);
                self.end_loop(number);
                self.here(out);
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                let (again, start, test, out) =
                    (self.label(), self.label(), self.label(), self.label());
                if let Some(init) = init {
                    self.statement(init);
                }
                self.emit_jump(Op::Jump, test);
                self.here(start);
                let number = self.begin_loop();
                self.loop_body(span, body, again, out);
                self.here(again);
                if let Some(step) = step {
                    self.statement(step);
                }
                self.here(test);
                match cond {
                    Some(cond) => self.jump(cond, start, true),
                    None => self.emit_jump(Op::Jump, start),
                }
                self.end_loop(number);
                self.here(out);
            }
            StmtKind::ForIn {
                var,
                var_span,
                array,
                body,
            } => {
                let (again, out) = (self.label(), self.label());
                self.span = array.span;
                if self.is_symtab(array) {
                    self.code.use_special(Special::SYMTAB);
                    self.emit(Op::ForSymbols);
                } else {
                    let array = self.array(array);
                    self.emit(Op::ForIn(array));
                }
                self.here(again);
                let number = self.begin_loop();
                self.emit_jump(|to| Op::ForNext { end: to }, out);
                self.span = *var_span;
                let target = self.variable(*var);
                self.store(&target, false);
                self.loop_body(span, body, again, out);
                self.emit_jump(Op::Jump, again);
                self.end_loop(number);
                self.here(out);
                self.emit(Op::ForEnd);
            }
            StmtKind::Block(body) => self.body(body),
            StmtKind::Switch { subject, cases } => self.switch(subject, cases),
            StmtKind::Next => self.emit(Op::Next),
            StmtKind::NextFile => self.emit(Op::NextFile),
            StmtKind::Exit(status) => {
                if let Some(status) = status {
                    self.num(status);
                }
                self.emit(Op::Exit {
                    given: status.is_some(),
                });
            }
            StmtKind::Return(value) => {
                match value {
                    Some(value) => self.val(value),
                    None => self.emit(Op::Uninit),
                }
                self.emit(Op::Return);
            }
            StmtKind::Break => {
                if let Some(l) = self.loops.last() {
                    let out = l.out;
                    self.emit_jump(Op::Jump, out);
                }
            }
            StmtKind::Continue => {
                if let Some(again) = self.loops.iter().rev().find_map(|l| l.again) {
                    self.emit_jump(Op::Jump, again);
                }
            }
            StmtKind::Delete { array, subs } => {
                if self.is_symtab(array) {
                    self.diagnostics
                        .misuse(array.span, "`delete` is not allowed with SYMTAB");
                    return;
                }
                let done = self.label();
                let array = self.array_if_there(array, done);
                match subs {
                    Some(subs) => {
                        self.key(subs);
                        self.emit(Op::DeleteElem(array));
                    }
                    None => self.emit(Op::DeleteArray(array)),
                }
                self.here(done);
            }
        }
    }

    /// The place from which native code may run a loop.
    fn begin_loop(&mut self) -> usize {
        let (number, start) = (self.code.loops.len(), self.code.ops.len() as u32);
        self.code.loops.push(start..start);
        if self.wish.native {
            self.emit(Op::Loop(number as u32));
        }
        number
    }

    fn end_loop(&mut self, number: usize) {
        self.code.loops[number].end = self.code.ops.len() as u32;
    }

    /// `span` is the loop's.
    pub(super) fn loop_body(&mut self, span: Span, body: &'a [Stmt], again: Label, out: Label) {
        let again = Some(again);
        self.mark(Event::Body, span);
        self.loops.push(Loop { again, out });
        self.body(body);
        self.loops.pop();
    }

    /// The subject stays on the value stack while cases are tried.
    fn switch(&mut self, subject: &'a Expr, cases: &'a [Case]) {
        self.val(subject);
        let out = self.label();
        let bodies: Vec<Label> = cases.iter().map(|_| self.label()).collect();
        let mut otherwise = out;
        for (case, body) in cases.iter().zip(&bodies) {
            match &case.label {
                Some(label) => {
                    if let Some(literal) = self.literal(label) {
                        self.at(case.span, |c| {
                            c.emit_jump(|to| Op::ExactCase { literal, to }, *body);
                        });
                        continue;
                    }
                    let value = self.case_value(label);
                    let value = self.constant(value);
                    self.at(case.span, |c| {
                        c.emit_jump(|to| Op::JumpCase { value, to }, *body);
                    });
                }
                None => otherwise = *body,
            }
        }
        self.emit(Op::DropVal);
        self.emit_jump(Op::Jump, otherwise);
        self.loops.push(Loop { again: None, out });
        for (case, body) in cases.iter().zip(bodies) {
            self.here(body);
            self.mark(Event::Case, case.span);
            self.body(&case.body);
        }
        self.loops.pop();
        self.here(out);
    }

    /// The constant of a `case`.
    fn case_value(&mut self, label: &Expr) -> Value {
        match &label.ungrouped().kind {
            ExprKind::Str(text) | ExprKind::Translated(text) => Value::text(text, false),
            ExprKind::Regex(text) | ExprKind::TypedRegex(text) => {
                self.regex(text, label.span); // for its errors
                Value::Regex(Rc::new(text.clone()))
            }
            _ => match fold(label) {
                Some(n) => Value::Num(n),
                None => {
                    self.diagnostics
                        .error(label.span, "the label of a `case` must be a constant");
                    Value::Uninit
                }
            },
        }
    }

    pub(super) fn print(&mut self, printf: bool, args: &'a [Expr], to: Option<&'a Redirect>) {
        let kind = to.map_or(To::Stdout, |to| match to.kind {
            RedirectKind::File => To::File,
            RedirectKind::Append => To::Append,
            RedirectKind::Pipe => To::Pipe,
            RedirectKind::Coprocess => To::Coprocess,
        });
        if printf {
            self.format(args, Op::Printf, |format, args| Op::PrintfConst {
                format,
                args,
            });
        } else if args.is_empty() {
            if to.is_none() {
                self.emit(Op::PrintRecord);
                return;
            }
            self.emit(Op::TextBegin);
            self.emit(Op::AppendField { n: 0, out: false });
            self.emit(Op::AppendOrs);
        } else if args.iter().all(is_quiet) && !self.wish.notation {
            self.emit(Op::TextBegin);
            for (at, arg) in args.iter().enumerate() {
                if at > 0 {
                    self.emit(Op::AppendOfs);
                }
                self.append(arg, true);
            }
            self.emit(Op::AppendOrs);
        } else {
            // An argument may change OFS or ORS, or print by itself: all are computed before any is put down.
            for arg in args {
                self.val(arg);
            }
            self.emit(Op::Print {
                args: args.len() as u32,
            });
        }
        if let Some(to) = to {
            self.text(&to.target);
        }
        if let Some(to) = to {
            self.span = to.target.span;
        }
        self.emit(Op::Write(kind));
    }

    /// Values of a format and its arguments, then the instruction that applies it.
    pub(super) fn format(
        &mut self,
        args: &'a [Expr],
        dynamic: fn(u32) -> Op,
        constant: fn(u32, u32) -> Op,
    ) {
        if let Some(ExprKind::Str(format)) = args.first().map(|a| &a.ungrouped().kind) {
            let number = self.code.formats.len() as u32;
            let parsed = Format::parse_in(format, self.wish.numbers);
            self.code.formats.push(Rc::new(parsed));
            for arg in &args[1..] {
                self.val(arg);
            }
            self.emit(constant(number, args.len() as u32 - 1));
            return;
        }
        for arg in args {
            self.val(arg);
        }
        self.emit(dynamic(args.len() as u32));
    }
}
