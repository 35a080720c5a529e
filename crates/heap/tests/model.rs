//! Random operations on tables, held against a plain model, with commits, aborts and reopening between them.

#![allow(clippy::print_stdout)] // seeds are for people

use heap::{Cell, Durability, Heap, Options, Table};
use testkit::rng::Rng;

/// What a table should hold, in order.
#[derive(Clone, Default)]
struct Model(Vec<(Vec<u8>, Value)>);

#[derive(Clone, PartialEq, Debug)]
enum Value {
    Uninit,
    Num(f64),
    Str(Vec<u8>, bool),
    Other(Vec<u8>),
}

impl Value {
    fn of(cell: Cell<'_>) -> Value {
        match cell {
            Cell::Uninit => Value::Uninit,
            Cell::Num(n) => Value::Num(n),
            Cell::Str { bytes, maybe_num } => Value::Str(bytes.to_vec(), maybe_num),
            Cell::Other(bytes) => Value::Other(bytes.to_vec()),
            Cell::Table(_) => panic!("no nested tables here"),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Value::Uninit => Cell::Uninit,
            Value::Num(n) => Cell::Num(*n),
            Value::Other(bytes) => Cell::Other(bytes),
            Value::Str(bytes, maybe_num) => Cell::Str {
                bytes,
                maybe_num: *maybe_num,
            },
        }
    }
}

impl Model {
    fn position(&self, key: &[u8]) -> Option<usize> {
        self.0.iter().position(|(k, _)| k == key)
    }
}

fn random_key(rng: &mut Rng, spread: u64) -> Vec<u8> {
    let n = rng.below(spread);
    match rng.below(4) {
        0 => n.to_string().into_bytes(),
        1 => format!("-{n}").into_bytes(),
        2 => format!("k{n:06}").into_bytes(),
        _ => format!("a key of more than fifteen bytes, number {n}").into_bytes(),
    }
}

fn random_value(rng: &mut Rng) -> Value {
    match rng.below(6) {
        0 => Value::Uninit,
        1..=3 => Value::Num(rng.below(1000) as f64 / 4.0),
        _ => {
            let len = [3, 15, 16, 40, 300, 5000, 40_000][rng.below(7) as usize];
            let bytes = rng.bytes(len);
            if rng.chance(6) {
                return Value::Other(bytes);
            }
            Value::Str(bytes, rng.chance(2))
        }
    }
}

fn compare(heap: &Heap, t: Table, model: &Model) {
    assert_eq!(heap.table_len(t).unwrap(), model.0.len() as u64);
    let mut found = Vec::new();
    heap.for_each(t, &mut |key, cell| {
        found.push((key.to_vec(), Value::of(cell)));
        Ok(())
    })
    .unwrap();
    assert!(found == model.0, "order and content");
}

fn step(
    heap: &mut Heap,
    t: Table,
    model: &mut Model,
    rng: &mut Rng,
    spread: u64,
    delete_heavy: bool,
) {
    let key = random_key(rng, spread);
    let known = model.position(&key);
    if rng.chance(if delete_heavy { 2 } else { 6 }) {
        assert_eq!(heap.remove(t, &key).unwrap(), known.is_some());
        if let Some(i) = known {
            model.0.remove(i);
        }
    } else if rng.chance(3) {
        let slot = heap.find(t, &key).unwrap();
        assert_eq!(slot.is_some(), known.is_some());
        if let (Some(slot), Some(i)) = (slot, known) {
            assert_eq!(Value::of(heap.cell(slot).unwrap()), model.0[i].1);
        }
    } else {
        let value = random_value(rng);
        let integer = std::str::from_utf8(&key)
            .ok()
            .and_then(|k| k.parse::<i64>().ok())
            .filter(|n| n.to_string().as_bytes() == key);
        let slot = match integer {
            Some(n) => heap.entry_int(t, n).unwrap(),
            None => heap.entry(t, &key).unwrap(),
        };
        heap.cell_set(slot, value.cell()).unwrap();
        match known {
            Some(i) => model.0[i].1 = value,
            None => model.0.push((key, value)),
        }
    }
}

/// What the next steps of [`run_step`] mostly do.
#[derive(Clone, Copy)]
enum Phase {
    Push,
    Stack,
    Queue,
    Scatter,
    /// Here and there, and now and then with keys that are in no sequence.
    Mixed,
}

/// Steps that make tables whose keys are whole numbers in sequence, with holes, and break the sequence again.
struct Runs {
    phase: Phase,
    left: u64,
    /// Key of the next table's first element.
    first: i64,
}

fn number_of(key: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(key).ok()?;
    let n = text.parse::<i64>().ok()?;
    (n.to_string() == text).then_some(n)
}

impl Runs {
    fn new() -> Runs {
        Runs {
            phase: Phase::Push,
            left: 0,
            first: 1,
        }
    }

    /// One step; an error of the heap leaves the model as it was.
    fn step(
        &mut self,
        heap: &mut Heap,
        t: Table,
        model: &mut Model,
        rng: &mut Rng,
    ) -> heap::Result<()> {
        if self.left == 0 {
            self.phase = match rng.below(7) {
                0 | 1 => Phase::Push,
                2 => Phase::Stack,
                3 => Phase::Queue,
                4 | 5 => Phase::Scatter,
                _ => Phase::Mixed,
            };
            self.left = [30, 150, 900][rng.below(3) as usize];
        }
        self.left -= 1;
        if model.0.is_empty() {
            // The last one: numbers of 15 digits are in no run.
            self.first = [1, 0, 2, -20, 7, -1_000, 99_999_999_999_970][rng.below(7) as usize];
        }
        let front = model.0.iter().find_map(|(key, _)| number_of(key));
        let back = model.0.iter().rev().find_map(|(key, _)| number_of(key));
        let next = back.map_or(self.first, |n| n + 1);
        let (one_in, many) = (rng.below(100), model.0.len() as u64);
        match self.phase {
            Phase::Push if one_in < 95 => put(heap, t, model, rng, next),
            Phase::Stack if one_in < 45 => put(heap, t, model, rng, next),
            Phase::Stack if one_in < 97 => take(heap, t, model, back),
            Phase::Queue if one_in < 48 => put(heap, t, model, rng, next),
            Phase::Queue if one_in < 98 => take(heap, t, model, front),
            Phase::Scatter if one_in < 95 && many > 1 => {
                let (key, _) = &model.0[rng.below(many) as usize];
                take(heap, t, model, number_of(key))
            }
            Phase::Mixed if rng.chance(60) => {
                let odd = [
                    &b"01"[..],
                    b"-0",
                    b"1.0",
                    b"",
                    b" 1",
                    b"-",
                    b"1 is no number",
                ];
                let key = odd[rng.below(7) as usize].to_vec();
                put_key(heap, t, model, rng, key)
            }
            Phase::Mixed if rng.chance(60) => {
                let n = rng.below(1_000_000).cast_signed();
                put(heap, t, model, rng, n)
            }
            _ => {
                // Somewhere among them: there, or gone, or not yet there.
                let (low, high) = (front.unwrap_or(0).min(next) - 2, next.max(0) + 2);
                let n = low
                    + rng
                        .below((high - low).unsigned_abs().min(3000))
                        .cast_signed();
                let known = model.position(n.to_string().as_bytes());
                assert_eq!(heap.find_int(t, n)?.is_some(), known.is_some());
                let found = heap.find(t, n.to_string().as_bytes())?;
                assert_eq!(found.is_some(), known.is_some());
                let past = heap.find(t, format!("0{n}").as_bytes())?;
                assert!(past.is_none() || n == 1);
                if known.is_none() && !rng.chance(20) {
                    return Ok(());
                }
                put(heap, t, model, rng, n)
            }
        }
    }
}

fn put(heap: &mut Heap, t: Table, model: &mut Model, rng: &mut Rng, n: i64) -> heap::Result<()> {
    put_key(heap, t, model, rng, n.to_string().into_bytes())
}

fn put_key(
    heap: &mut Heap,
    t: Table,
    model: &mut Model,
    rng: &mut Rng,
    key: Vec<u8>,
) -> heap::Result<()> {
    let slot = match number_of(&key) {
        Some(n) if rng.chance(2) => heap.entry_int(t, n)?,
        _ => heap.entry(t, &key)?,
    };
    let known = model.position(&key).unwrap_or_else(|| {
        model.0.push((key, Value::Uninit));
        model.0.len() - 1
    });
    assert_eq!(Value::of(heap.cell(slot)?), model.0[known].1);
    let value = match rng.chance(30) {
        true => random_value(rng),
        false => Value::Num(rng.below(1000) as f64),
    };
    heap.cell_set(slot, value.cell())?;
    model.0[known].1 = value;
    Ok(())
}

fn take(heap: &mut Heap, t: Table, model: &mut Model, n: Option<i64>) -> heap::Result<()> {
    let Some(n) = n else { return Ok(()) };
    let key = n.to_string().into_bytes();
    let known = model.position(&key);
    assert_eq!(heap.remove(t, &key)?, known.is_some());
    if let Some(i) = known {
        model.0.remove(i);
    }
    Ok(())
}

fn assert_sound(heap: &Heap) {
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn tables_do_what_the_model_does() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for round in 0..12 {
        let mut rng = Rng::new(seed + round);
        let mut heap = Heap::volatile().unwrap();
        let spread = [6, 40, 300, 3000][(round % 4) as usize];
        let tables: Vec<_> = (0..2)
            .map(|i| heap.root(&format!("t{i}")).unwrap())
            .collect();
        let mut models = vec![Model::default(); 2];
        for i in 0..4000 {
            let which = rng.below(2) as usize;
            step(
                &mut heap,
                tables[which],
                &mut models[which],
                &mut rng,
                spread,
                i > 2000,
            );
            if rng.chance(1500) {
                heap.table_clear(tables[which]).unwrap();
                models[which].0.clear();
            }
            if rng.chance(400) {
                assert_sound(&heap);
            }
        }
        for (t, model) in tables.iter().zip(&models) {
            compare(&heap, *t, model);
        }
        assert_sound(&heap);
        // Everything freed: nothing is left but the empty tables.
        for t in &tables {
            heap.table_clear(*t).unwrap();
        }
        assert_sound(&heap);
        assert!(heap.live_bytes().unwrap() < 1000);
    }
}

#[test]
fn runs_do_what_the_model_does() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for round in 0..12 {
        let mut rng = Rng::new(seed + round);
        let mut heap = Heap::volatile().unwrap();
        let t = heap.root("t").unwrap();
        let (mut model, mut runs) = (Model::default(), Runs::new());
        for _ in 0..6000 {
            runs.step(&mut heap, t, &mut model, &mut rng).unwrap();
            if rng.chance(700) {
                heap.table_clear(t).unwrap();
                model.0.clear();
            }
            if rng.chance(40) {
                assert_sound(&heap);
                compare(&heap, t, &model);
            }
            if rng.chance(1000) {
                let copy = heap.table_copy(t).unwrap();
                compare(&heap, copy, &model);
                heap.table_free(copy).unwrap();
            }
        }
        compare(&heap, t, &model);
        heap.table_clear(t).unwrap();
        assert_sound(&heap);
        assert!(heap.live_bytes().unwrap() < 1000);
    }
}

#[test]
fn a_full_heap_leaves_runs_as_they_are() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let dir = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for round in 0..12 {
        let mut rng = Rng::new(seed + round);
        let path = dir.path().join(format!("{round}.heap"));
        // A file that is there and blank has the length that the heap may have.
        let blank = std::fs::File::create(&path).unwrap();
        blank.set_len(1 << 20).unwrap();
        let mut heap = Heap::open(&path, Options::writer()).unwrap();
        let (t, filler) = (heap.root("t").unwrap(), heap.root("filler").unwrap());
        let (mut model, mut runs, mut fillers) = (Model::default(), Runs::new(), 0);
        for _ in 0..4000 {
            // What room there is, is of changing sizes.
            let len = [60, 160, 500, 2000, 4096][rng.below(5) as usize];
            let text = vec![b'f'; len];
            while !rng.chance(3) {
                let added = heap.entry_int(filler, fillers).and_then(|slot| {
                    let cell = Cell::Other(&text);
                    heap.cell_set(slot, cell)
                });
                if added.is_err() {
                    heap.remove(filler, rng.below(fillers as u64 + 1).to_string().as_bytes())
                        .unwrap();
                    break;
                }
                fillers += 1;
            }
            match runs.step(&mut heap, t, &mut model, &mut rng) {
                Ok(()) => {}
                Err(error) => {
                    assert!(error.to_string().contains("limit of 1048576"), "{error}");
                    refused += 1;
                    if refused % 8 == 0 {
                        assert_sound(&heap);
                    }
                    compare(&heap, t, &model);
                }
            }
        }
        assert_sound(&heap);
        compare(&heap, t, &model);
    }
    println!("{refused} times refused");
    assert!(refused > 100);
}

#[test]
fn commits_and_aborts_and_reopening_keep_the_committed_content() {
    commits_and_aborts(None);
}

#[test]
fn commits_and_aborts_keep_it_in_a_heap_larger_than_its_memory() {
    commits_and_aborts(Some(128 << 10));
}

fn commits_and_aborts(memory_budget_bytes: Option<u64>) {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for with_runs in [false, true] {
        reopening_keeps_the_committed_content(seed, with_runs, memory_budget_bytes);
    }
}

fn reopening_keeps_the_committed_content(
    seed: u64,
    with_runs: bool,
    memory_budget_bytes: Option<u64>,
) {
    let options = |access: Options| Options {
        memory_budget_bytes,
        ..access
    };
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.heap");
    let mut rng = Rng::new(seed);
    let mut heap = Heap::open(&path, options(Options::writer())).unwrap();
    let mut t = heap.root("t").unwrap();
    heap.commit(Durability::Lazy).unwrap();
    let (mut model, mut committed) = (Model::default(), Model::default());
    let mut runs = Runs::new();
    for i in 0..3000 {
        if with_runs {
            runs.step(&mut heap, t, &mut model, &mut rng).unwrap();
        } else {
            step(&mut heap, t, &mut model, &mut rng, 400, i > 2000);
        }
        match rng.below(60) {
            0 => {
                heap.commit(if rng.chance(8) {
                    Durability::Durable
                } else {
                    Durability::Lazy
                })
                .unwrap();
                committed = model.clone();
            }
            1 => {
                heap.abort().unwrap();
                model = committed.clone();
                assert_sound(&heap);
            }
            2 if rng.chance(3) => {
                heap.close(if rng.chance(2) {
                    Durability::Durable
                } else {
                    Durability::Lazy
                })
                .unwrap();
                heap = Heap::open(&path, options(Options::writer())).unwrap();
                t = heap.root_find("t").unwrap().unwrap();
                model = committed.clone();
                compare(&heap, t, &model);
                assert_sound(&heap);
            }
            3 if rng.chance(3) => {
                let reader = Heap::open(&path, options(Options::snapshot())).unwrap();
                let t = reader.root_find("t").unwrap().unwrap();
                compare(&reader, t, &committed);
                assert_sound(&reader);
            }
            _ => {}
        }
    }
    compare(&heap, t, &model);
}

#[test]
fn nested_tables_live_and_die_with_what_holds_them() {
    let mut heap = Heap::volatile().unwrap();
    let root = heap.root("r").unwrap();
    let mut t = root;
    for _ in 0..5000 {
        let inner = heap.table_new().unwrap();
        let slot = heap.entry(t, b"inner").unwrap();
        heap.cell_set(slot, Cell::Table(inner)).unwrap();
        t = inner;
    }
    assert_sound(&heap);
    assert_eq!(heap.check().unwrap().tables, 5002);
    assert!(heap.remove(root, b"inner").unwrap());
    assert_sound(&heap);
    assert_eq!(heap.check().unwrap().tables, 2);
}

#[test]
fn a_queue_takes_no_more_room_than_its_elements() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("queue").unwrap();
    for i in 0..200_000i64 {
        let slot = heap.entry_int(t, i).unwrap();
        heap.cell_set(slot, Cell::Num(1.0)).unwrap();
        if i >= 1000 {
            assert!(heap.remove(t, (i - 1000).to_string().as_bytes()).unwrap());
        }
    }
    assert_sound(&heap);
    assert!(
        heap.live_bytes().unwrap() < 50_000,
        "{}",
        heap.live_bytes().unwrap()
    );
}

#[test]
fn scattered_deletions_give_chunks_back() {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    for i in 0..100_000i64 {
        heap.entry_int(t, i).unwrap();
    }
    let full = heap.live_bytes().unwrap();
    for i in 0..100_000i64 {
        if i % 20 != 0 {
            heap.remove(t, i.to_string().as_bytes()).unwrap();
        }
    }
    assert_sound(&heap);
    // The index stays (a quarter of the whole); the entries go.
    assert!(
        heap.live_bytes().unwrap() < full * 45 / 100,
        "{} of {full}",
        heap.live_bytes().unwrap()
    );
    let mut expected = 0;
    heap.for_each(t, &mut |key, _| {
        assert_eq!(key, expected.to_string().as_bytes());
        expected += 20;
        Ok(())
    })
    .unwrap();
    assert_eq!(expected, 100_000);
}

#[test]
fn a_million_random_small_strings_cost_little_more_than_their_bytes() {
    // Lengths 1 to 256, uniform, as values' blocks: what the allocator adds. Strings of up to 15 bytes would lie in their
    // cells and need no block at all; here they are forced into blocks by being counted as 16.
    let mut rng = Rng::new(47);
    let mut heap = Heap::volatile().unwrap();
    let before = heap.end_bytes();
    let t = heap.root("t").unwrap();
    let mut live = 0u64;
    for i in 0..1_000_000i64 {
        let len = 16 + rng.below(241) as usize;
        live += len as u64;
        let slot = heap.entry_int(t, i).unwrap();
        heap.cell_set(
            slot,
            Cell::Str {
                bytes: &vec![b'x'; len],
                maybe_num: false,
            },
        )
        .unwrap();
    }
    let strings_in_blocks = heap.live_bytes().unwrap() - heap_without_strings();
    let total = heap.end_bytes() - before - heap_without_strings();
    let percent = |n: u64| (n as f64 / live as f64 - 1.0) * 100.0;
    println!(
        "size classes: {:+.1} %, with descriptors and unused blocks: {:+.1} %",
        percent(strings_in_blocks),
        percent(total)
    );
    assert!(percent(total) <= 8.0);
}

/// What the table of a million elements takes without its strings.
fn heap_without_strings() -> u64 {
    let mut heap = Heap::volatile().unwrap();
    let t = heap.root("t").unwrap();
    for i in 0..1_000_000i64 {
        heap.entry_int(t, i).unwrap();
    }
    heap.live_bytes().unwrap()
}

#[test]
fn a_table_taken_out_of_its_cell_lives_on_until_it_is_freed() {
    let mut heap = Heap::volatile().unwrap();
    let outer = heap.root("outer").unwrap();
    let inner = heap.table_new().unwrap();
    let slot = heap.entry(outer, b"inner").unwrap();
    heap.cell_set(slot, Cell::Table(inner)).unwrap();
    let slot = heap.entry(inner, b"k").unwrap();
    heap.cell_set(slot, Cell::Num(1.0)).unwrap();

    let slot = heap.find(outer, b"inner").unwrap().unwrap();
    assert_eq!(heap.cell_take_table(slot).unwrap(), Some(inner));
    assert_eq!(heap.cell_take_table(slot).unwrap(), None);
    assert!(heap.remove(outer, b"inner").unwrap());
    assert_eq!(heap.table_len(inner).unwrap(), 1);

    let slot = heap.entry(outer, b"again").unwrap();
    heap.cell_set(slot, Cell::Table(inner)).unwrap();
    assert_eq!(heap.table_clear_outer(outer).unwrap(), vec![inner]);
    assert_eq!(heap.table_len(inner).unwrap(), 1);
    heap.table_free(inner).unwrap();
    assert!(heap.check().unwrap().problems.is_empty());
}
