//! Calls: frames, functions by name, and code that the machine runs in the middle of an instruction.
//!
//! Invariant: a frame's variables are the values from its `base` on; whatever a call put on any stack is gone when it returns,
//! but for its result.

use awk_syntax::names::Builtin;

use super::{FRAMES_MAX, Phase, Vm};
use crate::error::{Fatal, Step as Result};
use crate::value::{ArrayRef, Link, Value};

/// The return address of code that was called in the middle of an instruction.
const NESTED: u32 = u32::MAX;
/// The function number of the BEGINFILE and ENDFILE rules, which are called as functions are.
pub(super) const BLOCK: u32 = u32::MAX;
/// Deepest nesting of calls in the middle of an instruction (a comparison function that sorts with a comparison function):
/// these take the stack of the process.
const NESTED_MAX: u32 = 200;

pub(super) struct Frame {
    back: u32,
    base: u32,
    function: u32,
    iters: u32,
    arrays: u32,
    handed: u32,
}

impl Frame {
    pub(super) fn back(&self) -> u32 {
        self.back
    }

    pub(super) fn base(&self) -> u32 {
        self.base
    }

    pub(super) fn function(&self) -> u32 {
        self.function
    }
}

/// How a stretch of code came to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    /// The program is over.
    Halted,
    /// The call in the middle of an instruction returned; its value is on the stack.
    Returned,
    /// A BEGINFILE rule wants the next file.
    NextFile,
    /// The next instruction is not one that was to be run.
    Left,
}

impl Vm<'_> {
    /// Empties what a rule that is left early may have on the stacks.
    pub(super) fn unwind(&mut self) -> Result<()> {
        while !self.frames.is_empty() {
            self.leave_frame()?;
        }
        self.nums.clear();
        self.vals.clear();
        self.text.clear();
        self.marks.clear();
        self.iters.clear();
        self.arrays.clear();
        self.handed.clear();
        self.store.bury()
    }

    /// Frees the frame's arrays, drops its variables and gives the address to return to.
    pub(super) fn leave_frame(&mut self) -> Result<usize> {
        let Some(frame) = self.frames.pop() else {
            return Err(Fatal::new("return without a call"));
        };
        if self.function != BLOCK && self.code.functions[self.function as usize].has_arrays {
            for at in self.base..self.vals.len() {
                if let Value::Array(array @ ArrayRef { owned: true, .. }) = self.vals[at] {
                    self.store.free_array(array)?;
                }
            }
        }
        self.vals.truncate(self.base);
        self.iters.truncate(frame.iters as usize);
        self.arrays.truncate(frame.arrays as usize);
        self.handed.truncate(frame.handed as usize);
        self.base = frame.base as usize;
        self.function = frame.function;
        if self.frames.is_empty() && self.nesting == 0 {
            self.store.bury()?;
        }
        Ok(frame.back as usize)
    }

    #[inline]
    pub(super) fn push_frame(&mut self, back: usize, function: u32, args: u32, handed: u32) {
        self.frames.push(Frame {
            back: back as u32,
            base: self.base as u32,
            function: self.function,
            iters: self.iters.len() as u32,
            arrays: self.arrays.len() as u32,
            handed,
        });
        self.base = self.vals.len() - args as usize;
        self.function = function;
    }

    pub(super) fn enter(&mut self, function: u32, args: u32) -> Result<()> {
        let code = self.code;
        let target = &code.functions[function as usize];
        if self.frames.len() >= FRAMES_MAX {
            return Err(Fatal::new(format!(
                "function `{}`: calls nested {FRAMES_MAX} deep",
                target.name
            )));
        }
        let handed = if self.handed.is_empty() {
            0
        } else {
            self.handed_before(&self.vals[self.vals.len() - args as usize..])
        };
        self.push_frame(self.ip, function, args, handed as u32);
        for _ in args as usize..target.params.len() {
            self.vals.push(Value::Uninit);
        }
        self.ip = target.entry as usize;
        Ok(())
    }

    /// How many elements had been handed over before those among the arguments.
    pub(super) fn handed_before(&self, args: &[Value]) -> usize {
        let elements = args.iter().filter_map(|v| match v {
            Value::Link(Link::Elem(at)) => Some(*at as usize),
            _ => None,
        });
        elements.min().unwrap_or(self.handed.len())
    }

    /// `@f(...)`: the name lies under the arguments.
    pub(super) fn call_indirect(&mut self, args: u32) -> Result<()> {
        let at = self.vals.len() - args as usize - 1;
        let name = self.settings.text_of(&self.vals[at]);
        let shown = String::from_utf8_lossy(&name).into_owned();
        let plain = shown.strip_prefix("awk::").unwrap_or(&shown);
        if let Some(&function) = self.code.function_numbers.get(plain) {
            let takes = self.code.functions[function as usize].params.len() as u32;
            if args > takes {
                self.warn(&format!(
                    "function `{shown}` takes {takes} argument(s), here are {args}; the rest is forgotten"
                ));
                self.vals.truncate(at + 1 + takes as usize);
            }
            self.vals.remove(at);
            return self.enter(function, args.min(takes));
        }
        let Some(which) =
            Builtin::from_name(plain.as_bytes()).filter(|b| self.code.has_builtin(*b))
        else {
            return Err(Fatal::new(format!(
                "indirect call: there is no function `{shown}`"
            )));
        };
        let (least, most) = which.arity();
        if (args as usize) < least || args as usize > most {
            return Err(Fatal::new(format!(
                "indirect call: `{shown}` cannot take {args} argument(s)"
            )));
        }
        let values = self.vals.split_off(at + 1);
        self.vals.pop();
        let result = self.any_builtin(which, values)?;
        self.vals.push(result);
        Ok(())
    }

    /// Calls an AWK function in the middle of an instruction.
    ///
    /// # Errors
    /// What ends the function early; `next` and `exit` are such errors here.
    pub(crate) fn call_function(&mut self, function: u32, args: &[Value]) -> Result<Value> {
        let takes = self.code.functions[function as usize].params.len();
        if args.len() > takes && self.nesting == 0 && !self.told_arguments {
            // Once: a sort calls it very often.
            self.told_arguments = true;
            let name = self.code.functions[function as usize].name.clone();
            self.warn(&format!(
                "function `{name}` takes {takes} argument(s), here are {}; the rest is forgotten",
                args.len()
            ));
        }
        let args = &args[..args.len().min(takes)];
        let back = self.nest()?;
        self.vals.extend_from_slice(args);
        self.enter(function, args.len() as u32)?;
        if let Some(frame) = self.frames.last_mut() {
            frame.back = NESTED;
        }
        self.execute()?;
        self.nesting -= 1;
        self.ip = back;
        Ok(self.pop_val())
    }

    /// Runs the BEGINFILE or ENDFILE rules; false if they want the next file.
    pub(super) fn call_block(&mut self, entry: u32, phase: Phase) -> Result<bool> {
        let back = self.nest()?;
        let phase = std::mem::replace(&mut self.phase, phase);
        let depth = self.frames.len();
        let heights = (
            self.nums.len(),
            self.vals.len(),
            self.marks.len(),
            self.text.len(),
        );
        self.push_frame(NESTED as usize, BLOCK, 0, self.handed.len() as u32);
        self.ip = entry as usize;
        let flow = self.execute()?;
        if flow == Flow::NextFile {
            while self.frames.len() > depth {
                self.leave_frame()?;
            }
            self.nums.truncate(heights.0);
            self.vals.truncate(heights.1);
            self.marks.truncate(heights.2);
            self.text.truncate(heights.3);
        } else if flow == Flow::Returned {
            self.vals.pop();
        }
        self.nesting -= 1;
        self.ip = back;
        self.phase = phase;
        Ok(flow != Flow::NextFile)
    }

    /// Refuses what would leave the instruction that made the call.
    pub(super) fn not_nested(&self, word: &str) -> Result<()> {
        if self.nesting == 0 {
            return Ok(());
        }
        Err(Fatal::new(format!(
            "`{word}` cannot be called from a comparison function"
        )))
    }

    fn nest(&mut self) -> Result<usize> {
        if self.nesting >= NESTED_MAX {
            return Err(Fatal::new(format!(
                "comparison functions nested {NESTED_MAX} deep"
            )));
        }
        self.nesting += 1;
        Ok(self.ip)
    }

    /// Where a `return` goes on: in the code, or in the instruction that made the call.
    #[inline]
    pub(super) fn return_to(&mut self, back: usize) -> Option<Flow> {
        self.ip = back;
        (back == NESTED as usize).then_some(Flow::Returned)
    }
}
