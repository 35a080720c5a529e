//! What `nearsh doctor` prints: plain sentences, each trouble with what can be done about it.

use std::time::{Duration, SystemTime};

use shell_exec::config::user_file;
use shell_exec::doctor::{Far, Host, Report, Shims, Trouble};
use shell_exec::mounts::Mount;
use shell_exec::slurm::Placement;
use shell_exec::wire::PROTOCOL;
use shell_plan::plan::explain::seconds;

/// Everything that was found.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    let mut say = |indent: usize, line: &str| {
        text += &" ".repeat(indent);
        text += line;
        text.push('\n');
    };
    if report.mounts.is_empty() {
        say(
            0,
            "No folder of another machine is mounted here (NFS, sshfs, CIFS): all commands run here.",
        );
    } else {
        say(0, "Folders of other machines:");
    }
    for (mount, hindrance) in &report.mounts {
        say(2, &about_mount(mount));
        if let Some(why) = hindrance {
            say(4, &format!("cannot be used: {why}"));
        }
        if mount.export.is_none() {
            say(
                4,
                &format!(
                    "to do, if commands shall run where it is: mount the folder by sshfs or NFS, too, or say on which machine ssh gets to it, \
                     in {}: //{}/SHARE via PROXY:/FOLDER",
                    configuration(),
                    mount.host
                ),
            );
        }
    }
    if !report.wrong.is_empty() || !report.unused.is_empty() {
        say(0, "Configuration:");
    }
    for (line, wrong) in &report.wrong {
        say(2, &format!("{line} counts for nothing: {wrong}"));
        say(4, &format!("to do: {}", wrong.to_do()));
    }
    for proxy in &report.unused {
        say(
            2,
            &format!(
                "{}: nothing of that is mounted here; mount lists what is",
                proxy.at
            ),
        );
    }
    for host in &report.hosts {
        say(0, &format!("{}:", host.name));
        for line in about(host, report) {
            say(2, &line);
        }
    }
    say(0, "This machine:");
    say(2, shims(report.shims));
    let broker = match report.broker {
        Some((process, began)) => {
            let since = SystemTime::UNIX_EPOCH + Duration::from_millis(began);
            let since = since.elapsed().unwrap_or_default().as_secs_f64();
            format!(
                "the background process that holds connections runs (process {process}) for {}",
                seconds(since)
            )
        }
        None => "the background process that holds connections does not run; the first who needs it begins it".into(),
    };
    say(2, &broker);
    text
}

/// What is mounted somewhere, and where commands run that use it.
fn about_mount(mount: &Mount) -> String {
    let (at, kind, host) = (mount.at.display(), &mount.kind, &mount.host);
    let export = match &mount.export {
        Some(export) if export.as_os_str().is_empty() => "the home folder".to_owned(),
        Some(export) => export.display().to_string(),
        None => "a share".to_owned(),
    };
    match &mount.stands_for {
        None => format!("{at}: {export} of {host}, by {kind}"),
        Some(source) if Placement::read(host).is_some() => {
            format!(
                "{at}: {source}, by {kind}; commands run on nodes of Slurm that have it under this name"
            )
        }
        Some(source) => format!(
            "{at}: {source}, by {kind}; commands run on the proxy {host}, which has it as {export}"
        ),
    }
}

/// The user's file, by its name.
fn configuration() -> String {
    user_file().map_or("~/.config/nearsh/config".into(), |file| {
        file.display().to_string()
    })
}

fn shims(shims: Shims) -> &'static str {
    match shims {
        Shims::First => {
            "the commands of this shell run elsewhere, too: its shims are first in PATH"
        }
        Shims::Later => {
            "the shims are in PATH, but behind other folders: have eval \"$(nearsh init bash)\" be the last that changes PATH"
        }
        Shims::Absent => {
            "only scripts that are run by nearsh run elsewhere; for this shell's own commands: eval \"$(nearsh init bash)\""
        }
    }
}

/// Lines about a host.
fn about(host: &Host, report: &Report) -> Vec<String> {
    let ssh = report.reach.ssh.join(" ");
    let name = &host.name;
    let far = match &host.answer {
        Ok(far) => far,
        Err(trouble) if Placement::read(name).is_some() => {
            return without_node(trouble, &report.reach.agent);
        }
        Err(trouble) => return troubled(name, &ssh, trouble, &report.reach.agent),
    };
    let trip = round_trip(far.round_trip_s);
    let mut lines = vec![
        match Placement::read(name) {
            None => format!("reached by {ssh} without a password, round trip {trip}"),
            Some(Placement { job: None, .. }) => {
                format!("srun was given a node and reaches it, round trip {trip}")
            }
            Some(Placement { job: Some(job), .. }) => {
                format!("reached by srun in the job {job}, round trip {trip}")
            }
        },
        format!(
            "nearsh {} there, protocol {} as here",
            far.hello.version, far.hello.protocol
        ),
        if Placement::read(name).is_some() {
            format!("processors of it that are the job's: {}", far.hello.cores)
        } else {
            format!(
                "{} processors, {:.2} processes want one",
                far.hello.cores,
                f64::from(far.hello.busy.others) / 100.0
            )
        },
    ];
    let why: Vec<&String> = far.hello.views.iter().flatten().collect();
    if let Some(why) = why.first() {
        lines.push(format!("its folders cannot be shown there as here: {why}"));
        if why.contains("namespace") {
            lines.push(
                "to do, as its administrator: sysctl -w user.max_user_namespaces=10000, and where they are there \
                 kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0"
                    .into(),
            );
        }
    } else {
        lines.push("its folders can be shown there under the names that they have here".into());
    }
    if !far.hello.sees_owners {
        lines.push(
            "the owners of others' files are not seen in a namespace of users: commands that show them run here".into(),
        );
    }
    lines.push(if far.hello.has_bounds {
        "what a command may touch is bound by its kernel (Landlock)".into()
    } else {
        "its kernel has no Landlock: commands run there with all that this user may do".into()
    });
    lines.extend(commands(far, report));
    lines
}

/// What of the commands differs, and what they depend on.
fn commands(far: &Far, report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    if far.hello.libc != report.libc {
        let libc = |text: &str| {
            if text.is_empty() {
                "one that is not known".to_owned()
            } else {
                text.to_owned()
            }
        };
        lines.push(format!(
            "another C library than here ({} there, {} here): commands that depend on a locale other than C run here",
            libc(&far.hello.libc),
            libc(&report.libc)
        ));
    }
    if !far.locales.is_empty() {
        lines.push(format!(
            "locales that only one of the two machines has: {}; commands that depend on them run here",
            far.locales.join(", ")
        ));
    }
    let same = report.commands - far.missing.len() - far.different.len();
    lines.push(format!(
        "{same} of {} commands are the same there",
        report.commands
    ));
    for (what, names) in [
        ("are not there", &far.missing),
        ("are others there", &far.different),
    ] {
        if !names.is_empty() {
            lines.push(format!(
                "{} {what} and run here: {}",
                names.len(),
                names.join(" ")
            ));
        }
    }
    lines
}

/// Why Slurm gave no node, or none that is of use, and what to do.
fn without_node(trouble: &Trouble, agent: &str) -> Vec<String> {
    let (file, said) = (configuration(), "it said");
    match trouble {
        Trouble::NoSsh(why) => vec![
            format!("Slurm cannot be asked: {why}"),
            format!("to do: install Slurm's commands here (Debian: slurm-client), or have engine ssh in {file}"),
        ],
        Trouble::NotFree(after) => vec![
            format!("Slurm had no free node within {after} s; commands run here until it has"),
            format!(
                "to do: name a partition that has in {file} (slurm-options --partition=NAME), let srun wait longer (slurm-options --immediate=60), \
                 or run nearsh in an allocation (salloc nearsh ...)"
            ),
        ],
        Trouble::NotReached(text) => {
            let has = |what: &str| text.to_lowercase().contains(what);
            vec![
                format!("Slurm gave no node; {said}: {text}"),
                if has("unable to contact") || has("configuration source") || has("communication") {
                    "to do: see that sinfo answers here; if it does not, Slurm's controller does not run, or this machine does not know it (slurm.conf)".into()
                } else if has("unrecognized option") || has("invalid option") || has("--help") {
                    format!("to do: see slurm-options in {file}; srun --help says what there is")
                } else {
                    format!(
                        "to do: see that srun true works by hand; what your site asks for (account, partition, time) can be said in {file}: \
                         slurm-options --account=NAME --partition=NAME --time=60"
                    )
                },
            ]
        }
        Trouble::NoNearsh(text) => vec![
            format!("Slurm gave a node, but \"{agent}\" cannot be run there; {said}: {text}"),
            "to do: put nearsh into a folder that is in PATH and that the nodes have, too, or name it in NEARSH_AGENT".into(),
        ],
        Trouble::NotUnderstood(text) => vec![
            format!("Slurm gave a node, but what answers there does not speak as this nearsh does; {said}: {text}"),
            "to do: have the same version there as here (srun nearsh --version)".into(),
        ],
        Trouble::Silent(after) => vec![
            format!("nothing came for {after} s"),
            "to do: see that srun true works by hand".into(),
        ],
        Trouble::Protocol(..) => troubled("", "", trouble, agent),
    }
}

/// Why a host cannot be used, and what to do.
fn troubled(name: &str, ssh: &str, trouble: &Trouble, agent: &str) -> Vec<String> {
    let said = |said: &str| {
        if said.is_empty() {
            "nothing was said".to_owned()
        } else {
            format!("it said: {said}")
        }
    };
    match trouble {
        Trouble::NoSsh(why) => vec![
            format!("cannot be reached: {why}"),
            "to do: install OpenSSH's client, or name another one in NEARSH_SSH".into(),
        ],
        Trouble::NotReached(text) => {
            let mut lines = vec![format!(
                "{ssh} -o BatchMode=yes {name} does not get there; {}",
                said(text)
            )];
            let has = |what: &str| text.contains(what);
            lines.push(if has("Permission denied") || has("Too many authentication") {
                format!("to do: log in by a key (ssh-keygen, then ssh-copy-id {name}), or have the key in ssh-agent")
            } else if has("Host key verification") || has("HOST IDENTIFICATION") {
                format!("to do: log in once by hand (ssh {name}) and look at its key")
            } else if has("Could not resolve") {
                format!("to do: say in ~/.ssh/config where it is (Host {name}, HostName ADDRESS)")
            } else {
                format!(
                    "to do: see that ssh {name} works by hand; its user, port and address can be said in ~/.ssh/config (Host {name})"
                )
            });
            if !has("Permission denied") && !has("Host key") && !has("HOST IDENTIFICATION") {
                lines.push(format!(
                    "or, if it has no ssh: say which machine has that, and its folders, in {}: {name}:/FOLDER via PROXY:/FOLDER",
                    configuration()
                ));
            }
            lines
        }
        Trouble::NoNearsh(text) => vec![
            format!(
                "reached by {ssh}, but \"{agent}\" cannot be run there; {}",
                said(text)
            ),
            format!(
                "to do: put nearsh into a folder that is in PATH there (scp nearsh {name}:/usr/local/bin), or name it in NEARSH_AGENT"
            ),
        ],
        Trouble::NotUnderstood(text) => vec![
            format!(
                "reached by {ssh}, but what answers does not speak as this nearsh does; {}",
                said(text)
            ),
            format!(
                "to do: have the same version there as here (ssh {name} nearsh --version); its shell must print nothing by itself"
            ),
        ],
        Trouble::NotFree(after) | Trouble::Silent(after) => {
            vec![format!("nothing came for {after} s")]
        }
        Trouble::Protocol(version, protocol) => vec![
            format!("nearsh {version} there speaks protocol {protocol}, and this one {PROTOCOL}"),
            "to do: have the same version there as here".into(),
        ],
    }
}

/// A time that may be much shorter than a millisecond.
fn round_trip(time: f64) -> String {
    if time < 0.000_95 {
        format!("{:.2} ms", time * 1000.0)
    } else {
        seconds(time)
    }
}
