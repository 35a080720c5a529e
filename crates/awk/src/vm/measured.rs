//! `length` and `substr`: of a string on the text buffer, and of one that is read where it stands.
//!
//! Invariant: a long element's measure is used only while no long text was written since it was taken, so that the place
//! where the element lies still holds the same text.

use std::ops::Range;

use heap::{Cell, LONG_TEXT_BYTES, Slot};

use super::{Key, Vm};
use crate::code::{Arr, Held};
use crate::error::Step as Result;
use crate::settings::Settings;
use crate::store::{NoValue, value_of};
use crate::text::{self, Charset, Measure};
use crate::value::{ArrayRef, Value};

/// What is known of the characters of the long element that was asked about last, and which it is.
#[derive(Default)]
pub(super) struct Element {
    /// Address and length of its text, and how many long texts its heap had written.
    place: (usize, usize, u64),
    measure: Measure,
}

impl Element {
    fn measure(&mut self, text: &[u8], written: u64) -> &Measure {
        let place = (text.as_ptr() as usize, text.len(), written);
        if self.place != place {
            self.measure.forget();
            self.place = place;
        }
        &self.measure
    }
}

impl Vm<'_> {
    pub(super) fn length_text(&mut self) {
        let mark = self.pop_mark();
        let n = text::char_count(self.settings.charset, &self.text[mark..]);
        self.text.truncate(mark);
        self.nums.push(n as f64);
    }

    /// `length` of `$0`.
    pub(super) fn length_record(&mut self) -> f64 {
        let charset = self.settings.charset;
        let chars = match self.record.measured(0, &self.settings) {
            Some((text, measure)) => measure.chars(charset, text),
            None => text::char_count(charset, self.record.whole(&self.settings)),
        };
        chars as f64
    }

    pub(super) fn length_held(&mut self, held: Held) -> Result<()> {
        let charset = self.settings.charset;
        let length = match held {
            Held::Field(n) => self
                .record
                .measured(n as usize, &self.settings)
                .map(|(text, measure)| measure.chars(charset, text) as f64),
            Held::Elem(array) => Some(self.length_element(array)?),
            Held::Global(n) => length_of(&self.globals[n as usize], &self.settings),
            Held::Local(n) => length_of(&self.vals[self.base + n as usize], &self.settings),
        };
        match length {
            Some(n) => self.nums.push(n),
            None => {
                self.push_held(held)?;
                self.length_text();
            }
        }
        Ok(())
    }

    /// Of a variable that may be an array.
    pub(super) fn length_variable(&mut self, held: Held) -> Result<()> {
        let array = match held {
            Held::Global(n) if self.store.global_is_array(n) => Some(self.array(Arr(n))?),
            Held::Local(n) => match self.vals[self.base + n as usize] {
                Value::Array(array) => Some(array),
                // A callee may have made an array of the variable that both were handed.
                Value::Link(link) => self.linked_array(link)?,
                _ => None,
            },
            _ => None,
        };
        let Some(array) = array else {
            return self.length_held(held);
        };
        let count = self.store.heap_of(array)?.table_len(array.table)?;
        self.nums.push(count as f64);
        Ok(())
    }

    /// Of a string, or of the array that the element is.
    fn length_element(&mut self, array: Arr) -> Result<f64> {
        let (array, slot) = self.entry(array)?;
        let heap = self.store.heap_of(array)?;
        let cell = heap.cell(slot)?;
        if let Cell::Str { bytes, .. } = cell {
            let charset = self.settings.charset;
            let chars = if bytes.len() < LONG_TEXT_BYTES {
                text::char_count(charset, bytes)
            } else {
                let measure = self.element.measure(bytes, heap.long_texts_written());
                measure.chars(charset, bytes)
            };
            return Ok(chars as f64);
        }
        match value_of(cell) {
            Ok(value) => Ok(self.settings.length_of(&value)),
            Err(NoValue::Array(table)) => Ok(heap.table_len(table)? as f64),
            Err(error) => Err(error.into()),
        }
    }

    /// `substr` of the top string of the text buffer.
    pub(super) fn substr(&mut self, bounded: bool) {
        let (start, length) = self.substr_numbers(bounded);
        self.substr_text(start, length);
    }

    /// The string of a variable or field that is one; elements are not looked at.
    #[inline]
    pub(super) fn held_text(&mut self, held: Held) -> Option<&[u8]> {
        match held {
            Held::Field(n) => {
                let (text, _) = self.record.measured(n as usize, &self.settings)?;
                Some(text)
            }
            Held::Global(n) => self.globals[n as usize].as_bytes(),
            Held::Local(n) => self.vals[self.base + n as usize].as_bytes(),
            Held::Elem(_) => None,
        }
    }

    /// `s = substr(s, ...)`.
    pub(super) fn cut_global(&mut self, n: u32, bounded: bool) -> Result<()> {
        let (start, length) = self.substr_numbers(bounded);
        let charset = self.settings.charset;
        if self.globals[n as usize].cut(charset, start, length) {
            return Ok(());
        }
        let held = Held::Global(n);
        let part = match part_of(&self.globals[n as usize], &self.settings, start, length) {
            Some(part) => part,
            None => {
                self.push_held(held)?;
                self.substr_text(start, length);
                self.pop_val()
            }
        };
        self.globals[n as usize] = part;
        Ok(())
    }

    /// `substr` of a variable or field as the key.
    pub(super) fn key_substr(&mut self, held: Held, bounded: bool) -> Result<()> {
        let (start, length) = self.substr_numbers(bounded);
        let charset = self.settings.charset;
        let value = match held {
            Held::Field(n) => {
                let measured = self.record.measured(n as usize, &self.settings);
                if let Some((text, measure)) = measured {
                    let range = measure.substr_range(charset, text, start, length);
                    self.key = Key::Text(self.text.len());
                    self.text.extend_from_slice(&text[range]);
                    return Ok(());
                }
                &Value::Unassigned
            }
            Held::Global(n) => &self.globals[n as usize],
            Held::Local(n) => &self.vals[self.base + n as usize],
            Held::Elem(_) => &Value::Unassigned,
        };
        if let Some((text, range)) = range_of(value, charset, start, length) {
            self.key = Key::Text(self.text.len());
            self.text.extend_from_slice(&text[range]);
            return Ok(());
        }
        self.push_held(held)?;
        self.substr_text(start, length);
        let part = self.pop_val();
        self.set_key(&part);
        Ok(())
    }

    /// `substr` of one character, at the place that a global variable has, as the key.
    pub(super) fn key_letter(&mut self, held: Held, at: u32) -> Result<()> {
        let start = match &self.globals[at as usize] {
            Value::Num(n) => *n,
            Value::Uninit => self.touch_global(at)?.to_num(),
            other => other.to_num(),
        };
        let charset = self.settings.charset;
        let value = match held {
            Held::Global(n) => &self.globals[n as usize],
            Held::Local(n) => &self.vals[self.base + n as usize],
            Held::Field(_) | Held::Elem(_) => &Value::Unassigned,
        };
        if let Value::Long(long, _) = value
            && long.measure().is_plain(charset, long)
        {
            let letter = long.get(text::substr_skipped(start)).copied();
            self.key = Key::Text(self.text.len());
            self.text.extend(letter);
            return Ok(());
        }
        self.nums.push(start);
        self.nums.push(1.0);
        self.key_substr(held, true)
    }

    pub(super) fn substr_held(&mut self, held: Held, bounded: bool) -> Result<()> {
        let (start, length) = self.substr_numbers(bounded);
        let charset = self.settings.charset;
        let part = match held {
            Held::Field(n) => {
                self.record
                    .measured(n as usize, &self.settings)
                    .map(|(text, measure)| {
                        let range = measure.substr_range(charset, text, start, length);
                        Value::text(&text[range], false)
                    })
            }
            Held::Elem(array) => {
                let (array, slot) = self.element_read(array)?;
                match self.part_of_element(array, slot, start, length)? {
                    None => {
                        self.marks.push(self.text.len());
                        self.append_cell(array, slot, false)?;
                        self.substr_text(start, length);
                        return Ok(());
                    }
                    part => part,
                }
            }
            Held::Global(n) => part_of(&self.globals[n as usize], &self.settings, start, length),
            Held::Local(n) => part_of(
                &self.vals[self.base + n as usize],
                &self.settings,
                start,
                length,
            ),
        };
        match part {
            Some(part) => self.vals.push(part),
            None => {
                self.push_held(held)?;
                self.substr_text(start, length);
            }
        }
        Ok(())
    }

    /// `None` if the element is no string.
    fn part_of_element(
        &mut self,
        array: ArrayRef,
        slot: Slot,
        start: f64,
        length: Option<f64>,
    ) -> Result<Option<Value>> {
        let charset = self.settings.charset;
        let heap = self.store.heap_of(array)?;
        let Cell::Str { bytes, .. } = heap.cell(slot)? else {
            return Ok(None);
        };
        let range = if bytes.len() < LONG_TEXT_BYTES {
            text::substr_range(charset, bytes, start, length)
        } else {
            let measure = self.element.measure(bytes, heap.long_texts_written());
            measure.substr_range(charset, bytes, start, length)
        };
        Ok(Some(Value::text(&bytes[range], false)))
    }

    fn substr_numbers(&mut self, bounded: bool) -> (f64, Option<f64>) {
        let length = if bounded { Some(self.pop_num()) } else { None };
        (self.pop_num(), length)
    }

    fn substr_text(&mut self, start: f64, length: Option<f64>) {
        let mark = self.pop_mark();
        let whole = &self.text[mark..];
        let range = text::substr_range(self.settings.charset, whole, start, length);
        let part = Value::text(&whole[range], false);
        self.text.truncate(mark);
        self.vals.push(part);
    }

    /// Puts the text of a variable or field that holds no string on the text buffer.
    pub(super) fn push_held(&mut self, held: Held) -> Result<()> {
        let value = match held {
            Held::Field(n) => self.field(n as usize),
            Held::Global(n) => match &self.globals[n as usize] {
                Value::Uninit => self.touch_global(n)?,
                value => value.clone(),
            },
            Held::Local(n) => match &self.vals[self.base + n as usize] {
                Value::Array(_) => return Err(self.array_as_scalar(n)),
                Value::Uninit | Value::Link(_) => self.touch_local(n)?,
                value => value.clone(),
            },
            // Elements are read in their heap, whatever they hold.
            Held::Elem(_) => Value::Unassigned,
        };
        self.marks.push(self.text.len());
        value.append_to(&self.settings.convfmt, &mut self.text);
        Ok(())
    }
}

/// `length` of a string; `None` if the value is none.
fn length_of(value: &Value, settings: &Settings) -> Option<f64> {
    value.as_bytes().map(|_| settings.length_of(value))
}

/// `substr` of a string; `None` if the value is none.
fn part_of(value: &Value, settings: &Settings, start: f64, length: Option<f64>) -> Option<Value> {
    let (text, range) = range_of(value, settings.charset, start, length)?;
    Some(Value::text(&text[range], false))
}

/// A string, and the bytes of its `substr`.
fn range_of(
    value: &Value,
    charset: Charset,
    start: f64,
    length: Option<f64>,
) -> Option<(&[u8], Range<usize>)> {
    let text = value.as_bytes()?;
    let range = match value {
        Value::Long(long, _) => long.measure().substr_range(charset, text, start, length),
        _ => text::substr_range(charset, text, start, length),
    };
    Some((text, range))
}
