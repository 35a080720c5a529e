//! What native code calls: the machine's own functions, with C's calling convention.
//!
//! Nothing here is unsafe: native code is handed the context as the reference that it is, and hands it back. A function that
//! fails says so in the context, which native code looks at after each call that may fail; a panic cannot cross native
//! code and ends the process.

use awk_syntax::ast::ArithOp;
use awk_syntax::names::Special;

use super::plan::{HELD_MAX, VARIABLES_MAX, Variable};
use crate::code::{Arr, NumFn};
use crate::error::Fatal;
use crate::store::value_of;
use crate::value::Value;
use crate::vm::{Key, Vm, arith, field_number};

/// Native code returns the number of the instruction where the machine goes on, or
pub(super) const FAILED: i64 = -1;
/// this, less the number, if the machine's state is up to date already.
pub(super) const SETTLED: i64 = -2;

/// A key that is a number, an empty one, the machine's key register, or
pub(super) const KEY_EMPTY: i64 = 0;
pub(super) const KEY_NUMBER: i64 = 1;
pub(super) const KEY_REGISTER: i64 = 2;
/// The text of the field with the number.
pub(super) const KEY_FIELD: i64 = 3;

/// What [`element_value`] found.
pub(super) const UNASSIGNED: u8 = 0;
pub(super) const NUMBER: u8 = 1;
pub(super) const OTHER: u8 = 2;

/// What native code knows of its surroundings. Its fields up to `vm` are read and written by native code.
#[repr(C)]
pub(super) struct Context<'a, 'p> {
    /// Variables of the unit: their numbers, and whether they are assigned.
    pub(super) slots: [f64; VARIABLES_MAX],
    pub(super) set: [u8; VARIABLES_MAX],
    /// Held operands on their way to the machine's stacks.
    pub(super) nums: [f64; HELD_MAX as usize],
    pub(super) vals: [f64; HELD_MAX as usize],
    pub(super) vals_set: [u8; HELD_MAX as usize],
    pub(super) nums_count: u32,
    pub(super) vals_count: u32,
    /// Something failed: `fatal`.
    pub(super) failed: u32,
    /// The instruction that did.
    pub(super) failed_at: u32,
    /// What [`element_value`] found.
    pub(super) found: u8,
    /// Below this address the stack is not to grow.
    pub(super) stack_floor: usize,
    /// Where functions begin, by number.
    pub(super) functions: *const usize,
    pub(super) vm: &'a mut Vm<'p>,
    pub(super) fatal: Option<Fatal>,
    /// The unit's variables and which are assigned.
    pub(super) variables: &'a [Variable],
    pub(super) assigned: &'a [bool],
    /// Those that have to be assigned.
    pub(super) certain: &'a [bool],
    /// The variable that did not fit.
    pub(super) misfit: Option<usize>,
}

impl Context<'_, '_> {
    #[cold]
    fn fail(&mut self, fatal: Fatal) {
        self.failed = 1;
        self.fatal = Some(fatal);
    }

    fn done<T: Default>(&mut self, result: Result<T, Fatal>) -> T {
        match result {
            Ok(value) => value,
            Err(fatal) => {
                self.fail(fatal);
                T::default()
            }
        }
    }

    #[inline]
    fn set_key(&mut self, key: f64, kind: i64) {
        match kind {
            KEY_NUMBER => self.vm.set_key_num(key),
            KEY_EMPTY => self.vm.key = Key::Text(self.vm.text.len()),
            KEY_FIELD => match field_number(key) {
                Ok(n) => self.vm.set_key_field(n),
                Err(fatal) => {
                    self.vm.key = Key::Text(self.vm.text.len());
                    self.fail(fatal);
                }
            },
            _ => {}
        }
    }

    /// The held operands to the machine's stacks.
    fn write_held(&mut self) {
        let nums = self.nums_count as usize;
        self.vm.nums.extend_from_slice(&self.nums[..nums]);
        for at in 0..self.vals_count as usize {
            let value = as_value(self.vals[at], self.vals_set[at]);
            self.vm.vals.push(value);
        }
    }

    /// The held operands to the machine's stacks, the assigned variables to where they belong.
    pub(super) fn write_back(&mut self) {
        self.write_held();
        for (at, variable) in self.variables.iter().enumerate() {
            if !self.assigned[at] {
                continue;
            }
            let value = as_value(self.slots[at], self.set[at]);
            match *variable {
                Variable::Global(n) => self.vm.globals[n as usize] = value,
                Variable::Local(n) => {
                    let at = self.vm.base + n as usize;
                    self.vm.vals[at] = value;
                }
            }
        }
    }

    /// The variables from where they belong; false if one is no number.
    pub(super) fn read(&mut self) -> bool {
        for (at, variable) in self.variables.iter().enumerate() {
            let value = match *variable {
                Variable::Global(n) => &self.vm.globals[n as usize],
                Variable::Local(n) => &self.vm.vals[self.vm.base + n as usize],
            };
            (self.slots[at], self.set[at]) = match value {
                Value::Num(n) => (*n, 1),
                Value::Unassigned if !self.certain[at] => (0.0, 0),
                value => match whole_text(value) {
                    // Whatever is done with it, it cannot be told from the number.
                    Some(n) if !self.assigned[at] => (n, 1),
                    _ => {
                        self.misfit = Some(at);
                        return false;
                    }
                },
            };
        }
        true
    }
}

fn as_value(n: f64, set: u8) -> Value {
    if set == 0 {
        Value::Unassigned
    } else {
        Value::Num(n)
    }
}

/// The number of input text that is written as the number would be.
fn whole_text(value: &Value) -> Option<f64> {
    let text = value.as_bytes().filter(|_| value.maybe_num())?;
    if text.is_empty() || text.len() > 15 {
        return None;
    }
    // By hand: it is asked again after each stretch that the machine runs.
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits[0] == b'0' && text.len() > 1 {
        return None;
    }
    let mut n = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        n = n * 10 + i64::from(digit - b'0');
    }
    Some(if digits.len() < text.len() { -n } else { n } as f64)
}

/// The machine runs from `at` on until it leaves `[from, to)`, or the frame.
pub(super) extern "C" fn stretch(c: &mut Context<'_, '_>, at: u32, from: u32, to: u32) -> i64 {
    c.write_back();
    let depth = c.vm.frames.len();
    c.vm.ip = at as usize;
    if let Err(fatal) = c.vm.execute_within(from as usize..to as usize, depth) {
        c.failed_at = c.vm.position() as u32;
        c.fail(fatal);
        return FAILED;
    }
    let ip = c.vm.ip as i64;
    if c.vm.frames.len() < depth || !c.read() {
        return SETTLED - ip;
    }
    ip
}

/// Held operands that the next block does not hold.
pub(super) extern "C" fn spill(c: &mut Context<'_, '_>) {
    c.write_held();
}

/// The key for an array instruction that the machine runs.
pub(super) extern "C" fn set_register(c: &mut Context<'_, '_>, key: f64, kind: i64) {
    c.set_key(key, kind);
}

pub(super) extern "C" fn pop_num(c: &mut Context<'_, '_>) -> f64 {
    c.vm.pop_num()
}

pub(super) extern "C" fn pop_value_num(c: &mut Context<'_, '_>) -> f64 {
    c.vm.pop_val().to_num()
}

pub(super) extern "C" fn pop_truth(c: &mut Context<'_, '_>) -> u8 {
    u8::from(c.vm.pop_val().truth())
}

pub(super) extern "C" fn element_num(
    c: &mut Context<'_, '_>,
    array: u32,
    key: f64,
    kind: i64,
) -> f64 {
    c.set_key(key, kind);
    let result = c.vm.entry(Arr(array));
    let result = result.and_then(|(array, slot)| c.vm.store.get_num(array, slot));
    c.done(result)
}

pub(super) extern "C" fn part_num(c: &mut Context<'_, '_>, parts: u32, key: f64, kind: i64) -> f64 {
    c.set_key(key, kind);
    c.vm.part_num(parts)
}

pub(super) extern "C" fn element_value(
    c: &mut Context<'_, '_>,
    array: u32,
    key: f64,
    kind: i64,
) -> f64 {
    c.set_key(key, kind);
    let vm = &mut *c.vm;
    let found = vm.array(Arr(array)).and_then(|array| {
        let heap = vm.store.heap_of(array)?;
        let slot = match vm.key {
            Key::Int(n) => heap.entry_int(array.table, n)?,
            Key::Text(at) => heap.entry(array.table, &vm.text[at..])?,
        };
        let found = match heap.cell_num(slot) {
            Some(n) => (n, NUMBER),
            None => match value_of(heap.cell(slot)?)? {
                Value::Uninit | Value::Unassigned => (0.0, UNASSIGNED),
                // The machine does it again, with the key as it is.
                _ => return Ok((0.0, OTHER)),
            },
        };
        if let Key::Text(at) = vm.key {
            vm.text.truncate(at);
        }
        Ok(found)
    });
    let (n, found) = c.done(found);
    c.found = found;
    n
}

pub(super) extern "C" fn store_num(
    c: &mut Context<'_, '_>,
    array: u32,
    key: f64,
    kind: i64,
    n: f64,
) {
    c.set_key(key, kind);
    let result = c.vm.entry(Arr(array));
    let result = result.and_then(|(array, slot)| c.vm.store.set_num(array, slot, n));
    c.done(result);
}

pub(super) extern "C" fn store_value(
    c: &mut Context<'_, '_>,
    array: u32,
    key: f64,
    kind: i64,
    n: f64,
    set: u8,
) {
    c.set_key(key, kind);
    let result = c.vm.entry(Arr(array));
    let result = result.and_then(|(array, slot)| c.vm.store.set(array, slot, &as_value(n, set)));
    c.done(result);
}

/// `a[k] op= n`; the new value.
pub(super) extern "C" fn arith_element(
    c: &mut Context<'_, '_>,
    array: u32,
    key: f64,
    kind: i64,
    op: u32,
    n: f64,
) -> f64 {
    c.set_key(key, kind);
    let result = c.vm.entry(Arr(array)).and_then(|(array, slot)| {
        let v = arith(operation(op), c.vm.store.get_num(array, slot)?, n)?;
        c.vm.store.heap_of(array)?.cell_set_num(slot, v)?;
        Ok(v)
    });
    c.done(result)
}

/// `a[k]++` and the like; the old value.
pub(super) extern "C" fn step_element(
    c: &mut Context<'_, '_>,
    array: u32,
    key: f64,
    kind: i64,
    delta: f64,
) -> f64 {
    if kind == KEY_FIELD {
        c.vm.look_ahead_in_record(Arr(array), key as usize);
    }
    c.set_key(key, kind);
    let result = c.vm.entry(Arr(array)).and_then(|(array, slot)| {
        let old = c.vm.store.get_num(array, slot)?;
        c.vm.store.heap_of(array)?.cell_set_num(slot, old + delta)?;
        Ok(old)
    });
    c.done(result)
}

pub(super) extern "C" fn contains(c: &mut Context<'_, '_>, array: u32, key: f64, kind: i64) -> u8 {
    c.set_key(key, kind);
    let result = c.vm.contains(Arr(array));
    u8::from(c.done(result))
}

pub(super) extern "C" fn delete(c: &mut Context<'_, '_>, array: u32, key: f64, kind: i64) {
    c.set_key(key, kind);
    let result = c.vm.delete(Arr(array));
    c.done(result);
}

pub(super) extern "C" fn global_num(c: &mut Context<'_, '_>, n: u32) -> f64 {
    let result = match &c.vm.globals[n as usize] {
        Value::Num(n) => return *n,
        Value::Uninit => c.vm.touch_global(n).map(|v| v.to_num()),
        other => return other.to_num(),
    };
    c.done(result)
}

pub(super) extern "C" fn field_num(c: &mut Context<'_, '_>, n: u32) -> f64 {
    c.vm.field_num(n as usize)
}

pub(super) extern "C" fn field_num_dynamic(c: &mut Context<'_, '_>, n: f64) -> f64 {
    let result = field_number(n).map(|n| c.vm.field_num(n));
    c.done(result)
}

pub(super) extern "C" fn special_num(c: &mut Context<'_, '_>, special: u32) -> f64 {
    match Special::ALL.get(special as usize) {
        Some(special) => c.vm.special_num(*special),
        None => 0.0,
    }
}

pub(super) extern "C" fn special_value(c: &mut Context<'_, '_>, special: u32) -> f64 {
    let value = Special::ALL.get(special as usize).map(|s| c.vm.special(*s));
    let Some(Value::Num(n)) = value else {
        c.found = OTHER;
        return 0.0;
    };
    c.found = NUMBER;
    n
}

pub(super) extern "C" fn random(c: &mut Context<'_, '_>) -> f64 {
    c.vm.next_random()
}

/// Sine, cosine and so on by their place in [`NumFn`]; `at` is the instruction, for warnings.
pub(super) extern "C" fn function(c: &mut Context<'_, '_>, which: u32, n: f64, at: u32) -> f64 {
    c.vm.ip = at as usize + 1;
    const ALL: [NumFn; 6] = [
        NumFn::Cos,
        NumFn::Exp,
        NumFn::Int,
        NumFn::Log,
        NumFn::Sin,
        NumFn::Sqrt,
    ];
    ALL.get(which as usize)
        .map_or(0.0, |f| c.vm.num_function(*f, n))
}

pub(super) extern "C" fn arc_tangent(y: f64, x: f64) -> f64 {
    y.atan2(x)
}

const OPERATIONS: [ArithOp; 6] = [
    ArithOp::Add,
    ArithOp::Sub,
    ArithOp::Mul,
    ArithOp::Div,
    ArithOp::Mod,
    ArithOp::Pow,
];

fn operation(op: u32) -> ArithOp {
    OPERATIONS.get(op as usize).copied().unwrap_or(ArithOp::Add)
}

/// An operation's number for [`calculate`] and [`arith_element`].
pub(super) fn operation_number(op: ArithOp) -> u32 {
    OPERATIONS.iter().position(|o| *o == op).unwrap_or(0) as u32
}

/// What has no instruction of the processor, or fails.
pub(super) extern "C" fn calculate(c: &mut Context<'_, '_>, op: u32, a: f64, b: f64) -> f64 {
    let result = arith(operation(op), a, b);
    c.done(result)
}

/// A call that would take the stack too far down: the machine's frames are elsewhere. `set` has a bit for each argument
/// that is assigned.
pub(super) extern "C" fn call_deep(
    c: &mut Context<'_, '_>,
    function: u32,
    set: u64,
    count: u32,
) -> f64 {
    // The arguments are where held values go.
    let args: Vec<Value> = (0..count as usize)
        .map(|at| as_value(c.vals[at], (set >> at & 1) as u8))
        .collect();
    let outer = std::mem::replace(&mut c.vm.native.at_rest, true);
    let result = c.vm.call_function(function, &args);
    c.vm.native.at_rest = outer;
    match result {
        Ok(Value::Num(n)) => {
            c.found = NUMBER;
            n
        }
        Ok(value) => {
            c.found = UNASSIGNED;
            value.to_num()
        }
        Err(fatal) => {
            c.failed_at = c.vm.position() as u32;
            c.fail(fatal);
            0.0
        }
    }
}
