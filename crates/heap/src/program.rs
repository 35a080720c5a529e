//! Blocks that a program asks for and stores to by address, and the names under which it finds them again.
//!
//! They lie in pages of their own: nobody here knows what refers to them, so the check counts them and looks no further, and what a
//! program overruns is its own. The invariant: every offset that comes from a program is one of its blocks, or the operation is an
//! error that changes nothing.

use crate::alloc::{Block, CLASS16_OF, class_bytes, descriptor};
use crate::layout::{CLASSES, OF_PROGRAM, RUN_PAGES_MAX, SLAB_BYTES_MAX, ZONE_BYTES, page, zone};
use crate::{Cell, Heap, Result};
use region::{ErrorKind, PAGE_BYTES};

/// The root in which a program's names are.
const NAMES: &str = "program";
/// First byte of a name's value: an offset in eight bytes follows.
const KIND_OFFSET: u8 = b'P';
/// What every block is aligned to.
const ALIGNMENT: u64 = 16;

impl Heap {
    /// A block of at least `size` bytes (also for 0) whose address is a multiple of `alignment`, a power of two. Its content is arbitrary.
    /// Alignments beyond a page hold as long as the heap lies at this address.
    ///
    /// # Errors
    /// [`ErrorKind::Full`] and the like.
    pub fn block_new(&mut self, size: u64, alignment: u64) -> Result<u64> {
        let (offset, bytes) = self.take_block(size, alignment.max(ALIGNMENT))?;
        self.count_live(1, bytes.cast_signed())?;
        Ok(offset)
    }

    fn take_block(&mut self, size: u64, alignment: u64) -> Result<(u64, u64)> {
        debug_assert!(alignment.is_power_of_two());
        let size = size.max(1); // a block of nothing has an address of its own, too
        if let Some(class) = class_for(size, alignment) {
            let offset = self.alloc_small(class | OF_PROGRAM)?;
            return Ok((offset, u64::from(CLASSES[usize::from(class)])));
        }
        let pages = size.div_ceil(PAGE_BYTES);
        if alignment <= PAGE_BYTES && pages <= RUN_PAGES_MAX {
            let offset = self.alloc_run(pages)?;
            self.region
                .put(descriptor(offset) + page::CLASS, OF_PROGRAM)?;
            return Ok((offset, pages * PAGE_BYTES));
        }
        self.take_extent(size, alignment)
    }

    fn take_extent(&mut self, size: u64, alignment: u64) -> Result<(u64, u64)> {
        // Extents' blocks lie at multiples of a page of the heap, which itself does.
        let beyond = alignment - alignment.min(PAGE_BYTES);
        let wanted = size
            .checked_add(beyond)
            .ok_or_else(|| self.too_large(size))?;
        let (first, _) = self.alloc_large(wanted)?;
        let start = first - PAGE_BYTES;
        let address = self.region.address() as u64;
        let block = (address + first).next_multiple_of(alignment) - address;
        // Of the zones that the alignment needed beyond the block's, only the one with descriptors stays.
        let from = start + (block - first) / ZONE_BYTES * ZONE_BYTES;
        let to = start + (block + size - start).next_multiple_of(ZONE_BYTES);
        self.trim_extent(start, from, to)?;
        self.region.put(from + zone::BYTES, size)?;
        self.region.put(from + zone::BLOCK, block - from)?;
        Ok((block, to - block))
    }

    #[cold]
    fn too_large(&self, wanted_bytes: u64) -> crate::Error {
        ErrorKind::Full {
            path: "(heap)".into(),
            limit_bytes: self.region.end(),
            wanted_bytes,
        }
        .into()
    }

    /// Gives a block back.
    ///
    /// # Errors
    /// When `offset` is not the start of a program's block.
    pub fn block_free(&mut self, offset: u64) -> Result<()> {
        self.block_of_program(offset)?;
        self.free(offset)
    }

    /// How many bytes of a block may be used: at least as many as were asked for.
    ///
    /// # Errors
    /// As [`Heap::block_free`].
    pub fn block_bytes(&self, offset: u64) -> Result<u64> {
        Ok(self.block_of_program(offset)?.bytes)
    }

    /// The start and the bytes of the block that each of `offsets` (in ascending order) lies in, wherever in it; none where nothing is
    /// handed out to the program. In proportion to the heap: for people.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn blocks_around(&self, offsets: &[u64]) -> Result<Vec<Option<(u64, u64)>>> {
        let blocks = crate::zones::blocks_around(&self.region, offsets)?;
        let of_program = |block: Option<Block>| block.filter(|block| block.of_program);
        let places = blocks.into_iter().map(of_program);
        Ok(places
            .map(|block| Some((block?.start, block?.bytes)))
            .collect())
    }

    /// Makes a block `size` bytes long, where it is or elsewhere, and returns where. What both lengths have is kept.
    ///
    /// # Errors
    /// As [`Heap::block_new`] and [`Heap::block_free`]; the block is as it was then.
    pub fn block_resize(&mut self, offset: u64, size: u64) -> Result<u64> {
        let old = self.block_of_program(offset)?;
        // Growing within what it has costs nothing; shrinking is worth a move where half would be idle.
        if size <= old.bytes && (size > old.bytes / 2 || old.bytes <= 2 * ALIGNMENT) {
            return Ok(offset);
        }
        let new = self.block_new(size, ALIGNMENT)?;
        let kept = size.min(old.bytes);
        self.region.copy_within(offset, new, kept)?;
        self.block_free(offset)?;
        Ok(new)
    }

    /// Zeroes a block from `from` to `to`.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn block_clear(&mut self, offset: u64, bytes: u64) -> Result<()> {
        self.region.bytes_mut(offset, bytes)?.fill(0);
        Ok(())
    }

    fn block_of_program(&self, offset: u64) -> Result<Block> {
        let block = self.block_at(offset)?;
        if block.of_program && block.start == offset {
            Ok(block)
        } else {
            Err(self
                .region
                .damaged(offset, "not the start of a block that a program asked for"))
        }
    }

    /// The block that a program named, if it did.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn name_find(&self, name: &[u8]) -> Result<Option<u64>> {
        let Some(names) = self.root_find(NAMES)? else {
            return Ok(None);
        };
        let Some(slot) = self.find(names, name)? else {
            return Ok(None);
        };
        match self.cell(slot)? {
            Cell::Other([KIND_OFFSET, offset @ ..]) => match offset.try_into() {
                Ok(offset) => Ok(Some(u64::from_le_bytes(offset))),
                Err(_) => Err(self.no_offset(slot.0)),
            },
            _ => Err(self.no_offset(slot.0)),
        }
    }

    #[cold]
    fn no_offset(&self, at: u64) -> crate::Error {
        self.region.damaged(at, "a program's name for no offset")
    }

    /// Names an offset, or takes the name away. What it names is the program's affair.
    ///
    /// # Errors
    /// When the heap is full or damaged.
    pub fn name_set(&mut self, name: &[u8], offset: Option<u64>) -> Result<()> {
        let names = self.root(NAMES)?;
        let Some(offset) = offset else {
            return self.remove(names, name).map(drop);
        };
        let mut value = [KIND_OFFSET; 9];
        value[1..].copy_from_slice(&offset.to_le_bytes());
        let slot = self.entry(names, name)?;
        self.cell_set(slot, Cell::Other(&value))
    }

    /// Calls `visit` with each name and its offset, in the order of their making.
    ///
    /// # Errors
    /// Those of `visit`, and when the heap is damaged.
    pub fn for_each_name(&self, visit: &mut dyn FnMut(&[u8], u64) -> Result<()>) -> Result<()> {
        let Some(names) = self.root_find(NAMES)? else {
            return Ok(());
        };
        self.for_each(names, &mut |name, cell| match cell {
            Cell::Other([KIND_OFFSET, offset @ ..]) if offset.len() == 8 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(offset);
                visit(name, u64::from_le_bytes(bytes))
            }
            _ => Ok(()),
        })
    }
}

/// The class of a small block of this size and alignment; none for blocks of whole pages.
fn class_for(size: u64, alignment: u64) -> Option<u8> {
    if size > SLAB_BYTES_MAX || alignment > SLAB_BYTES_MAX {
        return None;
    }
    let first = CLASS16_OF[size.div_ceil(8) as usize];
    // Blocks lie at multiples of their size in their page.
    (first..CLASSES.len() as u8).find(|&class| {
        class_bytes(class).is_some_and(|bytes| bytes.is_multiple_of(alignment.max(ALIGNMENT)))
    })
}
