//! `nearsh annotate`, by the real program: annotations that tell the truth, and lies of each kind that it must find.
//!
//! The invariant: of each lie exactly that is found, and nothing else.

#![allow(clippy::print_stderr)] // who runs the tests should know

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

const NEARSH: &str = env!("CARGO_BIN_EXE_nearsh");

/// What it printed, and its exit status; none where there can be no place for trials.
fn annotate(words: &[&str], folder: &Path) -> Option<(String, i32)> {
    let path = std::env::var("PATH").unwrap();
    let output = Command::new(NEARSH)
        .arg("annotate")
        .args(words)
        .current_dir(folder)
        .env("PATH", format!("{}/bin:{path}", folder.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let lacks = ["namespaces", "read-only", "cannot be watched"];
    if output.status.code() == Some(3) && lacks.iter().any(|what| text.contains(what)) {
        eprintln!("left out: {text}");
        return None;
    }
    Some((text, output.status.code().unwrap()))
}

/// The sentences about lies.
fn lies(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    lines.filter(|line| !line.starts_with("(use ")).collect()
}

/// A folder with a command `liar`, which is this script, and what is said of it.
fn liar(script: &str, said: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let program = bin.join("liar");
    let shell = if script.contains("/dev/tcp") {
        "bash"
    } else {
        "sh"
    };
    fs::write(&program, format!("#!/bin/{shell}\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let (top, of_use) = said.split_once("--\n").unwrap_or(("", said));
    let text = format!("names = [\"liar\"]\n{top}\n[[use]]\nname = \"it\"\n{of_use}\n");
    fs::write(folder.path().join("liar.toml"), text).unwrap();
    for name in ["there", "thereabouts"] {
        fs::write(folder.path().join(name), "b\na\n").unwrap();
    }
    folder
}

/// A script of which this is said lies so, and not in any other way; a mended annotation (or script) does not lie. `words`: one call's arguments.
fn found(script: &str, said: &str, words: &[&str], lie: &str, mended: (&str, &str)) {
    let check = |script: &str, said: &str| {
        let folder = liar(script, said);
        let annotation = format!("--annotation={}/liar.toml", folder.path().display());
        annotate(
            &[&[annotation.as_str(), "liar"], words].concat(),
            folder.path(),
        )
    };
    let Some((text, status)) = check(script, said) else {
        return;
    };
    assert_eq!(lies(&text), [lie], "{script}: {text}");
    assert_eq!(status, 1, "{text}");
    let (script, said) = mended;
    let (text, status) = check(script, said).unwrap();
    assert!(lies(&text).is_empty(), "{script}: {text}");
    assert_eq!(status, 0, "{text}");
}

#[test]
fn annotations_that_tell_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    // All of the project's take many minutes.
    let all = std::env::var_os("PERDURE_ANNOTATIONS").is_some();
    let names: Vec<&str> = if all {
        shell_exec::annotations::names().collect()
    } else {
        vec![
            "wc", "tee", "comm", "readlink", "yes", "env", "nice", "timeout", "find",
        ]
    };
    for name in names {
        let Some((text, status)) = annotate(&[name], folder.path()) else {
            return;
        };
        if all && text.ends_with(&format!("{name}: not found\n")) {
            continue;
        }
        assert!(
            text.ends_with(": the annotation told the truth\n"),
            "{text}"
        );
        assert!(all || !text.contains("no call of the use"), "{text}");
        assert_eq!(status, 0, "{text}");
    }
    // Nothing is left behind.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_the_users_folder_holds_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "b\na\n").unwrap();
    for words in [
        &["rm", "-f", "precious"][..],
        &["sort", "-o", "precious", "precious"],
        &["chmod", "000", "precious"],
        &["tee", "precious", "other"],
    ] {
        let Some((text, status)) = annotate(words, folder.path()) else {
            return;
        };
        assert_eq!(status, 0, "{text}");
        assert!(
            text.contains("1 call tried, 1 of them did what they should"),
            "{text}"
        );
        assert_eq!(fs::read(&precious).unwrap(), b"b\na\n");
        assert_eq!(
            precious.metadata().unwrap().permissions().mode() & 0o777,
            0o644
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn what_cannot_be_checked_is_said_to_be_unchecked() {
    let folder = liar("exit 7", "effect = 'pure'");
    let at = folder.path();
    let said = |words: &[&str]| annotate(words, at);
    assert_eq!(
        said(&[]).unwrap(),
        (
            "nearsh: annotate: which command? nearsh annotate sort\nTry \"nearsh --help\".\n"
                .into(),
            2
        )
    );
    let (text, status) = said(&["liar"]).unwrap();
    assert!(
        text.contains("there is no annotation of liar") && status == 3,
        "{text}"
    );
    let Some((text, status)) = said(&["sort", "--files0-from=x"]) else {
        return;
    };
    assert!(
        text.contains("does not describe this call") && status == 3,
        "{text}"
    );
    let (text, status) = said(&["--annotation=liar.toml", "sort"]).unwrap();
    assert!(text.contains("it is about liar") && status == 3, "{text}");
    fs::write(at.join("wrong.toml"), "names = ['liar']\neffekt = 'pure'\n").unwrap();
    let (text, status) = said(&["--annotation=wrong.toml", "liar"]).unwrap();
    assert!(text.contains("wrong.toml: ") && status == 3, "{text}");
    // It never does what it should: nothing follows from that.
    let (text, status) = said(&["--annotation=liar.toml", "liar"]).unwrap();
    assert!(
        text.contains("nothing can be said") && status == 3,
        "{text}"
    );
}

#[test]
fn files_that_are_said_to_be_texts() {
    let text = "operands = ['text']\nstdin = 'never'\neffect = 'pure'";
    let input = "operands = ['input']\nstdin = 'never'\neffect = 'pure'";
    let output = "operands = ['output']\nstdin = 'never'\neffect = 'idempotent'";
    found(
        "cat \"$1\"",
        text,
        &["there"],
        "reads there, which the annotation says is a text and no file",
        ("cat \"$1\"", input),
    );
    found(
        "test -e \"$1\"",
        text,
        &["there"],
        "looks at the file there, which the annotation says is a text and no file",
        ("test -e \"$1\"", input),
    );
    found(
        "echo x > \"$1\"",
        "operands = ['text']\nstdin = 'never'\neffect = 'idempotent'",
        &["new"],
        "writes new, which the annotation says is a text and no file",
        ("echo x > \"$1\"", output),
    );
}

#[test]
fn files_that_nothing_names() {
    let said = "operands = ['input']\nstdin = 'never'\neffect = 'pure'";
    found(
        "cat \"$1\" hidden",
        said,
        &["there"],
        "opens hidden, which the annotation finds no name of in the call",
        ("cat \"$1\"; echo hidden", said),
    );
    found(
        "cat \"$1\"; cat ~/.liarrc 2>/dev/null; true",
        said,
        &["there"],
        "opens ~/.liarrc, which the annotation finds no name of in the call",
        (
            "cat \"$1\"; cat ~/.liarrc 2>/dev/null; true",
            &format!("settings = ['.liarrc']\n--\n{said}"),
        ),
    );
    found(
        "cat \"$1\"; echo > made",
        said,
        &[],
        "writes made, which the annotation finds no name of in the call",
        ("cat \"$1\"; echo > made; rm made", said),
    );
    found(
        "cat \"$1\"; ls > /dev/null",
        said,
        &[],
        "lists the folder it is started in, which the annotation does not say",
        (
            "cat \"$1\"; ls > /dev/null",
            &format!("{said}\nfolder = 'reads'"),
        ),
    );
}

#[test]
fn files_that_are_used_otherwise_than_is_said() {
    found(
        "cat \"$1\" 2>/dev/null >&2; echo x > \"$1\"",
        "operands = ['output']\nstdin = 'never'\neffect = 'idempotent'",
        &["there"],
        "reads there, which the annotation says is only written",
        (
            "cat \"$1\" 2>/dev/null >&2; echo x > \"$1\"",
            "operands = ['update']\nstdin = 'never'\neffect = 'idempotent'",
        ),
    );
    found(
        "echo nothing of \"$#\"",
        "operands = ['input']\nstdin = 'never'\neffect = 'pure'",
        &["there"],
        "never touches there, which the annotation says is a file that it reads",
        (
            "echo nothing of \"$#\"",
            "operands = ['text']\nstdin = 'never'\neffect = 'pure'",
        ),
    );
    found(
        "cat \"$1\"; echo x >> \"$1\"",
        "operands = ['input']\nstdin = 'never'\neffect = 'once'",
        &["there"],
        "writes there, which the annotation says is only read",
        (
            "cat \"$1\"; echo x >> \"$1\"",
            "operands = ['update']\nstdin = 'never'\neffect = 'once'",
        ),
    );
}

#[test]
fn what_becomes_of_standard_input() {
    found(
        "cat",
        "stdin = 'never'\neffect = 'pure'",
        &[],
        "reads standard input, though the annotation says that it does not",
        ("cat", "effect = 'pure'"),
    );
    found(
        "echo a",
        "effect = 'pure'",
        &[],
        "does not read standard input, though the annotation says that it does",
        ("echo a", "stdin = 'never'\neffect = 'pure'"),
    );
    found(
        "read -r line; echo \"$line\"",
        "effect = 'pure'",
        &[],
        "ends before it has read all its input, which the annotation does not say (early)",
        (
            "read -r line; echo \"$line\"",
            "effect = 'pure'\nearly = true",
        ),
    );
}

#[test]
fn what_running_it_again_means() {
    let not_pure = "prints something else, or ends otherwise, when it runs again on another host a second later, though the annotation \
                    says it is pure";
    for script in ["cat; date +%s", "cat; uname -n", "cat; echo $$"] {
        found(
            script,
            "effect = 'pure'",
            &[],
            not_pure,
            (script, "effect = 'once'"),
        );
    }
    found(
        "echo x > \"$1\"",
        "operands = ['output']\nstdin = 'never'\neffect = 'pure'",
        &["new"],
        "leaves new behind, though the annotation says it is pure",
        (
            "echo x > \"$1\"",
            "operands = ['output']\nstdin = 'never'\neffect = 'idempotent'",
        ),
    );
    found(
        "echo x >> \"$1\"",
        "operands = ['update']\nstdin = 'never'\neffect = 'idempotent'",
        &["there"],
        "leaves another there behind when it runs twice, though the annotation says it is idempotent",
        (
            "echo x >> \"$1\"",
            "operands = ['update']\nstdin = 'never'\neffect = 'once'",
        ),
    );
}

#[test]
fn how_it_may_be_cut() {
    let lines = |line: usize| {
        format!(
            "its input cut before line {line}, what the parts print does not make the whole when it is put together as the annotation says (lines)"
        )
    };
    let of = |how: &str| format!("effect = 'pure'\nvolume = 'few'\nlines = '{how}'");
    found(
        "wc -l",
        &of("concat"),
        &[],
        &lines(2),
        ("wc -l", &of("sum")),
    );
    found(
        "LC_ALL=C sort",
        "effect = 'pure'\nlines = 'concat'",
        &[],
        &lines(2),
        (
            "LC_ALL=C sort \"$@\"",
            "effect = 'pure'\nlines = 'merge'\noperands = ['input*']",
        ),
    );
    // Equal lines stand where only some of the cuts fall.
    found(
        "uniq",
        "effect = 'pure'\nlines = 'concat'",
        &[],
        &lines(10),
        ("uniq", "effect = 'pure'\nlines = 'uniq'"),
    );
    let of = |status: &str| {
        format!("operands = ['input?']\neffect = 'pure'\nlines = 'concat'\nstatus = '{status}'")
    };
    found(
        "grep -a pear \"$@\"",
        &of("highest"),
        &[],
        "its input cut before line 2, the parts' exit statuses do not make the one of the whole (status)",
        ("grep -a pear \"$@\"", &of("found")),
    );
}

#[test]
fn how_its_files_may_be_given_one_by_one() {
    let of = |how: &str| {
        format!("operands = ['input*']\neffect = 'pure'\nvolume = 'few'\napart = '{how}'")
    };
    found(
        "cat \"$@\" | wc -l",
        &of("concat"),
        &[],
        "given its files one by one, what it prints does not make the whole when it is put together as the annotation says (apart)",
        ("cat \"$@\" | wc -l", &of("sum")),
    );
    let of = |status: &str| {
        format!(
            "operands = ['input*']\neffect = 'pure'\nvolume = 'few'\napart = 'concat'\nstatus = '{status}'"
        )
    };
    found(
        "grep -h pear \"$@\"",
        &of("highest"),
        &[],
        "given its files one by one, its exit statuses do not make the one of the whole (status)",
        ("grep -h pear \"$@\"", &of("found")),
    );
}

#[test]
fn what_its_output_depends_on() {
    let said = "operands = ['input']\nstdin = 'never'\neffect = 'pure'\nnames = 'always'";
    for (script, what, word) in [
        ("stat -c %Y \"$1\"", "the times of files", "times"),
        ("stat -c %a \"$1\"", "the permissions of files", "modes"),
        ("stat -c %h \"$1\"", "how many names a file has", "links"),
    ] {
        found(
            script,
            said,
            &[],
            &format!(
                "what it prints depends on {what}, which the annotation does not say (shows: {word})"
            ),
            (script, &format!("{said}\nshows = ['{word}']")),
        );
    }
    found(
        "wc -m",
        "effect = 'pure'\nvolume = 'few'",
        &[],
        "what it prints depends on LC_CTYPE, which the annotation does not say (locale)",
        (
            "wc -m",
            "locale = ['LC_CTYPE']\n--\neffect = 'pure'\nvolume = 'few'",
        ),
    );
}

#[test]
fn what_it_prints() {
    let of = |names: &str| format!("operands = ['input*']\neffect = 'pure'\nnames = '{names}'");
    let script = "for name; do echo \"$name\"; done; cat \"$@\"";
    let prints =
        |name: &str| format!("prints the name {name}, which the annotation does not say (names)");
    found(
        script,
        &of("several"),
        &["thereabouts"],
        &prints("thereabouts"),
        (script, &of("always")),
    );
    // One name may be printed of several files, and of one file none.
    found(
        script,
        &of("several"),
        &[],
        &prints("sample-one"),
        ("[ $# -lt 2 ] || echo \"$1\"; cat \"$@\"", &of("several")),
    );
    found(
        "sed 'p;p;p'",
        "effect = 'pure'\nvolume = 'less'",
        &[],
        "prints more than twice what it reads, though the annotation says less (volume)",
        ("sed 'p;p;p'", "effect = 'pure'\nvolume = 'more'"),
    );
    found(
        "cat",
        "effect = 'pure'\nvolume = 'few'",
        &[],
        "prints the more the more it reads, though the annotation says a few lines (volume)",
        ("cat", "effect = 'pure'"),
    );
    let said = "version = ['--version']\n--\nstdin = 'never'\neffect = 'pure'";
    found(
        "[ \"$1\" != --version ]",
        said,
        &[],
        "does not print a version",
        ("echo 1", said),
    );
}

#[test]
fn other_machines() {
    let said = "stdin = 'never'\neffect = 'pure'";
    found(
        "(exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null; true",
        said,
        &[],
        "asks for a connection to another machine",
        ("true /dev/tcp", said),
    );
}
