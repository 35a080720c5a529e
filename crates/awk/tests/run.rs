//! Small programs through the library: what they print, how they end, and what a heap keeps of them.

use std::cell::RefCell;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use awk::text::Charset;
use awk::{Error, Language, Setup};
use awk_syntax::Sources;
use heap::{Durability, Heap, Options};

#[derive(Clone, Default)]
struct Sink(Rc<RefCell<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn run_on(
    heap: Heap,
    program: &str,
    input: &str,
    operands: &[&str],
) -> (Result<i32, Error>, String) {
    let mut sources = Sources::default();
    sources.add("p.awk", program);
    let sink = Sink::default();
    let setup = Setup {
        operands: operands.iter().map(|o| o.as_bytes().to_vec()).collect(),
        environ: vec![(b"HOME".to_vec(), b"/root".to_vec())],
        stdin: Some(Box::new(std::io::Cursor::new(input.as_bytes().to_vec()))),
        durability: Durability::Lazy,
        ..Setup::new(Box::new(sink.clone()))
    };
    let result = awk::load(sources, &heap, Language::new(Charset::Utf8))
        .and_then(|loaded| awk::run(&loaded, heap, "test.heap", setup));
    let printed = String::from_utf8_lossy(&sink.0.borrow()).into_owned();
    (result, printed)
}

fn volatile(program: &str, input: &str) -> (Result<i32, Error>, String) {
    run_on(Heap::volatile().unwrap(), program, input, &[])
}

#[track_caller]
fn prints(program: &str, input: &str, expected: &str) {
    let (result, printed) = volatile(program, input);
    assert!(result.is_ok(), "{program}: {}", result.unwrap_err());
    assert_eq!(printed, expected, "{program}");
}

#[track_caller]
fn fails(program: &str, input: &str, message: &str) {
    let (result, _) = volatile(program, input);
    let error = result.expect_err(program).to_string();
    assert!(error.contains(message), "{program}: {error}");
}

#[test]
fn expressions_give_what_gawk_gives() {
    prints(
        "BEGIN { print 1 \" \" -1, 2^3^2, -2^2, 10 % 3, 7 % -3, -7 % 3, !0 + !1 }",
        "",
        "1 -1 512 -4 1 1 -1 1\n"
            .replace("1 -1 512", "1-1 512")
            .as_str(),
    );
    prints(
        "BEGIN { x; print x == 0, x == \"\", length(x), x + 0 }",
        "",
        "1 1 0 0\n",
    );
    prints(
        "BEGIN { a = \"A\"; b = a (a = \"B\"); print b; i = 5; print i i++ i }",
        "",
        "AB\n556\n",
    );
    prints("{ print $1 ($1 = \"q\") $1 }", "x y\n", "xqq\n");
    prints(
        "{ print ($1 < $2), ($1 < \"9\"), ($3 == 1) }",
        "10 9 1.0\n",
        "0 1 1\n",
    );
    prints(
        "BEGIN { s = \"x\"; for (i = 0; i < 100; i++) s = s i; t = s; s = s \"!\"; print length(s) - length(t), substr(s, 1, 4) }",
        "",
        "1 x012\n",
    );
    prints(
        "BEGIN { print 1e6, 0.1 + 0.2, 1e300 * 1e10, 100000 * 100000, 3.0 \"\" }",
        "",
        "1000000 0.3 +inf 10000000000 3\n",
    );
    prints(
        "BEGIN { $3 = \"c\"; print; print NF; NF = 2; print; $0 = \"a b\"; print $2 }",
        "",
        "  c\n3\n \nb\n",
    );
    prints(
        "BEGIN { printf \"%s|%5.2f|%-4d|%c%c|%%\\n\", \"s\", 3.14159, 42, 65, \"hello\" }",
        "",
        "s| 3.14|42  |Ah|%\n",
    );
}

#[test]
fn assignment_computes_its_right_side_first() {
    prints(
        "function g() { printf \"g \"; return 1 } function h() { printf \"h \"; return 2 } BEGIN { a[g()] = h(); print a[1] }",
        "",
        "h g 2\n",
    );
    prints(
        "BEGIN { i = 1; a[i++] += i; for (k in a) print k, a[k] }",
        "",
        "1 1\n",
    );
}

#[test]
fn arrays_pass_by_reference_and_locals_stay_local() {
    prints(
        "function f(a) { a[1] = 5 } BEGIN { f(x); print x[1], length(x) }",
        "",
        "5 1\n",
    );
    prints(
        "function f(n,  t) { t[n] = n; if (n > 0) f(n - 1); return length(t) } BEGIN { print f(50) }",
        "",
        "1\n",
    );
    prints(
        "function f(a, b) { if (b) a[1] = 1; else print \"[\" a \"]\" } BEGIN { f(x, 1); f(y, 0); for (k in x) print \"k\" k }",
        "",
        "[]\nk1\n",
    );
    prints(
        "function g(t) { return h(t) } function h(u) { u[\"z\"]; return 1 } function f(  loc) { g(loc); return length(loc) } BEGIN { print f(), f() }",
        "",
        "1 1\n",
    );
    prints(
        "function r(n) { return n == 0 ? 0 : 1 + r(n - 1) } BEGIN { print r(200000) }",
        "",
        "200000\n",
    );
    prints(
        "BEGIN { a[1]; a[2]; for (k in a) { delete a; n++ } print n, length(a) }",
        "",
        "2 0\n",
    );
    prints(
        "BEGIN { SUBSEP = \":\"; a[1, 2] = 3; for (k in a) print k; print ((1, 2) in a), (1 in a) }",
        "",
        "1:2\n1 0\n",
    );
}

#[test]
fn split_leaves_exactly_the_parts() {
    prints(
        "BEGIN { a[\"x\"]; a[7]; print split(\"p q r\", a), length(a), a[3]; print split(\"s\", a), length(a), a[1], (2 in a); print split(\"\", a), length(a) }",
        "",
        "3 3 r\n1 1 s 0\n0 0\n",
    );
    prints(
        "BEGIN { for (i = 0; i < 100; i++) a[i]; print split(\"a:b\", a, \":\"), length(a), (0 in a); print split(\"abc\", a, \"\"), a[3] }",
        "",
        "2 2 0\n3 c\n",
    );
}

#[test]
fn substitution_follows_the_rules_of_ampersand_and_empty_matches() {
    prints(
        "BEGIN { s = \"abc\"; n = gsub(/x*/, \"-\", s); print n, s; t = \"abb\"; gsub(/b*/, \"X\", t); print t }",
        "",
        "4 -a-b-c-\nXaX\n",
    );
    prints(
        "BEGIN { s = \"hello\"; sub(/l+/, \"[&]\", s); print s; sub(/\\[/, \"\\\\&\", s); print s; gsub(/o/, \"\\\\\\\\&\", s); print s }",
        "",
        "he[ll]o\nhe&ll]o\nhe&ll]\\o\n",
    );
    prints(
        "{ n = gsub(/a/, \"b\"); print n, $0, $1; sub(/b/, \"c\", $2); print; i = 1; sub(/b/, \"z\", $(i++)); print $1, i }",
        "a a\n",
        "2 b b b\nb c\nz 2\n",
    );
    prints(
        "BEGIN { a[1] = \"xx\"; i = 1; print gsub(/x/, \"y\", a[i++]), a[1], i; print gsub(/q/, \"y\", a[i++]), i }",
        "",
        "2 yy 2\n0 3\n",
    );
}

#[test]
fn input_flows_through_operands_getline_and_end() {
    prints(
        "{ last = $0 } END { print NR, $0, NF, last }",
        "a b\nc d e\n",
        "2 c d e 3 c d e\n",
    );
    prints(
        "NR == 1 { getline; print; getline x; print x, $0, NR } END { print NR }",
        "a\nb\nc\nd\n",
        "b\nc b 3\n4\n",
    );
    prints(
        "BEGIN { while ((getline line) > 0) n++; print n, line } END { print NR }",
        "a\nb\n",
        "2 b\n2\n",
    );
    prints(
        "BEGIN { \"echo one two\" | getline; print $2; print close(\"echo one two\"), close(\"nothing\") }",
        "",
        "two\n0 -1\n",
    );
    prints(
        "/b/, /c/ { print NR \":\" $0 } $1 == \"d\" { next } { n++ } END { print n }",
        "a\nb\nx\nc\nd\n",
        "2:b\n3:x\n4:c\n4\n",
    );
    prints(
        "{ FS = \":\"; print $1 } END { print NR }",
        "a:b c\na:b c\n",
        "a:b\na\n2\n",
    );
    let (result, printed) = run_on(
        Heap::volatile().unwrap(),
        "{ print x, $0 } END { print x, ARGC, ARGV[1] }",
        "line\n",
        &["x=1", "-", "x=\\t2"],
    );
    assert!(result.is_ok());
    assert_eq!(printed, "1 line\n\t2 4 x=1\n");
}

#[test]
fn exit_runs_end_and_gives_its_status() {
    let (result, printed) = volatile("BEGIN { exit 3 } END { print \"end\"; exit }", "");
    assert_eq!((result.unwrap(), printed.as_str()), (3, "end\n"));
    let (result, _) = volatile("function f() { exit 4 } { f() }", "a\n");
    assert_eq!(result.unwrap(), 4);
}

#[test]
fn errors_say_where_in_program_and_data() {
    fails(
        "{ x = $1\n  y = 1 / x }",
        "4\n0\n",
        "p.awk:2:7: division by zero (record 2 of standard input)",
    );
    fails(
        "BEGIN { print $(-1) }",
        "",
        "p.awk:1:15: attempt to access field -1",
    );
    fails("BEGIN { NF = -1 }", "", "NF set to a negative value");
    fails(
        "function f(a) { return a + 1 } function g(b) { b[1]; f(b) } BEGIN { g(x) }",
        "",
        "attempt to use array `a` in a scalar context",
    );
    fails(
        "function f(a, n) { if (n) a[1]; else a = 1 } BEGIN { f(x, 1); f(1, 1) }",
        "",
        "attempt to use scalar `a` as an array",
    );
    fails(
        "BEGIN { printf \"%s %s\\n\", \"a\" }",
        "",
        "not enough arguments",
    );
    fails(
        "BEGIN { r = \"(\"; if (\"a\" ~ r) print }",
        "",
        "regular expression /(/",
    );
    fails("BEGIN { print \"x\" > \"\" }", "", "empty string");
    fails(
        "function f() { next } BEGIN { f() }",
        "",
        "`next` cannot be called from a BEGIN rule",
    );
    fails(
        "BEGIN { x = /(/ }",
        "",
        "p.awk:1:13: regular expression /(/",
    );
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn open(path: &Path, options: Options) -> Heap {
    Heap::open(path, options).unwrap()
}

#[track_caller]
fn keeps(path: &Path, program: &str, expected: &str) {
    let (result, printed) = run_on(open(path, Options::writer()), program, "", &[]);
    assert!(result.is_ok(), "{program}: {}", result.unwrap_err());
    assert_eq!(printed, expected, "{program}");
}

#[test]
fn scalars_arrays_and_functions_outlive_the_run() {
    let folder = folder();
    let path = folder.path().join("a.heap");
    keeps(
        &path,
        "BEGIN { x = 47; a[\"k\"] = \"v\"; a[2] = 3 } function double(n) { return 2 * n }",
        "",
    );
    keeps(
        &path,
        "BEGIN { x += 7; print x, a[\"k\"], length(a), double(4); delete a[2]; NR = 9 }",
        "54 v 2 8\n",
    );
    keeps(
        &path,
        "BEGIN { print x, length(a), NR } function quad(n) { return double(double(n)) }",
        "54 1 0\n",
    );
    keeps(
        &path,
        "BEGIN { print quad(1) } function double(n) { return 3 * n }",
        "9\n",
    );
    keeps(&path, "BEGIN { print quad(1); exit 1 }", "9\n");
}

#[test]
fn a_failed_run_and_a_snapshot_change_nothing() {
    let folder = folder();
    let path = folder.path().join("a.heap");
    keeps(&path, "BEGIN { x = 1; a[1] = 1 }", "");
    let (result, _) = run_on(
        open(&path, Options::writer()),
        "BEGIN { x = 2; a[2] = 2; delete a[1]; print 1 / 0 }",
        "",
        &[],
    );
    assert!(result.is_err());
    let (result, printed) = run_on(
        open(&path, Options::snapshot()),
        "BEGIN { x = 3; a[3]; print x, length(a) }",
        "",
        &[],
    );
    assert!(result.is_ok());
    assert_eq!(printed, "3 2\n");
    keeps(&path, "BEGIN { print x, length(a), a[1] }", "1 1 1\n");
}

#[test]
fn a_variable_of_another_kind_is_refused_by_name() {
    let folder = folder();
    let path = folder.path().join("a.heap");
    keeps(
        &path,
        "BEGIN { n[1] = 1; s = 2 } function f() { return 1 }",
        "",
    );
    for (program, message) in [
        (
            "BEGIN { n = 1 }",
            "p.awk:1:9: heap \"test.heap\" holds \"n\" as an array; this program uses it as a scalar",
        ),
        (
            "BEGIN { s[1] }",
            "holds \"s\" as a scalar; this program uses it as an array",
        ),
        (
            "BEGIN { f = 1 }",
            "holds \"f\" as a function; this program uses it as a variable",
        ),
        (
            "function s() { }",
            "holds \"s\" as a variable; this program uses it as a function",
        ),
    ] {
        let (result, _) = run_on(open(&path, Options::writer()), program, "", &[]);
        let error = result.expect_err(program).to_string();
        assert!(error.contains(message), "{program}: {error}");
    }
    keeps(&path, "BEGIN { print n[1], s, f() }", "1 2 1\n");
}

#[test]
fn an_untyped_variable_becomes_an_array_through_untyped_parameters() {
    prints(
        "function f(a, n) { if (n) a[1] = 1; else return a } BEGIN { f(x, 1); print length(x); f(y, 0); print length(y) }",
        "",
        "1\n0\n",
    );
    prints(
        "function f(a, n) { if (n) a[n] = 1; else return a } function g(b, n) { f(b, n); f(b, n + 1) } BEGIN { g(x, 1); print length(x) }",
        "",
        "2\n",
    );
    prints(
        "function f(a, n) { if (n) a[n] = 1; else return a } function g(n,  loc) { f(loc, n); return length(loc) } BEGIN { print g(1), g(0) }",
        "",
        "1 0\n",
    );
}
