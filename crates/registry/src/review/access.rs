//! The access reviews: the decision of the authorizer for the attributes in a review.

use super::attributes::{non_resource, resource, subject};
use super::{Review, SPEC, STATUS, spec};
use crate::Registry;
use crate::convert::map_mut;
use auth::{Attributes, Decision, Selectors, User, Verdict};
use object::{Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::authorization::v1::{
    ResourceAttributes, SubjectAccessReviewSpec, SubjectAccessReviewStatus,
};

impl Registry {
    /// Sets the status of an access review, for the user that it names or for the user of the request.
    pub(super) async fn review_access(
        &self,
        review: Review,
        caller: &User,
        object: &mut Value,
    ) -> Result<(), Status> {
        let Some(asked) = spec(object).map(SubjectAccessReviewSpec::of) else {
            return Err(Status::internal_error("a review without a spec"));
        };
        let attributes = match (asked.resource_attributes(), asked.non_resource_attributes()) {
            (Some(wanted), _) => resource(wanted),
            (None, Some(wanted)) => non_resource(wanted),
            (None, None) => return Err(Status::internal_error("a review without attributes")),
        };
        let named = (review != Review::SelfAccess).then(|| subject(asked));
        let verdict = self.config().authorizer.decide(named.as_ref().unwrap_or(caller), &attributes).await;
        let status = status(&verdict, &attributes);
        let object = map_mut(object)?;
        match status.is_empty() {
            true => object.remove(STATUS.as_str()),
            false => object.insert(STATUS, status),
        };
        Ok(())
    }
}

/// Takes the selectors out of an access review.
pub(super) fn drop_selectors(review: &mut Value) {
    let spec = review.as_map_mut().and_then(|review| review.get_mut(SPEC.as_str())?.as_map_mut());
    let wanted = spec
        .and_then(|spec| spec.get_mut(SubjectAccessReviewSpec::RESOURCE_ATTRIBUTES.as_str())?.as_map_mut());
    if let Some(wanted) = wanted {
        wanted.remove(ResourceAttributes::FIELD_SELECTOR.as_str());
        wanted.remove(ResourceAttributes::LABEL_SELECTOR.as_str());
    }
}

fn status(verdict: &Verdict, attributes: &Attributes) -> Map {
    let mut status = Map::new();
    match verdict.decision {
        Decision::Allow => status.insert(SubjectAccessReviewStatus::ALLOWED, true),
        Decision::Deny => status.insert(SubjectAccessReviewStatus::DENIED, true),
        Decision::NoOpinion => None,
    };
    let reason = verdict.reason.to_string();
    let errors = verdict.error.clone().into_iter().chain(ignored(attributes.selectors.as_deref()));
    let error = errors.collect::<Vec<_>>().join("; ");
    let texts =
        [(SubjectAccessReviewStatus::REASON, reason), (SubjectAccessReviewStatus::EVALUATION_ERROR, error)];
    for (key, text) in texts {
        if !text.is_empty() {
            status.insert(key, text.as_str());
        }
    }
    status
}

/// The messages about selectors that could not be parsed, in whole or in part.
fn ignored(selectors: Option<&Selectors>) -> impl Iterator<Item = String> {
    let found = selectors.map(|selectors| {
        let fields = selectors.fields_error.as_ref().map(|_| ("fieldSelector", selectors.fields.is_empty()));
        let labels = selectors.labels_error.as_ref().map(|_| ("labelSelector", selectors.labels.is_empty()));
        fields.into_iter().chain(labels)
    });
    found.into_iter().flatten().map(|(name, is_empty)| {
        let part = if is_empty { "" } else { "partially " };
        format!("spec.resourceAttributes.{name} {part}ignored due to parse error")
    })
}
