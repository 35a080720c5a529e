//! Cards of all addresses: what lets instrumented code look at the card of any store without asking first whether a heap lies there.
//!
//! A look costs one load and one branch then, in heaps and elsewhere. Address space for a card of each line of the 47 bits that
//! programs have is reserved, and memory is used of it where cards were set: where no heap can lie, a sixty-fourth of what is stored to.
//!
//! In a process without instrumented code nobody looks there, and nothing is reserved: each region has cards of its own, elsewhere. (valgrind keeps
//! books on all that is mapped.)
//!
//! The invariant: in the arena a card is set only by a mark of the region that lies there; all others are set for good, in blocks, when
//! the first of a block is asked for.

use crate::layout::{LINE_BYTES, PAGE_BYTES, arena};
use crate::map::Map;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

struct Space {
    /// Where the kernel counts all memory that could be written to (`vm.overcommit_memory = 2`) the cards are read-only at first.
    is_writable: bool,
}

/// Not set: nobody asked for it. None: there is no room for it, and instrumented programs cannot run. Then a region brings its own cards.
static SPACE: OnceLock<Option<Space>> = OnceLock::new();

/// Memory that one page of cards stands for.
const BLOCK_BYTES: u64 = PAGE_BYTES * LINE_BYTES;
/// So many cards are made writable at a time: each time costs a mapping.
const STEP_BYTES: u64 = 2 << 20;
/// All cards.
const SPACE_BYTES: u64 = arena::card(arena::ADDRESSES_END) - arena::card(0);

/// Reserves the cards, if that was not tried before; whether they are there. Before any instrumented code runs. Regions that lie in the arena by then
/// keep cards of their own (a program loads an instrumented library): its marks take longer there, as no card is set where it looks.
pub fn reserve_card_space() -> bool {
    space().is_some()
}

fn space() -> Option<&'static Space> {
    SPACE
        .get_or_init(|| {
            let len = SPACE_BYTES;
            let writable = Map::reserve_at(arena::card(0), len).map(|map| (map, true));
            let (map, is_writable) = writable
                .or_else(|_| Map::reserve_read_only_at(arena::card(0), len).map(|map| (map, false)))
                .ok()?;
            map.use_sparsely();
            map.leave_for_ever();
            Some(Space { is_writable })
        })
        .as_ref()
}

/// The cards of `len` bytes at `address`, in the arena and not set; None if there is no room for them, or they cannot be made writable. Where nobody asked
/// for the space they lie behind it, each region's where no other's can, so that they may grow.
pub(crate) fn window(address: u64, len: u64) -> Option<Map> {
    debug_assert_eq!(address >> arena::SHIFT, 1);
    let cards = arena::card(address)..arena::card(address + len);
    // ThreadSanitizer leaves no room behind it.
    let space = match cfg!(tsan) {
        true => space()?,
        false => match SPACE.get() {
            Some(space) => space.as_ref()?,
            None => {
                let own = Map::reserve_at(cards.start + SPACE_BYTES, cards.end - cards.start);
                return own.inspect(Map::use_sparsely).ok();
            }
        },
    };
    if !space.is_writable && !make_writable(cards.start, cards.end - cards.start) {
        return None;
    }
    let mut map = Map::lent(cards.start, cards.end - cards.start);
    // Of a region that lay here before.
    map.drop_pages(0, map.len()).ok()?;
    Some(map)
}

/// Whether the cards of `len` bytes at `address` in the arena are set, all of them. False also where nobody can tell. Takes no lock and no memory.
#[inline]
pub(crate) fn are_set(address: u64, len: u64) -> bool {
    let end = address.saturating_add(len);
    if address >> arena::SHIFT != 1 || end.saturating_sub(1) >> arena::SHIFT != 1 || len == 0 {
        return false;
    }
    if !matches!(SPACE.get(), Some(Some(_))) {
        return false;
    }
    const SET: u64 = 0x0101_0101_0101_0101;
    let (mut card, end) = (arena::card(address), arena::card(end - 1) + 1);
    while card < end {
        let is_word = card.is_multiple_of(8) && card + 8 <= end;
        // SAFETY: cards, mapped for ever and readable; words of them are aligned.
        let is_set = unsafe {
            if is_word {
                let word = std::ptr::with_exposed_provenance_mut(card as usize);
                AtomicU64::from_ptr(word).load(Ordering::Relaxed) == SET
            } else {
                let byte = std::ptr::with_exposed_provenance_mut(card as usize);
                AtomicU8::from_ptr(byte).load(Ordering::Relaxed) != 0
            }
        };
        if !is_set {
            return false;
        }
        card += if is_word { 8 } else { 1 };
    }
    true
}

/// Nothing needs to be known of stores to `address` and what lies around it, if no region can lie there: its card and its neighbours' are set, so
/// that nobody comes here again. Takes no lock and no memory; signal handlers may call it.
pub(crate) fn settle(address: u64) {
    if address >> arena::SHIFT == 1 || address >= arena::ADDRESSES_END {
        return;
    }
    let Some(Some(space)) = SPACE.get() else {
        return;
    };
    let page = arena::card(address / BLOCK_BYTES * BLOCK_BYTES);
    if !space.is_writable {
        let step = page / STEP_BYTES * STEP_BYTES;
        if !make_writable(step, STEP_BYTES) {
            return; // not set: the next store comes here again
        }
    }
    for word in (page..page + PAGE_BYTES).step_by(8) {
        // SAFETY: cards, mapped for ever and aligned; whoever looks at them at the same time finds 0 or 1, and either is right.
        let word =
            unsafe { AtomicU64::from_ptr(std::ptr::with_exposed_provenance_mut(word as usize)) };
        word.store(0x0101_0101_0101_0101, Ordering::Relaxed);
    }
}

fn make_writable(cards: u64, len: u64) -> bool {
    // SAFETY: a part of the space, which is ours for ever; nobody borrows from it.
    let code = unsafe {
        libc::mprotect(
            std::ptr::with_exposed_provenance_mut(cards as usize),
            len as usize,
            libc::PROT_READ | libc::PROT_WRITE,
        )
    };
    code == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card_of(address: u64) -> u8 {
        // SAFETY: the space is reserved (the test has seen to it).
        unsafe { *std::ptr::with_exposed_provenance::<u8>(arena::card(address) as usize) }
    }

    /// Where no heap can lie a card is set once for its block; in the arena never, and beyond all addresses there is none.
    #[test]
    fn cards_outside_the_arena_are_set_for_good() {
        assert!(reserve_card_space() && reserve_card_space());
        let foreign = 0x7123_4567_8000_u64;
        assert_eq!(card_of(foreign), 0);
        settle(foreign + 77);
        let block = foreign / BLOCK_BYTES * BLOCK_BYTES;
        assert_eq!(card_of(foreign), 1);
        assert_eq!([card_of(block), card_of(block + BLOCK_BYTES - 1)], [1, 1]);
        assert_eq!([card_of(block - 1), card_of(block + BLOCK_BYTES)], [0, 0]);
        settle(0);
        assert_eq!(card_of(64), 1);
        settle(arena::START);
        settle(arena::HOME_LAST + 5);
        assert_eq!(
            [card_of(arena::START), card_of(arena::HOME_LAST + 5)],
            [0, 0]
        );
        settle(arena::ADDRESSES_END - 1);
        assert_eq!(card_of(arena::ADDRESSES_END - 1), 1);
        settle(arena::ADDRESSES_END);
        settle(u64::MAX);
    }

    /// Each line counts, also at the ends, where cards are not read in words.
    #[test]
    fn cards_are_set_if_all_are() {
        assert!(reserve_card_space());
        let home = arena::HOME_FIRST + 9 * arena::HOME_STEP;
        let mut map = window(home, 1 << 20).unwrap();
        map.slice_mut(3, 53).fill(1);
        let (start, len) = (home + 3 * LINE_BYTES, 50 * LINE_BYTES);
        assert!(are_set(start, len) && are_set(start + 63, 1) && are_set(start + 70, 9));
        assert!(!are_set(start - 1, 2) && !are_set(start, len + 1) && !are_set(start, 0));
        for card in 3..53 {
            map.slice_mut(card, card + 1).fill(0);
            assert!(!are_set(start, len), "card {card}");
            map.slice_mut(card, card + 1).fill(1);
        }
        settle(0x7123_0000_0000);
        assert!(!are_set(0x7123_0000_0000, 64) && !are_set(start, u64::MAX));
    }

    #[test]
    fn a_region_finds_no_cards_of_the_one_before() {
        assert!(reserve_card_space());
        let home = arena::HOME_FIRST + 7 * arena::HOME_STEP;
        let mut map = window(home, 1 << 20).unwrap();
        map.slice_mut(0, 1 << 14).fill(1);
        drop(map);
        let map = window(home, 1 << 20).unwrap();
        assert!(map.slice(0, 1 << 14).iter().all(|card| *card == 0));
    }
}
