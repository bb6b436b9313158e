//! Turns the attributes of an access review into those of the authorizer.

use auth::{Attributes, Selectors, Target, User};
use object::{field_selector, label};
use schema::views::authorization::v1::{
    FieldSelectorAttributes, LabelSelectorAttributes, NonResourceAttributes, ResourceAttributes,
    SubjectAccessReviewSpec,
};

/// The user that a review is about.
pub(super) fn subject(spec: SubjectAccessReviewSpec<'_>) -> User {
    let extra = spec.extra().iter();
    User {
        name: spec.user().to_owned(),
        uid: spec.uid().to_owned(),
        groups: spec.groups().iter().map(str::to_owned).collect(),
        extra: extra
            .map(|(key, values)| (key.to_owned(), values.iter().map(str::to_owned).collect()))
            .collect(),
    }
}

/// The attributes of a resource request. Without a version they are for any version.
pub(super) fn resource(wanted: ResourceAttributes<'_>) -> Attributes {
    let version = if wanted.version().is_empty() { "*" } else { wanted.version() };
    let target = Target::Resource {
        group: wanted.group().to_owned(),
        version: version.to_owned(),
        resource: wanted.resource().to_owned(),
        subresource: wanted.subresource().to_owned(),
        namespace: wanted.namespace().to_owned(),
        name: wanted.name().to_owned(),
    };
    let mut selectors = Selectors::default();
    if let Some(given) = wanted.field_selector() {
        fields(given, &mut selectors);
    }
    if let Some(given) = wanted.label_selector() {
        labels(given, &mut selectors);
    }
    let selectors = (selectors != Selectors::default()).then(|| Box::new(selectors));
    Attributes { selectors, ..Attributes::new(wanted.verb().to_owned(), target) }
}

/// The attributes of a non-resource request.
pub(super) fn non_resource(wanted: NonResourceAttributes<'_>) -> Attributes {
    Attributes::path(wanted.verb().to_owned(), wanted.path())
}

/// The valid requirements of a field selector. Invalid ones are left out: the review is then about more
/// objects, not fewer.
fn fields(given: FieldSelectorAttributes<'_>, selectors: &mut Selectors) {
    if !given.raw_selector().is_empty() {
        match field_selector::Selector::parse(given.raw_selector()) {
            Ok(parsed) => selectors.fields = parsed.requirements().unwrap_or_default().to_vec(),
            Err(error) => selectors.fields_error = Some(error.to_string()),
        }
    }
    let mut errors = Vec::new();
    for requirement in given.requirements().iter() {
        let values: Vec<&str> = requirement.values().iter().collect();
        let operator = match requirement.operator() {
            "In" => Some(field_selector::Operator::Equals),
            "NotIn" => Some(field_selector::Operator::NotEquals),
            _ => None,
        };
        match (operator, values.as_slice()) {
            (Some(operator), [value]) => selectors.fields.push(field_selector::Requirement {
                field: requirement.key().into(),
                operator,
                value: (*value).into(),
            }),
            _ => errors.push(format!("the requirement of {} is not supported", requirement.key())),
        }
    }
    if !errors.is_empty() {
        selectors.fields_error = Some(errors.join(", "));
    }
}

/// The valid requirements of a label selector, as in [`fields`].
fn labels(given: LabelSelectorAttributes<'_>, selectors: &mut Selectors) {
    if !given.raw_selector().is_empty() {
        match label::Selector::parse(given.raw_selector()) {
            Ok(parsed) => selectors.labels = parsed.requirements().unwrap_or_default().to_vec(),
            Err(error) => selectors.labels_error = Some(error.to_string()),
        }
    }
    let mut errors = Vec::new();
    for requirement in given.requirements().iter() {
        let values: Vec<&str> = requirement.values().iter().collect();
        let operator = match requirement.operator() {
            "In" => label::Operator::In,
            "NotIn" => label::Operator::NotIn,
            "Exists" => label::Operator::Exists,
            "DoesNotExist" => label::Operator::DoesNotExist,
            other => {
                errors
                    .push(format!("{} is not a valid label selector operator", object::quote::Quoted(other)));
                continue;
            }
        };
        match label::Requirement::new(requirement.key(), operator, &values) {
            Ok(requirement) => selectors.labels.push(requirement),
            Err(error) => errors.push(error.to_string()),
        }
    }
    if !errors.is_empty() {
        selectors.labels_error = Some(errors.join(", "));
    }
}
