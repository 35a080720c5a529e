//! Blocks of programs: where they lie, what they keep, and that the heap knows of each.

use heap::{ByAddress, Durability, Heap, Options, Place, Tracking};
use testkit::rng::Rng;

struct Known {
    offset: u64,
    size: u64,
    alignment: u64,
    fill: u8,
}

fn options() -> Options {
    Options {
        by_address: Some(ByAddress {
            tracking: Tracking::Pages,
            place: Place::Anywhere,
            ..ByAddress::default()
        }),
        ..Options::writer()
    }
}

fn open(path: &std::path::Path) -> Heap {
    Heap::open(path, options()).unwrap()
}

fn bytes(heap: &Heap, known: &Known) -> &'static mut [u8] {
    let address = heap.address() + known.offset as usize;
    assert!(known.offset + known.size <= heap.end_bytes());
    let start = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: in bounds of the heap (asserted), a block of the program's that nothing else refers to while this is used.
    unsafe { std::slice::from_raw_parts_mut(start, known.size as usize) }
}

fn random_size(rng: &mut Rng) -> u64 {
    match rng.below(12) {
        0 => 0,
        1..6 => rng.below(200),
        6..9 => rng.below(5000),
        9 | 10 => rng.below(200_000),
        _ => rng.below(1_000_000),
    }
}

fn verify(heap: &Heap, known: &[Known], seed: u64) {
    for known in known {
        let fill = known.fill;
        assert!(bytes(heap, known).iter().all(|&b| b == fill), "seed {seed}");
        assert!(heap.block_bytes(known.offset).unwrap() >= known.size);
    }
    let mut inside: Vec<(u64, u64)> = known
        .iter()
        .map(|k| (k.offset + k.size / 2, k.offset))
        .collect();
    inside.sort_unstable();
    let offsets: Vec<u64> = inside.iter().map(|&(offset, _)| offset).collect();
    let around = heap.blocks_around(&offsets).unwrap();
    for ((offset, start), found) in inside.into_iter().zip(around) {
        let found = found.unwrap_or_else(|| panic!("seed {seed}: nothing at {offset}"));
        assert_eq!(
            found,
            (start, heap.block_bytes(start).unwrap()),
            "seed {seed}"
        );
    }
    assert_eq!(
        heap.blocks_around(&[0, region::DATA_START, u64::MAX])
            .unwrap(),
        [None; 3]
    );
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "seed {seed}: {:?}", report.problems);
    assert_eq!(report.program_blocks, known.len() as u64, "seed {seed}");
}

#[test]
fn blocks_keep_what_is_stored_in_them() {
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.heap");
        let mut heap = open(&path);
        let mut known: Vec<Known> = Vec::new();
        for step in 0..1500 {
            match rng.below(100) {
                0..50 => {
                    let alignment = match rng.below(10) {
                        0 => 1 << rng.below(21),
                        _ => 16,
                    };
                    let size = random_size(&mut rng);
                    let offset = heap.block_new(size, alignment).unwrap();
                    assert_eq!((heap.address() as u64 + offset) % alignment.max(16), 0);
                    let new = Known {
                        offset,
                        size,
                        alignment,
                        fill: step as u8,
                    };
                    bytes(&heap, &new).fill(new.fill);
                    known.push(new);
                }
                50..85 if !known.is_empty() => {
                    let gone = known.swap_remove(rng.below(known.len() as u64) as usize);
                    heap.block_free(gone.offset).unwrap();
                    assert!(heap.block_free(gone.offset).is_err(), "twice");
                }
                85..97 if !known.is_empty() => {
                    let at = rng.below(known.len() as u64) as usize;
                    let size = random_size(&mut rng);
                    let resized = &mut known[at];
                    let kept = size.min(resized.size);
                    resized.offset = heap.block_resize(resized.offset, size).unwrap();
                    resized.size = kept;
                    let fill = resized.fill;
                    assert!(bytes(&heap, resized).iter().all(|&b| b == fill));
                    resized.size = size;
                    bytes(&heap, resized).fill(fill);
                    resized.alignment = 16;
                }
                97 => verify(&heap, &known, seed),
                98 => {
                    heap.commit(Durability::Lazy).unwrap();
                }
                _ => {
                    for (number, known) in known.iter().enumerate() {
                        let name = number.to_string();
                        heap.name_set(name.as_bytes(), Some(known.offset)).unwrap();
                    }
                    heap.commit(Durability::Lazy).unwrap();
                    heap.close(Durability::Lazy).unwrap();
                    heap = open(&path);
                    for (number, known) in known.iter().enumerate() {
                        let found = heap.name_find(number.to_string().as_bytes()).unwrap();
                        assert_eq!(found, Some(known.offset));
                    }
                    verify(&heap, &known, seed);
                }
            }
        }
        verify(&heap, &known, seed);
        for gone in known.drain(..) {
            heap.block_free(gone.offset).unwrap();
        }
        verify(&heap, &known, seed);
    }
}

/// Growth that is hardly used moves the committed end before the commit that notes its zones. A process that was killed in between leaves space behind
/// the zones.
#[test]
fn space_behind_the_zones_becomes_zones() {
    for (before, surplus_pages) in [(0, 64 << 8), (3, (64 << 8) + 5), (500, 70 << 8)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.heap");
        let mut known = Vec::new();
        let fill = |heap: &mut Heap, known: &mut Vec<Known>, count: u64| {
            for i in 0..count {
                let size = if i % 10 == 0 { 300_000 } else { 3000 };
                let offset = heap.block_new(size, 16).unwrap();
                let new = Known {
                    offset,
                    size,
                    alignment: 16,
                    fill: i as u8,
                };
                bytes(heap, &new).fill(new.fill);
                known.push(new);
            }
        };
        let mut heap = open(&path);
        fill(&mut heap, &mut known, before);
        heap.commit(Durability::Durable).unwrap();
        heap.close(Durability::Durable).unwrap();
        let mut region = region::Region::open(&path, options()).unwrap();
        region.extend(surplus_pages * region::PAGE_BYTES).unwrap();
        region.commit(Durability::Durable).unwrap();
        let end = region.end();
        drop(region);
        let mut heap = open(&path);
        assert_eq!(heap.end_bytes(), end);
        verify(&heap, &known, 0);
        fill(&mut heap, &mut known, 400);
        verify(&heap, &known, 0);
        assert!(heap.end_bytes() < end + (1 << 20), "it is used");
        heap.commit(Durability::Durable).unwrap();
        heap.close(Durability::Durable).unwrap();
        verify(&open(&path), &known, 0);
    }
}

#[test]
fn what_is_no_block_is_refused_and_changes_nothing() {
    let mut heap = Heap::volatile().unwrap();
    let table = heap.root("a table").unwrap();
    let small = heap.block_new(100, 16).unwrap();
    let large = heap.block_new(1 << 20, 1 << 16).unwrap();
    let end = heap.end_bytes();
    let none = [
        0,
        1,
        8192,
        12288,
        table.offset(),
        small + 16,
        small - 16,
        large + 4096,
        large - 4096,
        end,
        u64::MAX,
    ];
    for offset in none {
        assert!(heap.block_free(offset).is_err(), "{offset}");
        assert!(heap.block_bytes(offset).is_err(), "{offset}");
        assert!(heap.block_resize(offset, 10).is_err(), "{offset}");
    }
    assert!(heap.block_new(u64::MAX, 16).is_err());
    assert!(heap.block_new(u64::MAX - 5, 4096).is_err());
    assert!(heap.block_new(1 << 50, 1 << 40).is_err());
    assert!(heap.block_resize(small, u64::MAX).is_err());
    let report = heap.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.program_blocks, 2);
}

#[test]
fn names_lead_to_offsets_until_they_are_taken_away() {
    let mut heap = Heap::volatile().unwrap();
    assert_eq!(heap.name_find(b"x").unwrap(), None);
    heap.name_set(b"x", Some(4096)).unwrap();
    heap.name_set(b"", Some(u64::MAX)).unwrap();
    heap.name_set(b"x", Some(77)).unwrap();
    assert_eq!(heap.name_find(b"x").unwrap(), Some(77));
    assert_eq!(heap.name_find(b"").unwrap(), Some(u64::MAX));
    let mut names = Vec::new();
    let mut note = |name: &[u8], offset| {
        names.push((name.to_vec(), offset));
        Ok(())
    };
    heap.for_each_name(&mut note).unwrap();
    assert_eq!(names, [(b"x".to_vec(), 77), (Vec::new(), u64::MAX)]);
    heap.name_set(b"x", None).unwrap();
    assert_eq!(heap.name_find(b"x").unwrap(), None);
}
