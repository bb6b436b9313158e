//! `OwnerReferencesPermissionEnforcement`: whoever changes the owners of an object may delete it, and whoever
//! makes it block the deletion of an owner may set finalizers on that owner.

use super::{Builtin, Parts};
use crate::{Attributes, Operation, Plugin, Reservation};
use auth::{Authorizer, Decision, Target, Verdict};
use object::Value;
use schema::view::{Items, View as _};
use schema::views::meta::v1::{ObjectMeta, OwnerReference};
use schema::{GroupVersionKind, Status};
use std::collections::HashMap;
use tasks::Deferred;

/// The plugin.
pub struct OwnerReferencesPermissionEnforcement {
    authorizer: Authorizer,
}

impl OwnerReferencesPermissionEnforcement {
    async fn check(
        &self,
        attributes: &Attributes<'_>,
        blocking: &[OwnerReference<'_>],
    ) -> Result<(), String> {
        // Whoever makes an object could as well not make it.
        if attributes.operation != Operation::Create {
            let verdict = self.may_delete(attributes).await;
            if verdict.decision != Decision::Allow {
                let why = shown(&verdict);
                return Err(format!("cannot set an ownerRef on a resource you can't delete: {why}"));
            }
        }
        if blocking.is_empty() || self.may_finalize(attributes, "*", "*", "*", "", "*").await.is_ok() {
            return Ok(());
        }
        for owner in blocking {
            self.check_owner(attributes, *owner).await?;
        }
        Ok(())
    }

    async fn may_delete(&self, attributes: &Attributes<'_>) -> Verdict {
        let target = Target::Resource {
            group: attributes.resource.group.to_string(),
            version: attributes.resource.version.to_string(),
            resource: attributes.resource.resource.to_string(),
            subresource: attributes.subresource.to_owned(),
            namespace: attributes.namespace.to_owned(),
            name: attributes.name.to_owned(),
        };
        self.authorizer.decide(attributes.user, &auth::Attributes::new("delete", target)).await
    }

    /// Whether the caller may set the finalizers of a resource; otherwise why not.
    async fn may_finalize(
        &self,
        attributes: &Attributes<'_>,
        group: &str,
        version: &str,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), String> {
        let target = Target::Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            subresource: "finalizers".into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let verdict = self.authorizer.decide(attributes.user, &auth::Attributes::new("update", target)).await;
        if verdict.decision == Decision::Allow { Ok(()) } else { Err(shown(&verdict)) }
    }

    /// A kind may be that of several resources: the permission is needed for all of them.
    async fn check_owner(
        &self,
        attributes: &Attributes<'_>,
        owner: OwnerReference<'_>,
    ) -> Result<(), String> {
        let (group, version) = owner.api_version().split_once('/').unwrap_or(("", owner.api_version()));
        let kind =
            GroupVersionKind { group: group.into(), version: version.into(), kind: owner.kind().into() };
        let resources = attributes.request.resources_of(&kind);
        if resources.is_empty() {
            let (api_version, kind) = (owner.api_version(), owner.kind());
            return Err(format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} Kind {kind}: \
                 no matches for kind {} in version {}",
                object::quote::quote(kind),
                object::quote::quote(api_version),
            ));
        }
        for found in resources {
            let namespace = if found.is_namespaced() { attributes.namespace } else { "" };
            let (group, version, resource) = (&found.group, &found.version, &found.resource);
            let outcome = self.may_finalize(attributes, group, version, resource, namespace, owner.name());
            outcome.await.map_err(|why| {
                format!(
                    "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: {why}"
                )
            })?;
        }
        Ok(())
    }
}

/// Reason and error of a decision, as the reference shows them.
fn shown(verdict: &Verdict) -> String {
    format!("{}, {}", verdict.reason, verdict.error.as_deref().unwrap_or("<nil>"))
}

fn owners(object: Option<&Value>) -> Option<Items<'_, OwnerReference<'_>>> {
    let metadata = object?.get("metadata").and_then(Value::as_map)?;
    Some(ObjectMeta::of(metadata).owner_references())
}

/// The references that block the deletion of their owner, and did not before.
fn newly_blocking<'a>(object: &'a Value, old: Option<&'a Value>) -> Vec<OwnerReference<'a>> {
    let blocks = |owner: &OwnerReference<'_>| owner.block_owner_deletion() == Some(true);
    // Of several references to an owner the last counts.
    let before: HashMap<&str, bool> = owners(old)
        .into_iter()
        .flat_map(|all| all.iter())
        .map(|owner| (owner.uid(), blocks(&owner)))
        .collect();
    let now = owners(Some(object)).into_iter().flat_map(|all| all.iter());
    now.filter(blocks).filter(|owner| before.get(owner.uid()) != Some(&true)).collect()
}

impl Builtin for OwnerReferencesPermissionEnforcement {
    const NAME: &'static str = "OwnerReferencesPermissionEnforcement";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Ok(Self { authorizer: parts.authorizer.clone() })
    }
}

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        // Old kubelets write wrong owners there, which the kind puts back.
        let is_pod_status = attributes.subresource == "status" && attributes.is_resource("", "pods");
        let values = |object: Option<&'a Value>| owners(object).map(Items::values).unwrap_or_default();
        let Some(new) = object.filter(|_| !is_pod_status && values(object) != values(attributes.old)) else {
            return Deferred::Now(Ok(None));
        };
        Deferred::later(async move {
            let blocking = newly_blocking(new, attributes.old);
            match self.check(attributes, &blocking).await {
                Ok(()) => Ok(None),
                Err(why) => Err(attributes.forbidden(object, &why)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use auth::{Authorize, Rules, User};
    use std::sync::Arc;

    /// Allows what is listed as `verb resource/subresource name`.
    struct Allows(&'static [&'static str]);

    impl Authorize for Allows {
        fn decide<'a>(&'a self, _user: &'a User, asked: &'a auth::Attributes) -> Deferred<'a, Verdict> {
            let Target::Resource { resource, subresource, name, .. } = &asked.target else {
                return Deferred::Now(Verdict::no_opinion(""));
            };
            let asked = format!("{} {resource}/{subresource} {name}", asked.verb);
            Deferred::Now(match self.0.contains(&asked.as_str()) {
                true => Verdict::allow(""),
                false => Verdict::no_opinion("no"),
            })
        }

        fn rules(&self, _user: &User, _namespace: &str) -> Rules {
            Rules::default()
        }
    }

    fn pod(owner: &str) -> String {
        format!(r#"{{"metadata":{{"name":"a","namespace":"n","ownerReferences":[{owner}]}}}}"#)
    }

    fn owner(kind: &str, blocks: &str) -> String {
        format!(r#"{{"apiVersion":"v1","kind":"{kind}","name":"o","uid":"u","blockOwnerDeletion":{blocks}}}"#)
    }

    async fn refusal(allows: &'static [&'static str], old: Option<&str>, new: &str) -> Option<String> {
        let mut fixture = Fixture::new().await;
        fixture.authorizer = Authorizer::new([Arc::new(Allows(allows)) as Arc<dyn Authorize>]);
        let plugin: OwnerReferencesPermissionEnforcement = fixture.make(None).unwrap();
        let new = pod(new);
        let old = old.map(pod);
        let write = match &old {
            Some(old) => Write::update("pods", old, &new),
            None => Write::create("pods", &new),
        };
        write.validate(&plugin).await.err().map(|refused| refused.message)
    }

    #[tokio::test]
    async fn owners_need_permissions() {
        let (free, blocking) = (owner("ConfigMap", "false"), owner("ConfigMap", "true"));
        assert_eq!(refusal(&[], None, &free).await, None);
        assert_eq!(refusal(&[], Some(&free), &free).await, None);
        let refused = refusal(&[], Some(""), &free).await.unwrap();
        assert!(
            refused.ends_with("cannot set an ownerRef on a resource you can't delete: no, <nil>"),
            "{refused}"
        );
        assert_eq!(refusal(&["delete pods/ a"], Some(""), &free).await, None);
        let refused = refusal(&["delete pods/ a"], Some(&free), &blocking).await.unwrap();
        assert!(refused.ends_with("a resource you can't set finalizers on: no, <nil>"), "{refused}");
        assert_eq!(refusal(&["update configmaps/finalizers o"], None, &blocking).await, None);
        assert_eq!(refusal(&["update */finalizers *"], None, &blocking).await, None);
        let refused = refusal(&[], None, &owner("Nothing", "true")).await.unwrap();
        assert!(refused.ends_with(r#"no matches for kind "Nothing" in version "v1""#), "{refused}");
        let renamed = blocking.replace(r#""name":"o""#, r#""name":"p""#);
        assert_eq!(refusal(&["delete pods/ a"], Some(&blocking), &renamed).await, None);
    }
}
