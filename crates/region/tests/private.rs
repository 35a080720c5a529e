//! A program that stores by address, over real files and with little memory of its own allowed: growth stays where it was made or is mapped
//! from the file, copies of pages are kept or given back, and what the program sees is the same.

#![allow(clippy::print_stdout)] // seeds are for people

use region::{
    ByAddress, DATA_START, Durability, Options, PAGE_BYTES, Place, Region, Tracking, mark_address,
};
use testkit::rng::Rng;

const PAGES_MAX: u64 = 700;

struct Program {
    region: Region,
    tracking: Tracking,
    /// Some stores are not marked.
    is_seldom_seen: bool,
    /// What the region's bytes are.
    now: Vec<u8>,
    committed: Vec<u8>,
}

impl Program {
    fn store(&mut self, offset: usize, bytes: &[u8], is_marked: bool) {
        let address = self.region.address() + DATA_START as usize + offset;
        if is_marked {
            mark_address(address, bytes.len());
        } else {
            self.region.note_unseen_stores();
        }
        // SAFETY: in bounds of the region (the caller's), which nothing borrows.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(address)
                .copy_from(bytes.as_ptr(), bytes.len());
        };
        self.now[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn grow(&mut self, pages: u64) {
        self.region.extend(pages * PAGE_BYTES).unwrap();
        let grown = self.now.len() + (pages * PAGE_BYTES) as usize;
        self.now.resize(grown, 0);
    }

    /// Stores to each page.
    fn fill(&mut self, rng: &mut Rng) {
        for at in (0..self.now.len()).step_by(PAGE_BYTES as usize) {
            let bytes = rng.bytes(16);
            self.store(at, &bytes, true);
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        match rng.below(10) {
            0 if self.now.len() as u64 / PAGE_BYTES < PAGES_MAX => {
                self.grow(1 + rng.below(40));
            }
            1 => {
                self.region.abort().unwrap();
                self.now.clone_from(&self.committed);
            }
            2 | 3 => {
                let durability = match rng.chance(3) {
                    true => Durability::Lazy,
                    false => Durability::Durable,
                };
                self.region.commit(durability).unwrap();
                self.committed.clone_from(&self.now);
            }
            4 if rng.chance(4) => {
                self.region.checkpoint().unwrap();
            }
            _ => {
                for _ in 0..rng.below(20) {
                    let len = 1 + rng.below(200) as usize;
                    let bytes = rng.bytes(len);
                    let room = self.now.len() as u64 - bytes.len() as u64;
                    let offset = rng.below(room) as usize;
                    let is_marked =
                        self.tracking == Tracking::Lines && !(self.is_seldom_seen && rng.chance(8));
                    self.store(offset, &bytes, is_marked);
                }
            }
        }
    }

    fn compare(&self, what: &str) {
        let seen = self.region.bytes(DATA_START, self.now.len() as u64);
        let differs = seen
            .unwrap()
            .iter()
            .zip(&self.now)
            .position(|(a, b)| a != b);
        assert_eq!(differs, None, "{what}");
    }
}

fn run(tracking: Tracking, memory_budget_bytes: Option<u64>, seed: u64) {
    let what = format!("{tracking:?}, budget {memory_budget_bytes:?}, seed {seed}");
    let mut rng = Rng::new(seed);
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let folder = folder.unwrap();
    let path = folder.path().join("a.heap");
    let open = || {
        let options = Options {
            memory_budget_bytes,
            by_address: Some(ByAddress {
                tracking,
                place: Place::Anywhere,
                ..ByAddress::default()
            }),
            create: true,
            ..Options::writer()
        };
        Region::open(&path, options).unwrap()
    };
    let mut region = open();
    region.extend(PAGE_BYTES).unwrap();
    region.commit(Durability::Durable).unwrap();
    let blank = vec![0; (region.end() - DATA_START) as usize];
    let mut program = Program {
        region,
        tracking,
        is_seldom_seen: false,
        now: blank.clone(),
        committed: blank,
    };
    let mut reader = None;
    for step in 0..300 {
        if step % 100 == 0 {
            program.grow(100);
            program.fill(&mut rng);
        }
        // While a reader is there, commits wait in the journal.
        if rng.chance(8) {
            reader = match reader {
                None => Some(Region::open(&path, Options::snapshot()).unwrap()),
                Some(_) => None,
            };
        }
        program.is_seldom_seen = step % 100 >= 80;
        program.step(&mut rng);
        program.compare(&format!("{what}, step {step}"));
        if rng.chance(60) {
            let Program {
                region, committed, ..
            } = program;
            if rng.chance(2) {
                region.close(Durability::Durable).unwrap();
            } else {
                drop(region);
            }
            program = Program {
                region: open(),
                tracking,
                is_seldom_seen: false,
                now: committed.clone(),
                committed,
            };
            program.compare(&format!("{what}, reopened at step {step}"));
        }
    }
}

#[test]
fn what_a_program_sees_does_not_depend_on_the_memory_it_may_have() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for tracking in [Tracking::Lines, Tracking::Pages, Tracking::Both] {
        for budget in [None, Some(16 * PAGE_BYTES), Some(120 * PAGE_BYTES)] {
            for round in 0..testkit::effort("PERDURE_PRIVATE_RUNS", 2) {
                run(tracking, budget, seed + round);
            }
        }
    }
}
