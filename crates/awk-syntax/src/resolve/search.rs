//! The search for functions and variables that are not in the program's text: those of a heap.
//!
//! Invariant: afterwards every function that the program calls by name has a number, or an error is noted.

use super::walk::{Walk, walk_body, walk_rule};
use super::{Global, Kind, Place, Resolved, libraries};
use crate::ast::{Expr, Function};
use crate::diagnostic::{Diagnostics, Lint};
use crate::dialect::Options;
use crate::names::{Special, Symbol};
use crate::parse::parse;
use crate::span::Span;
use crate::world::World;

/// The search for functions that are called but not defined, and those that these call, until all are there.
#[derive(Default)]
pub(super) struct Search {
    calls: Vec<(Symbol, Span)>,
    walked: usize,
    indirect: bool,
    functab: bool,
    symtab: bool,
}

impl Search {
    pub(super) fn run(
        mut self,
        resolved: &mut Resolved,
        options: &Options,
        world: &mut dyn World,
        diagnostics: &mut Diagnostics,
    ) {
        let mut all_added = false;
        for rule in &resolved.rules {
            walk_rule(&mut NameWalk::new(&mut self, resolved), rule);
        }
        loop {
            while self.walked < resolved.functions.len() {
                let body = &resolved.functions[self.walked].function.body;
                walk_body(&mut NameWalk::new(&mut self, resolved), body);
                self.walked += 1;
            }
            if let Some((name, span)) = self.calls.pop() {
                self.find(resolved, name, span, options, world, diagnostics);
            } else if (self.indirect || self.functab) && !all_added {
                all_added = true;
                for name in world.function_names() {
                    let name = resolved.names.intern(&name);
                    self.add_for_indirect(resolved, name, options, world, diagnostics);
                }
            } else {
                break;
            }
        }
        if self.symtab {
            resolved.add_globals(world.global_names());
        }
    }

    fn find(
        &mut self,
        resolved: &mut Resolved,
        name: Symbol,
        span: Span,
        options: &Options,
        world: &mut dyn World,
        diagnostics: &mut Diagnostics,
    ) {
        if resolved.function_numbers.contains_key(&name) {
            return;
        }
        let text = resolved.names.text(name).to_string();
        let Some(source) = world.function_text(&text) else {
            // Calling it is an error; a call that is not reached is none (gawk).
            diagnostics.lint(
                Lint::General,
                span,
                format!("function `{text}` is called but never defined"),
            );
            return;
        };
        // A heap's functions were linted, if at all, by the program that defined them.
        let mut found = Diagnostics::default();
        let function = resolved.read_stored(name, &text, source, options, world, &mut found);
        diagnostics.append(found);
        match function {
            Some(function) => resolved.add_function(function, true, diagnostics),
            None => diagnostics.error(
                span,
                format!("function `{text}`: its stored text does not define it"),
            ),
        }
    }

    /// Adds a stored function that a variable may name. One that cannot be read must not stop a program that may never
    /// call it.
    fn add_for_indirect(
        &mut self,
        resolved: &mut Resolved,
        name: Symbol,
        options: &Options,
        world: &mut dyn World,
        diagnostics: &mut Diagnostics,
    ) {
        let text = resolved.names.text(name).to_string();
        if resolved.function_numbers.contains_key(&name)
            || libraries::function(&resolved.names, name, &resolved.libraries).is_some()
        {
            return;
        }
        let Some(source) = world.function_text(&text) else {
            return;
        };
        let mut quiet = Diagnostics::default();
        let function = resolved.read_stored(name, &text, source, options, world, &mut quiet);
        let missing = function
            .as_ref()
            .and_then(|f| self.missing_call(resolved, f, world));
        let reason = match (
            &function,
            quiet.list().iter().find(|d| d.is_error()),
            missing,
        ) {
            (_, Some(error), _) => error.message.clone(),
            (None, ..) => "its stored text does not define it".into(),
            (Some(_), None, Some(call)) => format!("it calls `{call}`, which is not defined"),
            (Some(_), None, None) => String::new(),
        };
        match function {
            Some(function) if reason.is_empty() => {
                resolved.add_function(function, true, diagnostics);
            }
            _ => {
                let span = Span {
                    source: (resolved.sources.len() - 1) as u32,
                    ..Span::default()
                };
                diagnostics.warn(
                    span,
                    format!("stored function `{text}` is left out: {reason}"),
                );
            }
        }
    }

    /// A function that `function` calls and that is nowhere.
    fn missing_call(
        &self,
        resolved: &Resolved,
        function: &Function,
        world: &mut dyn World,
    ) -> Option<String> {
        let mut search = Search::default();
        walk_body(&mut NameWalk::new(&mut search, resolved), &function.body);
        let missing = search.calls.into_iter().find(|(name, _)| {
            *name != function.name
                && !resolved.function_numbers.contains_key(name)
                && libraries::function(&resolved.names, *name, &resolved.libraries).is_none()
                && world.function_text(resolved.names.text(*name)).is_none()
        })?;
        Some(resolved.names.text(missing.0).to_string())
    }
}

impl Resolved {
    /// The definition of `name` in its stored text.
    fn read_stored(
        &mut self,
        name: Symbol,
        text: &str,
        source: Vec<u8>,
        options: &Options,
        world: &mut dyn World,
        diagnostics: &mut Diagnostics,
    ) -> Option<Function> {
        let number = self.sources.add(format!("stored function {text}"), source);
        let program = parse(
            &mut self.sources,
            number,
            &mut self.names,
            options,
            world,
            diagnostics,
        );
        program.functions.into_iter().find(|f| f.name == name)
    }

    /// Makes the variables of a heap globals of the program, since `SYMTAB` may name each of them.
    fn add_globals(&mut self, list: Vec<(String, bool)>) {
        for (text, is_array) in list {
            let name = self.names.intern(&text);
            if self.function_numbers.contains_key(&name) || self.dialect.special(&text).is_some() {
                continue;
            }
            self.places
                .insert(name, Place::Global(self.globals.len() as u32));
            self.globals.push(Global {
                name,
                kind: if is_array { Kind::Array } else { Kind::Scalar },
                may_be_array: true,
                span: Span::default(),
            });
        }
    }
}

/// What the search wants to know of a body.
struct NameWalk<'a> {
    search: &'a mut Search,
    functab: Option<Symbol>,
    symtab: Option<Symbol>,
}

impl<'a> NameWalk<'a> {
    fn new(search: &'a mut Search, resolved: &Resolved) -> NameWalk<'a> {
        let find = |special: Special| {
            resolved.dialect.special(special.name())?;
            resolved.names.find(special.name())
        };
        NameWalk {
            search,
            functab: find(Special::FUNCTAB),
            symtab: find(Special::SYMTAB),
        }
    }
}

impl Walk for NameWalk<'_> {
    fn call(&mut self, name: Symbol, _args: &[Expr], span: Span) -> bool {
        self.search.calls.push((name, span));
        true
    }

    fn scalar(&mut self, name: Symbol, span: Span) {
        self.either(name, span);
    }

    fn array(&mut self, name: Symbol, span: Span) {
        self.either(name, span);
    }

    fn either(&mut self, name: Symbol, _span: Span) {
        self.search.functab |= self.functab == Some(name);
        self.search.symtab |= self.symtab == Some(name);
    }

    fn indirect(&mut self) {
        self.search.indirect = true;
    }
}
