//! What the planner is told: the stages of a chain as their helpers saw them, and what is known of the hosts.
//!
//! The invariant: nothing that is not known is made to look better than it is; a stage whose helper gave it no place has no call here.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use shell_plan::annotation::Annotation;
use shell_plan::plan::{
    Facts, FileKind, Host, Learned, Mount, Named, Part, Place, Plan, Stage, Stdin, Stdout, There,
};

use super::decide::Away;
use crate::annotations;
use crate::wire::{FileFact, HostState, Seen, StageCall, Stdio};

/// A link of which nothing is known: 20 ms and 600 Mb/s are those of two sites of one country.
const ROUND_TRIP_S: f64 = 0.02;
const DOWN: f64 = 75e6;
/// How many round trips a connection takes: TCP, ssh's exchange of versions and keys, the user, the channel, and the hello.
const CONNECT_TRIPS: f64 = 8.0;
/// And what the two machines compute for that.
const CONNECT_S: f64 = 0.15;
/// What disks give at least nowadays.
const DISK: f64 = 500e6;
/// Of what a link carries, how much a mount gives at best.
const MOUNT_SHARE: f64 = 0.8;
/// How much of a file is asked for ahead: Linux reads 128 KiB ahead of a mount's reader, and asks for the next when it has reached the half. (Measured: sshfs
/// over 20 ms and 600 Mb/s reads 11.7 MB/s.)
const AHEAD: f64 = 262_144.0;

/// The annotations of a chain's commands, which the facts refer to.
pub fn annotations(chain: &[StageCall]) -> Vec<Option<Annotation>> {
    chain
        .iter()
        .map(|call| {
            let name = std::str::from_utf8(call.words.first()?).ok()?;
            annotations::of(name)
        })
        .collect()
}

/// What the planner is told.
pub fn facts<'a>(
    chain: &[StageCall],
    annotations: &'a [Option<Annotation>],
    known: &[HostState],
    learned: Learned,
) -> Facts<'a> {
    let place = |host: Option<&String>| {
        let at = host.and_then(|host| known.iter().position(|known| known.name == *host));
        at.map_or(Place::Here, Place::Host)
    };
    let stages = (chain.iter().zip(annotations).enumerate())
        .map(|(number, (call, annotation))| stage(chain, number, call, annotation, known, &place))
        .collect();
    let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    Facts {
        stages,
        hosts: known.iter().map(host).collect(),
        direct: Vec::new(),
        idle_cores: cores,
        link: None,
        learned,
    }
}

fn host(known: &HostState) -> Host {
    let round_trip_s = known.round_trip_s.unwrap_or(ROUND_TRIP_S);
    let down = known.down.unwrap_or(DOWN);
    Host {
        name: known.name.clone(),
        connected: known.is_open,
        connect_s: CONNECT_TRIPS * round_trip_s + CONNECT_S,
        round_trip_s,
        down,
        up: down,
        // One process for each stage: the agent cuts nothing yet.
        idle_cores: known.idle_cores.unwrap_or(1.0).min(1.0),
        disk: DISK,
        mount: Mount {
            read: (down * MOUNT_SHARE).min(AHEAD / round_trip_s),
            write: down * MOUNT_SHARE,
            open_s: 2.0 * round_trip_s,
            entry_s: round_trip_s / 20.0,
            // The helper has seen to what this mount shows.
            differs: Vec::new(),
        },
        any_name: true,
    }
}

fn stage<'a>(
    chain: &[StageCall],
    number: usize,
    call: &StageCall,
    annotation: &'a Option<Annotation>,
    known: &[HostState],
    place: &dyn Fn(Option<&String>) -> Place,
) -> Stage<'a> {
    let named = |fact: &FileFact| named(fact.seen, place(fact.host.as_ref()), Some(fact.identity));
    let there = |stdio: &Stdio| match stdio {
        Stdio::There { host, seen, .. } => Some(named_there(*seen, place(Some(host)))),
        _ => None,
    };
    let name = call.words.first().cloned().unwrap_or_default();
    let name = OsString::from_vec(name).to_string_lossy().into_owned();
    let meaning = match (&call.place, annotation) {
        (Ok(_), Some(annotation)) => {
            let strict = call
                .environment
                .iter()
                .any(|pair| pair.starts_with(b"POSIXLY_CORRECT="));
            let meaning = annotation.call(&call.words, strict);
            meaning.map_err(|misfit| misfit.to_string())
        }
        (Err(why), _) => Err(why.clone()),
        (_, None) => Err("there is no annotation of it".into()),
    };
    let of = call.place.as_ref().ok();
    let is_pipe = |stdio: &Stdio| matches!(stdio, Stdio::Pipe(_));
    let environment = call.environment.iter().filter_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        Some((pair[..equals].to_vec(), pair[equals + 1..].to_vec()))
    });
    Stage {
        words: call.words.clone(),
        call: meaning,
        environment: environment.collect(),
        files: of.map_or(Vec::new(), |of| of.files.iter().map(named).collect()),
        programs: of.map_or(Vec::new(), |of| {
            let one = |(text, file): &(Option<Vec<u8>>, Option<FileFact>)| {
                (text.clone(), file.as_ref().map(named))
            };
            of.programs.iter().map(one).collect()
        }),
        folder: Named {
            at: place(of.and_then(|of| of.folder_host.as_ref())),
            ..Named::default()
        },
        stdin: match &call.stdio[0] {
            stdio if is_pipe(stdio) && number > 0 => Stdin::Stage,
            stdio @ Stdio::There { at, .. } => match there(stdio) {
                Some(file) => Stdin::File { file, offset: *at },
                None => Stdin::Other { bytes: None },
            },
            Stdio::Terminal => Stdin::Terminal,
            Stdio::Null => Stdin::Other { bytes: Some(0) },
            _ => Stdin::Other { bytes: None },
        },
        stdout: match &call.stdio[1] {
            stdio if is_pipe(stdio) && number + 1 < chain.len() => Stdout::Stage,
            stdio @ Stdio::There { .. } => there(stdio).map_or(Stdout::Other, Stdout::File),
            Stdio::Terminal => Stdout::Terminal,
            _ => Stdout::Other,
        },
        // Names of files are the same there, and the order is kept.
        joined_errors: false,
        there: (known.iter())
            .map(|host| {
                if host.different.contains(&name) {
                    There::Different
                } else {
                    There::Same
                }
            })
            .collect(),
    }
}

fn named_there(seen: Seen, at: Place) -> Named {
    named(seen, at, None)
}

fn named(seen: Seen, at: Place, identity: Option<u64>) -> Named {
    Named {
        at,
        kind: match seen.kind {
            0 => FileKind::Absent,
            0o100_000 => FileKind::Regular,
            0o040_000 => FileKind::Folder,
            _ => FileKind::Other,
        },
        size_bytes: seen.size,
        entries: 0,
        same_name: true,
        ends_line: false,
        identity: identity.filter(|identity| *identity != 0),
    }
}

/// The groups of a plan that can be run: those with one lane, which has all of its input.
pub fn away(plan: &Plan, known: &[HostState]) -> Vec<Away> {
    let groups = plan.groups.iter().filter_map(|group| {
        let [lane] = group.lanes.as_slice() else {
            return None;
        };
        let is_simple = lane.part == Part::All
            && lane.moved.is_empty()
            && group.moved.is_empty()
            && group.place == Place::Host(lane.host);
        is_simple.then(|| Away {
            stages: group.stages.clone(),
            host: known[lane.host].name.clone(),
        })
    });
    groups.collect()
}
