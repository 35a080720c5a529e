//! Describes how two outputs differ, for a person.
//!
//! Invariant: the description is empty if and only if the outputs are equal, and short however long they are.

use std::fmt::Write;

/// Lines shown before and after the first difference.
const CONTEXT_LINES: usize = 3;
/// Lines shown of each side from the first difference on.
const DIFFERING_LINES_MAX: usize = 6;
/// Bytes shown of one line.
const LINE_BYTES_MAX: usize = 160;

/// `what` names the outputs; nothing is written if they are equal.
pub fn describe(what: &str, expected: &[u8], found: &[u8], out: &mut String) {
    if expected == found {
        return;
    }
    let expected_lines: Vec<&[u8]> = expected.split_inclusive(|&byte| byte == b'\n').collect();
    let found_lines: Vec<&[u8]> = found.split_inclusive(|&byte| byte == b'\n').collect();
    let common = expected_lines
        .iter()
        .zip(&found_lines)
        .take_while(|(a, b)| a == b)
        .count();
    let _ = writeln!(
        out,
        "{what} differs from line {} on (expected {} bytes, found {})",
        common + 1,
        expected.len(),
        found.len()
    );
    for line in &expected_lines[common.saturating_sub(CONTEXT_LINES)..common] {
        let _ = writeln!(out, "      {}", shown(line));
    }
    for (sign, lines) in [('-', &expected_lines), ('+', &found_lines)] {
        let rest = &lines[common..];
        for line in rest.iter().take(DIFFERING_LINES_MAX) {
            let _ = writeln!(out, "    {sign} {}", shown(line));
        }
        if rest.len() > DIFFERING_LINES_MAX {
            let _ = writeln!(
                out,
                "    {sign} ... {} more lines",
                rest.len() - DIFFERING_LINES_MAX
            );
        }
    }
}

/// A line as text: what is not printable is escaped, a missing line end is pointed out.
pub fn shown(line: &[u8]) -> String {
    let (body, has_end) = match line.strip_suffix(b"\n") {
        Some(body) => (body, true),
        None => (line, false),
    };
    let cut = &body[..body.len().min(LINE_BYTES_MAX)];
    let mut text = String::new();
    for chunk in cut.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() {
                let _ = write!(text, "{}", character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    if cut.len() < body.len() {
        let _ = write!(text, "... ({} bytes)", body.len());
    }
    if !has_end {
        text.push_str("  [no line end]");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_outputs_have_no_description() {
        let mut out = String::new();
        describe("stdout", b"a\n", b"a\n", &mut out);
        assert_eq!(out, "");
    }

    #[test]
    fn the_first_difference_is_shown_with_unprintable_bytes() {
        let mut out = String::new();
        describe("stdout", b"same\na\x00\n", b"same\na\xff", &mut out);
        assert!(out.contains("from line 2"), "{out}");
        assert!(out.contains("- a\\u{0}\n"), "{out}");
        assert!(out.contains("+ a\\xff  [no line end]"), "{out}");
    }
}
