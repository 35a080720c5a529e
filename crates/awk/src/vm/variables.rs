//! Fields, special variables and locals: reading and assigning them.

use awk_syntax::names::Special;

use super::{Vm, field_number};
use crate::code::Test;
use crate::error::{Fatal, Step as Result};
use crate::num::{looks_numeric, parse_prefix};
use crate::record::Field;
use crate::value::Value;

impl Vm<'_> {
    /// The field number on the number stack.
    #[inline]
    pub(super) fn pop_field(&mut self) -> Result<usize> {
        let n = self.pop_num();
        field_number(n)
    }

    #[inline]
    pub(super) fn field_num(&mut self, n: usize) -> f64 {
        match self.record.get(n, &self.settings) {
            Field::Text(s) | Field::Str(s) => parse_prefix(s),
            Field::Value(v) => v.to_num(),
            Field::Missing => 0.0,
        }
    }

    #[inline]
    pub(crate) fn field(&mut self, n: usize) -> Value {
        match self.record.get(n, &self.settings) {
            Field::Text(s) => Value::input(s),
            Field::Str(s) => Value::text(s, false),
            Field::Value(v) => v.clone(),
            Field::Missing => {
                if self.settings.lint {
                    self.warn(&format!("reference to uninitialized field `${n}`"));
                }
                Value::missing()
            }
        }
    }

    /// A global becomes field `n`.
    #[inline]
    pub(super) fn field_to_global(&mut self, n: usize, global: u32) {
        match self.record.get(n, &self.settings) {
            Field::Text(s) => self.globals[global as usize].set_input(s),
            _ => self.globals[global as usize] = self.field(n),
        }
    }

    #[inline]
    pub(super) fn append_field(&mut self, n: usize, out: bool) {
        match self.record.get(n, &self.settings) {
            Field::Text(s) | Field::Str(s) => self.text.extend_from_slice(s),
            Field::Value(v) => {
                v.append_to(self.settings.number_format(out), &mut self.text);
            }
            Field::Missing if self.settings.lint => {
                self.warn(&format!("reference to uninitialized field `${n}`"));
            }
            Field::Missing => {}
        }
    }

    /// `$field op n`, without making a value of the field.
    pub(super) fn compare_field(&mut self, test: Test, field: u16, n: f64) -> bool {
        match self.record.get(usize::from(field), &self.settings) {
            Field::Text(s) => {
                if let Some(m) = looks_numeric(s) {
                    return test.passes_nums(m, n);
                }
                self.scratch.clear();
                crate::format::number_to_text(n, &self.settings.convfmt, &mut self.scratch);
                test.passes(Some(s.cmp(self.scratch.as_slice())))
            }
            Field::Str(s) => {
                self.scratch.clear();
                crate::format::number_to_text(n, &self.settings.convfmt, &mut self.scratch);
                test.passes(Some(s.cmp(self.scratch.as_slice())))
            }
            Field::Value(v) => {
                let v = v.clone();
                test.passes(self.compare_num(&v, n))
            }
            // As an empty field, which is no number: gawk and mawk agree, against POSIX's "uninitialized value".
            Field::Missing => test.passes(self.compare_num(&Value::missing(), n)),
        }
    }

    pub(crate) fn set_field(&mut self, n: usize, value: Value) -> Result<()> {
        if n > 0 {
            return self.record.set_field(n, value);
        }
        self.scratch.clear();
        value.append_to(&self.settings.convfmt, &mut self.scratch);
        self.record.set_whole(value, &self.scratch, &self.settings)
    }

    #[inline]
    pub(super) fn special_num(&mut self, s: Special) -> f64 {
        match s {
            Special::NR => self.settings.nr,
            Special::NF => self.record.count_number(),
            Special::FNR => self.settings.fnr,
            Special::RSTART => self.settings.rstart,
            Special::RLENGTH => self.settings.rlength,
            _ => self.settings.get(s).to_num(),
        }
    }

    pub(super) fn special(&mut self, s: Special) -> Value {
        match s {
            Special::NF => self.record.count_value(),
            _ => self.settings.get(s),
        }
    }

    /// Assigns a special variable.
    ///
    /// # Errors
    /// A malformed FS or RS, a negative NF.
    pub fn set_special(&mut self, s: Special, value: Value) -> Result<()> {
        match s {
            Special::NF => return self.record.set_count(value),
            // The current record is cut by the FS that was in force when it was read.
            Special::FS | Special::FPAT | Special::FIELDWIDTHS | Special::IGNORECASE => {
                self.record.split_all();
            }
            // Fields assigned so far are joined by the OFS and CONVFMT of then.
            Special::OFS | Special::CONVFMT => {
                self.record.whole(&self.settings);
            }
            _ => {}
        }
        if matches!(s, Special::PREC | Special::ROUNDMODE) && self.code.exact {
            self.set_rules(s, &value);
        }
        self.settings.set(s, value)?;
        if matches!(s, Special::FS | Special::FPAT | Special::FIELDWIDTHS) {
            let name = Value::text(self.settings.cut_by.as_bytes(), false);
            self.set_procinfo(b"FS", &name)?;
        }
        Ok(())
    }

    /// Compares with a number, by CONVFMT if it has to be text.
    pub(super) fn compare_num(&self, v: &Value, n: f64) -> Option<std::cmp::Ordering> {
        crate::value::compare(v, &Value::Num(n), &self.settings.convfmt, None)
    }

    pub(super) fn local_num(&self, n: u32) -> Result<f64> {
        match &self.vals[self.base + n as usize] {
            Value::Array(_) => Err(self.array_as_scalar(n)),
            v => Ok(v.to_num()),
        }
    }

    pub(super) fn set_local(&mut self, n: u32, value: Value) -> Result<()> {
        let at = self.base + n as usize;
        match self.vals[at] {
            Value::Array(_) => return Err(self.array_as_scalar(n)),
            Value::Link(link) => {
                if self.linked_array(link)?.is_some() {
                    return Err(self.array_as_scalar(n));
                }
                self.touch_linked(link)?;
            }
            _ => {}
        }
        self.vals[at] = value;
        Ok(())
    }

    pub(super) fn local_name(&self, n: u32) -> String {
        let function = self.code.functions.get(self.function as usize);
        function
            .and_then(|f| f.params.get(n as usize))
            .cloned()
            .unwrap_or_default()
    }

    #[cold]
    pub(super) fn array_as_scalar(&self, n: u32) -> Fatal {
        Fatal::new(format!(
            "attempt to use array `{}` in a scalar context",
            self.local_name(n)
        ))
    }
}
