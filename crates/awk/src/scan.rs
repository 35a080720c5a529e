//! Bytes found sixteen at a time: what cuts text into short pieces finds most of them without a call or a loop for each.
//!
//! On x86-64 by SSE2, which every such processor has; elsewhere by arithmetic on words.

/// Bytes looked at together.
pub const STEP: usize = 16;
/// The bits of a whole chunk.
pub const ALL: u32 = (1 << STEP) - 1;

/// Bytes to look at.
#[derive(Clone, Copy)]
pub struct Chunk([u64; 2]);

impl Chunk {
    /// The first bytes of a text and the bits that stand for them: all, or fewer where the text is shorter.
    #[inline(always)]
    pub fn of(text: &[u8]) -> (Chunk, u32) {
        match text.first_chunk::<STEP>() {
            Some(bytes) => {
                let words = [word(bytes), word(&bytes[8..])];
                (Chunk(words), ALL)
            }
            None => (Chunk::short(text), (1 << text.len()) - 1),
        }
    }

    /// A text of fewer than [`STEP`] bytes, zeros behind it; by loads that overlap, not a copy of variable length.
    #[inline(always)]
    fn short(text: &[u8]) -> Chunk {
        let len = text.len();
        if len >= 8 {
            // 8 bytes: a shift by all 64 bits is none of the processor's.
            let high = word(&text[len - 8..]);
            return Chunk([word(text), high.unbounded_shr(8 * (STEP - len) as u32)]);
        }
        if len >= 4 {
            let high = half(&text[len - 4..]);
            return Chunk([half(text) | high << (8 * (len - 4)), 0]);
        }
        let low = match *text {
            [] => 0,
            [a] => u64::from(a),
            [a, b] => u64::from(a) | u64::from(b) << 8,
            [a, b, c, ..] => u64::from(a) | u64::from(b) << 8 | u64::from(c) << 16,
        };
        Chunk([low, 0])
    }

    /// Bit i of the result: `byte` stands at i.
    #[inline(always)]
    pub fn places(self, byte: u8) -> u32 {
        equal(self.0, byte)
    }

    /// The same for space, tab and newline.
    #[inline(always)]
    pub fn blanks(self) -> u32 {
        equal(self.0, b' ') | equal(self.0, b'\t') | equal(self.0, b'\n')
    }
}

/// Whether a text has ASCII alone: as the standard library's, in half the instructions for lines of text.
#[inline]
pub fn is_ascii(text: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut rest = text;
    while let Some((block, more)) = rest.split_first_chunk::<BLOCK>() {
        let low = word(block) | word(&block[8..]) | word(&block[16..]) | word(&block[24..]);
        let high =
            word(&block[32..]) | word(&block[40..]) | word(&block[48..]) | word(&block[56..]);
        if (low | high) & HIGH != 0 {
            return false;
        }
        rest = more;
    }
    let mut all = 0;
    while let Some((chunk, more)) = rest.split_first_chunk::<STEP>() {
        all |= word(chunk) | word(&chunk[8..]);
        rest = more;
    }
    let (Chunk([low, high]), _) = Chunk::of(rest);
    (all | low | high) & HIGH == 0
}

/// Bytes of a block.
pub const BLOCK: usize = 4 * STEP;

/// Bit i of the result: `byte` stands at i. For text in which it is rare: most blocks have none.
#[inline(always)]
pub fn places_in_block(block: &[u8; BLOCK], byte: u8) -> u64 {
    let part = |at: usize| {
        let words = [word(&block[at..]), word(&block[at + 8..])];
        u64::from(equal(words, byte)) << at
    };
    part(0) | part(STEP) | part(2 * STEP) | part(3 * STEP)
}

#[inline(always)]
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

#[inline(always)]
fn half(bytes: &[u8]) -> u64 {
    let half = bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
    u64::from(half)
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[allow(unsafe_code)] // docs/decisions/008-bytes-at-once.md
#[inline(always)]
fn equal(words: [u64; 2], byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: these instructions are there (the condition above), and touch no memory.
    let bits = unsafe {
        let text = _mm_set_epi64x(words[1].cast_signed(), words[0].cast_signed());
        _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(byte.cast_signed())))
    };
    bits.cast_unsigned()
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
#[inline(always)]
fn equal(words: [u64; 2], byte: u8) -> u32 {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut bits = 0;
    for (at, word) in words.into_iter().enumerate() {
        let differ = word ^ (ONES * u64::from(byte));
        // The top bit of each byte that is zero, exactly.
        let zero = !(((differ & LOW) + LOW) | differ | LOW);
        // The eight top bits side by side.
        let packed = (zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits |= (packed as u32) << (8 * at);
    }
    bits
}

/// The places of `byte` in a text, from left to right.
pub struct Places<'a> {
    text: &'a [u8],
    byte: u8,
    /// Where the chunk begins that `bits` are of, or the next one.
    base: usize,
    bits: u32,
}

impl<'a> Places<'a> {
    /// Of `byte` in `text`.
    #[inline(always)]
    pub fn new(text: &'a [u8], byte: u8) -> Places<'a> {
        let mut places = Places {
            text,
            byte,
            base: 0,
            bits: 0,
        };
        places.look();
        places
    }

    #[inline(always)]
    fn look(&mut self) {
        let (chunk, valid) = Chunk::of(&self.text[self.base..]);
        self.bits = chunk.places(self.byte) & valid;
    }
}

impl Iterator for Places<'_> {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        while self.bits == 0 {
            if self.text.len() - self.base <= STEP {
                return None;
            }
            self.base += STEP;
            self.look();
        }
        let at = self.base + self.bits.trailing_zeros() as usize;
        self.bits &= self.bits - 1;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found() {
        let mut state = 7u64;
        for len in 0..200 {
            let text: Vec<u8> = (0..len)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    b" \t\na\0\x20\x80\xff"[(state >> 60) as usize % 8]
                })
                .collect();
            for byte in [b' ', b'\t', 0, 0xff, 0x80, b'z'] {
                let wanted: Vec<usize> = (0..len).filter(|at| text[*at] == byte).collect();
                assert_eq!(Places::new(&text, byte).collect::<Vec<_>>(), wanted);
            }
            assert_eq!(is_ascii(&text), text.is_ascii());
            let plain: Vec<u8> = text.iter().map(|b| b & 0x7f).collect();
            assert!(is_ascii(&plain));
            for at in 0..len {
                let mut other = plain.clone();
                other[at] |= 0x80;
                assert!(!is_ascii(&other), "{at} of {len}");
            }
            if let Some(block) = text.first_chunk() {
                let wanted = block
                    .iter()
                    .rfold(0, |bits, b| bits << 1 | u64::from(*b == b'\t'));
                assert_eq!(places_in_block(block, b'\t'), wanted);
            }
            let (chunk, valid) = Chunk::of(&text);
            let wanted = text.iter().take(STEP).enumerate().fold(0, |bits, (at, b)| {
                bits | u32::from(matches!(b, b' ' | b'\t' | b'\n')) << at
            });
            assert_eq!(chunk.blanks() & valid, wanted);
        }
    }
}
