//! Validation of reviews.

use super::{Review, SPEC};
use crate::{Target, object_meta};
use object::field::{self, BadValue, Error, Path};
use object::quote::Quoted;
use object::{Map, Value, name};
use schema::Status;
use schema::view::View as _;
use schema::views::authentication::v1::TokenReviewSpec;
use schema::views::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectRulesReviewSpec, SubjectAccessReviewSpec,
};

/// Validates a review.
pub(super) fn check(review: Review, target: &Target<'_>, object: &Map) -> Result<(), Status> {
    let empty = Map::new();
    let spec = object.get(SPEC.as_str()).and_then(Value::as_map).unwrap_or(&empty);
    match review {
        Review::SelfSubject => Ok(()),
        Review::Token if TokenReviewSpec::of(spec).token().is_empty() => {
            Err(Status::bad_request("token is required for TokenReview in authentication"))
        }
        Review::Token => Ok(()),
        Review::SelfRules if SelfSubjectRulesReviewSpec::of(spec).namespace().is_empty() => {
            Err(Status::bad_request("no namespace on request"))
        }
        Review::SelfRules => Ok(()),
        Review::Access | Review::LocalAccess | Review::SelfAccess => {
            let errors = access(review, SubjectAccessReviewSpec::of(spec), object);
            if !errors.is_empty() {
                // The reference does not name the kind here.
                return Err(Status::invalid(&target.served.group, "", "", &errors));
            }
            Ok(())
        }
    }
}

fn access(review: Review, spec: SubjectAccessReviewSpec<'_>, object: &Map) -> field::List {
    let root = Path::new("spec");
    let mut errors = field::List::new();
    let (resource, other) = (spec.resource_attributes(), spec.non_resource_attributes());
    match (resource, other) {
        (Some(_), Some(other)) => errors.push(Error::invalid(
            &root.child("nonResourceAttributes"),
            shown(other),
            "cannot be specified in combination with resourceAttributes",
        )),
        (None, None) => errors.push(Error::invalid(
            &root.child("resourceAttributes"),
            BadValue::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if review != Review::SelfAccess && spec.user().is_empty() && spec.groups().is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(Error::invalid(&root.child("user"), "", detail));
    }
    if let Some(resource) = resource {
        selectors(resource, &root.child("resourceAttributes"), &mut errors);
    }
    metadata(review, object, &mut errors);
    if review == Review::LocalAccess {
        let namespace = object_meta::text(object, "namespace");
        if let Some(resource) = resource.filter(|resource| resource.namespace() != namespace) {
            let root = root.child("resourceAttributes");
            let path = root.child("namespace");
            errors.push(Error::invalid(&path, resource.namespace(), "must match metadata.namespace"));
        }
        if let Some(other) = other {
            let path = root.child("nonResourceAttributes");
            errors.push(Error::invalid(&path, shown(other), "disallowed on this kind of request"));
        }
    }
    errors
}

/// The metadata of a review is empty but for its managed fields and, if it is local, its namespace.
fn metadata(review: Review, object: &Map, errors: &mut field::List) {
    let mut metadata = object_meta::metadata(object).cloned().unwrap_or_default();
    metadata.remove("managedFields");
    let mut detail = "must be empty";
    if review == Review::LocalAccess {
        metadata.remove("namespace");
        detail = "must be empty except for namespace";
    }
    if !metadata.is_empty() {
        let names: Vec<&str> = metadata.iter().map(|(key, _)| key.as_str()).collect();
        let value = BadValue::Raw(format!("v1.ObjectMeta{{{}}}", names.join(", ")));
        errors.push(Error::invalid(&Path::new("metadata"), value, detail));
    }
}

fn selectors(resource: ResourceAttributes<'_>, root: &Path<'_>, errors: &mut field::List) {
    if let Some(selector) = resource.field_selector() {
        let path = root.child("fieldSelector");
        forms(selector.raw_selector(), selector.requirements().len(), &path, errors);
        for (at, requirement) in selector.requirements().iter().enumerate() {
            let path = path.child("requirements");
            let path = path.index(at);
            if requirement.key().is_empty() {
                errors.push(Error::required(&path.child("key"), "must be specified"));
            }
            values(requirement.operator(), requirement.values().len(), &path, errors);
        }
    }
    if let Some(selector) = resource.label_selector() {
        let path = root.child("labelSelector");
        forms(selector.raw_selector(), selector.requirements().len(), &path, errors);
        for (at, requirement) in selector.requirements().iter().enumerate() {
            let path = path.child("requirements");
            let path = path.index(at);
            values(requirement.operator(), requirement.values().len(), &path, errors);
            for message in name::label_key(requirement.key()) {
                errors.push(Error::invalid(&path.child("key"), requirement.key(), message));
            }
            for (at, value) in requirement.values().iter().enumerate() {
                for message in name::label_value(value) {
                    errors.push(Error::invalid(&path.child("values").index(at), value, message));
                }
            }
        }
    }
}

/// A selector is either `rawSelector` or `requirements`.
fn forms(text: &str, requirements: usize, path: &Path<'_>, errors: &mut field::List) {
    match (text.is_empty(), requirements) {
        (false, 1..) => {
            let detail = "may not specified at the same time as requirements";
            errors.push(Error::invalid(&path.child("rawSelector"), text, detail));
        }
        (true, 0) => {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(Error::required(&path.child("requirements"), detail));
        }
        _ => {}
    }
}

/// Checks the number of values of an operator. Unknown operators are left to the authorizers.
fn values(operator: &str, values: usize, path: &Path<'_>, errors: &mut field::List) {
    let path = path.child("values");
    match (operator, values) {
        ("In" | "NotIn", 0) => {
            errors.push(Error::required(&path, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(Error::forbidden(&path, detail));
        }
        _ => {}
    }
}

/// The attributes as the reference prints them.
fn shown(attributes: NonResourceAttributes<'_>) -> BadValue {
    let (path, verb) = (Quoted(attributes.path()), Quoted(attributes.verb()));
    BadValue::Raw(format!("authorization.NonResourceAttributes{{Path:{path}, Verb:{verb}}}"))
}
