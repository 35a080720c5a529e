//! What each page of the heap file should hold: a sum per page, so that bytes that changed by themselves are found.
//!
//! Frames carry the sums of the pages that they change or make; at a checkpoint these go into `HEAP.sums`. So the expected
//! sum of a page is that of the last frame since the checkpoint that touched it, else the file's. Nothing depends on
//! the file for recovery: without it, or with one that does not belong to this checkpoint, sums are "not known".
//!
//! The invariant: an entry of the file is wrong only for pages that a frame of the journal names (which overrides it).
//! That is why the file is flushed before the superblock that recycles those frames.

use crate::layout::{
    PAGE_BYTES, SUM_BYTES, SUM_OWED, SUMS_HEADER_BYTES, SUMS_START, Superblock, encode_sums_header,
    get_u64, page_sum,
};
use crate::map::Map;
use crate::pages::{PageNotes, PageSet};
use crate::storage::Storage;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind as IoKind};

/// Sums are written in ascending order, in rounds of up to so many.
const GATHERED_MAX: usize = 64 << 10;

/// What a comparison of pages with their sums gave.
#[derive(Default)]
pub(crate) struct Compared {
    /// Pages that do not hold their sums.
    pub(crate) unsound: Vec<u64>,
    /// How many pages have no sum that is known.
    pub(crate) without_sum: u64,
}

/// The file `HEAP.sums`, if there is one that can be used.
pub(crate) struct Sums {
    file: Option<Box<dyn Storage>>,
    /// It belongs to this heap and checkpoint.
    usable: bool,
    /// Of stretches of pages that were asked about: which have a sum.
    known: HashMap<u64, [u64; STRETCH_PAGES as usize / 64]>,
}

/// Pages whose sums are looked at together: those of a page of the file.
const STRETCH_PAGES: u64 = PAGE_BYTES / SUM_BYTES as u64;

impl Sums {
    /// Looks whether `file` belongs to `superblock`: written for it, or for the next one that did not come to be.
    pub(crate) fn open(
        file: Option<Box<dyn Storage>>,
        superblock: &Superblock,
    ) -> io::Result<Sums> {
        let Some(file) = file else {
            return Ok(Sums {
                file: None,
                usable: false,
                known: HashMap::new(),
            });
        };
        let mut header = [0; SUMS_HEADER_BYTES];
        let usable = match file.read_at(&mut header, 0) {
            Ok(()) => {
                let fits = |generation| header == encode_sums_header(&superblock.uuid, generation);
                fits(superblock.generation) || fits(superblock.generation + 1)
            }
            Err(e) if e.kind() == IoKind::UnexpectedEof => false,
            Err(e) => return Err(e),
        };
        Ok(Sums {
            file: Some(file),
            usable,
            known: HashMap::new(),
        })
    }

    /// Believe nothing of it: the heap was opened without its journal.
    pub(crate) fn distrust(&mut self) {
        self.usable = false;
        self.known.clear();
    }

    /// Whether there is a file, so that [`Sums::forget`] is remembered.
    pub(crate) fn is_there(&self) -> bool {
        self.file.is_some()
    }

    /// Whether nothing was noted of a page at the last checkpoint, or it was forgotten since. False where there is no file: then nothing was
    /// forgotten either.
    pub(crate) fn is_unknown(&mut self, page: u64) -> io::Result<bool> {
        if self.file.is_none() || !self.usable {
            return Ok(self.file.is_some());
        }
        let stretch = page / STRETCH_PAGES;
        let at = page % STRETCH_PAGES;
        if let Some(known) = self.known.get(&stretch) {
            return Ok(known[at as usize / 64] >> (at % 64) & 1 == 0);
        }
        let mut sums = [0; STRETCH_PAGES as usize];
        self.read(stretch * STRETCH_PAGES, &mut sums)?;
        let mut known = [0; STRETCH_PAGES as usize / 64];
        for (i, &sum) in sums.iter().enumerate() {
            known[i / 64] |= u64::from(sum != 0) << (i % 64);
        }
        self.known.insert(stretch, known);
        Ok(sums[at as usize] == 0)
    }

    /// Sums of the pages from `first` on, as many as `sums` has room for; 0 where not known.
    fn read(&self, first: u64, sums: &mut [u64]) -> io::Result<()> {
        sums.fill(0);
        let Some(file) = self.file.as_ref().filter(|_| self.usable) else {
            return Ok(());
        };
        let start = SUMS_START + first * SUM_BYTES as u64;
        let have = file.len()?.saturating_sub(start) / SUM_BYTES as u64;
        let count = have.min(sums.len() as u64) as usize;
        if count == 0 {
            return Ok(());
        }
        let mut bytes = vec![0; count * SUM_BYTES];
        file.read_at(&mut bytes, start)?;
        for (sum, raw) in sums.iter_mut().zip(bytes.chunks_exact(SUM_BYTES)) {
            *sum = get_u64(raw, 0);
        }
        Ok(())
    }

    /// Takes over what the frames of this generation say, for the checkpoint `next`, and flushes. `fill` names pages and
    /// sums, later ones overriding; false from it: they are not all known, so nothing of the table can be believed.
    pub(crate) fn update(
        &mut self,
        next: &Superblock,
        fill: impl FnOnce(&mut dyn FnMut(u64, u64) -> io::Result<()>) -> io::Result<bool>,
    ) -> io::Result<()> {
        self.known.clear();
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        if !self.usable {
            blank(&mut **file)?;
        }
        let mut gathered = PageNotes::of_last();
        let whole = fill(&mut |page, sum| {
            gathered.extend([(page, sum)]);
            if gathered.len_max() < GATHERED_MAX {
                return Ok(());
            }
            let written = write_runs(&mut **file, gathered.in_order());
            gathered.clear();
            written
        })?;
        write_runs(&mut **file, gathered.in_order())?;
        if !whole {
            blank(&mut **file)?;
        }
        file.write_at(&encode_sums_header(&next.uuid, next.generation), 0)?;
        file.sync()?;
        self.usable = true;
        Ok(())
    }

    /// Forgets the sums of pages whose content is about to be given up, and flushes.
    pub(crate) fn forget(&mut self, first: u64, pages: u64) -> io::Result<()> {
        self.known.clear();
        let Some(file) = self.file.as_mut().filter(|_| self.usable) else {
            return Ok(());
        };
        let zeros = vec![0; pages as usize * SUM_BYTES];
        let written = file.write_at(&zeros, SUMS_START + first * SUM_BYTES as u64);
        if let Err(error) = written {
            // Part of a sum may be there: nothing of the table can be believed.
            self.usable = false;
            let _ = blank(&mut **file);
            return Err(error);
        }
        file.sync()
    }

    /// Whether there is a file that belongs to this heap and checkpoint.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    /// Compares the pages of `map` from `first` to the page `end` with their expected sums. `from_frames` overrides the file.
    pub(crate) fn compare(
        &self,
        map: &Map,
        first: u64,
        end: u64,
        from_frames: &BTreeMap<u64, u64>,
    ) -> io::Result<Compared> {
        const BATCH: u64 = 1000;
        let mut compared = Compared::default();
        let mut known = vec![0; BATCH.min(end.saturating_sub(first)) as usize];
        let mut page = first;
        while page < end {
            let count = BATCH.min(end - page);
            map.will_need(page * PAGE_BYTES, (page + 2 * count) * PAGE_BYTES);
            self.read(page, &mut known[..count as usize])?;
            for (page, &sum) in (page..page + count).zip(&known) {
                let expected = from_frames.get(&page).copied().unwrap_or(sum);
                let bytes = map.slice(page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
                if expected <= SUM_OWED {
                    compared.without_sum += 1;
                } else if page_sum(bytes) != expected {
                    compared.unsound.push(page);
                }
            }
            page += count;
        }
        Ok(compared)
    }
}

/// Pages of which a checkpoint did not look what became of them. Where commits come from marks alone frames have no sums, and to read and
/// hash each page that was stored to since the last checkpoint took a quarter of the time of a program that stores here and there (2026-11). So
/// they have none in the table until they are left alone for a generation, or the heap is closed.
#[derive(Default)]
pub(crate) struct Later {
    is_on: bool,
    /// From now on nothing is left for later.
    pub(crate) is_now: bool,
    pages: PageSet,
    /// Where to look next for pages that were left alone.
    next: u64,
}

/// So many pages that were left alone are looked at by a checkpoint: a megabyte.
const COOLED_MAX: usize = 256;
/// Adjacent pages are read in one go, up to so many.
const READ_PAGES_MAX: usize = 256;

impl Later {
    pub(crate) fn new(is_on: bool) -> Later {
        Later {
            is_on,
            ..Later::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.len() == 0
    }

    /// At a checkpoint: notes the sums of pages below `end` of which nobody noted any. `named` are those of its generation, in ascending order; 1 if
    /// the sum is not known, so that what their writer did not know is what was made of them.
    pub(crate) fn add_sums(
        &mut self,
        named: &[(u64, u64)],
        heap: &dyn Storage,
        end: u64,
        note: &mut dyn FnMut(u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut due = Vec::new();
        if self.is_on && !self.is_now {
            let is_named = |page| named.binary_search_by_key(&page, |entry| entry.0).is_ok();
            for _ in 0..COOLED_MAX.min(self.pages.len() as usize) {
                let next = self.pages.next_from(self.next);
                let Some(page) = next.or_else(|| self.pages.next_from(0)) else {
                    break;
                };
                self.next = page + 1;
                if !is_named(page) {
                    due.push(page);
                }
            }
        } else {
            let mut page = 0;
            while let Some(next) = self.pages.next_from(page) {
                due.push(next);
                page = next + 1;
            }
        }
        for &(page, is_unknown) in named {
            self.pages.remove(page);
            match is_unknown {
                0 => {}
                _ if self.is_on && !self.is_now => {
                    note(page, SUM_OWED)?;
                    self.pages.insert(page);
                }
                _ => due.push(page),
            }
        }
        due.sort_unstable();
        due.dedup();
        due.retain(|page| page * PAGE_BYTES < end);
        let mut buffer = Vec::new();
        for run in due.chunk_by(|a, b| a + 1 == *b) {
            for pages in run.chunks(READ_PAGES_MAX) {
                let (start, len) = (pages[0] * PAGE_BYTES, pages.len() as u64 * PAGE_BYTES);
                let bytes = match heap.in_memory(start, len) {
                    Some(bytes) => Some(bytes),
                    None => {
                        buffer.resize(len as usize, 0);
                        // What cannot be read is not this checkpoint's affair.
                        let is_read = heap.read_at(&mut buffer, start).is_ok();
                        is_read.then_some(&buffer[..])
                    }
                };
                for (i, &page) in pages.iter().enumerate() {
                    self.pages.remove(page);
                    let at = i * PAGE_BYTES as usize;
                    let of_page = bytes.map(|bytes| &bytes[at..at + PAGE_BYTES as usize]);
                    note(page, of_page.map_or(SUM_OWED, page_sum))?;
                }
            }
        }
        Ok(())
    }

    /// These pages are given up: nobody knows when the medium will have what they hold then.
    pub(crate) fn forget(&mut self, first: u64, pages: u64) {
        (first..first + pages).for_each(|page| self.pages.remove(page));
    }
}

/// First that nothing of an older table can be believed, then a new one.
fn blank(file: &mut dyn Storage) -> io::Result<()> {
    file.write_at(&[0; SUMS_HEADER_BYTES], 0)?;
    file.set_len(SUMS_START)?;
    file.sync()
}

/// Writes sums, in ascending order of their pages, to their places; adjacent ones in one go.
fn write_runs(file: &mut dyn Storage, sums: &[(u64, u64)]) -> io::Result<()> {
    let mut run: Vec<u8> = Vec::new();
    let mut start = 0;
    for (page, sum) in sums {
        let at = SUMS_START + page * SUM_BYTES as u64;
        if at != start + run.len() as u64 {
            file.write_at(&run, start)?;
            run.clear();
            start = at;
        }
        run.extend_from_slice(&sum.to_le_bytes());
    }
    file.write_at(&run, start)
}
