//! Impersonation: a user acts as another user, with the permissions of that user and no others.
//!
//! Each of user, groups, uid and further attributes has to be granted by the verb `impersonate`, on a
//! resource of its own.

use crate::authorize::forbidden;
use crate::proxy::unescape_key;
use crate::{Attributes, Authenticated, Authorizer, Decision, Target, User};
use http::HeaderMap;
use schema::Status;
use std::fmt;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Why a user is not impersonated.
#[derive(Debug)]
pub enum ImpersonationError {
    /// The caller may not impersonate the user: the 403.
    Forbidden(Status),
    /// There are impersonation headers but no `Impersonate-User`: the text of a 500.
    WithoutUser(String),
}

/// A user, group, uid or further attribute to impersonate.
enum ImpersonatedPart {
    User(String),
    ServiceAccount { namespace: String, name: String },
    Group(String),
    Extra { key: String, value: String },
    Uid(String),
}

impl ImpersonatedPart {
    /// The attributes that the caller has to be authorized for.
    fn attributes(&self) -> Attributes {
        let (group, version, resource, subresource, namespace, name) = match self {
            Self::User(name) => ("", "", "users", "", "", name),
            Self::ServiceAccount { namespace, name } => {
                ("", "", "serviceaccounts", "", namespace.as_str(), name)
            }
            Self::Group(name) => ("", "", "groups", "", "", name),
            Self::Extra { key, value } => (AUTHENTICATION, "v1", "userextras", key.as_str(), "", value),
            Self::Uid(uid) => (AUTHENTICATION, "v1", "uids", "", "", uid),
        };
        let target = Target::Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.clone(),
        };
        Attributes::new("impersonate", target)
    }
}

/// As the reference writes an object reference in an error: kind, namespace, name, uid, version, resource
/// version, field.
impl fmt::Display for ImpersonatedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "{{User  {name}    }}"),
            Self::ServiceAccount { namespace, name } => {
                write!(f, "{{ServiceAccount {namespace} {name}    }}")
            }
            Self::Group(name) => write!(f, "{{Group  {name}    }}"),
            Self::Extra { key, value } => write!(f, "{{UserExtra  {value}  {AUTHENTICATION}/v1  {key}}}"),
            Self::Uid(uid) => write!(f, "{{UID  {uid}  {AUTHENTICATION}/v1  }}"),
        }
    }
}

/// The user that a request is made as: the caller, or the one that its headers name.
pub async fn impersonate(
    caller: Authenticated,
    headers: &HeaderMap,
    authorizer: &Authorizer,
) -> Result<Authenticated, ImpersonationError> {
    let requests = requests(headers);
    let Some(first) = requests.first() else { return Ok(caller) };
    let mut user = match first {
        ImpersonatedPart::User(name) => User { name: name.clone(), ..User::default() },
        ImpersonatedPart::ServiceAccount { namespace, name } => User::service_account(namespace, name),
        ImpersonatedPart::Group(_) | ImpersonatedPart::Extra { .. } | ImpersonatedPart::Uid(_) => {
            let written: Vec<String> = requests.iter().map(ToString::to_string).collect();
            let why = format!("requested [{}] without impersonating a user", written.join(" "));
            return Err(ImpersonationError::WithoutUser(why));
        }
    };
    if headers.contains_key(GROUP) {
        user.groups.clear();
    }
    for request in requests {
        let attributes = request.attributes();
        let verdict = authorizer.decide(caller.user(), &attributes).await;
        if verdict.decision != Decision::Allow || verdict.error.is_some() {
            let reason = verdict.reason.to_string();
            return Err(ImpersonationError::Forbidden(forbidden(caller.user(), &attributes, &reason)));
        }
        match request {
            ImpersonatedPart::User(_) | ImpersonatedPart::ServiceAccount { .. } => {}
            ImpersonatedPart::Group(group) => user.groups.push(group),
            ImpersonatedPart::Uid(uid) => user.uid = uid,
            ImpersonatedPart::Extra { key, value } => {
                match user.extra.iter_mut().find(|(of, _)| *of == key) {
                    Some((_, values)) => values.push(value),
                    None => user.extra.push((key, vec![value])),
                }
            }
        }
    }
    if user.name == User::ANONYMOUS && !user.is_in(User::UNAUTHENTICATED) {
        user.groups.push(User::UNAUTHENTICATED.to_owned());
    }
    log::debug!(user = caller.user().name.as_str(), acting_as = user.name.as_str(); "a request is made as another user");
    let impersonated = Authenticated::impersonated(user.authenticated());
    Ok(impersonated.observed(caller.observation().clone()))
}

/// Removes the headers of impersonation: the user of a request is known.
pub fn remove_impersonation(headers: &mut HeaderMap) {
    remove(headers, |name| matches!(name, USER | GROUP | UID) || name.starts_with(EXTRA));
}

/// Removes all headers with some names.
pub(crate) fn remove(headers: &mut HeaderMap, is_removed: impl Fn(&str) -> bool) {
    let names: Vec<_> = headers.keys().filter(|name| is_removed(name.as_str())).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// What the headers of a request ask for, the user first.
fn requests(headers: &HeaderMap) -> Vec<ImpersonatedPart> {
    // Nearly every request has no impersonation headers.
    if !headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        return Vec::new();
    }
    let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let first = |name| headers.get(name).map(text).filter(|value| !value.is_empty());
    let user = first(USER).map(|name| match User::as_service_account(&name) {
        Some((namespace, name)) => {
            ImpersonatedPart::ServiceAccount { namespace: namespace.to_owned(), name: name.to_owned() }
        }
        None => ImpersonatedPart::User(name),
    });
    let groups = headers.get_all(GROUP).iter().map(|value| ImpersonatedPart::Group(text(value)));
    let mut extra: Vec<(String, String)> = headers
        .iter()
        .filter_map(|(name, value)| Some((unescape_key(name.as_str().strip_prefix(EXTRA)?), text(value))))
        .collect();
    // The order of headers with different names means nothing.
    extra.sort_by(|(one, _), (other, _)| one.cmp(other));
    let extra = extra.into_iter().map(|(key, value)| ImpersonatedPart::Extra { key, value });
    user.into_iter().chain(groups).chain(extra).chain(first(UID).map(ImpersonatedPart::Uid)).collect()
}

#[cfg(test)]
mod tests;
