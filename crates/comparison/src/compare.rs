//! Two answers side by side.

use std::fmt;

use serde_json::Value;

/// One place where an answer is not the recorded one.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Where, as `body.items[0].kind`.
    pub path: String,
    /// What was recorded; none where nothing is.
    pub wanted: Option<Value>,
    /// What was answered; none where nothing is.
    pub got: Option<Value>,
}

/// How much a difference matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The words of a message, a warning, or a content type.
    Wording,
    /// Anything else.
    Substance,
}

impl Difference {
    /// How much it matters.
    pub fn severity(&self) -> Severity {
        let wording = self.path.ends_with("message")
            || self.path.starts_with("headers.warning")
            || self.path.starts_with("headers.content-type");
        if wording { Severity::Wording } else { Severity::Substance }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |value: &Option<Value>| match value {
            Some(value) => shortened(&value.to_string()),
            None => "<absent>".to_owned(),
        };
        writeln!(f, "{}", self.path)?;
        writeln!(f, "  wanted {}", side(&self.wanted))?;
        write!(f, "  got    {}", side(&self.got))
    }
}

/// Every place where `got` is not `wanted`, in order.
pub fn differences(wanted: &Value, got: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    collect(wanted, got, String::new(), &mut found);
    found
}

fn collect(wanted: &Value, got: &Value, path: String, found: &mut Vec<Difference>) {
    match (wanted, got) {
        (Value::Object(wanted), Value::Object(got)) => {
            let mut keys: Vec<&String> = wanted.keys().chain(got.keys()).collect();
            keys.sort_unstable();
            keys.dedup();
            for key in keys {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                match (wanted.get(key), got.get(key)) {
                    (Some(wanted), Some(got)) => collect(wanted, got, path, found),
                    (wanted, got) => {
                        found.push(Difference { path, wanted: wanted.cloned(), got: got.cloned() });
                    }
                }
            }
        }
        (Value::Array(wanted), Value::Array(got)) => {
            if wanted.len() != got.len() {
                let items = |count: usize| Some(Value::from(format!("{count} items")));
                let path = format!("{path}[]");
                found.push(Difference { path, wanted: items(wanted.len()), got: items(got.len()) });
            }
            for (index, (wanted, got)) in wanted.iter().zip(got).enumerate() {
                collect(wanted, got, format!("{path}[{index}]"), found);
            }
        }
        (wanted, got) if !same(wanted, got) => {
            found.push(Difference { path, wanted: Some(wanted.clone()), got: Some(got.clone()) });
        }
        _ => {}
    }
}

/// Equality, to which it does not matter whether a whole number was written with a fraction.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64())
        }
        _ => a == b,
    }
}

/// The value at `path`: keys and indexes with dots between them; a `~` is a dot that is part of a key.
pub fn find<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        Value::Object(fields) => fields.get(part).or_else(|| fields.get(&part.replace('~', "."))),
        _ => None,
    })
}

/// Takes what is at `path` out of `value`; `*` is every key or index. An item of a list becomes null, so that
/// the others keep their places.
pub fn leave_out(value: &mut Value, path: &str) {
    let parts: Vec<&str> = path.split('.').collect();
    leave_out_parts(value, &parts);
}

fn leave_out_parts(value: &mut Value, parts: &[&str]) {
    let [part, rest @ ..] = parts else { return };
    match value {
        Value::Array(items) if *part == "*" => {
            items.iter_mut().for_each(|item| leave_out_parts(item, rest));
        }
        Value::Object(fields) if *part == "*" => {
            fields.values_mut().for_each(|field| leave_out_parts(field, rest));
        }
        Value::Array(items) => {
            let Some(item) = part.parse::<usize>().ok().and_then(|index| items.get_mut(index)) else {
                return;
            };
            if rest.is_empty() { *item = Value::Null } else { leave_out_parts(item, rest) }
        }
        Value::Object(fields) => {
            let key = part.replace('~', ".");
            if rest.is_empty() {
                fields.remove(&key);
            } else if let Some(field) = fields.get_mut(&key) {
                leave_out_parts(field, rest);
            }
        }
        _ => {}
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 400;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests;
