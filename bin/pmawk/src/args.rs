//! The command line: gawk's options, and pmawk's own.
//!
//! POSIX leaves no room for an ordinary option parser (`-F:` and `-vx=1` join option and value, operands end the options,
//! `-F` may take the next word whatever it looks like), so the words are read here by hand, as getopt_long reads them for
//! gawk: long names may be abbreviated, options without a value may be clustered, an optional value is joined.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use awk::WhenNative;
use awk::settings::Notation;

pub use help::HELP;

mod help;

/// What `--dump` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dump {
    Tokens,
    Ast,
    Types,
    Code,
}

/// A part of the program, in the order of the command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// `-f`
    File(OsString),
    /// `-e`, or the first operand
    Text(Vec<u8>),
    /// `-i`
    Include(OsString),
}

/// How `--lint` is to be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LintWish {
    /// Not at all.
    #[default]
    None,
    /// `--lint`
    All,
    /// `--lint=fatal`
    Fatal,
    /// `--lint=invalid`
    Invalid,
    /// `--lint=no-ext`
    NoExtensions,
}

/// The command line, read.
#[derive(Debug, Default)]
pub struct Args {
    pub parts: Vec<Part>,
    pub field_separator: Option<Vec<u8>>,
    pub assigns: Vec<Vec<u8>>,
    pub operands: Vec<Vec<u8>>,
    pub libraries: Vec<OsString>,
    pub bytes: bool,
    pub traditional: bool,
    pub posix: bool,
    pub intervals: bool,
    pub sandbox: bool,
    pub bignum: bool,
    pub non_decimal: bool,
    pub use_lc_numeric: bool,
    pub trace: bool,
    /// `-E`: operands are no assignments.
    pub no_assignments: bool,
    pub lint: LintWish,
    pub lint_old: bool,
    pub dump_variables: Option<OsString>,
    pub debug: Option<Option<OsString>>,
    pub pretty: Option<OsString>,
    pub profile: Option<OsString>,
    pub gen_pot: bool,
    pub copyright: bool,
    pub version: bool,
    pub help: bool,
    pub native: WhenNative,
    /// One instruction after the other, one record after the other.
    pub no_optimize: bool,
    /// Processes that read the input.
    pub jobs: Option<usize>,
    pub explain_parallel: bool,
    pub input: Notation,
    pub output: Notation,
    pub json_lines: Option<Vec<u8>>,
    pub persist: Option<PathBuf>,
    pub snapshot: bool,
    pub lazy: bool,
    pub trust: bool,
    pub commit_every: Option<u64>,
    /// The job's name.
    pub resume: Option<Vec<u8>>,
    pub lock_timeout: Option<Duration>,
    pub dumps: Vec<Dump>,
}

/// Whether an option takes a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Value {
    No,
    Required,
    /// Only joined to it.
    Optional,
}

/// Letter (0: none), name, value.
type Row = (u8, &'static str, Value);

const OPTIONS: [Row; 46] = {
    use Value::{No, Optional, Required};
    [
        (b'f', "file", Required),
        (b'F', "field-separator", Required),
        (b'v', "assign", Required),
        (b'b', "characters-as-bytes", No),
        (b'c', "traditional", No),
        (b'C', "copyright", No),
        (b'd', "dump-variables", Optional),
        (b'D', "debug", Optional),
        (b'e', "source", Required),
        (b'E', "exec", Required),
        (b'g', "gen-pot", No),
        (b'h', "help", No),
        (b'i', "include", Required),
        (b'I', "trace", No),
        (b'j', "jobs", Required),
        (b'k', "csv", Optional),
        (b'l', "load", Required),
        (b'L', "lint", Optional),
        (b'M', "bignum", No),
        (b'N', "use-lc-numeric", No),
        (b'n', "non-decimal-data", No),
        (b'o', "pretty-print", Optional),
        (b'O', "optimize", No),
        (b'p', "profile", Optional),
        (b'P', "posix", No),
        (b'r', "re-interval", No),
        (b's', "no-optimize", No),
        (b'S', "sandbox", No),
        (b't', "lint-old", No),
        (b'V', "version", No),
        (b'W', "", Required),
        (0, "compat", No),
        (0, "usage", No),
        (0, "copyleft", No),
        (0, "tsv", Optional),
        (0, "json-lines", Optional),
        (0, "persist", Required),
        (0, "snapshot", No),
        (0, "lazy", No),
        (0, "trust", No),
        (0, "commit-every", Required),
        (0, "resume", Optional),
        (0, "lock-timeout", Required),
        (0, "native", Required),
        (0, "explain-parallel", No),
        (0, "dump", Required),
    ]
};

impl Args {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// A message for the user.
    pub fn parse(words: impl Iterator<Item = OsString>) -> Result<Args, String> {
        let mut args = Args::default();
        let mut words = words;
        let mut operands = Vec::new();
        while let Some(word) = words.next() {
            let bytes = word.as_bytes();
            if bytes == b"--" {
                break;
            }
            if let Some(long) = bytes.strip_prefix(b"--") {
                args.long(long, &mut words)?;
            } else if bytes.len() > 1 && bytes[0] == b'-' {
                args.short(&bytes[1..], &mut words)?;
            } else {
                operands.push(word);
                break;
            }
            if args.no_assignments {
                break;
            }
        }
        operands.extend(words);
        let mut operands = operands.into_iter().map(OsString::into_vec);
        let has_program = args.parts.iter().any(|p| !matches!(p, Part::Include(_)));
        if !has_program && !args.version && !args.help && !args.copyright {
            args.parts.push(Part::Text(
                operands
                    .next()
                    .ok_or("no program text: expected 'program' or -f FILE; see --help")?,
            ));
        }
        args.operands = operands.collect();
        Ok(args)
    }

    /// A cluster of short options; the first that takes a value takes the rest, or the next word.
    fn short(
        &mut self,
        cluster: &[u8],
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let mut rest = cluster;
        while let Some((&letter, after)) = rest.split_first() {
            let Some(row) = OPTIONS.iter().find(|row| row.0 == letter && letter != 0) else {
                return Err(format!(
                    "unknown option -{}; see --help",
                    String::from_utf8_lossy(rest).chars().next().unwrap_or('?')
                ));
            };
            let joined = (!after.is_empty()).then(|| OsString::from_vec(after.to_vec()));
            let value = match row.2 {
                Value::No => None,
                // -k clusters like other options, for gawk's has no value; only --csv takes one.
                Value::Optional if letter == b'k' => None,
                Value::Optional => joined,
                Value::Required => Some(
                    joined
                        .or_else(|| words.next())
                        .ok_or_else(|| format!("option -{} needs a value", letter as char))?,
                ),
            };
            if letter == b'W' {
                // POSIX's way to name a long option.
                let name = value.unwrap_or_default();
                return self.long(name.as_bytes(), words);
            }
            let takes_rest = row.2 != Value::No && letter != b'k';
            self.set(row.1, value)?;
            if takes_rest {
                return Ok(());
            }
            rest = after;
        }
        Ok(())
    }

    fn long(
        &mut self,
        option: &[u8],
        words: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let (name, joined) = match option.iter().position(|b| *b == b'=') {
            Some(at) => (
                &option[..at],
                Some(OsString::from_vec(option[at + 1..].to_vec())),
            ),
            None => (option, None),
        };
        let shown = String::from_utf8_lossy(name).into_owned();
        let begun = |row: &&Row| !name.is_empty() && row.1.as_bytes().starts_with(name);
        let candidates: Vec<&Row> = OPTIONS.iter().filter(begun).collect();
        // gawk's abbreviations stay what they are, whatever other options there are.
        let gawks = candidates.iter().copied().filter(|row| row.0 != 0);
        let gawks: Vec<&Row> = gawks.collect();
        let candidates = if gawks.len() == 1 { gawks } else { candidates };
        let exact = OPTIONS.iter().find(|row| row.1.as_bytes() == name);
        let row = match (exact, candidates.as_slice()) {
            (Some(row), _) => row,
            (None, [row]) => row,
            (None, []) => return Err(format!("unknown option --{shown}; see --help")),
            (None, several) => {
                let names: Vec<String> = several.iter().map(|r| format!("--{}", r.1)).collect();
                return Err(format!(
                    "option --{shown} is ambiguous: it may be {}",
                    names.join(", ")
                ));
            }
        };
        let value = match (row.2, joined) {
            (Value::No, Some(_)) => return Err(format!("option --{} takes no value", row.1)),
            (Value::No, None) => None,
            (Value::Optional, joined) => joined,
            (Value::Required, joined) => Some(
                joined
                    .or_else(|| words.next())
                    .ok_or_else(|| format!("option --{} needs a value", row.1))?,
            ),
        };
        self.set(row.1, value)
    }

    fn set(&mut self, name: &str, value: Option<OsString>) -> Result<(), String> {
        let given = value.clone().unwrap_or_default();
        match name {
            "file" => self.parts.push(Part::File(given)),
            "source" => self.parts.push(Part::Text(given.into_vec())),
            "include" => self.parts.push(Part::Include(given)),
            "exec" => {
                self.parts.push(Part::File(given));
                self.no_assignments = true;
            }
            "field-separator" => self.field_separator = Some(given.into_vec()),
            "assign" => self.assigns.push(given.into_vec()),
            "load" => self.libraries.push(given),
            "characters-as-bytes" => self.bytes = true,
            "traditional" | "compat" => self.traditional = true,
            "posix" => self.posix = true,
            "re-interval" => self.intervals = true,
            "sandbox" => self.sandbox = true,
            "bignum" => self.bignum = true,
            "non-decimal-data" => self.non_decimal = true,
            "trace" => self.trace = true,
            "lint" => {
                self.lint = match given.to_str() {
                    Some("") if value.is_none() => LintWish::All,
                    Some("fatal") => LintWish::Fatal,
                    Some("invalid") => LintWish::Invalid,
                    Some("no-ext") => LintWish::NoExtensions,
                    _ => {
                        return Err(format!(
                            "option --lint: {given:?} is none of fatal, invalid and no-ext"
                        ));
                    }
                };
            }
            "lint-old" => self.lint_old = true,
            "dump-variables" => {
                self.dump_variables = Some(value.unwrap_or_else(|| "awkvars.out".into()));
            }
            "debug" => self.debug = Some(value),
            "pretty-print" => self.pretty = Some(value.unwrap_or_else(|| "awkprof.out".into())),
            "profile" => self.profile = Some(value.unwrap_or_else(|| "awkprof.out".into())),
            "gen-pot" => self.gen_pot = true,
            "copyright" | "copyleft" => self.copyright = true,
            "version" => self.version = true,
            "help" | "usage" => self.help = true,
            "use-lc-numeric" => self.use_lc_numeric = true,
            "optimize" => {
                self.native = WhenNative::Hot;
                self.no_optimize = false;
            }
            "no-optimize" => {
                self.native = WhenNative::Never;
                self.no_optimize = true;
            }
            "native" => {
                self.native = match value.as_deref().and_then(OsStr::to_str) {
                    Some("hot") => WhenNative::Hot,
                    Some("always") => WhenNative::Always,
                    Some("never") => WhenNative::Never,
                    _ => {
                        return Err(format!(
                            "option --native: {:?} is not among hot, always, never",
                            value.unwrap_or_default()
                        ));
                    }
                }
            }
            "jobs" => {
                let number = given.to_str().and_then(|t| t.parse().ok());
                let number = number.filter(|n| (1..=awk::JOBS_MAX).contains(n));
                self.jobs = Some(number.ok_or_else(|| {
                    let most = awk::JOBS_MAX;
                    format!("option -j: {given:?} is no number of processes: expected 1 to {most}")
                })?);
            }
            "explain-parallel" => self.explain_parallel = true,
            "csv" => self.separated(Notation::Csv, value)?,
            "tsv" => self.separated(Notation::Tsv, value)?,
            "json-lines" => {
                let name = value.unwrap_or_else(|| "J".into());
                let is_name = awk::assignment(&[name.as_bytes(), b"="].concat()).is_some();
                if !is_name {
                    return Err(format!(
                        "option --json-lines: {name:?} is no name of an array"
                    ));
                }
                self.json_lines = Some(name.into_vec());
            }
            "persist" => self.persist = Some(PathBuf::from(given)),
            "snapshot" => self.snapshot = true,
            "lazy" => self.lazy = true,
            "trust" => self.trust = true,
            "resume" => {
                // A script's unset variable would give its job the positions of another.
                if value.as_ref().is_some_and(|job| job.is_empty()) {
                    return Err(
                        "option --resume: the name of the job is empty; without `=` it is \"main\""
                            .into(),
                    );
                }
                self.resume = Some(value.map_or_else(|| b"main".to_vec(), OsString::into_vec));
            }
            "commit-every" => {
                let number = given.to_str().and_then(|t| t.parse().ok());
                let number = number.filter(|n| *n > 0).ok_or_else(|| {
                    format!("option --commit-every: {given:?} is no number of records")
                })?;
                self.commit_every = Some(number);
            }
            "lock-timeout" => {
                let seconds = given
                    .to_str()
                    .and_then(|t| t.parse::<f64>().ok())
                    .filter(|s| (0.0..=1e9).contains(s));
                let seconds = seconds.ok_or_else(|| {
                    format!("option --lock-timeout: {given:?} is no number of seconds")
                })?;
                self.lock_timeout = Some(Duration::from_secs_f64(seconds));
            }
            "dump" => {
                for stage in given.to_string_lossy().split(',') {
                    self.dumps.push(match stage {
                        "tokens" => Dump::Tokens,
                        "ast" => Dump::Ast,
                        "types" => Dump::Types,
                        "code" => Dump::Code,
                        _ => return Err(format!("option --dump: unknown stage {stage:?}; expected tokens, ast, types or code")),
                    });
                }
            }
            other => return Err(format!("unknown option --{other}; see --help")),
        }
        Ok(())
    }

    /// `--csv`, `--csv=in`, `--csv=out`, `--csv=both`, and the same for tabs.
    fn separated(&mut self, kind: Notation, value: Option<OsString>) -> Result<(), String> {
        let name = if kind == Notation::Csv { "csv" } else { "tsv" };
        let what = value.unwrap_or_else(|| "in".into());
        match what.to_str() {
            Some("in") => self.input = kind,
            Some("out") => self.output = kind,
            Some("both") => {
                self.input = kind;
                self.output = kind;
            }
            _ => {
                return Err(format!(
                    "option --{name}: {what:?} is none of in, out and both"
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, String> {
        Args::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn options_may_be_joined_to_their_values() {
        let args = parse(&["-F:", "-vx=1", "-v", "y=2", "-fprog", "-", "-v", "z"]).unwrap();
        assert_eq!(args.field_separator.as_deref(), Some(&b":"[..]));
        assert_eq!(args.assigns, [b"x=1", b"y=2"]);
        assert_eq!(args.parts, [Part::File("prog".into())]);
        assert_eq!(args.operands, [&b"-"[..], b"-v", b"z"]);
    }

    #[test]
    fn the_first_operand_is_the_program_without_f() {
        let args = parse(&["--persist=a.heap", "--", "-x", "file"]).unwrap();
        assert_eq!(args.parts, [Part::Text(b"-x".to_vec())]);
        assert_eq!(args.operands, [b"file"]);
        assert!(parse(&[]).unwrap_err().contains("no program text"));
        assert!(parse(&["-q", "x"]).unwrap_err().contains("-q"));
        let args = parse(&["-i", "lib", "program", "file"]).unwrap();
        assert_eq!(args.parts.len(), 2);
        assert_eq!(args.operands, [b"file"]);
    }

    #[test]
    fn a_job_has_a_name() {
        let job = |option| parse(&[option, "--persist=h", "x", "file"]).map(|args| args.resume);
        assert_eq!(job("--resume").unwrap().unwrap(), b"main");
        assert_eq!(job("--resume=nightly").unwrap().unwrap(), b"nightly");
        assert!(job("--resume=").unwrap_err().contains("empty"));
    }

    #[test]
    fn short_options_cluster_and_long_ones_may_be_abbreviated() {
        let args = parse(&["-bkSF", ":", "--trad", "--lint=no-ext", "x"]).unwrap();
        assert!(args.bytes && args.sandbox && args.traditional);
        assert_eq!(args.input, Notation::Csv);
        assert_eq!(args.lint, LintWish::NoExtensions);
        assert!(parse(&["--s", "x"]).unwrap_err().contains("ambiguous"));
        assert!(parse(&["--posix=1", "x"]).unwrap_err().contains("no value"));
        let args = parse(&["-W", "posix", "-d", "x"]).unwrap();
        assert!(args.posix);
        assert_eq!(args.dump_variables, Some("awkvars.out".into()));
        assert_eq!(args.parts, [Part::Text(b"x".to_vec())]);
    }

    #[test]
    fn exec_ends_the_options() {
        let args = parse(&["-E", "prog", "-v", "x=1"]).unwrap();
        assert!(args.no_assignments);
        assert_eq!(args.operands, [&b"-v"[..], b"x=1"]);
    }
}
