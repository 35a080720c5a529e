//! `strftime` with the conversions, flags and widths of glibc, in the C locale.
//!
//! Invariant: what is no conversion is written as it stands, so that every format has an answer.

use super::{Civil, DAYS, MONTHS, Zone, is_leap};

/// What may stand between `%` and the letter.
#[derive(Clone, Copy, Default)]
struct Modifiers {
    /// `_`, `-` or `0`: blanks, nothing, or zeros before a number.
    pad: Option<u8>,
    upper: bool,
    swap: bool,
    width: usize,
    /// `E` or `O`.
    alternative: Option<u8>,
}

/// A larger width than this is this.
const WIDTH_MAX: usize = 4096;

/// Appends `civil` as `format` says; `zone` is asked for the seconds since 1970 (`%s`). A NUL ends the format.
pub fn strftime(format: &[u8], civil: &Civil, zone: &Zone, out: &mut Vec<u8>) {
    let mut rest = format.split(|b| *b == 0).next().unwrap_or(format);
    while let Some(percent) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..percent]);
        rest = &rest[percent..];
        rest = &rest[conversion(rest, civil, zone, out)..];
    }
    out.extend_from_slice(rest);
}

/// Writes the conversion at the front of `text` and gives back its length. One that there is not is written as it
/// stands, within its own width and in capitals if it asks for them.
fn conversion(text: &[u8], civil: &Civil, zone: &Zone, out: &mut Vec<u8>) -> usize {
    let mut modifiers = Modifiers::default();
    let mut at = 1;
    while let Some(&flag) = text.get(at) {
        match flag {
            b'_' | b'-' | b'0' => modifiers.pad = Some(flag),
            b'^' => modifiers.upper = true,
            b'#' => modifiers.swap = true,
            _ => break,
        }
        at += 1;
    }
    while let Some(digit @ b'0'..=b'9') = text.get(at) {
        modifiers.width = (modifiers.width * 10 + usize::from(digit - b'0')).min(WIDTH_MAX);
        at += 1;
    }
    if let Some(&(b'E' | b'O')) = text.get(at) {
        modifiers.alternative = text.get(at).copied();
        at += 1;
    }
    let Some(&letter) = text.get(at) else {
        put_unknown(text, modifiers, out);
        return at;
    };
    // In the C locale the alternative forms are the plain ones, of those letters that have them.
    let known = match modifiers.alternative {
        None => true,
        Some(b'E') => b"cnprstuxyzCPRTXYZ%".contains(&letter),
        Some(_) => b"bdeghjklmnprstuwyzBCGHIMPRSTUVWZ%".contains(&letter),
    };
    if !known || !write(letter, modifiers, civil, zone, out) {
        put_unknown(&text[..=at], modifiers, out);
    }
    at + 1
}

/// False if there is no such letter.
fn write(letter: u8, m: Modifiers, civil: &Civil, zone: &Zone, out: &mut Vec<u8>) -> bool {
    let weekday = DAYS[civil.weekday.rem_euclid(7) as usize];
    let month = MONTHS[civil.month.rem_euclid(12) as usize];
    let hour12 = match civil.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let c_year = i64::from(civil.year as i32);
    let mut number = |value: i64, digits: usize, pad: u8| {
        put_number(value, digits, m.pad.unwrap_or(pad), m.width, out);
        true
    };
    match letter {
        b'C' => return number(century(c_year), 2, b'0'),
        b'd' => return number(civil.day, 2, b'0'),
        b'e' => return number(civil.day, 2, b'_'),
        b'g' => return number(iso_week(civil).0.rem_euclid(100), 2, b'0'),
        b'G' => return number(iso_week(civil).0, 1, b'0'),
        b'H' => return number(civil.hour, 2, b'0'),
        b'I' => return number(hour12, 2, b'0'),
        b'j' => return number(civil.yearday + 1, 3, b'0'),
        b'k' => return number(civil.hour, 2, b'_'),
        b'l' => return number(hour12, 2, b'_'),
        b'm' => return number(civil.month + 1, 2, b'0'),
        b'M' => return number(civil.minute, 2, b'0'),
        b'S' => return number(civil.second, 2, b'0'),
        b'u' => return number((civil.weekday + 6) % 7 + 1, 1, b'0'),
        b'U' => return number((civil.yearday - civil.weekday + 7) / 7, 2, b'0'),
        b'V' => return number(iso_week(civil).1, 2, b'0'),
        b'w' => return number(civil.weekday, 1, b'0'),
        b'W' => {
            let monday = (civil.weekday + 6) % 7;
            return number((civil.yearday - monday + 7) / 7, 2, b'0');
        }
        b'y' => return number(c_year.rem_euclid(100), 2, b'0'),
        b'Y' => return number(c_year, 1, b'0'),
        _ => {}
    }
    // Texts: which case `#` gives differs.
    let (text, swapped) = match letter {
        b'a' => (weekday.as_bytes()[..3].to_vec(), Case::Upper),
        b'A' => (weekday.as_bytes().to_vec(), Case::Upper),
        b'b' | b'h' => (month.as_bytes()[..3].to_vec(), Case::Upper),
        b'B' => (month.as_bytes().to_vec(), Case::Upper),
        b'p' if civil.hour > 11 => (b"PM".to_vec(), Case::Lower),
        b'p' => (b"AM".to_vec(), Case::Lower),
        b'P' if civil.hour > 11 => (b"pm".to_vec(), Case::Lower),
        b'P' => (b"am".to_vec(), Case::Lower),
        b'Z' => (civil.zone.clone().into_bytes(), Case::Lower),
        b's' => {
            let moment = zone.moment(civil).unwrap_or(-1);
            (moment.to_string().into_bytes(), Case::Kept)
        }
        b'n' => (b"\n".to_vec(), Case::Kept),
        b't' => (b"\t".to_vec(), Case::Kept),
        b'%' => (b"%".to_vec(), Case::Kept),
        b'z' => {
            put_offset(civil.offset, m, out);
            return true;
        }
        _ => {
            let format: &[u8] = match letter {
                b'c' => b"%a %b %e %H:%M:%S %Y",
                b'D' | b'x' => b"%m/%d/%y",
                b'F' => b"%Y-%m-%d",
                b'r' => b"%I:%M:%S %p",
                b'R' => b"%H:%M",
                b'T' | b'X' => b"%H:%M:%S",
                _ => return false,
            };
            let mut whole = Vec::new();
            strftime(format, civil, zone, &mut whole);
            (whole, Case::Kept)
        }
    };
    let case = match (m.swap, m.upper, swapped, letter) {
        // `%P` is small whatever is asked for.
        (_, _, _, b'P') => Case::Kept,
        (true, _, Case::Upper | Case::Lower, _) => swapped,
        (_, true, ..) => Case::Upper,
        _ => Case::Kept,
    };
    put_text(text, case, m, out);
    true
}

#[derive(Clone, Copy)]
enum Case {
    Kept,
    Upper,
    Lower,
}

fn put_text(mut text: Vec<u8>, case: Case, m: Modifiers, out: &mut Vec<u8>) {
    match case {
        Case::Kept => {}
        Case::Upper => text.make_ascii_uppercase(),
        Case::Lower => text.make_ascii_lowercase(),
    }
    put_padding(m, m.width.saturating_sub(text.len()), out);
    out.extend_from_slice(&text);
}

fn put_unknown(text: &[u8], m: Modifiers, out: &mut Vec<u8>) {
    let case = if m.upper { Case::Upper } else { Case::Kept };
    put_text(text.to_vec(), case, m, out);
}

fn put_padding(m: Modifiers, count: usize, out: &mut Vec<u8>) {
    let byte = if m.pad == Some(b'0') { b'0' } else { b' ' };
    out.resize(out.len() + count, byte);
}

/// A number of at least `digits` digits, the sign among them for zeros and before them for blanks.
fn put_number(value: i64, digits: usize, pad: u8, width: usize, out: &mut Vec<u8>) {
    let text = value.unsigned_abs().to_string();
    let sign: &[u8] = if value < 0 { b"-" } else { b"" };
    let len = text.len() + sign.len();
    let fill = digits.max(width).saturating_sub(len);
    match pad {
        b'_' => {
            out.resize(out.len() + fill, b' ');
            out.extend_from_slice(sign);
        }
        b'-' => {
            out.resize(out.len() + width.saturating_sub(len), b' ');
            out.extend_from_slice(sign);
        }
        _ => {
            out.extend_from_slice(sign);
            out.resize(out.len() + fill, b'0');
        }
    }
    out.extend_from_slice(text.as_bytes());
}

/// `+hhmm`. glibc pads the sign and the number to the width, each by itself.
fn put_offset(offset: i64, m: Modifiers, out: &mut Vec<u8>) {
    put_padding(m, m.width.saturating_sub(1), out);
    out.push(if offset < 0 { b'-' } else { b'+' });
    let minutes = offset.abs() / 60;
    let value = minutes / 60 * 100 + minutes % 60;
    put_number(value, 4, m.pad.unwrap_or(b'0'), m.width, out);
}

/// The year divided by 100, rounded down.
fn century(year: i64) -> i64 {
    year.div_euclid(100)
}

/// Year and week by ISO 8601: weeks begin on Monday and belong to the year that has their Thursday.
fn iso_week(civil: &Civil) -> (i64, i64) {
    let monday = (civil.weekday + 6) % 7;
    let week = (civil.yearday - monday + 10).div_euclid(7);
    let weeks_in = |year: i64| {
        let first = (super::days_from_civil(year, 0, 1) + 4).rem_euclid(7);
        if first == 4 || (first == 3 && is_leap(year)) {
            53
        } else {
            52
        }
    };
    if week < 1 {
        (civil.year - 1, weeks_in(civil.year - 1))
    } else if week > weeks_in(civil.year) {
        (civil.year + 1, 1)
    } else {
        (civil.year, week)
    }
}

#[cfg(test)]
mod tests {
    use super::super::utc;
    use super::*;

    #[test]
    fn conversions_are_glibcs_in_the_c_locale() {
        let zone = Zone::from_tz(Some(b"UTC"), None);
        let show = |format: &str, timestamp: i64| {
            let mut out = Vec::new();
            strftime(format.as_bytes(), &utc(timestamp).unwrap(), &zone, &mut out);
            String::from_utf8(out).unwrap()
        };
        for (format, expected) in [
            (
                "%a %A %b %B %c %C %d",
                "Tue Tuesday Nov November Tue Nov 14 22:13:20 2023 20 14",
            ),
            (
                "%D %e %F %g %G %h %H %I",
                "11/14/23 14 2023-11-14 23 2023 Nov 22 10",
            ),
            (
                "%j %k %l %m %M%n%t%p %P %r",
                "318 22 10 11 13\n\tPM pm 10:13:20 PM",
            ),
            (
                "%R %s %S %T %u %U %V %w %W",
                "22:13 1700000000 20 22:13:20 2 46 46 2 46",
            ),
            (
                "%x %X %y %Y %z %Z %%",
                "11/14/23 22:13:20 23 2023 +0000 GMT %",
            ),
            (
                "%E %EY %OY %Od %Ed %N %q %:z",
                "%E 2023 %OY 14 %Ed %N %q %:z",
            ),
            (
                "%^a %#a %#p %#Z %^c",
                "TUE TUE pm gmt TUE NOV 14 22:13:20 2023",
            ),
            (
                "%5d %_5d %-5d %10Y %_10Y",
                "00014    14    14 0000002023       2023",
            ),
            ("%5a|%05a|%-5a|%3%", "  Tue|00Tue|  Tue|  %"),
            ("%6z %_6z %-z", "     +000000      +     0 +0"),
            (
                "%12F %30c %12s",
                "  2023-11-14       Tue Nov 14 22:13:20 2023   1700000000",
            ),
            ("%", "%"),
            ("a%5", "a   %5"),
            ("%^5E|", "%^5E|"),
            ("é%Yü", "é2023ü"),
            ("a\0%Y", "a"),
            ("", ""),
        ] {
            assert_eq!(show(format, 1_700_000_000), expected, "{format:?}");
        }
        assert_eq!(
            show("%Y %C %y %G %F %5Y %_5Y", -63_000_000_000),
            "-27 -1 73 -27 -27-08-11 -0027   -27"
        );
        assert_eq!(
            show("%Y %F %D", 999_999_999_999),
            "33658 33658-09-27 09/27/58"
        );
        assert!(utc(i64::MAX).is_none());
    }

    #[test]
    fn no_format_is_refused() {
        let zone = Zone::from_tz(Some(b"UTC"), None);
        let civil = utc(0).unwrap();
        let mut state = 7u64;
        for _ in 0..20_000 {
            let format: Vec<u8> = (0..8)
                .map(|_| {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let pick = (state >> 33) as usize;
                    let letters = b"%%%%_-0^#59EOaYzscZ\xff+";
                    letters[pick % letters.len()]
                })
                .collect();
            strftime(&format, &civil, &zone, &mut Vec::new());
        }
    }
}
