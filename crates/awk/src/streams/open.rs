//! Opening what a name stands for, to write or to read; giving up descriptors when there are none left.
//!
//! Invariant: a stream stays open under its name until it is closed by it.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use super::names::{self, Target};
use super::network::{Address, Refusal};
use super::out::{Out, Sink};
use super::source::{InputFile, Waiting};
use super::{Input, Manner, Named, OutKind, Side, Slot, StreamError, Streams, shown};
use crate::records::{READ_BYTES, RecordReader};

/// `EMFILE` and `ENFILE`: no descriptors left in the process or the system. Linux's numbers.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

fn is_out_of_descriptors(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}

impl Streams {
    pub(super) fn find_or_open(
        &mut self,
        kind: OutKind,
        name: &[u8],
        manner: Manner,
    ) -> Result<Slot, StreamError> {
        if kind == OutKind::Coprocess {
            let slot = self.coprocess(name, manner)?.to;
            return slot.ok_or_else(|| StreamError::EndClosed {
                name: shown(name),
                side: Side::To,
            });
        }
        let pipe = kind == OutKind::Pipe;
        let names = if pipe { &self.pipes } else { &self.files };
        let slot = match names.get(name) {
            Some(named) => named.slot,
            None => {
                let slot = self.open(kind, name, manner)?;
                let opened = self.next_opening();
                let names = if pipe {
                    &mut self.pipes
                } else {
                    &mut self.files
                };
                names.insert(name.to_vec(), Named { slot, opened });
                slot
            }
        };
        self.recent = Some((kind, name.to_vec(), slot));
        Ok(slot)
    }

    fn open(&mut self, kind: OutKind, name: &[u8], manner: Manner) -> Result<Slot, StreamError> {
        if matches!(kind, OutKind::Pipe | OutKind::Coprocess) {
            let child = self.start_writing_to(name)?;
            let mut out = Out::new(name, Sink::Child(child));
            if !manner.buffered {
                // As gawk since 5.3: who reads the pipe gets each line at once.
                out.limit_bytes = 1;
            }
            return Ok(self.place(out));
        }
        let failed = |source| StreamError::OpenOutput {
            name: shown(name),
            source,
        };
        let sink = match names::target(name) {
            Target::Stdout => return Ok(Slot::Stdout),
            Target::Stderr => return Ok(Slot::Stderr),
            Target::Descriptor(number) => Sink::Handle(
                self.with_descriptors(|_| names::inherited(number))
                    .map_err(failed)?,
            ),
            Target::File => match Address::parse(name) {
                Some(address) => Sink::Handle(self.connect(name, &address)?),
                None => {
                    let mut options = OpenOptions::new();
                    match kind {
                        OutKind::Append => options.append(true),
                        _ => options.write(true).truncate(true),
                    }
                    .create(true);
                    let path = OsStr::from_bytes(name);
                    let file = self.with_descriptors(|_| options.open(path));
                    Sink::File(file.map_err(failed)?)
                }
            },
        };
        Ok(self.place(Out::new(name, sink)))
    }

    /// Keeps an output.
    pub(super) fn place(&mut self, out: Out) -> Slot {
        Slot::Open(match self.free.pop() {
            Some(index) => {
                self.outs[index] = Some(out);
                index
            }
            None => {
                self.outs.push(Some(out));
                self.outs.len() - 1
            }
        })
    }

    pub(super) fn connect(
        &mut self,
        name: &[u8],
        address: &Address<'_>,
    ) -> Result<File, StreamError> {
        address.open(self.attempts).map_err(|refusal| {
            let name = shown(name);
            match refusal {
                Refusal::Address(what) => StreamError::Address { name, what },
                Refusal::System(source) => StreamError::Connect { name, source },
            }
        })
    }

    /// The file of that name for `getline`, opened if it is not open.
    ///
    /// # Errors
    /// It cannot be opened, or it is a directory.
    pub fn input_file(&mut self, name: &[u8]) -> Result<&mut RecordReader, StreamError> {
        if names::is_stdin(name) {
            if !self.stdin_names.contains_key(name) {
                let opened = self.next_opening();
                self.stdin_names.insert(name.to_vec(), opened);
            }
            return Ok(&mut self.stdin);
        }
        match self.input_files.get(name) {
            None => {
                if names::descriptor(name).is_some() {
                    // Its position is shared with whoever else has it.
                    let file = self.open_input(name)?;
                    let reader = self.reader(file);
                    self.add_input(name, reader);
                } else {
                    let patience = Rc::clone(&self.patience);
                    let mut kept = None;
                    let reader = self.begun(name, |file| {
                        let file = InputFile::new(file, patience);
                        kept = Some(file.clone());
                        Box::new(file)
                    })?;
                    self.keep_input(name, reader, kept);
                }
            }
            Some(input) => {
                if let Some(file) = input.file.as_ref().filter(|file| file.is_parked()) {
                    let file = file.clone();
                    self.with_descriptors(|_| file.reopen()).map_err(|source| {
                        StreamError::Read {
                            name: shown(name),
                            source,
                        }
                    })?;
                }
            }
        }
        Ok(&mut self.input_files.get(name).expect("just opened").reader)
    }

    /// The file that `getline` read last, if it has that name.
    #[inline]
    pub fn recent_file(&mut self, name: &[u8]) -> Option<&mut RecordReader> {
        self.input_files.recent(name).map(|input| &mut input.reader)
    }

    /// Keeps a reader as the open file of that name.
    pub fn add_input(&mut self, name: &[u8], reader: RecordReader) -> &mut RecordReader {
        self.keep_input(name, reader, None)
    }

    fn keep_input(
        &mut self,
        name: &[u8],
        reader: RecordReader,
        file: Option<InputFile>,
    ) -> &mut RecordReader {
        let input = Input {
            reader,
            file,
            child: None,
            opened: self.next_opening(),
        };
        &mut self.input_files.insert(name, input).reader
    }

    /// The file of that name was read to its end: its descriptor and buffer are given back, its name stays until it is
    /// closed.
    pub fn end_file(&mut self, name: &[u8]) {
        if let Some(input) = self.input_files.get(name) {
            let buffer = input.reader.release();
            input.file = None;
            self.keep_buffer(buffer);
        }
    }

    /// The same for the output of a command, whose status waits for `close`.
    pub fn end_command(&mut self, command: &[u8]) {
        if let Some(input) = self.input_commands.get(command) {
            let buffer = input.reader.release();
            self.keep_buffer(buffer);
        }
    }

    /// Ends a reader that is not read on, but for its buffer.
    pub fn retire(&mut self, mut reader: RecordReader) {
        let buffer = reader.release();
        self.keep_buffer(buffer);
    }

    /// To clear a buffer costs more than to open and read a small file.
    fn keep_buffer(&mut self, buffer: Vec<u8>) {
        // One that grew with a long record is given back to the system.
        if buffer.len() == READ_BYTES {
            self.spare = buffer;
        }
    }

    fn reader_of(&mut self, source: Box<dyn Read>) -> RecordReader {
        RecordReader::with_buffer(source, std::mem::take(&mut self.spare))
    }

    /// Opens a file, a descriptor or a connection for reading, apart from the streams that `close` knows: the main
    /// input's operands. To be read through [`Streams::reader`].
    ///
    /// # Errors
    /// As [`Streams::input_file`].
    pub fn open_input(&mut self, name: &[u8]) -> Result<File, StreamError> {
        let file = self.open_any(name)?;
        // Opening a directory succeeds and the first read fails; said here, the message can name it.
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(StreamError::IsDirectory { name: shown(name) });
        }
        Ok(file)
    }

    /// The same, and a first read of it, for who would read next: that tells a directory without another question.
    ///
    /// # Errors
    /// As [`Streams::input_file`]; another error of the read comes again when the first record is asked for.
    pub fn begin_input(&mut self, name: &[u8]) -> Result<RecordReader, StreamError> {
        let patience = Rc::clone(&self.patience);
        self.begun(name, |inner| Box::new(Waiting { inner, patience }))
    }

    fn begun(
        &mut self,
        name: &[u8],
        source: impl FnOnce(File) -> Box<dyn Read>,
    ) -> Result<RecordReader, StreamError> {
        // A read that may not wait for long is made when a record is asked for, and not twice.
        let is_patient = !self.patience.is_limited();
        let file = if is_patient {
            self.open_any(name)?
        } else {
            self.open_input(name)?
        };
        let mut reader = self.reader_of(source(file));
        match is_patient.then(|| reader.begin()) {
            Some(Err(error)) if error.kind() == io::ErrorKind::IsADirectory => {
                Err(StreamError::IsDirectory { name: shown(name) })
            }
            _ => Ok(reader),
        }
    }

    fn open_any(&mut self, name: &[u8]) -> Result<File, StreamError> {
        if let Some(address) = Address::parse(name) {
            return self.connect(name, &address);
        }
        self.with_descriptors(|_| match names::descriptor(name) {
            Some(number) => names::inherited(number),
            None => File::open(OsStr::from_bytes(name)),
        })
        .map_err(|source| StreamError::OpenInput {
            name: shown(name),
            source,
        })
    }

    /// A reader of `source` that waits as long as [`Streams::patience`] says.
    pub fn reader(&mut self, source: impl Read + AsFd + 'static) -> RecordReader {
        let patience = Rc::clone(&self.patience);
        self.reader_of(Box::new(Waiting {
            inner: source,
            patience,
        }))
    }

    /// The output of that command for `getline`, started if it is not running. All outputs are flushed first.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn input_command(&mut self, command: &[u8]) -> Result<&mut RecordReader, StreamError> {
        if self.input_commands.get(command).is_none() {
            let mut child = self.start_reading_from(command)?;
            let reader = match child.stdout.take() {
                Some(stdout) => self.reader(stdout),
                None => RecordReader::new(Box::new(io::empty())),
            };
            let input = Input {
                reader,
                file: None,
                child: Some(child),
                opened: self.next_opening(),
            };
            self.input_commands.insert(command, input);
        }
        Ok(&mut self
            .input_commands
            .get(command)
            .expect("just started")
            .reader)
    }

    /// Runs `open`, and while it fails for want of descriptors, parks some files and tries again. From the first
    /// parking on, one descriptor is left free for the flushing of parked files.
    pub(super) fn with_descriptors<T>(
        &mut self,
        mut open: impl FnMut(&Streams) -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match open(self) {
                Err(error) if is_out_of_descriptors(&error) && self.park() => {
                    self.has_parked = true
                }
                Ok(opened) if self.has_parked => {
                    while File::open("/dev/null").is_err_and(|error| is_out_of_descriptors(&error))
                        && self.park()
                    {}
                    return Ok(opened);
                }
                result => return result,
            }
        }
    }

    /// Closes some regular files, flushed, to be opened again when they are written or read. False if there is none.
    pub(super) fn park(&mut self) -> bool {
        // A handful at a time, so that a program that writes to thousands in turn does not park at every step.
        let mut left = 16;
        for out in self.outs.iter_mut().flatten() {
            let Sink::File(file) = &out.sink else {
                continue;
            };
            // A device or FIFO is not the same when it is opened again.
            if left == 0 || !file.metadata().is_ok_and(|meta| meta.is_file()) {
                continue;
            }
            if out.flush_io().is_ok() {
                out.buf.clear();
                out.sink = Sink::Parked;
                left -= 1;
            }
        }
        for input in self.input_files.iter().map(|(_, input)| input) {
            if left > 0 && input.file.as_ref().is_some_and(InputFile::park) {
                left -= 1;
            }
        }
        left < 16
    }
}
