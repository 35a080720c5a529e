//! `pmawk`: AWK whose global variables, arrays and functions live in a heap file.
//!
//! Thin: command line, heap, exit status and wording. The language is in the crates `awk-syntax` and `awk`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program may

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use awk::text::Charset;
use awk::{Error, Setup};
use awk_syntax::Sources;
use heap::{Durability, Heap, Options};

mod args;
mod exit;

use args::{Args, Dump, HELP};
use exit::Exit;

fn main() -> ExitCode {
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(message) => {
            eprintln!("pmawk: {message}");
            return Exit::Error.into();
        }
    };
    match run(args) {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => match error.downcast_ref::<Error>() {
            // The reader of the output went away, as in `pmawk ... | head`.
            Some(Error::BrokenPipe) => Exit::BrokenPipe.into(),
            Some(error @ (Error::Syntax(messages) | Error::Misuse(messages))) => {
                for message in messages {
                    eprintln!("pmawk: {message}");
                }
                match error {
                    Error::Syntax(_) => Exit::Error.into(),
                    _ => Exit::Fatal.into(),
                }
            }
            // The library's messages are whole; only this program's own have a cause behind them.
            Some(error) => {
                eprintln!("pmawk: {error}");
                Exit::Fatal.into()
            }
            None => {
                eprintln!("pmawk: {error:#}");
                Exit::Fatal.into()
            }
        },
    }
}

fn run(args: Args) -> Result<i32> {
    if args.help {
        print!("{HELP}");
        return Ok(Exit::Ok as i32);
    }
    if args.version {
        println!("pmawk {}", env!("CARGO_PKG_VERSION"));
        return Ok(Exit::Ok as i32);
    }
    let sources = read_program(&args)?;
    if args.dumps.contains(&Dump::Tokens) {
        print!(
            "{}",
            awk_syntax::parse::dump_tokens(&sources, awk_syntax::Dialect::Gawk)
        );
    }
    let (heap, heap_name) = open_heap(&args)?;
    let loaded = awk::load(sources, &heap, awk::Language::new(charset()))?;
    for warning in &loaded.warnings {
        eprintln!("pmawk: {warning}");
    }
    for dump in &args.dumps {
        match dump {
            Dump::Tokens => {}
            Dump::Ast => print!("{}", loaded.resolved.print()),
            Dump::Types => print!("{}", loaded.resolved.print_types()),
            Dump::Code => print!("{}", loaded.code.print()),
        }
    }
    if !args.dumps.is_empty() {
        return Ok(Exit::Ok as i32);
    }
    let stdout = std::io::stdout();
    let setup = Setup {
        command_line: std::env::args_os().map(OsStringExt::into_vec).collect(),
        argv0: std::env::args_os()
            .next()
            .map_or_else(|| b"pmawk".to_vec(), name_of_program),
        operands: args.operands,
        assigns: args.assigns,
        field_separator: args.field_separator,
        environ: std::env::vars_os()
            .map(|(name, text)| (name.into_vec(), text.into_vec()))
            .collect(),
        stdin: None,
        stdout_is_terminal: stdout.is_terminal(),
        // Not the standard library's, which buffers by lines: the engine buffers by itself.
        stdout: Box::new(std::fs::File::from(
            stdout
                .as_fd()
                .try_clone_to_owned()
                .context("standard output")?,
        )),
        warn: Box::new(|message| eprintln!("pmawk: {message}")),
        durability: if args.lazy {
            Durability::Lazy
        } else {
            Durability::Durable
        },
    };
    Ok(awk::run(&loaded, heap, &heap_name, setup)?)
}

/// ARGV[0]: the last part of the path, as the other awks have it.
fn name_of_program(path: OsString) -> Vec<u8> {
    Path::new(&path)
        .file_name()
        .map_or_else(|| b"pmawk".to_vec(), |name| name.as_bytes().to_vec())
}

fn read_program(args: &Args) -> Result<Sources> {
    let mut sources = Sources::default();
    if let Some(text) = &args.program {
        sources.add("cmd. line", text.clone());
    }
    for file in &args.files {
        let mut text = Vec::new();
        let shown = file.to_string_lossy().into_owned();
        if shown == "-" || shown == "/dev/stdin" {
            std::io::stdin()
                .read_to_end(&mut text)
                .map_err(|error| unreadable("the program from standard input", &error))?;
        } else {
            text = std::fs::read(file)
                .map_err(|error| unreadable(&format!("program file {shown:?}"), &error))?;
        }
        sources.add(shown, text);
    }
    Ok(sources)
}

fn unreadable(what: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot read {what}: {}", awk::system_reason(error))
}

fn open_heap(args: &Args) -> Result<(Heap, String)> {
    let from_environment = || {
        let names = ["PMAWK_HEAP", "GAWK_PERSIST_FILE"];
        names
            .into_iter()
            .filter_map(std::env::var_os)
            .find(|path| !path.is_empty())
            .map(PathBuf::from)
    };
    let Some(path) = args.persist.clone().or_else(from_environment) else {
        if args.snapshot {
            anyhow::bail!("--snapshot needs a heap: give --persist=FILE or set PMAWK_HEAP");
        }
        return Ok((Heap::volatile().map_err(Error::from)?, String::new()));
    };
    let mut options = if args.snapshot {
        Options::snapshot()
    } else {
        Options::writer()
    };
    if let Some(timeout) = args.lock_timeout {
        options.lock_timeout = timeout;
    }
    options.trust = args.trust;
    let name = path.display().to_string();
    let shown = name.clone();
    options.on_wait = Some(Box::new(move || {
        eprintln!("pmawk: heap \"{shown}\": another process is writing; waiting for it");
    }));
    let heap = Heap::open(&path, options).map_err(Error::from)?;
    Ok((heap, name))
}

/// What a character is, from the locale as POSIX finds it: the first of LC_ALL, LC_CTYPE and LANG that is set.
fn charset() -> Charset {
    let names = ["LC_ALL", "LC_CTYPE", "LANG"];
    let value = names
        .into_iter()
        .filter_map(std::env::var_os)
        .find(|value| !value.is_empty());
    let name = value
        .map(|v| v.to_string_lossy().to_ascii_lowercase())
        .unwrap_or_default();
    if name.contains("utf-8") || name.contains("utf8") {
        Charset::Utf8
    } else {
        Charset::Bytes
    }
}
