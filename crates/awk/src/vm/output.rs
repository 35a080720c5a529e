//! `print` and `printf`: finished lines to their destinations; closing those, and other commands.

use awk_syntax::names::Special;

use super::Vm;
use crate::code::{Arr, To};
use crate::error::{Fatal, Step as Result};
use crate::settings::Notation;
use crate::streams::{OutKind, Side};
use crate::value::Value;

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
        self.refuse_in_sandbox("redirection of output")?;
        let name = self.pop_mark();
        let line = self.pop_mark();
        let (kind, sign) = match to {
            To::File | To::Stdout => (OutKind::File, ">"),
            To::Append => (OutKind::Append, ">>"),
            To::Pipe => (OutKind::Pipe, "|"),
            To::Coprocess => (OutKind::Coprocess, "|&"),
        };
        if name == self.text.len() {
            return Err(Fatal::new(format!(
                "expression for `{sign}` redirection is an empty string"
            )));
        }
        if !self.code.libraries.is_empty() && self.write_by_library(kind, line, name) {
            return Ok(());
        }
        if matches!(kind, OutKind::Pipe | OutKind::Coprocess)
            && !self.streams.is_running(&self.text[name..])
        {
            self.export_environment()?;
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
            if self.settings.output != Notation::Plain {
                self.scratch.clear();
                v.append_to(&self.settings.ofmt, &mut self.scratch);
                let notation = self.settings.output;
                notation.push(&self.scratch, at == 0, &mut self.text);
                continue;
            }
            if at > 0 {
                self.text.extend_from_slice(&self.settings.ofs);
            }
            v.append_to(&self.settings.ofmt, &mut self.text);
        }
        self.text.extend_from_slice(&self.settings.ors);
        self.vals.truncate(first);
    }

    /// Libraries that see output on its way: true if it has arrived.
    fn write_by_library(&mut self, kind: OutKind, line: usize, name: usize) -> bool {
        let target = self.text[name..].to_vec();
        if kind == OutKind::Coprocess && self.is_mirror(&target) {
            let text = self.text[line..name].to_vec();
            self.write_mirror(&text);
            self.text.truncate(line);
            return true;
        }
        let text = self.text[line..name].to_vec();
        if kind == OutKind::File
            && let Some(reversed) = self.reverse_output(&target, &text)
        {
            self.text.truncate(line);
            self.text.extend_from_slice(&reversed);
            self.text.extend_from_slice(&target);
        }
        false
    }

    /// `close` of the stream named on top of the text buffer; its status goes on the number stack.
    pub(super) fn close(&mut self) -> Result<()> {
        let mark = self.pop_mark();
        let mut status = self.streams.close(&self.text[mark..]);
        if !self.code.libraries.is_empty() {
            let name = self.text[mark..].to_vec();
            self.reversed.remove(&name);
            if self.is_mirror(&name) {
                self.mirror.clear();
                status = 0.0;
            }
        }
        self.text.truncate(mark);
        self.nums.push(status);
        self.note_close(status)
    }

    /// ERRNO after a `close` that found nothing to close.
    fn note_close(&mut self, status: f64) -> Result<()> {
        if status != -1.0 {
            return Ok(());
        }
        let reason = Value::text(b"close of redirection that was never opened", false);
        self.settings.set(Special::ERRNO, reason)?;
        if self.settings.lint {
            self.lint("close: there is no open file, pipe or coprocess of that name")?;
        }
        Ok(())
    }

    /// The same for one end, named above it, of a coprocess.
    pub(super) fn close_side(&mut self) -> Result<()> {
        let side = self.pop_mark();
        let name = self.pop_mark();
        let end = match &self.text[side..].to_ascii_lowercase()[..] {
            [b't', ..] => Side::To,
            [b'f', ..] => Side::From,
            other => {
                return Err(Fatal::new(format!(
                    "close: second argument must be \"to\" or \"from\", here it is \"{}\"",
                    String::from_utf8_lossy(other)
                )));
            }
        };
        let status = self.streams.close_side(&self.text[name..side], end);
        self.text.truncate(name);
        self.nums.push(status);
        self.note_close(status)
    }

    /// `fflush`, of the output named on top of the text buffer or of all.
    pub(super) fn fflush(&mut self, named: bool) {
        let status = if named {
            let mark = self.pop_mark();
            let status = self.streams.flush(Some(&self.text[mark..]));
            self.text.truncate(mark);
            status
        } else {
            self.streams.flush(None)
        };
        self.nums.push(status as f64);
    }

    /// `system` of the command on top of the text buffer.
    pub(super) fn system(&mut self) -> Result<()> {
        self.refuse_in_sandbox("`system`")?;
        self.export_environment()?;
        let mark = self.pop_mark();
        let command = self.text.split_off(mark);
        let status = self.streams.system(&command);
        self.nums.push(status);
        Ok(())
    }

    /// `--sandbox`: a program whose author nobody knows may read its input and print.
    #[inline]
    pub(super) fn refuse_in_sandbox(&self, what: &str) -> Result<()> {
        if self.sandbox {
            return Err(Fatal::new(format!("{what} is not allowed with --sandbox")));
        }
        Ok(())
    }

    /// Hands ENVIRON, which the program may have changed, to the commands that are started from now on.
    pub(super) fn export_environment(&mut self) -> Result<()> {
        if !self.code.uses(Special::ENVIRON) {
            return Ok(());
        }
        let array = self.array(Arr::ENVIRON)?;
        let mut variables = Vec::new();
        for (key, value) in self.pairs(array)? {
            let text = self.settings.text_of(&value);
            // What no environment can hold stays out of it.
            let valid = !key.is_empty() && !key.contains(&b'=');
            if valid && !key.contains(&0) && !text.contains(&0) {
                variables.push((key, text));
            }
        }
        self.streams.set_environment(variables);
        Ok(())
    }
}
