//! Which commands a script has, and where.
//!
//! The invariant: a site's name stands in the text at its position, byte for byte. What the parser knows the place of only
//! roughly (the inside of `${x:-$(…)}`, of backquotes with escapes, of here-documents) is left out: a command that is not
//! found is not touched, which is never wrong.

use brush_parser::ParserOptions;
use brush_parser::ast::{
    AndOr, Assignment, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundCommand,
    CompoundList, ExtendedTestExpr, IoFileRedirectTarget, IoRedirect, Pipeline, Program,
    RedirectList, SeparatorOperator, SimpleCommand, SourceLocation as _, Word,
};
use brush_parser::word::{WordPiece, WordPieceWithSource};

use super::{Language, latin1, options};

/// A simple command that is called by a plain name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Site {
    /// Where its name begins, in bytes.
    pub at: usize,
    /// Its name, as it stands in the text.
    pub name: String,
    /// The line of its name, from 1.
    pub line: usize,
    /// Which pipeline of the text it is in; numbers mean nothing but that.
    pub pipeline: usize,
    /// Which stage of its pipeline it is, from 0.
    pub stage: usize,
    /// How many stages its pipeline has.
    pub stages: usize,
    /// Whether its pipeline is started with `&`, and nobody waits for it at once.
    pub background: bool,
}

/// What a script has.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Find {
    /// In the order of the text.
    pub sites: Vec<Site>,
    /// The names of the functions that the text defines.
    pub functions: Vec<String>,
    /// The words of each simple command, as they stand in the text, without assignments and redirections. None is empty.
    pub commands: Vec<Vec<String>>,
    /// Where the first word of each simple command begins, if that is known exactly.
    places: Vec<(usize, String)>,
    /// The program as the parser prints it: two texts of one meaning are printed alike.
    pub printed: String,
}

impl Find {
    /// Where commands begin whose first word is this one, in the order of the text.
    pub(super) fn helpers(&self, word: &str) -> impl Iterator<Item = usize> {
        let mut places: Vec<usize> = self
            .places
            .iter()
            .filter(|(_, name)| name == word)
            .map(|(at, _)| *at)
            .collect();
        places.sort_unstable();
        places.into_iter()
    }
}

/// Looks for commands.
///
/// # Errors
/// What the parser says of a text that it cannot read.
pub fn find(text: &[u8], language: Language) -> Result<Find, String> {
    let options = options(language);
    let mut finder = Finder {
        text,
        options,
        found: Find::default(),
        pipelines: 0,
    };
    let program = finder.parse(text)?;
    finder.found.printed = program.to_string();
    finder.program(&program, 0);
    finder.found.sites.sort_by_key(|site| site.at);
    let lines: Vec<usize> = (0..text.len()).filter(|&at| text[at] == b'\n').collect();
    for site in &mut finder.found.sites {
        site.line = 1 + lines.partition_point(|&end| end < site.at);
    }
    Ok(finder.found)
}

struct Finder<'a> {
    text: &'a [u8],
    options: ParserOptions,
    found: Find,
    pipelines: usize,
}

impl Finder<'_> {
    fn parse(&self, text: &[u8]) -> Result<Program, String> {
        let characters = latin1(text);
        brush_parser::Parser::new(characters.as_bytes(), &self.options)
            .parse_program()
            .map_err(|error| error.to_string())
    }

    // `base` is where in the whole text the part begins that the positions of a tree count from.

    fn program(&mut self, program: &Program, base: usize) {
        for list in &program.complete_commands {
            self.list(list, base);
        }
    }

    fn list(&mut self, list: &CompoundList, base: usize) {
        for item in &list.0 {
            let background = matches!(item.1, SeparatorOperator::Async);
            self.pipeline(&item.0.first, background, base);
            for next in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = next;
                self.pipeline(pipeline, background, base);
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline, background: bool, base: usize) {
        let number = self.pipelines;
        self.pipelines += 1;
        for (stage, command) in pipeline.seq.iter().enumerate() {
            match command {
                Command::Simple(simple) => {
                    if let Some((at, name)) = self.plain_name(simple, base) {
                        self.found.sites.push(Site {
                            at,
                            name,
                            line: 0,
                            pipeline: number,
                            stage,
                            stages: pipeline.seq.len(),
                            background,
                        });
                    }
                    self.simple(simple, base);
                }
                Command::Compound(compound, redirects) => {
                    self.compound(compound, base);
                    self.redirects(redirects.as_ref(), base);
                }
                Command::Function(function) => {
                    self.found.functions.push(function.fname.value.clone());
                    self.compound(&function.body.0, base);
                    self.redirects(function.body.1.as_ref(), base);
                }
                Command::ExtendedTest(test, redirects) => {
                    self.test(&test.expr, base);
                    self.redirects(redirects.as_ref(), base);
                }
            }
        }
    }

    /// The name of a command and its place, if it is written without quotes, expansions and slashes.
    fn plain_name(&self, simple: &SimpleCommand, base: usize) -> Option<(usize, String)> {
        let word = simple.word_or_name.as_ref()?;
        let at = self.place(word, base)?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+.".contains(&byte);
        let is_plain = !word.value.is_empty() && word.value.bytes().all(plain);
        is_plain.then(|| (at, word.value.clone()))
    }

    /// Where a word stands, if it stands there as the parser has it.
    fn place(&self, word: &Word, base: usize) -> Option<usize> {
        let location = word.location()?;
        let at = base + location.start.index;
        let bytes = word.value.chars().map(|c| u8::try_from(c).ok());
        let there = self.text.get(at..)?.iter().copied().map(Some);
        let length = word.value.chars().count();
        there.take(length).eq(bytes).then_some(at)
    }

    fn simple(&mut self, simple: &SimpleCommand, base: usize) {
        let prefix = simple.prefix.iter().flat_map(|p| &p.0);
        let suffix = simple.suffix.iter().flat_map(|s| &s.0);
        if let Some(word) = &simple.word_or_name {
            self.word(word, base);
            let mut words = vec![word.value.clone()];
            words.extend(suffix.clone().filter_map(|item| match item {
                CommandPrefixOrSuffixItem::Word(word)
                | CommandPrefixOrSuffixItem::AssignmentWord(_, word) => Some(word.value.clone()),
                _ => None,
            }));
            self.found.commands.push(words);
            if let Some(at) = self.place(word, base) {
                self.found.places.push((at, word.value.clone()));
            }
        }
        for item in prefix.chain(suffix) {
            match item {
                CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, base),
                CommandPrefixOrSuffixItem::Word(word) => self.word(word, base),
                CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                    self.assignment(assignment, word, base);
                }
                CommandPrefixOrSuffixItem::ProcessSubstitution(_, subshell) => {
                    self.list(&subshell.list, base);
                }
            }
        }
    }

    fn assignment(&mut self, assignment: &Assignment, word: &Word, base: usize) {
        match &assignment.value {
            AssignmentValue::Scalar(_) => self.word(word, base),
            AssignmentValue::Array(elements) => {
                for (_, value) in elements {
                    self.word(value, base);
                }
            }
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>, base: usize) {
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, base);
        }
    }

    fn redirect(&mut self, redirect: &IoRedirect, base: usize) {
        match redirect {
            IoRedirect::File(_, _, target) => match target {
                IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word) => {
                    self.word(word, base);
                }
                IoFileRedirectTarget::ProcessSubstitution(_, subshell) => {
                    self.list(&subshell.list, base);
                }
                IoFileRedirectTarget::Fd(_) => {}
            },
            IoRedirect::HereString(_, word) | IoRedirect::OutputAndError(word, _) => {
                self.word(word, base);
            }
            // Its words stand on other lines, and tabs may have been taken from them.
            IoRedirect::HereDocument(..) => {}
        }
    }

    fn compound(&mut self, compound: &CompoundCommand, base: usize) {
        match compound {
            CompoundCommand::Arithmetic(_) => {}
            CompoundCommand::ArithmeticForClause(clause) => self.list(&clause.body.list, base),
            CompoundCommand::BraceGroup(group) => self.list(&group.list, base),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list, base),
            CompoundCommand::ForClause(clause) => {
                for word in clause.values.iter().flatten() {
                    self.word(word, base);
                }
                self.list(&clause.body.list, base);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value, base);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(pattern, base);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list, base);
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition, base);
                self.list(&clause.then, base);
                for branch in clause.elses.iter().flatten() {
                    if let Some(condition) = &branch.condition {
                        self.list(condition, base);
                    }
                    self.list(&branch.body, base);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0, base);
                self.list(&clause.1.list, base);
            }
            // Nobody knows when it is read from, or whether.
            CompoundCommand::Coprocess(_) => {}
        }
    }

    fn test(&mut self, test: &ExtendedTestExpr, base: usize) {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left, base);
                self.test(right, base);
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.test(inner, base);
            }
            ExtendedTestExpr::UnaryTest(_, word) => self.word(word, base),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.word(left, base);
                self.word(right, base);
            }
        }
    }

    /// Command substitutions inside a word.
    fn word(&mut self, word: &Word, base: usize) {
        if !word.value.contains(['$', '`']) {
            return;
        }
        let Some(at) = self.place(word, base) else {
            return;
        };
        if let Ok(pieces) = brush_parser::word::parse(&word.value, &self.options) {
            self.pieces(&pieces, &word.value, at);
        }
    }

    fn pieces(&mut self, pieces: &[WordPieceWithSource], word: &str, at: usize) {
        for piece in pieces {
            let (inner, opening) = match &piece.piece {
                WordPiece::DoubleQuotedSequence(inner)
                | WordPiece::GettextDoubleQuotedSequence(inner) => {
                    self.pieces(inner, word, at);
                    continue;
                }
                WordPiece::CommandSubstitution(inner) => (inner, 2),
                WordPiece::BackquotedCommandSubstitution(inner) => (inner, 1),
                _ => continue,
            };
            // Positions in a word count the bytes of its characters.
            let Some(before) = word.get(..piece.start_index) else {
                continue;
            };
            let start = at + before.chars().count() + opening;
            let bytes: Option<Vec<u8>> = inner.chars().map(|c| u8::try_from(c).ok()).collect();
            // As it stands there: without escapes that the parser has taken away.
            let Some(bytes) = bytes.filter(|b| self.text.get(start..start + b.len()) == Some(b))
            else {
                continue;
            };
            if let Ok(program) = self.parse(&bytes) {
                self.program(&program, start);
            }
        }
    }
}
