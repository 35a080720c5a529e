//! Text to tokens, one at a time, at the parser's pace.
//!
//! The parser decides whether a `/` divides or begins a regular expression, because only it knows whether an operand is
//! wanted: the lexer gives `Slash` or `SlashAssign`, and `regex_from` reads again from there.
//!
//! Invariant: `Lexer` is cheap to copy, so that the parser can look ahead by lexing with a copy.

use crate::diagnostic::{Diagnostics, Lint};
use crate::dialect::Dialect;
use crate::names::{Builtin, Names, Origin, Symbol};
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
    /// `_"text"`
    Translated(Vec<u8>),
    /// A name as written: `x`, `ns::x`, `awk::x`.
    Name(Symbol),
    /// A name directly followed by `(`.
    FuncName(Symbol),
    Builtin(Builtin),
    // keywords
    Begin,
    End,
    BeginFile,
    EndFile,
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
    Switch,
    Case,
    Default,
    // directives
    Include,
    Load,
    Namespace,
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
    /// `|&`
    PipeBoth,
    /// `@` directly before a name
    At,
    /// `@` directly before a slash
    AtSlash,
}

/// Words with a meaning, and the dialects that have them.
const KEYWORDS: [(&str, Token, &[Dialect]); 25] = {
    use Dialect::{Gawk, Posix, Traditional};
    const ALL: &[Dialect] = &[Gawk, Traditional, Posix];
    [
        ("BEGIN", Token::Begin, ALL),
        ("END", Token::End, ALL),
        ("BEGINFILE", Token::BeginFile, &[Gawk]),
        ("ENDFILE", Token::EndFile, &[Gawk]),
        ("function", Token::Function, ALL),
        ("func", Token::Function, &[Gawk, Traditional]),
        ("if", Token::If, ALL),
        ("else", Token::Else, ALL),
        ("while", Token::While, ALL),
        ("for", Token::For, ALL),
        ("do", Token::Do, ALL),
        ("break", Token::Break, ALL),
        ("continue", Token::Continue, ALL),
        ("next", Token::Next, ALL),
        ("nextfile", Token::NextFile, ALL),
        ("exit", Token::Exit, ALL),
        ("return", Token::Return, ALL),
        ("delete", Token::Delete, ALL),
        ("in", Token::In, ALL),
        ("getline", Token::Getline, ALL),
        ("print", Token::Print, ALL),
        ("printf", Token::Printf, ALL),
        ("switch", Token::Switch, &[Gawk]),
        ("case", Token::Case, &[Gawk]),
        ("default", Token::Default, &[Gawk]),
    ]
};

/// Words that the AWK of Version 7 has not.
const NOT_OLD: [&str; 19] = [
    "function", "func", "return", "delete", "do", "getline", "atan2", "close", "cos", "gsub",
    "match", "rand", "sin", "srand", "sub", "system", "tolower", "toupper", "fflush",
];

/// What follows `@` at the start of an item.
const DIRECTIVES: [(&str, Token); 3] = [
    ("include", Token::Include),
    ("load", Token::Load),
    ("namespace", Token::Namespace),
];

/// Longest first, so that the first that fits is right.
const OPERATORS: [(&[u8], Token); 42] = [
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
    (b"|&", Token::PipeBoth),
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
            Token::Str(s) | Token::Translated(s) => {
                format!("string \"{}\"", String::from_utf8_lossy(s))
            }
            Token::Name(s) | Token::FuncName(s) => format!("`{}`", names.text(*s)),
            Token::Builtin(b) => format!("`{}`", b.name()),
            Token::Include => "`@include`".into(),
            Token::Load => "`@load`".into(),
            Token::Namespace => "`@namespace`".into(),
            Token::At | Token::AtSlash => "`@`".into(),
            other => {
                let word = KEYWORDS.iter().find(|row| row.1 == *other).map(|row| row.0);
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

/// Whether `word` has a meaning that no qualified name may borrow for one of its halves.
fn is_reserved(word: &str, dialect: Dialect) -> bool {
    KEYWORDS.iter().any(|row| row.0 == word) || dialect.builtin(word).is_some()
}

/// The reading position in one source.
#[derive(Clone, Copy)]
pub struct Lexer<'a> {
    text: &'a [u8],
    source: u32,
    at: usize,
    dialect: Dialect,
}

impl<'a> Lexer<'a> {
    /// Begins at byte `at` of a source.
    pub fn new(sources: &'a Sources, source: u32, at: usize, dialect: Dialect) -> Lexer<'a> {
        Lexer {
            text: &sources.get(source).text,
            source,
            at,
            dialect,
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
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
            return (Token::Eof, self.span_from(start));
        };
        let token = match byte {
            b'\n' => {
                self.at += 1;
                Token::Newline
            }
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(names, diagnostics),
            b'0'..=b'9' => self.number(diagnostics),
            b'.' if self.byte(1).is_some_and(|b| b.is_ascii_digit()) => self.number(diagnostics),
            b'"' => self.string(diagnostics).map_or(Token::Bad, Token::Str),
            b'@' if self.dialect.is_gawk() => self.at_sign(diagnostics),
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

    fn take_name_bytes(&mut self) {
        while self
            .byte(0)
            .is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        {
            self.at += 1;
        }
    }

    fn word(&mut self, names: &mut Names, diagnostics: &mut Diagnostics) -> Token {
        let start = self.at;
        let text: &'a [u8] = self.text;
        self.take_name_bytes();
        if self.dialect.is_gawk() {
            if self.at == start + 1 && text[start] == b'_' && self.byte(0) == Some(b'"') {
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

/// Whether `space::name`, written `word`, is a name; the reason if not.
fn check_qualified(word: &str, space: &str, name: &str, dialect: Dialect) -> Result<(), String> {
    if name.contains("::") {
        return Err(format!(
            "identifier `{word}`: the namespace separator can appear only once in a qualified name"
        ));
    }
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(format!("qualified identifier `{word}` is badly formed"));
    }
    if is_reserved(space, dialect) {
        return Err(format!(
            "using reserved identifier `{space}` as a namespace is not allowed"
        ));
    }
    if is_reserved(name, dialect) {
        return Err(format!(
            "using reserved identifier `{name}` as second component of a qualified name is not allowed"
        ));
    }
    Ok(())
}

/// Whether `text` can be the name of a namespace; the reason if not.
pub(crate) fn check_namespace(text: &[u8]) -> Result<&str, String> {
    let shown = String::from_utf8_lossy(text);
    let is_name = text.first().is_some_and(|b| !b.is_ascii_digit())
        && text.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let Some(name) = std::str::from_utf8(text).ok().filter(|_| is_name) else {
        return Err(format!(
            "namespace name `{shown}` must meet the naming rules of identifiers"
        ));
    };
    if is_reserved(name, Dialect::Gawk) {
        return Err(format!(
            "using reserved identifier `{name}` as a namespace is not allowed"
        ));
    }
    Ok(name)
}

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
