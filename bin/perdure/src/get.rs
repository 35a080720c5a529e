//! `perdure get`: one value out of a heap.

use crate::exit::Exit;
use crate::expression::{self, Expression};
use crate::vars::{FUNCTIONS, GLOBALS};
use crate::{HeapArgs, Negative, Out, output_error, text};
use anyhow::Result;
use clap::Args;
use heap::{Cell, Heap, Slot, Table};
use std::io::Write;

#[derive(Args)]
pub struct GetArgs {
    #[command(flatten)]
    pub heap: HeapArgs,
    /// What to print: 'total', 'freq["river"]', 'm["a","b"]'; the name of an array prints all its elements, a key, a tab and
    /// a value a line, in order of insertion; that of a function its text
    pub expression: String,
    /// Print strings as they are, without quotes and escapes
    #[arg(long)]
    pub raw: bool,
}

pub fn run(args: &GetArgs, out: &mut Out) -> Result<Exit> {
    let wanted = expression::parse(&args.expression)?;
    let heap = crate::open(&args.heap.heap, args.heap.trust, heap::Verify::Small)?;
    let shown = args.heap.heap.display().to_string();
    if let Some(slot) = find(&heap, &wanted, &shown)? {
        match heap.cell(slot)? {
            Cell::Table(table) => print_array(&heap, table, args.raw, out)?,
            cell => {
                let mut line = Vec::new();
                push(&mut line, cell, args.raw);
                line.push(b'\n');
                out.write_all(&line)?;
            }
        }
        return Ok(Exit::Ok);
    }
    let name = String::from_utf8_lossy(&wanted.name).into_owned();
    if !wanted.is_root
        && let Some(table) = root(&heap, FUNCTIONS)?
        && let Some(slot) = heap.find(table, &wanted.name)?
        && let Cell::Str { bytes, .. } = heap.cell(slot)?
    {
        if !wanted.keys.is_empty() {
            return Err(Negative(format!(
                "heap \"{shown}\": {name} is no array: it is a function; \"perdure get {shown} {name}\" prints its text"
            ))
            .into());
        }
        out.write_all(bytes)?;
        if bytes.last() != Some(&b'\n') {
            out.write_all(b"\n")?;
        }
        return Ok(Exit::Ok);
    }
    let what = if wanted.is_root {
        "root"
    } else {
        "variable or function"
    };
    Err(Negative(format!(
        "heap \"{shown}\": there is no {what} named {name}; \"perdure vars {shown}\" lists what there is"
    ))
    .into())
}

/// The table of a root, if there is one.
fn root(heap: &Heap, name: &[u8]) -> Result<Option<Table>> {
    match heap.find(heap.roots()?, name)? {
        Some(slot) => match heap.cell(slot)? {
            Cell::Table(table) => Ok(Some(table)),
            _ => Ok(None),
        },
        None => Ok(None),
    }
}

/// The cell that is meant; none if there is no such name. An element that is missing is an error of its own.
fn find(heap: &Heap, wanted: &Expression, shown: &str) -> Result<Option<Slot>> {
    let names = if wanted.is_root {
        Some(heap.roots()?)
    } else {
        root(heap, GLOBALS)?
    };
    let Some(names) = names else { return Ok(None) };
    let Some(mut slot) = heap.find(names, &wanted.name)? else {
        return Ok(None);
    };
    let mut path = wanted.name.clone();
    for key in &wanted.keys {
        let Cell::Table(table) = heap.cell(slot)? else {
            let path = String::from_utf8_lossy(&path).into_owned();
            return Err(Negative(format!(
                "heap \"{shown}\": {path} is no array: it is a {}",
                text::kind(heap.cell(slot)?)
            ))
            .into());
        };
        path.push(b'[');
        text::push_subscript(&mut path, key);
        path.push(b']');
        slot = heap.find(table, key)?.ok_or_else(|| {
            let path = String::from_utf8_lossy(&path).into_owned();
            Negative(format!("heap \"{shown}\": there is no element {path}"))
        })?;
    }
    Ok(Some(slot))
}

fn print_array(heap: &Heap, table: Table, raw: bool, out: &mut Out) -> Result<()> {
    let mut line = Vec::new();
    heap.for_each(table, &mut |key, cell| {
        line.clear();
        push(
            &mut line,
            Cell::Str {
                bytes: key,
                maybe_num: false,
            },
            raw,
        );
        line.push(b'\t');
        push(&mut line, cell, raw);
        if let Cell::Table(inner) = cell {
            let count = heap.table_len(inner)?;
            let s = if count == 1 { "" } else { "s" };
            let _ = write!(line, "(an array of {count} element{s})");
        }
        line.push(b'\n');
        out.write_all(&line).map_err(output_error)
    })?;
    Ok(())
}

fn push(line: &mut Vec<u8>, cell: Cell<'_>, raw: bool) {
    match cell {
        Cell::Str { bytes, .. } if raw => line.extend_from_slice(bytes),
        // As a program prints it.
        Cell::Num(0.0) | Cell::Other(b"F-0p0") => line.push(b'0'),
        cell => text::push_value(line, cell),
    }
}
