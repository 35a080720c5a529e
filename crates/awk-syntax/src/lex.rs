//! Text to tokens, one at a time, at the parser's pace.
//!
//! The parser decides whether a `/` divides or begins a regular expression, because only it knows whether an operand is
//! wanted: the lexer gives `Slash` or `SlashAssign`, and `regex_from` reads again from there.
//!
//! Invariant: `Lexer` is cheap to copy, so that the parser can look ahead by lexing with a copy.

use crate::diagnostic::{Diagnostics, Lint};
use crate::dialect::Dialect;
use crate::names::{Names, Origin};
use crate::span::{Sources, Span};
use qualified::check_qualified;
use token::{DIRECTIVES, KEYWORDS, NOT_OLD, OPERATORS};

mod escape;
mod qualified;
mod token;

pub use escape::unescape;
pub(crate) use qualified::check_namespace;
pub use token::{Token, is_keyword};

/// The reading position in one source.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    text: &'a [u8],
    source: u32,
    at: usize,
    dialect: Dialect,
    /// The last token was a `$`.
    is_behind_dollar: bool,
}

impl<'a> Lexer<'a> {
    /// Begins at byte `at` of a source.
    pub fn new(sources: &'a Sources, source: u32, at: usize, dialect: Dialect) -> Lexer<'a> {
        Lexer {
            text: &sources.get(source).text,
            source,
            at,
            dialect,
            is_behind_dollar: false,
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    /// The text of a span of this source.
    pub fn slice(&self, span: Span) -> &'a [u8] {
        &self.text[span.start as usize..span.end as usize]
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
        let is_field = std::mem::take(&mut self.is_behind_dollar);
        let start = self.at;
        let Some(byte) = self.byte(0) else {
            return (Token::Eof, self.span_from(start));
        };
        let token = match byte {
            b'\n' => {
                self.at += 1;
                Token::Newline
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(is_field, names, diagnostics),
            b'0'..=b'9' => self.number(diagnostics),
            b'.' if self.byte(1).is_some_and(|b| b.is_ascii_digit()) => self.number(diagnostics),
            b'"' => self.string(diagnostics).map_or(Token::Bad, Token::Str),
            b'@' if self.dialect.is_gawk() => self.at_sign(diagnostics),
            _ => self.operator(diagnostics),
        };
        self.is_behind_dollar = token == Token::Dollar;
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

    fn take_name_bytes(&mut self) {
        while self
            .byte(0)
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            self.at += 1;
        }
    }

    /// A name or a word of the language; `is_field`: behind a `$`.
    fn word(&mut self, is_field: bool, names: &mut Names, diagnostics: &mut Diagnostics) -> Token {
        let start = self.at;
        let text: &'a [u8] = self.text;
        self.take_name_bytes();
        if self.dialect.is_gawk() {
            // `$_"text"` is the field whose number `_` is, and a string.
            if self.at == start + 1
                && text[start] == b'_'
                && self.byte(0) == Some(b'"')
                && !is_field
            {
                return self
                    .string(diagnostics)
                    .map_or(Token::Bad, Token::Translated);
            }
            while self.byte(0) == Some(b':') && self.byte(1) == Some(b':') {
                self.at += 2;
                self.take_name_bytes();
            }
        }
        // Only ASCII letters, digits, `_` and `:` got here.
        let word = std::str::from_utf8(&text[start..self.at]).unwrap_or_default();
        if let Some((space, name)) = word.split_once("::")
            && let Err(message) = check_qualified(word, space, name, self.dialect)
        {
            diagnostics.error(self.span_from(start), message);
            return Token::Bad;
        }
        let keyword = KEYWORDS.iter().find(|row| row.0 == word);
        if let Some((_, token, dialects)) = keyword
            && dialects.contains(&self.dialect)
        {
            self.lint_word(
                word,
                *dialects == [Dialect::Gawk],
                self.span_from(start),
                diagnostics,
            );
            return token.clone();
        }
        if let Some(builtin) = self.dialect.builtin(word) {
            let gawks = builtin.origin() == Origin::Gawk;
            self.lint_word(word, gawks, self.span_from(start), diagnostics);
            return Token::Builtin(builtin);
        }
        let symbol = names.intern(word);
        if self.byte(0) == Some(b'(') {
            Token::FuncName(symbol)
        } else {
            Token::Name(symbol)
        }
    }

    /// Warns about a word that not every AWK has.
    fn lint_word(&self, word: &str, gawks: bool, span: Span, diagnostics: &mut Diagnostics) {
        if gawks {
            diagnostics.lint_once(Lint::Extension, span, || {
                format!("`{word}' is a gawk extension")
            });
        }
        if word == "func" {
            diagnostics.lint_once(Lint::General, span, || "POSIX does not allow `func'".into());
        }
        if NOT_OLD.contains(&word) {
            diagnostics.lint_once(Lint::Old, span, || {
                format!("`{word}' is not supported in old awk")
            });
        }
    }

    /// What begins with `@`: a directive, a call through a variable, a regular expression as a value.
    fn at_sign(&mut self, diagnostics: &mut Diagnostics) -> Token {
        let start = self.at;
        self.at += 1;
        match self.byte(0) {
            Some(b'/') => return Token::AtSlash,
            Some(b'a'..=b'z' | b'A'..=b'Z' | b'_') => {}
            // gawk takes blanks before the word of a directive, and nowhere else.
            _ => {
                while matches!(self.byte(0), Some(b' ' | b'\t')) {
                    self.at += 1;
                }
            }
        }
        let word_start = self.at;
        self.take_name_bytes();
        let word = &self.text[word_start..self.at];
        if let Some((_, token)) = DIRECTIVES.iter().find(|(w, _)| w.as_bytes() == word) {
            return token.clone();
        }
        self.at = start + 1;
        if word_start == start + 1 && !word.is_empty() {
            return Token::At;
        }
        diagnostics.error(
            self.span_from(start),
            "`@` stands before the name of a variable and `(`, before `/`, `include`, `load` or `namespace`, without a blank",
        );
        Token::Bad
    }

    fn number(&mut self, diagnostics: &mut Diagnostics) -> Token {
        let start = self.at;
        if self.dialect.is_gawk()
            && self.byte(0) == Some(b'0')
            && let Some(value) = self.hexadecimal().or_else(|| self.octal())
        {
            let text = String::from_utf8_lossy(&self.text[start..self.at]);
            let base = if text.contains(['x', 'X']) {
                "hexadecimal"
            } else {
                "octal"
            };
            diagnostics.lint_once(Lint::General, self.span_from(start), || {
                format!("numeric constant `{text}' treated as {base}")
            });
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
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or("0");
        Token::Number(text.parse().unwrap_or(0.0))
    }

    /// `0x1f`; POSIX leaves it open, gawk and mawk read it in program text.
    fn hexadecimal(&mut self) -> Option<f64> {
        if !matches!(self.byte(1), Some(b'x' | b'X'))
            || !self.byte(2).is_some_and(|b| b.is_ascii_hexdigit())
        {
            return None;
        }
        self.at += 2;
        let mut value = 0.0;
        while let Some(digit) = self.byte(0).and_then(|b| (b as char).to_digit(16)) {
            value = value * 16.0 + f64::from(digit);
            self.at += 1;
        }
        Some(value)
    }

    /// `017`; a digit above 7, a point or an exponent make it decimal.
    fn octal(&mut self) -> Option<f64> {
        let rest = &self.text[self.at..];
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let decimal = rest[..digits].iter().any(|b| *b > b'7')
            || matches!(rest.get(digits), Some(b'.' | b'e' | b'E'));
        if digits < 2 || decimal {
            return None;
        }
        self.at += digits;
        Some(
            rest[..digits]
                .iter()
                .fold(0.0, |value, b| value * 8.0 + f64::from(b - b'0')),
        )
    }

    /// A string whose opening quote is here; `None` if the line ends before it does.
    fn string(&mut self, diagnostics: &mut Diagnostics) -> Option<Vec<u8>> {
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
                    return None;
                }
                Some(b'"') => {
                    self.at += 1;
                    return Some(out);
                }
                Some(b'\\') => {
                    let escape = self.at;
                    let span = Span {
                        source: self.source,
                        start: escape as u32,
                        end: escape as u32 + 1,
                    };
                    match self.byte(1) {
                        Some(b'\n') => {
                            self.at += 2;
                            diagnostics.lint_once(Lint::General, span, || {
                                "backslash string continuation is not portable".into()
                            });
                        }
                        Some(b'\r') if self.byte(2) == Some(b'\n') => self.at += 3,
                        _ => {
                            let (used, warning) =
                                unescape(&self.text[self.at..], self.dialect, &mut out);
                            self.at += used;
                            self.lint_escape(&self.text[escape..self.at], span, diagnostics);
                            if let Some(warning) = warning {
                                diagnostics.warn_once(span, warning);
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

    fn lint_escape(&self, escape: &[u8], span: Span, diagnostics: &mut Diagnostics) {
        match escape {
            [b'\\', c @ (b'x' | b'u'), ..] if self.dialect != Dialect::Posix => {
                let c = char::from(*c);
                diagnostics.lint_once(Lint::General, span, || {
                    format!("POSIX does not allow `\\{c}' escapes")
                });
            }
            [b'\\', b'a'] => diagnostics.lint_once(Lint::Old, span, || {
                "old awk does not support the `\\a' escape sequence".into()
            }),
            _ => {}
        }
    }

    fn operator(&mut self, diagnostics: &mut Diagnostics) -> Token {
        let rest = &self.text[self.at..];
        for (sign, token) in &OPERATORS {
            let known = match token {
                Token::PipeBoth => self.dialect.is_gawk(),
                Token::Caret | Token::PowAssign => {
                    self.dialect != Dialect::Posix || sign[0] == b'^'
                }
                _ => true,
            };
            if known && rest.starts_with(sign) {
                let start = self.at;
                self.at += sign.len();
                if matches!(token, Token::Caret | Token::PowAssign) {
                    let shown = String::from_utf8_lossy(sign);
                    let span = self.span_from(start);
                    if sign.starts_with(b"*") {
                        diagnostics.lint_once(Lint::General, span, || {
                            format!("POSIX does not allow operator `{shown}'")
                        });
                    }
                    diagnostics.lint_once(Lint::Old, span, || {
                        format!("operator `{shown}' is not supported in old awk")
                    });
                }
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
                    self.at += 2.min(self.text.len() - self.at);
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
        let rest = &self.text[self.at..];
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
