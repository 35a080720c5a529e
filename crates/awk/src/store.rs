//! Globals, arrays and functions over the heap.
//!
//! Two heaps: the main one, a file's or volatile, holds global arrays; the *scratch* heap, always volatile, holds what no
//! run keeps: local arrays, ENVIRON, ARGV. Both are the same code.
//!
//! Names in a heap file: root `awk.globals` maps the names of global variables to scalars or tables; root `awk.functions`
//! maps names of functions to the texts of their definitions.
//!
//! Invariants: built-in variables are never in `awk.globals`; a global scalar is written at commit only if it changed; an
//! array's table is made when it is first used.

use std::rc::Rc;

use awk_syntax::names::Special;
use awk_syntax::{Kind, Resolved};
use heap::{Cell, Durability, Heap, Slot, Table};

use crate::code::Arr;
use crate::error::{Error, Fatal, Step};
use crate::exact;
use crate::value::{ArrayRef, Value};

/// Root of the global variables.
pub const GLOBALS: &str = "awk.globals";
/// Root of the functions' texts.
pub const FUNCTIONS: &str = "awk.functions";

/// See the top of the file.
pub struct Store {
    /// The heap that may be a file.
    pub main: Heap,
    scratch: Option<Heap>,
    arrays: Vec<Option<ArrayRef>>,
    /// Special arrays by number, made when they are first used.
    specials: [Option<ArrayRef>; Special::ALL.len()],
    /// Arrays that were deleted while a function might hold them.
    graveyard: Vec<ArrayRef>,
    /// Global scalars that no heap keeps: those of libraries.
    kept_out: Vec<u32>,
    /// Values of global scalars as the heap held them when the run began.
    initial: Vec<Value>,
    /// The main heap's, for messages.
    name: String,
}

/// The text of a function that a heap keeps.
///
/// # Errors
/// Damage.
pub fn stored_function(heap: &Heap, name: &str) -> heap::Result<Option<Vec<u8>>> {
    let Some(table) = heap.root_find(FUNCTIONS)? else {
        return Ok(None);
    };
    let Some(slot) = heap.find(table, name.as_bytes())? else {
        return Ok(None);
    };
    Ok(match heap.cell(slot)? {
        Cell::Str { bytes, .. } => Some(bytes.to_vec()),
        _ => None,
    })
}

/// A name is a variable or a function, in the heap and the program alike.
fn refuse_other_meanings(heap: &Heap, heap_name: &str, program: &Resolved) -> Result<(), Error> {
    let clash = |span, name: &str, held: &str, used: &str| {
        let place = program.sources.place(span);
        Err(Error::Kind(format!(
            "{place}: heap \"{heap_name}\" holds \"{name}\" as {held}; this program uses it as {used}: choose another name, or \
                 remove what is there with \"perdure delete {heap_name} {name}\""
        )))
    };
    for global in &program.globals {
        let name = program.names.text(global.name);
        if stored_function(heap, name)?.is_some() {
            return clash(global.span, name, "a function", "a variable");
        }
    }
    let Some(globals) = heap.root_find(GLOBALS)? else {
        return Ok(());
    };
    for f in program.functions.iter().filter(|f| !f.from_lookup) {
        let name = program.names.text(f.function.name);
        if heap.find(globals, name.as_bytes())?.is_some() {
            return clash(f.function.name_span, name, "a variable", "a function");
        }
    }
    Ok(())
}

/// What a cell may hold instead of a value.
#[derive(Clone, Copy, Debug)]
pub enum NoValue {
    /// An array inside the array.
    Array(Table),
    /// Something that a later version has put there.
    Unknown,
}

impl std::convert::From<NoValue> for Fatal {
    #[cold]
    fn from(what: NoValue) -> Fatal {
        Fatal::new(match what {
            NoValue::Array(_) => {
                "attempt to use an array, which is an element of another, in a scalar context"
            }
            NoValue::Unknown => {
                "the heap holds a value of a kind that this version of pmawk does not know; use the version that wrote it"
            }
        })
    }
}

/// First bytes of the cells whose kind only AWK knows (docs/format.md).
mod kind {
    pub const REGEX: u8 = b'R';
    pub const BOOL: u8 = b'B';
    pub const UNASSIGNED: u8 = b'U';
    pub const INTEGER: u8 = b'I';
    pub const FLOAT: u8 = b'F';
}

/// A cell as a value.
///
/// # Errors
/// It holds none.
#[inline]
pub fn value_of(cell: Cell<'_>) -> Result<Value, NoValue> {
    Ok(match cell {
        Cell::Uninit => Value::Uninit,
        Cell::Num(n) => Value::Num(n),
        Cell::Str { bytes, maybe_num } => Value::text(bytes, maybe_num),
        Cell::Table(table) => return Err(NoValue::Array(table)),
        Cell::Other(bytes) => return other_value(bytes),
    })
}

#[cold]
fn other_value(bytes: &[u8]) -> Result<Value, NoValue> {
    match bytes {
        [kind::REGEX, text @ ..] => Ok(Value::Regex(Rc::new(text.to_vec()))),
        [kind::BOOL, truth @ (b'0' | b'1')] => Ok(Value::Bool(*truth == b'1')),
        [kind::UNASSIGNED] => Ok(Value::Unassigned),
        [kind::INTEGER | kind::FLOAT, ..] => {
            exact::text::stored_value(bytes).ok_or(NoValue::Unknown)
        }
        _ => Err(NoValue::Unknown),
    }
}

/// What is in a cell, as a number.
///
/// # Errors
/// It holds an array; trouble of the heap.
pub fn num_in(heap: &Heap, slot: Slot) -> Step<f64> {
    match heap.cell(slot)? {
        Cell::Str { bytes, .. } => Ok(crate::num::parse_prefix(bytes)),
        cell => Ok(value_of(cell)?.to_num()),
    }
}

/// Stores a value in a cell; an array is none.
///
/// # Errors
/// Trouble of the heap.
#[inline]
pub fn put(heap: &mut Heap, slot: Slot, value: &Value) -> heap::Result<()> {
    match value {
        Value::Num(n) => heap.cell_set(slot, Cell::Num(*n)),
        Value::Small(_) | Value::Long(..) => {
            let bytes = value.as_bytes().unwrap_or_default();
            let maybe_num = value.maybe_num();
            heap.cell_set(slot, Cell::Str { bytes, maybe_num })
        }
        _ => put_other(heap, slot, value),
    }
}

#[cold]
fn put_other(heap: &mut Heap, slot: Slot, value: &Value) -> heap::Result<()> {
    match value {
        Value::Bool(b) => heap.cell_set(slot, Cell::Other(&[kind::BOOL, b'0' + u8::from(*b)])),
        Value::Unassigned => heap.cell_set(slot, Cell::Other(&[kind::UNASSIGNED])),
        Value::Exact(n) => heap.cell_set(slot, Cell::Other(&exact::text::to_stored(n))),
        Value::Regex(text) => {
            let mut bytes = vec![kind::REGEX];
            bytes.extend_from_slice(text);
            heap.cell_set(slot, Cell::Other(&bytes))
        }
        _ => heap.cell_set(slot, Cell::Uninit),
    }
}

/// A global array.
fn main_array(table: Table) -> ArrayRef {
    ArrayRef {
        table,
        scratch: false,
        owned: false,
    }
}

/// The program's globals as the heap has them: values of scalars, tables of arrays.
fn read_globals(
    heap: &Heap,
    heap_name: &str,
    program: &Resolved,
) -> Result<(Vec<Value>, Vec<Option<ArrayRef>>), Error> {
    let mut values = vec![Value::Uninit; program.globals.len()];
    let mut arrays = vec![None; program.globals.len()];
    if !heap.is_persistent() {
        return Ok((values, arrays));
    }
    let Some(table) = heap.root_find(GLOBALS)? else {
        return Ok((values, arrays));
    };
    for (at, global) in program.globals.iter().enumerate() {
        let name = program.names.text(global.name);
        let Some(slot) = heap.find(table, name.as_bytes())? else {
            continue;
        };
        let clash = |held: &str, used: &str| {
            let place = program.sources.place(global.span);
            Err(Error::Kind(format!(
                "{place}: heap \"{heap_name}\" holds \"{name}\" as {held}; this program uses it as {used}: choose another name, or \
             remove what is there with \"perdure delete {heap_name} {name}\""
            )))
        };
        match (value_of(heap.cell(slot)?), global.kind) {
            (Err(NoValue::Array(_)), Kind::Scalar) => {
                return clash("an array", "a scalar");
            }
            (Err(NoValue::Array(table)), _) => arrays[at] = Some(main_array(table)),
            (Err(NoValue::Unknown), _) => {
                return clash(
                    "a value of a kind that this version does not know",
                    "a variable",
                );
            }
            (Ok(Value::Uninit | Value::Unassigned), Kind::Array) => {}
            (Ok(_), Kind::Array) => return clash("a scalar", "an array"),
            (Ok(value), _) => values[at] = value,
        }
    }
    Ok((values, arrays))
}

impl Store {
    /// Opens the program's globals in `heap`; gives them with their values.
    ///
    /// # Errors
    /// A variable that the heap holds as an array and the program uses as a scalar, or the reverse; damage. Nothing in
    /// the heap is changed then.
    pub fn open(
        heap: Heap,
        heap_name: &str,
        program: &Resolved,
    ) -> Result<(Store, Vec<Value>), Error> {
        if heap.is_persistent() {
            refuse_other_meanings(&heap, heap_name, program)?;
        }
        let (values, arrays) = read_globals(&heap, heap_name, program)?;
        let initial = values.clone();
        Ok((
            Store {
                main: heap,
                scratch: None,
                arrays,
                specials: [None; Special::ALL.len()],
                graveyard: Vec::new(),
                kept_out: Vec::new(),
                initial,
                name: heap_name.to_string(),
            },
            values,
        ))
    }

    /// Goes back to the heap's last commit and gives the values of global variables as they are there.
    ///
    /// # Errors
    /// Trouble of the heap.
    pub fn rollback(&mut self, program: &Resolved) -> Step<Vec<Value>> {
        self.main.abort()?;
        let (values, arrays) = read_globals(&self.main, &self.name, program)
            .map_err(|error| Fatal::new(error.to_string()))?;
        self.initial = values.clone();
        for (held, array) in self.arrays.iter_mut().zip(arrays) {
            if !held.is_some_and(|held| held.scratch) {
                *held = array;
            }
        }
        Ok(values)
    }

    /// Forgets arrays that wait to be freed: the heap is about to go back to a state in which they are something else.
    pub fn forget_graves(&mut self) {
        self.graveyard.retain(|array| array.scratch);
    }

    /// The scratch heap, made when it is first wanted.
    ///
    /// # Errors
    /// No memory.
    pub fn scratch(&mut self) -> Step<&mut Heap> {
        if self.scratch.is_none() {
            self.scratch = Some(Heap::volatile()?);
        }
        match &mut self.scratch {
            Some(heap) => Ok(heap),
            None => Err(Fatal::new("no scratch heap")),
        }
    }

    /// The heap that an array is in.
    ///
    /// # Errors
    /// None once the array exists.
    #[inline]
    pub fn heap_of(&mut self, array: ArrayRef) -> Step<&mut Heap> {
        if array.scratch {
            self.scratch()
        } else {
            Ok(&mut self.main)
        }
    }

    /// A new array in the scratch heap.
    ///
    /// # Errors
    /// No memory.
    pub fn scratch_array(&mut self, owned: bool) -> Step<ArrayRef> {
        let table = self.scratch()?.table_new()?;
        Ok(ArrayRef {
            table,
            scratch: true,
            owned,
        })
    }

    /// Refuses an assignment on the command line to what the heap holds as an array or function.
    ///
    /// # Errors
    /// That, or trouble of the heap.
    pub fn refuse_assignment(&self, name: &[u8]) -> Step<()> {
        if !self.main.is_persistent() {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(name);
        let held = if stored_function(&self.main, &shown)?.is_some() {
            "a function"
        } else {
            let globals = self.main.root_find(GLOBALS)?;
            let slot = match globals {
                Some(globals) => self.main.find(globals, name)?,
                None => None,
            };
            match slot {
                Some(slot) if matches!(self.main.cell(slot)?, Cell::Table(_)) => "an array",
                _ => return Ok(()),
            }
        };
        Err(Fatal::operand(format!(
            "heap \"{}\" holds \"{shown}\" as {held}; the command line uses it as a scalar",
            self.name
        )))
    }

    /// Whether global number `n` is an array already.
    pub fn global_is_array(&self, n: u32) -> bool {
        self.arrays[n as usize].is_some()
    }

    /// A global array that exists.
    #[inline]
    pub fn known_array(&self, array: Arr) -> Option<ArrayRef> {
        match self.arrays.get(array.0 as usize) {
            Some(array) => *array,
            None => None,
        }
    }

    /// Whether an array is a global one, which lives as long as the run.
    pub fn is_global(&self, array: ArrayRef) -> bool {
        let is_it = |other: &ArrayRef| other.table == array.table && other.scratch == array.scratch;
        self.specials
            .iter()
            .chain(&self.arrays)
            .flatten()
            .any(is_it)
    }

    /// A global array, or a special one; made if there is none yet.
    ///
    /// # Errors
    /// Trouble of the heap.
    #[inline]
    pub fn global_array(&mut self, array: Arr, names: &[String]) -> Step<ArrayRef> {
        match self.known_array(array) {
            Some(array) => Ok(array),
            None => self.make_global_array(array, names),
        }
    }

    #[cold]
    fn make_global_array(&mut self, array: Arr, names: &[String]) -> Step<ArrayRef> {
        if let Some(special) = array.as_special() {
            if let Some(held) = self.specials[special as usize] {
                return Ok(held);
            }
            let made = self.scratch_array(false)?;
            self.specials[special as usize] = Some(made);
            return Ok(made);
        }
        let table = self.main.table_new()?;
        if self.main.is_persistent() {
            let globals = self.main.root(GLOBALS)?;
            let slot = self
                .main
                .entry(globals, names[array.0 as usize].as_bytes())?;
            self.main.cell_set(slot, Cell::Table(table))?;
        }
        let made = main_array(table);
        self.arrays[array.0 as usize] = Some(made);
        Ok(made)
    }

    /// Frees a local array.
    ///
    /// # Errors
    /// Trouble of the heap.
    pub fn free_array(&mut self, array: ArrayRef) -> Step<()> {
        Ok(self.heap_of(array)?.table_free(array.table)?)
    }

    /// The cell under a key given as text, made if absent.
    ///
    /// # Errors
    /// Trouble of the heap.
    #[inline]
    pub fn entry(&mut self, array: ArrayRef, key: &[u8]) -> Step<Slot> {
        Ok(self.heap_of(array)?.entry(array.table, key)?)
    }

    /// The value in a cell.
    ///
    /// # Errors
    /// The cell holds an array.
    #[inline]
    pub fn get(&mut self, array: ArrayRef, slot: Slot) -> Step<Value> {
        Ok(value_of(self.heap_of(array)?.cell(slot)?)?)
    }

    /// The numeric value of a cell.
    ///
    /// # Errors
    /// The cell holds an array.
    #[inline]
    pub fn get_num(&mut self, array: ArrayRef, slot: Slot) -> Step<f64> {
        let heap = self.heap_of(array)?;
        match heap.cell_num(slot) {
            Some(n) => Ok(n),
            None => num_in(heap, slot),
        }
    }

    /// Stores a value in a cell.
    ///
    /// # Errors
    /// The cell holds an array; trouble of the heap.
    #[inline]
    pub fn set(&mut self, array: ArrayRef, slot: Slot, value: &Value) -> Step<()> {
        let heap = self.heap_of(array)?;
        if let Cell::Table(table) = heap.cell(slot)? {
            return Err(NoValue::Array(table).into());
        }
        Ok(put(heap, slot, value)?)
    }

    /// Stores a number in a cell.
    ///
    /// # Errors
    /// The cell holds an array; trouble of the heap.
    #[inline]
    pub fn set_num(&mut self, array: ArrayRef, slot: Slot, n: f64) -> Step<()> {
        if self.heap_of(array)?.cell_replace_num(slot, n)? {
            return Ok(());
        }
        self.set(array, slot, &Value::Num(n))
    }

    /// The array in a cell; a cell that holds nothing gets an empty one.
    ///
    /// # Errors
    /// The cell holds a scalar; trouble of the heap.
    pub fn inner(&mut self, outer: ArrayRef, slot: Slot) -> Step<ArrayRef> {
        let heap = self.heap_of(outer)?;
        let table = match heap.cell(slot)? {
            Cell::Table(table) => table,
            Cell::Uninit => {
                let table = heap.table_new()?;
                heap.cell_set(slot, Cell::Table(table))?;
                table
            }
            _ => {
                return Err(Fatal::new(
                    "attempt to use a scalar, which is an element of an array, as an array",
                ));
            }
        };
        Ok(ArrayRef {
            table,
            scratch: outer.scratch,
            owned: false,
        })
    }

    /// An empty array in a cell, whatever it held.
    ///
    /// # Errors
    /// Trouble of the heap.
    pub fn make_inner(&mut self, outer: ArrayRef, slot: Slot) -> Step<ArrayRef> {
        let heap = self.heap_of(outer)?;
        let table = heap.table_new()?;
        heap.cell_set(slot, Cell::Table(table))?;
        Ok(ArrayRef {
            table,
            scratch: outer.scratch,
            owned: false,
        })
    }

    /// Stores a value in a cell, whatever it held.
    ///
    /// # Errors
    /// Trouble of the heap.
    pub fn replace(&mut self, array: ArrayRef, slot: Slot, value: &Value) -> Step<()> {
        Ok(put(self.heap_of(array)?, slot, value)?)
    }

    /// Global scalar number `n` is a library's: no heap keeps it.
    pub fn keep_out(&mut self, n: u32) {
        self.kept_out.push(n);
    }

    /// Makes global number `n` an array that no heap keeps.
    ///
    /// # Errors
    /// No memory.
    pub fn make_transient(&mut self, n: u32) -> Step<()> {
        self.arrays[n as usize] = Some(self.scratch_array(false)?);
        Ok(())
    }

    /// Makes global number `n` an empty array that is no element of the heap's globals: for a process that commits nothing.
    ///
    /// # Errors
    /// No memory.
    pub fn make_apart(&mut self, n: u32) -> Step<()> {
        self.arrays[n as usize] = Some(main_array(self.main.table_new()?));
        Ok(())
    }

    /// Frees an array that left the array it was in; later, if a running function may still use it.
    ///
    /// # Errors
    /// Trouble of the heap.
    pub fn drop_inner(&mut self, array: ArrayRef, in_use: bool) -> Step<()> {
        if in_use {
            self.graveyard.push(array);
            return Ok(());
        }
        self.free_array(array)
    }

    /// An array that was dropped while it was in use is stored again.
    pub fn keep_after_all(&mut self, array: ArrayRef) {
        let is_it = |other: &ArrayRef| other.table == array.table && other.scratch == array.scratch;
        self.graveyard.retain(|other| !is_it(other));
    }

    /// Frees the arrays that `drop_inner` kept: no function is running that may use them.
    ///
    /// # Errors
    /// Trouble of the heap.
    #[inline]
    pub fn bury(&mut self) -> Step<()> {
        while let Some(array) = self.graveyard.pop() {
            self.free_array(array)?;
        }
        Ok(())
    }

    /// Writes changed scalars, functions, and `others` (assigned on the command line but not mentioned in the program), and
    /// commits, if the main heap is a file's.
    ///
    /// # Errors
    /// Trouble of the heap; nothing is committed then.
    pub fn commit(
        &mut self,
        program: &Resolved,
        values: &[Value],
        others: &[(Vec<u8>, Value)],
        durability: Durability,
    ) -> heap::Result<()> {
        if !self.main.is_persistent() || self.main.is_snapshot() {
            return Ok(());
        }
        for (at, (value, before)) in values.iter().zip(&self.initial).enumerate() {
            // To be looked at makes no variable.
            let is_nothing = |v: &Value| matches!(v, Value::Uninit | Value::Unassigned);
            let unset = is_nothing(value) && is_nothing(before);
            let kept_out = self.kept_out.contains(&(at as u32));
            if unset || kept_out || value.same(before) || self.arrays[at].is_some() {
                continue;
            }
            let globals = self.main.root(GLOBALS)?;
            let slot = self.main.entry(
                globals,
                program.names.text(program.globals[at].name).as_bytes(),
            )?;
            put(&mut self.main, slot, value)?;
        }
        for (name, value) in others {
            let globals = self.main.root(GLOBALS)?;
            let slot = self.main.entry(globals, name)?;
            put(&mut self.main, slot, value)?;
        }
        for (number, f) in program.functions.iter().enumerate() {
            if f.from_lookup {
                continue;
            }
            let name = program.names.text(f.function.name);
            let text = program.function_text(number as u32);
            if stored_function(&self.main, name)?.as_deref() != Some(&*text) {
                let functions = self.main.root(FUNCTIONS)?;
                let slot = self.main.entry(functions, name.as_bytes())?;
                self.main.cell_set(
                    slot,
                    Cell::Str {
                        bytes: &text,
                        maybe_num: false,
                    },
                )?;
            }
        }
        self.main.commit(durability)?;
        self.initial = values.to_vec();
        Ok(())
    }
}
