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

/// Checks a schedule, which may begin with the name of a time zone. The message says what is wrong.
pub(super) fn validate(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    if let Some(rest) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) {
        let (zone, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        time_zone::find(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
        schedule = rest.trim();
    }
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let parts: Vec<&str> = schedule.split_whitespace().collect();
    if parts.len() != FIELDS.len() {
        let (wanted, found) = (FIELDS.len(), parts.len());
        return Err(format!("expected exactly {wanted} fields, found {found}: [{}]", parts.join(" ")));
    }
    for (part, field) in parts.into_iter().zip(&FIELDS) {
        for range in part.split(',').filter(|range| !range.is_empty()) {
            validate_range(range, field)?;
        }
    }
    Ok(())
}

fn descriptor(text: &str) -> Result<(), String> {
    if matches!(text, "@yearly" | "@annually" | "@monthly" | "@weekly" | "@daily" | "@midnight" | "@hourly") {
        return Ok(());
    }
    match text.strip_prefix("@every ").map(str::parse::<Duration>) {
        Some(Ok(_)) => Ok(()),
        Some(Err(why)) => Err(format!("failed to parse duration {text}: {why}")),
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// Checks `*`, `5`, `1-5`, each with or without a step after a slash.
fn validate_range(text: &str, field: &Field) -> Result<(), String> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (text, None),
    };
    let (first, last) = match range.split_once('-') {
        Some((first, last)) => (first, Some(last)),
        None => (range, None),
    };
    let (start, mut end) = if matches!(first, "*" | "?") {
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
    Ok(())
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
