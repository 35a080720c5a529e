//! Numbers of parts added, line by line and column by column: `wc -l`, `grep -c`, counts of awk.
//!
//! Some versions of `wc` put blanks before numbers, to a width that all parts have; the sum has that width, too. A number that
//! outgrew the width in one part does not tell it, so the narrowest counts.

use std::io::Write;

use shell_plan::program::SumColumn;

use super::{Failure, Lines, Part, add, number};

/// Lines of numbers are few, and nothing may be printed before all are known to fit.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// One number: its value, and how many bytes it has with the blanks before it.
#[derive(Clone, Copy)]
struct Column {
    value: u64,
    width: usize,
}

pub(super) fn sum(parts: Vec<Part>, most: u64, output: &mut dyn Write) -> Result<(), Failure> {
    let mut parts: Vec<Lines> = parts.into_iter().map(Lines::of).collect();
    let mut text = Vec::new();
    loop {
        let mut sums: Option<Vec<Column>> = None;
        let mut ended = 0;
        let mut empty = 0;
        let count = parts.len();
        for part in &mut parts {
            let Some(line) = part.next()? else {
                ended += 1;
                continue;
            };
            let columns = columns(line)?;
            if columns.is_empty() {
                empty += 1;
                continue;
            }
            sums = Some(match sums {
                None => columns,
                Some(sums) => added(&sums, &columns, most)?,
            });
        }
        if ended == count {
            break;
        }
        if ended > 0 {
            return Err(Failure::Unfit(
                "some have more lines than others".to_owned(),
            ));
        }
        let sums = sums.unwrap_or_default();
        if empty > 0 && sums.len() > 1 {
            return Err(Failure::Unfit(
                "an empty line beside several numbers".to_owned(),
            ));
        }
        for (at, column) in sums.iter().enumerate() {
            if at > 0 {
                text.push(b' ');
            }
            let width = column.width;
            text.extend_from_slice(format!("{:>width$}", column.value).as_bytes());
        }
        text.push(b'\n');
        if text.len() > OUTPUT_BYTES_MAX {
            return Err(Failure::Unfit("too many lines to be sums".to_owned()));
        }
    }
    output.write_all(&text)?;
    output.flush()?;
    Ok(())
}

/// The largest whole number from which each smaller one is told apart (IEEE 754, binary64).
const EXACT_MAX: u64 = 1 << 53;

/// Adds what the lines of parts tell as sums, each with all its digits, and writes columns with tabs between them; nothing where nobody added
/// anything.
pub(super) fn sums(
    parts: Vec<Part>,
    lines: &[Vec<SumColumn>],
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let mut parts: Vec<Lines> = parts.into_iter().map(Lines::of).collect();
    let mut text = Vec::new();
    for line in lines {
        let count = line.iter().filter(|column| **column == SumColumn::Sum);
        let mut sums: Vec<Option<Exact>> = vec![None; count.count()];
        for part in &mut parts {
            let told = part.next()?;
            let told =
                told.ok_or_else(|| Failure::Unfit("a line of sums is missing".to_owned()))?;
            for (sum, value) in sums.iter_mut().zip(values(told, line)?) {
                let Some(value) = value else { continue };
                *sum = Some(match sum.take() {
                    None => value,
                    Some(sum) => sum.plus(value)?,
                });
            }
        }
        let told = sums.iter().map(|sum| sum.map(|sum| sum.value.to_string()));
        let told: Vec<String> = told.map(Option::unwrap_or_default).collect();
        text.extend_from_slice(told.join("\t").as_bytes());
        text.push(b'\n');
    }
    for part in &mut parts {
        if part.next()?.is_some() {
            return Err(Failure::Unfit("more lines than there are sums".to_owned()));
        }
    }
    output.write_all(&text)?;
    Ok(())
}

/// A whole number, and how large any sum on the way to it may have been.
#[derive(Clone, Copy)]
struct Exact {
    value: i64,
    most: u64,
}

impl Exact {
    fn of(digits: &[u8]) -> Result<Exact, Failure> {
        let unfit = || {
            let told = String::from_utf8_lossy(digits);
            Failure::Unfit(format!("\"{told}\" is no whole number"))
        };
        let text = std::str::from_utf8(digits).map_err(|_| unfit())?;
        // A zero with a sign is told otherwise than one without.
        let is_whole = |rest: &str| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit());
        if !is_whole(text.strip_prefix('-').unwrap_or(text)) || text == "-0" {
            return Err(unfit());
        }
        let value: i64 = text.parse().map_err(|_| unfit())?;
        let most = value.unsigned_abs();
        (most <= EXACT_MAX)
            .then_some(Exact { value, most })
            .ok_or_else(unfit)
    }

    fn plus(self, other: Exact) -> Result<Exact, Failure> {
        let most = self.most + other.most;
        if most > EXACT_MAX {
            return Err(Failure::Unfit("sums are too large to be exact".to_owned()));
        }
        Ok(Exact {
            value: self.value + other.value,
            most,
        })
    }
}

/// What a line tells as sums; none where nothing was added.
fn values(told: &[u8], line: &[SumColumn]) -> Result<Vec<Option<Exact>>, Failure> {
    let unfit = || {
        let told = String::from_utf8_lossy(told);
        Failure::Unfit(format!("\"{told}\" is no line of sums"))
    };
    let mut rest = told;
    let mut values = Vec::new();
    for (number, column) in line.iter().enumerate() {
        if number > 0 {
            rest = rest.strip_prefix(b" ").ok_or_else(unfit)?;
        }
        match column {
            SumColumn::Text(text) => {
                rest = rest.strip_prefix(text.as_slice()).ok_or_else(unfit)?;
            }
            SumColumn::Sum => {
                let end = rest.iter().position(|&byte| byte == b' ');
                let (digits, behind) = rest.split_at(end.unwrap_or(rest.len()));
                rest = behind;
                let value = (!digits.is_empty()).then(|| Exact::of(digits));
                values.push(value.transpose()?);
            }
        }
    }
    if rest.is_empty() {
        Ok(values)
    } else {
        Err(unfit())
    }
}

/// The numbers of a line. A blank parts them; others before a number belong to its width.
fn columns(line: &[u8]) -> Result<Vec<Column>, Failure> {
    let mut columns = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        if !columns.is_empty() {
            // What parts this one from the one before.
            rest = &rest[1..];
        }
        let blanks = rest.iter().take_while(|&&byte| byte == b' ').count();
        let digits = rest[blanks..]
            .iter()
            .take_while(|&&byte| byte != b' ')
            .count();
        columns.push(Column {
            value: number(&rest[blanks..blanks + digits])?,
            width: blanks + digits,
        });
        rest = &rest[blanks + digits..];
    }
    Ok(columns)
}

fn added(a: &[Column], b: &[Column], most: u64) -> Result<Vec<Column>, Failure> {
    if a.len() != b.len() {
        return Err(Failure::Unfit(
            "some have more columns than others".to_owned(),
        ));
    }
    let columns = a.iter().zip(b).map(|(a, b)| {
        Ok(Column {
            value: add(a.value, b.value, most)?,
            width: a.width.min(b.width),
        })
    });
    columns.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[&str]) -> Result<String, Failure> {
        let parts = parts
            .iter()
            .map(|text| -> Part { Box::new(std::io::Cursor::new(text.as_bytes().to_vec())) });
        let mut output = Vec::new();
        sum(parts.collect(), 1 << 40, &mut output)?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn columns_keep_their_widths() {
        for (parts, expected) in [
            (&["5\n", "12\n"][..], "17\n"),
            (&["5 7\n", "12 13\n"], "17 20\n"),
            (&["      5\n", "     95\n"], "    100\n"),
            (
                &["      5       7\n", "     95       1\n"],
                "    100       8\n",
            ),
            (&["  9999\n", "     1\n"], " 10000\n"),
            // Wider than its width is nothing but itself.
            (&["   5\n", "99999\n"], "100004\n"),
            // What counted nothing may print nothing.
            (&["\n", "3\n"], "3\n"),
            (&["\n", "\n"], "\n"),
            (&["1\n2\n", "3\n4\n"], "4\n6\n"),
            (&["", ""], ""),
        ] {
            assert_eq!(of(parts).unwrap(), expected, "{parts:?}");
        }
    }

    #[test]
    fn what_is_no_number_does_not_fit() {
        for parts in [
            &["1.5\n", "1\n"][..],
            &["-1\n", "1\n"],
            &["1 \n", "1 \n"],
            &["1\n", ""],
            &["1\n2\n", "1\n"],
            &["1 2\n", "1\n"],
            &["1 2\n", "\n"],
            &["1e+06\n", "1\n"],
            &["1000000000000\n", "1000000000000\n"],
            &["99999999999999999999\n", "1\n"],
        ] {
            assert!(matches!(of(parts), Err(Failure::Unfit(_))), "{parts:?}");
        }
    }
}
