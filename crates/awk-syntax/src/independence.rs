//! Whether the records of a program's input can be processed apart, and what then becomes of its variables.
//!
//! A program that qualifies may be run on stretches of its input by several machines, each of which begins with what BEGIN
//! left; put together in the order of the input, their variables are those of one machine that read it all. What END then
//! does is its own business.
//!
//! Invariant: a plan promises nothing about values. Sums are exact only if what is added is a whole number, extremes have an
//! order only among numbers: whoever runs the program looks at that, and goes back to one machine where it fails.

use crate::ast::*;
use crate::names::Special;
use crate::resolve::Resolved;
use crate::span::Span;

mod flow;
mod shapes;
#[cfg(test)]
mod tests;
mod uses;

pub use shapes::{Extreme, extreme, summand};

/// How the value that a machine left is put to that of the machines before it. For an array: how each element is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// Added: `x++`, `x += n`. Each machine begins with nothing.
    Sum,
    /// Joined: `x = x text`. Each machine begins with nothing.
    Append,
    /// The larger one, or the smaller: `if (n > x) x = n`. Each machine begins with what BEGIN left.
    Extreme {
        /// The larger.
        greater: bool,
        /// The first value counts whatever it is: `x == "" ||` or `!(k in x) ||` stands before the comparison.
        guarded: bool,
    },
    /// The last one that was assigned counts.
    Last,
    /// It counts if this other global does, which is an `Extreme`: `if (n > x) { x = n; y = $0 }`.
    Follow(u32),
}

/// The same for arrays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MergeArray {
    /// Element by element.
    Elements(Merge),
    /// Elements are made by looking at them, and hold nothing.
    Made,
    /// Each record makes it anew; the last one that did counts.
    Whole,
}

/// What becomes of the variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Global scalars that the rules for records change, by number.
    pub scalars: Vec<(u32, Merge)>,
    /// Global arrays that they change.
    pub arrays: Vec<(u32, MergeArray)>,
    /// They read NR or FNR.
    pub counts_records: bool,
    /// They call `match`, which sets RSTART and RLENGTH.
    pub matches: bool,
    /// They print, to standard output.
    pub prints: bool,
    /// They go through arrays with `for (k in a)`.
    pub loops: bool,
}

impl Plan {
    /// How a global scalar is put together; none if no record changes it.
    pub fn scalar(&self, number: u32) -> Option<Merge> {
        let mut list = self.scalars.iter();
        list.find(|(n, _)| *n == number).map(|(_, merge)| *merge)
    }

    /// The same for a global array.
    pub fn array(&self, number: u32) -> Option<MergeArray> {
        let mut list = self.arrays.iter();
        list.find(|(n, _)| *n == number).map(|(_, merge)| *merge)
    }
}

/// Why records depend on each other, and where that is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// For people, without the place.
    pub what: String,
    /// The place.
    pub span: Span,
}

/// The plan for a program, or every reason against one, in the order of the source.
///
/// # Errors
/// Those reasons: never none.
pub fn plan(program: &Resolved) -> Result<Plan, Vec<Reason>> {
    let mut flow = flow::Flow::new(program);
    let mut any = false;
    let mut path = flow.start();
    for rule in &program.rules {
        match &rule.pattern {
            Pattern::Begin | Pattern::End => continue,
            Pattern::BeginFile | Pattern::EndFile => {
                let what = "BEGINFILE and ENDFILE rules see each file's end";
                flow.refuse(rule.span, what.to_string());
            }
            Pattern::Always | Pattern::Expr(_) | Pattern::Range(..) => {
                any = true;
                flow.rule(rule, &mut path);
            }
        }
    }
    if !any {
        let span = program.rules.first().map_or(Span::default(), |r| r.span);
        flow.refuse(span, "no rule processes records".to_string());
    }
    flow.finish()
}

/// Whether a special variable may be assigned while records are read: what it does ends with the record.
fn ends_with_record(special: Special) -> bool {
    special == Special::NF
}
