//! `%s` and `%c`.
//!
//! Invariant: widths and precisions count characters, but for a character that is made from its number. Called by `format` alone.

use super::layout::pad;
use super::numbers::number_of;
use super::{Arg, Spec};
use crate::exact;
use crate::text::{self, Charset};

/// `%s`: at most `precision` characters, padded with blanks.
pub(super) fn write_text(cs: Charset, spec: &Spec, s: &[u8], out: &mut Vec<u8>) {
    let s = match spec.precision {
        Some(precision) if precision < s.len() => &s[..text::char_to_byte(cs, s, precision)],
        _ => s,
    };
    if spec.width == 0 {
        out.extend_from_slice(s);
        return;
    }
    let fill = spec.width.saturating_sub(text::char_count(cs, s));
    if !spec.flags.left {
        pad(out, b' ', fill);
    }
    out.extend_from_slice(s);
    if spec.flags.left {
        pad(out, b' ', fill);
    }
}

/// `%c`: the character with that number, or the first of a string (NUL if it is empty, as gawk and mawk have it).
pub(super) fn write_char(cs: Charset, spec: &Spec, arg: Arg<'_>, out: &mut Vec<u8>) {
    let mut encoded = [0; 6];
    let mut charset = cs;
    let one: &[u8] = match arg {
        Arg::Str([]) => b"\0",
        Arg::Str(s) => &s[..text::next_char(cs, s).1],
        Arg::Num(_) | Arg::StrNum(_) | Arg::Exact(_) => {
            // Modulo 2^32, then what UTF-8 can hold; the rest falls back to its lowest byte (gawk in glibc's C.UTF-8).
            let code = match arg {
                Arg::Exact(n) => exact::format::rounded(n, exact::rules().unwrap_or_default()),
                arg => number_of(arg).trunc(),
            };
            let code = (code % 4_294_967_296.0) as i64 as u32;
            let len = encode(cs, code, &mut encoded);
            // gawk counts the width of a character that is made in bytes.
            charset = Charset::Bytes;
            &encoded[..len]
        }
    };
    write_text(
        charset,
        &Spec {
            precision: None,
            ..*spec
        },
        one,
        out,
    );
}

/// UTF-8 of `code` in its original form (RFC 2279), which glibc writes for codes past Unicode's end.
fn encode(cs: Charset, code: u32, out: &mut [u8; 6]) -> usize {
    let len = match code {
        _ if cs == Charset::Bytes => 1,
        0xD800..=0xDFFF => 1,
        0..=0x7F => 1,
        0x80..=0x7FF => 2,
        0x800..=0xFFFF => 3,
        0x1_0000..=0x1F_FFFF => 4,
        0x20_0000..=0x3FF_FFFF => 5,
        0x400_0000..=0x7FFF_FFFF => 6,
        _ => 1,
    };
    if len == 1 {
        out[0] = code as u8;
        return 1;
    }
    for (i, byte) in out[..len].iter_mut().rev().enumerate() {
        *byte = 0x80 | (code >> (6 * i) & 0x3F) as u8;
    }
    out[0] |= (0xFF00 >> len) as u8;
    len
}
