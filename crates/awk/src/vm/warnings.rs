//! What the user is told without ending the run: warnings, and what lint finds.

use super::Vm;
use crate::code::{Arr, NumFn};
use crate::error::{Fatal, Step as Result};

impl Vm<'_> {
    /// Tells the user what does not end the run.
    pub(super) fn warn(&mut self, message: &str) {
        let place = match self.code.spans.get(self.position()) {
            Some(span) => self.place(*span) + ": ",
            None => String::new(),
        };
        (self.input.warn)(format!("{place}warning: {message}"));
    }

    /// Tells the user what is doubtful (LINT).
    #[cold]
    pub(super) fn lint(&mut self, message: &str) -> Result<()> {
        if self.lint_is_fatal {
            return Err(Fatal::new(message));
        }
        self.warn(message);
        Ok(())
    }

    /// A function got what it has no answer for.
    #[cold]
    pub(super) fn out_of_range(&mut self, function: NumFn, n: f64) -> f64 {
        let name = if function == NumFn::Log {
            "log"
        } else {
            "sqrt"
        };
        self.warn(&format!("{name}: received negative argument {n}"));
        f64::NAN.copysign(-1.0)
    }

    /// An element is read that was never set.
    #[cold]
    pub(super) fn lint_element(&mut self, array: Arr) -> Result<()> {
        let name = self.array_name(array);
        self.lint(&format!("reference to uninitialized element of `{name}`"))
    }

    fn array_name(&self, array: Arr) -> String {
        match array {
            Arr::TOP => "an array inside another".to_string(),
            Arr(n) if n & Arr::LOCAL != 0 => self.local_name(n & !Arr::LOCAL),
            array => match array.as_special() {
                Some(special) => special.name().to_string(),
                None => self.code.globals[array.0 as usize].clone(),
            },
        }
    }
}
