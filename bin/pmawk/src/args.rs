//! The command line: POSIX awk's options, and pmawk's own.
//!
//! POSIX leaves no room for an ordinary option parser (`-F:` and `-vx=1` join option and value, operands end the options,
//! `-F` may take the next word whatever it looks like), so the words are read here by hand.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

/// What `--dump` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dump {
    Tokens,
    Ast,
    Types,
    Code,
}

/// The command line, read.
#[derive(Debug, Default)]
pub struct Args {
    pub files: Vec<OsString>,
    /// Program text, if no `-f` was given.
    pub program: Option<Vec<u8>>,
    pub field_separator: Option<Vec<u8>>,
    pub assigns: Vec<Vec<u8>>,
    pub operands: Vec<Vec<u8>>,
    pub persist: Option<PathBuf>,
    pub snapshot: bool,
    pub lazy: bool,
    pub trust: bool,
    pub lock_timeout: Option<Duration>,
    pub dumps: Vec<Dump>,
    pub version: bool,
    pub help: bool,
}

/// `--help`.
pub const HELP: &str = "\
Usage: pmawk [options] 'program' [file ...]
       pmawk [options] -f progfile [-f progfile ...] [file ...]

Runs an AWK program whose global variables, arrays and functions can outlive it in a heap file.

  -f FILE, --file=FILE              read the program from FILE; may be repeated
  -F FS, --field-separator=FS       set FS before anything runs
  -v NAME=VALUE, --assign=...       assign before BEGIN; escape sequences count
  --                                end of options

  --persist=FILE                    keep globals and functions in heap FILE (made if it does not exist);
                                    PMAWK_HEAP or GAWK_PERSIST_FILE in the environment do the same
  --snapshot                        read the last commit and forget all changes
  --lazy                            do not wait for the medium: after a power cut the heap may be at an earlier commit
  --lock-timeout=SECONDS            how long to wait for another writer (60)
  --trust                           open a heap that others own or may write

  --dump=tokens,ast,types,code      show stages of the program instead of running it
  --version, --help

Exit status: that of `exit` in the program, else 0; 1 for errors on the command line or in the program text; 2 for fatal
errors while running, 141 if the reader of the output went away, after which the heap is as it was before the run.
";

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
                operands.extend(words.by_ref());
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
        }
        operands.extend(words);
        let mut operands = operands.into_iter().map(OsString::into_vec);
        if args.files.is_empty() && !args.version && !args.help {
            args.program = Some(
                operands
                    .next()
                    .ok_or("no program text: expected 'program' or -f FILE; see --help")?,
            );
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
        let letter = cluster[0];
        let mut value = || -> Result<OsString, String> {
            if cluster.len() > 1 {
                return Ok(OsString::from_vec(cluster[1..].to_vec()));
            }
            words
                .next()
                .ok_or_else(|| format!("option -{} needs a value", letter as char))
        };
        match letter {
            b'f' => self.files.push(value()?),
            b'F' => self.field_separator = Some(value()?.into_vec()),
            b'v' => self.assigns.push(value()?.into_vec()),
            b'V' => self.version = true,
            b'h' => self.help = true,
            _ => return Err(format!("unknown option -{}; see --help", letter as char)),
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
        let mut value = || {
            joined
                .clone()
                .or_else(|| words.next())
                .ok_or_else(|| format!("option --{shown} needs a value"))
        };
        match name {
            b"file" => self.files.push(value()?),
            b"field-separator" => self.field_separator = Some(value()?.into_vec()),
            b"assign" => self.assigns.push(value()?.into_vec()),
            b"persist" => self.persist = Some(PathBuf::from(value()?)),
            b"snapshot" => self.snapshot = true,
            b"lazy" => self.lazy = true,
            b"trust" => self.trust = true,
            b"lock-timeout" => {
                let text = value()?;
                let seconds = text
                    .to_str()
                    .and_then(|t| t.parse::<f64>().ok())
                    .filter(|s| (0.0..=1e9).contains(s));
                let seconds = seconds.ok_or_else(|| {
                    format!("option --lock-timeout: {text:?} is no number of seconds")
                })?;
                self.lock_timeout = Some(Duration::from_secs_f64(seconds));
            }
            b"dump" => {
                let text = value()?;
                for stage in text.to_string_lossy().split(',') {
                    self.dumps.push(match stage {
                        "tokens" => Dump::Tokens,
                        "ast" => Dump::Ast,
                        "types" => Dump::Types,
                        "code" => Dump::Code,
                        _ => return Err(format!("option --dump: unknown stage {stage:?}; expected tokens, ast, types or code")),
                    });
                }
            }
            b"version" => self.version = true,
            b"help" => self.help = true,
            _ => return Err(format!("unknown option --{shown}; see --help")),
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
        assert_eq!(args.files, ["prog"]);
        assert_eq!(args.operands, [&b"-"[..], b"-v", b"z"]);
    }

    #[test]
    fn the_first_operand_is_the_program_without_f() {
        let args = parse(&["--persist=a.heap", "--", "-x", "file"]).unwrap();
        assert_eq!(args.program.as_deref(), Some(&b"-x"[..]));
        assert_eq!(args.operands, [b"file"]);
        assert!(parse(&[]).unwrap_err().contains("no program text"));
        assert!(parse(&["-q", "x"]).unwrap_err().contains("-q"));
    }
}
