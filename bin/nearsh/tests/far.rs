//! `tests/near/far.sh` on the client of a rig.

#![allow(clippy::print_stderr)] // who runs the tests should know

use testkit::rig::{self, Rig};

#[test]
fn what_is_cut_written_and_removed_on_other_machines_is_as_it_is_here() {
    if let Some(why) = rig::lack("PERDURE_RIG") {
        eprintln!("{why}");
        return;
    }
    let rig = Rig::new(&["alpha", "beta"]).with(&["--nearsh", env!("CARGO_BIN_EXE_nearsh")]);
    let output = rig.run(&["bash", &format!("{}/far.sh", rig::NEAR)]);
    rig::is_fine(&output, 150);
}
