//! Resolved tree to code.
//!
//! An expression is compiled for what its consumer wants: a number on the number stack (`num`), a value (`val`), its text
//! appended to the string being built (`append`), a jump (`jump`), or only its effect (`effect`). So `a + b` never becomes
//! a boxed value, `if (x > 3)` is one compare-and-jump, and `n++` as a statement leaves nothing behind.
//!
//! Order of evaluation is gawk's: the right side of an assignment before the subscripts of its left side.

use std::rc::Rc;

use awk_syntax::ast::*;
use awk_syntax::names::{Builtin, Special, Symbol};
use awk_syntax::{Diagnostics, Kind, Place, Resolved, Span};

use crate::code::*;
use crate::fields::Splitter;
use crate::format::{Format, number_to_text};
use crate::regex::Regex;
use crate::text::Charset;
use crate::value::Value;

/// Compiles a program. Errors (a malformed regular expression) go to `diagnostics`; the code is then not to be run.
pub fn compile(program: &Resolved, charset: Charset, diagnostics: &mut Diagnostics) -> Code {
    let mut c = Compiler {
        program,
        charset,
        diagnostics,
        code: Code::default(),
        labels: Vec::new(),
        patches: Vec::new(),
        inside: None,
        loops: Vec::new(),
        span: Span::default(),
    };
    c.program();
    c.patch();
    c.code
}

/// A place in the code that is not known yet.
#[derive(Clone, Copy)]
struct Label(u32);

struct Loop {
    again: Label,
    out: Label,
}

/// Something that can be assigned to, with what its store needs already decided.
enum Target<'a> {
    Global(u32),
    Local(u32),
    Special(Special),
    Field(&'a Expr),
    Elem(Arr, &'a [Expr]),
}

struct Compiler<'a> {
    program: &'a Resolved,
    charset: Charset,
    diagnostics: &'a mut Diagnostics,
    code: Code,
    labels: Vec<u32>,
    /// Instructions whose jump target is still a label.
    patches: Vec<usize>,
    inside: Option<u32>,
    loops: Vec<Loop>,
    span: Span,
}

impl<'a> Compiler<'a> {
    // ---- emitting ----

    fn emit(&mut self, op: Op) {
        self.code.ops.push(op);
        self.code.spans.push(self.span);
    }

    fn label(&mut self) -> Label {
        self.labels.push(u32::MAX);
        Label((self.labels.len() - 1) as u32)
    }

    fn here(&mut self, label: Label) {
        self.labels[label.0 as usize] = self.code.ops.len() as u32;
    }

    fn emit_jump(&mut self, make: impl FnOnce(u32) -> Op, label: Label) {
        self.patches.push(self.code.ops.len());
        self.emit(make(label.0));
    }

    fn patch(&mut self) {
        for at in std::mem::take(&mut self.patches) {
            match &mut self.code.ops[at] {
                Op::Jump(to)
                | Op::JumpNum { to, .. }
                | Op::JumpVal { to, .. }
                | Op::JumpCompareNum { to, .. }
                | Op::JumpCompareVal { to, .. }
                | Op::JumpCompareText { to, .. }
                | Op::JumpCompareConst { to, .. }
                | Op::JumpCompareField { to, .. }
                | Op::JumpCompareGlobal { to, .. }
                | Op::JumpCompareLocal { to, .. }
                | Op::JumpMatchRecord { to, .. }
                | Op::JumpIn { to, .. }
                | Op::JumpRange { to, .. }
                | Op::JumpNone { to }
                | Op::ForNext { end: to }
                | Op::NextRecord { end: to } => *to = self.labels[*to as usize],
                op => unreachable!("{op:?} has no jump target"),
            }
        }
    }

    fn constant(&mut self, value: Value) -> u32 {
        if let Some(at) = self.code.consts.iter().rposition(|c| c.same(&value)) {
            return at as u32;
        }
        self.code.consts.push(value);
        (self.code.consts.len() - 1) as u32
    }

    fn regex(&mut self, text: &[u8], span: Span) -> u32 {
        match Regex::new(text, self.charset, false) {
            Ok(regex) => self.code.regexes.push(Rc::new(regex)),
            Err(error) => {
                let shown = String::from_utf8_lossy(text);
                self.diagnostics.error(
                    span,
                    format!(
                        "regular expression /{shown}/, at character {}: {}",
                        error.offset + 1,
                        error.what
                    ),
                );
            }
        }
        self.code.regexes.len().saturating_sub(1) as u32
    }

    // ---- program ----

    fn program(&mut self) {
        let program = self.program;
        self.code.globals = program
            .globals
            .iter()
            .map(|g| program.names.text(g.name).to_string())
            .collect();
        for rule in &program.rules {
            if let (Pattern::Begin, Some(body)) = (&rule.pattern, &rule.body) {
                self.body(body);
            }
        }
        self.emit(Op::BeginDone);
        self.code.main_start = self.code.ops.len() as u32;
        let end = self.label();
        self.emit_jump(|to| Op::NextRecord { end: to }, end);
        for rule in &program.rules {
            if !matches!(rule.pattern, Pattern::Begin | Pattern::End) {
                self.code.reads_input = true;
                self.rule(rule);
            }
        }
        let start = self.code.main_start;
        self.emit(Op::Jump(start));
        self.here(end);
        self.code.end_start = self.code.ops.len() as u32;
        for rule in &program.rules {
            if let (Pattern::End, Some(body)) = (&rule.pattern, &rule.body) {
                self.code.reads_input = true;
                self.body(body);
            }
        }
        self.emit(Op::Halt);
        for (number, f) in program.functions.iter().enumerate() {
            self.inside = Some(number as u32);
            let entry = self.code.ops.len() as u32;
            self.body(&f.function.body);
            self.emit(Op::Uninit);
            self.emit(Op::Return);
            self.code.functions.push(FunctionCode {
                name: program.names.text(f.function.name).to_string(),
                entry,
                params: f
                    .function
                    .params
                    .iter()
                    .map(|(name, _)| program.names.text(*name).to_string())
                    .collect(),
                has_arrays: f
                    .param_kinds
                    .iter()
                    .any(|k| matches!(k, Kind::Array | Kind::Mixed)),
            });
        }
    }

    fn rule(&mut self, rule: &'a Rule) {
        self.span = rule.span;
        let skip = self.label();
        match &rule.pattern {
            Pattern::Expr(e) => self.jump(e, skip, false),
            Pattern::Range(from, to) => {
                let n = self.code.ranges;
                self.code.ranges += 1;
                let (running, act) = (self.label(), self.label());
                self.emit_jump(|to| Op::JumpRange { n, to }, running);
                self.jump(from, skip, false);
                self.emit(Op::SetRange { n, on: true });
                self.here(running);
                self.jump(to, act, false);
                self.emit(Op::SetRange { n, on: false });
                self.here(act);
            }
            Pattern::Always | Pattern::Begin | Pattern::End => {}
        }
        match &rule.body {
            Some(body) => self.body(body),
            None => self.emit(Op::PrintRecord),
        }
        self.here(skip);
    }

    // ---- statements ----

    fn body(&mut self, body: &'a [Stmt]) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'a Stmt) {
        self.span = statement.span;
        match &statement.kind {
            StmtKind::Expr(e) => self.effect(e),
            StmtKind::Print {
                printf, args, to, ..
            } => self.print(*printf, args, to.as_ref()),
            StmtKind::If { arms, otherwise } => {
                let done = self.label();
                for (at, (cond, body)) in arms.iter().enumerate() {
                    let next = self.label();
                    self.jump(cond, next, false);
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
                self.loop_body(body, again, out);
                self.here(again);
                self.jump(cond, start, true);
                self.here(out);
            }
            StmtKind::DoWhile { body, cond } => {
                let (again, start, out) = (self.label(), self.label(), self.label());
                self.here(start);
                self.loop_body(body, again, out);
                self.here(again);
                self.jump(cond, start, true);
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
                self.loop_body(body, again, out);
                self.here(again);
                if let Some(step) = step {
                    self.statement(step);
                }
                self.here(test);
                match cond {
                    Some(cond) => self.jump(cond, start, true),
                    None => self.emit_jump(Op::Jump, start),
                }
                self.here(out);
            }
            StmtKind::ForIn {
                var,
                var_span,
                array,
                array_span,
                body,
            } => {
                let (again, out) = (self.label(), self.label());
                self.span = *array_span;
                let array = self.array(*array);
                self.emit(Op::ForIn(array));
                self.here(again);
                self.emit_jump(|to| Op::ForNext { end: to }, out);
                self.span = *var_span;
                let target = self.variable(*var);
                self.store(&target, false);
                self.loop_body(body, again, out);
                self.emit_jump(Op::Jump, again);
                self.here(out);
                self.emit(Op::ForEnd);
            }
            StmtKind::Block(body) => self.body(body),
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
                if let Some(l) = self.loops.last() {
                    let again = l.again;
                    self.emit_jump(Op::Jump, again);
                }
            }
            StmtKind::Delete { array, subs, .. } => {
                let array = self.array(*array);
                match subs {
                    Some(subs) => {
                        self.key(subs);
                        self.emit(Op::DeleteElem(array));
                    }
                    None => self.emit(Op::DeleteArray(array)),
                }
            }
        }
    }

    fn loop_body(&mut self, body: &'a [Stmt], again: Label, out: Label) {
        self.loops.push(Loop { again, out });
        self.body(body);
        self.loops.pop();
    }

    fn print(&mut self, printf: bool, args: &'a [Expr], to: Option<&'a Redirect>) {
        let kind = to.map_or(To::Stdout, |to| match to.kind {
            RedirectKind::File => To::File,
            RedirectKind::Append => To::Append,
            RedirectKind::Pipe => To::Pipe,
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
        } else if args.iter().all(is_quiet) {
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
    fn format(&mut self, args: &'a [Expr], dynamic: fn(u32) -> Op, constant: fn(u32, u32) -> Op) {
        if let Some(ExprKind::Str(format)) = args.first().map(|a| &a.ungrouped().kind) {
            let number = self.code.formats.len() as u32;
            self.code.formats.push(Rc::new(Format::parse(format)));
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

    // ---- names ----

    fn variable(&mut self, name: Symbol) -> Target<'a> {
        match self.program.place(name, self.inside) {
            Place::Local(n) => Target::Local(n),
            Place::Global(n) => Target::Global(n),
            Place::Special(s) => Target::Special(s),
        }
    }

    fn array(&mut self, name: Symbol) -> Arr {
        match self.program.place(name, self.inside) {
            Place::Local(n) => Arr(n | Arr::LOCAL),
            Place::Global(n) => Arr(n),
            Place::Special(Special::ENVIRON) => {
                self.code.uses_environ = true;
                Arr::ENVIRON
            }
            Place::Special(_) => {
                self.code.uses_argv = true;
                Arr::ARGV
            }
        }
    }

    fn target(&mut self, e: &'a Expr) -> Target<'a> {
        match &e.kind {
            ExprKind::Var(name) => self.variable(*name),
            ExprKind::Field(number) => Target::Field(number),
            ExprKind::Index { array, subs } => {
                let array = self.array(*array);
                Target::Elem(array, subs)
            }
            other => unreachable!("{other:?} is no target: the parser refuses it"),
        }
    }

    /// Fills the key register.
    fn key(&mut self, subs: &'a [Expr]) {
        if let [sub] = subs {
            let sub = sub.ungrouped();
            match &sub.kind {
                ExprKind::Str(s) => {
                    let n = self.constant(Value::text(s, false));
                    self.emit(Op::KeyConst(n));
                }
                ExprKind::Var(name) => match self.variable(*name) {
                    Target::Global(n) => self.emit(Op::KeyGlobal(n)),
                    Target::Local(n) => self.emit(Op::KeyLocal(n)),
                    _ => {
                        self.val(sub);
                        self.emit(Op::KeyVal);
                    }
                },
                ExprKind::Field(number) if const_field(number).is_some() => {
                    self.emit(Op::KeyField(const_field(number).unwrap_or(0)));
                }
                _ if self.is_num(sub) => {
                    self.num(sub);
                    self.emit(Op::KeyNum);
                }
                ExprKind::Concat(_) => {
                    self.text(sub);
                    self.emit(Op::KeyText);
                }
                _ => {
                    self.val(sub);
                    self.emit(Op::KeyVal);
                }
            }
            return;
        }
        self.emit(Op::TextBegin);
        for (at, sub) in subs.iter().enumerate() {
            if at > 0 {
                self.emit(Op::AppendSubsep);
            }
            self.append(sub, false);
        }
        self.emit(Op::KeyText);
    }

    // ---- what is known of an expression ----

    /// Whether it always gives a number.
    fn is_num(&self, e: &Expr) -> bool {
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
            ExprKind::Cond { yes, no, .. } => self.is_num(yes) && self.is_num(no),
            ExprKind::Assign { op, value, .. } => op.is_some() || self.is_num(value),
            ExprKind::Builtin { which, .. } => !matches!(
                which,
                Builtin::Sprintf | Builtin::Substr | Builtin::Tolower | Builtin::Toupper
            ),
            _ => false,
        }
    }

    /// Whether it always gives a string that is no numeric string.
    fn is_text(&self, e: &Expr) -> bool {
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

    // ---- expressions ----

    fn at<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.span, span);
        let result = f(self);
        self.span = outer;
        result
    }

    /// For its effect only.
    fn effect(&mut self, e: &'a Expr) {
        self.at(e.span, |c| match &e.kind {
            ExprKind::Group(inner) => c.effect(inner),
            ExprKind::Assign { target, op, value } => c.assign(target, *op, value, false),
            ExprKind::Step { target, down, .. } => c.step(
                target,
                Step {
                    down: *down,
                    leave: Leave::Nothing,
                },
            ),
            _ if c.is_num(e) => {
                c.num(e);
                c.emit(Op::DropNum);
            }
            _ => {
                c.val(e);
                c.emit(Op::DropVal);
            }
        });
    }

    /// A number on the number stack.
    fn num(&mut self, e: &'a Expr) {
        self.at(e.span, |c| c.num_here(e));
    }

    fn num_here(&mut self, e: &'a Expr) {
        if let Some(n) = fold(e) {
            self.emit(Op::Num(n));
            return;
        }
        match &e.kind {
            ExprKind::Group(inner) => self.num(inner),
            ExprKind::Var(name) => match self.variable(*name) {
                Target::Global(n) => self.emit(Op::NumGlobal(n)),
                Target::Local(n) => self.emit(Op::NumLocal(n)),
                Target::Special(s) => self.emit(Op::NumSpecial(s)),
                Target::Field(_) | Target::Elem(..) => unreachable!("a name is a variable"),
            },
            ExprKind::Field(number) => match const_field(number) {
                Some(n) => self.emit(Op::NumField(n)),
                None => {
                    self.num(number);
                    self.emit(Op::NumFieldDyn);
                }
            },
            ExprKind::Index { array, subs } => {
                let array = self.array(*array);
                self.key(subs);
                self.emit(Op::NumElem(array));
            }
            ExprKind::Not(operand) => {
                if self.is_num(operand) {
                    self.num(operand);
                    self.emit(Op::Not);
                } else {
                    self.val(operand);
                    self.emit(Op::NotVal);
                }
            }
            ExprKind::Minus(operand) => {
                self.num(operand);
                self.emit(Op::Neg);
            }
            ExprKind::Plus(operand) => self.num(operand),
            ExprKind::Arith { first, rest } => {
                self.num(first);
                for (op, operand) in rest {
                    match fold(operand) {
                        Some(n) => self.emit(Op::ArithConst(*op, n)),
                        None => {
                            self.num(operand);
                            self.emit(Op::Arith(*op));
                        }
                    }
                }
            }
            ExprKind::Power { base, exponent } => {
                self.num(base);
                self.num(exponent);
                self.emit(Op::Arith(ArithOp::Pow));
            }
            ExprKind::Compare { op, left, right } => {
                if self.is_num(left) && self.is_num(right) {
                    self.num(left);
                    self.num(right);
                    self.emit(Op::CompareNum(*op));
                } else if self.is_text(left) || self.is_text(right) {
                    self.text(left);
                    self.text(right);
                    self.emit(Op::CompareText(*op));
                } else {
                    self.val(left);
                    self.val(right);
                    self.emit(Op::CompareVal(*op));
                }
            }
            ExprKind::Regex(text) => {
                let re = self.regex(text, e.span);
                self.emit(Op::MatchRecord(Re(re)));
            }
            ExprKind::Match {
                negated,
                left,
                right,
            } => {
                self.matching(left, right);
                if *negated {
                    self.emit(Op::Not);
                }
            }
            ExprKind::In { subs, array, .. } => {
                let array = self.array(*array);
                self.key(subs);
                self.emit(Op::In(array));
            }
            ExprKind::And(_) | ExprKind::Or(_) => {
                let (no, done) = (self.label(), self.label());
                self.jump(e, no, false);
                self.emit(Op::Num(1.0));
                self.emit_jump(Op::Jump, done);
                self.here(no);
                self.emit(Op::Num(0.0));
                self.here(done);
            }
            ExprKind::Cond { cond, yes, no } => self.conditional(cond, yes, no, Self::num),
            ExprKind::Assign { target, op, value } => {
                self.assign(target, *op, value, true);
                if op.is_none() && !self.is_num(value) {
                    self.emit(Op::NumVal);
                }
            }
            ExprKind::Step {
                target,
                down,
                prefix,
            } => {
                let leave = if *prefix { Leave::New } else { Leave::Old };
                self.step(target, Step { down: *down, leave });
            }
            ExprKind::Getline { target, from } => self.getline(target.as_deref(), from),
            ExprKind::Builtin { which, args, .. } if self.is_num(e) => {
                self.num_builtin(*which, args)
            }
            _ => {
                self.val(e);
                self.emit(Op::NumVal);
            }
        }
    }

    fn conditional(
        &mut self,
        cond: &'a Expr,
        yes: &'a Expr,
        no: &'a Expr,
        each: fn(&mut Self, &'a Expr),
    ) {
        let (otherwise, done) = (self.label(), self.label());
        self.jump(cond, otherwise, false);
        each(self, yes);
        self.emit_jump(Op::Jump, done);
        self.here(otherwise);
        each(self, no);
        self.here(done);
    }

    /// A value on the value stack.
    fn val(&mut self, e: &'a Expr) {
        self.at(e.span, |c| c.val_here(e));
    }

    fn val_here(&mut self, e: &'a Expr) {
        if let Some(n) = fold(e) {
            let n = self.constant(Value::Num(n));
            self.emit(Op::Const(n));
            return;
        }
        match &e.kind {
            ExprKind::Group(inner) => self.val(inner),
            ExprKind::Str(s) => {
                let n = self.constant(Value::text(s, false));
                self.emit(Op::Const(n));
            }
            ExprKind::Var(name) => match self.variable(*name) {
                Target::Global(n) => self.emit(Op::ValGlobal(n)),
                Target::Local(n) => self.emit(Op::ValLocal(n)),
                Target::Special(s) => self.emit(Op::ValSpecial(s)),
                Target::Field(_) | Target::Elem(..) => unreachable!("a name is a variable"),
            },
            ExprKind::Field(number) => match const_field(number) {
                Some(n) => self.emit(Op::ValField(n)),
                None => {
                    self.num(number);
                    self.emit(Op::ValFieldDyn);
                }
            },
            ExprKind::Index { array, subs } => {
                let array = self.array(*array);
                self.key(subs);
                self.emit(Op::ValElem(array));
            }
            ExprKind::Concat(_) => {
                self.text(e);
                self.emit(Op::TextEnd);
            }
            ExprKind::Cond { cond, yes, no } => self.conditional(cond, yes, no, Self::val),
            ExprKind::Assign {
                target,
                op: None,
                value,
            } if !self.is_num(value) => self.assign(target, None, value, true),
            ExprKind::Call { name, args } => self.call(*name, args),
            ExprKind::Builtin { which, args, .. } if !self.is_num(e) => {
                self.text_builtin(*which, args)
            }
            ExprKind::Tuple(list) => {
                // Refused by the parser anywhere but in `print`, which takes the list apart.
                for e in list {
                    self.val(e);
                }
            }
            _ => {
                self.num(e);
                self.emit(Op::ValNum);
            }
        }
    }

    /// A new string in the text buffer.
    fn text(&mut self, e: &'a Expr) {
        self.emit(Op::TextBegin);
        self.append(e, false);
    }

    /// Its text at the end of the string being built; `out`: for `print`, where OFMT formats numbers.
    fn append(&mut self, e: &'a Expr, out: bool) {
        self.at(e.span, |c| c.append_here(e, out));
    }

    fn append_here(&mut self, e: &'a Expr, out: bool) {
        if let Some(n) = fold(e) {
            if n.trunc() == n && n.is_finite() {
                let mut text = Vec::new();
                number_to_text(n, &Format::parse(b"%.6g"), &mut text);
                let n = self.constant(Value::text(&text, false));
                self.emit(Op::AppendConst(n));
            } else {
                self.emit(Op::Num(n));
                self.emit(Op::AppendNum { out });
            }
            return;
        }
        match &e.kind {
            ExprKind::Group(inner) => self.append(inner, out),
            ExprKind::Str(s) => {
                let n = self.constant(Value::text(s, false));
                self.emit(Op::AppendConst(n));
            }
            ExprKind::Concat(list) => {
                for part in list {
                    self.append(part, false);
                }
            }
            ExprKind::Var(name) => match self.variable(*name) {
                Target::Global(n) => self.emit(Op::AppendGlobal { n, out }),
                Target::Local(n) => self.emit(Op::AppendLocal { n, out }),
                Target::Special(s) => self.emit(Op::AppendSpecial { s, out }),
                Target::Field(_) | Target::Elem(..) => unreachable!("a name is a variable"),
            },
            ExprKind::Field(number) => match const_field(number) {
                Some(n) => self.emit(Op::AppendField { n, out }),
                None => {
                    self.num(number);
                    self.emit(Op::AppendFieldDyn { out });
                }
            },
            ExprKind::Index { array, subs } => {
                let array = self.array(*array);
                self.key(subs);
                self.emit(Op::AppendElem { array, out });
            }
            ExprKind::Cond { cond, yes, no } => {
                let each: fn(&mut Self, &'a Expr) = if out {
                    |c, e| c.append(e, true)
                } else {
                    |c, e| c.append(e, false)
                };
                self.conditional(cond, yes, no, each);
            }
            _ if self.is_num(e) => {
                self.num(e);
                self.emit(Op::AppendNum { out });
            }
            _ => {
                self.val(e);
                self.emit(Op::AppendVal { out });
            }
        }
    }

    /// Jumps to `to` if the condition is `when`.
    fn jump(&mut self, e: &'a Expr, to: Label, when: bool) {
        self.at(e.span, |c| c.jump_here(e, to, when));
    }

    fn jump_here(&mut self, e: &'a Expr, to: Label, when: bool) {
        if let Some(n) = fold(e) {
            if (n != 0.0) == when {
                self.emit_jump(Op::Jump, to);
            }
            return;
        }
        match &e.kind {
            ExprKind::Group(inner) => self.jump(inner, to, when),
            ExprKind::Not(operand) => self.jump(operand, to, !when),
            ExprKind::And(list) | ExprKind::Or(list) => {
                let all = matches!(e.kind, ExprKind::And(_));
                if all != when {
                    // Any operand that decides jumps.
                    for operand in list {
                        self.jump(operand, to, when);
                    }
                    return;
                }
                let Some((last, others)) = list.split_last() else {
                    return;
                };
                let stay = self.label();
                for operand in others {
                    self.jump(operand, stay, !when);
                }
                self.jump(last, to, when);
                self.here(stay);
            }
            ExprKind::Compare { op, left, right } => self.jump_compare(*op, left, right, to, when),
            ExprKind::Regex(text) => {
                let re = self.regex(text, e.span);
                self.emit_jump(|to| Op::JumpMatchRecord { re, when, to }, to);
            }
            ExprKind::Match {
                negated,
                left,
                right,
            } => {
                let when = when != *negated;
                self.matching(left, right);
                self.emit_jump(|to| Op::JumpNum { when, to }, to);
            }
            ExprKind::In { subs, array, .. } => {
                let array = self.array(*array);
                self.key(subs);
                self.emit_jump(|to| Op::JumpIn { array, when, to }, to);
            }
            _ if self.is_num(e) => {
                self.num(e);
                self.emit_jump(|to| Op::JumpNum { when, to }, to);
            }
            _ => {
                self.val(e);
                self.emit_jump(|to| Op::JumpVal { when, to }, to);
            }
        }
    }

    fn jump_compare(
        &mut self,
        op: CompareOp,
        left: &'a Expr,
        right: &'a Expr,
        to: Label,
        when: bool,
    ) {
        let test = Test::new(op, when);
        if self.is_num(left) && self.is_num(right) {
            self.num(left);
            if let Some(n) = fold(right) {
                self.emit_jump(|to| Op::JumpCompareConst { test, to, n }, to);
            } else {
                self.num(right);
                self.emit_jump(|to| Op::JumpCompareNum { test, to }, to);
            }
            return;
        }
        if self.is_text(left) || self.is_text(right) {
            self.text(left);
            self.text(right);
            self.emit_jump(|to| Op::JumpCompareText { test, to }, to);
            return;
        }
        if let (ExprKind::Field(number), Some(n)) = (&left.ungrouped().kind, fold(right))
            && let Some(field) = const_field(number)
            && let Ok(field) = u16::try_from(field)
        {
            self.emit_jump(|to| Op::JumpCompareField { test, field, to, n }, to);
            return;
        }
        if let (ExprKind::Var(name), Some(n)) = (&left.ungrouped().kind, fold(right)) {
            match self.variable(*name) {
                Target::Global(var) if var <= u32::from(u16::MAX) => {
                    let var = var as u16;
                    self.emit_jump(|to| Op::JumpCompareGlobal { test, var, to, n }, to);
                    return;
                }
                Target::Local(var) if var <= u32::from(u16::MAX) => {
                    let var = var as u16;
                    self.emit_jump(|to| Op::JumpCompareLocal { test, var, to, n }, to);
                    return;
                }
                _ => {}
            }
        }
        self.val(left);
        self.val(right);
        self.emit_jump(|to| Op::JumpCompareVal { test, to }, to);
    }

    /// `left ~ right` as 1 or 0 on the number stack.
    fn matching(&mut self, left: &'a Expr, right: &'a Expr) {
        if let ExprKind::Regex(text) | ExprKind::Str(text) = &right.kind {
            let re = Re(self.regex(text, right.span));
            if let ExprKind::Field(number) = &left.ungrouped().kind
                && let Some(field) = const_field(number)
            {
                self.emit(if field == 0 {
                    Op::MatchRecord(re)
                } else {
                    Op::MatchField { field, re }
                });
                return;
            }
            self.text(left);
            self.emit(Op::MatchText(re));
            return;
        }
        self.text(left);
        self.text(right);
        self.emit(Op::MatchText(Re::DYNAMIC));
    }

    // ---- assignment ----

    /// With `keep`, the assigned value stays: on the number stack if the whole assignment `is_num`, else as a value.
    fn assign(&mut self, target: &'a Expr, op: Option<ArithOp>, value: &'a Expr, keep: bool) {
        let place = self.target(target);
        if let Some(op) = op {
            self.num(value);
            self.arith_assign(&place, op, keep);
            return;
        }
        if !keep && self.grows(&place, value) {
            return;
        }
        if self.is_num(value) {
            self.num(value);
            self.store_num(&place, keep);
        } else {
            self.val(value);
            self.store(&place, keep);
        }
    }

    /// `s = s x y`: appends in place. Only if `x y` cannot change `s`.
    fn grows(&mut self, place: &Target<'a>, value: &'a Expr) -> bool {
        let ExprKind::Concat(list) = &value.ungrouped().kind else {
            return false;
        };
        let ExprKind::Var(name) = list[0].kind else {
            return false;
        };
        let op = match (place, self.variable(name)) {
            (Target::Global(a), Target::Global(b)) if *a == b => Op::GrowGlobal(b),
            (Target::Local(a), Target::Local(b)) if *a == b => Op::GrowLocal(b),
            _ => return false,
        };
        if !list[1..].iter().all(is_quiet) {
            return false;
        }
        self.emit(Op::TextBegin);
        for part in &list[1..] {
            self.append(part, false);
        }
        self.emit(op);
        true
    }

    fn arith_assign(&mut self, place: &Target<'a>, op: ArithOp, keep: bool) {
        match *place {
            Target::Global(n) => self.emit(Op::ArithGlobal { n, op, keep }),
            Target::Local(n) => self.emit(Op::ArithLocal { n, op, keep }),
            Target::Special(s) => self.emit(Op::ArithSpecial { s, op, keep }),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::ArithField { op, keep });
            }
            Target::Elem(array, subs) => {
                self.key(subs);
                self.emit(Op::ArithElem { array, op, keep });
            }
        }
    }

    /// Stores the value on the value stack.
    fn store(&mut self, place: &Target<'a>, keep: bool) {
        match *place {
            Target::Global(n) => self.emit(Op::StoreGlobal { n, keep }),
            Target::Local(n) => self.emit(Op::StoreLocal { n, keep }),
            Target::Special(s) => self.emit(Op::StoreSpecial { s, keep }),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::StoreField { keep });
            }
            Target::Elem(array, subs) => {
                self.key(subs);
                self.emit(Op::StoreElem { array, keep });
            }
        }
    }

    /// Stores the number on the number stack.
    fn store_num(&mut self, place: &Target<'a>, keep: bool) {
        match *place {
            Target::Global(n) => self.emit(Op::StoreNumGlobal { n, keep }),
            Target::Local(n) => self.emit(Op::StoreNumLocal { n, keep }),
            Target::Elem(array, subs) => {
                self.key(subs);
                self.emit(Op::StoreNumElem { array, keep });
            }
            Target::Special(_) | Target::Field(_) => {
                self.emit(Op::ValNum);
                self.store(place, keep);
                if keep {
                    self.emit(Op::NumVal);
                }
            }
        }
    }

    fn step(&mut self, target: &'a Expr, step: Step) {
        match self.target(target) {
            Target::Global(n) => self.emit(Op::StepGlobal { n, step }),
            Target::Local(n) => self.emit(Op::StepLocal { n, step }),
            Target::Special(s) => self.emit(Op::StepSpecial { s, step }),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::StepField(step));
            }
            Target::Elem(array, subs) => {
                if let [sub] = subs
                    && let ExprKind::Field(number) = &sub.ungrouped().kind
                    && let Some(field) = const_field(number)
                {
                    self.emit(Op::StepElemField { array, field, step });
                    return;
                }
                self.key(subs);
                self.emit(Op::StepElem { array, step });
            }
        }
    }

    // ---- calls ----

    fn call(&mut self, name: Symbol, args: &'a [Expr]) {
        let Some(number) = self.program.function(name) else {
            unreachable!("the resolver finds every called function")
        };
        let kinds = &self.program.functions[number as usize].param_kinds;
        for (at, arg) in args.iter().enumerate() {
            if at >= kinds.len() {
                self.effect(arg); // one that the function does not take
                continue;
            }
            if let ExprKind::Var(variable) = arg.kind {
                let place = self.program.place(variable, self.inside);
                let is_array = self.program.kind(place, self.inside) == Kind::Array;
                // A parameter that is an array in the callee must be one here, even if it holds nothing yet.
                if is_array || (kinds[at] == Kind::Array && matches!(place, Place::Local(_))) {
                    let array = self.array(variable);
                    self.at(arg.span, |c| c.emit(Op::PushArray(array)));
                    continue;
                }
                // Untyped here: handed on as it is, array or not.
                match place {
                    Place::Local(n) => {
                        self.at(arg.span, |c| c.emit(Op::PassLocal(n)));
                        continue;
                    }
                    Place::Global(n) if self.program.kind(place, self.inside) == Kind::Unknown => {
                        self.at(arg.span, |c| c.emit(Op::PassGlobal(n)));
                        continue;
                    }
                    _ => {}
                }
            }
            self.val(arg);
        }
        let passed = args.len().min(kinds.len()) as u32;
        self.emit(Op::Call {
            function: number,
            args: passed,
        });
    }

    fn getline(&mut self, target: Option<&'a Expr>, from: &'a GetlineFrom) {
        let from = match from {
            GetlineFrom::Main => From::Main,
            GetlineFrom::File(file) => {
                self.text(file);
                From::File
            }
            GetlineFrom::Command(command) => {
                self.text(command);
                From::Command
            }
        };
        let getline = Op::Getline {
            from,
            into_value: target.is_some(),
        };
        let Some(target) = target else {
            self.emit(getline);
            return;
        };
        let (none, done) = (self.label(), self.label());
        match &target.kind {
            ExprKind::Index { array, subs } => {
                // The element is made even if there is nothing to read: gawk and mawk agree.
                let array = self.array(*array);
                self.key_value(subs);
                self.emit(Op::KeyPeek);
                self.emit(Op::NumElem(array));
                self.emit(Op::DropNum);
                self.emit(getline);
                self.emit_jump(|to| Op::JumpNone { to }, none);
                self.emit(Op::KeyUnder);
                self.emit(Op::StoreElem { array, keep: false });
                self.emit_jump(Op::Jump, done);
                self.here(none);
                self.emit(Op::DropVal);
            }
            ExprKind::Field(number) => {
                self.num(number);
                self.emit(getline);
                self.emit_jump(|to| Op::JumpNone { to }, none);
                self.emit(Op::StoreFieldUnder);
                self.emit_jump(Op::Jump, done);
                self.here(none);
                self.emit(Op::DropNumUnder);
            }
            _ => {
                self.emit(getline);
                self.emit_jump(|to| Op::JumpNone { to }, none);
                let place = self.target(target);
                self.store(&place, false);
                self.here(none);
            }
        }
        self.here(done);
    }

    /// A pattern operand: constant, or its text in the text buffer.
    fn pattern(&mut self, e: &'a Expr) -> Re {
        match &e.kind {
            ExprKind::Regex(text) | ExprKind::Str(text) => Re(self.regex(text, e.span)),
            _ => {
                self.text(e);
                Re::DYNAMIC
            }
        }
    }

    fn num_builtin(&mut self, which: Builtin, args: &'a [Expr]) {
        match which {
            Builtin::Cos
            | Builtin::Exp
            | Builtin::Int
            | Builtin::Log
            | Builtin::Sin
            | Builtin::Sqrt => {
                self.num(&args[0]);
                self.emit(Op::NumFn(match which {
                    Builtin::Cos => NumFn::Cos,
                    Builtin::Exp => NumFn::Exp,
                    Builtin::Int => NumFn::Int,
                    Builtin::Log => NumFn::Log,
                    Builtin::Sin => NumFn::Sin,
                    _ => NumFn::Sqrt,
                }));
            }
            Builtin::Atan2 => {
                self.num(&args[0]);
                self.num(&args[1]);
                self.emit(Op::Atan2);
            }
            Builtin::Rand => self.emit(Op::Rand),
            Builtin::Srand => {
                if let Some(seed) = args.first() {
                    self.num(seed);
                }
                self.emit(Op::Srand {
                    given: !args.is_empty(),
                });
            }
            Builtin::Length => self.length(args.first()),
            Builtin::Index => {
                self.text(&args[0]);
                self.text(&args[1]);
                self.emit(Op::Index);
            }
            Builtin::Match => {
                self.text(&args[0]);
                let re = self.pattern(&args[1]);
                self.emit(Op::Match(re));
            }
            Builtin::Split => self.split(args),
            Builtin::Sub | Builtin::Gsub => self.substitute(which == Builtin::Gsub, args),
            Builtin::Close => {
                self.text(&args[0]);
                self.emit(Op::Close);
            }
            Builtin::Fflush => {
                if let Some(name) = args.first() {
                    self.text(name);
                }
                self.emit(Op::Fflush {
                    named: !args.is_empty(),
                });
            }
            Builtin::System => {
                self.text(&args[0]);
                self.emit(Op::System);
            }
            Builtin::Sprintf | Builtin::Substr | Builtin::Tolower | Builtin::Toupper => {
                unreachable!("{} gives a string", which.name())
            }
        }
    }

    fn length(&mut self, arg: Option<&'a Expr>) {
        let Some(arg) = arg else {
            self.emit(Op::LengthRecord);
            return;
        };
        if let ExprKind::Var(name) = arg.ungrouped().kind {
            let place = self.program.place(name, self.inside);
            if self.program.kind(place, self.inside) == Kind::Array {
                let array = self.array(name);
                self.emit(Op::LengthArray(array));
                return;
            }
            match place {
                Place::Local(n) => {
                    self.emit(Op::LengthLocal(n));
                    return;
                }
                Place::Global(n) if self.program.kind(place, self.inside) == Kind::Unknown => {
                    self.emit(Op::LengthGlobal(n));
                    return;
                }
                _ => {}
            }
        }
        self.text(arg);
        self.emit(Op::LengthText);
    }

    fn split(&mut self, args: &'a [Expr]) {
        let ExprKind::Var(name) = args[1].ungrouped().kind else {
            self.diagnostics.error(
                args[1].span,
                "second argument of `split` must be the name of an array",
            );
            return;
        };
        self.text(&args[0]);
        let sep = match args.get(2).map(|e| (&e.kind, e.span)) {
            None => Sep::Default,
            Some((ExprKind::Str(text), span)) => match Splitter::from_fs(text, self.charset, false)
            {
                Ok(splitter) => self.splitter(splitter),
                Err(error) => {
                    self.diagnostics
                        .error(span, format!("separator of `split`: {}", error.what));
                    Sep::Default
                }
            },
            Some((ExprKind::Regex(text), span)) => {
                let re = self.regex(text, span);
                match self.code.regexes.get(re as usize).cloned() {
                    Some(regex) => self.splitter(Splitter::from_regex(regex)),
                    None => Sep::Default,
                }
            }
            Some(_) => {
                self.text(&args[2]);
                Sep::Dynamic
            }
        };
        let array = self.array(name);
        self.emit(Op::Split { array, sep });
    }

    fn splitter(&mut self, splitter: Splitter) -> Sep {
        self.code.splitters.push(Rc::new(splitter));
        Sep::Const((self.code.splitters.len() - 1) as u32)
    }

    /// `sub` and `gsub`. A target with a computed place (subscript, field number) is computed once: the key stays on the
    /// value stack, the field number on the number stack, until the result is stored or dropped.
    fn substitute(&mut self, global: bool, args: &'a [Expr]) {
        let re = self.pattern(&args[0]);
        self.text(&args[1]);
        let Some(target) = args.get(2) else {
            self.emit(Op::TextBegin);
            self.emit(Op::AppendField { n: 0, out: false });
            self.emit(Op::Sub { re, global });
            let none = self.label();
            self.emit_jump(|to| Op::JumpNone { to }, none);
            self.emit(Op::Num(0.0));
            self.emit(Op::StoreField { keep: false });
            self.here(none);
            return;
        };
        let (none, done) = (self.label(), self.label());
        match &target.kind {
            ExprKind::Index { array, subs } => {
                let array = self.array(*array);
                self.key_value(subs);
                self.emit(Op::TextBegin);
                self.emit(Op::KeyPeek);
                self.emit(Op::AppendElem { array, out: false });
                self.emit(Op::Sub { re, global });
                self.emit_jump(|to| Op::JumpNone { to }, none);
                self.emit(Op::KeyUnder);
                self.emit(Op::StoreElem { array, keep: false });
                self.emit_jump(Op::Jump, done);
                self.here(none);
                self.emit(Op::DropVal);
            }
            ExprKind::Field(number) if const_field(number).is_none() => {
                self.num(number);
                self.emit(Op::TextBegin);
                self.emit(Op::AppendFieldPeek);
                self.emit(Op::Sub { re, global });
                self.emit_jump(|to| Op::JumpNone { to }, none);
                // Numbers: field, count. The store wants the field on top and the count is the result.
                self.emit(Op::StoreFieldUnder);
                self.emit_jump(Op::Jump, done);
                self.here(none);
                self.emit(Op::DropNumUnder);
            }
            _ if target.is_lvalue() => {
                self.text(target);
                self.emit(Op::Sub { re, global });
                self.emit_jump(|to| Op::JumpNone { to }, none);
                let place = self.target(target);
                self.store(&place, false);
                self.here(none);
            }
            _ => {
                self.text(target);
                self.emit(Op::Sub { re, global });
                self.emit_jump(|to| Op::JumpNone { to }, none);
                self.emit(Op::DropVal);
                self.here(none);
            }
        }
        self.here(done);
    }

    /// The key of subscripts as one value.
    fn key_value(&mut self, subs: &'a [Expr]) {
        if let [sub] = subs {
            self.val(sub);
            return;
        }
        self.emit(Op::TextBegin);
        for (at, sub) in subs.iter().enumerate() {
            if at > 0 {
                self.emit(Op::AppendSubsep);
            }
            self.append(sub, false);
        }
        self.emit(Op::TextEnd);
    }

    fn text_builtin(&mut self, which: Builtin, args: &'a [Expr]) {
        match which {
            Builtin::Sprintf => self.format(args, Op::Sprintf, |format, args| Op::SprintfConst {
                format,
                args,
            }),
            Builtin::Substr => {
                self.text(&args[0]);
                self.num(&args[1]);
                if let Some(length) = args.get(2) {
                    self.num(length);
                }
                self.emit(Op::Substr {
                    bounded: args.len() == 3,
                });
            }
            Builtin::Tolower | Builtin::Toupper => {
                self.text(&args[0]);
                self.emit(if which == Builtin::Tolower {
                    Op::ToLower
                } else {
                    Op::ToUpper
                });
            }
            _ => unreachable!("{} gives a number", which.name()),
        }
    }
}

/// Special variables that always hold numbers.
pub fn is_num_special(s: Special) -> bool {
    matches!(
        s,
        Special::NR | Special::NF | Special::FNR | Special::RSTART | Special::RLENGTH
    )
}

/// The number of a field that is known now.
fn const_field(number: &Expr) -> Option<u32> {
    let n = fold(number)?;
    (0.0..=1e6).contains(&n).then_some(n as u32)
}

/// The value of a constant expression. Division by zero is left to the machine, which reports it if it is reached.
fn fold(e: &Expr) -> Option<f64> {
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
fn is_quiet(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Num(_) | ExprKind::Str(_) | ExprKind::Regex(_) | ExprKind::Var(_) => true,
        ExprKind::Field(inner)
        | ExprKind::Group(inner)
        | ExprKind::Not(inner)
        | ExprKind::Minus(inner)
        | ExprKind::Plus(inner) => is_quiet(inner),
        ExprKind::Index { subs: list, .. }
        | ExprKind::In { subs: list, .. }
        | ExprKind::Tuple(list)
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
        ExprKind::Cond { cond, yes, no } => is_quiet(cond) && is_quiet(yes) && is_quiet(no),
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
        | ExprKind::Getline { .. } => false,
    }
}
