//! The annotations at hand: those of the project.

use std::sync::OnceLock;

use shell_plan::annotation::Annotation;

/// Names of commands in ascending order, and the text of each one's annotation.
const OWN: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/annotations.rs"));

/// Whether there is an annotation of a command.
pub fn has(name: &str) -> bool {
    OWN.binary_search_by_key(&name, |row| row.0).is_ok()
}

/// A command's annotation. One whose text has a mistake is as none: the tests let none of the project's pass.
pub fn of(name: &str) -> Option<&'static Annotation> {
    static READ: [OnceLock<Option<Annotation>>; OWN.len()] = [const { OnceLock::new() }; OWN.len()];
    let row = OWN.binary_search_by_key(&name, |row| row.0).ok()?;
    let read = READ[row].get_or_init(|| Annotation::read(OWN[row].1).ok());
    read.as_ref()
}

/// The names of all commands that have annotations, in ascending order.
pub fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|row| row.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_annotation_is_found_by_each_of_its_names() {
        assert!(names().count() > 0);
        for name in names() {
            let annotation = of(name).unwrap_or_else(|| panic!("{name}"));
            assert!(annotation.is(name), "{name}");
        }
        assert!(!has("no-such-command") && of("no-such-command").is_none());
    }
}
