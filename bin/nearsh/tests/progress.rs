//! `tests/near/progress` on the client of a rig whose line is slow.

#![allow(clippy::print_stderr)] // who runs the tests should know

use std::process::Command;

#[test]
fn a_command_elsewhere_that_takes_long_has_a_line_on_the_terminal() {
    if std::env::var_os("PERDURE_RIG").is_none() {
        eprintln!("left out: PERDURE_RIG is not set, as ./x test does where there can be hosts");
        return;
    }
    let near = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/near");
    let folder = tempfile::tempdir_in("/var/tmp").unwrap();
    let output = Command::new(format!("{near}/rig"))
        .arg("up")
        .arg(folder.path())
        .args(["--hosts", "alpha", "--rate", "16mbit", "--nearsh"])
        .arg(env!("CARGO_BIN_EXE_nearsh"))
        .args(["--with-parent", "--"])
        .arg(format!("{near}/progress"))
        .arg(env!("CARGO_BIN_EXE_nearsh"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.lines().filter(|line| line.starts_with("ok ")).count() >= 16
            && !said.contains("WRONG"),
        "{said}{errors}"
    );
}
