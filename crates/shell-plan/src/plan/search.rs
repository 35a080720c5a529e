//! The best line of segments for a pipeline, by dynamic programming over (stages done, place of the last).
//!
//! A partial line is judged by two numbers, the time of the phases that are over and the slowest station of the one that is not, because what
//! comes may be hidden behind the latter. One line is dropped only for another that is no worse in both: then nothing that follows
//! can make it the better one. So the result is the best there is under the model, which a greedy search would not give.

#[cfg(test)]
mod tests;

use super::Place;
use super::cost::{Clock, Segment, steps};
use super::rules::Known;
use super::split::{Split, shared};
use super::volume::Flow;

/// Of more hosts than this, only one is thought of as the place where all their lanes meet.
const MEETING_MAX: usize = 5;

/// What a search may use.
pub(super) struct Scope<'s> {
    /// For each stage, all splits that begin with it.
    pub splits: &'s [Vec<Split>],
    /// Hosts besides this machine.
    pub hosts: &'s [usize],
    /// Whether stages may be run in lanes.
    pub lanes: bool,
    /// What a byte over a link costs besides what the model says.
    pub byte_s: f64,
}

/// A partial line.
struct Line {
    clock: Clock,
    place: Option<Place>,
    /// The line it goes on from, and by what.
    before: Option<(usize, Segment)>,
}

/// The best line of segments. There is always one: everything here.
pub(super) fn search(known: &Known<'_, '_>, flows: &[Flow], scope: &Scope<'_>) -> Vec<Segment> {
    let count = known.facts.stages.len();
    // All lines, and for each number of stages those that go on.
    let mut lines = vec![Line {
        clock: Clock::default(),
        place: None,
        before: None,
    }];
    let mut open: Vec<Vec<usize>> = vec![Vec::new(); count + 1];
    open[0].push(0);
    for from in 0..count {
        let segments = segments(known, scope, from);
        for at in std::mem::take(&mut open[from]) {
            for segment in &segments {
                // Two neighbours in one place are one.
                let is_next = segment.split.is_none() && lines[at].place == Some(segment.place);
                if is_next {
                    continue;
                }
                let before = lines[at].place.unwrap_or(Place::Here);
                let mut clock = lines[at].clock.after(&steps(known, flows, segment, before));
                let moved = clock.moved_bytes - lines[at].clock.moved_bytes;
                clock.done_s += moved * scope.byte_s;
                let line = Line {
                    clock,
                    place: Some(segment.place),
                    before: Some((at, segment.clone())),
                };
                add(&mut lines, &mut open[segment.end], line);
            }
        }
    }
    let better = |a: &usize, b: &usize| {
        let key = |at: usize| (lines[at].clock.total_s(), lines[at].clock.moved_bytes);
        let (a, b) = (key(*a), key(*b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    };
    let mut found = open[count].iter().copied().min_by(better);
    let mut segments = Vec::new();
    while let Some((before, segment)) = found.and_then(|at| lines[at].before.as_ref()) {
        segments.push(segment.clone());
        found = Some(*before);
    }
    segments.reverse();
    segments
}

/// Puts a line to those that have come as far, unless one of them is no worse; those that it is no worse than are dropped.
fn add(lines: &mut Vec<Line>, open: &mut Vec<usize>, line: Line) {
    let no_worse = |a: &Line, b: &Line| {
        let (x, y) = (a.clock, b.clock);
        a.place == b.place
            && x.done_s <= y.done_s
            && x.total_s() <= y.total_s()
            && (x.moved_bytes <= y.moved_bytes || x.done_s < y.done_s && x.total_s() < y.total_s())
    };
    if open.iter().any(|&at| no_worse(&lines[at], &line)) {
        return;
    }
    open.retain(|&at| !no_worse(&line, &lines[at]));
    open.push(lines.len());
    lines.push(line);
}

/// All segments that begin with a stage.
pub(super) fn segments(known: &Known<'_, '_>, scope: &Scope<'_>, from: usize) -> Vec<Segment> {
    let count = known.facts.stages.len();
    let mut all: Vec<Segment> = (from + 1..=count)
        .map(|end| Segment {
            from,
            end,
            place: Place::Here,
            split: None,
            jobs: 1,
        })
        .collect();
    for &host in scope.hosts {
        for end in from + 1..=count {
            if known.refusal(end - 1, host).is_some() {
                break;
            }
            if end - 1 > from && !connected(known, end - 1) || !known.has_giver(from, end - 1) {
                break;
            }
            // Where none of its data are, nothing is gained.
            if !known.concerns(from..end, host) {
                continue;
            }
            let shared = if scope.lanes {
                shared(known, from, host)
            } else {
                None
            };
            for jobs in std::iter::once(1).chain(shared) {
                all.push(Segment {
                    from,
                    end,
                    place: Place::Host(host),
                    split: None,
                    jobs,
                });
            }
        }
    }
    if !scope.lanes {
        return all;
    }
    for split in &scope.splits[from] {
        let used = |lane: &super::Lane| scope.hosts.contains(&known.home(lane.host));
        if !split.lanes.iter().all(used) {
            continue;
        }
        all.push(Segment {
            from,
            end: split.end,
            place: Place::Here,
            split: Some(split.clone()),
            jobs: 1,
        });
        let meets = meeting_places(known, split);
        for &host in scope.hosts {
            if !meets.contains(&host) && !known.concerns(split.end..count, host) {
                continue;
            }
            // The command that merges is that of the stage.
            if known.refusal_with(split.end - 1, host, &[]).is_some() {
                continue;
            }
            for end in split.end..=count {
                // Files of lanes are not all in one place.
                if end > split.end
                    && (known.refusal(end - 1, host).is_some()
                        || !connected(known, end - 1)
                        || !known.has_giver(count, end - 1))
                {
                    break;
                }
                // What may have to be run again leaves nothing behind.
                if split.is_doubtful && end > split.end && !known.is_pure(end - 1) {
                    break;
                }
                all.push(Segment {
                    from,
                    end,
                    place: Place::Host(host),
                    split: Some(split.clone()),
                    jobs: 1,
                });
            }
        }
    }
    all
}

/// Whether a stage reads what the one before prints: otherwise they have nothing to do with each other, and no group has both.
pub(super) fn connected(known: &Known<'_, '_>, k: usize) -> bool {
    known.facts.stages[k].stdin == super::Stdin::Stage
        && known.call(k).is_some_and(|call| call.stdin)
}

/// The hosts of lanes at which their outputs may come together: of many, the one with the most to give.
fn meeting_places(known: &Known<'_, '_>, split: &Split) -> Vec<usize> {
    let mut shares: Vec<(usize, f64)> = Vec::new();
    for lane in &split.lanes {
        let home = known.home(lane.host);
        match shares.iter_mut().find(|(host, _)| *host == home) {
            Some((_, share)) => *share += lane.share,
            None => shares.push((home, lane.share)),
        }
    }
    if shares.len() > MEETING_MAX {
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares.truncate(1);
    }
    shares.into_iter().map(|(host, _)| host).collect()
}
