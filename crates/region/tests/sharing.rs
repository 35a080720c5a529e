//! One writer and many readers on real files: who waits for whom, and what each sees.

#![allow(clippy::print_stdout)] // tallies are for people

use region::{Durability, ErrorKind, Options, Region, Storage, journal_path};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use testkit::disk::Machine;

const PAGE: u64 = 4096;
/// Every commit stores its number to all of these.
const PLACES: u64 = 600;
const CHILD: &str = "PERDURE_TEST_CHILD_HEAP";

fn place(i: u64) -> u64 {
    8192 + i * 200 / 8 * 8
}

fn make(path: &Path) -> Region {
    let mut region = Region::open(path, Options::writer()).expect("a new heap");
    region.extend(PLACES * 200 + PAGE).expect("room");
    region.commit(Durability::Durable).expect("committed");
    region
}

fn store(region: &mut Region, n: u64) {
    for i in 0..PLACES {
        region.put(place(i), n).expect("in bounds");
    }
}

/// The one number that a snapshot sees everywhere.
fn seen(region: &Region) -> u64 {
    let first = region.get::<u64>(place(0)).expect("in bounds");
    for i in 1..PLACES {
        assert_eq!(
            region.get::<u64>(place(i)).expect("in bounds"),
            first,
            "place {i}: a mixture of two commits"
        );
    }
    first
}

fn snapshot(path: &Path) -> Region {
    Region::open(path, Options::snapshot()).expect("a snapshot opens beside a writer")
}

#[test]
fn a_second_writer_waits_for_the_first() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("w.heap");
    let mut first = make(&path);
    let impatient = Options {
        lock_timeout: Duration::from_millis(50),
        ..Options::writer()
    };
    let error = Region::open(&path, impatient)
        .map(drop)
        .expect_err("locked");
    assert!(matches!(error.kind(), ErrorKind::Locked { .. }));
    let text = error.to_string();
    let pid = format!("(process {})", std::process::id());
    for part in [
        "w.heap",
        "another process is writing",
        "waited 0.1 s",
        "--lock-timeout",
        "--snapshot",
        &pid,
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    let told = std::sync::Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let second = scope.spawn(|| {
            let told = told.clone();
            let on_wait: Box<dyn FnMut()> = Box::new(move || told.store(true, Ordering::Relaxed));
            let patient = Options {
                on_wait: Some(on_wait),
                ..Options::writer()
            };
            let region = Region::open(&path, patient).expect("the first goes away");
            seen(&region)
        });
        std::thread::sleep(Duration::from_millis(900));
        store(&mut first, 7);
        first.commit(Durability::Durable).expect("committed");
        first.close(Durability::Durable).expect("closed");
        assert_eq!(
            second.join().expect("no panic"),
            7,
            "it sees what the first committed while it waited"
        );
    });
    assert!(told.load(Ordering::Relaxed), "a wait is told of");
}

/// Run by the test below in processes of its own.
#[test]
#[ignore = "a part of readers_see_exactly_one_commit_each"]
fn child_reads() {
    let Some(path) = std::env::var_os(CHILD) else {
        return;
    };
    let begun = Instant::now();
    let mut last = 0;
    while begun.elapsed() < Duration::from_secs(2) {
        let n = seen(&snapshot(Path::new(&path)));
        assert!(n >= last, "time goes back from {last} to {n}");
        last = n;
    }
    assert!(last > 1, "the writer went on meanwhile");
}

#[test]
fn readers_see_exactly_one_commit_each() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("r.heap");
    let mut writer = make(&path);
    let stop = AtomicBool::new(false);
    let (snapshots, committed) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for stays in [0u64, 3, 20] {
            let (path, stop, snapshots, committed) = (&path, &stop, &snapshots, &committed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let before = committed.load(Ordering::SeqCst);
                    let mut reader = snapshot(path);
                    let n = seen(&reader);
                    assert!(
                        n >= before,
                        "commit {before} was over before, and {n} is seen"
                    );
                    std::thread::sleep(Duration::from_millis(stays));
                    assert_eq!(seen(&reader), n, "the snapshot stays what it was");
                    store(&mut reader, 1_000_000);
                    assert_eq!(seen(&reader), 1_000_000, "a reader may scribble");
                    reader.abort().expect("back to the commit");
                    assert_eq!(seen(&reader), n, "and forget");
                    assert!(reader.commit(Durability::Durable).is_err());
                    snapshots.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let children: Vec<_> = (0..2)
            .map(|_| {
                Command::new(std::env::current_exe().expect("this program"))
                    .args(["--ignored", "--exact", "child_reads"])
                    .env(CHILD, &path)
                    .stdout(Stdio::null())
                    .spawn()
                    .expect("a child")
            })
            .collect();
        let begun = Instant::now();
        let mut n = 0;
        while begun.elapsed() < Duration::from_millis(2500) {
            n += 1;
            store(&mut writer, n);
            let wait = if n % 3 == 0 {
                Durability::Durable
            } else {
                Durability::Lazy
            };
            writer.commit(wait).expect("committed");
            committed.store(n, Ordering::SeqCst);
            if n % 40 == 0 {
                writer.checkpoint().expect("tried");
            }
            if n % 100 == 0 {
                let fresh = writer.extend(3 * PAGE).expect("room");
                writer.put(fresh, n).expect("in bounds");
            }
        }
        stop.store(true, Ordering::Relaxed);
        for mut child in children {
            assert!(
                child.wait().expect("ends").success(),
                "a reading process failed"
            );
        }
        println!(
            "{n} commits, {} snapshots in threads",
            snapshots.load(Ordering::Relaxed)
        );
    });
}

#[test]
fn a_reader_that_stays_keeps_its_commit_and_the_journal_waits() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("s.heap");
    let mut writer = make(&path);
    store(&mut writer, 1);
    writer.commit(Durability::Durable).expect("committed");
    let mut reader = snapshot(&path);
    let journal_before = std::fs::metadata(journal_path(&path)).expect("there").len();
    for n in 2..300 {
        store(&mut writer, n);
        writer
            .commit(if n % 10 == 0 {
                Durability::Durable
            } else {
                Durability::Lazy
            })
            .expect("committed");
        assert!(
            n % 50 != 0 || !writer.checkpoint().expect("tried"),
            "not over a reader's head"
        );
    }
    writer.flush().expect("flushed");
    assert!(writer.facts().expect("a file").commits_pending >= 298);
    assert!(
        std::fs::metadata(journal_path(&path)).expect("there").len() > journal_before + 1_000_000
    );
    assert_eq!(seen(&reader), 1);
    store(&mut reader, 5);
    reader.abort().expect("back to the commit");
    assert_eq!(seen(&reader), 1);
    assert_eq!(seen(&snapshot(&path)), 299, "a new reader sees the last");
    drop(reader);
    store(&mut writer, 300);
    writer.commit(Durability::Durable).expect("committed");
    assert_eq!(
        writer.facts().expect("a file").commits_pending,
        0,
        "the next commit applies them all"
    );
    assert!(writer.checkpoint().expect("possible now"));
    assert_eq!(seen(&snapshot(&path)), 300);
}

#[test]
fn a_snapshot_goes_back_though_the_journal_was_recycled() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("a.heap");
    let mut writer = make(&path);
    store(&mut writer, 1);
    writer.commit(Durability::Lazy).expect("committed"); // waits in the journal
    let mut reader = snapshot(&path);
    // At least this one: the note may be behind what is applied while a writer runs.
    assert!(reader.facts().expect("a file").commits_pending >= 1);
    assert!(
        writer
            .checkpoint()
            .expect("possible: the reader pins this very commit")
    );
    store(&mut writer, 2);
    writer.commit(Durability::Durable).expect("committed"); // the journal's first frame is another now
    store(&mut reader, 9);
    reader.abort().expect("the heap file has it all");
    assert_eq!(seen(&reader), 1);
    // And while the frames are still in the journal.
    drop(reader);
    store(&mut writer, 3);
    writer.commit(Durability::Lazy).expect("committed");
    let mut reader = snapshot(&path);
    store(&mut reader, 9);
    reader.abort().expect("from the journal");
    assert_eq!(seen(&reader), 3);
}

#[test]
fn a_writer_that_dies_leaves_its_last_commit_and_no_lock() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("d.heap");
    let mut writer = make(&path);
    store(&mut writer, 4);
    writer.commit(Durability::Lazy).expect("committed");
    store(&mut writer, 5);
    drop(writer); // as a kill would: nothing is closed, nothing flushed
    let prompt = Options {
        lock_timeout: Duration::ZERO,
        ..Options::writer()
    };
    let writer = Region::open(&path, prompt).expect("the lock is gone");
    assert_eq!(seen(&writer), 4);
}

/// A journal to which a writer appends while it is read: from a certain reading on there is more in it.
struct Growing {
    bytes: Vec<u8>,
    /// Up to here it is zeros at first.
    written: std::ops::Range<usize>,
    /// Readings until the rest is there.
    left: AtomicU64,
}

impl Storage for Growing {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let range = offset as usize..offset as usize + buf.len();
        let there = self.bytes.get(range.clone());
        buf.copy_from_slice(there.ok_or(io::ErrorKind::UnexpectedEof)?);
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left > 0 {
            let hidden = self.written.start.max(range.start)..self.written.end.min(range.end);
            for at in hidden {
                buf[at - range.start] = 0;
            }
        }
        Ok(())
    }

    fn write_at(&mut self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn set_len(&mut self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn allocate(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn discard(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Once a reader took a commit for damaged that was appended, with the one that testifies to it, while it read.
#[test]
fn a_reader_may_read_while_commits_are_appended() {
    let machine = Machine::new(vec![Vec::new(); 3], 0);
    Region::format_on(&mut *machine.file(0), &mut *machine.file(1), [3; 16], 0).unwrap();
    let files = || [0, 1, 2].map(|i| machine.file(i));
    let mut region = Region::open_on(files(), &Options::writer(), [1; 16], 1 << 26).unwrap();
    region.extend(PLACES * 200 + PAGE).unwrap();
    let mut lengths = Vec::new();
    for n in 1..6 {
        store(&mut region, n);
        region.commit(Durability::Durable).unwrap();
        let facts = region.facts().unwrap();
        lengths.push((8192 + facts.journal_used_bytes) as usize);
    }
    drop(region);
    let live = machine.live();
    let mut seen_at = Vec::new();
    for readings in 0..100 {
        let growing = Growing {
            bytes: live[1].clone(),
            written: lengths[2]..live[1].len(),
            left: AtomicU64::new(readings),
        };
        let machine = Machine::new(live.clone(), 0);
        let files: [Box<dyn Storage>; 3] = [machine.file(0), Box::new(growing), machine.file(2)];
        // Another boot: nothing but the frames tells what was committed.
        let region = Region::open_on(files, &Options::snapshot(), [2; 16], 1 << 26)
            .unwrap_or_else(|e| panic!("after {readings} readings: {e}"));
        seen_at.push(seen(&region));
    }
    println!("{seen_at:?}");
    assert!(seen_at.iter().all(|seen| [3, 4, 5].contains(seen)));
    assert!(seen_at.contains(&3) && seen_at.contains(&5));
}
