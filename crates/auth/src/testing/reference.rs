//! Cases with the answers of the reference: JSON, one case on a line.

use object::Value;
use schema::{Limits, Shape, json};

/// A case, with the reference's `answer`.
pub(crate) struct Case(Value);

impl Case {
    pub(crate) fn get(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }

    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).as_str().unwrap_or_default()
    }

    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let list = self.get(key).as_list().unwrap_or_default();
        list.iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    }
}

/// Fails unless all cases are answered as by the reference.
pub(crate) fn compare(cases: &str, mut answer: impl FnMut(&Case) -> Value) {
    let mut wrong = Vec::new();
    for (number, line) in cases.lines().enumerate() {
        let decoded = json::decode_shape(&Shape::Any, line.as_bytes(), &Limits::REQUEST).unwrap();
        let case = Case(decoded.value);
        let (found, wanted) = (answer(&case), case.get("answer"));
        if found != *wanted {
            wrong.push(format!("line {}: {line}\n  found {found:?}", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
