//! The search finds what trying everything finds.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::super::cost::{Segment, evaluate};
use super::super::rules::Known;
use super::super::volume::{Guess, flows};
use super::super::*;
use super::{Scope, search};
use crate::annotation::Annotation;

const X: &str = "names = ['cat']\n[[use]]\nname = 'x'\noperands = ['input*']\neffect = 'pure'\nvolume = 'less'\n";
const SORT: &str =
    "names = ['sort']\n[[use]]\nname = 'sort'\noperands = ['input*']\neffect = 'pure'\n";

/// All ways to give each stage a place: neighbours in one place are one segment.
fn everything(known: &Known<'_, '_>, count: usize, hosts: usize) -> Vec<Vec<Segment>> {
    let places: Vec<Place> = std::iter::once(Place::Here)
        .chain((0..hosts).map(Place::Host))
        .collect();
    let total = places.len().pow(count as u32);
    (0..total)
        .filter_map(|number| {
            let mut rest = number;
            let mut segments: Vec<Segment> = Vec::new();
            for k in 0..count {
                let place = places[rest % places.len()];
                rest /= places.len();
                if let Place::Host(host) = place
                    && known.refusal(k, host).is_some()
                {
                    return None;
                }
                match segments.last_mut().filter(|last| last.place == place) {
                    Some(last) => last.end = k + 1,
                    None => segments.push(Segment {
                        from: k,
                        end: k + 1,
                        place,
                        split: None,
                        jobs: 1,
                    }),
                }
            }
            // Stages at a place with nothing of theirs are not thought of.
            let has_data = |segment: &Segment| match segment.place {
                Place::Here => true,
                Place::Host(host) => known.concerns(segment.from..segment.end, host),
            };
            segments.iter().all(has_data).then_some(segments)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(62), ..ProptestConfig::default() })]

    #[test]
    fn the_best_is_found(
        kinds in prop::collection::vec((0..2_usize, 0..3_usize, 3.0..10.0_f64), 1..6),
        links in prop::collection::vec((5.0..10.0_f64, 5.0..10.0_f64, 0.0..0.2_f64), 2),
        price in 0..2_usize,
    ) {
        let annotations = [Annotation::read(X).unwrap(), Annotation::read(SORT).unwrap()];
        let words: Vec<Vec<Vec<u8>>> = kinds.iter().enumerate().map(|(k, (kind, ..))| {
            let name = [&b"cat"[..], b"sort"][*kind].to_vec();
            if k == 0 { vec![name, b"file".to_vec()] } else { vec![name, b"-".to_vec(), b"file".to_vec()] }
        }).collect();
        let stages = kinds.iter().zip(&words).enumerate().map(|(k, ((kind, at, size), words))| {
            let file = Named {
                at: if *at == 0 { Place::Here } else { Place::Host(at - 1) },
                kind: FileKind::Regular,
                size_bytes: 10_f64.powf(*size) as u64,
                ..Named::default()
            };
            Stage {
                words: words.clone(),
                call: Ok(annotations[*kind].call(words, false).unwrap()),
                environment: Vec::new(),
                files: vec![file],
                programs: Vec::new(),
                folder: Named::default(),
                stdin: if k == 0 { Stdin::Other { bytes: Some(0) } } else { Stdin::Stage },
                stdout: if k + 1 < kinds.len() { Stdout::Stage } else { Stdout::Other },
                is_merged: false,
                there: vec![There::Same; 2],
            }
        });
        let hosts = links.iter().map(|(down, up, round_trip_s)| Host {
            name: "h".to_owned(),
            connected: true,
            connect_s: 0.0,
            round_trip_s: *round_trip_s,
            down: 10_f64.powf(*down),
            up: 10_f64.powf(*up),
            idle_cores: 4.0,
            disk: 1e9,
            mount: Mount { read: 10_f64.powf(*down), write: 1e7, open_s: *round_trip_s, entry_s: 0.0, differs: Vec::new() },
            any_name: false,
            has_files_of: None,
        });
        let facts = Facts { stages: stages.collect(), hosts: hosts.collect(), idle_cores: 2.0, ..Facts::default() };
        let known = Known::new(&facts);
        let flows = flows(&facts, &known.readings, Guess::Likely);
        let byte_s = [0.0, 1e-8][price];
        let scope = Scope { splits: &[], hosts: &[0, 1], lanes: false, byte_s };
        let priced = |segments: &[Segment]| {
            let cost = evaluate(&known, &flows, segments);
            cost.seconds + cost.moved_bytes * byte_s
        };
        let found = priced(&search(&known, &flows, &scope));
        let best = everything(&known, kinds.len(), 2).iter().map(|line| priced(line)).fold(f64::INFINITY, f64::min);
        prop_assert!((found - best).abs() <= 1e-9 * best.max(1.0), "{found} instead of {best}");
    }
}
