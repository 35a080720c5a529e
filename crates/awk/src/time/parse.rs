//! `strptime`: gawk's extension function of the `time` library.
//!
//! Invariant: reads what glibc's function reads, which understands the C locale's words beside those of the locale; every
//! number has a limit of digits and of value, so that no text overflows.

use super::{Zone, days_from_civil, seconds_of};
use crate::locale::{Dates, Part};

/// C's `struct tm` before anything is known: all zeros, which is the day before 1900-01-01.
#[derive(Clone, Default)]
struct Found {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    weekday: Option<i64>,
    yearday: Option<i64>,
    century: Option<i64>,
    year_of_century: Option<i64>,
    has_month: bool,
    has_day: bool,
    is_pm: bool,
    is_12_hours: bool,
    week_from_sunday: Option<i64>,
    week_from_monday: Option<i64>,
}

struct Reader<'a> {
    text: &'a [u8],
    dates: &'a Dates,
    /// The C locale's.
    plain: Dates,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        let blanks = self
            .text
            .iter()
            .take_while(|b| matches!(b, b' ' | b'\t'..=b'\r'))
            .count();
        self.text = &self.text[blanks..];
    }

    /// A number of at most `digits` digits within the limits, blanks before it passed over.
    fn number(&mut self, low: i64, high: i64, digits: usize) -> Option<i64> {
        while let Some(b' ') = self.text.first() {
            self.text = &self.text[1..];
        }
        let len = self
            .text
            .iter()
            .take(digits)
            .take_while(|b| b.is_ascii_digit())
            .count();
        let value = std::str::from_utf8(&self.text[..len]).ok()?.parse().ok()?;
        self.text = &self.text[len..];
        (low..=high).contains(&value).then_some(value)
    }

    /// Which of the names that `lists` takes from a locale the text begins with, in any case; the first list counts most.
    fn name<const N: usize>(
        &mut self,
        lists: impl for<'d> Fn(&'d Dates) -> [&'d [&'static str]; N],
    ) -> Option<i64> {
        let found = self.name_in(self.dates, lists(self.dates));
        let (at, len) = found.or_else(|| self.name_in(&self.plain, lists(&self.plain)))?;
        self.text = &self.text[len..];
        i64::try_from(at).ok()
    }

    /// Number and length of the name.
    fn name_in<const N: usize>(
        &self,
        dates: &Dates,
        lists: [&[&'static str]; N],
    ) -> Option<(usize, usize)> {
        lists.into_iter().find_map(|list| {
            let found = list.iter().enumerate().filter_map(|(at, name)| {
                let name = dates.bytes(name);
                let front = self.text.get(..name.len())?;
                let same = !name.is_empty() && front.eq_ignore_ascii_case(&name);
                same.then_some((at, name.len()))
            });
            found.max_by_key(|(_, len)| *len)
        })
    }
}

/// The moment that `text` names by `format`, in seconds since 1970, `zone` giving the offset; `None` if it does not fit.
/// What follows in `text` is ignored.
pub fn strptime(text: &[u8], format: &[u8], zone: &Zone, dates: &Dates) -> Option<i64> {
    let mut found = Found::default();
    let mut reader = Reader {
        text,
        dates,
        plain: Dates::default(),
    };
    read(&mut reader, format, zone, &mut found)?;
    let year = match (found.century, found.year_of_century) {
        (Some(century), rest) => century * 100 + rest.unwrap_or(found.year.rem_euclid(100)),
        (None, Some(rest)) if rest < 69 => 2000 + rest,
        (None, Some(rest)) => 1900 + rest,
        (None, None) => 1900 + found.year,
    };
    if found.is_12_hours {
        found.hour = found.hour % 12 + if found.is_pm { 12 } else { 0 };
    }
    let first_weekday = (days_from_civil(year, 0, 1) + 4).rem_euclid(7);
    let by_week = match (found.week_from_sunday, found.week_from_monday) {
        (Some(week), _) => found
            .weekday
            .map(|day| (7 - first_weekday) % 7 + (week - 1) * 7 + day),
        (None, Some(week)) => found
            .weekday
            .map(|day| (8 - first_weekday) % 7 + (week - 1) * 7 + (day + 6) % 7),
        (None, None) => None,
    };
    if let Some(yearday) = by_week.or(found.yearday)
        && !(found.has_month && found.has_day)
    {
        (found.month, found.day) = (0, yearday + 1);
    }
    let seconds = seconds_of(
        year,
        found.month,
        found.day,
        found.hour,
        found.minute,
        found.second,
    )?;
    zone.resolve(seconds, None)
}

fn read(reader: &mut Reader<'_>, format: &[u8], zone: &Zone, found: &mut Found) -> Option<()> {
    let mut rest = format;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if matches!(first, b' ' | b'\t'..=b'\r') {
            reader.skip_blanks();
            continue;
        }
        if first != b'%' {
            reader.text = reader.text.strip_prefix(&[first])?;
            continue;
        }
        while let Some(b'_' | b'-' | b'0' | b'^' | b'#' | b'E' | b'O') = rest.first() {
            rest = &rest[1..];
        }
        let (&letter, after) = rest.split_first()?;
        rest = after;
        conversion(reader, letter, zone, found)?;
    }
    Some(())
}

/// A format of the locale, or the C locale's if the text does not fit that.
fn layout(
    reader: &mut Reader<'_>,
    of: impl Fn(&Dates) -> &'static str,
    zone: &Zone,
    found: &mut Found,
) -> Option<()> {
    let (text, before) = (reader.text, found.clone());
    let format = reader.dates.bytes(of(reader.dates));
    read(reader, &format, zone, found).or_else(|| {
        (reader.text, *found) = (text, before);
        let format = of(&reader.plain);
        read(reader, format.as_bytes(), zone, found)
    })
}

fn conversion(reader: &mut Reader<'_>, letter: u8, zone: &Zone, found: &mut Found) -> Option<()> {
    match letter {
        b'%' => reader.text = reader.text.strip_prefix(b"%")?,
        b'a' | b'A' => found.weekday = Some(reader.name(|d| [d.days(false), d.days(true)])?),
        b'b' | b'B' | b'h' => {
            found.month = reader.name(|d| {
                [(false, false), (false, true), (true, false), (true, true)]
                    .map(|(short, alone)| d.months(short, alone))
            })?;
            found.has_month = true;
        }
        b'c' => layout(reader, |d| d.layout(Part::DateAndTime, false), zone, found)?,
        b'C' => found.century = Some(reader.number(0, 99, 2)?),
        b'd' | b'e' => {
            found.day = reader.number(1, 31, 2)?;
            found.has_day = true;
        }
        b'D' => read(reader, b"%m/%d/%y", zone, found)?,
        b'x' => layout(reader, |d| d.layout(Part::Date, false), zone, found)?,
        b'F' => read(reader, b"%Y-%m-%d", zone, found)?,
        b'g' => {
            reader.number(0, 99, 2)?;
        }
        b'G' => {
            reader.number(0, 9999, 4)?;
        }
        b'H' | b'k' => {
            found.hour = reader.number(0, 23, 2)?;
            found.is_12_hours = false;
        }
        b'I' | b'l' => {
            found.hour = reader.number(1, 12, 2)?;
            found.is_12_hours = true;
        }
        b'j' => found.yearday = Some(reader.number(1, 366, 3)? - 1),
        b'm' => {
            found.month = reader.number(1, 12, 2)? - 1;
            found.has_month = true;
        }
        b'M' => found.minute = reader.number(0, 59, 2)?,
        b'n' | b't' => reader.skip_blanks(),
        b'p' | b'P' => found.is_pm = reader.name(|d| [d.halves()])? == 1,
        b'r' => layout(reader, |d| d.time_of_12_hours(), zone, found)?,
        b'R' => read(reader, b"%H:%M", zone, found)?,
        b's' => seconds(reader, zone, found)?,
        b'S' => found.second = reader.number(0, 61, 2)?,
        b'T' => read(reader, b"%H:%M:%S", zone, found)?,
        b'X' => layout(reader, |d| d.layout(Part::Time, false), zone, found)?,
        b'u' => found.weekday = Some(reader.number(1, 7, 1)? % 7),
        b'U' => found.week_from_sunday = Some(reader.number(0, 53, 2)?),
        b'V' => {
            reader.number(0, 53, 2)?;
        }
        b'w' => found.weekday = Some(reader.number(0, 6, 1)?),
        b'W' => found.week_from_monday = Some(reader.number(0, 53, 2)?),
        b'y' => found.year_of_century = Some(reader.number(0, 99, 2)?),
        b'Y' => {
            found.year = reader.number(0, 9999, 4)? - 1900;
            (found.century, found.year_of_century) = (None, None);
        }
        b'z' => offset(reader)?,
        b'Z' => {
            let letters = reader
                .text
                .iter()
                .take_while(|b| !matches!(b, b' ' | b'\t'..=b'\r'))
                .count();
            reader.text = &reader.text[letters..];
        }
        _ => return None,
    }
    Some(())
}

/// Seconds since 1970: all of the date at once.
fn seconds(reader: &mut Reader<'_>, zone: &Zone, found: &mut Found) -> Option<()> {
    let civil = zone.local(reader.number(0, i64::MAX, 18)?)?;
    *found = Found {
        year: civil.year - 1900,
        month: civil.month,
        day: civil.day,
        hour: civil.hour,
        minute: civil.minute,
        second: civil.second,
        has_month: true,
        has_day: true,
        ..Found::default()
    };
    Some(())
}

/// An offset is read and means nothing, because C's `mktime` does not look at it.
fn offset(reader: &mut Reader<'_>) -> Option<()> {
    reader.skip_blanks();
    if let Some(rest) = reader.text.strip_prefix(b"Z") {
        reader.text = rest;
        return Some(());
    }
    if !matches!(reader.text.first(), Some(b'+' | b'-')) {
        return None;
    }
    reader.text = &reader.text[1..];
    let hours = reader.number(0, 14, 2)?;
    if let Some(rest) = reader.text.strip_prefix(b":") {
        reader.text = rest;
    }
    if reader.text.first().is_some_and(u8::is_ascii_digit) {
        reader.number(0, if hours == 14 { 0 } else { 59 }, 2)?;
    }
    Some(())
}
