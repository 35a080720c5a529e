//! What there is to run commands on other machines, and what is missing: for people who ask why nothing does.
//!
//! The invariant: each host is asked by a connection of its own, made as the broker makes its; what is told was just seen.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::broker::{self, Reach};
use crate::config::{Config, Engine, Line, Proxy, Wrong};
use crate::flow::Outgoing;
use crate::mounts::{self, Mount};
use crate::program::{self, Found};
use crate::slurm::{self, Placement};
use crate::stage::place::views;
use crate::tools::{Tools, plain};
use crate::wire::{
    Comparison, FarHello, Frame, FromAgent, Hello, PIECE, PROTOCOL, ToAgent, Tool, View,
};
use crate::{annotations, shims};

/// How long a host may take for everything.
const PATIENCE: Duration = Duration::from_secs(30);

/// All that was found.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Folders of other machines, and why one cannot be used.
    pub mounts: Vec<(Mount, Option<String>)>,
    /// Their machines.
    pub hosts: Vec<Host>,
    /// Lines of the configuration that count for nothing, and why.
    pub wrong: Vec<(Line, Wrong)>,
    /// Lines that are about nothing that is mounted here.
    pub unused: Vec<Proxy>,
    /// The program that connects, and the command it starts there.
    pub reach: Reach,
    /// How many commands with annotations are here.
    pub commands: usize,
    /// The C library of this machine.
    pub libc: String,
    /// Whether the shims are in PATH.
    pub shims: Shims,
    /// The broker's process, and when it began, in milliseconds since 1970.
    pub broker: Option<(u32, u64)>,
}

/// A machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// What it said, or why it said nothing.
    pub answer: Result<Far, Trouble>,
}

/// What a machine said of itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Far {
    /// By itself.
    pub hello: FarHello,
    /// A message's way there and back, in seconds.
    pub round_trip_s: f64,
    /// Commands that are here and not there.
    pub missing: Vec<String>,
    /// Commands that are others there.
    pub different: Vec<String>,
    /// Locales of this environment that only one of the two machines has.
    pub locales: Vec<String>,
}

/// Why a machine said nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The program that connects cannot be run.
    NoSsh(String),
    /// It did not connect, and said this.
    NotReached(String),
    /// It did, and there is no nearsh.
    NoNearsh(String),
    /// nearsh is there and ended, or said what is not understood.
    NotUnderstood(String),
    /// Slurm had no free node for so many seconds.
    NotFree(u64),
    /// Nothing came for so many seconds.
    Silent(u64),
    /// nearsh there is of this version and speaks this protocol.
    Protocol(String, u32),
}

/// Whether the shims are in PATH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shims {
    /// Before all else.
    First,
    /// Behind folders that have commands of the same names.
    Later,
    /// Not at all.
    Absent,
}

/// Looks at everything; `engine` is what the command line says.
pub fn examine(engine: Option<Engine>) -> Report {
    let (mut mounts, _) = mounts::chosen(engine);
    // It is told of, whether anything is mounted or not.
    let config = Config::of_this_process(engine);
    // They are told by their names, not as they were mounted.
    mounts.sort_by(|one, other| one.at.cmp(&other.at));
    let reach = Reach::of_environment();
    let tools = Tools::of_this_machine();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let commands = commands(&path, &tools, !mounts.is_empty());
    let mut names: Vec<String> = (mounts.iter())
        .filter(|mount| mount.export.is_some())
        .map(|mount| mount.host.clone())
        .collect();
    names.sort();
    names.dedup();
    let hosts: Vec<Host> = std::thread::scope(|scope| {
        let asked: Vec<_> = (names.iter())
            .map(|name| {
                let (mounts, reach, commands, path, tools) =
                    (&mounts, &reach, &commands, &path, &tools);
                scope.spawn(move || {
                    let views = views(mounts, name).unwrap_or_default();
                    ask(name, reach, views, path, commands, tools)
                })
            })
            .collect();
        let answers = asked.into_iter().map(|one| one.join());
        (names.iter().zip(answers))
            .filter_map(|(name, answer)| {
                let name = name.clone();
                answer.ok().map(|answer| Host { name, answer })
            })
            .collect()
    });
    let of = |mount: &Mount| (mount.clone(), hindrance(mount, &mounts, &hosts));
    Report {
        mounts: mounts.iter().map(of).collect(),
        unused: config.unused(&mounts).into_iter().cloned().collect(),
        wrong: config.wrong,
        reach,
        commands: commands.len(),
        libc: tools.libc.clone(),
        shims: where_shims_are(&path),
        broker: broker::hosts(Vec::new()).map(|told| (told.process, told.began)),
        hosts,
    }
}

/// Why a mount cannot be used; none: it can.
fn hindrance(mount: &Mount, mounts: &[Mount], hosts: &[Host]) -> Option<String> {
    if mount.export.is_none() {
        return Some("the name of a share does not tell which folder of the host it is".into());
    }
    let host = hosts.iter().find(|host| host.name == mount.host)?;
    let Ok(far) = &host.answer else {
        return Some(format!("see {} below", mount.host));
    };
    let Some(views) = views(mounts, &mount.host) else {
        return Some("it does not answer".into());
    };
    let at = mount.at.as_os_str().as_bytes();
    let number = views.iter().position(|view| view.at == at)?;
    far.hello.views.get(number).cloned().flatten()
}

/// The commands that have annotations and are here, and what they are.
fn commands(path: &OsStr, tools: &Tools, wanted: bool) -> Vec<(String, Tool)> {
    let names = annotations::names().filter(|name| wanted && !shims::is_builtin(name));
    let tool = |name: &str| match program::find(name.as_ref(), path, &shims::is_ours) {
        Found::Program(found) => {
            let version = annotations::of(name)?.version.as_ref();
            tools.tool(&found, version)
        }
        _ => None,
    };
    names
        .filter_map(|name| Some((name.to_owned(), tool(name)?)))
        .collect()
}

/// Asks a host about everything.
fn ask(
    name: &str,
    reach: &Reach,
    views: Vec<View>,
    path: &OsStr,
    commands: &[(String, Tool)],
    tools: &Tools,
) -> Result<Far, Trouble> {
    // Who connects may have ended before it is spoken to: that is an error of writing here, as in a broker, and no signal.
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    let _ = pipe.thread_block();
    let mut child = reach.start(name).map_err(Trouble::NoSsh)?;
    let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(Trouble::NoSsh("it has no pipes".into()));
    };
    let until = Instant::now() + PATIENCE;
    let (to, answers) = channel();
    // It ends with the connection.
    std::thread::spawn(move || listen(stdout, &to));
    let out = Outgoing::new(stdin, |_| {});
    out.tell(&ToAgent::Hello(Hello {
        protocol: PROTOCOL,
        views,
    }));
    let Ok(FromAgent::Hello(hello)) = next(&answers, until) else {
        let is_late = Instant::now() >= until;
        drop(out);
        return Err(if is_late {
            let _ = child.kill();
            let _ = child.wait();
            Trouble::Silent(PATIENCE.as_secs())
        } else {
            why_not(child, Placement::read(name).is_some())
        });
    };
    let mut end = || {
        let _ = child.kill();
        let _ = child.wait();
    };
    if hello.protocol != PROTOCOL {
        end();
        return Err(Trouble::Protocol(hello.version, hello.protocol));
    }
    let mut round_trip_s = f64::INFINITY;
    for number in 0..3 {
        let asked = Instant::now();
        out.tell(&ToAgent::Ping(number));
        if next(&answers, until).is_ok() {
            round_trip_s = round_trip_s.min(asked.elapsed().as_secs_f64());
        }
    }
    out.tell(&ToAgent::Compare {
        path: path.as_bytes().to_vec(),
        commands: commands.to_vec(),
    });
    let compared = next(&answers, until);
    end();
    let Ok(FromAgent::Compared(compared)) = compared else {
        return Err(Trouble::NotUnderstood(
            "the connection ended while commands were compared".into(),
        ));
    };
    let (mut missing, mut different) = (Vec::new(), Vec::new());
    for ((name, _), found) in commands.iter().zip(&compared) {
        match found {
            Comparison::Absent => missing.push(name.clone()),
            Comparison::Different => different.push(name.clone()),
            Comparison::Same => {}
        }
    }
    let locales = locales(&tools.locales(), &hello.locales);
    Ok(Far {
        hello,
        round_trip_s,
        missing,
        different,
        locales,
    })
}

/// Passes messages on until there are no more.
fn listen(stdout: impl Read, to: &Sender<FromAgent>) {
    let mut from = BufReader::with_capacity(PIECE + 4096, stdout);
    while let Ok(Some(Frame::Message(payload))) = Frame::read(&mut from) {
        let Ok(message) = Frame::message(&payload) else {
            return;
        };
        if to.send(message).is_err() {
            return;
        }
    }
}

fn next(answers: &Receiver<FromAgent>, until: Instant) -> Result<FromAgent, RecvTimeoutError> {
    answers.recv_timeout(until.saturating_duration_since(Instant::now()))
}

/// What ssh or srun, or the shell at its other end, had to say, and which of them.
fn why_not(mut child: Child, is_slurm: bool) -> Trouble {
    // It has closed its output, or is about to be told that nobody listens.
    let until = Instant::now() + Duration::from_secs(2);
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let Ok(output) = child.wait_with_output() else {
        return Trouble::NotUnderstood(String::new());
    };
    let said = String::from_utf8_lossy(&output.stderr);
    let lines = said
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty());
    let said = lines.collect::<Vec<_>>().join("; ");
    match output.status.code() {
        Some(slurm::NOT_FREE) if is_slurm => Trouble::NotFree(slurm::PATIENCE_S.into()),
        // srun says so besides what the shell says.
        Some(slurm::NOT_STARTED) if is_slurm => Trouble::NotReached(said),
        // ssh(1): its own errors; the far command's status otherwise.
        Some(255) => Trouble::NotReached(said),
        Some(126 | 127) => Trouble::NoNearsh(said),
        _ => Trouble::NotUnderstood(said),
    }
}

/// The locales that this environment names and that one of two machines has and the other has not.
fn locales(here: &[String], there: &[String]) -> Vec<String> {
    let is_locale = |name: &OsString| {
        let name = name.as_bytes();
        name == b"LANG" || name.starts_with(b"LC_")
    };
    let values = std::env::vars_os().filter(|(name, _)| is_locale(name));
    let mut found = BTreeSet::new();
    for (_, value) in values {
        let value = value.to_string_lossy().into_owned();
        let name = plain(&value);
        if here.contains(&name) != there.contains(&name) {
            found.insert(value);
        }
    }
    found.into_iter().collect()
}

/// Where the folder of the shims is in PATH.
fn where_shims_are(path: &OsStr) -> Shims {
    let Ok(folder) = shims::folder() else {
        return Shims::Absent;
    };
    let mut folders = path.as_bytes().split(|&byte| byte == b':');
    match folders.position(|one| one == folder.as_os_str().as_bytes()) {
        Some(0) => Shims::First,
        Some(_) => Shims::Later,
        None => Shims::Absent,
    }
}
