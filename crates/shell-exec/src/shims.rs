//! Shims: links to our own program by the names of commands, in a folder that is first in PATH. By them the stages of shells that nobody edits
//! are found: interactive ones, and scripts that run as they are.
//!
//! The invariant: a shim finds what would have been found without it, and that has never to do with shims.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::annotations;
use crate::program::{self, Found};

/// Commands that shells have themselves: there is no program to stand before.
pub fn is_builtin(name: &str) -> bool {
    const BUILTIN: [&str; 9] = [
        "echo", "printf", "true", "false", "test", "[", "pwd", "kill", "time",
    ];
    BUILTIN.contains(&name)
}

/// Whether a file is our own program, by whatever name.
pub fn is_ours(path: &Path) -> bool {
    let (Ok(one), Ok(own)) = (path.metadata(), Path::new("/proc/self/exe").metadata()) else {
        return false;
    };
    (one.dev(), one.ino()) == (own.dev(), own.ino())
}

/// The folder of the user's shims, whether it is there or not.
///
/// # Errors
/// When the user has no folder for such things.
pub fn folder() -> io::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.filter(|path| path.is_absolute());
    // Not by the list of users, which a program that is linked statically cannot read everywhere.
    let home = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = cache.or_else(home);
    let cache = cache.ok_or_else(|| io::Error::other("there is no home folder (HOME)"))?;
    Ok(cache.join("nearsh/shims"))
}

/// Makes the shims of all commands that have an annotation and are found in `path`, and removes those of others.
///
/// # Errors
/// What could not be made.
pub fn make(path: &OsStr) -> io::Result<PathBuf> {
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    let own = std::env::current_exe()?;
    for name in annotations::names().filter(|name| !is_builtin(name)) {
        let link = folder.join(name);
        let is_there = matches!(
            program::find(name.as_ref(), path, &is_ours),
            Found::Program(_)
        );
        let leads = fs::read_link(&link);
        if !is_there {
            if leads.is_ok() {
                fs::remove_file(&link)?;
            }
        } else if leads.is_ok_and(|target| target == own) {
        } else {
            // At no time is there none: shells that have it in their tables run it now.
            let new = folder.join(format!(".{name}.{}", std::process::id()));
            symlink(&own, &new)?;
            fs::rename(&new, &link)?;
        }
    }
    Ok(folder)
}

/// What a shell is to evaluate so that the folder is first in its PATH.
///
/// # Errors
/// When there is no such shell, its name, or a folder that cannot be in PATH.
pub fn text(shell: &str, folder: &Path) -> Result<String, String> {
    let path = folder.as_os_str().as_bytes();
    let text = std::str::from_utf8(path).ok();
    let text = text.filter(|text| !text.contains([':', '\'', '\\', '\n']));
    let Some(folder) = text else {
        return Err(format!("{}: no shell takes that in PATH", folder.display()));
    };
    match shell {
        "bash" | "zsh" | "sh" | "dash" | "ksh" => Ok(format!(
            "case \":$PATH:\" in\n*':{folder}:'*) ;;\n*) PATH='{folder}':$PATH; export PATH; hash -r ;;\nesac\n"
        )),
        "fish" => Ok(format!(
            "contains -- '{folder}' $PATH; or set -gx PATH '{folder}' $PATH\n"
        )),
        _ => Err(format!("{shell}: not one of bash, zsh, fish, sh")),
    }
}

/// The command that our program is called as, if it is called by a shim.
pub fn called_as(word: &OsStr) -> Option<String> {
    let name = Path::new(word).file_name()?.to_str()?;
    (annotations::has(name) && !is_builtin(name)).then(|| name.to_owned())
}
