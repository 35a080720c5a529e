//! What may be found where a heap should be: other files, cut ones, garbled and forged ones, other people's. Each gives a
//! committed state or an error that names the file and the reason; none a crash.

#![allow(clippy::print_stdout, clippy::print_stderr)] // seeds, tallies and reasons for skipping are for people

use region::layout::{
    self, FRAME_HEADER_BYTES, FRAMES_START, NOTE_BYTES, NOTE_OFFSET, SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSETS, put_u32, put_u64,
};
use region::{
    Access, ByAddress, DATA_START, Durability, ErrorKind, Options, PAGE_BYTES, Place, Region,
    Tracking, Verify, journal_path,
};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::path::Path;
use tempfile::TempDir;
use testkit::rng::Rng;

const PAGE: u64 = 4096;

fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("a folder")
}

fn snapshot(path: &Path) -> region::Result<Region> {
    Region::open(path, Options::snapshot())
}

/// Commit number and content: the states of `make` are all different.
fn state(region: &Region) -> (u64, u64) {
    let bytes = region.bytes(0, region.end()).expect("in bounds");
    (
        region.facts().expect("a file").commits,
        layout::checksum(&bytes[8192..], 0),
    )
}

/// A heap with a few commits, the last ones pending in the journal if `pending`; returns all committed states.
fn make(path: &Path, pending: bool) -> Vec<(u64, u64)> {
    let mut region = Region::open(path, Options::writer()).expect("a new heap");
    let mut states = vec![state(&region)];
    for n in 0..6u64 {
        if n < 3 {
            region.extend(2 * PAGE).expect("room");
        }
        for i in 0..20 {
            region
                .put(
                    8192 + (n * 1717 + i * 611) % (region.end() - 8192) / 8 * 8,
                    n * 100 + i,
                )
                .expect("in bounds");
        }
        let wait = if pending && n >= 2 {
            Durability::Lazy
        } else {
            Durability::Durable
        };
        region.commit(wait).expect("committed");
        states.push(state(&region));
    }
    if pending {
        assert!(region.facts().expect("a file").commits_pending > 0);
    } else {
        region.close(Durability::Durable).expect("closed");
    }
    states
}

fn message(path: &Path, options: Options) -> String {
    match Region::open(path, options) {
        Ok(_) => panic!("{} opens", path.display()),
        Err(error) => error.to_string(),
    }
}

fn assert_has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

#[test]
fn what_is_no_heap_is_told_and_left_alone() {
    let dir = folder();
    let path = dir.path().join("file");
    let cases: [(&[u8], &str); 4] = [
        (b"", "empty (0 bytes)"),
        (b"short", "does not begin like one"),
        (&[0xab; 12_345], "does not begin like one"),
        (&[0; 8192], "a limit of 8192 bytes"),
    ];
    for (bytes, why) in cases {
        fs::write(&path, bytes).expect("written");
        assert_has(&message(&path, Options::writer()), &["file\"", why]);
        assert!(snapshot(&path).is_err());
        assert_eq!(fs::read(&path).expect("there"), bytes, "left as it is");
    }
    fs::remove_file(&path).expect("ours");
    assert_has(
        &message(&path, Options::snapshot()),
        &["no such file", "perdure create"],
    );
    assert_has(
        &message(dir.path(), Options::writer()),
        &["it is a directory"],
    );
    assert_has(
        &message(dir.path(), Options::snapshot()),
        &["it is a directory"],
    );
    assert_has(
        &message(Path::new("/dev/null"), Options::writer()),
        &["not a regular file"],
    );
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .expect("mkfifo starts");
    assert!(made.success());
    assert_has(&message(&path, Options::writer()), &["not a regular file"]);
    assert_has(
        &message(&path, Options::snapshot()),
        &["not a regular file"],
    );
    fs::remove_file(&path).expect("ours");
    // Wiped superblocks with data behind them are no blank file.
    let mut wiped = vec![0; 3 << 20];
    wiped[2 << 20] = 1;
    fs::write(&path, wiped).expect("written");
    assert_has(
        &message(&path, Options::writer()),
        &["superblocks are wiped"],
    );
}

#[test]
fn a_heap_cut_anywhere_is_told_and_a_longer_one_is_whole() {
    for pending in [false, true] {
        let dir = folder();
        let path = dir.path().join("cut.heap");
        let states = make(&path, pending);
        let last = *states.last().expect("some");
        let bytes = fs::read(&path).expect("there");
        let end = {
            let region = snapshot(&path).expect("whole");
            region.end()
        };
        let lengths =
            (0..=end / PAGE).flat_map(|page| [page * PAGE, page * PAGE + 1, page * PAGE + 4095]);
        for len in lengths {
            let len = len as usize;
            fs::write(&path, &bytes[..len.min(bytes.len())]).expect("written");
            if len > bytes.len() {
                OpenOptions::new()
                    .write(true)
                    .open(&path)
                    .expect("ours")
                    .set_len(len as u64)
                    .expect("longer");
            }
            match snapshot(&path) {
                // Pending commits with fresh space that is cut off never happened.
                Ok(region) => {
                    assert!(states.contains(&state(&region)) && (pending || state(&region) == last))
                }
                Err(error) => {
                    assert!((len as u64) < end, "{len}: {error}");
                    assert_has(&error.to_string(), &["cut.heap"]);
                }
            }
        }
        let mut longer = bytes.clone();
        longer.extend_from_slice(&[0xee; 777]);
        fs::write(&path, longer).expect("written");
        let mut region = Region::open(&path, Options::writer()).expect("the end is known");
        assert_eq!(state(&region), last);
        let fresh = region.extend(PAGE).expect("room");
        assert!(
            region
                .bytes(fresh, PAGE)
                .expect("in bounds")
                .iter()
                .all(|&b| b == 0)
        );
    }
}

#[test]
fn every_byte_of_a_journal_may_be_changed_or_cut_off() {
    for pending in [false, true] {
        let dir = folder();
        let path = dir.path().join("j.heap");
        let states = make(&path, pending);
        let last = *states.last().expect("some");
        let journal = journal_path(&path);
        let bytes = fs::read(&journal).expect("there");
        let file = OpenOptions::new().write(true).open(&journal).expect("ours");
        let (mut same, mut earlier, mut refused) = (0, 0, 0);
        for (at, &byte) in bytes.iter().enumerate() {
            file.write_all_at(&[byte ^ [0xff, 1, 0x80][at % 3]], at as u64)
                .expect("written");
            match snapshot(&path) {
                Ok(region) if state(&region) == last => same += 1,
                Ok(region) => {
                    assert!(
                        pending && states.contains(&state(&region)),
                        "byte {at}: no committed state"
                    );
                    earlier += 1;
                }
                Err(error) => {
                    assert_has(&error.to_string(), &["j.heap"]);
                    refused += 1;
                }
            }
            file.write_all_at(&[byte], at as u64).expect("written");
        }
        println!(
            "{} bytes: {same} the last commit, {earlier} an earlier one, {refused} refused",
            bytes.len()
        );
        for len in (0..bytes.len()).step_by(509) {
            fs::write(&journal, &bytes[..len]).expect("written");
            if let Ok(region) = snapshot(&path) {
                assert!(
                    states.contains(&state(&region)),
                    "{len}: no committed state"
                );
            }
        }
        fs::write(&journal, &bytes).expect("written");
        assert_eq!(
            snapshot(&path).map(|r| state(&r)).expect("whole again"),
            last
        );
    }
}

#[test]
fn a_durable_frame_that_is_damaged_is_told_from_a_torn_one() {
    let dir = folder();
    let path = dir.path().join("d.heap");
    let mut region = Region::open(&path, Options::writer()).expect("made");
    let start = region.extend(2 * region::PAGE_BYTES).expect("room");
    let mut states = Vec::new();
    for n in 1..=6u64 {
        region.put(start + n * 64, n).expect("in bounds");
        region.commit(Durability::Durable).expect("committed");
        states.push(state(&region));
    }
    region.close(Durability::Durable).expect("closed");
    let journal = journal_path(&path);
    let mut bytes = fs::read(&journal).expect("there");
    // Another boot: nobody says any more that the frames are applied.
    bytes[region::layout::NOTE_OFFSET as usize..][..region::layout::NOTE_BYTES].fill(0);
    let frames = region::layout::FRAMES_START as usize;
    for frame in 0..6 {
        for at in [0, 8, 41, 90, 100, 104] {
            let mut damaged = bytes.clone();
            damaged[frames + frame * 512 + at] ^= 0x10;
            fs::write(&journal, &damaged).expect("written");
            match snapshot(&path) {
                Err(error) => assert_has(&error.to_string(), &["d.heap", "damaged"]),
                // Of the last two nobody testifies that they were durable: the last frame names the one before it.
                Ok(region) => assert!(
                    frame >= 5 && (state(&region) == states[4] || state(&region) == states[5]),
                    "frame {frame}, byte {at}"
                ),
            }
        }
    }
}

#[test]
fn a_commit_of_many_pages_gives_their_memory_back() {
    let resident = || {
        let text = fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages: u64 = text
            .split(' ')
            .nth(1)
            .expect("second")
            .parse()
            .expect("a number");
        let shared: u64 = text
            .split(' ')
            .nth(2)
            .expect("third")
            .parse()
            .expect("a number");
        (pages - shared) * region::PAGE_BYTES
    };
    const PAGES: u64 = 24 << 10;
    let dir = folder();
    let path = dir.path().join("m.heap");
    let mut region = Region::open(&path, Options::writer()).expect("made");
    let start = region.extend(PAGES * region::PAGE_BYTES).expect("room");
    region.commit(Durability::Durable).expect("committed");
    let before = resident();
    for page in 0..PAGES {
        region
            .put(start + page * region::PAGE_BYTES, page + 1)
            .expect("in bounds");
    }
    assert!(resident() > before + PAGES * region::PAGE_BYTES / 2);
    region.commit(Durability::Durable).expect("committed");
    assert!(resident() < before + PAGES * region::PAGE_BYTES / 4);
    for page in 0..PAGES {
        let found: u64 = region
            .get(start + page * region::PAGE_BYTES)
            .expect("in bounds");
        assert_eq!(found, page + 1);
    }
}

#[test]
fn a_link_leads_to_the_heap_and_to_what_lies_beside_it() {
    let dir = folder();
    let path = dir.path().join("real.heap");
    let last = *make(&path, false).last().expect("some");
    let elsewhere = folder();
    let link = elsewhere.path().join("link.heap");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    assert_eq!(state(&snapshot(&link).expect("through the link")), last);
    let mut region = Region::open(&link, Options::writer()).expect("through the link");
    let start = region.end() - 8;
    region.put(start, 99u64).expect("in bounds");
    region.commit(Durability::Durable).expect("committed");
    region.close(Durability::Durable).expect("closed");
    assert_eq!(
        fs::read_dir(elsewhere.path()).expect("readable").count(),
        1,
        "nothing beside the link"
    );
    assert_ne!(state(&snapshot(&path).expect("directly")), last);
}

#[test]
fn a_heap_that_cannot_be_made_leaves_nothing_behind() {
    let dir = folder();
    let error = Region::open(Path::new(""), Options::writer())
        .map(drop)
        .expect_err("no name");
    assert_has(&error.to_string(), &["name is empty"]);
    let absent = dir.path().join("no").join("such.heap");
    assert!(Region::open(&absent, Options::writer()).is_err());
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 0);
}

#[test]
fn sums_that_are_damaged_or_gone_never_change_what_is_read() {
    let dir = folder();
    let path = dir.path().join("s.heap");
    let last = *make(&path, false).last().expect("some");
    let mut region = Region::open(&path, Options::writer()).expect("opens");
    assert!(region.checkpoint().expect("possible"));
    drop(region);
    let sums = region::sums_path(&path);
    let bytes = fs::read(&sums).expect("there after a checkpoint");
    assert!(bytes.len() > region::layout::SUMS_START as usize + 16);
    let mut refused = 0;
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        fs::write(&sums, &damaged).expect("written");
        match snapshot(&path) {
            Ok(region) => assert_eq!(state(&region), last, "byte {at}"),
            Err(_) => refused += 1,
        }
    }
    assert!(
        refused >= 8,
        "the sums of the pages that are there are looked at"
    );
    // Taken as it is, the heap opens again.
    let mut changed = bytes.clone();
    changed[region::layout::SUMS_START as usize + 16] ^= 1;
    fs::write(&sums, &changed).expect("written");
    assert!(snapshot(&path).is_err());
    let options = Options {
        verify: region::Verify::No,
        ..Options::writer()
    };
    let mut region = Region::open(&path, options).expect("opens unverified");
    assert!(region.reseal().expect("possible"));
    drop(region);
    assert_eq!(state(&snapshot(&path).expect("resealed")), last);
    // Without the file, and with another heap's, nothing is compared but what the journal knows.
    fs::remove_file(&sums).expect("removed");
    assert_eq!(state(&snapshot(&path).expect("without sums")), last);
    fs::write(&sums, vec![7; 9000]).expect("written");
    assert_eq!(
        state(&snapshot(&path).expect("with garbage for sums")),
        last
    );
}

/// Changes `bytes` in up to three places, with values that are likely to do harm.
fn forge(bytes: &mut [u8], rng: &mut Rng) {
    let values = [
        0,
        1,
        8,
        63,
        4096,
        8191,
        8192,
        12_288,
        1 << 20,
        1 << 32,
        (1 << 40) - 1,
        1 << 40,
        (1 << 40) + 4096,
        1 << 60,
        (1 << 60) - 1,
        1 << 63,
        u64::MAX,
        u64::MAX - 511,
        u64::MAX - 4095,
    ];
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() as u64 / 8) as usize * 8;
        match rng.below(3) {
            0 => put_u32(
                bytes,
                at,
                values[rng.below(values.len() as u64) as usize] as u32,
            ),
            1 => bytes[at] ^= 1 << rng.below(8),
            _ => put_u64(bytes, at, values[rng.below(values.len() as u64) as usize]),
        }
    }
}

/// Whatever is opened must bear writing, a commit and a reopening, or refuse with a message.
fn exercise(path: &Path) {
    for access in [Access::Snapshot, Access::Writer] {
        let options = if access == Access::Writer {
            Options::writer()
        } else {
            Options::snapshot()
        };
        let Ok(mut region) = Region::open(path, options) else {
            continue;
        };
        let _ = region.facts();
        let _ = region.put(8192, 1u64);
        let _ = region.put(region.end() - 8, 1u64);
        let _ = region.put(u64::MAX - 3, 1u64);
        assert!(region.put(4096, 1u64).is_err(), "superblocks are not data");
        assert!(region.bytes_mut(0, 8).is_err() && region.bytes(u64::MAX, 2).is_err());
        let _ = region.extend(3 * PAGE);
        let _ = region.extend(u64::MAX);
        let _ = region.abort();
        let _ = region.put(8192, 2u64);
        let _ = region.commit(Durability::Lazy);
        let _ = region.commit(Durability::Durable);
        let _ = region.checkpoint();
        let _ = region.discard(8192, 1 << 40);
        let _ = region.close(Durability::Durable);
    }
}

#[test]
fn forged_structures_with_right_checksums_do_no_harm() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for pending in [false, true] {
        let dir = folder();
        let path = dir.path().join("forged.heap");
        make(&path, pending);
        let (heap, journal) = (
            fs::read(&path).expect("there"),
            fs::read(journal_path(&path)).expect("there"),
        );
        for case in 0..1200 {
            let mut rng = Rng::new(seed.wrapping_add(case));
            let (mut heap, mut journal) = (heap.clone(), journal.clone());
            for _ in 0..1 + rng.below(2) {
                match rng.below(3) {
                    0 => {
                        for at in SUPERBLOCK_OFFSETS {
                            let block = &mut heap[at as usize..][..SUPERBLOCK_BYTES];
                            forge(&mut block[32..120], &mut rng);
                            let sum = layout::checksum(&block[..120], layout::SEED_SUPERBLOCK);
                            put_u64(block, 120, sum);
                        }
                    }
                    1 => {
                        let note = &mut journal[NOTE_OFFSET as usize..][..NOTE_BYTES];
                        forge(&mut note[16..72], &mut rng);
                        let sum = layout::checksum(&note[..72], layout::SEED_JOURNAL);
                        put_u64(note, 72, sum);
                    }
                    _ => forge_frame(&mut journal[FRAMES_START as usize..], &mut rng),
                }
            }
            fs::write(&path, &heap).expect("written");
            fs::write(journal_path(&path), &journal).expect("written");
            exercise(&path);
        }
    }
}

/// The first frame with other content and the right checksum: that of the payload, then the header, seeded with the chain.
fn forge_frame(frame: &mut [u8], rng: &mut Rng) {
    if layout::get_u32(frame, layout::frame::MAGIC) != layout::FRAME_MAGIC {
        return;
    }
    if rng.chance(2) {
        forge(&mut frame[..88], rng);
    } else {
        forge(&mut frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + 64], rng);
    }
    let payload = layout::get_u64(frame, layout::frame::PAYLOAD_BYTES) as usize;
    let Some(end) = payload
        .checked_add(FRAME_HEADER_BYTES)
        .filter(|&end| end <= frame.len())
    else {
        return;
    };
    let mut whole = frame[FRAME_HEADER_BYTES..end].to_vec();
    whole.extend_from_slice(&frame[..88]);
    let sum = layout::checksum(&whole, layout::get_u64(frame, layout::frame::CHAIN));
    put_u64(frame, layout::frame::CHECKSUM, sum);
}

#[test]
fn other_versions_are_named() {
    let dir = folder();
    let path = dir.path().join("v.heap");
    make(&path, false);
    let journal = journal_path(&path);
    let (heap_bytes, journal_bytes) = (
        fs::read(&path).expect("there"),
        fs::read(&journal).expect("there"),
    );
    let mut future = heap_bytes.clone();
    for at in SUPERBLOCK_OFFSETS {
        put_u32(&mut future, at as usize + layout::superblock::VERSION, 7);
    }
    fs::write(&path, future).expect("written");
    assert_has(
        &message(&path, Options::writer()),
        &["v.heap", "format 7", "reads 1"],
    );
    fs::write(&path, heap_bytes).expect("written");
    let mut future = journal_bytes.clone();
    put_u32(&mut future, layout::journal_header::VERSION, 9);
    let sum = layout::checksum(
        &future[..layout::journal_header::CHECKSUM],
        layout::SEED_JOURNAL,
    );
    put_u64(&mut future, layout::journal_header::CHECKSUM, sum);
    fs::write(&journal, future).expect("written");
    assert_has(
        &message(&path, Options::snapshot()),
        &["v.heap.journal\"", "format 9"],
    );
    fs::write(&journal, journal_bytes).expect("written");
    assert!(snapshot(&path).is_ok());
}

#[test]
fn journals_that_are_missing_or_of_others_are_told() {
    let dir = folder();
    let (a, b) = (dir.path().join("a.heap"), dir.path().join("b.heap"));
    let states = make(&a, false);
    make(&b, false);
    let (journal_a, journal_b) = (journal_path(&a), journal_path(&b));
    let kept = dir.path().join("kept");
    fs::rename(&journal_a, &kept).expect("moved");
    for options in [Options::writer(), Options::snapshot()] {
        assert_has(
            &message(&a, options),
            &["a.heap.journal\" is missing", "--discard-journal"],
        );
    }
    assert!(!journal_a.exists(), "none is made");
    fs::copy(&journal_b, &journal_a).expect("copied");
    assert_has(
        &message(&a, Options::writer()),
        &["another heap's", "--discard-journal"],
    );
    fs::remove_file(&journal_a).expect("ours");
    fs::create_dir(&journal_a).expect("made");
    assert!(snapshot(&a).is_err());
    fs::remove_dir(&journal_a).expect("ours");
    fs::rename(&kept, &journal_a).expect("moved");
    assert_eq!(
        snapshot(&a).map(|r| state(&r)).expect("whole"),
        *states.last().expect("some")
    );
}

#[test]
fn a_missing_heap_is_not_replaced_by_an_empty_one() {
    let dir = folder();
    let (path, other) = (dir.path().join("b.heap"), dir.path().join("moved"));
    let states = make(&path, false);
    let journal = journal_path(&path);
    fs::rename(&path, &other).expect("moved");
    for options in [Options::writer(), Options::snapshot()] {
        assert_has(
            &message(&path, options),
            &["b.heap.journal\" is there", "put the heap back", "remove"],
        );
    }
    // A blank file is no more the journal's heap than none.
    let blank = fs::File::create(&path).expect("made");
    blank.set_len(2 << 20).expect("ours");
    assert_has(
        &message(&path, Options::writer()),
        &["b.heap.journal\" is there"],
    );
    fs::rename(&other, &path).expect("moved back");
    assert_eq!(
        snapshot(&path).map(|r| state(&r)).expect("whole"),
        *states.last().expect("some")
    );
    fs::remove_file(&path).expect("ours");
    fs::remove_file(&journal).expect("ours");
    let region = Region::open(&path, Options::writer()).expect("begun anew");
    assert_eq!(region.facts().expect("a file").commits, 0);
}

#[test]
fn a_creation_that_was_interrupted_is_begun_again() {
    let dir = folder();
    let path = dir.path().join("c.heap");
    let journal = journal_path(&path);
    drop(Region::open(&path, Options::writer()).expect("a new heap"));
    fs::remove_file(&path).expect("ours"); // as if it had not come to be: its journal is made before
    drop(Region::open(&path, Options::writer()).expect("its journal is blank"));
    fs::remove_file(&path).expect("ours");
    fs::write(&journal, b"").expect("ours");
    drop(Region::open(&path, Options::writer()).expect("so is an empty one"));
    let names: Vec<_> = fs::read_dir(dir.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names.len(), 3, "nothing is kept of it: {names:?}");
}

#[test]
fn damage_to_the_journals_header_is_told_from_another_version() {
    let dir = folder();
    let path = dir.path().join("d.heap");
    make(&path, false);
    let journal = journal_path(&path);
    let whole = fs::read(&journal).expect("readable");
    for at in 0..layout::JOURNAL_HEADER_BYTES {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xa7;
        fs::write(&journal, &bytes).expect("ours");
        assert_has(
            &message(&path, Options::writer()),
            &["damaged", "its journal \"", "d.heap.journal\"", "checksum"],
        );
    }
}

#[test]
fn files_that_others_may_write_are_refused_unless_trusted() {
    let dir = folder();
    let path = dir.path().join("open.heap");
    make(&path, false);
    let trusting = || Options {
        trust: true,
        ..Options::snapshot()
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("ours");
    assert_has(
        &message(&path, Options::snapshot()),
        &["refused", "everybody may write it", "--trust"],
    );
    assert!(Region::open(&path, trusting()).is_ok());
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped in part: changing owners takes root");
        return;
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).expect("ours");
    chown(&path, None, Some(12)).expect("root may");
    assert_has(
        &message(&path, Options::snapshot()),
        &["group 12 may write it"],
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("ours");
    chown(&path, Some(65_534), None).expect("root may");
    assert_has(
        &message(&path, Options::writer()),
        &["belongs to user 65534"],
    );
    assert!(Region::open(&path, trusting()).is_ok());
}

/// Runs `work` as the user nobody if this is root, for whom permissions do not count. False if that cannot be.
fn as_nobody(work: impl FnOnce() + Send) -> bool {
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        work();
        return true;
    }
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            // The bare calls change this thread only, which ends right afterwards; the C library's would change all.
            // SAFETY: these calls take numbers and touch no memory.
            let codes = unsafe {
                [
                    libc::syscall(libc::SYS_setresgid, 65_534, 65_534, 65_534),
                    libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534),
                ]
            };
            let can = codes == [0, 0];
            if can {
                work();
            }
            can
        });
        worker.join().expect("the test in it passes")
    })
}

#[test]
fn without_the_right_to_write_a_snapshot_can_be_read() {
    let dir = tempfile::tempdir().expect("a folder");
    let inner = dir.path().join("inner");
    fs::create_dir(&inner).expect("made");
    let path = inner.join("ro.heap");
    let states = make(&path, false);
    // SAFETY: takes nothing, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        for file in [
            &path,
            &journal_path(&path),
            &inner,
            &dir.path().to_path_buf(),
        ] {
            chown(file, Some(65_534), Some(65_534)).expect("root may");
        }
    }
    let ran = as_nobody(|| {
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours")
        };
        mode(&path, 0o444);
        mode(&journal_path(&path), 0o444);
        assert_has(
            &message(&path, Options::writer()),
            &["ro.heap", "cannot open it for writing", "--snapshot"],
        );
        assert_eq!(
            snapshot(&path).map(|r| state(&r)).expect("readable"),
            *states.last().expect("some")
        );
        mode(&path, 0o644);
        assert_has(
            &message(&path, Options::writer()),
            &["cannot open its journal", "--snapshot"],
        );
        mode(&journal_path(&path), 0o644);
        mode(&inner, 0o555);
        let region = Region::open(&path, Options::writer()).expect("existing files may be written");
        drop(region);
        assert_has(
            &message(&inner.join("new.heap"), Options::writer()),
            &["new.heap", "cannot create its journal"],
        );
        mode(&path, 0o000);
        assert_has(&message(&path, Options::snapshot()), &["cannot open it"]);
        mode(&inner, 0o755);
    });
    if !ran {
        println!("skipped: cannot become another user here");
    }
}

#[test]
fn a_blank_file_becomes_a_heap_of_that_limit() {
    let dir = folder();
    let path = dir.path().join("limited.heap");
    let limit = (1u64 << 20) + 5000; // no multiple of a page
    fs::File::create(&path)
        .and_then(|f| f.set_len(limit))
        .expect("blank");
    assert_has(
        &message(&path, Options::snapshot()),
        &["blank", "nothing was ever committed"],
    );
    let mut region =
        Region::open(&path, Options::writer()).expect("a blank file is waiting for this");
    assert_eq!(
        region.facts().expect("a file").limit_bytes,
        limit / PAGE * PAGE
    );
    region.extend(100 * PAGE).expect("room");
    region.put(8192, 47u64).expect("in bounds");
    region.commit(Durability::Durable).expect("committed");
    let full = region.extend(1 << 20).expect_err("beyond the limit");
    assert!(matches!(full.kind(), ErrorKind::Full { .. }));
    assert_has(
        &full.to_string(),
        &["limited.heap", "full", "1052672 bytes"],
    );
    region.put(8192, 54u64).expect("in bounds");
    region.commit(Durability::Durable).expect("goes on");
    region.close(Durability::Durable).expect("closed");
    let region = snapshot(&path).expect("whole");
    assert_eq!(region.get::<u64>(8192).expect("in bounds"), 54);
    // A terabyte of nothing is looked at in no time.
    let huge = dir.path().join("huge.heap");
    fs::File::create(&huge)
        .and_then(|f| f.set_len(1 << 40))
        .expect("blank");
    assert!(Region::open(&huge, Options::writer()).is_ok());
}

/// Space that a program asks for and hardly uses costs what is used of it.
#[test]
fn growth_that_is_hardly_used_is_not_written() {
    const GROWTH: u64 = 1 << 30;
    for tracking in [Tracking::Pages, Tracking::Lines, Tracking::Both] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse.heap");
        let options = || Options {
            by_address: Some(ByAddress {
                tracking,
                place: Place::Anywhere,
                ..ByAddress::default()
            }),
            ..Options::writer()
        };
        let mut region = Region::open(&path, options()).unwrap();
        region.extend(PAGE_BYTES).unwrap();
        region.put(DATA_START, 1_u64).unwrap();
        region.commit(Durability::Durable).unwrap();
        let start = region.extend(GROWTH).unwrap();
        let places: Vec<u64> = (0..50).map(|i| start + i * (GROWTH / 50) + 8 * i).collect();
        for &place in &places {
            region.put(place, place).unwrap();
        }
        let stats = region.commit(Durability::Durable).unwrap();
        assert_eq!(stats.fresh_bytes, 0, "{tracking:?}");
        assert!(stats.journal_bytes < 1 << 20, "{stats:?}");
        let holds = |region: &Region| {
            assert_eq!(region.end(), start + GROWTH);
            assert_eq!(region.get::<u64>(DATA_START).unwrap(), 1);
            for &place in &places {
                assert_eq!(region.get::<u64>(place).unwrap(), place, "{tracking:?}");
                assert_eq!(region.get::<u64>(place + 64).unwrap(), 0);
            }
        };
        holds(&region);
        region.put(places[7], 0_u64).unwrap();
        region.abort().unwrap();
        holds(&region);
        region.put(start + 4096, 5_u64).unwrap();
        region.commit(Durability::Lazy).unwrap();
        drop(region); // as if killed
        let region = Region::open(&path, options()).unwrap();
        holds(&region);
        assert_eq!(region.get::<u64>(start + 4096).unwrap(), 5);
        region.close(Durability::Durable).unwrap();
        let report = Options {
            verify: Verify::Report,
            ..Options::writer()
        };
        let region = Region::open(&path, report).unwrap();
        assert!(region.unsound_pages().is_empty());
        holds(&region);
        // What is used is written, and not twice.
        drop(region);
        let mut region = Region::open(&path, options()).unwrap();
        let start = region.extend(80 << 20).unwrap();
        for page in 0..(80 << 20) / PAGE_BYTES / 2 {
            region.put(start + page * PAGE_BYTES, page).unwrap();
        }
        let stats = region.commit(Durability::Lazy).unwrap();
        assert_eq!(stats.fresh_bytes, 80 << 20);
    }
}

/// A program cut its own file, as `open` with `O_TRUNC` does, and was killed: what was committed behind the file's end is gone, and reading it
/// back into memory that no file backs any more would be a SIGBUS.
#[test]
fn what_was_committed_to_a_file_that_was_cut_is_passed_over() {
    let folder = folder();
    let path = folder.path().join("data");
    let own = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    own.set_len(8 * PAGE).unwrap();
    let open = || {
        let by_address = ByAddress {
            tracking: Tracking::Lines,
            place: Place::Arena,
            ..ByAddress::default()
        };
        Region::open_file(own.try_clone().unwrap(), &path, by_address).unwrap()
    };
    let put = |region: &Region, page: u64, value: u64| {
        let address = region.address() + (DATA_START + page * PAGE) as usize;
        region::mark_address(address, 8);
        // SAFETY: within the file's memory, which nothing borrows.
        unsafe { std::ptr::with_exposed_provenance_mut::<u64>(address).write(value) };
    };
    let store = |region: &Region, page: u64| put(region, page, page);
    let beside =
        [".perdure", ".perdure.journal"].map(|end| folder.path().join(format!("data{end}")));

    let mut region = open();
    for page in 1..8 {
        store(&region, page);
    }
    region.commit_file().unwrap();
    let read = fs::read(&path).unwrap();
    assert_eq!(read[(5 * PAGE) as usize], 5, "who reads it sees the sync");
    region.keep_file_private();
    put(&region, 4, 77);
    region.commit_file().unwrap();
    assert_eq!(fs::read(&path).unwrap(), read, "it is written back later");
    // As a kill leaves it.
    let left = beside.each_ref().map(|path| fs::read(path).unwrap());
    region.close_file().unwrap();
    for (path, bytes) in beside.iter().zip(&left) {
        fs::write(path, bytes).unwrap();
    }
    own.set_len(3 * PAGE).unwrap();

    let mut region = open();
    let found = |region: &Region, page: u64| region.bytes(DATA_START + page * PAGE, 1).unwrap()[0];
    assert_eq!((found(&region, 1), found(&region, 2)), (1, 2));
    own.set_len(8 * PAGE).unwrap();
    assert_eq!(found(&region, 5), 0);
    // The same while it is open: what is not in the file yet, and no page of it any more.
    store(&region, 6);
    region.commit_file().unwrap();
    store(&region, 6);
    own.set_len(3 * PAGE).unwrap();
    region.abort().unwrap();
    store(&region, 2);
    region.commit_file().unwrap();
    region.close_file().unwrap();
    assert_eq!(fs::read(&path).unwrap().len() as u64, 3 * PAGE);
}

#[test]
fn what_lies_beside_a_file_lies_there_by_whichever_link_it_is_opened() {
    let folder = folder();
    let (path, link) = (folder.path().join("data"), folder.path().join("links/link"));
    fs::write(&path, [0; 8192]).unwrap();
    fs::create_dir(folder.path().join("links")).unwrap();
    std::os::unix::fs::symlink("../data", &link).unwrap();
    let by_address = ByAddress {
        place: Place::Anywhere,
        ..ByAddress::default()
    };
    let open = |by: &Path| {
        let file = OpenOptions::new().read(true).write(true).open(by).unwrap();
        Region::open_file(file, by, by_address)
    };
    let region = open(&link).unwrap();
    assert!(folder.path().join("data.perdure").exists());
    let refused = open(&path).map(drop).unwrap_err();
    assert!(
        matches!(refused.kind(), ErrorKind::Locked { .. }),
        "{refused}"
    );
    region.close_file().unwrap();
    assert_eq!(
        fs::read_dir(folder.path().join("links")).unwrap().count(),
        1
    );
}

#[test]
fn a_journal_of_a_programs_file_that_was_cut_is_told() {
    let folder = folder();
    let path = folder.path().join("data");
    fs::write(&path, [b'a'; 8192]).unwrap();
    let open = || {
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let by_address = ByAddress {
            place: Place::Anywhere,
            ..ByAddress::default()
        };
        Region::open_file(file.unwrap(), &path, by_address)
    };
    let mut region = open().unwrap();
    region.keep_file_private();
    let address = region.address() + DATA_START as usize;
    // SAFETY: within the file's memory, which nothing borrows.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write(b'b') };
    region.commit_file().unwrap();
    // As a kill leaves it.
    let beside = ["", ".journal"].map(|end| folder.path().join(format!("data.perdure{end}")));
    let left = beside.each_ref().map(|path| fs::read(path).unwrap());
    region.close_file().unwrap();
    for bytes in [48, 8191, 20_000] {
        fs::write(&path, [b'a'; 8192]).unwrap();
        fs::write(&beside[0], &left[0]).unwrap();
        fs::write(&beside[1], &left[1][..bytes]).unwrap();
        let refused = open().map(drop).unwrap_err();
        assert!(
            matches!(refused.kind(), ErrorKind::JournalCut { .. }),
            "{bytes}: {refused}"
        );
    }
    fs::write(&beside[1], &left[1]).unwrap();
    assert_eq!(open().unwrap().bytes(DATA_START, 1).unwrap(), b"b");
}

/// Marks alone, and something unseen before each lazy commit: what waits in the journal is compared with, and not committed again.
#[test]
fn unseen_stores_cost_what_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unseen.heap");
    let options = Options {
        by_address: Some(ByAddress {
            tracking: Tracking::Lines,
            place: Place::Anywhere,
            ..ByAddress::default()
        }),
        ..Options::writer()
    };
    let mut region = Region::open(&path, options).unwrap();
    region.extend(64 * PAGE_BYTES).unwrap();
    region.commit(Durability::Durable).unwrap();
    for round in 0..200_u64 {
        let offset = DATA_START + round % 64 * PAGE_BYTES + round * 8 % PAGE_BYTES;
        let place =
            std::ptr::with_exposed_provenance_mut::<u64>(region.address() + offset as usize);
        // SAFETY: in bounds of the region, aligned, and nothing borrows it now.
        unsafe { place.write(round + 1) };
        region.note_unseen_stores();
        let stats = region.commit(Durability::Lazy).unwrap();
        assert_eq!(stats.lines, 1, "round {round}");
    }
    region.close(Durability::Durable).unwrap();
    let region = Region::open(&path, Options::snapshot()).unwrap();
    for round in 0..200_u64 {
        let offset = DATA_START + round % 64 * PAGE_BYTES + round * 8 % PAGE_BYTES;
        assert_eq!(region.get::<u64>(offset).unwrap(), round + 1);
    }
}
