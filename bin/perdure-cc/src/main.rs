//! `perdure-cc`, `perdure-c++`: clang with the pass that tracks stores.
//!
//! Thin: it reads the command line as far as it must, finds clang, the pass and libperdure, adds their options, and becomes
//! clang. Whatever is not an option of ours reaches clang unchanged, and clang's exit status is ours.
#![allow(clippy::print_stderr, clippy::print_stdout)] // a program may

mod arguments;
mod command;
mod exit;
mod find;
mod stats;

use arguments::Arguments;
use exit::Exit;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
perdure-cc: clang 19 that tracks stores to persistent memory. Called as perdure-c++, it compiles C++.

Options beside clang's (perdure-cc --help lists those after these):
  -fperdure-stats           tell on standard error what became of each store
  -fperdure-stats=FILE      add that to FILE, one line of JSON for each object
  -fperdure-verify          the object asks for verify mode: both trackers, and missed stores are reported
  -fperdure-no-verify       it does not. The default is verify mode with -O0 or -Og or no -O, unless NDEBUG is defined
  -fperdure-ignore=F,G      leave these functions as they are; so does __attribute__((annotate(\"perdure_ignore\")))
  -fperdure-no-runtime      link without libperdure

Environment: PERDURE_CLANG (clang 19), PERDURE_PASS (perdure-pass.so), PERDURE_LIB (the folder of libperdure).
Exit status: clang's; 125 if clang or the pass is missing or an option of ours is wrong.
";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    match run(&name, words.collect()) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{}: {error:#}", called(&name));
            Exit::Ours.into()
        }
    }
}

fn called(name: &OsString) -> String {
    Path::new(name)
        .file_name()
        .map_or("perdure-cc".into(), |n| n.to_string_lossy().into_owned())
}

fn run(name: &OsString, words: Vec<OsString>) -> anyhow::Result<ExitCode> {
    let is_cxx = called(name).ends_with("++");
    let arguments = Arguments::read(words)?;
    if arguments.wants_help {
        println!("{HELP}");
    }
    let tools = find::tools(&arguments)?;
    let stats = stats::Collection::new(&arguments)?;
    let plan = command::plan(&arguments, &tools, is_cxx, stats.file())?;
    let mut clang = Command::new(&tools.clang);
    // clang names itself in its messages, and finds its libraries by its own path.
    clang.args(&plan.words).envs(plan.environment);

    let after_link = plan.links && tools.library.is_none() && !arguments.no_runtime;
    if !stats.is_ours() && !after_link {
        return Err(anyhow::Error::new(clang.exec())
            .context(format!("cannot run {}", tools.clang.display())));
    }
    let status = clang.status().map_err(|e| {
        anyhow::Error::new(e).context(format!("cannot run {}", tools.clang.display()))
    })?;
    stats.print()?;
    if after_link && !status.success() {
        eprintln!(
            "{}: note: linked without libperdure, which is neither beside this program nor in $PERDURE_LIB",
            called(name)
        );
    }
    Ok(match (status.code(), status.signal()) {
        (Some(code), _) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        (None, signal) => ExitCode::from(u8::try_from(128 + signal.unwrap_or(0)).unwrap_or(1)),
    })
}
