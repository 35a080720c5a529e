//! Loops over arrays, and their order: `for (k in a)` with `PROCINFO["sorted_in"]`, `asort`, `asorti`.
//!
//! Invariant: keys are copied when a loop begins: what its body does to the array does not matter to it. Without an order an
//! array is walked in the order of insertion.
//!
//! Source: gawk manual, "Controlling Scanning" and "Sorting Array Values and Indices with gawk".

use std::cmp::Ordering;

use heap::{Cell, Table};

use super::{Keys, Vm};
use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::exact;
use crate::store::{NoValue, value_of};
use crate::text;
use crate::value::{ArrayRef, Value};

impl Keys {
    pub(super) fn push(&mut self, key: &[u8]) {
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

impl Keys {
    /// The same in the order of their bytes. No two are equal.
    fn sorted(&self, down: bool) -> Keys {
        // Most differ in their first bytes, which are compared as one number without going to the text.
        let mut at = 0;
        let mut places = Vec::with_capacity(self.ends.len());
        for &end in &self.ends {
            let key = &self.bytes[at..end];
            let mut head = [0; 8];
            let len = key.len().min(8);
            head[..len].copy_from_slice(&key[..len]);
            places.push((leading(head), at, end));
            at = end;
        }
        places.sort_unstable_by(|a, b| {
            let rest = || self.bytes[a.1..a.2].cmp(&self.bytes[b.1..b.2]);
            a.0.cmp(&b.0).then_with(rest)
        });
        if down {
            places.reverse();
        }
        let mut sorted = Keys {
            bytes: Vec::with_capacity(self.bytes.len()),
            ends: Vec::with_capacity(self.ends.len()),
            ..Keys::default()
        };
        for (_, from, to) in places {
            sorted.push(&self.bytes[from..to]);
        }
        sorted
    }
}

/// Bytes as a number that is in the order that they are in.
fn leading(bytes: [u8; 8]) -> u64 {
    bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
}

/// What elements are compared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    IndexText,
    IndexNumber,
    ValueType,
    ValueText,
    ValueNumber,
}

/// An order of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Order {
    None,
    By(By, bool),
    /// A function's number.
    Function(u32),
}

const ORDERS: [(&[u8], Order); 11] = [
    (b"@unsorted", Order::None),
    (b"@ind_str_asc", Order::By(By::IndexText, false)),
    (b"@ind_str_desc", Order::By(By::IndexText, true)),
    (b"@ind_num_asc", Order::By(By::IndexNumber, false)),
    (b"@ind_num_desc", Order::By(By::IndexNumber, true)),
    (b"@val_type_asc", Order::By(By::ValueType, false)),
    (b"@val_type_desc", Order::By(By::ValueType, true)),
    (b"@val_str_asc", Order::By(By::ValueText, false)),
    (b"@val_str_desc", Order::By(By::ValueText, true)),
    (b"@val_num_asc", Order::By(By::ValueNumber, false)),
    (b"@val_num_desc", Order::By(By::ValueNumber, true)),
];

/// An element on its way through a sort.
struct Element {
    key: Vec<u8>,
    /// `Array` for an array inside the array.
    value: Value,
    rank: u8,
    number: f64,
    /// As text, in small letters if case is ignored; so is `folded_key`, which otherwise is not needed.
    text: Vec<u8>,
    folded_key: Option<Vec<u8>>,
}

impl Element {
    /// A total order for each `by`.
    fn compare(&self, by: By, other: &Element) -> Ordering {
        let by_key = || match (&self.folded_key, &other.folded_key) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => self.key.cmp(&other.key),
        };
        let by_index = || match exact::rules() {
            None => number_order(self.number, other.number),
            Some(rules) => exact_order(
                &Value::text(&self.key, true),
                &Value::text(&other.key, true),
                rules,
            ),
        };
        let by_number = || match exact::rules() {
            None => number_order(self.number, other.number),
            Some(rules) => exact_order(&self.value, &other.value, rules),
        };
        let by_type = || {
            self.rank.cmp(&other.rank).then_with(|| match self.rank {
                1 => by_number(),
                2 => self.text.cmp(&other.text),
                _ => Ordering::Equal,
            })
        };
        match by {
            By::IndexText => by_key(),
            By::IndexNumber => by_index().then_with(by_key),
            By::ValueType => by_type().then_with(by_key),
            _ if self.rank == ARRAY || other.rank == ARRAY => by_type().then_with(by_key),
            By::ValueText => self.text.cmp(&other.text).then_with(by_key),
            By::ValueNumber => (self.rank > 0)
                .cmp(&(other.rank > 0))
                .then_with(by_number)
                .then_with(|| self.text.cmp(&other.text))
                .then_with(by_key),
        }
    }
}

/// Merge sort, stable; unlike the standard library's it takes any comparison, also one that fails or contradicts itself, as a
/// program's may.
fn merge_sort<T>(
    items: Vec<T>,
    less: &mut impl FnMut(&T, &T) -> Result<Ordering>,
) -> Result<Vec<T>> {
    let mut runs: Vec<Vec<T>> = items.into_iter().map(|item| vec![item]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            let Some(right) = pairs.next() else {
                merged.push(left);
                break;
            };
            let mut out = Vec::with_capacity(left.len() + right.len());
            let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
            while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                let take_right = less(a, b)? == Ordering::Greater;
                out.extend(if take_right {
                    right.next()
                } else {
                    left.next()
                });
            }
            out.extend(left);
            out.extend(right);
            merged.push(out);
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

/// The rank of an array.
const ARRAY: u8 = 3;

/// Nothing first, then numbers, strings, arrays (gawk manual, "@val_type_asc").
fn type_rank(value: &Value) -> u8 {
    match value {
        Value::Array(_) => ARRAY,
        Value::Uninit | Value::Unassigned => 0,
        Value::Small(_) | Value::Long(..) => {
            let bytes = value.as_bytes().unwrap_or_default();
            let numeric = value.maybe_num() && crate::num::looks_numeric(bytes).is_some();
            1 + u8::from(!numeric)
        }
        Value::Regex(_) => 2,
        _ => 1,
    }
}

/// NaN after all numbers, so that there is an order.
fn number_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// The same for exact numbers.
#[cold]
fn exact_order(a: &Value, b: &Value, rules: exact::Rules) -> Ordering {
    exact::compare_values(a, b, rules)
        .unwrap_or_else(|| a.to_num().is_nan().cmp(&b.to_num().is_nan()))
}

impl Vm<'_> {
    pub(super) fn begin_for(&mut self, array: Arr) -> Result<()> {
        let array = self.array(array)?;
        let order = self.loop_order()?;
        let mut keys = Keys::default();
        let by_key = match order {
            Order::By(By::IndexText, down) if self.settings.folded().is_none() => Some(down),
            _ => None,
        };
        if order == Order::None || by_key.is_some() {
            self.store
                .heap_of(array)?
                .for_each(array.table, &mut |key, _| {
                    keys.push(key);
                    Ok(())
                })?;
            if let Some(down) = by_key {
                keys = keys.sorted(down);
            }
        } else {
            let elements = self.elements(
                array,
                matches!(order, Order::By(By::IndexText | By::IndexNumber, _)),
            )?;
            for element in self.sorted(elements, order)? {
                keys.push(&element.key);
            }
        }
        self.iters.push(keys);
        Ok(())
    }

    /// Keys in the order of loops, for SYMTAB.
    pub(super) fn begin_for_keys(&mut self, pairs: Vec<(Vec<u8>, Value)>) -> Result<()> {
        let order = self.loop_order()?;
        let elements = pairs
            .into_iter()
            .map(|(key, value)| self.element(key, value));
        let elements = elements.collect();
        let mut keys = Keys::default();
        for element in self.sorted(elements, order)? {
            keys.push(&element.key);
        }
        self.iters.push(keys);
        Ok(())
    }

    /// `PROCINFO["sorted_in"]`.
    fn loop_order(&mut self) -> Result<Order> {
        match self.procinfo(b"sorted_in")? {
            Some(value) => {
                let name = self.settings.text_of(&value);
                self.order(&name)
            }
            None => Ok(Order::None),
        }
    }

    fn order(&self, name: &[u8]) -> Result<Order> {
        if let Some((_, order)) = ORDERS.iter().find(|(known, _)| *known == name) {
            return Ok(*order);
        }
        let shown = String::from_utf8_lossy(name);
        let plain = shown.strip_prefix("awk::").unwrap_or(&shown);
        match self.code.function_numbers.get(plain) {
            Some(&function) => Ok(Order::Function(function)),
            None if name.is_empty() => Ok(Order::None),
            None => Err(Fatal::new(format!(
                "sort comparison function `{shown}` is not defined"
            ))),
        }
    }

    fn element(&self, key: Vec<u8>, value: Value) -> Element {
        let folded = |text: &[u8]| {
            let charset = self.settings.folded()?;
            let mut small = Vec::new();
            text::to_lower(charset, text, &mut small);
            Some(small)
        };
        let text = match &value {
            Value::Array(_) => Vec::new(),
            value => self.settings.text_of(value),
        };
        Element {
            rank: type_rank(&value),
            number: value.to_num(),
            text: folded(&text).unwrap_or(text),
            folded_key: folded(&key),
            key,
            value,
        }
    }

    /// All elements of an array; without their values if only the keys matter.
    fn elements(&mut self, array: ArrayRef, keys_only: bool) -> Result<Vec<Element>> {
        let pairs = self.pairs_or_keys(array, keys_only)?;
        Ok(pairs
            .into_iter()
            .map(|(key, value)| self.element(key, value))
            .collect())
    }

    /// Keys and values of an array.
    pub(crate) fn pairs(&mut self, array: ArrayRef) -> Result<Vec<(Vec<u8>, Value)>> {
        self.pairs_or_keys(array, false)
    }

    fn pairs_or_keys(&mut self, array: ArrayRef, keys_only: bool) -> Result<Vec<(Vec<u8>, Value)>> {
        let mut pairs = Vec::new();
        let mut trouble = None;
        self.store
            .heap_of(array)?
            .for_each(array.table, &mut |key, cell| {
                let value = match value_of(if keys_only { Cell::Uninit } else { cell }) {
                    Ok(value) => value,
                    Err(NoValue::Array(table)) => Value::Array(ArrayRef {
                        table,
                        scratch: array.scratch,
                        owned: false,
                    }),
                    Err(error) => {
                        trouble.get_or_insert(error);
                        Value::Uninit
                    }
                };
                pairs.push((key.to_vec(), value));
                Ok(())
            })?;
        if let Some(error) = trouble {
            return Err(error.into());
        }
        Ok(pairs)
    }

    fn sorted(&mut self, mut elements: Vec<Element>, order: Order) -> Result<Vec<Element>> {
        match order {
            Order::None => Ok(elements),
            Order::By(by, down) => {
                if by == By::IndexNumber {
                    for element in &mut elements {
                        element.number = crate::num::parse_prefix(&element.key);
                    }
                }
                elements.sort_by(|a, b| {
                    let order = a.compare(by, b);
                    if down { order.reverse() } else { order }
                });
                Ok(elements)
            }
            Order::Function(function) => merge_sort(elements, &mut |a, b| {
                let args = [
                    Value::text(&a.key, false),
                    a.value.clone(),
                    Value::text(&b.key, false),
                    b.value.clone(),
                ];
                let result = self.call_function(function, &args)?.to_num();
                Ok(number_order(result, 0.0))
            }),
        }
    }

    /// `asort` and `asorti`: the arguments are the array, perhaps the array for the result, and perhaps the order.
    pub(super) fn asort(&mut self, args: &[Value], by_index: bool) -> Result<Value> {
        let name = if by_index { "asorti" } else { "asort" };
        let source = self.array_argument(name, 1, args.first())?;
        let target = match args.get(1) {
            Some(value) => self.array_argument(name, 2, Some(value))?,
            None => source,
        };
        let order = match args.get(2) {
            Some(value) => {
                let text = self.settings.text_of(value);
                self.order(&text)?
            }
            None if by_index => Order::By(By::IndexText, false),
            None => Order::By(By::ValueType, false),
        };
        let elements = self.elements(source, false)?;
        if self.is_inside(target, &elements)? {
            return Err(Fatal::new(format!(
                "`{name}`: the second argument is an array inside the first"
            )));
        }
        let elements = self.sorted(elements, order)?;
        let same = source.table == target.table && source.scratch == target.scratch;
        // Arrays inside the source are moved if it is to be overwritten, else copied; the rest of it is emptied either way.
        let mut results = Vec::with_capacity(elements.len());
        for element in elements {
            results.push(match element.value {
                _ if by_index => Ok(Value::text(&element.key, false)),
                Value::Array(inner) if same => {
                    self.store.keep_after_all(inner);
                    Err(inner.table)
                }
                Value::Array(inner) => Err(self.copy_array(inner, target)?),
                value => Ok(value),
            });
        }
        let moved: Vec<Table> = results
            .iter()
            .filter_map(|r| r.as_ref().err().copied())
            .collect();
        for table in self
            .store
            .heap_of(target)?
            .table_clear_outer(target.table)?
        {
            if !(same && moved.contains(&table)) {
                let in_use = self.nesting > 0 || !self.frames.is_empty();
                self.store
                    .drop_inner(ArrayRef { table, ..target }, in_use)?;
            }
        }
        let count = results.len();
        for (at, result) in results.into_iter().enumerate() {
            let heap = self.store.heap_of(target)?;
            let slot = heap.entry_int(target.table, at as i64 + 1)?;
            match result {
                Ok(value) => self.store.set(target, slot, &value)?,
                Err(table) => heap.cell_set(slot, Cell::Table(table))?,
            }
        }
        Ok(Value::Num(count as f64))
    }

    /// Whether an array is among the elements, or inside one that is.
    fn is_inside(&mut self, array: ArrayRef, elements: &[Element]) -> Result<bool> {
        for element in elements {
            if let Value::Array(inner) = element.value {
                let same = inner.table == array.table && inner.scratch == array.scratch;
                if same || {
                    let elements = self.elements(inner, false)?;
                    self.is_inside(array, &elements)?
                } {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A copy of an array, with everything in it, in the heap of another.
    pub(super) fn copy_array(&mut self, from: ArrayRef, beside: ArrayRef) -> Result<Table> {
        if from.scratch == beside.scratch {
            return Ok(self.store.heap_of(from)?.table_copy(from.table)?);
        }
        let to = ArrayRef {
            table: self.store.heap_of(beside)?.table_new()?,
            ..beside
        };
        for element in self.elements(from, false)? {
            match element.value {
                Value::Array(inner) => {
                    let copy = self.copy_array(inner, beside)?;
                    let slot = self.store.entry(to, &element.key)?;
                    self.store.heap_of(to)?.cell_set(slot, Cell::Table(copy))?;
                }
                value => {
                    let slot = self.store.entry(to, &element.key)?;
                    self.store.set(to, slot, &value)?;
                }
            }
        }
        Ok(to.table)
    }

    /// The array that an argument of a built-in function must be; a variable that holds nothing becomes one.
    pub(super) fn array_argument(
        &mut self,
        function: &str,
        at: usize,
        value: Option<&Value>,
    ) -> Result<ArrayRef> {
        match value {
            Some(Value::Array(array)) => Ok(*array),
            Some(Value::Link(link)) => self.link_to_array(*link, u32::MAX),
            _ => Err(Fatal::new(format!(
                "`{function}`: argument {at} is not an array"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_by_their_bytes() {
        let texts: [&[u8]; 9] = [
            b"",
            b"\0",
            b"abcdefgh",
            b"abcdefgh\0",
            b"abcdefghi",
            b"abcdefg",
            b"\xff",
            b"b",
            b"abcdefgz",
        ];
        let mut wanted = texts;
        wanted.sort_unstable();
        let mut keys = Keys::default();
        texts.iter().for_each(|text| keys.push(text));
        for down in [false, true] {
            let mut sorted = keys.sorted(down);
            let mut found = Vec::new();
            while let Some(key) = sorted.next() {
                found.push(key.as_bytes().unwrap().to_vec());
            }
            assert_eq!(found, wanted);
            wanted.reverse();
        }
    }

    #[test]
    fn any_comparison_is_taken() {
        let items: Vec<u32> = (0..100).map(|n| n * 37 % 101).collect();
        let sorted = merge_sort(items.clone(), &mut |a, b| Ok(a.cmp(b))).unwrap();
        assert!(sorted.is_sorted());
        for constant in [Ordering::Less, Ordering::Equal, Ordering::Greater] {
            let sorted = merge_sort(items.clone(), &mut |_, _| Ok(constant)).unwrap();
            assert_eq!(sorted.len(), items.len());
        }
        assert!(merge_sort(items, &mut |_, _| Err(Fatal::new("no"))).is_err());
    }
}
