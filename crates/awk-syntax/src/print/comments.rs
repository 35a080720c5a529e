//! Where comments go: in front of an item, on a line of their own, or behind a statement.
//!
//! Invariant: every comment of the program is printed exactly once.

use std::collections::VecDeque;

use super::Printer;
use crate::ast::Program;
use crate::span::{Sources, Span};

/// A comment and how it stands in the source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comment {
    span: Span,
    /// Nothing else on its line.
    alone: bool,
    /// A blank line stands before it.
    gap: bool,
}

/// The comments of a program, by the item that they belong to.
#[derive(Default)]
pub(super) struct Comments {
    items: Vec<Item>,
    /// Behind the last item of a source.
    pub(super) trailing: Vec<Comment>,
}

/// The comments of a rule or function.
struct Item {
    span: Span,
    /// A pattern without an action.
    no_body: bool,
    before: Vec<Comment>,
    inside: VecDeque<Comment>,
}

impl Comments {
    pub(super) fn assign(program: &Program, sources: &Sources) -> Comments {
        let mut list: Vec<Comment> = program
            .comments
            .iter()
            .map(|span| describe(*span, sources))
            .collect();
        list.sort_by_key(|c| (c.span.source, c.span.start));
        let rules = program
            .rules
            .iter()
            .map(|r| (r.span, r.body.is_none(), r.span.start));
        let functions = program.functions.iter().map(|f| {
            let head = f.params.last().map_or(f.name_span, |(_, span)| *span);
            (f.span, false, head.end)
        });
        let mut spans: Vec<(Span, bool, u32)> = rules.chain(functions).collect();
        spans.sort_by_key(|(s, ..)| (s.source, s.start));
        let mut result = Comments::default();
        let mut list = list.into_iter().peekable();
        for (span, no_body, head_end) in spans {
            let mut before = Vec::new();
            while let Some(c) = list.next_if(|c| c.span.source < span.source) {
                result.trailing.push(c);
            }
            while let Some(c) =
                list.next_if(|c| c.span.source == span.source && c.span.start < span.start)
            {
                match result.items.last_mut() {
                    // gawk has read the comment before it knows that a pattern has no action.
                    Some(last) if last.no_body && last.span.source == span.source => {
                        last.before.push(Comment { gap: c.alone, ..c });
                    }
                    _ => before.push(c),
                }
            }
            let mut inside = VecDeque::new();
            while let Some(c) =
                list.next_if(|c| c.span.source == span.source && c.span.start < span.end)
            {
                // What stands between the parameters and the brace has no line of its own in the text.
                let text = &sources.get(span.source).text;
                let head = &text[head_end.min(c.span.start) as usize..c.span.start as usize];
                if head_end > span.start && !head.contains(&b'{') {
                    before.push(c);
                } else {
                    inside.push_back(c);
                }
            }
            result.items.push(Item {
                span,
                no_body,
                before,
                inside,
            });
        }
        result.trailing.extend(list);
        result
    }

    fn item(&self, span: Span) -> Option<&Item> {
        let at = self
            .items
            .binary_search_by_key(&(span.source, span.start), |i| {
                (i.span.source, i.span.start)
            });
        Some(&self.items[at.ok()?])
    }

    pub(super) fn before(&self, item: Span) -> &[Comment] {
        self.item(item).map_or(&[], |i| &i.before)
    }

    pub(super) fn inside(&self, item: Span) -> VecDeque<Comment> {
        self.item(item)
            .map_or_else(VecDeque::new, |i| i.inside.clone())
    }
}

fn describe(span: Span, sources: &Sources) -> Comment {
    let text = &sources.get(span.source).text[..span.start as usize];
    let blank = |b: &&u8| matches!(**b, b' ' | b'\t' | b'\r');
    let mut before = text.iter().rev().skip_while(blank);
    let alone = matches!(before.next(), None | Some(b'\n'));
    let gap = alone && matches!(before.find(|b| !blank(b)), Some(b'\n'));
    Comment { span, alone, gap }
}

impl Printer<'_> {
    /// Comments in front of an item, at the margin.
    pub(super) fn lead(&mut self, list: &[Comment]) {
        for (at, comment) in list.iter().enumerate() {
            if at > 0 && (comment.gap || (comment.alone && !list[at - 1].alone)) {
                self.text("\n");
            }
            self.comment(comment);
            self.text("\n");
        }
    }

    fn comment(&mut self, comment: &Comment) {
        let text = String::from_utf8_lossy(self.sources.slice(comment.span)).into_owned();
        self.text(text.trim_end_matches(['\r', ' ', '\t']));
    }

    /// The source of the comments that are left; without any it does not matter.
    pub(super) fn item_source(&self) -> u32 {
        self.pending.front().map_or(0, |c| c.span.source)
    }

    /// Comments that begin before `limit`, each on its line.
    pub(super) fn comments_before(&mut self, limit: u32) {
        while self.pending.front().is_some_and(|c| c.span.start < limit) {
            self.comment_line();
        }
    }

    fn comment_line(&mut self) {
        if let Some(comment) = self.pending.pop_front() {
            self.margin(0);
            self.comment(&comment);
            self.text("\n");
        }
    }

    /// The end of a statement's line, with the comment that stands there in the source; those inside of the statement
    /// follow.
    pub(super) fn comments_behind(&mut self, statement: Span) {
        let inside = |c: &Comment| c.span.start < statement.end;
        let behind = |p: &Self, c: &Comment| {
            let gap = Span {
                start: statement.end,
                end: c.span.start,
                ..statement
            };
            let blank = |b: &u8| matches!(b, b' ' | b'\t' | b';' | b'\r');
            !c.alone && p.sources.slice(gap).iter().all(blank)
        };
        if let Some(comment) = self.pending.front().copied()
            && (inside(&comment) || behind(self, &comment))
        {
            self.pending.pop_front();
            self.text("\t");
            self.comment(&comment);
        }
        self.text("\n");
        self.comments_before(statement.end);
    }

    /// The comment directly behind a `{` that was just printed, if it begins before `limit`.
    pub(super) fn comment_at_brace(&mut self, source: u32, limit: u32) {
        let text = &self.sources.get(source).text;
        let at_brace = |c: &Comment| {
            let before = text[..c.span.start as usize].iter().rev();
            before.copied().find(|b| !matches!(b, b' ' | b'\t')) == Some(b'{')
        };
        let mut near = self.pending.iter().take_while(|c| c.span.start < limit);
        let Some(at) = near.position(at_brace) else {
            return;
        };
        if let Some(comment) = self.pending.remove(at) {
            self.text("\t");
            self.comment(&comment);
        }
    }

    /// Where `wanted` stands behind `from`, if only blanks, comments and ends of statements are between.
    pub(super) fn after_blanks(&self, source: u32, from: u32, wanted: u8) -> Option<u32> {
        if self.pending.is_empty() {
            return None; // only comments ask where the braces are
        }
        let text = &self.sources.get(source).text;
        let mut at = from as usize;
        while let Some(&byte) = text.get(at) {
            match byte {
                b'#' => at += text[at..].iter().take_while(|b| **b != b'\n').count(),
                byte if byte == wanted => return Some(at as u32 + 1),
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'(' | b')' => at += 1,
                _ => return None,
            }
        }
        None
    }
}
