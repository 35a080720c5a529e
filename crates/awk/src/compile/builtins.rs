//! `getline` and the built-in functions.

use std::rc::Rc;

use awk_syntax::ast::*;
use awk_syntax::names::Builtin;
use awk_syntax::{Kind, Place};

use super::Compiler;
use super::facts::*;
use crate::code::*;
use crate::fields::Splitter;

impl<'a> Compiler<'a> {
    pub(super) fn getline(&mut self, target: Option<&'a Expr>, from: &'a GetlineFrom) {
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
    pub(super) fn pattern(&mut self, e: &'a Expr) -> Re {
        match &e.kind {
            ExprKind::Regex(text) | ExprKind::Str(text) => Re(self.regex(text, e.span)),
            _ => {
                self.text(e);
                Re::DYNAMIC
            }
        }
    }

    pub(super) fn num_builtin(&mut self, which: Builtin, args: &'a [Expr]) {
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

    pub(super) fn length(&mut self, arg: Option<&'a Expr>) {
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

    pub(super) fn split(&mut self, args: &'a [Expr]) {
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

    pub(super) fn splitter(&mut self, splitter: Splitter) -> Sep {
        self.code.splitters.push(Rc::new(splitter));
        Sep::Const((self.code.splitters.len() - 1) as u32)
    }

    /// `sub` and `gsub`. A target with a computed place (subscript, field number) is computed once: the key stays on the
    /// value stack, the field number on the number stack, until the result is stored or dropped.
    pub(super) fn substitute(&mut self, global: bool, args: &'a [Expr]) {
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

    pub(super) fn text_builtin(&mut self, which: Builtin, args: &'a [Expr]) {
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
