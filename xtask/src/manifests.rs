//! Manifests: every dependency of others is in the workspace's table, with its reason beside it, and every crate is under
//! the lints of the house.

use crate::tree::Tree;
use crate::{Guard, Violation};

/// Crates that spell their lints out because they may use `unsafe`.
const OWN_LINTS: [&str; 3] = [
    "crates/region/Cargo.toml",
    "crates/heap/Cargo.toml",
    "crates/capi/Cargo.toml",
];
/// A reason of fewer characters is none.
const REASON_CHARS_MIN: usize = 10;

pub fn guards(tree: &Tree) -> Vec<Guard> {
    vec![
        Guard {
            claim: "every dependency has its reason beside it, in the workspace's table".into(),
            violations: reasons(tree),
        },
        Guard {
            claim: "every crate is under the lints of the house".into(),
            violations: lints(tree),
        },
    ]
}

/// Lines of a manifest with the section that they are in: section, line number, text.
fn lines(text: &str) -> impl Iterator<Item = (String, usize, &str)> {
    let mut section = String::new();
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if line.starts_with('[') {
            section = line
                .split(']')
                .next()
                .unwrap_or_default()
                .trim_matches('[')
                .to_owned();
            return None;
        }
        (!line.is_empty() && !line.starts_with('#')).then(|| (section.clone(), index + 1, line))
    })
}

fn reasons(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in &tree.manifests {
        for (section, line, entry) in lines(text) {
            let what = if section == "workspace.dependencies" {
                let reason = entry
                    .rsplit_once(" # ")
                    .map_or("", |(_, reason)| reason.trim());
                let is_ours = entry.contains("path = \"");
                (!is_ours && reason.chars().count() < REASON_CHARS_MIN)
                    .then_some("without a reason behind \" # \"")
            } else if section.ends_with("dependencies") {
                let is_from_table = entry.contains("workspace = true");
                (!is_from_table).then_some("not from the workspace's table")
            } else if section.contains("dependencies.") {
                Some("a dependency with a section of its own; write it on one line")
            } else {
                None
            };
            if let Some(what) = what {
                violations.push(Violation {
                    file: path.clone(),
                    line,
                    what: format!("{entry}: {what}"),
                });
            }
        }
    }
    violations
}

fn lints(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree
        .manifests
        .iter()
        .filter(|(path, _)| path != "Cargo.toml")
    {
        let follows = lines(text)
            .any(|(section, _, entry)| section == "lints" && entry.starts_with("workspace = true"));
        let spells = OWN_LINTS.contains(&path.as_str())
            && lines(text).any(|(section, _, _)| section == "lints.clippy");
        if !follows && !spells {
            violations.push(Violation {
                file: path.clone(),
                line: 0,
                what: "has no [lints] workspace = true".into(),
            });
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        Tree {
            sources: Vec::new(),
            manifests: vec![(path.into(), text.into())],
        }
    }

    #[test]
    fn dependencies_without_a_reason_or_outside_the_table_fail() {
        let with = |line: &str| {
            reasons(&tree(
                "Cargo.toml",
                &format!("[workspace.dependencies]\n{line}\n"),
            ))
            .len()
        };
        assert_eq!(with("libc = \"0.2\""), 1);
        assert_eq!(with("libc = \"0.2\" # yes"), 1);
        assert_eq!(with("libc = \"0.2\" # mmap, which std has not"), 0);
        assert_eq!(with("heap = { path = \"crates/heap\" }"), 0);
        let of_a_crate = |text: &str| reasons(&tree("crates/a/Cargo.toml", text)).len();
        assert_eq!(
            of_a_crate("[dependencies]\nlibc = \"0.2\" # mmap, which std has not\n"),
            1
        );
        assert_eq!(
            of_a_crate("[dev-dependencies]\nlibc = { version = \"0.2\" }\n"),
            1
        );
        assert_eq!(of_a_crate("[dependencies.libc]\nversion = \"0.2\"\n"), 1);
        assert_eq!(of_a_crate("[dependencies]\nlibc.workspace = true\n"), 0);
    }

    #[test]
    fn crates_without_the_lints_fail() {
        let count = |path: &str, text: &str| lints(&tree(path, text)).len();
        assert_eq!(count("crates/a/Cargo.toml", "[package]\nname = \"a\"\n"), 1);
        assert_eq!(
            count("crates/a/Cargo.toml", "[lints.clippy]\ntodo = \"deny\"\n"),
            1
        );
        assert_eq!(
            count("crates/a/Cargo.toml", "[lints]\nworkspace = true\n"),
            0
        );
        assert_eq!(
            count(
                "crates/region/Cargo.toml",
                "[lints.clippy]\ntodo = \"deny\"\n"
            ),
            0
        );
    }
}
