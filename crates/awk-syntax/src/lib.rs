//! The AWK language: program text to tokens, tree and resolved tree, with diagnostics.
//!
//! Pure: nothing here reads files, environment or clock; what a program wants from outside itself comes through [`World`].
//! Two parties read AWK with it: the interpreter, and a planner that must know whether a one-liner may be split or moved.
//! [`load`] is the usual way in.

pub mod ast;
pub mod diagnostic;
pub mod dialect;
pub mod gettext;
pub mod independence;
pub mod lex;
pub mod lint;
pub mod names;
pub mod parse;
pub mod print;
pub mod resolve;
pub mod span;
pub mod world;

pub use diagnostic::{Diagnostic, Diagnostics, Lint, Lints, Severity};
pub use dialect::{Dialect, LendStack, Options};
pub use resolve::{Kind, Place, Resolved, load};
pub use span::{Sources, Span};
pub use world::{Included, NoWorld, World};
