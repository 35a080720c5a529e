//! How much memory a region may hold that the kernel cannot take back.
//!
//! The invariant: nothing is asked of the machine before a region has [`ASKED_FROM_BYTES`] of such memory, so that small
//! runs pay nothing; and it is asked once.

use std::fs;
use std::path::Path;

/// Private memory up to this size is granted unasked.
pub(crate) const ASKED_FROM_BYTES: u64 = 16 << 20;
/// Never less, so that a mistaken limit slows a run down and does not stop it.
const LEAST_BYTES: u64 = 4 << 20;

/// A number of bytes, asked for when it is first needed.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    bytes: Option<u64>,
}

impl Budget {
    /// `bytes`, or what the machine has room for.
    pub(crate) fn new(bytes: Option<u64>) -> Budget {
        Budget { bytes }
    }

    /// What may be used before [`Budget::ask`] must be called.
    pub(crate) fn granted(self) -> u64 {
        self.bytes.unwrap_or(ASKED_FROM_BYTES)
    }

    /// What may be used for certain: the number if it is known.
    pub(crate) fn granted_at_least(self) -> u64 {
        self.bytes.unwrap_or(u64::MAX)
    }

    /// The number. Costs reading a few small files the first time.
    pub(crate) fn ask(&mut self) -> u64 {
        *self.bytes.get_or_insert_with(|| {
            machine_bytes(Path::new("/proc"), Path::new("/sys/fs/cgroup")).max(LEAST_BYTES)
        })
    }
}

/// Three eighths of the memory that this process can have at most, and not more than three quarters of what is free now.
///
/// The rest is for the program itself and for the page cache, through which everything that was spilled is used: with
/// more private memory the cache thrashes, with less the first spill comes early (docs/decisions/005).
fn machine_bytes(proc: &Path, cgroups: &Path) -> u64 {
    let meminfo = fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
    let total = meminfo_bytes(&meminfo, "MemTotal:").unwrap_or(u64::MAX);
    let free = meminfo_bytes(&meminfo, "MemAvailable:").unwrap_or(u64::MAX);
    let groups = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    let limit = groups
        .lines()
        .filter_map(|line| group_limit(line, cgroups))
        .fold(total, u64::min);
    (limit / 8 * 3).min(free / 4 * 3)
}

fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The least limit of the control group that a line of /proc/self/cgroup names and of those around it. Where a container
/// sees its own group as the root, the path may lead nowhere; the walk up ends at the root all the same.
fn group_limit(line: &str, cgroups: &Path) -> Option<u64> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (root, names): (_, &[&str]) = if controllers.is_empty() {
        (cgroups.to_path_buf(), &["memory.max", "memory.high"])
    } else if controllers.split(',').any(|name| name == "memory") {
        (cgroups.join("memory"), &["memory.limit_in_bytes"])
    } else {
        return None;
    };
    let inner = Path::new(path.trim_start_matches('/'));
    inner
        .ancestors()
        .map(|inner| root.join(inner))
        .flat_map(|group| names.iter().map(move |name| group.join(name)))
        .filter_map(|file| fs::read_to_string(file).ok()?.trim().parse().ok()) // "max" is no number
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_around_a_process_counts() {
        let root = std::env::temp_dir().join(format!("perdure-budget-{}", std::process::id()));
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let ask = || machine_bytes(&root.join("proc"), &root.join("cgroup"));
        write("proc/meminfo", "MemTotal:  8388608 kB\nMemFree: 1 kB\n");
        assert_eq!(ask(), 3 << 30);
        write(
            "proc/meminfo",
            "MemTotal:  8388608 kB\nMemAvailable:  1048576 kB\n",
        );
        assert_eq!(ask(), 768 << 20);
        // Version 1: a limit of the group above, and one so large that it is none.
        write("proc/self/cgroup", "3:cpu:/a/b\n2:memory,x:/a/b\n");
        write("cgroup/memory/a/memory.limit_in_bytes", "536870912\n");
        write(
            "cgroup/memory/memory.limit_in_bytes",
            "9223372036854771712\n",
        );
        assert_eq!(ask(), 192 << 20);
        // Version 2, seen from inside a container.
        write("proc/self/cgroup", "0::/../elsewhere\n");
        write("cgroup/memory.max", "max\n");
        assert_eq!(ask(), 768 << 20);
        write("cgroup/memory.max", "268435456\n");
        assert_eq!(ask(), 96 << 20);
        write("cgroup/memory.high", "134217728\n");
        assert_eq!(ask(), 48 << 20);
        fs::remove_dir_all(&root).unwrap();
    }
}
