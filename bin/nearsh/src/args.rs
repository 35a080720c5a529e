//! The command line of nearsh: its own options, then what a shell is called with.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use shell_exec::agent;
use shell_exec::config::Engine;

/// What `--help` says.
pub const HELP: &str = "\
nearsh runs shell scripts as bash does, and those of their commands whose files lie on other machines, there.

Usage: nearsh [OPTIONS] FILE [ARGUMENT ...]
       nearsh [OPTIONS] -c TEXT [NAME [ARGUMENT ...]]
       nearsh [OPTIONS] -s [ARGUMENT ...]
       nearsh init bash|zsh|fish
       nearsh explain [--connect] [--svg=FILE] PIPELINE
       nearsh doctor
       nearsh stats
       nearsh annotate [--annotation=FILE] COMMAND [ARGUMENT ...]
       nearsh agent --stdio [--restrict-to FOLDER]

eval \"$(nearsh init bash)\" has the commands of an interactive shell run where their files are, too (fish: nearsh init fish | source).
nearsh explain says where the commands of a pipeline would run and why, and runs nothing (--connect: measures the line to its hosts first;
--svg=FILE: draws it, too). nearsh doctor says which folders of other machines are mounted here, and what is missing to run commands there.
nearsh stats tells what ran on other machines lately. nearsh annotate runs a command where it can do no harm, watches it, and says where
its annotation lies (the call given, or all that the annotation suggests; --annotation=FILE: another one than nearsh has). nearsh agent is what nearsh itself runs by ssh on machines whose folders are
mounted here.

Options of nearsh come first; others are the shell's.
  --shell=PROGRAM    the shell that runs the script (bash)
  --engine=ENGINE    by what commands run elsewhere: ssh, on the machines that have their files, or slurm, on nodes that Slurm gives and that
                     have the same folders (also before explain and doctor; ssh, or what ~/.config/nearsh/config says)
  --quiet            no line on the terminal about how far a command on another machine has come
  --debug=list       say of each command where it runs, and why
  --help             this text
  --version          which nearsh this is
";

/// When stages may run elsewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    Never,
    Auto,
    /// The script is edited though nothing lies elsewhere: for tests.
    Always,
}

/// What a shell is asked to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Args {
    pub shell: OsString,
    pub offload: Offload,
    /// Show what the shell would be given, and do nothing.
    pub shows_edited: bool,
    /// Stages say where they run.
    pub lists: bool,
    /// By what they are to run elsewhere, if that is said.
    pub engine: Option<Engine>,
    /// They do not tell how far they have come.
    pub is_quiet: bool,
    /// The shell's words.
    pub words: Vec<OsString>,
}

/// What is to be explained, and how.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Explain {
    /// The text of a pipeline.
    pub pipeline: OsString,
    /// Hosts are connected to.
    pub connects: bool,
    /// Where a drawing is written.
    pub svg: Option<PathBuf>,
    /// By what it would run elsewhere, if that is said.
    pub engine: Option<Engine>,
}

/// Which annotation is to be checked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Annotate {
    /// A file; none: nearsh's own.
    pub annotation: Option<PathBuf>,
    /// The command, and one call's arguments, if it is about one.
    pub words: Vec<OsString>,
}

/// What is asked of nearsh.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wish {
    Run(Args),
    Serve(agent::Options),
    Init(String),
    Stats,
    Explain(Explain),
    Doctor(Option<Engine>),
    Annotate(Annotate),
    Tell(String),
}

impl Args {
    /// Reads the words behind nearsh's name.
    pub fn read(words: &[OsString]) -> Result<Wish, String> {
        let mut args = Args {
            shell: "bash".into(),
            offload: Offload::Auto,
            shows_edited: false,
            lists: false,
            engine: None,
            is_quiet: false,
            words: Vec::new(),
        };
        let mut words = words;
        while let Some((engine, rest)) = engine(words)? {
            args.engine = Some(engine);
            words = rest;
        }
        if words.first().is_some_and(|word| word == "agent") {
            return serve(&words[1..]).map(Wish::Serve);
        }
        if words.first().is_some_and(|word| word == "init") {
            return match &words[1..] {
                [shell] => Ok(Wish::Init(shell.to_string_lossy().into_owned())),
                _ => Err("init: for which shell? bash, zsh, fish or sh".into()),
            };
        }
        if words.first().is_some_and(|word| word == "explain") {
            let explain = explain(&words[1..])?;
            return Ok(Wish::Explain(Explain {
                engine: args.engine,
                ..explain
            }));
        }
        if words.first().is_some_and(|word| word == "annotate") {
            return annotate(&words[1..]).map(Wish::Annotate);
        }
        if words.len() == 1 && words[0] == "doctor" {
            return Ok(Wish::Doctor(args.engine));
        }
        if words.len() == 1 && words[0] == "stats" {
            return Ok(Wish::Stats);
        }
        let mut rest = words;
        while let Some((word, behind)) = rest.split_first() {
            if let Some((engine, behind)) = engine(rest)? {
                args.engine = Some(engine);
                rest = behind;
                continue;
            }
            rest = behind;
            let text = word.to_string_lossy();
            match text.as_ref() {
                "--help" => return Ok(Wish::Tell(HELP.into())),
                "--version" => {
                    let version = env!("CARGO_PKG_VERSION");
                    return Ok(Wish::Tell(format!("nearsh {version}\n")));
                }
                "--offload=never" => args.offload = Offload::Never,
                "--offload=auto" => args.offload = Offload::Auto,
                "--offload=always" => args.offload = Offload::Always,
                "--debug=edit" => args.shows_edited = true,
                "--debug=list" => args.lists = true,
                "--quiet" => args.is_quiet = true,
                _ if text.starts_with("--offload=") || text.starts_with("--debug=") => {
                    return Err(format!("unknown: {text}"));
                }
                "--shell=" => return Err("--shell=: which program?".into()),
                _ => match word.as_bytes().strip_prefix(b"--shell=") {
                    Some(shell) => args.shell = OsStr::from_bytes(shell).to_owned(),
                    None => {
                        args.words.push(word.clone());
                        break;
                    }
                },
            }
        }
        args.words.extend_from_slice(rest);
        Ok(Wish::Run(args))
    }
}

/// The engine that the first words name, if they do, and the words behind them.
fn engine(words: &[OsString]) -> Result<Option<(Engine, &[OsString])>, String> {
    let Some((first, rest)) = words.split_first() else {
        return Ok(None);
    };
    let (name, rest) = match (first.as_bytes().strip_prefix(b"--engine"), rest) {
        (Some(b""), [name, rest @ ..]) => (name.as_bytes(), rest),
        (Some(b""), []) => (&b""[..], rest),
        (Some([b'=', name @ ..]), _) => (name, rest),
        _ => return Ok(None),
    };
    let name = String::from_utf8_lossy(name);
    match Engine::read(&name) {
        Some(engine) => Ok(Some((engine, rest))),
        None => Err(format!("--engine={name}: ssh or slurm?")),
    }
}

/// The words behind `explain`.
fn explain(words: &[OsString]) -> Result<Explain, String> {
    let mut explain = Explain::default();
    let mut rest = words.iter();
    let mut pipeline = None;
    for word in rest.by_ref() {
        if word == "--connect" {
            explain.connects = true;
        } else if let Some(file) = word.as_bytes().strip_prefix(b"--svg=") {
            explain.svg = Some(OsStr::from_bytes(file).into());
        } else if word.as_bytes().starts_with(b"--") && word != "--" {
            return Err(format!("explain: unknown: {}", word.to_string_lossy()));
        } else if word != "--" {
            pipeline = Some(word);
            break;
        }
    }
    match (pipeline, rest.next()) {
        (Some(pipeline), None) => explain.pipeline.clone_from(pipeline),
        (Some(_), Some(_)) => return Err("explain: the pipeline is one word: quote it".into()),
        (None, _) => {
            return Err("explain: which pipeline? nearsh explain 'grep x FILE | sort'".into());
        }
    }
    Ok(explain)
}

/// The words behind `annotate`.
pub fn annotate(words: &[OsString]) -> Result<Annotate, String> {
    let mut wish = Annotate::default();
    let mut rest = words;
    while let Some((word, others)) = rest.split_first() {
        if let Some(file) = word.as_bytes().strip_prefix(b"--annotation=") {
            wish.annotation = Some(OsStr::from_bytes(file).into());
        } else if word == "--" {
            rest = others;
            break;
        } else if word.as_bytes().starts_with(b"-") {
            return Err(format!("annotate: unknown: {}", word.to_string_lossy()));
        } else {
            break;
        }
        rest = others;
    }
    if rest.is_empty() {
        return Err("annotate: which command? nearsh annotate sort".into());
    }
    wish.words = rest.to_vec();
    Ok(wish)
}

/// The words behind `agent`.
fn serve(words: &[OsString]) -> Result<agent::Options, String> {
    let mut options = agent::Options::default();
    let mut is_stdio = false;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match word.to_str() {
            Some("--stdio") => is_stdio = true,
            Some("--restrict-to") => {
                let folder = rest.next().ok_or("--restrict-to: which folder?")?;
                options.beneath = Some(folder.into());
            }
            _ => return Err(format!("agent: unknown: {}", word.to_string_lossy())),
        }
    }
    if is_stdio {
        Ok(options)
    } else {
        Err("agent: it speaks on standard input and output: say --stdio".into())
    }
}
