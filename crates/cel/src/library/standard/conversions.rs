//! Conversions between types.

use crate::library::support::{function, overload};
use crate::value::{Bytes, Str, Timestamp, Value, double, time};
use crate::{Failure, Function, Outcome, Type};
use object::duration::Duration;
use object::float;

pub(super) fn functions() -> Vec<Function> {
    use Type::{Bool, Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let to = |ty: Type, from: Vec<(&'static str, Type, Call)>| {
        let overloads = from.into_iter().map(|(id, param, run)| overload(id, [param], ty.clone(), run));
        let name = match ty {
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            ref ty => ty.name(),
        };
        function(name, overloads)
    };
    vec![
        to(Bool, vec![("bool_to_bool", Bool, same), ("string_to_bool", String, to_bool)]),
        to(Bytes, vec![("bytes_to_bytes", Bytes, same), ("string_to_bytes", String, to_bytes)]),
        to(
            Double,
            vec![
                ("double_to_double", Double, same),
                ("int64_to_double", Int, to_double),
                ("string_to_double", String, to_double),
                ("uint64_to_double", Uint, to_double),
            ],
        ),
        to(
            Duration,
            vec![
                ("duration_to_duration", Duration, same),
                ("int64_to_duration", Int, to_duration),
                ("string_to_duration", String, to_duration),
            ],
        ),
        to(
            Int,
            vec![
                ("int64_to_int64", Int, same),
                ("double_to_int64", Double, to_int),
                ("duration_to_int64", Duration, to_int),
                ("string_to_int64", String, to_int),
                ("timestamp_to_int64", Timestamp, to_int),
                ("uint64_to_int64", Uint, to_int),
            ],
        ),
        to(
            String,
            vec![
                ("string_to_string", String, same),
                ("bool_to_string", Bool, to_string),
                ("bytes_to_string", Bytes, to_string),
                ("double_to_string", Double, to_string),
                ("duration_to_string", Duration, to_string),
                ("int64_to_string", Int, to_string),
                ("timestamp_to_string", Timestamp, to_string),
                ("uint64_to_string", Uint, to_string),
            ],
        ),
        to(
            Timestamp,
            vec![
                ("timestamp_to_timestamp", Timestamp, same),
                ("int64_to_timestamp", Int, to_timestamp),
                ("string_to_timestamp", String, to_timestamp),
            ],
        ),
        to(
            Uint,
            vec![
                ("uint64_to_uint64", Uint, same),
                ("double_to_uint64", Double, to_uint),
                ("int64_to_uint64", Int, to_uint),
                ("string_to_uint64", String, to_uint),
            ],
        ),
    ]
}

type Call = for<'a> fn(&[Value<'a>]) -> Outcome<'a>;

fn same<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(args.first().cloned().unwrap_or(Value::Null))
}

/// The error of a value that cannot be converted.
fn refused(args: &[Value<'_>], ty: &Type) -> Failure {
    let from = args.first().map_or(Type::Null, Value::type_of);
    Failure::error(format!("type conversion error from '{}' to '{}'", from.name(), ty.name()))
}

fn overflow() -> Failure {
    Failure::error("integer overflow")
}

fn unsigned_overflow() -> Failure {
    Failure::error("unsigned integer overflow")
}

fn to_bool<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match text.as_str() {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(refused(args, &Type::Bool)),
        },
        _ => Err(refused(args, &Type::Bool)),
    }
}

fn to_bytes<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(Str::Borrowed(text))] => Ok(Value::Bytes(Bytes::Borrowed(text.as_bytes()))),
        [Value::String(text)] => Ok(Value::Bytes(Bytes::Shared(text.as_str().as_bytes().into()))),
        _ => Err(refused(args, &Type::Bytes)),
    }
}

fn to_double<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Int(number)] => Ok(Value::Double(*number as f64)),
        [Value::Uint(number)] => Ok(Value::Double(*number as f64)),
        [Value::String(text)] => {
            parse_double(text.as_str()).map(Value::Double).ok_or_else(|| refused(args, &Type::Double))
        }
        _ => Err(refused(args, &Type::Double)),
    }
}

/// A number without the underscores that Go allows between its digits, and after `0x`; `None` if one is
/// elsewhere.
fn without_underscores(text: &str) -> Option<String> {
    let rest = text.trim_start_matches(['-', '+']);
    let hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    let begin = text.len() - rest.len() + if hexadecimal { 2 } else { 0 };
    let is_digit = |byte: u8| if hexadecimal { byte.is_ascii_hexdigit() } else { byte.is_ascii_digit() };
    let bytes = text.as_bytes();
    for (place, _) in text.match_indices('_') {
        let before = place.checked_sub(1).and_then(|before| bytes.get(before)).copied()?;
        let after = bytes.get(place + 1).copied()?;
        let is_led = is_digit(before) || hexadecimal && place == begin;
        if !is_led || !is_digit(after) {
            return None;
        }
    }
    Some(text.replace('_', ""))
}

/// A number as Go's `strconv.ParseFloat` reads it.
fn parse_double(text: &str) -> Option<f64> {
    let plain;
    let text = if text.contains('_') {
        plain = without_underscores(text)?;
        &plain
    } else {
        text
    };
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, text.get(1..)?),
        b'+' => (1.0, text.get(1..)?),
        _ => (1.0, text),
    };
    if ["inf", "infinity"].iter().any(|name| rest.eq_ignore_ascii_case(name)) {
        return Some(sign * f64::INFINITY);
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        return hexadecimal(digits).map(|number| sign * number);
    }
    if !rest.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// A hexadecimal number with an exponent of two: `1.8p3`.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, exponent) = text.split_once(['p', 'P'])?;
    let mut exponent: i64 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (mut mantissa, mut lost, mut any) = (0_u64, false, false);
    let with_places =
        whole.bytes().map(|byte| (byte, false)).chain(fraction.bytes().map(|byte| (byte, true)));
    for (byte, is_fraction) in with_places {
        let digit = u64::from(char::from(byte).to_digit(16)?);
        any = true;
        if mantissa >> 60 == 0 {
            mantissa = mantissa << 4 | digit;
            exponent = exponent.saturating_sub(if is_fraction { 4 } else { 0 });
        } else {
            lost |= digit != 0;
            exponent = exponent.saturating_add(if is_fraction { 0 } else { 4 });
        }
    }
    // What was cut off only decides which way a tie is rounded.
    let number = (mantissa | u64::from(lost)) as f64;
    let scaled = scale(number, exponent.clamp(-5_000, 5_000));
    (any && scaled.is_finite()).then_some(scaled)
}

/// A number times a power of two.
fn scale(mut number: f64, mut exponent: i64) -> f64 {
    while exponent > 0 {
        number *= 2_f64.powi(exponent.min(1_000) as i32);
        exponent -= exponent.min(1_000);
    }
    while exponent < 0 {
        number *= 2_f64.powi(exponent.max(-1_000) as i32);
        exponent -= exponent.max(-1_000);
    }
    number
}

fn to_duration<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::String(text)] => match text.as_str().parse::<Duration>() {
            Ok(duration) => Ok(Value::Duration(duration.as_nanos())),
            Err(_) => Err(refused(args, &Type::Duration)),
        },
        _ => Err(refused(args, &Type::Duration)),
    }
}

fn to_int<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Double(number)] => {
            let limit = -(i64::MIN as f64);
            let fits = *number > -limit && *number < limit;
            if fits { Ok(Value::Int(*number as i64)) } else { Err(overflow()) }
        }
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(time)] => Ok(Value::Int(time.seconds)),
        [Value::Uint(number)] => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        [Value::String(text)] => text.as_str().parse().map(Value::Int).map_err(|_| refused(args, &Type::Int)),
        _ => Err(refused(args, &Type::Int)),
    }
}

fn to_uint<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Double(number)] => {
            let fits = *number >= 0.0 && *number < 18_446_744_073_709_551_616.0;
            if fits { Ok(Value::Uint(*number as u64)) } else { Err(unsigned_overflow()) }
        }
        [Value::Int(number)] => u64::try_from(*number).map(Value::Uint).map_err(|_| unsigned_overflow()),
        [Value::String(text)] if !text.as_str().starts_with('+') => {
            text.as_str().parse().map(Value::Uint).map_err(|_| refused(args, &Type::Uint))
        }
        _ => Err(refused(args, &Type::Uint)),
    }
}

fn to_timestamp<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let time = match args {
        [Value::Int(seconds)] => Timestamp::new(*seconds, 0),
        [Value::String(text)] => {
            time::parse(time::Layout::Rfc3339, text.as_str()).map_err(|_| refused(args, &Type::Timestamp))?
        }
        _ => return Err(refused(args, &Type::Timestamp)),
    };
    if time.is_in_range() { Ok(Value::Timestamp(time)) } else { Err(Failure::error("timestamp overflow")) }
}

fn to_string<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::from(match args {
        [Value::Bool(flag)] => flag.to_string(),
        [Value::Int(number)] => number.to_string(),
        [Value::Uint(number)] => number.to_string(),
        [Value::Double(number)] => double(*number),
        [Value::Duration(nanos)] => {
            format!("{}s", float::decimal(Duration::from_nanos(*nanos).as_secs_f64()))
        }
        [Value::Timestamp(time)] => time.to_string(),
        [Value::Bytes(bytes)] => match bytes {
            Bytes::Borrowed(bytes) => {
                let text = std::str::from_utf8(bytes).map_err(|_| not_text())?;
                return Ok(Value::from(text));
            }
            Bytes::Shared(bytes) => std::str::from_utf8(bytes).map_err(|_| not_text())?.to_owned(),
        },
        _ => return Err(refused(args, &Type::String)),
    }))
}

fn not_text() -> Failure {
    Failure::error("invalid UTF-8 in bytes, cannot convert to string")
}
