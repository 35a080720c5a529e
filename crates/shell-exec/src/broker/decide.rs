//! Which of a chain's stages run elsewhere, and as what.

use std::ops::Range;

use crate::wire::{Place, Sink, Source, StageCall, Stdio};

/// Consecutive stages that are to run on one host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Away {
    /// Which.
    pub stages: Range<usize>,
    /// Where.
    pub host: String,
}

/// The stages that can run elsewhere: for each host the longest run of stages that begins where its files are read.
pub fn away(chain: &[StageCall]) -> Vec<Away> {
    let mut found: Vec<Away> = Vec::new();
    let mut first = 0;
    while first < chain.len() {
        let host = begins(chain, first);
        let Some(host) = host else {
            first += 1;
            continue;
        };
        let mut end = first + 1;
        while end < chain.len() && follows(&chain[end], &host) {
            end += 1;
        }
        found.push(Away {
            stages: first..end,
            host,
        });
        first = end;
    }
    found
}

/// The host on which a group may begin with this stage.
fn begins(chain: &[StageCall], index: usize) -> Option<String> {
    let call = &chain[index];
    let place = call.place.as_ref().ok()?;
    let of_stdin = match &call.stdio[0] {
        Stdio::There { host, .. } if place.reads_stdin => Some(host.clone()),
        Stdio::There { .. } | Stdio::Null => None,
        _ if !place.reads_stdin => None,
        // What runs here feeds it: all of that must be read, for what is left over could not be given back.
        Stdio::Pipe(_) if !place.is_early && place.host.is_some() => None,
        _ => return None,
    };
    match (place.host.clone(), of_stdin) {
        (Some(host), Some(other)) if host != other => None,
        (Some(host), _) | (None, Some(host)) => Some(host),
        (None, None) => None,
    }
}

/// Whether a stage may run behind others of the host's.
fn follows(call: &StageCall, host: &str) -> bool {
    call.place
        .as_ref()
        .is_ok_and(|place| place.reads_stdin && place.host.as_deref().is_none_or(|own| own == host))
}

/// Where a stage of a group reads and writes there.
pub fn ends(
    chain: &[StageCall],
    away: &Away,
    index: usize,
    number: &mut impl FnMut() -> u32,
) -> (Source, Sink) {
    let call = &chain[index];
    let reads = call.place.as_ref().is_ok_and(|place| place.reads_stdin);
    let source = if index > away.stages.start {
        Source::Previous
    } else {
        match &call.stdio[0] {
            _ if !reads => Source::Null,
            Stdio::There { host, path, at, .. } if *host == away.host => Source::File {
                path: path.clone(),
                from: *at,
            },
            Stdio::Null => Source::Null,
            _ => Source::Stream(number()),
        }
    };
    let sink = if index + 1 < away.stages.end {
        Sink::Next
    } else {
        match &call.stdio[1] {
            Stdio::There {
                host,
                path,
                at,
                append,
                ..
            } if *host == away.host => Sink::File {
                path: path.clone(),
                at: (!append).then_some(*at),
            },
            Stdio::Null => Sink::Null,
            _ => Sink::Stream(number()),
        }
    };
    (source, sink)
}

/// Whether all of a group gives the same again: nothing in it does anything besides reading, and what it reads is there again.
pub fn can_be_repeated(places: &[&Place], first: &Source, last: &Sink) -> bool {
    places.iter().all(|place| place.is_pure)
        && !matches!(first, Source::Stream(_))
        && !matches!(last, Sink::File { .. })
}
