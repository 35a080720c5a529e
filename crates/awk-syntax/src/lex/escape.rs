//! Escape sequences of strings.
//!
//! Invariant: every sequence that is read uses at least one byte and gives at least one.

use crate::dialect::Dialect;

/// Reads the escape sequence at the start of `text` (which begins with a backslash) into `out`.
///
/// Gives the number of bytes used and, for unknown sequences, a warning. The same rules serve string tokens, `-v` and
/// operand assignments (POSIX awk, "Lexical Conventions", table of escape sequences; `\x` and `\u` are gawk's).
pub fn unescape(text: &[u8], dialect: Dialect, out: &mut Vec<u8>) -> (usize, Option<String>) {
    let Some(&next) = text.get(1) else {
        out.push(b'\\');
        return (1, Some("backslash at end of string".into()));
    };
    let plain = match next {
        b'"' | b'\\' => Some(next),
        b'a' => Some(0x07),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'v' => Some(0x0b),
        _ => None,
    };
    if let Some(byte) = plain {
        out.push(byte);
        return (2, None);
    }
    if (b'0'..=b'7').contains(&next) {
        let digits = text[1..]
            .iter()
            .take(3)
            .take_while(|b| (b'0'..=b'7').contains(b))
            .count();
        let value = text[1..=digits]
            .iter()
            .fold(0u32, |v, d| v * 8 + u32::from(d - b'0'));
        out.push(value as u8); // as C does, the high bit of \777 is lost
        return (1 + digits, None);
    }
    if matches!(next, b'x' | b'u') && dialect != Dialect::Posix {
        let digits = text[2..]
            .iter()
            .take(if next == b'x' { 2 } else { 8 })
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        let value = text[2..2 + digits]
            .iter()
            .fold(0u32, |v, d| v << 4 | (*d as char).to_digit(16).unwrap_or(0));
        if digits == 0 {
            out.push(next);
            let message = format!("no hex digits in `\\{}' escape sequence", char::from(next));
            return (2, Some(message));
        }
        if next == b'x' {
            out.push(value as u8);
            return (2 + digits, None);
        }
        let Some(c) = char::from_u32(value) else {
            // gawk writes a question mark too: the text has a place for what cannot be shown.
            out.push(b'?');
            return (2 + digits, Some("invalid `\\u' escape sequence".into()));
        };
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        return (2 + digits, None);
    }
    // The character stays, however many bytes it has: the following bytes are copied as they are.
    out.push(next);
    let shown = if next.is_ascii() {
        (next as char).to_string()
    } else {
        format!("\\x{next:02x}")
    };
    (
        2,
        Some(format!(
            "escape sequence `\\{shown}` treated as plain `{shown}`"
        )),
    )
}
