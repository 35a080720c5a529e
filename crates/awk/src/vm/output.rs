//! `print` and `printf`: finished lines to their destinations.

use super::Vm;
use crate::code::To;
use crate::error::{Fatal, Step as Result};
use crate::streams::OutKind;

impl Vm<'_> {
    /// Writes the top string of the text buffer; with a redirection its name lies above it.
    #[inline]
    pub(super) fn write(&mut self, to: To) -> Result<()> {
        if to == To::Stdout {
            let mark = self.pop_mark();
            self.streams.stdout().write(&self.text[mark..])?;
            self.text.truncate(mark);
            return Ok(());
        }
        let name = self.pop_mark();
        let line = self.pop_mark();
        let (kind, sign) = match to {
            To::File | To::Stdout => (OutKind::File, ">"),
            To::Append => (OutKind::Append, ">>"),
            To::Pipe => (OutKind::Pipe, "|"),
        };
        if name == self.text.len() {
            return Err(Fatal::new(format!(
                "expression for `{sign}` redirection is an empty string"
            )));
        }
        let out = self.streams.output(kind, &self.text[name..])?;
        out.write(&self.text[line..name])?;
        self.text.truncate(line);
        Ok(())
    }

    /// The values on the stack as one line, with OFS and ORS.
    pub(super) fn print_values(&mut self, args: u32) {
        self.marks.push(self.text.len());
        let first = self.vals.len() - args as usize;
        for (at, v) in self.vals[first..].iter().enumerate() {
            if at > 0 {
                self.text.extend_from_slice(&self.settings.ofs);
            }
            v.append_to(&self.settings.ofmt, &mut self.text);
        }
        self.text.extend_from_slice(&self.settings.ors);
        self.vals.truncate(first);
    }
}
