//! Where regions lie in this process that programs store to by address, so that marks find them.
//!
//! The invariant: a place has an end exactly as long as its region's marks live.

use crate::card_space;
use crate::layout::LINE_BYTES;
use crate::marks::Marks;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};

/// How many regions of a process can be stored to by address at a time.
const REGIONS_MAX: usize = 64;

/// A region in memory. Read by any thread and by signal handlers at any time: so no lock, and nothing that moves.
struct Place {
    /// Odd while the others are changed, and another number afterwards: who reads them and finds it as before has read what belongs together.
    version: AtomicUsize,
    start: AtomicUsize,
    end: AtomicUsize,
    marks: AtomicPtr<Marks>,
}

static PLACES: [Place; REGIONS_MAX] = [const {
    Place {
        version: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        marks: AtomicPtr::new(std::ptr::null_mut()),
    }
}; REGIONS_MAX];
impl Place {
    /// Under `CHANGING`.
    fn change(&self, start: usize, end: usize, marks: *mut Marks) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        self.marks.store(marks, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.version.store(version + 2, Ordering::Release);
    }

    /// Start, end and marks; none while it is changed. (To wait would be for ever in a handler that interrupts who changes it; nobody stores
    /// to a region that is being opened or closed.)
    fn read(&self) -> Option<(usize, usize, *mut Marks)> {
        loop {
            let version = self.version.load(Ordering::Acquire);
            if !version.is_multiple_of(2) {
                return None;
            }
            let start = self.start.load(Ordering::Relaxed);
            let end = self.end.load(Ordering::Relaxed);
            let marks = self.marks.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return Some((start, end, marks));
            }
        }
    }
}

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
        let end = marks.start + marks.len() as usize;
        place.change(marks.start, end, &raw mut *marks);
        PLACES_USED.fetch_max(index + 1, Ordering::Release);
        Some(Listed { marks, place })
    }

    /// The region is `len` bytes long from now on; false if there is no room for cards.
    pub(crate) fn grow(&mut self, len: u64) -> bool {
        if !self.marks.grow(len) {
            return false;
        }
        let end = self.marks.start + len as usize;
        self.place.end.store(end, Ordering::Release); // alone, and only more
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
        self.place.change(0, 0, std::ptr::null_mut());
    }
}

/// Notes that a program stores to `len` bytes at `address`; nothing where no region lies. Takes no lock and no memory, so signal handlers may call
/// it. The region must not be closed meanwhile.
pub fn mark_address(address: usize, len: usize) {
    // Copies within what was changed already are many: whoever sees the cards set may leave it at that.
    if len == 0 || card_space::are_set(address as u64, len as u64) {
        return;
    }
    card_space::settle(address as u64);
    card_space::settle((address as u64).saturating_add((len as u64).saturating_sub(1)));
    let used = PLACES_USED.load(Ordering::Acquire);
    for place in PLACES.iter().take(used) {
        let Some((start, end, marks)) = place.read() else {
            continue;
        };
        if address >= end || address.saturating_add(len) <= start {
            continue;
        }
        // SAFETY: a place that is taken has marks, which live until it is left, and who stores to a region does not close it.
        if let Some(marks) = unsafe { marks.as_ref() } {
            let from = address.max(start);
            let to = address.saturating_add(len);
            marks.mark((from - start) as u64, (to - from) as u64);
        }
    }
}

/// The same for the lines from the first to the last: addresses in lines.
pub fn mark_lines(first: usize, last: usize) {
    let line = LINE_BYTES as usize;
    mark_address(
        first.wrapping_mul(line),
        (last.wrapping_sub(first) + 1) * line,
    );
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
        mark_lines((start + 4096 * 5) / 64, (start + 4096 * 6) / 64);
        mark_address(start + len as usize, 8);
        let found = marks.marked_pages(len);
        assert_eq!(found, [0, 3, 5, 6, 700, 701, 702, len / PAGE_BYTES - 1]);
        assert_eq!(marks.marked_pages(702 * PAGE_BYTES), [0, 3, 5, 6, 700, 701]);
        assert_eq!((marks.lines_of(5), marks.lines_of(6)), (u64::MAX, 1));
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

    /// Regions come and go in the same places while another is stored to.
    #[test]
    fn a_region_is_found_while_others_come_and_go() {
        let len = 1 << 20;
        let memory = Map::reserve_exact(4 * len).unwrap();
        let start = memory.base() as usize;
        let at = |part: usize| start + part * len as usize;
        let stays = Listed::new(Marks::new(at(0), len).unwrap()).unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 0..20_000 {
                    drop(Listed::new(Marks::new(at(1 + i % 3), len).unwrap()).unwrap());
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                for line in 0..64 {
                    mark_address(at(0) + line * 64, 8);
                }
                assert_eq!(stays.marks().lines_of(0), u64::MAX);
                stays.marks().clear();
            }
        });
    }
}
