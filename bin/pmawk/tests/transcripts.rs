//! README.md and the pages of docs/ tell the truth: the commands of their transcripts are run, and print what the page says they print.
//!
//! A transcript is a fenced block marked `console`. A line that starts with `$ ` is a command, `> ` continues it, and what follows
//! up to the next command is its output, both streams together. All blocks of a page run in one empty folder, in order; each
//! command in a bash of its own, so that `cd` and `export` do not last. Compared byte by byte, but for
//!
//! * a line `...`, which stands for any lines, or none;
//! * `...` within a line, which stands for any characters of the line;
//! * `real`, `user` and `sys` of bash's `time`, whose figures are not compared;
//! * `Killed`, which an interactive shell prints when SIGKILL ended a command.
#![allow(clippy::print_stdout)] // what was left out is said

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SIGKILL: i32 = 9;

/// A command of a transcript and what the page says it prints.
#[derive(Debug, Default, PartialEq)]
struct Step {
    /// Where the command stands, from 1.
    line: usize,
    command: String,
    expected: String,
}

/// The transcripts of a page, a list of steps for each.
fn transcripts(page: &str) -> Vec<Vec<Step>> {
    let mut blocks = Vec::new();
    let mut block: Option<Vec<Step>> = None;
    for (index, line) in page.lines().enumerate() {
        let Some(steps) = &mut block else {
            if line == "```console" {
                block = Some(Vec::new());
            }
            continue;
        };
        if line == "```" {
            blocks.extend(block.take());
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step {
                line: index + 1,
                command: command.to_string(),
                expected: String::new(),
            });
        } else {
            let step = steps
                .last_mut()
                .expect("a transcript starts with a command");
            match line.strip_prefix("> ") {
                Some(more) if step.expected.is_empty() => {
                    step.command.push('\n');
                    step.command.push_str(more);
                }
                _ => {
                    step.expected.push_str(line);
                    step.expected.push('\n');
                }
            }
        }
    }
    assert!(block.is_none(), "the last transcript has no end");
    blocks
}

/// Whether `line` is `pattern` with something in place of each `...`.
fn line_matches(pattern: &str, line: &str) -> bool {
    let is_time = |text: &str| {
        ["real\t", "user\t", "sys\t"]
            .iter()
            .any(|name| text.starts_with(name))
    };
    if is_time(pattern) && is_time(line) {
        return pattern[..4] == line[..4];
    }
    let Some((head, mut rest)) = pattern.split_once("...") else {
        return pattern == line;
    };
    let Some(mut line) = line.strip_prefix(head) else {
        return false;
    };
    while let Some((middle, after)) = rest.split_once("...") {
        let Some(at) = line.find(middle) else {
            return false;
        };
        line = &line[at + middle.len()..];
        rest = after;
    }
    line.ends_with(rest)
}

/// Whether the lines printed are those expected, with any lines in place of each line `...`.
fn matches(expected: &[&str], printed: &[&str]) -> bool {
    match (expected.first(), printed.first()) {
        (None, None) => true,
        (Some(&"..."), _) => {
            matches(&expected[1..], printed)
                || (!printed.is_empty() && matches(expected, &printed[1..]))
        }
        (Some(pattern), Some(line)) => {
            line_matches(pattern, line) && matches(&expected[1..], &printed[1..])
        }
        _ => false,
    }
}

/// The folder of pmawk, in which perdure is made, too; Cargo names a test only the programs of its own package.
fn programs() -> PathBuf {
    let pmawk = Path::new(env!("CARGO_BIN_EXE_pmawk"));
    let folder = pmawk.parent().expect("a program is in a folder");
    if !folder.join("perdure").exists() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--package", "perdure", "--target-dir"]);
        cargo.arg(
            folder
                .parent()
                .expect("a profile's folder is in the target folder"),
        );
        if folder.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(
            built.is_ok_and(|status| status.success()),
            "perdure cannot be built"
        );
    }
    folder.to_path_buf()
}

fn run(command: &str, folder: &Path, path: &str) -> String {
    let output = folder.join(".output");
    let file = File::create(&output).unwrap();
    let status = Command::new("bash")
        .args(["-c", command])
        .current_dir(folder)
        .env("PATH", path)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("PMAWK_HEAP")
        .env_remove("GAWK_PERSIST_FILE")
        .stdin(Stdio::null())
        .stdout(file.try_clone().unwrap())
        .stderr(file)
        .status()
        .expect("bash runs");
    let mut printed = Vec::new();
    File::open(&output)
        .unwrap()
        .read_to_end(&mut printed)
        .unwrap();
    let mut printed = String::from_utf8_lossy(&printed).into_owned();
    if status.signal() == Some(SIGKILL) {
        printed.push_str("Killed\n");
    }
    printed
}

/// Runs the transcripts of a page, whose place is given from the root of the project; gives back how many there are.
fn check_page(name: &str) -> usize {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name);
    let page = fs::read_to_string(page).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = format!(
        "{}:{}",
        programs().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let has_book = !run("command -v bible", folder.path(), &path).is_empty();
    let blocks = transcripts(&page);
    let block_count = blocks.len();
    let mut lies = Vec::new();
    for steps in blocks {
        if !has_book && steps.iter().any(|step| step.command.contains("book.")) {
            let line = steps[0].line;
            println!("{name}:{line}: not run: the book is not here (apt-get install bible-kjv)");
            continue;
        }
        for step in steps {
            let printed = run(&step.command, folder.path(), &path);
            let expected: Vec<&str> = step.expected.lines().collect();
            if !matches(&expected, &printed.lines().collect::<Vec<_>>()) {
                lies.push(format!(
                    "{name}:{}: {}\nsays:\n{}prints:\n{printed}",
                    step.line, step.command, step.expected
                ));
            }
        }
    }
    assert!(lies.is_empty(), "\n{}", lies.join("\n"));
    block_count
}

#[test]
fn the_transcripts_of_the_readme_are_true() {
    assert!(
        check_page("README.md") > 2,
        "README.md has lost its transcripts"
    );
}

#[test]
fn the_transcripts_of_the_manual_are_true() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut count = 0;
    for page in fs::read_dir(docs).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            count += check_page(&format!("docs/{name}"));
        }
    }
    assert!(count > 2, "the manual has lost its transcripts");
}

#[test]
fn a_transcript_is_read_as_a_terminal_shows_it() {
    let page = "text\n```console\n$ a '\n>   b'\nout\n> quoted\n$ c\n```\n```sh\n$ no\n```\n";
    let step = |line, command: &str, expected: &str| Step {
        line,
        command: command.into(),
        expected: expected.into(),
    };
    let steps = vec![step(3, "a '\n  b'", "out\n> quoted\n"), step(7, "c", "")];
    assert_eq!(transcripts(page), [steps]);
}

#[test]
fn only_what_is_marked_may_vary() {
    assert!(line_matches("took ... s", "took 3 s") && !line_matches("took ... s", "took 3 ms"));
    assert!(line_matches("a...b...c", "a1b2c") && !line_matches("a...b...c", "a1c"));
    assert!(
        line_matches("real\t0m0.1s", "real\t0m9.9s")
            && !line_matches("real\t0m0.1s", "user\t0m0.1s")
    );
    assert!(!line_matches("54", "55") && !line_matches("54", "54 "));
    assert!(matches(&["a", "...", "c"], &["a", "b", "b", "c"]) && matches(&["a", "..."], &["a"]));
    assert!(
        !matches(&["a", "...", "c"], &["a", "b"])
            && !matches(&["a"], &["a", "b"])
            && !matches(&["a"], &[])
    );
}
