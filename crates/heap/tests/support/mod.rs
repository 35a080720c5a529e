//! What the tests on real files share: a small heap with every kind of content, its reading, and a watchdog.
#![allow(dead_code)] // every test program uses a part

use heap::{Cell, Durability, Heap, Options, Table};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub fn set(heap: &mut Heap, t: Table, key: &[u8], value: Cell<'_>) -> heap::Result<()> {
    let slot = heap.entry(t, key)?;
    heap.cell_set(slot, value)
}

pub fn text(bytes: &[u8]) -> Cell<'_> {
    Cell::Str {
        bytes,
        maybe_num: false,
    }
}

/// Puts every kind of cell, key, block and index into a heap, in two commits.
pub fn fill(heap: &mut Heap, words: i64) -> heap::Result<()> {
    let globals = heap.root("awk.globals")?;
    set(heap, globals, b"total", Cell::Num(54.0))?;
    set(
        heap,
        globals,
        b"name",
        text(b"a name that is too long for its cell"),
    )?;
    let freq = heap.table_new()?;
    set(heap, globals, b"freq", Cell::Table(freq))?;
    for i in 0..words {
        let key = if i % 7 == 0 {
            format!("a word that is a block of its own, {i}")
        } else {
            format!("w{i}")
        };
        set(heap, freq, key.as_bytes(), Cell::Num(i as f64))?;
    }
    heap.commit(Durability::Durable)?;
    let nested = heap.table_new()?;
    set(heap, globals, b"nested", Cell::Table(nested))?;
    let inner = heap.table_new()?;
    set(heap, nested, b"inner", Cell::Table(inner))?;
    set(heap, inner, b"x", text(&[7; 5000]))?;
    set(heap, inner, b"y", text(&[8; 300]))?;
    let run = heap.table_new()?;
    set(heap, globals, b"run", Cell::Table(run))?;
    for i in 1..=words {
        let slot = heap.entry_int(run, i)?;
        heap.cell_set(slot, Cell::Num(i as f64))?;
    }
    for i in [2, 25, 30] {
        heap.remove(run, format!("{i}").as_bytes())?;
    }
    set(heap, run, b"25", Cell::Num(2.0))?;
    set(heap, run, b"no number", Cell::Num(3.0))?;
    for i in 0..words / 5 {
        heap.remove(freq, format!("w{}", i * 3).as_bytes())?;
    }
    heap.commit(Durability::Durable)?;
    Ok(())
}

pub fn make(path: &Path, words: i64) {
    let mut heap = Heap::open(path, Options::writer()).expect("a new heap");
    fill(&mut heap, words).expect("room");
    heap.close(Durability::Durable).expect("closed");
}

/// A checksum over everything that can be reached, at most a few nested levels deep.
pub fn fingerprint(heap: &Heap) -> heap::Result<u64> {
    let mut sum = 0u64;
    let mut left = heap.end_bytes() / 16;
    let mut waiting = vec![(heap.roots()?, 0)];
    while let Some((t, depth)) = waiting.pop() {
        heap.for_each(t, &mut |key, cell| {
            let mut text = key.to_vec();
            text.extend_from_slice(format!("{cell:?}").as_bytes());
            sum = sum.rotate_left(5) ^ region::layout::checksum(&text, sum);
            if let Cell::Table(inner) = cell
                && depth < 5
                && left > 0
            {
                left -= 1;
                waiting.push((inner, depth + 1));
            }
            Ok(())
        })?;
        if left == 0 {
            break;
        }
    }
    // Offsets of tables are part of the text above; they are the same in every copy of a heap.
    Ok(sum)
}

/// Ends the process with a message when one case takes too long: a hang is a failure too.
pub struct Watchdog {
    case: Arc<AtomicU64>,
    begun: Arc<Mutex<Instant>>,
    done: Arc<AtomicBool>,
}

impl Watchdog {
    #[allow(clippy::print_stderr)] // the last words
    pub fn new(what: &'static str, limit: Duration) -> Watchdog {
        let dog = Watchdog {
            case: Arc::default(),
            begun: Arc::new(Mutex::new(Instant::now())),
            done: Arc::default(),
        };
        let (case, begun, done) = (dog.case.clone(), dog.begun.clone(), dog.done.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(200));
                let took = begun.lock().expect("not poisoned").elapsed();
                if took > limit && !done.load(Ordering::Relaxed) {
                    eprintln!(
                        "{what}: case {} hangs ({took:?})",
                        case.load(Ordering::Relaxed)
                    );
                    std::process::abort();
                }
            }
        });
        dog
    }

    pub fn case(&self, n: u64) {
        self.case.store(n, Ordering::Relaxed);
        *self.begun.lock().expect("not poisoned") = Instant::now();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
    }
}
