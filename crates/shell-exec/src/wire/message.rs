//! The messages. Words, names and values are bytes: nothing here is text unless it is for people.

use serde::{Deserialize, Serialize};
use shell_plan::plan::Combiner;

/// The first message to an agent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// [`super::PROTOCOL`].
    pub protocol: u32,
    /// Folders of the agent's machine, and where they are to be seen.
    pub views: Vec<View>,
}

/// A folder of the far machine and its name on this one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct View {
    /// Where the near machine has it mounted.
    pub at: Vec<u8>,
    /// Which folder of the far machine that is; one that does not begin with a slash is below the user's home.
    pub export: Vec<u8>,
    /// The mount's own folder as the near machine sees it.
    pub root: Seen,
    /// What is written to it goes through a program of the near machine (FUSE), piece by piece.
    pub is_fuse: bool,
}

/// What a file looks like from one side; two sides that see the same have the same file, as far as one can tell without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Its kind, as in `st_mode`; 0 if there is none of that name.
    pub kind: u32,
    /// Its length, for files.
    pub size: u64,
    /// When it was changed last, in seconds since 1970.
    pub changed: i64,
    /// Its inode; 0 where a mount shows numbers of its own.
    pub inode: u64,
}

/// What an agent answers to a hello.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FarHello {
    /// [`super::PROTOCOL`].
    pub protocol: u32,
    /// The program's version, for people.
    pub version: String,
    /// For each view, why it cannot be given; none: it can.
    pub views: Vec<Option<String>>,
    /// Whether files of other users are shown as their own.
    pub sees_owners: bool,
    /// How many processors it has.
    pub cores: u32,
    /// Who wants one.
    pub busy: Busy,
    /// The C library and its version, as `getconf GNU_LIBC_VERSION` has it.
    pub libc: String,
    /// Names of its locales, as `locale -a` has them.
    pub locales: Vec<String>,
    /// Whether its kernel can bound what a process touches (Landlock).
    pub has_bounds: bool,
}

/// What an agent is asked for.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToAgent {
    /// First of all.
    Hello(Hello),
    /// Processes to run.
    Start(Job),
    /// A signal for one of them.
    Signal {
        /// The job.
        job: u32,
        /// Which of its processes.
        process: u32,
        /// The signal's number.
        signal: i32,
    },
    /// Whoever wanted the job is gone.
    Cancel {
        /// The job.
        job: u32,
    },
    /// Whether it is still there.
    Ping(u32),
    /// Whether its commands are those of the near side.
    Compare {
        /// Where they are looked for, as in PATH.
        path: Vec<u8>,
        /// Their names, and what they are on the near side.
        commands: Vec<(String, Tool)>,
    },
}

/// What an agent says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FromAgent {
    /// The answer to a hello.
    Hello(FarHello),
    /// All processes of a job run.
    Started {
        /// The job.
        job: u32,
        /// Files of which it reads parts, and their inodes.
        files: Vec<(Vec<u8>, u64)>,
    },
    /// None of its processes was run, or none has done anything.
    Refused {
        /// The job.
        job: u32,
        /// For people.
        why: String,
        /// The command that is another one there, if that is why.
        different: Option<String>,
        /// What is otherwise than it was taken to be, if that is why.
        misfit: Option<Misfit>,
    },
    /// What its processes print is not what they should, for what they read is not all.
    Failed {
        /// The job.
        job: u32,
        /// For people.
        why: String,
    },
    /// A process has ended.
    Exited {
        /// The job.
        job: u32,
        /// Which of its processes.
        process: u32,
        /// How.
        ending: Ending,
        /// Where it ended in its input and output, if they are files.
        positions: [Option<u64>; 2],
        /// What it took; none: that cannot be told.
        used: Option<Used>,
        /// Permissions of what it may have changed, as far as that is there.
        modes: Vec<(Vec<u8>, u32)>,
    },
    /// A join has ended.
    Joined {
        /// The job.
        job: u32,
        /// Which of its joins.
        join: u32,
        /// Where it ended in the file that it wrote, or else in the one that it read.
        position: Option<u64>,
        /// Why what it wrote is not all; told before the end of its stream.
        trouble: Option<String>,
        /// Nobody wanted the rest.
        is_unread: bool,
    },
    /// The answer to a ping.
    Pong(u32),
    /// As [`FarHello::busy`], when that has changed.
    Busy(Busy),
    /// The answer to [`ToAgent::Compare`], in its order.
    Compared(Vec<Comparison>),
}

/// How many threads want a processor, in hundredths.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Busy {
    /// Of whoever else uses the machine.
    pub others: u32,
    /// Of the agent and what it runs.
    pub own: u32,
}

/// What a process took and gave, with those that it has made and waited for (proc(5), `/proc/PID/io` and `/proc/PID/stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Used {
    /// Bytes that it has read, from whatever.
    pub read: u64,
    /// And written.
    pub written: u64,
    /// For how long it had a processor, in microseconds.
    pub micros: u64,
}

/// What is otherwise than a plan took it to be.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Misfit {
    /// This file does not end with a newline.
    Unended(Vec<u8>),
    /// What lanes print cannot be put together.
    Apart,
}

/// What a near command is on the far side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Comparison {
    /// The same.
    Same,
    /// Another one.
    Different,
    /// There is none of its name.
    Absent,
}

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ending {
    /// With this status.
    Status(u8),
    /// Killed by this signal.
    Signal(i32),
}

impl Ending {
    /// Of one that wrote what nobody wants to read (SIGPIPE, which is 13 wherever Linux runs).
    pub const UNREAD: Ending = Ending::Signal(nix::libc::SIGPIPE);
}

/// Processes that belong together: a pipeline, or a part of one, perhaps several times for parts of the input. Pipes between them have
/// numbers, which are the job's own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Its number on this connection.
    pub number: u32,
    /// In no order that matters.
    pub processes: Vec<Process>,
    /// What the agent itself puts together.
    pub joins: Vec<Join>,
    /// What is tried first.
    pub rehearsal: Option<Rehearsal>,
    /// Files that must look the same from both sides, and how they look from here.
    pub checks: Vec<Checked>,
}

/// A lane that is run on the first lines of its file before anything else is: if what it prints cannot be put together with others, the job is
/// refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Rehearsal {
    /// Its processes, in their order; the first reads [`Source::Lines`].
    pub processes: Vec<u32>,
    /// How it would be put together.
    pub how: Combiner,
}

/// Outputs that become one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Join {
    /// By what means; by none that needs a command.
    pub how: Combiner,
    /// Where they come from, in their order.
    pub parts: Vec<Source>,
    /// Where it goes.
    pub into: Sink,
    /// Files and lines of files that must have no zero byte: what comes out has no end before that is known.
    pub clean: Vec<Source>,
    /// Errors of who makes the parts: there must be none, which is known before the end, too.
    pub quiet: Option<Source>,
}

impl Join {
    /// Of parts of which nothing needs to be looked at; where it goes is said later.
    pub fn of(how: Combiner, parts: Vec<Source>) -> Join {
        Join {
            how,
            parts,
            into: Sink::Null,
            clean: Vec::new(),
            quiet: None,
        }
    }
}

/// A file and how it looks from the near side.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Checked {
    /// Its path.
    pub path: Vec<u8>,
    /// How it looks.
    pub seen: Seen,
    /// Its last byte must be a newline, if it has one.
    pub ends_line: bool,
    /// What must be true of all that is beneath it.
    pub below: Below,
    /// So many folders deep; none: all.
    pub depth: Option<u32>,
}

/// What must be true of all that is beneath a folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum Below {
    /// Nothing.
    #[default]
    Anything,
    /// There are files, folders, and links that lead nowhere else.
    Inside,
    /// And no name is such that it may be taken for several.
    Plain,
}

/// One process to be run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    /// Its words, of which the first is its name.
    pub words: Vec<Vec<u8>>,
    /// Its environment, as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// The folder it is started in.
    pub folder: Vec<u8>,
    /// The process' creation mask, limits and ignored signals.
    pub limits: Limits,
    /// Standard input.
    pub stdin: Source,
    /// Standard output.
    pub stdout: Sink,
    /// Standard error; none: it is the same as standard output.
    pub stderr: Option<Sink>,
    /// Files that it reads under another name than their own.
    pub inputs: Vec<Input>,
    /// What the same command is on the near side.
    pub tool: Tool,
    /// Commands that it runs.
    pub runs: Vec<Run>,
    /// Values of locale variables that must mean the same on both sides.
    pub locales: Vec<String>,
    /// What it may touch besides the system's own folders; none: all that its user may.
    pub access: Option<Vec<Access>>,
    /// Files and folders that it may change: when it has ended it is told which permissions they have.
    pub changes: Vec<Vec<u8>>,
}

/// A command that another one runs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its name.
    pub name: Vec<u8>,
    /// Where it is looked for, as in PATH.
    pub path: Vec<u8>,
    /// What it is on the near side.
    pub tool: Tool,
}

/// A file that a process reads under a name such as `/dev/fd/5`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Input {
    /// The word in which the name is to stand.
    pub word: u32,
    /// What stands before the name in that word stays.
    pub from: u32,
    /// What is read.
    pub source: Source,
}

/// What a process may touch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Access {
    /// A file, or a folder with all that is beneath it.
    pub path: Vec<u8>,
    /// Whether it may be changed.
    pub write: bool,
}

/// What a process inherits besides descriptors and environment.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Limits {
    /// The mask of file modes.
    pub umask: u32,
    /// Whether the far side's own mask counts too, as it does for files that are made over sshfs.
    pub adds_umask: bool,
    /// Soft limits that are lower than none, by the number that Linux gives the resource.
    pub soft: Vec<(u32, u64)>,
    /// Signals that are ignored.
    pub ignored: Vec<i32>,
}

/// A command, so that two machines can tell whether they have the same.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Tool {
    /// XXH3-64 of its file.
    pub file: u64,
    /// The C library, as in [`FarHello::libc`].
    pub libc: String,
    /// Arguments that make it print its version, and the XXH3-64 of what it prints; none: it is the same only if its file is.
    pub version: Option<(Vec<String>, u64)>,
}

/// Where a process reads.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Source {
    /// Nothing: `/dev/null`.
    Null,
    /// A pipe of the job.
    Pipe(u32),
    /// A stream that a helper feeds.
    Stream(u32),
    /// A stream that another agent feeds, which may send a whole window at first.
    Relay(u32),
    /// A file, from a position.
    File {
        /// Its path.
        path: Vec<u8>,
        /// Where to begin.
        from: u64,
    },
    /// The lines of a file whose first byte is in a range.
    Lines {
        /// Its path.
        path: Vec<u8>,
        /// Where lines of the file begin at all.
        begin: u64,
        /// The range.
        from: u64,
        /// Its end; none: that of the file.
        to: Option<u64>,
    },
}

/// Where a process writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Sink {
    /// Nowhere: `/dev/null`.
    Null,
    /// A pipe of the job.
    Pipe(u32),
    /// A stream.
    Stream(u32),
    /// A file that is there.
    File {
        /// Its path.
        path: Vec<u8>,
        /// Where to begin; none: at its end, always.
        at: Option<u64>,
    },
}

/// What a helper asks its broker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ToBroker {
    /// A process is about to become the shell that runs a script: connections may be opened ahead.
    Session {
        /// Its number.
        session: u32,
        /// Whether stages are to run elsewhere whenever they can, be it worth it or not.
        always: bool,
        /// Hosts with their views.
        hosts: Vec<(String, Vec<View>)>,
    },
    /// A stage runs here, whatever its neighbours do.
    Here {
        /// Its descriptors 0 and 1.
        stdio: [Stdio; 2],
    },
    /// A stage that may run elsewhere waits for an answer.
    Stage(Box<StageCall>),
    /// It was heard that the stage runs elsewhere.
    Taken,
    /// A signal that the stage got.
    Signal(i32),
    /// No more neighbours of a stage that was called by a shim are to be expected.
    Alone,
    /// What ran elsewhere lately.
    Records,
    /// All that the stage's process had to write is written, or nobody wants it.
    Written,
    /// What it had to write could not be written: all of its group is to run here.
    Abandon,
    /// What is known of hosts. These are connected to first, if they are not.
    Hosts {
        /// Their names, and what is mounted of them.
        connect: Vec<(String, Vec<View>)>,
    },
}

/// What a broker tells a helper.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum FromBroker {
    /// Become your command.
    Local {
        /// Why, for people who ask.
        why: String,
    },
    /// An answer will come, but it may take some time.
    Wait,
    /// The command runs elsewhere.
    Remote(Standing),
    /// It has ended.
    Exited {
        /// How.
        ending: Ending,
        /// Permissions of what it may have changed, by then.
        modes: Vec<(Vec<u8>, u32)>,
    },
    /// All of the group has ended; the stage may, too.
    Done {
        /// Where it ended in its input and output, if they are files there.
        positions: [Option<u64>; 2],
    },
    /// The answer to [`ToBroker::Records`], oldest first.
    Records(Vec<Record>),
    /// Nobody knows how it ended, and why, for people.
    Lost(String),
    /// The answer to [`ToBroker::Hosts`].
    Hosts {
        /// The broker's process.
        process: u32,
        /// When it began, in milliseconds since 1970.
        began: u64,
        /// In no order.
        hosts: Vec<HostState>,
    },
}

/// How a helper stands for its command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Standing {
    /// On which hosts that runs, for people.
    pub host: String,
    /// The stream for what is read from descriptor 0, if that is wanted.
    pub stdin: Option<u32>,
    /// What comes for descriptor 1.
    pub stdout: Output,
    /// What comes for descriptor 2.
    pub stderr: Output,
    /// Files of this machine that are wanted there, and the streams for them.
    pub files: Vec<(u32, Vec<u8>)>,
    /// Whether running the command here, from the beginning, and leaving out what was written already, gives the same.
    pub again: bool,
    /// Whether no stage of its group comes behind it.
    pub is_last: bool,
}

/// What comes to a helper for one of its descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Output {
    /// The streams; none: nothing comes, and the descriptor is left alone.
    pub streams: Vec<u32>,
    /// How several become one.
    pub how: Option<Combiner>,
    /// It comes from lanes, whose messages go to the same place: there should be none, which is known at the end.
    pub holds_back: bool,
}

/// What a broker knows of a host.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HostState {
    /// Its name.
    pub name: String,
    /// Whether there is a connection.
    pub is_open: bool,
    /// Why there is none, if one was tried.
    pub trouble: Option<String>,
    /// That was lately, or one is tried for long already: if others can do it, this one need not be hoped for.
    pub rests: bool,
    /// A message's way there and back, in seconds, if it was measured.
    pub round_trip_s: Option<f64>,
    /// How fast bytes come from there, in bytes in a second, if it was measured.
    pub down: Option<f64>,
    /// How long it took to connect, in seconds, if it was measured.
    pub connect_s: Option<f64>,
    /// Processors that have nothing else to do, if the host has said.
    pub idle_cores: Option<f64>,
    /// Commands that were found to be others there.
    pub different: Vec<String>,
}

impl HostState {
    /// A host of which nothing is known.
    pub fn unknown(name: &str) -> HostState {
        HostState {
            name: name.to_owned(),
            is_open: false,
            trouble: None,
            rests: false,
            round_trip_s: None,
            down: None,
            connect_s: None,
            idle_cores: None,
            different: Vec::new(),
        }
    }
}

/// Stages that ran elsewhere, or were to.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// The process that began the script.
    pub session: u32,
    /// The host.
    pub host: String,
    /// Their commands' names.
    pub commands: Vec<String>,
    /// When they began, in milliseconds since 1970.
    pub began: u64,
    /// How long it took from the beginning of the last helper until the hosts were told what to do, in microseconds.
    pub planned: u64,
    /// How long it took from then on.
    pub took: u64,
    /// And was expected to take, with all that ran here beside it.
    pub expected: u64,
    /// Bytes of their streams that came here.
    pub came: u64,
    /// What their output was expected to be.
    pub expected_came: u64,
    /// Bytes that went there.
    pub went: u64,
    /// Why they ran here after all, or what is not known of them; none: all is well.
    pub trouble: Option<String>,
    /// They could not be run again after that: nobody knows what became of them.
    pub is_lost: bool,
}

/// A stage, as its helper sees it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StageCall {
    /// The process of the shell that runs the pipeline.
    pub shell: i32,
    /// When its helper began, in microseconds of the machine's monotonic clock; later by as much as it had to wait for mounts, as the command would have.
    pub began: u64,
    /// The process that began the script.
    pub session: u32,
    /// Which pipeline of the script, which stage of it, and which of its stages have helpers.
    pub pipeline: u64,
    /// Which of its stages, from 0.
    pub stage: u32,
    /// Which of its stages have helpers; none: that is not known, for a shim was called.
    pub helpers: Vec<bool>,
    /// What to run; `tool`, `stdin`, `stdout` and `stderr` are filled in by the broker.
    pub words: Vec<Vec<u8>>,
    /// `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// The folder it is in.
    pub folder: Vec<u8>,
    /// What else it has inherited.
    pub limits: Limits,
    /// Descriptors 0 and 1.
    pub stdio: [Stdio; 2],
    /// Whether descriptor 2 is the same as 1.
    pub is_merged: bool,
    /// Files and folders that it may change and of which this machine remembers what it knew.
    pub changes: Vec<Vec<u8>>,
    /// The file of the command, as found here.
    pub program: Vec<u8>,
    /// Where it may run, or why it runs here, whatever its neighbours do.
    pub place: Result<Place, String>,
}

/// A file that a call names, as it looks from here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileFact {
    /// Which host has it; none: this machine.
    pub host: Option<String>,
    /// Its path, here and there.
    pub path: Vec<u8>,
    /// What it is.
    pub seen: Seen,
    /// Two names of one file have the same.
    pub identity: u64,
}

/// Where a stage may run, and what is known of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Place {
    /// The hosts that have something that it names or has open, and all mounts of each; none: any host will do.
    pub hosts: Vec<(String, Vec<View>)>,
    /// Files of hosts that it touches, as they look from here.
    pub touched: Vec<Touched>,
    /// Whether it reads standard input.
    pub reads_stdin: bool,
    /// Whether it can be run again without harm.
    pub is_pure: bool,
    /// The files of its call, in their order.
    pub files: Vec<FileFact>,
    /// The texts of its programs, and the files that they are in, if they are.
    pub programs: Vec<(Option<Vec<u8>>, Option<FileFact>)>,
    /// The host that has the folder it is in; none: this machine.
    pub folder_host: Option<String>,
    /// Values of locale variables that must mean the same on both sides.
    pub locales: Vec<String>,
    /// Arguments that make it print its version.
    pub version: Option<Vec<String>>,
    /// Commands that it runs.
    pub runs: Vec<NearRun>,
    /// Whether it shows who owns files.
    pub shows_owners: bool,
}

/// A command that a stage runs, as found here.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NearRun {
    /// As in [`Run`].
    pub name: Vec<u8>,
    /// The same.
    pub path: Vec<u8>,
    /// Its file.
    pub program: Vec<u8>,
    /// Arguments that make it print its version.
    pub version: Option<Vec<String>>,
}

/// A file of a host that a stage touches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Touched {
    /// The host.
    pub host: String,
    /// The file, and how it looks from here.
    pub checked: Checked,
    /// Whether it may be changed.
    pub write: bool,
}

/// One of a stage's descriptors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Stdio {
    /// `/dev/null`.
    Null,
    /// A pipe, by its inode.
    Pipe(u64),
    /// A terminal.
    Terminal,
    /// A file of this machine, or a socket.
    Here,
    /// A file on a mount of this host.
    There {
        /// The host.
        host: String,
        /// The file's path.
        path: Vec<u8>,
        /// The position.
        at: u64,
        /// Whether what is written goes to its end, always.
        append: bool,
        /// How it looks from here.
        seen: Seen,
        /// As in [`FileFact::identity`].
        identity: u64,
    },
}
