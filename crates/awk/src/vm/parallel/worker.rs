//! One of the other processes: it begins with what BEGIN left, but for what it is to make itself, reads its stretch, and leaves
//! what became of the variables and what it printed.
//!
//! Invariant: it writes nothing but that. It has no heap file and no messages of its own: where one would be due it
//! ends, and the first process reads the stretch.

use std::fs::File;
use std::io::{self, Write};
use std::rc::Rc;

use awk_syntax::independence::{Merge, MergeArray};
use awk_syntax::names::Special;
use rustix::process::Signal;

use super::stretches::{self, Place, Stretch};
use super::{State, Vm, wire};
use heap::{Cell, Table};

use crate::code::Arr;
use crate::error::{Fatal, Step as Result};
use crate::records::Separator;
use crate::value::{ArrayRef, Value};

/// Why a process ended without handing anything over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(super) enum GaveUp {
    /// An error or a warning was due, or it was killed.
    Trouble = 1,
    /// Something that is no whole number was added, or the sums became too large to be exact.
    Fraction = 3,
    /// Something that is no number was compared.
    Text = 4,
}

impl GaveUp {
    pub(super) fn status(self) -> i32 {
        self as i32
    }

    pub(super) fn from_status(status: Option<i32>) -> GaveUp {
        match status {
            Some(3) => GaveUp::Fraction,
            Some(4) => GaveUp::Text,
            _ => GaveUp::Trouble,
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            GaveUp::Trouble => "there is something to be told, and that in the order of the input",
            GaveUp::Fraction => {
                "what is added is not a whole number: the sum depends on the order in which it is rounded"
            }
            GaveUp::Text => {
                "what is compared is not a number: text and numbers have no order among each other"
            }
        }
    }
}

/// Its work.
pub(super) struct Work {
    pub(super) stretch: Stretch,
    pub(super) gave_up: GaveUp,
    left: File,
    /// NR when it began.
    nr: f64,
    /// Elements that arrays of the plan had then.
    lens: Vec<u64>,
}

/// Where it leaves things.
pub(super) struct Shelves {
    /// What became of the variables.
    pub(super) left: File,
    /// What it prints.
    pub(super) printed: File,
}

impl Shelves {
    pub(super) fn new() -> io::Result<Shelves> {
        Ok(Shelves {
            left: wire::shelf()?,
            printed: wire::shelf()?,
        })
    }
}

/// What is printed waits in memory for its turn: this much and no more.
const PRINTED_BYTES_MAX: u64 = 256 << 20;

/// A file with room for so many bytes.
struct Room {
    file: File,
    bytes: u64,
}

impl Write for Room {
    fn write(&mut self, block: &[u8]) -> io::Result<usize> {
        self.bytes = self
            .bytes
            .checked_sub(block.len() as u64)
            .ok_or(io::ErrorKind::StorageFull)?;
        self.file.write_all(block)?;
        Ok(block.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a scalar holds until a record assigns it: no program can.
fn nothing_yet() -> Value {
    Value::Array(ArrayRef {
        table: Table::from_offset(0),
        scratch: true,
        owned: false,
    })
}

/// The same for all of an array: its only element.
const NOTHING_YET: (&[u8], Cell<'static>) = (b"", Cell::Other(b"\0"));

impl Vm<'_> {
    /// The process becomes one that reads `stretch`.
    pub(super) fn become_worker(
        &mut self,
        here: Place,
        stretch: Stretch,
        shelves: Shelves,
    ) -> Result<()> {
        let Some(parallel) = &mut self.parallel else {
            return Ok(());
        };
        let plan = Rc::clone(&parallel.plan);
        parallel.volume = 0.0;
        parallel.state = State::Working(Work {
            stretch,
            gave_up: GaveUp::Trouble,
            left: shelves.left,
            nr: 0.0,
            lens: Vec::new(),
        });
        let leave = parallel.leave;
        self.input.warn = Box::new(move |_| leave(GaveUp::Trouble.status()));
        // Not even what the allocator or a panic has to say.
        let nowhere = File::options().write(true).open("/dev/null");
        let quiet = nowhere.and_then(|nowhere| Ok(rustix::stdio::dup2_stderr(nowhere)?));
        if quiet.is_err() {
            leave(GaveUp::Trouble.status());
        }
        // Nobody would take over what it makes.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
        self.streams.print_to(Box::new(Room {
            file: shelves.printed,
            bytes: PRINTED_BYTES_MAX,
        }));
        for (n, merge) in &plan.scalars {
            let value = &mut self.globals[*n as usize];
            match merge {
                Merge::Sum | Merge::Append => *value = Value::Uninit,
                Merge::Last | Merge::Follow(_) => *value = nothing_yet(),
                Merge::Extreme { .. } => {}
            }
        }
        let mut lens = Vec::new();
        for (n, merge) in &plan.arrays {
            if *merge != MergeArray::Made {
                self.store.make_apart(*n)?;
            }
            let array = self.store.global_array(Arr(*n), &self.code.globals)?;
            if *merge == MergeArray::Whole {
                let heap = self.store.heap_of(array)?;
                let slot = heap.entry(array.table, NOTHING_YET.0)?;
                heap.cell_set(slot, NOTHING_YET.1)?;
            }
            lens.push(self.store.heap_of(array)?.table_len(array.table)?);
        }
        self.element = Default::default();
        if plan.matches {
            for s in [Special::RSTART, Special::RLENGTH] {
                self.settings.set(s, Value::Num(f64::NAN))?;
            }
        }
        if plan.counts_records {
            self.count_up_to(here, stretch.start)?;
        } else {
            self.settings.fnr = 0.0;
        }
        let before = self.settings.nr;
        if let Some(State::Working(work)) = self.parallel.as_mut().map(|p| &mut p.state) {
            work.nr = before;
            work.lens = lens;
        }
        self.open_at(stretch.start, Some(stretch.end))?;
        Ok(())
    }

    /// NR and FNR as they are where a stretch begins, from what they are where the first process has got to.
    fn count_up_to(&mut self, here: Place, start: Place) -> Result<()> {
        let Separator::Byte(separator) = *self.settings.separator else {
            return Err(Fatal::quit());
        };
        let files = self.files_to_read()?.map_err(Fatal::new)?;
        for operand in files {
            if operand.number < here.operand {
                continue;
            }
            if operand.number > start.operand {
                break;
            }
            let is_here = operand.number == here.operand;
            let from = if is_here { here.offset } else { 0 };
            let is_last = operand.number == start.operand;
            let to = if is_last { start.offset } else { operand.bytes };
            let count = operand
                .open()
                .and_then(|file| stretches::count_records(&file, separator, from, to))
                .map_err(|error| self.read_error(&error))?;
            self.settings.nr += count as f64;
            if is_last {
                let before = if from > 0 { self.settings.fnr } else { 0.0 };
                self.settings.fnr = before + count as f64;
            }
        }
        Ok(())
    }

    /// Leaves what became of the variables, and ends.
    pub(super) fn hand_over(&mut self) -> Fatal {
        let status = match self.leave_all() {
            Ok(true) => 0,
            _ => GaveUp::Trouble.status(),
        };
        match &self.parallel {
            Some(parallel) => (parallel.leave)(status),
            None => Fatal::quit(),
        }
    }

    fn leave_all(&mut self) -> Result<bool> {
        let Some(parallel) = &mut self.parallel else {
            return Ok(false);
        };
        let plan = Rc::clone(&parallel.plan);
        let volume = parallel.volume;
        let State::Working(work) = &mut parallel.state else {
            return Ok(false);
        };
        let lens = std::mem::take(&mut work.lens);
        let mut out = Vec::new();
        for n in [
            self.settings.nr - work.nr,
            self.settings.fnr,
            self.settings.argind,
            self.settings.rstart,
            self.settings.rlength,
            volume,
        ] {
            wire::put_f64(&mut out, n);
        }
        let unset = nothing_yet();
        for (n, merge) in &plan.scalars {
            let value = &self.globals[*n as usize];
            let is_set = match merge {
                Merge::Sum | Merge::Append | Merge::Extreme { .. } => {
                    !matches!(value, Value::Uninit | Value::Unassigned)
                }
                Merge::Last | Merge::Follow(_) => !value.same(&unset),
            };
            if !wire::put_value(&mut out, is_set.then_some(value)) {
                return Ok(false);
            }
        }
        for ((n, merge), len) in plan.arrays.iter().zip(lens) {
            let array = self.store.global_array(Arr(*n), &self.code.globals)?;
            let heap = self.store.heap_of(array)?;
            let mark = heap.find(array.table, NOTHING_YET.0)?;
            let is_untouched = match mark {
                Some(slot) => *merge == MergeArray::Whole && heap.cell(slot)? == NOTHING_YET.1,
                None => false,
            };
            let is_old = if *merge == MergeArray::Made { len } else { 0 };
            out.push(u8::from(!is_untouched));
            if is_untouched {
                continue;
            }
            wire::put_u64(&mut out, heap.table_len(array.table)? - is_old);
            let (mut at, mut is_whole) = (0, true);
            heap.for_each(array.table, &mut |key, cell| {
                at += 1;
                if at > is_old {
                    wire::put_bytes(&mut out, key);
                    is_whole &= wire::put_cell(&mut out, cell);
                }
                Ok(())
            })?;
            if !is_whole {
                return Ok(false);
            }
        }
        self.streams.flush_outputs();
        let Some(State::Working(work)) = self.parallel.as_mut().map(|p| &mut p.state) else {
            return Ok(false);
        };
        Ok(!self.streams.has_failures() && work.left.write_all(&out).is_ok())
    }
}
