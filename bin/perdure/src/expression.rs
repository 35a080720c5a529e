//! Reads what `perdure get` is asked for: `total`, `freq["river"]`, `m["a","b"]`, `a[1][2]`, `a.root["key"]`, `"a.root"["key"]`.

use crate::text::SUBSEP;

/// A name and the keys that lead from it inwards.
#[derive(Debug, PartialEq, Eq)]
pub struct Expression {
    pub name: Vec<u8>,
    /// The name is a root's, not a variable's: it was quoted, or has a dot.
    pub is_root: bool,
    pub keys: Vec<Vec<u8>>,
}

/// Why the text is no expression of ours.
#[derive(Debug, PartialEq, Eq)]
pub struct BadExpression {
    text: String,
    at: usize,
    wanted: &'static str,
}

impl std::fmt::Display for BadExpression {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot read '{}': {} is wanted at character {}; write a name or an element, such as 'total' or 'freq[\"river\"]' \
             (the single quotes are for the shell)",
            self.text,
            self.wanted,
            self.at + 1
        )
    }
}

impl std::error::Error for BadExpression {}

/// Parses `text`.
pub fn parse(text: &str) -> Result<Expression, BadExpression> {
    let mut reader = Reader {
        text,
        bytes: text.as_bytes(),
        at: 0,
    };
    reader.skip_blanks();
    let is_root = reader.peek() == Some(b'"');
    let name = if is_root {
        reader.string()?
    } else {
        reader.name()?
    };
    let is_root = is_root || name.contains(&b'.'); // no variable's name has a dot
    let mut keys = Vec::new();
    reader.skip_blanks();
    while reader.eat(b'[') {
        let mut key = reader.subscript()?;
        while reader.eat(b',') {
            key.push(SUBSEP);
            key.extend(reader.subscript()?);
        }
        if !reader.eat(b']') {
            return Err(reader.bad("a closing bracket"));
        }
        keys.push(key);
        reader.skip_blanks();
    }
    if reader.peek().is_some() {
        return Err(reader.bad("an opening bracket or the end"));
    }
    Ok(Expression {
        name,
        is_root,
        keys,
    })
}

struct Reader<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    /// Past `byte`, and the blanks around it, if it is next.
    fn eat(&mut self, byte: u8) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(byte);
        if found {
            self.at += 1;
            self.skip_blanks();
        }
        found
    }

    fn bad(&self, wanted: &'static str) -> BadExpression {
        let at = self
            .text
            .char_indices()
            .take_while(|(i, _)| *i < self.at)
            .count();
        BadExpression {
            text: self.text.into(),
            at,
            wanted,
        }
    }

    fn take_while(&mut self, fits: impl Fn(u8) -> bool) -> &[u8] {
        let start = self.at;
        while self.peek().is_some_and(&fits) {
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    fn name(&mut self) -> Result<Vec<u8>, BadExpression> {
        if !self
            .peek()
            .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        {
            return Err(self.bad("a name"));
        }
        // Colons: names in namespaces, such as pm::count. Dots: roots, such as awk.positions.
        Ok(self
            .take_while(|b| b.is_ascii_alphanumeric() || b"_:.".contains(&b))
            .to_vec())
    }

    fn subscript(&mut self) -> Result<Vec<u8>, BadExpression> {
        if self.peek() == Some(b'"') {
            return self.string();
        }
        let number = self
            .take_while(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
            .to_vec();
        let value = std::str::from_utf8(&number)
            .ok()
            .and_then(|n| n.parse::<f64>().ok());
        match value {
            // AWK's own way from a number to a key: integers in full.
            Some(n) if n == n.trunc() && n.abs() < 1e16 => Ok((n as i64).to_string().into_bytes()),
            Some(_) => Ok(number),
            None => Err(self.bad("a string in double quotes or a number")),
        }
    }

    /// A string constant with AWK's escapes.
    fn string(&mut self) -> Result<Vec<u8>, BadExpression> {
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let Some(byte) = self.peek() else {
                return Err(self.bad("a closing double quote"));
            };
            self.at += 1;
            match byte {
                b'"' => return Ok(out),
                b'\\' => {
                    let Some(escape) = self.peek() else {
                        return Err(self.bad("a closing double quote"));
                    };
                    self.at += 1;
                    match escape {
                        b'a' => out.push(7),
                        b'b' => out.push(8),
                        b'f' => out.push(12),
                        b'n' => out.push(b'\n'),
                        b'r' => out.push(b'\r'),
                        b't' => out.push(b'\t'),
                        b'v' => out.push(11),
                        b'0'..=b'7' => {
                            let mut value = u32::from(escape - b'0');
                            for _ in 0..2 {
                                let Some(digit @ b'0'..=b'7') = self.peek() else {
                                    break;
                                };
                                value = value * 8 + u32::from(digit - b'0');
                                self.at += 1;
                            }
                            out.push(value as u8);
                        }
                        b'"' | b'\\' | b'/' => out.push(escape),
                        other => out.extend_from_slice(&[b'\\', other]),
                    }
                }
                _ => out.push(byte),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<Vec<u8>> {
        parse(text).expect(text).keys
    }

    #[test]
    fn elements_are_read_as_awk_reads_them() {
        assert_eq!(
            parse(" total ").map(|e| (e.name, e.keys)),
            Ok((b"total".to_vec(), vec![]))
        );
        assert_eq!(keys("freq[\"river\"]"), [b"river"]);
        assert_eq!(keys("m[ \"a\" , \"b\" ]"), [b"a\x1cb"]);
        assert_eq!(keys("a[1][007]"), [b"1", b"7"]);
        assert_eq!(keys(r#"a["\101\n\"\\\377"]"#), [b"A\n\"\\\xff"]);
        assert_eq!(keys("a[0.1]"), [b"0.1"]);
        assert!(parse("a.root[1]").is_ok_and(|e| e.is_root && e.name == b"a.root"));
        assert!(parse("\"a.root\"").is_ok_and(|e| e.is_root && e.name == b"a.root"));
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, at) in [
            ("", 0),
            ("a[", 2),
            ("a[\"x]", 5),
            ("a[\"x\"", 5),
            ("a b", 2),
            ("ü", 0),
            ("a[x]", 3),
        ] {
            assert_eq!(parse(text).map_err(|e| e.at), Err(at), "{text}");
        }
    }
}
