//! Building C and C++ programs as anybody would.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;
use testkit::rng::Rng;

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

/// Has programs look for libraries in this folder first of all. Else they would look in the folders of `LD_LIBRARY_PATH` before, in which cargo puts
/// the one where an earlier `cargo build` may have left an old library.
pub fn searched(folder: &Path) -> String {
    format!("-Wl,--disable-new-dtags,-rpath,{}", folder.display())
}

/// Where the library is that ThreadSanitizer instruments.
fn for_tsan() -> PathBuf {
    let folder = std::env::var_os("PERDURE_TSAN");
    folder
        .expect("PERDURE_TSAN names the folder of a libperdure for ThreadSanitizer (./x test --full makes one)")
        .into()
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
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a program, kills it at a random moment, and gives back the last line that it told before that. Every second time it is at work by then: it had
/// told a line.
pub fn run_and_kill(command: &mut Command, rng: &mut Rng) -> Option<String> {
    let spawned = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = spawned.unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    if rng.chance(2) {
        out.read_line(&mut first).unwrap();
    }
    std::thread::sleep(Duration::from_micros(5_000 + rng.below(60_000)));
    child.kill().unwrap();
    let last = out.lines().map_while(Result::ok).last();
    let status = child.wait().unwrap();
    assert_eq!(status.signal(), Some(9), "it ended by itself: {command:?}");
    last.or_else(|| first.strip_suffix('\n').map(String::from))
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
    /// The system's, with these sanitizers; what they find ends the program.
    Sanitizing(&'static str),
    /// The compiler that perdure-cc is, without its pass, with these options.
    Clang(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Shared,
    Static,
    /// libperdure-preload.so.
    Preload,
    /// The one that ThreadSanitizer instruments, in the folder that `PERDURE_TSAN` names.
    ForTsan,
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

    pub const fn sanitizing(which: &'static str) -> Built {
        Built {
            by: Compiler::Sanitizing(which),
            ..Built::C11
        }
    }

    /// By perdure-cc.
    pub const fn tracking(options: &'static str) -> Built {
        Built {
            by: Compiler::Tracking(options),
            ..Built::C11
        }
    }
}

/// A folder for this process' programs. Nobody can remove it when the process ends; the next one does.
pub fn scratch() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        for entry in std::fs::read_dir(target).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let of = name.strip_prefix("programs-");
            if of.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = target.join(format!("programs-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    })
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
        (Compiler::Tracking(_), is_cxx) => tracking_compiler(is_cxx),
        (Compiler::Clang(_), false) => Command::new("clang-19"),
        (Compiler::Clang(_), true) => Command::new("clang++-19"),
        (_, false) => Command::new("cc"),
        (_, true) => Command::new("c++"),
    };
    command.args(match how.is_cxx {
        // Designated initialisers and casts from void * are where the two differ.
        true => &["-std=c++17", "-x", "c++", "-Wno-missing-field-initializers"][..],
        false => &["-std=gnu11", "-x", "c"],
    });
    command.args(["-Wall", "-Wextra", "-Werror", "-g", "-pthread"]);
    match how.by {
        Compiler::System => command.arg("-O1"),
        Compiler::Clang(options) => command
            .args(options.split(' '))
            .arg("-Wno-unused-command-line-argument"),
        Compiler::Sanitizing(which) => {
            command.arg(format!("-fsanitize={which}"));
            command.args(["-O1", "-fno-sanitize-recover=all"])
        }
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
    let libraries = match how.library {
        Library::ForTsan => for_tsan(),
        _ => libraries(),
    };
    match how.library {
        Library::Static => {
            command.arg(libraries.join("libperdure.a"));
            command.args(["-ldl", "-lm"]);
        }
        Library::Shared | Library::ForTsan => {
            command.arg("-L").arg(&libraries).arg("-lperdure");
            command.arg(searched(&libraries));
        }
        Library::Preload => {
            command
                .arg(preload())
                .arg("-L")
                .arg(&libraries)
                .arg("-lperdure");
            command.arg(searched(&libraries));
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
        command.arg(searched(&libraries()));
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
