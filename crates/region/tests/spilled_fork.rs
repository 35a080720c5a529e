//! A child keeps the state of the fork though it was spilled. Without the harness: a process of one thread is needed.

#![allow(clippy::print_stdout)] // the result is for people

use region::{DATA_START, Durability, Forked, Options, Region};
use std::time::Duration;

const MIB: u64 = 1 << 20;

fn fill(region: &mut Region, value: u64) {
    for at in (DATA_START..DATA_START + 6 * MIB).step_by(1024) {
        region.put(at, value).expect("in bounds");
    }
}

fn assert_filled(region: &Region, bytes: u64, value: u64) {
    for at in (DATA_START..DATA_START + bytes).step_by(1024) {
        assert_eq!(region.get::<u64>(at).expect("in bounds"), value);
    }
}

fn main() {
    // What runners of tests ask first.
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|argument| argument == "--list") {
        if !arguments.iter().any(|argument| argument == "--ignored") {
            println!("a_child_keeps_the_spilled_state_of_the_fork: test");
        }
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("f.heap");
    let options = Options {
        memory_budget_bytes: Some(256 << 10),
        ..Options::writer()
    };
    let mut region = Region::open(&path, options).expect("a new heap");
    region.extend(4 * MIB).expect("room");
    region.commit(Durability::Durable).expect("committed");
    region.extend(2 * MIB).expect("room");
    fill(&mut region, 1);
    assert!(region.spilled_bytes() > 5 * MIB);
    let (go, done) = (dir.path().join("go"), dir.path().join("done"));
    let wait_for = |path: &std::path::Path| {
        for _ in 0..10_000 {
            if path.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("the other process ended");
    };
    match region.fork().expect("a child") {
        Forked::Child => {
            wait_for(&go);
            assert_filled(&region, 6 * MIB, 1);
            fill(&mut region, 3);
            region.extend(MIB).expect("room");
            assert_filled(&region, 6 * MIB, 3);
            region.abort().expect("aborted");
            assert_filled(&region, 4 * MIB, 0);
            std::fs::write(&done, "").expect("written");
            std::mem::forget(dir); // the parent removes it
        }
        Forked::Parent(_) => {
            fill(&mut region, 2);
            region.commit(Durability::Durable).expect("committed");
            std::fs::write(&go, "").expect("written");
            wait_for(&done);
            assert_filled(&region, 6 * MIB, 2);
            println!("a child keeps the spilled state of the fork: 1 passed, 0 failed");
        }
    }
}
