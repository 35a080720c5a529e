//! The tree of an AWK program, as written: nothing is simplified, parentheses stay.
//!
//! Invariant: the tree's depth is bounded by the parser (`parse::DEPTH_MAX`), so that recursive walks are safe; chains that
//! programs make long (`a b c`, `a + b + c`, `a || b || c`, `else if`) are flat lists for the same reason.

use crate::names::{Builtin, Library, Symbol};
use crate::span::Span;

mod children;

pub use children::Parts;

/// A whole program, or the functions of a heap.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Pattern-action rules in program order.
    pub rules: Vec<Rule>,
    /// Function definitions in program order.
    pub functions: Vec<Function>,
    /// Libraries named by `@load`, with the places of their names.
    pub loads: Vec<(Library, Span)>,
    /// Files that `@include` named, in the order of reading. The caller adds those that it included itself (`-i`).
    pub includes: Vec<String>,
    /// Where comments stand, in the order of reading: from `#` to the end of the line.
    pub comments: Vec<Span>,
    /// Where regular expressions begin: at their slash, or at the `@` in front of it.
    pub regexes: Vec<Span>,
}

/// `pattern { action }`
#[derive(Clone, Debug)]
pub struct Rule {
    /// When it applies.
    pub pattern: Pattern,
    /// `None`: no braces, which prints the record.
    pub body: Option<Vec<Stmt>>,
    /// The namespace in which it is written; `None`: `awk`.
    pub namespace: Option<Symbol>,
    /// The whole rule.
    pub span: Span,
}

/// What selects records.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// `BEGIN`
    Begin,
    /// `END`
    End,
    /// `BEGINFILE`
    BeginFile,
    /// `ENDFILE`
    EndFile,
    /// none: every record
    Always,
    /// an expression
    Expr(Expr),
    /// `from, to`
    Range(Expr, Expr),
}

/// `function name(params) { body }`
#[derive(Clone, Debug)]
pub struct Function {
    /// Its name, qualified: `f`, `ns::f`.
    pub name: Symbol,
    /// The namespace in which it is written, without which its text would mean something else; `None`: `awk`.
    pub namespace: Option<Symbol>,
    /// Where the name stands.
    pub name_span: Span,
    /// Parameters, locals included: AWK does not tell them apart.
    pub params: Vec<(Symbol, Span)>,
    /// Statements.
    pub body: Vec<Stmt>,
    /// Exactly the text from `function` to `}`: what a heap keeps.
    pub span: Span,
}

/// A statement and its place.
#[derive(Clone, Debug)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it stands.
    pub span: Span,
}

/// Statements.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum StmtKind {
    Expr(Expr),
    /// `print` and `printf`; `parens` if the list was written in parentheses.
    Print {
        printf: bool,
        args: Vec<Expr>,
        parens: bool,
        to: Option<Redirect>,
    },
    /// `if`/`else if` chain, flat.
    If {
        arms: Vec<(Expr, Vec<Stmt>)>,
        otherwise: Option<Vec<Stmt>>,
    },
    While {
        cond: Expr,
        body: Vec<Stmt>,
    },
    DoWhile {
        body: Vec<Stmt>,
        cond: Expr,
    },
    For {
        init: Option<Box<Stmt>>,
        cond: Option<Expr>,
        step: Option<Box<Stmt>>,
        body: Vec<Stmt>,
    },
    ForIn {
        var: Symbol,
        var_span: Span,
        array: ArrayExpr,
        body: Vec<Stmt>,
    },
    Switch {
        subject: Expr,
        cases: Vec<Case>,
    },
    Block(Vec<Stmt>),
    Next,
    NextFile,
    Exit(Option<Expr>),
    Return(Option<Expr>),
    Break,
    Continue,
    /// `delete a[subs]`, or the whole array without `subs`.
    Delete {
        array: ArrayExpr,
        subs: Option<Vec<Expr>>,
    },
}

/// One label of a `switch` and what follows it; the end of a body falls through to the next.
#[derive(Clone, Debug)]
pub struct Case {
    /// A constant (number, string, regular expression); `None`: `default`.
    pub label: Option<Expr>,
    /// Statements up to the next label.
    pub body: Vec<Stmt>,
    /// From `case` or `default` to the colon.
    pub span: Span,
}

/// An array: a name, and the subscripts that lead from it to an array inside it: `a`, `a[1]`, `a[1][2, 3]`.
#[derive(Clone, Debug)]
pub struct ArrayExpr {
    /// The outermost array.
    pub name: Symbol,
    /// From the name to the last bracket.
    pub span: Span,
    /// One list of subscripts for each pair of brackets.
    pub path: Vec<Vec<Expr>>,
}

/// Where output goes.
#[derive(Clone, Debug)]
pub struct Redirect {
    /// `>`, `>>`, `|` or `|&`.
    pub kind: RedirectKind,
    /// File name or command.
    pub target: Expr,
}

/// The ways of output redirection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum RedirectKind {
    File,
    Append,
    Pipe,
    /// `|&`
    Coprocess,
}

/// An expression and its place.
#[derive(Clone, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where it stands.
    pub span: Span,
}

/// Expressions.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum ExprKind {
    Num(f64),
    Str(Vec<u8>),
    /// `_"text"`: a string that may be shown in another language.
    Translated(Vec<u8>),
    /// `/text/`: a pattern where one is wanted, `$0 ~ /text/` elsewhere.
    Regex(Vec<u8>),
    /// `@/text/`: a regular expression as a value.
    TypedRegex(Vec<u8>),
    Var(Symbol),
    Field(Box<Expr>),
    /// `a[1][2]` is subscript 2 of the array `a[1]`.
    Index {
        array: ArrayExpr,
        subs: Vec<Expr>,
    },
    Group(Box<Expr>),
    /// `(a, b)` directly after `print`.
    Tuple(Vec<Expr>),
    Not(Box<Expr>),
    Minus(Box<Expr>),
    Plus(Box<Expr>),
    /// Left-associative chain of `+ -` or of `* / %`: first, then (operator, operand)s.
    Arith {
        first: Box<Expr>,
        rest: Vec<(ArithOp, Expr)>,
    },
    Power {
        base: Box<Expr>,
        exponent: Box<Expr>,
    },
    Concat(Vec<Expr>),
    Compare {
        op: CompareOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    Match {
        negated: bool,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    In {
        subs: Vec<Expr>,
        array: ArrayExpr,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    /// `a ? b : c ? d : e`, flat: conditions with their values, and the value if none is true.
    Cond {
        arms: Vec<(Expr, Expr)>,
        otherwise: Box<Expr>,
    },
    /// `op` is `None` for plain `=`.
    Assign {
        target: Box<Expr>,
        op: Option<ArithOp>,
        value: Box<Expr>,
    },
    /// `++` and `--`.
    Step {
        target: Box<Expr>,
        down: bool,
        prefix: bool,
    },
    Call {
        name: Symbol,
        args: Vec<Expr>,
    },
    /// `@name(args)`: the variable holds the function's name.
    IndirectCall {
        name: Symbol,
        name_span: Span,
        args: Vec<Expr>,
    },
    /// `parens` is false for `length` without them.
    Builtin {
        which: Builtin,
        args: Vec<Expr>,
        parens: bool,
    },
    Getline {
        target: Option<Box<Expr>>,
        from: GetlineFrom,
    },
}

/// What `getline` reads.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum GetlineFrom {
    Main,
    File(Box<Expr>),
    Command(Box<Expr>),
    /// `command |& getline`
    Coprocess(Box<Expr>),
}

/// Arithmetic operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum ArithOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
}

impl ArithOp {
    /// As written.
    pub fn text(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Div => "/",
            ArithOp::Mod => "%",
            ArithOp::Pow => "^",
        }
    }
}

/// Comparison operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum CompareOp {
    Lt,
    Le,
    Eq,
    Ne,
    Gt,
    Ge,
}

impl CompareOp {
    /// As written.
    pub fn text(self) -> &'static str {
        match self {
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Eq => "==",
            CompareOp::Ne => "!=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        }
    }
}

impl Expr {
    /// Whether something can be assigned to it.
    pub fn is_lvalue(&self) -> bool {
        matches!(
            self.kind,
            ExprKind::Var(_) | ExprKind::Field(_) | ExprKind::Index { .. }
        )
    }

    /// The expression inside any parentheses.
    pub fn ungrouped(&self) -> &Expr {
        let mut e = self;
        while let ExprKind::Group(inner) = &e.kind {
            e = inner;
        }
        e
    }
}
