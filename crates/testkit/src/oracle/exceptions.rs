//! The list of known differences: which reference implementation parts from which expectation, and why.
//!
//! One line each: `CASE WHO REASON...`; `#` starts a comment line. WHO is the name of a reference, or `gawk-5.2` for
//! every gawk up to 5.2: what a later one has mended.
//!
//! Invariant: a pair of case and reference appears once, and has a reason.

use std::collections::BTreeMap;
use std::path::Path;

use super::case::{GawkVersion, ParseError};

/// One known difference.
#[derive(Debug)]
pub struct Exception {
    /// Why the reference differs and why the expectation stands.
    pub reason: String,
    /// Line in `exceptions.txt`.
    pub line: usize,
}

/// The whole list.
#[derive(Debug, Default)]
pub struct Exceptions {
    by_case: BTreeMap<(String, String), Exception>,
}

impl Exceptions {
    /// Reads the list at `path`.
    ///
    /// # Errors
    /// The file cannot be read, a line has no reason, or a pair is listed twice.
    pub fn load(path: &Path) -> Result<Exceptions, ParseError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| ParseError::unreadable(path, &error))?;
        let mut by_case = BTreeMap::new();
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            if text.starts_with('#') || text.trim().is_empty() {
                continue;
            }
            let mut words = text.splitn(3, ' ');
            let (Some(case), Some(who), Some(reason)) = (words.next(), words.next(), words.next())
            else {
                return Err(ParseError::at(path, line, "expected `CASE WHO REASON`"));
            };
            let exception = Exception {
                reason: reason.trim().to_owned(),
                line,
            };
            if by_case
                .insert((case.to_owned(), who.to_owned()), exception)
                .is_some()
            {
                return Err(ParseError::at(
                    path,
                    line,
                    format!("{case} {who} is listed a second time"),
                ));
            }
        }
        Ok(Exceptions { by_case })
    }

    /// The exception of `who` for `case`, if there is one. `gawk_version` is that of the gawk at hand, `None` for
    /// other references.
    #[must_use]
    pub fn find(
        &self,
        case: &str,
        who: &str,
        gawk_version: Option<GawkVersion>,
    ) -> Option<&Exception> {
        self.by_case
            .get(&(case.to_owned(), who.to_owned()))
            .or_else(|| {
                let version = gawk_version?;
                self.by_case.iter().find_map(|((listed, name), exception)| {
                    let version_max = GawkVersion::parse(name.strip_prefix("gawk-")?)?;
                    (listed == case && version <= version_max).then_some(exception)
                })
            })
    }

    /// Names of the cases that the list speaks of, with the line.
    pub fn cases(&self) -> impl Iterator<Item = (&str, usize)> {
        self.by_case
            .iter()
            .map(|((case, _), exception)| (case.as_str(), exception.line))
    }
}
