//! Tables whose keys are whole numbers in sequence: what they take, what keeps them so, and what the check says of one that
//! was damaged.

mod support;

use heap::layout::{CHUNK_HEADER_BYTES, ENTRY_BYTES, chunk, table};
use heap::{Cell, Durability, Heap, Options, Table, Verify};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use support::fingerprint;

fn fill(heap: &mut Heap, t: Table, keys: impl IntoIterator<Item = i64>) {
    for n in keys {
        let slot = heap.entry_int(t, n).unwrap();
        heap.cell_set(slot, Cell::Num(n as f64)).unwrap();
    }
}

fn delete(heap: &mut Heap, t: Table, keys: impl IntoIterator<Item = i64>) {
    for n in keys {
        assert!(heap.remove(t, n.to_string().as_bytes()).unwrap(), "{n}");
    }
}

fn keys(heap: &Heap, t: Table) -> Vec<String> {
    let mut keys = Vec::new();
    heap.for_each(t, &mut |key, cell| {
        let key = String::from_utf8(key.to_vec()).unwrap();
        if let (Ok(n), Cell::Num(value)) = (key.parse::<i64>(), cell) {
            assert_eq!(n as f64, value);
        }
        keys.push(key);
        Ok(())
    })
    .unwrap();
    keys
}

fn texts(numbers: impl IntoIterator<Item = i64>) -> Vec<String> {
    numbers.into_iter().map(|n| n.to_string()).collect()
}

fn assert_sound(heap: &Heap) {
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

/// Bytes for each of a million elements.
fn bytes_each(first: i64) -> f64 {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    fill(&mut heap, t, first..first + 1_000_000);
    assert_sound(&heap);
    heap.table_bytes(t).unwrap() as f64 / 1e6
}

#[test]
fn a_run_takes_little_more_than_its_entries_whatever_its_first_key_is() {
    for first in [1, 0, 2, -500_000, -3_000_000, 90_000_000_000_000] {
        let each = bytes_each(first);
        assert!(each < 32.6, "{first}: {each}");
    }
}

#[test]
fn a_run_ends_where_numbers_have_fifteen_digits() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    let (first, past) = (99_999_999_999_950, 100_000_000_000_050);
    fill(&mut heap, t, first..past);
    assert_sound(&heap);
    assert_eq!(keys(&heap, t), texts(first..past));
    for n in first..past {
        assert!(heap.find_int(t, n).unwrap().is_some());
        assert!(heap.find(t, n.to_string().as_bytes()).unwrap().is_some());
    }
    for n in [first - 1, past, i64::MIN, i64::MAX] {
        assert!(heap.find_int(t, n).unwrap().is_none());
    }
}

#[test]
fn only_the_usual_text_of_a_number_is_its_key() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    fill(&mut heap, t, -3..4);
    for text in ["01", "-0", "+1", " 1", "1 ", "1.0", "1e0", "-01", "00", ""] {
        assert!(heap.find(t, text.as_bytes()).unwrap().is_none(), "{text}");
        assert!(!heap.remove(t, text.as_bytes()).unwrap(), "{text}");
        heap.entry(t, text.as_bytes()).unwrap();
        assert_sound(&heap);
    }
    assert_eq!(heap.table_len(t).unwrap(), 17);
}

#[test]
fn what_is_inserted_again_comes_last() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    fill(&mut heap, t, 1..31);
    delete(&mut heap, t, [5, 20]);
    fill(&mut heap, t, [20, 5, 7, 31]);
    assert_sound(&heap);
    let order = (1..31).filter(|n| ![5, 20].contains(n)).chain([20, 5, 31]);
    assert_eq!(keys(&heap, t), texts(order));
    // But a number that was deleted at the end continues the sequence.
    heap.table_clear(t).unwrap();
    fill(&mut heap, t, 1..31);
    delete(&mut heap, t, [29, 28, 30]);
    fill(&mut heap, t, 28..1000);
    assert_eq!(keys(&heap, t), texts(1..1000));
    assert!(heap.table_bytes(t).unwrap() < 40_000);
}

#[test]
fn a_stack_gives_its_memory_back_and_grows_again() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    for height in [5000, 3, 900, 4, 5, 82, 83, 19, 20, 5000] {
        let now = heap.table_len(t).unwrap().cast_signed();
        fill(&mut heap, t, now + 1..height + 1);
        delete(&mut heap, t, (height + 1..now + 1).rev());
        assert_sound(&heap);
        assert_eq!(keys(&heap, t), texts(1..height + 1));
        let room = 32 * height.cast_unsigned() + 6000;
        assert!(heap.table_bytes(t).unwrap() < room, "{height}");
    }
}

#[test]
fn a_queue_stays_a_run() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    for n in 0..300_000 {
        fill(&mut heap, t, [n]);
        if n >= 100 {
            delete(&mut heap, t, [n - 100]);
        }
    }
    assert_sound(&heap);
    // 100 entries in two or three chunks of 4096 bytes, and no index; the list of chunks has not grown with what is gone.
    let bytes = heap.table_bytes(t).unwrap();
    assert!(bytes < 13_000, "{bytes}");
}

#[test]
fn little_that_is_left_of_a_run_takes_little() {
    for step in [7, 40, 100] {
        let mut heap = Heap::volatile().unwrap();
        let t = heap.root("t").unwrap();
        fill(&mut heap, t, 0..100_000);
        assert!(heap.table_bytes(t).unwrap() > 3_200_000);
        // Reinserted: in the index, and noted in memory.
        delete(&mut heap, t, 50..80);
        fill(&mut heap, t, 50..80);
        // In no order that the chunks know of; 7919 has no divisor in common with 100000.
        let gone = (0..100_000).map(|i| i * 7919 % 100_000);
        delete(
            &mut heap,
            t,
            gone.filter(|n| n % step != 0 && !(50..80).contains(n)),
        );
        assert_sound(&heap);
        let left = heap.table_len(t).unwrap();
        // Entries, and an index that does not become smaller any more.
        let bytes = heap.table_bytes(t).unwrap();
        assert!(bytes < 70 * left + 500_000, "{step}: {bytes} for {left}");
        for n in (50..80).chain((0..100_000).step_by(step as usize)) {
            // Stored by one way, found by the other: what was noted of where it lay does not hold any more.
            let slot = heap.entry(t, n.to_string().as_bytes()).unwrap();
            heap.cell_set(slot, Cell::Num(0.5 - n as f64)).unwrap();
            assert_eq!(heap.find_int(t, n).unwrap(), Some(slot));
            assert_eq!(heap.entry_int(t, n).unwrap(), slot);
        }
        assert_eq!(heap.table_len(t).unwrap(), left);
    }
}

#[test]
fn a_chunk_of_a_run_that_is_used_again_is_the_runs_no_more() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    // Ten of the run and nine others fill two chunks.
    fill(&mut heap, t, 1..11);
    let others: Vec<i64> = (100..109).collect();
    fill(&mut heap, t, others.iter().copied());
    delete(&mut heap, t, (5..11).chain(others));
    assert_sound(&heap);
    fill(&mut heap, t, 200..212);
    assert_sound(&heap);
    for n in 5..11 {
        assert!(heap.find_int(t, n).unwrap().is_none());
    }
    fill(&mut heap, t, 5..11);
    assert_sound(&heap);
    assert_eq!(keys(&heap, t), texts((1..5).chain(200..212).chain(5..11)));
}

/// What stands in the file at an offset, of so many bytes.
struct Damage {
    at: u64,
    bytes: Vec<u8>,
    what: &'static str,
}

#[test]
fn the_check_finds_what_is_wrong_with_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.heap");
    let mut heap = Heap::open(&path, Options::writer()).unwrap();
    let (open, closed) = (heap.root("open").unwrap(), heap.root("closed").unwrap());
    for t in [open, closed] {
        fill(&mut heap, t, 10..410);
        delete(&mut heap, t, [14, 200]);
    }
    fill(&mut heap, closed, [14, 1000]);
    heap.commit(Durability::Durable).unwrap();
    heap.close(Durability::Durable).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    let word = |at: u64| u64::from_le_bytes(bytes[at as usize..][..8].try_into().unwrap());
    let mut tried = 0;
    for (t, is_open) in [(open.offset(), true), (closed.offset(), false)] {
        let (list, first) = (word(t + table::RUN_CHUNKS), word(t + table::FIRST));
        let third = word(list + 16);
        let entry = third + CHUNK_HEADER_BYTES + 3 * ENTRY_BYTES;
        let mut damages = Vec::new();
        let mut add = |at, bytes: &[u8], what| {
            let bytes = bytes.to_vec();
            damages.push(Damage { at, bytes, what });
        };
        // The other way would be a closed run all of whose other elements were deleted.
        if !is_open {
            add(t + table::RUN_OPEN, &1u16.to_le_bytes(), "open");
        }
        for count in [0, 4, 399, 401, u32::MAX] {
            add(t + table::RUN_COUNT, &count.to_le_bytes(), "count");
        }
        for n in [0, 9, 11, i64::MAX, i64::MIN] {
            add(t + table::RUN_FIRST, &n.to_le_bytes(), "first key");
        }
        for offset in [
            0,
            8,
            first,
            third,
            list + 64,
            1 << 40,
            u64::MAX,
            u64::MAX - 7,
        ] {
            let offset = &offset.to_le_bytes();
            add(t + table::RUN_CHUNKS, offset, "list of chunks");
            if word(list + 8) != u64::from_le_bytes(*offset) {
                add(list + 8, offset, "a chunk in the list");
            }
        }
        add(
            list + 16,
            &0u64.to_le_bytes(),
            "a chunk that is not in the list",
        );
        add(third + chunk::IN_RUN, &0u16.to_le_bytes(), "flag");
        add(third + chunk::IN_RUN, &2u16.to_le_bytes(), "flag");
        add(third + chunk::CAPACITY, &62u16.to_le_bytes(), "capacity");
        add(entry, b"77", "key");
        add(entry, b"\0", "key");
        add(entry + 15, &[3], "length of a key");
        add(entry + 15, &[0xfe], "a hole");
        for damage in damages {
            tried += 1;
            file.write_all_at(&damage.bytes, damage.at).unwrap();
            let options = Options {
                verify: Verify::No,
                ..Options::snapshot()
            };
            let mut heap = Heap::open(&path, options).unwrap();
            let report = heap.check().unwrap();
            assert!(
                !report.is_clean(),
                "open: {is_open}; {}: {:?} at {}",
                damage.what,
                damage.bytes,
                damage.at
            );
            // Whatever else is done with it ends, and stays inside.
            let t = Table::from_offset(t);
            let _ = fingerprint(&heap);
            for n in [
                9,
                10,
                13,
                14,
                29,
                200,
                409,
                410,
                411,
                1000,
                i64::MAX,
                i64::MIN,
            ] {
                let _ = heap.find_int(t, n);
                let _ = heap.entry_int(t, n);
                let _ = heap.remove(t, n.to_string().as_bytes());
            }
            for n in (0..500).rev() {
                let _ = heap.remove(t, n.to_string().as_bytes());
            }
            let _ = heap.table_copy(t);
            let _ = heap.table_clear(t);
            let _ = heap.check();
            let at = damage.at as usize;
            file.write_all_at(&bytes[at..at + damage.bytes.len()], damage.at)
                .unwrap();
        }
    }
    assert_eq!(tried, 1 + 2 * (5 + 5 + 16 + 8));
    let heap = Heap::open(&path, Options::snapshot()).unwrap();
    assert_sound(&heap);
}
