//! Whether two machines have the same command: what each can tell of its own.
//!
//! The invariant: two commands that could give different bytes are never said to be the same. The same file is the same command; of two
//! builds of one version that is taken as well, and only with the same C library where a locale matters.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use crate::wire::Tool;

/// What this machine can tell, kept for the next time.
#[derive(Debug, Default)]
pub struct Tools {
    files: Mutex<HashMap<PathBuf, (Stamp, u64)>>,
    versions: Mutex<HashMap<Asked, (Stamp, u64)>>,
    /// The C library, as `getconf GNU_LIBC_VERSION` has it.
    pub libc: String,
    /// Names of locales, as [`plain`] has them.
    locales: Vec<String>,
}

/// A program and its arguments.
type Asked = (PathBuf, Vec<String>);

/// A file is the same as long as these are.
type Stamp = (u64, u64, i64, i64);

impl Tools {
    /// Asks this machine.
    pub fn of_this_machine() -> Tools {
        let told = |program: &str, argument: &str| {
            let output = Command::new(program)
                .arg(argument)
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .output();
            output.map_or(String::new(), |output| {
                String::from_utf8_lossy(&output.stdout).into_owned()
            })
        };
        Tools {
            libc: told("getconf", "GNU_LIBC_VERSION").trim().into(),
            locales: told("locale", "-a").lines().map(plain).collect(),
            ..Tools::default()
        }
    }

    /// The names of its locales.
    pub fn locales(&self) -> Vec<String> {
        self.locales.clone()
    }

    /// XXH3-64 of a file.
    pub fn file(&self, path: &Path) -> Option<u64> {
        let stamp = stamp(path)?;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        match files.get(path) {
            Some((known, digest)) if *known == stamp => Some(*digest),
            _ => {
                let digest = xxh3_64(&std::fs::read(path).ok()?);
                files.insert(path.into(), (stamp, digest));
                Some(digest)
            }
        }
    }

    /// XXH3-64 of what a command prints with some arguments; none if it fails.
    pub fn version(&self, path: &Path, arguments: &[String]) -> Option<u64> {
        let stamp = stamp(path)?;
        let key = (path.to_path_buf(), arguments.to_vec());
        let known = |versions: &HashMap<_, (Stamp, u64)>| match versions.get(&key) {
            Some((known, digest)) if *known == stamp => Some(*digest),
            _ => None,
        };
        let lock = || self.versions.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = known(&lock());
        if kept.is_some() {
            return kept;
        }
        let output = Command::new(path)
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .output()
            .ok()?;
        if !output.status.success() || output.stdout.is_empty() {
            return None;
        }
        let digest = xxh3_64(&output.stdout);
        lock().insert(key, (stamp, digest));
        Some(digest)
    }

    /// What another machine needs to know to tell whether it has this command.
    pub fn tool(&self, path: &Path, version: Option<&Vec<String>>) -> Option<Tool> {
        let version = version.and_then(|arguments| {
            let digest = self.version(path, arguments)?;
            Some((arguments.clone(), digest))
        });
        Some(Tool {
            file: self.file(path)?,
            libc: self.libc.clone(),
            version,
        })
    }

    /// Whether this machine's command is that one of another machine. `locales`: what [`Tools::needed`] gave there.
    ///
    /// # Errors
    /// What is different, for people.
    pub fn same(&self, path: &Path, other: &Tool, locales: &[String]) -> Result<(), String> {
        // Nothing is run that the other side names: arguments are those of this machine's annotations.
        let command = path.file_name().and_then(|name| name.to_str());
        let own = command.and_then(crate::annotations::of);
        let own = own.and_then(|annotation| annotation.version.as_ref());
        self.is_same(path, other, locales, own)
    }

    fn is_same(
        &self,
        path: &Path,
        other: &Tool,
        locales: &[String],
        own: Option<&Vec<String>>,
    ) -> Result<(), String> {
        let name = path.display();
        let mine = self.file(path).ok_or(format!("{name} cannot be read"))?;
        if mine != other.file {
            let same_version = other
                .version
                .as_ref()
                .filter(|(arguments, _)| own == Some(arguments))
                .is_some_and(|(arguments, digest)| self.version(path, arguments) == Some(*digest));
            if !same_version {
                return Err(format!("{name} is another version there"));
            }
        }
        if !locales.is_empty() && (self.libc != other.libc || self.libc.is_empty()) {
            return Err(format!(
                "the C libraries differ ({} and {}), and locales with them",
                other.libc, self.libc
            ));
        }
        if self.needed(locales.iter().map(|l| l.trim_start_matches('!'))) != locales {
            return Err(format!("not the same locales: {}", locales.join(", ")));
        }
        Ok(())
    }

    /// The locales of these names that must be the same elsewhere; a `!` is before those that this machine has not, which
    /// programs take for "C".
    pub fn needed<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut needed: Vec<String> = names
            .filter(|name| !matches!(*name, "" | "C" | "POSIX"))
            .map(|name| {
                if self.locales.contains(&plain(name)) {
                    name.to_owned()
                } else {
                    format!("!{name}")
                }
            })
            .collect();
        needed.sort();
        needed.dedup();
        needed
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = path.metadata().ok()?;
    Some((meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// A locale's name with its character set as the C library compares it: `de_DE.UTF-8` is `de_DE.utf8`.
pub fn plain(name: &str) -> String {
    match name.split_once('.') {
        None => name.to_owned(),
        Some((language, set)) => {
            let (set, at) = set.split_once('@').map_or((set, ""), |(set, at)| (set, at));
            let letters = set.chars().filter(char::is_ascii_alphanumeric);
            let set: String = letters.map(|c| c.to_ascii_lowercase()).collect();
            let at = if at.is_empty() {
                String::new()
            } else {
                format!("@{at}")
            };
            format!("{language}.{set}{at}")
        }
    }
}

/// The values that an environment gives to categories of the locale (POSIX, 8.2): those of `categories` alone.
pub fn locales<'a>(
    categories: &'a [String],
    environment: &'a [(OsString, OsString)],
) -> impl Iterator<Item = String> + 'a {
    let value = |name: &str| {
        let found = environment.iter().find(|(known, _)| known == name);
        found
            .map(|(_, value)| value.to_string_lossy().into_owned())
            .filter(|value| !value.is_empty())
    };
    categories.iter().map(move |category| {
        value("LC_ALL")
            .or_else(|| value(category))
            .or_else(|| value("LANG"))
            .unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(libc: &str, locales: &[&str]) -> Tools {
        Tools {
            libc: libc.into(),
            locales: locales.iter().map(|name| plain(name)).collect(),
            ..Tools::default()
        }
    }

    #[test]
    fn the_same_file_is_the_same_command_and_other_builds_need_the_same_words() {
        let folder = tempfile::tempdir().unwrap();
        let program = |name: &str, says: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = folder.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n# {name}\necho {says}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let (one, other, older) = (program("a", "v1"), program("b", "v1"), program("c", "v0"));
        let here = machine("glibc 2.36", &["C.utf8", "de_DE.UTF-8"]);
        let version = vec!["--version".to_owned()];
        let tool = here.tool(&one, Some(&version)).unwrap();
        assert_eq!(here.is_same(&one, &tool, &[], Some(&version)), Ok(()));
        assert_eq!(here.is_same(&other, &tool, &[], Some(&version)), Ok(()));
        assert!(here.is_same(&older, &tool, &[], Some(&version)).is_err());
        let nameless = here.tool(&one, None).unwrap();
        assert!(
            here.is_same(&other, &nameless, &[], Some(&version))
                .is_err()
        );
        let needed = here.needed(["de_DE.utf8", "C", "xx_XX"].into_iter());
        assert_eq!(needed, ["!xx_XX", "de_DE.utf8"]);
        assert_eq!(here.is_same(&one, &tool, &needed, Some(&version)), Ok(()));
        let newer = machine("glibc 2.41", &["C.utf8", "de_DE.UTF-8"]);
        assert_eq!(newer.is_same(&one, &tool, &[], Some(&version)), Ok(()));
        assert!(newer.is_same(&one, &tool, &needed, Some(&version)).is_err());
        let poorer = machine("glibc 2.36", &["C.utf8"]);
        assert!(
            poorer
                .is_same(&one, &tool, &needed, Some(&version))
                .is_err()
        );
    }

    #[test]
    fn categories_have_the_values_that_posix_gives_them() {
        let categories = ["LC_COLLATE".to_owned(), "LC_CTYPE".to_owned()];
        let values = |pairs: &[(&str, &str)]| {
            let pairs: Vec<(OsString, OsString)> = (pairs.iter())
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect();
            locales(&categories, &pairs).collect::<Vec<_>>()
        };
        assert_eq!(values(&[]), ["", ""]);
        assert_eq!(values(&[("LANG", "a"), ("LC_CTYPE", "b")]), ["a", "b"]);
        assert_eq!(values(&[("LC_ALL", "c"), ("LC_CTYPE", "b")]), ["c", "c"]);
        assert_eq!(values(&[("LC_ALL", ""), ("LC_CTYPE", "b")]), ["", "b"]);
    }
}
