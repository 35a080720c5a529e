//! Cells: how keys and values lie in the 16 bytes that a table's entry has for each.
//!
//! Text of up to 15 bytes lies in the cell itself, zero-padded, so that two inline keys are equal if and only if their
//! 16 bytes are; longer text is a block of its own ("blob").

use crate::layout::{
    BLOB_LEN_MASK, INLINE_BYTES_MAX, KEY_BLOB, TEXT_BYTES_MAX, VALUE_BLOB, VALUE_BLOB_MAYBE_NUM,
    VALUE_BLOB_OTHER, VALUE_INLINE, VALUE_INLINE_MAYBE_NUM, VALUE_INLINE_OTHER, VALUE_NUM,
    VALUE_TABLE, VALUE_UNINIT,
};
use crate::table::Table;
use crate::{Heap, LONG_TEXT_BYTES, Result};
use region::ErrorKind;

/// A value as it is seen in place, or handed in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Cell<'a> {
    /// Made by being referred to, and never assigned.
    Uninit,
    Num(f64),
    /// `maybe_num`: came from input, so that it counts as a number where it looks like one (AWK's "strnum").
    Str {
        bytes: &'a [u8],
        maybe_num: bool,
    },
    /// A table inside: an array of arrays, or a root.
    Table(Table),
    /// A value of a kind that the heap does not know and only keeps: the first byte says which kind, the rest is the
    /// user's. At least one byte.
    Other(&'a [u8]),
}

/// Whether a value tag is one of a block with text.
pub(crate) fn is_blob(tag: u8) -> bool {
    matches!(tag, VALUE_BLOB | VALUE_BLOB_MAYBE_NUM | VALUE_BLOB_OTHER)
}

/// Whether a cell with this value tag owns something beside it.
fn owns(tag: u8) -> bool {
    is_blob(tag) || tag == VALUE_TABLE
}

/// Where a value cell lies. Valid until the next insertion, removal or clear in its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(pub(crate) u64);

/// The two words of a key cell; the tag is the highest byte of the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct KeyWords(pub(crate) u64, pub(crate) u64);

fn word(bytes: &[u8]) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(raw)
}

fn half(bytes: &[u8]) -> u64 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[..4]);
    u64::from(u32::from_le_bytes(raw))
}

/// The words of up to 15 bytes of text with `tag` on top. Overlapping loads instead of a copy of variable length: this is
/// the first step of every `a[k]`.
#[inline(always)]
pub(crate) fn inline_words(text: &[u8], tag: u8) -> (u64, u64) {
    let len = text.len();
    let top = u64::from(tag) << 56;
    if len >= 8 {
        // len 8 gives a shift by 64, which must clear.
        let high = word(&text[len - 8..]);
        let shift = 8 * (16 - len) as u32;
        (
            word(text),
            if shift == 64 { 0 } else { high >> shift } | top,
        )
    } else if len >= 4 {
        (half(text) | half(&text[len - 4..]) << (8 * (len - 4)), top)
    } else if len > 0 {
        // 1..=3 bytes: first, middle, last (they may coincide).
        let (first, middle, last) = (
            u64::from(text[0]),
            u64::from(text[len / 2]),
            u64::from(text[len - 1]),
        );
        (
            first | middle << (8 * (len / 2)) | last << (8 * (len - 1)),
            top,
        )
    } else {
        (0, top)
    }
}

/// Whole numbers nearer to 0 than this have 14 digits at most: with a sign their text is inline.
const INTEGER_LIMIT: u64 = 100_000_000_000_000;

/// Eight decimal digits, the first one lowest, each in a byte of its own: halved three times, all parts at once.
#[inline]
fn eight_digits(n: u64) -> u64 {
    let halves = (n / 10_000) | ((n % 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let quarters = hundreds | (halves - hundreds * 100) << 16;
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | (quarters - tens * 10) << 8
}

/// The key cell of an integer's decimal text, without the text.
#[inline]
pub(crate) fn integer_words(n: i64) -> Option<KeyWords> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    const EIGHT: u64 = 100_000_000;
    let size = n.unsigned_abs();
    if size >= INTEGER_LIMIT {
        return None;
    }
    let leading = |digits: u64| (digits | 1 << 56).trailing_zeros() / 8;
    let (mut low, mut high, mut len);
    if size < EIGHT {
        let digits = eight_digits(size);
        let skipped = leading(digits);
        (low, high) = ((digits | ZEROS) >> (8 * skipped), 0);
        len = 8 - skipped;
    } else {
        let digits = eight_digits(size / EIGHT);
        let skipped = leading(digits);
        let text =
            u128::from(digits | ZEROS) | u128::from(eight_digits(size % EIGHT) | ZEROS) << 64;
        let text = text >> (8 * skipped);
        (low, high) = (text as u64, (text >> 64) as u64);
        len = 16 - skipped;
    }
    if n < 0 {
        high = high << 8 | low >> 56;
        low = low << 8 | u64::from(b'-');
        len += 1;
    }
    Some(KeyWords(low, high | u64::from(len) << 56))
}

/// The integer whose decimal text this is, in the one form that [`integer_words`] gives it.
pub(crate) fn integer_of(text: &[u8]) -> Option<i64> {
    let (digits, sign) = match text {
        [b'-', digits @ ..] => (digits, -1),
        digits => (digits, 1),
    };
    let n = match digits {
        b"0" if sign == 1 => 0,
        [b'1'..=b'9', ..] if digits.len() <= 14 && digits.iter().all(u8::is_ascii_digit) => digits
            .iter()
            .fold(0, |n, digit| n * 10 + i64::from(digit - b'0')),
        _ => return None,
    };
    Some(sign * n)
}

impl KeyWords {
    /// None for text that is too long to be inline.
    #[inline(always)]
    pub(crate) fn inline(text: &[u8]) -> Option<KeyWords> {
        (text.len() <= INLINE_BYTES_MAX).then(|| {
            let (low, high) = inline_words(text, text.len() as u8);
            KeyWords(low, high)
        })
    }

    /// For text of this length that is too long to be inline, all but where it lies.
    #[inline]
    pub(crate) fn elsewhere(len: usize) -> KeyWords {
        KeyWords(0, u64::from(KEY_BLOB) << 56 | len as u64 & BLOB_LEN_MASK)
    }

    /// As [`KeyWords::inline`] for the text at `at..at + len` of a longer one: what lies behind it makes lengths no matter of branches,
    /// which nobody can foresee.
    #[inline(always)]
    pub(crate) fn inline_within(text: &[u8], at: usize, len: usize) -> Option<KeyWords> {
        match text.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
            Some(bytes) if len <= INLINE_BYTES_MAX => {
                let kept = u128::from_le_bytes(*bytes) & ((1 << (8 * len)) - 1);
                Some(KeyWords(
                    kept as u64,
                    (kept >> 64) as u64 | (len as u64) << 56,
                ))
            }
            _ => KeyWords::inline(text.get(at..at + len)?),
        }
    }

    pub(crate) fn tag(self) -> u8 {
        (self.1 >> 56) as u8
    }

    pub(crate) fn is_blob(self) -> bool {
        self.tag() == KEY_BLOB
    }

    /// Whether its text begins like a whole number's.
    #[inline(always)]
    pub(crate) fn may_be_integer(self) -> bool {
        // A block's first byte here is that of an offset; it is told apart later.
        (b'-'..=b'9').contains(&(self.0 as u8))
    }

    /// The whole number whose text it is.
    pub(crate) fn integer(self) -> Option<i64> {
        let len = usize::from(self.tag());
        if len > INLINE_BYTES_MAX || !self.may_be_integer() {
            return None;
        }
        let mut text = [0; 16];
        text[..8].copy_from_slice(&self.0.to_le_bytes());
        text[8..].copy_from_slice(&self.1.to_le_bytes());
        integer_of(&text[..len])
    }

    /// Offset and length of a blob key.
    pub(crate) fn blob(self) -> (u64, u64) {
        (self.0, self.1 & BLOB_LEN_MASK)
    }
}

impl Heap {
    /// The text of a key cell. `buffer` holds it if it is inline.
    pub(crate) fn key_text<'a>(
        &'a self,
        key: KeyWords,
        buffer: &'a mut [u8; 16],
    ) -> Result<&'a [u8]> {
        if key.is_blob() {
            let (offset, len) = key.blob();
            return self.region.bytes(offset, len);
        }
        buffer[..8].copy_from_slice(&key.0.to_le_bytes());
        buffer[8..].copy_from_slice(&key.1.to_le_bytes());
        let len = usize::from(key.tag());
        if len > INLINE_BYTES_MAX {
            return Err(self
                .region
                .damaged(0, format!("a key with the unknown tag {len:#x}")));
        }
        Ok(&buffer[..len])
    }

    /// Copies text into a block of its own.
    pub(crate) fn store_blob(&mut self, text: &[u8]) -> Result<u64> {
        self.count_long(text);
        if text.len() > TEXT_BYTES_MAX {
            let wanted_bytes = text.len() as u64;
            return Err(ErrorKind::Full {
                path: "(text)".into(),
                limit_bytes: TEXT_BYTES_MAX as u64,
                wanted_bytes,
            }
            .into());
        }
        let offset = self.alloc(text.len() as u64, false)?;
        self.region
            .bytes_mut(offset, text.len() as u64)?
            .copy_from_slice(text);
        Ok(offset)
    }

    /// The value in a cell.
    ///
    /// # Errors
    /// When the heap is damaged.
    #[inline]
    pub fn cell(&self, slot: Slot) -> Result<Cell<'_>> {
        let high: u64 = self.region.get(slot.0 + 8)?;
        let tag = (high >> 56) as u8;
        if tag & 0xf0 == VALUE_INLINE || tag & 0xf0 == VALUE_INLINE_MAYBE_NUM {
            let bytes = self.region.bytes(slot.0, u64::from(tag & 0xf))?;
            return Ok(Cell::Str {
                bytes,
                maybe_num: tag & 0xf0 == VALUE_INLINE_MAYBE_NUM,
            });
        }
        if tag & 0xf0 == VALUE_INLINE_OTHER {
            return self.other(slot, slot.0, u64::from(tag & 0xf));
        }
        let low: u64 = self.region.get(slot.0)?;
        match tag {
            VALUE_BLOB_OTHER => self.other(slot, low, high & BLOB_LEN_MASK),
            VALUE_UNINIT => Ok(Cell::Uninit),
            VALUE_NUM => Ok(Cell::Num(f64::from_bits(low))),
            VALUE_BLOB | VALUE_BLOB_MAYBE_NUM => {
                let bytes = self.region.bytes(low, high & BLOB_LEN_MASK)?;
                Ok(Cell::Str {
                    bytes,
                    maybe_num: tag == VALUE_BLOB_MAYBE_NUM,
                })
            }
            VALUE_TABLE => Ok(Cell::Table(Table(self.inside(low)?))),
            _ => Err(self
                .region
                .damaged(slot.0, format!("a value with the unknown tag {tag:#x}"))),
        }
    }

    #[cold]
    fn other(&self, slot: Slot, offset: u64, len: u64) -> Result<Cell<'_>> {
        match self.region.bytes(offset, len)? {
            [] => Err(self
                .region
                .damaged(slot.0, "a value of another kind that does not say which")),
            bytes => Ok(Cell::Other(bytes)),
        }
    }

    /// The number in a cell, if it holds one: the fast path of `n[k]++`.
    #[inline(always)]
    pub fn cell_num(&self, slot: Slot) -> Option<f64> {
        let high: u64 = self.region.get(slot.0 + 8).ok()?;
        if (high >> 56) as u8 != VALUE_NUM {
            return None;
        }
        self.region.get(slot.0).ok().map(f64::from_bits)
    }

    /// Stores a number in a cell that holds one: the fast path of `n[k]++`. False, and nothing done, if it holds another kind.
    ///
    /// # Errors
    /// When the heap is damaged.
    #[inline(always)]
    pub fn cell_replace_num(&mut self, slot: Slot, n: f64) -> Result<bool> {
        let high: u64 = self.region.get(slot.0 + 8)?;
        if (high >> 56) as u8 != VALUE_NUM {
            return Ok(false);
        }
        self.region.put(slot.0, n.to_bits())?;
        Ok(true)
    }

    /// Stores a number in a cell.
    ///
    /// # Errors
    /// When the heap is damaged.
    #[inline]
    pub fn cell_set_num(&mut self, slot: Slot, n: f64) -> Result<()> {
        if self.cell_replace_num(slot, n)? {
            return Ok(());
        }
        self.cell_set(slot, Cell::Num(n))
    }

    /// Stores a value in a cell; text is copied in, and what was there is freed.
    ///
    /// # Errors
    /// When the heap is full or damaged; then the cell holds what it held.
    #[inline]
    pub fn cell_set(&mut self, slot: Slot, value: Cell<'_>) -> Result<()> {
        if let Cell::Str { bytes, maybe_num } = value
            && bytes.len() <= INLINE_BYTES_MAX
        {
            let old_high: u64 = self.region.get(slot.0 + 8)?;
            if !owns((old_high >> 56) as u8) {
                let kind = if maybe_num {
                    VALUE_INLINE_MAYBE_NUM
                } else {
                    VALUE_INLINE
                };
                let (low, high) = inline_words(bytes, kind | bytes.len() as u8);
                let both = u128::from(low) | u128::from(high) << 64;
                return self.region.put(slot.0, both);
            }
        }
        self.cell_set_any(slot, value)
    }

    #[inline(never)]
    fn cell_set_any(&mut self, slot: Slot, value: Cell<'_>) -> Result<()> {
        let (low, high) = match value {
            Cell::Uninit => (0, u64::from(VALUE_UNINIT) << 56),
            Cell::Num(n) => (n.to_bits(), u64::from(VALUE_NUM) << 56),
            Cell::Table(table) => (table.0, u64::from(VALUE_TABLE) << 56),
            Cell::Str { bytes, maybe_num } => {
                let tags = if maybe_num {
                    (VALUE_INLINE_MAYBE_NUM, VALUE_BLOB_MAYBE_NUM)
                } else {
                    (VALUE_INLINE, VALUE_BLOB)
                };
                self.text_words(slot, bytes, tags)?
            }
            Cell::Other(bytes) => {
                self.text_words(slot, bytes, (VALUE_INLINE_OTHER, VALUE_BLOB_OTHER))?
            }
        };
        let old_low: u64 = self.region.get(slot.0)?;
        let old_high: u64 = self.region.get(slot.0 + 8)?;
        let refers = match value {
            Cell::Table(_) => true,
            Cell::Str { bytes, .. } | Cell::Other(bytes) => bytes.len() > INLINE_BYTES_MAX,
            Cell::Uninit | Cell::Num(_) => false,
        };
        if !(refers && old_low == low) {
            self.free_value(old_low, old_high)?;
        }
        self.region
            .put(slot.0, u128::from(low) | u128::from(high) << 64)
    }

    /// Takes a table out of a cell, which holds nothing afterwards; the table is the caller's to free.
    ///
    /// # Errors
    /// When the heap is damaged.
    pub fn cell_take_table(&mut self, slot: Slot) -> Result<Option<Table>> {
        let Cell::Table(table) = self.cell(slot)? else {
            return Ok(None);
        };
        self.region.put(slot.0, u128::from(VALUE_UNINIT) << 120)?;
        Ok(Some(table))
    }

    /// The words of a text: in the cell or in a block, with the one or the other tag.
    #[inline]
    fn text_words(&mut self, slot: Slot, text: &[u8], tags: (u8, u8)) -> Result<(u64, u64)> {
        if text.len() <= INLINE_BYTES_MAX {
            return Ok(inline_words(text, tags.0 | text.len() as u8));
        }
        let high = text.len() as u64 | u64::from(tags.1) << 56;
        Ok((self.replace_blob(slot, text)?, high))
    }

    /// A block with `text` for this cell: the one that it has, if the text fits well, else a new one.
    fn replace_blob(&mut self, slot: Slot, text: &[u8]) -> Result<u64> {
        let old_low: u64 = self.region.get(slot.0)?;
        let old_tag = (self.region.get::<u64>(slot.0 + 8)? >> 56) as u8;
        if is_blob(old_tag) {
            let block = self.block_at(old_low)?;
            let len = text.len() as u64;
            if block.start == old_low && len <= block.bytes && len > block.bytes / 2 {
                self.count_long(text);
                self.region.bytes_mut(old_low, len)?.copy_from_slice(text);
                return Ok(old_low);
            }
        }
        self.store_blob(text)
    }

    fn count_long(&mut self, text: &[u8]) {
        self.long_texts += u64::from(text.len() >= LONG_TEXT_BYTES);
    }

    /// Frees what a value cell refers to.
    pub(crate) fn free_value(&mut self, low: u64, high: u64) -> Result<()> {
        match (high >> 56) as u8 {
            tag if is_blob(tag) => self.free(low),
            VALUE_TABLE => self.table_free(Table(low)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_words_are_the_text_and_its_length() {
        let text = b"abcdefghijklmno";
        for len in 0..=15 {
            let mut wanted = [0; 16];
            wanted[..len].copy_from_slice(&text[..len]);
            wanted[15] = len as u8;
            let words = KeyWords::inline(&text[..len]).unwrap();
            assert_eq!(
                (words.0, words.1),
                (word(&wanted), word(&wanted[8..])),
                "{len}"
            );
            for behind in [0, 1, 20] {
                let long = [b"before ", &text[..len], &vec![b'x'; behind]].concat();
                assert_eq!(KeyWords::inline_within(&long, 7, len), Some(words));
            }
        }
        assert_eq!(KeyWords::inline_within(&[b'x'; 40], 3, 16), None);
    }

    fn same(n: i64) {
        let words = integer_words(n);
        assert_eq!(words, KeyWords::inline(n.to_string().as_bytes()), "{n}");
        assert_eq!(words.and_then(KeyWords::integer), Some(n));
    }

    #[test]
    fn texts_of_whole_numbers_are_numbers() {
        for text in [
            "",
            "-",
            "-0",
            "01",
            "-01",
            "00",
            "1.0",
            "+1",
            "1e3",
            " 1",
            "1 ",
            "0x1",
            "/1",
            "100000000000000",
            "-100000000000000",
            "1-",
            "--1",
        ] {
            assert_eq!(integer_of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn integers_have_the_key_of_their_text() {
        for n in [
            0,
            1,
            9,
            10,
            12_345_678,
            123_456_789,
            99_999_999_999_999,
            -1,
            -10,
            -99_999_999_999_999,
        ] {
            same(n);
        }
        let mut power = 1;
        while power <= 10_000_000_000_000 {
            for n in [power - 1, power, power * 3 + 7, power * 9 / 7] {
                same(n);
                same(-n);
            }
            power *= 10;
        }
        (0..300_000).for_each(same);
        assert_eq!(integer_words(100_000_000_000_000), None);
        assert_eq!(integer_words(i64::MIN), None);
    }
}
