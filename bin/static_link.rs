//! Linking a program statically and for fixed addresses (docs/decisions/006-linking.md): part of the build scripts of programs that scripts
//! start thousands of times.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Has the program be linked so, if it is a release on a system that has the libraries, and says where files for the linker may be put;
/// none: it is linked as any other.
pub fn link() -> Option<PathBuf> {
    println!("cargo:rerun-if-changed=../static_link.rs");
    let var = |name| std::env::var(name).unwrap_or_default();
    let is_linux = var("CARGO_CFG_TARGET_OS") == "linux" && var("CARGO_CFG_TARGET_ENV") == "gnu";
    if !is_linux || var("PROFILE") != "release" {
        return None;
    }
    // The compiler asks the linker for shared libraries by name; under these names it finds the static ones.
    const STANDS_FOR: [(&str, &str); 3] = [
        ("libc.so", "GROUP ( -l:libc.a -l:libgcc_eh.a -l:libgcc.a )"),
        ("libgcc_s.so", "GROUP ( -l:libgcc_eh.a -l:libgcc.a )"),
        ("libm.so", "GROUP ( -l:libm.a )"),
    ];
    // Not every system has them.
    if !["libc.a", "libm.a", "libgcc_eh.a"]
        .into_iter()
        .all(is_there)
    {
        return None;
    }
    let folder = PathBuf::from(var("OUT_DIR"));
    for (name, script) in STANDS_FOR {
        std::fs::write(folder.join(name), script).ok()?;
    }
    // For the program alone: the package's tests are linked as usual.
    println!("cargo:rustc-link-arg-bins=-L{}", folder.display());
    for option in ["-static", "-no-pie"] {
        println!("cargo:rustc-link-arg-bins={option}");
    }
    Some(folder)
}

/// Whether the linker's driver knows where a library lies: it repeats the name of what it does not find.
fn is_there(library: &str) -> bool {
    let asked = Command::new("cc")
        .arg(format!("-print-file-name={library}"))
        .output();
    asked.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_absolute())
}
