//! Which locales the machine has.
//!
//! Invariant: the C library decides, which knows a locale under several names.

use std::collections::HashMap;
use std::process::{Command, Stdio};

/// Locales that a C program can use here, as far as they were asked for.
#[derive(Debug, Default)]
pub(super) struct Installed(HashMap<String, bool>);

impl Installed {
    /// Whether the machine has a locale. The C locales every machine has.
    pub(super) fn has(&mut self, name: &str) -> bool {
        if matches!(name, "C" | "POSIX") || name.starts_with("C.") {
            return true;
        }
        if let Some(known) = self.0.get(name) {
            return *known;
        }
        let found = is_installed(name);
        self.0.insert(name.to_owned(), found);
        found
    }
}

/// `locale` complains of a name that it cannot use, and goes on with C. False where there is no such command.
fn is_installed(name: &str) -> bool {
    let output = Command::new("locale")
        .arg("charmap")
        .env("LC_ALL", name)
        .stdin(Stdio::null())
        .output();
    output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_installs_is_not_there() {
        let mut installed = Installed::default();
        for _ in 0..2 {
            assert!(installed.has("C.UTF-8"));
            assert!(!installed.has("xx_YY.UTF-8"));
        }
    }
}
