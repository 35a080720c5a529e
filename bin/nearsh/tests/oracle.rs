//! Every script of `tests/near/cases` gives the same under nearsh as under its own shell: standard output, standard error, status and the files
//! left behind. What a case is, is in `tests/near/README.md`.
//!
//! The invariant: both runs find the same fixture in the same place, and nothing of one is left when the other begins.

#![allow(clippy::print_stdout, clippy::print_stderr)] // tallies are for people

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use testkit::rig::{self, NEAR, Rig};
use testkit::rng::Rng;

const NEARSH: &str = env!("CARGO_BIN_EXE_nearsh");

#[derive(Default)]
struct Case {
    place: String,
    script: Vec<u8>,
    shell: String,
    is_text: bool,
    arguments: Vec<String>,
    stdin: Option<String>,
}

/// The cases of one file. `=== NAME | KEY=VALUE ...`, then the script.
fn cases(path: &Path) -> Vec<Case> {
    let text = fs::read(path).unwrap();
    let mut cases: Vec<Case> = Vec::new();
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let Some(head) = line.strip_prefix(b"=== ") else {
            if let Some(case) = cases.last_mut() {
                case.script.extend_from_slice(line);
                case.script.push(b'\n');
            }
            continue;
        };
        let head = String::from_utf8(head.to_vec()).unwrap();
        let (name, keys) = head.split_once(" | ").unwrap_or((&head, ""));
        let mut case = Case {
            place: format!("{file}:{}: {name}", number + 1),
            shell: "bash".into(),
            ..Case::default()
        };
        for pair in keys.split_whitespace() {
            match pair.split_once('=').unwrap() {
                ("shell", shell) => case.shell = shell.into(),
                ("as", how) => case.is_text = how == "c",
                ("args", list) => case.arguments = list.split(',').map(Into::into).collect(),
                ("stdin", file) => case.stdin = Some(file.into()),
                _ => panic!("{}: {pair}", case.place),
            }
        }
        cases.push(case);
    }
    for case in &mut cases {
        let end = case.script.iter().rposition(|&byte| byte != b'\n').unwrap() + 1;
        case.script.truncate(end);
        case.script.push(b'\n');
    }
    cases
}

/// What a file is: kind and permissions, and its content or where it points.
type Left = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A name that sshfs gives to files that were removed while somebody had them open.
fn is_passing(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_bytes().starts_with(b".fuse_hidden")
}

fn look(folder: &Path, left: &mut Left) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if is_passing(&path) {
            continue;
        }
        let meta = path.symlink_metadata().unwrap();
        let content = if meta.is_symlink() {
            fs::read_link(&path).unwrap().into_os_string().into_vec()
        } else if meta.is_file() {
            // The index of git has times.
            if path.ends_with(".git/index") {
                Vec::new()
            } else {
                fs::read(&path).unwrap()
            }
        } else {
            Vec::new()
        };
        if meta.is_dir() {
            look(&path, left);
        }
        left.insert(path, (meta.mode(), content));
    }
}

#[derive(PartialEq, Eq)]
struct Outcome {
    status: Option<i32>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    files: Left,
}

/// For how many seconds a script may run where disks are full.
const PATIENCE_S: &str = "5";

/// How much a host's disk holds when it is not full.
const DISK: &str = "64m";

/// The hosts of a rig.
const HOSTS: [&str; 2] = ["alpha", "beta"];

/// Options of sshfs with which it and the kernel remember nothing: what one run leaves is not what the next one sees.
const FORGETFUL: &str = "dir_cache=no,attr_timeout=0,entry_timeout=0,ac_attr_timeout=0";

/// The cases that change most files; those that only read meet little of what a mount remembers.
const CHANGING: [&str; 5] = [
    "files.txt",
    "mixed.txt",
    "programs.txt",
    "redirections.txt",
    "wrappers.txt",
];

/// Where a case runs.
struct Slot {
    /// The folder that has alpha, beta, local and work.
    folder: PathBuf,
    /// alpha and beta themselves, where they are mounts: what lies behind them.
    exports: Option<[PathBuf; 2]>,
    /// Whether disks are full as soon as the fixture is there.
    is_full: Cell<bool>,
    /// Whether the mounts remember what they have seen.
    remembers: bool,
}

impl Slot {
    /// Where the files of a folder can be changed and seen as they are.
    fn real(&self, name: &str) -> PathBuf {
        match (name, &self.exports) {
            ("alpha", Some([alpha, _])) => alpha.clone(),
            ("beta", Some([_, beta])) => beta.clone(),
            _ => self.folder.join(name),
        }
    }

    /// Gives the hosts' disks a size; none: no more than what is there.
    fn resize(&self, size: Option<&str>) {
        for export in self.exports.iter().flatten() {
            let used = nix::sys::statvfs::statvfs(export).unwrap();
            let used = ((used.blocks() - used.blocks_free()) * used.fragment_size()).to_string();
            let options = format!("remount,size={}", size.unwrap_or(&used));
            let mut command = Command::new("mount");
            command.args(["-o", &options]).arg(export);
            assert!(command.status().unwrap().success(), "{command:?}");
        }
    }

    /// Mounts what is not to remember the run before, and has it see all files as they are now.
    fn mount_anew(&self) {
        for host in HOSTS {
            change(&["remount", host]);
            let mut command = Command::new("ls");
            command.arg("-lR").arg(self.folder.join(host));
            // Some folders of the fixture may not be read.
            let _ = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }

    /// Puts the fixture there, whatever there was.
    fn reset(&self, template: &Path) {
        for name in ["alpha", "beta", "local", "work"] {
            let real = self.real(name);
            // Folders without permissions may be left.
            let mut command = Command::new("chmod");
            let _ = command
                .args(["-R", "u+rwx"])
                .arg(&real)
                .stderr(Stdio::null())
                .status();
            // What is mounted stays the folder that it is.
            let _ = fs::create_dir_all(&real);
            for entry in fs::read_dir(&real).unwrap().flatten() {
                let path = entry.path();
                let removed = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    fs::remove_dir_all(&path)
                } else {
                    fs::remove_file(&path)
                };
                // sshfs removes those that were removed while open when they are closed.
                let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
                assert!(removed.as_ref().err().is_none_or(is_gone), "{removed:?}");
            }
            if name == "work" {
                fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
            } else {
                let from = template.join(name).join(".");
                let copied = Command::new("cp").arg("-a").arg(from).arg(&real).status();
                assert!(copied.unwrap().success());
            }
        }
    }
}

fn run(case: &Case, shell: &[&str], slot: &Slot, template: &Path) -> Outcome {
    slot.reset(template);
    if slot.remembers {
        slot.mount_anew();
    }
    let folder = &slot.folder;
    let work = folder.join("work");
    let mut command = Command::new("setsid");
    command.arg("--wait");
    if slot.is_full.get() {
        // Some wait for a file that cannot be written.
        command.args(["timeout", "--foreground", "--signal=KILL", PATIENCE_S]);
    }
    command.args(shell);
    if case.is_text {
        let text = case.script.strip_suffix(b"\n").unwrap();
        command.arg("-c").arg(OsStr::from_bytes(text)).arg("case");
    } else {
        let file = folder.with_extension("case");
        fs::write(&file, &case.script).unwrap();
        command.arg(file);
    }
    let stdin = case
        .stdin
        .as_ref()
        .map_or("/dev/null".into(), |file| folder.join(file));
    command
        .args(&case.arguments)
        .current_dir(&work)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &work)
        // What is remembered is nothing that a script has left behind.
        .env("XDG_STATE_HOME", folder.join("state"))
        .env("LANG", "C.UTF-8")
        .env("TZ", "UTC")
        .env("M", folder.join("alpha"))
        .env("N", folder.join("beta"))
        .env("L", folder.join("local"))
        .stdin(File::open(stdin).unwrap());
    if slot.is_full.get() {
        slot.resize(None);
    }
    let output = command.output().unwrap();
    if slot.is_full.get() {
        slot.resize(Some(DISK));
    }
    let mut files = Left::new();
    for name in ["alpha", "beta", "local", "work"] {
        look(&slot.real(name), &mut files);
    }
    Outcome {
        status: output.status.code(),
        stdout: output.stdout,
        stderr: output.stderr,
        files,
    }
}

fn differences(one: &Outcome, two: &Outcome) -> String {
    let shown = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes).into_owned();
        text.chars().take(400).collect::<String>()
    };
    let mut text = String::new();
    if one.status != two.status {
        text += &format!("  status: {:?} | {:?}\n", one.status, two.status);
    }
    for (name, one, two) in [
        ("stdout", &one.stdout, &two.stdout),
        ("stderr", &one.stderr, &two.stderr),
    ] {
        if one != two {
            text += &format!("  {name}:\n{}\n  ---\n{}\n", shown(one), shown(two));
        }
    }
    for path in one.files.keys().chain(two.files.keys()) {
        if one.files.get(path) != two.files.get(path) {
            text += &format!("  {}\n", path.display());
        }
    }
    text
}

fn all_cases() -> Vec<Case> {
    let mut files: Vec<PathBuf> = (fs::read_dir(format!("{NEAR}/cases")).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let cases: Vec<Case> = files.iter().flat_map(|path| cases(path)).collect();
    assert!(cases.len() >= 600, "{}", cases.len());
    let only = std::env::var("PERDURE_CASES").unwrap_or_default();
    (cases.into_iter())
        .filter(|case| case.place.contains(&only))
        .collect()
}

fn template(base: &Path) -> PathBuf {
    let template = base.join("template");
    let made = Command::new("sh")
        .arg(format!("{NEAR}/fixture.sh"))
        .arg(&template)
        .status();
    assert!(made.unwrap().success());
    template
}

fn scratch() -> tempfile::TempDir {
    let base = if Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    };
    tempfile::tempdir_in(base).unwrap()
}

/// What differs between a case under its own shell and under nearsh.
fn compare(case: &Case, slot: &Slot, template: &Path) -> String {
    let option = format!("--shell={}", case.shell);
    let own = run(case, &[&case.shell], slot, template);
    let near = run(case, &[NEARSH, "--offload=always", &option], slot, template);
    let found = differences(&own, &near);
    if found.is_empty() {
        found
    } else {
        format!("{}\n{found}", case.place)
    }
}

#[test]
fn scripts_give_what_they_give_under_their_own_shell() {
    let base = scratch();
    let template = template(base.path());
    let cases = all_cases();
    let (next, edited, wrong) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        Mutex::new(String::new()),
    );
    std::thread::scope(|scope| {
        for number in 0..2 {
            let slot = Slot {
                folder: base.path().join(format!("slot{number}")),
                exports: None,
                is_full: Cell::new(false),
                remembers: false,
            };
            let (cases, template, next, edited, wrong) =
                (&cases, &template, &next, &edited, &wrong);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    *wrong.lock().unwrap() += &compare(case, &slot, template);
                    edited.fetch_add(usize::from(is_edited(case, &slot)), Ordering::Relaxed);
                }
            });
        }
    });
    let edited = edited.into_inner();
    println!("{} scripts, {edited} of them edited", cases.len());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong}");
    assert!(
        edited * 2 > cases.len() || cases.len() < 600,
        "only {edited} of {} are edited",
        cases.len()
    );
}

/// The same with alpha and beta on other machines: namespaces of this one, with a real sshd each and mounts by sshfs (`tests/near/rig`). What can
/// run there does.
#[test]
fn scripts_give_the_same_where_their_files_lie_elsewhere() {
    let name = "scripts_give_the_same_where_their_files_lie_elsewhere";
    rigs(name, FORGETFUL, &|client, case| {
        let (own, near) = client.both(case, || ());
        differences(&own, &near)
    });
}

/// The same over mounts as people have them, which remember for some twenty seconds what files are like: what ran there must be seen at once. The
/// cases that change files; all of them with `PERDURE_MOUNTS=all`.
#[test]
fn scripts_give_the_same_where_mounts_remember() {
    let has_all = std::env::var("PERDURE_MOUNTS").is_ok_and(|which| which == "all");
    let is_meant =
        |case: &Case| has_all || (CHANGING.iter()).any(|name| case.place.starts_with(name));
    let name = "scripts_give_the_same_where_mounts_remember";
    rigs(name, "", &|client, case| {
        if !is_meant(case) {
            return String::new();
        }
        let (own, near) = client.both(case, || ());
        differences(&own, &near)
    });
}

/// Does something to a rig, on its client.
fn change(words: &[&str]) {
    let done = Command::new("rig").args(words).output().unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

/// The same while connections are cut, agents are killed, and the line is slow. A stage that cannot be run twice may be lost: then nearsh says so.
#[test]
fn scripts_give_the_same_when_connections_fail() {
    rigs(
        "scripts_give_the_same_when_connections_fail",
        FORGETFUL,
        &|client, case| {
            let kind = client.rng.borrow_mut().below(20);
            let host = HOSTS[client.rng.borrow_mut().below(2) as usize];
            let bytes = client.rng.borrow_mut().below(30_000).to_string();
            let (own, near) = client.both(case, || match kind {
                0 | 1 => change(&["cut", host, &bytes]),
                2 => change(&["refuse", host]),
                3 => change(&["slow", host, "2mbit"]),
                _ => {
                    let millis = client.rng.borrow_mut().below(60) as f64 / 1000.0;
                    let kill =
                        format!("sleep {millis}; rig in {host} pkill -KILL -f 'nearsh agent'");
                    let mut killer = Command::new("sh").args(["-c", &kill]).spawn().unwrap();
                    std::thread::spawn(move || killer.wait());
                }
            });
            change(&["heal", host]);
            if client.has_lost() {
                client.lost.set(client.lost.get() + 1);
                return String::new();
            }
            let found = differences(&own, &near);
            if found.is_empty() {
                found
            } else {
                format!("  fault {kind} at {host}, {bytes}\n{found}")
            }
        },
    );
}

/// The same while the hosts have no room for another byte, for temporary files neither.
#[test]
fn scripts_give_the_same_where_disks_are_full() {
    let name = "scripts_give_the_same_where_disks_are_full";
    let full = Cell::new(0);
    rigs(name, FORGETFUL, &|client, case| {
        if !client.slot.is_full.replace(true) {
            for host in HOSTS {
                change(&["in", host, "mount", "-o", "remount,size=4k", "/tmp"]);
            }
        }
        // What was removed while somebody had it open may give its room back in the middle of a script: that happens once.
        let found = where_full(client, case, &full);
        if found.is_empty() {
            found
        } else {
            where_full(client, case, &full)
        }
    });
    println!("{} scripts said that a disk is full", full.get());
}

/// What differs where disks are full.
fn where_full(client: &Client, case: &Case, full: &Cell<usize>) -> String {
    let (mut own, near) = client.both(case, || ());
    // Nor can those say what they meet that send messages nowhere.
    let quiet = b"2>/dev/null";
    let is_quiet = case.script.windows(quiet.len()).any(|part| part == quiet);
    if own.status == Some(137) || is_quiet {
        return String::new();
    }
    // sshfs has no word for a full disk, and tells most commands of it too late, or never: they go on with what they have not written. What runs
    // there knows, and says so.
    if says_full(&near.stderr) {
        full.set(full.get() + 1);
        return String::new();
    }
    if says_full(&own.stderr) {
        own.stderr.clone_from(&near.stderr);
    }
    differences(&own, &near)
}

/// Whether a message says that something could not be written.
fn says_full(stderr: &[u8]) -> bool {
    let text = String::from_utf8_lossy(stderr);
    let words = [
        "No space left on device",
        "Operation not permitted",
        "Input/output error",
    ];
    words.iter().any(|word| text.contains(word))
}

/// The client of a rig.
struct Client {
    slot: Slot,
    template: PathBuf,
    rng: RefCell<Rng>,
    /// Scripts of which a stage was lost.
    lost: Cell<usize>,
    /// What is known to have been lost.
    known: RefCell<BTreeSet<String>>,
}

impl Client {
    /// A case under its own shell and under nearsh, after `fault`.
    fn both(&self, case: &Case, fault: impl Fn()) -> (Outcome, Outcome) {
        let option = format!("--shell={}", case.shell);
        let own = run(case, &[&case.shell], &self.slot, &self.template);
        fault();
        let near = [NEARSH, "--offload=always", &option];
        let of_near = run(case, &near, &self.slot, &self.template);
        // With nothing remembered sshfs may give a file another inode between cp's two looks at it: that is between those two.
        let (shown, quirk) = (&of_near.stderr, b"as it was replaced while being copied");
        if shown.windows(quirk.len()).any(|part| part == quirk) {
            fault();
            return (own, run(case, &near, &self.slot, &self.template));
        }
        (own, of_near)
    }

    /// What ran on hosts lately.
    fn records(&self) -> String {
        let mut command = Command::new(NEARSH);
        command
            .arg("stats")
            .env("XDG_STATE_HOME", self.slot.folder.join("state"));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// Whether something has been lost that had not been when this was asked last.
    fn has_lost(&self) -> bool {
        let records = self.records();
        let lost = records.lines().filter(|line| line.contains(" (lost: "));
        let mut known = self.known.borrow_mut();
        lost.filter(|line| known.insert((*line).to_owned())).count() > 0
    }
}

/// Runs this very test on the clients of two rigs whose mounts have some options of `sshfs`, each with a half of the cases.
fn rigs(name: &str, sshfs: &str, judge: &dyn Fn(&Client, &Case) -> String) {
    if std::env::var_os("PERDURE_EXPORTS").is_some() {
        return in_rig(sshfs.is_empty(), judge);
    }
    if let Some(why) = rig::lack("PERDURE_RIG") {
        eprintln!("{why}");
        return;
    }
    let base = scratch();
    let template = template(base.path());
    let started: Vec<_> = (0..2)
        .map(|part| {
            let exports = base.path().join(format!("part{part}"));
            // Each host has a disk of its own.
            let disks = format!(
                "for host in {}; do mount -t tmpfs -o mode=755,size={DISK} export \"$0/$host\" || exit; done; exec \"$@\"",
                HOSTS.join(" ")
            );
            let mut command = Command::new("unshare");
            command.args(["--mount", "sh", "-c", &disks]).arg(&exports);
            let mut rig = Rig::within(command, &HOSTS).with(&["--nearsh", NEARSH]);
            let command = &mut rig.command;
            for host in HOSTS {
                fs::create_dir_all(exports.join(host)).unwrap();
                let export = format!("{host}={}", exports.join(host).display());
                command.args(["--export", &export]);
            }
            if !sshfs.is_empty() {
                command.args(["--sshfs", sshfs]);
            }
            command
                .arg("--")
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", name, "--nocapture", "--test-threads=1"])
                .env("PERDURE_EXPORTS", exports)
                .env("PERDURE_TEMPLATE", &template)
                .env("PERDURE_PART", part.to_string())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let running = command.spawn().unwrap();
            (rig, running)
        })
        .collect();
    for (_rig, running) in started {
        let output = running.wait_with_output().unwrap();
        // Not as if it were this test's own result: who adds those up would count it twice.
        let text = String::from_utf8_lossy(&output.stdout).replace('\n', "\n    ");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "\n    {text}{errors}");
        println!("    {text}");
    }
}

/// Every second case, on the client of a rig.
fn in_rig(remembers: bool, judge: &dyn Fn(&Client, &Case) -> String) {
    let variable = |name| PathBuf::from(std::env::var_os(name).unwrap());
    let part: usize = std::env::var("PERDURE_PART").unwrap().parse().unwrap();
    let exports = variable("PERDURE_EXPORTS");
    let client = Client {
        slot: Slot {
            folder: variable("NEAR_MNT"),
            exports: Some(HOSTS.map(|host| exports.join(host))),
            is_full: Cell::new(false),
            remembers,
        },
        template: variable("PERDURE_TEMPLATE"),
        rng: RefCell::new(Rng::new(Rng::seed_from_env())),
        lost: Cell::new(0),
        known: RefCell::default(),
    };
    let mut wrong = String::new();
    let mut count = 0;
    for case in all_cases().iter().skip(part).step_by(2) {
        count += 1;
        let found = judge(&client, case);
        if !found.is_empty() {
            wrong += &format!("{}\n{found}", case.place);
        }
    }
    // Of the last thousand groups, which are those of some hundred scripts.
    let records = client.records();
    let here = records.lines().filter(|line| line.contains("(here: "));
    println!(
        "{count} scripts, {} with a stage that was lost; of the last {} groups {} ran here",
        client.lost.get(),
        records.lines().count().saturating_sub(1),
        here.clone().count()
    );
    let mut reasons = BTreeMap::new();
    for line in here {
        let reason = line.rsplit_once("(here: ").unwrap().1;
        let reason = reason.rsplit_once(": ").map_or(reason, |(_, last)| last);
        *reasons.entry(reason).or_insert(0) += 1;
    }
    println!("{reasons:#?}");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(client.lost.get() * 10 < count, "too many were lost");
}

/// Whether nearsh puts a helper into the script at all.
fn is_edited(case: &Case, slot: &Slot) -> bool {
    let mut command = Command::new(NEARSH);
    command.args(["--offload=always", "--debug=edit"]);
    command.arg(format!("--shell={}", case.shell));
    if case.is_text {
        command
            .arg("-c")
            .arg(OsString::from_vec(case.script.clone()));
    } else {
        command.arg(slot.folder.with_extension("case"));
    }
    let shown = command
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let helper = format!("{NEARSH} @");
    shown
        .stdout
        .windows(helper.len())
        .any(|w| w == helper.as_bytes())
}
