//! Commands inside the command of a stage: `nice grep x f`, `find -exec`, `xargs`.
//!
//! The invariant: what is asked of a stage's command (is it the same elsewhere, does its environment change what it does) is asked of each command
//! inside it, with the environment that this one will have.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::sys::resource::{Resource, getrlimit};
use shell_plan::annotation::{Annotation, Given};
use shell_plan::nest::{Command, Environment, Nest, nest};
use shell_plan::plan::matters;

use super::place::Stage;
use crate::annotations;
use crate::program::{self, Found};
use crate::shims;
use crate::tools;
use crate::wire::{NearRun, Stdio};

impl Stage<'_> {
    /// Values of locale variables that count for any of the commands, and those that the first one runs.
    ///
    /// # Errors
    /// Why one of them has to run here, for people.
    pub(super) fn inside(
        &self,
        nest: &Nest<'_>,
        stdio: &[Stdio; 2],
    ) -> Result<(Vec<String>, Vec<NearRun>), String> {
        let (mut locales, mut runs) = (Vec::new(), Vec::new());
        for (number, command) in nest.commands.iter().enumerate() {
            let name = self.words[command.word].to_str().unwrap_or_default();
            check_environment(name, command.annotation, &command.environment)?;
            let environment = texts(&command.environment);
            locales.extend(tools::locales(&command.annotation.locale, &environment));
            if command.annotation.is("nohup") && meets_terminal(stdio) {
                return Err("it does something else at a terminal".into());
            }
            if number > 0 {
                runs.push(self.run(command)?);
            }
        }
        if nest.call.given != Given::Nothing && !has_room(self.environment) {
            return Err("how many names it gives to a command depends on its surroundings".into());
        }
        Ok((locales, runs))
    }

    /// What the call means, with all that it runs, and its words.
    pub(super) fn nest(&self) -> Result<(Nest<'static>, Vec<Vec<u8>>), String> {
        let words: Vec<Vec<u8>> = (self.words.iter())
            .map(|word| word.as_bytes().to_vec())
            .collect();
        let bytes = |text: &OsString| text.as_bytes().to_vec();
        let environment = self.environment.iter();
        let environment = environment.map(|(name, value)| (bytes(name), bytes(value)));
        let nest = nest(&annotations::of, &words, &environment.collect())?;
        Ok((nest, words))
    }

    /// The words with which it is called elsewhere: what takes the time zone out of the environment is given that of this machine. `zone`: as in TZ.
    pub fn far_words(&self, zone: Option<&str>) -> Vec<Vec<u8>> {
        let Ok((nest, mut words)) = self.nest() else {
            return self
                .words
                .iter()
                .map(|word| word.as_bytes().to_vec())
                .collect();
        };
        let mut places = nest.zones;
        places.sort_unstable();
        if let Some(zone) = zone {
            for &at in places.iter().rev() {
                words.insert(at, format!("TZ={zone}").into_bytes());
            }
        }
        words
    }

    /// A command that it runs.
    fn run(&self, command: &Command<'_>) -> Result<NearRun, String> {
        let name = &self.words[command.word];
        let mut environment = command.environment.iter();
        let path = environment.find(|(name, _)| name == b"PATH");
        // As execvp(3) does without one.
        let path = path.map_or(&b"/bin:/usr/bin"[..], |(_, path)| path);
        if !path
            .split(|&byte| byte == b':')
            .all(|folder| folder.starts_with(b"/"))
        {
            return Err("PATH names a folder that is not the same everywhere".into());
        }
        match program::find(name, OsStr::from_bytes(path), &shims::is_ours) {
            Found::Program(found) => Ok(NearRun {
                name: name.as_bytes().to_vec(),
                path: path.to_vec(),
                program: found.into_os_string().into_encoded_bytes(),
                version: command.annotation.version.clone(),
            }),
            _ => Err(format!("there is no {} here", name.display())),
        }
    }
}

/// Whether nothing in an environment, or in its home folder, changes what a command does.
fn check_environment(
    name: &str,
    annotation: &Annotation,
    environment: &Environment,
) -> Result<(), String> {
    let value = |name: &str| {
        let found = environment
            .iter()
            .find(|(known, _)| known == name.as_bytes());
        found.map(|(_, value)| OsStr::from_bytes(value))
    };
    let set = |name: &&&str| value(name).is_some();
    if let Some(variable) = matters(name).iter().find(set) {
        return Err(format!("{variable} is set, which may name files"));
    }
    let home = value("HOME").map(Path::new);
    let has = |file: &&String| home.is_some_and(|home| home.join(file).exists());
    match annotation.settings.iter().find(has) {
        Some(file) => Err(format!("~/{file} may change what it does")),
        None => Ok(()),
    }
}

/// Whether one of the descriptors 0 to 2 is a terminal.
fn meets_terminal(stdio: &[Stdio; 2]) -> bool {
    stdio.contains(&Stdio::Terminal) || rustix::termios::isatty(rustix::stdio::stderr())
}

fn texts(environment: &Environment) -> Vec<(OsString, OsString)> {
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    let pairs = environment.iter();
    pairs
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

/// How long an environment may be, and how large a stack must at least be, so that the same number of names goes with a command on every machine: as many as
/// 128 KiB hold (findutils; Linux gives arguments and environment a quarter of the stack).
const ENVIRONMENT: usize = 256 << 10;
const STACK: u64 = 4 << 20;

fn has_room(environment: &[(OsString, OsString)]) -> bool {
    let size: usize = (environment.iter())
        .map(|(name, value)| name.len() + value.len() + 10)
        .sum();
    let stack = getrlimit(Resource::RLIMIT_STACK);
    size <= ENVIRONMENT && stack.is_ok_and(|(soft, _)| soft >= STACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage<'a>(words: &'a [OsString], environment: &'a [(OsString, OsString)]) -> Stage<'a> {
        Stage {
            words,
            environment,
            folder: Path::new("/"),
            mounts: &[],
            waited: std::cell::Cell::default(),
        }
    }

    #[test]
    fn the_time_zone_is_given_back_to_who_has_lost_it() {
        for (call, far) in [
            ("env -i ls -l", "env -i TZ=Zone ls -l"),
            (
                "nice env -i -u TZ A=1 ls",
                "nice env -i -u TZ TZ=Zone A=1 ls",
            ),
            ("env -i env -i ls", "env -i TZ=Zone env -i TZ=Zone ls"),
            ("env A=1 ls", "env A=1 ls"),
            ("env -i TZ=Other ls", "env -i TZ=Other ls"),
            ("env -i no-such-command", "env -i no-such-command"),
        ] {
            let words: Vec<OsString> = call.split(' ').map(Into::into).collect();
            let stage = stage(&words, &[]);
            assert_eq!(stage.far_words(Some("Zone")).join(&b' '), far.as_bytes());
            assert_eq!(stage.far_words(None).join(&b' '), call.as_bytes());
        }
    }

    #[test]
    fn each_command_is_asked_about_its_own_environment() {
        let pair = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        let environment = [pair("PATH", "/usr/bin:/bin"), pair("LANG", "one")];
        let inside = |call: &str, environment: &[(OsString, OsString)]| {
            let words: Vec<OsString> = call.split(' ').map(Into::into).collect();
            let stage = stage(&words, environment);
            let (nest, _) = stage.nest()?;
            let (locales, runs) = stage.inside(&nest, &[Stdio::Null, Stdio::Here])?;
            let runs = runs
                .into_iter()
                .map(|run| String::from_utf8(run.name).unwrap());
            Ok::<_, String>((locales.last().cloned(), runs.collect::<Vec<String>>()))
        };
        let (locale, runs) = inside("nice env LC_ALL=two sort f", &environment).unwrap();
        assert_eq!(locale.as_deref(), Some("two"));
        assert_eq!(runs, ["env", "sort"]);
        let (locale, _) = inside("env -u LANG sort f", &environment).unwrap();
        assert_eq!(locale.as_deref(), Some(""));
        for (call, why) in [
            ("env GREP_OPTIONS=-v grep x f", "GREP_OPTIONS"),
            ("nohup sort f", "terminal"),
        ] {
            let words: Vec<OsString> = call.split(' ').map(Into::into).collect();
            let stage = stage(&words, &environment);
            let (nest, _) = stage.nest().unwrap();
            let said = stage.inside(&nest, &[Stdio::Terminal, Stdio::Here]);
            assert!(said.clone().unwrap_err().contains(why), "{said:?}");
        }
        let relative = [pair("PATH", "bin:/usr/bin")];
        assert!(
            inside("nice sort f", &relative)
                .unwrap_err()
                .contains("PATH")
        );
        let large = [environment[0].clone(), pair("A", &"x".repeat(300 << 10))];
        assert!(inside("nice sort f", &large).is_ok());
        assert!(
            inside("xargs sort", &large)
                .unwrap_err()
                .contains("surroundings")
        );
    }
}
