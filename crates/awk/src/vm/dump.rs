//! `--dump-variables`: every global variable with its final value.
//!
//! Invariant: the text is that of gawk's option of the same name: one variable per line, sorted by name, those of namespaces
//! behind the others.

use std::io::Write;

use super::Vm;
use crate::error::{Fatal, Step as Result, system_reason};
use crate::format::Format;
use crate::value::Value;

/// A string in quotes, as AWK could read it.
pub(crate) fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x0b => out.extend_from_slice(b"\\v"),
            b' '..0x7f => out.push(byte),
            other => out.extend_from_slice(format!("\\{other:03o}").as_bytes()),
        }
    }
    out.push(b'"');
}

impl Vm<'_> {
    /// Writes all variables.
    ///
    /// # Errors
    /// `out` cannot be written, trouble of the heap.
    pub fn dump_variables(&mut self, out: &mut dyn Write) -> Result<()> {
        let mut symbols = self.symbols()?;
        symbols.sort_by_key(|(name, _)| (name.contains(&b':'), name.clone()));
        let mut text = Vec::new();
        let exact = Format::parse_in(b"%.17g", self.settings.numbers);
        for (name, value) in symbols {
            text.extend_from_slice(&name);
            text.extend_from_slice(b": ");
            match &value {
                Value::Array(array) => {
                    let count = self.store.heap_of(*array)?.table_len(array.table)?;
                    text.extend_from_slice(format!("array, {count} elements").as_bytes());
                }
                Value::Uninit | Value::Link(_) => text.extend_from_slice(b"untyped variable"),
                Value::Unassigned => text.extend_from_slice(b"uninitialized scalar"),
                Value::Regex(regex) => {
                    text.extend_from_slice(b"@/");
                    text.extend_from_slice(regex);
                    text.push(b'/');
                }
                Value::Small(_) | Value::Long(..) => {
                    quoted(value.as_bytes().unwrap_or_default(), &mut text);
                }
                number => number.append_to(&exact, &mut text),
            }
            text.push(b'\n');
        }
        out.write_all(&text).map_err(|error| {
            Fatal::operand(format!("cannot write variables: {}", system_reason(&error)))
        })
    }
}
