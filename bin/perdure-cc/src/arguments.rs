//! What the command line says that concerns us. The words for clang stay as they are and in their order.

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Link-time optimization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lto {
    None,
    Full,
    Thin,
}

#[derive(Debug)]
pub struct Arguments {
    /// For clang: all words but ours.
    pub words: Vec<OsString>,
    pub wants_help: bool,
    pub no_runtime: bool,
    /// `Some(None)`: a table on standard error.
    pub stats: Option<Option<OsString>>,
    /// Functions to leave alone, separated by commas.
    pub ignore: String,
    pub verify: Option<bool>,
    /// The program is not linked: `-c`, `-S`, `-E` and the like.
    pub stops_early: bool,
    /// There is something to compile or to link.
    pub has_inputs: bool,
    pub lto: Lto,
    /// `-O0` or `-Og` or none.
    pub is_debug: bool,
    /// `-O0` or none.
    pub is_o0: bool,
    pub defines_ndebug: bool,
    /// `-r`, `-nostdlib` and the like: not a program that we complete.
    pub is_bare: bool,
    /// The value of `-fuse-ld=`.
    pub linker: Option<String>,
}

/// Options of clang whose value is the next word.
const WITH_VALUE: [&str; 34] = [
    "-o",
    "-x",
    "-I",
    "-L",
    "-l",
    "-D",
    "-U",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-isysroot",
    "-iprefix",
    "-iwithprefix",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-T",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-mllvm",
    "-z",
    "-u",
    "-e",
    "-target",
    "-arch",
    "-G",
    "-rpath",
    "-plugin",
    "--param",
];

impl Arguments {
    /// # Errors
    /// When an option begins with `-fperdure` and is none of ours, or cannot be used together with another.
    pub fn read(words: Vec<OsString>) -> Result<Arguments> {
        let mut it = Arguments {
            words: Vec::new(),
            wants_help: false,
            no_runtime: false,
            stats: None,
            ignore: String::new(),
            verify: None,
            stops_early: false,
            has_inputs: false,
            lto: Lto::None,
            is_debug: true,
            is_o0: true,
            defines_ndebug: false,
            is_bare: false,
            linker: None,
        };
        let mut expects_value = None;
        for word in words {
            let response = word.as_bytes().strip_prefix(b"@").map(|p| p.to_owned());
            if let (Some(path), None) = (response, &expects_value) {
                it.response_file(&word, &path)?;
            } else {
                it.word(word, &mut expects_value)?;
            }
        }
        Ok(it)
    }

    /// Looks into a file of arguments. It reaches clang as it is, unless there are words of ours in it.
    fn response_file(&mut self, word: &OsString, path: &[u8]) -> Result<()> {
        let path = std::path::Path::new(std::ffi::OsStr::from_bytes(path));
        let Ok(text) = std::fs::read(path) else {
            self.words.push(word.clone()); // clang says what is wrong
            return Ok(());
        };
        let kept = self.words.len();
        let mut expects_value = None;
        let inner = split(&text);
        let has_ours = inner.iter().any(|w| w.as_bytes().starts_with(b"-fperdure"));
        for w in inner {
            self.word(w, &mut expects_value)?;
        }
        if !has_ours {
            self.words.truncate(kept);
            self.words.push(word.clone());
        }
        Ok(())
    }

    fn word(&mut self, word: OsString, expects_value: &mut Option<String>) -> Result<()> {
        let text = word.to_string_lossy().into_owned();
        if let Some(option) = expects_value.take() {
            if option == "-D" && is_ndebug(&text) {
                self.defines_ndebug = true;
            }
            self.words.push(word);
            return Ok(());
        }
        if let Some(ours) = text.strip_prefix("-fperdure") {
            return self.ours(ours, &word);
        }
        match text.as_str() {
            "--help" | "-help" => self.wants_help = true,
            "-c" | "-S" | "-E" | "-M" | "-MM" | "-fsyntax-only" | "--analyze" | "-emit-ast"
            | "--precompile" => self.stops_early = true,
            "-r" | "-nostdlib" | "-nodefaultlibs" => self.is_bare = true,
            "-flto" | "-flto=full" | "-flto=auto" | "-flto=jobserver" => self.lto = Lto::Full,
            "-flto=thin" => self.lto = Lto::Thin,
            "-fno-lto" => self.lto = Lto::None,
            "-ffat-lto-objects" => bail!(
                "-ffat-lto-objects: an object holds code that is instrumented or code that will be when it is linked, not both; \
                 use -flto without it"
            ),
            _ => {}
        }
        if let Some(level) = text.strip_prefix("-O") {
            self.is_o0 = level == "0";
            self.is_debug = matches!(level, "0" | "g");
        } else if let Some(name) = text.strip_prefix("-D") {
            self.defines_ndebug |= is_ndebug(name);
        } else if text == "-UNDEBUG" {
            self.defines_ndebug = false;
        } else if let Some(linker) = text.strip_prefix("-fuse-ld=") {
            self.linker = Some(linker.to_owned());
        }
        if WITH_VALUE.contains(&text.as_str()) {
            self.has_inputs |= text == "-l";
            *expects_value = Some(text);
        } else if !text.starts_with('-') || text == "-" || text.starts_with("-l") {
            self.has_inputs = true;
        }
        self.words.push(word);
        Ok(())
    }

    fn ours(&mut self, rest: &str, word: &OsString) -> Result<()> {
        match rest {
            "-stats" => self.stats = Some(None),
            "-verify" => self.verify = Some(true),
            "-no-verify" => self.verify = Some(false),
            "-no-runtime" => self.no_runtime = true,
            _ => {
                let (name, value) = rest.split_once('=').unwrap_or((rest, ""));
                match name {
                    "-stats" if !value.is_empty() => {
                        let at = "-fperdure-stats=".len();
                        let file = std::ffi::OsStr::from_bytes(&word.as_bytes()[at..]).to_owned();
                        let here =
                            std::env::current_dir().context("cannot tell the current folder")?;
                        self.stats = Some(Some(here.join(file).into()));
                    }
                    "-ignore" if !value.is_empty() => {
                        if !self.ignore.is_empty() {
                            self.ignore.push(',');
                        }
                        self.ignore.push_str(value);
                    }
                    _ => bail!(
                        "unknown option {}; there are -fperdure-stats[=FILE], -fperdure-verify, -fperdure-no-verify, \
                         -fperdure-ignore=FUNCTION[,...] and -fperdure-no-runtime",
                        word.to_string_lossy()
                    ),
                }
            }
        }
        Ok(())
    }

    /// Whether the object asks for verify mode: as the user says, or if it is for debugging.
    pub fn verifies(&self) -> bool {
        self.verify.unwrap_or(self.is_debug && !self.defines_ndebug)
    }

    pub fn links(&self) -> bool {
        self.has_inputs && !self.stops_early
    }
}

fn is_ndebug(definition: &str) -> bool {
    definition.split('=').next() == Some("NDEBUG")
}

/// The words of a file of arguments: blanks between them, quotes of both kinds, backslashes.
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b'\\', _) => word.get_or_insert_default().extend(bytes.next()),
            (q, Some(open)) if q == open => quote = None,
            (b'"' | b'\'', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (b, None) if b.is_ascii_whitespace() => words.extend(word.take()),
            (b, _) => word.get_or_insert_default().push(b),
        }
    }
    words.extend(word);
    words
        .into_iter()
        .map(|w| std::ffi::OsStr::from_bytes(&w).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Arguments {
        Arguments::read(line.split(' ').map(OsString::from).collect()).expect("a good line")
    }

    #[test]
    fn words_of_ours_do_not_reach_clang() {
        let a = read(
            "-c -fperdure-stats -O2 -fperdure-ignore=f,g x.c -fperdure-ignore=h -fperdure-no-runtime",
        );
        assert_eq!(a.words, ["-c", "-O2", "x.c"]);
        assert_eq!(a.ignore, "f,g,h");
        assert!(a.no_runtime && a.stats == Some(None) && !a.links());
    }

    #[test]
    fn values_of_options_are_no_options() {
        let a = read("-o -c -x c -include -flto x.c");
        assert!(a.links());
        assert_eq!(a.lto, Lto::None);
    }

    #[test]
    fn debugging_builds_verify() {
        assert!(read("x.c").verifies());
        assert!(read("-g -Og x.c").verifies());
        assert!(read("-O2 -O0 x.c").verifies());
        assert!(!read("-O0 -DNDEBUG x.c").verifies());
        assert!(!read("-O0 -D NDEBUG=1 x.c").verifies());
        assert!(!read("-g -O2 x.c").verifies());
        assert!(!read("-O x.c").verifies());
        assert!(read("-O2 -fperdure-verify x.c").verifies());
        assert!(!read("-fperdure-no-verify x.c").verifies());
    }

    #[test]
    fn files_of_arguments_are_split_as_clang_splits_them() {
        assert_eq!(
            split(b"a  'b c'\t\"d\\\"e\" f\\ g\n''"),
            ["a", "b c", "d\"e", "f g", ""]
        );
    }

    #[test]
    fn unknown_options_of_ours_are_refused() {
        let error = Arguments::read(vec!["-fperdure-stat".into()]).expect_err("a typing error");
        assert!(error.to_string().contains("-fperdure-stats[=FILE]"));
    }
}
