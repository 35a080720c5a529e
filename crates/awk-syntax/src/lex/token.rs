//! Tokens, and the words and signs that programs write for them.
//!
//! Invariant: `OPERATORS` has longer signs before shorter ones that they begin with.

use crate::dialect::Dialect;
use crate::names::{Builtin, Names, Symbol};

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
/// Whether a name is a word of the language.
pub fn is_keyword(name: &str, dialect: Dialect) -> bool {
    let row = KEYWORDS.iter().find(|row| row.0 == name);
    row.is_some_and(|row| row.2.contains(&dialect))
}

pub(super) const KEYWORDS: [(&str, Token, &[Dialect]); 25] = {
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
pub(super) const NOT_OLD: [&str; 19] = [
    "function", "func", "return", "delete", "do", "getline", "atan2", "close", "cos", "gsub",
    "match", "rand", "sin", "srand", "sub", "system", "tolower", "toupper", "fflush",
];

/// What follows `@` at the start of an item.
pub(super) const DIRECTIVES: [(&str, Token); 3] = [
    ("include", Token::Include),
    ("load", Token::Load),
    ("namespace", Token::Namespace),
];

/// Longest first, so that the first that fits is right.
pub(super) const OPERATORS: [(&[u8], Token); 42] = [
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
