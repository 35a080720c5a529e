//! Models: files of the library in which threads share data, as they are, run by shuttle in many thousands of the orders that the threads may take,
//! drawn evenly and with few switches (PCT), where mistakes are found soonest.
//!
//! The files take what they share by from `crate::sync`, which is shuttle's here. Pages are smaller, so that a run is short. That a load may give
//! an older value than the last is not modelled. (loom models that, but 0.7.2 overlooks orders: of a load by one thread, and a load and then a
//! store by another, it tries one; so it found nothing wrong with cards that are set before their summaries.)

#![allow(clippy::print_stdout)] // for people

use shuttle::sync::Arc;
use shuttle::thread;
use std::process::ExitCode;
use sync::atomic::{AtomicU64, Ordering};

mod sync {
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, atomic};
    pub(crate) use shuttle::thread_local;
}

mod error {
    #[derive(Debug)]
    pub(crate) struct Error;
}

mod layout {
    pub(crate) const LINE_BYTES: u64 = 64;
    pub(crate) const PAGE_LINES: u64 = 8;
    pub(crate) const PAGE_BYTES: u64 = PAGE_LINES * LINE_BYTES;
    pub(crate) const RESERVE_BYTES_MAX: u64 = 4 * PAGE_BYTES;
    pub(crate) mod arena {
        pub(crate) const SHIFT: u32 = 44;
    }
}

/// Memory of as many bytes as a model looks at.
mod map {
    use crate::error::Error;
    use crate::sync::atomic::{AtomicU8, Ordering};

    pub(crate) struct Map {
        bytes: Vec<AtomicU8>,
    }

    const MODELLED: u64 = 24;

    impl Map {
        pub(crate) fn reserve_exact(len: u64) -> Result<Map, Error> {
            let bytes = (0..len.min(MODELLED)).map(|_| AtomicU8::new(0));
            Ok(Map {
                bytes: bytes.collect(),
            })
        }

        pub(crate) fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        pub(crate) fn grow(&mut self, _len: u64) -> bool {
            false
        }

        pub(crate) fn append(&mut self, _more: Map) -> bool {
            false
        }

        pub(crate) fn byte(&self, index: u64) -> &AtomicU8 {
            &self.bytes[index as usize]
        }

        pub(crate) fn eight(&self, index: u64) -> Eight<'_> {
            Eight(&self.bytes[index as usize..(index as usize + 8).min(self.bytes.len())])
        }
    }

    /// One by one, which is less than what a processor promises of a word.
    pub(crate) struct Eight<'a>(&'a [AtomicU8]);

    impl Eight<'_> {
        pub(crate) fn load(&self, order: Ordering) -> u64 {
            let bytes = self.0.iter().enumerate();
            bytes.fold(0, |word, (i, byte)| {
                word | u64::from(byte.load(order)) << (8 * i)
            })
        }

        pub(crate) fn store(&self, word: u64, order: Ordering) {
            for (i, byte) in self.0.iter().enumerate() {
                byte.store((word >> (8 * i)) as u8, order);
            }
        }
    }
}

/// Regions of the models lie outside the arena.
mod card_space {
    use crate::map::Map;

    pub(crate) fn window(_address: u64, _len: u64) -> Option<Map> {
        None
    }
}

#[allow(dead_code, unused_imports)] // what the models do not need of it; its own tests
#[path = "../src/gate.rs"]
mod gate;
#[allow(dead_code)] // what the models do not need of it
#[path = "../../region/src/marks.rs"]
mod marks;

use gate::{Gate, Shared};
use layout::{LINE_BYTES, PAGE_BYTES};
use marks::Marks;

const LEN: u64 = 2 * PAGE_BYTES;

fn marks() -> Marks {
    Marks::new(0x7000_0000, LEN).expect("room")
}

/// As instrumented code does before it stores to a line: a look, and a mark where it is needed.
fn mark_as_code_does(marks: &Marks, line: u64) {
    let page = line * LINE_BYTES / PAGE_BYTES;
    let is_marked = marks.lines_of(page) >> (line % layout::PAGE_LINES) & 1 == 1;
    if !is_marked {
        marks.mark(line * LINE_BYTES, 1);
    }
}

/// The marked lines of the region, found as a commit finds them.
fn collect(marks: &Marks) -> Vec<u64> {
    let mut lines = Vec::new();
    for page in marks.marked_pages(LEN) {
        let mask = marks.lines_of(page);
        lines.extend(
            (0..layout::PAGE_LINES)
                .filter(|i| mask >> i & 1 == 1)
                .map(|i| page * layout::PAGE_LINES + i),
        );
    }
    lines
}

/// Whoever sees a card may store without a mark of its own: the commit after it finds the line, although whoever set the card may not be done.
fn who_sees_a_card_may_rely_on_its_summaries() {
    let marks = Arc::new(marks());
    let theirs = marks.clone();
    let thread = thread::spawn(move || theirs.mark(3 * LINE_BYTES, 1));
    if marks.lines_of(0) == 1 << 3 {
        assert_eq!(collect(&marks), [3]);
    }
    thread.join().expect("no panic");
    assert_eq!(collect(&marks), [3]);
}

/// Threads that mark lines of one page, of two, and the same line: all are found when they are done.
fn marks_of_several_threads_are_found() {
    let marks = Arc::new(marks());
    let threads = [[3, 11], [3, 4]].map(|lines| {
        let marks = marks.clone();
        thread::spawn(move || {
            lines
                .iter()
                .for_each(|&line| mark_as_code_does(&marks, line))
        })
    });
    for thread in threads {
        thread.join().expect("no panic");
    }
    assert_eq!(collect(&marks), [3, 4, 11]);
    marks.clear();
    assert!(collect(&marks).is_empty());
}

/// A thread stores in sections while another one commits: what was stored is in one of the commits, and the marks of it are there until then.
fn no_store_is_lost_between_two_commits() {
    let shared = Arc::new((
        Gate::default(),
        marks(),
        AtomicU64::new(0),
        AtomicU64::new(0),
    ));
    let commit = |(gate, marks, stored, committed): &(Gate, Marks, AtomicU64, AtomicU64)| {
        let cut = gate.alone::<(), ()>(false, || {
            if collect(marks).contains(&2) {
                committed.store(stored.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            marks.clear();
            Ok(())
        });
        assert!(cut.is_ok());
    };
    let theirs = shared.clone();
    let thread = thread::spawn(move || {
        let (gate, marks, stored, _) = &*theirs;
        for value in 1..3 {
            gate.begin();
            mark_as_code_does(marks, 2);
            stored.store(value, Ordering::Relaxed);
            assert!(gate.end());
        }
    });
    commit(&shared);
    thread.join().expect("no panic");
    commit(&shared);
    assert_eq!(shared.3.load(Ordering::Relaxed), 2);
}

struct Sharing {
    gate: Gate,
    stored: [AtomicU64; 2],
    committed: [AtomicU64; 2],
    is_working: AtomicU64,
}

/// Threads that commit what they stored, one of them in its section: whoever works, alone, each has its own in what was committed when it goes on,
/// and nobody waits for ever.
fn who_shares_a_cut_is_in_it() {
    let numbers = || [AtomicU64::new(0), AtomicU64::new(0)];
    let shared = Arc::new(Sharing {
        gate: Gate::default(),
        stored: numbers(),
        committed: numbers(),
        is_working: AtomicU64::new(0),
    });
    let work = |it: &Sharing, me: usize| {
        it.gate.begin();
        it.stored[me].store(1, Ordering::Relaxed);
        if me == 0 {
            assert!(it.gate.end());
        }
        let cut = it.gate.alone::<(), ()>(true, || {
            assert_eq!(it.is_working.swap(1, Ordering::Relaxed), 0);
            for (stored, committed) in it.stored.iter().zip(&it.committed) {
                committed.store(stored.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            it.is_working.store(0, Ordering::Relaxed);
            Ok(())
        });
        assert!(matches!(cut, Ok(Shared::Done(()) | Shared::DoneByAnother)));
        assert_eq!(it.committed[me].load(Ordering::Relaxed), 1);
        if me == 1 {
            assert!(it.gate.end());
        }
    };
    let theirs = shared.clone();
    let thread = thread::spawn(move || work(&theirs, 1));
    work(&shared, 0);
    thread.join().expect("no panic");
}

/// Two numbers that a section keeps equal: no cut finds them different, of three threads.
fn a_cut_finds_no_section_half_done() {
    let shared = Arc::new((Gate::default(), AtomicU64::new(0), AtomicU64::new(0)));
    let cut = |(gate, a, b): &(Gate, AtomicU64, AtomicU64)| {
        let equal = gate.alone::<bool, ()>(true, || {
            Ok(a.load(Ordering::Relaxed) == b.load(Ordering::Relaxed))
        });
        assert!(matches!(
            equal,
            Ok(Shared::Done(true) | Shared::DoneByAnother)
        ));
    };
    let (first, second) = (shared.clone(), shared.clone());
    let storing = thread::spawn(move || {
        let (gate, a, b) = &*first;
        gate.begin();
        a.store(1, Ordering::Relaxed);
        b.store(1, Ordering::Relaxed);
        assert!(gate.end());
    });
    let cutting = thread::spawn(move || cut(&second));
    cut(&shared);
    storing.join().expect("no panic");
    cutting.join().expect("no panic");
}

fn main() -> ExitCode {
    let models: [(&str, fn()); 5] = [
        (
            "who_sees_a_card_may_rely_on_its_summaries",
            who_sees_a_card_may_rely_on_its_summaries,
        ),
        (
            "marks_of_several_threads_are_found",
            marks_of_several_threads_are_found,
        ),
        (
            "no_store_is_lost_between_two_commits",
            no_store_is_lost_between_two_commits,
        ),
        ("who_shares_a_cut_is_in_it", who_shares_a_cut_is_in_it),
        (
            "a_cut_finds_no_section_half_done",
            a_cut_finds_no_section_half_done,
        ),
    ];
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let chosen = models.iter().filter(|(name, _)| {
        names.is_empty() || names.iter().any(|part| name.contains(part.as_str()))
    });
    if arguments.iter().any(|argument| argument == "--list") {
        chosen.for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let orders = testkit::effort("PERDURE_ORDERS", 20_000) as usize;
    let (mut passed, mut failed) = (0, 0);
    for (name, model) in chosen {
        let begun = std::time::Instant::now();
        let outcome = std::panic::catch_unwind(|| {
            shuttle::check_random(*model, orders / 2);
            shuttle::check_pct(*model, orders / 2, 3);
        });
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        println!(
            "test {name} ... {word} ({:.1} s)",
            begun.elapsed().as_secs_f64()
        );
        passed += u32::from(outcome.is_ok());
        failed += u32::from(outcome.is_err());
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {word}. {passed} passed; {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
