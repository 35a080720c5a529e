//! Names with a namespace: what they may consist of.
//!
//! Invariant: neither half of a qualified name is a word of the language.

use super::token::KEYWORDS;
use crate::dialect::Dialect;

/// Whether `word` has a meaning that no qualified name may borrow for one of its halves.
fn is_reserved(word: &str, dialect: Dialect) -> bool {
    KEYWORDS.iter().any(|row| row.0 == word) || dialect.builtin(word).is_some()
}

/// Whether `space::name`, written `word`, is a name; the reason if not.
pub(super) fn check_qualified(
    word: &str,
    space: &str,
    name: &str,
    dialect: Dialect,
) -> Result<(), String> {
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
