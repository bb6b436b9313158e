//! The controller `garbage-collector-controller`: deletes what no owner needs any more, and sees to the
//! dependents of what is deleted.
//!
//! The [graph] has every object that has owners, from the index records of the cache. It says what to look
//! at; [collect] looks at an object and decides by the newest state: whether an owner is there is looked up
//! in the cache by the reference to it. An owner that is referred to by a kind or version that is not served
//! keeps its dependents; they are looked at again when something else is served.
//!
//! Objects of other API servers are owners and dependents too. The mirror of them feeds the graph, and finds
//! most owners; [remote] asks their servers for the rest, and changes and deletes their objects. What waits
//! for another server has a queue of its own, so that a server that is slow holds up no object of this one.

mod collect;
mod find;
mod graph;
mod metadata;
mod observed;
mod remote;
mod report;

use crate::follow::on_change;
use crate::queue::Queue;
use crate::{Context, Controller, Recorder};
use aggregation::{Mirror, MirrorChange, Subscription};
use cache::Resource;
use graph::Graph;
use kinds::Verb;
use registry::{Catalog, Client, Served};
use remote::{RemoteWorker, Remotes};
use report::Reporter;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use tasks::Task;

/// The controller.
pub const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "garbagecollector",
    account: "generic-garbage-collector",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "garbage-collector-controller";
/// The name of the queue of objects that wait for other API servers.
const REMOTES: &str = "garbage-collector-controller-remote";
/// How many objects are worked on at once.
const AT_ONCE: usize = 32;
/// How many of those that wait for other API servers.
const REMOTES_AT_ONCE: usize = 8;

async fn run(context: Context) {
    let queue = Arc::new(Queue::default());
    let remotes = Remotes::new(&context);
    let mirror = remotes.as_ref().map(|remotes| remotes.mirror.clone());
    let collector = Arc::new(Collector {
        client: context.client.clone(),
        // Its events name the controller, not its account.
        reporter: Reporter::start(Recorder::new(context.client.clone(), NAME)),
        graph: Mutex::new(Graph::new(queue.clone(), mirror.clone())),
        remotes,
    });
    let mut catalog = context.client.registry().follow_catalog();
    let mut followers = HashMap::new();
    let now = catalog.borrow_and_update().clone();
    collector.follow(&now, &mut followers);
    let follow = async {
        while catalog.changed().await.is_ok() {
            let now = catalog.borrow_and_update().clone();
            collector.follow(&now, &mut followers);
        }
    };
    let _mirrored = mirror.map(|mirror| subscribe(&mirror, &collector));
    let elsewhere = async {
        if let Some(remotes) = &collector.remotes {
            let worker = Arc::new(RemoteWorker(collector.clone()));
            let context = Context { name: REMOTES, ..context.clone() };
            remotes.queue.work(&context, REMOTES_AT_ONCE, worker).await;
        }
    };
    tokio::join!(queue.work(&context, AT_ONCE, collector.clone()), elsewhere, follow);
}

/// Adds the objects of other servers to the graph.
fn subscribe(mirror: &Arc<Mirror>, collector: &Arc<Collector>) -> Subscription {
    let collector: Weak<Collector> = Arc::downgrade(collector);
    mirror.subscribe(move |change| {
        let Some(collector) = collector.upgrade() else { return };
        match change {
            MirrorChange::Object { prefix, before, after } => {
                collector.graph().change_remote(prefix, before, after);
            }
            MirrorChange::Gone { prefix } => collector.graph().remove_remote(prefix),
            MirrorChange::Kinds => collector.graph().retry_unresolved(),
            MirrorChange::Synced { .. } => {}
        }
    })
}

struct Collector {
    client: Client,
    reporter: Reporter,
    graph: Mutex<Graph>,
    /// `None` if no other API servers can be registered.
    remotes: Option<Remotes>,
}

impl Collector {
    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the types of a catalog.
    fn follow(self: &Arc<Self>, catalog: &Arc<Catalog>, followers: &mut HashMap<Arc<str>, Task>) {
        let wanted = followable(catalog);
        let known = self.graph().resources();
        self.graph().set_catalog(catalog.clone());
        for (prefix, resource) in &known {
            if wanted.get(prefix).is_none_or(|(_, now)| !Arc::ptr_eq(now, resource)) {
                followers.remove(prefix);
                self.graph().remove(prefix);
            }
        }
        for (prefix, (served, resource)) in wanted {
            if known.get(&prefix).is_some_and(|known| Arc::ptr_eq(known, &resource)) {
                self.graph().serve(&prefix, served);
                continue;
            }
            self.graph().add(&prefix, served, resource.clone());
            let (collector, changed) = (self.clone(), prefix.clone());
            let advance = move || collector.graph().advance(&changed);
            followers.insert(prefix, on_change(resource, advance));
        }
        self.graph().retry_unresolved();
    }
}

/// The types whose objects can be collected, by their prefixes in the store: each with the first version that
/// is announced.
fn followable(catalog: &Catalog) -> HashMap<Arc<str>, (Arc<Served>, Arc<Resource>)> {
    let mut types: HashMap<Arc<str>, _> = HashMap::new();
    for served in catalog.served() {
        let is_event = served.resource == "events" && matches!(&*served.group, "" | "events.k8s.io");
        let has_verbs =
            [Verb::Delete, Verb::List, Verb::Watch].iter().all(|verb| served.verbs.contains(verb));
        if let Some(stored) = &served.stored
            && has_verbs
            && !is_event
        {
            let prefix = stored.resource.spec().prefix();
            types.entry(prefix.into()).or_insert_with(|| (served.clone(), stored.resource.clone()));
        }
    }
    types
}

#[cfg(test)]
mod tests;
