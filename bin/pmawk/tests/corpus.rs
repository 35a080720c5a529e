//! The language corpus `tests/awk/` on pmawk: volatile, as native code, without any optimisation, persistent, reopened; and on the reference implementations.
//!
//! * `CORPUS=regex/,getline` runs only cases whose names contain one of the substrings.
//! * `ORACLES=1` also runs gawk, mawk and original-awk and proves that `exceptions.txt` is exact.
//! * `GAWK=/opt/gawk-5.3/bin/gawk` names the gawk to ask, when the one in the `PATH` is too old for some cases.
//! * `PMAWK_UNDER_TEST=/usr/bin/gawk` puts another interpreter in pmawk's place (volatile only), to test the corpus.
#![allow(clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use testkit::oracle::{Corpus, Mode, Tally};

/// Below this the corpus has lost cases.
const CASE_COUNT_MIN: usize = 1500;

const REFERENCES: [&str; 3] = ["gawk", "mawk", "original-awk"];

/// One pass at a time: each is parallel in itself.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn corpus() -> Corpus {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/awk");
    let mut corpus =
        Corpus::load(&folder).unwrap_or_else(|error| panic!("the corpus does not load: {error}"));
    if let Ok(patterns) = std::env::var("CORPUS") {
        corpus.retain_matching(&patterns);
    }
    corpus
}

/// A reference that stands in for pmawk.
fn stand_in() -> Option<PathBuf> {
    std::env::var_os("PMAWK_UNDER_TEST").map(PathBuf::from)
}

/// What is run when the reference `who` is asked.
fn reference_path(who: &str) -> PathBuf {
    match std::env::var_os("GAWK") {
        Some(path) if who == "gawk" => PathBuf::from(path),
        _ => PathBuf::from(who),
    }
}

fn report(tally: &Tally) {
    eprintln!("{tally}");
    assert!(tally.failed_count == 0, "{tally}\n{}", tally.failures);
}

fn run(mode: Mode) {
    let _turn = turn();
    match stand_in() {
        None => report(&corpus().run(Path::new(env!("CARGO_BIN_EXE_pmawk")), mode)),
        Some(program) if mode == Mode::Volatile => {
            let who = program
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            report(&corpus().run_reference(&program, &who));
        }
        Some(program) => eprintln!("{mode}: not run, {} has no heap", program.display()),
    }
}

#[test]
fn every_case_holds_on_the_volatile_store() {
    run(Mode::Volatile);
}

#[test]
fn every_case_holds_as_native_code() {
    run(Mode::Native);
}

#[test]
fn every_case_holds_without_optimisation() {
    run(Mode::Machine);
}

#[test]
fn every_case_holds_on_a_fresh_heap() {
    run(Mode::Persistent);
}

#[test]
fn every_case_holds_on_a_reopened_heap() {
    run(Mode::Reopened);
}

#[test]
fn sessions_on_one_heap_hold() {
    run(Mode::Session);
}

#[test]
fn corpus_is_complete_and_exceptions_name_cases() {
    let _turn = turn();
    if std::env::var_os("CORPUS").is_some() {
        return;
    }
    let corpus = corpus();
    let session_count = corpus
        .cases
        .iter()
        .filter(|case| case.has_mode(Mode::Session))
        .count();
    eprintln!(
        "{} cases, {session_count} of them sessions",
        corpus.cases.len()
    );
    assert!(
        corpus.cases.len() >= CASE_COUNT_MIN,
        "only {} cases",
        corpus.cases.len()
    );
    for (name, line) in corpus.exceptions.cases() {
        assert!(
            corpus.cases.iter().any(|case| case.name == name),
            "exceptions.txt:{line}: there is no case {name}"
        );
    }
}

#[test]
fn oracles_agree() {
    if std::env::var_os("ORACLES").is_none() {
        eprintln!("oracles_agree: not run, ORACLES is not set");
        return;
    }
    let _turn = turn();
    let corpus = corpus();
    let tallies = REFERENCES.map(|who| corpus.run_reference(&reference_path(who), who));
    for tally in &tallies {
        eprintln!("{tally}");
    }
    let failures: String = tallies
        .iter()
        .map(|tally| tally.failures.as_str())
        .collect();
    assert!(failures.is_empty(), "{failures}");
}
