//! What the lanes of a group print, put together: exactly what one process would have printed for all of the input.
//!
//! Parts come as readers, in the order of the input, and are read while they are being made. The invariant: memory is bounded, by the
//! longest line and [`Room::memory_bytes`] for each part (but for `counts`, which needs as much as the command that it is for); and
//! what does not look as a combiner expects it is an error, never a guess. Who runs the parts then runs the whole.

use std::fmt;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
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

impl Room {
    /// Some memory, and the folder for temporary files.
    pub fn of_this_machine() -> Room {
        Room {
            memory_bytes: 4 << 20,
            folder: std::env::temp_dir(),
        }
    }
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

/// Puts parts together. For [`Combiner::Again`] and [`Combiner::Sums`], what is written is the input of the command.
///
/// # Errors
/// If a part does not fit, or cannot be read, or there is nobody to write to.
pub fn combine(
    how: &Combiner,
    parts: Vec<Part>,
    output: &mut dyn Write,
    room: &Room,
) -> Result<(), Failure> {
    if matches!(how, Combiner::Merge(_)) {
        return Err(Failure::Command);
    }
    // What is put together line by line is written in larger pieces; what only passes through goes on at once.
    let mut lines = BufWriter::with_capacity(PIECE_BYTES, &mut *output);
    if let Combiner::Sum { most } = how {
        sum::sum(parts, *most, &mut lines)?;
        return Ok(lines.flush()?);
    }
    if let Combiner::Sums { lines: told, .. } = how {
        sum::sums(parts, told, &mut lines)?;
        return Ok(lines.flush()?);
    }
    // Those behind the first must not stand still until it is their turn.
    let parts = parts.into_iter().enumerate().map(|(number, part)| -> Part {
        if number == 0 {
            part
        } else {
            Box::new(Spool::new(part, room.clone()))
        }
    });
    // All at once, for what they come from runs already.
    let parts: Vec<Part> = parts.collect();
    let parts = parts.into_iter();
    match how {
        Combiner::Uniq => seams::uniq(parts, &mut lines)?,
        Combiner::UniqCount => seams::uniq_count(parts, &mut lines)?,
        Combiner::Counts { key_first, most } => {
            counts::counts(parts, *key_first, *most, &mut lines)?;
        }
        Combiner::Text => {
            drop(lines);
            for mut part in parts {
                text(&mut part, output)?;
            }
            return Ok(output.flush()?);
        }
        Combiner::Lines => {
            drop(lines);
            for part in parts {
                whole_lines(part, output)?;
            }
            return Ok(output.flush()?);
        }
        Combiner::Concat | Combiner::Again(_) => {
            drop(lines);
            concat(parts, output)?;
            return Ok(output.flush()?);
        }
        Combiner::First => {
            drop(lines);
            first(parts, output)?;
            return Ok(output.flush()?);
        }
        Combiner::Sum { .. } | Combiner::Sums { .. } | Combiner::Merge(_) => {}
    }
    lines.flush()?;
    Ok(())
}

/// How much is read and written in one step.
const PIECE_BYTES: usize = 128 << 10;

/// Writes what a part has, and says how much that was.
fn copy(part: &mut dyn Read, output: &mut dyn Write) -> io::Result<u64> {
    let mut bytes = vec![0; PIECE_BYTES];
    let mut all = 0;
    loop {
        let had = match part.read(&mut bytes) {
            Ok(0) => return Ok(all),
            Ok(had) => had,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        output.write_all(&bytes[..had])?;
        all += had as u64;
    }
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
        // Who runs the parts runs the whole if one did not end well.
        Status::Highest | Status::Well => highest,
        // POSIX grep: 0 if lines were found, 1 if none were, above that if there was an error.
        Status::Found if highest > 1 => highest,
        Status::Found => parts.iter().copied().min().unwrap_or(0),
    }
}

/// Writes what a part has, if it does not end with grep's message about an input that is binary, as it is on standard output (before GNU grep 3.5, and
/// since).
fn text(part: &mut dyn Read, output: &mut dyn Write) -> Result<(), Failure> {
    let mut bytes = vec![0; PIECE_BYTES];
    // The last line that came, which may be the last one.
    let mut last: Vec<u8> = Vec::new();
    loop {
        let had = match part.read(&mut bytes) {
            Ok(0) => break,
            Ok(had) => had,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let piece = &bytes[..had];
        // A line that has ended is behind the end of the one before.
        let body = piece.strip_suffix(b"\n").unwrap_or(piece);
        match body.iter().rposition(|&byte| byte == b'\n') {
            None if !last.ends_with(b"\n") => last.extend_from_slice(piece),
            end => {
                let (done, rest) = piece.split_at(end.map_or(0, |end| end + 1));
                output.write_all(&last)?;
                output.write_all(done)?;
                last.clear();
                last.extend_from_slice(rest);
            }
        }
        // A message is short.
        if last.len() > MESSAGE_BYTES_MAX {
            output.write_all(&last)?;
            last.clear();
        }
    }
    let line = last.strip_suffix(b"\n").unwrap_or(&last);
    if line.ends_with(b": binary file matches")
        || line.starts_with(b"Binary file ") && line.ends_with(b" matches")
    {
        return Err(Failure::Unfit("a part is binary".to_owned()));
    }
    Ok(output.write_all(&last)?)
}

/// Writes what a part has, if it ends with the end of a line.
fn whole_lines(part: Part, output: &mut dyn Write) -> Result<(), Failure> {
    let mut part = Seen { part, last: b'\n' };
    copy(&mut part, output)?;
    match part.last {
        b'\n' => Ok(()),
        _ => Err(Failure::Unfit("a part ends within a line".to_owned())),
    }
}

/// A part of which the last byte that was read is known.
struct Seen {
    part: Part,
    last: u8,
}

impl Read for Seen {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let had = self.part.read(bytes)?;
        if let Some(&last) = bytes[..had].last() {
            self.last = last;
        }
        Ok(had)
    }
}

/// The longest message about a file, which has its name in it.
const MESSAGE_BYTES_MAX: usize = 8192;

fn concat(parts: impl Iterator<Item = Part>, output: &mut dyn Write) -> io::Result<()> {
    for mut part in parts {
        copy(&mut part, output)?;
    }
    Ok(())
}

fn first(parts: impl Iterator<Item = Part>, output: &mut dyn Write) -> io::Result<()> {
    let mut has_come = false;
    for mut part in parts {
        if has_come {
            // Who makes it is to end as it would have, and not by a pipe that nobody reads.
            copy(&mut part, &mut io::sink())?;
        } else {
            has_come = copy(&mut part, output)? > 0;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&str]) -> Result<String, String> {
        let parts = parts
            .iter()
            .map(|part| -> Part { Box::new(io::Cursor::new(part.to_string())) });
        let mut output = Vec::new();
        let done = combine(
            &Combiner::Lines,
            parts.collect(),
            &mut output,
            &Room::of_this_machine(),
        );
        done.map_err(|failure| failure.to_string())?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn parts_that_end_within_a_line_are_not_put_together() {
        assert_eq!(lines(&["a\nb\n", "", "c\n"]).unwrap(), "a\nb\nc\n");
        for parts in [&["a\nb"][..], &["a\n", "b"], &["a", "b\n"]] {
            let why = lines(parts).unwrap_err();
            assert!(why.ends_with("a part ends within a line"), "{why}");
        }
    }
}
