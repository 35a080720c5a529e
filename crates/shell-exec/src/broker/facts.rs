//! What the planner is told: the stages of a chain as their helpers saw them, and what is known of the hosts.
//!
//! The invariant: nothing that is not known is made to look better than it is; a stage whose helper gave it no place has no call here.

use shell_plan::annotation::{Call, Given};
use shell_plan::nest::{Environment, Nest, nest};
use shell_plan::plan::{
    Facts, FileKind, Host, Learned, Mount, Named, Place, Stage, Stdin, Stdout, There, goes_below,
};

use crate::annotations;
use crate::load::Load;
use crate::slurm::Placement;
use crate::wire::{FileFact, HostState, Seen, StageCall, Stdio, View};

/// A link of which nothing is known: 20 ms and 600 Mb/s are those of two sites of one country.
const ROUND_TRIP_S: f64 = 0.02;
const DOWN: f64 = 75e6;
/// One whose round trip is shorter than that is within a house; machines that are busy add some milliseconds.
pub const NEAR_S: f64 = 0.005;
const NEAR_DOWN: f64 = 400e6;
/// How many round trips a connection takes: TCP, ssh's exchange of versions and keys, the user, the channel, and the hello.
const CONNECT_TRIPS: f64 = 8.0;
/// And what the two machines compute for that.
const CONNECT_S: f64 = 0.15;
/// What disks and memory that holds their files give nowadays; slower ones are waited for in every plan.
const DISK: f64 = 2e9;
/// Of what a link carries, how much a mount gives at best.
const MOUNT_SHARE: f64 = 0.8;
/// How much of a file is asked for ahead: Linux reads 128 KiB ahead of a mount's reader, and asks for the next when it has reached the half. (Measured: sshfs
/// over 20 ms and 600 Mb/s reads 11.7 MB/s.)
const AHEAD: f64 = 262_144.0;

/// How fast commands write into a folder of a program (FUSE): in pieces of 4 KiB, each of which waits for the program. (Measured: `cut` over sshfs, 0.5 ms and
/// 5 Gb/s, 8 MB/s; and 0.3 to 1.5 where its input comes faster, for then OpenSSH's sftp-server copies all that it has not yet written for each piece.)
const FUSE_WRITE: f64 = 8e6;

/// How many entries a folder is taken to have, and how many bytes are in its files: to count them would take as long as what is to be done. Over a mount a
/// few cost more than running a command elsewhere.
const IN_FOLDER: (u64, u64) = (200, 2_000_000);
/// How many times as many entries a command meets that goes into the folders of a folder. If there are fewer, a connection was made for nothing; if
/// there are more, each was looked at over a mount, which is worse (`git status` in 10,000 files at 20 ms: 31 s).
const IN_TREE: u64 = 10;

/// The hosts that have anything to do with a chain.
pub fn hosts_of(chain: &[StageCall]) -> Vec<String> {
    let places = chain.iter().filter_map(|call| call.place.as_ref().ok());
    let hosts = places.flat_map(|place| &place.hosts);
    let mut names: Vec<String> = hosts.map(|(name, _)| name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// All mounts of a host, as a chain's stages see them.
pub fn views_of<'a>(chain: &'a [StageCall], name: &str) -> &'a [View] {
    let places = chain.iter().filter_map(|call| call.place.as_ref().ok());
    let mut hosts = places.flat_map(|place| &place.hosts);
    let found = hosts.find(|(host, _)| host == name);
    found.map_or(&[], |(_, views)| views)
}

/// What the planner is told. `unended`: files whose last line has no end; of all others it is said that it has, and who runs the plan looks whether that
/// is so.
pub fn facts(chain: &[StageCall], known: &[HostState], unended: &[Vec<u8>]) -> Facts<'static> {
    let place = |host: Option<&String>| {
        let at = host.and_then(|host| known.iter().position(|known| known.name == *host));
        at.map_or(Place::Here, Place::Host)
    };
    let stages = (chain.iter().enumerate())
        .map(|(number, call)| {
            let mut stage = stage(chain, number, call, known, &place);
            if let Ok(of) = &call.place {
                for (named, file) in stage.files.iter_mut().zip(&of.files) {
                    named.ends_line = !unended.contains(&file.path);
                }
            }
            stage
        })
        .collect();
    let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
    let hosts = (known.iter()).map(|of| host(of, views_of(chain, &of.name), known));
    let hosts: Vec<Host> = hosts.collect();
    let down = hosts.iter().map(|host| host.down).reduce(f64::max);
    Facts {
        stages,
        hosts,
        direct: Vec::new(),
        idle_cores: Load::default().look().idle_cores(cores),
        // Nobody has seen that several lines together bring more than the best of them.
        link: down,
        learned: Learned::default(),
        unfit: false,
        eager: false,
    }
}

fn host(known: &HostState, views: &[View], all: &[HostState]) -> Host {
    let first = Placement::read(&known.name).map(|placement| placement.first().to_string());
    let first = first.filter(|first| *first != known.name);
    let round_trip_s = known.round_trip_s.unwrap_or(ROUND_TRIP_S);
    let usual_down = if round_trip_s < NEAR_S {
        NEAR_DOWN
    } else {
        DOWN
    };
    let down = known.down.unwrap_or(usual_down);
    Host {
        name: known.name.clone(),
        connected: known.is_open,
        connect_s: (known.connect_s).unwrap_or(CONNECT_TRIPS * round_trip_s + CONNECT_S),
        round_trip_s,
        down,
        up: down,
        idle_cores: known.idle_cores.unwrap_or(1.0),
        disk: DISK,
        mount: Mount {
            read: (down * MOUNT_SHARE).min(AHEAD / round_trip_s),
            write: if views.iter().any(|view| view.is_fuse) {
                (down * MOUNT_SHARE).min(FUSE_WRITE)
            } else {
                down * MOUNT_SHARE
            },
            open_s: 2.0 * round_trip_s,
            entry_s: round_trip_s / 20.0,
            // The helper has seen to what this mount shows.
            differs: Vec::new(),
        },
        // What is sent there has another name there.
        any_name: false,
        // A node that could not be had is not hoped for again at once: there are others.
        has_files_of: (first.filter(|_| !known.rests))
            .and_then(|first| all.iter().position(|of| of.name == first)),
    }
}

fn stage(
    chain: &[StageCall],
    number: usize,
    call: &StageCall,
    known: &[HostState],
    place: &dyn Fn(Option<&String>) -> Place,
) -> Stage<'static> {
    let of_fact =
        |fact: &FileFact| named(fact.seen, place(fact.host.as_ref()), Some(fact.identity));
    let there = |stdio: &Stdio| match stdio {
        Stdio::There {
            host,
            seen,
            identity,
            ..
        } => Some(named(*seen, place(Some(host)), Some(*identity))),
        _ => None,
    };
    let environment = environment(call);
    let nest = match &call.place {
        Ok(_) => nest_of(call),
        Err(why) => Err(why.clone()),
    };
    let elsewhere = |before: &StageCall| before.folder != call.folder;
    let nest = nest.and_then(|nest| {
        // Names that it is told of are to be found in the same folder.
        if takes_names(&nest.call) && chain[..number].iter().any(elsewhere) {
            return Err("it is in another folder than the stages before".into());
        }
        Ok(nest)
    });
    let name = |word: usize| {
        call.words
            .get(word)
            .map(|name| String::from_utf8_lossy(name))
    };
    let (names, environment, meaning) = match nest {
        Ok(nest) => {
            let names: Vec<String> = (nest.commands.iter())
                .filter_map(|command| Some(name(command.word)?.into_owned()))
                .collect();
            let own = (nest.commands.iter()).find(|command| command.word == nest.call.at);
            let environment = own.map_or(environment, |own| own.environment.clone());
            (names, environment, Ok(nest.call))
        }
        Err(why) => (Vec::new(), environment, Err(why)),
    };
    let of = call.place.as_ref().ok();
    let is_pipe = |stdio: &Stdio| matches!(stdio, Stdio::Pipe(_));
    let mut stage = Stage {
        words: call.words.clone(),
        call: meaning,
        environment,
        files: of.map_or(Vec::new(), |of| of.files.iter().map(of_fact).collect()),
        programs: of.map_or(Vec::new(), |of| {
            let one = |(text, file): &(Option<Vec<u8>>, Option<FileFact>)| {
                (text.clone(), file.as_ref().map(of_fact))
            };
            of.programs.iter().map(one).collect()
        }),
        folder: Named {
            at: place(of.and_then(|of| of.folder_host.as_ref())),
            size_bytes: IN_FOLDER.1,
            entries: IN_FOLDER.0,
            ..Named::default()
        },
        stdin: match &call.stdio[0] {
            stdio if is_pipe(stdio) && number > 0 => Stdin::Stage,
            stdio @ Stdio::There { at, .. } => match there(stdio) {
                Some(file) => Stdin::File { file, offset: *at },
                None => Stdin::Other { bytes: None },
            },
            Stdio::Terminal => Stdin::Terminal,
            Stdio::Null => Stdin::Other { bytes: Some(0) },
            _ => Stdin::Other { bytes: None },
        },
        stdout: match &call.stdio[1] {
            stdio if is_pipe(stdio) && number + 1 < chain.len() => Stdout::Stage,
            stdio @ Stdio::There { .. } => there(stdio).map_or(Stdout::Other, Stdout::File),
            Stdio::Terminal => Stdout::Terminal,
            _ => Stdout::Other,
        },
        is_merged: call.is_merged,
        there: (known.iter())
            .map(|host| {
                if names.iter().any(|name| host.different.contains(name)) {
                    There::Different
                } else {
                    There::Same
                }
            })
            .collect(),
    };
    if goes_below(&stage) {
        for named in stage.files.iter_mut().chain([&mut stage.folder]) {
            named.entries *= IN_TREE;
        }
    }
    stage
}

fn environment(call: &StageCall) -> Environment {
    let pairs = call.environment.iter().filter_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        Some((pair[..equals].to_vec(), pair[equals + 1..].to_vec()))
    });
    pairs.collect()
}

/// What a stage's call means, with all that it runs.
///
/// # Errors
/// Why that cannot be told, for people.
pub fn nest_of(call: &StageCall) -> Result<Nest<'static>, String> {
    nest(&annotations::of, &call.words, &environment(call))
}

fn takes_names(call: &Call<'_>) -> bool {
    matches!(call.given, Given::Words | Given::Zeros)
}

fn named(seen: Seen, at: Place, identity: Option<u64>) -> Named {
    let kind = match seen.kind {
        0 => FileKind::Absent,
        0o100_000 => FileKind::Regular,
        0o040_000 => FileKind::Folder,
        _ => FileKind::Other,
    };
    let is_folder = kind == FileKind::Folder;
    Named {
        at,
        kind,
        size_bytes: if is_folder { IN_FOLDER.1 } else { seen.size },
        entries: if is_folder { IN_FOLDER.0 } else { 0 },
        same_name: true,
        ends_line: false,
        identity: identity.filter(|identity| *identity != 0),
    }
}
