//! Runs one case in a folder of its own and compares what came out.
//!
//! Layout of the folder: `work/` is the current directory of the case, with `prog.awk` and its input files; heaps,
//! captured output and the wrapper that stands for `$AWK` lie beside it, where the case does not see them.
//!
//! Invariant: no process of a case lives longer than [`TIME_LIMIT`] after the case has ended or expired.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::Mode;
use super::case::{Action, Case, GawkVersion};
use super::diff;

/// A case that takes longer has failed. Generous: a case takes milliseconds, a loaded machine may take seconds.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// What an earlier process leaves in the heap before a case is run in [`Mode::Reopened`]: names that no case uses.
const SEED_PROGRAM: &str = r#"
function seed_function(seed_n) { return seed_n < 1 ? 0 : seed_n + seed_function(seed_n - 1) }
BEGIN {
    for (seed_i = 1; seed_i <= 300; seed_i++) seed_array[seed_i, "k"] = "value " seed_i
    delete seed_array[7, "k"]
    seed_scalar = "seed"; seed_number = seed_function(10) / 4
}
"#;

/// The output of one process of a case.
struct Captured {
    status: i32,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// Runs `case` with `program` as its interpreter. The error is a description of the differences, for a person.
pub fn run_case(case: &Case, program: &Path, mode: Mode) -> Result<(), String> {
    let room = tempfile::Builder::new()
        .prefix("awk-case-")
        .tempdir()
        .map_err(|error| format!("no temporary folder: {error}\n"))?;
    let captured = run_in(case, program, mode, room.path()).map_err(|why| format!("{why}\n"))?;

    let mut difference = String::new();
    if captured.status != case.status {
        difference.push_str(&format!(
            "status {} (expected {})\n",
            captured.status, case.status
        ));
    }
    diff::describe("stdout", &case.stdout, &captured.stdout, &mut difference);
    if mode != Mode::Reference {
        check_messages(case, &captured.stderr, &mut difference);
    }
    for file in &case.files_left {
        match fs::read(room.path().join("work").join(&file.name)) {
            Ok(content) => diff::describe(&file.name, &file.content, &content, &mut difference),
            Err(error) => difference.push_str(&format!("{}: {error}\n", file.name)),
        }
    }
    if difference.is_empty() {
        return Ok(());
    }
    if mode != Mode::Reference && !captured.stderr.is_empty() {
        difference.push_str("stderr was\n");
        for line in captured
            .stderr
            .split_inclusive(|&byte| byte == b'\n')
            .take(10)
        {
            difference.push_str(&format!("      {}\n", diff::shown(line)));
        }
    }
    Err(difference)
}

/// The version that `program --version` tells on its first line, `GNU Awk 5.3.2, API 4.0`; `None` if it is no gawk.
pub fn gawk_version(program: &Path) -> Option<GawkVersion> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.strip_prefix("GNU Awk ")?.split(['.', ',']);
    GawkVersion::parse(&format!("{}.{}", numbers.next()?, numbers.next()?))
}

fn check_messages(case: &Case, stderr: &[u8], difference: &mut String) {
    if case.stderr.is_empty() {
        diff::describe("stderr", b"", stderr, difference);
        return;
    }
    let text = String::from_utf8_lossy(stderr).to_lowercase();
    for pattern in &case.stderr {
        let is_there = match pattern.as_str() {
            "any" => !text.is_empty(),
            "ignored" => true,
            pattern => pattern.split('|').any(|choice| text.contains(choice)),
        };
        if !is_there {
            difference.push_str(&format!("stderr does not contain {pattern:?}\n"));
        }
    }
}

fn run_in(case: &Case, program: &Path, mode: Mode, room: &Path) -> Result<Captured, String> {
    let explain = |error: io::Error| format!("cannot set the case up: {error}");
    let work = room.join("work");
    fs::create_dir(&work).map_err(explain)?;
    for file in &case.files {
        let path = work.join(&file.name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(explain)?;
        }
        fs::write(path, &file.content).map_err(explain)?;
    }
    fs::write(room.join("stdin"), &case.stdin).map_err(explain)?;

    let text = match &case.action {
        Action::Script(script) => return run_script(case, script, program, mode, room),
        Action::Program(text) => text,
    };
    if mode == Mode::Reopened {
        seed_heap(case, program, room)?;
        if let Some((first, second)) = case.halves() {
            let mut captured = run_program(case, first, program, mode, room)?;
            if captured.status != 0 {
                return Ok(captured);
            }
            let rest = run_program(case, second, program, mode, room)?;
            captured.status = rest.status;
            captured.stdout.extend_from_slice(&rest.stdout);
            captured.stderr.extend_from_slice(&rest.stderr);
            return Ok(captured);
        }
    }
    run_program(case, text, program, mode, room)
}

fn run_program(
    case: &Case,
    text: &[u8],
    program: &Path,
    mode: Mode,
    room: &Path,
) -> Result<Captured, String> {
    fs::write(room.join("work/prog.awk"), text).map_err(|error| format!("prog.awk: {error}"))?;
    let mut command = Command::new(program);
    command.args(option(mode, room));
    command.args(["-f", "prog.awk"]).args(&case.args);
    run_command(case, command, program, room)
}

fn run_script(
    case: &Case,
    script: &str,
    program: &Path,
    mode: Mode,
    room: &Path,
) -> Result<Captured, String> {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script);
    match mode {
        Mode::Persistent | Mode::Reopened | Mode::Native | Mode::Machine => {
            let wrapper = room.join("awk");
            write_wrapper(&wrapper, program, mode, room)
                .map_err(|error| format!("wrapper: {error}"))?;
            run_command(case, command, &wrapper, room)
        }
        Mode::Session => {
            command.env("HEAP", room.join("heap"));
            run_command(case, command, program, room)
        }
        Mode::Volatile | Mode::Reference => run_command(case, command, program, room),
    }
}

/// The option that makes a run one of the mode.
fn option(mode: Mode, room: &Path) -> Option<String> {
    match mode {
        Mode::Persistent | Mode::Reopened => Some(heap_option(room)),
        Mode::Native => Some("--native=always".to_string()),
        Mode::Machine => Some("--no-optimize".to_string()),
        Mode::Volatile | Mode::Session | Mode::Reference => None,
    }
}

/// A file that somebody has open for writing cannot be run ("Text file busy"), and a process that is just being started has all
/// that this one has open: so none is started while an executable is written.
static EXECUTABLES: RwLock<()> = RwLock::new(());

/// Each process of a script has a heap of its own: they may run at once, and a heap has one writer.
fn write_wrapper(wrapper: &Path, program: &Path, mode: Mode, room: &Path) -> io::Result<()> {
    let seed_path = room.join("seed.awk");
    fs::write(&seed_path, SEED_PROGRAM)?;
    let (program, seed_path) = (program.display(), seed_path.display());
    let option = match mode {
        Mode::Native | Mode::Machine => option(mode, room).unwrap_or_default(),
        _ => "--persist=\"$heap\"".to_string(),
    };
    let room = room.display();
    let mut text = format!("#!/bin/sh\nheap='{room}'/heap.$$\n");
    if mode == Mode::Reopened {
        text.push_str(&format!(
            "'{program}' --persist=\"$heap\" -f '{seed_path}' </dev/null || exit 99\n"
        ));
    }
    text.push_str(&format!("exec '{program}' {option} \"$@\"\n"));
    let _writing = EXECUTABLES.read().unwrap_or_else(PoisonError::into_inner);
    fs::write(wrapper, text)?;
    fs::set_permissions(wrapper, fs::Permissions::from_mode(0o755))
}

fn seed_heap(case: &Case, program: &Path, room: &Path) -> Result<(), String> {
    let mut command = Command::new(program);
    command.arg(heap_option(room)).arg(SEED_PROGRAM);
    let captured = run_command(case, command, program, room)?;
    if captured.status == 0 && captured.stdout.is_empty() && captured.stderr.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the heap could not be filled before the case: status {}, {}",
        captured.status,
        String::from_utf8_lossy(&captured.stderr)
    ))
}

fn heap_option(room: &Path) -> String {
    format!("--persist={}", room.join("heap").display())
}

fn run_command(
    case: &Case,
    mut command: Command,
    awk: &Path,
    room: &Path,
) -> Result<Captured, String> {
    let explain = |error: io::Error| format!("cannot run {}: {error}", awk.display());
    let (stdout_path, stderr_path) = (room.join("stdout"), room.join("stderr"));
    let kept: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect();
    command
        .current_dir(room.join("work"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("LC_ALL", &case.locale)
        .env("TZ", "UTC")
        .env("TMPDIR", room)
        .env("AWK", awk)
        .envs(kept)
        .envs(case.env.iter().map(|(name, value)| (name, value)))
        .stdin(File::open(room.join("stdin")).map_err(explain)?)
        .stdout(Stdio::from(File::create(&stdout_path).map_err(explain)?))
        .stderr(Stdio::from(File::create(&stderr_path).map_err(explain)?))
        .process_group(0);
    let status = wait_or_kill(&mut command).map_err(explain)?;
    let Some(status) = status else {
        return Err(format!(
            "still running after {} s, killed",
            TIME_LIMIT.as_secs()
        ));
    };
    Ok(Captured {
        status: status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0)),
        stdout: fs::read(stdout_path).map_err(explain)?,
        stderr: fs::read(stderr_path).map_err(explain)?,
    })
}

/// `None` if the process had to be killed.
fn wait_or_kill(command: &mut Command) -> io::Result<Option<ExitStatus>> {
    let mut child = {
        let _starting = EXECUTABLES.write().unwrap_or_else(PoisonError::into_inner);
        command.spawn()?
    };
    let started = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() > TIME_LIMIT {
            // The whole group: a pipeline or a child of system() would outlive its parent and the temporary folder.
            let _ = Command::new("kill")
                .args(["-KILL", "--", &format!("-{}", child.id())])
                .stderr(Stdio::null())
                .status();
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(4));
    }
}
