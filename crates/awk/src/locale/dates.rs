//! How a locale writes dates: LC_TIME.
//!
//! Invariant: every text here can be written in the encoding.

use std::borrow::Cow;
use std::cell::OnceCell;

use pure_rust_locales::Locale;

use super::{Encoding, find, texts};

/// Names of days and months, and the order of the parts of a date.
#[derive(Clone, Debug)]
pub struct Dates {
    encoding: Encoding,
    days: [&'static str; 7],
    days_short: [&'static str; 7],
    months: [&'static str; 12],
    months_short: [&'static str; 12],
    /// Names of months by themselves, where those in dates are genitives.
    months_alone: [&'static str; 12],
    months_alone_short: [&'static str; 12],
    halves: [&'static str; 2],
    date_and_time: Layout,
    date: Layout,
    time: Layout,
    time_of_12_hours: &'static str,
    /// Each ended by a separator.
    eras: &'static str,
    /// Numbers in digits of the locale's own, from 0 on; likewise, and empty if it has none.
    digits: &'static str,
}

/// A format of `strftime`; empty if the locale has none.
#[derive(Clone, Copy, Debug)]
struct Layout {
    plain: &'static str,
    /// With the years of an era.
    era: &'static str,
}

/// Years since a coronation, a revolution or the like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Era {
    /// Its name.
    pub name: &'static str,
    /// What `%EY` writes: a format.
    pub format: &'static str,
    /// The year of the era.
    pub year: i64,
}

/// Which of a locale's formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `%c`
    DateAndTime,
    /// `%x`
    Date,
    /// `%X`
    Time,
}

/// What [`Dates::of_locale`] gives, looked up when it is first asked for: most programs write no dates.
#[derive(Clone, Debug, Default)]
pub struct DatesOf {
    locale: String,
    found: OnceCell<Dates>,
}

impl DatesOf {
    /// Those of a locale by its name.
    pub fn locale(name: String) -> DatesOf {
        DatesOf {
            locale: name,
            found: OnceCell::new(),
        }
    }

    /// The dates.
    pub fn get(&self) -> &Dates {
        self.found.get_or_init(|| Dates::of_locale(&self.locale))
    }
}

impl Default for Dates {
    /// The C locale's.
    fn default() -> Dates {
        Dates::of(Locale::POSIX, Encoding::Utf8)
    }
}

impl Dates {
    /// Those of a locale by its name, as LC_ALL, LC_TIME or LANG give it. The C locale's if there is no such locale or its
    /// encoding has not the characters.
    pub fn of_locale(name: &str) -> Dates {
        let found = find(name).map(|(locale, encoding)| Dates::of(locale, encoding));
        found.filter(Dates::can_be_written).unwrap_or_default()
    }

    fn of(locale: Locale, encoding: Encoding) -> Dates {
        let mut texts = texts::texts(locale).split(char::from(texts::END)).skip(3);
        let mut next = || texts.next().unwrap_or_default();
        let mut layout = || {
            let plain = next();
            Layout { plain, era: next() }
        };
        let [date_and_time, date, time] = std::array::from_fn(|_| layout());
        Dates {
            encoding,
            date_and_time,
            date,
            time,
            time_of_12_hours: next(),
            days: std::array::from_fn(|_| next()),
            days_short: std::array::from_fn(|_| next()),
            months: std::array::from_fn(|_| next()),
            months_short: std::array::from_fn(|_| next()),
            months_alone: std::array::from_fn(|_| next()),
            months_alone_short: std::array::from_fn(|_| next()),
            halves: std::array::from_fn(|_| next()),
            eras: next(),
            digits: next(),
        }
    }

    fn can_be_written(&self) -> bool {
        let lists = [
            &self.days[..],
            &self.days_short,
            &self.months,
            &self.months_short,
            &self.months_alone,
            &self.months_alone_short,
            &self.halves,
        ];
        let layouts = [self.date_and_time, self.date, self.time];
        let others = [self.time_of_12_hours, self.eras, self.digits];
        let mut all = lists.into_iter().flatten().chain(&others);
        self.encoding == Encoding::Utf8
            || all.all(|text| self.encoding.write(text).is_some())
                && layouts.iter().all(|layout| {
                    let texts = [layout.plain, layout.era];
                    texts.iter().all(|text| self.encoding.write(text).is_some())
                })
    }

    /// How its texts are written.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// A text of this locale as its encoding writes it.
    pub fn bytes(&self, text: &'static str) -> Cow<'static, [u8]> {
        self.encoding.write(text).unwrap_or_default()
    }

    /// The days from Sunday on, whole or short.
    pub fn days(&self, short: bool) -> &[&'static str] {
        if short { &self.days_short } else { &self.days }
    }

    /// The months from January on, whole or short; `alone`: not as a part of a date.
    pub fn months(&self, short: bool, alone: bool) -> &[&'static str] {
        match (short, alone) {
            (false, false) => &self.months,
            (true, false) => &self.months_short,
            (false, true) => &self.months_alone,
            (true, true) => &self.months_alone_short,
        }
    }

    /// What its clocks say before and after noon; often empty.
    pub fn halves(&self) -> &[&'static str] {
        &self.halves
    }

    /// A number in the locale's own digits, if it has such.
    pub fn digits(&self, n: i64) -> Option<&'static str> {
        if self.digits.is_empty() {
            return None;
        }
        list(self.digits).nth(usize::try_from(n).ok()?)
    }

    /// A format of the locale; `era`: with the years of an era if it has such.
    pub fn layout(&self, part: Part, era: bool) -> &'static str {
        let layout = match part {
            Part::DateAndTime => self.date_and_time,
            Part::Date => self.date,
            Part::Time => self.time,
        };
        if era && !layout.era.is_empty() {
            layout.era
        } else {
            layout.plain
        }
    }

    /// The format of `%r`.
    pub fn time_of_12_hours(&self) -> &'static str {
        match self.time_of_12_hours {
            "" => "%I:%M:%S %p",
            layout => layout,
        }
    }

    /// The era of a day, if the locale counts by eras. `month` is 0 to 11.
    pub fn era(&self, year: i64, month: i64, day: i64) -> Option<Era> {
        let date = (year, month + 1, day);
        list(self.eras).find_map(|era| era_of(era, date))
    }
}

/// The texts of a list of any length.
fn list(packed: &'static str) -> impl Iterator<Item = &'static str> {
    packed.split_terminator(char::from(texts::SEPARATOR))
}

/// The era that glibc's locale sources write as `direction:offset:start:end:name:format`, if it has the day.
fn era_of(written: &'static str, date: (i64, i64, i64)) -> Option<Era> {
    let mut parts = written.splitn(6, ':');
    let forward = parts.next()? == "+";
    let offset: i64 = parts.next()?.parse().ok()?;
    let start = day_of(parts.next()?)?;
    let end = day_of(parts.next()?)?;
    let (name, format) = (parts.next()?, parts.next()?);
    let (first, last) = if start <= end {
        (start, end)
    } else {
        (end, start)
    };
    if !(first..=last).contains(&date) {
        return None;
    }
    let years = date.0 - start.0;
    let year = if forward == (start <= end) {
        offset + years
    } else {
        offset - years
    };
    Some(Era { name, format, year })
}

/// `1989/01/08`, `-543/01/01` (BC, there being no year 0), `+*` and `-*` (no end).
fn day_of(written: &str) -> Option<(i64, i64, i64)> {
    match written {
        "+*" => return Some((i64::MAX, 0, 0)),
        "-*" => return Some((i64::MIN, 0, 0)),
        _ => {}
    }
    let mut parts = written.split('/').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    Some((if year < 0 { year + 1 } else { year }, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_are_found_by_day() {
        let japan = Dates::of_locale("ja_JP.UTF-8");
        let era = |dates: &Dates, y, m: i64, d| dates.era(y, m - 1, d).map(|e| (e.name, e.year));
        assert_eq!(era(&japan, 2021, 3, 5), Some(("令和", 3)));
        assert_eq!(era(&japan, 2019, 4, 30), Some(("平成", 31)));
        assert_eq!(era(&japan, 2019, 5, 1), Some(("令和", 1)));
        assert_eq!(era(&japan, 1700, 1, 1), Some(("西暦", 1700)));
        let thailand = Dates::of_locale("th_TH.UTF-8");
        assert_eq!(era(&thailand, 2021, 1, 1), Some(("พ.ศ.", 2564)));
        let taiwan = Dates::of_locale("zh_TW.UTF-8");
        assert_eq!(era(&taiwan, 1910, 12, 27), Some(("民前", 2)));
        assert_eq!(era(&taiwan, 2021, 12, 27), Some(("民國", 110)));
        assert_eq!(era(&Dates::default(), 2021, 3, 5), None);
    }

    #[test]
    fn a_locale_whose_encoding_is_unknown_is_cs() {
        assert_eq!(
            Dates::of_locale("pl_PL.ISO-8859-2").days(false)[0],
            "Sunday"
        );
        assert_eq!(
            Dates::of_locale("pl_PL.UTF-8").months(false, true)[2],
            "marzec"
        );
        assert_eq!(
            Dates::of_locale("en_GB.ISO-8859-2").layout(Part::Date, false),
            "%d/%m/%y"
        );
        let german = Dates::of_locale("de_DE.ISO-8859-1");
        assert_eq!(
            german.bytes(german.months(false, false)[2])[..],
            b"M\xe4rz"[..]
        );
    }
}
