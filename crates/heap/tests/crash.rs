//! The crash ladder over whole heaps: tables and text are changed, committed, cut off at every operation, and after each
//! crash the heap opens, its check passes, and its content is that of a commit.

#![allow(clippy::print_stdout)] // seeds and tallies are for people

use heap::{Durability, Heap, Options};
use region::Region;
use testkit::crash::{Effort, History, Subject, climb};
use testkit::disk::Machine;
use testkit::rng::Rng;

mod tables;
use tables::{change, fingerprint};

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
