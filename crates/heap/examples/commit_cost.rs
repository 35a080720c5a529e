//! What a commit costs: bytes written after changing k of many values, and one durable commit beside one durable write.
//!
//! `cargo run --release -p heap --example commit_cost -- FOLDER [KEYS]`; `./x bench commit` makes a table of it.
//! One fact a line: a word, then `name=number` pairs.
#![allow(clippy::print_stdout)] // its purpose

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use heap::{CommitStats, Durability, Heap, Options, Table};

const KEYS: i64 = 10_000_000;
const ROUNDS: usize = 5;
const ONE_VALUE_ROUNDS: usize = 200;
const BLOCK_BYTES: usize = 4 << 10;
/// Blocks of the file to compare with; written over in turn, as a journal is.
const BLOCKS: usize = 1024;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args_os().skip(1);
    let folder = words
        .next()
        .map(PathBuf::from)
        .ok_or("usage: commit_cost FOLDER [KEYS]")?;
    let keys = match words.next() {
        Some(word) => word.to_string_lossy().parse()?,
        None => KEYS,
    };
    let path = folder.join("commit_cost.heap");
    remove(&path);
    let mut heap = Heap::open(&path, Options::writer())?;
    let table = build(&mut heap, keys)?;
    let mut k = 1;
    while k * 10 <= keys {
        change(&mut heap, table, keys, k)?;
        k *= 10;
    }
    one_value(&mut heap, table, keys, &folder.join("commit_cost.block"))?;
    heap.close(Durability::Durable)?;
    remove(&path);
    Ok(())
}

fn remove(heap: &Path) {
    for path in [heap.to_owned(), heap::journal_path(heap)] {
        let _ = std::fs::remove_file(path); // usually there is none
    }
}

fn build(heap: &mut Heap, keys: i64) -> Result<Table, Box<dyn Error>> {
    let start = Instant::now();
    let table = heap.root("values")?;
    for key in 0..keys {
        let slot = heap.entry_int(table, key)?;
        heap.cell_set_num(slot, key as f64)?;
    }
    let built = start.elapsed();
    heap.commit(Durability::Durable)?;
    println!(
        "build keys={keys} work_us={} commit_us={} heap_bytes={}",
        built.as_micros(),
        (start.elapsed() - built).as_micros(),
        heap.end_bytes()
    );
    Ok(table)
}

/// Key number `n` of a round: steps of the golden section through all keys never meet the same one twice, if the number of
/// keys has no common divisor with the step.
fn spread(n: i64, round: usize, keys: i64) -> i64 {
    let mut step = (keys as f64 * 0.618_033_988_75) as i64 | 1;
    while common_divisor(step, keys) != 1 {
        step += 2;
    }
    (i128::from(n + round as i64 * 7919) * i128::from(step) % i128::from(keys)) as i64
}

fn common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn change(heap: &mut Heap, table: Table, keys: i64, k: i64) -> Result<(), Box<dyn Error>> {
    let mut times = Vec::new();
    let mut total = CommitStats::default();
    for round in 0..ROUNDS {
        for n in 0..k {
            let slot = heap.entry_int(table, spread(n, round, keys))?;
            heap.cell_set_num(slot, round as f64 + 0.5)?;
        }
        let start = Instant::now();
        let stats = heap.commit(Durability::Durable)?;
        times.push(start.elapsed().as_micros());
        total.lines += stats.lines;
        total.journal_bytes += stats.journal_bytes;
        total.applied_bytes += stats.applied_bytes;
        total.flushes += stats.flushes;
    }
    println!(
        "change k={k} rounds={ROUNDS} lines={} journal_bytes={} applied_bytes={} flushes={} commit_us={}",
        total.lines,
        total.journal_bytes,
        total.applied_bytes,
        total.flushes,
        median(times)
    );
    Ok(())
}

/// Commits of one value and writes of one block, in turn, on the same file system.
fn one_value(
    heap: &mut Heap,
    table: Table,
    keys: i64,
    block_path: &Path,
) -> Result<(), Box<dyn Error>> {
    let block = [0x5a; BLOCK_BYTES];
    let file: File = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(block_path)?;
    for n in 0..BLOCKS {
        file.write_all_at(&block, (n * BLOCK_BYTES) as u64)?;
    }
    file.sync_all()?;
    let (mut commits, mut writes) = (Vec::new(), Vec::new());
    let mut journal_bytes = 0;
    for n in 0..ONE_VALUE_ROUNDS {
        let start = Instant::now();
        let slot = heap.entry_int(table, spread(n as i64, ROUNDS, keys))?;
        heap.cell_set_num(slot, n as f64 + 0.25)?;
        journal_bytes += heap.commit(Durability::Durable)?.journal_bytes;
        commits.push(start.elapsed().as_micros());

        let start = Instant::now();
        file.write_all_at(&block, (n % BLOCKS * BLOCK_BYTES) as u64)?;
        file.sync_data()?;
        writes.push(start.elapsed().as_micros());
    }
    std::fs::remove_file(block_path)?;
    println!(
        "one rounds={ONE_VALUE_ROUNDS} commit_us={} write_us={} journal_bytes={}",
        median(commits),
        median(writes),
        journal_bytes / ONE_VALUE_ROUNDS as u64
    );
    Ok(())
}

fn median(mut values: Vec<u128>) -> u128 {
    values.sort_unstable();
    values[values.len() / 2]
}
