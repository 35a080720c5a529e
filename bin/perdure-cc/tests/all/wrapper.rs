//! perdure-cc in clang's place: what it adds, what it leaves alone, what it says.

use crate::house::{BIN, House};
use std::process::{Command, Output};

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

const PROGRAM: &str = "#include \"heap.h\"\nint main(void) { long *p = perdure_alloc(80); p[3] = 1; perdure_commit(); return 7; }\n";

fn house(name: &str) -> House {
    let house = House::new(name);
    std::fs::write(house.folder.join("p.c"), PROGRAM).expect("a file");
    std::fs::copy(house.tests.join("heap.h"), house.folder.join("heap.h")).expect("a copy");
    house
}

fn run(house: &House, args: &[&str]) -> Output {
    house.cc().args(args).output().expect("perdure-cc starts")
}

fn done(house: &House, args: &[&str]) -> Output {
    let output = run(house, args);
    assert!(output.status.success(), "{args:?}: {}", texts(&output).1);
    output
}

#[test]
fn compiles_and_links_in_one_step_or_two() {
    let house = house("steps");
    done(
        &house,
        &[
            "-O2",
            "-fperdure-no-runtime",
            "p.c",
            "runtime.o",
            "-o",
            "one",
        ],
    );
    done(&house, &["-O2", "-c", "p.c"]);
    // Nothing of the first step's options is of use in the second: no warning about it, not even as an error.
    let output = done(
        &house,
        &[
            "-Werror",
            "-fperdure-no-runtime",
            "p.o",
            "runtime.o",
            "-o",
            "two",
        ],
    );
    assert_eq!(texts(&output).1, "");
    for program in ["one", "two"] {
        let output = Command::new(house.folder.join(program))
            .output()
            .expect("the program starts");
        assert_eq!(output.status.code(), Some(7));
        assert_eq!(texts(&output).1, "marks 1 unseen 0 idle 0\n");
    }
}

#[test]
fn is_clangxx_by_name() {
    let house = house("name");
    let link = house.folder.join("perdure-c++");
    std::os::unix::fs::symlink(BIN, &link).expect("a link");
    std::fs::write(
        house.folder.join("v.cc"),
        "#include <vector>\nint main() { std::vector<int> v(3); v.at(2) = 5; return v[2]; }\n",
    )
    .expect("a file");
    let output = Command::new(&link)
        .env("PERDURE_PASS", house.pass())
        .current_dir(&house.folder)
        .args(["-fperdure-no-runtime", "v.cc", "runtime.o", "-o", "v"])
        .output()
        .expect("perdure-c++ starts");
    assert!(output.status.success(), "{}", texts(&output).1);
    let status = Command::new(house.folder.join("v"))
        .status()
        .expect("the program starts");
    assert_eq!(status.code(), Some(5));
}

#[test]
fn cxx_programs_bring_the_instrumented_containers() {
    let house = house("containers");
    std::fs::write(
        house.folder.join("t.cc"),
        "#include <string>\nint main(int n, char **v) { std::string s(v[0]); s.append(n, 'x').reserve(99); return s.empty(); }\n",
    )
    .expect("a source");
    let name = house.folder.join("perdure-c++");
    std::os::unix::fs::symlink(BIN, &name).expect("a link");
    let words = ["-std=c++17", "-O1", "-fperdure-no-runtime", "-###", "t.cc"];
    let told = |program: &std::path::Path| {
        let output = std::process::Command::new(program)
            .args(words)
            .env("PERDURE_PASS", house.pass())
            .current_dir(&house.folder)
            .output()
            .expect("the wrapper");
        texts(&output).1
    };
    let archive = "libperdure-c++.a\" \"-lstdc++";
    assert!(told(&name).contains(archive), "{}", told(&name));
    assert!(!told(std::path::Path::new(BIN)).contains("libperdure-c++"));
}

#[test]
fn status_and_messages_are_clangs() {
    let house = house("status");
    std::fs::write(house.folder.join("bad.c"), "int f( { }\n").expect("a file");
    let output = run(&house, &["-c", "bad.c"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("bad.c:1:"),
        "{}",
        texts(&output).1
    );
    let output = run(&house, &["-E", "-P", "p.c"]);
    assert!(texts(&output).0.contains("perdure_alloc(80)"));
    let output = done(&house, &["-MM", "p.c"]);
    assert_eq!(texts(&output).0, "p.o: p.c heap.h\n");
    let output = done(&house, &["--version"]);
    assert!(texts(&output).0.contains("clang version 19"));
    let output = done(&house, &["--help"]);
    assert!(
        texts(&output).0.contains("-fperdure-stats") && texts(&output).0.contains("-fsyntax-only")
    );
}

#[test]
fn files_of_arguments_may_hold_options_of_ours() {
    let house = house("response");
    std::fs::write(
        house.folder.join("ours"),
        "-c 'p.c' -fperdure-stats\n-o \"a b.o\"",
    )
    .expect("a file");
    let output = done(&house, &["@ours"]);
    assert!(house.folder.join("a b.o").exists());
    assert!(
        texts(&output).1.contains("p.c"),
        "a table: {}",
        texts(&output).1
    );
    std::fs::write(house.folder.join("theirs"), "-c p.c -o t.o").expect("a file");
    done(&house, &["@theirs"]);
    assert!(house.folder.join("t.o").exists());
}

#[test]
fn statistics_add_up() {
    let house = house("stats");
    std::fs::write(
        house.folder.join("q.c"),
        "long g; void q(long *p, int n) { g = n; *p = n; for (int i = 0; i < n; i++) p[i] = 0; }\n",
    )
    .expect("a file");
    let output = done(&house, &["-O2", "-c", "p.c", "q.c", "-fperdure-stats"]);
    let table = texts(&output).1;
    let last: Vec<&str> = table
        .lines()
        .last()
        .expect("a table")
        .split_whitespace()
        .collect();
    assert_eq!(last.last(), Some(&"sum"), "{table}");
    let file = house.folder.join("stats.json");
    for source in ["p.c", "q.c"] {
        let output = done(&house, &["-O2", "-c", source, "-fperdure-stats=stats.json"]);
        assert_eq!(texts(&output).1, "");
    }
    let lines = std::fs::read_to_string(&file).expect("statistics");
    assert_eq!(lines.lines().count(), 2);
    let seen: u64 = lines
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let count = |name: &str| line[name].as_u64().expect("a number");
            let parts = [
                "inline",
                "merged",
                "redundant",
                "hoisted",
                "stack",
                "global",
                "fresh",
                "segment",
            ];
            assert_eq!(
                count("seen"),
                parts.iter().map(|p| count(p)).sum::<u64>(),
                "{line}"
            );
            count("seen")
        })
        .sum();
    assert_eq!(seen.to_string(), last[0]);
}

#[test]
fn verify_mode_is_asked_for_by_debugging_builds() {
    let house = house("verify");
    for (args, value) in [
        (&["-g"][..], "3"),
        (&["-g", "-DNDEBUG"], "1"),
        (&["-O2"], "1"),
        (&["-O2", "-fperdure-verify"], "3"),
        (&["-fperdure-no-verify"], "1"),
    ] {
        let mut words = vec!["-S", "-emit-llvm", "p.c", "-o", "-"];
        words.extend(args);
        let output = done(&house, &words);
        let wanted = format!("@__perdure_instrumented = weak constant i8 {value}\n");
        assert!(texts(&output).0.contains(&wanted), "{args:?}");
    }
}

#[test]
fn shared_objects_know_each_other() {
    let house = house("shared");
    std::fs::write(house.folder.join("l.c"), "void in_library(long *p) { p[9] = 4; }\nvoid (*pointer(void))(long *) { return in_library; }\n")
        .expect("a file");
    std::fs::write(
        house.folder.join("m.c"),
        "#include \"heap.h\"\nvoid in_library(long *); void (*pointer(void))(long *);\n\
         int main(void) { long *p = perdure_alloc(800); in_library(p); EXACT(); perdure_commit(); pointer()(p + 1); perdure_commit();\n\
         return perdure_unseen_commits(); }\n",
    )
    .expect("a file");
    for (library, unseen) in [("perdure-cc", 0), ("clang-19", 1)] {
        let mut compiler = if unseen == 0 {
            house.cc()
        } else {
            Command::new(library)
        };
        let status = compiler
            .current_dir(&house.folder)
            .args(["-O1", "-shared", "-fPIC", "l.c", "-o", "libl.so"])
            .args((unseen == 0).then_some("-fperdure-no-runtime"))
            .status()
            .expect("a compiler starts");
        assert!(status.success());
        for pie in ["-pie", "-no-pie"] {
            done(
                &house,
                &[
                    "-O1",
                    pie,
                    "-fperdure-no-runtime",
                    "m.c",
                    "runtime.o",
                    "-rdynamic",
                    "-L.",
                    "-ll",
                    "-Wl,-rpath,$ORIGIN",
                    "-o",
                    "m",
                ],
            );
            let output = Command::new(house.folder.join("m"))
                .output()
                .expect("the program starts");
            if unseen == 0 {
                assert_eq!(output.status.code(), Some(0), "{pie}: {}", texts(&output).1);
            } else {
                assert_eq!(
                    output.status.code(),
                    Some(3),
                    "{pie}: in_library is not seen: {}",
                    texts(&output).1
                );
            }
        }
    }
}

#[test]
fn a_main_without_instrumentation_is_noticed() {
    let house = house("main");
    std::fs::write(
        house.folder.join("part.c"),
        "void part(long *p) { p[1] = 2; }\n",
    )
    .expect("a file");
    std::fs::write(
        house.folder.join("main.c"),
        "#include \"heap.h\"\nvoid part(long *); int main(void) { long *p = perdure_alloc(80); part(p); p[4] = 4; perdure_commit(); \
         return perdure_unseen_commits(); }\n",
    )
    .expect("a file");
    done(&house, &["-c", "part.c"]);
    let status = Command::new("clang-19")
        .current_dir(&house.folder)
        .args(["main.c", "part.o", "runtime.o", "-o", "main"])
        .status()
        .expect("clang-19 starts");
    assert!(status.success());
    let output = Command::new(house.folder.join("main"))
        .output()
        .expect("the program starts");
    assert_eq!(output.status.code(), Some(1), "{}", texts(&output).1);
}

#[test]
fn link_time_optimization_needs_a_linker_that_loads_the_pass() {
    let house = house("lto");
    let output = run(&house, &["-flto", "-fuse-ld=bfd", "p.c", "runtime.o"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(texts(&output).1.contains("lld"), "{}", texts(&output).1);
    // The library of an archive, known after optimization only.
    let archive = Command::new("ar")
        .current_dir(&house.folder)
        .args(["rc", "libperdure.a", "runtime.o"])
        .status();
    assert!(archive.expect("ar").success());
    for lto in ["-flto", "-flto=thin"] {
        let output = house
            .cc()
            .env("PERDURE_LIB", &house.folder)
            .args(["-O2", lto, "p.c", "-lpthread", "-o", "p"])
            .output()
            .expect("perdure-cc starts");
        assert!(output.status.success(), "{}", texts(&output).1);
        let status = Command::new(house.folder.join("p"))
            .status()
            .expect("the program starts");
        assert_eq!(status.code(), Some(7));
    }
}

#[test]
fn says_what_is_missing() {
    let house = house("missing");
    let output = house
        .cc()
        .env("PERDURE_PASS", "/nowhere/pass.so")
        .args(["-c", "p.c"])
        .output()
        .expect("a start");
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(
        texts(&output).1,
        "perdure-cc: no pass at /nowhere/pass.so, where $PERDURE_PASS says it is\n"
    );
    let output = house
        .cc()
        .env("PERDURE_CLANG", "/nowhere/clang")
        .args(["-c", "p.c"])
        .output()
        .expect("a start");
    assert_eq!(
        texts(&output).1,
        "perdure-cc: no clang at /nowhere/clang, where $PERDURE_CLANG says it is\n"
    );
    let output = run(&house, &["-c", "-fperdure-stat", "p.c"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(texts(&output).1.contains("unknown option -fperdure-stat;"));
    let output = house
        .cc()
        .env("PERDURE_LIB", "/nowhere")
        .arg("p.c")
        .output()
        .expect("a start");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        texts(&output).1.contains("linked without libperdure"),
        "{}",
        texts(&output).1
    );
}
