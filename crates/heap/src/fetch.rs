//! Elements asked for before they are needed: who knows the next keys lets the processor fetch what a look-up will touch, one
//! after the other: the slot of the index, the entry, the text of a long key.
//!
//! Nothing here has an effect on meaning; damage is passed over in silence, since the look-up will find it.

use crate::table::Table;
use crate::{Heap, Result};

/// What the index knows a key by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyHash(u64);

impl Heap {
    /// Whether a table has at least `count` elements; false for what is none.
    #[inline]
    pub fn is_table_large(&self, t: Table, count: u64) -> bool {
        self.table_len(t).is_ok_and(|len| len >= count)
    }

    /// The hash of a key, for any table of this heap.
    #[inline]
    pub fn key_hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(self.hash_of(key))
    }

    /// Fetches the slot where a look-up begins.
    #[inline]
    pub fn fetch_slot(&self, t: Table, hash: KeyHash) {
        if let Ok(Some(slot)) = self.home_slot(t, hash.0) {
            self.region.prefetch(slot);
        }
    }

    /// Fetches the entry that the slot names; to be called when that has come.
    #[inline]
    pub fn fetch_entry(&self, t: Table, hash: KeyHash) {
        if let Ok(Some(entry)) = self.home_entry(t, hash) {
            self.region.prefetch(entry);
        }
    }

    /// Fetches the text of the entry's key, if it is a long one; to be called when the entry has come.
    #[inline]
    pub fn fetch_text(&self, t: Table, hash: KeyHash) {
        if let Ok(Some(entry)) = self.home_entry(t, hash)
            && let Ok(words) = self.entry_words(entry)
            && words.is_blob()
        {
            self.region.prefetch(words.blob().0);
        }
    }

    #[inline]
    fn home_entry(&self, t: Table, hash: KeyHash) -> Result<Option<u64>> {
        match self.home_slot(t, hash.0)? {
            Some(slot) => self.entry_in_slot(slot, hash.0),
            None => Ok(None),
        }
    }
}
