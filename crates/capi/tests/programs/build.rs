//! Building C and C++ programs as anybody would.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where cargo put the libraries: beside the test programs.
pub fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let folder = own.parent().unwrap();
    assert!(
        folder.join("libperdure.so").exists() && folder.join("libperdure.a").exists(),
        "no libperdure in {}",
        folder.display()
    );
    folder.into()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/c")
        .join(name)
}

pub fn run(command: &mut Command) -> Output {
    command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

pub fn good(command: &mut Command) -> String {
    let output = run(command);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{errors}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// How a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    pub by: Compiler,
    pub is_cxx: bool,
    pub library: Library,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// cc and c++.
    System,
    /// perdure-cc and perdure-c++, with these options.
    Tracking(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Shared,
    Static,
    /// libperdure-preload.so.
    Preload,
    /// None at all.
    Alone,
}

impl Built {
    pub const C11: Built = Built {
        by: Compiler::System,
        is_cxx: false,
        library: Library::Shared,
    };
    pub const CXX17: Built = Built {
        is_cxx: true,
        ..Built::C11
    };
    pub const STATIC: Built = Built {
        library: Library::Static,
        ..Built::C11
    };
    pub const ALONE: Built = Built {
        library: Library::Alone,
        ..Built::C11
    };

    /// By perdure-cc.
    pub const fn tracking(options: &'static str) -> Built {
        Built {
            by: Compiler::Tracking(options),
            ..Built::C11
        }
    }
}

pub fn scratch() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// The program of a source, built once.
pub fn build(name: &str, how: Built) -> PathBuf {
    static BUILT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let words = format!("{name} {how:?}").replace(|c: char| !c.is_alphanumeric(), "");
    let program = scratch().join(words);
    if !built.contains(&program) {
        make(name, how, &program);
        built.push(program.clone());
    }
    program
}

/// Builds the program of a source.
pub fn make(name: &str, how: Built, program: &Path) {
    good(&mut command(name, how, program));
}

fn command(name: &str, how: Built, program: &Path) -> Command {
    let mut command = match (how.by, how.is_cxx) {
        (Compiler::System, false) => Command::new("cc"),
        (Compiler::System, true) => Command::new("c++"),
        (Compiler::Tracking(_), is_cxx) => tracking_compiler(is_cxx),
    };
    command.args(match how.is_cxx {
        // Designated initialisers and casts from void * are where the two differ.
        true => &["-std=c++17", "-x", "c++", "-Wno-missing-field-initializers"][..],
        false => &["-std=gnu11", "-x", "c"],
    });
    command.args(["-Wall", "-Wextra", "-Werror", "-g", "-pthread"]);
    match how.by {
        Compiler::System => command.arg("-O1"),
        Compiler::Tracking(options) => command.args(options.split(' ')).args([
            "-Wno-c++20-designator",
            "-Wno-missing-field-initializers",
            "-Wno-unused-command-line-argument",
            "-fperdure-no-runtime",
        ]),
    };
    command
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    command
        .arg(source(name))
        .args(["-x", "none", "-o"])
        .arg(program);
    let libraries = libraries();
    match how.library {
        Library::Static => {
            command.arg(libraries.join("libperdure.a"));
            command.args(["-ldl", "-lm"]);
        }
        Library::Shared => {
            command.arg("-L").arg(&libraries).arg("-lperdure");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Library::Preload => {
            command
                .arg(preload())
                .arg("-L")
                .arg(&libraries)
                .arg("-lperdure");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Library::Alone => {}
    }
    command
}

/// libperdure-preload.so, built as the project's script builds it.
pub fn preload() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let library = scratch().join("libperdure-preload.so");
        let mut command = Command::new("cc");
        command.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2", "-fPIC"]);
        command.args(["-shared", "-pthread", "-I"]);
        command
            .arg(root.join("include"))
            .arg(root.join("../../cpp/preload/preload.c"))
            .arg("-o")
            .arg(&library);
        command.arg("-L").arg(libraries()).arg("-lperdure");
        command.arg(format!("-Wl,-rpath,{}", libraries().display()));
        good(&mut command);
        library
    })
}

/// perdure-cc, or perdure-c++, with the pass of these sources.
pub fn tracking_compiler(is_cxx: bool) -> Command {
    static TOOLS: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    let (folder, pass) = TOOLS.get_or_init(|| (perdure_cc(), pass()));
    let mut command = Command::new(folder.join(match is_cxx {
        true => "perdure-c++",
        false => "perdure-cc",
    }));
    command.env("PERDURE_PASS", pass);
    command
}

/// A folder in which the compilers lie under their names. They are built here, because cargo builds another package's programs for nobody.
fn perdure_cc() -> PathBuf {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "-q", "-p", "perdure-cc", "--bin", "perdure-cc"]);
    cargo.args(["--message-format", "json-render-diagnostics"]);
    let told = good(cargo.current_dir(env!("CARGO_MANIFEST_DIR")));
    let named = told
        .split("\"executable\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .last();
    let built = named.unwrap_or_else(|| panic!("cargo named no program: {told}"));
    for name in ["perdure-cc", "perdure-c++"] {
        std::os::unix::fs::symlink(built, scratch().join(name)).unwrap();
    }
    scratch().into()
}

/// `PERDURE_PASS`, or the pass as its sources are now: one for all test programs, which may run side by side.
fn pass() -> PathBuf {
    if let Some(told) = std::env::var_os("PERDURE_PASS") {
        return told.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let lock = std::fs::File::create(target.join("pass.lock")).unwrap();
    lock.lock().unwrap();
    let mut make = Command::new("make");
    make.args(["-s", "-j2", "-C"])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cpp/pass"))
        .arg(format!("OUT={}", target.display()));
    let made = run(&mut make);
    assert!(
        made.status.success(),
        "the pass does not build (packages clang-19, llvm-19-dev, lld-19): {}",
        String::from_utf8_lossy(&made.stderr)
    );
    target.join("perdure-pass.so")
}
