//! What can be assigned to: names, elements, fields, and the assignments themselves.

use awk_syntax::Place;
use awk_syntax::ast::*;
use awk_syntax::names::{Special, Symbol};

use super::facts::*;
use super::{Compiler, Label, Target};
use crate::code::*;
use crate::value::Value;

impl<'a> Compiler<'a> {
    pub(super) fn variable(&mut self, name: Symbol) -> Target<'a> {
        match self.program.place(name, self.inside) {
            Place::Local(n) => Target::Local(n),
            Place::Global(n) => Target::Global(n),
            Place::Special(s) => {
                self.code.use_special(s);
                Target::Special(s)
            }
        }
    }

    /// The operand for an array; the arrays on the way to one inside others are looked up here.
    pub(super) fn array(&mut self, array: &'a ArrayExpr) -> Arr {
        let mut path = array.path.as_slice();
        let mut operand = match self.program.place(array.name, self.inside) {
            Place::Local(n) => Arr(n | Arr::LOCAL),
            Place::Global(n) => Arr(n),
            Place::Special(Special::SYMTAB) => {
                self.code.use_special(Special::SYMTAB);
                match path.split_first() {
                    Some((name, rest)) => {
                        self.key(name);
                        self.emit(Op::SymbolArray);
                        path = rest;
                    }
                    None => self.emit(Op::AllSymbols),
                }
                Arr::TOP
            }
            Place::Special(s) => {
                self.code.use_special(s);
                Arr::special(s)
            }
        };
        for subs in path {
            self.key(subs);
            self.emit(Op::SubArray(operand));
            operand = Arr::TOP;
        }
        operand
    }

    /// The same for `delete`, which makes nothing: jumps if an array on the way is not there.
    pub(super) fn array_if_there(&mut self, array: &'a ArrayExpr, otherwise: Label) -> Arr {
        let place = self.program.place(array.name, self.inside);
        if array.path.is_empty() || place == Place::Special(Special::SYMTAB) {
            return self.array(array);
        }
        let mut operand = match place {
            Place::Local(n) => Arr(n | Arr::LOCAL),
            Place::Global(n) => Arr(n),
            Place::Special(s) => {
                self.code.use_special(s);
                Arr::special(s)
            }
        };
        for subs in &array.path {
            self.key(subs);
            let array = operand;
            self.emit_jump(|to| Op::FindArray { array, to }, otherwise);
            operand = Arr::TOP;
        }
        operand
    }

    /// Whether it is SYMTAB itself, whose elements are no cells.
    pub(super) fn is_symtab(&self, array: &ArrayExpr) -> bool {
        array.path.is_empty()
            && self.program.place(array.name, self.inside) == Place::Special(Special::SYMTAB)
    }

    pub(super) fn target(&mut self, e: &'a Expr) -> Target<'a> {
        match &e.kind {
            ExprKind::Var(name) => self.variable(*name),
            ExprKind::Field(number) => Target::Field(number),
            ExprKind::Index { array, subs } if self.is_symtab(array) => {
                self.code.use_special(Special::SYMTAB);
                Target::Symbol(subs)
            }
            ExprKind::Index { array, subs } => Target::Elem(array, subs),
            other => unreachable!("{other:?} is no target: the parser refuses it"),
        }
    }

    /// Fills the key register.
    pub(super) fn key(&mut self, subs: &'a [Expr]) {
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
                ExprKind::Field(number) => {
                    self.num(number);
                    self.emit(Op::KeyFieldDyn);
                }
                _ if self.is_num(sub) => {
                    self.num(sub);
                    self.emit(Op::KeyNum);
                }
                ExprKind::Concat(_) => {
                    self.text(sub);
                    self.emit(Op::KeyText);
                }
                ExprKind::Builtin { which, args, .. } if self.key_substr(*which, args) => {}
                _ => {
                    self.val(sub);
                    self.emit(Op::KeyVal);
                }
            }
            return;
        }
        self.joined(subs);
        self.emit(Op::KeyText);
    }

    /// Subscripts as one string in the text buffer.
    fn joined(&mut self, subs: &'a [Expr]) {
        self.emit(Op::TextBegin);
        for (at, sub) in subs.iter().enumerate() {
            if at > 0 {
                self.emit(Op::AppendSubsep);
            }
            self.append(sub, false);
        }
    }

    /// The key of subscripts as one value.
    pub(super) fn key_value(&mut self, subs: &'a [Expr]) {
        if let [sub] = subs {
            self.val(sub);
            return;
        }
        self.joined(subs);
        self.emit(Op::TextEnd);
    }

    /// With `keep`, the assigned value stays: on the number stack if the whole assignment `is_num`, else as a value.
    pub(super) fn assign(
        &mut self,
        target: &'a Expr,
        op: Option<ArithOp>,
        value: &'a Expr,
        keep: bool,
    ) {
        if let Some(op) = op
            && self.wish.exact
        {
            self.exact_assign(target, op, value, keep);
            return;
        }
        let place = self.target(target);
        if let Some(op) = op {
            self.num(value);
            self.arith_assign(&place, op, keep);
            return;
        }
        if !keep && self.adds(target, &place, value) {
            return;
        }
        if !keep && (self.grows(&place, value) || self.cuts(&place, value)) {
            return;
        }
        if !keep && self.takes_field(&place, value) {
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
    pub(super) fn grows(&mut self, place: &Target<'a>, value: &'a Expr) -> bool {
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
        self.scalar(place);
        self.emit(op);
        true
    }

    /// `s = $1`
    fn takes_field(&mut self, place: &Target<'a>, value: &'a Expr) -> bool {
        let (Target::Global(n), ExprKind::Field(number)) = (place, &value.ungrouped().kind) else {
            return false;
        };
        let field = const_field(number);
        match field.filter(|_| !self.program.globals[*n as usize].may_be_array) {
            Some(field) => self.emit(Op::FieldToGlobal { field, n: *n }),
            None => return false,
        }
        true
    }

    /// Before a variable is assigned that may be an array by now.
    pub(super) fn scalar(&mut self, place: &Target<'a>) {
        if let Target::Global(n) = *place
            && self.program.globals[n as usize].may_be_array
        {
            self.emit(Op::ScalarGlobal(n));
        }
    }

    pub(super) fn arith_assign(&mut self, place: &Target<'a>, op: ArithOp, keep: bool) {
        self.check_summand(place);
        self.scalar(place);
        match *place {
            Target::Global(n) => self.emit(Op::ArithGlobal { n, op, keep }),
            Target::Local(n) => self.emit(Op::ArithLocal { n, op, keep }),
            Target::Special(s) => self.emit(Op::ArithSpecial { s, op, keep }),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::ArithField { op, keep });
            }
            Target::Elem(array, subs) => {
                let array = self.array(array);
                self.key(subs);
                self.emit(Op::ArithElem { array, op, keep });
            }
            Target::Symbol(subs) => {
                self.key(subs);
                self.emit(Op::ArithSymbol { op, keep });
            }
        }
    }

    /// Stores the value on the value stack.
    pub(super) fn store(&mut self, place: &Target<'a>, keep: bool) {
        self.scalar(place);
        match *place {
            Target::Global(n) => self.emit(Op::StoreGlobal { n, keep }),
            Target::Local(n) => self.emit(Op::StoreLocal { n, keep }),
            Target::Special(s) => self.emit(Op::StoreSpecial { s, keep }),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::StoreField { keep });
            }
            Target::Elem(array, subs) => {
                let array = self.array(array);
                self.key(subs);
                self.emit(Op::StoreElem { array, keep });
            }
            Target::Symbol(subs) => {
                self.key(subs);
                self.emit(Op::StoreSymbol { keep });
            }
        }
    }

    /// Stores the number on the number stack.
    pub(super) fn store_num(&mut self, place: &Target<'a>, keep: bool) {
        self.scalar(place);
        match *place {
            Target::Global(n) => self.emit(Op::StoreNumGlobal { n, keep }),
            Target::Local(n) => self.emit(Op::StoreNumLocal { n, keep }),
            Target::Elem(array, subs) => {
                let array = self.array(array);
                self.key(subs);
                self.emit(Op::StoreNumElem { array, keep });
            }
            Target::Special(_) | Target::Field(_) | Target::Symbol(_) => {
                self.emit(Op::ValNum);
                self.store(place, keep);
                if keep {
                    self.emit(Op::NumVal);
                }
            }
        }
    }

    pub(super) fn step(&mut self, target: &'a Expr, step: Step) {
        let place = self.target(target);
        self.scalar(&place);
        match place {
            Target::Global(n) => self.emit(Op::StepGlobal { n, step }),
            Target::Local(n) => self.emit(Op::StepLocal { n, step }),
            Target::Special(s) => self.emit(Op::StepSpecial { s, step }),
            Target::Field(number) => {
                self.num(number);
                self.emit(Op::StepField(step));
            }
            Target::Elem(array, subs) => {
                let array = self.array(array);
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
            Target::Symbol(subs) => {
                let keep = step.leave != Leave::Nothing;
                self.emit(Op::Num(step.delta()));
                self.key(subs);
                self.emit(Op::ArithSymbol {
                    op: ArithOp::Add,
                    keep,
                });
                if step.leave == Leave::Old {
                    self.emit(Op::ArithConst(ArithOp::Sub, step.delta()));
                }
            }
        }
    }
}
