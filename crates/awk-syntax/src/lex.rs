//! Text to tokens, one at a time, at the parser's pace.
//!
//! The parser decides whether a `/` divides or begins a regular expression, because only it knows whether an operand is
//! wanted: the lexer gives `Slash` or `SlashAssign`, and `regex_from` reads again from there.
//!
//! Invariant: `Lexer` is cheap to copy, so that the parser can look ahead by lexing with a copy.

use crate::diagnostic::Diagnostics;
use crate::names::{Builtin, Names, Symbol};
use crate::span::{Sources, Span};

/// A token.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Token {
    Newline,
    Eof,
    /// Something that is no token; the lexer has said so already.
    Bad,
    Number(f64),
    Str(Vec<u8>),
    Name(Symbol),
    /// A name directly followed by `(`.
    FuncName(Symbol),
    Builtin(Builtin),
    // keywords
    Begin,
    End,
    Function,
    If,
    Else,
    While,
    For,
    Do,
    Break,
    Continue,
    Next,
    NextFile,
    Exit,
    Return,
    Delete,
    In,
    Getline,
    Print,
    Printf,
    // punctuation
    LBrace,
    RBrace,
    LParen,
    RParen,
    LBracket,
    RBracket,
    Semicolon,
    Comma,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Caret,
    Not,
    Gt,
    Lt,
    Pipe,
    Question,
    Colon,
    Tilde,
    NotTilde,
    Dollar,
    Assign,
    AddAssign,
    SubAssign,
    MulAssign,
    SlashAssign,
    ModAssign,
    PowAssign,
    Eq,
    Le,
    Ge,
    Ne,
    Incr,
    Decr,
    And,
    Or,
    Append,
}

const KEYWORDS: [(&str, Token); 20] = [
    ("BEGIN", Token::Begin),
    ("END", Token::End),
    ("function", Token::Function),
    ("func", Token::Function),
    ("if", Token::If),
    ("else", Token::Else),
    ("while", Token::While),
    ("for", Token::For),
    ("do", Token::Do),
    ("break", Token::Break),
    ("continue", Token::Continue),
    ("next", Token::Next),
    ("nextfile", Token::NextFile),
    ("exit", Token::Exit),
    ("return", Token::Return),
    ("delete", Token::Delete),
    ("in", Token::In),
    ("getline", Token::Getline),
    ("print", Token::Print),
    ("printf", Token::Printf),
];

/// Longest first, so that the first that fits is right.
const OPERATORS: [(&[u8], Token); 41] = [
    (b"**=", Token::PowAssign),
    (b"**", Token::Caret),
    (b"^=", Token::PowAssign),
    (b"+=", Token::AddAssign),
    (b"-=", Token::SubAssign),
    (b"*=", Token::MulAssign),
    (b"/=", Token::SlashAssign),
    (b"%=", Token::ModAssign),
    (b"==", Token::Eq),
    (b"<=", Token::Le),
    (b">=", Token::Ge),
    (b"!=", Token::Ne),
    (b"!~", Token::NotTilde),
    (b"++", Token::Incr),
    (b"--", Token::Decr),
    (b"&&", Token::And),
    (b"||", Token::Or),
    (b">>", Token::Append),
    (b"{", Token::LBrace),
    (b"}", Token::RBrace),
    (b"(", Token::LParen),
    (b")", Token::RParen),
    (b"[", Token::LBracket),
    (b"]", Token::RBracket),
    (b";", Token::Semicolon),
    (b",", Token::Comma),
    (b"+", Token::Plus),
    (b"-", Token::Minus),
    (b"*", Token::Star),
    (b"/", Token::Slash),
    (b"%", Token::Percent),
    (b"^", Token::Caret),
    (b"!", Token::Not),
    (b">", Token::Gt),
    (b"<", Token::Lt),
    (b"|", Token::Pipe),
    (b"?", Token::Question),
    (b":", Token::Colon),
    (b"~", Token::Tilde),
    (b"$", Token::Dollar),
    (b"=", Token::Assign),
];

impl Token {
    /// How messages name it.
    pub fn describe(&self, names: &Names) -> String {
        match self {
            Token::Newline => "end of line".into(),
            Token::Eof => "end of program".into(),
            Token::Bad => "unreadable text".into(),
            Token::Number(n) => format!("number {n}"),
            Token::Str(s) => format!("string \"{}\"", String::from_utf8_lossy(s)),
            Token::Name(s) | Token::FuncName(s) => format!("`{}`", names.text(*s)),
            Token::Builtin(b) => format!("`{}`", b.name()),
            other => {
                let word = KEYWORDS.iter().find(|(_, t)| t == other).map(|(w, _)| *w);
                let sign = OPERATORS
                    .iter()
                    .rev()
                    .find(|(_, t)| t == other)
                    .map(|(w, _)| std::str::from_utf8(w).unwrap_or("?"));
                format!("`{}`", word.or(sign).unwrap_or("?"))
            }
        }
    }
}

/// The reading position in a list of sources, which read as if they were one text with newlines between.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    sources: &'a Sources,
    source: u32,
    last_source: u32,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// Begins at the first of the sources `first..=last`.
    pub fn new(sources: &'a Sources, first: u32, last: u32) -> Lexer<'a> {
        Lexer {
            sources,
            source: first,
            last_source: last,
            at: 0,
        }
    }

    fn text(&self) -> &'a [u8] {
        &self.sources.get(self.source).text
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text().get(self.at + ahead).copied()
    }

    fn span_from(&self, start: usize) -> Span {
        Span {
            source: self.source,
            start: start as u32,
            end: self.at as u32,
        }
    }

    /// The next token and its place.
    pub fn next(&mut self, names: &mut Names, diagnostics: &mut Diagnostics) -> (Token, Span) {
        self.skip_blanks(diagnostics);
        let start = self.at;
        let Some(byte) = self.byte(0) else {
            let span = self.span_from(start);
            if self.source < self.last_source {
                self.source += 1;
                self.at = 0;
                return (Token::Newline, span);
            }
            return (Token::Eof, span);
        };
        let token = match byte {
            b'\n' => {
                self.at += 1;
                Token::Newline
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(names),
            b'0'..=b'9' => self.number(),
            b'.' if self.byte(1).is_some_and(|b| b.is_ascii_digit()) => self.number(),
            b'"' => self.string(diagnostics),
            _ => self.operator(diagnostics),
        };
        (token, self.span_from(start))
    }

    fn skip_blanks(&mut self, diagnostics: &mut Diagnostics) {
        while let Some(byte) = self.byte(0) {
            match byte {
                // gawk takes a carriage return for a blank as well, so programs from other systems run.
                b' ' | b'\t' | b'\r' | 0x0b | 0x0c => self.at += 1,
                b'#' => {
                    while self.byte(0).is_some_and(|b| b != b'\n') {
                        self.at += 1;
                    }
                }
                b'\\' => {
                    let line_end = if self.byte(1) == Some(b'\r') { 2 } else { 1 };
                    match self.byte(line_end) {
                        Some(b'\n') => self.at += line_end + 1,
                        None if line_end == 1 => self.at += 1,
                        _ => {
                            let start = self.at;
                            self.at += 1;
                            diagnostics.error(
                                self.span_from(start),
                                "backslash not last character on line",
                            );
                        }
                    }
                }
                _ => return,
            }
        }
    }

    fn word(&mut self, names: &mut Names) -> Token {
        let start = self.at;
        while self
            .byte(0)
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            self.at += 1;
        }
        let word = &self.text()[start..self.at];
        if let Some((_, token)) = KEYWORDS.iter().find(|(text, _)| text.as_bytes() == word) {
            return token.clone();
        }
        if let Some(builtin) = Builtin::from_name(word) {
            return Token::Builtin(builtin);
        }
        // Only ASCII letters, digits and `_` got here.
        let symbol = names.intern(std::str::from_utf8(word).unwrap_or_default());
        if self.byte(0) == Some(b'(') {
            Token::FuncName(symbol)
        } else {
            Token::Name(symbol)
        }
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        if self.byte(0) == Some(b'0')
            && matches!(self.byte(1), Some(b'x' | b'X'))
            && self.byte(2).is_some_and(|b| b.is_ascii_hexdigit())
        {
            // POSIX leaves it open; gawk and mawk read hexadecimal in program text.
            self.at += 2;
            let mut value = 0.0;
            while let Some(digit) = self.byte(0).and_then(|b| (b as char).to_digit(16)) {
                value = value * 16.0 + f64::from(digit);
                self.at += 1;
            }
            return Token::Number(value);
        }
        let digits = |lexer: &mut Self| {
            while lexer.byte(0).is_some_and(|b| b.is_ascii_digit()) {
                lexer.at += 1;
            }
        };
        digits(self);
        if self.byte(0) == Some(b'.') {
            self.at += 1;
            digits(self);
        }
        if matches!(self.byte(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.byte(1), Some(b'+' | b'-')));
            if self.byte(1 + sign).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1 + sign;
                digits(self);
            }
        }
        let text = std::str::from_utf8(&self.text()[start..self.at]).unwrap_or("0");
        Token::Number(text.parse().unwrap_or(0.0))
    }

    fn string(&mut self, diagnostics: &mut Diagnostics) -> Token {
        let start = self.at;
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.byte(0) {
                None | Some(b'\n') => {
                    diagnostics.error(
                        self.span_from(start),
                        "unterminated string: expected `\"` before the end of the line",
                    );
                    return Token::Bad;
                }
                Some(b'"') => {
                    self.at += 1;
                    return Token::Str(out);
                }
                Some(b'\\') => {
                    let escape = self.at;
                    let span = Span {
                        source: self.source,
                        start: escape as u32,
                        end: escape as u32 + 1,
                    };
                    match self.byte(1) {
                        Some(b'\n') => self.at += 2,
                        Some(b'\r') if self.byte(2) == Some(b'\n') => self.at += 3,
                        _ => {
                            let (used, warning) = unescape(&self.text()[self.at..], &mut out);
                            self.at += used;
                            if let Some(warning) = warning {
                                diagnostics.warn(span, warning);
                            }
                        }
                    }
                }
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn operator(&mut self, diagnostics: &mut Diagnostics) -> Token {
        let rest = &self.text()[self.at..];
        for (sign, token) in &OPERATORS {
            if rest.starts_with(sign) {
                self.at += sign.len();
                return token.clone();
            }
        }
        let start = self.at;
        if rest.starts_with(b"&") {
            self.at += 1;
            diagnostics.error(self.span_from(start), "unexpected `&`: expected `&&`");
            return Token::Bad;
        }
        let length =
            std::str::from_utf8(rest).map_or(1, |t| t.chars().next().map_or(1, char::len_utf8));
        self.at += length;
        let shown = String::from_utf8_lossy(&rest[..length])
            .escape_debug()
            .to_string();
        diagnostics.error(
            self.span_from(start),
            format!("invalid character '{shown}' in program"),
        );
        Token::Bad
    }

    /// Reads a regular expression whose opening slash is at `slash`; the text between the slashes, with `\/` made `/`.
    pub fn regex_from(
        &mut self,
        slash: Span,
        diagnostics: &mut Diagnostics,
    ) -> Option<(Vec<u8>, Span)> {
        self.source = slash.source;
        self.at = slash.start as usize + 1;
        let start = slash.start as usize;
        let mut out = Vec::new();
        let mut bracket: Option<usize> = None; // where the bracket expression's content begins in `out`
        loop {
            match self.byte(0) {
                None | Some(b'\n') => {
                    diagnostics.error(
                        self.span_from(start),
                        "unterminated regular expression: expected `/` before the end of the line",
                    );
                    return None;
                }
                Some(b'/') if bracket.is_none() => {
                    self.at += 1;
                    return Some((out, self.span_from(start)));
                }
                Some(b'\\') => {
                    match self.byte(1) {
                        Some(b'/') => out.push(b'/'),
                        Some(b'\n') => {}
                        Some(next) => out.extend([b'\\', next]),
                        None => out.push(b'\\'),
                    }
                    self.at += 2.min(self.text().len() - self.at);
                }
                Some(byte) => {
                    out.push(byte);
                    self.at += 1;
                    match (byte, bracket) {
                        (b'[', None) => {
                            if self.byte(0) == Some(b'^') {
                                out.push(b'^');
                                self.at += 1;
                            }
                            bracket = Some(out.len());
                        }
                        (b'[', Some(_)) if matches!(self.byte(0), Some(b':' | b'.' | b'=')) => {
                            self.class_in_bracket(&mut out)
                        }
                        (b']', Some(begin)) if out.len() > begin + 1 => bracket = None,
                        _ => {}
                    }
                }
            }
        }
    }

    /// Copies `:alpha:]` if it is one; otherwise nothing.
    fn class_in_bracket(&mut self, out: &mut Vec<u8>) {
        let rest = &self.text()[self.at..];
        let mark = rest[0];
        let name = rest[1..]
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric())
            .count();
        if rest.get(1 + name) == Some(&mark) && rest.get(2 + name) == Some(&b']') {
            out.extend_from_slice(&rest[..name + 3]);
            self.at += name + 3;
        }
    }
}

/// Reads the escape sequence at the start of `text` (which begins with a backslash) into `out`.
///
/// Gives the number of bytes used and, for unknown sequences, a warning. The same rules serve string tokens, `-v` and
/// operand assignments (POSIX awk, "Lexical Conventions", table of escape sequences).
pub fn unescape(text: &[u8], out: &mut Vec<u8>) -> (usize, Option<String>) {
    let Some(&next) = text.get(1) else {
        out.push(b'\\');
        return (1, Some("backslash at end of string".into()));
    };
    let plain = match next {
        b'"' | b'\\' | b'/' => Some(next),
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
    if next == b'x' {
        let digits = text[2..]
            .iter()
            .take(2)
            .take_while(|b| b.is_ascii_hexdigit())
            .count();
        if digits > 0 {
            let value = text[2..2 + digits]
                .iter()
                .fold(0u32, |v, d| v * 16 + (*d as char).to_digit(16).unwrap_or(0));
            out.push(value as u8);
            return (2 + digits, None);
        }
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
