//! Events: what controllers tell people about objects.
//!
//! An event that says the same of the same object again is counted at the first one; many that differ only in
//! their messages become one; and an object has a budget of events ([`correlator`]). Events are a courtesy:
//! one that cannot be written is logged, and no work fails for it.

mod correlator;
mod reporter;
#[cfg(test)]
mod tests;

use cache::Entry;
use clock::Instant;
use correlator::{Correlator, Observed};
use object::Map;
use object::name::dns1123_subdomain;
use object::time::Time;
use registry::{Address, Client, Patch};
use schema::{Status, json};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

pub(crate) use reporter::Reporter;

/// Tells people what a controller did.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    component: &'static str,
    correlator: Arc<Mutex<Correlator>>,
}

/// The `type` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// `Normal`: information.
    Normal,
    /// `Warning`: something has gone wrong.
    Warning,
}

/// The object that an event is about (`involvedObject`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The version of the API.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for an object without namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
}

impl Subject {
    /// The subject for an object of the cache, with its version and kind.
    pub fn of(entry: &Entry, api_version: &str, kind: &str) -> Self {
        Self {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: entry.namespace().to_owned(),
            name: entry.name().to_owned(),
            uid: entry.uid().to_owned(),
            resource_version: entry.mod_revision().0.to_string(),
        }
    }

    /// The address of events about the object: those about an object without namespace are in `default`.
    fn events(&self) -> Address<'_> {
        Address::core("events", if self.namespace.is_empty() { "default" } else { &self.namespace })
    }

    fn reference(&self) -> Map {
        let fields = [
            ("kind", &self.kind),
            ("namespace", &self.namespace),
            ("name", &self.name),
            ("uid", &self.uid),
            ("apiVersion", &self.api_version),
            ("resourceVersion", &self.resource_version),
        ];
        fields
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| (key, value.as_str()))
            .collect()
    }
}

/// The arguments of [`Recorder::record`].
#[derive(Clone, Copy)]
struct Said<'a> {
    subject: &'a Subject,
    event_type: EventType,
    reason: &'a str,
    message: &'a str,
}

impl Recorder {
    /// Writes events through a client, in the name of a component.
    pub fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, correlator: Arc::default() }
    }

    /// Records an event about an object.
    pub async fn record(&self, subject: &Subject, event_type: EventType, reason: &str, message: &str) {
        let said = Said { subject, event_type, reason, message };
        let observed = {
            let mut correlator = self.correlator.lock().unwrap_or_else(PoisonError::into_inner);
            correlator.observe(&said, Instant::now())
        };
        let Some(observed) = observed else { return };
        let is_new = observed.count == 1;
        let counted = if is_new { None } else { Some(self.count(subject, &observed).await) };
        let outcome = match counted {
            Some(Err(gone)) if gone.code == 404 => self.create(&said, &observed).await,
            Some(counted) => counted,
            None => self.create(&said, &observed).await,
        };
        if let Err(error) = outcome {
            log::debug!(component = self.component, reason, error:% = error.message; "an event could not be written");
        }
    }

    async fn create(&self, said: &Said<'_>, observed: &Observed) -> Result<(), Status> {
        let mut event = Map::new();
        let metadata: Map = [("name", observed.name.as_str())].into_iter().collect();
        event.insert("metadata", metadata);
        event.insert("involvedObject", said.subject.reference());
        event.insert("reason", said.reason);
        event.insert("message", observed.message.as_str());
        let source: Map = [("component", self.component)].into_iter().collect();
        event.insert("source", source);
        event.insert("firstTimestamp", observed.first.text());
        event.insert("lastTimestamp", Time::now().text());
        event.insert("count", observed.count);
        event.insert("type", said.event_type.as_str());
        if !observed.is_combined {
            event.insert("reportingComponent", self.component);
        }
        self.client.create(said.subject.events(), event.into()).await.map(drop)
    }

    /// Updates the count, the time and the message of an event that was recorded before.
    async fn count(&self, subject: &Subject, observed: &Observed) -> Result<(), Status> {
        let patch = format!(
            r#"{{"count":{},"lastTimestamp":{},"message":{}}}"#,
            observed.count,
            json::string(&Time::now().text()),
            json::string(&observed.message),
        );
        let address = subject.events().named(&observed.name);
        self.client.patch(address, Patch::Strategic, patch.as_bytes()).await.map(drop)
    }
}

/// The name of a new event about an object.
fn event_name(object: &str) -> String {
    let since = clock::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{object}.{:x}", since.as_nanos());
    // Not every name of an object can be the start of an event's name.
    if dns1123_subdomain(&name).is_empty() { name } else { object::name::random_uid().to_string() }
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
