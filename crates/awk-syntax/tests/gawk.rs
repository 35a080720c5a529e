//! gawk's language beyond POSIX: what is read, how, and what is refused; every line was put to gawk 5.3.

mod common;

use awk_syntax::names::{Builtin, Library};
use awk_syntax::{Dialect, Kind, Lints, Options};
use common::{Stored, read, read_all, read_with};

fn dialect(dialect: Dialect) -> Options {
    Options {
        dialect,
        ..Options::default()
    }
}

#[test]
fn gawks_constructs_are_read() {
    for text in [
        "BEGINFILE { nextfile; getline x < \"f\" } ENDFILE { print FILENAME }",
        "BEGIN { switch (x)\n{\ncase 1:\ncase -2: print; break\ncase \"s\": case /r/: case @/t/: ;;; default: { y } } }",
        "BEGIN { switch (1) { } while (1) switch (1) { case 1: continue } }",
        "BEGIN { a[1][2] = 3; a[1,2][3]++; (1,2) in a[1]; 1 in a[1][2]; delete a[1][2]; for (k in a[1]) print length(a[k]) }",
        "BEGIN { print \"a\" |& \"cat\"; \"cat\" |& getline; \"cat\" |& getline a[1][2]; \"cat\" |& getline < \"x\" }",
        "BEGIN { f = \"length\"; print @f(\"b\") ^ 2, ! @f(\"b\"), -@f(\"b\"), 1 @f(\"c\"); @f() }",
        "BEGIN { r = @/x#/; x ~ @/a[/]b/; print typeof(@/y/) } # /",
        "BEGIN { x = 1; x **= 3; print x ** 2, 0x1F, 017, 019, 08.5 }",
        "func f() { return 1 } BEGIN { print _\"hello\", _ \"a\", _x }",
        "@namespace \"foo\"; BEGIN { print 1 }\n@ namespace \"awk\"",
        "BEGIN { print x ? a : b; print x ? a :b; foo::x = 2; awk::y = 3 }",
        "BEGIN { asort(a[1]); split(\"a\", a[1], /x/, s[2]); f(a[1]) } function f(b) { b[1] = 1 }",
        "BEGIN { patsplit(s, a, /x/, b); match(s, /x/, m); asorti(c, d); intdiv(1, 2, q); typeof(z) }",
    ] {
        if let Err(message) = read(text) {
            panic!("{text}\n{message}");
        }
    }
}

#[test]
fn what_gawk_refuses_is_refused() {
    for (text, wanted) in [
        ("BEGINFILE { next }", "`next` used in BEGINFILE action"),
        (
            "BEGINFILE { getline x }",
            "non-redirected `getline` invalid inside `BEGINFILE` rule",
        ),
        ("ENDFILE { nextfile }", "`nextfile` used in ENDFILE action"),
        ("BEGINFILE", "after BEGINFILE (an action is required"),
        (
            "BEGIN { switch (1) { default: ; default: } }",
            "duplicate `default`",
        ),
        (
            "BEGIN { switch (1) { case \"1\": case 1: } }",
            "p.awk:1:32: duplicate case value in the body of `switch`: 1",
        ),
        (
            "BEGIN { switch (1) { case x: } }",
            "a number, a string or a regular expression after `case`",
        ),
        ("BEGIN { switch (1) { case -\"a\": } }", "expected a number"),
        ("BEGIN { switch (1) { case 1\n: } }", "`:` after the label"),
        (
            "BEGIN { switch (1) { print } }",
            "expected `case`, `default` or `}`",
        ),
        (
            "BEGIN { switch (1) { case 1: continue } }",
            "`continue` is not allowed outside a loop",
        ),
        (
            "BEGIN { break }",
            "`break` is not allowed outside a loop or a switch",
        ),
        (
            "BEGIN { @f[1](2) }",
            "the name of a variable and `(` after `@`",
        ),
        ("BEGIN { print @ f(1) }", "without a blank"),
        ("BEGIN { print \"a\" @/b/ }", "syntax error"),
        ("BEGIN { for (k[1] in x) 1 }", "expected `;`"),
        ("BEGIN { for ((k) in x) 1 }", "expected `;`"),
        ("BEGIN { print > \"x\" |& \"cat\" }", "syntax error"),
        ("BEGIN { a::b::c }", "can appear only once"),
        ("BEGIN { print a:: }", "badly formed"),
        (
            "BEGIN { print foo::substr(1) }",
            "reserved identifier `substr` as second component",
        ),
        (
            "BEGIN { print if::a }",
            "reserved identifier `if` as a namespace",
        ),
        ("@namespace \"if\"", "reserved identifier `if`"),
        ("@namespace \"a::b\"", "must meet the naming rules"),
        ("@namespace foo", "expected a string after the directive"),
        (
            "@namespace \"foo\" BEGIN { }",
            "expected the end of the line",
        ),
        ("BEGIN { @include \"x\" }", "expected an expression"),
        (
            "@load \"nolib\"",
            "cannot load `nolib': there is no such library",
        ),
        (
            "@include \"nofile\"",
            "cannot include `nofile': no such file",
        ),
        (
            "function f(a::b) { }",
            "parameter `a::b` cannot contain a namespace",
        ),
        (
            "@namespace \"foo\"\nfunction substr() { }",
            "built-in function",
        ),
        ("function pm::commit() { }", "built-in function"),
        (
            "BEGIN { FUNCTAB[\"a\"] = 1 }",
            "cannot assign to elements of FUNCTAB",
        ),
        (
            "BEGIN { delete SYMTAB[\"x\"] }",
            "`delete` is not allowed with SYMTAB",
        ),
        (
            "BEGIN { split(\"a\", SYMTAB) }",
            "split: SYMTAB cannot be filled",
        ),
        ("BEGIN { FUNCTAB = 1 }", "`FUNCTAB` is an array"),
        (
            "BEGIN { pm::commit(1) }",
            "`pm::commit` takes 0 argument(s), here are 1",
        ),
    ] {
        match read(text) {
            Ok(_) => panic!("{text} was accepted"),
            Err(message) => assert!(
                message.contains(wanted),
                "{text}\n  gave   {message}  wanted {wanted}"
            ),
        }
    }
}

#[test]
fn older_dialects_keep_gawks_words_as_names() {
    for (options, text, ok) in [
        (
            Dialect::Traditional,
            "BEGIN { BEGINFILE = 1; switch = 2; case = default }",
            true,
        ),
        (
            Dialect::Traditional,
            "func f() { } BEGIN { x = 2 ** 3; print \"\\x41\" }",
            true,
        ),
        (
            Dialect::Traditional,
            "BEGIN { ERRNO[1] = 1; SYMTAB = 2; gensub = systime }",
            true,
        ),
        (
            Dialect::Traditional,
            "BEGIN { print \"x\" |& \"cat\" }",
            false,
        ),
        (Dialect::Traditional, "BEGIN { a[1][2] = 1 }", false),
        (Dialect::Traditional, "BEGIN { print @/a/ }", false),
        (Dialect::Traditional, "BEGIN { @f() }", false),
        (Dialect::Traditional, "@namespace \"x\"", false),
        (Dialect::Traditional, "BEGIN { print x::y }", false),
        (Dialect::Traditional, "BEGIN { pm::commit() }", false),
        // A function that is not defined, unless somebody defines it: missed when it is called.
        (Dialect::Traditional, "BEGIN { systime() }", true),
        (
            Dialect::Traditional,
            "function systime() { } BEGIN { systime() }",
            true,
        ),
        (Dialect::Traditional, "BEGIN { func = 3 }", false),
        (
            Dialect::Posix,
            "BEGIN { func = 3; fflush() } { nextfile; delete a; length }",
            true,
        ),
        (Dialect::Posix, "BEGIN { print 2 ** 3 }", false),
        (Dialect::Posix, "BEGIN { x **= 3 }", false),
        (Dialect::Posix, "@load \"time\"", false),
    ] {
        let read = read_with(text, &dialect(options), &mut Stored::default());
        assert_eq!(read.is_ok(), ok, "{options:?} {text}: {:?}", read.err());
    }
    let number = |options, text: &str| {
        let r = read_with(text, &dialect(options), &mut Stored::default()).unwrap();
        format!("{:?}", r.rules[0].body.as_ref().unwrap()[0].kind)
    };
    for (text, gawk, posix) in [
        ("BEGIN { 0x11 }", "Num(17.0)", "Concat"),
        ("BEGIN { 011 }", "Num(9.0)", "Num(11.0)"),
        ("BEGIN { 011.5 }", "Num(11.5)", "Num(11.5)"),
        ("BEGIN { 019 }", "Num(19.0)", "Num(19.0)"),
        ("BEGIN { \"\\x41\" }", "Str([65])", "Str([120, 52, 49])"),
        (
            "BEGIN { \"\\u00e9;\" }",
            "Str([195, 169, 59])",
            "Str([117, 48, 48, 101, 57, 59])",
        ),
        ("BEGIN { _\"a\" }", "Translated([97])", "Concat"),
    ] {
        assert!(number(Dialect::Gawk, text).contains(gawk), "{text}");
        assert!(number(Dialect::Posix, text).contains(posix), "{text}");
    }
}

#[test]
fn a_namespace_covers_what_it_should() {
    let r = read(
        "@namespace \"foo\"\n\
         function bar(a) { a = b; LINE = NR + A_1; awk::y = foo::z }\n\
         BEGIN { bar(x); substr(x, 1) }\n\
         @namespace \"awk\"\n\
         BEGIN { x = awk::w }",
    )
    .unwrap();
    let mut names: Vec<&str> = r.globals.iter().map(|g| r.names.text(g.name)).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "LINE", "foo::A_1", "foo::b", "foo::x", "foo::z", "w", "x", "y"
        ]
    );
    assert_eq!(r.names.text(r.functions[0].function.name), "foo::bar");
    let text = String::from_utf8(r.function_text(0).into_owned()).unwrap();
    assert!(
        text.starts_with("@namespace \"foo\"; function bar(a)"),
        "{text}"
    );
    let again = read_with(
        "BEGIN { foo::bar(1) }",
        &Options::default(),
        &mut Stored::functions(&[("foo::bar", &text)]),
    )
    .unwrap();
    assert_eq!(*again.function_text(0), *text.as_bytes());
    assert!(again.names.find("foo::b").is_some());
    assert!(read("@namespace \"pm\"\nBEGIN { commit() }").is_ok());
}

#[test]
fn included_texts_are_read_in_place_and_once() {
    let files = || {
        Stored::files(&[
            (
                "a",
                "@namespace \"inn\"\nBEGIN { v = 1 }\n@include \"b\"\nEND { w }",
            ),
            ("b", "BEGIN { plain = 1 }"),
            ("bad", "BEGIN { x = ;\n"),
            ("self", "@include \"self\"\nBEGIN { }"),
        ])
    };
    let options = Options::default();
    let r = read_with(
        "BEGIN { first }\n@include \"a\"\n@include \"a\"; BEGIN { last }",
        &options,
        &mut files(),
    )
    .unwrap();
    let names: Vec<&str> = r.globals.iter().map(|g| r.names.text(g.name)).collect();
    assert_eq!(names, ["first", "inn::v", "plain", "inn::w", "last"]);
    let message = read_with("@include \"bad\"", &options, &mut files())
        .err()
        .unwrap();
    assert!(message.starts_with("bad:1:13: syntax error"), "{message}");
    let linting = Options {
        lints: Lints::ALL,
        ..Options::default()
    };
    let (r, message) = read_all(&[("p", "@include \"self\"")], &linting, &mut files());
    assert!(r.is_some());
    assert!(message.contains("warning: already included source file `self'"));
    let mut main = files();
    main.main_files.push("a".into());
    let message = read_with("@include \"a\"", &options, &mut main)
        .err()
        .unwrap();
    assert!(message.contains("use it as a program file"), "{message}");
}

#[test]
fn each_source_is_complete_in_itself() {
    let read =
        |texts: &[(&str, &str)]| read_all(texts, &Options::default(), &mut Stored::default()).0;
    let two = read(&[("1", "@namespace \"foo\"\n/x/"), ("2", "{ print x }")]).unwrap();
    assert_eq!(two.rules.len(), 2);
    assert_eq!(two.names.text(two.globals[0].name), "x");
    assert!(read(&[("1", "BEGIN { print 1"), ("2", "}")]).is_none());
    assert!(read(&[("1", "BEGIN"), ("2", "{ print 1 }")]).is_none());
}

#[test]
fn library_functions_exist_if_the_library_is_loaded() {
    let calls = |text: &str, options: &Options| {
        read_with(text, options, &mut Stored::default())
            .map(|r| format!("{:?}{:?}", r.rules, r.functions))
    };
    let plain = Options::default();
    let loaded = Options {
        libraries: vec![Library::Time],
        ..Options::default()
    };
    for text in [
        "@load \"time\"\nBEGIN { sleep(1) }",
        "BEGIN { if (x) y[sleep(1)] = 2 }\n@load \"time\"",
        "@load \"time\"\n@namespace \"x\"\nfunction f() { return awk::sleep(0) }",
    ] {
        assert!(
            calls(text, &plain).unwrap().contains("which: Sleep"),
            "{text}"
        );
    }
    assert!(
        calls("BEGIN { sleep(1) }", &loaded)
            .unwrap()
            .contains("which: Sleep")
    );
    assert!(calls("function sleep() { } BEGIN { sleep() }", &plain).is_ok());
    assert!(calls("function sleep() { } BEGIN { sleep() }", &loaded).is_err());
    assert!(calls("BEGIN { sleep() }", &loaded).is_err());
    let in_namespace = calls("@namespace \"x\"\nBEGIN { sleep(1) }", &loaded).unwrap();
    assert!(!in_namespace.contains("which: Sleep"));
    let sandbox = Options {
        sandbox: true,
        ..Options::default()
    };
    assert!(
        calls("@load \"time\"", &sandbox)
            .unwrap_err()
            .contains("sandbox")
    );
    assert_eq!(Builtin::from_name(b"sleep"), Some(Builtin::Sleep));
}

#[test]
fn indirect_calls_and_tables_bring_what_is_stored() {
    let stored = || Stored {
        globals: vec![("s".into(), false), ("t".into(), true), ("f".into(), false)],
        ..Stored::functions(&[
            ("f", "function f(a) { return g(a) }"),
            ("g", "function g(a) { return a }"),
            ("broken", "function broken( {"),
            ("lost", "function lost() { nowhere() }"),
        ])
    };
    let names = |text: &str| {
        let (r, message) = read_all(&[("p", text)], &Options::default(), &mut stored());
        let r = r.unwrap_or_else(|| panic!("{text}: {message}"));
        let functions: Vec<String> = r
            .functions
            .iter()
            .map(|f| r.names.text(f.function.name).to_string())
            .collect();
        let globals: Vec<(String, Kind)> = r
            .globals
            .iter()
            .map(|g| (r.names.text(g.name).to_string(), g.kind))
            .collect();
        (functions, globals, message)
    };
    let (functions, globals, message) = names("BEGIN { x = \"f\"; @x(1) }");
    assert_eq!(functions, ["f", "g"]);
    assert_eq!(globals, [("x".to_string(), Kind::Scalar)]);
    assert!(
        message.contains("stored function `broken` is left out"),
        "{message}"
    );
    assert!(
        message.contains("`lost` is left out: it calls `nowhere`"),
        "{message}"
    );
    assert_eq!(names("BEGIN { for (k in FUNCTAB) print k }").0, ["f", "g"]);
    assert!(names("BEGIN { x = 1 }").0.is_empty());
    let (_, globals, _) = names("BEGIN { print SYMTAB[\"s\"] } function f() { }");
    assert_eq!(
        globals,
        [
            ("s".to_string(), Kind::Scalar),
            ("t".to_string(), Kind::Array)
        ]
    );
    // What the program does with a variable decides; whether the heap agrees, the heap says.
    let (_, globals, _) = names("BEGIN { SYMTAB[1]; t = 1 }");
    assert_eq!(globals[1], ("t".to_string(), Kind::Scalar));
}

#[test]
fn a_program_may_have_its_own_intdiv() {
    // gawk's manual gives one to copy: the function is gawk's only in some builds.
    let shown = |text: &str| read(text).map(|r| format!("{:?}", r.rules));
    let builtin = shown("BEGIN { intdiv(1, 2, r); print r[1] }").unwrap();
    assert!(builtin.contains("which: Intdiv"), "{builtin}");
    let own = shown("BEGIN { intdiv(1, 2) } function intdiv(a, b) { return int(a / b) }").unwrap();
    assert!(own.contains("Call"), "{own}");
    assert!(
        shown("BEGIN { intdiv(1, 2) }")
            .unwrap_err()
            .contains("takes 3")
    );
    let stored = read_with(
        "BEGIN { intdiv(1) }",
        &Options::default(),
        &mut Stored::functions(&[("intdiv", "function intdiv(a) { return a }")]),
    );
    assert!(stored.unwrap().functions[0].from_lookup);
    assert!(
        read_with(
            "BEGIN { intdiv = 1 }",
            &dialect(Dialect::Posix),
            &mut Stored::default()
        )
        .is_ok()
    );
}

#[test]
fn array_arguments_make_arrays() {
    let r = read(
        "BEGIN { split(s, a1, x, a2); patsplit(s, a3, y, a4); match(s, r, a5); asort(a6, a7)\n\
         asorti(a8); intdiv(1, 2, a9); u = isarray(e1) typeof(e2) length(e3); @u(e4); f(a[1]) }\n\
         function f(p) { p[1] = 1 }",
    )
    .unwrap();
    for global in &r.globals {
        let name = r.names.text(global.name);
        let wanted = match name.as_bytes()[0] {
            b'a' => Kind::Array,
            b'e' => Kind::Unknown,
            _ => Kind::Scalar,
        };
        assert_eq!(global.kind, wanted, "{name}");
    }
}

#[test]
fn deep_nesting_of_the_new_constructs_is_an_error() {
    for (open, close) in [("a[1][", "]"), ("@f(", ")"), ("1 in a[", "]")] {
        let text = format!(
            "BEGIN {{ {}x{} }}",
            open.repeat(50_000),
            close.repeat(50_000)
        );
        let message = read(&text).err().unwrap();
        assert!(message.contains("nested too deeply"), "{open}: {message}");
    }
    let text = format!("BEGIN {{ {}", "switch (1) { case 1: ".repeat(50_000));
    assert!(read(&text).err().unwrap().contains("nested too deeply"));
    let text = format!("BEGIN {{ x{} = 1 }}", "[1]".repeat(50_000));
    assert!(read(&text.replace("x[", "y = x[")).is_ok());
    let text = format!("BEGIN {{ x = c {} }}", "|& getline ".repeat(50_000));
    assert!(read(&text).err().unwrap().contains("nested too deeply"));
}
