//! How values look: AWK's string constants and numbers, sizes and times for people.
//!
//! The invariant: what [`push_quoted`] writes is printable UTF-8 on one line, and as an AWK string constant it is the
//! bytes that went in.

use heap::Cell;
use std::io::Write;

/// What separates the parts of `a[i,j]` in the key (SUBSEP's default).
pub const SUBSEP: u8 = 0o034;

/// Appends `bytes` as an AWK string constant with its quotes.
pub fn push_quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'"');
    push_escaped(out, bytes, b"");
    out.push(b'"');
}

/// Appends `bytes` with AWK's escapes, but for control characters in `plain`: those of function texts.
pub fn push_escaped(out: &mut Vec<u8>, bytes: &[u8], plain: &[u8]) {
    // Most text is plain ASCII: long stretches of it are copied whole.
    let needs_care = |b: u8| !(b' '..0x7f).contains(&b) || b == b'"' || b == b'\\';
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&b| needs_care(b)) {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        rest = &rest[at + 1..];
        match byte {
            _ if plain.contains(&byte) => out.push(byte),
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0x80.. => {
                let len = printable_len(byte, rest);
                if len == 0 {
                    push_octal(out, byte);
                } else {
                    out.push(byte);
                    out.extend_from_slice(&rest[..len - 1]);
                    rest = &rest[len - 1..];
                }
            }
            _ => push_octal(out, byte),
        }
    }
    out.extend_from_slice(rest);
}

fn push_octal(out: &mut Vec<u8>, byte: u8) {
    out.extend_from_slice(&[
        b'\\',
        b'0' + (byte >> 6),
        b'0' + (byte >> 3 & 7),
        b'0' + (byte & 7),
    ]);
}

/// Length of the printable UTF-8 character that starts with `first`; 0 if it is none.
fn printable_len(first: u8, rest: &[u8]) -> usize {
    let len = match first {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return 0,
    };
    let mut bytes = [first, 0, 0, 0];
    let Some(tail) = rest.get(..len - 1) else {
        return 0;
    };
    bytes[1..len].copy_from_slice(tail);
    match std::str::from_utf8(&bytes[..len])
        .ok()
        .and_then(|s| s.chars().next())
    {
        // C1 controls, line separators and what reorders text could make a line look like another.
        Some(c) if c.is_control() || is_layout(c) => 0,
        Some(_) => len,
        None => 0,
    }
}

fn is_layout(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Appends a key as it stands between brackets: `"a"`, or `"a","b"` for a key of several parts.
pub fn push_subscript(out: &mut Vec<u8>, key: &[u8]) {
    for (i, part) in key.split(|&b| b == SUBSEP).enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_quoted(out, part);
    }
}

/// Appends a number so that reading it gives the same number again: the shortest such text.
pub fn push_number(out: &mut Vec<u8>, n: f64) {
    let written = if n.is_nan() {
        out.extend_from_slice(if n.is_sign_negative() {
            b"-nan"
        } else {
            b"+nan"
        });
        Ok(())
    } else if n.is_infinite() {
        out.extend_from_slice(if n < 0.0 { b"-inf" } else { b"+inf" });
        Ok(())
    } else if n == n.trunc() && n.abs() < 1e16 && (n != 0.0 || n.is_sign_positive()) {
        write!(out, "{}", n as i64)
    } else if n == 0.0 {
        out.extend_from_slice(b"-0");
        Ok(())
    } else {
        write!(out, "{n:?}")
    };
    debug_assert!(written.is_ok(), "memory takes everything");
}

/// Appends a value that is no table: a number, a quoted string, nothing for one never assigned.
pub fn push_value(out: &mut Vec<u8>, cell: Cell<'_>) {
    match cell {
        Cell::Num(n) => push_number(out, n),
        cell if kind(cell) == UNINITIALIZED => {}
        Cell::Str { bytes, .. } => push_quoted(out, bytes),
        Cell::Other(bytes) => push_other(out, bytes),
        Cell::Uninit | Cell::Table(_) => {}
    }
}

/// Appends a value that is no table as an expression that gives the same value to a program: with `--bignum`, and as many
/// bits as the value has, for what was stored by such a run.
pub fn push_constant(out: &mut Vec<u8>, cell: Cell<'_>) {
    let start = out.len();
    push_value(out, cell);
    let is_number = matches!(cell, Cell::Num(_) | Cell::Other([b'F', ..]));
    let text = &out[start..];
    if !is_number {
        return;
    }
    if text.ends_with(b"inf") || text.ends_with(b"nan") {
        // Only texts mean these.
        out.insert(start, b'"');
        out.extend_from_slice(b"\" + 0");
    } else if text == b"-0x0p0" {
        out.truncate(start);
        out.extend_from_slice(b"-0");
    } else if let Some(at) = text.iter().position(|&b| b == b'p') {
        // By a number that is no integer, so that the value is none either.
        let exponent = out.split_off(start + at).split_off(1);
        match exponent.first() {
            Some(b'-') => out.extend_from_slice(b" * 2 ^ "),
            Some(b'0') => {
                out.extend_from_slice(b" * 1.0");
                return;
            }
            _ => out.extend_from_slice(b" / 2 ^ -"),
        }
        out.extend_from_slice(&exponent);
    }
}

/// AWK's other kinds of values (docs/format.md) as a program would write them.
fn push_other(out: &mut Vec<u8>, bytes: &[u8]) {
    match bytes.split_first() {
        Some((b'R', regex)) => {
            out.extend_from_slice(b"@/");
            push_escaped(out, regex, b"\\\"");
            out.push(b'/');
        }
        Some((b'B', [truth])) => {
            out.extend_from_slice(b"mkbool(");
            out.push(*truth);
            out.push(b')');
        }
        Some((b'I', digits)) => push_escaped(out, digits, b""),
        // Hexadecimal, as C's %a writes it: a decimal of all its digits would be long, and a short one another number.
        Some((b'F', [b'-', digits @ ..])) if digits.contains(&b'p') => {
            out.extend_from_slice(b"-0x");
            push_escaped(out, digits, b"");
        }
        Some((b'F', digits)) => {
            if digits.contains(&b'p') {
                out.extend_from_slice(b"0x");
            }
            push_escaped(out, digits, b"");
        }
        _ => {
            push_quoted(out, bytes);
        }
    }
}

/// Whether text from input counts as a number (POSIX awk, "Expressions in awk": blanks around one are allowed).
pub fn looks_numeric(bytes: &[u8]) -> bool {
    let trimmed = bytes.trim_ascii();
    let (signed, rest) = match trimmed {
        [b'+' | b'-', rest @ ..] => (true, rest),
        _ => (false, trimmed),
    };
    let lower = rest.to_ascii_lowercase();
    if signed && [&b"inf"[..], b"infinity", b"nan"].contains(&&lower[..]) {
        return true;
    }
    let digits = |bytes: &[u8]| bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let whole = digits(rest);
    let mut at = whole;
    let mut any = whole > 0;
    if rest.get(at) == Some(&b'.') {
        let fraction = digits(&rest[at + 1..]);
        any |= fraction > 0;
        at += 1 + fraction;
    }
    if any && matches!(rest.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(rest.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(rest.get(at + 1 + sign..).unwrap_or_default());
        if exponent == 0 {
            return false;
        }
        at += 1 + sign + exponent;
    }
    any && at == rest.len()
}

/// The kind of a variable without a value.
pub const UNINITIALIZED: &str = "uninitialized";

/// The name of a value's kind.
pub fn kind(cell: Cell<'_>) -> &'static str {
    match cell {
        Cell::Uninit => UNINITIALIZED,
        Cell::Num(_) => "number",
        // What a field that is not there is: `e = $9`.
        Cell::Str {
            bytes: [],
            maybe_num: true,
        } => UNINITIALIZED,
        Cell::Str { bytes, maybe_num } if maybe_num && looks_numeric(bytes) => "strnum",
        Cell::Str { .. } => "string",
        Cell::Other([b'R', ..]) => "regexp",
        Cell::Other([b'B', ..]) => "number|bool",
        Cell::Other([b'I' | b'F', ..]) => "number",
        Cell::Other([b'U']) => UNINITIALIZED,
        Cell::Other(_) => "unknown",
        Cell::Table(_) => "array",
    }
}

/// `1234567` as `1.2 MiB (1234567 bytes)`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = "";
    for name in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = name;
    }
    if unit.is_empty() {
        format!("{bytes} bytes")
    } else {
        format!("{value:.1} {unit} ({bytes} bytes)")
    }
}

/// Seconds since 1970 as a date and time of day in UTC.
pub fn time(seconds: u64) -> String {
    // Days to a civil date: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms" (2013).
    let days = seconds / 86400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        push_quoted(&mut out, bytes);
        String::from_utf8(out).expect("always UTF-8")
    }

    #[test]
    fn any_bytes_become_one_printable_line() {
        assert_eq!(quoted(b"a\"b\\c\n\t\r"), r#""a\"b\\c\n\t\r""#);
        assert_eq!(quoted("Zürich 東".as_bytes()), "\"Zürich 東\"");
        assert_eq!(quoted(b"\x00\x1b[31m\x7f"), r#""\000\033[31m\177""#);
        assert_eq!(
            quoted(b"\xff\xc3(\xe2\x80\xae\xe6"),
            r#""\377\303(\342\200\256\346""#
        );
    }

    #[test]
    fn numbers_read_back_as_themselves() {
        let text = |n: f64| {
            let mut out = Vec::new();
            push_number(&mut out, n);
            String::from_utf8(out).expect("ASCII")
        };
        for n in [
            0.1,
            1e300,
            -2.5e-9,
            123_456_789.125,
            9_007_199_254_740_993.0,
            1e16,
        ] {
            assert_eq!(text(n).parse::<f64>(), Ok(n));
        }
        assert_eq!(
            [54.0, -0.0, f64::INFINITY, 1e15, 2e22].map(text),
            ["54", "-0", "+inf", "1000000000000000", "2e22"]
        );
    }

    #[test]
    fn numeric_looks() {
        for yes in ["1", " -1.5e3 ", ".5", "5.", "+inf", "-NaN"] {
            assert!(looks_numeric(yes.as_bytes()), "{yes}");
        }
        for no in ["", " ", ".", "e5", "1e", "inf", "0x1g", "1 2", "--1"] {
            assert!(!looks_numeric(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn times_and_sizes() {
        assert_eq!(time(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(time(951_827_696), "2000-02-29 12:34:56 UTC");
        assert_eq!(time(4_102_444_799), "2099-12-31 23:59:59 UTC");
        assert_eq!(size(1023), "1023 bytes");
        assert_eq!(size(1_234_567), "1.2 MiB (1234567 bytes)");
    }
}
