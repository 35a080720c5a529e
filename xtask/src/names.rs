//! Names and sizes of files: one version of each thing, and files that one can read.
//!
//! `new_x` beside `x`, `x2`, `old_x`: two versions living side by side. A constructor called `new_x` is no second version
//! as long as there is no `x` of the same kind in the crate.

use std::collections::BTreeSet;

use crate::source::{Source, is_name_byte};
use crate::tree::Tree;
use crate::{Guard, Violation};

/// Longer files are one idea each, or they are split.
const LINES_MAX: usize = 1500;
/// Files that are longer, each with its one idea.
const LONG_FILES: [&str; 0] = [];

/// Constants are left out: OLD_END and NEW_END are two ends, not two versions.
const DEFINING: [&str; 6] = ["fn", "struct", "enum", "trait", "mod", "type"];

/// Constructors that look like second versions: file and name.
const CONSTRUCTORS: [(&str, &str); 0] = [];

pub fn guards(tree: &Tree) -> Vec<Guard> {
    vec![
        Guard {
            claim: "no two versions of one thing side by side".into(),
            violations: versions(tree),
        },
        Guard {
            claim: format!("no file of more than {LINES_MAX} lines, but for the listed"),
            violations: long_files(tree, &LONG_FILES),
        },
    ]
}

fn long_files(tree: &Tree, listed: &[&str]) -> Vec<Violation> {
    let too_long =
        |source: &&Source| source.line_count > LINES_MAX && !listed.contains(&source.path.as_str());
    let mut violations: Vec<Violation> = tree
        .sources
        .iter()
        .filter(too_long)
        .map(|source| Violation {
            file: source.path.clone(),
            line: 0,
            what: format!(
                "{} lines; split it, or list it in xtask/src/names.rs with its one idea",
                source.line_count
            ),
        })
        .collect();
    let is_long = |path: &&&str| {
        tree.sources
            .iter()
            .any(|s| s.path == **path && s.line_count > LINES_MAX)
    };
    violations.extend(
        listed
            .iter()
            .filter(|path| !is_long(path))
            .map(|path| Violation {
                file: (*path).into(),
                line: 0,
                what: "listed as long, and is not".into(),
            }),
    );
    violations
}

/// A defined name: keyword, name, line.
type Definition = (&'static str, String, usize);

fn definitions(source: &Source) -> Vec<Definition> {
    let mut found = Vec::new();
    for (index, line) in source.code.lines().enumerate() {
        let words: Vec<&str> = line
            .split(|c: char| !(c.is_ascii() && is_name_byte(c as u8)))
            .filter(|w| !w.is_empty())
            .collect();
        for pair in words.windows(2) {
            if let Some(keyword) = DEFINING.iter().find(|k| **k == pair[0]) {
                found.push((*keyword, pair[1].to_owned(), index + 1));
            }
        }
    }
    let stem = source
        .path
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .trim_end_matches(".rs");
    found.push(("mod", stem.to_owned(), 0));
    found
}

/// The name of which `name` would be another version.
fn original(name: &str) -> Option<String> {
    let lower = name.to_ascii_lowercase();
    let begins_upper = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_uppercase());
    let before = |mark: &&str| lower.strip_prefix(mark).map(str::to_owned);
    let after = |mark: &&str| lower.strip_suffix(mark).map(str::to_owned);
    let camel_before = |mark: &&str| {
        name.strip_prefix(mark)
            .filter(begins_upper)
            .map(str::to_lowercase)
    };
    let camel_after = |mark: &&str| name.strip_suffix(mark).map(str::to_lowercase);
    let rest = None
        .or_else(|| ["new_", "old_"].iter().find_map(before))
        .or_else(|| ["New", "Old"].iter().find_map(camel_before))
        .or_else(|| ["V2", "V3", "Old", "Legacy"].iter().find_map(camel_after))
        .or_else(|| {
            ["_v2", "_v3", "_new", "_old", "_legacy", "2"]
                .iter()
                .find_map(after)
        })?;
    (!rest.is_empty()).then_some(rest)
}

fn versions(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let homes: BTreeSet<&str> = tree.sources.iter().map(Source::home).collect();
    for home in homes {
        let sources: Vec<&Source> = tree.sources.iter().filter(|s| s.home() == home).collect();
        let all: Vec<(&Source, Definition)> = sources
            .iter()
            .flat_map(|s| definitions(s).into_iter().map(move |d| (*s, d)))
            .collect();
        let names: BTreeSet<(&str, String)> = all
            .iter()
            .map(|(_, d)| (d.0, d.1.to_ascii_lowercase()))
            .collect();
        for (source, (keyword, name, line)) in &all {
            if CONSTRUCTORS.contains(&(source.path.as_str(), name.as_str())) {
                continue;
            }
            let Some(first) = original(name) else {
                continue;
            };
            // A module or type that calls itself old or second says so by itself; values and functions need the pair.
            let says_so =
                *keyword == "mod" && (name.starts_with("new_") || name.starts_with("old_"));
            if says_so || names.contains(&(keyword, first.clone())) {
                violations.push(Violation {
                    file: source.path.clone(),
                    line: *line,
                    what: format!("{keyword} {name} beside {first}: keep one"),
                });
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        Tree {
            sources: files
                .iter()
                .map(|(path, text)| Source::new((*path).into(), text))
                .collect(),
            manifests: Vec::new(),
        }
    }

    #[test]
    fn second_versions_fail() {
        for text in [
            "fn parse() {} fn parse2() {}",
            "fn parse() {} fn new_parse() {}",
            "fn parse() {} fn old_parse() {}",
            "struct Table; struct TableV2;",
            "struct Table; struct NewTable;",
            "mod old_lexer;",
        ] {
            assert_eq!(
                versions(&tree(&[("crates/a/src/lib.rs", text)])).len(),
                1,
                "{text}"
            );
        }
        assert_eq!(
            versions(&tree(&[
                ("crates/a/src/store.rs", ""),
                ("crates/a/src/store2.rs", "")
            ]))
            .len(),
            1
        );
        assert_eq!(
            versions(&tree(&[("crates/a/src/new_store.rs", "")])).len(),
            1
        );
    }

    #[test]
    fn constructors_and_numbers_hold() {
        for text in [
            "fn new_slab() {} const END: usize = 0; const NEW_END: usize = 0;",
            "fn atan2() {} fn log2() {}",
            "fn table_new() {} struct Table;",
            "// fn parse() {}\nfn parse2() {}",
        ] {
            assert_eq!(
                versions(&tree(&[("crates/a/src/lib.rs", text)])),
                [],
                "{text}"
            );
        }
        // The same name in two crates is no second version.
        assert_eq!(
            versions(&tree(&[
                ("crates/a/src/lib.rs", "fn f() {}"),
                ("crates/b/src/lib.rs", "fn f2() {}")
            ])),
            []
        );
    }

    #[test]
    fn long_files_and_stale_listings_fail() {
        let long = "\n".repeat(LINES_MAX + 1);
        let tree = tree(&[("crates/a/src/lib.rs", &long), ("crates/a/src/b.rs", "")]);
        assert_eq!(long_files(&tree, &[]).len(), 1);
        assert_eq!(long_files(&tree, &["crates/a/src/lib.rs"]), []);
        assert_eq!(
            long_files(&tree, &["crates/a/src/lib.rs", "crates/a/src/b.rs"]).len(),
            1
        );
    }
}
