//! The special variables in the form in which the machine uses them.
//!
//! Invariant: the typed form (bytes, parsed format, splitter, separator) always agrees with the value last assigned.

use std::rc::Rc;

use awk_syntax::names::Special;

use crate::error::{Fatal, Step};
use crate::fields::{Splitter, Widths};
use crate::format::Format;
use crate::locale::{DatesOf, Numbers};
use crate::records::Separator;
use crate::regex::{Options, Regex, Syntax};
use crate::text::{Charset, char_count};
use crate::value::Value;

/// How fields are written in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Notation {
    /// As AWK has it: by FS, OFS and their kin.
    #[default]
    Plain,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// Tab-separated values with escapes.
    Tsv,
}

impl Notation {
    /// What `PROCINFO["FS"]` says.
    pub fn name(self) -> &'static str {
        match self {
            Notation::Plain | Notation::Csv => "FS",
            Notation::Tsv => "TSV",
        }
    }

    /// Appends a value as a field; `first` of its record.
    pub fn push(self, value: &[u8], first: bool, out: &mut Vec<u8>) {
        match self {
            Notation::Plain => out.extend_from_slice(value),
            Notation::Csv => {
                if !first {
                    out.push(b',');
                }
                crate::fields::csv::push(value, out);
            }
            Notation::Tsv => {
                if !first {
                    out.push(b'\t');
                }
                crate::fields::tsv::push(value, out);
            }
        }
    }
}

/// Special variables but NF, which belongs to the record, and the arrays.
pub struct Settings {
    /// What a character is.
    pub charset: Charset,
    /// Records read so far.
    pub nr: f64,
    /// Records read from the current file.
    pub fnr: f64,
    /// Set by `match`.
    pub rstart: f64,
    /// Set by `match`.
    pub rlength: f64,
    /// OFS as text.
    pub ofs: Vec<u8>,
    /// ORS as text.
    pub ors: Vec<u8>,
    /// SUBSEP as text.
    pub subsep: Vec<u8>,
    /// CONVFMT, parsed.
    pub convfmt: Rc<Format>,
    /// OFMT, parsed.
    pub ofmt: Rc<Format>,
    /// How the locale writes numbers, and where that counts.
    pub numbers: Numbers,
    /// How the locale writes dates.
    pub dates: Rc<DatesOf>,
    /// How regular expressions are read.
    pub syntax: Syntax,
    /// What cuts the next record: FS, FPAT or FIELDWIDTHS, whichever was assigned last.
    pub splitter: Rc<Splitter>,
    /// Which of them that is, for `PROCINFO["FS"]`.
    pub cut_by: &'static str,
    /// FS, for `split`.
    pub fs: Rc<Splitter>,
    /// How fields are written in the input; but for `Plain`, FS, FPAT and FIELDWIDTHS have no meaning.
    pub input: Notation,
    /// How `print` writes its values.
    pub output: Notation,
    /// LINT: doubtful things are said while running.
    pub lint: bool,
    /// IGNORECASE
    pub ignore_case: bool,
    /// Number of the current file among the operands.
    pub argind: f64,
    /// RS.
    pub separator: Rc<Separator>,
    /// What ends a record, while nothing but the next line has to be done for one; whoever changes that says `None`, and
    /// whoever reads a record finds out again.
    pub plain_lines: Option<u8>,
    /// `RS = ""`: newlines separate fields too.
    pub paragraph: bool,
    rs_is_empty: bool,
    /// The values as assigned, by number of the special variable.
    values: [Value; Special::ALL.len()],
}

impl Settings {
    /// All at their initial values (POSIX awk, "Variables and Special Variables").
    pub fn new(charset: Charset, numbers: Numbers, dates: Rc<DatesOf>) -> Settings {
        let usual = Rc::new(Format::parse_in(b"%.6g", numbers));
        let mut values = [const { Value::Uninit }; Special::ALL.len()];
        let mut set = |s: Special, text: &[u8]| values[s as usize] = Value::text(text, false);
        set(Special::FS, b" ");
        set(Special::OFS, b" ");
        set(Special::ORS, b"\n");
        set(Special::RS, b"\n");
        set(Special::SUBSEP, b"\x1c");
        set(Special::CONVFMT, b"%.6g");
        set(Special::OFMT, b"%.6g");
        set(Special::FILENAME, b"");
        set(Special::FPAT, b"[^[:space:]]+");
        set(Special::FIELDWIDTHS, b"");
        set(Special::ERRNO, b"");
        set(Special::RT, b"");
        set(Special::TEXTDOMAIN, b"messages");
        set(Special::ROUNDMODE, b"N");
        for s in [
            Special::ARGC,
            Special::BINMODE,
            Special::IGNORECASE,
            Special::LINT,
        ] {
            values[s as usize] = Value::Num(0.0);
        }
        values[Special::PREC as usize] = Value::Num(53.0);
        Settings {
            charset,
            nr: 0.0,
            fnr: 0.0,
            rstart: 0.0,
            rlength: 0.0,
            ofs: b" ".to_vec(),
            ors: b"\n".to_vec(),
            subsep: b"\x1c".to_vec(),
            convfmt: usual.clone(),
            ofmt: usual,
            numbers,
            dates,
            syntax: Syntax::Gawk,
            splitter: Rc::new(Splitter::Blanks),
            cut_by: "FS",
            fs: Rc::new(Splitter::Blanks),
            input: Notation::Plain,
            output: Notation::Plain,
            lint: false,
            ignore_case: false,
            argind: 0.0,
            separator: Rc::new(Separator::Byte(b'\n')),
            plain_lines: None,
            paragraph: false,
            rs_is_empty: false,
            values,
        }
    }

    /// The value of a special variable other than NF and the arrays.
    #[inline]
    pub fn get(&self, s: Special) -> Value {
        match s {
            Special::NR => self.counter(s, self.nr),
            Special::FNR => self.counter(s, self.fnr),
            Special::RSTART => self.counter(s, self.rstart),
            Special::RLENGTH => self.counter(s, self.rlength),
            Special::ARGIND => self.counter(s, self.argind),
            _ => self.values[s as usize].clone(),
        }
    }

    /// A variable that AWK itself counts with: what the program assigned, until it is another number (gawk).
    #[inline]
    fn counter(&self, s: Special, n: f64) -> Value {
        match &self.values[s as usize] {
            Value::Uninit | Value::Num(_) => Value::Num(n),
            assigned if assigned.to_num() == n => assigned.clone(),
            _ => Value::Num(n),
        }
    }

    /// How numbers become text: by OFMT where `print` writes them, else by CONVFMT.
    #[inline]
    pub fn number_format(&self, out: bool) -> &Format {
        if out { &self.ofmt } else { &self.convfmt }
    }

    /// The text of a value by CONVFMT.
    pub fn text_of(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        value.append_to(&self.convfmt, &mut out);
        out
    }

    /// Number of characters in the text of a value.
    pub fn length_of(&self, value: &Value) -> f64 {
        let chars = match value {
            Value::Long(long, _) => long.measure().chars(self.charset, long),
            value => match value.as_bytes() {
                Some(bytes) => char_count(self.charset, bytes),
                None => char_count(self.charset, &self.text_of(value)),
            },
        };
        chars as f64
    }

    /// Assigns. NF is not to be given here.
    ///
    /// # Errors
    /// A malformed regular expression in FS or RS.
    pub fn set(&mut self, s: Special, value: Value) -> Step<()> {
        match s {
            // They count records: a fraction is lost (gawk).
            Special::NR => self.nr = value.to_num().trunc(),
            Special::FNR => self.fnr = value.to_num().trunc(),
            Special::RSTART => self.rstart = value.to_num(),
            Special::RLENGTH => self.rlength = value.to_num(),
            Special::ARGIND => self.argind = value.to_num(),
            Special::OFS => self.ofs = self.text_of(&value),
            Special::ORS => self.ors = self.text_of(&value),
            Special::SUBSEP => self.subsep = self.text_of(&value),
            Special::CONVFMT => self.convfmt = self.format_of(&value),
            Special::OFMT => self.ofmt = self.format_of(&value),
            Special::FS | Special::FPAT | Special::FIELDWIDTHS if self.input != Notation::Plain => {
                // They have no meaning then (gawk manual, "Comma Separated Value Files").
            }
            Special::FS => {
                self.fs = self.fs_from(&value)?;
                self.splitter = self.fs.clone();
                self.cut_by = s.name();
            }
            Special::FPAT => {
                self.splitter = self.fpat_of(&self.text_of(&value))?;
                self.cut_by = s.name();
            }
            Special::FIELDWIDTHS => {
                let text = self.text_of(&value);
                let widths = Widths::parse(&text).map_err(|e| Fatal::new(e.to_string()))?;
                self.splitter = Rc::new(Splitter::Widths(widths));
                self.cut_by = s.name();
            }
            Special::LINT => {
                self.lint = value.truth();
            }
            Special::RS if self.input == Notation::Csv => {}
            Special::RS => self.set_separator(&value)?,
            Special::IGNORECASE => {
                let ignore_case = value.truth();
                if ignore_case != self.ignore_case {
                    self.ignore_case = ignore_case;
                    self.fs = self.fs_from(&self.values[Special::FS as usize])?;
                    // For FPAT it counts from the next assignment of FPAT, as with gawk.
                    if self.cut_by == "FS" {
                        self.splitter = self.fs.clone();
                    }
                    self.set_separator(&self.values[Special::RS as usize].clone())?;
                }
            }
            _ => {}
        }
        self.values[s as usize] = value;
        if matches!(s, Special::FS | Special::RS) {
            // Beside an FS that is a regular expression, however short, newlines do not separate (gawk manual, "Records").
            let fs = &self.values[Special::FS as usize];
            let is_plain = !matches!(fs, Value::Regex(_))
                && crate::text::char_count(self.charset, &self.text_of(fs)) <= 1;
            self.paragraph = self.rs_is_empty && is_plain;
        }
        Ok(())
    }

    /// How a regular expression that the program computes is read.
    pub fn regex_options(&self) -> Options {
        Options {
            charset: self.charset,
            syntax: self.syntax,
            ignore_case: false,
        }
    }

    /// The character set, if letters are equal whatever their case.
    #[inline]
    pub fn folded(&self) -> Option<Charset> {
        self.ignore_case.then_some(self.charset)
    }

    /// The splitter for FPAT as it is now.
    ///
    /// # Errors
    /// A malformed regular expression.
    pub fn fpat(&self) -> Step<Rc<Splitter>> {
        self.fpat_of(&self.text_of(&self.values[Special::FPAT as usize]))
    }

    fn format_of(&self, value: &Value) -> Rc<Format> {
        Rc::new(Format::parse_in(&self.text_of(value), self.numbers))
    }

    fn fs_from(&self, value: &Value) -> Step<Rc<Splitter>> {
        let text = &self.text_of(value);
        if let Value::Regex(_) = value
            && !text.is_empty()
        {
            // Strongly typed: one character has no meaning of its own.
            let regex = self.typed("FS", text)?;
            let ignore_case = self.ignore_case;
            return Ok(Rc::new(Splitter::Regex { regex, ignore_case }));
        }
        let options = Options {
            ignore_case: self.ignore_case,
            ..self.regex_options()
        };
        match Splitter::compile(text, options) {
            Ok(splitter) => Ok(Rc::new(splitter)),
            Err(error) => Err(bad_separator("FS", text, &error.what)),
        }
    }

    fn fpat_of(&self, text: &[u8]) -> Step<Rc<Splitter>> {
        Ok(Rc::new(Splitter::Pattern {
            regex: self.typed("FPAT", text)?,
            ignore_case: self.ignore_case,
        }))
    }

    /// A value that is a regular expression whatever its length.
    fn typed(&self, name: &str, text: &[u8]) -> Step<Rc<Regex>> {
        Regex::compile(text, self.regex_options())
            .map(Rc::new)
            .map_err(|error| bad_separator(name, text, &error.what))
    }

    fn set_separator(&mut self, value: &Value) -> Step<()> {
        self.plain_lines = None;
        let text = &self.text_of(value)[..];
        if let Value::Regex(_) = value {
            let mut regex = self.typed("RS", text)?;
            if self.ignore_case {
                let options = Options {
                    ignore_case: true,
                    ..self.regex_options()
                };
                regex = Regex::compile(text, options).map_or(regex, Rc::new);
            }
            self.separator = Rc::new(Separator::Regex(regex));
            self.rs_is_empty = false;
            return Ok(());
        }
        // Beyond gawk's language only the first character counts.
        let text = match self.syntax {
            Syntax::Gawk => text,
            _ if text.is_empty() => text,
            _ => &text[..text.len().min(crate::text::next_char(self.charset, text).1)],
        };
        let separator = Separator::from_rs(text, self.charset, self.ignore_case)
            .map_err(|error| bad_separator("RS", text, &error.what))?;
        self.separator = Rc::new(separator);
        self.rs_is_empty = text.is_empty();
        Ok(())
    }
}

fn bad_separator(name: &str, text: &[u8], what: &str) -> Fatal {
    Fatal::new(format!(
        "{name} = \"{}\": malformed regular expression: {what}",
        String::from_utf8_lossy(text)
    ))
}
