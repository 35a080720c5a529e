//! Every script of `tests/near/cases` gives the same under nearsh as under its own shell: standard output, standard error, status and the files
//! left behind. What a case is, is in `tests/near/README.md`.
//!
//! The invariant: both runs find the same fixture in the same place, and nothing of one is left when the other begins.

#![allow(clippy::print_stdout)] // tallies are for people

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const NEARSH: &str = env!("CARGO_BIN_EXE_nearsh");
const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/near");

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

fn look(folder: &Path, left: &mut Left) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
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

fn run(case: &Case, shell: &[&str], slot: &Path, template: &Path) -> Outcome {
    // Folders without permissions may be left.
    let _ = Command::new("chmod")
        .args(["-R", "u+rwx"])
        .arg(slot)
        .stderr(Stdio::null())
        .status();
    let _ = fs::remove_dir_all(slot);
    let copied = Command::new("cp")
        .arg("-a")
        .arg(template)
        .arg(slot)
        .status();
    assert!(copied.unwrap().success());
    let work = slot.join("work");
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setsid");
    command.arg("--wait").args(shell);
    if case.is_text {
        let text = case.script.strip_suffix(b"\n").unwrap();
        command.arg("-c").arg(OsStr::from_bytes(text)).arg("case");
    } else {
        let file = slot.with_extension("case");
        fs::write(&file, &case.script).unwrap();
        command.arg(file);
    }
    let stdin = case
        .stdin
        .as_ref()
        .map_or("/dev/null".into(), |file| slot.join(file));
    command
        .args(&case.arguments)
        .current_dir(&work)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", &work)
        .env("LANG", "C.UTF-8")
        .env("TZ", "UTC")
        .env("M", slot.join("alpha"))
        .env("N", slot.join("beta"))
        .env("L", slot.join("local"))
        .stdin(File::open(stdin).unwrap());
    let output = command.output().unwrap();
    let mut files = Left::new();
    look(slot, &mut files);
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

#[test]
fn scripts_give_what_they_give_under_their_own_shell() {
    let base = if Path::new("/dev/shm").is_dir() {
        "/dev/shm"
    } else {
        "/tmp"
    };
    let base = tempfile::tempdir_in(base).unwrap();
    let template = base.path().join("template");
    let made = Command::new("sh")
        .arg(format!("{CASES}/fixture.sh"))
        .arg(&template)
        .status();
    assert!(made.unwrap().success());
    let mut files: Vec<PathBuf> = (fs::read_dir(format!("{CASES}/cases")).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let cases: Vec<Case> = files.iter().flat_map(|path| cases(path)).collect();
    assert!(cases.len() >= 600, "{}", cases.len());
    let (next, edited, wrong) = (
        AtomicUsize::new(0),
        AtomicUsize::new(0),
        Mutex::new(String::new()),
    );
    std::thread::scope(|scope| {
        for number in 0..2 {
            let slot = base.path().join(format!("slot{number}"));
            let (cases, template, next, edited, wrong) =
                (&cases, &template, &next, &edited, &wrong);
            scope.spawn(move || {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let option = format!("--shell={}", case.shell);
                    let own = run(case, &[&case.shell], &slot, template);
                    let near = run(
                        case,
                        &[NEARSH, "--offload=always", &option],
                        &slot,
                        template,
                    );
                    edited.fetch_add(
                        usize::from(is_edited(case, &slot, &option)),
                        Ordering::Relaxed,
                    );
                    let found = differences(&own, &near);
                    if !found.is_empty() {
                        *wrong.lock().unwrap() += &format!("{}\n{found}", case.place);
                    }
                }
            });
        }
    });
    let edited = edited.into_inner();
    println!("{} scripts, {edited} of them edited", cases.len());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong}");
    assert!(
        edited * 2 > cases.len(),
        "only {edited} of {} are edited",
        cases.len()
    );
}

/// Whether nearsh puts a helper into the script at all.
fn is_edited(case: &Case, slot: &Path, option: &str) -> bool {
    let mut command = Command::new(NEARSH);
    command.args(["--offload=always", "--debug=edit", option]);
    if case.is_text {
        command
            .arg("-c")
            .arg(OsString::from_vec(case.script.clone()));
    } else {
        command.arg(slot.with_extension("case"));
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
