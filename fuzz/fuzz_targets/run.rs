//! Programs of a grammar, run on an input: they end, without a panic, and do the same however they are run.
//!
//! The program is written by the choices that the fuzzer's bytes are. All loops are bounded, texts are cut to a hundred bytes when
//! they are assigned, and nothing asks for a clock, a file or a process, so that time and memory are bounded too.
//!
//! Invariants checked: the program that its printed form is, and the run with a profile, print the same and end alike.
#![no_main]

use arbitrary::{Result, Unstructured};
use awk::text::Charset;
use awk_syntax::{NoWorld, Options, Sources, print};
use libfuzzer_sys::fuzz_target;
use perdure_fuzz::Run;

const SCALARS: &[&str] = &[
    "x",
    "y",
    "z",
    "$0",
    "$1",
    "$2",
    "$NF",
    "p",
    "NR",
    "FNR",
    "RSTART",
    "FS",
    "OFS",
    "SUBSEP",
    "CONVFMT",
    "IGNORECASE",
];
const ARRAYS: &[&str] = &["a", "b", "c[1]", "c[x]", "q"];
const CONSTANTS: &[&str] = &[
    "0",
    "1",
    "2",
    "-1",
    "3.5",
    "1e6",
    "1e300",
    "0x1f",
    "\"\"",
    "\"a\"",
    "\"abc\"",
    "\"10\"",
    "\" 3x\"",
    "\"a b,c\"",
    "\"é\\377\"",
    "@/a+/",
    "\"f1\"",
    "\"%s\"",
    "\"+nan\"",
    "\"-inf\"",
    "log(-1)",
    "2^53",
    "\"\\n\"",
];
const REGEXES: &[&str] = &[
    "/a/",
    "/[a-c]+/",
    "/^a|b$/",
    "/(a)(b*)|c/",
    "/./",
    "/x*/",
    "/,| /",
    "/\\<./",
    "/[[:space:]]+/",
    "/é/",
    "\"b\"",
    "\".\"",
    "x",
    "@/b|c/",
];
const BINARY: &[&str] = &[
    " + ",
    " - ",
    " * ",
    " % ",
    " ^ ",
    " ",
    " < ",
    " <= ",
    " == ",
    " != ",
    " > ",
    " >= ",
    " ~ ",
    " !~ ",
    " && ",
    " || ",
    " / ",
    " in a || ",
];
const FORMATS: &[&str] = &[
    "%s", "%d", "%5.2f", "%-4s|", "%c", "%x", "%e", "%g", "%03d", "%i%%", "%*d", "%.3s",
    "%2$s%1$s", "%+a",
];
const SORTS: &[&str] = &[
    "@ind_str_asc",
    "@ind_num_desc",
    "@val_type_asc",
    "@val_num_desc",
    "@unsorted",
    "f1",
];
const NUMERIC: &[&str] = &[
    "int", "length", "sqrt", "exp", "sin", "compl", "strtonum", "mkbool", "log", "cos",
];
const BITWISE: &[&str] = &["and", "or", "xor", "lshift", "rshift", "atan2"];

/// Loops and functions within each other: four turns each.
const NESTING_MAX: usize = 3;

struct Writer<'a, 'b> {
    choices: &'b mut Unstructured<'a>,
    out: String,
    /// Loops open here, and how many there were: each has a variable of its own.
    nesting: usize,
    loops: usize,
    /// Functions that may be called: those before this one, so that nothing recurs.
    callable: usize,
    in_function: bool,
}

impl Writer<'_, '_> {
    fn put(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn one_of(&mut self, list: &[&'static str]) -> Result<()> {
        let text = *self.choices.choose(list)?;
        self.put(text);
        Ok(())
    }

    fn below(&mut self, most: u32) -> Result<u32> {
        self.choices.int_in_range(0..=most - 1)
    }

    fn call(
        &mut self,
        name: &str,
        arguments: &[fn(&mut Self, u32) -> Result<()>],
        depth: u32,
    ) -> Result<()> {
        self.put(name);
        self.put("(");
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                self.put(", ");
            }
            argument(self, depth)?;
        }
        self.put(")");
        Ok(())
    }

    fn scalar(&mut self, _: u32) -> Result<()> {
        self.one_of(SCALARS)
    }

    fn array(&mut self, _: u32) -> Result<()> {
        self.one_of(ARRAYS)
    }

    fn regex(&mut self, _: u32) -> Result<()> {
        self.one_of(REGEXES)
    }

    fn element(&mut self, depth: u32) -> Result<()> {
        self.array(depth)?;
        self.put("[");
        self.expr(depth)?;
        if self.below(4)? == 0 {
            self.put(", ");
            self.expr(depth)?;
        }
        self.put("]");
        Ok(())
    }

    fn expr(&mut self, depth: u32) -> Result<()> {
        if depth == 0 {
            return match self.below(3)? {
                0 => self.scalar(0),
                _ => self.one_of(CONSTANTS),
            };
        }
        let depth = depth - 1;
        match self.below(24)? {
            0 | 1 => self.scalar(depth),
            2 => self.one_of(CONSTANTS),
            3..=6 => {
                self.put("(");
                self.expr(depth)?;
                self.one_of(BINARY)?;
                self.expr(depth)?;
                self.put(")");
                Ok(())
            }
            7 => {
                self.one_of(&["!", "-", "+", "- -"])?;
                self.expr(depth)
            }
            8 => self.one_of(&["x++", "--y", "a[x]++", "$1++", "++b[y, 1]", "z--"]),
            9 => self.element(depth),
            10 => {
                self.put("(");
                self.expr(depth)?;
                self.put(" ? ");
                self.expr(depth)?;
                self.put(" : ");
                self.expr(depth)?;
                self.put(")");
                Ok(())
            }
            11 => self.call("substr", &[Self::expr, Self::expr, Self::expr], depth),
            12 => self.call("index", &[Self::expr, Self::expr], depth),
            13 => self.call("match", &[Self::expr, Self::regex, Self::array], depth),
            14 => self.call(
                "split",
                &[Self::expr, Self::array, Self::regex, Self::array],
                depth,
            ),
            15 => {
                let name = *self.choices.choose(NUMERIC)?;
                self.call(name, &[Self::expr], depth)
            }
            16 => {
                let name = *self.choices.choose(BITWISE)?;
                self.call(name, &[Self::expr, Self::expr], depth)
            }
            17 => {
                self.one_of(&["toupper(", "tolower(", "typeof(", "isarray("])?;
                self.expr(depth)?;
                self.put(")");
                Ok(())
            }
            18 => self.format(depth),
            19 => {
                self.put("(");
                self.expr(depth)?;
                self.put(" in ");
                self.array(depth)?;
                self.put(")");
                Ok(())
            }
            20 => {
                self.put("gensub(");
                self.regex(depth)?;
                self.one_of(&[", \"<\\\\1&>\", \"g\", ", ", \"\", 2, ", ", x, \"G\", "])?;
                self.put("substr(");
                self.expr(depth)?;
                self.put(", 1, 50))");
                Ok(())
            }
            21 => self.one_of(&[
                "length(a)",
                "patsplit($0, b, /[a-z]+/, a)",
                "asort(a)",
                "asorti(b, q)",
                "(getline)",
                "(getline x)",
                "NF",
                "length",
            ]),
            _ => self.user_call(depth),
        }
    }

    fn user_call(&mut self, depth: u32) -> Result<()> {
        // Not from within loops of functions: the turns would multiply.
        if self.callable == 0 || self.in_function && self.nesting > 0 {
            return self.scalar(depth);
        }
        let number = self.choices.int_in_range(1..=self.callable)?;
        if self.below(4)? == 0 {
            self.put("@x("); // its value names a function, or ends the run
        } else {
            self.put(&format!("f{number}("));
        }
        self.expr(depth)?;
        self.put(", ");
        match self.below(3)? {
            0 => self.array(depth)?,
            1 => self.put("never"),
            _ => self.expr(depth)?,
        }
        self.put(")");
        Ok(())
    }

    fn format(&mut self, depth: u32) -> Result<()> {
        self.put("sprintf(\"");
        let count = 1 + self.below(3)?;
        for _ in 0..count {
            self.one_of(FORMATS)?;
        }
        self.put("\"");
        for _ in 0..2 * count {
            self.put(", substr(");
            self.expr(depth)?;
            self.put(", 1, 2)");
        }
        self.put(")");
        Ok(())
    }

    fn statements(&mut self, depth: u32) -> Result<()> {
        for _ in 0..1 + self.below(4)? {
            self.statement(depth)?;
            self.put("\n");
        }
        Ok(())
    }

    fn block(&mut self, depth: u32) -> Result<()> {
        self.put("{\n");
        self.statements(depth)?;
        self.put("}");
        Ok(())
    }

    /// The head of a loop of at most four turns, with its body.
    fn bounded_loop(&mut self, depth: u32) -> Result<()> {
        self.loops += 1;
        let i = format!("i{}", self.loops);
        self.nesting += 1;
        match self.below(4)? {
            0 => {
                self.put(&format!("for ({i} = 0; {i} < 4; {i}++) "));
                self.block(depth)?;
            }
            1 => {
                self.put(&format!("{i} = 0; while ({i}++ < 3) "));
                self.block(depth)?;
            }
            2 => {
                self.put(&format!("{i} = 0; do "));
                self.block(depth)?;
                self.put(&format!(" while ({i}++ < 3)"));
            }
            _ => {
                self.put(&format!("{i} = 0; for (k in "));
                self.array(depth)?;
                self.put(&format!(") {{ if ({i}++ > 3) break\n"));
                self.statements(depth)?;
                self.put("}");
            }
        }
        self.nesting -= 1;
        Ok(())
    }

    fn statement(&mut self, depth: u32) -> Result<()> {
        if depth == 0 {
            self.put("print ");
            return self.expr(1);
        }
        let inner = depth - 1;
        match self.below(20)? {
            0..=3 => {
                self.scalar(depth)?;
                self.put(" = substr(");
                self.expr(depth)?;
                self.put(", 1, 100)");
            }
            4 => {
                self.one_of(&["x", "y", "z", "b[x]"])?;
                self.one_of(&[" += ", " -= ", " *= ", " %= ", " = "])?;
                self.expr(depth)?;
                self.put(" + 0");
            }
            5 | 6 => {
                self.element(depth)?;
                self.put(" = substr(");
                self.expr(depth)?;
                self.put(", 1, 100)");
            }
            7 => {
                self.one_of(&["print ", "print(", "printf \"%s,%d\\n\", "])?;
                let is_open = self.out.ends_with('(');
                self.expr(depth)?;
                self.put(", ");
                self.put("(");
                self.expr(depth)?;
                self.put(")");
                if is_open {
                    self.put(")");
                }
            }
            8 => {
                self.put("if (");
                self.expr(depth)?;
                self.put(") ");
                self.block(inner)?;
                if self.below(2)? == 0 {
                    self.put(" else ");
                    self.block(inner)?;
                }
            }
            9 | 10 if self.nesting < NESTING_MAX => self.bounded_loop(inner)?,
            11 => {
                self.put("switch (");
                self.expr(depth)?;
                self.put(") {\ncase 1:\n");
                self.statements(inner)?;
                self.put("case /a/:\ncase \"b\":\n");
                self.statements(inner)?;
                self.one_of(&["break\n", ""])?;
                self.put("default:\n");
                self.statements(inner)?;
                self.put("}");
            }
            12 => {
                self.put("n = ");
                self.one_of(&["sub(", "gsub("])?;
                self.regex(depth)?;
                self.one_of(&[", \"[&]\", ", ", \"\\\\\\\\&\", ", ", \"\", ", ", y, "])?;
                let target = *self.choices.choose(&["x", "y", "$0", "$2", "a[1]"])?;
                self.put(target);
                self.put(&format!("); {target} = substr({target}, 1, 100)"));
            }
            13 => {
                self.put("delete ");
                if self.below(3)? == 0 {
                    self.array(depth)?;
                } else {
                    self.element(depth)?;
                }
            }
            14 => {
                self.one_of(&["NF = ", "$(", "$("])?;
                let is_field = self.out.ends_with('(');
                self.put("int(");
                self.expr(depth)?;
                self.put(") % 12");
                if is_field {
                    self.put(") = x");
                }
            }
            15 => {
                self.put("PROCINFO[\"sorted_in\"] = \"");
                self.one_of(SORTS)?;
                self.put("\"");
            }
            16 if self.in_function => {
                self.put("return ");
                self.expr(depth)?;
            }
            17 if self.nesting > 0 => self.one_of(&["break", "continue"])?,
            18 => self.one_of(&[
                "FIELDWIDTHS = \"1 2 *\"",
                "FPAT = \"[a-c]+\"",
                "FS = \"[,x]\"",
                "RS = \"\"",
                "RS = \"a|b\"",
                "FS = \"\"",
                "OFS = \"-\"",
                "exit",
                "getline",
                "srand(1)",
                "x = rand()",
            ])?,
            _ => self.expr(depth)?,
        }
        Ok(())
    }

    fn program(&mut self) -> Result<()> {
        let functions = self.below(3)? as usize;
        for number in 1..=functions {
            self.in_function = true;
            self.put(&format!("function f{number}(p, q,   l) "));
            self.block(3)?;
            self.put("\n");
            self.callable = number;
            self.in_function = false;
        }
        for _ in 0..1 + self.below(3)? {
            match self.below(7)? {
                0 | 1 => self.put("BEGIN "),
                2 => self.put("END "),
                3 => {
                    self.regex(0)?;
                    self.put(" ");
                }
                4 => {
                    self.expr(2)?;
                    self.put(", ");
                    self.expr(1)?;
                    self.put(" ");
                }
                _ => {}
            }
            self.block(4)?;
            self.put("\n");
        }
        Ok(())
    }
}

/// The program as it is printed, if it is one that can be read.
fn printed(program: &str) -> Option<String> {
    let mut sources = Sources::default();
    sources.add("p.awk", program);
    print::pretty(sources, &[], &Options::default(), &mut NoWorld)
        .0
        .ok()
}

fuzz_target!(|data: &[u8]| {
    let mut choices = Unstructured::new(data);
    let charset = match choices.arbitrary::<bool>() {
        Ok(true) => Charset::Bytes,
        _ => Charset::Utf8,
    };
    let mut writer = Writer {
        choices: &mut choices,
        out: String::new(),
        nesting: 0,
        loops: 0,
        callable: 0,
        in_function: false,
    };
    if writer.program().is_err() {
        return;
    }
    let program = writer.out;
    let rest = choices.take_rest();
    let input: &[u8] = if rest.is_empty() {
        b"a b c\n10 9 x\n\nab,c \xc3\xa9\xff\nlast"
    } else {
        rest
    };
    let plain = Run::new(charset);
    let (result, output) = plain.play(&program, input);
    let outcome = |result: &std::result::Result<i32, awk::Error>| result.as_ref().ok().copied();
    let profiled = Run {
        profiled: true,
        ..Run::new(charset)
    };
    let (watched, watched_output) = profiled.play(&program, input);
    assert_eq!(outcome(&result), outcome(&watched), "{program}\nprofiled");
    assert!(
        output == watched_output,
        "{program}\nprofiled: other output"
    );
    if let Some(text) = printed(&program) {
        let (again, again_output) = plain.play(&text, input);
        assert_eq!(
            outcome(&result),
            outcome(&again),
            "{program}\n{result:?}\nprinted\n{text}\n{again:?}"
        );
        assert!(output == again_output, "{program}\nprinted\n{text}");
    }
});
