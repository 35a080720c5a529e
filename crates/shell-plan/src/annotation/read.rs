//! Annotations from their text.
//!
//! The invariant: what is not understood is a [`Mistake`], never passed over; a misspelt key must not make a command look
//! harmless.

use std::fmt;

use toml::{Table, Value};

use super::options::{Kind, Options, Row, Syntax};
use super::{
    Annotation, Appended, Combine, Effect, Example, Folder, Language, Names, Operand, Shown,
    Status, Stdin, Surroundings, Use, Volume,
};

/// What is wrong with the text of an annotation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mistake(pub String);

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Mistake {}

type Result<T> = std::result::Result<T, Mistake>;

fn mistake<T>(what: impl Into<String>) -> Result<T> {
    Err(Mistake(what.into()))
}

/// A table whose keys are taken out one after the other; what is left in the end is a mistake.
struct Keys {
    table: Table,
    of: String,
}

impl Keys {
    fn text(&mut self, key: &str) -> Result<Option<String>> {
        match self.table.remove(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => mistake(format!("{}: \"{key}\" is not a text", self.of)),
        }
    }

    fn texts(&mut self, key: &str) -> Result<Option<Vec<String>>> {
        let Some(value) = self.table.remove(key) else {
            return Ok(None);
        };
        let wrong = || Mistake(format!("{}: \"{key}\" is not a list of texts", self.of));
        let Value::Array(items) = value else {
            return Err(wrong());
        };
        let texts = items.into_iter().map(|item| match item {
            Value::String(text) => Ok(text),
            _ => Err(wrong()),
        });
        texts.collect::<Result<_>>().map(Some)
    }

    fn claim(&mut self, key: &str) -> Result<bool> {
        match self.table.remove(key) {
            None => Ok(false),
            Some(Value::Boolean(claim)) => Ok(claim),
            Some(_) => mistake(format!("{}: \"{key}\" is neither true nor false", self.of)),
        }
    }

    fn tables(&mut self, key: &str) -> Result<Vec<Keys>> {
        let Some(value) = self.table.remove(key) else {
            return Ok(Vec::new());
        };
        let wrong = || Mistake(format!("{}: \"{key}\" is not a list of tables", self.of));
        let Value::Array(items) = value else {
            return Err(wrong());
        };
        let tables = items
            .into_iter()
            .enumerate()
            .map(|(number, item)| match item {
                Value::Table(table) => Ok(Keys {
                    table,
                    of: format!("{key} {}", number + 1),
                }),
                _ => Err(wrong()),
            });
        tables.collect()
    }

    /// The value of a key that is one of some words; the default if it is not there.
    fn one<T: Copy + Default>(&mut self, key: &str, words: &[(&str, T)]) -> Result<T> {
        self.maybe(key, words).map(Option::unwrap_or_default)
    }

    fn maybe<T: Copy>(&mut self, key: &str, words: &[(&str, T)]) -> Result<Option<T>> {
        match self.text(key)? {
            None => Ok(None),
            Some(text) => word(&format!("{}: {key}", self.of), &text, words).map(Some),
        }
    }

    fn end(self) -> Result<()> {
        match self.table.keys().next() {
            None => Ok(()),
            Some(key) => mistake(format!("{}: unknown key \"{key}\"", self.of)),
        }
    }
}

fn word<T: Copy>(of: &str, text: &str, words: &[(&str, T)]) -> Result<T> {
    if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
        return Ok(*value);
    }
    let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    mistake(format!("{of}: \"{text}\" is none of: {}", known.join(", ")))
}

const KINDS: [(&str, Kind); 14] = [
    ("text", Kind::Text),
    ("count", Kind::Count),
    ("input", Kind::Input),
    ("tree", Kind::Tree),
    ("output", Kind::Output),
    ("update", Kind::Update),
    ("scratch", Kind::Scratch),
    ("program", Kind::Program),
    ("program-file", Kind::ProgramFile),
    ("query", Kind::Query),
    ("assignment", Kind::Assignment),
    ("command", Kind::Command),
    ("variable", Kind::Variable),
    ("no-variable", Kind::NoVariable),
];

const COMBINES: [(&str, Combine); 8] = [
    ("concat", Combine::Concat),
    ("text", Combine::Text),
    ("sum", Combine::Sum),
    ("merge", Combine::Merge),
    ("uniq", Combine::Uniq),
    ("uniq-count", Combine::UniqCount),
    ("again", Combine::Again),
    ("first", Combine::First),
];

const SHOWN: [(&str, Shown); 7] = [
    ("inodes", Shown::Inodes),
    ("links", Shown::Links),
    ("blocks", Shown::Blocks),
    ("owners", Shown::Owners),
    ("modes", Shown::Modes),
    ("times", Shown::Times),
    ("order", Shown::Order),
];

impl Annotation {
    /// Reads the text of an annotation.
    ///
    /// # Errors
    /// The first mistake in it.
    pub fn read(text: &str) -> Result<Self> {
        let table: Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return mistake(format!("{error}")),
        };
        let mut keys = Keys {
            table,
            of: "annotation".into(),
        };
        let names = keys.texts("names")?.unwrap_or_default();
        if names.is_empty() {
            return mistake("annotation: \"names\" is missing: what the command is called by");
        }
        let options = options(&mut keys)?.unwrap_or_default();
        let annotation = Self {
            names,
            version: keys.texts("version")?,
            locale: keys.texts("locale")?.unwrap_or_default(),
            settings: keys.texts("settings")?.unwrap_or_default(),
            options,
            uses: (keys.tables("use")?.into_iter())
                .map(one_use)
                .collect::<Result<_>>()?,
            examples: (keys.tables("example")?.into_iter())
                .map(example)
                .collect::<Result<_>>()?,
        };
        keys.end()?;
        if annotation.uses.is_empty() {
            return mistake("annotation: no [[use]]");
        }
        for of in &annotation.uses {
            let unless = of.operands.iter().flat_map(|operand| &operand.unless);
            for option in of.with.iter().chain(&of.without).chain(unless) {
                let options = of.options.as_ref().unwrap_or(&annotation.options);
                if !options.rows.iter().any(|row| row.names[0] == *option) {
                    return mistake(format!(
                        "use \"{}\": \"{option}\" is not the first name of an option",
                        of.name
                    ));
                }
            }
        }
        Ok(annotation)
    }
}

/// The keys `syntax` and `options`, if they are there.
fn options(keys: &mut Keys) -> Result<Option<Options>> {
    let syntax = keys.maybe(
        "syntax",
        &[
            ("gnu", Syntax::Gnu),
            ("posix", Syntax::Posix),
            ("words", Syntax::Words),
        ],
    )?;
    let table = keys.text("options")?;
    if syntax.is_none() && table.is_none() {
        return Ok(None);
    }
    Ok(Some(Options {
        syntax: syntax.unwrap_or_default(),
        rows: rows(&table.unwrap_or_default())?,
    }))
}

/// The table of options: on each line the names, with commas between, and what the option takes, with a `?` if it can do
/// without.
fn rows(text: &str) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut row = Row {
            names: Vec::new(),
            takes: None,
            optional: false,
        };
        for part in line.split([',', ' ']).filter(|part| !part.is_empty()) {
            if row.takes.is_some() {
                return mistake(format!(
                    "options: \"{line}\": nothing may follow \"{part}\""
                ));
            }
            if part.starts_with('-') {
                let known = rows
                    .iter()
                    .flat_map(|row| &row.names)
                    .any(|name| name == part);
                if known || row.names.iter().any(|name| name == part) {
                    return mistake(format!("options: \"{part}\" is there twice"));
                }
                row.names.push(part.to_owned());
            } else {
                let kind = part.strip_suffix('?');
                row.optional = kind.is_some();
                row.takes = Some(word(
                    &format!("options: \"{line}\""),
                    kind.unwrap_or(part),
                    &KINDS,
                )?);
            }
        }
        if row.names.is_empty() {
            return mistake(format!("options: \"{line}\" names no option"));
        }
        rows.push(row);
    }
    Ok(rows)
}

fn one_use(mut keys: Keys) -> Result<Use> {
    let Some(name) = keys.text("name")? else {
        return mistake(format!("{}: \"name\" is missing", keys.of));
    };
    keys.of = format!("use \"{name}\"");
    let operands = keys.texts("operands")?.unwrap_or_default();
    let shows = keys.texts("shows")?.unwrap_or_default();
    let of = keys.of.clone();
    let of_use = Use {
        with: keys.texts("with")?.unwrap_or_default(),
        without: keys.texts("without")?.unwrap_or_default(),
        first: keys.texts("first")?.unwrap_or_default(),
        options: options(&mut keys)?,
        operands: (operands.iter())
            .map(|text| operand(&of, text))
            .collect::<Result<_>>()?,
        stdin: keys.one(
            "stdin",
            &[
                ("without-inputs", Stdin::WithoutInputs),
                ("always", Stdin::Always),
                ("dash", Stdin::Dash),
                ("never", Stdin::Never),
            ],
        )?,
        folder: keys.one(
            "folder",
            &[
                ("none", Folder::None),
                ("reads", Folder::Reads),
                ("reads-without-inputs", Folder::ReadsWithoutInputs),
                ("writes", Folder::Writes),
            ],
        )?,
        effect: match keys.maybe(
            "effect",
            &[
                ("pure", Effect::Pure),
                ("idempotent", Effect::Idempotent),
                ("once", Effect::Once),
            ],
        )? {
            Some(effect) => effect,
            None => return mistake(format!("{of}: \"effect\" is missing")),
        },
        volume: keys.one(
            "volume",
            &[
                ("same", Volume::Same),
                ("less", Volume::Less),
                ("few", Volume::Few),
                ("more", Volume::More),
            ],
        )?,
        lines: keys.maybe("lines", &COMBINES)?,
        apart: keys.maybe("apart", &COMBINES)?,
        apart_with: keys.texts("apart-with")?.unwrap_or_default(),
        early: keys.claim("early")?,
        seeks: keys.claim("seeks")?,
        status: keys.one(
            "status",
            &[
                ("highest", Status::Highest),
                ("found", Status::Found),
                ("well", Status::Well),
            ],
        )?,
        names: keys.one(
            "names",
            &[
                ("never", Names::Never),
                ("several", Names::Several),
                ("always", Names::Always),
            ],
        )?,
        shows: (shows.iter())
            .map(|text| word(&format!("{of}: shows"), text, &SHOWN))
            .collect::<Result<_>>()?,
        program: keys.maybe(
            "program",
            &[
                ("awk", Language::Awk),
                ("sed", Language::Sed),
                ("jq", Language::Jq),
            ],
        )?,
        environment: keys.one(
            "environment",
            &[("same", Surroundings::Same), ("empty", Surroundings::Empty)],
        )?,
        appends: keys.maybe(
            "appends",
            &[("words", Appended::Words), ("zeros", Appended::Zeros)],
        )?,
        name,
    };
    keys.end()?;
    Ok(of_use)
}

/// `input*`, `text unless -e -f`: a kind, with `?`, `*` or `+` behind it, and options with which it is not there.
fn operand(of: &str, text: &str) -> Result<Operand> {
    let mut words = text.split_whitespace();
    let first = words.next().unwrap_or_default();
    let (kind, optional, repeated) = match first.strip_suffix(['?', '*', '+']) {
        None => (first, false, false),
        Some(kind) => (kind, !first.ends_with('+'), !first.ends_with('?')),
    };
    let unless = match words.next() {
        None => Vec::new(),
        Some("unless") => words.map(str::to_owned).collect(),
        Some(other) => return mistake(format!("{of}: operands: \"{text}\": what is \"{other}\"?")),
    };
    Ok(Operand {
        kind: word(&format!("{of}: operands"), kind, &KINDS)?,
        optional,
        repeated,
        unless,
    })
}

fn example(mut keys: Keys) -> Result<Example> {
    let Some(call) = keys.text("call")? else {
        return mistake(format!("{}: \"call\" is missing", keys.of));
    };
    let example = Example {
        call,
        fits: keys.text("fits")?,
        reads: keys.texts("reads")?.unwrap_or_default(),
        writes: keys.texts("writes")?.unwrap_or_default(),
        stdin: keys.claim("stdin")?,
    };
    keys.end()?;
    Ok(example)
}
