//! `--resume` under fire: a log that grows, is rotated, truncated and replaced, read by runs that are killed at random moments. In
//! the end every line has been counted exactly once. The writer does what writers do: it leaves lines half written, begins each
//! file with the same line, and goes on for a while in a file that was renamed, and logs are rotated while they are read.
//!
//! * `PERDURE_KILLS=500` sets the number of runs that may be killed (40).
//! * `PERDURE_TEST_SEED` repeats the writer's choices; the moments of the kills are the clock's.
#![allow(clippy::print_stdout)] // seeds and tallies are for people

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use testkit::rng::Rng;

/// Every line has a number of its own; `end` is printed when nothing is left to do but the commit.
const PROGRAM: &str = "!/^#/ { seen[$1]++; lines++ } END { printf \"end\" }";
/// Lines that were not counted once, and how many were. `last` is the number of the last one.
const CHECK: &str = r#"BEGIN {
    for (n = 1; n <= last + 1; n++) {
        times = n in seen ? seen[n] : 0
        if ((times != before || n > last) && n > 1 && before != 1) print "lines", first, "to", n - 1, "counted", before
        if (times != before || n == 1) first = n
        before = times
    }
    print lines + 0
}"#;

fn runs() -> u64 {
    testkit::effort("PERDURE_KILLS", 40)
}

struct Log {
    folder: PathBuf,
    file: File,
    written: u64,
    rotations: u64,
    /// The end of a line that is only half written.
    owed: String,
    /// The file was renamed, and the writer has not noticed yet.
    renamed: bool,
    /// What happened, for whoever looks for a line that was counted twice.
    story: Vec<String>,
}

/// Every file begins with it.
const HEADER: &str = "# number method path status\n";

impl Log {
    fn new(folder: &Path) -> Log {
        Log {
            folder: folder.to_path_buf(),
            file: append(&folder.join("log")),
            written: 0,
            rotations: 0,
            owed: String::new(),
            renamed: false,
            story: Vec::new(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn write(&mut self, rng: &mut Rng) {
        if self.renamed && rng.chance(2) {
            self.reopen();
        }
        let (mut text, first) = (std::mem::take(&mut self.owed), self.written + 1);
        if self.file.metadata().expect("the log's size").len() == 0 {
            text.push_str(HEADER);
        }
        for _ in 0..rng.below(2000) {
            self.written += 1;
            text.push_str(&format!(
                "{} GET /page/{} 200\n",
                self.written,
                rng.below(500)
            ));
        }
        // Every other time the last line comes in two pieces.
        if rng.chance(2) && text.len() > 10 {
            let cut = text.len() - 1 - rng.below(8) as usize;
            self.owed = text.split_off(cut);
        }
        self.file
            .write_all(text.as_bytes())
            .expect("the log takes lines");
        self.tell(&format!("lines {first} to {}", self.written));
    }

    fn tell(&mut self, what: &str) {
        let number = self.file.metadata().expect("the log's number").ino();
        self.story.push(format!("{what} (file {number})"));
    }

    fn finish_line(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        self.file
            .write_all(owed.as_bytes())
            .expect("the log takes a line's end");
    }

    /// Opens the file that has the log's name now.
    fn reopen(&mut self) {
        self.finish_line();
        self.file = append(&self.path());
        self.renamed = false;
        self.tell("opened");
    }

    /// The log becomes another file with the same lines, as after a restore.
    fn replace(&mut self) {
        let copy = self.folder.join("restored");
        fs::copy(self.path(), &copy).expect("copied");
        fs::rename(&copy, self.path()).expect("renamed");
        self.file = append(&self.path());
        self.tell("replaced");
    }

    fn rotate(&mut self, rng: &mut Rng) {
        if self.renamed {
            self.reopen();
        }
        self.rotations += 1;
        if rng.chance(2) {
            for n in (1..6).rev() {
                let _ = fs::rename(
                    self.folder.join(format!("log.{n}")),
                    self.folder.join(format!("log.{}", n + 1)),
                );
            }
            fs::rename(self.path(), self.folder.join("log.1")).expect("renamed");
            drop(append(&self.path()));
            self.renamed = true;
            self.tell("renamed");
        } else {
            self.finish_line();
            let copy = self
                .folder
                .join(format!("log-{}", 20_260_000 + self.rotations));
            fs::copy(self.path(), copy).expect("copied");
            self.file.set_len(0).expect("truncated");
            self.tell("copied and truncated");
        }
    }
}

fn append(path: &Path) -> File {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("a log")
}

fn pmawk(folder: &Path, program: &str, options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pmawk"));
    command
        .arg(format!("--persist={}", folder.join("h").display()))
        .args(options)
        .arg(program);
    command
}

fn checked(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    assert!(errors.is_empty(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn every_line_is_counted_exactly_once() {
    let seed = Rng::seed_from_env();
    println!("PERDURE_TEST_SEED={seed}");
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir().expect("a folder");
    let mut log = Log::new(folder.path());
    let (mut killed, mut again) = (0, 0);
    for run in 0..runs() {
        log.write(&mut rng);
        // Often several rotations between two runs that end well.
        if run > 0 && rng.chance(2) {
            log.rotate(&mut rng);
            // Now and then a run finds the new log empty, or only the old one written to.
            if rng.chance(2) {
                log.write(&mut rng);
            }
        }
        if !log.renamed && rng.chance(8) {
            log.replace();
        }
        let every = ["--commit-every=100", "--commit-every=1000", "--lazy"][rng.below(3) as usize];
        let mut child = pmawk(folder.path(), PROGRAM, &["--resume", every])
            .arg(log.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        if rng.chance(3) {
            // Meanwhile the log grows.
            log.write(&mut rng);
        }
        if run > 0 && rng.chance(6) {
            std::thread::sleep(Duration::from_micros(rng.below(4000)));
            log.rotate(&mut rng);
            log.tell("while it was read");
            log.write(&mut rng);
        }
        // The first run ends well: a job does not look for files that were rotated before it began.
        if run > 0 && run % 4 != 3 {
            std::thread::sleep(Duration::from_micros(rng.below(9000)));
            if child.kill().is_ok() {
                killed += 1;
            }
            child.wait().expect("waited for");
            log.tell(&format!("run {run} was killed, {every}"));
        } else if !child.wait().expect("waited for").success() {
            again += 1;
            log.tell(&format!("run {run} is to be done again"));
        } else {
            log.tell(&format!("run {run} ended"));
        }
    }
    log.reopen();
    let path = log.path();
    for _ in 0..2 {
        let mut last = pmawk(folder.path(), PROGRAM, &["--resume"]);
        assert_eq!(checked(last.arg(&path).output().expect("run")), "end");
    }
    let last = format!("--assign=last={}", log.written);
    let told = checked(pmawk(folder.path(), CHECK, &[&last]).output().expect("run"));
    println!(
        "{} lines, {} rotations, {killed} kills, {again} runs to be done again",
        log.written, log.rotations
    );
    let story = log.story.join("\n");
    assert_eq!(told, format!("{}\n", log.written), "{story}");
}

/// Names change while a run looks through the folder: what it finds is still all there is.
#[test]
fn a_rotation_in_the_middle_of_a_look_hides_no_file() {
    const FILES: u64 = 60;
    let seed = Rng::seed_from_env();
    println!("PERDURE_TEST_SEED={seed}");
    let mut rng = Rng::new(seed);
    for round in 0..testkit::effort("PERDURE_ROTATIONS", 30) {
        let folder = tempfile::tempdir().expect("a folder");
        let rotated = |n: u64| folder.path().join(format!("log.{n}"));
        let path = folder.path().join("log");
        let run = |options: &[&str]| {
            let mut run = pmawk(folder.path(), PROGRAM, &[&["--resume"], options].concat());
            run.arg(&path).stdout(Stdio::null());
            run.spawn().expect("started")
        };
        fs::write(&path, "0 GET\n").expect("written");
        assert!(run(&[]).wait().expect("waited for").success());
        for n in 1..=FILES {
            fs::write(rotated(n), format!("{n} GET\n")).expect("written");
        }
        let mut child = run(&["--lazy"]);
        std::thread::sleep(Duration::from_micros(rng.below(2500)));
        for n in (1..=FILES).rev() {
            fs::rename(rotated(n), rotated(n + 1)).expect("renamed");
        }
        assert!(child.wait().expect("waited for").success());
        let last = format!("--assign=last={FILES}");
        let told = checked(pmawk(folder.path(), CHECK, &[&last]).output().expect("run"));
        assert_eq!(told, format!("{}\n", FILES + 1), "round {round}");
    }
}
