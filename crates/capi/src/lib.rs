//! libperdure: the door of the house for C and C++. What the functions do for their callers is in `include/perdure.h` and `include/pma.h`;
//! here is how.
//!
//! The invariant: nothing unwinds into C, and no pointer from C is followed but those that the headers say must be good. Pointers into a
//! heap come as addresses and are offsets from here on, which the heap checks.

mod blocks;
mod calls;
mod errors;
mod files;
mod gate;
mod handle;
mod marks;
mod pma;
mod report;
mod sync;

pub use blocks::*;
pub use calls::*;
pub use errors::{perdure_message, perdure_strerror};
pub use files::*;
pub use marks::{__perdure_mark, __perdure_mark_lines, perdure_mark};
pub use pma::*;
pub use report::perdure_report;
