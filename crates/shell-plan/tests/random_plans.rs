//! Plans of random pipelines in random worlds: what must hold of every plan.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::RngSeed;
use shell_plan::annotation::{Annotation, Effect};
use shell_plan::plan::{
    Combiner, Facts, Group, Host, Learned, Measured, Moved, Part, Place, Plan, Stdin, There, Tree,
    explain, plan, selectivity_key,
};

mod common;
#[path = "common/world.rs"]
mod world;

use common::annotations;
use world::{World, university};

const FIRST: [&str; 24] = [
    "cat FILE",
    "cat FILE FILE FILE",
    "grep x FILE FILE",
    "grep -c x FILE",
    "sort FILE",
    "sort FILE FILE",
    "awk '{ print $1 }' FILE",
    "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' FILE",
    "mogrify -flip FILE FILE",
    "comm FILE FILE",
    "join FILE FILE",
    "jq .a FILE",
    "sed s/a/b/ FILE FILE",
    "my-filter FILE",
    "grep -c FILE -f FILE",
    "grep FILE FILE -f FILE",
    "awk -f FILE FILE FILE",
    "pmawk -f FILE FILE",
    "sort FILE FILE --random-source FILE",
    "pmawk '{ s += $1 } END { print s }' FILE FILE",
    "grep -f FILE FILE",
    "find /h0/tree -name x",
    "tr a b < FILE",
    "md5sum FILE FILE",
];
const LATER: [&str; 14] = [
    "grep x",
    "sort",
    "sort -u",
    "uniq -c",
    "head -3",
    "wc -l",
    "cut -c1-3",
    "tr a b",
    "my-filter",
    "awk '{ print $1 > \"f\" }'",
    "comm - FILE",
    "sed 5q",
    "awk '{ n++ } END { print n }'",
    "cat -n",
];

fn host(numbers: &[f64], name: usize) -> Host {
    let mut host = university(&format!("h{name}"), 1.0 + numbers[0] * 7.0);
    host.connected = numbers[1] < 0.7;
    host.round_trip_s = 0.0001 + numbers[2] * 0.1;
    host.down = 1e6 * 1e4_f64.powf(numbers[3]);
    host.up = 1e6 * 1e4_f64.powf(numbers[4]);
    host.mount.read = host.down * (0.3 + numbers[5]);
    host.mount.open_s = numbers[6] * 0.1;
    host.mount.differs.truncate(usize::from(numbers[7] < 0.5));
    host
}

prop_compose! {
    fn cases()(
        hosts in prop::collection::vec(prop::collection::vec(0.0..1.0_f64, 8), 1..4),
        first in 0..FIRST.len(),
        later in prop::collection::vec(0..LATER.len(), 0..4),
        files in prop::collection::vec((0..4_usize, 0..2_usize), 12),
        sizes in prop::collection::vec(3.0..10.5_f64, 4),
        speeds in prop::collection::vec((-3.0..1.0_f64, 6.0..9.0_f64), 5),
        absent in 0..8_usize,
        redirect in 0..4_usize,
    ) -> (World, String, Vec<(f64, f64)>, usize) {
        let count = hosts.len();
        let mut world = World::of(hosts.iter().enumerate().map(|(n, numbers)| host(numbers, n)).collect());
        let names = ["/h0/", "/h1/", "/h2/", "/here/"];
        world.sizes = names.iter().zip(&sizes).map(|(name, size)| (*name, 10_f64.powf(*size) as u64)).collect();
        world.folders = vec![("/h0/tree", 3000)];
        let mut files = files.into_iter().cycle();
        let mut number = 0;
        let mut filled = |text: &str| {
            let mut text = text.to_owned();
            while text.contains("FILE") {
                let (host, kind) = files.next().unwrap();
                number += 1;
                let name = ["f", "unended"][kind];
                let folder = if host < count { format!("/h{host}") } else { "/here".to_owned() };
                text = text.replacen("FILE", &format!("{folder}/{name}{number}"), 1);
            }
            text
        };
        let mut texts = vec![filled(FIRST[first])];
        texts.extend(later.iter().map(|&which| filled(LATER[which])));
        let mut text = texts.join(" | ");
        if redirect == 0 {
            text.push_str(" > /h0/out");
        }
        (world, text, speeds, absent)
    }
}

/// Random measurements of each stage, and a command that one host has not.
fn taught(facts: &mut Facts<'_>, speeds: &[(f64, f64)], absent: usize) {
    let mut learned = Learned::default();
    for (stage, (selectivity, speed)) in facts.stages.iter().zip(speeds) {
        if let Ok(call) = &stage.call {
            let measured = Measured {
                selectivity: 10_f64.powf(*selectivity),
                speed: 10_f64.powf(*speed),
            };
            learned
                .commands
                .insert(selectivity_key(&stage.words, call), measured);
        }
    }
    // Half of the time nothing is known.
    if speeds[0].0 < -1.0 {
        facts.learned = learned;
    }
    if let Some(stage) = facts.stages.get_mut(absent) {
        stage.there[0] = There::Different;
    }
}

fn places(group: &Group) -> Vec<Place> {
    let lanes = group.lanes.iter().map(|lane| Place::Host(lane.host));
    lanes.chain([group.place]).collect()
}

fn leaves(tree: &Tree, found: &mut Vec<usize>) {
    match tree {
        Tree::Lane(lane) => found.push(*lane),
        Tree::At(_, inside) => inside.iter().for_each(|tree| leaves(tree, found)),
    }
}

/// What must hold of every plan.
fn check(facts: &Facts<'_>, plan: &Plan) {
    assert!(
        facts.eager || plan.cost.seconds <= plan.here.seconds * 1.005 + 1e-9,
        "it loses: {plan:?}"
    );
    assert_eq!(plan.stages.len(), facts.stages.len());
    let mut at = 0;
    for group in &plan.groups {
        assert!(group.stages.start >= at && group.stages.end > group.stages.start);
        at = group.stages.end;
        assert!(!group.lanes.is_empty() && group.lanes_end > group.stages.start);
        assert!(group.lanes_end <= group.stages.end);
        assert_eq!(group.statuses.len(), group.lanes_end - group.stages.start);
        let share: f64 = group.lanes.iter().map(|lane| lane.share).sum();
        assert!((share - 1.0).abs() < 1e-9);
        for k in group.stages.clone() {
            check_stage(facts, group, k);
        }
        check_lanes(facts, group);
        if let Some(combining) = &group.combine {
            let mut found = Vec::new();
            leaves(&combining.tree, &mut found);
            let ordered = !matches!(
                combining.combiner,
                Combiner::Sum { .. } | Combiner::Counts { .. }
            );
            if !ordered {
                found.sort_unstable();
            }
            assert_eq!(found, (0..group.lanes.len()).collect::<Vec<_>>());
            assert!(matches!(combining.tree, Tree::At(place, _) if place == group.place));
        }
    }
}

fn check_stage(facts: &Facts<'_>, group: &Group, k: usize) {
    let stage = &facts.stages[k];
    let call = stage
        .call
        .as_ref()
        .expect("a stage without a meaning stays here");
    let used = if k < group.lanes_end {
        &places(group)[..group.lanes.len()]
    } else {
        &[group.place][..]
    };
    for place in used {
        let Place::Host(host) = *place else {
            panic!("stage {k} runs here in a group");
        };
        assert_eq!(stage.there[host], There::Same);
    }
    assert!(
        !stage.words.iter().any(|word| word.ends_with(b"> \"f\" }")),
        "it writes a file"
    );
    assert!(k == group.stages.start || stage.stdin == Stdin::Stage && call.stdin);
    if group.lanes.len() > 1 && k < group.lanes_end {
        assert_eq!(call.of.effect, Effect::Pure, "a part of what must be whole");
        if k + 1 < group.lanes_end {
            assert!(!call.of.early || call.of.program.is_some() || stage.words[0] == b"grep");
        }
    }
    // Every file it reads is where it runs, or comes there.
    let programs = stage.programs.iter().zip(&call.programs);
    let programs = programs.filter_map(|((_, named), file)| Some((named.as_ref()?, file)));
    let files = stage.files.iter().zip(&call.files).chain(programs);
    for (number, (named, file)) in files.enumerate() {
        let lanes = group.lanes.iter().filter(|_| k < group.lanes_end);
        let moved = |list: &[Moved], to: Place, words: &[Vec<u8>]| {
            let own = &stage.words[file.word][file.from..];
            let names = |moved: &Moved| {
                moved
                    .file
                    .is_some_and(|(word, from)| words[word][from..] == *own)
            };
            let comes = |moved: &Moved| moved.stage == k && moved.to == to && names(moved);
            named.at == to || list.iter().any(comes)
        };
        for lane in lanes {
            let has = match &lane.part {
                Part::Operands(words) if k == group.stages.start && file.from == 0 => {
                    !words.contains(&file.word) || named.at == Place::Host(lane.host)
                }
                Part::Lines { file: Some(at), .. }
                    if k == group.stages.start && *at == (file.word, file.from) =>
                {
                    named.at == Place::Host(lane.host)
                }
                _ => {
                    let first = k == group.stages.start;
                    let words = if first { &lane.words } else { &stage.words };
                    moved(&lane.moved, Place::Host(lane.host), words)
                }
            };
            assert!(
                has,
                "stage {k}: file {number} is not on the lane's host: {lane:?}"
            );
        }
        if k >= group.lanes_end {
            assert!(
                moved(&group.moved, group.place, &stage.words),
                "stage {k}: file {number} is not there"
            );
        }
    }
}

/// Parts are the whole, in its order.
fn check_lanes(facts: &Facts<'_>, group: &Group) {
    let stage = &facts.stages[group.stages.start];
    let call = stage.call.as_ref().unwrap();
    if group.lanes.len() == 1 {
        assert_eq!(group.lanes[0].part, Part::All);
        let shares = group.lanes[0]
            .words
            .get(1)
            .is_some_and(|word| word == b"-j");
        let own = if shares { 3.. } else { 1.. };
        assert_eq!(group.lanes[0].words[own], stage.words[1..]);
        assert_eq!(Place::Host(group.lanes[0].host), group.place);
        return;
    }
    assert!(group.combine.is_some());
    let mut operands: Vec<usize> = Vec::new();
    let mut offset = Some(0);
    for lane in &group.lanes {
        match &lane.part {
            Part::All => panic!("two lanes with all of it"),
            Part::Operands(words) => operands.extend(words),
            Part::Lines { from, to, .. } => {
                assert_eq!(Some(*from), offset);
                offset = *to;
            }
        }
    }
    if operands.is_empty() {
        assert_eq!(offset, None, "the last part goes to the end");
    } else {
        let all = call
            .files
            .iter()
            .filter(|file| file.from == 0 && call.operands.contains(&file.word));
        assert_eq!(operands, all.map(|file| file.word).collect::<Vec<_>>());
    }
}

fn all() -> &'static BTreeMap<String, Result<Annotation, String>> {
    static ALL: std::sync::OnceLock<BTreeMap<String, Result<Annotation, String>>> =
        std::sync::OnceLock::new();
    ALL.get_or_init(annotations)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, rng_seed: RngSeed::Fixed(61), ..ProptestConfig::default() })]

    #[test]
    fn what_holds_of_plans_holds_of_all((world, text, speeds, absent) in cases()) {
        let mut facts = world.facts(all(), &text);
        taught(&mut facts, &speeds, absent);
        let first = plan(&facts);
        check(&facts, &first);
        prop_assert_eq!(&first, &plan(&facts), "the same facts, another plan");
        let said = explain::text(&facts, &first);
        prop_assert_eq!(said.lines().count(), facts.stages.len() + 1 + first.rejected.len());
        prop_assert!(explain::svg(&facts, &first).ends_with("</svg>\n"));
        // Whatever it costs: as much elsewhere as may be, by the same rules.
        facts.eager = true;
        let eager = plan(&facts);
        check(&facts, &eager);
        let away = |plan: &Plan| plan.groups.iter().map(|group| group.stages.len()).sum::<usize>();
        prop_assert!(away(&eager) >= away(&first), "{:?} {:?}", eager, first);
    }
}

/// The cases are worth something: plans of every kind are among them.
#[test]
fn random_plans_are_of_every_kind() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut none, mut whole, mut lanes, mut moved, mut here) = (0, 0, 0, 0, 0);
    for _ in 0..2000 {
        let (world, text, speeds, absent) = cases().new_tree(&mut runner).unwrap().current();
        let mut facts = world.facts(all(), &text);
        taught(&mut facts, &speeds, absent);
        let plan = plan(&facts);
        none += usize::from(plan.groups.is_empty());
        for group in &plan.groups {
            whole += usize::from(group.lanes.len() == 1);
            lanes += usize::from(group.lanes.len() > 1);
            here += usize::from(group.place == Place::Here);
            moved += usize::from(group.lanes.iter().any(|lane| !lane.moved.is_empty()));
        }
    }
    for (kind, count) in [
        ("none", none),
        ("whole", whole),
        ("lanes", lanes),
        ("moved", moved),
        ("here", here),
    ] {
        assert!(count >= 10, "{kind}: {count}");
    }
}
