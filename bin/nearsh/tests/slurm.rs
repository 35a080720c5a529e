//! `tests/near/slurm.sh`, which is about nodes of a real Slurm, and `tests/near/proxy.sh`, about a filer without ssh; both on the client of a rig.

#![allow(clippy::print_stderr)] // who runs the tests should know

use std::ffi::OsString;

use testkit::rig::{self, NEAR, Rig};

/// Runs words on the client of a rig, if what that needs can be had. Nothing of what they say is wrong, and so many lines are right.
fn judge(needs: &str, options: &[&str], words: &[&str], right: usize) {
    if let Some(why) = rig::lack(needs) {
        eprintln!("{why}");
        return;
    }
    // The daemons' own, beside the rig's: what its hosts have of that is not theirs.
    let slurm = tempfile::tempdir_in("/var/tmp").unwrap();
    let words: Vec<OsString> = (words.iter())
        .map(|word| match *word {
            "SLURM" => slurm.path().as_os_str().to_owned(),
            word => word.into(),
        })
        .collect();
    let rig = Rig::new(&["alpha", "beta"]).with(&["--nearsh", env!("CARGO_BIN_EXE_nearsh")]);
    rig::is_fine(&rig.with(options).run(&words), right);
}

#[test]
fn what_nodes_of_slurm_run_gives_the_same_as_here_whatever_slurm_does() {
    let slurm = format!("{NEAR}/slurm");
    let script = format!("{NEAR}/slurm.sh");
    let words = [&slurm, "SLURM", "bash", &script];
    // Mounts that are of the kind of a cluster's.
    judge(
        "PERDURE_SLURM",
        &["--sshfs", "subtype=glusterfs"],
        &words,
        90,
    );
}

#[test]
fn what_a_filer_without_ssh_serves_is_worked_on_by_a_proxy() {
    let script = format!("{NEAR}/proxy.sh");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let export = |host: &str, below: &str| format!("{host}={}{below}", folder.path().display());
    let (filer, proxy) = (export("alpha", "/home"), export("beta", ""));
    std::fs::create_dir(folder.path().join("home")).unwrap();
    judge(
        "PERDURE_RIG",
        &["--export", &filer, "--export", &proxy],
        &["bash", &script],
        30,
    );
}
