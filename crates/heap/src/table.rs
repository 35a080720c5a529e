//! The hash table under AWK's arrays: entries in chunks in order of insertion, and an index of segments over them.
//!
//! * Iteration follows the order of insertion (a key that was deleted and inserted again comes last).
//! * Growth is local: entries are only ever appended; a full index segment is split in two (extendible hashing: Fagin,
//!   Nievergelt, Pippenger, Strong, 1979; in segments as CCEH, Nam et al., FAST 2019), so an insertion moves at most one
//!   page of index slots and, rarely, doubles the directory (4 bytes per 300 keys). Nothing ever rehashes the whole table.
//! * Deletion leaves a hole; neighbouring chunks that are together at most half full are merged, so memory follows the
//!   number of elements.
//! * The first entries may be a run of whole numbers, which the index knows nothing of: [`crate::run`].
//!
//! The invariant: each entry that is not a hole and not the run's has exactly one slot in the index (if there is one),
//! reachable by linear probing from its home without crossing an empty slot.

use crate::cell::{KeyWords, Slot, integer_words, is_blob};
use crate::layout::{
    CHUNK_BYTES, CHUNK_HEADER_BYTES, DEPTH_MAX, DIRECTORY_ENTRY_BYTES, ENTRY_BYTES, INDEX_BITS_MIN,
    KEY_HOLE, PROBES_MAX, SCANNED_ENTRIES_MAX, SEGMENT_BITS, SEGMENT_SLOTS, SLOT_BYTES,
    SLOT_OFFSET_BITS, TABLE_BYTES, TABLE_MAGIC, TAG_BITS, VALUE, VALUE_TABLE, chunk, table as at,
};
use crate::{Heap, Result};
use region::PAGE_BYTES;

/// A table in a heap: the offset of its header. Valid while the table lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Table(pub(crate) u64);

impl Table {
    /// Its offset in the heap; a multiple of 16, never 0.
    pub fn offset(self) -> u64 {
        self.0
    }

    /// The table at an offset that [`Table::offset`] gave.
    pub fn from_offset(offset: u64) -> Table {
        Table(offset)
    }
}

const OFFSET_MASK: u64 = (1 << SLOT_OFFSET_BITS) - 1;

/// A key on its way into a table: its cell if inline, its text if not, its hash.
#[derive(Clone, Copy)]
struct Key<'a> {
    words: KeyWords,
    /// Empty when inline.
    text: &'a [u8],
    hash: u64,
}

/// One slot of the index.
#[derive(Clone, Copy, PartialEq, Eq)]
struct IndexSlot(u64);

impl IndexSlot {
    fn new(tag: u64, entry: u64) -> IndexSlot {
        IndexSlot(tag << SLOT_OFFSET_BITS | entry >> 4)
    }
    fn tag(self) -> u64 {
        self.0 >> SLOT_OFFSET_BITS
    }
    fn entry(self) -> u64 {
        (self.0 & OFFSET_MASK) << 4
    }
}

/// Part of the index that a key belongs to.
#[derive(Clone, Copy)]
struct Segment {
    offset: u64,
    /// Number of slots - 1.
    mask: u64,
}

impl Segment {
    fn slot(self, position: u64) -> u64 {
        // Wrapping here and below, because a damaged offset may be anything; the access checks the sum.
        self.offset
            .wrapping_add((position & self.mask) * SLOT_BYTES)
    }
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

fn tag_of(hash: u64) -> u64 {
    hash >> (64 - TAG_BITS)
}

impl Heap {
    /// Multiply and fold, twice, keyed with the heap's secret seed (the construction of wyhash, Wang Yi).
    #[inline(always)]
    pub(crate) fn hash_words(&self, words: KeyWords) -> u64 {
        let seed = self.hash_seed;
        let once = fold(words.0 ^ seed, words.1 ^ 0x9E37_79B9_7F4A_7C15);
        fold(once ^ 0xD6E8_FEB8_6659_FD93, seed | 1)
    }

    #[inline(always)]
    fn key<'a>(&self, text: &'a [u8]) -> Key<'a> {
        match KeyWords::inline(text) {
            Some(words) => Key {
                words,
                text: &[],
                hash: self.hash_words(words),
            },
            None => self.long_key(text),
        }
    }

    #[inline(never)]
    fn long_key<'a>(&self, text: &'a [u8]) -> Key<'a> {
        Key {
            words: KeyWords::elsewhere(text.len()),
            text,
            hash: region::layout::checksum(text, self.hash_seed),
        }
    }

    /// The hash of a key that lies in an entry.
    fn entry_hash(&self, words: KeyWords) -> Result<u64> {
        if words.is_blob() {
            let (offset, len) = words.blob();
            return Ok(region::layout::checksum(
                self.region.bytes(offset, len)?,
                self.hash_seed,
            ));
        }
        Ok(self.hash_words(words))
    }

    pub(crate) fn entry_words(&self, entry: u64) -> Result<KeyWords> {
        Ok(KeyWords(
            self.region.get(entry)?,
            self.region.get(entry.wrapping_add(8))?,
        ))
    }

    #[inline(always)]
    fn entry_has(&self, entry: u64, key: &Key<'_>) -> Result<bool> {
        let words = self.entry_words(entry)?;
        if key.text.is_empty() {
            return Ok(words == key.words);
        }
        Ok(
            words.1 == key.words.1
                && self.region.bytes(words.0, key.text.len() as u64)? == key.text,
        )
    }

    /// An empty table.
    ///
    /// # Errors
    /// When the heap is full or damaged.
    pub fn table_new(&mut self) -> Result<Table> {
        let header = self.alloc(TABLE_BYTES, true)?;
        self.region.bytes_mut(header, TABLE_BYTES)?.fill(0);
        self.region.put(header + at::MAGIC, TABLE_MAGIC)?;
        Ok(Table(header))
    }

    pub(crate) fn check_table(&self, t: Table) -> Result<()> {
        if self.region.get::<u32>(t.0 + at::MAGIC)? == TABLE_MAGIC {
            Ok(())
        } else {
            Err(self.region.damaged(t.0, "what should be a table is none"))
        }
    }

    /// Number of elements. O(1).
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn table_len(&self, t: Table) -> Result<u64> {
        self.check_table(t)?;
        self.region.get(t.0 + at::COUNT)
    }

    /// Bytes that the table takes: headers, index, entries, long keys and values; nested tables not included.
    /// Costs a walk over its elements.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn table_bytes(&self, t: Table) -> Result<u64> {
        self.check_table(t)?;
        let add = u64::saturating_add; // a damaged heap may claim anything
        let mut total = TABLE_BYTES;
        self.for_each_entry(t, &mut |entry, words| {
            if words.is_blob() {
                total = add(total, self.block_at(words.0)?.bytes);
            }
            let value_tag = (self.region.get::<u64>(entry + VALUE + 8)? >> 56) as u8;
            if is_blob(value_tag) {
                total = add(total, self.block_at(self.region.get(entry + VALUE)?)?.bytes);
            }
            Ok(())
        })?;
        self.for_each_index_block(t, &mut |offset| {
            total = add(total, self.block_at(offset)?.bytes);
            Ok(())
        })?;
        self.for_each_chunk(t, &mut |chunk, _| {
            total = add(total, self.block_at(chunk)?.bytes);
            Ok(())
        })?;
        Ok(total)
    }

    /// Where `hash` belongs; none in a table without an index.
    #[inline(always)]
    fn segment(&self, t: Table, hash: u64) -> Result<Option<Segment>> {
        let index: u64 = self.region.get(t.0 + at::INDEX)?;
        let depth: u8 = self.region.get(t.0 + at::DEPTH)?;
        if depth == 0 {
            if index == 0 {
                return Ok(None);
            }
            let bits: u8 = self.region.get(t.0 + at::INDEX_BITS)?;
            return Ok(Some(Segment {
                offset: index,
                mask: (1 << bits.min(SEGMENT_BITS)) - 1,
            }));
        }
        let position = hash >> (64u32.wrapping_sub(u32::from(depth)) & 63);
        let page: u32 = self
            .region
            .get(index.wrapping_add(position.wrapping_mul(DIRECTORY_ENTRY_BYTES)))?;
        Ok(Some(Segment {
            offset: u64::from(page) * PAGE_BYTES,
            mask: SEGMENT_SLOTS - 1,
        }))
    }

    /// A key's cell (of a long one, all but where it lies) and its hash.
    #[inline]
    pub(crate) fn words_and_hash(&self, text: &[u8]) -> (KeyWords, u64) {
        let key = self.key(text);
        (key.words, key.hash)
    }

    /// The slot where a search for `hash` begins, and how many slots there are to the end of its segment; none in a table
    /// without an index.
    #[inline]
    pub(crate) fn home_slot(&self, t: Table, hash: u64) -> Result<Option<(u64, u64)>> {
        let segment = self.segment(t, hash)?;
        Ok(segment.map(|segment| {
            let home = tag_of(hash);
            (segment.slot(home), segment.mask + 1 - (home & segment.mask))
        }))
    }

    /// The entry that a slot names, if it can be that of `hash`.
    #[inline]
    pub(crate) fn entry_in_slot(&self, slot: u64, hash: u64) -> Result<Option<u64>> {
        let slot = IndexSlot(self.region.get(slot)?);
        Ok((slot.0 != 0 && slot.tag() == tag_of(hash)).then(|| slot.entry()))
    }

    /// The entry that one of `count` slots from this one on names, if it can be that of `hash` by its tag.
    #[inline(always)]
    pub(crate) fn entry_near_slot(&self, slot: u64, count: u64, hash: u64) -> Option<u64> {
        for i in 0..count {
            let slot = IndexSlot(self.region.get(slot.wrapping_add(i * SLOT_BYTES)).ok()?);
            if slot.0 == 0 {
                return None;
            }
            if slot.tag() == tag_of(hash) {
                return Some(slot.entry());
            }
        }
        None
    }

    /// Whether an entry has the key of these words, and this text if it is a long one.
    #[inline(always)]
    pub(crate) fn entry_is(&self, entry: u64, words: KeyWords, text: &[u8]) -> Result<bool> {
        let text = if words.is_blob() { text } else { &[] };
        self.entry_has(
            entry,
            &Key {
                words,
                text,
                hash: 0,
            },
        )
    }

    /// The entry of `key`.
    #[inline(always)]
    fn find_entry(&self, t: Table, key: &Key<'_>) -> Result<Option<u64>> {
        let Some(segment) = self.segment(t, key.hash)? else {
            return self.scan_entries(t, key);
        };
        let tag = tag_of(key.hash);
        for position in tag..=tag + segment.mask {
            let slot = IndexSlot(self.region.get(segment.slot(position))?);
            if slot.0 == 0 {
                return Ok(None);
            }
            if slot.tag() == tag && self.entry_has(slot.entry(), key)? {
                return Ok(Some(slot.entry()));
            }
        }
        Ok(None)
    }

    /// As [`Heap::find_entry`], for a table so small that it has no index.
    fn scan_entries(&self, t: Table, key: &Key<'_>) -> Result<Option<u64>> {
        self.check_table(t)?;
        let first: u64 = self.region.get(t.0 + at::FIRST)?;
        if first == 0 || self.region.get::<u32>(t.0 + at::RUN_COUNT)? != 0 {
            return Ok(None); // nothing, or nothing but a run
        }
        // A chunk behind the first, that a full heap had no entry for, is empty.
        let used = if self.region.get::<u64>(t.0 + at::LAST)? == first {
            u64::from(self.region.get::<u16>(t.0 + at::LAST_USED)?)
        } else {
            SCANNED_ENTRIES_MAX
        };
        for i in 0..used.min(SCANNED_ENTRIES_MAX) {
            let entry = first.wrapping_add(CHUNK_HEADER_BYTES + i * ENTRY_BYTES);
            if self.entry_has(entry, key)? {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The cell of `key`, if the table has it.
    ///
    /// # Errors
    /// When the heap is damaged.
    #[inline]
    pub fn find(&self, t: Table, key: &[u8]) -> Result<Option<Slot>> {
        let key = self.key(key);
        match self.find_entry(t, &key)? {
            Some(entry) => Ok(Some(Slot(entry + VALUE))),
            None => self.run_find_text(t, key.words),
        }
    }

    /// The cell of `key`; inserted as [`Cell::Uninit`] if the table has it not.
    ///
    /// # Errors
    /// When the heap is full or damaged.
    #[inline]
    pub fn entry(&mut self, t: Table, key: &[u8]) -> Result<Slot> {
        let key = self.key(key);
        self.entry_of(t, key)
    }

    /// The index is asked before the run: for most keys and tables that is the end of it, and a key is not in both.
    #[inline(always)]
    fn entry_of(&mut self, t: Table, key: Key<'_>) -> Result<Slot> {
        match self.find_entry(t, &key)? {
            Some(entry) => Ok(Slot(entry + VALUE)),
            None => self.entry_beside_index(t, key),
        }
    }

    /// As [`Heap::entry`] for a key whose words and hash are known; `text` is looked at only if it is a long one.
    #[inline]
    pub(crate) fn entry_of_words(
        &mut self,
        t: Table,
        words: KeyWords,
        text: &[u8],
        hash: u64,
    ) -> Result<Slot> {
        let text = if words.is_blob() { text } else { &[] };
        self.entry_of(t, Key { words, text, hash })
    }

    #[inline(never)]
    fn entry_beside_index(&mut self, t: Table, key: Key<'_>) -> Result<Slot> {
        match self.run_find_text(t, key.words)? {
            Some(slot) => Ok(slot),
            None => self.insert(t, key),
        }
    }

    /// As [`Heap::find`] for the key that is the decimal text of `n`.
    ///
    /// # Errors
    /// When the heap is damaged.
    #[inline]
    pub fn find_int(&self, t: Table, n: i64) -> Result<Option<Slot>> {
        if let Some(slot) = self.run_find(t, n)? {
            return Ok(Some(slot));
        }
        if let Some(entry) = self.places.get(t.0, n) {
            return Ok(Some(Slot(entry + VALUE)));
        }
        match integer_words(n) {
            Some(words) => {
                let key = Key {
                    words,
                    text: &[],
                    hash: self.hash_words(words),
                };
                Ok(self.find_entry(t, &key)?.map(|entry| Slot(entry + VALUE)))
            }
            None => self.find(t, n.to_string().as_bytes()),
        }
    }

    /// As [`Heap::entry`] for the key that is the decimal text of `n`.
    ///
    /// # Errors
    /// When the heap is full or damaged.
    #[inline]
    pub fn entry_int(&mut self, t: Table, n: i64) -> Result<Slot> {
        if let Some(slot) = self.run_find(t, n)? {
            return Ok(slot);
        }
        if let Some(entry) = self.places.get(t.0, n) {
            return Ok(Slot(entry + VALUE));
        }
        self.entry_int_by_key(t, n)
    }

    #[inline(never)]
    fn entry_int_by_key(&mut self, t: Table, n: i64) -> Result<Slot> {
        let Some(words) = integer_words(n) else {
            return self.entry(t, n.to_string().as_bytes());
        };
        if self.run_takes(t, n)? {
            self.check_table(t)?;
            return self.run_append(t, n, words);
        }
        let key = Key {
            words,
            text: &[],
            hash: self.hash_words(words),
        };
        let slot = self.entry_of(t, key)?;
        let count: u64 = self.region.get(t.0 + at::COUNT)?;
        self.places.note(
            t.0,
            count.min(self.region.end() / ENTRY_BYTES),
            n,
            slot.0 - VALUE,
        );
        Ok(slot)
    }

    fn insert(&mut self, t: Table, key: Key<'_>) -> Result<Slot> {
        self.check_table(t)?;
        let is_open = self.region.get::<u16>(t.0 + at::RUN_OPEN)? != 0;
        if is_open || self.region.get::<u64>(t.0 + at::COUNT)? == 0 {
            if let Some(n) = key.words.integer()
                && self.run_takes(t, n)?
            {
                return self.run_append(t, n, key.words);
            }
            if is_open {
                self.run_close(t)?;
            }
        }
        let (chunk, entry) = self.next_entry(t)?;
        let words = if key.text.is_empty() {
            key.words
        } else {
            KeyWords(self.store_blob(key.text)?, key.words.1)
        };
        self.region.put(entry, words.0)?;
        self.region.put(entry + 8, words.1)?;
        self.region.put(entry + VALUE, 0u128)?;
        let used = self.region.get::<u16>(t.0 + at::LAST_USED)?; // below the capacity: next_entry
        self.region.put(t.0 + at::LAST_USED, used + 1)?;
        let live = self.region.get::<u16>(chunk + chunk::LIVE)?;
        self.region.put(chunk + chunk::LIVE, live.wrapping_add(1))?;
        self.add_to(t.0 + at::COUNT, 1)?;
        let indexed = if self.region.get::<u64>(t.0 + at::INDEX)? != 0 {
            self.index_entry(t, key.hash, entry)
        } else if self.region.get::<u32>(t.0 + at::RUN_COUNT)? != 0
            || u64::from(used) + 1 > SCANNED_ENTRIES_MAX
            || chunk != self.region.get::<u64>(t.0 + at::FIRST)?
        {
            self.rebuild_index(t, INDEX_BITS_MIN, IndexSlot::new(tag_of(key.hash), entry))
        } else {
            Ok(())
        };
        if let Err(error) = indexed {
            // A full heap: without room for the index the element is taken back, and the table is as it was.
            self.region.put(t.0 + at::LAST_USED, used)?;
            self.region.put(chunk + chunk::LIVE, live)?;
            self.add_to(t.0 + at::COUNT, -1)?;
            if !key.text.is_empty() {
                self.free(words.0)?;
            }
            return Err(error);
        }
        Ok(Slot(entry + VALUE))
    }

    /// Inserts a key that is nowhere in the table, as it lies in another entry: a block with its text is this one's now.
    pub(crate) fn insert_words(&mut self, t: Table, words: KeyWords) -> Result<Slot> {
        let hash = self.entry_hash(words)?;
        self.insert(
            t,
            Key {
                words,
                text: &[],
                hash,
            },
        )
    }

    fn add_to(&mut self, offset: u64, delta: i64) -> Result<()> {
        let old: u64 = self.region.get(offset)?;
        self.region.put(offset, old.wrapping_add_signed(delta))
    }

    /// Room for one more entry at the end; returns its chunk and itself. The entry counts as used only when the caller says so.
    pub(crate) fn next_entry(&mut self, t: Table) -> Result<(u64, u64)> {
        let last: u64 = self.region.get(t.0 + at::LAST)?;
        let used = u64::from(self.region.get::<u16>(t.0 + at::LAST_USED)?);
        let capacity = u64::from(self.region.get::<u16>(t.0 + at::LAST_CAPACITY)?);
        let last = self.inside(last)?;
        if capacity > entries_in(CHUNK_BYTES[3]) {
            return Err(self
                .region
                .damaged(t.0, "a table whose last chunk is larger than chunks are"));
        }
        if last != 0 && used < capacity {
            return Ok((last, last + CHUNK_HEADER_BYTES + used * ENTRY_BYTES));
        }
        if last != 0 && capacity > 0 && self.region.get::<u16>(last + chunk::LIVE)? == 0 {
            // Nothing but holes: a queue that was emptied from its front. No slot refers to them.
            if self.region.get::<u16>(last + chunk::IN_RUN)? != 0 {
                self.run_unlist_chunk(t, None)?;
                self.region.put(last + chunk::IN_RUN, 0u16)?;
            }
            self.region.put(t.0 + at::LAST_USED, 0u16)?;
            return Ok((last, last + CHUNK_HEADER_BYTES));
        }
        let bytes = CHUNK_BYTES
            .iter()
            .copied()
            .find(|&bytes| entries_in(bytes) > capacity)
            .unwrap_or(CHUNK_BYTES[3]);
        let new = self.alloc(bytes, true)?;
        let r = &mut self.region;
        r.put(new + chunk::NEXT, 0u64)?;
        r.put(new + chunk::PREV, last)?;
        r.put(new + chunk::CAPACITY, entries_in(bytes) as u16)?;
        r.put(new + chunk::USED, 0u16)?;
        r.put(new + chunk::LIVE, 0u32)?;
        r.put(new + chunk::TABLE, t.0)?;
        if last == 0 {
            r.put(t.0 + at::FIRST, new)?;
        } else {
            r.put(last + chunk::NEXT, new)?;
            r.put(last + chunk::USED, used as u16)?;
        }
        r.put(t.0 + at::LAST, new)?;
        r.put(t.0 + at::LAST_USED, 0u16)?;
        r.put(t.0 + at::LAST_CAPACITY, entries_in(bytes) as u16)?;
        Ok((new, new + CHUNK_HEADER_BYTES))
    }

    /// Puts an entry into the index, making room where needed.
    fn index_entry(&mut self, t: Table, hash: u64, entry: u64) -> Result<()> {
        let tag = tag_of(hash);
        loop {
            let Some(segment) = self.segment(t, hash)? else {
                return Err(self
                    .region
                    .damaged(t.0, "a table without the index that it should have"));
            };
            let probes = PROBES_MAX.min(segment.mask * 3 / 4);
            for position in tag..tag + probes {
                let at = segment.slot(position);
                if self.region.get::<u64>(at)? == 0 {
                    return self.region.put(at, IndexSlot::new(tag, entry).0);
                }
            }
            self.grow_index(t, hash, segment, entry)?;
            if self.slot_of(t, hash, entry)?.is_some() {
                return Ok(()); // the small index that was made anew has it
            }
        }
    }

    #[cold]
    fn grow_index(&mut self, t: Table, hash: u64, segment: Segment, entry: u64) -> Result<()> {
        let depth: u8 = self.region.get(t.0 + at::DEPTH)?;
        if depth > 0 {
            return self.split_segment(t, hash, segment, depth);
        }
        let bits: u8 = self.region.get(t.0 + at::INDEX_BITS)?;
        if bits < SEGMENT_BITS {
            return self.rebuild_index(t, bits + 1, IndexSlot::new(tag_of(hash), entry));
        }
        // From one full-size segment to a directory of one bit, both entries naming that segment; the loop splits it.
        let directory = self.alloc(2 * DIRECTORY_ENTRY_BYTES, false)?;
        let page = (segment.offset / PAGE_BYTES) as u32;
        let r = &mut self.region;
        r.put(directory, page)?;
        r.put(directory + DIRECTORY_ENTRY_BYTES, page)?;
        r.put(t.0 + at::INDEX, directory)?;
        r.put(t.0 + at::DEPTH, 1u8)
    }

    /// Makes the one small segment anew with 2^`bits` slots (or more, if that turns out too few), of what is in it, or, for
    /// a table that had none, of every entry; and of `new`, the slot of the entry that is just being inserted. Nothing has
    /// changed when there is no room for it.
    fn rebuild_index(&mut self, t: Table, bits: u8, new: IndexSlot) -> Result<()> {
        let old: u64 = self.region.get(t.0 + at::INDEX)?;
        let mut entries = vec![new];
        if old != 0 {
            let old_bits: u8 = self.region.get(t.0 + at::INDEX_BITS)?;
            for i in 0..1 << old_bits.min(SEGMENT_BITS) {
                match self.region.get(old.wrapping_add(i * SLOT_BYTES))? {
                    0 => {}
                    slot => entries.push(IndexSlot(slot)),
                }
            }
        } else if self.region.get::<u32>(t.0 + at::RUN_COUNT)? == 0 {
            self.for_each_entry(t, &mut |entry, words| {
                if entry != new.entry() {
                    entries.push(IndexSlot::new(tag_of(self.entry_hash(words)?), entry));
                }
                if entries.len() as u64 >= SEGMENT_SLOTS {
                    return Err(self
                        .region
                        .damaged(t.0, "a table with more elements than its index says"));
                }
                Ok(())
            })?;
        }
        let (bits, slots) = (bits..SEGMENT_BITS)
            .find_map(|bits| Some((bits, place_all(&entries, bits)?)))
            .or_else(|| Some((SEGMENT_BITS, place_all(&entries, SEGMENT_BITS)?)))
            .ok_or_else(|| {
                self.region
                    .damaged(t.0, "a table without room in its index")
            })?;
        let index = self.alloc(SLOT_BYTES << bits, true)?;
        for (i, slot) in slots.into_iter().enumerate() {
            self.region.put(index + i as u64 * SLOT_BYTES, slot)?;
        }
        self.region.put(t.0 + at::INDEX, index)?;
        self.region.put(t.0 + at::INDEX_BITS, bits)?;
        if old != 0 {
            self.free(old)?;
        }
        Ok(())
    }

    /// The index slot that names `entry`: segment and position.
    fn slot_of(&self, t: Table, hash: u64, entry: u64) -> Result<Option<(Segment, u64)>> {
        let Some(segment) = self.segment(t, hash)? else {
            return Ok(None);
        };
        let wanted = IndexSlot::new(tag_of(hash), entry);
        let home = tag_of(hash);
        for position in home..=home + segment.mask {
            let found: u64 = self.region.get(segment.slot(position))?;
            if found == wanted.0 {
                return Ok(Some((segment, position & segment.mask)));
            }
            if found == 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether the index leads from its key to `entry`, which is not the run's (or there need be no index): for the check.
    pub(crate) fn is_indexed(&self, t: Table, entry: u64, words: KeyWords) -> Result<bool> {
        if self.region.get::<u64>(t.0 + at::INDEX)? == 0 {
            return Ok(self.region.get::<u32>(t.0 + at::RUN_COUNT)? == 0);
        }
        Ok(self.slot_of(t, self.entry_hash(words)?, entry)?.is_some())
    }

    /// Divides a segment by the first hash bit that its keys do not share; doubles the directory if it must.
    fn split_segment(&mut self, t: Table, hash: u64, segment: Segment, depth: u8) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(self.too_deep(t));
        }
        let mut depth = depth;
        let page = (segment.offset / PAGE_BYTES) as u32;
        let mut directory = self.inside(self.region.get(t.0 + at::INDEX)?)?;
        let mut position = hash >> (64 - u32::from(depth));
        // How many directory entries name this segment: an aligned power of two.
        let mut share = 1u64;
        while share < 1 << depth {
            let start = position & !(share * 2 - 1);
            let ends = [start, start + share * 2 - 1];
            let mut same = true;
            for end in ends {
                same &= self
                    .region
                    .get::<u32>(directory + end * DIRECTORY_ENTRY_BYTES)?
                    == page;
            }
            if !same {
                break;
            }
            share *= 2;
        }
        if share == 1 {
            // Directories have an entry for hundreds of elements. One that outgrows them is damage (or a one-in-a-universe
            // accident), and following it would fill the disk.
            let count: u64 = self.region.get(t.0 + at::COUNT)?;
            let count = count.min(self.region.end() / ENTRY_BYTES);
            if depth >= DEPTH_MAX || 1 << depth > count + 1024 {
                return Err(self
                    .region
                    .damaged(segment.offset, "a table whose keys all have the same hash"));
            }
            directory = self.double_directory(t, directory, depth)?;
            depth += 1;
            position = hash >> (64 - u32::from(depth));
            share = 2;
        }
        // Bit of the tag that decides, counted from its top: those above it are shared by the whole segment.
        let shared_bits = u32::from(depth) - share.trailing_zeros();
        let bit = TAG_BITS - 1 - shared_bits;
        let new = self.alloc(PAGE_BYTES, true)?;
        let mut halves = [
            vec![0u64; SEGMENT_SLOTS as usize],
            vec![0u64; SEGMENT_SLOTS as usize],
        ];
        for i in 0..SEGMENT_SLOTS {
            let slot = IndexSlot(self.region.get(segment.offset + i * SLOT_BYTES)?);
            if slot.0 != 0 {
                let half = &mut halves[(slot.tag() >> bit & 1) as usize];
                let mut at = slot.tag() & (SEGMENT_SLOTS - 1);
                while half[at as usize] != 0 {
                    at = (at + 1) & (SEGMENT_SLOTS - 1);
                }
                half[at as usize] = slot.0;
            }
        }
        for (half, start) in halves.iter().zip([segment.offset, new]) {
            let bytes = self.region.bytes_mut(start, PAGE_BYTES)?;
            for (slot, out) in half.iter().zip(bytes.chunks_exact_mut(SLOT_BYTES as usize)) {
                out.copy_from_slice(&slot.to_le_bytes());
            }
        }
        let first = position & !(share - 1);
        for i in first + share / 2..first + share {
            self.region.put(
                directory + i * DIRECTORY_ENTRY_BYTES,
                (new / PAGE_BYTES) as u32,
            )?;
        }
        Ok(())
    }

    fn double_directory(&mut self, t: Table, old: u64, depth: u8) -> Result<u64> {
        let entries = 1u64 << depth;
        let new = self.alloc(entries * 2 * DIRECTORY_ENTRY_BYTES, false)?;
        for i in 0..entries {
            let page: u32 = self.region.get(old + i * DIRECTORY_ENTRY_BYTES)?;
            let both = u64::from(page) << 32 | u64::from(page);
            self.region.put(new + i * 2 * DIRECTORY_ENTRY_BYTES, both)?;
        }
        self.region.put(t.0 + at::INDEX, new)?;
        self.region.put(t.0 + at::DEPTH, depth + 1)?;
        self.free(old)?;
        Ok(new)
    }

    /// Removes the element of `key`; false if there is none.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn remove(&mut self, t: Table, key: &[u8]) -> Result<bool> {
        self.places.forget_key(t.0, key);
        let key = self.key(key);
        let in_run = self.run_find_text(t, key.words)?;
        let found = match in_run {
            Some(slot) => Some(slot.0.wrapping_sub(VALUE)),
            None => self.find_entry(t, &key)?,
        };
        let Some(entry) = found else {
            return Ok(false);
        };
        if self.table_len(t)? == 1 {
            self.table_clear(t)?;
            return Ok(true);
        }
        if in_run.is_none()
            && let Some((segment, position)) = self.slot_of(t, key.hash, entry)?
        {
            self.unindex(segment, position)?;
        }
        self.free_entry(entry)?;
        self.region.put(entry + 8, u64::from(KEY_HOLE) << 56)?;
        self.add_to(t.0 + at::COUNT, -1)?;
        let chunk = self.block_at(entry)?.start;
        let live = self.region.get::<u16>(chunk + chunk::LIVE)?.wrapping_sub(1);
        self.region.put(chunk + chunk::LIVE, live)?;
        let n = in_run.and_then(|_| key.words.integer());
        match n {
            Some(n) if self.run_shorten(t, n)? => {}
            _ => self.tidy_chunk(t, chunk, live, n)?,
        }
        self.run_shrink(t, live == 0)?;
        Ok(true)
    }

    /// Frees what an entry's key and value refer to.
    fn free_entry(&mut self, entry: u64) -> Result<()> {
        let words = self.entry_words(entry)?;
        let (low, high): (u64, u64) = (
            self.region.get(entry + VALUE)?,
            self.region.get(entry + VALUE + 8)?,
        );
        if words.is_blob() {
            self.free(words.0)?;
        }
        self.free_value(low, high)
    }

    /// Empties a slot and closes the gap, so that no probe ends too early (Knuth, TAOCP 3, algorithm 6.4R).
    fn unindex(&mut self, segment: Segment, position: u64) -> Result<()> {
        let mut gap = position;
        let mut next = position;
        for _ in 0..segment.mask {
            next = (next + 1) & segment.mask;
            let slot = IndexSlot(self.region.get(segment.slot(next))?);
            if slot.0 == 0 {
                break;
            }
            let home = slot.tag() & segment.mask;
            // Movable if its home is not in (gap, next], cyclically.
            if next.wrapping_sub(home) & segment.mask >= next.wrapping_sub(gap) & segment.mask {
                self.region.put(segment.slot(gap), slot.0)?;
                gap = next;
            }
        }
        self.region.put(segment.slot(gap), 0u64)
    }

    /// After a deletion, of key `n` of the run or of another key: frees an empty chunk, or merges it with the one before if
    /// both are sparse. Entries of a run stay where they are.
    fn tidy_chunk(&mut self, t: Table, chunk: u64, live: u16, n: Option<i64>) -> Result<()> {
        let last: u64 = self.region.get(t.0 + at::LAST)?;
        if chunk == last {
            return Ok(());
        }
        let prev = self.inside(self.region.get(chunk + chunk::PREV)?)?;
        let is_in_run = self.region.get::<u16>(chunk + chunk::IN_RUN)? != 0;
        if live == 0 {
            if is_in_run {
                self.run_unlist_chunk(t, n)?;
            }
            return self.drop_chunk(t, chunk, prev);
        }
        if prev == 0 || is_in_run || self.region.get::<u16>(prev + chunk::IN_RUN)? != 0 {
            return Ok(());
        }
        let room = u64::from(self.region.get::<u16>(prev + chunk::CAPACITY)?);
        let prev_live = u64::from(self.region.get::<u16>(prev + chunk::LIVE)?);
        if prev_live + u64::from(live) > room / 2 {
            return Ok(());
        }
        // Both chunks' entries, in order, to the front of the first.
        let mut place = 0;
        for from in [prev, chunk] {
            let used = u64::from(self.region.get::<u16>(from + chunk::USED)?)
                .min(entries_in(CHUNK_BYTES[3]));
            for i in 0..used {
                let entry = from + CHUNK_HEADER_BYTES + i * ENTRY_BYTES;
                let words = self.entry_words(entry)?;
                if words.tag() == KEY_HOLE {
                    continue;
                }
                if place >= room {
                    return Err(self
                        .region
                        .damaged(prev, "a chunk with more entries than it counts"));
                }
                let to = prev + CHUNK_HEADER_BYTES + place * ENTRY_BYTES;
                place += 1;
                if to != entry {
                    self.move_entry(t, words, entry, to)?;
                }
            }
        }
        self.region.put(prev + chunk::USED, place as u16)?;
        self.region.put(prev + chunk::LIVE, place as u16)?;
        self.drop_chunk(t, chunk, prev)
    }

    fn move_entry(&mut self, t: Table, words: KeyWords, from: u64, to: u64) -> Result<()> {
        let mut buffer = [0; 16];
        let text = self.key_text(words, &mut buffer)?.to_vec();
        self.places.forget_key(t.0, &text);
        let hash = self.entry_hash(words)?;
        if let Some((segment, position)) = self.slot_of(t, hash, from)? {
            self.region
                .put(segment.slot(position), IndexSlot::new(tag_of(hash), to).0)?;
        }
        let value: u128 = self.region.get(from + VALUE)?;
        self.region.put(to, words.0)?;
        self.region.put(to + 8, words.1)?;
        self.region.put(to + VALUE, value)
    }

    /// Takes a chunk that is not the last out of the list and frees it.
    fn drop_chunk(&mut self, t: Table, chunk: u64, prev: u64) -> Result<()> {
        let next = self.inside(self.region.get(chunk + chunk::NEXT)?)?;
        self.region.put(
            if prev == 0 {
                t.0 + at::FIRST
            } else {
                prev + chunk::NEXT
            },
            next,
        )?;
        self.region.put(next + chunk::PREV, prev)?;
        self.free(chunk)
    }

    /// Removes every element.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn table_clear(&mut self, t: Table) -> Result<()> {
        self.check_table(t)?;
        // Nested tables by a list and not by recursion: depth is the data's choice.
        let mut waiting = vec![t];
        while let Some(current) = waiting.pop() {
            self.check_table(current)?;
            let nested = self.table_clear_outer(current)?;
            waiting.extend(nested);
            if current != t {
                self.free(current.0)?;
            }
        }
        Ok(())
    }

    /// Empties one table and gives the tables that were in it, which are the caller's to free: somebody may still be
    /// using them.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn table_clear_outer(&mut self, t: Table) -> Result<Vec<Table>> {
        self.places.forget_table(t.0);
        let mut blobs = Vec::new();
        let mut nested = Vec::new();
        self.for_each_entry(t, &mut |entry, words| {
            if words.is_blob() {
                blobs.push(words.0);
            }
            let high: u64 = self.region.get(entry + VALUE + 8)?;
            match (high >> 56) as u8 {
                tag if is_blob(tag) => blobs.push(self.region.get(entry + VALUE)?),
                VALUE_TABLE => nested.push(Table(self.region.get(entry + VALUE)?)),
                _ => {}
            }
            Ok(())
        })?;
        blobs.extend(self.blocks_of(t)?);
        for block in blobs {
            self.free(block)?;
        }
        self.region.bytes_mut(t.0, TABLE_BYTES)?.fill(0);
        self.region.put(t.0 + at::MAGIC, TABLE_MAGIC)?;
        Ok(nested)
    }

    /// The blocks of the table itself, without its header: chunks and index.
    pub(crate) fn blocks_of(&self, t: Table) -> Result<Vec<u64>> {
        let mut blocks = Vec::new();
        self.for_each_chunk(t, &mut |chunk, _| {
            blocks.push(chunk);
            Ok(())
        })?;
        self.for_each_index_block(t, &mut |offset| {
            blocks.push(offset);
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Frees a table with everything in it.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn table_free(&mut self, t: Table) -> Result<()> {
        self.table_clear(t)?;
        self.region.put(t.0 + at::MAGIC, 0u32)?;
        self.free(t.0)
    }
}

/// A segment of 2^`bits` slots with all of `entries`; none if one would lie too far from its home. In the largest segment
/// nothing is too far: the next insertion splits it.
fn place_all(entries: &[IndexSlot], bits: u8) -> Option<Vec<u64>> {
    let mask = (1u64 << bits) - 1;
    let probes = if bits == SEGMENT_BITS {
        mask
    } else {
        PROBES_MAX.min(mask * 3 / 4)
    };
    let mut slots = vec![0; 1 << bits];
    for entry in entries {
        let home = entry.tag();
        let free = (home..home + probes).find(|&at| slots[(at & mask) as usize] == 0)?;
        slots[(free & mask) as usize] = entry.0;
    }
    Some(slots)
}

/// Entries that fit in a chunk of `bytes`.
pub(crate) const fn entries_in(bytes: u64) -> u64 {
    (bytes - CHUNK_HEADER_BYTES) / ENTRY_BYTES
}
