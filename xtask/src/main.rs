//! The guards of the house: what ARCHITECTURE.md says never happens is looked for here, in the sources and manifests.
//!
//! `cargo run -p xtask -- guards` prints each guard and what it found; the last line is a count, and the exit status tells
//! whether all held. The invariant: every guard has a test here in which it fails on a planted violation.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program may

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

mod bans;
mod edges;
mod manifests;
mod names;
mod source;
mod tree;

use tree::Tree;

/// Something that the house does not have.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Violation {
    /// From the root of the workspace.
    file: String,
    /// From 1; 0 for the whole file.
    line: usize,
    what: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.what),
            line => write!(f, "{}:{line}: {}", self.file, self.what),
        }
    }
}

/// A rule with its name, which says what holds.
struct Guard {
    claim: String,
    violations: Vec<Violation>,
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["guards"] => guards(&workspace_root()?),
        _ => bail!("expected one word: guards"),
    }
}

/// The folder above this crate's.
fn workspace_root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.parent().context("xtask lies in no folder")?.into())
}

/// Whether all guards hold.
fn guards(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let mut guards = vec![edges::guard(&edges::metadata(root)?)?];
    guards.extend(bans::guards(&tree));
    guards.extend(names::guards(&tree));
    guards.extend(manifests::guards(&tree));
    let failed_count = guards.iter().filter(|g| !g.violations.is_empty()).count();
    for guard in &guards {
        let verdict = if guard.violations.is_empty() {
            "ok"
        } else {
            "FAILED"
        };
        println!("{verdict:6}  {}", guard.claim);
        for violation in &guard.violations {
            println!("        {violation}");
        }
    }
    println!(
        "guards: {} passed, {failed_count} failed",
        guards.len() - failed_count
    );
    Ok(failed_count == 0)
}
