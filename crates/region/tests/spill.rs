//! Working copies larger than their budget of memory: every operation means what it means without one.

#![allow(clippy::print_stdout)] // seeds are for people

use region::{DATA_START, Durability, Options, PAGE_BYTES, Region};
use std::path::Path;
use testkit::rng::Rng;

/// A few granules of 64 KiB.
const BUDGET: u64 = 256 << 10;
const MIB: u64 = 1 << 20;

fn bounded() -> Options {
    Options {
        memory_budget_bytes: Some(BUDGET),
        ..Options::writer()
    }
}

fn reader() -> Options {
    Options {
        memory_budget_bytes: Some(BUDGET),
        ..Options::snapshot()
    }
}

fn open(path: &Path, options: Options) -> Region {
    Region::open(path, options).expect("it opens")
}

/// A region and what its bytes from `DATA_START` on should be.
struct Modelled {
    region: Region,
    now: Vec<u8>,
}

impl Modelled {
    fn check(&self, when: &str) {
        assert_eq!(
            self.region.end(),
            DATA_START + self.now.len() as u64,
            "{when}"
        );
        let bytes = self.region.bytes(DATA_START, self.now.len() as u64);
        let bytes = bytes.expect("in bounds");
        if bytes != self.now {
            let at = (0..bytes.len()).find(|&i| bytes[i] != self.now[i]);
            let at = at.expect("they differ");
            panic!("{when}: byte {at} is {}, not {}", bytes[at], self.now[at]);
        }
    }

    fn extend(&mut self, bytes: u64) {
        self.region.extend(bytes).expect("room");
        let len = self.region.end() - DATA_START;
        self.now.resize(len as usize, 0);
    }

    /// Random stores all over.
    fn scribble(&mut self, rng: &mut Rng, count: u64) {
        let size = self.now.len() as u64;
        for _ in 0..count {
            let at = rng.below(size.saturating_sub(5000).max(1));
            if rng.chance(20) {
                let text = rng.bytes(5000.min(size as usize));
                let room = self
                    .region
                    .bytes_mut(DATA_START + at, text.len() as u64)
                    .expect("in bounds");
                room.copy_from_slice(&text);
                self.now[at as usize..][..text.len()].copy_from_slice(&text);
            } else if at + 8 <= size {
                let value = rng.draw();
                self.region.put(DATA_START + at, value).expect("in bounds");
                self.now[at as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

#[test]
fn every_operation_means_the_same_with_a_budget_of_a_few_granules() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let mut rng = Rng::new(seed);
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("m.heap");
    let mut m = Modelled {
        region: open(&path, bounded()),
        now: Vec::new(),
    };
    let mut committed = m.now.clone();
    let mut pinned: Vec<Modelled> = Vec::new();
    let mut spilled_most = 0;
    for step in 0..400 {
        let when = format!("seed {seed}, step {step}");
        if m.now.len() as u64 <= 6 * MIB && rng.chance(3) {
            let bytes = if rng.chance(8) {
                MIB
            } else {
                rng.below(100 << 10)
            };
            m.extend(bytes);
        }
        let count = 1 << rng.below(9);
        m.scribble(&mut rng, count);
        spilled_most = spilled_most.max(m.region.spilled_bytes());
        match rng.below(12) {
            0..3 => {
                let durability = if rng.chance(2) {
                    Durability::Lazy
                } else {
                    Durability::Durable
                };
                m.region.commit(durability).expect("committed");
                committed.clone_from(&m.now);
                m.check(&when);
            }
            3 | 4 => {
                m.region.abort().expect("aborted");
                m.now.clone_from(&committed);
                m.check(&when);
            }
            5 => {
                m.region.checkpoint().expect("a checkpoint or none");
                m.check(&when);
            }
            6 if pinned.len() < 3 => {
                let mut region = open(&path, reader());
                if rng.chance(2) {
                    region.abort().expect("nothing to go back from");
                }
                pinned.push(Modelled {
                    region,
                    now: committed.clone(),
                });
            }
            7 if !pinned.is_empty() => {
                let mut r = pinned.swap_remove(rng.below(pinned.len() as u64) as usize);
                r.check(&when);
                // A reader may scribble and grow beyond its budget too, and go back.
                let before = r.now.clone();
                r.extend(rng.below(MIB));
                r.scribble(&mut rng, 500);
                r.check(&when);
                r.region.abort().expect("aborted");
                r.now = before;
                r.check(&when);
                if rng.chance(2) {
                    pinned.push(r);
                }
            }
            8 if rng.chance(3) => {
                // Killed: nothing is given up in order.
                drop(m.region);
                m.region = open(&path, bounded());
                m.now.clone_from(&committed);
                m.check(&when);
            }
            9 if rng.chance(3) => {
                m.region.close(Durability::Durable).expect("closed");
                m.region = open(&path, bounded());
                m.now.clone_from(&committed);
                m.check(&when);
            }
            _ => m.check(&when),
        }
    }
    for r in &pinned {
        r.check("at the end");
    }
    assert!(spilled_most > 2 * BUDGET, "nothing was tried");
    m.region.close(Durability::Durable).expect("closed");
    let sound = Options {
        verify: region::Verify::Report,
        ..Options::snapshot()
    };
    let region = open(&path, sound);
    assert_eq!(region.unsound_pages(), [0; 0]);
    Modelled {
        region,
        now: committed,
    }
    .check("reopened");
}

/// A committed heap of 4 MiB in which every place holds its number.
fn numbered(path: &Path) -> Region {
    let mut region = open(path, bounded());
    region.extend(4 * MIB).expect("room");
    number(&mut region, 0);
    region.commit(Durability::Durable).expect("committed");
    region
}

fn number(region: &mut Region, add: u64) {
    for at in (DATA_START..DATA_START + 4 * MIB).step_by(1024) {
        region.put(at, at + add).expect("in bounds");
    }
}

fn assert_numbered(region: &Region, add: u64) {
    for at in (DATA_START..DATA_START + 4 * MIB).step_by(1024) {
        assert_eq!(region.get::<u64>(at).expect("in bounds"), at + add);
    }
}

#[test]
fn what_was_spilled_and_not_committed_is_gone_after_a_kill() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("k.heap");
    let mut region = numbered(&path);
    let committed_bytes = region.end();
    number(&mut region, 1);
    let start = region.extend(8 * MIB).expect("room");
    for at in (start..start + 8 * MIB).step_by(512) {
        region.put(at, 7u64).expect("in bounds");
    }
    assert!(region.spilled_bytes() > 11 * MIB);
    let file_bytes = || std::fs::metadata(&path).expect("it is there").len();
    assert!(file_bytes() >= committed_bytes + 8 * MIB);
    drop(region); // a kill closes descriptors and gives memory back, no more
    let reader = open(&path, reader());
    assert_numbered(&reader, 0);
    assert_eq!(reader.end(), committed_bytes);
    let mut region = open(&path, bounded());
    assert_numbered(&region, 0);
    // Where garbage lies in the file, new space is zero all the same, at once and when it is committed.
    let start = region.extend(3 * MIB).expect("room");
    assert!(region.spilled_bytes() > 0);
    let bytes = region.bytes(start, 3 * MIB).expect("in bounds");
    assert!(bytes.iter().all(|&byte| byte == 0));
    region.abort().expect("aborted");
    region.close(Durability::Durable).expect("closed");
    assert_eq!(file_bytes(), committed_bytes, "the file was cut back");
}

#[test]
fn a_file_that_was_killed_is_cut_back_even_by_a_writer_that_does_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("c.heap");
    let mut region = numbered(&path);
    let committed_bytes = region.end();
    region.extend(8 * MIB).expect("room");
    drop(region);
    let file_bytes = || std::fs::metadata(&path).expect("it is there").len();
    assert!(file_bytes() > committed_bytes);
    open(&path, bounded())
        .close(Durability::Durable)
        .expect("closed");
    assert_eq!(file_bytes(), committed_bytes);
}

#[test]
fn a_journal_larger_than_the_budget_is_replayed() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("j.heap");
    let mut writer = numbered(&path);
    let pin = open(&path, reader());
    for add in 1..4 {
        number(&mut writer, add);
        writer.commit(Durability::Durable).expect("committed");
    }
    // The reader kept all of it from being written back; so the next ones find it in the journal.
    drop(writer);
    let second = open(&path, reader());
    assert_numbered(&second, 3);
    assert!(second.spilled_bytes() > 3 * MIB);
    assert_numbered(&pin, 0);
    let mut writer = open(&path, bounded());
    assert_numbered(&writer, 3);
    number(&mut writer, 4);
    writer.abort().expect("aborted");
    assert_numbered(&writer, 3);
    drop(pin);
    drop(second);
    number(&mut writer, 5);
    writer.commit(Durability::Durable).expect("committed");
    assert_eq!(
        writer.spilled_bytes(),
        0,
        "what is committed is in the file"
    );
    assert_numbered(&writer, 5);
    drop(writer);
    assert_numbered(&open(&path, Options::snapshot()), 5);
}

#[test]
fn a_store_larger_than_the_budget_is_spilled_before_it_is_made() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("l.heap");
    let mut region = numbered(&path);
    region
        .bytes_mut(DATA_START + 3 * PAGE_BYTES, 3 * MIB)
        .expect("in bounds")
        .fill(9);
    assert!(region.spilled_bytes() >= 3 * MIB);
    let stats = region.commit(Durability::Durable).expect("committed");
    assert_eq!(stats.lines, 3 * MIB / 64);
    drop(region);
    let region = open(&path, Options::snapshot());
    let bytes = region.bytes(DATA_START + 3 * PAGE_BYTES, 3 * MIB);
    assert!(bytes.expect("in bounds").iter().all(|&byte| byte == 9));
}
