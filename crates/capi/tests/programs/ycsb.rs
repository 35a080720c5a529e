//! The programs of `./x bench msync`, few operations on every engine that is here: each compares what it reads and, after it opened its store again,
//! what it left with a model. And the comparison itself: an update that is left out must be found.

use crate::build::{good, libraries, run, searched};
use std::path::{Path, PathBuf};
use std::process::Command;

const DRIVER: [&str; 3] = ["ycsb.c", "workload.c", "model.c"];
const STRUCTURES: [&str; 4] = ["memory.c", "hash.c", "btree.c", "list.c"];
const ALL: &[&str] = &["hash", "btree", "list"];
const OPERATIONS: &str = "1500";

struct Engine {
    name: &'static str,
    program: PathBuf,
    stores: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
}

fn built(compiler: &Path, to: PathBuf, parts: &[&str], options: &[&str]) -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = crate_folder.join("../../bench/msync");
    let mut command = Command::new(compiler);
    command.args(["-O2", "-std=gnu11", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-I").arg(crate_folder.join("include"));
    command.args(DRIVER.iter().chain(parts).map(|name| sources.join(name)));
    command.arg("-L").arg(libraries());
    command.arg(searched(&libraries()));
    command.args(options).args(["-lm", "-o"]).arg(&to);
    good(&mut command);
    to
}

/// Those that can be had here.
#[expect(clippy::print_stderr, reason = "who runs the tests should know")]
fn engines(folder: &Path) -> Vec<Engine> {
    let cc = Path::new("cc");
    let mut engines = Vec::new();
    let mut structures = |compiler, name: &'static str, options: &[&str], environment| {
        engines.push(Engine {
            name,
            program: built(compiler, folder.join(name), &STRUCTURES, options),
            stores: ALL,
            environment,
        });
    };
    let perdure = &["-DENGINE_PERDURE", "-lperdure"];
    structures(cc, "volatile", &["-DENGINE_VOLATILE"], &[]);
    structures(cc, "pages", perdure, &[]);
    structures(cc, "msync", &["-DENGINE_MSYNC"], &[]);
    let perdure_cc = libraries().join("../perdure-cc");
    if perdure_cc.exists() && libraries().join("../../perdure-pass.so").exists() {
        structures(&perdure_cc, "lines", perdure, &[]);
        structures(
            &perdure_cc,
            "memory",
            perdure,
            &[("PERDURE_MEDIA", "memory")],
        );
    } else {
        eprintln!("left out: perdure-cc was not built");
    }
    let has = |header: &str| {
        let has = Path::new("/usr/include").join(header).exists();
        if !has {
            eprintln!("left out: no {header}");
        }
        has
    };
    if has("libpmemobj.h") {
        let options = ["-DENGINE_PMDK", "-lpmemobj"];
        structures(cc, "pmdk", &options, &[("PMEM_IS_PMEM_FORCE", "1")]);
    }
    for (name, header, source, library) in [
        ("lmdb", "lmdb.h", "kv_lmdb.c", "-llmdb"),
        ("sqlite", "sqlite3.h", "kv_sqlite.c", "-lsqlite3"),
    ] {
        if has(header) {
            let options = ["-DSTORE=kv_store", library];
            engines.push(Engine {
                name,
                program: built(cc, folder.join(name), &[source], &options),
                stores: &["kv"],
                environment: &[],
            });
        }
    }
    engines
}

impl Engine {
    fn command(&self, folder: &Path, store: &str, batch: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.environment.iter().copied());
        command.arg(store).arg(folder.join("store"));
        command.args(["300", batch, "600", OPERATIONS, "ABCFD,E"]);
        command
    }
}

#[test]
fn every_engine_of_the_benchmark_holds_what_the_model_holds() {
    // In memory, where there is such a folder: so many commits on a disk would take a minute.
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .unwrap();
    for engine in engines(folder.path()) {
        for store in engine.stores {
            for batch in ["1", "30"] {
                let said = good(&mut engine.command(folder.path(), store, batch));
                let whole = format!("\"operations\": {OPERATIONS},");
                assert_eq!(said.matches(&whole).count(), 6, "{}: {said}", engine.name);
            }
            let output = run(engine.command(folder.path(), store, "1").arg("forget=200"));
            assert_eq!(output.status.code(), Some(1), "{}, {store}", engine.name);
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(words.contains("stored"), "{words}");
        }
    }
}
