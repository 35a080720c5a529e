//! The current record: `$0`, its fields, NF.
//!
//! A record that was read is a range of the main reader's buffer; nothing is copied, and fields are found only as far as
//! they are asked for. The first assignment to a field or to NF makes the record *edited*: all fields become values of
//! their own, and `$0` is put together again when it is next wanted.
//!
//! Invariant: unless `stale`, `text()` is `$0`; unless `edited`, `spans` are a prefix of its fields, cut by `splitter`, the
//! FS at the time when the record came in.

use std::ops::Range;
use std::rc::Rc;

use crate::error::{Fatal, Step};
use crate::fields::csv::{self, Source};
use crate::fields::tsv;
use crate::fields::{SplitState, Splitter};
use crate::records::RecordReader;
use crate::settings::{Notation, Settings};
use crate::text::{Charset, Measure};
use crate::value::Value;

/// A record has at most this many fields; gawk's limit is memory, which this stands for.
const FIELDS_MAX: usize = 50_000_000;

/// A field as it is seen in place.
pub enum Field<'a> {
    /// Input text: a number if it looks like one.
    Text(&'a [u8]),
    /// `$0` that was assigned a string or put together from fields: never a number.
    Str(&'a [u8]),
    /// An assigned field.
    Value(&'a Value),
    /// Past NF.
    Missing,
}

/// What `$0` is in comparisons and as a condition.
enum Whole {
    /// Text from input: a number if it looks like one.
    Input,
    /// A string.
    Str,
    /// The number that was assigned, or nothing; its text is the record's.
    Value(Value),
}

/// See the top of the file.
pub struct Record {
    /// The main input's reader, while there is one.
    pub reader: Option<RecordReader>,
    in_reader: bool,
    range: Range<usize>,
    own: Vec<u8>,
    spans: Vec<(u32, u32)>,
    /// How fields are written; `unquoted` holds them if quotes or escapes had to be taken out.
    pub notation: Notation,
    unquoted: Vec<u8>,
    spans_in: Source,
    state: SplitState,
    splitter: Rc<Splitter>,
    paragraph: bool,
    charset: Charset,
    /// Nothing was read or assigned yet.
    untouched: bool,
    edited: bool,
    stale: bool,
    whole: Whole,
    values: Vec<Value>,
    /// What NF was assigned, if no whole number: it reads as that until it changes (gawk). Only while `edited`.
    count_as: Option<Value>,
    /// What is known of the characters of one field, or of `$0`, that is a range of text, and which it is.
    measure: Measure,
    measured: usize,
}

/// Where a field begins and ends.
pub type Span = (u32, u32);

/// No field has this number.
const NONE: usize = usize::MAX;

impl Record {
    /// An empty record.
    pub fn new(charset: Charset) -> Record {
        Record {
            reader: None,
            in_reader: false,
            range: 0..0,
            own: Vec::new(),
            spans: Vec::new(),
            notation: Notation::Plain,
            unquoted: Vec::new(),
            spans_in: Source::Record,
            state: SplitState::default(),
            splitter: Rc::new(Splitter::Blanks),
            paragraph: false,
            charset,
            untouched: true,
            edited: false,
            stale: false,
            whole: Whole::Input,
            values: Vec::new(),
            count_as: None,
            measure: Measure::default(),
            measured: NONE,
        }
    }

    #[inline]
    fn text(&self) -> &[u8] {
        match &self.reader {
            Some(reader) if self.in_reader => reader.record(),
            _ => &self.own,
        }
    }

    /// The bytes that `spans` are places in.
    #[inline]
    fn fields_text(&self) -> &[u8] {
        match self.spans_in {
            Source::Record => self.text(),
            Source::Text => &self.unquoted,
        }
    }

    /// Takes over the record that the main reader has just given.
    #[inline]
    pub fn set_read(&mut self, range: Range<usize>, settings: &Settings) -> Step<()> {
        self.in_reader = true;
        self.range = range;
        self.begin(settings)
    }

    /// Assigns `value`, whose text is `text`, to `$0`, which keeps its kind (gawk, mawk and the one true awk agree): after
    /// `$0 = "10"` it is a string, after `$0 = 10` a number.
    pub fn set_whole(&mut self, value: Value, text: &[u8], settings: &Settings) -> Step<()> {
        self.set_text(text, settings)?;
        self.whole = match value {
            Value::Num(_)
            | Value::Bool(_)
            | Value::Exact(_)
            | Value::Uninit
            | Value::Unassigned => Whole::Value(value),
            v if v.maybe_num() => Whole::Input,
            _ => Whole::Str,
        };
        Ok(())
    }

    /// Takes over text from input as `$0`.
    pub fn set_text(&mut self, text: &[u8], settings: &Settings) -> Step<()> {
        self.own.clear();
        self.own.extend_from_slice(text);
        self.in_reader = false;
        self.range = 0..self.own.len();
        self.begin(settings)
    }

    /// Assigns a string that was made to `$0`; `text` gets some other memory for it.
    pub fn set_made(&mut self, text: &mut Vec<u8>, settings: &Settings) -> Step<()> {
        std::mem::swap(&mut self.own, text);
        self.in_reader = false;
        self.range = 0..self.own.len();
        self.begin(settings)?;
        self.whole = Whole::Str;
        Ok(())
    }

    #[inline]
    fn begin(&mut self, settings: &Settings) -> Step<()> {
        if self.range.len() >= u32::MAX as usize {
            return Err(Fatal::new(format!(
                "record of {} bytes: the limit is 4 GiB",
                self.range.len()
            )));
        }
        self.spans.clear();
        self.state = SplitState::default();
        self.spans_in = Source::Record;
        self.untouched = false;
        self.edited = false;
        self.stale = false;
        self.whole = Whole::Input;
        self.measured = NONE;
        if !Rc::ptr_eq(&self.splitter, &settings.splitter) {
            self.splitter = settings.splitter.clone();
        }
        self.paragraph = settings.paragraph;
        Ok(())
    }

    /// Makes the record independent of the reader.
    pub fn detach(&mut self) {
        if self.in_reader {
            let mut own = std::mem::take(&mut self.own);
            own.clear();
            own.extend_from_slice(self.text());
            self.own = own;
            self.in_reader = false;
            self.range = 0..self.own.len();
        }
    }

    #[inline]
    fn split_to(&mut self, count: usize) {
        if self.spans.len() < count && !self.state.is_done() {
            let want = count - self.spans.len();
            let text = match &self.reader {
                Some(reader) if self.in_reader => reader.record(),
                _ => self.own.as_slice(),
            };
            if self.notation != Notation::Plain {
                let split = match self.notation {
                    Notation::Tsv => tsv::split,
                    _ => csv::split,
                };
                if self.spans.is_empty() {
                    self.spans_in = split(text, &mut self.spans, &mut self.unquoted);
                }
                return;
            }
            self.splitter.split_some(
                self.charset,
                text,
                self.paragraph,
                &mut self.state,
                want,
                &mut self.spans,
            );
        }
    }

    /// `$n`.
    #[inline]
    pub fn get(&mut self, n: usize, settings: &Settings) -> Field<'_> {
        if n == 0 {
            if self.untouched {
                return Field::Missing;
            }
            if self.stale {
                self.rebuild(settings);
            }
            return match &self.whole {
                Whole::Input => Field::Text(self.text()),
                Whole::Str => Field::Str(self.text()),
                Whole::Value(value) => Field::Value(value),
            };
        }
        if self.edited {
            return self.values.get(n - 1).map_or(Field::Missing, Field::Value);
        }
        self.split_to(n);
        match self.spans.get(n - 1) {
            Some(&(start, end)) => Field::Text(&self.fields_text()[start as usize..end as usize]),
            None => Field::Missing,
        }
    }

    /// Field `n`, from 1, if it has been cut already and is text of the record.
    #[inline]
    pub fn cut_field(&self, n: usize) -> Option<&[u8]> {
        if self.edited {
            return None;
        }
        let &(start, end) = self.spans.get(n.wrapping_sub(1))?;
        Some(&self.fields_text()[start as usize..end as usize])
    }

    /// The string that `$n` is, and what is known of its characters; `None` if it is none, or a short one that was
    /// assigned.
    pub fn measured(&mut self, n: usize, settings: &Settings) -> Option<(&[u8], &Measure)> {
        if n > 0 && self.edited {
            return match self.values.get(n - 1)? {
                Value::Long(long, _) => Some((long, long.measure())),
                _ => None,
            };
        }
        if n == 0 && self.stale {
            self.rebuild(settings);
        }
        if self.measured != n {
            self.measure.forget();
            self.measured = n;
        }
        if n == 0 {
            let is_text = !self.untouched && !matches!(self.whole, Whole::Value(_));
            return is_text.then(|| (self.text(), &self.measure));
        }
        self.split_to(n);
        let &(start, end) = self.spans.get(n - 1)?;
        Some((
            &self.fields_text()[start as usize..end as usize],
            &self.measure,
        ))
    }

    /// `$0` as `print` writes it: a number that was assigned, by OFMT.
    #[inline]
    pub fn print_to(&mut self, settings: &Settings, out: &mut Vec<u8>) {
        match self.get(0, settings) {
            Field::Text(text) | Field::Str(text) => out.extend_from_slice(text),
            Field::Value(value) => value.append_to(&settings.ofmt, out),
            Field::Missing => {}
        }
    }

    /// The text of `$0`, put together again if fields were assigned.
    #[inline]
    pub fn whole(&mut self, settings: &Settings) -> &[u8] {
        if self.stale {
            self.rebuild(settings);
        }
        self.text()
    }

    fn rebuild(&mut self, settings: &Settings) {
        self.own.clear();
        for (at, value) in self.values.iter().enumerate() {
            if settings.output != Notation::Plain {
                let text = settings.text_of(value);
                settings.output.push(&text, at == 0, &mut self.own);
                continue;
            }
            if at > 0 {
                self.own.extend_from_slice(&settings.ofs);
            }
            value.append_to(&settings.convfmt, &mut self.own);
        }
        self.in_reader = false;
        self.range = 0..self.own.len();
        self.stale = false;
        self.whole = Whole::Str;
        self.measured = NONE;
    }

    /// NF.
    pub fn count(&mut self) -> usize {
        if self.edited {
            return self.values.len();
        }
        self.split_to(usize::MAX);
        self.spans.len()
    }

    /// All fields as they were read: the text that they are places in, and the places. None if they were assigned since,
    /// or there may be more to them.
    pub fn cut_places(&mut self) -> Option<(&[u8], &[Span])> {
        if self.edited || self.notation != Notation::Plain {
            return None;
        }
        self.split_to(usize::MAX);
        Some((self.fields_text(), &self.spans))
    }

    /// NF as a number.
    #[inline]
    pub fn count_number(&mut self) -> f64 {
        match &self.count_as {
            Some(value) if self.edited => value.to_num(),
            _ => self.count() as f64,
        }
    }

    /// NF as a value.
    pub fn count_value(&mut self) -> Value {
        match &self.count_as {
            Some(value) if self.edited => value.clone(),
            _ => Value::Num(self.count() as f64),
        }
    }

    /// Cuts all fields now: FS is about to change, or the fields about to be assigned.
    pub fn split_all(&mut self) {
        if !self.edited {
            self.split_to(usize::MAX);
        }
    }

    fn edit(&mut self) {
        if self.edited {
            return;
        }
        self.untouched = false;
        self.count_as = None;
        self.split_all();
        let mut values = std::mem::take(&mut self.values);
        values.clear();
        let text = self.fields_text();
        values.extend(
            self.spans
                .iter()
                .map(|&(start, end)| Value::input(&text[start as usize..end as usize])),
        );
        self.values = values;
        self.edited = true;
    }

    /// Assigns `$n`, n at least 1.
    pub fn set_field(&mut self, n: usize, value: Value) -> Step<()> {
        if n > FIELDS_MAX {
            return Err(Fatal::new(format!(
                "field ${n} cannot be made: the limit is {FIELDS_MAX}"
            )));
        }
        self.edit();
        if n > self.values.len() {
            self.values.resize(n, Value::missing());
            self.count_as = None;
        }
        self.values[n - 1] = value;
        self.stale = true;
        Ok(())
    }

    /// Assigns NF.
    pub fn set_count(&mut self, value: Value) -> Step<()> {
        let n = value.to_num().trunc();
        if n.is_nan() || n < 0.0 {
            return Err(Fatal::new("NF set to a negative value"));
        }
        if n > FIELDS_MAX as f64 {
            return Err(Fatal::new(format!(
                "NF cannot be {n}: the limit is {FIELDS_MAX}"
            )));
        }
        self.edit();
        self.values.resize(n as usize, Value::missing());
        self.count_as = (!matches!(value, Value::Num(given) if given == n)).then_some(value);
        self.stale = true;
        Ok(())
    }
}
