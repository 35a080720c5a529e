//! The literals that every match of a pattern contains: text without them need not be looked at.

use regex_syntax::hir::{Hir, HirKind};

/// The strings that are part of whatever `hir` matches, as far as its outer structure tells; the longest first.
pub(super) fn literals(hir: &Hir) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut run = Vec::new();
    collect(hir, &mut run, &mut all);
    close(&mut run, &mut all);
    // Among equals the last.
    all.reverse();
    all.sort_by_key(|literal| std::cmp::Reverse(literal.len()));
    all.dedup();
    all
}

/// Goes on with `run`, the string that certainly lies right before what `hir` matches.
fn collect(hir: &Hir, run: &mut Vec<u8>, all: &mut Vec<Vec<u8>>) {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => run.extend_from_slice(&literal.0),
        HirKind::Capture(group) => collect(&group.sub, run, all),
        HirKind::Concat(parts) => parts.iter().for_each(|part| collect(part, run, all)),
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            // The first time it follows the run, the last time it is followed by the rest.
            collect(&repetition.sub, run, all);
            close(run, all);
            if let HirKind::Literal(literal) = repetition.sub.kind() {
                run.extend_from_slice(&literal.0);
            }
        }
        HirKind::Repetition(_) | HirKind::Class(_) | HirKind::Alternation(_) => {
            close(run, all);
        }
    }
}

fn close(run: &mut Vec<u8>, all: &mut Vec<Vec<u8>>) {
    if !run.is_empty() {
        all.push(std::mem::take(run));
    }
}

#[cfg(test)]
mod tests {
    use crate::regex::Regex;
    use crate::text::Charset;

    #[test]
    fn what_every_match_contains() {
        let cases = [
            ("foo", "foo"),
            ("^foo$", "foo"),
            ("ab+c.*xy$", "xy|bc|ab"),
            ("ab+cde", "bcde|ab"),
            ("(ab)+cd", "abcd|ab"),
            ("(a|b)cd*e", "e|c"),
            ("x?yz{2,3}w", "zw|yz"),
            ("[0-9]+", ""),
            ("a*", ""),
            ("foo|bar", ""),
            ("(foo|bar) baz", " baz"),
            ("a.bc.d", "bc|d|a"),
        ];
        for (pattern, wanted) in cases {
            let regex = Regex::new(pattern.as_bytes(), Charset::Utf8, false).unwrap();
            let required = regex.required().join(&b'|');
            assert_eq!(String::from_utf8_lossy(&required), wanted, "{pattern}");
        }
    }
}
