//! `pmawk`: AWK whose global variables, arrays and functions live in a heap file.
//!
//! Thin: command line, heap, exit status and wording. The language is in the crates `awk-syntax` and `awk`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program may

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use awk::locale::{DatesOf, Numbers};
use awk::regex::Syntax;
use awk::settings::Notation;
use awk::text::Charset;
use awk::{Error, Language, Setup, WhenNative};
use awk_syntax::Dialect;
use awk_syntax::diagnostic::Lints;
use awk_syntax::names::Library;
use heap::{Durability, Heap, Options};

mod args;
mod exit;
mod program;

use args::{Args, Dump, HELP, LintWish};
use exit::Exit;

#[global_allocator]
static MEMORY: heap::Memory = heap::Memory::new(out_of_memory);

/// A line for the user. Standard error may be closed or full: then there is nobody to tell, and the exit status must do.
fn tell(message: &impl std::fmt::Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "pmawk: {message}");
}

/// The end of a process that shares the records with others (`-j`).
#[allow(clippy::exit)] // nothing of what `main` does at the end is for such a process
fn leave(status: i32) -> ! {
    std::process::exit(status)
}

/// The end when the system refuses memory: a fatal error, but one that no part of the run can be told of any more. What was
/// printed and not yet written is lost with the rest.
#[allow(clippy::exit)] // an allocator may not unwind
fn out_of_memory(bytes: usize) -> ! {
    use std::io::Write;
    let _ = writeln!(
        std::io::stderr(), // without a buffer, so that nothing here allocates
        "pmawk: out of memory: {bytes} bytes were refused; nothing since the last commit is kept"
    );
    std::process::exit(Exit::Fatal as i32)
}

fn main() -> ExitCode {
    if let Err(error) = heap::mark_closed_descriptors() {
        tell(&format!("standard input, output or error: {error}"));
        return Exit::Fatal.into();
    }
    let args = match Args::parse(std::env::args_os().skip(1)) {
        Ok(args) => args,
        Err(message) => {
            tell(&message);
            return Exit::Error.into();
        }
    };
    match run(args) {
        Ok(status) => ExitCode::from(status as u8),
        Err(error) => match error.downcast_ref::<Error>() {
            // The reader of the output went away, as in `pmawk ... | head`.
            Some(Error::BrokenPipe) => Exit::BrokenPipe.into(),
            Some(Error::Quit) => Exit::Ok.into(),
            Some(error @ (Error::Syntax(messages) | Error::Misuse(messages))) => {
                for message in messages {
                    tell(&message);
                }
                match error {
                    Error::Syntax(_) => Exit::Error.into(),
                    _ => Exit::Fatal.into(),
                }
            }
            // The library's messages are whole; only this program's own have a cause behind them.
            Some(error) => {
                tell(error);
                Exit::Fatal.into()
            }
            None => {
                tell(&format!("{error:#}"));
                Exit::Fatal.into()
            }
        },
    }
}

fn run(args: Args) -> Result<i32> {
    if args.help {
        program::show(HELP)?;
        return Ok(Exit::Ok as i32);
    }
    if args.version {
        program::show(&format!(
            "pmawk {}, for the language of GNU Awk 5.3\n",
            env!("CARGO_PKG_VERSION")
        ))?;
        return Ok(Exit::Ok as i32);
    }
    if args.copyright {
        program::show(COPYRIGHT)?;
        return Ok(Exit::Ok as i32);
    }
    for assign in &args.assigns {
        if !assign.contains(&b'=') {
            let shown = String::from_utf8_lossy(assign);
            return Err(usage(&format!(
                "option -v: `{shown}` is no assignment: expected name=value"
            )));
        }
    }
    let path = program::search_path();
    let (sources, includes) = program::read(&args.parts, &path)?;
    if args.dumps.contains(&Dump::Tokens) {
        let dialect = dialect(&args);
        program::show(&awk_syntax::parse::dump_tokens(&sources, dialect))?;
    }
    let language = language(&args, path)?;
    if let Some(file) = &args.pretty {
        let heap = Heap::volatile().map_err(Error::from)?;
        let text = awk::pretty(sources, &heap, &language, &includes)?;
        program::write(file, text.as_bytes())?;
        return Ok(Exit::Ok as i32);
    }
    if args.gen_pot {
        let heap = Heap::volatile().map_err(Error::from)?;
        program::show(&awk::template(sources, &heap, &language)?)?;
        return Ok(Exit::Ok as i32);
    }
    let (heap, heap_name) = open_heap(&args)?;
    if !heap.is_persistent() && (args.resume.is_some() || args.commit_every.is_some()) {
        return Err(usage(
            "--resume and --commit-every need a heap: give --persist=FILE or set PMAWK_HEAP",
        ));
    }
    let loaded = awk::load(sources, &heap, language)?;
    for warning in &loaded.warnings {
        tell(&warning);
    }
    for dump in &args.dumps {
        match dump {
            Dump::Tokens => {}
            Dump::Ast => program::show(&loaded.resolved.print())?,
            Dump::Types => program::show(&loaded.resolved.print_types())?,
            Dump::Code => program::show(&loaded.code.print())?,
        }
    }
    if !args.dumps.is_empty() {
        return Ok(Exit::Ok as i32);
    }
    // The system is asked only if that matters: it answers from several files.
    let jobs = match args.jobs {
        Some(jobs) => jobs,
        None if args.explain_parallel => processors(),
        None => 1,
    };
    let stdout = std::io::stdout();
    let setup = Setup {
        command_line: std::env::args_os().map(OsStringExt::into_vec).collect(),
        argv0: std::env::args_os()
            .next()
            .map_or_else(|| b"pmawk".to_vec(), name_of_program),
        operands: args.operands,
        assigns: args.assigns,
        field_separator: args.field_separator,
        environ: program::environment(),
        stdin: None,
        stdin_is_terminal: std::io::stdin().is_terminal(),
        stdout_is_terminal: stdout.is_terminal(),
        // Not the standard library's, which buffers by lines: the engine buffers by itself.
        stdout: Box::new(std::fs::File::from(
            stdout
                .as_fd()
                .try_clone_to_owned()
                .context("standard output")?,
        )),
        warn: Box::new(|message| tell(&message)),
        durability: if args.lazy {
            Durability::Lazy
        } else {
            Durability::Durable
        },
        native: args.native,
        input: args.input,
        output: args.output,
        json: args.json_lines,
        sandbox: args.sandbox,
        commit_every: args.commit_every.unwrap_or(0),
        resume: args.resume,
        jobs: Some((jobs, leave)),
        explain_parallel: args.explain_parallel,
        no_assignments: args.no_assignments,
        profile: match &args.profile {
            Some(file) => Some(program::create(file)?),
            None => None,
        },
        debugger: match &args.debug {
            Some(commands) => Some(program::debugger(commands.as_deref())?),
            None => None,
        },
        trace: if args.trace {
            Some(Box::new(std::io::stderr()))
        } else {
            None
        },
        dump_variables: match &args.dump_variables {
            Some(file) => Some(program::create(file)?),
            None => None,
        },
    };
    Ok(awk::run(&loaded, heap, &heap_name, setup)?)
}

/// What is wrong with the command line.
fn usage(message: &str) -> anyhow::Error {
    Error::Syntax(vec![message.to_string()]).into()
}

const COPYRIGHT: &str = "\
pmawk is part of Perdure, Copyright (C) 2026 the Perdure authors.
It is free software: you may use, change and pass it on under the MIT licence or the Apache licence 2.0, as you prefer.
There is no warranty.
";

fn dialect(args: &Args) -> Dialect {
    let posixly = std::env::var_os("POSIXLY_CORRECT").is_some();
    if args.posix || (posixly && !args.traditional) {
        Dialect::Posix
    } else if args.traditional {
        Dialect::Traditional
    } else {
        Dialect::Gawk
    }
}

fn language(args: &Args, path: Vec<PathBuf>) -> Result<Language> {
    let mut libraries = Vec::new();
    for name in &args.libraries {
        let library = name.to_str().and_then(Library::from_name);
        libraries.push(library.with_context(|| {
            let reason = Library::unknown();
            format!("option -l: cannot load `{}': {reason}", name.display())
        })?);
    }
    if args.sandbox && !libraries.is_empty() {
        anyhow::bail!("option -l: libraries are not allowed with --sandbox");
    }
    let dialect = dialect(args);
    let charset = if args.bytes {
        Charset::Bytes
    } else {
        charset()
    };
    if args.input == Notation::Csv && dialect == Dialect::Posix {
        return Err(usage(
            "options --csv and --posix contradict each other: POSIX AWK has no CSV",
        ));
    }
    let mut language = Language::new(charset);
    language.syntax = match dialect {
        Dialect::Gawk => Syntax::Gawk,
        Dialect::Posix => Syntax::Posix,
        Dialect::Traditional if args.intervals => Syntax::Posix,
        Dialect::Traditional => Syntax::Traditional,
    };
    language.lint_is_fatal = args.lint == LintWish::Fatal;
    let lints = match args.lint {
        LintWish::None => Lints::default(),
        LintWish::All | LintWish::Fatal => Lints::ALL,
        LintWish::Invalid => Lints::INVALID,
        LintWish::NoExtensions => Lints::NO_EXTENSION,
    };
    language.reading = awk_syntax::Options {
        dialect,
        lints: Lints {
            old: args.lint_old,
            ..lints
        },
        sandbox: args.sandbox,
        libraries,
        ..language.reading
    };
    language.wish.marked = args.profile.is_some() || args.trace || args.debug.is_some();
    let numbers = Numbers::of_locale(&locale("LC_NUMERIC"));
    language.wish.numbers = if args.use_lc_numeric || dialect == Dialect::Posix {
        numbers.everywhere()
    } else {
        numbers
    };
    language.dates = DatesOf::locale(locale("LC_TIME")).into();
    // A debugger may be asked for what the program does not mention.
    language.wish.all_variables = args.dump_variables.is_some() || args.debug.is_some();
    language.wish.notation = args.output != Notation::Plain;
    language.include_path = path;
    language.non_decimal = args.non_decimal;
    language.wish.exact = args.bignum;
    language.shared = args.jobs.is_some_and(|jobs| jobs > 1) || args.explain_parallel;
    language.wish.ahead = !args.no_optimize;
    language.wish.parts = !args.no_optimize && args.json_lines.is_none();
    language.wish.native = args.native != WhenNative::Never && !args.bignum;
    Ok(language)
}

/// How many processes `--explain-parallel` without `-j` means.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(awk::JOBS_MAX))
}

/// ARGV[0]: the last part of the path, as the other awks have it.
fn name_of_program(path: OsString) -> Vec<u8> {
    Path::new(&path)
        .file_name()
        .map_or_else(|| b"pmawk".to_vec(), |name| name.as_bytes().to_vec())
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
        tell(&format!(
            "heap \"{shown}\": another process is writing; waiting for it"
        ));
    }));
    let heap = Heap::open(&path, options).map_err(Error::from)?;
    Ok((heap, name))
}

/// The locale of a category as POSIX finds it: the first of LC_ALL, the category's own variable and LANG that is set.
fn locale(category: &str) -> String {
    let names = ["LC_ALL", category, "LANG"];
    let values = names.into_iter().filter_map(std::env::var_os);
    let value = values.into_iter().find(|value| !value.is_empty());
    value.map_or_else(String::new, |v| v.to_string_lossy().into_owned())
}

/// What a character is.
fn charset() -> Charset {
    let name = locale("LC_CTYPE").to_ascii_lowercase();
    if name.contains("utf-8") || name.contains("utf8") {
        Charset::Utf8
    } else {
        Charset::Bytes
    }
}
