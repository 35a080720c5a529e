//! Printing a program and reading it again gives the same tree.

use awk_syntax::ast::Program;
use awk_syntax::names::Names;
use awk_syntax::parse::parse;
use awk_syntax::{Diagnostics, NoWorld, Options, Sources, print};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn read(text: &str) -> Option<(Program, Names)> {
    let mut sources = Sources::default();
    let number = sources.add("p", text);
    let (mut names, mut diagnostics) = (Names::default(), Diagnostics::default());
    let program = parse(
        &mut sources,
        number,
        number,
        &mut names,
        &Options::default(),
        &mut NoWorld,
        &mut diagnostics,
    );
    (!diagnostics.has_errors()).then_some((program, names))
}

/// The tree without places and with names as text.
fn shape(program: &Program, names: &Names) -> String {
    let mut out = String::new();
    let debug = format!("{:?}{:?}", program.rules, program.functions);
    let mut rest = debug.as_str();
    while let Some(at) = rest.find("Span {") {
        out.push_str(&rest[..at]);
        rest = &rest[rest[at..].find('}').unwrap() + at + 1..];
    }
    out.push_str(rest);
    let mut named = String::new();
    let mut rest = out.as_str();
    while let Some(at) = rest.find("Symbol(") {
        named.push_str(&rest[..at]);
        let end = rest[at..].find(')').unwrap() + at;
        let number: u32 = rest[at + 7..end].parse().unwrap();
        named.push_str(names.text(awk_syntax::names::Symbol(number)));
        rest = &rest[end + 1..];
    }
    named.push_str(rest);
    // A body of one statement is printed in braces, and read as the same list.
    named
}

fn check(text: &str) -> bool {
    let Some((program, names)) = read(text) else {
        return false;
    };
    let printed = print::program(&program, &names);
    let Some((again, names_again)) = read(&printed) else {
        panic!("printed text does not read:\n{text}\n->\n{printed}")
    };
    assert_eq!(
        shape(&program, &names),
        shape(&again, &names_again),
        "\n{text}\n->\n{printed}"
    );
    true
}

#[test]
fn every_construct_comes_back() {
    for text in [
        "BEGIN { if (a) b; else if (c) d; else { e }; while (x) y++; do z--; while (!z); for (;;) break; for (i = 0; i < 3; i++) print i }",
        "{ print; print $1, $NF > \"f\" \"g\"; printf(\"%s\\n\", 1) | \"cat\"; print (1,2) >> \"h\"; print(1)(2) }",
        "/a\\/b[/]/, $1 == 2 { getline; getline x < \"f\"; \"cmd\" | getline $1; next; nextfile; exit 1 }",
        "function f(a, b) { delete a; delete a[1,2]; return a[1] ^ -b } END { f(x, - -1); for (k in x) if ((k,1) in x) continue }",
        "{ s = \"q\\\"\\\\\\n\\t\\001\\377\\/\"; n = 1e300 * .5 + 0x10 - 1e-300; m = !x ~ /y/ ? -z : +w; a[i++] += --j }",
        "{ if (x) { } else ; { y } ; }",
        "BEGINFILE { nextfile } ENDFILE { print a[1][2], length(a[3]) |& \"c\"; \"c\" |& getline b[1][2] }",
        "{ switch ($1) { case 1: x; case -2: case \"s\": { break }; case /r\\/e/: case @/t/: default: y } }",
        "{ r = @/a[/]b/; @f(1, x); @ns::g(); delete a[1][2]; for (k in a[1][2,3]) if ((1,2) in a[k]) print _\"t\" _ }",
        "function ns::f(a) { return a * ns::x + 0x11 + 011 } BEGIN { pm::commit(); ns::f(1) }",
    ] {
        assert!(check(text), "{text}");
    }
}

fn word() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "x",
        "y",
        "a[1]",
        "$1",
        "$NF",
        "1",
        "2.5",
        "\"s\\n\"",
        "/r[/]e/",
        "(",
        ")",
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "!",
        "<",
        ">",
        "==",
        "~",
        "!~",
        "in a",
        "&&",
        "||",
        "?",
        ":",
        "=",
        "+=",
        "/=",
        "++",
        "--",
        ",",
        "getline",
        "| getline",
        "getline <",
        "length",
        "substr(x,1)",
        "f(1)",
        "$",
        "{",
        "}",
        ";",
        "\n",
        "if (x)",
        "else",
        "while (x)",
        "print",
        "printf",
        "for (k in a)",
        "do",
        "return",
        "delete a",
        "next",
        "a[1][2]",
        "in a[1]",
        "@f(x)",
        "@/r/",
        "|&",
        "|& getline",
        "switch (x) {",
        "case 1:",
        "case /r/:",
        "default:",
        "_\"s\"",
        "ns::x",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, rng_seed: RngSeed::Fixed(47), ..ProptestConfig::default() })]
    #[test]
    fn random_token_runs_come_back_or_are_refused(words in prop::collection::vec(word(), 1..14)) {
        check(&format!("{{ {} }}", words.join(" ")));
    }

    #[test]
    fn arbitrary_text_never_panics(text in "\\PC{0,60}") {
        check(&text);
    }
}
