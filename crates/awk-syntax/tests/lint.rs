//! Warnings of `--lint`, and the template for translators; gawk 5.3 says the same unless the text says otherwise.

mod common;

use awk_syntax::{Lints, Options, Sources, gettext};
use common::{Stored, read_all};

fn warnings(text: &str, lints: Lints) -> Vec<String> {
    let options = Options {
        lints,
        ..Options::default()
    };
    let mut files = Stored::files(&[("inc", "")]);
    let (resolved, messages) = read_all(&[("p", &format!("{text}\n"))], &options, &mut files);
    assert!(resolved.is_some(), "{text}: {messages}");
    let after = |line: &str| line.split_once("warning: ").map(|(_, m)| m.to_string());
    messages.lines().filter_map(after).collect()
}

#[test]
fn each_class_warns_of_its_own() {
    for (text, wanted) in [
        ("BEGIN { x == 1 }", "statement has no effect"),
        ("BEGIN { (x) }", "statement has no effect"),
        (
            "BEGIN { if (x = 1) y++ }",
            "assignment used in conditional context",
        ),
        (
            "BEGIN { while (x = 1) break }",
            "assignment used in conditional context",
        ),
        (
            "BEGIN { x = length }",
            "call of `length' without parentheses is not portable",
        ),
        (
            "BEGIN { x = y == /r/ }",
            "regular expression on right of comparison",
        ),
        (
            "BEGIN { x = /r/ }",
            "regular expression on right of assignment",
        ),
        (
            "END { getline }",
            "non-redirected `getline' undefined inside END action",
        ),
        (
            "END { print }",
            "plain `print' in BEGIN or END rule should probably be `print \"\"'",
        ),
        ("BEGIN { print > \"a\" x }", "plain `print'"),
        (
            "BEGIN { print 1 > \"a\" x }",
            "concatenation as I/O `>' redirection target is ambiguous",
        ),
        (
            "BEGIN { x = 011 }",
            "numeric constant `011' treated as octal",
        ),
        (
            "BEGIN { x = 0x1F }",
            "numeric constant `0x1F' treated as hexadecimal",
        ),
        ("BEGIN { x = y ** 2 }", "POSIX does not allow operator `**'"),
        ("BEGIN { x **= 2 }", "POSIX does not allow operator `**='"),
        (
            "BEGIN { x = \"\\x41\" }",
            "POSIX does not allow `\\x' escapes",
        ),
        ("func f() { } BEGIN { f() }", "POSIX does not allow `func'"),
        (
            "function f() { } BEGIN { }",
            "function `f' defined but never called directly",
        ),
        (
            "function f(a) { a++ } BEGIN { f(1); a = 1 }",
            "function `f': parameter `a' shadows global variable",
        ),
        (
            "BEGIN { sub(/a/, \"b\", \"c\") }",
            "sub: string literal as last argument of substitute has no effect",
        ),
        (
            "BEGIN { x = \"a\\\nb\" }",
            "backslash string continuation is not portable",
        ),
        (
            "BEGIN { x = y ~ // }",
            "regexp constant `//' looks like a C++ comment, but is not",
        ),
        // Ours.
        ("BEGIN { exit; x = 1 }", "unreachable statement"),
        (
            "BEGIN { substr(\"a\", 1) }",
            "the value of `substr' is not used",
        ),
    ] {
        let found = warnings(text, Lints::ALL);
        assert!(
            found.iter().any(|w| w.starts_with(wanted)),
            "{text}: {found:?}"
        );
        assert_eq!(
            warnings(text, Lints::default()).len(),
            usize::from(text.contains("sub(/")),
            "{text}"
        );
    }
    for text in [
        "BEGIN { if ((x = 1)) y++; while ((getline z) > 0) n++; a[\"made\"]; f(1); system(\"\"); x || f(2) }\nfunction f(p) { return p }",
        "/x/ { print; next } END { print 1; print \"\"; exit }",
        "BEGIN { for (;;) { if (x++) break; else continue } print x > (\"a\" y) }",
    ] {
        assert_eq!(warnings(text, Lints::ALL), [""; 0], "{text}");
    }
}

#[test]
fn what_gawk_always_warns_of_needs_no_option() {
    for (text, wanted) in [
        (
            "BEGIN { x = /a/ ~ y }",
            "regular expression on left of `~' or `!~' operator",
        ),
        (
            "BEGIN { f(/a/) }\nfunction f(p) { }",
            "regexp constant for parameter #1 yields boolean value",
        ),
        (
            "BEGIN { x = \"\\/\" }",
            "escape sequence `\\/` treated as plain `/`",
        ),
        (
            "BEGIN { x = \"\\u\" }",
            "no hex digits in `\\u' escape sequence",
        ),
    ] {
        assert_eq!(warnings(text, Lints::default()), [wanted], "{text}");
    }
}

#[test]
fn extensions_are_said_once_each_and_only_if_wanted() {
    let text = "@include \"inc\"\n@load \"time\"\nBEGIN { a[1][2] = 3; f = \"x\"; @f(); switch (x) { case 1: case 2: x = gensub(1, 2, 3) }\n\
        x = gensub(1, 2, 3); close(\"c\", \"to\"); match(x, /y/, m) }\nBEGINFILE { x++ }";
    let all = warnings(text, Lints::ALL);
    for word in [
        "`include'",
        "`load'",
        "`switch'",
        "`case'",
        "`gensub'",
        "`BEGINFILE'",
    ] {
        let wanted = format!("{word} is a gawk extension");
        assert_eq!(
            all.iter().filter(|w| **w == wanted).count(),
            1,
            "{word}: {all:?}"
        );
    }
    for wanted in [
        "multidimensional arrays are a gawk extension",
        "indirect function calls are a gawk extension",
        "close: second argument is a gawk extension",
        "match: third argument is a gawk extension",
    ] {
        assert!(all.iter().any(|w| w == wanted), "{wanted}: {all:?}");
    }
    let fewer = warnings(text, Lints::NO_EXTENSION);
    assert!(fewer.iter().all(|w| !w.contains("extension")), "{fewer:?}");
    assert_eq!(warnings("BEGIN { x == 1 }", Lints::INVALID), [""; 0]);
}

#[test]
fn the_awk_of_version_7_lacks_much() {
    let old = Lints {
        old: true,
        ..Lints::default()
    };
    let text = "function f(a) { return a }\nBEGIN { delete a[1]; if (1 in a) x = 1; if ((1, 2) in a) x ^= 2; do x = f(2); while (0)\n\
        getline; x = \"\\a\"; for (k in a) close(k) }\nBEGIN { }";
    let found = warnings(text, old);
    for wanted in [
        "`function' is not supported in old awk",
        "`return' is not supported in old awk",
        "`delete' is not supported in old awk",
        "`do' is not supported in old awk",
        "`getline' is not supported in old awk",
        "`close' is not supported in old awk",
        "operator `^=' is not supported in old awk",
        "old awk does not support the `\\a' escape sequence",
        "old awk does not support the keyword `in' except after `for'",
        "old awk does not support multidimensional arrays",
        "old awk does not support multiple `BEGIN' or `END' rules",
    ] {
        assert!(found.iter().any(|w| w == wanted), "{wanted}: {found:?}");
    }
}

#[test]
fn sources_are_looked_at_too() {
    let options = Options {
        lints: Lints::ALL,
        ..Options::default()
    };
    let read = |name, text| read_all(&[(name, text)], &options, &mut Stored::default()).1;
    assert!(read("p", "BEGIN { x = 1 }").contains("does not end in newline"));
    assert_eq!(read("cmd. line", "BEGIN { x = 1 }"), "");
    assert!(read("p", "").contains("source file `p' is empty"));
    assert!(read("p", "# only\n").contains("no program text at all!"));
}

#[test]
fn the_template_for_translators_has_every_text() {
    let template = |name: &str, text: &str| {
        let mut sources = Sources::default();
        sources.add(name, text);
        let (result, _) = gettext::template(sources, &Options::default(), &mut Stored::default());
        result.expect("a program")
    };
    let text = "function f() { return _\"in f\" }\nBEGIN {\n print _\"hello\", x[1] x\n printf(_\"n %d\\n\", 3)\n\
        x = dcgettext(\"plain\" \"er\", \"dom\"); y = dcgettext(x)\n z = dcngettext(\"%d file\", \"%d files\", n)\n\
        if (_\"tab\\tq\\\"b\\\\é\") w = _\"con\\\ntinued\"\n}\n";
    assert_eq!(
        template("p.awk", text),
        "#: p.awk:1\nmsgid \"in f\"\nmsgstr \"\"\n\n#: p.awk:3\nmsgid \"hello\"\nmsgstr \"\"\n\n\
         #: p.awk:4\nmsgid \"n %d\\n\"\nmsgstr \"\"\n\n#: p.awk:5\nmsgid \"plainer\"\nmsgstr \"\"\n\n\
         #: p.awk:6\nmsgid \"%d file\"\nmsgid_plural \"%d files\"\nmsgstr[0] \"\"\nmsgstr[1] \"\"\n\n\
         #: p.awk:7\nmsgid \"tab\\tq\\\"b\\\\\\303\\251\"\nmsgstr \"\"\n\n#: p.awk:8\nmsgid \"continued\"\nmsgstr \"\"\n\n"
    );
    assert_eq!(
        template("cmd. line", "BEGIN { _\"one\" }"),
        "msgid \"one\"\nmsgstr \"\"\n\n"
    );
    let long = template(
        "cmd. line",
        &format!("BEGIN {{ _\"{}\" }}", "x".repeat(150)),
    );
    let lengths: Vec<usize> = long.lines().map(str::len).collect();
    assert_eq!(lengths, [77, 72, 13, 9, 0]);
}
