//! Where regions lie in this process that programs store to by address, so that marks find them.
//!
//! The invariant: a place has an end exactly as long as its region's marks live.

use crate::card_space;
use crate::marks::Marks;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// How many regions of a process can be stored to by address at a time.
const REGIONS_MAX: usize = 64;

/// A region in memory. Read by any thread and by signal handlers at any time: so no lock, and nothing that moves.
struct Place {
    start: AtomicUsize,
    end: AtomicUsize,
    marks: AtomicPtr<Marks>,
}

static PLACES: [Place; REGIONS_MAX] = [const {
    Place {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        marks: AtomicPtr::new(std::ptr::null_mut()),
    }
}; REGIONS_MAX];
/// Held while a place is taken or left.
static CHANGING: Mutex<()> = Mutex::new(());
/// Places beyond this number were never taken.
static PLACES_USED: AtomicUsize = AtomicUsize::new(0);

/// Marks that are found by address, as long as this lives.
pub(crate) struct Listed {
    marks: Box<Marks>,
    place: &'static Place,
}

impl Listed {
    /// None if there are too many already.
    pub(crate) fn new(marks: Marks) -> Option<Listed> {
        let _changing = CHANGING.lock().unwrap_or_else(|e| e.into_inner());
        let mut marks = Box::new(marks);
        let index = PLACES
            .iter()
            .position(|place| place.end.load(Ordering::Relaxed) == 0)?;
        let place = &PLACES[index];
        place.marks.store(&raw mut *marks, Ordering::Release);
        place.start.store(marks.start, Ordering::Release);
        let end = marks.start + marks.len() as usize;
        place.end.store(end, Ordering::Release);
        PLACES_USED.fetch_max(index + 1, Ordering::Release);
        Some(Listed { marks, place })
    }

    /// The region is `len` bytes long from now on; false if there is no room for cards.
    pub(crate) fn grow(&mut self, len: u64) -> bool {
        if !self.marks.grow(len) {
            return false;
        }
        let end = self.marks.start + len as usize;
        self.place.end.store(end, Ordering::Release);
        true
    }

    #[inline]
    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let _changing = CHANGING.lock().unwrap_or_else(|e| e.into_inner());
        self.place.end.store(0, Ordering::Release);
    }
}

/// Notes that a program stores to `len` bytes at `address`; nothing where no region lies. Takes no lock and no memory, so signal handlers may call
/// it. The region must not be closed meanwhile.
pub fn mark_address(address: usize, len: usize) {
    card_space::settle(address as u64);
    card_space::settle((address as u64).saturating_add((len as u64).saturating_sub(1)));
    let used = PLACES_USED.load(Ordering::Acquire);
    for place in PLACES.iter().take(used) {
        let end = place.end.load(Ordering::Acquire);
        let start = place.start.load(Ordering::Acquire);
        if address >= end || address.saturating_add(len) <= start {
            continue;
        }
        // SAFETY: a place that is taken has marks, which live until it is left, and who stores to a region does not close it.
        if let Some(marks) = unsafe { place.marks.load(Ordering::Acquire).as_ref() } {
            let from = address.max(start);
            let to = address.saturating_add(len);
            marks.mark((from - start) as u64, (to - from) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::PAGE_BYTES;
    use crate::map::Map;

    #[test]
    fn marks_are_found_from_the_top_and_forgotten() {
        let len = 1 << 32;
        let memory = Map::reserve_exact(len).unwrap();
        let start = memory.base() as usize;
        let listed = Listed::new(Marks::new(start, len).unwrap()).unwrap();
        let marks = listed.marks();
        assert!(marks.marked_pages(len).is_empty());
        mark_address(start + 4096 * 3 + 63, 2);
        mark_address(start + 4096 * 700, 4096 * 2 + 1);
        mark_address(start + len as usize - 1, 1 << 20); // as far as it is the region's
        mark_address(start - 100, 101);
        mark_address(start + len as usize, 8);
        let found = marks.marked_pages(len);
        assert_eq!(found, [0, 3, 700, 701, 702, len / PAGE_BYTES - 1]);
        assert_eq!(marks.marked_pages(702 * PAGE_BYTES), [0, 3, 700, 701]);
        assert_eq!(marks.lines_of(0), 1);
        assert_eq!(marks.lines_of(3), 0b11);
        assert_eq!(marks.lines_of(701), u64::MAX);
        assert_eq!(marks.lines_of(702), 1);
        assert_eq!(marks.lines_of(len / PAGE_BYTES - 1), 1 << 63);
        for line in 0..64 {
            mark_address(start + 9 * 4096 + line * 64, 1);
            assert_eq!(marks.lines_of(9), u64::MAX >> (63 - line));
        }
        marks.clear();
        assert!(marks.marked_pages(len).is_empty());
        assert_eq!(marks.lines_of(701), 0);
    }

    #[test]
    fn threads_mark_side_by_side() {
        let len = 1 << 30;
        let memory = Map::reserve_exact(len).unwrap();
        let start = memory.base() as usize;
        let listed = Listed::new(Marks::new(start, len).unwrap()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for i in 0..10_000 {
                        mark_address(start + (i * 4 + thread) * 64, 8);
                    }
                });
            }
        });
        let found = listed.marks().marked_pages(len);
        assert_eq!(found.len(), 40_000 / 64);
        assert!(
            found
                .iter()
                .all(|&page| listed.marks().lines_of(page) == u64::MAX)
        );
    }
}
