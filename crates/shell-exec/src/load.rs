//! How busy a machine is.

use std::collections::VecDeque;
use std::fs;

use crate::wire::Busy;

/// How many processes want a processor, besides the one that asks: what the last minute had on average, or as many as there were at the last
/// looks if those are fewer. What has just ended should count no more, and what has just begun will soon.
#[derive(Default)]
pub struct Load {
    /// Those of others and our own, at the last looks.
    seen: VecDeque<[f64; 2]>,
}

/// To look at a thread takes some microseconds, and nobody should notice that it is done.
const THREADS_MAX: usize = 500;
/// How many looks count.
const LOOKS: usize = 2;

impl Load {
    /// Looks once more, and says what it is (proc(5), `/proc/loadavg`).
    pub fn look(&mut self) -> Busy {
        let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        // Who asks runs, too, and is in both counts.
        of(&text).map_or_else(Busy::default, |(minute, running)| {
            self.with(minute, running, running_of_mine().max(1))
        })
    }

    fn with(&mut self, minute: f64, running: u32, mine: u32) -> Busy {
        if self.seen.len() >= LOOKS {
            self.seen.pop_front();
        }
        self.seen
            .push_back([running.saturating_sub(mine).into(), (mine - 1).into()]);
        let mean =
            |of: usize| self.seen.iter().map(|look| look[of]).sum::<f64>() / self.seen.len() as f64;
        let hundredths = |load: f64| (minute.min(load) * 100.0) as u32;
        Busy {
            others: hundredths(mean(0)),
            own: hundredths(mean(1)),
        }
    }
}

/// The last minute's average, and how many threads run now.
fn of(text: &str) -> Option<(f64, u32)> {
    let mut fields = text.split(' ');
    let minute = fields.next()?.parse().ok()?;
    let running = fields.nth(2)?.split('/').next()?;
    Some((minute, running.parse().ok()?))
}

/// How many threads of this process and of all that it has made run now. Processes whose parent has ended are not found, nor is any on a kernel
/// that does not list children (`CONFIG_PROC_CHILDREN`), nor those behind the first [`THREADS_MAX`]: they count as others'.
fn running_of_mine() -> u32 {
    let mut running = 0;
    let mut processes = vec![std::process::id()];
    let mut left = THREADS_MAX;
    while let Some(process) = processes.pop().filter(|_| left > 0) {
        let threads = fs::read_dir(format!("/proc/{process}/task"));
        for thread in threads.into_iter().flatten().flatten().take(left) {
            left -= 1;
            let read = |name| fs::read_to_string(thread.path().join(name)).unwrap_or_default();
            running += u32::from(runs(&read("stat")));
            let children = read("children");
            processes.extend(children.split_whitespace().flat_map(str::parse::<u32>));
        }
    }
    running
}

/// Whether a thread of this `stat` (proc(5)) has a processor or wants one. Its name stands in brackets, and may have some.
fn runs(stat: &str) -> bool {
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| rest.starts_with('R'))
}

impl Busy {
    /// How many processors somebody who comes would have, of so many.
    pub fn idle_cores(self, cores: f64) -> f64 {
        idle_cores(cores, f64::from(self.others + self.own) / 100.0)
    }
}

/// Those that nobody uses, or a fair share of one.
fn idle_cores(cores: f64, load: f64) -> f64 {
    (cores - load).max(cores / (load + 1.0))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    use nix::sys::signal::{Signal, killpg};
    use nix::unistd::Pid;

    use super::*;

    #[test]
    fn what_wants_a_processor_is_read() {
        assert_eq!(of("3.50 2.00 1.00 2/312 4711\n"), Some((3.5, 2)));
        assert_eq!(of("0.20 2.00 1.00 1/312 4711\n"), Some((0.2, 1)));
        assert_eq!(of(""), None);
        assert_eq!(of("x y z 1/2"), None);
        assert!(runs("12 (a) R (b) R 1 2"));
        assert!(!runs("12 (a) R (b) S 1 2"));
        assert!(!runs(""));
    }

    #[test]
    fn what_has_ended_counts_no_more() {
        let mut load = Load::default();
        let told = [5, 5, 2, 2, 2].map(|running| load.with(3.5, running, 1).others);
        assert_eq!(told, [350, 350, 250, 100, 100]);
        assert_eq!(load.with(0.2, 10, 1).others, 20);
    }

    #[test]
    fn ours_are_told_apart() {
        let busy = Load::default().with(9.0, 4, 3);
        assert_eq!(
            busy,
            Busy {
                others: 100,
                own: 200
            }
        );
        // Looked at one behind the other: some of ours may have begun meanwhile.
        let busy = Load::default().with(9.0, 1, 3);
        assert_eq!(
            busy,
            Busy {
                others: 0,
                own: 200
            }
        );
    }

    #[test]
    fn what_a_child_computes_is_ours() {
        let compute = "while :; do :; done";
        let script = format!("sh -c '{compute}' & {compute}");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .process_group(0)
            .spawn()
            .unwrap();
        let most = (0..100).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            running_of_mine()
        });
        let most = most.max().unwrap();
        killpg(
            Pid::from_raw(child.id().try_into().unwrap()),
            Signal::SIGKILL,
        )
        .unwrap();
        child.wait().unwrap();
        // With this one, which asks.
        assert!(most >= 3, "{most}");
    }

    #[test]
    fn there_is_always_a_share() {
        assert_eq!(idle_cores(2.0, 0.0), 2.0);
        assert_eq!(idle_cores(8.0, 3.0), 5.0);
        assert_eq!(idle_cores(2.0, 7.0), 0.25);
    }
}
