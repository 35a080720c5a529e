//! The ladder over real file systems: regions on ext4 and XFS, on a disk that loses what it was not told to flush. And the
//! mistakes that it is there for, planted in the storage beneath the region: each is caught.

#![allow(clippy::print_stdout)] // tallies and reasons for skipping are for people

use region::layout::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FRAMES_START, checksum, frame, get_u32, get_u64, put_u64,
};
use region::storage::FileStorage;
use region::{
    DATA_START, Durability, Options, PAGE_BYTES, Region, Storage, Verify, journal_path, sums_path,
};
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard};
use testkit::rng::Rng;
use testkit::volatile::{FileSystem, Goal, Reporter, Subject, Trial, run};

const END_MAX: u64 = DATA_START + 4 * (1 << 20);

/// A mistake, and where it is made: in the storage that the region works on, or in that which it is opened on after a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    /// The same storage without any.
    Nothing,
    /// The journal is never flushed.
    JournalNotFlushed,
    /// The heap file is never flushed.
    HeapNotFlushed,
    /// Changed lines are on their way to the heap file before their frame is flushed.
    AppliedBeforeFlush,
    /// Recovery takes any frame, whatever its checksum.
    ChecksumSkipped,
}

struct Bytes {
    mistake: Option<Mistake>,
}

fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

fn fingerprint(region: &Region) -> region::Result<u64> {
    let bytes = region.bytes(DATA_START, region.end() - DATA_START)?;
    Ok(checksum(bytes, region.end()).max(1))
}

impl Bytes {
    fn open_writer(&self, path: &Path, rng: &mut Rng) -> region::Result<Region> {
        let Some(mistake) = self.mistake else {
            return Region::open(
                path,
                Options {
                    memory_budget_bytes: rng.chance(4).then_some(8 * PAGE_BYTES),
                    ..Options::writer()
                },
            );
        };
        // Made as it should be, with a page: so every commit of the mistaken one has lines to write back.
        let mut region = Region::open(path, Options::writer())?;
        if region.end() == DATA_START {
            region.extend(PAGE_BYTES)?;
            region.commit(Durability::Durable)?;
        }
        drop(region);
        Region::open_on(
            storages(path, mistake).expect("files that are there"),
            &Options::writer(),
            boot(),
            1 << 26,
        )
    }
}

/// Some stores, few or many, and perhaps some growth.
fn scribble(region: &mut Region, rng: &mut Rng) -> region::Result<()> {
    if region.end() < END_MAX && (region.end() == DATA_START || rng.chance(4)) {
        let pages = [1, 2, 7, 40][rng.below(4) as usize];
        let start = region.extend(pages * PAGE_BYTES)?;
        let fresh = rng.bytes(300);
        region
            .bytes_mut(start + rng.below(PAGE_BYTES - 300), 300)?
            .copy_from_slice(&fresh);
    }
    // In every commit, so that each has lines to write back.
    region.put(DATA_START, rng.draw())?;
    let size = region.end() - DATA_START;
    let count = [1, 3, 20, 300][rng.below(4) as usize];
    for _ in 0..count {
        let value = rng.draw();
        region.put(DATA_START + rng.below(size - 8), value)?;
    }
    if rng.chance(8) {
        let len = rng.below(size.min(300_000)) + 1;
        let from = DATA_START + rng.below(size - len + 1);
        let byte = rng.draw() as u8;
        region.bytes_mut(from, len)?.fill(byte);
    }
    Ok(())
}

/// What else goes on in a machine: the kernel brings things to the disk when it likes, and others have the file system's own
/// journal flushed.
fn noise(path: &Path, rng: &mut Rng) -> io::Result<()> {
    let which = [path.to_owned(), journal_path(path)];
    match rng.below(8) {
        0 | 1 => {
            let file = File::open(&which[rng.below(2) as usize])?;
            let len = file.metadata()?.len();
            let from = rng.below(len) & !(PAGE_BYTES - 1);
            FileStorage(file).write_back(from..from + 1 + rng.below(len), 0..0)
        }
        2 => {
            let other = path.with_file_name(format!("other-{}", rng.below(3)));
            std::fs::write(&other, rng.bytes(5000))?;
            FileStorage(File::open(other)?).sync()
        }
        3 => {
            let other = path.with_file_name(format!("other-{}", rng.below(3)));
            std::fs::rename(path.with_file_name("other-0"), other).or(Ok(()))
        }
        _ => Ok(()),
    }
}

impl Subject for Bytes {
    fn work(&self, folder: &Path, seed: u64, reporter: &mut Reporter) -> Result<(), String> {
        let path = folder.join("a.heap");
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(3) {
            if !path.exists() {
                reporter.found(0);
                reporter.attempt(checksum(&[], DATA_START).max(1));
                if self.mistake.is_some() {
                    let page = [0; PAGE_BYTES as usize];
                    reporter.attempt(checksum(&page, DATA_START + PAGE_BYTES).max(1));
                }
                drop(self.open_writer(&path, &mut rng).map_err(text)?);
                reporter.reported(true);
            }
            let mut region = self.open_writer(&path, &mut rng).map_err(text)?;
            reporter.found(fingerprint(&region).map_err(text)?);
            let mut reader = None;
            for _ in 0..1 + rng.below(30) {
                scribble(&mut region, &mut rng).map_err(text)?;
                if rng.chance(10) {
                    region.abort().map_err(text)?;
                    continue;
                }
                let durability = [Durability::Durable, Durability::Lazy][rng.below(2) as usize];
                reporter.attempt(fingerprint(&region).map_err(text)?);
                region.commit(durability).map_err(text)?;
                if durability == Durability::Durable {
                    assert_flushed();
                }
                reporter.reported(durability == Durability::Durable);
                noise(&path, &mut rng).map_err(text)?;
                // As long as one reads, frames wait in the journal.
                if rng.chance(5) && self.mistake.is_none() {
                    reader = match reader {
                        None => Some(Region::open(&path, Options::snapshot()).map_err(text)?),
                        Some(_) => None,
                    };
                }
                // A flush alone does not write back, so a mistake with that shows later than it should.
                if rng.chance(6) && self.mistake != Some(Mistake::AppliedBeforeFlush) {
                    region.flush().map_err(text)?;
                    reporter.reported_so_far_is_durable();
                }
                if rng.chance(8) {
                    region.checkpoint().map_err(text)?;
                }
            }
            let durability = [Durability::Durable, Durability::Lazy][rng.below(2) as usize];
            region.close(durability).map_err(text)?;
            drop(reader);
            catch_up().map_err(text)?; // what it says on closing has nothing to be written back
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
        if matches!(
            self.mistake,
            Some(Mistake::ChecksumSkipped | Mistake::Nothing)
        ) {
            let region = self.open_writer(&path, &mut Rng::new(0)).map_err(text)?;
            return fingerprint(&region).map_err(text);
        }
        let open = |options: Options| {
            Region::open(
                &path,
                Options {
                    create: false,
                    verify: Verify::Report,
                    ..options
                },
            )
        };
        let region = open(Options::writer()).map_err(text)?;
        if !region.unsound_pages().is_empty() {
            return Err(format!(
                "pages without their sums: {:?}",
                region.unsound_pages()
            ));
        }
        let found = fingerprint(&region).map_err(text)?;
        drop(region);
        let seen = fingerprint(&open(Options::snapshot()).map_err(text)?).map_err(text)?;
        if seen == found {
            Ok(found)
        } else {
            Err(format!("a reader sees {seen:#x}, the writer {found:#x}"))
        }
    }

    fn go_on(&self, folder: &Path, seed: u64) -> Result<u64, String> {
        let path = folder.join("a.heap");
        let mut rng = Rng::new(seed);
        // Then opening is a commit already, and one is all there may be here.
        let is_commit = match self.mistake {
            None => false,
            Some(_) => Region::open(&path, Options::writer()).map_err(text)?.end() == DATA_START,
        };
        let mut region = self.open_writer(&path, &mut rng).map_err(text)?;
        if !is_commit {
            scribble(&mut region, &mut rng).map_err(text)?;
            region.commit(Durability::Durable).map_err(text)?;
        }
        assert_flushed();
        let state = fingerprint(&region).map_err(text)?;
        if rng.chance(2) {
            region.close(Durability::Durable).map_err(text)?;
        }
        catch_up().map_err(text)?;
        Ok(state)
    }
}

/// The machine's, as the region asks for it.
fn boot() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    u128::from_str_radix(&digits, 16)
        .expect("32 digits")
        .to_le_bytes()
}

fn storages(path: &Path, mistake: Mistake) -> io::Result<[Box<dyn Storage>; 3]> {
    let open = |path: &Path| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        Ok::<_, io::Error>(FileStorage(file))
    };
    *late() = None;
    let planted = |path: &Path, place: Place| {
        Ok::<_, io::Error>(Box::new(Planted {
            file: open(path)?,
            mistake,
            place,
        }))
    };
    Ok([
        planted(path, Place::Heap)?,
        planted(&journal_path(path), Place::Journal)?,
        Box::new(open(&sums_path(path))?),
    ])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Heap,
    Journal,
}

/// The journal, if its flush was put off. One process has one region.
static LATE: Mutex<Option<File>> = Mutex::new(None);

fn late() -> MutexGuard<'static, Option<File>> {
    LATE.lock().expect("no panic while it is held")
}

fn catch_up() -> io::Result<()> {
    let journal = late().take();
    journal.map_or(Ok(()), |journal| FileStorage(journal).sync())
}

/// Or another mistake would be caught than the one that was planted.
fn assert_flushed() {
    assert!(late().is_none(), "a flush was left out");
}

/// A file of the operating system, used with a mistake.
struct Planted {
    file: FileStorage,
    mistake: Mistake,
    place: Place,
}

impl Planted {
    fn has(&self, mistake: Mistake, place: Place) -> bool {
        self.mistake == mistake && self.place == place
    }
}

impl Storage for Planted {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)?;
        if self.has(Mistake::ChecksumSkipped, Place::Journal)
            && buf.len() == FRAME_HEADER_BYTES
            && get_u32(buf, frame::MAGIC) == FRAME_MAGIC
        {
            // The frame's checksum becomes whatever its bytes have.
            let room = self.file.len()? - offset - FRAME_HEADER_BYTES as u64;
            let payload_bytes = get_u64(buf, frame::PAYLOAD_BYTES).min(room);
            let mut bytes = vec![0; payload_bytes as usize];
            self.file
                .read_at(&mut bytes, offset + FRAME_HEADER_BYTES as u64)?;
            bytes.extend_from_slice(&buf[..frame::CHECKSUM]);
            let found = checksum(&bytes, get_u64(buf, frame::CHAIN));
            put_u64(buf, frame::CHECKSUM, found);
        }
        Ok(())
    }

    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.place == Place::Journal && offset >= FRAMES_START {
            // A second frame of the same commit.
            catch_up()?;
        }
        self.file.write_at(buf, offset)?;
        if self.has(Mistake::AppliedBeforeFlush, Place::Heap) {
            // The kernel is free to bring it to the disk at once. Then the flush is made up for, before the commit returns:
            // nothing but the order is wrong.
            let range = offset..offset + buf.len() as u64;
            self.file.write_back(range.clone(), 0..0)?;
            self.file.write_back(0..0, range)?;
            catch_up()?;
        }
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn allocate(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.file.discard(offset, len)
    }

    fn write_back(&mut self, range: Range<u64>, before: Range<u64>) -> io::Result<()> {
        self.file.write_back(range, before)
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.has(Mistake::JournalNotFlushed, Place::Journal)
            || self.has(Mistake::HeapNotFlushed, Place::Heap)
        {
            return Ok(());
        }
        if self.has(Mistake::AppliedBeforeFlush, Place::Journal) {
            *late() = Some(self.file.0.try_clone()?);
            return Ok(());
        }
        self.file.sync()
    }

    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        self.file.mappable()
    }
}

fn main() -> ExitCode {
    let clean = |name, file_system| Trial {
        name,
        file_system,
        subject: Box::new(Bytes { mistake: None }),
        goal: Goal::Clean { states: 200 },
    };
    let planted = |name, file_system, mistake| Trial {
        name,
        file_system,
        subject: Box::new(Bytes {
            mistake: Some(mistake),
        }),
        goal: match mistake {
            Mistake::Nothing => Goal::Clean { states: 200 },
            _ => Goal::Caught { states_max: 5000 },
        },
    };
    let trials = [
        clean(
            "every_power_cut_on_ext4_leaves_a_commit",
            FileSystem::Ext4Ordered,
        ),
        clean(
            "every_power_cut_on_ext4_with_data_written_back_leaves_a_commit",
            FileSystem::Ext4Writeback,
        ),
        clean("every_power_cut_on_xfs_leaves_a_commit", FileSystem::Xfs),
        clean(
            "every_power_cut_on_btrfs_leaves_a_commit",
            FileSystem::Btrfs,
        ),
        planted(
            "without_a_mistake_nothing_is_caught_on_ext4",
            FileSystem::Ext4Ordered,
            Mistake::Nothing,
        ),
        planted(
            "without_a_mistake_nothing_is_caught_on_xfs",
            FileSystem::Xfs,
            Mistake::Nothing,
        ),
        planted(
            "a_journal_that_is_not_flushed_is_caught_on_ext4",
            FileSystem::Ext4Ordered,
            Mistake::JournalNotFlushed,
        ),
        planted(
            "a_journal_that_is_not_flushed_is_caught_on_xfs",
            FileSystem::Xfs,
            Mistake::JournalNotFlushed,
        ),
        planted(
            "a_heap_file_that_is_not_flushed_is_caught_on_ext4",
            FileSystem::Ext4Ordered,
            Mistake::HeapNotFlushed,
        ),
        planted(
            "a_frame_applied_before_its_flush_is_caught_on_ext4",
            FileSystem::Ext4Ordered,
            Mistake::AppliedBeforeFlush,
        ),
        planted(
            "a_frame_applied_before_its_flush_is_caught_on_xfs",
            FileSystem::Xfs,
            Mistake::AppliedBeforeFlush,
        ),
        planted(
            "a_checksum_that_is_not_looked_at_is_caught_on_ext4",
            FileSystem::Ext4Ordered,
            Mistake::ChecksumSkipped,
        ),
        planted(
            "a_checksum_that_is_not_looked_at_is_caught_on_xfs",
            FileSystem::Xfs,
            Mistake::ChecksumSkipped,
        ),
    ];
    run(&trials, &mut std::io::stdout())
}
