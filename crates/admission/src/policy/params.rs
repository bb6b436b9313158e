//! The parameters of a binding: objects of a kind that the policy names.

use super::definition::{Policy, Reference};
use crate::Attributes;
use crate::attributes::Pick;
use crate::matching::namespace;
use kinds::ResourceType;
use object::Value;
use schema::GroupVersionKind;
use schema::status::Reason;
use std::sync::Arc;

/// The resource of the kind of a policy's parameters, or why the policy cannot be used; `None` if it has no
/// parameters.
pub(super) fn resource<E>(
    policy: &Policy<E>,
    attributes: &Attributes<'_>,
) -> Result<Option<Arc<ResourceType>>, String> {
    let Some(kind) = &policy.param_kind else { return Ok(None) };
    let found = attributes.request.resources_of(kind).into_iter().next();
    let GroupVersionKind { group, version, kind } = kind;
    found.map(Some).ok_or_else(|| unknown(group, version, kind))
}

/// A kind of parameters that is not served.
fn unknown(group: &str, version: &str, kind: &str) -> String {
    format!("failed to find resource referenced by paramKind: '{group}/{version}, Kind={kind}'")
}

/// The parameters with which a policy is evaluated for a binding: null if it has none, and nothing at all if
/// they are not there and the binding allows that.
pub(super) async fn collect(
    resource: Option<&ResourceType>,
    reference: Option<&Reference>,
    attributes: &Attributes<'_>,
) -> Result<Vec<Value>, String> {
    let (Some(resource), Some(reference)) = (resource, reference) else { return Ok(vec![Value::Null]) };
    let of_request = namespace(attributes);
    let within = match (resource.is_namespaced(), reference.namespace.as_str()) {
        (true, "") if of_request.is_empty() => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_owned());
        }
        (true, "") => of_request,
        (true, fixed) => fixed,
        (false, "") => "",
        (false, _) => {
            return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".to_owned());
        }
    };
    let pick = match (&*reference.name, &reference.selector) {
        ("", None) => return Err("one of name or selector must be provided".to_owned()),
        ("", Some(selector)) => Pick::Labels(selector.as_ref().map_err(String::clone)?),
        (_, Some(_)) => return Err("paramRef.name and paramRef.selector are mutually exclusive".to_owned()),
        (name, None) => Pick::Name(name),
    };
    let found = attributes.request.parameters(resource, within, pick).await;
    let found = found.map_err(|status| match status.reason {
        // The definition of the kind was deleted meanwhile.
        Reason::NotFound => unknown(&resource.group, &resource.version, &resource.kind),
        _ => status.message,
    })?;
    if found.is_empty() && reference.is_required {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
    }
    Ok(found)
}
