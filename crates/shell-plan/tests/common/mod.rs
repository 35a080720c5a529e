//! What tests of annotations and plans have in common: words of a call, and the project's annotations.

#![allow(dead_code)] // each test program uses a part of it

use std::collections::BTreeMap;

use shell_plan::annotation::{Annotation, Example};

/// A call's words.
pub fn words(call: &str) -> Vec<Vec<u8>> {
    let example = Example {
        call: call.into(),
        ..Example::default()
    };
    example.words()
}

/// The project's annotations by their files' names.
pub fn annotations() -> BTreeMap<String, Result<Annotation, String>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../annotations");
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let file = path.file_name().unwrap().to_string_lossy().into_owned();
            let read = Annotation::read(&std::fs::read_to_string(&path).unwrap());
            all.insert(file, read.map_err(|mistake| mistake.to_string()));
        }
    }
    all
}

/// The annotation of a command.
pub fn annotation<'a>(
    all: &'a BTreeMap<String, Result<Annotation, String>>,
    name: &str,
) -> Option<&'a Annotation> {
    all.values()
        .flatten()
        .find(|annotation| annotation.is(name))
}
