//! The calendar: between days since 1970 and years, months and days.

use std::fmt;

const SECONDS_PER_DAY: i64 = 86_400;
/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from the first of March of year 0 to the first of January 1970.
const EPOCH_FROM_MARCH_0: i64 = 719_468;

/// A date and a time of day, without a zone. It displays as `2006-01-02T15:04:05`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Civil {
    pub(super) year: i64,
    pub(super) month: u32,
    pub(super) day: u32,
    pub(super) hour: u32,
    pub(super) minute: u32,
    pub(super) second: u32,
}

impl Civil {
    pub(super) fn from_unix(seconds: i64) -> Self {
        let of_day = seconds.rem_euclid(SECONDS_PER_DAY) as u32;
        let days = seconds.div_euclid(SECONDS_PER_DAY) + EPOCH_FROM_MARCH_0;
        let era = days.div_euclid(DAYS_PER_ERA);
        let of_era = days.rem_euclid(DAYS_PER_ERA);
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        // Counted from March, months of 31 and 30 days follow a line of 153 days for each five.
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as u32,
            day: day as u32,
            hour: of_day / 3_600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }

    /// Seconds since 1970. The fields are in their ranges.
    pub(super) fn to_unix(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let year_of_era = year.rem_euclid(400);
        let month_from_march = i64::from((self.month + 9) % 12);
        let of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year;
        let days = era * DAYS_PER_ERA + of_era - EPOCH_FROM_MARCH_0;
        let of_day = self.hour * 3_600 + self.minute * 60 + self.second;
        days * SECONDS_PER_DAY + i64::from(of_day)
    }
}

impl Civil {
    /// The text, for the years that have four digits.
    pub(super) fn digits(&self) -> Option<[u8; 19]> {
        let Self { year, month, day, hour, minute, second } = *self;
        let year = u32::try_from(year).ok().filter(|&year| year <= 9_999)?;
        let [century, year_of_century] = [year / 100, year % 100].map(two_digits);
        let [month, day, hour, minute, second] = [month, day, hour, minute, second].map(two_digits);
        Some([
            century[0],
            century[1],
            year_of_century[0],
            year_of_century[1],
            b'-',
            month[0],
            month[1],
            b'-',
            day[0],
            day[1],
            b'T',
            hour[0],
            hour[1],
            b':',
            minute[0],
            minute[1],
            b':',
            second[0],
            second[1],
        ])
    }
}

impl fmt::Display for Civil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(digits) = self.digits() {
            return f.write_str(std::str::from_utf8(&digits).unwrap_or_default());
        }
        let Self { year, month, day, hour, minute, second } = *self;
        let sign = if year < 0 { "-" } else { "" };
        let year = year.unsigned_abs();
        write!(f, "{sign}{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

pub(super) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

fn two_digits(number: u32) -> [u8; 2] {
    [b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8]
}
