//! Output that is lost: whatever the output, and whenever it is noticed, the run ends with status 2, a message that names the
//! output, and without a commit. `/dev/full` takes the place of a full disk.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn pmawk(heap: &Path, program: &str, stdout: Stdio, stderr: Stdio) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pmawk"))
        .arg(format!("--persist={}", heap.display()))
        .arg(program)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr)
        .output()
        .unwrap()
}

fn committed(heap: &Path) -> String {
    let out = pmawk(
        heap,
        "BEGIN { print x + 0 }",
        Stdio::piped(),
        Stdio::piped(),
    );
    String::from_utf8(out.stdout).unwrap()
}

/// Programs that write what is lost, and the name that their message has.
const PROGRAMS: [(&str, &str); 13] = [
    ("print \"a\"", "/dev/stdout"),
    ("print \"a\"; fflush()", "/dev/stdout"),
    ("print \"a\"; system(\"\")", "/dev/stdout"),
    ("print \"a\"; \"echo b\" | getline", "/dev/stdout"),
    ("print \"a\"; print \"b\" | \"cat\"", "/dev/stdout"),
    ("for (i = 0; i < 100000; i++) print i", "/dev/stdout"),
    (
        "for (i = 0; i < 100000; i++) { $0 = i; print }",
        "/dev/stdout",
    ),
    ("print \"a\" > \"/dev/stdout\"", "/dev/stdout"),
    ("print \"a\" > \"/dev/full\"", "/dev/full"),
    (
        "print \"a\" >> \"/dev/full\"; close(\"/dev/full\")",
        "/dev/full",
    ),
    ("print \"a\" > \"/dev/full\"; pm::commit()", "/dev/full"),
    (
        "print \"a\" > \"/dev/full\"; c = \"cat\"; print \"b\" |& c; c |& getline",
        "/dev/full",
    ),
    (
        "PROCINFO[\"/dev/other\", \"NONFATAL\"]; print \"a\" > \"/dev/full\"",
        "/dev/full",
    ),
];

#[test]
fn lost_output_is_no_success_and_no_commit() {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("heap");
    for (statements, name) in PROGRAMS {
        let program = format!("BEGIN {{ x = 1; {statements} }}");
        let out = pmawk(&heap, &program, full().into(), Stdio::piped());
        let message = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{statements}: {message}");
        assert!(message.contains(name), "{statements}: {message}");
        assert!(message.contains("No space left"), "{statements}: {message}");
        assert_eq!(committed(&heap), "0\n", "{statements}");
    }
}

#[test]
fn a_full_standard_error_is_no_success_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("heap");
    let program = "BEGIN { x = 1; print \"a\" > \"/dev/stderr\" }";
    let out = pmawk(&heap, program, Stdio::piped(), full().into());
    assert_eq!(out.status.code(), Some(2));
    assert_eq!(committed(&heap), "0\n");
}

#[test]
fn output_that_may_be_lost_does_not_keep_the_rest_from_the_heap() {
    let folder = tempfile::tempdir().unwrap();
    let heap = folder.path().join("heap");
    let program =
        "BEGIN { x = 1; PROCINFO[\"/dev/full\", \"NONFATAL\"]; print \"a\" > \"/dev/full\" }";
    let out = pmawk(&heap, program, Stdio::piped(), Stdio::piped());
    assert_eq!(out.status.code(), Some(0));
    assert_eq!(committed(&heap), "1\n");
}

/// A limit on the size of files takes the place of a full disk: `/dev/full` is no file that could be replaced.
#[test]
fn a_replacement_that_cannot_be_written_names_the_file_and_leaves_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("table");
    std::fs::write(&file, "a\nb\n").unwrap();
    let run = |program: &str| {
        let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
        Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_pmawk"), "-i", "inplace"])
            .args([program, "table"])
            .current_dir(folder.path())
            .output()
            .unwrap()
    };
    for program in [
        "{ printf \"%100000s\\n\", $0 }",
        "{ printf \"%20000s\\n\", $0 }",
        "{ printf \"%20000s\\n\", $0; system(\"\") }",
    ] {
        let out = run(program);
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{program}: {text}");
        assert!(
            text.contains("cannot write to \"table\""),
            "{program}: {text}"
        );
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{program}: {left:?}");
        assert_eq!(std::fs::read(&file).unwrap(), b"a\nb\n", "{program}");
    }
}
