//! A Rust file as the guards see it: code without comments, texts and test modules.
//!
//! The scanner knows comments (nested), strings (raw, byte, C), characters and lifetimes: enough that a word in a comment
//! is no violation and a violation cannot hide behind a quote. The invariant: lines keep their numbers in every view.

/// One file, seen in two ways.
pub struct Source {
    /// From the root of the workspace, with `/`.
    pub path: String,
    /// Without comments, and with string and character literals emptied.
    pub code: String,
    /// Without comments, literals kept.
    pub literals: String,
    pub line_count: usize,
}

impl Source {
    /// Reads `text`; modules and items under `#[cfg(test)]` are blanked in both views.
    pub fn new(path: String, text: &str) -> Source {
        let (mut code, mut literals) = views(text.as_bytes());
        for range in test_items(&code) {
            blank(&mut code[range.clone()]);
            blank(&mut literals[range]);
        }
        Source {
            path,
            code: String::from_utf8_lossy(&code).into_owned(),
            literals: String::from_utf8_lossy(&literals).into_owned(),
            line_count: text.lines().count(),
        }
    }

    /// Whether this file is a test, benchmark or example as a whole.
    pub fn is_test(&self) -> bool {
        ["/tests/", "/benches/", "/examples/"]
            .iter()
            .any(|folder| self.path.contains(folder))
    }

    /// The folder of its crate: `crates/heap`, `bin/pmawk`, `xtask`.
    pub fn home(&self) -> &str {
        let parts = if self.path.starts_with("crates/") || self.path.starts_with("bin/") {
            2
        } else {
            1
        };
        let end = self
            .path
            .match_indices('/')
            .nth(parts - 1)
            .map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }
}

/// Whether this byte can be part of a name.
pub fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// Lines (from 1) of `text` in which `word` stands, not as a part of a longer name.
pub fn lines_with(text: &str, word: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let hit = line.match_indices(word).any(|(at, _)| {
            let bytes = line.as_bytes();
            let before = at.checked_sub(1).map(|i| bytes[i]);
            let after = bytes.get(at + word.len()).copied();
            let joined =
                |edge: Option<u8>, inner: u8| edge.is_some_and(is_name_byte) && is_name_byte(inner);
            !joined(before, word.as_bytes()[0]) && !joined(after, word.as_bytes()[word.len() - 1])
        });
        if hit {
            found.push(index + 1);
        }
    }
    found
}

fn blank(bytes: &mut [u8]) {
    for byte in bytes {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
}

/// Both views, before test items are blanked.
fn views(text: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut code = text.to_vec();
    let mut literals = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let starts_name = at == 0 || !is_name_byte(text[at - 1]);
        let end = if rest.starts_with(b"//") {
            let end = at + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            blank(&mut code[at..end]);
            blank(&mut literals[at..end]);
            end
        } else if rest.starts_with(b"/*") {
            let end = at + block_comment_len(rest);
            blank(&mut code[at..end]);
            blank(&mut literals[at..end]);
            end
        } else if let Some(prefix) = starts_name.then(|| raw_string_prefix(rest)).flatten() {
            let hashes = vec![b'#'; prefix.hashes];
            let body = at + prefix.len;
            let end = find(&text[body..], |tail| {
                tail[0] == b'"' && tail[1..].starts_with(&hashes)
            })
            .map_or(text.len(), |i| body + i);
            blank(&mut code[body..end]);
            (end + 1 + prefix.hashes).min(text.len())
        } else if rest[0] == b'"' {
            let end = at + 1 + quoted_len(&rest[1..], b'"');
            blank(&mut code[at + 1..end]);
            (end + 1).min(text.len())
        } else if rest[0] == b'\'' && is_character(rest) {
            let end = at + 1 + quoted_len(&rest[1..], b'\'');
            blank(&mut code[at + 1..end]);
            (end + 1).min(text.len())
        } else {
            at + 1
        };
        at = end;
    }
    (code, literals)
}

fn find(bytes: &[u8], matches: impl Fn(&[u8]) -> bool) -> Option<usize> {
    (0..bytes.len()).find(|&i| matches(&bytes[i..]))
}

fn block_comment_len(text: &[u8]) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

struct RawPrefix {
    len: usize,
    hashes: usize,
}

/// `r"`, `br#"`, `cr##"` and so on.
fn raw_string_prefix(text: &[u8]) -> Option<RawPrefix> {
    let mut at = 0;
    if matches!(text.first(), Some(b'b' | b'c')) {
        at += 1;
    }
    if text.get(at) != Some(&b'r') {
        return None;
    }
    at += 1;
    let hashes = text[at..].iter().take_while(|&&b| b == b'#').count();
    at += hashes;
    (text.get(at) == Some(&b'"')).then_some(RawPrefix {
        len: at + 1,
        hashes,
    })
}

/// Length of a literal's inside, up to its closing quote.
fn quoted_len(text: &[u8], quote: u8) -> usize {
    let mut at = 0;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
}

/// `'a'` and `'\n'`, not the lifetime `'a`.
fn is_character(text: &[u8]) -> bool {
    match text.get(1) {
        Some(b'\\') => true,
        Some(&byte) if byte < 0x80 => text.get(2) == Some(&b'\''),
        // One character of several bytes.
        Some(_) => text[1..].iter().take(5).any(|&b| b == b'\''),
        None => false,
    }
}

/// The extents of items under `#[cfg(test)]`, in a view without comments and texts.
fn test_items(code: &[u8]) -> Vec<std::ops::Range<usize>> {
    const MARK: &[u8] = b"#[cfg(test)]";
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(start) = find(&code[at..], |tail| tail.starts_with(MARK)).map(|i| at + i) {
        let mut depth = 0_usize;
        let mut end = start + MARK.len();
        while end < code.len() {
            match code[end] {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            end += 1;
            let closed = matches!(code[end - 1], b'}' | b';') && depth == 0;
            if closed {
                break;
            }
        }
        items.push(start..end);
        at = end;
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        Source::new("crates/a/src/lib.rs".into(), text).code
    }

    #[test]
    fn comments_and_texts_are_no_code() {
        let text = "a(); // unsafe\n/* unsafe /* unsafe */ unsafe */ b();\nlet s = \"unsafe \\\" unsafe\"; let c = '\"'; unsafe_code();\n";
        let seen = code(text);
        assert!(lines_with(&seen, "unsafe").is_empty(), "{seen}");
        assert_eq!(lines_with(&seen, "unsafe_code"), [3]);
        assert_eq!(seen.lines().count(), text.lines().count());
    }

    #[test]
    fn code_behind_a_quote_is_seen() {
        assert_eq!(
            lines_with(
                &code("let c = '\"'; unsafe { x() } let d = '\"';"),
                "unsafe"
            ),
            [1]
        );
        assert_eq!(
            lines_with(&code("fn f<'a>(x: &'a str) { unsafe { y(x) } }"), "unsafe"),
            [1]
        );
        assert_eq!(
            lines_with(&code("let s = r#\"a \" // b\"#;\nunsafe {}"), "unsafe"),
            [2]
        );
        assert_eq!(
            lines_with(&code("let s = b\"\\\\\"; unsafe {}"), "unsafe"),
            [1]
        );
    }

    #[test]
    fn test_modules_are_left_out_and_what_follows_is_not() {
        let seen = code(
            "#[cfg(test)]\nmod tests {\n    fn f() { unsafe {} }\n}\n#[cfg(test)]\nmod more;\nfn g() { unsafe {} }\n",
        );
        assert_eq!(lines_with(&seen, "unsafe"), [7]);
    }

    #[test]
    fn homes_are_folders_of_crates() {
        let home = |path: &str| Source::new(path.into(), "").home().to_owned();
        assert_eq!(home("crates/heap/src/lib.rs"), "crates/heap");
        assert_eq!(home("bin/pmawk/tests/kill.rs"), "bin/pmawk");
        assert_eq!(home("xtask/src/main.rs"), "xtask");
    }
}
