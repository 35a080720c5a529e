//! Statements, one per line, always with braces.

use super::Printer;
use crate::ast::*;
use crate::span::Span;

/// Whether `print` takes an operator of this expression for its own `>` or `|`, unless parentheses are around its list.
fn is_taken_by_print(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Compare {
            op: CompareOp::Gt, ..
        }
        | ExprKind::Getline {
            from: GetlineFrom::Command(_) | GetlineFrom::Coprocess(_),
            ..
        } => true,
        // These bring their own brackets.
        ExprKind::Group(_)
        | ExprKind::Tuple(_)
        | ExprKind::Index { .. }
        | ExprKind::Call { .. }
        | ExprKind::IndirectCall { .. }
        | ExprKind::Builtin { .. } => false,
        _ => e.children().into_iter().any(is_taken_by_print),
    }
}

impl Printer<'_> {
    fn block(&mut self, body: &[Stmt], from: u32) -> u32 {
        self.text("{");
        self.block_rest(body, from)
    }

    /// The rest of a block whose `{` is printed: statements and `}`. `from` is where the head of the block ends in the
    /// source. Gives the place behind the block.
    pub(super) fn block_rest(&mut self, body: &[Stmt], from: u32) -> u32 {
        let source = self.item_source();
        let open = self.after_blanks(source, from, b'{');
        let last = body.last().map_or(open.unwrap_or(from), |s| s.span.end);
        let end = match open {
            Some(_) => self.after_blanks(source, last, b'}').unwrap_or(last),
            None => last,
        };
        if open.is_some() {
            self.comment_at_brace(source, body.first().map_or(end, |s| s.span.start));
        }
        self.text("\n");
        self.close(body, end);
        end
    }

    /// The lines of a block, the comments that are left before `end`, and the closing brace.
    pub(super) fn close(&mut self, body: &[Stmt], end: u32) {
        self.indent += 1;
        self.list_of(body);
        self.comments_before(end);
        self.indent -= 1;
        self.margin(0);
        self.text("}");
    }

    fn list_of(&mut self, body: &[Stmt]) {
        for statement in body {
            self.comments_before(statement.span.start);
            // gawk drops braces that hold nothing together.
            if let StmtKind::Block(inner) = &statement.kind {
                self.list_of(inner);
                self.comments_before(statement.span.end);
                continue;
            }
            let count = self.counts.map_or(0, |c| c.ran(statement.span));
            self.margin(count);
            self.statement(statement);
            if matches!(statement.kind, StmtKind::Switch { .. }) {
                self.text("\n");
            } else {
                self.comments_behind(statement.span);
            }
        }
    }

    fn statement(&mut self, statement: &Stmt) {
        match &statement.kind {
            StmtKind::Expr(e) => self.expr(e),
            StmtKind::Print {
                printf, args, to, ..
            } => self.print(*printf, args, to.as_ref()),
            StmtKind::If { arms, otherwise } => {
                let mut end = statement.span.start;
                for (at, (cond, body)) in arms.iter().enumerate() {
                    if at > 0 {
                        // The count of a condition stands where the line of its `else` begins.
                        self.else_margin(cond.span);
                    }
                    self.text("if (");
                    self.expr(cond);
                    self.text(") {");
                    if let Some(counts) = self.counts {
                        self.true_count(counts.was_true(cond.span));
                    }
                    end = self.block_rest(body, cond.span.end);
                }
                if let Some(body) = otherwise {
                    self.text(" else ");
                    let word = self.after_blanks(statement.span.source, end, b'e');
                    self.block(body, word.map_or(end, |at| at + 3));
                }
            }
            StmtKind::While { cond, body } => {
                self.text("while (");
                self.expr(cond);
                self.text(") ");
                self.block(body, cond.span.end);
            }
            StmtKind::DoWhile { body, cond } => {
                self.text("do ");
                self.block(body, statement.span.start + 2);
                self.text(" while (");
                self.expr(cond);
                self.text(")");
            }
            StmtKind::For {
                init,
                cond,
                step,
                body,
            } => {
                self.text("for (");
                self.for_head(init.as_deref(), cond.as_ref(), step.as_deref());
                self.text(") ");
                let parts = [
                    init.as_ref().map(|s| s.span.end),
                    cond.as_ref().map(|e| e.span.end),
                    step.as_ref().map(|s| s.span.end),
                ];
                let from = parts.into_iter().flatten().last();
                self.block(body, from.unwrap_or(statement.span.start + 3));
            }
            StmtKind::ForIn {
                var, array, body, ..
            } => {
                self.text("for (");
                self.name(*var);
                self.text(" in ");
                self.array(array);
                self.text(") ");
                self.block(body, array.span.end);
            }
            StmtKind::Switch { subject, cases } => {
                self.text("switch (");
                self.expr(subject);
                self.text(") {");
                let ends = cases.iter().skip(1).map(|c| c.span.start);
                let first = cases.first().map_or(statement.span.end, |c| c.span.start);
                self.comment_at_brace(statement.span.source, first);
                self.text("\n");
                self.comments_before(first);
                for (case, end) in cases.iter().zip(ends.chain([statement.span.end])) {
                    self.case(case, end);
                }
                self.margin(0);
                self.text("}");
            }
            StmtKind::Block(body) => {
                self.block(body, statement.span.start);
            }
            StmtKind::Next => self.text("next"),
            StmtKind::NextFile => self.text("nextfile"),
            StmtKind::Exit(value) => self.keyword("exit", value.as_ref()),
            StmtKind::Return(value) => self.keyword("return", value.as_ref()),
            StmtKind::Break => self.text("break"),
            StmtKind::Continue => self.text("continue"),
            StmtKind::Delete { array, subs } => {
                self.text("delete ");
                self.array(array);
                if let Some(subs) = subs {
                    self.subscripts(subs);
                }
            }
        }
    }

    /// Goes on behind the `}` of an arm with ` else `; in a profile its line carries the count of the condition.
    fn else_margin(&mut self, cond: Span) {
        if let Some(counts) = self.counts
            && counts.ran(cond) > 0
        {
            let line = self.out.rfind('\n').map_or(0, |at| at + 1);
            self.out.truncate(line);
            self.margin(counts.ran(cond));
            self.text("}");
        }
        self.text(" else ");
    }

    fn for_head(&mut self, init: Option<&Stmt>, cond: Option<&Expr>, step: Option<&Stmt>) {
        if init.is_none() && cond.is_none() && step.is_none() {
            return self.text(";;");
        }
        if let Some(init) = init {
            self.statement(init);
        }
        self.text("; ");
        if let Some(cond) = cond {
            self.expr(cond);
        }
        self.text("; ");
        if let Some(step) = step {
            self.statement(step);
        }
    }

    fn case(&mut self, case: &Case, end: u32) {
        self.margin(self.counts.map_or(0, |c| c.ran(case.span)));
        match &case.label {
            None => self.text("default:"),
            Some(label) => {
                self.text("case ");
                self.expr(label);
                self.text(":");
            }
        }
        self.comments_behind(case.span);
        self.indent += 1;
        self.list_of(&case.body);
        self.comments_before(end);
        self.indent -= 1;
    }

    fn print(&mut self, printf: bool, args: &[Expr], to: Option<&Redirect>) {
        self.text(if printf { "printf" } else { "print" });
        let start = self.out.len();
        self.list(args);
        // gawk adds none if there are some at both ends, even if the two do not belong together.
        let text = &self.out[start..];
        let wrapped = args.len() == 1 && text.starts_with('(') && text.ends_with(')');
        match to {
            None if args.is_empty() => {}
            // gawk adds none, so that its `print 1, a > b` writes to a file.
            None if args.iter().any(is_taken_by_print) => {
                self.out.insert(start, '(');
                self.text(")");
            }
            None => self.out.insert(start, ' '),
            Some(_) if wrapped || args.is_empty() => {}
            Some(_) => {
                self.out.insert(start, '(');
                self.text(")");
            }
        }
        if let Some(to) = to {
            self.text(match to.kind {
                RedirectKind::File => " > ",
                RedirectKind::Append => " >> ",
                RedirectKind::Pipe => " | ",
                RedirectKind::Coprocess => " |& ",
            });
            self.operand(&to.target, |kind| {
                !super::expressions::is_binary(kind) && !matches!(kind, ExprKind::Getline { .. })
            });
        }
    }

    fn keyword(&mut self, word: &str, value: Option<&Expr>) {
        self.text(word);
        if let Some(value) = value {
            self.text(" ");
            self.operand(value, |kind| {
                !super::expressions::is_binary(kind) && !matches!(kind, ExprKind::Getline { .. })
            });
        }
    }
}
