//! Makes a C program from a seed. It has no undefined behaviour: numbers are unsigned, and every index is cut to its array.

use std::fmt::Write;

struct Maker {
    seed: u64,
    out: String,
    structs: Vec<Struct>,
    depth: usize,
    /// Names of numbers in scope.
    scope: Vec<String>,
    names: usize,
    functions: usize,
}

struct Struct {
    fields: Vec<Field>,
    /// How many there are: a power of two.
    count: u64,
}

enum Field {
    Number,
    Bits,
    Real,
    Array(u64),
    Inner(usize),
    Next,
}

const NUMBERS: [&str; 5] = ["u8", "u16", "u32", "u64", "u128"];
const RAW: u64 = 2048;

pub fn text(seed: u64) -> String {
    let mut m = Maker {
        seed: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        out: String::new(),
        structs: Vec::new(),
        depth: 0,
        scope: Vec::new(),
        names: 0,
        functions: 0,
    };
    m.program();
    m.out
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % n
    }

    fn line(&mut self, text: &str) {
        let indent = "  ".repeat(self.depth);
        writeln!(self.out, "{indent}{text}").expect("text");
    }

    fn program(&mut self) {
        self.line("#include \"heap.h\"\n#include <stdio.h>\n#include <string.h>");
        self.line("typedef unsigned char u8; typedef unsigned short u16; typedef unsigned u32; typedef unsigned long u64; typedef unsigned __int128 u128;");
        for i in 0..2 + self.below(3) as usize {
            self.a_struct(i);
        }
        self.line(&format!("static u8 *raw; static u64 *words; static u32 outside[64]; static volatile u32 gate; enum {{ RAW = {RAW} }};"));
        self.line("static u32 commits = 500, calls = 2000;\n#define COMMIT() do { if (commits) { commits--; perdure_commit(); } } while (0)");
        let functions = 3 + self.below(4) as usize;
        for i in 0..functions {
            self.function(i);
        }
        self.main();
    }

    fn a_struct(&mut self, number: usize) {
        let packed = if self.below(3) == 0 {
            "__attribute__((packed)) "
        } else {
            ""
        };
        let mut fields = Vec::new();
        let mut text = format!("struct {packed}S{number} {{ ");
        for f in 0..2 + self.below(7) {
            let number_type = NUMBERS[self.below(5) as usize];
            let field = match self.below(10) {
                0 => {
                    let bits = 1 + self.below(31);
                    write!(text, "u32 f{f} : {bits}; ").expect("text");
                    Field::Bits
                }
                1 => {
                    write!(text, "double f{f}; ").expect("text");
                    Field::Real
                }
                2 | 3 => {
                    let count = 1 << self.below(6);
                    write!(text, "{number_type} f{f}[{count}]; ").expect("text");
                    Field::Array(count)
                }
                4 if number > 0 => {
                    let inner = self.below(number as u64) as usize;
                    write!(text, "struct S{inner} f{f}; ").expect("text");
                    Field::Inner(inner)
                }
                5 => {
                    write!(text, "struct S{number} *f{f}; ").expect("text");
                    Field::Next
                }
                _ => {
                    write!(text, "{number_type} f{f}; ").expect("text");
                    Field::Number
                }
            };
            fields.push(field);
        }
        let count = 1 << (2 + self.below(5));
        self.line(&format!("{text}}};\nstatic struct S{number} *h{number};"));
        self.structs.push(Struct { fields, count });
    }

    /// A field of a structure that can be assigned a number, as what follows the structure's name.
    fn field(&mut self, of: usize, dot: &str) -> Option<String> {
        for _ in 0..4 {
            let f = self.below(self.structs[of].fields.len() as u64) as usize;
            match self.structs[of].fields[f] {
                Field::Number | Field::Bits | Field::Real => {
                    return Some(format!("{dot}f{f}"));
                }
                Field::Array(count) => {
                    let index = self.index(count);
                    return Some(format!("{dot}f{f}[{index}]"));
                }
                Field::Inner(inner) => {
                    if let Some(rest) = self.field(inner, ".") {
                        return Some(format!("{dot}f{f}{rest}"));
                    }
                }
                Field::Next => {}
            }
        }
        None
    }

    fn index(&mut self, count: u64) -> String {
        if self.below(3) == 0 {
            return self.below(count).to_string();
        }
        let number = self.number(1);
        format!("({number}) & {}", count - 1)
    }

    fn any_struct(&mut self) -> usize {
        self.below(self.structs.len() as u64) as usize
    }

    /// Something in the heap, mostly, that can be assigned a number.
    fn place(&mut self) -> String {
        match self.below(8) {
            0 => {
                let index = self.index(RAW);
                format!("raw[{index}]")
            }
            1 => {
                let index = self.index(RAW / 8);
                format!("words[{index}]")
            }
            2 if self.below(3) == 0 => {
                let index = self.index(64);
                format!("outside[{index}]")
            }
            _ => {
                let s = self.any_struct();
                let index = self.index(self.structs[s].count);
                match self.field(s, ".") {
                    Some(field) => format!("h{s}[{index}]{field}"),
                    None => "raw[7]".into(),
                }
            }
        }
    }

    fn number(&mut self, deep: usize) -> String {
        match self.below(if deep > 2 { 3 } else { 7 }) {
            0 => format!("{}ul", self.below(1 << 20)),
            1 | 2 if !self.scope.is_empty() => {
                let i = self.below(self.scope.len() as u64) as usize;
                self.scope[i].clone()
            }
            3 if deep < 2 => format!("(u64)(u32){}", self.place()),
            4 => {
                let (a, b) = (self.number(deep + 1), self.number(deep + 1));
                let op = ["+", "-", "*", "^", "&", "|"][self.below(6) as usize];
                format!("({a} {op} {b})")
            }
            5 => {
                let a = self.number(deep + 1);
                format!("({a} >> {})", self.below(9))
            }
            6 => {
                let (a, b) = (self.number(deep + 1), self.number(deep + 1));
                format!("({a} < {b})")
            }
            _ => format!("{}ul", self.below(100) + 3),
        }
    }

    /// As a double holds it, and every field can take it.
    fn value(&mut self) -> String {
        format!("(u32)({})", self.number(0))
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn block(&mut self, statements: u64) {
        self.depth += 1;
        for _ in 0..1 + self.below(statements) {
            self.statement();
        }
        self.depth -= 1;
    }

    fn statement(&mut self) {
        let kind = self.below(if self.depth > 3 { 12 } else { 22 });
        match kind {
            0..=4 => {
                let (place, value) = (self.place(), self.value());
                self.line(&format!("{place} = {value};"));
            }
            5 => {
                let s = self.any_struct();
                let (a, b) = (
                    self.index(self.structs[s].count),
                    self.index(self.structs[s].count),
                );
                self.line(&format!("h{s}[{a}] = h{s}[{b}];"));
            }
            6 => {
                let (from, to, n) = (self.index(RAW / 2), self.index(RAW / 2), self.number(1));
                let text = match self.below(4) {
                    0 => format!("memmove(raw + ({to}), raw + ({from}), ({n}) & 255);"),
                    1 => format!("memset(raw + ({to}), {from}, ({n}) & 255);"),
                    2 => format!(
                        "memmove(raw + ({to}), raw + RAW / 2 + ({from}) / 2, {});",
                        1 + self.below(255)
                    ),
                    _ => format!(
                        "memcpy(words + ({to}) / 16, raw + ({from}), {});",
                        1 + self.below(255)
                    ),
                };
                self.line(&text);
            }
            7 if self.below(2) == 0 => self.line("COMMIT();"),
            8 if self.functions > 0 => {
                let f = self.below(self.functions as u64);
                let (a, b) = (self.number(1), self.number(1));
                self.line(&format!("n += f{f}({a}, {b});"));
            }
            9 => {
                let (index, value) = (self.index(RAW / 8), self.value());
                let order = ["RELAXED", "SEQ_CST", "ACQ_REL"][self.below(3) as usize];
                let op = ["fetch_add", "fetch_xor", "exchange_n"][self.below(3) as usize];
                self.line(&format!(
                    "__atomic_{op}(&words[{index}], {value}, __ATOMIC_{order});"
                ));
            }
            10 => {
                let value = self.value();
                self.line(&format!("n = n * 31 + {value};"));
            }
            11 => self.line("gate++;"),
            12 | 13 => self.counted_loop(),
            14 => {
                let condition = self.number(0);
                let mask = 1 + self.below(3);
                self.line(&format!("if (({condition}) & {mask}) {{"));
                self.block(4);
                if self.below(2) == 0 {
                    self.line("} else {");
                    self.block(4);
                }
                self.line("}");
            }
            15 | 16 => self.plain_loop(),
            17 => self.chase(),
            18 => self.choose(),
            19 => {
                let i = self.fresh("i");
                let limit = self.number(1);
                self.line(&format!(
                    "for (u64 {i} = 0;; {i}++) {{ if ({i} > (({limit}) & 7)) break;"
                ));
                self.scope.push(i);
                self.block(3);
                self.scope.pop();
                self.line("}");
            }
            20 => {
                let condition = self.number(0);
                self.line(&format!("switch (({condition}) & 3) {{"));
                for case in 0..3 {
                    self.line(&format!("case {case}:"));
                    self.block(2);
                    if self.below(2) == 0 {
                        self.line("break;");
                    }
                }
                self.line("default: n++; }");
            }
            _ => {
                let s = self.any_struct();
                let name = self.fresh("l");
                let (a, b) = (
                    self.index(self.structs[s].count),
                    self.index(self.structs[s].count),
                );
                self.line(&format!("{{ struct S{s} {name} = h{s}[{a}];"));
                if let Some(field) = self.field(s, ".") {
                    let value = self.value();
                    self.line(&format!("{name}{field} = {value};"));
                }
                self.line(&format!("h{s}[{b}] = {name}; }}"));
            }
        }
    }

    fn counted_loop(&mut self) {
        let i = self.fresh("i");
        let most = if self.depth > 1 { 3 } else { 31 };
        let limit = if self.below(2) == 0 {
            (1 + self.below(most)).to_string()
        } else {
            format!("(({}) & {most})", self.number(1))
        };
        let step = 1 + self.below(4);
        if self.below(3) == 0 {
            self.line(&format!("for (u64 {i} = {limit}; {i}-- > 0;) {{"));
        } else {
            self.line(&format!(
                "for (u64 {i} = 0; {i} < {limit}; {i} += {step}) {{"
            ));
        }
        self.scope.push(i);
        self.block(4);
        self.scope.pop();
        self.line("}");
    }

    /// A loop as vectorizers like them.
    fn plain_loop(&mut self) {
        let i = self.fresh("i");
        let s = self.any_struct();
        let count = self.structs[s].count;
        let value = self.number(2);
        let text = match self.below(6) {
            0 => format!("for (u32 {i} = 0; {i} < RAW; {i}++) raw[{i}] = (u8)({i} + ({value}));"),
            1 => {
                let (from, limit) = (self.below(64), 64 + self.below(190));
                format!(
                    "for (u64 {i} = {from}; {i} < {limit}; {i}++) words[{i}] += {i} * ({value});"
                )
            }
            2 => format!(
                "for (int {i} = 255; {i} >= 1; {i}--) words[{i}] = words[{i} - 1] ^ ({value});"
            ),
            3 => format!(
                "for (u32 {i} = 0; {i} < RAW; {i}++) if (raw[{i}] & 4) raw[{i}] ^= (u8)({value});"
            ),
            4 => {
                let step = 1 + self.below(20);
                format!("for (u32 {i} = 0; {i} < RAW / 8; {i} += {step}) words[{i}] = {i};")
            }
            _ => match self.field(s, ".") {
                Some(field) => format!(
                    "for (u64 {i} = 0; {i} < {count}; {i}++) h{s}[{i}]{field} = (u32)({i} * 3 + ({value}));"
                ),
                None => "raw[9]++;".into(),
            },
        };
        self.line(&text);
    }

    fn chase(&mut self) {
        let s = self.any_struct();
        let Some(next) = self.structs[s]
            .fields
            .iter()
            .position(|f| matches!(f, Field::Next))
        else {
            return;
        };
        let (p, k) = (self.fresh("p"), self.fresh("k"));
        let start = self.index(self.structs[s].count);
        let hops = 1 + self.below(9);
        self.line(&format!("struct S{s} *{p} = &h{s}[{start}];"));
        self.line(&format!(
            "for (int {k} = 0; {k} < {hops}; {k}++, {p} = {p}->f{next}) {{"
        ));
        for _ in 0..2 {
            if let Some(field) = self.field(s, "->") {
                let value = self.value();
                self.line(&format!("  {p}{field} = {value};"));
            }
        }
        if self.below(4) == 0 {
            let other = self.index(self.structs[s].count);
            self.line(&format!("  {p}->f{next} = &h{s}[{other}];"));
        }
        if self.below(4) == 0 {
            self.line("  COMMIT();");
        }
        self.line("}");
    }

    fn choose(&mut self) {
        let s = self.any_struct();
        let p = self.fresh("p");
        let (condition, a) = (self.number(1), self.index(self.structs[s].count));
        self.line(&format!(
            "struct S{s} local{p} = h{s}[0], *{p} = ({condition}) & 1 ? &h{s}[{a}] : &local{p};"
        ));
        for _ in 0..3 {
            if let Some(field) = self.field(s, "->") {
                let value = self.value();
                self.line(&format!("{p}{field} = {value};"));
            }
        }
    }

    fn function(&mut self, number: usize) {
        self.line(&format!(
            "__attribute__((noinline)) static u64 f{number}(u64 a, u64 b) {{"
        ));
        self.depth = 1;
        self.line("u64 n = a ^ b;\n  if (!calls) return n;\n  calls--;");
        self.scope = vec!["a".into(), "b".into(), "n".into()];
        for _ in 0..4 + self.below(8) {
            self.statement();
        }
        self.line("return n;");
        self.depth = 0;
        self.line("}");
        self.scope.clear();
        self.functions = number + 1;
    }

    fn main(&mut self) {
        for s in 0..self.structs.len() {
            let mut text = format!("static u64 sum{s}(const struct S{s} *p) {{ u64 n = 0;");
            for (f, field) in self.structs[s].fields.iter().enumerate() {
                let part = match field {
                    Field::Number | Field::Bits => format!("n = n * 31 + (u64)p->f{f};"),
                    Field::Real => format!("n = n * 31 + (u64)p->f{f};"),
                    Field::Array(count) => {
                        format!("for (int i = 0; i < {count}; i++) n = n * 31 + (u64)p->f{f}[i];")
                    }
                    Field::Inner(inner) => format!("n = n * 31 + sum{inner}(&p->f{f});"),
                    Field::Next => format!("n = n * 31 + (u64)p->f{f};"),
                };
                write!(text, " {part}").expect("text");
            }
            self.line(&format!("{text} return n; }}"));
        }
        self.line("int main(void) {\n  raw = perdure_alloc(RAW); words = perdure_alloc(RAW);");
        self.line("  memset(raw, 3, RAW); memset(words, 5, RAW);");
        for s in 0..self.structs.len() {
            let count = self.structs[s].count;
            self.line(&format!("  h{s} = perdure_alloc({count} * sizeof *h{s}); memset(h{s}, 0, {count} * sizeof *h{s});"));
            for f in 0..self.structs[s].fields.len() {
                if matches!(self.structs[s].fields[f], Field::Next) {
                    self.line(&format!("  for (int i = 0; i < {count}; i++) h{s}[i].f{f} = &h{s}[(i * 5 + 3) & {}];", count - 1));
                }
            }
        }
        // Inner structures hold pointers of their own kind.
        self.line("  u64 n = 0;");
        for f in 0..self.functions {
            self.line(&format!("  for (u64 r = 0; r < 4; r++) {{ n = n * 31 + f{f}(r * 77, n); perdure_commit(); }}"));
        }
        for s in 0..self.structs.len() {
            let count = self.structs[s].count;
            self.line(&format!(
                "  for (int i = 0; i < {count}; i++) n = n * 31 + sum{s}(&h{s}[i]);"
            ));
        }
        self.line("  for (int i = 0; i < RAW; i++) n = n * 31 + raw[i] + words[i / 8];");
        self.line("  CLAIM(perdure_unseen_commits() == 0);\n  printf(\"%lu\\n\", n);\n}");
    }
}
