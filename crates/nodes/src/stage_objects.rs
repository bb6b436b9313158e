//! Which `Stage` objects there are: they are followed as long as their definition is served. One that asks
//! for something that is not known is left out, and an event about it says why.

use crate::work::Shared;
use cache::{Cursor, Entry, Resource, Update};
use controllers::{EventType, Recorder, StartFrom, Subject, follow};
use object::Text;
use registry::{Catalog, Client};
use schema::{Limits, Shape, json};
use stages::{Stage, Target};
use std::sync::Arc;
use tasks::Task;
use tokio::sync::mpsc;

/// The group and the resource of stages.
const GROUP: &str = "kwok.x-k8s.io";
const RESOURCE: &str = "stages";
/// Their prefix in the store.
const PREFIX: &str = "stages.kwok.x-k8s.io";
/// The version that events name.
const VERSION: &str = "kwok.x-k8s.io/v1alpha1";

/// A stage that is left out, and why.
struct Refused {
    subject: Subject,
    why: String,
}

/// Where refused stages are sent.
type Refusals = mpsc::UnboundedSender<Refused>;

/// Takes the stages that there are now, so that no object lives another life before they are known.
pub(crate) fn load(client: &Client, shared: &Shared) {
    if let Some(resource) = find(client, &client.registry().catalog()) {
        Cursor::new(resource).advance(|update| {
            if let Update::Change { after: Some(entry), .. } = update {
                // What is refused is said by the follower, which sees it again.
                shared.lock().set_stage(entry.name(), read(entry).ok().flatten());
            }
        });
    }
}

/// Follows stages until the future is dropped.
pub(crate) async fn run(client: Client, recorder: Recorder, shared: Arc<Shared>) {
    let mut catalog = client.registry().follow_catalog();
    let (sender, mut refused) = mpsc::unbounded_channel();
    let mut following: Option<(Arc<Resource>, Task)> = None;
    loop {
        let found = find(&client, &catalog.borrow_and_update());
        let is_same = match (&following, &found) {
            (Some((known, _)), Some(found)) => Arc::ptr_eq(known, found),
            (None, None) => true,
            _ => false,
        };
        if !is_same {
            following = found.map(|resource| {
                let task = follow_stages(resource.clone(), shared.clone(), sender.clone());
                (resource, task)
            });
            if following.is_none() {
                shared.clear_stages();
            }
        }
        tokio::select! {
            // The registry is there as long as this is.
            _ = catalog.changed() => {}
            Some(Refused { subject, why }) = refused.recv() => {
                log::warn!(stage = subject.name.as_str(), why = why.as_str(); "a stage is left out");
                recorder.record(&subject, EventType::Warning, "StageRefused", &why).await;
            }
        }
    }
}

fn find(client: &Client, catalog: &Catalog) -> Option<Arc<Resource>> {
    let is_served = catalog.served().any(|served| served.group == GROUP && served.resource == RESOURCE);
    client.registry().cache().resource(PREFIX).filter(|_| is_served)
}

fn follow_stages(resource: Arc<Resource>, shared: Arc<Shared>, refusals: Refusals) -> Task {
    let mut is_first = true;
    follow(resource, StartFrom::State, move |update| match update {
        // The objects follow. At the start they are known already.
        Update::Reset => {
            if !std::mem::replace(&mut is_first, false) {
                shared.clear_stages();
            }
        }
        Update::Change { before, after } => {
            let Some(entry) = after.or(before) else { return };
            let stage = after.map_or(Ok(None), |entry| read(entry));
            let changed = shared.lock().set_stage(entry.name(), stage.clone().ok().flatten());
            shared.look_at_all(&changed);
            if let Err(why) = stage {
                let subject = Subject::of(entry, VERSION, "Stage");
                // Without a receiver nobody follows any more.
                let _ = refusals.send(Refused { subject, why });
            }
        }
    })
}

fn read(entry: &Entry) -> Result<Option<Stage>, String> {
    let decoded = json::decode_shape(&Shape::Any, entry.bytes(), &Limits::STORED);
    let value = decoded.map_err(|error| error.to_string())?.value;
    value.as_map().map_or(Ok(None), Stage::parse)
}

/// The kind of pods.
pub(crate) fn pods() -> Target {
    Target { api_version: "v1".to_owned(), kind: "Pod".to_owned() }
}

/// The kind of nodes.
pub(crate) fn nodes() -> Target {
    Target { api_version: "v1".to_owned(), kind: "Node".to_owned() }
}

/// An object of a kind that has stages, and is neither a pod nor a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct OtherKey {
    /// The kind.
    pub(crate) target: Target,
    /// The namespace; empty for an object without one.
    pub(crate) namespace: Text,
    /// The name.
    pub(crate) name: Text,
}
