//! Which AWK a program is written in, and what else the caller decides about how it is read.
//!
//! Invariant: everything that reads program text takes its dialect from here; nothing asks the environment.

use crate::diagnostic::Lints;
use crate::names::{Builtin, Library, Origin, Special};

/// The AWK that a program is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dialect {
    /// gawk 5.3's language, and the namespace `pm`.
    #[default]
    Gawk,
    /// `--traditional`: what the AWK of 1988 and its heirs have; gawk's words are plain names.
    Traditional,
    /// `--posix`: POSIX alone.
    Posix,
}

impl Dialect {
    /// Whether gawk's words, built-in functions and variables have their meaning.
    pub fn is_gawk(self) -> bool {
        self == Dialect::Gawk
    }

    /// The variable with a meaning that is called `name` in this dialect.
    pub fn special(self, name: &str) -> Option<Special> {
        let special = Special::from_name(name)?;
        (self.is_gawk() || (special as usize) < Special::POSIX).then_some(special)
    }

    /// The function called `name` that this dialect has without any library, and that no program may define.
    ///
    /// `intdiv` is not among them: gawk has it in some builds only, and programs bring their own.
    pub fn builtin(self, name: &str) -> Option<Builtin> {
        let builtin = Builtin::from_name(name.as_bytes())?;
        match builtin.origin() {
            _ if builtin == Builtin::Intdiv => None,
            Origin::Posix => Some(builtin),
            Origin::Gawk | Origin::Perdure => self.is_gawk().then_some(builtin),
            Origin::Library(_) => None,
        }
    }
}

/// How a program is to be read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Its language.
    pub dialect: Dialect,
    /// Which warnings of `--lint` are wanted.
    pub lints: Lints,
    /// Whether it is refused to load libraries (`--sandbox`); what else a sandbox forbids only shows when the program runs.
    pub sandbox: bool,
    /// Libraries loaded from outside the program (`-l`).
    pub libraries: Vec<Library>,
    /// Where the reader gets a larger stack for programs that nest more than 100 levels; without one they may nest 200.
    pub lend_stack: Option<LendStack>,
}

/// Calls a function once, where it has so many bytes of stack, and comes back after it.
///
/// # Errors
/// Why there is no such stack; the function was not called.
pub type LendStack = fn(stack_bytes: usize, &mut (dyn FnMut() + Send)) -> Result<(), String>;
