//! Shell scripts as text: which commands stand where, and the same text with a word put before some of them.
//!
//! The user's own shell runs the script. All that is done to it here is that a *helper*, a word and a tag, is put before
//! commands that could run elsewhere. The invariant: the text that comes back means what the given one means if the helper
//! runs the command behind it; wherever that is doubtful, a [`Doubt`] comes back and no text.
//!
//! Scripts are bytes. They are given to the parser as Latin-1, so that a position in characters is a position in bytes and
//! whatever encoding a script has survives.

mod doubt;
mod edit;
mod find;
mod line;

pub use doubt::Doubt;
pub use edit::{Edited, Helper, Origin, edit};
pub use find::{Find, Site, find};
pub use line::{Redirection, Simple, Target, line};

/// Which language a script is written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// What bash reads.
    Bash,
    /// What a POSIX shell reads: dash, or any `sh`.
    Posix,
}

/// Bytes as characters, each of them one.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn options(language: Language) -> brush_parser::ParserOptions {
    brush_parser::ParserOptions {
        // Not on in scripts unless "shopt -s extglob" says so, which is a doubt.
        enable_extended_globbing: false,
        posix_mode: language == Language::Posix,
        sh_mode: language == Language::Posix,
        ..Default::default()
    }
}
