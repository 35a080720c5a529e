//! Opening: finding the last commit of a heap file and its journal, and making a heap where there is none.
//!
//! The invariant: opening writes nothing to a heap that exists (but for a blank one made with `truncate`). What a crash
//! left in the journal is replayed into private pages; a later commit or close brings it to the file.

use crate::cards::Cards;
use crate::commit::Backing;
use crate::error::{Error, ErrorKind};
use crate::journal::{self, Frame, Tail};
use crate::layout::{
    self, DATA_START, FRAMES_START, JOURNAL_HEADER_BYTES, NOTE_BYTES, NOTE_OFFSET, Note,
    PAGE_BYTES, RESERVE_BYTES_MAX, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSETS, Superblock,
    SuperblockFault, salt,
};
use crate::lock::Locks;
use crate::map::Map;
use crate::storage::{FileStorage, Storage};
use crate::{Region, Result};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind as IoKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A blank file smaller than this cannot be made a heap: superblocks, the layer above's headers and a little data.
pub const LIMIT_BYTES_MIN: u64 = 1 << 20;
/// How long a reader waits for a writer that is writing back.
const OPENING_LIMIT: Duration = Duration::from_secs(60);

/// What the region is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The one writer.
    Writer,
    /// A reader: sees the last commit as of now, for as long as it is open; its stores are private.
    Snapshot,
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
    /// Open it without its journal, at the last checkpoint: commits since then are given up. Writers only; the old
    /// journal, if there is one, is kept under another name.
    pub discard_journal: bool,
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
    /// Commits that wait in the journal.
    pub commits_pending: u64,
    /// Address at which C programs map it.
    pub home: u64,
}

/// Where the journal of a heap lies: beside it, with `.journal` appended.
pub fn journal_path(heap: &Path) -> PathBuf {
    let mut name = OsString::from(heap);
    name.push(".journal");
    PathBuf::from(name)
}

/// Both files of a heap and who they are, before they are looked into.
pub(crate) struct Files {
    pub(crate) path: PathBuf,
    pub(crate) heap: Box<dyn Storage>,
    pub(crate) journal: Box<dyn Storage>,
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
        let writer = options.access == Access::Writer;
        let file = match open_heap_file(path, writer) {
            Err(e) if e.kind() == IoKind::NotFound && writer && options.create => {
                create(path, options.limit_bytes)?
            }
            Err(e) if e.kind() == IoKind::NotFound => {
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
            file.try_clone()
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
        let files = Files {
            path: path.into(),
            heap: Box::new(FileStorage(file)),
            journal: Box::new(FileStorage(journal)),
            locks,
            boot: boot_id(),
            now_s: clock_s,
            reserve_bytes: RESERVE_BYTES_MAX,
        };
        open_on(files, options.access)
    }

    /// Opens a heap on storages of the caller's, made by [`Region::format_on`]: for tests with simulated disks. There
    /// are no locks: the caller is the only user. `boot` stands for the boot of the machine.
    ///
    /// # Errors
    /// As [`Region::open`].
    pub fn open_on(
        heap: Box<dyn Storage>,
        journal: Box<dyn Storage>,
        access: Access,
        boot: [u8; 16],
        reserve_bytes: u64,
    ) -> Result<Region> {
        let files = Files {
            path: "(simulated)".into(),
            heap,
            journal,
            locks: Locks::none(),
            boot,
            now_s: || 0,
            reserve_bytes,
        };
        open_on(files, access)
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
        write_first_superblock(heap, uuid, limit_bytes, 0)
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
            home: sb.home,
        })
    }
}

/// Finds the last commit and makes the working copy.
fn open_on(files: Files, access: Access) -> Result<Region> {
    let Files {
        path,
        heap,
        journal,
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
    let heap_len = heap.len().map_err(io("ask its length"))?;
    check_journal_header(&*journal, &superblock, &text, &path)?;
    let journal_len = journal.len().map_err(io("ask its journal's length"))?;
    let found = scan(&*heap, &*journal, journal_len, &superblock, boot, &text)?;
    let end = found.tail.end;
    if heap_len < end {
        let what =
            format!("the file is cut: {heap_len} bytes are there, its last commit has {end}");
        return Err(Error::damaged(text, heap_len, what));
    }
    let mut map = Map::reserve(reserve_bytes)?;
    if end > map.len() {
        let source = io::Error::from_raw_os_error(libc::ENOMEM);
        return Err(ErrorKind::NoAddressSpace {
            wanted_bytes: end,
            source,
        }
        .into());
    }
    match heap.mappable() {
        Some(file) => map.map_private(file, 0, end).map_err(io("map it"))?,
        None => heap
            .read_at(map.slice_mut(0, end), 0)
            .map_err(io("read it"))?,
    }
    let mut pending: BTreeMap<u64, u64> = BTreeMap::new();
    for frame in &found.frames {
        let runs = journal::runs(&*journal, frame)
            .map_err(io("read its journal"))?
            .map_err(|what| Error::damaged(&text, frame.offset, what))?;
        for (run, at) in runs {
            journal
                .read_at(map.slice_mut(run.start, run.end), at)
                .map_err(io("read its journal"))?;
            for line in run.start / layout::LINE_BYTES..run.end / layout::LINE_BYTES {
                *pending.entry(line / layout::PAGE_LINES).or_default() |=
                    1 << (line % layout::PAGE_LINES);
            }
        }
    }
    let cards = Cards::new(map.len(), end)?;
    let end_max = if superblock.limit == 0 {
        map.len()
    } else {
        superblock.limit.min(map.len())
    };
    let writer = access == Access::Writer;
    if !writer {
        locks
            .end_opening(found.tail.seq)
            .map_err(io("pin the commit"))?;
    }
    let fresh_seqs = found
        .frames
        .iter()
        .filter(|f| f.has_fresh() && f.header.seq > found.testified_seq);
    let backing = Backing {
        fresh_seqs: fresh_seqs.map(|f| f.header.seq).collect(),
        time_s: found.frames.last().map_or(0, |f| f.header.time_s),
        path,
        heap,
        journal,
        locks,
        writer,
        superblock,
        tail: found.tail,
        journal_len,
        // Testimony is knowledge; and frames to come must repeat it, because they may overwrite who gave it.
        flushed_seq: found.testified_seq,
        applied_seq: found.applied_seq,
        testified_seq: found.testified_seq,
        suspects: found.frames,
        pending,
        heap_unflushed: false,
        allocated_end: 0,
        boot,
        poisoned: false,
        tail_spoiled: false,
        superblock_suspect: found.note.is_none(),
        note: found.note,
        now_s,
    };
    Ok(Region {
        map,
        cards,
        end,
        end_max,
        backing: Some(backing),
    })
}

/// The newest superblock whose checksum holds.
fn read_superblock(heap: &dyn Storage, text: &str) -> Result<Superblock> {
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

fn check_journal_header(
    journal: &dyn Storage,
    superblock: &Superblock,
    text: &str,
    path: &Path,
) -> Result<()> {
    let mut header = [0; JOURNAL_HEADER_BYTES];
    let read = journal.read_at(&mut header, 0);
    let wanted = layout::encode_journal_header(&superblock.uuid);
    match read {
        Ok(()) if header == wanted => Ok(()),
        Ok(())
            if header[..8] == layout::JOURNAL_MAGIC
                && layout::get_u32(&header, 8) != layout::FORMAT_VERSION =>
        {
            Err(ErrorKind::Version {
                path: text.into(),
                found: layout::get_u32(&header, 8),
            }
            .into())
        }
        Err(e) if e.kind() != IoKind::UnexpectedEof => Err(Error::io(text, "read its journal", e)),
        _ => {
            let journal = journal_path(path).display().to_string();
            Err(ErrorKind::JournalForeign {
                path: text.into(),
                journal,
            }
            .into())
        }
    }
}

/// What the journal says.
struct Found {
    tail: Tail,
    /// Valid frames behind `applied_seq`.
    frames: Vec<Frame>,
    applied_seq: u64,
    testified_seq: u64,
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
    let start = Tail {
        offset: FRAMES_START,
        chain: salt(&superblock.uuid, superblock.generation),
        seq: superblock.seq,
        end: superblock.end,
    };
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
        && (DATA_START..=RESERVE_BYTES_MAX).contains(&tail.end);
    if !bounds_hold {
        return Err(Error::damaged(
            text,
            NOTE_OFFSET,
            "its journal's note is out of bounds",
        ));
    }
    let applied = tail;
    let mut frames: Vec<Frame> = Vec::new();
    while let Some(frame) =
        journal::next(journal, journal_len, tail, superblock.generation).map_err(read_error)?
    {
        journal::runs(journal, &frame)
            .map_err(read_error)?
            .map_err(|what| Error::damaged(text, frame.offset, what))?;
        tail = Tail::behind(&frame);
        frames.push(frame);
    }
    if frames.is_empty() && tail == start {
        refuse_lost_superblock(journal, journal_len, superblock, text)?;
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
    frames.truncate(whole);
    let tail = frames.last().map_or(applied, Tail::behind);
    Ok(Found {
        tail,
        frames,
        applied_seq: applied.seq,
        testified_seq,
        note,
    })
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

/// Who wrote last, for a message; 0 if unknown.
fn last_writer(heap: &Path) -> u64 {
    let note = File::open(journal_path(heap)).and_then(|file| read_note(&FileStorage(file)));
    note.ok().flatten().map_or(0, |note| note.writer_pid)
}

fn open_heap_file(path: &Path, writer: bool) -> io::Result<File> {
    // O_NONBLOCK: a FIFO of that name must give an error, not a wait.
    OpenOptions::new()
        .read(true)
        .write(writer)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
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

/// Whether the file was made with `truncate` and never used: no superblock, and nothing but zeros.
fn is_blank(file: &File, text: &str) -> Result<bool> {
    let read_error = |e| Error::io(text, "read it", e);
    let len = file.metadata().map_err(read_error)?.len();
    let mut head = vec![0; DATA_START.min(len) as usize];
    file.read_exact_at(&mut head, 0).map_err(read_error)?;
    if head.iter().any(|&b| b != 0) {
        return Ok(false);
    }
    // A heap whose first pages were wiped is not blank, so the rest is looked at too. Holes read fast.
    let mut blank = true;
    let storage = FileStorage(file.try_clone().map_err(read_error)?);
    journal::for_each_chunk(&storage, 0, len, |chunk| {
        blank &= chunk.iter().all(|&b| b == 0)
    })
    .map_err(read_error)?;
    if !blank {
        return Err(Error::damaged(
            text,
            0,
            "both superblocks are wiped (zeros), but data follows",
        ));
    }
    Ok(true)
}

/// The bytes of a journal without frames. With `boot`, this boot vouches for the superblock: only where the heap will
/// not appear unless the flush of it succeeds.
fn blank_journal(uuid: &[u8; 16], boot: Option<[u8; 16]>) -> Vec<u8> {
    let mut bytes = vec![0; FRAMES_START as usize + (32 << 10)];
    bytes[..JOURNAL_HEADER_BYTES].copy_from_slice(&layout::encode_journal_header(uuid));
    if let Some(boot) = boot {
        let note = Note {
            boot,
            generation: 1,
            tail: FRAMES_START,
            chain: salt(uuid, 1),
            end: DATA_START,
            writer_pid: u64::from(std::process::id()),
            ..Note::default()
        };
        bytes[NOTE_OFFSET as usize..][..NOTE_BYTES].copy_from_slice(&note.encode());
    }
    bytes
}

/// Both copies of the first superblock, durable.
fn write_first_superblock(
    heap: &mut dyn Storage,
    uuid: [u8; 16],
    limit: u64,
    created_s: u64,
) -> io::Result<()> {
    // 64 homes a terabyte apart, far from where programs, libraries and stacks lie.
    let home = 0x1000_0000_0000 + (layout::checksum(&uuid, 0) % 64) * RESERVE_BYTES_MAX;
    let first = Superblock {
        uuid,
        generation: 1,
        seq: 0,
        end: DATA_START,
        limit,
        home,
        created_s,
    };
    heap.set_len(DATA_START)?;
    heap.write_at(&first.encode(), SUPERBLOCK_OFFSETS[1])?;
    heap.sync()?;
    heap.write_at(&first.encode(), SUPERBLOCK_OFFSETS[0])?;
    heap.sync()
}

/// Makes a heap at `path`, which does not exist, so that it appears whole or not at all. If another process is faster,
/// its heap is opened.
fn create(path: &Path, limit_bytes: u64) -> Result<File> {
    let text = path.display().to_string();
    let io = |action: &'static str| {
        let text = text.clone();
        move |e: io::Error| Error::io(text, action, e)
    };
    check_limit(limit_bytes, &text)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let folder_file = File::open(folder).map_err(io("open its folder"))?;
    let _ = folder_file.lock(); // one creator at a time; where folders cannot be locked, the rename below still decides
    match open_heap_file(path, true) {
        Ok(file) => return Ok(file),
        Err(e) if e.kind() == IoKind::NotFound => {}
        Err(e) => return Err(io("open it for writing")(e)),
    }
    let uuid = random_uuid().map_err(io("make an identity for it"))?;
    write_blank_journal(path, &uuid, Some(boot_id()))?;
    let mut draft = OsString::from(path);
    draft.push(format!(".new-{}", std::process::id()));
    let draft = PathBuf::from(draft);
    let made = (|| {
        // Never writable by others, whatever the umask: see check_file.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&draft)?;
        write_first_superblock(
            &mut FileStorage(file.try_clone()?),
            uuid,
            limit_bytes,
            clock_s(),
        )?;
        std::fs::rename(&draft, path)?;
        folder_file.sync_all()?;
        Ok(file)
    })();
    made.map_err(|e| {
        let _ = std::fs::remove_file(&draft);
        io("create it")(e)
    })
}

fn check_limit(limit_bytes: u64, text: &str) -> Result<()> {
    if limit_bytes != 0 && limit_bytes < LIMIT_BYTES_MIN {
        let why = format!(
            "{limit_bytes} bytes are too few for one; the smallest limit is {LIMIT_BYTES_MIN} bytes (truncate -s 1M)"
        );
        return Err(ErrorKind::NotAHeap {
            path: text.into(),
            why,
        }
        .into());
    }
    Ok(())
}

/// Makes a heap of a blank file: its length becomes the limit.
fn format_blank(file: &File, path: &Path) -> Result<()> {
    let text = path.display().to_string();
    let io = |e| Error::io(&text, "make a heap of the blank file", e);
    let limit = file.metadata().map_err(io)?.len() / PAGE_BYTES * PAGE_BYTES;
    check_limit(limit.max(1), &text)?;
    let uuid = random_uuid().map_err(io)?;
    write_blank_journal(path, &uuid, None)?;
    let mut storage = FileStorage(file.try_clone().map_err(io)?);
    write_first_superblock(&mut storage, uuid, limit, clock_s()).map_err(io)
}

/// Writes an empty journal beside the heap, durable. One that is there belongs to a heap that is not: it is kept.
fn write_blank_journal(heap: &Path, uuid: &[u8; 16], boot: Option<[u8; 16]>) -> Result<()> {
    let path = journal_path(heap);
    let made = (|| {
        keep_orphan(&path)?;
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&path)?;
        file.write_all_at(&blank_journal(uuid, boot), 0)?;
        file.sync_all()
    })();
    made.map_err(|e| Error::io(heap.display().to_string(), "create its journal", e))
}

fn keep_orphan(journal: &Path) -> io::Result<()> {
    let mut kept = OsString::from(journal);
    kept.push(".orphan");
    match std::fs::rename(journal, kept) {
        Err(e) if e.kind() == IoKind::NotFound => Ok(()),
        other => other,
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
        write_blank_journal(heap_path, &superblock.uuid, None)?;
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

fn random_uuid() -> io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    // SAFETY: getrandom writes at most the 16 bytes of the array.
    let got = unsafe { libc::getrandom(uuid.as_mut_ptr().cast(), uuid.len(), 0) };
    if got != uuid.len().cast_signed() {
        return Err(io::Error::last_os_error());
    }
    uuid[6] = uuid[6] & 0x0f | 0x40; // version 4, RFC 9562
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

/// Identity of this boot of the machine; zeros, which no note is believed with, where there is none.
fn boot_id() -> [u8; 16] {
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

fn clock_s() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}
