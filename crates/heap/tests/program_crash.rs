//! The crash ladder over what C programs do: blocks that are asked for, stored to by address, resized, freed and named, in each way of tracking.

#![allow(clippy::print_stdout)] // seeds and tallies are for people

use heap::{ByAddress, Durability, Heap, Options, Place, Tracking, mark_address};
use region::Region;
use testkit::crash::{Effort, History, Subject, climb};
use testkit::disk::Machine;
use testkit::rng::Rng;

const RESERVE: u64 = 1 << 27;
const NAMES: u64 = 6;

struct Blocks(Tracking);

/// A program's store: marked as the way of tracking wants it; where both ways are, some are not.
fn store(heap: &Heap, offset: u64, bytes: &[u8], tracking: Tracking, rng: &mut Rng) {
    assert!(offset + bytes.len() as u64 <= heap.end_bytes());
    let address = heap.address() + offset as usize;
    let marks = match tracking {
        Tracking::Pages => false,
        Tracking::Lines => true,
        Tracking::Both => rng.chance(2),
    };
    if marks {
        mark_address(address, bytes.len());
    }
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: in bounds of the heap (asserted), which nothing borrows now.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

fn load(heap: &Heap, offset: u64, len: u64) -> Vec<u8> {
    assert!(
        offset
            .checked_add(len)
            .is_some_and(|end| end <= heap.end_bytes())
    );
    let from = std::ptr::with_exposed_provenance::<u8>(heap.address() + offset as usize);
    // SAFETY: in bounds of the heap (asserted), to which nobody stores now.
    unsafe { std::slice::from_raw_parts(from, len as usize) }.to_vec()
}

/// A block begins with how many bytes of it count.
fn content(heap: &Heap, offset: u64) -> Vec<u8> {
    let mut len = [0; 8];
    len.copy_from_slice(&load(heap, offset, 8));
    load(heap, offset, u64::from_le_bytes(len))
}

fn fill(heap: &Heap, offset: u64, len: u64, tracking: Tracking, rng: &mut Rng) {
    let mut bytes = len.to_le_bytes().to_vec();
    bytes.extend(rng.bytes(len as usize - 8));
    store(heap, offset, &bytes, tracking, rng);
}

fn random_len(rng: &mut Rng) -> u64 {
    8 + match rng.below(8) {
        0 => rng.below(20_000),
        1 | 2 => rng.below(3000),
        _ => rng.below(100),
    }
}

impl Blocks {
    fn open(&self, machine: &Machine, boot: u64) -> heap::Result<Heap> {
        let options = Options {
            by_address: Some(ByAddress {
                tracking: self.0,
                place: Place::Anywhere,
                ..ByAddress::default()
            }),
            ..Options::writer()
        };
        Heap::on(Region::open_on(
            [machine.file(0), machine.file(1), machine.file(2)],
            &options,
            [boot as u8; 16],
            RESERVE,
        )?)
    }

    /// Of all named blocks. Nothing else may be allocated.
    fn fingerprint(heap: &Heap) -> heap::Result<u64> {
        let mut text = Vec::new();
        let mut blocks = 0;
        heap.for_each_name(&mut |name, offset| {
            text.extend_from_slice(name);
            text.extend(content(heap, offset));
            blocks += 1;
            Ok(())
        })?;
        let report = heap.check()?;
        assert!(report.is_clean(), "{:?}", report.problems);
        assert_eq!(report.program_blocks, blocks);
        Ok(region::layout::checksum(&text, 0))
    }

    fn change(&self, heap: &mut Heap, rng: &mut Rng) -> heap::Result<()> {
        for _ in 0..rng.below(5) {
            let name = [b'a' + rng.below(NAMES) as u8];
            match heap.name_find(&name)? {
                None => {
                    let len = random_len(rng);
                    let offset = heap.block_new(len, 16 << rng.below(3))?;
                    fill(heap, offset, len, self.0, rng);
                    if let Err(error) = heap.name_set(&name, Some(offset)) {
                        heap.block_free(offset)?;
                        return Err(error);
                    }
                }
                Some(offset) if rng.chance(4) => {
                    heap.name_set(&name, None)?;
                    heap.block_free(offset)?;
                }
                Some(offset) if rng.chance(3) => {
                    let len = random_len(rng);
                    let moved = heap.block_resize(offset, len)?;
                    heap.name_set(&name, Some(moved))?;
                    fill(heap, moved, len, self.0, rng);
                }
                Some(offset) => {
                    let len = content(heap, offset).len() as u64;
                    let at = 8 + rng.below(len - 7);
                    let some = (len - at).min(rng.below(40));
                    let bytes = rng.bytes(some as usize);
                    store(heap, offset + at, &bytes, self.0, rng);
                }
            }
        }
        Ok(())
    }
}

impl Subject for Blocks {
    fn blank(&self) -> Vec<Vec<u8>> {
        let machine = Machine::new(vec![Vec::new(); 3], 0);
        Region::format_on(&mut *machine.file(0), &mut *machine.file(1), [9; 16], 0).unwrap();
        self.open(&machine, 1)
            .unwrap()
            .close(Durability::Durable)
            .unwrap();
        machine.live()
    }

    fn blank_state(&self) -> u64 {
        region::layout::checksum(&[], 0)
    }

    fn work(&self, machine: &Machine, seed: u64, history: &mut History) {
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(2) {
            let Ok(mut heap) = self.open(machine, 1) else {
                return;
            };
            for _ in 0..1 + rng.below(5) {
                let changed = self.change(&mut heap, &mut rng);
                if changed.is_err() || rng.chance(7) {
                    if heap.abort().is_err() {
                        return;
                    }
                    continue;
                }
                let Ok(state) = Blocks::fingerprint(&heap) else {
                    return;
                };
                history.attempt(state);
                let durable = !rng.chance(3);
                // As perdure_commit does it: the cut, then its way to the medium.
                let committed = heap.commit(Durability::Lazy).and_then(|_| {
                    history.reported(false);
                    if durable {
                        heap.make_durable()?;
                        history.reported(true);
                    }
                    Ok(())
                });
                if committed.is_err() && heap.abort().is_err() {
                    break;
                }
            }
            if rng.chance(2) && heap.close(Durability::Durable).is_ok() {
                history.reported_so_far_is_durable();
            }
        }
    }

    fn inspect(&self, machine: &Machine, boot: u64) -> Result<u64, String> {
        let heap = self.open(machine, boot).map_err(|e| e.to_string())?;
        Blocks::fingerprint(&heap).map_err(|e| e.to_string())
    }

    fn go_on(&self, machine: &Machine, boot: u64, seed: u64) -> Result<u64, String> {
        let mut heap = self.open(machine, boot).map_err(|e| e.to_string())?;
        let mut work = || -> heap::Result<u64> {
            self.change(&mut heap, &mut Rng::new(seed))?;
            heap.commit(Durability::Lazy)?;
            heap.make_durable()?;
            Blocks::fingerprint(&heap)
        };
        let state = work().map_err(|e| e.to_string())?;
        heap.close(Durability::Durable).map_err(|e| e.to_string())?;
        Ok(state)
    }
}

#[test]
fn every_crash_of_a_program_leaves_its_blocks_as_of_a_commit() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for tracking in [Tracking::Pages, Tracking::Lines, Tracking::Both] {
        let tally = climb(&Blocks(tracking), seed, Effort::from_env(8_000))
            .unwrap_or_else(|what| panic!("{tracking:?}, seed {seed}: {what}"));
        println!("{tracking:?} {tally:?}");
    }
}

/// Seeds of runs in which something was found once.
#[test]
fn runs_that_found_faults_find_none() {
    let found = [
        // A frame whose append failed came back after a process that found it withdrawn, and had nothing to commit itself.
        (Tracking::Pages, 1_795_352_601_402_295_443),
    ];
    for (tracking, seed) in found {
        let effort = Effort {
            states: 1,
            states_per_stop: 100,
        };
        climb(&Blocks(tracking), seed, effort)
            .unwrap_or_else(|what| panic!("{tracking:?}: {what}"));
    }
}
