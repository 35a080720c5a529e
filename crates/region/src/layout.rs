//! The byte layout of the heap file and of its journal: every offset, size and magic of this crate is spelled here
//! and nowhere else; `docs/format.md` has the same tables and a test compares the two.
//!
//! All integers are little-endian. The invariant: a structure is at most one sector ([`SECTOR_BYTES`]) long and
//! does not straddle sectors, or it carries a checksum over all its bytes.
//!
//! ```text
//! HEAP            0  superblock A        (128 bytes used of a page)
//!              4096  superblock B
//!              8192  data ...            DATA_START; up to `end`
//!
//! HEAP.journal    0  journal header      (48 bytes used of a page)
//!              4096  note                what has been applied since the machine booted; never flushed
//!              8192  frames ...          each starts at a multiple of a sector
//! ```

/// The unit of dirty tracking: a cache line.
pub const LINE_BYTES: u64 = 64;
/// The unit of mapping, of `end`, and of writing back.
pub const PAGE_BYTES: u64 = 4096;
/// Lines in a page: a page's dirty lines are one `u64` mask.
pub const PAGE_LINES: u64 = PAGE_BYTES / LINE_BYTES;
/// What the medium writes atomically: a sector is old or new after a crash, never half.
pub const SECTOR_BYTES: u64 = 512;
/// Where the users' bytes start in the heap file.
pub const DATA_START: u64 = 8192;
/// Address space reserved for one region; less is tried where an address-space limit forbids it.
pub const RESERVE_BYTES_MAX: u64 = if cfg!(tsan) { 1 << 38 } else { 1 << 40 };
/// The least address space that is worth opening a region with.
pub const RESERVE_BYTES_MIN: u64 = 1 << 26;

/// Where heaps lie in programs that store by address, so that pointers in them stay true: the *arena*, 16 TiB that neither
/// executables, libraries and stacks (whichever way they are randomised) nor AddressSanitizer use. The code that tracks the stores of
/// such programs has these numbers in it (`cpp/pass/abi.h`).
///
/// ThreadSanitizer keeps most addresses for itself. In a library that it instruments (`--cfg tsan`: the project's own tests) the arena is 1 TiB of
/// what it leaves, and the cards lie in another gap; homes are closer together.
pub mod arena {
    /// An address lies in the arena if it is 1 when shifted right by this.
    pub const SHIFT: u32 = if cfg!(tsan) { 40 } else { 44 };
    pub const START: u64 = 1 << SHIFT;
    const END: u64 = 2 << SHIFT;
    /// The card of the line at an address: `(address >> CARD_SHIFT) + CARD_BIAS`. Those of all addresses, 2 TiB, lie behind the arena.
    pub const CARD_SHIFT: u32 = super::LINE_BYTES.ilog2();
    pub const CARD_BIAS: u64 = if cfg!(tsan) { 0x5780_0000_0000 } else { END };
    /// A process has no memory from here on.
    pub const ADDRESSES_END: u64 = 1 << 47;
    /// Homes are so far apart at least, and lie at multiples of it; none at the arena's start, where AddressSanitizer begins. So
    /// much is reserved for a heap at first; it grows into what lies behind if nobody is there.
    pub const HOME_STEP: u64 = if cfg!(tsan) { 8 << 30 } else { 64 << 30 };
    pub const HOME_FIRST: u64 = START + HOME_STEP;
    /// The last home, with room for a whole region before the arena's last 256 GiB, which are left free.
    pub const HOME_LAST: u64 = END - (256 << 30) - super::RESERVE_BYTES_MAX;

    /// Where the card of the line at `address` lies.
    pub const fn card(address: u64) -> u64 {
        (address >> CARD_SHIFT) + CARD_BIAS
    }
}

/// Where the heap with this identity lies in programs that store by address, unless its superblock names another place.
pub fn home_of(uuid: &[u8; 16]) -> u64 {
    let homes = (arena::HOME_LAST - arena::HOME_FIRST) / arena::HOME_STEP + 1;
    arena::HOME_FIRST + checksum(uuid, 0) % homes * arena::HOME_STEP
}

/// Commits and checkpoints are numbered up to this, so that adding to a number never overflows; at a million commits a
/// second it lasts for 36,000 years.
pub const COUNT_MAX: u64 = (1 << 60) - 1;

/// The version of both files. Readers refuse other versions.
pub const FORMAT_VERSION: u32 = 1;

/// Seeds of XXH3-64, frozen with the format.
pub const SEED_SUPERBLOCK: u64 = 0x5065_7264_7572_6553;
pub const SEED_JOURNAL: u64 = 0x5065_7264_7572_654A;
pub const SEED_SALT: u64 = 0x5065_7264_7572_6543;
pub const SEED_PAGE: u64 = 0x5065_7264_7572_6546;

/// Superblock: offset of each copy, then the fields of one.
pub const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 4096];
pub const SUPERBLOCK_BYTES: usize = 128;
pub const SUPERBLOCK_MAGIC: [u8; 8] = *b"Perdure\n";
pub mod superblock {
    pub const MAGIC: usize = 0; // 8  "Perdure\n"
    pub const VERSION: usize = 8; // 4  FORMAT_VERSION
    pub const FLAGS: usize = 12; // 4  0; a reader refuses bits that it does not know
    pub const UUID: usize = 16; // 16 this heap, the same in its journal
    pub const GENERATION: usize = 32; // 8  number of this checkpoint, from 1
    pub const SEQ: usize = 40; // 8  last commit that the heap file holds by itself
    pub const END: usize = 48; // 8  one past the last committed byte; multiple of a page
    pub const LIMIT: usize = 56; // 8  largest end allowed; 0: none
    pub const HOME: usize = 64; // 8  address at which C programs map it
    pub const CREATED_S: usize = 72; // 8  seconds since 1970, for people
    pub const RESERVED: usize = 80; // 40 zero
    pub const CHECKSUM: usize = 120; // 8  XXH3-64 of bytes 0..120, SEED_SUPERBLOCK
}

pub const JOURNAL_HEADER_BYTES: usize = 48;
pub const JOURNAL_MAGIC: [u8; 8] = *b"PerdureJ";
pub mod journal_header {
    pub const MAGIC: usize = 0; // 8  "PerdureJ"
    pub const VERSION: usize = 8; // 4  FORMAT_VERSION
    pub const FLAGS: usize = 12; // 4  0
    pub const UUID: usize = 16; // 16 the heap that it belongs to
    pub const RESERVED: usize = 32; // 8  zero
    pub const CHECKSUM: usize = 40; // 8  XXH3-64 of bytes 0..40, SEED_JOURNAL
}

/// The note lives beside the journal and is believed only by the boot of the machine that wrote it.
pub const NOTE_OFFSET: u64 = 4096;
pub const NOTE_BYTES: usize = 80;
pub mod note {
    pub const BOOT: usize = 0; // 16 boot identity of the machine
    pub const GENERATION: usize = 16; // 8  generation of the superblock that it refers to
    pub const APPLIED_SEQ: usize = 24; // 8  frames up to this one are in the heap file, through the page cache
    pub const TAIL: usize = 32; // 8  where the frame after it starts
    pub const CHAIN: usize = 40; // 8  checksum of that last applied frame
    pub const END: usize = 48; // 8  `end` as of it
    pub const TIME_S: usize = 56; // 8  of that last applied frame, seconds since 1970
    pub const RESERVED: usize = 64; // 8  zero
    pub const CHECKSUM: usize = 72; // 8  XXH3-64 of bytes 0..72, SEED_JOURNAL
}

/// Behind the note, 8 bytes: the process that opened the heap for writing last, for messages; never flushed.
pub const WRITER_PID_OFFSET: u64 = NOTE_OFFSET + 512;

/// Where the first frame of a generation starts.
pub const FRAMES_START: u64 = 8192;
/// A journal is made with so many bytes, and has never fewer.
pub const JOURNAL_BYTES_MIN: u64 = FRAMES_START + (32 << 10);
pub const FRAME_MAGIC: u32 = u32::from_le_bytes(*b"Frm1");
pub const FRAME_HEADER_BYTES: usize = 96;
pub mod frame {
    pub const MAGIC: usize = 0; // 4  "Frm1"
    pub const RUN_COUNT: usize = 4; // 4  runs of changed lines
    pub const SEQ: usize = 8; // 8  number of the commit, one more than the frame before
    pub const GENERATION: usize = 16; // 8  of the superblock that it follows
    pub const DURABLE_SEQ: usize = 24; // 8  testimony: commits up to this one were flushed when this was written
    pub const PAYLOAD_BYTES: usize = 32; // 8  bytes behind this header: runs, fresh checksums, lines
    pub const OLD_END: usize = 40; // 8  end before this commit
    pub const NEW_END: usize = 48; // 8  end after it
    pub const TIME_S: usize = 56; // 8  seconds since 1970, for people
    pub const CHAIN: usize = 64; // 8  checksum of the frame before, or the generation's salt
    pub const FRESH_COUNT: usize = 72; // 4  pages of fresh space, each with its sum
    pub const PAGE_COUNT: usize = 76; // 4  changed pages, each with its sum
    pub const NONCE: usize = 80; // 8  of the process that wrote it: no two processes write the same frame
    pub const CHECKSUM: usize = 88; // 8  XXH3-64 of header 0..88 and payload, seeded with CHAIN
}
/// A run in a frame's payload: offset (8), length in bytes (8); both multiples of a line.
pub const RUN_BYTES: usize = 16;
/// Sums of pages: 8 bytes each, in frames and in the sums file; 0 is "not known".
pub const SUM_BYTES: usize = 8;

/// `HEAP.sums`: a header, then the sum of each page of the heap file as of the checkpoint, by page number.
pub const SUMS_HEADER_BYTES: usize = 56;
pub const SUMS_MAGIC: [u8; 8] = *b"PerdureS";
pub const SUMS_START: u64 = 4096;
pub mod sums_header {
    pub const MAGIC: usize = 0; // 8  "PerdureS"
    pub const VERSION: usize = 8; // 4  FORMAT_VERSION
    pub const FLAGS: usize = 12; // 4  0
    pub const UUID: usize = 16; // 16 the heap that it belongs to
    pub const GENERATION: usize = 32; // 8  of the superblock that it was written for
    pub const RESERVED: usize = 40; // 8  zero
    pub const CHECKSUM: usize = 48; // 8  XXH3-64 of bytes 0..48, SEED_JOURNAL
}

const _: () = {
    assert!(
        superblock::CHECKSUM + 8 == SUPERBLOCK_BYTES && SUPERBLOCK_BYTES as u64 <= SECTOR_BYTES
    );
    assert!(journal_header::CHECKSUM + 8 == JOURNAL_HEADER_BYTES);
    assert!(note::CHECKSUM + 8 == NOTE_BYTES && NOTE_BYTES as u64 <= SECTOR_BYTES);
    assert!(frame::CHECKSUM + 8 == FRAME_HEADER_BYTES);
    assert!(sums_header::CHECKSUM + 8 == SUMS_HEADER_BYTES);
    assert!(PAGE_LINES == 64);
    assert!(DATA_START.is_multiple_of(PAGE_BYTES) && FRAMES_START.is_multiple_of(SECTOR_BYTES));
    assert!(SUPERBLOCK_OFFSETS[1] + PAGE_BYTES == DATA_START);
};

/// Reads a little-endian integer out of a structure's bytes.
pub fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// As [`get_u64`], four bytes.
pub fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

/// Writes a little-endian integer into a structure's bytes.
pub fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// As [`put_u64`], four bytes.
pub fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// The checksum of the whole format.
pub fn checksum(bytes: &[u8], seed: u64) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// In the file of sums: it is not known, and its space was not given back.
pub const SUM_OWED: u64 = 1;

/// The sum of one page's bytes; never 0 nor [`SUM_OWED`].
pub fn page_sum(page: &[u8]) -> u64 {
    checksum(page, SEED_PAGE).max(SUM_OWED + 1)
}

/// What the first frame of `generation` is chained to: frames of other generations and other heaps never fit.
pub fn salt(uuid: &[u8; 16], generation: u64) -> u64 {
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(uuid);
    put_u64(&mut bytes, 16, generation);
    checksum(&bytes, SEED_SALT)
}

/// One checkpoint: what is known of the heap file without its journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    pub uuid: [u8; 16],
    pub generation: u64,
    pub seq: u64,
    pub end: u64,
    pub limit: u64,
    pub home: u64,
    pub created_s: u64,
}

/// Why bytes are not a superblock of ours.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SuperblockFault {
    /// All zero: never written.
    Blank,
    /// Another magic: another kind of file.
    Foreign,
    /// Ours, but of a version that this program does not read.
    Version(u32),
    /// Ours, with unknown flags.
    Flags(u32),
    /// The checksum or a bound does not hold.
    Damaged,
}

impl Superblock {
    /// Where programs that store by address have this heap: the superblock's HOME, if heaps can lie there.
    pub fn home_address(&self) -> u64 {
        let homes = arena::HOME_FIRST..=arena::HOME_LAST;
        if homes.contains(&self.home) && self.home.is_multiple_of(arena::HOME_STEP) {
            self.home
        } else {
            home_of(&self.uuid)
        }
    }

    pub fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        use superblock as at;
        let mut bytes = [0; SUPERBLOCK_BYTES];
        bytes[at::MAGIC..at::MAGIC + 8].copy_from_slice(&SUPERBLOCK_MAGIC);
        put_u32(&mut bytes, at::VERSION, FORMAT_VERSION);
        bytes[at::UUID..at::UUID + 16].copy_from_slice(&self.uuid);
        put_u64(&mut bytes, at::GENERATION, self.generation);
        put_u64(&mut bytes, at::SEQ, self.seq);
        put_u64(&mut bytes, at::END, self.end);
        put_u64(&mut bytes, at::LIMIT, self.limit);
        put_u64(&mut bytes, at::HOME, self.home);
        put_u64(&mut bytes, at::CREATED_S, self.created_s);
        let sum = checksum(&bytes[..at::CHECKSUM], SEED_SUPERBLOCK);
        put_u64(&mut bytes, at::CHECKSUM, sum);
        bytes
    }

    /// Reads and checks one copy. Version and flags are looked at before the checksum, so that a file of the future
    /// is told from a damaged one.
    pub fn decode(bytes: &[u8; SUPERBLOCK_BYTES]) -> Result<Superblock, SuperblockFault> {
        use superblock as at;
        if bytes.iter().all(|&b| b == 0) {
            return Err(SuperblockFault::Blank);
        }
        if bytes[at::MAGIC..at::MAGIC + 8] != SUPERBLOCK_MAGIC {
            return Err(SuperblockFault::Foreign);
        }
        let sum_holds =
            get_u64(bytes, at::CHECKSUM) == checksum(&bytes[..at::CHECKSUM], SEED_SUPERBLOCK);
        let version = get_u32(bytes, at::VERSION);
        if version != FORMAT_VERSION {
            return Err(SuperblockFault::Version(version));
        }
        if !sum_holds {
            return Err(SuperblockFault::Damaged);
        }
        let flags = get_u32(bytes, at::FLAGS);
        if flags != 0 {
            return Err(SuperblockFault::Flags(flags));
        }
        let mut uuid = [0; 16];
        uuid.copy_from_slice(&bytes[at::UUID..at::UUID + 16]);
        let found = Superblock {
            uuid,
            generation: get_u64(bytes, at::GENERATION),
            seq: get_u64(bytes, at::SEQ),
            end: get_u64(bytes, at::END),
            limit: get_u64(bytes, at::LIMIT),
            home: get_u64(bytes, at::HOME),
            created_s: get_u64(bytes, at::CREATED_S),
        };
        let bounds_hold = found.end.is_multiple_of(PAGE_BYTES)
            && (DATA_START..=RESERVE_BYTES_MAX).contains(&found.end)
            && (1..=COUNT_MAX).contains(&found.generation)
            && found.seq <= COUNT_MAX;
        if bounds_hold {
            Ok(found)
        } else {
            Err(SuperblockFault::Damaged)
        }
    }
}

/// The journal's header for the heap `uuid`.
pub fn encode_journal_header(uuid: &[u8; 16]) -> [u8; JOURNAL_HEADER_BYTES] {
    use journal_header as at;
    let mut bytes = [0; JOURNAL_HEADER_BYTES];
    bytes[at::MAGIC..at::MAGIC + 8].copy_from_slice(&JOURNAL_MAGIC);
    put_u32(&mut bytes, at::VERSION, FORMAT_VERSION);
    bytes[at::UUID..at::UUID + 16].copy_from_slice(uuid);
    let sum = checksum(&bytes[..at::CHECKSUM], SEED_JOURNAL);
    put_u64(&mut bytes, at::CHECKSUM, sum);
    bytes
}

/// The sums file's header for the heap `uuid` as of the checkpoint `generation`.
pub fn encode_sums_header(uuid: &[u8; 16], generation: u64) -> [u8; SUMS_HEADER_BYTES] {
    use sums_header as at;
    let mut bytes = [0; SUMS_HEADER_BYTES];
    bytes[at::MAGIC..at::MAGIC + 8].copy_from_slice(&SUMS_MAGIC);
    put_u32(&mut bytes, at::VERSION, FORMAT_VERSION);
    bytes[at::UUID..at::UUID + 16].copy_from_slice(uuid);
    put_u64(&mut bytes, at::GENERATION, generation);
    let sum = checksum(&bytes[..at::CHECKSUM], SEED_JOURNAL);
    put_u64(&mut bytes, at::CHECKSUM, sum);
    bytes
}

/// What the note says. See [`note`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Note {
    pub boot: [u8; 16],
    pub generation: u64,
    pub applied_seq: u64,
    pub tail: u64,
    pub chain: u64,
    pub end: u64,
    pub time_s: u64,
}

impl Note {
    pub fn encode(&self) -> [u8; NOTE_BYTES] {
        use note as at;
        let mut bytes = [0; NOTE_BYTES];
        bytes[at::BOOT..at::BOOT + 16].copy_from_slice(&self.boot);
        put_u64(&mut bytes, at::GENERATION, self.generation);
        put_u64(&mut bytes, at::APPLIED_SEQ, self.applied_seq);
        put_u64(&mut bytes, at::TAIL, self.tail);
        put_u64(&mut bytes, at::CHAIN, self.chain);
        put_u64(&mut bytes, at::END, self.end);
        put_u64(&mut bytes, at::TIME_S, self.time_s);
        let sum = checksum(&bytes[..at::CHECKSUM], SEED_JOURNAL);
        put_u64(&mut bytes, at::CHECKSUM, sum);
        bytes
    }

    /// None where the bytes are not a whole note: then there is none.
    pub fn decode(bytes: &[u8; NOTE_BYTES]) -> Option<Note> {
        use note as at;
        if get_u64(bytes, at::CHECKSUM) != checksum(&bytes[..at::CHECKSUM], SEED_JOURNAL) {
            return None;
        }
        let mut boot = [0; 16];
        boot.copy_from_slice(&bytes[at::BOOT..at::BOOT + 16]);
        Some(Note {
            boot,
            generation: get_u64(bytes, at::GENERATION),
            applied_seq: get_u64(bytes, at::APPLIED_SEQ),
            tail: get_u64(bytes, at::TAIL),
            chain: get_u64(bytes, at::CHAIN),
            end: get_u64(bytes, at::END),
            time_s: get_u64(bytes, at::TIME_S),
        })
    }
}
