//! Array instructions: keys, elements, arrays inside arrays, variables that are handed over and become arrays.

use heap::{Cell, Slot};

use super::{Key, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::format::number_to_text;
use crate::record::Field;
use crate::store::{NoValue, value_of};
use crate::value::{ArrayRef, Link, Value};

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

    #[inline]
    pub(super) fn set_key_field(&mut self, n: usize) {
        self.key = Key::Text(self.text.len());
        self.append_field(n, false);
    }

    /// The cell of an array at a field as the key, made if absent.
    #[inline]
    pub(super) fn entry_by_field(&mut self, array: ArrayRef, field: u32) -> Result<Slot> {
        match self.record.get(field as usize, &self.settings) {
            Field::Text(key) | Field::Str(key) => {
                Ok(self.store.heap_of(array)?.entry(array.table, key)?)
            }
            other => {
                self.scratch.clear();
                if let Field::Value(v) = other {
                    v.append_to(&self.settings.convfmt, &mut self.scratch);
                }
                self.store.entry(array, &self.scratch)
            }
        }
    }

    /// The array of an operand; a local that holds nothing becomes one.
    #[inline]
    pub(super) fn array(&mut self, array: Arr) -> Result<ArrayRef> {
        if array.0 & Arr::LOCAL == 0 {
            return match self.store.known_array(array) {
                Some(array) => Ok(array),
                None => self.other_array(array),
            };
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

    /// The array on top of the stack of arrays, or a global one that is not there yet.
    fn other_array(&mut self, array: Arr) -> Result<ArrayRef> {
        if array == Arr::TOP {
            return self
                .arrays
                .pop()
                .ok_or_else(|| Fatal::new("no array on the stack of arrays"));
        }
        if let Some(v) = self.globals.get(array.0 as usize)
            && !matches!(v, Value::Uninit)
        {
            let name = &self.code.globals[array.0 as usize];
            return Err(Fatal::new(format!(
                "attempt to use scalar `{name}` as an array"
            )));
        }
        self.store.global_array(array, &self.code.globals)
    }

    /// The array in the element under the key register.
    pub(super) fn sub_array(&mut self, array: Arr) -> Result<ArrayRef> {
        let (outer, slot) = self.entry(array)?;
        self.store.inner(outer, slot)
    }

    /// The same if it is there.
    pub(super) fn find_array(&mut self, array: Arr) -> Result<Option<ArrayRef>> {
        let outer = self.array(array)?;
        let key = self.key_bytes();
        match self.store.heap_of(outer)?.find(outer.table, &key)? {
            Some(slot) => self.store.inner(outer, slot).map(Some),
            None => Ok(None),
        }
    }

    /// The element under the key register as an argument: its value, the array that it is, or itself if it holds nothing.
    pub(super) fn pass_element(&mut self, array: Arr) -> Result<Value> {
        let array = self.array(array)?;
        let heap = self.store.heap_of(array)?;
        let slot = match self.key {
            Key::Int(n) => heap.entry_int(array.table, n)?,
            Key::Text(at) => heap.entry(array.table, &self.text[at..])?,
        };
        let value = value_of(heap.cell(slot)?);
        if let (Key::Text(at), false) = (self.key, matches!(value, Ok(Value::Uninit))) {
            self.text.truncate(at);
        }
        match value {
            Ok(Value::Uninit) => {
                let key = self.key_bytes().into_boxed_slice();
                self.handed.push((array, key));
                Ok(Value::Link(Link::Elem(self.handed.len() as u32 - 1)))
            }
            Ok(value) => Ok(value),
            Err(NoValue::Array(table)) => Ok(Value::Array(ArrayRef {
                table,
                scratch: array.scratch,
                owned: false,
            })),
            Err(error) => Err(error.into()),
        }
    }

    /// The key register as text, used up.
    pub(super) fn key_bytes(&mut self) -> Vec<u8> {
        match self.key {
            Key::Int(n) => itoa::Buffer::new().format(n).as_bytes().to_vec(),
            Key::Text(at) => self.text.split_off(at),
        }
    }

    /// A variable that holds nothing is read: from now on it is a scalar.
    #[cold]
    pub(super) fn global_array_as_scalar(&self, n: u32) -> Fatal {
        let name = &self.code.globals[n as usize];
        Fatal::new(format!("attempt to use array `{name}` in a scalar context"))
    }

    #[cold]
    pub(super) fn touch_global(&mut self, n: u32) -> Result<Value> {
        if self.store.global_is_array(n) {
            return Err(self.global_array_as_scalar(n));
        }
        self.globals[n as usize] = Value::Unassigned;
        if self.settings.lint {
            let name = &self.code.globals[n as usize];
            self.lint(&format!("reference to uninitialized variable `{name}`"))?;
        }
        Ok(Value::Unassigned)
    }

    /// The same for a local.
    #[cold]
    pub(super) fn touch_local(&mut self, n: u32) -> Result<Value> {
        let at = self.base + n as usize;
        if let Value::Link(link) = self.vals[at]
            && self.linked_array(link)?.is_some()
        {
            return Err(self.array_as_scalar(n));
        }
        match self.vals[at] {
            Value::Link(link) => {
                self.touch_linked(link)?;
                self.vals[at] = Value::Unassigned;
            }
            _ => self.vals[at] = Value::Unassigned,
        }
        if self.settings.lint {
            let name = self.local_name(n);
            self.lint(&format!("reference to uninitialized argument `{name}`"))?;
        }
        Ok(Value::Unassigned)
    }

    /// The variable that was handed over is used as a scalar: from now on it is one, also where it came from.
    #[cold]
    pub(super) fn touch_linked(&mut self, link: Link) -> Result<()> {
        let mut link = link;
        loop {
            match link {
                Link::Global(n) => {
                    if matches!(self.globals[n as usize], Value::Uninit) {
                        self.globals[n as usize] = Value::Unassigned;
                    }
                    return Ok(());
                }
                Link::Local(at) => match self.vals[at as usize] {
                    Value::Link(next) => link = next,
                    Value::Uninit => {
                        self.vals[at as usize] = Value::Unassigned;
                        return Ok(());
                    }
                    _ => return Ok(()),
                },
                Link::Elem(at) => {
                    let (array, key) = self.handed[at as usize].clone();
                    let heap = self.store.heap_of(array)?;
                    if let Some(slot) = heap.find(array.table, &key)?
                        && matches!(heap.cell(slot)?, Cell::Uninit)
                    {
                        self.store.set(array, slot, &Value::Unassigned)?;
                    }
                    return Ok(());
                }
            }
        }
    }

    /// The array that the variable at the end of a chain of links has become, if it has.
    pub(super) fn linked_array(&mut self, link: Link) -> Result<Option<ArrayRef>> {
        let mut link = link;
        loop {
            match link {
                Link::Global(n) => return Ok(self.store.known_array(Arr(n))),
                Link::Elem(at) => {
                    let (array, key) = &self.handed[at as usize];
                    let (array, heap) = (*array, self.store.heap_of(*array)?);
                    let Some(slot) = heap.find(array.table, key)? else {
                        return Ok(None);
                    };
                    return Ok(match heap.cell(slot)? {
                        Cell::Table(table) => Some(ArrayRef {
                            table,
                            scratch: array.scratch,
                            owned: false,
                        }),
                        _ => None,
                    });
                }
                Link::Local(at) => match self.vals[at as usize] {
                    Value::Array(array) => return Ok(Some(array)),
                    Value::Link(next) => link = next,
                    _ => return Ok(None),
                },
            }
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
    pub(super) fn link_to_array(&mut self, link: Link, n: u32) -> Result<ArrayRef> {
        let mut link = link;
        let mut passed = Vec::new();
        let array = loop {
            match link {
                Link::Global(n) => break self.other_array(Arr(n))?,
                Link::Elem(at) => {
                    let (array, key) = self.handed[at as usize].clone();
                    let slot = self.store.entry(array, &key)?;
                    break self.store.inner(array, slot)?;
                }
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

    /// The same in the body of a loop over an array, where the elements of several may be asked for in one order.
    fn entry_in_loop(&mut self, array: Arr) -> Result<(ArrayRef, Slot)> {
        let Key::Text(at) = self.key else {
            return self.entry(array);
        };
        let array = self.array(array)?;
        let heap = self.store.heap_of(array)?;
        let slot = heap.entry_in_sequence(array.table, &self.text[at..])?;
        self.text.truncate(at);
        Ok((array, slot))
    }

    /// The same for an element that is read.
    #[inline]
    pub(super) fn element_read(&mut self, operand: Arr) -> Result<(ArrayRef, Slot)> {
        let (array, slot) = if self.iters.is_empty() {
            self.entry(operand)?
        } else {
            self.entry_in_loop(operand)?
        };
        if self.settings.lint && matches!(self.store.get(array, slot), Ok(Value::Uninit)) {
            self.lint_element(operand)?;
        }
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
        if self.settings.lint
            && self
                .store
                .heap_of(array)?
                .find(array.table, &self.text[at..])?
                .is_none()
        {
            let key = String::from_utf8_lossy(&self.text[at..]).into_owned();
            self.lint(&format!("delete: there is no index `{key}` in the array"))?;
        }
        let text = std::mem::take(&mut self.text);
        let removed = self.remove_element(array, &text[at..]);
        self.text = text;
        self.text.truncate(at);
        removed
    }

    /// Takes an element out, if it is there; an array in it goes when nobody uses it any more.
    pub(super) fn remove_element(&mut self, array: ArrayRef, key: &[u8]) -> Result<()> {
        let in_use = self.inner_in_use();
        let heap = self.store.heap_of(array)?;
        let slot = if in_use {
            heap.find(array.table, key)?
        } else {
            None
        };
        let inner = match slot {
            Some(slot) => heap.cell_take_table(slot)?,
            None => None,
        };
        heap.remove(array.table, key)?;
        match inner {
            Some(table) => self.store.drop_inner(ArrayRef { table, ..array }, true),
            None => Ok(()),
        }
    }

    /// Empties an array.
    pub(super) fn clear(&mut self, array: ArrayRef) -> Result<()> {
        if !self.inner_in_use() {
            return Ok(self.store.heap_of(array)?.table_clear(array.table)?);
        }
        for table in self.store.heap_of(array)?.table_clear_outer(array.table)? {
            self.store.drop_inner(ArrayRef { table, ..array }, true)?;
        }
        Ok(())
    }

    /// Whether a running function or an unfinished expression holds an array that is inside another.
    pub(super) fn inner_in_use(&self) -> bool {
        // A function that an instruction calls may delete what the instruction is at work on.
        if !self.arrays.is_empty() || !self.handed.is_empty() || self.nesting > 0 {
            return true;
        }
        if self.frames.is_empty() {
            return false;
        }
        self.vals.iter().any(|v| match v {
            Value::Array(array) => !array.owned && !self.store.is_global(*array),
            _ => false,
        })
    }

    pub(super) fn append_cell(&mut self, array: ArrayRef, slot: Slot, out: bool) -> Result<()> {
        let format = self.settings.number_format(out);
        match self.store.heap_of(array)?.cell(slot)? {
            Cell::Num(n) => number_to_text(n, format, &mut self.text),
            Cell::Str { bytes, .. } => self.text.extend_from_slice(bytes),
            cell => value_of(cell)?.append_to(format, &mut self.text),
        }
        Ok(())
    }
}
