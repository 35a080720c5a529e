//! Records from a byte stream.
//!
//! Invariant: the records and terminators that come out depend on the bytes and separators alone, never on how the
//! reads happened to cut the stream; no byte is lost, NUL included. A record is given out as soon as its end is
//! certain, with one `read` at a time, so that a person at a terminal is not kept waiting. Called by the VM (main input) and
//! `streams` (getline).

use std::io::{self, Read};
use std::ops::Range;
use std::rc::Rc;

use memchr::memmem::Finder;

use crate::regex::{Options, Regex, RegexError};
use crate::scan;
use crate::text::{self, Charset};

/// First size of the buffer and the least room for a read, in bytes; larger made no difference on files (2026-11).
pub const READ_BYTES: usize = 64 << 10;

/// Bytes kept before the current record so that a regular expression can look behind its start: one character.
const BEHIND_BYTES: usize = 4;

/// What ends a record.
#[derive(Debug)]
pub enum Separator {
    /// One byte, usually the newline.
    Byte(u8),
    /// `RS = ""`: blank lines; newlines at the ends of the stream belong to no record.
    Paragraph,
    /// A regular expression; an empty match ends nothing, `^` matches only where the stream begins.
    Regex(Rc<Regex>),
    /// A string of several bytes.
    Str(Box<Finder<'static>>),
    /// `--csv`: a newline that is not between quotes. A carriage return before any newline belongs to neither the record
    /// nor its terminator.
    Csv,
}

impl Separator {
    /// The separator for a value of RS in gawk's syntax; see [`Separator::compile`].
    ///
    /// # Errors
    /// Those of [`Regex::compile`].
    pub fn from_rs(rs: &[u8], cs: Charset, ignore_case: bool) -> Result<Separator, RegexError> {
        Separator::compile(
            rs,
            Options {
                ignore_case,
                ..Options::new(cs)
            },
        )
    }

    /// The separator for a value of RS: a single character stands for itself, longer values are regular expressions.
    /// A single byte keeps its case whatever `ignore_case` says.
    ///
    /// # Errors
    /// Those of [`Regex::compile`].
    pub fn compile(rs: &[u8], options: Options) -> Result<Separator, RegexError> {
        match rs {
            b"" => return Ok(Separator::Paragraph),
            [byte] => return Ok(Separator::Byte(*byte)),
            _ if !options.ignore_case && text::char_count(options.charset, rs) == 1 => {
                return Ok(Separator::plain(rs));
            }
            _ => {}
        }
        let regex = Regex::compile(rs, options)?;
        Ok(match regex.literal() {
            Some(literal) if !literal.is_empty() => Separator::plain(literal),
            _ => Separator::Regex(Rc::new(regex)),
        })
    }

    /// Whether it ends no record, so that all of a stream is one: `RS = "^$"`.
    pub fn is_never(&self) -> bool {
        matches!(self, Separator::Regex(regex) if regex.source() == b"^$")
    }

    fn plain(separator: &[u8]) -> Separator {
        match separator {
            [byte] => Separator::Byte(*byte),
            _ => Separator::Str(Box::new(Finder::new(separator).into_owned())),
        }
    }
}

/// Ends of lines that lie in the buffer, found together.
struct Ahead {
    /// What ends a line.
    byte: u8,
    /// Positions in the buffer; those in `at..len` are still to come.
    ends: [usize; AHEAD],
    at: usize,
    len: usize,
    /// How far the buffer has been searched.
    from: usize,
}

/// Ends that are kept: a block's more than what is looked at ahead.
const AHEAD: usize = 2 * scan::BLOCK;

/// If so many bytes have an end of a line, no more are looked at: they will be needed again, and should still be near.
const NEAR_BYTES: usize = 4 << 10;

impl Ahead {
    fn new() -> Ahead {
        Ahead {
            byte: b'\n',
            ends: [0; AHEAD],
            at: 0,
            len: 0,
            from: 0,
        }
    }

    fn forget(&mut self) {
        (self.at, self.len) = (0, 0);
    }

    /// The next line ends there; what is behind it has not been searched.
    fn only(&mut self, byte: u8, end: usize) {
        (self.ends[0], self.at, self.len) = (end, 0, 1);
        (self.byte, self.from) = (byte, end + 1);
    }

    /// Finds more ends in `buf`, of which nothing before `start` counts.
    #[inline(never)]
    fn find(&mut self, buf: &[u8], start: usize, byte: u8) {
        if self.at == self.len || self.byte != byte {
            (self.at, self.len, self.byte, self.from) = (0, 0, byte, start);
        }
        self.ends.copy_within(self.at..self.len, 0);
        (self.at, self.len) = (0, self.len - self.at);
        let near = self.from + NEAR_BYTES;
        while self.len + scan::BLOCK <= AHEAD && (self.from < near || self.len == 0) {
            let Some(block) = buf[self.from..].first_chunk() else {
                break;
            };
            let bits = scan::places_in_block(block, byte);
            self.keep(bits);
            self.from += scan::BLOCK;
        }
        if buf.len() - self.from >= scan::BLOCK {
            return;
        }
        while self.len + scan::STEP <= AHEAD && self.from < buf.len() {
            let text = &buf[self.from..];
            let (chunk, valid) = scan::Chunk::of(text);
            self.keep(u64::from(chunk.places(byte) & valid));
            self.from += text.len().min(scan::STEP);
        }
    }

    /// Ends behind `from`, a bit for each.
    #[inline(always)]
    fn keep(&mut self, mut bits: u64) {
        while bits != 0 {
            self.ends[self.len] = self.from + bits.trailing_zeros() as usize;
            self.len += 1;
            bits &= bits - 1;
        }
    }
}

/// Cuts a stream into records.
pub struct RecordReader {
    src: Box<dyn Read>,
    buf: Vec<u8>,
    /// Where the bytes not yet given out begin, and end.
    start: usize,
    end: usize,
    /// The last record. Its bytes are kept until the next one is given out.
    record: Range<usize>,
    terminator: Range<usize>,
    /// Cuts records whatever separator is asked for.
    own_separator: Option<Separator>,
    /// Bytes read from the source.
    read: u64,
    eof: bool,
    /// No byte has been given out: `^` in a separator matches here.
    at_origin: bool,
    ahead: Ahead,
}

impl RecordReader {
    /// A reader of `src`, from which nothing is read yet.
    pub fn new(src: Box<dyn Read>) -> Self {
        RecordReader::with_buffer(src, Vec::new())
    }

    /// The same with a buffer of another reader, whose bytes do not matter: see [`RecordReader::release`].
    pub fn with_buffer(src: Box<dyn Read>, buf: Vec<u8>) -> Self {
        RecordReader {
            src,
            buf,
            start: 0,
            end: 0,
            record: 0..0,
            terminator: 0..0,
            own_separator: None,
            read: 0,
            eof: false,
            at_origin: true,
            ahead: Ahead::new(),
        }
    }

    /// The next record as a range of [`RecordReader::buffer`], without its terminator; `None` at the end of the
    /// stream. Its bytes stay until the next call. The separator may differ from call to call.
    ///
    /// # Errors
    /// Those of the source's `read`; an interrupted read is tried again.
    #[inline]
    pub fn next(&mut self, sep: &Separator) -> io::Result<Option<Range<usize>>> {
        match sep {
            _ if self.own_separator.is_some() => self.next_own(),
            Separator::Byte(byte) => self.next_line(*byte),
            _ => {
                self.ahead.forget();
                self.next_other(sep)
            }
        }
    }

    /// Reads once, before a record is asked for.
    ///
    /// # Errors
    /// Those of the source's `read`; the next record is asked for as if this had not been tried.
    pub fn begin(&mut self) -> io::Result<()> {
        self.fill().map(drop)
    }

    /// From now on records are lines, whatever separator is asked for.
    pub fn take_lines(&mut self) {
        self.own_separator = Some(Separator::Byte(b'\n'));
    }

    /// From now on all that is left is one record, whatever separator is asked for.
    pub fn take_all(&mut self) {
        // An expression that ends nothing.
        self.own_separator = Separator::from_rs(b"^$", Charset::Bytes, false).ok();
    }

    #[cold]
    fn next_own(&mut self) -> io::Result<Option<Range<usize>>> {
        let Some(own) = self.own_separator.take() else {
            return Ok(None);
        };
        let record = self.next_other(&own);
        self.own_separator = Some(own);
        record
    }

    /// [`RecordReader::next`] for `Separator::Byte(byte)`.
    ///
    /// # Errors
    /// As [`RecordReader::next`].
    #[inline]
    pub fn next_line(&mut self, byte: u8) -> io::Result<Option<Range<usize>>> {
        if let Some(line) = self.ready_line(byte) {
            return Ok(Some(line));
        }
        self.ahead.find(&self.buf[..self.end], self.start, byte);
        match self.ready_line(byte) {
            Some(line) => Ok(Some(line)),
            None => self.next_line_slowly(byte),
        }
    }

    /// The next line, if its end has been found already.
    #[inline(always)]
    pub fn ready_line(&mut self, byte: u8) -> Option<Range<usize>> {
        let ahead = &mut self.ahead;
        if ahead.at == ahead.len || ahead.byte != byte {
            return None;
        }
        let end = ahead.ends[ahead.at];
        ahead.at += 1;
        Some(self.give(self.start, end, end + 1))
    }

    /// The line that comes `count` lines (from 0) after those that were given out, if the buffer has it and it was just
    /// cut by [`RecordReader::next_line`].
    #[inline]
    pub fn line_ahead(&mut self, count: usize) -> Option<&[u8]> {
        let ahead = &mut self.ahead;
        if ahead.at + count >= ahead.len {
            if ahead.at == ahead.len || ahead.from >= self.end {
                return None;
            }
            ahead.find(&self.buf[..self.end], self.start, ahead.byte);
        }
        let at = ahead.at + count;
        if at >= ahead.len {
            return None;
        }
        let start = match count {
            0 => self.start,
            _ => ahead.ends[at - 1] + 1,
        };
        Some(&self.buf[start..ahead.ends[at]])
    }

    /// The lines that come next, as far as their ends have been found: the buffer, where the first line begins in it,
    /// and where each ends.
    #[inline]
    pub fn ready_lines(&mut self, byte: u8) -> (&[u8], usize, &[usize]) {
        if self.own_separator.is_some() {
            return (&[], 0, &[]);
        }
        self.ahead.find(&self.buf[..self.end], self.start, byte);
        let ahead = &self.ahead;
        let ends = &ahead.ends[ahead.at..ahead.len];
        (&self.buf[..self.end], self.start, ends)
    }

    /// Gives out `count` of [`RecordReader::ready_lines`], at least one; the last one's range.
    pub fn give_lines(&mut self, count: usize) -> Range<usize> {
        let last = self.ahead.at + count - 1;
        let end = self.ahead.ends[last];
        if count > 1 {
            self.start = self.ahead.ends[last - 1] + 1;
        }
        self.ahead.at = last + 1;
        self.give(self.start, end, end + 1)
    }

    /// Passes over records that end with `byte`, lie in the buffer and lack what `finder` looks for, but not over the last
    /// one there; gives their number.
    pub fn pass_over(&mut self, byte: u8, finder: &Finder<'_>) -> u64 {
        if self.own_separator.is_some() {
            return 0;
        }
        let ahead = &self.buf[self.start..self.end];
        let before = |at: usize| memchr::memrchr(byte, &ahead[..at]).map_or(0, |end| end + 1);
        let hit = finder.find(ahead);
        let to = match hit {
            Some(hit) => before(hit),
            None => memchr::memrchr(byte, ahead).map_or(0, before),
        };
        if to == 0 {
            return 0;
        }
        let passed = memchr::memchr_iter(byte, &ahead[..to]).count() as u64;
        let end = hit.and_then(|hit| Some(hit + memchr::memchr(byte, &ahead[hit..])?));
        let end = end.map(|end| self.start + end);
        self.start += to;
        self.ahead.forget();
        if let Some(end) = end {
            // Ends of more lines would not be asked for.
            self.ahead.only(byte, end);
        }
        self.at_origin = false;
        passed
    }

    /// The bytes that the last record and terminator are ranges of.
    #[inline]
    pub fn buffer(&self) -> &[u8] {
        &self.buf[..self.end]
    }

    /// What ended the last record: gawk's RT. Empty where the stream ended it.
    #[inline]
    pub fn terminator(&self) -> &[u8] {
        &self.buf[self.terminator.clone()]
    }

    /// The last record that was given out, also when the stream has ended since.
    #[inline]
    pub fn record(&self) -> &[u8] {
        &self.buf[self.record.clone()]
    }

    /// Whether more bytes behind the last terminator could make it longer.
    pub fn may_grow(&self, sep: &Separator) -> bool {
        let Separator::Regex(regex) = sep else {
            return false;
        };
        let hay = &self.buf[self.record.start..self.end];
        let from = self.terminator.start - self.record.start;
        self.terminator.end == self.end
            && regex
                .find_partial(hay, from)
                .is_none_or(|found| !found.settled)
    }

    /// Whether the next record lies ready, whole: reading it moves nothing.
    pub fn has_line(&self, byte: u8) -> bool {
        memchr::memchr(byte, &self.buf[self.start..self.end]).is_some()
    }

    /// How many bytes of the source were given out, terminators included.
    pub fn consumed(&self) -> u64 {
        self.read - (self.end - self.start) as u64
    }

    /// How many bytes of the source lie before the last record.
    pub fn record_offset(&self) -> u64 {
        self.read - (self.end - self.record.start) as u64
    }

    /// Gives up the stream, after an error: what was read and not given out is dropped, and there is no more.
    pub fn give_up(&mut self) {
        self.start = self.end;
        self.ahead.forget();
        self.terminator = 0..0;
        self.eof = true;
    }

    /// Gives the source up and the buffer back, when the stream has ended or is not read on: there is no more.
    pub fn release(&mut self) -> Vec<u8> {
        self.src = Box::new(io::empty());
        self.ahead.forget();
        let buf = std::mem::take(&mut self.buf);
        (self.start, self.end) = (0, 0);
        self.record = 0..0;
        self.terminator = 0..0;
        self.eof = true;
        buf
    }

    #[inline]
    fn give(&mut self, start: usize, end: usize, next: usize) -> Range<usize> {
        self.terminator = end..next;
        self.start = next;
        self.at_origin = false;
        self.record = start..end;
        start..end
    }

    /// What is left when the stream has ended.
    fn give_rest(&mut self) -> Option<Range<usize>> {
        let (start, end) = (self.start, self.end);
        if start < end {
            return Some(self.give(start, end, end));
        }
        self.terminator = end..end;
        None
    }

    #[cold]
    fn next_line_slowly(&mut self, byte: u8) -> io::Result<Option<Range<usize>>> {
        let mut searched = self.end - self.start;
        while self.fill()? {
            let from = self.start + searched;
            if let Some(len) = memchr::memchr(byte, &self.buf[from..self.end]) {
                return Ok(Some(self.give(self.start, from + len, from + len + 1)));
            }
            searched = self.end - self.start;
        }
        Ok(self.give_rest())
    }

    fn next_other(&mut self, sep: &Separator) -> io::Result<Option<Range<usize>>> {
        match sep {
            Separator::Byte(byte) => self.next_line(*byte),
            Separator::Paragraph => self.next_paragraph(),
            Separator::Str(finder) => self.next_by_str(finder),
            Separator::Regex(regex) => self.next_by_regex(regex),
            Separator::Csv => self.next_csv(),
        }
    }

    fn next_by_str(&mut self, finder: &Finder<'_>) -> io::Result<Option<Range<usize>>> {
        let len = finder.needle().len();
        let mut searched = 0;
        loop {
            let from = self.start + searched;
            if let Some(at) = finder.find(&self.buf[from..self.end]) {
                return Ok(Some(self.give(self.start, from + at, from + at + len)));
            }
            // The separator may have begun in the last bytes.
            searched = (self.end - self.start).saturating_sub(len - 1);
            if !self.fill()? {
                return Ok(self.give_rest());
            }
        }
    }

    fn next_csv(&mut self) -> io::Result<Option<Range<usize>>> {
        let record = self.cut_csv()?;
        if let Some(record) = &record {
            self.record = record.clone();
        }
        Ok(record)
    }

    fn cut_csv(&mut self) -> io::Result<Option<Range<usize>>> {
        let mut searched = 0;
        let mut is_quoted = false;
        loop {
            let from = self.start + searched;
            for hit in memchr::memchr2_iter(b'"', b'\n', &self.buf[from..self.end]) {
                let at = from + hit;
                if self.buf[at] == b'"' {
                    is_quoted = !is_quoted;
                } else if !is_quoted {
                    let record = self.give(self.start, at, at + 1);
                    return Ok(Some(self.without_returns(record)));
                }
            }
            searched = self.end - self.start;
            if !self.fill()? {
                return Ok(self.give_rest().map(|record| self.without_returns(record)));
            }
        }
    }

    /// Takes carriage returns before newlines and at the end out of a record; its bytes move to its front.
    fn without_returns(&mut self, record: Range<usize>) -> Range<usize> {
        let Some(first) = memchr::memchr(b'\r', &self.buf[record.clone()]) else {
            return record;
        };
        let from = record.start + first;
        let mut to = from;
        for at in from..record.end {
            let byte = self.buf[at];
            let ends_line = at + 1 == record.end || self.buf[at + 1] == b'\n';
            if byte != b'\r' || !ends_line {
                self.buf[to] = byte;
                to += 1;
            }
        }
        record.start..to
    }

    fn next_paragraph(&mut self) -> io::Result<Option<Range<usize>>> {
        loop {
            let pending = &self.buf[self.start..self.end];
            let newlines = pending
                .iter()
                .position(|b| *b != b'\n')
                .unwrap_or(pending.len());
            self.start += newlines;
            if self.start < self.end {
                break;
            }
            if !self.fill()? {
                return Ok(self.give_rest());
            }
        }
        let mut searched = 0;
        loop {
            let from = self.start + searched;
            if let Some(at) = memchr::memmem::find(&self.buf[from..self.end], b"\n\n") {
                let mut end = from + at - self.start;
                let mut next = end + 2;
                // All newlines are the terminator, also those not read yet.
                loop {
                    match self.buf[self.start + next..self.end]
                        .iter()
                        .position(|b| *b != b'\n')
                    {
                        Some(more) => {
                            next += more;
                            break;
                        }
                        None => next = self.end - self.start,
                    }
                    if !self.fill()? {
                        break;
                    }
                }
                end += self.start;
                return Ok(Some(self.give(self.start, end, self.start + next)));
            }
            searched = (self.end - self.start).saturating_sub(1);
            if !self.fill()? {
                break;
            }
        }
        let end = if self.buf[self.end - 1] == b'\n' {
            self.end - 1
        } else {
            self.end
        };
        Ok(Some(self.give(self.start, end, self.end)))
    }

    fn next_by_regex(&mut self, regex: &Regex) -> io::Result<Option<Range<usize>>> {
        let mut searched = 0;
        loop {
            // What lies before the record is shown to the search so that `^` and word borders are judged right.
            let behind = if self.at_origin {
                0
            } else {
                self.start.min(BEHIND_BYTES)
            };
            let base = self.start - behind;
            let hay = &self.buf[base..self.end];
            let from = behind + searched;
            let hit = if self.eof {
                regex.find_filled_at(hay, from).map(|hit| (hit, true))
            } else {
                regex
                    .find_partial(hay, from)
                    .map(|hit| ((hit.start, hit.end), hit.settled))
            };
            match hit {
                Some(((start, end), true)) => {
                    return Ok(Some(self.give(self.start, base + start, base + end)));
                }
                Some(_) => {}
                None => {
                    // A match that begins in what was searched would reach past its end.
                    let reach = regex
                        .longest_bytes()
                        .map_or(usize::MAX, |len| len.saturating_add(BEHIND_BYTES));
                    searched = (self.end - self.start).saturating_sub(reach).max(searched);
                }
            }
            if self.eof {
                return Ok(self.give_rest());
            }
            self.fill()?;
        }
    }

    /// The bytes from there on were moved to the front.
    fn moved_by(&mut self, front: usize) {
        (self.start, self.end) = (self.start - front, self.end - front);
        self.record = self.record.start - front..self.record.end - front;
    }

    /// Reads once; false at the end of the stream. Moves the pending bytes to the front when room is short, so that
    /// offsets relative to `start` stay valid and others do not.
    fn fill(&mut self) -> io::Result<bool> {
        if self.eof {
            return Ok(false);
        }
        self.ahead.forget();
        let keep_from = if self.at_origin {
            self.start
        } else {
            self.start.saturating_sub(BEHIND_BYTES)
        };
        let keep_from = keep_from.min(self.record.start);
        if self.start == self.end {
            // Nothing pending: begin again at the front, where the cache is warm.
            self.buf.copy_within(keep_from..self.end, 0);
            self.moved_by(keep_from);
        } else if self.buf.len() - self.end < READ_BYTES / 2 {
            self.buf.copy_within(keep_from..self.end, 0);
            self.moved_by(keep_from);
            if self.buf.len() - self.end < READ_BYTES / 2 {
                // Doubling keeps the cost of a long record linear.
                self.buf.resize((self.buf.len() * 2).max(READ_BYTES), 0);
            }
        }
        if self.buf.is_empty() {
            self.buf.resize(READ_BYTES, 0);
        }
        self.terminator = 0..0;
        loop {
            match self.src.read(&mut self.buf[self.end..]) {
                Ok(0) => {
                    self.eof = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.end += count;
                    self.read += count as u64;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the bytes in pieces of changing size.
    struct Pieces {
        bytes: Vec<u8>,
        at: usize,
        state: u64,
        most: u64,
    }

    impl Read for Pieces {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            self.state = self
                .state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let size = 1 + (self.state >> 33) % self.most;
            let count = (size as usize)
                .min(buf.len())
                .min(self.bytes.len() - self.at);
            buf[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn records(bytes: &[u8], rs: &str, most: u64) -> Vec<(String, String)> {
        let separator = Separator::from_rs(rs.as_bytes(), Charset::Utf8, false).unwrap();
        let mut reader = RecordReader::new(Box::new(Pieces {
            bytes: bytes.to_vec(),
            at: 0,
            state: most,
            most,
        }));
        let mut all = Vec::new();
        while let Some(range) = reader.next(&separator).unwrap() {
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            all.push((text(&reader.buffer()[range]), text(reader.terminator())));
        }
        assert!(reader.next(&separator).unwrap().is_none());
        all
    }

    /// Text, RS, and the records with their terminators.
    type Case = (
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
    );

    #[test]
    fn records_are_cut_as_gawk_cuts_them_however_they_arrive() {
        let cases: &[Case] = &[
            ("a\nb\n", "\n", &[("a", "\n"), ("b", "\n")]),
            ("a\nb", "\n", &[("a", "\n"), ("b", "")]),
            ("", "\n", &[]),
            ("\n", "\n", &[("", "\n")]),
            (
                "\n\na b\nc\n\n\n\nd,e\nf\n\n\n",
                "",
                &[("a b\nc", "\n\n\n\n"), ("d,e\nf", "\n\n\n")],
            ),
            ("a\nb", "", &[("a\nb", "")]),
            ("a\nb\n", "", &[("a\nb", "\n")]),
            ("\n", "", &[]),
            ("\n\n\n", "", &[]),
            ("a\nb\n \nc", "", &[("a\nb\n \nc", "")]),
            (
                "aXbXXc",
                "X",
                &[("a", "X"), ("b", "X"), ("", "X"), ("c", "")],
            ),
            ("aXbXXc", "X+", &[("a", "X"), ("b", "XX"), ("c", "")]),
            (
                "a12b3c\n",
                "[0-9]+",
                &[("a", "12"), ("b", "3"), ("c\n", "")],
            ),
            ("abc", "x*", &[("abc", "")]),
            ("a\nb\n\n", "^$", &[("a\nb\n\n", "")]),
            ("", "^$", &[]),
            ("xaxb\nxc", "^x", &[("", "x"), ("axb\nxc", "")]),
            (
                ">a\nb\n>c\n",
                "(^|\n)>",
                &[("", ">"), ("a\nb", "\n>"), ("c\n", "")],
            ),
            ("a\n\nb\n", "\n$", &[("a\n\nb", "\n")]),
            ("abab", "b$", &[("aba", "b")]),
            ("abab", "^$|b", &[("a", "b"), ("a", "b")]),
            ("a\n\nb\n", "\n\n+", &[("a", "\n\n"), ("b\n", "")]),
            ("a.b.c", ".", &[("a", "."), ("b", "."), ("c", "")]),
            ("a|b", "|", &[("a", "|"), ("b", "")]),
            ("aXXb", "XX", &[("a", "XX"), ("b", "")]),
            ("foo\n", "^f", &[("", "f"), ("oo\n", "")]),
            ("afbfc\nf", "^f|b", &[("af", "b"), ("fc\nf", "")]),
            ("X", "X", &[("", "X")]),
            ("aéb", "é", &[("a", "é"), ("b", "")]),
            ("axyyzbx", "x|xy*z", &[("a", "xyyz"), ("b", "x")]),
            ("a\0b\nc\0\n", "\n", &[("a\0b", "\n"), ("c\0", "\n")]),
            ("ab ab", r"\<a", &[("", "a"), ("b ", "a"), ("b", "")]),
        ];
        for most in [1, 2, 3, 5, 1000] {
            for (text, rs, expected) in cases {
                let got = records(text.as_bytes(), rs, most);
                let got: Vec<(&str, &str)> =
                    got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                assert_eq!(got, *expected, "RS={rs:?} on {text:?}, pieces up to {most}");
            }
        }
    }

    #[test]
    fn long_and_short_records_survive_refills() {
        let mut text = Vec::new();
        let mut expected = Vec::new();
        let mut state = 7u64;
        for _ in 0..3000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let len = if state >> 60 == 0 {
                state >> 46
            } else {
                (state >> 40) % 100
            } as usize;
            let line: String = (0..=len)
                .map(|i| char::from(b'a' + ((i as u64 ^ state >> 50) % 26) as u8))
                .collect();
            text.extend_from_slice(line.as_bytes());
            text.extend_from_slice(b"12");
            expected.push(line);
        }
        for rs in ["[0-9]+", "12", "1[0-9]"] {
            for most in [4096, 70_000, 1 << 20] {
                let got = records(&text, rs, most);
                assert!(
                    got.iter().map(|(record, _)| record).eq(&expected),
                    "RS={rs} pieces up to {most}"
                );
                assert!(got.iter().all(|(_, terminator)| terminator == "12"));
            }
        }
    }

    #[test]
    fn a_complete_record_does_not_wait_for_more() {
        struct Once(bool);
        impl Read for Once {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                assert!(!self.0, "a second read would block");
                self.0 = true;
                buf[..8].copy_from_slice(b"a\nb\nc,d;");
                Ok(8)
            }
        }
        let mut reader = RecordReader::new(Box::new(Once(false)));
        for (rs, record) in [("\n", "a"), ("\n", "b"), ("[,]", "c"), (",|;", "d")] {
            let separator = Separator::from_rs(rs.as_bytes(), Charset::Utf8, false).unwrap();
            let range = reader.next(&separator).unwrap().unwrap();
            assert_eq!(&reader.buffer()[range], record.as_bytes());
        }
    }

    #[test]
    fn quotes_hide_newlines_of_comma_separated_values() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("a,b\nc\n", &[("a,b", "\n"), ("c", "\n")]),
            (
                "a,\"b\nc\",d\ne,f\n",
                &[("a,\"b\nc\",d", "\n"), ("e,f", "\n")],
            ),
            ("a,b\r\nc,d\r\n", &[("a,b", "\n"), ("c,d", "\n")]),
            ("\"a\r\nb\",c\r\n", &[("\"a\nb\",c", "\n")]),
            ("\n\r\n", &[("", "\n"), ("", "\n")]),
            ("\"a,b\nc", &[("\"a,b\nc", "")]),
            ("\"a\"\"\n", &[("\"a\"\"\n", "")]),
            ("a\"\"\"\n", &[("a\"\"\"\n", "")]),
            ("a\rb,c\n", &[("a\rb,c", "\n")]),
            ("a\r", &[("a", "")]),
            ("a,b\"\nc\",d\n", &[("a,b\"\nc\",d", "\n")]),
            ("", &[]),
        ];
        for most in [1, 2, 3, 1000] {
            for (text, expected) in cases {
                let mut reader = RecordReader::new(Box::new(Pieces {
                    bytes: text.as_bytes().to_vec(),
                    at: 0,
                    state: 3,
                    most,
                }));
                let mut got = Vec::new();
                while let Some(range) = reader.next(&Separator::Csv).unwrap() {
                    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                    got.push((text(&reader.buffer()[range]), text(reader.terminator())));
                }
                let got: Vec<(&str, &str)> =
                    got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
                assert_eq!(got, *expected, "{text:?} in pieces up to {most}");
            }
        }
    }

    #[test]
    fn case_is_ignored_but_in_a_single_byte() {
        let cut = |rs: &str, text: &str| {
            let separator = Separator::from_rs(rs.as_bytes(), Charset::Utf8, true).unwrap();
            let mut reader = RecordReader::new(Box::new(io::Cursor::new(text.as_bytes().to_vec())));
            let mut count = 0;
            while reader.next(&separator).unwrap().is_some() {
                count += 1;
            }
            count
        };
        assert_eq!(cut("X", "axbXc"), 2);
        assert_eq!(cut("[X]", "axbXc"), 3);
        assert_eq!(cut("xx", "aXXbxXc"), 3);
        assert_eq!(cut("é", "aébÉc"), 3);
    }
}
