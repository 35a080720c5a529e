//! Programs that know nothing of us, with libperdure-preload.so: each msync is atomic.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;
use testkit::rng::Rng;

use crate::build::{Built, build, good, preload, run};

fn ledger() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| build("ledger.c", Built::ALONE))
}

/// The ledger under the library.
fn under(file: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(ledger());
    command
        .arg(file)
        .args(words)
        .env("LD_PRELOAD", preload())
        .env("PERDURE_FILES", "*.ledger");
    command.env("PERDURE_VERBOSE", "1");
    command
}

fn number(text: &str) -> u64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text:?}"))
}

fn beside(file: &Path) -> usize {
    let folder = std::fs::read_dir(file.parent().unwrap()).unwrap();
    folder.count() - 1
}

#[test]
fn every_msync_is_in_the_file_and_nothing_is_left_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    let told = good(&mut under(&file, &["run", "50"]));
    assert_eq!(told.lines().count(), 50);
    assert_eq!(beside(&file), 0, "what lay beside it is removed");
    assert_eq!(good(&mut under(&file, &["check"])), "51\n");
    // The same bytes for who knows nothing of it at all.
    assert_eq!(good(Command::new(ledger()).arg(&file).arg("check")), "51\n");
    good(&mut under(&file, &["grow"]));
    assert_eq!(good(&mut under(&file, &["check"])), "51\n");
    assert_eq!(beside(&file), 0);
}

#[test]
fn an_ordinary_end_keeps_what_was_stored_and_a_hard_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    good(&mut under(&file, &["run", "1"]));
    good(&mut under(&file, &["end", "exit"]));
    assert_eq!(good(&mut under(&file, &["check"])), "1002\n");
    good(&mut under(&file, &["end", "munmap"]));
    assert_eq!(good(&mut under(&file, &["check"])), "2002\n");
    good(&mut under(&file, &["end", "_exit"]));
    assert_eq!(good(&mut under(&file, &["check"])), "2002\n");
    assert_eq!(beside(&file), 0);
}

#[test]
fn other_files_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.other");
    good(&mut under(&file, &["end", "_exit"]));
    assert_eq!(
        good(&mut under(&file, &["check"])),
        "1001\n",
        "an ordinary mapping"
    );
}

/// Killed at random moments: the file is as of the last msync that returned, or of the one that was under way.
#[test]
fn a_killed_program_leaves_the_last_msync() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.ledger");
    let mut rng = Rng::new(Rng::seed_from_env());
    for _ in 0..testkit::effort("PERDURE_KILLS", 30) {
        let mut child = under(&file, &["run", "1000000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(5_000 + rng.below(60_000)));
        child.kill().unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines();
        let last = told.map_while(Result::ok).last();
        child.wait().unwrap();
        let found = number(&good(&mut under(&file, &["check"])));
        if let Some(last) = last {
            let last = number(&last);
            assert!(found == last || found == last + 1, "{found} after {last}");
        }
    }
}

#[test]
fn what_belongs_to_another_file_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.ledger");
    let mut child = under(&file, &["run", "1000000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("100\n") {
        line.clear();
        assert!(told.read_line(&mut line).unwrap() > 0);
    }
    // Another process cannot have it meanwhile.
    let busy = run(&mut under(&file, &["check"]));
    assert_eq!(busy.status.code(), Some(3), "{busy:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(beside(&file), 2);
    let copy = folder.path().join("copy");
    std::fs::copy(&file, &copy).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::fs::rename(&copy, &file).unwrap();
    let refused = run(&mut under(&file, &["check"]));
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{told}");
    assert!(
        told.contains("a.ledger") && told.contains("journal"),
        "{told}"
    );
}
