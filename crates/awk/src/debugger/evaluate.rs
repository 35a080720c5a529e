//! Expressions and statements that the debugger's user types: walked as a tree, in the frame that is selected.
//!
//! Invariant: what is looked at is not made: an element that is not there reads as nothing and stays away.

use awk_syntax::ast::*;
use awk_syntax::names::{Builtin, Names};
use awk_syntax::{Diagnostics, NoWorld, Options, Sources};

use crate::error::{Fatal, Step};
use crate::value::{ArrayRef, Value, compare};
use crate::vm::{View, Vm};

/// A text that was read.
pub struct Parsed {
    body: Vec<Stmt>,
    names: Names,
}

impl Parsed {
    /// Reads statements.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn statements(text: &str) -> Result<Parsed, String> {
        let mut sources = Sources::default();
        sources.add("command", format!("BEGIN {{\n{text}\n}}"));
        let (mut names, mut diagnostics) = (Names::default(), Diagnostics::default());
        let mut tree = awk_syntax::parse::parse(
            &mut sources,
            0,
            &mut names,
            &Options::default(),
            &mut NoWorld,
            &mut diagnostics,
        );
        if let Some(first) = diagnostics.list().iter().find(|d| d.is_error()) {
            return Err(first.message.clone());
        }
        match (tree.rules.len(), tree.rules.pop().and_then(|r| r.body)) {
            (1, Some(body)) => Ok(Parsed { body, names }),
            _ => Err("that is no statement".to_string()),
        }
    }

    /// The only expression.
    pub fn expression(&self) -> Option<&Expr> {
        match self.body.as_slice() {
            [
                Stmt {
                    kind: StmtKind::Expr(e),
                    ..
                },
            ] => Some(e),
            _ => None,
        }
    }
}

/// Where it is evaluated.
pub struct Scope<'a, 'v, 'p> {
    /// The machine.
    pub vm: &'v mut Vm<'p>,
    /// The frame.
    pub view: View,
    /// What was read.
    pub parsed: &'a Parsed,
    /// What `print` printed.
    pub printed: Vec<u8>,
}

fn unfit(what: &str) -> Fatal {
    Fatal::new(format!("{what} cannot be evaluated in the debugger"))
}

fn truth(b: bool) -> Value {
    Value::Num(f64::from(u8::from(b)))
}

impl Scope<'_, '_, '_> {
    /// Runs all statements.
    pub fn run(&mut self) -> Step<()> {
        let parsed = self.parsed;
        self.body(&parsed.body)
    }

    fn body(&mut self, body: &[Stmt]) -> Step<()> {
        body.iter()
            .try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt) -> Step<()> {
        match &statement.kind {
            StmtKind::Expr(e) => self.value(e).map(drop),
            StmtKind::Block(body) => self.body(body),
            StmtKind::Print {
                printf,
                args,
                to: None,
                ..
            } => self.print(*printf, args),
            StmtKind::If { arms, otherwise } => {
                for (condition, body) in arms {
                    if self.value(condition)?.truth() {
                        return self.body(body);
                    }
                }
                self.body(otherwise.as_deref().unwrap_or_default())
            }
            StmtKind::While { cond, body } => {
                while self.value(cond)?.truth() {
                    self.body(body)?;
                }
                Ok(())
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                if let Some(init) = init {
                    self.statement(init)?;
                }
                loop {
                    if let Some(cond) = cond
                        && !self.value(cond)?.truth()
                    {
                        return Ok(());
                    }
                    self.body(body)?;
                    if let Some(step) = step {
                        self.statement(step)?;
                    }
                }
            }
            StmtKind::ForIn {
                var, array, body, ..
            } => {
                let Some(array) = self.array(array)? else {
                    return Ok(());
                };
                for (key, _) in self.vm.pairs(array)? {
                    let name = self.parsed.names.text(*var).to_string();
                    self.vm
                        .assign(&self.view, &name, Value::text(&key, false))?;
                    self.body(body)?;
                }
                Ok(())
            }
            StmtKind::Delete {
                array,
                subs: Some(subs),
            } => {
                let key = self.key(subs)?;
                if let Some(array) = self.array(array)? {
                    self.vm.store.heap_of(array)?.remove(array.table, &key)?;
                }
                Ok(())
            }
            _ => Err(unfit("that statement")),
        }
    }

    fn print(&mut self, printf: bool, args: &[Expr]) -> Step<()> {
        let values = self.values(args)?;
        if printf {
            let text = self.vm.any_builtin(Builtin::Sprintf, values)?;
            self.printed.extend(self.vm.settings.text_of(&text));
            return Ok(());
        }
        if values.is_empty() {
            let record = self.vm.record.whole(&self.vm.settings).to_vec();
            self.printed.extend(record);
        }
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.printed.extend_from_slice(&self.vm.settings.ofs);
            }
            value.append_to(&self.vm.settings.ofmt, &mut self.printed);
        }
        self.printed.extend_from_slice(&self.vm.settings.ors);
        Ok(())
    }

    fn values(&mut self, list: &[Expr]) -> Step<Vec<Value>> {
        list.iter().map(|e| self.value(e)).collect()
    }

    /// Subscripts as a key.
    pub fn key(&mut self, subs: &[Expr]) -> Step<Vec<u8>> {
        let mut out = Vec::new();
        for (at, sub) in subs.iter().enumerate() {
            if at > 0 {
                out.extend_from_slice(&self.vm.settings.subsep);
            }
            let value = self.value(sub)?;
            out.extend(self.vm.settings.text_of(&value));
        }
        Ok(out)
    }

    /// An array; `None` if it is not there.
    fn array(&mut self, array: &ArrayExpr) -> Step<Option<ArrayRef>> {
        let name = self.parsed.names.text(array.name).to_string();
        let mut found = match self.vm.look_up(&self.view, &name)? {
            Value::Array(found) => found,
            Value::Uninit => return Ok(None),
            _ => return Err(Fatal::new(format!("`{name}` is no array"))),
        };
        for subs in &array.path {
            let key = self.key(subs)?;
            match self.vm.peek_element(found, &key)? {
                Some(Value::Array(inner)) => found = inner,
                Some(_) => return Err(Fatal::new("an element on the way is no array")),
                None => return Ok(None),
            }
        }
        Ok(Some(found))
    }

    fn num(&mut self, e: &Expr) -> Step<f64> {
        Ok(self.value(e)?.to_num())
    }

    /// The value of an expression; an array for the name of one.
    pub fn value(&mut self, e: &Expr) -> Step<Value> {
        let parsed = self.parsed;
        Ok(match &e.kind {
            ExprKind::Num(n) => Value::Num(*n),
            ExprKind::Str(text) | ExprKind::Translated(text) => Value::text(text, false),
            ExprKind::TypedRegex(text) => Value::Regex(std::rc::Rc::new(text.clone())),
            ExprKind::Regex(text) => {
                let record = self.vm.record.whole(&self.vm.settings).to_vec();
                truth(self.matches(&record, &Value::text(text, false))?)
            }
            ExprKind::Var(name) => self.vm.look_up(&self.view, parsed.names.text(*name))?,
            ExprKind::Field(number) => {
                let n = self.num(number)?;
                if !(0.0..1e9).contains(&n) {
                    return Err(Fatal::new(format!("attempt to access field {n}")));
                }
                self.vm.field(n as usize)
            }
            ExprKind::Index { array, subs } => {
                let key = self.key(subs)?;
                match self.array(array)? {
                    Some(array) => self.vm.peek_element(array, &key)?.unwrap_or(Value::Uninit),
                    None => Value::Uninit,
                }
            }
            ExprKind::Group(inner) => self.value(inner)?,
            ExprKind::Not(inner) => truth(!self.value(inner)?.truth()),
            ExprKind::Minus(inner) => Value::Num(-self.num(inner)?),
            ExprKind::Plus(inner) => Value::Num(self.num(inner)?),
            ExprKind::Arith { first, rest } => {
                let mut n = self.num(first)?;
                for (op, operand) in rest {
                    let by = self.num(operand)?;
                    n = crate::vm::arith(*op, n, by)?;
                }
                Value::Num(n)
            }
            ExprKind::Power { base, exponent } => {
                let (n, by) = (self.num(base)?, self.num(exponent)?);
                Value::Num(crate::vm::arith(ArithOp::Pow, n, by)?)
            }
            ExprKind::Concat(list) => {
                let mut out = Vec::new();
                for part in list {
                    let value = self.value(part)?;
                    out.extend(self.vm.settings.text_of(&value));
                }
                Value::text(&out, false)
            }
            ExprKind::Compare { op, left, right } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                let settings = &self.vm.settings;
                let order = compare(&left, &right, &settings.convfmt, settings.folded());
                truth(crate::code::Test::new(*op, true).passes(order))
            }
            ExprKind::Match {
                negated,
                left,
                right,
            } => {
                let left = self.value(left)?;
                let subject = self.vm.settings.text_of(&left);
                let pattern = match &right.ungrouped().kind {
                    ExprKind::Regex(text) => Value::text(text, false),
                    _ => self.value(right)?,
                };
                truth(self.matches(&subject, &pattern)? != *negated)
            }
            ExprKind::In { subs, array } => {
                let key = self.key(subs)?;
                match self.array(array)? {
                    Some(array) => truth(self.vm.peek_element(array, &key)?.is_some()),
                    None => truth(false),
                }
            }
            ExprKind::And(list) => {
                for operand in list {
                    if !self.value(operand)?.truth() {
                        return Ok(truth(false));
                    }
                }
                truth(true)
            }
            ExprKind::Or(list) => {
                for operand in list {
                    if self.value(operand)?.truth() {
                        return Ok(truth(true));
                    }
                }
                truth(false)
            }
            ExprKind::Cond { arms, otherwise } => {
                for (cond, yes) in arms {
                    if self.value(cond)?.truth() {
                        return self.value(yes);
                    }
                }
                self.value(otherwise)?
            }
            ExprKind::Assign { target, op, value } => {
                let mut new = self.value(value)?;
                if let Some(op) = op {
                    let old = self.num(target)?;
                    new = Value::Num(crate::vm::arith(*op, old, new.to_num())?);
                }
                self.store(target, new.clone())?;
                new
            }
            ExprKind::Step {
                target,
                down,
                prefix,
            } => {
                let old = self.num(target)?;
                let new = old + if *down { -1.0 } else { 1.0 };
                self.store(target, Value::Num(new))?;
                Value::Num(if *prefix { new } else { old })
            }
            ExprKind::Call { name, args } => {
                let name = parsed.names.text(*name);
                let Some(&function) = self.vm.code.function_numbers.get(name) else {
                    return Err(Fatal::new(format!("there is no function `{name}`")));
                };
                let args = self.values(args)?;
                self.vm.call_function(function, &args)?
            }
            ExprKind::Builtin { which, args, .. } => {
                let mut values = Vec::new();
                for (at, arg) in args.iter().enumerate() {
                    values.push(match &arg.kind {
                        ExprKind::Regex(text)
                            if at == usize::from(*which == Builtin::Match)
                                || *which == Builtin::Split =>
                        {
                            Value::Regex(std::rc::Rc::new(text.clone()))
                        }
                        _ => self.value(arg)?,
                    });
                }
                self.vm.any_builtin(*which, values)?
            }
            ExprKind::Tuple(_) | ExprKind::IndirectCall { .. } | ExprKind::Getline { .. } => {
                return Err(unfit("that expression"));
            }
        })
    }

    fn matches(&mut self, subject: &[u8], pattern: &Value) -> Step<bool> {
        let regex = self.vm.regex_argument(pattern)?;
        Ok(self.vm.cased(&regex).is_match(subject))
    }

    /// Assigns to what stands on the left.
    fn store(&mut self, target: &Expr, value: Value) -> Step<()> {
        let parsed = self.parsed;
        match &target.kind {
            ExprKind::Var(name) => self.vm.assign(&self.view, parsed.names.text(*name), value),
            ExprKind::Field(number) => {
                let n = self.num(number)?;
                if !(0.0..1e7).contains(&n) {
                    return Err(Fatal::new(format!("attempt to access field {n}")));
                }
                self.vm.set_field(n as usize, value)
            }
            ExprKind::Index { array, subs } => {
                let key = self.key(subs)?;
                let mut place = self
                    .vm
                    .array_named(&self.view, parsed.names.text(array.name))?;
                for subs in &array.path {
                    let key = self.key(subs)?;
                    let slot = self.vm.store.entry(place, &key)?;
                    place = self.vm.store.inner(place, slot)?;
                }
                let slot = self.vm.store.entry(place, &key)?;
                self.vm.store.set(place, slot, &value)
            }
            _ => Err(unfit("that assignment")),
        }
    }
}
