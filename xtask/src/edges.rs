//! The dependency graph points down: a crate uses crates of lower floors only.
//!
//! ```text
//! floor 4   bin/perdure   bin/pmawk      bin/nearsh
//! floor 3   capi          awk            shell-exec
//! floor 2   heap                         shell-plan
//! floor 1   region        awk-syntax
//! ```
//!
//! `testkit` is for tests: others have it as a development dependency only. The invariant: a crate that is not in the table
//! is an error, so nobody moves in without a floor.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{Guard, Violation};

/// Where a crate lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Floor {
    /// Uses lower floors.
    At(u8),
    /// For tests only; uses whatever it tests with.
    Tests,
    /// Uses none of the house and is used by nobody.
    Apart,
}

const HOUSE: [(&str, Floor); 13] = [
    ("region", Floor::At(1)),
    ("awk-syntax", Floor::At(1)),
    ("heap", Floor::At(2)),
    ("shell-plan", Floor::At(2)),
    ("awk", Floor::At(3)),
    ("capi", Floor::At(3)),
    ("shell-exec", Floor::At(3)),
    ("pmawk", Floor::At(4)),
    ("perdure", Floor::At(4)),
    ("nearsh", Floor::At(4)),
    ("perdure-cc", Floor::Apart),
    ("testkit", Floor::Tests),
    ("xtask", Floor::Apart),
];

/// Crates of others that only programs may use.
const PROGRAMS_ONLY: [&str; 3] = ["anyhow", "clap", "lexopt"];

/// What `cargo metadata` says about the workspace's own crates.
///
/// # Errors
/// When cargo cannot be run or refuses.
pub fn metadata(root: &Path) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version=1", "--offline"])
        .current_dir(root)
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!(
            "cargo metadata failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// Judges every edge.
///
/// # Errors
/// When the metadata has another shape than cargo's.
pub fn guard(metadata: &Value) -> Result<Guard> {
    let mut violations = Vec::new();
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata without packages")?;
    for package in packages {
        let name = package["name"]
            .as_str()
            .context("a package without a name")?;
        let mut complain = |what: String| {
            violations.push(Violation {
                file: format!("{name}/Cargo.toml"),
                line: 0,
                what,
            })
        };
        let Some(floor) = floor_of(name) else {
            complain(format!(
                "the crate {name} has no floor; give it one in xtask/src/edges.rs and in ARCHITECTURE.md"
            ));
            continue;
        };
        for dependency in package["dependencies"]
            .as_array()
            .context("a package without dependencies")?
        {
            let used = dependency["name"]
                .as_str()
                .context("a dependency without a name")?;
            let is_for_tests = dependency["kind"].as_str() == Some("dev");
            if let Err(why) = judge(
                name,
                floor,
                used,
                is_for_tests,
                dependency["path"].is_string(),
            ) {
                complain(why);
            }
        }
    }
    Ok(Guard {
        claim: "dependencies point down the floors of the house".into(),
        violations,
    })
}

fn floor_of(name: &str) -> Option<Floor> {
    HOUSE
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|&(_, floor)| floor)
}

fn judge(
    name: &str,
    floor: Floor,
    used: &str,
    is_for_tests: bool,
    is_ours: bool,
) -> Result<(), String> {
    if !is_ours {
        let is_library = matches!(floor, Floor::At(1..=3));
        if is_library && !is_for_tests && PROGRAMS_ONLY.contains(&used) {
            return Err(format!(
                "{name} is a library and uses {used}, which is for programs"
            ));
        }
        return Ok(());
    }
    match (floor, floor_of(used)) {
        (_, None) => Err(format!("{name} uses {used}, which has no floor")),
        (Floor::At(_), Some(Floor::Tests)) if is_for_tests => Ok(()),
        (_, Some(Floor::Tests)) => Err(format!("{name} uses {used} outside its tests")),
        (_, Some(Floor::Apart)) => Err(format!("{name} uses {used}, which stands apart")),
        (Floor::Tests, Some(Floor::At(_))) => Ok(()),
        (Floor::Apart, Some(Floor::At(_))) => Err(format!("{name} stands apart and uses {used}")),
        (Floor::At(above), Some(Floor::At(below))) if above > below => Ok(()),
        (Floor::At(above), Some(Floor::At(below))) => Err(format!(
            "{name} (floor {above}) uses {used} (floor {below})"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn house(name: &str, used: &str, kind: &str, is_ours: bool) -> Vec<String> {
        let path = if is_ours { "\"/somewhere\"" } else { "null" };
        let json = format!(
            r#"{{"packages": [{{"name": "{name}", "dependencies": [{{"name": "{used}", "kind": {kind}, "path": {path}}}]}}]}}"#
        );
        let guard = guard(&serde_json::from_str(&json).unwrap()).unwrap();
        guard.violations.into_iter().map(|v| v.what).collect()
    }

    #[test]
    fn edges_down_and_to_the_testkit_in_tests_hold() {
        assert!(house("heap", "region", "null", true).is_empty());
        assert!(house("pmawk", "awk-syntax", "null", true).is_empty());
        assert!(house("region", "testkit", "\"dev\"", true).is_empty());
        assert!(house("testkit", "region", "null", true).is_empty());
        assert!(house("region", "libc", "null", false).is_empty());
        assert!(house("pmawk", "anyhow", "null", false).is_empty());
    }

    #[test]
    fn edges_up_sideways_and_around_fail() {
        assert_eq!(
            house("region", "heap", "null", true),
            ["region (floor 1) uses heap (floor 2)"]
        );
        assert_eq!(house("awk-syntax", "region", "null", true).len(), 1);
        assert_eq!(house("pmawk", "perdure", "null", true).len(), 1);
        // A test may not look up either.
        assert_eq!(house("region", "heap", "\"dev\"", true).len(), 1);
        assert_eq!(
            house("awk", "testkit", "null", true),
            ["awk uses testkit outside its tests"]
        );
        assert_eq!(house("awk", "testkit", "\"build\"", true).len(), 1);
        assert_eq!(house("pmawk", "xtask", "null", true).len(), 1);
        assert_eq!(house("xtask", "heap", "null", true).len(), 1);
    }

    #[test]
    fn crates_without_a_floor_fail() {
        assert!(house("attic", "libc", "null", false)[0].contains("no floor"));
        assert!(house("awk", "attic", "null", true)[0].contains("no floor"));
    }

    #[test]
    fn program_crates_in_libraries_fail() {
        assert_eq!(
            house("heap", "anyhow", "null", false),
            ["heap is a library and uses anyhow, which is for programs"]
        );
    }
}
