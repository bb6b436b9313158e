//! Follows the objects of one kind of another server: a list in chunks, and watches from there on.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use auth::User;
use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use object::{Text, Value};
use registry::{Address, Client};
use tokio::time::{Instant, sleep, timeout_at};

use super::{RemoteObject, Shared};
use crate::content::{decode, text};
use crate::{Aggregation, RemoteResource};

/// How long a chunk of a list, or the beginning of a watch, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many objects are asked for at once.
const CHUNK: usize = 500;
/// The pause after the first failure, and the longest one, as those of client-go.
const PAUSES: [Duration; 2] = [Duration::from_millis(800), Duration::from_secs(30)];
/// The shortest time of a watch; the longest is twice that.
const WATCH: u64 = 300;
/// How much longer than its time a watch may last.
const OVERTIME: Duration = Duration::from_secs(30);
/// The most chunks of a list.
const MOST_CHUNKS: usize = 10_000;
/// The longest event.
const LONGEST: usize = 16 << 20;

/// Follows one kind.
pub(super) struct Follower {
    aggregation: Arc<Aggregation>,
    client: Client,
    shared: Arc<Shared>,
    prefix: Arc<str>,
    of: RemoteResource,
}

/// How a watch ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The next one goes on after this resourceVersion.
    At(String),
    /// The objects have to be listed again.
    Lost,
}

impl Follower {
    pub(super) fn new(
        aggregation: &Arc<Aggregation>,
        client: &Client,
        shared: &Arc<Shared>,
        prefix: Arc<str>,
        of: &RemoteResource,
    ) -> Self {
        let (aggregation, client, shared) = (aggregation.clone(), client.clone(), shared.clone());
        Self { aggregation, client, shared, prefix, of: of.clone() }
    }

    /// Follows it until this is dropped.
    pub(super) async fn run(self) {
        let [first, longest] = PAUSES;
        let mut pause = first;
        let mut since = None;
        loop {
            let began = Instant::now();
            match self.step(since.take()).await {
                Ok(End::At(version)) => since = Some(version),
                Ok(End::Lost) => {}
                Err((version, why)) => {
                    since = version;
                    log::debug!(kind:% = self.prefix, why = why.as_str(); "the objects of another API server cannot be followed");
                }
            }
            // What went on for a while has recovered.
            pause = if began.elapsed() > longest { first } else { (pause * 2).min(longest) };
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
        }
    }

    /// Watches after a resourceVersion, or after a list. An error has the version from which to go on.
    async fn step(&self, since: Option<String>) -> Result<End, (Option<String>, String)> {
        let version = match since {
            Some(version) => version,
            None => self.list().await.map_err(|why| (None, why))?,
        };
        self.watch(version.clone()).await.map_err(|why| (Some(version), why))
    }

    async fn user(&self, verb: &'static str) -> Result<Arc<User>, String> {
        let RemoteResource { group, version, resource, .. } = &self.of;
        let address = Address { version, ..Address::v1(group, resource, "") };
        self.client.user_for(address, verb).await.map_err(|status| status.message)
    }

    /// Takes all objects; the resourceVersion of the list.
    async fn list(&self) -> Result<String, String> {
        let user = self.user("list").await?;
        let mut listed: HashSet<Text> = HashSet::new();
        let mut query = format!("limit={CHUNK}");
        for _ in 0..MOST_CHUNKS {
            let chunk = self.aggregation.chunk(&user, &self.of, &query, PATIENCE).await?;
            for object in chunk.get("items").and_then(Value::as_list).unwrap_or_default() {
                if let Some(object) = RemoteObject::read(object) {
                    listed.insert(object.key.clone());
                    self.shared.set(&self.prefix, "", Some(object));
                }
            }
            let metadata = chunk.get("metadata").cloned().unwrap_or_default();
            match text(&metadata, "continue") {
                "" => {
                    self.shared.synced(&self.prefix, &listed);
                    return Ok(text(&metadata, "resourceVersion").to_owned());
                }
                token => query = format!("limit={CHUNK}&continue={}", escaped(token)),
            }
        }
        Err(format!("the list has more than {MOST_CHUNKS} chunks"))
    }

    /// Takes the changes after a resourceVersion.
    async fn watch(&self, mut version: String) -> Result<End, String> {
        let user = self.user("watch").await?;
        let seconds = WATCH + fastrand::u64(0..WATCH);
        let query = format!(
            "allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={seconds}&watch=true",
            escaped(&version)
        );
        let mut body = self.aggregation.watch(&user, &self.of, &query, PATIENCE).await?;
        let until = Instant::now() + Duration::from_secs(seconds) + OVERTIME;
        let mut buffer = BytesMut::new();
        while let Some(line) = line(&mut body, &mut buffer, until).await {
            let event = decode(&line)?;
            let object = event.get("object").cloned().unwrap_or_default();
            match text(&event, "type") {
                "ADDED" | "MODIFIED" => {
                    if let Some(object) = RemoteObject::read(&object) {
                        self.shared.set(&self.prefix, "", Some(object));
                    }
                }
                "DELETED" => {
                    if let Some(object) = RemoteObject::read(&object) {
                        self.shared.set(&self.prefix, &object.key, None);
                    }
                }
                "BOOKMARK" => {}
                // The version is too old, mostly.
                _ => return Ok(End::Lost),
            }
            let seen = object.get("metadata").map(|metadata| text(metadata, "resourceVersion"));
            if let Some(seen) = seen.filter(|seen| !seen.is_empty()) {
                version = seen.to_owned();
            }
        }
        Ok(End::At(version))
    }
}

/// The next line of a body; `None` at its end, when its time is over, and if it is too long.
async fn line(body: &mut Incoming, buffer: &mut BytesMut, until: Instant) -> Option<BytesMut> {
    let mut looked_at = 0;
    loop {
        let rest = buffer.get(looked_at..).unwrap_or_default();
        if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            return Some(buffer.split_to(looked_at + at + 1));
        }
        looked_at = buffer.len();
        if looked_at > LONGEST {
            return None;
        }
        let frame = timeout_at(until, body.frame()).await.ok()??.ok()?;
        if let Ok(data) = frame.into_data() {
            buffer.extend_from_slice(&data);
        }
    }
}

/// A value of a query.
fn escaped(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}
