//! The redo journal: one frame per commit, chained by checksums. This file knows how a frame is written, checked and
//! read back; when that happens is `commit.rs` and `open.rs`.
//!
//! The invariant: a frame is valid if and only if its checksum, seeded with the checksum of the frame before it (or
//! with the generation's salt), holds. Nothing else says that a commit happened.

use crate::cards::DirtyPage;
use crate::layout::{
    self, FRAME_HEADER_BYTES, FRAME_MAGIC, LINE_BYTES, PAGE_BYTES, RUN_BYTES, SECTOR_BYTES,
    SUM_BYTES, Superblock, frame as at, get_u32, get_u64, put_u32, put_u64,
};
use crate::storage::Storage;
use std::io;
use std::ops::Range;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Frames are written, checked and replayed through buffers of this size, whatever their own.
const CHUNK_BYTES: usize = 1 << 20;

/// A frame's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) run_count: u32,
    pub(crate) seq: u64,
    pub(crate) generation: u64,
    pub(crate) durable_seq: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) old_end: u64,
    pub(crate) new_end: u64,
    pub(crate) time_s: u64,
    pub(crate) chain: u64,
    pub(crate) fresh_count: u32,
    pub(crate) page_count: u32,
    pub(crate) nonce: u64,
}

impl Header {
    /// Everything but the checksum, which is the last field.
    fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        put_u32(&mut bytes, at::MAGIC, FRAME_MAGIC);
        put_u32(&mut bytes, at::RUN_COUNT, self.run_count);
        put_u64(&mut bytes, at::SEQ, self.seq);
        put_u64(&mut bytes, at::GENERATION, self.generation);
        put_u64(&mut bytes, at::DURABLE_SEQ, self.durable_seq);
        put_u64(&mut bytes, at::PAYLOAD_BYTES, self.payload_bytes);
        put_u64(&mut bytes, at::OLD_END, self.old_end);
        put_u64(&mut bytes, at::NEW_END, self.new_end);
        put_u64(&mut bytes, at::TIME_S, self.time_s);
        put_u64(&mut bytes, at::CHAIN, self.chain);
        put_u32(&mut bytes, at::FRESH_COUNT, self.fresh_count);
        put_u32(&mut bytes, at::PAGE_COUNT, self.page_count);
        put_u64(&mut bytes, at::NONCE, self.nonce);
        bytes
    }

    fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Option<Header> {
        (get_u32(bytes, at::MAGIC) == FRAME_MAGIC).then(|| Header {
            run_count: get_u32(bytes, at::RUN_COUNT),
            seq: get_u64(bytes, at::SEQ),
            generation: get_u64(bytes, at::GENERATION),
            durable_seq: get_u64(bytes, at::DURABLE_SEQ),
            payload_bytes: get_u64(bytes, at::PAYLOAD_BYTES),
            old_end: get_u64(bytes, at::OLD_END),
            new_end: get_u64(bytes, at::NEW_END),
            time_s: get_u64(bytes, at::TIME_S),
            chain: get_u64(bytes, at::CHAIN),
            fresh_count: get_u32(bytes, at::FRESH_COUNT),
            page_count: get_u32(bytes, at::PAGE_COUNT),
            nonce: get_u64(bytes, at::NONCE),
        })
    }

    /// Bytes that the frame takes in the journal.
    fn stored_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES as u64 + self.payload_bytes).next_multiple_of(SECTOR_BYTES)
    }

    /// Where the sums of changed pages start; those of fresh pages follow.
    fn sum_table(&self) -> u64 {
        FRAME_HEADER_BYTES as u64 + u64::from(self.run_count) * RUN_BYTES as u64
    }

    fn sum_count(&self) -> u64 {
        u64::from(self.page_count) + u64::from(self.fresh_count)
    }

    fn lines_start(&self) -> u64 {
        self.sum_table() + self.sum_count() * SUM_BYTES as u64
    }
}

/// A frame that was found valid, and where.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) offset: u64,
    pub(crate) checksum: u64,
}

impl Frame {
    pub(crate) fn end_offset(&self) -> u64 {
        self.offset + self.header.stored_bytes()
    }

    pub(crate) fn has_fresh(&self) -> bool {
        self.header.new_end > self.header.old_end
    }
}

/// What the next frame is chained to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) offset: u64,
    pub(crate) chain: u64,
    pub(crate) seq: u64,
    pub(crate) end: u64,
}

/// The sum of each page of `bytes`.
pub(crate) fn page_sums(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks(PAGE_BYTES as usize)
        .map(layout::page_sum)
        .collect()
}

/// What one commit puts into a frame.
pub(crate) struct Contents<'a> {
    pub(crate) generation: u64,
    pub(crate) durable_seq: u64,
    pub(crate) new_end: u64,
    pub(crate) time_s: u64,
    /// Of this handle: a frame that is written anew must not be the one that a crash took, or what was chained to
    /// that one would come back.
    pub(crate) nonce: u64,
    /// Pages with changed lines: ascending. Their runs are not gathered: a large commit has more of them than memory.
    pub(crate) pages: &'a [DirtyPage],
    /// The sum of each of these pages.
    pub(crate) page_sums: &'a [u64],
    /// The sum of each page of fresh space.
    pub(crate) fresh_sums: &'a [u64],
}

impl Contents<'_> {
    pub(crate) fn run_count(&self) -> u64 {
        self.pages
            .iter()
            .map(|page| u64::from(page.run_count()))
            .sum()
    }

    /// Changed lines, adjacent ones as one range.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        self.pages.iter().flat_map(|page| page.runs())
    }

    /// How many lines changed.
    pub(crate) fn lines(&self) -> u64 {
        self.pages
            .iter()
            .map(|page| u64::from(page.lines.count_ones()))
            .sum()
    }

    /// How many sums of pages.
    pub(crate) fn sum_count(&self) -> u64 {
        (self.page_sums.len() + self.fresh_sums.len()) as u64
    }

    /// Where in the frame the content of the first run begins.
    pub(crate) fn lines_start(&self) -> u64 {
        let tables = self.run_count() * RUN_BYTES as u64 + self.sum_count() * SUM_BYTES as u64;
        FRAME_HEADER_BYTES as u64 + tables
    }

    fn payload_bytes(&self) -> u64 {
        self.lines_start() - FRAME_HEADER_BYTES as u64 + self.lines() * LINE_BYTES
    }

    /// Bytes that the frame will take in the journal.
    pub(crate) fn stored_bytes(&self) -> u64 {
        (FRAME_HEADER_BYTES as u64 + self.payload_bytes()).next_multiple_of(SECTOR_BYTES)
    }
}

/// Appends a frame behind `tail` and returns the new tail and the bytes written. `line` gives the content of a run; `check` is
/// called when all content was read, before the frame can be valid.
///
/// On an error nothing of the chain has changed: the bytes behind `tail` are not a valid frame, or, if they are, it is
/// the frame that was to be written.
pub(crate) fn append<'m>(
    journal: &mut dyn Storage,
    tail: Tail,
    contents: &Contents<'_>,
    line: impl Fn(&Range<u64>) -> &'m [u8],
    check: impl FnOnce() -> io::Result<()>,
) -> io::Result<(Tail, u64)> {
    let run_count = u32::try_from(contents.run_count())
        .map_err(|_| io::Error::other("too many changed lines in one commit"))?;
    let header = Header {
        run_count,
        seq: tail.seq + 1,
        generation: contents.generation,
        durable_seq: contents.durable_seq,
        payload_bytes: contents.payload_bytes(),
        old_end: tail.end,
        new_end: contents.new_end,
        time_s: contents.time_s,
        chain: tail.chain,
        nonce: contents.nonce,
        fresh_count: u32::try_from(contents.fresh_sums.len())
            .map_err(|_| io::Error::other("too much fresh space in one commit"))?,
        page_count: contents.page_sums.len() as u32, // at most the runs
    };
    let mut out = ChunkedWriter::new(journal, tail.offset, tail.chain, contents.stored_bytes());
    for run in contents.runs() {
        let mut entry = [0; RUN_BYTES];
        put_u64(&mut entry, 0, run.start);
        put_u64(&mut entry, 8, run.end - run.start);
        out.push(&entry)?;
    }
    for sum in contents.page_sums.iter().chain(contents.fresh_sums) {
        out.push(&sum.to_le_bytes())?;
    }
    for run in contents.runs() {
        out.push(line(&run))?;
    }
    check()?;
    let checksum = out.finish(&header)?;
    let next = Tail {
        offset: tail.offset + header.stored_bytes(),
        chain: checksum,
        seq: header.seq,
        end: header.new_end,
    };
    Ok((next, header.stored_bytes()))
}

/// Writes a frame: in one go when it is small, else payload first and header last.
struct ChunkedWriter<'s> {
    journal: &'s mut dyn Storage,
    start: u64,
    /// Header space, then payload, as far as it is not written yet.
    buffer: Vec<u8>,
    written: u64,
    chain: u64,
    /// Of the payload that is written; one that fits into the buffer is hashed at once, without the state that takes longer to set up than a small commit to hash.
    hash: Option<Xxh3>,
}

impl<'s> ChunkedWriter<'s> {
    fn new(journal: &'s mut dyn Storage, start: u64, chain: u64, stored_bytes: u64) -> Self {
        // Its header is there twice while the checksum is made.
        let room = stored_bytes.min(CHUNK_BYTES as u64) as usize + FRAME_HEADER_BYTES;
        let mut buffer = Vec::with_capacity(room);
        buffer.resize(FRAME_HEADER_BYTES, 0);
        ChunkedWriter {
            journal,
            start,
            buffer,
            written: 0,
            chain,
            hash: None,
        }
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            let payload = if self.written == 0 {
                FRAME_HEADER_BYTES
            } else {
                0
            };
            let chain = self.chain;
            let hash = self.hash.get_or_insert_with(|| Xxh3::with_seed(chain));
            hash.update(&self.buffer[payload..]);
            self.journal
                .write_at(&self.buffer, self.start + self.written)?;
            self.written += self.buffer.len() as u64;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Pads, seals and returns the checksum.
    fn finish(mut self, header: &Header) -> io::Result<u64> {
        let mut head = header.encode();
        let checksum = match &mut self.hash {
            Some(hash) => {
                hash.update(&self.buffer);
                hash.update(&head[..at::CHECKSUM]);
                hash.digest()
            }
            None => {
                let payload_end = self.buffer.len();
                self.buffer.extend_from_slice(&head[..at::CHECKSUM]);
                let sum = xxh3_64_with_seed(&self.buffer[FRAME_HEADER_BYTES..], self.chain);
                self.buffer.truncate(payload_end);
                sum
            }
        };
        put_u64(&mut head, at::CHECKSUM, checksum);
        // What stands in the padding is nobody's: frames begin at sectors, and the checksum ends before it. Where bytes are addressed only the last line is
        // filled: a line that is written in part has to be read first.
        let missing = header.stored_bytes() - self.written - self.buffer.len() as u64;
        let missing = match self.journal.is_by_bytes() {
            true => missing % LINE_BYTES,
            false => missing,
        };
        self.buffer.resize(self.buffer.len() + missing as usize, 0);
        if self.written == 0 {
            self.buffer[..FRAME_HEADER_BYTES].copy_from_slice(&head);
            self.journal.write_at(&self.buffer, self.start)?;
        } else {
            self.journal
                .write_at(&self.buffer, self.start + self.written)?;
            self.journal.write_at(&head, self.start)?;
        }
        Ok(checksum)
    }
}

/// The frame behind `tail`, if there is a valid one. An unreadable journal is an error; anything else that is not the
/// next frame of this chain is its end.
pub(crate) fn next(
    journal: &dyn Storage,
    journal_len: u64,
    tail: Tail,
    generation: u64,
) -> io::Result<Option<Frame>> {
    let room = journal_len.saturating_sub(tail.offset);
    if room < FRAME_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let mut head = [0; FRAME_HEADER_BYTES];
    journal.read_at(&mut head, tail.offset)?;
    let Some(header) = Header::decode(&head) else {
        return Ok(None);
    };
    let fits = header.seq == tail.seq + 1
        && header.generation == generation
        && header.chain == tail.chain
        && header.old_end == tail.end
        && header.payload_bytes <= room - FRAME_HEADER_BYTES as u64;
    if !fits {
        return Ok(None);
    }
    let mut hash = Xxh3::with_seed(tail.chain);
    for_each_chunk(
        journal,
        tail.offset + FRAME_HEADER_BYTES as u64,
        header.payload_bytes,
        |chunk| hash.update(chunk),
    )?;
    hash.update(&head[..at::CHECKSUM]);
    let checksum = get_u64(&head, at::CHECKSUM);
    if hash.digest() != checksum {
        return Ok(None);
    }
    Ok(Some(Frame {
        header,
        offset: tail.offset,
        checksum,
    }))
}

/// Follows the chain from the checkpoint `superblock` to the journal's offset `end`. False if it breaks before, or `visit` says
/// that a frame is bad: one that was valid is not any more.
pub(crate) fn for_each_frame(
    journal: &dyn Storage,
    journal_len: u64,
    superblock: &Superblock,
    end: u64,
    mut visit: impl FnMut(&Frame) -> io::Result<bool>,
) -> io::Result<bool> {
    let mut tail = Tail::of(superblock);
    while tail.offset < end {
        let Some(frame) = next(journal, journal_len, tail, superblock.generation)? else {
            return Ok(false);
        };
        tail = Tail::behind(&frame);
        if !visit(&frame)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the journal holds, somewhere behind `tail`, a whole frame of this generation which testifies that the commit
/// after `tail` was durable: then the frame of that commit was there and is damaged, not torn by a crash.
pub(crate) fn is_missing_a_frame(
    journal: &dyn Storage,
    journal_len: u64,
    tail: Tail,
    generation: u64,
) -> io::Result<bool> {
    let mut candidates = Vec::new();
    let mut at = tail.offset;
    for_each_chunk(
        journal,
        tail.offset,
        journal_len.saturating_sub(tail.offset),
        |chunk| {
            for sector in chunk.chunks(SECTOR_BYTES as usize) {
                let head = sector
                    .first_chunk::<FRAME_HEADER_BYTES>()
                    .and_then(Header::decode);
                let testifies = |h: &Header| {
                    h.generation == generation && h.durable_seq > tail.seq && h.seq > h.durable_seq
                };
                if let Some(header) = head.filter(testifies) {
                    candidates.push((at, header));
                }
                at += SECTOR_BYTES;
            }
        },
    )?;
    for (offset, header) in candidates {
        let before = Tail {
            offset,
            chain: header.chain,
            seq: header.seq - 1,
            end: header.old_end,
        };
        if next(journal, journal_len, before, generation)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Tail {
    /// At the start of the journal of a checkpoint.
    pub(crate) fn of(superblock: &Superblock) -> Tail {
        Tail {
            offset: layout::FRAMES_START,
            chain: layout::salt(&superblock.uuid, superblock.generation),
            seq: superblock.seq,
            end: superblock.end,
        }
    }

    /// Behind `frame`.
    pub(crate) fn behind(frame: &Frame) -> Tail {
        Tail {
            offset: frame.end_offset(),
            chain: frame.checksum,
            seq: frame.header.seq,
            end: frame.header.new_end,
        }
    }
}

/// Calls `visit` with `len` bytes from `offset` on, in order, in chunks.
pub(crate) fn for_each_chunk(
    storage: &dyn Storage,
    offset: u64,
    len: u64,
    mut visit: impl FnMut(&[u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; (len as usize).min(CHUNK_BYTES)];
    let mut done = 0;
    while done < len {
        let chunk = &mut buffer[..((len - done) as usize).min(CHUNK_BYTES)];
        storage.read_at(chunk, offset + done)?;
        visit(chunk);
        done += chunk.len() as u64;
    }
    Ok(())
}

/// The contents of runs, read in chunks: they lie one behind the other, and a system call for each would take longer than
/// the bytes.
pub(crate) struct RunBytes<'s> {
    journal: &'s dyn Storage,
    journal_len: u64,
    buffer: Vec<u8>,
    /// Where in the journal the buffer's bytes lie.
    at: u64,
}

impl<'s> RunBytes<'s> {
    pub(crate) fn of(journal: &'s dyn Storage) -> io::Result<RunBytes<'s>> {
        Ok(RunBytes {
            journal,
            journal_len: journal.len()?,
            buffer: Vec::new(),
            at: 0,
        })
    }

    /// Fills `out` from `offset` of the journal on.
    pub(crate) fn read(&mut self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let held = self.at..self.at + self.buffer.len() as u64;
        if offset < held.start || offset + out.len() as u64 > held.end {
            let left = self.journal_len.saturating_sub(offset);
            let bytes = left.min(CHUNK_BYTES as u64).max(out.len() as u64);
            self.buffer.resize(bytes as usize, 0);
            self.at = offset;
            if let Err(error) = self.journal.read_at(&mut self.buffer, offset) {
                self.buffer.clear();
                return Err(error);
            }
        }
        let from = (offset - self.at) as usize;
        out.copy_from_slice(&self.buffer[from..from + out.len()]);
        Ok(())
    }
}

/// What is wrong with a frame whose checksum holds.
pub(crate) const FRAME_OUT_OF_BOUNDS: &str = "a journal frame with a run outside the heap";

/// A table in a frame, read in chunks whatever its length.
struct TableReader<'s, const ENTRY: usize> {
    journal: &'s dyn Storage,
    at: u64,
    left: u64,
    buffer: Vec<u8>,
    used: usize,
}

impl<'s, const ENTRY: usize> TableReader<'s, ENTRY> {
    fn new(journal: &'s dyn Storage, at: u64, entries: u64) -> Self {
        TableReader {
            journal,
            at,
            left: entries,
            buffer: Vec::new(),
            used: 0,
        }
    }

    fn next(&mut self) -> io::Result<Option<[u8; ENTRY]>> {
        if self.used == self.buffer.len() {
            let entries = self.left.min((CHUNK_BYTES / ENTRY) as u64);
            if entries == 0 {
                return Ok(None);
            }
            self.left -= entries;
            self.buffer.resize(entries as usize * ENTRY, 0);
            self.journal.read_at(&mut self.buffer, self.at)?;
            self.at += self.buffer.len() as u64;
            self.used = 0;
        }
        let entry = self.buffer[self.used..].first_chunk().copied();
        self.used += ENTRY;
        Ok(entry)
    }
}

/// Calls `visit` with each run of a valid frame, as a range of the region, and the offset of its content in the journal;
/// each was checked against the bounds of the heap. `Ok(Err)` where one, or something else in the frame, is outside of
/// them: then somebody forged the checksum; `visit` may have seen runs before it.
pub(crate) fn for_each_run(
    journal: &dyn Storage,
    frame: &Frame,
    mut visit: impl FnMut(Range<u64>, u64) -> io::Result<()>,
) -> io::Result<Result<(), &'static str>> {
    let header = &frame.header;
    let table_fits = header.lines_start() <= FRAME_HEADER_BYTES as u64 + header.payload_bytes;
    let ends_fit = header.old_end <= header.new_end
        && header.new_end.is_multiple_of(PAGE_BYTES)
        && header.new_end <= layout::RESERVE_BYTES_MAX
        && header.old_end.is_multiple_of(PAGE_BYTES)
        && u64::from(header.fresh_count) == (header.new_end - header.old_end) / PAGE_BYTES;
    if !table_fits || !ends_fit {
        return Ok(Err(FRAME_OUT_OF_BOUNDS));
    }
    let mut table = TableReader::<RUN_BYTES>::new(
        journal,
        frame.offset + FRAME_HEADER_BYTES as u64,
        u64::from(header.run_count),
    );
    let mut line_at = header.lines_start();
    let mut pages = 0;
    let mut page_before = None;
    while let Some(entry) = table.next()? {
        let (start, len) = (get_u64(&entry, 0), get_u64(&entry, 8));
        let inside = start >= layout::DATA_START
            && start.is_multiple_of(LINE_BYTES)
            && len.is_multiple_of(LINE_BYTES)
            && start
                .checked_add(len)
                .is_some_and(|end| end <= header.old_end)
            && start / PAGE_BYTES == (start + len).saturating_sub(1) / PAGE_BYTES
            && line_at + len <= FRAME_HEADER_BYTES as u64 + header.payload_bytes;
        if !inside {
            return Ok(Err(FRAME_OUT_OF_BOUNDS));
        }
        let page = start / PAGE_BYTES;
        pages += u32::from(page_before.replace(page) != Some(page));
        visit(start..start + len, frame.offset + line_at)?;
        line_at += len;
    }
    if pages != header.page_count {
        return Ok(Err(FRAME_OUT_OF_BOUNDS));
    }
    Ok(Ok(()))
}

/// Calls `visit` with each page that a frame changed or made, and its sum. False where the frame's content is out of bounds.
pub(crate) fn for_each_sum(
    journal: &dyn Storage,
    frame: &Frame,
    mut visit: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<bool> {
    let header = &frame.header;
    let at = frame.offset + header.sum_table();
    let mut sums = TableReader::<SUM_BYTES>::new(journal, at, header.sum_count());
    let mut take = |page: u64| -> io::Result<()> {
        match sums.next()? {
            Some(sum) => visit(page, get_u64(&sum, 0)),
            None => Ok(()), // more pages than sums: the runs are out of bounds, as is about to be found
        }
    };
    let mut page_before = None;
    let runs = for_each_run(journal, frame, |run, _| {
        let page = run.start / PAGE_BYTES;
        if page_before.replace(page) != Some(page) {
            take(page)?;
        }
        Ok(())
    })?;
    if runs.is_err() {
        return Ok(false);
    }
    for page in header.old_end / PAGE_BYTES..header.new_end / PAGE_BYTES {
        take(page)?;
    }
    Ok(true)
}

/// Whether the fresh space that `frame` names has arrived in the heap file.
pub(crate) fn fresh_has_arrived(
    journal: &dyn Storage,
    heap: &dyn Storage,
    frame: &Frame,
) -> io::Result<bool> {
    let header = &frame.header;
    if heap.len()? < header.new_end {
        return Ok(false);
    }
    let fresh_table = header.sum_table() + u64::from(header.page_count) * SUM_BYTES as u64;
    let mut sums = TableReader::<SUM_BYTES>::new(
        journal,
        frame.offset + fresh_table,
        u64::from(header.fresh_count),
    );
    let mut arrived = true;
    let mut failed = Ok(());
    for_each_chunk(
        heap,
        header.old_end,
        header.new_end - header.old_end,
        |chunk| {
            for page in chunk.chunks(PAGE_BYTES as usize) {
                match sums.next() {
                    Ok(sum) => arrived &= sum == Some(layout::page_sum(page).to_le_bytes()),
                    Err(error) => failed = Err(error),
                }
            }
        },
    )?;
    failed.map(|()| arrived)
}
