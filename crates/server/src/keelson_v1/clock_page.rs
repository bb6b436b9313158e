//! `/keelson/v1/clock`: what the clock of the server shows, and moving it.

use clock::{Change, Place, Reading};
use faults::document::Fields;
use http::Method;
use object::Map;
use object::duration::Duration as GoDuration;
use object::field::{Error as FieldError, List, Path};
use object::time::MicroTime;
use std::time::{Duration, SystemTime};

use super::{document, is_read, json, not_allowed, unprocessable};
use crate::{Error, Request, Response};

pub(super) async fn answer(request: &mut Request) -> Result<Response, Error> {
    match request.method() {
        method if is_read(method) => Ok(json(shown(clock::read()))),
        &Method::PUT => {
            let document = document(request).await?;
            let change = read(&document).map_err(unprocessable)?;
            let reading =
                clock::change(change).map_err(|refused| unprocessable(refusal(refused, &document)))?;
            log::warn!(rate = reading.rate, offset:% = offset(reading); "the clock of this server was moved by a client");
            Ok(json(shown(reading)))
        }
        _ => Ok(not_allowed("GET, HEAD, PUT")),
    }
}

fn shown(reading: Reading) -> String {
    let now = MicroTime::from(reading.now);
    format!("{{\"now\":\"{now}\",\"rate\":{},\"offset\":\"{}\"}}\n", reading.rate, offset(reading))
}

/// How far the clock is ahead, to the millisecond: what is read of two clocks one after the other is not
/// more exact.
fn offset(reading: Reading) -> GoDuration {
    let millis = reading.offset / 1_000_000;
    GoDuration::from_nanos(i64::try_from(millis * 1_000_000).unwrap_or(i64::MAX))
}

/// What a document asks for: one place at most, and a rate.
fn read(document: &Map) -> Result<Change, List> {
    let mut errors = List::default();
    let mut fields = Fields::new(document, &Path::UNSET);
    let step = fields.span("step", &mut errors);
    let rate = fields.number("rate", &mut errors);
    let now = fields.text("now", &mut errors);
    let reset = fields.flag("reset", &mut errors);
    fields.finish(&mut errors);
    let now = now.and_then(|text| match text.parse::<MicroTime>().or_else(|_| seconds(text)) {
        Ok(time) => Some(Place::At(day(time))),
        Err(why) => {
            errors.push(FieldError::invalid(&Path::new("now"), text, why.to_string()));
            None
        }
    });
    let step = step.map(|span| {
        let length = Duration::from_nanos(span.as_nanos().unsigned_abs());
        if span.is_negative() { Place::Back(length) } else { Place::Forward(length) }
    });
    let reset = reset.filter(|reset| *reset);
    let places: Vec<Place> = [step, now, reset.map(|_| Place::System)].into_iter().flatten().collect();
    if places.len() > 1 {
        errors
            .push(FieldError::forbidden(&Path::new("step"), "only one of step, now and reset may be given"));
    }
    if places.is_empty() && rate.is_none() && errors.is_empty() {
        errors.push(FieldError::required(&Path::new("step"), "one of step, now, rate and reset is needed"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(Change { place: places.first().copied(), rate: rate.or(reset.map(|_| 1.0)) })
}

/// A time without a fraction.
fn seconds(text: &str) -> Result<MicroTime, object::time::Error> {
    text.parse::<object::time::Time>().map(|time| MicroTime::from_unix(time.unix(), 0))
}

fn day(time: MicroTime) -> SystemTime {
    let seconds = Duration::from_secs(time.unix().unsigned_abs());
    let whole = match time.unix() {
        0.. => SystemTime::UNIX_EPOCH.checked_add(seconds),
        _ => SystemTime::UNIX_EPOCH.checked_sub(seconds),
    };
    whole.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from_nanos(time.subsec_nanos().into())
}

/// The field that is to blame for a refusal.
fn refusal(refused: clock::Refused, document: &Map) -> List {
    let mut errors = List::default();
    let named = |name: &'static str| document.get(name).is_some().then_some(name);
    let (name, value) = match refused {
        clock::Refused::Rate => ("rate", document.get("rate").map(|rate| format!("{}", number(rate)))),
        clock::Refused::Range => {
            let name = named("step").or(named("now")).unwrap_or("reset");
            (name, document.get(name).and_then(|value| value.as_str().map(str::to_owned)))
        }
    };
    errors.push(FieldError::invalid(&Path::new(name), value.unwrap_or_default(), refused.to_string()));
    errors
}

fn number(value: &object::Value) -> f64 {
    value.as_f64().or_else(|| value.as_i64().map(|whole| whole as f64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(text: &str) -> Result<Change, String> {
        let document = faults::document::parse(text.as_bytes())?;
        let all = |errors: List| {
            errors
                .into_vec()
                .iter()
                .map(|error| format!("{}: {}", error.path, error.body()))
                .collect::<Vec<_>>()
        };
        read(&document).map_err(|errors| all(errors).join("; "))
    }

    #[test]
    fn document_says_where_the_clock_goes_and_how_fast() {
        let hour = Duration::from_secs(3600);
        for (text, place, rate) in [
            (r#"{"step":"1h"}"#, Some(Place::Forward(hour)), None),
            (r#"{"step":"-1h","rate":60}"#, Some(Place::Back(hour)), Some(60.0)),
            (r#"{"rate":1.5}"#, None, Some(1.5)),
            (r#"{"reset":true}"#, Some(Place::System), Some(1.0)),
            (r#"{"now":"1970-01-01T01:00:00Z"}"#, Some(Place::At(SystemTime::UNIX_EPOCH + hour)), None),
            (
                r#"{"now":"1970-01-01T02:00:00.500000+01:00"}"#,
                Some(Place::At(SystemTime::UNIX_EPOCH + hour + Duration::from_millis(500))),
                None,
            ),
        ] {
            assert_eq!(change(text), Ok(Change { place, rate }), "{text}");
        }
    }

    #[test]
    fn document_that_says_nothing_or_too_much_is_refused_with_its_fields() {
        for (text, said) in [
            ("{}", "step: Required value"),
            (r#"{"reset":false}"#, "step: Required value"),
            (r#"{"step":"1h","now":"2030-01-01T00:00:00Z"}"#, "step: Forbidden: only one of"),
            (r#"{"step":"soon"}"#, "step: Invalid value: \"soon\""),
            (r#"{"now":"today"}"#, "now: Invalid value: \"today\""),
            (r#"{"rate":"fast"}"#, "rate: Invalid value: \"fast\": must be a number"),
            (r#"{"speed":2}"#, "speed: Forbidden: unknown field"),
            ("[]", "an object is expected"),
        ] {
            let error = change(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
