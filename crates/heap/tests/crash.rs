//! The crash ladder over whole heaps: tables and text are changed, committed, cut off at every operation, and after each
//! crash the heap opens, its check passes, and its content is that of a commit.

#![allow(clippy::print_stdout)] // seeds and tallies are for people

use heap::{Cell, Durability, Heap, Options, Table};
use region::Region;
use testkit::crash::{Effort, History, Subject, climb};
use testkit::disk::Machine;
use testkit::rng::Rng;

struct Tables;

const RESERVE: u64 = 1 << 26;

fn open(machine: &Machine, boot: u64) -> heap::Result<Heap> {
    Heap::on(Region::open_on(
        [machine.file(0), machine.file(1), machine.file(2)],
        &Options {
            // Now and then memory is short: by the boot, so that what one leaves the other finds.
            memory_budget_bytes: (boot == 1).then_some(8 * region::PAGE_BYTES),
            ..Options::writer()
        },
        [boot as u8; 16],
        RESERVE,
    )?)
}

/// Of every root's every element, in order.
fn fingerprint(heap: &Heap) -> heap::Result<u64> {
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
            text.extend_from_slice(format!("{cell:?};").as_bytes());
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

fn change(heap: &mut Heap, rng: &mut Rng) -> heap::Result<()> {
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

impl Subject for Tables {
    fn blank(&self) -> Vec<Vec<u8>> {
        let machine = Machine::new(vec![Vec::new(); 3], 0);
        Region::format_on(&mut *machine.file(0), &mut *machine.file(1), [9; 16], 0).unwrap();
        let mut heap = open(&machine, 1).unwrap();
        heap.root("a").unwrap();
        heap.commit(Durability::Durable).unwrap();
        heap.close(Durability::Durable).unwrap();
        machine.live()
    }

    fn blank_state(&self) -> u64 {
        fingerprint(&open(&Machine::new(self.blank(), 0), 1).unwrap()).unwrap()
    }

    fn work(&self, machine: &Machine, seed: u64, history: &mut History) {
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(2) {
            let Ok(mut heap) = open(machine, 1) else {
                return;
            };
            for _ in 0..1 + rng.below(4) {
                let durability = if rng.chance(3) {
                    Durability::Lazy
                } else {
                    Durability::Durable
                };
                if change(&mut heap, &mut rng).is_err() || rng.chance(6) {
                    if heap.abort().is_err() {
                        return;
                    }
                    continue;
                }
                history.attempt(fingerprint(&heap).unwrap());
                match heap.commit(durability) {
                    Ok(_) => history.reported(durability == Durability::Durable),
                    Err(_) => {
                        if heap.abort().is_err() || heap.commit(Durability::Lazy).is_err() {
                            break;
                        }
                    }
                }
            }
            if rng.chance(2) && heap.close(Durability::Durable).is_ok() {
                history.reported_so_far_is_durable();
            }
        }
    }

    fn inspect(&self, machine: &Machine, boot: u64) -> Result<u64, String> {
        let heap = open(machine, boot).map_err(|e| e.to_string())?;
        let report = heap.check().map_err(|e| e.to_string())?;
        if !report.is_clean() {
            return Err(format!("{report:?}"));
        }
        fingerprint(&heap).map_err(|e| e.to_string())
    }

    fn go_on(&self, machine: &Machine, boot: u64, seed: u64) -> Result<u64, String> {
        let work = || -> heap::Result<u64> {
            let mut heap = open(machine, boot)?;
            change(&mut heap, &mut Rng::new(seed))?;
            heap.commit(Durability::Durable)?;
            let state = fingerprint(&heap)?;
            heap.close(Durability::Durable)?;
            Ok(state)
        };
        work().map_err(|e| e.to_string())
    }
}

#[test]
fn every_crash_leaves_a_committed_heap() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let tally = climb(&Tables, seed, Effort::from_env(60_000))
        .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    println!("{tally:?}");
}
