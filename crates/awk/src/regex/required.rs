//! The literal that every match of a pattern contains: text without it need not be looked at.

use regex_syntax::hir::{Hir, HirKind};

/// The longest string that is part of whatever `hir` matches, as far as its outer structure tells.
pub(super) fn literal(hir: &Hir) -> Option<Vec<u8>> {
    let mut longest = Vec::new();
    let mut run = Vec::new();
    collect(hir, &mut run, &mut longest);
    close(&mut run, &mut longest);
    (!longest.is_empty()).then_some(longest)
}

/// Goes on with `run`, the string that certainly lies right before what `hir` matches.
fn collect(hir: &Hir, run: &mut Vec<u8>, longest: &mut Vec<u8>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => run.extend_from_slice(&literal.0),
        HirKind::Capture(group) => collect(&group.sub, run, longest),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, run, longest)),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            // The first time it follows the run, the last time it is followed by the rest.
            collect(&repetition.sub, run, longest);
            close(run, longest);
            if let HirKind::Literal(literal) = repetition.sub.kind() {
                run.extend_from_slice(&literal.0);
            }
        }
        HirKind::Repetition(_) | HirKind::Class(_) | HirKind::Alternation(_) => {
            close(run, longest);
        }
    }
}

fn close(run: &mut Vec<u8>, longest: &mut Vec<u8>) {
    if run.len() > longest.len() {
        std::mem::swap(run, longest);
    }
    run.clear();
}

#[cfg(test)]
mod tests {
    use crate::regex::Regex;
    use crate::text::Charset;

    #[test]
    fn what_every_match_contains() {
        let cases = [
            ("foo", Some("foo")),
            ("^foo$", Some("foo")),
            ("ab+c.*x$", Some("ab")),
            ("ab+cde", Some("bcde")),
            ("(ab)+cd", Some("abcd")),
            ("(a|b)cd*e", Some("c")),
            ("x?yz{2,3}w", Some("yz")),
            ("[0-9]+", None),
            ("a*", None),
            ("foo|bar", None),
            ("(foo|bar) baz", Some(" baz")),
            ("a.bc.d", Some("bc")),
        ];
        for (pattern, wanted) in cases {
            let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
            let required = regex.required().map(|r| String::from_utf8(r).unwrap());
            assert_eq!(required.as_deref(), wanted, "{pattern}");
        }
    }
}
