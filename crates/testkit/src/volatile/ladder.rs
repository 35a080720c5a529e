//! The ladder over real file systems: runs are recorded, the power is cut at many moments of each, and what a restart finds is
//! looked at.
//!
//! What must hold after a power cut: the file system mounts, the subject opens, its own check passes, and its content is that of a
//! commit which was tried before that moment and not older than the last one that was reported durable before it; a commit that a
//! process did not find when it started is never found later. After a kill (caches intact) nothing is lost that was reported at
//! all.

use super::cut::Cuts;
use super::disk::{Image, Record, Recording};
use super::keeper::Reporter;
use super::rig::{FileSystem, Rig};
use crate::rng::Rng;
use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Disks that are looked at at the same time. Mounting is waiting, mostly.
const CHECKERS: usize = 3;

/// A thing that keeps its content in files of a folder. Content is told by its fingerprint, which is never 0; 0 is nothing at all.
pub trait Subject: Sync {
    /// Works on what is in `folder`, in a process of its own that may be killed, and tells of what it found there and of each
    /// commit.
    ///
    /// # Errors
    /// Whatever a user would be told: nothing is injected, so none is expected.
    fn work(&self, folder: &Path, seed: u64, reporter: &mut Reporter) -> Result<(), String>;
    /// Opens what is there, checks it, and returns the fingerprint of its content.
    ///
    /// # Errors
    /// Whatever a user would be told.
    fn inspect(&self, folder: &Path) -> Result<u64, String>;
    /// Opens what is there, changes something, commits durably, and returns the new fingerprint.
    ///
    /// # Errors
    /// Whatever a user would be told.
    fn go_on(&self, folder: &Path, seed: u64) -> Result<u64, String>;
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Crash states in all.
    pub states: u64,
    /// Of each recorded run, up to this many.
    pub states_per_run: u64,
    /// Whether the disk of a violation is kept as a file.
    pub keeps_disk: bool,
}

impl Effort {
    /// `usual` states, or the number in `PERDURE_POWER_CUTS`; `PERDURE_KEEP_DISKS` says whether disks are kept.
    pub fn from_env(usual: u64) -> Effort {
        Effort {
            states: crate::effort("PERDURE_POWER_CUTS", usual),
            states_per_run: 120,
            keeps_disk: std::env::var_os("PERDURE_KEEP_DISKS").is_some(),
        }
    }
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub runs: u64,
    /// Processes that worked, and how many of them were killed.
    pub processes: u64,
    pub kills: u64,
    pub commits_reported: u64,
    pub commits_durable: u64,
    /// What the disk was asked for while runs were recorded.
    pub writes: u64,
    pub flushes: u64,
    pub power_cuts: u64,
    /// How many of those left anything open; the others are moments right behind a flush.
    pub with_open_writes: u64,
    pub went_on: u64,
    pub recording: Duration,
    pub in_all: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} power cuts ({} with writes under way; {} went on and lost power again) in {} runs of {} processes, {} of them killed; \
             {} commits, {} durable; {} writes, {} flushes; {:.1} s, {:.1} of them recording: {:.0} a second",
            self.power_cuts,
            self.with_open_writes,
            self.went_on,
            self.runs,
            self.processes,
            self.kills,
            self.commits_reported,
            self.commits_durable,
            self.writes,
            self.flushes,
            self.in_all.as_secs_f64(),
            self.recording.as_secs_f64(),
            self.power_cuts as f64 / self.in_all.as_secs_f64().max(0.001)
        )
    }
}

/// Why a climb ended early.
#[derive(Debug)]
pub enum Violation {
    /// The subject broke a promise, in a state that a power cut left.
    AfterPowerCut(String),
    /// The subject could not work, or lost something to a kill.
    Working(String),
    /// Something else went wrong: the file system does not come back, or the instruments do not work.
    Beneath(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::AfterPowerCut(what) => f.write_str(what),
            Violation::Working(what) => write!(f, "working: {what}"),
            Violation::Beneath(what) => write!(f, "beneath the subject: {what}"),
        }
    }
}

fn beneath(what: String) -> Violation {
    Violation::Beneath(what)
}

/// What a process told, and when: the number of records that the disk had by then.
#[derive(Default)]
struct Timeline {
    events: Vec<(usize, Event)>,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Found(u64),
    Attempt(u64),
    Reported,
    Durable,
    Flushed,
}

impl Event {
    fn parse(line: &str) -> Result<Event, String> {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        let state = || {
            value
                .parse()
                .map_err(|_| format!("\"{line}\" is no report"))
        };
        Ok(match word {
            "found" => Event::Found(state()?),
            "attempt" => Event::Attempt(state()?),
            "reported" => Event::Reported,
            "durable" => Event::Durable,
            "flushed" => Event::Flushed,
            _ => return Err(format!("\"{line}\" is no report")),
        })
    }
}

/// What is known of the commits at some moment.
#[derive(Clone, Debug)]
struct Known {
    attempts: Vec<Attempt>,
    reported: usize,
    durable: usize,
}

#[derive(Clone, Copy, Debug)]
struct Attempt {
    state: u64,
    /// A later process did not find it.
    is_dead: bool,
}

impl Known {
    fn new() -> Known {
        let nothing = Attempt {
            state: 0,
            is_dead: false,
        };
        Known {
            attempts: vec![nothing],
            reported: 0,
            durable: 0,
        }
    }

    fn learn(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Attempt(state) => self.attempts.push(Attempt {
                state,
                is_dead: false,
            }),
            Event::Reported => self.reported = self.attempts.len() - 1,
            Event::Durable => {
                self.reported = self.attempts.len() - 1;
                self.durable = self.reported;
            }
            Event::Flushed => self.durable = self.reported,
            Event::Found(state) => {
                let at = self
                    .find(state, self.reported)
                    .ok_or_else(|| self.complain(state, self.reported))?;
                self.attempts[at + 1..]
                    .iter_mut()
                    .for_each(|attempt| attempt.is_dead = true);
                self.reported = at;
            }
        }
        Ok(())
    }

    fn find(&self, state: u64, from: usize) -> Option<usize> {
        (from..self.attempts.len())
            .rev()
            .find(|&i| !self.attempts[i].is_dead && self.attempts[i].state == state)
    }

    fn complain(&self, state: u64, from: usize) -> String {
        let what = match self.attempts.iter().rposition(|a| a.state == state) {
            Some(at) if at < from => format!("commit {at}, older than {from}"),
            Some(at) => format!("commit {at}, which a process before did not find"),
            None => "no commit at all".into(),
        };
        format!(
            "content {state:#x} is {what}, of {} tried; {} was durable",
            self.attempts.len() - 1,
            self.durable
        )
    }

    fn check_after_power_cut(&self, state: u64) -> Result<(), String> {
        match self.find(state, self.durable) {
            Some(_) => Ok(()),
            None => Err(self.complain(state, self.durable)),
        }
    }
}

impl Timeline {
    /// What was known when the disk had `position` records.
    fn known(&self, position: usize) -> Known {
        let mut known = Known::new();
        for (at, event) in &self.events {
            if *at > position {
                break;
            }
            // What was found was looked at when it was told.
            let _ = known.learn(*event);
        }
        known
    }
}

/// A run that is over.
struct Run {
    recording: Recording,
    timeline: Timeline,
    /// Moments from the file system being mounted and quiet to before it is unmounted.
    from: usize,
    to: usize,
}

/// A crash state that waits to be looked at.
struct State {
    image: Image,
    known: Known,
    seed: u64,
    /// For people.
    what: String,
}

/// Climbs until `effort` is reached. `trial` is the name by which the processes find `Subject`: see `runner.rs`.
///
/// # Errors
/// The first violation: what, and the seed of the run; a run can only be repeated about, because the kernel has a part in it, so
/// the disk is kept as a file.
pub fn climb(
    file_system: FileSystem,
    trial: &str,
    seed: u64,
    effort: Effort,
) -> Result<Tally, Violation> {
    let begun = Instant::now();
    let mut tally = Tally::default();
    let stop = AtomicBool::new(false);
    let shared: Mutex<(Tally, Option<Violation>)> = Mutex::new((Tally::default(), None));
    let (give, take) = sync_channel::<State>(2 * CHECKERS);
    let take = Mutex::new(take);
    let recorded = std::thread::scope(|scope| {
        for _ in 0..CHECKERS {
            scope.spawn(|| {
                if let Err(violation) = check_all(file_system, trial, &take, &shared, effort, &stop)
                {
                    stop.store(true, Ordering::SeqCst);
                    let mut shared = shared.lock().expect("no panic while it is held");
                    shared.1.get_or_insert(violation);
                }
                // Whoever still gives must not wait for nobody.
                if stop.load(Ordering::SeqCst) {
                    while take.lock().is_ok_and(|take| take.recv().is_ok()) {}
                }
            });
        }
        // Moved, so that the checkers come to an end.
        let give = give;
        record_all(file_system, trial, seed, effort, &give, &mut tally, &stop)
    });
    let (checked, violation) = shared.into_inner().expect("every thread has ended");
    if let Some(violation) = violation {
        return Err(violation);
    }
    recorded?;
    tally.power_cuts = checked.power_cuts;
    tally.went_on = checked.went_on;
    tally.in_all = begun.elapsed();
    Ok(tally)
}

fn record_all(
    file_system: FileSystem,
    trial: &str,
    seed: u64,
    effort: Effort,
    give: &SyncSender<State>,
    tally: &mut Tally,
    stop: &AtomicBool,
) -> Result<(), Violation> {
    let mut rig = Rig::new(file_system, trial).map_err(beneath)?;
    let blank = rig.make_file_system().map_err(beneath)?;
    let mut planned = 0;
    while planned < effort.states && !stop.load(Ordering::SeqCst) {
        let run_seed = seed.wrapping_add(tally.runs);
        tally.runs += 1;
        let begun = Instant::now();
        let run = record(&mut rig, &blank, run_seed, tally)?;
        tally.recording += begun.elapsed();
        let count = effort.states_per_run.min(effort.states - planned);
        planned += count;
        let mut rng = Rng::new(run_seed ^ 0x5EED);
        let mut cuts = Cuts::new(&run.recording);
        for position in moments(&run, count, &mut rng) {
            if stop.load(Ordering::SeqCst) {
                break;
            }
            cuts.advance(position);
            let state_seed = rng.draw();
            let image = cuts.image(
                position,
                file_system.piece_bytes(),
                &mut Rng::new(state_seed),
            );
            tally.with_open_writes += u64::from(!cuts.open(position).is_empty());
            let state = State {
                image,
                known: run.timeline.known(position),
                seed: state_seed,
                what: format!(
                    "run seed {run_seed}, power cut after {position} of {} operations of the disk ({} open), state seed {state_seed}",
                    run.to,
                    cuts.open(position).len()
                ),
            };
            if give.send(state).is_err() {
                break;
            }
        }
    }
    Ok(())
}

/// `count` moments of a run, in order: half of them anywhere, half where most is open, right before a flush.
fn moments(run: &Run, count: u64, rng: &mut Rng) -> Vec<usize> {
    let flushes: Vec<usize> = (run.from..run.to)
        .filter(|&at| matches!(run.recording.records[at], Record::Flush))
        .collect();
    let mut moments: Vec<usize> = (0..count)
        .map(|_| {
            if rng.chance(2) && !flushes.is_empty() {
                flushes[rng.below(flushes.len() as u64) as usize]
            } else {
                run.from + rng.below((run.to - run.from) as u64 + 1) as usize
            }
        })
        .collect();
    moments.sort_unstable();
    moments
}

/// One run of a few processes, some of which are killed.
fn record(rig: &mut Rig, blank: &Image, seed: u64, tally: &mut Tally) -> Result<Run, Violation> {
    let mut rng = Rng::new(seed);
    let disk = rig.disk().clone();
    disk.load(blank.clone());
    disk.record();
    rig.new_boot(&mut rng);
    rig.mount().map_err(beneath)?;
    rig.sync().map_err(beneath)?;
    let from = disk.position();
    let mut timeline = Timeline::default();
    let mut known = Known::new();
    for _ in 0..1 + rng.below(4) {
        let kill_after = (!rng.chance(3)).then(|| Duration::from_micros(5000 + rng.below(50_000)));
        let ended = rig
            .work(rng.draw(), kill_after, |line| {
                let event = Event::parse(line)?;
                known.learn(event)?;
                timeline.events.push((disk.position(), event));
                tally.commits_durable += u64::from(matches!(event, Event::Durable));
                tally.commits_reported +=
                    u64::from(matches!(event, Event::Durable | Event::Reported));
                Ok(())
            })
            .map_err(|what| Violation::Working(format!("run seed {seed}: {what}")))?;
        tally.processes += 1;
        tally.kills += u64::from(!ended);
    }
    let to = disk.position();
    let recording = disk.recorded();
    rig.unmount().map_err(beneath)?;
    let during = &recording.records[from..to];
    let flushes = during.iter().filter(|r| matches!(r, Record::Flush)).count();
    tally.flushes += flushes as u64;
    tally.writes += (during.len() - flushes) as u64;
    Ok(Run {
        recording,
        timeline,
        from,
        to,
    })
}

fn check_all(
    file_system: FileSystem,
    trial: &str,
    take: &Mutex<Receiver<State>>,
    shared: &Mutex<(Tally, Option<Violation>)>,
    effort: Effort,
    stop: &AtomicBool,
) -> Result<(), Violation> {
    let mut rig = Rig::new(file_system, trial).map_err(beneath)?;
    while !stop.load(Ordering::SeqCst) {
        // In a statement of its own: the lock must be free while the state is looked at.
        let next = take.lock().expect("no panic while it is held").recv();
        let Ok(state) = next else { break };
        let outcome = check(&mut rig, file_system, &state);
        let mut shared = shared.lock().expect("no panic while it is held");
        shared.0.power_cuts += 1;
        shared.0.went_on += u64::from(*outcome.as_ref().unwrap_or(&false));
        drop(shared);
        outcome.map_err(|violation| explain(violation, &state, effort.keeps_disk))?;
    }
    Ok(())
}

/// The violation with what led there, and where the disk is kept.
fn explain(violation: Violation, state: &State, keeps_disk: bool) -> Violation {
    let kept = if keeps_disk {
        keep(state)
    } else {
        "PERDURE_KEEP_DISKS=1 keeps such a disk as a file".into()
    };
    let text = |what: String| format!("{}: {what}; {kept}", state.what);
    match violation {
        Violation::AfterPowerCut(what) => Violation::AfterPowerCut(text(what)),
        Violation::Working(what) => Violation::Working(text(what)),
        Violation::Beneath(what) => Violation::Beneath(text(what)),
    }
}

/// The disk as a file, for those who want to see it.
fn keep(state: &State) -> String {
    let path = std::env::temp_dir().join(format!("perdure-wreck-{:016x}.img", state.seed));
    let written = File::create(&path).and_then(|file| {
        for (offset, bytes) in state.image.pages() {
            file.write_all_at(bytes, offset)?;
        }
        Ok(())
    });
    match written {
        Ok(()) => format!("the disk is kept in {}", path.display()),
        Err(e) => format!("the disk could not be kept: {e}"),
    }
}

/// Looks at one state; now and then works on and loses power again, and says so.
fn check(rig: &mut Rig, file_system: FileSystem, state: &State) -> Result<bool, Violation> {
    let mut rng = Rng::new(state.seed ^ 0xB007);
    let goes_on = rng.chance(8);
    let disk = rig.disk().clone();
    disk.load(state.image.clone());
    if goes_on {
        disk.record();
    }
    rig.new_boot(&mut rng);
    rig.mount().map_err(beneath)?;
    let found = rig.inspect().map_err(Violation::AfterPowerCut)?;
    state
        .known
        .check_after_power_cut(found)
        .map_err(Violation::AfterPowerCut)?;
    if goes_on {
        let committed = rig
            .go_on(rng.draw())
            .map_err(|what| Violation::AfterPowerCut(format!("going on: {what}")))?;
        let recording = disk.recorded();
        rig.unmount().map_err(beneath)?;
        // Right behind the commit, or anywhere before: while the file system or the subject was recovering, too.
        let end = recording.records.len();
        let position = if rng.chance(2) {
            end
        } else {
            rng.below(end as u64 + 1) as usize
        };
        let mut cuts = Cuts::new(&recording);
        cuts.advance(position);
        disk.load(cuts.image(position, file_system.superblock_bytes(), &mut rng));
        rig.new_boot(&mut rng);
        rig.mount().map_err(beneath)?;
        let again = rig
            .inspect()
            .map_err(|what| Violation::AfterPowerCut(format!("second cut: {what}")))?;
        // Where there was nothing, something is made first.
        let may_be_older = position < end && (again == found || found == 0);
        if again != committed && !may_be_older {
            return Err(Violation::AfterPowerCut(format!(
                "second cut, after {position} of {end} operations: found {found:#x}, committed {committed:#x}, now {again:#x}"
            )));
        }
    }
    rig.unmount().map_err(beneath)?;
    Ok(goes_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(events: &[Event]) -> Result<Known, String> {
        let mut known = Known::new();
        for event in events {
            known.learn(*event)?;
        }
        Ok(known)
    }

    #[test]
    fn what_may_be_found_is_what_was_tried_since_the_last_durable_commit() {
        use Event::*;
        let some = [Attempt(5), Durable, Attempt(6), Reported, Attempt(7)];
        let known_now = known(&some).expect("nothing found");
        for (state, may_be) in [(0, false), (5, true), (6, true), (7, true), (8, false)] {
            assert_eq!(known_now.check_after_power_cut(state).is_ok(), may_be);
        }
        // A process that was killed loses nothing that was reported.
        assert!(known(&[&some[..], &[Found(5)]].concat()).is_err());
        // What the next process does not find is gone for ever.
        let later = known(&[&some[..], &[Found(6)]].concat()).expect("found what was reported");
        for (state, may_be) in [(5, true), (6, true), (7, false)] {
            assert_eq!(later.check_after_power_cut(state).is_ok(), may_be);
        }
        // What it flushes, stays.
        let later = known(&[&some[..], &[Found(6), Attempt(9), Reported, Flushed]].concat())
            .expect("found what was reported");
        for (state, may_be) in [(5, false), (6, false), (7, false), (9, true)] {
            assert_eq!(later.check_after_power_cut(state).is_ok(), may_be);
        }
    }
}
