//! The crash ladder over bare regions: random stores, growth, durable and lazy commits, aborts, checkpoints, reopening.

#![allow(clippy::print_stdout)] // seeds and tallies are for people

use region::{
    ByAddress, DATA_START, Durability, Options, PAGE_BYTES, Place, Region, Tracking, mark_address,
};
use testkit::crash::{Effort, History, Subject, climb};
use testkit::disk::{Fault, Machine, SECTOR, WORD};
use testkit::rng::Rng;

#[derive(Default)]
struct Bytes {
    memory_budget_bytes: Option<u64>,
    /// Stores go by address, past the region.
    by_address: Option<Tracking>,
    /// The medium is memory: what it writes at once is a word.
    on_memory: bool,
}

const RESERVE: u64 = 1 << 26;
const UUID: [u8; 16] = [7; 16];

impl Bytes {
    fn open(&self, machine: &Machine, boot: u64) -> region::Result<Region> {
        Region::open_on(
            [machine.file(0), machine.file(1), machine.file(2)],
            &Options {
                memory_budget_bytes: self.memory_budget_bytes,
                by_address: self.by_address.map(|tracking| ByAddress {
                    tracking,
                    place: Place::Anywhere,
                    ..ByAddress::default()
                }),
                ..Options::writer()
            },
            [boot as u8; 16],
            RESERVE,
        )
    }
}

fn fingerprint(region: &Region) -> u64 {
    let bytes = region.bytes(DATA_START, region.end() - DATA_START).unwrap();
    region::layout::checksum(bytes, region.end())
}

/// A store of a program: by address, and marked as the way of tracking wants it; where both ways are, some are not.
fn store(region: &mut Region, offset: u64, bytes: &[u8], tracking: Tracking, rng: &mut Rng) {
    assert!(offset >= DATA_START && offset + bytes.len() as u64 <= region.end());
    let address = region.address() + offset as usize;
    let marks = match tracking {
        Tracking::Pages => false,
        Tracking::Lines => !rng.chance(6),
        Tracking::Both => rng.chance(2),
    };
    if tracking == Tracking::Lines && !marks {
        region.note_unseen_stores();
    }
    if marks {
        mark_address(address, bytes.len());
    }
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: in bounds of the region (asserted), which nothing borrows now.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

impl Bytes {
    fn store(
        &self,
        region: &mut Region,
        offset: u64,
        bytes: &[u8],
        rng: &mut Rng,
    ) -> region::Result<()> {
        match self.by_address {
            Some(tracking) => store(region, offset, bytes, tracking, rng),
            None => region
                .bytes_mut(offset, bytes.len() as u64)?
                .copy_from_slice(bytes),
        }
        Ok(())
    }

    /// A durable commit with other threads' lazy ones between its steps.
    fn commit_beside(
        &self,
        region: &mut Region,
        rng: &mut Rng,
        history: &mut History,
    ) -> region::Result<()> {
        region.commit(Durability::Lazy)?;
        history.reported(false);
        let so_far = history.reported_so_far();
        if let Some(flush) = region.begin_flush()? {
            if rng.chance(2) {
                self.commit_lazily(region, rng, history)?;
            }
            let flushed = flush.run();
            if rng.chance(2) {
                self.commit_lazily(region, rng, history)?;
            }
            region.end_flush(flushed)?;
        }
        history.is_durable(so_far);
        Ok(())
    }

    fn commit_lazily(
        &self,
        region: &mut Region,
        rng: &mut Rng,
        history: &mut History,
    ) -> region::Result<()> {
        self.scribble(region, rng)?;
        history.attempt(fingerprint(region));
        region.commit(Durability::Lazy)?;
        history.reported(false);
        Ok(())
    }

    /// A few random stores and perhaps some growth.
    fn scribble(&self, region: &mut Region, rng: &mut Rng) -> region::Result<()> {
        if region.end() < DATA_START + 12 * PAGE_BYTES && rng.chance(3) {
            let start = region.extend((1 + rng.below(2)) * PAGE_BYTES)?;
            let text = rng.bytes(100);
            self.store(region, start + rng.below(2000), &text, rng)?;
        }
        let size = region.end() - DATA_START;
        for _ in 0..rng.below(5) {
            if size > 0 {
                let value = rng.draw().to_le_bytes();
                self.store(region, DATA_START + rng.below(size - 8), &value, rng)?;
            }
        }
        Ok(())
    }
}

impl Subject for Bytes {
    fn atom(&self) -> usize {
        if self.on_memory { WORD } else { SECTOR }
    }

    fn blank(&self) -> Vec<Vec<u8>> {
        let machine = Machine::new(vec![Vec::new(); 3], 0);
        Region::format_on(&mut *machine.file(0), &mut *machine.file(1), UUID, 0).unwrap();
        machine.live()
    }

    fn blank_state(&self) -> u64 {
        region::layout::checksum(&[], DATA_START)
    }

    fn work(&self, machine: &Machine, seed: u64, history: &mut History) {
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(3) {
            let Ok(mut region) = self.open(machine, 1) else {
                return;
            };
            // What an abort must bring back; nobody knows after a commit that failed.
            let mut committed_state = Some(fingerprint(&region));
            for _ in 0..1 + rng.below(5) {
                let durability = if rng.chance(3) {
                    Durability::Lazy
                } else {
                    Durability::Durable
                };
                let scribbled = self.scribble(&mut region, &mut rng);
                if scribbled.is_err() || rng.chance(6) {
                    if region.abort().is_err() {
                        return;
                    }
                    if let Some(state) = committed_state {
                        assert_eq!(fingerprint(&region), state, "abort, run seed {seed}");
                    }
                    continue;
                }
                history.attempt(fingerprint(&region));
                // Now and then as threads do it: others commit while the medium is waited for.
                let beside = self.by_address.is_some() && rng.chance(2);
                let committed = if beside && durability == Durability::Durable {
                    self.commit_beside(&mut region, &mut rng, history)
                } else {
                    let committed = region.commit(durability);
                    committed.map(|_| history.reported(durability == Durability::Durable))
                };
                match committed {
                    Ok(()) => committed_state = Some(fingerprint(&region)),
                    // Nothing of it, or nothing known of it: a program may go back and go on, unless poisoned.
                    Err(_) => {
                        if region.abort().is_err() || region.commit(Durability::Lazy).is_err() {
                            break;
                        }
                        committed_state = None;
                    }
                }
                if rng.chance(4) && region.flush().is_ok() {
                    history.reported_so_far_is_durable();
                }
                if rng.chance(5) && region.checkpoint().is_err() {
                    break;
                }
            }
            if rng.chance(2) && region.close(Durability::Durable).is_ok() {
                history.reported_so_far_is_durable();
            }
        }
    }

    fn inspect(&self, machine: &Machine, boot: u64) -> Result<u64, String> {
        let region = self.open(machine, boot).map_err(|e| e.to_string())?;
        Ok(fingerprint(&region))
    }

    fn go_on(&self, machine: &Machine, boot: u64, seed: u64) -> Result<u64, String> {
        let mut region = self.open(machine, boot).map_err(|e| e.to_string())?;
        let mut rng = Rng::new(seed);
        let mut work = || -> region::Result<u64> {
            self.scribble(&mut region, &mut rng)?;
            region.commit(Durability::Durable)?;
            region.flush()?;
            Ok(fingerprint(&region))
        };
        let state = work().map_err(|e| e.to_string())?;
        region
            .close(Durability::Durable)
            .map_err(|e| e.to_string())?;
        Ok(state)
    }
}

#[test]
fn every_crash_leaves_a_committed_state() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let subject = Bytes::default();
    let tally = climb(&subject, seed, Effort::from_env(60_000))
        .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    println!("{tally:?}");
}

#[test]
fn every_crash_of_a_spilling_run_leaves_a_committed_state() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for pages in [1, 4] {
        let subject = Bytes {
            memory_budget_bytes: Some(pages * PAGE_BYTES),
            ..Bytes::default()
        };
        let tally = climb(&subject, seed, Effort::from_env(20_000))
            .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        println!("{tally:?}");
    }
}

/// Of a program that stores by address: its pages compared, its marks believed, both at once.
#[test]
fn every_crash_of_a_run_that_stores_by_address_leaves_a_committed_state() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for tracking in [Tracking::Pages, Tracking::Lines, Tracking::Both] {
        let subject = Bytes {
            by_address: Some(tracking),
            ..Bytes::default()
        };
        let tally = climb(&subject, seed, Effort::from_env(20_000))
            .unwrap_or_else(|what| panic!("{tracking:?}, seed {seed}: {what}"));
        println!("{tracking:?} {tally:?}");
    }
}

/// The same where any eight bytes may have arrived without their neighbours.
#[test]
fn every_crash_on_byte_addressable_media_leaves_a_committed_state() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    for tracking in [None, Some(Tracking::Lines), Some(Tracking::Both)] {
        let subject = Bytes {
            by_address: tracking,
            on_memory: true,
            ..Bytes::default()
        };
        // A choice for each word: states take longer than on a disk.
        let effort = Effort {
            states: testkit::effort("PERDURE_MEMORY_STATES", 2_000),
            states_per_stop: 100,
        };
        let tally = climb(&subject, seed, effort)
            .unwrap_or_else(|what| panic!("{tracking:?}, seed {seed}: {what}"));
        println!("memory, {tracking:?} {tally:?}");
    }
}

/// A program's own file that changes atomically: data, superblocks, journal.
struct AFile;

const FILE_BYTES: u64 = 5 * PAGE_BYTES + 100;
/// Its program makes it longer, up to this; where it is not, there are zeros.
const FILE_BYTES_MAX: u64 = 9 * PAGE_BYTES + 100;

impl AFile {
    fn open(machine: &Machine, boot: u64) -> region::Result<Region> {
        let by_address = ByAddress {
            tracking: Tracking::Pages,
            place: Place::Anywhere,
            ..ByAddress::default()
        };
        let files = [machine.file(0), machine.file(1), machine.file(2)];
        Region::open_file_on(files, by_address, [boot as u8; 16])
    }

    fn fingerprint(region: &Region) -> u64 {
        region::layout::checksum(region.bytes(DATA_START, FILE_BYTES_MAX).unwrap(), 0)
    }

    /// Stores, and now and then makes the file longer first.
    fn scribble(machine: &Machine, region: &mut Region, rng: &mut Rng) -> std::io::Result<()> {
        let mut file = machine.file(0);
        if rng.chance(4) {
            let longer = file.len()? + 1 + rng.below(2 * PAGE_BYTES);
            file.set_len(longer.min(FILE_BYTES_MAX))?;
        }
        let file_bytes = file.len()?;
        for _ in 0..rng.below(6) {
            let len = 1 + rng.below(100) as usize;
            let value = rng.bytes(len);
            let offset = DATA_START + rng.below(file_bytes - 100);
            store(region, offset, &value, Tracking::Pages, rng);
        }
        Ok(())
    }
}

impl Subject for AFile {
    fn blank(&self) -> Vec<Vec<u8>> {
        let data = vec![b'.'; FILE_BYTES as usize];
        let machine = Machine::new(vec![data, Vec::new(), Vec::new()], 0);
        Region::format_file_on(&mut *machine.file(1), &mut *machine.file(2), UUID).unwrap();
        machine.live()
    }

    fn blank_state(&self) -> u64 {
        let mut data = vec![b'.'; FILE_BYTES as usize];
        data.resize(FILE_BYTES_MAX as usize, 0);
        region::layout::checksum(&data, 0)
    }

    fn work(&self, machine: &Machine, seed: u64, history: &mut History) {
        let mut rng = Rng::new(seed);
        for _ in 0..1 + rng.below(3) {
            let Ok(mut region) = AFile::open(machine, 1) else {
                return;
            };
            for _ in 0..1 + rng.below(5) {
                if AFile::scribble(machine, &mut region, &mut rng).is_err() {
                    return;
                }
                if rng.chance(6) {
                    if region.abort().is_err() {
                        return;
                    }
                    continue;
                }
                history.attempt(AFile::fingerprint(&region));
                match region.commit_file() {
                    Ok(_) => history.reported(true),
                    Err(_) => {
                        if region.abort().is_err() || region.commit(Durability::Lazy).is_err() {
                            break;
                        }
                    }
                }
            }
            if rng.chance(2) {
                let _ = region.close_file();
            }
        }
    }

    fn inspect(&self, machine: &Machine, boot: u64) -> Result<u64, String> {
        let region = AFile::open(machine, boot).map_err(|e| e.to_string())?;
        let state = AFile::fingerprint(&region);
        // Who reads the file sees the same.
        let mut file = machine.live().swap_remove(0);
        file.resize(FILE_BYTES_MAX as usize, 0);
        if region::layout::checksum(&file, 0) != state {
            return Err("the file is not what was recovered".into());
        }
        Ok(state)
    }

    fn go_on(&self, machine: &Machine, boot: u64, seed: u64) -> Result<u64, String> {
        let mut region = AFile::open(machine, boot).map_err(|e| e.to_string())?;
        AFile::scribble(machine, &mut region, &mut Rng::new(seed)).map_err(|e| e.to_string())?;
        region.commit_file().map_err(|e| e.to_string())?;
        let state = AFile::fingerprint(&region);
        region.close_file().map_err(|e| e.to_string())?;
        Ok(state)
    }
}

#[test]
fn every_crash_leaves_a_programs_own_file_as_of_a_commit() {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let tally = climb(&AFile, seed, Effort::from_env(20_000))
        .unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    println!("{tally:?}");
}

/// Address space is reserved as it is needed; marks reach as far.
#[test]
fn a_region_grows_into_what_lies_behind_it() {
    for tracking in [Tracking::Pages, Tracking::Lines, Tracking::Both] {
        let machine = Machine::new(Bytes::default().blank(), 0);
        let options = || Options {
            by_address: Some(ByAddress {
                tracking,
                place: Place::Arena,
                ..ByAddress::default()
            }),
            ..Options::writer()
        };
        let files = || [machine.file(0), machine.file(1), machine.file(2)];
        let mut region = Region::open_on(files(), &options(), [1; 16], RESERVE).unwrap();
        let reserved = region.reserved_bytes();
        region.extend(PAGE_BYTES).unwrap();
        region.commit(Durability::Durable).unwrap();
        region.extend(reserved).unwrap();
        assert!(region.reserved_bytes() > reserved);
        region.commit(Durability::Durable).unwrap();
        let last = region.end() - 8;
        let mut rng = Rng::new(1);
        store(&mut region, last, b"the end.", tracking, &mut rng);
        region.commit(Durability::Durable).unwrap();
        region.close(Durability::Durable).unwrap();
        let region = Region::open_on(files(), &options(), [2; 16], RESERVE).unwrap();
        assert_eq!(region.bytes(last, 8).unwrap(), b"the end.");
    }
}

/// Where one was another may lie at once: a store there is no business of the one that goes.
#[test]
fn regions_that_come_and_go_in_threads_have_marks_of_their_own() {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let machine = Machine::new(Bytes::default().blank(), 0);
                let options = Options {
                    by_address: Some(ByAddress {
                        tracking: Tracking::Lines,
                        place: Place::Anywhere,
                        ..ByAddress::default()
                    }),
                    ..Options::writer()
                };
                let mut rng = Rng::new(thread);
                for round in 0..500_u64 {
                    let files = [machine.file(0), machine.file(1), machine.file(2)];
                    let mut region = Region::open_on(files, &options, [1; 16], RESERVE).unwrap();
                    if round == 0 {
                        region.extend(PAGE_BYTES).unwrap();
                        region.commit(Durability::Durable).unwrap();
                    }
                    let found = region.bytes(DATA_START, 8).unwrap();
                    assert_eq!(found, round.to_le_bytes());
                    let next = (round + 1).to_le_bytes();
                    store(&mut region, DATA_START, &next, Tracking::Lines, &mut rng);
                    region.commit(Durability::Durable).unwrap();
                }
            });
        }
    });
}

/// Each is a run that once found a fault.
#[test]
fn runs_that_found_faults_find_none() {
    let subject = Bytes::default();
    let once = Effort {
        states: 1,
        states_per_stop: 100,
    };
    for seed in [1795220880928633373, 1795221477169074107] {
        climb(&subject, seed, once).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// The first of those, made small: recovery had passed over a commit whose fresh space had not arrived;
/// then the unused end of the heap file was cut, of which the zeros arrived and the length did not, and the commit was back.
#[test]
fn a_commit_that_did_not_arrive_never_returns() {
    let subject = Bytes::default();
    let machine = Machine::new(subject.blank(), 0);
    let mut region = subject.open(&machine, 1).unwrap();
    region.extend(PAGE_BYTES).unwrap();
    region.commit(Durability::Lazy).unwrap();
    drop(region);
    let mut files = machine.live();
    let end = (DATA_START + PAGE_BYTES) as usize;
    files[0].resize(end, 0);
    files[0][DATA_START as usize..end].fill(0xaa); // what was on the medium there before
    let machine = Machine::new(files, 0);
    let mut region = subject.open(&machine, 2).unwrap();
    assert_eq!(fingerprint(&region), subject.blank_state());
    region.commit(Durability::Durable).unwrap();
    region.close(Durability::Durable).unwrap();
    let wreck = machine.wreck();
    let mut rng = Rng::new(1);
    for _ in 0..1000 {
        let image = wreck.image(|versions| rng.below(versions as u64 + 1) as usize);
        let region = subject.open(&Machine::new(image, 0), 3).unwrap();
        assert_eq!(fingerprint(&region), subject.blank_state());
    }
}

/// A heap whose one page was given back, with the machine it is on. With `fault`, that operation of it failed.
fn with_a_page_given_back(subject: &Bytes, fault: Option<u64>) -> (Machine, Region, u64) {
    let machine = Machine::new(subject.blank(), 0);
    let mut region = subject.open(&machine, 1).unwrap();
    let page = region.extend(PAGE_BYTES).unwrap();
    region.bytes_mut(page, PAGE_BYTES).unwrap().fill(0xaa);
    region.commit(Durability::Durable).unwrap();
    assert!(region.checkpoint().unwrap());
    if let Some(at) = fault {
        machine.fault_at(machine.operations() + at, Fault::Fails { errno: 5 });
    }
    let given = region.discard(page, PAGE_BYTES);
    assert!(fault.is_some() || given.unwrap());
    (machine, region, page)
}

/// Space was given back, used again and committed; the power went before the medium had it that the space was given back. Its
/// old bytes are there again, between those that the frame has.
#[test]
fn space_given_back_and_used_again_opens_after_a_power_cut() {
    let subject = Bytes::default();
    let use_again = |machine: &Machine, mut region: Region, page: u64| {
        region.put(page, 7u64).unwrap();
        region.commit(Durability::Durable).unwrap();
        let image = machine.wreck().image(|_| 0); // what was not flushed did not arrive
        let region = subject.open(&Machine::new(image, 0), 2).unwrap();
        assert_eq!(region.get::<u64>(page).unwrap(), 7);
    };
    let (machine, region, page) = with_a_page_given_back(&subject, None);
    use_again(&machine, region, page);
    // The same by the next process, wherever the first one ended while it gave the space back.
    for at in 0..6 {
        println!("the operation {at} fails");
        let (machine, region, page) = with_a_page_given_back(&subject, Some(at));
        drop(region);
        let next = machine.survivor(1);
        let region = subject.open(&next, 1).unwrap();
        use_again(&next, region, page);
    }
}

/// The file is as long as before, but the medium may not know: what is synced behind the cut must be there all the same.
#[test]
fn the_length_of_a_file_that_was_cut_and_is_as_long_again_arrives_before_a_sync() {
    let len = 8 * PAGE_BYTES;
    for (synced_before, waits, heeded_before) in [
        (false, false, false),
        (true, false, false),
        (true, false, true),
        (true, true, false),
        (true, true, true),
    ] {
        let machine = Machine::new(AFile.blank(), 0);
        let mut file = machine.file(0);
        file.set_len(len).unwrap();
        file.sync().unwrap();
        let mut region = AFile::open(&machine, 1).unwrap();
        if waits {
            region.keep_file_private();
        }
        let mut rng = Rng::new(0);
        let mut put = |region: &mut Region, page: u64, value: u8| {
            let offset = DATA_START + page * PAGE_BYTES;
            store(region, offset, &[value], Tracking::Pages, &mut rng);
            region.commit_file().unwrap();
        };
        if synced_before {
            put(&mut region, 0, 1);
        }
        if heeded_before {
            file.set_len(len + 1).unwrap();
            file.set_len(len).unwrap();
            put(&mut region, 1, 2);
        }
        file.set_len(PAGE_BYTES).unwrap();
        file.set_len(len).unwrap();
        put(&mut region, 5, 77);
        let wreck = machine.wreck();
        for choice in 0..3 {
            let mut is_length = true;
            let image = wreck.image(|versions| match std::mem::take(&mut is_length) {
                true => choice.min(versions),
                false => versions,
            });
            let after = Machine::new(image, 0);
            drop(AFile::open(&after, 2).unwrap());
            let found = after.live().swap_remove(0);
            let what = (synced_before, waits, heeded_before, choice, found.len());
            assert_eq!(found.get(5 * PAGE_BYTES as usize), Some(&77), "{what:?}");
        }
    }
}
