//! String functions, patterns computed while running, and random numbers.

use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::Vm;
use crate::code::{Arr, Held, Re, Sep};
use crate::error::{Fatal, Step as Result};
use crate::fields::csv;
use crate::format::{Arg, Format};
use crate::num::looks_numeric;
use crate::record::Field;
use crate::regex::Regex;
use crate::settings::Notation;
use crate::text::{self, Charset};
use crate::value::{ArrayRef, Value};

/// The state of `rand` for a seed: one step of SplitMix64 (Steele, Lea, Flood 2014) spreads near seeds apart.
pub(super) fn seeded(seed: f64) -> u64 {
    let mut z = seed.to_bits().wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Vm<'_> {
    /// The value of `rand()`: in [0, 1), the same sequence for the same seed.
    pub(super) fn next_random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Gives the seed before.
    pub(super) fn srand(&mut self, given: bool) {
        let seed = if given {
            self.pop_num()
        } else {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |d| d.as_secs() as f64)
        };
        self.nums.push(self.seed);
        self.seed = seed;
        self.random = seeded(seed);
    }

    /// The regular expression of an operand; a dynamic one is taken off the text buffer and kept compiled.
    pub(super) fn regex(&mut self, re: Re) -> Result<Rc<Regex>> {
        if re != Re::DYNAMIC {
            return Ok(self.code.regexes[re.0 as usize].clone());
        }
        let mark = self.pop_mark();
        if let Some((recent, regex)) = &self.regex_recent
            && *recent == self.text[mark..]
        {
            let regex = regex.clone();
            self.text.truncate(mark);
            return Ok(regex);
        }
        let text = self.text.split_off(mark);
        let regex = self.compiled(&text)?;
        self.regex_recent = Some((text, regex.clone()));
        Ok(regex)
    }

    /// A regular expression that was computed, compiled now or before.
    pub(super) fn compiled(&mut self, text: &[u8]) -> Result<Rc<Regex>> {
        Ok(match self.regexes.get(text) {
            Some(regex) => regex,
            None => {
                let made =
                    Regex::compile(text, self.settings.regex_options()).map_err(|error| {
                        let shown = String::from_utf8_lossy(text);
                        Fatal::new(format!(
                            "regular expression /{shown}/, at character {}: {}",
                            error.offset + 1,
                            error.what
                        ))
                    })?;
                let regex = Rc::new(made);
                self.regexes.keep(text, regex.clone());
                regex
            }
        })
    }

    pub(super) fn text_to_value(&mut self) {
        let mark = self.pop_mark();
        let v = Value::text(&self.text[mark..], false);
        self.text.truncate(mark);
        self.vals.push(v);
    }

    pub(super) fn index(&mut self) {
        let part = self.pop_mark();
        let whole = self.pop_mark();
        let charset = self.settings.charset;
        let at = if self.settings.ignore_case {
            let (mut small, mut wanted) = (Vec::new(), Vec::new());
            text::to_lower(charset, &self.text[whole..part], &mut small);
            text::to_lower(charset, &self.text[part..], &mut wanted);
            text::find(charset, &small, &wanted)
        } else {
            let (hay, wanted) = self.text[whole..].split_at(part - whole);
            self.sought.find(charset, hay, wanted)
        };
        self.text.truncate(whole);
        self.nums.push(at as f64);
    }

    /// `index` of a constant text.
    pub(super) fn index_held(&mut self, held: Held, wanted: u32) -> Result<()> {
        let wanted = &self.code.wanted[wanted as usize];
        let charset = self.settings.charset;
        if !self.settings.ignore_case
            && let Some(text) = self.held_text(held)
        {
            let at = text::find_with(charset, text, wanted);
            self.nums.push(at as f64);
            return Ok(());
        }
        self.push_held(held)?;
        self.marks.push(self.text.len());
        self.text.extend_from_slice(wanted.needle());
        self.index();
        Ok(())
    }

    pub(super) fn change_case(&mut self, change: fn(Charset, &[u8], &mut Vec<u8>)) {
        let mark = self.pop_mark();
        self.scratch.clear();
        change(self.settings.charset, &self.text[mark..], &mut self.scratch);
        self.text.truncate(mark);
        let v = Value::text(&self.scratch, false);
        self.vals.push(v);
    }

    pub(super) fn match_text(&mut self, re: Re) -> Result<()> {
        let regex = self.regex(re)?;
        self.match_with(&regex);
        Ok(())
    }

    /// `match` of the top string of the text buffer.
    pub(super) fn match_with(&mut self, regex: &Regex) {
        let regex = self.cased(regex);
        let mark = self.pop_mark();
        let place = place_of_match(regex, self.settings.charset, &self.text[mark..]);
        (self.settings.rstart, self.settings.rlength) = place;
        self.text.truncate(mark);
        self.nums.push(self.settings.rstart);
    }

    /// `match` of a string where it stands.
    pub(super) fn match_held(&mut self, held: Held, re: Re) -> Result<()> {
        let code = self.code;
        let regex = self.cased(&code.regexes[re.0 as usize]);
        let charset = self.settings.charset;
        if let Some(text) = self.held_text(held) {
            let place = place_of_match(regex, charset, text);
            (self.settings.rstart, self.settings.rlength) = place;
            self.nums.push(place.0);
            return Ok(());
        }
        self.push_held(held)?;
        self.match_with(&code.regexes[re.0 as usize]);
        Ok(())
    }

    /// `match` of the top string of the text buffer, with an array for the groups.
    pub(super) fn match_array(&mut self, array: Arr, re: Re) -> Result<()> {
        let regex = self.regex(re)?;
        let mark = self.pop_mark();
        let array = self.array(array)?;
        let mut text = std::mem::take(&mut self.text);
        let result = self.match_into(&regex, &text[mark..], array);
        text.truncate(mark);
        self.text = text;
        self.nums.push(result?);
        Ok(())
    }

    /// `match` with an array for the groups.
    pub(super) fn match_into(
        &mut self,
        regex: &Regex,
        subject: &[u8],
        array: ArrayRef,
    ) -> Result<f64> {
        let mut groups = std::mem::take(&mut self.groups);
        let hit = self.cased(regex).captures_at(subject, 0, &mut groups);
        let result = if hit {
            self.store_groups(subject, &groups, array)
        } else {
            (self.settings.rstart, self.settings.rlength) = (0.0, -1.0);
            self.clear_filled(array).map(|()| 0.0)
        };
        self.groups = groups;
        result
    }

    /// To clear an array that is empty would cost as much as to clear a small one.
    fn clear_filled(&mut self, array: ArrayRef) -> Result<()> {
        match self.store.heap_of(array)?.table_len(array.table)? {
            0 => Ok(()),
            _ => self.clear(array),
        }
    }

    fn store_groups(
        &mut self,
        subject: &[u8],
        groups: &[Option<(usize, usize)>],
        array: ArrayRef,
    ) -> Result<f64> {
        if self.inner_in_use() {
            self.clear(array)?;
        }
        let charset = self.settings.charset;
        let is_bytes = charset == Charset::Bytes || crate::scan::is_ascii(subject);
        let chars = |text: &[u8]| match is_bytes {
            true => text.len(),
            false => text::char_count(charset, text),
        };
        let (start, end) = groups.first().copied().flatten().unwrap_or_default();
        self.settings.rstart = chars(&subject[..start]) as f64 + 1.0;
        self.settings.rlength = chars(&subject[start..end]) as f64;
        let wanted = 3 * groups.iter().flatten().count() as u64;
        let heap = self.store.heap_of(array)?;
        // Matching into one array again and again is the usual case: if it has as many elements as there will be, they are
        // overwritten. Anything else begins with an empty array.
        if heap.table_len(array.table)? != wanted {
            heap.table_clear(array.table)?;
        }
        loop {
            for (n, group) in groups.iter().enumerate() {
                let Some((start, end)) = *group else {
                    continue;
                };
                let bytes = &subject[start..end];
                let slot = heap.entry_int(array.table, n as i64)?;
                let maybe_num = !bytes.is_empty();
                heap.cell_set(slot, heap::Cell::Str { bytes, maybe_num })?;
                let key = &mut self.scratch;
                key.clear();
                key.extend_from_slice(itoa::Buffer::new().format(n).as_bytes());
                key.extend_from_slice(&self.settings.subsep);
                let word_at = key.len();
                let numbers = [
                    (&b"start"[..], chars(&subject[..start]) + 1),
                    (b"length", chars(bytes)),
                ];
                for (word, number) in numbers {
                    key.truncate(word_at);
                    key.extend_from_slice(word);
                    let slot = heap.entry(array.table, key)?;
                    heap.cell_set_num(slot, number as f64)?;
                }
            }
            if heap.table_len(array.table)? == wanted {
                break;
            }
            // Keys that are no groups'.
            heap.table_clear(array.table)?;
        }
        Ok(self.settings.rstart)
    }

    /// A regular expression as IGNORECASE wants it.
    #[inline]
    pub(crate) fn cased<'r>(&self, regex: &'r Regex) -> &'r Regex {
        if self.settings.ignore_case {
            regex.insensitive()
        } else {
            regex
        }
    }

    /// Divides the top string of the text buffer: where it begins; the places of its parts are in `spans`.
    pub(super) fn cut_text(&mut self, sep: Sep) -> Result<usize> {
        let splitter = match sep {
            Sep::Default => self.settings.fs.clone(),
            Sep::Const(n) if !self.settings.ignore_case => {
                self.code.splitters[n as usize].0.clone()
            }
            Sep::Const(n) => self.splitter_argument(&self.code.splitters[n as usize].1)?,
            Sep::Dynamic => {
                let value = self.pop_val();
                self.splitter_argument(&value)?
            }
        };
        let mark = self.pop_mark();
        self.spans.clear();
        if self.settings.input == Notation::Csv && sep == Sep::Default {
            let subject = self.text.split_off(mark);
            if csv::split(&subject, &mut self.spans, &mut self.text) == csv::Source::Record {
                self.text.extend_from_slice(&subject);
            }
        } else {
            let charset = self.settings.charset;
            // A newline separates in records of paragraphs, but not here (gawk 5.3).
            splitter.split(charset, &self.text[mark..], false, &mut self.spans);
        }
        Ok(mark)
    }

    pub(super) fn split(&mut self, array: Arr, sep: Sep) -> Result<()> {
        let mark = self.cut_text(sep)?;
        let array = self.array(array)?;
        if self.inner_in_use() {
            self.clear(array)?;
        }
        let heap = self.store.heap_of(array)?;
        let parts = self.spans.len() as u64;
        let before = heap.table_len(array.table)?;
        // Splitting into one array again and again is the usual case: its elements are overwritten, and only what is left
        // over is removed. Anything else begins with an empty array.
        if before > 2 * parts + 16 {
            heap.table_clear(array.table)?;
        }
        loop {
            for (at, &(start, end)) in self.spans.iter().enumerate() {
                let slot = heap.entry_int(array.table, at as i64 + 1)?;
                let bytes = &self.text[mark + start as usize..mark + end as usize];
                heap.cell_set(
                    slot,
                    heap::Cell::Str {
                        bytes,
                        maybe_num: !bytes.is_empty(),
                    },
                )?;
            }
            for key in parts + 1..=before {
                if heap.table_len(array.table)? == parts {
                    break;
                }
                heap.remove(array.table, itoa::Buffer::new().format(key).as_bytes())?;
            }
            if heap.table_len(array.table)? == parts {
                break;
            }
            // Keys that are no part numbers.
            heap.table_clear(array.table)?;
        }
        self.text.truncate(mark);
        self.nums.push(self.spans.len() as f64);
        Ok(())
    }

    pub(super) fn substitute(&mut self, re: Re, global: bool) -> Result<()> {
        if re == Re::DYNAMIC {
            // The pattern lies below both strings; it is taken off without disturbing them.
            let second = self.pop_mark();
            let first = self.pop_mark();
            let strings = self.text.split_off(first);
            let regex = self.regex(re)?;
            let (replacement, target) = strings.split_at(second - first);
            self.substitute_in(&regex, global, replacement, target);
        } else {
            let code = self.code;
            self.substitute_with(&code.regexes[re.0 as usize], global);
        }
        if std::mem::take(&mut self.target_is_regex) && self.nums.last() > Some(&0.0) {
            let value = self.pop_val();
            let text = self.settings.text_of(&value);
            self.compiled(&text)?; // what is none is told here, as with gawk
            self.vals.push(Value::Regex(Rc::new(text)));
        }
        Ok(())
    }

    /// The same with a regular expression that is there already.
    pub(super) fn substitute_with(&mut self, regex: &Regex, global: bool) {
        let second = self.pop_mark();
        let first = self.pop_mark();
        let mut text = std::mem::take(&mut self.text);
        self.substitute_in(regex, global, &text[first..second], &text[second..]);
        text.truncate(first);
        self.text = text;
    }

    /// The same of `$0`, which gets the new text.
    pub(super) fn substitute_record(
        &mut self,
        re: Re,
        replacement: u32,
        global: bool,
    ) -> Result<()> {
        let code = self.code;
        let regex = &code.regexes[re.0 as usize];
        let replacement = code.consts[replacement as usize]
            .as_bytes()
            .unwrap_or_default();
        let wanted = self.cased(regex);
        let charset = self.settings.charset;
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        if let Field::Text(target) | Field::Str(target) = self.record.get(0, &self.settings) {
            let count = substitute(wanted, charset, replacement, target, global, &mut out);
            if count > 0 {
                self.record.set_made(&mut out, &self.settings)?;
            }
            self.scratch = out;
            self.nums.push(f64::from(count));
            return Ok(());
        }
        self.scratch = out;
        self.marks.push(self.text.len());
        self.text.extend_from_slice(replacement);
        self.marks.push(self.text.len());
        self.append_field(0, false);
        self.substitute_with(regex, global);
        if self.nums.last() > Some(&0.0) {
            let value = self.pop_val();
            self.set_field(0, value)?;
        }
        Ok(())
    }

    fn substitute_in(&mut self, regex: &Regex, global: bool, replacement: &[u8], target: &[u8]) {
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        let regex = self.cased(regex);
        let charset = self.settings.charset;
        let count = substitute(regex, charset, replacement, target, global, &mut out);
        if count > 0 {
            self.vals.push(Value::text(&out, false));
        }
        self.scratch = out;
        self.nums.push(f64::from(count));
    }

    /// Values on the stack, formatted: a new string in the text buffer.
    pub(super) fn format(&mut self, format: &Format, args: u32) -> Result<()> {
        if self.settings.lint && args as usize > format.args_needed() {
            self.lint("printf: more arguments are given than the format uses")?;
        }
        self.marks.push(self.text.len());
        let first = self.vals.len() - args as usize;
        let values = &self.vals[first..];
        let mut few = [Arg::Num(0.0); 8];
        let many: Vec<Arg<'_>>;
        let args = match few.get_mut(..values.len()) {
            Some(few) => {
                for (arg, value) in few.iter_mut().zip(values) {
                    *arg = argument(value);
                }
                &*few
            }
            None => {
                many = values.iter().map(argument).collect();
                &many
            }
        };
        let result = format.write(
            self.settings.charset,
            &self.settings.convfmt,
            args,
            &mut self.text,
        );
        self.vals.truncate(first);
        result.map_err(|error| Fatal::new(error.to_string()))
    }

    /// The same with the format as the first of the values.
    pub(super) fn format_dynamic(&mut self, args: u32) -> Result<()> {
        let first = self.vals.len() - args as usize;
        self.scratch.clear();
        self.vals[first].append_to(&self.settings.convfmt, &mut self.scratch);
        let format = match self.formats.get(&self.scratch) {
            Some(format) => format,
            None => {
                let format = Rc::new(Format::parse_in(&self.scratch, self.settings.numbers));
                self.formats.keep(&self.scratch, format.clone());
                format
            }
        };
        self.format(&format, args - 1)?;
        self.vals.pop();
        Ok(())
    }
}

fn argument(value: &Value) -> Arg<'_> {
    match value {
        Value::Num(n) => Arg::Num(*n),
        Value::Bool(b) => Arg::Num(f64::from(u8::from(*b))),
        Value::Exact(n) => Arg::Exact(n),
        Value::Regex(text) => Arg::Str(text),
        Value::Uninit | Value::Unassigned | Value::Array(_) | Value::Link(_) => Arg::Str(b""),
        Value::Small(_) | Value::Long(..) => {
            let bytes = value.as_bytes().unwrap_or_default();
            if value.maybe_num() && looks_numeric(bytes).is_some() {
                Arg::StrNum(bytes)
            } else {
                Arg::Str(bytes)
            }
        }
    }
}

/// `sub` and `gsub`: appends the new text to `out` and gives the number of replacements. An empty match directly after
/// another match is none (POSIX awk, "gsub"; all three peers agree).
fn substitute(
    regex: &Regex,
    charset: Charset,
    replacement: &[u8],
    target: &[u8],
    global: bool,
    out: &mut Vec<u8>,
) -> u32 {
    let plain = !replacement.iter().any(|b| matches!(b, b'&' | b'\\'));
    if global && plain && replacement.len() < 2 {
        // One byte becomes another one, or nothing.
        if let Some(byte) = regex.one_byte() {
            return replace_bytes(|b| b == byte, replacement, target, out);
        }
        if let Some(set) = regex.one_of() {
            return replace_bytes(|b| set[usize::from(b)], replacement, target, out);
        }
    }
    let mut count = 0;
    let mut at = 0;
    let mut last_end = usize::MAX;
    while let Some((start, end)) = regex.find_at(target, at) {
        if start == end && start == last_end {
            if start == target.len() {
                break;
            }
            let (_, width) = text::next_char(charset, &target[start..]);
            out.extend_from_slice(&target[start..start + width]);
            at = start + width;
            last_end = usize::MAX;
            continue;
        }
        out.extend_from_slice(&target[at..start]);
        if plain {
            out.extend_from_slice(replacement);
        } else {
            expand(replacement, &target[start..end], out);
        }
        count += 1;
        at = end;
        last_end = end;
        if !global {
            break;
        }
        if start == end {
            if start == target.len() {
                break;
            }
            let (_, width) = text::next_char(charset, &target[start..]);
            out.extend_from_slice(&target[start..start + width]);
            at = start + width;
            last_end = usize::MAX;
        }
        if at > target.len() {
            break;
        }
    }
    if count > 0 {
        out.extend_from_slice(&target[at.min(target.len())..]);
    }
    count
}

/// Replaces bytes by at most one other each; nothing is written if there are none.
#[inline(always)] // once for each kind of test
fn replace_bytes(
    is_member: impl Fn(u8) -> bool,
    replacement: &[u8],
    target: &[u8],
    out: &mut Vec<u8>,
) -> u32 {
    let Some(first) = target.iter().position(|b| is_member(*b)) else {
        return 0;
    };
    let start = out.len();
    out.extend_from_slice(target);
    let text = &mut out[start..];
    let mut count = 0;
    match replacement {
        [other, ..] => {
            // Chunks in which a byte is enough to count: many are done at once.
            for chunk in text[first..].chunks_mut(128) {
                let mut hits = 0u8;
                for byte in chunk {
                    let hit = is_member(*byte);
                    hits += u8::from(hit);
                    *byte = if hit { *other } else { *byte };
                }
                count += u32::from(hits);
            }
        }
        [] => {
            let mut to = first;
            for at in first..text.len() {
                let byte = text[at];
                text[to] = byte;
                to += usize::from(!is_member(byte));
            }
            count = (text.len() - to) as u32;
            out.truncate(start + to);
        }
    }
    count
}

/// RSTART and RLENGTH.
fn place_of_match(regex: &Regex, charset: Charset, subject: &[u8]) -> (f64, f64) {
    match regex.find_at(subject, 0) {
        Some((start, end)) => {
            let before = text::char_count(charset, &subject[..start]);
            let length = text::char_count(charset, &subject[start..end]);
            (before as f64 + 1.0, length as f64)
        }
        None => (0.0, -1.0),
    }
}

/// The replacement with `&` as the matched text: `\&` is a plain `&`, `\\&` a backslash and the matched text, any other
/// backslash itself.
fn expand(replacement: &[u8], matched: &[u8], out: &mut Vec<u8>) {
    let mut rest = replacement;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'&' => out.extend_from_slice(matched),
            b'\\' => {
                let run = 1 + rest.iter().take_while(|b| **b == b'\\').count();
                rest = &rest[run - 1..];
                if rest.first() == Some(&b'&') {
                    out.extend(std::iter::repeat_n(b'\\', run / 2));
                    if run % 2 == 1 {
                        out.push(b'&');
                        rest = &rest[1..];
                    }
                } else {
                    out.extend(std::iter::repeat_n(b'\\', run));
                }
            }
            other => out.push(other),
        }
    }
}
