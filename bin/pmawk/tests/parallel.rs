//! `-j N` gives what one process gives: output, messages, status, variables, heap. Chosen programs that must be shared, chosen
//! ones that must not, and random ones of which nobody knows.
//!
//! `PERDURE_PARALLEL_PROGRAMS` sets how many random ones (`./x test --full`: hundreds); seeds are printed.

#![allow(clippy::print_stdout)]

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::rng::Rng;

const AWK: &str = env!("CARGO_BIN_EXE_pmawk");

fn run(folder: &Path, options: &[&str], program: &str, operands: &[&str]) -> Output {
    Command::new(AWK)
        .args(options)
        .arg(program)
        .args(operands)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Lines of a few fields: a word of a drifting set, numbers of several kinds, a list.
fn lines(rng: &mut Rng, bytes: usize, with_fractions: bool) -> String {
    let mut text = String::new();
    let mut hot = 0;
    while text.len() < bytes {
        hot += rng.below(3);
        let word = hot / 50 + rng.below(40);
        let number = rng.below(2000) as i64 - 500;
        let _ = write!(text, "w{word} {number} {}", rng.below(100));
        match rng.below(if with_fractions { 30 } else { 20 }) {
            0 => text.push_str(" nan x"),
            1 => text.push_str(" 1e3"),
            2 => {}
            3..20 => {
                let _ = write!(text, " {} a,b{},c", rng.below(1 << 20), rng.below(9));
            }
            _ => {
                let _ = write!(text, " {}.25", rng.below(50));
            }
        }
        text.push('\n');
    }
    text
}

struct Inputs {
    folder: tempfile::TempDir,
}

impl Inputs {
    fn new(rng: &mut Rng) -> Inputs {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let whole = lines(rng, 700_000, false);
        put("whole", &whole);
        // Without a newline at its end.
        put("short", lines(rng, 90_000, false).trim_end());
        put("empty", "");
        put("mixed", &lines(rng, 500_000, true));
        put("stop", "w1\nw7\nw20\n");
        Inputs { folder }
    }

    /// Both ways, with what `-d` says of the variables.
    fn compare(&self, jobs: &str, options: &[&str], program: &str, operands: &[&str]) -> String {
        let folder = self.folder.path();
        let variables = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let alone = run(folder, &[options, &["-dalone"]].concat(), program, operands);
        let together = [options, &["-j", jobs, "--explain-parallel", "-dtogether"]].concat();
        let together = run(folder, &together, program, operands);
        let messages = String::from_utf8_lossy(&together.stderr).into_owned();
        let is_told = |line: &&str| line.starts_with("pmawk: -j: ");
        let told: Vec<&str> = messages.lines().filter(is_told).collect();
        let rest: Vec<&str> = messages.lines().filter(|line| !is_told(line)).collect();
        let expected = String::from_utf8_lossy(&alone.stderr);
        let expected: Vec<&str> = expected.lines().collect();
        let shown = format!("{jobs} {options:?} {program} {operands:?}: {told:?}");
        assert_eq!(rest, expected, "{shown}");
        assert_eq!(together.status, alone.status, "{shown}");
        assert!(
            together.stdout == alone.stdout,
            "{shown}\n{}\n{}",
            String::from_utf8_lossy(&alone.stdout),
            String::from_utf8_lossy(&together.stdout)
        );
        assert_eq!(variables("together"), variables("alone"), "{shown}");
        told.join("\n")
    }
}

const SHOW: &str =
    "\nEND { for (k in n) print k, n[k]; print NR, FNR, NF, $0, FILENAME, RSTART, RLENGTH }";

#[test]
fn what_can_be_shared_is_and_gives_the_same() {
    let inputs = Inputs::new(&mut Rng::new(1));
    for program in [
        "{ n[$1]++ }",
        "{ s += $2; c++; t = t + $3; d -= $3 } END { print s, c, t, d, s / c }",
        "BEGIN { s = 5; c = \"7x\" } { s += $2; c++ } END { print s, c }",
        "{ for (i = 1; i <= NF; i++) n[$i]++ }",
        "{ k = $1 SUBSEP $3; n[k] += $2; last = $1 }",
        "/w1/ { text = text $1 \",\" } { n[$1] = n[$1] \" \" $3 } END { print length(text), text }",
        "$3 > most { most = $3; line = $0; at = FNR } END { print most, line, at }",
        "{ if (low == \"\" || $2 < low) low = $2 } END { print low }",
        "{ if (!($1 in n) || $2 > n[$1]) n[$1] = $2 }",
        "{ n[$1] = $0; m[$3] }",
        "{ split($5, part, \",\"); n[part[2]]++ } END { print part[1] }",
        "match($0, /a,b[0-9]/) { n[substr($0, RSTART, RLENGTH)]++ }",
        "BEGIN { while ((getline w < \"stop\") > 0) stop[w] = 1 } !($1 in stop) { n[$1]++ }",
        "BEGIN { stop[\"w1\"] = 1; stop[\"w7\"] } { if (stop[$1]) c++ } END { print c; for (k in stop) print k }",
        "function add(k, by) { n[k] += by } { add($1, 1); add($3, 2) }",
        "FNR > 1 && NR % 2 { n[FILENAME]++; c += FNR; d += NR } END { print c, d }",
        "{ $2 = \"\"; sub(/w/, \"v\"); n[$1 NF]++ } END { print rand() }",
        "BEGIN { FS = \",\" } { n[$2]++ }",
        "BEGIN { n[\"w3\"] = 100; n[\"before\"] = 0.5 } { n[$1]++ }",
        "{ t = 0; for (i = 2; i <= 3; i++) t += $i / 2; if (t > most) most = t } END { print most, i, t }",
        "{ n[$1]++; next } { c++ } END { print c }",
        "{ s += $3 } END { print s }",
        "/w1/",
        "{ print $1, NR, FNR, FILENAME; c++ } END { print c }",
        "$2 > 0 { printf \"%d %s\\n\", $2, $1; n[$1]++ } /w2/",
        "$3 > most { most = $3; at = $0 } $2 > 1400 { print } END { print most, at }",
        "BEGIN { print \"before\"; print \"x\" | \"cat\"; close(\"cat\"); \"echo y\" | getline w } { n[$1]++ }",
    ] {
        for (jobs, operands) in [
            ("2", &["whole"][..]),
            ("3", &["whole", "empty", "short", "whole", "empty"]),
            ("7", &["c=1", "short", "short", "short", "short", "whole"]),
        ] {
            let told = inputs.compare(jobs, &[], &format!("{program} {SHOW}"), operands);
            let is_shared = told.contains("processes") && !told.contains("again");
            // The value that BEGIN gave is no whole number.
            let may_stay = program.contains("0.5") || program.contains("nan");
            assert!(is_shared || may_stay, "{program}: {told}");
        }
    }
}

#[test]
fn what_is_printed_comes_in_the_order_of_the_input_however_much_it_is() {
    let inputs = Inputs::new(&mut Rng::new(6));
    let operands = ["whole"; 50];
    for (program, jobs) in [
        (
            "$2 > 1200 { print FILENAME, FNR, $1; n[$1]++; c += $3 } END { print c }",
            "2",
        ),
        // The last wave is read by one process.
        (
            "$2 > 1200 { print NR } NR > 1300000 { c += 0.5 } END { print c }",
            "3",
        ),
    ] {
        let told = inputs.compare(jobs, &[], program, &operands);
        assert!(told.contains("put together"), "{told}");
    }
}

#[test]
fn what_goes_wrong_in_another_process_goes_wrong_in_its_place() {
    let inputs = Inputs::new(&mut Rng::new(2));
    for (program, why) in [
        ("{ s += $4 } END { print s }", "whole number"),
        ("{ n[$1] += $4 }", "whole number"),
        ("$4 > most { most = $4 } END { print most }", "not a number"),
        ("{ s += 1e300 } END { print s }", "whole number"),
        ("{ s += 9e14 } END { printf \"%d\\n\", s }", "whole number"),
        // An error in the last third of the input, with its record.
        ("NR == 30000 { n[1 / 0]++ } { c++ }", ""),
        (
            "{ n[$1]++; m[$1] = 1 } NR > 30000 { m[$1] = f(m) } function f(a) { return 1 }",
            "",
        ),
        ("{ c = sprintf(\"%z\", $1); n[c]++ }", ""),
    ] {
        let told = inputs.compare("3", &[], &format!("{program} {SHOW}"), &["whole", "mixed"]);
        assert!(told.contains(why), "{program}: {told}");
    }
}

#[test]
fn what_cannot_be_shared_is_read_by_one_process_and_the_reason_is_told() {
    let inputs = Inputs::new(&mut Rng::new(3));
    let whole = &["whole"][..];
    for (options, program, operands, why) in [
        (&[][..], "{ print $1 > \"made\" }", whole, "prints"),
        (&[], "!seen[$1]++ { n[$1]++ }", whole, "`seen` is read here"),
        (&[], "{ n[$1]++ }", &["short"], "too few"),
        (&[], "{ n[$1]++ }", &["whole", "x=1", "whole"], "assignment"),
        (&[], "{ n[$1]++ }", &[], "standard input"),
        (
            &[],
            "{ n[$1]++ }",
            &["whole", "missing"],
            "\"missing\" is not a regular file",
        ),
        (&[], "{ n[$1]++ }", &["whole", "/dev/null"], "/dev/null"),
        (&["-v", "RS="], "{ n[$1]++ }", whole, "RS"),
        (
            &[],
            "BEGIN { getline } { n[$1]++ }",
            whole,
            "BEGIN has read",
        ),
        (
            &[],
            "BEGIN { print \"x\" > \"made\" } { n[$1]++ }",
            whole,
            "to write to",
        ),
        (&["--csv"], "{ n[$1]++ }", whole, "RS"),
        (&["-M"], "{ n[$1]++ }", whole, "--bignum"),
        (&["--sandbox"], "{ n[$1]++ }", whole, "--sandbox"),
        (&["-I"], "{ n[$1]++ } END { exit }", &["stop"], "watches"),
        (
            &[],
            "BEGIN { most = \"text\" } $2 > most { most = $2 }",
            whole,
            "holds text",
        ),
        (
            &[],
            "BEGIN { n[1] } $2 > n[$1] { n[$1] = $2 }",
            whole,
            "not empty",
        ),
    ] {
        let told = inputs.compare("2", options, &format!("{program} {SHOW}"), operands);
        assert!(
            told.contains("one process") && told.contains(why),
            "{program}: {told}"
        );
    }
}

#[test]
fn a_heap_gets_what_several_processes_made() {
    let inputs = Inputs::new(&mut Rng::new(4));
    let folder = inputs.folder.path();
    let program = "{ n[$1]++; s += $2; last[$3] = $1; i = $3; if (seen[$1]) c++ }";
    let show = "END { print s, i, c; for (k in n) print k, n[k]; for (k in last) print k, last[k]; for (k in seen) print k }";
    let reading = |heap: &str| {
        let option = format!("--persist={heap}");
        let shown = run(folder, &[&option, "--snapshot"], show, &["/dev/null"]);
        assert!(shown.status.success(), "{shown:?}");
        shown.stdout
    };
    for round in 0..3 {
        for (heap, options) in [("one", &[][..]), ("four", &["-j4"])] {
            let option = format!("--persist={heap}");
            let made = run(
                folder,
                &[&[&*option], options].concat(),
                program,
                &["whole"],
            );
            assert!(made.status.success(), "{made:?}");
        }
        assert!(!reading("one").is_empty());
        assert!(reading("one") == reading("four"), "round {round}");
    }
    // What is there by now is no whole number.
    for heap in ["one", "four"] {
        let option = format!("--persist={heap}");
        run(
            folder,
            &[&option],
            "BEGIN { n[\"w5\"] += 0.1; s += 0.1 }",
            &[],
        );
    }
    for (heap, options) in [("one", &[][..]), ("four", &["-j4"])] {
        let option = format!("--persist={heap}");
        run(
            folder,
            &[&[&*option], options].concat(),
            program,
            &["whole"],
        );
    }
    assert!(reading("one") == reading("four"));
}

#[test]
fn a_process_that_is_killed_is_made_up_for() {
    let inputs = Inputs::new(&mut Rng::new(5));
    let folder = inputs.folder.path();
    let program = format!("{{ n[$1]++ }} {SHOW}");
    let alone = run(folder, &[], &program, &["whole", "mixed"]);
    let together = Command::new(AWK)
        .args(["-j3", &program, "whole", "mixed"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The first of its processes, as soon as there is one. (It may be through before: then nothing is made up for.)
    let pid = together.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    for _ in 0..100_000 {
        match std::fs::read_to_string(&children) {
            Ok(list) => {
                if let Some(child) = list.split_whitespace().next() {
                    let _ = Command::new("kill").args(["-KILL", child]).status();
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let together = together.wait_with_output().unwrap();
    assert!(together.status.success(), "{together:?}");
    assert!(together.stdout == alone.stdout);
}

/// Each of these once gave something else.
#[test]
fn what_was_once_wrong_is_right() {
    let inputs = Inputs::new(&mut Rng::new(7));
    let whole = &["whole"][..];
    for (program, operands) in [
        ("BEGIN { n[\"w90\"][\"q\"] = 1 } { n[$1]++ }", whole),
        ("BEGIN { n[\"w90\"][\"q\"] = 1 } { n[$1] = $2 }", whole),
        (
            "BEGIN { n[\"w90\"][\"q\"] = 1 } { n[$1] = n[$1] $2 }",
            whole,
        ),
        ("BEGIN { n[\"w90\"] = mkbool(1) } { n[$1]++ }", whole),
        ("{ c++ }", &["RS=5", "whole"]),
        ("{ c++ }", &["RS=", "whole"]),
        ("{ x = x (x = $1) } END { print length(x) }", whole),
        ("{ n[i] = n[i] (i = $1) }", whole),
        ("{ n[$1] = n[$1] ($1 = $2 % 5) }", whole),
        (
            "{ do { if ($2 % 2) continue; x = $3 } while ((n[NR] = x) == \"never\") }",
            whole,
        ),
        ("{ ENVIRON[$1]++ } END { print ENVIRON[\"w5\"] }", whole),
        (
            "{ if (PROCINFO[$1]) c++ } END { print length(PROCINFO) }",
            whole,
        ),
        (
            "{ ARGV[2] = \"\"; c++ } END { print c }",
            &["whole", "whole"],
        ),
        (
            "function f(p) { p[\"q\"]++ } { f(ENVIRON) } END { print ENVIRON[\"q\"] }",
            whole,
        ),
        (
            "function g(p, k) { p[k]++ } BEGIN { a[1][1] } { g(a[1], $1) } END { print a[1][\"w9\"] }",
            whole,
        ),
        (
            "function cmp(a, b, c, d) { calls++; return a < b ? -1 : a > b } \
             BEGIN { PROCINFO[\"sorted_in\"] = \"cmp\"; a[1]; a[2] } { for (k in a) c++ } END { print calls, c }",
            whole,
        ),
        (
            "{ if (m[n[\"z\" $1]] < length(n[\"y\" $1])) m[n[\"z\" $1]] = length(n[\"y\" $1]) }",
            whole,
        ),
        ("{ c += NR }", &["/proc/filesystems", "whole"]),
        (
            "{ if ($2 + 0 < -10000) m = $2 + 0 } { if ($3 < low) low = $3 } END { print m, low }",
            whole,
        ),
        (
            "BEGIN { x = m } { if ($2 + 0 < m) m = $2 + 0 } END { print m, typeof(m) }",
            whole,
        ),
        (
            "{ if (0 > m[$1]) m[$1] = 0 } END { for (k in m) print k, typeof(m[k]) }",
            whole,
        ),
    ] {
        inputs.compare("2", &[], &format!("{program} {SHOW}"), operands);
    }
    let folder = inputs.folder.path();
    for heap in ["one", "two"] {
        let option = format!("--persist={heap}");
        run(
            folder,
            &[&option, "-M"],
            "BEGIN { n[\"w90\"] = 2^70; last[\"w95\"][1] = 1 }",
            &[],
        );
    }
    for program in ["{ n[$1]++ }", "{ last[$1] = $2 }"] {
        let alone = run(folder, &["--persist=one"], program, whole);
        let shared = run(folder, &["--persist=two", "-j2"], program, whole);
        assert_eq!(alone.status, shared.status, "{program}");
        assert_eq!(
            String::from_utf8_lossy(&alone.stderr),
            String::from_utf8_lossy(&shared.stderr)
        );
    }
    let show = "BEGIN { print n[\"w90\"], length(n), isarray(last[\"w95\"]) }";
    let [one, two] = ["one", "two"].map(|heap| {
        let option = format!("--persist={heap}");
        run(folder, &[&option, "--snapshot"], show, &[]).stdout
    });
    assert_eq!(String::from_utf8_lossy(&one), String::from_utf8_lossy(&two));
    // Output that nobody takes is told of where one process tells it, and END runs.
    let full = |options: &[&str]| {
        let program =
            "BEGIN { print \"x\" } { n[$1]++ } END { print \"end\" > \"/dev/stderr\"; print NR }";
        let done = Command::new(AWK)
            .args(options)
            .args([program, "whole"])
            .current_dir(folder)
            .stdout(std::fs::File::create("/dev/full").unwrap())
            .output()
            .unwrap();
        (
            done.status,
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    assert_eq!(full(&["-j2"]), full(&[]));
}

// ---- random programs ----

fn one_of<'a>(rng: &mut Rng, all: &[&'a str]) -> &'a str {
    all[rng.below(all.len() as u64) as usize]
}

fn value(rng: &mut Rng) -> String {
    const VALUES: [&str; 14] = [
        "$1",
        "$2",
        "$3",
        "$NF",
        "NF",
        "1",
        "length($0)",
        "$2 * 2",
        "int($2 / 3)",
        "$1 $3",
        "toupper($1)",
        "FNR % 7",
        "t",
        "a",
    ];
    one_of(rng, &VALUES).to_string()
}

fn statement(rng: &mut Rng) -> String {
    let scalar = one_of(rng, &["a", "b", "c", "t"]);
    let array = one_of(rng, &["n", "m", "o"]);
    let (v, w) = (value(rng), value(rng));
    match rng.below(19) {
        0..3 => format!("{scalar} += {v}"),
        3 => format!("{scalar}++"),
        4..7 => format!("{array}[{v}]++"),
        7 => format!("{array}[{v}] += {w}"),
        // What is joined is short: a text that is joined to itself becomes as long as memory allows.
        8 => format!("{scalar} = {scalar} $1 \" \""),
        9 => format!("{array}[{v}] = {array}[{v}] $3"),
        10 => format!("if ({v} > {scalar}) {scalar} = {v}"),
        11 => format!("if ({scalar} == \"\" || {v} < {scalar}) {{ {scalar} = {v}; r = $0 }}"),
        12 => format!("if ({v} > {array}[{w}]) {array}[{w}] = {v}"),
        13 => format!("{scalar} = {v}"),
        14 => format!("{array}[{v}] = {w}"),
        15 => format!("for (i = 1; i <= NF; i++) {array}[$i]++"),
        17 => format!("print {v}, {w}"),
        16 => format!("if ({v} in {array}) {scalar}++"),
        _ => format!("t = {v}; {scalar} = {scalar} + t"),
    }
}

fn program(rng: &mut Rng) -> String {
    let mut text = String::new();
    if rng.chance(3) {
        let begin = [
            "a = 3",
            "a = -7; b = \"x\"",
            "n[\"w1\"] = 5; m[1] = 0.5",
            "c = 1.5",
        ];
        let _ = write!(text, "BEGIN {{ {} }} ", one_of(rng, &begin));
    }
    for _ in 0..1 + rng.below(2) {
        let pattern = ["", "", "", "NR > 5", "$2 > 0", "/w1/", "$1 in o"];
        let body: Vec<String> = (0..1 + rng.below(3)).map(|_| statement(rng)).collect();
        let _ = write!(text, "{} {{ {} }} ", one_of(rng, &pattern), body.join("; "));
    }
    text + "END { print a, b, c, t, i, r, NR, FNR, $0; for (k in n) print k, n[k]; for (k in m) print k, m[k]; \
            for (k in o) print k, o[k] }"
}

#[test]
fn random_programs_give_what_one_process_gives() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let wanted = std::env::var("PERDURE_PARALLEL_PROGRAMS");
    let count = wanted.ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut rng = Rng::new(seed);
    let inputs = Inputs::new(&mut rng);
    let (mut shared, mut again) = (0, 0);
    for _ in 0..count {
        let program = program(&mut rng);
        let file = if rng.chance(4) { "mixed" } else { "whole" };
        let jobs = one_of(&mut rng, &["2", "3", "5"]);
        let operands: &[&str] = if rng.chance(2) {
            &[file]
        } else {
            &["short", file, "short"]
        };
        let told = inputs.compare(jobs, &[], &program, operands);
        shared += u32::from(told.contains("put together"));
        again += u32::from(told.contains("again"));
    }
    println!("{count} programs, {shared} shared, {again} of them not to the end");
    assert!(shared > count / 20, "{shared} of {count} were shared");
}
