//! Where a piece of program text is: source number and byte range.
//!
//! Invariant: a `Span` made by this crate lies inside the text of its source, so slicing by it never fails.

/// A range of bytes in one source.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Span {
    /// Index into [`Sources`].
    pub source: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The smallest span that covers both; `other` may come from a later source, then `self` wins.
    pub fn to(self, other: Span) -> Span {
        if self.source != other.source {
            return self;
        }
        Span {
            source: self.source,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// One program text with the name under which messages speak of it.
#[derive(Clone, Debug)]
pub struct Source {
    /// File name, or a description such as `cmd. line`.
    pub name: String,
    /// The text. Bytes, since AWK programs may hold strings that are no valid UTF-8.
    pub text: Vec<u8>,
    /// The text stands for an option of the command line: nobody has written it, so that a place in it would say nothing.
    pub is_option: bool,
}

/// All program texts of a run.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    list: Vec<Source>,
}

impl Sources {
    /// Adds a text and gives its number.
    ///
    /// # Panics
    /// If the text has 4 GiB or more; callers that read files check that before.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Vec<u8>>) -> u32 {
        self.push(name.into(), text.into(), false)
    }

    /// The same for a text that stands for an option, by which messages call it.
    ///
    /// # Panics
    /// As [`Sources::add`].
    pub fn add_option(&mut self, option: impl Into<String>, text: impl Into<Vec<u8>>) -> u32 {
        self.push(option.into(), text.into(), true)
    }

    fn push(&mut self, name: String, text: Vec<u8>, is_option: bool) -> u32 {
        assert!(
            text.len() < u32::MAX as usize,
            "program text of {} bytes",
            text.len()
        );
        self.list.push(Source {
            name,
            text,
            is_option,
        });
        (self.list.len() - 1) as u32
    }

    /// The source of a number that `add` gave.
    pub fn get(&self, source: u32) -> &Source {
        &self.list[source as usize]
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The bytes of a span.
    pub fn slice(&self, span: Span) -> &[u8] {
        &self.get(span.source).text[span.start as usize..span.end as usize]
    }

    /// Line and column of the start of a span, both from 1; the column counts characters (a tab is one).
    pub fn position(&self, span: Span) -> (usize, usize) {
        let text = &self.get(span.source).text;
        let before = &text[..(span.start as usize).min(text.len())];
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let line_start = before
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |at| at + 1);
        // Continuation bytes of UTF-8 do not begin a character.
        let column = before[line_start..]
            .iter()
            .filter(|&&b| b & 0xC0 != 0x80)
            .count()
            + 1;
        (line, column)
    }

    /// `name:line:column` of a span, as messages begin; of an option its name alone.
    pub fn place(&self, span: Span) -> String {
        let source = self.get(span.source);
        if source.is_option {
            return source.name.clone();
        }
        let (line, column) = self.position(span);
        format!("{}:{line}:{column}", source.name)
    }
}
