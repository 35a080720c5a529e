//! Elements asked for in the order of their insertion: what `entry_in_sequence` finds is what `entry` finds, whatever becomes of the
//! tables in between.

use heap::{Cell, Heap, Table};
use testkit::rng::Rng;

/// A table beside what it should hold: keys in the order of their insertion, each with a number that no other element has.
struct Beside {
    table: Table,
    keys: Vec<(Vec<u8>, f64)>,
    /// Where the walk through it is.
    at: usize,
}

fn key_of(n: u64) -> Vec<u8> {
    match n % 7 {
        0 => format!("a key that is too long to lie in its entry, {n}").into_bytes(),
        1 => n.to_string().into_bytes(),
        _ => format!("k{n}").into_bytes(),
    }
}

#[test]
fn what_is_found_in_sequence_is_what_is_found() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut heap = Heap::volatile().unwrap();
        let mut numbers = 0.0;
        let mut pair: Vec<Beside> = (0..3)
            .map(|_| Beside {
                table: heap.table_new().unwrap(),
                keys: Vec::new(),
                at: 0,
            })
            .collect();
        for _ in 0..20_000 {
            let which = rng.below(3) as usize;
            let count = [10, 300, 3000][(seed % 3) as usize];
            // A stretch of the walk in all of them, as the body of a loop does it.
            let stretch = rng.below(40);
            let what = rng.below(100);
            let beside = &mut pair[which];
            match what {
                0..40 => {
                    for _ in 0..stretch {
                        let Some((key, number)) = beside.keys.get(beside.at) else {
                            beside.at = 0;
                            break;
                        };
                        beside.at += 1;
                        let slot = heap.entry_in_sequence(beside.table, key).unwrap();
                        assert_eq!(heap.cell(slot).unwrap(), Cell::Num(*number), "seed {seed}");
                    }
                }
                40..70 => {
                    // New ones: perhaps right behind the last, where something else may have been before.
                    for _ in 0..stretch {
                        let key = key_of(rng.below(count));
                        let slot = heap.entry_in_sequence(beside.table, &key).unwrap();
                        match beside.keys.iter().find(|(known, _)| *known == key) {
                            Some((_, number)) => {
                                assert_eq!(heap.cell(slot).unwrap(), Cell::Num(*number));
                            }
                            None => {
                                let found = heap.cell(slot).unwrap();
                                assert_eq!(found, Cell::Uninit, "seed {seed}");
                                numbers += 1.0;
                                heap.cell_set_num(slot, numbers).unwrap();
                                beside.keys.push((key, numbers));
                            }
                        }
                    }
                }
                70..95 => {
                    for _ in 0..stretch.min(beside.keys.len() as u64) {
                        // Mostly those that the walk comes to next.
                        let many = beside.keys.len();
                        let at = if rng.chance(2) {
                            beside.at % many
                        } else {
                            rng.below(many as u64) as usize
                        };
                        let (key, _) = beside.keys.remove(at);
                        assert!(heap.remove(beside.table, &key).unwrap());
                    }
                }
                95 => {
                    heap.table_clear(beside.table).unwrap();
                    beside.keys.clear();
                }
                96 => {
                    heap.table_free(beside.table).unwrap();
                    beside.table = heap.table_new().unwrap();
                    beside.keys.clear();
                }
                _ => {
                    // The keys of another one, in its order.
                    let from = pair[rng.below(3) as usize].keys.clone();
                    for (key, _) in from {
                        let beside = &mut pair[which];
                        if beside.keys.iter().any(|(known, _)| *known == key) {
                            continue;
                        }
                        let slot = heap.entry_in_sequence(beside.table, &key).unwrap();
                        assert_eq!(heap.cell(slot).unwrap(), Cell::Uninit, "seed {seed}");
                        numbers += 1.0;
                        heap.cell_set_num(slot, numbers).unwrap();
                        beside.keys.push((key, numbers));
                    }
                }
            }
        }
        for beside in &pair {
            let mut found = Vec::new();
            heap.for_each(beside.table, &mut |key, cell| {
                let Cell::Num(n) = cell else {
                    panic!("{cell:?}")
                };
                found.push((key.to_vec(), n));
                Ok(())
            })
            .unwrap();
            assert!(found == beside.keys, "seed {seed}");
        }
    }
}

/// Another table in the same pages, with the same keys at the same places, is another table.
#[test]
fn a_table_that_took_over_the_pages_is_not_taken_for_the_old_one() {
    let mut heap = Heap::volatile().unwrap();
    let fill = |heap: &mut Heap, table: Table, number: f64| {
        for n in 0..1000 {
            let slot = heap.entry_in_sequence(table, &key_of(n)).unwrap();
            heap.cell_set_num(slot, number).unwrap();
        }
    };
    let old = heap.table_new().unwrap();
    let other = heap.table_new().unwrap();
    for n in 0..999 {
        heap.table_clear(other).unwrap();
        fill(&mut heap, old, 1.0);
        heap.entry_in_sequence(old, &key_of(n)).unwrap();
        heap.table_clear(old).unwrap();
        fill(&mut heap, other, 2.0);
        let slot = heap.entry_in_sequence(old, &key_of(n + 1)).unwrap();
        assert_eq!(heap.cell(slot).unwrap(), Cell::Uninit, "element {n}");
        heap.table_clear(old).unwrap();
    }
}
