//! The main function of a test program with ladders over real file systems. Such a program has no other harness: the processes
//! above the disk are the program itself, in another part, and what cannot run on a machine is counted as skipped.
//!
//! The invariant: a trial passes only if it ran. What was skipped is said with its reason, and is neither passed nor failed.

use super::keeper::{keep, work};
use super::ladder::{Effort, Subject, Violation, climb};
use super::rig::{FileSystem, KILL_US, ROLE, Rig, SCRATCH, SEED, TRIAL, why_not_here};
use crate::rng::Rng;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// One ladder of a test program.
pub struct Trial {
    pub name: &'static str,
    pub file_system: FileSystem,
    pub subject: Box<dyn Subject>,
    pub goal: Goal,
}

/// What a trial must come to.
#[derive(Clone, Copy)]
pub enum Goal {
    /// No violation in so many crash states, or in `PERDURE_POWER_CUTS`.
    Clean { states: u64 },
    /// The subject has a planted mistake: a violation in at most so many crash states. Beside it stands a trial that differs
    /// in the mistake alone and is clean.
    Caught { states_max: u64 },
    /// Whatever the function looks at holds on a blank disk. It gives back what there is to tell.
    Holds(fn(&mut Rig) -> Result<String, String>),
}

/// Runs those trials that the arguments name, or all, and tells `out` of them as `cargo test` does; or, in a process that one of
/// them started, plays its part.
pub fn run(trials: &[Trial], out: &mut dyn Write) -> ExitCode {
    let code = match std::env::var(ROLE) {
        Ok(role) => play(trials, &role),
        Err(_) => run_asked_for(trials, out),
    };
    code.unwrap_or(ExitCode::FAILURE)
}

fn play(trials: &[Trial], role: &str) -> io::Result<ExitCode> {
    let given = |name: &str| std::env::var(name).unwrap_or_default();
    let name = given(TRIAL);
    let Some(trial) = trials.iter().find(|trial| trial.name == name) else {
        return Ok(ExitCode::FAILURE);
    };
    let scratch = PathBuf::from(given(SCRATCH));
    if role == "keeper" {
        keep(&*trial.subject, &scratch)?;
        return Ok(ExitCode::SUCCESS);
    }
    let kill_after = given(KILL_US).parse().ok().map(Duration::from_micros);
    let folder = super::keeper::Places { scratch }.folder();
    let seed = given(SEED).parse().unwrap_or_default();
    match work(&*trial.subject, &folder, seed, kill_after) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(what) => {
            // Not on standard output: there the other side takes it for a report.
            writeln!(io::stderr(), "{what}")?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn run_asked_for(trials: &[Trial], out: &mut dyn Write) -> io::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    let names = names(&arguments);
    let chosen: Vec<&Trial> = trials
        .iter()
        .filter(|trial| {
            let fits = |name: &&String| {
                if has("--exact") {
                    trial.name == name.as_str()
                } else {
                    trial.name.contains(name.as_str())
                }
            };
            names.is_empty() || names.iter().any(fits)
        })
        .collect();
    if has("--list") {
        // Other runners ask twice: for all, and for those that are ignored.
        for trial in chosen {
            if !has("--ignored") || why_not_here(trial.file_system).is_some() {
                writeln!(out, "{}: test", trial.name)?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let begun = Instant::now();
    let seed = Rng::seed_from_env();
    writeln!(out, "\nseed {seed} (PERDURE_TEST_SEED)")?;
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for trial in chosen {
        if let Some(why) = why_not_here(trial.file_system) {
            skipped += 1;
            writeln!(out, "test {} ... skipped: {why}", trial.name)?;
            continue;
        }
        match run_one(trial, seed) {
            Ok(what) => {
                passed += 1;
                writeln!(out, "test {} ... ok: {what}", trial.name)?;
            }
            Err(what) => {
                failed += 1;
                writeln!(out, "test {} ... FAILED: {what}", trial.name)?;
            }
        }
        out.flush()?;
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    writeln!(
        out,
        "\ntest result: {word}. {passed} passed; {failed} failed; {skipped} skipped; finished in {:.2}s\n",
        begun.elapsed().as_secs_f64()
    )?;
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The arguments that are names of trials.
fn names(arguments: &[String]) -> Vec<&String> {
    const WITH_VALUE: [&str; 5] = ["--format", "--color", "--test-threads", "--logfile", "-Z"];
    let mut is_value = false;
    arguments
        .iter()
        .filter(|argument| {
            let was_value = is_value;
            is_value = WITH_VALUE.contains(&argument.as_str());
            !was_value && !argument.starts_with('-')
        })
        .collect()
}

fn run_one(trial: &Trial, seed: u64) -> Result<String, String> {
    let climbed = |effort| climb(trial.file_system, trial.name, seed, effort);
    match trial.goal {
        Goal::Clean { states } => climbed(Effort::from_env(states))
            .map(|tally| tally.to_string())
            .map_err(|violation| violation.to_string()),
        Goal::Caught { states_max } => {
            let effort = Effort {
                states: states_max,
                keeps_disk: false,
                ..Effort::from_env(0)
            };
            match climbed(effort) {
                Err(Violation::AfterPowerCut(what)) => Ok(format!("caught: {what}")),
                Err(violation) => Err(format!("not what was planted: {violation}")),
                Ok(tally) => Err(format!("the planted mistake survived: {tally}")),
            }
        }
        Goal::Holds(look) => {
            Rig::new(trial.file_system, trial.name).and_then(|mut rig| look(&mut rig))
        }
    }
}
