//! What is measured in passing and is still known when the broker has gone: how far hosts are, and what commands make of their input.
//!
//! ```text
//! # What nearsh has measured: ...
//! host<TAB>NAME<TAB>round trip (s)<TAB>bytes in a second from there<TAB>connecting (s)        -: not measured
//! command<TAB>KEY<TAB>bytes out for each byte in<TAB>bytes in for each second of a processor
//! ```
//!
//! The file is `~/.local/state/nearsh/measured`, or lies so in `XDG_STATE_HOME`; what was used last stands last.
//!
//! The invariant: a file that is damaged, foreign or gone makes plans worse, never wrong; nobody ever sees a half of one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use shell_plan::nest::Nest;
use shell_plan::plan::{Facts, Measured, call_key, selectivity_key};

use super::facts;
use crate::flow::locked;
use crate::wire::{HostState, StageCall, Used};

/// Less than this says more of beginning a process than of what it does.
const READ_MIN: u64 = 1 << 20;
/// The same of processors; the kernel tells hundredths of seconds.
const MICROS_MIN: u64 = 50_000;
/// How many classes of calls are remembered, and how many hosts.
const MOST: usize = 2000;
/// How often the file is written at most.
const PAUSE: Duration = Duration::from_secs(5);
/// A longer file is none of ours.
const FILE_MOST: u64 = 4 << 20;

const HEAD: &str = "# What nearsh has measured: hosts, and what commands make of their input. It may be deleted.\n";

/// What is remembered.
pub struct Memory {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    hosts: BTreeMap<String, (u64, Line)>,
    commands: BTreeMap<String, (u64, Measured)>,
    /// How often anything was used: the order of what was used.
    clock: u64,
    /// Whether there is anything that is not in the file.
    is_new: bool,
    written: Option<Instant>,
}

/// A host's line.
#[derive(Clone, Copy, Default)]
struct Line {
    round_trip_s: Option<f64>,
    down: Option<f64>,
    connect_s: Option<f64>,
}

impl Memory {
    /// That of this process' user.
    pub fn of_this_user() -> Memory {
        let set = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let state = set("XDG_STATE_HOME").filter(|path| path.is_absolute());
        // A home folder that is not there is not made.
        let home = set("HOME").filter(|home| home.is_dir());
        let state = state.or_else(|| Some(home?.join(".local/state")));
        let folder = state.filter(|path| path.is_absolute());
        Memory::in_file(folder.map(|folder| folder.join("nearsh/measured")))
    }

    fn in_file(file: Option<PathBuf>) -> Memory {
        let of_sane_size = |path: &&PathBuf| {
            let meta = path.metadata();
            meta.is_ok_and(|meta| meta.is_file() && meta.len() <= FILE_MOST)
        };
        let text = (file.as_ref().filter(of_sane_size))
            .and_then(|path| std::fs::read_to_string(path).ok())
            .unwrap_or_default();
        Memory {
            file,
            known: Mutex::new(Known::read(&text)),
        }
    }

    /// Adds to what is known of a host what was known of it before.
    pub fn remind(&self, host: &mut HostState) {
        let known = locked(&self.known);
        if let Some((_, line)) = known.hosts.get(&host.name) {
            host.round_trip_s = host.round_trip_s.or(line.round_trip_s);
            host.down = host.down.or(line.down);
            host.connect_s = host.connect_s.or(line.connect_s);
        }
    }

    /// Tells the planner what such calls have made of their input before.
    pub fn teach(&self, facts: &mut Facts<'_>) {
        let mut known = locked(&self.known);
        known.clock += 1;
        let now = known.clock;
        for stage in &facts.stages {
            let Ok(call) = &stage.call else { continue };
            for key in [
                call_key(&stage.words, call),
                selectivity_key(&stage.words, call),
            ] {
                if let Some((used, measured)) = known.commands.get_mut(&key) {
                    *used = now;
                    facts.learned.commands.insert(key, *measured);
                }
            }
        }
    }

    /// A host, as its connection has it.
    pub fn note_host(&self, host: &HostState) {
        let mut known = locked(&self.known);
        known.clock += 1;
        let now = known.clock;
        let (used, line) = known.hosts.entry(host.name.clone()).or_default();
        *used = now;
        line.round_trip_s = host.round_trip_s.or(line.round_trip_s);
        line.down = host.down.or(line.down);
        line.connect_s = host.connect_s.or(line.connect_s);
        known.is_new = true;
        bound(&mut known.hosts);
    }

    /// What all processes of a stage have used together that ran to their end.
    pub fn note_stage(&self, of: &StageCall, used: Used) {
        if used.read < READ_MIN {
            return;
        }
        let Ok(Nest { call, .. }) = facts::nest_of(of) else {
            return;
        };
        let seconds = (used.micros >= MICROS_MIN).then_some(used.micros as f64 / 1e6);
        let selectivity = used.written as f64 / used.read as f64;
        let mut known = locked(&self.known);
        for key in [
            call_key(&of.words, &call),
            selectivity_key(&of.words, &call),
        ] {
            known.note(key, selectivity, seconds.map(|s| used.read as f64 / s));
        }
    }

    /// Writes the file, if there is anything new: at the end, or if that was not done lately. Who cannot write it forgets.
    pub fn save(&self, is_end: bool) {
        let Some(file) = &self.file else { return };
        let text = {
            let mut known = locked(&self.known);
            let is_recent = known.written.is_some_and(|when| when.elapsed() < PAUSE);
            if !known.is_new || is_recent && !is_end {
                return;
            }
            known.is_new = false;
            known.written = Some(Instant::now());
            known.text()
        };
        let _ = replace(file, text.as_bytes());
    }
}

fn replace(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    new.write_all(bytes)?;
    new.persist(file)?;
    Ok(())
}

/// What was not used for longest is forgotten.
fn bound<T>(map: &mut BTreeMap<String, (u64, T)>) {
    while map.len() > MOST {
        let oldest = map.iter().min_by_key(|(_, (used, _))| *used);
        let Some(key) = oldest.map(|(key, _)| key.clone()) else {
            return;
        };
        map.remove(&key);
    }
}

impl Known {
    /// Half of what is known is what was measured last: data change.
    fn note(&mut self, key: String, selectivity: f64, speed: Option<f64>) {
        self.clock += 1;
        let old = self.commands.get(&key).map(|(_, measured)| *measured);
        let mean = |old: Option<f64>, new: f64| old.map_or(new, |old| (old + new) / 2.0);
        let Some(speed) = speed.or(old.map(|old| old.speed)) else {
            return;
        };
        let measured = Measured {
            selectivity: mean(old.map(|old| old.selectivity), selectivity),
            speed: mean(old.map(|old| old.speed), speed),
        };
        self.commands.insert(key, (self.clock, measured));
        self.is_new = true;
        bound(&mut self.commands);
    }

    fn read(text: &str) -> Known {
        let mut known = Known::default();
        for line in text.lines() {
            known.clock += 1;
            let now = known.clock;
            let fields: Vec<&str> = line.split('\t').collect();
            let number = |field: &str| {
                field
                    .parse()
                    .ok()
                    .filter(|n: &f64| *n > 0.0 && n.is_finite())
            };
            match fields.as_slice() {
                ["host", name, round_trip, down, connect] => {
                    let line = Line {
                        round_trip_s: number(round_trip),
                        down: number(down),
                        connect_s: number(connect),
                    };
                    known.hosts.insert((*name).to_owned(), (now, line));
                }
                ["command", key, selectivity, speed] => {
                    let selectivity = selectivity.parse().ok();
                    let selectivity = selectivity.filter(|n: &f64| *n >= 0.0 && n.is_finite());
                    if let (Some(selectivity), Some(speed)) = (selectivity, number(speed)) {
                        let measured = Measured { selectivity, speed };
                        known.commands.insert((*key).to_owned(), (now, measured));
                    }
                }
                _ => {}
            }
        }
        bound(&mut known.hosts);
        bound(&mut known.commands);
        known
    }

    fn text(&self) -> String {
        let mut lines: Vec<(u64, String)> = Vec::new();
        let number = |number: Option<f64>| number.map_or("-".to_owned(), |n| n.to_string());
        for (name, (used, line)) in &self.hosts {
            let mut text = format!("host\t{name}");
            for value in [line.round_trip_s, line.down, line.connect_s] {
                let _ = write!(text, "\t{}", number(value));
            }
            lines.push((*used, text));
        }
        for (key, (used, of)) in &self.commands {
            let text = format!("command\t{key}\t{}\t{}", of.selectivity, of.speed);
            lines.push((*used, text));
        }
        // A name that would not be one field is not kept.
        lines.retain(|(_, text)| {
            let count = if text.starts_with("host") { 4 } else { 3 };
            text.matches('\t').count() == count && !text.contains('\n')
        });
        lines.sort();
        let mut text = HEAD.to_owned();
        for (_, line) in lines {
            text += &line;
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str, round_trip_s: Option<f64>) -> HostState {
        HostState {
            round_trip_s,
            down: Some(75e6),
            ..HostState::unknown(name)
        }
    }

    #[test]
    fn what_was_measured_is_known_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state/nearsh/measured");
        let memory = Memory::in_file(Some(file.clone()));
        memory.note_host(&host("one", Some(0.02)));
        memory.note_host(&host("two", None));
        locked(&memory.known).note("grep/x".into(), 0.5, Some(1e9));
        locked(&memory.known).note("grep/x".into(), 0.25, None);
        locked(&memory.known).note("new".into(), 0.25, None);
        memory.save(false);
        memory.note_host(&host("three", Some(0.5)));
        // It was written just now.
        memory.save(false);

        let next = Memory::in_file(Some(file.clone()));
        let mut one = HostState::unknown("one");
        next.remind(&mut one);
        assert_eq!((one.round_trip_s, one.down), (Some(0.02), Some(75e6)));
        let mut two = HostState::unknown("two");
        next.remind(&mut two);
        assert_eq!((two.round_trip_s, two.down), (None, Some(75e6)));
        let known = locked(&next.known);
        assert_eq!(known.commands["grep/x"].1.selectivity, 0.375);
        assert_eq!(known.commands["grep/x"].1.speed, 1e9);
        assert_eq!((known.commands.len(), known.hosts.len()), (1, 2));
        drop(known);

        memory.save(true);
        assert_eq!(locked(&Memory::in_file(Some(file)).known).hosts.len(), 3);
    }

    #[test]
    fn a_damaged_file_is_read_as_far_as_it_makes_sense() {
        let text = "host\ta\t-1\tnan\t0.5\nhost\tb\ncommand\tk\tinf\t5\ncommand\tk2\t0\t0\ncommand\tk3\t0\t7\n\u{0}\n";
        let known = Known::read(text);
        let line = known.hosts["a"].1;
        assert_eq!(
            (line.round_trip_s, line.down, line.connect_s),
            (None, None, Some(0.5))
        );
        let keys: Vec<&String> = known.commands.keys().collect();
        assert_eq!(keys, ["k3"]);
    }

    #[test]
    fn what_was_used_last_is_kept() {
        let mut known = Known::default();
        for number in 0..=MOST {
            known.note(format!("k{number}"), 1.0, Some(1.0));
        }
        assert!(!known.commands.contains_key("k0") && known.commands.contains_key("k1"));
        let mut again = Known::read(&known.text());
        again.note("new".into(), 1.0, Some(1.0));
        assert!(!again.commands.contains_key("k1") && again.commands.contains_key("k2"));
    }

    #[test]
    fn names_that_are_no_field_are_not_kept() {
        let mut known = Known::default();
        known.note("a\tb".into(), 1.0, Some(1.0));
        known.note("a\nhost\tx\t1\t1\t1".into(), 1.0, Some(1.0));
        assert_eq!(known.text(), HEAD);
    }
}
