//! Runs the language corpus: every case on the interpreter under test, and beside the reference implementations.
//!
//! A case is one text file (`tests/awk/README.md` describes the form). It carries its own expectation, so that the
//! corpus can be run where no reference implementation is installed; the references are run in a separate pass that
//! also proves that the list of exceptions is exact.
//!
//! Invariant: a case sees nothing of the machine but a fresh folder, a fixed environment and the `PATH`, and leaves
//! nothing behind; two runs of a case differ only if the interpreter does.
//!
//! For the test targets of the programs. Nothing here prints: what happened is returned as a [`Tally`].

mod case;
mod diff;
mod exceptions;
mod locales;
mod process;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use locales::Installed;

pub use case::{Case, GawkVersion, Oracles, ParseError};
pub use exceptions::{Exception, Exceptions};

/// How many cases run at once. Two, because the corpus shares its machine with the build.
const THREAD_COUNT: usize = 2;

/// How many failures of one mode are described in full; the others are only named.
const FAILURES_DESCRIBED_MAX: usize = 25;

/// Where the interpreter under test keeps its variables while a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No heap: variables live in anonymous memory.
    Volatile,
    /// The same, and every loop and function that can be is native code from its first run.
    Native,
    /// The same, without any optimisation (`-s`).
    Machine,
    /// A fresh heap file for every process.
    Persistent,
    /// A heap file that another process has filled with unrelated names and closed. A program that is marked with
    /// a split line runs as two processes on that heap.
    Reopened,
    /// Only for cases marked `modes: session`: the script of the case names the heap itself.
    Session,
    /// A reference implementation: no heap, and no check of its messages, which are its own.
    Reference,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Volatile => "volatile",
            Mode::Native => "native",
            Mode::Machine => "machine",
            Mode::Persistent => "persistent",
            Mode::Reopened => "reopened",
            Mode::Session => "session",
            Mode::Reference => "reference",
        })
    }
}

/// The cases of a folder and the list of known differences of the reference implementations.
#[derive(Debug)]
pub struct Corpus {
    /// Sorted by name.
    pub cases: Vec<Case>,
    /// `exceptions.txt` of the folder.
    pub exceptions: Exceptions,
}

impl Corpus {
    /// Reads every `*.case` below `folder`, and `folder/exceptions.txt`.
    ///
    /// # Errors
    /// A file that cannot be read or does not have the form of a case; the message names the file and the line.
    pub fn load(folder: &Path) -> Result<Corpus, ParseError> {
        let mut paths = Vec::new();
        collect_cases(folder, &mut paths)?;
        let mut cases = paths
            .iter()
            .map(|path| Case::load(folder, path))
            .collect::<Result<Vec<_>, _>>()?;
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        let exceptions = Exceptions::load(&folder.join("exceptions.txt"))?;
        Ok(Corpus { cases, exceptions })
    }

    /// Keeps only the cases whose name contains one of the comma-separated `patterns`.
    pub fn retain_matching(&mut self, patterns: &str) {
        self.cases
            .retain(|case| patterns.split(',').any(|part| case.name.contains(part)));
    }

    /// Runs every case that has `mode`, two at a time, with `program` as the interpreter.
    #[must_use]
    pub fn run(&self, program: &Path, mode: Mode) -> Tally {
        let chosen: Vec<&Case> = self
            .cases
            .iter()
            .filter(|case| case.has_mode(mode))
            .collect();
        let outcomes = run_all(&chosen, program, mode);
        let mut tally = Tally::new(format!("{mode}"), chosen.len());
        for (case, outcome) in chosen.iter().zip(outcomes) {
            if let Err(difference) = outcome {
                tally.add_failure(&case.name, &difference);
            }
        }
        tally
    }

    /// Runs every case on the reference implementation `program`, known by `who` in the list of exceptions.
    /// Cases that the reference cannot answer are left out: those of gawk's own language, or of a later gawk, and, with a
    /// word in the tally, those about locales that the machine has not.
    ///
    /// A case fails if the reference differs from the expectation without being listed, and also if it is listed
    /// and does not differ: the list is exact or the test fails.
    #[must_use]
    pub fn run_reference(&self, program: &Path, who: &str) -> Tally {
        let gawk_version = (who == "gawk")
            .then(|| process::gawk_version(program))
            .flatten();
        let asked = self
            .cases
            .iter()
            .filter(|case| case.asks(who, gawk_version));
        let mut installed = Installed::default();
        let (chosen, left_out): (Vec<&Case>, Vec<&Case>) =
            asked.partition(|case| case.locales().all(|name| installed.has(name)));
        let outcomes = run_all(&chosen, program, Mode::Reference);
        let mut tally = Tally::new(who.to_owned(), chosen.len());
        tally.without_locale_count = left_out.len();
        for (case, outcome) in chosen.iter().zip(outcomes) {
            match (outcome, self.exceptions.find(&case.name, who, gawk_version)) {
                (Ok(()), None) => {}
                (Err(_), Some(_)) => tally.excepted_count += 1,
                (Err(difference), None) => tally.add_failure(&case.name, &difference),
                (Ok(()), Some(exception)) => tally.add_failure(
                    &case.name,
                    &format!(
                        "exceptions.txt:{}: {who} agrees with the expectation; remove the line\n",
                        exception.line
                    ),
                ),
            }
        }
        tally
    }
}

/// What one pass over the corpus found.
#[derive(Debug)]
pub struct Tally {
    /// The mode or the reference implementation.
    pub label: String,
    /// Cases that were run.
    pub run_count: usize,
    /// Cases that failed.
    pub failed_count: usize,
    /// Cases that differ and are allowed to: only references.
    pub excepted_count: usize,
    /// Cases that a reference was not asked, because the machine has not their locales.
    pub without_locale_count: usize,
    /// A description of the failures, for a person.
    pub failures: String,
}

impl Tally {
    fn new(label: String, run_count: usize) -> Tally {
        Tally {
            label,
            run_count,
            failed_count: 0,
            excepted_count: 0,
            without_locale_count: 0,
            failures: String::new(),
        }
    }

    fn add_failure(&mut self, name: &str, difference: &str) {
        self.failed_count += 1;
        if self.failed_count <= FAILURES_DESCRIBED_MAX {
            self.failures
                .push_str(&format!("\n==== {name} [{}]\n{difference}", self.label));
        } else {
            self.failures
                .push_str(&format!("\n==== {name} [{}]", self.label));
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally {
            label,
            run_count,
            failed_count,
            excepted_count,
            without_locale_count,
            ..
        } = self;
        let passed_count = run_count - failed_count - excepted_count;
        write!(
            f,
            "{label}: {run_count} cases, {passed_count} passed, {failed_count} failed"
        )?;
        if *excepted_count > 0 {
            write!(f, ", {excepted_count} known differences")?;
        }
        if *without_locale_count > 0 {
            write!(
                f,
                ", {without_locale_count} not asked: their locales are not installed"
            )?;
        }
        Ok(())
    }
}

fn run_all(cases: &[&Case], program: &Path, mode: Mode) -> Vec<Result<(), String>> {
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<Result<(), String>>> = Mutex::new(vec![Ok(()); cases.len()]);
    std::thread::scope(|scope| {
        for _ in 0..THREAD_COUNT {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { break };
                    let outcome = process::run_case(case, program, mode);
                    outcomes
                        .lock()
                        .expect("no thread panics while it holds this")[index] = outcome;
                }
            });
        }
    });
    outcomes.into_inner().expect("every thread has ended")
}

fn collect_cases(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), ParseError> {
    let entries =
        std::fs::read_dir(folder).map_err(|error| ParseError::unreadable(folder, &error))?;
    for entry in entries {
        let path = entry
            .map_err(|error| ParseError::unreadable(folder, &error))?
            .path();
        if path.is_dir() {
            collect_cases(&path, paths)?;
        } else if path
            .extension()
            .is_some_and(|extension| extension == "case")
        {
            paths.push(path);
        }
    }
    Ok(())
}
