//! The instruments themselves: the disk loses what it should and keeps what it must, nothing between it and the file system
//! caches, and nothing is left when a test is killed. The subject is a number in a file, as small as one can be.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use testkit::rng::Rng;
use testkit::volatile::{FileSystem, Goal, Record, Reporter, Rig, Subject, Trial, run};

/// A number that is replaced as editors do it: written beside, flushed, renamed over, and the folder flushed.
struct Number {
    flushes_file: bool,
    flushes_folder: bool,
}

impl Number {
    fn set(&self, folder: &Path, number: u64) -> std::io::Result<()> {
        let draft = folder.join("draft");
        let mut file = File::create(&draft)?;
        file.write_all(format!("{number:>20}").repeat(1000).as_bytes())?;
        if self.flushes_file {
            file.sync_all()?;
        }
        fs::rename(draft, folder.join("number"))?;
        if self.flushes_folder {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Subject for Number {
    fn work(&self, folder: &Path, seed: u64, reporter: &mut Reporter) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        reporter.found(self.inspect(folder)?);
        for _ in 0..20 {
            let number = rng.draw() | 1;
            reporter.attempt(number);
            self.set(folder, number).map_err(|e| e.to_string())?;
            reporter.reported(true);
        }
        Ok(())
    }

    fn inspect(&self, folder: &Path) -> Result<u64, String> {
        let Ok(text) = fs::read_to_string(folder.join("number")) else {
            return Ok(0);
        };
        let first = text.get(..20).ok_or("it is cut off")?;
        if text.len() == 20_000 && text == first.repeat(1000) {
            first.trim().parse().map_err(|_| "it is no number".into())
        } else {
            Err("it is torn".into())
        }
    }

    fn go_on(&self, folder: &Path, seed: u64) -> Result<u64, String> {
        self.set(folder, seed | 1).map_err(|e| e.to_string())?;
        Ok(seed | 1)
    }
}

/// In a process of its own, as all that is above the disk.
fn dd(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("dd")
        .args(arguments)
        .arg("status=none")
        .output()
        .map_err(|e| e.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into())
    }
}

/// A flush of the device is one of the disk, behind what was written before it; a write alone is none.
fn barriers_arrive(rig: &mut Rig) -> Result<String, String> {
    rig.disk().record();
    let before = rig.disk().flushes();
    let to = format!("of={}", rig.device().display());
    let write = ["if=/dev/urandom", &to, "bs=4096", "count=2", "oflag=direct"];
    dd(&write)?;
    if rig.disk().flushes() != before {
        return Err("a flush that nobody asked for".into());
    }
    dd(&[&write[..], &["seek=8", "conv=notrunc,fsync"]].concat())?;
    let records = rig.disk().recorded().records;
    let written: u64 = records
        .iter()
        .filter_map(|record| match record {
            Record::Write { bytes, .. } => Some(bytes.len() as u64),
            _ => None,
        })
        .sum();
    let is_behind = matches!(records.last(), Some(Record::Flush));
    let name = rig.device().file_name().unwrap_or_default().to_owned();
    let of_kernel = |what: &str| {
        let path = Path::new("/sys/block").join(&name).join(what);
        fs::read_to_string(path)
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let direct = of_kernel("loop/dio");
    let cache = of_kernel("queue/write_cache");
    if is_behind && written == 4 * 4096 && direct == "1" && cache == "write back" {
        Ok(format!("{} flushes, {written} bytes", rig.disk().flushes()))
    } else {
        Err(format!(
            "{written} bytes, flush last: {is_behind}, direct: {direct}, cache: {cache}"
        ))
    }
}

/// Another content of the disk is what is read next, through the file system too.
fn another_disk_is_read_anew(rig: &mut Rig) -> Result<String, String> {
    let blank = rig.make_file_system()?;
    let mut contents = Vec::new();
    for number in [1, 3, 5] {
        rig.disk().load(blank.clone());
        rig.mount()?;
        rig.go_on(number)?;
        rig.unmount()?;
        contents.push((number, rig.disk().image()));
    }
    for round in 0..20 {
        let (number, image) = &contents[round % 3];
        // All of the one before is in the kernel's cache of the device.
        let device = format!("if={}", rig.device().display());
        dd(&[&device, "of=/dev/null", "bs=1M"])?;
        rig.disk().load(image.clone());
        rig.mount()?;
        let found = rig.inspect()?;
        rig.unmount()?;
        if found != *number {
            return Err(format!("{found} instead of {number} in round {round}"));
        }
    }
    Ok("20 rounds".into())
}

const VICTIM: &str = "every_power_cut_on_ext4_leaves_a_whole_number";

/// What is there of a process's disks.
#[derive(Default)]
struct Holdings {
    /// Processes that see its mounts.
    keepers: Vec<u32>,
    /// Loop devices that those have open, each with the number that the kernel gave it when it was attached.
    devices: BTreeSet<(String, String)>,
}

fn holdings(process: u32) -> Holdings {
    let scratch = format!("perdure-volatile-{process}-");
    let mut all = Holdings::default();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let mounts = fs::read_to_string(entry.path().join("mountinfo")).unwrap_or_default();
        if !mounts.contains(&scratch) {
            continue;
        }
        let name = entry.file_name();
        all.keepers
            .extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
        let open = fs::read_dir(entry.path().join("fd"));
        for descriptor in open.into_iter().flatten().flatten() {
            let target = fs::read_link(descriptor.path()).unwrap_or_default();
            let Some(name) = target.to_str().and_then(|t| t.strip_prefix("/dev/loop")) else {
                continue;
            };
            // One that is open and not attached yet is nobody's.
            let number = attached_as(name);
            if !number.is_empty() {
                all.devices.insert((name.into(), number));
            }
        }
    }
    all
}

/// Changes whenever the device is attached or detached; empty while it is detached.
fn attached_as(device: &str) -> String {
    let folder = Path::new("/sys/block").join(format!("loop{device}"));
    if folder.join("loop/backing_file").exists() {
        fs::read_to_string(folder.join("diskseq")).unwrap_or_default()
    } else {
        String::new()
    }
}

/// A test is killed in the midst of it: the kernel takes everything down.
fn a_kill_leaves_nothing(_: &mut Rig) -> Result<String, String> {
    let myself = std::env::current_exe().map_err(|e| e.to_string())?;
    for _ in 0..3 {
        let mut child = Command::new(&myself)
            .args(["--exact", VICTIM])
            .env("PERDURE_POWER_CUTS", "100000")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| e.to_string())?;
        // Until it has all of its disks, and is in the midst of mounting them.
        let begun = Instant::now();
        let mut had = Holdings::default();
        while had.devices.len() < 4 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
            had = holdings(child.id());
        }
        std::thread::sleep(Duration::from_millis(300));
        kill_process(Pid::from_child(&child), Signal::KILL).map_err(|e| e.to_string())?;
        child.wait().map_err(|e| e.to_string())?;
        if had.devices.len() < 4 {
            return Err("it had not begun".into());
        }
        let begun = Instant::now();
        loop {
            let keepers = holdings(child.id()).keepers;
            let is_left = |(name, number): &&(String, String)| attached_as(name) == *number;
            let devices: Vec<_> = had.devices.iter().filter(is_left).collect();
            if keepers.is_empty() && devices.is_empty() {
                break;
            }
            if begun.elapsed() > Duration::from_secs(30) {
                return Err(format!(
                    "left: processes {keepers:?}, loop devices {devices:?}"
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    Ok("three times".into())
}

fn main() -> ExitCode {
    let number = |flushes_file, flushes_folder| {
        Box::new(Number {
            flushes_file,
            flushes_folder,
        })
    };
    let trial = |name, file_system, subject, goal| Trial {
        name,
        file_system,
        subject,
        goal,
    };
    let clean = Goal::Clean { states: 100 };
    let caught = Goal::Caught { states_max: 2000 };
    use FileSystem::{Btrfs, Ext4Ordered, Ext4Writeback, Xfs};
    let trials = [
        trial(
            "barriers_of_the_file_system_arrive_at_the_disk",
            Ext4Ordered,
            number(true, true),
            Goal::Holds(barriers_arrive),
        ),
        trial(
            "another_disk_is_read_anew_on_ext4",
            Ext4Ordered,
            number(true, true),
            Goal::Holds(another_disk_is_read_anew),
        ),
        trial(
            "another_disk_is_read_anew_on_xfs",
            Xfs,
            number(true, true),
            Goal::Holds(another_disk_is_read_anew),
        ),
        trial(
            "a_test_that_is_killed_leaves_nothing_behind",
            Ext4Ordered,
            number(true, true),
            Goal::Holds(a_kill_leaves_nothing),
        ),
        trial(VICTIM, Ext4Ordered, number(true, true), clean),
        trial(
            "every_power_cut_on_xfs_leaves_a_whole_number",
            Xfs,
            number(true, true),
            clean,
        ),
        trial(
            "every_power_cut_on_btrfs_leaves_a_whole_number",
            Btrfs,
            number(true, true),
            clean,
        ),
        trial(
            "a_file_that_is_not_flushed_is_caught_on_ext4",
            Ext4Writeback,
            number(false, true),
            caught,
        ),
        trial(
            "a_file_that_is_not_flushed_is_caught_on_xfs",
            Xfs,
            number(false, true),
            caught,
        ),
        trial(
            "a_folder_that_is_not_flushed_is_caught_on_ext4",
            Ext4Ordered,
            number(true, false),
            caught,
        ),
        trial(
            "a_folder_that_is_not_flushed_is_caught_on_xfs",
            Xfs,
            number(true, false),
            caught,
        ),
    ];
    run(&trials, &mut std::io::stdout())
}
