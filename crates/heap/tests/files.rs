//! Heaps at their limits on real files: a full file system, a full heap, a lost journal.

#![allow(clippy::print_stdout)] // reasons for skipping are for people

mod support;

use heap::{Cell, Durability, ErrorKind, Heap, Options, journal_path};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{fill, fingerprint, make, set, text};

fn writer(path: &Path) -> Heap {
    Heap::open(path, Options::writer()).expect("opens")
}

fn state(path: &Path) -> u64 {
    let heap = Heap::open(path, Options::snapshot()).expect("opens");
    let report = heap.check().expect("a report");
    assert!(report.is_clean(), "{report:?}");
    fingerprint(&heap).expect("readable")
}

/// A file system of its own, of a given size; gone when dropped.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    /// None where this process may not mount.
    fn new(size: &str) -> Option<Tmpfs> {
        let dir = tempfile::tempdir().ok()?;
        let option = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &option, "tmpfs"]);
        let done = mount.arg(dir.path()).output().ok()?;
        done.status.success().then(|| Tmpfs(dir))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Takes all room but `left` bytes.
    fn fill_but(&self, left: usize) {
        use std::io::Write;
        let mut file = fs::File::create(self.path("filler")).expect("room for a name");
        while file.write_all(&[1; 4096]).is_ok() {}
        let len = file.metadata().expect("there").len();
        file.set_len(len.saturating_sub(left as u64))
            .expect("shorter");
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A file system of ext4 in a file.
struct Ext4 {
    folder: tempfile::TempDir,
}

impl Ext4 {
    fn new(bytes: u64) -> Option<Ext4> {
        let folder = tempfile::tempdir().ok()?;
        let image = folder.path().join("image");
        fs::File::create(&image).ok()?.set_len(bytes).ok()?;
        let at = folder.path().join("mounted");
        fs::create_dir(&at).ok()?;
        let done = |command: &mut Command| command.output().is_ok_and(|ran| ran.status.success());
        (done(Command::new("mkfs.ext4").arg("-q").arg(&image))
            && done(
                Command::new("mount")
                    .args(["-o", "loop"])
                    .args([&image, &at]),
            ))
        .then_some(Ext4 { folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("mounted").join(name)
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path("")).status();
    }
}

/// Not even for a moment longer than the call: else the next commit finds a disk that is full of nothing.
#[test]
fn what_could_not_be_reserved_takes_no_room() {
    let Some(disk) = Ext4::new(64 << 20) else {
        println!("skipped: mounting a file as a file system takes root");
        return;
    };
    let path = disk.path("a.heap");
    make(&path, 300);
    let mut heap = writer(&path);
    let t = heap.root("more").expect("a root");
    for round in 0..3 {
        let before = fs::metadata(&path).expect("there").len();
        let error = heap.block_new(1 << 30, 1).expect_err("there is no room");
        let ErrorKind::Io { source, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{error}");
        let after = fs::metadata(&path).expect("there").len();
        assert!(after <= before + (1 << 20), "{after} after {before}");
        // More than what the journal has in reserve.
        for i in 0..2000 {
            set(
                &mut heap,
                t,
                format!("{round} {i}").as_bytes(),
                text(&[3; 500]),
            )
            .expect("room");
        }
        heap.commit(Durability::Durable).expect("room for a frame");
    }
    heap.close(Durability::Durable).expect("closes");
}

#[test]
fn a_full_file_system_loses_nothing_and_the_heap_goes_on_when_there_is_room() {
    let Some(disk) = Tmpfs::new("2m") else {
        println!("skipped: mounting a small file system takes root");
        return;
    };
    let path = disk.path("full.heap");
    make(&path, 300);
    let before = state(&path);
    for left in [0, 4096, 8192, 40_000, 100_000] {
        let mut heap = writer(&path);
        disk.fill_but(left);
        // Grows until there is no room, in the heap file or in the journal.
        let grow = |heap: &mut Heap| -> heap::Result<()> {
            let t = heap.root("growing")?;
            for i in 0..2000 {
                set(heap, t, format!("{i}").as_bytes(), text(&[3; 500]))?;
                if i % 50 == 49 {
                    heap.commit(Durability::Lazy)?;
                }
            }
            Ok(())
        };
        let committed_before = heap.facts().expect("a file").commits;
        let error = grow(&mut heap).expect_err("there is no room");
        let ErrorKind::Io { source, .. } = error.kind() else {
            panic!("{error}")
        };
        assert_eq!(source.kind(), std::io::ErrorKind::StorageFull, "{error}");
        let message = error.to_string();
        for part in ["full.heap", "as of its last commit", "make room"] {
            assert!(message.contains(part), "{part:?} is missing in: {message}");
        }
        // The same handle goes on after the room is made: back to the last commit, and forward.
        heap.abort().expect("back to the last commit");
        assert!(heap.check().expect("a report").is_clean());
        if heap.facts().expect("a file").commits == committed_before {
            assert_eq!(fingerprint(&heap).expect("readable"), before);
        }
        let beside = Heap::open(&path, Options::snapshot()).expect("readers need no room");
        assert!(beside.check().expect("a report").is_clean());
        drop(beside);
        fs::remove_file(disk.path("filler")).expect("ours");
        let t = heap.root("growing").expect("room");
        heap.table_clear(t).expect("cleared");
        let roots = heap.roots().expect("there");
        heap.remove(roots, b"growing").expect("removed");
        heap.commit(Durability::Durable)
            .expect("there is room again");
        heap.close(Durability::Durable).expect("closed");
        assert_eq!(state(&path), before, "{left}");
    }
    // With no room at all a new heap is an error and leaves nothing that looks like one.
    disk.fill_but(0);
    let error = Heap::open(&disk.path("new.heap"), Options::writer())
        .map(drop)
        .expect_err("no room");
    assert!(error.to_string().contains("make room"), "{error}");
    assert!(!disk.path("new.heap").exists());
    fs::remove_file(disk.path("filler")).expect("ours");
    drop(writer(&disk.path("new.heap")));
}

#[test]
fn a_heap_that_is_full_keeps_its_content_and_its_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("limited.heap");
    fs::File::create(&path)
        .and_then(|f| f.set_len(1 << 20))
        .expect("blank");
    let mut heap = writer(&path);
    fill(&mut heap, 200).expect("room");
    let committed = fingerprint(&heap).expect("readable");
    let t = heap.root("much").expect("room");
    let mut refused = 0;
    // Every kind of growth meets the limit; what was refused has left no trace, so the rest can be committed as it is.
    for i in 0..20_000u64 {
        let key = format!("{i} {}", "k".repeat((i % 40) as usize));
        let len = [2, 30, 1000, 9000, 200_000][(i % 5) as usize];
        if let Err(error) = set(&mut heap, t, key.as_bytes(), text(&vec![b'v'; len])) {
            assert!(matches!(error.kind(), ErrorKind::Full { .. }), "{error}");
            assert!(
                error.to_string().contains("limit of 1048576 bytes"),
                "{error}"
            );
            refused += 1;
            if refused % 400 == 1 {
                let report = heap.check().expect("a report");
                assert!(report.is_clean(), "after {i}: {report:?}");
            }
        }
    }
    assert!(refused > 4000, "{refused}");
    let no_root = (0..2000).any(|i| {
        heap.root(&format!("another root with a name of its own {i}"))
            .is_err()
    });
    assert!(no_root && heap.table_copy(t).is_err());
    let report = heap.check().expect("a report");
    assert!(report.is_clean(), "{report:?}");
    heap.commit(Durability::Durable).expect("what was accepted");
    heap.table_clear(t).expect("deleting needs no room");
    heap.commit(Durability::Durable).expect("committed");
    fill(&mut heap, 200).expect("room again");
    heap.abort().expect("back");
    heap.close(Durability::Durable).expect("closed");
    let heap = writer(&path);
    assert!(heap.check().expect("a report").is_clean());
    assert!(heap.end_bytes() <= 1 << 20);
    let globals = heap
        .root_find("awk.globals")
        .expect("readable")
        .expect("there");
    let total = heap
        .find(globals, b"total")
        .expect("readable")
        .expect("there");
    assert_eq!(heap.cell(total).expect("readable"), Cell::Num(54.0));
    assert_ne!(committed, 0);
}

/// As `perdure check --discard-journal` does it.
fn without_journal(path: &Path) -> heap::Result<Heap> {
    let options = Options {
        create: false,
        discard_journal: true,
        ..Options::writer()
    };
    Heap::open(path, options)
}

#[test]
fn without_its_journal_a_heap_that_was_closed_is_whole() {
    for words in [0, 10, 300, 20_000] {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("lost.heap");
        make(&path, words);
        let before = state(&path);
        fs::remove_file(journal_path(&path)).expect("ours");
        let mut heap = without_journal(&path).expect("opens");
        assert!(heap.check().expect("a report").is_clean(), "{words}");
        assert_eq!(fingerprint(&heap).expect("readable"), before, "{words}");
        heap.commit(Durability::Durable).expect("committed");
        heap.close(Durability::Durable).expect("closed");
        assert_eq!(state(&path), before, "{words}");
        let mut heap = writer(&path);
        fill(&mut heap, words + 50).expect("goes on");
        heap.close(Durability::Durable).expect("closed");
        state(&path);
    }
}

#[test]
fn without_its_journal_a_heap_that_was_killed_gives_what_its_file_holds() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("killed.heap");
    let mut heap = writer(&path);
    fill(&mut heap, 500).expect("room");
    let t = heap.root("later").expect("room");
    for i in 0..3000 {
        heap.entry_int(t, i).expect("room");
    }
    heap.commit(Durability::Lazy).expect("committed"); // to the journal only
    set(&mut heap, t, b"never committed", Cell::Num(1.0)).expect("room");
    drop(heap); // as a kill would
    let kept = fs::read(journal_path(&path)).expect("there");
    fs::remove_file(journal_path(&path)).expect("ours");
    let heap = without_journal(&path).expect("the applied commits are in the file");
    assert!(heap.check().expect("a report").is_clean());
    assert!(heap.root_find("later").expect("readable").is_none());
    assert!(heap.root_find("awk.globals").expect("readable").is_some());
    drop(heap);
    // The journal was elsewhere after all: nothing was committed meanwhile, so it fits.
    fs::write(journal_path(&path), kept).expect("ours");
    let heap = writer(&path);
    let t = heap.root_find("later").expect("readable").expect("there");
    assert_eq!(heap.table_len(t).expect("readable"), 3000);
    // A file cut short does not open without its journal either, and says why.
    drop(heap);
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("ours");
    file.set_len(20_480).expect("shorter");
    fs::remove_file(journal_path(&path)).expect("ours");
    let error = without_journal(&path).map(drop).expect_err("cut");
    assert!(error.to_string().contains("the file is cut"), "{error}");
}
