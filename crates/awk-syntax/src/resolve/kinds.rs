//! Which variable each name is, and whether it holds a scalar or an array.
//!
//! Invariant: kinds only rise (unknown, one of the two, both), so that the fixpoint is reached.

use std::collections::HashMap;

use super::walk::{Walk, Written, walk_body, walk_expr, walk_rule};
use super::{Global, Kind, Place, Resolved, ResolvedFunction};
use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::dialect::Dialect;
use crate::names::{Names, Special, Symbol};
use crate::span::Span;

impl Resolved {
    pub(super) fn number_and_kinds(&mut self, diagnostics: &mut Diagnostics) {
        let mut walk = UseWalk {
            names: &self.names,
            dialect: self.dialect,
            function_numbers: &self.function_numbers,
            functions: &self.functions,
            inside: None,
            places: std::mem::take(&mut self.places),
            globals: std::mem::take(&mut self.globals),
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

        for (at, global) in globals.iter_mut().enumerate() {
            let seen = uses.get(&Node::Global(at as u32));
            let seen = seen.copied().unwrap_or_default();
            global.may_be_array = seen.array || seen.handed;
            match seen.kind() {
                // A variable of the heap that only `SYMTAB` may name keeps the kind that it has there.
                Kind::Unknown => {}
                // Which of the two it is shows when the program runs: as with gawk, what is not reached does not matter.
                Kind::Mixed => global.kind = Kind::Unknown,
                kind => global.kind = kind,
            }
        }
        let kinds = solve(&uses, &flows);
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

/// What a variable is used as where it stands; what functions do with it that it is handed to may never be reached.
#[derive(Default, Clone, Copy)]
struct Uses {
    scalar: bool,
    array: bool,
    /// Handed on as it is, whatever it holds.
    handed: bool,
}

impl Uses {
    fn kind(self) -> Kind {
        match (self.scalar, self.array) {
            (false, false) => Kind::Unknown,
            (true, false) => Kind::Scalar,
            (false, true) => Kind::Array,
            (true, true) => Kind::Mixed,
        }
    }
}

/// Fixpoint of `kind(v) = uses(v) + kind(parameters that v is handed to)`. A parameter that is both says nothing about its
/// arguments.
fn solve(uses: &HashMap<Node, Uses>, flows: &[(Node, Node)]) -> HashMap<Node, Kind> {
    let mut kinds: HashMap<Node, Kind> = uses
        .iter()
        .map(|(node, seen)| (*node, seen.kind()))
        .collect();
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

struct UseWalk<'a> {
    names: &'a Names,
    dialect: Dialect,
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
        if let Some(special) = self.dialect.special(self.names.text(name)) {
            self.places.insert(name, Place::Special(special));
            return Err(Some(special));
        }
        let at = self.globals.len() as u32;
        self.globals.push(Global {
            name,
            kind: Kind::Unknown,
            may_be_array: false,
            span,
        });
        self.places.insert(name, Place::Global(at));
        Ok(Node::Global(at))
    }
}

impl Walk for UseWalk<'_> {
    fn call(&mut self, name: Symbol, args: &[Expr], span: Span) -> bool {
        let Some(&number) = self.function_numbers.get(&name) else {
            for arg in args {
                match arg.kind {
                    ExprKind::Var(variable) => self.either(variable, arg.span),
                    _ => walk_expr(self, arg),
                }
            }
            return false;
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
            if matches!(arg.kind, ExprKind::Regex(_)) {
                let message = format!(
                    "regexp constant for parameter #{} yields boolean value",
                    at + 1
                );
                self.diagnostics.warn(arg.span, message);
            }
            let ExprKind::Var(variable) = arg.kind else {
                walk_expr(self, arg);
                continue;
            };
            if let Ok(node) = self.node(variable, arg.span) {
                self.uses.entry(node).or_default().handed = true;
                // What a function does with a parameter may never be reached, and says nothing of a global.
                if at < declared && matches!(node, Node::Param(..)) {
                    self.flows.push((node, Node::Param(number, at as u32)));
                }
            }
        }
        false
    }

    fn scalar(&mut self, name: Symbol, span: Span) {
        match self.node(name, span) {
            Ok(node) => {
                self.uses.entry(node).or_default().scalar = true;
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
                self.uses.entry(node).or_default().array = true;
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
            self.uses.entry(node).or_default().handed = true;
        }
    }

    fn written(&mut self, name: Symbol, how: Written, span: Span) {
        let Err(Some(special @ (Special::FUNCTAB | Special::SYMTAB))) = self.node(name, span)
        else {
            return;
        };
        let table = special.name();
        let message = match how {
            Written::Element if special == Special::SYMTAB => return,
            Written::Element => format!("cannot assign to elements of {table}"),
            Written::Delete => format!("`delete` is not allowed with {table}"),
            Written::Filled(which) => format!("{}: {table} cannot be filled", which.name()),
        };
        self.diagnostics.misuse(span, message);
    }
}
