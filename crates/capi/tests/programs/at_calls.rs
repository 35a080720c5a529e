//! Programs killed at each system call that changes a file: between two of them nothing that a process does can be seen in its files, so this is all
//! that SIGKILL can do to a heap that is written by system calls. The test traces the program with ptrace(2) and counts.

use crate::build::{Built, build};
use heap::{Heap, Options, Verify};
use std::ffi::c_long;
use std::fs::{File, write};
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::rng::Rng;

/// Calls that change files, or tell of a commit.
const CHANGING: [c_long; 16] = [
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_openat,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_sync_file_range,
    libc::SYS_msync,
];

fn ptrace(request: u32, pid: i32, address: usize, data: usize) {
    // SAFETY: requests of this module, about a tracee of this thread that has stopped; what `data` points to is as the request wants it.
    let done = unsafe { libc::ptrace(request, pid, address, data) };
    // A tracee that was killed meanwhile is no error: its end is told by the next wait.
    let error = std::io::Error::last_os_error();
    assert!(
        done >= 0 || error.raw_os_error() == Some(libc::ESRCH),
        "ptrace: {error}"
    );
}

/// Whether the thread stands at a call of [`CHANGING`], before it or behind it.
fn is_at_change(pid: i32, calls: &mut Vec<(i32, c_long)>) -> bool {
    let mut info = MaybeUninit::<libc::ptrace_syscall_info>::zeroed();
    let size = size_of::<libc::ptrace_syscall_info>();
    ptrace(
        libc::PTRACE_GET_SYSCALL_INFO,
        pid,
        size,
        info.as_mut_ptr() as usize,
    );
    // SAFETY: plain numbers, for which zeros are good, too.
    let info = unsafe { info.assume_init() };
    if info.op == libc::PTRACE_SYSCALL_INFO_ENTRY {
        // SAFETY: the kernel says that it is this one.
        let call = unsafe { info.u.entry.nr } as c_long;
        calls.retain(|known| known.0 != pid);
        calls.push((pid, call));
    }
    // Behind a call the kernel does not say which it was.
    calls
        .iter()
        .any(|(of, call)| *of == pid && CHANGING.contains(call))
}

/// Runs a program, and kills it when it stands for the `n`-th time before or behind such a call; how often it stood there. It has ended by
/// itself if that is less than `n`.
#[expect(
    clippy::zombie_processes,
    reason = "the loop waits for all that is traced"
)]
fn run_until(command: &mut Command, n: u64) -> (u64, String) {
    // SAFETY: one system call, of those that may be made between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        })
    };
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let leader = child.id().cast_signed();
    let mut out = child.stdout.take().unwrap();
    let (mut count, mut calls, mut is_first) = (0, Vec::new(), true);
    loop {
        let mut status = 0;
        // Of this thread's own: other tests of the program wait for theirs.
        // SAFETY: a place for a number.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        if pid < 0 {
            break; // all have ended
        }
        if !libc::WIFSTOPPED(status) {
            let is_good = libc::WIFSIGNALED(status) || libc::WEXITSTATUS(status) == 0;
            assert!(is_good || pid != leader, "{command:?}: {status:#x}");
            continue;
        }
        if is_first {
            is_first = false;
            let options =
                libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_EXITKILL;
            ptrace(libc::PTRACE_SETOPTIONS, pid, 0, options as usize);
        }
        let signal = libc::WSTOPSIG(status);
        if signal == libc::SIGTRAP | 0x80 && count < n && is_at_change(pid, &mut calls) {
            count += 1;
            if count == n {
                // SAFETY: a process of ours, which nobody has waited for.
                unsafe { libc::kill(leader, libc::SIGKILL) };
            }
        }
        // Traps are the trace's own, and new threads begin with a stop.
        let passed_on = match signal & 0x7f {
            libc::SIGTRAP | libc::SIGSTOP => 0,
            other => other,
        };
        ptrace(libc::PTRACE_SYSCALL, pid, 0, passed_on as usize);
    }
    let mut told = String::new();
    out.read_to_string(&mut told).unwrap();
    (count, told)
}

/// The states that may be found after `told` (as cuts.c tells): what was there last for sure, and what was tried since.
fn allowed(told: &str) -> Vec<u64> {
    let mut allowed = vec![0];
    // A line that was cut off was not told.
    let whole = told.rfind('\n').map_or("", |end| &told[..end]);
    for line in whole.lines() {
        match line.split_once(' ') {
            Some(("found", state)) => allowed = vec![state.parse().unwrap()],
            Some(("attempt", state)) => {
                // One that was not reported before the next was aborted or failed; cuts.c does neither after an attempt.
                allowed.truncate(1);
                allowed.push(state.parse().unwrap());
            }
            _ => allowed = allowed.split_off(allowed.len() - 1),
        }
    }
    allowed
}

fn climb(how: Built, way: &str, kind: &str, media: &str) {
    let program = build("cuts.c", how);
    let mut rng = Rng::new(Rng::seed_from_env());
    let answers = tempfile::NamedTempFile::new().unwrap();
    write(answers.path(), "\n".repeat(10_000)).unwrap();
    let kills = testkit::effort("PERDURE_KILLS", 30);
    // A run is killed at several of its calls, so that each run can be told from another.
    let per_run = 15;
    for seed in 0..kills.div_ceil(per_run) {
        let run_seed = rng.below(1 << 40) + seed;
        let command = |folder: &Path, task: &str| {
            let mut command = Command::new(&program);
            command.args([kind, task]).arg(folder);
            command
                .env("PERDURE_TRACK", way)
                .env("PERDURE_MEDIA", media);
            command
        };
        let work = |folder: &Path, n: u64| {
            let mut work = command(folder, "work");
            work.arg(run_seed.to_string())
                .stdin(File::open(answers.path()).unwrap());
            run_until(&mut work, n)
        };
        let whole = tempfile::tempdir_in("/dev/shm").unwrap();
        let (total, _) = work(whole.path(), u64::MAX);
        for _ in 0..per_run.min(kills) {
            let folder = tempfile::tempdir_in("/dev/shm").unwrap();
            let n = 1 + rng.below(total);
            let (_, told) = work(folder.path(), n);
            let what =
                format!("{how:?} {way} {kind} {media}, seed {run_seed}, killed at {n} of {total}");
            let found = command(folder.path(), "inspect").output().unwrap();
            let errors = String::from_utf8_lossy(&found.stderr);
            assert!(found.status.success(), "{what}: {errors}");
            let found: u64 = String::from_utf8(found.stdout)
                .unwrap()
                .trim()
                .parse()
                .unwrap();
            let allowed = allowed(&told);
            assert!(
                allowed.contains(&found),
                "{what}: {found} is none of {allowed:?}"
            );
            if kind == "heap" && found != 0 {
                let options = Options {
                    verify: Verify::Report,
                    ..Options::snapshot()
                };
                let heap = Heap::open(&folder.path().join("a.heap"), options).unwrap();
                let report = heap.check().unwrap();
                assert!(report.is_clean(), "{what}: {report:?}");
            }
        }
    }
}

#[test]
fn a_heap_is_as_of_a_commit_wherever_its_program_is_killed() {
    climb(Built::tracking("-O2"), "lines", "heap", "files");
    climb(Built::tracking("-O2"), "verify", "heap", "files");
    climb(Built::C11, "pages", "heap", "files");
    climb(Built::tracking("-O2"), "lines", "heap", "memory");
}

#[test]
fn a_file_is_as_of_a_sync_wherever_its_program_is_killed() {
    climb(Built::tracking("-O2"), "lines", "file", "files");
    climb(Built::tracking("-O2"), "verify", "file", "files");
    climb(Built::C11, "pages", "file", "files");
}
