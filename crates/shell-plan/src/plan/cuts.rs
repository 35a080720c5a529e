//! A file cut at line ends, into parts of about the same size.
//!
//! A line belongs to the part in whose range its first byte is. So each end of a part is found from one number alone, and who looks for
//! the end of one part finds the beginning of the next.

use std::ops::Range;

/// How much is looked at in one step.
const STEP_BYTES: usize = 64 << 10;

/// The ranges of at most `parts` parts of the bytes `within`, in their order; together they are `within`, and each but the last ends
/// behind a newline. Fewer if lines are long: no range is empty, unless there are no bytes at all, which are no range.
///
/// `read` gives the bytes from an offset on, at least one and at most as many as it is asked for, and none at the end of the file.
///
/// # Errors
/// Those of `read`.
pub fn cuts<E>(
    within: Range<u64>,
    parts: usize,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<Range<u64>>, E> {
    let length = within.end.saturating_sub(within.start);
    let count = parts.max(1) as u64;
    let mut ranges = Vec::new();
    let mut from = within.start;
    for part in 1..=count {
        // 128 bits: sizes of files are up to 2^63.
        let nominal =
            within.start + (u128::from(length) * u128::from(part) / u128::from(count)) as u64;
        let end = if part == count {
            within.end
        } else {
            line_start(nominal, &within, &mut read)?
        };
        if end > from {
            ranges.push(from..end);
            from = end;
        }
    }
    Ok(ranges)
}

/// The first place at or behind `at` where a line begins, or the end. `read` as for [`cuts()`].
///
/// # Errors
/// Those of `read`.
pub fn line_start<E>(
    at: u64,
    within: &Range<u64>,
    mut read: impl FnMut(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<u64, E> {
    if at <= within.start {
        return Ok(within.start);
    }
    // The byte before tells whether a line begins at `at` itself.
    let mut offset = at - 1;
    while offset < within.end {
        let wanted = (within.end - offset).min(STEP_BYTES as u64) as usize;
        let bytes = read(offset, wanted)?;
        if bytes.is_empty() {
            break;
        }
        if let Some(newline) = bytes.iter().position(|&byte| byte == b'\n') {
            return Ok((offset + newline as u64 + 1).min(within.end));
        }
        offset += bytes.len() as u64;
    }
    Ok(within.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(63), ..ProptestConfig::default() })]

        #[test]
        fn parts_are_the_whole_and_end_with_lines(
            text in "[ab\n]{0,200}",
            from in 0_usize..20,
            parts in 0_usize..9,
            step in 1_usize..7,
        ) {
            let text = text.as_bytes();
            let from = from.min(text.len());
            let within = from as u64..text.len() as u64;
            let ranges = cuts(within.clone(), parts, |at, count| {
                let rest = &text[at as usize..];
                Ok::<_, ()>(rest[..count.min(step).min(rest.len())].to_vec())
            }).unwrap();
            prop_assert!(ranges.len() <= parts.max(1));
            let mut at = within.start;
            for (number, range) in ranges.iter().enumerate() {
                prop_assert_eq!(range.start, at);
                prop_assert!(range.end > range.start);
                if number + 1 < ranges.len() {
                    prop_assert_eq!(text[range.end as usize - 1], b'\n');
                }
                // As one who knows nothing of the other parts finds them.
                if parts > 1 {
                    let alone = line_start(range.end, &within, |at, _| {
                        Ok::<_, ()>(text[at as usize..].to_vec())
                    });
                    prop_assert_eq!(alone, Ok(range.end));
                }
                at = range.end;
            }
            prop_assert_eq!(at, within.end);
        }
    }

    #[test]
    fn mistakes_of_the_reader_come_through() {
        assert_eq!(cuts(0..10, 2, |_, _| Err("broken")), Err("broken"));
        assert_eq!(cuts(0..0, 4, |_, _| Err("broken")), Ok(Vec::new()));
    }
}
