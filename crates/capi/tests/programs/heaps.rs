//! Programs with heaps: what they keep, alone and with threads, killed and forked.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::rng::Rng;

use crate::build::{Built, build, good, run};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn a_program_counts_its_runs() {
    for how in [Built::C11, Built::Cxx17, Built::Static] {
        let program = build("counter.c", how);
        for tracking in ["pages", "verify", ""] {
            let folder = folder();
            let heap = folder.path().join("c.heap");
            for n in 1..4 {
                let mut command = Command::new(&program);
                command.arg(&heap).env("PERDURE_TRACK", tracking);
                assert_eq!(
                    good(&mut command),
                    format!("run {n}\n"),
                    "{how:?} {tracking}"
                );
            }
        }
    }
}

#[test]
fn both_headers_are_clean_in_both_languages() {
    for (language, standard) in [
        ("c", "c11"),
        ("c++", "c++17"),
        ("c", "c2x"),
        ("c++", "c++20"),
    ] {
        for header in ["perdure.h", "pma.h"] {
            let mut command = Command::new("cc");
            command.args([
                "-fsyntax-only",
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-x",
                language,
            ]);
            command.arg(format!("-std={standard}"));
            command.arg(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("include")
                    .join(header),
            );
            good(&mut command);
        }
    }
}

#[test]
fn threads_and_commits_make_cuts() {
    let program = build("threads.c", Built::C11);
    for tracking in ["pages", "verify"] {
        let folder = folder();
        let heap = folder.path().join("t.heap");
        for _ in 0..2 {
            good(
                Command::new(&program)
                    .arg(&heap)
                    .arg("2000")
                    .env("PERDURE_TRACK", tracking),
            );
        }
        let seen = good(Command::new(&program).arg(&heap).args(["0", "look"]));
        assert_eq!(seen, "16000\n");
    }
}

/// Killed at random moments: what the next run finds is a cut, and what was allocated and not committed is free again.
#[test]
fn a_killed_program_leaves_a_cut() {
    for media in ["files", "memory"] {
        killed(media);
    }
}

fn killed(media: &str) {
    let program = build("threads.c", Built::C11);
    let folder = match media {
        "memory" => tempfile::tempdir_in("/dev/shm").unwrap(),
        _ => folder(),
    };
    let heap = folder.path().join("t.heap");
    let command = || {
        let mut command = Command::new(&program);
        command.arg(&heap).env("PERDURE_MEDIA", media);
        command
    };
    let mut rng = Rng::new(Rng::seed_from_env());
    let kills = testkit::effort("PERDURE_KILLS", 30);
    let mut before = 0;
    for _ in 0..kills {
        let mut child = command()
            .arg("100000000")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(10_000 + rng.below(80_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = good(command().args(["0", "look"]));
        if !seen.is_empty() {
            let moves: u64 = seen.trim().parse().unwrap();
            assert!(moves >= before, "{moves} after {before}");
            before = moves;
        }
    }
    assert!(before > 0);
}

#[test]
fn a_child_keeps_the_state_of_the_fork() {
    let program = build("forks.c", Built::C11);
    for tracking in ["pages", "verify"] {
        let folder = folder();
        good(
            Command::new(&program)
                .arg(folder.path().join("f.heap"))
                .env("PERDURE_TRACK", tracking),
        );
    }
}

#[test]
fn a_program_for_pma_keeps_its_list() {
    let program = build("pma.c", Built::C11);
    let folder = folder();
    let heap = folder.path().join("p.heap");
    let list = |word: &str| good(Command::new(&program).arg(&heap).arg(word));
    assert_eq!(list(""), "1 \n");
    assert_eq!(list(""), "2 1 \n");
    assert_eq!(list("kill"), "3 2 1 \n");
    assert_eq!(list("commit"), "3 2 1 \n", "what was not committed is gone");
    assert_eq!(list("kill"), "4 3 2 1 \n", "and what was is there");
    let output = run(Command::new(&program).arg(&heap).arg("check"));
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no problem"), "{told}");
    // Ordinary memory without a file.
    assert_eq!(good(Command::new(&program).arg("-")), "1 \n");
    assert_eq!(good(Command::new(&program).arg("-")), "1 \n");
    let refused = run(Command::new(&program).arg("/nowhere/at/all"));
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/nowhere/at/all"));
}

/// Address space for more than 64 GiB is reserved when it is needed.
#[test]
#[expect(clippy::print_stderr, reason = "who runs the tests should know")]
fn blocks_of_a_heap_that_outgrew_its_first_reservation_are_as_good_as_any() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(build("large.c", Built::C11));
    let ran = run(command.arg(folder.path().join("large.heap")));
    if ran.status.code() == Some(77) {
        eprintln!("left out: this file system cannot give space back");
        return;
    }
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
}
