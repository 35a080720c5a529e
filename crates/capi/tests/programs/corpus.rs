//! The soundness corpus of the pass (`cpp/test/pass`) over this library: no store is lost, in line mode and in verify mode. The pass' own tests run it
//! beside a runtime that knows cards and nothing else.

use crate::build::{libraries, run, scratch, tracking_compiler};
use std::path::Path;
use std::process::Command;

#[test]
fn no_program_of_the_corpus_loses_a_store() {
    let compiler = tracking_compiler(false);
    let mut pass = compiler.get_envs();
    let pass = pass.find_map(|(name, value)| value.filter(|_| name == "PERDURE_PASS"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cpp/test/pass/run");
    let mut command = Command::new(script);
    command
        .arg(compiler.get_program())
        .arg(scratch().join("corpus"))
        .env("PERDURE_PASS", pass.unwrap())
        .env("LIBPERDURE", libraries())
        // See `build::searched`.
        .env_remove("LD_LIBRARY_PATH");
    let output = run(&mut command);
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}{errors}");
}
