//! Elements that are fetched ahead are those that a look-up finds: in tables side by side with the same keys, of any size,
//! with keys in a batch that are new or come twice.

use heap::{Cell, Fetched, Heap};
use std::collections::HashMap;

fn word(n: usize) -> String {
    match n % 5 {
        0 => (n / 5).to_string(),
        1 => format!("w{n}"),
        2 => format!("a key that is longer than a cell, {n}"),
        3 => "x".repeat(n % 18),
        _ => format!("{n:015}"),
    }
}

#[test]
fn fetched_elements_are_those_of_their_table() {
    let mut heap = Heap::volatile().unwrap();
    let tables = ["a", "b", "c"].map(|name| heap.root(name).unwrap());
    let mut counts = vec![HashMap::new(); tables.len()];
    let mut fetched = [Fetched::default(); 32];
    for round in 0..600 {
        let which = round % tables.len();
        let t = tables[which];
        let keys: Vec<_> = (0..fetched.len())
            .map(|i| word((round * 7919 + i * 31) * (i % 3 + 1) % (20 + round * 9)))
            .collect();
        let text = keys.concat();
        let mut at = 0;
        for (key, fetched) in keys.iter().zip(&mut fetched) {
            *fetched = heap.fetch_within(t, text.as_bytes(), at, key.len());
            at += key.len();
        }
        for fetched in &mut fetched {
            heap.find_ahead(fetched);
        }
        for fetched in &fetched {
            heap.fetch_text_ahead(fetched);
        }
        for (key, fetched) in keys.into_iter().zip(&fetched) {
            let slot = heap.entry_of_fetched(t, key.as_bytes(), fetched).unwrap();
            let n = heap.cell_num(slot).unwrap_or(0.0) + 1.0;
            heap.cell_set(slot, Cell::Num(n)).unwrap();
            *counts[which].entry(key).or_insert(0.0) += 1.0;
        }
    }
    for (t, counts) in tables.into_iter().zip(counts) {
        assert_eq!(heap.table_len(t).unwrap(), counts.len() as u64);
        for (key, count) in counts {
            let slot = heap.find(t, key.as_bytes()).unwrap().unwrap();
            assert_eq!(heap.cell_num(slot), Some(count), "{key}");
        }
    }
    let problems = heap.check().unwrap().problems;
    assert!(problems.is_empty(), "{problems:?}");
}
