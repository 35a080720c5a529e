//! Where the stages of a pipeline should run: a pure function from facts to a plan.
//!
//! [`Facts`] go in, a [`Plan`] comes out; [`explain`] says it to people. The invariants: what the rules of `rules.rs` forbid is in no
//! plan; no plan is expected to take longer than running everything here; the same facts give the same plan.

use std::ops::Range;

mod choose;
mod commands;
mod cost;
mod cuts;
pub mod explain;
mod facts;
mod givers;
mod rules;
mod search;
mod split;
mod volume;

pub use choose::plan;
pub use commands::{goes_below, matters};
pub use cuts::{cuts, line_start};
pub use facts::*;
pub use givers::{depth, is_plain};
pub use volume::{call_key, selectivity_key};

use serde::{Deserialize, Serialize};

use crate::annotation::Status;
use crate::program::SumColumn;

/// What should be done.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Stages that run elsewhere; those in no group run as if there were no plan.
    pub groups: Vec<Group>,
    /// For each stage, where and why.
    pub stages: Vec<Reason>,
    /// What it is expected to cost.
    pub cost: Cost,
    /// What running everything here is expected to cost.
    pub here: Cost,
    /// What else was thought of, the best first, and why it was not taken.
    pub rejected: Vec<Alternative>,
}

/// Consecutive stages that run elsewhere. The first of `stages` reads what the shell gave it, or files; the last one's output goes
/// where the shell wants it.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// Which stages.
    pub stages: Range<usize>,
    /// How the first of them are run: each lane runs all of them, on its part of the input. Never empty.
    pub lanes: Vec<Lane>,
    /// The stages up to here (exclusive) are in the lanes; the rest runs once, at `place`.
    pub lanes_end: usize,
    /// How the lanes' outputs become one; with one lane there is nothing to do.
    pub combine: Option<Combining>,
    /// Where the lanes' outputs come together, and the stages from `lanes_end` on run. With one lane: its host.
    pub place: Place,
    /// Files that stages from `lanes_end` on read, and that are elsewhere.
    pub moved: Vec<Moved>,
    /// Stages whose files another one names.
    pub listed: Vec<Listed>,
    /// For each stage in the lanes, how the lanes' exit statuses become one.
    pub statuses: Vec<Status>,
    /// It may be run again from the start if it fails: it leaves nothing behind that a second run does not, and its input is files.
    pub repeatable: bool,
    /// It is right only if the operands of the first stage, all but the last, end with a newline or are empty, as [`Named::ends_line`] said.
    pub line_ends: bool,
    /// It is right only if what the first stage prints in a lane, in all but the last, ends with a newline or is empty.
    pub lines_looked_at: bool,
    /// It may turn out while it runs that one process would have printed something else than its lanes: then all of it is run again, so it must leave
    /// nothing behind.
    pub is_doubtful: bool,
    /// Standard output is a file of `place`, and is written there.
    pub writes_there: bool,
    /// What is expected to come out.
    pub output_bytes: f64,
}

/// A stage that reads files whose names another one prints: both are in one group, in one place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    /// Which stage.
    pub stage: usize,
    /// Who names them: all are in the trees that this one names.
    pub by: usize,
    /// It is right only if no name in those trees has anything in it that may part words.
    pub plain: bool,
    /// How many folders deep names are, if that is limited.
    pub depth: Option<u32>,
}

/// A process, or several with pipes between them, on one host.
#[derive(Clone, PartialEq, Debug)]
pub struct Lane {
    /// On which.
    pub host: usize,
    /// Its part of the input.
    pub part: Part,
    /// The words of the first stage for this part; other stages have theirs.
    pub words: Vec<Vec<u8>>,
    /// Files that its stages read, and that are elsewhere.
    pub moved: Vec<Moved>,
    /// How much of the input it is, of 1.
    pub share: f64,
    /// What is expected to come out.
    pub output_bytes: f64,
}

/// Which part of the input a lane has.
#[derive(Clone, PartialEq, Debug)]
pub enum Part {
    /// All of it.
    All,
    /// These operands, by the numbers of their words; `Lane::words` has no others.
    Operands(Vec<usize>),
    /// The lines of a file whose first byte is in this range, on standard input. `Lane::words` names no file instead of it. The first line
    /// that begins at or behind `from` is found by looking at the file ([`cuts()`]); `None` as an end is the end of the file.
    Lines {
        /// Which file: a word of the first stage and where in it the name begins, or its standard input.
        file: Option<(usize, usize)>,
        /// In bytes.
        from: u64,
        /// In bytes.
        to: Option<u64>,
    },
}

/// A file that is read on another machine than its own. The command gets another name for it (`/dev/fd/5`), under which it can be read
/// once from the beginning.
#[derive(Clone, PartialEq, Debug)]
pub struct Moved {
    /// Which stage reads it.
    pub stage: usize,
    /// Which word names it, of those that the stage is run with ([`Lane::words`] for the first one of a lane), and where in it the name
    /// begins; none: it is the stage's standard input.
    pub file: Option<(usize, usize)>,
    /// Where it is.
    pub from: Place,
    /// Where it goes.
    pub to: Place,
    /// The two know each other; otherwise the bytes come through here.
    pub direct: bool,
    /// How much.
    pub bytes: u64,
}

/// How outputs of lanes become one.
#[derive(Clone, PartialEq, Debug)]
pub struct Combining {
    /// By what means.
    pub combiner: Combiner,
    /// What is put together where, lanes in their order. The root is at the group's place.
    pub tree: Tree,
}

/// Where outputs are put together.
#[derive(Clone, PartialEq, Debug)]
pub enum Tree {
    /// The output of a lane.
    Lane(usize),
    /// The outputs of these, put together at a place.
    At(Place, Vec<Tree>),
}

/// A way to put outputs together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Combiner {
    /// One after the other.
    Concat,
    /// One after the other, if none says at its end, or with its errors, that its input is binary. It may say so of any input with a zero byte, or not,
    /// so the first stage's must have none.
    Text,
    /// One after the other, if each ends with the end of a line or is empty.
    Lines,
    /// Numbers are added, line by line and column by column.
    Sum {
        /// A larger number might be printed in another way.
        most: u64,
    },
    /// By a command whose words these are, and behind them a name for each output.
    Merge(Vec<Vec<u8>>),
    /// Equal lines at the seam are one.
    Uniq,
    /// The same, with counts before them that are added.
    UniqCount,
    /// By a command that reads all outputs, one after the other, on its standard input.
    Again(Vec<Vec<u8>>),
    /// The first that is not empty.
    First,
    /// Each of these lines is texts and sums, with a blank between them; sums are added if they are whole numbers. The stage is run with
    /// [`Combiner::lane_words`], so that it tells them as they are; a command whose words are `words` prints the lines in its own way, from
    /// columns with tabs between them.
    Sums {
        /// What the lines are.
        lines: Vec<Vec<SumColumn>>,
        /// The command.
        words: Vec<Vec<u8>>,
    },
    /// Each line is a key and a count; counts of one key are added, and lines come in any order.
    Counts {
        /// The count stands behind the key.
        key_first: bool,
        /// As above.
        most: u64,
    },
}

impl Combiner {
    /// The words with which the last stage of a lane is run.
    pub fn lane_words(&self, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut words = words.to_vec();
        if matches!(self, Combiner::Sums { .. }) {
            // 17 digits tell any number of 64 bits from all others.
            words.splice(1..1, [b"-v".to_vec(), b"OFMT=%.17g".to_vec()]);
        }
        words
    }

    /// Whether what comes out is what goes in, one part after the other: nothing is computed.
    pub fn only_passes(&self) -> bool {
        matches!(
            self,
            Combiner::Concat | Combiner::Text | Combiner::Lines | Combiner::First
        )
    }

    /// Whether nothing comes out before each part has given something, or has ended; otherwise those behind the first that has not ended wait for it.
    pub fn needs_each(&self) -> bool {
        matches!(
            self,
            Combiner::Sum { .. }
                | Combiner::Sums { .. }
                | Combiner::Counts { .. }
                | Combiner::Merge(_)
        )
    }

    /// How many words stand before those of the stage, behind its name, then.
    pub fn lane_shift(&self) -> usize {
        match self {
            Combiner::Sums { .. } => 2,
            _ => 0,
        }
    }
}

/// Why a stage runs where it does.
#[derive(Clone, PartialEq, Debug)]
pub struct Reason {
    /// Where; those in lanes: on these machines.
    pub at: Vec<Place>,
    /// A sentence, without its point.
    pub why: String,
    /// What it is expected to read.
    pub input_bytes: f64,
    /// And to print.
    pub output_bytes: f64,
}

/// What something is expected to cost.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// How long it takes.
    pub seconds: f64,
    /// What crosses a link.
    pub moved_bytes: f64,
}

/// What was thought of and not taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Alternative {
    /// What it is.
    pub what: String,
    /// What it was expected to cost; none if it is not possible.
    pub cost: Option<Cost>,
    /// Why it was not taken.
    pub why: String,
}
