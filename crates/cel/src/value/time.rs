//! Points in time: reading and writing as Go does, the calendar, arithmetic within the years 1 to 9999.

use super::Timestamp;
use std::cmp::Ordering;
use std::fmt;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;
/// 0001-01-01T00:00:00Z
const FIRST: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z
const LAST: i64 = 253_402_300_799;

/// How a point in time is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// With an offset.
    Rfc3339,
    /// Without one.
    Local,
    /// The day alone.
    Date,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Rfc3339 => "2006-01-02T15:04:05Z07:00",
            Self::Local => "2006-01-02T15:04:05",
            Self::Date => "2006-01-02",
        }
    }
}

impl Timestamp {
    /// A point in time in UTC.
    pub fn new(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos, offset: 0 }
    }

    /// Its date and time of day, where its text has it.
    pub(crate) fn civil(self) -> Civil {
        Civil::of(self.seconds.saturating_add(i64::from(self.offset) * 60))
    }

    /// Whether it is within the years 1 to 9999.
    pub(crate) fn is_in_range(self) -> bool {
        (FIRST..=LAST).contains(&self.seconds)
    }

    /// Whether it is the first point of all, Go's zero.
    pub(crate) fn is_zero(self) -> bool {
        self.seconds == FIRST && self.nanos == 0
    }

    /// A later point, or an earlier one; the error is cel-go's.
    pub(crate) fn plus(self, duration: i64) -> Result<Self, &'static str> {
        let nanos = i64::from(self.nanos) + duration % NANOS;
        let seconds = (self.seconds + duration / NANOS) + nanos.div_euclid(NANOS);
        let moved = Self { seconds, nanos: nanos.rem_euclid(NANOS) as u32, offset: self.offset };
        if moved.is_in_range() { Ok(moved) } else { Err("timestamp overflow") }
    }

    /// The duration since another point; the error is cel-go's.
    pub(crate) fn since(self, other: Self) -> Result<i64, &'static str> {
        (self.seconds - other.seconds)
            .checked_mul(NANOS)
            .and_then(|nanos| nanos.checked_add(i64::from(self.nanos) - i64::from(other.nanos)))
            .ok_or("integer overflow")
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

/// As RFC 3339 has it, with as many digits of the second as are not zero.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let civil = self.civil();
        write!(
            f,
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}",
            civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second
        )?;
        if self.nanos != 0 {
            let digits = format!("{:09}", self.nanos);
            write!(f, ".{}", digits.trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let sign = if self.offset < 0 { '-' } else { '+' };
        let minutes = self.offset.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// From 1.
    pub(crate) month: i64,
    /// From 1.
    pub(crate) day: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
}

impl Civil {
    /// The date and time of day, of seconds since 1970.
    pub(crate) fn of(seconds: i64) -> Self {
        let of_day = seconds.rem_euclid(DAY);
        // Years begin in March here, so that the day that some years have more is the last of its year.
        let days = seconds.div_euclid(DAY) + 719_468;
        let era = days.div_euclid(146_097);
        let of_era = days.rem_euclid(146_097);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * of_year + 2) / 153;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month,
            day: of_year - (153 * from_march + 2) / 5 + 1,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// Seconds since 1970.
    pub(crate) fn seconds(self) -> i64 {
        days(self.year, self.month, self.day) * DAY + self.hour * 3_600 + self.minute * 60 + self.second
    }

    /// The day of the year, from 0.
    pub(crate) fn day_of_year(self) -> i64 {
        days(self.year, self.month, self.day) - days(self.year, 1, 1)
    }
}

/// Days since 1970.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

/// The day of the week, from 0 for Sunday, of seconds since 1970.
pub(crate) fn day_of_week(seconds: i64) -> i64 {
    (seconds.div_euclid(DAY) + 4).rem_euclid(7)
}

/// The days of a month.
pub(crate) fn days_in_month(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days(next_year, next, 1) - days(year, month, 1)
}

/// Reads a point in time; the error is what Go's `time.Parse` says.
pub(crate) fn parse(layout: Layout, text: &str) -> Result<Timestamp, String> {
    let mut reader = Reader { layout, text, rest: text };
    let year = reader.number("2006", 4, 4)?;
    reader.literal("-")?;
    let month = reader.number("01", 2, 2)?;
    reader.within(month, 1, 12, "month")?;
    reader.literal("-")?;
    let day = reader.number("02", 2, 2)?;
    let mut civil = Civil { year, month, day, hour: 0, minute: 0, second: 0 };
    let (mut nanos, mut offset) = (0, 0);
    if layout != Layout::Date {
        reader.literal("T")?;
        civil.hour = reader.number("15", 1, 2)?;
        reader.within(civil.hour, 0, 23, "hour")?;
        reader.literal(":")?;
        civil.minute = reader.number("04", 2, 2)?;
        reader.within(civil.minute, 0, 59, "minute")?;
        reader.literal(":")?;
        civil.second = reader.number("05", 2, 2)?;
        reader.within(civil.second, 0, 59, "second")?;
        nanos = reader.fraction();
    }
    if layout == Layout::Rfc3339 {
        offset = reader.offset()?;
    }
    if !reader.rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(reader.rest)));
    }
    reader.within(day, 1, days_in_month(year, month), "day")?;
    Ok(Timestamp { seconds: civil.seconds() - offset * 60, nanos, offset: offset as i16 })
}

struct Reader<'t> {
    layout: Layout,
    text: &'t str,
    rest: &'t str,
}

impl Reader<'_> {
    fn literal(&mut self, literal: &'static str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    fn number(&mut self, element: &'static str, least: usize, most: usize) -> Result<i64, String> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at_checked(digits).unwrap_or_default();
        if digits < least {
            return Err(self.mismatch(element));
        }
        self.rest = rest;
        Ok(number.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    fn within(&self, number: i64, least: i64, most: i64, what: &str) -> Result<(), String> {
        if (least..=most).contains(&number) { Ok(()) } else { Err(self.out_of_range(what)) }
    }

    /// The nanoseconds of a fraction, if there is one.
    fn fraction(&mut self) -> u32 {
        let Some(after) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let count = after.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        let digits = after.bytes().take(count).chain(std::iter::repeat(b'0')).take(9);
        self.rest = after.get(count..).unwrap_or_default();
        digits.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'))
    }

    /// Minutes east of UTC.
    fn offset(&mut self) -> Result<i64, String> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let Some(&[sign, h1, h2, b':', m1, m2]) = self.rest.as_bytes().first_chunk::<6>() else {
            return Err(self.mismatch("Z07:00"));
        };
        let number = |tens: u8, ones: u8| {
            let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
            digits.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
        };
        let (Some(hours), Some(minutes)) = (number(h1, h2), number(m1, m2)) else {
            return Err(self.mismatch("Z07:00"));
        };
        if hours > 24 {
            return Err(self.out_of_range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(self.out_of_range("time zone offset minute"));
        }
        let sign = match sign {
            b'+' => 1,
            b'-' => -1,
            _ => return Err(self.mismatch("Z07:00")),
        };
        self.rest = self.rest.get(6..).unwrap_or_default();
        Ok(sign * (hours * 60 + minutes))
    }

    fn mismatch(&self, element: &str) -> String {
        let (text, layout, rest) = (quote(self.text), self.layout.text(), quote(self.rest));
        format!("parsing time {text} as \"{layout}\": cannot parse {rest} as \"{element}\"")
    }

    fn out_of_range(&self, what: &str) -> String {
        format!("parsing time {}: {what} out of range", quote(self.text))
    }
}

/// Quotes text as Go's package `time` does: what is not printable ASCII byte by byte.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=0x7f => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push('"');
    out
}
