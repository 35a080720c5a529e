//! Heaps whose bytes were changed by somebody: every byte, random bytes, hostile values. Whatever stands in the files,
//! opening, checking, reading and writing end with a result or an error, and never with a crash or a hang. And a byte that
//! changed is found, because its page does not hold its sum; the objects are exercised without that comparison too.

#![allow(clippy::print_stdout)] // seeds and tallies are for people

mod support;

use heap::{Cell, Heap, Options, Table, Verify};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;
use support::{Watchdog, fingerprint, make, set, text};
use testkit::rng::Rng;

const HANG: Duration = Duration::from_secs(30);

fn snapshot(verify: Verify) -> Options {
    Options {
        verify,
        ..Options::snapshot()
    }
}

/// All that is done to a heap that may be damaged; what it says is looked at by the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    CannotOpen,
    CheckFinds,
    ReadingFails,
    Clean(u64),
}

fn look(path: &Path, verify: Verify) -> Outcome {
    let heap = match Heap::open(path, snapshot(verify)) {
        Ok(heap) => heap,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return Outcome::CannotOpen;
        }
    };
    let report = heap.check().expect("check finds damage, it does not fail");
    let read = fingerprint(&heap);
    if !report.is_clean() {
        return Outcome::CheckFinds;
    }
    match read {
        Ok(sum) => Outcome::Clean(sum),
        Err(_) => Outcome::ReadingFails,
    }
}

/// Operations that store, on a snapshot: its changes are private, and so are their consequences.
fn scribble(path: &Path, seed: u64) {
    let Ok(mut heap) = Heap::open(path, snapshot(Verify::No)) else {
        return;
    };
    let mut rng = Rng::new(seed);
    let mut tables: Vec<Table> = Vec::new();
    let mut waiting: Vec<Table> = heap.roots().into_iter().collect();
    while let Some(t) = waiting.pop() {
        tables.push(t);
        if tables.len() > 20 {
            break;
        }
        let Ok(mut elements) = heap.elements(t) else {
            continue;
        };
        while let Ok(Some(element)) = heap.next_element(&mut elements) {
            if let Ok((_, Cell::Table(inner))) = element {
                waiting.push(inner);
            }
        }
    }
    if tables.is_empty() {
        return;
    }
    for _ in 0..60 {
        let t = tables[rng.below(tables.len() as u64) as usize];
        let key = format!("w{}", rng.below(300));
        let len = [3, 100, 3000, 50_000][rng.below(4) as usize];
        let n = rng.below(60);
        let _ = match rng.below(13) {
            0..=2 => set(&mut heap, t, key.as_bytes(), Cell::Num(1.0)),
            3 => set(&mut heap, t, key.as_bytes(), text(&vec![b'x'; len])),
            4 | 5 => heap.remove(t, key.as_bytes()).map(drop),
            6 => heap.find_int(t, 7).map(drop),
            7 => heap.table_bytes(t).map(drop),
            8 | 9 => heap.entry_int(t, n.cast_signed()).map(drop),
            10 | 11 => heap.remove(t, n.to_string().as_bytes()).map(drop),
            _ if rng.chance(4) => match rng.below(3) {
                0 => heap.table_clear(t),
                1 => heap.table_copy(t).map(drop),
                _ => heap.abort(),
            },
            _ => heap.remove(t, b"inner").map(drop),
        };
    }
    let _ = heap.check();
}

#[test]
fn every_byte_of_a_heap_may_be_changed_without_harm() {
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = dir.path().join("small.heap");
    make(&path, 40);
    let bytes = std::fs::read(&path).expect("readable");
    let file = OpenOptions::new().write(true).open(&path).expect("ours");
    let Outcome::Clean(whole) = look(&path, Verify::Report) else {
        panic!("the heap is sound before it is changed")
    };
    let watchdog = Watchdog::new("flipped byte", HANG);
    let mut tally = [0u64; 5];
    for (at, &byte) in bytes.iter().enumerate() {
        watchdog.case(at as u64);
        let changed = byte ^ [0xff, 0x01, 0x80][at % 3];
        file.write_all_at(&[changed], at as u64).expect("written");
        let verified = look(&path, Verify::Small);
        assert!(
            verified == Outcome::CannotOpen || verified == Outcome::Clean(whole),
            "byte {at}: a change that was not found: {verified:?}"
        );
        if at % 64 == 0 && at >= 8192 {
            let reported = look(&path, Verify::Report);
            assert!(
                !matches!(reported, Outcome::Clean(_)),
                "byte {at}: check found nothing"
            );
        }
        let outcome = look(&path, Verify::No);
        if at % 16 == 0 {
            scribble(&path, at as u64);
        }
        tally[match outcome {
            Outcome::CannotOpen => 0,
            Outcome::CheckFinds => 1,
            Outcome::ReadingFails => 2,
            Outcome::Clean(sum) if sum == whole => 3,
            Outcome::Clean(_) => 4,
        }] += 1;
        assert_ne!(
            outcome,
            Outcome::ReadingFails,
            "byte {at}: check missed what reading found"
        );
        file.write_all_at(&[byte], at as u64).expect("written");
    }
    println!(
        "{} bytes, all found; without sums: {} no opening, {} found by check, {} without effect, {} another value",
        bytes.len(),
        tally[0],
        tally[1],
        tally[3],
        tally[4]
    );
    assert_eq!(look(&path, Verify::Report), Outcome::Clean(whole));
}

#[test]
fn random_garbage_does_no_harm() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder");
    let path = dir.path().join("small.heap");
    // Enough words for a directory of index segments.
    make(&path, 1500);
    let bytes = std::fs::read(&path).expect("readable");
    let file = OpenOptions::new().write(true).open(&path).expect("ours");
    let watchdog = Watchdog::new("random garbage", HANG);
    let interesting: Vec<u64> = {
        let len = bytes.len() as u64;
        vec![
            0,
            1,
            16,
            64,
            127,
            255,
            4096,
            8192,
            12_288,
            12_352,
            16_384,
            len - 8,
            len,
            len + 8,
            u64::from(u32::MAX),
            1 << 31,
            1 << 40,
            1 << 48,
            1 << 63,
            u64::MAX,
            u64::MAX - 7,
            u64::MAX - 15,
        ]
    };
    for case in 0..3000 {
        watchdog.case(case);
        let mut rng = Rng::new(seed.wrapping_add(case));
        let mut changes = Vec::new();
        for _ in 0..1 + rng.below(8) {
            // Superblocks have checksums and their own tests; half of the changes hit the densest metadata.
            let start = 8192;
            let room = if rng.chance(2) {
                8192
            } else {
                bytes.len() as u64 - start - 16
            };
            let at = start + rng.below(room) / 8 * 8;
            let value = match rng.below(4) {
                0 => interesting[rng.below(interesting.len() as u64) as usize]
                    .to_le_bytes()
                    .to_vec(),
                1 => rng
                    .below(bytes.len() as u64)
                    .next_multiple_of(16)
                    .to_le_bytes()
                    .to_vec(),
                2 => rng.bytes(1),
                _ => {
                    // A word of the heap itself at the wrong place: the best forgery.
                    let from = (8192 + rng.below(bytes.len() as u64 - 8208) / 8 * 8) as usize;
                    bytes[from..from + 8].to_vec()
                }
            };
            changes.push((at, value));
        }
        for (at, value) in &changes {
            file.write_all_at(value, *at).expect("written");
        }
        look(&path, Verify::No);
        scribble(&path, seed ^ case);
        for (at, value) in &changes {
            let at = *at as usize;
            file.write_all_at(&bytes[at..at + value.len()], at as u64)
                .expect("written");
        }
    }
}

#[test]
fn a_table_that_contains_itself_ends_every_walk() {
    let mut heap = Heap::volatile().expect("memory");
    let root = heap.root("r").expect("room");
    for name in [&b"self"[..], b"again"] {
        set(&mut heap, root, name, Cell::Table(root)).expect("room");
    }
    assert!(!heap.check().expect("a report").is_clean());
    assert!(heap.table_copy(root).is_err());
    heap.table_clear(root).expect("cleared");
}

#[test]
fn a_copy_goes_as_deep_as_the_tables_do() {
    const DEPTH: usize = 20_000;
    let mut heap = Heap::volatile().expect("memory");
    let root = heap.root("r").expect("room");
    let mut innermost = root;
    for _ in 0..DEPTH {
        let inner = heap.table_new().expect("room");
        set(&mut heap, innermost, b"in", Cell::Table(inner)).expect("room");
        innermost = inner;
    }
    set(&mut heap, innermost, b"k", Cell::Num(7.0)).expect("room");
    let mut at = heap.table_copy(root).expect("room");
    for _ in 0..DEPTH {
        let slot = heap.find(at, b"in").expect("sound").expect("copied");
        match heap.cell(slot).expect("sound") {
            Cell::Table(inner) => at = inner,
            other => panic!("{other:?}"),
        }
    }
    let slot = heap.find(at, b"k").expect("sound").expect("copied");
    assert_eq!(heap.cell(slot).expect("sound"), Cell::Num(7.0));
}
