//! Parts of what real commands read, put together, against what the commands say of all of it: for every use of every annotation whose
//! input or operands may be cut, and for programs in AWK, sed and jq that are found to be so.
//!
//! The lanes, their words and how their outputs are put together come from the planner, over facts in which lanes always win; the
//! files are small and random, so that seams are everywhere.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::{Cursor, Write};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use shell_exec::annotations;
use shell_exec::combine::{self, Failure, Room};
use shell_plan::annotation::{Annotation, Combine, Kind};
use shell_plan::plan::{
    Combiner, Facts, FileKind, Group, Host, Learned, Measured, Mount, Named, Part, Place, Stage,
    Stdin, Stdout, There, cuts, plan, selectivity_key,
};

const ROUNDS: usize = 12;

/// Words of a call: blanks part them, but not between single quotes.
fn words(call: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    for (number, text) in call.split('\'').enumerate() {
        if number % 2 == 1 {
            words.push(text.as_bytes().to_vec());
        } else {
            words.extend(text.split_whitespace().map(|word| word.as_bytes().to_vec()));
        }
    }
    words
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// A host for which every plan has lanes: nothing costs there, and everything here.
fn host() -> Host {
    Host {
        name: "far".to_owned(),
        connected: true,
        connect_s: 0.0,
        round_trip_s: 0.0,
        down: 1e15,
        up: 1e15,
        idle_cores: 5.0,
        disk: 1e15,
        mount: Mount {
            read: 1e3,
            write: 1e3,
            open_s: 1.0,
            entry_s: 1.0,
            differs: Vec::new(),
        },
        any_name: false,
        has_files_of: None,
    }
}

fn far(kind: FileKind) -> Named {
    Named {
        at: Place::Host(0),
        kind,
        size_bytes: 1 << 30,
        entries: 1 << 40,
        same_name: true,
        ends_line: true,
        identity: None,
    }
}

/// The group that the planner makes of a call, whose files are all far, and which a sort follows if that is needed.
fn group(annotation: &Annotation, call: &[Vec<u8>], sorted: Option<&Annotation>) -> Option<Group> {
    let meaning = annotation.call(call, false).ok()?;
    let files = meaning.files.iter().map(|file| {
        let is_tree = file.kind == Kind::Tree;
        far(if is_tree {
            FileKind::Folder
        } else {
            FileKind::Regular
        })
    });
    let stage = |words: Vec<Vec<u8>>, call, files, programs| Stage {
        words,
        call,
        environment: Vec::new(),
        files,
        programs,
        folder: Named {
            at: Place::Host(0),
            ..Named::default()
        },
        stdin: Stdin::Stage,
        stdout: Stdout::Stage,
        is_merged: false,
        there: vec![There::Same],
    };
    let programs = meaning.programs.iter();
    let programs = programs.map(|file| (Some(call[file.word][file.from..].to_vec()), None));
    let key = selectivity_key(call, &meaning);
    let mut stages = vec![stage(
        call.to_vec(),
        Ok(meaning.clone()),
        files.collect(),
        programs.collect(),
    )];
    if meaning.of.seeks {
        // Only of a pipe does it read all lines; who fills that changes none of them.
        let cat = words("cat");
        let meaning = annotations::of("cat").unwrap().call(&cat, false);
        let meaning = meaning.map_err(|why| why.to_string());
        stages.insert(0, stage(cat, meaning, Vec::new(), Vec::new()));
    }
    stages[0].stdin = Stdin::File {
        file: far(FileKind::Regular),
        offset: 0,
    };
    let sort = words("sort");
    if let Some(annotation) = sorted {
        let call = annotation.call(&sort, false);
        let call = call.map_err(|why| why.to_string());
        stages.push(stage(sort.clone(), call, Vec::new(), Vec::new()));
    }
    let mut learned = Learned::default();
    let slow = Measured {
        selectivity: 1e-6,
        speed: 1e3,
    };
    learned.commands.insert(key, slow);
    let facts = Facts {
        stages,
        hosts: vec![host()],
        idle_cores: 1.0,
        learned,
        ..Facts::default()
    };
    let group = plan(&facts).groups.into_iter().next()?;
    (group.lanes.len() > 1).then_some(group)
}

/// What a command prints and its exit status.
fn run(words: &[Vec<u8>], input: &[u8], folder: &Path, locale: &str) -> (Vec<u8>, i32) {
    let (output, status, _) = heard(words, input, folder, locale);
    (output, status)
}

/// The same, and whether it complains.
fn heard(words: &[Vec<u8>], input: &[u8], folder: &Path, locale: &str) -> (Vec<u8>, i32, bool) {
    let mut child = Command::new(OsStr::from_bytes(&words[0]))
        .args(words[1..].iter().map(|word| OsStr::from_bytes(word)))
        .current_dir(folder)
        .env("LC_ALL", locale)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // It may end before it has read all.
        let _ = to.write_all(&input);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let status = output.status;
    let code = status.code();
    let code = code.unwrap_or_else(|| 128 + status.signal().unwrap());
    (output.stdout, code, !output.stderr.is_empty())
}

/// What a combiner makes of parts, with the command that it takes.
fn put_together(
    how: &Combiner,
    parts: &[Vec<u8>],
    folder: &Path,
    locale: &str,
) -> Result<Vec<u8>, Failure> {
    let room = Room {
        memory_bytes: 16,
        folder: folder.to_path_buf(),
    };
    let readers = parts.iter().cloned();
    let readers = readers.map(|part| -> combine::Part { Box::new(Cursor::new(part)) });
    let mut output = Vec::new();
    match how {
        Combiner::Merge(words) => {
            let scratch = tempfile::tempdir_in(folder).unwrap();
            let mut names = Vec::new();
            for (number, part) in parts.iter().enumerate() {
                let path = scratch.path().join(number.to_string());
                fs::write(&path, part).unwrap();
                names.push(path.into_os_string().into_encoded_bytes());
            }
            output = run(&combine::by_names(words, &names), b"", folder, locale).0;
        }
        Combiner::Again(words) | Combiner::Sums { words, .. } => {
            combine::combine(how, readers.collect(), &mut output, &room)?;
            output = run(words, &output, folder, locale).0;
        }
        _ => combine::combine(how, readers.collect(), &mut output, &room)?,
    }
    Ok(output)
}

/// The same, two neighbours first: as a tree.
fn as_tree(
    how: &Combiner,
    mut parts: Vec<Vec<u8>>,
    seed: usize,
    folder: &Path,
    locale: &str,
) -> Result<Vec<u8>, Failure> {
    // What prints sums prints them once.
    if parts.len() > 2 && !matches!(how, Combiner::Sums { .. }) {
        let at = seed % (parts.len() - 1);
        let pair: Vec<Vec<u8>> = parts.drain(at..at + 2).collect();
        parts.insert(at, put_together(how, &pair, folder, locale)?);
    }
    put_together(how, &parts, folder, locale)
}

/// Text in which lines repeat, with bytes that mean something to somebody.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        4 => "[ab]{1,2}",
        3 => "[0-9]{1,3}( [a-c]{1,2}){0,2}",
        2 => "[ \t]*[a-cA-C:/x]{0,6}[ ]?[0-9.]{0,4}",
        1 => "[a-z ]{0,60}",
        1 => "\\PC{0,3}",
    ];
    let line = (line, 0..30_u8).prop_map(|(text, odd)| {
        let mut line = text.into_bytes();
        match odd {
            0 => line.push(0),
            1 => line.push(0xff),
            2 => line.push(b'\r'),
            3 => line.insert(0, 0xc3),
            _ => {}
        }
        line
    });
    let lines = prop::collection::vec((line, 1..4_usize), 0..9);
    (lines, 0..4_usize).prop_map(|(lines, unended)| {
        let mut text = Vec::new();
        for (line, times) in lines {
            for _ in 0..times {
                text.extend_from_slice(&line);
                text.push(b'\n');
            }
        }
        if unended == 0 {
            text.pop();
        }
        text
    })
}

/// A text and the ranges of its parts.
type Cut = (Vec<u8>, Vec<Range<u64>>);

/// One call on the files of a folder.
struct Case<'c> {
    call: &'c [Vec<u8>],
    group: &'c Group,
    folder: &'c Path,
    input: Vec<u8>,
    seed: usize,
    locale: &'static str,
}

impl Case<'_> {
    /// What each lane prints, and its status.
    fn lanes(&self) -> (Vec<Vec<u8>>, Vec<i32>, bool) {
        let mut complain = false;
        let mut parts = Vec::new();
        let mut statuses = Vec::new();
        let count = self.group.lanes.len();
        let mut known: BTreeMap<Option<Vec<u8>>, Cut> = BTreeMap::new();
        for (number, lane) in self.group.lanes.iter().enumerate() {
            let stdin = match &lane.part {
                Part::All => panic!("one lane"),
                Part::Operands(_) => Vec::new(),
                Part::Lines { file, .. } => {
                    let name = file.map(|(word, from)| self.call[word][from..].to_vec());
                    let (text, ranges) = known.entry(name.clone()).or_insert_with(|| {
                        let text = match name {
                            None => self.input.clone(),
                            Some(name) => {
                                fs::read(self.folder.join(OsStr::from_bytes(&name))).unwrap()
                            }
                        };
                        let ranges = cuts(0..text.len() as u64, count, |at, most| {
                            let rest = &text[at as usize..];
                            Ok::<_, ()>(rest[..most.min(rest.len())].to_vec())
                        });
                        (text, ranges.unwrap())
                    });
                    // Lines may be fewer than lanes; those have nothing to read then.
                    let range = ranges.get(number).cloned().unwrap_or(0..0);
                    text[range.start as usize..range.end as usize].to_vec()
                }
            };
            let combiner = &self.group.combine.as_ref().unwrap().combiner;
            let words = if self.group.lanes_end - self.group.stages.start > 1 {
                self.call
            } else {
                &lane.words
            };
            let words = combiner.lane_words(words);
            let (part, status, complains) = heard(&words, &stdin, self.folder, self.locale);
            complain |= complains;
            parts.push(part);
            statuses.push(status);
        }
        (parts, statuses, complain)
    }

    /// What the call reads.
    fn texts(&self) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(self.folder).unwrap();
        let files = entries.filter_map(|entry| fs::read(entry.unwrap().path()).ok());
        files.chain([self.input.clone()]).collect()
    }

    /// Whether whole and in lanes are the same. `false`: its parts do not fit, and it would have been run whole.
    fn holds(&self) -> bool {
        let Case { folder, locale, .. } = *self;
        let (mut whole, whole_status) = run(self.call, &self.input, folder, locale);
        let (parts, statuses, complain) = self.lanes();
        let call = self.call.iter().map(|word| String::from_utf8_lossy(word));
        let call = call.collect::<Vec<_>>().join(" ");
        let shown = parts
            .iter()
            .map(|part| String::from_utf8_lossy(part).into_owned());
        let shown = format!("{call} ({locale}), parts {:?}", shown.collect::<Vec<_>>());
        let combiner = &self
            .group
            .combine
            .as_ref()
            .expect("lanes come together")
            .combiner;
        // Who runs the parts looks at that.
        let has_zero = || self.texts().iter().any(|text| text.contains(&0));
        if *combiner == Combiner::Text && (complain || has_zero()) {
            return false;
        }
        let mut together = match as_tree(combiner, parts, self.seed, folder, locale) {
            Ok(together) => together,
            Err(Failure::Unfit(_)) => return false,
            Err(error) => panic!("{shown}: {error}"),
        };
        if matches!(combiner, Combiner::Counts { .. }) {
            for text in [&mut whole, &mut together] {
                *text = run(&words("sort"), text, folder, locale).0;
            }
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(text(&together), text(&whole), "{shown}");
        assert!(together == whole, "{shown}");
        let of = *self.group.statuses.last().unwrap();
        let status = combine::status(of, &statuses);
        assert_eq!(status, whole_status, "{shown}: {statuses:?}");
        true
    }
}

fn runner() -> TestRunner {
    let seed = std::env::var("PERDURE_TEST_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(6_u64);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(Config::default(), random)
}

/// Runs a call on random files, some rounds. In how many its parts did not fit.
fn rounds(
    runner: &mut TestRunner,
    annotation: &Annotation,
    call: &[Vec<u8>],
    group: &Group,
) -> usize {
    let meaning = annotation.call(call, false).unwrap();
    let apart = matches!(group.lanes[0].part, Part::Operands(_));
    let mut unfit = 0;
    for round in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let mut text = || texts().new_tree(runner).unwrap().current();
        for file in &meaning.files {
            let name = OsStr::from_bytes(&call[file.word][file.from..]);
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if file.kind == Kind::Tree {
                fs::create_dir_all(path.join("deep")).unwrap();
                for name in ["a.c", "b", "deep/c.c"] {
                    fs::write(path.join(name), text()).unwrap();
                }
            } else {
                let mut content = text();
                // As the facts have it.
                if apart && !content.is_empty() && content.last() != Some(&b'\n') {
                    content.push(b'\n');
                }
                fs::write(path, content).unwrap();
            }
        }
        let case = Case {
            call,
            group,
            folder: folder.path(),
            input: text(),
            seed: round,
            locale: ["C", "C.UTF-8"][round % 2],
        };
        unfit += usize::from(!case.holds());
    }
    unfit
}

/// An example's call, with more operands if they are to be taken apart.
fn call_of(annotation: &Annotation, name: &str, example: &str, apart: bool) -> Vec<Vec<u8>> {
    let mut call = words(example);
    call[0] = name.as_bytes().to_vec();
    call.retain(|word| !apart || word != b"-");
    let meaning = annotation.call(&call, false).unwrap();
    let is_input = |kind| matches!(kind, Kind::Input | Kind::Tree);
    if !apart && meaning.stdin && meaning.of.operands.iter().any(|o| is_input(o.kind)) {
        // What may end early leaves a standard input that is shared alone.
        call.push(b"f1".to_vec());
    }
    if apart {
        let mut kinds = meaning.of.operands.iter();
        let is_tree = kinds.any(|operand| operand.kind == Kind::Tree);
        let files = meaning.files.iter().map(|file| file.word + 1);
        let behind = files
            .chain(meaning.operands.iter().map(|word| word + 1))
            .max();
        let at = behind.unwrap_or(call.len());
        let more = if is_tree {
            ["t1", "t2", "t3"]
        } else {
            ["f1", "f2", "f3"]
        };
        call.splice(at..at, more.map(|name| name.as_bytes().to_vec()));
    }
    call
}

#[test]
fn parts_together_are_the_whole() {
    let mut runner = runner();
    let mut missing = Vec::new();
    let mut tested = Vec::new();
    let mut untested = Vec::new();
    for name in annotations::names() {
        let annotation = annotations::of(name).unwrap();
        for of in annotation.uses.iter().filter(|of| of.program.is_none()) {
            for (apart, is_so) in [(false, of.lines.is_some()), (true, of.apart.is_some())] {
                if !is_so {
                    continue;
                }
                if !is_installed(name) {
                    missing.push(name);
                    continue;
                }
                let mut count = 0;
                for example in annotation
                    .examples
                    .iter()
                    .filter(|e| e.fits.as_ref() == Some(&of.name))
                {
                    let call = call_of(annotation, name, &example.call, apart);
                    let fits = annotation
                        .call(&call, false)
                        .is_ok_and(|call| call.of.name == of.name);
                    let Some(group) = group(annotation, &call, None).filter(|_| fits) else {
                        continue;
                    };
                    if matches!(group.lanes[0].part, Part::Operands(_)) == apart {
                        count += 1;
                        let unfit = rounds(&mut runner, annotation, &call, &group);
                        let looks = of.lines == Some(Combine::Text);
                        assert!(
                            unfit == 0 || looks && unfit < ROUNDS,
                            "{name}: {}: {unfit}",
                            of.name
                        );
                    }
                }
                let how = if apart { "apart" } else { "lines" };
                let row = format!("{name}: {} ({how})", of.name);
                if count > 0 {
                    tested.push(row)
                } else {
                    untested.push(row)
                }
            }
        }
    }
    missing.dedup();
    assert!(untested.is_empty(), "no example is cut: {untested:?}");
    assert!(tested.len() >= 25, "only {tested:?}; not here: {missing:?}");
}

/// Options that change what is printed, beyond the examples.
#[test]
fn parts_together_are_the_whole_whatever_the_options() {
    let mut runner = runner();
    let mut uncut = Vec::new();
    for call in [
        "sort -u f",
        "sort -s -k1,1 f",
        "sort -rs -k2 f",
        "sort -f f",
        "sort -fu f g h",
        "sort -g f",
        "sort -n f g h",
        "sort -nu f",
        "sort -h f",
        "sort -M f",
        "sort -V f",
        "sort -bdi f",
        "sort -t: -k2,2 -k1,1nr f",
        "sort -R f",
        "uniq -i f",
        "uniq -f 1 f",
        "uniq -s 1 f",
        "uniq -w 2 f",
        "uniq -c f",
        "head -1 f",
        "head -3 f",
        "tail -1 f",
        "tail -4 f",
        "grep [ab] f",
        "grep -v -i B f",
        "grep -a -o [ab] f",
        "grep -a -v a f",
        "grep -a -i -w A f",
        "grep -a -x -F a f",
        "grep -c -v a f",
        "grep -c -E ^$|b f",
        "grep -q ab f",
        "grep -l a f g h",
        "grep -L a f g h",
        "grep -n a f g h",
        "grep -c a f g h",
        "grep -m1 a f g h",
        "grep -hn a f g h",
        "cut -f2 -d: f",
        "cut -d ' ' -f 2- --output-delimiter=xx f g h",
        "cut -s -d: -f1 f",
        "cut -b1,3-4 f",
        "tr -d a-c",
        "tr -d '\\n'",
        "tr '\\n' ' '",
        "tr [:lower:] [:upper:]",
        "tr -c 'a-z\\n' x",
        "cat -A f",
        "cat -v f g h",
        "fold -w 3 f",
        "fold -sw5 f",
        "expand -t3 f",
        "unexpand -a f",
        "wc -l",
        "wc -m",
        "wc -w",
    ] {
        let words = words(call);
        let annotation = annotations::of(std::str::from_utf8(&words[0]).unwrap()).unwrap();
        match group(annotation, &words, None) {
            None => uncut.push(call),
            Some(group) => {
                let unfit = rounds(&mut runner, annotation, &words, &group);
                let looks = group.combine.as_ref().unwrap().combiner == Combiner::Text;
                assert!(unfit == 0 || looks && unfit < ROUNDS, "{call}: {unfit}");
            }
        }
    }
    assert_eq!(uncut, ["sort -R f"], "these stay whole");
}

#[test]
fn parts_of_programs_together_are_the_whole() {
    let mut runner = runner();
    let sort = annotations::of("sort").unwrap();
    for call in [
        "awk '{ print $1 }' f",
        "awk '/a/' f",
        "awk '$1 > 5 { printf \"%s,\", $2 }' f",
        "awk -F: -v n=2 '{ $n = \"x\"; print NF, $0 }' f",
        "awk '{ n++ } END { print n }' f",
        "awk '/a/ { n += length($0) } END { print n + 0 }' f",
        "awk 'END { print NR }' f",
        "awk '{ n[$1]++ } END { for (k in n) print k, n[k] }' f",
        "awk '{ n[$0]++ } END { for (k in n) print n[k], k }' f",
        "awk '{ print $1 }' f g h",
        "awk '{ n++ } END { print n }' f g h",
        "sed s/a/bb/g f",
        "sed -n '/[ab]/p' f",
        "sed -E 's/([a-c]+) ([0-9]+)/\\2 \\1/;/^$/d;y/abc/xyz/' f",
        "sed 's/ /\\n/g' f g h",
        "jq -R . f",
        "jq -R length f g h",
        "awk '{ s += $1 } END { print s }' f",
        "awk '{ s += $1 * 100000007; n++ } END { print \"a\\\\\\\"b\", s, n; print s }' f",
        "awk '/a/ { s += $2 - 7 } END { print s, \"of\", s }' f g h",
    ] {
        let sums = call.contains("s +=");
        let mut words = words(call);
        let awks: &[&str] = &["awk", "gawk", "mawk", "original-awk"];
        let name = String::from_utf8(words[0].clone()).unwrap();
        let commands = if name == "awk" {
            awks
        } else {
            &[name.as_str()]
        };
        for command in commands.iter().filter(|command| is_installed(command)) {
            words[0] = command.as_bytes().to_vec();
            let annotation = annotations::of(command).unwrap();
            let group = group(annotation, &words, Some(sort));
            let group = group.unwrap_or_else(|| panic!("{call}: not cut"));
            let unfit = rounds(&mut runner, annotation, &words, &group);
            // Where there are fractions, sums are not put together.
            assert!(
                unfit == 0 || sums && unfit < ROUNDS,
                "{command}: {call}: {unfit}"
            );
        }
    }
}
