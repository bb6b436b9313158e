//! Dates in the format of HTTP, for any time of the clock: hyper's own code panics before 1970.

use std::cell::RefCell;

use http::HeaderValue;
use object::time::Time;

/// The days of the week, from that of 1970-01-01 on.
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The date of a time that has no year of HTTP.
const EPOCH: &str = "Thu, 01 Jan 1970 00:00:00 GMT";

thread_local! {
    /// The last value, with its seconds since 1970.
    static LAST: RefCell<Option<(i64, HeaderValue)>> = const { RefCell::new(None) };
}

/// The current time, as the value of `Date`.
pub(crate) fn now() -> HeaderValue {
    let now = Time::now();
    LAST.with_borrow_mut(|last| match last {
        Some((seconds, value)) if *seconds == now.unix() => value.clone(),
        _ => last.insert((now.unix(), value(now))).1.clone(),
    })
}

fn value(time: Time) -> HeaderValue {
    HeaderValue::try_from(format(time, "GMT")).unwrap_or(HeaderValue::from_static(EPOCH))
}

/// A time in the format of HTTP, with the name of the zone that the reference writes.
pub(crate) fn format(time: Time, zone: &str) -> String {
    let text = time.to_string();
    let formatted = || {
        // 2006-01-02T15:04:05Z
        let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
        let (rest, day) = date.rsplit_once('-')?;
        let (year, month) = rest.rsplit_once('-')?;
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let days = time.unix().div_euclid(86_400);
        let weekday = WEEKDAYS.get(usize::try_from(days.rem_euclid(7)).ok()?)?;
        Some(format!("{weekday}, {day} {month} {year} {clock} {zone}"))
    };
    formatted().unwrap_or_else(|| EPOCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_of_any_year_is_written() {
        for (seconds, text) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
            (-2_208_988_800, "Mon, 01 Jan 1900 00:00:00 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
        ] {
            assert_eq!(value(Time::from_unix(seconds)), text);
        }
        // Nothing that a clock can show panics.
        for seconds in [i64::MIN, i64::MIN / 1_000, i64::MAX / 1_000, i64::MAX] {
            value(Time::from_unix(seconds));
        }
    }

    #[test]
    fn now_is_a_date() {
        assert_eq!(now().to_str().unwrap().len(), "Sun, 06 Nov 1994 08:49:37 GMT".len());
    }
}
