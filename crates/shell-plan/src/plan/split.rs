//! The ways in which stages may be run in several lanes: the first of them takes its operands or the lines of a file in parts, others
//! follow as long as what each lane prints is a part of what the whole would.
//!
//! Invariant: with every cut, what the lanes print, put together, is what one process prints for all; `rules.rs` says of one stage
//! whether it may be cut, this file of several behind each other.

use super::commands::name;
use super::rules::Known;
use super::{Combiner, FileKind, Lane, Moved, Part, Place, Stdin, Tree};
use crate::annotation::{Combine, Kind, Language, Names, Status, Stdin as Reads};
use crate::program::{Ends, SumColumn, Together};

/// A part is not smaller than this: beginning a process costs as much as reading some megabytes.
const PART_BYTES_MIN: u64 = 4 << 20;
/// Larger whole numbers some implementations of AWK print with an exponent.
const COUNT_MAX: u64 = i32::MAX as u64;
/// How many lanes are begun on one host if cost does not count: one that is neither the first nor the last is among them.
const EAGER_LANES: usize = 3;
/// More lanes than this are not begun for the files of one host.
const LANES_MAX: usize = 64;

/// Stages in lanes.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Split {
    /// The first of them.
    pub from: usize,
    /// Behind the last of them.
    pub end: usize,
    pub lanes: Vec<Lane>,
    pub combiner: Combiner,
    pub statuses: Vec<Status>,
    /// It is right only because operands end with lines' ends.
    pub line_ends: bool,
    /// It is right only because what the first stage prints for each lane does.
    pub lines_looked_at: bool,
    /// It may turn out while it runs that one process would have printed something else: then all is run again by one.
    pub is_doubtful: bool,
}

/// All splits that begin with a stage.
pub(super) fn splits(known: &Known<'_, '_>, from: usize) -> Vec<Split> {
    let mut all = Vec::new();
    // On the nodes of a cluster besides, if there are any.
    let is_cluster = (known.facts.hosts.iter()).any(|host| host.has_files_of.is_some());
    let wide = std::iter::once(false).chain(is_cluster.then_some(true));
    let ways = wide.flat_map(|wide| [lines(known, from, wide), apart(known, from, wide)]);
    for (lanes, whole) in ways.flatten() {
        let by_operands = matches!(lanes[0].part, Part::Operands(_));
        chain(known, from, by_operands, &lanes, whole, &mut all);
    }
    all
}

/// Lanes for the lines of the one file that a stage reads, and that their inputs are whole lines.
fn lines(known: &Known<'_, '_>, from: usize, wide: bool) -> Option<(Vec<Lane>, bool)> {
    known.together(from, false)?;
    let stage = &known.facts.stages[from];
    let call = known.call(from)?;
    let inputs = known.operands(from);
    let (named, file, begin) = match (&stage.stdin, inputs) {
        (Stdin::File { file, offset }, []) if call.stdin && !call.of.seeks => (file, None, *offset),
        (_, [only]) if !call.stdin && call.of.stdin == Reads::WithoutInputs => {
            let of = &call.files[*only];
            (&stage.files[*only], Some((of.word, of.from)), 0)
        }
        _ => return None,
    };
    let Place::Host(host) = named.at else {
        return None;
    };
    // Who prints text names its file only if it is none.
    let is_text = call.of.lines == Some(Combine::Text) && named.same_name;
    if named.kind != FileKind::Regular || call.of.names == Names::Always && !is_text {
        return None;
    }
    // The file itself is found by the agent; what else the stage reads must be allowed there.
    let others = (0..stage.files.len()).filter(|at| inputs.binary_search(at).is_err());
    let others: Vec<usize> = others.collect();
    let seats = seats(known, from, host, wide, &others);
    if seats.first() != Some(&host) {
        return None;
    }
    let size = named.size_bytes.checked_sub(begin)?;
    let count = seats.len().min((size / part_min(known)) as usize);
    if count < 2 || wide && seats.iter().all(|&seat| seat == host) {
        return None;
    }
    let mut words = stage.words.clone();
    if let Some((word, _)) = file {
        words.remove(word);
    }
    let bound = |part: usize| begin + (u128::from(size) * part as u128 / count as u128) as u64;
    let lanes = (0..count).map(|part| Lane {
        host: seats[part * seats.len() / count],
        part: Part::Lines {
            file,
            from: bound(part),
            to: (part + 1 < count).then(|| bound(part + 1)),
        },
        words: words.clone(),
        moved: Vec::new(),
        share: 1.0 / count as f64,
        output_bytes: 0.0,
    });
    Some((lanes.collect(), true))
}

/// Lanes for the files that are a stage's operands, each where its files are, and whether all but the last end with a line's end.
fn apart(known: &Known<'_, '_>, from: usize, wide: bool) -> Option<(Vec<Lane>, bool)> {
    known.together(from, true)?;
    let stage = &known.facts.stages[from];
    let call = known.call(from)?;
    let inputs = known.operands(from);
    if inputs.len() < 2 || call.stdin {
        return None;
    }
    let others: Vec<usize> = (0..stage.files.len())
        .filter(|at| inputs.binary_search(at).is_err())
        .collect();
    let size = |at: usize| stage.files[at].size_bytes as f64 + 1.0;
    // Neighbours on one host are a run; a run is cut further if the host has processors for it.
    let mut runs: Vec<(usize, Vec<usize>)> = Vec::new();
    for &at in inputs {
        let Place::Host(host) = stage.files[at].at else {
            return None;
        };
        // One that is not there is told in the middle, or before anything else.
        if stage.files[at].kind == FileKind::Absent {
            return None;
        }
        match runs.last_mut().filter(|(of, _)| *of == host) {
            Some((_, run)) => run.push(at),
            None => runs.push((host, vec![at])),
        }
    }
    let mut lanes = Vec::new();
    let total: f64 = inputs.iter().map(|&at| size(at)).sum();
    for (host, run) in &runs {
        let files: Vec<usize> = run.iter().chain(&others).copied().collect();
        let seats = seats(known, from, *host, wide, &files);
        if seats.first() != Some(host) {
            return None;
        }
        let bytes: f64 = run.iter().map(|&at| size(at)).sum();
        let same_host: f64 = runs
            .iter()
            .filter(|(of, _)| of == host)
            .flat_map(|(_, run)| run)
            .map(|&at| size(at))
            .sum();
        let cores = seats.len() as f64 * bytes / same_host;
        let count = (cores.round() as usize)
            .min((bytes / PART_BYTES_MIN as f64) as usize)
            .clamp(1, run.len());
        let parts = balanced(run, count, size);
        let count = parts.len();
        for (number, part) in parts.into_iter().enumerate() {
            let kept: Vec<usize> = part.iter().map(|&at| call.files[at].word).collect();
            let dropped: Vec<usize> = inputs
                .iter()
                .map(|&at| call.files[at].word)
                .filter(|word| kept.binary_search(word).is_err())
                .collect();
            let mut words: Vec<Vec<u8>> = (stage.words.iter().enumerate())
                .filter(|(word, _)| dropped.binary_search(word).is_err())
                .map(|(_, word)| word.clone())
                .collect();
            let with = call
                .of
                .apart_with
                .iter()
                .map(|word| word.as_bytes().to_vec());
            let behind = call.at + 1;
            words.splice(behind..behind, with);
            lanes.push(Lane {
                host: seats[number * seats.len() / count],
                part: Part::Operands(kept),
                words,
                moved: Vec::new(),
                share: part.iter().map(|&at| size(at)).sum::<f64>() / total,
                output_bytes: 0.0,
            });
        }
    }
    let (_, before) = inputs.split_last()?;
    let whole = before.iter().all(|&at| stage.files[at].ends_line);
    // To sed and jq a last line without an end goes on in the next file.
    if !whole && matches!(call.of.program, Some(Language::Sed | Language::Jq)) {
        return None;
    }
    let hosts: Vec<usize> = lanes.iter().map(|lane| lane.host).collect();
    let is_other = !wide || hosts.iter().any(|&host| known.home(host) != host);
    (is_other && lanes.len() > 1 && lanes.len() <= LANES_MAX * known.facts.hosts.len())
        .then_some((lanes, whole))
}

/// Among how many processes a command shares its files itself on a host, if it can and there is enough to share.
pub(super) fn shared(known: &Known<'_, '_>, stage: usize, host: usize) -> Option<usize> {
    known.readings[stage]
        .as_ref()
        .filter(|reading| reading.shares)?;
    let files = &known.facts.stages[stage].files;
    let own = known.operands(stage).iter().map(|&at| &files[at]);
    let own: Vec<_> = own.filter(|named| named.at == Place::Host(host)).collect();
    let all = own.len() == known.operands(stage).len() && !known.call(stage)?.stdin;
    let size: u64 = own.iter().map(|named| named.size_bytes).sum();
    let count = lane_count(known, host).min((size / part_min(known)) as usize);
    (all && count > 1).then_some(count)
}

/// How many lanes a host has processors for.
fn lane_count(known: &Known<'_, '_>, host: usize) -> usize {
    if known.facts.eager {
        return EAGER_LANES;
    }
    // One that is used in part is shared with whoever uses it.
    ((known.facts.hosts[host].idle_cores + 0.7) as usize).clamp(1, LANES_MAX)
}

/// The hosts on which lanes of a stage may be for files of one of them, each as often as it has processors for lanes: that one, and if it is to be `wide`
/// all that have its files, too, and may run the stage with these of its files.
fn seats(
    known: &Known<'_, '_>,
    stage: usize,
    home: usize,
    wide: bool,
    files: &[usize],
) -> Vec<usize> {
    let others = (0..known.facts.hosts.len()).filter(|&host| wide && host != home);
    let others = others.filter(|&host| known.home(host) == home);
    (std::iter::once(home).chain(others))
        .filter(|&host| known.refusal_with(stage, host, files).is_none())
        .flat_map(|host| std::iter::repeat_n(host, lane_count(known, host)))
        .take(LANES_MAX)
        .collect()
}

/// How much a part has at least.
fn part_min(known: &Known<'_, '_>) -> u64 {
    if known.facts.eager { 1 } else { PART_BYTES_MIN }
}

/// Neighbouring files in `count` parts of about the same size, none of them empty.
fn balanced(files: &[usize], count: usize, size: impl Fn(usize) -> f64) -> Vec<Vec<usize>> {
    let total: f64 = files.iter().map(|&at| size(at)).sum();
    let mut parts = vec![Vec::new()];
    let mut seen = 0.0;
    for (number, &at) in files.iter().enumerate() {
        let left = files.len() - number;
        let wanted = count - parts.len();
        let is_full = seen + size(at) / 2.0 >= total * parts.len() as f64 / count as f64;
        if let Some(last) = parts.last()
            && !last.is_empty()
            && wanted > 0
            && (is_full || left <= wanted)
        {
            parts.push(Vec::new());
        }
        if let Some(last) = parts.last_mut() {
            last.push(at);
        }
        seen += size(at);
    }
    parts
}

/// All ends that lanes which begin with a stage may have.
fn chain(
    known: &Known<'_, '_>,
    from: usize,
    by_operands: bool,
    lanes: &[Lane],
    mut whole: bool,
    all: &mut Vec<Split>,
) {
    let mut statuses = Vec::new();
    let mut lanes = lanes.to_vec();
    let is_looked_at = by_operands && known.ends(from) == Ends::LookedAt;
    for k in from..known.facts.stages.len() {
        let apart = k == from && by_operands;
        let (Some(call), Some(together)) = (known.call(k), known.together(k, apart)) else {
            return;
        };
        let hosts: Vec<usize> = lanes.iter().map(|lane| lane.host).collect();
        let follows =
            known.facts.stages[k].stdin == Stdin::Stage && call.stdin && known.reads_only_stdin(k);
        if k > from && (!follows || hosts.iter().any(|&host| known.refusal(k, host).is_some())) {
            return;
        }
        for lane in &mut lanes {
            let is_part =
                |file: usize| k == from && known.operands(from).binary_search(&file).is_ok();
            let mut list = moved(known, k, Place::Host(lane.host), &is_part);
            for moved in list.iter_mut().filter(|_| k == from) {
                moved.file = moved
                    .file
                    .map(|(word, at)| (place_in(known, from, lane, word), at));
            }
            lane.moved.extend(list);
        }
        statuses.push(call.of.status);
        let combiner = match &together {
            Together::As(combine) => combiner(known, k, *combine),
            Together::Sums(lines) => Some(Combiner::of_sums(&known.facts.stages[k].words, lines)),
            // Nobody knows in which order these come, so somebody must put them in one.
            Together::Counts { key_first } => known
                .any_order(k + 1)
                .then(|| Combiner::of_counts(*key_first)),
        };
        let Some(combiner) = combiner else { return };
        // What is in the input of the first is looked at; before this one nothing may change that.
        let passes = |stage: usize| name(&known.facts.stages[stage]) == "cat";
        if combiner == Combiner::Text && !(from..k).all(passes) {
            return;
        }
        let goes_on = combiner == Combiner::Concat && !known.ends_early(k);
        let is_joined = matches!(call.of.program, Some(Language::Sed | Language::Jq));
        let is_sure = matches!(combiner, Combiner::Concat | Combiner::First)
            && !statuses.contains(&Status::Well)
            && !(known.facts.stages[from..=k].iter()).any(|stage| stage.is_merged);
        all.push(Split {
            from,
            end: k + 1,
            is_doubtful: !is_sure || is_looked_at,
            lanes: lanes.clone(),
            combiner,
            statuses: statuses.clone(),
            line_ends: by_operands && (k > from || is_joined) && !is_looked_at,
            lines_looked_at: is_looked_at && k > from,
        });
        whole = match known.ends(k) {
            Ends::Always => true,
            Ends::IfInput => whole,
            // That can be looked at where nothing is behind it yet, unless it was found not to be so.
            Ends::LookedAt => is_looked_at && k == from && !known.facts.unfit,
            Ends::Unknown => false,
        };
        if !goes_on || !whole {
            return;
        }
    }
}

/// A command that prints lines of sums as the program would: from columns with tabs between them, of which those that are empty were never added to.
fn printing(words: &[Vec<u8>], lines: &[Vec<SumColumn>]) -> Vec<Vec<u8>> {
    let mut program = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let mut sums = 0;
        let columns = line.iter().map(|column| match column {
            SumColumn::Sum => {
                sums += 1;
                format!("v[{sums}]").into_bytes()
            }
            SumColumn::Text(text) => string(text),
        });
        let columns = columns.collect::<Vec<Vec<u8>>>().join(&b", "[..]);
        let head = format!(
            "NR == {} {{ for (i = 1; i <= {sums}; i++) v[i] = $i == \"\" ? \"\" : $i + 0; print ",
            number + 1
        );
        program.extend_from_slice(head.as_bytes());
        program.extend_from_slice(&columns);
        program.extend_from_slice(b" }\n");
    }
    let name = words.first().cloned().unwrap_or_default();
    vec![name, b"-F".to_vec(), b"\t".to_vec(), program]
}

/// A text as AWK has it between quotes.
fn string(text: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'"'];
    for &byte in text {
        match byte {
            // A quote, a backslash, and what a line may not have.
            b'"' | b'\\' | 0..=31 | 127 => {
                quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            _ => quoted.push(byte),
        }
    }
    quoted.push(b'"');
    quoted
}

/// Where a word of a stage, which is none of its parts, is among those of a lane.
fn place_in(known: &Known<'_, '_>, stage: usize, lane: &Lane, word: usize) -> usize {
    let Some(call) = known.call(stage) else {
        return word;
    };
    let is_gone = |of: usize| match &lane.part {
        Part::All => false,
        Part::Operands(kept) => kept.binary_search(&of).is_err(),
        Part::Lines { file, .. } => file.is_some_and(|(file, _)| file == of),
    };
    let operands = known.operands(stage).iter();
    let operands = operands.map(|&at| call.files[at].word);
    let gone = operands.filter(|&of| of < word && is_gone(of)).count();
    let added = match lane.part {
        Part::Operands(_) => call.of.apart_with.len(),
        Part::All | Part::Lines { .. } => 0,
    };
    word + added - gone
}

/// How parts' outputs are put together by a stage's annotation.
fn combiner(known: &Known<'_, '_>, k: usize, combine: Combine) -> Option<Combiner> {
    let stage = &known.facts.stages[k];
    let call = known.call(k)?;
    let dropped = known.operands(k).iter().map(|&at| call.files[at].word);
    let dropped: Vec<usize> = dropped.collect();
    let has_program = known.readings[k].is_some();
    Some(Combiner::of(
        combine,
        &stage.words,
        call.at,
        &dropped,
        has_program,
    ))
}

impl Combiner {
    /// How outputs of a command's parts are put together, by what its annotation says. `at`: which word names it; `dropped`: which of its words name files that are cut;
    /// `has_program`: it runs a program, as AWK does, whose numbers have their own form.
    pub fn of(
        combine: Combine,
        words: &[Vec<u8>],
        at: usize,
        dropped: &[usize],
        has_program: bool,
    ) -> Combiner {
        let kept = words.iter().enumerate();
        let kept = kept.filter(|(word, _)| !dropped.contains(word));
        let mut words: Vec<Vec<u8>> = kept.map(|(_, word)| word.clone()).collect();
        match combine {
            Combine::Concat => Combiner::Concat,
            Combine::Text => Combiner::Text,
            Combine::Sum => Combiner::Sum {
                most: if has_program { COUNT_MAX } else { u64::MAX },
            },
            Combine::Uniq => Combiner::Uniq,
            Combine::UniqCount => Combiner::UniqCount,
            Combine::First => Combiner::First,
            Combine::Again => Combiner::Again(words),
            Combine::Merge => {
                words.insert(at + 1, b"-m".to_vec());
                Combiner::Merge(words)
            }
        }
    }

    /// The same for a program's lines that are texts and sums.
    pub fn of_sums(words: &[Vec<u8>], lines: &[Vec<SumColumn>]) -> Combiner {
        Combiner::Sums {
            lines: lines.to_vec(),
            words: printing(words, lines),
        }
    }

    /// The same for a program's lines that are keys and counts.
    pub fn of_counts(key_first: bool) -> Combiner {
        Combiner::Counts {
            key_first,
            most: COUNT_MAX,
        }
    }
}

/// The files that a stage reads at a place and that are not there, but for those that are given to it in parts.
pub(super) fn moved(
    known: &Known<'_, '_>,
    k: usize,
    to: Place,
    is_part: &dyn Fn(usize) -> bool,
) -> Vec<Moved> {
    let stage = &known.facts.stages[k];
    let Some(call) = known.call(k) else {
        return Vec::new();
    };
    let Place::Host(host) = to else {
        return Vec::new();
    };
    let is_away = |place: Place| !known.has(host, place);
    let files = call.files.iter().zip(&stage.files).enumerate();
    let files = files
        .filter(|(at, _)| !is_part(*at))
        .map(|(_, (file, named))| (file, Some(named)));
    let programs = call
        .programs
        .iter()
        .zip(&stage.programs)
        .map(|(file, (_, named))| (file, named.as_ref()));
    let mut list: Vec<Moved> = files
        .chain(programs)
        .filter_map(|(file, named)| Some((file, named?)))
        .filter(|(file, named)| {
            matches!(file.kind, Kind::Input | Kind::ProgramFile) && is_away(named.at)
        })
        .map(|(file, named)| {
            one(
                known,
                k,
                Some((file.word, file.from)),
                named.at,
                to,
                named.size_bytes,
            )
        })
        .collect();
    if let Stdin::File { file, offset } = &stage.stdin
        && call.stdin
        && is_away(file.at)
    {
        list.push(one(
            known,
            k,
            None,
            file.at,
            to,
            file.size_bytes.saturating_sub(*offset),
        ));
    }
    list
}

fn one(
    known: &Known<'_, '_>,
    stage: usize,
    file: Option<(usize, usize)>,
    from: Place,
    to: Place,
    bytes: u64,
) -> Moved {
    let direct = match (from, to) {
        (Place::Host(from), Place::Host(to)) => known
            .facts
            .direct
            .iter()
            .any(|(a, b, _)| (*a, *b) == (from, to)),
        _ => false,
    };
    Moved {
        stage,
        file,
        from,
        to,
        direct,
        bytes,
    }
}

/// What is put together where: what one host's lanes print, first on that host, if that makes it less.
pub(super) fn tree(split: &Split, place: Place) -> Tree {
    // What prints sums prints them once.
    let reduces = !split.combiner.only_passes()
        && !matches!(split.combiner, Combiner::Merge(_) | Combiner::Sums { .. });
    let any_order = matches!(
        split.combiner,
        Combiner::Sum { .. } | Combiner::Counts { .. }
    );
    let mut nodes: Vec<(Place, Vec<Tree>)> = Vec::new();
    for (number, lane) in split.lanes.iter().enumerate() {
        let host = Place::Host(lane.host);
        let near = nodes.len().saturating_sub(1);
        let found = nodes.iter().position(|(at, _)| *at == host);
        match found.filter(|&at| reduces && (any_order || at == near)) {
            Some(at) => nodes[at].1.push(Tree::Lane(number)),
            None => nodes.push((host, vec![Tree::Lane(number)])),
        }
    }
    let nodes = nodes.into_iter().flat_map(|(at, lanes)| {
        if lanes.len() == 1 || at == place {
            lanes
        } else {
            vec![Tree::At(at, lanes)]
        }
    });
    Tree::At(place, nodes.collect())
}
