//! Names to numbers and kinds: which variable, which function, scalar or array.
//!
//! Invariants of a `Resolved`: every called function has a number; every name used as a variable is a parameter, a special
//! variable or a numbered global; no global is both scalar and array. Parameters may be both (`Kind::Mixed`): AWK decides
//! that at each call, so the interpreter does too.
//!
//! Kinds come from uses (`x[1]`, `x + 1`) and flow from parameters back to the arguments of calls, to a fixpoint over the
//! call graph: that is how `function f(a) { a[1] } BEGIN { f(x) }` makes `x` an array.

use std::collections::HashMap;

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::names::{Names, Special, Symbol};
use crate::parse::parse;
use crate::span::{Sources, Span};

/// What a variable holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Never used except to be handed on.
    #[default]
    Unknown,
    /// A number or string.
    Scalar,
    /// An array.
    Array,
    /// A parameter used as both; each call decides.
    Mixed,
}

impl Kind {
    fn join(self, other: Kind) -> Kind {
        match (self, other) {
            (Kind::Unknown, k) | (k, Kind::Unknown) => k,
            (a, b) if a == b => a,
            _ => Kind::Mixed,
        }
    }
}

/// A global variable of the program (special ones are not among them).
#[derive(Clone, Debug)]
pub struct Global {
    /// Its name.
    pub name: Symbol,
    /// Scalar or array; `Unknown` may be taken for a scalar.
    pub kind: Kind,
    /// First use that shows the kind, for messages.
    pub span: Span,
}

/// A function with its number's data.
#[derive(Clone, Debug)]
pub struct ResolvedFunction {
    /// The definition.
    pub function: Function,
    /// Kinds of the parameters.
    pub param_kinds: Vec<Kind>,
    /// Whether the definition came from `lookup` (a heap) and not from the program.
    pub from_lookup: bool,
}

/// Where a name leads in a function or rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Parameter number of the current function.
    Local(u32),
    /// Number of a global.
    Global(u32),
    /// A special variable.
    Special(Special),
}

/// A program that is ready to be compiled.
#[derive(Debug, Default)]
pub struct Resolved {
    /// All texts, those of looked-up functions included.
    pub sources: Sources,
    /// Rules in program order.
    pub rules: Vec<Rule>,
    /// Functions by number.
    pub functions: Vec<ResolvedFunction>,
    /// Global variables by number.
    pub globals: Vec<Global>,
    /// Names.
    pub names: Names,
    function_numbers: HashMap<Symbol, u32>,
    places: HashMap<Symbol, Place>,
}

impl Resolved {
    /// The number of a function.
    pub fn function(&self, name: Symbol) -> Option<u32> {
        self.function_numbers.get(&name).copied()
    }

    /// Where `name` leads inside of function number `inside`, or in a rule.
    ///
    /// # Panics
    /// If the name does not occur in the program as a variable.
    pub fn place(&self, name: Symbol, inside: Option<u32>) -> Place {
        if let Some(number) = inside {
            let params = &self.functions[number as usize].function.params;
            if let Some(at) = params.iter().position(|(param, _)| *param == name) {
                return Place::Local(at as u32);
            }
        }
        self.places[&name]
    }

    /// The kind of what is at a place.
    pub fn kind(&self, place: Place, inside: Option<u32>) -> Kind {
        match place {
            Place::Local(at) => inside.map_or(Kind::Unknown, |f| {
                self.functions[f as usize].param_kinds[at as usize]
            }),
            Place::Global(at) => self.globals[at as usize].kind,
            Place::Special(special) if special.is_array() => Kind::Array,
            Place::Special(_) => Kind::Scalar,
        }
    }

    /// The exact text of a function's definition.
    pub fn function_text(&self, number: u32) -> &[u8] {
        self.sources
            .slice(self.functions[number as usize].function.span)
    }

    /// The program as text again.
    pub fn print(&self) -> String {
        let program = Program {
            rules: self.rules.clone(),
            functions: self.functions.iter().map(|f| f.function.clone()).collect(),
            names: Names::default(),
        };
        crate::print::program(&program, &self.names)
    }

    /// Globals and functions with their kinds (`--dump=types`).
    pub fn print_types(&self) -> String {
        let mut out = String::new();
        for global in &self.globals {
            out.push_str(&format!(
                "global {}: {:?}\n",
                self.names.text(global.name),
                global.kind
            ));
        }
        for f in &self.functions {
            let params: Vec<String> = f
                .function
                .params
                .iter()
                .zip(&f.param_kinds)
                .map(|((name, _), kind)| format!("{}: {kind:?}", self.names.text(*name)))
                .collect();
            let origin = if f.from_lookup {
                " (from the heap)"
            } else {
                ""
            };
            out.push_str(&format!(
                "function {}({}){origin}\n",
                self.names.text(f.function.name),
                params.join(", ")
            ));
        }
        out
    }
}

/// Where functions come from that a program calls but does not define.
pub trait FunctionSource {
    /// The text of the definition, `function name(...) { ... }`.
    fn function_text(&mut self, name: &str) -> Option<Vec<u8>>;
}

impl<F: FnMut(&str) -> Option<Vec<u8>>> FunctionSource for F {
    fn function_text(&mut self, name: &str) -> Option<Vec<u8>> {
        self(name)
    }
}

/// Reads and resolves a program.
///
/// `sources` are read in order as one text. The second value holds errors and warnings; with an error in it the first is
/// `None`, and the sources are given back for wording the messages.
pub fn load(
    sources: Sources,
    lookup: &mut dyn FunctionSource,
) -> (Result<Resolved, Sources>, Diagnostics) {
    let mut diagnostics = Diagnostics::default();
    let mut names = Names::default();
    let mut program = Program::default();
    if !sources.is_empty() {
        let last = (sources.len() - 1) as u32;
        program = parse(&sources, 0, last, &mut names, &mut diagnostics);
    }
    let mut resolved = Resolved {
        sources,
        rules: program.rules,
        names,
        ..Resolved::default()
    };
    if diagnostics.has_errors() {
        return (Err(resolved.sources), diagnostics);
    }
    for function in program.functions {
        resolved.add_function(function, false, &mut diagnostics);
    }
    resolved.find_missing(lookup, &mut diagnostics);
    if !diagnostics.has_errors() {
        resolved.number_and_kinds(&mut diagnostics);
    }
    if diagnostics.has_errors() {
        (Err(resolved.sources), diagnostics)
    } else {
        (Ok(resolved), diagnostics)
    }
}

impl Resolved {
    fn add_function(
        &mut self,
        function: Function,
        from_lookup: bool,
        diagnostics: &mut Diagnostics,
    ) {
        let name = self.names.text(function.name).to_string();
        if Special::from_name(&name).is_some() {
            diagnostics.error(
                function.name_span,
                format!("`{name}` is a special variable, it cannot be a function"),
            );
        }
        if self.function_numbers.contains_key(&function.name) {
            diagnostics.error(
                function.name_span,
                format!("function `{name}` is defined twice"),
            );
            return;
        }
        for (at, (param, span)) in function.params.iter().enumerate() {
            let text = self.names.text(*param);
            if *param == function.name {
                diagnostics.error(
                    *span,
                    format!("function `{name}`: its own name cannot be a parameter"),
                );
            } else if Special::from_name(text).is_some() {
                diagnostics.error(
                    *span,
                    format!("function `{name}`: special variable `{text}` cannot be a parameter"),
                );
            } else if let Some(first) = function.params[..at].iter().position(|(p, _)| p == param) {
                let message = format!(
                    "function `{name}`: parameter {}, `{text}`, duplicates parameter {}",
                    at + 1,
                    first + 1
                );
                diagnostics.error(*span, message);
            }
        }
        self.function_numbers
            .insert(function.name, self.functions.len() as u32);
        let param_kinds = vec![Kind::Unknown; function.params.len()];
        self.functions.push(ResolvedFunction {
            function,
            param_kinds,
            from_lookup,
        });
    }

    /// Looks up functions that are called but not defined, and those that these call, until all are there.
    fn find_missing(&mut self, lookup: &mut dyn FunctionSource, diagnostics: &mut Diagnostics) {
        let mut walked_functions = 0;
        let mut calls = Vec::new();
        for rule in &self.rules {
            let mut walk = CallWalk { calls: &mut calls };
            walk_rule(&mut walk, rule);
        }
        loop {
            while walked_functions < self.functions.len() {
                let mut walk = CallWalk { calls: &mut calls };
                walk_body(&mut walk, &self.functions[walked_functions].function.body);
                walked_functions += 1;
            }
            let Some((name, span)) = calls.pop() else {
                return;
            };
            if self.function_numbers.contains_key(&name) {
                continue;
            }
            let text = self.names.text(name).to_string();
            match lookup.function_text(&text) {
                Some(source) => self.read_stored(name, &text, source, span, diagnostics),
                None => diagnostics.misuse(
                    span,
                    format!("function `{text}` is called but never defined"),
                ),
            }
        }
    }

    fn read_stored(
        &mut self,
        name: Symbol,
        text: &str,
        source: Vec<u8>,
        call: Span,
        diagnostics: &mut Diagnostics,
    ) {
        let number = self.sources.add(format!("stored function {text}"), source);
        let program = parse(&self.sources, number, number, &mut self.names, diagnostics);
        let mut found = false;
        for function in program.functions {
            if function.name == name {
                found = true;
                self.add_function(function, true, diagnostics);
            }
        }
        if !found {
            diagnostics.error(
                call,
                format!("function `{text}`: its stored text does not define it"),
            );
        }
    }

    fn number_and_kinds(&mut self, diagnostics: &mut Diagnostics) {
        let mut walk = UseWalk {
            names: &self.names,
            function_numbers: &self.function_numbers,
            functions: &self.functions,
            inside: None,
            places: HashMap::new(),
            globals: Vec::new(),
            uses: HashMap::new(),
            flows: Vec::new(),
            diagnostics,
        };
        for rule in &self.rules {
            walk_rule(&mut walk, rule);
        }
        for number in 0..self.functions.len() {
            walk.inside = Some(number as u32);
            walk_body(&mut walk, &self.functions[number].function.body);
        }
        let UseWalk {
            places,
            mut globals,
            uses,
            flows,
            ..
        } = walk;

        let kinds = solve(&uses, &flows);
        for (at, global) in globals.iter_mut().enumerate() {
            global.kind = kinds
                .get(&Node::Global(at as u32))
                .copied()
                .unwrap_or_default();
            if global.kind == Kind::Mixed {
                let text = self.names.text(global.name);
                let seen = uses.get(&Node::Global(at as u32));
                let span = seen
                    .and_then(|u| u.array_at.or(u.scalar_at))
                    .unwrap_or(global.span);
                let other = match seen.and_then(|u| u.scalar_at) {
                    Some(at) => format!(" (used as a scalar at {})", self.sources.place(at)),
                    None => String::new(),
                };
                diagnostics.misuse(
                    span,
                    format!("`{text}` is used both as an array and as a scalar{other}"),
                );
            }
        }
        for (number, f) in self.functions.iter_mut().enumerate() {
            for (at, kind) in f.param_kinds.iter_mut().enumerate() {
                *kind = kinds
                    .get(&Node::Param(number as u32, at as u32))
                    .copied()
                    .unwrap_or_default();
            }
        }
        self.places = places;
        self.globals = globals;
    }
}

/// A variable as a node of the flow graph.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    Global(u32),
    Param(u32, u32),
}

#[derive(Default, Clone, Copy)]
struct Uses {
    scalar_at: Option<Span>,
    array_at: Option<Span>,
}

/// Fixpoint of `kind(v) = uses(v) + kind(parameters that v is handed to)`. A parameter that is both says nothing about its
/// arguments.
fn solve(uses: &HashMap<Node, Uses>, flows: &[(Node, Node)]) -> HashMap<Node, Kind> {
    let direct = |node: &Node| {
        let seen = uses.get(node).copied().unwrap_or_default();
        let scalar = if seen.scalar_at.is_some() {
            Kind::Scalar
        } else {
            Kind::Unknown
        };
        let array = if seen.array_at.is_some() {
            Kind::Array
        } else {
            Kind::Unknown
        };
        scalar.join(array)
    };
    let mut kinds: HashMap<Node, Kind> = uses.keys().map(|node| (*node, direct(node))).collect();
    // Kinds only rise (unknown, one, both), so this ends; a mixed parameter's earlier word stays with its arguments.
    let mut changed = true;
    while changed {
        changed = false;
        for (argument, param) in flows {
            let told = kinds.get(param).copied().unwrap_or_default();
            let old = kinds.get(argument).copied().unwrap_or_default();
            let new = if told == Kind::Mixed {
                old
            } else {
                old.join(told)
            };
            if new != old {
                kinds.insert(*argument, new);
                changed = true;
            }
        }
    }
    kinds
}

// ---- walking ----

/// What a walk wants to see.
trait Walk {
    fn call(&mut self, _name: Symbol, _args: &[Expr], _span: Span) -> bool {
        true
    }
    fn scalar(&mut self, _name: Symbol, _span: Span) {}
    fn array(&mut self, _name: Symbol, _span: Span) {}
    /// A bare name that may be either: an argument of `length`.
    fn either(&mut self, _name: Symbol, _span: Span) {}
}

fn walk_rule(walk: &mut impl Walk, rule: &Rule) {
    match &rule.pattern {
        Pattern::Expr(e) => walk_expr(walk, e),
        Pattern::Range(from, to) => {
            walk_expr(walk, from);
            walk_expr(walk, to);
        }
        Pattern::Begin | Pattern::End | Pattern::Always => {}
    }
    if let Some(body) = &rule.body {
        walk_body(walk, body);
    }
}

fn walk_body(walk: &mut impl Walk, body: &[Stmt]) {
    for statement in body {
        walk_statement(walk, statement);
    }
}

fn walk_statement(walk: &mut impl Walk, statement: &Stmt) {
    match &statement.kind {
        StmtKind::Expr(e) => walk_expr(walk, e),
        StmtKind::Print { args, to, .. } => {
            walk_list(walk, args);
            if let Some(to) = to {
                walk_expr(walk, &to.target);
            }
        }
        StmtKind::If { arms, otherwise } => {
            for (cond, body) in arms {
                walk_expr(walk, cond);
                walk_body(walk, body);
            }
            if let Some(body) = otherwise {
                walk_body(walk, body);
            }
        }
        StmtKind::While { cond, body } | StmtKind::DoWhile { body, cond } => {
            walk_expr(walk, cond);
            walk_body(walk, body);
        }
        StmtKind::For {
            init,
            cond,
            step,
            body,
        } => {
            if let Some(init) = init {
                walk_statement(walk, init);
            }
            if let Some(cond) = cond {
                walk_expr(walk, cond);
            }
            walk_body(walk, body);
            if let Some(step) = step {
                walk_statement(walk, step);
            }
        }
        StmtKind::ForIn {
            var,
            var_span,
            array,
            array_span,
            body,
        } => {
            walk.scalar(*var, *var_span);
            walk.array(*array, *array_span);
            walk_body(walk, body);
        }
        StmtKind::Block(body) => walk_body(walk, body),
        StmtKind::Exit(value) | StmtKind::Return(value) => {
            if let Some(value) = value {
                walk_expr(walk, value);
            }
        }
        StmtKind::Delete {
            array,
            array_span,
            subs,
        } => {
            walk.array(*array, *array_span);
            if let Some(subs) = subs {
                walk_list(walk, subs);
            }
        }
        StmtKind::Next | StmtKind::NextFile | StmtKind::Break | StmtKind::Continue => {}
    }
}

fn walk_list(walk: &mut impl Walk, list: &[Expr]) {
    for e in list {
        walk_expr(walk, e);
    }
}

fn walk_expr(walk: &mut impl Walk, e: &Expr) {
    match &e.kind {
        ExprKind::Num(_) | ExprKind::Str(_) | ExprKind::Regex(_) => {}
        ExprKind::Var(name) => walk.scalar(*name, e.span),
        ExprKind::Field(inner)
        | ExprKind::Group(inner)
        | ExprKind::Not(inner)
        | ExprKind::Minus(inner)
        | ExprKind::Plus(inner) => walk_expr(walk, inner),
        ExprKind::Index { array, subs } => {
            walk.array(*array, e.span);
            walk_list(walk, subs);
        }
        ExprKind::Tuple(list)
        | ExprKind::Concat(list)
        | ExprKind::And(list)
        | ExprKind::Or(list) => walk_list(walk, list),
        ExprKind::Arith { first, rest } => {
            walk_expr(walk, first);
            for (_, operand) in rest {
                walk_expr(walk, operand);
            }
        }
        ExprKind::Power {
            base: left,
            exponent: right,
        }
        | ExprKind::Compare { left, right, .. }
        | ExprKind::Match { left, right, .. } => {
            walk_expr(walk, left);
            walk_expr(walk, right);
        }
        ExprKind::In {
            subs,
            array,
            array_span,
        } => {
            walk_list(walk, subs);
            walk.array(*array, *array_span);
        }
        ExprKind::Cond { cond, yes, no } => {
            walk_expr(walk, cond);
            walk_expr(walk, yes);
            walk_expr(walk, no);
        }
        ExprKind::Assign { target, value, .. } => {
            walk_expr(walk, target);
            walk_expr(walk, value);
        }
        ExprKind::Step { target, .. } => walk_expr(walk, target),
        ExprKind::Call { name, args } => {
            if walk.call(*name, args, e.span) {
                walk_list(walk, args);
            }
        }
        ExprKind::Builtin { which, args, .. } => walk_builtin(walk, *which, args),
        ExprKind::Getline { target, from } => {
            if let Some(target) = target {
                walk_expr(walk, target);
            }
            if let GetlineFrom::File(source) | GetlineFrom::Command(source) = from {
                walk_expr(walk, source);
            }
        }
    }
}

fn walk_builtin(walk: &mut impl Walk, which: crate::names::Builtin, args: &[Expr]) {
    use crate::names::Builtin;
    for (at, arg) in args.iter().enumerate() {
        match (&arg.ungrouped().kind, which, at) {
            (ExprKind::Var(name), Builtin::Split, 1) => walk.array(*name, arg.span),
            (ExprKind::Var(name), Builtin::Length, 0) => walk.either(*name, arg.span),
            _ => walk_expr(walk, arg),
        }
    }
}

struct CallWalk<'a> {
    calls: &'a mut Vec<(Symbol, Span)>,
}

impl Walk for CallWalk<'_> {
    fn call(&mut self, name: Symbol, _args: &[Expr], span: Span) -> bool {
        self.calls.push((name, span));
        true
    }
}

struct UseWalk<'a> {
    names: &'a Names,
    function_numbers: &'a HashMap<Symbol, u32>,
    functions: &'a [ResolvedFunction],
    inside: Option<u32>,
    places: HashMap<Symbol, Place>,
    globals: Vec<Global>,
    uses: HashMap<Node, Uses>,
    flows: Vec<(Node, Node)>,
    diagnostics: &'a mut Diagnostics,
}

impl UseWalk<'_> {
    /// The node of a name; `None` for special variables, whose kinds are fixed.
    fn node(&mut self, name: Symbol, span: Span) -> Result<Node, Option<Special>> {
        if let Some(number) = self.inside {
            let params = &self.functions[number as usize].function.params;
            if let Some(at) = params.iter().position(|(param, _)| *param == name) {
                return Ok(Node::Param(number, at as u32));
            }
        }
        if self.function_numbers.contains_key(&name) {
            let text = self.names.text(name);
            self.diagnostics.error(
                span,
                format!("function `{text}` is used as a variable, or called with a blank between its name and `(`"),
            );
            return Err(None);
        }
        match self.places.get(&name) {
            Some(Place::Special(special)) => return Err(Some(*special)),
            Some(Place::Global(at)) => return Ok(Node::Global(*at)),
            _ => {}
        }
        if let Some(special) = Special::from_name(self.names.text(name)) {
            self.places.insert(name, Place::Special(special));
            return Err(Some(special));
        }
        let at = self.globals.len() as u32;
        self.globals.push(Global {
            name,
            kind: Kind::Unknown,
            span,
        });
        self.places.insert(name, Place::Global(at));
        Ok(Node::Global(at))
    }
}

impl Walk for UseWalk<'_> {
    fn call(&mut self, name: Symbol, args: &[Expr], span: Span) -> bool {
        let Some(&number) = self.function_numbers.get(&name) else {
            return true;
        };
        let declared = self.functions[number as usize].function.params.len();
        if args.len() > declared {
            let text = self.names.text(name);
            let message = format!(
                "function `{text}` takes {declared} argument(s), here are {}; the rest is computed and forgotten",
                args.len()
            );
            self.diagnostics.warn(span, message);
        }
        if self.inside.is_some_and(|f| {
            self.functions[f as usize]
                .function
                .params
                .iter()
                .any(|(param, _)| *param == name)
        }) {
            let text = self.names.text(name);
            self.diagnostics.error(
                span,
                format!("parameter `{text}` is called like a function"),
            );
        }
        for (at, arg) in args.iter().enumerate() {
            let ExprKind::Var(variable) = arg.kind else {
                walk_expr(self, arg);
                continue;
            };
            if let Ok(node) = self.node(variable, arg.span) {
                self.uses.entry(node).or_default();
                if at < declared {
                    self.flows.push((node, Node::Param(number, at as u32)));
                }
            }
        }
        false
    }

    fn scalar(&mut self, name: Symbol, span: Span) {
        match self.node(name, span) {
            Ok(node) => {
                self.uses
                    .entry(node)
                    .or_default()
                    .scalar_at
                    .get_or_insert(span);
            }
            Err(Some(special)) if special.is_array() => {
                self.diagnostics.misuse(
                    span,
                    format!(
                        "`{}` is an array, here it is used as a scalar",
                        special.name()
                    ),
                );
            }
            Err(_) => {}
        }
    }

    fn array(&mut self, name: Symbol, span: Span) {
        match self.node(name, span) {
            Ok(node) => {
                self.uses
                    .entry(node)
                    .or_default()
                    .array_at
                    .get_or_insert(span);
            }
            Err(Some(special)) if !special.is_array() => {
                self.diagnostics.misuse(
                    span,
                    format!(
                        "`{}` is a scalar, here it is used as an array",
                        special.name()
                    ),
                );
            }
            Err(_) => {}
        }
    }

    fn either(&mut self, name: Symbol, span: Span) {
        if let Ok(node) = self.node(name, span) {
            self.uses.entry(node).or_default();
        }
    }
}
