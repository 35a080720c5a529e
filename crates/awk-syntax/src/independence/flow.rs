//! One walk over the rules for records, in the order in which they run, that notes what each variable is used for.
//!
//! Invariant: a path says that a variable was assigned only if it was on every way to here from the beginning of the record,
//! so that what is read then is the record's own.

use std::collections::BTreeSet;

use super::uses::{Array, Scalar};
use super::{Merge, Plan, Reason, ends_with_record, shapes};
use crate::ast::*;
use crate::names::{Builtin, Special, Symbol};
use crate::resolve::{Kind, Place, Resolved};
use crate::span::Span;

/// What the record that is being processed has done so far.
#[derive(Clone)]
pub(super) struct Path {
    /// Global scalars that it assigned.
    scalars: Vec<bool>,
    /// Global arrays that it made anew.
    arrays: Vec<bool>,
    /// It has called `match`.
    matched: bool,
    /// Nothing comes after this.
    over: bool,
}

impl Path {
    /// Where two ways meet.
    fn join(self, other: Path) -> Path {
        if self.over {
            return other;
        }
        if other.over {
            return self;
        }
        let both = |a: Vec<bool>, b: Vec<bool>| a.into_iter().zip(b).map(|(a, b)| a && b).collect();
        Path {
            scalars: both(self.scalars, other.scalars),
            arrays: both(self.arrays, other.arrays),
            matched: self.matched && other.matched,
            over: false,
        }
    }
}

/// See the top of the file.
pub(super) struct Flow<'p> {
    program: &'p Resolved,
    scalars: Vec<Scalar>,
    arrays: Vec<Array>,
    reasons: Vec<Reason>,
    plan: Plan,
    inside: Option<u32>,
    seen: BTreeSet<u32>,
    to_see: Vec<u32>,
}

/// What an lvalue leads to.
enum Lead {
    Global(u32),
    /// Of the record, or of a call.
    Own,
    Special(Special),
    Element(u32),
}

impl<'p> Flow<'p> {
    pub(super) fn new(program: &'p Resolved) -> Flow<'p> {
        Flow {
            program,
            scalars: vec![Scalar::default(); program.globals.len()],
            arrays: vec![Array::default(); program.globals.len()],
            reasons: Vec::new(),
            plan: Plan::default(),
            inside: None,
            seen: BTreeSet::new(),
            to_see: Vec::new(),
        }
    }

    pub(super) fn start(&self) -> Path {
        Path {
            scalars: vec![false; self.scalars.len()],
            arrays: vec![false; self.scalars.len()],
            matched: false,
            over: false,
        }
    }

    pub(super) fn refuse(&mut self, span: Span, what: String) {
        self.reasons.push(Reason { what, span });
    }

    pub(super) fn finish(mut self) -> Result<Plan, Vec<Reason>> {
        while let Some(function) = self.to_see.pop() {
            self.inside = Some(function);
            let mut path = self.start();
            let program = self.program;
            self.body(
                &program.functions[function as usize].function.body,
                &mut path,
            );
        }
        for (number, global) in self.program.globals.iter().enumerate() {
            let name = self.program.names.text(global.name);
            match self.scalars[number].merge(name) {
                Ok(Some(merge)) => self.plan.scalars.push((number as u32, merge)),
                Ok(None) => {}
                Err((span, what)) => self.reasons.push(Reason { what, span }),
            }
            match self.arrays[number].merge(name) {
                Ok(Some(merge)) => self.plan.arrays.push((number as u32, merge)),
                Ok(None) => {}
                Err((span, what)) => self.reasons.push(Reason { what, span }),
            }
        }
        let follows = self.plan.scalars.iter().find_map(|(number, merge)| {
            let Merge::Follow(leader) = merge else {
                return None;
            };
            let leads = matches!(self.plan.scalar(*leader), Some(Merge::Extreme { .. }));
            (!leads).then_some(*number)
        });
        if let Some(number) = follows
            && self.reasons.is_empty()
        {
            let global = &self.program.globals[number as usize];
            let name = self.program.names.text(global.name);
            self.refuse(global.span, format!("`{name}` depends on a comparison"));
        }
        self.reasons.sort_by_key(|reason| reason.span.start);
        self.reasons.dedup();
        if self.reasons.is_empty() {
            Ok(self.plan)
        } else {
            Err(self.reasons)
        }
    }

    // ---- rules and statements ----

    pub(super) fn rule(&mut self, rule: &'p Rule, path: &mut Path) {
        path.over = false;
        let body = rule.body.as_deref();
        self.plan.prints |= body.is_none();
        let body = body.unwrap_or_default();
        match &rule.pattern {
            Pattern::Expr(cond) => {
                let mut inner = path.clone();
                if !self.extreme(cond, body, &mut inner) {
                    inner = path.clone();
                    self.expr(cond, &mut inner);
                    *path = inner.clone();
                    self.body(body, &mut inner);
                }
                *path = inner.join(path.clone());
            }
            Pattern::Range(..) => {
                let what = "a range pattern remembers earlier records";
                self.refuse(rule.span, what.to_string());
            }
            _ => self.body(body, path),
        }
    }

    fn body(&mut self, body: &'p [Stmt], path: &mut Path) {
        for statement in body {
            self.statement(statement, path);
        }
    }

    fn statement(&mut self, statement: &'p Stmt, path: &mut Path) {
        let span = statement.span;
        match &statement.kind {
            StmtKind::Expr(e) => self.effect(e, path),
            StmtKind::Print { args, to: None, .. } => {
                self.plan.prints = true;
                self.list(args, path);
            }
            StmtKind::Print { .. } => {
                let what = "a record prints to a file or a command";
                self.refuse(span, what.to_string());
            }
            StmtKind::If { arms, otherwise } => self.branches(arms, otherwise.as_deref(), path),
            StmtKind::While { cond, body } => {
                self.expr(cond, path);
                self.body(body, &mut path.clone());
            }
            StmtKind::DoWhile { body, cond } => {
                let mut inner = path.clone();
                self.body(body, &mut inner);
                // `continue` leads to the condition from wherever it stands.
                let mut at_cond = if continues(body) { path.clone() } else { inner };
                at_cond.over = false;
                self.expr(cond, &mut at_cond);
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                if let Some(init) = init {
                    self.statement(init, path);
                }
                if let Some(cond) = cond {
                    self.expr(cond, path);
                }
                // `continue` leads to the step, so nothing of the body is certain there.
                self.body(body, &mut path.clone());
                if let Some(step) = step {
                    self.statement(step, &mut path.clone());
                }
            }
            StmtKind::ForIn {
                var,
                var_span,
                array,
                body,
            } => {
                self.ask(array, path);
                self.plan.loops = true;
                let mut inner = path.clone();
                self.set_variable(*var, *var_span, &mut inner);
                self.body(body, &mut inner);
            }
            StmtKind::Switch { subject, cases } => {
                self.expr(subject, path);
                for case in cases {
                    self.body(&case.body, &mut path.clone());
                }
            }
            StmtKind::Block(body) => self.body(body, path),
            StmtKind::Next | StmtKind::Break | StmtKind::Continue => path.over = true,
            StmtKind::NextFile => self.refuse(span, "`nextfile` passes over records".to_string()),
            StmtKind::Exit(_) => self.refuse(span, "`exit` passes over records".to_string()),
            StmtKind::Return(value) => {
                if let Some(value) = value {
                    self.expr(value, path);
                }
                path.over = true;
            }
            StmtKind::Delete { array, subs } => self.delete(array, subs.as_deref(), path),
        }
    }

    fn branches(
        &mut self,
        arms: &'p [(Expr, Vec<Stmt>)],
        otherwise: Option<&'p [Stmt]>,
        path: &mut Path,
    ) {
        if let ([(cond, body)], None) = (arms, otherwise) {
            let mut inner = path.clone();
            if self.extreme(cond, body, &mut inner) {
                return;
            }
        }
        let mut met: Option<Path> = None;
        let mut meet = |end: Path| {
            met = Some(match met.take() {
                Some(other) => other.join(end),
                None => end,
            });
        };
        for (cond, body) in arms {
            self.expr(cond, path);
            let mut inner = path.clone();
            self.body(body, &mut inner);
            meet(inner);
        }
        let mut inner = path.clone();
        self.body(otherwise.unwrap_or_default(), &mut inner);
        meet(inner);
        if let Some(met) = met {
            *path = met;
        }
    }

    /// `if (n > x) { x = n; y = $0 }`; false if it is nothing of the kind.
    fn extreme(&mut self, cond: &'p Expr, body: &'p [Stmt], path: &mut Path) -> bool {
        let Some(found) = shapes::extreme(cond, body) else {
            return false;
        };
        // What else is done then must depend on the record alone.
        let mut followers = Vec::new();
        for statement in found.rest {
            match self.follower(statement, path) {
                Some(follower) => followers.push(follower),
                None => return false,
            }
        }
        let merge = Merge::Extreme {
            greater: found.greater,
            guarded: found.guarded,
        };
        let span = found.target.span;
        match self.lead(found.target, path) {
            Some(Lead::Global(n)) if !path.scalars[n as usize] => {
                let uses = &mut self.scalars[n as usize];
                match uses.extreme {
                    // Another place where it changes would leave the followers as they are.
                    Some((_, other)) if other != merge || uses.leads || !followers.is_empty() => {
                        uses.set = Some(span);
                    }
                    _ => uses.extreme = Some((span, merge)),
                }
                uses.leads |= !followers.is_empty();
                for (follower, value, span) in followers {
                    self.expr(value, path);
                    let uses = &mut self.scalars[follower as usize];
                    match uses.follows {
                        Some(_) => uses.set = Some(span),
                        None => uses.follows = Some((span, n)),
                    }
                }
            }
            Some(Lead::Element(n)) if !path.arrays[n as usize] && followers.is_empty() => {
                let uses = &mut self.arrays[n as usize];
                match uses.extreme {
                    Some((_, other)) if other != merge => uses.set = Some(span),
                    _ => uses.extreme = Some((span, merge)),
                }
            }
            _ => return false,
        }
        self.expr(found.value, path);
        true
    }

    /// A global scalar and what it is assigned, if that is all that a statement does.
    fn follower(&self, statement: &'p Stmt, path: &Path) -> Option<(u32, &'p Expr, Span)> {
        let StmtKind::Expr(e) = &statement.kind else {
            return None;
        };
        let ExprKind::Assign {
            target,
            op: None,
            value,
        } = &e.ungrouped().kind
        else {
            return None;
        };
        let ExprKind::Var(name) = target.kind else {
            return None;
        };
        match self.program.place(name, self.inside) {
            Place::Global(n) if !path.scalars[n as usize] && shapes::is_quiet(value) => {
                Some((n, value, statement.span))
            }
            _ => None,
        }
    }

    // ---- expressions ----

    /// An expression whose value nobody wants.
    fn effect(&mut self, e: &'p Expr, path: &mut Path) {
        match &e.ungrouped().kind {
            ExprKind::Step { target, .. } => self.sum(target, path),
            ExprKind::Assign { target, op, value } => match op {
                Some(ArithOp::Add | ArithOp::Sub) => {
                    self.expr(value, path);
                    self.sum(target, path);
                }
                Some(_) => self.expr(e, path),
                None => {
                    if let Some(more) = shapes::appended(target, value) {
                        self.list(more, path);
                        self.append(target, path);
                    } else if let Some((n, _)) = shapes::summand(target, value) {
                        self.expr(n, path);
                        self.sum(target, path);
                    } else {
                        self.expr(value, path);
                        self.set(target, path);
                    }
                }
            },
            _ => self.expr(e, path),
        }
    }

    fn sum(&mut self, target: &'p Expr, path: &mut Path) {
        let span = target.span;
        match self.lead(target, path) {
            Some(Lead::Global(n)) if !path.scalars[n as usize] => {
                self.scalars[n as usize].summed.get_or_insert(span);
            }
            Some(Lead::Element(n)) if !path.arrays[n as usize] => {
                self.arrays[n as usize].summed.get_or_insert(span);
            }
            Some(Lead::Special(s)) => self.set_special(s, span),
            _ => {}
        }
    }

    fn append(&mut self, target: &'p Expr, path: &mut Path) {
        let span = target.span;
        match self.lead(target, path) {
            Some(Lead::Global(n)) if !path.scalars[n as usize] => {
                self.scalars[n as usize].appended.get_or_insert(span);
            }
            Some(Lead::Element(n)) if !path.arrays[n as usize] => {
                self.arrays[n as usize].appended.get_or_insert(span);
            }
            Some(Lead::Special(s)) => self.set_special(s, span),
            _ => {}
        }
    }

    fn set(&mut self, target: &'p Expr, path: &mut Path) {
        let span = target.span;
        match self.lead(target, path) {
            Some(Lead::Global(n)) => self.set_global(n, span, path),
            Some(Lead::Element(n)) if !path.arrays[n as usize] => {
                self.arrays[n as usize].set.get_or_insert(span);
            }
            Some(Lead::Special(s)) => self.set_special(s, span),
            _ => {}
        }
    }

    fn set_global(&mut self, n: u32, span: Span, path: &mut Path) {
        self.scalars[n as usize].set.get_or_insert(span);
        path.scalars[n as usize] = true;
    }

    fn set_special(&mut self, s: Special, span: Span) {
        if !ends_with_record(s) {
            let what = format!("`{}` is assigned, which later records would see", s.name());
            self.refuse(span, what);
        }
    }

    fn set_variable(&mut self, name: Symbol, span: Span, path: &mut Path) {
        match self.program.place(name, self.inside) {
            Place::Local(_) => {}
            Place::Global(n) => self.set_global(n, span, path),
            Place::Special(s) => self.set_special(s, span),
        }
    }

    /// What an lvalue leads to; the expressions in it are walked. None: refused.
    fn lead(&mut self, target: &'p Expr, path: &mut Path) -> Option<Lead> {
        match &target.kind {
            ExprKind::Var(name) => Some(match self.program.place(*name, self.inside) {
                Place::Local(_) => Lead::Own,
                Place::Global(n) => Lead::Global(n),
                Place::Special(s) => Lead::Special(s),
            }),
            ExprKind::Field(number) => {
                self.expr(number, path);
                Some(Lead::Own)
            }
            ExprKind::Index { array, subs } => {
                self.list(subs, path);
                match self.array(array, path)? {
                    Some(n) => Some(Lead::Element(n)),
                    None => Some(Lead::Own),
                }
            }
            _ => None,
        }
    }

    /// The global array that an array expression leads to; `Some(None)`: a call's own. None: refused.
    fn array(&mut self, array: &'p ArrayExpr, path: &mut Path) -> Option<Option<u32>> {
        for subs in &array.path {
            self.list(subs, path);
        }
        match self.program.place(array.name, self.inside) {
            Place::Local(_) => Some(None),
            Place::Global(n) if array.path.is_empty() => Some(Some(n)),
            Place::Global(n) => {
                let what = "has arrays inside it";
                self.arrays[n as usize].other = Some((array.span, what));
                None
            }
            Place::Special(s) => {
                let what = format!(
                    "an element of `{}` is looked up, which makes it: do that in BEGIN, into a variable",
                    s.name()
                );
                self.refuse(array.span, what);
                None
            }
        }
    }

    fn ask(&mut self, array: &'p ArrayExpr, path: &mut Path) {
        let place = self.program.place(array.name, self.inside);
        let is_fixed = |s| matches!(s, Special::ENVIRON | Special::ARGV | Special::PROCINFO);
        if array.path.is_empty() && matches!(place, Place::Special(s) if is_fixed(s)) {
            return;
        }
        if let Some(Some(n)) = self.array(array, path)
            && !path.arrays[n as usize]
        {
            self.arrays[n as usize].asked.get_or_insert(array.span);
        }
    }

    fn delete(&mut self, array: &'p ArrayExpr, subs: Option<&'p [Expr]>, path: &mut Path) {
        if let Some(subs) = subs {
            self.list(subs, path);
        }
        let span = array.span;
        if let Place::Special(s) = self.program.place(array.name, self.inside) {
            self.refuse(span, format!("elements of `{}` are deleted", s.name()));
            return;
        }
        let Some(Some(n)) = self.array(array, path) else {
            return;
        };
        match subs {
            None => self.make_anew(n, span, path),
            Some(_) if path.arrays[n as usize] => {}
            Some(_) => {
                self.arrays[n as usize].other = Some((span, "loses elements"));
            }
        }
    }

    fn make_anew(&mut self, n: u32, span: Span, path: &mut Path) {
        self.arrays[n as usize].whole.get_or_insert(span);
        // In a function it is not known what its callers go on with.
        path.arrays[n as usize] = true;
    }

    fn list(&mut self, list: &'p [Expr], path: &mut Path) {
        for e in list {
            self.expr(e, path);
        }
    }

    fn read_variable(&mut self, name: Symbol, span: Span, path: &Path) {
        match self.program.place(name, self.inside) {
            Place::Local(_) => {}
            Place::Global(n) => {
                if !path.scalars[n as usize] {
                    self.scalars[n as usize].read.get_or_insert(span);
                }
            }
            Place::Special(Special::NR | Special::FNR) => self.plan.counts_records = true,
            Place::Special(s @ (Special::RSTART | Special::RLENGTH)) => {
                if !path.matched {
                    let what = format!("`{}` may be that of an earlier record", s.name());
                    self.refuse(span, what);
                }
            }
            Place::Special(_) => {}
        }
    }

    fn expr(&mut self, e: &'p Expr, path: &mut Path) {
        match &e.kind {
            ExprKind::Num(_)
            | ExprKind::Str(_)
            | ExprKind::Translated(_)
            | ExprKind::Regex(_)
            | ExprKind::TypedRegex(_) => {}
            ExprKind::Var(name) => self.read_variable(*name, e.span, path),
            ExprKind::Field(inner)
            | ExprKind::Group(inner)
            | ExprKind::Not(inner)
            | ExprKind::Minus(inner)
            | ExprKind::Plus(inner) => self.expr(inner, path),
            ExprKind::Index { array, subs } => {
                self.list(subs, path);
                if let Some(Some(n)) = self.array(array, path)
                    && !path.arrays[n as usize]
                {
                    self.arrays[n as usize].read.get_or_insert(e.span);
                }
            }
            ExprKind::In { subs, array } => {
                self.list(subs, path);
                self.ask(array, path);
            }
            ExprKind::Tuple(list) | ExprKind::Concat(list) => self.list(list, path),
            ExprKind::And(list) | ExprKind::Or(list) => {
                if let Some((first, rest)) = list.split_first() {
                    self.expr(first, path);
                    self.list(rest, &mut path.clone());
                }
            }
            ExprKind::Cond { arms, otherwise } => {
                for (at, (cond, yes)) in arms.iter().enumerate() {
                    if at == 0 {
                        self.expr(cond, path);
                    } else {
                        self.expr(cond, &mut path.clone());
                    }
                    self.expr(yes, &mut path.clone());
                }
                self.expr(otherwise, &mut path.clone());
            }
            ExprKind::Arith { first, rest } => {
                self.expr(first, path);
                for (_, operand) in rest {
                    self.expr(operand, path);
                }
            }
            ExprKind::Power {
                base: left,
                exponent: right,
            }
            | ExprKind::Compare { left, right, .. }
            | ExprKind::Match { left, right, .. } => {
                self.expr(left, path);
                self.expr(right, path);
            }
            ExprKind::Assign { target, op, value } => {
                if op.is_some() {
                    self.expr(target, path);
                }
                self.expr(value, path);
                self.set(target, path);
            }
            ExprKind::Step { target, .. } => {
                self.expr(target, path);
                self.set(target, path);
            }
            ExprKind::Call { name, args } => self.call(*name, args, path),
            ExprKind::IndirectCall { .. } => {
                let what = "which function a variable names is not known before the run";
                self.refuse(e.span, what.to_string());
            }
            ExprKind::Builtin { which, args, .. } => self.builtin(*which, args, e.span, path),
            ExprKind::Getline { .. } => {
                self.refuse(e.span, "`getline` moves on in an input".to_string());
            }
        }
    }

    /// The global array that an argument is, or may be.
    fn global_array(&self, arg: &Expr) -> Option<u32> {
        let ExprKind::Var(name) = arg.ungrouped().kind else {
            return None;
        };
        match self.program.place(name, self.inside) {
            Place::Global(n) => {
                let global = &self.program.globals[n as usize];
                (global.kind != Kind::Scalar || global.may_be_array).then_some(n)
            }
            _ => None,
        }
    }

    fn call(&mut self, name: Symbol, args: &'p [Expr], path: &mut Path) {
        let number = self.program.function(name);
        for (at, arg) in args.iter().enumerate() {
            let kinds = number.map(|n| &self.program.functions[n as usize].param_kinds);
            let is_scalar = kinds.and_then(|kinds| kinds.get(at)) == Some(&Kind::Scalar);
            match (&arg.ungrouped().kind, self.global_array(arg)) {
                (_, Some(n)) => {
                    self.arrays[n as usize].other = Some((arg.span, "is handed to a function"));
                }
                (ExprKind::Var(name), _)
                    if matches!(self.program.place(*name, self.inside),
                        Place::Special(s) if s.is_array()) =>
                {
                    let what = "a special array is handed to a function";
                    self.refuse(arg.span, what.to_string());
                }
                (ExprKind::Index { .. }, _) if !is_scalar => {
                    let what = "an element is handed to a function that may make an array of it";
                    self.refuse(arg.span, what.to_string());
                }
                _ => self.expr(arg, path),
            }
        }
        if let Some(number) = number
            && self.seen.insert(number)
        {
            self.to_see.push(number);
        }
    }

    fn builtin(&mut self, which: Builtin, args: &'p [Expr], span: Span, path: &mut Path) {
        use Builtin as B;
        match which {
            B::Atan2 | B::Cos | B::Exp | B::Index | B::Int | B::Log | B::Sin | B::Sqrt => {
                self.list(args, path);
            }
            B::Sprintf | B::Substr | B::Tolower | B::Toupper | B::Gensub | B::Strtonum => {
                self.list(args, path);
            }
            B::And | B::Or | B::Xor | B::Compl | B::Lshift | B::Rshift | B::Mkbool => {
                self.list(args, path);
            }
            B::Mktime | B::Strftime | B::Systime | B::Ord | B::Chr | B::Fnmatch => {
                self.list(args, path);
            }
            B::Length => match args.first().and_then(|arg| self.global_array(arg)) {
                Some(n) if !path.arrays[n as usize] => {
                    self.arrays[n as usize].asked.get_or_insert(span);
                    // While it is not known which it is.
                    self.scalars[n as usize].read.get_or_insert(span);
                }
                Some(_) => {}
                None => self.list(args, path),
            },
            B::Sub | B::Gsub => {
                self.list(args, path);
                if let Some(target) = args.get(2)
                    && target.is_lvalue()
                {
                    self.set(target, path);
                }
            }
            B::Match => {
                self.list(&args[..args.len().min(2)], path);
                self.plan.matches = true;
                path.matched = true;
                self.results(args.get(2), path);
            }
            B::Split | B::Patsplit => {
                for (at, arg) in args.iter().enumerate() {
                    if at != 1 && at != 3 {
                        self.expr(arg, path);
                    }
                }
                self.results(args.get(1), path);
                self.results(args.get(3), path);
            }
            _ => self.refuse(
                span,
                format!("`{}` does more than give a value", which.name()),
            ),
        }
    }

    /// An array that a function makes anew.
    fn results(&mut self, arg: Option<&'p Expr>, path: &mut Path) {
        let Some(arg) = arg else { return };
        match &arg.ungrouped().kind {
            ExprKind::Var(name) => match self.program.place(*name, self.inside) {
                Place::Local(_) => {}
                Place::Global(n) => self.make_anew(n, arg.span, path),
                Place::Special(s) => {
                    self.refuse(arg.span, format!("`{}` is made anew", s.name()));
                }
            },
            _ => self.refuse(arg.span, "an array inside another is made anew".to_string()),
        }
    }
}

/// Whether there is a `continue` in it, of whatever loop.
fn continues(body: &[Stmt]) -> bool {
    body.iter().any(|statement| {
        matches!(statement.kind, StmtKind::Continue)
            || statement.parts().bodies.into_iter().any(continues)
    })
}
