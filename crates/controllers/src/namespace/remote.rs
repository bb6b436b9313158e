//! The objects in a namespace that other API servers have.
//!
//! A server that does not answer holds the namespace, as in the reference, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aggregation::{Aggregation, RemoteResource};
use registry::{Address, Client};

/// Deletes the objects that other servers have.
pub(super) struct RemoteContent {
    pub(super) client: Client,
    pub(super) aggregation: Arc<Aggregation>,
    /// How long a request may take.
    pub(super) within: Duration,
}

/// The objects of one kind that are left.
pub(super) struct LeftOfRemote {
    pub(super) of: RemoteResource,
    pub(super) number: usize,
    /// How many objects have each finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
}

impl RemoteContent {
    /// Deletes the objects of a kind in a namespace; returns what is left.
    pub(super) async fn delete(
        &self,
        of: RemoteResource,
        namespace: &str,
    ) -> Result<Option<LeftOfRemote>, String> {
        let address = Address { version: &of.version, ..Address::v1(&of.group, &of.resource, namespace) };
        let user = async |verb| {
            let user = self.client.user_for(address, verb).await;
            user.map_err(|status| status.message)
        };
        let Self { aggregation, within, .. } = self;
        let is_done = of.has("deletecollection") && {
            let user = user("deletecollection").await?;
            aggregation.delete(&user, &of, namespace, None, *within).await?
        };
        if !of.has("list") {
            return Ok(None);
        }
        let list = async || {
            let user = user("list").await?;
            aggregation.list(&user, &of, namespace, *within).await
        };
        if !is_done {
            let Some(found) = list().await? else { return Ok(None) };
            let user = user("delete").await?;
            for name in &found.names {
                aggregation.delete(&user, &of, namespace, Some(name), *within).await?;
            }
        }
        let left = list().await?.filter(|left| !left.names.is_empty());
        Ok(left.map(|left| LeftOfRemote {
            number: left.names.len(),
            finalizers: left.finalizers,
            of: of.clone(),
        }))
    }
}
