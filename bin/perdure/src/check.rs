//! `perdure check`: looks for damage, says what can be saved, and goes on without a lost journal when asked to.

use crate::exit::Exit;
use crate::text;
use crate::vars::{self, FUNCTIONS, GLOBALS};
use crate::{CannotOpen, HeapArgs, Out};
use anyhow::Result;
use clap::Args;
use heap::{Cell, Durability, ErrorKind, Heap, Options, Report, Table, Verify, journal_path};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub heap: HeapArgs,
    /// If the heap cannot be opened with its journal: go on without it, giving up the commits that only the journal has.
    /// The old journal is kept as HEAP.journal.orphan
    #[arg(long)]
    pub discard_journal: bool,
    /// If pages do not hold their sums, but all objects agree: take the bytes as they are from now on. Writes damaged copies of
    /// the superblock, and sums that are missing, anew
    #[arg(long, conflicts_with = "discard_journal")]
    pub accept: bool,
    /// With --discard-journal and --accept: how long to wait for a writer
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub lock_timeout: u64,
}

pub fn run(args: &CheckArgs, out: &mut Out) -> Result<Exit> {
    let path = args.heap.heap.as_path();
    let options = Options {
        trust: args.heap.trust,
        verify: Verify::Report,
        ..Options::snapshot()
    };
    let heap = match Heap::open(path, options) {
        Ok(heap) => heap,
        Err(error) if args.discard_journal && is_worth_discarding(&error) => {
            match error.kind() {
                // Its text ends with the advice to do what is being done.
                ErrorKind::JournalMissing { journal, .. } => {
                    writeln!(out, "\"{journal}\" is missing.")?;
                }
                ErrorKind::JournalForeign { journal, .. } => {
                    writeln!(
                        out,
                        "\"{journal}\" is another heap's, or no journal at all."
                    )?;
                }
                ErrorKind::JournalCut { journal, bytes, .. } => {
                    writeln!(out, "\"{journal}\" was cut to {bytes} bytes.")?;
                }
                _ => writeln!(out, "{error}")?,
            }
            return discard(args, out);
        }
        Err(error) => {
            eprintln!("perdure: {error}");
            explain(path, &error, out)?;
            return Ok(Exit::File);
        }
    };
    let report = heap.check()?;
    print_report(&report, out)?;
    let is_weak = !report.weaknesses.is_empty();
    let has_gaps = report.pages_compared < report.pages;
    if report.is_clean() && (is_weak || has_gaps) && args.accept {
        drop(heap);
        return accept(args, out);
    }
    if report.is_clean() && is_weak {
        writeln!(
            out,
            "\nWhat to do next: \"perdure check --accept {}\" writes what is missing anew. Nothing was changed.",
            path.display()
        )?;
        return Ok(Exit::Negative);
    }
    if report.is_clean() {
        if args.discard_journal {
            writeln!(
                out,
                "it opens with its journal, which may hold its last commits: nothing was discarded"
            )?;
        }
        return Ok(Exit::Ok);
    }
    let only_pages = report.problem_count == report.unsound_pages;
    if only_pages && args.accept {
        drop(heap);
        return accept(args, out);
    }
    print_readable(&heap, out)?;
    let shown = path.display();
    if only_pages {
        writeln!(
            out,
            "\nAll objects agree, so what changed is a value, a text, or unused space (or {shown}.sums itself). \
             If you take the bytes as they are, say \"perdure check --accept {shown}\"; but first:"
        )?;
    }
    writeln!(
        out,
        "\nWhat to do next: put a copy of {shown}, its journal and its sums, made together, back in place; or, without one, save what is \
         listed above with \"perdure dump {shown} > FILE\". Nothing was changed."
    )?;
    Ok(Exit::Negative)
}

fn print_report(report: &Report, out: &mut Out) -> Result<()> {
    writeln!(
        out,
        "{} tables, {} elements, {} blocks of {}",
        report.tables,
        report.elements,
        report.blocks,
        text::size(report.block_bytes)
    )?;
    if report.program_blocks > 0 {
        writeln!(
            out,
            "{} of these blocks, {}, are a program's: what refers to them only it knows",
            report.program_blocks,
            text::size(report.program_bytes)
        )?;
    }
    if report.pages_compared < report.pages {
        writeln!(
            out,
            "{} of {} pages have a sum, and were compared with it (space given back has none; --accept notes all anew)",
            report.pages_compared, report.pages
        )?;
    }
    if !report.weaknesses.is_empty() {
        writeln!(
            out,
            "weakened: the next damage may lose data, or not be found"
        )?;
        for weakness in &report.weaknesses {
            writeln!(out, "  offset {}: {}", weakness.offset, weakness.what)?;
        }
    }
    if report.is_clean() {
        let verdict = if report.weaknesses.is_empty() {
            "no damage"
        } else {
            "no damage to the data"
        };
        writeln!(
            out,
            "{verdict}: what the allocator handed out and what the data uses agree"
        )?;
        return Ok(());
    }
    writeln!(out, "damaged: {} problem(s)", report.problem_count)?;
    for problem in &report.problems {
        writeln!(out, "  offset {}: {}", problem.offset, problem.what)?;
    }
    let unlisted = report.problem_count - report.problems.len() as u64;
    if unlisted > 0 {
        writeln!(out, "  and {unlisted} more")?;
    }
    Ok(())
}

/// What a dump would give, name by name.
fn print_readable(heap: &Heap, out: &mut Out) -> Result<()> {
    writeln!(out, "\nWhat can be read:")?;
    let mut lines = 0;
    let roots = match heap.roots().and_then(|roots| vars::names(heap, roots)) {
        Ok(roots) => roots,
        Err(error) => {
            writeln!(
                out,
                "  nothing: the list of names is damaged ({})",
                what_of(&error)
            )?;
            return Ok(());
        }
    };
    for (root, slot) in roots {
        let mut tables = Vec::new();
        match heap.cell(slot) {
            Ok(Cell::Table(table)) if root == GLOBALS || root == FUNCTIONS => {
                match vars::names(heap, table) {
                    Ok(names) => tables.extend(names),
                    Err(error) => {
                        let root = String::from_utf8_lossy(&root);
                        writeln!(
                            out,
                            "  {root}: its list of names is damaged ({})",
                            what_of(&error)
                        )?;
                    }
                }
            }
            _ => tables.push((root, slot)),
        }
        for (name, slot) in tables {
            lines += 1;
            let mut shown = Vec::new();
            text::push_escaped(&mut shown, &name, b"");
            let name = String::from_utf8_lossy(&shown);
            match heap.cell(slot) {
                Ok(Cell::Table(table)) => {
                    writeln!(out, "  {name}: {}", readable_elements(heap, table))?;
                }
                Ok(_) => writeln!(out, "  {name}: whole")?,
                Err(error) => writeln!(out, "  {name}: damaged ({})", what_of(&error))?,
            }
        }
    }
    if lines == 0 {
        writeln!(out, "  there are no names")?;
    }
    Ok(())
}

fn readable_elements(heap: &Heap, table: Table) -> String {
    let noted = heap.table_len(table);
    let (mut good, mut bad) = (0u64, 0u64);
    let mut walk = || -> heap::Result<()> {
        let mut elements = heap.elements(table)?;
        while let Some(element) = heap.next_element(&mut elements)? {
            *(if element.is_ok() { &mut good } else { &mut bad }) += 1;
        }
        Ok(())
    };
    let walked = walk();
    let mut text = match noted {
        Ok(noted) => format!("{good} of {noted} elements"),
        Err(_) => format!("{good} elements"),
    };
    if bad > 0 {
        text += &format!(", {bad} damaged");
    }
    if let Err(error) = walked {
        text += &format!(", then the array is damaged ({})", what_of(&error));
    }
    text
}

fn what_of(error: &heap::Error) -> String {
    match error.kind() {
        ErrorKind::Damaged { offset, what, .. } => format!("at offset {offset}: {what}"),
        _ => error.to_string(),
    }
}

/// Whether the heap might open without its journal.
fn is_worth_discarding(error: &heap::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::JournalMissing { .. }
            | ErrorKind::JournalForeign { .. }
            | ErrorKind::JournalCut { .. }
            | ErrorKind::Damaged { .. }
    )
}

/// What can be done about a heap that does not open.
fn explain(path: &Path, error: &heap::Error, out: &mut Out) -> Result<()> {
    let heap = path.display();
    let journal = journal_path(path);
    let journal = journal.display();
    let advice = match error.kind() {
        ErrorKind::Damaged { .. } => format!(
            "The file is a heap, but it cannot be opened, so nothing of it can be read as it is. What to do next, in this order:\n\
             1. copy {heap} and {journal} to a safe place;\n\
             2. if there is an older copy of both, made together, put both back;\n\
             3. else run \"perdure check --discard-journal {heap}\": it tries what the heap file holds without its journal."
        ),
        ErrorKind::JournalMissing { .. }
        | ErrorKind::JournalForeign { .. }
        | ErrorKind::JournalCut { .. } => format!(
            "The heap file itself may be whole. What to do next:\n\
             1. look for {journal}: was the heap moved, copied or renamed without it? Put it back under that name;\n\
             2. if it is lost, run \"perdure check --discard-journal {heap}\": it goes on with what the heap file holds without it. \
             After a run that ended normally that is usually everything."
        ),
        ErrorKind::NotAHeap { .. } => {
            "Nothing was changed. If a heap was expected here, look whether the name is right."
                .into()
        }
        ErrorKind::Version { .. } => "The file is probably whole: nothing was changed.".into(),
        ErrorKind::Untrusted { .. } => format!(
            "The file may be whole. \"ls -l {heap}\" shows who may write it; \"perdure check --trust {heap}\" checks it all the same."
        ),
        _ => return Ok(()), // the message says it all
    };
    writeln!(out, "{advice}")?;
    Ok(())
}

/// Notes the sums of all pages anew.
fn accept(args: &CheckArgs, out: &mut Out) -> Result<Exit> {
    let options = Options {
        create: false,
        trust: args.heap.trust,
        verify: Verify::No,
        lock_timeout: Duration::from_secs(args.lock_timeout),
        ..Options::writer()
    };
    let mut heap = Heap::open(&args.heap.heap, options).map_err(CannotOpen)?;
    let done = heap.reseal().map_err(CannotOpen)?;
    heap.close(Durability::Durable).map_err(CannotOpen)?;
    if !done {
        writeln!(
            out,
            "A reader keeps an earlier commit: nothing was changed. Try again when it has ended."
        )?;
        return Ok(Exit::Negative);
    }
    writeln!(out, "The bytes are taken as they are from now on.")?;
    Ok(Exit::Ok)
}

/// Opens the heap without its journal, and keeps that state if it is sound.
fn discard(args: &CheckArgs, out: &mut Out) -> Result<Exit> {
    let path = args.heap.heap.as_path();
    let journal = journal_path(path);
    writeln!(
        out,
        "Going on without the journal: commits that only the journal had are given up. If there is a {0}, it is kept as {0}.orphan.",
        journal.display()
    )?;
    out.flush()?;
    let options = Options {
        create: false,
        trust: args.heap.trust,
        discard_journal: true,
        lock_timeout: Duration::from_secs(args.lock_timeout),
        verify: Verify::No,
        ..Options::writer()
    };
    let mut heap = match Heap::open(path, options) {
        Ok(heap) => heap,
        Err(error) => {
            eprintln!("perdure: {error}");
            writeln!(
                out,
                "The heap file does not open without its journal either. Only a copy of both files, made together, brings it back."
            )?;
            return Ok(Exit::File);
        }
    };
    let report = heap.check()?;
    print_report(&report, out)?;
    if !report.is_clean() {
        print_readable(&heap, out)?;
    }
    // Damaged or not: committed, it can be read, and dumped, without its journal.
    heap.commit(Durability::Durable).map_err(CannotOpen)?;
    if report.is_clean() {
        heap.reseal().map_err(CannotOpen)?; // the sums went by the journal
    }
    heap.close(Durability::Durable).map_err(CannotOpen)?;
    if !report.is_clean() {
        writeln!(
            out,
            "\nThe heap opens now, but is not sound: save what is listed above with \"perdure dump {} > FILE\", and do not go on \
             writing to it.",
            path.display()
        )?;
        return Ok(Exit::Negative);
    }
    writeln!(
        out,
        "The heap is sound and can be used again; \"perdure vars {}\" shows what is in it.",
        path.display()
    )?;
    Ok(Exit::Ok)
}
