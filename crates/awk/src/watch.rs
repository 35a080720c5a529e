//! Those who watch a run from the side: the profile (`-p`) and the trace (`-I`).
//!
//! Invariant: watching changes nothing in the run but its speed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Write;
use std::rc::Rc;

use awk_syntax::Span;
use awk_syntax::print::Counts;

use crate::code::Event;
use crate::error::Step;
use crate::vm::{Vm, Watch};

/// How often each part of a program ran. Clones share the numbers.
#[derive(Clone, Default)]
pub struct Profile(Rc<RefCell<Numbers>>);

#[derive(Default)]
struct Numbers {
    ran: HashMap<Span, u64>,
    was_true: HashMap<Span, u64>,
    /// What the marks of the program mean, by number.
    loops: HashMap<Span, ()>,
}

impl Watch for Profile {
    fn passes(&mut self, vm: &mut Vm<'_>, mark: u32) -> Step<()> {
        let mark = vm.code.marks[mark as usize];
        let numbers = &mut *self.0.borrow_mut();
        match mark.event {
            Event::True => *numbers.was_true.entry(mark.span).or_default() += 1,
            // Of a loop the beginnings of its body count and not its own.
            Event::Body => {
                if numbers.loops.insert(mark.span, ()).is_none() {
                    numbers.ran.insert(mark.span, 0);
                }
                *numbers.ran.entry(mark.span).or_default() += 1;
            }
            Event::Statement if numbers.loops.contains_key(&mark.span) => {}
            Event::Statement | Event::Condition | Event::Rule | Event::Case | Event::Function => {
                *numbers.ran.entry(mark.span).or_default() += 1
            }
        }
        Ok(())
    }
}

impl Counts for Profile {
    fn ran(&self, place: Span) -> u64 {
        self.0.borrow().ran.get(&place).copied().unwrap_or(0)
    }

    fn was_true(&self, place: Span) -> u64 {
        self.0.borrow().was_true.get(&place).copied().unwrap_or(0)
    }
}

/// Writes each statement before it runs.
pub struct Trace(pub Box<dyn Write>);

impl Watch for Trace {
    fn passes(&mut self, vm: &mut Vm<'_>, mark: u32) -> Step<()> {
        let mark = vm.code.marks[mark as usize];
        if mark.event == Event::Statement {
            let text = String::from_utf8_lossy(vm.program.sources.slice(mark.span)).into_owned();
            let first = text.lines().next().unwrap_or_default();
            let place = vm.program.sources.place(mark.span);
            // A trace that nobody can read ends nothing.
            let _ = writeln!(self.0, "+ {place}: {first}");
        }
        Ok(())
    }
}
