//! Random programs give the same as native code and as the machine runs them: output, messages, status.
//!
//! `PERDURE_NATIVE_PROGRAMS` sets how many (`./x test --full`: thousands); seeds are printed.

#![allow(clippy::print_stdout)]

use std::process::{Command, Output, Stdio};

use testkit::rng::Rng;

/// Names that programs use; the last three are parameters of `f`.
const NAMES: [&str; 10] = ["a", "b", "c", "x", "y", "z", "u", "p", "q", "t"];
const NUMBERS: [&str; 18] = [
    "0", "1", "2", "3", "5", "8", "10", "0.5", "1e3", "-1", "2.25", "100000", "1e18", "\"3\"",
    "\"x\"", "\"\"", "\"1e2z\"", "1e300",
];
const OPERATORS: [&str; 17] = [
    "+", "-", "*", "+", "-", "*", "/", "%", "^", "<", "<=", "==", "!=", ">", ">=", "&&", "||",
];
const INPUT: &[u8] = b"1 2 3\nfoo 4\n\n9 9 9 9\n";

/// Writes programs.
struct Writer {
    rng: Rng,
    in_function: bool,
    loops: u32,
}

impl Writer {
    fn one_of<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.rng.below(all.len() as u64) as usize]
    }

    fn name(&mut self) -> &'static str {
        let known = if self.in_function { 10 } else { 7 };
        self.one_of(&NAMES[..known])
    }

    fn expression(&mut self, depth: u32) -> String {
        if depth > 3 {
            return self.one_of(&NUMBERS).to_string();
        }
        let sub = |w: &mut Writer| w.expression(depth + 1);
        match self.rng.below(100) {
            0..20 => self.one_of(&NUMBERS).to_string(),
            20..44 => self.name().to_string(),
            44..64 => {
                let (left, right) = (sub(self), sub(self));
                format!("({left} {} {right})", self.one_of(&OPERATORS))
            }
            64..67 => format!("({} {})", sub(self), sub(self)),
            67..74 => format!("A[{}]", sub(self)),
            74..79 => {
                let function = self.one_of(&["int", "sqrt", "sin", "exp", "log", "length"]);
                format!("{function}({})", sub(self))
            }
            79..82 => format!("({} ? {} : {})", sub(self), sub(self), sub(self)),
            82..85 => format!("({} in A)", sub(self)),
            85..88 => format!("{}({})", self.one_of(&["-", "!", "+"]), sub(self)),
            88..91 => {
                let name = self.name();
                let step = self.one_of(&["++", "--"]);
                match self.rng.chance(2) {
                    true => format!("{name}{step}"),
                    false => format!("{step}{name}"),
                }
            }
            91..93 => format!("({} = {})", self.name(), sub(self)),
            93..96 => self.one_of(&["NF", "$1", "$2", "$(NF)", "NR"]).to_string(),
            _ if !self.in_function => match self.rng.below(3) {
                0 => format!("f({}, {})", sub(self), sub(self)),
                1 => format!("f({})", sub(self)),
                _ => format!("g({})", sub(self)),
            },
            _ => self.one_of(&NUMBERS).to_string(),
        }
    }

    fn statement(&mut self, depth: u32) -> String {
        let deep = depth >= 3;
        match self.rng.below(100) {
            0..30 => {
                let (name, sign) = (self.name(), self.one_of(&["=", "+=", "-=", "=", "*="]));
                format!("{name} {sign} {}", self.expression(0))
            }
            30..42 => {
                let (key, sign) = (self.expression(1), self.one_of(&["=", "+=", "-="]));
                format!("A[{key}] {sign} {}", self.expression(0))
            }
            42..50 => format!("A[{}]{}", self.expression(1), self.one_of(&["++", "--"])),
            50..56 => format!("{}{}", self.name(), self.one_of(&["++", "--"])),
            56..68 if !deep => {
                let (condition, yes) = (self.expression(0), self.block(depth + 1));
                format!(
                    "if ({condition}) {{ {yes} }} else {{ {} }}",
                    self.block(depth + 1)
                )
            }
            68..80 if !deep && self.loops < 3 => {
                self.loops += 1;
                let (name, body) = (format!("i{}", self.loops), self.block(depth + 1));
                self.loops -= 1;
                let turns = self.one_of(&["3", "5", "9", "30"]);
                match self.rng.below(3) {
                    0 => format!("{name} = 0; while ({name}++ < {turns}) {{ {body} }}"),
                    _ => format!("for ({name} = 0; {name} < {turns}; {name}++) {{ {body} }}"),
                }
            }
            80..84 => format!("print {}, {}", self.expression(0), self.expression(0)),
            84..86 => format!("delete A[{}]", self.expression(1)),
            86..88 if self.loops > 0 => self.one_of(&["break", "continue"]).to_string(),
            88..90 => format!(
                "printf \"%s %d|\", {}, {}",
                self.expression(0),
                self.expression(0)
            ),
            90..92 => format!(
                "s = s \"\" {}; if (length(s) > 40) s = \"\"",
                self.expression(1)
            ),
            92..94 => format!("{} = A[{}]", self.name(), self.expression(1)),
            94..95 => format!(
                "{} = substr(\"12abc\", {}, 2)",
                self.name(),
                self.expression(1)
            ),
            95..97 if self.in_function => format!("return {}", self.expression(0)),
            _ => format!("{} = {}", self.name(), self.expression(0)),
        }
    }

    fn block(&mut self, depth: u32) -> String {
        let count = 1 + self.rng.below(4);
        let statements: Vec<String> = (0..count).map(|_| self.statement(depth)).collect();
        statements.join("; ")
    }

    fn program(&mut self) -> String {
        self.in_function = true;
        let (body, result) = (self.block(2), self.expression(1));
        let recursion = self.one_of(&[
            "return p < 2 ? p : g(p - 1) + g(p - 2)",
            "return p <= 0 ? 0 : 1 + g(p - 1)",
            "if (p > 3) return g(p - 3) * 2; return p",
            "return h(p) + 1",
        ]);
        self.in_function = false;
        let main = self.block(0);
        let functions = format!(
            "function h(p) {{ return p * 2 - 1 }}\nfunction g(p) {{ if (p > 18) return p; {recursion} }}\n\
             function f(p, q,   t) {{ {body}; return {result} }}\n"
        );
        let end =
            "print a, b, c, x, y, z, u, s; for (k in A) print k, A[k]; print typeof(a), typeof(x)";
        match self.rng.chance(2) {
            true => format!("{functions}BEGIN {{ for (r = 0; r < 3; r++) {{ {main} }}; {end} }}\n"),
            false => format!("{functions}{{ {main} }}\nEND {{ {end} }}\n"),
        }
    }
}

/// None if the program takes too long.
fn run(program: &str, when: &str) -> Option<Output> {
    let output = Command::new("timeout")
        .args(["5", env!("CARGO_BIN_EXE_pmawk")])
        .args([&format!("--native={when}"), program])
        .stdin(Stdio::from(input()))
        .output()
        .expect("timeout runs");
    (output.status.code() != Some(124)).then_some(output)
}

fn input() -> std::fs::File {
    use std::io::{Seek, Write};
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(INPUT).expect("it takes the input");
    file.rewind().expect("it is read from its beginning");
    file
}

/// The sign of a NaN that is made of two is anybody's choice.
fn without_signs_of_nan(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output).replace("+nan", "nan");
    text.replace("-nan", "nan")
}

#[test]
fn random_programs_give_the_same_natively() {
    let count = std::env::var("PERDURE_NATIVE_PROGRAMS").ok();
    let count: u64 = count.and_then(|n| n.parse().ok()).unwrap_or(150);
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let mut writer = Writer {
        rng: Rng::new(seed),
        in_function: false,
        loops: 0,
    };
    let mut compared = 0;
    for _ in 0..count {
        let program = writer.program();
        let (Some(machine), Some(native)) = (run(&program, "never"), run(&program, "always"))
        else {
            continue;
        };
        compared += 1;
        assert_eq!(machine.status.code(), native.status.code(), "{program}");
        for (left, right) in [
            (&machine.stdout, &native.stdout),
            (&machine.stderr, &native.stderr),
        ] {
            let (left, right) = (without_signs_of_nan(left), without_signs_of_nan(right));
            assert_eq!(left, right, "{program}");
        }
    }
    assert!(
        compared > count / 2,
        "only {compared} of {count} programs ended"
    );
}
