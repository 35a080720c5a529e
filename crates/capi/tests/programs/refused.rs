//! What is refused: at once, without a trace, and in words that help.

use std::process::Command;

use crate::build::{Built, build, good, run};

/// Asks for it in a folder of its own, in which nothing but what the program made is left.
fn refused(how: Built, word: &str, left: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(build("refused.c", how));
    let told = good(command.current_dir(&folder).args(["a", word]));
    let mut names = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<String>>();
    names.sort_unstable();
    assert_eq!(names, left, "{how:?}");
    told
}

#[test]
fn a_descriptor_that_is_not_for_reading_and_writing_is_no_file_to_sync() {
    refused(Built::C11, "access", &["a"]);
}

#[test]
fn a_descriptor_of_another_file_than_the_paths_is_refused() {
    refused(Built::C11, "path", &["a"]);
}

#[test]
fn there_are_words_until_the_end_of_the_process() {
    for how in [
        Built::C11,
        Built::STATIC,
        Built::sanitizing("address,undefined"),
    ] {
        let told = refused(how, "message", &["a", "a.journal", "a.sums"]);
        assert_eq!(told, "the end\n", "{how:?}");
    }
}

#[test]
fn a_heap_that_is_full_says_what_it_has() {
    let heaps = [
        "a",
        "a.journal",
        "a.limited",
        "a.limited.journal",
        "a.limited.sums",
        "a.sums",
    ];
    refused(Built::C11, "full", &heaps);
}

#[test]
fn what_this_process_has_open_it_does_not_wait_for() {
    let left = ["a", "a.file", "a.journal", "a.sums"];
    for how in [Built::C11, Built::tracking("-O2")] {
        refused(how, "twice", &left);
    }
}

#[test]
fn limits_of_the_process_are_named() {
    refused(Built::C11, "limits", &["a", "a.journal", "a.sums"]);
}

#[test]
fn nobody_is_called_for_no_root() {
    refused(Built::C11, "nobody", &["a", "a.journal", "a.sums"]);
}

/// A program for pma learns of what cannot be freed.
#[test]
fn pma_says_what_is_no_block() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(build("pma.c", Built::C11));
    let output = run(command.arg(folder.path().join("p.heap")).arg("wrong"));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let said = told.matches("pma: ERROR: ").count();
    assert_eq!(said, 4, "{told}");
    for part in ["was freed", "not in this heap", "more bytes do not fit"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

/// memcheck runs programs of the system's compiler, and those by perdure-cc say at once how to have them run.
#[test]
#[expect(clippy::print_stderr, reason = "who runs the tests should know")]
fn memcheck_runs_ordinary_programs() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        eprintln!("left out: there is no valgrind");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let memcheck = |how: Built, options: &[&str]| {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9"]).args(options);
        command.arg(build("pma.c", how));
        run(command.arg(folder.path().join("v.heap")))
    };
    let by_perdure = memcheck(Built::tracking("-O2"), &[]);
    let told = String::from_utf8_lossy(&by_perdure.stderr).into_owned();
    assert_eq!(by_perdure.status.code(), Some(127), "{told}");
    assert!(told.contains("another compiler"), "{told}");
    let option = "--leak-check=no";
    assert!(told.contains(option), "{told}");
    let ordinary = memcheck(Built::C11, &[option]);
    let told = String::from_utf8_lossy(&ordinary.stderr).into_owned();
    assert_eq!(ordinary.status.code(), Some(0), "{told}");
    assert_eq!(ordinary.stdout, b"1 \n");
}
