//! Parts of which the last line of one and the first of the next may be the same: `uniq`, and `uniq -c`, which prints how many there
//! were before each (GNU: `%7d `, others: `%4d `).
//!
//! Invariant: lines are compared at seams alone. Within a part equal neighbours are not ours: the command has its own idea of what is equal.

use std::io::{self, Write};

use super::{Failure, Lines, Part, add, number};

pub(super) fn uniq(parts: impl Iterator<Item = Part>, output: &mut dyn Write) -> io::Result<()> {
    let mut last: Option<Vec<u8>> = None;
    for part in parts {
        let mut lines = Lines::of(part);
        let mut at_seam = true;
        while let Some(line) = lines.next()? {
            if at_seam && last.as_deref() == Some(line) {
                continue;
            }
            at_seam = false;
            output.write_all(line)?;
            output.write_all(b"\n")?;
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(line);
        }
    }
    Ok(())
}

/// A line with its count, and how many bytes that has with the blanks before it.
struct Counted {
    count: u64,
    width: usize,
    text: Vec<u8>,
}

impl Counted {
    fn of(line: &[u8]) -> Result<Counted, Failure> {
        let blanks = line.iter().take_while(|&&byte| byte == b' ').count();
        let width = line[blanks..]
            .iter()
            .take_while(|&&byte| byte != b' ')
            .count()
            + blanks;
        let Some((b' ', text)) = line[width..].split_first() else {
            return Err(Failure::Unfit("a line without a count".to_owned()));
        };
        Ok(Counted {
            count: number(&line[blanks..width])?,
            width,
            text: text.to_vec(),
        })
    }

    fn write(&self, output: &mut dyn Write) -> io::Result<()> {
        let width = self.width;
        write!(output, "{:>width$} ", self.count)?;
        output.write_all(&self.text)?;
        output.write_all(b"\n")
    }
}

pub(super) fn uniq_count(
    parts: impl Iterator<Item = Part>,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let mut last: Option<Counted> = None;
    for part in parts {
        let mut lines = Lines::of(part);
        let mut at_seam = true;
        while let Some(line) = lines.next()? {
            let line = Counted::of(line)?;
            match last
                .as_mut()
                .filter(|last| at_seam && last.text == line.text)
            {
                Some(last) => {
                    last.count = add(last.count, line.count, u64::MAX)?;
                    last.width = last.width.min(line.width);
                }
                None => {
                    if let Some(before) = last.replace(line) {
                        before.write(output)?;
                    }
                }
            }
            at_seam = false;
        }
    }
    if let Some(last) = last {
        last.write(output)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(texts: &[&str]) -> impl Iterator<Item = Part> {
        let texts: Vec<Part> = texts
            .iter()
            .map(|text| -> Part { Box::new(io::Cursor::new(text.as_bytes().to_vec())) })
            .collect();
        texts.into_iter()
    }

    #[test]
    fn only_lines_at_seams_become_one() {
        let mut output = Vec::new();
        uniq(parts(&["a\nb\n", "b\n", "", "b\nb\nc\n", "a"]), &mut output).unwrap();
        // A part that has two equal lines side by side has them because they are two to its command.
        assert_eq!(String::from_utf8(output).unwrap(), "a\nb\nc\na\n");
    }

    #[test]
    fn counts_at_seams_are_added() {
        let mut output = Vec::new();
        let texts = [
            "      1 a\n      2  b\n",
            "      3  b\n",
            "",
            "9999999  b\n      1 c\n",
        ];
        uniq_count(parts(&texts), &mut output).unwrap();
        let expected = "      1 a\n10000004  b\n      1 c\n";
        assert_eq!(String::from_utf8(output).unwrap(), expected);
        // Two that its command took for two.
        let mut output = Vec::new();
        uniq_count(parts(&["      1 a\n      2 a\n"]), &mut output).unwrap();
        assert_eq!(output, b"      1 a\n      2 a\n");
        for wrong in ["a\n", "     x a\n", "      1\n"] {
            let result = uniq_count(parts(&[wrong]), &mut Vec::new());
            assert!(matches!(result, Err(Failure::Unfit(_))), "{wrong}");
        }
    }
}
