//! Operands: constants, variables, calls, parentheses, `getline`.

use super::{Context, Fault, NEST_COST, Parse, Parser};
use crate::ast::*;
use crate::diagnostic::Lint;
use crate::lex::Token;
use crate::names::{Builtin, Symbol};
use crate::span::Span;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Parse<Expr> {
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
            Token::Translated(s) => {
                let s = std::mem::take(s);
                self.bump();
                ExprKind::Translated(s)
            }
            Token::Slash | Token::SlashAssign => ExprKind::Regex(self.regex()?),
            Token::AtSlash => self.typed_regex()?,
            Token::Name(name) => {
                let name = *name;
                let mut array = self.array_from(name)?;
                match array.path.pop() {
                    None => ExprKind::Var(array.name),
                    Some((subs, _)) => ExprKind::Index {
                        array: array.finish(self),
                        subs,
                    },
                }
            }
            Token::FuncName(name) => {
                let name = *name;
                let name = self.qualify(name);
                let builtin = self.options.dialect.builtin(self.names.text(name));
                if let Some(which) = builtin {
                    // Inside of `@namespace "pm"`.
                    self.builtin(which)?
                } else {
                    self.bump();
                    self.bump();
                    let args = self.arguments()?;
                    ExprKind::Call { name, args }
                }
            }
            Token::At => {
                self.bump();
                let Token::FuncName(name) = self.token else {
                    return self.fail("the name of a variable and `(` after `@`");
                };
                let name_span = self.span;
                let name = self.qualify(name);
                self.bump();
                self.bump();
                let args = self.arguments()?;
                ExprKind::IndirectCall {
                    name,
                    name_span,
                    args,
                }
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
                    // gawk's `simp_exp`: arithmetic belongs to the name of the file, a concatenation does not.
                    let file = self.nested(NEST_COST, Self::sum)?;
                    GetlineFrom::File(Box::new(file))
                } else {
                    if matches!(self.context, Context::BeginFile | Context::EndFile) {
                        let rule = self.context.word().unwrap_or_default();
                        self.diagnostics.error(
                            start,
                            format!("non-redirected `getline` invalid inside `{rule}` rule"),
                        );
                    }
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

    /// The regular expression whose slash, or whose `@`, is the current token.
    /// `@/text/`, whose text is a value that programs see: it stays as it is written.
    fn typed_regex(&mut self) -> Parse<ExprKind> {
        let start = self.span;
        let text = self.regex()?;
        let written = self.lexer.slice(start.to(self.last));
        let inner = written
            .strip_prefix(b"@/")
            .and_then(|w| w.strip_suffix(b"/"));
        Ok(ExprKind::TypedRegex(inner.map_or(text, <[u8]>::to_vec)))
    }

    pub(super) fn regex(&mut self) -> Parse<Vec<u8>> {
        let mut slash = self.span;
        slash.start += u32::from(self.token == Token::AtSlash);
        let Some((text, span)) = self.lexer.regex_from(slash, self.diagnostics) else {
            self.token = Token::Bad;
            return Err(Fault);
        };
        if text.is_empty() {
            self.diagnostics.lint_once(Lint::General, slash, || {
                "regexp constant `//' looks like a C++ comment, but is not".into()
            });
        }
        self.regexes.push(self.span);
        self.span = self.span.to(span);
        self.bump();
        Ok(text)
    }

    /// A name with any subscripts, all of which lead to an array.
    pub(super) fn array(&mut self, place: &str) -> Parse<ArrayExpr> {
        let Token::Name(name) = self.token else {
            return self.fail(&format!("the name of an array {place}"));
        };
        Ok(self.array_from(name)?.finish(self))
    }

    /// The current token, which is `name`, and all subscripts behind it.
    pub(super) fn array_from(&mut self, name: Symbol) -> Parse<ArrayPath> {
        let mut array = ArrayPath {
            name: self.qualify(name),
            span: self.span,
            path: Vec::new(),
        };
        self.bump();
        while self.token == Token::LBracket {
            let subs = self.subscripts()?;
            array.path.push((subs, self.last));
        }
        Ok(array)
    }

    /// What follows `$`. A variable stands alone, so that `$i++` is `($i)++` and `$i^2` is `($i)^2`. After a sign or `!` comes
    /// all that a unary operator takes: `$+i++` is `$(+(i++))`. The field of a field takes its own `++`: `$$i++` is
    /// `$($i++)`. gawk, mawk and original-awk agree.
    pub(super) fn field_number(&mut self) -> Parse<Expr> {
        match self.token {
            Token::Minus | Token::Plus | Token::Not => self.unary(),
            Token::Dollar => self.postfix(false),
            _ => self.primary(),
        }
    }

    pub(super) fn getline_target(&mut self) -> Parse<Option<Box<Expr>>> {
        if matches!(self.token, Token::Name(_) | Token::Dollar) {
            return Ok(Some(Box::new(self.nested(1, Self::primary)?)));
        }
        Ok(None)
    }

    pub(super) fn parenthesised(&mut self) -> Parse<Expr> {
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
            let array = self.array("after `in`")?;
            let span = span.to(array.span);
            return Ok(Expr {
                kind: ExprKind::In { subs: list, array },
                span,
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

    pub(super) fn subscripts(&mut self) -> Parse<Vec<Expr>> {
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
    pub(super) fn arguments(&mut self) -> Parse<Vec<Expr>> {
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

    pub(super) fn builtin(&mut self, which: Builtin) -> Parse<ExprKind> {
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

/// An array expression of which the last subscripts may still turn out to be those of an element.
pub(super) struct ArrayPath {
    pub(super) name: Symbol,
    span: Span,
    /// Subscripts and their closing brackets.
    pub(super) path: Vec<(Vec<Expr>, Span)>,
}

impl ArrayPath {
    /// Notes a misuse where arrays of arrays do not exist.
    pub(super) fn finish(self, parser: &mut Parser<'_>) -> ArrayExpr {
        let end = self.path.last().map_or(self.span, |(_, bracket)| *bracket);
        let span = self.span.to(end);
        if !self.path.is_empty() && !parser.options.dialect.is_gawk() {
            parser
                .diagnostics
                .misuse(span, "arrays of arrays are a gawk extension");
        }
        ArrayExpr {
            name: self.name,
            span,
            path: self.path.into_iter().map(|(subs, _)| subs).collect(),
        }
    }
}
