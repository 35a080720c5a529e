//! Fields of tab-separated values, and values as fields of either kind.
//!
//! Invariant: what [`push`] and [`super::csv::push`] write, the splitter of the same kind reads back as the same fields.
//!
//! Source: IANA's text/tab-separated-values, with the escapes `\t`, `\n`, `\r` and `\\` that PostgreSQL and MySQL write.

pub use super::csv::Source;

/// Appends start and end of every field of `rec` to `out`: places in the record, or in `text`, which is overwritten then,
/// if an escape had to be resolved. An empty record has no field.
pub fn split(rec: &[u8], out: &mut Vec<(u32, u32)>, text: &mut Vec<u8>) -> Source {
    if rec.is_empty() {
        return Source::Record;
    }
    if memchr::memchr(b'\\', rec).is_none() {
        let mut start = 0;
        for tab in memchr::memchr_iter(b'\t', rec) {
            out.push((start as u32, tab as u32));
            start = tab + 1;
        }
        out.push((start as u32, rec.len() as u32));
        return Source::Record;
    }
    text.clear();
    for field in rec.split(|b| *b == b'\t') {
        let start = text.len();
        let mut rest = field;
        while let Some((&byte, after)) = rest.split_first() {
            let escaped = match (byte, after.first()) {
                (b'\\', Some(b't')) => b'\t',
                (b'\\', Some(b'n')) => b'\n',
                (b'\\', Some(b'r')) => b'\r',
                (b'\\', Some(b'\\')) => b'\\',
                _ => {
                    text.push(byte);
                    rest = after;
                    continue;
                }
            };
            text.push(escaped);
            rest = &after[1..];
        }
        out.push((start as u32, text.len() as u32));
    }
    Source::Text
}

/// Appends a value as a field.
pub fn push(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let values: [&[u8]; 5] = [b"a\tb", b"", b"c\\d\\t", b"line\nline\r", b"plain"];
        let mut record = Vec::new();
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                record.push(b'\t');
            }
            push(value, &mut record);
        }
        let (mut spans, mut text) = (Vec::new(), Vec::new());
        assert_eq!(split(&record, &mut spans, &mut text), Source::Text);
        let back: Vec<&[u8]> = spans
            .iter()
            .map(|&(start, end)| &text[start as usize..end as usize])
            .collect();
        assert_eq!(back, values);
        spans.clear();
        assert_eq!(split(b"a\t\tb", &mut spans, &mut text), Source::Record);
        assert_eq!(spans, [(0, 1), (2, 2), (3, 4)]);
    }
}
