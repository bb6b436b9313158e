//! GET of one object.

use crate::error::{revision, status, unknown_reason_500};
use crate::{Content, Registry, Target, scale};
use cache::{Entry, Filter, Freshness, Mode, Query};
use kinds::Action;
use schema::Status;
use std::sync::Arc;
use store::Revision;

impl Registry {
    /// Gets one object: its newest state, or, with `resourceVersion`, a state that is not older.
    pub async fn get(&self, target: &Target<'_>, resource_version: &str) -> Result<Content, Status> {
        target.check_verb(&["get"])?;
        if target.served.stored.is_none() {
            return self.component_status(target).await.map(Content::Tree);
        }
        let entry = self.entry(target, freshness(resource_version)?).await?;
        match target.subresource.map(|subresource| &subresource.action) {
            None | Some(Action::Part(_)) => Ok(Content::Entry(entry)),
            Some(Action::Scale(fields)) => scale::read(target.stored()?, &entry, fields).await,
            Some(Action::Bind | Action::Evict | Action::IssueToken | Action::Connect(_)) => {
                Err(Status::unknown_resource())
            }
        }
    }

    /// Gets one object in its state at an earlier revision.
    pub async fn get_as_of(&self, target: &Target<'_>, revision: Revision) -> Result<Content, Status> {
        target.check_verb(&["get"])?;
        target.check_name()?;
        let is_whole =
            target.subresource.is_none_or(|subresource| matches!(subresource.action, Action::Part(_)));
        let Some(stored) = target.served.stored.as_ref().filter(|_| is_whole) else {
            return self.get(target, "0").await;
        };
        let filter = match target.namespace {
            "" => Filter::all(),
            namespace => Filter::namespace(namespace),
        };
        let query = Query::default().mode(Mode::Exact(revision));
        let list = stored.resource.list(Query { filter: filter.name(target.name), ..query }).await;
        let found = list.map_err(status)?.next();
        found.map(Content::Entry).ok_or_else(|| target.not_found())
    }

    /// The size of an object in the cache, in bytes; 0 if there is no object.
    pub async fn size(&self, target: &Target<'_>) -> usize {
        let Some(stored) = &target.served.stored else { return 0 };
        let found = stored.resource.get(target.namespace, target.name, Freshness::Any).await;
        found.ok().flatten().map_or(0, |entry| entry.bytes().len())
    }

    /// The entry of an object.
    pub(crate) async fn entry(
        &self,
        target: &Target<'_>,
        freshness: Freshness,
    ) -> Result<Arc<Entry>, Status> {
        target.check_name()?;
        match target.stored()?.resource.get(target.namespace, target.name, freshness).await {
            Ok(found) => found.ok_or_else(|| target.not_found()),
            Err(cache::Error::Corrupt(corrupt)) => Err(target.damaged(&(&*corrupt).into())),
            Err(error) => Err(status(error)),
        }
    }
}

/// The freshness that `resourceVersion` asks for. An invalid one is 500 without a reason, as in the
/// reference.
fn freshness(resource_version: &str) -> Result<Freshness, Status> {
    Ok(match resource_version {
        "" => Freshness::MostRecent,
        "0" => Freshness::Any,
        text => match revision(text).map_err(unknown_reason_500)? {
            Revision::ZERO => Freshness::Any,
            revision => Freshness::NotOlderThan(revision),
        },
    })
}
