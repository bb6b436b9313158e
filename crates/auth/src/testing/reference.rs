//! Cases with the answers of the reference: JSON, one case on a line. A field that a case leaves out is that
//! of the case before it.

use object::{Map, Value};
use schema::{Limits, Shape, json};

/// A case, with the reference's `answer`.
#[derive(Default)]
pub(crate) struct Case(Map);

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
    let (mut case, mut wrong) = (Case::default(), Vec::new());
    for (number, line) in cases.lines().enumerate() {
        let decoded = json::decode_shape(&Shape::Any, line.as_bytes(), &Limits::REQUEST).unwrap();
        for (key, value) in decoded.value.as_map().unwrap().iter() {
            case.0.insert(key.as_str(), value.clone());
        }
        let (found, wanted) = (answer(&case), case.get("answer"));
        if found != *wanted {
            wrong.push(format!("line {}: {line}\n  found {found:?}", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}
