//! Expressions, each in the mode that its consumer wants.

use std::rc::Rc;

use awk_syntax::ast::*;
use awk_syntax::names::{Builtin, Special, Symbol};
use awk_syntax::{Place, Span};

use super::facts::*;
use super::{Compiler, Label, Target};
use crate::code::*;
use crate::format::{Format, number_to_text};
use crate::value::Value;

impl<'a> Compiler<'a> {
    pub(super) fn at<T>(&mut self, span: Span, f: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.span, span);
        let result = f(self);
        self.span = outer;
        result
    }

    /// For its effect only.
    pub(super) fn effect(&mut self, e: &'a Expr) {
        self.at(e.span, |c| match &e.kind {
            ExprKind::Group(inner) => c.effect(inner),
            ExprKind::Assign { target, op, value } => c.assign(target, *op, value, false),
            ExprKind::Step { target, down, .. } if c.wish.exact => c.exact_step(
                target,
                Step {
                    down: *down,
                    leave: Leave::Nothing,
                },
            ),
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
    pub(super) fn num(&mut self, e: &'a Expr) {
        self.at(e.span, |c| c.num_here(e));
    }

    pub(super) fn num_here(&mut self, e: &'a Expr) {
        if let Some(n) = self.known(e) {
            self.emit(Op::Num(n));
            return;
        }
        if self.is_exact(e) {
            self.exact_value(e);
            self.emit(Op::NumVal);
            return;
        }
        match &e.kind {
            ExprKind::Group(inner) => self.num(inner),
            ExprKind::Var(name) => match self.variable(*name) {
                Target::Global(n) => self.emit(Op::NumGlobal(n)),
                Target::Local(n) => self.emit(Op::NumLocal(n)),
                Target::Special(s) => self.emit(Op::NumSpecial(s)),
                Target::Field(_) | Target::Elem(..) | Target::Symbol(_) => {
                    unreachable!("a name is a variable")
                }
            },
            ExprKind::Field(number) => match const_field(number) {
                Some(n) => self.emit(Op::NumField(n)),
                None => {
                    self.num(number);
                    self.emit(Op::NumFieldDyn);
                }
            },
            ExprKind::Index { array, subs } if !self.is_symtab(array) => {
                if let Some(parts) = self.parts(array) {
                    let at_number = |at| Op::NumPartAt { parts, at };
                    return self.part(subs, at_number, Op::NumPart(parts));
                }
                let array = self.array(array);
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
                    match self.known(operand) {
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
            ExprKind::In { subs, array } => self.membership(subs, array),
            ExprKind::And(_) | ExprKind::Or(_) => {
                let (no, done) = (self.label(), self.label());
                self.jump(e, no, false);
                self.emit(Op::Num(1.0));
                self.emit_jump(Op::Jump, done);
                self.here(no);
                self.emit(Op::Num(0.0));
                self.here(done);
            }
            ExprKind::Cond { arms, otherwise } => self.conditional(arms, otherwise, Self::num),
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

    pub(super) fn conditional(
        &mut self,
        arms: &'a [(Expr, Expr)],
        otherwise: &'a Expr,
        each: fn(&mut Self, &'a Expr),
    ) {
        let done = self.label();
        for (cond, yes) in arms {
            let next = self.label();
            self.jump(cond, next, false);
            each(self, yes);
            self.emit_jump(Op::Jump, done);
            self.here(next);
        }
        each(self, otherwise);
        self.here(done);
    }

    /// A value on the value stack.
    pub(super) fn val(&mut self, e: &'a Expr) {
        self.at(e.span, |c| c.val_here(e));
    }

    pub(super) fn val_here(&mut self, e: &'a Expr) {
        if let Some(n) = self.known(e) {
            let n = self.constant(Value::Num(n));
            self.emit(Op::Const(n));
            return;
        }
        if self.is_exact(e) {
            self.exact_value(e);
            return;
        }
        match &e.kind {
            ExprKind::Group(inner) => self.val(inner),
            ExprKind::Str(s) => {
                let n = self.constant(Value::text(s, false));
                self.emit(Op::Const(n));
            }
            ExprKind::TypedRegex(text) => {
                let value = self.regex_value(text, e.span);
                self.emit(Op::Const(value));
            }
            ExprKind::Translated(text) => {
                let n = self.constant(Value::text(text, false));
                self.emit(Op::Const(n));
                self.emit(Op::Builtin {
                    which: Builtin::Dcgettext,
                    args: 1,
                });
            }
            ExprKind::IndirectCall { name, args, .. } => {
                let callee = self.variable(*name);
                match callee {
                    Target::Global(n) => self.emit(Op::ValGlobal(n)),
                    Target::Local(n) => self.emit(Op::ValLocal(n)),
                    Target::Special(s) => self.emit(Op::ValSpecial(s)),
                    _ => unreachable!("a name is a variable"),
                }
                for arg in args {
                    self.pass(arg);
                }
                self.emit(Op::CallIndirect {
                    args: args.len() as u32,
                });
            }
            ExprKind::Var(name) => match self.variable(*name) {
                Target::Global(n) => self.emit(Op::ValGlobal(n)),
                Target::Local(n) => self.emit(Op::ValLocal(n)),
                Target::Special(s) => self.emit(Op::ValSpecial(s)),
                Target::Field(_) | Target::Elem(..) | Target::Symbol(_) => {
                    unreachable!("a name is a variable")
                }
            },
            ExprKind::Field(number) => match const_field(number) {
                Some(n) => self.emit(Op::ValField(n)),
                None => {
                    self.num(number);
                    self.emit(Op::ValFieldDyn);
                }
            },
            ExprKind::Index { array, subs } if self.is_symtab(array) => {
                self.code.use_special(Special::SYMTAB);
                self.key(subs);
                self.emit(Op::ValSymbol);
            }
            ExprKind::Index { array, subs } => {
                if let Some(parts) = self.parts(array) {
                    let at_number = |at| Op::ValPartAt { parts, at };
                    return self.part(subs, at_number, Op::ValPart(parts));
                }
                let array = self.array(array);
                self.key(subs);
                self.emit(Op::ValElem(array));
            }
            ExprKind::Concat(_) => {
                self.text(e);
                self.emit(Op::TextEnd);
            }
            ExprKind::Cond { arms, otherwise } => self.conditional(arms, otherwise, Self::val),
            ExprKind::Assign {
                target,
                op: None,
                value,
            } if !self.is_num(value) => self.assign(target, None, value, true),
            ExprKind::Call { name, args } => self.call(*name, args),
            ExprKind::Builtin { which, args, .. } if !self.is_num(e) => {
                self.val_builtin(*which, args)
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
    pub(super) fn text(&mut self, e: &'a Expr) {
        self.emit(Op::TextBegin);
        self.append(e, false);
    }

    /// Its text at the end of the string being built; `out`: for `print`, where OFMT formats numbers.
    pub(super) fn append(&mut self, e: &'a Expr, out: bool) {
        self.at(e.span, |c| c.append_here(e, out));
    }

    pub(super) fn append_here(&mut self, e: &'a Expr, out: bool) {
        if let Some(n) = self.known(e) {
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
                Target::Field(_) | Target::Elem(..) | Target::Symbol(_) => {
                    unreachable!("a name is a variable")
                }
            },
            ExprKind::Field(number) => match const_field(number) {
                Some(n) => self.emit(Op::AppendField { n, out }),
                None => {
                    self.num(number);
                    self.emit(Op::AppendFieldDyn { out });
                }
            },
            ExprKind::Index { array, subs } if !self.is_symtab(array) => {
                if let Some(parts) = self.parts(array) {
                    let at_number = |at| Op::AppendPartAt { parts, at };
                    return self.part(subs, at_number, Op::AppendPart(parts));
                }
                let array = self.array(array);
                self.key(subs);
                self.emit(Op::AppendElem { array, out });
            }
            ExprKind::Cond { arms, otherwise } => {
                let each: fn(&mut Self, &'a Expr) = if out {
                    |c, e| c.append(e, true)
                } else {
                    |c, e| c.append(e, false)
                };
                self.conditional(arms, otherwise, each);
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
    pub(super) fn jump(&mut self, e: &'a Expr, to: Label, when: bool) {
        self.at(e.span, |c| c.jump_here(e, to, when));
    }

    pub(super) fn jump_here(&mut self, e: &'a Expr, to: Label, when: bool) {
        if let Some(n) = self.known(e) {
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
            ExprKind::In { subs, array } if !self.is_symtab(array) => {
                let array = self.array(array);
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

    pub(super) fn jump_compare(
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
            if let Some(n) = self.known(right) {
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
        if let (ExprKind::Field(number), Some(n)) = (&left.ungrouped().kind, self.known(right))
            && !self.wish.exact
            && let Some(field) = const_field(number)
            && let Ok(field) = u16::try_from(field)
        {
            self.emit_jump(|to| Op::JumpCompareField { test, field, to, n }, to);
            return;
        }
        if let (ExprKind::Var(name), Some(n)) = (&left.ungrouped().kind, self.known(right)) {
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
    pub(super) fn matching(&mut self, left: &'a Expr, right: &'a Expr) {
        if let Some(re) = self.constant_regex(right) {
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

    pub(super) fn call(&mut self, name: Symbol, args: &'a [Expr]) {
        let Some(number) = self.program.function(name) else {
            for arg in args {
                self.pass(arg);
            }
            let name = self.program.names.text(name).as_bytes();
            let name = self.constant(Value::text(name, false));
            self.emit(Op::CallUndefined { name });
            return;
        };
        let kinds = &self.program.functions[number as usize].param_kinds;
        for (at, arg) in args.iter().enumerate() {
            if at >= kinds.len() {
                self.effect(arg); // one that the function does not take
                continue;
            }
            self.pass(arg);
        }
        let passed = args.len().min(kinds.len()) as u32;
        self.emit(Op::Call {
            function: number,
            args: passed,
        });
    }

    /// An argument handed over as it is: an array, a value, or a variable that holds nothing and may become either.
    pub(super) fn pass(&mut self, arg: &'a Expr) {
        self.at(arg.span, |c| match &arg.kind {
            ExprKind::Var(name) => match c.program.place(*name, c.inside) {
                Place::Local(n) => c.emit(Op::PassLocal(n)),
                Place::Global(n) => c.emit(Op::PassGlobal(n)),
                Place::Special(s) if s.is_array() => {
                    c.code.use_special(s);
                    if s == Special::SYMTAB {
                        c.emit(Op::AllSymbols);
                        c.emit(Op::PushArray(Arr::TOP));
                    } else {
                        c.emit(Op::PushArray(Arr::special(s)));
                    }
                }
                _ => c.val(arg),
            },
            ExprKind::Index { array, subs } if c.is_symtab(array) => {
                c.code.use_special(Special::SYMTAB);
                c.key(subs);
                c.emit(Op::PassSymbol);
            }
            ExprKind::Index { array, subs } => {
                let array = c.array(array);
                c.key(subs);
                c.emit(Op::PassElem(array));
            }
            _ => c.val(arg),
        });
    }

    /// `subs in array` as 1 or 0 on the number stack.
    fn membership(&mut self, subs: &'a [Expr], array: &'a ArrayExpr) {
        if self.is_symtab(array) {
            self.code.use_special(Special::SYMTAB);
            self.key(subs);
            self.emit(Op::InSymbol);
            return;
        }
        let array = self.array(array);
        self.key(subs);
        self.emit(Op::In(array));
    }

    /// The number of a constant regular expression as a value.
    pub(super) fn regex_value(&mut self, text: &[u8], span: Span) -> u32 {
        self.regex(text, span); // for its errors
        self.constant(Value::Regex(Rc::new(text.to_vec())))
    }
}
