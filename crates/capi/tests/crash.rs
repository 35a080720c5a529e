//! The crash ladder over C programs that use this library: heaps that threads change, and failure-atomic files, in each way of tracking.
//!
//! A program runs once; what it does to its files is recorded (`c/recorder.c`), and what it says of its commits in between. The ladder then plays
//! that to a simulated disk, stops it at every operation, and opens what a crash may have left there.

#![allow(clippy::print_stdout)] // seeds and tallies are for people

use heap::{ByAddress, Durability, Heap, Options, Place, Tracking, mark_address};
use region::layout::{FRAMES_START, NOTE_BYTES, NOTE_OFFSET, Note};
use region::{DATA_START, Region};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::OnceLock;
use tempfile::TempDir;
use testkit::crash::{Effort, History, Subject, climb};
use testkit::disk::Machine;
use testkit::rng::Rng;

#[allow(dead_code)] // what other tests need of it
#[path = "programs/build.rs"]
mod build;

use build::{Built, build, good, scratch};

const RESERVE: u64 = 1 << 27;

/// One thing that happened to a file of the program, or that it said.
enum Step {
    Written {
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    Cut {
        file: usize,
        len: u64,
    },
    Reserved {
        file: usize,
        offset: u64,
        len: u64,
    },
    Punched {
        file: usize,
        offset: u64,
        len: u64,
    },
    FlushBegins {
        thread: u64,
    },
    FlushEnds {
        thread: u64,
        file: usize,
    },
    Attempt(u64),
    Reported {
        durable: bool,
    },
    Flushed,
}

/// The record as `c/recorder.c` writes it: notes of five numbers, the bytes of a write behind them.
const NOTE: usize = 40;

fn number(bytes: &[u8], index: usize) -> u64 {
    region::layout::get_u64(bytes, 8 * index)
}

/// The steps of a record. What was said at a position of it comes behind what was noted before. Ends where a file is removed, if it does.
fn steps(record: &[u8], said: &[(usize, String)], inodes: &[u64]) -> (Vec<Step>, bool) {
    let mut steps = Vec::new();
    let mut said = said.iter().peekable();
    let mut at = 0;
    loop {
        while let Some((_, words)) = said.next_if(|(position, _)| *position <= at) {
            steps.extend(step_of_words(words));
        }
        if at == record.len() {
            return (steps, true);
        }
        let (kind, thread) = (number(&record[at..], 0), number(&record[at..], 1));
        let inode = number(&record[at..], 2);
        let (offset, len) = (number(&record[at..], 3), number(&record[at..], 4));
        at += NOTE;
        let file = inodes.iter().position(|&known| known == inode);
        let known = || file.unwrap_or_else(|| panic!("kind {kind} of an unknown file {inode}"));
        match kind {
            1 => {
                let bytes = record[at..at + len as usize].to_vec();
                at += len as usize;
                steps.push(Step::Written {
                    file: known(),
                    offset,
                    bytes,
                });
            }
            2 => steps.push(Step::Cut { file: known(), len }),
            3 => steps.push(Step::Reserved {
                file: known(),
                offset,
                len,
            }),
            4 => steps.push(Step::Punched {
                file: known(),
                offset,
                len,
            }),
            // Folders are flushed, too; in them nothing changes here.
            5 if file.is_some() => steps.push(Step::FlushBegins { thread }),
            6 if file.is_some() => steps.push(Step::FlushEnds {
                thread,
                file: known(),
            }),
            5 | 6 => {}
            7 => return (steps, false),
            other => panic!("a note of kind {other}"),
        }
    }
}

fn step_of_words(words: &str) -> Option<Step> {
    let (word, value) = words.split_once(' ').unwrap_or((words, ""));
    Some(match word {
        "found" => return None,
        "attempt" => Step::Attempt(value.parse().unwrap()),
        "reported" => Step::Reported { durable: false },
        "durable" => Step::Reported { durable: true },
        "flushed" => Step::Flushed,
        _ => panic!("it said {words:?}"),
    })
}

impl Step {
    /// Whether the machine still runs. `begun`: when each thread's flush began.
    fn play(
        &self,
        machine: &Machine,
        begun: &mut HashMap<u64, u64>,
        history: &mut History,
    ) -> bool {
        let done = match *self {
            Step::Written {
                file,
                offset,
                ref bytes,
            } => machine.file(file).write_at(bytes, offset),
            Step::Cut { file, len } => machine.file(file).set_len(len),
            Step::Reserved { file, offset, len } => machine.file(file).allocate(offset, len),
            Step::Punched { file, offset, len } => machine.file(file).discard(offset, len),
            Step::FlushBegins { thread } => {
                begun.insert(thread, machine.operations());
                Ok(())
            }
            Step::FlushEnds { thread, file } => {
                let begun = begun.remove(&thread).expect("it began");
                machine.flush_up_to(file, begun)
            }
            Step::Attempt(state) => {
                history.attempt(state);
                Ok(())
            }
            Step::Reported { durable } => {
                history.reported(durable);
                Ok(())
            }
            Step::Flushed => {
                history.reported_so_far_is_durable();
                Ok(())
            }
        };
        done.is_ok()
    }
}

/// What a program did with one seed.
struct Recording {
    seed: u64,
    steps: Vec<Step>,
    /// Of the machine that it ran on, in the note beside its journal.
    boot: Option<[u8; 16]>,
}

/// What the program works on: it takes the word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Heap,
    File,
}

const FILE_BYTES: u64 = 40 * 1000; // cuts_small.c

/// `c/cuts_small.c`, built and tracked in one way.
struct Program {
    kind: Kind,
    program: PathBuf,
    tracking: Tracking,
    folder: TempDir,
    /// Before it first runs.
    blank: Vec<Vec<u8>>,
    /// Where its heap lies, which has pointers.
    base: u64,
    /// The last one.
    recording: RefCell<Option<Rc<Recording>>>,
}

/// In this folder nobody waits for a disk.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// `recorder.so`, built once.
fn recorder() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let library = scratch().join("recorder.so");
        let mut command = Command::new("cc");
        command.args([
            "-std=gnu11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-fPIC",
            "-shared",
        ]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/recorder.c"));
        good(command.arg("-ldl").arg("-o").arg(&library));
        library
    })
}

impl Program {
    fn new(kind: Kind, how: Built, tracking: Tracking) -> Program {
        let mut made = Program {
            kind,
            program: build("cuts_small.c", how),
            tracking,
            folder: folder(),
            blank: Vec::new(),
            base: 0,
            recording: RefCell::new(None),
        };
        let path = &made.paths()[0];
        match kind {
            Kind::Heap => {
                let options = Options {
                    create: true,
                    by_address: Some(ByAddress {
                        tracking,
                        ..ByAddress::default()
                    }),
                    ..Options::writer()
                };
                let heap = Heap::open(path, options).unwrap();
                made.base = heap.address() as u64;
                heap.close(Durability::Durable).unwrap();
            }
            Kind::File => {
                fs::write(path, vec![0; FILE_BYTES as usize]).unwrap();
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(path)
                    .unwrap();
                // As a program leaves it that is killed.
                drop(Region::open_file(file, path, made.by_address()).unwrap());
            }
        }
        made.blank = made.content();
        made
    }

    fn by_address(&self) -> ByAddress {
        ByAddress {
            tracking: self.tracking,
            place: Place::Anywhere,
            ..ByAddress::default()
        }
    }

    /// Its files, in the order of the machine's.
    fn paths(&self) -> [PathBuf; 3] {
        let names = match self.kind {
            Kind::Heap => ["a.heap", "a.heap.journal", "a.heap.sums"],
            Kind::File => ["a.data", "a.data.perdure", "a.data.perdure.journal"],
        };
        names.map(|name| self.folder.path().join(name))
    }

    fn content(&self) -> Vec<Vec<u8>> {
        self.paths()
            .iter()
            .map(|path| fs::read(path).unwrap())
            .collect()
    }

    fn recording(&self, seed: u64) -> Rc<Recording> {
        let mut last = self.recording.borrow_mut();
        match &*last {
            Some(recording) if recording.seed == seed => Rc::clone(recording),
            _ => Rc::clone(last.insert(Rc::new(self.record(seed)))),
        }
    }

    /// Runs it, and listens.
    fn record(&self, seed: u64) -> Recording {
        // In place: the library knows a file again.
        let mut inodes = Vec::new();
        for (path, bytes) in self.paths().iter().zip(&self.blank) {
            let mut file = File::create(path).unwrap();
            file.write_all(bytes).unwrap();
            inodes.push(file.metadata().unwrap().ino());
        }
        let record = self.folder.path().join("record");
        let _ = fs::remove_file(&record);
        let mut command = Command::new(&self.program);
        command
            .args([
                if self.kind == Kind::Heap {
                    "heap"
                } else {
                    "file"
                },
                "work",
            ])
            .arg(self.folder.path())
            .arg(seed.to_string())
            .env("LD_PRELOAD", recorder())
            .env("PERDURE_RECORDING", &record)
            .env("PERDURE_MEDIA", "files")
            .env(
                "PERDURE_TRACK",
                match self.tracking {
                    Tracking::Pages => "pages",
                    Tracking::Lines => "lines",
                    Tracking::Both => "verify",
                },
            );
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = child.stdin.take().unwrap();
        let mut said = Vec::new();
        for words in BufReader::new(child.stdout.take().unwrap()).lines() {
            let so_far = fs::metadata(&record).map_or(0, |record| record.len());
            said.push((so_far as usize, words.unwrap()));
            answers.write_all(b"\n").unwrap();
        }
        let status = child.wait().unwrap();
        assert!(status.success(), "{command:?}: {status}");
        assert_eq!(said[0].1, format!("found {}", self.blank_state()));
        let (steps, is_whole) = steps(&fs::read(&record).unwrap(), &said, &inodes);
        let machine = Machine::new(self.blank.clone(), 0);
        let mut begun = HashMap::new();
        let mut history = History::new(self.blank_state());
        for step in &steps {
            assert!(step.play(&machine, &mut begun, &mut history));
        }
        let files = machine.live();
        if is_whole {
            assert!(files == self.content(), "something was not recorded");
        }
        let journal = &files[if self.kind == Kind::Heap { 1 } else { 2 }];
        assert!(journal.len() as u64 > FRAMES_START);
        let note: [u8; NOTE_BYTES] = journal[NOTE_OFFSET as usize..][..NOTE_BYTES]
            .try_into()
            .unwrap();
        Recording {
            seed,
            steps,
            boot: Note::decode(&note).map(|note| note.boot),
        }
    }

    /// The machine's identity at a boot: the first is the one that was recorded.
    fn boot(&self, boot: u64) -> [u8; 16] {
        let recording = self.recording.borrow();
        let recorded = recording.as_ref().and_then(|recording| recording.boot);
        recorded.filter(|_| boot == 1).unwrap_or([boot as u8; 16])
    }

    fn heap(&self, machine: &Machine, boot: u64) -> heap::Result<Heap> {
        let options = Options {
            by_address: Some(self.by_address()),
            ..Options::writer()
        };
        let files = [machine.file(0), machine.file(1), machine.file(2)];
        Heap::on(Region::open_on(files, &options, self.boot(boot), RESERVE)?)
    }

    fn file(&self, machine: &Machine, boot: u64) -> region::Result<Region> {
        let files = [machine.file(0), machine.file(1), machine.file(2)];
        Region::open_file_on(files, self.by_address(), self.boot(boot))
    }

    /// As the program itself has it: of the lists under all names.
    fn heap_state(&self, heap: &Heap) -> Result<u64, String> {
        let mut state = 1;
        let mut pieces = 0;
        for (i, name) in (0..NAMES).zip(b'a'..) {
            state = mixed(state, &i.to_le_bytes());
            let mut at = heap.name_find(&[name]).map_err(|e| e.to_string())?;
            while let Some(piece) = at {
                let head = load(heap, piece, 16)?;
                state = mixed(state, &load(heap, piece + 16, number(&head, 1))?);
                at = number(&head, 0).checked_sub(self.base);
                pieces += 1;
            }
        }
        let report = heap.check().map_err(|e| e.to_string())?;
        if !report.is_clean() || report.program_blocks != pieces {
            return Err(format!("{pieces} pieces: {report:?}"));
        }
        Ok(state)
    }
}

/// `c/cuts.c` has so many lists.
const NAMES: u32 = 9;

/// `mixed` of `c/cuts.c`.
fn mixed(state: u64, bytes: &[u8]) -> u64 {
    let mix = |state: u64, &byte: &u8| (state ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(state, mix).max(1)
}

/// Bytes of the program's, which may be anything.
fn load(heap: &Heap, offset: u64, len: u64) -> Result<Vec<u8>, String> {
    match offset.checked_add(len) {
        Some(end) if offset >= DATA_START && end <= heap.end_bytes() => {}
        _ => return Err(format!("{len} bytes at {offset} are not in the heap")),
    }
    let from = std::ptr::with_exposed_provenance::<u8>(heap.address() + offset as usize);
    // SAFETY: in bounds of the heap (looked at), to which nobody stores now.
    Ok(unsafe { std::slice::from_raw_parts(from, len as usize) }.to_vec())
}

/// A program's store; where lines are tracked it is marked.
fn store(start: usize, offset: u64, bytes: &[u8], tracking: Tracking) {
    let address = start + offset as usize;
    if tracking != Tracking::Pages {
        mark_address(address, bytes.len());
    }
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address);
    // SAFETY: in bounds of a block or of the file (the callers'), which nothing borrows now.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

impl Subject for Program {
    fn blank(&self) -> Vec<Vec<u8>> {
        self.blank.clone()
    }

    fn blank_state(&self) -> u64 {
        match self.kind {
            Kind::Heap => (0..NAMES).fold(1, |state, i| mixed(state, &i.to_le_bytes())),
            Kind::File => mixed(1, &[0; FILE_BYTES as usize]),
        }
    }

    fn work(&self, machine: &Machine, seed: u64, history: &mut History) {
        let mut begun = HashMap::new();
        for step in &self.recording(seed).steps {
            // An operation that fails is as far as the recording tells.
            if !step.play(machine, &mut begun, history) {
                return;
            }
        }
    }

    fn inspect(&self, machine: &Machine, boot: u64) -> Result<u64, String> {
        match self.kind {
            Kind::Heap => self.heap_state(&self.heap(machine, boot).map_err(|e| e.to_string())?),
            Kind::File => {
                let region = self.file(machine, boot).map_err(|e| e.to_string())?;
                let content = region.bytes(DATA_START, FILE_BYTES);
                let content = content.map_err(|e| e.to_string())?;
                if content != machine.live()[0] {
                    return Err("the file is not what was recovered".into());
                }
                Ok(mixed(1, content))
            }
        }
    }

    fn go_on(&self, machine: &Machine, boot: u64, seed: u64) -> Result<u64, String> {
        let mut rng = Rng::new(seed);
        let len = 1 + rng.below(300);
        let bytes = rng.bytes(len as usize);
        match self.kind {
            Kind::Heap => {
                let mut heap = self.heap(machine, boot).map_err(|e| e.to_string())?;
                // A piece more in front of a list.
                let mut work = || -> heap::Result<()> {
                    let name = [b'a' + rng.below(u64::from(NAMES)) as u8];
                    let next = heap.name_find(&name)?.map_or(0, |first| self.base + first);
                    let piece = heap.block_new(16 + len, 16)?;
                    let content = [&next.to_le_bytes()[..], &len.to_le_bytes(), &bytes].concat();
                    store(heap.address(), piece, &content, self.tracking);
                    heap.name_set(&name, Some(piece))?;
                    heap.commit(Durability::Lazy)?;
                    heap.make_durable()?;
                    Ok(())
                };
                work().map_err(|e| e.to_string())?;
                let state = self.heap_state(&heap)?;
                let closed = heap.close(Durability::Durable);
                closed.map_err(|e| e.to_string()).map(|_| state)
            }
            Kind::File => {
                let mut region = self.file(machine, boot).map_err(|e| e.to_string())?;
                let offset = DATA_START + rng.below(FILE_BYTES - len);
                store(region.address(), offset, &bytes, self.tracking);
                region.commit_file().map_err(|e| e.to_string())?;
                let content = region.bytes(DATA_START, FILE_BYTES);
                let state = mixed(1, content.map_err(|e| e.to_string())?);
                region.close_file().map_err(|e| e.to_string())?;
                Ok(state)
            }
        }
    }
}

fn every_crash_leaves_a_commit(kind: Kind, how: Built, tracking: Tracking) {
    let seed = Rng::seed_from_env();
    println!("seed {seed} (PERDURE_TEST_SEED)");
    let states = testkit::effort("PERDURE_CRASH_STATES", 2_000);
    let effort = Effort {
        states,
        // One recording has a thousand operations: where few states are wanted, few of each.
        states_per_stop: if states < 50_000 { 4 } else { 100 },
    };
    let program = Program::new(kind, how, tracking);
    let tally = climb(&program, seed, effort).unwrap_or_else(|what| {
        // Threads take another order next time.
        let kept = program.folder.keep();
        let kept = kept.display();
        panic!("{kind:?} {tracking:?}, seed {seed}: {what}; what was recorded is in {kept}")
    });
    println!("{kind:?} {tracking:?} {tally:?}");
}

const BY_PERDURE_CC: Built = Built::tracking("-O2");

#[test]
fn of_a_program_by_any_compiler_with_a_heap() {
    every_crash_leaves_a_commit(Kind::Heap, Built::C11, Tracking::Pages);
}

#[test]
fn of_a_program_by_perdure_cc_with_a_heap() {
    every_crash_leaves_a_commit(Kind::Heap, BY_PERDURE_CC, Tracking::Lines);
}

#[test]
fn of_a_program_in_verify_mode_with_a_heap() {
    every_crash_leaves_a_commit(Kind::Heap, BY_PERDURE_CC, Tracking::Both);
}

#[test]
fn of_a_program_by_any_compiler_with_a_file() {
    every_crash_leaves_a_commit(Kind::File, Built::C11, Tracking::Pages);
}

#[test]
fn of_a_program_by_perdure_cc_with_a_file() {
    every_crash_leaves_a_commit(Kind::File, BY_PERDURE_CC, Tracking::Lines);
}

#[test]
fn of_a_program_in_verify_mode_with_a_file() {
    every_crash_leaves_a_commit(Kind::File, BY_PERDURE_CC, Tracking::Both);
}
