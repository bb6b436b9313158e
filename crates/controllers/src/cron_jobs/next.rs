//! When a schedule is due next, and how often it was since the last time.
//!
//! The steps over months, days, hours and minutes are those of the library that the reference uses, because
//! they decide what happens when clocks change: local times that a change skips are not due on that day, and
//! those that come twice are due twice.

use super::zone::Zone;
use jiff::ToSpan as _;
use jiff::civil::DateTime;
use kinds::schedule::{Minutes, Times};

/// Times, as seconds since 1970.
pub(super) type Unix = i64;

/// A schedule in its time zone.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    pub(super) times: Times,
    pub(super) zone: Zone,
}

impl Schedule {
    /// The first time after another one. `None` if there is none within five years.
    pub(super) fn next(&self, after: Unix) -> Option<Unix> {
        match &self.times {
            Times::Every(every) => after.checked_add(every.as_secs().max(1)),
            Times::At(minutes) => self.next_at(minutes, after),
        }
    }

    fn next_at(&self, set: &Minutes, after: Unix) -> Option<Unix> {
        let zone = &self.zone;
        let has = |bits: u64, value: i8| {
            bits & 1u64.checked_shl(u32::try_from(value).unwrap_or(64)).unwrap_or(0) != 0
        };
        let mut at = after.checked_add(1)?;
        let last_year = zone.local(at)?.year().checked_add(5)?;
        // Whether the smaller units were set to their first value.
        let mut is_rounded = false;
        'wrap: loop {
            let mut local = zone.local(at)?;
            if local.year() > last_year {
                return None;
            }
            while !has(set.months, local.month()) {
                if !std::mem::replace(&mut is_rounded, true) {
                    local = local.date().first_of_month().at(0, 0, 0, 0);
                }
                at = zone.instant(local.checked_add(1.month()).ok()?)?;
                local = zone.local(at)?;
                if local.month() == 1 {
                    continue 'wrap;
                }
            }
            while !is_day(set, local) {
                if !std::mem::replace(&mut is_rounded, true) {
                    at = zone.instant(local.date().at(0, 0, 0, 0))?;
                    local = zone.local(at)?;
                }
                at = zone.instant(local.checked_add(1.day()).ok()?)?;
                // A day may not begin at midnight.
                match i64::from(zone.local(at)?.hour()) {
                    0 => {}
                    hour @ 13.. => at += (24 - hour) * 3600,
                    hour => at -= hour * 3600,
                }
                local = zone.local(at)?;
                if local.day() == 1 {
                    continue 'wrap;
                }
            }
            while !has(set.hours, local.hour()) {
                if !std::mem::replace(&mut is_rounded, true) {
                    at = zone.instant(local.date().at(local.hour(), 0, 0, 0))?;
                }
                at += 3600;
                local = zone.local(at)?;
                if local.hour() == 0 {
                    continue 'wrap;
                }
            }
            while !has(set.minutes, local.minute()) {
                if !std::mem::replace(&mut is_rounded, true) {
                    at -= at.rem_euclid(60);
                }
                at += 60;
                local = zone.local(at)?;
                if local.minute() == 0 {
                    continue 'wrap;
                }
            }
            if local.second() != 0 {
                is_rounded = true;
                at += 60 - i64::from(local.second());
                continue 'wrap;
            }
            return Some(at);
        }
    }
}

fn is_day(set: &Minutes, local: DateTime) -> bool {
    let has =
        |bits: u64, value: i8| bits & 1u64.checked_shl(u32::try_from(value).unwrap_or(64)).unwrap_or(0) != 0;
    let in_month = has(set.days, local.day());
    let in_week = has(set.weekdays, local.weekday().to_sunday_zero_offset());
    if set.days_match_both { in_month && in_week } else { in_month || in_week }
}

/// How many times were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    None,
    Few,
    /// More than a hundred.
    Many,
}

/// What a schedule says about the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Past {
    /// From when on times count.
    pub(super) since: Unix,
    /// The last time that is due.
    pub(super) latest: Option<Unix>,
    pub(super) missed: Missed,
}

/// A schedule that is well formed and is never due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Never;

impl std::fmt::Display for Never {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("time difference between two schedules is less than 1 second")
    }
}

impl Schedule {
    /// What was due since a time, up to now.
    pub(super) fn past(&self, since: Unix, now: Unix) -> Result<Past, Never> {
        let first = self.next(since).ok_or(Never)?;
        let none = Past { since, latest: None, missed: Missed::None };
        if now < first {
            return Ok(none);
        }
        let second = self.next(first).ok_or(Never)?;
        if now < second {
            return Ok(Past { latest: Some(first), ..none });
        }
        let between = second - first;
        if between < 1 {
            return Err(Never);
        }
        let count = (now - first) / between + 1;
        let mut latest = None;
        // One step back, because the steps may differ in length.
        let mut next = self.next(first + (count - 2) * between);
        while let Some(at) = next.filter(|at| *at <= now) {
            latest = Some(at);
            next = self.next(at);
        }
        let missed = if count > 100 { Missed::Many } else { Missed::Few };
        Ok(Past { since, latest, missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::time::Time;

    fn schedule(text: &str, zone: &str) -> Schedule {
        Schedule { times: kinds::schedule::parse(text).unwrap().times, zone: Zone::find(zone).unwrap() }
    }

    fn unix(text: &str) -> Unix {
        text.parse::<Time>().unwrap().unix()
    }

    #[test]
    fn schedules_are_due_at_their_next_minute() {
        let cases = [
            ("0/15 * * * *", "", "2026-07-09T14:45:00Z", "2026-07-09T15:00:00Z"),
            ("0/15 * * * *", "", "2026-07-09T14:59:59Z", "2026-07-09T15:00:00Z"),
            ("20-35/15 * * * *", "", "2026-07-09T15:45:00Z", "2026-07-09T16:20:00Z"),
            ("* 10 * * *", "", "2026-07-09T23:35:51Z", "2026-07-10T10:00:00Z"),
            ("0 0 9 apr-oct ?", "", "2026-10-09T23:35:00Z", "2027-04-09T00:00:00Z"),
            ("0 0 1 * 1", "", "2026-07-02T00:00:00Z", "2026-07-06T00:00:00Z"),
            ("0 0 29 2 *", "", "2026-07-09T23:35:00Z", "2028-02-29T00:00:00Z"),
            ("@every 90s", "", "2026-07-09T14:45:10Z", "2026-07-09T14:46:40Z"),
            ("@every 10ms", "", "2026-07-09T14:45:10Z", "2026-07-09T14:45:11Z"),
            ("0 9 * * *", "Asia/Tokyo", "2026-07-09T00:00:00Z", "2026-07-10T00:00:00Z"),
            // Clocks skip the hour from 2 to 3, and have it twice in autumn.
            ("30 2 * * *", "America/New_York", "2026-03-08T05:00:00Z", "2026-03-09T06:30:00Z"),
            ("0 * * * *", "America/New_York", "2026-03-08T06:00:00Z", "2026-03-08T07:00:00Z"),
            ("30 1 * * *", "America/New_York", "2026-11-01T04:00:00Z", "2026-11-01T05:30:00Z"),
            ("30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z"),
            // Midnight does not exist on this day.
            ("0 0 * * *", "America/Sao_Paulo", "2018-11-04T02:59:00Z", "2018-11-05T02:00:00Z"),
        ];
        for (text, zone, after, expected) in cases {
            let next = schedule(text, zone).next(unix(after)).map(|at| Time::from_unix(at).to_string());
            assert_eq!(next.as_deref(), Some(expected), "{text} {zone} after {after}");
        }
        assert_eq!(schedule("0 0 31 2 *", "").next(unix("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn missed_times_are_counted_and_the_latest_is_found() {
        let past = |text: &str, since: &str, now: &str| {
            let past = schedule(text, "").past(unix(since), unix(now));
            past.map(|past| (past.latest.map(|at| Time::from_unix(at).to_string()), past.missed))
        };
        let at = |text: &str| Some(text.to_owned());
        let day = "2026-05-19T";
        let is = |since: &str, now: &str| {
            past("0 * * * *", &format!("{day}{since}Z"), &format!("{day}{now}Z")).unwrap()
        };
        assert_eq!(is("08:00:00", "08:50:00"), (None, Missed::None));
        assert_eq!(is("08:00:00", "09:00:00"), (at("2026-05-19T09:00:00Z"), Missed::None));
        assert_eq!(is("08:00:00", "12:10:00"), (at("2026-05-19T12:00:00Z"), Missed::Few));
        let many = past("* * * * *", "2026-05-18T00:00:00Z", "2026-05-19T00:00:30Z").unwrap();
        assert_eq!(many, (at("2026-05-19T00:00:00Z"), Missed::Many));
        let uneven = past("30 6-16/4 * * 1-5", "2026-05-15T14:00:00Z", "2026-05-18T11:00:00Z").unwrap();
        assert_eq!(uneven, (at("2026-05-18T10:30:00Z"), Missed::Few));
        assert_eq!(past("59 23 31 2 *", "2026-05-15T14:00:00Z", "2026-05-18T11:00:00Z"), Err(Never));
    }
}
