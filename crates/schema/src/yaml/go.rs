//! Go's formatting of numbers and values, which appears in YAML output and in error messages.

use super::resolve::Scalar;
use super::to_json::YamlValue;
use object::float::{self, Scientific};
use object::quote::Quoted;
use std::cmp::Ordering;
use std::fmt::Write;

/// A finite number as `%g` prints it: with an exponent of two digits below 1e-4 and from 1e6 on.
fn general(number: f64) -> String {
    let Scientific { mantissa, exponent } = float::scientific(number);
    if (-4..6).contains(&exponent) {
        return float::decimal(number);
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

/// A finite number as YAML output has it.
pub(super) fn yaml_float(number: f64) -> String {
    general(number)
}

/// A number as the key of a map: it has only the precision of a 32-bit float.
pub(super) fn key_float(number: f64) -> String {
    match number as f32 {
        f32::INFINITY => ".inf".into(),
        f32::NEG_INFINITY => "-.inf".into(),
        number if number.is_nan() => ".nan".into(),
        // The shortest text of the f32, parsed as f64, has the same shortest text.
        number => general(number.to_string().parse().unwrap_or(f64::from(number))),
    }
}

/// A number as `%v` prints it.
pub(super) fn go_float(number: f64) -> String {
    match number {
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        number if number.is_nan() => "NaN".into(),
        number => general(number),
    }
}

/// A scalar as `%#v` prints it at the top level.
pub(super) fn show_scalar(scalar: &Scalar, out: &mut String) {
    let _ = match scalar {
        Scalar::Null => write!(out, "<nil>"),
        Scalar::Bool(flag) => write!(out, "{flag}"),
        Scalar::Int(number) => write!(out, "{number}"),
        Scalar::Uint(number) => write!(out, "0x{number:x}"),
        Scalar::Float(number) => write!(out, "{}", go_float(*number)),
        Scalar::Text(text) => write!(out, "{}", Quoted(text)),
    };
}

/// A value as `%#v` prints it: `map[interface {}]interface {}{"a":interface {}(nil)}`. Longer ones are cut
/// off.
pub(super) fn show(item: &YamlValue, out: &mut String) {
    const LONGEST: usize = 64 * 1024;
    if out.len() > LONGEST {
        return;
    }
    match item {
        YamlValue::Scalar(scalar) => show_scalar(scalar, out),
        YamlValue::List(list) => {
            out.push_str("[]interface {}{");
            for (at, element) in list.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                show_within(element, out);
            }
            out.push('}');
        }
        YamlValue::Map(entries) => {
            out.push_str("map[interface {}]interface {}{");
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_by(|(a, _), (b, _)| compare(a, b));
            for (at, (key, value)) in sorted.into_iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                match key {
                    Scalar::Null => out.push_str("interface {}(nil)"),
                    key => show_scalar(key, out),
                }
                out.push(':');
                show_within(value, out);
            }
            out.push('}');
        }
    }
}

fn show_within(item: &YamlValue, out: &mut String) {
    match item {
        YamlValue::Scalar(Scalar::Null) => out.push_str("interface {}(nil)"),
        item => show(item, out),
    }
}

/// The order in which Go prints the keys of a map: null first, then by type, then by value.
fn compare(a: &Scalar, b: &Scalar) -> Ordering {
    let rank = |scalar: &Scalar| match scalar {
        Scalar::Null => 0,
        Scalar::Text(_) => 1,
        Scalar::Bool(_) => 2,
        Scalar::Int(_) => 3,
        Scalar::Uint(_) => 4,
        Scalar::Float(_) => 5,
    };
    match (a, b) {
        (Scalar::Bool(a), Scalar::Bool(b)) => a.cmp(b),
        (Scalar::Int(a), Scalar::Int(b)) => a.cmp(b),
        (Scalar::Uint(a), Scalar::Uint(b)) => a.cmp(b),
        (Scalar::Float(a), Scalar::Float(b)) => a.total_cmp(b),
        (Scalar::Text(a), Scalar::Text(b)) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}
