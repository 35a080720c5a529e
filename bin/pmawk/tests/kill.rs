//! The SIGKILL ladder: runs of pmawk that ingest text into a heap, killed at random moments; the heap always holds exactly
//! the runs that committed.
//!
//! A run is one transaction: it counts the words of one text, remembers its lines, and enters its own number in a log, all
//! in the heap. So the log says which runs are in the heap, and everything else must be what a model makes of those runs.
//!
//! * `PERDURE_KILLS=500` sets the number of kills of each test (40).
//! * `PERDURE_TEST_SEED` repeats a run's choices; the moments of the kills are the clock's, so not everything repeats.
#![allow(clippy::print_stdout)] // seeds and tallies are for people

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use heap::{Cell, Heap, Options, Table};
use testkit::rng::Rng;

/// `lines` is made anew by each run, so that blocks are freed and reused; `freq` grows and changes; "end" is printed when
/// nothing is left to do but the commit.
const PROGRAM: &str = r#"
    BEGIN { delete lines }
    { for (i = 1; i <= NF; i++) freq[$i]++; words += NF; lines[NR] = $0 }
    END { log_of_runs[++runs] = run; texts[run] = text; printf "end"; fflush() }
"#;

const TEXTS: usize = 7;
const LINES_PER_TEXT: usize = 1500;
const SIGKILL: i32 = 9;

/// One test at a time: the moments of the kills are measured.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kills() -> u64 {
    testkit::effort("PERDURE_KILLS", 40)
}

/// A text and what is in it.
struct Text {
    path: PathBuf,
    lines: Vec<String>,
    counts: HashMap<String, u64>,
    word_count: u64,
}

/// A word of the vocabulary: short for the frequent, long (out of line in the heap) for some of the rare.
fn word(rank: u64) -> String {
    let mut text = String::new();
    let mut rest = rank;
    while rest > 0 || text.is_empty() {
        text.push(char::from(b'a' + (rest % 26) as u8));
        rest /= 26;
    }
    if rank % 11 == 10 {
        text.push_str("-and-a-long-ending-as-words-have");
    }
    text
}

/// Words distributed as in prose: the logarithm of the rank is uniform (Zipf).
fn text(path: PathBuf, rng: &mut Rng) -> Text {
    let mut lines = Vec::new();
    let mut counts = HashMap::new();
    let mut word_count = 0;
    for _ in 0..LINES_PER_TEXT {
        let mut line = Vec::new();
        for _ in 0..rng.below(18) {
            let octave = rng.below(14);
            let word = word((1 << octave) + rng.below(1 << octave));
            *counts.entry(word.clone()).or_insert(0) += 1;
            word_count += 1;
            line.push(word);
        }
        lines.push(line.join(" "));
    }
    fs::write(&path, lines.join("\n") + "\n").expect("the scratch folder is writable");
    Text {
        path,
        lines,
        counts,
        word_count,
    }
}

/// What the heap must hold.
#[derive(Default)]
struct Model {
    /// Numbers of the runs that are in the heap, in the order of their commits.
    log: Vec<u64>,
    counts: HashMap<String, u64>,
    word_count: u64,
}

impl Model {
    fn add(&mut self, run: u64, text: &Text) {
        self.log.push(run);
        self.word_count += text.word_count;
        for (word, count) in &text.counts {
            *self.counts.entry(word.clone()).or_insert(0) += count;
        }
    }
}

/// The texts, the heap and the model of one test.
struct Ladder {
    folder: tempfile::TempDir,
    texts: Vec<Text>,
    model: Model,
    options: &'static [&'static str],
    rng: Rng,
    /// Runs that were started.
    started: u64,
    /// How long a run takes until it prints "end", and from there to its exit.
    work: Duration,
    commit: Duration,
    tally: Tally,
}

/// What happened, for people.
#[derive(Default, Debug)]
struct Tally {
    kills: u64,
    killed_while_working: u64,
    killed_in_the_end: u64,
    ended_before_the_kill: u64,
    /// Killed, and yet the commit was complete.
    committed_and_killed: u64,
}

/// A run that was started: its number, which is also the number of its text.
struct Run {
    number: u64,
    child: Child,
}

/// How a run ended.
struct Ended {
    number: u64,
    status: ExitStatus,
    reached_end: bool,
}

impl Ladder {
    fn new(options: &'static [&'static str]) -> Ladder {
        let seed = Rng::seed_from_env();
        println!("seed {seed} (PERDURE_TEST_SEED)");
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().expect("a scratch folder");
        let texts = (0..TEXTS)
            .map(|n| text(folder.path().join(format!("text{n}")), &mut rng))
            .collect();
        let mut ladder = Ladder {
            folder,
            texts,
            model: Model::default(),
            options,
            rng,
            started: 0,
            work: Duration::ZERO,
            commit: Duration::ZERO,
            tally: Tally::default(),
        };
        ladder.measure();
        ladder
    }

    fn heap(&self) -> PathBuf {
        self.folder.path().join("words.heap")
    }

    fn text(&self, run: u64) -> &Text {
        &self.texts[run as usize % TEXTS]
    }

    fn start(&mut self) -> Run {
        let number = self.started;
        self.started += 1;
        let mut persist = std::ffi::OsString::from("--persist=");
        persist.push(self.heap());
        let child = Command::new(env!("CARGO_BIN_EXE_pmawk"))
            .env("LC_ALL", "C")
            .arg(persist)
            .args(self.options)
            .arg(format!("-vrun={number}"))
            .arg(format!("-vtext={}", number as usize % TEXTS))
            .arg(PROGRAM)
            .arg(&self.text(number).path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("pmawk starts");
        Run { number, child }
    }

    /// Three runs in peace: how long they take.
    fn measure(&mut self) {
        for _ in 0..3 {
            let start = Instant::now();
            let mut run = self.start();
            wait_for_end(&mut run);
            self.work = start.elapsed();
            let ended = finish(run);
            self.commit = start.elapsed() - self.work;
            assert!(ended.status.success(), "{}", ended.status);
            self.expect(&[ended]);
        }
        println!(
            "a run takes {:?}, and then its end {:?}",
            self.work, self.commit
        );
    }

    fn moment_within(&mut self, span: Duration) -> Duration {
        let micros = span.as_micros() as u64 + 1;
        Duration::from_micros(self.rng.below(micros))
    }

    fn count(&mut self, ended: &Ended) {
        match (ended.status.signal(), ended.reached_end) {
            (Some(SIGKILL), false) => self.tally.killed_while_working += 1,
            (Some(SIGKILL), true) => self.tally.killed_in_the_end += 1,
            (None, _) if ended.status.success() => self.tally.ended_before_the_kill += 1,
            _ => panic!("run {}: {}", ended.number, ended.status),
        }
    }

    /// The heap holds what it held, and of the runs that ended since: each that succeeded, and any of those that were killed.
    fn expect(&mut self, ended: &[Ended]) {
        // Now and then the next to open is a writer, who recovers; else a reader, who may not.
        let options = if self.rng.chance(3) {
            Options::writer()
        } else {
            Options::snapshot()
        };
        let heap = match Heap::open(&self.heap(), options) {
            Ok(heap) => heap,
            // Killed before there was a heap.
            Err(error) if self.model.log.is_empty() => {
                return println!("no heap yet: {error}");
            }
            Err(error) => panic!("after run {}: {error}", self.started),
        };
        let report = heap.check().expect("the walk goes through");
        assert!(report.is_clean(), "{:?}", report.problems);

        let log = log_of_runs(&heap);
        let known = self.model.log.len();
        assert!(
            log.len() >= known,
            "{} committed runs, {} left",
            known,
            log.len()
        );
        assert_eq!(log[..known], self.model.log, "the log of committed runs");
        for &run in &log[known..] {
            let this = ended.iter().find(|e| e.number == run);
            let this = this.unwrap_or_else(|| panic!("run {run} was never started"));
            assert!(this.reached_end, "run {run} was committed before its end");
            if !this.status.success() {
                self.tally.committed_and_killed += 1;
            }
            let text = &self.texts[run as usize % TEXTS];
            self.model.add(run, text);
        }
        for this in ended.iter().filter(|e| e.status.success()) {
            let entries = log.iter().filter(|&&run| run == this.number).count();
            assert_eq!(entries, 1, "run {} ended well", this.number);
        }
        self.compare(&heap);
    }

    /// Everything in the heap against the model.
    fn compare(&self, heap: &Heap) {
        let mut counts = HashMap::new();
        let freq = global_table(heap, "freq");
        heap.for_each(freq, &mut |key, cell| {
            counts.insert(String::from_utf8_lossy(key).into_owned(), number(cell));
            Ok(())
        })
        .expect("freq is readable");
        assert!(
            counts == self.model.counts,
            "counts of words differ: {} words, expected {}",
            counts.len(),
            self.model.counts.len()
        );
        assert_eq!(number(global(heap, "words")), self.model.word_count);
        let Some(&last) = self.model.log.last() else {
            return;
        };
        let expected = &self.text(last).lines;
        let lines = global_table(heap, "lines");
        assert_eq!(
            heap.table_len(lines).expect("a table"),
            expected.len() as u64
        );
        for (index, line) in expected.iter().enumerate() {
            let slot = heap
                .find_int(lines, index as i64 + 1)
                .expect("lines is readable");
            match slot.map(|slot| heap.cell(slot)) {
                Some(Ok(Cell::Str { bytes, .. })) => assert_eq!(bytes, line.as_bytes()),
                other => panic!("line {} is {other:?}", index + 1),
            }
        }
    }

    /// The next run, as a user: nothing is in the way after a kill.
    fn ends_well(mut self) {
        let run = self.start();
        let ended = finish(run);
        assert!(ended.status.success(), "{}", ended.status);
        self.expect(&[ended]);
        println!("{:?}, {} commits", self.tally, self.model.log.len());
        assert!(
            self.tally.killed_while_working > 0,
            "no kill hit a run at work"
        );
    }
}

/// Waits until the run prints its "end", or is gone.
fn wait_for_end(run: &mut Run) -> bool {
    let mut text = [0; 3];
    let stdout = run.child.stdout.as_mut().expect("a pipe");
    stdout.read_exact(&mut text).is_ok()
}

/// Waits for a run and takes what it printed that was not read yet.
fn finish(mut run: Run) -> Ended {
    let status = run.child.wait().expect("pmawk is ours");
    let mut rest = String::new();
    let mut stdout = run.child.stdout.take().expect("a pipe");
    stdout.read_to_string(&mut rest).expect("plain text");
    // Succeeding implies it; a run whose "end" was read earlier is set by the caller.
    let reached_end = rest == "end" || status.success();
    Ended {
        number: run.number,
        status,
        reached_end,
    }
}

fn global<'a>(heap: &'a Heap, name: &str) -> Cell<'a> {
    let globals = heap
        .root_find("awk.globals")
        .expect("roots are readable")
        .expect("a root");
    let slot = heap
        .find(globals, name.as_bytes())
        .expect("globals are readable");
    let slot = slot.unwrap_or_else(|| panic!("no global {name}"));
    heap.cell(slot).expect("a cell")
}

fn global_table(heap: &Heap, name: &str) -> Table {
    match global(heap, name) {
        Cell::Table(table) => table,
        other => panic!("{name} is {other:?}"),
    }
}

fn number(cell: Cell<'_>) -> u64 {
    match cell {
        Cell::Num(n) => n as u64,
        // From -v: text that looks like a number.
        Cell::Str { bytes, .. } => String::from_utf8_lossy(bytes).parse().expect("digits"),
        other => panic!("{other:?} is no number"),
    }
}

fn log_of_runs(heap: &Heap) -> Vec<u64> {
    if heap.root_find("awk.globals").expect("readable").is_none() {
        return Vec::new();
    }
    let table = global_table(heap, "log_of_runs");
    let count = heap.table_len(table).expect("a table");
    assert_eq!(number(global(heap, "runs")), count);
    let entry = |n| {
        let slot = heap.find_int(table, n as i64).expect("readable");
        number(
            heap.cell(slot.expect("no gap in the log"))
                .expect("readable"),
        )
    };
    (1..=count).map(entry).collect()
}

/// Where a kill aims at.
#[derive(Clone, Copy)]
enum Aim {
    Anywhere,
    /// From the moment that the run has nothing left to do but its commit.
    Commit,
}

fn one_at_a_time(options: &'static [&'static str]) {
    let _turn = turn();
    let mut ladder = Ladder::new(options);
    while ladder.tally.kills < kills() {
        let aim = if ladder.rng.chance(2) {
            Aim::Commit
        } else {
            Aim::Anywhere
        };
        let mut run = ladder.start();
        let mut reached_end = false;
        match aim {
            Aim::Anywhere => {
                let whole = ladder.work + ladder.commit;
                sleep(ladder.moment_within(whole));
            }
            Aim::Commit => {
                reached_end = wait_for_end(&mut run);
                let window = ladder.commit + ladder.commit / 4;
                let moment = Instant::now() + ladder.moment_within(window);
                // Not slept: the window is shorter than the scheduler's grain.
                while Instant::now() < moment {
                    std::hint::spin_loop();
                }
            }
        }
        run.child.kill().expect("SIGKILL is sent");
        ladder.tally.kills += 1;
        let mut ended = finish(run);
        ended.reached_end |= reached_end;
        ladder.count(&ended);
        ladder.expect(&[ended]);
    }
    ladder.ends_well();
}

#[test]
fn a_killed_run_leaves_the_last_commit() {
    one_at_a_time(&[]);
}

/// A kill is no power cut: lazy commits survive it too.
#[test]
fn a_killed_lazy_run_leaves_the_last_commit() {
    one_at_a_time(&["--lazy"]);
}

/// Two writers compete for the lock; one or both are killed, holding it or waiting for it.
#[test]
fn killed_writers_do_not_hold_others_up() {
    let _turn = turn();
    let mut ladder = Ladder::new(&["--lock-timeout=120"]);
    while ladder.tally.kills < kills() {
        let mut pair = [ladder.start(), ladder.start()];
        let both = 2 * (ladder.work + ladder.commit);
        sleep(ladder.moment_within(both));
        let first = ladder.rng.below(2) as usize;
        pair[first].child.kill().expect("SIGKILL is sent");
        ladder.tally.kills += 1;
        if ladder.rng.chance(3) {
            sleep(ladder.moment_within(ladder.work));
            pair[1 - first].child.kill().expect("SIGKILL is sent");
            ladder.tally.kills += 1;
        }
        let ended = pair.map(finish);
        for this in &ended {
            ladder.count(this);
        }
        ladder.expect(&ended);
    }
    ladder.ends_well();
}

/// Before there is anything to lose: the heap is being made.
#[test]
fn a_heap_killed_while_it_is_made_can_be_made_again() {
    let _turn = turn();
    let mut ladder = Ladder::new(&[]);
    for _ in 0..kills().div_ceil(4) {
        for path in [ladder.heap(), heap::journal_path(&ladder.heap())] {
            remove(&path);
        }
        ladder.model = Model::default();
        let mut run = ladder.start();
        // Opening takes the first moments of a run.
        sleep(ladder.moment_within(ladder.work / 2));
        run.child.kill().expect("SIGKILL is sent");
        ladder.tally.kills += 1;
        let ended = finish(run);
        ladder.count(&ended);
        let next = ladder.start();
        let well = finish(next);
        assert!(well.status.success(), "{}", well.status);
        ladder.expect(&[ended, well]);
    }
    ladder.ends_well();
}

fn remove(path: &Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => panic!("{}: {error}", path.display()),
    }
}
