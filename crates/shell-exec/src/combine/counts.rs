//! Keys with counts, of which each part has some: counts of one key are added. For `awk '{ n[$1]++ } END { for (k in n) print k, n[k] }'`,
//! where somebody sorts what comes out.
//!
//! Keys come out in the order in which they are first seen, of which nobody may make anything.

use std::collections::HashMap;
use std::io::Write;

use super::{Failure, Lines, Part, add, number};

pub(super) fn counts(
    parts: impl Iterator<Item = Part>,
    key_first: bool,
    most: u64,
    output: &mut dyn Write,
) -> Result<(), Failure> {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut counts: Vec<u64> = Vec::new();
    for part in parts {
        let mut lines = Lines::of(part);
        while let Some(line) = lines.next()? {
            let blank = |byte: &u8| *byte == b' ';
            // A key may have blanks, a count has none.
            let found = if key_first {
                line.iter().rposition(blank)
            } else {
                line.iter().position(blank)
            };
            let Some(at) = found else {
                return Err(Failure::Unfit("a line without a count".to_owned()));
            };
            let (key, digits) = if key_first {
                (&line[..at], &line[at + 1..])
            } else {
                (&line[at + 1..], &line[..at])
            };
            let count = number(digits)?;
            match places.get(key) {
                Some(&place) => counts[place] = add(counts[place], count, most)?,
                None => {
                    places.insert(key.to_vec(), counts.len());
                    counts.push(count);
                }
            }
        }
    }
    let mut rows: Vec<(usize, Vec<u8>)> = places
        .into_iter()
        .map(|(key, place)| (place, key))
        .collect();
    rows.sort_unstable();
    for (place, key) in rows {
        let count = counts[place].to_string();
        let (left, right) = if key_first {
            (&key[..], count.as_bytes())
        } else {
            (count.as_bytes(), &key[..])
        };
        for text in [left, b" ", right, b"\n"] {
            output.write_all(text)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str], key_first: bool) -> Result<String, Failure> {
        let parts = texts
            .iter()
            .map(|text| -> Part { Box::new(std::io::Cursor::new(text.as_bytes().to_vec())) });
        let parts: Vec<Part> = parts.collect();
        let mut output = Vec::new();
        counts(parts.into_iter(), key_first, 1000, &mut output)?;
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn counts_of_one_key_are_added() {
        assert_eq!(
            of(&["a 1\nb c 2\n 3\n", "b c 4\n 1\n"], true).unwrap(),
            "a 1\nb c 6\n 4\n"
        );
        assert_eq!(
            of(&["1 a\n2 b c\n3 \n", "4 b c\n"], false).unwrap(),
            "1 a\n6 b c\n3 \n"
        );
        for wrong in [
            &["a\n"][..],
            &["a b\n"],
            &["a 1.5\n"],
            &["a 999\n", "a 2\n"],
        ] {
            assert!(
                matches!(of(wrong, true), Err(Failure::Unfit(_))),
                "{wrong:?}"
            );
        }
    }
}
