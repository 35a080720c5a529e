//! Calendar time: `strftime`, `mktime`, and the time zones behind them.
//!
//! Invariant: answers are those of C's functions (glibc, beside gawk 5.3.2) for every year that a C
//! `int` counts; months, days and seconds out of their range are carried over. Only the zones come from a library,
//! whose calendar ends at the year 9999: later and earlier times use the rules of a year that has the same calendar.
//! Called by the VM's builtin functions and its `time` extension.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;

mod format;
mod parse;

pub use format::strftime;
pub use parse::strptime;

const DAY: i64 = 86_400;

/// Seconds of 400 years: the Gregorian calendar's period.
const PERIOD: i64 = 146_097 * DAY;

/// A time zone, and what [`Zone::mktime`] remembers of its last answer.
#[derive(Debug)]
pub struct Zone {
    rules: Rules,
    /// Offset from UTC of the last answer, in seconds. glibc begins its search there, which decides between the two
    /// times that a clock shows when it is put back.
    hint: Cell<i64>,
}

#[derive(Debug)]
enum Rules {
    Zoned(Box<TimeZone>),
    /// UTC under a name.
    Named(String),
}

/// A moment as clocks and calendars show it: C's `struct tm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Civil {
    /// Astronomical: 0 is 1 BC.
    pub year: i64,
    /// 0 to 11.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 60.
    pub second: i64,
    /// 0 (Sunday) to 6.
    pub weekday: i64,
    /// 0 to 365.
    pub yearday: i64,
    /// Summer time.
    pub is_dst: bool,
    /// Seconds east of UTC.
    pub offset: i64,
    /// Abbreviation of the zone.
    pub zone: String,
}

/// Days from 1970-01-01 to the given day; `month` is 0 to 11, `day` may be any number (after Howard Hinnant's
/// `days_from_civil`).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month < 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 10) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month (0 to 11) and day of the day that many days from 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12;
    let year = year_of_era + era * 400 + i64::from(month < 2);
    (year, month, day)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The seconds of a calendar's reading as if it were UTC; `month` may be any number. `None` beyond 64 bits.
fn seconds_of(year: i64, month: i64, day: i64, hour: i64, minute: i64, second: i64) -> Option<i64> {
    let year = year.checked_add(month.div_euclid(12))?;
    let days = days_from_civil(year, month.rem_euclid(12), 1).checked_add(day - 1)?;
    days.checked_mul(DAY)?
        .checked_add(hour * 3600 + minute * 60)?
        .checked_add(second)
}

/// The calendar's reading for seconds that include the zone's offset.
fn civil_from_seconds(local: i64) -> Civil {
    let days = local.div_euclid(DAY);
    let rest = local.rem_euclid(DAY);
    let (year, month, day) = civil_from_days(days);
    Civil {
        year,
        month,
        day,
        hour: rest / 3600,
        minute: rest / 60 % 60,
        second: rest % 60,
        weekday: (days + 4).rem_euclid(7),
        yearday: days - days_from_civil(year, 0, 1),
        is_dst: false,
        offset: 0,
        zone: "GMT".to_string(),
    }
}

/// The moment `timestamp` in UTC, whose zone C calls GMT.
pub fn utc(timestamp: i64) -> Option<Civil> {
    within_c_years(civil_from_seconds(timestamp))
}

/// C counts years from 1900 in an `int`.
fn within_c_years(civil: Civil) -> Option<Civil> {
    i32::try_from(civil.year - 1900).is_ok().then_some(civil)
}

/// Seconds since 1970 from AWK's number: the fraction is cut off.
///
/// `None` for what 64 bits do not hold.
pub fn timestamp_from(n: f64) -> Option<i64> {
    (n.abs() < 9_223_372_036_854_775_808.0).then_some(n as i64)
}

impl Zone {
    /// The zone that the value of `TZ` means: a name under the zone folder (`TZDIR`, or the system's), a path, or a
    /// POSIX rule such as `EST5EDT`; `None` is the machine's own zone. What means nothing is UTC, under the name that
    /// it begins with if it has three letters: `Mars/Base` is `Mars`.
    ///
    /// Cost: a file is read; keep the result until `TZ` changes.
    pub fn from_tz(tz: Option<&[u8]>, tzdir: Option<&Path>) -> Zone {
        let rules = match tz {
            None => read_zone(Path::new("/etc/localtime")).unwrap_or(Rules::Named("UTC".into())),
            Some(value) => {
                let value = value.strip_prefix(b":").unwrap_or(value);
                named_zone(&String::from_utf8_lossy(value), tzdir)
            }
        };
        Zone {
            rules,
            hint: Cell::new(0),
        }
    }

    /// Offset in seconds, whether it is summer time, and the zone's abbreviation, at a moment.
    fn at(&self, timestamp: i64) -> (i64, bool, String) {
        match &self.rules {
            Rules::Named(name) => (0, false, name.clone()),
            Rules::Zoned(zone) => {
                let limit = 9_000 * PERIOD / 400;
                let near = if (-limit..limit / 2).contains(&timestamp) {
                    timestamp
                } else if timestamp > 0 {
                    timestamp.rem_euclid(PERIOD) + 2 * PERIOD
                } else {
                    timestamp.rem_euclid(PERIOD) - 20 * PERIOD
                };
                match Timestamp::from_second(near) {
                    Ok(moment) => {
                        let info = zone.to_offset_info(moment);
                        (
                            i64::from(info.offset().seconds()),
                            info.dst().is_dst(),
                            info.abbreviation().to_string(),
                        )
                    }
                    Err(_) => (0, false, "UTC".to_string()),
                }
            }
        }
    }

    /// The moment as this zone's clocks show it; `None` beyond C's years.
    pub fn local(&self, timestamp: i64) -> Option<Civil> {
        let (offset, is_dst, zone) = self.at(timestamp);
        within_c_years(Civil {
            is_dst,
            offset,
            zone,
            ..civil_from_seconds(timestamp.checked_add(offset)?)
        })
    }

    /// The moment when this zone's clocks show `seconds` (a reading as if it were UTC's). `dst` says whether summer time
    /// is meant.
    ///
    /// A time that the clocks skip is taken as if they had not been put forward. Of a time that they show twice, the
    /// one whose offset is nearer to the last answer's is found (glibc's way).
    fn resolve(&self, seconds: i64, dst: Option<bool>) -> Option<i64> {
        let mut moment = seconds.checked_sub(self.hint.get())?;
        let mut earlier = [i64::MIN; 2];
        loop {
            let (offset, ..) = self.at(moment);
            let next = seconds.checked_sub(offset)?;
            if next == moment {
                break;
            }
            if earlier.contains(&next) {
                // Back and forth across a gap.
                moment = moment.max(next);
                break;
            }
            earlier = [earlier[1], moment];
            moment = next;
        }
        let (offset, is_dst, _) = self.at(moment);
        let answer = match dst {
            Some(wanted) if wanted != is_dst => self
                .offset_near(moment, wanted)
                .map_or(if wanted { moment - 3600 } else { moment + 3600 }, |o| {
                    seconds - o
                }),
            _ => moment,
        };
        self.hint.set(offset);
        Some(answer)
    }

    /// The zone's offset at the nearest time that is or is not summer time. glibc looks in steps of a week within
    /// eight years; no summer or winter is shorter than its step.
    fn offset_near(&self, moment: i64, dst: bool) -> Option<i64> {
        const STEP: i64 = 601_200;
        const FAR: i64 = 536_454_000 / 2 + STEP;
        (1..FAR / STEP)
            .flat_map(|n| [moment - n * STEP, moment + n * STEP])
            .map(|at| self.at(at))
            .find(|(_, is_dst, _)| *is_dst == dst)
            .map(|(offset, ..)| offset)
    }

    /// gawk's `mktime`: the moment of `YYYY MM DD HH MM SS [DST]`, in this zone or, with `in_utc`, in UTC. Numbers out
    /// of range are carried over; what follows the sixth number but is none is ignored. -1 for anything else.
    pub fn mktime(&self, date: &[u8], in_utc: bool) -> i64 {
        self.moment_of(date, in_utc).unwrap_or(-1)
    }

    fn moment_of(&self, date: &[u8], in_utc: bool) -> Option<i64> {
        let mut numbers = leading_integers(date);
        let mut next = || numbers.next();
        let (year, month, day) = (next()?, next()?, next()?);
        let (hour, minute, second) = (next()?, next()?, next()?);
        // C's `struct tm` has `int`s: larger numbers lose their upper bits.
        let int = |n: i64| i64::from(n as i32);
        // Seconds out of range are added to the moment that is found without them (glibc).
        let second = int(second);
        let shown = second.clamp(0, 59);
        let seconds = seconds_of(
            int(year.wrapping_sub(1900)) + 1900,
            int(month.wrapping_sub(1)),
            int(day),
            int(hour),
            int(minute),
            shown,
        )?;
        if in_utc {
            return seconds.checked_add(second - shown);
        }
        let dst = match int(next().unwrap_or(-1)) {
            0 => Some(false),
            1.. => Some(true),
            _ => None,
        };
        self.resolve(seconds, dst)?.checked_add(second - shown)
    }

    /// The moment of a calendar's reading in this zone, which says itself whether summer time is meant.
    pub fn moment(&self, civil: &Civil) -> Option<i64> {
        let seconds = seconds_of(
            civil.year,
            civil.month,
            civil.day,
            civil.hour,
            civil.minute,
            civil.second,
        )?;
        self.resolve(seconds, Some(civil.is_dst))
    }
}

/// The integers that `text` begins with, as `scanf` reads them: blanks before each, no more when one is missing.
fn leading_integers(text: &[u8]) -> impl Iterator<Item = i64> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let blanks = rest
            .iter()
            .take_while(|b| matches!(b, b' ' | b'\t'..=b'\r'))
            .count();
        let from = &rest[blanks..];
        let sign = usize::from(matches!(from.first(), Some(b'-' | b'+')));
        let digits = from[sign..]
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        if digits == 0 {
            return None;
        }
        let magnitude = from[sign..sign + digits].iter().fold(0i64, |n, b| {
            n.saturating_mul(10).saturating_add(i64::from(b - b'0'))
        });
        rest = &from[sign + digits..];
        Some(if from[0] == b'-' {
            -magnitude
        } else {
            magnitude
        })
    })
}

fn read_zone(path: &Path) -> Option<Rules> {
    /// Zone files have some kilobytes; what is larger is none.
    const ZONE_BYTES_MAX: u64 = 1 << 20;
    let about = std::fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > ZONE_BYTES_MAX {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    let zone = TimeZone::tzif("local", &bytes).ok()?;
    Some(Rules::Zoned(Box::new(zone)))
}

fn named_zone(value: &str, tzdir: Option<&Path>) -> Rules {
    if value.is_empty() {
        return Rules::Named("UTC".to_string());
    }
    let folder = tzdir.map_or(PathBuf::from("/usr/share/zoneinfo"), Path::to_path_buf);
    if let Some(rules) = read_zone(&folder.join(value)) {
        return rules;
    }
    // Without rules of its own summer time is the United States'.
    let with_rules = format!("{value},M3.2.0,M11.1.0");
    let without_rules = value.split(',').next().unwrap_or(value);
    let repaired = format!("{without_rules},M3.2.0,M11.1.0");
    for text in [value, &with_rules, &repaired] {
        if let Ok(zone) = TimeZone::posix(text) {
            return Rules::Zoned(Box::new(zone));
        }
    }
    let letters = value.bytes().take_while(u8::is_ascii_alphabetic).count();
    Rules::Named(value[..if letters < 3 { 0 } else { letters }].to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locale::Dates;

    fn zone(tz: &str) -> Zone {
        Zone::from_tz(Some(tz.as_bytes()), None)
    }

    /// Rules that need no file of the machine.
    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    #[test]
    fn dates_become_moments_as_in_gawk() {
        for (date, local, in_utc) in [
            ("2023 11 14 22 13 20", 1699996400, 1700000000),
            ("2023 11 14 22 13 20 1", 1699992800, 1700000000),
            ("2023 11 14 22 13 20 -1", 1699996400, 1700000000),
            ("2023 13 1 0 0 0", 1704063600, 1704067200),
            ("2023 0 1 0 0 0", 1669849200, 1669852800),
            ("2023 2 30 0 0 0", 1677711600, 1677715200),
            ("2023 1 1 25 61 61", 1672621321, 1672624921),
            ("2023 1 -1 -1 -1 -1", 1672351139, 1672354739),
            ("2023 1 1 0 0", -1, -1),
            ("2023 1 1 0 0 0 x", 1672527600, 1672531200),
            ("2023 1 1 0 0 0x", 1672527600, 1672531200),
            ("x 1 1 0 0 0", -1, -1),
            ("2023.5 1 1 0 0 0", -1, -1),
            ("  2023   1 1 0 0 0  ", 1672527600, 1672531200),
            ("", -1, -1),
            ("1969 12 31 23 59 59", -3601, -1),
            ("99999 1 1 0 0 0", 3093496441200, 3093496444800),
            ("2147483648 1 1 0 0 0", 67767976233529200, 67767976233532800),
            ("2023 1 1 0 0 99999999999", 2888279791, 2888283391),
            ("2023 07 01 12 00 00", 1688205600, 1688212800),
            ("2023 03 26 02 30 00", 1679794200, 1679797800),
            ("2023 10 29 02 30 00 1", 1698539400, 1698546600),
            ("2023 10 29 02 30 00 0", 1698543000, 1698546600),
            ("2023 7 1 12 0 0 0", 1688209200, 1688212800),
            ("2023 1 1 12 0 0 1", 1672567200, 1672574400),
            ("2023,1,1,0,0,0", -1, -1),
        ] {
            let zone = zone(BERLIN);
            assert_eq!(zone.mktime(date.as_bytes(), false), local, "{date}");
            assert_eq!(zone.mktime(date.as_bytes(), true), in_utc, "{date}");
        }
        // A time that comes twice: the search begins at the last answer's offset.
        let zone = zone(BERLIN);
        assert_eq!(zone.mktime(b"2023 10 29 02 30 00", false), 1698543000);
        zone.mktime(b"2023 7 1 0 0 0", false);
        assert_eq!(zone.mktime(b"2023 10 29 02 30 00", false), 1698539400);
    }

    #[test]
    fn zones_are_what_tz_says() {
        let shown = |tz: &str, timestamp| {
            let zone = zone(tz);
            let mut out = Vec::new();
            let civil = zone.local(timestamp).unwrap();
            strftime(b"%F %T %Z %z", &civil, &zone, &Dates::default(), &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(BERLIN, 1700000000), "2023-11-14 23:13:20 CET +0100");
        assert_eq!(shown(BERLIN, 1690000000), "2023-07-22 06:26:40 CEST +0200");
        assert_eq!(shown("<+0330>-3:30", 0), "1970-01-01 03:30:00 +0330 +0330");
        assert_eq!(shown("", 0), "1970-01-01 00:00:00 UTC +0000");
        assert_eq!(shown("Foo/Bar", 0), "1970-01-01 00:00:00 Foo +0000");
        assert_eq!(shown("XX", 0), "1970-01-01 00:00:00  +0000");
        assert_eq!(shown("../../etc/passwd", 0), "1970-01-01 00:00:00  +0000");
        assert_eq!(
            shown("EST5EDT,M3.2.0,M11.1.0", 253_402_300_800 * 4),
            "34089-12-29 19:00:00 EST -0500"
        );
    }

    #[test]
    fn texts_become_moments_by_a_format() {
        let zone = zone("UTC");
        for (text, format, expected) in [
            ("2023-11-14 22:13:20", "%Y-%m-%d %H:%M:%S", Some(1700000000)),
            ("x", "%Y", None),
            ("2023", "%Y", Some(1672444800)),
            ("14 november 2023 x", "%d %b %Y", Some(1699920000)),
            ("12:30 PM", "%I:%M %p", Some(-2209030200)),
            ("1700000000", "%s", Some(1700000000)),
            ("2023-318", "%Y-%j", Some(1699920000)),
            ("+0200 2023-01-01", "%z %F", Some(1672531200)),
            ("", "", Some(-2209075200)),
            ("68", "%y", Some(3092515200)),
            ("99", "%y", Some(915062400)),
            ("2023-13-01", "%F", None),
            ("2023-02-31", "%F", Some(1677801600)),
            ("20 23", "%C %y", Some(1672444800)),
            ("2023 46 2", "%Y %W %u", Some(1699920000)),
            ("22:13:61 2023", "%T %Y", Some(1672524841)),
            ("Tue Nov 14 22:13:20 2023", "%c", Some(1700000000)),
        ] {
            let got = strptime(text.as_bytes(), format.as_bytes(), &zone, &Dates::default());
            assert_eq!(got, expected, "{text:?} by {format:?}");
        }
    }

    #[test]
    fn days_and_dates_agree_for_all_years() {
        for days in (-800_000_000_000..800_000_000_000i64).step_by(99_999_989) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
        assert_eq!(timestamp_from(-1.9), Some(-1));
        assert_eq!(timestamp_from(1e30), None);
        assert_eq!(timestamp_from(f64::NAN), None);
    }
}
