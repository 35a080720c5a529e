//! Tokens to tree: recursive descent over gawk's grammar.
//!
//! Each source is read on its own: no construct crosses the border of two. `@include` stops the reading of one source, the
//! named text is read, and the first goes on behind the directive; nothing recurses.
//!
//! Invariants: the tree is never deeper than `DEPTH_MAX` units; every error is noted before a `Fault` is returned; after an
//! error reading goes on at the next statement border, so that one run reports several errors.
//!
//! Precedence, loosest first: `?:`, `||`, `&&`, `in`, `~ !~`, comparison and `cmd | getline`, concatenation, `+ -`,
//! `* / %`, unary, `^`, `++ --`, `$`. Assignment is taken wherever an operand is a bare lvalue in front of an assignment
//! operator and nothing binds tighter to its left, which is how `1 && a = 3` can only be read.

use std::collections::HashSet;

use crate::ast::*;
use crate::diagnostic::{Diagnostics, Lint};
use crate::dialect::{Dialect, Options};
use crate::lex::{Lexer, Token};
use crate::names::{Builtin, Names, Origin, Symbol};
use crate::span::{Sources, Span};
use crate::world::{Included, NoWorld, World};

mod directives;
mod expressions;
mod primary;
mod statements;

/// Most levels of expressions in expressions, or of blocks in blocks.
const LEVELS_MAX: usize = 1000;
/// What a level costs in units: a whole expression inside of another one; a statement in another one and its braces; a
/// prefix operator or one link of a chain costs 1.
const NEST_COST: usize = 5;
const STATEMENT_COST: usize = 3;
const BLOCK_COST: usize = 2;

/// Most units of nesting, with some for what stands around the innermost levels.
///
/// The walks over the tree (resolving, compiling, laying out, forgetting) get by with 1.1 KB of stack for what costs 5, the
/// parser takes 6 KB, measured in an unoptimised build (2026-11): 8 MiB, what a program usually has, are more than
/// enough for the walks; see `Parser::nested` for the parser.
pub const DEPTH_MAX: usize = LEVELS_MAX * NEST_COST + 100;

/// The same for a parser that has no stack of its own.
const DEPTH_WITHOUT_MAX: usize = 1000;

/// Nesting from which on the parser wants a stack of its own. Written programs do not come near, generated ones do.
const OWN_STACK_FROM: usize = 500;
/// Four times what was measured; address space, of which only what is used becomes memory.
const OWN_STACK_BYTES: usize = 32 << 20;

/// An error that is already noted.
#[derive(Debug)]
pub struct Fault;

type Parse<T> = Result<T, Fault>;

/// Most files that are open at once because one includes the other.
const INCLUDES_OPEN_MAX: usize = 1000;

/// Reads the sources from number `first` on as one program. Errors and warnings go to `diagnostics`; what could be read is given
/// back even then. Names are interned in `names`, so that functions read later share their numbers; `@include` adds to
/// `sources`.
pub fn parse(
    sources: &mut Sources,
    first: u32,
    names: &mut Names,
    options: &Options,
    world: &mut dyn World,
    diagnostics: &mut Diagnostics,
) -> Program {
    let mut program = Program::default();
    for source in first..sources.len() as u32 {
        let mut open = vec![Position {
            source,
            at: 0,
            namespace: None,
        }];
        while let Some(position) = open.pop() {
            let mut parser = Parser::new(sources, position, names, options, diagnostics);
            let Some((include, resume)) = parser.unit(&mut program) else {
                continue;
            };
            open.push(resume);
            if open.len() > INCLUDES_OPEN_MAX {
                diagnostics.error(
                    include.span,
                    format!("more than {INCLUDES_OPEN_MAX} files include each other"),
                );
            } else if let Some(source) = fetch(sources, &include, world, diagnostics) {
                program.includes.push(include.name);
                open.push(Position {
                    source,
                    at: 0,
                    namespace: None,
                });
            }
        }
    }
    program
}

/// Asks for an included text and adds it to the sources.
fn fetch(
    sources: &mut Sources,
    include: &Include,
    world: &mut dyn World,
    diagnostics: &mut Diagnostics,
) -> Option<u32> {
    let Include { name, span } = include;
    if name.is_empty() {
        diagnostics.lint(Lint::General, *span, "empty filename after `@include'");
        return None;
    }
    let from = sources.get(span.source);
    // A name on the command line is no error in a program's text.
    let is_option = from.is_option;
    let from = from.name.clone();
    match world.include(name, &from) {
        Ok(Included::Text { name, text }) => return Some(sources.add(name, text)),
        Ok(Included::AlreadyThere) => {
            let message = format!("already included source file `{name}'");
            diagnostics.lint(Lint::General, *span, message);
        }
        Ok(Included::MainFile) => {
            let message = format!("cannot include `{name}' and use it as a program file");
            diagnostics.misuse(*span, message);
        }
        Err(reason) => {
            let message = format!("cannot include `{name}': {reason}");
            if is_option {
                diagnostics.misuse(*span, message);
            } else {
                diagnostics.error(*span, message);
            }
        }
    }
    None
}

/// All tokens of a program as text, one per line with its place (`--dump=tokens`). Included files are not followed.
///
/// Whether `/` begins a regular expression only the grammar can tell: the program is parsed first, and the tokens are read
/// again with the places at which the parser took one. Past a syntax error `/` is shown as a division.
pub fn dump_tokens(sources: &Sources, dialect: Dialect) -> String {
    let mut out = String::new();
    for source in 0..sources.len() as u32 {
        dump_source(sources, source, dialect, &mut out);
    }
    out
}

fn dump_source(sources: &Sources, source: u32, dialect: Dialect, out: &mut String) {
    let (mut names, mut diagnostics) = (Names::default(), Diagnostics::default());
    let options = Options {
        dialect,
        ..Options::default()
    };
    let mut alone = Sources::default();
    let text = sources.get(source);
    alone.add(text.name.clone(), text.text.clone());
    let program = parse(
        &mut alone,
        0,
        &mut names,
        &options,
        &mut NoWorld,
        &mut diagnostics,
    );
    let regexes: HashSet<Span> = program.regexes.into_iter().collect();
    let mut lexer = Lexer::new(&alone, 0, 0, dialect);
    loop {
        let (token, mut span) = lexer.next(&mut names, &mut diagnostics);
        let mut shown = token.describe(&names);
        if regexes.contains(&span) {
            let mut slash = span;
            slash.start += u32::from(token == Token::AtSlash);
            let Some((text, at)) = lexer.regex_from(slash, &mut diagnostics) else {
                break;
            };
            let sign = if token == Token::AtSlash { "@" } else { "" };
            shown = format!("regex {sign}/{}/", String::from_utf8_lossy(&text));
            span = span.to(at);
        }
        out.push_str(&format!("{}\t{shown}\n", alone.place(span)));
        if token == Token::Eof {
            break;
        }
    }
}

/// Where reading begins or goes on.
struct Position {
    source: u32,
    at: u32,
    /// `None`: `awk`.
    namespace: Option<Symbol>,
}

/// An `@include` that stopped the reading of a source.
struct Include {
    name: String,
    span: Span,
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Begin,
    End,
    BeginFile,
    EndFile,
    Main,
}

impl Context {
    /// The word of its rules; `None` where records are at hand, or may be.
    fn word(self) -> Option<&'static str> {
        match self {
            Context::Begin => Some("BEGIN"),
            Context::End => Some("END"),
            Context::BeginFile => Some("BEGINFILE"),
            Context::EndFile => Some("ENDFILE"),
            Context::Main => None,
        }
    }
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
    /// What would be missing from here on is missing because nothing more is read.
    gave_up: bool,
    /// Inside an unparenthesised `print` list: `>` redirects.
    no_gt: bool,
    /// Where a `(a, b)` list may stand alone: directly after `print`.
    tuple_at: Option<Span>,
    loops: usize,
    switches: usize,
    in_function: bool,
    /// Parameters of the function that is being read: no namespace covers them.
    params: HashSet<Symbol>,
    /// gawk's functions whose names are parameters of the current one.
    shadowed: Vec<Builtin>,
    context: Context,
    options: &'a Options,
    namespace: Option<Symbol>,
    sources: &'a Sources,
    /// Where regular expressions were read: their slash or `@`.
    regexes: Vec<Span>,
    comments: Vec<Span>,
}

impl<'a> Parser<'a> {
    fn new(
        sources: &'a Sources,
        position: Position,
        names: &'a mut Names,
        options: &'a Options,
        diagnostics: &'a mut Diagnostics,
    ) -> Parser<'a> {
        let Position {
            source,
            at,
            namespace,
        } = position;
        let start = Span {
            source,
            start: at,
            end: at,
        };
        let mut parser = Parser {
            lexer: Lexer::new(sources, source, at as usize, options.dialect),
            token: Token::Newline,
            span: start,
            last: start,
            names,
            diagnostics,
            depth: 0,
            gave_up: false,
            no_gt: false,
            tuple_at: None,
            loops: 0,
            switches: 0,
            in_function: false,
            params: HashSet::new(),
            shadowed: Vec::new(),
            context: Context::Main,
            options,
            namespace,
            sources,
            regexes: Vec::new(),
            comments: Vec::new(),
        };
        parser.bump();
        parser
    }
}

impl Parser<'_> {
    // ---- tokens ----

    fn bump(&mut self) -> Token {
        let (mut token, span) = self.lexer.next(self.names, self.diagnostics);
        if self.diagnostics.error_count() >= Diagnostics::ERRORS_MAX {
            token = Token::Eof; // there is no more to be said
        }
        self.note_comment(span);
        self.last = self.span;
        self.span = span;
        let token = std::mem::replace(&mut self.token, token);
        self.unshadow();
        token
    }

    /// A function of gawk's that is a parameter here is a name.
    fn unshadow(&mut self) {
        if let Token::Builtin(which) = self.token
            && self.in_function
            && self.shadowed.contains(&which)
        {
            self.token = Token::Name(self.names.intern(which.name()));
        }
    }

    /// Keeps the comment between the current token and the next, which begins at `next`: a comment ends its line, and the
    /// end of a line is a token, so there is one at most.
    fn note_comment(&mut self, next: Span) {
        let gap = Span {
            source: self.span.source,
            start: self.span.end,
            end: next.start.max(self.span.end),
        };
        if let Some(at) = self.sources.slice(gap).iter().position(|b| *b == b'#') {
            self.comments.push(Span {
                start: gap.start + at as u32,
                ..gap
            });
        }
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
        if self.token != Token::Bad && !self.gave_up {
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

    /// Reads something that is `cost` units deeper.
    ///
    /// From `OWN_STACK_FROM` units on this goes on with a stack of its own, if there is one: a level of parentheses goes
    /// through a dozen functions, which is more than the rest of loading needs for the tree.
    fn nested<T: Send>(&mut self, cost: usize, parse: fn(&mut Self) -> Parse<T>) -> Parse<T> {
        let before = self.depth;
        self.depth += cost;
        let result = if self.depth > self.depth_max() {
            self.too_deep("")
        } else if before < OWN_STACK_FROM && self.depth >= OWN_STACK_FROM {
            self.on_own_stack(parse)
        } else {
            parse(self)
        };
        self.depth = before;
        result
    }

    fn depth_max(&self) -> usize {
        match self.options.lend_stack {
            Some(_) => DEPTH_MAX,
            None => DEPTH_WITHOUT_MAX,
        }
    }

    fn on_own_stack<T: Send>(&mut self, parse: fn(&mut Self) -> Parse<T>) -> Parse<T> {
        let Some(lend) = self.options.lend_stack else {
            return parse(self);
        };
        let mut result = None;
        let parser = &mut *self;
        let lent = lend(OWN_STACK_BYTES, &mut || result = Some(parse(parser)));
        match (lent, result) {
            (Ok(()), Some(result)) => result,
            (Ok(()), None) => self.too_deep(": no stack was given"),
            (Err(why), _) => {
                self.too_deep(&format!(": no stack of {OWN_STACK_BYTES} bytes: {why}"))
            }
        }
    }

    fn too_deep<T>(&mut self, why: &str) -> Parse<T> {
        let levels = match self.options.lend_stack {
            Some(_) if why.is_empty() => LEVELS_MAX,
            Some(_) => OWN_STACK_FROM / NEST_COST,
            None => DEPTH_WITHOUT_MAX / NEST_COST,
        };
        self.give_up(format!("nested too deeply: more than {levels} levels{why}"))
    }

    /// An error after which nothing is read: everything would only repeat it.
    fn give_up<T>(&mut self, message: String) -> Parse<T> {
        self.diagnostics.error(self.span, message);
        while self.token != Token::Eof {
            self.bump();
        }
        self.gave_up = true;
        Err(Fault)
    }

    // ---- items ----

    /// Reads items up to the end of the source (`None`) or to an `@include`.
    fn unit(&mut self, program: &mut Program) -> Option<(Include, Position)> {
        let include = loop {
            self.skip_terminators();
            if self.token == Token::Eof || self.diagnostics.error_count() >= Diagnostics::ERRORS_MAX
            {
                break None;
            }
            let before = self.span;
            match self.item(program) {
                Ok(None) => {}
                Ok(include) => break include,
                Err(Fault) => self.recover_item(before),
            }
        };
        program.regexes.append(&mut self.regexes);
        program.comments.append(&mut self.comments);
        let resume = Position {
            source: self.span.source,
            at: self.span.start,
            namespace: self.namespace,
        };
        Some((include?, resume))
    }

    fn recover_item(&mut self, before: Span) {
        if self.span == before && self.token != Token::Eof {
            self.bump();
        }
        self.no_gt = false;
        self.tuple_at = None;
        self.params.clear();
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

    fn item(&mut self, program: &mut Program) -> Parse<Option<Include>> {
        let start = self.span;
        self.context = Context::Main;
        let (context, pattern) = match self.token {
            Token::Function => {
                let function = self.function()?;
                program.functions.push(function);
                return Ok(None);
            }
            Token::Include | Token::Load | Token::Namespace => return self.directive(program),
            Token::Begin => (Context::Begin, Pattern::Begin),
            Token::End => (Context::End, Pattern::End),
            Token::BeginFile => (Context::BeginFile, Pattern::BeginFile),
            Token::EndFile => (Context::EndFile, Pattern::EndFile),
            _ => (Context::Main, Pattern::Always),
        };
        self.context = context;
        let pattern = match self.token {
            _ if context != Context::Main => {
                self.bump();
                if self.token != Token::LBrace {
                    let word = context.word().unwrap_or_default();
                    return self.fail(&format!(
                        "`{{` after {word} (an action is required, on the same line)"
                    ));
                }
                pattern
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
            namespace: self.namespace,
            span: start.to(self.last),
        });
        Ok(None)
    }

    fn function(&mut self) -> Parse<Function> {
        let start = self.span;
        self.bump();
        let name_span = self.span;
        let builtin = match self.token {
            Token::Name(name) | Token::FuncName(name) => {
                let name = self.qualify(name);
                match self.options.dialect.builtin(self.names.text(name)) {
                    None => Ok(name),
                    Some(which) => Err(which),
                }
            }
            Token::Builtin(which) => Err(which),
            _ => return self.fail("the name of a function"),
        };
        let name = match builtin {
            Ok(name) => name,
            Err(which) => {
                let message = format!(
                    "`{}` is a built-in function, it cannot be redefined",
                    which.name()
                );
                self.diagnostics.error(self.span, message);
                return Err(Fault);
            }
        };
        self.bump();
        self.expect(&Token::LParen, "and the parameters of the function")?;
        let mut params = Vec::new();
        self.skip_newlines();
        while self.token != Token::RParen {
            match self.token {
                Token::Name(param) => {
                    if self.names.text(param).contains("::") {
                        let message = format!(
                            "function `{}`: parameter `{}` cannot contain a namespace",
                            self.names.text(name),
                            self.names.text(param)
                        );
                        self.diagnostics.error(self.span, message);
                    }
                    params.push((param, self.span))
                }
                // In the function the name is the parameter's.
                Token::Builtin(which) if which.origin() == Origin::Gawk => {
                    let param = self.names.intern(which.name());
                    self.shadowed.push(which);
                    params.push((param, self.span));
                }
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
        self.params = params.iter().map(|(param, _)| *param).collect();
        self.unshadow();
        let body = self.braces();
        self.params.clear();
        self.shadowed.clear();
        self.in_function = false;
        Ok(Function {
            name,
            namespace: self.namespace,
            name_span,
            params,
            body: body?,
            span: start.to(self.last),
        })
    }

    /// What a name means where it is written: gawk's rules, manual chapter "Namespaces".
    fn qualify(&mut self, written: Symbol) -> Symbol {
        let text = self.names.text(written);
        if let Some((space, name)) = text.split_once("::") {
            if space != "awk" {
                return written;
            }
            let name = name.to_string();
            return self.names.intern(&name);
        }
        let Some(space) = self.namespace else {
            return written;
        };
        if self.params.contains(&written) || text.bytes().all(|b| b.is_ascii_uppercase()) {
            return written;
        }
        let qualified = format!("{}::{text}", self.names.text(space));
        self.names.intern(&qualified)
    }
}
