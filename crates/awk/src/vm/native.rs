//! Native code for loops and functions that compute with numbers, made when they have run often enough.
//!
//! The machine counts how often it comes by each [`Op::Loop`] and makes each call. What is due is planned (`plan`), compiled
//! (`emit`) and run from then on; the machine takes over again where native code ends, at any instruction. What turns out
//! otherwise than planned (text where numbers were) makes the machine take over too, and, if it happens often, another plan.
//!
//! Invariant: whoever runs what, variables, arrays, output and errors are the same but for the sign of a NaN made of two NaNs, which
//! processors and compilers choose as they like ([`WhenNative`] is there so that tests can
//! compare).

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use emit::Compiler;
use memory::Executable;
use plan::{HELD_MAX, Lessons, Plan, Unit, VARIABLES_MAX, Variable};
use support::{Context, FAILED, SETTLED};

use super::Vm;
use crate::code::{Code, Op};
use crate::error::{Fatal, Step as Result};
use crate::value::Value;

mod emit;
mod memory;
mod plan;
mod support;

/// Passes by a loop, and calls of a function, after which it is compiled: that takes about as long as this many passes by
/// a small loop.
const DUE: u32 = 2000;
/// See `Native::again`.
const AGAIN: u32 = 16;
/// Times that a plan may turn out wrong in one place before there is another, and number of plans.
const WRONG_MAX: u32 = 20;
const PLANS_MAX: u32 = 4;
/// Native code inside the machine inside native code: each takes the stack of the process.
const DEPTH_MAX: u32 = 64;
/// Most of the stack that native code takes, in bytes: of the process's first thread, and of another, whose size nobody
/// tells.
const STACK_BYTES_MAX: usize = 16 << 20;
const THREAD_STACK_BYTES: usize = 256 << 10;

/// When loops and functions become native code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenNative {
    /// When they have run so often that it pays.
    #[default]
    Hot,
    /// When they are first run.
    Always,
    /// The machine runs everything.
    Never,
}

/// A loop's native code.
struct Compiled {
    code: Executable,
    plan: Plan,
    certain: Vec<bool>,
}

/// What is known of a loop.
#[derive(Default)]
struct Spot {
    compiled: Option<Rc<Compiled>>,
    lessons: Lessons,
    /// How often the machine had to take over at an instruction, or because of a variable.
    wrong: HashMap<u32, u32>,
    misfits: HashMap<Variable, u32>,
    plans: u32,
}

/// A function's.
enum Door {
    Unknown,
    /// Takes arguments and gives the result through the context.
    Open(Rc<Executable>),
    Never,
}

/// See the top of the file.
pub struct Native {
    /// Passes until a loop, and calls until a function, is due.
    loops: Vec<u32>,
    calls: Vec<u32>,
    /// Passes after which a loop is tried again whose variables did not fit.
    again: u32,
    /// By the number of the loop.
    spots: Vec<Spot>,
    doors: Vec<Door>,
    /// Functions that need no frame, once somebody has asked; and those among them that no loop may call as such.
    frameless: Option<(BTreeSet<u32>, BTreeSet<u32>)>,
    /// Where functions begin.
    functions: Vec<usize>,
    bodies: Vec<Executable>,
    compiler: Option<Compiler>,
    /// Nothing native is entered.
    at_rest: bool,
    depth: u32,
    stack_floor: usize,
    /// How much of the stack native code may take.
    stack_bytes: Option<usize>,
}

impl Native {
    pub(super) fn new(code: &Code) -> Native {
        Native {
            loops: vec![DUE; code.loops.len()],
            calls: vec![DUE; code.functions.len()],
            again: AGAIN,
            spots: code.loops.iter().map(|_| Spot::default()).collect(),
            doors: Vec::new(),
            frameless: None,
            functions: vec![0; code.functions.len()],
            bodies: Vec::new(),
            compiler: None,
            at_rest: false,
            depth: 0,
            stack_floor: 0,
            stack_bytes: None,
        }
    }

    /// To be called before the run.
    pub fn when(&mut self, when: WhenNative) {
        let left = match when {
            WhenNative::Hot => DUE,
            WhenNative::Always => 1,
            WhenNative::Never => u32::MAX,
        };
        self.loops.fill(left);
        self.calls.fill(left);
        if when == WhenNative::Always {
            self.again = 1;
        }
        self.at_rest = when == WhenNative::Never;
    }

    /// Whether to run loop `n` natively, or to try.
    #[inline]
    pub(super) fn is_due(&mut self, n: u32) -> bool {
        let left = &mut self.loops[n as usize];
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// The same for a function that is called.
    #[inline]
    pub(super) fn is_called(&mut self, function: u32) -> bool {
        let left = &mut self.calls[function as usize];
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// Which functions need no frame: all, less those that turn out to need one, or to call one that does.
    fn find_frameless(&mut self, code: &Code) {
        if self.frameless.is_some() {
            return;
        }
        let all = 0..code.functions.len() as u32;
        let mut left: BTreeSet<u32> = all.collect();
        loop {
            let is_in = |f: u32| left.contains(&f);
            let lessons = Lessons::default();
            let plans = |f: &u32| Plan::new(code, Unit::Function(*f), &lessons, &is_in).is_some();
            let kept: BTreeSet<u32> = left.iter().copied().filter(plans).collect();
            if kept.len() == left.len() {
                break;
            }
            left = kept;
        }
        // A loop has global variables in registers, where a function does not see them.
        let mut readers = BTreeSet::new();
        loop {
            let before = readers.len();
            for &f in &left {
                let range = code.function_range(f);
                let ops = &code.ops[range.start as usize..range.end as usize];
                let reads = ops.iter().any(|op| match op {
                    Op::NumGlobal(_) => true,
                    Op::Call { function, .. } => readers.contains(function),
                    _ => false,
                });
                if reads {
                    readers.insert(f);
                }
            }
            if readers.len() == before {
                break;
            }
        }
        self.frameless = Some((left, readers));
    }

    /// The bodies of `function` and of all that it calls; none if one is refused.
    fn compile_functions(&mut self, code: &Code, first: &BTreeSet<u32>) -> Option<()> {
        self.find_frameless(code);
        let (frameless, _) = self.frameless.clone()?;
        let mut waiting: Vec<u32> = first.iter().copied().collect();
        while let Some(f) = waiting.pop() {
            if self.functions[f as usize] != 0 {
                continue;
            }
            let is_in = |f: u32| frameless.contains(&f);
            let plan = Plan::new(code, Unit::Function(f), &Lessons::default(), &is_in)?;
            let certain = vec![false; plan.variables.len()];
            let text = self.compiler()?.compile(code, &plan, &certain).ok()?;
            let body = Executable::new(&text).ok()?;
            self.functions[f as usize] = body.entry() as usize;
            self.bodies.push(body);
            waiting.extend(plan.callees);
        }
        Some(())
    }

    fn compiler(&mut self) -> Option<&mut Compiler> {
        if self.compiler.is_none() {
            self.compiler = Compiler::new();
        }
        self.compiler.as_mut()
    }

    fn compile_door(&mut self, code: &Code, function: u32) -> Option<Executable> {
        self.find_frameless(code);
        let (frameless, _) = self.frameless.as_ref()?;
        if !frameless.contains(&function) {
            return None;
        }
        self.compile_functions(code, &BTreeSet::from([function]))?;
        let text = self.compiler()?.door(code, function).ok()?;
        Executable::new(&text).ok()
    }
}

/// How much of the stack native code may take; beyond, calls are the machine's.
fn stack_bytes() -> usize {
    if rustix::thread::gettid() != rustix::process::getpid() {
        return THREAD_STACK_BYTES;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Stack).current;
    limit.map_or(STACK_BYTES_MAX, |limit| {
        STACK_BYTES_MAX.min(limit as usize / 2)
    })
}

impl Vm<'_> {
    /// Runs loop `n` natively as far as that goes, if it can be.
    #[cold]
    #[inline(never)]
    pub(super) fn run_loop(&mut self, n: u32) -> Result<()> {
        if self.native.at_rest || self.watch.is_some() || self.settings.lint {
            self.native.loops[n as usize] = u32::MAX;
            return Ok(());
        }
        self.native.loops[n as usize] = 1;
        if self.native.depth >= DEPTH_MAX {
            return Ok(());
        }
        let compiled = self.native.spots[n as usize].compiled.clone();
        let Some(compiled) = compiled.or_else(|| self.compile_loop(n)) else {
            self.native.loops[n as usize] = u32::MAX;
            return Ok(());
        };
        self.enter_native();
        let mut context = Context {
            variables: &compiled.plan.variables,
            assigned: &compiled.plan.assigned,
            certain: &compiled.certain,
            ..Context::new(self)
        };
        let misfit;
        let mut result = Ok(());
        if context.read() {
            let at = compiled.code.run(&mut context);
            misfit = context.misfit.take();
            match at {
                FAILED => {
                    result = Err(context.error());
                }
                at if at <= SETTLED => {
                    let at = SETTLED - at;
                    context.vm.ip = at as usize;
                }
                at => {
                    context.write_back();
                    context.vm.ip = at as usize;
                    let at = at as u32;
                    // In the middle of the loop, where native code did not mean to end.
                    if compiled.plan.is_native(at) {
                        self.learn(n, at);
                    }
                }
            }
        } else {
            misfit = context.misfit;
            self.native.loops[n as usize] = self.native.again;
        }
        self.native.depth -= 1;
        if let Some(at) = misfit {
            self.learn_misfit(n, compiled.plan.variables[at]);
        }
        result
    }

    /// The outermost entry says how far down the stack may go.
    fn enter_native(&mut self) {
        if self.native.depth == 0 {
            let here = 0u8;
            let bytes = *self.native.stack_bytes.get_or_insert_with(stack_bytes);
            let here = (&raw const here).addr();
            self.native.stack_floor = here.saturating_sub(bytes);
        }
        self.native.depth += 1;
    }

    fn compile_loop(&mut self, n: u32) -> Option<Rc<Compiled>> {
        let code = self.code;
        self.native.find_frameless(code);
        let spot = &mut self.native.spots[n as usize];
        spot.plans += 1;
        if spot.plans > PLANS_MAX {
            return None;
        }
        let range = &code.loops[n as usize];
        let unit = Unit::Loop {
            start: range.start,
            end: range.end,
        };
        let (frameless, readers) = self.native.frameless.as_ref()?;
        let is_callable = |f: u32| frameless.contains(&f) && !readers.contains(&f);
        let plan = Plan::new(code, unit, &spot.lessons, &is_callable)?;
        // The first plan takes what is a number now for one for ever.
        let certain = plan.variables.iter().map(|variable| {
            spot.plans == 1
                && match *variable {
                    Variable::Global(n) => matches!(self.globals[n as usize], Value::Num(_)),
                    Variable::Local(n) => {
                        matches!(self.vals[self.base + n as usize], Value::Num(_))
                    }
                }
        });
        let certain: Vec<bool> = certain.collect();
        self.native.compile_functions(code, &plan.callees)?;
        let text = self
            .native
            .compiler()?
            .compile(code, &plan, &certain)
            .ok()?;
        let compiled = Rc::new(Compiled {
            code: Executable::new(&text).ok()?,
            plan,
            certain,
        });
        let spot = &mut self.native.spots[n as usize];
        spot.compiled = Some(compiled.clone());
        Some(compiled)
    }

    /// The machine had to take over at instruction `at`.
    fn learn(&mut self, n: u32, at: u32) {
        let spot = &mut self.native.spots[n as usize];
        let times = spot.wrong.entry(at).or_default();
        *times += 1;
        if *times > WRONG_MAX {
            *times = 0;
            spot.lessons.foreign.insert(at);
            spot.compiled = None;
        }
    }

    /// A variable held no number.
    fn learn_misfit(&mut self, n: u32, variable: Variable) {
        let spot = &mut self.native.spots[n as usize];
        let times = spot.misfits.entry(variable).or_default();
        *times += 1;
        if *times > WRONG_MAX {
            *times = 0;
            // Unassigned variables fit the next plan.
            if spot.plans > 1 {
                spot.lessons.unfit.insert(variable);
            }
            spot.compiled = None;
        }
    }

    /// Calls a function natively with the arguments on the stack of values; false, and nothing done, if that cannot be.
    #[inline(never)]
    pub(super) fn run_function(&mut self, function: u32, args: u32) -> Result<bool> {
        let code = self.code;
        if self.native.at_rest || self.watch.is_some() || self.settings.lint {
            self.native.calls[function as usize] = u32::MAX;
            return Ok(false);
        }
        if self.native.doors.is_empty() {
            self.native
                .doors
                .resize_with(code.functions.len(), || Door::Unknown);
        }
        if matches!(self.native.doors[function as usize], Door::Unknown) {
            let door = self.native.compile_door(code, function);
            self.native.doors[function as usize] = match door {
                Some(door) => Door::Open(Rc::new(door)),
                None => Door::Never,
            };
        }
        let Door::Open(door) = &self.native.doors[function as usize] else {
            self.native.calls[function as usize] = u32::MAX;
            return Ok(false);
        };
        let door = door.clone();
        self.native.calls[function as usize] = 1;
        let takes = code.functions[function as usize].params.len();
        let first = self.vals.len() - args as usize;
        let given = &self.vals[first..];
        let fits = |v: &Value| matches!(v, Value::Num(_) | Value::Unassigned);
        if takes > HELD_MAX as usize
            || self.native.depth >= DEPTH_MAX
            || given.len() > takes
            || !given.iter().all(fits)
        {
            return Ok(false);
        }
        // Where the call returns to; native code says where it is for the sake of warnings.
        let back = self.ip;
        self.enter_native();
        let mut context = Context::new(self);
        for (at, value) in context.vm.vals.drain(first..).enumerate() {
            context.vals[at] = value.to_num();
            context.vals_set[at] = u8::from(matches!(value, Value::Num(_)));
        }
        let status = door.run(&mut context);
        let (n, failed) = (context.vals[0], context.failed != 0);
        let fatal = failed.then(|| context.error());
        self.native.depth -= 1;
        if let Some(fatal) = fatal {
            return Err(fatal);
        }
        self.ip = back;
        let value = if status & 1 == 1 {
            Value::Num(n)
        } else {
            Value::Unassigned
        };
        self.vals.push(value);
        Ok(true)
    }
}

impl<'a, 'p> Context<'a, 'p> {
    fn new(vm: &'a mut Vm<'p>) -> Context<'a, 'p> {
        Context {
            slots: [0.0; VARIABLES_MAX],
            set: [0; VARIABLES_MAX],
            nums: [0.0; HELD_MAX as usize],
            vals: [0.0; HELD_MAX as usize],
            vals_set: [0; HELD_MAX as usize],
            nums_count: 0,
            vals_count: 0,
            failed: 0,
            failed_at: 0,
            found: 0,
            stack_floor: vm.native.stack_floor,
            functions: vm.native.functions.as_ptr(),
            vm,
            fatal: None,
            variables: &[],
            assigned: &[],
            certain: &[],
            misfit: None,
        }
    }

    /// What failed, with the machine at the instruction that did.
    fn error(&mut self) -> Fatal {
        self.vm.ip = self.failed_at as usize + 1;
        match self.fatal.take() {
            Some(fatal) => fatal,
            None => Fatal::new("native code failed without a reason"),
        }
    }
}
