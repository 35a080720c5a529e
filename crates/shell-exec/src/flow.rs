//! One stream at one of its ends: from a descriptor into frames, and from frames into a descriptor.
//!
//! The invariant: a writer never has more under way than its reader asked for, and a reader asks only for what it has room for. So
//! whoever passes frames on may queue them all.

pub mod outlets;

use std::collections::VecDeque;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use xxhash_rust::xxh3::Xxh3;

#[cfg(test)]
use crate::wire::FIRST_IN;
use crate::wire::{Frame, PIECE, WINDOW};

/// How much a pipe holds, if nobody has said otherwise (pipe(7)).
pub(crate) const PIPE_BYTES: usize = 64 << 10;

/// What a mutex guards, also when a thread has panicked with it.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a thread that panicked has left is a queue or a number: whole after each step.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The way out of a connection: any thread may send, and never waits.
#[derive(Clone, Debug)]
pub struct Outgoing(Sender<Frame>);

impl Outgoing {
    /// Frames that are sent are written to `to` by a thread of its own, which tells `failed` when that cannot be, and ends when nobody can send any
    /// more.
    pub fn new(
        to: impl Write + Send + 'static,
        failed: impl FnOnce(io::Error) + Send + 'static,
    ) -> Outgoing {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            if let Err(error) = write_all(&receiver, to) {
                failed(error);
            }
        });
        Outgoing(sender)
    }

    /// Sends a frame, unless the connection is gone: who reads from it will notice.
    pub fn send(&self, frame: Frame) {
        let _ = self.0.send(frame);
    }

    /// Sends a message.
    pub fn tell<T: serde::Serialize>(&self, message: &T) {
        self.send(Frame::of(message));
    }
}

fn write_all(frames: &Receiver<Frame>, to: impl Write) -> io::Result<()> {
    let mut to = BufWriter::with_capacity(PIECE + 4096, to);
    loop {
        let frame = match frames.try_recv() {
            Ok(frame) => frame,
            Err(TryRecvError::Disconnected) => return to.flush(),
            Err(TryRecvError::Empty) => {
                to.flush()?;
                match frames.recv() {
                    Ok(frame) => frame,
                    Err(_) => return Ok(()),
                }
            }
        };
        frame.write(&mut to)?;
    }
}

/// How much may be sent on a stream.
#[derive(Debug)]
pub struct Window {
    state: Mutex<Credit>,
    changed: Condvar,
    /// Wakes who waits for bytes to send.
    wake: Option<Arc<OwnedFd>>,
    /// Whether that is to be woken by more credit, too.
    asks: bool,
}

#[derive(Debug)]
struct Credit {
    bytes: u64,
    closed: bool,
}

impl Window {
    /// A stream begins with some credit: its first bytes need not wait for a round trip.
    pub fn new(first: u32) -> Arc<Window> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC).ok();
        Window::with(first, wake.map(Arc::new), false)
    }

    /// The same, for who sends on several streams.
    fn waking(first: u32, wake: &Arc<OwnedFd>) -> Arc<Window> {
        Window::with(first, Some(wake.clone()), true)
    }

    fn with(first: u32, wake: Option<Arc<OwnedFd>>, asks: bool) -> Arc<Window> {
        let bytes = first.into();
        let closed = false;
        Arc::new(Window {
            state: Mutex::new(Credit { bytes, closed }),
            changed: Condvar::new(),
            wake,
            asks,
        })
    }

    /// The reader takes more.
    pub fn add(&self, bytes: u32) {
        let mut state = locked(&self.state);
        state.bytes = state.bytes.saturating_add(bytes.into());
        self.changed.notify_all();
        drop(state);
        if self.asks {
            self.wake();
        }
    }

    /// The reader wants no more.
    pub fn close(&self) {
        locked(&self.state).closed = true;
        self.changed.notify_all();
        self.wake();
    }

    fn wake(&self) {
        if let Some(wake) = &self.wake {
            #[expect(clippy::host_endian_bytes, reason = "eventfd(2) takes the host's")]
            let one = 1_u64.to_ne_bytes();
            let _ = rustix::io::write(wake, &one);
        }
    }

    /// Waits until something may be sent, and says how much; none: nothing ever.
    fn wait(&self) -> Option<usize> {
        let mut state = locked(&self.state);
        loop {
            if state.closed {
                return None;
            }
            if state.bytes > 0 {
                return Some(usize::try_from(state.bytes).unwrap_or(usize::MAX));
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How much may be sent now, if anything.
    fn now(&self) -> Option<usize> {
        let state = locked(&self.state);
        let may = state.bytes > 0 && !state.closed;
        may.then(|| usize::try_from(state.bytes).unwrap_or(usize::MAX))
    }

    /// Whether the reader wants no more.
    fn is_closed(&self) -> bool {
        locked(&self.state).closed
    }

    fn take(&self, bytes: usize) {
        let mut state = locked(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes as u64);
    }
}

/// Sends what comes out of a descriptor, until its end, or until nobody wants it; the descriptor is closed then.
///
/// # Errors
/// Why it could not be read. The end was not told then.
pub fn send_all(from: OwnedFd, window: &Window, out: &Outgoing, stream: u32) -> Result<(), Errno> {
    let mut piece = vec![0; PIECE];
    while let Some(most) = window.wait() {
        if let Some(wake) = &window.wake {
            let mut polled = [
                PollFd::new(&from, PollFlags::IN),
                PollFd::new(wake, PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if polled[0].revents().is_empty() {
                continue;
            }
        }
        let most = most.min(piece.len());
        match rustix::io::read(&from, &mut piece[..most]) {
            Ok(0) => break,
            Ok(had) => {
                window.take(had);
                out.send(Frame::Data(stream, piece[..had].to_vec()));
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error),
        }
    }
    out.send(Frame::End(stream));
    Ok(())
}

/// What was written: how much, and a checksum of it.
#[derive(Default)]
pub struct Tally(Mutex<(u64, Xxh3)>);

impl Tally {
    /// So much more was written.
    pub fn add(&self, bytes: &[u8]) {
        let mut state = locked(&self.0);
        state.0 += bytes.len() as u64;
        state.1.update(bytes);
    }

    /// How many bytes, and their XXH3-64.
    pub fn sum(&self) -> (u64, u64) {
        let state = locked(&self.0);
        (state.0, state.1.digest())
    }
}

/// Bytes that have come and are not yet written.
#[derive(Default, Debug)]
pub struct Inbox {
    state: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default, Debug)]
struct Queue {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    ended: bool,
    /// It ended before its end.
    cut: bool,
    unwanted: bool,
}

/// A writer sent more than was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooMuch;

impl Inbox {
    /// An empty one.
    pub fn new() -> Arc<Inbox> {
        Arc::default()
    }

    /// Bytes have come.
    ///
    /// # Errors
    /// More than was asked for.
    pub fn push(&self, bytes: Vec<u8>) -> Result<(), TooMuch> {
        let mut state = locked(&self.state);
        if state.unwanted {
            return Ok(());
        }
        state.bytes += bytes.len();
        if state.bytes > WINDOW as usize {
            return Err(TooMuch);
        }
        state.pieces.push_back(bytes);
        self.changed.notify_all();
        Ok(())
    }

    /// No more will come.
    pub fn end(&self) {
        locked(&self.state).ended = true;
        self.changed.notify_all();
    }

    /// What is still to come never will.
    pub fn cut(&self) {
        let mut state = locked(&self.state);
        if !state.ended {
            state.ended = true;
            state.cut = true;
        }
        self.changed.notify_all();
    }

    fn is_cut(&self) -> bool {
        locked(&self.state).cut
    }

    fn next(&self) -> Option<Vec<u8>> {
        let mut state = locked(&self.state);
        loop {
            if let Some(piece) = state.pieces.pop_front() {
                return Some(piece);
            }
            if state.ended {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, bytes: usize) {
        let mut state = locked(&self.state);
        state.bytes = state.bytes.saturating_sub(bytes);
    }

    fn stop(&self) {
        let mut state = locked(&self.state);
        state.unwanted = true;
        state.pieces.clear();
        state.bytes = 0;
    }
}

/// Writes what comes on a stream into a descriptor, asking for more as there is room, until its end or until nobody reads it. `first`: the credit
/// that the stream began with; it grows to a whole window with what is read. `tally` grows by what was written. A piece without bytes is sent back:
/// all that came before is written then.
///
/// # Errors
/// Why the rest could not be written; whoever sends was told that no more is wanted.
pub fn receive_all(
    into: impl AsFd,
    inbox: &Inbox,
    out: &Outgoing,
    stream: u32,
    first: u32,
    tally: &Tally,
) -> Result<(), Errno> {
    let mut credit = Asked::beginning_with(first);
    while let Some(piece) = inbox.next() {
        if piece.is_empty() {
            out.send(Frame::Data(stream, piece));
            continue;
        }
        if let Err(error) = write_piece(&into, &piece, tally) {
            inbox.stop();
            out.send(Frame::Reset(stream));
            return Err(error);
        }
        inbox.done(piece.len());
        credit.taken(piece.len(), out, stream);
    }
    Ok(())
}

/// What a reader has asked for.
struct Asked {
    /// How much it asks for ahead by now.
    window: u32,
    /// What it has taken and not yet asked for again.
    owed: u32,
}

impl Asked {
    fn beginning_with(first: u32) -> Asked {
        Asked {
            window: first,
            owed: 0,
        }
    }

    fn taken(&mut self, bytes: usize, out: &Outgoing, stream: u32) {
        self.owed += bytes as u32;
        if self.owed >= self.window / 4 {
            let more = self.owed.min(WINDOW - self.window);
            self.window += more;
            out.send(Frame::Credit(stream, self.owed + more));
            self.owed = 0;
        }
    }
}

/// What comes on a stream, to be read. Who drops it wants no more.
pub struct Incoming {
    inbox: Arc<Inbox>,
    out: Outgoing,
    stream: u32,
    asked: Asked,
    piece: Vec<u8>,
    /// How much of the piece was read.
    at: usize,
    ended: bool,
}

impl Incoming {
    /// `first`: the credit that the stream began with.
    pub fn new(inbox: Arc<Inbox>, out: Outgoing, stream: u32, first: u32) -> Incoming {
        Incoming {
            inbox,
            out,
            stream,
            asked: Asked::beginning_with(first),
            piece: Vec::new(),
            at: 0,
            ended: false,
        }
    }
}

impl Read for Incoming {
    /// # Errors
    /// A stream that ended before its end: what was read is not all.
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            if !self.piece.is_empty() {
                self.inbox.done(self.piece.len());
                self.asked.taken(self.piece.len(), &self.out, self.stream);
            }
            self.at = 0;
            match self.inbox.next() {
                // Of several that become one nobody can say what is written.
                Some(piece) if piece.is_empty() => {
                    self.out.send(Frame::Data(self.stream, piece));
                    self.piece = Vec::new();
                }
                Some(piece) => self.piece = piece,
                None => {
                    self.piece = Vec::new();
                    self.ended = true;
                    return if self.inbox.is_cut() {
                        Err(io::ErrorKind::ConnectionAborted.into())
                    } else {
                        Ok(0)
                    };
                }
            }
        }
        let count = to.len().min(self.piece.len() - self.at);
        to[..count].copy_from_slice(&self.piece[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.ended {
            self.inbox.stop();
            self.out.send(Frame::Reset(self.stream));
        }
    }
}

/// A stream to be written to. Who drops it has no more.
pub struct Sending {
    window: Arc<Window>,
    out: Outgoing,
    stream: u32,
}

impl Sending {
    /// What is written goes out as credit allows.
    pub fn new(window: Arc<Window>, out: Outgoing, stream: u32) -> Sending {
        Sending {
            window,
            out,
            stream,
        }
    }
}

impl Write for Sending {
    /// # Errors
    /// When nobody wants more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let most = self.window.wait().ok_or(io::ErrorKind::BrokenPipe)?;
        let count = bytes.len().min(most).min(PIECE);
        self.window.take(count);
        self.out
            .send(Frame::Data(self.stream, bytes[..count].to_vec()));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        self.out.send(Frame::End(self.stream));
    }
}

/// Writes all of it, into a descriptor that may be set not to wait.
pub(crate) fn write_piece(into: &impl AsFd, mut piece: &[u8], tally: &Tally) -> Result<(), Errno> {
    while !piece.is_empty() {
        match rustix::io::write(into, piece) {
            Ok(wrote) => {
                tally.add(&piece[..wrote]);
                piece = &piece[wrote..];
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                // Somebody else has set it so.
                let mut polled = [PollFd::new(into, PollFlags::OUT)];
                let _ = poll(&mut polled, None);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::fs::File;

    /// Both ends of a stream, joined by two queues.
    fn joined(bytes: usize, reads: usize, first: u32) -> (usize, bool) {
        let (source, mut feed) = {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            (read, File::from(write))
        };
        let (mut sink, into) = {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            (File::from(read), write)
        };
        let (window, inbox) = (Window::new(first), Inbox::new());
        let (there, there_end) = channel();
        let (back, back_end) = channel();
        let feeder = std::thread::spawn(move || {
            // SIGPIPE is ignored in tests, so a write that nobody wants is an error.
            (0..bytes / 1000)
                .take_while(|_| feed.write_all(&[7; 1000]).is_ok())
                .count()
        });
        let sender = {
            let window = window.clone();
            std::thread::spawn(move || send_all(source, &window, &Outgoing(there), 1))
        };
        let receiver = {
            let inbox = inbox.clone();
            std::thread::spawn(move || {
                receive_all(into, &inbox, &Outgoing(back), 1, first, &Tally::default())
            })
        };
        let carrier = std::thread::spawn(move || {
            for frame in there_end {
                match frame {
                    Frame::Data(1, bytes) => inbox.push(bytes).unwrap(),
                    Frame::End(1) => inbox.end(),
                    other => panic!("{other:?}"),
                }
            }
        });
        let answers = std::thread::spawn(move || {
            for frame in back_end {
                match frame {
                    Frame::Credit(1, more) => window.add(more),
                    Frame::Reset(1) => window.close(),
                    other => panic!("{other:?}"),
                }
            }
        });
        let mut had = vec![0; reads];
        sink.read_exact(&mut had).unwrap();
        assert!(had.iter().all(|&byte| byte == 7));
        drop(sink);
        let fed = feeder.join().unwrap() * 1000;
        sender.join().unwrap().unwrap();
        carrier.join().unwrap();
        let whole = receiver.join().unwrap().is_ok();
        answers.join().unwrap();
        (fed, whole)
    }

    #[test]
    fn all_bytes_arrive() {
        for first in [WINDOW, FIRST_IN, 1] {
            assert_eq!(joined(9_000_000, 9_000_000, first), (9_000_000, true));
        }
    }

    #[test]
    fn a_reader_that_leaves_stops_the_writer() {
        let (fed, whole) = joined(900_000_000, 5_000, WINDOW);
        assert!(fed < 20_000_000 && !whole, "{fed}");
        let (fed, whole) = joined(900_000_000, 500, FIRST_IN);
        assert!(fed < 500_000 && !whole, "{fed}");
    }

    #[test]
    fn a_stream_is_read_and_written_by_credit() {
        let (inbox, window) = (Inbox::new(), Window::new(WINDOW));
        let (there, there_end) = channel();
        let (back, back_end) = channel();
        let mut sending = Sending::new(window.clone(), Outgoing(there), 7);
        let mut incoming = Incoming::new(inbox.clone(), Outgoing(back), 7, WINDOW);
        let writer = std::thread::spawn(move || {
            for number in 0..100_000_u32 {
                if sending.write_all(&[number as u8; 100]).is_err() {
                    return number;
                }
            }
            100_000
        });
        std::thread::spawn(move || {
            for frame in there_end {
                match frame {
                    Frame::Data(7, bytes) => inbox.push(bytes).unwrap(),
                    Frame::End(7) => inbox.end(),
                    other => panic!("{other:?}"),
                }
            }
        });
        let answers = std::thread::spawn(move || {
            let mut reset = false;
            for frame in back_end {
                match frame {
                    Frame::Credit(7, more) => window.add(more),
                    Frame::Reset(7) => {
                        window.close();
                        reset = true;
                    }
                    other => panic!("{other:?}"),
                }
            }
            reset
        });
        let mut bytes = vec![0; 5_000_000];
        incoming.read_exact(&mut bytes).unwrap();
        assert!(bytes.chunks(100).zip(0..).all(|(c, n)| c == [n as u8; 100]));
        drop(incoming);
        assert!(answers.join().unwrap());
        assert!(writer.join().unwrap() < 100_000);
    }

    #[test]
    fn a_stream_that_is_cut_is_no_end() {
        let (inbox, (out, _end)) = (Inbox::new(), channel());
        let mut incoming = Incoming::new(inbox.clone(), Outgoing(out), 1, WINDOW);
        inbox.push(vec![5; 10]).unwrap();
        inbox.cut();
        let mut bytes = Vec::new();
        let error = incoming.read_to_end(&mut bytes).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        assert_eq!(bytes, [5; 10]);
        // One that had ended is not cut any more.
        let (inbox, (out, _end)) = (Inbox::new(), channel());
        let mut incoming = Incoming::new(inbox.clone(), Outgoing(out), 1, WINDOW);
        inbox.end();
        inbox.cut();
        assert_eq!(incoming.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn more_than_was_asked_for_is_refused() {
        let inbox = Inbox::new();
        for _ in 0..WINDOW as usize / PIECE {
            assert_eq!(inbox.push(vec![0; PIECE]), Ok(()));
        }
        assert_eq!(inbox.push(vec![0]), Err(TooMuch));
    }
}
