//! Resolved tree to code.
//!
//! An expression is compiled for what its consumer wants: a number on the number stack (`num`), a value (`val`), its text
//! appended to the string being built (`append`), a jump (`jump`), or only its effect (`effect`). So `a + b` never becomes
//! a boxed value, `if (x > 3)` is one compare-and-jump, and `n++` as a statement leaves nothing behind.
//!
//! Order of evaluation is gawk's: the right side of an assignment before the subscripts of its left side.

use std::rc::Rc;

use memchr::memmem::Finder;

use awk_syntax::ast::*;
use awk_syntax::independence::Plan;
use awk_syntax::names::Special;
use awk_syntax::{Diagnostics, Kind, Resolved, Span};

use crate::code::*;
use crate::locale::Numbers;
use crate::regex::{Options, Regex};
use crate::value::Value;

mod builtins;
mod counting;
mod exact;
mod expressions;
mod facts;
mod lvalues;
mod parts;
mod shared;
mod statements;

/// Compiles a program; with the plan by which several processes may share its records, so that it says where they cannot.
/// Errors (a malformed regular expression) go to `diagnostics`; the code is then not to be run.
pub fn compile(
    program: &Resolved,
    options: Options,
    wish: Wish,
    shared: Option<&Plan>,
    diagnostics: &mut Diagnostics,
) -> Code {
    let code = compile_with(program, options, wish, shared, Vec::new(), diagnostics);
    if !wish.parts || diagnostics.has_errors() {
        return code;
    }
    match parts::arrays(&code) {
        parts if parts.is_empty() => code,
        parts => {
            let told = &mut Diagnostics::default(); // the same once more
            compile_with(program, options, wish, shared, parts, told)
        }
    }
}

/// `parts`: what the field of [`Code`] will be.
fn compile_with<'a>(
    program: &'a Resolved,
    options: Options,
    wish: Wish,
    shared: Option<&'a Plan>,
    parts: Vec<u32>,
    diagnostics: &'a mut Diagnostics,
) -> Code {
    let mut code = Code::default();
    code.parts = parts;
    let mut c = Compiler {
        program,
        options,
        wish,
        shared,
        diagnostics,
        code,
        labels: Vec::new(),
        patches: Vec::new(),
        inside: None,
        loops: Vec::new(),
        span: Span::default(),
    };
    if wish.all_variables {
        c.code.use_special(Special::SYMTAB);
    }
    c.program();
    c.patch();
    c.code
}

/// What the code must be able to do besides.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// It says when it comes by the places that a profile counts and a debugger stops at.
    pub marked: bool,
    /// All special variables are filled, also those that the program does not mention.
    pub all_variables: bool,
    /// How the locale writes numbers, and where that counts.
    pub numbers: Numbers,
    /// `print` writes its values in a notation of its own.
    pub notation: bool,
    /// Its arithmetic is that of [`crate::exact`] (`--bignum`).
    pub exact: bool,
    /// Loops may be run by native code.
    pub native: bool,
    /// Records and keys may be taken many at a time, passed over, and their memory be asked for ahead.
    pub ahead: bool,
    /// Arrays may be arrays of parts (`vm/parts.rs`): nobody but the program's instructions looks at variables.
    pub parts: bool,
}

/// A place in the code that is not known yet.
#[derive(Clone, Copy)]
struct Label(u32);

struct Loop {
    /// `None`: a `switch`, which `continue` does not mean.
    again: Option<Label>,
    out: Label,
}

/// Something that can be assigned to, with what its store needs already decided.
enum Target<'a> {
    Global(u32),
    Local(u32),
    Special(Special),
    Field(&'a Expr),
    Elem(&'a ArrayExpr, &'a [Expr]),
    /// An element of SYMTAB.
    Symbol(&'a [Expr]),
}

struct Compiler<'a> {
    program: &'a Resolved,
    options: Options,
    wish: Wish,
    /// Several processes share the records: what they add and compare is looked at.
    shared: Option<&'a Plan>,
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

    /// Marks a place, if somebody watches.
    fn mark(&mut self, event: Event, span: Span) {
        if self.wish.marked {
            let n = self.code.marks.len() as u32;
            self.code.marks.push(Mark { event, span });
            self.at(span, |c| c.emit(Op::Mark(n)));
        }
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
            let op = &mut self.code.ops[at];
            match op.target_mut() {
                Some(to) => *to = self.labels[*to as usize],
                None => unreachable!("{op:?} has no jump target"),
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
        match Regex::compile(text, self.options) {
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
        self.code.global_kinds = program.globals.iter().map(|g| g.kind).collect();
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
            match rule.pattern {
                Pattern::Begin | Pattern::End => {}
                Pattern::BeginFile | Pattern::EndFile => self.code.reads_input = true,
                _ => {
                    self.code.reads_input = true;
                    self.rule(rule);
                }
            }
        }
        let start = self.code.main_start;
        self.emit(Op::Jump(start));
        if self.wish.ahead {
            self.count_in_batches();
            self.sum_in_batches();
        }
        self.here(end);
        self.code.end_start = self.code.ops.len() as u32;
        for rule in &program.rules {
            if let (Pattern::End, Some(body)) = (&rule.pattern, &rule.body) {
                self.code.reads_input = true;
                self.body(body);
            }
        }
        self.emit(Op::Halt);
        if self.wish.ahead {
            self.code.required = self.required();
            self.code.looked_up = self.looked_up();
        }
        self.code.begin_file = self.block(|pattern| matches!(pattern, Pattern::BeginFile));
        self.code.end_file = self.block(|pattern| matches!(pattern, Pattern::EndFile));
        self.code.dialect = program.dialect;
        self.code.exact = self.wish.exact;
        self.code.libraries = program.libraries.clone();
        for (number, f) in program.functions.iter().enumerate() {
            self.inside = Some(number as u32);
            let entry = self.code.ops.len() as u32;
            self.mark(Event::Function, f.function.name_span);
            self.body(&f.function.body);
            self.emit(Op::Uninit);
            self.emit(Op::Return);
            let name = program.names.text(f.function.name).to_string();
            self.code
                .function_numbers
                .insert(name.clone(), number as u32);
            self.code.functions.push(FunctionCode {
                name,
                entry,
                params: f
                    .function
                    .params
                    .iter()
                    .map(|(name, _)| program.names.text(*name).to_string())
                    .collect(),
                has_arrays: f.param_kinds.iter().any(|k| *k != Kind::Scalar),
            });
        }
    }

    /// Global arrays that the rules look into with a field as the key, the first few of them.
    fn looked_up(&self) -> Vec<(Arr, u32)> {
        const MOST: usize = 4;
        let rules = &self.code.ops[self.code.main_start as usize..self.code.end_start as usize];
        let mut found = Vec::new();
        let next = rules.iter().skip(1).map(Some).chain([None]);
        for (op, next) in rules.iter().zip(next) {
            let pair = match *op {
                Op::StepElemField { array, field, .. } => (array, field),
                Op::KeyField(field) => match next.and_then(|next| next.element()) {
                    Some(array) => (array, field),
                    None => continue,
                },
                _ => continue,
            };
            let is_global = (pair.0.0 as usize) < self.code.globals.len();
            if is_global && !found.contains(&pair) && found.len() < MOST {
                found.push(pair);
            }
        }
        found
    }

    /// What every record contains that the one rule for records acts on: some texts, all of them.
    fn required(&self) -> Vec<Finder<'static>> {
        const REQUIRED_MAX: usize = 4;
        let literals = self.required_literals().unwrap_or_default();
        let first = literals.iter().take(REQUIRED_MAX);
        first
            .map(|literal| Finder::new(literal).into_owned())
            .collect()
    }

    fn required_literals(&self) -> Option<Vec<Vec<u8>>> {
        let is_for_records = |rule: &&Rule| {
            !matches!(
                rule.pattern,
                Pattern::Begin | Pattern::End | Pattern::BeginFile | Pattern::EndFile
            )
        };
        let mut rules = self.program.rules.iter().filter(is_for_records);
        let (Some(rule), None) = (rules.next(), rules.next()) else {
            return None;
        };
        let Pattern::Expr(pattern) = &rule.pattern else {
            return None;
        };
        let regex = Regex::compile(facts::matched_by(pattern)?, self.options).ok()?;
        Some(regex.required())
    }

    /// The rules with a pattern as code that the machine calls; its first instruction.
    fn block(&mut self, is_meant: fn(&Pattern) -> bool) -> Option<u32> {
        let program = self.program;
        let mut rules = program
            .rules
            .iter()
            .filter(|r| is_meant(&r.pattern))
            .peekable();
        rules.peek()?;
        let entry = self.code.ops.len() as u32;
        for rule in rules {
            self.body(rule.body.as_deref().unwrap_or_default());
        }
        self.emit(Op::BlockEnd);
        Some(entry)
    }

    fn rule(&mut self, rule: &'a Rule) {
        self.span = rule.span;
        let skip = self.label();
        self.mark(Event::Rule, rule.span);
        match &rule.pattern {
            Pattern::Expr(e) => {
                self.check_extreme(e, rule.body.as_deref().unwrap_or_default());
                self.jump(e, skip, false);
                self.mark(Event::True, e.span);
            }
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
                self.mark(Event::True, from.span);
            }
            Pattern::Always
            | Pattern::Begin
            | Pattern::End
            | Pattern::BeginFile
            | Pattern::EndFile => {}
        }
        match &rule.body {
            Some(body) => self.body(body),
            None => self.emit(Op::PrintRecord),
        }
        self.here(skip);
    }
}
