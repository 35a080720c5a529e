//! The special variables in the form in which the machine uses them.
//!
//! Invariant: the typed form (bytes, parsed format, splitter, separator) always agrees with the value last assigned.

use std::rc::Rc;

use awk_syntax::names::Special;

use crate::error::{Fatal, Step};
use crate::fields::Splitter;
use crate::format::Format;
use crate::records::Separator;
use crate::text::Charset;
use crate::value::Value;

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
    /// FS, for the next record.
    pub splitter: Rc<Splitter>,
    /// RS.
    pub separator: Rc<Separator>,
    /// `RS = ""`: newlines separate fields too.
    pub paragraph: bool,
    /// The values as assigned, by number of the special variable.
    values: [Value; 16],
}

impl Settings {
    /// All at their initial values (POSIX awk, "Variables and Special Variables").
    pub fn new(charset: Charset) -> Settings {
        let mut values = [const { Value::Uninit }; 16];
        let mut set = |s: Special, text: &[u8]| values[s as usize] = Value::text(text, false);
        set(Special::FS, b" ");
        set(Special::OFS, b" ");
        set(Special::ORS, b"\n");
        set(Special::RS, b"\n");
        set(Special::SUBSEP, b"\x1c");
        set(Special::CONVFMT, b"%.6g");
        set(Special::OFMT, b"%.6g");
        set(Special::FILENAME, b"");
        values[Special::ARGC as usize] = Value::Num(0.0);
        Settings {
            charset,
            nr: 0.0,
            fnr: 0.0,
            rstart: 0.0,
            rlength: 0.0,
            ofs: b" ".to_vec(),
            ors: b"\n".to_vec(),
            subsep: b"\x1c".to_vec(),
            convfmt: Rc::new(Format::parse(b"%.6g")),
            ofmt: Rc::new(Format::parse(b"%.6g")),
            splitter: Rc::new(Splitter::Blanks),
            separator: Rc::new(Separator::Byte(b'\n')),
            paragraph: false,
            values,
        }
    }

    /// The value of a special variable other than NF and the arrays.
    #[inline]
    pub fn get(&self, s: Special) -> Value {
        match s {
            Special::NR => Value::Num(self.nr),
            Special::FNR => Value::Num(self.fnr),
            Special::RSTART => Value::Num(self.rstart),
            Special::RLENGTH => Value::Num(self.rlength),
            _ => self.values[s as usize].clone(),
        }
    }

    /// The text of a value by CONVFMT.
    pub fn text_of(&self, value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        value.append_to(&self.convfmt, &mut out);
        out
    }

    /// Assigns. NF is not to be given here.
    ///
    /// # Errors
    /// A malformed regular expression in FS or RS.
    pub fn set(&mut self, s: Special, value: Value) -> Step<()> {
        match s {
            Special::NR => self.nr = value.to_num(),
            Special::FNR => self.fnr = value.to_num(),
            Special::RSTART => self.rstart = value.to_num(),
            Special::RLENGTH => self.rlength = value.to_num(),
            Special::OFS => self.ofs = self.text_of(&value),
            Special::ORS => self.ors = self.text_of(&value),
            Special::SUBSEP => self.subsep = self.text_of(&value),
            Special::CONVFMT => self.convfmt = Rc::new(Format::parse(&self.text_of(&value))),
            Special::OFMT => self.ofmt = Rc::new(Format::parse(&self.text_of(&value))),
            Special::FS => {
                let text = self.text_of(&value);
                let splitter = Splitter::from_fs(&text, self.charset, false);
                self.splitter = Rc::new(splitter.map_err(|e| bad_separator("FS", &text, &e.what))?);
            }
            Special::RS => {
                let text = self.text_of(&value);
                let separator = Separator::from_rs(&text, self.charset, false);
                self.separator =
                    Rc::new(separator.map_err(|e| bad_separator("RS", &text, &e.what))?);
                self.paragraph = text.is_empty();
            }
            Special::NF | Special::FILENAME | Special::ARGC | Special::ARGV | Special::ENVIRON => {}
        }
        self.values[s as usize] = value;
        Ok(())
    }
}

fn bad_separator(name: &str, text: &[u8], what: &str) -> Fatal {
    Fatal::new(format!(
        "{name} = \"{}\": malformed regular expression: {what}",
        String::from_utf8_lossy(text)
    ))
}
