//! How the program is linked: statically, for it stands before every command of a script (docs/decisions/006-linking.md).

#[path = "../static_link.rs"]
mod static_link;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    static_link::link();
}
