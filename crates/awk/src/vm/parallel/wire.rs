//! What a process leaves for the first one: its bytes, in a file without a name.
//!
//! Both are the same program on the same machine, and the file lives no longer than they do: there is no version.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use heap::Cell;

use crate::value::Value;

mod tag {
    pub(super) const ABSENT: u8 = 0;
    pub(super) const UNINIT: u8 = 1;
    pub(super) const NUM: u8 = 2;
    pub(super) const STR: u8 = 3;
    pub(super) const MAYBE_NUM: u8 = 4;
    pub(super) const OTHER: u8 = 5;
}

/// A place to leave something.
pub(super) fn shelf() -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(rustix::fs::memfd_create("pmawk", flags)?.into())
}

/// All that was left.
pub(super) fn take(mut shelf: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    shelf.seek(SeekFrom::Start(0))?;
    shelf.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(super) fn put_u64(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}

pub(super) fn put_f64(out: &mut Vec<u8>, n: f64) {
    put_u64(out, n.to_bits());
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A value, or none; false for a kind that is not handed over.
pub(super) fn put_value(out: &mut Vec<u8>, value: Option<&Value>) -> bool {
    let cell = match value {
        None => {
            out.push(tag::ABSENT);
            return true;
        }
        Some(Value::Uninit) => Cell::Uninit,
        Some(Value::Num(n)) => Cell::Num(*n),
        Some(value) => match value.as_bytes() {
            Some(bytes) => Cell::Str {
                bytes,
                maybe_num: value.maybe_num(),
            },
            None => return false,
        },
    };
    put_cell(out, cell)
}

/// The same for what a heap holds.
pub(super) fn put_cell(out: &mut Vec<u8>, cell: Cell<'_>) -> bool {
    match cell {
        Cell::Uninit => out.push(tag::UNINIT),
        Cell::Num(n) => {
            out.push(tag::NUM);
            put_f64(out, n);
        }
        Cell::Str { bytes, maybe_num } => {
            out.push(if maybe_num { tag::MAYBE_NUM } else { tag::STR });
            put_bytes(out, bytes);
        }
        Cell::Other(bytes) => {
            out.push(tag::OTHER);
            put_bytes(out, bytes);
        }
        Cell::Table(_) => return false,
    }
    true
}

/// Takes apart what was left.
#[derive(Clone)]
pub(super) struct Left<'a>(pub(super) &'a [u8]);

impl<'a> Left<'a> {
    fn some(&mut self, count: usize) -> Option<&'a [u8]> {
        let (some, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(some)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.some(1)?.first().copied()
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let bytes = self.some(8)?;
        bytes.try_into().ok().map(u64::from_le_bytes)
    }

    pub(super) fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits)
    }

    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        self.some(len)
    }

    /// The outer `None`: there is no more.
    pub(super) fn cell(&mut self) -> Option<Option<Cell<'a>>> {
        let tag = *self.some(1)?.first()?;
        Some(match tag {
            tag::ABSENT => None,
            tag::UNINIT => Some(Cell::Uninit),
            tag::NUM => Some(Cell::Num(self.f64()?)),
            tag::STR | tag::MAYBE_NUM => Some(Cell::Str {
                bytes: self.bytes()?,
                maybe_num: tag == tag::MAYBE_NUM,
            }),
            tag::OTHER => Some(Cell::Other(self.bytes()?)),
            _ => return None,
        })
    }
}
