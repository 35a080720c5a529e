//! `getline` and the built-in functions.

use std::rc::Rc;

use awk_syntax::ast::*;
use awk_syntax::names::{Builtin, Special};
use awk_syntax::{Kind, Place};
use memchr::memmem::Finder;

use super::facts::*;
use super::{Compiler, Target};
use crate::code::*;
use crate::fields::Splitter;
use crate::regex::Regex;
use crate::value::Value;

impl<'a> Compiler<'a> {
    pub(super) fn getline(&mut self, target: Option<&'a Expr>, from: &'a GetlineFrom) {
        if let (Some(target), GetlineFrom::File(file)) = (target, from)
            && let Target::Global(n) = self.target(target)
            && let ExprKind::Var(name) = file.ungrouped().kind
            && let Target::Global(name) = self.variable(name)
        {
            let done = self.label();
            self.emit_jump(|to| Op::GetlineAgain { name, n, to }, done);
            self.text(file);
            let from = From::File;
            self.emit(Op::GetlineGlobal { from, n });
            self.here(done);
            return;
        }
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
            GetlineFrom::Coprocess(command) => {
                self.text(command);
                From::Coprocess
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
        if let Target::Global(n) = self.target(target) {
            self.emit(Op::GetlineGlobal { from, n });
            return;
        }
        let (none, done) = (self.label(), self.label());
        match &target.kind {
            ExprKind::Index { array, subs } => {
                let element = self.element(array, subs);
                // The element is made even if there is nothing to read: gawk and mawk agree.
                self.peek(element);
                self.emit(Op::DropVal);
                self.emit(getline);
                self.emit_jump(|to| Op::JumpNone { to }, none);
                self.store_under(element, false);
                self.emit_jump(Op::Jump, done);
                self.here(none);
                self.forget(element);
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

    /// An element that is read now and perhaps stored to later: its place is computed once. The key waits on the value
    /// stack, an array inside another on the stack of arrays.
    pub(super) fn element(&mut self, array: &'a ArrayExpr, subs: &'a [Expr]) -> Option<Arr> {
        let array = if self.is_symtab(array) {
            self.code.use_special(Special::SYMTAB);
            None
        } else {
            Some(self.array(array))
        };
        self.key_value(subs);
        array
    }

    /// The value of a waiting element.
    pub(super) fn peek(&mut self, element: Option<Arr>) {
        if element == Some(Arr::TOP) {
            self.emit(Op::DupArray);
        }
        self.emit(Op::KeyPeek);
        self.emit(element.map_or(Op::ValSymbol, Op::ValElem));
    }

    /// Stores the value on top in a waiting element.
    pub(super) fn store_under(&mut self, element: Option<Arr>, keep: bool) {
        self.emit(Op::KeyUnder);
        self.emit(match element {
            Some(array) => Op::StoreElem { array, keep },
            None => Op::StoreSymbol { keep },
        });
    }

    /// Drops what waits of an element.
    fn forget(&mut self, element: Option<Arr>) {
        self.emit(Op::DropVal);
        if element == Some(Arr::TOP) {
            self.emit(Op::DropArray);
        }
    }

    /// A pattern operand: constant, or its text in the text buffer.
    pub(super) fn pattern(&mut self, e: &'a Expr) -> Re {
        match self.constant_regex(e) {
            Some(re) => re,
            None => {
                self.text(e);
                Re::DYNAMIC
            }
        }
    }

    /// A regular expression that is known now. A string that is none is an error only if the run comes there (gawk).
    pub(super) fn constant_regex(&mut self, e: &'a Expr) -> Option<Re> {
        match &e.kind {
            ExprKind::Regex(text) | ExprKind::TypedRegex(text) => {
                Some(Re(self.regex(text, e.span)))
            }
            ExprKind::Str(text) if Regex::compile(text, self.options).is_ok() => {
                Some(Re(self.regex(text, e.span)))
            }
            _ => None,
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
                if let ExprKind::Regex(_) | ExprKind::TypedRegex(_) = args[1].ungrouped().kind {
                    self.diagnostics.misuse(
                        args[1].span,
                        "`index` looks for text: a regular expression is not allowed here",
                    );
                }
                if let ExprKind::Str(wanted) = &args[1].kind
                    && let Some(held) = self.held_whole(&args[0])
                {
                    let finder = Finder::new(wanted).into_owned();
                    self.code.wanted.push(finder);
                    let wanted = self.code.wanted.len() as u32 - 1;
                    self.emit(Op::IndexHeld { held, wanted });
                    return;
                }
                self.text(&args[0]);
                self.text(&args[1]);
                self.emit(Op::Index);
            }
            Builtin::Match => {
                if let Some(array) = args.get(2) {
                    self.text(&args[0]);
                    let re = self.pattern(&args[1]);
                    if let Some(array) = self.array_argument(which, array) {
                        self.emit(match self.parts_of(array) {
                            Some(parts) => Op::MatchParts { parts, re },
                            None => Op::MatchGroups { array, re },
                        });
                    }
                    return;
                }
                if let Some(re) = self.constant_regex(&args[1])
                    && let Some(held) = self.held_whole(&args[0])
                {
                    self.emit(Op::MatchHeld { held, re });
                    return;
                }
                self.text(&args[0]);
                let re = self.pattern(&args[1]);
                self.emit(Op::Match(re));
            }
            Builtin::Split => self.split(args),
            Builtin::Sub | Builtin::Gsub => self.substitute(which == Builtin::Gsub, args),
            Builtin::Close => {
                self.text(&args[0]);
                match args.get(1) {
                    Some(side) => {
                        self.text(side);
                        self.emit(Op::CloseSide);
                    }
                    None => self.emit(Op::Close),
                }
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
            _ => unreachable!("{} gives a value", which.name()),
        }
    }

    pub(super) fn length(&mut self, arg: Option<&'a Expr>) {
        let Some(arg) = arg else {
            self.emit(Op::LengthRecord);
            return;
        };
        if let ExprKind::Index { array, .. } = &arg.ungrouped().kind
            && self.is_symtab(array)
        {
            self.pass(arg.ungrouped());
            self.emit(Op::Builtin {
                which: Builtin::Length,
                args: 1,
            });
            self.emit(Op::NumVal);
            return;
        }
        if let ExprKind::Var(name) = arg.ungrouped().kind {
            let place = self.program.place(name, self.inside);
            if self.program.kind(place, self.inside) == Kind::Array {
                self.pass(arg.ungrouped());
                self.emit(Op::LengthArray);
                return;
            }
            match place {
                Place::Local(n) => {
                    self.emit(Op::LengthVariable(Held::Local(n)));
                    return;
                }
                Place::Global(n) if self.program.kind(place, self.inside) == Kind::Unknown => {
                    self.emit(Op::LengthVariable(Held::Global(n)));
                    return;
                }
                _ => {}
            }
        }
        if self.stands(arg) {
            let held = self.held(arg);
            self.emit(Op::LengthHeld(held));
            return;
        }
        self.text(arg);
        self.emit(Op::LengthText);
    }

    /// Whether it is a variable, an element or a field, whose string can be asked about without a copy.
    fn stands(&self, e: &'a Expr) -> bool {
        match &e.ungrouped().kind {
            ExprKind::Var(name) => {
                !matches!(self.program.place(*name, self.inside), Place::Special(_))
            }
            ExprKind::Field(number) => const_field(number).is_some(),
            ExprKind::Index { array, .. } => !self.is_symtab(array) && self.parts(array).is_none(),
            _ => false,
        }
    }

    /// Where such a string stands. An element's key is computed here.
    fn held(&mut self, e: &'a Expr) -> Held {
        match &e.ungrouped().kind {
            ExprKind::Index { array, subs } => {
                let array = self.array(array);
                self.key(subs);
                Held::Elem(array)
            }
            ExprKind::Field(number) => Held::Field(const_field(number).unwrap_or(0)),
            ExprKind::Var(name) => match self.variable(*name) {
                Target::Local(n) => Held::Local(n),
                Target::Global(n) => Held::Global(n),
                _ => unreachable!("not a special variable"),
            },
            _ => unreachable!("what `stands` accepts"),
        }
    }

    /// A variable or a field with a constant number that is read where it stands.
    fn held_whole(&mut self, e: &'a Expr) -> Option<Held> {
        let is_element = matches!(e.ungrouped().kind, ExprKind::Index { .. });
        (!is_element && self.stands(e)).then(|| self.held(e))
    }

    /// `s = substr(s, ...)`: cut in place.
    pub(super) fn cuts(&mut self, place: &Target<'a>, value: &'a Expr) -> bool {
        if let Target::Global(n) = *place
            && let ExprKind::Builtin { which, args, .. } = &value.ungrouped().kind
            && *which == Builtin::Substr
            && let ExprKind::Var(name) = args[0].ungrouped().kind
            && self.program.place(name, self.inside) == Place::Global(n)
            && args[1..].iter().all(is_quiet)
        {
            for number in &args[1..] {
                self.num(number);
            }
            self.scalar(place);
            let bounded = args.len() == 3;
            self.emit(Op::CutGlobal { n, bounded });
            return true;
        }
        false
    }

    /// `substr` as a key, if it is one of a string where it stands.
    pub(super) fn key_substr(&mut self, which: Builtin, args: &'a [Expr]) -> bool {
        if which != Builtin::Substr || !args[1..].iter().all(is_quiet) {
            return false;
        }
        let is_element = matches!(args[0].ungrouped().kind, ExprKind::Index { .. });
        if is_element || !self.stands(&args[0]) {
            return false;
        }
        if let [_, at, count] = args
            && fold(count) == Some(1.0)
            && let ExprKind::Var(name) = at.ungrouped().kind
            && let Place::Global(at) = self.program.place(name, self.inside)
            && !self.wish.exact
        {
            let held = self.held(&args[0]);
            self.emit(Op::KeyLetter { held, at });
            return true;
        }
        for number in &args[1..] {
            self.num(number);
        }
        let held = self.held(&args[0]);
        let bounded = args.len() == 3;
        self.emit(Op::KeySubstr { held, bounded });
        true
    }

    fn substr(&mut self, string: &'a Expr, numbers: &'a [Expr]) {
        let bounded = numbers.len() == 2;
        // Where it stands the string is read last: neither side may change what the other reads.
        if self.stands(string) && is_quiet(string) && numbers.iter().all(is_quiet) {
            for number in numbers {
                self.num(number);
            }
            let held = self.held(string);
            self.emit(Op::SubstrHeld { held, bounded });
            return;
        }
        self.text(string);
        for number in numbers {
            self.num(number);
        }
        self.emit(Op::Substr { bounded });
    }

    pub(super) fn split(&mut self, args: &'a [Expr]) {
        self.text(&args[0]);
        let sep = match args.get(2).map(|e| (&e.kind, e.span)) {
            None => Sep::Default,
            Some((ExprKind::Regex(text) | ExprKind::TypedRegex(text), span))
                if !text.is_empty() =>
            {
                let re = self.regex(text, span);
                match self.code.regexes.get(re as usize).cloned() {
                    Some(regex) => {
                        let value = Value::Regex(Rc::new(text.clone()));
                        self.splitter(Splitter::from_regex(regex), value)
                    }
                    None => Sep::Default,
                }
            }
            // An empty one divides into characters, as "" does (gawk).
            Some((ExprKind::Str(text) | ExprKind::Regex(text) | ExprKind::TypedRegex(text), _))
                if let Ok(splitter) = Splitter::compile(text, self.options) =>
            {
                self.splitter(splitter, Value::text(text, false))
            }
            Some(_) => {
                self.val(&args[2]);
                Sep::Dynamic
            }
        };
        if let Some(array) = self.array_argument(Builtin::Split, &args[1]) {
            self.emit(match self.parts_of(array) {
                Some(parts) => Op::SplitParts { parts, sep },
                None => Op::Split { array, sep },
            });
        }
    }

    /// The operand for an argument that must be an array.
    fn array_argument(&mut self, which: Builtin, arg: &'a Expr) -> Option<Arr> {
        match &arg.ungrouped().kind {
            ExprKind::Var(name) => match self.program.place(*name, self.inside) {
                Place::Local(n) => return Some(Arr(n | Arr::LOCAL)),
                Place::Global(n) => return Some(Arr(n)),
                Place::Special(s) if s.is_array() && s != Special::SYMTAB => {
                    self.code.use_special(s);
                    return Some(Arr::special(s));
                }
                Place::Special(_) => {}
            },
            ExprKind::Index { array, subs } if !self.is_symtab(array) => {
                let array = self.array(array);
                self.key(subs);
                self.emit(Op::SubArray(array));
                return Some(Arr::TOP);
            }
            _ => {}
        }
        self.diagnostics.error(
            arg.span,
            format!("this argument of `{}` must be an array", which.name()),
        );
        None
    }

    /// A constant separator, and the value that it was made of.
    fn splitter(&mut self, splitter: Splitter, value: Value) -> Sep {
        self.code.splitters.push((Rc::new(splitter), value));
        Sep::Const((self.code.splitters.len() - 1) as u32)
    }

    /// `sub` and `gsub`. A target with a computed place (subscript, field number) is computed once: the key stays on the
    /// value stack, the field number on the number stack, until the result is stored or dropped.
    pub(super) fn substitute(&mut self, global: bool, args: &'a [Expr]) {
        let of_record = args.get(2).is_none_or(|target| match &target.kind {
            ExprKind::Field(number) => const_field(number) == Some(0),
            _ => false,
        });
        if of_record
            && let ExprKind::Str(text) = &args[1].kind
            && let Some(re) = self.constant_regex(&args[0])
        {
            let replacement = self.constant(Value::text(text, false));
            self.emit(Op::SubRecord {
                re,
                replacement,
                global,
            });
            return;
        }
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
                let element = self.element(array, subs);
                self.emit(Op::TextBegin);
                self.peek(element);
                self.emit(Op::NoteTarget);
                self.emit(Op::AppendVal { out: false });
                self.emit(Op::Sub { re, global });
                self.emit_jump(|to| Op::JumpNone { to }, none);
                self.store_under(element, false);
                self.emit_jump(Op::Jump, done);
                self.here(none);
                self.forget(element);
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
                let place = self.target(target);
                if matches!(place, Target::Global(_) | Target::Local(_)) {
                    self.emit(Op::TextBegin);
                    self.val(target);
                    self.emit(Op::NoteTarget);
                    self.emit(Op::AppendVal { out: false });
                } else {
                    self.text(target);
                }
                self.emit(Op::Sub { re, global });
                self.emit_jump(|to| Op::JumpNone { to }, none);
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

    /// A function that gives a value.
    pub(super) fn val_builtin(&mut self, which: Builtin, args: &'a [Expr]) {
        match which {
            Builtin::Sprintf => self.format(args, Op::Sprintf, |format, args| Op::SprintfConst {
                format,
                args,
            }),
            Builtin::Substr => {
                self.substr(&args[0], &args[1..]);
            }
            Builtin::Tolower | Builtin::Toupper => {
                self.text(&args[0]);
                self.emit(if which == Builtin::Tolower {
                    Op::ToLower
                } else {
                    Op::ToUpper
                });
            }
            _ => {
                for (at, arg) in args.iter().enumerate() {
                    self.argument(which, at, arg);
                }
                self.emit(Op::Builtin {
                    which,
                    args: args.len() as u32,
                });
            }
        }
    }

    /// An argument of a function without an instruction of its own.
    fn argument(&mut self, which: Builtin, at: usize, arg: &'a Expr) {
        match &arg.ungrouped().kind {
            ExprKind::Regex(text) if is_regex_argument(which, at) => {
                let value = self.regex_value(text, arg.span);
                self.emit(Op::Const(value));
            }
            // SYMTAB and FUNCTAB may be read, as a source.
            ExprKind::Var(name)
                if is_array_argument(which, at)
                    && self.program.place(*name, self.inside)
                        == Place::Special(Special::SYMTAB) =>
            {
                self.pass(arg.ungrouped());
            }
            _ if is_array_argument(which, at) => {
                if let Some(array) = self.array_argument(which, arg) {
                    self.emit(Op::PushArray(array));
                }
            }
            // A variable in parentheses is an expression, whose value is used (gawk).
            ExprKind::Var(_)
                if which == Builtin::Typeof && matches!(arg.kind, ExprKind::Group(_)) =>
            {
                self.val(arg);
            }
            ExprKind::Index { array, .. }
                if which == Builtin::Typeof
                    && matches!(arg.kind, ExprKind::Group(_))
                    && self.is_symtab(array) =>
            {
                self.val(arg);
            }
            _ if matches!(which, Builtin::Isarray | Builtin::Typeof) => self.pass(arg.ungrouped()),
            _ => self.val(arg),
        }
    }
}
