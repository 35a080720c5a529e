//! `--json-lines`: each record of the main input is a JSON value, and an array holds it.
//!
//! Invariant: the array belongs to the record, like `$0`: it is filled before the rules run, and no heap keeps it.

use super::{NamedVariable, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::json::Json;
use crate::value::{ArrayRef, Value};

impl Vm<'_> {
    /// Says which array gets the records. A program that does not mention it does not need it.
    ///
    /// # Errors
    /// It is no array in the program; no memory.
    pub fn use_json(&mut self, name: &[u8]) -> Result<()> {
        self.json = match self.input.names.get(name) {
            Some(NamedVariable::Array(n) | NamedVariable::Global(n)) => Some(*n),
            Some(_) => {
                let shown = String::from_utf8_lossy(name);
                return Err(Fatal::operand(format!(
                    "--json-lines: `{shown}` cannot be an array in this program"
                )));
            }
            None => None,
        };
        match self.json {
            Some(n) => self.store.make_transient(n),
            None => Ok(()),
        }
    }

    /// Fills the array from `$0`. A record that is no JSON, or more than can be held, leaves it empty, with a warning.
    #[cold]
    pub(super) fn load_json(&mut self, array: u32) -> Result<()> {
        let array = self.array(Arr(array))?;
        self.clear(array)?;
        match Json::parse(self.record.whole(&self.settings)) {
            Ok(Json::Object(members)) => {
                for (name, value) in members {
                    self.store_json(array, name.as_bytes(), value)?;
                }
            }
            Ok(Json::Array(values)) => self.store_json_values(array, values)?,
            Ok(value) => self.store_json(array, b"1", value)?,
            Err(what) => {
                let file = self.settings.get(awk_syntax::names::Special::FILENAME);
                let file = String::from_utf8_lossy(&self.settings.text_of(&file)).into_owned();
                let record = self.settings.fnr;
                (self.input.warn)(format!("warning: record {record} of {file:?} {what}"));
            }
        }
        Ok(())
    }

    fn store_json_values(&mut self, array: ArrayRef, values: Vec<Json>) -> Result<()> {
        for (at, value) in values.into_iter().enumerate() {
            self.store_json(array, (at + 1).to_string().as_bytes(), value)?;
        }
        Ok(())
    }

    /// The recursion is as deep as the text is nested, which the parser bounds.
    fn store_json(&mut self, array: ArrayRef, key: &[u8], value: Json) -> Result<()> {
        let slot = self.store.entry(array, key)?;
        let scalar = match value {
            Json::Null => Value::Unassigned,
            Json::Bool(b) => Value::Bool(b),
            Json::Number(n) => Value::Num(n),
            Json::Text(text) => Value::text(text.as_bytes(), false),
            Json::Array(values) => {
                let inner = self.store.make_inner(array, slot)?;
                return self.store_json_values(inner, values);
            }
            Json::Object(members) => {
                let inner = self.store.make_inner(array, slot)?;
                for (name, value) in members {
                    self.store_json(inner, name.as_bytes(), value)?;
                }
                return Ok(());
            }
        };
        self.store.replace(array, slot, &scalar)
    }
}
