//! What a power cut leaves of a recorded run: all that was flushed, and of the rest whatever the disk had got to.
//!
//! The invariant: every state made here is one that the medium of docs/format.md may be in (its assumptions 1 to 3), and each
//! of those can be made here. Sectors are the pieces: old, or one of the versions written since the last flush.

use super::disk::{Image, Record, Recording};
use crate::rng::Rng;

/// The moments of a recording, in their order.
pub struct Cuts<'r> {
    recording: &'r Recording,
    /// What is surely on the medium at `flushed`.
    durable: Image,
    flushed: usize,
}

impl<'r> Cuts<'r> {
    pub fn new(recording: &'r Recording) -> Cuts<'r> {
        Cuts {
            recording,
            durable: recording.base.clone(),
            flushed: 0,
        }
    }

    /// Moves on to the moment after `position` records; earlier ones cannot be had any more.
    ///
    /// # Panics
    /// If asked for a moment before the last one, or behind the end.
    pub fn advance(&mut self, position: usize) {
        assert!(self.flushed <= position, "moments are asked for in order");
        let passed = &self.recording.records[self.flushed..position];
        let last_flush = passed.iter().rposition(|r| matches!(r, Record::Flush));
        let settled = last_flush.map_or(0, |at| at + 1);
        for record in &passed[..settled] {
            self.durable.apply(record);
        }
        self.flushed += settled;
    }

    /// Records whose fate is open at that moment.
    pub fn open(&self, position: usize) -> &'r [Record] {
        &self.recording.records[self.flushed..position]
    }

    /// One state of the medium at the moment `position`, which `advance` was called with. `piece_bytes`: what is written
    /// atomically; a multiple of the sector.
    pub fn image(&self, position: usize, piece_bytes: usize, rng: &mut Rng) -> Image {
        let open = self.open(position);
        let mut image = self.durable.clone();
        let count = open.len() as u64;
        if count == 0 {
            return image;
        }
        match rng.below(8) {
            // Nothing arrived, all but a part of the last write did, or what was written first did.
            0 => {}
            1 => arrive_in_order(&mut image, open.iter(), open.len(), piece_bytes, rng),
            2 => {
                let some = rng.below(count + 1) as usize;
                arrive_in_order(&mut image, open.iter(), some, piece_bytes, rng);
            }
            // The disk writes in an order of its own, and had got to some point of it. Where two overlap, the later one
            // may stay away and the earlier arrive.
            3 => {
                let mut order: Vec<&Record> = open.iter().collect();
                for i in (1..order.len()).rev() {
                    order.swap(i, rng.below(i as u64 + 1) as usize);
                }
                let some = rng.below(count + 1) as usize;
                arrive_in_order(&mut image, order.into_iter(), some, piece_bytes, rng);
            }
            // One is missing, or one alone arrived.
            4 => {
                let missing = rng.below(count) as usize;
                let others = open.iter().enumerate().filter(|(i, _)| *i != missing);
                others.for_each(|(_, record)| image.apply(record));
            }
            5 => image.apply(&open[rng.below(count) as usize]),
            // Whole writes at random, then pieces of writes at random, dense or sparse.
            6 => {
                let density = rng.below(8) + 1;
                let arrived = open.iter().filter(|_| rng.below(8) < density);
                arrived.for_each(|record| image.apply(record));
            }
            _ => {
                let density = rng.below(8) + 1;
                for record in open {
                    arrive(&mut image, record, piece_bytes, &mut |_| {
                        rng.below(8) < density
                    });
                }
            }
        }
        image
    }
}

/// The first `count` of `records` arrive, the last of them in part.
fn arrive_in_order<'r>(
    image: &mut Image,
    records: impl Iterator<Item = &'r Record>,
    count: usize,
    piece_bytes: usize,
    rng: &mut Rng,
) {
    for (i, record) in records.take(count).enumerate() {
        if i + 1 < count {
            image.apply(record);
        } else {
            // Up to some piece, or from it on: disks do not promise to begin at the beginning.
            let (some, head) = (rng.below(pieces(record, piece_bytes) + 1), rng.chance(2));
            arrive(image, record, piece_bytes, &mut |i| (i < some) == head);
        }
    }
}

fn pieces(record: &Record, piece_bytes: usize) -> u64 {
    match record {
        Record::Write { offset, bytes } => {
            let piece = piece_bytes as u64;
            (offset + bytes.len() as u64).div_ceil(piece) - offset / piece
        }
        Record::Zero { .. } => 1,
        Record::Flush => 0,
    }
}

/// Those pieces of a write arrive that `chosen` says. A range of zeros comes whole or not at all.
fn arrive(
    image: &mut Image,
    record: &Record,
    piece_bytes: usize,
    chosen: &mut dyn FnMut(u64) -> bool,
) {
    match record {
        Record::Write { offset, bytes } => {
            let (piece, end) = (piece_bytes as u64, offset + bytes.len() as u64);
            let mut from = *offset;
            for i in 0.. {
                if from >= end {
                    break;
                }
                let to = ((from / piece + 1) * piece).min(end);
                if chosen(i) {
                    image.write(
                        from,
                        &bytes[(from - offset) as usize..(to - offset) as usize],
                    );
                }
                from = to;
            }
        }
        Record::Zero { .. } => {
            if chosen(0) {
                image.apply(record);
            }
        }
        Record::Flush => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::disk::{Disk, SECTOR_BYTES};
    use super::*;
    use std::collections::BTreeSet;

    const SECTOR: u64 = SECTOR_BYTES as u64;

    fn write(sector: u64, sectors: usize, byte: u8) -> Record {
        Record::Write {
            offset: sector * SECTOR,
            bytes: vec![byte; sectors * SECTOR_BYTES].into(),
        }
    }

    /// First bytes of the first four sectors, over many states of the moment `position`; no sector is ever a mixture.
    fn seen(recording: &Recording, position: usize) -> BTreeSet<[u8; 4]> {
        let mut cuts = Cuts::new(recording);
        cuts.advance(position);
        let mut rng = Rng::new(1);
        let mut all = BTreeSet::new();
        for _ in 0..4000 {
            let image = cuts.image(position, SECTOR_BYTES, &mut rng);
            let mut bytes = [0; 4 * SECTOR_BYTES];
            image.read(0, &mut bytes);
            let state = std::array::from_fn(|i| bytes[i * SECTOR_BYTES]);
            for (i, byte) in bytes.iter().enumerate() {
                assert_eq!(*byte, state[i / SECTOR_BYTES], "torn within a sector");
            }
            all.insert(state);
        }
        all
    }

    #[test]
    fn what_was_flushed_stays_and_the_rest_is_open() {
        let disk = Disk::new(1 << 20);
        disk.operate(write(0, 4, 9));
        disk.record();
        disk.operate(write(0, 2, 1));
        disk.operate(Record::Flush);
        disk.operate(write(1, 2, 2));
        disk.operate(write(1, 1, 3));
        let recording = disk.recorded();
        assert_eq!(seen(&recording, 2), BTreeSet::from([[1, 1, 9, 9]]));
        // Sector 1 is old or either version, sector 2 old or new, in every combination.
        let mut every = BTreeSet::new();
        for second in [1, 2, 3] {
            for third in [9, 2] {
                every.insert([1, second, third, 9]);
            }
        }
        assert_eq!(seen(&recording, 4), every);
        // Before the flush the first write is open too, and torn.
        let torn = BTreeSet::from([[9, 9, 9, 9], [1, 9, 9, 9], [9, 1, 9, 9], [1, 1, 9, 9]]);
        assert_eq!(seen(&recording, 1), torn);
    }

    #[test]
    fn pieces_are_as_large_as_said() {
        let disk = Disk::new(1 << 20);
        disk.record();
        disk.operate(write(0, 2, 1));
        let recording = disk.recorded();
        let mut cuts = Cuts::new(&recording);
        cuts.advance(1);
        let mut rng = Rng::new(2);
        for _ in 0..1000 {
            let mut bytes = [0; 2 * SECTOR_BYTES];
            cuts.image(1, 2 * SECTOR_BYTES, &mut rng)
                .read(0, &mut bytes);
            assert_eq!(bytes[0], bytes[SECTOR_BYTES]);
        }
    }
}
