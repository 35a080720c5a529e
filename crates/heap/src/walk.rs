//! Walks over a table: every chunk, entry, element and block of the index, in order of insertion; and copies.
//!
//! The invariant: every walk ends, whatever the bytes, after a time in proportion to the heap.

use crate::cell::{Cell, KeyWords, Slot};
use crate::layout::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, DEPTH_MAX, DIRECTORY_ENTRY_BYTES, ENTRY_BYTES, KEY_HOLE,
    SEGMENT_BITS, SEGMENT_SLOTS, SLOT_BYTES, VALUE, chunk, table as at,
};
use crate::table::Table;
use crate::{Error, Heap, Result};
use region::PAGE_BYTES;

/// A key and its value, or why they cannot be read.
pub type Element<'a> = Result<(&'a [u8], Cell<'a>)>;

/// Where a walk over a table's chunks is.
struct Chunks {
    table: Table,
    last: u64,
    next: u64,
    /// No list is longer than the heap has room for.
    left: u64,
    done: bool,
}

/// Where a walk over a table's elements is, for walks that go through tables in tables without recursion, since their depth
/// is the data's choice. See [`Heap::elements`].
pub struct Elements {
    chunks: Chunks,
    /// The next entry of the chunk, and the end of those it has.
    entry: u64,
    end: u64,
    /// The text of a key that is kept in its entry.
    buffer: [u8; 16],
}

impl Heap {
    fn chunks(&self, t: Table) -> Result<Chunks> {
        Ok(Chunks {
            table: t,
            last: self.region.get(t.0 + at::LAST)?,
            next: self.region.get(t.0 + at::FIRST)?,
            left: self.region.end(),
            done: false,
        })
    }

    /// The next chunk and the entries used in it. An error where the list does not end; nothing comes after it.
    fn next_chunk(&self, walk: &mut Chunks) -> Result<Option<(u64, u64)>> {
        if std::mem::replace(&mut walk.done, true) {
            return Ok(None);
        }
        if walk.next == 0 {
            return if walk.last == 0 {
                Ok(None)
            } else {
                Err(self.region.damaged(
                    walk.table.0,
                    "a table whose list of chunks does not reach its last",
                ))
            };
        }
        let chunk = self.inside(walk.next)?;
        let capacity: u16 = self.region.get(chunk + chunk::CAPACITY)?;
        let used: u16 = if chunk == walk.last {
            self.region.get(walk.table.0 + at::LAST_USED)?
        } else {
            self.region.get(chunk + chunk::USED)?
        };
        let bytes = CHUNK_HEADER_BYTES + u64::from(capacity) * ENTRY_BYTES;
        if used > capacity || bytes > CHUNK_BYTES[3] || bytes > walk.left {
            return Err(self
                .region
                .damaged(chunk, "a chunk of a table that cannot be"));
        }
        walk.left -= bytes;
        if chunk != walk.last {
            walk.next = self.region.get(chunk + chunk::NEXT)?;
            walk.done = false;
        }
        Ok(Some((chunk, u64::from(used))))
    }

    /// Calls `visit` with each chunk and the entries used in it, in order. Ends with an error where the list does not.
    pub(crate) fn for_each_chunk(
        &self,
        t: Table,
        visit: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<()> {
        let mut walk = self.chunks(t)?;
        while let Some((chunk, used)) = self.next_chunk(&mut walk)? {
            visit(chunk, used)?;
        }
        Ok(())
    }

    /// Calls `visit` with the offset and key of each entry that is not a hole, in order of insertion.
    pub(crate) fn for_each_entry(
        &self,
        t: Table,
        visit: &mut dyn FnMut(u64, KeyWords) -> Result<()>,
    ) -> Result<()> {
        self.for_each_chunk(t, &mut |chunk, used| {
            self.region.prefetch(chunk + PAGE_BYTES);
            for i in 0..used {
                let entry = chunk + CHUNK_HEADER_BYTES + i * ENTRY_BYTES;
                let words = self.entry_words(entry)?;
                if words.tag() != KEY_HOLE {
                    visit(entry, words)?;
                }
            }
            Ok(())
        })
    }

    /// Calls `visit` with each block that leads to entries: the list of the run's chunks; segments of the index once each,
    /// and their directory.
    pub(crate) fn for_each_index_block(
        &self,
        t: Table,
        visit: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let run_chunks: u64 = self.region.get(t.0 + at::RUN_CHUNKS)?;
        if run_chunks != 0 {
            visit(run_chunks)?;
        }
        let index: u64 = self.region.get(t.0 + at::INDEX)?;
        let depth: u8 = self.region.get(t.0 + at::DEPTH)?;
        if index == 0 {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(self.too_deep(t));
        }
        let index = self.inside(index)?;
        visit(index)?;
        if depth > 0 {
            let mut before = None;
            for i in 0..1u64 << depth {
                let page: u32 = self.region.get(index + i * DIRECTORY_ENTRY_BYTES)?;
                if before != Some(page) {
                    visit(u64::from(page) * PAGE_BYTES)?;
                }
                before = Some(page);
            }
        }
        Ok(())
    }

    #[cold]
    pub(crate) fn too_deep(&self, t: Table) -> Error {
        self.region
            .damaged(t.0, "a table with too deep a directory")
    }

    /// Slots that are not empty in one block that [`Heap::for_each_index_block`] visits.
    pub(crate) fn count_slots(&self, t: Table, offset: u64) -> Result<u64> {
        let depth: u8 = self.region.get(t.0 + at::DEPTH)?;
        let index: u64 = self.region.get(t.0 + at::INDEX)?;
        let bits: u8 = self.region.get(t.0 + at::INDEX_BITS)?;
        let slots = match depth {
            _ if offset == self.region.get::<u64>(t.0 + at::RUN_CHUNKS)? => 0,
            0 => 1 << bits.min(SEGMENT_BITS),
            _ if offset == index => 0,
            _ => SEGMENT_SLOTS,
        };
        let mut used = 0;
        for i in 0..slots {
            used += u64::from(self.region.get::<u64>(offset + i * SLOT_BYTES)? != 0);
        }
        Ok(used)
    }

    /// Calls `visit` with each key and value, in order of insertion.
    ///
    /// # Errors
    /// When the heap is damaged, and those of `visit`.
    pub fn for_each(
        &self,
        t: Table,
        visit: &mut dyn FnMut(&[u8], Cell<'_>) -> Result<()>,
    ) -> Result<()> {
        self.check_table(t)?;
        self.for_each_entry(t, &mut |entry, words| {
            let mut buffer = [0; 16];
            let key = self.key_text(words, &mut buffer)?;
            visit(key, self.cell(Slot(entry + VALUE))?)
        })
    }

    /// A walk over the elements in order of insertion, for [`Heap::next_element`]. The table must not change meanwhile.
    ///
    /// # Errors
    /// When this is no table.
    pub fn elements(&self, t: Table) -> Result<Elements> {
        self.check_table(t)?;
        Ok(Elements {
            chunks: self.chunks(t)?,
            entry: 0,
            end: 0,
            buffer: [0; 16],
        })
    }

    /// The next element, or `None` at the end, for a heap that may be damaged: an element that cannot be read is given as its
    /// error, and the walk goes on behind it.
    ///
    /// # Errors
    /// When the list of elements itself is damaged: the walk ends there.
    pub fn next_element<'a>(&'a self, walk: &'a mut Elements) -> Result<Option<Element<'a>>> {
        loop {
            while walk.entry == walk.end {
                let Some((chunk, used)) = self.next_chunk(&mut walk.chunks)? else {
                    return Ok(None);
                };
                walk.entry = chunk + CHUNK_HEADER_BYTES;
                walk.end = walk.entry + used * ENTRY_BYTES;
            }
            let entry = walk.entry;
            walk.entry += ENTRY_BYTES;
            let words = match self.entry_words(entry) {
                Ok(words) => words,
                Err(error) => {
                    walk.entry = walk.end;
                    walk.chunks.done = true;
                    return Err(error);
                }
            };
            if words.tag() != KEY_HOLE {
                let element = self.key_text(words, &mut walk.buffer).and_then(|key| {
                    let cell = self.cell(Slot(entry + VALUE))?;
                    Ok((key, cell))
                });
                return Ok(Some(element));
            }
        }
    }

    /// A copy of a table with everything in it.
    ///
    /// # Errors
    /// When the heap is full or damaged.
    pub fn table_copy(&mut self, from: Table) -> Result<Table> {
        self.check_table(from)?;
        // More elements than the heap has room for: a table that contains itself.
        let mut left = self.region.end() / ENTRY_BYTES;
        let to = self.table_new()?;
        // By a list and not by recursion: depth is the data's choice. What waits is in `to` already, so that `to` is
        // everything there is to be freed.
        let mut waiting = vec![(from, to)];
        while let Some((from, to_inner)) = waiting.pop() {
            if let Err(error) = self.copy_outer(from, to_inner, &mut left, &mut waiting) {
                self.table_free(to)?; // a full heap must not keep what nothing refers to
                return Err(error);
            }
        }
        Ok(to)
    }

    /// Copies what is in one table; tables in it become empty ones that wait for their content.
    fn copy_outer(
        &mut self,
        from: Table,
        to: Table,
        left: &mut u64,
        waiting: &mut Vec<(Table, Table)>,
    ) -> Result<()> {
        self.check_table(from)?;
        let mut entries = Vec::new();
        self.for_each_entry(from, &mut |entry, words| {
            entries.push((entry, words));
            Ok(())
        })?;
        for (entry, words) in entries {
            let mut buffer = [0; 16];
            let key = self.key_text(words, &mut buffer)?.to_vec();
            let slot = Slot(entry + VALUE);
            let target = self.entry(to, &key)?;
            *left = left
                .checked_sub(1)
                .ok_or_else(|| self.region.damaged(from.0, "a table that contains itself"))?;
            match self.cell(slot)? {
                Cell::Str { bytes, maybe_num } => {
                    let bytes = bytes.to_vec();
                    self.cell_set(
                        target,
                        Cell::Str {
                            bytes: &bytes,
                            maybe_num,
                        },
                    )?;
                }
                Cell::Table(inner) => {
                    let copy = self.table_new()?;
                    self.cell_set(target, Cell::Table(copy))?;
                    waiting.push((inner, copy));
                }
                Cell::Other(bytes) => {
                    let bytes = bytes.to_vec();
                    self.cell_set(target, Cell::Other(&bytes))?;
                }
                Cell::Num(n) => self.cell_set_num(target, n)?,
                Cell::Uninit => {}
            }
        }
        Ok(())
    }
}
