//! The agent, spoken to as by somebody who has got hold of the key.

use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use shell_exec::wire::{
    Access, Below, Checked, Ending, Frame, FromAgent, Hello, Input, Job, Join, Limits, PROTOCOL,
    Process, Seen, Sink, Source, ToAgent, Tool, View,
};
use shell_plan::plan::Combiner;

struct Agent {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Agent {
    /// An agent that is restricted to a folder, which it is to show as `/mnt/seen`. None: it cannot have namespaces here.
    fn restricted(folder: &Path) -> Option<Agent> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nearsh"))
            .args(["agent", "--stdio", "--restrict-to"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut agent = Agent {
            to: child.stdin.take().unwrap(),
            from: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        let view = |export: &Path| {
            let meta = export.metadata().unwrap();
            View {
                at: b"/mnt/seen".to_vec(),
                export: export.as_os_str().as_bytes().to_vec(),
                root: Seen {
                    kind: meta.mode() & 0o170_000,
                    size: meta.len(),
                    changed: meta.mtime(),
                    inode: 0,
                },
                is_fuse: false,
            }
        };
        agent.tell(&ToAgent::Hello(Hello {
            protocol: PROTOCOL,
            views: vec![view(folder), view(Path::new("/etc"))],
        }));
        let FromAgent::Hello(hello) = agent.hear() else {
            panic!("no hello");
        };
        let refused = hello.views[1].as_ref().expect("/etc is shown");
        if hello.views[0].is_some() {
            return None;
        }
        assert!(refused.contains("not beneath"), "{refused}");
        Some(agent)
    }

    fn tell(&mut self, message: &ToAgent) {
        Frame::of(message).write(&mut self.to).unwrap();
        self.to.flush().unwrap();
    }

    fn hear(&mut self) -> FromAgent {
        loop {
            if let Frame::Message(payload) = Frame::read(&mut self.from).unwrap().unwrap() {
                return Frame::message(&payload).unwrap();
            }
        }
    }

    /// What a job prints, or why it is refused.
    fn run(&mut self, process: Process) -> Result<Vec<u8>, String> {
        self.run_all(vec![process], Vec::new(), Vec::new(), 2)
    }

    /// The same of one with more than a process, and so many streams.
    fn run_all(
        &mut self,
        processes: Vec<Process>,
        joins: Vec<Join>,
        checks: Vec<Checked>,
        streams: usize,
    ) -> Result<Vec<u8>, String> {
        let (mut running, mut joining) = (processes.len(), joins.len());
        self.tell(&ToAgent::Start(Job {
            number: 1,
            processes,
            joins,
            rehearsal: None,
            checks,
        }));
        let mut output = Vec::new();
        let (mut ended, mut exited) = (0, None);
        while ended < streams || running > 0 || joining > 0 {
            match Frame::read(&mut self.from).unwrap().unwrap() {
                Frame::Message(payload) => match Frame::message(&payload).unwrap() {
                    FromAgent::Refused { why, .. } => return Err(why),
                    FromAgent::Exited { ending, .. } => {
                        running -= 1;
                        if exited.is_none_or(|known| known == Ending::Status(0)) {
                            exited = Some(ending);
                        }
                    }
                    FromAgent::Joined { trouble, .. } => {
                        joining -= 1;
                        assert_eq!(trouble, None);
                    }
                    _ => {}
                },
                Frame::Data(_, bytes) => output.extend(bytes),
                Frame::End(_) => ended += 1,
                _ => {}
            }
        }
        match exited {
            None | Some(Ending::Status(0)) => Ok(output),
            other => Err(format!("{other:?}: {}", String::from_utf8_lossy(&output))),
        }
    }
}

fn process(words: &[&str], access: Option<&[&str]>) -> Process {
    let program = Path::new("/usr/bin").join(words[0]);
    let bytes = fs::read(program).unwrap_or_default();
    Process {
        words: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
        environment: vec![b"PATH=/usr/bin:/bin".to_vec()],
        folder: b"/".to_vec(),
        limits: Limits::default(),
        stdin: Source::Null,
        stdout: Sink::Stream(2),
        stderr: Some(Sink::Stream(3)),
        inputs: Vec::new(),
        tool: Tool {
            file: xxhash_rust::xxh3::xxh3_64(&bytes),
            libc: String::new(),
            version: None,
        },
        runs: Vec::new(),
        locales: Vec::new(),
        access: access.map(|paths| {
            let read = |path: &&str| Access {
                path: path.as_bytes().to_vec(),
                write: false,
            };
            paths.iter().map(read).collect()
        }),
        changes: Vec::new(),
    }
}

#[test]
fn a_restricted_agent_gives_its_folder_and_nothing_else() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let export = folder.path().join("export");
    fs::create_dir(&export).unwrap();
    fs::write(export.join("mine"), "yours\n").unwrap();
    fs::write(folder.path().join("secret"), "none of yours\n").unwrap();
    std::os::unix::fs::symlink("../secret", export.join("out")).unwrap();
    let Some(mut agent) = Agent::restricted(&export) else {
        return;
    };
    let seen = ["/mnt/seen/mine"];
    let given = agent.run(process(&["cat", "/mnt/seen/mine"], Some(&seen)));
    match &given {
        Ok(output) => assert_eq!(output, b"yours\n"),
        // A kernel without bounds: then nothing is run at all.
        Err(why) => assert!(why.contains("bounds"), "{why}"),
    }
    // A file elsewhere, by its name and by a link.
    let secret = folder.path().join("secret");
    let secret = secret.to_str().unwrap();
    for path in [secret, "/mnt/seen/out"] {
        assert!(
            agent.run(process(&["cat", path], Some(&seen))).is_err(),
            "{path}"
        );
        assert!(
            agent.run(process(&["cat", path], Some(&[path]))).is_err(),
            "{path}"
        );
    }
    assert!(agent.run(process(&["cat", secret], Some(&["/"]))).is_err());
    // Without bounds; a command that has no annotation; libraries of one's own.
    assert!(agent.run(process(&["cat", secret], None)).is_err());
    let shell = agent.run(process(&["bash", "-c", "echo in"], Some(&seen)));
    assert!(shell.unwrap_err().contains("annotations"));
    let mut preloaded = process(&["cat", "/mnt/seen/mine"], Some(&seen));
    preloaded
        .environment
        .push(b"LD_PRELOAD=/mnt/seen/mine".to_vec());
    assert!(agent.run(preloaded).unwrap_err().contains("LD_PRELOAD"));
    // Arguments that are said to print a version are not run.
    let made = folder.path().join("made");
    let mut versioned = process(&["sort", "/mnt/seen/mine"], Some(&seen));
    versioned.tool.file = 0;
    let arguments = vec!["-o".to_owned(), made.to_str().unwrap().to_owned()];
    versioned.tool.version = Some((arguments, 0));
    assert!(agent.run(versioned).is_err());
    assert!(!made.exists());
    drop(agent.to);
    assert!(agent.child.wait().unwrap().success());
}

/// Lines of a file in parts, each through a process, put together again.
#[test]
fn parts_of_a_file_go_through_processes_and_become_one() {
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let lines: String = (0..50_000)
        .map(|n| format!("line {}\n", n * 7919 % 50_000))
        .collect();
    fs::write(folder.path().join("lines"), &lines).unwrap();
    fs::write(folder.path().join("unended"), "a line\nhalf").unwrap();
    let Some(mut agent) = Agent::restricted(folder.path()) else {
        return;
    };
    let bounds: Vec<u64> = (0..4).map(|part| part * lines.len() as u64 / 4).collect();
    let part = |words: &[&str], number: usize| {
        let mut one = process(words, Some(&[]));
        one.stdin = Source::Lines {
            path: b"/mnt/seen/lines".to_vec(),
            begin: 0,
            from: bounds[number],
            to: bounds.get(number + 1).copied(),
        };
        one.stdout = Sink::Pipe(number as u32);
        one.stderr = None;
        one
    };
    let into = |how, count: u32| Join {
        how,
        parts: (0..count).map(Source::Pipe).collect(),
        into: Sink::Stream(2),
        clean: Vec::new(),
        quiet: None,
    };
    let cats = (0..4).map(|n| part(&["cat"], n)).collect();
    match agent.run_all(cats, vec![into(Combiner::Concat, 4)], Vec::new(), 1) {
        Ok(output) => assert!(output == lines.as_bytes(), "{} bytes", output.len()),
        // A kernel without bounds runs nothing here.
        Err(why) => {
            assert!(why.contains("bounds"), "{why}");
            return;
        }
    }
    let counts = (0..4).map(|n| part(&["wc", "-l"], n)).collect();
    let sum = into(Combiner::Sum { most: u64::MAX }, 4);
    let counted = agent.run_all(counts, vec![sum], Vec::new(), 1).unwrap();
    assert_eq!(counted, b"50000\n");
    // Merged by a command that reads the parts under names.
    let mut merge = process(&["sort", "-m", "", "", "", ""], Some(&[]));
    merge.inputs = (0..4)
        .map(|n| Input {
            word: n + 2,
            from: 0,
            source: Source::Pipe(n),
        })
        .collect();
    let mut sorts: Vec<Process> = (0..4).map(|n| part(&["sort"], n)).collect();
    sorts.push(merge);
    let sorted = agent.run_all(sorts, Vec::new(), Vec::new(), 2).unwrap();
    let mut wanted: Vec<&str> = lines.lines().collect();
    wanted.sort_unstable();
    assert_eq!(
        String::from_utf8(sorted)
            .unwrap()
            .lines()
            .collect::<Vec<_>>(),
        wanted
    );
    // What does not fit together is refused, and so is a file elsewhere.
    let lone = part(&["cat"], 0);
    let refused = agent.run_all(vec![lone], Vec::new(), Vec::new(), 1);
    assert!(refused.unwrap_err().contains("one end"));
    let twice = Join {
        parts: vec![Source::Pipe(0), Source::Pipe(0)],
        ..into(Combiner::Concat, 1)
    };
    let refused = agent.run_all(vec![part(&["cat"], 0)], vec![twice], Vec::new(), 1);
    assert!(refused.unwrap_err().contains("more than two ends"));
    let elsewhere = Join {
        how: Combiner::Concat,
        parts: vec![Source::File {
            path: b"/etc/passwd".to_vec(),
            from: 0,
        }],
        into: Sink::Stream(2),
        clean: Vec::new(),
        quiet: None,
    };
    assert!(
        agent
            .run_all(Vec::new(), vec![elsewhere], Vec::new(), 1)
            .is_err()
    );
    // A last line without its end, where one was promised.
    let promised = |name: &str| Checked {
        path: format!("/mnt/seen/{name}").into_bytes(),
        seen: Seen {
            kind: 0o100_000,
            size: 0,
            changed: 0,
            inode: 0,
        },
        ends_line: true,
        below: Below::Anything,
        depth: None,
    };
    let own = |name: &str| process(&["cat", &format!("/mnt/seen/{name}")], Some(&["/mnt/seen"]));
    let given = agent.run_all(vec![own("lines")], Vec::new(), vec![promised("lines")], 2);
    assert_eq!(given.unwrap().len(), lines.len());
    let given = agent.run_all(
        vec![own("unended")],
        Vec::new(),
        vec![promised("unended")],
        2,
    );
    assert!(given.unwrap_err().contains("its last line has no end"));
}

#[test]
fn what_is_no_protocol_ends_an_agent_with_a_message() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_nearsh"))
        .args(["agent", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut to = child.stdin.take().unwrap();
    to.write_all(b"SSH-2.0-OpenSSH_9.2 or whatever it may be\r\n")
        .unwrap();
    drop(to);
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(said.starts_with("nearsh agent: "), "{said}");
}
