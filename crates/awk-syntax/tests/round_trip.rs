//! Printing a program and reading it again gives the same tree.

use awk_syntax::ast::{Program, Stmt, StmtKind};
use awk_syntax::names::Names;
use awk_syntax::parse::parse;
use awk_syntax::{Diagnostics, NoWorld, Options, Sources, Span, print};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

struct Read {
    program: Program,
    names: Names,
    sources: Sources,
}

impl Read {
    fn print(&self) -> String {
        print::program(&self.program, &self.names, &self.sources, None)
    }
}

fn read(text: &str) -> Option<Read> {
    let mut sources = Sources::default();
    let number = sources.add("p", text);
    let (mut names, mut diagnostics) = (Names::default(), Diagnostics::default());
    let program = parse(
        &mut sources,
        number,
        &mut names,
        &Options::default(),
        &mut NoWorld,
        &mut diagnostics,
    );
    (!diagnostics.has_errors()).then_some(Read {
        program,
        names,
        sources,
    })
}

/// The tree as text without what printing may change: places, parentheses, blocks that hold nothing together, the
/// arguments that are written out, and the order of items.
fn shape(read: &Read) -> String {
    let mut rules: Vec<String> = read
        .program
        .rules
        .iter()
        .map(|r| {
            let print = Stmt {
                kind: StmtKind::Print {
                    printf: false,
                    args: Vec::new(),
                    parens: false,
                    to: None,
                },
                span: Span::default(),
            };
            let body = r.body.clone().unwrap_or_else(|| vec![print]);
            format!("{:?}{body:?}", r.pattern)
        })
        .collect();
    rules.sort();
    let mut functions: Vec<String> = read
        .program
        .functions
        .iter()
        .map(|f| format!("{:?}", (f.name, &f.params, &f.body)))
        .collect();
    functions.sort();
    let text = without(&format!("{rules:?}{functions:?}"), "Span {", '}', |_| {
        String::new()
    });
    let text = without(&text, "Symbol(", ')', |number| {
        let number: u32 = number.parse().expect("a symbol");
        read.names
            .text(awk_syntax::names::Symbol(number))
            .to_string()
    });
    let text = text
        .replace("parens: true", "")
        .replace("parens: false", "")
        .replace(
            "which: Length, args: []",
            "which: Length, args: [Expr { kind: Field(Expr { kind: Num(0.0), span:  }), span:  }]",
        );
    let text = unwrap(text, "Expr { kind: Group(", "), span:  }");
    let text = unwrap(text, "Stmt { kind: Block([", "]), span:  }");
    let mut text = text;
    loop {
        let next = text
            .replace("[, ", "[")
            .replace(", , ", ", ")
            .replace(", ]", "]");
        if next == text {
            return text;
        }
        text = next;
    }
}

/// `text` with each `begin...end` replaced by what `with` makes of the middle.
fn without(text: &str, begin: &str, end: char, with: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(begin) {
        out.push_str(&rest[..at]);
        let inner = &rest[at + begin.len()..];
        let length = inner.find(end).expect("an end");
        out.push_str(&with(&inner[..length]));
        rest = &inner[length + 1..];
    }
    out + rest
}

/// `text` with each `open X close` made `X`, where `X` is balanced.
fn unwrap(mut text: String, open: &str, close: &str) -> String {
    while let Some(at) = text.find(open) {
        let start = at + open.len();
        let mut depth = 0usize;
        let mut quoted = false;
        let end = text[start..]
            .char_indices()
            .find_map(|(offset, c)| {
                match c {
                    '"' => quoted = !quoted, // names hold no quotes, and bytes are printed as numbers
                    '(' | '[' | '{' if !quoted => depth += 1,
                    ')' | ']' | '}' if !quoted => match depth.checked_sub(1) {
                        Some(less) => depth = less,
                        None => return Some(start + offset),
                    },
                    _ => {}
                }
                None
            })
            .expect("balanced text");
        assert!(text[end..].starts_with(close), "{}", &text[end..]);
        text = format!(
            "{}{}{}",
            &text[..at],
            &text[start..end],
            &text[end + close.len()..]
        );
    }
    text
}

fn check(text: &str) -> bool {
    let Some(first) = read(text) else {
        return false;
    };
    let printed = first.print();
    let Some(again) = read(&printed) else {
        panic!("printed text does not read:\n{text}\n->\n{printed}")
    };
    assert_eq!(shape(&first), shape(&again), "\n{text}\n->\n{printed}");
    assert_eq!(printed, again.print(), "printing twice:\n{text}");
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
