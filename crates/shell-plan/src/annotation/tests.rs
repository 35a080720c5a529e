use super::*;

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

#[test]
fn options_are_taken_apart_as_getopt_does() {
    let sort = Annotation::read(include_str!("../../../../annotations/sort.toml")).unwrap();
    let call = sort
        .call(&words("sort --rev -k2 -nk 3 a -- -b"), false)
        .unwrap();
    assert_eq!(call.options, ["-r", "-k", "-n", "-k"]);
    assert_eq!(call.operands, [5, 7]);
    assert!(!call.stdin);
    let call = sort.call(&words("sort a -r"), true).unwrap();
    assert_eq!(call.operands, [1, 2], "with POSIXLY_CORRECT");
    for wrong in [
        "sort --re-",
        "sort -k",
        "sort --r=3",
        "sort -x",
        "sort --ran",
    ] {
        assert!(sort.call(&words(wrong), false).is_err(), "{wrong}");
    }
}

#[test]
fn a_misspelt_annotation_is_a_mistake() {
    let good = "names = ['x']\noptions = '-a, --all text'\n[[use]]\nname = 'u'\nwith = ['-a']\neffect = 'pure'\n";
    assert!(Annotation::read(good).is_ok());
    for (old, new, says) in [
        ("effect = 'pure'", "", "\"effect\" is missing"),
        (
            "'pure'",
            "'puer'",
            "\"puer\" is none of: pure, idempotent, once",
        ),
        (
            "['-a']",
            "['-b']",
            "\"-b\" is not the first name of an option",
        ),
        (
            "name = 'u'",
            "name = 'u'\nsplitt = 1",
            "unknown key \"splitt\"",
        ),
        ("--all text", "--all txt", "\"txt\" is none of"),
        ("names", "nams", "\"names\" is missing"),
        ("-a, --all", "-a, -a", "there twice"),
        ("['x']", "'x'", "not a list of texts"),
    ] {
        let text = good.replace(old, new);
        let said = Annotation::read(&text).unwrap_err().to_string();
        assert!(said.contains(says), "{said}");
    }
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
