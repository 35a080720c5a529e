//! Programs under ThreadSanitizer, which sees what threads do to the same memory without order: with the library, and the standard library in
//! it, instrumented as the programs are. Nothing is suppressed.

use crate::build::{Built, Library, build, good, run};
use crate::heaps::{assert_nothing_missed, tracked, ways};
use std::path::Path;
use std::process::Command;

/// By clang alone, and by perdure-cc with both passes at once.
const BUILDS: [Built; 3] = [
    plain("-O1 -fsanitize=thread"),
    tracking("-O0 -fsanitize=thread"),
    tracking("-O2 -fsanitize=thread"),
];

const fn plain(options: &'static str) -> Built {
    Built {
        by: crate::build::Compiler::Clang(options),
        library: Library::ForTsan,
        ..Built::C11
    }
}

const fn tracking(options: &'static str) -> Built {
    Built {
        library: Library::ForTsan,
        ..Built::tracking(options)
    }
}

/// What is found ends the program, with status 66.
fn watched(program: &Path, way: &str, report: &Path) -> Command {
    let mut command = tracked(program, way, report);
    command.env("TSAN_OPTIONS", "halt_on_error=1 exitcode=66");
    command
}

/// Runs the program of `source` twice, so that the second one finds what the first left.
fn is_clean(
    source: &str,
    name: &str,
    words: &[&str],
    ways_of: fn(Built) -> &'static [&'static str],
) {
    for how in BUILDS {
        let program = build(source, how);
        for way in ways_of(how) {
            let folder = tempfile::tempdir().unwrap();
            let report = folder.path().join("report");
            for _ in 0..2 {
                let path = folder.path().join(name);
                good(watched(&program, way, &report).arg(path).args(words));
            }
            if *way != "pages" {
                assert_nothing_missed(how, &report);
            }
        }
    }
}

#[test]
#[ignore = "needs a libperdure for ThreadSanitizer: ./x test --full"]
fn no_thread_races_with_another() {
    is_clean("threads.c", "t.heap", &["500"], ways);
    is_clean("together.c", ".", &["200"], ways);
    is_clean("crowd.c", "c.heap", &[], ways);
}

/// Where pages are tracked threads may store to a file during its sync.
#[test]
#[ignore = "needs a libperdure for ThreadSanitizer: ./x test --full"]
fn a_sync_of_a_file_does_not_race_with_stores() {
    is_clean("together.c", ".", &["200", "free"], |_| &["pages"]);
}

/// What is not seen when it is there is not seen: stores outside of sections, to the same heap.
#[test]
#[ignore = "needs a libperdure for ThreadSanitizer: ./x test --full"]
fn a_race_is_named() {
    for how in [
        plain("-O1 -fsanitize=thread -DRACE"),
        tracking("-O2 -fsanitize=thread -DRACE"),
    ] {
        let program = build("together.c", how);
        let folder = tempfile::tempdir().unwrap();
        let mut command = watched(&program, "pages", &folder.path().join("report"));
        let ran = run(command.arg(folder.path()).arg("400"));
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(66), "{how:?}: {told}");
        assert!(told.contains("data race"), "{told}");
    }
}
