//! The corpus and the checks of the pass: `cpp/test/pass/run`.

use crate::house::{BIN, House};
use std::process::Command;

#[test]
fn no_program_of_the_corpus_loses_a_store() {
    let house = House::new("corpus");
    let output = Command::new(house.tests.join("run"))
        .arg(BIN)
        .arg(&house.folder)
        .env("PERDURE_PASS", house.pass())
        .output()
        .expect("bash");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
