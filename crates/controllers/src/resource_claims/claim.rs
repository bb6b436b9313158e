//! A claim: the reservations of pods that are gone or done end, and with the last of them the allocation. A
//! claim that was made for a pod that is done is deleted.

use super::{FINALIZER, Worker, claim_address, is_done, owning_pod, view};
use crate::objects::{decode, edit, failure, remove_finalizer};
use cache::Freshness;
use kinds::object_meta;
use object::{Map, Value};
use registry::DeleteOptions;
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::resource::v1beta1::{ResourceClaim, ResourceClaimConsumerReference};

impl Worker {
    pub(super) async fn sync_claim(&self, namespace: &str, name: &str) -> Result<(), Status> {
        let Some(entry) = self.claims.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(());
        };
        let claim = decode(ResourceClaim::schema(), &entry)?;
        let users = view(&claim).status().reserved_for();
        let mut valid: Vec<Value> = Vec::new();
        for (user, value) in users.iter().zip(users.values()) {
            if self.is_used(namespace, user).await? {
                valid.push(value.clone());
            }
        }
        let is_protected = object_meta::finalizers(&claim).contains(&FINALIZER);
        let is_unused = valid.is_empty();
        if valid.len() < users.len() {
            let mut changed = claim.clone();
            edit(&mut changed, "status", |status| {
                match valid.is_empty() {
                    true => drop(status.remove("reservedFor")),
                    false => drop(status.insert("reservedFor", valid)),
                }
                // Nobody uses it any more: it is allocated anew for the next pod.
                if is_unused && is_protected {
                    status.remove("allocation");
                }
            });
            let written = self.write_status(namespace, name, changed).await?;
            if is_protected && view(&written).status().allocation().is_none() {
                self.unprotect(namespace, name, written).await?;
            }
        } else if is_protected && entry.is_deleting() && is_unused {
            let mut current = claim.clone();
            if view(&current).status().allocation().is_some() {
                edit(&mut current, "status", |status| drop(status.remove("allocation")));
                current = self.write_status(namespace, name, current).await?;
            }
            self.unprotect(namespace, name, current).await?;
        }
        if is_unused && let Some((uid, pod)) = owning_pod(&claim) {
            let found = self.pods.lookup(namespace, pod).map_err(registry::status)?;
            // The garbage collector removes the claim of a pod that is gone.
            if found.is_some_and(|pod| pod.uid() != uid || is_done(&pod)) {
                let deleted =
                    self.client.delete(claim_address(namespace, name), &DeleteOptions::default()).await;
                if let Err(error) = deleted.or_else(unless_gone) {
                    let message = format!("delete claim {namespace}/{name}: {}", error.message);
                    return Err(Status { message, ..error });
                }
            }
        }
        Ok(())
    }

    /// Whether a pod still has, or may get, a claim that is reserved for it.
    async fn is_used(
        &self,
        namespace: &str,
        user: ResourceClaimConsumerReference<'_>,
    ) -> Result<bool, Status> {
        if !user.api_group().is_empty() || user.resource() != "pods" {
            let (group, resource, name) = (user.api_group(), user.resource(), user.name());
            return Err(failure(format!(
                "unsupported ReservedFor entry: {{{group} {resource} {name} {}}}",
                user.uid()
            )));
        }
        let pod =
            self.pods.get(namespace, user.name(), Freshness::MostRecent).await.map_err(registry::status)?;
        Ok(pod.is_some_and(|pod| pod.uid() == user.uid() && !is_done(&pod)))
    }

    async fn write_status(&self, namespace: &str, name: &str, claim: Map) -> Result<Map, Status> {
        let address = claim_address(namespace, name).subresource("status");
        let written = self.client.update(address, claim.into()).await?;
        Ok(written.as_map().cloned().unwrap_or_default())
    }

    async fn unprotect(&self, namespace: &str, name: &str, mut claim: Map) -> Result<(), Status> {
        remove_finalizer(&mut claim, FINALIZER);
        let written = self.client.update(claim_address(namespace, name), claim.into()).await;
        written.map(drop).or_else(unless_gone)
    }
}

fn unless_gone(error: Status) -> Result<(), Status> {
    if error.reason == Reason::NotFound { Ok(()) } else { Err(error) }
}
