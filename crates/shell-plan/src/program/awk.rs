//! AWK programs, for any of the commands that run them.
//!
//! A program may be split where its records are independent (`awk_syntax::independence`) and nothing but counts and sums is kept. Sums of
//! fractions depend on their order, so whoever adds them up looks at them; what END prints of anything else is not known from outside. In which order `for (k in a)`
//! goes is each implementation's own business, so such lines are put together only for somebody who sorts them.
//!
//! Under the name `awk` are several programs. What is said of one holds for gawk's language and for POSIX's.

use awk_syntax::ast::{ArithOp, Expr, ExprKind, Pattern, Stmt, StmtKind};
use awk_syntax::independence::{self, Merge, MergeArray};
use awk_syntax::names::{Special, Symbol};
use awk_syntax::{Dialect, NoWorld, Options, Place, Resolved, Sources};

use super::{Ends, Reading, SumColumn, Together};
use crate::annotation::{Call, Combine};
use seen::Seen;

mod seen;

pub(super) fn read(words: &[Vec<u8>], call: &Call<'_>, texts: &[Vec<u8>]) -> Reading {
    let set = assigned(words, call);
    let has = |names: &[&str]| call.options.iter().any(|option| names.contains(option));
    let name = words.get(call.at).map_or(&b""[..], |word| word);
    let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
    let dialects: &[Dialect] = match name {
        b"pmawk" => &[Dialect::Gawk],
        b"gawk" if !has(&["-c", "-P"]) => &[Dialect::Gawk],
        b"gawk" if has(&["-P"]) => &[Dialect::Posix],
        b"gawk" => &[Dialect::Traditional],
        _ => &[Dialect::Gawk, Dialect::Posix],
    };
    let mut readings = dialects.iter().map(|&dialect| one(dialect, texts, &set));
    let Some(mut reading) = readings.next() else {
        return Reading::unknown("its language is not known");
    };
    for other in readings {
        if other.lines != reading.lines && reading.lines.is_ok() {
            reading.lines = other.lines;
        }
        reading.stays = reading.stays.or(other.stays);
        reading.early |= other.early;
        reading.waits &= other.waits;
        reading.names |= other.names;
        if other.ends != reading.ends {
            reading.ends = Ends::Unknown;
        }
    }
    reading.shares &= name == b"pmawk";
    if reading.shares && matches!(reading.lines, Ok(Together::Sums(_))) {
        reading.lines = Err("it adds up in parts by itself".to_owned());
    }
    if has(&["-k", "-M"]) && reading.lines.is_ok() {
        reading.lines = Err("its options change what records or numbers are".to_owned());
    }
    reading
}

/// The variables that the call assigns, by options and among the operands.
fn assigned<'w>(words: &'w [Vec<u8>], call: &Call<'_>) -> Vec<&'w [u8]> {
    let options = call.texts.iter().filter(|(option, ..)| *option == "-v");
    let options = options.map(|&(_, word, from)| &words[word][from..]);
    let operands = call.operands.iter().map(|&word| words[word].as_slice());
    let all = options.chain(operands);
    all.filter_map(|text| {
        let equals = text.iter().position(|&byte| byte == b'=')?;
        Some(&text[..equals])
    })
    .collect()
}

fn one(dialect: Dialect, texts: &[Vec<u8>], set: &[&[u8]]) -> Reading {
    let mut sources = Sources::default();
    for text in texts {
        // The limit of the reader; nobody writes such programs.
        if text.len() > 1 << 20 {
            return Reading::unknown("its program is very long");
        }
        sources.add("program", text.clone());
    }
    let options = Options {
        dialect,
        ..Options::default()
    };
    let (Ok(program), _) = awk_syntax::load(sources, &options, &mut NoWorld) else {
        return Reading::unknown("its program is not understood");
    };
    let mut seen = Seen::new(&program);
    seen.everything();
    let lines = if seen.stays.is_some() {
        Err("it must stay whole".to_owned())
    } else {
        lines(&program, &seen, set)
    };
    Reading {
        stays: seen.stays,
        early: seen.exits || !reads_input(&program),
        lines,
        waits: reads_input(&program) && !seen.prints_records,
        ends: if seen.whole_lines && !set.contains(&&b"ORS"[..]) {
            Ends::Always
        } else {
            Ends::Unknown
        },
        names: seen.names,
        shares: independence::plan(&program).is_ok(),
    }
}

/// Whether it has rules for records, or END.
fn reads_input(program: &Resolved) -> bool {
    let mut rules = program.rules.iter();
    rules.any(|rule| !matches!(rule.pattern, Pattern::Begin))
}

/// How outputs for parts of the input are put together.
fn lines(program: &Resolved, seen: &Seen<'_>, set: &[&[u8]]) -> Result<Together, String> {
    let no = |why: &str| Err(why.to_owned());
    if seen.names {
        return no("it asks for the names of files");
    }
    if seen.records_otherwise
        || set
            .iter()
            .any(|name| [&b"RS"[..], b"NR", b"FNR"].contains(name))
    {
        return no("its records are not lines, or numbered anew");
    }
    if seen.begins_loudly {
        return no("BEGIN prints or reads");
    }
    let mut ends = Vec::new();
    let mut has_records = false;
    for rule in &program.rules {
        match rule.pattern {
            Pattern::End => ends.extend(rule.body.iter().flatten()),
            Pattern::Begin => {}
            _ => has_records = true,
        }
    }
    let plan = if has_records {
        let reason = |reasons: Vec<independence::Reason>| reasons[0].what.clone();
        independence::plan(program).map_err(reason)?
    } else {
        independence::Plan::default()
    };
    if plan.counts_records {
        return no("it asks for the number of a record");
    }
    if seen.random {
        return no("it uses random numbers");
    }
    if ends.is_empty() && !has_records {
        return no("it reads no input");
    }
    if ends.is_empty() {
        return Ok(Together::As(Combine::Concat));
    }
    if plan.prints {
        return no("it prints both for records and at the end");
    }
    if seen.changes_separators || [&b"OFS"[..], b"ORS"].iter().any(|name| set.contains(name)) {
        return no("it changes what stands between fields or behind records");
    }
    let counts = |e: &Expr| counts_up(program, &plan, seen, set, e);
    if ends.iter().all(|statement| match &statement.kind {
        StmtKind::Print {
            printf: false,
            args,
            to: None,
            ..
        } => match args.as_slice() {
            [printed] => counts(printed),
            _ => false,
        },
        _ => false,
    }) {
        return Ok(Together::As(Combine::Sum));
    }
    if let Some(lines) = sums(program, &plan, seen, set, &ends) {
        return Ok(Together::Sums(lines));
    }
    match ends.as_slice() {
        [statement] => match by_key(program, &plan, seen, statement) {
            Some(key_first) => Ok(Together::Counts { key_first }),
            None => no("what END prints is no count"),
        },
        _ => no("what END prints is no count"),
    }
}

/// Whether END prints a number that is counted up by whole numbers, and nothing else: `n`, `n + 0`, `NR`.
fn counts_up(
    program: &Resolved,
    plan: &independence::Plan,
    seen: &Seen<'_>,
    set: &[&[u8]],
    e: &Expr,
) -> bool {
    let e = e.ungrouped();
    if let ExprKind::Arith { first, rest } = &e.kind {
        return match rest.as_slice() {
            [(ArithOp::Add, zero)] if matches!(zero.kind, ExprKind::Num(0.0)) => {
                counts_up(program, plan, seen, set, first)
            }
            _ => false,
        };
    }
    let ExprKind::Var(name) = e.kind else {
        return false;
    };
    match program.place(name, None) {
        Place::Special(Special::NR) => true,
        Place::Global(n) => {
            plan.scalar(n) == Some(Merge::Sum)
                && seen.only_counts(name)
                && !is_set(program, set, name)
        }
        _ => false,
    }
}

/// The lines that END prints, if all of them are texts and sums.
fn sums(
    program: &Resolved,
    plan: &independence::Plan,
    seen: &Seen<'_>,
    set: &[&[u8]],
    ends: &[&Stmt],
) -> Option<Vec<Vec<SumColumn>>> {
    // They are to be told with all their digits, which is asked for by OFMT.
    if seen.formats
        || [&b"OFMT"[..], b"CONVFMT"]
            .iter()
            .any(|name| set.contains(name))
    {
        return None;
    }
    let column = |e: &Expr| match &e.ungrouped().kind {
        ExprKind::Str(text) if !text.contains(&b'\n') => Some(SumColumn::Text(text.clone())),
        ExprKind::Var(name) => match program.place(*name, None) {
            Place::Global(n)
                if plan.scalar(n) == Some(Merge::Sum)
                    && seen.only_adds(*name)
                    && !is_set(program, set, *name) =>
            {
                Some(SumColumn::Sum)
            }
            _ => None,
        },
        _ => None,
    };
    let line = |statement: &&Stmt| match &statement.kind {
        StmtKind::Print {
            printf: false,
            args,
            to: None,
            ..
        } if !args.is_empty() => args.iter().map(column).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    let lines: Vec<Vec<SumColumn>> = ends.iter().map(line).collect::<Option<_>>()?;
    let mut columns = lines.iter().flatten();
    columns
        .any(|column| *column == SumColumn::Sum)
        .then_some(lines)
}

fn is_set(program: &Resolved, set: &[&[u8]], name: Symbol) -> bool {
    set.contains(&program.names.text(name).as_bytes())
}

/// `for (k in n) print k, n[k]`, or the count first, where `n[$1]++` is all that happens to the array. The keys have no line ends
/// then, because records have none.
fn by_key(
    program: &Resolved,
    plan: &independence::Plan,
    seen: &Seen<'_>,
    statement: &Stmt,
) -> Option<bool> {
    let StmtKind::ForIn {
        var, array, body, ..
    } = &statement.kind
    else {
        return None;
    };
    let mut body = body.as_slice();
    while let [
        Stmt {
            kind: StmtKind::Block(inner),
            ..
        },
    ] = body
    {
        body = inner;
    }
    let [
        Stmt {
            kind:
                StmtKind::Print {
                    printf: false,
                    args,
                    to: None,
                    ..
                },
            ..
        },
    ] = body
    else {
        return None;
    };
    let Place::Global(number) = program.place(array.name, None) else {
        return None;
    };
    let summed = Some(MergeArray::Elements(Merge::Sum));
    if !array.path.is_empty()
        || plan.array(number) != summed
        || !seen.only_counts(array.name)
        || !seen.field_keys
    {
        return None;
    }
    let is_key = |e: &Expr| matches!(e.kind, ExprKind::Var(name) if name == *var);
    let is_count = |e: &Expr| match &e.kind {
        ExprKind::Index { array: of, subs } => {
            of.name == array.name && of.path.is_empty() && subs.len() == 1 && is_key(&subs[0])
        }
        _ => false,
    };
    match args.as_slice() {
        [key, count] if is_key(key) && is_count(count) => Some(true),
        [count, key] if is_key(key) && is_count(count) => Some(false),
        _ => None,
    }
}
