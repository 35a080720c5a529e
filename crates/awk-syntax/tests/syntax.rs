//! What the reader accepts, how it reads it, and what it says when it does not.

mod common;

use awk_syntax::{Kind, Options, Resolved};
use common::{Stored, read, read_with, roomy};

/// Two programs that must read alike once their parentheses are gone.
fn same(left: &str, right: &str) {
    let strip = |text: &str| {
        let resolved = read(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        shape(&format!("{:?}", resolved.rules))
    };
    assert_eq!(strip(left), strip(right), "{left} / {right}");
}

/// The debug form without spans and without `Group` wrappers.
fn shape(debug: &str) -> String {
    let mut out = String::new();
    let mut rest = debug;
    while let Some(at) = rest.find("span: Span {") {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('}').unwrap() + at + 1;
        rest = &rest[end..];
    }
    out.push_str(rest);
    loop {
        let Some(at) = out.find("Group(Expr { kind: ") else {
            return out;
        };
        let inner_start = at + "Group(Expr { kind: ".len();
        let mut depth = 1;
        let mut end = at + "Group(".len();
        for (offset, c) in out[end..].char_indices() {
            match c {
                '(' | '{' | '[' => depth += 1,
                ')' | '}' | ']' => {
                    depth -= 1;
                    if depth == 0 {
                        end += offset;
                        break;
                    }
                }
                _ => {}
            }
        }
        let inner = out[inner_start..end]
            .strip_suffix(",  }")
            .expect("an expression")
            .to_string();
        out.replace_range(at..=end, &inner);
    }
}

#[test]
fn precedence_is_that_of_the_language() {
    same("BEGIN { x = ! a ~ b }", "BEGIN { x = (! a) ~ b }");
    same("BEGIN { x = -2 ^ 2 }", "BEGIN { x = -(2 ^ 2) }");
    same("BEGIN { x = 2 ^ 3 ^ 2 }", "BEGIN { x = 2 ^ (3 ^ 2) }");
    same("BEGIN { x = 2 ** -3 }", "BEGIN { x = 2 ^ (-3) }");
    same("{ x = $++i }", "{ x = $(++i) }");
    same("{ x = $NF-1 }", "{ x = ($NF)-1 }");
    same("{ x = 1 \" \" -1 }", "{ x = 1 (\" \" -1) }");
    same(
        "{ x = a = b ~ c ? d : e }",
        "{ x = (a = ((b ~ c) ? d : e)) }",
    );
    same("{ x = a b == c d }", "{ x = (a b) == (c d) }");
    same("{ x = 1 in a in b }", "{ x = (1 in a) in b }");
    same("{ x = 1 && y = 3 }", "{ x = 1 && (y = 3) }");
    same(
        "{ x = \"cmd\" | getline > 0 }",
        "{ x = (\"cmd\" | getline) > 0 }",
    );
    same(
        "{ x = \"a\" \"b\" | getline y }",
        "{ x = (\"a\" \"b\") | getline y }",
    );
    same(
        "{ x = getline y < \"a\" \"b\" }",
        "{ x = (getline y < \"a\") \"b\" }",
    );
    same(
        "{ print 1, 2 > \"f\" \".x\" }",
        "{ print 1, 2 > (\"f\" \".x\") }",
    );
    same(
        "{ x = getline y < \"a\" + 1 }",
        "{ x = getline y < (\"a\" + 1) }",
    );
    same(
        "{ x = \"c\" | getline y * 2 + 1 z }",
        "{ x = (((\"c\" | getline y) * 2) + 1) z }",
    );
    same(
        "{ print \"c\" | getline x }",
        "{ print \"c\" | (getline x) }",
    );
    same("{ x = i in a ~ b }", "{ x = (i in a) ~ b }");
    same("{ x = i in a < b c }", "{ x = (i in a) < (b c) }");
    same("{ x = i++ / 2 / 3 }", "{ x = (i++) / 2 / 3 }");
    same("{ x = a ? b : c ? d : e }", "{ x = a ? (b) : c ? d : (e) }");
}

#[test]
fn statements_end_as_the_grammar_says() {
    for text in [
        "BEGIN { if (1) print 4; else print 5\nwhile (0) ; do print 6; while (0); for(;;) break; ;; }",
        "BEGIN { if (x) {\n} \n\n else if (y)\n print 1\nelse\n print 2 }",
        "BEGIN{print 9}END{} function f(){} function g(){}",
        "BEGIN { print 1,\n 2 && \n 3 || \n 4; x = 1 +\\\n 2 }",
        "BEGIN { for (k in a) if (k) print k; else print; for ((i,j) in a;;) break }",
        "BEGIN { print (1,2) > \"f\"; print (1)(2); print(1,2)\n print (1,2) in a }",
        "function f(a,\n b)\n{ return a }\nfunc g() { f(1,\n2) }",
        "/a/,/b/; BEGIN { print length, length + 1, length() ; getline; getline x; getline < \"f\" }",
        "BEGIN {\r\n print 1\r\n x = 1 + \\\r\n 2\r\n}\r\n",
        "$1 ~ /[/]/ { gsub(/[^]/]x\\/y/, \"\") ; delete a; delete a[1,2]; nextfile }",
        "{ a[1] /= 2; x /= 3; print /=/ ; if (/x/) /y/ }",
    ] {
        if let Err(message) = read(text) {
            panic!("{text}\n{message}");
        }
    }
}

#[test]
fn errors_say_where_what_and_what_was_expected() {
    for (text, wanted) in [
        (
            "BEGIN { print 1 < 2 < 3 }",
            "p.awk:1:21: syntax error at `<`",
        ),
        (
            "BEGIN { x = \"abc\ndef\" }",
            "p.awk:1:13: unterminated string",
        ),
        (
            "BEGIN { x = /abc\n }",
            "p.awk:1:13: unterminated regular expression",
        ),
        (
            "BEGIN { (a) = 3 }",
            "p.awk:1:13: syntax error at `=`: expected an operator, `;`, `}` or the end of the line",
        ),
        (
            "BEGIN { if (1) {print 1}; else print 2 }",
            "syntax error at `else`: expected an expression",
        ),
        ("BEGIN { next }", "`next` used in BEGIN action"),
        ("BEGIN { break }", "`break` is not allowed outside a loop"),
        ("BEGIN { return }", "`return` used outside a function"),
        ("function f(f) {}", "its own name cannot be a parameter"),
        (
            "function f(a, a) {}",
            "p.awk:1:15: function `f`: parameter 2, `a`, duplicates parameter 1",
        ),
        (
            "function f(NR) {}",
            "special variable `NR` cannot be a parameter",
        ),
        (
            "function f() {} BEGIN { f = 1 }",
            "function `f` is used as a variable",
        ),
        (
            "function f() {} function f() {}",
            "function `f` is defined twice",
        ),
        ("BEGIN { NR[1] }", "`NR` is a scalar"),
        ("BEGIN { print ENVIRON }", "`ENVIRON` is an array"),
        ("BEGIN { print (1,2)(3) }", "must be the whole list"),
        (
            "BEGIN { substr(1) }",
            "`substr` takes 2 to 3 argument(s), here are 1",
        ),
        (
            "BEGIN { x = @ }",
            "`@` stands before the name of a variable",
        ),
        ("BEGIN { f(", "expected an expression"),
        ("BEGIN", "expected `{` after BEGIN"),
        ("{ x = 1", "expected `}` to close a block"),
        ("BEGIN { x = (1, 2) }", "expected `in`"),
    ] {
        match read(text) {
            Ok(_) => panic!("{text} was accepted"),
            Err(message) => assert!(
                message.contains(wanted),
                "{text}\n  gave  {message}\n  wanted {wanted}"
            ),
        }
    }
}

#[test]
fn several_errors_are_reported_in_one_run() {
    let message =
        read("BEGIN { x = ;\n y = 2 +;\n z = 3\n if (1) w = ) ; }\nEND { * }\n").unwrap_err();
    assert_eq!(message.lines().count(), 4, "{message}");
}

fn read_roomy(text: &str) -> Result<Resolved, String> {
    read_with(text, &roomy(), &mut Stored::default())
}

#[test]
fn a_thousand_levels_are_read() {
    for (open, close) in [
        ("(", ")"),
        ("!", ""),
        ("- ", ""),
        ("$", ""),
        ("a[", "]"),
        ("b[1][", "]"),
        ("f(", ")"),
        ("substr(", ", 1)"),
        ("x=", ""),
        ("x+=", ""),
        ("2^", ""),
        ("(1 ", ")"),
        ("1 && (1 < ", ")"),
        ("1 ? ", " : 2"),
        ("x ~ ", ""),
    ] {
        let text = format!(
            "function f(p) {{ return p }}\nBEGIN {{ y = {}x{} }}",
            open.repeat(1000),
            close.repeat(1000)
        );
        assert_eq!(read_roomy(&text).err(), None, "{open}");
    }
    for (open, close) in [
        ("{", "}"),
        ("if (1) ", ""),
        ("if (1) {", "}"),
        ("while (1) {", "}"),
        ("for (;;) {", "}"),
        ("do ", "; while (0)"),
        ("do {", "} while (0)"),
        ("for (i in a) {", "}"),
    ] {
        let text = format!(
            "BEGIN {{ {}x = 1{} }}",
            open.repeat(1000),
            close.repeat(1000)
        );
        assert_eq!(read_roomy(&text).err(), None, "{open}");
    }
}

#[test]
fn nesting_that_is_too_deep_is_told_once() {
    let text = format!("BEGIN {{ x = {}", "(".repeat(5000));
    for (message, levels) in [
        (read_roomy(&text).unwrap_err(), "more than 1000 levels"),
        (read(&text).unwrap_err(), "more than 200 levels"),
    ] {
        assert!(message.contains(levels), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_stack_that_is_not_to_be_had_is_told() {
    let options = Options {
        lend_stack: Some(|_, _| Err("no memory".to_string())),
        ..Options::default()
    };
    let text = format!("BEGIN {{ x = {}1{} }}", "(".repeat(150), ")".repeat(150));
    let message = read_with(&text, &options, &mut Stored::default()).unwrap_err();
    assert!(
        message.contains("more than 100 levels: no stack of"),
        "{message}"
    );
    assert!(message.contains("no memory"), "{message}");
}

#[test]
fn deep_nesting_is_an_error_and_long_chains_are_not() {
    for (open, close) in [
        ("(", ")"),
        ("-", ""),
        ("!", ""),
        ("$", ""),
        ("a[", "]"),
        ("x=", ""),
        ("2^", ""),
        ("++", ""),
    ] {
        let text = format!(
            "BEGIN {{ y = {}x{} }}",
            open.repeat(100_000),
            close.repeat(100_000)
        );
        assert!(
            read(&text).unwrap_err().contains("nested too deeply"),
            "{open}"
        );
    }
    for open in ["{", "if (1) ", "while (1) ", "for (;;) {", "do "] {
        let text = format!("BEGIN {{ {}", open.repeat(100_000));
        assert!(
            read(&text).unwrap_err().contains("nested too deeply"),
            "{open}"
        );
    }
    for sign in ["+", "*", " ", "&&", "||", "- 1 *"] {
        let text = format!("BEGIN {{ y = x{} }}", format!(" {sign} x").repeat(50_000));
        assert!(read(&text).is_ok(), "{sign}");
    }
    for sign in ["~", "in a in"] {
        let text = format!("BEGIN {{ y = x{} }}", format!(" {sign} a").repeat(50_000));
        assert!(
            read(&text).unwrap_err().contains("nested too deeply"),
            "{sign}"
        );
    }
    let chain = format!(
        "BEGIN {{ {} x }}",
        "if (x == 1) y = 2; else ".repeat(20_000)
    );
    assert!(read(&chain).is_ok());
    let choices = format!("BEGIN {{ y = {}x }}", "x == 1 ? 2 : ".repeat(20_000));
    assert!(read(&choices).is_ok());
    let ok = format!("BEGIN {{ y = {}x{} }}", "(".repeat(150), ")".repeat(150));
    assert!(read(&ok).is_ok());
}

#[test]
fn kinds_come_from_uses_and_flow_between_parameters() {
    let r = read("function f(a) { g(a) } function g(b) { b[1] } BEGIN { f(x); h(y) } function h(c) { return c + 1 }").unwrap();
    // Whether a function ever comes to what it does with a parameter is not known.
    assert!(
        r.globals
            .iter()
            .all(|g| g.kind == Kind::Unknown && g.may_be_array)
    );
    assert_eq!(r.functions[0].param_kinds, [Kind::Array]);
    let r = read("BEGIN { x[1]; y = 1; if (y) z = 2; else z[1] }").unwrap();
    let global = |name: &str| {
        let symbol = r.names.find(name).unwrap();
        let found = r.globals.iter().find(|g| g.name == symbol).unwrap();
        (found.kind, found.may_be_array)
    };
    assert_eq!(global("x"), (Kind::Array, true));
    assert_eq!(global("y"), (Kind::Scalar, false));
    assert_eq!(global("z"), (Kind::Unknown, true));
    let mixed = read(
        "function f(a,b){if(b) a[1]=1; else print a} BEGIN{f(x,1); f(y,0); for(k in x) print k}",
    )
    .unwrap();
    assert_eq!(mixed.functions[0].param_kinds, [Kind::Mixed, Kind::Scalar]);
}

#[test]
fn missing_functions_are_looked_up_with_those_they_call() {
    let mut stored = Stored::functions(&[
        ("f", "function f(a) { return g(a) + 1 }"),
        ("g", "function g(a) { return 2 * a } # note"),
    ]);
    let r = read_with("BEGIN { print f(1) }", &Options::default(), &mut stored).unwrap();
    assert_eq!(r.functions.len(), 2);
    assert!(r.functions.iter().all(|f| f.from_lookup));
    let g = r.function(r.names.find("g").unwrap()).unwrap();
    assert_eq!(*r.function_text(g), *b"function g(a) { return 2 * a }");
}
