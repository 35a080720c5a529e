//! Zeros, signs and blanks around digits that are written already.
//!
//! Invariant: only what stands from `from` on is touched. Called by the writers of numbers and texts, also by `exact::format`.

use super::Spec;

pub(crate) fn pad(out: &mut Vec<u8>, byte: u8, count: usize) {
    out.resize(out.len() + count, byte);
}

/// Digits with sign, prefix and padding, in the order in which they stand: nothing is moved afterwards. For letters that are small.
#[inline]
pub(super) fn put(
    out: &mut Vec<u8>,
    spec: &Spec,
    sign: &[u8],
    prefix: &[u8],
    digits: &[u8],
    zeros: bool,
) {
    let len = sign.len() + prefix.len() + digits.len();
    let fill = spec.width.saturating_sub(len);
    if fill > 0 && !spec.flags.left && !zeros {
        pad(out, b' ', fill);
    }
    out.extend_from_slice(sign);
    out.extend_from_slice(prefix);
    if fill > 0 && zeros {
        pad(out, b'0', fill);
    }
    out.extend_from_slice(digits);
    if fill > 0 && spec.flags.left {
        pad(out, b' ', fill);
    }
}

/// Puts zeros before the digits from `from` on until there are `precision` of them.
pub(crate) fn leading_zeros(out: &mut Vec<u8>, from: usize, precision: Option<usize>) {
    let digits = out.len() - from;
    if let Some(precision) = precision
        && precision > digits
    {
        insert(out, from, b'0', precision - digits);
    }
}

pub(super) fn insert(out: &mut Vec<u8>, at: usize, byte: u8, count: usize) {
    let end = out.len();
    out.resize(end + count, byte);
    out.copy_within(at..end, at + count);
    out[at..at + count].fill(byte);
}

/// Puts sign, prefix and padding around the digits from `from` on, and makes them upper case if the letter is.
#[inline]
pub(crate) fn finish(
    out: &mut Vec<u8>,
    from: usize,
    spec: &Spec,
    sign: &[u8],
    prefix: &[u8],
    zeros: bool,
) {
    if !sign.is_empty() || !prefix.is_empty() {
        insert(out, from, b' ', sign.len() + prefix.len());
        out[from..from + sign.len()].copy_from_slice(sign);
        out[from + sign.len()..from + sign.len() + prefix.len()].copy_from_slice(prefix);
    }
    let fill = spec.width.saturating_sub(out.len() - from);
    if fill > 0 {
        if spec.flags.left {
            pad(out, b' ', fill);
        } else if zeros {
            insert(out, from + sign.len() + prefix.len(), b'0', fill);
        } else {
            insert(out, from, b' ', fill);
        }
    }
    if spec.letter.is_ascii_uppercase() {
        out[from..].make_ascii_uppercase();
    }
}
