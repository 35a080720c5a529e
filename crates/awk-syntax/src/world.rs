//! What the reader asks of its caller: texts and names that are not in the program itself.
//!
//! Invariant: this is the crate's only way to the outside. A caller that answers alike gets the same tree.

/// What `@include` finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Included {
    /// A file that was not read before.
    Text {
        /// How messages call it.
        name: String,
        /// What it holds.
        text: Vec<u8>,
    },
    /// A file that this program included before: it is skipped.
    AlreadyThere,
    /// A file that is one of the program's main files (`-f`), which is an error.
    MainFile,
}

/// Where functions, included files and the variables of a heap come from.
///
/// Without a method of its own an implementor has nothing: no stored functions, no variables, no files.
pub trait World {
    /// The text of a function that the program calls and does not define, `function name(...) { ... }`, maybe with
    /// `@namespace "..."; ` in front (see [`crate::Resolved::function_text`]).
    fn function_text(&mut self, _name: &str) -> Option<Vec<u8>> {
        None
    }

    /// The names of all functions that `function_text` knows.
    fn function_names(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// The names of all variables that were there before the program, and whether each is an array.
    fn global_names(&mut self) -> Vec<(String, bool)> {
        Vec::new()
    }

    /// The file that `@include "name"` means in the source called `from`.
    ///
    /// # Errors
    /// Why it cannot be read, as the end of the message ``cannot include `name': ...``.
    fn include(&mut self, _name: &str, _from: &str) -> Result<Included, String> {
        Err("this program has no files".into())
    }
}

/// Nothing outside the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoWorld;

impl World for NoWorld {}
