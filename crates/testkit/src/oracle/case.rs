//! The text form of a case, and its reader.
//!
//! ```text
//! # what the case is about
//! args: -v x=1 input.txt
//! status: 2
//! stderr: division by zero
//! --- program
//! BEGIN { print 1; print 1 / 0 }
//! --- stdout
//! 1
//! ```
//!
//! Invariant: a case that loads is complete: it has a program or a script, and an expected output.

use std::fmt;
use std::path::Path;

use super::Mode;

/// The line that divides a program into two runs on one heap. For every other mode it is a comment.
const SPLIT_LINE: &[u8] = b"#--- split ---\n";

/// What a case runs.
#[derive(Debug)]
pub enum Action {
    /// Text of `prog.awk`, run as `AWK -f prog.awk ARGS...`.
    Program(Vec<u8>),
    /// A script for `sh`, with `$AWK` standing for the interpreter.
    Script(String),
}

/// Which reference implementations can say what a case must print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracles {
    /// None: the case is about something that only the program under test has.
    None,
    /// Every reference: the case is written in the language that all of them share.
    All,
    /// gawk from this version on: the case is about what gawk adds to the language.
    Gawk(GawkVersion),
}

/// The version of a gawk, as far as it counts here: `GNU Awk 5.3.2` is 5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GawkVersion {
    /// The first number.
    pub major: u32,
    /// The second number.
    pub minor: u32,
}

impl GawkVersion {
    /// Reads `MAJOR.MINOR`.
    #[must_use]
    pub fn parse(text: &str) -> Option<GawkVersion> {
        let (major, minor) = text.split_once('.')?;
        Some(GawkVersion {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }
}

/// A file with its name relative to the folder that the case runs in.
#[derive(Debug)]
pub struct NamedFile {
    /// May hold slashes; never starts with one.
    pub name: String,
    /// Any bytes.
    pub content: Vec<u8>,
}

/// One language test.
#[derive(Debug)]
pub struct Case {
    /// Path below the corpus, without `.case`: `regex/interval_zero`.
    pub name: String,
    /// What is run.
    pub action: Action,
    /// Words after `-f prog.awk`.
    pub args: Vec<String>,
    /// Additional environment.
    pub env: Vec<(String, String)>,
    /// Value of `LC_ALL`.
    pub locale: String,
    /// Other locales that its script names.
    pub other_locales: Vec<String>,
    /// Standard input; empty if the case has none.
    pub stdin: Vec<u8>,
    /// Files that exist before the run.
    pub files: Vec<NamedFile>,
    /// Expected standard output, byte for byte.
    pub stdout: Vec<u8>,
    /// Expected exit status; 128 + N if signal N ended the process.
    pub status: i32,
    /// Patterns that standard error must contain; without any it must be empty. `a|b` is "a or b", `any` is
    /// "something", `ignored` "something or nothing"; letter case does not matter.
    pub stderr: Vec<String>,
    /// Files that must be there after the run, with this content.
    pub files_left: Vec<NamedFile>,
    is_session: bool,
    is_volatile_only: bool,
    oracles: Oracles,
}

/// Why a corpus could not be loaded.
#[derive(Debug)]
pub struct ParseError(String);

impl ParseError {
    pub(super) fn unreadable(path: &Path, error: &std::io::Error) -> ParseError {
        ParseError(format!("{}: cannot be read: {error}", path.display()))
    }

    pub(super) fn at(path: &Path, line: usize, why: impl fmt::Display) -> ParseError {
        ParseError(format!("{}:{line}: {why}", path.display()))
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ParseError {}

impl Case {
    /// Reads the case at `path`, which lies below `folder`.
    ///
    /// # Errors
    /// The file cannot be read, a header or a section is unknown, or the case has nothing to run or to expect.
    pub fn load(folder: &Path, path: &Path) -> Result<Case, ParseError> {
        let text = std::fs::read(path).map_err(|error| ParseError::unreadable(path, &error))?;
        let name = path
            .strip_prefix(folder)
            .unwrap_or(path)
            .with_extension("")
            .to_string_lossy()
            .into_owned();
        Case::parse(name, &text, path)
    }

    fn parse(name: String, text: &[u8], path: &Path) -> Result<Case, ParseError> {
        let mut case = Case {
            name,
            action: Action::Program(Vec::new()),
            args: Vec::new(),
            env: Vec::new(),
            locale: "C.UTF-8".to_owned(),
            other_locales: Vec::new(),
            stdin: Vec::new(),
            files: Vec::new(),
            stdout: Vec::new(),
            status: 0,
            stderr: Vec::new(),
            files_left: Vec::new(),
            is_session: false,
            is_volatile_only: false,
            oracles: Oracles::All,
        };
        let mut seen: Vec<String> = Vec::new();
        let mut section: Option<Section> = None;
        for (index, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
            let line_number = index + 1;
            if let Some(title) = line.strip_prefix(b"--- ") {
                if let Some(done) = section.take() {
                    case.add_section(done, path, &mut seen)?;
                }
                let title = String::from_utf8_lossy(title).into_owned();
                section = Some(Section::open(&title, line_number));
            } else if let Some(open) = &mut section {
                open.body.extend_from_slice(line);
            } else if !line.starts_with(b"#") && !line.trim_ascii().is_empty() {
                let line = String::from_utf8_lossy(line).into_owned();
                case.add_header(&line)
                    .map_err(|why| ParseError::at(path, line_number, why))?;
            }
        }
        if let Some(done) = section.take() {
            case.add_section(done, path, &mut seen)?;
        }
        if !seen
            .iter()
            .any(|title| title == "program" || title == "cmd")
        {
            return Err(ParseError::at(
                path,
                1,
                "has neither `--- program` nor `--- cmd`",
            ));
        }
        if !seen.iter().any(|title| title == "stdout") {
            return Err(ParseError::at(
                path,
                1,
                "has no `--- stdout`; tools/accept.py writes it",
            ));
        }
        Ok(case)
    }

    fn add_header(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once(':').ok_or_else(|| {
            format!(
                "expected `key: value` or a section, found {:?}",
                line.trim_end()
            )
        })?;
        let value = value.trim();
        match key {
            "args" => self.args = value.split_whitespace().map(str::to_owned).collect(),
            "env" => {
                let (name, value) = value
                    .split_once('=')
                    .ok_or_else(|| format!("env: expected NAME=VALUE, found {value:?}"))?;
                self.env.push((name.to_owned(), value.to_owned()));
            }
            "locale" => value.clone_into(&mut self.locale),
            "locales" => {
                self.other_locales = value.split_whitespace().map(str::to_owned).collect();
            }
            "status" => {
                self.status = value
                    .parse()
                    .map_err(|_| format!("status: expected a number, found {value:?}"))?;
            }
            "stderr" => self.stderr.push(value.to_lowercase()),
            "modes" if value == "session" => {
                self.is_session = true;
                self.oracles = Oracles::None;
            }
            "modes" if value == "volatile" => self.is_volatile_only = true,
            "oracles" => {
                self.oracles = Oracles::parse(value).ok_or_else(|| {
                    format!("oracles: expected none, gawk or gawk-MAJOR.MINOR, found {value:?}")
                })?;
            }
            _ => return Err(format!("unknown header {:?}", line.trim_end())),
        }
        Ok(())
    }

    fn add_section(
        &mut self,
        section: Section,
        path: &Path,
        seen: &mut Vec<String>,
    ) -> Result<(), ParseError> {
        let line = section.line;
        let body = section
            .content()
            .map_err(|why| ParseError::at(path, line, why))?;
        let words: Vec<&str> = section.title.split_whitespace().collect();
        match words[..] {
            ["program"] => self.action = Action::Program(body),
            ["cmd"] => {
                let script =
                    String::from_utf8(body).map_err(|error| ParseError::at(path, line, error))?;
                self.action = Action::Script(script);
            }
            ["stdin"] => self.stdin = body,
            ["stdout"] => self.stdout = body,
            ["file" | "left", name]
                if name.starts_with('/') || name.split('/').any(|part| part == "..") =>
            {
                return Err(ParseError::at(
                    path,
                    line,
                    format!("{name:?} is outside the case's folder"),
                ));
            }
            ["file", name] => self.files.push(NamedFile {
                name: name.to_owned(),
                content: body,
            }),
            ["left", name] => self.files_left.push(NamedFile {
                name: name.to_owned(),
                content: body,
            }),
            _ => {
                return Err(ParseError::at(
                    path,
                    line,
                    format!("unknown section {:?}", section.title),
                ));
            }
        }
        if seen.contains(&section.title) {
            return Err(ParseError::at(
                path,
                line,
                format!("second section {:?}", section.title),
            ));
        }
        seen.push(section.title);
        Ok(())
    }

    /// Whether the case is run in `mode`.
    #[must_use]
    pub fn has_mode(&self, mode: Mode) -> bool {
        match mode {
            Mode::Session => self.is_session,
            Mode::Volatile => !self.is_session,
            Mode::Persistent | Mode::Reopened | Mode::Native | Mode::Machine => {
                !self.is_session && !self.is_volatile_only
            }
            Mode::Reference => self.oracles != Oracles::None,
        }
    }

    /// Whether the reference `who` can say what the case must print. `gawk_version` is that of the gawk at hand;
    /// `None` if it is not known or `who` is not gawk.
    #[must_use]
    pub fn asks(&self, who: &str, gawk_version: Option<GawkVersion>) -> bool {
        match self.oracles {
            Oracles::None => false,
            Oracles::All => true,
            Oracles::Gawk(version_min) => {
                who == "gawk" && gawk_version.is_some_and(|version| version >= version_min)
            }
        }
    }

    /// The locales that a reference must have on the machine to answer as expected.
    pub fn locales(&self) -> impl Iterator<Item = &str> {
        let others = self.other_locales.iter().map(String::as_str);
        std::iter::once(self.locale.as_str()).chain(others)
    }

    /// The two halves of a program that has a split line.
    #[must_use]
    pub fn halves(&self) -> Option<(&[u8], &[u8])> {
        let Action::Program(text) = &self.action else {
            return None;
        };
        let at = text
            .windows(SPLIT_LINE.len())
            .position(|window| window == SPLIT_LINE)?;
        Some((&text[..at], &text[at + SPLIT_LINE.len()..]))
    }
}

impl Oracles {
    fn parse(value: &str) -> Option<Oracles> {
        match value {
            "none" => Some(Oracles::None),
            "gawk" => Some(Oracles::Gawk(GawkVersion { major: 0, minor: 0 })),
            _ => GawkVersion::parse(value.strip_prefix("gawk-")?).map(Oracles::Gawk),
        }
    }
}

struct Section {
    title: String,
    is_escaped: bool,
    line: usize,
    body: Vec<u8>,
}

impl Section {
    fn open(title: &str, line: usize) -> Section {
        let title = title.trim();
        let (title, is_escaped) = match title.strip_suffix(" escaped") {
            Some(title) => (title.trim_end(), true),
            None => (title, false),
        };
        Section {
            title: title.to_owned(),
            is_escaped,
            line,
            body: Vec::new(),
        }
    }

    fn content(&self) -> Result<Vec<u8>, String> {
        if self.is_escaped {
            unescape(&self.body)
        } else {
            Ok(self.body.clone())
        }
    }
}

/// Bytes of an escaped section: line ends of the case file do not count, `\n \t \r \\ \xHH` do.
fn unescape(body: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = body.iter().copied().filter(|&byte| byte != b'\n');
    let mut out = Vec::with_capacity(body.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next() {
            Some(b'n') => b'\n',
            Some(b't') => b'\t',
            Some(b'r') => b'\r',
            Some(b'\\') => b'\\',
            Some(b'x') => {
                let mut value = 0;
                for _ in 0..2 {
                    let digit = bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                    value = value * 16 + digit.ok_or("\\x needs two hexadecimal digits")?;
                }
                u8::try_from(value).expect("two hexadecimal digits are at most 255")
            }
            other => {
                return Err(format!(
                    "unknown escape \\{}",
                    other.map_or(' ', char::from)
                ));
            }
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Case, ParseError> {
        Case::parse(
            "topic/name".to_owned(),
            text.as_bytes(),
            Path::new("name.case"),
        )
    }

    #[test]
    fn headers_and_sections_are_read() {
        let case =
            parse("# about\nargs: -v x=1 in\nstatus: 3\nstderr: Zero\n\n--- program\nBEGIN {}\n--- file in\na\n--- stdout\n1\n")
                .expect("well-formed");
        assert_eq!(case.args, ["-v", "x=1", "in"]);
        assert_eq!(case.status, 3);
        assert_eq!(case.stderr, ["zero"]);
        assert_eq!(case.files[0].content, b"a\n");
        assert_eq!(case.stdout, b"1\n");
        assert!(case.has_mode(Mode::Reopened) && !case.has_mode(Mode::Session));
    }

    #[test]
    fn a_case_asks_only_the_references_that_speak_its_language() {
        let with = |header: &str| {
            parse(&format!("{header}--- program\n--- stdout\n")).expect("well-formed")
        };
        let version = GawkVersion::parse;
        let shared = with("");
        assert!(shared.asks("mawk", None) && shared.asks("gawk", None));
        let any_gawk = with("oracles: gawk\n");
        assert!(any_gawk.asks("gawk", version("5.2")) && !any_gawk.asks("mawk", None));
        let new_gawk = with("oracles: gawk-5.3\n");
        assert!(new_gawk.asks("gawk", version("5.3")) && new_gawk.asks("gawk", version("6.0")));
        assert!(!new_gawk.asks("gawk", version("5.2")) && !new_gawk.asks("gawk", None));
        assert!(!with("oracles: none\n").asks("gawk", version("5.3")));
        assert!(parse("oracles: gawk-new\n--- program\n--- stdout\n").is_err());
    }

    #[test]
    fn escaped_sections_hold_any_bytes() {
        let case = parse("--- program\n{}\n--- stdout escaped\na\\x00\nb\\xff\\n\n\\\\\n")
            .expect("well-formed");
        assert_eq!(case.stdout, b"a\0b\xff\n\\");
    }

    #[test]
    fn incomplete_and_unknown_forms_are_refused_with_their_line() {
        assert!(parse("--- program\n{}\n").is_err());
        assert!(parse("--- stdout\n").is_err());
        assert!(parse("--- program\n--- stdout\n--- file ../x\n").is_err());
        assert!(parse("--- program\n--- stdout\n--- stdout\n").is_err());
        let error =
            parse("args: x\ncolour: red\n--- program\n--- stdout\n").expect_err("unknown header");
        assert!(
            error.to_string().starts_with("name.case:2: unknown header"),
            "{error}"
        );
    }

    #[test]
    fn a_split_line_divides_the_program() {
        let case = parse(
            "--- program\nBEGIN { x = 1 }\n#--- split ---\nBEGIN { print x }\n--- stdout\n1\n",
        )
        .expect("well-formed");
        let (first, second) = case.halves().expect("has a split line");
        assert_eq!(first, b"BEGIN { x = 1 }\n");
        assert_eq!(second, b"BEGIN { print x }\n");
    }
}
