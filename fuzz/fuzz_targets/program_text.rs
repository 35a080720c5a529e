//! Program text that is anything: reading it ends without a panic in each dialect, and what is read comes back.
//!
//! Invariants checked: a program's text, printed and read again, prints as the same text; the stored form of each function
//! is a program; what the reader takes, the compiler takes or refuses with a message; all messages have a place.
#![no_main]

use awk::Language;
use awk::text::Charset;
use awk_syntax::{
    Dialect, Lints, NoWorld, Options, Resolved, Sources, gettext, load, parse, print,
};
use heap::Heap;
use libfuzzer_sys::fuzz_target;

fn sources(text: &[u8]) -> Sources {
    let mut sources = Sources::default();
    sources.add("p.awk", text);
    sources
}

fn read(text: &[u8], options: &Options) -> Option<Resolved> {
    let (result, diagnostics) = load(sources(text), options, &mut NoWorld);
    let at = match &result {
        Ok(resolved) => &resolved.sources,
        Err(sources) => sources,
    };
    for diagnostic in diagnostics.list() {
        assert!(!diagnostic.render(at).is_empty());
    }
    assert_eq!(result.is_err(), diagnostics.has_errors());
    result.ok()
}

/// The printed program reads again and prints the same. A comment may move to another place (gawk's printer moves them
/// too), so that only programs without one are held to the letter.
fn comes_back(printed: &str, has_comments: bool, again: Option<String>) {
    let Some(again) = again else {
        panic!("the printed program does not read:\n{printed}")
    };
    if !has_comments {
        assert_eq!(printed, again, "printed twice");
    }
}

fn try_dialect(text: &[u8], dialect: Dialect) {
    let options = Options {
        dialect,
        lints: Lints {
            old: true,
            ..Lints::ALL
        },
        ..Options::default()
    };
    let has_comments = text.contains(&b'#');
    if let Some(resolved) = read(text, &options) {
        let printed = resolved.print();
        let again = read(printed.as_bytes(), &options);
        comes_back(&printed, has_comments, again.map(|r| r.print()));
        resolved.print_types();
        for number in 0..resolved.functions.len() as u32 {
            let stored = resolved.function_text(number);
            let (result, diagnostics) =
                print::pretty(sources(&stored), &[], &options, &mut NoWorld);
            assert!(
                result.is_ok(),
                "stored form: {}\n{:?}",
                String::from_utf8_lossy(&stored),
                diagnostics.list()
            );
        }
    }
    if let (Ok(printed), _) = print::pretty(sources(text), &[], &options, &mut NoWorld) {
        let (again, _) = print::pretty(sources(printed.as_bytes()), &[], &options, &mut NoWorld);
        comes_back(&printed, has_comments, again.ok());
    }
    let _ = gettext::template(sources(text), &options, &mut NoWorld);
    parse::dump_tokens(&sources(text), dialect);
}

fn compiles_or_says_why(text: &[u8]) {
    // Here the reader would look for files.
    if text.windows(7).any(|word| word == b"include") {
        return;
    }
    let heap = Heap::volatile().expect("memory for a volatile heap");
    for charset in [Charset::Utf8, Charset::Bytes] {
        if let Err(error) = awk::load(sources(text), &heap, Language::new(charset)) {
            assert!(!error.to_string().is_empty());
        }
    }
}

fuzz_target!(|text: &[u8]| {
    for dialect in [Dialect::Gawk, Dialect::Traditional, Dialect::Posix] {
        try_dialect(text, dialect);
    }
    compiles_or_says_why(text);
});
