//! Whatever the text, reading ends, without a panic, and what is read can be printed, linted and resolved.

mod common;

use awk_syntax::{Dialect, Lints, Options, Sources, gettext, parse, print};
use common::{Stored, read_all, roomy};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const WORDS: &[&str] = &[
    "BEGIN",
    "END",
    "BEGINFILE",
    "ENDFILE",
    "function",
    "func",
    "f",
    "f(",
    "g(",
    "x",
    "a",
    "a[",
    "]",
    "(",
    ")",
    "{",
    "}",
    ";",
    "\n",
    ",",
    "1",
    "0x",
    "0x1f",
    "019",
    "1e",
    "\"s\"",
    "\"",
    "\"\\u",
    "\"\\xg\"",
    "_\"t\"",
    "_",
    "/",
    "/r/",
    "/[",
    "@",
    "@/r/",
    "@f(",
    "@x",
    "@include",
    "@load",
    "@namespace",
    "\"inc\"",
    "\"self\"",
    "\"time\"",
    "\"ns\"",
    "\"awk\"",
    "ns::x",
    "ns::f(",
    "a::",
    "a::b::c",
    "awk::x",
    "pm::commit()",
    "::",
    "switch",
    "(x)",
    "case",
    "default",
    ":",
    "if",
    "else",
    "while",
    "do",
    "for",
    "in",
    "(k in a)",
    "print",
    "printf",
    "getline",
    "|",
    "|&",
    "<",
    ">",
    ">>",
    "next",
    "nextfile",
    "exit",
    "return",
    "break",
    "continue",
    "delete",
    "=",
    "+=",
    "**",
    "**=",
    "^",
    "++",
    "--",
    "!",
    "~",
    "&&",
    "||",
    "?",
    "$",
    "$1",
    "-",
    "+",
    "%",
    "length",
    "split(",
    "asort(",
    "sub(",
    "sleep(1)",
    "FUNCTAB",
    "SYMTAB",
    "NR",
    "# note",
    "\\\n",
    "\\",
    "&",
    "\u{e9}",
    "\u{0}",
    "`",
];

fn world() -> Stored {
    Stored {
        globals: vec![("a".into(), true), ("x".into(), false), ("f".into(), true)],
        ..Stored::functions(&[
            ("f", "function f(p, q) { return g(p) @q(p) }"),
            (
                "g",
                "@namespace \"ns\"; function awk::g(p) { FUNCTAB[1]; x }",
            ),
            ("h", "function h( {"),
        ])
    }
}

/// `again`: what is printed is read and printed once more.
fn try_everything(text: &str, again: bool) {
    for dialect in [Dialect::Gawk, Dialect::Traditional, Dialect::Posix] {
        let options = Options {
            dialect,
            lints: Lints {
                old: true,
                ..Lints::ALL
            },
            ..roomy()
        };
        let mut stored = world();
        stored
            .files
            .insert("inc".into(), format!("{text}\n@namespace \"q\""));
        stored
            .files
            .insert("self".into(), "@include \"self\"\n".into());
        if let (Some(resolved), _) =
            read_all(&[("p", text), ("cmd. line", "x")], &options, &mut stored)
        {
            resolved.print();
            resolved.print_types();
            for number in 0..resolved.functions.len() as u32 {
                resolved.function_text(number);
            }
        }
        let sources = || {
            let mut sources = Sources::default();
            sources.add("p", text);
            sources
        };
        parse::dump_tokens(&sources(), dialect);
        let _ = gettext::template(sources(), &options, &mut world());
        if let (Ok(printed), _) = print::pretty(sources(), &[], &options, &mut world())
            && again
        {
            let mut source = Sources::default();
            source.add("printed", printed.clone());
            let (result, diagnostics) = print::pretty(source, &[], &options, &mut world());
            let printed_again = match result {
                Ok(text) => text,
                Err(sources) => panic!(
                    "{text}\n-> {printed}\n-> {}",
                    diagnostics
                        .list()
                        .iter()
                        .map(|d| d.render(&sources))
                        .collect::<String>()
                ),
            };
            // Comments move where a token is dropped; the rest stays.
            if !text.contains('#') {
                assert_eq!(printed, printed_again, "{text}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, failure_persistence: None, rng_seed: RngSeed::Fixed(53), ..ProptestConfig::default() })]

    #[test]
    fn token_soup(words in prop::collection::vec(prop::sample::select(WORDS), 0..24)) {
        try_everything(&words.join(" "), true);
    }

    #[test]
    fn token_soup_in_a_rule(words in prop::collection::vec(prop::sample::select(WORDS), 0..12)) {
        try_everything(&format!("function g(x) {{ }} {{ {} }}", words.join(" ")), true);
    }
}

#[test]
fn endless_includes_end() {
    /// Includes a new file in every file.
    struct Endless(usize);
    impl awk_syntax::World for Endless {
        fn include(&mut self, _: &str, _: &str) -> Result<awk_syntax::Included, String> {
            self.0 += 1;
            Ok(awk_syntax::Included::Text {
                name: self.0.to_string(),
                text: b"@include \"more\"\n".to_vec(),
            })
        }
    }
    let (resolved, messages) = read_all(&[("p", "@include \"more\"\n")], &roomy(), &mut Endless(0));
    assert!(resolved.is_none());
    assert!(
        messages.contains("more than 1000 files include each other"),
        "{messages}"
    );
}

#[test]
fn the_deepest_programs_that_are_read_go_through_every_walk() {
    // A test thread has 2 MiB of stack; programs usually have 8.
    let thread = std::thread::Builder::new().stack_size(8 << 20);
    let walks = thread.spawn(deepest_programs).expect("a thread");
    walks.join().expect("no panic");
}

fn deepest_programs() {
    for (open, close, most) in [
        ("(", ")", 1100),
        ("! ", "", 5200),
        ("$", "", 5200),
        ("a[1][", "]", 1100),
        ("@f(", ")", 1100),
        ("x = ", "", 1100),
        ("x ? ", " : y", 1100),
        ("2 ^ ", "", 5200),
        ("if (x) ", "", 1800),
        ("switch (x) { case 1: ", " }", 1800),
        ("while (x) { ", " }", 1100),
    ] {
        // The deepest that is read, by bisection.
        let is_read = |count: usize| {
            let text = format!("{{ {}x{} }}", open.repeat(count), close.repeat(count));
            read_all(&[("p", &text)], &roomy(), &mut Stored::default())
                .0
                .is_some()
        };
        let (mut count, mut refused) = (1usize, most + 1);
        while count + 1 < refused {
            let middle = count.midpoint(refused);
            if is_read(middle) {
                count = middle;
            } else {
                refused = middle;
            }
        }
        assert!(count > 20 && count < most, "{open}: {count}");
        // Braces and parentheses that printing adds may lead over the border.
        try_everything(
            &format!("{{ {}x{} }}", open.repeat(count), close.repeat(count)),
            false,
        );
    }
}
