//! What is only added up: records of which the rules do nothing but `sum += $n`, as many at a time as lie ready.
//!
//! Invariant: that of `count.rs`: afterwards all is as if the machine had added them one by one, and what is not plain is left
//! to it.

use super::count::field_of_line;
use crate::error::Step as Result;
use crate::num;
use crate::value::Value;
use crate::vm::Vm;

impl Vm<'_> {
    /// Adds up records that lie ready, to global `n`. With `checked`, a number that is for the machine to look at ends it.
    #[inline]
    pub(in crate::vm) fn sum_records(&mut self, n: u32, field: u32, checked: bool) -> Result<()> {
        if let Some(byte) = self.byte_of_lines() {
            while self.sum_lines(byte, n, field, checked)? {}
        }
        Ok(())
    }

    /// Adds some; false if there may be none that can be added so.
    fn sum_lines(&mut self, byte: u8, n: u32, field: u32, checked: bool) -> Result<bool> {
        let (Value::Num(held), Some(reader)) =
            (&mut self.globals[n as usize], &mut self.record.reader)
        else {
            return Ok(false);
        };
        let splitter = &self.settings.splitter;
        let (text, mut start, ends) = reader.ready_lines(byte);
        let mut sum = *held;
        let mut count = 0;
        for &end in ends {
            let Some((at, len)) = field_of_line(splitter, text, start, end, field) else {
                break;
            };
            let number = num::of_field(text, at, len);
            if checked && !self.parallel.as_mut().is_some_and(|p| p.admits(number)) {
                break;
            }
            sum += number;
            count += 1;
            start = end + 1;
        }
        let is_all = count == ends.len();
        if count == 0 {
            return Ok(false);
        }
        *held = sum;
        self.take_lines(count)?;
        Ok(is_all)
    }
}
