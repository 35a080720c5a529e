//! Elements asked for before they are needed: who knows the next keys lets the processor fetch what a look-up will touch, one
//! after the other: the slot of the index, the entry, the text of a long key.
//!
//! Nothing here has an effect on meaning; damage is passed over in silence, since the look-up will find it.

use crate::cell::{KeyWords, Slot};
use crate::layout::VALUE;
use crate::table::Table;
use crate::{Heap, Result};

/// A key whose element is on its way.
#[derive(Clone, Copy, Debug)]
pub struct Fetched {
    words: KeyWords,
    hash: u64,
    /// The slot where a search begins; 0 if there is none.
    slot: u64,
    /// Slots from there to the end of its segment, of which the next may be another table's.
    slots: u64,
    /// The entry that seems to be the key's; 0 if it is not known.
    entry: u64,
}

impl Default for Fetched {
    fn default() -> Fetched {
        Fetched {
            words: KeyWords(0, u64::MAX), // no key's
            hash: 0,
            slot: 0,
            slots: 0,
            entry: 0,
        }
    }
}

impl Heap {
    /// Whether a table has at least `count` elements; false for what is none.
    #[inline]
    pub fn is_table_large(&self, t: Table, count: u64) -> bool {
        self.table_len(t).is_ok_and(|len| len >= count)
    }

    /// Fetches the slot where a look-up of `key` begins.
    #[inline]
    pub fn fetch(&self, t: Table, key: &[u8]) -> Fetched {
        let (words, hash) = self.words_and_hash(key);
        self.fetch_words(t, words, hash)
    }

    /// The same for the key that lies at `at..at + len` of `text`: quicker where more text lies behind it.
    #[inline]
    pub fn fetch_within(&self, t: Table, text: &[u8], at: usize, len: usize) -> Fetched {
        match KeyWords::inline_within(text, at, len) {
            Some(words) => self.fetch_words(t, words, self.hash_words(words)),
            None => self.fetch(t, text.get(at..at + len).unwrap_or_default()),
        }
    }

    #[inline(always)]
    fn fetch_words(&self, t: Table, words: KeyWords, hash: u64) -> Fetched {
        let (slot, slots) = self.home_slot(t, hash).ok().flatten().unwrap_or((0, 0));
        self.region.prefetch(slot);
        Fetched {
            words,
            hash,
            slot,
            slots,
            entry: 0,
        }
    }

    /// Fetches the entry that the slot names; to be called when that has come.
    #[inline]
    pub fn fetch_entry(&self, fetched: &Fetched) {
        if fetched.slot != 0
            && let Ok(Some(entry)) = self.entry_in_slot(fetched.slot, fetched.hash)
        {
            self.region.prefetch(entry);
        }
    }

    /// Fetches the text of the entry's key, if it is a long one; to be called when the entry has come.
    #[inline]
    pub fn fetch_text(&self, fetched: &Fetched) {
        if fetched.words.is_blob()
            && let Ok(Some(entry)) = self.entry_in_slot(fetched.slot, fetched.hash)
            && let Ok(words) = self.entry_words(entry)
            && words.is_blob()
        {
            self.region.prefetch(words.blob().0);
        }
    }

    /// As [`Heap::fetch_entry`], and notes the entry for [`Heap::entry_of_fetched`]: the table must be as it was when the key
    /// was fetched.
    #[inline]
    pub fn find_ahead(&self, fetched: &mut Fetched) {
        if fetched.slot != 0
            && let Some(entry) = self.entry_near_slot(fetched.slot, fetched.slots, fetched.hash)
        {
            fetched.entry = entry;
            self.region.prefetch(entry);
        }
    }

    /// Fetches the text of the key of the entry that [`Heap::find_ahead`] noted, if it is a long one.
    #[inline]
    pub fn fetch_text_ahead(&self, fetched: &Fetched) {
        if fetched.words.is_blob()
            && fetched.entry != 0
            && let Ok(words) = self.entry_words(fetched.entry)
        {
            self.region.prefetch(words.0);
        }
    }

    /// As [`Heap::entry`], without hashing the key again if it is the one that was fetched.
    ///
    /// # Errors
    /// As [`Heap::entry`].
    #[inline]
    pub fn entry_fetched(&mut self, t: Table, key: &[u8], fetched: &Fetched) -> Result<Slot> {
        match KeyWords::inline(key) {
            Some(words) if words == fetched.words => {
                self.entry_of_words(t, words, &[], fetched.hash)
            }
            _ => self.entry(t, key),
        }
    }

    /// As [`Heap::entry`] for the key that was fetched for this table; since then no element was removed from it.
    ///
    /// # Errors
    /// As [`Heap::entry`].
    #[inline]
    pub fn entry_of_fetched(&mut self, t: Table, key: &[u8], fetched: &Fetched) -> Result<Slot> {
        if fetched.entry != 0 && self.entry_is(fetched.entry, fetched.words, key)? {
            return Ok(Slot(fetched.entry + VALUE));
        }
        self.entry_of_words(t, fetched.words, key, fetched.hash)
    }
}
