//! What of a stretch of code becomes native: which instructions, which variables live in registers, how many operands of
//! the machine's stacks do.
//!
//! An instruction is *native*, *foreign* (the machine runs it; neighbours are run together) or *leaves* (native code ends
//! before it). The top of the number stack and of the value stack may be *held* in registers: a native instruction takes its
//! operands from there, everything else sees the machine's own stacks. What is held at the beginning of a block is the
//! least that any way into it holds, found by going round until nothing changes.
//!
//! Invariant: a held value is a number or unassigned, a variable in a register is a number or unassigned; whatever could
//! make it something else is foreign, or is asked at run time.

use std::collections::{BTreeMap, BTreeSet};

use awk_syntax::names::Special;

use crate::code::{Arr, Code, Op};
use crate::value::Value;

/// Most variables and most held operands; beyond, the code stays with the machine.
pub(super) const VARIABLES_MAX: usize = 32;
pub(super) const HELD_MAX: u8 = 16;

/// What is compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unit {
    /// A loop's instructions, in the frame of whoever runs them.
    Loop { start: u32, end: u32 },
    /// A function that needs no frame: numbers in, a number out.
    Function(u32),
}

/// A scalar variable.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Variable {
    Global(u32),
    Local(u32),
}

/// Who runs an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Class {
    Native,
    Foreign,
    Leaves,
}

/// How many operands are held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Held {
    pub(super) nums: u8,
    pub(super) vals: u8,
}

impl Held {
    fn least(self, other: Held) -> Held {
        Held {
            nums: self.nums.min(other.nums),
            vals: self.vals.min(other.vals),
        }
    }

    /// After an instruction that takes and gives so many. Numbers that are not held come from the machine's stack.
    fn after(self, nums: (u8, u8), vals: (u8, u8)) -> Held {
        Held {
            nums: self.nums.saturating_sub(nums.0) + nums.1,
            vals: self.vals.saturating_sub(vals.0) + vals.1,
        }
    }
}

/// What experience with earlier code for the same unit showed.
#[derive(Clone, Default, Debug)]
pub(super) struct Lessons {
    /// Variables that turned out to hold text.
    pub(super) unfit: BTreeSet<Variable>,
    /// Instructions whose results turned out to be text.
    pub(super) foreign: BTreeSet<u32>,
}

/// See the top of the file.
pub(super) struct Plan {
    pub(super) unit: Unit,
    pub(super) start: u32,
    pub(super) end: u32,
    /// Variables in registers.
    pub(super) variables: Vec<Variable>,
    /// Which of them native code assigns.
    pub(super) assigned: Vec<bool>,
    classes: Vec<Class>,
    /// First instructions of blocks, and what is held there.
    pub(super) blocks: BTreeMap<u32, Held>,
    /// Functions that are called without a frame.
    pub(super) callees: BTreeSet<u32>,
}

/// Whether the next instruction is never reached from here.
fn never_falls_through(op: Op) -> bool {
    matches!(op, Op::Jump(_) | Op::Return)
}

/// Whether a special variable is a number unless a program takes pains.
fn is_number(s: Special) -> bool {
    matches!(
        s,
        Special::NF | Special::NR | Special::FNR | Special::RSTART | Special::RLENGTH
    )
}

impl Plan {
    /// A plan for `unit`; none if native code would not pay, or cannot be.
    ///
    /// `frameless` says which functions are compiled as functions.
    pub(super) fn new(
        code: &Code,
        unit: Unit,
        lessons: &Lessons,
        frameless: &dyn Fn(u32) -> bool,
    ) -> Option<Plan> {
        let (start, end) = match unit {
            Unit::Loop { start, end } => (start, end),
            Unit::Function(f) => {
                let range = code.function_range(f);
                (range.start, range.end)
            }
        };
        let mut plan = Plan {
            unit,
            start,
            end,
            variables: Vec::new(),
            assigned: Vec::new(),
            classes: Vec::new(),
            blocks: BTreeMap::new(),
            callees: BTreeSet::new(),
        };
        let mut candidates = plan.candidates(code, lessons);
        // Each round takes a variable away, or is the last.
        loop {
            if candidates.len() > VARIABLES_MAX {
                return None;
            }
            plan.variables = candidates.iter().copied().collect();
            match plan.settle(code, lessons, frameless) {
                Settled::Done => break,
                Settled::Without(variable) => drop(candidates.remove(&variable)),
                Settled::Impossible => return None,
            }
        }
        plan.finish(code, frameless);
        plan.pays(code).then_some(plan)
    }

    pub(super) fn is_function(&self) -> bool {
        matches!(self.unit, Unit::Function(_))
    }

    pub(super) fn class(&self, at: u32) -> Class {
        self.classes[(at - self.start) as usize]
    }

    /// Whether native code runs instruction `at`, so that it is not a place where it would end by plan.
    pub(super) fn is_native(&self, at: u32) -> bool {
        self.contains(at) && self.class(at) == Class::Native
    }

    pub(super) fn index(&self, variable: Variable) -> Option<usize> {
        self.variables.binary_search(&variable).ok()
    }

    /// The foreign instructions around `at`.
    pub(super) fn stretch(&self, at: u32) -> std::ops::Range<u32> {
        let is_foreign = |at: &u32| self.class(*at) == Class::Foreign;
        let from = (self.start..at).rev().take_while(is_foreign).last();
        let last = (at..self.end).take_while(is_foreign).last();
        from.unwrap_or(at)..last.unwrap_or(at) + 1
    }

    fn contains(&self, at: u32) -> bool {
        (self.start..self.end).contains(&at)
    }

    fn candidates(&self, code: &Code, lessons: &Lessons) -> BTreeSet<Variable> {
        let mut found = BTreeSet::new();
        for at in self.start..self.end {
            match code.ops[at as usize] {
                Op::NumGlobal(n)
                | Op::ValGlobal(n)
                | Op::KeyGlobal(n)
                | Op::StoreGlobal { n, .. }
                | Op::StoreNumGlobal { n, .. }
                | Op::ArithGlobal { n, .. }
                | Op::StepGlobal { n, .. }
                    if !self.is_function() =>
                {
                    found.insert(Variable::Global(n));
                }
                Op::JumpCompareGlobal { var, .. } if !self.is_function() => {
                    found.insert(Variable::Global(u32::from(var)));
                }
                Op::NumLocal(n)
                | Op::ValLocal(n)
                | Op::KeyLocal(n)
                | Op::StoreLocal { n, .. }
                | Op::StoreNumLocal { n, .. }
                | Op::ArithLocal { n, .. }
                | Op::StepLocal { n, .. } => {
                    found.insert(Variable::Local(n));
                }
                Op::JumpCompareLocal { var, .. } => {
                    found.insert(Variable::Local(u32::from(var)));
                }
                _ => {}
            }
        }
        for at in self.start..self.end {
            let text = match code.ops[at as usize] {
                Op::GrowGlobal(n)
                | Op::GetlineGlobal { n, .. }
                | Op::GetlineAgain { n, .. }
                | Op::CutGlobal { n, .. }
                | Op::FieldToGlobal { n, .. } => Variable::Global(n),
                Op::GrowLocal(n) => Variable::Local(n),
                _ => continue,
            };
            found.remove(&text);
        }
        for unfit in &lessons.unfit {
            found.remove(unfit);
        }
        found
    }

    /// Finds what is held where, for the variables as they are.
    fn settle(
        &mut self,
        code: &Code,
        lessons: &Lessons,
        frameless: &dyn Fn(u32) -> bool,
    ) -> Settled {
        self.classes = vec![Class::Leaves; (self.end - self.start) as usize];
        self.blocks.clear();
        self.blocks.insert(self.start, Held::default());
        let mut leaders: BTreeSet<u32> = (self.start..self.end)
            .filter_map(|at| code.ops[at as usize].target())
            .filter(|to| self.contains(*to))
            .collect();
        leaders.insert(self.start);
        let mut waiting = vec![self.start];
        while let Some(from) = waiting.pop() {
            let mut held = self.blocks.get(&from).copied().unwrap_or_default();
            let mut at = from;
            loop {
                let op = code.ops[at as usize];
                let class = if lessons.foreign.contains(&at) && !self.is_function() {
                    Class::Foreign
                } else {
                    match self.effect(code, at, held, &leaders, frameless) {
                        Effect::Native { nums, vals } => {
                            held = held.after(nums, vals);
                            Class::Native
                        }
                        Effect::Foreign => Class::Foreign,
                        Effect::Leaves => Class::Leaves,
                        Effect::Unfit(variable) => return Settled::Without(variable),
                    }
                };
                if self.is_function() && class != Class::Native
                    || held.nums > HELD_MAX
                    || held.vals > HELD_MAX
                {
                    return Settled::Impossible;
                }
                if class == Class::Foreign {
                    held = Held::default();
                }
                self.classes[(at - self.start) as usize] = class;
                if class == Class::Leaves {
                    break;
                }
                let mut reach = |to: u32, blocks: &mut BTreeMap<u32, Held>| {
                    let known = blocks.get(&to).copied();
                    let least = known.map_or(held, |known| known.least(held));
                    if known != Some(least) {
                        blocks.insert(to, least);
                        waiting.push(to);
                    }
                };
                if let Some(to) = op.target().filter(|to| self.contains(*to)) {
                    reach(to, &mut self.blocks);
                }
                at += 1;
                if never_falls_through(op) || at >= self.end {
                    break;
                }
                // A jump ends a block, and so does a foreign stretch, which the machine may leave anywhere.
                if leaders.contains(&at) || class == Class::Foreign || op.target().is_some() {
                    reach(at, &mut self.blocks);
                    break;
                }
            }
        }
        Settled::Done
    }

    /// What an instruction does if these operands are held.
    fn effect(
        &self,
        code: &Code,
        at: u32,
        held: Held,
        leaders: &BTreeSet<u32>,
        frameless: &dyn Fn(u32) -> bool,
    ) -> Effect {
        let native = |nums, vals| Effect::Native { nums, vals };
        let keeps = |keep: bool| u8::from(keep);
        let has = |variable| self.index(variable).is_some();
        // A function has no frame that the machine could use, and nobody to go back to.
        let in_loop = !self.is_function();
        // Another kind of value may lie on the machine's own stack.
        let if_held = |vals: u8, effect: Effect| {
            if held.vals >= vals {
                effect
            } else {
                Effect::Foreign
            }
        };
        let op = code.ops[at as usize];
        if op
            .element()
            .is_some_and(|array| array.0 & Arr::LOCAL != 0 || array == Arr::TOP)
            && !in_loop
        {
            return Effect::Foreign;
        }
        // The key's instruction and the array's become one.
        let key = |effect: Effect| {
            let next = at + 1;
            let pairs =
                next < self.end && code.ops[next as usize].takes_key() && !leaders.contains(&next);
            if pairs { effect } else { Effect::Foreign }
        };
        let variable = |variable, effect: Effect| {
            if has(variable) {
                effect
            } else {
                Effect::Foreign
            }
        };
        let store = |variable, keep: bool| match (has(variable), held.vals) {
            (true, 0) => Effect::Unfit(variable),
            (true, _) => native((0, 0), (1, keeps(keep))),
            (false, _) => Effect::Foreign,
        };
        match op {
            Op::Loop(_) => native((0, 0), (0, 0)),
            Op::Num(_) => native((0, 1), (0, 0)),
            Op::NumGlobal(_) if !in_loop => native((0, 1), (0, 0)),
            Op::NumGlobal(n) => variable(Variable::Global(n), native((0, 1), (0, 0))),
            Op::NumLocal(n) => variable(Variable::Local(n), native((0, 1), (0, 0))),
            Op::NumSpecial(_) | Op::NumField(_) | Op::Rand => native((0, 1), (0, 0)),
            Op::NumFieldDyn | Op::NumFn(_) | Op::Neg | Op::Not | Op::ArithConst(..) => {
                native((1, 1), (0, 0))
            }
            Op::NumVal if held.vals == 0 && !in_loop => Effect::Foreign,
            Op::NumVal | Op::NotVal => native((0, 1), (1, 0)),
            Op::Arith(_) | Op::CompareNum(_) | Op::Atan2 => native((2, 1), (0, 0)),
            Op::CompareVal(_) => if_held(2, native((0, 1), (2, 0))),
            Op::DropNum => native((1, 0), (0, 0)),
            Op::DropNumUnder => native((2, 1), (0, 0)),
            Op::DropVal => if_held(1, native((0, 0), (1, 0))),
            Op::Const(n) if matches!(code.consts[n as usize], Value::Num(_)) => {
                native((0, 0), (0, 1))
            }
            Op::Uninit => native((0, 0), (0, 1)),
            Op::ValGlobal(n) => variable(Variable::Global(n), native((0, 0), (0, 1))),
            Op::ValLocal(n) => variable(Variable::Local(n), native((0, 0), (0, 1))),
            Op::ValNum => native((1, 0), (0, 1)),
            Op::ValSpecial(s) if in_loop && is_number(s) => native((0, 0), (0, 1)),
            // The machine may have to do it again: what it takes from a stack would be gone.
            Op::ValElem(array) if in_loop && array != Arr::TOP => native((0, 0), (0, 1)),
            Op::NumElem(_) | Op::NumPart(_) | Op::NumPartAt { .. } => native((0, 1), (0, 0)),
            Op::KeyNum => key(native((1, 0), (0, 0))),
            Op::KeyFieldDyn => key(native((1, 0), (0, 0))),
            Op::KeyField(_) => key(native((0, 0), (0, 0))),
            Op::KeyVal => key(if_held(1, native((0, 0), (1, 0)))),
            Op::KeyPeek => key(if_held(1, native((0, 0), (0, 0)))),
            Op::KeyUnder => key(if_held(2, native((0, 0), (2, 1)))),
            Op::KeyGlobal(n) => key(variable(Variable::Global(n), native((0, 0), (0, 0)))),
            Op::KeyLocal(n) => key(variable(Variable::Local(n), native((0, 0), (0, 0)))),
            Op::StoreGlobal { n, keep } => store(Variable::Global(n), keep),
            Op::StoreLocal { n, keep } => store(Variable::Local(n), keep),
            Op::StoreNumGlobal { n, keep } if in_loop => {
                variable(Variable::Global(n), native((1, keeps(keep)), (0, 0)))
            }
            Op::StoreNumLocal { n, keep } => {
                variable(Variable::Local(n), native((1, keeps(keep)), (0, 0)))
            }
            Op::ArithGlobal { n, keep, .. } if in_loop => {
                variable(Variable::Global(n), native((1, keeps(keep)), (0, 0)))
            }
            Op::ArithLocal { n, keep, .. } => {
                variable(Variable::Local(n), native((1, keeps(keep)), (0, 0)))
            }
            Op::StepGlobal { n, step } if in_loop => {
                variable(Variable::Global(n), native((0, step.leaves()), (0, 0)))
            }
            Op::StepLocal { n, step } => {
                variable(Variable::Local(n), native((0, step.leaves()), (0, 0)))
            }
            Op::StoreElem { keep, .. } => if_held(1, native((0, 0), (1, keeps(keep)))),
            Op::StoreNumElem { keep, .. } => native((1, keeps(keep)), (0, 0)),
            Op::ScalarGlobal(n) => variable(Variable::Global(n), native((0, 0), (0, 0))),
            Op::ArithElem { keep, .. } => native((1, keeps(keep)), (0, 0)),
            Op::StepElem { step, .. } => native((0, step.leaves()), (0, 0)),
            Op::In(_) => native((0, 1), (0, 0)),
            Op::JumpIn { .. } | Op::DeleteElem(_) | Op::Jump(_) => native((0, 0), (0, 0)),
            Op::JumpNum { .. } | Op::JumpCompareConst { .. } => native((1, 0), (0, 0)),
            Op::JumpVal { .. } => native((0, 0), (1, 0)),
            Op::JumpCompareNum { .. } => native((2, 0), (0, 0)),
            Op::JumpCompareVal { .. } => if_held(2, native((0, 0), (2, 0))),
            Op::JumpCompareGlobal { var, .. } => {
                variable(Variable::Global(u32::from(var)), native((0, 0), (0, 0)))
            }
            Op::JumpCompareLocal { var, .. } => {
                variable(Variable::Local(u32::from(var)), native((0, 0), (0, 0)))
            }
            Op::Call { function, args }
                if frameless(function)
                    && u32::from(held.vals) >= args
                    && args as usize <= code.functions[function as usize].params.len() =>
            {
                native((0, 0), (args as u8, 1))
            }
            Op::Return if !in_loop => if_held(1, native((0, 0), (1, 0))),
            Op::Return
            | Op::BlockEnd
            | Op::BeginDone
            | Op::NextRecord { .. }
            | Op::NextCounted { .. }
            | Op::NextSummed { .. }
            | Op::Next
            | Op::NextFile
            | Op::Exit { .. }
            | Op::Halt
            | Op::Mark(_) => Effect::Leaves,
            _ => Effect::Foreign,
        }
    }

    fn finish(&mut self, code: &Code, frameless: &dyn Fn(u32) -> bool) {
        self.assigned = vec![false; self.variables.len()];
        for at in self.start..self.end {
            if self.class(at) != Class::Native {
                continue;
            }
            let variable = match code.ops[at as usize] {
                Op::StoreGlobal { n, .. }
                | Op::StoreNumGlobal { n, .. }
                | Op::ArithGlobal { n, .. }
                | Op::StepGlobal { n, .. } => Variable::Global(n),
                Op::StoreLocal { n, .. }
                | Op::StoreNumLocal { n, .. }
                | Op::ArithLocal { n, .. }
                | Op::StepLocal { n, .. } => Variable::Local(n),
                Op::Call { function, .. } if frameless(function) => {
                    self.callees.insert(function);
                    continue;
                }
                _ => continue,
            };
            if let Some(index) = self.index(variable) {
                self.assigned[index] = true;
            }
        }
    }

    /// Whether native code is likely to be faster: changing sides costs as much as several instructions of the machine.
    fn pays(&self, code: &Code) -> bool {
        if self.is_function() {
            return true;
        }
        let mut native = 0;
        let mut stretches = 0;
        let mut before = Class::Native;
        for at in self.start..self.end {
            let class = self.class(at);
            match class {
                Class::Native if !matches!(code.ops[at as usize], Op::Loop(_) | Op::Jump(_)) => {
                    native += 1;
                }
                Class::Foreign if before != Class::Foreign => stretches += 1,
                _ => {}
            }
            before = class;
        }
        // Each stretch writes the variables where they belong and reads them again: measured, about an instruction for each.
        native > stretches * (4 + self.variables.len())
    }
}

enum Settled {
    Done,
    Without(Variable),
    Impossible,
}

enum Effect {
    /// Takes and gives so many numbers, and values.
    Native {
        nums: (u8, u8),
        vals: (u8, u8),
    },
    Foreign,
    Leaves,
    /// The variable is assigned what need not be a number.
    Unfit(Variable),
}
