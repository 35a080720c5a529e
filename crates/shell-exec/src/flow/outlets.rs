//! What the processes of a job write, sent on its streams in the order in which it was written.
//!
//! Who writes to two places, or has another process write when it has said something, is understood by those who read both only if what came first
//! comes first. Each stream by a thread of its own would come in the order in which threads are woken.
//!
//! The invariant: the pipes that became readable first are read first (epoll(7) keeps that order where it tells of edges).

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::{Errno, ioctl_fionbio};

use super::{Outgoing, Window};
use crate::wire::{Frame, PIECE, WINDOW};

/// The pipes of a job. Who drops them wants nothing of it any more.
pub struct Outlets {
    epoll: OwnedFd,
    /// Readable when a reader has asked for more, or wants nothing more.
    wake: Arc<OwnedFd>,
    pipes: Vec<Pipe>,
}

struct Pipe {
    stream: u32,
    window: Arc<Window>,
    /// None: it has ended.
    from: Option<OwnedFd>,
    /// Whether there may be something to be read.
    is_ready: bool,
    /// Whether nobody writes to it any more.
    is_over: bool,
}

/// What tells of asking readers.
const WAKE: u64 = u64::MAX;

impl Outlets {
    /// None yet.
    ///
    /// # Errors
    /// The kernel has no more of what it takes.
    pub fn new() -> Result<Outlets, Errno> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(&epoll, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Outlets {
            epoll,
            wake,
            pipes: Vec::new(),
        })
    }

    /// One more, before anything is written to it: its order among the others is kept from here on.
    ///
    /// # Errors
    /// The kernel has no more of what it takes.
    pub fn add(&mut self, from: OwnedFd, stream: u32) -> Result<(), Errno> {
        // Nobody else reads it.
        ioctl_fionbio(&from, true)?;
        let number = EventData::new_u64(self.pipes.len() as u64);
        epoll::add(&self.epoll, &from, number, EventFlags::IN | EventFlags::ET)?;
        self.pipes.push(Pipe {
            stream,
            window: Window::waking(WINDOW, &self.wake),
            from: Some(from),
            is_ready: false,
            is_over: false,
        });
        Ok(())
    }

    /// How much may be sent on each stream.
    pub fn windows(&self) -> impl Iterator<Item = (u32, Arc<Window>)> {
        (self.pipes.iter()).map(|pipe| (pipe.stream, pipe.window.clone()))
    }

    /// Sends all that comes, until all have ended or nobody wants any of it. `over`: told of each stream that has ended.
    pub fn run(mut self, out: &Outgoing, over: impl Fn(u32)) {
        let mut queue = VecDeque::new();
        let mut piece = vec![0; PIECE];
        while self.pipes.iter().any(|pipe| pipe.from.is_some()) {
            let next = (queue.iter()).position(|&at: &usize| self.pipes[at].window.now().is_some());
            if self.listen(&mut queue, next.is_none()).is_err() {
                // It cannot be: nothing that is wrong with a job makes this fail.
                break;
            }
            for pipe in &mut self.pipes {
                if pipe.from.is_some() && pipe.window.is_closed() {
                    pipe.end(out, &over);
                }
            }
            let Some(at) = next.and_then(|next| queue.remove(next)) else {
                continue;
            };
            let pipe = &mut self.pipes[at];
            pipe.is_ready = false;
            let (Some(from), Some(most)) = (&pipe.from, pipe.window.now()) else {
                continue;
            };
            let most = most.min(PIECE);
            match rustix::io::read(from, &mut piece[..most]) {
                Ok(had @ 1..) => {
                    pipe.window.take(had);
                    out.send(Frame::Data(pipe.stream, piece[..had].to_vec()));
                    // Less than there was room for: the next write tells of itself. The end has told of itself already.
                    if had == most || pipe.is_over {
                        pipe.is_ready = true;
                        queue.push_back(at);
                    }
                }
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => {
                    pipe.is_ready = true;
                    queue.push_front(at);
                }
                Ok(0) | Err(_) => pipe.end(out, &over),
            }
        }
        for pipe in &mut self.pipes {
            pipe.end(out, &over);
        }
    }

    /// Puts what has become readable behind what has been for longer.
    fn listen(&mut self, queue: &mut VecDeque<usize>, waits: bool) -> Result<(), Errno> {
        let mut events: Vec<Event> = Vec::with_capacity(self.pipes.len() + 1);
        let at_once = Timespec::default();
        let timeout = (!waits).then_some(&at_once);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        for event in events {
            let number = event.data.u64();
            if number == WAKE {
                let _ = rustix::io::read(self.wake.as_fd(), &mut [0; 8]);
                continue;
            }
            let at = number as usize;
            let Some(pipe) = self.pipes.get_mut(at) else {
                continue;
            };
            // It is packed: no reference to it may be made.
            let flags = event.flags;
            pipe.is_over |= flags.contains(EventFlags::HUP);
            if !std::mem::replace(&mut pipe.is_ready, true) {
                queue.push_back(at);
            }
        }
        Ok(())
    }
}

impl Pipe {
    fn end(&mut self, out: &Outgoing, over: &impl Fn(u32)) {
        if self.from.take().is_some() {
            out.send(Frame::End(self.stream));
            over(self.stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use std::sync::mpsc::channel;

    /// Pipes of a job, and the ends that processes have.
    fn job(count: u32) -> (Outlets, Vec<OwnedFd>) {
        let mut outlets = Outlets::new().unwrap();
        let ends = (1..=count).map(|stream| {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
            outlets.add(read, stream).unwrap();
            write
        });
        let ends = ends.collect();
        (outlets, ends)
    }

    #[test]
    fn what_was_written_first_comes_first() {
        for order in [[1, 0, 2], [0, 1, 2], [2, 0, 1], [2, 1, 0]] {
            let (outlets, mut ends) = job(3);
            for at in order {
                rustix::io::write(&ends[at], b"a line\n").unwrap();
            }
            let (sender, sent) = channel();
            let runs = std::thread::spawn(move || outlets.run(&Outgoing(sender), |_| ()));
            let mut came = sent.iter();
            for at in order {
                assert_eq!(
                    came.next(),
                    Some(Frame::Data(at as u32 + 1, b"a line\n".to_vec()))
                );
            }
            // And when it has slept meanwhile, once and again, and where the end comes with the last bytes.
            for at in order {
                rustix::io::write(&ends[at], b"another\n").unwrap();
                assert_eq!(
                    came.next(),
                    Some(Frame::Data(at as u32 + 1, b"another\n".to_vec()))
                );
            }
            rustix::io::write(&ends[0], b"last").unwrap();
            ends.clear();
            assert_eq!(came.next(), Some(Frame::Data(1, b"last".to_vec())));
            let ended: Vec<_> = came.map(|frame| frame.stream().unwrap()).collect();
            assert_eq!(ended.len(), 3);
            runs.join().unwrap();
        }
    }

    #[test]
    fn no_more_is_sent_than_was_asked_for_and_all_of_that() {
        let (outlets, ends) = job(2);
        let windows: Vec<_> = outlets.windows().collect();
        let (sender, sent) = channel();
        std::thread::spawn(move || outlets.run(&Outgoing(sender), |_| ()));
        let total = 3 * WINDOW as usize;
        for end in ends {
            std::thread::spawn(move || {
                let bytes = vec![5; 100_000];
                let mut left = total;
                while left > 0 {
                    left -= rustix::io::write(&end, &bytes[..left.min(100_000)]).unwrap();
                }
            });
        }
        let mut had = [0; 2];
        let mut ended = 0;
        for frame in sent {
            match frame {
                Frame::Data(stream, bytes) => {
                    had[stream as usize - 1] += bytes.len();
                    assert!(had.iter().all(|&had| had <= total));
                    // The second asks for nothing before the first has all.
                    let asks = if had[0] < total { 0 } else { 1 };
                    if stream == 1 || asks == 1 {
                        windows[stream as usize - 1].1.add(bytes.len() as u32);
                    }
                    if had[0] == total && stream == 1 {
                        assert!(had[1] <= WINDOW as usize);
                        windows[1].1.add(2 * WINDOW);
                    }
                }
                Frame::End(_) => ended += 1,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((had, ended), ([total; 2], 2));
    }

    #[test]
    fn a_writer_learns_that_nobody_reads() {
        let (outlets, ends) = job(2);
        let windows: Vec<_> = outlets.windows().collect();
        let (sender, sent) = channel();
        let (told, over) = channel();
        std::thread::spawn(move || {
            outlets.run(&Outgoing(sender), move |stream| told.send(stream).unwrap());
        });
        // SIGPIPE is ignored in tests.
        windows[0].1.close();
        assert_eq!(over.recv(), Ok(1));
        assert_eq!(sent.recv(), Ok(Frame::End(1)));
        assert_eq!(rustix::io::write(&ends[0], b"x"), Err(Errno::PIPE));
        assert_eq!(rustix::io::write(&ends[1], b"x"), Ok(1));
        assert_eq!(sent.recv(), Ok(Frame::Data(2, b"x".to_vec())));
    }
}
