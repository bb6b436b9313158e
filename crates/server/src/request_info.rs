//! [`RequestInfo`]: the resource or path, and the verb, of a request.
//!
//! [`RequestInfo::parse`] reads method, path and query once per request. Authorization, routing, dispatch and
//! deadlines use its result. It reads a path as the reference does: the whole path is decoded first and split
//! at its slashes afterwards, so an encoded slash separates segments; slashes at both ends do not count; a
//! segment in the middle may be empty. It does not check whether the group, version, resource or subresource
//! exists: [`routes::find`](crate::api::routes::find) does.

use std::borrow::Cow;

use http::Method;
use kinds::Verb as KindVerb;
use object::{field_selector, label, name};

use crate::Query;
use crate::query::hex;

/// The resource or path, and the verb, of a request: the `RequestInfo` of the reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestInfo<'a> {
    /// Whether the path is that of a resource. If not, only `path` and `verb` are set.
    pub(crate) is_resource_request: bool,
    /// The decoded path.
    pub(crate) path: &'a str,
    /// The verb that is authorized.
    pub(crate) verb: Verb,
    /// The API group; empty for the core group.
    pub(crate) api_group: &'a str,
    /// The API version.
    pub(crate) api_version: &'a str,
    /// The segment after `namespaces/`, which may be empty; `None` if the path has no namespace. The object
    /// of a namespace (`namespaces/x`, `namespaces/x/status`) is in the namespace `x`, as authorization has
    /// it.
    pub(crate) namespace: Option<&'a str>,
    /// The resource.
    pub(crate) resource: &'a str,
    /// The subresource; empty for the object itself.
    pub(crate) subresource: &'a str,
    /// The name that is authorized: `path_name`, or the only name that the field selector of a list or watch
    /// selects.
    pub(crate) name: Cow<'a, str>,
    /// The name of the object in the path; empty for a collection.
    pub(crate) path_name: &'a str,
    /// The part of the path below the subresource, decoded; `None` if the path ends before.
    pub(crate) path_rest: Option<&'a str>,
    /// The prefix of the resource.
    pub(crate) prefix: Prefix,
    /// The path starts with more than one slash, or its group is empty. Authorization accepts such a path,
    /// but no route matches it: 404 in plain text.
    pub(crate) is_unroutable: bool,
    /// The requirements of the selectors of a list, watch or deletecollection.
    pub(crate) selectors: Option<Box<auth::Selectors>>,
}

/// The prefix between a version and a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefix {
    /// No prefix.
    None,
    /// `watch`: the deprecated watch paths.
    Watch,
    /// `proxy`: authorized, but not served.
    Proxy,
}

/// The verb of a request, as authorization names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    /// A verb of a resource.
    Resource(KindVerb),
    /// The verb of the deprecated `proxy` paths.
    Proxy,
    /// No verb: the method has none for resources.
    None,
    /// The method in lower case, for a path outside of the resources; empty for a method that HTTP does not
    /// define.
    NonResource(&'static str),
}

impl Verb {
    /// The verb in text; empty if there is none.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Resource(verb) => verb.as_str(),
            Self::Proxy => "proxy",
            Self::None => "",
            Self::NonResource(method) => method,
        }
    }
}

/// A path that ends with a prefix (`watch`, `proxy`): `Error::IncompletePath`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IncompletePath;

/// Decodes the percent escapes of a path. `None` if an escape is invalid, which is 400 in plain text. Bytes
/// that are not UTF-8 become replacement characters.
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

impl<'a> RequestInfo<'a> {
    /// Parses the method, the decoded path and the query of a request.
    pub(crate) fn parse(method: &Method, path: &'a str, query: Query<'_>) -> Result<Self, IncompletePath> {
        let non_resource = Self::non_resource(method, path);
        let mut is_unroutable = path.starts_with("//");
        let mut rest = path.trim_matches('/');
        let (api_group, version) = match next_segment(&mut rest) {
            Some("api") => ("", next_segment(&mut rest)),
            Some("apis") => match next_segment(&mut rest) {
                Some(group) => {
                    is_unroutable |= group.is_empty();
                    (group, next_segment(&mut rest))
                }
                None => return Ok(non_resource),
            },
            _ => return Ok(non_resource),
        };
        let (Some(api_version), Some(mut first)) = (version, next_segment(&mut rest)) else {
            return Ok(non_resource);
        };
        let mut prefix = Prefix::None;
        if let "watch" | "proxy" = first {
            prefix = if first == "watch" { Prefix::Watch } else { Prefix::Proxy };
            first = next_segment(&mut rest).ok_or(IncompletePath)?;
        }
        let mut namespace = None;
        let (mut resource, mut path_name) = (first, None);
        if first == "namespaces" {
            namespace = next_segment(&mut rest);
            path_name = namespace;
            let mut ahead = rest;
            match next_segment(&mut ahead) {
                None | Some("status" | "finalize") => {}
                Some(segment) => {
                    (resource, path_name) = (segment, None);
                    rest = ahead;
                }
            }
        }
        let path_name = path_name.or_else(|| next_segment(&mut rest)).unwrap_or_default();
        // The deprecated proxy paths have no subresources.
        let subresource = match prefix {
            Prefix::Proxy => "",
            Prefix::None | Prefix::Watch => next_segment(&mut rest).unwrap_or_default(),
        };
        let verb = verb(prefix, method, path_name, query);
        let selected = match (verb, prefix) {
            (Verb::Resource(KindVerb::List | KindVerb::Watch), Prefix::None) => selected_name(query),
            _ => None,
        };
        Ok(Self {
            is_resource_request: true,
            path,
            verb,
            api_group,
            api_version,
            namespace,
            resource,
            subresource,
            name: selected.map_or(Cow::Borrowed(path_name), Cow::Owned),
            path_name,
            path_rest: (rest != END).then_some(rest),
            prefix,
            is_unroutable,
            selectors: selectors(verb, query),
        })
    }

    fn non_resource(method: &Method, path: &'a str) -> Self {
        Self {
            is_resource_request: false,
            path,
            verb: Verb::NonResource(non_resource_verb(method)),
            api_group: "",
            api_version: "",
            namespace: None,
            resource: "",
            subresource: "",
            name: Cow::Borrowed(""),
            path_name: "",
            path_rest: None,
            prefix: Prefix::None,
            is_unroutable: false,
            selectors: None,
        }
    }

    /// The attributes that the authorizer decides on.
    pub(crate) fn attributes(&self) -> auth::Attributes {
        let target = if self.is_resource_request {
            auth::Target::Resource {
                group: self.api_group.to_owned(),
                version: self.api_version.to_owned(),
                resource: self.resource.to_owned(),
                subresource: self.subresource.to_owned(),
                namespace: self.namespace.unwrap_or_default().to_owned(),
                name: self.name.clone().into_owned(),
            }
        } else {
            auth::Target::Path(self.path.to_owned())
        };
        let selectors = self.selectors.clone();
        auth::Attributes { verb: self.verb.as_str().into(), target, selectors }
    }
}

/// The verb of a path outside of the resources: the method in lower case; empty for a method that HTTP does
/// not define.
pub(crate) fn non_resource_verb(method: &Method) -> &'static str {
    match *method {
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
    }
}

/// The requirements of the selectors of a list, watch or deletecollection; `None` without selectors.
fn selectors(verb: Verb, query: Query<'_>) -> Option<Box<auth::Selectors>> {
    let Verb::Resource(KindVerb::List | KindVerb::Watch | KindVerb::DeleteCollection) = verb else {
        return None;
    };
    let first = |name| query.values(name).next().filter(|text| !text.is_empty());
    let (fields, labels) = (first("fieldSelector"), first("labelSelector"));
    if fields.is_none() && labels.is_none() {
        return None;
    }
    let mut selectors = auth::Selectors::default();
    match fields.map(|text| field_selector::Selector::parse(&text)) {
        Some(Ok(parsed)) => selectors.fields = parsed.requirements().unwrap_or_default().to_vec(),
        Some(Err(error)) => selectors.fields_error = Some(error.to_string()),
        None => {}
    }
    match labels.map(|text| label::Selector::parse(&text)) {
        Some(Ok(parsed)) => selectors.labels = parsed.requirements().unwrap_or_default().to_vec(),
        Some(Err(error)) => selectors.labels_error = Some(error.to_string()),
        None => {}
    }
    Some(Box::new(selectors))
}

/// The rest after the last segment. Empty text is one empty segment.
const END: &str = "/";

/// Removes the first segment from `rest` and returns it.
fn next_segment<'a>(rest: &mut &'a str) -> Option<&'a str> {
    if *rest == END {
        return None;
    }
    let (segment, tail) = rest.split_once('/').unwrap_or((rest, END));
    *rest = tail;
    Some(segment)
}

/// The verb of a request for a resource.
fn verb(prefix: Prefix, method: &Method, path_name: &str, query: Query<'_>) -> Verb {
    let is_collection = path_name.is_empty();
    match prefix {
        Prefix::Watch => return Verb::Resource(KindVerb::Watch),
        Prefix::Proxy => return Verb::Proxy,
        Prefix::None => {}
    }
    Verb::Resource(match *method {
        Method::POST => KindVerb::Create,
        Method::GET | Method::HEAD if is_collection && wants_watch(query) => KindVerb::Watch,
        Method::GET | Method::HEAD if is_collection => KindVerb::List,
        Method::GET | Method::HEAD => KindVerb::Get,
        Method::PUT => KindVerb::Update,
        Method::PATCH => KindVerb::Patch,
        Method::DELETE if is_collection => KindVerb::DeleteCollection,
        Method::DELETE => KindVerb::Delete,
        _ => return Verb::None,
    })
}

/// Whether a query asks for a watch: the first `watch` has any value but `false` and `0`, or no value.
fn wants_watch(query: Query<'_>) -> bool {
    query.values("watch").next().is_some_and(|value| is_true(&value))
}

/// A boolean query parameter, as the reference reads it.
pub(crate) fn is_true(value: &str) -> bool {
    !(value == "0" || value.eq_ignore_ascii_case("false"))
}

/// The only name that the field selector of a list selects. `None` if any list option of the query is
/// invalid.
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
