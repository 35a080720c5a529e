//! The processes above the disk: the keeper, which holds the mount namespace, mounts, and looks at what a crash left; and the
//! one that works, which may be killed.
//!
//! The invariant: the keeper does nothing but what the test's process tells it, one thing at a time, and it ends when that
//! process does, and with it everything that was mounted.

use super::ladder::Subject;
use rustix::fs::{Advice, fadvise, syncfs};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Stdin, Stdout, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Where the file with the disk is, where the file system on it is mounted, and what lies beside them.
pub struct Places {
    pub scratch: PathBuf,
}

impl Places {
    pub fn disk_folder(&self) -> PathBuf {
        self.scratch.join("disk")
    }
    pub fn mount_point(&self) -> PathBuf {
        self.scratch.join("mounted")
    }
    /// Where the subject works; on the disk.
    pub fn folder(&self) -> PathBuf {
        self.mount_point().join("work")
    }
    pub fn socket(&self) -> PathBuf {
        self.scratch.join("socket")
    }
    /// Stands for the kernel's identity of the boot.
    pub fn boot_id(&self) -> PathBuf {
        self.scratch.join("boot_id")
    }
}

/// The loop device over the disk's file. Open, so that it stays; detaches by itself when that ends.
struct Device {
    name: String,
    file: File,
}

/// Does what it is told until the other side is gone.
///
/// # Errors
/// When the link breaks in the middle.
pub fn keep(subject: &dyn Subject, scratch: &Path) -> io::Result<()> {
    let places = Places {
        scratch: scratch.into(),
    };
    let mut link = UnixStream::connect(places.socket())?;
    let mut device = None;
    for line in BufReader::new(link.try_clone()?).lines() {
        let line = line?;
        let told = catch_unwind(AssertUnwindSafe(|| {
            obey(&line, subject, &places, &mut device)
        }));
        let answer = match told {
            Ok(Ok(value)) => format!("ok {value}\n"),
            Ok(Err(what)) => format!("no {}\n", what.replace('\n', " ")),
            Err(panic) => {
                let what = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or_else(|| panic.downcast_ref::<&str>().copied());
                format!("no panicked: {}\n", what.unwrap_or("?").replace('\n', " "))
            }
        };
        link.write_all(answer.as_bytes())?;
    }
    Ok(())
}

fn obey(
    line: &str,
    subject: &dyn Subject,
    places: &Places,
    device: &mut Option<Device>,
) -> Result<String, String> {
    let mut words = line.split(' ');
    let word = words.next().unwrap_or_default();
    let mut next = || words.next().unwrap_or_default();
    match word {
        "attach" => {
            let attached = attach(&places.disk_folder().join(super::serve::FILE_NAME))?;
            let name = attached.name.clone();
            *device = Some(attached);
            Ok(name)
        }
        "mount" => {
            let device = device.as_ref().ok_or("no device is attached")?;
            // The disk may have become another one since it was read. Those file systems look anew when they mount; a part of
            // the kernel that does not is not relied upon.
            fadvise(&device.file, 0, None, Advice::DontNeed).map_err(|e| e.to_string())?;
            let (kind, options) = (next(), CString::new(next()).map_err(|e| e.to_string())?);
            let flags = MountFlags::NOATIME;
            let begun = Instant::now();
            loop {
                let mounted = mount(&*device.name, places.mount_point(), kind, flags, &*options);
                match mounted {
                    // btrfs knows disks by their identity: it refuses one while it looks at a newer copy that is not mounted yet.
                    Err(Errno::EXIST) if begun.elapsed() < Duration::from_secs(10) => {
                        thread::sleep(Duration::from_millis(1));
                    }
                    other => {
                        return other
                            .map(|()| String::new())
                            .map_err(|e| format!("the file system does not mount: {e}"));
                    }
                }
            }
        }
        "unmount" => unmount(places.mount_point(), UnmountFlags::empty())
            .map(|()| String::new())
            .map_err(|e| format!("unmount: {e}")),
        "prepare" => prepare(places).map_err(|e| e.to_string()),
        "sync" => File::open(places.mount_point())
            .and_then(|folder| Ok(syncfs(folder)?))
            .map(|()| String::new())
            .map_err(|e| format!("sync: {e}")),
        "inspect" => subject.inspect(&places.folder()).map(|s| s.to_string()),
        "go_on" => {
            let seed = next().parse().map_err(|_| "no seed")?;
            subject.go_on(&places.folder(), seed).map(|s| s.to_string())
        }
        other => Err(format!("\"{other}\" is no command")),
    }
}

fn prepare(places: &Places) -> io::Result<String> {
    fs::create_dir(places.folder())?;
    File::open(places.folder())?.sync_all()?;
    File::open(places.mount_point())?.sync_all()?;
    Ok(String::new())
}

fn attach(file: &Path) -> Result<Device, String> {
    let losetup = |arguments: &[&str], operand: &Path| {
        let output = Command::new("losetup")
            .args(arguments)
            .arg(operand)
            .output()
            .map_err(|e| format!("losetup: {e}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            let why = String::from_utf8_lossy(&output.stderr);
            Err(format!("losetup {arguments:?}: {}", why.trim()))
        }
    };
    // Directly: no second cache, and none that could be stale.
    let name = losetup(&["--find", "--show", "--direct-io=on"], file)?;
    let opened = File::open(&name).map_err(|e| format!("{name}: {e}"));
    // While it is open that only says: when it is closed.
    losetup(&["--detach"], Path::new(&name))?;
    Ok(Device {
        file: opened?,
        name,
    })
}

/// How a working process tells of its commits. Each call returns when the test's process has taken note: what is told as done
/// comes before whatever the disk sees next.
pub struct Reporter {
    out: Stdout,
    answers: Stdin,
}

impl Reporter {
    /// What is there at the start, of this process or again in its midst: the fingerprint of the content; 0 for nothing at all.
    pub fn found(&mut self, state: u64) {
        self.tell(&format!("found {state}"));
    }

    /// A commit of this content is about to be tried.
    pub fn attempt(&mut self, state: u64) {
        self.tell(&format!("attempt {state}"));
    }

    /// The commit tried last was reported done.
    pub fn reported(&mut self, durable: bool) {
        self.tell(if durable { "durable" } else { "reported" });
    }

    /// Every commit reported so far was brought to the medium.
    pub fn reported_so_far_is_durable(&mut self) {
        self.tell("flushed");
    }

    fn tell(&mut self, what: &str) {
        let mut answer = String::new();
        let told = writeln!(self.out, "{what}").and_then(|()| self.out.flush());
        let heard = told.and_then(|()| self.answers.read_line(&mut answer));
        assert!(
            heard.is_ok_and(|bytes| bytes > 0),
            "the process of the test is gone"
        );
    }
}

/// The working process. With `kill_after` it kills itself at that time, wherever it is then.
///
/// # Errors
/// What the subject says.
pub fn work(
    subject: &dyn Subject,
    folder: &Path,
    seed: u64,
    kill_after: Option<Duration>,
) -> Result<(), String> {
    if let Some(time) = kill_after {
        thread::spawn(move || {
            thread::sleep(time);
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        });
    }
    let mut reporter = Reporter {
        out: io::stdout(),
        answers: io::stdin(),
    };
    subject.work(folder, seed, &mut reporter)
}
