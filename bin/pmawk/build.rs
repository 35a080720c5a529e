//! How the program is linked.
//!
//! An awk is started thousands of times in a script. Of 1.5 ms that `pmawk 'BEGIN{}'` took, the dynamic loader had half a
//! millisecond (three libraries) and 16,000 relocations a quarter: so a release is linked statically and for fixed
//! addresses (docs/decisions/006-linking.md). Memory, stack and code made at run time lie at random addresses all the same.

//!
//! What every run calls lies side by side: scattered over seven megabytes it was in 59 stretches of 64 KiB, and the first touch of
//! each is a page fault that maps all of its pages.

#[path = "../static_link.rs"]
mod static_link;

use std::fmt::Write;

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
    let Some(folder) = static_link::link() else {
        return;
    };
    let script = folder.join("order.ld");
    if std::fs::write(&script, order()).is_ok() {
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
}
