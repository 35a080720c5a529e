//! A plan to machine code, by way of Cranelift's intermediate form.
//!
//! One Cranelift block per block of the plan; held operands are its parameters, variables in registers are Cranelift's
//! variables. Where native code ends, or the machine has to run a stretch, everything goes to the context (`support.rs`), from
//! where the machine takes it.
//!
//! Invariant: every operation on numbers is the one that the machine does, bit for bit: the same instruction of the
//! processor, or the machine's own function.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::offset_of;

use awk_syntax::ast::{ArithOp, CompareOp};
use cranelift_codegen::Context as Compilation;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, Function, InstBuilder, MemFlagsData, SigRef, Signature, Type, Value,
    types,
};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Variable as Register};

use super::plan::{Class, Held, Plan, Unit, Variable};
use super::support::{self, Context};
use crate::code::{Code, Leave, NumFn, Op, Step, Test};
use crate::value::Value as AwkValue;

/// The result of a function: bit 0, it is assigned; bit 1, something failed.
const RESULT_SET: i64 = 1;
const RESULT_FAILED: i64 = 2;

/// Makes code for this processor.
pub(super) struct Compiler {
    isa: OwnedTargetIsa,
    builder: FunctionBuilderContext,
}

/// Something that Cranelift would not do; the machine does it then.
pub(super) struct Refused;

impl Compiler {
    /// None on processors that it does not know.
    pub(super) fn new() -> Option<Compiler> {
        let mut flags = settings::builder();
        flags.set("opt_level", "speed").ok()?;
        let verify = if cfg!(debug_assertions) {
            "true"
        } else {
            "false"
        };
        flags.set("enable_verifier", verify).ok()?;
        let isa = cranelift_native::builder()
            .ok()?
            .finish(settings::Flags::new(flags))
            .ok()?;
        Some(Compiler {
            isa,
            builder: FunctionBuilderContext::new(),
        })
    }

    /// The machine code of a plan. Functions are called through the table in the context.
    pub(super) fn compile(
        &mut self,
        code: &Code,
        plan: &Plan,
        certain: &[bool],
    ) -> Result<Vec<u8>, Refused> {
        let conv = self.isa.default_call_conv();
        let mut function = Function::new();
        function.signature = match plan.unit {
            Unit::Loop { .. } => entry_signature(conv),
            Unit::Function(f) => function_signature(conv, parameters(code, f)),
        };
        let mut emitter = Emitter {
            b: FunctionBuilder::new(&mut function, &mut self.builder),
            conv,
            code,
            plan,
            context: Value::from_u32(0),
            registers: Vec::new(),
            certain,
            blocks: BTreeMap::new(),
            nums: Vec::new(),
            vals: Vec::new(),
            key: None,
            signatures: Vec::new(),
            failures: BTreeMap::new(),
        };
        emitter.unit();
        emitter.b.seal_all_blocks();
        emitter.b.finalize(self.isa.frontend_config());
        self.finish(function)
    }

    /// Code with the signature of a loop's that calls function `f`: arguments and result lie in the context's held values.
    pub(super) fn door(&mut self, code: &Code, f: u32) -> Result<Vec<u8>, Refused> {
        let conv = self.isa.default_call_conv();
        let mut function = Function::new();
        function.signature = entry_signature(conv);
        let mut b = FunctionBuilder::new(&mut function, &mut self.builder);
        let block = b.create_block();
        b.append_block_params_for_function_params(block);
        b.switch_to_block(block);
        let context = b.block_params(block)[0];
        let flags = MemFlagsData::trusted();
        let mut arguments = vec![context];
        let mut mask = b.ins().iconst(types::I64, 0);
        let mut numbers = Vec::new();
        for at in 0..parameters(code, f) {
            let set = b.ins().load(types::I8, flags, context, vals_set_at(at));
            let set = b.ins().uextend(types::I64, set);
            let bit = b.ins().ishl_imm_u(set, at as i64);
            mask = b.ins().bor(mask, bit);
            numbers.push(b.ins().load(types::F64, flags, context, vals_at(at)));
        }
        arguments.push(mask);
        arguments.extend(numbers);
        let callee = load_function(&mut b, context, f);
        let signature = b.import_signature(function_signature(conv, parameters(code, f)));
        let call = b.ins().call_indirect(signature, callee, &arguments);
        let results = b.inst_results(call);
        let (number, status) = (results[0], results[1]);
        b.ins().store(flags, number, context, vals_at(0));
        b.ins().return_(&[status]);
        b.seal_all_blocks();
        b.finalize(self.isa.frontend_config());
        self.finish(function)
    }

    fn finish(&mut self, function: Function) -> Result<Vec<u8>, Refused> {
        let mut compilation = Compilation::for_function(function);
        let compiled = compilation
            .compile(&*self.isa, &mut ControlPlane::default())
            .map_err(|_| Refused)?;
        // What lies at a distance would have to be put right when the code has its place. There is none: helpers are
        // called by address.
        if !compiled.buffer.relocs().is_empty() {
            return Err(Refused);
        }
        Ok(compiled.buffer.data().to_vec())
    }
}

fn parameters(code: &Code, f: u32) -> usize {
    code.functions[f as usize].params.len()
}

fn entry_signature(conv: CallConv) -> Signature {
    let mut signature = Signature::new(conv);
    signature.params.push(AbiParam::new(types::I64));
    signature.returns.push(AbiParam::new(types::I64));
    signature
}

fn function_signature(conv: CallConv, parameters: usize) -> Signature {
    let mut signature = entry_signature(conv);
    signature.params.push(AbiParam::new(types::I64));
    signature
        .params
        .extend((0..parameters).map(|_| AbiParam::new(types::F64)));
    signature.returns = vec![AbiParam::new(types::F64), AbiParam::new(types::I64)];
    signature
}

fn load_function(b: &mut FunctionBuilder<'_>, context: Value, f: u32) -> Value {
    let flags = MemFlagsData::trusted();
    let table = b.ins().load(
        types::I64,
        flags,
        context,
        offset_of!(Context<'_, '_>, functions) as i32,
    );
    b.ins().load(types::I64, flags, table, f as i32 * 8)
}

fn slot_at(at: usize) -> i32 {
    (offset_of!(Context<'_, '_>, slots) + at * 8) as i32
}

fn set_at(at: usize) -> i32 {
    (offset_of!(Context<'_, '_>, set) + at) as i32
}

fn nums_at(at: usize) -> i32 {
    (offset_of!(Context<'_, '_>, nums) + at * 8) as i32
}

fn vals_at(at: usize) -> i32 {
    (offset_of!(Context<'_, '_>, vals) + at * 8) as i32
}

fn vals_set_at(at: usize) -> i32 {
    (offset_of!(Context<'_, '_>, vals_set) + at) as i32
}

/// A held value: its number, and whether it is assigned.
#[derive(Clone, Copy)]
struct Pair {
    num: Value,
    set: Option<Value>, // none: it is
}

struct Emitter<'b, 'c> {
    b: FunctionBuilder<'b>,
    conv: CallConv,
    code: &'c Code,
    plan: &'c Plan,
    context: Value,
    /// The variables' numbers, and whether they are assigned if that is not certain.
    registers: Vec<(Register, Option<Register>)>,
    certain: &'c [bool],
    blocks: BTreeMap<u32, Block>,
    nums: Vec<Value>,
    vals: Vec<Pair>,
    /// The key and its kind (`support::KEY_NUMBER`), between the two instructions that make and use it.
    key: Option<(Value, Value)>,
    signatures: Vec<(Vec<Type>, Option<Type>, SigRef)>,
    /// Where an instruction that failed goes.
    failures: BTreeMap<u32, Block>,
}

impl Emitter<'_, '_> {
    fn unit(&mut self) {
        let first = self.b.create_block();
        self.b.append_block_params_for_function_params(first);
        self.b.switch_to_block(first);
        let parameters = self.b.block_params(first).to_vec();
        self.context = parameters[0];
        for certain in self.certain {
            let number = self.b.declare_var(types::F64);
            let set = (!certain).then(|| self.b.declare_var(types::I8));
            self.registers.push((number, set));
        }
        for (&at, held) in &self.plan.blocks {
            let block = self.b.create_block();
            for _ in 0..held.nums {
                self.b.append_block_param(block, types::F64);
            }
            for _ in 0..held.vals {
                self.b.append_block_param(block, types::F64);
                self.b.append_block_param(block, types::I8);
            }
            self.blocks.insert(at, block);
        }
        match self.plan.unit {
            Unit::Loop { .. } => self.load_variables(),
            Unit::Function(f) => self.take_arguments(f, &parameters),
        }
        self.go(self.plan.start);
        let starts: Vec<u32> = self.blocks.keys().copied().collect();
        for start in starts {
            self.block(start);
        }
        let failures = std::mem::take(&mut self.failures);
        for (at, block) in failures {
            self.b.switch_to_block(block);
            let at = self.b.ins().iconst(types::I32, i64::from(at));
            self.put(at, offset_of!(Context<'_, '_>, failed_at) as i32);
            self.return_failed();
        }
    }

    fn take_arguments(&mut self, f: u32, parameters: &[Value]) {
        let count = self.code.functions[f as usize].params.len();
        // Room on the stack?
        let stack = self.b.ins().get_stack_pointer(types::I64);
        let floor = self.get(types::I64, offset_of!(Context<'_, '_>, stack_floor) as i32);
        let is_deep = self.b.ins().icmp(IntCC::UnsignedLessThan, stack, floor);
        let (deep, room) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(deep);
        self.b.ins().brif(is_deep, deep, &[], room, &[]);
        self.b.switch_to_block(deep);
        for at in 0..count {
            self.put(parameters[2 + at], vals_at(at));
        }
        let number = self.b.ins().iconst(types::I32, i64::from(f));
        let takes = self.b.ins().iconst(types::I32, count as i64);
        let result = self.call(
            support::call_deep as *const () as usize,
            &[self.context, number, parameters[1], takes],
            Some(types::F64),
        );
        let found = self.get(types::I8, offset_of!(Context<'_, '_>, found) as i32);
        let failed = self.get(types::I32, offset_of!(Context<'_, '_>, failed) as i32);
        let found = self.b.ins().uextend(types::I64, found);
        let failed = self.b.ins().uextend(types::I64, failed);
        let failed = self.b.ins().ishl_imm_u(failed, 1);
        let status = self.b.ins().bor(found, failed);
        let result = result.unwrap_or(parameters[0]);
        self.b.ins().return_(&[result, status]);
        self.b.switch_to_block(room);
        for (at, variable) in self.plan.variables.iter().enumerate() {
            let Variable::Local(n) = *variable else {
                continue;
            };
            let (register, set) = self.registers[at];
            self.b.def_var(register, parameters[2 + n as usize]);
            if let Some(set) = set {
                let bit = self.b.ins().ushr_imm_u(parameters[1], i64::from(n));
                let bit = self.b.ins().ireduce(types::I8, bit);
                let bit = self.b.ins().band_imm_u(bit, 1);
                self.b.def_var(set, bit);
            }
        }
    }

    // ---- context ----

    fn get(&mut self, ty: Type, offset: i32) -> Value {
        self.b
            .ins()
            .load(ty, MemFlagsData::trusted(), self.context, offset)
    }

    fn put(&mut self, value: Value, offset: i32) {
        self.b
            .ins()
            .store(MemFlagsData::trusted(), value, self.context, offset);
    }

    fn load_variables(&mut self) {
        for at in 0..self.registers.len() {
            let (number, set) = self.registers[at];
            let value = self.get(types::F64, slot_at(at));
            self.b.def_var(number, value);
            if let Some(set) = set {
                let value = self.get(types::I8, set_at(at));
                self.b.def_var(set, value);
            }
        }
    }

    fn store_variables(&mut self) {
        for at in 0..self.registers.len() {
            if !self.plan.assigned[at] {
                continue;
            }
            let (number, set) = self.registers[at];
            let value = self.b.use_var(number);
            self.put(value, slot_at(at));
            if let Some(set) = set {
                let value = self.b.use_var(set);
                self.put(value, set_at(at));
            }
        }
    }

    /// The held operands up to the top `keep` ones, for the machine's stacks.
    fn store_held(&mut self, keep: Held) {
        let nums = self.nums.len() - usize::from(keep.nums);
        let vals = self.vals.len() - usize::from(keep.vals);
        for (at, value) in self
            .nums
            .drain(..nums)
            .collect::<Vec<_>>()
            .into_iter()
            .enumerate()
        {
            self.put(value, nums_at(at));
        }
        for (at, pair) in self
            .vals
            .drain(..vals)
            .collect::<Vec<_>>()
            .into_iter()
            .enumerate()
        {
            self.put(pair.num, vals_at(at));
            let set = self.set_of(pair);
            self.put(set, vals_set_at(at));
        }
        let nums = self.b.ins().iconst(types::I32, nums as i64);
        self.put(nums, offset_of!(Context<'_, '_>, nums_count) as i32);
        let vals = self.b.ins().iconst(types::I32, vals as i64);
        self.put(vals, offset_of!(Context<'_, '_>, vals_count) as i32);
    }

    fn set_of(&mut self, pair: Pair) -> Value {
        match pair.set {
            Some(set) => set,
            None => self.b.ins().iconst(types::I8, 1),
        }
    }

    // ---- ways out ----

    /// The machine goes on at `at`, with what is held and assigned here.
    fn leave(&mut self, at: u32) {
        self.store_variables();
        self.store_held(Held::default());
        let at = self.b.ins().iconst(types::I64, i64::from(at));
        self.b.ins().return_(&[at]);
    }

    fn return_failed(&mut self) {
        if self.plan.is_function() {
            let number = self.b.ins().f64const(0.0);
            let status = self.b.ins().iconst(types::I64, RESULT_FAILED);
            self.b.ins().return_(&[number, status]);
        } else {
            let failed = self.b.ins().iconst(types::I64, support::FAILED);
            self.b.ins().return_(&[failed]);
        }
    }

    /// To the block at `to`, or out.
    fn go(&mut self, to: u32) {
        let Some(&block) = self.blocks.get(&to) else {
            self.leave(to);
            return;
        };
        let held = self.plan.blocks[&to];
        self.spill(held);
        let arguments = self.arguments();
        self.b.ins().jump(block, &arguments);
    }

    /// Puts what a block does not expect to be held on the machine's stacks.
    fn spill(&mut self, held: Held) {
        if self.nums.len() > usize::from(held.nums) || self.vals.len() > usize::from(held.vals) {
            self.store_held(held);
            self.call(support::spill as *const () as usize, &[self.context], None);
        }
    }

    fn arguments(&mut self) -> Vec<BlockArg> {
        let mut arguments: Vec<BlockArg> = self.nums.iter().map(|n| (*n).into()).collect();
        for at in 0..self.vals.len() {
            let pair = self.vals[at];
            arguments.push(pair.num.into());
            arguments.push(self.set_of(pair).into());
        }
        arguments
    }

    /// A two-way jump; what is held goes along either way.
    fn branch(&mut self, condition: Value, to: u32, next: u32) {
        let (yes, no) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(condition, yes, &[], no, &[]);
        let (nums, vals) = (self.nums.clone(), self.vals.clone());
        self.b.switch_to_block(yes);
        self.go(to);
        (self.nums, self.vals) = (nums, vals);
        self.b.switch_to_block(no);
        self.go(next);
    }

    /// Where instruction `at` goes if it fails.
    fn failure(&mut self, at: u32) -> Block {
        if let Some(block) = self.failures.get(&at) {
            return *block;
        }
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        self.failures.insert(at, block);
        block
    }

    /// After a call that may have failed.
    fn check(&mut self, at: u32) {
        let failed = self.get(types::I32, offset_of!(Context<'_, '_>, failed) as i32);
        let failure = self.failure(at);
        let on = self.b.create_block();
        self.b.ins().brif(failed, failure, &[], on, &[]);
        self.b.switch_to_block(on);
    }

    // ---- calls ----

    fn call(&mut self, address: usize, arguments: &[Value], result: Option<Type>) -> Option<Value> {
        let types: Vec<Type> = arguments
            .iter()
            .map(|v| self.b.func.dfg.value_type(*v))
            .collect();
        let known = self
            .signatures
            .iter()
            .find(|(t, r, _)| *t == types && *r == result);
        let signature = match known {
            Some((_, _, signature)) => *signature,
            None => {
                let mut signature = Signature::new(self.conv);
                // The C convention has small integers extended.
                let parameter = |ty: &Type| match *ty {
                    types::I8 | types::I32 => AbiParam::new(*ty).uext(),
                    _ => AbiParam::new(*ty),
                };
                signature.params.extend(types.iter().map(parameter));
                signature.returns.extend(result.iter().map(parameter));
                let signature = self.b.import_signature(signature);
                self.signatures.push((types, result, signature));
                signature
            }
        };
        let address = self
            .b
            .ins()
            .iconst(types::I64, address.cast_signed() as i64);
        let call = self.b.ins().call_indirect(signature, address, arguments);
        self.b.inst_results(call).first().copied()
    }

    /// Calls with the context first, for a number.
    fn ask(&mut self, address: usize, arguments: &[Value]) -> Value {
        let mut all = vec![self.context];
        all.extend_from_slice(arguments);
        let result = self.call(address, &all, Some(types::F64));
        result.unwrap_or(self.context)
    }

    fn int(&mut self, n: u32) -> Value {
        self.b.ins().iconst(types::I32, i64::from(n))
    }

    // ---- operands ----

    fn pop(&mut self) -> Value {
        match self.nums.pop() {
            Some(value) => value,
            None => self.ask(support::pop_num as *const () as usize, &[]),
        }
    }

    fn pop_pair(&mut self) -> Pair {
        // The plan sees to it that there is one.
        self.vals.pop().unwrap_or(Pair {
            num: self.context,
            set: None,
        })
    }

    fn push_truth(&mut self, condition: Value) {
        let (one, zero) = (self.b.ins().f64const(1.0), self.b.ins().f64const(0.0));
        let number = self.b.ins().select(condition, one, zero);
        self.nums.push(number);
    }

    fn compare(&mut self, op: CompareOp, a: Value, b: Value) -> Value {
        let condition = match op {
            CompareOp::Lt => FloatCC::LessThan,
            CompareOp::Le => FloatCC::LessThanOrEqual,
            CompareOp::Eq => FloatCC::Equal,
            CompareOp::Ne => FloatCC::NotEqual,
            CompareOp::Gt => FloatCC::GreaterThan,
            CompareOp::Ge => FloatCC::GreaterThanOrEqual,
        };
        self.b.ins().fcmp(condition, a, b)
    }

    fn jump_if(&mut self, test: Test, a: Value, b: Value, to: u32, next: u32) {
        let (op, when) = test.parts();
        let condition = self.compare(op, a, b);
        if when {
            self.branch(condition, to, next);
        } else {
            self.branch(condition, next, to);
        }
    }

    fn is_not_zero(&mut self, n: Value) -> Value {
        let zero = self.b.ins().f64const(0.0);
        self.b.ins().fcmp(FloatCC::NotEqual, n, zero)
    }

    fn variable(&mut self, variable: Variable) -> Pair {
        let (number, set) = self.registers[self.plan.index(variable).unwrap_or(0)];
        Pair {
            num: self.b.use_var(number),
            set: set.map(|set| self.b.use_var(set)),
        }
    }

    fn assign(&mut self, variable: Variable, num: Value) {
        let (number, set) = self.registers[self.plan.index(variable).unwrap_or(0)];
        self.b.def_var(number, num);
        if let Some(set) = set {
            let one = self.b.ins().iconst(types::I8, 1);
            self.b.def_var(set, one);
        }
    }

    /// `variable = pair`; where the variable has to be assigned and the pair is not, the machine takes over.
    fn assign_pair(&mut self, at: u32, variable: Variable, keep: bool) {
        let pair = self.vals.last().copied();
        let Some(pair) = pair else { return };
        let (number, set) = self.registers[self.plan.index(variable).unwrap_or(0)];
        match (set, pair.set) {
            (Some(register), _) => {
                let value = self.set_of(pair);
                self.b.def_var(register, value);
            }
            (None, Some(is_set)) => self.leave_unless(is_set, at),
            (None, None) => {}
        }
        self.b.def_var(number, pair.num);
        if !keep {
            self.vals.pop();
        }
    }

    /// The machine does instruction `at`, and goes on, unless the condition holds.
    fn leave_unless(&mut self, condition: Value, at: u32) {
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(condition, on, &[], out, &[]);
        let (nums, vals) = (self.nums.clone(), self.vals.clone());
        self.b.switch_to_block(out);
        self.leave(at);
        (self.nums, self.vals) = (nums, vals);
        self.b.switch_to_block(on);
    }

    fn arith(&mut self, at: u32, op: ArithOp, x: Value, y: Value) -> Value {
        match op {
            ArithOp::Add => self.b.ins().fadd(x, y),
            ArithOp::Sub => self.b.ins().fsub(x, y),
            ArithOp::Mul => self.b.ins().fmul(x, y),
            ArithOp::Div => {
                let divides = self.is_not_zero(y);
                let (on, fails) = (self.b.create_block(), self.b.create_block());
                self.b.set_cold_block(fails);
                self.b.ins().brif(divides, on, &[], fails, &[]);
                self.b.switch_to_block(fails);
                self.calculate(op, x, y);
                let failure = self.failure(at);
                self.b.ins().jump(failure, &[]);
                self.b.switch_to_block(on);
                self.b.ins().fdiv(x, y)
            }
            ArithOp::Mod => {
                let result = self.calculate(op, x, y);
                self.check(at);
                result
            }
            ArithOp::Pow => self.calculate(op, x, y),
        }
    }

    fn calculate(&mut self, op: ArithOp, x: Value, y: Value) -> Value {
        let number = self.int(support::operation_number(op));
        self.ask(support::calculate as *const () as usize, &[number, x, y])
    }

    /// The key for the array instruction here.
    fn take_key(&mut self) -> (Value, Value) {
        match self.key.take() {
            Some(key) => key,
            None => {
                let none = self.b.ins().f64const(0.0);
                let kind = self.b.ins().iconst(types::I64, support::KEY_REGISTER);
                (none, kind)
            }
        }
    }

    fn key_pair(&mut self, pair: Pair) {
        let set = self.set_of(pair);
        let kind = self.b.ins().uextend(types::I64, set);
        self.key = Some((pair.num, kind));
    }

    fn leaves(&mut self, step: Step, old: Value, new: Value) {
        match step.leave {
            Leave::Nothing => {}
            Leave::Old => self.nums.push(old),
            Leave::New => self.nums.push(new),
        }
    }

    // ---- blocks ----

    fn block(&mut self, start: u32) {
        let block = self.blocks[&start];
        self.b.switch_to_block(block);
        let held = self.plan.blocks[&start];
        let parameters = self.b.block_params(block).to_vec();
        let (nums, vals) = parameters.split_at(usize::from(held.nums));
        self.nums = nums.to_vec();
        self.vals = vals
            .chunks_exact(2)
            .map(|pair| Pair {
                num: pair[0],
                set: Some(pair[1]),
            })
            .collect();
        self.key = None;
        let mut at = start;
        loop {
            match self.plan.class(at) {
                Class::Leaves => {
                    self.leave(at);
                    return;
                }
                Class::Foreign => {
                    self.stretch(at);
                    return;
                }
                Class::Native => {
                    if self.op(at) == Next::Ended {
                        return;
                    }
                }
            }
            at += 1;
            if at >= self.plan.end || self.blocks.contains_key(&at) {
                self.go(at);
                return;
            }
        }
    }

    /// The machine runs what it has to.
    fn stretch(&mut self, at: u32) {
        let range = self.plan.stretch(at);
        if let Some((key, kind)) = self.key.take() {
            let address = support::set_register as *const () as usize;
            self.call(address, &[self.context, key, kind], None);
        }
        self.store_variables();
        self.store_held(Held::default());
        let arguments = [
            self.context,
            self.int(at),
            self.int(range.start),
            self.int(range.end),
        ];
        let address = support::stretch as *const () as usize;
        let Some(ip) = self.call(address, &arguments, Some(types::I64)) else {
            return;
        };
        let zero = self.b.ins().iconst(types::I64, 0);
        let is_out = self.b.ins().icmp(IntCC::SignedLessThan, ip, zero);
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(is_out, out, &[], on, &[]);
        self.b.switch_to_block(out);
        self.b.ins().return_(&[ip]);
        self.b.switch_to_block(on);
        self.load_variables();
        let mut targets: BTreeSet<u32> = (range.start..range.end)
            .filter_map(|at| self.code.ops[at as usize].target())
            .filter(|to| !range.contains(to))
            .collect();
        targets.insert(range.end);
        for to in targets {
            let Some(&block) = self.blocks.get(&to) else {
                continue;
            };
            let there = self.b.ins().icmp_imm_u(IntCC::Equal, ip, i64::from(to));
            let next = self.b.create_block();
            self.b.ins().brif(there, block, &[], next, &[]);
            self.b.switch_to_block(next);
        }
        // The machine's state is up to date.
        let settled = self.b.ins().iconst(types::I64, support::SETTLED);
        let result = self.b.ins().isub(settled, ip);
        self.b.ins().return_(&[result]);
    }

    fn op(&mut self, at: u32) -> Next {
        let next = at + 1;
        match self.code.ops[at as usize] {
            Op::Num(n) => {
                let n = self.b.ins().f64const(n);
                self.nums.push(n);
            }
            Op::NumGlobal(n) => match self.plan.index(Variable::Global(n)) {
                Some(_) => {
                    let pair = self.variable(Variable::Global(n));
                    self.nums.push(pair.num);
                }
                None => {
                    let n = self.int(n);
                    let n = self.ask(support::global_num as *const () as usize, &[n]);
                    self.check(at);
                    self.nums.push(n);
                }
            },
            Op::NumLocal(n) => {
                let pair = self.variable(Variable::Local(n));
                self.nums.push(pair.num);
            }
            Op::NumSpecial(special) => {
                let n = self.int(special as u32);
                let n = self.ask(support::special_num as *const () as usize, &[n]);
                self.nums.push(n);
            }
            Op::ValSpecial(special) => {
                let n = self.int(special as u32);
                let num = self.ask(support::special_value as *const () as usize, &[n]);
                let found = self.get(types::I8, offset_of!(Context<'_, '_>, found) as i32);
                let fits = i64::from(support::NUMBER);
                let fits = self.b.ins().icmp_imm_u(IntCC::Equal, found, fits);
                self.leave_unless(fits, at);
                self.vals.push(Pair { num, set: None });
            }
            Op::NumField(n) => {
                let n = self.int(n);
                let n = self.ask(support::field_num as *const () as usize, &[n]);
                self.nums.push(n);
            }
            Op::NumFieldDyn => {
                let n = self.pop();
                let n = self.ask(support::field_num_dynamic as *const () as usize, &[n]);
                self.check(at);
                self.nums.push(n);
            }
            Op::Rand => {
                let n = self.ask(support::random as *const () as usize, &[]);
                self.nums.push(n);
            }
            Op::NumFn(which) => {
                let n = self.pop();
                let n = self.function(at, which, n);
                self.nums.push(n);
            }
            Op::Atan2 => {
                let (x, y) = (self.pop(), self.pop());
                let address = support::arc_tangent as *const () as usize;
                let n = self.call(address, &[y, x], Some(types::F64));
                self.nums.push(n.unwrap_or(x));
            }
            Op::Neg => {
                let n = self.pop();
                let n = self.b.ins().fneg(n);
                self.nums.push(n);
            }
            Op::Not => {
                let n = self.pop();
                let is_true = self.is_not_zero(n);
                let (one, zero) = (self.b.ins().f64const(1.0), self.b.ins().f64const(0.0));
                let n = self.b.ins().select(is_true, zero, one);
                self.nums.push(n);
            }
            Op::Arith(op) => {
                let (y, x) = (self.pop(), self.pop());
                let n = self.arith(at, op, x, y);
                self.nums.push(n);
            }
            Op::ArithConst(op, y) => {
                let x = self.pop();
                let n = match op {
                    // As the machine does it.
                    ArithOp::Pow if y == 2.0 => self.b.ins().fmul(x, x),
                    _ => {
                        let y = self.b.ins().f64const(y);
                        self.arith(at, op, x, y)
                    }
                };
                self.nums.push(n);
            }
            Op::CompareNum(op) => {
                let (y, x) = (self.pop(), self.pop());
                let condition = self.compare(op, x, y);
                self.push_truth(condition);
            }
            Op::CompareVal(op) => {
                let (y, x) = (self.pop_pair(), self.pop_pair());
                let condition = self.compare(op, x.num, y.num);
                self.push_truth(condition);
            }
            Op::DropNum => drop(self.pop()),
            Op::DropNumUnder => {
                let top = self.pop();
                self.pop();
                self.nums.push(top);
            }
            Op::DropVal => drop(self.vals.pop()),
            Op::NumVal => {
                let n = match self.vals.pop() {
                    Some(pair) => pair.num,
                    None => self.ask(support::pop_value_num as *const () as usize, &[]),
                };
                self.nums.push(n);
            }
            Op::NotVal => {
                let is_true = self.pop_truth();
                let (one, zero) = (self.b.ins().f64const(1.0), self.b.ins().f64const(0.0));
                let n = self.b.ins().select(is_true, zero, one);
                self.nums.push(n);
            }
            Op::Const(n) => {
                if let AwkValue::Num(n) = self.code.consts[n as usize] {
                    let num = self.b.ins().f64const(n);
                    self.vals.push(Pair { num, set: None });
                }
            }
            Op::Uninit => {
                let num = self.b.ins().f64const(0.0);
                let set = Some(self.b.ins().iconst(types::I8, 0));
                self.vals.push(Pair { num, set });
            }
            Op::ValGlobal(n) => {
                let pair = self.variable(Variable::Global(n));
                self.vals.push(pair);
            }
            Op::ValLocal(n) => {
                let pair = self.variable(Variable::Local(n));
                self.vals.push(pair);
            }
            Op::ValNum => {
                let num = self.pop();
                self.vals.push(Pair { num, set: None });
            }
            Op::KeyNum => {
                let n = self.pop();
                self.key_pair(Pair { num: n, set: None });
            }
            Op::KeyFieldDyn => {
                let n = self.pop();
                let kind = self.b.ins().iconst(types::I64, support::KEY_FIELD);
                self.key = Some((n, kind));
            }
            Op::KeyField(n) => {
                let n = self.b.ins().f64const(f64::from(n));
                let kind = self.b.ins().iconst(types::I64, support::KEY_FIELD);
                self.key = Some((n, kind));
            }
            Op::KeyVal => {
                let pair = self.pop_pair();
                self.key_pair(pair);
            }
            Op::KeyPeek => {
                if let Some(pair) = self.vals.last().copied() {
                    self.key_pair(pair);
                }
            }
            Op::KeyUnder => {
                let (top, under) = (self.pop_pair(), self.pop_pair());
                self.vals.push(top);
                self.key_pair(under);
            }
            Op::KeyGlobal(n) => {
                let pair = self.variable(Variable::Global(n));
                self.key_pair(pair);
            }
            Op::KeyLocal(n) => {
                let pair = self.variable(Variable::Local(n));
                self.key_pair(pair);
            }
            Op::NumElem(array) => {
                let (key, kind) = self.take_key();
                let array = self.int(array.0);
                let address = support::element_num as *const () as usize;
                let n = self.ask(address, &[array, key, kind]);
                self.check(at);
                self.nums.push(n);
            }
            Op::NumPart(parts) => {
                let (key, kind) = self.take_key();
                let parts = self.int(parts);
                let address = support::part_num as *const () as usize;
                let n = self.ask(address, &[parts, key, kind]);
                self.check(at);
                self.nums.push(n);
            }
            Op::NumPartAt { parts, at: number } => {
                let parts = self.int(parts);
                let key = self.b.ins().f64const(f64::from(number));
                let kind = self.b.ins().iconst(types::I64, support::KEY_NUMBER);
                let address = support::part_num as *const () as usize;
                let n = self.ask(address, &[parts, key, kind]);
                self.check(at);
                self.nums.push(n);
            }
            Op::ValElem(array) => self.element_value(at, array.0),
            Op::StoreElem { array, keep } => {
                let (key, kind) = self.take_key();
                let pair = self.pop_pair();
                let array = self.int(array.0);
                let set = self.set_of(pair);
                let address = support::store_value as *const () as usize;
                let arguments = [self.context, array, key, kind, pair.num, set];
                self.call(address, &arguments, None);
                self.check(at);
                if keep {
                    self.vals.push(pair);
                }
            }
            Op::StoreNumElem { array, keep } => {
                let (key, kind) = self.take_key();
                let n = self.pop();
                let array = self.int(array.0);
                let address = support::store_num as *const () as usize;
                self.call(address, &[self.context, array, key, kind, n], None);
                self.check(at);
                if keep {
                    self.nums.push(n);
                }
            }
            Op::ArithElem { array, op, keep } => {
                let (key, kind) = self.take_key();
                let n = self.pop();
                let array = self.int(array.0);
                let op = self.int(support::operation_number(op));
                let address = support::arith_element as *const () as usize;
                let n = self.ask(address, &[array, key, kind, op, n]);
                self.check(at);
                if keep {
                    self.nums.push(n);
                }
            }
            Op::StepElem { array, step } => {
                let (key, kind) = self.take_key();
                let array = self.int(array.0);
                let delta = self.b.ins().f64const(step.delta());
                let address = support::step_element as *const () as usize;
                let old = self.ask(address, &[array, key, kind, delta]);
                self.check(at);
                let new = self.b.ins().fadd(old, delta);
                self.leaves(step, old, new);
            }
            Op::In(array) => {
                let found = self.contains(at, array.0);
                self.push_truth(found);
            }
            Op::JumpIn { array, when, to } => {
                let found = self.contains(at, array.0);
                match when {
                    true => self.branch(found, to, next),
                    false => self.branch(found, next, to),
                }
                return Next::Ended;
            }
            Op::DeleteElem(array) => {
                let (key, kind) = self.take_key();
                let array = self.int(array.0);
                let address = support::delete as *const () as usize;
                self.call(address, &[self.context, array, key, kind], None);
                self.check(at);
            }
            Op::StoreGlobal { n, keep } => self.assign_pair(at, Variable::Global(n), keep),
            Op::StoreLocal { n, keep } => self.assign_pair(at, Variable::Local(n), keep),
            Op::StoreNumGlobal { n, keep } => self.store_num(Variable::Global(n), keep),
            Op::StoreNumLocal { n, keep } => self.store_num(Variable::Local(n), keep),
            Op::ArithGlobal { n, op, keep } => {
                self.arith_variable(at, Variable::Global(n), op, keep)
            }
            Op::ArithLocal { n, op, keep } => self.arith_variable(at, Variable::Local(n), op, keep),
            Op::StepGlobal { n, step } => self.step_variable(Variable::Global(n), step),
            Op::StepLocal { n, step } => self.step_variable(Variable::Local(n), step),
            Op::Jump(to) => {
                self.go(to);
                return Next::Ended;
            }
            Op::JumpNum { when, to } => {
                let n = self.pop();
                let condition = self.is_not_zero(n);
                self.branch_when(condition, when, to, next);
                return Next::Ended;
            }
            Op::JumpVal { when, to } => {
                let condition = self.pop_truth();
                self.branch_when(condition, when, to, next);
                return Next::Ended;
            }
            Op::JumpCompareNum { test, to } => {
                let (y, x) = (self.pop(), self.pop());
                self.jump_if(test, x, y, to, next);
                return Next::Ended;
            }
            Op::JumpCompareConst { test, to, n } => {
                let x = self.pop();
                let y = self.b.ins().f64const(n);
                self.jump_if(test, x, y, to, next);
                return Next::Ended;
            }
            Op::JumpCompareVal { test, to } => {
                let (y, x) = (self.pop_pair(), self.pop_pair());
                self.jump_if(test, x.num, y.num, to, next);
                return Next::Ended;
            }
            Op::JumpCompareGlobal { test, var, to, n } => {
                let x = self.variable(Variable::Global(u32::from(var)));
                let y = self.b.ins().f64const(n);
                self.jump_if(test, x.num, y, to, next);
                return Next::Ended;
            }
            Op::JumpCompareLocal { test, var, to, n } => {
                let x = self.variable(Variable::Local(u32::from(var)));
                let y = self.b.ins().f64const(n);
                self.jump_if(test, x.num, y, to, next);
                return Next::Ended;
            }
            Op::Call { function, args } => self.call_function(function, args as usize),
            Op::Return => {
                let pair = self.pop_pair();
                let set = self.set_of(pair);
                let status = self.b.ins().uextend(types::I64, set);
                let status = self.b.ins().band_imm_u(status, RESULT_SET);
                self.b.ins().return_(&[pair.num, status]);
                return Next::Ended;
            }
            // A loop's place, a variable that is known to be no array.
            _ => {}
        }
        Next::Falls
    }

    fn branch_when(&mut self, condition: Value, when: bool, to: u32, next: u32) {
        match when {
            true => self.branch(condition, to, next),
            false => self.branch(condition, next, to),
        }
    }

    fn pop_truth(&mut self) -> Value {
        match self.vals.pop() {
            Some(pair) => self.is_not_zero(pair.num),
            None => {
                let address = support::pop_truth as *const () as usize;
                let result = self.call(address, &[self.context], Some(types::I8));
                result.unwrap_or(self.context)
            }
        }
    }

    fn contains(&mut self, at: u32, array: u32) -> Value {
        let (key, kind) = self.take_key();
        let array = self.int(array);
        let address = support::contains as *const () as usize;
        let arguments = [self.context, array, key, kind];
        let found = self.call(address, &arguments, Some(types::I8));
        self.check(at);
        found.unwrap_or(self.context)
    }

    fn store_num(&mut self, variable: Variable, keep: bool) {
        let n = self.pop();
        self.assign(variable, n);
        if keep {
            self.nums.push(n);
        }
    }

    fn arith_variable(&mut self, at: u32, variable: Variable, op: ArithOp, keep: bool) {
        let y = self.pop();
        let x = self.variable(variable).num;
        let n = self.arith(at, op, x, y);
        self.assign(variable, n);
        if keep {
            self.nums.push(n);
        }
    }

    fn step_variable(&mut self, variable: Variable, step: Step) {
        let old = self.variable(variable).num;
        let delta = self.b.ins().f64const(step.delta());
        let new = self.b.ins().fadd(old, delta);
        self.assign(variable, new);
        self.leaves(step, old, new);
    }

    fn function(&mut self, at: u32, which: NumFn, n: Value) -> Value {
        match which {
            NumFn::Int => return self.b.ins().trunc(n),
            NumFn::Sqrt => {
                let zero = self.b.ins().f64const(0.0);
                let is_negative = self.b.ins().fcmp(FloatCC::LessThan, n, zero);
                let (root, warns, on) = (
                    self.b.create_block(),
                    self.b.create_block(),
                    self.b.create_block(),
                );
                let result = self.b.append_block_param(on, types::F64);
                self.b.set_cold_block(warns);
                self.b.ins().brif(is_negative, warns, &[], root, &[]);
                self.b.switch_to_block(warns);
                let (number, place) = (self.int(which as u32), self.int(at));
                let warned = self.ask(support::function as *const () as usize, &[number, n, place]);
                self.b.ins().jump(on, &[warned.into()]);
                self.b.switch_to_block(root);
                let n = self.b.ins().sqrt(n);
                self.b.ins().jump(on, &[n.into()]);
                self.b.switch_to_block(on);
                return result;
            }
            _ => {}
        }
        let (number, place) = (self.int(which as u32), self.int(at));
        self.ask(support::function as *const () as usize, &[number, n, place])
    }

    /// An element's value: if it is text, the machine takes over.
    fn element_value(&mut self, at: u32, array: u32) {
        let (key, kind) = self.take_key();
        let array = self.int(array);
        let address = support::element_value as *const () as usize;
        let num = self.ask(address, &[array, key, kind]);
        self.check(at);
        let found = self.get(types::I8, offset_of!(Context<'_, '_>, found) as i32);
        let other = i64::from(support::OTHER);
        let fits = self.b.ins().icmp_imm_u(IntCC::NotEqual, found, other);
        // The machine's key register was set on the way.
        self.leave_unless(fits, at);
        self.vals.push(Pair {
            num,
            set: Some(found),
        });
    }

    fn call_function(&mut self, function: u32, args: usize) {
        let first = self.vals.len() - args;
        let given = self.vals.split_off(first);
        let mut mask = self.b.ins().iconst(types::I64, 0);
        let mut known = 0;
        for (at, pair) in given.iter().enumerate() {
            match pair.set {
                None => known |= 1 << at,
                Some(set) => {
                    let set = self.b.ins().uextend(types::I64, set);
                    let bit = self.b.ins().ishl_imm_u(set, at as i64);
                    mask = self.b.ins().bor(mask, bit);
                }
            }
        }
        let mask = self.b.ins().bor_imm_u(mask, known);
        let takes = self.code.functions[function as usize].params.len();
        let mut arguments = vec![self.context, mask];
        arguments.extend(given.iter().map(|pair| pair.num));
        for _ in args..takes {
            let zero = self.b.ins().f64const(0.0);
            arguments.push(zero);
        }
        let callee = load_function(&mut self.b, self.context, function);
        let signature = function_signature(self.conv, takes);
        let signature = self.b.import_signature(signature);
        let call = self.b.ins().call_indirect(signature, callee, &arguments);
        let results = self.b.inst_results(call);
        let (num, status) = (results[0], results[1]);
        let failed = self.b.ins().band_imm_u(status, RESULT_FAILED);
        let (on, out) = (self.b.create_block(), self.b.create_block());
        self.b.set_cold_block(out);
        self.b.ins().brif(failed, out, &[], on, &[]);
        self.b.switch_to_block(out);
        // Whoever failed has said where.
        self.return_failed();
        self.b.switch_to_block(on);
        let set = self.b.ins().ireduce(types::I8, status);
        self.vals.push(Pair {
            num,
            set: Some(set),
        });
    }
}

/// How an instruction ends.
#[derive(PartialEq, Eq)]
enum Next {
    Falls,
    Ended,
}
