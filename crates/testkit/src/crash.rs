//! The crash ladder: runs a workload on a simulated machine, stops it at every operation, and looks at what a restart
//! finds in many of the states that the media may be in.
//!
//! What must hold after a power cut: the subject opens, its own check passes, and its content is that of a commit that
//! was attempted, not older than the last one that was reported durable. After a killed process (same boot, caches
//! intact) it must not be older than the last one that was reported at all.

use crate::disk::{Fault, Machine};
use crate::rng::Rng;

/// What a workload has committed so far. States are fingerprints of the whole content.
#[derive(Clone, Debug)]
pub struct History {
    attempts: Vec<u64>,
    reported: usize,
    durable: usize,
}

impl History {
    /// Begins with the content of the empty subject.
    pub fn new(empty: u64) -> History {
        History {
            attempts: vec![empty],
            reported: 0,
            durable: 0,
        }
    }

    /// A commit of this content is about to be tried.
    pub fn attempt(&mut self, state: u64) {
        self.attempts.push(state);
    }

    /// The commit tried last was reported done.
    pub fn reported(&mut self, durable: bool) {
        self.reported = self.attempts.len() - 1;
        if durable {
            self.durable = self.reported;
        }
    }

    /// Which commit was reported last.
    pub fn reported_so_far(&self) -> usize {
        self.reported
    }

    /// Every commit up to that one was brought to the medium.
    pub fn is_durable(&mut self, reported: usize) {
        self.durable = self.durable.max(reported);
    }

    /// Every commit reported so far was.
    pub fn reported_so_far_is_durable(&mut self) {
        self.is_durable(self.reported);
    }

    fn allows(&self, state: u64, from: usize) -> bool {
        self.attempts[from..].contains(&state)
    }
}

/// A thing that keeps its content in the files of a machine.
pub trait Subject {
    /// How many bytes its medium writes at once.
    fn atom(&self) -> usize {
        crate::disk::SECTOR
    }
    /// The files of an empty one.
    fn blank(&self) -> Vec<Vec<u8>>;
    /// The fingerprint of an empty one.
    fn blank_state(&self) -> u64;
    /// Works on the machine's files until done or until something fails; the same for the same `seed` as long as
    /// nothing does. Errors are expected (faults are injected): it stops, or goes on where a program might.
    fn work(&self, machine: &Machine, seed: u64, history: &mut History);
    /// Opens what is there, checks it, and returns the fingerprint of its content.
    ///
    /// # Errors
    /// Whatever a user would be told.
    fn inspect(&self, machine: &Machine, boot: u64) -> Result<u64, String>;
    /// Opens what is there, changes something, commits durably, and returns the new fingerprint.
    ///
    /// # Errors
    /// Whatever a user would be told.
    fn go_on(&self, machine: &Machine, boot: u64, seed: u64) -> Result<u64, String>;
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// At least this many crash states in all.
    pub states: u64,
    /// At each operation of each run, up to this many states of the media.
    pub states_per_stop: u64,
}

impl Effort {
    /// `usual` states, or the number in `PERDURE_CRASH_STATES`.
    pub fn from_env(usual: u64) -> Effort {
        Effort {
            states: crate::effort("PERDURE_CRASH_STATES", usual),
            states_per_stop: 100,
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub runs: u64,
    pub stops: u64,
    pub power_cuts: u64,
    pub kills: u64,
    pub failed_operations: u64,
    pub went_on: u64,
}

/// Climbs the ladder until `effort` is reached.
///
/// # Errors
/// The first violation: what, and the seed, operation and state that lead there.
pub fn climb(subject: &dyn Subject, seed: u64, effort: Effort) -> Result<Tally, String> {
    let mut tally = Tally::default();
    while tally.power_cuts < effort.states {
        let run_seed = seed.wrapping_add(tally.runs);
        tally.runs += 1;
        climb_one(subject, run_seed, effort, &mut tally)
            .map_err(|what| format!("run seed {run_seed}: {what}"))?;
    }
    Ok(tally)
}

fn climb_one(
    subject: &dyn Subject,
    seed: u64,
    effort: Effort,
    tally: &mut Tally,
) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let whole = Machine::with_atoms(subject.atom(), subject.blank(), seed);
    let mut history = History::new(subject.blank_state());
    subject.work(&whole, seed, &mut history);
    let operations = whole.operations();
    for at in 0..=operations {
        // A third of the runs goes on after an operation that failed, the others stop dead.
        let fault = match rng.below(6) {
            0 => Fault::Fails { errno: 5 },
            1 => Fault::Fails { errno: 28 },
            _ => Fault::PowerCut,
        };
        let machine = Machine::with_atoms(subject.atom(), subject.blank(), seed ^ at);
        machine.fault_at(at, fault);
        let mut history = History::new(subject.blank_state());
        subject.work(&machine, seed, &mut history);
        tally.stops += 1;
        if !machine.is_dead() {
            tally.failed_operations += 1;
            // The process ends; another one of the same boot looks, and then the power goes.
            after_kill(subject, &machine, &history, rng.draw(), tally).map_err(|what| {
                format!("operation {at} of {operations}, {fault:?}, then killed: {what}")
            })?;
        }
        power_cuts(subject, &machine, &history, effort, &mut rng, tally)
            .map_err(|what| format!("operation {at} of {operations}, {fault:?}: {what}"))?;
    }
    Ok(())
}

fn after_kill(
    subject: &dyn Subject,
    machine: &Machine,
    history: &History,
    seed: u64,
    tally: &mut Tally,
) -> Result<(), String> {
    tally.kills += 1;
    let next = machine.survivor(seed);
    let found = subject.inspect(&next, 1)?;
    if !history.allows(found, history.reported) {
        return Err(format!(
            "content {found:#x} is none of the commits from {} on: {history:x?}",
            history.reported
        ));
    }
    // The next process commits durably, and the power goes right after: that commit must be there.
    let committed = subject.go_on(&next, 1, seed)?;
    let mut rng = Rng::new(seed);
    let wreck = next.wreck();
    for _ in 0..4 {
        let image = wreck.image(|versions| rng.below(versions as u64 + 1) as usize);
        let found = subject.inspect(&Machine::with_atoms(subject.atom(), image, seed), 2)?;
        if found != committed {
            return Err(format!(
                "a durable commit {committed:#x} of the next process is gone: {found:#x}"
            ));
        }
        tally.power_cuts += 1;
    }
    Ok(())
}

fn power_cuts(
    subject: &dyn Subject,
    machine: &Machine,
    history: &History,
    effort: Effort,
    rng: &mut Rng,
    tally: &mut Tally,
) -> Result<(), String> {
    let wreck = machine.wreck();
    let choices = wreck.open_choices();
    let states = match choices {
        0 => 1,
        1..=6 => 1 << choices,
        _ => effort.states_per_stop,
    };
    for state in 0..states {
        // None, all, then random subsets of different density.
        let density = rng.below(8) + 1;
        let image = wreck.image(|versions| match state {
            0 => 0,
            1 => versions,
            _ if rng.below(8) < density => 1 + rng.below(versions as u64) as usize,
            _ => 0,
        });
        tally.power_cuts += 1;
        let after = Machine::with_atoms(subject.atom(), image, rng.draw());
        let found = subject
            .inspect(&after, 2)
            .map_err(|what| format!("state {state}: {what}"))?;
        if !history.allows(found, history.durable) {
            return Err(format!(
                "state {state}: content {found:#x} is none of the commits from {} on: {history:x?}",
                history.durable
            ));
        }
        if state % 16 == 3 {
            // Recovery is not the end: work on, lose power again.
            tally.went_on += 1;
            let committed = subject
                .go_on(&after, 2, rng.draw())
                .map_err(|what| format!("state {state}, going on: {what}"))?;
            let wreck = after.wreck();
            let image = wreck.image(|versions| rng.below(versions as u64 + 1) as usize);
            let found = subject
                .inspect(&Machine::with_atoms(subject.atom(), image, 0), 3)
                .map_err(|what| format!("state {state}, second cut: {what}"))?;
            if found != committed {
                return Err(format!(
                    "state {state}: the commit {committed:#x} after recovery is gone: {found:#x}"
                ));
            }
        }
    }
    Ok(())
}
