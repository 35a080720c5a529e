//! Tokens to tree: recursive descent over the POSIX AWK grammar, with gawk's readings where POSIX is silent.
//!
//! Invariants: the tree is never deeper than `DEPTH_MAX` units; every error is noted before a `Fault` is returned; after an
//! error reading goes on at the next statement border, so that one run reports several errors.
//!
//! Precedence, loosest first: `?:`, `||`, `&&`, `in`, `~ !~`, comparison and `cmd | getline`, concatenation, `+ -`,
//! `* / %`, unary, `^`, `++ --`, `$`. Assignment is taken wherever an operand is a bare lvalue in front of an assignment
//! operator and nothing binds tighter to its left, which is how `1 && a = 3` can only be read.

use std::collections::HashSet;

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::lex::{Lexer, Token};
use crate::names::Names;
use crate::span::{Sources, Span};

mod expressions;
mod statements;

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
    let mut parser = Parser::new(sources, first, last, names, diagnostics);
    let mut program = Program::default();
    parser.program(&mut program);
    program
}

/// All tokens of a program as text, one per line with its place (`--dump=tokens`).
///
/// Whether `/` begins a regular expression only the grammar can tell: the program is parsed first, and the tokens are read
/// again with the places at which the parser took one. Past a syntax error `/` is shown as a division.
pub fn dump_tokens(sources: &Sources, first: u32, last: u32) -> String {
    let (mut names, mut diagnostics) = (Names::default(), Diagnostics::default());
    let mut parser = Parser::new(sources, first, last, &mut names, &mut diagnostics);
    parser.program(&mut Program::default());
    let regexes: HashSet<Span> = parser.regexes.drain(..).collect();
    let mut lexer = Lexer::new(sources, first, last);
    let mut out = String::new();
    loop {
        let (token, mut span) = lexer.next(&mut names, &mut diagnostics);
        let mut shown = token.describe(&names);
        if regexes.contains(&span) {
            let Some((text, at)) = lexer.regex_from(span, &mut diagnostics) else {
                break;
            };
            shown = format!("regex /{}/", String::from_utf8_lossy(&text));
            span = at;
        }
        out.push_str(&format!("{}\t{shown}\n", sources.place(span)));
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
    /// Where regular expressions were read.
    regexes: Vec<Span>,
}

impl<'a> Parser<'a> {
    fn new(
        sources: &'a Sources,
        first: u32,
        last: u32,
        names: &'a mut Names,
        diagnostics: &'a mut Diagnostics,
    ) -> Parser<'a> {
        let mut lexer = Lexer::new(sources, first, last);
        let (token, span) = lexer.next(names, diagnostics);
        Parser {
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
            regexes: Vec::new(),
        }
    }
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
}
