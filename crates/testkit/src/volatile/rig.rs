//! A disk with a file system on it, in a mount namespace of its own, as the test's process sees it.
//!
//! The invariant: whatever is set up here is held by the keeper process alone; when that ends, by itself, by an error or by a
//! kill, the kernel takes all of it down.

use super::disk::{Disk, Image};
use super::keeper::Places;
use super::serve::serve;
use crate::rng::Rng;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How the test program is told which part it plays; see `runner.rs`.
pub const ROLE: &str = "PERDURE_VOLATILE_ROLE";
pub const TRIAL: &str = "PERDURE_VOLATILE_TRIAL";
pub const SCRATCH: &str = "PERDURE_VOLATILE_SCRATCH";
pub const SEED: &str = "PERDURE_VOLATILE_SEED";
pub const KILL_US: &str = "PERDURE_VOLATILE_KILL_US";
const MIB: u64 = 1 << 20;
/// Nothing takes so long; what does, hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// Scratch folders: "perdure-volatile-PID-xxxxxx".
const PREFIX: &str = "perdure-volatile-";

/// A file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    /// As it comes: a file's new blocks are written before the journal says that they are the file's.
    Ext4Ordered,
    /// They may be written later.
    Ext4Writeback,
    Xfs,
    Btrfs,
}

impl FileSystem {
    fn kind(self) -> &'static str {
        match self {
            FileSystem::Ext4Ordered | FileSystem::Ext4Writeback => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// The least that its tools take, or a little more.
    fn disk_bytes(self) -> u64 {
        match self {
            FileSystem::Ext4Ordered | FileSystem::Ext4Writeback => 96 * MIB,
            FileSystem::Xfs => 320 * MIB,
            FileSystem::Btrfs => 128 * MIB,
        }
    }

    /// What it takes a disk to write atomically, while it is in use.
    pub fn piece_bytes(self) -> usize {
        match self {
            // It writes its superblock in every transaction.
            FileSystem::Btrfs => self.superblock_bytes(),
            _ => super::disk::SECTOR_BYTES,
        }
    }

    /// The same while it is mounted: a superblock that is torn then, of 4096 or 1024 bytes, is one that ext4 and btrfs do not
    /// mount ("bad message": its checksum), and they look at none of its copies by themselves.
    pub fn superblock_bytes(self) -> usize {
        match self {
            FileSystem::Xfs => super::disk::SECTOR_BYTES,
            _ => 4096,
        }
    }

    fn make(self) -> (&'static str, &'static [&'static str]) {
        match self {
            // A small journal: it comes around more often.
            FileSystem::Ext4Ordered | FileSystem::Ext4Writeback => (
                "mkfs.ext4",
                &[
                    "-q",
                    "-F",
                    "-b",
                    "4096",
                    "-J",
                    "size=4",
                    "-E",
                    "lazy_itable_init=0,lazy_journal_init=0,nodiscard",
                ],
            ),
            FileSystem::Xfs => ("mkfs.xfs", &["-q", "-f", "-K"]),
            FileSystem::Btrfs => ("mkfs.btrfs", &["-q", "-f", "-K"]),
        }
    }

    fn mount_options(self) -> &'static str {
        match self {
            FileSystem::Ext4Ordered => "data=ordered,commit=1",
            FileSystem::Ext4Writeback => "data=writeback,commit=1",
            // Copies of one disk are mounted at the same time.
            FileSystem::Xfs => "nouuid",
            FileSystem::Btrfs => "commit=1",
        }
    }
}

/// Why there can be no [`Rig`] with this file system here; none if there can.
pub fn why_not_here(file_system: FileSystem) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("needs root, to mount".into());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(e) = File::options().read(true).write(true).open(device) {
            return Some(format!("needs {device}: {e}"));
        }
    }
    for program in [
        "unshare",
        "nsenter",
        "losetup",
        "mount",
        file_system.make().0,
    ] {
        if !is_on_path(program) {
            return Some(format!("needs {program}"));
        }
    }
    let kinds = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let kind = file_system.kind();
    let is_known = kinds.split_whitespace().any(|word| word == kind);
    // A module would be loaded by the first mount; whether there is one is known only then.
    if !is_known && !is_module(kind) {
        return Some(format!("this kernel has no {kind}"));
    }
    let may = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "true"])
        .stderr(Stdio::null())
        .status();
    match may {
        Ok(status) if status.success() => None,
        _ => Some("may make no mount namespace here".into()),
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

fn is_module(kind: &str) -> bool {
    Command::new("modinfo")
        .arg(kind)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// See the module.
pub struct Rig {
    file_system: FileSystem,
    trial: String,
    places: Places,
    disk: Disk,
    device: String,
    keeper: Child,
    link: Option<BufReader<UnixStream>>,
}

impl Rig {
    /// A blank disk, served and attached. `trial` is the name by which the processes above it find their subject.
    ///
    /// # Errors
    /// Whatever cannot be had.
    pub fn new(file_system: FileSystem, trial: &str) -> Result<Rig, String> {
        remove_leftovers();
        let scratch = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .tempdir()
            .map_err(|e| format!("a scratch folder: {e}"))?
            .keep();
        let places = Places { scratch };
        let io = |what: &'static str| move |e: std::io::Error| format!("{what}: {e}");
        for folder in [places.disk_folder(), places.mount_point()] {
            fs::create_dir(folder).map_err(io("a folder to mount on"))?;
        }
        fs::write(places.boot_id(), "").map_err(io("the identity of the boot"))?;
        let listener = UnixListener::bind(places.socket()).map_err(io("a socket"))?;
        let fuse = File::options()
            .read(true)
            .write(true)
            .open("/dev/fuse")
            .map_err(io("/dev/fuse"))?;
        let myself = std::env::current_exe().map_err(io("this program"))?;
        // The descriptor is given as standard input: that needs no unsafe code. Nobody above the disk may keep it, or the
        // file system would outlive its server.
        let script = r#"set -e
            mount -i -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 perdure-volatile "$1/disk"
            mount --bind "$1/boot_id" /proc/sys/kernel/random/boot_id
            exec "$2" </dev/null"#;
        let keeper = Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                "sh",
            ])
            .arg(&places.scratch)
            .arg(myself)
            .env(ROLE, "keeper")
            .env(TRIAL, trial)
            .env(SCRATCH, &places.scratch)
            .current_dir("/")
            .stdin(fuse.try_clone().map_err(io("/dev/fuse"))?)
            .stdout(Stdio::null())
            .spawn()
            .map_err(io("unshare"))?;
        let mut rig = Rig {
            file_system,
            trial: trial.into(),
            places,
            disk: Disk::new(file_system.disk_bytes()),
            device: String::new(),
            keeper,
            link: None,
        };
        rig.new_boot(&mut Rng::new(Rng::seed_from_env()));
        let begun = Instant::now();
        while let Err(e) = serve(&rig.disk, &fuse) {
            rig.wait_a_little(begun, &format!("the file system of the disk: {e}"))?;
        }
        drop(fuse);
        listener.set_nonblocking(true).map_err(io("a socket"))?;
        let link = loop {
            match listener.accept() {
                Ok((link, _)) => break link,
                Err(_) => rig.wait_a_little(begun, "the keeper does not come")?,
            }
        };
        link.set_nonblocking(false).map_err(io("a socket"))?;
        link.set_read_timeout(Some(PATIENCE))
            .map_err(io("a socket"))?;
        rig.link = Some(BufReader::new(link));
        rig.device = rig.tell("attach")?;
        Ok(rig)
    }

    fn wait_a_little(&mut self, begun: Instant, what: &str) -> Result<(), String> {
        if let Ok(Some(status)) = self.keeper.try_wait() {
            return Err(format!("{what}; the keeper has ended: {status}"));
        }
        if begun.elapsed() > PATIENCE {
            return Err(what.into());
        }
        std::thread::sleep(Duration::from_millis(1));
        Ok(())
    }

    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The block device above the disk.
    pub fn device(&self) -> &Path {
        Path::new(&self.device)
    }

    /// The file system, empty but for the folder of the subject, on a disk where all of it is on the medium.
    ///
    /// # Errors
    /// What its tools say.
    pub fn make_file_system(&mut self) -> Result<Image, String> {
        let (program, arguments) = self.file_system.make();
        let output = Command::new(program)
            .args(arguments)
            .arg(&self.device)
            .output()
            .map_err(|e| format!("{program}: {e}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{program}: {}", why.trim()));
        }
        self.mount()?;
        self.tell("prepare")?;
        self.unmount()?;
        Ok(self.disk.image())
    }

    /// # Errors
    /// The file system's.
    pub fn mount(&mut self) -> Result<(), String> {
        let (kind, options) = (self.file_system.kind(), self.file_system.mount_options());
        self.tell(&format!("mount {kind} {options}")).map(drop)
    }

    /// # Errors
    /// The file system's.
    pub fn unmount(&mut self) -> Result<(), String> {
        self.tell("unmount").map(drop)
    }

    /// Everything written to the mounted file system goes to the medium.
    ///
    /// # Errors
    /// The file system's.
    pub fn sync(&mut self) -> Result<(), String> {
        self.tell("sync").map(drop)
    }

    /// The fingerprint of what the subject finds.
    ///
    /// # Errors
    /// What the subject says, or why it could not.
    pub fn inspect(&mut self) -> Result<u64, String> {
        self.tell("inspect").and_then(|text| number(&text))
    }

    /// The fingerprint of what the subject committed durably.
    ///
    /// # Errors
    /// What the subject says, or why it could not.
    pub fn go_on(&mut self, seed: u64) -> Result<u64, String> {
        self.tell(&format!("go_on {seed}"))
            .and_then(|text| number(&text))
    }

    /// From now on the machine seems to have started anew, to those who ask for the boot's identity.
    ///
    /// # Panics
    /// If a file in the scratch folder cannot be written.
    pub fn new_boot(&mut self, rng: &mut Rng) {
        let digits = format!("{:016x}{:016x}", rng.draw(), rng.draw());
        let parts = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        fs::write(self.places.boot_id(), format!("{}\n", parts.join("-")))
            .expect("a file of a few bytes");
    }

    /// A process that works on the mounted file system; `heard` is called with every line that it reports. Gives back whether it
    /// ended as it should; `false` if it was killed.
    ///
    /// # Errors
    /// What the subject said, or `heard`.
    pub fn work(
        &mut self,
        seed: u64,
        kill_after: Option<Duration>,
        mut heard: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<bool, String> {
        let myself = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id()))
            .arg(myself)
            .env(ROLE, "work")
            .env(TRIAL, &self.trial)
            .env(SCRATCH, &self.places.scratch)
            .env(SEED, seed.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(time) = kill_after {
            command.env(KILL_US, time.as_micros().to_string());
        }
        let mut child = command.spawn().map_err(|e| format!("nsenter: {e}"))?;
        let (Some(mut answers), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("no pipes".into());
        };
        let mut outcome = Ok(());
        for line in BufReader::new(out).lines() {
            let Ok(line) = line else { break };
            outcome = heard(&line);
            // A process that was killed takes no answer.
            if outcome.is_err() || answers.write_all(b"\n").is_err() {
                break;
            }
        }
        drop(answers);
        if outcome.is_err() {
            let _ = child.kill();
        }
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        outcome?;
        let was_killed = std::os::unix::process::ExitStatusExt::signal(&output.status) == Some(9);
        match (output.status.success(), was_killed && kill_after.is_some()) {
            (true, _) => Ok(true),
            (false, true) => Ok(false),
            (false, false) => {
                let why = String::from_utf8_lossy(&output.stderr);
                Err(format!("work: {}: {}", output.status, why.trim()))
            }
        }
    }

    fn tell(&mut self, what: &str) -> Result<String, String> {
        let gone = |e: std::io::Error| format!("{what}: the keeper is gone or hangs: {e}");
        let link = self.link.as_mut().ok_or("the keeper is gone")?;
        let mut answer = String::new();
        let asked = link.get_mut().write_all(format!("{what}\n").as_bytes());
        asked
            .and_then(|()| link.read_line(&mut answer))
            .map_err(gone)?;
        let answer = answer.trim_end();
        match answer.split_once(' ').unwrap_or((answer, "")) {
            ("ok", value) => Ok(value.into()),
            ("no", why) => Err(why.into()),
            _ => {
                self.link = None;
                let status = self.keeper.wait().map_err(|e| e.to_string())?;
                Err(format!("{what}: the keeper died: {status}"))
            }
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("\"{text}\" is no number"))
}

impl Drop for Rig {
    fn drop(&mut self) {
        // It ends when the link does; the kernel takes its mounts and its loop device down, while the disk is still served.
        self.link = None;
        let begun = Instant::now();
        while let Ok(None) = self.keeper.try_wait() {
            if begun.elapsed() > Duration::from_secs(20) {
                let _ = self.keeper.kill();
                let _ = self.keeper.wait();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = fs::remove_dir_all(&self.places.scratch);
    }
}

/// Scratch folders of processes that were killed. There is nothing mounted on them any more; if there were, they would not be
/// removed: only empty folders and the files of this module are.
fn remove_leftovers() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        if pid.is_none_or(|pid: u32| Path::new(&format!("/proc/{pid}")).exists()) {
            continue;
        }
        let places = Places {
            scratch: entry.path(),
        };
        for file in [places.socket(), places.boot_id()] {
            let _ = fs::remove_file(file);
        }
        for folder in [places.disk_folder(), places.mount_point(), entry.path()] {
            let _ = fs::remove_dir(folder);
        }
    }
}
