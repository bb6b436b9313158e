//! `EventRateLimit`: events come at most at a rate, of all, of a namespace, of a user, or of a source and an
//! object.

use super::{Builtin, Parts};
use crate::{Attributes, Immediate, Operation};
use object::field::{Aggregate, Error, List, Path};
use object::{Map, Value};
use schema::Status;
use schema::config_file;
use schema::view::View as _;
use schema::views::core::v1::Event;
use schema::views::eventratelimit::v1alpha1::{Configuration, Limit};
use std::collections::HashMap;
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const VERSIONS: [&str; 1] = ["eventratelimit.admission.k8s.io/v1alpha1"];
const TYPES: [&str; 4] = ["Namespace", "Server", "SourceAndObject", "User"];
/// How many buckets a limit has if its configuration does not say.
const BUCKETS: usize = 4096;

/// The plugin.
pub struct EventRateLimit {
    limits: Vec<Enforcer>,
}

/// One limit.
struct Enforcer {
    ty: String,
    /// Events a second.
    rate: f64,
    /// The most events at once.
    burst: f64,
    /// The most buckets of a generation.
    most: usize,
    buckets: Mutex<Buckets>,
}

/// Buckets by key: those that were used lately, and those of the time before.
#[derive(Default)]
struct Buckets {
    young: HashMap<String, Bucket>,
    old: HashMap<String, Bucket>,
}

/// How many events are left, and since when.
#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Enforcer {
    fn new(limit: Limit<'_>) -> Self {
        let most = usize::try_from(limit.cache_size()).ok().filter(|most| *most > 0).unwrap_or(BUCKETS);
        Self {
            ty: limit.r#type().to_owned(),
            rate: limit.qps() as f64,
            burst: limit.burst() as f64,
            most,
            buckets: Mutex::default(),
        }
    }

    /// The key of the bucket that an event is counted in.
    fn key(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> String {
        match self.ty.as_str() {
            "Namespace" => attributes.namespace.to_owned(),
            "User" => attributes.user.name.clone(),
            "SourceAndObject" => object.and_then(Value::as_map).map(source_and_object).unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// Takes an event from the bucket of a key; an error if there is none left.
    fn accept(&self, key: String, now: Instant) -> Result<(), String> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let Buckets { young, old } = &mut *buckets;
        let known = young.get(&key).copied().or_else(|| old.remove(&key));
        let mut bucket = known.unwrap_or(Bucket { left: self.burst, at: now });
        let passed = now.saturating_duration_since(bucket.at).as_secs_f64();
        bucket = Bucket { left: (bucket.left + passed * self.rate).min(self.burst), at: now };
        let outcome = if bucket.left < 1.0 {
            Err(format!("limit reached on type {} for key {key}", self.ty))
        } else {
            bucket.left -= 1.0;
            Ok(())
        };
        if young.len() >= self.most && !young.contains_key(&key) {
            *old = mem::take(young);
        }
        young.insert(key, bucket);
        outcome
    }
}

fn source_and_object(event: &Map) -> String {
    let event = Event::of(event);
    let (source, object) = (event.source(), event.involved_object());
    [
        source.component(),
        source.host(),
        object.kind(),
        object.namespace(),
        object.name(),
        object.uid(),
        object.api_version(),
    ]
    .concat()
}

fn validate(configuration: Configuration<'_>) -> List {
    let path = Path::new("limits");
    let mut errors = List::new();
    if configuration.limits().is_empty() {
        errors.push(Error::invalid(&path, "", "must not be empty"));
    }
    for (at, limit) in configuration.limits().iter().enumerate() {
        let path = path.index(at);
        if !TYPES.contains(&limit.r#type()) {
            errors.push(Error::not_supported(&path.child("type"), limit.r#type(), TYPES));
        }
        for (name, value) in [("burst", limit.burst()), ("qps", limit.qps())] {
            if value <= 0 {
                errors.push(Error::invalid(&path.child(name), value, "must be positive"));
            }
        }
        if limit.r#type() != "Server" && limit.cache_size() < 0 {
            let size = limit.cache_size();
            errors.push(Error::invalid(&path.child("cacheSize"), size, "must not be negative"));
        }
    }
    errors
}

impl Builtin for EventRateLimit {
    const NAME: &'static str = "EventRateLimit";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let decoded = match parts.configuration {
            Some(text) => config_file::decode(text, "Configuration", &VERSIONS, Configuration::schema())?,
            None => Map::new().into(),
        };
        let empty = Map::new();
        let configuration = Configuration::of(decoded.as_map().unwrap_or(&empty));
        match Aggregate::new(validate(configuration)) {
            Some(errors) => Err(errors.to_string()),
            None => Ok(Self { limits: configuration.limits().iter().map(Enforcer::new).collect() }),
        }
    }
}

impl Immediate for EventRateLimit {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
        // As in the reference, only events of the core group.
        if attributes.dry_run || !attributes.is_about("", "events") {
            return Ok(());
        }
        let now = Instant::now();
        // Each limit counts the event, also if another refuses it.
        let refusals = self.limits.iter().map(|limit| limit.accept(limit.key(attributes, object), now));
        let refusals: Vec<String> = refusals.filter_map(Result::err).collect();
        match refusals.as_slice() {
            [] => Ok(()),
            [one] => Err(Status::too_many_requests(one.as_str())),
            several => Err(Status::too_many_requests(format!("[{}]", several.join(", ")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fixture, Write};
    use std::time::Duration;

    fn configuration(limits: &str) -> String {
        format!("apiVersion: {}\nkind: Configuration\nlimits:\n{limits}", VERSIONS[0])
    }

    #[tokio::test]
    async fn events_past_a_limit_are_refused() {
        let fixture = Fixture::new().await;
        let text =
            configuration("- {type: Namespace, qps: 1, burst: 2}\n- {type: Server, qps: 1, burst: 3}\n");
        let plugin: EventRateLimit = fixture.make(Some(&text)).unwrap();
        let event = |namespace: &str| format!(r#"{{"metadata":{{"name":"e","namespace":"{namespace}"}}}}"#);
        let send = async |namespace: &str| {
            let event = event(namespace);
            let refused = Write::create("events", &event).validate(&plugin).await.err()?;
            Some((refused.code, refused.message))
        };
        assert_eq!((send("a").await, send("a").await), (None, None));
        assert_eq!(send("a").await, Some((429, "limit reached on type Namespace for key a".into())));
        assert_eq!(send("b").await, Some((429, "limit reached on type Server for key ".into())));
        let dry_run = Write { dry_run: true, ..Write::create("events", &event("b")) }.validate(&plugin).await;
        assert!(dry_run.is_ok());
        assert!(Write::create("pods", &event("a")).validate(&plugin).await.is_ok());
    }

    #[test]
    fn buckets_fill_up_again_and_are_bounded() {
        let limit =
            |rate, most| Enforcer { ty: "User".into(), rate, burst: 2.0, most, buckets: Mutex::default() };
        let now = Instant::now();
        let slow = limit(1.0, 10);
        let taken = (0..3).map(|_| slow.accept("k".into(), now).is_ok()).collect::<Vec<_>>();
        assert_eq!(taken, [true, true, false]);
        assert!(slow.accept("k".into(), now + Duration::from_millis(900)).is_err());
        assert!(slow.accept("k".into(), now + Duration::from_millis(1100)).is_ok());
        let small = limit(1.0, 10);
        for key in 0..1000 {
            small.accept(key.to_string(), now).unwrap();
        }
        let buckets = small.buckets.lock().unwrap();
        assert!(buckets.young.len() + buckets.old.len() <= 20);
    }

    #[tokio::test]
    async fn wrong_configurations_are_refused() {
        let fixture = Fixture::new().await;
        let refusal = |text: Option<&str>| fixture.make::<EventRateLimit>(text).err().unwrap();
        assert!(refusal(None).contains("limits: Invalid value"), "{}", refusal(None));
        let wrong = configuration(
            "- {type: Foo, qps: 0, burst: -1}\n- {type: User, qps: 1, burst: 1, cacheSize: -1}\n",
        );
        let refused = refusal(Some(&wrong));
        for part in
            ["limits[0].type: Unsupported value", "limits[0].burst", "limits[0].qps", "limits[1].cacheSize"]
        {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(refusal(Some("kind: Foo")).contains("apiVersion"), "{}", refusal(Some("kind: Foo")));
    }
}
