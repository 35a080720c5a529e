//! A table's run: its first entries, if their keys are whole numbers in sequence, *first*, *first* + 1, ... They need no
//! index, because a key says which entry it is and the sizes of chunks follow a fixed series (as the array part of Lua's
//! tables; Ierusalimschy, de Figueiredo, Celes, 2005).
//!
//! A run is *open* while the table has no other entries. Then the next number joins it; any other key closes it until the
//! table is empty again, and lies in the index, like all that come after it. Deletion leaves holes, except at the end of an
//! open run, which becomes shorter. A key that was deleted and inserted again may so lie in the index although it is one of
//! the run's: its place there is a hole.
//!
//! The invariant: entry *i* of a run is a hole or has the text of *first* + *i* for its key, and no slot of the index leads
//! to it. A table in which nothing but a run ever was has no index; a closed run has more entries than a table is scanned for.

use crate::cell::{KeyWords, Slot, integer_words};
use crate::layout::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, ENTRY_BYTES, KEY_HOLE, RUN_CHUNK_BYTES, RUN_CHUNKS_BYTES_MIN,
    SCANNED_ENTRIES_MAX, TABLE_BYTES, TAG, VALUE, chunk, table as at,
};
use crate::table::{Table, entries_in};
use crate::{ErrorKind, Heap, Result};

/// A table becomes smaller when of so many entries of its run
const SHRUNK_ENTRIES_MIN: u64 = 512;
/// less than one of this many is left,
const SHRUNK_SHARE: u64 = 4;
/// which is looked at when a chunk was given back or the number of elements is a multiple of this: a full heap may refuse,
/// again and again.
const SHRUNK_EVERY: u64 = 64;

/// Entries before the second, third and fourth chunk; from there on all chunks are of one size.
const STARTS: [u64; 3] = {
    let mut starts = [0; 3];
    let mut sum = 0;
    let mut i = 0;
    while i < starts.len() {
        sum += entries_in(CHUNK_BYTES[i]);
        starts[i] = sum;
        i += 1;
    }
    starts
};
const ENTRIES_MAX: u64 = entries_in(CHUNK_BYTES[3]);

/// Number of the chunk that entry `ordinal` of a run lies in, and its position there.
#[inline(always)]
fn place_of(ordinal: u64) -> (u64, u64) {
    if ordinal >= STARTS[2] {
        let beyond = ordinal - STARTS[2];
        (3 + beyond / ENTRIES_MAX, beyond % ENTRIES_MAX)
    } else if ordinal < STARTS[0] {
        (0, ordinal)
    } else if ordinal < STARTS[1] {
        (1, ordinal - STARTS[0])
    } else {
        (2, ordinal - STARTS[1])
    }
}

/// Entries that chunk `number` of a run has room for.
pub(crate) fn capacity_of(number: u64) -> u64 {
    entries_in(CHUNK_BYTES[number.min(3) as usize])
}

/// Entries of a run that lie before chunk `number`.
pub(crate) fn start_of(number: u64) -> u64 {
    match number {
        0 => 0,
        1 | 2 => STARTS[number as usize - 1],
        _ => STARTS[2] + (number - 3) * ENTRIES_MAX,
    }
}

/// What a table's header says of its run.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    pub(crate) is_open: bool,
    pub(crate) first: i64,
    pub(crate) count: u64,
    /// The list of chunks; 0: there is one chunk.
    pub(crate) chunks: u64,
}

impl Run {
    /// Chunks that it would have if none was given back.
    pub(crate) fn chunk_count(self) -> u64 {
        self.count
            .checked_sub(1)
            .map_or(0, |last| place_of(last).0 + 1)
    }

    /// The key cell of its entry `ordinal`.
    pub(crate) fn words(self, ordinal: u64) -> Option<KeyWords> {
        integer_words(self.first.wrapping_add(ordinal.cast_signed()))
    }

    fn ordinal(self, n: i64) -> Option<u64> {
        let ordinal = n.wrapping_sub(self.first).cast_unsigned();
        (ordinal < self.count).then_some(ordinal)
    }

    fn may_take(self, n: i64) -> bool {
        self.is_open
            && n.wrapping_sub(self.first).cast_unsigned() == self.count
            && self.count < u64::from(u32::MAX)
    }
}

impl Heap {
    pub(crate) fn run(&self, t: Table) -> Result<Run> {
        let r = &self.region;
        Ok(Run {
            is_open: r.get::<u16>(t.0 + at::RUN_OPEN)? != 0,
            first: r.get::<u64>(t.0 + at::RUN_FIRST)?.cast_signed(),
            count: u64::from(r.get::<u32>(t.0 + at::RUN_COUNT)?),
            chunks: r.get(t.0 + at::RUN_CHUNKS)?,
        })
    }

    /// The cell of key `n`, if the run has it.
    #[inline(always)]
    pub(crate) fn run_find(&self, t: Table, n: i64) -> Result<Option<Slot>> {
        // Count and first key lie side by side.
        let both: u128 = self.region.get(t.0 + at::RUN_COUNT - 4)?;
        let (count, first) = ((both >> 32) as u32, (both >> 64) as u64);
        let ordinal = n.cast_unsigned().wrapping_sub(first);
        if ordinal >= u64::from(count) {
            return Ok(None);
        }
        self.run_slot(t, ordinal)
    }

    /// The cell of entry `ordinal`; none if it is a hole.
    #[inline(always)]
    fn run_slot(&self, t: Table, ordinal: u64) -> Result<Option<Slot>> {
        let (number, position) = place_of(ordinal);
        let chunk = self.run_chunk(t, number)?;
        if chunk == 0 {
            return Ok(None);
        }
        // Wrapping, because a damaged offset may be anything. The tag of the key, which is the byte before the value, is
        // inside: so the value does not lie beyond the end either.
        let slot = chunk.wrapping_add(CHUNK_HEADER_BYTES + VALUE + position * ENTRY_BYTES);
        let tag: u8 = self.region.get(slot.wrapping_sub(VALUE - TAG))?;
        Ok((tag != KEY_HOLE).then_some(Slot(slot)))
    }

    /// Chunk `number` of the run; 0 if it was given back.
    #[inline(always)]
    pub(crate) fn run_chunk(&self, t: Table, number: u64) -> Result<u64> {
        match self.region.get::<u64>(t.0 + at::RUN_CHUNKS)? {
            0 => self.region.get(t.0 + at::FIRST),
            chunks => self
                .region
                .get(chunks.wrapping_add(number * RUN_CHUNK_BYTES)),
        }
    }

    /// The cell of a key, if the run has it.
    #[inline(never)]
    pub(crate) fn run_find_text(&self, t: Table, words: KeyWords) -> Result<Option<Slot>> {
        if !words.may_be_integer() || self.region.get::<u32>(t.0 + at::RUN_COUNT)? == 0 {
            return Ok(None);
        }
        match words.integer() {
            Some(n) => self.run_find(t, n),
            None => Ok(None),
        }
    }

    /// Whether `n` is the key that makes the run longer, or begins one.
    pub(crate) fn run_takes(&self, t: Table, n: i64) -> Result<bool> {
        Ok(self.run(t)?.may_take(n) || self.region.get::<u64>(t.0 + at::COUNT)? == 0)
    }

    /// Appends an entry that [`Heap::run_takes`]. A full heap leaves the table as it was.
    pub(crate) fn run_append(&mut self, t: Table, n: i64, words: KeyWords) -> Result<Slot> {
        let count: u64 = self.region.get(t.0 + at::COUNT)?;
        let ordinal = match count {
            0 => 0,
            _ => self.region.get::<u32>(t.0 + at::RUN_COUNT)?,
        };
        let (chunk, entry) = self.next_entry(t)?;
        let (number, position) = place_of(u64::from(ordinal));
        let used: u16 = self.region.get(t.0 + at::LAST_USED)?;
        if u64::from(used) != position {
            return Err(self
                .region
                .damaged(t.0, "a table that does not end where its run does"));
        }
        if used == 0 && number > 0 {
            self.run_list_chunk(t, number, chunk)?;
        }
        let live: u16 = self.region.get(chunk + chunk::LIVE)?;
        let r = &mut self.region;
        r.put(entry, u128::from(words.0) | u128::from(words.1) << 64)?;
        r.put(entry + VALUE, 0u128)?;
        // The flag lies behind the number of elements.
        r.put(
            chunk + chunk::LIVE,
            u32::from(live.wrapping_add(1)) | 1 << 16,
        )?;
        r.put(t.0 + at::LAST_USED, used + 1)?;
        r.put(t.0 + at::COUNT, count.wrapping_add(1))?;
        if ordinal == 0 {
            r.put(t.0 + at::RUN_FIRST, n.cast_unsigned())?;
            r.put(t.0 + at::RUN_OPEN, 1u16)?;
        }
        r.put(t.0 + at::RUN_COUNT, ordinal.wrapping_add(1))?;
        Ok(Slot(entry + VALUE))
    }

    /// Notes that `chunk` is number `number` of the run.
    fn run_list_chunk(&mut self, t: Table, number: u64, chunk: u64) -> Result<()> {
        let mut list: u64 = self.region.get(t.0 + at::RUN_CHUNKS)?;
        if list == 0 {
            let first: u64 = self.region.get(t.0 + at::FIRST)?;
            list = self.alloc(RUN_CHUNKS_BYTES_MIN, false)?;
            self.region.put(list, first)?;
            self.region.put(t.0 + at::RUN_CHUNKS, list)?;
        } else {
            let old = self.block_at(list)?;
            if (number + 1) * RUN_CHUNK_BYTES > old.bytes {
                list = self.alloc(old.bytes * 2, false)?;
                let kept = self.region.bytes(old.start, old.bytes)?.to_vec();
                self.region
                    .bytes_mut(list, old.bytes)?
                    .copy_from_slice(&kept);
                self.region.put(t.0 + at::RUN_CHUNKS, list)?;
                self.free(old.start)?;
            }
        }
        self.region
            .put(list.wrapping_add(number * RUN_CHUNK_BYTES), chunk)
    }

    /// Before another key is inserted: nothing joins the run any more. One that is so short that its table needs no index
    /// is none from now on.
    pub(crate) fn run_close(&mut self, t: Table) -> Result<()> {
        let run = self.run(t)?;
        self.region.put(t.0 + at::RUN_OPEN, 0u16)?;
        if run.count > SCANNED_ENTRIES_MAX {
            return Ok(());
        }
        let first = self.inside(self.region.get(t.0 + at::FIRST)?)?;
        self.region.put(first + chunk::IN_RUN, 0u16)?;
        self.region.put(t.0 + at::RUN_COUNT, 0u32)?;
        self.region.put(t.0 + at::RUN_FIRST, 0u64)?;
        self.region.put(t.0 + at::RUN_CHUNKS, 0u64)?;
        match run.chunks {
            0 => Ok(()),
            list => self.free(list),
        }
    }

    /// The entry that was just made a hole is the one of key `n`: an open run that ended with it ends before it now, and
    /// before the holes in front of it. False if it did not.
    pub(crate) fn run_shorten(&mut self, t: Table, n: i64) -> Result<bool> {
        let run = self.run(t)?;
        if !run.is_open || run.ordinal(n) != run.count.checked_sub(1) {
            return Ok(false);
        }
        let mut count = run.count - 1;
        while count > 0 && self.run_slot(t, count - 1)?.is_none() {
            count -= 1;
        }
        let (number, position) = match count.checked_sub(1) {
            Some(last) => place_of(last),
            None => return Err(self.region.damaged(t.0, "a table without the run it says")),
        };
        let mut last = self.inside(self.region.get(t.0 + at::LAST)?)?;
        let wanted = self.inside(self.run_chunk(t, number)?)?;
        while last != wanted {
            let before = self.inside(self.region.get(last + chunk::PREV)?)?;
            self.free(last)?;
            last = before;
        }
        self.region.put(t.0 + at::LAST, last)?;
        self.region.put(t.0 + at::LAST_USED, position as u16 + 1)?;
        self.region
            .put(t.0 + at::LAST_CAPACITY, capacity_of(number) as u16)?;
        self.region.put(t.0 + at::RUN_COUNT, count as u32)?;
        Ok(true)
    }

    /// Forgets a chunk of the run in which there is nothing: that of key `n`, or else of the run's last entry.
    pub(crate) fn run_unlist_chunk(&mut self, t: Table, n: Option<i64>) -> Result<()> {
        let run = self.run(t)?;
        let ordinal = n
            .and_then(|n| run.ordinal(n))
            .unwrap_or(run.count.wrapping_sub(1));
        if run.chunks == 0 {
            return Err(self
                .region
                .damaged(t.0, "a run without the list of its chunks"));
        }
        let (number, _) = place_of(ordinal);
        self.region.put(
            run.chunks
                .wrapping_add(number.wrapping_mul(RUN_CHUNK_BYTES)),
            0u64,
        )
    }

    /// After a deletion: where little is left of a long run, the table is made anew, so that memory follows the number of
    /// elements. What is left may be a run again, as in a queue. The cost is in proportion to the elements left, and three
    /// times as many were deleted since the last time.
    pub(crate) fn run_shrink(&mut self, t: Table, chunk_dropped: bool) -> Result<()> {
        let count: u64 = self.region.get(t.0 + at::COUNT)?;
        let run = u64::from(self.region.get::<u32>(t.0 + at::RUN_COUNT)?);
        let is_little = run >= SHRUNK_ENTRIES_MIN && count < run / SHRUNK_SHARE;
        if !is_little || !(chunk_dropped || count.is_multiple_of(SHRUNK_EVERY)) {
            return Ok(());
        }
        let made = self
            .table_new()
            .and_then(|new| match self.copy_entries(t, new) {
                Ok(()) => self.replace_table(t, new),
                Err(error) => {
                    self.free_shell(new)?;
                    Err(error)
                }
            });
        match made {
            // Deleting needs no room.
            Err(error) if !matches!(error.kind(), ErrorKind::Damaged { .. }) => Ok(()),
            made => made,
        }
    }

    /// Puts the entries of `from` into `to` too, with what they refer to.
    fn copy_entries(&mut self, from: Table, to: Table) -> Result<()> {
        let mut entries = Vec::new();
        self.for_each_entry(from, &mut |entry, words| {
            entries.push((entry, words));
            Ok(())
        })?;
        for (entry, words) in entries {
            let value: u128 = self.region.get(entry + VALUE)?;
            let slot = self.insert_words(to, words)?;
            self.region.put(slot.0, value)?;
        }
        Ok(())
    }

    /// Makes `t` what `new` is, which ends thereby.
    fn replace_table(&mut self, t: Table, new: Table) -> Result<()> {
        self.places.forget_table(t.0);
        for block in self.blocks_of(t)? {
            self.free(block)?;
        }
        let header = self.region.bytes(new.0, TABLE_BYTES)?.to_vec();
        self.region
            .bytes_mut(t.0, TABLE_BYTES)?
            .copy_from_slice(&header);
        let mut chunks = Vec::new();
        self.for_each_chunk(t, &mut |chunk, _| {
            chunks.push(chunk);
            Ok(())
        })?;
        for chunk in chunks {
            self.region.put(chunk + chunk::TABLE, t.0)?;
        }
        self.free(new.0)
    }

    /// Frees a table, and not what its entries refer to.
    fn free_shell(&mut self, t: Table) -> Result<()> {
        for block in self.blocks_of(t)? {
            self.free(block)?;
        }
        self.free(t.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_follow_the_sizes_of_chunks() {
        let (mut number, mut position) = (0, 0);
        for ordinal in 0..2000 {
            assert_eq!(place_of(ordinal), (number, position), "{ordinal}");
            assert_eq!(start_of(number) + position, ordinal);
            position += 1;
            if position == capacity_of(number) {
                (number, position) = (number + 1, 0);
            }
        }
    }
}
