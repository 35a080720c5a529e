//! The byte layout of objects in a heap: every offset, size and magic of this crate is spelled here and nowhere else;
//! `docs/format.md` has the same tables and a test compares the two.
//!
//! ```text
//! DATA_START        heap header, one page
//! ZONES_START       zone 0, zone 1, ...   256 KiB each; the last may be shorter
//! ```
//!
//! A zone begins with a page of 64 descriptors of a line each: descriptor 0 describes the zone, descriptor i its page i.
//! So a burst of allocations dirties one descriptor line per page of blocks, apart from the blocks themselves.

use region::{DATA_START, LINE_BYTES, PAGE_BYTES};

pub const HEAP_VERSION: u32 = 2;
pub const HEAP_MAGIC: u64 = u64::from_le_bytes(*b"PdHeap1\n");
/// Where the heap's header lies.
pub const HEADER: u64 = DATA_START;
pub mod header {
    pub const MAGIC: u64 = 0; // 8  "PdHeap1\n"
    pub const VERSION: u64 = 8; // 4  HEAP_VERSION
    pub const ZONE_COUNT: u64 = 12; // 4  zones so far
    pub const ROOTS: u64 = 16; // 8  table of named roots
    pub const HASH_SEED: u64 = 24; // 8  random, so that nobody can choose keys that collide
    pub const PARTIAL_ZONES: u64 = 32; // 4  first small zone with free pages, + 1
    pub const FREE_RUNS: u64 = 36; // 4  first run of free zones, + 1
    pub const FREE_ZONES: u64 = 40; // 8  zones in those runs
    pub const LIVE_BLOCKS: u64 = 48; // 8  blocks handed out
    pub const LIVE_BYTES: u64 = 56; // 8  their usable bytes
    pub const CLASS_HEADS: u64 = 64; // 4 each: first page with free blocks of the class, + 1
    pub const PROGRAM_HEADS: u64 = 212; // 4 each: the same of the blocks that a program asked for
}

pub const ZONES_START: u64 = HEADER + PAGE_BYTES;
pub const ZONE_PAGES: u64 = 64;
pub const ZONE_BYTES: u64 = ZONE_PAGES * PAGE_BYTES;

/// Kinds of zones.
pub const ZONE_SMALL: u32 = 0x5a53_6d6c;
pub const ZONE_LARGE: u32 = 0x5a4c_7267;
pub const ZONE_FREE: u32 = 0x5a46_7265;
pub mod zone {
    pub const KIND: u64 = 0; // 4  ZONE_SMALL, ZONE_LARGE (first of an extent), ZONE_FREE (first of a run)
    pub const NEXT: u64 = 4; // 4  next in its list, + 1
    pub const PREV: u64 = 8; // 4  previous in its list, + 1
    pub const SPAN: u64 = 12; // 4  zones of the extent or run; 1 for small
    pub const FREE_PAGES: u64 = 16; // 8  small: bit i is set if page i is free
    pub const PRESENT: u64 = 24; // 4  small: pages that exist (the last zone may be short)
    pub const DISCARDED: u64 = 28; // 4  free: 1 if its space was given back
    pub const BYTES: u64 = 32; // 8  large: bytes asked for
    pub const BLOCK: u64 = 40; // 8  large, a program's: where its block starts in the extent; 0: not a program's
}

/// In a page's CLASS: its blocks are a program's, who refers to them as it likes. So they have pages of their own.
pub const OF_PROGRAM: u8 = 0x80;
/// Kinds of pages in a small zone.
pub const PAGE_FREE: u8 = 0;
pub const PAGE_SLAB: u8 = 1;
pub const PAGE_RUN: u8 = 2;
pub const PAGE_RUN_TAIL: u8 = 3;
pub mod page {
    pub const KIND: u64 = 0; // 1
    pub const CLASS: u64 = 1; // 1  slab: size class; of a program: + OF_PROGRAM, and the first page of a run has OF_PROGRAM
    pub const FREE_COUNT: u64 = 2; // 2  slab: free blocks
    pub const RUN_PAGES: u64 = 4; // 2  run: its pages
    pub const NEXT: u64 = 8; // 4  slab with free blocks: next of its class (page number), + 1
    pub const PREV: u64 = 12; // 4
    pub const FREE_BLOCKS: u64 = 16; // 32 slab: bit i is set if block i is free
}
pub const DESCRIPTOR_BYTES: u64 = LINE_BYTES;
pub const BITMAP_WORDS: u64 = 4;

/// Sizes of small blocks. To 128 in steps of 8, so that short strings waste little (only multiples of 16 are handed out
/// where 16-byte alignment is asked for); beyond, the sizes of which a page holds 28, 25, 23, ... 2.
pub const CLASSES: [u16; 37] = [
    16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224,
    240, 256, 272, 288, 312, 336, 368, 408, 448, 512, 584, 680, 816, 1024, 1360, 2048,
];
pub const SLAB_BYTES_MAX: u64 = 2048;
/// Runs of pages up to this many come out of a small zone; larger blocks are extents of zones.
pub const RUN_PAGES_MAX: u64 = 32;

/// Table: the header is one block.
pub const TABLE_BYTES: u64 = 64;
pub const TABLE_MAGIC: u32 = u32::from_le_bytes(*b"Tabl");
pub mod table {
    pub const MAGIC: u64 = 0; // 4  "Tabl"
    pub const DEPTH: u64 = 4; // 1  hash bits that choose the segment; 0: one segment
    pub const INDEX_BITS: u64 = 5; // 1  log2 of the slots of that one segment; 0: no index, entries are scanned
    pub const LAST_USED: u64 = 6; // 2  entries used in the last chunk
    pub const COUNT: u64 = 8; // 8  elements
    pub const INDEX: u64 = 16; // 8  the segment (DEPTH 0) or the directory
    pub const FIRST: u64 = 24; // 8  first chunk, in order of insertion
    pub const LAST: u64 = 32; // 8  last chunk
    pub const LAST_CAPACITY: u64 = 40; // 2  entries that the last chunk has room for
    pub const RUN_OPEN: u64 = 42; // 2  1: the next whole number may still join the run
    pub const RUN_COUNT: u64 = 44; // 4  entries of the run, holes included
    pub const RUN_FIRST: u64 = 48; // 8  key of its first entry, two's complement
    pub const RUN_CHUNKS: u64 = 56; // 8  list of its chunks; 0: there is one, the table's first
}

/// Chunk: entries in order of insertion.
pub mod chunk {
    pub const NEXT: u64 = 0; // 8
    pub const PREV: u64 = 8; // 8
    pub const CAPACITY: u64 = 16; // 2  entries that it has room for
    pub const USED: u64 = 18; // 2  entries used, holes included; stands in the table's header for the last chunk
    pub const LIVE: u64 = 20; // 2  holes not included; for the last chunk too
    pub const IN_RUN: u64 = 22; // 2  1: has entries of the table's run
    pub const TABLE: u64 = 24; // 8  whose it is
}
pub const CHUNK_HEADER_BYTES: u64 = 32;
/// Bytes of a table's first, second, third and every further chunk: small tables stay small.
pub const CHUNK_BYTES: [u64; 4] = [160, 512, 2048, 4096];
/// The list of a run's chunks has their offsets, 0 for one that was given back; it begins with room for 8.
pub const RUN_CHUNK_BYTES: u64 = 8;
pub const RUN_CHUNKS_BYTES_MIN: u64 = 64;

/// Entry: key cell, value cell.
pub const ENTRY_BYTES: u64 = 32;
pub const VALUE: u64 = 16;
/// Offset of the tag in a cell of 16 bytes.
pub const TAG: u64 = 15;
/// Text of up to this many bytes lies in the cell itself.
pub const INLINE_BYTES_MAX: usize = 15;
/// Key tags: length for an inline key, else
pub const KEY_BLOB: u8 = 0xff; // 0..8 offset, 8..14 length
pub const KEY_HOLE: u8 = 0xfe; // the entry was deleted
/// Value tags.
pub const VALUE_UNINIT: u8 = 0;
pub const VALUE_NUM: u8 = 1; // 0..8 IEEE 754 double
pub const VALUE_BLOB: u8 = 2; // string: 0..8 offset, 8..14 length
pub const VALUE_BLOB_MAYBE_NUM: u8 = 3; // string from input that may count as a number
pub const VALUE_TABLE: u8 = 4; // 0..8 offset
pub const VALUE_BLOB_OTHER: u8 = 5; // text of another kind, which its first byte tells
pub const VALUE_INLINE: u8 = 0x10; // + length
pub const VALUE_INLINE_MAYBE_NUM: u8 = 0x20; // + length
pub const VALUE_INLINE_OTHER: u8 = 0x30; // + length
pub const BLOB_LEN_MASK: u64 = (1 << 48) - 1;

/// Index: slots of 8 bytes: 28 high bits of the hash, then the entry's offset / 16; 0 is empty.
pub const SLOT_BYTES: u64 = 8;
pub const SLOT_OFFSET_BITS: u32 = 36;
pub const TAG_BITS: u32 = 64 - SLOT_OFFSET_BITS;
/// Slots of a segment of a table with a directory: one page.
pub const SEGMENT_SLOTS: u64 = PAGE_BYTES / SLOT_BYTES;
pub const SEGMENT_BITS: u8 = 9;
/// The first index has 2^this slots.
pub const INDEX_BITS_MIN: u8 = 4;
/// Tables with at most this many used entries have no index.
pub const SCANNED_ENTRIES_MAX: u64 = 4;
/// A segment is split when an insertion would go further than this from its home.
pub const PROBES_MAX: u64 = 48;
pub const DEPTH_MAX: u8 = 26;
/// Directory entries are page numbers of 4 bytes.
pub const DIRECTORY_ENTRY_BYTES: u64 = 4;

/// Longest text of one key or value.
pub const TEXT_BYTES_MAX: usize = (1 << 40) - 1;

const _: () = {
    assert!(DESCRIPTOR_BYTES * ZONE_PAGES == PAGE_BYTES);
    assert!(page::FREE_BLOCKS + BITMAP_WORDS * 8 <= DESCRIPTOR_BYTES);
    assert!(PAGE_BYTES / CLASSES[0] as u64 <= BITMAP_WORDS * 64);
    assert!(header::CLASS_HEADS + 4 * CLASSES.len() as u64 == header::PROGRAM_HEADS);
    assert!(header::PROGRAM_HEADS + 4 * CLASSES.len() as u64 <= PAGE_BYTES);
    assert!(CLASSES.len() < OF_PROGRAM as usize);
    assert!(SEGMENT_SLOTS == 1 << SEGMENT_BITS);
    assert!(table::RUN_CHUNKS + 8 == TABLE_BYTES);
    assert!(table::RUN_FIRST == table::RUN_COUNT + 4); // they are read together
    assert!((CHUNK_BYTES[3] - CHUNK_HEADER_BYTES).is_multiple_of(ENTRY_BYTES));
    assert!(CLASSES[CLASSES.len() - 1] as u64 == SLAB_BYTES_MAX);
};
