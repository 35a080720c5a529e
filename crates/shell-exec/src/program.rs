//! A command's program: found as a shell finds it, and run in place of this process.

use std::convert::Infallible;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;

/// What a shell finds under a command's name (POSIX, Command Search and Execution).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// A file that can be executed.
    Program(PathBuf),
    /// A file that cannot.
    NoProgram(PathBuf),
    /// Nothing.
    Nothing,
}

/// Looks for a command in the folders of `path`, passing over what `is_ours` says is no program but a way to us.
pub fn find(name: &OsStr, path: &OsStr, is_ours: &dyn Fn(&Path) -> bool) -> Found {
    let executable = |path: &Path| {
        let meta = path.metadata().ok()?;
        let is_there = !meta.is_dir() && !is_ours(path);
        is_there.then(|| meta.permissions().mode() & 0o111 != 0 && may_execute(path))
    };
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            Some(true) => Found::Program(path),
            Some(false) => Found::NoProgram(path),
            None => Found::Nothing,
        };
    }
    let mut other = Found::Nothing;
    for folder in path.as_bytes().split(|&byte| byte == b':') {
        // An empty one is the folder that this process is in, and a name found there has no folder before it.
        let folder = if folder.is_empty() { b"." } else { folder };
        let path = Path::new(OsStr::from_bytes(folder)).join(name);
        match executable(&path) {
            Some(true) => return Found::Program(path),
            Some(false) if other == Found::Nothing => other = Found::NoProgram(path),
            _ => {}
        }
    }
    other
}

fn may_execute(path: &Path) -> bool {
    let effective = nix::fcntl::AtFlags::AT_EACCESS;
    nix::unistd::faccessat(
        nix::fcntl::AT_FDCWD,
        path,
        nix::unistd::AccessFlags::X_OK,
        effective,
    )
    .is_ok()
}

/// Runs a program in place of this process: same number, same descriptors, signals, limits and folder.
///
/// # Errors
/// Why the kernel would not.
pub fn execute(
    program: &Path,
    words: &[OsString],
    environment: &[(OsString, OsString)],
) -> Result<Infallible, Errno> {
    let text = |bytes: Vec<u8>| CString::new(bytes).map_err(|_| Errno::EINVAL);
    let program = text(program.as_os_str().as_bytes().to_vec())?;
    let words = words.iter().map(|word| text(word.as_bytes().to_vec()));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let environment = environment.iter().map(|(name, value)| {
        let mut pair = name.clone().into_vec();
        pair.push(b'=');
        pair.extend_from_slice(value.as_bytes());
        text(pair)
    });
    let environment = environment.collect::<Result<Vec<_>, _>>()?;
    nix::unistd::execve(&program, &words, &environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn commands_are_found_as_shells_find_them() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        make("a/tool", 0o644);
        let second = make("b/tool", 0o755);
        fs::create_dir(folder.path().join("a/other")).unwrap();
        let plain = make("a/plain", 0o644);
        let path = format!("/nowhere:{0}/a:{0}/b", folder.path().display());
        let found = |name: &str| find(name.as_ref(), path.as_ref(), &|_| false);
        assert_eq!(found("tool"), Found::Program(second.clone()));
        assert_eq!(found("plain"), Found::NoProgram(plain.clone()));
        assert_eq!(found("other"), Found::Nothing);
        assert_eq!(found("absent"), Found::Nothing);
        assert_eq!(
            found(second.to_str().unwrap()),
            Found::Program(second.clone())
        );
        let passed_over = |path: &Path| path == second;
        assert_eq!(
            find("tool".as_ref(), path.as_ref(), &passed_over),
            Found::NoProgram(folder.path().join("a/tool"))
        );
    }
}
