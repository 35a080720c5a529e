//! What is said between a stage's helper, the broker of its user, and the agents on other machines: frames over a byte stream.
//!
//! ```text
//! frame   = stream: u32  kind: u8  length: u24  payload        little-endian
//! ```
//!
//! A stream is one direction of bytes inside a job: a process' input, output or errors. It is flow-controlled end to end by *credit*: who
//! sends may send some at first, then as the reader has taken them, so nobody between them ever has to wait or to drop. `End` says that no
//! more comes, `Reset` that no more is wanted. Everything else is a message.
//!
//! The invariant: a frame that cannot be read ends the connection; nothing is guessed.

mod message;

use std::io::{self, Read, Write};

use nix::sys::signal::Signal;

pub use message::{
    Access, Below, Busy, Checked, Comparison, Ending, FarHello, FileFact, FromAgent, FromBroker,
    Hello, HostState, Input, Job, Join, Limits, Misfit, NearRun, Output, Place, Process, Record,
    Rehearsal, Run, Seen, Sink, Source, StageCall, Standing, Stdio, ToAgent, ToBroker, Tool,
    Touched, Used, View,
};

/// What both ends of a connection must have in common; told in the first message of each.
pub const PROTOCOL: u32 = 9;

/// How many bytes a reader asks for ahead, at most. Two megabytes are what 5 Gb/s hold at 3 ms, and what ssh itself lets pass
/// unacknowledged in one of its channels.
pub const WINDOW: u32 = 2 << 20;

/// What may be sent at first of what goes to a process: as much as a pipe holds, for who writes it would notice early that nobody reads it.
pub const FIRST_IN: u32 = 64 << 10;

/// The longest payload of one data frame.
pub const PIECE: usize = 128 << 10;

/// The longest payload of all: a message with the words and the environment of a command, which the kernel bounds at some megabytes.
const LONGEST: usize = (1 << 24) - 1;

/// Signals that users send to their commands: one elsewhere gets them if the process that stands for it does.
pub const PASSED_ON: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTSTP,
    Signal::SIGCONT,
    Signal::SIGWINCH,
];

/// One frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A message, in `postcard`'s encoding.
    Message(Vec<u8>),
    /// Bytes of a stream.
    Data(u32, Vec<u8>),
    /// The reader of a stream takes so many more bytes.
    Credit(u32, u32),
    /// The writer of a stream has no more.
    End(u32),
    /// The reader of a stream wants no more.
    Reset(u32),
}

const MESSAGE: u8 = 0;
const DATA: u8 = 1;
const CREDIT: u8 = 2;
const END: u8 = 3;
const RESET: u8 = 4;

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Frame {
    /// A message as a frame.
    pub fn of<T: serde::Serialize>(message: &T) -> Frame {
        // Writing to memory fails for no type that is in these messages.
        Frame::Message(postcard::to_stdvec(message).unwrap_or_default())
    }

    /// The message in a payload.
    ///
    /// # Errors
    /// When it is none of this protocol.
    pub fn message<T: serde::de::DeserializeOwned>(payload: &[u8]) -> io::Result<T> {
        postcard::from_bytes(payload).map_err(|_| damaged("a message that is none"))
    }

    /// The stream that it is about; none: it is a message.
    pub fn stream(&self) -> Option<u32> {
        match self {
            Self::Message(_) => None,
            Self::Data(number, _)
            | Self::Credit(number, _)
            | Self::End(number)
            | Self::Reset(number) => Some(*number),
        }
    }

    /// The frame for another connection, on which its stream has another number.
    #[must_use]
    pub fn renumbered(self, number: u32) -> Frame {
        match self {
            Self::Message(payload) => Self::Message(payload),
            Self::Data(_, bytes) => Self::Data(number, bytes),
            Self::Credit(_, bytes) => Self::Credit(number, bytes),
            Self::End(_) => Self::End(number),
            Self::Reset(_) => Self::Reset(number),
        }
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of the writer, and a payload that is too long.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let credit;
        let (stream, kind, payload): (u32, u8, &[u8]) = match self {
            Self::Message(payload) => (0, MESSAGE, payload),
            Self::Data(stream, bytes) => (*stream, DATA, bytes),
            Self::Credit(stream, bytes) => {
                credit = bytes.to_le_bytes();
                (*stream, CREDIT, &credit)
            }
            Self::End(stream) => (*stream, END, &[]),
            Self::Reset(stream) => (*stream, RESET, &[]),
        };
        if payload.len() > LONGEST {
            return Err(damaged("a message that is too long"));
        }
        let head = stream.to_le_bytes();
        let length = (payload.len() as u32).to_le_bytes();
        to.write_all(&[
            head[0], head[1], head[2], head[3], kind, length[0], length[1], length[2],
        ])?;
        to.write_all(payload)
    }

    /// Reads the next one; none at the end of the bytes.
    ///
    /// # Errors
    /// Those of the reader, an end in the middle, and what is no frame.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Frame>> {
        let mut head = [0; 8];
        let mut had = 0;
        while had < head.len() {
            match from.read(&mut head[had..]) {
                Ok(0) if had == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(more) => had += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let stream = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let length = u32::from_le_bytes([head[5], head[6], head[7], 0]) as usize;
        let bound = match head[4] {
            MESSAGE => LONGEST,
            DATA => PIECE,
            CREDIT => 4,
            END | RESET => 0,
            _ => return Err(damaged("a frame of an unknown kind")),
        };
        if length > bound {
            return Err(damaged("a frame that is too long"));
        }
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Ok(Some(match head[4] {
            MESSAGE => Self::Message(payload),
            DATA => Self::Data(stream, payload),
            CREDIT => match payload.try_into() {
                Ok(bytes) => Self::Credit(stream, u32::from_le_bytes(bytes)),
                Err(_) => return Err(damaged("credit without a number")),
            },
            END => Self::End(stream),
            _ => Self::Reset(stream),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_were_written() {
        let frames = [
            Frame::Message(vec![1, 2, 3]),
            Frame::Data(7, vec![0; PIECE]),
            Frame::Data(u32::MAX, Vec::new()),
            Frame::Credit(7, 0x8070_6050),
            Frame::End(1 << 20),
            Frame::Reset(3),
        ];
        let mut bytes = Vec::new();
        for frame in &frames {
            frame.write(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        for frame in &frames {
            assert_eq!(Frame::read(&mut rest).unwrap().as_ref(), Some(frame));
        }
        assert_eq!(Frame::read(&mut rest).unwrap(), None);
    }

    #[test]
    fn what_is_no_frame_is_an_error_and_takes_no_memory() {
        let refused = |bytes: &[u8]| Frame::read(&mut &*bytes).is_err();
        assert!(refused(&[0, 0, 0]));
        assert!(refused(&[0, 0, 0, 0, 9, 0, 0, 0]));
        assert!(refused(&[0, 0, 0, 0, DATA, 1, 0, 2]));
        assert!(refused(&[0, 0, 0, 0, END, 1, 0, 0, 0]));
        assert!(refused(&[0, 0, 0, 0, CREDIT, 2, 0, 0, 0, 0]));
        assert!(refused(&[0, 0, 0, 0, MESSAGE, 9, 0, 0, 1]));
        assert!(Frame::message::<ToAgent>(&[0xff; 9]).is_err());
        assert!(
            Frame::Message(vec![0; LONGEST + 1])
                .write(&mut Vec::new())
                .is_err()
        );
    }
}
