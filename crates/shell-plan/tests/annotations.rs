//! The annotations of the project, held against their own examples.

use shell_plan::annotation::{Annotation, Example, Kind};

/// A call's words: blanks part them, but not between single quotes.
fn words(call: &str) -> Vec<Vec<u8>> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quoted = false;
    for byte in call.bytes() {
        match byte {
            b'\'' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            b' ' if !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    words
}

/// Every annotation of the project means what its own examples say.
#[test]
fn examples_hold() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../annotations");
    let mut count = 0;
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let annotation = match Annotation::read(&std::fs::read_to_string(&path).unwrap()) {
            Ok(annotation) => annotation,
            Err(mistake) => {
                wrong.push(format!("{file}: {mistake}"));
                continue;
            }
        };
        if annotation.examples.is_empty() {
            wrong.push(format!("{file}: no examples"));
        }
        for of in &annotation.uses {
            let shown = |e: &Example| e.fits.as_ref() == Some(&of.name);
            if !annotation.examples.iter().any(shown) {
                wrong.push(format!("{file}: no example of \"{}\"", of.name));
            }
        }
        for example in &annotation.examples {
            count += 1;
            let words = words(&example.call);
            let found = match annotation.call(&words, false) {
                Err(_) => Example {
                    call: example.call.clone(),
                    ..Example::default()
                },
                Ok(call) => {
                    let files = |wanted: fn(Kind) -> bool| -> Vec<String> {
                        (call.files.iter().filter(|file| wanted(file.kind)))
                            .map(|f| String::from_utf8_lossy(&words[f.word][f.from..]).into_owned())
                            .collect()
                    };
                    Example {
                        call: example.call.clone(),
                        fits: Some(call.of.name.clone()),
                        reads: files(|k| matches!(k, Kind::Input | Kind::Tree | Kind::Update)),
                        writes: files(|k| matches!(k, Kind::Output | Kind::Update)),
                        stdin: call.stdin,
                    }
                }
            };
            if found != *example {
                wrong.push(format!("{file}: {example:?}\n  is found to be {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 0);
}
