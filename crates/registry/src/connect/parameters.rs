//! Parses the options of a connection from the query.

use super::ConnectOptions;
use crate::error::parse_number;
use object::{Map, Value};
use schema::Status;

/// The type of a parameter.
#[derive(Clone, Copy)]
enum Parameter {
    /// A boolean: true, unless it is `false` or `0`.
    Flag,
    /// The first value.
    Text,
    /// All values.
    Texts,
    /// Port numbers, in several values or separated by commas.
    Ports,
    /// A number.
    Integer,
    /// A time.
    Time,
    /// The part of the path that is sent to the target of a proxy.
    Path,
}

use Parameter::{Flag, Integer, Path, Ports, Text, Texts, Time};

const COMMAND: [(&str, Parameter); 6] = [
    ("stdin", Flag),
    ("stdout", Flag),
    ("stderr", Flag),
    ("tty", Flag),
    ("container", Text),
    ("command", Texts),
];

const LOG: [(&str, Parameter); 10] = [
    ("container", Text),
    ("follow", Flag),
    ("previous", Flag),
    ("sinceSeconds", Integer),
    ("sinceTime", Time),
    ("timestamps", Flag),
    ("tailLines", Integer),
    ("limitBytes", Integer),
    ("insecureSkipTLSVerifyBackend", Flag),
    ("stream", Text),
];

/// The parameters of a kind of options.
fn parameters(kind: &str) -> &'static [(&'static str, Parameter)] {
    match kind {
        "PodExecOptions" => &COMMAND,
        "PodAttachOptions" => COMMAND.split_last().map_or(&[], |(_, all)| all),
        "PodPortForwardOptions" => &[("ports", Ports)],
        "PodLogOptions" => &LOG,
        _ => &[("path", Path)],
    }
}

/// Parses the options of a request; 400 for an invalid value.
pub(super) fn read(kind: &str, options: &ConnectOptions<'_>) -> Result<Map, Status> {
    let mut map = Map::new();
    for (name, parameter) in parameters(kind) {
        let mut values = options.query.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_ref());
        let value = match parameter {
            Flag => values.next().map(|text| Value::from(!matches!(text, "0") && !is_false(text))),
            Text => values.next().map(Value::from),
            Texts => Some(Value::from_iter(values.map(Value::from))),
            Ports => Some(ports(values)?),
            Integer => values.next().map(integer).transpose()?,
            Time => values.next().map(time).transpose()?,
            Path => Some(options.path.into()),
        };
        if let Some(value) = value.filter(|value| !is_empty(value)) {
            map.insert(*name, value);
        }
    }
    Ok(map)
}

fn is_false(text: &str) -> bool {
    text.eq_ignore_ascii_case("false")
}

/// Whether a value is the same as an absent one.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Bool(yes) => !yes,
        other => other.as_str() == Some("") || other.as_list().is_some_and(<[Value]>::is_empty),
    }
}

fn integer(text: &str) -> Result<Value, Status> {
    parse_number::<i64>("ParseInt", text).map(Value::from).map_err(Status::bad_request)
}

fn time(text: &str) -> Result<Value, Status> {
    let canonical = object::time::canonicalize(text);
    canonical.map(|text| Value::from(text.as_ref())).map_err(|error| Status::bad_request(error.to_string()))
}

fn ports<'a>(values: impl Iterator<Item = &'a str>) -> Result<Value, Status> {
    let numbers = values.flat_map(|value| value.split(',')).map(|text| {
        let number = parse_number::<u16>("ParseUint", text);
        number
            .map(|number| Value::from(i64::from(number)))
            .map_err(|why| Status::bad_request(format!("cannot convert to []int32: {why}")))
    });
    numbers.collect()
}
