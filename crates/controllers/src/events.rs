//! Events: what controllers tell people about objects.
//!
//! An event that says the same of the same object again is counted at the first one, as in the reference. Events are a courtesy: one
//! that cannot be written is logged, and nothing waits for it.

use cache::Entry;
use object::Map;
use object::time::Time;
use registry::{Address, Client, Patch};
use schema::{Status, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// So many different events are remembered; then the memory starts anew.
const REMEMBERED: usize = 4096;

/// Tells people what a controller did.
#[derive(Clone)]
pub struct Recorder {
    client: Client,
    component: &'static str,
    seen: Arc<Mutex<HashMap<Said, Seen>>>,
}

/// How an event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Things go their way.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The version of the API.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The namespace; empty for what lives in none.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
}

impl Subject {
    /// An object of the cache, which is of a kind.
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

    /// Where events about it are: what lives in no namespace has them in `default`.
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

/// What makes two events the same.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Said {
    subject: Subject,
    event_type: EventType,
    reason: String,
    message: String,
}

/// The event that said it first.
#[derive(Clone)]
struct Seen {
    name: String,
    count: i64,
}

impl Recorder {
    pub(crate) fn new(client: Client, component: &'static str) -> Self {
        Self { client, component, seen: Arc::default() }
    }

    /// Says something about an object.
    pub async fn record(&self, subject: &Subject, event_type: EventType, reason: &str, message: &str) {
        let said = Said {
            // A later state of the object is the same object.
            subject: Subject { resource_version: String::new(), ..subject.clone() },
            event_type,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let seen = self.seen().get(&said).cloned();
        let outcome = match seen {
            Some(seen) => match self.count(subject, &seen).await {
                Err(gone) if gone.code == 404 => self.create(subject, &said).await,
                counted => counted,
            },
            None => self.create(subject, &said).await,
        };
        match outcome {
            Ok(now) => {
                let mut seen = self.seen();
                if seen.len() >= REMEMBERED {
                    seen.clear();
                }
                seen.insert(said, now);
            }
            Err(error) => {
                log::debug!(component = self.component, reason, error:% = error.message; "an event could not be written");
            }
        }
    }

    async fn create(&self, subject: &Subject, said: &Said) -> Result<Seen, Status> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}.{:x}", subject.name, since.as_nanos());
        let now = Time::now().text();
        let mut event = Map::new();
        let metadata: Map = [("name", name.as_str())].into_iter().collect();
        event.insert("metadata", metadata);
        event.insert("involvedObject", subject.reference());
        event.insert("reason", said.reason.as_str());
        event.insert("message", said.message.as_str());
        let source: Map = [("component", self.component)].into_iter().collect();
        event.insert("source", source);
        event.insert("firstTimestamp", now.clone());
        event.insert("lastTimestamp", now);
        event.insert("count", 1);
        event.insert("type", said.event_type.as_str());
        event.insert("reportingComponent", self.component);
        self.client.create(subject.events(), event.into()).await?;
        Ok(Seen { name, count: 1 })
    }

    /// It was said once more.
    async fn count(&self, subject: &Subject, seen: &Seen) -> Result<Seen, Status> {
        let count = seen.count + 1;
        let patch = format!(
            r#"{{"count":{count},"lastTimestamp":{}}}"#,
            json::string(&Time::now().text().to_string())
        );
        self.client.patch(subject.events().named(&seen.name), Patch::Strategic, patch.as_bytes()).await?;
        Ok(Seen { name: seen.name.clone(), count })
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, HashMap<Said, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
