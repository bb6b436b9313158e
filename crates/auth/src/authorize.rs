//! Authorization: a chain of authorizers.
//!
//! The first authorizer that allows or denies decides; if none does, the request is denied. Every decision
//! goes through [`Authorizer`], also one within a verb (a PUT that creates).

use crate::families;
use crate::{Attributes, Authenticated, Target, User};
use object::quote::Quoted;
use observe::{AuditLevel, Observation, Part};
use schema::Status;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use tasks::Deferred;

/// What an authorizer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied, and no further authorizer is called.
    Deny,
    /// The next authorizer decides.
    NoOpinion,
}

/// A decision with its reason.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The decision.
    pub decision: Decision,
    /// The reason, which the client sees if the request is denied.
    pub reason: Reason,
    /// What went wrong.
    pub error: Option<String>,
}

impl Verdict {
    /// Allowed, for a reason.
    pub fn allow(reason: impl Into<Reason>) -> Self {
        Self { decision: Decision::Allow, reason: reason.into(), error: None }
    }

    /// Denied, for a reason.
    pub fn deny(reason: impl Into<Reason>) -> Self {
        Self { decision: Decision::Deny, reason: reason.into(), error: None }
    }

    /// Left to the next authorizer, for a reason.
    pub fn no_opinion(reason: impl Into<Reason>) -> Self {
        Self { decision: Decision::NoOpinion, reason: reason.into(), error: None }
    }
}

/// The reason of a decision. It becomes text where it is shown.
#[derive(Clone, Default)]
pub struct Reason(Option<Arc<dyn fmt::Display + Send + Sync>>);

impl Reason {
    /// No reason.
    pub const NONE: Self = Self(None);

    /// A reason that is shared with the object that it describes.
    pub fn shared(reason: Arc<dyn fmt::Display + Send + Sync>) -> Self {
        Self(Some(reason))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self((!text.is_empty()).then(|| Arc::new(text) as _))
    }
}

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self((!text.is_empty()).then(|| Arc::new(text) as _))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |reason| reason.fmt(f))
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// What a user may do, as far as it can be listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Permissions for resources.
    pub resources: Vec<ResourceRule>,
    /// Permissions for paths outside of the API's resources.
    pub paths: Vec<PathRule>,
    /// Whether there may be more.
    pub is_incomplete: bool,
    /// What went wrong.
    pub error: Option<String>,
}

/// A permission for resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    /// The verbs; `*` for all.
    pub verbs: Vec<String>,
    /// The groups; `*` for all.
    pub groups: Vec<String>,
    /// The resources and subresources; `*` for all.
    pub resources: Vec<String>,
    /// The names; empty for all.
    pub names: Vec<String>,
}

/// A permission for paths outside of the API's resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRule {
    /// The verbs; `*` for all.
    pub verbs: Vec<String>,
    /// The paths; a `*` at the end stands for any end.
    pub paths: Vec<String>,
}

/// One mode of authorization.
pub trait Authorize: Send + Sync {
    /// Decides on a request of a user.
    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict>;

    /// What a user may do in a namespace, and outside of namespaces.
    fn rules(&self, user: &User, namespace: &str) -> Rules;

    /// The type and the name that its decisions are counted with; `None` if they are not.
    fn counted_as(&self) -> Option<(&'static str, &str)> {
        None
    }
}

/// The mode `AlwaysAllow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorize for AlwaysAllow {
    fn decide<'a>(&'a self, _user: &'a User, _attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        Deferred::Now(Verdict::allow(Reason::NONE))
    }

    fn counted_as(&self) -> Option<(&'static str, &str)> {
        Some(("AlwaysAllow", "alwaysallow"))
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        let all = || vec!["*".to_owned()];
        Rules {
            resources: vec![ResourceRule { verbs: all(), groups: all(), resources: all(), names: vec![] }],
            paths: vec![PathRule { verbs: all(), paths: all() }],
            ..Rules::default()
        }
    }
}

/// The mode `AlwaysDeny`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysDeny;

impl Authorize for AlwaysDeny {
    fn decide<'a>(&'a self, _user: &'a User, _attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        Deferred::Now(Verdict::no_opinion("Everything is forbidden."))
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

/// Allows the members of `system:masters` everything. It is before every other mode.
#[derive(Clone, Copy, Debug, Default)]
struct Masters;

impl Authorize for Masters {
    fn decide<'a>(&'a self, user: &'a User, _attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        let is_master = user.is_in(User::MASTERS);
        let verdict = if is_master { Verdict::allow } else { Verdict::no_opinion };
        Deferred::Now(verdict(Reason::NONE))
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}

/// The chain of authorizers. Clones share it.
#[derive(Clone)]
pub struct Authorizer {
    modes: Arc<RwLock<Modes>>,
    /// Whether modes see the selectors of requests: the gate `AuthorizeWithSelectors`.
    sees_selectors: bool,
}

type Modes = Arc<[Arc<dyn Authorize>]>;

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("modes", &self.modes().len()).finish()
    }
}

/// The audit annotation with the decision on a request.
const DECISION_KEY: &str = "authorization.k8s.io/decision";
/// The audit annotation with the reason of the decision.
const REASON_KEY: &str = "authorization.k8s.io/reason";

/// The proof that a user may make a request.
#[derive(Clone, Debug)]
pub struct Authorized {
    user: Arc<User>,
    attributes: Attributes,
    observation: Observation,
}

/// Why a request is not made.
#[derive(Debug)]
pub enum Denied {
    /// The user is not allowed to make the request: the 403.
    Forbidden(Status),
    /// The authorizers could not decide: the reason.
    Failed(String),
}

impl From<Denied> for Status {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Forbidden(status) => status,
            Denied::Failed(error) => Self::internal_error(&error),
        }
    }
}

impl Authorizer {
    /// Calls these modes in this order, after the one that lets `system:masters` do everything.
    pub fn new(modes: impl IntoIterator<Item = Arc<dyn Authorize>>) -> Self {
        Self { modes: Arc::new(RwLock::new(chain(modes))), sees_selectors: true }
    }

    /// The same modes, which see no selectors of requests: without the gate `AuthorizeWithSelectors`.
    #[must_use]
    pub fn without_selectors(self) -> Self {
        Self { sees_selectors: false, ..self }
    }

    /// Whether modes see the selectors of requests.
    pub fn sees_selectors(&self) -> bool {
        self.sees_selectors
    }

    /// What modes see of a request.
    fn seen<'a>(&self, attributes: &'a Attributes) -> Cow<'a, Attributes> {
        match self.sees_selectors || attributes.selectors.is_none() {
            true => Cow::Borrowed(attributes),
            false => Cow::Owned(Attributes { selectors: None, ..attributes.clone() }),
        }
    }

    /// Allows everybody everything.
    pub fn always_allow() -> Self {
        Self::new([Arc::new(AlwaysAllow) as Arc<dyn Authorize>])
    }

    /// Calls these modes instead, from the next decision on.
    pub fn replace(&self, modes: impl IntoIterator<Item = Arc<dyn Authorize>>) {
        *self.modes.write().unwrap_or_else(PoisonError::into_inner) = chain(modes);
    }

    fn modes(&self) -> Modes {
        self.modes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The proof that a user may make a request.
    pub async fn authorize(
        &self,
        caller: Authenticated,
        attributes: Attributes,
    ) -> Result<Authorized, Denied> {
        self.check_request(&caller, &attributes).await?;
        let (user, observation) = caller.into_parts();
        Ok(Authorized { user, attributes, observation })
    }

    /// Fails if a user may not do something.
    pub async fn check(&self, user: &User, attributes: &Attributes) -> Result<(), Denied> {
        let verdict = self.decide(user, attributes).await;
        match (verdict.decision, verdict.error) {
            (Decision::Allow, _) => Ok(()),
            (_, Some(error)) => Err(Denied::Failed(error)),
            (_, None) => Err(Denied::Forbidden(forbidden(user, attributes, &verdict.reason.to_string()))),
        }
    }

    /// Fails if a user may not make its request. Audit gets the decision and its reason.
    pub async fn check_request(&self, caller: &Authenticated, attributes: &Attributes) -> Result<(), Denied> {
        let (user, observation) = (caller.user(), caller.observation());
        let begin = Instant::now();
        let is_request = observation.times().is_some();
        let verdict = self.decide_by(user, attributes, is_request).await;
        let took = begin.elapsed();
        if let Some(times) = observation.times() {
            families::authorized(&verdict, took);
            times.add(Part::Authorization, took);
        }
        let note = |decision: Option<&str>, reason: &dyn fmt::Display| {
            if observation.audit_level() > AuditLevel::None {
                if let Some(decision) = decision {
                    observation.annotate(DECISION_KEY, decision);
                }
                observation.annotate(REASON_KEY, &reason.to_string());
            }
        };
        match (verdict.decision, verdict.error) {
            (Decision::Allow, _) => {
                note(Some("allow"), &verdict.reason);
                Ok(())
            }
            (_, Some(error)) => {
                note(None, &"internal error");
                Err(Denied::Failed(error))
            }
            (_, None) => {
                let reason = verdict.reason.to_string();
                note(Some("forbid"), &reason);
                Err(Denied::Forbidden(forbidden(user, attributes, &reason)))
            }
        }
    }

    /// Whether a user may do something, as far as that is known without waiting for another server. For what
    /// is shown in passing: the decision is not counted and not in the audit log.
    pub fn allows_now(&self, user: &User, attributes: &Attributes) -> bool {
        for mode in &*self.modes() {
            match mode.decide(user, attributes) {
                Deferred::Now(verdict) if verdict.decision == Decision::NoOpinion => {}
                Deferred::Now(verdict) => return verdict.decision == Decision::Allow,
                Deferred::Later(_) => return false,
            }
        }
        false
    }

    /// The decision on a request: that of the first mode with an opinion. Without one, the reasons and errors
    /// of all.
    pub async fn decide(&self, user: &User, attributes: &Attributes) -> Verdict {
        self.decide_by(user, attributes, true).await
    }

    /// The decision. That on the server's own work is not counted.
    async fn decide_by(&self, user: &User, attributes: &Attributes, counts: bool) -> Verdict {
        let mut undecided = Undecided::default();
        let attributes = &*self.seen(attributes);
        for mode in &*self.modes() {
            if let Some(verdict) = undecided.add(mode.decide(user, attributes).wait().await) {
                let decision = if verdict.decision == Decision::Allow { "allowed" } else { "denied" };
                if let Some((kind, name)) = mode.counted_as().filter(|_| counts) {
                    families::DECISIONS.with([decision, name, kind]).inc();
                }
                return verdict;
            }
        }
        undecided.verdict()
    }

    /// The decision on a request, as [`Authorizer::decide`] makes it; `None` if a mode has to be waited for.
    pub fn decide_now(&self, user: &User, attributes: &Attributes) -> Option<Verdict> {
        let mut undecided = Undecided::default();
        let attributes = &*self.seen(attributes);
        for mode in &*self.modes() {
            let Deferred::Now(verdict) = mode.decide(user, attributes) else { return None };
            if let Some(verdict) = undecided.add(verdict) {
                return Some(verdict);
            }
        }
        Some(undecided.verdict())
    }

    /// What a user may do, by all modes that can list it.
    pub fn rules(&self, user: &User, namespace: &str) -> Rules {
        let mut all = Rules::default();
        let mut errors = Vec::new();
        for mode in &*self.modes() {
            let rules = mode.rules(user, namespace);
            all.resources.extend(rules.resources);
            all.paths.extend(rules.paths);
            all.is_incomplete |= rules.is_incomplete;
            errors.extend(rules.error);
        }
        Rules { error: aggregate(&errors), ..all }
    }
}

/// What modes without an opinion said.
#[derive(Default)]
struct Undecided {
    reasons: Vec<String>,
    errors: Vec<String>,
}

impl Undecided {
    /// Adds what a mode said; the verdict if it decides.
    fn add(&mut self, verdict: Verdict) -> Option<Verdict> {
        if verdict.decision != Decision::NoOpinion {
            return Some(verdict);
        }
        self.errors.extend(verdict.error);
        let reason = verdict.reason.to_string();
        if !reason.is_empty() {
            self.reasons.push(reason);
        }
        None
    }

    fn verdict(&self) -> Verdict {
        Verdict { error: aggregate(&self.errors), ..Verdict::no_opinion(self.reasons.join("\n")) }
    }
}

fn chain(modes: impl IntoIterator<Item = Arc<dyn Authorize>>) -> Modes {
    std::iter::once(Arc::new(Masters) as Arc<dyn Authorize>).chain(modes).collect()
}

/// The text of several errors, as the reference writes it: each once.
pub fn aggregate(errors: &[String]) -> Option<String> {
    let mut distinct: Vec<&str> = Vec::new();
    for error in errors {
        if !distinct.contains(&error.as_str()) {
            distinct.push(error);
        }
    }
    match distinct.as_slice() {
        [] => None,
        [only] => Some((*only).to_owned()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

impl Authorized {
    /// The user.
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// What is noted of the request.
    pub fn observation(&self) -> &Observation {
        &self.observation
    }

    /// The attributes of the allowed request.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

/// 403, with the message of the reference.
pub(crate) fn forbidden(user: &User, attributes: &Attributes, reason: &str) -> Status {
    let (name, verb) = (Quoted(&user.name), &attributes.verb);
    let (message, about) = match &attributes.target {
        Target::Path(path) => (format!("User {name} cannot {verb} path {}", Quoted(path)), ["", "", ""]),
        Target::Resource { group, resource, subresource, namespace, name: object, .. } => {
            let separator = if subresource.is_empty() { "" } else { "/" };
            let full = format!("{resource}{separator}{subresource}");
            let scope = match namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", Quoted(namespace)),
            };
            let message = format!(
                "User {name} cannot {verb} resource {} in API group {} {scope}",
                Quoted(&full),
                Quoted(group)
            );
            (message, [group.as_str(), resource.as_str(), object.as_str()])
        }
    };
    let mut message = message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        message = format!("{message}: {reason}");
    }
    let [group, resource, object] = about;
    Status::forbidden(group, resource, object, &message)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Verdict);

    impl Authorize for Fixed {
        fn decide<'a>(&'a self, _user: &'a User, _attributes: &'a Attributes) -> Deferred<'a, Verdict> {
            Deferred::Now(self.0.clone())
        }

        fn rules(&self, _user: &User, _namespace: &str) -> Rules {
            Rules::default()
        }
    }

    /// Allows requests with selectors.
    struct WantsSelectors;

    impl Authorize for WantsSelectors {
        fn decide<'a>(&'a self, _user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
            let verdict = if attributes.selectors.is_some() { Verdict::allow } else { Verdict::no_opinion };
            Deferred::Now(verdict(Reason::NONE))
        }

        fn rules(&self, _user: &User, _namespace: &str) -> Rules {
            Rules::default()
        }
    }

    #[tokio::test]
    async fn selectors_are_not_seen_without_their_gate() {
        let with = Authorizer::new([Arc::new(WantsSelectors) as Arc<dyn Authorize>]);
        let without = with.clone().without_selectors();
        assert!(with.sees_selectors() && !without.sees_selectors());
        let asked = Attributes { selectors: Some(Box::default()), ..pods() };
        for (authorizer, expected) in [(&with, Decision::Allow), (&without, Decision::NoOpinion)] {
            assert_eq!(authorizer.decide(&jane(), &asked).await.decision, expected);
            assert_eq!(authorizer.decide_now(&jane(), &asked).unwrap().decision, expected);
            assert_eq!(authorizer.check(&jane(), &asked).await.is_ok(), expected == Decision::Allow);
        }
        // The modes are shared, also when they are replaced.
        with.replace([Arc::new(AlwaysAllow) as Arc<dyn Authorize>]);
        assert_eq!(without.decide(&jane(), &asked).await.decision, Decision::Allow);
    }

    fn pods() -> Attributes {
        let target = Target::Resource {
            group: String::new(),
            version: "v1".into(),
            resource: "pods".into(),
            subresource: "eviction".into(),
            namespace: "<ns>".into(),
            name: "a".into(),
        };
        Attributes::new("create", target)
    }

    fn jane() -> User {
        User { name: "jane".into(), ..User::default() }
    }

    async fn ask(verdicts: &[Verdict], user: &User, attributes: &Attributes) -> Result<(), String> {
        let modes = verdicts.iter().map(|verdict| Arc::new(Fixed(verdict.clone())) as Arc<dyn Authorize>);
        match Authorizer::new(modes).check(user, attributes).await {
            Ok(()) => Ok(()),
            Err(Denied::Forbidden(status)) => Err(status.message),
            Err(Denied::Failed(error)) => Err(format!("failed: {error}")),
        }
    }

    #[tokio::test]
    async fn first_authorizer_with_an_opinion_decides() {
        let none = Verdict::no_opinion(Reason::NONE);
        let (allow, deny) = (Verdict::allow(Reason::NONE), Verdict::deny("no"));
        let (jane, pods) = (jane(), pods());
        assert!(ask(&[none.clone(), allow.clone(), deny.clone()], &jane, &pods).await.is_ok());
        assert!(ask(&[deny.clone(), allow], &jane, &pods).await.is_err());
        assert!(ask(&[none], &jane, &pods).await.is_err());
        assert!(ask(&[], &jane, &pods).await.is_err());
        let master = User { groups: vec![User::MASTERS.into()], ..jane };
        assert!(ask(&[deny], &master, &pods).await.is_ok(), "no mode comes before system:masters");
    }

    #[tokio::test]
    async fn error_without_an_opinion_is_a_failure_and_not_a_denial() {
        let failed =
            |error: &str| Verdict { error: Some(error.into()), ..Verdict::no_opinion("unreachable") };
        let (jane, pods) = (jane(), pods());
        let outcome = ask(&[failed("a"), failed("b"), failed("a")], &jane, &pods).await;
        assert_eq!(outcome.unwrap_err(), "failed: [a, b]");
        assert!(ask(&[failed("a"), Verdict::allow(Reason::NONE)], &jane, &pods).await.is_ok());
    }

    #[tokio::test]
    async fn forbidden_names_user_verb_and_object_and_escapes_markup() {
        let jane = jane();
        let reasons = [Verdict::no_opinion("why"), Verdict::no_opinion("and why")];
        assert_eq!(
            ask(&reasons, &jane, &pods()).await.unwrap_err(),
            "pods \"a\" is forbidden: User \"jane\" cannot create resource \"pods/eviction\" in API group \"\" in the namespace \"&lt;ns&gt;\": why\nand why"
        );
        assert_eq!(
            ask(&[], &jane, &Attributes::path("get", "/metrics")).await.unwrap_err(),
            "forbidden: User \"jane\" cannot get path \"/metrics\""
        );
    }

    #[tokio::test]
    async fn replaced_modes_decide_for_every_clone() {
        let authorizer = Authorizer::always_allow();
        let clone = authorizer.clone();
        authorizer.replace([Arc::new(AlwaysDeny) as Arc<dyn Authorize>]);
        assert!(clone.check(&jane(), &pods()).await.is_err());
    }
}
