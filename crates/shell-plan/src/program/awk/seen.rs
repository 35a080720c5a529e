//! One walk over a whole AWK program, which notes what bears on where and how it may run.
//!
//! Invariant: what is not looked at closely (calls, names made while running) counts as the worst that it may be.

use awk_syntax::Resolved;
use awk_syntax::ast::{
    ArithOp, ArrayExpr, Expr, ExprKind, GetlineFrom, Pattern, RedirectKind, Stmt, StmtKind,
};
use awk_syntax::names::{Builtin, Origin, Special, Symbol};

/// What is in a program, wherever it is.
pub(super) struct Seen<'p> {
    program: &'p Resolved,
    pub(super) stays: Option<String>,
    pub(super) exits: bool,
    pub(super) names: bool,
    pub(super) random: bool,
    /// Something is printed for a record, or in a function.
    pub(super) prints_records: bool,
    /// All that is printed ends its line.
    pub(super) whole_lines: bool,
    pub(super) begins_loudly: bool,
    pub(super) records_otherwise: bool,
    pub(super) changes_separators: bool,
    /// Keys of arrays that are changed are fields.
    pub(super) field_keys: bool,
    /// How numbers become text is changed.
    pub(super) formats: bool,
    /// Variables and arrays that are changed otherwise than by counting up.
    other_changes: Vec<Symbol>,
    /// And those that are changed otherwise than by adding to them for a record.
    not_added: Vec<Symbol>,
    section: Section,
}

/// What happens to a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It is counted up by whole numbers.
    Counts,
    /// Something is added to it.
    Adds,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Begin,
    Records,
    End,
}

impl<'p> Seen<'p> {
    pub(super) fn new(program: &'p Resolved) -> Seen<'p> {
        Seen {
            program,
            stays: None,
            exits: false,
            names: false,
            random: false,
            prints_records: false,
            whole_lines: true,
            begins_loudly: false,
            records_otherwise: false,
            changes_separators: false,
            field_keys: true,
            formats: false,
            other_changes: Vec::new(),
            not_added: Vec::new(),
            section: Section::Records,
        }
    }

    /// Whether nothing happens to a variable but that it is counted up by whole numbers.
    pub(super) fn only_counts(&self, name: Symbol) -> bool {
        !self.other_changes.contains(&name)
    }

    /// Whether nothing happens to a variable but that something is added to it.
    pub(super) fn only_adds(&self, name: Symbol) -> bool {
        !self.not_added.contains(&name)
    }

    fn stays(&mut self, why: &str) {
        self.stays.get_or_insert_with(|| why.to_owned());
    }

    pub(super) fn everything(&mut self) {
        let program = self.program;
        if !program.libraries.is_empty() || !program.includes.is_empty() {
            self.stays("it loads libraries or other programs");
        }
        for rule in &program.rules {
            self.section = match rule.pattern {
                Pattern::Begin => Section::Begin,
                Pattern::End => Section::End,
                _ => Section::Records,
            };
            for e in rule.pattern_exprs() {
                self.expr(e);
            }
            match &rule.body {
                Some(body) => self.body(body),
                None => self.prints_records = true,
            }
        }
        self.section = Section::Records;
        for function in &program.functions {
            self.body(&function.function.body);
        }
        // Who calls a function, and when, is not looked at: what it prints may be printed by BEGIN.
        let functions_print = (program.functions.iter())
            .any(|function| function.function.body.iter().any(does_something_loud));
        self.begins_loudly |= functions_print;
    }

    fn body(&mut self, body: &'p [Stmt]) {
        for statement in body {
            self.statement(statement);
        }
    }

    fn statement(&mut self, statement: &'p Stmt) {
        match &statement.kind {
            StmtKind::Print {
                printf, args, to, ..
            } => {
                self.prints_records |= self.section == Section::Records;
                self.begins_loudly |= self.section == Section::Begin;
                if *printf && !ends_line(args) {
                    self.whole_lines = false;
                }
                if let Some(to) = to {
                    let known = match &to.target.ungrouped().kind {
                        ExprKind::Str(name) => name == b"/dev/stderr" || name == b"/dev/stdout",
                        _ => false,
                    };
                    let is_file = matches!(to.kind, RedirectKind::File | RedirectKind::Append);
                    if !known || !is_file {
                        self.stays("it writes to files or commands");
                    }
                }
            }
            StmtKind::Exit(_) => {
                self.exits |= self.section != Section::End;
                self.begins_loudly |= self.section == Section::Begin;
            }
            StmtKind::NextFile => self.exits = true,
            StmtKind::ForIn { var, array, .. } => {
                self.changed(*var);
                self.array(array);
            }
            StmtKind::Delete { array, .. } => {
                self.array(array);
                self.changed(array.name);
            }
            _ => {}
        }
        let parts = statement.parts();
        for e in parts.exprs {
            self.expr(e);
        }
        for body in parts.bodies {
            self.body(body);
        }
    }

    fn changed(&mut self, name: Symbol) {
        self.not_added.push(name);
        self.changed_otherwise(name);
    }

    /// Otherwise than by counting up.
    fn changed_otherwise(&mut self, name: Symbol) {
        self.other_changes.push(name);
        match Special::from_name(self.program.names.text(name)) {
            Some(Special::RS | Special::NR | Special::FNR) => self.records_otherwise = true,
            Some(Special::OFMT | Special::CONVFMT) => self.formats = true,
            Some(Special::OFS | Special::ORS | Special::SUBSEP) => {
                self.changes_separators = true;
                self.whole_lines = false;
            }
            _ => {}
        }
    }

    fn array(&mut self, array: &'p ArrayExpr) {
        self.variable(array.name);
    }

    fn variable(&mut self, name: Symbol) {
        match Special::from_name(self.program.names.text(name)) {
            Some(Special::FILENAME | Special::ARGIND) => self.names = true,
            Some(Special::ARGV | Special::ARGC) => self.stays("it looks at its arguments"),
            Some(Special::SYMTAB | Special::FUNCTAB | Special::PROCINFO) => {
                self.stays("it looks at its own process or names");
            }
            Some(Special::RT) => self.records_otherwise = true,
            _ => {}
        }
    }

    /// The variable or array that is assigned to.
    fn target(&mut self, target: &'p Expr, change: Change) {
        let counts = change == Change::Counts;
        match &target.ungrouped().kind {
            ExprKind::Var(name) if change == Change::Other || self.section != Section::Records => {
                self.changed(*name);
            }
            ExprKind::Var(name) if change == Change::Adds => self.changed_otherwise(*name),
            ExprKind::Index { array, subs } => {
                let is_field = |e: &Expr| matches!(e.ungrouped().kind, ExprKind::Field(_));
                if !counts || self.section != Section::Records {
                    self.changed(array.name);
                } else if subs.len() != 1 || !is_field(&subs[0]) {
                    self.field_keys = false;
                }
            }
            _ => {}
        }
    }

    fn expr(&mut self, e: &'p Expr) {
        match &e.kind {
            ExprKind::Var(name) => self.variable(*name),
            ExprKind::Index { array, .. } | ExprKind::In { array, .. } => self.array(array),
            ExprKind::Step { target, down, .. } => {
                self.target(target, if *down { Change::Other } else { Change::Counts })
            }
            ExprKind::Assign { target, op, value } => {
                let change = match op {
                    Some(ArithOp::Add) if is_whole(value) => Change::Counts,
                    Some(ArithOp::Add) => Change::Adds,
                    _ => Change::Other,
                };
                self.target(target, change);
            }
            ExprKind::IndirectCall { .. } => self.stays("it calls functions by names it makes"),
            ExprKind::Call { name, args } => {
                if self.program.function(*name).is_none() {
                    self.stays("it calls a function that it does not have");
                }
                // A function may change an array that it is handed.
                for arg in args {
                    if let ExprKind::Var(name) = arg.kind {
                        self.changed(name);
                    }
                }
            }
            ExprKind::Builtin { which, args, .. } => self.builtin(*which, args),
            ExprKind::Getline { target, from } => {
                self.begins_loudly |= self.section == Section::Begin;
                if let Some(target) = target {
                    self.target(target, Change::Other);
                }
                if !matches!(from, GetlineFrom::Main) {
                    self.stays("it reads files or commands");
                }
            }
            _ => {}
        }
        for child in e.children() {
            self.expr(child);
        }
    }

    fn builtin(&mut self, which: Builtin, args: &'p [Expr]) {
        match which {
            Builtin::System => self.stays("it runs commands"),
            Builtin::Systime | Builtin::Strftime => self.stays("it asks the clock"),
            Builtin::Bindtextdomain | Builtin::Dcgettext | Builtin::Dcngettext => {
                self.stays("it has translations");
            }
            Builtin::Srand if args.is_empty() => self.stays("it asks the clock"),
            Builtin::Rand | Builtin::Srand => self.random = true,
            _ if !matches!(which.origin(), Origin::Posix | Origin::Gawk) => {
                self.stays("it uses libraries");
            }
            // These change variables that they are handed.
            Builtin::Sub
            | Builtin::Gsub
            | Builtin::Split
            | Builtin::Match
            | Builtin::Patsplit
            | Builtin::Asort
            | Builtin::Asorti => {
                for arg in args {
                    self.target(arg, Change::Other);
                }
            }
            _ => {}
        }
    }
}

/// Whether a statement, or one in it, prints, exits or reads on.
fn does_something_loud(statement: &Stmt) -> bool {
    if matches!(statement.kind, StmtKind::Print { .. } | StmtKind::Exit(_)) {
        return true;
    }
    let parts = statement.parts();
    parts.exprs.into_iter().any(reads_on)
        || parts.bodies.into_iter().flatten().any(does_something_loud)
}

fn reads_on(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Getline { .. }) || e.children().into_iter().any(reads_on)
}

/// A number that is whole wherever it is computed.
fn is_whole(e: &Expr) -> bool {
    match &e.ungrouped().kind {
        ExprKind::Num(n) => n.fract() == 0.0 && (0.0..1e6).contains(n),
        ExprKind::Builtin {
            which: Builtin::Length,
            ..
        } => true,
        _ => false,
    }
}

/// Whether the format of a `printf` ends in a newline.
fn ends_line(args: &[Expr]) -> bool {
    let format = args.first().map(|e| match &e.kind {
        // printf("...")
        ExprKind::Tuple(list) => list.first().unwrap_or(e),
        _ => e,
    });
    matches!(format.map(|e| &e.ungrouped().kind), Some(ExprKind::Str(text)) if text.ends_with(b"\n"))
}
