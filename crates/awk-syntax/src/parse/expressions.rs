//! Expressions, by precedence.

use super::{NEST_COST, Parse, Parser};
use crate::ast::*;
use crate::lex::Token;

impl Parser<'_> {
    /// An expression in which `>` compares.
    pub(super) fn full_expr(&mut self) -> Parse<Expr> {
        let outer = std::mem::replace(&mut self.no_gt, false);
        let result = self.expr();
        self.no_gt = outer;
        result
    }

    pub(super) fn expr(&mut self) -> Parse<Expr> {
        // A chain `a ? b : c ? d : e` stays flat: programs make it long.
        let mut last = self.or()?;
        let mut arms = Vec::new();
        while self.take(&Token::Question) {
            self.skip_newlines();
            let yes = self.nested(NEST_COST, Self::expr)?;
            self.skip_newlines();
            self.expect(&Token::Colon, "of `?:`")?;
            self.skip_newlines();
            arms.push((std::mem::replace(&mut last, self.or()?), yes));
        }
        let Some((first, _)) = arms.first() else {
            return Ok(last);
        };
        Ok(Expr {
            span: first.span.to(last.span),
            kind: ExprKind::Cond {
                arms,
                otherwise: Box::new(last),
            },
        })
    }

    pub(super) fn or(&mut self) -> Parse<Expr> {
        self.flat(Token::Or, Self::and, ExprKind::Or)
    }

    pub(super) fn and(&mut self) -> Parse<Expr> {
        self.flat(Token::And, Self::membership, ExprKind::And)
    }

    pub(super) fn flat(
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

    pub(super) fn membership(&mut self) -> Parse<Expr> {
        let mut left = self.matching()?;
        let depth = self.depth;
        while self.token == Token::In {
            self.deepen()?;
            self.bump();
            let array = self.array("after `in`")?;
            let span = left.span.to(array.span);
            left = Expr {
                kind: ExprKind::In {
                    subs: vec![left],
                    array,
                },
                span,
            };
            left = self.after_membership(left)?;
        }
        self.depth = depth;
        Ok(left)
    }

    /// Operators that bind tighter than `in` and can follow it all the same, since `in` has ended: `i in a ~ b`.
    fn after_membership(&mut self, mut left: Expr) -> Parse<Expr> {
        loop {
            let negated = match self.token {
                Token::Tilde => Some(false),
                Token::NotTilde => Some(true),
                _ => None,
            };
            let op = self.compare_op();
            if negated.is_none() && op.is_none() {
                return Ok(left);
            }
            self.deepen()?;
            self.bump();
            let right = Box::new(if op.is_some() {
                self.piped()?
            } else {
                self.comparison()?
            });
            let span = left.span.to(right.span);
            let left_box = Box::new(left);
            let kind = match op {
                Some(op) => ExprKind::Compare {
                    op,
                    left: left_box,
                    right,
                },
                None => ExprKind::Match {
                    negated: negated == Some(true),
                    left: left_box,
                    right,
                },
            };
            left = Expr { kind, span };
        }
    }

    /// The comparison that the current token is.
    fn compare_op(&self) -> Option<CompareOp> {
        Some(match self.token {
            Token::Lt => CompareOp::Lt,
            Token::Le => CompareOp::Le,
            Token::Eq => CompareOp::Eq,
            Token::Ne => CompareOp::Ne,
            Token::Ge => CompareOp::Ge,
            Token::Gt if !self.no_gt => CompareOp::Gt,
            _ => return None,
        })
    }

    /// One more level of a left-leaning chain; the caller resets `depth` at its end.
    pub(super) fn deepen(&mut self) -> Parse<()> {
        self.depth += 1;
        if self.depth > self.depth_max() {
            return self.too_deep("");
        }
        Ok(())
    }

    pub(super) fn matching(&mut self) -> Parse<Expr> {
        let mut left = self.comparison()?;
        let depth = self.depth;
        while matches!(self.token, Token::Tilde | Token::NotTilde) {
            self.deepen()?;
            let negated = self.bump() == Token::NotTilde;
            if matches!(left.kind, ExprKind::Regex(_)) {
                let message = "regular expression on left of `~' or `!~' operator";
                self.diagnostics.warn(left.span, message);
            }
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

    pub(super) fn comparison(&mut self) -> Parse<Expr> {
        let left = self.piped()?;
        let Some(op) = self.compare_op() else {
            return Ok(left);
        };
        self.bump();
        let right = self.piped()?;
        if self.compare_op().is_some() {
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
    /// In a bare `print` list the `|` is the list's own.
    pub(super) fn piped(&mut self) -> Parse<Expr> {
        let mut left = self.concat()?;
        let depth = self.depth;
        while !self.no_gt
            && matches!(self.token, Token::Pipe | Token::PipeBoth)
            && self.peek() == Token::Getline
        {
            self.deepen()?;
            let make = if self.bump() == Token::Pipe {
                GetlineFrom::Command
            } else {
                GetlineFrom::Coprocess
            };
            self.bump();
            let target = self.getline_target()?;
            let span = left.span.to(self.last);
            left = Expr {
                kind: ExprKind::Getline {
                    target,
                    from: make(Box::new(left)),
                },
                span,
            };
            // What was read is an operand: `"date" | getline + 1`, `"date" | getline x "more"`.
            left = self.power_from(left)?;
            left = self.product_from(left)?;
            left = self.sum_from(left)?;
            left = self.concat_from(left)?;
        }
        self.depth = depth;
        Ok(left)
    }

    pub(super) fn concat(&mut self) -> Parse<Expr> {
        let first = self.sum()?;
        self.concat_from(first)
    }

    fn concat_from(&mut self, first: Expr) -> Parse<Expr> {
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
    pub(super) fn starts_operand(&self) -> bool {
        matches!(
            self.token,
            Token::Number(_)
                | Token::Str(_)
                | Token::Translated(_)
                | Token::At
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

    pub(super) fn sum(&mut self) -> Parse<Expr> {
        let first = self.product()?;
        self.sum_from(first)
    }

    fn sum_from(&mut self, first: Expr) -> Parse<Expr> {
        self.arith_from(first, Self::product, |token| match token {
            Token::Plus => Some(ArithOp::Add),
            Token::Minus => Some(ArithOp::Sub),
            _ => None,
        })
    }

    pub(super) fn product(&mut self) -> Parse<Expr> {
        let first = self.unary()?;
        self.product_from(first)
    }

    fn product_from(&mut self, first: Expr) -> Parse<Expr> {
        self.arith_from(first, Self::unary, |token| match token {
            Token::Star => Some(ArithOp::Mul),
            Token::Slash => Some(ArithOp::Div),
            Token::Percent => Some(ArithOp::Mod),
            _ => None,
        })
    }

    fn arith_from(
        &mut self,
        first: Expr,
        operand: fn(&mut Self) -> Parse<Expr>,
        op_of: fn(&Token) -> Option<ArithOp>,
    ) -> Parse<Expr> {
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

    pub(super) fn unary(&mut self) -> Parse<Expr> {
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

    pub(super) fn power(&mut self) -> Parse<Expr> {
        let base = self.postfix(true)?;
        self.power_from(base)
    }

    fn power_from(&mut self, base: Expr) -> Parse<Expr> {
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
    pub(super) fn postfix(&mut self, assignable: bool) -> Parse<Expr> {
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
}

pub(super) fn contains_tuple(kind: &ExprKind) -> bool {
    // A list can only be the leftmost operand of what was read.
    let mut kind = kind;
    loop {
        kind = match kind {
            ExprKind::Tuple(_) => return true,
            ExprKind::Arith { first, .. } => &first.kind,
            ExprKind::Concat(list) | ExprKind::And(list) | ExprKind::Or(list) => &list[0].kind,
            ExprKind::Power { base, .. } => &base.kind,
            ExprKind::Compare { left, .. } | ExprKind::Match { left, .. } => &left.kind,
            ExprKind::Cond { arms, .. } => &arms[0].0.kind,
            ExprKind::In { subs, .. } => &subs[0].kind,
            ExprKind::Getline {
                from: GetlineFrom::Command(command) | GetlineFrom::Coprocess(command),
                ..
            } => &command.kind,
            _ => return false,
        };
    }
}
