//! Programs that store by address, past [`Region`]: C and C++.
//!
//! Their stores become known in two ways: they are marked (`marks.rs`: by code that a compiler put before each), or the kernel names the
//! pages that were written to (`written.rs`), and lines of those that differ from the committed image are marked here. Either suffices where it is
//! complete; both at once is *verify mode*: what was stored and not marked is committed all the same, and counted.
//!
//! The invariant: once a commit has returned nothing of it is read from the working copy any more: what is written back comes from
//! copies of its pages, or where there are only marks from the journal. So whatever the program stores afterwards, or stored unseen,
//! the heap file and its journal agree with each other.

use crate::backing::Backing;
use crate::cards::{Cards, DirtyPage};
use crate::dax::Media;
use crate::layout::{DATA_START, LINE_BYTES, PAGE_BYTES, PAGE_LINES};
use crate::map::Map;
use crate::pages::PageNotes;
use crate::private::{Private, without};
use crate::watch::Watches;
use crate::written::{Way, Written};
use crate::{Error, ErrorKind, Region, Result};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;

/// How the stores of a program become known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Tracking {
    /// The kernel's pages, compared with the committed image: for programs that mark nothing.
    #[default]
    Pages,
    /// Marks alone: for programs of which each store is marked. What is not marked is lost.
    Lines,
    /// Marks, and the kernel's pages to verify them.
    Both,
}

/// Where a region lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// At the heap's home, the same address in every process: data may hold raw pointers into the heap.
    #[default]
    Home,
    /// At some home, not always the same: where instrumented code looks for marks.
    Arena,
    /// At this address, a multiple of the page.
    At(u64),
    /// Wherever there is room.
    Anywhere,
}

/// A program stores to the region by address: see [`crate::Options::by_address`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByAddress {
    pub tracking: Tracking,
    pub place: Place,
    pub media: Media,
}

/// Lines that were stored to without a mark, found by comparison in verify mode: marks alone would have lost them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// How many, over all commits.
    pub lines: u64,
    /// Of the first different ones, the offset of the first byte that had changed.
    pub offsets: Vec<u64>,
    /// What stored to some of those lines, where that was watched ([`Region::watch_missed_stores`]): the line's offset, and the address of the
    /// instruction behind the one that stored.
    pub instructions: Vec<(u64, u64)>,
}

impl Missed {
    /// `lines` of a page were stored to and not marked: it is `now`, and was committed as `image`.
    fn note(&mut self, page: u64, lines: u64, now: &[u8], image: &[u8]) {
        self.lines += u64::from(lines.count_ones());
        let places = (DirtyPage { page, lines }).runs();
        let room = OFFSETS_KEPT.saturating_sub(self.offsets.len());
        let first_changed = |line: u64| first_changed(line, now, image);
        let line_of = |offset: u64| offset / LINE_BYTES;
        let lines = places.flat_map(|run| run.step_by(LINE_BYTES as usize));
        let is_new = |line: &u64| self.offsets.iter().all(|&at| line_of(at) != line_of(*line));
        let new: Vec<u64> = match room {
            0 => Vec::new(),
            room => lines.filter(is_new).take(room).collect(),
        };
        self.offsets.extend(new.into_iter().map(first_changed));
    }
}

/// The first byte from the beginning of a line on in which its page, which is `now`, differs from its image.
fn first_changed(line: u64, now: &[u8], image: &[u8]) -> u64 {
    let start = line / PAGE_BYTES * PAGE_BYTES;
    let mut bytes = (line - start) as usize..PAGE_BYTES as usize;
    let found = bytes.find(|&at| now[at] != image[at]);
    found.map_or(line, |at| start + at as u64)
}

impl Missed {
    /// Notes what stored to these lines of a page, if that was watched; else they are watched from now on.
    fn note_instructions(
        &mut self,
        watches: &mut Watches,
        dirty: DirtyPage,
        now: &[u8],
        image: &[u8],
    ) {
        for line in dirty
            .runs()
            .flat_map(|run| run.step_by(LINE_BYTES as usize))
        {
            if self.instructions.iter().any(|&(known, _)| known == line) {
                continue;
            }
            let found = watches
                .stored_to(line)
                .map(|instruction| (line, instruction));
            let before = self.instructions.len();
            self.instructions.extend(found);
            if self.instructions.len() > before {
                watches.forget(line);
            } else if before < OFFSETS_KEPT {
                watches.want(first_changed(line, now, image));
            }
        }
    }
}

/// How many places are remembered for people.
const OFFSETS_KEPT: usize = 64;
/// In the private way pages that stay private are compared at each commit: more than this many (256 KiB) are dropped.
const PRIVATE_PAGES_COMPARED: usize = 64;
/// Buffers for copies of pages kept for the next commit: 4 MiB.
const BUFFERS_KEPT: usize = 1024;

pub(crate) type Page = Box<[u8; PAGE_BYTES as usize]>;

/// What a region keeps for a program that stores by address.
pub(crate) struct Outside {
    tracking: Tracking,
    written: Written,
    /// Something may have been stored that nobody marked, also where only marks are looked at.
    unseen: bool,
    /// It was so at the last commit, and will be again: what the kernel names is kept small.
    was_unseen: bool,
    /// It was so once.
    ever_unseen: bool,
    /// In the private way: pages that the kernel named when it was asked last, until they are given back.
    private_seen: usize,
    /// It is a file of the program's own, and who reads it sees what was committed last.
    is_read: bool,
    /// Threads may store while another one commits: what is compared must be what is committed. See [`Outside::serve_file`].
    stores_go_on: bool,
    /// Then: pages with marks as they were compared.
    seen: BTreeMap<u64, Page>,
    /// And whether there was no other thread before they were; asked only where pages are to be dropped.
    is_alone: bool,
    /// The pages that the heap file does not hold yet as they were committed, as they were committed.
    committed: BTreeMap<u64, Page>,
    buffers: Vec<Page>,
    missed: Missed,
    pub(crate) private: Private,
    /// See [`Outside::is_to_settle`].
    settled_at: u64,
    /// Where somebody wants to know what stores without a mark.
    watches: Option<Watches>,
}

impl Outside {
    pub(crate) fn new(tracking: Tracking, budget_bytes: Option<u64>) -> Result<Outside> {
        // Marks alone: the kernel is asked only if something unseen happened, so storing should cost nothing.
        let way = match tracking {
            Tracking::Lines => Way::Private,
            Tracking::Pages | Tracking::Both => Way::Armed,
        };
        Ok(Outside {
            tracking,
            written: Written::new(way).map_err(|source| ErrorKind::NoPageTracking { source })?,
            unseen: false,
            was_unseen: false,
            ever_unseen: false,
            private_seen: 0,
            is_read: false,
            stores_go_on: false,
            seen: BTreeMap::new(),
            is_alone: false,
            committed: BTreeMap::new(),
            buffers: Vec::new(),
            missed: Missed::default(),
            private: Private::new(budget_bytes),
            settled_at: 0,
            watches: None,
        })
    }

    /// The region is a file of the program's own. From now on threads may store while another one commits, if pages alone are tracked: what they store is in that commit or in the next. A
    /// page that the kernel has named is named again if it is stored to afterwards; so of each a copy is taken, and that is compared and committed.
    pub(crate) fn serve_file(&mut self) {
        self.is_read = true;
        self.stores_go_on = self.tracking == Tracking::Pages;
    }

    /// Whether private pages may be dropped once the heap file holds what they do: not if somebody may have stored to them since they were compared.
    pub(crate) fn may_drop_pages(&self) -> bool {
        !self.stores_go_on || self.is_alone
    }

    /// What was replayed from the journal is in the working copy only, which nobody has stored to yet.
    pub(crate) fn begin(&mut self, map: &Map, pending: &mut PageNotes) {
        let pages = pending.in_order().iter();
        let dirty: Vec<DirtyPage> = pages
            .map(|&(page, lines)| DirtyPage { page, lines })
            .collect();
        if !self.keeps_copies() {
            self.private.note_stored(&dirty);
            return;
        }
        let copies = self.copy(map, &dirty);
        self.is_committed(&dirty, copies);
    }

    pub(crate) fn watch(&mut self, map: &Map, range: Range<u64>) -> io::Result<()> {
        self.written.watch(map, range)
    }

    /// In a process that was split off: what watched the parent's pages does not watch the child's.
    pub(crate) fn become_child(&mut self) {
        self.written.stop_watching();
        if let Some(watches) = &mut self.watches {
            watches.become_child();
        }
    }

    /// What was stored to `range` so far is known otherwise.
    pub(crate) fn watch_from_now(&mut self, map: &Map, range: Range<u64>) -> io::Result<()> {
        match self.written.way() {
            Way::Armed => self.written.for_each(map, range, &mut |_| ()),
            Way::Private => Ok(()),
        }
    }

    /// Pages of memory that is not the file's which hold anything.
    pub(crate) fn private_pages(
        &mut self,
        map: &Map,
        range: Range<u64>,
        note: &mut dyn FnMut(Range<u64>),
    ) -> io::Result<()> {
        self.written.for_each_private(map, range, note)
    }

    /// Whether the kernel is asked at the next commit.
    fn asks(&self) -> bool {
        self.unseen || self.tracking != Tracking::Lines
    }

    /// Whether pages are copied when they are committed, because later stores are found by comparison with them. Then every
    /// store is seen, so what a page holds is what was committed of it and its sum can be told.
    pub(crate) fn keeps_copies(&self) -> bool {
        self.tracking != Tracking::Lines
    }

    /// Whether lines that change again and again may wait to be written to the heap file. What waits cannot be dropped from memory, and where the kernel
    /// names all private pages, each is compared by a commit that asks it.
    pub(crate) fn is_applied_late(&mut self) -> bool {
        let names_few = match self.tracking {
            Tracking::Lines => !self.was_unseen && !self.sees_many(),
            Tracking::Pages | Tracking::Both => self.written.way() == Way::Armed,
        };
        names_few && !self.is_read && !self.private.has_many()
    }

    /// Whether fresh space that was committed stays as it is: then it does. Where the kernel is asked it names each of its pages.
    pub(crate) fn keep_growth(&mut self, fresh: &Range<u64>, blank: u64) -> bool {
        !self.keeps_copies() && !self.ever_unseen && self.private.keep_growth(fresh, blank)
    }

    /// What was stored since the last commit is forgotten.
    pub(crate) fn is_undone(&mut self) {
        self.unseen = false;
    }

    /// Drops what the heap file holds too, but for the pages in `kept`, which are in ascending order; if the kernel named many, growth that stayed
    /// where it was made as well.
    pub(crate) fn give_back(
        &mut self,
        map: &mut Map,
        backing: &mut Backing,
        kept: &[DirtyPage],
        end: u64,
    ) -> Result<()> {
        let all = self.sees_many();
        self.private_seen = 0;
        self.private.give_back(map, backing, kept, end, all)
    }

    /// Whether a lazy commit is to bring all to the heap file, so that memory can be given back: when the journal's end is at `tail`.
    pub(crate) fn is_to_settle(&mut self, tail: u64) -> bool {
        let is_due =
            tail.abs_diff(self.settled_at) >= SETTLED_EVERY_BYTES && self.private.has_many();
        if is_due {
            self.settled_at = tail;
        }
        is_due
    }

    /// Whether pages should be dropped as soon as the heap file holds them.
    pub(crate) fn holds_many(&mut self) -> bool {
        self.private.has_many() || self.sees_many()
    }

    /// Whether the kernel named more private pages than are worth comparing at the next commit again.
    pub(crate) fn sees_many(&self) -> bool {
        self.private_seen > PRIVATE_PAGES_COMPARED
    }

    /// Marks the lines below `end` that the kernel knows of and nobody marked.
    fn see(&mut self, map: &Map, cards: &mut Cards, backing: &mut Backing) -> io::Result<()> {
        let end = backing.committed_end();
        let end = backing
            .heap
            .present_end()?
            .map_or(end, |present| end.min(present.next_multiple_of(PAGE_BYTES)));
        if self.stores_go_on {
            let may_drop = self.written.way() == Way::Private || self.private.has_many();
            self.is_alone = may_drop && has_one_thread();
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        let note = &mut |run: Range<u64>| runs.push(run);
        let named = self.written.for_each(map, DATA_START..end, note);
        let compared = named.and_then(|()| self.compare(map, cards, backing, &mut runs, end));
        if compared.is_err() {
            // The kernel says it once only.
            for run in &runs {
                cards.mark(run.start, run.end - run.start);
            }
        }
        compared
    }

    /// Marks what was stored in `runs` below `end`, which are the pages that the kernel named.
    fn compare(
        &mut self,
        map: &Map,
        cards: &mut Cards,
        backing: &mut Backing,
        runs: &mut Vec<Range<u64>>,
        end: u64,
    ) -> io::Result<()> {
        // Where it is known that something could not be marked, marks alone would have asked the kernel, too: nothing was missed.
        let counts = self.tracking == Tracking::Both && !self.unseen;
        if self.stores_go_on {
            for (_, page) in std::mem::take(&mut self.seen) {
                self.keep(page);
            }
            // A commit that failed has left marks: what they stand for may have been stored to again.
            let marked = cards.dirty();
            let starts = marked.iter().map(|dirty| dirty.page * PAGE_BYTES);
            runs.extend(
                starts
                    .filter(|&start| start < end)
                    .map(|start| start..start + PAGE_BYTES),
            );
            *runs = merged(std::mem::take(runs));
        }
        if self.written.way() == Way::Private {
            let named: u64 = runs.iter().map(|run| run.end - run.start).sum();
            self.private_seen = (named / PAGE_BYTES) as usize;
        }
        let waiting = match self.keeps_copies() {
            true => HashMap::new(),
            false => backing.unapplied_by_page(runs),
        };
        let mut image_of_journal = [0; PAGE_BYTES as usize];
        let mut buffer = Vec::new();
        for run in runs.iter() {
            for start in run.clone().step_by(COMPARED_BYTES as usize) {
                let piece = start..(start + COMPARED_BYTES).min(run.end);
                buffer.resize((piece.end - piece.start) as usize, 0);
                backing.heap.read_at(&mut buffer, piece.start)?;
                for (page, of_file) in (piece.start / PAGE_BYTES..).zip(buffer.as_chunks().0) {
                    // Where its space was given back the medium may not have what the file shows. What was committed of lines that the file
                    // does not hold yet is in a copy, or in the journal; where neither is at hand they are taken for stored to.
                    let (image, unknown) = match (self.committed.get(&page), waiting.get(&page)) {
                        _ if backing.is_hollow(page)? => (of_file, u64::MAX),
                        (Some(copy), _) => (&**copy, 0),
                        (None, Some(parts)) => {
                            image_of_journal.copy_from_slice(of_file);
                            backing.overlay(&mut image_of_journal, parts)?;
                            (&image_of_journal, 0)
                        }
                        (None, None) => (of_file, backing.pending.of(page).unwrap_or(0)),
                    };
                    let taken = match self.stores_go_on {
                        true => {
                            let mut copy = buffer_for_page(&mut self.buffers);
                            map.copy_while_stored_to(page * PAGE_BYTES, &mut copy);
                            Some(copy)
                        }
                        false => None,
                    };
                    let now = match &taken {
                        Some(copy) => &copy[..],
                        None => map.slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES),
                    };
                    let stored = (differing_lines(now, image) | unknown) & !cards.lines_of(page);
                    let lines = stored;
                    for run in (DirtyPage { page, lines }).runs() {
                        cards.mark(run.start, run.end - run.start);
                    }
                    if counts {
                        // Of lines that are only taken for stored to, nobody missed any.
                        let lines = stored & !unknown;
                        self.missed.note(page, lines, now, image);
                        if let Some(watches) = &mut self.watches {
                            let dirty = DirtyPage { page, lines };
                            self.missed.note_instructions(watches, dirty, now, image);
                        }
                    }
                    match taken {
                        Some(copy) if cards.lines_of(page) != 0 => {
                            self.seen.insert(page, copy);
                        }
                        Some(copy) => self.buffers.push(copy),
                        None => {}
                    }
                }
            }
        }
        if let Some(watches) = &mut self.watches {
            watches.begin(map.base() as u64);
        }
        Ok(())
    }

    /// Of pages with marks leaves those that were compared, where stores go on, and returns the others: they were marked since.
    pub(crate) fn leave_compared(&self, dirty: &mut Vec<DirtyPage>) -> Vec<DirtyPage> {
        if !self.stores_go_on {
            return Vec::new();
        }
        let since = |dirty: &mut DirtyPage| !self.seen.contains_key(&dirty.page);
        dirty.extract_if(.., since).collect()
    }

    /// Copies of pages as they are now, or as they were compared.
    pub(crate) fn copy(&mut self, map: &Map, dirty: &[DirtyPage]) -> Vec<Page> {
        let copy = |dirty: &DirtyPage| {
            if let Some(page) = self.seen.remove(&dirty.page) {
                return page;
            }
            let start = dirty.page * PAGE_BYTES;
            let mut page = buffer_for_page(&mut self.buffers);
            page.copy_from_slice(map.slice(start, start + PAGE_BYTES));
            page
        };
        dirty.iter().map(copy).collect()
    }

    /// In verify mode: whether anything was stored below `end` since [`Outside::see`] looked, while copies were taken; the first place.
    /// What the kernel said by this is said once only, so all that may have been stored is marked.
    pub(crate) fn check_nothing_stored(
        &mut self,
        map: &Map,
        cards: &mut Cards,
        end: u64,
    ) -> io::Result<Option<u64>> {
        if self.tracking != Tracking::Both || self.written.way() != Way::Armed {
            return Ok(None);
        }
        let mut first = None;
        let note = &mut |run: Range<u64>| {
            first.get_or_insert(run.start);
            cards.mark(run.start, run.end - run.start);
        };
        self.written.for_each(map, DATA_START..end, note)?;
        Ok(first)
    }

    /// The commit that these pages were copied for has happened.
    pub(crate) fn is_committed(&mut self, dirty: &[DirtyPage], copies: Vec<Page>) {
        self.was_unseen = self.unseen;
        self.ever_unseen |= self.unseen;
        self.unseen = false;
        self.private.note_stored(dirty);
        for (dirty, copy) in dirty.iter().zip(copies) {
            if let Some(before) = self.committed.insert(dirty.page, copy) {
                self.keep(before);
            }
        }
    }

    /// The heap file holds all that is committed.
    pub(crate) fn is_applied(&mut self) {
        for (_, page) in std::mem::take(&mut self.committed) {
            self.keep(page);
        }
    }

    pub(crate) fn keep(&mut self, page: Page) {
        if self.buffers.len() < BUFFERS_KEPT {
            self.buffers.push(page);
        }
    }

    /// A page that is committed and not in the heap file yet.
    pub(crate) fn committed(&self, page: u64) -> Option<&Page> {
        self.committed.get(&page)
    }
}

fn buffer_for_page(kept: &mut Vec<Page>) -> Page {
    match kept.pop() {
        Some(page) => page,
        None => Box::new([0; PAGE_BYTES as usize]),
    }
}

/// In ascending order, and none of a page that is in another.
fn merged(mut runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
    runs.sort_unstable_by_key(|run| run.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => merged.push(run),
        }
    }
    merged
}

/// Whether nobody but the thread that asks can store to memory of this process: the folder has an entry for each thread.
fn has_one_thread() -> bool {
    std::fs::metadata("/proc/self/task").is_ok_and(|folder| folder.nlink() == 3)
}

/// A lazy commit does what a durable one does no more often than that, for want of memory.
const SETTLED_EVERY_BYTES: u64 = 4 << 20;
/// So much of the heap file is read at a time to be compared.
const COMPARED_BYTES: u64 = 256 << 10;

/// The lines in which two pages differ.
fn differing_lines(now: &[u8], image: &[u8; PAGE_BYTES as usize]) -> u64 {
    if now == image {
        return 0;
    }
    let lines = now.as_chunks::<{ LINE_BYTES as usize }>().0;
    let others = image.as_chunks::<{ LINE_BYTES as usize }>().0;
    let mut differing = 0;
    for (i, (line, other)) in lines.iter().zip(others).enumerate() {
        differing |= u64::from(line != other) << i;
    }
    differing
}

impl Region {
    /// Nobody reads the program's own file but through the region's memory while it is open: it is written back late, as heaps are.
    pub fn keep_file_private(&mut self) {
        if let Some(outside) = &mut self.outside {
            outside.is_read = false;
        }
    }

    /// Where the region lies in memory: the byte at offset `o` at this address + `o`. For programs that store by address.
    pub fn address(&self) -> usize {
        self.map.base() as usize
    }

    /// Bytes of address space from [`Region::address`] on that are the region's; it may grow up to them.
    pub fn reserved_bytes(&self) -> u64 {
        self.map.len()
    }

    /// Something may have been stored since the last commit that was not marked: the next commit asks the kernel too.
    pub fn note_unseen_stores(&mut self) {
        if let Some(outside) = &mut self.outside {
            outside.unseen = true;
        }
    }

    /// What was stored without a mark, in verify mode, over the life of this handle.
    pub fn missed(&self) -> Missed {
        let outside = self.outside.as_ref();
        outside.map_or_else(Missed::default, |outside| outside.missed.clone())
    }

    /// In verify mode: from now on finds out, where it can, which instructions store without a mark to lines of which some were missed before. Costs a
    /// microsecond or two for each store to one of the four places that are watched.
    pub fn watch_missed_stores(&mut self) {
        if let Some(outside) = &mut self.outside
            && outside.tracking == Tracking::Both
        {
            outside.watches.get_or_insert_default();
        }
    }

    /// Marks what was stored and is not marked yet. To be called before anything is concluded from cards.
    pub(crate) fn see_stores(&mut self) -> Result<()> {
        let (Some(outside), Some(backing)) = (&mut self.outside, &mut self.backing) else {
            return Ok(());
        };
        if !outside.asks() {
            return Ok(());
        }
        outside
            .see(&self.map, &mut self.cards, backing)
            .map_err(|e| Error::io(backing.path_text(), "find out what was stored", e))
    }

    /// The pages that hold anything that is not committed, for going back: without comparing.
    pub(crate) fn stored_pages(&mut self) -> Result<Vec<DirtyPage>> {
        let mut dirty = self.cards.dirty();
        let (Some(outside), Some(backing)) = (&mut self.outside, &self.backing) else {
            return Ok(dirty);
        };
        // Marks alone may have missed something; to go back costs the same. Of growth that stayed where it was, though, all pages would be named.
        let committed = DATA_START..backing.committed_end();
        let parts = match outside.asks() {
            true => [committed.clone(), 0..0],
            false => without(committed, outside.private.grown()),
        };
        let note = &mut |run: Range<u64>| {
            let pages = run.start / PAGE_BYTES..run.end / PAGE_BYTES;
            dirty.extend(pages.map(|page| DirtyPage {
                page,
                lines: u64::MAX,
            }));
        };
        for part in parts {
            let named = outside.written.for_each(&self.map, part, note);
            named.map_err(|e| Error::io(backing.path_text(), "find out what was stored", e))?;
        }
        dirty.sort_unstable_by_key(|dirty| (dirty.page, u64::MAX - dirty.lines));
        dirty.dedup_by_key(|dirty| dirty.page);
        Ok(dirty)
    }
}

const _: () = assert!(PAGE_LINES == 64, "a page's lines are one mask");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Durability, Options};

    /// Where only marks are looked at and a program does something unseen at each commit, what the kernel names must stay small: each of its pages is
    /// compared with the file.
    #[test]
    fn unseen_stores_again_and_again_are_committed_and_few_pages_stay_private() {
        const PAGES: u64 = 1000;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.heap");
        let options = || Options {
            by_address: Some(ByAddress {
                tracking: Tracking::Lines,
                place: Place::Anywhere,
                ..ByAddress::default()
            }),
            create: true,
            ..Options::writer()
        };
        let mut region = Region::open(&path, options()).unwrap();
        let start = region.extend(PAGES * PAGE_BYTES).unwrap();
        let store = |region: &Region, page: u64, value: u8, is_marked: bool| {
            let address = region.address() + (start + page * PAGE_BYTES) as usize;
            if is_marked {
                crate::mark_address(address, 1);
            }
            // SAFETY: in bounds of the region, which nothing borrows.
            unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write(value) };
        };
        region.commit(Durability::Durable).unwrap();
        for page in 0..PAGES {
            store(&region, page, 1, true);
        }
        region.commit(Durability::Durable).unwrap();
        let waits = |region: &Region| !region.backing.as_ref().unwrap().pending.is_empty();
        assert!(waits(&region));
        for round in 2..6 {
            region.note_unseen_stores();
            store(&region, u64::from(round), round, false);
            region.commit(Durability::Durable).unwrap();
            assert!(!waits(&region));
        }
        let named = region.outside.as_ref().unwrap().private_seen;
        assert!(named <= PRIVATE_PAGES_COMPARED, "{named}");
        drop(region);
        let region = Region::open(&path, Options::snapshot()).unwrap();
        for round in 2..6 {
            let found = region.bytes(start + u64::from(round) * PAGE_BYTES, 1);
            assert_eq!(found.unwrap()[0], round);
        }
    }
}
