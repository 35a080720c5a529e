//! A pipeline that is not run: what its helpers would tell the broker, and what the planner would make of it.
//!
//! The invariant: nothing of the pipeline is run and no file is opened for it. The user's shell expands its words, and only such as can
//! neither run nor change anything ([`shell_plan::script::line`]).

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::{Command, Stdio as Stream};

use shell_plan::plan::explain::{bytes, seconds, svg, text};
use shell_plan::plan::plan;
use shell_plan::script::{Language, Simple, Target, line};

use crate::broker::memory::Memory;
use crate::broker::{self, facts};
use crate::config::{Engine, Line, Wrong};
use crate::mounts::{self, Mount};
use crate::program::{self, Found};
use crate::shims;
use crate::slurm;
use crate::stage::place::{self, Opening, Stage};
use crate::wire::{HostState, Limits, Place, StageCall, Stdio};

/// What is to be said of a pipeline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Explained {
    /// Lines for people.
    pub text: String,
    /// A drawing.
    pub svg: String,
    /// Lines of the configuration that count for nothing, and why.
    pub wrong: Vec<(Line, Wrong)>,
}

/// Why nothing is said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// It is no pipeline that can be explained.
    Refused(String),
    /// Something that the shell would not find either, or that is not here.
    Failed(String),
}

type Environment = Vec<(OsString, OsString)>;

/// Says what would run where and why. `connects`: hosts of its mounts are connected to first, so that they are known; `engine` is what the command
/// line says.
///
/// # Errors
/// Why nothing can be said.
pub fn explain(
    pipeline: &OsStr,
    connects: bool,
    engine: Option<Engine>,
) -> Result<Explained, Failure> {
    let stages = line(pipeline.as_bytes(), Language::Bash).map_err(Failure::Refused)?;
    let environment: Environment = std::env::vars_os().collect();
    let expanded = expand(&stages, &environment)?;
    let folder = std::env::current_dir().map_err(|error| Failure::Failed(error.to_string()))?;
    let (mounts, config) = mounts::chosen(engine);
    let chain = chain(&expanded, &environment, &folder, &mounts)?;

    let names = facts::hosts_of(&chain);
    // Nodes besides the first are asked for when a plan wants them.
    let needed = names.iter().filter(|name| !slurm::is_further(name));
    let connect = if connects {
        let to = |name: &String| (name.clone(), facts::views_of(&chain, name).to_vec());
        needed.map(to).collect()
    } else {
        Vec::new()
    };
    let memory = Memory::of_this_user();
    let told = broker::hosts(connect).map_or(Vec::new(), |told| told.hosts);
    let known: Vec<HostState> = (names.into_iter())
        .map(|name| {
            let found = told.iter().find(|host| host.name == name);
            let mut known = found.cloned().unwrap_or_else(|| HostState::unknown(&name));
            memory.remind(&mut known);
            known
        })
        .collect();
    let mut facts = facts::facts(&chain, &known, &[]);
    memory.teach(&mut facts);
    let plan = plan(&facts);
    let mut said = if mounts.is_empty() {
        // Files of this machine are not looked at, so there are no sizes and times that could be told.
        "All of it runs here: no folder of another machine is mounted.\n".to_owned()
    } else {
        match facts.hosts.as_slice() {
            // Nor here.
            [] => alone(&expanded, &plan),
            _ => text(&facts, &plan),
        }
    };
    for (known, host) in known.iter().zip(&facts.hosts) {
        said += &about(known, host);
    }
    Ok(Explained {
        text: said,
        svg: svg(&facts, &plan),
        wrong: config.wrong,
    })
}

/// Why each stage of a pipeline runs here that has nothing to do with any host.
fn alone(stages: &[Expanded], plan: &shell_plan::plan::Plan) -> String {
    let mut said = "All of it runs here.\n".to_owned();
    for (stage, reason) in stages.iter().zip(&plan.stages) {
        said += &format!("{}: {}\n", stage.words[0].display(), reason.why);
    }
    said
}

/// What a host was taken to be like, and why.
fn about(known: &HostState, host: &shell_plan::plan::Host) -> String {
    let how = |is_measured| if is_measured { "measured" } else { "assumed" };
    let connection = match (&known.is_open, &known.trouble) {
        (true, _) => "connected".to_owned(),
        (false, Some(why)) => format!("not connected ({why})"),
        (false, None) => format!("not connected yet, which takes {}", seconds(host.connect_s)),
    };
    format!(
        "{}: {connection}; round trip {} ({}), {}/s from there ({})\n",
        known.name,
        seconds(host.round_trip_s),
        how(known.round_trip_s.is_some()),
        bytes(host.down),
        how(known.down.is_some()),
    )
}

/// A command with its words as the shell would give them to it.
struct Expanded {
    assignments: Environment,
    words: Vec<OsString>,
    redirections: Vec<(u32, Opened)>,
}

/// What a descriptor becomes.
enum Opened {
    File(OsString, Opening),
    Same(u32),
    Text,
}

/// Has the user's shell expand all words.
fn expand(stages: &[Simple], environment: &Environment) -> Result<Vec<Expanded>, Failure> {
    // For each list of words a line: how many they are, and they, each with a zero byte behind it.
    let mut script = Vec::new();
    let ask = |script: &mut Vec<u8>, words: &[&[u8]]| {
        script.extend_from_slice(b"set -- ");
        script.extend_from_slice(&words.join(&b' '));
        script.extend_from_slice(b"\nbuiltin printf '%s\\0' \"$#\" \"$@\"\n");
    };
    for stage in stages {
        let words: Vec<&[u8]> = stage.words.iter().map(Vec::as_slice).collect();
        ask(&mut script, &words);
        for redirection in &stage.redirections {
            if let Target::Read(word) | Target::Write(word) | Target::Append(word) = &redirection.to
            {
                ask(&mut script, &[word]);
            }
        }
        // A value is not split into words.
        for (_, value) in &stage.assignments {
            script.extend_from_slice(b"value=");
            script.extend_from_slice(value);
            script.extend_from_slice(b"\nbuiltin printf '%s\\0' 1 \"$value\"\n");
        }
    }
    let failed = |what: String| Failure::Failed(what);
    // Whatever a shell would read before the text, or take for a builtin, is left out.
    let is_plain = |name: &OsStr| {
        let name = name.as_bytes();
        !name.starts_with(b"BASH_FUNC_")
            && !matches!(name, b"BASH_ENV" | b"ENV" | b"SHELLOPTS" | b"BASHOPTS")
    };
    let output = Command::new("bash")
        .args(["--norc", "--noprofile", "-c"])
        .arg(OsString::from_vec(script))
        .env_clear()
        .envs(
            environment
                .iter()
                .filter(|(name, _)| is_plain(name))
                .cloned(),
        )
        .stdin(Stream::null())
        .output()
        .map_err(|error| failed(format!("bash, which is to expand the words: {error}")))?;
    if !output.status.success() || !output.stderr.is_empty() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("bash says: {}", said.trim_end())));
    }
    let mut items = output.stdout.split(|&byte| byte == 0);
    let mut next = || -> Option<Vec<OsString>> {
        let count: usize = std::str::from_utf8(items.next()?).ok()?.parse().ok()?;
        let word = |_| Some(OsStr::from_bytes(items.next()?).to_owned());
        (0..count).map(word).collect()
    };
    let lacks = || failed("bash did not expand all words".into());
    let mut all = Vec::new();
    for stage in stages {
        let words = next().ok_or_else(lacks)?;
        if words.is_empty() {
            return Err(failed("a command whose name is expanded to nothing".into()));
        }
        let mut redirections = Vec::new();
        for redirection in &stage.redirections {
            let opened = match &redirection.to {
                Target::Same(other) => Opened::Same(*other),
                Target::Text => Opened::Text,
                target => {
                    let opening = match target {
                        Target::Write(_) => Opening::Write,
                        Target::Append(_) => Opening::Append,
                        _ => Opening::Read,
                    };
                    match next().ok_or_else(lacks)?.as_slice() {
                        [name] => Opened::File(name.clone(), opening),
                        _ => return Err(failed("an ambiguous redirection".into())),
                    }
                }
            };
            redirections.push((redirection.descriptor, opened));
        }
        let mut assignments = Vec::new();
        for (name, _) in &stage.assignments {
            let value = next().ok_or_else(lacks)?.into_iter().next();
            assignments.push((OsString::from(name), value.unwrap_or_default()));
        }
        all.push(Expanded {
            assignments,
            words,
            redirections,
        });
    }
    Ok(all)
}

/// What the helpers of the stages would tell the broker.
fn chain(
    stages: &[Expanded],
    environment: &Environment,
    folder: &Path,
    mounts: &[Mount],
) -> Result<Vec<StageCall>, Failure> {
    let last = stages.len() - 1;
    let call = |(number, stage): (usize, &Expanded)| {
        let mut environment = environment.clone();
        for (name, value) in &stage.assignments {
            environment.retain(|(known, _)| known != name);
            environment.push((name.clone(), value.clone()));
        }
        let seen = Stage {
            words: &stage.words,
            environment: &environment,
            folder,
            mounts,
            waited: Cell::default(),
        };
        let [input, output] = seen.stdio().map(|stdio| stdio.unwrap_or(Stdio::Here));
        // Pipes have numbers of their own, which no other has: those of the stages before them.
        let pipe = |behind: usize| Stdio::Pipe(behind as u64);
        let mut table = [
            if number == 0 { input } else { pipe(number - 1) },
            if number == last { output } else { pipe(number) },
        ];
        let mut is_merged = number == last && place::is_merged();
        for (descriptor, opened) in &stage.redirections {
            let to = match opened {
                Opened::Text => Stdio::Here,
                Opened::File(name, opening) => {
                    let opened = seen.opened(Path::new(name), *opening);
                    opened.map_err(Failure::Failed)?
                }
                // Descriptor 2 alone is what no stage is planned by, but for whether it is as 1.
                Opened::Same(other) if descriptor == other || is_merged => continue,
                Opened::Same(_) => {
                    is_merged = true;
                    if *descriptor == 1 {
                        table[1] = Stdio::Here;
                    }
                    continue;
                }
            };
            is_merged &= *descriptor == 0;
            if let Some(entry) = table.get_mut(*descriptor as usize) {
                *entry = to;
            }
        }
        let bytes = |text: &OsStr| text.as_bytes().to_vec();
        let place = placed(&seen, &table);
        Ok(StageCall {
            began: 0,
            shell: 0,
            session: 0,
            pipeline: 0,
            stage: number as u32,
            helpers: vec![true; stages.len()],
            words: stage.words.iter().map(|word| bytes(word)).collect(),
            environment: (environment.iter())
                .map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat())
                .collect(),
            folder: bytes(folder.as_os_str()),
            limits: Limits::default(),
            stdio: table,
            is_merged,
            changes: Vec::new(),
            program: Vec::new(),
            place,
        })
    };
    stages.iter().enumerate().map(call).collect()
}

/// Where a stage may run: a helper stands only before commands that are no builtins and are there.
fn placed(stage: &Stage<'_>, stdio: &[Stdio; 2]) -> Result<Place, String> {
    let name = stage.words[0].as_os_str();
    if name.to_str().is_some_and(shims::is_builtin) {
        return Err("the shell does it itself".into());
    }
    let path = stage.environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(""), |(_, value)| value);
    match program::find(name, path, &shims::is_ours) {
        Found::Program(_) => stage.place(stdio),
        _ => Err("there is no such command here".into()),
    }
}
