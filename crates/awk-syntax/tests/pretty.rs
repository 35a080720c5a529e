//! The layout of printed programs is gawk's: texts on the right were printed by gawk 5.3.

mod common;

use awk_syntax::names::Library;
use awk_syntax::print::{Counts, pretty};
use awk_syntax::{Options, Sources, Span};
use common::{Stored, read};

fn print(text: &str) -> String {
    let mut sources = Sources::default();
    sources.add("p.awk", text);
    let mut files = Stored::files(&[("inc", "function inc() { return 5 }\nBEGIN { inc() }\n")]);
    let (result, diagnostics) = pretty(sources, &[], &Options::default(), &mut files);
    result.unwrap_or_else(|sources| {
        let d = &diagnostics.list()[0];
        panic!("{text}: {}", d.render(&sources))
    })
}

#[test]
fn statements_are_laid_out() {
    let text = "function f(a,b){if(a)return 1;else if(b) {return a+b} else return;}\n\
        END{print a,b>\"f\" \"g\"}\n\
        BEGIN{while(x)x--;do x++;while(x<3);for(;;)break;for(i=1;;)continue;for(k in a[1]){{x};y}\n\
        switch(x){case 1:case /r/:y;break;default:z}}\n/x/\n/y/,/z/{}\n";
    assert_eq!(
        print(text),
        "BEGIN {\n\twhile (x) {\n\t\tx--\n\t}\n\tdo {\n\t\tx++\n\t} while (x < 3)\n\tfor (;;) {\n\t\tbreak\n\t}\n\
         \tfor (i = 1; ; ) {\n\t\tcontinue\n\t}\n\tfor (k in a[1]) {\n\t\tx\n\t\ty\n\t}\n\
         \tswitch (x) {\n\tcase 1:\n\tcase /r/:\n\t\ty\n\t\tbreak\n\tdefault:\n\t\tz\n\t}\n}\n\n\
         /x/ {\n\tprint\n}\n\n/y/, /z/ {\n}\n\nEND {\n\tprint(a, b) > (\"f\" \"g\")\n}\n\n\
         function f(a, b)\n{\n\tif (a) {\n\t\treturn 1\n\t} else if (b) {\n\t\treturn (a + b)\n\t} else {\n\t\treturn\n\t}\n}\n"
    );
}

#[test]
fn expressions_have_gawks_blanks_and_parentheses() {
    for (text, wanted) in [
        ("x=-a^b", "x = -(a ^ b)"),
        ("x=a^-b^c", "x = a ^ (-(b ^ c))"),
        ("x=2^-3", "x = 2 ^ -3"),
        ("x=a b~c", "x = (a b) ~ c"),
        ("x=a~b<c", "x = a ~ (b < c)"),
        ("x=a in b~c", "x = (a in b) ~ c"),
        ("x=(a)(b)~c", "x = (a) (b) ~ c"),
        ("x=a+b c+d", "x = (a + b) (c + d)"),
        ("x=a \" \" -1", "x = a (\" \" - 1)"),
        ("x=a&&b=2", "x = a && (b = 2)"),
        (
            "while(\"c\"|getline>0)y",
            "while ((\"c\" | getline) > 0) {\n\t\ty\n\t}",
        ),
        ("\"a\" b|getline", "(\"a\" b) | getline"),
        ("x=getline<\"a\"+1", "x = getline < (\"a\" + 1)"),
        ("x=!getline", "x = ! (getline)"),
        ("print(a,b)", "print a, b"),
        ("print(a)(b)>\"f\"", "print(a) (b) > \"f\""),
        ("print(a)+0>\"f\"", "print((a) + 0) > \"f\""),
        ("print \"x\"|&\"c\"d", "print(\"x\") |& (\"c\" d)"),
        ("x=0x11+011+1.50+1E5", "x = 0x11 + 011 + 1.50 + 1E5"),
        (
            "s=\"a\\tb\\x41\\u00e9\\033\"",
            "s = \"a\\tbA\\303\\251\\033\"",
        ),
        ("r=/a\\/b[/]\\t/;t=@/x/", "r = /a\\/b[/]\\t/\n\tt = @/x/"),
        ("x=_\"t\";@f(1)", "x = _\"t\"\n\t@f(1)"),
        ("x=$_\"t\" $ _\"t\"", "x = $_ \"t\" $_ \"t\""),
        ("print length", "print length($0)"),
        (
            "sub(/x/,y);split(a,b)",
            "sub(/x/, y, $0)\n\tsplit(a, b, FS)",
        ),
        ("exit a b", "exit (a b)"),
        // Where gawk's text would mean something else.
        ("x=- --y", "x = -(--y)"),
        ("x=- -3", "x = -(-3)"),
        ("delete a[i,j]", "delete a[i, j]"),
        ("printf(\"%d\",a>b)", "printf(\"%d\", a > b)"),
        ("print(1,\"c\"|getline)", "print(1, \"c\" | getline)"),
        ("print(1,(a>b),c[a>b])", "print 1, (a > b), c[a > b]"),
    ] {
        assert_eq!(
            print(&format!("{{{text}}}")),
            format!("{{\n\t{wanted}\n}}\n"),
            "{text}"
        );
    }
}

#[test]
fn comments_stay() {
    let text = "# first\n\n# second\nBEGIN { # brace\n  x = 1 # behind\n\n  # alone\n  if (x) # condition\n    y # yes\n\
        \x20 else { # else\n    z\n    # end of else\n  } # behind if\n  # end\n} # behind BEGIN\n# before f\n\
        function f(a) # head\n{ # body\n  return a # value\n}\n\n# last\n";
    assert_eq!(
        print(text),
        "# first\n\n# second\n\nBEGIN {\t# brace\n\tx = 1\t# behind\n\t# alone\n\tif (x) {\n\t\t# condition\n\t\ty\t# yes\n\
         \t} else {\t# else\n\t\tz\n\t\t# end of else\n\t}\t# behind if\n\t# end\n}\n\n# last\n\n\n# behind BEGIN\n\n\
         # before f\n# head\nfunction f(a)\n{\n\t# body\n\treturn a\t# value\n}\n"
    );
}

#[test]
fn directives_come_back() {
    let text = "@load \"time\"\n@include \"inc\"\n@namespace \"foo\"\nBEGIN { x = 1; awk::y = NR; f(awk::length_) }\n\
        function f(a) { return a x }\n@namespace \"awk\"\nEND { foo::x }\n";
    assert_eq!(
        print(text),
        "@load \"time\"\n\nBEGIN {\n\tinc()\n}\n\n@namespace \"foo\"\n\nBEGIN {\n\tx = 1\n\tawk::y = NR\n\tf(awk::length_)\n}\n\n\
         @namespace \"awk\"\n\nEND {\n\tfoo::x\n}\n\n# Included files (-i and/or @include)\n\n# @include \"inc\"\n\n\
         function inc()\n{\n\treturn 5\n}\n\n@namespace \"foo\"\n\nfunction f(a)\n{\n\treturn (a x)\n}\n"
    );
    let mut sources = Sources::default();
    sources.add("p", "END { a; b = 1; b[1] }"); // no program that runs, but one that can be printed
    let options = Options {
        libraries: vec![Library::Ordchr],
        ..Options::default()
    };
    let (text, _) = pretty(sources, &["i.awk".into()], &options, &mut Stored::default());
    let text = text.expect("a text");
    assert!(text.starts_with("@load \"ordchr\"\n\nEND {"), "{text}");
    assert!(text.ends_with("# @include \"i.awk\"\n"), "{text}");
}

/// Counts that tell the lines apart.
struct Lines(Sources);

impl Counts for Lines {
    fn ran(&self, place: Span) -> u64 {
        self.0.position(place).0 as u64 % 5
    }

    fn was_true(&self, place: Span) -> u64 {
        self.ran(place)
    }
}

#[test]
fn a_profile_has_counts_in_its_margin() {
    let r = read(
        "BEGIN {\nif (x) y; else if (z) w\n}\n/a/ { b } # no comments\n\n{ c }\nfunction f()\n{ d }\n\
         function g() { switch (f()) { case 1: e } }\nBEGIN { h }\nEND { i }",
    )
    .expect("a program");
    assert_eq!(
        r.profile(&Lines(r.sources.clone())),
        "\t# BEGIN rule(s)\n\n\
         \tBEGIN {\n     2  \tif (x) { # 2\n     2  \t\ty\n     2  \t} else if (z) { # 2\n     2  \t\tw\n\t\t}\n\t}\n\
         \tBEGIN {\n\t\th\n\t}\n\
         \t# Rule(s)\n\n     4  /a/ { # 4\n     4  \tb\n\t}\n\n     1  {\n     1  \tc\n\t}\n\
         \t# END rule(s)\n\n\tEND {\n     1  \ti\n\t}\n\n\
         \t# Functions, listed alphabetically\n\n     2  function f()\n\t{\n     3  \td\n\t}\n\n\
         \x20    4  function g()\n\t{\n     4  \tswitch (f()) {\n     4  \tcase 1:\n     4  \t\te\n\t\t}\n\t}\n"
    );
}

#[test]
fn a_profile_tells_libraries_and_namespaces() {
    let r = read(
        "@load \"time\"\n@namespace \"foo\"\nBEGIN { x }\nfunction f() { }\n@namespace \"awk\"\nfunction g() { }\n",
    )
    .expect("a program");
    struct Never;
    impl Counts for Never {
        fn ran(&self, _: Span) -> u64 {
            0
        }
        fn was_true(&self, _: Span) -> u64 {
            0
        }
    }
    assert_eq!(
        r.profile(&Never),
        "\t# Loaded extensions (-l and/or @load)\n\n\t@load \"time\"\n\n\t@namespace \"foo\"\n\t# BEGIN rule(s)\n\n\
         \tBEGIN {\n\t\tx\n\t}\n\n\t# Functions, listed alphabetically\n\n\t@namespace \"awk\"\n\n\
         \tfunction g()\n\t{\n\t}\n\n\t@namespace \"foo\"\n\n\tfunction f()\n\t{\n\t}\n"
    );
}
