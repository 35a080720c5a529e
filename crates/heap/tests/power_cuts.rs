//! The ladder over real file systems, with whole heaps: tables, text, and blocks so large that their space is given back, on
//! ext4 and XFS, on a disk that loses what it was not told to flush.

use heap::{Cell, Durability, Heap, Options};
use std::path::Path;
use std::process::ExitCode;
use testkit::rng::Rng;
use testkit::volatile::{FileSystem, Goal, Reporter, Subject, Trial, run};

mod tables;

struct Tables;

fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

fn fingerprint(heap: &Heap) -> Result<u64, String> {
    Ok(tables::fingerprint(heap).map_err(text)?.max(1))
}

fn open(folder: &Path, rng: &mut Rng) -> heap::Result<Heap> {
    let options = Options {
        memory_budget_bytes: rng.chance(4).then_some(8 * region::PAGE_BYTES),
        ..Options::writer()
    };
    Heap::open(&folder.join("a.heap"), options)
}

fn change(heap: &mut Heap, rng: &mut Rng) -> heap::Result<()> {
    if rng.chance(5) {
        // Extents: zones of their own, which are free again when the text is.
        let t = heap.root("large")?;
        let key = [b'0' + rng.below(4) as u8];
        if rng.chance(2) {
            heap.remove(t, &key)?;
        } else {
            let len = 100_000 + rng.below(500_000) as usize;
            let slot = heap.entry(t, &key)?;
            let bytes = vec![rng.draw() as u8; len];
            let maybe_num = false;
            heap.cell_set(
                slot,
                Cell::Str {
                    bytes: &bytes,
                    maybe_num,
                },
            )?;
        }
    }
    tables::change(heap, rng)
}

impl Subject for Tables {
    fn work(&self, folder: &Path, seed: u64, reporter: &mut Reporter) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(3) {
            if !folder.join("a.heap").exists() {
                reporter.found(0);
                reporter.attempt(fingerprint(&Heap::volatile().map_err(text)?)?);
                drop(open(folder, &mut rng).map_err(text)?);
                reporter.reported(true);
            }
            let mut heap = open(folder, &mut rng).map_err(text)?;
            reporter.found(fingerprint(&heap)?);
            for _ in 0..1 + rng.below(30) {
                change(&mut heap, &mut rng).map_err(text)?;
                if rng.chance(10) {
                    heap.abort().map_err(text)?;
                    continue;
                }
                let durability = [Durability::Durable, Durability::Lazy][rng.below(2) as usize];
                reporter.attempt(fingerprint(&heap)?);
                heap.commit(durability).map_err(text)?;
                reporter.reported(durability == Durability::Durable);
                if rng.chance(8) {
                    heap.flush().map_err(text)?;
                    reporter.reported_so_far_is_durable();
                }
            }
            let durability = [Durability::Durable, Durability::Lazy][rng.below(2) as usize];
            heap.close(durability).map_err(text)?;
            if durability == Durability::Durable {
                reporter.reported_so_far_is_durable();
            }
        }
        Ok(())
    }

    fn inspect(&self, folder: &Path) -> Result<u64, String> {
        let path = folder.join("a.heap");
        if !path.exists() {
            return Ok(0);
        }
        let open = |options: Options| {
            let how = Options {
                create: false,
                verify: heap::Verify::Report,
                ..options
            };
            Heap::open(&path, how).map_err(text)
        };
        let heap = open(Options::writer())?;
        let report = heap.check().map_err(text)?;
        if !report.is_clean() {
            return Err(format!("{report:?}"));
        }
        let found = fingerprint(&heap)?;
        drop(heap);
        let seen = fingerprint(&open(Options::snapshot())?)?;
        if seen == found {
            Ok(found)
        } else {
            Err(format!("a reader sees {seen:#x}, the writer {found:#x}"))
        }
    }

    fn go_on(&self, folder: &Path, seed: u64) -> Result<u64, String> {
        let mut rng = Rng::new(seed);
        let mut heap = open(folder, &mut rng).map_err(text)?;
        change(&mut heap, &mut rng).map_err(text)?;
        heap.commit(Durability::Durable).map_err(text)?;
        let state = fingerprint(&heap)?;
        if rng.chance(2) {
            heap.close(Durability::Durable).map_err(text)?;
        }
        Ok(state)
    }
}

fn main() -> ExitCode {
    let trial = |name, file_system| Trial {
        name,
        file_system,
        subject: Box::new(Tables),
        goal: Goal::Clean { states: 200 },
    };
    let trials = [
        trial(
            "every_power_cut_on_ext4_leaves_a_committed_heap",
            FileSystem::Ext4Ordered,
        ),
        trial(
            "every_power_cut_on_ext4_with_data_written_back_leaves_a_committed_heap",
            FileSystem::Ext4Writeback,
        ),
        trial(
            "every_power_cut_on_xfs_leaves_a_committed_heap",
            FileSystem::Xfs,
        ),
        trial(
            "every_power_cut_on_btrfs_leaves_a_committed_heap",
            FileSystem::Btrfs,
        ),
    ];
    run(&trials, &mut std::io::stdout())
}
