//! What a run shares with other processes by its descriptors: standard ones that are closed when it starts, and the heap's, whose
//! lock must not live on in a child.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Runs pmawk with arguments as a shell reads them.
fn shell(folder: &Path, arguments: &str) -> Output {
    let pmawk = env!("CARGO_BIN_EXE_pmawk");
    Command::new("sh")
        .args(["-c", &format!("echo line | exec '{pmawk}' {arguments}")])
        .current_dir(folder)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_closed_output_is_an_output_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    for closed in [">&-", ">&- <&-"] {
        let arguments = format!("--persist=h 'BEGIN {{ n = 1; print n }}' {closed}");
        let output = shell(folder.path(), &arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{closed}: {message}");
        assert!(message.contains("Bad file descriptor"), "{message}");
    }
    let output = shell(folder.path(), "--persist=h 'BEGIN { print n + 0 }'");
    assert_eq!(stdout(&output), "0\n", "nothing was committed");
}

#[test]
fn a_closed_input_is_an_input_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, status, printed) in [
        ("'{ print }' <&-", 2, ""),
        ("'{ print }' - <&-", 2, ""),
        ("'BEGIN { print getline }' <&-", 0, "-1\n"),
        ("'BEGIN { print (getline x < \"-\") }' <&-", 0, "-1\n"),
        ("'{ print }'", 0, "line\n"),
    ] {
        let output = shell(folder.path(), arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments}: {message}");
        assert_eq!(stdout(&output), printed, "{arguments}: {message}");
    }
}

#[test]
fn who_needs_no_closed_descriptor_does_not_mind() {
    let folder = tempfile::tempdir().unwrap();
    let output = shell(folder.path(), "--persist=h 'BEGIN { n = 7 }' <&- >&- 2>&-");
    assert_eq!(output.status.code(), Some(0));
    let output = shell(folder.path(), "--persist=h 'BEGIN { print n }'");
    assert_eq!(stdout(&output), "7\n");
}

#[test]
fn a_child_does_not_hold_the_heap() {
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    for program in [
        "--persist=h -l fork 'BEGIN { n++; if (fork() == 0) { system(\"sleep 20\"); exit } }' >/dev/null 2>&1",
        "--persist=h 'BEGIN { n++; system(\"sleep 20 &\") }' >/dev/null 2>&1",
    ] {
        let output = shell(folder.path(), program);
        assert_eq!(output.status.code(), Some(0), "{program}");
        let next = shell(
            folder.path(),
            "--persist=h --lock-timeout=0 'BEGIN { print n }'",
        );
        assert_eq!(next.status.code(), Some(0), "{program}: {}", stderr(&next));
    }
    assert!(
        begun.elapsed() < Duration::from_secs(15),
        "it waited for the child"
    );
    let output = shell(folder.path(), "--persist=h 'BEGIN { print n }'");
    assert_eq!(stdout(&output), "2\n");
}
