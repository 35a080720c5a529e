//! Tree to text, laid out as gawk's pretty printer lays it out (`-o`), or with counts in front (`-p`).
//!
//! Invariant: reading the text again gives a program that means the same. The tree keeps the program's own parentheses;
//! more are added where gawk adds them, and in the few places where gawk's text would read as something else
//! (`- --x`, `delete a[i, j]`). `tests/round_trip.rs` checks this on random programs.

use std::collections::{HashSet, VecDeque};

use crate::ast::*;
use crate::diagnostic::Diagnostics;
use crate::dialect::Options;
use crate::names::{Names, Symbol};
use crate::parse::parse;
use crate::span::{Sources, Span};
use crate::world::World;

mod comments;
mod expressions;
mod statements;

/// How often parts of a program ran, for a profile.
pub trait Counts {
    /// The number for a place of the tree:
    ///
    /// | place | number |
    /// |---|---|
    /// | `Stmt::span` of a loop | how often its body began |
    /// | `Stmt::span` of any other statement | how often it ran |
    /// | the span of a condition of `if` after the first | how often it was computed |
    /// | `Rule::span` | how often its pattern was tried |
    /// | `Case::span` | how often it was entered |
    /// | `Function::name_span` | how often it was called |
    fn ran(&self, place: Span) -> u64;

    /// How often the condition of an `if`, or the pattern of a rule (its first expression), was true.
    fn was_true(&self, place: Span) -> u64;
}

/// A program as text.
///
/// With `counts` the layout is that of a profile, which has no comments; the line that says when it was made is the
/// caller's.
pub fn program(
    program: &Program,
    names: &Names,
    sources: &Sources,
    counts: Option<&dyn Counts>,
) -> String {
    let mut printer = Printer::new(names, sources, counts);
    printer.program(program);
    printer.out
}

/// Reads a program and gives it as text (`-o`): it need not be one that can run.
///
/// `includes` are the files that the caller included itself (`-i`). With an error in the second value the first is `Err`,
/// and the sources are given back for wording the messages.
pub fn pretty(
    mut sources: Sources,
    includes: &[String],
    options: &Options,
    world: &mut dyn World,
) -> (Result<String, Sources>, Diagnostics) {
    let mut diagnostics = Diagnostics::new(options.lints);
    let mut names = Names::default();
    let mut tree = parse(
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
    tree.includes.splice(..0, includes.iter().cloned());
    tree.loads
        .splice(..0, options.libraries.iter().map(|l| (*l, Span::default())));
    let text = program(&tree, &names, &sources, None);
    (Ok(text), diagnostics)
}

struct Printer<'a> {
    names: &'a Names,
    sources: &'a Sources,
    counts: Option<&'a dyn Counts>,
    out: String,
    indent: usize,
    namespace: Option<Symbol>,
    params: HashSet<Symbol>,
    /// Comments inside of the item that is being printed, in order.
    pending: VecDeque<comments::Comment>,
}

/// A kind of rules: its heading in a profile, and what belongs to it.
type Section = (&'static str, fn(&Pattern) -> bool);

/// In the order of printing.
const SECTIONS: [Section; 5] = [
    ("BEGIN rule(s)", |p| matches!(p, Pattern::Begin)),
    ("BEGINFILE rule(s)", |p| matches!(p, Pattern::BeginFile)),
    ("Rule(s)", |p| {
        matches!(p, Pattern::Always | Pattern::Expr(_) | Pattern::Range(..))
    }),
    ("ENDFILE rule(s)", |p| matches!(p, Pattern::EndFile)),
    ("END rule(s)", |p| matches!(p, Pattern::End)),
];

impl<'a> Printer<'a> {
    fn new(names: &'a Names, sources: &'a Sources, counts: Option<&'a dyn Counts>) -> Printer<'a> {
        Printer {
            names,
            sources,
            counts,
            out: String::new(),
            indent: 0,
            namespace: None,
            params: HashSet::new(),
            pending: VecDeque::new(),
        }
    }

    fn program(&mut self, program: &Program) {
        let comments = match self.counts {
            None => comments::Comments::assign(program, self.sources),
            Some(_) => comments::Comments::default(),
        };
        let profile = self.counts.is_some();
        if profile && !program.loads.is_empty() {
            self.text("\t# Loaded extensions (-l and/or @load)\n\n");
        }
        for (library, _) in &program.loads {
            self.margin(0);
            self.text("@load \"");
            self.text(library.name());
            self.text("\"\n");
        }
        let mut begun = !program.loads.is_empty();
        for (heading, belongs) in SECTIONS {
            let rules = program.rules.iter().filter(|r| belongs(&r.pattern));
            for (at, rule) in rules.enumerate() {
                if profile {
                    self.enter(rule.namespace);
                    if at == 0 {
                        self.text(&format!("\t# {heading}\n\n"));
                    } else if heading == "Rule(s)" {
                        self.text("\n");
                    }
                } else if begun {
                    self.text("\n");
                }
                begun = true;
                self.rule(rule, &comments);
            }
        }
        if !comments.trailing.is_empty() {
            let more = !program.functions.is_empty() || !program.includes.is_empty();
            let gap = if more { "\n" } else { "" };
            self.text(gap);
            self.lead(&comments.trailing);
            self.text(gap);
        }
        let headed = !comments.trailing.is_empty();
        self.includes(program, !headed);
        let mut functions: Vec<&Function> = program.functions.iter().collect();
        functions.sort_by_key(|f| {
            // gawk lists the functions of the namespace `awk` first.
            let text = self.names.text(f.name);
            (text.contains("::"), text)
        });
        if profile && !functions.is_empty() {
            self.text("\n\t# Functions, listed alphabetically\n");
        }
        for (at, function) in functions.into_iter().enumerate() {
            // gawk's layout: two empty lines before a comment that heads the first function.
            let lead = comments.before(function.span);
            if profile {
                self.enter(function.namespace);
            }
            self.text(if at == 0 && !headed && !lead.is_empty() {
                "\n\n"
            } else {
                "\n"
            });
            self.function(function, &comments);
        }
    }

    /// The remark that names included files, since their text is part of what is printed.
    fn includes(&mut self, program: &Program, gap: bool) {
        if program.includes.is_empty() || self.counts.is_some() {
            return;
        }
        self.text(if gap { "\n" } else { "" });
        self.text("# Included files (-i and/or @include)\n\n");
        for name in &program.includes {
            self.text(&format!("# @include \"{name}\"\n"));
        }
    }

    /// Goes to the namespace of the next item.
    fn enter(&mut self, namespace: Option<Symbol>) {
        if self.namespace == namespace {
            return;
        }
        self.namespace = namespace;
        let names = self.names;
        let text = namespace.map_or("awk", |n| names.text(n));
        if self.counts.is_some() {
            self.text(&format!("\n\t@namespace \"{text}\"\n"));
        } else {
            self.text(&format!("@namespace \"{text}\"\n\n"));
        }
    }

    fn rule(&mut self, rule: &Rule, comments: &comments::Comments) {
        self.enter(rule.namespace);
        let lead = comments.before(rule.span);
        self.lead(lead);
        self.pending = comments.inside(rule.span);
        let word = match &rule.pattern {
            Pattern::Begin => "BEGIN",
            Pattern::End => "END",
            Pattern::BeginFile => "BEGINFILE",
            Pattern::EndFile => "ENDFILE",
            Pattern::Always | Pattern::Expr(_) | Pattern::Range(..) => "",
        };
        if !word.is_empty() && !lead.is_empty() {
            self.text("\n");
        }
        let first = match &rule.pattern {
            Pattern::Expr(e) | Pattern::Range(e, _) => Some(e),
            _ => None,
        };
        match (self.counts, first) {
            (Some(counts), Some(_)) => self.item_margin(counts.ran(rule.span)),
            (Some(counts), None) if word.is_empty() => self.item_margin(counts.ran(rule.span)),
            (Some(_), _) => self.item_margin(0),
            (None, _) => {}
        }
        self.text(word);
        if let Some(e) = first {
            self.expr(e);
        }
        if let Pattern::Range(_, to) = &rule.pattern {
            self.text(", ");
            self.expr(to);
        }
        if first.is_some() || !word.is_empty() {
            self.text(" ");
        }
        match &rule.body {
            Some(body) => {
                self.text("{");
                if let (Some(counts), Some(e)) = (self.counts, first) {
                    self.true_count(counts.was_true(e.span));
                }
                let first = body.first().map_or(rule.span.end, |s| s.span.start);
                self.comment_at_brace(rule.span.source, first);
                self.text("\n");
                self.close(body, rule.span.end);
            }
            None => {
                self.text("{\n");
                self.indent += 1;
                self.margin(0);
                self.text("print\n");
                self.indent -= 1;
                self.margin(0);
                self.text("}");
            }
        }
        self.text("\n");
    }

    fn function(&mut self, function: &Function, comments: &comments::Comments) {
        self.enter(function.namespace);
        self.lead(comments.before(function.span));
        self.pending = comments.inside(function.span);
        if let Some(counts) = self.counts {
            self.item_margin(counts.ran(function.name_span));
        }
        self.text("function ");
        self.name(function.name);
        self.params = function.params.iter().map(|(param, _)| *param).collect();
        self.text("(");
        for (at, (param, _)) in function.params.iter().enumerate() {
            if at > 0 {
                self.text(", ");
            }
            self.name(*param);
        }
        self.text(")\n");
        self.margin(0);
        self.text("{\n");
        self.close(&function.body, function.span.end);
        self.params.clear();
        self.text("\n");
    }

    // ---- the margin ----

    /// What stands before the text of a line: the count in a profile, and the indentation.
    fn margin(&mut self, count: u64) {
        if self.counts.is_some() {
            self.item_margin(count);
        }
        for _ in 0..self.indent {
            self.out.push('\t');
        }
    }

    /// The margin of the first line of a rule or function, in a profile.
    fn item_margin(&mut self, count: u64) {
        if count > 0 {
            self.text(&format!("{count:6}  "));
        } else {
            self.text("\t");
        }
    }

    fn true_count(&mut self, count: u64) {
        if count > 0 {
            self.text(&format!(" # {count}"));
        }
    }

    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    /// A name as it has to be written in the current namespace.
    fn name(&mut self, symbol: Symbol) {
        let names = self.names;
        let text = names.text(symbol);
        let upper = |name: &str| name.bytes().all(|b| b.is_ascii_uppercase());
        let Some(space) = self.namespace.map(|n| names.text(n)) else {
            return self.text(text);
        };
        match text.split_once("::") {
            Some((its, rest))
                if its == space
                    && !upper(rest)
                    && !names.find(rest).is_some_and(|s| self.params.contains(&s)) =>
            {
                self.text(rest)
            }
            Some(_) => self.text(text),
            None if upper(text) || self.params.contains(&symbol) => self.text(text),
            None => {
                self.text("awk::");
                self.text(text);
            }
        }
    }
}
