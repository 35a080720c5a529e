//! The open inputs of `getline` by name; the one that was used last is at hand, as programs read from one for a while.

use std::collections::HashMap;

use super::Input;

/// See the top of the file.
#[derive(Default)]
pub(super) struct Inputs {
    recent: Option<(Vec<u8>, Input)>,
    /// All others.
    others: HashMap<Vec<u8>, Input>,
}

impl Inputs {
    /// The input that was used last, if it has that name.
    #[inline]
    pub(super) fn recent(&mut self, name: &[u8]) -> Option<&mut Input> {
        let (held, input) = self.recent.as_mut()?;
        (held == name).then_some(input)
    }

    /// The input of that name, if it is open.
    #[inline]
    pub(super) fn get(&mut self, name: &[u8]) -> Option<&mut Input> {
        let is_recent = self.recent.as_ref().is_some_and(|(held, _)| held == name);
        if !is_recent {
            let found = self.others.remove_entry(name)?;
            self.make_recent(found);
        }
        self.recent.as_mut().map(|(_, input)| input)
    }

    pub(super) fn is_open(&self, name: &[u8]) -> bool {
        self.recent.as_ref().is_some_and(|(held, _)| held == name) || self.others.contains_key(name)
    }

    pub(super) fn insert(&mut self, name: &[u8], input: Input) -> &mut Input {
        self.make_recent((name.to_vec(), input));
        let (_, input) = self.recent.as_mut().expect("just put there");
        input
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Input> {
        self.get(name)?;
        self.recent.take().map(|(_, input)| input)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Vec<u8>, &Input)> {
        let recent = self.recent.iter().map(|(name, input)| (name, input));
        recent.chain(&self.others)
    }

    fn make_recent(&mut self, input: (Vec<u8>, Input)) {
        if let Some((name, before)) = self.recent.replace(input) {
            self.others.insert(name, before);
        }
    }
}
