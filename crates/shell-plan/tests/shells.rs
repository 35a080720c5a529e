//! What bash itself takes an edited script for: every script of this machine, with a helper before all that is found.
//!
//! The parser that finds commands is not the shell. Here bash reads both texts and prints them, as the body of a function;
//! but for the helpers they must be one program, and the helpers must stand where bash begins a command.

#![allow(clippy::print_stdout)] // tallies are for people

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use shell_plan::script::{Doubt, Helper, Language, Origin, edit};

const HELPER: &str = "/opt/helper";

fn scripts() -> Vec<(PathBuf, Vec<u8>)> {
    let folders = [
        "/usr/bin",
        "/usr/sbin",
        "/usr/lib/git-core",
        "/etc/init.d",
        "/usr/share/doc",
        "/usr/local/bin",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/share/debconf",
        "/usr/lib/dpkg",
        "/etc/profile.d",
        "/var/lib/dpkg/info",
    ];
    let mut scripts = Vec::new();
    for folder in folders {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(text) = fs::read(entry.path()) else {
                continue;
            };
            let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let is_shell = first.starts_with(b"#!")
                && [&b"/sh"[..], b"bash", b"dash"]
                    .iter()
                    .any(|name| first.windows(name.len()).any(|w| w == *name));
            if is_shell && text.len() < 100_000 {
                scripts.push((entry.path(), text));
            }
        }
    }
    scripts
}

/// The text as bash prints it, if bash can read it.
fn printed(text: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    let mut whole = b"perdure_test() {\n".to_vec();
    whole.extend_from_slice(text);
    whole.extend_from_slice(b"\n}\ndeclare -f perdure_test\n");
    fs::write(&file, whole).unwrap();
    let run = Command::new("bash").arg(&file).output().unwrap();
    let is_read = run.status.success() && run.stderr.is_empty() && !run.stdout.is_empty();
    is_read.then(|| String::from_utf8_lossy(&run.stdout).into_owned())
}

/// Without the helpers, each of which must begin a command.
fn without(printed: &str) -> String {
    let mut rest = printed;
    let mut result = String::new();
    while let Some(at) = rest.find(HELPER) {
        result.push_str(&rest[..at]);
        let tag = &rest[at + HELPER.len() + 1..];
        assert!(tag.starts_with('@'), "a helper without its tag");
        rest = &tag[tag.find(' ').unwrap() + 1..];
    }
    result.push_str(rest);
    result
}

#[test]
fn bash_reads_an_edited_script_as_the_same_program() {
    let (mut edited_count, mut sites, mut doubts, mut differ) = (0, 0, 0, Vec::new());
    for (path, text) in scripts() {
        let helper = Helper {
            word: HELPER,
            session: 4711,
        };
        match edit(&text, Language::Bash, Origin::Text, helper, &|_| true) {
            Ok(edited) => {
                let (Some(before), Some(after)) = (printed(&text), printed(&edited.text)) else {
                    continue;
                };
                edited_count += 1;
                sites += edited.sites.len();
                if without(&after) != before {
                    differ.push(path);
                }
            }
            Err(Doubt::Differs) => differ.push(path),
            Err(doubt) => {
                doubts += 1;
                println!("{}: {doubt}", path.display());
            }
        }
    }
    println!("{edited_count} scripts edited at {sites} places; {doubts} in doubt");
    assert!(differ.is_empty(), "{differ:?}");
    assert!(edited_count > 10);
}
