//! The functions of templates that know only their arguments.

use super::show;
use object::time::MicroTime;
use object::{Map, Value};
use std::cmp::Ordering;
use std::sync::LazyLock;

/// When the process started, as far as templates know.
static START: LazyLock<String> = LazyLock::new(|| MicroTime::now().to_string());

/// The names.
const NAMES: &[&str] = &[
    "and",
    "or",
    "not",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "len",
    "index",
    "print",
    "println",
    "printf",
    "Quote",
    "Now",
    "StartTime",
    "YAML",
    "Version",
    "NodeConditions",
    "default",
    "dict",
    "list",
    "empty",
    "coalesce",
    "ternary",
    "hasKey",
    "get",
    "quote",
    "upper",
    "lower",
    "trim",
    "toString",
    "int",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "contains",
    "hasPrefix",
    "hasSuffix",
    "replace",
    "join",
];

/// The conditions of a node that is well: type, status, reason and message.
const CONDITIONS: [[&str; 4]; 5] = [
    ["Ready", "True", "KubeletReady", "kubelet is posting ready status"],
    ["MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"],
    ["DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"],
    ["PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"],
    ["NetworkUnavailable", "False", "RouteCreated", "RouteController created a route"],
];

/// Whether there is a function of this name.
pub(super) fn is_known(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Whether a value counts as true: it is there, and neither empty nor zero.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Int(number) => *number != 0,
        Value::Float(number) => *number != 0.0,
        Value::String(text) => !text.is_empty(),
        Value::Map(map) => !map.is_empty(),
        other => other.as_list().is_none_or(|list| !list.is_empty()),
    }
}

/// Calls a function.
pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let last = || arguments.last().cloned().ok_or_else(|| "not enough arguments".to_owned());
    let text = |at: usize| arguments.get(at).map(plain).ok_or_else(|| "not enough arguments".to_owned());
    match name {
        // Those that decide before the last argument have not come here.
        "and" | "or" => last(),
        "not" => last().map(|value| Value::Bool(!is_true(&value))),
        "eq" => compare_any(arguments).map(Value::Bool),
        "ne" | "lt" | "le" | "gt" | "ge" => ordered(name, arguments).map(Value::Bool),
        "len" => length(&last()?),
        "index" => index(arguments),
        "print" | "toString" => Ok(joined(arguments, "")),
        "println" => Ok(format!("{}\n", plain(&joined(arguments, " "))).into()),
        "printf" => printf(arguments),
        "Quote" => last().map(|value| quote(&value).into()),
        "quote" => last().map(|value| schema::json::string(&plain(&value)).into()),
        "Now" => Ok(MicroTime::now().to_string().into()),
        "StartTime" => Ok(START.as_str().into()),
        "YAML" => yaml(arguments),
        "Version" => Ok(concat!("keelson-", env!("CARGO_PKG_VERSION")).into()),
        "NodeConditions" => Ok(conditions()),
        "default" => match (arguments.first(), last()?) {
            (Some(default), given) if !is_true(&given) => Ok(default.clone()),
            (_, given) => Ok(given),
        },
        "coalesce" => Ok(arguments.iter().find(|value| is_true(value)).cloned().unwrap_or_default()),
        "empty" => last().map(|value| Value::Bool(!is_true(&value))),
        "ternary" => match arguments {
            [yes, no, test] => Ok(if is_true(test) { yes.clone() } else { no.clone() }),
            _ => Err("wants three arguments".to_owned()),
        },
        "dict" => dict(arguments),
        "list" => Ok(arguments.to_vec().into()),
        "hasKey" => Ok(Value::Bool(
            arguments.first().is_some_and(|map| map.get(&text(1).unwrap_or_default()).is_some()),
        )),
        "get" => Ok(arguments.first().and_then(|map| map.get(&text(1).ok()?)).cloned().unwrap_or_default()),
        "upper" => text(0).map(|text| text.to_uppercase().into()),
        "lower" => text(0).map(|text| text.to_lowercase().into()),
        "trim" => text(0).map(|text| text.trim().into()),
        "int" => last().map(|value| Value::Int(whole(&value).unwrap_or_default())),
        "add" | "sub" | "mul" | "div" | "mod" => arithmetic(name, arguments),
        // As in sprig, the text that is looked at comes last.
        "contains" => Ok(Value::Bool(text(1)?.contains(&text(0)?))),
        "hasPrefix" => Ok(Value::Bool(text(1)?.starts_with(&text(0)?))),
        "hasSuffix" => Ok(Value::Bool(text(1)?.ends_with(&text(0)?))),
        "replace" => Ok(text(2)?.replace(&text(0)?, &text(1)?).into()),
        "join" => {
            let list = last()?;
            let items: Vec<String> = list.as_list().unwrap_or_default().iter().map(plain).collect();
            Ok(items.join(&text(0)?).into())
        }
        other => Err(format!("function {other:?} not defined")),
    }
}

/// The text of a value; none has no text.
fn plain(value: &Value) -> String {
    if value.is_null() { String::new() } else { show::text(value) }
}

fn joined(arguments: &[Value], separator: &str) -> Value {
    arguments.iter().map(show::text).collect::<Vec<_>>().join(separator).into()
}

/// As JSON in quotes: a text as it is, anything else as the text of its JSON.
fn quote(value: &Value) -> String {
    match value {
        Value::String(text) => schema::json::string(text),
        other => schema::json::string(&show::json(other)),
    }
}

/// JSON is YAML. With an indent it stands in a line of its own, below a key.
fn yaml(arguments: &[Value]) -> Result<Value, String> {
    let value = arguments.first().ok_or("not enough arguments")?;
    let json = show::json(value);
    Ok(match arguments.get(1).and_then(whole).filter(|indent| (1..=32).contains(indent)) {
        Some(indent) => {
            let indent = usize::try_from(indent).unwrap_or_default();
            format!("\n{}{json}\n", "  ".repeat(indent)).into()
        }
        None => json.into(),
    })
}

fn conditions() -> Value {
    Value::from_iter(CONDITIONS.map(|[kind, status, reason, message]| {
        Map::from_iter([("type", kind), ("status", status), ("reason", reason), ("message", message)])
    }))
}

fn whole(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Float(number) => Some(*number as i64),
        other => other.as_str()?.parse().ok(),
    }
}

fn dict(arguments: &[Value]) -> Result<Value, String> {
    let mut map = Map::new();
    for pair in arguments.chunks(2) {
        if let [key, value] = pair {
            map.insert(plain(key), value.clone());
        }
    }
    Ok(map.into())
}

fn length(value: &Value) -> Result<Value, String> {
    let length = match value {
        Value::String(text) => text.len(),
        Value::Map(map) => map.len(),
        other => other.as_list().ok_or_else(|| format!("len of {}", show::text(other)))?.len(),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

fn index(arguments: &[Value]) -> Result<Value, String> {
    let (first, rest) = arguments.split_first().ok_or("not enough arguments")?;
    let mut found = first.clone();
    for key in rest {
        found = match (&found, key) {
            (Value::Null, _) => Value::Null,
            (Value::Map(map), key) => map.get(&plain(key)).cloned().unwrap_or_default(),
            (list, key) => {
                let items =
                    list.as_list().ok_or_else(|| format!("can't index item of {}", show::text(list)))?;
                let at = whole(key).and_then(|at| usize::try_from(at).ok());
                let item = at.and_then(|at| items.get(at));
                item.cloned().ok_or_else(|| format!("index out of range: {}", show::text(key)))?
            }
        };
    }
    Ok(found)
}

/// Whether the first argument equals one of the others.
fn compare_any(arguments: &[Value]) -> Result<bool, String> {
    let (first, rest) = arguments.split_first().ok_or("not enough arguments")?;
    match rest.is_empty() {
        true => Err("missing argument for comparison".to_owned()),
        false => Ok(rest.iter().any(|other| are_equal(first, other))),
    }
}

fn are_equal(one: &Value, other: &Value) -> bool {
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn ordered(name: &str, arguments: &[Value]) -> Result<bool, String> {
    let [one, other] = arguments else { return Err("wants two arguments".to_owned()) };
    if name == "ne" {
        return Ok(!are_equal(one, other));
    }
    let order = match (number(one), number(other), one.as_str(), other.as_str()) {
        (Some(one), Some(other), ..) => one.partial_cmp(&other),
        (_, _, Some(one), Some(other)) => Some(one.cmp(other)),
        _ => None,
    };
    let order = order.ok_or("incompatible types for comparison")?;
    Ok(match name {
        "lt" => order == Ordering::Less,
        "le" => order != Ordering::Greater,
        "gt" => order == Ordering::Greater,
        _ => order != Ordering::Less,
    })
}

fn arithmetic(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let mut numbers = arguments.iter().map(|value| whole(value).unwrap_or_default());
    let first = numbers.next().ok_or("not enough arguments")?;
    let outcome = numbers.try_fold(first, |sum, next| match name {
        "add" => sum.checked_add(next),
        "sub" => sum.checked_sub(next),
        "mul" => sum.checked_mul(next),
        "div" => sum.checked_div(next),
        _ => sum.checked_rem(next),
    });
    outcome.map(Value::Int).ok_or_else(|| "division by zero, or a number that is too large".to_owned())
}

/// `%s`, `%v`, `%d`, `%q` and `%%`.
fn printf(arguments: &[Value]) -> Result<Value, String> {
    let (format, mut rest) = arguments.split_first().ok_or("not enough arguments")?;
    let mut out = String::new();
    let format = plain(format);
    let mut letters = format.chars();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let verb = letters.next().ok_or("a format ends with %")?;
        if verb == '%' {
            out.push('%');
            continue;
        }
        let (value, others) = rest.split_first().ok_or("not enough arguments for the format")?;
        rest = others;
        match verb {
            's' | 'v' | 'd' => out.push_str(&show::text(value)),
            'q' => out.push_str(&object::quote::quote(&plain(value))),
            other => return Err(format!("the verb %{other} is not supported")),
        }
    }
    Ok(out.into())
}
