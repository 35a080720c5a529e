//! What is to be said about a program text: errors and warnings with their place.
//!
//! Invariant: a message is one line without place or severity; the caller words those.

use crate::span::{Sources, Span};

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The text is no program.
    Error,
    /// The text is a program that cannot run: a name is used as what it is not, or has no meaning. Other AWKs find this
    /// while running.
    Misuse,
    /// The program runs, perhaps not as meant.
    Warning,
}

/// Which wish of the caller a warning answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lint {
    /// Doubtful, or not portable (`--lint`).
    General,
    /// Certainly no use (`--lint`, `--lint=invalid`).
    Invalid,
    /// gawk's alone (`--lint`, not with `--lint=no-ext`).
    Extension,
    /// Not in the AWK of Version 7 (`--lint-old`).
    Old,
}

/// The classes of warnings that a caller wants besides those that are always said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lints {
    /// [`Lint::General`]
    pub general: bool,
    /// [`Lint::Invalid`]
    pub invalid: bool,
    /// [`Lint::Extension`]
    pub extension: bool,
    /// [`Lint::Old`]
    pub old: bool,
}

impl Lints {
    /// `--lint`
    pub const ALL: Lints = Lints {
        general: true,
        invalid: true,
        extension: true,
        old: false,
    };
    /// `--lint=invalid`
    pub const INVALID: Lints = Lints {
        general: false,
        extension: false,
        ..Lints::ALL
    };
    /// `--lint=no-ext`
    pub const NO_EXTENSION: Lints = Lints {
        extension: false,
        ..Lints::ALL
    };

    /// Whether a class is among them.
    pub fn has(self, class: Lint) -> bool {
        match class {
            Lint::General => self.general,
            Lint::Invalid => self.invalid,
            Lint::Extension => self.extension,
            Lint::Old => self.old,
        }
    }
}

/// One error or warning.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// `Some`: a warning that is only said if the caller asked for this class; `None`: always said.
    pub lint: Option<Lint>,
    /// Where.
    pub span: Span,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl Diagnostic {
    /// Whether it keeps the program from running.
    pub fn is_error(&self) -> bool {
        self.severity != Severity::Warning
    }

    /// `prog.awk:3:7: unexpected ...`; warnings say that they are.
    pub fn render(&self, sources: &Sources) -> String {
        let severity = if self.severity == Severity::Warning {
            "warning: "
        } else {
            ""
        };
        format!("{}: {severity}{}", sources.place(self.span), self.message)
    }
}

/// The collector that lexer, parser and resolver write into.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    /// Errors and misuses among them.
    errors: usize,
    lints: Lints,
}

impl Diagnostics {
    /// After this many errors a parser gives up: what follows is mostly noise.
    pub const ERRORS_MAX: usize = 20;

    /// None so far; warnings of the classes in `lints` will be noted.
    pub fn new(lints: Lints) -> Diagnostics {
        Diagnostics {
            list: Vec::new(),
            errors: 0,
            lints,
        }
    }

    /// Whether any class of `--lint` is wanted.
    pub fn is_linting(&self) -> bool {
        self.lints != Lints::default()
    }

    /// Notes an error, unless one is already noted at the very same place.
    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        self.note(Severity::Error, span, message);
    }

    /// Notes a misuse, unless an error is already noted at the very same place.
    pub fn misuse(&mut self, span: Span, message: impl Into<String>) {
        self.note(Severity::Misuse, span, message);
    }

    fn note(&mut self, severity: Severity, span: Span, message: impl Into<String>) {
        let seen = |d: &Diagnostic| {
            d.severity != Severity::Warning
                && d.span.source == span.source
                && d.span.start == span.start
        };
        if self.errors < Diagnostics::ERRORS_MAX && !self.list.iter().any(seen) {
            self.errors += 1;
            self.list.push(Diagnostic {
                severity,
                lint: None,
                span,
                message: message.into(),
            });
        }
    }

    /// Notes a warning.
    pub fn warn(&mut self, span: Span, message: impl Into<String>) {
        self.note_warning(None, span, message.into());
    }

    /// Notes a warning if its class is wanted.
    pub fn lint(&mut self, class: Lint, span: Span, message: impl Into<String>) {
        if self.lints.has(class) {
            self.note_warning(Some(class), span, message.into());
        }
    }

    /// Notes a warning about a word or sign if its class is wanted and the same was not said before.
    pub fn lint_once(&mut self, class: Lint, span: Span, message: impl FnOnce() -> String) {
        if !self.lints.has(class) {
            return;
        }
        let message = message();
        if !self.list.iter().any(|d| d.message == message) {
            self.note_warning(Some(class), span, message);
        }
    }

    fn note_warning(&mut self, lint: Option<Lint>, span: Span, message: String) {
        let d = Diagnostic {
            severity: Severity::Warning,
            lint,
            span,
            message,
        };
        // Reading again after looking ahead may find the same: it is among the last.
        if !self.list.iter().rev().take(100).any(|old| *old == d) {
            self.list.push(d);
        }
    }

    /// Notes a warning whose words were not used before: one place is enough to see what is meant.
    pub fn warn_once(&mut self, span: Span, message: String) {
        if !self.list.iter().any(|old| old.message == message) {
            self.note_warning(None, span, message);
        }
    }

    /// Takes over what another collector found.
    pub fn append(&mut self, mut other: Diagnostics) {
        self.errors += other.errors;
        self.list.append(&mut other.list);
    }

    /// Whether any error or misuse was noted.
    pub fn has_errors(&self) -> bool {
        self.error_count() > 0
    }

    /// How many errors and misuses were noted.
    pub fn error_count(&self) -> usize {
        self.errors
    }

    /// All, in the order they were found.
    pub fn list(&self) -> &[Diagnostic] {
        &self.list
    }
}
