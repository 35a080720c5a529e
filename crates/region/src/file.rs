//! A program's own file as a region, so that it changes atomically: the file keeps its format, byte for byte.
//!
//! What a region has besides data lies in two files beside it, while it is in use or after a crash: `FILE.perdure`, where a heap has its
//! superblocks, and `FILE.perdure.journal`. The region's bytes from [`DATA_START`] on are the file's from 0 on. The region reaches to a
//! fixed end far behind the file's, so the file may grow and shrink as its program likes, and nothing in it is ever fresh space.
//!
//! The invariant: as long as there is a frame in the journal, both files are beside the file that it is about, and say which that is.
//! When nothing is left to replay they are removed.

use crate::backing::Backing;
use crate::by_address::ByAddress;
use crate::create::{blank_journal, write_first_superblock};
use crate::error::{Error, ErrorKind};
use crate::journal::{self, Tail};
use crate::layout::{
    self, COUNT_MAX, DATA_START, FRAMES_START, RESERVE_BYTES_MAX, SUPERBLOCK_BYTES,
};
use crate::lock::Locks;
use crate::open::{
    Access, Files, How, Verify, boot_id, clock_s, description_of_its_own, journal_path, open_on,
    read_superblock,
};
use crate::storage::{FileStorage, Storage, overwrite_in_place};
use crate::{CommitStats, Durability, Region, Result};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A region reaches this far at least, and eight times as far as its file when it was opened, so that it may grow; and never
/// further than the last.
const REACH: Range<u64> = 64 << 30..RESERVE_BYTES_MAX;
/// Another process that is just closing the file, or replaying it, is waited for.
const WAIT: Duration = Duration::from_secs(5);

/// Where the superblocks of a file's region lie: beside it, with `.perdure` appended; and its journal beside that.
fn head_path(file: &Path) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(".perdure");
    PathBuf::from(name)
}

/// A file with the superblocks of its region somewhere else.
struct Joined {
    /// Superblocks: what a heap file has before [`DATA_START`].
    head: Box<dyn Storage>,
    head_unflushed: bool,
    data: Box<dyn Storage>,
    /// The region's end.
    reach: u64,
}

impl Storage for Joined {
    fn len(&self) -> io::Result<u64> {
        Ok(self.reach)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        if offset < DATA_START {
            let of_head = buf.len().min((DATA_START - offset) as usize);
            let (head, data) = buf.split_at_mut(of_head);
            self.head.read_at(head, offset)?;
            return match data {
                [] => Ok(()),
                data => self.read_at(data, DATA_START),
            };
        }
        // Behind its end the file is as its last page in memory: zeros.
        let at = offset - DATA_START;
        let there = self.data.len()?.saturating_sub(at).min(buf.len() as u64);
        let (there, beyond) = buf.split_at_mut(there as usize);
        beyond.fill(0);
        if there.is_empty() {
            return Ok(());
        }
        self.data.read_at(there, at)
    }

    fn write_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        if offset < DATA_START {
            self.head_unflushed = true;
            return self.head.write_at(buf, offset);
        }
        // The program made the file as long as it wants it.
        let at = offset - DATA_START;
        let there = self.data.len()?.saturating_sub(at).min(buf.len() as u64);
        match there {
            0 => Ok(()),
            there => self.data.write_at(&buf[..there as usize], at),
        }
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        if len <= DATA_START {
            self.head_unflushed = true;
            self.head.set_len(len)?;
        }
        Ok(())
    }

    fn allocate(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn discard(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_back(&mut self, _range: Range<u64>, _before: Range<u64>) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.data.sync()?;
        if self.head_unflushed {
            self.head.sync()?;
            self.head_unflushed = false;
        }
        Ok(())
    }

    fn mappable(&self) -> Option<BorrowedFd<'_>> {
        self.data.mappable()
    }

    fn mapped_from(&self) -> u64 {
        DATA_START
    }

    fn present_end(&self) -> io::Result<Option<u64>> {
        Ok(Some((DATA_START + self.data.len()?).min(self.reach)))
    }

    fn version(&self) -> io::Result<Option<i128>> {
        self.data.version()
    }

    fn mark_version(&mut self) -> io::Result<Option<i128>> {
        self.data.mark_version()
    }
}

/// What the program does to its file past us: it cuts it, makes it longer, writes to it.
///
/// A file that was cut and made as long again has zeros where frames of the journal have what was committed there before. They must not be
/// replayed over that, so nothing may wait in the journal once such a change was seen and something is committed after it.
pub(crate) struct Others {
    /// The file as it was when nothing in the journal could be replayed over anything of theirs; none where there is no telling.
    version: Option<i128>,
    /// It is a version that any change of theirs would differ from, however soon it came.
    is_marked: bool,
    /// They changed it after that, and before we did.
    have_changed: bool,
}

impl Backing {
    /// Whether anybody else has changed the file, now and before each time that we do; returns as what it was found.
    pub(crate) fn look_for_others(&mut self) -> Result<Option<i128>> {
        let Some(others) = &mut self.others else {
            return Ok(None);
        };
        match self.heap.version() {
            Ok(version) => {
                others.have_changed |= version.is_none() || version != others.version;
                Ok(version)
            }
            Err(error) => Err(self.io("ask when it was changed", error)),
        }
    }

    /// After we changed it.
    pub(crate) fn mark_own_changes(&mut self) {
        if let Some(others) = &mut self.others {
            others.version = self.heap.mark_version().unwrap_or(None);
            others.is_marked = true;
        }
    }
}

impl Region {
    /// Opens a program's own `file`, which is at `path`, so that it changes atomically, having first brought it to its last commit after a
    /// crash. The file's byte at `o` is the region's at [`DATA_START`] + `o`. One process at a time.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`]; [`ErrorKind::JournalForeign`] if there are commits beside it that were made to another file of this
    /// name; those of the operating system.
    pub fn open_file(file: File, path: &Path, by_address: ByAddress) -> Result<Region> {
        let text = path.display().to_string();
        let io = |action: &'static str| {
            let text = text.clone();
            move |e: io::Error| Error::io(text, action, e)
        };
        // By whichever symbolic link it was found: there is one place beside it.
        let path = &path.canonicalize().map_err(io("find it"))?;
        let head_path = head_path(path);
        let (head, locks) = locked_head(&head_path, &text)?;
        let uuid = identity(&file).map_err(io("ask who it is"))?;
        let journal = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(journal_path(&head_path))
            .map_err(io("open its journal"))?;
        if journal.metadata().is_ok_and(|m| m.len() == 0) {
            overwrite_in_place(&journal);
        }
        let (mut head, mut journal) = (FileStorage(head), FileStorage(journal));
        let found = state(&head, &journal, &uuid).map_err(io("read what lies beside it"))?;
        let reach = match found {
            State::InUse(reach) => reach,
            State::OfAnother => {
                return Err(ErrorKind::JournalForeign {
                    path: text,
                    journal: journal_path(&head_path).display().to_string(),
                }
                .into());
            }
            State::Unused => {
                let folder = folder_of(path);
                let bytes = file.metadata().map_err(io("ask its length"))?.len();
                let reach = reach_of(bytes);
                format(&mut head, &mut journal, uuid, reach, clock_s())
                    .and_then(|()| folder?.sync_all())
                    .map_err(io("make its journal"))?;
                reach
            }
        };
        let files = Files {
            path: head_path,
            heap: Box::new(Joined {
                head: Box::new(head),
                head_unflushed: false,
                data: Box::new(FileStorage(file)),
                reach,
            }),
            journal: Box::new(journal),
            sums: None,
            locks,
            boot: boot_id(),
            now_s: clock_s,
            reserve_bytes: reach,
        };
        opened(files, by_address)
    }

    /// As [`Region::open_file`], of storages of the caller's (data, superblocks, journal), made with [`Region::format_file_on`]: for tests with
    /// simulated disks. It does not check whose journal it is.
    ///
    /// # Errors
    /// Those of the storages.
    pub fn open_file_on(
        [data, head, journal]: [Box<dyn Storage>; 3],
        by_address: ByAddress,
        boot: [u8; 16],
    ) -> Result<Region> {
        let superblock = read_superblock(&*head, "(simulated)")?;
        let files = Files {
            path: "(simulated)".into(),
            heap: Box::new(Joined {
                head,
                head_unflushed: false,
                data,
                reach: superblock.end,
            }),
            journal,
            sums: None,
            locks: Locks::none(),
            boot,
            now_s: || 0,
            reserve_bytes: superblock.end,
        };
        opened(files, by_address)
    }

    /// What [`Region::open_file`] puts beside a file that has nothing.
    ///
    /// # Errors
    /// Those of the storages.
    pub fn format_file_on(
        head: &mut dyn Storage,
        journal: &mut dyn Storage,
        uuid: [u8; 16],
    ) -> io::Result<()> {
        format(head, journal, uuid, REACH.start, 0)
    }

    /// Gives up a region that [`Region::open_file`] gave: brings all that is committed to the file, durably, and removes what lies
    /// beside it. Stores that were not committed are forgotten.
    ///
    /// # Errors
    /// As [`Region::commit`]; then what lies beside the file stays, for whoever opens it next.
    pub fn close_file(mut self) -> Result<()> {
        self.abort()?;
        if !self.checkpoint()? {
            return Ok(()); // a child of a fork
        }
        self.remove_what_lies_beside()
    }

    /// As [`Region::close_file`], and what it has in memory stays as it is until the process ends: other threads may still store there.
    ///
    /// # Errors
    /// As [`Region::close_file`].
    pub fn leave_file(self) -> Result<()> {
        let mut region = std::mem::ManuallyDrop::new(self);
        match region.checkpoint_beside_stores()? {
            true => region.remove_what_lies_beside(),
            false => Ok(()),
        }
    }

    fn remove_what_lies_beside(&self) -> Result<()> {
        let head = match &self.backing {
            Some(backing) if backing.locks.file().is_some() => backing.path.clone(),
            _ => return Ok(()),
        };
        // While the lock is held. The journal first: without it there is nothing to replay, whatever the superblocks say.
        let removed = match std::fs::remove_file(journal_path(&head)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => std::fs::remove_file(&head),
        };
        // Nothing of ours depends on it. But btrfs (Linux 6.18) may not mount after a power cut ("Failed to recover log tree: Object already exists")
        // if the next opening makes and flushes files of the same names before it has noted that these are gone.
        let _ = folder_of(&head).and_then(|folder| folder.sync_all());
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Error::io(head.display().to_string(), "remove it", e))
            }
            _ => Ok(()),
        }
    }

    /// As [`Region::commit`], durably, and at once in the file.
    ///
    /// # Errors
    /// As [`Region::commit`].
    pub fn commit_file(&mut self) -> Result<CommitStats> {
        let mut stats = CommitStats::default();
        self.heed_others(&mut stats)?;
        self.make_length_durable(&mut stats)?;
        stats.add(self.commit(Durability::Lazy)?);
        stats.add(self.make_durable()?);
        let Some(backing) = &mut self.backing else {
            return Ok(stats);
        };
        if backing.applied_seq != backing.tail.seq {
            // What waits must not be written over what they do from now on.
            let others = backing.others.as_ref();
            if others.is_some_and(|others| others.have_changed) {
                self.checkpoint_what_waits(&mut stats)?;
            } else if others.is_some_and(|others| !others.is_marked) {
                backing.mark_own_changes();
            }
        }
        Ok(stats)
    }

    /// They have changed the file while commits waited to be written back: behind the end of a file that was cut these are to be forgotten, lest they be
    /// replayed when it is longer again. Not while a child of a fork has them pinned.
    fn checkpoint_what_waits(&mut self, stats: &mut CommitStats) -> Result<()> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        if backing.apply(&self.map, self.outside.as_mut(), &self.spill, stats)?
            && backing.checkpoint_if_unread(stats)?
            && let Some(others) = &mut backing.others
        {
            others.have_changed = false;
        }
        Ok(())
    }

    /// What the journal has must not come back over what somebody else has made of the file.
    fn heed_others(&mut self, stats: &mut CommitStats) -> Result<()> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        let found = backing.look_for_others()?;
        let Some(others) = &mut backing.others else {
            return Ok(());
        };
        if others.have_changed {
            // It may have been cut and be as long as before: the medium may have any of its lengths.
            backing.durable_len = None;
        }
        if others.have_changed && backing.tail.offset != FRAMES_START {
            backing.check_writer("commit")?;
            if backing.applied_seq != backing.tail.seq {
                // It waits to be written back. What memory has of those lines now is newer, and what is behind the end is gone.
                return self.mark_what_waits();
            }
            if !backing.checkpoint_if_unread(stats)? {
                return Ok(());
            }
        }
        if backing
            .others
            .as_ref()
            .is_some_and(|others| others.have_changed)
        {
            backing.others = Some(Others {
                version: found,
                is_marked: false,
                have_changed: false,
            });
        }
        Ok(())
    }

    /// Every line that the journal has is to be committed again, as it is in memory.
    fn mark_what_waits(&mut self) -> Result<()> {
        let Some(backing) = &self.backing else {
            return Ok(());
        };
        let io = |e| backing.io("read its journal", e);
        let present = backing.heap.present_end().map_err(io)?.unwrap_or(u64::MAX);
        let (journal, mut at) = (&*backing.journal, Tail::of(&backing.superblock));
        while at.seq < backing.tail.seq {
            let frame = journal::next(
                journal,
                backing.journal_len,
                at,
                backing.superblock.generation,
            );
            let Some(frame) = frame.map_err(io)? else {
                break;
            };
            let marked = journal::for_each_run(journal, &frame, |run, _| {
                if run.start < present {
                    self.cards.mark(run.start, run.end - run.start);
                }
                Ok(())
            });
            marked
                .map_err(io)?
                .map_err(|what| io(io::Error::other(what)))?;
            at = Tail::behind(&frame);
        }
        Ok(())
    }
}

impl Region {
    /// The program made its file longer: that must arrive before a frame does, because what is replayed behind the file's end is lost.
    fn make_length_durable(&mut self, stats: &mut CommitStats) -> Result<()> {
        let Some(backing) = &mut self.backing else {
            return Ok(());
        };
        let len = backing.heap.present_end();
        let len = len.map_err(|e| Error::io(backing.path_text(), "ask its length", e))?;
        if len <= backing.durable_len {
            backing.durable_len = len; // a cut may arrive at any time
            return Ok(());
        }
        backing.check_writer("commit")?;
        backing.sync_heap(stats)?;
        backing.store_note();
        Ok(())
    }
}

fn opened(files: Files, by_address: ByAddress) -> Result<Region> {
    let mut region = open_on(files, how(by_address))?;
    if let Some(outside) = &mut region.outside {
        outside.serve_file();
    }
    // Who reads the file should see what was committed, not only who maps it.
    region.checkpoint()?;
    if let Some(backing) = &mut region.backing {
        backing.others = Some(Others {
            version: backing.heap.version().unwrap_or(None),
            is_marked: false,
            have_changed: false,
        });
    }
    Ok(region)
}

fn reach_of(file_bytes: u64) -> u64 {
    let wanted = file_bytes.saturating_mul(8).min(REACH.end);
    wanted.next_power_of_two().clamp(REACH.start, REACH.end)
}

fn how(by_address: ByAddress) -> How {
    How {
        access: Access::Writer,
        // What others did to the file before is no damage.
        verify: Verify::No,
        lost_journal: false,
        memory_budget_bytes: None,
        by_address: Some(by_address),
    }
}

fn folder_of(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))
}

/// The file of superblocks, locked for this process, and still the one that has this name.
fn locked_head(path: &Path, text: &str) -> Result<(File, Locks)> {
    let io = |action: &'static str| move |e: io::Error| Error::io(text, action, e);
    loop {
        let head = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(io("make what it needs beside it"))?;
        let own = description_of_its_own(&head, true).map_err(io("open it twice"))?;
        let locks = Locks::on(own);
        let held = locks.lock_writer(WAIT, &mut || ());
        if !held.map_err(io("lock it"))? {
            return Err(ErrorKind::Locked {
                path: text.into(),
                waited_ms: WAIT.as_millis() as u64,
                writer_pid: 0,
            }
            .into());
        }
        // Who had the lock may have removed it meanwhile.
        let named = std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
        let ours = head.metadata().map_err(io("ask who it is"))?;
        if named == Some((ours.dev(), ours.ino())) {
            return Ok((head, locks));
        }
    }
}

/// Which file it is: a copy, or another file of the same name, is another one. Not on which device: the kernel numbers those anew when it
/// starts (btrfs, loop devices, disks that are plugged in), and what lies beside the file lies in the same file system.
fn identity(file: &File) -> io::Result<[u8; 16]> {
    let meta = file.metadata()?;
    let mut facts = Vec::new();
    facts.extend(meta.ino().to_le_bytes());
    let born = meta.created().ok();
    let born = born.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    facts.extend(born.map_or(0, |d| d.as_nanos() as u64).to_le_bytes());
    let mut uuid = [0; 16];
    for (half, seed) in uuid
        .chunks_exact_mut(8)
        .zip([layout::SEED_SALT, layout::SEED_PAGE])
    {
        half.copy_from_slice(&layout::checksum(&facts, seed).to_le_bytes());
    }
    Ok(uuid)
}

/// What lies beside a file.
enum State {
    /// A region's superblocks and journal: of this file, reaching so far.
    InUse(u64),
    /// Of another, and there are commits in it.
    OfAnother,
    /// Nothing, or nothing that anybody needs.
    Unused,
}

fn state(head: &dyn Storage, journal: &dyn Storage, uuid: &[u8; 16]) -> io::Result<State> {
    let journal_bytes = journal.len()?;
    if head.len()? < SUPERBLOCK_BYTES as u64 || journal_bytes == 0 {
        return Ok(State::Unused); // not finished, or half removed
    }
    let Ok(superblock) = read_superblock(head, "") else {
        return Ok(State::Unused); // never flushed, so never used
    };
    if superblock.uuid == *uuid {
        return Ok(State::InUse(superblock.end)); // its journal may have been cut: opening says so
    }
    if journal_bytes < FRAMES_START {
        return Ok(State::Unused);
    }
    let tail = crate::journal::Tail::of(&superblock);
    let first = crate::journal::next(journal, journal.len()?, tail, superblock.generation)?;
    Ok(match first {
        Some(_) if superblock.generation < COUNT_MAX => State::OfAnother,
        _ => State::Unused,
    })
}

fn format(
    head: &mut dyn Storage,
    journal: &mut dyn Storage,
    uuid: [u8; 16],
    reach: u64,
    created_s: u64,
) -> io::Result<()> {
    // Whatever was there must not come back: first that there is nothing, then a beginning.
    head.set_len(0)?;
    head.sync()?;
    journal.set_len(0)?;
    journal.write_at(&blank_journal(&uuid, None), 0)?;
    journal.sync()?;
    write_first_superblock(head, uuid, reach, 0, created_s)
}
