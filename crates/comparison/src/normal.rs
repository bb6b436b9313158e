//! Placeholders for what differs from run to run, in recorded and in new answers.

use serde_json::{Map, Value};

/// The variables of a scenario: `ns` and `run`, then those that its steps save, in order.
#[derive(Debug, Clone)]
pub struct Variables {
    namespace: String,
    run: String,
    saved: Vec<(String, String)>,
}

impl Variables {
    /// None: for exchanges that are no scenario of their own.
    pub fn none() -> Self {
        Self::new("", "")
    }

    /// Those that every scenario has.
    pub fn new(namespace: &str, run: &str) -> Self {
        Self { namespace: namespace.to_owned(), run: run.to_owned(), saved: Vec::new() }
    }

    /// The scenario's namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sets the variable `${name}`.
    pub fn save(&mut self, name: &str, value: String) {
        match self.saved.iter_mut().find(|(key, _)| key == name) {
            Some((_, kept)) => *kept = value,
            None => self.saved.push((name.to_owned(), value)),
        }
    }

    /// `text` with every variable replaced by its value.
    ///
    /// ```
    /// let mut variables = comparison::normal::Variables::new("a-b", "r1");
    /// variables.save("rv", "42".into());
    /// assert_eq!(variables.fill("/{ns}/x-{run}?after=${rv}&{rv}"), "/a-b/x-r1?after=42&{rv}");
    /// ```
    pub fn fill(&self, text: &str) -> String {
        self.fill_with(text, str::to_owned)
    }

    /// The same inside the text of a JSON value.
    pub fn fill_json(&self, text: &str) -> String {
        self.fill_with(text, |value| {
            let quoted = Value::from(value).to_string();
            quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
        })
    }

    /// The same in every text of a value.
    pub fn fill_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::from(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_value(item)).collect(),
            Value::Object(fields) => {
                let filled = fields.iter().map(|(key, value)| (self.fill(key), self.fill_value(value)));
                Value::Object(filled.collect())
            }
            other => other.clone(),
        }
    }

    /// `value` with the saved numbers that [`normal`] leaves in texts, because they are too short to be
    /// unique.
    pub fn fill_short(&self, value: &Value) -> Value {
        let left = self.saved.iter().filter(|(_, saved)| is_number(saved) && !is_unique(saved));
        let short = Self { namespace: "{ns}".into(), run: "{run}".into(), saved: left.cloned().collect() };
        if short.saved.is_empty() { value.clone() } else { short.fill_value(value) }
    }

    fn fill_with(&self, text: &str, form: impl Fn(&str) -> String) -> String {
        let mut text = text.to_owned();
        for (name, value) in [("ns", &self.namespace), ("run", &self.run)] {
            let value = form(value);
            text = text.replace(&format!("${{{name}}}"), &value).replace(&format!("{{{name}}}"), &value);
        }
        for (name, value) in &self.saved {
            text = text.replace(&format!("${{{name}}}"), &form(value));
        }
        text
    }
}

/// `value` with placeholders for what differs from run to run.
pub fn normal(value: &Value, variables: &Variables) -> Value {
    any(value, variables, "", &[])
}

/// The same for a text that is no part of a value.
pub fn normal_text(value: &str, variables: &Variables) -> String {
    text(value, variables, "", &[])
}

/// A generated name, and its placeholder.
#[derive(Clone)]
struct Generated {
    name: String,
    placeholder: String,
}

/// `key` is the field that the value is in, also through lists.
fn any(value: &Value, variables: &Variables, key: &str, generated: &[Generated]) -> Value {
    match value {
        Value::Object(fields) => object(fields, variables, generated),
        Value::Array(items) => items.iter().map(|item| any(item, variables, key, generated)).collect(),
        Value::String(value) => Value::from(text(value, variables, key, generated)),
        other => other.clone(),
    }
}

fn object(fields: &Map<String, Value>, variables: &Variables, generated: &[Generated]) -> Value {
    let mut generated = generated.to_vec();
    generated.extend(fields.get("metadata").and_then(Value::as_object).and_then(generated_name));
    generated.extend(generated_name(fields));
    let replaced = fields.iter().map(|(key, value)| match placeholder(key, value) {
        Some(placeholder) => (key.clone(), placeholder),
        None if key == "managedFields" && value.is_array() => {
            (key.clone(), managed_fields(any(value, variables, key, &generated)))
        }
        None => (normal_text(key, variables), any(value, variables, key, &generated)),
    });
    Value::Object(replaced.collect())
}

fn generated_name(metadata: &Map<String, Value>) -> Option<Generated> {
    let prefix = metadata.get("generateName")?.as_str().filter(|prefix| !prefix.is_empty())?;
    let name = metadata.get("name")?.as_str().filter(|name| name.starts_with(prefix))?;
    Some(Generated { name: name.to_owned(), placeholder: format!("{prefix}<suffix>") })
}

/// The placeholder for the value of a field, by its name.
fn placeholder(key: &str, value: &Value) -> Option<Value> {
    let text = value.as_str();
    match key {
        "uid" if text.is_some_and(|text| uid(text) == Some(text.len())) => Some("<uid>".into()),
        "resourceVersion" if text.is_some_and(|text| is_number(text) && text != "0") => Some("<rv>".into()),
        "continue" if text.is_some_and(|text| !text.is_empty()) => Some("<continue>".into()),
        "clusterIP" if text.is_some_and(is_address) => Some("<ip>".into()),
        "clusterIPs" => {
            let one = |item: &Value| {
                if item.as_str().is_some_and(is_address) { "<ip>".into() } else { item.clone() }
            };
            Some(value.as_array()?.iter().map(one).collect())
        }
        "nodePort" | "healthCheckNodePort" if value.as_i64().is_some_and(|port| port >= 30000) => {
            Some("<nodePort>".into())
        }
        "token" if text.is_some_and(|text| text.matches('.').count() == 2) => Some("<jwt>".into()),
        _ => None,
    }
}

/// Managers in an order that does not depend on the second in which they wrote.
fn managed_fields(mut value: Value) -> Value {
    if let Value::Array(entries) = &mut value {
        let field = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        entries.sort_by_key(|entry| ["manager", "operation", "subresource"].map(|name| field(entry, name)));
    }
    value
}

fn text(value: &str, variables: &Variables, key: &str, generated: &[Generated]) -> String {
    let mut text = replaced(value, uid, "<uid>");
    text = replaced(&text, time, "<time>");
    for Generated { name, placeholder } in generated {
        text = text.replace(name, placeholder);
    }
    for (value, placeholder) in [(&variables.namespace, "{ns}"), (&variables.run, "{run}")] {
        if !value.is_empty() {
            text = text.replace(value, placeholder);
        }
    }
    for (name, saved) in &variables.saved {
        if is_unique(saved) && is_number(saved) {
            text = text.replace(saved, &format!("${{{name}}}"));
        }
    }
    text = replaced(&text, access_volume, "kube-api-access-<suffix>");
    if key == "cells" && is_age(&text) { "<age>".to_owned() } else { text }
}

/// Whether a saved number is long enough to be unique in a text.
fn is_unique(saved: &str) -> bool {
    saved.len() > 3
}

/// `text` with every piece that `piece` finds the length of, from the left, replaced.
fn replaced(text: &str, piece: fn(&str) -> Option<usize>, by: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match piece(rest) {
            Some(length) => {
                result.push_str(by);
                length
            }
            None => {
                result.push(first);
                first.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    result
}

/// The length of what `text` begins with, if that has the form: `N` a digit, `X` a small hexadecimal digit,
/// `A` a small letter or a digit, everything else itself.
fn form(text: &str, form: &str) -> Option<usize> {
    let fits = |(byte, form): (u8, u8)| match form {
        b'N' => byte.is_ascii_digit(),
        b'X' => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        b'A' => matches!(byte, b'0'..=b'9' | b'a'..=b'z'),
        other => byte == other,
    };
    (text.len() >= form.len() && text.bytes().zip(form.bytes()).all(fits)).then_some(form.len())
}

fn uid(text: &str) -> Option<usize> {
    form(text, "XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX")
}

fn time(text: &str) -> Option<usize> {
    let seconds = form(text, "NNNN-NN-NNTNN:NN:NN")?;
    let rest = text.get(seconds..)?;
    let fraction = match rest.strip_prefix('.').map(digits) {
        Some(digits) if digits > 0 => 1 + digits,
        _ => 0,
    };
    rest.get(fraction..)?.starts_with('Z').then_some(seconds + fraction + 1)
}

fn access_volume(text: &str) -> Option<usize> {
    form(text, "kube-api-access-AAAAA")
}

/// The number of digits at the start.
fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && digits(text) == text.len()
}

fn is_address(text: &str) -> bool {
    digits(text) > 0 && text.get(digits(text)..).is_some_and(|rest| rest.starts_with('.'))
}

/// An age in a column of a table, as `5m` or `3m12s`.
fn is_age(text: &str) -> bool {
    let count = digits(text);
    let Some(rest) = text.get(count..).and_then(|rest| rest.strip_prefix(['s', 'm', 'h', 'd'])) else {
        return false;
    };
    count > 0 && (rest.is_empty() || rest.strip_suffix('s').is_some_and(is_number))
}

#[cfg(test)]
mod tests;
