//! Agents on nodes of Slurm: how one is asked for.
//!
//! One `srun` asks for the node and starts the agent on it; standard input and output are the connection, as ssh's are. So the allocation lasts as
//! long as `srun` does: it is given back when the agent ends, which it does when nobody writes to it any more, and when `srun` is killed. (With a
//! `salloc` around it a `salloc` that is killed leaves the allocation behind: tried with Slurm 22.05.)
//!
//! The invariant: a node is asked for as the user would, with the site's own limits and accounting; nothing waits in a queue for longer than
//! [`PATIENCE_S`].

use std::fmt;
use std::process::Command;

use crate::config::Config;

/// How long Slurm may take to find a node, in seconds; then all runs here, and it is asked again later.
pub const PATIENCE_S: u32 = 5;

/// The status of an `srun` that did not start anything, as ssh's is; and of one for which no node was free in time (srun(1), `SLURM_EXIT_ERROR`).
pub const NOT_STARTED: i32 = 255;
/// See [`NOT_STARTED`].
pub const NOT_FREE: i32 = 254;

/// Where Slurm is to place an agent. As text it is the name of a host: `slurm:0`, or in an allocation that the user has already, `slurm:JOB.0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// In this allocation; none: in one of its own.
    pub job: Option<u32>,
    /// Which of several allocations of our own, or of several nodes of that one. Whatever is on any of them is said to be on the first.
    pub number: u32,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.job {
            Some(job) => write!(f, "slurm:{job}.{}", self.number),
            None => write!(f, "slurm:{}", self.number),
        }
    }
}

impl Placement {
    /// In the allocation in which this process is, if it is in one.
    pub fn of_environment() -> Placement {
        let job = std::env::var("SLURM_JOB_ID").ok();
        Placement {
            job: job.and_then(|job| job.parse().ok()),
            number: 0,
        }
    }

    /// Of the name of a host; none: it is one that ssh reaches. (No host of ssh's has a colon and this before it: addresses with colons have no "s".)
    pub fn read(host: &str) -> Option<Placement> {
        let text = host.strip_prefix("slurm:")?;
        let (job, number) = match text.split_once('.') {
            Some((job, number)) => (Some(job.parse().ok()?), number),
            None => (None, text),
        };
        let number = number.parse().ok()?;
        Some(Placement { job, number })
    }

    /// The first of those that see the same files.
    pub fn first(self) -> Placement {
        Placement { number: 0, ..self }
    }

    /// The command that places an agent.
    pub fn command(&self, config: &Config, agent: &str) -> Command {
        let mut command = Command::new("srun");
        // Without --unbuffered what comes is passed on in whole lines only. A terminal is what the agent writes to then; bytes pass it as they are.
        command.args(["--nodes=1", "--ntasks=1", "--unbuffered", "--mpi=none"]);
        match self.job {
            Some(job) => {
                command.arg(format!("--jobid={job}"));
                command.arg(format!("--relative={}", self.number));
                command.arg("--overlap");
            }
            None => {
                command.arg("--job-name=nearsh");
                command.arg(format!("--immediate={PATIENCE_S}"));
            }
        }
        // Whoever began the broker may have been in another allocation; what they have as defaults besides is to count.
        let is_inherited = |name: &str| {
            let is_of_job = std::env::var_os("SLURM_JOB_ID").is_some();
            let is_site = ["SLURM_CONF", "SLURM_CLUSTERS", "SLURM_JWT"].contains(&name);
            let is_stdio = [
                "SLURM_LABELIO",
                "SLURM_STDINMODE",
                "SLURM_STDOUTMODE",
                "SLURM_STDERRMODE",
            ];
            name.starts_with("SLURM_") && is_of_job && !is_site || is_stdio.contains(&name)
        };
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(is_inherited) {
                command.env_remove(name);
            }
        }
        command
            .env("SLURM_EXIT_ERROR", NOT_STARTED.to_string())
            .env("SLURM_EXIT_IMMEDIATE", NOT_FREE.to_string())
            .args(&config.slurm_options)
            .args(["/bin/sh", "-c", &format!("exec {agent}")]);
        command
    }
}

/// Whether two hosts have the same files under the same names: they are one, or nodes of one cluster.
pub fn have_same_files(one: &str, other: &str) -> bool {
    let first = |host| Placement::read(host).map(Placement::first);
    one == other || first(one).is_some_and(|of| first(other) == Some(of))
}

/// Whether a host is one of the nodes besides the first, which can be done without.
pub fn is_further(host: &str) -> bool {
    Placement::read(host).is_some_and(|placement| placement != placement.first())
}

/// How many nodes the allocation has in which this process is; none: it is in none.
pub fn nodes() -> Option<u32> {
    std::env::var("SLURM_JOB_NUM_NODES").ok()?.parse().ok()
}

/// How many processors of this node are the job's, if this process is in a job: not every site binds its processes to them.
pub fn cores() -> Option<u32> {
    std::env::var("SLURM_CPUS_ON_NODE").ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_names_of_hosts_that_no_other_host_has() {
        for (job, number, name) in [
            (None, 0, "slurm:0"),
            (None, 3, "slurm:3"),
            (Some(4711), 1, "slurm:4711.1"),
        ] {
            let placement = Placement { job, number };
            assert_eq!(placement.to_string(), name);
            assert_eq!(Placement::read(name), Some(placement));
        }
        for host in [
            "slurm",
            "slurm:",
            "slurm:x",
            "slurm:1.2.3",
            "me@slurm",
            "fe80::1",
        ] {
            assert_eq!(Placement::read(host), None, "{host}");
        }
    }

    #[test]
    fn nodes_of_one_allocation_have_the_same_files() {
        for (one, other, same) in [
            ("alpha", "alpha", true),
            ("alpha", "beta", false),
            ("slurm:0", "slurm:3", true),
            ("slurm:7.0", "slurm:7.1", true),
            ("slurm:7.0", "slurm:0", false),
            ("slurm:0", "slurm", false),
        ] {
            assert_eq!(have_same_files(one, other), same, "{one} {other}");
        }
        let further = ["slurm:1", "slurm:7.2"].map(is_further);
        let first = ["slurm:0", "slurm:7.0", "alpha"].map(is_further);
        assert_eq!((further, first), ([true; 2], [false; 3]));
    }

    #[test]
    fn the_options_of_the_user_stand_behind_ours_and_before_the_agent() {
        let config = Config {
            slurm_options: vec!["--immediate=60".into(), "-p".into(), "short".into()],
            ..Config::default()
        };
        let words = |placement: Placement| {
            let command = placement.command(&config, "nearsh agent --stdio");
            let words = command.get_args().map(|word| word.to_str().unwrap());
            words.collect::<Vec<_>>().join(" ")
        };
        let own = words(Placement::default());
        let ends = " --immediate=60 -p short /bin/sh -c exec nearsh agent --stdio";
        assert!(
            own.contains(" --immediate=5 ") && own.ends_with(ends),
            "{own}"
        );
        assert!(own.contains(" --unbuffered "), "{own}");
        let within = words(Placement {
            job: Some(7),
            number: 1,
        });
        assert!(
            within.contains(" --jobid=7 --relative=1 --overlap "),
            "{within}"
        );
        assert!(!within.contains("--immediate=5"), "{within}");
    }
}
