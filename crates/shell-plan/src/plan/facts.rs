//! What is known when a pipeline is about to run: its stages, the hosts, and what was measured before. Plain data.
//!
//! Units: bytes; seconds; bytes in a second. What is not known has a field that says so; nothing here is guessed by who fills it in.

use std::collections::BTreeMap;

use crate::annotation::{Call, Shown};

/// Everything a plan depends on.
#[derive(Clone, Debug, Default)]
pub struct Facts<'a> {
    /// Consecutive stages, as the shell started them.
    pub stages: Vec<Stage<'a>>,
    /// Machines whose folders are mounted here.
    pub hosts: Vec<Host>,
    /// Links between hosts that know each other, by which no byte comes through here: from, to, bytes in a second.
    pub direct: Vec<(usize, usize, f64)>,
    /// This machine's processors that have nothing else to do: their number less the load, at least a part of one.
    pub idle_cores: f64,
    /// How fast bytes come to this machine from all hosts together; none if that is not known.
    pub link: Option<f64>,
    /// What earlier runs taught.
    pub learned: Learned,
    /// Parts of which it has to be looked at whether they fit together were found not to: sums are of fractions, text is none, or a part complains where
    /// messages go where output goes.
    pub unfit: bool,
    /// Whatever may run elsewhere shall, in lanes if it can, whatever it costs: so that all ways of running something can be tried.
    pub eager: bool,
}

/// A machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Place {
    /// This one.
    Here,
    /// One of [`Facts::hosts`].
    Host(usize),
}

impl Place {
    /// Which host it is, if it is one.
    pub fn host(self) -> Option<usize> {
        match self {
            Place::Here => None,
            Place::Host(host) => Some(host),
        }
    }
}

/// One command of a pipeline.
#[derive(Clone, Debug)]
pub struct Stage<'a> {
    /// Its words, the name first.
    pub words: Vec<Vec<u8>>,
    /// What they mean, or why that is not known.
    pub call: Result<Call<'a>, String>,
    /// Its environment, or as much of it as has a name that [`super::matters`] asks for.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// What `call.files` are, in that order.
    pub files: Vec<Named>,
    /// Texts of `call.programs`, in that order, and for those that are files, what they are. No text: it could not be read.
    pub programs: Vec<(Option<Vec<u8>>, Option<Named>)>,
    /// The folder that it is started in.
    pub folder: Named,
    /// Where its standard input comes from.
    pub stdin: Stdin,
    /// Where its standard output goes.
    pub stdout: Stdout,
    /// Its standard error goes where its standard output goes, in one order (`2>&1`, or both are the terminal). Several processes keep that order only if
    /// none of them complains.
    pub is_merged: bool,
    /// For each host, whether the same command is there.
    pub there: Vec<There>,
}

/// A file or folder, and where it is.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    /// On which machine; of one that is absent: where it would be.
    pub at: Place,
    /// What it is.
    pub kind: FileKind,
    /// Its size; of a folder, those of all files beneath it, as far as that is known.
    pub size_bytes: u64,
    /// Of a folder: how many entries are beneath it, as far as that is known.
    pub entries: u64,
    /// By the name that the call has for it, it is found on its host, too.
    pub same_name: bool,
    /// Its last byte is a newline, or it is empty; false if that is not known.
    pub ends_line: bool,
    /// Two names of one file have the same identity.
    pub identity: Option<u64>,
}

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A folder.
    Folder,
    /// Nothing.
    Absent,
    /// A device, a pipe, a socket.
    Other,
}

/// Where standard input comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Stdin {
    /// The stage before.
    Stage,
    /// A regular file, from an offset on.
    File {
        /// Which.
        file: Named,
        /// Where reading begins.
        offset: u64,
    },
    /// A terminal.
    Terminal,
    /// Anything else: a pipe from somebody who is not a stage here, a device, nothing.
    Other {
        /// How much will come, if that is known.
        bytes: Option<u64>,
    },
}

/// Where standard output goes.
#[derive(Clone, PartialEq, Debug)]
pub enum Stdout {
    /// To the next stage.
    Stage,
    /// To a regular file.
    File(Named),
    /// To a terminal.
    Terminal,
    /// Anywhere else.
    Other,
}

/// Whether a host has a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum There {
    /// The same, and the locale too as far as the command asks for it.
    Same,
    /// None of this name.
    Absent,
    /// Another one.
    Different,
    /// The same, but not the locale.
    OtherLocale,
}

/// A machine whose folders are mounted here.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// For people.
    pub name: String,
    /// Whether there is a connection.
    pub connected: bool,
    /// How long it takes to make one.
    pub connect_s: f64,
    /// How long a message takes there and back.
    pub round_trip_s: f64,
    /// How fast bytes come here from there.
    pub down: f64,
    /// And go there.
    pub up: f64,
    /// Processors that have nothing else to do, as [`Facts::idle_cores`].
    pub idle_cores: f64,
    /// How fast it reads its own files.
    pub disk: f64,
    /// Its mount, as it is used the ordinary way.
    pub mount: Mount,
    /// The agent can show any file under any name to what it runs.
    pub any_name: bool,
    /// Another host, which is where files are said to be that this one has as well, under the same names: both are nodes of one cluster.
    pub has_files_of: Option<usize>,
}

/// How a mount is.
#[derive(Clone, PartialEq, Debug)]
pub struct Mount {
    /// How fast files are read over it.
    pub read: f64,
    /// And written.
    pub write: f64,
    /// What opening a file costs.
    pub open_s: f64,
    /// What looking at one entry of a folder costs.
    pub entry_s: f64,
    /// What files look like over the mount that they do not look like on the host: NFS lists names in another order, sshfs knows no
    /// inodes, links or blocks, and may know no owners.
    pub differs: Vec<Shown>,
}

/// What earlier runs taught, by [`super::selectivity_key`].
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Learned {
    /// Measured for a key.
    pub commands: BTreeMap<String, Measured>,
}

/// What was measured of a class of calls.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measured {
    /// Bytes out for each byte in.
    pub selectivity: f64,
    /// Bytes in for each second of a processor.
    pub speed: f64,
}

impl Default for Named {
    /// A folder of this machine, of which nothing else is known.
    fn default() -> Named {
        Named {
            at: Place::Here,
            kind: FileKind::Folder,
            size_bytes: 0,
            entries: 0,
            same_name: true,
            ends_line: false,
            identity: None,
        }
    }
}
