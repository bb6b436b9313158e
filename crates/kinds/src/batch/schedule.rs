//! Schedules of cron jobs: five fields, or a descriptor such as `@hourly`.
//!
//! What is accepted, and the message for what is not, are those of the parser that the job controller uses.

use super::{number, time_zone};
use object::duration::Duration;
use object::quote::Quoted;

/// What the values of a field may be.
struct Field {
    least: i64,
    most: i64,
    /// Other names of the values, from the least on.
    names: &'static [&'static str],
}

const FIELDS: [Field; 5] = [
    Field { least: 0, most: 59, names: &[] },
    Field { least: 0, most: 23, names: &[] },
    Field { least: 1, most: 31, names: &[] },
    Field {
        least: 1,
        most: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Field { least: 0, most: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

/// A schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The name of the time zone in the schedule.
    pub zone: Option<String>,
    /// When the schedule is due.
    pub times: Times,
}

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Times {
    /// Always this long after the time before.
    Every(Duration),
    /// At certain minutes.
    At(Minutes),
}

/// The minutes at which a schedule is due. In each set the bit of a value is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minutes {
    /// The minutes of an hour.
    pub minutes: u64,
    /// The hours of a day.
    pub hours: u64,
    /// The days of a month, from 1 on.
    pub days: u64,
    /// The months, from 1 on.
    pub months: u64,
    /// The days of a week, from Sunday, which is 0, on.
    pub weekdays: u64,
    /// Whether days have to be in both sets of days. Otherwise one is enough.
    pub days_match_both: bool,
}

/// The values of a field.
#[derive(Clone, Copy, Debug, Default)]
struct Values {
    bits: u64,
    /// Whether the field says that it does not matter.
    is_any: bool,
}

impl Values {
    fn all(field: &Field) -> Self {
        Self { bits: bits(field.least, field.most, 1), is_any: true }
    }

    fn one(value: i64) -> Self {
        Self { bits: bits(value, value, 1), is_any: false }
    }
}

fn bits(first: i64, last: i64, every: i64) -> u64 {
    let step = usize::try_from(every).unwrap_or(usize::MAX).max(1);
    (first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value)
}

impl Minutes {
    fn of([minutes, hours, days, months, weekdays]: [Values; 5]) -> Self {
        Self {
            minutes: minutes.bits,
            hours: hours.bits,
            days: days.bits,
            months: months.bits,
            weekdays: weekdays.bits,
            days_match_both: days.is_any || weekdays.is_any,
        }
    }
}

/// Checks a schedule. The message says what is wrong.
pub(super) fn validate(schedule: &str) -> Result<(), String> {
    parse(schedule).map(drop)
}

/// Reads a schedule, which may begin with the name of a time zone. The message says what is wrong.
pub fn parse(schedule: &str) -> Result<Schedule, String> {
    let (mut schedule, mut named) = (schedule, None);
    if let Some(rest) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        let (zone, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        time_zone::find(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        (schedule, named) = (rest.trim(), Some(zone.to_owned()));
    }
    let times = match schedule.starts_with('@') {
        true => descriptor(schedule)?,
        false => Times::At(fields(schedule)?),
    };
    Ok(Schedule { zone: named, times })
}

fn fields(schedule: &str) -> Result<Minutes, String> {
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let (wanted, found) = (FIELDS.len(), parts.len());
        return Err(format!("expected exactly {wanted} fields, found {found}: [{}]", parts.join(" ")));
    }
    let mut all = [Values::default(); 5];
    for ((part, field), values) in parts.into_iter().zip(&FIELDS).zip(&mut all) {
        for text in part.split(',').filter(|range| !range.is_empty()) {
            let more = range(text, field)?;
            values.bits |= more.bits;
            values.is_any |= more.is_any;
        }
    }
    Ok(Minutes::of(all))
}

fn descriptor(text: &str) -> Result<Times, String> {
    let [_, hours, days, months, weekdays] = FIELDS.each_ref().map(Values::all);
    let (zero, one) = (Values::one(0), Values::one(1));
    Ok(Times::At(Minutes::of(match text {
        "@yearly" | "@annually" => [zero, zero, one, one, weekdays],
        "@monthly" => [zero, zero, one, months, weekdays],
        "@weekly" => [zero, zero, days, months, zero],
        "@daily" | "@midnight" => [zero, zero, days, months, weekdays],
        "@hourly" => [zero, hours, days, months, weekdays],
        _ => {
            return match text.strip_prefix("@every ").map(str::parse::<Duration>) {
                Some(Ok(every)) => Ok(Times::Every(every)),
                Some(Err(why)) => Err(format!("failed to parse duration {text}: {why}")),
                None => Err(format!("unrecognized descriptor: {text}")),
            };
        }
    })))
}

/// The values of `*`, `5`, `1-5`, each with or without a step after a slash.
fn range(text: &str, field: &Field) -> Result<Values, String> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (text, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (range, None),
    };
    let is_any = matches!(first, "*" | "?");
    let (start, mut end) = if is_any {
        (field.least, field.most)
    } else {
        let start = value(first, field)?;
        match last {
            None => (start, start),
            Some(last) if last.contains('-') => {
                // Of several hyphens the second number is not read.
                return Err(format!("too many hyphens: {text}"));
            }
            Some(last) => (start, value(last, field)?),
        }
    };
    let mut every = 1;
    if let Some(step) = step {
        if step.contains('/') {
            return Err(format!("too many slashes: {text}"));
        }
        every = count(step)?;
        if last.is_none() {
            end = field.most;
        }
    }
    let (least, most) = (field.least, field.most);
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {text}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if every == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(Values { bits: bits(start, end, every), is_any: is_any && every == 1 })
}

/// A value by name or by number.
fn value(text: &str, field: &Field) -> Result<i64, String> {
    match (field.least..).zip(field.names).find(|(_, name)| name.eq_ignore_ascii_case(text)) {
        Some((value, _)) => Ok(value),
        None => count(text),
    }
}

fn count(text: &str) -> Result<i64, String> {
    match number(text) {
        Err(why) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", Quoted(text)))
        }
        Ok(number @ ..0) => Err(format!("negative number ({number}) not allowed: {text}")),
        Ok(number) => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::{Minutes, Times};

    #[test]
    fn values_of_fields_are_read() {
        let at = |text: &str| match super::parse(text).unwrap().times {
            Times::At(minutes) => minutes,
            Times::Every(_) => panic!("{text}"),
        };
        let all = |least: u64, most: u64| (least..=most).fold(0u64, |bits, value| bits | 1 << value);
        let hourly = Minutes {
            minutes: 1,
            hours: all(0, 23),
            days: all(1, 31),
            months: all(1, 12),
            weekdays: all(0, 6),
            days_match_both: true,
        };
        assert_eq!(at("@hourly"), hourly);
        assert_eq!(at("0 * * * *"), hourly);
        assert_eq!(at("@monthly"), Minutes { hours: 1, days: 1 << 1, ..hourly });
        assert_eq!(at("@weekly"), Minutes { hours: 1, weekdays: 1, ..hourly });
        let some = at("5/20,0 1-3 1,15 JAN-mar,12 sun");
        assert_eq!(some.minutes, 1 | 1 << 5 | 1 << 25 | 1 << 45);
        assert_eq!((some.hours, some.days), (0b1110, 1 << 1 | 1 << 15));
        assert_eq!((some.months, some.weekdays), (0b1110 | 1 << 12, 1));
        assert!(!some.days_match_both);
        assert!(!at("0 0 */2 * 1").days_match_both, "a step is a choice");
        assert!(at("0 0 */1 * 1").days_match_both);
        assert_eq!(super::parse("TZ=Asia/Tokyo @daily").unwrap().zone.as_deref(), Some("Asia/Tokyo"));
        let every = super::parse("@every 90s").unwrap().times;
        assert_eq!(every, Times::Every("90s".parse().unwrap()));
    }

    #[test]
    fn schedules_are_accepted_and_refused_as_the_job_controller_does() {
        let cases = [
            ("* * * * *", ""),
            ("  */5\t0-23/2 1,15 JAN-dec sun ", ""),
            (", ? *-5 5/3 6", ""),
            ("@hourly", ""),
            ("@every 1h30m", ""),
            ("TZ=UTC @daily", ""),
            ("CRON_TZ=Europe/Berlin  0 4 * * *", ""),
            ("   ", "expected exactly 5 fields, found 0: []"),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("* * * * * *", "expected exactly 5 fields, found 6: [* * * * * *]"),
            ("TZ=UTC", "expected exactly 5 fields, found 0: []"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("10-5 * * * *", "beginning of range (10) beyond end of range (5): 10-5"),
            ("* * * * sun-7", "end of range (7) above maximum (6): sun-7"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("5/1/2 * * * *", "too many slashes: 5/1/2"),
            ("1,a * * * *", r#"failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax"#),
            ("-1 * * * *", r#"failed to parse int from : strconv.Atoi: parsing "": invalid syntax"#),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            (
                "99999999999999999999 * * * *",
                r#"failed to parse int from 99999999999999999999: strconv.Atoi: parsing "99999999999999999999": value out of range"#,
            ),
            ("@sometimes", "unrecognized descriptor: @sometimes"),
            ("@every", "unrecognized descriptor: @every"),
            ("@every 1x", r#"failed to parse duration @every 1x: time: unknown unit "x" in duration "1x""#),
            ("TZ=Nope * * * * *", "provided bad location Nope: unknown time zone Nope"),
            ("TZ=../x * * * * *", "provided bad location ../x: time: invalid location name"),
        ];
        for (schedule, wanted) in cases {
            assert_eq!(super::validate(schedule).err().unwrap_or_default(), wanted, "{schedule}");
        }
    }
}
