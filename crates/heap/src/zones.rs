//! Walks over the allocator's metadata, for the check and for heaps without a journal: what is handed out, what the lists
//! name, how far the zones reach.
//!
//! The invariant: every walk ends with a result or with an error that names what cannot be.

use crate::alloc::{
    Block, class_bytes, class_head, descriptor, large_block, run_mask, zone_count, zone_start,
};
use crate::layout::{
    DESCRIPTOR_BYTES, HEADER, HEAP_MAGIC, OF_PROGRAM, PAGE_FREE, PAGE_RUN, PAGE_SLAB, ZONE_BYTES,
    ZONE_FREE, ZONE_LARGE, ZONE_PAGES, ZONE_SMALL, ZONES_START, header, page, zone,
};
use crate::{Heap, Result};
use region::{PAGE_BYTES, Region};

/// Takes the zones that a heap file holds behind its last checkpoint into the region: where its journal is lost, only the
/// zones themselves say how far they reach. Leaves a file without a heap's header alone.
pub(crate) fn uncover_zones(region: &mut Region) -> Result<()> {
    if region.uncover(ZONES_START).is_err() {
        return Ok(()); // never committed: shorter than a header
    }
    if region.get::<u64>(HEADER + header::MAGIC)? != HEAP_MAGIC {
        return region.abort();
    }
    let zones: u32 = region.get(HEADER + header::ZONE_COUNT)?;
    let mut index = 0;
    while index < zones {
        let start = zone_start(index);
        region.uncover(start + PAGE_BYTES)?;
        let span: u32 = region.get(start + zone::SPAN)?;
        let present: u32 = region.get(start + zone::PRESENT)?;
        let bytes = match region.get::<u32>(start + zone::KIND)? {
            ZONE_SMALL if span == 1 => u64::from(present) * PAGE_BYTES,
            ZONE_LARGE | ZONE_FREE if span > 0 && span <= zones - index => {
                u64::from(span) * ZONE_BYTES
            }
            _ => return Err(region.damaged(start, "a zone of an unknown kind")),
        };
        region.uncover(start + bytes.min(u64::from(span) * ZONE_BYTES))?;
        index += span;
    }
    Ok(())
}

/// What a walk over all zones counts besides blocks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZoneCounts {
    /// Free zones.
    pub(crate) free: u64,
    /// Small zones with free pages.
    pub(crate) partial: u64,
}

/// What the allocator's own metadata says is handed out, for the check: every block, by a walk over the zones.
pub(crate) fn walk_blocks(
    region: &Region,
    visit: &mut dyn FnMut(Block) -> Result<()>,
) -> Result<ZoneCounts> {
    let zones = zone_count(region)?;
    let mut counts = ZoneCounts::default();
    let mut index = 0;
    while index < zones {
        let start = zone_start(index);
        let span: u32 = region.get(start + zone::SPAN)?;
        if span == 0 || span > zones - index {
            return Err(region.damaged(start, "a zone that extends beyond the heap"));
        }
        match region.get::<u32>(start + zone::KIND)? {
            ZONE_LARGE => visit(large_block(region, start, span)?)?,
            ZONE_FREE => counts.free += u64::from(span),
            ZONE_SMALL if span == 1 => {
                walk_small_zone(region, start, visit)?;
                counts.partial += u64::from(region.get::<u64>(start + zone::FREE_PAGES)? != 0);
            }
            _ => return Err(region.damaged(start, "a zone of an unknown kind")),
        }
        index += span;
    }
    Ok(counts)
}

/// The block that each of `offsets` (ascending) lies in, anywhere in it; none where none is handed out. By a walk over the zones: inside
/// an extent nothing tells where it begins.
pub(crate) fn blocks_around(region: &Region, offsets: &[u64]) -> Result<Vec<Option<Block>>> {
    debug_assert!(offsets.is_sorted());
    let zones = zone_count(region)?;
    let mut found = vec![None; offsets.len()];
    let mut next = offsets.partition_point(|&offset| offset < ZONES_START);
    let mut index = 0;
    while index < zones && next < offsets.len() {
        let start = zone_start(index);
        let span: u32 = region.get(start + zone::SPAN)?;
        if span == 0 || span > zones - index {
            return Err(region.damaged(start, "a zone that extends beyond the heap"));
        }
        let end = start + u64::from(span) * ZONE_BYTES;
        let here = next..offsets.partition_point(|&offset| offset < end);
        next = here.end;
        index += span;
        if here.is_empty() {
            continue;
        }
        let visit = &mut |block: Block| {
            for i in here.clone() {
                if (block.start..block.start + block.bytes).contains(&offsets[i]) {
                    found[i] = Some(block);
                }
            }
            Ok(())
        };
        match region.get::<u32>(start + zone::KIND)? {
            ZONE_LARGE => visit(large_block(region, start, span)?)?,
            ZONE_SMALL => walk_small_zone(region, start, visit)?,
            _ => {}
        }
    }
    Ok(found)
}

fn walk_small_zone(
    region: &Region,
    start: u64,
    visit: &mut dyn FnMut(Block) -> Result<()>,
) -> Result<()> {
    let free: u64 = region.get(start + zone::FREE_PAGES)?;
    let present = u64::from(region.get::<u32>(start + zone::PRESENT)?);
    let room = (region.end() - start) / PAGE_BYTES;
    if present == 0 || present > ZONE_PAGES.min(room) || free & !run_mask(1, present - 1) != 0 {
        return Err(region.damaged(start, "a zone whose map of free pages cannot be"));
    }
    let mut i = 1;
    while i < present {
        let desc = start + i * DESCRIPTOR_BYTES;
        let page_start = start + i * PAGE_BYTES;
        let is_free = free >> i & 1 == 1;
        let mut pages = 1;
        match region.get::<u8>(desc + page::KIND)? {
            PAGE_FREE if is_free => {}
            PAGE_SLAB if !is_free => {
                let class: u8 = region.get(desc + page::CLASS)?;
                let Some(size) = class_bytes(class) else {
                    return Err(region.damaged(desc, "a page of an unknown size class"));
                };
                let mut count = 0;
                for block in 0..PAGE_BYTES / size {
                    let word: u64 = region.get(desc + page::FREE_BLOCKS + block / 64 * 8)?;
                    if word >> (block % 64) & 1 == 1 {
                        count += 1;
                    } else {
                        visit(Block {
                            start: page_start + block * size,
                            bytes: size,
                            of_program: class & OF_PROGRAM != 0,
                        })?;
                    }
                }
                if region.get::<u16>(desc + page::FREE_COUNT)? != count {
                    return Err(
                        region.damaged(desc, "a page whose count of free blocks does not hold")
                    );
                }
            }
            PAGE_RUN if !is_free => {
                pages = u64::from(region.get::<u16>(desc + page::RUN_PAGES)?);
                if pages == 0 || i + pages > present || free & run_mask(i, pages) != 0 {
                    return Err(region.damaged(desc, "a run of pages that cannot be"));
                }
                visit(Block {
                    start: page_start,
                    bytes: pages * PAGE_BYTES,
                    of_program: region.get::<u8>(desc + page::CLASS)? != 0,
                })?;
            }
            _ => return Err(region.damaged(desc, "a page whose kind does not fit its zone's map")),
        }
        i += pages;
    }
    Ok(())
}

impl Heap {
    /// The pages in the list of a class, for the check.
    pub(crate) fn walk_class_list(&self, class: u8) -> Result<Vec<u32>> {
        let mut pages = Vec::new();
        let mut number: u32 = self.region.get(class_head(class))?;
        let mut prev = 0;
        while number != 0 {
            let desc = descriptor(self.page_start(number)?);
            let r = &self.region;
            let fits = r.get::<u8>(desc + page::KIND)? == PAGE_SLAB
                && r.get::<u8>(desc + page::CLASS)? == class
                && r.get::<u16>(desc + page::FREE_COUNT)? > 0
                && r.get::<u32>(desc + page::PREV)? == prev;
            if !fits || pages.len() as u64 > r.end() / PAGE_BYTES {
                return Err(r.damaged(
                    desc,
                    "a list of free blocks that leads to a page that does not belong there",
                ));
            }
            pages.push(number);
            prev = number;
            number = r.get(desc + page::NEXT)?;
        }
        Ok(pages)
    }

    /// Walks a list of zones of one kind, for the check; returns what their spans add up to.
    pub(crate) fn walk_zone_list(&self, list: u64, kind: u32) -> Result<u64> {
        let zones = zone_count(&self.region)?;
        let mut index: u32 = self.region.get(HEADER + list)?;
        let (mut prev, mut spans, mut listed) = (0, 0, 0);
        while index != 0 {
            let start = zone_start(index - 1);
            let r = &self.region;
            listed += 1;
            let fits = index <= zones
                && listed <= zones
                && r.get::<u32>(start + zone::KIND)? == kind
                && r.get::<u32>(start + zone::PREV)? == prev
                && (kind != ZONE_SMALL || r.get::<u64>(start + zone::FREE_PAGES)? != 0);
            if !fits {
                return Err(r.damaged(
                    start,
                    "a list of zones that leads to one that does not belong there",
                ));
            }
            spans += u64::from(self.zone_span(index - 1, zones)?);
            prev = index;
            index = r.get(start + zone::NEXT)?;
        }
        Ok(spans)
    }
}
