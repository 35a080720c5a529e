//! Programs made by chance, at levels chosen by chance: no store is lost, and they print what they print without the pass.
//!
//! `PERDURE_RANDOM=N` sets their number, `PERDURE_SEED=S` the first seed; a failure names the seed and leaves the program.

use crate::house::House;
use crate::program;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

const LEVELS: [&[&str]; 8] = [
    &["-O0"],
    &["-O1"],
    &["-O2"],
    &["-O3"],
    &["-Os"],
    &["-O3", "-mavx2"],
    &["-O2", "-funroll-loops", "-fno-strict-aliasing"],
    &["-O2", "-flto"],
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn programs_made_by_chance_lose_no_store() {
    let house = House::new("random");
    let (first, count) = (number("PERDURE_SEED", 1), number("PERDURE_RANDOM", 40));
    let next = AtomicU64::new(first);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut failures = Vec::new();
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed >= first + count {
                            return failures;
                        }
                        if let Err(why) = one(&house, seed) {
                            failures.push(format!("seed {seed}: {why}"));
                        }
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a worker ends"))
            .collect()
    });
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn one(house: &House, seed: u64) -> Result<(), String> {
    let path = |what: &str| house.folder.join(format!("{seed}.{what}"));
    std::fs::write(path("c"), program::text(seed)).map_err(|e| e.to_string())?;
    let run = |command: &mut Command| {
        let output = command.output().map_err(|e| e.to_string())?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let message = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "{}: {}",
            output.status,
            message.chars().take(300).collect::<String>()
        ))
    };
    run(Command::new("clang-19")
        .args(["-w", "-O1", "-I"])
        .arg(&house.tests)
        .arg(path("c"))
        .arg(&house.runtime)
        .arg("-o")
        .arg(path("plain")))?;
    let expected = run(Command::new(path("plain")).env("HEAP_PLAIN", "1"))?;
    for level in [seed % 8, seed.wrapping_mul(7).wrapping_add(3) % 8] {
        let level = LEVELS[level as usize];
        let at = |why: String| format!("{}: {why}", level.join(" "));
        run(house
            .cc()
            .args(["-w", "-fperdure-no-runtime", "-I"])
            .arg(&house.tests)
            .args(level)
            .arg(path("c"))
            .arg(&house.runtime)
            .arg("-o")
            .arg(path("ours")))
        .map_err(at)?;
        if run(&mut Command::new(path("ours"))).map_err(at)? != expected {
            return Err(at("prints something else".into()));
        }
    }
    for what in ["c", "plain", "ours"] {
        std::fs::remove_file(path(what)).map_err(|e| e.to_string())?;
    }
    Ok(())
}
