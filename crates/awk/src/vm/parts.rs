//! Arrays of parts: what `split` and `match` put into an array that the program does nothing else with but to read
//! elements (`compile/parts.rs` tells which these are). The string is kept as it is, with the places of its parts: no
//! element is made, and what is never read costs nothing.
//!
//! Invariant: an element reads as it would if it had been made in the heap when the array was filled.

use super::{Key, Vm};
use crate::code::{Re, Sep};
use crate::error::Step as Result;
use crate::num::parse_prefix;
use crate::regex::Places;
use crate::text::{self, Charset};
use crate::value::Value;

/// See the top of the file.
#[derive(Default)]
pub(super) struct Parts {
    /// The string.
    text: Vec<u8>,
    kind: Kind,
    /// Where in it the parts are that `split` made.
    spans: Vec<(u32, u32)>,
    /// Where in it the groups are that `match` found.
    groups: Places,
    /// SUBSEP as it was when they were found.
    subsep: Vec<u8>,
}

/// What an array has in it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Kind {
    #[default]
    Nothing,
    /// What `split` made: from 1.
    Spans,
    /// What `match` found: from 0, and where the groups are.
    Groups,
}

/// An element.
enum Part<'a> {
    Text(&'a [u8]),
    Number(usize),
    None,
}

impl Parts {
    #[inline]
    fn place(&self, n: i64) -> Option<(usize, usize)> {
        match self.kind {
            Kind::Nothing => None,
            Kind::Spans => {
                // A negative number is beyond all.
                let &(start, end) = self.spans.get(n.wrapping_sub(1) as usize)?;
                Some((start as usize, end as usize))
            }
            Kind::Groups => self.groups.get(n as usize).copied().flatten(),
        }
    }

    fn set_text(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(text);
    }

    #[inline]
    fn get(&self, n: i64) -> Part<'_> {
        match self.place(n) {
            Some((start, end)) => Part::Text(&self.text[start..end]),
            None => Part::None,
        }
    }

    /// The element of a key that is not known to be a number.
    fn find(&self, charset: Charset, key: &[u8]) -> Part<'_> {
        if let Some(n) = whole_number(key) {
            return self.get(n);
        }
        if self.kind != Kind::Groups {
            return Part::None;
        }
        let is_start = key.ends_with(b"start");
        let place = (key.strip_suffix(b"start"))
            .or_else(|| key.strip_suffix(b"length"))
            .and_then(|key| key.strip_suffix(self.subsep.as_slice()))
            .and_then(whole_number)
            .and_then(|n| self.place(n));
        let Some((start, end)) = place else {
            return Part::None;
        };
        let (before, part) = self.text[..end].split_at(start);
        Part::Number(match is_start {
            true => text::char_count(charset, before) + 1,
            false => text::char_count(charset, part),
        })
    }
}

/// The number whose text a key is, in the one form that a number's text has.
fn whole_number(key: &[u8]) -> Option<i64> {
    let is_one = match key {
        [b'0'] => true,
        [b'1'..=b'9', rest @ ..] => rest.len() < 15 && rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    is_one.then(|| {
        key.iter()
            .fold(0, |n, digit| n * 10 + i64::from(digit - b'0'))
    })
}

impl Part<'_> {
    fn to_num(&self) -> f64 {
        match self {
            Part::Text(text) => parse_prefix(text),
            Part::Number(n) => *n as f64,
            Part::None => 0.0,
        }
    }

    fn to_value(&self) -> Value {
        match self {
            Part::Text(text) => Value::text(text, !text.is_empty()),
            Part::Number(n) => Value::Num(*n as f64),
            // What it is assigned to was assigned something.
            Part::None => Value::Unassigned,
        }
    }

    fn append_to(&self, out: &mut Vec<u8>) {
        match self {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Number(n) => out.extend_from_slice(itoa::Buffer::new().format(*n).as_bytes()),
            Part::None => {}
        }
    }
}

impl Vm<'_> {
    /// The element at the key, used up by whoever asks.
    #[inline]
    fn part(&self, parts: u32) -> Part<'_> {
        let parts = &self.parts[parts as usize];
        match self.key {
            Key::Int(n) => parts.get(n),
            Key::Text(at) => parts.find(self.settings.charset, &self.text[at..]),
        }
    }

    #[inline]
    fn drop_key(&mut self) {
        if let Key::Text(at) = self.key {
            self.text.truncate(at);
        }
    }

    /// The element at the key as a number.
    #[inline]
    pub(super) fn part_num(&mut self, parts: u32) -> f64 {
        let n = self.part(parts).to_num();
        self.drop_key();
        n
    }

    /// The element at the key as a value.
    #[inline]
    pub(super) fn part_value(&mut self, parts: u32) -> Value {
        let value = self.part(parts).to_value();
        self.drop_key();
        value
    }

    /// Appends the element at the key to the text.
    #[inline]
    pub(super) fn append_part(&mut self, parts: u32) {
        match self.key {
            Key::Int(n) => self.parts[parts as usize].get(n).append_to(&mut self.text),
            Key::Text(at) => {
                let key = self.text.split_off(at);
                let charset = self.settings.charset;
                let part = self.parts[parts as usize].find(charset, &key);
                part.append_to(&mut self.text);
            }
        }
    }

    /// The element at a number, as a number.
    #[inline]
    pub(super) fn part_num_at(&self, parts: u32, at: u32) -> f64 {
        self.parts[parts as usize].get(i64::from(at)).to_num()
    }

    /// The same as a value.
    #[inline]
    pub(super) fn part_value_at(&self, parts: u32, at: u32) -> Value {
        self.parts[parts as usize].get(i64::from(at)).to_value()
    }

    /// The same, appended to the text.
    #[inline]
    pub(super) fn append_part_at(&mut self, parts: u32, at: u32) {
        let part = self.parts[parts as usize].get(i64::from(at));
        part.append_to(&mut self.text);
    }

    /// The same as the key.
    #[inline]
    pub(super) fn key_part_at(&mut self, parts: u32, at: u32) {
        self.key = Key::Text(self.text.len());
        self.append_part_at(parts, at);
    }

    pub(super) fn delete_parts(&mut self, parts: u32) {
        self.parts[parts as usize].kind = Kind::Nothing;
    }

    /// `split` of the top string of the text buffer.
    pub(super) fn split_parts(&mut self, parts: u32, sep: Sep) -> Result<()> {
        let mark = self.cut_text(sep)?;
        let parts = &mut self.parts[parts as usize];
        parts.kind = Kind::Spans;
        parts.set_text(&self.text[mark..]);
        std::mem::swap(&mut parts.spans, &mut self.spans);
        let count = parts.spans.len();
        self.text.truncate(mark);
        self.nums.push(count as f64);
        Ok(())
    }

    /// `match` of the top string of the text buffer.
    pub(super) fn match_parts(&mut self, parts: u32, re: Re) -> Result<()> {
        let regex = self.regex(re)?;
        let mark = self.pop_mark();
        let mut groups = std::mem::take(&mut self.groups);
        let subject = &self.text[mark..];
        let is_match = self.cased(&regex).captures_at(subject, 0, &mut groups);
        let parts = &mut self.parts[parts as usize];
        if is_match {
            let charset = self.settings.charset;
            let (start, end) = groups.first().copied().flatten().unwrap_or_default();
            let (before, whole) = subject[..end].split_at(start);
            self.settings.rstart = text::char_count(charset, before) as f64 + 1.0;
            self.settings.rlength = text::char_count(charset, whole) as f64;
            parts.kind = Kind::Groups;
            parts.set_text(subject);
            std::mem::swap(&mut parts.groups, &mut groups);
            parts.subsep.clone_from(&self.settings.subsep);
        } else {
            parts.kind = Kind::Nothing;
            (self.settings.rstart, self.settings.rlength) = (0.0, -1.0);
        }
        self.groups = groups;
        self.text.truncate(mark);
        self.nums.push(self.settings.rstart);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbers_in_one_form_only() {
        for (key, n) in [("0", 0), ("7", 7), ("120", 120)] {
            assert_eq!(whole_number(key.as_bytes()), Some(n));
        }
        for key in [
            "",
            "00",
            "07",
            "-1",
            "+1",
            "1.0",
            "1e3",
            " 1",
            "1 ",
            "9999999999999999",
        ] {
            assert_eq!(whole_number(key.as_bytes()), None, "{key}");
        }
    }
}
