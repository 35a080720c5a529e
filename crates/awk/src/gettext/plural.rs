//! The rule by which a language chooses among plural forms: the expression in a catalogue's header.
//!
//! Invariant: evaluating takes no more steps than the expression has operators, and no value makes it fail; a division
//! by zero is 0. An expression that is malformed, or nested more than [`DEPTH_MAX`] deep, is not taken.

/// Nesting that no real rule comes near.
const DEPTH_MAX: usize = 50;

/// How many forms there are and which is for `n`.
#[derive(Debug)]
pub(super) struct Plural {
    count: u64,
    rule: Expr,
}

#[derive(Debug)]
enum Expr {
    N,
    Num(u64),
    Not(Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>),
    Choice(Box<Expr>, Box<Expr>, Box<Expr>),
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// C's binary operators by how tightly they bind, loosest first; of those that begin alike the longer stands first.
const LEVELS: [&[(&[u8], Op)]; 6] = [
    &[(b"||", Op::Or)],
    &[(b"&&", Op::And)],
    &[(b"==", Op::Equal), (b"!=", Op::Unequal)],
    &[
        (b"<=", Op::LessEqual),
        (b">=", Op::GreaterEqual),
        (b"<", Op::Less),
        (b">", Op::Greater),
    ],
    &[(b"+", Op::Add), (b"-", Op::Subtract)],
    &[
        (b"*", Op::Multiply),
        (b"/", Op::Divide),
        (b"%", Op::Remainder),
    ],
];

impl Plural {
    /// One thing and several: the rule of catalogues that give none.
    pub(super) fn germanic() -> Plural {
        Plural {
            count: 2,
            rule: Expr::Binary(Op::Unequal, Box::new(Expr::N), Box::new(Expr::Num(1))),
        }
    }

    /// The rule of a header's line `Plural-Forms: nplurals=N; plural=EXPRESSION;`.
    pub(super) fn from_header(header: &[u8]) -> Option<Plural> {
        let after = |name: &[u8]| {
            let at = memchr::memmem::find(header, name)?;
            Some(&header[at + name.len()..])
        };
        let count = Parser {
            text: after(b"nplurals=")?,
            depth: 0,
        }
        .number()?;
        let text = after(b"plural=")?;
        let end = text
            .iter()
            .position(|b| matches!(b, b';' | b'\n'))
            .unwrap_or(text.len());
        let mut parser = Parser {
            text: &text[..end],
            depth: 0,
        };
        let rule = parser.choice()?;
        parser.blanks();
        (parser.text.is_empty() && count > 0).then_some(Plural { count, rule })
    }

    /// The form for `n` things, from 0; the first if the rule names one that there is not.
    pub(super) fn form(&self, n: u64) -> usize {
        let form = self.rule.value(n);
        if form < self.count { form as usize } else { 0 }
    }
}

impl Expr {
    fn value(&self, n: u64) -> u64 {
        match self {
            Expr::N => n,
            Expr::Num(value) => *value,
            Expr::Not(inner) => u64::from(inner.value(n) == 0),
            Expr::Choice(test, yes, no) => {
                if test.value(n) != 0 {
                    yes.value(n)
                } else {
                    no.value(n)
                }
            }
            Expr::Binary(Op::Or, a, b) => u64::from(a.value(n) != 0 || b.value(n) != 0),
            Expr::Binary(Op::And, a, b) => u64::from(a.value(n) != 0 && b.value(n) != 0),
            Expr::Binary(op, a, b) => {
                let (a, b) = (a.value(n), b.value(n));
                match op {
                    Op::Equal => u64::from(a == b),
                    Op::Unequal => u64::from(a != b),
                    Op::Less => u64::from(a < b),
                    Op::Greater => u64::from(a > b),
                    Op::LessEqual => u64::from(a <= b),
                    Op::GreaterEqual => u64::from(a >= b),
                    Op::Add => a.wrapping_add(b),
                    Op::Subtract => a.wrapping_sub(b),
                    Op::Multiply => a.wrapping_mul(b),
                    Op::Divide => a.checked_div(b).unwrap_or(0),
                    _ => a.checked_rem(b).unwrap_or(0),
                }
            }
        }
    }
}

struct Parser<'a> {
    text: &'a [u8],
    depth: usize,
}

impl Parser<'_> {
    fn blanks(&mut self) {
        self.text = self.text.trim_ascii_start();
    }

    fn take(&mut self, sign: &[u8]) -> Option<()> {
        self.blanks();
        self.text = self.text.strip_prefix(sign)?;
        Some(())
    }

    fn number(&mut self) -> Option<u64> {
        self.blanks();
        let len = self.text.iter().take_while(|b| b.is_ascii_digit()).count();
        let value = std::str::from_utf8(&self.text[..len]).ok()?.parse().ok()?;
        self.text = &self.text[len..];
        Some(value)
    }

    fn choice(&mut self) -> Option<Expr> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut expr = self.binary(0)?;
        if self.take(b"?").is_some() {
            let yes = self.choice()?;
            self.take(b":")?;
            let no = self.choice()?;
            expr = Expr::Choice(Box::new(expr), Box::new(yes), Box::new(no));
        }
        self.depth -= 1;
        Some(expr)
    }

    fn binary(&mut self, level: usize) -> Option<Expr> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        let mut count = 0;
        while let Some((_, op)) = operators.iter().find(|(sign, _)| self.take(sign).is_some()) {
            // A chain is a tree as deep as it is long.
            count += 1;
            if count > DEPTH_MAX {
                return None;
            }
            let right = self.binary(level + 1)?;
            left = Expr::Binary(*op, Box::new(left), Box::new(right));
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<Expr> {
        if self.take(b"(").is_some() {
            let inner = self.choice()?;
            self.take(b")")?;
            return Some(inner);
        }
        if self.take(b"!").is_some() {
            self.depth += 1;
            let inner = (self.depth <= DEPTH_MAX).then(|| self.unary()).flatten()?;
            self.depth -= 1;
            return Some(Expr::Not(Box::new(inner)));
        }
        if self.take(b"n").is_some() {
            return Some(Expr::N);
        }
        self.number().map(Expr::Num)
    }
}
