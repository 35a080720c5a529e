//! The allocator: blocks inside a region.
//!
//! Small blocks come from pages of one size class ("slabs"), larger ones from runs of pages, the largest from extents of
//! zones. All metadata lies in descriptors apart from the blocks and is stored to like everything else, so a crash or an
//! abort rolls it back together with the data: there is nothing to repair and nothing leaks.
//!
//! The invariant: a block that was handed out is marked as used in exactly one place (a bit of its slab's bitmap, its
//! run's first descriptor, or its zone), and every offset that is read back is checked before it is followed.

use crate::layout::{
    BITMAP_WORDS, CLASSES, DESCRIPTOR_BYTES, HEADER, OF_PROGRAM, PAGE_FREE, PAGE_RUN,
    PAGE_RUN_TAIL, PAGE_SLAB, RUN_PAGES_MAX, SLAB_BYTES_MAX, ZONE_BYTES, ZONE_FREE, ZONE_LARGE,
    ZONE_PAGES, ZONE_SMALL, ZONES_START, header, page, zone,
};
use crate::{Heap, Result};
use region::{PAGE_BYTES, Region};

/// How many zones are looked at for a run of pages before a new one is begun.
const ZONES_TRIED: u32 = 8;

/// Class of each size, by size / 8 rounded up.
const CLASS_OF: [u8; SLAB_BYTES_MAX as usize / 8 + 1] = {
    let mut table = [0; SLAB_BYTES_MAX as usize / 8 + 1];
    let mut i = 0;
    let mut class = 0;
    while i < table.len() {
        while (CLASSES[class] as usize) < i * 8 {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// The smallest class of at least `size` bytes whose blocks are aligned to 16.
pub(crate) const CLASS16_OF: [u8; SLAB_BYTES_MAX as usize / 8 + 1] = {
    let mut table = CLASS_OF;
    let mut i = 0;
    while i < table.len() {
        let mut class = table[i] as usize;
        while !CLASSES[class].is_multiple_of(16) {
            class += 1;
        }
        table[i] = class as u8;
        i += 1;
    }
    table
};

/// Size of the blocks of a class, which a page's CLASS names.
pub(crate) fn class_bytes(class: u8) -> Option<u64> {
    let size = CLASSES.get(usize::from(class & !OF_PROGRAM));
    size.map(|&size| u64::from(size))
}

/// Where the list of a class' pages with free blocks begins.
pub(crate) fn class_head(class: u8) -> u64 {
    let heads = if class & OF_PROGRAM == 0 {
        header::CLASS_HEADS
    } else {
        header::PROGRAM_HEADS
    };
    HEADER + heads + 4 * u64::from(class & !OF_PROGRAM)
}

pub(crate) fn zone_start(index: u32) -> u64 {
    ZONES_START + u64::from(index) * ZONE_BYTES
}

fn zone_of(offset: u64) -> u32 {
    ((offset - ZONES_START) / ZONE_BYTES) as u32
}

/// The zone whose descriptors tell what lies at `offset`. In the first page of a zone there are descriptors, or it is inside an extent: a
/// block that was aligned may begin there, and then the extent begins one zone before (see `program.rs`).
fn describing_zone(offset: u64) -> u64 {
    let start = zone_start(zone_of(offset));
    if offset - start < PAGE_BYTES && start > ZONES_START {
        start - ZONE_BYTES
    } else {
        start
    }
}

/// Zones so far; no more than the region has room for.
pub(crate) fn zone_count(region: &Region) -> Result<u32> {
    let zones: u32 = region.get(HEADER + header::ZONE_COUNT)?;
    if u64::from(zones) > (region.end().saturating_sub(ZONES_START)).div_ceil(ZONE_BYTES) {
        return Err(region.damaged(
            HEADER + header::ZONE_COUNT,
            format!("{zones} zones, more than the heap has room for"),
        ));
    }
    Ok(zones)
}

/// Descriptor of the page that `offset` lies in.
pub(crate) fn descriptor(offset: u64) -> u64 {
    let within = (offset - ZONES_START) % ZONE_BYTES;
    offset - within + within / PAGE_BYTES * DESCRIPTOR_BYTES
}

/// What a block is, as far as the allocator knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) start: u64,
    /// Usable bytes.
    pub(crate) bytes: u64,
    /// A program asked for it: see `program.rs`.
    pub(crate) of_program: bool,
}

impl Heap {
    /// A block of at least `size` bytes, aligned to 8 (or to 16 if `align16`). Its content is arbitrary.
    pub(crate) fn alloc(&mut self, size: u64, align16: bool) -> Result<u64> {
        let (offset, bytes) = if size <= SLAB_BYTES_MAX {
            let table = if align16 { &CLASS16_OF } else { &CLASS_OF };
            let class = table[size.div_ceil(8) as usize];
            (
                self.alloc_small(class)?,
                u64::from(CLASSES[usize::from(class)]),
            )
        } else {
            let pages = size.div_ceil(PAGE_BYTES);
            if pages <= RUN_PAGES_MAX {
                (self.alloc_run(pages)?, pages * PAGE_BYTES)
            } else {
                self.alloc_large(size)?
            }
        };
        self.count_live(1, bytes.cast_signed())?;
        Ok(offset)
    }

    pub(crate) fn count_live(&mut self, blocks: i64, bytes: i64) -> Result<()> {
        let r = &mut self.region;
        let old: u64 = r.get(HEADER + header::LIVE_BLOCKS)?;
        r.put(
            HEADER + header::LIVE_BLOCKS,
            old.wrapping_add_signed(blocks),
        )?;
        let old: u64 = r.get(HEADER + header::LIVE_BYTES)?;
        r.put(HEADER + header::LIVE_BYTES, old.wrapping_add_signed(bytes))
    }

    #[inline]
    pub(crate) fn alloc_small(&mut self, class: u8) -> Result<u64> {
        let head = class_head(class);
        let first: u32 = self.region.get(head)?;
        let start = match first {
            0 => self.new_slab(class)?,
            n => self.page_start(n)?,
        };
        let desc = descriptor(start);
        let r = &mut self.region;
        if r.get::<u8>(desc + page::KIND)? != PAGE_SLAB || r.get::<u8>(desc + page::CLASS)? != class
        {
            return Err(r.damaged(
                desc,
                "a page in a list of free blocks is not of that size class",
            ));
        }
        for word in 0..BITMAP_WORDS {
            let at = desc + page::FREE_BLOCKS + word * 8;
            let free: u64 = r.get(at)?;
            if free != 0 {
                let bit = u64::from(free.trailing_zeros());
                r.put(at, free & (free - 1))?;
                let left = r.get::<u16>(desc + page::FREE_COUNT)?.wrapping_sub(1);
                r.put(desc + page::FREE_COUNT, left)?;
                if left == 0 {
                    let next: u32 = r.get(desc + page::NEXT)?;
                    self.unlink_page(desc, class, next, 0)?;
                }
                let size = u64::from(CLASSES[usize::from(class & !OF_PROGRAM)]);
                let block = start + (word * 64 + bit) * size;
                if (word * 64 + bit + 1) * size > PAGE_BYTES {
                    return Err(self.region.damaged(desc, "a free block beyond its page"));
                }
                return Ok(block);
            }
        }
        Err(self
            .region
            .damaged(desc, "a page in a list of free blocks has none"))
    }

    /// Offset of page number `n - 1`, as it stands in lists.
    pub(crate) fn page_start(&self, n: u32) -> Result<u64> {
        let offset = u64::from(n - 1) * PAGE_BYTES;
        if offset < ZONES_START
            || offset + PAGE_BYTES > self.region.end()
            || (offset - ZONES_START).is_multiple_of(ZONE_BYTES)
        {
            return Err(self
                .region
                .damaged(offset, "a list of free blocks leads outside the zones"));
        }
        Ok(offset)
    }

    /// A fresh page of the class, first in its list.
    #[cold]
    fn new_slab(&mut self, class: u8) -> Result<u64> {
        let start = self.alloc_run(1)?;
        let desc = descriptor(start);
        let blocks = PAGE_BYTES / u64::from(CLASSES[usize::from(class & !OF_PROGRAM)]);
        let r = &mut self.region;
        r.put(desc + page::KIND, PAGE_SLAB)?;
        r.put(desc + page::CLASS, class)?;
        r.put(desc + page::FREE_COUNT, blocks as u16)?;
        for word in 0..BITMAP_WORDS {
            let bits = blocks.saturating_sub(word * 64).min(64);
            let mask = if bits == 64 {
                u64::MAX
            } else {
                (1 << bits) - 1
            };
            r.put(desc + page::FREE_BLOCKS + word * 8, mask)?;
        }
        self.link_page(start, desc, class)?;
        Ok(start)
    }

    fn link_page(&mut self, start: u64, desc: u64, class: u8) -> Result<()> {
        let head = class_head(class);
        let number = (start / PAGE_BYTES) as u32 + 1;
        let old: u32 = self.region.get(head)?;
        if old != 0 {
            let old_desc = descriptor(self.page_start(old)?);
            self.region.put(old_desc + page::PREV, number)?;
        }
        let r = &mut self.region;
        r.put(desc + page::NEXT, old)?;
        r.put(desc + page::PREV, 0u32)?;
        r.put(head, number)
    }

    fn unlink_page(&mut self, desc: u64, class: u8, next: u32, prev: u32) -> Result<()> {
        if next != 0 {
            let at = descriptor(self.page_start(next)?);
            self.region.put(at + page::PREV, prev)?;
        }
        let at = match prev {
            0 => class_head(class),
            n => descriptor(self.page_start(n)?) + page::NEXT,
        };
        let r = &mut self.region;
        r.put(at, next)?;
        r.put(desc + page::NEXT, 0u32)?;
        r.put(desc + page::PREV, 0u32)
    }

    /// `pages` adjacent pages of a small zone.
    pub(crate) fn alloc_run(&mut self, pages: u64) -> Result<u64> {
        let mut index: u32 = self.region.get(HEADER + header::PARTIAL_ZONES)?;
        for _ in 0..ZONES_TRIED {
            if index == 0 {
                break;
            }
            let start = self.small_zone(index - 1)?;
            let free: u64 = self.region.get(start + zone::FREE_PAGES)?;
            if let Some(first) = find_run(free, pages) {
                return self.take_run(start, free, first, pages);
            }
            index = self.region.get(start + zone::NEXT)?;
        }
        let (start, free) = self.grow(pages)?;
        let first = find_run(free, pages).expect("grow makes room for the run");
        self.take_run(start, free, first, pages)
    }

    /// Start of zone `index`, which must be a small one.
    fn small_zone(&self, index: u32) -> Result<u64> {
        let start = zone_start(index);
        if self.region.get::<u32>(start + zone::KIND)? != ZONE_SMALL {
            return Err(self.region.damaged(
                start,
                "a list of zones with free pages leads to another kind of zone",
            ));
        }
        Ok(start)
    }

    fn take_run(&mut self, start: u64, free: u64, first: u64, pages: u64) -> Result<u64> {
        let left = free & !run_mask(first, pages);
        self.region.put(start + zone::FREE_PAGES, left)?;
        if left == 0 {
            self.unlink_zone(start, header::PARTIAL_ZONES)?;
        }
        for i in first..first + pages {
            let desc = start + i * DESCRIPTOR_BYTES;
            self.region.put(
                desc + page::KIND,
                if i == first { PAGE_RUN } else { PAGE_RUN_TAIL },
            )?;
        }
        let desc = start + first * DESCRIPTOR_BYTES;
        self.region.put(desc + page::CLASS, 0u8)?;
        self.region.put(desc + page::RUN_PAGES, pages as u16)?;
        Ok(start + first * PAGE_BYTES)
    }

    /// A zone with room for a run of `pages`: the last one made longer, a freed one, or a new one.
    #[cold]
    fn grow(&mut self, pages: u64) -> Result<(u64, u64)> {
        self.take_in_surplus()?;
        let zones = zone_count(&self.region)?;
        // In small heaps by little, in large ones by whole zones.
        let step = (self.region.end() / PAGE_BYTES / 4).clamp(4, ZONE_PAGES);
        if zones > 0 && self.region.end() > zone_start(zones - 1) + PAGE_BYTES {
            let start = zone_start(zones - 1);
            let present = (self.region.end() - start) / PAGE_BYTES;
            if present < ZONE_PAGES && self.region.get::<u32>(start + zone::KIND)? == ZONE_SMALL {
                let free: u64 = self.region.get(start + zone::FREE_PAGES)?;
                let add = (ZONE_PAGES - present).min(step.max(pages));
                if find_run(free | run_mask(present, add), pages).is_some() {
                    self.region.extend(add * PAGE_BYTES)?;
                    let grown = free | run_mask(present, add);
                    self.region.put(start + zone::FREE_PAGES, grown)?;
                    self.region
                        .put(start + zone::PRESENT, (present + add) as u32)?;
                    if free == 0 {
                        self.link_zone(start, header::PARTIAL_ZONES)?;
                    }
                    return Ok((start, grown));
                }
            }
        }
        if let Some(start) = self.take_free_zones(1)? {
            return self.begin_small(start, ZONE_PAGES);
        }
        self.complete_last_zone()?;
        let present = step.max(pages + 1);
        let start = self.region.extend(present * PAGE_BYTES)?;
        let zones = zone_count(&self.region)?;
        self.region.put(HEADER + header::ZONE_COUNT, zones + 1)?;
        self.begin_small(start, present)
    }

    fn begin_small(&mut self, start: u64, present: u64) -> Result<(u64, u64)> {
        let free = run_mask(1, present - 1);
        self.region.bytes_mut(start, PAGE_BYTES)?.fill(0);
        let r = &mut self.region;
        r.put(start + zone::KIND, ZONE_SMALL)?;
        r.put(start + zone::SPAN, 1u32)?;
        r.put(start + zone::FREE_PAGES, free)?;
        r.put(start + zone::PRESENT, present as u32)?;
        self.link_zone(start, header::PARTIAL_ZONES)?;
        Ok((start, free))
    }

    /// Extends the last zone to its full length, so that another can follow.
    fn complete_last_zone(&mut self) -> Result<()> {
        let zones = zone_count(&self.region)?;
        if zones == 0 {
            return Ok(());
        }
        let start = zone_start(zones - 1);
        let full_end = start + ZONE_BYTES;
        let present = self.region.end().saturating_sub(start) / PAGE_BYTES;
        if self.region.end() >= full_end {
            return Ok(());
        }
        self.region.extend(full_end - self.region.end())?;
        // Only a small zone can be short.
        self.small_zone(zones - 1)?;
        self.fill_zone(start, present)
    }

    /// A small zone of which so many pages were there has all its pages.
    fn fill_zone(&mut self, start: u64, present: u64) -> Result<()> {
        let free: u64 = self.region.get(start + zone::FREE_PAGES)?;
        self.region.put(
            start + zone::FREE_PAGES,
            free | run_mask(present, ZONE_PAGES - present),
        )?;
        self.region.put(start + zone::PRESENT, ZONE_PAGES as u32)?;
        if free == 0 {
            self.link_zone(start, header::PARTIAL_ZONES)?;
        }
        Ok(())
    }

    /// Takes space behind the zones into them, as free ones. Growth that is hardly used moves the committed end before the commit that notes the
    /// zones, which may not have come about: the process was killed, or the commit failed and was aborted.
    fn take_in_surplus(&mut self) -> Result<()> {
        let zones = zone_count(&self.region)?;
        let behind = zone_start(zones);
        if self.region.end() <= behind {
            return Ok(());
        }
        let (mut last, mut next) = (None, 0);
        while next < zones {
            last = Some(zone_start(next));
            next += self.zone_span(next, zones)?;
        }
        if let Some(start) = last
            && self.region.get::<u32>(start + zone::KIND)? == ZONE_SMALL
        {
            let present = u64::from(self.region.get::<u32>(start + zone::PRESENT)?);
            if present < ZONE_PAGES {
                self.fill_zone(start, present)?;
            }
        }
        let part = (self.region.end() - behind) % ZONE_BYTES;
        if part > 0 {
            self.region.extend(ZONE_BYTES - part)?;
        }
        let span = ((self.region.end() - behind) / ZONE_BYTES) as u32;
        self.region.put(HEADER + header::ZONE_COUNT, zones + span)?;
        self.free_zones(behind, span)
    }

    /// An extent of whole zones; its block starts behind the first zone's descriptors.
    pub(crate) fn alloc_large(&mut self, size: u64) -> Result<(u64, u64)> {
        let span = size
            .checked_add(PAGE_BYTES)
            .map_or(u64::MAX, |n| n.div_ceil(ZONE_BYTES));
        let Ok(span) = u32::try_from(span) else {
            return Err(region::ErrorKind::Full {
                path: "(heap)".into(),
                limit_bytes: self.region.end(),
                wanted_bytes: size,
            }
            .into());
        };
        self.take_in_surplus()?;
        let start = match self.take_free_zones(span)? {
            Some(start) => start,
            None => {
                self.complete_last_zone()?;
                let start = self.region.extend(u64::from(span) * ZONE_BYTES)?;
                let zones = zone_count(&self.region)?;
                self.region.put(HEADER + header::ZONE_COUNT, zones + span)?;
                start
            }
        };
        let r = &mut self.region;
        r.put(start + zone::KIND, ZONE_LARGE)?;
        r.put(start + zone::NEXT, 0u32)?;
        r.put(start + zone::PREV, 0u32)?;
        r.put(start + zone::SPAN, span)?;
        r.put(start + zone::BYTES, size)?;
        r.put(start + zone::BLOCK, 0u64)?;
        Ok((
            start + PAGE_BYTES,
            u64::from(span) * ZONE_BYTES - PAGE_BYTES,
        ))
    }

    /// Takes `span` adjacent zones out of the free runs, first fit; joins neighbours when nothing fits but might.
    fn take_free_zones(&mut self, span: u32) -> Result<Option<u64>> {
        let free: u64 = self.region.get(HEADER + header::FREE_ZONES)?;
        if free < u64::from(span) {
            return Ok(None);
        }
        for joined in [false, true] {
            if joined && !self.join_free_runs()? {
                break;
            }
            let zones = zone_count(&self.region)?;
            let mut index: u32 = self.region.get(HEADER + header::FREE_RUNS)?;
            for _ in 0..=zones {
                if index == 0 {
                    break;
                }
                let start = zone_start(index - 1);
                let (kind, have): (u32, u32) = (
                    self.region.get(start + zone::KIND)?,
                    self.region.get(start + zone::SPAN)?,
                );
                if kind != ZONE_FREE || index > zones || have > zones - (index - 1) {
                    return Err(self
                        .region
                        .damaged(start, "a list of free zones leads to one that is not free"));
                }
                if have >= span {
                    self.unlink_zone(start, header::FREE_RUNS)?;
                    self.region
                        .put(HEADER + header::FREE_ZONES, free - u64::from(span))?;
                    if have > span {
                        let rest = start + u64::from(span) * ZONE_BYTES;
                        let discarded: u32 = self.region.get(start + zone::DISCARDED)?;
                        self.begin_free(rest, have - span, discarded)?;
                    }
                    return Ok(Some(start));
                }
                index = self.region.get(start + zone::NEXT)?;
            }
        }
        Ok(None)
    }

    /// Leaves of an extent the zones `[from, to)`, as one, and frees the others.
    pub(crate) fn trim_extent(&mut self, start: u64, from: u64, to: u64) -> Result<()> {
        let span: u32 = self.region.get(start + zone::SPAN)?;
        let bytes: u64 = self.region.get(start + zone::BYTES)?;
        let end = start + u64::from(span) * ZONE_BYTES;
        let zones = |bytes: u64| (bytes / ZONE_BYTES) as u32;
        if to < end {
            self.free_zones(to, zones(end - to))?;
        }
        if from > start {
            let r = &mut self.region;
            r.put(from + zone::KIND, ZONE_LARGE)?;
            r.put(from + zone::NEXT, 0u32)?;
            r.put(from + zone::PREV, 0u32)?;
            r.put(from + zone::BYTES, bytes)?;
            self.free_zones(start, zones(from - start))?;
        }
        self.region.put(from + zone::SPAN, zones(to - from))
    }

    fn begin_free(&mut self, start: u64, span: u32, discarded: u32) -> Result<()> {
        let r = &mut self.region;
        r.put(start + zone::KIND, ZONE_FREE)?;
        r.put(start + zone::SPAN, span)?;
        r.put(start + zone::DISCARDED, discarded)?;
        self.link_zone(start, header::FREE_RUNS)
    }

    /// Joins adjacent free runs; true if any were.
    fn join_free_runs(&mut self) -> Result<bool> {
        let zones = zone_count(&self.region)?;
        let mut any = false;
        let mut index = 0;
        let mut before: Option<u64> = None;
        while index < zones {
            let start = zone_start(index);
            let span = self.zone_span(index, zones)?;
            if self.region.get::<u32>(start + zone::KIND)? == ZONE_FREE {
                if let Some(first) = before {
                    self.unlink_zone(start, header::FREE_RUNS)?;
                    let have: u32 = self.region.get(first + zone::SPAN)?;
                    self.region
                        .put(first + zone::SPAN, have.saturating_add(span))?;
                    self.region.put(first + zone::DISCARDED, 0u32)?;
                    any = true;
                } else {
                    before = Some(start);
                }
            } else {
                before = None;
            }
            index += span;
        }
        Ok(any)
    }

    /// Zones that the extent or run at `index` takes.
    pub(crate) fn zone_span(&self, index: u32, zones: u32) -> Result<u32> {
        let start = zone_start(index);
        let span: u32 = self.region.get(start + zone::SPAN)?;
        if span == 0 || span > zones.saturating_sub(index) {
            return Err(self
                .region
                .damaged(start, "a zone that extends beyond the heap"));
        }
        Ok(span)
    }

    fn link_zone(&mut self, start: u64, list: u64) -> Result<()> {
        let number = zone_of(start) + 1;
        let old: u32 = self.region.get(HEADER + list)?;
        if old != 0 {
            self.region.put(zone_start(old - 1) + zone::PREV, number)?;
        }
        let r = &mut self.region;
        r.put(start + zone::NEXT, old)?;
        r.put(start + zone::PREV, 0u32)?;
        r.put(HEADER + list, number)
    }

    fn unlink_zone(&mut self, start: u64, list: u64) -> Result<()> {
        let r = &mut self.region;
        let next: u32 = r.get(start + zone::NEXT)?;
        let prev: u32 = r.get(start + zone::PREV)?;
        if next != 0 {
            r.put(zone_start(next - 1) + zone::PREV, prev)?;
        }
        let at = if prev == 0 {
            HEADER + list
        } else {
            zone_start(prev - 1) + zone::NEXT
        };
        r.put(at, next)?;
        r.put(start + zone::NEXT, 0u32)?;
        r.put(start + zone::PREV, 0u32)
    }

    /// The block that `offset` lies in, if it is handed out.
    ///
    /// # Errors
    /// When it is not: a wild or doubly freed offset in a damaged heap.
    pub(crate) fn block_at(&self, offset: u64) -> Result<Block> {
        let r = &self.region;
        if offset < ZONES_START || offset >= r.end() {
            return Err(r.damaged(offset, "a block outside the zones"));
        }
        let start = describing_zone(offset);
        match r.get::<u32>(start + zone::KIND)? {
            ZONE_LARGE => {
                let span = self.zone_span(zone_of(start), zone_count(r)?)?;
                let block = large_block(r, start, span)?;
                if block.start != offset {
                    return Err(r.damaged(offset, "a block in an extent that begins elsewhere"));
                }
                Ok(block)
            }
            ZONE_SMALL if offset - start < ZONE_BYTES => {
                let desc = descriptor(offset);
                let page_start = start + (offset - start) / PAGE_BYTES * PAGE_BYTES;
                match r.get::<u8>(desc + page::KIND)? {
                    PAGE_SLAB if page_start > start => {
                        let class = r.get::<u8>(desc + page::CLASS)?;
                        let Some(size) = class_bytes(class) else {
                            return Err(r.damaged(desc, "a page of an unknown size class"));
                        };
                        let index = (offset - page_start) / size;
                        let free: u64 = r.get(desc + page::FREE_BLOCKS + index / 64 * 8)?;
                        if free >> (index % 64) & 1 == 1 {
                            return Err(r.damaged(offset, "a block that is free is in use"));
                        }
                        Ok(Block {
                            start: page_start + index * size,
                            bytes: size,
                            of_program: class & OF_PROGRAM != 0,
                        })
                    }
                    PAGE_RUN if page_start > start => {
                        let pages: u16 = r.get(desc + page::RUN_PAGES)?;
                        Ok(Block {
                            start: page_start,
                            bytes: u64::from(pages) * PAGE_BYTES,
                            of_program: r.get::<u8>(desc + page::CLASS)? != 0,
                        })
                    }
                    _ => Err(r.damaged(offset, "a block in a page that is not in use")),
                }
            }
            _ => Err(r.damaged(offset, "a block in a zone that is not in use")),
        }
    }

    /// Gives a block back; `offset` is what [`Heap::alloc`] returned.
    pub(crate) fn free(&mut self, offset: u64) -> Result<()> {
        let block = self.block_at(offset)?;
        if block.start != offset {
            return Err(self
                .region
                .damaged(offset, "a block is freed in its middle"));
        }
        let start = describing_zone(offset);
        let desc = descriptor(offset);
        if self.region.get::<u32>(start + zone::KIND)? == ZONE_LARGE {
            let span = self.region.get::<u32>(start + zone::SPAN)?;
            self.free_zones(start, span)?;
        } else if self.region.get::<u8>(desc + page::KIND)? == PAGE_SLAB {
            self.free_small(offset, desc)?;
        } else {
            self.free_run(offset, block.bytes / PAGE_BYTES)?;
        }
        self.count_live(-1, -(block.bytes.cast_signed()))
    }

    fn free_small(&mut self, offset: u64, desc: u64) -> Result<()> {
        let class: u8 = self.region.get(desc + page::CLASS)?;
        let size = u64::from(CLASSES[usize::from(class & !OF_PROGRAM)]); // checked by block_at
        let page_start = offset / PAGE_BYTES * PAGE_BYTES;
        let index = (offset - page_start) / size;
        let at = desc + page::FREE_BLOCKS + index / 64 * 8;
        let r = &mut self.region;
        let free: u64 = r.get(at)?;
        r.put(at, free | 1 << (index % 64))?;
        let count = r.get::<u16>(desc + page::FREE_COUNT)?.wrapping_add(1);
        r.put(desc + page::FREE_COUNT, count)?;
        if u64::from(count) == PAGE_BYTES / size {
            if count > 1 {
                let (next, prev) = (r.get(desc + page::NEXT)?, r.get(desc + page::PREV)?);
                self.unlink_page(desc, class, next, prev)?;
            }
            self.free_run(page_start, 1)
        } else if count == 1 {
            self.link_page(page_start, desc, class)
        } else {
            Ok(())
        }
    }

    fn free_run(&mut self, offset: u64, pages: u64) -> Result<()> {
        let start = zone_start(zone_of(offset));
        let first = (offset - start) / PAGE_BYTES;
        if pages == 0 || first + pages > ZONE_PAGES {
            return Err(self
                .region
                .damaged(offset, "a run of pages beyond its zone"));
        }
        for i in first..first + pages {
            self.region
                .put(start + i * DESCRIPTOR_BYTES + page::KIND, PAGE_FREE)?;
        }
        let r = &mut self.region;
        let free: u64 = r.get(start + zone::FREE_PAGES)?;
        let grown = free | run_mask(first, pages);
        r.put(start + zone::FREE_PAGES, grown)?;
        let present: u32 = r.get(start + zone::PRESENT)?;
        if u64::from(present) == ZONE_PAGES && grown == run_mask(1, ZONE_PAGES - 1) {
            if free != 0 {
                self.unlink_zone(start, header::PARTIAL_ZONES)?;
            }
            self.free_zones(start, 1)
        } else if free == 0 {
            self.link_zone(start, header::PARTIAL_ZONES)
        } else {
            Ok(())
        }
    }

    fn free_zones(&mut self, start: u64, span: u32) -> Result<()> {
        let zones = zone_count(&self.region)?;
        if span == 0 || zone_of(start) >= zones || span > zones - zone_of(start) {
            return Err(self.region.damaged(start, "an extent beyond the heap"));
        }
        let free: u64 = self.region.get(HEADER + header::FREE_ZONES)?;
        self.region.put(
            HEADER + header::FREE_ZONES,
            free.saturating_add(u64::from(span)),
        )?;
        self.begin_free(start, span, 0)
    }

    /// Gives the medium's space of free zones back, as far as it is known to be free in the last commit too. Returns the
    /// bytes. The working copy must be committed and the region checkpointed.
    pub(crate) fn discard_free_zones(&mut self) -> Result<u64> {
        let zones = zone_count(&self.region)?;
        let mut given = 0;
        let mut index = 0;
        let mut done = Vec::new();
        while index < zones {
            let start = zone_start(index);
            let span = self.zone_span(index, zones)?;
            let is_free = self.region.get::<u32>(start + zone::KIND)? == ZONE_FREE;
            if is_free && self.region.get::<u32>(start + zone::DISCARDED)? == 0 {
                let bytes = u64::from(span) * ZONE_BYTES - PAGE_BYTES;
                if !self.region.discard(start + PAGE_BYTES, bytes)? {
                    break;
                }
                given += bytes;
                done.push(start);
            }
            index += span;
        }
        for start in done {
            self.region.put(start + zone::DISCARDED, 1u32)?;
        }
        Ok(given)
    }

    /// Whether there is anything for [`Heap::discard_free_zones`]: looks at the first free runs only, which are those
    /// freed last.
    pub(crate) fn has_undiscarded_zones(&self) -> Result<bool> {
        let mut index: u32 = self.region.get(HEADER + header::FREE_RUNS)?;
        for _ in 0..ZONES_TRIED {
            if index == 0 {
                break;
            }
            let start = zone_start(index - 1);
            if self.region.get::<u32>(start + zone::DISCARDED)? == 0 {
                return Ok(true);
            }
            index = self.region.get(start + zone::NEXT)?;
        }
        Ok(false)
    }
}

/// The block of the extent of `span` zones at `start`.
pub(crate) fn large_block(region: &Region, start: u64, span: u32) -> Result<Block> {
    let extent = u64::from(span) * ZONE_BYTES;
    let within: u64 = region.get(start + zone::BLOCK)?;
    if within != 0 && !(PAGE_BYTES..extent).contains(&within) {
        return Err(region.damaged(start + zone::BLOCK, "a block outside its extent"));
    }
    let of_program = within != 0;
    let within = if of_program { within } else { PAGE_BYTES };
    Ok(Block {
        start: start + within,
        bytes: extent - within,
        of_program,
    })
}

/// `count` ones from bit `first` on.
pub(crate) fn run_mask(first: u64, count: u64) -> u64 {
    let ones = if count >= 64 {
        u64::MAX
    } else {
        (1 << count) - 1
    };
    ones << first
}

/// The first of `count` adjacent ones.
fn find_run(bits: u64, count: u64) -> Option<u64> {
    let mut starts = bits;
    let mut have = 1;
    while have < count {
        let step = have.min(count - have);
        starts &= starts >> step;
        have += step;
    }
    (starts != 0).then(|| u64::from(starts.trailing_zeros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_where_they_are() {
        assert_eq!(find_run(0, 1), None);
        assert_eq!(find_run(0b1011_0110, 2), Some(1));
        assert_eq!(find_run(0b1111_0110, 4), Some(4));
        assert_eq!(find_run(0b1111_0110, 5), None);
        assert_eq!(find_run(u64::MAX << 1, 63), Some(1));
    }

    #[test]
    fn classes_fit() {
        for size in 0..=SLAB_BYTES_MAX {
            let at = size.div_ceil(8) as usize;
            assert!(u64::from(CLASSES[usize::from(CLASS_OF[at])]) >= size);
            assert!(CLASSES[usize::from(CLASS16_OF[at])].is_multiple_of(16));
        }
    }
}
