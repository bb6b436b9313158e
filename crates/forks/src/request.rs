//! What is asked for when a fork is made.

use object::Value;
use schema::{Limits, Shape, json};

/// Which controllers run in a fork.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Controllers {
    /// Those that run in the parent.
    #[default]
    AsParent,
    /// None.
    None,
    /// These.
    Named(Vec<String>),
}

/// What a fork is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForkRequest {
    /// Its name; one is generated if there is none.
    pub name: Option<String>,
    /// Which controllers run in it.
    pub controllers: Controllers,
}

impl ForkRequest {
    /// Reads the body of a request: a JSON object, or nothing.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self::default());
        }
        let read = json::decode_shape(&Shape::Any, body, &Limits::default());
        let read = read.map_err(|error| format!("the request cannot be read: {error}"))?.value;
        let fields = read.as_map().ok_or("the request is no JSON object")?;
        let mut request = Self::default();
        for (name, value) in fields.iter() {
            match (name.as_str(), value) {
                (_, Value::Null) => {}
                ("name", Value::String(name)) if name.is_empty() => {}
                ("name", Value::String(name)) => request.name = Some(name.to_string()),
                ("name", _) => return Err("name is no text".into()),
                ("controllers", value) => request.controllers = Controllers::read(value)?,
                (other, _) => return Err(format!("unknown field {}", json::string(other))),
            }
        }
        Ok(request)
    }
}

impl Controllers {
    fn read(value: &Value) -> Result<Self, String> {
        const WRONG: &str = "controllers is neither a boolean nor a list of names";
        match value {
            Value::Bool(true) => Ok(Self::AsParent),
            Value::Bool(false) => Ok(Self::None),
            value => {
                let list = value.as_list().ok_or(WRONG)?;
                let names = list.iter().map(|name| name.as_str().map(str::to_owned).ok_or(WRONG));
                Ok(Self::Named(names.collect::<Result<_, _>>()?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_a_name_and_controllers_or_neither() {
        let read = |text: &str| ForkRequest::read(text.as_bytes());
        for text in
            ["", " \n", "{}", r#"{"name":"","controllers":true}"#, r#"{"name":null,"controllers":null}"#]
        {
            assert_eq!(read(text), Ok(ForkRequest::default()), "{text}");
        }
        let named = read(r#"{"name":"a","controllers":["b","c"]}"#).unwrap();
        assert_eq!(named.name.as_deref(), Some("a"));
        assert_eq!(named.controllers, Controllers::Named(vec!["b".into(), "c".into()]));
        assert_eq!(read(r#"{"controllers":false}"#).unwrap().controllers, Controllers::None);
        for (text, why) in [
            ("[]", "the request is no JSON object"),
            (r#"{"name":1}"#, "name is no text"),
            (r#"{"controllers":1}"#, "controllers is neither a boolean nor a list of names"),
            (r#"{"controllers":[1]}"#, "controllers is neither a boolean nor a list of names"),
            (r#"{"nam":"a"}"#, r#"unknown field "nam""#),
        ] {
            assert_eq!(read(text).unwrap_err(), why);
        }
        assert!(read("{").unwrap_err().starts_with("the request cannot be read: "));
    }
}
