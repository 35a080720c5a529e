//! Commits and rollbacks in the middle of a run: `pm::commit()`, `pm::rollback()`, `--commit-every`.
//!
//! Invariant: what was printed before a commit is handed to the system before it, so that a run that is repeated after a crash
//! finds either both or only the output; after a rollback no variable refers to an array that is no more.

use awk_syntax::names::Builtin;

use super::Vm;
use crate::error::Step as Result;
use crate::value::{ArrayRef, Value};

impl Vm<'_> {
    /// `pm::commit()` gives 1 if there is a heap to commit to, else 0; `pm::rollback()` likewise.
    pub(super) fn transaction(&mut self, which: Builtin) -> Result<Value> {
        if which == Builtin::Rollback {
            self.not_nested("pm::rollback()")?;
        }
        let done = match which {
            Builtin::Commit => self.commit()?,
            _ => self.rollback()?,
        };
        Ok(Value::Num(f64::from(u8::from(done))))
    }

    /// Makes everything up to now the heap's committed state.
    ///
    /// # Errors
    /// An output that cannot be written, trouble of the heap; nothing is committed then.
    pub fn commit(&mut self) -> Result<bool> {
        if !self.store.main.is_persistent() || self.store.main.is_snapshot() {
            return Ok(false);
        }
        self.streams.flush_outputs();
        self.note_failures()?;
        if !self.inner_in_use() {
            self.store.bury()?;
        }
        self.save_positions()?;
        let others = self.input.others.clone();
        self.store
            .commit(self.program, &self.globals, &others, self.durability)?;
        Ok(true)
    }

    /// Goes back to the heap's committed state. Local variables and what is not in the heap stay.
    fn rollback(&mut self) -> Result<bool> {
        if !self.store.main.is_persistent() {
            return Ok(false);
        }
        self.store.forget_graves();
        self.globals = self.store.rollback(self.program)?;
        self.input.others.clear();
        self.handed.clear();
        // Arrays inside others may be gone: whoever holds one gets an empty array of his own.
        for at in 0..self.vals.len() {
            if let Some(array) = self.stale(&self.vals[at]) {
                self.vals[at] = Value::Array(ArrayRef {
                    owned: array.owned,
                    ..self.store.scratch_array(array.owned)?
                });
            }
        }
        for at in 0..self.arrays.len() {
            if !self.arrays[at].scratch && !self.store.is_global(self.arrays[at]) {
                self.arrays[at] = self.store.scratch_array(false)?;
            }
        }
        Ok(true)
    }

    /// An array of the main heap that is no global one.
    fn stale(&self, value: &Value) -> Option<ArrayRef> {
        match value {
            Value::Array(array) if !array.scratch && !self.store.is_global(*array) => Some(*array),
            _ => None,
        }
    }
}
