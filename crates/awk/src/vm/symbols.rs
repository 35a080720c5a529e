//! Variables by name: SYMTAB, and PROCINFO as far as the machine looks into it.
//!
//! Invariant: only the names that the program, the command line (or the heap, for a program that mentions SYMTAB) has are
//! there; SYMTAB makes no variables.

use awk_syntax::names::Special;

use super::{NamedVariable, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::value::{ArrayRef, Value};

impl Vm<'_> {
    /// The variable that a name means, without a leading `awk::`.
    fn named(&self, name: &[u8]) -> Option<NamedVariable> {
        let plain = name.strip_prefix(b"awk::").unwrap_or(name);
        self.input.names.get(plain).copied()
    }

    /// A variable that only an assignment on the command line names.
    fn other(&mut self, name: &[u8]) -> Option<&mut Value> {
        let plain = name.strip_prefix(b"awk::").unwrap_or(name);
        let mut others = self.input.others.iter_mut();
        others.find_map(|(other, value)| (*other == plain).then_some(value))
    }

    fn no_symbol(name: &[u8]) -> Fatal {
        Fatal::new(format!(
            "SYMTAB: there is no variable `{}`; elements cannot be added to SYMTAB",
            String::from_utf8_lossy(name)
        ))
    }

    /// The value of the variable whose name is the key.
    pub(super) fn symbol(&mut self, name: &[u8]) -> Result<Value> {
        match self.named(name) {
            Some(NamedVariable::Global(n)) if !self.store.global_is_array(n) => {
                Ok(match &self.globals[n as usize] {
                    // What it is assigned to was assigned something.
                    Value::Uninit => Value::Unassigned,
                    value => value.clone(),
                })
            }
            Some(NamedVariable::Special(s)) if !s.is_array() => Ok(self.special(s)),
            Some(
                NamedVariable::Global(_) | NamedVariable::Array(_) | NamedVariable::Special(_),
            ) => Err(Fatal::new(format!(
                "attempt to use array `SYMTAB[\"{}\"]` in a scalar context",
                String::from_utf8_lossy(name)
            ))),
            Some(NamedVariable::Function) | None => {
                if let Some(value) = self.other(name) {
                    return Ok(value.clone());
                }
                match self.library_number(name) {
                    Some(n) => Ok(Value::Num(n)),
                    None => Err(Vm::no_symbol(name)),
                }
            }
        }
    }

    pub(super) fn set_symbol(&mut self, name: &[u8], value: Value) -> Result<()> {
        match self.named(name) {
            Some(NamedVariable::Global(n)) if !self.store.global_is_array(n) => {
                self.globals[n as usize] = value;
                Ok(())
            }
            Some(NamedVariable::Special(s)) if !s.is_array() => self.set_special(s, value),
            Some(
                NamedVariable::Global(_) | NamedVariable::Array(_) | NamedVariable::Special(_),
            ) => Err(Fatal::new(format!(
                "attempt to use array `SYMTAB[\"{}\"]` in a scalar context",
                String::from_utf8_lossy(name)
            ))),
            Some(NamedVariable::Function) | None => match self.other(name) {
                Some(place) => {
                    *place = value;
                    Ok(())
                }
                None => Err(Vm::no_symbol(name)),
            },
        }
    }

    pub(super) fn has_symbol(&mut self) -> bool {
        let name = self.key_bytes();
        if self.other(&name).is_some() {
            return true;
        }
        !matches!(
            self.named(&name),
            Some(NamedVariable::Function | NamedVariable::Special(Special::SYMTAB)) | None
        )
    }

    /// The array whose name is the key.
    pub(super) fn symbol_array(&mut self) -> Result<ArrayRef> {
        let name = self.key_bytes();
        match self.named(&name) {
            Some(NamedVariable::Array(n) | NamedVariable::Global(n)) => self.array(Arr(n)),
            Some(NamedVariable::Special(s)) if s.is_array() => self.array(Arr::special(s)),
            Some(NamedVariable::Special(_)) => Err(Fatal::new(format!(
                "attempt to use scalar `SYMTAB[\"{}\"]` as an array",
                String::from_utf8_lossy(&name)
            ))),
            Some(NamedVariable::Function) | None => Err(Vm::no_symbol(&name)),
        }
    }

    /// The variable whose name is the key as an argument: its value, or the array that it is.
    pub(super) fn pass_symbol(&mut self) -> Result<Value> {
        let name = self.key_bytes();
        match self.named(&name) {
            Some(NamedVariable::Array(n)) => Ok(Value::Array(self.array(Arr(n))?)),
            Some(NamedVariable::Global(n)) => match self.store.known_array(Arr(n)) {
                Some(array) => Ok(Value::Array(array)),
                None => Ok(self.globals[n as usize].clone()),
            },
            Some(NamedVariable::Special(s)) if s.is_array() => {
                Ok(Value::Array(self.array(Arr::special(s))?))
            }
            _ => self.symbol(&name),
        }
    }

    /// Every variable with its value, sorted by name.
    pub(super) fn symbols(&mut self) -> Result<Vec<(Vec<u8>, Value)>> {
        let names: Vec<(Vec<u8>, NamedVariable)> = self
            .input
            .names
            .iter()
            .filter(|(_, variable)| **variable != NamedVariable::Function)
            .map(|(name, variable)| (name.clone(), *variable))
            .collect();
        let mut out = self.input.others.clone();
        for (name, variable) in names {
            let value = match variable {
                NamedVariable::Global(n) | NamedVariable::Array(n) => {
                    match self.store.known_array(Arr(n)) {
                        Some(array) => Value::Array(array),
                        None if matches!(variable, NamedVariable::Array(_)) => {
                            Value::Array(self.array(Arr(n))?)
                        }
                        None => self.globals[n as usize].clone(),
                    }
                }
                // SYMTAB is not inside itself.
                NamedVariable::Special(Special::SYMTAB) | NamedVariable::Function => continue,
                NamedVariable::Special(s) if s.is_array() => {
                    Value::Array(self.array(Arr::special(s))?)
                }
                NamedVariable::Special(s) => self.special(s),
            };
            out.push((name, value));
        }
        out.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(out)
    }

    pub(super) fn begin_for_symbols(&mut self) -> Result<()> {
        let pairs = self.symbols()?;
        self.begin_for_keys(pairs)
    }

    /// A copy of SYMTAB as an array, for functions that take one. Arrays in it are copies too: what is stored in them does
    /// not reach the variables.
    pub(super) fn all_symbols(&mut self) -> Result<ArrayRef> {
        let made = self.array(Arr::special(Special::SYMTAB))?;
        self.clear(made)?;
        for (name, value) in self.symbols()? {
            match value {
                Value::Array(array) => {
                    let table = self.copy_array(array, made)?;
                    let slot = self.store.entry(made, &name)?;
                    let heap = self.store.heap_of(made)?;
                    heap.cell_set(slot, heap::Cell::Table(table))?;
                }
                value => {
                    let slot = self.store.entry(made, &name)?;
                    self.store.set(made, slot, &value)?;
                }
            }
        }
        Ok(made)
    }

    /// An element of PROCINFO, if the program mentions it.
    #[inline]
    pub(super) fn procinfo(&mut self, key: &[u8]) -> Result<Option<Value>> {
        if !self.code.uses(Special::PROCINFO) {
            return Ok(None);
        }
        let array = self.array(Arr::PROCINFO)?;
        match self.store.heap_of(array)?.find(array.table, key)? {
            Some(slot) => Ok(Some(self.store.get(array, slot)?)),
            None => Ok(None),
        }
    }

    /// Sets an element of PROCINFO, if the program mentions it.
    pub(super) fn set_procinfo(&mut self, key: &[u8], value: &Value) -> Result<()> {
        if !self.code.uses(Special::PROCINFO) {
            return Ok(());
        }
        let array = self.array(Arr::PROCINFO)?;
        let slot = self.store.entry(array, key)?;
        self.store.set(array, slot, value)
    }
}
