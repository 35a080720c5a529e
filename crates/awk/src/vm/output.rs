//! `print` and `printf`: finished lines to their destinations; closing those, and other commands.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use awk_syntax::Dialect;
use awk_syntax::names::Special;

use super::Vm;
use crate::code::{Arr, To};
use crate::error::{Fatal, Step as Result};
use crate::settings::Notation;
use crate::streams::{Failure, Manner, OutKind, Side, StreamError, status_value};
use crate::value::Value;

impl Vm<'_> {
    /// Writes the top string of the text buffer; with a redirection its name lies above it.
    #[inline]
    pub(super) fn write(&mut self, to: To) -> Result<()> {
        if to == To::Stdout {
            let mark = self.pop_mark();
            let written = self.streams.stdout().write(&self.text[mark..]);
            self.text.truncate(mark);
            return match written {
                Ok(()) => Ok(()),
                Err(error) => self.output_failed(b"/dev/stdout", error),
            };
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
        let mut manner = Manner::default();
        if matches!(kind, OutKind::Pipe | OutKind::Coprocess)
            && !self.streams.is_running(&self.text[name..])
        {
            self.export_environment()?;
            let command = self.text.split_off(name);
            manner = self.manner(&command)?;
            self.text.extend_from_slice(&command);
        }
        let written = match self.streams.output(kind, &self.text[name..], manner) {
            Ok(out) => out.write(&self.text[line..name]),
            Err(error) => Err(error),
        };
        if let Err(error) = written {
            let name = self.text.split_off(name);
            self.output_failed(&name, error)?;
        }
        self.text.truncate(line);
        if self.streams.has_failures() {
            self.note_failures()?;
        }
        Ok(())
    }

    /// Writes whole lines to standard output.
    pub(super) fn print_bytes(&mut self, lines: &[u8]) -> Result<()> {
        match self.streams.stdout().write(lines) {
            Ok(()) => Ok(()),
            Err(error) => self.output_failed(b"/dev/stdout", error),
        }
    }

    /// How a command is to be started, as far as the program says.
    pub(super) fn manner(&mut self, command: &[u8]) -> Result<Manner> {
        if !self.code.uses(Special::PROCINFO) {
            return Ok(Manner::default());
        }
        let terminal = self.procinfo_about(command, b"pty")?;
        Ok(Manner {
            buffered: self.procinfo(b"BUFFERPIPE")?.is_some()
                || self.procinfo_about(command, b"BUFFERPIPE")?.is_some(),
            terminal: terminal.is_some_and(|value| value.truth()),
        })
    }

    /// `PROCINFO[name, what]`
    pub(super) fn procinfo_about(&mut self, name: &[u8], what: &[u8]) -> Result<Option<Value>> {
        if !self.code.uses(Special::PROCINFO) {
            return Ok(None);
        }
        let key = [name, &self.settings.subsep, what].concat();
        self.procinfo(&key)
    }

    /// An output failed: the end of the run, unless PROCINFO has `"NONFATAL"`, for all or for this one; then ERRNO says why.
    #[cold]
    pub(super) fn output_failed(&mut self, name: &[u8], error: StreamError) -> Result<()> {
        // Nobody reads standard output any more: that ends every program, quietly.
        if matches!(error, StreamError::StdoutClosed) || !self.may_fail(name)? {
            return Err(error.into());
        }
        self.set_errno(&error)
    }

    fn may_fail(&mut self, name: &[u8]) -> Result<bool> {
        const NONFATAL: &[u8] = b"NONFATAL";
        // Standard output has no name of its own in PROCINFO but `-`.
        let is_stdout = name == b"/dev/stdout";
        Ok(self.procinfo(NONFATAL)?.is_some()
            || self.procinfo_about(name, NONFATAL)?.is_some()
            || is_stdout && self.procinfo_about(b"-", NONFATAL)?.is_some())
    }

    /// Tells of outputs that failed when they were flushed, see [`Vm::output_failed`]. True if there were some.
    pub(super) fn note_failures(&mut self) -> Result<bool> {
        if !self.streams.has_failures() {
            return Ok(false);
        }
        for Failure { name, error } in self.streams.take_failures() {
            self.output_failed(&name, error)?;
        }
        Ok(true)
    }

    /// Closes all streams at the end of a run.
    ///
    /// # Errors
    /// Output is lost that the program does not say may be.
    pub fn close_streams(&mut self) -> Result<()> {
        let mut result = Ok(());
        for Failure { name, error } in self.streams.close_all() {
            // A run whose last output is lost is no success, whatever the program says of standard output.
            let told = if name == b"/dev/stdout" {
                Err(error.into())
            } else {
                self.output_failed(&name, error)
            };
            result = result.and(told);
        }
        result
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
        self.closed(status)
    }

    /// The same for one end, named above it, of a coprocess.
    pub(super) fn close_side(&mut self) -> Result<()> {
        let side = self.pop_mark();
        let name = self.pop_mark();
        let end = match &self.text[side..] {
            word if word.eq_ignore_ascii_case(b"to") => Side::To,
            word if word.eq_ignore_ascii_case(b"from") => Side::From,
            other => {
                return Err(Fatal::new(format!(
                    "close: second argument must be \"to\" or \"from\", here it is \"{}\"",
                    String::from_utf8_lossy(other)
                )));
            }
        };
        let status = self.streams.close_side(&self.text[name..side], end);
        self.text.truncate(name);
        self.closed(status)
    }

    /// What `close` gives; ERRNO if it found nothing to close.
    fn closed(&mut self, status: f64) -> Result<()> {
        self.note_failures()?;
        if status == -1.0 {
            let reason = Value::text(b"close of redirection that was never opened", false);
            self.settings.set(Special::ERRNO, reason)?;
            if self.settings.lint {
                self.lint("close: there is no open file, pipe or coprocess of that name")?;
            }
        } else if self.code.dialect == Dialect::Posix {
            // gawk's `--posix`: 0 however the command ended.
            self.nums.push(0.0);
            return Ok(());
        }
        self.nums.push(status);
        Ok(())
    }

    /// `fflush`, of the output named on top of the text buffer or of all.
    pub(super) fn fflush(&mut self, named: bool) -> Result<()> {
        let mut name = Vec::new();
        if named {
            let mark = self.pop_mark();
            name = self.text.split_off(mark);
        }
        let mut is_open = true;
        if name.is_empty() {
            self.streams.flush_outputs();
        } else {
            is_open = self.streams.flush(&name) > 0;
        }
        let failed = self.note_failures()?;
        if !is_open && self.settings.lint {
            let name = String::from_utf8_lossy(&name).into_owned();
            self.lint(&format!(
                "fflush: {name:?} is no output that is open: nothing is flushed"
            ))?;
        }
        self.nums.push(if is_open && !failed { 0.0 } else { -1.0 });
        Ok(())
    }

    /// `system` of the command on top of the text buffer.
    pub(super) fn system(&mut self) -> Result<()> {
        self.refuse_in_sandbox("`system`")?;
        self.export_environment()?;
        let mark = self.pop_mark();
        let command = self.text.split_off(mark);
        // Before the command runs: it may build on what is lost.
        self.streams.flush_outputs();
        self.note_failures()?;
        let status = self.streams.system(&command);
        let raw = |status: ExitStatus| f64::from(status.into_raw());
        self.nums.push(match (self.code.dialect, status) {
            (_, None) => -1.0,
            // As the system calls it, and as the AWK of 1988 divides that (gawk manual, "Input/Output Functions").
            (Dialect::Posix, Some(status)) => raw(status),
            (Dialect::Traditional, Some(status)) => raw(status) / 256.0,
            (Dialect::Gawk, Some(status)) => status_value(status),
        });
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
