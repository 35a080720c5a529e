//! Everything outside the program: output files, pipes, input files, commands, connections.
//!
//! Invariant: what the program wrote before it starts or waits for another process is handed to the system first, so
//! that outputs appear in program order; a stream stays open under its name until it is closed by it. Called by the VM.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::process::Child;
use std::rc::Rc;

use crate::records::RecordReader;

mod close;
mod coprocess;
mod error;
mod inputs;
mod names;
mod network;
mod open;
mod out;
mod processes;
mod source;
#[cfg(test)]
mod tests;

pub use error::StreamError;
pub use names::is_stdin;
pub use out::Out;
pub use processes::status_value;
pub use source::{Patience, may_retry, wants_limit};

use coprocess::Coprocess;
use inputs::Inputs;
use network::Attempts;
use out::{BUFFER_BYTES, Sink};
use source::{InputFile, Stdin, Waiting};

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

/// What PROCINFO says about a command when it is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Manner {
    /// What is written to it may wait: `"BUFFERPIPE"`.
    pub buffered: bool,
    /// A coprocess gets a pseudo-terminal: `"pty"`.
    pub terminal: bool,
}

/// An output whose bytes could not be handed over, after the `print` that wrote them.
#[derive(Debug)]
pub struct Failure {
    /// The output's name, `/dev/stdout` for standard output.
    pub name: Vec<u8>,
    /// Why.
    pub error: StreamError,
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// An open input.
struct Input {
    reader: RecordReader,
    /// The file that the reader reads, if it may be parked.
    file: Option<InputFile>,
    /// The command that feeds it.
    child: Option<Child>,
    /// When it was opened, in steps of [`Streams::opened`].
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
    /// Where commands print while standard output is redirected.
    redirected: Option<File>,
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
    input_files: Inputs,
    input_commands: Inputs,
    /// The buffer of an input that is read no more, for the next one that is opened.
    spare: Vec<u8>,
    stdin: RecordReader,
    /// Names by which standard input has been opened, and when.
    stdin_names: HashMap<Vec<u8>, u64>,
    /// Counts openings.
    opened: u64,
    /// Some output is or was [`Sink::Parked`].
    has_parked: bool,
    /// The environment of commands, if it is not the process's own.
    environment: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    failures: Vec<Failure>,
    patience: Rc<Patience>,
    attempts: Attempts,
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
        let patience = Rc::new(Patience::default());
        let stdin = Waiting {
            inner: Stdin,
            patience: Rc::clone(&patience),
        };
        Streams {
            stdout,
            redirected: None,
            stderr,
            outs: Vec::new(),
            free: Vec::new(),
            files: HashMap::new(),
            pipes: HashMap::new(),
            recent: None,
            coprocesses: HashMap::new(),
            input_files: Inputs::default(),
            input_commands: Inputs::default(),
            spare: Vec::new(),
            stdin: RecordReader::new(Box::new(stdin)),
            stdin_names: HashMap::new(),
            opened: 0,
            has_parked: false,
            environment: None,
            failures: Vec::new(),
            patience,
            attempts: Attempts::default(),
        }
    }

    /// From now on standard output goes to `sink`. What is buffered is forgotten: it is another process's to hand over.
    pub fn print_to(&mut self, sink: Box<dyn Write>) {
        self.stderr.buf.clear();
        let mut stdout = Out::new(b"/dev/stdout", Sink::Writer(sink));
        stdout.is_stdout = true;
        self.stdout = stdout;
    }

    /// Reads standard input from `source` from now on (tests, programs that embed the engine). It has no limits of time.
    pub fn set_stdin(&mut self, source: Box<dyn Read>) {
        self.stdin = RecordReader::new(source);
    }

    /// What the environment says about waiting: `GAWK_READ_TIMEOUT`, `GAWK_SOCK_RETRIES`, `GAWK_MSEC_SLEEP`.
    pub fn tune(&mut self, environ: &[(Vec<u8>, Vec<u8>)]) {
        for (name, value) in environ {
            let Some(number) = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok()) else {
                continue;
            };
            match &name[..] {
                b"GAWK_READ_TIMEOUT" => self.patience.usual_ms.set(number),
                b"GAWK_SOCK_RETRIES" => self.attempts.count = number.min(u32::MAX as u64) as u32,
                b"GAWK_MSEC_SLEEP" => self.attempts.pause_ms = number,
                _ => {}
            }
        }
    }

    /// How long reads wait.
    pub fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Gives commands that are started from now on this environment instead of the process's own.
    pub fn set_environment(&mut self, variables: Vec<(Vec<u8>, Vec<u8>)>) {
        self.environment = Some(variables);
    }

    /// Sends standard output, that of commands included, to a file for a while; messages call it `name`. What was printed
    /// before goes where it went.
    ///
    /// # Errors
    /// What was printed before cannot be written, or the file cannot be opened once more for commands; nothing has changed
    /// then.
    pub fn redirect_stdout(&mut self, file: File, name: &[u8]) -> Result<Redirected, StreamError> {
        self.stdout.flush()?;
        let copy = file.try_clone().map_err(|source| StreamError::Write {
            name: shown(name),
            source,
        })?;
        self.redirected = Some(copy);
        let new = Out::new(name, Sink::Handle(file));
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
            self.redirected = None;
        }
        flushed
    }

    /// Whether an output file of that name is open.
    pub fn is_open(&self, name: &[u8]) -> bool {
        self.files.contains_key(name)
    }

    /// Whether a command is running as an input, an output or a coprocess.
    pub fn is_running(&self, command: &[u8]) -> bool {
        matches!(&self.recent, Some((OutKind::Pipe, name, _)) if name == command)
            || self.pipes.contains_key(command)
            || self.input_commands.is_open(command)
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

    fn out(&self, slot: Slot) -> Option<&Out> {
        match slot {
            Slot::Stdout => Some(&self.stdout),
            Slot::Stderr => Some(&self.stderr),
            Slot::Open(index) => self.outs.get(index)?.as_ref(),
        }
    }

    fn next_opening(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// The output of that kind and name, opened if it is not open, and then in that manner. `>` and `>>` share an open
    /// file. `-`, `/dev/stdout` and `/dev/stderr` are the process's own.
    ///
    /// # Errors
    /// The file cannot be opened or the command cannot be started. Before a command is started all outputs are
    /// flushed; an error in that is left to [`Streams::take_failures`].
    #[inline]
    pub fn output(
        &mut self,
        kind: OutKind,
        name: &[u8],
        manner: Manner,
    ) -> Result<&mut Out, StreamError> {
        let slot = match &self.recent {
            Some((k, n, slot)) if *k == kind && n == name => *slot,
            _ => self.find_or_open(kind, name, manner)?,
        };
        match slot {
            Slot::Stdout => Ok(&mut self.stdout),
            Slot::Stderr => Ok(&mut self.stderr),
            Slot::Open(index) => Ok(self.outs[index].as_mut().expect("named outputs are open")),
        }
    }
}
