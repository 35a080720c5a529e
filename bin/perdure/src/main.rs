//! `perdure`: looks after heap files.
//!
//! Thin: command line, exit status and wording; one file per family of commands. All commands but `create`, `delete` and
//! those options of `check` that change something read a snapshot: they never wait for a writer, and no writer waits for them.
#![allow(clippy::print_stderr)] // a program may; standard output goes through one buffered writer

mod check;
mod create;
mod delete;
mod dump;
mod exit;
mod expression;
mod get;
mod info;
mod text;
mod vars;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use exit::Exit;
use heap::{ErrorKind, Heap, Options, Verify};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Look after heap files: the files in which pmawk keeps variables, arrays and functions.
#[derive(Parser)]
#[command(
    name = "perdure",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Exit status: 0 done; 1 there is no such variable or element, or damage was found; \
                  2 wrong usage; 3 a file could not be opened, made or written.\n\n\
                  A heap is three files: HEAP, HEAP.journal and HEAP.sums. Move and copy them together."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make an empty heap
    #[command(
        after_help = "pmawk makes a heap by itself when --persist names a file that does not exist. \
                            This is for one with a limit, or for making sure that there was none."
    )]
    Create(create::CreateArgs),
    /// Tell sizes, dates and commits of a heap
    #[command(
        after_help = "\"live data\" is what variables and functions take; the rest of \"size\" is free for new ones. \
                            \"pending commits\" are safe in the journal, and wait there for a reader to end."
    )]
    Info(info::InfoArgs),
    /// List variables and functions with their kinds, counts and bytes
    #[command(
        after_help = "Kinds: number, string, strnum (text from input, a number where it looks like one), uninitialized, \
                            array, function. Count: elements of an array. Bytes: what it takes in the heap."
    )]
    Vars(HeapArgs),
    /// Print a variable, an element, an array or a function
    Get(get::GetArgs),
    /// Remove variables, arrays and functions
    #[command(
        after_help = "All of them, at once, or, if one is not there, none. Refused while a program writes to the heap."
    )]
    Delete(delete::DeleteArgs),
    /// Look for damage, and say what can be saved
    #[command(after_help = "Nothing is changed, unless an option says so. \
                            Exit status: 0 no damage; 1 damage, or something is missing that damage would be mended or found with; \
                            2 wrong usage; 3 the heap does not open.")]
    Check(check::CheckArgs),
    /// Print everything as text, one element a line
    #[command(
        after_help = "Functions, then variables, by name; elements in order of insertion. The lines are AWK statements, so \
                            that \"diff\" compares two heaps; sort them first if only the order of insertion differs."
    )]
    Dump(HeapArgs),
}

/// What every command that reads a heap takes.
#[derive(Args)]
pub struct HeapArgs {
    /// The heap file
    pub heap: PathBuf,
    /// Open it even if other users own or may write it
    #[arg(long)]
    pub trust: bool,
}

/// An answer of no, or what was found: said in one line, with status 1.
#[derive(Debug)]
pub struct Negative(pub String);

impl std::fmt::Display for Negative {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Negative {}

#[global_allocator]
static MEMORY: heap::Memory = heap::Memory::new(out_of_memory);

/// The end when the system refuses memory.
#[allow(clippy::exit)] // an allocator may not unwind
fn out_of_memory(bytes: usize) -> ! {
    // Without a buffer, so that nothing here allocates.
    let _ = writeln!(
        io::stderr(),
        "perdure: out of memory: {bytes} bytes were refused"
    );
    std::process::exit(Exit::File as i32)
}

/// Standard output, in large pieces. Not the standard library's, which takes what is written to a closed one for written.
pub type Out = BufWriter<std::fs::File>;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain_usage(&error),
    };
    let stdout =
        heap::mark_closed_descriptors().and_then(|()| io::stdout().as_fd().try_clone_to_owned());
    let mut out = match stdout {
        Ok(stdout) => BufWriter::with_capacity(1 << 16, stdout.into()),
        Err(error) => {
            eprintln!("perdure: standard output: {error}");
            return Exit::File.into();
        }
    };
    let done = run(cli.command, &mut out).and_then(|exit| {
        out.flush().map_err(anyhow::Error::from)?;
        Ok(exit)
    });
    match done {
        Ok(exit) => exit.into(),
        Err(error) if is_broken_pipe(&error) => Exit::Ok.into(), // as in `perdure dump HEAP | head`
        Err(error) => {
            let _ = out.flush();
            eprintln!("perdure: {error:#}");
            exit_of(&error).into()
        }
    }
}

/// Help and version, or what is wrong with the command line, said as all other errors are.
fn explain_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print(); // a reader that went away wants no help
        return Exit::Ok.into();
    }
    let text = error.to_string();
    match text.strip_prefix("error: ") {
        Some(what) => eprint!("perdure: {what}"),
        None => eprint!("{text}"), // the help, for a command line without a command
    }
    Exit::Usage.into()
}

fn run(command: Command, out: &mut Out) -> Result<Exit> {
    match command {
        Command::Create(args) => create::run(&args, out),
        Command::Info(args) => info::run(&args, out),
        Command::Vars(args) => vars::run(&args, out),
        Command::Get(args) => get::run(&args, out),
        Command::Delete(args) => delete::run(&args, out),
        Command::Check(args) => check::run(&args, out),
        Command::Dump(args) => dump::run(&args, out),
    }
}

fn exit_of(error: &anyhow::Error) -> Exit {
    if error.is::<expression::BadExpression>() {
        return Exit::Usage;
    }
    match error.downcast_ref::<heap::Error>().map(heap::Error::kind) {
        _ if error.is::<Negative>() => Exit::Negative,
        // Found while reading a heap that could be opened: see `open`.
        Some(ErrorKind::Damaged { .. }) if !error.is::<CannotOpen>() => Exit::Negative,
        _ => Exit::File,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    match error.downcast_ref::<heap::Error>().map(heap::Error::kind) {
        Some(ErrorKind::Io { source, .. }) => is_pipe(source),
        _ => error.downcast_ref::<io::Error>().is_some_and(is_pipe),
    }
}

/// Marks an error of opening, whose status differs from that of damage found later.
#[derive(Debug)]
struct CannotOpen(heap::Error);

impl std::fmt::Display for CannotOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for CannotOpen {}

/// A snapshot of the heap's last commit. `verify`: [`Verify::No`] for commands that help with a damaged heap.
pub fn open(path: &Path, trust: bool, verify: Verify) -> Result<Heap> {
    let options = Options {
        trust,
        verify,
        ..Options::snapshot()
    };
    Heap::open(path, options).map_err(|error| CannotOpen(error).into())
}

/// An error of writing the output, for callbacks that the heap calls.
pub fn output_error(source: io::Error) -> heap::Error {
    ErrorKind::Io {
        path: "standard output".into(),
        action: "write the answer",
        source,
    }
    .into()
}
