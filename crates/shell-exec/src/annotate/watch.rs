//! A command that is watched while it runs: which files it opens, changes and looks at, and what becomes of its standard input.
//!
//! The invariant: paths are as the command gave them, made whole by the folder or descriptor that it named, with no link followed; and what a
//! command tried counts as done, also if the kernel refused it.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use nix::libc;
use nix::sys::ptrace;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::program;

/// The word by which our own program knows that it is to become a command that is tried.
pub const WORD: &str = "@tried";

/// How long a command may take, and how much it may write to one file.
const PATIENCE: Duration = Duration::from_secs(10);
const PROCESSOR_SECONDS: u64 = 5;
const FILE_BYTES: u64 = 8 << 20;

/// Standard input is put into a pipe before the command begins: this much goes into one.
pub const INPUT_BYTES_MAX: usize = 60 << 10;

/// What a command does with a path.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Deed {
    /// Opens it to read it.
    Reads,
    /// Opens it to write it, makes it, removes it, or changes what is known of it.
    Writes,
    /// Lists a folder.
    Lists,
    /// Asks for what is known of it.
    Looks,
}

/// Something that a command did.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Done {
    /// What.
    pub deed: Deed,
    /// To which file or folder.
    pub path: PathBuf,
    /// The kernel did it.
    pub succeeded: bool,
}

/// A command that has ended.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ran {
    /// Its exit status; 128 and more: the number of a signal.
    pub status: i32,
    /// It was ended because it took too long.
    pub is_late: bool,
    /// What it printed.
    pub output: Vec<u8>,
    /// What it complained of.
    pub errors: Vec<u8>,
    /// What it did, if it was watched.
    pub done: BTreeSet<Done>,
    /// It read standard input.
    pub reads_input: bool,
    /// It did so until the end.
    pub reads_all_input: bool,
    /// It asked for a connection to another machine.
    pub connects: bool,
}

/// How commands are tried.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// The command's file.
    pub program: &'a Path,
    /// Its words.
    pub words: &'a [OsString],
    /// What it finds on standard input, if that is not closed at once.
    pub input: &'a [u8],
    /// Its environment.
    pub environment: &'a [(OsString, OsString)],
    /// A folder for its outputs.
    pub out: &'a Path,
    /// What it does is noted.
    pub is_watched: bool,
}

impl Trial<'_> {
    /// Runs the command.
    ///
    /// # Errors
    /// Why it could not be run or watched.
    pub fn run(&self) -> io::Result<Ran> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let stdin = fs::read_link(format!(
            "/proc/self/fd/{}",
            std::os::fd::AsRawFd::as_raw_fd(&read)
        ))?;
        // It fits into the pipe, so this does not wait.
        io::Write::write_all(&mut File::from(write), self.input)?;
        let (output, errors) = (self.out.join("output"), self.out.join("errors"));
        let mut command = Command::new("/proc/self/exe");
        command
            .arg(WORD)
            .arg(if self.is_watched { "watched" } else { "alone" })
            .arg(self.program)
            .args(self.words)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::from(read.try_clone()?))
            .stdout(File::create(&output)?)
            .stderr(File::create(&errors)?)
            .process_group(0);
        let mut child = command.spawn()?;
        let pid = Pid::from_raw(child.id().cast_signed());
        let (ended, late) = watchdog(pid);
        let mut ran = Ran::default();
        if self.is_watched {
            let mut watch = Watch {
                stdin,
                calls: HashMap::new(),
                ran: Ran::default(),
            };
            let status = watch.follow(pid)?;
            ran = watch.ran;
            ran.status = status;
        } else {
            let status = child.wait()?;
            ran.status = status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        }
        drop(ended);
        ran.is_late = late.join().unwrap_or(false);
        // What it may have left running.
        let _ = killpg(pid, Signal::SIGKILL);
        ran.output = fs::read(&output)?;
        ran.errors = fs::read(&errors)?;
        Ok(ran)
    }
}

/// Ends a process group that takes too long; the thread tells whether it did.
fn watchdog(group: Pid) -> (std::sync::mpsc::Sender<()>, std::thread::JoinHandle<bool>) {
    let (ended, waits) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let is_late = waits.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
        if is_late {
            let _ = killpg(group, Signal::SIGKILL);
        }
        is_late
    });
    (ended, thread)
}

/// Becomes a command, in a process that `Trial::run` made: `watched` or `alone`, the program, the words. Comes back with what went wrong.
pub fn become_tried(words: &[OsString]) -> String {
    let [how, program, words @ ..] = words else {
        return "nothing to try".into();
    };
    let limits = [
        (Resource::RLIMIT_CPU, PROCESSOR_SECONDS),
        (Resource::RLIMIT_FSIZE, FILE_BYTES),
        (Resource::RLIMIT_CORE, 0),
    ];
    for (resource, most) in limits {
        if let Err(error) = setrlimit(resource, most, most) {
            return format!("a limit cannot be set: {}", error.desc());
        }
    }
    if how == "watched"
        && let Err(error) = ptrace::traceme()
    {
        return format!("it cannot be watched: {}", error.desc());
    }
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let Err(error) = program::execute(Path::new(program), words, &environment);
    format!("{}: {}", program.display(), error.desc())
}

/// A system call that a process is in.
struct Entered {
    done: Vec<(Deed, PathBuf)>,
    reads_input: bool,
}

struct Watch {
    /// What the descriptors of standard input lead to.
    stdin: PathBuf,
    calls: HashMap<Pid, Option<Entered>>,
    ran: Ran,
}

impl Watch {
    /// Lets a process and all its children run, and notes what they do; its exit status.
    fn follow(&mut self, root: Pid) -> io::Result<i32> {
        let mut status = None;
        // It stops when it has become the command. Before that it may have ended.
        match waitpid(root, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Exited(_, code) => return Ok(code),
            WaitStatus::Signaled(_, signal, _) => return Ok(128 + signal as i32),
            _ => {}
        }
        let options = ptrace::Options::PTRACE_O_TRACESYSGOOD
            | ptrace::Options::PTRACE_O_TRACEFORK
            | ptrace::Options::PTRACE_O_TRACEVFORK
            | ptrace::Options::PTRACE_O_TRACECLONE
            | ptrace::Options::PTRACE_O_TRACEEXEC
            | ptrace::Options::PTRACE_O_EXITKILL;
        ptrace::setoptions(root, options)?;
        self.calls.insert(root, None);
        ptrace::syscall(root, None)?;
        loop {
            let event = match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(event) => event,
                Err(nix::errno::Errno::ECHILD) => break,
                Err(nix::errno::Errno::EINTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let (pid, passed_on) = match event {
                WaitStatus::Exited(pid, code) => {
                    self.calls.remove(&pid);
                    if pid == root {
                        status = Some(code);
                        self.end_others();
                    }
                    continue;
                }
                WaitStatus::Signaled(pid, signal, _) => {
                    self.calls.remove(&pid);
                    if pid == root {
                        status = Some(128 + signal as i32);
                        self.end_others();
                    }
                    continue;
                }
                WaitStatus::PtraceSyscall(pid) => {
                    self.stop(pid);
                    (pid, None)
                }
                // A child begins with a stop of its own, which is no signal to it.
                WaitStatus::Stopped(pid, Signal::SIGSTOP) if !self.calls.contains_key(&pid) => {
                    self.calls.insert(pid, None);
                    (pid, None)
                }
                WaitStatus::Stopped(pid, Signal::SIGTRAP) => (pid, None),
                WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
                WaitStatus::PtraceEvent(pid, ..) => (pid, None),
                _ => continue,
            };
            // One that was killed meanwhile is told of by another event.
            let _ = ptrace::syscall(pid, passed_on);
        }
        status.ok_or_else(|| io::Error::other("how it ended was not seen"))
    }

    /// What a command leaves running is not waited for.
    fn end_others(&self) {
        for pid in self.calls.keys() {
            let _ = kill(*pid, Signal::SIGKILL);
        }
    }

    /// A process enters or leaves a system call.
    fn stop(&mut self, pid: Pid) {
        let Some(registers) = registers(pid) else {
            return;
        };
        let state = self.calls.entry(pid).or_default();
        match state.take() {
            // A process that was just made may leave one that it has never entered.
            None if registers.result != -i64::from(libc::ENOSYS) => {}
            None => {
                let entered = self.enter(pid, &registers);
                self.calls.insert(pid, Some(entered));
            }
            Some(entered) => self.leave(&entered, registers.result),
        }
    }

    fn enter(&mut self, pid: Pid, registers: &Registers) -> Entered {
        let mut entered = Entered {
            done: Vec::new(),
            reads_input: false,
        };
        let argument = |at: usize| registers.arguments[at];
        let path = |folder: Option<usize>, at: usize| {
            let folder = folder.map(|at| argument(at) as i32);
            named(pid, folder, argument(at))
        };
        match call_of(registers.number) {
            Some(Call::Open { folder, path: at }) => {
                let flags = match registers.number {
                    libc::SYS_creat => (libc::O_WRONLY | libc::O_CREAT) as u64,
                    libc::SYS_openat2 => memory(pid, argument(2), 8)
                        .and_then(|bytes| Some(number_of(bytes.get(..8)?)))
                        .unwrap_or(0),
                    _ => argument(at + 1),
                };
                if let Some(path) = path(folder, at) {
                    let deed = deed_of(flags as i32);
                    entered.done.push((deed, path));
                }
            }
            Some(Call::Path {
                deed,
                folder,
                path: at,
            }) => {
                entered
                    .done
                    .extend(path(folder, at).map(|path| (deed, path)));
            }
            Some(Call::Two {
                deed,
                folders,
                paths: [from, to],
            }) => {
                let [one, other] = folders.map_or([None, None], |at| at.map(Some));
                entered
                    .done
                    .extend(path(one, from).map(|path| (deed, path)));
                entered
                    .done
                    .extend(path(other, to).map(|path| (Deed::Writes, path)));
            }
            Some(Call::Lists) => {
                let link = fs::read_link(format!("/proc/{pid}/fd/{}", argument(0) as i32));
                entered
                    .done
                    .extend(link.ok().map(|path| (Deed::Lists, path)));
            }
            Some(Call::Reads(at)) => {
                let link = fs::read_link(format!("/proc/{pid}/fd/{}", argument(at) as i32));
                entered.reads_input = link.is_ok_and(|link| link == self.stdin);
            }
            Some(Call::Connects) => {
                let family = memory(pid, argument(1), 2).map(|bytes| number_of(&bytes) as i32);
                if matches!(family, Some(libc::AF_INET | libc::AF_INET6)) {
                    self.ran.connects = true;
                }
            }
            None => {}
        }
        entered
    }

    fn leave(&mut self, entered: &Entered, result: i64) {
        for (deed, path) in &entered.done {
            self.ran.done.insert(Done {
                deed: *deed,
                path: path.clone(),
                succeeded: result >= 0,
            });
        }
        if entered.reads_input && result >= 0 {
            self.ran.reads_input = true;
            self.ran.reads_all_input |= result == 0;
        }
    }
}

fn deed_of(flags: i32) -> Deed {
    if flags & libc::O_PATH != 0 {
        Deed::Looks
    } else if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0 {
        Deed::Writes
    } else if flags & libc::O_DIRECTORY != 0 {
        // It is listed, or it is not.
        Deed::Looks
    } else {
        Deed::Reads
    }
}

/// A path that a process names at an address of its memory; none if there is no name.
fn named(pid: Pid, folder: Option<i32>, address: u64) -> Option<PathBuf> {
    let mut bytes = memory(pid, address, libc::PATH_MAX as usize)?;
    bytes.truncate(bytes.iter().position(|&byte| byte == 0)?);
    if bytes.is_empty() {
        return None;
    }
    let path = PathBuf::from(OsString::from_vec(bytes));
    if path.is_absolute() {
        return Some(plain(&path));
    }
    let link = match folder {
        Some(folder) if folder != libc::AT_FDCWD => format!("/proc/{pid}/fd/{folder}"),
        _ => format!("/proc/{pid}/cwd"),
    };
    Some(plain(&fs::read_link(link).ok()?.join(path)))
}

/// A path without `.` and `..`.
pub fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// So many bytes of a process' memory, or as many as there are.
fn memory(pid: Pid, address: u64, most: usize) -> Option<Vec<u8>> {
    let file = File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = vec![0; most];
    let mut had = 0;
    while had < most {
        // A page may be followed by one that is not there.
        let at = address + had as u64;
        let to_page_end = 4096 - (at % 4096) as usize;
        let end = most.min(had + to_page_end);
        match file.read_at(&mut bytes[had..end], at) {
            Ok(0) | Err(_) => break,
            Ok(more) => had += more,
        }
    }
    bytes.truncate(had);
    (had > 0).then_some(bytes)
}

/// A number in this machine's order of bytes, of up to 8 bytes.
fn number_of(bytes: &[u8]) -> u64 {
    let low_first = cfg!(target_endian = "little");
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if low_first {
        bytes.iter().rev().fold(0, fold)
    } else {
        bytes.iter().fold(0, fold)
    }
}

/// What a system call is about.
enum Call {
    Open {
        folder: Option<usize>,
        path: usize,
    },
    Path {
        deed: Deed,
        folder: Option<usize>,
        path: usize,
    },
    /// It does something to one file, and makes another.
    Two {
        deed: Deed,
        folders: Option<[usize; 2]>,
        paths: [usize; 2],
    },
    Lists,
    /// It reads from the descriptor that is this argument.
    Reads(usize),
    Connects,
}

#[cfg(target_arch = "x86_64")]
fn call_of(number: i64) -> Option<Call> {
    let path = |deed, folder, path| Some(Call::Path { deed, folder, path });
    match number {
        libc::SYS_open | libc::SYS_creat => Some(Call::Open {
            folder: None,
            path: 0,
        }),
        libc::SYS_openat | libc::SYS_openat2 => Some(Call::Open {
            folder: Some(0),
            path: 1,
        }),
        libc::SYS_stat | libc::SYS_lstat | libc::SYS_access | libc::SYS_readlink => {
            path(Deed::Looks, None, 0)
        }
        libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_faccessat
        | libc::SYS_faccessat2
        | libc::SYS_readlinkat => path(Deed::Looks, Some(0), 1),
        libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_chmod
        | libc::SYS_chown
        | libc::SYS_lchown
        | libc::SYS_truncate
        | libc::SYS_utime
        | libc::SYS_utimes
        | libc::SYS_mknod
        | libc::SYS_setxattr
        | libc::SYS_lsetxattr => path(Deed::Writes, None, 0),
        libc::SYS_mkdirat
        | libc::SYS_unlinkat
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_utimensat
        | libc::SYS_futimesat
        | libc::SYS_mknodat => path(Deed::Writes, Some(0), 1),
        libc::SYS_symlink => path(Deed::Writes, None, 1),
        libc::SYS_symlinkat => path(Deed::Writes, Some(1), 2),
        libc::SYS_rename | libc::SYS_link => Some(Call::Two {
            deed: if number == libc::SYS_link {
                Deed::Looks
            } else {
                Deed::Writes
            },
            folders: None,
            paths: [0, 1],
        }),
        libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => Some(Call::Two {
            deed: if number == libc::SYS_linkat {
                Deed::Looks
            } else {
                Deed::Writes
            },
            folders: Some([0, 2]),
            paths: [1, 3],
        }),
        libc::SYS_getdents | libc::SYS_getdents64 => Some(Call::Lists),
        libc::SYS_read
        | libc::SYS_pread64
        | libc::SYS_readv
        | libc::SYS_preadv
        | libc::SYS_preadv2
        | libc::SYS_splice
        | libc::SYS_tee
        | libc::SYS_copy_file_range => Some(Call::Reads(0)),
        libc::SYS_sendfile => Some(Call::Reads(1)),
        libc::SYS_connect => Some(Call::Connects),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn call_of(_number: i64) -> Option<Call> {
    None
}

struct Registers {
    number: i64,
    arguments: [u64; 6],
    result: i64,
}

/// Whether system calls can be read on this kind of processor.
pub fn can_watch() -> bool {
    cfg!(target_arch = "x86_64")
}

#[cfg(target_arch = "x86_64")]
fn registers(pid: Pid) -> Option<Registers> {
    let of = ptrace::getregs(pid).ok()?;
    Some(Registers {
        number: of.orig_rax.cast_signed(),
        arguments: [of.rdi, of.rsi, of.rdx, of.r10, of.r8, of.r9],
        result: of.rax.cast_signed(),
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn registers(_pid: Pid) -> Option<Registers> {
    None
}
