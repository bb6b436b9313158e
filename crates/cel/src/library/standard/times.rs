//! What points in time and durations consist of.

use crate::library::support::{function, member};
use crate::value::time::{Civil, day_of_week};
use crate::value::{Value, zone};
use crate::{Failure, Function, Outcome, Type};

type Call = for<'a> fn(&[Value<'a>]) -> Outcome<'a>;

/// A part of points in time: the name of the function, its overloads without and with a zone, and what it
/// does.
const PARTS: [(&str, &str, &str, Call); 10] = [
    ("getFullYear", "timestamp_to_year", "timestamp_to_year_with_tz", |args| {
        part(args, |civil, _, _| civil.year)
    }),
    ("getMonth", "timestamp_to_month", "timestamp_to_month_with_tz", |args| {
        part(args, |civil, _, _| civil.month - 1)
    }),
    ("getDayOfYear", "timestamp_to_day_of_year", "timestamp_to_day_of_year_with_tz", |args| {
        part(args, |civil, _, _| civil.day_of_year())
    }),
    ("getDayOfMonth", "timestamp_to_day_of_month", "timestamp_to_day_of_month_with_tz", |args| {
        part(args, |civil, _, _| civil.day - 1)
    }),
    ("getDate", "timestamp_to_day_of_month_1_based", "timestamp_to_day_of_month_1_based_with_tz", |args| {
        part(args, |civil, _, _| civil.day)
    }),
    ("getDayOfWeek", "timestamp_to_day_of_week", "timestamp_to_day_of_week_with_tz", |args| {
        part(args, |_, seconds, _| day_of_week(seconds))
    }),
    ("getHours", "timestamp_to_hours", "timestamp_to_hours_with_tz", |args| {
        part(args, |civil, _, _| civil.hour)
    }),
    ("getMinutes", "timestamp_to_minutes", "timestamp_to_minutes_with_tz", |args| {
        part(args, |civil, _, _| civil.minute)
    }),
    ("getSeconds", "timestamp_to_seconds", "timestamp_to_seconds_tz", |args| {
        part(args, |civil, _, _| civil.second)
    }),
    ("getMilliseconds", "timestamp_to_milliseconds", "timestamp_to_milliseconds_with_tz", |args| {
        part(args, |_, _, nanos| i64::from(nanos / 1_000_000))
    }),
];

/// A length of time in a unit: the name of the function, its overload, and what it does.
const LENGTHS: [(&str, &str, Call); 4] = [
    ("getHours", "duration_to_hours", |args| length(args, 3_600_000_000_000)),
    ("getMinutes", "duration_to_minutes", |args| length(args, 60_000_000_000)),
    ("getSeconds", "duration_to_seconds", |args| length(args, 1_000_000_000)),
    ("getMilliseconds", "duration_to_milliseconds", |args| length(args, 1_000_000)),
];

pub(super) fn functions() -> Vec<Function> {
    let with_lengths = |(name, id, id_with_zone, run): (&str, _, _, Call)| {
        let parts = [
            member(id, [Type::Timestamp], Type::Int, run),
            member(id_with_zone, [Type::Timestamp, Type::String], Type::Int, run),
        ];
        let lengths = LENGTHS.into_iter().filter(|(there, ..)| *there == name);
        let lengths = lengths.map(|(_, id, run)| member(id, [Type::Duration], Type::Int, run));
        function(name, parts.into_iter().chain(lengths))
    };
    PARTS.into_iter().map(with_lengths).collect()
}

/// A part of a point in time, in UTC or in the zone that is the second argument.
fn part<'a>(args: &[Value<'a>], part: fn(Civil, i64, u32) -> i64) -> Outcome<'a> {
    let (time, offset) = match args {
        [Value::Timestamp(time)] => (time, 0),
        [Value::Timestamp(time), Value::String(zone)] => {
            (time, zone::offset(zone.as_str(), time.seconds).map_err(Failure::error)?)
        }
        _ => return Err(Failure::error("no such overload")),
    };
    let seconds = time.seconds.saturating_add(offset);
    Ok(Value::Int(part(Civil::of(seconds), seconds, time.nanos)))
}

fn length<'a>(args: &[Value<'a>], unit: i64) -> Outcome<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / unit)),
        _ => Err(Failure::error("no such overload")),
    }
}
