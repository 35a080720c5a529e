//! Fields of comma-separated values, as `--csv` has them (gawk manual, "Comma Separated Value Files").
//!
//! Invariant: a field that begins with a quote ends at the first quote that a comma or the record's end follows; two
//! quotes in it stand for one, and any other quote for itself. Elsewhere quotes mean nothing. No input is refused.

/// In which bytes the fields of a record lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the record itself.
    Record,
    /// In the text that was made because a quote within a field had to be taken out.
    Text,
}

/// Appends start and end of every field of `rec` to `out`. They are places in the record, or in `text`, which is
/// overwritten then, as the answer says: so a field is a range of one buffer, and only records that have quotes within
/// a quoted field are copied. An empty record has no field.
pub fn split(rec: &[u8], out: &mut Vec<(u32, u32)>, text: &mut Vec<u8>) -> Source {
    debug_assert!(
        u32::try_from(rec.len()).is_ok(),
        "record of {} bytes",
        rec.len()
    );
    let from = out.len();
    let mut at = 0;
    if rec.is_empty() {
        return Source::Record;
    }
    loop {
        let (start, end, next) = match rec.get(at) {
            Some(b'"') => match simple_quoted(rec, at + 1) {
                Some(found) => found,
                None => {
                    out.truncate(from);
                    split_into_text(rec, out, text);
                    return Source::Text;
                }
            },
            _ => {
                let end = memchr::memchr(b',', &rec[at..]).map_or(rec.len(), |len| at + len);
                (at, end, end)
            }
        };
        out.push((start as u32, end as u32));
        if next == rec.len() {
            return Source::Record;
        }
        at = next + 1;
    }
}

/// Appends a value as a field: in quotes if it needs them (RFC 4180).
pub fn push(value: &[u8], out: &mut Vec<u8>) {
    let needs = |b: &u8| matches!(b, b',' | b'"' | b'\n' | b'\r');
    if !value.iter().any(needs) {
        out.extend_from_slice(value);
        return;
    }
    out.push(b'"');
    for &byte in value {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

/// Start and end of the quoted field whose text begins at `start`, and where its comma or the end is; `None` if it has
/// a quote within.
fn simple_quoted(rec: &[u8], start: usize) -> Option<(usize, usize, usize)> {
    match memchr::memchr(b'"', &rec[start..]) {
        None => Some((start, rec.len(), rec.len())),
        Some(len) => {
            let quote = start + len;
            matches!(rec.get(quote + 1), None | Some(b',')).then_some((start, quote, quote + 1))
        }
    }
}

#[cold]
fn split_into_text(rec: &[u8], out: &mut Vec<(u32, u32)>, text: &mut Vec<u8>) {
    text.clear();
    let mut at = 0;
    loop {
        let start = text.len();
        let next = if rec.get(at) == Some(&b'"') {
            push_quoted(rec, at + 1, text)
        } else {
            let end = memchr::memchr(b',', &rec[at..]).map_or(rec.len(), |len| at + len);
            text.extend_from_slice(&rec[at..end]);
            end
        };
        out.push((start as u32, text.len() as u32));
        if next == rec.len() {
            return;
        }
        at = next + 1;
    }
}

/// Appends the text of the quoted field that begins at `at`; gives back where its comma or the end is.
fn push_quoted(rec: &[u8], mut at: usize, text: &mut Vec<u8>) -> usize {
    loop {
        let Some(len) = memchr::memchr(b'"', &rec[at..]) else {
            text.extend_from_slice(&rec[at..]);
            return rec.len();
        };
        let quote = at + len;
        text.extend_from_slice(&rec[at..quote]);
        match rec.get(quote + 1) {
            None | Some(b',') => return quote + 1,
            Some(b'"') => at = quote + 2,
            Some(_) => at = quote + 1,
        }
        text.push(b'"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_unquoted_as_gawk_does() {
        let cases: &[(&str, &[&str])] = &[
            ("a,b,c", &["a", "b", "c"]),
            (r#"a,"b,c",d"#, &["a", "b,c", "d"]),
            (r#"a,"b""c",d"#, &["a", "b\"c", "d"]),
            ("a,\"b\nc\",d", &["a", "b\nc", "d"]),
            ("", &[]),
            (",", &["", ""]),
            ("a,", &["a", ""]),
            (",a", &["", "a"]),
            (r#"a"b",c"#, &["a\"b\"", "c"]),
            (r#""a"b,c"#, &["a\"b,c"]),
            (r#""a" ,c"#, &["a\" ,c"]),
            (r#" "a,b",c"#, &[" \"a", "b\"", "c"]),
            ("\"a,b\nc\n", &["a,b\nc\n"]),
            (r#""a"#, &["a"]),
            (r#""",b"#, &["", "b"]),
            (r#""""",b"#, &["\"", "b"]),
            ("\"a\"\"\n", &["a\"\n"]),
            (r#"a""b,c"#, &["a\"\"b", "c"]),
            (r#"""a,b"#, &["\"a,b"]),
            (r#""a""b"c"d,e""#, &["a\"b\"c\"d,e"]),
            ("\"", &[""]),
        ];
        let (mut out, mut text) = (Vec::new(), Vec::new());
        for (rec, expected) in cases {
            out.clear();
            let source = match split(rec.as_bytes(), &mut out, &mut text) {
                Source::Record => rec.as_bytes(),
                Source::Text => &text,
            };
            let got: Vec<&str> = out
                .iter()
                .map(|&(start, end)| {
                    std::str::from_utf8(&source[start as usize..end as usize]).unwrap()
                })
                .collect();
            assert_eq!(got, *expected, "{rec:?}");
        }
    }
}
