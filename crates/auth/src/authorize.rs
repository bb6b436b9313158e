//! Authorization: a chain of authorizers.
//!
//! The first authorizer that allows or denies decides; if none does, the request is denied. Every decision goes through
//! [`Authorizer`], also one within a verb (a PUT that creates).

use crate::{Attributes, Authenticated, Target, User};
use object::quote::Quoted;
use schema::Status;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A future on the heap, for trait objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The decision of one authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The request is allowed.
    Allow,
    /// The request is denied, and no further authorizer is called; the reason, which the client sees.
    Deny(String),
    /// The next authorizer decides; the reason, which the client sees if none allows the request.
    NoOpinion(String),
}

/// One mode of authorization.
pub trait Authorize: Send + Sync {
    /// Decides on a request of a user.
    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> BoxFuture<'a, Decision>;
}

/// The mode `AlwaysAllow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysAllow;

impl Authorize for AlwaysAllow {
    fn decide<'a>(&'a self, _user: &'a User, _attributes: &'a Attributes) -> BoxFuture<'a, Decision> {
        Box::pin(std::future::ready(Decision::Allow))
    }
}

/// The chain of authorizers.
#[derive(Clone)]
pub struct Authorizer {
    modes: Arc<[Box<dyn Authorize>]>,
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer").field("modes", &self.modes.len()).finish()
    }
}

/// The proof that a user may make a request.
#[derive(Clone, Debug)]
pub struct Authorized {
    user: User,
    attributes: Attributes,
}

impl Authorizer {
    /// Calls these modes in this order.
    pub fn new(modes: impl IntoIterator<Item = Box<dyn Authorize>>) -> Self {
        Self { modes: modes.into_iter().collect() }
    }

    /// Allows every authenticated user everything.
    pub fn always_allow() -> Self {
        Self::new([Box::new(AlwaysAllow) as Box<dyn Authorize>])
    }

    /// The proof that a user may make a request, or the 403.
    pub async fn authorize(
        &self,
        caller: Authenticated,
        attributes: Attributes,
    ) -> Result<Authorized, Status> {
        self.check(caller.user(), &attributes).await?;
        Ok(Authorized { user: caller.into_user(), attributes })
    }

    /// 403 if a user may not make a request.
    pub async fn check(&self, user: &User, attributes: &Attributes) -> Result<(), Status> {
        let mut reasons = Vec::new();
        for mode in &*self.modes {
            match mode.decide(user, attributes).await {
                Decision::Allow => return Ok(()),
                Decision::Deny(reason) => {
                    reasons.push(reason);
                    break;
                }
                Decision::NoOpinion(reason) => reasons.push(reason),
            }
        }
        reasons.retain(|reason| !reason.is_empty());
        Err(forbidden(user, attributes, &reasons.join("\n")))
    }
}

impl Authorized {
    /// The user.
    pub fn user(&self) -> &User {
        &self.user
    }

    /// The attributes of the allowed request.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }
}

/// 403, with the message of the reference.
fn forbidden(user: &User, attributes: &Attributes, reason: &str) -> Status {
    let (name, verb) = (Quoted(&user.name), attributes.verb);
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

    struct Fixed(Decision);

    impl Authorize for Fixed {
        fn decide<'a>(&'a self, _user: &'a User, _attributes: &'a Attributes) -> BoxFuture<'a, Decision> {
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    fn pods() -> Attributes {
        Attributes {
            verb: "create",
            target: Target::Resource {
                group: String::new(),
                version: "v1".into(),
                resource: "pods".into(),
                subresource: "eviction".into(),
                namespace: "<ns>".into(),
                name: "a".into(),
            },
        }
    }

    async fn ask(decisions: &[Decision], attributes: &Attributes) -> Result<(), String> {
        let modes = decisions.iter().map(|decision| Box::new(Fixed(decision.clone())) as Box<dyn Authorize>);
        let user = User { name: "jane".into(), ..User::default() };
        Authorizer::new(modes).check(&user, attributes).await.map_err(|status| status.message)
    }

    #[tokio::test]
    async fn first_authorizer_with_an_opinion_decides() {
        let none = Decision::NoOpinion(String::new());
        let deny = Decision::Deny("no".into());
        assert!(ask(&[none.clone(), Decision::Allow, deny.clone()], &pods()).await.is_ok());
        assert!(ask(&[deny, Decision::Allow], &pods()).await.is_err());
        assert!(ask(&[none], &pods()).await.is_err());
        assert!(ask(&[], &pods()).await.is_err());
    }

    #[tokio::test]
    async fn forbidden_names_user_verb_and_object_and_escapes_markup() {
        assert_eq!(
            ask(&[Decision::NoOpinion("why".into())], &pods()).await.unwrap_err(),
            r#"pods "a" is forbidden: User "jane" cannot create resource "pods/eviction" in API group "" in the namespace "&lt;ns&gt;": why"#
        );
        let path = Attributes { verb: "get", target: Target::Path("/metrics".into()) };
        assert_eq!(
            ask(&[], &path).await.unwrap_err(),
            r#"forbidden: User "jane" cannot get path "/metrics""#
        );
    }
}
