//! Opening: finding the last commit of a heap file and its journal, and making a heap where there is none.
//!
//! The invariant: opening writes nothing to a heap that exists (but for a blank one made with `truncate`). What a crash
//! left in the journal is replayed into private pages; a later commit or close brings it to the file.

use crate::backing::Backing;
use crate::by_address::{ByAddress, Outside, Place, Tracking};
use crate::cards::{Cards, DirtyPage};
use crate::create::{
    OldJournal, blank_journal, create, format_blank, is_blank, is_of_another_heap,
    write_blank_journal, write_first_superblock,
};
use crate::dax::{DaxStorage, Media};
use crate::error::{Error, ErrorKind};
use crate::journal::{self, Frame, Tail};
use crate::layout::{
    self, COUNT_MAX, DATA_START, FRAMES_START, JOURNAL_HEADER_BYTES, NOTE_BYTES, NOTE_OFFSET, Note,
    PAGE_BYTES, RESERVE_BYTES_MAX, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock,
    SuperblockFault, WRITER_PID_OFFSET, arena, salt,
};
use crate::lock::Locks;
use crate::map::Map;
use crate::pages::PageNotes;
use crate::spill::{Replayed, Spill};
use crate::storage::{FileStorage, Storage};
use crate::sums::{Later, Sums};
use crate::{Region, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind as IoKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A blank file smaller than this cannot be made a heap: superblocks, the layer above's headers and a little data.
pub const LIMIT_BYTES_MIN: u64 = 1 << 20;
/// How long a reader waits for a writer that is writing back.
pub(crate) const OPENING_LIMIT: Duration = Duration::from_secs(60);

/// What the region is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The one writer.
    Writer,
    /// A reader: sees the last commit as of now, for as long as it is open; its stores are private.
    Snapshot,
}

/// Whether the heap's pages are compared with their sums when it is opened. Costs reading them: about 0.1 ms a megabyte
/// that is cached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// Heaps of up to two megabytes, where it is not felt; a page that does not hold its sum is an error.
    #[default]
    Small,
    /// Every page; [`Region::unsound_pages`] names those that do not hold their sums.
    Report,
    /// None: to look at a damaged heap.
    No,
}

/// How to open. Start from [`Options::writer`] or [`Options::snapshot`].
pub struct Options {
    pub access: Access,
    /// Make the heap if the path does not exist, or is a blank file made with `truncate` (writers only).
    pub create: bool,
    /// For a heap that is made now: the largest size in bytes; 0 for none.
    pub limit_bytes: u64,
    /// How long to wait for another writer.
    pub lock_timeout: Duration,
    /// Open it even if others own or may write the file.
    pub trust: bool,
    /// Open it without its journal: with what the heap file holds by itself. Writers only.
    ///
    /// That is the last checkpoint and every later commit that was applied; a commit that only the journal had is given
    /// up, and one that was being applied may be there in part, so the content must be checked before it is trusted. How
    /// far the heap reached is known as of the checkpoint only: see [`Region::uncover`]. The old journal, if there is one,
    /// is kept as `HEAP.journal.orphan` (or `.orphan.1` and so on: none is ever overwritten). A heap whose superblocks
    /// are lost, or that is shorter than its last checkpoint, does not open this way either, and keeps its journal.
    pub discard_journal: bool,
    /// Whether pages are compared with their sums.
    pub verify: Verify,
    /// How much uncommitted memory may be held before it goes to files, from where the kernel pages it in and out; none: what
    /// the machine has room for (three eighths of its memory or of the control group's limit). A lazy commit whose lines wait
    /// to be written back flushes when they take more than half of it. If there is no room for those files, all stays in memory.
    pub memory_budget_bytes: Option<u64>,
    /// A program stores to the region by address: where it must lie, and how its stores become known. Its uncommitted memory
    /// is not spilled.
    pub by_address: Option<ByAddress>,
    /// Called once when there is a wait for another writer.
    pub on_wait: Option<Box<dyn FnMut()>>,
}

impl Options {
    /// The one writer; makes the heap if there is none; waits up to a minute for another writer.
    pub fn writer() -> Options {
        Options {
            access: Access::Writer,
            create: true,
            limit_bytes: 0,
            lock_timeout: Duration::from_secs(60),
            trust: false,
            discard_journal: false,
            verify: Verify::Small,
            memory_budget_bytes: None,
            by_address: None,
            on_wait: None,
        }
    }

    /// A reader of the last commit.
    pub fn snapshot() -> Options {
        Options {
            access: Access::Snapshot,
            create: false,
            ..Options::writer()
        }
    }
}

/// What there is to tell about an open heap file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Facts {
    pub format_version: u32,
    pub uuid: [u8; 16],
    pub created_s: u64,
    /// Number of commits so far.
    pub commits: u64,
    /// When the last one was made; 0 when it is not known (it is part of a checkpoint).
    pub last_commit_s: u64,
    /// Number of the checkpoint.
    pub generation: u64,
    /// Bytes of the region as of the last commit.
    pub end_bytes: u64,
    /// 0: none.
    pub limit_bytes: u64,
    /// Length of the heap file, and how much of it takes space on the medium.
    pub file_bytes: u64,
    pub file_allocated_bytes: u64,
    pub journal_file_bytes: u64,
    /// Bytes of frames that the next recovery would read.
    pub journal_used_bytes: u64,
    /// Commits in the journal that are not known to be in the heap file (while a writer runs, some of them are).
    pub commits_pending: u64,
    /// Address at which C programs map it.
    pub home: u64,
}

/// What stands behind the data in case of damage.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Redundancy {
    /// Offset of each copy of the superblock that could not serve, and what is wrong with it. Never both.
    pub superblocks: Vec<(u64, &'static str)>,
    /// Pages of the heap, without those of the superblocks.
    pub pages: u64,
    /// How many of them have no sum that is known: none can be compared.
    pub pages_without_sum: u64,
    /// Whether there is a file of sums that belongs to this heap and its last checkpoint.
    pub has_sums: bool,
}

/// Where the journal of a heap lies: beside it, with `.journal` appended.
pub fn journal_path(heap: &Path) -> PathBuf {
    let mut name = OsString::from(heap);
    name.push(".journal");
    PathBuf::from(name)
}

/// Where the sums of a heap's pages lie: beside it, with `.sums` appended.
pub fn sums_path(heap: &Path) -> PathBuf {
    let mut name = OsString::from(heap);
    name.push(".sums");
    PathBuf::from(name)
}

/// The files of a heap and who they are, before they are looked into.
pub(crate) struct Files {
    pub(crate) path: PathBuf,
    pub(crate) heap: Box<dyn Storage>,
    pub(crate) journal: Box<dyn Storage>,
    pub(crate) sums: Option<Box<dyn Storage>>,
    pub(crate) locks: Locks,
    pub(crate) boot: [u8; 16],
    pub(crate) now_s: fn() -> u64,
    pub(crate) reserve_bytes: u64,
}

impl Region {
    /// Opens the heap file `path` and its journal, making them where there are none and `options` allow it.
    ///
    /// Costs a few system calls and the reading of the frames that no process of this boot has applied yet; never
    /// proportional to the heap.
    ///
    /// # Errors
    /// Every way in which a file can be no heap, damaged, locked, or not ours to open has its [`ErrorKind`].
    pub fn open(path: &Path, mut options: Options) -> Result<Region> {
        let text = path.display().to_string();
        if path.as_os_str().is_empty() {
            let why = "its name is empty".into();
            return Err(ErrorKind::NotAHeap { path: text, why }.into());
        }
        // What belongs to a heap lies beside the file itself, not beside a link to it.
        let resolved = match std::fs::symlink_metadata(path) {
            Ok(meta) if meta.is_symlink() => std::fs::canonicalize(path).ok(),
            _ => None,
        };
        let path = resolved.as_deref().unwrap_or(path);
        let writer = options.access == Access::Writer;
        let file = match open_heap_file(path, writer) {
            Err(e) if e.kind() == IoKind::NotFound && writer && options.create => {
                create(path, options.limit_bytes)?
            }
            Err(e) if e.kind() == IoKind::NotFound => {
                let journal = journal_path(path);
                if is_of_another_heap(&journal).unwrap_or(false) {
                    let journal = journal.display().to_string();
                    return Err(ErrorKind::HeapMissing {
                        path: text,
                        journal,
                    }
                    .into());
                }
                return Err(ErrorKind::Absent { path: text }.into());
            }
            Err(e) if e.raw_os_error() == Some(libc::EISDIR) => {
                return Err(ErrorKind::NotAHeap {
                    path: text,
                    why: "it is a directory".into(),
                }
                .into());
            }
            Err(e) => {
                return Err(Error::io(
                    text,
                    if writer {
                        "open it for writing"
                    } else {
                        "open it"
                    },
                    e,
                ));
            }
            Ok(file) => file,
        };
        check_file(&file, &text, options.trust)?;
        let locks = Locks::on(
            description_of_its_own(&file, writer)
                .map_err(|e| Error::io(&text, "open it twice", e))?,
        );
        let held = if writer {
            let mut silent = || ();
            let waiting: &mut dyn FnMut() =
                options.on_wait.as_deref_mut().map_or(&mut silent, |f| f);
            locks.lock_writer(options.lock_timeout, waiting)
        } else {
            locks.begin_opening(OPENING_LIMIT)
        };
        if !held.map_err(|e| Error::io(&text, "lock it", e))? {
            let waited = if writer {
                options.lock_timeout
            } else {
                OPENING_LIMIT
            };
            let waited_ms = waited.as_millis() as u64;
            return Err(ErrorKind::Locked {
                path: text,
                waited_ms,
                writer_pid: last_writer(path),
            }
            .into());
        }
        if is_blank(&file, &text)? {
            if !(writer && options.create) {
                return Err(ErrorKind::NotAHeap {
                    path: text,
                    why: "it is blank: nothing was ever committed to it".into(),
                }
                .into());
            }
            format_blank(&file, path)?;
        }
        let journal = open_journal(path, &file, writer, options.discard_journal)?;
        let media = options.by_address.map_or(Media::Files, |how| how.media);
        let storage = |file| {
            storage_on(file, media)
                .map_err(|e| Error::io(&text, "map it as it is on its medium", e))
        };
        let files = Files {
            path: path.into(),
            heap: storage(file)?,
            journal: storage(journal)?,
            // Without it all works but the comparison, so trouble with it is none.
            sums: open_sums(path, writer)
                .ok()
                .map(|file| Box::new(FileStorage(file)) as Box<dyn Storage>),
            locks,
            boot: boot_id(),
            now_s: clock_s,
            reserve_bytes: RESERVE_BYTES_MAX,
        };
        let how = How {
            access: options.access,
            verify: options.verify,
            lost_journal: options.discard_journal && writer,
            memory_budget_bytes: options.memory_budget_bytes,
            by_address: options.by_address,
        };
        let mut region = open_on(files, how)?;
        if let Some(backing) = region.backing.as_mut().filter(|b| b.writer) {
            let pid = u64::from(std::process::id()).to_le_bytes();
            let _ = backing.journal.write_at(&pid, WRITER_PID_OFFSET); // for messages only
        }
        Ok(region)
    }

    /// Opens a heap on storages of the caller's, made by [`Region::format_on`]: for tests with simulated disks. There
    /// are no locks: the caller is the only user. `boot` stands for the boot of the machine. Of the options those count that
    /// are not about files: access, budget, tracking.
    ///
    /// # Errors
    /// As [`Region::open`].
    pub fn open_on(
        [heap, journal, sums]: [Box<dyn Storage>; 3],
        options: &Options,
        boot: [u8; 16],
        reserve_bytes: u64,
    ) -> Result<Region> {
        let files = Files {
            path: "(simulated)".into(),
            heap,
            journal,
            sums: Some(sums),
            locks: Locks::none(),
            boot,
            now_s: || 0,
            reserve_bytes,
        };
        let how = How {
            access: options.access,
            verify: Verify::Small,
            lost_journal: false,
            memory_budget_bytes: options.memory_budget_bytes,
            by_address: options.by_address,
        };
        open_on(files, how)
    }

    /// Makes an empty heap on two empty storages, durably.
    ///
    /// # Errors
    /// Those of the storages.
    pub fn format_on(
        heap: &mut dyn Storage,
        journal: &mut dyn Storage,
        uuid: [u8; 16],
        limit_bytes: u64,
    ) -> io::Result<()> {
        journal.write_at(&blank_journal(&uuid, None), 0)?;
        journal.sync()?;
        write_first_superblock(heap, uuid, DATA_START, limit_bytes, 0)
    }

    /// Takes bytes of the file behind the end into the working copy, up to `end`, as growth that is not committed yet:
    /// for a heap whose journal is lost ([`Options::discard_journal`]), and with it the knowledge how far the heap reached.
    /// Whoever knows what lies in the region says how far. Costs memory of that size until the commit.
    ///
    /// # Errors
    /// [`ErrorKind::Damaged`] when the file is shorter; [`ErrorKind::NotAWriter`].
    pub fn uncover(&mut self, end: u64) -> Result<()> {
        let text = self.path_text();
        let Some(backing) = self.backing.as_ref().filter(|b| b.writer) else {
            return Err(ErrorKind::NotAWriter {
                path: text,
                action: "uncover",
            }
            .into());
        };
        let file_len = backing
            .heap
            .len()
            .map_err(|e| Error::io(&text, "ask its length", e))?;
        let start = self.end;
        if end <= start {
            return Ok(());
        }
        if end > file_len || end > self.map.len() || !end.is_multiple_of(PAGE_BYTES) {
            let what =
                format!("the file is cut: {file_len} bytes are there, its content has {end}");
            return Err(Error::damaged(text, file_len, what));
        }
        backing
            .heap
            .read_at(self.map.slice_mut(start, end), start)
            .map_err(|e| Error::io(&text, "read it", e))?;
        self.end = end;
        Ok(())
    }

    /// Pages (by number: offset / 4096) that did not hold their sums when the region was opened with [`Verify::Report`]:
    /// their bytes changed without a commit.
    pub fn unsound_pages(&self) -> &[u64] {
        self.backing.as_ref().map_or(&[], |b| &b.unsound_pages)
    }

    /// What stands behind the data in case of damage, as found when the region was opened with [`Verify::Report`].
    pub fn redundancy(&self) -> Redundancy {
        self.backing
            .as_ref()
            .map_or_else(Redundancy::default, |b| b.redundancy.clone())
    }

    /// What there is to tell about the files; none for memory.
    pub fn facts(&self) -> Option<Facts> {
        let backing = self.backing.as_ref()?;
        let sb = &backing.superblock;
        let allocated = std::fs::metadata(&backing.path).map_or(0, |m| m.blocks() * 512);
        Some(Facts {
            format_version: layout::FORMAT_VERSION,
            uuid: sb.uuid,
            created_s: sb.created_s,
            commits: backing.tail.seq,
            last_commit_s: backing.time_s,
            generation: sb.generation,
            end_bytes: backing.tail.end,
            limit_bytes: sb.limit,
            file_bytes: backing.heap.len().unwrap_or(0),
            file_allocated_bytes: allocated,
            journal_file_bytes: backing.journal_len,
            journal_used_bytes: backing.tail.offset - FRAMES_START,
            commits_pending: backing.tail.seq - backing.applied_seq,
            home: sb.home_address(),
        })
    }
}

/// Heaps up to this size are compared with their sums whenever they are opened.
const VERIFIED_BYTES_MAX: u64 = 2 << 20;

/// A number that no other handle of this machine has had: boot, process, moment and count.
fn new_nonce(boot: &[u8; 16]) -> u64 {
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut bytes = boot.to_vec();
    bytes.extend(u64::from(std::process::id()).to_le_bytes());
    bytes.extend(now.map_or(0, |d| d.as_nanos() as u64).to_le_bytes());
    layout::checksum(&bytes, count)
}

/// How [`open_on`] opens.
pub(crate) struct How {
    pub(crate) access: Access,
    pub(crate) verify: Verify,
    pub(crate) lost_journal: bool,
    pub(crate) memory_budget_bytes: Option<u64>,
    pub(crate) by_address: Option<ByAddress>,
}

/// Finds the last commit and makes the working copy.
pub(crate) fn open_on(files: Files, how: How) -> Result<Region> {
    let Files {
        path,
        heap,
        journal,
        sums,
        locks,
        boot,
        now_s,
        reserve_bytes,
    } = files;
    let text = path.display().to_string();
    let io = |action: &'static str| {
        let text = text.clone();
        move |e: io::Error| Error::io(text, action, e)
    };
    let superblock = read_superblock(&*heap, &text)?;
    check_journal_header(&*journal, &superblock, &text, &path)?;
    let journal_len = journal.len().map_err(io("ask its journal's length"))?;
    let found = scan(&*heap, &*journal, journal_len, &superblock, boot, &text)?;
    let end = found.tail.end;
    // Asked after the journal was read: a writer may be growing the file meanwhile.
    let heap_len = heap.len().map_err(io("ask its length"))?;
    if heap_len < end {
        let what =
            format!("the file is cut: {heap_len} bytes are there, its last commit has {end}");
        return Err(Error::damaged(text, heap_len, what));
    }
    let (mut map, cards) = match how.by_address {
        None => reserve(reserve_bytes, end)?,
        Some(by_address) => reserve_by_address(by_address.place, &superblock, reserve_bytes, end)?,
    };
    if end > map.len() {
        let source = io::Error::from_raw_os_error(libc::ENOMEM);
        return Err(ErrorKind::NoAddressSpace {
            wanted_bytes: end,
            source,
        }
        .into());
    }
    // Where other threads may store meanwhile, memory cannot be mapped from elsewhere.
    let budget_bytes = match how.by_address {
        Some(_) => Some(u64::MAX),
        None => how.memory_budget_bytes,
    };
    let mut spill = Spill::new(budget_bytes);
    match heap.mappable() {
        Some(file) => {
            map.map_private(file, heap.mapped_from(), 0, end)
                .map_err(io("map it"))?;
            spill.advise(&mut map, end);
        }
        None => {
            let present = heap.present_end().map_err(io("ask its length"))?;
            heap.read_at(map.slice_mut(0, present.unwrap_or(end).min(end)), 0)
                .map_err(io("read it"))?;
        }
    }
    // What was committed behind the end of a file that was cut later is gone.
    let present = heap.present_end().map_err(io("ask its length"))?;
    let present = present.unwrap_or(end);
    let mut pending = PageNotes::of_masks();
    let mut replayed = Replayed::new(end);
    let mut contents = journal::RunBytes::of(&*journal).map_err(io("read its journal"))?;
    for frame in &found.frames {
        journal::for_each_run(&*journal, frame, |run, at| {
            if run.start >= present {
                return Ok(());
            }
            contents.read(map.slice_mut(run.start, run.end), at)?;
            let page = run.start / PAGE_BYTES;
            pending.extend([(page, DirtyPage::of(&run).lines)]);
            replayed.note(page, &mut map, &mut spill, &*heap, &path);
            Ok(())
        })
        .map_err(io("read its journal"))?
        .map_err(|what| Error::damaged(&text, frame.offset, what))?;
    }
    let end_max = if superblock.limit == 0 {
        map.len()
    } else {
        superblock.limit.min(map.len())
    };
    let writer = how.access == Access::Writer;
    let mut sums = Sums::open(sums, &superblock).map_err(io("read its sums"))?;
    if how.lost_journal {
        sums.distrust();
    }
    let fresh_seqs = found
        .frames
        .iter()
        .filter(|f| f.has_fresh() && f.header.seq > found.testified_seq);
    let found_seq = found.tail.seq;
    let mut backing = Backing {
        sums,
        flusher: None,
        unsound_pages: Vec::new(),
        redundancy: Redundancy::default(),
        fresh_seqs: fresh_seqs.map(|f| f.header.seq).collect(),
        time_s: match found.frames.last() {
            Some(frame) => frame.header.time_s,
            None => found.note.as_ref().map_or(0, |note| note.time_s),
        },
        path,
        heap,
        journal,
        locks,
        writer,
        superblock,
        tail: found.tail,
        journal_len,
        // Testimony is knowledge; and frames to come must repeat it, because they may overwrite who gave it.
        // Of no more commits than there are, whatever a forged frame says.
        flushed_seq: found.testified_seq.min(found.tail.seq),
        applied_seq: found.applied.seq,
        applied_tail: found.applied,
        unapplied: (found.applied == found.tail).then(Vec::new),
        named_sums: (found.tail.offset == layout::FRAMES_START).then(PageNotes::of_last),
        later: Later::new(
            how.by_address
                .is_some_and(|b| b.tracking == Tracking::Lines),
        ),
        testified_seq: found.testified_seq.min(found.tail.seq),
        suspects: found.frames,
        pending,
        private_pages: replayed.private_pages(),
        heap_unflushed: false,
        durable_len: None,
        others: None,
        end_is_known: !how.lost_journal,
        has_leftovers: false,
        allocated_end: 0,
        boot,
        nonce: new_nonce(&boot),
        poisoned: false,
        tail_spoiled: found.is_spoiled,
        superblock_suspect: found.note.is_none(),
        note: found.note,
        now_s,
    };
    let wanted = match how.verify {
        Verify::Small => end <= VERIFIED_BYTES_MAX && !how.lost_journal,
        Verify::Report => true,
        Verify::No => false,
    };
    if wanted {
        let compared = backing
            .compare_pages(&map)
            .map_err(io("verify its pages"))?;
        backing.unsound_pages = compared.unsound;
        if how.verify == Verify::Report {
            backing.redundancy = Redundancy {
                superblocks: superblock_faults(&*backing.heap)
                    .map_err(io("read its superblocks"))?,
                pages: (end - DATA_START) / PAGE_BYTES,
                pages_without_sum: compared.without_sum,
                has_sums: backing.sums.is_usable(),
            };
        }
    }
    if how.verify == Verify::Small
        && let Some(page) = backing.unsound_pages.first()
    {
        let what = "a page does not hold its sum: its bytes changed without a commit";
        return Err(Error::damaged(text, page * PAGE_BYTES, what));
    }
    if !writer {
        // Not before the frames were read for the last time: from here on the writer may recycle them.
        backing
            .locks
            .end_opening(found_seq)
            .map_err(io("pin the commit"))?;
    }
    let mut region = Region {
        map,
        cards,
        end,
        end_max,
        backing: Some(backing),
        spill,
        outside: None,
    };
    region.allow_growth();
    if let Some(by_address) = how.by_address {
        let mut outside = Outside::new(by_address.tracking, how.memory_budget_bytes)?;
        outside
            .watch(&region.map, 0..end)
            .map_err(io("watch its pages"))?;
        if let Some(backing) = &mut region.backing {
            outside.begin(&region.map, &mut backing.pending);
        }
        region.outside = Some(outside);
    }
    Ok(region)
}

/// As [`reserve`], for a program that stores by address.
fn reserve_by_address(
    place: Place,
    superblock: &Superblock,
    wanted: u64,
    committed_end: u64,
) -> Result<(Map, Cards)> {
    let home = match place {
        Place::Anywhere => None,
        Place::At(address) => Some(address),
        Place::Home => Some(superblock.home_address()),
        Place::Arena => {
            // From its home on, round the arena, to where nothing is.
            let homes = (arena::HOME_LAST - arena::HOME_FIRST) / arena::HOME_STEP + 1;
            let own = (superblock.home_address() - arena::HOME_FIRST) / arena::HOME_STEP;
            let mut tries = (own..own + homes).map(|home| {
                let home = arena::HOME_FIRST + home % homes * arena::HOME_STEP;
                reserve_by_address(Place::At(home), superblock, wanted, committed_end)
            });
            let first = tries.next().expect("there are homes");
            return first.or_else(|error| tries.find_map(Result::ok).ok_or(error));
        }
    };
    // It grows into what lies behind when it needs it, or nobody may be there by then: homes are a step apart.
    let least = committed_end.max(layout::RESERVE_BYTES_MIN);
    let mut len = committed_end
        .next_multiple_of(arena::HOME_STEP)
        .min(wanted)
        .max(committed_end);
    loop {
        let reserved = match home {
            Some(address) => Map::reserve_at(address, len),
            None => Map::reserve_exact(len),
        }
        .and_then(|map| {
            let base = map.base() as usize;
            let cards = Cards::by_address(base, map.len(), committed_end)?;
            Ok((map, cards))
        });
        match reserved {
            Err(_) if len / 2 >= least => len /= 2,
            other => return other,
        }
    }
}

/// A file as its medium is best written.
fn storage_on(file: File, media: Media) -> io::Result<Box<dyn Storage>> {
    Ok(match DaxStorage::new(file, media)? {
        Ok(memory) => Box::new(memory),
        Err(file) => Box::new(file),
    })
}

/// Address space for the working copy and its cards: less than wanted where a limit forbids so much.
fn reserve(wanted: u64, committed_end: u64) -> Result<(Map, Cards)> {
    let mut wanted = wanted;
    loop {
        let map = Map::reserve(wanted)?;
        match Cards::new(map.len(), committed_end.min(map.len())) {
            Ok(cards) => return Ok((map, cards)),
            Err(error) if map.len() / 2 < layout::RESERVE_BYTES_MIN => return Err(error),
            Err(_) => wanted = map.len() / 2,
        }
    }
}

/// The newest superblock whose checksum holds.
pub(crate) fn read_superblock(heap: &dyn Storage, text: &str) -> Result<Superblock> {
    let copies = SUPERBLOCK_OFFSETS.map(|offset| {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        match heap.read_at(&mut bytes, offset) {
            Ok(()) => Ok(Superblock::decode(&bytes)),
            Err(e) if e.kind() == IoKind::UnexpectedEof => Ok(Err(SuperblockFault::Blank)),
            Err(e) => Err(Error::io(text, "read its superblock", e)),
        }
    });
    let [a, b] = copies;
    let (a, b) = (a?, b?);
    use SuperblockFault as F;
    match (a, b) {
        (Ok(a), Ok(b)) if a.uuid != b.uuid => Err(Error::damaged(
            text,
            SUPERBLOCK_OFFSETS[1],
            "its two superblocks belong to different heaps",
        )),
        (Ok(a), Ok(b)) => Ok(if a.generation >= b.generation { a } else { b }),
        (Ok(good), Err(_)) | (Err(_), Ok(good)) => Ok(good),
        (Err(F::Version(found)), _) | (_, Err(F::Version(found))) => Err(ErrorKind::Version {
            path: text.into(),
            found,
        }
        .into()),
        (Err(F::Flags(flags)), _) | (_, Err(F::Flags(flags))) => Err(Error::damaged(
            text,
            0,
            format!("unknown flags {flags:#x} in its superblock"),
        )),
        (Err(F::Damaged), _) | (_, Err(F::Damaged)) => Err(Error::damaged(
            text,
            0,
            "neither superblock holds its checksum",
        )),
        (Err(_), Err(_)) => {
            let why =
                "it does not begin like one; is it another kind of file? It was left as it is"
                    .into();
            Err(ErrorKind::NotAHeap {
                path: text.into(),
                why,
            }
            .into())
        }
    }
}

/// Copies of the superblock that could not serve, of a heap that opened.
fn superblock_faults(heap: &dyn Storage) -> io::Result<Vec<(u64, &'static str)>> {
    let mut faults = Vec::new();
    for offset in SUPERBLOCK_OFFSETS {
        let mut page = [0; PAGE_BYTES as usize];
        heap.read_at(&mut page, offset)?;
        let (copy, rest) = page.split_at(SUPERBLOCK_BYTES);
        match copy.first_chunk().map(Superblock::decode) {
            Some(Ok(_)) if rest.iter().all(|&b| b == 0) => {}
            Some(Ok(_)) => faults.push((offset, "bytes of its page that should be zero are not")),
            Some(Err(SuperblockFault::Blank)) => faults.push((offset, "it is blank")),
            _ => faults.push((offset, "damaged: its bytes do not hold their checksum")),
        }
    }
    Ok(faults)
}

fn check_journal_header(
    journal: &dyn Storage,
    superblock: &Superblock,
    text: &str,
    path: &Path,
) -> Result<()> {
    use layout::journal_header as at;
    let mut header = [0; JOURNAL_HEADER_BYTES];
    let read = journal.read_at(&mut header, 0);
    let wanted = layout::encode_journal_header(&superblock.uuid);
    let name = journal_path(path).display().to_string();
    if matches!(&read, Ok(()) if header == wanted) {
        let bytes = journal.len();
        let bytes = bytes.map_err(|e| Error::io(text, "ask its journal's length", e))?;
        if bytes < layout::JOURNAL_BYTES_MIN {
            return Err(ErrorKind::JournalCut {
                path: text.into(),
                journal: name,
                bytes,
            }
            .into());
        }
        return Ok(());
    }
    match read {
        Err(e) if e.kind() != IoKind::UnexpectedEof => {
            return Err(Error::io(text, "read its journal", e));
        }
        Err(_) => {}
        Ok(()) => {
            let is_whole = layout::get_u64(&header, at::CHECKSUM)
                == layout::checksum(&header[..at::CHECKSUM], layout::SEED_JOURNAL);
            let has_magic = header[at::MAGIC..at::MAGIC + 8] == layout::JOURNAL_MAGIC;
            let has_uuid = header[at::UUID..at::UUID + 16] == superblock.uuid;
            let version = layout::get_u32(&header, at::VERSION);
            if is_whole && has_magic && version != layout::FORMAT_VERSION {
                return Err(ErrorKind::Version {
                    path: name,
                    found: version,
                }
                .into());
            }
            if !is_whole && (has_magic || has_uuid) {
                let what =
                    format!("the header of its journal \"{name}\" does not hold its checksum");
                return Err(Error::damaged(text, 0, what));
            }
        }
    }
    Err(ErrorKind::JournalForeign {
        path: text.into(),
        journal: name,
    }
    .into())
}

/// What the journal says.
struct Found {
    tail: Tail,
    /// Valid frames behind `applied_seq`.
    frames: Vec<Frame>,
    /// Behind the last frame that is in the heap file.
    applied: Tail,
    testified_seq: u64,
    /// Behind the tail lies a whole frame whose fresh space did not arrive, or the medium may have one whose append failed.
    is_spoiled: bool,
    /// If there is one, a process of this boot saw the flush of the superblock succeed.
    note: Option<Note>,
}

/// Follows the chain of frames from the checkpoint, or from where this boot's note says that all is applied, to its end.
fn scan(
    heap: &dyn Storage,
    journal: &dyn Storage,
    journal_len: u64,
    superblock: &Superblock,
    boot: [u8; 16],
    text: &str,
) -> Result<Found> {
    let read_error = |e| Error::io(text, "read its journal", e);
    let start = Tail::of(superblock);
    let note = read_note(journal).map_err(read_error)?.filter(|note| {
        note.boot == boot
            && boot != [0; 16]
            && note.generation == superblock.generation
            && note.applied_seq >= start.seq
    });
    let mut tail = note.as_ref().map_or(start, |note| Tail {
        offset: note.tail,
        chain: note.chain,
        seq: note.applied_seq,
        end: note.end,
    });
    let bounds_hold = tail.offset >= FRAMES_START
        && tail.offset.is_multiple_of(layout::SECTOR_BYTES)
        && tail.end.is_multiple_of(PAGE_BYTES)
        && (DATA_START..=RESERVE_BYTES_MAX).contains(&tail.end)
        && tail.offset <= journal_len.max(FRAMES_START)
        && tail.seq <= COUNT_MAX;
    if !bounds_hold {
        return Err(Error::damaged(
            text,
            NOTE_OFFSET,
            "its journal's note is out of bounds",
        ));
    }
    let applied = tail;
    let mut frames: Vec<Frame> = Vec::new();
    let generation = superblock.generation;
    let next = |tail| journal::next(journal, journal_len, tail, generation).map_err(read_error);
    loop {
        let before = tail;
        while let Some(frame) = next(tail)? {
            journal::for_each_run(journal, &frame, |_, _| Ok(()))
                .map_err(read_error)?
                .map_err(|what| Error::damaged(text, frame.offset, what))?;
            tail = Tail::behind(&frame);
            frames.push(frame);
        }
        if frames.is_empty() && tail == start {
            refuse_lost_superblock(journal, journal_len, superblock, text)?;
        }
        if note.is_some()
            || !journal::is_missing_a_frame(journal, journal_len, tail, generation)
                .map_err(read_error)?
        {
            break;
        }
        // A writer may have appended it, and the one that testifies, since it was looked for.
        if tail == before && next(tail)?.is_none() {
            let what = format!(
                "commit {} was durable, and its frame in the journal (at {}) is damaged",
                tail.seq + 1,
                tail.offset
            );
            return Err(Error::damaged(text, tail.offset, what));
        }
    }
    // A frame with fresh space counts only if that arrived too: somebody testifies to it, or its checksums hold.
    let testified_seq = frames
        .iter()
        .map(|f| f.header.durable_seq)
        .max()
        .unwrap_or(0)
        .max(applied.seq);
    let mut whole = 0;
    for frame in &frames {
        let arrived = !frame.has_fresh()
            || frame.header.seq <= testified_seq
            || journal::fresh_has_arrived(journal, heap, frame)
                .map_err(|e| Error::io(text, "read fresh space", e))?;
        if !arrived {
            break;
        }
        whole += 1;
    }
    let has_rejected = whole < frames.len();
    frames.truncate(whole);
    let tail = frames.last().map_or(applied, Tail::behind);
    let was_withdrawn = is_withdrawn(journal, journal_len, tail).map_err(read_error)?;
    Ok(Found {
        tail,
        frames,
        applied,
        testified_seq,
        is_spoiled: has_rejected || was_withdrawn,
        note,
    })
}

/// Whether an append failed behind the tail, whose header its writer has overwritten with zeros. On the medium the frame may be whole all the same.
fn is_withdrawn(journal: &dyn Storage, journal_len: u64, tail: Tail) -> io::Result<bool> {
    let mut sector = [0; layout::SECTOR_BYTES as usize];
    if tail.offset + layout::SECTOR_BYTES > journal_len {
        return Ok(false);
    }
    journal.read_at(&mut sector, tail.offset)?;
    // What a frame holds begins in its first sector; a frame that holds nothing says nothing.
    let (header, contents) = sector.split_at(layout::FRAME_HEADER_BYTES);
    let is_blank = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    Ok(is_blank(header) && !is_blank(contents))
}

/// If the journal already holds frames of the next generation, the superblock that began it was there and is lost: an
/// older one would silently give older data.
fn refuse_lost_superblock(
    journal: &dyn Storage,
    journal_len: u64,
    superblock: &Superblock,
    text: &str,
) -> Result<()> {
    let mut head = [0; layout::FRAME_HEADER_BYTES];
    if journal_len < FRAMES_START + head.len() as u64 {
        return Ok(());
    }
    journal
        .read_at(&mut head, FRAMES_START)
        .map_err(|e| Error::io(text, "read its journal", e))?;
    let generation = layout::get_u64(&head, layout::frame::GENERATION);
    let follows = layout::get_u32(&head, layout::frame::MAGIC) == layout::FRAME_MAGIC
        && generation > superblock.generation
        && layout::get_u64(&head, layout::frame::CHAIN) == salt(&superblock.uuid, generation);
    if follows {
        let what = format!(
            "the superblock of checkpoint {generation} is lost (its journal continues it, but the newest found is {})",
            superblock.generation
        );
        return Err(Error::damaged(text, SUPERBLOCK_OFFSETS[0], what));
    }
    Ok(())
}

fn read_note(journal: &dyn Storage) -> io::Result<Option<Note>> {
    let mut bytes = [0; NOTE_BYTES];
    match journal.read_at(&mut bytes, NOTE_OFFSET) {
        Ok(()) => Ok(Note::decode(&bytes)),
        Err(e) if e.kind() == IoKind::UnexpectedEof => Ok(None),
        Err(e) => Err(e),
    }
}

/// Who opened it for writing last, for a message; 0 if unknown.
fn last_writer(heap: &Path) -> u64 {
    let mut pid = [0; 8];
    let read = File::open(journal_path(heap))
        .and_then(|file| file.read_exact_at(&mut pid, WRITER_PID_OFFSET));
    read.map_or(0, |()| layout::get_u64(&pid, 0))
}

pub(crate) fn open_heap_file(path: &Path, writer: bool) -> io::Result<File> {
    // O_NONBLOCK: a FIFO of that name must give an error, not a wait.
    OpenOptions::new()
        .read(true)
        .write(writer)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
}

/// The same file for [`Locks`]. A lock lasts as long as anybody has its description: a child of [`Region::fork`] keeps
/// those of the files, and of what it has mapped, but gives this one up.
pub(crate) fn description_of_its_own(file: &File, writer: bool) -> io::Result<File> {
    // Through /proc and not by name: the name may belong to another file by now.
    let opened = File::options()
        .read(true)
        .write(writer)
        .open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    match opened {
        Ok(own) => Ok(own),
        // Without /proc there is no fork either.
        Err(_) => file.try_clone(),
    }
}

/// Refuses what is not a plain file of ours.
fn check_file(file: &File, text: &str, trust: bool) -> Result<()> {
    let meta = file
        .metadata()
        .map_err(|e| Error::io(text, "look at it", e))?;
    let not_a_heap = |why: &str| {
        Err(ErrorKind::NotAHeap {
            path: text.into(),
            why: why.into(),
        }
        .into())
    };
    if meta.is_dir() {
        return not_a_heap("it is a directory");
    }
    if !meta.is_file() {
        return not_a_heap("it is not a regular file");
    }
    if meta.len() == 0 {
        return not_a_heap(
            "it is empty (0 bytes); remove it to have a heap made there, or give it a size limit first: truncate -s 1G FILE",
        );
    }
    if trust {
        return Ok(());
    }
    // SAFETY: these calls take nothing and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let private_group = meta.gid() == gid && gid == uid; // the usual one-user group, umask 002
    let why = if meta.uid() != uid {
        format!("it belongs to user {}, not to you ({uid})", meta.uid())
    } else if meta.mode() & 0o002 != 0 {
        format!("everybody may write it (mode {:o})", meta.mode() & 0o7777)
    } else if meta.mode() & 0o020 != 0 && !private_group {
        format!(
            "group {} may write it (mode {:o})",
            meta.gid(),
            meta.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    Err(ErrorKind::Untrusted {
        path: text.into(),
        why,
    }
    .into())
}

fn open_sums(heap: &Path, writer: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .mode(0o644);
    let file = options.write(writer).create(writer).open(sums_path(heap))?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(IoKind::InvalidInput.into())
    }
}

fn open_journal(heap_path: &Path, heap: &File, writer: bool, discard: bool) -> Result<File> {
    let path = journal_path(heap_path);
    let text = heap_path.display().to_string();
    if discard && writer {
        let storage = FileStorage(
            heap.try_clone()
                .map_err(|e| Error::io(&text, "open it twice", e))?,
        );
        let superblock = read_superblock(&storage, &text)?;
        write_blank_journal(heap_path, &superblock.uuid, None, OldJournal::Keep)?;
    }
    match OpenOptions::new()
        .read(true)
        .write(writer)
        .custom_flags(libc::O_NONBLOCK)
        .open(&path)
    {
        Ok(file) if file.metadata().is_ok_and(|m| m.is_file()) => Ok(file),
        Ok(_) => Err(ErrorKind::JournalForeign {
            path: text,
            journal: path.display().to_string(),
        }
        .into()),
        Err(e) if e.kind() == IoKind::NotFound => {
            // Not a heap at all? Say that first.
            let storage = FileStorage(
                heap.try_clone()
                    .map_err(|e| Error::io(&text, "open it twice", e))?,
            );
            read_superblock(&storage, &text)?;
            Err(ErrorKind::JournalMissing {
                path: text,
                journal: path.display().to_string(),
            }
            .into())
        }
        Err(e) => Err(Error::io(text, "open its journal", e)),
    }
}

/// Identity of this boot of the machine; zeros, which no note is believed with, where there is none.
pub(crate) fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut id = [0; 16];
    let digits: Vec<u8> = text
        .bytes()
        .filter_map(|b| char::from(b).to_digit(16))
        .map(|d| d as u8)
        .collect();
    if digits.len() == 32 {
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = pair[0] << 4 | pair[1];
        }
    }
    id
}

pub(crate) fn clock_s() -> u64 {
    // SAFETY: without a place to store it, it is only returned. (A clock of nanoseconds takes five times as long.)
    u64::try_from(unsafe { libc::time(std::ptr::null_mut()) }).unwrap_or(0)
}
