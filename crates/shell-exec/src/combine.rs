//! What the lanes of a group print, put together: exactly what one process would have printed for all of the input.
//!
//! Parts come as readers, in the order of the input, and are read while they are being made. The invariant: memory is bounded, by the
//! longest line and [`Room::memory_bytes`] for each part (but for `counts`, which needs as much as the command that it is for); and
//! what does not look as a combiner expects it is an error, never a guess. Who runs the parts then runs the whole.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;

use shell_plan::annotation::Status;
use shell_plan::plan::Combiner;

mod counts;
mod seams;
mod spool;
mod sum;

pub use spool::Spool;

/// One part's output.
pub type Part = Box<dyn Read + Send>;

/// Where parts wait for their turn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Room {
    /// How much of each part is kept in memory.
    pub memory_bytes: usize,
    /// Where the rest goes, in files without names.
    pub folder: PathBuf,
}

/// Why parts could not be put together.
#[derive(Debug)]
#[non_exhaustive]
pub enum Failure {
    /// Reading or writing failed.
    Io(io::Error),
    /// A part is not as it should be.
    Unfit(String),
    /// It is done by a command that reads parts by their names: see [`by_names`].
    Command,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Io(error) => error.fmt(f),
            Failure::Unfit(what) => write!(f, "outputs of parts do not fit together: {what}"),
            Failure::Command => f.write_str("outputs of parts are merged by a command"),
        }
    }
}

/// Puts parts together. For [`Combiner::Again`], what is written is the input of the command.
///
/// # Errors
/// If a part does not fit, or cannot be read, or there is nobody to write to.
pub fn combine(
    how: &Combiner,
    parts: Vec<Part>,
    output: &mut dyn Write,
    room: &Room,
) -> Result<(), Failure> {
    if let Combiner::Sum { most } = how {
        return sum::sum(parts, *most, output);
    }
    if matches!(how, Combiner::Merge(_)) {
        return Err(Failure::Command);
    }
    // Those behind the first must not stand still until it is their turn.
    let parts = parts.into_iter().enumerate().map(|(number, part)| -> Part {
        if number == 0 {
            part
        } else {
            Box::new(Spool::new(part, room.clone()))
        }
    });
    match how {
        Combiner::Concat | Combiner::Again(_) => concat(parts, output)?,
        Combiner::First => first(parts, output)?,
        Combiner::Uniq => seams::uniq(parts, output)?,
        Combiner::UniqCount => seams::uniq_count(parts, output)?,
        Combiner::Counts { key_first, most } => counts::counts(parts, *key_first, *most, output)?,
        Combiner::Sum { .. } | Combiner::Merge(_) => {}
    }
    output.flush()?;
    Ok(())
}

/// The words of a command that merges, and the names under which it finds the parts, such as `/dev/fd/5`.
pub fn by_names(words: &[Vec<u8>], names: &[Vec<u8>]) -> Vec<Vec<u8>> {
    [words, names].concat()
}

/// The exit status of the whole, from those of its parts (of which there is at least one); one that was ended by a signal has 128 and
/// the signal's number.
pub fn status(of: Status, parts: &[i32]) -> i32 {
    let highest = parts.iter().copied().max().unwrap_or(0);
    match of {
        Status::Highest => highest,
        // POSIX grep: 0 if lines were found, 1 if none were, above that if there was an error.
        Status::Found if highest > 1 => highest,
        Status::Found => parts.iter().copied().min().unwrap_or(0),
    }
}

fn concat(parts: impl Iterator<Item = Part>, output: &mut dyn Write) -> io::Result<()> {
    for mut part in parts {
        io::copy(&mut part, output)?;
    }
    Ok(())
}

fn first(parts: impl Iterator<Item = Part>, output: &mut dyn Write) -> io::Result<()> {
    for mut part in parts {
        if io::copy(&mut part, output)? > 0 {
            break;
        }
    }
    Ok(())
}

/// The lines of a part, each without its end.
struct Lines {
    from: BufReader<Part>,
    line: Vec<u8>,
}

impl Lines {
    fn of(part: Part) -> Lines {
        Lines {
            from: BufReader::with_capacity(64 << 10, part),
            line: Vec::new(),
        }
    }

    /// The next line; none at the end.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        if self.from.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        Ok(Some(&self.line))
    }
}

/// A whole number that a part printed.
fn number(digits: &[u8]) -> Result<u64, Failure> {
    let text = std::str::from_utf8(digits)
        .ok()
        .filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    let value = text.and_then(|text| text.parse().ok());
    value.ok_or_else(|| {
        Failure::Unfit(format!(
            "\"{}\" is no number",
            String::from_utf8_lossy(digits)
        ))
    })
}

/// The sum of two of them, as long as it would be printed as they are.
fn add(a: u64, b: u64, most: u64) -> Result<u64, Failure> {
    let sum = a.checked_add(b).filter(|sum| *sum <= most);
    sum.ok_or_else(|| Failure::Unfit(format!("{a} + {b} is too large")))
}
