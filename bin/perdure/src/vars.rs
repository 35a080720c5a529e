//! `perdure vars`: what the heap holds, one line each; and the names that `get` and `dump` share with it.

use crate::exit::Exit;
use crate::text;
use crate::{HeapArgs, Out};
use anyhow::Result;
use heap::{Cell, Heap, Slot, Table};
use std::collections::HashSet;
use std::io::Write;

/// Root of AWK's global variables: name to scalar or table.
pub const GLOBALS: &[u8] = b"awk.globals";
/// Root of AWK's functions: name to the text of the definition.
pub const FUNCTIONS: &[u8] = b"awk.functions";

/// Bytes of a table's entry, which a scalar takes at least.
const ENTRY_BYTES: u64 = 32;

/// The names in a table, in the order of their bytes, each with its cell.
///
/// # Errors
/// Damage that hides the names; a single name that cannot be read is left out, and `check` tells of it.
pub fn names(heap: &Heap, table: Table) -> heap::Result<Vec<(Vec<u8>, Slot)>> {
    let mut names = Vec::new();
    let mut left = heap.end_bytes();
    let too_long = || {
        let what = "names that are longer together than the heap has room for";
        heap::Error::damaged("names", table.offset(), what)
    };
    let mut elements = heap.elements(table)?;
    while let Some(element) = heap.next_element(&mut elements)? {
        let Ok((name, _)) = element else {
            continue;
        };
        // Names that share their text: only damage makes them, and it could claim any amount.
        left = left.checked_sub(name.len() as u64).ok_or_else(too_long)?;
        names.push(name.to_vec());
    }
    names.sort_unstable();
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        if let Some(slot) = heap.find(table, &name)? {
            found.push((name, slot));
        }
    }
    Ok(found)
}

/// A row of the listing.
struct Row {
    name: String,
    kind: &'static str,
    count: String,
    bytes: String,
}

pub fn run(args: &HeapArgs, out: &mut Out) -> Result<Exit> {
    let heap = crate::open(&args.heap, args.trust, heap::Verify::Small)?;
    let mut rows = Vec::new();
    for (root, slot) in names(&heap, heap.roots()?)? {
        let Cell::Table(table) = heap.cell(slot)? else {
            continue;
        };
        if root != GLOBALS && root != FUNCTIONS {
            let mut shown = Vec::new();
            text::push_quoted(&mut shown, &root);
            rows.push(row(&heap, &shown, Cell::Table(table), "root")?);
            continue;
        }
        for (name, slot) in names(&heap, table)? {
            let cell = heap.cell(slot)?;
            let kind = if root == FUNCTIONS {
                "function"
            } else {
                text::kind(cell)
            };
            let mut shown = Vec::new();
            text::push_escaped(&mut shown, &name, b"");
            rows.push(row(&heap, &shown, cell, kind)?);
        }
    }
    let name_width = rows
        .iter()
        .map(|r| r.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    writeln!(
        out,
        "{:name_width$}  {:13}  {:>12}  {:>14}",
        "name", "kind", "count", "bytes"
    )?;
    for row in rows {
        writeln!(
            out,
            "{:name_width$}  {:13}  {:>12}  {:>14}",
            row.name, row.kind, row.count, row.bytes
        )?;
    }
    Ok(Exit::Ok)
}

/// The bytes of an array and of all arrays in it.
fn bytes_of(heap: &Heap, table: Table) -> heap::Result<u64> {
    let mut total = 0u64;
    // By a list and not by recursion: depth is the data's choice. An array that is met again is damage, and counted once.
    let mut waiting = vec![table];
    let mut seen = HashSet::from([table.offset()]);
    while let Some(table) = waiting.pop() {
        total = total.saturating_add(heap.table_bytes(table)?);
        heap.for_each(table, &mut |_, cell| {
            if let Cell::Table(inner) = cell
                && seen.insert(inner.offset())
            {
                waiting.push(inner);
            }
            Ok(())
        })?;
    }
    Ok(total)
}

fn row(heap: &Heap, name: &[u8], cell: Cell<'_>, kind: &'static str) -> Result<Row> {
    let (count, bytes) = match cell {
        Cell::Table(table) => (heap.table_len(table)?.to_string(), bytes_of(heap, table)?),
        Cell::Str { bytes, .. } | Cell::Other(bytes) if bytes.len() > 15 => {
            ("-".into(), ENTRY_BYTES + bytes.len() as u64)
        }
        _ => ("-".into(), ENTRY_BYTES),
    };
    Ok(Row {
        name: String::from_utf8_lossy(name).into_owned(),
        kind,
        count,
        bytes: bytes.to_string(),
    })
}
