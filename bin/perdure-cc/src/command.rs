//! The words that clang is run with.
//!
//! The pass runs where objects are made. With link-time optimization objects are not code yet, so it runs when the program is
//! linked, in lld, once for all of it: also what came from elsewhere as bitcode is instrumented then.

use crate::arguments::{Arguments, Lto};
use crate::find::Tools;
use anyhow::{Result, bail};
use std::ffi::OsString;
use std::path::Path;

pub struct Plan {
    pub words: Vec<OsString>,
    pub environment: Vec<(&'static str, OsString)>,
    pub links: bool,
}

/// # Errors
/// When link-time optimization is asked for with a linker that cannot load the pass.
pub fn plan(
    arguments: &Arguments,
    tools: &Tools,
    is_cxx: bool,
    stats: Option<&Path>,
) -> Result<Plan> {
    let mut words: Vec<OsString> = Vec::new();
    let mut environment = Vec::new();
    if is_cxx {
        words.push("--driver-mode=g++".into());
    }
    let uses_lld = match &arguments.linker {
        Some(linker) => Path::new(linker)
            .file_name()
            .is_some_and(|n| n.to_string_lossy().contains("lld")),
        None => arguments.lto != Lto::None,
    };
    // Options of a step that does not happen here are no mistake of the user's.
    words.push("--start-no-unused-arguments".into());
    words.push(joined("-fpass-plugin=", &tools.pass));
    // A second time, and early: so that clang knows the options of the pass when it reads them.
    words.extend([
        "-Xclang".into(),
        "-load".into(),
        "-Xclang".into(),
        tools.pass.clone().into(),
    ]);
    let mut option = |text: OsString| words.extend(["-mllvm".into(), text]);
    if arguments.verifies() {
        option("-perdure-verify".into());
    }
    if !arguments.ignore.is_empty() {
        option(format!("-perdure-ignore={}", arguments.ignore).into());
    }
    if arguments.lto != Lto::None {
        option("-perdure-at-link-time".into());
    } else if let Some(file) = stats {
        option(joined("-perdure-stats=", file));
    }
    if arguments.lto != Lto::None && !uses_lld {
        bail!(
            "-flto with -fuse-ld={}: only lld loads the pass; leave -fuse-ld out, or use -fuse-ld=lld (package lld-19)",
            arguments.linker.as_deref().unwrap_or_default()
        );
    }
    if arguments.lto != Lto::None && arguments.linker.is_none() {
        words.push("-fuse-ld=lld".into());
    }
    if uses_lld && arguments.links() {
        words.push(joined("-Wl,--load-pass-plugin=", &tools.pass));
        if arguments.lto == Lto::Thin && arguments.is_o0 {
            // Without optimization, lld runs no passes over modules at all.
            words.push("-Wl,--lto-O1".into());
        }
        // lld reads its options before it loads a plugin; what else it must know is noted in the bitcode.
        if let Some(file) = stats {
            environment.push(("PERDURE_PASS_STATS", file.into()));
        }
    }
    if let Some(folder) = &tools.headers {
        // Behind all others, so that no program's own header is hidden.
        words.extend(["-idirafter".into(), folder.into()]);
    }
    words.push("--end-no-unused-arguments".into());
    words.extend(arguments.words.iter().cloned());
    let links = arguments.links() && !arguments.is_bare;
    if let (true, true, Some(archive)) = (links, is_cxx, &tools.cxx) {
        // Before the C++ library, which clang names last.
        words.push(archive.into());
    }
    if let (true, Some(folder)) = (links, &tools.library) {
        words.extend([
            joined("-L", folder),
            "-lperdure".into(),
            joined("-Wl,-rpath,", folder),
        ]);
    }
    Ok(Plan {
        words,
        environment,
        links,
    })
}

fn joined(option: &str, path: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(path);
    word
}
