//! A script and the shell that runs it.
//!
//! The invariant: the shell gets the script as it is, unless all that could tell the difference is known: then it gets the same
//! text with helpers in it, under the same name and with the same arguments.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use shell_plan::script::{Doubt, Helper, Language, Origin, edit};

use crate::annotations;
use crate::program::{self, Found};
use crate::shims;
use crate::stage::is_plain;

/// What the shell is asked to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Script {
    /// A file, by the name that was given.
    File(OsString),
    /// Text, as behind `-c`.
    Text(OsString),
    /// Standard input.
    Input,
}

/// A call of a shell: `bash OPTIONS SCRIPT ARGUMENTS`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// The shell's options, with their arguments.
    pub options: Vec<OsString>,
    /// What it runs.
    pub script: Script,
    /// The words behind that.
    pub arguments: Vec<OsString>,
}

/// Why a call could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LacksArgument(pub OsString);

impl Call {
    /// Reads the words behind the shell's name as bash does (bash(1), OPTIONS).
    ///
    /// # Errors
    /// An option at the end that needs an argument.
    pub fn read(words: &[OsString]) -> Result<Call, LacksArgument> {
        let mut options = Vec::new();
        let (mut is_text, mut is_input) = (false, false);
        let mut rest = words.iter();
        let mut first = None;
        while let Some(word) = rest.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" || bytes == b"-" {
                first = rest.next();
                break;
            }
            let is_long = bytes.starts_with(b"--");
            if !is_long && (bytes.len() < 2 || !matches!(bytes[0], b'-' | b'+')) {
                first = Some(word);
                break;
            }
            options.push(word.clone());
            let takes = match bytes {
                b"--rcfile" | b"--init-file" => 1,
                _ if is_long => 0,
                _ => bytes.iter().filter(|&&b| b == b'o' || b == b'O').count(),
            };
            for _ in 0..takes {
                match rest.next() {
                    Some(argument) => options.push(argument.clone()),
                    None => return Err(LacksArgument(word.clone())),
                }
            }
            if !is_long {
                is_text |= bytes[0] == b'-' && bytes.contains(&b'c');
                is_input |= bytes[0] == b'-' && bytes.contains(&b's');
            }
        }
        let (script, first) = match first {
            Some(text) if is_text => (Script::Text(text.clone()), None),
            None if is_text => return Err(LacksArgument("-c".into())),
            first if is_input => (Script::Input, first),
            Some(name) => (Script::File(name.clone()), None),
            None => (Script::Input, None),
        };
        Ok(Call {
            options,
            script,
            arguments: first.into_iter().chain(rest).cloned().collect(),
        })
    }

    /// Whether the options leave it plain how commands are read and reported.
    fn has_plain_options(&self) -> bool {
        let mut rest = self.options.iter();
        while let Some(word) = rest.next() {
            let Some((sign, letters)) = word.to_str().and_then(|w| w.split_at_checked(1)) else {
                return false;
            };
            let is_fatal = letters.contains('u') && matches!(self.script, Script::File(_));
            let known = letters.chars().all(|c| "eufCabhBcso".contains(c));
            if !known || is_fatal || !"+-".contains(sign) {
                return false;
            }
            for _ in letters.matches('o') {
                let known = [
                    "errexit",
                    "nounset",
                    "pipefail",
                    "noglob",
                    "noclobber",
                    "allexport",
                ];
                if !rest
                    .next()
                    .is_some_and(|name| known.iter().any(|k| name == k))
                {
                    return false;
                }
            }
        }
        true
    }
}

/// What of a script may be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Editing<'a> {
    /// Nothing.
    Never,
    /// This program is put before commands that have annotations.
    Helper(&'a Path),
}

/// Words for a shell, and whether the script was edited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Prepared {
    /// All words behind the shell's name.
    pub words: Vec<OsString>,
    /// Why the script is as it was; none if helpers are in it, or could be.
    pub doubt: Option<Doubt>,
}

/// What to give a shell so that it runs `call`, which was read from `words`.
pub fn prepare(
    call: &Call,
    words: &[OsString],
    language: Language,
    editing: Editing<'_>,
    environment: &[(OsString, OsString)],
) -> Prepared {
    let as_it_is = |doubt| Prepared {
        words: words.to_vec(),
        doubt,
    };
    let Editing::Helper(helper) = editing else {
        return as_it_is(None);
    };
    let has = |name: &str| environment.iter().any(|(known, _)| known == name);
    // Read before the script, or instead of what it says.
    for name in [
        "BASH_ENV",
        "POSIXLY_CORRECT",
        "SHELLOPTS",
        "BASHOPTS",
        "BASH_COMPAT",
    ] {
        if has(name) {
            return as_it_is(Some(Doubt::Defines(format!("{name} in the environment"))));
        }
    }
    if !call.has_plain_options() || !is_plain(helper) {
        return as_it_is(Some(Doubt::Reads("options of the shell".into())));
    }
    let path = environment.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(""), |(_, value)| value);
    let (text, name) = match &call.script {
        Script::Text(text) => (text.as_bytes().to_vec(), None),
        Script::File(name) => match read(name, path) {
            Some(text) => (text, Some(name)),
            // The shell says why.
            None => return as_it_is(None),
        },
        // Its commands may read what follows them.
        Script::Input => return as_it_is(Some(Doubt::Reads("standard input".into()))),
    };
    let exported = |name: &str| {
        let function = format!("BASH_FUNC_{name}%%");
        environment.iter().any(|(known, _)| *known == *function)
    };
    let wanted = |name: &str| {
        let is_program = || {
            matches!(
                program::find(name.as_ref(), path, &|_| false),
                Found::Program(_)
            )
        };
        annotations::has(name) && !shims::is_builtin(name) && !exported(name) && is_program()
    };
    let word = helper.to_string_lossy();
    let helper = Helper {
        word: &word,
        session: std::process::id(),
    };
    let origin = if name.is_some() {
        Origin::File
    } else {
        Origin::Text
    };
    match edit(&text, language, origin, helper, &wanted) {
        Err(doubt) => as_it_is(Some(doubt)),
        Ok(edited) if edited.sites.is_empty() => as_it_is(None),
        Ok(edited) => {
            let mut text = edited.text;
            let mut words = call.options.clone();
            if let Some(name) = name {
                words.push("-c".into());
                // The shell would become the last command itself, and what kills that would kill it.
                if !text.ends_with(b"\n") {
                    text.push(b'\n');
                }
                text.extend_from_slice(b"exit $?\n");
                words.extend([OsString::from_vec(text), name.clone()]);
            } else {
                words.push(OsString::from_vec(text));
            }
            words.extend(call.arguments.iter().cloned());
            Prepared { words, doubt: None }
        }
    }
}

/// The text of a script file, found as bash finds it: here, or else in the folders of PATH.
fn read(name: &OsStr, path: &OsStr) -> Option<Vec<u8>> {
    let read = |path: &Path| {
        let mut file = File::open(path).ok()?;
        if !file.metadata().ok()?.is_file() {
            return None;
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text).ok()?;
        Some(text)
    };
    if let Some(text) = read(Path::new(name)) {
        return Some(text);
    }
    if name.as_bytes().contains(&b'/') || Path::new(name).exists() {
        return None;
    }
    let mut folders = path.as_bytes().split(|&byte| byte == b':');
    let found = folders.find_map(|folder| {
        let path: PathBuf = Path::new(OsStr::from_bytes(folder)).join(name);
        path.is_file().then_some(path)
    });
    read(&found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ')
            .filter(|w| !w.is_empty())
            .map(OsString::from)
            .collect()
    }

    #[test]
    fn calls_are_read_as_bash_reads_them() {
        let read = |text: &str| {
            let call = Call::read(&words(text)).unwrap();
            (call.options, call.script, call.arguments)
        };
        let file = |name: &str| Script::File(name.into());
        assert_eq!(read("a.sh x y"), (words(""), file("a.sh"), words("x y")));
        assert_eq!(
            read("-eu -o pipefail a.sh -x"),
            (words("-eu -o pipefail"), file("a.sh"), words("-x"))
        );
        assert_eq!(
            read("-c text name x"),
            (words("-c"), Script::Text("text".into()), words("name x"))
        );
        assert_eq!(
            read("-c -e text"),
            (words("-c -e"), Script::Text("text".into()), words(""))
        );
        assert_eq!(read("-s x"), (words("-s"), Script::Input, words("x")));
        assert_eq!(read("-- -x y"), (words(""), file("-x"), words("y")));
        assert_eq!(read(""), (words(""), Script::Input, words("")));
        assert_eq!(Call::read(&words("-c")), Err(LacksArgument("-c".into())));
        assert_eq!(Call::read(&words("-o")), Err(LacksArgument("-o".into())));
    }

    #[test]
    fn what_could_tell_the_difference_runs_as_it_is() {
        let path = std::env::var_os("PATH").unwrap();
        let prepared = |text: &str, options: &str, more: &[(&str, &str)]| {
            let mut call = words(options);
            call.extend(["-c".into(), text.into()]);
            let read = Call::read(&call).unwrap();
            let mut environment = vec![("PATH".into(), path.clone())];
            environment.extend(more.iter().map(|(n, v)| ((*n).into(), (*v).into())));
            let helper = Editing::Helper(Path::new("/h"));
            let prepared = prepare(&read, &call, Language::Bash, helper, &environment);
            (prepared.words != call, prepared.doubt.is_some())
        };
        assert_eq!(prepared("sort x", "", &[]), (true, false));
        assert_eq!(prepared("sort x", "-e -o pipefail", &[]), (true, false));
        assert_eq!(prepared("no-such-command x", "", &[]), (false, false));
        assert_eq!(prepared("sort x; eval y", "", &[]), (false, true));
        assert_eq!(prepared("sort() { :; }; sort x", "", &[]), (false, false));
        assert_eq!(prepared("sort x", "-x", &[]), (false, true));
        assert_eq!(prepared("sort x", "", &[("BASH_ENV", "f")]), (false, true));
        assert_eq!(
            prepared("sort x", "", &[("BASH_FUNC_sort%%", "() { :; }")]),
            (false, false)
        );
    }
}
