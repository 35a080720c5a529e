//! Puts the project's annotations into the library: a list of the names of commands, and the text that each one's file has.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../annotations");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut rows = Vec::new();
    for entry in std::fs::read_dir(&folder)
        .expect("the annotations")
        .flatten()
    {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        println!("cargo:rerun-if-changed={}", path.display());
        let text = std::fs::read_to_string(&path).expect("an annotation");
        let names = text.lines().find_map(|line| line.strip_prefix("names = ["));
        let names = names.unwrap_or_else(|| panic!("{}: no names", path.display()));
        let path = path.canonicalize().expect("an annotation");
        for name in names.split('"').skip(1).step_by(2) {
            rows.push((name.to_owned(), path.clone()));
        }
    }
    rows.sort();
    for pair in rows.windows(2) {
        assert!(pair[0].0 != pair[1].0, "two annotations of {}", pair[0].0);
    }
    let mut table = String::from("[\n");
    for (name, path) in rows {
        let _ = writeln!(table, "    ({name:?}, include_str!({path:?})),");
    }
    table.push(']');
    let out = std::env::var("OUT_DIR").expect("where to write");
    std::fs::write(Path::new(&out).join("annotations.rs"), table).expect("written");
}
