//! The integrity walk: everything is counted twice, by independent ways, and compared.
//!
//! One way is the allocator's: which blocks are handed out. The other is the data's: which blocks can be reached from the
//! roots. Every block must be reached exactly once; every table's elements, chunks and index must agree.
//!
//! The invariant: the walk changes nothing and ends, whatever the bytes.

use crate::alloc::{Block, class_head};
use crate::cell::{KeyWords, is_blob};
use crate::layout::{
    CLASSES, HEADER, KEY_HOLE, OF_PROGRAM, SCANNED_ENTRIES_MAX, TABLE_MAGIC, VALUE, VALUE_TABLE,
    ZONE_FREE, ZONE_SMALL, chunk, header, table as at,
};
use crate::run::{Run, capacity_of, start_of};
use crate::zones::walk_blocks;
use crate::{Error, ErrorKind, Heap, Result, Slot, Table};

/// More problems than this are counted, not listed.
const PROBLEMS_LISTED_MAX: usize = 100;

/// Something that cannot be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub offset: u64,
    pub what: String,
}

/// What the walk found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Up to a hundred of them.
    pub problems: Vec<Problem>,
    pub problem_count: u64,
    /// Blocks handed out and their usable bytes.
    pub blocks: u64,
    pub block_bytes: u64,
    /// How many of them a program asked for, which refers to them as it likes, and their bytes.
    pub program_blocks: u64,
    pub program_bytes: u64,
    pub free_zones: u64,
    pub tables: u64,
    pub elements: u64,
    /// What was found to be missing behind the data, for when damage comes: none of it is lost yet.
    pub weaknesses: Vec<Problem>,
    /// Pages whose sums were compared when the heap was opened with [`crate::Verify::Report`], and all there are.
    pub pages_compared: u64,
    pub pages: u64,
    /// Pages that did not hold their sums when the heap was opened with [`crate::Verify::Report`]; each is a problem too.
    pub unsound_pages: u64,
}

impl Report {
    fn add(&mut self, offset: u64, what: impl Into<String>) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(Problem {
                offset,
                what: what.into(),
            });
        }
    }

    /// Errors of a walk that could not go on become problems too.
    fn absorb(&mut self, result: Result<()>) -> Result<()> {
        match result {
            Err(error) => match error.kind() {
                ErrorKind::Damaged { offset, what, .. } => {
                    self.add(*offset, what.clone());
                    Ok(())
                }
                _ => Err(error),
            },
            Ok(()) => Ok(()),
        }
    }

    /// Whether everything agrees.
    pub fn is_clean(&self) -> bool {
        self.problem_count == 0
    }
}

/// Blocks that the allocator handed out, in ascending order, and which of them were reached.
struct Reached {
    blocks: Vec<Block>,
    seen: Vec<bool>,
}

impl Reached {
    /// Notes that somebody refers to the block that starts at `offset`.
    fn reach(&mut self, report: &mut Report, offset: u64, needed: u64, who: &str) -> bool {
        match self.blocks.binary_search_by_key(&offset, |b| b.start) {
            Err(_) => {
                report.add(
                    offset,
                    format!("{who} lies in a block that is not handed out"),
                );
                false
            }
            Ok(i) if self.seen[i] => {
                report.add(
                    offset,
                    format!("{who} lies in a block that something else uses too"),
                );
                false
            }
            Ok(i) => {
                self.seen[i] = true;
                if self.blocks[i].bytes < needed {
                    report.add(
                        offset,
                        format!("{who} of {needed} bytes is larger than its block"),
                    );
                }
                true
            }
        }
    }
}

impl Heap {
    /// Walks the whole heap and says what does not agree. In proportion to the heap.
    ///
    /// # Errors
    /// Only those that are not about the heap's content.
    pub fn check(&self) -> Result<Report> {
        let mut report = Report::default();
        for page in self.region.unsound_pages() {
            let what = "a page does not hold its sum: its bytes changed without a commit";
            report.add(page * region::PAGE_BYTES, what);
            report.unsound_pages += 1;
        }
        let redundancy = self.region.redundancy();
        report.pages = redundancy.pages;
        report.pages_compared = redundancy.pages - redundancy.pages_without_sum;
        for (offset, fault) in redundancy.superblocks {
            let (this, other) = if offset == 0 { ('A', 'B') } else { ('B', 'A') };
            report.weaknesses.push(Problem {
                offset,
                what: format!("superblock {this}: {fault}; its copy {other} serves"),
            });
        }
        if !redundancy.has_sums && redundancy.pages_without_sum > 0 {
            report.weaknesses.push(Problem {
                offset: region::DATA_START,
                what: format!(
                    "{} of {} pages have no sum to compare: the file of sums is missing, or not of this heap and checkpoint",
                    redundancy.pages_without_sum, redundancy.pages
                ),
            });
        }
        let mut blocks = Vec::new();
        let walked = walk_blocks(&self.region, &mut |block| {
            blocks.push(block);
            Ok(())
        });
        match walked {
            Ok(counts) => {
                report.free_zones = counts.free;
                self.check_zone_list(&mut report, header::FREE_RUNS, ZONE_FREE, counts.free)?;
                self.check_zone_list(
                    &mut report,
                    header::PARTIAL_ZONES,
                    ZONE_SMALL,
                    counts.partial,
                )?;
            }
            Err(error) => report.absorb(Err(error))?,
        }
        report.blocks = blocks.len() as u64;
        report.block_bytes = blocks.iter().map(|b| b.bytes).sum();
        let of_program = blocks.iter().filter(|b| b.of_program);
        report.program_blocks = of_program.clone().count() as u64;
        report.program_bytes = of_program.map(|b| b.bytes).sum();
        self.check_header_counts(&mut report)?;
        let free_lists = self.check_free_lists(&mut report);
        report.absorb(free_lists)?;

        let mut reached = Reached {
            // Nobody but the program knows what refers to its blocks; no table does.
            seen: blocks.iter().map(|b| b.of_program).collect(),
            blocks,
        };
        let mut waiting = Vec::new();
        let roots = self.roots().map(|roots| waiting.push(roots));
        report.absorb(roots)?;
        while let Some(t) = waiting.pop() {
            if reached.reach(&mut report, t.0, crate::layout::TABLE_BYTES, "a table") {
                let checked = self.check_one(t, &mut report, &mut reached, &mut waiting);
                report.absorb(checked)?;
            }
        }
        let lost: Vec<Block> = reached
            .blocks
            .iter()
            .zip(&reached.seen)
            .filter(|(_, seen)| !**seen)
            .map(|(b, _)| *b)
            .collect();
        for block in lost {
            report.add(
                block.start,
                format!(
                    "{} bytes are handed out and nothing refers to them",
                    block.bytes
                ),
            );
        }
        Ok(report)
    }

    fn check_header_counts(&self, report: &mut Report) -> Result<()> {
        let counts = [
            (header::LIVE_BLOCKS, report.blocks, "blocks handed out"),
            (header::LIVE_BYTES, report.block_bytes, "bytes handed out"),
            (header::FREE_ZONES, report.free_zones, "free zones"),
        ];
        for (offset, counted, what) in counts {
            let noted: u64 = self.region.get(HEADER + offset)?;
            if noted != counted {
                report.add(
                    HEADER + offset,
                    format!("the header notes {noted} {what}, there are {counted}"),
                );
            }
        }
        Ok(())
    }

    /// What a table says of its run, against its chunks and the entries used in them. Returns for each chunk how many
    /// entries of the run lie before it; none for chunks without any.
    fn check_run(
        &self,
        t: Table,
        run: Run,
        chunks: &[(u64, u64)],
        report: &mut Report,
    ) -> Result<Vec<Option<u64>>> {
        let mut starts = vec![None; chunks.len()];
        let has_room = match run.chunks {
            0 => run.chunk_count() <= 1,
            list => {
                let bytes = self.block_at(list)?.bytes;
                run.count > 0 && run.chunk_count() * crate::layout::RUN_CHUNK_BYTES <= bytes
            }
        };
        let has_length = if run.is_open {
            run.count > 0
        } else {
            run.count == 0 || run.count > SCANNED_ENTRIES_MAX
        };
        if !has_room || !has_length {
            report.add(t.0, "a table with a run that cannot be");
            return Ok(starts);
        }
        let mut i = 0;
        for number in 0..run.chunk_count() {
            let listed = self.run_chunk(t, number)?;
            if listed == 0 {
                continue;
            }
            let Some(&(chunk, used)) = chunks.get(i).filter(|(chunk, _)| *chunk == listed) else {
                report.add(t.0, "a run that lists other chunks than its table");
                return Ok(starts);
            };
            let capacity = u64::from(self.region.get::<u16>(chunk + chunk::CAPACITY)?);
            let start = start_of(number);
            if capacity != capacity_of(number) || used < capacity.min(run.count - start) {
                report.add(chunk, "a chunk of a run that is too small");
                return Ok(starts);
            }
            starts[i] = Some(start);
            i += 1;
        }
        for (&(chunk, _), start) in chunks.iter().zip(&starts) {
            let noted: u16 = self.region.get(chunk + chunk::IN_RUN)?;
            if noted != u16::from(start.is_some()) {
                report.add(chunk, "a chunk that does not know whether it is a run's");
            }
        }
        let ends: u64 = chunks
            .iter()
            .zip(&starts)
            .map(|(chunk, start)| start.unwrap_or(run.count) + chunk.1)
            .max()
            .unwrap_or(0);
        let last = run
            .first
            .wrapping_add(run.count.cast_signed().wrapping_sub(1));
        if run.is_open && (ends != run.count || self.run_find(t, last)?.is_none()) {
            report.add(t.0, "a table that does not end where its run does");
        }
        Ok(starts)
    }

    /// One table: chunks, entries and index.
    fn check_one(
        &self,
        t: Table,
        report: &mut Report,
        reached: &mut Reached,
        waiting: &mut Vec<Table>,
    ) -> Result<()> {
        report.tables += 1;
        if self.region.get::<u32>(t.0 + at::MAGIC)? != TABLE_MAGIC {
            report.add(t.0, "what should be a table is none");
            return Ok(());
        }
        let mut prev = 0;
        let mut chunks = Vec::new();
        let walked = self.for_each_chunk(t, &mut |chunk, used| {
            let capacity = u64::from(self.region.get::<u16>(chunk + chunk::CAPACITY)?);
            let needed = crate::layout::CHUNK_HEADER_BYTES + capacity * crate::layout::ENTRY_BYTES;
            if !reached.reach(report, chunk, needed, "a chunk of a table") {
                return Err(self.not_followed(chunk));
            }
            chunks.push((chunk, used));
            Ok(())
        });
        report.absorb(walked)?;
        let run = self.run(t)?;
        let mut starts = vec![None; chunks.len()];
        match self.check_run(t, run, &chunks, report) {
            Ok(found) => starts = found,
            Err(error) => report.absorb(Err(error))?,
        }
        let (mut elements, mut in_run) = (0, 0);
        for (&(chunk, used), start) in chunks.iter().zip(starts) {
            if self.region.get::<u64>(chunk + chunk::PREV)? != prev {
                report.add(chunk, "a chunk that does not refer back to the one before");
            }
            if self.region.get::<u64>(chunk + chunk::TABLE)? != t.0 {
                report.add(chunk, "a chunk that belongs to another table");
            }
            prev = chunk;
            let mut live = 0;
            for i in 0..used {
                let entry =
                    chunk + crate::layout::CHUNK_HEADER_BYTES + i * crate::layout::ENTRY_BYTES;
                let ordinal = start.map(|start| start + i).filter(|&at| at < run.count);
                let wanted = ordinal.map(|ordinal| run.words(ordinal));
                let is_element = self.check_entry(t, entry, wanted, report, reached, waiting)?;
                live += u64::from(is_element);
                in_run += u64::from(is_element && ordinal.is_some());
            }
            if u64::from(self.region.get::<u16>(chunk + chunk::LIVE)?) != live {
                report.add(chunk, format!("a chunk that miscounts its {live} elements"));
            }
            elements += live;
        }
        let noted: u64 = self.region.get(t.0 + at::COUNT)?;
        if noted != elements {
            report.add(
                t.0,
                format!("a table that notes {noted} elements and has {elements}"),
            );
        }
        report.elements += elements;
        let mut slots = 0;
        self.for_each_index_block(t, &mut |offset| {
            if !reached.reach(report, offset, 8, "an index") {
                return Err(self.not_followed(offset));
            }
            slots += self.count_slots(t, offset)?;
            Ok(())
        })?;
        let indexed = elements - in_run;
        if self.region.get::<u64>(t.0 + at::INDEX)? != 0 && slots != indexed {
            report.add(
                t.0,
                format!("a table with {indexed} elements for its index, which has {slots}"),
            );
        }
        Ok(())
    }

    /// Why a walk over what was reached before ends: else tables that share a list would be walked again and again.
    fn not_followed(&self, offset: u64) -> Error {
        self.region
            .damaged(offset, "what follows was left out, because of that")
    }

    /// One entry; false if it is a hole. `wanted` is, for an entry of a run, the key that it must have.
    fn check_entry(
        &self,
        t: Table,
        entry: u64,
        wanted: Option<Option<KeyWords>>,
        report: &mut Report,
        reached: &mut Reached,
        waiting: &mut Vec<Table>,
    ) -> Result<bool> {
        let words = self.entry_words(entry)?;
        if words.tag() == KEY_HOLE {
            return Ok(false);
        }
        if words.is_blob() {
            let (offset, len) = words.blob();
            if !reached.reach(report, offset, len, "a key") {
                return Ok(true); // hashing it for every entry that claims it would take forever
            }
        }
        let mut buffer = [0; 16];
        let readable = self.key_text(words, &mut buffer).map(drop);
        report.absorb(readable)?;
        match wanted {
            Some(wanted) if wanted == Some(words) => {}
            Some(_) => report.add(entry, "an element of a run with another key than its place"),
            None => match self.is_indexed(t, entry, words) {
                Ok(true) if self.run_find_text(t, words)?.is_some() => {
                    report.add(entry, "an element whose key is in the table's run too");
                }
                Ok(true) => {}
                Ok(false) => {
                    report.add(entry, "an element that its table's index does not lead to")
                }
                Err(error) => report.absorb(Err(error))?,
            },
        }
        let (low, high): (u64, u64) = (
            self.region.get(entry + VALUE)?,
            self.region.get(entry + VALUE + 8)?,
        );
        match (high >> 56) as u8 {
            tag if is_blob(tag) => {
                reached.reach(report, low, high & crate::layout::BLOB_LEN_MASK, "a value");
            }
            VALUE_TABLE => waiting.push(Table(low)),
            _ => report.absorb(self.cell(Slot(entry + VALUE)).map(drop))?,
        }
        Ok(true)
    }

    /// A list of zones names each zone that belongs there.
    fn check_zone_list(
        &self,
        report: &mut Report,
        list: u64,
        kind: u32,
        there_are: u64,
    ) -> Result<()> {
        match self.walk_zone_list(list, kind) {
            Ok(listed) if listed == there_are => Ok(()),
            Ok(listed) => {
                report.add(
                    HEADER + list,
                    format!("a list of {listed} zones with room, where there are {there_are}"),
                );
                Ok(())
            }
            Err(error) => report.absorb(Err(error)),
        }
    }

    /// The lists of pages with free blocks lead to such pages, each once.
    fn check_free_lists(&self, report: &mut Report) -> Result<()> {
        let classes = 0..CLASSES.len() as u8;
        for class in classes.flat_map(|class| [class, class | OF_PROGRAM]) {
            let listed = self.walk_class_list(class)?;
            let mut sorted = listed.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() != listed.len() {
                report.add(
                    class_head(class),
                    "a list of free blocks that names a page twice",
                );
            }
        }
        Ok(())
    }
}
