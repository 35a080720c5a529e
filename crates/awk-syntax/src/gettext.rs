//! The texts of a program that may be shown in other languages, as a template for translators (`--gen-pot`).
//!
//! Invariant: one entry for each `_"text"` and for each call of `dcgettext` or `dcngettext` with constant texts, in the
//! order of the source; equal texts stay apart, as with gawk (`msguniq` joins them).

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::dialect::Options;
use crate::lint::COMMAND_LINE;
use crate::names::{Builtin, Names};
use crate::parse::parse;
use crate::span::{Sources, Span};
use crate::world::World;

/// Most characters of a line between its quotes; gawk's template counts the first quote of a text too.
const LINE_CHARS_MAX: usize = 70;

/// Reads a program, which need not be one that can run, and gives the template.
///
/// With an error in the second value the first is `Err`, and the sources are given back for wording the messages.
pub fn template(
    mut sources: Sources,
    options: &Options,
    world: &mut dyn World,
) -> (Result<String, Sources>, Diagnostics) {
    let mut diagnostics = Diagnostics::new(options.lints);
    let mut names = Names::default();
    let tree = parse(
        &mut sources,
        0,
        &mut names,
        options,
        world,
        &mut diagnostics,
    );
    if diagnostics.has_errors() {
        return (Err(sources), diagnostics);
    }
    let mut template = Template {
        sources: &sources,
        out: String::new(),
    };
    let mut items: Vec<(Span, Vec<&Expr>, &[Stmt])> = tree
        .rules
        .iter()
        .map(|r| {
            (
                r.span,
                r.pattern_exprs(),
                r.body.as_deref().unwrap_or_default(),
            )
        })
        .chain(
            tree.functions
                .iter()
                .map(|f| (f.span, Vec::new(), f.body.as_slice())),
        )
        .collect();
    items.sort_by_key(|(span, ..)| (span.source, span.start));
    for (_, pattern, body) in items {
        pattern.into_iter().for_each(|e| template.expr(e));
        template.body(body);
    }
    let text = template.out;
    (Ok(text), diagnostics)
}

struct Template<'a> {
    sources: &'a Sources,
    out: String,
}

impl Template<'_> {
    fn body(&mut self, body: &[Stmt]) {
        for statement in body {
            let parts = statement.parts();
            parts.exprs.into_iter().for_each(|e| self.expr(e));
            parts.bodies.into_iter().for_each(|b| self.body(b));
        }
    }

    fn expr(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Translated(text) => self.entry(e.span, text, None),
            ExprKind::Builtin { which, args, .. } => match (which, args.as_slice()) {
                (Builtin::Dcgettext, [text, ..]) => {
                    if let Some(text) = constant(text) {
                        self.entry(e.span, &text, None);
                    }
                }
                (Builtin::Dcngettext, [one, many, ..]) => {
                    if let (Some(one), Some(many)) = (constant(one), constant(many)) {
                        self.entry(e.span, &one, Some(&many));
                    }
                }
                _ => {}
            },
            _ => {}
        }
        e.children().into_iter().for_each(|child| self.expr(child));
    }

    fn entry(&mut self, span: Span, text: &[u8], plural: Option<&[u8]>) {
        let source = self.sources.get(span.source);
        if source.name != COMMAND_LINE {
            // The line at which the text ends: a string may go on over several.
            let end = Span {
                start: span.end,
                ..span
            };
            let (line, _) = self.sources.position(end);
            self.out.push_str(&format!("#: {}:{line}\n", source.name));
        }
        self.string("msgid", text);
        match plural {
            None => self.out.push_str("msgstr \"\"\n\n"),
            Some(plural) => {
                self.string("msgid_plural", plural);
                self.out.push_str("msgstr[0] \"\"\nmsgstr[1] \"\"\n\n");
            }
        }
    }

    fn string(&mut self, word: &str, text: &[u8]) {
        self.out.push_str(word);
        self.out.push_str(" \"");
        let mut count = 1;
        for &byte in text {
            let shown = match byte {
                b'"' => "\\\"".into(),
                b'\\' => "\\\\".into(),
                0x07 => "\\a".into(),
                0x08 => "\\b".into(),
                0x0c => "\\f".into(),
                b'\n' => "\\n".into(),
                b'\r' => "\\r".into(),
                b'\t' => "\\t".into(),
                0x0b => "\\v".into(),
                0x20..=0x7e => char::from(byte).to_string(),
                _ => format!("\\{byte:03o}"),
            };
            // gawk breaks in the middle of `\n` too, which translators' tools cannot read.
            if count + shown.len() > LINE_CHARS_MAX {
                self.out.push_str("\"\n\"");
                count = 0;
            }
            count += shown.len();
            self.out.push_str(&shown);
        }
        self.out.push_str("\"\n");
    }
}

/// The text of a constant string, or of several in a row.
fn constant(e: &Expr) -> Option<Vec<u8>> {
    match &e.kind {
        ExprKind::Str(s) => Some(s.clone()),
        ExprKind::Concat(list) => list
            .iter()
            .map(constant)
            .collect::<Option<Vec<_>>>()
            .map(|l| l.concat()),
        _ => None,
    }
}
