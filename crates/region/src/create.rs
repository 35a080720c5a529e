//! Making a heap: where there is no file, and of a blank file made with `truncate`.
//!
//! The invariant: a heap appears whole or not at all, and nothing that was there is overwritten.

use crate::Result;
use crate::error::{Error, ErrorKind};
use crate::journal;
use crate::layout::{
    self, DATA_START, FRAMES_START, JOURNAL_BYTES_MIN, JOURNAL_HEADER_BYTES, NOTE_BYTES,
    NOTE_OFFSET, Note, PAGE_BYTES, SUPERBLOCK_OFFSETS, Superblock, salt,
};
use crate::map::Map;
use crate::open::{LIMIT_BYTES_MIN, boot_id, clock_s, journal_path, open_heap_file};
use crate::storage::{FileStorage, Storage, overwrite_in_place};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind as IoKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Whether the file was made with `truncate` and never used: no superblock, and nothing but zeros.
pub(crate) fn is_blank(file: &File, text: &str) -> Result<bool> {
    let read_error = |e| Error::io(text, "read it", e);
    let len = file.metadata().map_err(read_error)?.len();
    let mut head = vec![0; DATA_START.min(len) as usize];
    file.read_exact_at(&mut head, 0).map_err(read_error)?;
    if head.iter().any(|&b| b != 0) {
        return Ok(false);
    }
    // A heap whose first pages were wiped is not blank, so the rest is looked at too; not the holes: there may be a
    // terabyte of them.
    let mut blank = true;
    let storage = FileStorage(file.try_clone().map_err(read_error)?);
    let mut at = 0;
    while blank && let Some(start) = storage.seek(at, libc::SEEK_DATA).map_err(read_error)? {
        let end = storage.seek(start, libc::SEEK_HOLE).map_err(read_error)?;
        at = end.unwrap_or(len).clamp(start + 1, len.max(start + 1));
        journal::for_each_chunk(
            &storage,
            start,
            at.min(len).saturating_sub(start),
            |chunk| blank &= chunk.iter().all(|&b| b == 0),
        )
        .map_err(read_error)?;
    }
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
pub(crate) fn blank_journal(uuid: &[u8; 16], boot: Option<[u8; 16]>) -> Vec<u8> {
    let mut bytes = vec![0; JOURNAL_BYTES_MIN as usize];
    bytes[..JOURNAL_HEADER_BYTES].copy_from_slice(&layout::encode_journal_header(uuid));
    if let Some(boot) = boot {
        let note = Note {
            boot,
            generation: 1,
            tail: FRAMES_START,
            chain: salt(uuid, 1),
            end: DATA_START,
            ..Note::default()
        };
        bytes[NOTE_OFFSET as usize..][..NOTE_BYTES].copy_from_slice(&note.encode());
    }
    bytes
}

/// Both copies of the first superblock, durable.
pub(crate) fn write_first_superblock(
    heap: &mut dyn Storage,
    uuid: [u8; 16],
    end: u64,
    limit: u64,
    created_s: u64,
) -> io::Result<()> {
    let first = Superblock {
        uuid,
        generation: 1,
        seq: 0,
        end,
        limit,
        home: layout::home_of(&uuid),
        created_s,
    };
    // The length follows the first copy: of a blank file it is the limit, which must not be lost in between.
    heap.write_at(&first.encode(), SUPERBLOCK_OFFSETS[1])?;
    heap.sync()?;
    heap.set_len(DATA_START)?;
    heap.write_at(&first.encode(), SUPERBLOCK_OFFSETS[0])?;
    heap.sync()
}

/// Makes a heap at `path`, which does not exist, so that it appears whole or not at all. If another process is faster,
/// its heap is opened.
pub(crate) fn create(path: &Path, limit_bytes: u64) -> Result<File> {
    let text = path.display().to_string();
    let io = |action: &'static str| {
        let text = text.clone();
        move |e: io::Error| Error::creation(text, action, e)
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
        Err(e) => return Err(Error::io(text, "open it for writing", e)),
    }
    let uuid = new_uuid().map_err(io("make an identity for it"))?;
    write_blank_journal(path, &uuid, Some(boot_id()), OldJournal::Refuse)?;
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
            DATA_START,
            limit_bytes,
            clock_s(),
        )?;
        std::fs::rename(&draft, path)?;
        folder_file.sync_all()?;
        Ok(file)
    })();
    made.map_err(|e| {
        let _ = std::fs::remove_file(&draft);
        let _ = std::fs::remove_file(journal_path(path)); // of a heap that did not come to be
        io("create it")(e)
    })
}

fn check_limit(limit_bytes: u64, text: &str) -> Result<()> {
    if limit_bytes != 0 && limit_bytes < LIMIT_BYTES_MIN {
        let why = format!(
            "with a limit of {limit_bytes} bytes it could not be made one; the smallest is {LIMIT_BYTES_MIN} bytes (1M)"
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
pub(crate) fn format_blank(file: &File, path: &Path) -> Result<()> {
    let text = path.display().to_string();
    let io = |e| Error::creation(&text, "make a heap of the blank file", e);
    let len = file.metadata().map_err(io)?.len();
    check_limit(len, &text)?;
    let limit = len / PAGE_BYTES * PAGE_BYTES;
    let uuid = new_uuid().map_err(io)?;
    write_blank_journal(path, &uuid, None, OldJournal::Refuse)?;
    let mut storage = FileStorage(file.try_clone().map_err(io)?);
    write_first_superblock(&mut storage, uuid, DATA_START, limit, clock_s()).map_err(io)
}

/// What [`write_blank_journal`] does with a journal that is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OldJournal {
    /// There should be none, so it belongs to a heap that is not here: an error, unless it is blank.
    Refuse,
    /// It is lost to its heap: kept under another name.
    Keep,
}

/// Writes an empty journal beside the heap, durable.
pub(crate) fn write_blank_journal(
    heap: &Path,
    uuid: &[u8; 16],
    boot: Option<[u8; 16]>,
    old: OldJournal,
) -> Result<()> {
    let path = journal_path(heap);
    let text = heap.display().to_string();
    let io = |e| Error::creation(&text, "create its journal", e);
    match old {
        OldJournal::Keep => keep_orphan(&path).map_err(io)?,
        OldJournal::Refuse if is_of_another_heap(&path).map_err(io)? => {
            return Err(ErrorKind::HeapMissing {
                path: text,
                journal: path.display().to_string(),
            }
            .into());
        }
        OldJournal::Refuse => match std::fs::remove_file(&path) {
            Err(e) if e.kind() != IoKind::NotFound => return Err(io(e)),
            _ => {}
        },
    }
    let mut file = OpenOptions::new();
    let file = file.write(true).create_new(true).mode(0o644).open(&path);
    let file = file.map_err(io)?;
    overwrite_in_place(&file);
    let written = file.write_all_at(&blank_journal(uuid, boot), 0);
    written.and_then(|()| file.sync_all()).map_err(|e| {
        let _ = std::fs::remove_file(&path); // half a journal, of a heap that does not come to be
        io(e)
    })
}

/// Whether there is a journal, and its heap has been in use: whoever loses such a heap does not want an empty one in its place.
/// A blank journal is what a creation leaves that was interrupted, or for which the disk had no room.
pub(crate) fn is_of_another_heap(journal: &Path) -> io::Result<bool> {
    // O_NONBLOCK: not to wait for a FIFO of that name.
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = match opened.open(journal) {
        Err(e) if e.kind() == IoKind::NotFound => return Ok(false),
        opened => opened?,
    };
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Ok(true);
    }
    let mut head = vec![0; FRAMES_START.min(meta.len()) as usize];
    file.read_exact_at(&mut head, 0)?;
    head.resize(FRAMES_START as usize, 0);
    let is_header = head[..8] == layout::JOURNAL_MAGIC || head[..JOURNAL_HEADER_BYTES] == [0; 48];
    let note = head[NOTE_OFFSET as usize..].first_chunk();
    let was_in_use = note
        .and_then(Note::decode)
        .is_some_and(|note| note.generation > 1 || note.applied_seq > 0);
    if !is_header || was_in_use {
        return Ok(true);
    }
    // Frames are overwritten, never wiped, so the first sector of a journal that has been in use is not blank.
    let mut first = vec![0; layout::SECTOR_BYTES as usize];
    match file.read_exact_at(&mut first, FRAMES_START) {
        Err(e) if e.kind() == IoKind::UnexpectedEof => Ok(false),
        read => read.map(|()| first.iter().any(|&b| b != 0)),
    }
}

/// Moves a journal out of the way, to the first free of `.orphan`, `.orphan.1`, ...: it may be all that is left of somebody's
/// data, so it overwrites nothing. The caller holds the heap's lock or is about to make the heap.
fn keep_orphan(journal: &Path) -> io::Result<()> {
    for n in 0..1000 {
        let mut kept = OsString::from(journal);
        kept.push(".orphan");
        if n > 0 {
            kept.push(format!(".{n}"));
        }
        if std::fs::symlink_metadata(&kept).is_ok() {
            continue;
        }
        return match std::fs::rename(journal, kept) {
            Err(e) if e.kind() == IoKind::NotFound => Ok(()),
            other => other,
        };
    }
    Err(io::Error::other(
        "a thousand journals are kept as .orphan already; remove some",
    ))
}

/// An identity of which the home is not taken in this process.
fn new_uuid() -> io::Result<[u8; 16]> {
    let mut uuid = random_uuid()?;
    for _ in 0..64 {
        if Map::reserve_at(layout::home_of(&uuid), layout::arena::HOME_STEP).is_ok() {
            break;
        }
        uuid = random_uuid()?;
    }
    Ok(uuid)
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
