use super::*;
use crate::testing::Fixture;
use object::Value;
use schema::view::View as _;
use schema::views::core::v1::Event;

fn recorder(fixture: &Fixture) -> Recorder {
    Recorder::new(fixture.client.clone(), "some-controller")
}

fn subject() -> Subject {
    Subject {
        api_version: "v1".into(),
        kind: "Service".into(),
        namespace: "n".into(),
        name: "s".into(),
        uid: "u".into(),
        resource_version: "7".into(),
    }
}

async fn events(fixture: &Fixture, namespace: &str) -> Vec<Value> {
    fixture.client.list_objects(Address::core("events", namespace)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn events_have_the_fields_that_people_look_at() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let recorder = recorder(&fixture);
    recorder.record(&subject(), EventType::Warning, "Reason", "message").await;
    recorder.record(&subject(), EventType::Warning, "Reason", "message").await;
    let events = events(&fixture, "n").await;
    let [event] = events.as_slice() else { panic!("{events:?}") };
    let event = Event::of(event.as_map().unwrap());
    assert!(event.metadata().name().starts_with("s."));
    assert_eq!((event.r#type(), event.reason(), event.message()), ("Warning", "Reason", "message"));
    assert_eq!((event.count(), event.source().component()), (2, "some-controller"));
    assert_eq!(event.reporting_component(), "some-controller");
    assert!(event.first_timestamp().is_some() && event.last_timestamp() >= event.first_timestamp());
    let about = event.involved_object();
    assert_eq!((about.api_version(), about.kind()), ("v1", "Service"));
    assert_eq!((about.namespace(), about.name(), about.uid()), ("n", "s", "u"));
    assert_eq!(about.resource_version(), "7");
}

#[tokio::test(start_paused = true)]
async fn removed_event_is_made_again_with_its_count() {
    let fixture = Fixture::new().await;
    fixture.namespace("default").await;
    let recorder = recorder(&fixture);
    // What lives in no namespace has its events in `default`; the name cannot start that of an event.
    let role =
        Subject { kind: "ClusterRole".into(), namespace: String::new(), name: "a:B".into(), ..subject() };
    recorder.record(&role, EventType::Normal, "Reason", "message").await;
    let name = |event: &Value| Event::of(event.as_map().unwrap()).metadata().name().to_owned();
    let before = events(&fixture, "default").await;
    let first = name(before.first().unwrap());
    assert_eq!(first.split('-').count(), 5, "{first}");
    let address = Address::core("events", "default").named(&first);
    fixture.client.delete(address, &registry::DeleteOptions::default()).await.unwrap();
    recorder.record(&role, EventType::Normal, "Reason", "message").await;
    let after = events(&fixture, "default").await;
    let [event] = after.as_slice() else { panic!("{after:?}") };
    assert_eq!((name(event), Event::of(event.as_map().unwrap()).count()), (first, 2));
}

#[tokio::test(start_paused = true)]
async fn many_similar_events_are_one() {
    let fixture = Fixture::new().await;
    fixture.namespace("n").await;
    let recorder = recorder(&fixture);
    for number in 1..=14 {
        recorder.record(&subject(), EventType::Normal, "Reason", &format!("message {number}")).await;
    }
    let events = events(&fixture, "n").await;
    assert_eq!(events.len(), 10);
    let all = events.iter().map(|event| Event::of(event.as_map().unwrap()));
    let combined = all.filter(|event| event.message().starts_with("(combined"));
    let combined: Vec<_> = combined.map(|event| (event.message(), event.count())).collect();
    assert_eq!(combined, [("(combined from similar events): message 14", 5)]);
}
