//! The language of annotations, and the project's own held against their examples.

use shell_plan::annotation::{Annotation, Example, Kind};

mod common;

use common::{annotations, words};

/// Every annotation of the project means what its own examples say.
#[test]
fn examples_hold() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for (file, read) in annotations() {
        let annotation = match read {
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
                            .map(|f| String::from_utf8_lossy(f.name(&words)).into_owned())
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

const SORT: &str = "names = ['sort']\noptions = '''\n-r, --reverse\n-n, --numeric-sort\n-R, --random-sort\n--random-source input\n\
    -k, --key text\n'''\n[[use]]\nname = 'sort'\noperands = ['input*']\neffect = 'pure'\n";

#[test]
fn options_are_taken_apart_as_getopt_does() {
    let sort = Annotation::read(SORT).unwrap();
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
fn options_of_several_letters_may_have_one_dash() {
    let text = "names = ['x']\noptions = '''\n-p, -ps, -plain\n-s text\n-resize, --resize text\n'''\n\
                [[use]]\nname = 'u'\noperands = ['input*']\neffect = 'pure'\n";
    let annotation = Annotation::read(text).unwrap();
    for (of, options, operands) in [
        ("x -resize 50% a", vec!["-resize"], vec![3]),
        ("x -resize=50% a", vec!["-resize"], vec![2]),
        ("x -ps a", vec!["-p"], vec![2]),
        ("x -pss a", vec!["-p", "-s"], vec![2]),
        ("x -sresize a", vec!["-s"], vec![2]),
    ] {
        let call = annotation.call(&words(of), false).unwrap();
        assert_eq!((call.options, call.operands), (options, operands), "{of}");
    }
    for wrong in ["x -resiz 50% a", "x -resize", "x -ps=3"] {
        assert!(annotation.call(&words(wrong), false).is_err(), "{wrong}");
    }
}

#[test]
fn words_that_may_be_no_files_fit_nothing() {
    let of = |rest: &str| {
        let text = format!(
            "names = ['x']\noptions = '''-d text\n-f program-file'''\n[[use]]\nname = 'u'\neffect = 'pure'\n{rest}"
        );
        Annotation::read(&text).unwrap()
    };
    let fits = |annotation: &Annotation, call: &str| annotation.call(&words(call), false).is_ok();
    let reads = of("operands = ['input*']\n");
    assert!(fits(&reads, "x a -") && fits(&reads, "x ./+1 ./@list"));
    assert!(!fits(&reads, "x +1"), "an old form of an option");
    assert!(!fits(&reads, "x a @list"), "a file with arguments");
    assert!(!fits(&reads, "x ''"));
    assert!(fits(&reads, "x -d: a") && !fits(&reads, "x -d '\n' a"));
    for kind in ["input", "tree", "assignment"] {
        let never = of(&format!("operands = ['{kind}*']\nstdin = 'never'\n"));
        assert!(fits(&never, "x a") && fits(&never, "x") && !fits(&never, "x a -"));
    }
    for kind in ["output", "update"] {
        let writes = of(&format!("operands = ['{kind}*']\n"));
        assert!(fits(&writes, "x a") && !fits(&writes, "x -"), "{kind}");
    }
    let texts = of("operands = ['text*']\nstdin = 'never'\n");
    assert!(fits(&texts, "x - +1 @a ''"));
    let runs = of("operands = ['command']\n");
    assert!(fits(&runs, "x y z=1") && !fits(&runs, "x z=1 y"));
    let call = reads.call(&words("x -f - a"), false).unwrap();
    assert!(call.stdin, "a program from standard input");
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
