//! `tests/near/far.sh` on the client of a rig.

#![allow(clippy::print_stderr)] // who runs the tests should know

use std::process::Command;

#[test]
fn what_is_cut_written_and_removed_on_other_machines_is_as_it_is_here() {
    if std::env::var_os("PERDURE_RIG").is_none() {
        eprintln!("left out: PERDURE_RIG is not set, as ./x test does where there can be hosts");
        return;
    }
    let near = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/near");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = Command::new(format!("{near}/rig"))
        .arg("up")
        .arg(folder.path())
        .args(["--hosts", "alpha,beta", "--nearsh"])
        .arg(env!("CARGO_BIN_EXE_nearsh"))
        .args(["--with-parent", "--", "bash"])
        .arg(format!("{near}/far.sh"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.lines().filter(|line| line.starts_with("ok ")).count() >= 20
            && !said.contains("WRONG"),
        "{said}{errors}"
    );
}
