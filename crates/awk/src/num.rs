//! Numbers from text, and integers to text.
//!
//! Invariant: a value read here is the double nearest to the decimal that was written (C's `strtod` without hexadecimal
//! floats), and an integer written here has exactly that double's digits. Called by the VM and `format`.

use std::borrow::Cow;
use std::cell::Cell;
use std::io::Write as _;

/// Which numbers text from input may be, besides decimal ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InputForms {
    /// None.
    #[default]
    Decimal,
    /// `--non-decimal-data`: `0x1A` and `011`.
    NonDecimal,
    /// `--posix`: what C's `strtod` reads: hexadecimal floats, `inf` and `nan` without a sign.
    Posix,
}

thread_local! {
    // The machine of a thread converts values where no settings are at hand (comparisons of sorts, keys), and the forms never
    // change during a run.
    static INPUT_FORMS: Cell<InputForms> = const { Cell::new(InputForms::Decimal) };
    // Likewise what the decimal point in data is: the first byte of it, and the others, with zeros behind them.
    static POINT: Cell<u8> = const { Cell::new(b'.') };
    static POINT_REST: Cell<[u8; 3]> = const { Cell::new([0; 3]) };
}

/// The number that `len` bytes of `text` from `at` on are, as [`parse_prefix`]: short for a few digits.
#[inline]
pub fn of_field(text: &[u8], at: usize, len: usize) -> f64 {
    const DIGITS_MAX: usize = 15; // whatever they are, a double holds them
    let field = &text[at..at + len];
    // With a zero in front it may be of another form.
    if (1..=DIGITS_MAX).contains(&len) && (field[0] != b'0' || len == 1) {
        let (mut n, mut all) = (0, true);
        for &digit in field {
            let digit = digit.wrapping_sub(b'0');
            all &= digit < 10;
            n = n * 10 + u64::from(digit & 15);
        }
        if all {
            return n as f64;
        }
    }
    parse_prefix(field)
}

/// Says which forms this thread's conversions accept from now on.
pub fn set_input_forms(forms: InputForms) {
    INPUT_FORMS.set(forms);
}

/// Says what a decimal point is for this thread's conversions from now on: one character that is not ASCII, or a byte that
/// no number has.
pub fn set_point(point: &[u8]) {
    let mut rest = [0; 3];
    let (first, others) = point.split_first().unwrap_or((&b'.', &[]));
    for (slot, byte) in rest.iter_mut().zip(others) {
        *slot = *byte;
    }
    POINT.set(*first);
    POINT_REST.set(rest);
}

/// Where numbers come from: decides what a decimal point is. A type and not a value, so that reading data costs one load
/// for a number that has a point, and none for others.
trait Origin {
    /// The first byte of the point.
    fn point() -> u8;

    /// How many bytes the point at the front of `s` has, whose first byte is that of one.
    fn point_len(s: &[u8]) -> usize;
}

/// Input, variables, strings.
struct Data;

/// Program text.
struct Program;

impl Origin for Data {
    #[inline]
    fn point() -> u8 {
        POINT.get()
    }

    #[inline]
    fn point_len(s: &[u8]) -> usize {
        if s[0] < 0x80 { 1 } else { long_point(s) }
    }
}

impl Origin for Program {
    #[inline]
    fn point() -> u8 {
        b'.'
    }

    #[inline]
    fn point_len(_: &[u8]) -> usize {
        1
    }
}

/// 0 if the others of its bytes do not follow.
#[cold]
fn long_point(s: &[u8]) -> usize {
    let rest = POINT_REST.get();
    let len = rest.iter().take_while(|b| **b != 0).count();
    if s[1..].starts_with(&rest[..len]) {
        len + 1
    } else {
        0
    }
}

/// A number in data with a point for whatever the decimal point is.
pub(crate) fn with_point(number: &[u8]) -> Cow<'_, [u8]> {
    let point = POINT.get();
    match memchr::memchr(point, number) {
        Some(at) if point != b'.' => {
            let len = Data::point_len(&number[at..]);
            Cow::Owned([&number[..at], b".", &number[at + len..]].concat())
        }
        _ => Cow::Borrowed(number),
    }
}

/// Whether a byte behind digits says that they are of a decimal number.
pub(crate) fn continues_decimal(b: u8) -> bool {
    b == POINT.get() || matches!(b, b'e' | b'E')
}

/// Powers of ten that a double holds exactly.
const POW10: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// White space as C's `isspace` has it, which is what `strtod` skips.
#[inline]
fn is_blank(b: u8) -> bool {
    b == b' ' || (b'\t'..=b'\r').contains(&b)
}

fn skip_blanks(s: &[u8], mut at: usize) -> usize {
    while at < s.len() && is_blank(s[at]) {
        at += 1;
    }
    at
}

/// The number that `s` begins with, after blanks; 0 if there is none.
///
/// Decimal only: `0x1A` is 0. The decimal point is that of [`set_point`]. The signed words `+inf`, `-inf`, `+nan`, `-nan` count if nothing but blanks follows, as
/// in gawk; without a sign they are 0.
#[inline]
pub fn parse_prefix(s: &[u8]) -> f64 {
    match scan(s) {
        Some((value, _)) => value,
        None => 0.0,
    }
}

/// The value of `s` if all of it is a number, blanks around it allowed: the test for POSIX's *strnum*.
#[inline]
pub fn looks_numeric(s: &[u8]) -> Option<f64> {
    // Most fields that are no numbers say so in their first byte.
    match *s.first()? {
        b'0'..=b'9' | b'+' | b'-' | b'.' | b' ' | b'\t'..=b'\r' => {}
        // The first bytes of other points.
        first @ (b',' | 0xd9) if first == POINT.get() => {}
        b'i' | b'I' | b'n' | b'N' if INPUT_FORMS.get() == InputForms::Posix => {}
        _ => return None,
    }
    let (value, end) = scan(s)?;
    (end == s.len() || skip_blanks(s, end) == s.len()).then_some(value)
}

/// The value of a number in program text. The lexer decides how far it reaches; a `0x` prefix makes it hexadecimal,
/// a leading zero does not make it octal.
pub fn parse_literal(s: &str) -> f64 {
    let hex = s.strip_prefix("0x").or_else(|| s.strip_prefix("0X"));
    match hex {
        Some(digits) => digits
            .chars()
            .map_while(|c| c.to_digit(16))
            .fold(0.0, |value, digit| value * 16.0 + f64::from(digit)),
        None => scan_literal(s.as_bytes()).map_or(0.0, |(value, _)| value),
    }
}

/// Whether digits that begin a number in input make an octal one.
pub(crate) fn is_octal(digits: &[u8]) -> bool {
    INPUT_FORMS.get() == InputForms::NonDecimal
        && digits.len() > 1
        && digits[0] == b'0'
        && digits.iter().all(|b| (b'0'..=b'7').contains(b))
}

/// Value and end of the number at the front of `s`, blanks before it included.
#[inline]
pub(crate) fn scan(s: &[u8]) -> Option<(f64, usize)> {
    scan_from::<Data>(s)
}

/// The same in program text, where a point is a point.
pub(crate) fn scan_literal(s: &[u8]) -> Option<(f64, usize)> {
    scan_from::<Program>(s)
}

#[inline]
fn scan_from<O: Origin>(s: &[u8]) -> Option<(f64, usize)> {
    let mut at = 0;
    while at < s.len() && is_blank(s[at]) {
        at += 1;
    }
    let start = at;
    let mut negative = false;
    if at < s.len() && (s[at] == b'-' || s[at] == b'+') {
        negative = s[at] == b'-';
        at += 1;
    }
    if at + 1 < s.len()
        && s[at] == b'0'
        && matches!(s[at + 1], b'0'..=b'9' | b'x' | b'X')
        && INPUT_FORMS.get() != InputForms::Decimal
        && let Some((magnitude, end)) = scan_other_base::<O>(&s[at..])
    {
        let value = if negative { -magnitude } else { magnitude };
        return Some((value, at + end));
    }
    let mut mantissa: u64 = 0;
    let digits_from = at;
    while at < s.len() {
        let digit = s[at].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
        at += 1;
    }
    let mut digits = at - digits_from;
    let mut scale = 0i64;
    if at < s.len()
        && s[at] == O::point()
        && let len @ 1.. = O::point_len(&s[at..])
    {
        let fraction_from = at + len;
        let mut next = fraction_from;
        while next < s.len() {
            let digit = s[next].wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            next += 1;
        }
        let fraction = next - fraction_from;
        if digits + fraction > 0 {
            digits += fraction;
            scale = -(fraction as i64);
            at = next;
        }
    }
    if digits == 0 {
        return scan_word(s, digits_from, negative);
    }
    if at < s.len() && (s[at] == b'e' || s[at] == b'E') {
        at = scan_exponent(s, at, &mut scale);
    }
    // Both operands are exact, so one rounding is made and the result is the nearest double (Clinger, 1990). Leading
    // zeros make `digits` an overestimate, which only costs time.
    let value = if digits <= 19 && mantissa <= 1 << 53 && scale.unsigned_abs() <= 22 {
        let whole = mantissa as f64;
        let power = POW10[scale.unsigned_abs() as usize];
        let magnitude = if scale < 0 {
            whole / power
        } else {
            whole * power
        };
        match negative {
            // A hexadecimal number is no number here: not even a negative zero (gawk).
            true if at == digits_from + 1
                && s[digits_from] == b'0'
                && matches!(s.get(at), Some(b'x' | b'X')) =>
            {
                0.0
            }
            true => -magnitude,
            false => magnitude,
        }
    } else {
        parse_slowly::<O>(&s[start..at])
    };
    Some((value, at))
}

/// Reads an exponent at `at`, which is on the `e`; gives back the end of the number, unmoved if no digits follow.
#[inline]
fn scan_exponent(s: &[u8], at: usize, scale: &mut i64) -> usize {
    let mut next = at + 1;
    let mut negative = false;
    if next < s.len() && (s[next] == b'-' || s[next] == b'+') {
        negative = s[next] == b'-';
        next += 1;
    }
    let from = next;
    let mut exponent = 0i64;
    while next < s.len() && s[next].is_ascii_digit() {
        // Saturates: past this the value is zero or infinite however many digits precede it.
        exponent = (exponent * 10 + i64::from(s[next] - b'0')).min(1 << 40);
        next += 1;
    }
    if next == from {
        return at;
    }
    *scale += if negative { -exponent } else { exponent };
    next
}

#[cold]
fn parse_slowly<O: Origin>(number: &[u8]) -> f64 {
    let number = if O::point() == b'.' {
        Cow::Borrowed(number)
    } else {
        with_point(number)
    };
    // `scan` has seen only ASCII signs, digits, point and exponent, all of which `f64` reads.
    std::str::from_utf8(&number)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0.0)
}

/// Value and end of a number that begins with a zero, in another base; `None` if it is decimal after all.
#[cold]
fn scan_other_base<O: Origin>(s: &[u8]) -> Option<(f64, usize)> {
    let posix = INPUT_FORMS.get() == InputForms::Posix;
    let hex = |b: &u8| (*b as char).to_digit(16).map(f64::from);
    if matches!(s[1], b'x' | b'X') {
        let mut at = 2;
        let mut value = 0.0;
        while let Some(digit) = s.get(at).and_then(hex) {
            value = value * 16.0 + digit;
            at += 1;
        }
        let mut digits = at - 2;
        if posix
            && s.get(at) == Some(&O::point())
            && let len @ 1.. = O::point_len(&s[at..])
        {
            let mut scale = 1.0 / 16.0;
            let mut next = at + len;
            while let Some(digit) = s.get(next).and_then(hex) {
                value += digit * scale;
                scale /= 16.0;
                next += 1;
            }
            digits += next - at - len;
            if digits > 0 {
                at = next;
            }
        }
        if digits == 0 {
            return None;
        }
        if posix && matches!(s.get(at), Some(b'p' | b'P')) {
            let mut scale = 0;
            let end = scan_exponent(s, at, &mut scale);
            value *= 2f64.powi(scale.clamp(-5000, 5000) as i32);
            at = end;
        }
        return Some((value, at));
    }
    let end = 1 + s[1..].iter().take_while(|b| b.is_ascii_digit()).count();
    let decimal = s.get(end).is_some_and(|b| continues_decimal(*b));
    let octal = s[..end].iter().all(|b| (b'0'..=b'7').contains(b));
    if posix || decimal || !octal {
        return None;
    }
    let value = s[..end]
        .iter()
        .fold(0.0, |n, b| n * 8.0 + f64::from(b - b'0'));
    Some((value, end))
}

/// `inf` and `nan` after a sign, in any case, with only blanks behind.
#[cold]
fn scan_word(s: &[u8], at: usize, negative: bool) -> Option<(f64, usize)> {
    let posix = INPUT_FORMS.get() == InputForms::Posix;
    let signed = at > 0 && matches!(s[at - 1], b'+' | b'-');
    let word = s.get(at..at + 3)?;
    let long = s.get(at..at + 8);
    if posix && long.is_some_and(|word| word.eq_ignore_ascii_case(b"infinity")) {
        let value = if negative {
            -f64::INFINITY
        } else {
            f64::INFINITY
        };
        return Some((value, at + 8));
    }
    if !posix && (!signed || skip_blanks(s, at + 3) != s.len()) {
        return None;
    }
    let magnitude = if word.eq_ignore_ascii_case(b"inf") {
        f64::INFINITY
    } else if word.eq_ignore_ascii_case(b"nan") {
        f64::NAN.copysign(1.0)
    } else {
        return None;
    };
    Some((if negative { -magnitude } else { magnitude }, at + 3))
}

/// Appends the digits of `n`, which must be integral (or zero of either sign, written `0`), exactly whatever its
/// magnitude.
#[inline]
pub fn push_integer(out: &mut Vec<u8>, n: f64) {
    if n.abs() < 9e18 {
        let mut buffer = itoa::Buffer::new();
        out.extend_from_slice(buffer.format(n as i64).as_bytes());
    } else {
        push_huge(out, n);
    }
}

#[cold]
fn push_huge(out: &mut Vec<u8>, n: f64) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{n:.0}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_as_gawk_reads_them() {
        for (s, value) in [
            ("", 0.0),
            ("12", 12.0),
            ("-12x", -12.0),
            (" \t\n\x0b\x0c\r+.5e1z", 5.0),
            (".", 0.0),
            ("-", 0.0),
            ("5.", 5.0),
            ("1e", 1.0),
            ("1e+", 1.0),
            ("1e5", 1e5),
            ("0x1A", 0.0),
            ("011", 11.0),
            ("1e400", f64::INFINITY),
            ("-1e99999999999999999999", f64::NEG_INFINITY),
            ("1e-99999999999999999999", 0.0),
            ("+inf", f64::INFINITY),
            ("-Inf ", f64::NEG_INFINITY),
            ("+infinity", 0.0),
            ("inf", 0.0),
            ("+inf,", 0.0),
            (
                "123456789012345678901234567890",
                123456789012345678901234567890.0,
            ),
            ("0.1", 0.1),
            ("179769313486231570815e288", f64::MAX),
            (
                "2.2250738585072011e-308",
                f64::MIN_POSITIVE - f64::from_bits(1),
            ),
            ("00000000000000000000000000001", 1.0),
            ("18446744073709551616", 18446744073709551616.0),
            ("9007199254740993", 9007199254740992.0),
        ] {
            assert_eq!(parse_prefix(s.as_bytes()), value, "{s:?}");
        }
        assert!(parse_prefix(b"+nan").is_nan() && parse_prefix(b"+nan").is_sign_positive());
        assert!(parse_prefix(b"-nan").is_nan() && parse_prefix(b"-nan").is_sign_negative());
        assert_eq!(parse_prefix(b"+nanx"), 0.0);
    }

    #[test]
    fn only_whole_numbers_look_numeric() {
        for s in [
            "1", " 1 ", "+1.5e3\n", ".5", "-0", "+inf", "1e400", "\r3\x0c",
        ] {
            assert!(looks_numeric(s.as_bytes()).is_some(), "{s:?}");
        }
        for s in [
            "", " ", "a", "1a", "1 2", "0x1", "inf", "nan", "+", ".", "1e", "1_", "- 1", "+infx",
        ] {
            assert_eq!(looks_numeric(s.as_bytes()), None, "{s:?}");
        }
    }

    #[test]
    fn every_text_of_a_double_reads_back_as_it() {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        for round in 0..200_000 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let x = match round % 3 {
                0 => f64::from_bits(state ^ state >> 29),
                1 => (state >> 40) as f64 / 1000.0,
                _ => (state as i64 >> (state % 60)) as f64,
            };
            if x.is_finite() {
                for text in [
                    format!("{x}"),
                    format!("{x:e}"),
                    format!("{x:.17e}"),
                    format!("{x:.3}"),
                ] {
                    let expected: f64 = text.parse().unwrap();
                    assert_eq!(
                        parse_prefix(text.as_bytes()).to_bits(),
                        expected.to_bits(),
                        "{text}"
                    );
                    assert_eq!(
                        looks_numeric(text.as_bytes()).map(f64::to_bits),
                        Some(expected.to_bits()),
                        "{text}"
                    );
                }
            }
        }
    }

    #[test]
    fn integers_of_any_size_are_written_exactly() {
        for (n, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (-42.0, "-42"),
            (9007199254740992.0, "9007199254740992"),
            (-9223372036854775808.0, "-9223372036854775808"),
            (18446744073709551616.0, "18446744073709551616"),
            (1e30, "1000000000000000019884624838656"),
        ] {
            let mut out = Vec::new();
            push_integer(&mut out, n);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    #[test]
    fn the_point_in_data_is_what_it_is_said_to_be() {
        for (point, text, value, is_all) in [
            (",", "3,5", 3.5, true),
            (",", "3.5", 3.0, false),
            (",", "1,5e3", 1500.0, true),
            (",", ",5", 0.5, true),
            (",", " -5, ", -5.0, true),
            (",", ",", 0.0, false),
            (",", ",e2", 0.0, false),
            (",", "1,2,3", 1.2, false),
            (
                ",",
                "0,1234567890123456789012345",
                0.12345678901234568,
                true,
            ),
            ("٫", "2٫5", 2.5, true),
            ("٫", "٫25e-400", 0.0, true),
            (
                "٫",
                "0٫1234567890123456789012345",
                0.12345678901234568,
                true,
            ),
            ("٫", "2٬5", 2.0, false),
            ("٫", "2,5", 2.0, false),
            (".", "2,5", 2.0, false),
        ] {
            set_point(point.as_bytes());
            let got = (
                parse_prefix(text.as_bytes()),
                looks_numeric(text.as_bytes()),
            );
            assert_eq!(got, (value, is_all.then_some(value)), "{text}");
            assert_eq!(parse_literal("2.5"), 2.5);
        }
        set_point(b".");
    }

    #[test]
    fn literals_know_hexadecimal() {
        assert_eq!(parse_literal("0x1F"), 31.0);
        assert_eq!(parse_literal("011"), 11.0);
        assert_eq!(parse_literal("1e3"), 1000.0);
    }
}
