//! The AWK language: program text to tokens, tree and resolved tree, with diagnostics.
//!
//! Pure: nothing here reads files, environment or clock. Two parties read AWK with it: the interpreter, and a planner that
//! must know whether a one-liner may be split or moved. [`load`] is the usual way in.

pub mod ast;
pub mod diagnostic;
pub mod lex;
pub mod names;
pub mod parse;
pub mod print;
pub mod resolve;
pub mod span;

pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use resolve::{FunctionSource, Kind, Place, Resolved, load};
pub use span::{Sources, Span};
