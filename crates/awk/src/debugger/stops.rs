//! Where a run stops: breakpoints, watched variables, and how far a step goes.
//!
//! Invariant: numbers are never given twice in a session.

/// A place to stop at.
#[derive(Clone, Debug)]
pub struct Breakpoint {
    pub number: u32,
    pub source: u32,
    pub line: usize,
    pub enabled: bool,
    /// Deleted when it was hit.
    pub temporary: bool,
    /// An expression that must be true.
    pub condition: Option<String>,
    /// Hits that do not stop.
    pub ignore: u64,
    pub hits: u64,
    /// What is done when it stops.
    pub commands: Vec<String>,
}

/// A variable, field or element whose change stops the run.
#[derive(Clone, Debug)]
pub struct Watchpoint {
    pub number: u32,
    pub text: String,
    /// Its value as it was shown last.
    pub value: String,
    pub condition: Option<String>,
}

/// How far the run goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// To a breakpoint or the end.
    Continue,
    /// That many places.
    Step(u64),
    /// The same, without those in functions called from this depth.
    Next(u64, usize),
    /// Until calls are less deep.
    Finish(usize),
    /// To a later line, or a given one, at this depth or above.
    Until(usize, usize),
}
