//! `perdure dump`: everything in a heap as text, one element per line, for people and for diff.
//!
//! The order is always the same for the same heap: functions, variables and other roots by name, elements as they were
//! inserted (so that nothing is held in memory). The lines of variables are AWK statements; a comment tells what AWK's
//! syntax cannot. Each is whole by itself, so `| sort` compares heaps whose elements came in another order.
//!
//! The invariant: the walk ends and prints no more elements and text than the heap has room for, whatever a damaged heap's
//! bytes say. How deep arrays lie in arrays is the data's choice, so nothing recurses.

use crate::exit::Exit;
use crate::text;
use crate::vars::{self, FUNCTIONS, GLOBALS};
use crate::{HeapArgs, Negative, Out, output_error};
use anyhow::Result;
use heap::{Cell, Elements, ErrorKind, Heap, Table};
use std::collections::HashSet;
use std::io::Write;

pub fn run(args: &HeapArgs, out: &mut Out) -> Result<Exit> {
    let heap = crate::open(&args.heap, args.trust, heap::Verify::No)?;
    let mut dump = Dump {
        heap: &heap,
        out,
        path: Vec::new(),
        line: Vec::new(),
        problems: 0,
        budget: heap.end_bytes(),
        is_bottomless: false,
    };
    let done = dump.roots();
    if dump.is_bottomless {
        return Err(Negative(format!(
            "heap \"{0}\": damaged: it refers to more data than it has room for (arrays that contain themselves?), so the dump \
             ends here; \"perdure check {0}\" tells more",
            args.heap.display()
        ))
        .into());
    }
    dump.settle(done)?;
    let problems = dump.problems;
    if problems == 0 {
        return Ok(Exit::Ok);
    }
    out.flush()?;
    eprintln!(
        "perdure: heap \"{0}\": damaged in {problems} place(s), marked \"# damaged\" above; the rest is whole; \
         \"perdure check {0}\" tells more",
        args.heap.display()
    );
    Ok(Exit::Negative)
}

struct Dump<'a> {
    heap: &'a Heap,
    out: &'a mut Out,
    /// `name` or `name["key"]` of what is being printed.
    path: Vec<u8>,
    line: Vec<u8>,
    problems: u64,
    /// No sound heap has more text and entries than it has bytes; tables that contain themselves would.
    budget: u64,
    /// It is used up.
    is_bottomless: bool,
}

/// An array that is being printed.
struct Open {
    table: Table,
    elements: Elements,
    /// Of its own name.
    path_len: usize,
}

impl Dump<'_> {
    fn roots(&mut self) -> heap::Result<()> {
        let roots = vars::names(self.heap, self.heap.roots()?)?;
        let table_of = |wanted: &[u8]| -> heap::Result<Option<Table>> {
            match roots.iter().find(|(name, _)| name == wanted) {
                Some((_, slot)) => match self.heap.cell(*slot)? {
                    Cell::Table(table) => Ok(Some(table)),
                    _ => Ok(None),
                },
                None => Ok(None),
            }
        };
        let (functions, globals) = (table_of(FUNCTIONS), table_of(GLOBALS));
        let done = functions.and_then(|table| table.map_or(Ok(()), |t| self.functions(t)));
        self.settle(done)?;
        let done = globals.and_then(|table| table.map_or(Ok(()), |t| self.variables(t)));
        self.settle(done)?;
        for (name, slot) in &roots {
            if name != FUNCTIONS && name != GLOBALS {
                self.path.clear();
                text::push_quoted(&mut self.path, name);
                let done = self.heap.cell(*slot).and_then(|cell| self.value(cell));
                self.settle(done)?;
            }
        }
        Ok(())
    }

    fn functions(&mut self, table: Table) -> heap::Result<()> {
        for (name, slot) in vars::names(self.heap, table)? {
            self.path = name;
            match self.heap.cell(slot) {
                Ok(Cell::Str { bytes, .. }) => {
                    self.line.clear();
                    // As it is, but for bytes that no text has.
                    text::push_escaped(&mut self.line, bytes, b"\"\\\t\n");
                    self.line.push(b'\n');
                    self.out.write_all(&self.line).map_err(output_error)?;
                }
                Ok(_) => self.note("what should be a function's text is none")?,
                Err(error) => self.settle(Err(error))?,
            }
        }
        Ok(())
    }

    fn variables(&mut self, table: Table) -> heap::Result<()> {
        for (name, slot) in vars::names(self.heap, table)? {
            self.path.clear();
            text::push_escaped(&mut self.path, &name, b"");
            let done = self.heap.cell(slot).and_then(|cell| self.value(cell));
            self.settle(done)?;
        }
        Ok(())
    }

    /// The lines of one value, whose name is in `path`, and of all that is in it.
    fn value(&mut self, cell: Cell<'_>) -> heap::Result<()> {
        let heap = self.heap;
        let mut open: Vec<Open> = Vec::new();
        // The tables of `open`: one that is met again contains itself.
        let mut around = HashSet::new();
        open.extend(self.begin(cell, &mut around)?);
        while let Some(array) = open.last_mut() {
            self.path.truncate(array.path_len);
            let table = array.table;
            let (begun, is_over) = match heap.next_element(&mut array.elements) {
                Ok(Some(element)) => {
                    let begun = element.and_then(|(key, cell)| {
                        self.path.push(b'[');
                        text::push_subscript(&mut self.path, key);
                        self.path.push(b']');
                        self.spend(if key.len() > 15 { key.len() as u64 } else { 0 })?;
                        self.begin(cell, &mut around)
                    });
                    (begun, false)
                }
                Ok(None) => (Ok(None), true),
                Err(error) => (Err(error), true),
            };
            if is_over {
                around.remove(&table.offset());
                open.pop();
            }
            match begun {
                Ok(inner) => open.extend(inner),
                Err(error) => self.settle(Err(error))?,
            }
        }
        Ok(())
    }

    /// The line of a value, or the array that it is, whose elements come next.
    fn begin(&mut self, cell: Cell<'_>, around: &mut HashSet<u64>) -> heap::Result<Option<Open>> {
        let cost = match cell {
            Cell::Str { bytes, .. } | Cell::Other(bytes) if bytes.len() > 15 => bytes.len() as u64,
            _ => 0,
        };
        self.spend(32 + cost)?;
        self.line.clear();
        self.line.extend_from_slice(&self.path);
        match cell {
            Cell::Table(table) if self.heap.table_len(table)? > 0 => {
                let elements = self.heap.elements(table)?;
                if !around.insert(table.offset()) {
                    self.note("an array that contains itself")?;
                    return Ok(None);
                }
                return Ok(Some(Open {
                    table,
                    elements,
                    path_len: self.path.len(),
                }));
            }
            Cell::Table(_) => {
                self.line.clear();
                self.line.extend_from_slice(b"split(\"\", ");
                self.line.extend_from_slice(&self.path);
                self.line.extend_from_slice(b")  # an empty array");
            }
            cell if text::kind(cell) == "unknown" => {
                self.line
                    .extend_from_slice(b"  # a value that this program does not know: ");
                text::push_value(&mut self.line, cell);
            }
            cell if text::kind(cell) == text::UNINITIALIZED => {
                self.line.extend_from_slice(b"  # uninitialized")
            }
            cell => {
                self.line.extend_from_slice(b" = ");
                text::push_constant(&mut self.line, cell);
                if text::kind(cell) == "strnum" {
                    self.line.extend_from_slice(b"  # strnum");
                }
            }
        }
        self.line.push(b'\n');
        self.out.write_all(&self.line).map_err(output_error)?;
        Ok(None)
    }

    fn spend(&mut self, bytes: u64) -> heap::Result<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                self.is_bottomless = true; // and an error that `settle` does not absorb
                Err(output_error(std::io::Error::other("too much")))
            }
        }
    }

    /// Damage becomes a line of the dump, and the dump goes on; anything else ends it.
    fn settle(&mut self, done: heap::Result<()>) -> heap::Result<()> {
        match done {
            Err(error) => match error.kind() {
                ErrorKind::Damaged { offset, what, .. } => {
                    let note = format!("at offset {offset}: {what}");
                    self.note(&note)
                }
                _ => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }

    fn note(&mut self, what: &str) -> heap::Result<()> {
        self.problems += 1;
        let path = String::from_utf8_lossy(&self.path).into_owned();
        writeln!(self.out, "# damaged: {path}: {what}").map_err(output_error)
    }
}
