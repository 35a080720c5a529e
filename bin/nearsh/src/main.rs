//! `nearsh`: runs unmodified shell scripts with the work done where the data lies.
//!
//! Thin: command line, exit status and wording. What a script means is in the crate `shell-plan`, processes are in `shell-exec`.
#![no_main]
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program may

mod annotate;
mod args;
mod doctor;
mod entry;
mod exit;
mod stats;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use shell_exec::annotate::watch;
use shell_exec::config::{self, Engine};
use shell_exec::program::{self, Found};
use shell_exec::script::{Call, Editing, prepare};
use shell_exec::{agent, broker, explain, mounts, shims, stage};
use shell_plan::script::Language;

use args::{Args, Explain, Offload, Wish};
use exit::Exit;

/// The program, once it is entered; returns its exit status.
fn run() -> u8 {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some((tag, command)) = words.split_first().and_then(|(first, rest)| {
        let tag = stage::Tag::read(first)?;
        Some((tag, rest))
    }) {
        return run_stage(Some(&tag), command);
    }
    let own = std::env::args_os().next().unwrap_or_default();
    if let Some(name) = shims::called_as(&own) {
        let mut command = vec![OsString::from(name)];
        command.extend(words);
        return run_stage(None, &command);
    }
    match words.first().and_then(|word| word.to_str()) {
        Some(agent::launch::WORD) => {
            eprintln!("nearsh: {}", agent::launch::run(&words[1..]));
            return Exit::NoCommand as u8;
        }
        Some(watch::WORD) => {
            eprintln!("nearsh: {}", watch::become_tried(&words[1..]));
            return Exit::NoCommand as u8;
        }
        Some(shell_exec::annotate::WORD) => {
            let Some((base, words)) = words[1..].split_first() else {
                return Exit::Usage as u8;
            };
            return annotate::inner(Path::new(base), words) as u8;
        }
        Some(broker::WORD) => {
            if let Some(at) = words.get(1) {
                broker::serve(Path::new(at));
            }
            return Exit::Ok as u8;
        }
        _ => {}
    }
    match Args::read(&words) {
        Ok(Wish::Serve(options)) => match agent::serve(&options) {
            Ok(()) => Exit::Ok as u8,
            Err(why) => {
                eprintln!("nearsh agent: {why}");
                Exit::Error as u8
            }
        },
        Ok(Wish::Init(shell)) => init(&shell),
        Ok(Wish::Stats) => tell(&stats::text(&broker::records().unwrap_or_default())) as u8,
        Ok(Wish::Explain(wish)) => explained(&wish) as u8,
        Ok(Wish::Annotate(wish)) => annotate::outer(&wish, &words[1..]),
        Ok(Wish::Doctor(engine)) => examine(engine) as u8,
        Ok(Wish::Run(args)) => become_shell(&args) as u8,
        Ok(Wish::Tell(text)) => tell(&text) as u8,
        Err(message) => {
            eprintln!("nearsh: {message}\nTry \"nearsh --help\".");
            Exit::Usage as u8
        }
    }
}

fn run_stage(tag: Option<&stage::Tag>, command: &[OsString]) -> u8 {
    let failure = stage::run(tag, command);
    let _ = std::io::stderr().write_all(&failure.message);
    failure.status
}

/// Makes the shims, and prints what puts them before all else in a shell's PATH.
fn init(shell: &str) -> u8 {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let made = shims::make(&path).map_err(|error| format!("the shims could not be made: {error}"));
    match made.and_then(|folder| shims::text(shell, &folder)) {
        Ok(text) => tell(&text) as u8,
        Err(why) => {
            eprintln!("nearsh init: {why}");
            Exit::Error as u8
        }
    }
}

/// Says what was found and what is missing.
fn examine(engine: Option<Engine>) -> Exit {
    let report = shell_exec::doctor::examine(engine);
    let told = tell(&doctor::text(&report));
    let is_usable = |(_, hindrance): &(_, Option<String>)| hindrance.is_none();
    if report.mounts.iter().all(is_usable) && report.wrong.is_empty() {
        told
    } else {
        Exit::Error
    }
}

/// Says where a pipeline would run, and draws it if that is wanted.
fn explained(wish: &Explain) -> Exit {
    let (why, exit) = match explain::explain(&wish.pipeline, wish.connects, wish.engine) {
        Ok(told) => {
            for (line, wrong) in &told.wrong {
                eprintln!(
                    "nearsh explain: {line} counts for nothing: {wrong}; to do: {}",
                    wrong.to_do()
                );
            }
            match &wish.svg {
                None => return tell(&told.text),
                Some(file) => match std::fs::write(file, &told.svg) {
                    Ok(()) => return tell(&told.text),
                    Err(error) => (format!("{}: {error}", file.display()), Exit::Error),
                },
            }
        }
        Err(explain::Failure::Refused(why)) => (why, Exit::Usage),
        Err(explain::Failure::Failed(why)) => (why, Exit::Error),
    };
    eprintln!("nearsh explain: {why}");
    exit
}

pub(crate) fn tell(text: &str) -> Exit {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Exit::Ok,
        Err(_) => Exit::Error,
    }
}

/// Becomes the shell that runs the script.
fn become_shell(args: &Args) -> Exit {
    let mut environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    if args.lists {
        environment.push((stage::DEBUG.into(), "list".into()));
    }
    if let Some(engine) = args.engine {
        environment.retain(|(name, _)| name != config::ENGINE);
        environment.push((config::ENGINE.into(), engine.name().into()));
    }
    if args.is_quiet {
        environment.push((stage::QUIET.into(), "1".into()));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let shell = match program::find(&args.shell, &path, &|_| false) {
        Found::Program(shell) => shell,
        _ => {
            eprintln!(
                "nearsh: there is no shell \"{}\"; name another one with --shell=PROGRAM",
                args.shell.to_string_lossy()
            );
            return Exit::NoShell;
        }
    };
    let helper = std::env::current_exe().unwrap_or_default();
    let (mounts, _) = mounts::chosen(args.engine);
    let editing = match args.offload {
        Offload::Always => Editing::Helper(&helper),
        Offload::Auto if !mounts.is_empty() => Editing::Helper(&helper),
        Offload::Auto | Offload::Never => Editing::Never,
    };
    if editing != Editing::Never && !args.shows_edited {
        stage::begin_session(args.offload == Offload::Always, &mounts);
    }
    let words = match Call::read(&args.words) {
        Ok(call) => {
            let language = language_of(&shell);
            let prepared = prepare(&call, &args.words, language, editing, &environment);
            if args.shows_edited {
                show(
                    &prepared.words,
                    prepared.doubt.as_ref().map(ToString::to_string),
                );
                return Exit::Ok;
            }
            prepared.words
        }
        // The shell says what it lacks.
        Err(_) => args.words.clone(),
    };
    let mut all = vec![args.shell.clone()];
    all.extend(words);
    let Err(error) = program::execute(&shell, &all, &environment);
    eprintln!("nearsh: cannot run {}: {}", shell.display(), error.desc());
    Exit::NoShell
}

/// The language that a shell reads, by the name of its file, to which links lead.
fn language_of(shell: &Path) -> Language {
    let file: PathBuf = shell.canonicalize().unwrap_or_else(|_| shell.to_path_buf());
    let name = file.file_name().unwrap_or_default();
    if name.as_bytes() == b"bash" {
        Language::Bash
    } else {
        Language::Posix
    }
}

fn show(words: &[OsString], doubt: Option<String>) {
    let mut out = std::io::stdout();
    for word in words {
        let _ = out.write_all(word.as_bytes());
        let _ = out.write_all(b"\n");
    }
    if let Some(doubt) = doubt {
        eprintln!("nearsh: runs as it is: {doubt}");
    }
}
