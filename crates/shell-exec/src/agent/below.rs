//! What is beneath a folder, looked at before a command goes through it that reads whatever it finds there.
//!
//! The invariant: if nothing is said against a folder, every name beneath it leads to something beneath it, or nowhere, on both machines.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;
use shell_plan::plan::is_plain;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// Looks at all that is beneath a folder that is open, or so many folders deep. `plain`: names must be such as nobody takes for several.
///
/// # Errors
/// What is there that may not be, for people.
pub fn look(root: &OwnedFd, plain: bool, depth: Option<u32>) -> Result<(), String> {
    let told = |path: &Path, why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let mut folders = vec![(PathBuf::from("."), 1)];
    while let Some((folder, level)) = folders.pop() {
        if depth.is_some_and(|depth| level > depth) {
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat2(root, &folder, flags, Mode::empty(), BENEATH) {
            Ok(opened) => opened,
            // Who may not look into it, may not there either; what is gone is gone.
            Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR) => continue,
            Err(error) => return Err(told(&folder, &error)),
        };
        let list = Dir::read_from(&opened).map_err(|error| told(&folder, &error))?;
        for entry in list {
            let entry = entry.map_err(|error| told(&folder, &error))?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let path = folder.join(OsStr::from_bytes(name.to_bytes()));
            if plain && !is_plain(name.to_bytes()) {
                return Err(told(&path, &"a name that may be taken for several"));
            }
            let kind = match entry.file_type() {
                FileType::Unknown => match statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            match kind {
                FileType::RegularFile => {}
                FileType::Directory => folders.push((path, level + 1)),
                FileType::Symlink => {
                    let flags = OFlags::PATH | OFlags::CLOEXEC;
                    match openat2(root, &path, flags, Mode::empty(), BENEATH) {
                        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                        Err(_) => return Err(told(&path, &"a link that leads elsewhere")),
                    }
                }
                _ => return Err(told(&path, &"neither file nor folder")),
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// What is said of a folder, its names being any and plain.
    fn said(make: impl FnOnce(&Path)) -> (bool, bool) {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("beside"), "").unwrap();
        let folder = outer.path().join("tree");
        std::fs::create_dir_all(folder.join("a/b")).unwrap();
        std::fs::write(folder.join("a/file"), "").unwrap();
        make(&folder);
        let root = std::fs::File::open(&folder).unwrap().into();
        (
            look(&root, false, None).is_ok(),
            look(&root, true, Some(3)).is_ok(),
        )
    }

    #[test]
    fn what_leads_elsewhere_or_is_no_file_is_found() {
        let link =
            |to: &'static str| move |folder: &Path| symlink(to, folder.join("a/b/link")).unwrap();
        for inside in ["../file", "..", "../nowhere", "link", "../file/x"] {
            assert_eq!(said(link(inside)), (true, true), "{inside}");
        }
        for outside in [
            "/etc/hostname",
            "../../../beside",
            "../../../tree/a/file",
            "../../../x",
        ] {
            assert_eq!(said(link(outside)), (false, false), "{outside}");
        }
        let socket = |folder: &Path| {
            std::os::unix::net::UnixListener::bind(folder.join("a/socket")).unwrap();
        };
        assert_eq!(said(socket), (false, false));
    }

    #[test]
    fn no_more_is_looked_at_than_may_be_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        symlink("/etc", folder.path().join("a/b/link")).unwrap();
        let root = std::fs::File::open(&folder).unwrap().into();
        let found =
            [Some(1), Some(2), Some(3), None].map(|depth| look(&root, false, depth).is_ok());
        assert_eq!(found, [true, true, false, false]);
    }

    #[test]
    fn names_that_may_be_several_are_found() {
        for name in [
            "two words",
            "it's",
            "a\"b",
            "a\\b",
            "new\nline",
            "tab\there",
            "caf\u{e9}",
        ] {
            let make = |folder: &Path| std::fs::write(folder.join(name), "").unwrap();
            assert_eq!(said(make), (true, false), "{name}");
        }
        let make = |folder: &Path| std::fs::write(folder.join("$plain*[x]-=.c"), "").unwrap();
        assert_eq!(said(make), (true, true));
    }
}
