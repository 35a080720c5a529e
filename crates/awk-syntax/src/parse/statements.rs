//! Statements, and getting back into step after an error in one.

use std::collections::HashSet;

use super::expressions::contains_tuple;
use super::{BLOCK_COST, Context, Fault, NEST_COST, Parse, Parser, STATEMENT_COST};
use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::lex::Token;
use crate::span::{Sources, Span};

impl Parser<'_> {
    /// `{ statements }`
    pub(super) fn braces(&mut self) -> Parse<Vec<Stmt>> {
        self.expect(&Token::LBrace, "to open a block")?;
        let body = self.statements(|token| *token == Token::RBrace)?;
        self.bump();
        Ok(body)
    }

    /// Statements up to a token that ends them, which stays.
    pub(super) fn statements(&mut self, ends: fn(&Token) -> bool) -> Parse<Vec<Stmt>> {
        let mut body = Vec::new();
        loop {
            self.skip_terminators();
            if ends(&self.token) {
                return Ok(body);
            }
            if self.token == Token::Eof {
                return self.fail("`}` to close a block");
            }
            if self.diagnostics.error_count() >= Diagnostics::ERRORS_MAX {
                return Err(Fault);
            }
            let before = self.span;
            match self.nested(STATEMENT_COST, Self::statement) {
                Ok(statement) => body.push(statement),
                Err(Fault) => self.recover_statement(before),
            }
        }
    }

    pub(super) fn recover_statement(&mut self, before: Span) {
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
    pub(super) fn body(&mut self) -> Parse<Vec<Stmt>> {
        self.skip_newlines();
        match self.token {
            Token::Semicolon => {
                self.bump();
                Ok(Vec::new())
            }
            Token::LBrace => self.nested(BLOCK_COST, Self::braces),
            _ => Ok(vec![self.nested(STATEMENT_COST, Self::statement)?]),
        }
    }

    pub(super) fn loop_body(&mut self) -> Parse<Vec<Stmt>> {
        self.loops += 1;
        let body = self.body();
        self.loops -= 1;
        body
    }

    pub(super) fn statement(&mut self) -> Parse<Stmt> {
        let start = self.span;
        let kind = match self.token {
            Token::LBrace => StmtKind::Block(self.nested(BLOCK_COST, Self::braces)?),
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
            Token::Switch => self.switch()?,
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

    pub(super) fn statement_end(&mut self) -> Parse<()> {
        match self.token {
            Token::Semicolon | Token::Newline => {
                self.bump();
                Ok(())
            }
            Token::RBrace | Token::Eof => Ok(()),
            _ => self.fail("an operator, `;`, `}` or the end of the line"),
        }
    }

    pub(super) fn condition(&mut self, place: &str) -> Parse<Expr> {
        self.expect(&Token::LParen, place)?;
        let cond = self.nested(NEST_COST, Self::full_expr)?;
        self.expect(&Token::RParen, "to close the condition")?;
        Ok(cond)
    }

    pub(super) fn if_chain(&mut self) -> Parse<StmtKind> {
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

    pub(super) fn else_follows(&mut self) -> bool {
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

    pub(super) fn for_loop(&mut self) -> Parse<StmtKind> {
        self.bump();
        self.expect(&Token::LParen, "after `for`")?;
        let init = self.for_part(&Token::Semicolon)?;
        if self.token == Token::RParen
            && let Some(init) = &init
            && let StmtKind::Expr(e) = &init.kind
            && let ExprKind::In { subs, array } = &e.kind
            && let [only] = subs.as_slice()
            && let ExprKind::Var(var) = only.kind
        {
            let (var_span, array) = (only.span, array.clone());
            self.bump();
            let body = self.loop_body()?;
            return Ok(StmtKind::ForIn {
                var,
                var_span,
                array,
                body,
            });
        }
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

    pub(super) fn for_part(&mut self, end: &Token) -> Parse<Option<Box<Stmt>>> {
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

    pub(super) fn switch(&mut self) -> Parse<StmtKind> {
        self.bump();
        let subject = self.condition("after `switch`")?;
        self.skip_newlines();
        self.expect(&Token::LBrace, "to open the body of `switch`")?;
        self.skip_newlines();
        let mut cases = Vec::new();
        let mut seen = HashSet::new();
        while !self.take(&Token::RBrace) {
            let start = self.span;
            let label = match self.bump() {
                Token::Case => Some(self.case_label()?),
                Token::Default => None,
                _ => {
                    let message =
                        "syntax error: expected `case`, `default` or `}` in the body of `switch`";
                    self.diagnostics.error(start, message);
                    return Err(Fault);
                }
            };
            if !seen.insert(label.as_ref().map(|e| constant_key(e, self.sources))) {
                let message = match &label {
                    None => "duplicate `default` in the body of `switch`".to_string(),
                    Some(e) => format!(
                        "duplicate case value in the body of `switch`: {}",
                        String::from_utf8_lossy(self.sources.slice(e.span))
                    ),
                };
                self.diagnostics.error(start, message);
            }
            self.expect(&Token::Colon, "after the label, on the same line")?;
            let span = start.to(self.last);
            self.switches += 1;
            let body = self
                .statements(|token| matches!(token, Token::Case | Token::Default | Token::RBrace));
            self.switches -= 1;
            cases.push(Case {
                label,
                body: body?,
                span,
            });
        }
        Ok(StmtKind::Switch { subject, cases })
    }

    /// A constant: a number with at most one sign, a string, a regular expression.
    fn case_label(&mut self) -> Parse<Expr> {
        let start = self.span;
        let sign = match self.token {
            Token::Minus | Token::Plus => Some(self.bump()),
            Token::Number(_)
            | Token::Str(_)
            | Token::Slash
            | Token::SlashAssign
            | Token::AtSlash => {
                return self.primary();
            }
            _ => None,
        };
        if sign.is_none() || !matches!(self.token, Token::Number(_)) {
            return self.fail("a number, a string or a regular expression after `case`");
        }
        let number = Box::new(self.primary()?);
        Ok(Expr {
            kind: if sign == Some(Token::Minus) {
                ExprKind::Minus(number)
            } else {
                ExprKind::Plus(number)
            },
            span: start.to(self.last),
        })
    }

    pub(super) fn simple(&mut self) -> Parse<StmtKind> {
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
                let allowed = word == "nextfile" && self.context == Context::BeginFile;
                if let Some(rule) = self.context.word()
                    && !allowed
                {
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
                if self.loops == 0 && (word == "continue" || self.switches == 0) {
                    let or_switch = if word == "break" && self.options.dialect.is_gawk() {
                        " or a switch"
                    } else {
                        ""
                    };
                    self.diagnostics.error(
                        start,
                        format!("`{word}` is not allowed outside a loop{or_switch}"),
                    );
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
                let Token::Name(name) = self.token else {
                    return self.fail("the name of an array after `delete`");
                };
                let mut array = self.array_from(name)?;
                let subs = array.path.pop().map(|(subs, _)| subs);
                let array = array.finish(self);
                if parenthesised {
                    self.expect(&Token::RParen, "to close `delete(`")?;
                }
                Ok(StmtKind::Delete { array, subs })
            }
            _ => Ok(StmtKind::Expr(self.full_expr()?)),
        }
    }

    pub(super) fn print(&mut self) -> Parse<StmtKind> {
        let printf = self.bump() == Token::Printf;
        let outer = std::mem::replace(&mut self.no_gt, true);
        let result = self.print_rest(printf);
        self.no_gt = outer;
        self.tuple_at = None;
        result
    }

    pub(super) fn print_rest(&mut self, printf: bool) -> Parse<StmtKind> {
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
                    | Token::PipeBoth
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
            // Its text is a program, which could not run.
            self.diagnostics
                .misuse(self.last, "`printf` needs a format");
        }
        let kind = match self.token {
            Token::Gt => RedirectKind::File,
            Token::Append => RedirectKind::Append,
            Token::Pipe => RedirectKind::Pipe,
            Token::PipeBoth => RedirectKind::Coprocess,
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
}

/// What makes two labels the same: gawk compares numbers and strings as text. Two equal regular expressions are not
/// complained about, so the place makes each one different.
fn constant_key(label: &Expr, sources: &Sources) -> (Vec<u8>, Option<Span>) {
    match &label.kind {
        ExprKind::Str(s) => (s.clone(), None),
        // Two that are one double may be two numbers all the same, where numbers have any size.
        ExprKind::Num(n) if *n >= 9_007_199_254_740_992.0 => {
            (sources.slice(label.span).to_vec(), None)
        }
        ExprKind::Num(n) => (n.to_string().into_bytes(), None),
        ExprKind::Plus(inner) => constant_key(inner, sources),
        ExprKind::Minus(inner) => {
            let (mut text, place) = constant_key(inner, sources);
            text.insert(0, b'-');
            (text, place)
        }
        _ => (Vec::new(), Some(label.span)),
    }
}
