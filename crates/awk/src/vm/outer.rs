//! The special arrays as a run finds them: ARGV, ENVIRON, PROCINFO, FUNCTAB.
//!
//! Invariant: an array that the program does not mention is not made.

use awk_syntax::names::{Builtin, Origin, Special};

use super::Vm;
use crate::code::Arr;
use crate::error::Step as Result;
use crate::settings::Notation;
use crate::value::{ArrayRef, Value};

/// The version of gawk whose language this is: programs ask PROCINFO for it.
const LANGUAGE_VERSION: &str = "5.3.2";

impl Vm<'_> {
    /// Fills the special arrays that the program mentions.
    ///
    /// # Errors
    /// Trouble of the scratch heap.
    pub fn fill_special_arrays(
        &mut self,
        argv0: &[u8],
        environ: &[(Vec<u8>, Vec<u8>)],
    ) -> Result<()> {
        if self.code.uses(Special::ENVIRON) {
            for (name, text) in environ {
                self.set_outer(Arr::ENVIRON, name, text)?;
            }
        }
        if self.code.uses(Special::ARGV) {
            self.set_outer(Arr::ARGV, b"0", argv0)?;
            self.operands_to_argv()?;
        }
        if self.code.uses(Special::FUNCTAB) {
            let array = self.array(Arr::FUNCTAB)?;
            for name in self.functions() {
                let slot = self.store.entry(array, name.as_bytes())?;
                let value = Value::text(name.as_bytes(), false);
                self.store.set(array, slot, &value)?;
            }
        }
        if self.code.uses(Special::PROCINFO) {
            self.fill_procinfo()?;
            // The program may set limits of time there, and change them at any time.
            self.streams.patience().ask();
        }
        Ok(())
    }

    /// The names of all functions that can be called.
    fn functions(&self) -> Vec<String> {
        let builtins = Builtin::all().filter(|b| self.code.has_builtin(*b));
        let mut names: Vec<String> = builtins
            // gawk 5.3 has `intdiv` only as a library.
            .filter(|b| b.origin() != Origin::Perdure && *b != Builtin::Intdiv)
            .map(|b| b.name().to_string())
            .collect();
        names.extend(self.code.functions.iter().map(|f| f.name.clone()));
        names.sort();
        names
    }

    fn fill_procinfo(&mut self) -> Result<()> {
        use rustix::process;
        let number = |n: u32| Value::Num(f64::from(n));
        let pid = |pid: Option<process::Pid>| {
            let raw = pid.map_or(0, |pid| pid.as_raw_nonzero().get());
            Value::Num(f64::from(raw))
        };
        let text = |text: &str| Value::text(text.as_bytes(), false);
        let mut entries = vec![
            ("version", text(LANGUAGE_VERSION)),
            ("platform", text("posix")),
            ("strftime", text(super::timing::DEFAULT_FORMAT)),
            ("FS", text(self.settings.cut_by)),
            ("errno", Value::Num(0.0)),
            // By these a program finds out whether it can have numbers of any size.
            ("gmp_version", text(crate::exact::LIBRARY)),
            ("mpfr_version", text(crate::exact::LIBRARY)),
            ("prec_min", Value::Num(1.0)),
            ("prec_max", Value::Num(crate::exact::PRECISION_MAX as f64)),
            ("pid", pid(Some(process::getpid()))),
            ("ppid", pid(process::getppid())),
            ("pgrpid", pid(Some(process::getpgrp()))),
            ("uid", number(process::getuid().as_raw())),
            ("euid", number(process::geteuid().as_raw())),
            ("gid", number(process::getgid().as_raw())),
            ("egid", number(process::getegid().as_raw())),
        ];
        if self.settings.input == Notation::Csv {
            entries.push(("CSV", Value::Num(1.0)));
        }
        let groups = process::getgroups().unwrap_or_default();
        let names: Vec<String> = (1..=groups.len()).map(|n| format!("group{n}")).collect();
        for (name, group) in names.iter().zip(&groups) {
            entries.push((name, number(group.as_raw())));
        }
        for (key, value) in &entries {
            self.set_procinfo(key.as_bytes(), value)?;
        }
        let argv = self.procinfo_array(b"argv")?;
        for (at, word) in std::mem::take(&mut self.command_line).iter().enumerate() {
            let slot = self.store.entry(argv, at.to_string().as_bytes())?;
            self.store.set(argv, slot, &Value::input(word))?;
        }
        let identifiers = self.procinfo_array(b"identifiers")?;
        let mut kinds: Vec<(String, &str)> = Vec::new();
        for name in self.functions() {
            let kind = match Builtin::from_name(name.as_bytes()).map(Builtin::origin) {
                None => "user",
                Some(Origin::Library(_)) => "extension",
                Some(_) => "builtin",
            };
            kinds.push((name, kind));
        }
        // What a variable is when the program begins: something only if the heap has it.
        for (at, name) in self.code.globals.iter().enumerate() {
            let kind = match &self.globals[at] {
                _ if self.store.global_is_array(at as u32) => "array",
                Value::Uninit => "untyped",
                _ => "scalar",
            };
            kinds.push((name.clone(), kind));
        }
        for special in Special::ALL {
            if self.code.dialect.special(special.name()).is_some() {
                let kind = if special.is_array() {
                    "array"
                } else {
                    "scalar"
                };
                kinds.push((special.name().to_string(), kind));
            }
        }
        kinds.sort();
        for (name, kind) in kinds {
            let slot = self.store.entry(identifiers, name.as_bytes())?;
            let kind = Value::text(kind.as_bytes(), false);
            self.store.set(identifiers, slot, &kind)?;
        }
        Ok(())
    }

    /// An array inside PROCINFO.
    fn procinfo_array(&mut self, key: &[u8]) -> Result<ArrayRef> {
        let array = self.array(Arr::PROCINFO)?;
        let slot = self.store.entry(array, key)?;
        self.store.inner(array, slot)
    }

    /// Sets an element of ENVIRON or ARGV.
    fn set_outer(&mut self, array: Arr, key: &[u8], text: &[u8]) -> Result<()> {
        let array = self.store.global_array(array, &[])?;
        let slot = self.store.entry(array, key)?;
        self.store.set(array, slot, &Value::input(text))
    }

    /// Copies the operands to ARGV, from 1 on.
    fn operands_to_argv(&mut self) -> Result<()> {
        let operands = std::mem::take(&mut self.input.operands);
        for (at, operand) in operands.iter().enumerate() {
            self.set_outer(Arr::ARGV, (at + 1).to_string().as_bytes(), operand)?;
        }
        self.input.operands = operands;
        Ok(())
    }
}
