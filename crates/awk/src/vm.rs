//! The machine that runs the code.
//!
//! One loop over instructions. AWK calls do not recurse in Rust: a call pushes a `Frame`, its parameters are a stretch of
//! the value stack. Strings are put together in one text buffer (see `code.rs`).
//!
//! Invariant: between two instructions `vals`, `nums`, `text` and `marks` are as high as the compiler planned; whatever
//! leaves a rule early (`next`, `exit`) empties them.

use std::ops::Range;
use std::rc::Rc;

use awk_syntax::{Resolved, Span};
use heap::Durability;

use crate::code::*;
use crate::error::{Fatal, Reason, Step as Result};
use crate::format::{Format, number_to_text};
use crate::record::{Field, Record};
use crate::regex::{Places, Regex};
use crate::settings::Settings;
use crate::store::Store;
use crate::streams::{StreamError, Streams};
use crate::text;
use crate::time::Zone;
use crate::value::{ArrayRef, Link, Value};
use calls::Flow;

mod arrays;
mod builtins;
mod calls;
mod dump;
mod exact;
mod input;
mod inspect;
mod json;
mod kept;
mod library;
mod measured;
mod native;
mod operations;
mod outer;
mod output;
mod parallel;
mod parts;
mod resume;
mod sort;
mod strings;
mod symbols;
mod timing;
mod transaction;
mod variables;
mod warnings;

use parallel::Parallel;
pub use parallel::{EndProcess, JOBS_MAX};
pub use resume::{POSITIONS, Resume};

pub(crate) use dump::quoted;
pub(crate) use inspect::View;

pub use native::{Native, WhenNative};

pub(crate) use operations::arith;
use operations::{field_number, grow};

use input::Into;
pub use input::{Input, NamedVariable, assignment};

/// Deepest nesting of AWK function calls; beyond it a program is taken to recurse without end.
const FRAMES_MAX: usize = 10_000_000;

/// Which rules are running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// BEGIN rules.
    Begin,
    /// BEGINFILE rules.
    BeginFile,
    /// Rules for records.
    Main,
    /// ENDFILE rules.
    EndFile,
    /// END rules.
    End,
}

/// Keys of an array, copied when a `for (k in a)` loop begins: what the body does to the array does not matter to it.
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    at: usize,
}

/// Where the key for the next array instruction is.
#[derive(Clone, Copy)]
pub(crate) enum Key {
    /// An integer, whose decimal text is the key.
    Int(i64),
    /// The text buffer from here on; the array instruction cuts it off.
    Text(usize),
}

/// Somebody who watches a run: a profile, a debugger.
pub trait Watch {
    /// The machine comes by the marked place number `mark` of its code.
    ///
    /// # Errors
    /// What the watcher ends the run with.
    fn passes(&mut self, vm: &mut Vm<'_>, mark: u32) -> Result<()>;

    /// The program is about to run.
    ///
    /// # Errors
    /// What the watcher ends the run with.
    fn begins(&mut self, _vm: &mut Vm<'_>) -> Result<()> {
        Ok(())
    }

    /// The program has ended.
    fn ends(&mut self, _vm: &mut Vm<'_>, _result: &Result<()>) {}
}

/// A run of a program.
pub struct Vm<'p> {
    pub(crate) code: &'p Code,
    pub(crate) program: &'p Resolved,
    ip: usize,
    nums: Vec<f64>,
    vals: Vec<Value>,
    text: Vec<u8>,
    marks: Vec<usize>,
    /// See `measured`.
    element: measured::Element,
    key: Key,
    /// Arrays of parts by number.
    parts: Vec<parts::Parts>,
    /// Arrays inside arrays, on the way to an element.
    arrays: Vec<ArrayRef>,
    /// Elements that hold nothing and were handed to a function, which may make arrays of them.
    handed: Vec<(ArrayRef, Box<[u8]>)>,
    frames: Vec<calls::Frame>,
    /// How many calls in the middle of an instruction are running.
    nesting: u32,
    /// It was said that a comparison function takes fewer arguments than it gets.
    told_arguments: bool,
    base: usize,
    function: u32,
    iters: Vec<Keys>,
    ranges: Vec<bool>,
    /// Code for the processor.
    pub native: Native,
    /// Global scalars by number.
    pub globals: Vec<Value>,
    /// Arrays, heaps.
    pub store: Store,
    /// `$0`
    pub record: Record,
    /// Special variables.
    pub settings: Settings,
    /// The outside.
    pub streams: Streams,
    /// Operands and the main input.
    pub input: Input,
    /// Which rules run.
    pub phase: Phase,
    /// The words of the command line, for PROCINFO.
    pub command_line: Vec<Vec<u8>>,
    /// The file that is being replaced.
    inplace: Option<library::Inplace>,
    /// Lines that a library's looking-glass has not given back yet.
    mirror: std::collections::VecDeque<Vec<u8>>,
    /// Outputs that a library writes backwards.
    reversed: std::collections::HashSet<Vec<u8>>,
    /// The array that gets each record, by its number.
    json: Option<u32>,
    /// Positions in the input files, if they are kept.
    pub resume: Option<Resume>,
    /// Records between two commits; 0: there is one at the end.
    pub commit_every: u64,
    since_commit: u64,
    /// Several processes read the input.
    parallel: Option<Parallel>,
    skip: input::Skip,
    ahead: input::LookAhead,
    batch: input::Batch,
    /// Who is told of marked places.
    pub watch: Option<Box<dyn Watch>>,
    /// Whether commits wait for the medium.
    pub durability: Durability,
    /// What lint finds ends the run.
    pub lint_is_fatal: bool,
    /// No commands, no files but the operands.
    pub sandbox: bool,
    /// Argument of `exit`, or 2 if an operand could not be read.
    pub exit_code: i32,
    regexes: kept::Kept<Regex>,
    regex_recent: Option<(Vec<u8>, Rc<Regex>)>,
    /// See [`Op::NoteTarget`].
    target_is_regex: bool,
    /// What `index` looks for.
    sought: text::Sought,
    formats: kept::Kept<Format>,
    zone: Option<(Option<Vec<u8>>, Zone)>,
    translations: timing::Translations,
    random: u64,
    seed: f64,
    /// The seed, where a double does not hold it.
    exact_seed: Option<Value>,
    /// The program's exact literals.
    literals: Vec<Value>,
    spans: Vec<(u32, u32)>,
    scratch: Vec<u8>,
    groups: Places,
}

impl Phase {
    /// How messages name its rules.
    fn rule(self) -> &'static str {
        match self {
            Phase::Begin => "a BEGIN rule",
            Phase::BeginFile => "a BEGINFILE rule",
            Phase::Main => "a rule",
            Phase::EndFile => "an ENDFILE rule",
            Phase::End => "an END rule",
        }
    }
}

impl<'p> Vm<'p> {
    /// A machine about to run `code`.
    pub fn new(
        code: &'p Code,
        program: &'p Resolved,
        store: Store,
        globals: Vec<Value>,
        settings: Settings,
        streams: Streams,
        input: Input,
    ) -> Vm<'p> {
        let charset = settings.charset;
        Vm {
            code,
            program,
            ip: 0,
            nums: Vec::new(),
            vals: Vec::new(),
            text: Vec::new(),
            marks: Vec::new(),
            element: measured::Element::default(),
            key: Key::Int(0),
            parts: code.parts.iter().map(|_| Default::default()).collect(),
            arrays: Vec::new(),
            handed: Vec::new(),
            frames: Vec::new(),
            nesting: 0,
            told_arguments: false,
            base: 0,
            function: u32::MAX,
            iters: Vec::new(),
            ranges: vec![false; code.ranges as usize],
            native: Native::new(code),
            globals,
            store,
            record: Record::new(charset),
            settings,
            streams,
            input,
            phase: Phase::Begin,
            command_line: Vec::new(),
            inplace: None,
            mirror: Default::default(),
            reversed: Default::default(),
            json: None,
            resume: None,
            commit_every: 0,
            since_commit: 0,
            parallel: None,
            skip: Default::default(),
            ahead: Default::default(),
            batch: Default::default(),
            watch: None,
            durability: Durability::Durable,
            lint_is_fatal: false,
            sandbox: false,
            exit_code: 0,
            regexes: Default::default(),
            regex_recent: None,
            target_is_regex: false,
            sought: Default::default(),
            formats: Default::default(),
            zone: None,
            translations: Default::default(),
            random: strings::seeded(1.0),
            // The seed of gawk and the one true awk.
            seed: 1.0,
            exact_seed: None,
            literals: Vec::new(),
            spans: Vec::new(),
            scratch: Vec::new(),
            groups: Places::new(),
        }
    }

    /// How messages name a place in the program.
    fn place(&self, span: Span) -> String {
        self.program.sources.place(span)
    }

    #[cold]
    fn passes(&mut self, mark: u32) -> Result<()> {
        // What the watcher itself makes the machine do is not watched.
        if let Some(mut watch) = self.watch.take() {
            let result = watch.passes(self, mark);
            self.watch = Some(watch);
            result?;
        }
        Ok(())
    }

    /// The instruction that failed, or runs.
    pub fn position(&self) -> usize {
        self.ip.saturating_sub(1)
    }

    #[inline]
    fn pop_num(&mut self) -> f64 {
        self.nums.pop().unwrap_or(0.0)
    }

    #[inline]
    fn pop_val(&mut self) -> Value {
        self.vals.pop().unwrap_or(Value::Uninit)
    }

    #[inline]
    fn pop_mark(&mut self) -> usize {
        self.marks.pop().unwrap_or(0)
    }

    #[inline]
    fn push_bool(&mut self, b: bool) {
        self.nums.push(if b { 1.0 } else { 0.0 });
    }

    /// Runs from the beginning to the end of the program.
    ///
    /// # Errors
    /// Whatever ends an AWK program early; `position` tells the instruction.
    pub fn run(&mut self) -> Result<()> {
        self.ip = 0;
        self.read_literals();
        loop {
            match self.execute() {
                // `exit` in the middle of an instruction: the END rules follow, as behind any other.
                Err(fatal) if matches!(fatal.reason(), Reason::Exit) => {
                    let over = self.phase == Phase::End;
                    self.nesting = 0;
                    self.unwind()?;
                    if over {
                        return Ok(());
                    }
                    self.phase = Phase::End;
                    self.ip = self.code.end_start as usize;
                }
                result => return result.map(drop),
            }
        }
    }

    /// Runs as [`Vm::run`] does; the watcher is told of the beginning and of the end.
    ///
    /// # Errors
    /// As [`Vm::run`].
    pub fn run_watched(&mut self) -> Result<()> {
        if let Some(mut watch) = self.watch.take() {
            let result = watch.begins(self);
            self.watch = Some(watch);
            result?;
        }
        let result = self.run();
        if let Some(mut watch) = self.watch.take() {
            watch.ends(self, &result);
        }
        result
    }

    /// The next record, or the END rules, which begin at `end`.
    #[inline(always)]
    fn begin_record(&mut self, end: u32) -> Result<()> {
        if !self.next_record()? {
            self.phase = Phase::End;
            self.ip = end as usize;
        }
        Ok(())
    }

    /// Runs from the current instruction to the end of the program, or of the call that was made last.
    fn execute(&mut self) -> Result<Flow> {
        self.execute_where(Everywhere)
    }

    /// Runs while the current instruction is one of `range`, or a call is running that was made there.
    fn execute_within(&mut self, range: Range<usize>, depth: usize) -> Result<Flow> {
        self.execute_where(Within { range, depth })
    }

    fn execute_where(&mut self, limits: impl Limits) -> Result<Flow> {
        let code = self.code;
        let ops = code.ops.as_slice();
        loop {
            if !limits.contain(self) {
                return Ok(Flow::Left);
            }
            // By reference: a copy would go through the stack, and its tag wait for that.
            let op = &ops[self.ip];
            self.ip += 1;
            match *op {
                // ---- numbers ----
                Op::Num(n) => self.nums.push(n),
                Op::NumGlobal(n) => {
                    let n = match &self.globals[n as usize] {
                        Value::Num(n) => *n,
                        Value::Uninit => self.touch_global(n)?.to_num(),
                        other => other.to_num(),
                    };
                    self.nums.push(n);
                }
                Op::NumLocal(n) => {
                    let n = match &self.vals[self.base + n as usize] {
                        Value::Num(n) => *n,
                        Value::Uninit | Value::Link(_) => self.touch_local(n)?.to_num(),
                        Value::Array(_) => return Err(self.array_as_scalar(n)),
                        other => other.to_num(),
                    };
                    self.nums.push(n);
                }
                Op::NumSpecial(s) => {
                    let n = self.special_num(s);
                    self.nums.push(n);
                }
                Op::NumField(n) => {
                    let n = self.field_num(n as usize);
                    self.nums.push(n);
                }
                Op::NumFieldDyn => {
                    let at = self.pop_field()?;
                    let n = self.field_num(at);
                    self.nums.push(n);
                }
                Op::NumVal => {
                    let n = self.pop_val().to_num();
                    self.nums.push(n);
                }
                Op::NumElem(operand) => {
                    let (array, slot) = self.element_read(operand)?;
                    let n = self.store.get_num(array, slot)?;
                    self.nums.push(n);
                }
                Op::NumPart(parts) => {
                    let n = self.part_num(parts);
                    self.nums.push(n);
                }
                Op::NumPartAt { parts, at } => {
                    let n = self.part_num_at(parts, at);
                    self.nums.push(n);
                }
                Op::Arith(op) => {
                    let b = self.pop_num();
                    let a = self.pop_num();
                    let n = arith(op, a, b)?;
                    self.nums.push(n);
                }
                Op::ArithConst(op, b) => {
                    let a = self.pop_num();
                    let n = arith(op, a, b)?;
                    self.nums.push(n);
                }
                Op::Neg => {
                    let n = self.pop_num();
                    self.nums.push(-n);
                }
                Op::Not => {
                    let n = self.pop_num();
                    self.push_bool(n == 0.0);
                }
                Op::NotVal => {
                    let v = self.pop_val();
                    self.push_bool(!v.truth());
                }
                Op::CompareNum(op) => {
                    let b = self.pop_num();
                    let a = self.pop_num();
                    self.push_bool(Test::new(op, true).passes_nums(a, b));
                }
                Op::CompareVal(op) => {
                    let order = self.compare_top();
                    self.push_bool(Test::new(op, true).passes(order));
                }
                Op::CompareText(op) => {
                    let order = self.compare_texts();
                    self.push_bool(Test::new(op, true).passes(Some(order)));
                }
                Op::NumFn(f) => {
                    let n = self.pop_num();
                    let n = self.num_function(f, n);
                    self.nums.push(n);
                }
                Op::Atan2 => {
                    let x = self.pop_num();
                    let y = self.pop_num();
                    self.nums.push(y.atan2(x));
                }
                Op::DropNum => {
                    self.nums.pop();
                }
                Op::DropVal => {
                    self.vals.pop();
                }
                Op::DropNumUnder => {
                    let top = self.pop_num();
                    self.nums.pop();
                    self.nums.push(top);
                }

                // ---- exact numbers ----
                Op::ExactConst(_)
                | Op::ExactArith(_)
                | Op::ExactNeg
                | Op::ExactPlus
                | Op::ExactSwapped(_)
                | Op::ExactUnder(_)
                | Op::ExactStep { .. }
                | Op::ExactStepUnder { .. }
                | Op::ValFieldPeek => self.exact(*op)?,

                // ---- values ----
                Op::Const(n) => self.vals.push(code.consts[n as usize].clone()),
                Op::Uninit => self.vals.push(Value::Unassigned),
                Op::ValGlobal(n) => {
                    let v = match &self.globals[n as usize] {
                        Value::Uninit => self.touch_global(n)?,
                        v => v.clone(),
                    };
                    self.vals.push(v);
                }
                Op::ValLocal(n) => match &self.vals[self.base + n as usize] {
                    Value::Array(_) => return Err(self.array_as_scalar(n)),
                    Value::Uninit | Value::Link(_) => {
                        let v = self.touch_local(n)?;
                        self.vals.push(v);
                    }
                    v => {
                        let v = v.clone();
                        self.vals.push(v);
                    }
                },
                Op::PassLocal(n) => {
                    let at = self.base + n as usize;
                    let v = match &self.vals[at] {
                        Value::Array(array) => Value::Array(ArrayRef {
                            owned: false,
                            ..*array
                        }),
                        Value::Uninit | Value::Link(_) => Value::Link(Link::Local(at as u32)),
                        v => v.clone(),
                    };
                    self.vals.push(v);
                }
                Op::PassGlobal(n) => {
                    let v = match &self.globals[n as usize] {
                        Value::Uninit if self.store.global_is_array(n) => {
                            Value::Array(self.array(Arr(n))?)
                        }
                        Value::Uninit => Value::Link(Link::Global(n)),
                        v => v.clone(),
                    };
                    self.vals.push(v);
                }
                Op::PassElem(array) => {
                    let v = self.pass_element(array)?;
                    self.vals.push(v);
                }
                Op::ValSpecial(s) => {
                    let v = self.special(s);
                    self.vals.push(v);
                }
                Op::ValField(n) => {
                    let v = self.field(n as usize);
                    self.vals.push(v);
                }
                Op::ValFieldDyn => {
                    let at = self.pop_field()?;
                    let v = self.field(at);
                    self.vals.push(v);
                }
                Op::ValNum => {
                    let n = self.pop_num();
                    self.vals.push(Value::Num(n));
                }
                Op::ValElem(operand) => {
                    let (array, slot) = self.entry(operand)?;
                    let mut v = self.store.get(array, slot)?;
                    if matches!(v, Value::Uninit) {
                        // What it is assigned to was assigned something.
                        v = Value::Unassigned;
                        if self.settings.lint {
                            self.lint_element(operand)?;
                        }
                    }
                    self.vals.push(v);
                }
                Op::ValPart(parts) => {
                    let v = self.part_value(parts);
                    self.vals.push(v);
                }
                Op::ValPartAt { parts, at } => {
                    let v = self.part_value_at(parts, at);
                    self.vals.push(v);
                }
                Op::PushArray(array) => {
                    let array = self.array(array)?;
                    self.vals.push(Value::Array(ArrayRef {
                        owned: false,
                        ..array
                    }));
                }

                // ---- text ----
                Op::TextBegin => self.marks.push(self.text.len()),
                Op::TextEnd => {
                    let mark = self.pop_mark();
                    let v = Value::text(&self.text[mark..], false);
                    self.text.truncate(mark);
                    self.vals.push(v);
                }
                Op::AppendConst(n) => {
                    if let Some(bytes) = code.consts[n as usize].as_bytes() {
                        self.text.extend_from_slice(bytes);
                    }
                }
                Op::AppendVal { out } => {
                    let v = self.pop_val();
                    v.append_to(self.settings.number_format(out), &mut self.text);
                }
                Op::AppendNum { out } => {
                    let n = self.pop_num();
                    number_to_text(n, self.settings.number_format(out), &mut self.text);
                }
                Op::AppendGlobal { n, out } => {
                    let format = self.settings.number_format(out);
                    match &self.globals[n as usize] {
                        Value::Uninit => drop(self.touch_global(n)?),
                        v => v.append_to(format, &mut self.text),
                    }
                }
                Op::AppendLocal { n, out } => {
                    let format = self.settings.number_format(out);
                    match &self.vals[self.base + n as usize] {
                        Value::Array(_) => return Err(self.array_as_scalar(n)),
                        Value::Uninit | Value::Link(_) => drop(self.touch_local(n)?),
                        v => v.append_to(format, &mut self.text),
                    }
                }
                Op::AppendSpecial { s, out } => {
                    let v = self.special(s);
                    v.append_to(self.settings.number_format(out), &mut self.text);
                }
                Op::AppendField { n, out } => self.append_field(n as usize, out),
                Op::AppendFieldDyn { out } => {
                    let at = self.pop_field()?;
                    self.append_field(at, out);
                }
                Op::AppendFieldPeek => {
                    let at = field_number(self.nums.last().copied().unwrap_or(0.0))?;
                    self.append_field(at, false);
                }
                Op::AppendElem {
                    array: operand,
                    out,
                } => {
                    // The key lies at the end of the text buffer: `entry` cuts it off before the element is appended.
                    let (array, slot) = self.element_read(operand)?;
                    self.append_cell(array, slot, out)?;
                }
                Op::AppendPart(parts) => self.append_part(parts),
                Op::AppendPartAt { parts, at } => self.append_part_at(parts, at),
                Op::AppendSubsep => self.text.extend_from_slice(&self.settings.subsep),
                Op::AppendOfs => self.text.extend_from_slice(&self.settings.ofs),
                Op::AppendOrs => self.text.extend_from_slice(&self.settings.ors),

                // ---- keys ----
                Op::KeyPartAt { parts, at } => self.key_part_at(parts, at),
                Op::KeyText => self.key = Key::Text(self.pop_mark()),
                Op::KeyNum => {
                    let n = self.pop_num();
                    self.set_key_num(n);
                }
                Op::KeyVal => {
                    let v = self.pop_val();
                    self.set_key(&v);
                }
                Op::KeyPeek => {
                    let v = self.vals.last().cloned().unwrap_or(Value::Uninit);
                    self.set_key(&v);
                }
                Op::KeyUnder => {
                    let top = self.pop_val();
                    let v = self.pop_val();
                    self.vals.push(top);
                    self.set_key(&v);
                }
                Op::KeyConst(n) => {
                    self.key = Key::Text(self.text.len());
                    self.text
                        .extend_from_slice(code.consts[n as usize].as_bytes().unwrap_or_default());
                }
                Op::KeyGlobal(n) => match self.globals[n as usize] {
                    Value::Num(n) => self.set_key_num(n),
                    Value::Uninit => {
                        self.touch_global(n)?;
                        self.key = Key::Text(self.text.len());
                    }
                    ref v => {
                        self.key = Key::Text(self.text.len());
                        v.append_to(&self.settings.convfmt, &mut self.text);
                    }
                },
                Op::KeyLocal(n) => match self.vals[self.base + n as usize] {
                    Value::Num(n) => self.set_key_num(n),
                    Value::Array(_) => return Err(self.array_as_scalar(n)),
                    Value::Uninit | Value::Link(_) => {
                        self.touch_local(n)?;
                        self.key = Key::Text(self.text.len());
                    }
                    ref v => {
                        self.key = Key::Text(self.text.len());
                        v.append_to(&self.settings.convfmt, &mut self.text);
                    }
                },
                Op::KeyField(n) => self.set_key_field(n as usize),
                Op::KeyFieldDyn => {
                    let at = self.pop_field()?;
                    self.set_key_field(at);
                }

                // ---- stores ----
                Op::StoreGlobal { n, keep } => {
                    let v = if keep {
                        self.vals.last().cloned().unwrap_or(Value::Uninit)
                    } else {
                        self.pop_val()
                    };
                    self.globals[n as usize] = v;
                }
                Op::FieldToGlobal { field, n } => self.field_to_global(field as usize, n),
                Op::StoreNumGlobal { n, keep } => {
                    let v = self.pop_num();
                    if keep {
                        self.nums.push(v);
                    }
                    self.globals[n as usize] = Value::Num(v);
                }
                Op::StoreLocal { n, keep } => {
                    let v = if keep {
                        self.vals.last().cloned().unwrap_or(Value::Uninit)
                    } else {
                        self.pop_val()
                    };
                    self.set_local(n, v)?;
                }
                Op::StoreNumLocal { n, keep } => {
                    let v = self.pop_num();
                    if keep {
                        self.nums.push(v);
                    }
                    self.set_local(n, Value::Num(v))?;
                }
                Op::StoreSpecial { s, keep } => {
                    let v = if keep {
                        self.vals.last().cloned().unwrap_or(Value::Uninit)
                    } else {
                        self.pop_val()
                    };
                    self.set_special(s, v)?;
                }
                Op::StoreField { keep } => {
                    let at = self.pop_field()?;
                    let v = if keep {
                        self.vals.last().cloned().unwrap_or(Value::Uninit)
                    } else {
                        self.pop_val()
                    };
                    self.set_field(at, v)?;
                }
                Op::StoreFieldUnder => {
                    let count = self.pop_num();
                    let at = self.pop_field()?;
                    self.nums.push(count);
                    let v = self.pop_val();
                    self.set_field(at, v)?;
                }
                Op::StoreElem { array, keep } => {
                    let v = self.pop_val();
                    let (array, slot) = self.entry(array)?;
                    self.store.set(array, slot, &v)?;
                    if keep {
                        self.vals.push(v);
                    }
                }
                Op::StoreNumElem { array, keep } => {
                    let v = self.pop_num();
                    let (array, slot) = self.entry(array)?;
                    self.store.set_num(array, slot, v)?;
                    if keep {
                        self.nums.push(v);
                    }
                }
                Op::ScalarGlobal(n) => {
                    if matches!(self.globals[n as usize], Value::Uninit)
                        && self.store.global_is_array(n)
                    {
                        return Err(self.global_array_as_scalar(n));
                    }
                }
                Op::GrowGlobal(n) => {
                    let mark = self.pop_mark();
                    grow(
                        &mut self.globals[n as usize],
                        &self.text[mark..],
                        &self.settings.convfmt,
                    );
                    self.text.truncate(mark);
                }
                Op::GrowLocal(n) => {
                    let mark = self.pop_mark();
                    let at = self.base + n as usize;
                    if matches!(self.vals[at], Value::Array(_)) {
                        return Err(self.array_as_scalar(n));
                    }
                    grow(
                        &mut self.vals[at],
                        &self.text[mark..],
                        &self.settings.convfmt,
                    );
                    self.text.truncate(mark);
                }
                Op::ArithGlobal { n, op, keep } => {
                    let b = self.pop_num();
                    let place = &mut self.globals[n as usize];
                    let v = arith(op, place.to_num(), b)?;
                    *place = Value::Num(v);
                    if keep {
                        self.nums.push(v);
                    }
                }
                Op::ArithLocal { n, op, keep } => {
                    let b = self.pop_num();
                    let a = self.local_num(n)?;
                    let v = arith(op, a, b)?;
                    self.vals[self.base + n as usize] = Value::Num(v);
                    if keep {
                        self.nums.push(v);
                    }
                }
                Op::ArithSpecial { s, op, keep } => {
                    let b = self.pop_num();
                    let v = arith(op, self.special_num(s), b)?;
                    self.set_special(s, Value::Num(v))?;
                    if keep {
                        self.nums.push(v);
                    }
                }
                Op::ArithField { op, keep } => {
                    let at = self.pop_field()?;
                    let b = self.pop_num();
                    let v = arith(op, self.field_num(at), b)?;
                    self.set_field(at, Value::Num(v))?;
                    if keep {
                        self.nums.push(v);
                    }
                }
                Op::ArithElem { array, op, keep } => {
                    let b = self.pop_num();
                    let (array, slot) = self.entry(array)?;
                    let v = arith(op, self.store.get_num(array, slot)?, b)?;
                    self.store.heap_of(array)?.cell_set_num(slot, v)?;
                    if keep {
                        self.nums.push(v);
                    }
                }
                Op::StepGlobal { n, step } => {
                    let place = &mut self.globals[n as usize];
                    let old = place.to_num();
                    *place = Value::Num(old + step.delta());
                    self.leave(step, old);
                }
                Op::StepLocal { n, step } => {
                    let old = self.local_num(n)?;
                    self.vals[self.base + n as usize] = Value::Num(old + step.delta());
                    self.leave(step, old);
                }
                Op::StepSpecial { s, step } => {
                    let old = self.special_num(s);
                    self.set_special(s, Value::Num(old + step.delta()))?;
                    self.leave(step, old);
                }
                Op::StepField(step) => {
                    let at = self.pop_field()?;
                    let old = self.field_num(at);
                    self.set_field(at, Value::Num(old + step.delta()))?;
                    self.leave(step, old);
                }
                Op::StepElem { array, step } => {
                    let (array, slot) = self.entry(array)?;
                    let old = self.store.get_num(array, slot)?;
                    self.store
                        .heap_of(array)?
                        .cell_set_num(slot, old + step.delta())?;
                    self.leave(step, old);
                }
                Op::StepElemField { array, field, step } => {
                    let array = self.array(array)?;
                    let slot = match self.entry_ahead(array, field)? {
                        Some(slot) => slot,
                        None => self.entry_by_field(array, field)?,
                    };
                    let old = self.store.get_num(array, slot)?;
                    self.store
                        .heap_of(array)?
                        .cell_set_num(slot, old + step.delta())?;
                    self.leave(step, old);
                }

                // ---- jumps ----
                Op::Loop(n) => {
                    if self.native.is_due(n) {
                        self.run_loop(n)?;
                    }
                }
                Op::Jump(to) => self.ip = to as usize,
                Op::JumpNum { when, to } => {
                    if (self.pop_num() != 0.0) == when {
                        self.ip = to as usize;
                    }
                }
                Op::JumpVal { when, to } => {
                    if self.pop_val().truth() == when {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareNum { test, to } => {
                    let b = self.pop_num();
                    let a = self.pop_num();
                    if test.passes_nums(a, b) {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareConst { test, to, n } => {
                    if test.passes_nums(self.pop_num(), n) {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareVal { test, to } => {
                    if test.passes(self.compare_top()) {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareText { test, to } => {
                    if test.passes(Some(self.compare_texts())) {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareField { test, field, to, n } => {
                    if self.compare_field(test, field, n) {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareGlobal { test, var, to, n } => {
                    let passes = match &self.globals[usize::from(var)] {
                        Value::Num(m) => test.passes_nums(*m, n),
                        Value::Uninit => {
                            let v = self.touch_global(u32::from(var))?;
                            test.passes(self.compare_num(&v, n))
                        }
                        v => test.passes(self.compare_num(v, n)),
                    };
                    if passes {
                        self.ip = to as usize;
                    }
                }
                Op::JumpCompareLocal { test, var, to, n } => {
                    let passes = match &self.vals[self.base + usize::from(var)] {
                        Value::Num(m) => test.passes_nums(*m, n),
                        Value::Array(_) => return Err(self.array_as_scalar(u32::from(var))),
                        Value::Uninit | Value::Link(_) => {
                            let v = self.touch_local(u32::from(var))?;
                            test.passes(self.compare_num(&v, n))
                        }
                        v => test.passes(self.compare_num(v, n)),
                    };
                    if passes {
                        self.ip = to as usize;
                    }
                }
                Op::JumpMatchRecord { re, when, to } => {
                    let regex = self.cased(&code.regexes[re as usize]);
                    if regex.is_match(self.record.whole(&self.settings)) == when {
                        self.ip = to as usize;
                    }
                }
                Op::JumpIn { array, when, to } => {
                    if self.contains(array)? == when {
                        self.ip = to as usize;
                    }
                }
                Op::JumpRange { n, to } => {
                    if self.ranges[n as usize] {
                        self.ip = to as usize;
                    }
                }
                Op::SetRange { n, on } => self.ranges[n as usize] = on,
                Op::JumpNone { to } => {
                    if self.nums.last().is_none_or(|n| *n <= 0.0) {
                        self.ip = to as usize;
                    }
                }

                // ---- matching and arrays ----
                Op::MatchRecord(re) => {
                    let regex = self.cased(&code.regexes[re.0 as usize]);
                    let hit = regex.is_match(self.record.whole(&self.settings));
                    self.push_bool(hit);
                }
                Op::MatchField { field, re } => {
                    let regex = self.cased(&code.regexes[re.0 as usize]);
                    let hit = match self.record.get(field as usize, &self.settings) {
                        Field::Text(s) | Field::Str(s) => regex.is_match(s),
                        Field::Missing => regex.is_match(b""),
                        Field::Value(v) => {
                            self.scratch.clear();
                            v.append_to(&self.settings.convfmt, &mut self.scratch);
                            regex.is_match(&self.scratch)
                        }
                    };
                    self.push_bool(hit);
                }
                Op::MatchText(re) => {
                    let regex = self.regex(re)?;
                    let mark = self.pop_mark();
                    let hit = self.cased(&regex).is_match(&self.text[mark..]);
                    self.text.truncate(mark);
                    self.push_bool(hit);
                }
                Op::In(array) => {
                    let found = self.contains(array)?;
                    self.push_bool(found);
                }
                Op::DeleteElem(array) => self.delete(array)?,
                Op::DeleteParts(parts) => self.delete_parts(parts),
                Op::DeleteArray(array) => {
                    let array = self.array(array)?;
                    self.clear(array)?;
                }
                Op::SubArray(array) => {
                    let inner = self.sub_array(array)?;
                    self.arrays.push(inner);
                }
                Op::FindArray { array, to } => match self.find_array(array)? {
                    Some(inner) => self.arrays.push(inner),
                    None => self.ip = to as usize,
                },
                Op::DupArray => {
                    if let Some(&array) = self.arrays.last() {
                        self.arrays.push(array);
                    }
                }
                Op::DropArray => {
                    self.arrays.pop();
                }
                Op::ValSymbol => {
                    let name = self.key_bytes();
                    let v = self.symbol(&name)?;
                    self.vals.push(v);
                }
                Op::PassSymbol => {
                    let v = self.pass_symbol()?;
                    self.vals.push(v);
                }
                Op::StoreSymbol { keep } => {
                    let name = self.key_bytes();
                    let v = self.pop_val();
                    if keep {
                        self.vals.push(v.clone());
                    }
                    self.set_symbol(&name, v)?;
                }
                Op::ArithSymbol { op, keep } => {
                    let by = self.pop_num();
                    let name = self.key_bytes();
                    let n = arith(op, self.symbol(&name)?.to_num(), by)?;
                    if keep {
                        self.nums.push(n);
                    }
                    self.set_symbol(&name, Value::Num(n))?;
                }
                Op::InSymbol => {
                    let found = self.has_symbol();
                    self.push_bool(found);
                }
                Op::ForSymbols => self.begin_for_symbols()?,
                Op::SymbolArray => {
                    let array = self.symbol_array()?;
                    self.arrays.push(array);
                }
                Op::AllSymbols => {
                    let array = self.all_symbols()?;
                    self.arrays.push(array);
                }
                Op::JumpCase { value, to } => {
                    if self.is_case(&code.consts[value as usize])? {
                        self.vals.pop();
                        self.ip = to as usize;
                    }
                }
                Op::ExactCase { literal, to } => {
                    let value = self.literals[literal as usize].clone();
                    if self.is_case(&value)? {
                        self.vals.pop();
                        self.ip = to as usize;
                    }
                }
                Op::ForIn(array) => self.begin_for(array)?,
                Op::ForNext { end } => {
                    let keys = self.iters.last_mut();
                    match keys.and_then(Keys::next) {
                        Some(key) => self.vals.push(key),
                        None => self.ip = end as usize,
                    }
                }
                Op::ForEnd => {
                    self.iters.pop();
                }

                // ---- functions ----
                Op::Call { function, args } => {
                    if !(self.native.is_called(function) && self.run_function(function, args)?) {
                        self.enter(function, args)?;
                    }
                }
                Op::Return => {
                    let v = self.pop_val();
                    if matches!(v, Value::Array(_)) {
                        return Err(Fatal::new("a function cannot return an array"));
                    }
                    let back = self.leave_frame()?;
                    self.vals.push(v);
                    if let Some(flow) = self.return_to(back) {
                        return Ok(flow);
                    }
                }
                Op::BlockEnd => {
                    let back = self.leave_frame()?;
                    self.vals.push(Value::Uninit);
                    if let Some(flow) = self.return_to(back) {
                        return Ok(flow);
                    }
                }
                Op::CallUndefined { name } => {
                    let name = self.settings.text_of(&self.code.consts[name as usize]);
                    let name = String::from_utf8_lossy(&name);
                    return Err(Fatal::new(format!("function `{name}` is not defined")));
                }
                Op::CallIndirect { args } => self.call_indirect(args)?,
                Op::Builtin { which, args } => {
                    let args = self.vals.split_off(self.vals.len() - args as usize);
                    let handed = self.handed_before(&args);
                    let v = self.any_builtin(which, args)?;
                    self.handed.truncate(handed);
                    self.vals.push(v);
                }
                Op::LengthText => self.length_text(),
                Op::LengthRecord => {
                    let n = self.length_record();
                    self.nums.push(n);
                }
                Op::LengthHeld(held) => self.length_held(held)?,
                Op::LengthArray => {
                    let v = self.pop_val();
                    let n = match self.settled(&v)? {
                        Value::Array(array) => {
                            self.store.heap_of(array)?.table_len(array.table)? as f64
                        }
                        _ => 0.0,
                    };
                    self.nums.push(n);
                }
                Op::LengthVariable(held) => self.length_variable(held)?,
                Op::Substr { bounded } => self.substr(bounded),
                Op::SubstrHeld { held, bounded } => self.substr_held(held, bounded)?,
                Op::CutGlobal { n, bounded } => self.cut_global(n, bounded)?,
                Op::KeySubstr { held, bounded } => self.key_substr(held, bounded)?,
                Op::KeyLetter { held, at } => self.key_letter(held, at)?,
                Op::Index => self.index(),
                Op::IndexHeld { held, wanted } => self.index_held(held, wanted)?,
                Op::ToLower => self.change_case(text::to_lower),
                Op::ToUpper => self.change_case(text::to_upper),
                Op::Match(re) => self.match_text(re)?,
                Op::MatchHeld { held, re } => self.match_held(held, re)?,
                Op::MatchGroups { array, re } => self.match_array(array, re)?,
                Op::MatchParts { parts, re } => self.match_parts(parts, re)?,
                Op::SplitParts { parts, sep } => self.split_parts(parts, sep)?,
                Op::Split { array, sep } => self.split(array, sep)?,
                Op::CheckWhole => self.check_whole()?,
                Op::CheckNumber => self.check_number()?,
                Op::NoteTarget => {
                    self.target_is_regex = matches!(self.vals.last(), Some(Value::Regex(_)));
                }
                Op::Sub { re, global } => self.substitute(re, global)?,
                Op::SubRecord {
                    re,
                    replacement,
                    global,
                } => self.substitute_record(re, replacement, global)?,
                Op::Sprintf(args) => {
                    self.format_dynamic(args)?;
                    self.text_to_value();
                }
                Op::SprintfConst { format, args } => {
                    self.format(&code.formats[format as usize], args)?;
                    self.text_to_value();
                }
                Op::Rand => {
                    let n = self.next_random();
                    self.nums.push(n);
                }
                Op::Srand { given } => self.srand(given),
                Op::Close => self.close()?,
                Op::CloseSide => self.close_side()?,
                Op::Fflush { named } => self.fflush(named)?,
                Op::System => self.system()?,
                Op::Getline { from, into_value } => {
                    let into = if into_value {
                        Into::Value
                    } else {
                        Into::Record
                    };
                    self.getline(from, into)?;
                }
                Op::GetlineAgain { name, n, to } => {
                    if self.getline_again(name, n) {
                        self.ip = to as usize;
                    }
                }
                Op::GetlineGlobal { from, n } => self.getline(from, Into::Global(n))?,

                // ---- output ----
                Op::PrintRecord => {
                    let out = self.streams.stdout();
                    let buffer = out.buffer();
                    self.record.print_to(&self.settings, buffer);
                    buffer.extend_from_slice(&self.settings.ors);
                    if let Err(error) = out.settle() {
                        self.output_failed(b"/dev/stdout", error)?;
                    }
                }
                Op::Write(to) => self.write(to)?,
                Op::Print { args } => self.print_values(args),
                Op::Printf(args) => self.format_dynamic(args)?,
                Op::PrintfConst { format, args } => {
                    self.format(&code.formats[format as usize], args)?
                }

                // ---- records ----
                Op::Mark(n) => self.passes(n)?,
                Op::BeginDone => {
                    if !code.reads_input {
                        return Ok(Flow::Halted);
                    }
                    self.phase = Phase::Main;
                }
                Op::NextRecord { end } => self.begin_record(end)?,
                Op::CountFields {
                    array,
                    var,
                    case,
                    down,
                } => self.count_fields(array, var, case, if down { -1.0 } else { 1.0 }),
                Op::NextCounted {
                    array,
                    field,
                    down,
                    end,
                } => {
                    self.count_records(array, field, if down { -1.0 } else { 1.0 })?;
                    self.begin_record(end)?;
                }
                Op::NextSummed {
                    n,
                    field,
                    checked,
                    end,
                } => {
                    self.sum_records(n, field, checked)?;
                    self.begin_record(end)?;
                }
                Op::Next | Op::NextFile => {
                    let word = if matches!(op, Op::Next) {
                        "next"
                    } else {
                        "nextfile"
                    };
                    if word == "nextfile" && self.phase == Phase::BeginFile {
                        return Ok(Flow::NextFile);
                    }
                    if self.phase != Phase::Main {
                        return Err(Fatal::new(format!(
                            "`{word}` cannot be called from {}",
                            self.phase.rule()
                        )));
                    }
                    self.not_nested(word)?;
                    self.unwind()?;
                    if word == "nextfile" {
                        self.skip_file()?;
                    }
                    self.ip = code.main_start as usize;
                }
                Op::Exit { given } => {
                    if given {
                        self.exit_code = self.pop_num() as i64 as i32;
                    }
                    if self.nesting > 0 {
                        return Err(Fatal::exit());
                    }
                    self.unwind()?;
                    if self.phase == Phase::End {
                        return Ok(Flow::Halted);
                    }
                    self.phase = Phase::End;
                    self.ip = code.end_start as usize;
                }
                Op::Halt => return Ok(Flow::Halted),
            }
        }
    }
}

/// How far the machine runs by itself.
trait Limits {
    fn contain(&self, vm: &Vm<'_>) -> bool;
}

/// To the end of the program, or of the call that was made last.
struct Everywhere;

impl Limits for Everywhere {
    #[inline(always)]
    fn contain(&self, _: &Vm<'_>) -> bool {
        true
    }
}

/// See [`Vm::execute_within`].
struct Within {
    range: Range<usize>,
    depth: usize,
}

impl Limits for Within {
    #[inline(always)]
    fn contain(&self, vm: &Vm<'_>) -> bool {
        vm.frames.len() > self.depth || vm.frames.len() == self.depth && self.range.contains(&vm.ip)
    }
}

impl std::convert::From<StreamError> for Fatal {
    #[cold]
    fn from(error: StreamError) -> Fatal {
        match error {
            StreamError::StdoutClosed => Fatal::broken_pipe(),
            error => Fatal::new(error.to_string()),
        }
    }
}
