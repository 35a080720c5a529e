//! What a debugger sees of a run, and changes in it: frames, variables, the place.
//!
//! Invariant: looking makes nothing: an element or variable that is not there is not there afterwards either.

use awk_syntax::Span;

use super::{NamedVariable, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::value::{ArrayRef, Link, Value};

/// A call that is running; the outermost is the rules' own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    /// The function's number; `None` for rules.
    pub function: Option<u32>,
    base: usize,
    /// Where it is: the statement that runs, or the call.
    pub span: Span,
}

/// What a name means in a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    Local(usize),
    Named(NamedVariable),
}

impl Vm<'_> {
    /// How deep calls are nested.
    pub(crate) fn depth(&self) -> usize {
        self.frames.len()
    }

    /// All frames from the innermost on; `here` is the place of the innermost.
    pub(crate) fn views(&self, here: Span) -> Vec<View> {
        let of = |function: u32| (function != u32::MAX).then_some(function);
        let mut out = vec![View {
            function: of(self.function),
            base: self.base,
            span: here,
        }];
        for frame in self.frames.iter().rev() {
            let call = (frame.back() as usize).saturating_sub(1);
            out.push(View {
                function: of(frame.function()),
                base: frame.base() as usize,
                span: self.code.spans.get(call).copied().unwrap_or(here),
            });
        }
        out
    }

    fn meaning(&self, view: &View, name: &str) -> Option<Meaning> {
        if let Some(function) = view.function {
            let params = &self.code.functions[function as usize].params;
            if let Some(at) = params.iter().position(|param| param == name) {
                return Some(Meaning::Local(view.base + at));
            }
        }
        let variable = self.input.names.get(name.as_bytes())?;
        Some(Meaning::Named(*variable))
    }

    /// The value of a variable; an array for an array.
    ///
    /// # Errors
    /// There is no such variable.
    pub(crate) fn look_up(&mut self, view: &View, name: &str) -> Result<Value> {
        match self.meaning(view, name) {
            Some(Meaning::Local(at)) => {
                let value = self.vals.get(at).cloned().unwrap_or(Value::Uninit);
                self.settled(&value)
            }
            Some(Meaning::Named(NamedVariable::Global(n) | NamedVariable::Array(n))) => {
                match self.store.known_array(Arr(n)) {
                    Some(array) => Ok(Value::Array(array)),
                    None => Ok(self.globals[n as usize].clone()),
                }
            }
            Some(Meaning::Named(NamedVariable::Special(s))) if s.is_array() => {
                Ok(Value::Array(self.array(Arr::special(s))?))
            }
            Some(Meaning::Named(NamedVariable::Special(s))) => Ok(self.special(s)),
            Some(Meaning::Named(NamedVariable::Function)) | None => {
                Err(Fatal::new(format!("there is no variable `{name}` here")))
            }
        }
    }

    /// Assigns a scalar.
    ///
    /// # Errors
    /// There is no such variable, or it is an array.
    pub(crate) fn assign(&mut self, view: &View, name: &str, value: Value) -> Result<()> {
        if let Value::Array(_) = self.look_up(view, name)? {
            return Err(Fatal::new(format!("`{name}` is an array")));
        }
        match self.meaning(view, name) {
            Some(Meaning::Local(at)) => {
                if let Some(place) = self.vals.get_mut(at) {
                    *place = value;
                }
            }
            Some(Meaning::Named(NamedVariable::Global(n) | NamedVariable::Array(n))) => {
                self.globals[n as usize] = value;
            }
            Some(Meaning::Named(NamedVariable::Special(s))) => self.set_special(s, value)?,
            Some(Meaning::Named(NamedVariable::Function)) | None => {}
        }
        Ok(())
    }

    /// An array to store in; a variable that holds nothing becomes one.
    ///
    /// # Errors
    /// There is no such variable, or it is a scalar.
    pub(crate) fn array_named(&mut self, view: &View, name: &str) -> Result<ArrayRef> {
        match (self.look_up(view, name)?, self.meaning(view, name)) {
            (Value::Array(array), _) => Ok(array),
            (Value::Uninit, Some(Meaning::Local(at))) => {
                self.link_to_array(Link::Local(at as u32), u32::MAX)
            }
            (
                Value::Uninit,
                Some(Meaning::Named(NamedVariable::Array(n) | NamedVariable::Global(n))),
            ) => self.array(Arr(n)),
            _ => Err(Fatal::new(format!("`{name}` is no array"))),
        }
    }

    /// An element, if it is there.
    ///
    /// # Errors
    /// Trouble of the heap.
    pub(crate) fn peek_element(&mut self, array: ArrayRef, key: &[u8]) -> Result<Option<Value>> {
        let heap = self.store.heap_of(array)?;
        let Some(slot) = heap.find(array.table, key)? else {
            return Ok(None);
        };
        match crate::store::value_of(heap.cell(slot)?) {
            Ok(value) => Ok(Some(value)),
            Err(crate::store::NoValue::Array(table)) => Ok(Some(Value::Array(ArrayRef {
                table,
                scratch: array.scratch,
                owned: false,
            }))),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns from the innermost function with a value, at once.
    ///
    /// # Errors
    /// No function is running, or one that an instruction called.
    pub(crate) fn return_now(&mut self, value: Value) -> Result<()> {
        if self.nesting > 0 || self.frames.is_empty() {
            return Err(Fatal::new("there is no function to return from here"));
        }
        let back = self.leave_frame()?;
        self.vals.push(value);
        self.ip = back;
        Ok(())
    }
}
