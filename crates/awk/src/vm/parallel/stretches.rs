//! Cutting the input into stretches of about the same size, at the ends of lines.
//!
//! Invariant: stretches follow each other without a gap, and each begins where a record does.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::records::RecordReader;

/// A stretch smaller than this is not worth a process: beginning one and taking over what it made costs about as much.
const BYTES_MIN: u64 = 256 << 10;
/// Where records print, what other processes print waits in memory until its turn: so much input at once is enough.
const PRINTING_BYTES_MAX: u64 = 16 << 20;
const BLOCK_BYTES: usize = 64 << 10;

/// A place between two records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Number of the operand.
    pub(super) operand: usize,
    /// Bytes from the beginning of its file.
    pub(super) offset: u64,
}

/// What one process reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stretch {
    pub(super) start: Place,
    pub(super) end: Place,
}

/// A file among the operands.
pub(in crate::vm) struct Operand {
    /// Its number.
    pub(in crate::vm) number: usize,
    pub(in crate::vm) path: PathBuf,
    pub(in crate::vm) bytes: u64,
}

impl Operand {
    /// There may be more operands than a process may have open.
    pub(super) fn open(&self) -> io::Result<File> {
        File::open(&self.path)
    }
}

/// `jobs` stretches, or more where records print, and where the last record of all begins, which belongs to none.
///
/// # Errors
/// Why one process does better.
pub(super) fn plan(
    operands: &[Operand],
    separator: u8,
    jobs: usize,
    prints: bool,
) -> Result<(Vec<Stretch>, Place), String> {
    let Some(with_last) = operands.iter().rfind(|operand| operand.bytes > 0) else {
        return Err("the input is empty".into());
    };
    let total: u64 = operands.iter().map(|operand| operand.bytes).sum();
    if jobs < 2 {
        return Err("no more were asked for".into());
    }
    let count = (total / BYTES_MIN).min(jobs as u64);
    if count < 2 {
        return Err(format!("{total} bytes of input are too few to share"));
    }
    let count = match prints {
        true => count.max(total.div_ceil(PRINTING_BYTES_MAX)),
        false => count,
    };
    let failed = |error: io::Error| format!("the input cannot be read ahead: {error}");
    let last = Place {
        operand: with_last.number,
        offset: last_record(with_last, separator).map_err(failed)?,
    };
    let mut ends = Vec::new();
    let (mut before, mut operands) = (0, operands.iter().peekable());
    for nth in 1..count {
        let wanted = total / count * nth;
        while operands
            .peek()
            .is_some_and(|operand| before + operand.bytes <= wanted)
        {
            before += operands.next().map_or(0, |operand| operand.bytes);
        }
        let Some(operand) = operands.peek() else {
            break;
        };
        let end = record_behind(operand, separator, wanted - before).map_err(failed)?;
        let end = Place {
            operand: operand.number,
            offset: end,
        };
        let is_new = ends.last() != Some(&end);
        if is_new && precedes(end, last) && (end.offset > 0 || end.operand > 1) {
            ends.push(end);
        }
    }
    ends.push(last);
    let mut start = Place {
        operand: 1,
        offset: 0,
    };
    let mut stretches = Vec::new();
    for end in ends {
        stretches.push(Stretch { start, end });
        start = end;
    }
    if stretches.len() < 2 {
        return Err("the input has too few records to share".into());
    }
    Ok((stretches, last))
}

fn precedes(a: Place, b: Place) -> bool {
    (a.operand, a.offset) < (b.operand, b.offset)
}

/// Where the first record begins that does not begin before `offset`. The end of the file is the beginning of the next one: that
/// place is given as the end of this one, which has no record behind it.
fn record_behind(operand: &Operand, separator: u8, offset: u64) -> io::Result<u64> {
    if offset == 0 {
        return Ok(0);
    }
    let file = operand.open()?;
    let mut at = offset - 1;
    let mut block = vec![0; BLOCK_BYTES];
    while at < operand.bytes {
        let len = (operand.bytes - at).min(BLOCK_BYTES as u64) as usize;
        file.read_exact_at(&mut block[..len], at)?;
        if let Some(found) = memchr::memchr(separator, &block[..len]) {
            return Ok(at + found as u64 + 1);
        }
        at += len as u64;
    }
    Ok(operand.bytes)
}

/// Where the last record of a file that is not empty begins.
fn last_record(operand: &Operand, separator: u8) -> io::Result<u64> {
    let file = operand.open()?;
    let mut block = vec![0; BLOCK_BYTES];
    // The separator that ends the last record begins none.
    let mut end = operand.bytes - 1;
    while end > 0 {
        let len = end.min(BLOCK_BYTES as u64);
        let block = &mut block[..len as usize];
        file.read_exact_at(block, end - len)?;
        if let Some(found) = memchr::memrchr(separator, block) {
            return Ok(end - len + found as u64 + 1);
        }
        end -= len;
    }
    Ok(0)
}

/// A reader of a file from an offset on, up to an offset if there is one.
pub(in crate::vm) fn reader(
    mut file: File,
    from: u64,
    to: Option<u64>,
) -> io::Result<RecordReader> {
    if from > 0 {
        file.seek(SeekFrom::Start(from))?;
    }
    Ok(RecordReader::new(match to {
        Some(to) => Box::new(file.take(to - from)),
        None => Box::new(file),
    }))
}

/// Records from one place in a file, where one begins, to another: as many as separators, and one more if the last has none.
pub(super) fn count_records(file: &File, separator: u8, from: u64, to: u64) -> io::Result<u64> {
    let mut block = vec![0; 4 * BLOCK_BYTES];
    let (mut at, mut count, mut last) = (from, 0, separator);
    while at < to {
        let len = (to - at).min(block.len() as u64) as usize;
        let block = &mut block[..len];
        file.read_exact_at(block, at)?;
        count += memchr::memchr_iter(separator, block).count() as u64;
        last = block.last().copied().unwrap_or(last);
        at += len as u64;
    }
    Ok(count + u64::from(last != separator))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of these texts.
    fn operands(texts: &[&[u8]]) -> (tempfile::TempDir, Vec<Operand>) {
        let folder = tempfile::tempdir().unwrap();
        let written = |(at, text): (usize, &&[u8])| {
            let path = folder.path().join(at.to_string());
            std::fs::write(&path, text).unwrap();
            let bytes = text.len() as u64;
            Operand {
                number: at + 1,
                path,
                bytes,
            }
        };
        let operands = texts.iter().enumerate().map(written).collect();
        (folder, operands)
    }

    fn place(operand: usize, offset: u64) -> Place {
        Place { operand, offset }
    }

    #[test]
    fn stretches_begin_with_records_and_the_last_record_is_in_none() {
        let line = [b"x".repeat(99), b"\n".to_vec()].concat(); // 100 bytes
        let text = line.repeat(30_000);
        let (_folder, operands) = operands(&[&text, b"", &text]);
        let (stretches, last) = plan(&operands, b'\n', 3, false).unwrap();
        assert_eq!(last, place(3, 2_999_900));
        assert_eq!(stretches.len(), 3);
        assert_eq!(stretches[0].start, place(1, 0));
        assert_eq!(stretches[0].end, place(1, 2_000_000));
        assert_eq!(stretches[1].end, place(3, 1_000_000));
        assert_eq!(stretches[2].end, last);
        let halves = plan(&operands, b'\n', 2, false).unwrap().0;
        assert_eq!(halves[0].end, place(3, 0));
        assert!(plan(&operands, b'\n', 1, false).is_err());
        assert!(plan(&operands[1..2], b'\n', 4, false).is_err());
    }

    #[test]
    fn a_long_line_takes_several_shares() {
        let text = [b"y".repeat(5 << 20), b"\nz\nlast".to_vec()].concat();
        let (_folder, operands) = operands(&[&text]);
        let (stretches, last) = plan(&operands, b'\n', 4, true).unwrap();
        assert_eq!(last, place(1, (5 << 20) + 3));
        assert_eq!(stretches.len(), 2);
        assert_eq!(stretches[0].end, place(1, (5 << 20) + 1));
    }

    #[test]
    fn records_are_counted_with_one_that_nothing_ends() {
        let counted = |text: &[u8]| {
            let (_folder, operands) = operands(&[text]);
            count_records(&operands[0].open().unwrap(), b'\n', 0, text.len() as u64)
        };
        assert_eq!(counted(b"").unwrap(), 0);
        assert_eq!(counted(b"a\nb\n").unwrap(), 2);
        assert_eq!(counted(b"a\nb").unwrap(), 2);
    }
}
