//! The path of a request: which resource it leads to, and what the method means there.
//!
//! Everything is read as the reference reads it: the whole path is decoded first and split at its slashes afterwards, so
//! that an encoded slash is a slash; slashes at both ends do not count; a segment in the middle may be empty. Whether a
//! group, a version, a resource or a subresource exists is left to others, and so is what is answered where it does not.

use std::borrow::Cow;

use http::Method;
use kinds::Verb as KindVerb;
use object::{field_selector, label, name};

use crate::Query;

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path<'a> {
    /// To a resource, if there is one of that name.
    Resource(Resource<'a>),
    /// To a prefix (`watch`, `proxy`) with nothing behind it. The reference answers 500 in plain text, [`incomplete_message`].
    Incomplete,
    /// Elsewhere; the whole path.
    NonResource(&'a str),
}

/// A path that leads to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resource<'a> {
    /// The API group; empty for the core group.
    pub(crate) group: &'a str,
    /// The version.
    pub(crate) version: &'a str,
    /// What stands behind `namespaces/`, which may be empty; `None` if the path does not go through a namespace. A
    /// namespace itself (`namespaces/x`, `namespaces/x/status`) is in the namespace `x`, as authorization has it.
    pub(crate) namespace: Option<&'a str>,
    /// The resource.
    pub(crate) resource: &'a str,
    /// The name of the object; empty for a collection.
    pub(crate) name: &'a str,
    /// What stands below the object; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// What stands below the subresource, as it was written; `None` if the path ends before.
    pub(crate) rest: Option<&'a str>,
    /// What stands before the resource.
    pub(crate) prefix: Prefix,
    /// The path begins with more than one slash, or names a group that is empty. Authorization does not mind, but no such
    /// path is served: 404 in plain text.
    pub(crate) displaced: bool,
}

/// What may stand between a version and a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// Nothing.
    None,
    /// `watch`: the old way to watch.
    Watch,
    /// `proxy`: authorized, but not served.
    Proxy,
}

/// What a request wants to do, in the words of authorization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// One of those that kinds have.
    Kind(KindVerb),
    /// What the old `proxy` paths ask for.
    Proxy,
    /// None: the method means nothing for resources.
    None,
}

impl Verb {
    /// The word; empty if there is none.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Kind(verb) => verb.as_str(),
            Self::Proxy => "proxy",
            Self::None => "",
        }
    }
}

/// What a request for a resource asks permission for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    /// What it wants to do.
    pub(crate) verb: Verb,
    /// The name of the object: that of the path, or the only one that the field selector of a list or watch picks.
    pub(crate) name: Cow<'a, str>,
}

/// The path that `raw` stands for; nothing if one of its escapes is broken, which is 400 in plain text. Bytes that are
/// no UTF-8 become replacement characters.
pub(crate) fn decode(raw: &str) -> Option<Cow<'_, str>> {
    if !raw.contains('%') {
        return Some(Cow::Borrowed(raw));
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => hex(bytes.next()?)? << 4 | hex(bytes.next()?)?,
            other => other,
        });
    }
    Some(Cow::Owned(String::from_utf8_lossy(&out).into_owned()))
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|d| u8::try_from(d).ok())
}

/// The words of the 500 for a path that ends with a prefix; they name it twice as the client wrote it, with its query, and with
/// what could be taken for HTML escaped.
pub(crate) fn incomplete_message(uri: &str) -> String {
    let uri = uri.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "Internal Server Error: {}: failed to create RequestInfo: unable to determine kind and namespace from url, {uri}\n",
        object::quote::Quoted(&uri)
    )
}

impl<'a> Path<'a> {
    /// Reads a decoded path.
    pub(crate) fn parse(path: &'a str) -> Self {
        let outside = Self::NonResource(path);
        let mut displaced = path.starts_with("//");
        let mut rest = path.trim_matches('/');
        let (group, version) = match next(&mut rest) {
            Some("api") => ("", next(&mut rest)),
            Some("apis") => match next(&mut rest) {
                Some(group) => {
                    displaced |= group.is_empty();
                    (group, next(&mut rest))
                }
                None => return outside,
            },
            _ => return outside,
        };
        let (Some(version), Some(mut first)) = (version, next(&mut rest)) else { return outside };
        let mut prefix = Prefix::None;
        if let "watch" | "proxy" = first {
            prefix = if first == "watch" { Prefix::Watch } else { Prefix::Proxy };
            first = match next(&mut rest) {
                Some(segment) => segment,
                None => return Self::Incomplete,
            };
        }
        let mut namespace = None;
        let (mut resource, mut name) = (first, None);
        if first == "namespaces" {
            namespace = next(&mut rest);
            name = namespace;
            let mut ahead = rest;
            match next(&mut ahead) {
                None | Some("status" | "finalize") => {}
                Some(segment) => {
                    (resource, name) = (segment, None);
                    rest = ahead;
                }
            }
        }
        let name = name.or_else(|| next(&mut rest)).unwrap_or_default();
        // What stands below an object is no subresource for the old proxy paths.
        let subresource = match prefix {
            Prefix::Proxy => "",
            Prefix::None | Prefix::Watch => next(&mut rest).unwrap_or_default(),
        };
        let rest = (rest != END).then_some(rest);
        Self::Resource(Resource {
            group,
            version,
            namespace,
            resource,
            name,
            subresource,
            rest,
            prefix,
            displaced,
        })
    }
}

/// What is left when no segment is: empty text is one empty segment.
const END: &str = "/";

/// Takes the next segment off.
fn next<'a>(rest: &mut &'a str) -> Option<&'a str> {
    if *rest == END {
        return None;
    }
    let (segment, tail) = rest.split_once('/').unwrap_or((rest, END));
    *rest = tail;
    Some(segment)
}

impl<'a> Resource<'a> {
    /// What `method` with `query` asks for here.
    pub(crate) fn asked(&self, method: &Method, query: Query<'_>) -> Asked<'a> {
        let mut name = Cow::Borrowed(self.name);
        let verb = match self.prefix {
            Prefix::Watch => Verb::Kind(KindVerb::Watch),
            Prefix::Proxy => Verb::Proxy,
            Prefix::None => match *method {
                Method::POST => Verb::Kind(KindVerb::Create),
                Method::GET | Method::HEAD if name.is_empty() => {
                    if let Some(selected) = selected_name(query) {
                        name = Cow::Owned(selected);
                    }
                    Verb::Kind(if wants_watch(query) { KindVerb::Watch } else { KindVerb::List })
                }
                Method::GET | Method::HEAD => Verb::Kind(KindVerb::Get),
                Method::PUT => Verb::Kind(KindVerb::Update),
                Method::PATCH => Verb::Kind(KindVerb::Patch),
                Method::DELETE if name.is_empty() => Verb::Kind(KindVerb::DeleteCollection),
                Method::DELETE => Verb::Kind(KindVerb::Delete),
                _ => Verb::None,
            },
        };
        Asked { verb, name }
    }

    /// What authorization is asked.
    pub(crate) fn attributes(&self, asked: &Asked<'_>) -> auth::Attributes {
        auth::Attributes {
            verb: asked.verb.as_str(),
            target: auth::Target::Resource {
                group: self.group.to_owned(),
                version: self.version.to_owned(),
                resource: self.resource.to_owned(),
                subresource: self.subresource.to_owned(),
                namespace: self.namespace.unwrap_or_default().to_owned(),
                name: asked.name.clone().into_owned(),
            },
        }
    }
}

/// What authorization is asked for a path outside of the API's resources; a method that HTTP does not know has no word.
pub(crate) fn path_attributes(method: &Method, path: &str) -> auth::Attributes {
    let verb = match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        Method::TRACE => "trace",
        Method::CONNECT => "connect",
        _ => "",
    };
    auth::Attributes { verb, target: auth::Target::Path(path.to_owned()) }
}

/// Whether a query asks for a watch: with any value of the first `watch` but `false` and `0`, and with none.
pub(crate) fn wants_watch(query: Query<'_>) -> bool {
    query.values("watch").next().is_some_and(|value| is_true(&value))
}

/// A yes or no in a query, as the reference reads it.
pub(crate) fn is_true(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// The only name that the field selector of a list picks. A query with anything in it that cannot be read picks none.
fn selected_name(query: Query<'_>) -> Option<String> {
    let selector = query.values("fieldSelector").next()?;
    let selector = field_selector::Selector::parse(&selector).ok()?;
    let selected = selector.exact_value("metadata.name")?;
    if !name::name_is_path_segment(selected, name::Mode::Name).is_empty() {
        return None;
    }
    if let Some(labels) = query.values("labelSelector").next() {
        label::Selector::parse(&labels).ok()?;
    }
    for number in ["limit", "timeoutSeconds"] {
        if let Some(value) = query.values(number).next() {
            value.parse::<i64>().ok()?;
        }
    }
    Some(selected.to_owned())
}

#[cfg(test)]
mod tests;
