//! Names to numbers and kinds: which variable, which function, scalar or array.
//!
//! Invariants of a `Resolved`: every called function that there is has a number; every name used as a variable is a
//! parameter, a special variable or a numbered global. A global that is used as both, or as neither, is of unknown kind:
//! the run shows which it is, and what is not reached does not matter (gawk). Parameters may be both (`Kind::Mixed`).
//!
//! Kinds come from uses (`x[1]`, `x + 1`); those of parameters also from the functions that they are handed to.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::dialect::{Dialect, Options};
use crate::lint;
use crate::names::{Builtin, Library, Names, Special, Symbol};
use crate::parse::parse;
use crate::print::Counts;
use crate::span::{Sources, Span};
use crate::world::World;
use search::Search;

mod kinds;
mod libraries;
mod search;
mod walk;

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
    /// Scalar or array, as it is used where it stands; `Unknown` if it is both, or neither.
    pub kind: Kind,
    /// It may be an array at some time: it is used as one, or handed to something that may make it one.
    pub may_be_array: bool,
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
    /// The language it was read as.
    pub dialect: Dialect,
    /// Libraries that are loaded, by the program or from outside.
    pub libraries: Vec<Library>,
    /// Files that `@include` named.
    pub includes: Vec<String>,
    comments: Vec<Span>,
    /// The name of the built-in `intdiv`, if that is what it means.
    intdiv: Option<Symbol>,
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

    /// The exact text of a function's definition: what a heap keeps. Outside the namespace `awk` the directive that
    /// gives its names their meaning stands in front, on the same line.
    pub fn function_text(&self, number: u32) -> Cow<'_, [u8]> {
        let function = &self.functions[number as usize].function;
        let text = self.sources.slice(function.span);
        let Some(namespace) = function.namespace else {
            return Cow::Borrowed(text);
        };
        let directive = format!("@namespace \"{}\"; ", self.names.text(namespace));
        Cow::Owned([directive.as_bytes(), text].concat())
    }

    /// The program as text again (`--dump=ast`), functions of the heap included.
    pub fn print(&self) -> String {
        crate::print::program(&self.tree(|_| true), &self.names, &self.sources, None)
    }

    /// The program's own text with counts (`-p`).
    pub fn profile(&self, counts: &dyn Counts) -> String {
        let tree = self.tree(|f| !f.from_lookup);
        crate::print::program(&tree, &self.names, &self.sources, Some(counts))
    }

    fn tree(&self, wanted: impl Fn(&ResolvedFunction) -> bool) -> Program {
        let functions = self.functions.iter().filter(|f| wanted(f));
        let loads = self.libraries.iter();
        Program {
            rules: self.rules.clone(),
            functions: functions.map(|f| f.function.clone()).collect(),
            loads: loads.map(|library| (*library, Span::default())).collect(),
            includes: self.includes.clone(),
            comments: self.comments.clone(),
            regexes: Vec::new(),
        }
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

/// Reads and resolves a program.
///
/// `sources` are read in order, each one complete in itself. The second value holds errors and warnings; with an error in
/// it the first is `Err`, and the sources are given back for wording the messages.
pub fn load(
    mut sources: Sources,
    options: &Options,
    world: &mut dyn World,
) -> (Result<Resolved, Sources>, Diagnostics) {
    let mut diagnostics = Diagnostics::new(options.lints);
    let mut names = Names::default();
    let program = parse(
        &mut sources,
        0,
        &mut names,
        options,
        world,
        &mut diagnostics,
    );
    if diagnostics.is_linting() {
        lint::sources(&sources, &program, &mut diagnostics);
    }
    let mut resolved = Resolved {
        sources,
        rules: program.rules,
        names,
        dialect: options.dialect,
        libraries: options.libraries.clone(),
        includes: program.includes,
        comments: program.comments,
        ..Resolved::default()
    };
    if diagnostics.has_errors() {
        return (Err(resolved.sources), diagnostics);
    }
    for (library, _) in program.loads {
        if !resolved.libraries.contains(&library) {
            resolved.libraries.push(library);
        }
    }
    let intdiv = resolved.names.find(Builtin::Intdiv.name());
    resolved.intdiv = intdiv.filter(|name| {
        options.dialect.is_gawk()
            && program.functions.iter().all(|f| f.name != *name)
            && world.function_text(Builtin::Intdiv.name()).is_none()
    });
    let mut rules = std::mem::take(&mut resolved.rules);
    resolved.rewrite(&mut diagnostics, |rewrite| {
        rules.iter_mut().for_each(|rule| rewrite.rule(rule));
    });
    resolved.rules = rules;
    for function in program.functions {
        resolved.add_function(function, false, &mut diagnostics);
    }
    Search::default().run(&mut resolved, options, world, &mut diagnostics);
    if !diagnostics.has_errors() {
        resolved.number_and_kinds(&mut diagnostics);
        if diagnostics.is_linting() {
            lint::program(&resolved, &mut diagnostics);
        }
    }
    if diagnostics.has_errors() {
        (Err(resolved.sources), diagnostics)
    } else {
        (Ok(resolved), diagnostics)
    }
}

impl Resolved {
    /// Applies what the loaded libraries mean to a tree; nothing to do for most programs.
    fn rewrite(
        &self,
        diagnostics: &mut Diagnostics,
        apply: impl FnOnce(&mut libraries::Rewrite<'_>),
    ) {
        if !self.libraries.is_empty() || self.intdiv.is_some() {
            apply(&mut libraries::Rewrite {
                names: &self.names,
                libraries: &self.libraries,
                intdiv: self.intdiv,
                diagnostics,
            });
        }
    }

    fn add_function(
        &mut self,
        mut function: Function,
        from_lookup: bool,
        diagnostics: &mut Diagnostics,
    ) {
        self.rewrite(diagnostics, |rewrite| rewrite.body(&mut function.body));
        let name = self.names.text(function.name).to_string();
        if libraries::function(&self.names, function.name, &self.libraries).is_some() {
            diagnostics.error(
                function.name_span,
                format!("`{name}` is a function of a loaded library, it cannot be redefined"),
            );
        }
        if self.dialect.special(&name).is_some() {
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
            } else if self.dialect.special(text).is_some() {
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
}
