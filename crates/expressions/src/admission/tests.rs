use super::*;
use crate::Stage;
use cel::value::Value as CelValue;
use object::Value;
use std::cell::Cell;

fn json(text: &str) -> Value {
    serde(text)
}

fn serde(text: &str) -> Value {
    object::json::read(text.as_bytes()).unwrap()
}

fn seen<'a>(object: &'a Value, params: &'a Value) -> Seen<'a> {
    Seen {
        object: CelValue::plain(object),
        old_object: CelValue::Null,
        namespace: CelValue::Null,
        request: CelValue::Null,
        params: CelValue::plain(params),
        authorizer: None,
    }
}
