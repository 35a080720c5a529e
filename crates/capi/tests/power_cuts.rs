//! The ladder over real file systems, over C programs that use this library: heaps that threads change, and failure-atomic files; with marks
//! by perdure-cc, in verify mode, and with the kernel's pages.

use heap::{Heap, Options, Verify};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use testkit::volatile::{FileSystem, Goal, Reporter, Subject, Trial, run};

#[allow(dead_code)] // what other tests need of it
#[path = "programs/build.rs"]
mod build;

use build::{Built, make};

/// Compiled in these ways, each once and where all processes of the test find it.
const BUILDS: [(&str, Built); 3] = [
    ("plain", Built::C11),
    ("tracking", Built::tracking("-O2")),
    ("lying", Built::tracking("-O2 -DLIES")),
];

fn program(build: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cuts-{build}"))
}

struct Program {
    build: &'static str,
    /// `PERDURE_TRACK`.
    tracking: &'static str,
    /// What it works on.
    kind: &'static str,
}

impl Program {
    fn command(&self, task: &str, folder: &Path) -> Command {
        let mut command = Command::new(program(self.build));
        command
            .args([self.kind, task])
            .arg(folder)
            .env("PERDURE_TRACK", self.tracking);
        command
    }

    fn state(command: &mut Command) -> Result<u64, String> {
        let output = command.output().map_err(|e| e.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !output.status.success() {
            return Err(format!("{}: {}", output.status, text(&output.stderr)));
        }
        let told = text(&output.stdout);
        told.parse().map_err(|_| format!("it says \"{told}\""))
    }
}

impl Subject for Program {
    fn work(&self, folder: &Path, seed: u64, _reporter: &mut Reporter) -> Result<(), String> {
        // It becomes that program, which tells by itself, and kills itself when it is time.
        let mut command = self.command("work", folder);
        Err(command.arg(seed.to_string()).exec().to_string())
    }

    fn inspect(&self, folder: &Path) -> Result<u64, String> {
        let state = Program::state(&mut self.command("inspect", folder))?;
        let path = folder.join("a.heap");
        if self.kind == "heap" && state != 0 {
            let options = Options {
                verify: Verify::Report,
                ..Options::snapshot()
            };
            let heap = Heap::open(&path, options).map_err(|e| e.to_string())?;
            let report = heap.check().map_err(|e| e.to_string())?;
            if !report.is_clean() {
                return Err(format!("{report:?}"));
            }
        }
        Ok(state)
    }

    fn go_on(&self, folder: &Path, seed: u64) -> Result<u64, String> {
        Program::state(self.command("go_on", folder).arg(seed.to_string()))
    }
}

fn main() -> ExitCode {
    // Not in the processes that the test starts of itself, nor where somebody only asks what there is.
    let is_first = std::env::var_os("PERDURE_VOLATILE_ROLE").is_none();
    if is_first && std::env::args().all(|argument| argument != "--list") {
        for (name, how) in BUILDS {
            make("cuts.c", how, &program(name));
        }
    }
    let clean = Goal::Clean { states: 60 };
    let caught = Goal::Caught { states_max: 2000 };
    let trial = |name, file_system, [build, tracking, kind]: [&'static str; 3], goal| Trial {
        name,
        file_system,
        subject: Box::new(Program {
            build,
            tracking,
            kind,
        }),
        goal,
    };
    use FileSystem::{Btrfs, Ext4Ordered, Ext4Writeback, Xfs};
    let trials = [
        trial(
            "every_power_cut_on_ext4_leaves_a_commit_of_marked_lines",
            Ext4Ordered,
            ["tracking", "lines", "heap"],
            clean,
        ),
        trial(
            "every_power_cut_on_ext4_with_data_written_back_leaves_a_commit_in_verify_mode",
            Ext4Writeback,
            ["tracking", "verify", "heap"],
            clean,
        ),
        trial(
            "every_power_cut_on_xfs_leaves_a_commit_of_marked_lines",
            Xfs,
            ["tracking", "lines", "heap"],
            clean,
        ),
        trial(
            "every_power_cut_on_btrfs_leaves_a_commit_of_written_pages",
            Btrfs,
            ["plain", "pages", "heap"],
            clean,
        ),
        trial(
            "every_power_cut_on_ext4_leaves_a_synced_file_of_marked_lines",
            Ext4Ordered,
            ["tracking", "lines", "file"],
            clean,
        ),
        trial(
            "every_power_cut_on_xfs_leaves_a_synced_file_in_verify_mode",
            Xfs,
            ["tracking", "verify", "file"],
            clean,
        ),
        trial(
            "every_power_cut_on_btrfs_leaves_a_synced_file_of_written_pages",
            Btrfs,
            ["plain", "pages", "file"],
            clean,
        ),
        trial(
            "flushes_that_do_nothing_are_caught_in_a_heap",
            Ext4Ordered,
            ["lying", "lines", "heap"],
            caught,
        ),
        trial(
            "flushes_that_do_nothing_are_caught_in_a_file",
            Xfs,
            ["lying", "lines", "file"],
            caught,
        ),
    ];
    run(&trials, &mut std::io::stdout())
}
