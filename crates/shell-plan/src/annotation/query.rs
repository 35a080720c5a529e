//! Names of files in an SQL query as `q` takes it: where SQL has tables, behind FROM and JOIN.
//!
//! The invariant: a query that is not understood has no names. `q` itself looks for the words FROM and JOIN, and takes the next word (USAGE of q 3.1: "an SQL-like
//! query which contains filenames instead of table names, or - for stdin"); what it might take otherwise is not understood here.

use std::ops::Range;

/// Where the names are, `-` among them; none: that is not known.
pub fn tables(query: &[u8]) -> Option<Vec<Range<usize>>> {
    // Within quotes and comments FROM is no word, or a name has blanks.
    let is_strange = |part: &[u8]| matches!(part, b"--" | b"/*");
    if query.iter().any(|byte| b"\"`[;".contains(byte)) || query.windows(2).any(is_strange) {
        return None;
    }
    let (mut names, mut quoted) = (Vec::new(), false);
    let mut is_next = false;
    for word in words(query) {
        let text = &query[word.clone()];
        let is_keyword = ["from", "join"]
            .iter()
            .any(|name| text.eq_ignore_ascii_case(name.as_bytes()));
        if is_next {
            if !is_name(text) {
                return None;
            }
            names.push(word);
            is_next = false;
        } else if is_keyword {
            if quoted {
                return None;
            }
            is_next = true;
        } else if holds_keyword(text) {
            return None;
        }
        quoted ^= text.iter().filter(|&&byte| byte == b'\'').count() % 2 == 1;
    }
    (!is_next && !quoted).then_some(names)
}

/// The words between blanks.
fn words(query: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let is_blank = |at: &usize| query[*at].is_ascii_whitespace() || query[*at] == 0x0b;
    let begins =
        (0..query.len()).filter(move |at| !is_blank(at) && (*at == 0 || is_blank(&(at - 1))));
    begins.map(move |begin| {
        let end = (begin..query.len()).find(is_blank);
        begin..end.unwrap_or(query.len())
    })
}

/// Whether a word is the name of one file, and of nothing else: no part of a list, pattern, database or expression.
fn is_name(word: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._/-=@%".contains(byte);
    word.iter().all(plain) && (word == b"-" || !word.starts_with(b"-"))
}

/// Whether a keyword hides in a word: `(select`, `from(`.
fn holds_keyword(word: &[u8]) -> bool {
    let mut parts =
        word.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte != b'\'');
    let is = |part: &[u8]| {
        ["from", "join", "select"]
            .iter()
            .any(|name| part.eq_ignore_ascii_case(name.as_bytes()))
    };
    parts.clone().count() > 1 && parts.any(is)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str) -> Option<Vec<&str>> {
        let tables = tables(query.as_bytes())?;
        Some(tables.into_iter().map(|range| &query[range]).collect())
    }

    #[test]
    fn tables_stand_behind_from_and_join() {
        for (query, names) in [
            ("select c1 from - where c2 > 1", vec!["-"]),
            ("SELECT count(*) FROM ./a.csv", vec!["./a.csv"]),
            (
                "select a.c1\nFROM /m/x a JOIN\t/m/y.gz b on a.c1=b.c1",
                vec!["/m/x", "/m/y.gz"],
            ),
            ("select 1", vec![]),
            (
                "select c1 from x where c2 = 'a b' order by c1 desc limit 3",
                vec!["x"],
            ),
            ("select c1 from x where c2 like '%rom%'", vec!["x"]),
        ] {
            assert_eq!(found(query), Some(names), "{query}");
        }
    }

    #[test]
    fn what_may_be_read_otherwise_has_no_names() {
        for query in [
            "select c1 from",
            "select c1 from a,b",
            "select c1 from a+b",
            "select c1 from *.csv",
            "select c1 from db:::t",
            "select c1 from (select c1 from x)",
            "select c1 from x where c2 in (select c1 from y)",
            "select c1 from \"a b\"",
            "select c1 from `a`",
            "select c1 from 'a'",
            "select c1 from [a]",
            "select c1 from a; select c1 from b",
            "select c1 from a -- from b",
            "select c1 /* x */ from a",
            "select c1 from x where c2 = 'said from y '",
            "select c1 from x where c2 = 'open",
            "select c1 from --x",
            "select (c1)from x",
        ] {
            assert_eq!(found(query), None, "{query}");
        }
    }
}
