//! `writea`, `reada`, `writeall`, `readall`: arrays in files.
//!
//! Invariant: a file is read whole and checked before anything is changed; a damaged or foreign one gives 0 and changes nothing.
//!
//! | offset | size | what |
//! |---|---|---|
//! | 0 | 16 | `pmawk array v1\n`, and what follows: `A` one array, `G` global variables |
//! | 16 | | an array: its number of elements (8 bytes, little-endian), then for each one its key and its value |
//! | | | a key: length (8 bytes), bytes |
//! | | | a value: a letter, and `N` a double (8 bytes), `S` a string, `T` a string from input, `R` a regular expression (as keys), `E` an exact number as in a heap (as keys), `B` a boolean (1 byte), `U` `V` nothing (written untyped, unassigned; read, both are unassigned), `A` an array |
//! | end - 8 | 8 | XXH3-64 of all before |

use std::rc::Rc;

use awk_syntax::Kind;
use awk_syntax::names::Special;
use heap::Cell;
use xxhash_rust::xxh3::xxh3_64;

use super::super::{NamedVariable, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::exact;
use crate::value::{ArrayRef, Value};

const MAGIC: &[u8] = b"pmawk array v1\n";
/// Arrays in arrays deeper than this are refused: reading them takes the stack of the process.
const DEPTH_MAX: usize = 500;

/// Keys and values in their order.
type Elements = Vec<(Vec<u8>, Stored)>;

/// A value as it lies in a file.
enum Stored {
    Value(Value),
    Array(Elements),
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (head, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*head))
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(text.to_vec())
    }

    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn array(&mut self, depth: usize) -> Option<Elements> {
        if depth > DEPTH_MAX {
            return None;
        }
        let count = self.number()?;
        let mut out = Vec::new();
        for _ in 0..count {
            let key = self.text()?;
            let value = self.value(depth)?;
            out.push((key, value));
        }
        Some(out)
    }

    fn value(&mut self, depth: usize) -> Option<Stored> {
        Some(Stored::Value(match self.byte()? {
            b'N' => Value::Num(f64::from_bits(self.number()?)),
            b'S' => Value::text(&self.text()?, false),
            b'T' => Value::text(&self.text()?, true),
            b'R' => Value::Regex(Rc::new(self.text()?)),
            b'E' => exact::text::stored_value(&self.text()?)?,
            b'B' => Value::Bool(self.byte()? != 0),
            b'U' | b'V' => Value::Unassigned,
            b'A' => return Some(Stored::Array(self.array(depth + 1)?)),
            _ => return None,
        }))
    }
}

fn put_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

/// The content of a file of that kind, if it is whole.
fn content(bytes: &[u8], kind: u8) -> Option<Elements> {
    let (body, sum) = bytes.split_last_chunk::<8>()?;
    let rest = body.strip_prefix(MAGIC)?.strip_prefix(&[kind])?;
    if xxh3_64(body) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut reader = Reader(rest);
    let array = reader.array(0)?;
    reader.0.is_empty().then_some(array)
}

impl Vm<'_> {
    /// `writea(file, array)`: 1, or 0 with ERRNO.
    pub(super) fn writea(&mut self, args: &[Value]) -> Result<Value> {
        let array = self.array_argument("writea", 2, args.get(1))?;
        let mut out = MAGIC.to_vec();
        out.push(b'A');
        self.encode_array(array, 0, &mut out)?;
        self.write_sealed(&args[0], out)
    }

    /// `reada(file, array)`: 1, or 0 with ERRNO.
    pub(super) fn reada(&mut self, args: &[Value]) -> Result<Value> {
        let array = self.array_argument("reada", 2, args.get(1))?;
        let Some(elements) = self.read_sealed(&args[0], b'A')? else {
            return Ok(Value::Num(0.0));
        };
        self.clear(array)?;
        self.decode_array(array, elements)?;
        Ok(Value::Num(1.0))
    }

    /// `writeall(file)`: all global variables of the program.
    pub(super) fn writeall(&mut self, file: &Value) -> Result<Value> {
        let mut globals = self.symbols()?;
        let is_own = |name: &[u8]| {
            let name = String::from_utf8_lossy(name).into_owned();
            Special::from_name(&name).is_none()
        };
        globals.retain(|(name, value)| is_own(name) && !matches!(value, Value::Uninit));
        let mut out = MAGIC.to_vec();
        out.push(b'G');
        out.extend_from_slice(&(globals.len() as u64).to_le_bytes());
        for (name, value) in globals {
            put_text(&name, &mut out);
            self.encode(&value, 0, &mut out)?;
        }
        self.write_sealed(file, out)
    }

    /// `readall(file)`: what has a value keeps it; variables that the program does not have are left out, and with a warning
    /// those that it uses as something else than the file holds.
    pub(super) fn readall(&mut self, file: &Value) -> Result<Value> {
        let Some(globals) = self.read_sealed(file, b'G')? else {
            return Ok(Value::Num(0.0));
        };
        for (name, stored) in globals {
            let n = match self.input.names.get(&name).copied() {
                Some(NamedVariable::Array(n) | NamedVariable::Global(n)) => n,
                Some(NamedVariable::Function) => {
                    self.warn_unset(&name, &stored, "a function");
                    continue;
                }
                Some(NamedVariable::Special(_)) | None => continue,
            };
            let held = self.store.known_array(Arr(n));
            let filled = match held {
                Some(array) => self.store.heap_of(array)?.table_len(array.table)? > 0,
                None => !matches!(self.globals[n as usize], Value::Uninit | Value::Unassigned),
            };
            if filled {
                continue;
            }
            let kind = match held {
                Some(_) => Kind::Array,
                None => self.code.global_kinds[n as usize],
            };
            match stored {
                // A heap would hold it against the program, and refuse it from then on.
                Stored::Array(_) if kind == Kind::Scalar => {
                    self.warn_unset(&name, &stored, "a scalar");
                }
                Stored::Value(_) if kind == Kind::Array => {
                    self.warn_unset(&name, &stored, "an array");
                }
                Stored::Array(elements) => {
                    self.globals[n as usize] = Value::Uninit;
                    let array = self.array(Arr(n))?;
                    self.decode_array(array, elements)?;
                }
                Stored::Value(value) => self.globals[n as usize] = value,
            }
        }
        Ok(Value::Num(1.0))
    }

    fn warn_unset(&mut self, name: &[u8], stored: &Stored, used_as: &str) {
        let held = match stored {
            Stored::Value(_) => "a scalar",
            Stored::Array(_) => "an array",
        };
        self.warn(&format!(
            "readall: unable to set `{}`: the file holds it as {held}, the program uses it as {used_as}",
            String::from_utf8_lossy(name)
        ));
    }

    fn write_sealed(&mut self, file: &Value, mut out: Vec<u8>) -> Result<Value> {
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        match std::fs::write(self.path_argument(file), out) {
            Ok(()) => Ok(Value::Num(1.0)),
            Err(error) => {
                self.failed(error)?;
                Ok(Value::Num(0.0))
            }
        }
    }

    fn read_sealed(&mut self, file: &Value, kind: u8) -> Result<Option<Elements>> {
        match std::fs::read(self.path_argument(file)) {
            Ok(bytes) => {
                let found = content(&bytes, kind);
                if found.is_none() {
                    self.failed(std::io::Error::other(
                        "the file was not written by this function, or is damaged",
                    ))?;
                }
                Ok(found)
            }
            Err(error) => {
                self.failed(error)?;
                Ok(None)
            }
        }
    }

    fn encode_array(&mut self, array: ArrayRef, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Fatal::new(format!(
                "arrays nested more than {DEPTH_MAX} deep cannot be written"
            )));
        }
        let pairs = self.pairs(array)?;
        out.extend_from_slice(&(pairs.len() as u64).to_le_bytes());
        for (key, value) in pairs {
            put_text(&key, out);
            self.encode(&value, depth, out)?;
        }
        Ok(())
    }

    fn encode(&mut self, value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<()> {
        match value {
            Value::Num(n) => {
                out.push(b'N');
                out.extend_from_slice(&n.to_bits().to_le_bytes());
            }
            Value::Small(_) | Value::Long(..) => {
                out.push(if value.maybe_num() { b'T' } else { b'S' });
                put_text(value.as_bytes().unwrap_or_default(), out);
            }
            Value::Regex(text) => {
                out.push(b'R');
                put_text(text, out);
            }
            Value::Bool(b) => out.extend_from_slice(&[b'B', u8::from(*b)]),
            Value::Exact(n) => {
                out.push(b'E');
                put_text(&exact::text::to_stored(n), out);
            }
            Value::Array(inner) => {
                out.push(b'A');
                self.encode_array(*inner, depth + 1, out)?;
            }
            Value::Uninit | Value::Link(_) => out.push(b'U'),
            Value::Unassigned => out.push(b'V'),
        }
        Ok(())
    }

    fn decode_array(&mut self, array: ArrayRef, elements: Elements) -> Result<()> {
        for (key, stored) in elements {
            let slot = self.store.entry(array, &key)?;
            match stored {
                Stored::Value(value) => self.store.set(array, slot, &value)?,
                Stored::Array(elements) => {
                    let heap = self.store.heap_of(array)?;
                    let table = heap.table_new()?;
                    heap.cell_set(slot, Cell::Table(table))?;
                    self.decode_array(ArrayRef { table, ..array }, elements)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_refused() {
        let mut out = MAGIC.to_vec();
        out.push(b'A');
        out.extend_from_slice(&1u64.to_le_bytes());
        put_text(b"key", &mut out);
        out.push(b'S');
        put_text(b"value", &mut out);
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        assert!(content(&out, b'A').is_some());
        assert!(content(&out, b'G').is_none());
        for at in 0..out.len() {
            let mut bad = out.clone();
            bad[at] ^= 1;
            assert!(content(&bad, b'A').is_none(), "byte {at}");
            assert!(content(&out[..at], b'A').is_none(), "cut at {at}");
        }
    }
}
