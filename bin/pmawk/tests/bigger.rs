//! Heaps larger than memory: a control group bounds what pmawk may have, the heap outgrows it, and everything holds that holds
//! otherwise: a kill at any moment leaves the last commit, a whole run commits, queries answer.
//!
//! `PERDURE_BIGGER_MIB` sets the size of the heap (128; the bound is an eighth of it, but at least 32 MiB). It needs a control
//! group for memory that this user may make, root's as a rule; where there is none the test says so and passes.
#![allow(clippy::print_stdout)] // what was left out, seeds and tallies are for people

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use heap::{Cell, Heap, Options};
use testkit::rng::Rng;

const MIB: u64 = 1 << 20;
/// What a key takes in the heap, with its entry and its part of the index, about.
const KEY_BYTES: u64 = 440;
/// Keys in an order that jumps about; long ones, with a value each. The second run changes what the first one made.
const PROGRAM: &str = r#"
    function key(i) { return sprintf("%012d%s%d", i * 7919 % 1000000007, pad, i) }
    BEGIN {
        pad = sprintf("%370s", ""); gsub(/ /, "/", pad)
        for (i = 1; i <= n; i++) id[key(i)]++
        runs++
        if (show) print key(show), id[key(show)]
    }
"#;

/// A control group with a bound on memory; removed at the end.
struct Bound {
    folder: PathBuf,
    limit: &'static str,
}

impl Bound {
    fn new(bytes: u64) -> Option<Bound> {
        let name = format!("perdure-test-{}", std::process::id());
        let (root, limit) = if Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists() {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            ("/sys/fs/cgroup", "memory.max")
        };
        let folder = Path::new(root).join(name);
        fs::create_dir(&folder).ok()?;
        let bound = Bound { folder, limit };
        // Without the controller there is no such file.
        let is_there = bound.folder.join(limit).exists();
        (is_there && fs::write(bound.folder.join(limit), bytes.to_string()).is_ok())
            .then_some(bound)
    }

    fn pmawk(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(self.folder.join("cgroup.procs"))
            .arg(env!("CARGO_BIN_EXE_pmawk"))
            .args(arguments);
        command
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        for _ in 0..100 {
            if fs::remove_dir(&self.folder).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20)); // a killed process may still be going
        }
        println!("{} is left ({})", self.folder.display(), self.limit);
    }
}

/// The number of keys and of runs in the heap, after its check.
fn content(path: &Path) -> (u64, f64) {
    let heap = Heap::open(path, Options::snapshot()).expect("it opens");
    let report = heap.check().expect("it can be checked");
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    let globals = heap.root_find("awk.globals").expect("a heap of pmawk's");
    let globals = globals.expect("a heap of pmawk's");
    let cell = |name: &[u8]| {
        let slot = heap.find(globals, name).expect("whole")?;
        Some(heap.cell(slot).expect("whole"))
    };
    let Some(Cell::Table(id)) = cell(b"id") else {
        return (0, 0.0);
    };
    let runs = match cell(b"runs") {
        Some(Cell::Num(runs)) => runs,
        _ => 0.0,
    };
    (heap.table_len(id).expect("whole"), runs)
}

fn kill(mut child: Child) {
    child.kill().expect("killed");
    child.wait().expect("it ended");
}

#[test]
fn a_heap_outgrows_its_memory_and_a_kill_at_any_moment_leaves_the_last_commit() {
    let given = std::env::var("PERDURE_BIGGER_MIB").ok();
    let mib = given.map_or(128, |text| {
        text.parse::<u64>().expect("PERDURE_BIGGER_MIB is a number")
    });
    let limit_bytes = (mib / 8).max(32) * MIB;
    let Some(bound) = Bound::new(limit_bytes) else {
        println!("left out: no control group for memory can be made here");
        return;
    };
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let mut rng = Rng::new(seed);
    // Not in /tmp, which may be memory.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch folder");
    let path = folder.path().join("big.heap");
    let persist = format!("--persist={}", path.display());
    let keys = mib * MIB / KEY_BYTES;
    let run = |n: u64, show: u64| {
        let mut command = bound.pmawk(&[&persist]);
        command.args(["-v", &format!("n={n}"), "-v", &format!("show={show}")]);
        command.arg(PROGRAM).stdout(Stdio::piped());
        command
    };
    let whole = |n: u64, show: u64| {
        let started = Instant::now();
        let output = run(n, show).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        (text, started.elapsed())
    };
    whole(1000, 0);
    let mut took = Duration::from_secs(1 + mib / 100);
    for round in 1..=2 {
        let before = if round == 1 { 1000 } else { keys };
        for _ in 0..3 {
            let child = run(keys, 0).spawn().expect("it runs");
            let moment = Duration::from_millis(rng.below(took.as_millis() as u64));
            sleep(moment);
            kill(child);
            let found = content(&path);
            if found == (keys, f64::from(round) + 1.0) {
                println!("the run was faster than the kill after {moment:?}");
                took /= 2;
                // As if it had not been: the values are compared at the end.
                break;
            }
            assert_eq!(found, (before, f64::from(round)), "after {moment:?}");
            println!("run {round} was killed after {moment:?}, and the last commit is whole");
        }
        if content(&path).1 == f64::from(round) {
            took = whole(keys, 0).1;
            println!("run {round} of {keys} keys took {took:?}");
        }
        assert_eq!(content(&path), (keys, f64::from(round) + 1.0));
    }
    let size = fs::metadata(&path).expect("it is there").len();
    assert!(
        size > 7 * limit_bytes / 2,
        "{size} bytes are no test for {limit_bytes}"
    );
    let (text, _) = whole(1, keys);
    assert!(text.ends_with(" 2\n"), "{text}");
    let (text, _) = whole(0, 1);
    assert!(text.ends_with(" 4\n"), "{text}");
    println!(
        "{} MiB of heap in {} MiB of memory",
        size / MIB,
        limit_bytes / MIB
    );
}
