//! POST of a review, such as `SubjectAccessReview`: the server sets its status, and does not store it.
//!
//! A review gets its namespace and managed fields, and is admitted and validated, as any object.

mod access;
mod attributes;
mod validate;

use crate::convert::{map, map_mut};
use crate::managed::Fields;
use crate::object_meta::Stage;
use crate::prepare::default;
use crate::{Answer, Content, Registry, Served, Target, WriteOptions, WriteRequest, object_meta};
use admission::{Attributes, Operation};
use auth::{Rules, Token, TokenIdentity, User};
use object::time::Time;
use object::{Key, Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::authentication::v1::{TokenReviewSpec, TokenReviewStatus, UserInfo};
use schema::views::authorization::v1::{
    NonResourceRule, ResourceRule, SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus,
};

const SPEC: Key = Key::known("spec");
const STATUS: Key = Key::known("status");

/// The kinds of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Review {
    /// `TokenReview`: the user of a token.
    Token,
    /// `SelfSubjectReview`: the user of the request.
    SelfSubject,
    /// `SubjectAccessReview`: whether a user is allowed a request.
    Access,
    /// `LocalSubjectAccessReview`: the same in one namespace.
    LocalAccess,
    /// `SelfSubjectAccessReview`: whether the user of the request is allowed a request.
    SelfAccess,
    /// `SelfSubjectRulesReview`: the permissions of the user of the request in a namespace.
    SelfRules,
}

impl Review {
    /// The review of a served kind; `None` for all other kinds.
    pub(crate) fn of(served: &Served) -> Option<Self> {
        match (served.group.as_str(), served.resource.as_str()) {
            ("authentication.k8s.io", "tokenreviews") => Some(Self::Token),
            ("authentication.k8s.io", "selfsubjectreviews") => Some(Self::SelfSubject),
            ("authorization.k8s.io", "subjectaccessreviews") => Some(Self::Access),
            ("authorization.k8s.io", "localsubjectaccessreviews") => Some(Self::LocalAccess),
            ("authorization.k8s.io", "selfsubjectaccessreviews") => Some(Self::SelfAccess),
            ("authorization.k8s.io", "selfsubjectrulesreviews") => Some(Self::SelfRules),
            _ => None,
        }
    }
}

impl Registry {
    /// Answers a review.
    pub(crate) async fn review(
        &self,
        review: Review,
        target: &Target<'_>,
        mut object: Value,
        options: &WriteOptions,
    ) -> Result<Answer, Status> {
        default(target.served, &mut object)?;
        {
            let object = map_mut(&mut object)?;
            object_meta::wipe_system_fields(object);
            object_meta::fit_namespace(object, target.namespace)?;
            options.warnings.extend(object_meta::dedup_owners(object, Stage::BeforeAdmission));
        }
        Fields::of(target).update(None, &mut object, options).await?;
        let request = WriteRequest::write(target, options);
        let name = object_meta::text(map(&object)?, "name").to_owned();
        let attributes = Attributes { name: &name, ..request.attributes(Operation::Create, None) };
        self.config().admission.mutate(&attributes, Some(&mut object)).await?;
        options.warnings.extend(object_meta::dedup_owners(map_mut(&mut object)?, Stage::AfterAdmission));
        if !self.config().authorizer.sees_selectors() {
            access::drop_selectors(&mut object);
        }
        validate::check(review, target, map(&object)?)?;
        let admitted = self.config().admission.validate(&attributes, Some(&object)).await?;
        let user = target.proof.user();
        match review {
            Review::Token => self.review_token(&mut object).await?,
            Review::SelfSubject => object = self_subject_review(user),
            Review::Access | Review::LocalAccess | Review::SelfAccess => {
                self.review_access(review, user, &mut object).await?;
            }
            Review::SelfRules => {
                let namespace = spec(&object).map(|spec| SelfSubjectRulesReviewSpec::of(spec).namespace());
                object = rules(self.config().authorizer.rules(user, namespace.unwrap_or_default()));
            }
        }
        admitted.committed().await;
        let answered = map_mut(&mut object)?;
        answered.insert("kind", target.served.kind.clone());
        answered.insert("apiVersion", target.served.api_version.clone());
        Ok(Answer { code: 201, content: Content::Other { ty: target.served.ty.clone(), value: object } })
    }

    /// Sets the status of a TokenReview.
    async fn review_token(&self, review: &mut Value) -> Result<(), Status> {
        let authenticators = &self.config().authenticators;
        let (token, asked) = match spec(review).map(TokenReviewSpec::of) {
            Some(spec) => (spec.token().to_owned(), spec.audiences().iter().map(str::to_owned).collect()),
            None => (String::new(), Vec::new()),
        };
        let audiences = if asked.is_empty() { &authenticators.audiences } else { &asked };
        let outcome = authenticators.review(Token(&token), audiences).await;
        let status = map_mut(review)?.get_or_insert_with(STATUS, || Map::new().into());
        let Some(status) = status.as_map_mut() else { return Ok(()) };
        status.remove(TokenReviewStatus::AUTHENTICATED.as_str());
        match outcome {
            Ok(TokenIdentity { user, audiences: of, .. }) => {
                if !audiences.is_empty() && !of.iter().any(|audience| audiences.contains(audience)) {
                    return Err(Status::internal_error("error validating audiences"));
                }
                status.insert(TokenReviewStatus::AUTHENTICATED, true);
                status.insert(TokenReviewStatus::USER, user_info(&user));
                set_list(status, TokenReviewStatus::AUDIENCES, &of);
            }
            Err(error) => {
                status.insert(TokenReviewStatus::ERROR, error.to_string().as_str());
            }
        }
        Ok(())
    }
}

/// The `spec` of a review.
fn spec(review: &Value) -> Option<&Map> {
    review.get(SPEC.as_str()).and_then(Value::as_map)
}

/// A `SelfSubjectReview` with its status.
fn self_subject_review(user: &User) -> Value {
    let mut status = Map::new();
    status.insert("userInfo", user_info(user));
    let mut metadata = Map::new();
    metadata.insert("creationTimestamp", Time::now().text());
    let mut review = Map::new();
    review.insert("metadata", metadata);
    review.insert(STATUS, status);
    review.into()
}

/// A `SelfSubjectRulesReview` with its status.
fn rules(rules: Rules) -> Value {
    let resources = rules.resources.iter().map(|rule| {
        let mut map = Map::new();
        set_list(&mut map, ResourceRule::VERBS, &rule.verbs);
        set_list(&mut map, ResourceRule::API_GROUPS, &rule.groups);
        set_list(&mut map, ResourceRule::RESOURCES, &rule.resources);
        set_list(&mut map, ResourceRule::RESOURCE_NAMES, &rule.names);
        Value::from(map)
    });
    let paths = rules.paths.iter().map(|rule| {
        let mut map = Map::new();
        set_list(&mut map, NonResourceRule::VERBS, &rule.verbs);
        set_list(&mut map, NonResourceRule::NON_RESOURCE_URLS, &rule.paths);
        Value::from(map)
    });
    let mut status = Map::new();
    status.insert(SubjectRulesReviewStatus::RESOURCE_RULES, resources.collect::<Vec<Value>>());
    status.insert(SubjectRulesReviewStatus::NON_RESOURCE_RULES, paths.collect::<Vec<Value>>());
    if rules.is_incomplete {
        status.insert(SubjectRulesReviewStatus::INCOMPLETE, true);
    }
    if let Some(error) = rules.error {
        status.insert(SubjectRulesReviewStatus::EVALUATION_ERROR, error.as_str());
    }
    let mut review = Map::new();
    review.insert(STATUS, status);
    review.into()
}

/// The `UserInfo` of a user.
pub(crate) fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    for (key, text) in [(UserInfo::USERNAME, &user.name), (UserInfo::UID, &user.uid)] {
        if !text.is_empty() {
            info.insert(key, text.as_str());
        }
    }
    set_list(&mut info, UserInfo::GROUPS, &user.groups);
    if !user.extra.is_empty() {
        let mut extra = Map::new();
        for (key, values) in &user.extra {
            extra.insert(key.as_str(), texts(values));
        }
        info.insert(UserInfo::EXTRA, extra);
    }
    info.into()
}

fn set_list(map: &mut Map, key: Key, values: &[String]) {
    if !values.is_empty() {
        map.insert(key, texts(values));
    }
}

fn texts(values: &[String]) -> Vec<Value> {
    values.iter().map(|value| Value::from(value.as_str())).collect()
}
