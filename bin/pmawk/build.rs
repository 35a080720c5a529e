//! How the program is linked.
//!
//! An awk is started thousands of times in a script. Of 1.5 ms that `pmawk 'BEGIN{}'` took, the dynamic loader had half a
//! millisecond (three libraries) and 16,000 relocations a quarter: so a release is linked statically and for fixed
//! addresses (docs/decisions/006-linking.md). Memory, stack and code made at run time lie at random addresses all the same.

//!
//! What every run calls lies side by side: scattered over seven megabytes it was in 59 stretches of 64 KiB, and the first touch of
//! each is a page fault that maps all of its pages.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names of functions as patterns, and files of the C library: `bench/first.py` writes it. Nothing but speed depends on it; the linker
/// passes over what it does not find.
const FIRST: &str = include_str!("first.txt");

/// A linker script that puts what is listed before all other code.
fn order() -> String {
    let mut script = String::from("SECTIONS {\n  .text.first : {\n");
    for name in FIRST.lines() {
        let _ = match name.strip_prefix("libc.a:") {
            Some(file) => writeln!(script, "    *libc.a:{file}(.text .text.*)"),
            None => writeln!(script, "    *(.text.{name} .text.unlikely.{name})"),
        };
    }
    script.push_str("  }\n} INSERT BEFORE .text;\n");
    script
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=first.txt");
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
    let script = folder.join("order.ld");
    if std::fs::write(&script, order()).is_err() {
        return;
    }
    // For the program alone: the package's tests are linked as usual.
    println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
    println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
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
