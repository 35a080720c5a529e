//! What the crash ladders do to a heap, and how they tell one content from another.

use heap::{Cell, Heap, Table};
use testkit::rng::Rng;

/// Of every root's every element, in order.
pub fn fingerprint(heap: &Heap) -> heap::Result<u64> {
    let mut text = Vec::new();
    let mut tables: Vec<Table> = Vec::new();
    heap.for_each(heap.roots()?, &mut |key, cell| {
        text.extend_from_slice(key);
        if let Cell::Table(t) = cell {
            tables.push(t);
        }
        Ok(())
    })?;
    for t in tables {
        heap.for_each(t, &mut |key, cell| {
            text.extend_from_slice(key);
            match cell {
                // As they are: some are long.
                Cell::Str { bytes, .. } => text.extend_from_slice(bytes),
                other => text.extend_from_slice(format!("{other:?};").as_bytes()),
            }
            Ok(())
        })?;
    }
    Ok(region::layout::checksum(&text, 0))
}

/// Makes a run of whole numbers longer or shorter, at either end or in its middle, and breaks it now and then.
fn change_run(heap: &mut Heap, rng: &mut Rng) -> heap::Result<()> {
    let t = heap.root("run")?;
    let mut numbers = Vec::new();
    heap.for_each(t, &mut |key, _| {
        numbers.extend(
            std::str::from_utf8(key)
                .ok()
                .and_then(|k| k.parse::<i64>().ok()),
        );
        Ok(())
    })?;
    let next = numbers
        .last()
        .map_or(rng.below(3).cast_signed() - 1, |n| n + 1);
    let many = [1, 4, 20, 150, 700][rng.below(5) as usize];
    let gone: Vec<i64> = match rng.below(10) {
        0..=3 => {
            for n in next..next + many {
                let slot = heap.entry_int(t, n)?;
                heap.cell_set(slot, Cell::Num(rng.below(100) as f64))?;
            }
            Vec::new()
        }
        4 => numbers.into_iter().take(many as usize).collect(),
        5 => numbers.into_iter().rev().take(many as usize).collect(),
        6 | 7 => numbers.into_iter().filter(|_| !rng.chance(5)).collect(),
        8 => numbers.into_iter().filter(|_| rng.chance(9)).collect(),
        _ => {
            heap.entry(t, [&b"a key"[..], b"01", b"-7"][rng.below(3) as usize])?;
            Vec::new()
        }
    };
    for n in gone {
        heap.remove(t, n.to_string().as_bytes())?;
    }
    Ok(())
}

/// A few elements more, fewer or other.
pub fn change(heap: &mut Heap, rng: &mut Rng) -> heap::Result<()> {
    if rng.chance(2) {
        change_run(heap, rng)?;
    }
    let t = heap.root(["a", "b"][rng.below(2) as usize])?;
    for _ in 0..1 + rng.below(12) {
        let key = format!(
            "{}{}",
            ["k", "a long key that is a block "][rng.below(2) as usize],
            rng.below(40)
        );
        match rng.below(8) {
            0 | 1 => {
                heap.remove(t, key.as_bytes())?;
            }
            2 => {
                let len = [10, 100, 3000][rng.below(3) as usize];
                let text = rng.bytes(len);
                let slot = heap.entry(t, key.as_bytes())?;
                heap.cell_set(
                    slot,
                    Cell::Str {
                        bytes: &text,
                        maybe_num: false,
                    },
                )?;
            }
            3 if rng.chance(6) => heap.table_clear(t)?,
            _ => {
                let slot = heap.entry(t, key.as_bytes())?;
                heap.cell_set(slot, Cell::Num(rng.below(100) as f64))?;
            }
        }
    }
    Ok(())
}
