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
pub enum Built {
    C11,
    Cxx17,
    Static,
    /// Without the library.
    Alone,
}

pub fn scratch() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// The program of a source, built once.
pub fn build(name: &str, how: Built) -> PathBuf {
    static BUILT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let libraries = libraries();
    let program = scratch().join(format!("{name}-{how:?}"));
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if built.contains(&program) {
        return program;
    }
    let mut command = match how {
        Built::Cxx17 => Command::new("c++"),
        _ => Command::new("cc"),
    };
    match how {
        // Designated initialisers and casts from void * are where the two differ.
        Built::Cxx17 => {
            command.args(["-std=c++17", "-x", "c++", "-Wno-missing-field-initializers"])
        }
        _ => command.args(["-std=gnu11", "-x", "c"]),
    };
    command.args(["-Wall", "-Wextra", "-Werror", "-O1", "-g", "-pthread"]);
    command
        .arg("-I")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    command
        .arg(source(name))
        .args(["-x", "none"])
        .arg("-o")
        .arg(&program);
    match how {
        Built::Static => {
            command.arg(libraries.join("libperdure.a"));
            command.args(["-ldl", "-lm"]);
        }
        Built::C11 | Built::Cxx17 => {
            command.arg("-L").arg(&libraries).arg("-lperdure");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        Built::Alone => {}
    }
    good(&mut command);
    built.push(program.clone());
    program
}
