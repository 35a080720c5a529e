//! Facts for tests: pipelines as text, over machines whose files are named `/HOST/NAME`.

use std::collections::BTreeMap;

use shell_plan::annotation::{Annotation, Kind, Shown};
use shell_plan::nest::nest;
use shell_plan::plan::{
    Facts, FileKind, Host, Learned, Mount, Named, Place, Stage, Stdin, Stdout, There,
};

use crate::common::{annotation, words};

/// What there is in the world of a test.
#[derive(Clone, Debug)]
pub struct World {
    /// Hosts by name.
    pub hosts: Vec<Host>,
    /// Sizes of files whose name begins with one of these; the first that fits counts.
    pub sizes: Vec<(&'static str, u64)>,
    /// Folders and how many entries they have.
    pub folders: Vec<(&'static str, u64)>,
    /// Names that are absent.
    pub absent: Vec<&'static str>,
    /// The folder that stages are started in.
    pub folder: &'static str,
    /// What was learned.
    pub learned: Learned,
    /// Processors here.
    pub idle_cores: f64,
    /// Variables.
    pub environment: Vec<(&'static str, &'static str)>,
    /// Commands that no host has.
    pub missing: Vec<&'static str>,
}

/// A host as Posh's university network has it: 20 ms, 600 Mb/s.
pub fn university(name: &str, idle_cores: f64) -> Host {
    Host {
        name: name.to_owned(),
        connected: true,
        connect_s: 0.3,
        round_trip_s: 0.02,
        down: 75e6,
        up: 75e6,
        idle_cores,
        disk: 1e9,
        mount: Mount {
            read: 60e6,
            write: 40e6,
            open_s: 0.04,
            entry_s: 0.02,
            differs: vec![Shown::Order],
        },
        any_name: false,
        has_files_of: None,
    }
}

/// And the cloud: 0.5 ms, 5 Gb/s.
#[allow(dead_code)] // not in every test program
pub fn cloud(name: &str, idle_cores: f64) -> Host {
    Host {
        round_trip_s: 0.0005,
        down: 625e6,
        up: 625e6,
        mount: Mount {
            read: 300e6,
            write: 200e6,
            open_s: 0.001,
            entry_s: 0.0005,
            differs: vec![Shown::Order],
        },
        ..university(name, idle_cores)
    }
}

impl World {
    pub fn of(hosts: Vec<Host>) -> World {
        World {
            hosts,
            sizes: Vec::new(),
            folders: Vec::new(),
            absent: Vec::new(),
            folder: "/here/work",
            learned: Learned::default(),
            idle_cores: 2.0,
            environment: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// Where a name leads, and what is there.
    pub fn named(&self, name: &str) -> Named {
        let path = if name.starts_with('/') {
            name.to_owned()
        } else {
            format!("{}/{name}", self.folder)
        };
        let host = path.split('/').nth(1).unwrap_or("");
        let at = self.hosts.iter().position(|known| known.name == host);
        let entries = self
            .folders
            .iter()
            .find(|(known, _)| path.starts_with(known));
        let size = self.sizes.iter().find(|(known, _)| path.starts_with(known));
        let kind = if self.absent.contains(&name) {
            FileKind::Absent
        } else if entries.is_some() {
            FileKind::Folder
        } else {
            FileKind::Regular
        };
        Named {
            at: at.map_or(Place::Here, Place::Host),
            kind,
            size_bytes: size.map_or(1000, |(_, size)| *size),
            entries: entries.map_or(0, |(_, entries)| *entries),
            same_name: !path.contains("other-name"),
            ends_line: !path.contains("unended"),
            identity: Some(
                path.bytes()
                    .fold(7_u64, |h, b| h.wrapping_mul(31).wrapping_add(u64::from(b))),
            ),
        }
    }

    /// The facts of `cat a | sort < b > c`: stages with bars between, `<` for the first and `>` for the last.
    pub fn facts<'a>(
        &self,
        all: &'a BTreeMap<String, Result<Annotation, String>>,
        pipeline: &str,
    ) -> Facts<'a> {
        let texts: Vec<&str> = pipeline.split(" | ").collect();
        let mut stages = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            let mut words = words(text);
            let mut redirected = |sign: &[u8]| {
                let at = words.iter().position(|word| word == sign)?;
                let name = String::from_utf8(words.remove(at + 1)).unwrap();
                words.remove(at);
                Some(name)
            };
            let stdin = match redirected(b"<").as_deref() {
                Some("/dev/tty") => Stdin::Terminal,
                Some(name) => Stdin::File {
                    file: self.named(name),
                    offset: 0,
                },
                None if number > 0 => Stdin::Stage,
                None => Stdin::Other { bytes: None },
            };
            let stdout = match redirected(b">").as_deref() {
                Some("/dev/tty") => Stdout::Terminal,
                Some(name) => Stdout::File(self.named(name)),
                None if number + 1 < texts.len() => Stdout::Stage,
                None => Stdout::Other,
            };
            let name = String::from_utf8_lossy(&words[0]).into_owned();
            let call = nest(&|name| annotation(all, name), &words, &Vec::new());
            let call = call.map(|nest| nest.call);
            let text =
                |word: usize, from: usize| String::from_utf8(words[word][from..].to_vec()).unwrap();
            let (mut files, mut programs) = (Vec::new(), Vec::new());
            if let Ok(call) = &call {
                files.extend(
                    call.files
                        .iter()
                        .map(|file| self.named(&text(file.word, file.from))),
                );
                // Every file with a program has this one.
                let of_file = b"{ s += $1 } END { print s }";
                programs.extend(call.programs.iter().map(|file| match file.kind {
                    Kind::ProgramFile => {
                        let named = self.named(&text(file.word, file.from));
                        (Some(of_file.to_vec()), Some(named))
                    }
                    _ => (Some(words[file.word][file.from..].to_vec()), None),
                }));
            }
            let there = if self.missing.contains(&name.as_str()) {
                There::Absent
            } else {
                There::Same
            };
            let environment = self.environment.iter();
            stages.push(Stage {
                environment: environment
                    .map(|(n, v)| (n.as_bytes().to_vec(), v.as_bytes().to_vec()))
                    .collect(),
                words,
                call,
                files,
                programs,
                folder: Named {
                    kind: FileKind::Folder,
                    ..self.named(".")
                },
                stdin,
                stdout,
                is_merged: false,
                there: vec![there; self.hosts.len()],
            });
        }
        Facts {
            stages,
            hosts: self.hosts.clone(),
            direct: Vec::new(),
            link: None,
            idle_cores: self.idle_cores,
            learned: self.learned.clone(),
            unfit: false,
            eager: false,
        }
    }
}
