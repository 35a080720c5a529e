//! Everything outside the program: output files, pipes, input files, commands.
//!
//! Invariant: what the program wrote before it starts or waits for another process is handed to the system first, so
//! that outputs appear in program order; a stream stays open under its name until it is closed by it. Children inherit
//! only the standard descriptors (the standard library opens all others close-on-exec). Called by the VM.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::error::system_reason;
use crate::records::RecordReader;

/// Output is handed to the system in pieces of this many bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// `EMFILE` and `ENFILE`: no descriptors left in the process or the system. Linux's numbers.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

/// How an output is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OutKind {
    /// `> name`: emptied when opened.
    File,
    /// `>> name`
    Append,
    /// `| command`
    Pipe,
    /// `|& command`
    Coprocess,
}

/// One end of a coprocess.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// What the program writes to it.
    To,
    /// What the program reads from it.
    From,
}

/// What could not be done with a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The reader of standard output is gone: the program should end quietly.
    #[error("standard output: broken pipe")]
    StdoutClosed,
    /// A file could not be opened for reading.
    #[error("cannot open file {name:?} for reading: {}", system_reason(source))]
    OpenInput {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A directory was given where text is read.
    #[error("cannot read {name:?}: it is a directory; give a file")]
    IsDirectory {
        /// The directory.
        name: String,
    },
    /// A file could not be opened for writing.
    #[error("cannot open file {name:?} for writing: {}", system_reason(source))]
    OpenOutput {
        /// The file.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// A command could not be started.
    #[error("cannot start command {command:?}: {}", system_reason(source))]
    Start {
        /// The command.
        command: String,
        /// Why.
        source: io::Error,
    },
    /// Bytes could not be written.
    #[error("cannot write to {name:?}: {}", system_reason(source))]
    Write {
        /// The file or command.
        name: String,
        /// Why.
        source: io::Error,
    },
}

impl StreamError {
    /// The system's number of the reason, if it has one.
    pub fn number(&self) -> Option<i32> {
        match self {
            StreamError::StdoutClosed => Some(32),       // EPIPE on Linux
            StreamError::IsDirectory { .. } => Some(21), // EISDIR
            StreamError::OpenInput { source, .. }
            | StreamError::OpenOutput { source, .. }
            | StreamError::Start { source, .. }
            | StreamError::Write { source, .. } => source.raw_os_error(),
        }
    }

    /// The system's reason, for ERRNO.
    pub fn reason(&self) -> String {
        match self {
            StreamError::StdoutClosed => "broken pipe".to_string(),
            StreamError::IsDirectory { .. } => "Is a directory".to_string(),
            StreamError::OpenInput { source, .. }
            | StreamError::OpenOutput { source, .. }
            | StreamError::Start { source, .. }
            | StreamError::Write { source, .. } => system_reason(source),
        }
    }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Where the bytes of an [`Out`] go.
enum Sink {
    Writer(Box<dyn Write>),
    File(File),
    /// A file given up when descriptors ran out; opened again, to append, whenever its buffer goes out.
    Parked,
    Child(Child),
}

/// A buffered output.
///
/// The hot path appends to [`Out::buffer`] and then calls [`Out::settle`].
pub struct Out {
    name: Vec<u8>,
    buf: Vec<u8>,
    sink: Sink,
    /// The buffer goes out when it holds this many bytes: 1 for terminals and standard error.
    limit_bytes: usize,
    is_stdout: bool,
}

impl Out {
    fn new(name: &[u8], sink: Sink) -> Out {
        Out {
            name: name.to_vec(),
            buf: Vec::new(),
            sink,
            limit_bytes: BUFFER_BYTES,
            is_stdout: false,
        }
    }

    /// The bytes not yet handed to the system: append to them, then call [`Out::settle`].
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Hands the buffer to the system if it has grown to its limit. Call after each statement's output: an output to
    /// a terminal goes out then.
    ///
    /// # Errors
    /// As [`Out::flush`].
    #[inline]
    pub fn settle(&mut self) -> Result<(), StreamError> {
        if self.buf.len() >= self.limit_bytes {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Appends `bytes`; the same as filling the buffer and settling.
    ///
    /// # Errors
    /// As [`Out::flush`].
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.buf.extend_from_slice(bytes);
        self.settle()
    }

    /// Hands all bytes to the system.
    ///
    /// # Errors
    /// [`StreamError::StdoutClosed`] for a broken pipe on standard output, else [`StreamError::Write`]. The bytes are
    /// dropped: they would fail again.
    #[cold]
    pub fn flush(&mut self) -> Result<(), StreamError> {
        let result = self.flush_io();
        self.buf.clear();
        if self.buf.capacity() > 4 * BUFFER_BYTES {
            self.buf.shrink_to(BUFFER_BYTES);
        }
        result.map_err(|source| {
            if self.is_stdout && source.kind() == io::ErrorKind::BrokenPipe {
                StreamError::StdoutClosed
            } else {
                StreamError::Write {
                    name: shown(&self.name),
                    source,
                }
            }
        })
    }

    fn flush_io(&mut self) -> io::Result<()> {
        if self.buf.is_empty() {
            return Ok(());
        }
        match &mut self.sink {
            Sink::Writer(writer) => {
                writer.write_all(&self.buf)?;
                writer.flush()
            }
            Sink::File(file) => file.write_all(&self.buf),
            Sink::Child(child) => match &mut child.stdin {
                Some(stdin) => stdin.write_all(&self.buf),
                None => Ok(()),
            },
            // Closed again at once: thousands of files may be parked, and `with_descriptors` leaves one descriptor.
            Sink::Parked => OpenOptions::new()
                .append(true)
                .create(true)
                .open(OsStr::from_bytes(&self.name))?
                .write_all(&self.buf),
        }
    }
}

/// An open input.
struct Input {
    reader: RecordReader,
    /// The command that feeds it.
    child: Option<Child>,
    /// When it was opened, in steps of [`Streams::opened`].
    opened: u64,
}

/// A command that the program both writes to and reads from.
struct Coprocess {
    child: Child,
    to: Option<Slot>,
    from: Option<RecordReader>,
    opened: u64,
}

/// Which output a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    Stdout,
    Stderr,
    Open(usize),
}

/// An entry of the names of outputs.
#[derive(Clone, Copy)]
struct Named {
    slot: Slot,
    opened: u64,
}

/// Standard output as it was, while it goes to a file.
pub struct Redirected(Option<Out>);

/// All streams of one run.
pub struct Streams {
    stdout: Out,
    stderr: Out,
    /// Outputs that were opened; a closed one leaves its place free.
    outs: Vec<Option<Out>>,
    free: Vec<usize>,
    files: HashMap<Vec<u8>, Named>,
    pipes: HashMap<Vec<u8>, Named>,
    /// The output used last, as programs write to one for a while.
    recent: Option<(OutKind, Vec<u8>, Slot)>,
    /// Coprocesses by command; what is written to one is an output.
    coprocesses: HashMap<Vec<u8>, Coprocess>,
    input_files: HashMap<Vec<u8>, Input>,
    input_commands: HashMap<Vec<u8>, Input>,
    stdin: RecordReader,
    /// Names by which standard input has been opened, and when.
    stdin_names: HashMap<Vec<u8>, u64>,
    /// Counts openings.
    opened: u64,
    /// Some output is or was [`Sink::Parked`].
    has_parked: bool,
    /// The environment of commands, if it is not the process's own.
    environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
}

/// Names of standard input.
fn is_stdin(name: &[u8]) -> bool {
    matches!(name, b"-" | b"/dev/stdin" | b"/dev/fd/0")
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    error
        .raw_os_error()
        .is_some_and(|code| NO_DESCRIPTORS.contains(&code))
}

/// `close` and `system`: the exit code, 256 + signal for a command that one ended, 512 + signal with a core file
/// (gawk 5.2.1).
fn status_value(status: ExitStatus) -> f64 {
    match (status.code(), status.signal()) {
        (Some(code), _) => f64::from(code),
        (None, Some(signal)) => f64::from(signal + if status.core_dumped() { 512 } else { 256 }),
        (None, None) => -1.0,
    }
}

fn shell(command: &[u8], environment: Option<&[(Vec<u8>, Vec<u8>)]>) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(OsStr::from_bytes(command));
    if let Some(variables) = environment {
        let text = |bytes: &'_ [u8]| OsStr::from_bytes(bytes).to_os_string();
        shell.env_clear();
        shell.envs(
            variables
                .iter()
                .map(|(name, value)| (text(name), text(value))),
        );
    }
    shell
}

/// Closes the child's input and waits.
fn wait(mut child: Child) -> f64 {
    child.wait().map_or(-1.0, status_value)
}

impl Streams {
    /// The streams of a run that prints to `stdout`. On a terminal each statement's output goes out at once.
    pub fn new(stdout: Box<dyn Write>, stdout_is_terminal: bool) -> Self {
        let mut stdout = Out::new(b"/dev/stdout", Sink::Writer(stdout));
        stdout.is_stdout = true;
        stdout.buf.reserve(BUFFER_BYTES + 4096);
        if stdout_is_terminal {
            stdout.limit_bytes = 1;
        }
        let mut stderr = Out::new(b"/dev/stderr", Sink::Writer(Box::new(io::stderr())));
        stderr.limit_bytes = 1;
        Streams {
            stdout,
            stderr,
            outs: Vec::new(),
            free: Vec::new(),
            files: HashMap::new(),
            pipes: HashMap::new(),
            recent: None,
            coprocesses: HashMap::new(),
            input_files: HashMap::new(),
            input_commands: HashMap::new(),
            stdin: RecordReader::new(Box::new(io::stdin())),
            stdin_names: HashMap::new(),
            opened: 0,
            has_parked: false,
            environment: None,
        }
    }

    /// Reads standard input from `source` from now on (tests, programs that embed the engine).
    pub fn set_stdin(&mut self, source: Box<dyn Read>) {
        self.stdin = RecordReader::new(source);
    }

    /// Gives commands that are started from now on this environment instead of the process's own.
    pub fn set_environment(&mut self, variables: Vec<(Vec<u8>, Vec<u8>)>) {
        self.environment = Some(variables);
    }

    /// Sends standard output to a file for a while.
    ///
    /// # Errors
    /// What was printed before cannot be written.
    pub fn redirect_stdout(&mut self, file: File) -> Result<Redirected, StreamError> {
        self.stdout.flush()?;
        let new = Out::new(b"/dev/stdout", Sink::File(file));
        Ok(Redirected(Some(std::mem::replace(&mut self.stdout, new))))
    }

    /// Sends it where it went before.
    ///
    /// # Errors
    /// What was printed meanwhile cannot be written.
    pub fn restore_stdout(&mut self, before: &mut Redirected) -> Result<(), StreamError> {
        let flushed = self.stdout.flush();
        if let Some(out) = before.0.take() {
            self.stdout = out;
        }
        flushed
    }

    /// Whether an output file of that name is open.
    pub fn is_open(&self, name: &[u8]) -> bool {
        self.files.contains_key(name)
    }

    /// Whether a command is running as an input, an output or a coprocess.
    pub fn is_running(&self, command: &[u8]) -> bool {
        self.pipes.contains_key(command)
            || self.input_commands.contains_key(command)
            || self.coprocesses.contains_key(command)
    }

    /// Standard output.
    #[inline]
    pub fn stdout(&mut self) -> &mut Out {
        &mut self.stdout
    }

    /// Standard input: one reader, whichever of its names the program uses and also for the main input.
    pub fn stdin(&mut self) -> &mut RecordReader {
        &mut self.stdin
    }

    fn out(&mut self, slot: Slot) -> Option<&mut Out> {
        match slot {
            Slot::Stdout => Some(&mut self.stdout),
            Slot::Stderr => Some(&mut self.stderr),
            Slot::Open(index) => self.outs.get_mut(index)?.as_mut(),
        }
    }

    /// The output of that kind and name, opened if it is not open. `>` and `>>` share an open file. `-`,
    /// `/dev/stdout` and `/dev/stderr` are the process's own.
    ///
    /// # Errors
    /// The file cannot be opened or the command cannot be started. Before a command is started all outputs are
    /// flushed; an error in that is reported too.
    #[inline]
    pub fn output(&mut self, kind: OutKind, name: &[u8]) -> Result<&mut Out, StreamError> {
        let slot = match &self.recent {
            Some((k, n, slot)) if *k == kind && n == name => *slot,
            _ => self.find_or_open(kind, name)?,
        };
        match slot {
            Slot::Stdout => Ok(&mut self.stdout),
            Slot::Stderr => Ok(&mut self.stderr),
            Slot::Open(index) => Ok(self.outs[index].as_mut().expect("named outputs are open")),
        }
    }

    fn find_or_open(&mut self, kind: OutKind, name: &[u8]) -> Result<Slot, StreamError> {
        if kind == OutKind::Coprocess {
            let slot = self.coprocess(name)?.to;
            return slot.ok_or_else(|| StreamError::Write {
                name: shown(name),
                source: io::Error::other("its input was closed"),
            });
        }
        let pipe = kind == OutKind::Pipe;
        let names = if pipe { &self.pipes } else { &self.files };
        let slot = match names.get(name) {
            Some(named) => named.slot,
            None => {
                let slot = self.open(kind, name)?;
                self.opened += 1;
                let named = Named {
                    slot,
                    opened: self.opened,
                };
                if pipe {
                    &mut self.pipes
                } else {
                    &mut self.files
                }
                .insert(name.to_vec(), named);
                slot
            }
        };
        self.recent = Some((kind, name.to_vec(), slot));
        Ok(slot)
    }

    fn open(&mut self, kind: OutKind, name: &[u8]) -> Result<Slot, StreamError> {
        let sink = match (kind, name) {
            (OutKind::Pipe | OutKind::Coprocess, _) => {
                self.flush_outputs()?;
                let child = self.start(name, |command| command.stdin(Stdio::piped()))?;
                Sink::Child(child)
            }
            (_, b"-" | b"/dev/stdout" | b"/dev/fd/1") => return Ok(Slot::Stdout),
            (_, b"/dev/stderr" | b"/dev/fd/2") => return Ok(Slot::Stderr),
            _ => {
                let mut options = OpenOptions::new();
                match kind {
                    OutKind::Append => options.append(true),
                    _ => options.write(true).truncate(true),
                }
                .create(true);
                let file = self
                    .with_descriptors(|| options.open(OsStr::from_bytes(name)))
                    .map_err(|source| StreamError::OpenOutput {
                        name: shown(name),
                        source,
                    })?;
                Sink::File(file)
            }
        };
        Ok(self.place(Out::new(name, sink)))
    }

    /// Keeps an output.
    fn place(&mut self, out: Out) -> Slot {
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

    /// The coprocess of that command, started if it is not running.
    fn coprocess(&mut self, command: &[u8]) -> Result<&mut Coprocess, StreamError> {
        if !self.coprocesses.contains_key(command) {
            self.flush_outputs()?;
            let mut child = self.start(command, |shell| {
                shell.stdin(Stdio::piped()).stdout(Stdio::piped())
            })?;
            let to = child.stdin.take().map(|stdin| {
                let sink = Sink::Writer(Box::new(stdin));
                self.place(Out::new(command, sink))
            });
            let stdout = child.stdout.take();
            let from = stdout.map(|stdout| RecordReader::new(Box::new(stdout)));
            self.opened += 1;
            let opened = self.opened;
            let made = Coprocess {
                child,
                to,
                from,
                opened,
            };
            self.coprocesses.insert(command.to_vec(), made);
        }
        Ok(self.coprocesses.get_mut(command).expect("just started"))
    }

    /// What a coprocess prints, for `getline`; it is started if it is not running. All outputs are flushed first: it
    /// may be waiting for them.
    ///
    /// # Errors
    /// It cannot be started, an output cannot be flushed, or this end was closed.
    pub fn input_coprocess(&mut self, command: &[u8]) -> Result<&mut RecordReader, StreamError> {
        self.flush_outputs()?;
        let reader = self.coprocess(command)?.from.as_mut();
        reader.ok_or_else(|| StreamError::OpenInput {
            name: shown(command),
            source: io::Error::other("its output was closed"),
        })
    }

    /// AWK's `close` with a second argument: one end of a coprocess. When both ends are closed the command is waited for
    /// and its status given; else 0, or -1 if there is no such coprocess.
    pub fn close_side(&mut self, command: &[u8], side: Side) -> f64 {
        let Some(process) = self.coprocesses.get_mut(command) else {
            return -1.0;
        };
        let mut closed = true;
        match side {
            Side::To => {
                let slot = process.to.take();
                self.recent = None;
                if let Some(slot) = slot {
                    closed = self.close_output(slot).is_ok();
                }
            }
            Side::From => process.from = None,
        }
        let over = |process: &Coprocess| process.to.is_none() && process.from.is_none();
        if self.coprocesses.get(command).is_some_and(over) {
            let process = self.coprocesses.remove(command);
            return process.map_or(-1.0, |process| wait(process.child));
        }
        if closed { 0.0 } else { -1.0 }
    }

    /// Closes both ends of a coprocess and waits for it.
    fn close_coprocess(&mut self, command: &[u8]) -> f64 {
        let Some(mut process) = self.coprocesses.remove(command) else {
            return -1.0;
        };
        self.recent = None;
        let closed = match process.to.take() {
            Some(slot) => self.close_output(slot).is_ok(),
            None => true,
        };
        drop(process.from.take());
        let status = wait(process.child);
        if closed { status } else { -1.0 }
    }

    /// Runs `open`, and while it fails for want of descriptors, parks some output files and tries again. From the first
    /// parking on, one descriptor is left free for the flushing of parked files.
    fn with_descriptors<T>(&mut self, mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match open() {
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

    /// Flushes and closes some regular files, to be opened again when they are written. False if there is none.
    fn park(&mut self) -> bool {
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
        left < 16
    }

    fn start(
        &mut self,
        command: &[u8],
        set_up: impl Fn(&mut Command) -> &mut Command,
    ) -> Result<Child, StreamError> {
        let environment = self.environment.take();
        let spawned = self.with_descriptors(|| {
            let mut shell = shell(command, environment.as_deref());
            set_up(&mut shell).spawn()
        });
        self.environment = environment;
        spawned.map_err(|source| StreamError::Start {
            command: shown(command),
            source,
        })
    }

    /// The file of that name for `getline`, opened if it is not open.
    ///
    /// # Errors
    /// It cannot be opened, or it is a directory.
    pub fn input_file(&mut self, name: &[u8]) -> Result<&mut RecordReader, StreamError> {
        if is_stdin(name) {
            if !self.stdin_names.contains_key(name) {
                self.opened += 1;
                self.stdin_names.insert(name.to_vec(), self.opened);
            }
            return Ok(&mut self.stdin);
        }
        if !self.input_files.contains_key(name) {
            let reader = RecordReader::new(Box::new(self.open_input(name)?));
            self.add_input(name, reader);
        }
        Ok(&mut self.input_files.get_mut(name).expect("just opened").reader)
    }

    /// Keeps a reader as the open file of that name.
    pub fn add_input(&mut self, name: &[u8], reader: RecordReader) -> &mut RecordReader {
        self.opened += 1;
        let input = Input {
            reader,
            child: None,
            opened: self.opened,
        };
        let entry = self.input_files.entry(name.to_vec());
        &mut entry.insert_entry(input).into_mut().reader
    }

    /// Opens a file for reading, apart from the streams that `close` knows: the main input's operands.
    ///
    /// # Errors
    /// As [`Streams::input_file`].
    pub fn open_input(&mut self, name: &[u8]) -> Result<File, StreamError> {
        let file = self
            .with_descriptors(|| File::open(OsStr::from_bytes(name)))
            .map_err(|source| StreamError::OpenInput {
                name: shown(name),
                source,
            })?;
        // Opening a directory succeeds and the first read fails; said here, the message can name it.
        if file.metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(StreamError::IsDirectory { name: shown(name) });
        }
        Ok(file)
    }

    /// The output of that command for `getline`, started if it is not running. All outputs are flushed first.
    ///
    /// # Errors
    /// It cannot be started, or an output cannot be flushed.
    pub fn input_command(&mut self, command: &[u8]) -> Result<&mut RecordReader, StreamError> {
        if !self.input_commands.contains_key(command) {
            self.flush_outputs()?;
            let mut child = self.start(command, |command| command.stdout(Stdio::piped()))?;
            let reader = match child.stdout.take() {
                Some(stdout) => RecordReader::new(Box::new(stdout)),
                None => RecordReader::new(Box::new(io::empty())),
            };
            self.opened += 1;
            let input = Input {
                reader,
                child: Some(child),
                opened: self.opened,
            };
            self.input_commands.insert(command.to_vec(), input);
        }
        Ok(&mut self
            .input_commands
            .get_mut(command)
            .expect("just started")
            .reader)
    }

    /// AWK's `close`: of the streams with that name the one opened last. Gives 0 for a file, the status of a command
    /// as [`Streams::system`] does, -1 if no such stream is open or its last bytes could not be written.
    pub fn close(&mut self, name: &[u8]) -> f64 {
        let opened = [
            self.files.get(name).map(|n| n.opened),
            self.pipes.get(name).map(|n| n.opened),
            self.input_files.get(name).map(|i| i.opened),
            self.input_commands.get(name).map(|i| i.opened),
            self.stdin_names.get(name).copied(),
            self.coprocesses.get(name).map(|c| c.opened),
        ];
        let last = opened.iter().flatten().max();
        let Some(which) = opened
            .iter()
            .position(|o| o.is_some() && o.as_ref() == last)
        else {
            return -1.0;
        };
        match which {
            0 | 1 => {
                let names = if which == 0 {
                    &mut self.files
                } else {
                    &mut self.pipes
                };
                let slot = names.remove(name).map(|named| named.slot);
                self.recent = None;
                match slot {
                    Some(slot) => self.close_output(slot).unwrap_or(-1.0),
                    None => -1.0,
                }
            }
            2 => {
                self.input_files.remove(name);
                0.0
            }
            3 => self.input_commands.remove(name).map_or(-1.0, close_input),
            5 => self.close_coprocess(name),
            _ => {
                // Bytes already read stay: the main input may go on with them.
                self.stdin_names.remove(name);
                0.0
            }
        }
    }

    fn close_output(&mut self, slot: Slot) -> Result<f64, StreamError> {
        let is_command = |out: &Out| matches!(out.sink, Sink::Child(_) | Sink::Writer(_));
        // Other outputs come before what a command prints when its input ends.
        let others = match self.out(slot).map(|out| is_command(out)) {
            Some(true) => self.flush_outputs(),
            _ => Ok(()),
        };
        let closed = self.close_only(slot)?;
        others.map(|()| closed)
    }

    fn close_only(&mut self, slot: Slot) -> Result<f64, StreamError> {
        let Slot::Open(index) = slot else {
            return self.out(slot).map_or(Ok(()), Out::flush).map(|()| 0.0);
        };
        let Some(mut out) = self.outs.get_mut(index).and_then(Option::take) else {
            return Ok(-1.0);
        };
        self.free.push(index);
        let flushed = out.flush();
        match out.sink {
            Sink::Child(child) => {
                let status = wait(child);
                match flushed {
                    // A command may stop reading early; its status says whether that is an error.
                    Err(StreamError::Write { source, .. })
                        if source.kind() == io::ErrorKind::BrokenPipe => {}
                    other => other?,
                }
                Ok(status)
            }
            _ => flushed.map(|()| 0.0),
        }
    }

    /// Hands all outputs to the system.
    ///
    /// # Errors
    /// The first one met, after all were tried.
    pub fn flush_outputs(&mut self) -> Result<(), StreamError> {
        let mut result = self.stdout.flush();
        for out in std::iter::once(&mut self.stderr).chain(self.outs.iter_mut().flatten()) {
            let flushed = out.flush();
            if result.is_ok() {
                result = flushed;
            }
        }
        result
    }

    /// AWK's `fflush`: the outputs of that name, or all for `None` and the empty name. Gives 0, or -1 if no such
    /// output is open or a flush failed.
    pub fn flush(&mut self, name: Option<&[u8]>) -> i64 {
        let name = match name {
            None | Some(b"") => return if self.flush_outputs().is_ok() { 0 } else { -1 },
            Some(name) => name,
        };
        let slots: Vec<Slot> = [&self.files, &self.pipes]
            .iter()
            .filter_map(|names| names.get(name))
            .map(|named| named.slot)
            .collect();
        let slots = match (slots.is_empty(), name) {
            (true, b"/dev/stdout") => vec![Slot::Stdout],
            (true, b"/dev/stderr") => vec![Slot::Stderr],
            (true, _) => return -1,
            _ => slots,
        };
        let mut value = 0;
        for slot in slots {
            if self.out(slot).is_some_and(|out| out.flush().is_err()) {
                value = -1;
            }
        }
        value
    }

    /// AWK's `system`: flushes all outputs, runs `sh -c command` and gives its exit code, 256 + signal if one ended
    /// it, -1 if it could not be started.
    pub fn system(&mut self, command: &[u8]) -> f64 {
        // A failing output is reported when it is next used or closed; the command runs all the same.
        let _ = self.flush_outputs();
        let started = self.start(command, |command| command);
        started.map_or(-1.0, wait)
    }

    /// Closes everything at the end of a run: flushes, then waits for all commands.
    ///
    /// # Errors
    /// The first one met, after all was tried.
    pub fn close_all(&mut self) -> Result<(), StreamError> {
        // Standard output comes last, as in gawk: what a command prints when its input ends comes before what the program
        // still holds.
        let mut result = Ok(());
        self.recent = None;
        self.files.clear();
        self.pipes.clear();
        self.input_files.clear();
        self.stdin_names.clear();
        for index in 0..self.outs.len() {
            let closed = self.close_only(Slot::Open(index)).map(|_| ());
            if result.is_ok() {
                result = closed;
            }
        }
        self.outs.clear();
        self.free.clear();
        for (_, input) in self.input_commands.drain() {
            close_input(input);
        }
        for (_, process) in self.coprocesses.drain() {
            drop(process.from);
            wait(process.child);
        }
        let flushed = self.flush_outputs();
        if result.is_ok() {
            result = flushed;
        }
        result
    }
}

/// Closes our end first, so that a command that still writes is stopped by SIGPIPE, then waits.
fn close_input(input: Input) -> f64 {
    drop(input.reader);
    input.child.map_or(0.0, wait)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn streams() -> (Streams, Shared) {
        let out = Shared::default();
        (Streams::new(Box::new(out.clone()), false), out)
    }

    /// A folder of its own under the build's scratch space, removed when dropped.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(test: &str) -> Folder {
            let path =
                std::env::temp_dir().join(format!("awk-streams-{test}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }
        fn file(&self, name: &str) -> Vec<u8> {
            self.0.join(name).into_os_string().into_encoded_bytes()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn line(reader: &mut RecordReader) -> Option<String> {
        let range = reader.next_line(b'\n').unwrap()?;
        Some(String::from_utf8_lossy(&reader.buffer()[range]).into_owned())
    }

    #[test]
    fn close_gives_gawks_values() {
        let (mut s, _) = streams();
        for (command, value) in [
            ("cat >/dev/null; exit 3", 3.0),
            ("cat >/dev/null; kill -9 $$", 265.0),
        ] {
            s.output(OutKind::Pipe, command.as_bytes())
                .unwrap()
                .write(b"x\n")
                .unwrap();
            assert_eq!(s.close(command.as_bytes()), value);
        }
        for (command, value) in [("exit 4", 4.0), ("kill -15 $$; echo a", 271.0)] {
            assert_eq!(line(s.input_command(command.as_bytes()).unwrap()), None);
            assert_eq!(s.close(command.as_bytes()), value);
        }
        assert_eq!(line(s.input_command(b"yes").unwrap()).as_deref(), Some("y"));
        assert!(s.close(b"yes") >= 128.0);
        assert_eq!(s.close(b"nothing"), -1.0);
        assert_eq!(s.system(b"exit 5"), 5.0);
        assert_eq!(s.system(b"kill -9 $$"), 265.0);
    }

    #[test]
    fn a_file_stays_open_under_its_name_until_closed() {
        let folder = Folder::new("names");
        let name = folder.file("f");
        let (mut s, _) = streams();
        s.output(OutKind::File, &name)
            .unwrap()
            .write(b"one\n")
            .unwrap();
        s.output(OutKind::Append, &name)
            .unwrap()
            .write(b"two\n")
            .unwrap();
        s.output(OutKind::File, &name)
            .unwrap()
            .write(b"three\n")
            .unwrap();
        assert_eq!(s.flush(Some(&name)), 0);
        assert_eq!(line(s.input_file(&name).unwrap()).as_deref(), Some("one"));
        assert_eq!(s.close(&name), 0.0);
        assert_eq!(s.close(&name), 0.0);
        assert_eq!(s.close(&name), -1.0);
        assert_eq!(
            std::fs::read(OsStr::from_bytes(&name)).unwrap(),
            b"one\ntwo\nthree\n"
        );
        s.output(OutKind::Append, &name)
            .unwrap()
            .write(b"four\n")
            .unwrap();
        s.close_all().unwrap();
        assert_eq!(
            std::fs::read(OsStr::from_bytes(&name)).unwrap(),
            b"one\ntwo\nthree\nfour\n"
        );
        s.output(OutKind::File, &name).unwrap();
        s.close_all().unwrap();
        assert_eq!(std::fs::read(OsStr::from_bytes(&name)).unwrap(), b"");
    }

    #[test]
    fn a_pipe_in_and_a_pipe_out_may_share_a_command() {
        let folder = Folder::new("share");
        let command = [b"cat >>", &folder.file("f")[..]].concat();
        let (mut s, _) = streams();
        s.output(OutKind::Pipe, &command)
            .unwrap()
            .write(b"a\n")
            .unwrap();
        s.set_stdin(Box::new(io::empty()));
        assert_eq!(s.close(&command), 0.0);
        assert_eq!(s.close(&command), -1.0);
        assert_eq!(std::fs::read(folder.0.join("f")).unwrap(), b"a\n");
    }

    #[test]
    fn output_is_flushed_before_others_run() {
        let folder = Folder::new("order");
        let name = folder.file("f");
        let (mut s, out) = streams();
        s.stdout().write(b"first\n").unwrap();
        s.output(OutKind::File, &name)
            .unwrap()
            .write(b"x\n")
            .unwrap();
        let command = [b"cat ", &name[..]].concat();
        assert_eq!(
            line(s.input_command(&command).unwrap()).as_deref(),
            Some("x")
        );
        assert_eq!(*out.0.borrow(), b"first\n");
        s.output(OutKind::File, &name)
            .unwrap()
            .write(b"y\n")
            .unwrap();
        let count = [b"test $(wc -l < ", &name[..], b") = 2"].concat();
        assert_eq!(s.system(&count), 0.0);
    }

    #[test]
    fn standard_streams_have_their_names() {
        let (mut s, out) = streams();
        s.set_stdin(Box::new(&b"l1\nl2\nl3\n"[..]));
        for name in [&b"-"[..], b"/dev/stdout"] {
            s.output(OutKind::File, name)
                .unwrap()
                .write(b"x\n")
                .unwrap();
        }
        assert_eq!(line(s.input_file(b"-").unwrap()).as_deref(), Some("l1"));
        assert_eq!(
            line(s.input_file(b"/dev/stdin").unwrap()).as_deref(),
            Some("l2")
        );
        assert_eq!(line(s.stdin()).as_deref(), Some("l3"));
        assert_eq!(s.close(b"/dev/stdin"), 0.0);
        assert_eq!(s.close(b"/dev/stdin"), -1.0);
        assert_eq!(s.close(b"/dev/stdout"), 0.0);
        s.stdout().write(b"y\n").unwrap();
        s.close_all().unwrap();
        assert_eq!(*out.0.borrow(), b"x\nx\ny\n");
    }

    #[test]
    fn errors_name_the_file() {
        let (mut s, _) = streams();
        let message = |error: StreamError| error.to_string();
        assert!(message(s.input_file(b"/").err().unwrap()).contains("\"/\": it is a directory"));
        assert!(
            message(s.input_file(b"/nonexistent").err().unwrap())
                .contains("\"/nonexistent\" for reading")
        );
        assert!(
            message(s.output(OutKind::File, b"/nonexistent/x").err().unwrap())
                .contains("for writing")
        );
        assert_eq!(s.flush(Some(b"nope")), -1);
        assert_eq!(s.flush(None), 0);
    }

    #[test]
    fn a_broken_pipe_on_stdout_is_told_apart() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut s = Streams::new(Box::new(Broken), true);
        assert!(matches!(
            s.stdout().write(b"x"),
            Err(StreamError::StdoutClosed)
        ));
        let mut s = Streams::new(Box::new(io::sink()), false);
        let out = s.output(OutKind::Pipe, b"exec <&-; exit 0").unwrap();
        let result = (0..1000).try_for_each(|_| out.write(&[b'x'; 1000]));
        assert!(matches!(result, Err(StreamError::Write { .. })));
        assert_eq!(s.close(b"exec <&-; exit 0"), 0.0);
    }

    #[test]
    fn more_files_than_descriptors_can_be_written() {
        let folder = Folder::new("many");
        let (mut s, _) = streams();
        // Whatever the limit of this process is, `park` must keep what was written.
        for round in 0..3 {
            for file in 0..200 {
                let name = folder.file(&file.to_string());
                let text = format!("{round}\n");
                s.output(OutKind::File, &name)
                    .unwrap()
                    .write(text.as_bytes())
                    .unwrap();
            }
            // Where the process's limit is high, as it is usually.
            s.park();
        }
        s.close_all().unwrap();
        for file in 0..200 {
            assert_eq!(
                std::fs::read(folder.0.join(file.to_string())).unwrap(),
                b"0\n1\n2\n"
            );
        }
    }
}
