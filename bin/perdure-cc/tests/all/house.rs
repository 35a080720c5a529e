//! What the tests share: the pass, built from its sources, and a folder to work in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

pub struct House {
    /// For what a test makes. It is left there, for whoever looks for the reason of a failure.
    pub folder: PathBuf,
    /// `cpp/test/pass`.
    pub tests: PathBuf,
    /// The test runtime, compiled.
    pub runtime: PathBuf,
    pass: PathBuf,
}

pub const BIN: &str = env!("CARGO_BIN_EXE_perdure-cc");

impl House {
    pub fn new(name: &str) -> House {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = target.join(name);
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).expect("a folder");
        let tests = root
            .join("cpp/test/pass")
            .canonicalize()
            .expect("the tests of the pass");
        let runtime = folder.join("runtime.o");
        let clang = Command::new("clang-19")
            .args(["-O2", "-DHEAP_SIZE=((size_t)256 << 10)", "-c"])
            .arg(tests.join("runtime.c"))
            .arg("-o")
            .arg(&runtime)
            .status()
            .expect(
                "clang-19: install the packages clang-19, llvm-19-dev, llvm-19-tools and lld-19",
            );
        assert!(clang.success(), "the test runtime compiles");
        House {
            folder,
            tests,
            runtime,
            pass: pass(&root, target),
        }
    }

    pub fn pass(&self) -> &Path {
        &self.pass
    }

    /// perdure-cc with the pass of these sources.
    pub fn cc(&self) -> Command {
        let mut command = Command::new(BIN);
        command
            .env("PERDURE_PASS", &self.pass)
            .current_dir(&self.folder);
        command
    }
}

/// `PERDURE_PASS`, or the pass as its sources are now.
fn pass(root: &Path, target: &Path) -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if let Some(told) = std::env::var_os("PERDURE_PASS") {
                return told.into();
            }
            // One for all test programs, which may run side by side.
            let lock = std::fs::File::create(target.join("pass.lock")).expect("a lock");
            lock.lock().expect("the lock");
            let made = Command::new("make")
                .args(["-s", "-j2", "-C"])
                .arg(root.join("cpp/pass"))
                .arg(format!("OUT={}", target.display()))
                .status()
                .expect("make");
            assert!(made.success(), "the pass compiles");
            target.join("perdure-pass.so")
        })
        .clone()
}
