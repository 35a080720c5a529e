//! Statements, and getting back into step after an error in one.

use super::expressions::contains_tuple;
use super::{Context, Fault, NEST_COST, Parse, Parser};
use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::lex::Token;
use crate::names::Symbol;
use crate::span::Span;

impl Parser<'_> {
    /// `{ statements }`
    pub(super) fn braces(&mut self) -> Parse<Vec<Stmt>> {
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
            Token::LBrace => self.nested(NEST_COST, Self::braces),
            _ => Ok(vec![self.nested(NEST_COST, Self::statement)?]),
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

    /// `name in name )` right here, consumed if so.
    pub(super) fn for_in_header(&mut self) -> Option<(Symbol, Span, Symbol, Span)> {
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
}
