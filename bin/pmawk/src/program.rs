//! The program's text from the command line: which files, found where.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use awk_syntax::Sources;

use crate::args::Part;

/// Where programs are looked for if AWKPATH does not say.
const DEFAULT_PATH: &str = ".:/usr/local/share/awk:/usr/share/awk";

/// The folders of AWKPATH; an empty one is the current folder.
pub fn search_path() -> Vec<PathBuf> {
    let text = std::env::var_os("AWKPATH").filter(|text| !text.is_empty());
    let text = text.unwrap_or_else(|| DEFAULT_PATH.into());
    let folders = text.as_bytes().split(|b| *b == b':');
    folders
        .map(|folder| match folder {
            b"" => PathBuf::from("."),
            folder => PathBuf::from(OsStr::from_bytes(folder)),
        })
        .collect()
}

/// The environment for ENVIRON: the process's own, and AWKPATH if it is not there (gawk manual, "The AWKPATH Environment
/// Variable").
pub fn environment() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut variables: Vec<(Vec<u8>, Vec<u8>)> = std::env::vars_os()
        .map(|(name, text)| (name.into_vec(), text.into_vec()))
        .collect();
    for (name, text) in [("AWKPATH", DEFAULT_PATH), ("AWKLIBPATH", "")] {
        if !variables.iter().any(|(known, _)| known == name.as_bytes()) {
            variables.push((name.into(), text.into()));
        }
    }
    variables
}

/// All parts as sources, and the names of the files that are to be included.
pub fn read(parts: &[Part], path: &[PathBuf]) -> Result<(Sources, Vec<String>)> {
    let mut sources = Sources::default();
    let mut includes = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => {
                sources.add("cmd. line", text.clone());
            }
            Part::Include(file) => {
                let name = file.to_string_lossy().into_owned();
                let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
                sources.add_option("option -i", format!("@include \"{quoted}\"\n"));
                includes.push(name);
            }
            Part::File(file) => {
                let (name, text) = read_file(file, path)?;
                sources.add(name, text);
            }
        }
    }
    Ok((sources, includes))
}

fn read_file(file: &OsString, path: &[PathBuf]) -> Result<(String, Vec<u8>)> {
    let shown = file.to_string_lossy().into_owned();
    let mut text = Vec::new();
    if shown == "-" || shown == "/dev/stdin" {
        std::io::stdin()
            .read_to_end(&mut text)
            .map_err(|error| unreadable("the program from standard input", &error))?;
        return Ok((shown, text));
    }
    let Some(place) = awk::find_source(&shown, path) else {
        let reason = awk::why_not_found(&shown, path);
        anyhow::bail!("cannot read program file {shown:?}: {reason}");
    };
    let name = if shown.contains('/') && Path::new(file).exists() {
        shown.clone()
    } else {
        let place = place.strip_prefix("./").unwrap_or(&place);
        place.display().to_string()
    };
    text = std::fs::read(&place)
        .map_err(|error| unreadable(&format!("program file {shown:?}"), &error))?;
    Ok((name, text))
}

fn unreadable(what: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot read {what}: {}", awk::system_reason(error))
}

/// A file for something about the program; `-` is standard output.
pub fn create(file: &OsStr) -> Result<Box<dyn Write>> {
    if file == "-" || file == "/dev/stdout" {
        let stdout = std::io::stdout();
        let copy = stdout
            .as_fd()
            .try_clone_to_owned()
            .context("standard output")?;
        return Ok(Box::new(File::from(copy)));
    }
    match File::create(file) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(anyhow::anyhow!(
            "cannot write {file:?}: {}",
            awk::system_reason(&error)
        )),
    }
}

/// Where the debugger's commands come from, and where it answers.
pub fn debugger(commands: Option<&OsStr>) -> Result<(Box<dyn BufRead>, Box<dyn Write>)> {
    let input: Box<dyn BufRead> = match commands {
        Some(file) => {
            let file =
                File::open(file).map_err(|error| unreadable(&format!("{file:?}"), &error))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(BufReader::new(std::io::stdin())),
    };
    Ok((input, Box::new(std::io::stdout())))
}

/// Writes to standard output.
pub fn show(text: &str) -> Result<()> {
    write(OsStr::new("-"), text.as_bytes())
}

/// Writes such a file.
pub fn write(file: &OsStr, bytes: &[u8]) -> Result<()> {
    create(file)?
        .write_all(bytes)
        .map_err(|error| anyhow::anyhow!("cannot write {file:?}: {}", awk::system_reason(&error)))
}
