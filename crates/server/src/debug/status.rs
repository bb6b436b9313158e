//! `/statusz`: since when the process runs, and which version it is.

use std::time::Duration;

use object::time::{MicroTime, Time};

use super::{ProcessStatus, accept, flags, text};
use crate::{Request, Response, date};

pub(super) fn answer(request: &Request, status: Option<&ProcessStatus>) -> Response {
    match (accept::refusal(request), status) {
        (Some(refused), _) => refused,
        (None, Some(status)) => text(said(status, MicroTime::from(clock::system()).into())),
        (None, None) => super::not_found(),
    }
}

fn said(status: &ProcessStatus, now: Time) -> String {
    let seconds = u64::try_from(now.unix() - status.started.unix()).unwrap_or_default();
    let up = Duration::from_secs(seconds).as_secs();
    format!(
        "{}\nStarted: {}\nUp: {} hr {:02} min {:02} sec\nGo version: none\nBinary version: {}\nEmulation version: {}\n",
        flags::heading("statusz"),
        unix_date(status.started),
        up / 3600,
        up / 60 % 60,
        up % 60,
        status.binary_version,
        status.emulation_version,
    )
}

/// A time as `date` prints it: `Thu Nov 19 04:55:56 UTC 2026`.
fn unix_date(time: Time) -> String {
    // Thu, 19 Nov 2026 04:55:56 UTC
    let text = date::format(time, "UTC");
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        [weekday, day, month, year, clock, zone] => {
            let (weekday, day) = (weekday.trim_end_matches(','), day.trim_start_matches('0'));
            format!("{weekday} {month} {day:>2} {clock} {zone} {year}")
        }
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_has_the_lines_of_the_reference() {
        let status = ProcessStatus {
            started: "2026-11-09T04:55:56Z".parse().unwrap(),
            binary_version: "1.33.7".into(),
            emulation_version: "1.33".into(),
        };
        let now = "2026-11-10T06:00:00Z".parse().unwrap();
        let expected = "Started: Mon Nov  9 04:55:56 UTC 2026\nUp: 25 hr 04 min 04 sec\nGo version: none\nBinary version: 1.33.7\nEmulation version: 1.33\n";
        let said = said(&status, now);
        assert!(said.starts_with("\nkube-apiserver statusz\nWarning: "), "{said}");
        assert!(said.ends_with(expected), "{said}");
    }
}
