//! `strftime` with the conversions, flags and widths of glibc, in any locale.
//!
//! Invariant: what is no conversion is written as it stands, so that every format has an answer.

use super::{Civil, Zone, is_leap};
use crate::locale::{Dates, Encoding, Part};

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

/// Appends `civil` as `format` says; `zone` is asked for the seconds since 1970 (`%s`), `dates` for what the locale has its
/// own words and orders for. A NUL ends the format.
pub fn strftime(format: &[u8], civil: &Civil, zone: &Zone, dates: &Dates, out: &mut Vec<u8>) {
    let of = Of {
        civil,
        zone,
        dates,
        year_pad: None,
    };
    write_all(format, &of, out);
}

/// What a format is about.
#[derive(Clone, Copy)]
struct Of<'a> {
    civil: &'a Civil,
    zone: &'a Zone,
    dates: &'a Dates,
    /// The flag of `%EY` that the year in it takes over.
    year_pad: Option<u8>,
}

fn write_all(format: &[u8], of: &Of<'_>, out: &mut Vec<u8>) {
    let mut rest = format.split(|b| *b == 0).next().unwrap_or(format);
    while let Some(percent) = memchr::memchr(b'%', rest) {
        out.extend_from_slice(&rest[..percent]);
        rest = &rest[percent..];
        rest = &rest[conversion(rest, of, out)..];
    }
    out.extend_from_slice(rest);
}

/// Writes the conversion at the front of `text` and gives back its length. One that there is not is written as it
/// stands, within its own width and in capitals if it asks for them.
fn conversion(text: &[u8], of: &Of<'_>, out: &mut Vec<u8>) -> usize {
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
        put_unknown(text, modifiers, of, out);
        return at;
    };
    // Where a locale has no alternative forms they are the plain ones, of those letters that have them.
    let known = match modifiers.alternative {
        None => true,
        Some(b'E') => b"cnprstuxyzCPRTXYZ%".contains(&letter),
        Some(_) => b"bdeghjklmnprstuwyzBCGHIMPRSTUVWZ%".contains(&letter),
    };
    if !known || !write(letter, modifiers, of, out) {
        put_unknown(&text[..=at], modifiers, of, out);
    }
    at + 1
}

/// False if there is no such letter.
fn write(letter: u8, m: Modifiers, of: &Of<'_>, out: &mut Vec<u8>) -> bool {
    let Of { civil, dates, .. } = *of;
    let (with_era, alone) = (m.alternative == Some(b'E'), m.alternative == Some(b'O'));
    let pick = |list: &[&'static str], at: i64| {
        let name = list.get(at as usize).copied();
        dates.bytes(name.unwrap_or("?")).into_owned()
    };
    let weekday = |short| pick(dates.days(short), civil.weekday);
    let month = |short| pick(dates.months(short, alone), civil.month);
    let half = || pick(dates.halves(), i64::from(civil.hour > 11));
    let era = || {
        let date = (i64::from(civil.year as i32), civil.month, civil.day);
        let era = dates.era(date.0, date.1, date.2);
        era.filter(|_| with_era)
    };
    let hour12 = match civil.hour % 12 {
        0 => 12,
        hour => hour,
    };
    let c_year = i64::from(civil.year as i32);
    let mut number = |value: i64, digits: usize, pad: u8| {
        if alone && let Some(text) = dates.digits(value) {
            put_text(
                dates.bytes(text).into_owned(),
                Case::Kept,
                m,
                dates.encoding(),
                out,
            );
            return true;
        }
        put_number(value, digits, m.pad.unwrap_or(pad), m.width, out);
        true
    };
    match letter {
        b'C' if era().is_none() => return number(century(c_year), 2, b'0'),
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
        b'y' => {
            return match era() {
                Some(era) => number(era.year, 2, of.year_pad.unwrap_or(b'0')),
                None => number(c_year.rem_euclid(100), 2, b'0'),
            };
        }
        b'Y' if era().is_none() => return number(c_year, 1, b'0'),
        _ => {}
    }
    // Texts: which case `#` gives differs.
    let (text, swapped) = match letter {
        b'a' => (weekday(true), Case::Upper),
        b'A' => (weekday(false), Case::Upper),
        b'b' | b'h' => (month(true), Case::Upper),
        b'B' => (month(false), Case::Upper),
        b'p' | b'P' => (half(), Case::Lower),
        b'C' => {
            let name = era().map_or("", |era| era.name);
            (dates.bytes(name).into_owned(), Case::Kept)
        }
        b'Z' => (civil.zone.clone().into_bytes(), Case::Lower),
        b's' => {
            let moment = of.zone.moment(civil).unwrap_or(-1);
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
            let format = match letter {
                b'c' => dates.layout(Part::DateAndTime, with_era),
                b'x' => dates.layout(Part::Date, with_era),
                b'X' => dates.layout(Part::Time, with_era),
                b'r' => dates.time_of_12_hours(),
                b'D' => "%m/%d/%y",
                b'F' => "%Y-%m-%d",
                b'R' => "%H:%M",
                b'T' => "%H:%M:%S",
                b'Y' => era().map_or("", |era| era.format),
                _ => return false,
            };
            let inner = Of {
                year_pad: m.pad.filter(|_| letter == b'Y'),
                ..*of
            };
            let mut whole = Vec::new();
            write_all(&dates.bytes(format), &inner, &mut whole);
            (whole, Case::Kept)
        }
    };
    let case = match (m.swap, m.upper, swapped, letter) {
        // `%P` is small whatever is asked for.
        (_, _, _, b'P') => Case::Lower,
        (true, _, Case::Upper | Case::Lower, _) => swapped,
        (_, true, ..) => Case::Upper,
        _ => Case::Kept,
    };
    put_text(text, case, m, dates.encoding(), out);
    true
}

#[derive(Clone, Copy)]
enum Case {
    Kept,
    Upper,
    Lower,
}

fn put_text(mut text: Vec<u8>, case: Case, m: Modifiers, encoding: Encoding, out: &mut Vec<u8>) {
    match case {
        Case::Kept => {}
        Case::Upper => encoding.make_upper(&mut text),
        Case::Lower => encoding.make_lower(&mut text),
    }
    put_padding(m, m.width.saturating_sub(text.len()), out);
    out.extend_from_slice(&text);
}

fn put_unknown(text: &[u8], m: Modifiers, of: &Of<'_>, out: &mut Vec<u8>) {
    let case = if m.upper { Case::Upper } else { Case::Kept };
    put_text(text.to_vec(), case, m, of.dates.encoding(), out);
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
            let dates = Dates::default();
            strftime(
                format.as_bytes(),
                &utc(timestamp).unwrap(),
                &zone,
                &dates,
                &mut out,
            );
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
    fn words_and_orders_are_the_locales() {
        let zone = Zone::from_tz(Some(b"UTC"), None);
        let show = |locale: &str, format: &str| {
            let mut out = Vec::new();
            let civil = utc(1_614_957_309).unwrap();
            let dates = Dates::of_locale(locale);
            strftime(format.as_bytes(), &civil, &zone, &dates, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        };
        for (locale, format, expected) in [
            (
                "de_DE.UTF-8",
                "%a %A %b %B|%p|%P|%x %X|%r",
                "Fr Freitag Mär März|||05.03.2021 15:15:09|03:15:09 ",
            ),
            ("de_DE.UTF-8", "%^B %#B|%7B|%07B", "MäRZ MäRZ|  März|00März"),
            ("pl_PL.UTF-8", "%B %OB %b %Ob", "marca marzec mar mar"),
            ("tr_TR.UTF-8", "%p %P %^P %#p", "ÖS Ös Ös Ös"),
            (
                "ja_JP.UTF-8",
                "%c|%Ex|%EC|%Ey",
                "2021年03月05日 15時15分09秒|令和03年03月05日|令和|03",
            ),
            (
                "ja_JP.UTF-8",
                "%_EY %-EY %10Ey|%Od %10Od %OH %Oe %OC",
                "令和 3年 令和3年 0000000003|五        五 十五 五 二十",
            ),
            (
                "th_TH.UTF-8",
                "%EY %Ey %5EC|%OB",
                "พ.ศ. 2564 2564 พ.ศ.|มีนาคม",
            ),
            (
                "C",
                "%c|%x|%X|%r|%EY",
                "Fri Mar  5 15:15:09 2021|03/05/21|15:15:09|03:15:09 PM|2021",
            ),
        ] {
            assert_eq!(show(locale, format), expected, "{locale} {format}");
        }
    }

    #[test]
    fn no_format_is_refused() {
        let zone = Zone::from_tz(Some(b"UTC"), None);
        let civil = utc(0).unwrap();
        let dates = Dates::of_locale("ja_JP.UTF-8");
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
            strftime(&format, &civil, &zone, &dates, &mut Vec::new());
        }
    }
}
