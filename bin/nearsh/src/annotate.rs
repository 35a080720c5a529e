//! What `nearsh annotate` prints: where an annotation lies, each with a call that shows it.

use std::ffi::OsString;
use std::path::Path;

use shell_exec::annotate::{self, Finding, Lie, Report, Wish};
use shell_exec::annotations;
use shell_plan::annotation::{Annotation, Shown};

use crate::args::{self, Annotate};
use crate::exit::Exit;

/// Checks an annotation, in a process of its own; gives back that one's exit status.
pub fn outer(wish: &Annotate, words: &[OsString]) -> u8 {
    // What can be said without it is said first.
    if let Err(why) = annotation(wish) {
        eprintln!("nearsh annotate: {why}");
        return Exit::Unchecked as u8;
    }
    let ended = annotate::apart(words);
    match ended {
        Ok(Some(status)) => u8::try_from(status).unwrap_or(Exit::Unchecked as u8),
        Ok(None) => Exit::Unchecked as u8,
        Err(error) => {
            eprintln!("nearsh annotate: it could not be checked: {error}");
            Exit::Unchecked as u8
        }
    }
}

/// That process.
pub fn inner(base: &Path, words: &[OsString]) -> Exit {
    let checked = args::annotate(words).and_then(|wish| {
        let annotation = annotation(&wish)?;
        let wish = Wish {
            words: wish.words,
            annotation,
        };
        annotate::check(&wish, base)
    });
    match checked {
        Err(why) => {
            eprintln!("nearsh annotate: it could not be checked: {why}");
            Exit::Unchecked
        }
        Ok(report) => {
            let told = crate::tell(&text(&report));
            match (told, &report) {
                (Exit::Ok, report) if !report.findings.is_empty() => Exit::Error,
                (Exit::Ok, report) if report.succeeded == 0 => Exit::Unchecked,
                (told, _) => told,
            }
        }
    }
}

/// The annotation that is meant.
fn annotation(wish: &Annotate) -> Result<Annotation, String> {
    let name = wish.words.first().map(Path::new);
    let name = name.and_then(Path::file_name).unwrap_or_default();
    let name = name.to_string_lossy();
    match &wish.annotation {
        Some(file) => {
            let told = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
            let text = std::fs::read_to_string(file).map_err(|error| told(&error))?;
            let annotation = Annotation::read(&text).map_err(|mistake| told(&mistake))?;
            if annotation.is(&name) {
                Ok(annotation)
            } else {
                Err(told(&format!(
                    "it is about {}",
                    annotation.names.join(", ")
                )))
            }
        }
        None => annotations::of(&name).cloned().ok_or_else(|| {
            format!("there is no annotation of {name}; name one with --annotation=FILE")
        }),
    }
}

/// Everything that was found.
fn text(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let call: Vec<String> = finding.words.iter().map(|word| quoted(word)).collect();
        text += &format!(
            "{}\n  {}\n",
            call.join(" "),
            sentence(finding, &report.home)
        );
        if !finding.of.is_empty() {
            text += &format!("  (use \"{}\")\n", finding.of);
        }
    }
    for name in &report.untried {
        text += &format!("no call of the use \"{name}\" was found that does what it should\n");
    }
    let (tried, succeeded) = (report.tried, report.succeeded);
    let calls = if tried == 1 { "call" } else { "calls" };
    text += &format!(
        "{}: {tried} {calls} tried, {succeeded} of them did what they should: ",
        report.program.display()
    );
    text += &match (report.findings.len(), succeeded) {
        (0, 0) => "nothing can be said".to_owned(),
        (0, _) => "the annotation told the truth".to_owned(),
        (1, _) => "the annotation lies in one place".to_owned(),
        (count, _) => format!("the annotation lies in {count} places"),
    };
    text.push('\n');
    text
}

/// A word as a shell takes it.
fn quoted(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    let plain = |c: char| c.is_alphanumeric() || "_-+=.,:/@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

/// What is wrong, in words.
fn sentence(finding: &Finding, home: &Path) -> String {
    let file = |path: &Path| {
        let folder = std::env::current_dir().unwrap_or_default();
        if let Ok(within) = path.strip_prefix(home) {
            return format!("~/{}", within.display());
        }
        path.strip_prefix(folder)
            .unwrap_or(path)
            .display()
            .to_string()
    };
    match &finding.lie {
        Lie::ReadsText(path) => format!(
            "reads {}, which the annotation says is a text and no file",
            file(path)
        ),
        Lie::LooksAtText(path) => format!(
            "looks at the file {}, which the annotation says is a text and no file",
            file(path)
        ),
        Lie::ReadsUnnamed(path) => {
            format!("opens {}, which the annotation finds no name of in the call", file(path))
        }
        Lie::ReadsOutput(path) => format!(
            "reads {}, which the annotation says is only written",
            file(path)
        ),
        Lie::LeavesFile(path) => format!(
            "never touches {}, which the annotation says is a file that it reads",
            file(path)
        ),
        Lie::WritesText(path) => format!(
            "writes {}, which the annotation says is a text and no file",
            file(path)
        ),
        Lie::WritesInput(path) => format!(
            "writes {}, which the annotation says is only read",
            file(path)
        ),
        Lie::WritesUnnamed(path) => {
            format!("writes {}, which the annotation finds no name of in the call", file(path))
        }
        Lie::Leaves(path) => format!(
            "leaves {} behind, though the annotation says it is pure",
            file(path)
        ),
        Lie::ReadsFolder => {
            "lists the folder it is started in, which the annotation does not say".into()
        }
        Lie::ReadsInput => {
            "reads standard input, though the annotation says that it does not".into()
        }
        Lie::LeavesInput => {
            "does not read standard input, though the annotation says that it does".into()
        }
        Lie::EndsEarly => {
            "ends before it has read all its input, which the annotation does not say (early)".into()
        }
        Lie::Connects => "asks for a connection to another machine".into(),
        Lie::NotPure => {
            "prints something else, or ends otherwise, when it runs again on another host a second later, though the annotation says it is pure".into()
        }
        Lie::NotIdempotent(path) => format!(
            "leaves another {} behind when it runs twice, though the annotation says it is idempotent",
            file(path)
        ),
        Lie::Lines(line) => format!(
            "its input cut before line {line}, what the parts print does not make the whole when it is put together as the annotation says (lines)"
        ),
        Lie::LinesStatus(line) => format!(
            "its input cut before line {line}, the parts' exit statuses do not make the one of the whole (status)"
        ),
        Lie::Apart => {
            "given its files one by one, what it prints does not make the whole when it is put together as the annotation says (apart)".into()
        }
        Lie::ApartStatus => {
            "given its files one by one, its exit statuses do not make the one of the whole (status)".into()
        }
        Lie::PrintsName(path) => format!(
            "prints the name {}, which the annotation does not say (names)",
            file(path)
        ),
        Lie::Shows(shown) => {
            let (what, word) = match shown {
                Shown::Inodes => ("the numbers of inodes", "inodes"),
                Shown::Links => ("how many names a file has", "links"),
                Shown::Blocks => ("the space that files take", "blocks"),
                Shown::Owners => ("who owns files", "owners"),
                Shown::Modes => ("the permissions of files", "modes"),
                Shown::Times => ("the times of files", "times"),
                Shown::Order => ("the order of a folder's names", "order"),
            };
            format!("what it prints depends on {what}, which the annotation does not say (shows: {word})")
        }
        Lie::Locale(category) => format!(
            "what it prints depends on {category}, which the annotation does not say (locale)"
        ),
        Lie::PrintsMore => {
            "prints more than twice what it reads, though the annotation says less (volume)".into()
        }
        Lie::PrintsManyLines => {
            "prints the more the more it reads, though the annotation says a few lines (volume)".into()
        }
        Lie::NoVersion => "does not print a version".into(),
    }
}
