//! `tests/near/progress` on the client of a rig whose line is slow.

#![allow(clippy::print_stderr)] // who runs the tests should know

use testkit::rig::{self, Rig};

#[test]
fn a_command_elsewhere_that_takes_long_has_a_line_on_the_terminal() {
    if let Some(why) = rig::lack("PERDURE_RIG") {
        eprintln!("{why}");
        return;
    }
    let nearsh = env!("CARGO_BIN_EXE_nearsh");
    let rig = Rig::new(&["alpha"]).with(&["--rate", "16mbit", "--nearsh", nearsh]);
    let output = rig.run(&[&format!("{}/progress", rig::NEAR), nearsh]);
    rig::is_fine(&output, 16);
}
