//! Owners that are in another namespace than their dependents: an event tells people.
//!
//! Where an owner is takes a look at all objects of its kind. One task does that, for one dependent after
//! another and with pauses, so that references to nothing cost little, however many there are. What does not
//! fit is not reported.

use crate::{EventType, Recorder, Subject};
use cache::{Filter, Freshness, Query, Resource};
use std::sync::Arc;
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep};

/// How many dependents may wait for a report.
const WAITING: usize = 256;
/// How many owners of a dependent are looked for.
pub(super) const OWNERS: usize = 8;
/// The longest reference that is reported, in bytes: the message of an event has no more.
pub(super) const LONGEST: usize = 1024;

/// Looks for owners in other namespaces, until it is dropped.
pub(super) struct Reporter {
    sender: mpsc::Sender<Dependent>,
    _task: Task,
}

/// An object with owners that it does not have.
pub(super) struct Dependent {
    pub(super) subject: Subject,
    pub(super) owners: Vec<Missing>,
}

/// An owner that is not in the namespace of its dependent.
pub(super) struct Missing {
    /// The reference to it, as the event shows it.
    pub(super) reference: String,
    pub(super) uid: String,
    /// The objects of its kind; `None` if the owner is known to be in another namespace.
    pub(super) resource: Option<Arc<Resource>>,
}

impl Reporter {
    pub(super) fn start(recorder: Recorder) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let task = tasks::spawn(Name::GarbageReport, move || {
            let (recorder, waiting) = (recorder.clone(), waiting.clone());
            async move {
                let mut waiting = waiting.lock().await;
                while let Some(dependent) = waiting.recv().await {
                    let took = report(&recorder, &dependent).await;
                    // A tenth of a processor at most.
                    sleep(took * 9).await;
                }
                Ended::Done
            }
        });
        Self { sender, _task: task }
    }

    /// Reports a dependent later, if there is something to report.
    pub(super) fn add(&self, dependent: Dependent) {
        if !dependent.owners.is_empty() && self.sender.try_send(dependent).is_err() {
            log::debug!("an object is not asked for owners in other namespaces: too many wait");
        }
    }
}

/// Reports the first owner that is in another namespace. Gives how long the search took.
async fn report(recorder: &Recorder, dependent: &Dependent) -> Duration {
    let began = Instant::now();
    let mut found = None;
    for owner in &dependent.owners {
        let Some(resource) = &owner.resource else {
            found = Some(owner);
            break;
        };
        // A kind that is not served any more has no objects to look at.
        let Ok(mut all) = resource.list(Query::new(Freshness::Any, Filter::default())).await else {
            continue;
        };
        let namespace = all.find(|entry| entry.uid() == owner.uid).map(|entry| entry.namespace().to_owned());
        if namespace.is_some_and(|namespace| namespace != dependent.subject.namespace) {
            found = Some(owner);
            break;
        }
    }
    let took = began.elapsed();
    if let Some(Missing { reference, .. }) = found {
        let message = format!(
            "ownerRef {reference} does not exist in namespace {}",
            object::quote::quote(&dependent.subject.namespace)
        );
        recorder.record(&dependent.subject, EventType::Warning, "OwnerRefInvalidNamespace", &message).await;
    }
    took
}
