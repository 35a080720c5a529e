//! An annotation held against reality: its command is run where it can do no harm and watched, and what it did is compared with what is said
//! of it.
//!
//! The invariant: what is found was seen; a call that never did what it should shows nothing, and a command of which no call could be tried
//! is said to be unchecked.

mod calls;
mod judge;
mod measure;
mod sandbox;
pub mod watch;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use shell_plan::annotation::{Annotation, Call, Kind};
use shell_plan::program::{Reading, read};

use crate::program::{self, Found};
use crate::shims;
use calls::{Made, Samples, Words};
pub use judge::Lie;
use judge::Tried;
use measure::Measured;
use sandbox::Sandbox;
use watch::{Ran, Trial};

/// The word by which our own program knows that it is the part of a check that runs in a place for trials.
pub const WORD: &str = "@annotate";

/// What is to be checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The command and, if one call alone is to be checked, its arguments.
    pub words: Vec<OsString>,
    /// What is said of it.
    pub annotation: Annotation,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The command's file.
    pub program: PathBuf,
    /// What was the commands' home folder.
    pub home: PathBuf,
    /// How many calls were tried.
    pub tried: usize,
    /// How many of them did what they should.
    pub succeeded: usize,
    /// Uses of which no call did.
    pub untried: Vec<String>,
    /// Where the annotation lies.
    pub findings: Vec<Finding>,
}

/// A lie, and a call that shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The words of the call.
    pub words: Vec<Vec<u8>>,
    /// The use that it fits.
    pub of: String,
    /// The lie.
    pub lie: Lie,
}

/// Has `inner`, words of our own program, run by a process of its own, with a folder in which it may make its place for trials. Its exit status.
///
/// # Errors
/// What could not be made or run.
pub fn apart(inner: &[OsString]) -> io::Result<Option<i32>> {
    let folder = tempfile::Builder::new()
        .prefix("nearsh-annotate-")
        .tempdir()?;
    let base = folder.path().canonicalize()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg(WORD).arg(base).args(inner);
    Ok(command.status()?.code())
}

/// Checks an annotation. To be called in a process that [`apart`] made, while it has one thread; `base` is its folder.
///
/// # Errors
/// Why nothing could be checked, for people.
pub fn check(wish: &Wish, base: &Path) -> Result<Report, String> {
    if !watch::can_watch() {
        return Err("system calls cannot be watched on this kind of processor".into());
    }
    let (name, arguments) = wish.words.split_first().ok_or("no command")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let Found::Program(program) = program::find(name, &path, &shims::is_ours) else {
        return Err(format!("{}: not found", name.display()));
    };
    let program = std::path::absolute(&program).unwrap_or(program);
    let short = Path::new(name)
        .file_name()
        .unwrap_or(name)
        .to_string_lossy()
        .into_owned();
    let one_call = if arguments.is_empty() {
        None
    } else {
        let mut words: Vec<Vec<u8>> = vec![short.clone().into_bytes()];
        words.extend(arguments.iter().map(|word| word.clone().into_vec()));
        wish.annotation
            .call(&words, false)
            .map_err(|misfit| format!("the annotation does not describe this call, which runs where it is called: {misfit}"))?;
        Some(Words(words))
    };
    let folder = std::env::current_dir().map_err(|error| format!("the current folder: {error}"))?;
    // Who stops reading is an error of that trial, and no end of this process. The commands begin with no signal held back.
    let mut pipe = SigSet::empty();
    pipe.add(Signal::SIGPIPE);
    pipe.thread_block().map_err(|error| error.desc())?;
    let sandbox = Sandbox::enter(base, one_call.as_ref().map(|_| folder.as_path()))?;
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), path.clone()),
        ("HOME".into(), sandbox.home.clone().into()),
        ("TMPDIR".into(), sandbox.tmp.clone().into()),
        ("LANG".into(), "C.UTF-8".into()),
        ("TZ".into(), "UTC0".into()),
    ];
    if let Some(user) = std::env::var_os("USER") {
        environment.push(("USER".into(), user));
    }
    let check = Check {
        sandbox: &sandbox,
        annotation: &wish.annotation,
        program: &program,
        environment: &environment,
    };
    check
        .all(&short, one_call, &path)
        .map_err(|error| error.to_string())
}

struct Check<'a> {
    sandbox: &'a Sandbox,
    annotation: &'a Annotation,
    program: &'a Path,
    environment: &'a [(OsString, OsString)],
}

/// A call that was tried and may be measured later.
struct Kept {
    words: Words,
    kind: usize,
    made: Made,
    ran: Ran,
}

impl Check<'_> {
    fn all(&self, name: &str, one: Option<Words>, path: &OsStr) -> io::Result<Report> {
        let is_own = one.is_none();
        let samples = Samples::make(&self.trial(&[], b""), path)?;
        if is_own && name == "git" {
            self.repository()?;
        }
        let calls = match one {
            Some(words) => vec![words],
            None => calls::calls(self.annotation, name),
        };
        let mut report = Report {
            program: self.program.to_path_buf(),
            home: self.sandbox.home.clone(),
            tried: 0,
            succeeded: 0,
            untried: Vec::new(),
            findings: Vec::new(),
        };
        let mut done = BTreeSet::new();
        let mut kept: Vec<Kept> = Vec::new();
        for words in &calls {
            let Ok(call) = self.annotation.call(&words.0, false) else {
                continue;
            };
            report.tried += 1;
            let writes = call.files.iter().any(|file| file.kind == Kind::Output);
            let variants = if is_own && writes {
                &[Made::Nothing, Made::File, Made::Folder][..]
            } else if is_own {
                &[Made::Nothing, Made::Link][..]
            } else {
                &[Made::Nothing][..]
            };
            let mut succeeds = false;
            for made in variants {
                // Links are for those that can do nothing else.
                if *made == Made::Link && succeeds {
                    break;
                }
                let tried = self.try_out(&samples, words, &call, *made, is_own, &mut report)?;
                if let Some(tried) = tried {
                    succeeds = true;
                    done.insert(call.of.name.clone());
                    kept.push(tried);
                }
            }
            report.succeeded += usize::from(succeeds);
        }
        // What depends on the time or the host shows so.
        std::thread::sleep(Duration::from_millis(1100));
        self.sandbox.rename_host("another-host");
        for tried in &kept {
            let Ok(call) = self.annotation.call(&tried.words.0, false) else {
                continue;
            };
            if is_own {
                self.prepare(&samples, &tried.words, &call, tried.kind, tried.made)?;
            }
            self.sandbox.renew()?;
            let reading = self.reading(&call, &tried.words);
            let arguments = tried.words.arguments();
            let measured = Measured {
                sandbox: self.sandbox,
                trial: Trial {
                    is_watched: false,
                    ..self.trial(&arguments, samples.input(tried.kind))
                },
                annotation: self.annotation,
                call: &call,
                words: &tried.words.0,
                reading: reading.as_ref(),
                ran: &tried.ran,
            };
            let lies = measured.lies()?;
            self.note(&mut report, &tried.words, &call, lies);
        }
        if is_own {
            let names = self.annotation.uses.iter().map(|of| of.name.clone());
            report.untried = names.filter(|name| !done.contains(name)).collect();
            self.version(name, &mut report)?;
        }
        Ok(report)
    }

    /// git does nothing outside of a repository.
    fn repository(&self) -> io::Result<()> {
        sandbox::empty(&self.sandbox.work)?;
        std::fs::write(self.sandbox.work.join("tracked"), "first\nx second\n")?;
        std::fs::create_dir(self.sandbox.work.join("src"))?;
        std::fs::write(self.sandbox.work.join("src/inner"), "third\n")?;
        let calls: [&[&str]; 7] = [
            &["git", "init", "-q", "-b", "main"],
            &["git", "config", "user.name", "Somebody"],
            &["git", "config", "user.email", "somebody@example.org"],
            &["git", "add", "."],
            &["git", "commit", "-q", "-m", "the first one"],
            &["git", "tag", "v1"],
            // What is changed since, in the index and beside it.
            &["git", "mv", "src/inner", "src/moved"],
        ];
        for call in calls {
            let words: Vec<OsString> = call.iter().map(Into::into).collect();
            let trial = Trial {
                is_watched: false,
                ..self.trial(&words, b"")
            };
            let ran = trial.run()?;
            if ran.status != 0 {
                let why = String::from_utf8_lossy(&ran.errors).into_owned();
                return Err(io::Error::other(format!("no repository: {why}")));
            }
        }
        std::fs::write(self.sandbox.work.join("tracked"), "first\nx changed\n")?;
        sandbox::copy_all(&self.sandbox.work, &self.sandbox.ground)
    }

    fn trial<'b>(&'b self, words: &'b [OsString], input: &'b [u8]) -> Trial<'b> {
        Trial {
            program: self.program,
            words,
            input,
            environment: self.environment,
            out: &self.sandbox.out,
            is_watched: true,
        }
    }

    fn note(&self, report: &mut Report, words: &Words, call: &Call<'_>, lies: Vec<Lie>) {
        for lie in lies {
            // One call that shows it is enough.
            let is_known = |finding: &Finding| finding.of == call.of.name && finding.lie == lie;
            if !report.findings.iter().any(is_known) {
                report.findings.push(Finding {
                    words: words.0.clone(),
                    of: call.of.name.clone(),
                    lie,
                });
            }
        }
    }

    /// Makes the files that a call is tried with.
    fn prepare(
        &self,
        samples: &Samples,
        words: &Words,
        call: &Call<'_>,
        kind: usize,
        made: Made,
    ) -> io::Result<()> {
        self.sandbox.begin_as(&self.sandbox.ground)?;
        samples.put(&self.sandbox.master, call, &words.0, kind, made)
    }

    /// Tries a call with one kind of input after the other, until it does what it should; what it did that time, and all that it did wrong.
    fn try_out(
        &self,
        samples: &Samples,
        words: &Words,
        call: &Call<'_>,
        made: Made,
        is_own: bool,
        report: &mut Report,
    ) -> io::Result<Option<Kept>> {
        let arguments = words.arguments();
        for kind in 0..samples.count() {
            if is_own {
                self.prepare(samples, words, call, kind, made)?;
            }
            self.sandbox.renew()?;
            let before = self.sandbox.state()?;
            let ran = self.trial(&arguments, samples.input(kind)).run()?;
            let after = self.sandbox.state()?;
            let reading = self.reading(call, words);
            let tried = Tried {
                call,
                settings: &self.annotation.settings,
                words: &words.0,
                program: self.program,
                reading: reading.as_ref(),
                ran: &ran,
                before: &before,
                after: &after,
            };
            let succeeds = tried.succeeded();
            let lies = tried.lies(self.sandbox);
            // Who complains of the call has looked at nothing: another input makes no difference.
            let is_refused = !succeeds && !tried.has_begun(self.sandbox);
            self.note(report, words, call, lies);
            if is_refused {
                break;
            }
            if succeeds {
                return Ok(Some(Kept {
                    words: words.clone(),
                    kind,
                    made,
                    ran,
                }));
            }
        }
        Ok(None)
    }

    /// What is known of a program among the arguments.
    fn reading(&self, call: &Call<'_>, words: &Words) -> Option<Reading> {
        let language = call.of.program?;
        let texts = call.programs.iter().map(|file| {
            let text = file.name(&words.0);
            if file.kind == Kind::Program {
                return Some(text.to_vec());
            }
            std::fs::read(self.sandbox.master.join(OsString::from_vec(text.to_vec()))).ok()
        });
        let texts: Vec<_> = texts.collect();
        Some(read(language, &words.0, call, &texts))
    }

    fn version(&self, name: &str, report: &mut Report) -> io::Result<()> {
        let Some(arguments) = &self.annotation.version else {
            return Ok(());
        };
        let mut words: Vec<OsString> = vec![name.into()];
        words.extend(arguments.iter().map(Into::into));
        let ran = self.trial(&words, b"").run()?;
        if ran.status != 0 || ran.output.is_empty() {
            report.findings.push(Finding {
                words: words.into_iter().map(OsStringExt::into_vec).collect(),
                of: String::new(),
                lie: Lie::NoVersion,
            });
        }
        Ok(())
    }
}
