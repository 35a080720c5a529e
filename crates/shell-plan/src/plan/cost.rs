//! What running stages somewhere costs: the model.
//!
//! A pipeline is a line of *stations*: disks, mounts, links, processors. All of them work at once, so that a stretch of it takes as long as
//! its slowest station; but where a stage prints nothing before it has read all (`sort`), what is behind it begins only then, a new
//! *phase*, and the times of phases add up. (Posh counts bytes over links alone; Raghavan et al., ATC 2020, section 4.3.)
//!
//! | station | seconds |
//! |---|---|
//! | a stage | its input / its speed (measured by [`super::selectivity_key`], or usual); if it reads over a mount, that time besides: in figure 3 of the Posh paper the same work takes over NFS at least as much longer as the bytes need on the wire, however much there is to compute |
//! | a machine's processors | those of all its stages of the phase / processors that have nothing else to do, or as many shares of one as there are stages |
//! | a mount, for stages here | bytes / speed of the mount, and a wait for each file opened and each entry looked at |
//! | a host's disk | bytes / its speed |
//! | this machine's own link, if it is known | all that comes over it / its speed |
//! | a link | bytes / its speed, and a processor's time at both its ends; what goes from host to host crosses two, unless they know each other |
//!
//! Beginning a group costs two round trips and [`BEGIN_S`], and a connection if there is none (to several hosts at once [`CONNECT_MORE_S`] for each further
//! one); each further lane [`LANE_S`]. Stations of one
//! phase that belong to different groups and share a link or a processor are not added up: between groups, bytes come through here.
//!
//! Invariant: [`evaluate`] of segments is what `search.rs` found them to cost, because both add up [`Steps`] in the same way.

use std::collections::{BTreeMap, BTreeSet};

use super::commands::{looks_only, name};
use super::rules::Known;
use super::split::{Split, moved};
use super::volume::{Flow, looks, told_of};
use super::{Cost, FileKind, Moved, Place, Stdin, Stdout};
use crate::annotation::Kind;

/// Making processes at the other end, and what plans and frames cost.
pub(super) const BEGIN_S: f64 = 0.004;
/// What one connection more computes here that is made at the same time as others.
const CONNECT_MORE_S: f64 = 0.05;
/// One process more, and its part of the input found.
const LANE_S: f64 = 0.002;
/// How many bytes one processor puts on a connection in a second, or takes from it: ciphers, frames and copies. (Measured: 5 ssh connections to one
/// machine of two processors, which is both ends, bring 130 MB/s.)
const CARRY_SPEED: f64 = 300e6;
/// How fast outputs are put together.
const CONCAT_SPEED: f64 = 1e9;
const MERGE_SPEED: f64 = 100e6;

/// Consecutive stages that run in one place, or begin in lanes and go on in one place.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Segment {
    pub from: usize,
    pub end: usize,
    /// Where the stages run that are in no lane, and where lanes come together.
    pub place: Place,
    pub split: Option<Split>,
    /// Among how many processes the first command shares its files itself.
    pub jobs: usize,
}

/// What a segment costs, in a form that can be put behind others.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Steps {
    /// Before anything runs.
    begin_s: f64,
    /// The slowest station of each phase.
    phases: Vec<f64>,
    moved_bytes: f64,
}

/// Stations of the phase that is being looked at.
#[derive(Default)]
struct Phase {
    slowest: f64,
    /// Of all processes of a place, and how many those are.
    cpu_s: BTreeMap<Place, (f64, f64)>,
    disk: BTreeMap<Place, f64>,
    mount_s: BTreeMap<usize, f64>,
    mount_bytes: f64,
    down: BTreeMap<usize, f64>,
    up: BTreeMap<usize, f64>,
}

/// The time a line of segments takes, as far as it has been followed.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Clock {
    /// Phases that are over.
    pub done_s: f64,
    /// The slowest station of the one that is not.
    pub now_s: f64,
    pub moved_bytes: f64,
}

impl Clock {
    pub fn total_s(self) -> f64 {
        self.done_s + self.now_s
    }

    /// Behind one more segment.
    pub fn after(self, steps: &Steps) -> Clock {
        let mut clock = self;
        clock.done_s += steps.begin_s;
        clock.moved_bytes += steps.moved_bytes;
        for (number, &phase) in steps.phases.iter().enumerate() {
            if number > 0 {
                clock.done_s += clock.now_s;
                clock.now_s = 0.0;
            }
            clock.now_s = clock.now_s.max(phase);
        }
        clock
    }
}

impl From<Clock> for Cost {
    fn from(clock: Clock) -> Cost {
        Cost {
            seconds: clock.total_s(),
            moved_bytes: clock.moved_bytes,
        }
    }
}

/// What a line of segments costs.
pub(super) fn evaluate(known: &Known<'_, '_>, flows: &[Flow], segments: &[Segment]) -> Cost {
    let mut clock = Clock::default();
    let mut before = Place::Here;
    for segment in segments {
        clock = clock.after(&steps(known, flows, segment, before));
        before = segment.place;
    }
    clock.into()
}

/// What a segment costs that reads what comes from `before`.
pub(super) fn steps(
    known: &Known<'_, '_>,
    flows: &[Flow],
    segment: &Segment,
    before: Place,
) -> Steps {
    let facts = known.facts;
    let mut count = Count {
        known,
        flows,
        steps: Steps::default(),
        phase: Phase::default(),
    };
    let first = &facts.stages[segment.from];
    if first.stdin == Stdin::Stage && flows[segment.from].stdin > 0.0 {
        count.cross(before, segment.place, flows[segment.from].stdin);
    }
    let mut from = segment.from;
    let mut waits = 0.0_f64;
    if let Some(split) = &segment.split {
        count.lanes(split, segment.place);
        from = split.end;
        let mut strangers = BTreeSet::new();
        for lane in &split.lanes {
            waits = waits.max(count.begin_s(Place::Host(lane.host)));
            if !facts.hosts[lane.host].connected {
                strangers.insert(lane.host);
            }
        }
        waits += CONNECT_MORE_S * strangers.len().saturating_sub(1) as f64;
        count.steps.begin_s += LANE_S * (split.lanes.len() - 1) as f64;
    } else {
        waits = count.begin_s(segment.place);
    }
    count.steps.begin_s += waits;
    for k in from..segment.end {
        let jobs = if k == segment.from { segment.jobs } else { 1 };
        count.stage(k, segment.place, jobs as f64);
    }
    if segment.end == facts.stages.len() {
        let is_doubtful = (segment.split.as_ref()).is_some_and(|split| split.is_doubtful);
        count.end(segment.end - 1, segment.place, !is_doubtful);
    }
    count.next_phase();
    count.steps
}

struct Count<'k, 'f, 'a> {
    known: &'k Known<'f, 'a>,
    flows: &'k [Flow],
    steps: Steps,
    phase: Phase,
}

impl Count<'_, '_, '_> {
    fn begin_s(&self, place: Place) -> f64 {
        let Place::Host(host) = place else { return 0.0 };
        let host = &self.known.facts.hosts[host];
        let connect = if host.connected { 0.0 } else { host.connect_s };
        connect + 2.0 * host.round_trip_s + BEGIN_S
    }

    fn idle(&self, place: Place) -> f64 {
        let idle = match place {
            Place::Here => self.known.facts.idle_cores,
            Place::Host(host) => self.known.facts.hosts[host].idle_cores,
        };
        idle.max(0.1)
    }

    fn work(&mut self, place: Place, cpu_s: f64) {
        let idle = self.idle(place);
        self.slow(cpu_s / idle.min(1.0));
        self.compute(place, cpu_s);
    }

    /// A process more that computes.
    fn compute(&mut self, place: Place, cpu_s: f64) {
        let (sum, processes) = self.phase.cpu_s.entry(place).or_default();
        *sum += cpu_s;
        *processes += 1.0;
    }

    fn slow(&mut self, seconds: f64) {
        self.phase.slowest = self.phase.slowest.max(seconds);
    }

    /// Bytes from one place to another, by way of here.
    fn cross(&mut self, from: Place, to: Place, bytes: f64) {
        if from == to {
            return;
        }
        if let Place::Host(host) = from {
            *self.phase.down.entry(host).or_default() += bytes;
            self.carry(from, bytes);
        }
        if let Place::Host(host) = to {
            *self.phase.up.entry(host).or_default() += bytes;
            self.carry(to, bytes);
        }
    }

    /// Bytes between here and a host: both ends compute for that.
    fn carry(&mut self, host: Place, bytes: f64) {
        self.steps.moved_bytes += bytes;
        for end in [host, Place::Here] {
            self.work(end, bytes / CARRY_SPEED);
        }
    }

    fn mount(&mut self, host: usize, seconds: f64, bytes: f64) {
        self.phase.mount_bytes += bytes;
        *self.phase.mount_s.entry(host).or_default() += seconds;
        self.steps.moved_bytes += bytes;
    }

    fn file_moved(&mut self, moved: &Moved, fraction: f64) {
        let bytes = moved.bytes as f64 * fraction;
        match (moved.from, moved.to) {
            (Place::Host(from), Place::Host(to)) if moved.direct => {
                let mut links = self.known.facts.direct.iter();
                let speed = links
                    .find(|(a, b, _)| (*a, *b) == (from, to))
                    .map_or(1.0, |link| link.2);
                self.slow(bytes / speed.max(1.0));
                self.steps.moved_bytes += bytes;
            }
            (from, to) => self.cross(from, to, bytes),
        }
    }

    /// The phase is over: nothing of it can be known that is not in its stations.
    fn next_phase(&mut self) {
        let phase = std::mem::take(&mut self.phase);
        let mut slowest = phase.slowest;
        let hosts = &self.known.facts.hosts;
        for (place, (cpu_s, processes)) in phase.cpu_s {
            // Each process of a busy machine's has the same share: several have several.
            let idle = self.idle(place);
            let share = if idle < 1.0 {
                (processes * idle).min(1.0)
            } else {
                idle
            };
            slowest = slowest.max(cpu_s / share.max(idle));
        }
        for (place, bytes) in phase.disk {
            if let Place::Host(host) = place {
                slowest = slowest.max(bytes / hosts[host].disk.max(1.0));
            }
        }
        for seconds in phase.mount_s.into_values() {
            slowest = slowest.max(seconds);
        }
        if let Some(link) = self.known.facts.link {
            slowest =
                slowest.max((phase.down.values().sum::<f64>() + phase.mount_bytes) / link.max(1.0));
        }
        for (host, bytes) in phase.down {
            slowest = slowest.max(bytes / hosts[host].down.max(1.0));
        }
        for (host, bytes) in phase.up {
            slowest = slowest.max(bytes / hosts[host].up.max(1.0));
        }
        self.steps.phases.push(slowest);
    }

    /// One stage in one place.
    fn stage(&mut self, k: usize, place: Place, jobs: f64) {
        let facts = self.known.facts;
        let stage = &facts.stages[k];
        let flow = self.flows[k];
        self.compute(place, flow.cpu_s);
        let mut waited_s = 0.0;
        if let Some(call) = self.known.call(k) {
            for moved in moved(self.known, k, place, &|_| false) {
                self.file_moved(&moved, flow.fraction);
            }
            let looks_only = looks_only(stage);
            for (named, file) in stage.files.iter().zip(&call.files) {
                let content = named.size_bytes as f64 * flow.fraction;
                let content = if looks_only { 0.0 } else { content };
                let (read, written) = match file.kind {
                    Kind::Output => (0.0, flow.input),
                    Kind::Update => (content, content),
                    _ => (content, 0.0),
                };
                let opened = named.kind == FileKind::Regular;
                waited_s += self.file(named.at, place, read, written, opened);
            }
            for named in told_of(facts, k) {
                let content = named.size_bytes as f64 * flow.fraction;
                waited_s += self.file(named.at, place, content, 0.0, false);
            }
            for (at, entries) in looks(stage) {
                waited_s += self.look(place, at, entries);
            }
        }
        match &stage.stdin {
            // What goes to another host is counted as moved.
            Stdin::File { file, .. } => {
                waited_s += self.file(file.at, place, flow.stdin, 0.0, false);
            }
            Stdin::Other { .. } => self.cross(Place::Here, place, flow.stdin),
            Stdin::Stage | Stdin::Terminal => {}
        }
        let one = self.idle(place).min(1.0);
        self.slow(flow.cpu_s / one / jobs + waited_s);
        if flow.waits {
            self.next_phase();
        }
    }

    /// A file read and written where it is, or over its mount; then for how long.
    fn file(&mut self, at: Place, place: Place, read: f64, written: f64, opened: bool) -> f64 {
        match (at, place) {
            (Place::Host(host), Place::Here) => {
                let mount = &self.known.facts.hosts[host].mount;
                let open_s = if opened { mount.open_s } else { 0.0 };
                let seconds = read / mount.read.max(1.0) + written / mount.write.max(1.0) + open_s;
                self.mount(host, seconds, read + written);
                seconds
            }
            (at, place) if at == place => {
                *self.phase.disk.entry(place).or_default() += read + written;
                0.0
            }
            _ => 0.0,
        }
    }

    /// Entries of folders, looked at one by one; for how long that is over a mount.
    fn look(&mut self, place: Place, at: Place, entries: f64) -> f64 {
        let (Place::Here, Place::Host(host)) = (place, at) else {
            return 0.0;
        };
        let seconds = entries * self.known.facts.hosts[host].mount.entry_s;
        // About as many bytes as a message about one file has.
        self.mount(host, seconds, 200.0 * entries);
        seconds
    }

    /// Stages in lanes, and their outputs put together at a place.
    fn lanes(&mut self, split: &Split, place: Place) {
        let last = split.end - 1;
        let output = self.flows[last].output;
        let few = self.flows[last].few;
        let mut printed: BTreeMap<usize, f64> = BTreeMap::new();
        for lane in &split.lanes {
            let at = Place::Host(lane.host);
            for k in split.from..split.end {
                self.work(at, self.flows[k].cpu_s * lane.share);
            }
            let named = self.flows[split.from].input * lane.share;
            // Nodes that have the same files have them from one place.
            let disk = Place::Host(self.known.home(lane.host));
            *self.phase.disk.entry(disk).or_default() += named;
            for moved in &lane.moved {
                self.file_moved(moved, 1.0);
            }
            let bytes = output_of(few, output, lane.share);
            let sum = printed.entry(lane.host).or_default();
            *sum = if few { bytes } else { *sum + bytes };
        }
        if self.flows[last].waits {
            self.next_phase();
        }
        for (host, bytes) in printed {
            self.cross(Place::Host(host), place, bytes);
        }
        let speed = if split.combiner.only_passes() {
            CONCAT_SPEED
        } else {
            MERGE_SPEED
        };
        self.work(place, if few { 0.0 } else { output / speed });
    }

    /// Where the output goes in the end. `writes_there`: a file of the place is written there.
    fn end(&mut self, last: usize, place: Place, writes_there: bool) {
        let bytes = self.flows[last].output;
        let facts = self.known.facts;
        match &facts.stages[last].stdout {
            Stdout::File(file) if file.at == place && (writes_there || place == Place::Here) => {
                *self.phase.disk.entry(place).or_default() += bytes;
            }
            Stdout::File(file) => {
                self.cross(place, Place::Here, bytes);
                if let Place::Host(host) = file.at {
                    let seconds = bytes / facts.hosts[host].mount.write.max(1.0);
                    self.mount(host, seconds, bytes);
                }
            }
            Stdout::Stage | Stdout::Terminal | Stdout::Other => {
                self.cross(place, Place::Here, bytes)
            }
        }
    }
}

/// What a lane prints.
pub(super) fn output_of(few: bool, output: f64, share: f64) -> f64 {
    if few { output } else { output * share }
}

/// Whether anything a segment does is for a machine at all: a name for people.
pub(super) fn is_here(segment: &Segment) -> bool {
    segment.place == Place::Here && segment.split.is_none()
}

/// The names of a segment's commands.
pub(super) fn names(known: &Known<'_, '_>, segment: &Segment) -> String {
    let stages = &known.facts.stages[segment.from..segment.end];
    stages.iter().map(name).collect::<Vec<_>>().join(" | ")
}
