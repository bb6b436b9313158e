//! DELETE of a collection: each selected object is deleted as if by its name.

use crate::{DamagedObjects, DeleteOptions, List, ListOptions, Registry, Target};
use schema::Status;
use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// The number of objects that are deleted at the same time, so that their commits share an fsync.
const CONCURRENT: usize = 64;

impl Registry {
    /// Deletes the selected objects. The result is the list of them before the delete.
    pub async fn delete_collection(
        &self,
        target: &Target<'_>,
        options: &ListOptions,
        delete: &DeleteOptions,
    ) -> Result<List, Status> {
        target.check_verb(&["deletecollection"])?;
        delete.check_for_collection()?;
        delete.warnings.extend(crate::delete::warning(target.served, delete));
        let list = self.list(target, &as_page(options)).await?;
        let List { objects, token, remaining } = list;
        let revision = objects.revision;
        let entries: Vec<_> = objects.collect();
        let mut damaged = DamagedObjects::default();
        for entry in &entries {
            tokio::task::coop::consume_budget().await;
            damaged.check(target.served, entry);
        }
        damaged.refuse(target.served)?;
        if delete.needs_conversion {
            for chunk in entries.chunks(CONCURRENT) {
                target.stored()?.check_conversion(chunk).await?;
            }
        }
        let delete = &DeleteOptions { needs_conversion: false, ..delete.clone() };
        for chunk in entries.chunks(CONCURRENT) {
            let deletions = chunk.iter().map(|entry| self.delete_named(target, entry.name(), delete));
            for deletion in join_all(deletions).await {
                match deletion {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(List { objects: cache::List::of(revision, entries), token, remaining })
    }
}

/// The options of the list of a deletecollection. The reference lists page by page, even without a limit, so
/// a resource version means exactly that state.
fn as_page(options: &ListOptions) -> Cow<'_, ListOptions> {
    let means_exactly = options.limit == 0
        && options.token.is_empty()
        && options.resource_version_match.is_empty()
        && !matches!(options.resource_version.as_str(), "" | "0");
    if !means_exactly {
        return Cow::Borrowed(options);
    }
    Cow::Owned(ListOptions { resource_version_match: "Exact".into(), ..options.clone() })
}

/// Polls all futures to their ends, in one task.
async fn join_all<T>(futures: impl IntoIterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut pinned: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut pending = false;
        for (future, done) in &mut pinned {
            if done.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *done = Some(value),
                    Poll::Pending => pending = true,
                }
            }
        }
        if pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    pinned.into_iter().filter_map(|(_, done)| done).collect()
}
