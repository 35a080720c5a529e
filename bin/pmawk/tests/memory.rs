//! Memory that the system refuses ends a run as every fatal error does: one line and status 2, and a heap is as of its last
//! commit.

use std::process::{Command, Output};

/// Runs pmawk in a shell that lets it have `limit_kb` of address space.
fn limited(limit_kb: u64, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args(["-c", "ulimit -v \"$0\" && exec \"$@\""])
        .arg(limit_kb.to_string())
        .env("LC_ALL", "C.UTF-8")
        .arg(env!("CARGO_BIN_EXE_pmawk"))
        .args(arguments)
        .output()
        .expect("sh runs")
}

fn is_out_of_memory(output: &Output) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("pmawk: out of memory: "), "{text}");
    assert!(text.contains(" bytes were refused"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn text_that_doubles_for_ever_is_a_fatal_error() {
    is_out_of_memory(&limited(
        1_000_000,
        &["BEGIN { x = \"a\"; while (1) x = x x }"],
    ));
}

#[test]
fn replacements_that_outgrow_memory_are_a_fatal_error() {
    let program = "BEGIN { x = sprintf(\"%100000s\", \"\"); y = x; gsub(/ /, x, y) }";
    is_out_of_memory(&limited(1_000_000, &[program]));
}

#[test]
fn a_heap_is_as_of_its_last_commit_after_memory_was_refused() {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let heap = format!("--persist={}", folder.path().join("a.heap").display());
    let first = limited(1_000_000, &[&heap, "BEGIN { n = 1 }"]);
    assert!(first.status.success(), "{first:?}");
    is_out_of_memory(&limited(
        1_000_000,
        &[&heap, "BEGIN { n = 2; x = \"a\"; while (1) x = x x }"],
    ));
    let after = limited(1_000_000, &[&heap, "BEGIN { print n }"]);
    assert_eq!(after.stdout, b"1\n", "{after:?}");
}

/// Nothing is said of a heap where there is none.
#[test]
fn arrays_that_fill_memory_are_a_fatal_error() {
    let program = "BEGIN { for (i = 0; ; i++) big[i] = i \" is kept in memory\" }";
    let output = limited(1_000_000, &[program]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("memory is full: "), "{text}");
    assert!(!text.contains("commit"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

/// As many patterns and formats as a program likes: what is kept compiled is bounded in bytes.
#[test]
fn patterns_and_formats_made_while_running_take_bounded_memory() {
    for program in [
        "BEGIN { for (i = 1; i <= 600; i++) n += sprintf(\"%500s\", i) ~ (\"[[:alpha:]]+ \\\\w{1,20}\" i) }",
        // Used so much that automata are built for them.
        "BEGIN { for (i = 1; i <= 100; i++) for (j = 1; j <= 40; j++) n += sprintf(\"%0500d\", i) ~ (\"\\\\w{1,20}x\" i) }",
        "BEGIN { s = sprintf(\"%1000000s\", 1); for (i = 1; i <= 600; i++) n += length(sprintf(s i)) }",
    ] {
        let output = limited(250_000, &[program]);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {text}");
    }
}
