//! How the program is linked.
//!
//! An awk is started thousands of times in a script. Of 1.5 ms that `pmawk 'BEGIN{}'` took, the dynamic loader had half a
//! millisecond (three libraries) and 16,000 relocations a quarter: so a release is linked statically and for fixed
//! addresses (docs/decisions/006-linking.md). Memory, stack and code made at run time lie at random addresses all the same.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let var = |name| std::env::var(name).unwrap_or_default();
    let is_linux = var("CARGO_CFG_TARGET_OS") == "linux" && var("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_linux || var("PROFILE") != "release" {
        return;
    }
    // The compiler asks the linker for shared libraries by name; under these names it finds the static ones.
    const STANDS_FOR: [(&str, &str); 3] = [
        ("libc.so", "GROUP ( -l:libc.a -l:libgcc_eh.a -l:libgcc.a )"),
        ("libgcc_s.so", "GROUP ( -l:libgcc_eh.a -l:libgcc.a )"),
        ("libm.so", "GROUP ( -l:libm.a )"),
    ];
    // Not every system has them; there the program is linked as any other.
    if !["libc.a", "libm.a", "libgcc_eh.a"]
        .into_iter()
        .all(is_there)
    {
        return;
    }
    let folder = PathBuf::from(var("OUT_DIR"));
    for (name, script) in STANDS_FOR {
        if std::fs::write(folder.join(name), script).is_err() {
            return;
        }
    }
    // For the program alone: the package's tests are linked as usual.
    println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
    for option in ["-static", "-no-pie"] {
        println!("cargo:rustc-link-arg-bins={option}");
    }
}

/// Whether the linker's driver knows where a library lies: it repeats the name of what it does not find.
fn is_there(library: &str) -> bool {
    let asked = Command::new("cc")
        .arg(format!("-print-file-name={library}"))
        .output();
    asked.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute())
}
