//! What the compiler makes and the machine runs.
//!
//! Two stacks: numbers (`f64`) and values. A third thing grows and shrinks like a stack: the text buffer, in which strings
//! are put together piece by piece; *marks* say where the current string begins. Array keys go through a *key register*
//! that the instruction before an array instruction fills.
//!
//! Invariant: an `Op` has at most 16 bytes, and every path through a piece of code leaves the stacks as high as its
//! consumer expects (`Want` in `compile.rs`).

use std::collections::HashMap;
use std::rc::Rc;

use memchr::memmem::Finder;

use awk_syntax::ast::{ArithOp, CompareOp};
use awk_syntax::names::{Builtin, Library, Origin, Special};
use awk_syntax::span::Span;
use awk_syntax::{Dialect, Kind};

use crate::fields::Splitter;
use crate::format::Format;
use crate::regex::Regex;
use crate::value::Value;

/// An array operand: a global's number, or with `LOCAL` set a parameter's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arr(pub u32);

impl Arr {
    /// Marks a parameter of the running function.
    pub const LOCAL: u32 = 1 << 31;
    /// The array on top of the stack of arrays, which is taken off: one inside another.
    pub const TOP: Arr = Arr(Arr::LOCAL - 1);
    /// See `special`.
    pub const ENVIRON: Arr = Arr::special(Special::ENVIRON);
    /// See `special`.
    pub const ARGV: Arr = Arr::special(Special::ARGV);
    /// See `special`.
    pub const PROCINFO: Arr = Arr::special(Special::PROCINFO);
    /// See `special`.
    pub const FUNCTAB: Arr = Arr::special(Special::FUNCTAB);

    /// Special arrays have numbers of their own at the top of the range of globals. SYMTAB is not among them: it has
    /// instructions of its own.
    pub const fn special(s: Special) -> Arr {
        Arr(Arr::LOCAL - 2 - s as u32)
    }

    /// Which special array it is.
    pub fn as_special(self) -> Option<Special> {
        let s = (Arr::LOCAL - 2).checked_sub(self.0)?;
        Special::ALL.get(s as usize).copied()
    }
}

/// A comparison and the outcome on which to jump, in one byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Test(u8);

impl Test {
    /// Jump if `op` gives `when`.
    pub fn new(op: CompareOp, when: bool) -> Test {
        Test(op as u8 | (u8::from(when) << 3))
    }

    /// The comparison, and the outcome on which to jump.
    pub fn parts(self) -> (CompareOp, bool) {
        const OPS: [CompareOp; 6] = [
            CompareOp::Lt,
            CompareOp::Le,
            CompareOp::Eq,
            CompareOp::Ne,
            CompareOp::Gt,
            CompareOp::Ge,
        ];
        let op = OPS.get(usize::from(self.0 & 7)).copied();
        (op.unwrap_or(CompareOp::Ge), self.0 & 8 != 0)
    }

    /// Whether to jump; `None` is an unordered pair (NaN), for which only `!=` holds.
    #[inline]
    pub fn passes(self, order: Option<std::cmp::Ordering>) -> bool {
        use std::cmp::Ordering::{Equal, Greater, Less};
        let holds = match self.0 & 7 {
            0 => order == Some(Less),
            1 => matches!(order, Some(Less | Equal)),
            2 => order == Some(Equal),
            3 => order != Some(Equal),
            4 => order == Some(Greater),
            _ => matches!(order, Some(Greater | Equal)),
        };
        holds == (self.0 & 8 != 0)
    }

    /// The same for two numbers, without the detour over `Ordering`.
    #[inline]
    pub fn passes_nums(self, a: f64, b: f64) -> bool {
        let holds = match self.0 & 7 {
            0 => a < b,
            1 => a <= b,
            2 => a == b,
            3 => a != b,
            4 => a > b,
            _ => a >= b,
        };
        holds == (self.0 & 8 != 0)
    }
}

impl std::fmt::Debug for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const SIGNS: [&str; 8] = ["<", "<=", "==", "!=", ">", ">=", "?", "?"];
        write!(
            f,
            "{}{}",
            if self.0 & 8 != 0 { "" } else { "not " },
            SIGNS[usize::from(self.0 & 7)]
        )
    }
}

/// What `++` and `--` leave on the number stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// Nothing: the value is not used.
    Nothing,
    /// The value before.
    Old,
    /// The value after.
    New,
}

/// `++` or `--`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// `--`
    pub down: bool,
    /// What stays on the number stack.
    pub leave: Leave,
}

impl Step {
    /// How many numbers stay on the stack.
    pub fn leaves(self) -> u8 {
        u8::from(self.leave != Leave::Nothing)
    }

    /// What is added.
    #[inline]
    pub fn delta(self) -> f64 {
        if self.down { -1.0 } else { 1.0 }
    }
}

/// A regular expression operand: a constant's number, or `DYNAMIC`: its text is the top string of the text buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Re(pub u32);

impl Re {
    /// Not known before the program runs.
    pub const DYNAMIC: Re = Re(u32::MAX);
}

/// Where `split` gets its separator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sep {
    /// FS
    Default,
    /// A constant's number.
    Const(u32),
    /// The value on top.
    Dynamic,
}

/// A number in the program text that no double holds.
#[derive(Clone, Debug)]
pub struct Literal {
    /// As it is written.
    pub text: Vec<u8>,
    /// The double nearest to it.
    pub near: f64,
    /// With a minus before it.
    pub minus: bool,
}

/// Where a line of output goes; the name is the top string of the text buffer (but for standard output).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum To {
    Stdout,
    File,
    Append,
    Pipe,
    Coprocess,
}

/// Where `getline` reads; a name is the top string of the text buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum From {
    Main,
    File,
    Command,
    Coprocess,
}

/// How the letters of a key are changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum KeyCase {
    AsItIs,
    Lower,
    Upper,
}

/// One-argument functions of numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum NumFn {
    Cos,
    Exp,
    Int,
    Log,
    Sin,
    Sqrt,
}

/// A string that is read where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// A global variable.
    Global(u32),
    /// A parameter.
    Local(u32),
    /// A field.
    Field(u32),
    /// The element at the key.
    Elem(Arr),
}

/// An instruction. `keep`: the assigned value stays on the stack it came from. "text" is the text buffer's top string.
#[derive(Clone, Copy, Debug)]
#[rustfmt::skip] // a table
pub enum Op {
    // -- push a number
    Num(f64),
    NumGlobal(u32), NumLocal(u32), NumSpecial(Special),
    /// `$n` / `$` of the popped number
    NumField(u32), NumFieldDyn,
    NumVal,
    /// element at the key
    NumElem(Arr),
    /// element of an array of parts (`vm/parts.rs`) at the key / at a number
    NumPart(u32), NumPartAt { parts: u32, at: u32 },

    // -- numbers to number
    Arith(ArithOp),
    ArithConst(ArithOp, f64),
    Neg, Not,
    NotVal,
    CompareNum(CompareOp), CompareVal(CompareOp), CompareText(CompareOp),
    NumFn(NumFn), Atan2,
    DropNum, DropVal,
    /// the number below the top
    DropNumUnder,

    // -- exact numbers (`--bignum`), all on the value stack
    /// a literal's number
    ExactConst(u32),
    ExactArith(ArithOp), ExactNeg, ExactPlus,
    /// top op (the one below)
    ExactSwapped(ArithOp),
    /// number, key, value to key, value op number
    ExactUnder(ArithOp),
    /// value to value + 1; with `old` the number that it was stays below
    ExactStep { down: bool, old: bool },
    /// key, value to number that it was, key, value + 1
    ExactStepUnder { down: bool },
    /// `$` of the number on top, which stays
    ValFieldPeek,

    // -- push a value
    Const(u32), Uninit,
    ValGlobal(u32), ValLocal(u32), ValSpecial(Special),
    ValField(u32), ValFieldDyn,
    ValNum,
    ValElem(Arr),
    ValPart(u32), ValPartAt { parts: u32, at: u32 },
    /// a variable or an element at the key handed on as it is, array or not
    PassLocal(u32), PassGlobal(u32), PassElem(Arr),
    /// the array itself, as an argument; a local that holds nothing becomes an array
    PushArray(Arr),

    // -- text
    TextBegin,
    /// text to a value
    TextEnd,
    AppendConst(u32),
    AppendVal { out: bool }, AppendNum { out: bool },
    AppendGlobal { n: u32, out: bool }, AppendLocal { n: u32, out: bool }, AppendSpecial { s: Special, out: bool },
    AppendField { n: u32, out: bool }, AppendFieldDyn { out: bool },
    /// `$` of the number on top, which stays
    AppendFieldPeek,
    AppendElem { array: Arr, out: bool },
    AppendPart(u32), AppendPartAt { parts: u32, at: u32 },
    AppendSubsep, AppendOfs, AppendOrs,

    // -- key register
    KeyText, KeyNum, KeyVal,
    /// the value on top, which stays
    KeyPeek,
    /// the value under the top, which goes
    KeyUnder,
    KeyConst(u32), KeyGlobal(u32), KeyLocal(u32), KeyField(u32),
    /// `$` of the popped number
    KeyFieldDyn,
    /// an element of an array of parts
    KeyPartAt { parts: u32, at: u32 },

    // -- store: value or number from its stack
    StoreGlobal { n: u32, keep: bool }, StoreNumGlobal { n: u32, keep: bool },
    /// a field becomes a global, in the memory of the string that it was
    FieldToGlobal { field: u32, n: u32 },
    StoreLocal { n: u32, keep: bool }, StoreNumLocal { n: u32, keep: bool },
    StoreSpecial { s: Special, keep: bool },
    /// field number on top of the number stack
    StoreField { keep: bool },
    /// field number below the top of the number stack, which goes
    StoreFieldUnder,
    StoreElem { array: Arr, keep: bool }, StoreNumElem { array: Arr, keep: bool },
    /// `s = s text`
    GrowGlobal(u32), GrowLocal(u32),
    /// an error if the global is an array: it is about to be assigned a value
    ScalarGlobal(u32),
    /// `target op= number`
    ArithGlobal { n: u32, op: ArithOp, keep: bool }, ArithLocal { n: u32, op: ArithOp, keep: bool },
    ArithSpecial { s: Special, op: ArithOp, keep: bool }, ArithField { op: ArithOp, keep: bool },
    ArithElem { array: Arr, op: ArithOp, keep: bool },
    StepGlobal { n: u32, step: Step }, StepLocal { n: u32, step: Step },
    StepSpecial { s: Special, step: Step }, StepField(Step), StepElem { array: Arr, step: Step },
    /// `a[$n]++` in one
    StepElemField { array: Arr, field: u32, step: Step },
    /// `a[$i]++` for all `i` to NF, of a global `i`: the loop that follows finds nothing left to do, or does it
    CountFields { array: Arr, var: u32, case: KeyCase, down: bool },

    // -- jumps
    /// the body of a loop, by its number, begins: from here native code may go on
    Loop(u32),
    Jump(u32),
    JumpNum { when: bool, to: u32 }, JumpVal { when: bool, to: u32 },
    JumpCompareNum { test: Test, to: u32 }, JumpCompareVal { test: Test, to: u32 }, JumpCompareText { test: Test, to: u32 },
    JumpCompareConst { test: Test, to: u32, n: f64 },
    JumpCompareField { test: Test, field: u16, to: u32, n: f64 },
    /// a variable with a constant number
    JumpCompareGlobal { test: Test, var: u16, to: u32, n: f64 }, JumpCompareLocal { test: Test, var: u16, to: u32, n: f64 },
    JumpMatchRecord { re: u32, when: bool, to: u32 },
    JumpIn { array: Arr, when: bool, to: u32 },
    /// range pattern number: whether it is running
    JumpRange { n: u32, to: u32 },
    SetRange { n: u32, on: bool },
    /// the number on top is not above 0; it stays
    JumpNone { to: u32 },

    // -- arrays in arrays
    /// the array in the element at the key, to the stack of arrays; an element that holds nothing becomes one
    SubArray(Arr),
    DupArray, DropArray,
    /// the same, but jumps if there is no such element
    FindArray { array: Arr, to: u32 },

    // -- SYMTAB: the variable whose name is the key
    ValSymbol, PassSymbol, StoreSymbol { keep: bool }, ArithSymbol { op: ArithOp, keep: bool }, InSymbol, ForSymbols,
    /// to the stack of arrays: the array of that name; a copy of SYMTAB
    SymbolArray, AllSymbols,

    // -- switch: jumps if the value on top, which stays, is that of the case
    JumpCase { value: u32, to: u32 },
    ExactCase { literal: u32, to: u32 },

    // -- matching, arrays
    MatchRecord(Re), MatchField { field: u32, re: Re }, MatchText(Re),
    In(Arr), DeleteElem(Arr), DeleteArray(Arr),
    DeleteParts(u32),
    ForIn(Arr), ForNext { end: u32 }, ForEnd,

    // -- functions
    Call { function: u32, args: u32 },
    /// of a function that there is not
    CallUndefined { name: u32 },
    /// by the name that lies, as a value, under the arguments
    CallIndirect { args: u32 },
    /// a function of the language that has no instruction of its own; arguments and result are values
    Builtin { which: Builtin, args: u32 },
    /// with the value on top
    Return,

    // -- built-in functions
    LengthText, LengthRecord, LengthHeld(Held),
    /// of the array on the value stack
    LengthArray,
    /// a variable that may be an array
    LengthVariable(Held),
    Substr { bounded: bool }, SubstrHeld { held: Held, bounded: bool },
    /// a global string becomes a part of itself
    CutGlobal { n: u32, bounded: bool },
    /// a part of a string becomes the key
    KeySubstr { held: Held, bounded: bool },
    /// a character of a string, whose place a global variable has, becomes the key
    KeyLetter { held: Held, at: u32 },
    Index, ToLower, ToUpper,
    /// the place of a constant text
    IndexHeld { held: Held, wanted: u32 },
    Match(Re), MatchHeld { held: Held, re: Re },
    /// the same of the text, with an array for the groups
    MatchGroups { array: Arr, re: Re },
    Split { array: Arr, sep: Sep },
    /// the same two for an array of parts
    MatchParts { parts: u32, re: Re }, SplitParts { parts: u32, sep: Sep },
    /// whether the value on top, which is the target of the `Sub` that comes next, is a regular expression: so is the result
    NoteTarget,
    /// text: replacement, then target; leaves the count, and the new text as a value if there is any
    Sub { re: Re, global: bool },
    /// the same of `$0`, which gets the new text, with a constant replacement
    SubRecord { re: Re, replacement: u32, global: bool },
    Sprintf(u32), SprintfConst { format: u32, args: u32 },
    Rand, Srand { given: bool },
    Close, CloseSide, Fflush { named: bool }, System,
    /// leaves the status on the number stack; if `into_value` and above 0, the line on the value stack
    Getline { from: From, into_value: bool },
    /// the same into a global variable
    GetlineGlobal { from: From, n: u32 },
    /// the same at once, and a jump, if the global `name` still names the file that was read last and a line lies ready
    GetlineAgain { name: u32, n: u32, to: u32 },

    // -- output
    PrintRecord, Write(To),
    /// values, from the stack, with OFS and ORS
    Print { args: u32 },
    /// values to text by format
    Printf(u32), PrintfConst { format: u32, args: u32 },

    // -- places that somebody watches: only in code that is compiled for a profile or the debugger
    Mark(u32),

    // -- what several processes are to make of the input together (`-j`): only in code that is compiled for it
    /// the number on top, which stays, is about to be added to a sum
    CheckWhole,
    /// the value on top, which goes, is about to be compared
    CheckNumber,

    // -- flow of records
    BeginDone, BlockEnd, NextRecord { end: u32 },
    /// the same, where the rules do nothing but `a[$n]++`
    NextCounted { array: Arr, field: u32, down: bool, end: u32 },
    /// the same, where they do nothing but `n += $field`; `checked`: with a `CheckWhole`
    NextSummed { n: u32, field: u32, checked: bool, end: u32 },
    Next, NextFile, Exit { given: bool }, Halt,
}

const _: () = assert!(size_of::<Op>() <= 16);

impl Op {
    /// Where a jump goes.
    pub fn target_mut(&mut self) -> Option<&mut u32> {
        match self {
            Op::Jump(to)
            | Op::JumpNum { to, .. }
            | Op::JumpVal { to, .. }
            | Op::JumpCompareNum { to, .. }
            | Op::JumpCompareVal { to, .. }
            | Op::JumpCompareText { to, .. }
            | Op::JumpCompareConst { to, .. }
            | Op::JumpCompareField { to, .. }
            | Op::JumpCompareGlobal { to, .. }
            | Op::JumpCompareLocal { to, .. }
            | Op::JumpMatchRecord { to, .. }
            | Op::JumpIn { to, .. }
            | Op::JumpRange { to, .. }
            | Op::JumpNone { to }
            | Op::JumpCase { to, .. }
            | Op::ExactCase { to, .. }
            | Op::FindArray { to, .. }
            | Op::GetlineAgain { to, .. }
            | Op::ForNext { end: to }
            | Op::NextRecord { end: to }
            | Op::NextCounted { end: to, .. }
            | Op::NextSummed { end: to, .. } => Some(to),
            _ => None,
        }
    }

    /// As [`Op::target_mut`].
    pub fn target(mut self) -> Option<u32> {
        self.target_mut().copied()
    }

    /// The array that an instruction looks into at the key register.
    pub fn element(self) -> Option<Arr> {
        match self {
            Op::NumElem(array)
            | Op::ValElem(array)
            | Op::StoreElem { array, .. }
            | Op::StoreNumElem { array, .. }
            | Op::ArithElem { array, .. }
            | Op::StepElem { array, .. }
            | Op::In(array)
            | Op::JumpIn { array, .. }
            | Op::DeleteElem(array) => Some(array),
            _ => None,
        }
    }

    /// Whether the instruction before may be one that sets the key register for this one.
    pub fn takes_key(self) -> bool {
        self.element().is_some() || matches!(self, Op::NumPart(_))
    }

    /// The array that an instruction does something with, and what.
    pub fn array_use(self) -> Option<(Arr, ArrayUse)> {
        match self {
            Op::Split { array, .. } | Op::MatchGroups { array, .. } => {
                Some((array, ArrayUse::Filled))
            }
            Op::NumElem(array)
            | Op::ValElem(array)
            | Op::AppendElem { array, .. }
            | Op::DeleteArray(array)
            | Op::LengthHeld(Held::Elem(array))
            | Op::SubstrHeld {
                held: Held::Elem(array),
                ..
            } => Some((array, ArrayUse::Read)),
            Op::StoreElem { array, .. }
            | Op::StoreNumElem { array, .. }
            | Op::ArithElem { array, .. }
            | Op::StepElem { array, .. }
            | Op::StepElemField { array, .. }
            | Op::CountFields { array, .. }
            | Op::NextCounted { array, .. }
            | Op::JumpIn { array, .. }
            | Op::FindArray { array, .. }
            | Op::SubArray(array)
            | Op::In(array)
            | Op::DeleteElem(array)
            | Op::ForIn(array)
            | Op::PassElem(array)
            | Op::PushArray(array)
            | Op::KeySubstr {
                held: Held::Elem(array),
                ..
            }
            | Op::KeyLetter {
                held: Held::Elem(array),
                ..
            }
            | Op::IndexHeld {
                held: Held::Elem(array),
                ..
            }
            | Op::MatchHeld {
                held: Held::Elem(array),
                ..
            } => Some((array, ArrayUse::Other)),
            Op::PassGlobal(n) | Op::LengthVariable(Held::Global(n)) => {
                Some((Arr(n), ArrayUse::Other))
            }
            _ => None,
        }
    }
}

/// What an instruction does with an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayUse {
    /// Puts parts of a string into it.
    Filled,
    /// Reads an element, or empties it.
    Read,
    /// Anything else.
    Other,
}

/// What happens at a marked place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A statement begins.
    Statement,
    /// The body of a loop begins.
    Body,
    /// A condition of `if` after the first is about to be computed.
    Condition,
    /// The condition of an `if`, or the pattern of a rule, was true.
    True,
    /// The pattern of a rule is about to be tried.
    Rule,
    /// A case of a `switch` is entered.
    Case,
    /// A function was called.
    Function,
}

/// A marked place.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// What happens here.
    pub event: Event,
    /// The part of the tree that it happens to: its span, as [`awk_syntax::print::Counts`] has it.
    pub span: Span,
}

/// A compiled function.
#[derive(Debug)]
pub struct FunctionCode {
    /// For messages.
    pub name: String,
    /// First instruction.
    pub entry: u32,
    /// Names of the parameters, locals included.
    pub params: Vec<String>,
    /// Whether a parameter may hold an array made during the call.
    pub has_arrays: bool,
}

/// A compiled program.
#[derive(Default)]
pub struct Code {
    /// Instructions: BEGIN rules, the record loop, END rules, functions.
    pub ops: Vec<Op>,
    /// The place of each instruction in the program text.
    pub spans: Vec<Span>,
    /// Constant values.
    pub consts: Vec<Value>,
    /// Literals that are read when a run begins (`--bignum`).
    pub literals: Vec<Literal>,
    /// The arithmetic is that of exact numbers.
    pub exact: bool,
    /// Constant regular expressions.
    pub regexes: Vec<Rc<Regex>>,
    /// Constant separators of `split`, and the values that they were made of.
    pub splitters: Vec<(Rc<Splitter>, Value)>,
    /// Constant texts that `index` looks for.
    pub wanted: Vec<Finder<'static>>,
    /// Constant formats.
    pub formats: Vec<Rc<Format>>,
    /// Names of the global variables by number.
    pub globals: Vec<String>,
    /// What each is used as.
    pub global_kinds: Vec<Kind>,
    /// Functions by number.
    pub functions: Vec<FunctionCode>,
    /// How many range patterns there are.
    pub ranges: u32,
    /// The instructions of loops by number, from their [`Op::Loop`] to the jump back.
    pub loops: Vec<std::ops::Range<u32>>,
    /// Marked places by number.
    pub marks: Vec<Mark>,
    /// First instruction of the record loop.
    pub main_start: u32,
    /// First instruction of the END rules.
    pub end_start: u32,
    /// Global arrays that the rules for records look into, with a field as the key.
    pub looked_up: Vec<(Arr, u32)>,
    /// Which global arrays are arrays of parts (`vm/parts.rs`): their place in this list is their number.
    pub parts: Vec<u32>,
    /// What every record contains that some rule for records acts on.
    pub required: Vec<Finder<'static>>,
    /// Whether there is any rule that needs input read.
    pub reads_input: bool,
    /// First instruction of the BEGINFILE rules, and of the ENDFILE rules, if there are any.
    pub begin_file: Option<u32>,
    /// See `begin_file`.
    pub end_file: Option<u32>,
    /// Which special variables occur, by number.
    specials: u64,
    /// Functions by name, for calls by name.
    pub function_numbers: HashMap<String, u32>,
    /// The language of the program.
    pub dialect: Dialect,
    /// Libraries that the program loaded.
    pub libraries: Vec<Library>,
}

impl Code {
    /// Notes that a special variable occurs.
    pub fn use_special(&mut self, s: Special) {
        self.specials |= match s {
            Special::SYMTAB => u64::MAX, // by name any may be reached
            s => 1 << s as u32,
        };
    }

    /// Whether a function of the language can be called.
    pub fn has_builtin(&self, which: Builtin) -> bool {
        match which.origin() {
            Origin::Library(library) => self.libraries.contains(&library),
            Origin::Posix | Origin::Gawk | Origin::Perdure => true,
        }
    }

    /// Whether a special variable occurs.
    #[inline]
    pub fn uses(&self, s: Special) -> bool {
        self.specials & (1 << s as u32) != 0
    }

    /// The instructions of function `f`.
    pub fn function_range(&self, f: u32) -> std::ops::Range<u32> {
        let next = self.functions.get(f as usize + 1);
        let end = next.map_or(self.ops.len() as u32, |next| next.entry);
        self.functions[f as usize].entry..end
    }

    /// One instruction per line (`--dump=code`).
    pub fn print(&self) -> String {
        let mut out = String::new();
        for (at, op) in self.ops.iter().enumerate() {
            for f in &self.functions {
                if f.entry as usize == at {
                    out.push_str(&format!(
                        "function {} ({} parameters)\n",
                        f.name,
                        f.params.len()
                    ));
                }
            }
            if at == self.main_start as usize {
                out.push_str("records:\n");
            }
            if at == self.end_start as usize {
                out.push_str("end:\n");
            }
            out.push_str(&format!("{at:5}  {op:?}\n"));
        }
        out
    }
}
