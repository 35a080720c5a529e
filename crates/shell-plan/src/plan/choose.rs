//! From facts to a plan: what is best in the model is taken if it is better than everything here by more than the model is sure of, and
//! said with its reasons.
//!
//! What the guesses' worst is is said in `volume.rs`: a filter lets everything pass, or half if it looks for a text of some length.
//!
//! Invariant: a plan with groups is expected to be at least 5 % faster than none (or no slower, at a quarter of the bytes; a third, if it moves more), and
//! not 5 % slower should its guesses be at their worst.

use super::commands::name;
use super::cost::{Segment, evaluate, is_here, names, output_of};
use super::explain::{bytes, seconds};
use super::givers::{Giver, depth, giver};
use super::rules::Known;
use super::search::{Scope, connected, search, segments};
use super::split::{moved, splits, tree};
use super::volume::{Flow, Guess, entries, flows, label};
use super::{
    Alternative, Combiner, Combining, Cost, Facts, Group, Lane, Listed, Moved, Part, Place, Plan,
    Reason, Stdin, Stdout,
};
use crate::annotation::{Effect, Kind};

/// A plan must be expected to take less than this part of what everything here takes.
const GAIN: f64 = 0.95;
/// And may take this much of it at worst.
const LOSS: f64 = 1.05;
/// Differences below this are not worth the change.
const GAIN_S_MIN: f64 = 0.001;
/// Or, if it takes this long at least, no longer than this part and moves hardly any of the bytes: the model is not that exact, and the link
/// is there for others, too.
const RELIEF_S_MIN: f64 = 2.0;
const RELIEF_TIME: f64 = 1.005;
const RELIEF_BYTES: f64 = 0.25;
/// One that moves more than this many times as much must take less than this part: what is computed for many bytes depends on who else computes.
const BULK_BYTES: f64 = 1.2;
const BULK_GAIN: f64 = 0.67;
/// Of guesses how much commands print, so many are at their worst: a plan that loses little then is better than one that gains a little otherwise.
const WORST: f64 = 0.2;
/// Of plans that take about as long as the best, one that moves half of its bytes is taken.
const ABOUT: f64 = 1.05;
/// And one that spares this much and three of four bytes, unless the best takes less than [`BULK_GAIN`] of its time: which of two hosts is less busy may be
/// another one in a second, and which of two files is larger is not.
const SPARED_BYTES: f64 = 64e6;
/// What a byte over a link is taken to cost besides, in looking for plans that spare links: as if they had 100 MB/s.
const BYTE_S: f64 = 1e-8;
/// With more hosts than this it is not looked at what one alone could do.
const ALONE_MAX: usize = 5;
/// For less than this no connection is made.
const TINY_BYTES: f64 = 1e6;
const TINY_ENTRIES: f64 = 50.0;

/// What was thought of: in words, as segments, its cost, why it is not taken, and how long it is expected to take.
type Judged = (String, Vec<Segment>, Cost, Option<String>, f64);

/// Where the stages of a pipeline should run.
pub fn plan(facts: &Facts<'_>) -> Plan {
    let known = Known::new(facts);
    let likely = flows(facts, &known.readings, Guess::Likely);
    let worst = flows(facts, &known.readings, Guess::Worst);
    let count = facts.stages.len();
    let here = vec![Segment {
        from: 0,
        end: count,
        place: Place::Here,
        split: None,
        jobs: 1,
    }];
    if count == 0 {
        return made(&known, &likely, &[], Cost::default(), Vec::new());
    }
    let here_cost = evaluate(&known, &likely, &here);
    let here_worst = evaluate(&known, &worst, &here);
    let hosts: Vec<usize> = (0..facts.hosts.len())
        .filter(|&host| known.concerns(0..count, host))
        .collect();
    let mut thought_of: Vec<Vec<Segment>> = Vec::new();
    let mut impossible = Vec::new();
    let splits: Vec<_> = (0..count).map(|k| splits(&known, k)).collect();
    if facts.eager {
        let scope = Scope {
            splits: &splits,
            hosts: &hosts,
            lanes: true,
            byte_s: 0.0,
        };
        let chosen = eager(&known, &scope);
        return made(&known, &likely, &chosen, here_cost, Vec::new());
    }
    let mut try_out = |hosts: &[usize], lanes: bool, byte_s: f64, by: &[Flow]| {
        let scope = Scope {
            splits: &splits,
            hosts,
            lanes,
            byte_s,
        };
        let found = search(&known, by, &scope);
        if !found.iter().all(is_here) && !thought_of.contains(&found) {
            thought_of.push(found);
        }
    };
    try_out(&hosts, true, 0.0, &likely);
    try_out(&hosts, true, BYTE_S, &likely);
    try_out(&hosts, false, BYTE_S, &likely);
    try_out(&hosts, true, BYTE_S, &worst);
    if (2..=ALONE_MAX).contains(&hosts.len()) {
        for &host in &hosts {
            try_out(&[host], true, BYTE_S, &likely);
        }
    }
    // Of many hosts none has all the files anyway.
    for &host in hosts.iter().filter(|_| hosts.len() <= 2) {
        if let Some(why) = wholly(&known, host) {
            impossible.push(Alternative {
                what: format!("all on {}", facts.hosts[host].name),
                cost: None,
                why,
            });
        }
    }
    // What is not worth it is told, too.
    for &host in hosts.iter().filter(|_| hosts.len() <= 2) {
        let forced = forced(&known, host);
        if !forced.iter().all(is_here) && !thought_of.contains(&forced) {
            thought_of.push(forced);
        }
    }
    let mut judged: Vec<Judged> = thought_of
        .into_iter()
        .map(|segments| {
            let cost = evaluate(&known, &likely, &segments);
            let at_worst = evaluate(&known, &worst, &segments);
            let objection = objection(
                &known,
                &likely,
                &segments,
                (cost, here_cost),
                (at_worst, here_worst),
            );
            let expected_s = (1.0 - WORST) * cost.seconds + WORST * at_worst.seconds;
            let what = describe(&known, &segments);
            (what, segments, cost, objection, expected_s)
        })
        .collect();
    judged.sort_by(|a, b| a.4.total_cmp(&b.4));
    let best_s = judged.iter().find(|row| row.3.is_none());
    let best_s = best_s.map_or(0.0, |row| row.4);
    let mut taken: Option<usize> = None;
    for (number, (_, _, cost, objection, expected_s)) in judged.iter().enumerate() {
        if objection.is_some() {
            continue;
        }
        let Some(other) = taken else {
            taken = Some(number);
            continue;
        };
        let (moves, others) = (cost.moved_bytes, judged[other].2.moved_bytes);
        let spares_much = moves < 0.25 * others && others - moves > SPARED_BYTES;
        let most_s = if spares_much {
            best_s / BULK_GAIN
        } else {
            best_s * ABOUT
        };
        if moves < 0.5 * others && *expected_s <= most_s {
            taken = Some(number);
        }
    }
    let taken_cost = taken.map(|at| judged[at].2);
    let chosen = taken.map_or(here.clone(), |at| judged[at].1.clone());
    let mut rejected = Vec::new();
    for (number, (what, _, cost, objection, _)) in judged.into_iter().enumerate() {
        if Some(number) != taken
            && !rejected
                .iter()
                .any(|other: &Alternative| other.what == what)
        {
            rejected.push(Alternative {
                what,
                cost: Some(cost),
                why: objection.unwrap_or_else(|| {
                    let slower = taken_cost.is_some_and(|taken| cost.seconds > taken.seconds);
                    let moves = taken_cost.is_some_and(|of| cost.moved_bytes > of.moved_bytes);
                    match (slower, moves) {
                        (true, _) => "slower",
                        (false, true) => "moves more",
                        (false, false) => "slower if less is filtered than expected",
                    }
                    .to_owned()
                }),
            });
        }
    }
    if let Some(taken) = taken_cost {
        let as_fast = here_cost.seconds < taken.seconds * ABOUT;
        rejected.push(Alternative {
            what: "all here".to_owned(),
            cost: Some(here_cost),
            why: if as_fast { "moves more" } else { "slower" }.to_owned(),
        });
    }
    rejected.extend(impossible);
    made(&known, &likely, &chosen, here_cost, rejected)
}

/// As many stages elsewhere as may be, and those in as many lanes as there can be.
fn eager(known: &Known<'_, '_>, scope: &Scope<'_>) -> Vec<Segment> {
    let count = known.facts.stages.len();
    let mut chosen: Vec<Segment> = Vec::new();
    let mut from = 0;
    while from < count {
        let lanes = |segment: &Segment| segment.split.as_ref().map_or(1, |s| s.lanes.len());
        let best = (segments(known, scope, from).into_iter())
            .filter(|segment| !is_here(segment))
            .max_by_key(|segment| (segment.end, lanes(segment), segment.jobs));
        match (best, chosen.last_mut()) {
            (Some(best), _) => {
                from = best.end;
                chosen.push(best);
                continue;
            }
            (None, Some(last)) if is_here(last) => last.end += 1,
            (None, _) => chosen.push(Segment {
                from,
                end: from + 1,
                place: Place::Here,
                split: None,
                jobs: 1,
            }),
        }
        from += 1;
    }
    chosen
}

/// The first stages that may run on a host, as many as there are, and the others here.
fn forced(known: &Known<'_, '_>, host: usize) -> Vec<Segment> {
    let count = known.facts.stages.len();
    let may = |k: usize| known.refusal(k, host).is_none();
    let Some(from) = (0..count).find(|&k| may(k) && known.concerns(k..k + 1, host)) else {
        return Vec::new();
    };
    let goes_on = |k: &usize| may(*k) && connected(known, *k) && known.has_giver(from, *k);
    let end = from + 1 + (from + 1..count).take_while(goes_on).count();
    let parts = [
        (0, from, Place::Here),
        (from, end, Place::Host(host)),
        (end, count, Place::Here),
    ];
    let parts = parts.into_iter().filter(|(from, end, _)| from < end);
    parts
        .map(|(from, end, place)| Segment {
            from,
            end,
            place,
            split: None,
            jobs: 1,
        })
        .collect()
}

/// Why not all stages may run on a host.
fn wholly(known: &Known<'_, '_>, host: usize) -> Option<String> {
    (0..known.facts.stages.len()).find_map(|k| {
        let why = known.refusal(k, host)?;
        Some(format!("{}: {why}", name(&known.facts.stages[k])))
    })
}

/// Why a line of segments is not taken, if it is not.
fn objection(
    known: &Known<'_, '_>,
    flows: &[Flow],
    segments: &[Segment],
    (cost, here): (Cost, Cost),
    (at_worst, here_at_worst): (Cost, Cost),
) -> Option<String> {
    let hosts = segments.iter().flat_map(used);
    let disconnected = hosts.filter(|&host| !known.facts.hosts[host].connected);
    let stages = known.facts.stages.iter();
    let entries: f64 = stages.map(entries).sum();
    let input: f64 = flows
        .iter()
        .map(|flow| flow.input - flow.stdin)
        .sum::<f64>()
        + flows.first().map_or(0.0, |flow| flow.stdin);
    if disconnected.count() > 0 && input < TINY_BYTES && entries < TINY_ENTRIES {
        return Some("too little to make a connection for".to_owned());
    }
    let relieves = here.seconds >= RELIEF_S_MIN
        && cost.seconds <= here.seconds * RELIEF_TIME
        && cost.moved_bytes <= here.moved_bytes * RELIEF_BYTES;
    let hardly = cost.seconds > here.seconds * GAIN || here.seconds - cost.seconds < GAIN_S_MIN;
    if hardly && !relieves {
        let verb = if cost.seconds > here.seconds {
            "slower than"
        } else {
            "hardly faster than"
        };
        return Some(format!("{verb} all here"));
    }
    let is_bulk = cost.moved_bytes > here.moved_bytes * BULK_BYTES;
    if is_bulk && cost.seconds > here.seconds * BULK_GAIN {
        return Some("it moves more than all here, for little".to_owned());
    }
    if at_worst.seconds > here_at_worst.seconds * LOSS {
        return Some(format!(
            "it may be slower than all here: {} against {} if nothing is filtered",
            seconds(at_worst.seconds),
            seconds(here_at_worst.seconds)
        ));
    }
    None
}

/// The hosts that a segment uses.
fn used(segment: &Segment) -> Vec<usize> {
    let mut hosts: Vec<usize> = segment
        .split
        .iter()
        .flat_map(|split| split.lanes.iter().map(|lane| lane.host))
        .collect();
    if let Place::Host(host) = segment.place {
        hosts.push(host);
    }
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// A line of segments in a few words.
fn describe(known: &Known<'_, '_>, segments: &[Segment]) -> String {
    let place = |place: Place| match place {
        Place::Here => "here".to_owned(),
        Place::Host(host) => known.facts.hosts[host].name.clone(),
    };
    let parts: Vec<String> = segments
        .iter()
        .filter(|segment| !is_here(segment))
        .map(|segment| match &segment.split {
            None => format!("{} on {}", names(known, segment), place(segment.place)),
            Some(split) => {
                let lanes = Segment {
                    end: split.end,
                    ..segment.clone()
                };
                let hosts: Vec<String> = used(&Segment {
                    place: Place::Here,
                    ..segment.clone()
                })
                .into_iter()
                .map(|host| place(Place::Host(host)))
                .collect();
                let lanes = format!(
                    "{} in {} lanes on {}",
                    names(known, &lanes),
                    split.lanes.len(),
                    hosts.join(", ")
                );
                if split.end < segment.end {
                    let rest = Segment {
                        from: split.end,
                        ..segment.clone()
                    };
                    format!(
                        "{lanes}, {} on {}",
                        names(known, &rest),
                        place(segment.place)
                    )
                } else {
                    lanes
                }
            }
        })
        .collect();
    parts.join("; ")
}

/// The plan that a line of segments is.
fn made(
    known: &Known<'_, '_>,
    flows: &[Flow],
    segments: &[Segment],
    here: Cost,
    rejected: Vec<Alternative>,
) -> Plan {
    let groups: Vec<Group> = segments
        .iter()
        .filter(|segment| !is_here(segment))
        .map(|segment| group(known, flows, segment))
        .collect();
    let stages = (0..known.facts.stages.len()).map(|k| reason(known, flows, &groups, k));
    Plan {
        stages: stages.collect(),
        cost: evaluate(known, flows, segments),
        here,
        rejected,
        groups,
    }
}

fn group(known: &Known<'_, '_>, flows: &[Flow], segment: &Segment) -> Group {
    let facts = known.facts;
    let Segment {
        from, end, place, ..
    } = *segment;
    let (lanes, lanes_end, combine, statuses) = match &segment.split {
        Some(split) => {
            let last = flows[split.end - 1];
            let lanes = split.lanes.iter().map(|lane| Lane {
                output_bytes: output_of(last.few, last.output, lane.share),
                ..lane.clone()
            });
            let combining = Combining {
                combiner: split.combiner.clone(),
                tree: tree(split, place),
            };
            (
                lanes.collect(),
                split.end,
                Some(combining),
                split.statuses.clone(),
            )
        }
        None => {
            let Place::Host(host) = place else {
                unreachable!("a segment here is no group")
            };
            let at = known.call(from).map_or(0, |call| call.at);
            let lane = Lane {
                host,
                part: Part::All,
                words: told(&facts.stages[from].words, at, segment.jobs),
                moved: whole_moved(known, segment),
                share: 1.0,
                output_bytes: flows[end - 1].output,
            };
            let statuses = (from..end).map(|k| {
                known
                    .call(k)
                    .map_or_else(Default::default, |call| call.of.status)
            });
            (vec![lane], end, None, statuses.collect())
        }
    };
    let again = |k: usize| {
        known.call(k).is_some_and(|call| {
            let updates = call.files.iter().any(|file| file.kind == Kind::Update);
            call.of.effect == Effect::Pure || call.of.effect == Effect::Idempotent && !updates
        })
    };
    let first = &facts.stages[from];
    let reads_stdin = known.call(from).is_some_and(|call| call.stdin);
    let from_files = !reads_stdin || matches!(first.stdin, Stdin::File { .. });
    let split = segment.split.as_ref();
    let is_doubtful = split.is_some_and(|split| split.is_doubtful);
    let writes_there = match &facts.stages[end - 1].stdout {
        Stdout::File(file) => file.at == place && place != Place::Here && !is_doubtful,
        _ => false,
    };
    Group {
        stages: from..end,
        lanes,
        lanes_end,
        combine,
        place,
        moved: (lanes_end..end)
            .flat_map(|k| moved(known, k, place, &|_| false))
            .collect(),
        statuses,
        listed: (from..end)
            .filter_map(|stage| {
                let Giver { stage: by, plain } = giver(facts, stage)?.ok()?;
                let goes_below = known.call(stage)?.goes_below;
                Some(Listed {
                    stage,
                    by,
                    plain,
                    depth: depth(known.call(by)?, &facts.stages[by].words).filter(|_| !goes_below),
                })
            })
            .collect(),
        repeatable: from_files && (from..end).all(again),
        line_ends: split.is_some_and(|split| split.line_ends),
        lines_looked_at: split.is_some_and(|split| split.lines_looked_at),
        is_doubtful,
        writes_there,
        output_bytes: flows[end - 1].output,
    }
}

/// The files that stages in one place read from elsewhere.
fn whole_moved(known: &Known<'_, '_>, segment: &Segment) -> Vec<Moved> {
    let stages = segment.from..segment.end;
    let list = stages.flat_map(|k| moved(known, k, segment.place, &|_| false));
    let mut list: Vec<Moved> = list.collect();
    // `-j` and its number stand before the words of the first.
    for moved in (list.iter_mut()).filter(|moved| segment.jobs > 1 && moved.stage == segment.from) {
        moved.file = moved.file.map(|(word, from)| (word + 2, from));
    }
    list
}

/// The words of a command that shares its files among so many processes.
fn told(words: &[Vec<u8>], at: usize, jobs: usize) -> Vec<Vec<u8>> {
    let mut words = words.to_vec();
    if jobs > 1 {
        words.splice(
            at + 1..at + 1,
            [b"-j".to_vec(), jobs.to_string().into_bytes()],
        );
    }
    words
}

/// Why a stage runs where it does.
fn reason(known: &Known<'_, '_>, flows: &[Flow], groups: &[Group], k: usize) -> Reason {
    let facts = known.facts;
    let stage = &facts.stages[k];
    let group = groups.iter().find(|group| group.stages.contains(&k));
    let host_name = |place: Place| match place {
        Place::Here => "here".to_owned(),
        Place::Host(host) => facts.hosts[host].name.clone(),
    };
    let (at, why) = match group {
        None => {
            let mut refusals = (0..facts.hosts.len())
                .filter(|&host| known.concerns(0..facts.stages.len(), host))
                .map(|host| known.refusal(k, host));
            let first = refusals.next();
            let why = match (first, known.stays_anywhere(k)) {
                (_, Some(why)) => why,
                (None, _) => "nothing that it works on is elsewhere".to_owned(),
                (Some(Some(why)), _) if refusals.all(|other| other.is_some()) => why.to_owned(),
                (Some(_), _) => "it is not expected to be faster elsewhere".to_owned(),
            };
            (vec![Place::Here], why)
        }
        Some(group) => {
            let in_lanes = k < group.lanes_end;
            let mut at: Vec<Place> = if in_lanes {
                group
                    .lanes
                    .iter()
                    .map(|lane| Place::Host(lane.host))
                    .collect()
            } else {
                vec![group.place]
            };
            at.dedup();
            at.sort_unstable();
            at.dedup();
            let own: f64 = flows[k].input - flows[k].stdin;
            let why = if in_lanes && group.lanes.len() > 1 {
                let parts = group.lanes.len();
                let what = if k == group.stages.start {
                    format!(
                        "in {parts} parts of {}",
                        bytes(flows[k].input / parts as f64)
                    )
                } else {
                    format!("in {parts} lanes, behind the stage before")
                };
                if k + 1 == group.lanes_end {
                    format!("{what}; {}", together(group))
                } else {
                    what
                }
            } else if k == group.stages.start && group.lanes[0].words.len() > stage.words.len() {
                format!(
                    "its {} are there, and it shares them among processes",
                    bytes(own)
                )
            } else if k == group.stages.start && own > 0.0 {
                format!("the {} that it reads are there", bytes(own))
            } else if k == group.stages.start && flows[k].stdin > 0.0 {
                format!(
                    "the {} on its standard input are {}",
                    bytes(flows[k].stdin),
                    if matches!(&stage.stdin, Stdin::File { file, .. } if file.at == at[0]) {
                        "there"
                    } else {
                        "fewer there than what it prints"
                    }
                )
            } else if k == group.stages.start {
                "what it works on is there".to_owned()
            } else if group.listed.iter().any(|listed| listed.stage == k) {
                let bytes = bytes(flows[k].input - flows[k].stdin);
                format!("the {bytes} that it is told of are there")
            } else {
                "what it reads is made there".to_owned()
            };
            (at, why)
        }
    };
    let moved = group.into_iter().flat_map(|group| {
        group
            .lanes
            .iter()
            .flat_map(|lane| &lane.moved)
            .chain(&group.moved)
    });
    let mut list: Vec<String> = Vec::new();
    for moved in moved.filter(|moved| moved.stage == k) {
        let way = match (moved.from, moved.direct) {
            (Place::Here, _) => String::new(),
            (_, true) => ", host to host".to_owned(),
            (_, false) => ", through here".to_owned(),
        };
        let text = format!(
            "{} from {} go to {}{way}",
            bytes(moved.bytes as f64),
            host_name(moved.from),
            host_name(moved.to)
        );
        if !list.contains(&text) {
            list.push(text);
        }
    }
    let why = std::iter::once(why)
        .chain(list)
        .collect::<Vec<_>>()
        .join("; ");
    Reason {
        at,
        why,
        input_bytes: flows[k].input,
        output_bytes: flows[k].output,
    }
}

/// How a group's outputs are put together, in words.
fn together(group: &Group) -> &'static str {
    match group.combine.as_ref().map(|combining| &combining.combiner) {
        None | Some(Combiner::Concat | Combiner::Text | Combiner::Lines) => {
            "what they print is put one behind the other"
        }
        Some(Combiner::Sum { .. } | Combiner::Sums { .. }) => "their numbers are added",
        Some(Combiner::Merge(_)) => "what they print is merged",
        Some(Combiner::Uniq) => "equal lines at the seams are made one",
        Some(Combiner::UniqCount) => "counts of equal lines at the seams are added",
        Some(Combiner::Again(_)) => "the same command goes over what they print",
        Some(Combiner::First) => "the first that prints counts",
        Some(Combiner::Counts { .. }) => "counts of equal keys are added",
    }
}

/// What a pipeline is called.
pub(super) fn pipeline(facts: &Facts<'_>) -> String {
    facts
        .stages
        .iter()
        .map(label)
        .collect::<Vec<_>>()
        .join(" | ")
}
