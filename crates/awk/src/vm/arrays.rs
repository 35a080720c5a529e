//! Array instructions: keys, elements, loops over keys.

use heap::Slot;

use super::{Key, Keys, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::format::number_to_text;
use crate::value::{ArrayRef, Link, Value};

impl Keys {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// The next key as a string.
    pub(super) fn next(&mut self) -> Option<Value> {
        let end = *self.ends.get(self.at)?;
        let start = if self.at == 0 {
            0
        } else {
            self.ends[self.at - 1]
        };
        self.at += 1;
        Some(Value::text(&self.bytes[start..end], false))
    }
}

impl Vm<'_> {
    #[inline]
    pub(super) fn set_key_num(&mut self, n: f64) {
        let integer = n as i64;
        // Beyond 2^53 the text of the number decides; up to there integer and text are one to one.
        if integer as f64 == n && integer.unsigned_abs() <= 1 << 53 {
            self.key = Key::Int(integer);
        } else {
            self.key = Key::Text(self.text.len());
            number_to_text(n, &self.settings.convfmt, &mut self.text);
        }
    }

    #[inline]
    pub(super) fn set_key(&mut self, v: &Value) {
        match v {
            Value::Num(n) => self.set_key_num(*n),
            v => {
                self.key = Key::Text(self.text.len());
                v.append_to(&self.settings.convfmt, &mut self.text);
            }
        }
    }

    /// The array of an operand; a local that holds nothing becomes one.
    #[inline]
    pub(super) fn array(&mut self, array: Arr) -> Result<ArrayRef> {
        if array.0 & Arr::LOCAL == 0 {
            return self.store.global_array(array, &self.code.globals);
        }
        let n = array.0 & !Arr::LOCAL;
        let at = self.base + n as usize;
        match self.vals[at] {
            Value::Array(array) => Ok(array),
            Value::Uninit => {
                let array = self.store.scratch_array(true)?;
                self.vals[at] = Value::Array(array);
                Ok(array)
            }
            Value::Link(link) => {
                let array = self.link_to_array(link, n)?;
                self.vals[at] = Value::Array(array);
                Ok(array)
            }
            _ => Err(self.scalar_as_array(n)),
        }
    }

    #[cold]
    fn scalar_as_array(&self, n: u32) -> Fatal {
        Fatal::new(format!(
            "attempt to use scalar `{}` as an array",
            self.local_name(n)
        ))
    }

    /// Makes the variable at the end of a chain of links, which begins at local `n`, an array.
    fn link_to_array(&mut self, link: Link, n: u32) -> Result<ArrayRef> {
        let mut link = link;
        let mut passed = Vec::new();
        let array = loop {
            match link {
                Link::Global(n) => break self.store.global_array(Arr(n), &self.code.globals)?,
                Link::Local(at) => match self.vals[at as usize] {
                    Value::Link(next) => {
                        passed.push(at as usize);
                        link = next;
                    }
                    Value::Array(array) => break array,
                    Value::Uninit => {
                        let array = self.store.scratch_array(true)?;
                        self.vals[at as usize] = Value::Array(array);
                        break array;
                    }
                    // It has got a scalar since it was handed over.
                    _ => return Err(self.scalar_as_array(n)),
                },
            }
        };
        let array = ArrayRef {
            owned: false,
            ..array
        };
        for at in passed {
            self.vals[at] = Value::Array(array);
        }
        Ok(array)
    }

    pub(super) fn length_global(&mut self, n: u32) -> Result<f64> {
        if self.store.global_is_array(n) {
            let array = self.array(Arr(n))?;
            return Ok(self.store.heap_of(array)?.table_len(array.table)? as f64);
        }
        self.scratch.clear();
        self.globals[n as usize].append_to(&self.settings.convfmt, &mut self.scratch);
        Ok(crate::text::char_count(self.settings.charset, &self.scratch) as f64)
    }

    /// The cell under the key register, made if absent. The key is used up.
    #[inline]
    pub(super) fn entry(&mut self, array: Arr) -> Result<(ArrayRef, Slot)> {
        let array = self.array(array)?;
        let heap = self.store.heap_of(array)?;
        let slot = match self.key {
            Key::Int(n) => heap.entry_int(array.table, n)?,
            Key::Text(at) => {
                let slot = heap.entry(array.table, &self.text[at..])?;
                self.text.truncate(at);
                slot
            }
        };
        Ok((array, slot))
    }

    pub(super) fn contains(&mut self, array: Arr) -> Result<bool> {
        let array = self.array(array)?;
        let heap = self.store.heap_of(array)?;
        Ok(match self.key {
            Key::Int(n) => heap.find_int(array.table, n)?.is_some(),
            Key::Text(at) => {
                let found = heap.find(array.table, &self.text[at..])?.is_some();
                self.text.truncate(at);
                found
            }
        })
    }

    pub(super) fn delete(&mut self, array: Arr) -> Result<()> {
        let array = self.array(array)?;
        let at = match self.key {
            Key::Text(at) => at,
            Key::Int(n) => {
                let at = self.text.len();
                self.text
                    .extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
                at
            }
        };
        self.store
            .heap_of(array)?
            .remove(array.table, &self.text[at..])?;
        self.text.truncate(at);
        Ok(())
    }

    pub(super) fn append_cell(&mut self, array: ArrayRef, slot: Slot, out: bool) -> Result<()> {
        let format = if out {
            &self.settings.ofmt
        } else {
            &self.settings.convfmt
        };
        match self.store.heap_of(array)?.cell(slot)? {
            heap::Cell::Uninit => {}
            heap::Cell::Num(n) => number_to_text(n, format, &mut self.text),
            heap::Cell::Str { bytes, .. } => self.text.extend_from_slice(bytes),
            heap::Cell::Table(_) => {
                return Err(Fatal::new(
                    "the element is an array, here it is used as a scalar",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn begin_for(&mut self, array: Arr) -> Result<()> {
        let array = self.array(array)?;
        let mut keys = Keys::default();
        self.store
            .heap_of(array)?
            .for_each(array.table, &mut |key, _| {
                keys.push(key);
                Ok(())
            })?;
        self.iters.push(keys);
        Ok(())
    }

    pub(super) fn length_local(&mut self, n: u32) -> Result<f64> {
        let mut local = &self.vals[self.base + n as usize];
        // A callee may have made an array of the variable that both were handed.
        while let Value::Link(link) = local {
            match *link {
                Link::Local(at) => match &self.vals[at as usize] {
                    next @ (Value::Array(_) | Value::Link(_)) => local = next,
                    _ => return Ok(0.0),
                },
                Link::Global(global) if self.store.global_is_array(global) => {
                    return self.length_global(global);
                }
                Link::Global(_) => return Ok(0.0),
            }
        }
        match local {
            Value::Array(array) => {
                let array = *array;
                Ok(self.store.heap_of(array)?.table_len(array.table)? as f64)
            }
            v => {
                self.scratch.clear();
                v.append_to(&self.settings.convfmt, &mut self.scratch);
                Ok(crate::text::char_count(self.settings.charset, &self.scratch) as f64)
            }
        }
    }
}
