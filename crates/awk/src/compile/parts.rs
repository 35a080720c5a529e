//! Which global arrays are arrays of parts (`vm/parts.rs`), and the instructions for them.
//!
//! A program is compiled twice if it has any: only its instructions tell what it does with an array. An array is one if
//! `split` or `match` fills it and nothing else is done with it but to read elements and to empty it as a whole: then it
//! makes no difference that there are no elements, since nobody can ask which there are.

use awk_syntax::names::Special;
use awk_syntax::{Kind, Place, ast::*};

use super::Compiler;
use super::facts::fold;
use crate::code::*;

/// The arrays of a program, by their numbers among the globals.
pub(super) fn arrays(code: &Code) -> Vec<u32> {
    // By name any array may be reached, and lint tells of elements that are read before they are set.
    let is_open = [Special::SYMTAB, Special::LINT]
        .into_iter()
        .any(|s| code.uses(s));
    if is_open || !code.libraries.is_empty() || code.exact || !code.marks.is_empty() {
        return Vec::new();
    }
    let mut filled = vec![false; code.globals.len()];
    let mut is_other = vec![false; code.globals.len()];
    for (array, how) in code.ops.iter().filter_map(|op| op.array_use()) {
        let n = array.0 as usize;
        if n < filled.len() {
            filled[n] |= how == ArrayUse::Filled;
            is_other[n] |= how == ArrayUse::Other;
        }
    }
    (0..code.globals.len())
        .filter(|&n| filled[n] && !is_other[n] && code.global_kinds[n] == Kind::Array)
        .map(|n| n as u32)
        .collect()
}

impl<'a> Compiler<'a> {
    /// The number of an array of parts.
    pub(super) fn parts(&self, array: &ArrayExpr) -> Option<u32> {
        match self.program.place(array.name, self.inside) {
            Place::Global(n) if array.path.is_empty() => self.parts_of(Arr(n)),
            _ => None,
        }
    }

    /// The same, by the operand.
    pub(super) fn parts_of(&self, array: Arr) -> Option<u32> {
        let at = self.code.parts.iter().position(|&n| n == array.0)?;
        Some(at as u32)
    }

    /// An element of an array of parts: the instruction for one at a number that is known, or at the key.
    pub(super) fn part(&mut self, subs: &'a [Expr], at_number: impl FnOnce(u32) -> Op, at_key: Op) {
        match known_number(subs) {
            Some(at) => self.emit(at_number(at)),
            None => {
                self.key(subs);
                self.emit(at_key);
            }
        }
    }

    /// As the key.
    pub(super) fn key_part(&mut self, array: &'a ArrayExpr, subs: &'a [Expr]) -> bool {
        let (Some(parts), Some(at)) = (self.parts(array), known_number(subs)) else {
            return false;
        };
        self.emit(Op::KeyPartAt { parts, at });
        true
    }
}

fn known_number(subs: &[Expr]) -> Option<u32> {
    let [sub] = subs else {
        return None;
    };
    let n = fold(sub)?;
    let at = n as u32;
    (f64::from(at) == n).then_some(at)
}
