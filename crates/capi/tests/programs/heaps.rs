//! Programs with heaps: what they keep, alone and with threads, killed and forked.

use std::path::Path;
use std::process::Command;
use testkit::rng::Rng;

use crate::build::{Built, Compiler, Library, build, good, run, run_and_kill, tracking_compiler};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// AddressSanitizer and UndefinedBehaviorSanitizer: heaps lie where these have nothing.
const ASAN: Built = Built::sanitizing("address,undefined");
const SOME: [Built; 4] = [
    Built::C11,
    ASAN,
    Built::tracking("-O0"),
    Built::tracking("-O2"),
];

/// As anybody would build a program, and by perdure-cc: not optimised (which asks for verify mode), optimised, at link time.
const BUILDS: [Built; 9] = [
    Built::C11,
    ASAN,
    Built::CXX17,
    Built::STATIC,
    Built::tracking("-O0"),
    Built::tracking("-O2"),
    Built::tracking("-O2 -flto"),
    Built {
        is_cxx: true,
        ..Built::tracking("-O2")
    },
    Built {
        library: Library::Static,
        ..Built::tracking("-O2")
    },
];

/// The ways of tracking that such a program can be run with. "" is its own.
pub fn ways(how: Built) -> &'static [&'static str] {
    match how.by {
        Compiler::System | Compiler::Sanitizing(_) | Compiler::Clang(_) => &["pages", "verify"],
        Compiler::Tracking(_) => &["", "pages", "verify", "lines"],
    }
}

/// A program in a way of tracking: what the pass missed would be in `report`.
pub fn tracked(program: &Path, way: &str, report: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env("PERDURE_TRACK", way)
        .env("PERDURE_REPORT", report);
    command
}

/// Verify mode found nothing that marks alone would have lost, if there are marks at all.
pub fn assert_nothing_missed(how: Built, report: &Path) {
    if !matches!(how.by, Compiler::Tracking(_)) {
        return;
    }
    if let Ok(told) = std::fs::read_to_string(report) {
        panic!("the pass missed stores: {told}");
    }
}

#[test]
fn a_program_counts_its_runs() {
    for how in BUILDS {
        let program = build("counter.c", how);
        for tracking in ways(how) {
            let folder = folder();
            let heap = folder.path().join("c.heap");
            for n in 1..4 {
                let mut command = tracked(&program, tracking, &folder.path().join("report"));
                assert_eq!(
                    good(command.arg(&heap)),
                    format!("run {n}\n"),
                    "{how:?} {tracking}"
                );
            }
            assert_nothing_missed(how, &folder.path().join("report"));
        }
    }
}

/// Also there stores are tracked by lines: code by perdure-cc looks for heaps in the arena only.
#[test]
fn a_heap_that_lies_anywhere_keeps_what_is_stored() {
    for how in BUILDS {
        let program = build("anywhere.c", how);
        for way in ways(how) {
            let folder = folder();
            let (heap, report) = (folder.path().join("a.heap"), folder.path().join("report"));
            for n in 1..4 {
                let told = good(tracked(&program, way, &report).arg(&heap));
                assert_eq!(told, format!("{n}\n"), "{how:?} {way}");
            }
            assert_nothing_missed(how, &report);
        }
    }
}

#[test]
fn an_abort_undoes_what_could_not_be_seen() {
    for how in BUILDS {
        let program = build("undone.c", how);
        for way in ways(how) {
            let folder = folder();
            let (heap, report) = (folder.path().join("u.heap"), folder.path().join("report"));
            good(tracked(&program, way, &report).arg(&heap));
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
    for how in SOME {
        let program = build("threads.c", how);
        for way in ways(how) {
            let folder = folder();
            let (heap, report) = (folder.path().join("t.heap"), folder.path().join("report"));
            for _ in 0..2 {
                good(tracked(&program, way, &report).arg(&heap).arg("2000"));
            }
            let seen = good(
                tracked(&program, way, &report)
                    .arg(&heap)
                    .args(["0", "look"]),
            );
            assert_eq!(seen, "16000\n", "{how:?} {way}");
            assert_nothing_missed(how, &report);
        }
    }
}

/// Killed at random moments: what the next run finds is a cut, and what was allocated and not committed is free again.
#[test]
fn a_killed_program_leaves_a_cut() {
    killed(Built::C11, "pages", "files");
    killed(Built::C11, "pages", "memory");
}

#[test]
fn a_killed_program_that_marks_its_stores_leaves_a_cut() {
    // Also under AddressSanitizer with perdure-cc's own compiler: both passes at once.
    killed(Built::tracking("-O1 -fsanitize=address"), "lines", "files");
    killed(Built::tracking("-O2"), "lines", "files");
    killed(Built::tracking("-O2"), "lines", "memory");
    killed(Built::tracking("-O2"), "verify", "files");
    killed(Built::tracking("-O0"), "verify", "memory");
}

fn killed(how: Built, way: &str, media: &str) {
    let program = build("threads.c", how);
    let folder = match media {
        "memory" => tempfile::tempdir_in("/dev/shm").unwrap(),
        _ => folder(),
    };
    let (heap, report) = (folder.path().join("t.heap"), folder.path().join("report"));
    let command = || {
        let mut command = tracked(&program, way, &report);
        command.arg(&heap).env("PERDURE_MEDIA", media);
        command
    };
    let mut rng = Rng::new(Rng::seed_from_env());
    let kills = testkit::effort("PERDURE_KILLS", 30);
    let mut before = 0;
    for _ in 0..kills {
        run_and_kill(command().arg("100000000"), &mut rng);
        let seen = good(command().args(["0", "look"]));
        if !seen.is_empty() {
            let moves: u64 = seen.trim().parse().unwrap();
            assert!(moves >= before, "{moves} after {before}");
            before = moves;
        }
    }
    assert!(before > 0);
    assert_nothing_missed(how, &report);
}

#[test]
fn a_child_keeps_the_state_of_the_fork() {
    for how in SOME {
        let program = build("forks.c", how);
        for way in ways(how) {
            let folder = folder();
            let report = folder.path().join("report");
            good(tracked(&program, way, &report).arg(folder.path().join("f.heap")));
            assert_nothing_missed(how, &report);
        }
    }
}

#[test]
fn a_child_waits_for_no_thread_that_it_does_not_have() {
    for how in [Built::C11, Built::tracking("-O2")] {
        let folder = folder();
        let mut command = Command::new(build("crowd.c", how));
        good(command.arg(folder.path().join("c.heap")));
    }
}

/// A program without instrumented code reserves no cards but its heaps' (of these a byte for each 64 that are reserved), and still has those of a
/// library that marks its stores, when it loads one.
#[test]
fn a_library_that_marks_its_stores_may_come_when_a_heap_is_open() {
    let folder = folder();
    let library = folder.path().join("late_library.so");
    let mut command = tracking_compiler(false);
    command.args(["-O2", "-shared", "-fPIC", "-fperdure-no-runtime", "-o"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/late_library.c");
    good(command.arg(&library).arg(source));
    let program = build("late.c", Built::C11);
    for way in ["lines", "pages", "verify"] {
        let (heap, report) = (folder.path().join(way), folder.path().join("report"));
        let told = good(tracked(&program, way, &report).arg(&heap).arg(&library));
        let largest_gib: u64 = told.trim().parse().unwrap();
        assert!(largest_gib <= 64, "{way}: more than a heap: {largest_gib}");
    }
}

#[test]
fn a_program_for_pma_keeps_its_list() {
    for how in SOME {
        for way in ways(how) {
            keeps_its_list(how, way);
        }
    }
}

fn keeps_its_list(how: Built, way: &str) {
    let program = &build("pma.c", how);
    let folder = folder();
    let (heap, report) = (folder.path().join("p.heap"), folder.path().join("report"));
    let list = |word: &str| good(tracked(program, way, &report).arg(&heap).arg(word));
    assert_eq!(list(""), "1 \n");
    assert_eq!(list(""), "2 1 \n");
    assert_eq!(list("kill"), "3 2 1 \n");
    assert_eq!(list("commit"), "3 2 1 \n", "what was not committed is gone");
    assert_eq!(list("kill"), "4 3 2 1 \n", "and what was is there");
    assert_eq!(list("both"), "4 3 2 1 \n");
    assert_eq!(list("kill"), "105 104 3 2 1 \n", "also the end's");
    let output = run(tracked(program, way, &report).arg(&heap).arg("check"));
    assert!(output.status.success());
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("no problem"), "{told}");
    // Ordinary memory without a file.
    assert_eq!(good(Command::new(program).arg("-")), "1 \n");
    assert_eq!(good(Command::new(program).arg("-")), "1 \n");
    let refused = run(Command::new(program).arg("/nowhere/at/all"));
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("/nowhere/at/all"));
    assert_nothing_missed(how, &report);
}

/// What was stored without a mark is told with its place, to the program and to the file that the user names.
#[test]
fn verify_mode_tells_what_was_missed_and_where() {
    let program = build("missed.c", Built::C11);
    let folder = folder();
    let (heap, report) = (folder.path().join("m.heap"), folder.path().join("report"));
    let mut told = String::new();
    for word in ["5", "6"] {
        let mut command = Command::new(&program);
        command
            .args([heap.as_os_str(), word.as_ref()])
            .env("PERDURE_TRACK", "verify");
        told += &good(command.env("PERDURE_REPORT", &report));
        // The same, appended.
        assert_eq!(std::fs::read_to_string(&report).unwrap(), told);
    }
    let first = format!("\"{}\": 2 lines of 64 bytes stored to", heap.display());
    assert_eq!(told.matches(&first).count(), 2, "{told}");
}

/// Of lines that are missed again it is told which code stores there, and of code that marks what it stores nothing.
#[test]
#[expect(clippy::print_stderr, reason = "who runs the tests should know")]
fn verify_mode_tells_which_code_stores_without_marks() {
    if !may_watch_stores() {
        eprintln!("left out: this machine lets no process watch its own stores");
        return;
    }
    let program = build("missed_again.c", Built::C11);
    let folder = folder();
    let (heap, report) = (folder.path().join("m.heap"), folder.path().join("report"));
    good(tracked(&program, "verify", &report).arg(&heap).arg("3"));
    let told = std::fs::read_to_string(&report).unwrap();
    let prefix = format!("        stored to by {} 0x", program.display());
    let mut functions: Vec<String> = Vec::new();
    for address in told.lines().filter_map(|line| line.strip_prefix(&prefix)) {
        let mut command = Command::new("addr2line");
        command.args(["-f", "-e"]).arg(&program);
        let found = good(command.arg(address.split(' ').next().unwrap()));
        functions.extend(found.lines().next().map(String::from));
    }
    functions.sort_unstable();
    assert_eq!(
        functions,
        ["forgets_it_in_a_thread", "forgets_the_mark"],
        "{told}"
    );
}

/// Whether the kernel gives this process a debug register.
fn may_watch_stores() -> bool {
    let watched = 0u64;
    // perf_event_attr: a breakpoint for stores, 72 bytes, at each one, not in the kernel; its place and its length.
    let attributes: [u64; 9] = [
        5 | 72 << 32,
        0,
        1,
        0,
        0,
        1 << 5 | 1 << 6,
        2 << 32,
        (&raw const watched).addr() as u64,
        8,
    ];
    // SAFETY: reads the attributes, which are as long as they say.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) };
    if fd >= 0 {
        // SAFETY: a descriptor that was just made and is nobody else's.
        unsafe { libc::close(fd as i32) };
    }
    fd >= 0
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
