//! Time zones: the offset of local time at every instant, as the bundled database of time zones says.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

/// A time zone.
#[derive(Clone, Debug)]
pub(super) struct Zone(TimeZone);

impl Zone {
    /// The zone with a name, which is UTC if it is empty; the message says why there is none.
    pub(super) fn find(name: &str) -> Result<Self, String> {
        kinds::find_time_zone(name)?;
        if matches!(name, "" | "UTC" | "Local") {
            return Ok(Self(TimeZone::UTC));
        }
        let zone = TimeZoneDatabase::bundled().get(name);
        zone.map(Self).map_err(|_| format!("unknown time zone {name}"))
    }

    /// The local time at an instant.
    pub(super) fn local(&self, unix: i64) -> Option<DateTime> {
        let at = Timestamp::from_second(unix.checked_add(self.offset(unix))?).ok()?;
        Some(Offset::UTC.to_datetime(at))
    }

    /// The instant of a local time. A local time that does not exist, or exists twice, is taken by the offset
    /// before or after the transition, as Go does.
    pub(super) fn instant(&self, local: DateTime) -> Option<i64> {
        let as_utc = Offset::UTC.to_timestamp(local).ok()?.as_second();
        Some(as_utc - self.offset(as_utc - self.offset(as_utc)))
    }

    /// The seconds by which local time is ahead of UTC.
    fn offset(&self, unix: i64) -> i64 {
        Timestamp::from_second(unix).map_or(0, |at| i64::from(self.0.to_offset(at).seconds()))
    }

    /// An instant in RFC 3339, in local time.
    pub(super) fn text(&self, unix: i64) -> String {
        let Some(local) = self.local(unix) else { return String::new() };
        let offset = self.offset(unix);
        let text = local.strftime("%Y-%m-%dT%H:%M:%S");
        match offset {
            0 => format!("{text}Z"),
            _ => {
                let (sign, minutes) = (if offset < 0 { '-' } else { '+' }, offset.abs() / 60);
                format!("{text}{sign}{:02}:{:02}", minutes / 60, minutes % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_times_follow_the_rules_of_the_zone() {
        let berlin = Zone::find("Europe/Berlin").unwrap();
        assert_eq!(berlin.text(1_767_225_600), "2026-01-01T01:00:00+01:00");
        assert_eq!(berlin.text(1_782_864_000), "2026-07-01T02:00:00+02:00");
        assert_eq!(Zone::find("").unwrap().text(1_767_225_600), "2026-01-01T00:00:00Z");
        assert_eq!(Zone::find("Asia/Kolkata").unwrap().text(0), "1970-01-01T05:30:00+05:30");
        assert_eq!(Zone::find("America/St_Johns").unwrap().text(1_767_225_600), "2025-12-31T20:30:00-03:30");
        assert_eq!(Zone::find("Mars/Phobos").unwrap_err(), "unknown time zone Mars/Phobos");
    }

    #[test]
    fn every_zone_that_is_accepted_is_in_the_database() {
        for name in ["America/New_York", "Etc/GMT+5", "Zulu", "Asia/Calcutta", "US/Pacific", "Pacific/Apia"] {
            assert!(Zone::find(name).is_ok(), "{name}");
        }
    }
}
