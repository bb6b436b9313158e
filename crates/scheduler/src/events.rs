//! The events of the scheduler, in the form of `events.k8s.io`.
//!
//! An event that says the same of the same pod again is the next of a series: the second one is written,
//! later ones are counted and written when the series has ended. Events are a courtesy: past a bound they
//! are dropped, and no work waits for them.

use cache::Entry;
use clock::{Instant, sleep_until};
use object::Map;
use object::name::dns1123_subdomain;
use object::time::MicroTime;
use registry::{Address, Client, Patch};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::mpsc;

/// The name of the scheduler in events.
pub(crate) const CONTROLLER: &str = "default-scheduler";
/// The most events that wait to be written.
const MOST_WAITING: usize = 1_000;
/// A series has ended when it did not go on for this time.
const SERIES_END: Duration = Duration::from_secs(6 * 60);

/// An event about a pod.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) pod: Arc<Entry>,
    /// The pod on whose behalf something happened.
    pub(crate) related: Option<Arc<Entry>>,
    pub(crate) kind: EventKind,
    pub(crate) note: String,
}

/// What an event says has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum EventKind {
    /// The pod was bound to a node.
    Scheduled,
    /// No node was found for the pod.
    FailedScheduling,
    /// The pod makes way for another one.
    Preempted,
}

impl EventKind {
    fn reason(self) -> &'static str {
        match self {
            Self::Scheduled => "Scheduled",
            Self::FailedScheduling => "FailedScheduling",
            Self::Preempted => "Preempted",
        }
    }

    fn action(self) -> &'static str {
        match self {
            Self::Scheduled => "Binding",
            Self::FailedScheduling => "Scheduling",
            Self::Preempted => "Preempting",
        }
    }

    fn event_type(self) -> &'static str {
        if self == Self::FailedScheduling { "Warning" } else { "Normal" }
    }
}

/// Takes events, to be written by [`Events::run`].
#[derive(Clone, Debug)]
pub(crate) struct Recorder(mpsc::Sender<Event>);

impl Recorder {
    /// Records an event, unless too many wait already.
    pub(crate) fn record(&self, event: Event) {
        if self.0.try_send(event).is_err() {
            log::debug!("an event of the scheduler was dropped");
        }
    }
}

/// What an event is the same as another one by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    kind: EventKind,
    pod: (String, u64),
    related: String,
}

struct Series {
    namespace: String,
    name: String,
    count: i64,
    last: (Instant, MicroTime),
}

/// Writes events.
pub(crate) struct Events {
    client: Client,
    instance: String,
    waiting: mpsc::Receiver<Event>,
    series: HashMap<Key, Series>,
}

impl Events {
    /// What writes the events of a recorder.
    pub(crate) fn new(client: Client, host: &str) -> (Recorder, Self) {
        let (sender, waiting) = mpsc::channel(MOST_WAITING);
        let instance = format!("{CONTROLLER}-{host}");
        (Recorder(sender), Self { client, instance, waiting, series: HashMap::new() })
    }

    /// Writes events for as long as there is a recorder.
    pub(crate) async fn run(mut self) {
        let mut next = None;
        loop {
            let ended = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.waiting.recv() => match event {
                    Some(event) => self.write(event).await,
                    None => return,
                },
                () = ended => {
                    self.end_series().await;
                    next = None;
                }
            }
            if next.is_none() && !self.series.is_empty() {
                next = Some(Instant::now() + SERIES_END);
            }
        }
    }

    async fn write(&mut self, event: Event) {
        let related = event.related.as_ref().map(|related| related.uid().to_owned()).unwrap_or_default();
        let pod = (event.pod.uid().to_owned(), event.pod.mod_revision().0);
        let key = Key { kind: event.kind, pod, related };
        let last = (Instant::now(), MicroTime::now());
        if let Some(series) = self.series.get_mut(&key) {
            series.count += 1;
            series.last = last;
            if series.count == 2 {
                write_series(&self.client, series).await;
            }
            return;
        }
        let name = event_name(event.pod.name());
        let namespace = event.pod.namespace().to_owned();
        let object = self.object(&event, &name, last.1);
        let address = Address::v1("events.k8s.io", "events", &namespace);
        if let Err(error) = self.client.create(address, object.into()).await {
            log::debug!(reason = event.kind.reason(), error:% = error.message; "an event could not be written");
        }
        self.series.insert(key, Series { namespace, name, count: 1, last });
    }

    fn object(&self, event: &Event, name: &str, now: MicroTime) -> Map {
        let metadata = Map::from_iter([("name", name), ("namespace", event.pod.namespace())]);
        let mut object = Map::new();
        object.insert("metadata", metadata);
        object.insert("eventTime", now.to_string());
        object.insert("reportingController", CONTROLLER);
        object.insert("reportingInstance", self.instance.as_str());
        object.insert("action", event.kind.action());
        object.insert("reason", event.kind.reason());
        object.insert("regarding", reference(&event.pod));
        if let Some(related) = &event.related {
            object.insert("related", reference(related));
        }
        object.insert("note", event.note.as_str());
        object.insert("type", event.kind.event_type());
        object
    }

    /// Writes the counts of series that have ended, and forgets events that are no longer repeated.
    async fn end_series(&mut self) {
        let now = Instant::now();
        let (ended, kept): (HashMap<_, _>, HashMap<_, _>) = std::mem::take(&mut self.series)
            .into_iter()
            .partition(|(_, series)| now - series.last.0 >= SERIES_END);
        self.series = kept;
        for series in ended.values().filter(|series| series.count > 2) {
            write_series(&self.client, series).await;
        }
    }
}

async fn write_series(client: &Client, series: &Series) {
    let patch =
        format!(r#"{{"series":{{"count":{},"lastObservedTime":"{}"}}}}"#, series.count, series.last.1);
    let address = Address::v1("events.k8s.io", "events", &series.namespace).named(&series.name);
    if let Err(error) = client.patch(address, Patch::Strategic, patch.as_bytes()).await {
        log::debug!(error:% = error.message; "a series of events could not be written");
    }
}

fn reference(pod: &Entry) -> Map {
    let revision = pod.mod_revision().0.to_string();
    Map::from_iter([
        ("kind", "Pod"),
        ("namespace", pod.namespace()),
        ("name", pod.name()),
        ("uid", pod.uid()),
        ("apiVersion", "v1"),
        ("resourceVersion", revision.as_str()),
    ])
}

/// The name of a new event about a pod.
fn event_name(pod: &str) -> String {
    let since = clock::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{pod}.{:x}", since.as_nanos());
    if dns1123_subdomain(&name).is_empty() { name } else { object::name::random_uid().to_string() }
}
