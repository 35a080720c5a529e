//! A part that waits for its turn while whoever makes it goes on: read by a thread of its own, kept in memory, and behind that in a
//! file without a name.
//!
//! Invariant: bytes come out in the order in which they went in: first those in memory, then those in the file, and none goes to
//! memory once there is a file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::{Part, Room};

const STEP_BYTES: usize = 64 << 10;

/// See the top of the file. Who drops it is not waited for: the thread ends at the next bytes that come.
pub struct Spool {
    shared: Arc<Shared>,
    /// What was taken out of the memory, and how much of that has been read.
    current: (Vec<u8>, usize),
    /// How much of the file has been read.
    read_bytes: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    memory: VecDeque<Vec<u8>>,
    memory_bytes: usize,
    file: Option<Arc<File>>,
    written_bytes: u64,
    /// How it ended.
    end: Option<io::Result<()>>,
    /// Nobody reads any more.
    dropped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A thread that panicked has left nothing half done: each change is one step.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spool {
    /// Begins to read the part.
    pub fn new(part: Part, room: Room) -> Spool {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        });
        let fills = Arc::clone(&shared);
        let thread = thread::Builder::new().name("spool".to_owned());
        let begun = thread.spawn(move || {
            let end = fill(part, &room, &fills);
            fills.lock().end = Some(end);
            fills.changed.notify_all();
        });
        if let Err(error) = begun {
            shared.lock().end = Some(Err(error));
        }
        Spool {
            shared,
            current: (Vec::new(), 0),
            read_bytes: 0,
        }
    }
}

fn fill(mut part: Part, room: &Room, shared: &Shared) -> io::Result<()> {
    let mut bytes = vec![0; STEP_BYTES];
    loop {
        let count = match part.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut state = shared.lock();
        if state.dropped {
            return Ok(());
        }
        if state.file.is_none() && state.memory_bytes + count <= room.memory_bytes {
            state.memory.push_back(bytes[..count].to_vec());
            state.memory_bytes += count;
        } else {
            let file = match &state.file {
                Some(file) => Arc::clone(file),
                None => {
                    let file = Arc::new(tempfile::tempfile_in(&room.folder)?);
                    state.file = Some(Arc::clone(&file));
                    file
                }
            };
            // Writing may take a while, and whoever reads needs nothing of this yet.
            drop(state);
            (&*file).write_all(&bytes[..count])?;
            state = shared.lock();
            state.written_bytes += count as u64;
        }
        drop(state);
        shared.changed.notify_all();
    }
}

impl Read for Spool {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if to.is_empty() {
            return Ok(0);
        }
        let (bytes, at) = &mut self.current;
        if *at < bytes.len() {
            let count = to.len().min(bytes.len() - *at);
            to[..count].copy_from_slice(&bytes[*at..*at + count]);
            *at += count;
            return Ok(count);
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(bytes) = state.memory.pop_front() {
                state.memory_bytes -= bytes.len();
                drop(state);
                self.current = (bytes, 0);
                return self.read(to);
            }
            if state.written_bytes > self.read_bytes
                && let Some(file) = &state.file
            {
                let file = Arc::clone(file);
                let left = state.written_bytes - self.read_bytes;
                drop(state);
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(to.len());
                let count = file.read_at(&mut to[..most], self.read_bytes)?;
                self.read_bytes += count as u64;
                return Ok(count);
            }
            if let Some(end) = &mut state.end {
                // An error is told once, and then it is the end.
                return std::mem::replace(end, Ok(())).map(|()| 0);
            }
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        self.shared.lock().dropped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn room(memory_bytes: usize) -> Room {
        Room {
            memory_bytes,
            folder: std::env::temp_dir(),
        }
    }

    /// Gives what it is sent.
    struct Sent(mpsc::Receiver<io::Result<Vec<u8>>>);

    impl Read for Sent {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let Ok(bytes) = self.0.recv() else {
                return Ok(0);
            };
            let bytes = bytes?;
            to[..bytes.len()].copy_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        for memory_bytes in [0, 1, 70_000, 1 << 20] {
            let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
            let mut spool =
                Spool::new(Box::new(io::Cursor::new(bytes.clone())), room(memory_bytes));
            let mut out = Vec::new();
            spool.read_to_end(&mut out).unwrap();
            assert!(out == bytes, "{memory_bytes}");
        }
    }

    #[test]
    fn who_makes_it_never_waits_and_who_reads_does() {
        let (send, receive) = mpsc::sync_channel(0);
        let mut spool = Spool::new(Box::new(Sent(receive)), room(100));
        // More than memory has room for, before anybody reads.
        for number in 0..50_u8 {
            send.send(Ok(vec![number; 10])).unwrap();
        }
        let mut out = vec![0; 500];
        spool.read_exact(&mut out[..200]).unwrap();
        // Memory has room again, but what is in the file comes first.
        send.send(Ok(vec![50; 10])).unwrap();
        spool.read_exact(&mut out[200..]).unwrap();
        spool.read_exact(&mut [0; 10]).unwrap();
        assert!(
            out.chunks(10)
                .zip(0..)
                .all(|(ten, number)| ten == [number; 10])
        );
        let later = thread::spawn(move || {
            let mut byte = [0];
            (
                spool.read(&mut byte).unwrap(),
                byte[0],
                spool.read(&mut byte).map_err(|e| e.to_string()),
                spool.read(&mut byte).unwrap(),
            )
        });
        send.send(Ok(vec![7])).unwrap();
        send.send(Err(io::Error::other("broken"))).unwrap();
        assert_eq!(later.join().unwrap(), (1, 7, Err("broken".to_owned()), 0));
    }

    #[test]
    fn a_dropped_one_stops_reading() {
        let (send, receive) = mpsc::sync_channel(0);
        let spool = Spool::new(Box::new(Sent(receive)), room(100));
        drop(spool);
        send.send(Ok(vec![1])).unwrap();
        assert!(send.send(Ok(vec![1])).is_err(), "the part is closed");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let folder = std::path::PathBuf::from("/no/such/folder");
        let part = Box::new(io::Cursor::new(vec![0; 10]));
        let mut spool = Spool::new(
            part,
            Room {
                memory_bytes: 5,
                folder,
            },
        );
        assert!(spool.read_to_end(&mut Vec::new()).is_err());
    }
}
