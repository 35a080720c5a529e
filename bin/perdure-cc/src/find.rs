//! Where clang, the pass and libperdure are.

use crate::arguments::Arguments;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub struct Tools {
    pub clang: PathBuf,
    pub pass: PathBuf,
    /// What the C++ library has compiled of strings and nodes, instrumented; if it lies beside the pass.
    pub cxx: Option<PathBuf>,
    /// The folder that libperdure lies in.
    pub library: Option<PathBuf>,
    /// The folder that perdure.h lies in, if it is installed with this program.
    pub headers: Option<PathBuf>,
}

/// # Errors
/// When clang or the pass is nowhere: what was looked for, where, and what to install.
pub fn tools(arguments: &Arguments) -> Result<Tools> {
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let here = program.parent().unwrap_or(Path::new("/"));
    let pass = pass(here)?;
    Ok(Tools {
        clang: clang()?,
        cxx: Some(pass.with_file_name(CXX)).filter(|path| path.is_file()),
        pass,
        library: if arguments.no_runtime {
            None
        } else {
            library(here)
        },
        headers: Some(here.join("../include"))
            .filter(|folder| folder.join("perdure.h").is_file())
            .and_then(|folder| folder.canonicalize().ok()),
    })
}

fn clang() -> Result<PathBuf> {
    if let Some(told) = std::env::var_os("PERDURE_CLANG") {
        let told = PathBuf::from(told);
        if told.is_file() {
            return Ok(told);
        }
        bail!(
            "no clang at {}, where $PERDURE_CLANG says it is",
            told.display()
        );
    }
    std::env::var_os("PATH")
        .iter()
        .flat_map(std::env::split_paths)
        .map(|folder| folder.join("clang-19"))
        .chain(["/usr/lib/llvm-19/bin/clang".into()])
        .find(|path| path.is_file())
        .context(
            "no clang-19 in $PATH or /usr/lib/llvm-19/bin; install the package clang-19, \
             or set PERDURE_CLANG to a clang of version 19",
        )
}

const PASS: &str = "perdure-pass.so";
const CXX: &str = "libperdure-c++.a";

fn pass(here: &Path) -> Result<PathBuf> {
    if let Some(told) = std::env::var_os("PERDURE_PASS") {
        let told = PathBuf::from(told);
        if told.is_file() {
            // clang may be run in another folder by whoever reads its -###.
            return std::path::absolute(&told).context("cannot tell the current folder");
        }
        bail!(
            "no pass at {}, where $PERDURE_PASS says it is",
            told.display()
        );
    }
    // Installed; or in the folder that cargo builds in.
    let places = [
        here.join("../lib/perdure"),
        here.to_owned(),
        here.join(".."),
    ];
    places
        .iter()
        .map(|folder| folder.join(PASS))
        .find(|path| path.is_file())
        .with_context(|| {
            format!(
                "no {PASS} in {}, {} or {}; build it with \"make -C cpp/pass\" (packages clang-19 and llvm-19-dev) and set \
                 PERDURE_PASS to it",
                places[0].display(),
                places[1].display(),
                places[2].display()
            )
        })
}

fn library(here: &Path) -> Option<PathBuf> {
    let holds = |folder: &PathBuf| {
        ["libperdure.so", "libperdure.a"]
            .iter()
            .any(|name| folder.join(name).is_file())
    };
    if let Some(told) = std::env::var_os("PERDURE_LIB") {
        return Some(PathBuf::from(told)).filter(holds);
    }
    [
        here.join("../lib"),
        here.join("../lib/perdure"),
        here.to_owned(),
    ]
    .into_iter()
    .find(holds)
    .and_then(|folder| folder.canonicalize().ok())
}
