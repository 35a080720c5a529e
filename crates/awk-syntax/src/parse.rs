//! Tokens to tree: recursive descent over the POSIX AWK grammar, with gawk's readings where POSIX is silent.
//!
//! Invariants: the tree is never deeper than `DEPTH_MAX` units; every error is noted before a `Fault` is returned; after an
//! error reading goes on at the next statement border, so that one run reports several errors.
//!
//! Precedence, loosest first: `?:`, `||`, `&&`, `in`, `~ !~`, comparison and `cmd | getline`, concatenation, `+ -`,
//! `* / %`, unary, `^`, `++ --`, `$`. Assignment is taken wherever an operand is a bare lvalue in front of an assignment
//! operator and nothing binds tighter to its left, which is how `1 && a = 3` can only be read.

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::lex::{Lexer, Token};
use crate::names::{Builtin, Names, Symbol};
use crate::span::{Sources, Span};

/// Most units of nesting: what leads back to a whole expression or
/// a statement costs `NEST_COST`, a prefix operator or one link of a chain 1.
/// Measured against a stack of 2 MiB (a Rust test thread) in an unoptimised build, 2026-11.
pub const DEPTH_MAX: usize = 1000;
const NEST_COST: usize = 5;

/// An error that is already noted.
#[derive(Debug)]
pub struct Fault;

type Parse<T> = Result<T, Fault>;

/// Reads the sources `first..=last` as one program. Errors and warnings go to `diagnostics`; what could be read is given
/// back even then. Names are interned in `names`, so that functions read later share their numbers.
pub fn parse(
    sources: &Sources,
    first: u32,
    last: u32,
    names: &mut Names,
    diagnostics: &mut Diagnostics,
) -> Program {
    let mut lexer = Lexer::new(sources, first, last);
    let (token, span) = lexer.next(names, diagnostics);
    let mut parser = Parser {
        lexer,
        token,
        span,
        last: span,
        names,
        diagnostics,
        depth: 0,
        no_gt: false,
        tuple_at: None,
        loops: 0,
        in_function: false,
        context: Context::Main,
    };
    let mut program = Program::default();
    parser.program(&mut program);
    program
}

/// All tokens of a program as text, one per line with its place (`--dump=tokens`). Reads with the parser's eyes, that is,
/// regular expressions are told from divisions by parsing; reading stops at the first syntax error.
pub fn dump_tokens(sources: &Sources, first: u32, last: u32) -> String {
    let (mut names, mut diagnostics) = (Names::default(), Diagnostics::default());
    let mut lexer = Lexer::new(sources, first, last);
    let mut out = String::new();
    let mut operand_before = false;
    loop {
        let (mut token, mut span) = lexer.next(&mut names, &mut diagnostics);
        let mut shown = token.describe(&names);
        if matches!(token, Token::Slash | Token::SlashAssign) && !operand_before {
            let Some((text, at)) = lexer.regex_from(span, &mut diagnostics) else {
                break;
            };
            shown = format!("regex /{}/", String::from_utf8_lossy(&text));
            span = at;
            token = Token::Number(0.0);
        }
        out.push_str(&format!("{}\t{shown}\n", sources.place(span)));
        operand_before = matches!(
            token,
            Token::Number(_)
                | Token::Str(_)
                | Token::Name(_)
                | Token::Builtin(_)
                | Token::RParen
                | Token::RBracket
                | Token::Dollar
                | Token::Incr
                | Token::Decr
        );
        if token == Token::Eof {
            break;
        }
    }
    out
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Begin,
    End,
    Main,
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    span: Span,
    /// Span of the token before.
    last: Span,
    names: &'a mut Names,
    diagnostics: &'a mut Diagnostics,
    depth: usize,
    /// Inside an unparenthesised `print` list: `>` redirects.
    no_gt: bool,
    /// Where a `(a, b)` list may stand alone: directly after `print`.
    tuple_at: Option<Span>,
    loops: usize,
    in_function: bool,
    context: Context,
}

impl Parser<'_> {
    // ---- tokens ----

    fn bump(&mut self) -> Token {
        let (token, span) = self.lexer.next(self.names, self.diagnostics);
        self.last = self.span;
        self.span = span;
        std::mem::replace(&mut self.token, token)
    }

    fn peek(&mut self) -> Token {
        let mut ahead = self.lexer;
        ahead.next(self.names, &mut Diagnostics::default()).0
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.token == *token;
        if found {
            self.bump();
        }
        found
    }

    fn fail<T>(&mut self, expected: &str) -> Parse<T> {
        if self.token != Token::Bad {
            let found = self.token.describe(self.names);
            self.diagnostics.error(
                self.span,
                format!("syntax error at {found}: expected {expected}"),
            );
        }
        Err(Fault)
    }

    fn expect(&mut self, token: &Token, context: &str) -> Parse<Span> {
        let span = self.span;
        if self.take(token) {
            return Ok(span);
        }
        let wanted = token.describe(self.names);
        self.fail(&format!("{wanted} {context}"))
    }

    fn skip_newlines(&mut self) {
        while self.token == Token::Newline {
            self.bump();
        }
    }

    fn skip_terminators(&mut self) {
        while matches!(self.token, Token::Newline | Token::Semicolon) {
            self.bump();
        }
    }

    fn nested<T>(&mut self, cost: usize, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        let before = self.depth;
        self.depth += cost;
        let result = if self.depth > DEPTH_MAX {
            self.diagnostics.error(
                self.span,
                format!(
                    "nested too deeply: more than {} levels",
                    DEPTH_MAX / NEST_COST
                ),
            );
            // Everything after would only repeat it.
            while self.token != Token::Eof {
                self.bump();
            }
            Err(Fault)
        } else {
            parse(self)
        };
        self.depth = before;
        result
    }

    // ---- items ----

    fn program(&mut self, program: &mut Program) {
        loop {
            self.skip_terminators();
            if self.token == Token::Eof || self.diagnostics.error_count() >= Diagnostics::ERRORS_MAX
            {
                return;
            }
            let before = self.span;
            if self.item(program).is_err() {
                self.recover_item(before);
            }
        }
    }

    fn recover_item(&mut self, before: Span) {
        if self.span == before && self.token != Token::Eof {
            self.bump();
        }
        self.no_gt = false;
        self.tuple_at = None;
        // To the end of a line at which a new rule can begin.
        let mut open = 0usize;
        loop {
            match self.token {
                Token::Eof => return,
                Token::LBrace => open += 1,
                Token::RBrace => {
                    open = open.saturating_sub(1);
                    if open == 0 {
                        self.bump();
                        return;
                    }
                }
                Token::Newline if open == 0 => return,
                _ => {}
            }
            self.bump();
        }
    }

    fn item(&mut self, program: &mut Program) -> Parse<()> {
        let start = self.span;
        if self.token == Token::Function {
            let function = self.function()?;
            program.functions.push(function);
            return Ok(());
        }
        self.context = Context::Main;
        let pattern = match self.token {
            Token::Begin | Token::End => {
                let begin = self.token == Token::Begin;
                self.bump();
                let word = if begin {
                    "after BEGIN (an action is required, on the same line)"
                } else {
                    "after END (an action is required, on the same line)"
                };
                if self.token != Token::LBrace {
                    return self.fail(&format!("`{{` {word}"));
                }
                self.context = if begin { Context::Begin } else { Context::End };
                if begin { Pattern::Begin } else { Pattern::End }
            }
            Token::LBrace => Pattern::Always,
            _ => {
                let first = self.expr()?;
                if self.take(&Token::Comma) {
                    self.skip_newlines();
                    let second = self.expr()?;
                    Pattern::Range(first, second)
                } else {
                    Pattern::Expr(first)
                }
            }
        };
        let body = if self.token == Token::LBrace {
            Some(self.braces()?)
        } else {
            if !matches!(self.token, Token::Newline | Token::Semicolon | Token::Eof) {
                return self.fail("an operator, `{`, or the end of the pattern");
            }
            None
        };
        program.rules.push(Rule {
            pattern,
            body,
            span: start.to(self.last),
        });
        Ok(())
    }

    fn function(&mut self) -> Parse<Function> {
        let start = self.span;
        self.bump();
        let name_span = self.span;
        let name = match self.token {
            Token::Name(name) | Token::FuncName(name) => name,
            Token::Builtin(which) => {
                let message = format!(
                    "`{}` is a built-in function, it cannot be redefined",
                    which.name()
                );
                self.diagnostics.error(self.span, message);
                return Err(Fault);
            }
            _ => return self.fail("the name of a function"),
        };
        self.bump();
        self.expect(&Token::LParen, "and the parameters of the function")?;
        let mut params = Vec::new();
        self.skip_newlines();
        while self.token != Token::RParen {
            match self.token {
                Token::Name(param) => params.push((param, self.span)),
                _ => return self.fail("the name of a parameter"),
            }
            self.bump();
            self.skip_newlines();
            if self.token != Token::RParen {
                self.expect(&Token::Comma, "or `)` after a parameter")?;
                self.skip_newlines();
            }
        }
        self.bump();
        self.skip_newlines();
        self.in_function = true;
        self.context = Context::Main;
        let body = self.braces();
        self.in_function = false;
        Ok(Function {
            name,
            name_span,
            params,
            body: body?,
            span: start.to(self.last),
        })
    }

    // ---- statements ----

    /// `{ statements }`
    fn braces(&mut self) -> Parse<Vec<Stmt>> {
        self.expect(&Token::LBrace, "to open a block")?;
        let mut body = Vec::new();
        loop {
            self.skip_terminators();
            match self.token {
                Token::RBrace => {
                    self.bump();
                    return Ok(body);
                }
                Token::Eof => return self.fail("`}` to close a block"),
                _ => {}
            }
            if self.diagnostics.error_count() >= Diagnostics::ERRORS_MAX {
                return Err(Fault);
            }
            let before = self.span;
            match self.nested(NEST_COST, Self::statement) {
                Ok(statement) => body.push(statement),
                Err(Fault) => self.recover_statement(before),
            }
        }
    }

    fn recover_statement(&mut self, before: Span) {
        if self.span == before && !matches!(self.token, Token::Eof | Token::RBrace) {
            self.bump();
        }
        self.no_gt = false;
        self.tuple_at = None;
        while !matches!(
            self.token,
            Token::Eof | Token::Newline | Token::Semicolon | Token::RBrace
        ) {
            self.bump();
        }
    }

    /// The body of `if`, `while`, ...: one statement, or a block, or `;`.
    fn body(&mut self) -> Parse<Vec<Stmt>> {
        self.skip_newlines();
        match self.token {
            Token::Semicolon => {
                self.bump();
                Ok(Vec::new())
            }
            Token::LBrace => self.nested(NEST_COST, Self::braces),
            _ => Ok(vec![self.nested(NEST_COST, Self::statement)?]),
        }
    }

    fn loop_body(&mut self) -> Parse<Vec<Stmt>> {
        self.loops += 1;
        let body = self.body();
        self.loops -= 1;
        body
    }

    fn statement(&mut self) -> Parse<Stmt> {
        let start = self.span;
        let kind = match self.token {
            Token::LBrace => StmtKind::Block(self.nested(NEST_COST, Self::braces)?),
            Token::If => self.if_chain()?,
            Token::While => {
                self.bump();
                let cond = self.condition("after `while`")?;
                if self.take(&Token::Semicolon) {
                    StmtKind::While {
                        cond,
                        body: Vec::new(),
                    }
                } else {
                    StmtKind::While {
                        cond,
                        body: self.loop_body()?,
                    }
                }
            }
            Token::Do => {
                self.bump();
                let body = self.loop_body()?;
                self.skip_terminators();
                self.expect(&Token::While, "after the body of `do`")?;
                let cond = self.condition("after `while`")?;
                self.statement_end()?;
                StmtKind::DoWhile { body, cond }
            }
            Token::For => self.for_loop()?,
            Token::Semicolon => {
                self.bump();
                StmtKind::Block(Vec::new())
            }
            _ => {
                let kind = self.simple()?;
                self.statement_end()?;
                kind
            }
        };
        Ok(Stmt {
            kind,
            span: start.to(self.last),
        })
    }

    fn statement_end(&mut self) -> Parse<()> {
        match self.token {
            Token::Semicolon | Token::Newline => {
                self.bump();
                Ok(())
            }
            Token::RBrace | Token::Eof => Ok(()),
            _ => self.fail("an operator, `;`, `}` or the end of the line"),
        }
    }

    fn condition(&mut self, place: &str) -> Parse<Expr> {
        self.expect(&Token::LParen, place)?;
        let cond = self.nested(NEST_COST, Self::full_expr)?;
        self.expect(&Token::RParen, "to close the condition")?;
        Ok(cond)
    }

    fn if_chain(&mut self) -> Parse<StmtKind> {
        let mut arms = Vec::new();
        loop {
            self.bump(); // `if`
            let cond = self.condition("after `if`")?;
            let body = self.body()?;
            arms.push((cond, body));
            if !self.else_follows() {
                return Ok(StmtKind::If {
                    arms,
                    otherwise: None,
                });
            }
            self.skip_newlines();
            self.bump();
            self.skip_newlines();
            if self.token != Token::If {
                let otherwise = Some(self.body()?);
                return Ok(StmtKind::If { arms, otherwise });
            }
        }
    }

    fn else_follows(&mut self) -> bool {
        if self.token != Token::Newline {
            return self.token == Token::Else;
        }
        let mut ahead = self.lexer;
        loop {
            match ahead.next(self.names, &mut Diagnostics::default()).0 {
                Token::Newline => {}
                token => return token == Token::Else,
            }
        }
    }

    fn for_loop(&mut self) -> Parse<StmtKind> {
        self.bump();
        self.expect(&Token::LParen, "after `for`")?;
        if let Some(header) = self.for_in_header() {
            let (var, var_span, array, array_span) = header;
            let body = self.loop_body()?;
            return Ok(StmtKind::ForIn {
                var,
                var_span,
                array,
                array_span,
                body,
            });
        }
        let init = self.for_part(&Token::Semicolon)?;
        self.expect(&Token::Semicolon, "after the first part of `for`")?;
        self.skip_newlines();
        let cond = if self.token == Token::Semicolon {
            None
        } else {
            Some(self.nested(NEST_COST, Self::full_expr)?)
        };
        self.expect(&Token::Semicolon, "after the condition of `for`")?;
        self.skip_newlines();
        let step = self.for_part(&Token::RParen)?;
        self.expect(&Token::RParen, "to close the head of `for`")?;
        let body = if self.take(&Token::Semicolon) {
            Vec::new()
        } else {
            self.loop_body()?
        };
        Ok(StmtKind::For {
            init,
            cond,
            step,
            body,
        })
    }

    fn for_part(&mut self, end: &Token) -> Parse<Option<Box<Stmt>>> {
        if self.token == *end {
            return Ok(None);
        }
        let start = self.span;
        let kind = self.simple()?;
        Ok(Some(Box::new(Stmt {
            kind,
            span: start.to(self.last),
        })))
    }

    /// `name in name )` right here, consumed if so.
    fn for_in_header(&mut self) -> Option<(Symbol, Span, Symbol, Span)> {
        let Token::Name(var) = self.token else {
            return None;
        };
        let var_span = self.span;
        let mut ahead = self.lexer;
        let mut quiet = Diagnostics::default();
        if ahead.next(self.names, &mut quiet).0 != Token::In {
            return None;
        }
        let (Token::Name(array), array_span) = ahead.next(self.names, &mut quiet) else {
            return None;
        };
        if ahead.next(self.names, &mut quiet).0 != Token::RParen {
            return None;
        }
        self.lexer = ahead;
        self.bump();
        Some((var, var_span, array, array_span))
    }

    fn simple(&mut self) -> Parse<StmtKind> {
        let start = self.span;
        let at_end = |p: &Self| {
            matches!(
                p.token,
                Token::Semicolon | Token::Newline | Token::RBrace | Token::Eof
            )
        };
        match self.token {
            Token::Print | Token::Printf => self.print(),
            Token::Next | Token::NextFile => {
                let word = if self.token == Token::Next {
                    "next"
                } else {
                    "nextfile"
                };
                self.bump();
                if self.context != Context::Main {
                    let rule = if self.context == Context::Begin {
                        "BEGIN"
                    } else {
                        "END"
                    };
                    self.diagnostics
                        .error(start, format!("`{word}` used in {rule} action"));
                }
                Ok(if word == "next" {
                    StmtKind::Next
                } else {
                    StmtKind::NextFile
                })
            }
            Token::Break | Token::Continue => {
                let word = if self.token == Token::Break {
                    "break"
                } else {
                    "continue"
                };
                self.bump();
                if self.loops == 0 {
                    self.diagnostics
                        .error(start, format!("`{word}` is not allowed outside a loop"));
                }
                Ok(if word == "break" {
                    StmtKind::Break
                } else {
                    StmtKind::Continue
                })
            }
            Token::Exit => {
                self.bump();
                let status = if at_end(self) {
                    None
                } else {
                    Some(self.full_expr()?)
                };
                Ok(StmtKind::Exit(status))
            }
            Token::Return => {
                self.bump();
                if !self.in_function {
                    self.diagnostics
                        .error(start, "`return` used outside a function");
                }
                let value = if at_end(self) {
                    None
                } else {
                    Some(self.full_expr()?)
                };
                Ok(StmtKind::Return(value))
            }
            Token::Delete => {
                self.bump();
                let parenthesised = self.take(&Token::LParen); // gawk takes `delete(a)` too
                let Token::Name(array) = self.token else {
                    return self.fail("the name of an array after `delete`");
                };
                let array_span = self.span;
                self.bump();
                let subs = if self.token == Token::LBracket {
                    Some(self.subscripts()?)
                } else {
                    None
                };
                if parenthesised {
                    self.expect(&Token::RParen, "to close `delete(`")?;
                }
                Ok(StmtKind::Delete {
                    array,
                    array_span,
                    subs,
                })
            }
            _ => Ok(StmtKind::Expr(self.full_expr()?)),
        }
    }

    fn print(&mut self) -> Parse<StmtKind> {
        let printf = self.bump() == Token::Printf;
        let outer = std::mem::replace(&mut self.no_gt, true);
        let result = self.print_rest(printf);
        self.no_gt = outer;
        self.tuple_at = None;
        result
    }

    fn print_rest(&mut self, printf: bool) -> Parse<StmtKind> {
        let mut args = Vec::new();
        let mut parens = false;
        let ends = |token: &Token| {
            matches!(
                token,
                Token::Semicolon
                    | Token::Newline
                    | Token::RBrace
                    | Token::Eof
                    | Token::Gt
                    | Token::Append
                    | Token::Pipe
            )
        };
        if !ends(&self.token) {
            self.tuple_at = Some(self.span);
            let first = self.expr()?;
            self.tuple_at = None;
            match first.kind {
                ExprKind::Tuple(list) => {
                    args = list;
                    parens = true;
                }
                kind => {
                    if contains_tuple(&kind) {
                        self.diagnostics.error(first.span, "syntax error: a list in parentheses after `print` must be the whole list");
                        return Err(Fault);
                    }
                    args.push(Expr {
                        kind,
                        span: first.span,
                    });
                    while self.take(&Token::Comma) {
                        self.skip_newlines();
                        args.push(self.expr()?);
                    }
                }
            }
        }
        if printf && args.is_empty() {
            return self.fail("a format after `printf`");
        }
        let kind = match self.token {
            Token::Gt => RedirectKind::File,
            Token::Append => RedirectKind::Append,
            Token::Pipe => RedirectKind::Pipe,
            _ => {
                return Ok(StmtKind::Print {
                    printf,
                    args,
                    parens,
                    to: None,
                });
            }
        };
        self.bump();
        let target = self.concat()?;
        Ok(StmtKind::Print {
            printf,
            args,
            parens,
            to: Some(Redirect { kind, target }),
        })
    }

    // ---- expressions ----

    /// An expression in which `>` compares.
    fn full_expr(&mut self) -> Parse<Expr> {
        let outer = std::mem::replace(&mut self.no_gt, false);
        let result = self.expr();
        self.no_gt = outer;
        result
    }

    fn expr(&mut self) -> Parse<Expr> {
        // A chain `a ? b : c ? d : e` is read in a loop and folded from its right end: programs make it long.
        let depth = self.depth;
        let mut arms = Vec::new();
        let mut last = self.or()?;
        while self.take(&Token::Question) {
            self.deepen()?;
            self.skip_newlines();
            let yes = self.nested(NEST_COST, Self::expr)?;
            self.skip_newlines();
            self.expect(&Token::Colon, "of `?:`")?;
            self.skip_newlines();
            arms.push((std::mem::replace(&mut last, self.or()?), yes));
        }
        self.depth = depth;
        while let Some((cond, yes)) = arms.pop() {
            let span = cond.span.to(last.span);
            last = Expr {
                kind: ExprKind::Cond {
                    cond: Box::new(cond),
                    yes: Box::new(yes),
                    no: Box::new(last),
                },
                span,
            };
        }
        Ok(last)
    }

    fn or(&mut self) -> Parse<Expr> {
        self.flat(Token::Or, Self::and, ExprKind::Or)
    }

    fn and(&mut self) -> Parse<Expr> {
        self.flat(Token::And, Self::membership, ExprKind::And)
    }

    fn flat(
        &mut self,
        sign: Token,
        operand: fn(&mut Self) -> Parse<Expr>,
        make: fn(Vec<Expr>) -> ExprKind,
    ) -> Parse<Expr> {
        let first = operand(self)?;
        if self.token != sign {
            return Ok(first);
        }
        let mut list = vec![first];
        while self.take(&sign) {
            self.skip_newlines();
            list.push(operand(self)?);
        }
        let span = list[0].span.to(self.last);
        Ok(Expr {
            kind: make(list),
            span,
        })
    }

    fn membership(&mut self) -> Parse<Expr> {
        let mut left = self.matching()?;
        let depth = self.depth;
        while self.token == Token::In {
            self.deepen()?;
            self.bump();
            let Token::Name(array) = self.token else {
                return self.fail("the name of an array after `in`");
            };
            let array_span = self.span;
            self.bump();
            let span = left.span.to(array_span);
            left = Expr {
                kind: ExprKind::In {
                    subs: vec![left],
                    array,
                    array_span,
                },
                span,
            };
        }
        self.depth = depth;
        Ok(left)
    }

    /// One more level of a left-leaning chain; the caller resets `depth` at its end.
    fn deepen(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return self.nested(0, |_| Ok(()));
        }
        Ok(())
    }

    fn matching(&mut self) -> Parse<Expr> {
        let mut left = self.comparison()?;
        let depth = self.depth;
        while matches!(self.token, Token::Tilde | Token::NotTilde) {
            self.deepen()?;
            let negated = self.bump() == Token::NotTilde;
            let right = self.comparison()?;
            let span = left.span.to(right.span);
            left = Expr {
                kind: ExprKind::Match {
                    negated,
                    left: Box::new(left),
                    right: Box::new(right),
                },
                span,
            };
        }
        self.depth = depth;
        Ok(left)
    }

    fn comparison(&mut self) -> Parse<Expr> {
        let left = self.piped()?;
        let op = match self.token {
            Token::Lt => CompareOp::Lt,
            Token::Le => CompareOp::Le,
            Token::Eq => CompareOp::Eq,
            Token::Ne => CompareOp::Ne,
            Token::Ge => CompareOp::Ge,
            Token::Gt if !self.no_gt => CompareOp::Gt,
            _ => return Ok(left),
        };
        self.bump();
        let right = self.piped()?;
        if matches!(
            self.token,
            Token::Lt | Token::Le | Token::Eq | Token::Ne | Token::Ge
        ) || (self.token == Token::Gt && !self.no_gt)
        {
            return self.fail("no second comparison: `a < b < c` needs parentheses");
        }
        let span = left.span.to(right.span);
        Ok(Expr {
            kind: ExprKind::Compare {
                op,
                left: Box::new(left),
                right: Box::new(right),
            },
            span,
        })
    }

    /// `command | getline`, which binds looser than concatenation: gawk reads `"echo " "date" | getline` as one command.
    fn piped(&mut self) -> Parse<Expr> {
        let mut left = self.concat()?;
        let depth = self.depth;
        while self.token == Token::Pipe && self.peek() == Token::Getline {
            self.deepen()?;
            self.bump();
            self.bump();
            let target = self.getline_target()?;
            let span = left.span.to(self.last);
            left = Expr {
                kind: ExprKind::Getline {
                    target,
                    from: GetlineFrom::Command(Box::new(left)),
                },
                span,
            };
        }
        self.depth = depth;
        Ok(left)
    }

    fn concat(&mut self) -> Parse<Expr> {
        let first = self.sum()?;
        if !self.starts_operand() {
            return Ok(first);
        }
        let mut list = vec![first];
        while self.starts_operand() {
            list.push(self.sum()?);
        }
        let span = list[0].span.to(self.last);
        Ok(Expr {
            kind: ExprKind::Concat(list),
            span,
        })
    }

    /// Whether a concatenation goes on here. `+` and `-` were taken by the sum before; `/` divides.
    fn starts_operand(&self) -> bool {
        matches!(
            self.token,
            Token::Number(_)
                | Token::Str(_)
                | Token::Name(_)
                | Token::FuncName(_)
                | Token::Builtin(_)
                | Token::Dollar
                | Token::Not
                | Token::LParen
                | Token::Incr
                | Token::Decr
                | Token::Getline
        )
    }

    fn sum(&mut self) -> Parse<Expr> {
        self.arith(Self::product, |token| match token {
            Token::Plus => Some(ArithOp::Add),
            Token::Minus => Some(ArithOp::Sub),
            _ => None,
        })
    }

    fn product(&mut self) -> Parse<Expr> {
        self.arith(Self::unary, |token| match token {
            Token::Star => Some(ArithOp::Mul),
            Token::Slash => Some(ArithOp::Div),
            Token::Percent => Some(ArithOp::Mod),
            _ => None,
        })
    }

    fn arith(
        &mut self,
        operand: fn(&mut Self) -> Parse<Expr>,
        op_of: fn(&Token) -> Option<ArithOp>,
    ) -> Parse<Expr> {
        let first = operand(self)?;
        let Some(mut op) = op_of(&self.token) else {
            return Ok(first);
        };
        let start = first.span;
        let mut rest = Vec::new();
        loop {
            self.bump();
            rest.push((op, operand(self)?));
            match op_of(&self.token) {
                Some(next) => op = next,
                None => break,
            }
        }
        Ok(Expr {
            kind: ExprKind::Arith {
                first: Box::new(first),
                rest,
            },
            span: start.to(self.last),
        })
    }

    fn unary(&mut self) -> Parse<Expr> {
        let make = match self.token {
            Token::Not => ExprKind::Not,
            Token::Minus => ExprKind::Minus,
            Token::Plus => ExprKind::Plus,
            _ => return self.power(),
        };
        let start = self.span;
        self.bump();
        let operand = self.nested(1, Self::unary)?;
        let span = start.to(operand.span);
        Ok(Expr {
            kind: make(Box::new(operand)),
            span,
        })
    }

    fn power(&mut self) -> Parse<Expr> {
        let base = self.postfix(true)?;
        if self.token != Token::Caret {
            return Ok(base);
        }
        self.bump();
        // The exponent may carry a sign, and is itself a power: right-associative.
        let exponent = self.nested(1, Self::unary)?;
        let span = base.span.to(exponent.span);
        Ok(Expr {
            kind: ExprKind::Power {
                base: Box::new(base),
                exponent: Box::new(exponent),
            },
            span,
        })
    }

    /// A primary with `++`, `--` or an assignment after it.
    fn postfix(&mut self, assignable: bool) -> Parse<Expr> {
        let target = self.primary()?;
        if !target.is_lvalue() {
            return Ok(target);
        }
        let op = match self.token {
            Token::Incr | Token::Decr => {
                let down = self.bump() == Token::Decr;
                let span = target.span.to(self.last);
                return Ok(Expr {
                    kind: ExprKind::Step {
                        target: Box::new(target),
                        down,
                        prefix: false,
                    },
                    span,
                });
            }
            _ if !assignable => return Ok(target),
            Token::Assign => None,
            Token::AddAssign => Some(ArithOp::Add),
            Token::SubAssign => Some(ArithOp::Sub),
            Token::MulAssign => Some(ArithOp::Mul),
            Token::SlashAssign => Some(ArithOp::Div),
            Token::ModAssign => Some(ArithOp::Mod),
            Token::PowAssign => Some(ArithOp::Pow),
            _ => return Ok(target),
        };
        self.bump();
        let value = self.nested(NEST_COST, Self::expr)?;
        let span = target.span.to(value.span);
        Ok(Expr {
            kind: ExprKind::Assign {
                target: Box::new(target),
                op,
                value: Box::new(value),
            },
            span,
        })
    }

    fn primary(&mut self) -> Parse<Expr> {
        let start = self.span;
        let kind = match &mut self.token {
            Token::Number(n) => {
                let n = *n;
                self.bump();
                ExprKind::Num(n)
            }
            Token::Str(s) => {
                let s = std::mem::take(s);
                self.bump();
                ExprKind::Str(s)
            }
            Token::Slash | Token::SlashAssign => {
                let Some((text, span)) = self.lexer.regex_from(self.span, self.diagnostics) else {
                    self.token = Token::Bad;
                    return Err(Fault);
                };
                self.span = span;
                self.bump();
                ExprKind::Regex(text)
            }
            Token::Name(name) => {
                let name = *name;
                self.bump();
                if self.token == Token::LBracket {
                    let subs = self.subscripts()?;
                    ExprKind::Index { array: name, subs }
                } else {
                    ExprKind::Var(name)
                }
            }
            Token::FuncName(name) => {
                let name = *name;
                self.bump();
                self.bump();
                let args = self.arguments()?;
                ExprKind::Call { name, args }
            }
            Token::Builtin(which) => {
                let which = *which;
                self.builtin(which)?
            }
            Token::Dollar => {
                self.bump();
                ExprKind::Field(Box::new(self.nested(1, Self::field_number)?))
            }
            Token::Incr | Token::Decr => {
                let down = self.bump() == Token::Decr;
                let target = self.nested(1, Self::primary)?;
                if !target.is_lvalue() {
                    let what = if down { "--" } else { "++" };
                    self.diagnostics.error(
                        target.span,
                        format!("`{what}` needs a variable, a field or an array element"),
                    );
                    return Err(Fault);
                }
                ExprKind::Step {
                    target: Box::new(target),
                    down,
                    prefix: true,
                }
            }
            Token::Getline => {
                self.bump();
                let target = self.getline_target()?;
                let from = if self.take(&Token::Lt) {
                    let file = self.nested(1, |p| p.postfix(false))?;
                    GetlineFrom::File(Box::new(file))
                } else {
                    GetlineFrom::Main
                };
                ExprKind::Getline { target, from }
            }
            Token::LParen => return self.parenthesised(),
            Token::Minus | Token::Plus | Token::Not => return self.nested(1, Self::unary),
            _ => return self.fail("an expression"),
        };
        Ok(Expr {
            kind,
            span: start.to(self.last),
        })
    }

    /// What follows `$`: binds tighter than everything, so `$i++` is `($i)++`, but `$++i` and `$-1` are what they look like.
    fn field_number(&mut self) -> Parse<Expr> {
        let start = self.span;
        let make = match self.token {
            Token::Minus => ExprKind::Minus,
            Token::Plus => ExprKind::Plus,
            Token::Not => ExprKind::Not,
            _ => return self.primary(),
        };
        self.bump();
        let operand = self.nested(1, Self::field_number)?;
        Ok(Expr {
            kind: make(Box::new(operand)),
            span: start.to(self.last),
        })
    }

    fn getline_target(&mut self) -> Parse<Option<Box<Expr>>> {
        if matches!(self.token, Token::Name(_) | Token::Dollar) {
            return Ok(Some(Box::new(self.nested(1, Self::primary)?)));
        }
        Ok(None)
    }

    fn parenthesised(&mut self) -> Parse<Expr> {
        let start = self.span;
        let tuple_allowed = self.tuple_at == Some(start);
        self.bump();
        let first = self.nested(NEST_COST, |p| p.full_expr())?;
        if self.token != Token::Comma {
            self.expect(&Token::RParen, "to close a parenthesis")?;
            return Ok(Expr {
                kind: ExprKind::Group(Box::new(first)),
                span: start.to(self.last),
            });
        }
        let mut list = vec![first];
        while self.take(&Token::Comma) {
            self.skip_newlines();
            list.push(self.nested(NEST_COST, |p| p.full_expr())?);
        }
        self.expect(&Token::RParen, "to close a list")?;
        let span = start.to(self.last);
        if self.take(&Token::In) {
            let Token::Name(array) = self.token else {
                return self.fail("the name of an array after `in`");
            };
            let array_span = self.span;
            self.bump();
            return Ok(Expr {
                kind: ExprKind::In {
                    subs: list,
                    array,
                    array_span,
                },
                span: span.to(array_span),
            });
        }
        if tuple_allowed {
            return Ok(Expr {
                kind: ExprKind::Tuple(list),
                span,
            });
        }
        self.fail("`in` after a list in parentheses")
    }

    fn subscripts(&mut self) -> Parse<Vec<Expr>> {
        self.bump(); // `[`
        if self.token == Token::RBracket {
            return self.fail("a subscript");
        }
        let mut subs = vec![self.nested(NEST_COST, |p| p.full_expr())?];
        while self.take(&Token::Comma) {
            self.skip_newlines();
            subs.push(self.nested(NEST_COST, |p| p.full_expr())?);
        }
        self.expect(&Token::RBracket, "to close a subscript")?;
        Ok(subs)
    }

    /// Arguments and `)`; the `(` is read.
    fn arguments(&mut self) -> Parse<Vec<Expr>> {
        let mut args = Vec::new();
        self.skip_newlines();
        while self.token != Token::RParen {
            args.push(self.nested(NEST_COST, |p| p.full_expr())?);
            self.skip_newlines();
            if self.token != Token::RParen {
                self.expect(&Token::Comma, "or `)` after an argument")?;
                self.skip_newlines();
                if self.token == Token::RParen {
                    return self.fail("an argument after `,`");
                }
            }
        }
        self.bump();
        Ok(args)
    }

    fn builtin(&mut self, which: Builtin) -> Parse<ExprKind> {
        let name_span = self.span;
        self.bump();
        if self.token != Token::LParen {
            if which == Builtin::Length {
                return Ok(ExprKind::Builtin {
                    which,
                    args: Vec::new(),
                    parens: false,
                });
            }
            return self.fail(&format!("`(` after `{}`", which.name()));
        }
        self.bump();
        let args = self.arguments()?;
        let (least, most) = which.arity();
        if args.len() < least || args.len() > most {
            let wanted = match (least, most) {
                (l, m) if l == m => format!("{l}"),
                (l, usize::MAX) => format!("at least {l}"),
                (l, m) => format!("{l} to {m}"),
            };
            let message = format!(
                "`{}` takes {wanted} argument(s), here are {}",
                which.name(),
                args.len()
            );
            self.diagnostics.error(name_span, message);
        }
        if matches!(which, Builtin::Sub | Builtin::Gsub)
            && let Some(target) = args.get(2)
            && !target.is_lvalue()
        {
            // gawk and onetrue-awk go on with a value that nobody sees; so do we.
            self.diagnostics.warn(
                target.span,
                format!("third argument of `{}` is not assignable", which.name()),
            );
        }
        Ok(ExprKind::Builtin {
            which,
            args,
            parens: true,
        })
    }
}

fn contains_tuple(kind: &ExprKind) -> bool {
    // A list can only be the leftmost operand of what was read.
    let mut kind = kind;
    loop {
        kind = match kind {
            ExprKind::Tuple(_) => return true,
            ExprKind::Arith { first, .. } => &first.kind,
            ExprKind::Concat(list) | ExprKind::And(list) | ExprKind::Or(list) => &list[0].kind,
            ExprKind::Power { base, .. } => &base.kind,
            ExprKind::Compare { left, .. } | ExprKind::Match { left, .. } => &left.kind,
            ExprKind::Cond { cond, .. } => &cond.kind,
            ExprKind::In { subs, .. } => &subs[0].kind,
            ExprKind::Getline {
                from: GetlineFrom::Command(command),
                ..
            } => &command.kind,
            _ => return false,
        };
    }
}
