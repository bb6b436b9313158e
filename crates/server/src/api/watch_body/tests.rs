use super::*;
use crate::api::testing::{Fixture, NEGOTIATOR, PARTIAL, PARTIAL_LIST, TABLE, body, text};
use cache::watch::{Start, WatchOptions};
use cache::{Change, Freshness};
use faults::{WatchEnd, WatchEndsAfter};
use http::HeaderMap;
use http_body_util::BodyExt;

struct Setup {
    fixture: Fixture,
    lifecycle: Lifecycle,
}

impl Setup {
    async fn new() -> Self {
        Self { fixture: Fixture::new().await, lifecycle: Lifecycle::new() }
    }

    async fn watch(&self, accept: &str, start: Start, timeout: Duration) -> Response {
        self.watch_with(accept, start, timeout, None).await
    }

    /// A watch of the state of now that meets faults.
    async fn faulty(&self, faults: WatchFaults) -> Response {
        self.watch_with("application/json", STATE, LONG, Some(faults)).await
    }

    async fn watch_with(
        &self,
        accept: &str,
        start: Start,
        timeout: Duration,
        faults: Option<WatchFaults>,
    ) -> Response {
        let mut encoder = self.fixture.encoder("", "configmaps", accept);
        let (accept, media_type) = encoder.accept.stream(NEGOTIATOR).unwrap();
        encoder.accept = accept;
        let resource = self.fixture.cache.resource("configmaps").unwrap();
        let request = match start {
            Start::StreamingList(_) => WatchOptions::new(start).with_bookmarks(),
            _ => WatchOptions::new(start),
        };
        let watcher = resource.watch(request).await.unwrap();
        let end_conditions = EndConditions {
            timeout,
            bookmarks: false,
            lifecycle: self.lifecycle.clone(),
            seats: None,
            reserved: None,
            asked: asked(),
            faults,
        };
        respond(encoder, media_type, Watch::Running(watcher), end_conditions, &HeaderMap::new())
    }

    /// The whole body of a short watch.
    async fn short(&self, accept: &str, start: Start) -> Bytes {
        body(self.watch(accept, start, Duration::from_millis(50)).await).await
    }
}

const STATE: Start = Start::State(Freshness::MostRecent);
const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn json_events_are_lines() {
    let setup = Setup::new().await;
    let entry = setup.fixture.config_map("a", "1").await;
    let mut response = setup.watch("application/json;stream=watch", STATE, LONG).await;
    assert_eq!(response.headers()["content-type"], "application/json");
    let added = format!("{{\"type\":\"ADDED\",\"object\":{}}}\n", text(entry.bytes()));
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(text(&frame), added);
    let entry = setup.fixture.config_map("a", "2").await;
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(text(&frame), format!("{{\"type\":\"MODIFIED\",\"object\":{}}}\n", text(entry.bytes())));
    let resource = setup.fixture.cache.resource("configmaps").unwrap();
    setup.fixture.cache.commit(Change::delete(&resource, "n", "a")).await.unwrap();
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(text(&frame).starts_with(r#"{"type":"DELETED","object":{"kind":"ConfigMap""#));
    assert!(text(&frame).contains(r#""resourceVersion":"3""#), "{}", text(&frame));
}

#[tokio::test]
async fn watches_with_equal_requests_share_encoded_events() {
    let setup = Setup::new().await;
    let accepts = ["application/json", "application/vnd.kubernetes.protobuf", "application/cbor"];
    let accepts = accepts.iter().flat_map(|accept| [(*accept).to_owned(), format!("{accept}{PARTIAL}")]);
    let mut watches = Vec::new();
    for accept in accepts.chain([format!("application/json{TABLE}")]) {
        let mut pair = Vec::new();
        for _ in 0..2 {
            pair.push(setup.watch(&accept, Start::After(store::Revision(0)), LONG).await.into_body());
        }
        watches.push((accept, pair));
    }
    let mut all = Vec::new();
    for round in ["1", "2"] {
        setup.fixture.config_map("a", round).await;
        for (accept, pair) in &mut watches {
            let mut frames = Vec::new();
            for body in pair {
                frames.push(body.frame().await.unwrap().unwrap().into_data().unwrap());
            }
            assert_eq!(frames[0], frames[1], "{accept}");
            let shared = frames[0].as_ptr() == frames[1].as_ptr();
            assert_eq!(shared, !accept.contains("as=Table"), "{accept}");
            all.push(frames.swap_remove(0));
        }
    }
    let distinct: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "media types do not share bytes");
}

#[tokio::test]
async fn chunks_of_one_watch_alone_are_charged_until_they_are_sent() {
    let setup = Setup::new().await;
    for name in ["a", "b", "c"] {
        setup.fixture.config_map(name, &"x".repeat(50_000)).await;
    }
    let mut response = setup.watch("application/json;stream=watch", STATE, LONG).await;
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.len() >= CHUNK, "{}", frame.len());
    let unsent = || crate::families::UNSENT.with([]).value();
    assert_eq!(unsent(), frame.len() as f64);
    drop(frame);
    assert_eq!(unsent(), 0.0);
    let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.len() < CHUNK, "{}", frame.len());
    assert_eq!(unsent(), 0.0, "small ones are not counted");
}

#[tokio::test]
async fn protobuf_events_are_length_delimited() {
    let setup = Setup::new().await;
    let entry = setup.fixture.config_map("a", "1").await;
    for (accept, transform) in [("", ""), ("", PARTIAL)] {
        let accept = format!("application/vnd.kubernetes.protobuf{accept}{transform}");
        let object = setup.fixture.encoder("", "configmaps", &accept).object(&entry.clone().into()).unwrap();
        let bytes = setup.short(&accept, STATE).await;
        let (length, message) = bytes.split_at(4);
        assert_eq!(u32::from_be_bytes(length.try_into().unwrap()) as usize, message.len());
        let mut wanted = b"\x0a\x05ADDED".to_vec();
        let mut raw = Vec::new();
        crate::api::represent::wire::bytes_field(1, &object, &mut raw);
        crate::api::represent::wire::bytes_field(2, &raw, &mut wanted);
        assert_eq!(message, wanted);
    }
}

#[tokio::test]
async fn cbor_events_are_a_sequence() {
    let setup = Setup::new().await;
    setup.fixture.config_map("a", "1").await;
    setup.fixture.config_map("b", "1").await;
    for transform in ["", PARTIAL] {
        let bytes = setup.short(&format!("application/cbor{transform}"), STATE).await;
        let items: Result<Vec<_>, _> =
            schema::cbor::Sequence::new(&bytes, schema::Limits::default()).collect();
        assert_eq!(items.unwrap().len(), 2, "{transform}");
        assert!(bytes.starts_with(b"\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object\xd9\xd9\xf7"));
    }
}

#[tokio::test]
async fn only_the_first_table_event_has_column_definitions() {
    let setup = Setup::new().await;
    setup.fixture.config_map("a", "1").await;
    setup.fixture.config_map("b", "1").await;
    let bytes = setup.short(&format!("application/json{TABLE}"), STATE).await;
    let lines: Vec<_> = text(&bytes).lines().collect();
    assert_eq!(lines.len(), 2);
    let start = |revision| {
        format!(
            r#"{{"type":"ADDED","object":{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"{revision}"}},"columnDefinitions":"#
        )
    };
    assert!(lines[0].starts_with(&(start(1) + r#"[{"name":"Name""#)), "{}", lines[0]);
    assert!(lines[1].starts_with(&(start(2) + r#"null,"rows":[{"cells":["b",1,""#)), "{}", lines[1]);
}

#[tokio::test]
async fn watch_as_partial_metadata_works_and_as_partial_metadata_list_ends() {
    let setup = Setup::new().await;
    setup.fixture.config_map("a", "1").await;
    let bytes = setup.short(&format!("application/json{PARTIAL}"), STATE).await;
    let start = r#"{"type":"ADDED","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a""#;
    assert!(text(&bytes).starts_with(start) && text(&bytes).ends_with("}}}\n"), "{}", text(&bytes));
    let bytes = body(setup.watch(&format!("application/json{PARTIAL_LIST}"), STATE, LONG).await).await;
    assert_eq!(bytes, "", "it ends at the first event");
}

#[tokio::test]
async fn bookmark_is_an_object_of_the_kind() {
    let setup = Setup::new().await;
    setup.fixture.put("configmaps", "x", r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"x","namespace":"n","creationTimestamp":null}}"#.into()).await;
    let start = Start::StreamingList(Freshness::MostRecent);
    let bookmark = |bytes: Bytes| text(&bytes).lines().last().unwrap().to_owned();
    assert_eq!(
        bookmark(setup.short("application/json", start).await),
        r#"{"type":"BOOKMARK","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"1","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true","kubernetes.io/initial-events-list-blueprint":"eyJraW5kIjoiQ29uZmlnTWFwTGlzdCIsImFwaVZlcnNpb24iOiJ2MSIsIm1ldGFkYXRhIjp7fSwiaXRlbXMiOm51bGx9Cg=="}}}}"#
    );
    assert_eq!(
        bookmark(setup.short(&format!("application/json{PARTIAL}"), start).await),
        r#"{"type":"BOOKMARK","object":{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1","creationTimestamp":null,"annotations":{"k8s.io/initial-events-end":"true","kubernetes.io/initial-events-list-blueprint":"eyJraW5kIjoiUGFydGlhbE9iamVjdE1ldGFkYXRhTGlzdCIsImFwaVZlcnNpb24iOiJtZXRhLms4cy5pby92MSIsIm1ldGFkYXRhIjp7fSwiaXRlbXMiOm51bGx9Cg=="}}}}"#
    );
    let protobuf = setup.short("application/vnd.kubernetes.protobuf", start).await;
    let at = |needle: &[u8]| memchr::memmem::find(&protobuf, needle);
    assert!(at(b"\x0a\x08BOOKMARK\x12").is_some() && at(b"initial-events-list-blueprint").is_some());
}

#[tokio::test]
async fn watch_ends_at_its_timeout_and_when_the_server_drains() {
    let setup = Setup::new().await;
    assert_eq!(setup.short("application/json", STATE).await, "");
    let response = setup.watch("application/json", STATE, LONG).await;
    let end = tokio::spawn(body(response));
    setup.lifecycle.advance(crate::Phase::Draining);
    assert_eq!(tokio::time::timeout(Duration::from_secs(5), end).await.unwrap().unwrap(), "");
}

#[tokio::test]
async fn error_is_the_last_event() {
    let setup = Setup::new().await;
    let status = Status::expired("too old resource version: 1 (20)");
    let end_conditions = || EndConditions {
        timeout: LONG,
        bookmarks: false,
        lifecycle: setup.lifecycle.clone(),
        seats: None,
        reserved: None,
        asked: asked(),
        faults: None,
    };
    let encoder = setup.fixture.encoder("", "configmaps", "application/json");
    let bytes = body(respond(
        encoder,
        "application/json",
        Watch::Ended(status.clone()),
        end_conditions(),
        &HeaderMap::new(),
    ))
    .await;
    assert_eq!(
        text(&bytes),
        "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\
         \"message\":\"too old resource version: 1 (20)\",\"reason\":\"Expired\",\"code\":410}}\n"
    );
    let encoder = setup.fixture.encoder("", "configmaps", "application/vnd.kubernetes.protobuf");
    let bytes =
        body(respond(encoder, "application/json", Watch::Ended(status), end_conditions(), &HeaderMap::new()))
            .await;
    assert!(memchr::memmem::find(&bytes, b"\x0a\x05ERROR\x12").is_some());
    assert!(memchr::memmem::find(&bytes, b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status").is_some());
}

#[tokio::test]
async fn large_initial_state_is_sent_in_chunks() {
    let setup = Setup::new().await;
    let value = "x".repeat(3_000);
    for at in 0..100 {
        setup.fixture.config_map(&format!("c{at:03}"), &value).await;
    }
    let mut response = setup.watch("application/json", STATE, LONG).await;
    let (mut lines, mut largest) = (0, 0);
    while lines < 100 {
        let frame = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
        largest = largest.max(frame.len());
        lines += text(&frame).lines().count();
        assert!(frame.ends_with(b"\n"), "an event is never parted");
    }
    assert!((CHUNK..CHUNK + 8_000).contains(&largest), "{largest}");
}

#[tokio::test(start_paused = true)]
async fn large_batches_are_encoded_beside_the_event_loop_unless_they_are_cached() {
    let setup = Setup::new().await;
    for at in 0..100 {
        setup.fixture.config_map(&format!("c{at:03}"), &"x".repeat(2_000)).await;
    }
    let first = async |accept: &str| {
        let mut encoder = setup.fixture.encoder("", "configmaps", accept);
        let (accept, media_type) = encoder.accept.stream(NEGOTIATOR).unwrap();
        encoder.accept = accept;
        let _permits = encoder.large.all_permits().await;
        let resource = setup.fixture.cache.resource("configmaps").unwrap();
        let watcher = resource.watch(WatchOptions::new(STATE)).await.unwrap();
        let end_conditions = EndConditions {
            timeout: LONG * 10,
            bookmarks: false,
            lifecycle: setup.lifecycle.clone(),
            seats: None,
            reserved: None,
            asked: asked(),
            faults: None,
        };
        let mut response =
            respond(encoder, media_type, Watch::Running(watcher), end_conditions, &HeaderMap::new());
        let frame = tokio::time::timeout(LONG, response.body_mut().frame()).await;
        frame.ok().map(|frame| frame.unwrap().unwrap().into_data().unwrap().len())
    };
    assert!(first("application/json;stream=watch").await.is_some(), "as it is stored");
    let protobuf = "application/vnd.kubernetes.protobuf;stream=watch";
    for accept in [protobuf, &format!("application/json{TABLE}")] {
        assert_eq!(first(accept).await, None, "{accept}");
        setup.short(accept, STATE).await;
        assert!(first(accept).await.is_some_and(|bytes| bytes > 0), "{accept}");
    }
}

/// When a request arrived, and its scope.
fn asked() -> (Instant, &'static str) {
    (Instant::now(), "cluster")
}

/// The next event of a watch; none at its end.
async fn event(response: &mut Response) -> Option<Result<String, String>> {
    let frame = response.body_mut().frame().await?;
    Some(match frame {
        Ok(frame) => Ok(text(&frame.into_data().unwrap()).to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

#[tokio::test(start_paused = true)]
async fn watch_ends_after_some_events_or_a_time_as_its_fault_says() {
    let setup = Setup::new().await;
    for name in ["a", "b", "c"] {
        setup.fixture.config_map(name, "1").await;
    }
    let end = |after, with| WatchFaults { end: Some((after, with)), ..WatchFaults::default() };
    for (with, last) in [
        (WatchEnd::Silence, None),
        (WatchEnd::Expired, Some(Ok("ERROR"))),
        (WatchEnd::Cut, Some(Err("the watch was cut on demand"))),
    ] {
        let mut response = setup.faulty(end(WatchEndsAfter::Events(2), with)).await;
        for name in ["a", "b"] {
            let event = event(&mut response).await.unwrap().unwrap();
            assert!(event.contains(&format!(r#""name":"{name}""#)) && event.ends_with("}\n"), "{event}");
        }
        let found = event(&mut response).await;
        match (&found, last) {
            (None, None) => {}
            (Some(Ok(event)), Some(Ok(kind))) => {
                assert!(
                    event.starts_with(&format!(r#"{{"type":"{kind}","object":{{"kind":"Status""#)),
                    "{event}"
                );
                assert!(event.contains(r#""reason":"Expired","code":410"#), "{event}");
                assert_eq!(super::tests::event(&mut response).await, None);
            }
            (Some(Err(why)), Some(Err(expected))) => assert_eq!(why, expected),
            other => panic!("{with:?}: {other:?}"),
        }
    }
    let begin = Instant::now();
    let time = Duration::from_secs(5);
    let mut response = setup.faulty(end(WatchEndsAfter::Time(time), WatchEnd::Silence)).await;
    let mut count = 0;
    while event(&mut response).await.is_some() {
        count += 1;
    }
    assert_eq!((count, begin.elapsed()), (3, time));
}

#[tokio::test(start_paused = true)]
async fn delayed_events_come_in_their_order() {
    let setup = Setup::new().await;
    let delay = Duration::from_secs(2);
    let mut response = setup.faulty(WatchFaults { delay: Some(delay), ..WatchFaults::default() }).await;
    setup.fixture.config_map("a", "1").await;
    setup.fixture.config_map("b", "1").await;
    let begin = Instant::now();
    for (name, after) in [("a", delay), ("b", 2 * delay)] {
        let event = event(&mut response).await.unwrap().unwrap();
        assert!(event.contains(&format!(r#""name":"{name}""#)), "{event}");
        assert_eq!(begin.elapsed(), after);
    }
}

#[tokio::test]
async fn omitted_bookmarks_are_all_but_that_after_the_initial_events() {
    let setup = Setup::new().await;
    setup.fixture.config_map("a", "1").await;
    let start = Start::StreamingList(Freshness::MostRecent);
    for (omits_bookmarks, bookmarks) in [(false, 2), (true, 1)] {
        let faults = WatchFaults { omits_bookmarks, ..WatchFaults::default() };
        let mut encoder = setup.fixture.encoder("", "configmaps", "application/json");
        let (accept, media_type) = encoder.accept.stream(NEGOTIATOR).unwrap();
        encoder.accept = accept;
        let resource = setup.fixture.cache.resource("configmaps").unwrap();
        let watcher = resource.watch(WatchOptions::new(start).with_bookmarks()).await.unwrap();
        // The last bookmark comes two seconds before the end.
        let end_conditions = EndConditions {
            timeout: Duration::from_millis(2_200),
            bookmarks: true,
            lifecycle: setup.lifecycle.clone(),
            seats: None,
            reserved: None,
            asked: asked(),
            faults: Some(faults),
        };
        let response =
            respond(encoder, media_type, Watch::Running(watcher), end_conditions, &HeaderMap::new());
        let whole = tokio::spawn(body(response));
        tokio::time::sleep(Duration::from_millis(50)).await;
        setup
            .fixture
            .put(
                "secrets",
                "s",
                r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","namespace":"n"}}"#.into(),
            )
            .await;
        let whole = whole.await.unwrap();
        assert_eq!(text(&whole).matches(r#""type":"BOOKMARK""#).count(), bookmarks, "{}", text(&whole));
    }
}
