//! Parts of files: looked at, and written into pipes.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, pread};
use rustix::pipe::{SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, splice};

use crate::flow::{self, PIPE_BYTES, Tally};
use crate::wire::PIECE;

/// A part of a file.
pub struct Stretch {
    /// The file.
    pub file: OwnedFd,
    /// Which part.
    pub range: Range<u64>,
}

impl Stretch {
    /// Whether one of the first `most` bytes is zero.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn has_zero(&self, most: u64) -> Result<bool, Errno> {
        let mut bytes = vec![0; PIECE];
        let end = self.range.end.min(self.range.start.saturating_add(most));
        let mut at = self.range.start;
        while at < end {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX);
            let count = count.min(bytes.len());
            match pread(&self.file, &mut bytes[..count], at) {
                Ok(0) => break,
                Ok(had) if bytes[..had].contains(&0) => return Ok(true),
                Ok(had) => at += had as u64,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// A part of a file, and the pipe that it is to be written into.
pub struct Feed {
    part: Stretch,
    into: OwnedFd,
}

/// How much a pipe holds that a part of a file goes through.
const FEED: usize = 1 << 20;
/// For how long at most a reader empties a full pipe before more is written. Many commands read 4 KiB at a time: who wrote at once whenever there is
/// room would be woken by each of these reads, and both would do little else (gawk's sums in two lanes took a seventh longer).
const REST_MAX: Duration = Duration::from_millis(2);
/// A rest that is shorter than this is none.
const REST_MIN: Duration = Duration::from_micros(20);

impl Feed {
    /// Of a part into a pipe.
    pub fn new(part: Stretch, into: OwnedFd) -> Feed {
        // Who reads should not have to wait for each small piece; a kernel that gives no more gives what it has.
        let _ = fcntl_setpipe_size(&into, FEED);
        Feed { part, into }
    }

    /// Writes it all, until its end or until nobody reads.
    ///
    /// # Errors
    /// Why it cannot be read. Who reads the pipe takes its end for that of the part, which it is not then.
    pub fn run(&self) -> Result<(), Errno> {
        let room = fcntl_getpipe_size(&self.into).unwrap_or(PIPE_BYTES) as u64;
        // A small pipe would be empty before the rest is over.
        let flags = if room < FEED as u64 {
            SpliceFlags::empty()
        } else {
            SpliceFlags::NONBLOCK
        };
        let mut at = self.part.range.start;
        let (mut was_full, mut rest) = (at, REST_MIN);
        while at < self.part.range.end {
            let left = usize::try_from(self.part.range.end - at).unwrap_or(usize::MAX);
            let most = left.min(FEED);
            match splice(
                &self.part.file,
                Some(&mut at),
                &self.into,
                None,
                most,
                flags,
            ) {
                Ok(0) | Err(Errno::PIPE) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // It is full: it should be about half empty when it is filled again.
                    match at - was_full {
                        0 => self.wait_for_reader(),
                        much if much > room / 2 => rest = (rest / 2).max(REST_MIN),
                        few if few < room / 4 => rest = (rest * 2).min(REST_MAX),
                        _ => {}
                    }
                    was_full = at;
                    std::thread::sleep(rest);
                }
                Err(Errno::INVAL | Errno::NOSYS) => return self.copy(at),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Until some of what is in the pipe has been read, or nobody reads it any more.
    fn wait_for_reader(&self) {
        let mut waiting = [PollFd::new(&self.into, PollFlags::OUT)];
        // Whatever happens is seen by who writes next.
        let _ = poll(&mut waiting, None);
    }

    /// Writes the rest where the kernel cannot move it.
    fn copy(&self, mut at: u64) -> Result<(), Errno> {
        let mut bytes = vec![0; PIECE];
        while at < self.part.range.end {
            let most = usize::try_from(self.part.range.end - at).unwrap_or(usize::MAX);
            let most = most.min(bytes.len());
            let had = match pread(&self.part.file, &mut bytes[..most], at) {
                Ok(0) => return Ok(()),
                Ok(had) => had,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            if flow::write_piece(&self.into, &bytes[..had], &Tally::default()).is_err() {
                return Ok(());
            }
            at += had as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Write};

    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    const SIZE: u64 = 5_000_000;

    /// A file of which no two stretches are the same.
    fn file() -> File {
        let mut file = tempfile::tempfile().unwrap();
        let text: Vec<u8> = (0..SIZE / 8).flat_map(u64::to_le_bytes).collect();
        file.write_all(&text).unwrap();
        file
    }

    /// What comes out of a pipe that holds so much, when it is read so many bytes at a time, with a pause before each piece.
    fn fed(range: Range<u64>, room: usize, piece: usize, pause: Duration) -> Vec<u8> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let file = file().into();
        let feed = Feed::new(Stretch { file, range }, write);
        fcntl_setpipe_size(&feed.into, room).unwrap();
        let feeding = std::thread::spawn(move || feed.run());
        let (mut all, mut piece) = (Vec::new(), vec![0; piece]);
        let mut read = File::from(read);
        loop {
            std::thread::sleep(pause);
            match read.read(&mut piece).unwrap() {
                0 => break,
                had => all.extend_from_slice(&piece[..had]),
            }
        }
        feeding.join().unwrap().unwrap();
        all
    }

    fn expected(range: Range<u64>) -> Vec<u8> {
        let all: Vec<u8> = (0..SIZE / 8).flat_map(u64::to_le_bytes).collect();
        let at = |offset: u64| offset.min(all.len() as u64) as usize;
        all[at(range.start)..at(range.end)].to_vec()
    }

    #[test]
    fn what_comes_out_of_the_pipe_is_the_part_however_it_is_read() {
        let (none, some) = (Duration::ZERO, Duration::from_micros(300));
        for (range, room, piece, pause) in [
            (0..SIZE, FEED, 4096, none),
            (3..4_000_001, FEED, 1 << 20, none),
            (1_000_000..4_500_000, FEED, 4096, some),
            (1..700_000, 4096, 4096, none),
            (77..77, FEED, 4096, none),
            // A file that has become shorter than it was, or that ends before the part begins.
            (4_900_000..u64::MAX, FEED, 4096, none),
            (SIZE + 5..SIZE + 9, FEED, 4096, none),
        ] {
            let out = fed(range.clone(), room, piece, pause);
            assert!(out == expected(range.clone()), "{range:?}, {room}, {piece}");
        }
    }

    #[test]
    fn who_waits_for_a_reader_sees_that_it_is_gone() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let file = file().into();
        let feed = Feed::new(
            Stretch {
                file,
                range: 0..SIZE,
            },
            write,
        );
        let feeding = std::thread::spawn(move || feed.run());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!feeding.is_finished());
        drop(read);
        feeding.join().unwrap().unwrap();
    }
}
