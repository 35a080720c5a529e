//! What a program makes from texts while it runs (regular expressions, formats), kept for the next time.
//!
//! Invariant: all that is kept takes about [`BYTES_MAX`] at most, whatever the texts are, what searches have built for it
//! included; what would take more begins again from nothing. Called by `vm::strings` alone.

use std::collections::HashMap;
use std::rc::Rc;

use crate::format::Format;
use crate::regex::Regex;

/// More texts than this are no small set that comes again.
const COUNT_MAX: usize = 500;

/// Bytes of all that is kept of one kind.
const BYTES_MAX: usize = 64 << 20;

/// What an entry takes besides its text and itself: the place in the map, allocations.
const ENTRY_BYTES: usize = 200;

/// Something that can say what it takes, in bytes; it may grow with use.
pub(super) trait Weigh {
    fn memory_bytes(&self) -> usize;
}

impl Weigh for Regex {
    fn memory_bytes(&self) -> usize {
        Regex::memory_bytes(self)
    }
}

impl Weigh for Format {
    fn memory_bytes(&self) -> usize {
        Format::memory_bytes(self)
    }
}

struct Entry<T> {
    made: Rc<T>,
    /// When it was last weighed.
    bytes: usize,
}

/// See the top of the file.
pub(super) struct Kept<T> {
    entries: HashMap<Vec<u8>, Entry<T>>,
    /// Sum of what the entries took when they were last weighed.
    bytes: usize,
    /// What was kept last: it is weighed again when the next comes, since most grow at their first use.
    last: Vec<u8>,
    /// Uses until the next one is weighed again.
    unweighed: u32,
    random: u32,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        Kept {
            entries: HashMap::new(),
            bytes: 0,
            last: Vec::new(),
            unweighed: 0,
            random: 1,
        }
    }
}

impl<T: Weigh> Kept<T> {
    /// What was made from `text`.
    pub(super) fn get(&mut self, text: &[u8]) -> Option<Rc<T>> {
        let entry = self.entries.get_mut(text)?;
        let made = entry.made.clone();
        match self.unweighed.checked_sub(1) {
            Some(left) => self.unweighed = left,
            None => {
                // At uneven distances, so that each is weighed now and then, in whatever order they are used.
                self.random = self
                    .random
                    .wrapping_mul(1_664_525)
                    .wrapping_add(1_013_904_223);
                self.unweighed = self.random >> 28;
                self.bytes += entry.weigh();
                if self.bytes > BYTES_MAX {
                    self.forget();
                }
            }
        }
        Some(made)
    }

    /// Keeps what was made from `text`.
    pub(super) fn keep(&mut self, text: &[u8], made: Rc<T>) {
        if let Some(last) = self.entries.get_mut(&self.last) {
            self.bytes += last.weigh();
        }
        let mut entry = Entry { made, bytes: 0 };
        let bytes = text.len() + ENTRY_BYTES + entry.weigh();
        if self.entries.len() >= COUNT_MAX || self.bytes + bytes > BYTES_MAX {
            self.forget();
        }
        self.bytes += bytes;
        self.last.clear();
        self.last.extend_from_slice(text);
        self.entries.insert(text.to_vec(), entry);
    }

    fn forget(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

impl<T: Weigh> Entry<T> {
    /// How much it has grown since it was last weighed. Nothing that is kept shrinks.
    fn weigh(&mut self) -> usize {
        let bytes = self.made.memory_bytes();
        let grown = bytes.saturating_sub(self.bytes);
        self.bytes += grown;
        grown
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    struct Weight(Cell<usize>);

    impl Weigh for Weight {
        fn memory_bytes(&self) -> usize {
            self.0.get()
        }
    }

    fn total(kept: &Kept<Weight>) -> usize {
        kept.entries.values().map(|e| e.made.0.get()).sum()
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_bytes() {
        let mut kept = Kept::default();
        for n in 0..10_000 {
            kept.keep(
                format!("{n}").as_bytes(),
                Rc::new(Weight(Cell::new(1 << 20))),
            );
            assert!(total(&kept) <= BYTES_MAX + (1 << 20));
        }
        assert!(kept.get(b"9999").is_some());
        assert!(kept.get(b"1").is_none());
        let mut kept = Kept::default();
        for n in 0..10_000 {
            kept.keep(format!("{n}").as_bytes(), Rc::new(Weight(Cell::new(1))));
            assert!(kept.entries.len() <= COUNT_MAX);
        }
    }

    #[test]
    fn what_grows_with_use_is_bounded() {
        let mut kept = Kept::default();
        for turn in 0..100 {
            for n in 0..400 {
                let text = format!("{n}");
                let made = kept.get(text.as_bytes()).unwrap_or_else(|| {
                    let made = Rc::new(Weight(Cell::new(1000)));
                    kept.keep(text.as_bytes(), made.clone());
                    made
                });
                made.0.set(made.0.get() + 20_000);
                assert!(
                    total(&kept) < 3 * BYTES_MAX,
                    "turn {turn}: {}",
                    total(&kept)
                );
            }
        }
    }
}
