//! What the rules for records do to a variable, and what follows from all of it together.

use super::{Merge, MergeArray};
use crate::span::Span;

/// Uses of a global scalar, each with the first place where it is seen.
#[derive(Clone, Default)]
pub(super) struct Scalar {
    pub(super) summed: Option<Span>,
    pub(super) appended: Option<Span>,
    pub(super) extreme: Option<(Span, Merge)>,
    /// Others are assigned beside it.
    pub(super) leads: bool,
    /// Assigned beside an extreme that was found, which is this global.
    pub(super) follows: Option<(Span, u32)>,
    pub(super) set: Option<Span>,
    /// Read, where it may hold what an earlier record left.
    pub(super) read: Option<Span>,
}

/// Uses of a global array while a record has not made it anew.
#[derive(Clone, Default)]
pub(super) struct Array {
    pub(super) summed: Option<Span>,
    pub(super) appended: Option<Span>,
    pub(super) extreme: Option<(Span, Merge)>,
    pub(super) set: Option<Span>,
    /// An element is read, and made where there is none.
    pub(super) read: Option<Span>,
    /// It is asked which elements there are: `in`, `for`, `length`.
    pub(super) asked: Option<Span>,
    /// All of it is made anew.
    pub(super) whole: Option<Span>,
    /// Something that is not understood.
    pub(super) other: Option<(Span, &'static str)>,
}

/// What is wrong with a variable: where, and what happens there beside what else.
pub(super) type Clash = (Span, String);

impl Scalar {
    /// What becomes of it; none if no record changes it.
    pub(super) fn merge(&self, name: &str) -> Result<Option<Merge>, Clash> {
        let changes = [
            self.summed.map(|span| (span, Merge::Sum)),
            self.appended.map(|span| (span, Merge::Append)),
            self.extreme,
            self.follows.map(|(span, of)| (span, Merge::Follow(of))),
            self.set.map(|span| (span, Merge::Last)),
        ];
        let mut changes = changes.into_iter().flatten();
        let Some((_, merge)) = changes.next() else {
            return Ok(None);
        };
        if let Some((span, _)) = changes.next() {
            let what = format!("`{name}` is changed in more than one way");
            return Err((span, what));
        }
        if let Some(span) = self.read {
            return Err((span, read_what(name)));
        }
        Ok(Some(merge))
    }
}

fn read_what(name: &str) -> String {
    format!("`{name}` is read here, and an earlier record may have changed it")
}

impl Array {
    /// What becomes of it; none if no record changes it.
    pub(super) fn merge(&self, name: &str) -> Result<Option<MergeArray>, Clash> {
        if let Some((span, what)) = self.other {
            return Err((span, format!("array `{name}` {what}")));
        }
        let elements = |merge| MergeArray::Elements(merge);
        let changes = [
            self.summed.map(|span| (span, elements(Merge::Sum))),
            self.appended.map(|span| (span, elements(Merge::Append))),
            self.extreme.map(|(span, merge)| (span, elements(merge))),
            self.set.map(|span| (span, elements(Merge::Last))),
            self.whole.map(|span| (span, MergeArray::Whole)),
        ];
        let mut changes = changes.into_iter().flatten();
        let Some((_, merge)) = changes.next() else {
            return match (self.read, self.asked) {
                (Some(read), Some(_)) => Err((
                    read,
                    format!(
                        "reading an element of `{name}` makes it, and elsewhere it is asked which ones there are"
                    ),
                )),
                (Some(_), None) => Ok(Some(MergeArray::Made)),
                (None, _) => Ok(None),
            };
        };
        if let Some((span, _)) = changes.next() {
            let what = format!("array `{name}` is changed in more than one way");
            return Err((span, what));
        }
        match self.read.or(self.asked) {
            Some(span) => Err((span, read_what(name))),
            None => Ok(Some(merge)),
        }
    }
}
