//! The controller `namespace-controller`: empties a namespace that is being deleted, and removes its
//! finalizer in the end.
//!
//! A reconciliation deletes the objects of all types in the namespace, pods first and all others when no pod
//! is left ([`content`]), writes what is left and why to the conditions ([`conditions`]), and when nothing is
//! left, removes the finalizer `kubernetes`: the write pipeline then removes the namespace itself. While
//! something is left, a task waits until it is gone and makes the namespace due; in any case it is due again
//! some time later.
//!
//! 1. A reconciliation is about one namespace by its uid. A namespace that was made again under the same
//!    name is not touched: writes carry the resource version that was read, and objects are deleted only
//!    while the namespace is the same.
//! 2. A write that was admitted before the namespace was marked can be committed after the end of the
//!    namespace. Such objects are deleted by a reconciliation five seconds after the request timeout of the
//!    server. If there is a new namespace of the same name by then, only objects that are older than that
//!    namespace are deleted.

mod conditions;
mod content;
mod remote;
#[cfg(test)]
mod tests;

use crate::corrections::Corrections;
use crate::follow::{StartFrom, follow};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::watch::{Start, WatchOptions};
use cache::{Entry, Filter, Resource, Update};
use content::{Content, Left};
use kinds::{map_at, object_meta};
use object::time::Time;
use object::{Map, Text, Value};
use registry::{Address, Client};
use remote::RemoteContent;
use schema::Status;
use schema::status::Reason;
use schema::view::View;
use schema::views::core::v1;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tasks::{Ended, Name, Task};

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "namespace",
    account: NAME,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "namespace-controller";
/// The finalizer in `spec.finalizers` that this controller removes.
const FINALIZER: &str = "kubernetes";
/// The most namespaces that are emptied at the same time.
const AT_ONCE: usize = 10;
/// How long after the longest time of a request a namespace that is gone is checked for objects that were
/// committed after its end.
const AFTER_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

async fn run(context: Context) {
    let Some(namespaces) = context.resource("namespaces") else { return };
    let queue: Arc<Queue<Text>> = Arc::default();
    let late_commits = context.settings.request_timeout.saturating_add(AFTER_REQUEST_TIMEOUT);
    let _namespaces = follow(namespaces.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            let Update::Change { before, after } = update else { return };
            let is_deleting = |entry: Option<&Arc<Entry>>| entry.is_some_and(|entry| entry.is_deleting());
            match (before, after) {
                (_, Some(after)) if is_deleting(Some(after)) && !is_deleting(before) => {
                    queue.add(after.name().into());
                }
                (Some(before), None) => queue.add_after(before.name().into(), late_commits),
                _ => {}
            }
        }
    });
    let worker = Namespaces {
        content: Content::new(
            context.client.clone(),
            namespaces.clone(),
            context.settings.aggregation.clone().map(|aggregation| RemoteContent {
                client: context.client.clone(),
                aggregation,
                within: context.settings.request_timeout,
            }),
        ),
        client: context.client.clone(),
        namespaces,
        queue: queue.clone(),
        corrections: context.corrections.clone(),
        waiting: Mutex::default(),
    };
    queue.work(&context, AT_ONCE, Arc::new(worker)).await;
}

struct Namespaces {
    client: Client,
    namespaces: Arc<Resource>,
    content: Content,
    queue: Arc<Queue<Text>>,
    corrections: Arc<Corrections>,
    /// The tasks that wait until the objects that are left are gone, by namespace.
    waiting: Mutex<HashMap<Text, Task>>,
}

impl Reconcile for Namespaces {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        match self.namespaces.lookup("", name).map_err(registry::status)? {
            Some(found) if found.is_deleting() => match self.terminate(name, &found).await {
                // The namespace was removed while its content was being deleted.
                Err(error) if error.reason == Reason::NotFound => Ok(None),
                outcome => outcome,
            },
            // Objects of an earlier namespace of this name, which were committed after its end.
            found => self.content.delete_before(name, found.as_deref()).await.map(|()| None),
        }
    }
}

impl Namespaces {
    async fn terminate(&self, name: &Text, entry: &Entry) -> Result<RequeueAfter, Status> {
        let address = Address::core("namespaces", "").named(name);
        let mut namespace = map(self.client.get(address).await?)?;
        if !object_meta::is_deleting(&namespace) {
            return Ok(None);
        }
        if v1::Namespace::of(&namespace).status().phase() != "Terminating" {
            if let Some(status) = map_at(&mut namespace, "status") {
                status.insert("phase", "Terminating");
            }
            namespace = map(self.client.update(address.subresource("status"), namespace.into()).await?)?;
        }
        if v1::Namespace::of(&namespace).spec().finalizers().is_empty() {
            return Ok(None);
        }

        let deleted_at = object_meta::text(&namespace, "deletionTimestamp").parse().unwrap_or(Time::ZERO);
        let uid = object_meta::text(&namespace, "uid").to_owned();
        let left = self.content.delete(name, &uid, deleted_at).await;
        if map_at(&mut namespace, "status").is_some_and(|status| conditions::update(status, &left)) {
            let desired = conditions::texts(&namespace);
            let write = self.client.update(address.subresource("status"), namespace.clone().into());
            match self.corrections.write(entry, desired, write).await {
                Ok(Some(written)) => namespace = map(written)?,
                Ok(None) => {}
                Err(error) if matches!(error.reason, Reason::Conflict | Reason::NotFound) => {
                    return Err(error);
                }
                // The reference goes on without conditions too.
                Err(error) => {
                    log::warn!(namespace = name.as_str(), error:% = error.message; "the conditions of a namespace cannot be written");
                }
            }
        }
        let discovery = left.remote_types.failure();
        let errors: Vec<&str> = discovery.iter().chain(&left.errors).map(String::as_str).collect();
        let errors = (!errors.is_empty()).then(|| Status::internal_error(&errors.join(", ")));
        let estimate = left.estimate();
        if left.resources().next().is_some() {
            self.wait_for_end(name, left);
        }
        match (errors, estimate) {
            (Some(errors), _) => return Err(errors),
            (None, Some(seconds)) => return Ok(Some(Duration::from_secs(seconds / 2 + 1))),
            (None, None) => {}
        }
        // An object of a write that was admitted before the namespace was marked may have been committed
        // since the objects of its type were deleted. Those that are committed later still are found after
        // the end of the namespace.
        if self.content.has_objects(name).await? {
            return Ok(Some(Duration::ZERO));
        }
        finalize(&mut namespace);
        self.client.update(address.subresource("finalize"), namespace.into()).await.map(|_| None)
    }

    /// Starts the task that adds a namespace to the queue when the objects that are left are gone.
    fn wait_for_end(&self, name: &Text, left: Left) {
        let (queue, namespace, left) = (self.queue.clone(), name.clone(), Arc::new(left));
        let task = tasks::spawn(Name::NamespaceEmptied, move || {
            let (queue, namespace, left) = (queue.clone(), namespace.clone(), left.clone());
            async move {
                for resource in left.resources() {
                    emptied(resource, &namespace).await;
                }
                queue.add(namespace);
                Ended::Done
            }
        });
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), task);
    }
}

/// Ends when a type has no objects in a namespace. It never ends if the type cannot be watched.
async fn emptied(resource: &Arc<Resource>, namespace: &str) {
    let mut watcher = None;
    while let Ok(list) = content::list(resource, namespace).await {
        if content::is_empty(&list) {
            return;
        }
        let request = WatchOptions::new(Start::After(list.revision)).filter(Filter::namespace(namespace));
        let watcher = match &mut watcher {
            Some(watcher) => watcher,
            none => match resource.watch(request).await {
                Ok(started) => none.insert(started),
                Err(_) => break,
            },
        };
        if watcher.next().await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

/// Removes the finalizer of this controller from a namespace. The others are in the order of their names
/// then.
fn finalize(namespace: &mut Map) {
    let finalizers: BTreeSet<String> = v1::Namespace::of(namespace)
        .spec()
        .finalizers()
        .iter()
        .filter(|name| *name != FINALIZER)
        .map(Into::into)
        .collect();
    let finalizers: Vec<Value> = finalizers.iter().map(|name| name.as_str().into()).collect();
    if let Some(spec) = map_at(namespace, "spec") {
        spec.insert("finalizers", finalizers);
    }
}

/// An object of a built-in type.
fn map(object: Value) -> Result<Map, Status> {
    match object {
        Value::Map(map) => Ok(map),
        _ => Err(Status::internal_error("a namespace is not a map")),
    }
}
