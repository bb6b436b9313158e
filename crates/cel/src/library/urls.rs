//! Addresses of the web: `url`, `isURL`, `getScheme`, `getHost`, `getHostname`, `getPort`, `getEscapedPath`,
//! `getQuery`. They are read and taken apart as Go's `net/url` does ([`object::url`]).

use super::support::{entries, function, made, member, opaque, overload, str, string, texts};
use crate::value::{Native, Opaque, Str, Value};
use crate::{Failure, Function, Outcome, Type};
use object::url::{self, Url};
use std::any::Any;
use std::fmt;

/// The type of addresses.
fn ty() -> Type {
    Type::object("kubernetes.URL")
}

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let query = Type::map(Type::String, Type::list(Type::String));
    vec![
        function("url", [overload("string_to_url", [Type::String], ty(), read)]),
        function(
            "isURL",
            [overload("is_url_string", [Type::String], Type::Bool, |args| {
                Ok(Value::Bool(url::parse_request(str(args, 0)?).is_ok()))
            })],
        ),
        function(
            "getScheme",
            [member("url_get_scheme", [ty()], Type::String, |args| Ok(string(of(args)?.scheme())))],
        ),
        function(
            "getHost",
            [member("url_get_host", [ty()], Type::String, |args| Ok(string(of(args)?.host())))],
        ),
        function(
            "getHostname",
            [member("url_get_hostname", [ty()], Type::String, |args| Ok(string(of(args)?.hostname())))],
        ),
        function(
            "getPort",
            [member("url_get_port", [ty()], Type::String, |args| Ok(string(of(args)?.port())))],
        ),
        function(
            "getEscapedPath",
            [member("url_get_escaped_path", [ty()], Type::String, |args| {
                Ok(string(of(args)?.escaped_path()))
            })],
        ),
        function("getQuery", [member("url_get_query", [ty()], query, query_of)]),
    ]
}

/// An address of the web.
struct Address(Url);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "url({})", self.0)
    }
}

impl Opaque for Address {
    fn type_of(&self) -> Type {
        ty()
    }

    fn equals(&self, other: &dyn Opaque) -> Option<bool> {
        let other: &Self = other.as_any().downcast_ref()?;
        Some(self.0 == other.0 || self.0.to_string() == other.0.to_string())
    }

    fn native(&self) -> Option<Native> {
        Some(Native::of("*url.URL", "URL", &self.0))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn of<'v>(args: &'v [Value<'_>]) -> Result<&'v Url, Failure> {
    opaque::<Address>(args, 0).map(|address| &address.0)
}

/// An address as in a request is read, and then once more with its fragment, which requests do not have.
fn read<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let text = str(args, 0)?;
    url::parse_request(text)
        .and_then(|_| url::parse(text))
        .map(|url| made(Address(url)))
        .map_err(|why| Failure::error(format!("URL parse error during conversion from string: {why}")))
}

/// The values of each name, in the order in which the names come first.
fn query_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut names: Vec<(String, Vec<Str<'a>>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (name, value) in of(args)?.query() {
        let place = *places.entry(name.to_string()).or_insert_with(|| {
            names.push((name.into_owned(), Vec::new()));
            names.len() - 1
        });
        if let Some((_, values)) = names.get_mut(place) {
            values.push(Str::Shared(value.into()));
        }
    }
    Ok(entries(names.into_iter().map(|(name, values)| (string(name), texts(values)))))
}
