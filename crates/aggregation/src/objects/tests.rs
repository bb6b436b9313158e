use super::*;

fn widgets(version: &str) -> RemoteResource {
    RemoteResource {
        group: "example.com".into(),
        version: version.into(),
        resource: "widgets".into(),
        kind: "Widget".into(),
        is_namespaced: true,
        verbs: ["create", "delete", "list", "watch"].map(str::to_owned).into(),
    }
}

fn resources(resources: &[RemoteResource], stale: &[&str]) -> RemoteResources {
    RemoteResources {
        resources: resources.to_vec(),
        stale: stale.iter().map(|version| (*version).to_owned()).collect(),
    }
}

fn object(key: &str, uid: &str) -> RemoteObject {
    RemoteObject {
        key: key.into(),
        uid: uid.into(),
        owners: Box::default(),
        finalizers: Box::default(),
        is_deleting: false,
    }
}

/// A mirror that nothing keeps, and the changes that a subscriber of it gets.
fn mirror() -> (Arc<Mirror>, Arc<Mutex<Vec<String>>>, Subscription) {
    let task = tasks::spawn(Name::RemoteObjects, || async { Ended::Done });
    let mirror = Arc::new(Mirror { shared: Arc::default(), _task: task });
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let subscription = mirror.subscribe(record(&seen));
    (mirror, seen, subscription)
}

fn record(seen: &Arc<Mutex<Vec<String>>>) -> impl Fn(MirrorChange<'_>) + Send + Sync + use<> {
    let seen = seen.clone();
    move |change| {
        let text = match change {
            MirrorChange::Object { before, after, .. } => {
                let key = |object: Option<&RemoteObject>| object.map(|object| object.uid.to_string());
                format!("{:?} {:?}", key(before), key(after)).replace("Some", "").replace('"', "")
            }
            MirrorChange::Synced { prefix } => format!("synced {prefix}"),
            MirrorChange::Gone { prefix } => format!("gone {prefix}"),
            MirrorChange::Kinds => "kinds".to_owned(),
        };
        seen.lock().unwrap().push(text);
    }
}

fn taken(seen: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *seen.lock().unwrap())
}

#[tokio::test]
async fn subscribers_get_what_differs_and_a_new_one_gets_everything() {
    let (mirror, seen, _subscription) = mirror();
    let prefix: Arc<str> = "widgets.example.com".into();
    let known = resources(&[widgets("v1")], &[]);
    assert_eq!(mirror.shared.set_known(known.clone(), &known), [widgets("v1")]);
    for (key, uid) in [("n/a", "1"), ("n/b", "2"), ("n/a", "1"), ("m/a", "3")] {
        mirror.shared.set(&prefix, "", Some(object(key, uid)));
    }
    assert_eq!(mirror.count(&prefix, "n"), None, "there was no complete list");
    mirror.shared.synced(&prefix, &["n/a".into(), "m/a".into()].into());
    assert_eq!(
        taken(&seen),
        ["kinds", "None (1)", "None (2)", "None (3)", "(2) None", "synced widgets.example.com"]
    );
    mirror.shared.set(&prefix, "n/a", None);
    mirror.shared.set(&prefix, "n/a", None);
    mirror.shared.set(&prefix, "", Some(object("n/a", "4")));
    assert_eq!(taken(&seen), ["(1) None", "None (4)"]);
    assert_eq!((mirror.count(&prefix, "n"), mirror.count(&prefix, "m")), (Some(1), Some(1)));
    assert_eq!((mirror.count(&prefix, ""), mirror.count("others", "n")), (Some(0), None));
    assert_eq!(mirror.namespace_of(&prefix, "3").as_deref(), Some("m"));
    assert_eq!(mirror.lookup(&prefix, "n", "a").map(|object| object.uid.to_string()).as_deref(), Some("4"));

    let later: Arc<Mutex<Vec<String>>> = Arc::default();
    let subscription = mirror.subscribe(record(&later));
    assert_eq!(taken(&later), ["None (3)", "None (4)", "synced widgets.example.com"]);
    drop(subscription);
    mirror.shared.set(&prefix, "n/a", None);
    assert!(taken(&later).is_empty());
}

#[tokio::test]
async fn kind_stays_while_its_discovery_fails_and_goes_with_its_service() {
    let (mirror, seen, _subscription) = mirror();
    let prefix: Arc<str> = "widgets.example.com".into();
    let known = resources(&[widgets("v1")], &[]);
    mirror.shared.set_known(known.clone(), &known);
    mirror.shared.set(&prefix, "", Some(object("n/a", "1")));
    assert_eq!(mirror.kind("example.com", "v1", "Widget"), Known::Kind(widgets("v1")));
    taken(&seen);

    let stale = resources(&[], &["example.com/v1"]);
    assert_eq!(mirror.shared.set_known(stale.clone(), &stale), [widgets("v1")]);
    assert_eq!(mirror.kind("example.com", "v1", "Widget"), Known::Unknown);
    assert!(mirror.lookup(&prefix, "n", "a").is_some());
    assert_eq!(taken(&seen), ["kinds"]);

    let none = resources(&[], &[]);
    assert!(mirror.shared.set_known(none.clone(), &none).is_empty());
    assert!(mirror.lookup(&prefix, "n", "a").is_none());
    assert_eq!(taken(&seen), ["gone widgets.example.com", "kinds"]);
}

#[tokio::test]
async fn kinds_that_cannot_be_followed_are_known_and_not_kept() {
    let (mirror, _, _subscription) = mirror();
    let metrics = RemoteResource { verbs: vec!["get".into(), "list".into()], ..widgets("v1") };
    let known = resources(std::slice::from_ref(&metrics), &[]);
    assert!(mirror.shared.set_known(known.clone(), &known).is_empty());
    assert_eq!(mirror.kind("example.com", "v1", "Widget"), Known::Kind(metrics));
    assert!(mirror.resource("widgets.example.com").is_none());
}

#[test]
fn metadata_is_read_of_whatever_a_server_sends() {
    let read = |text: &str| RemoteObject::read(&crate::content::decode(text.as_bytes()).unwrap());
    let read_whole = read(
        r#"{"metadata":{"name":"a","namespace":"n","uid":"u","deletionTimestamp":"2026-01-01T00:00:00Z",
            "ownerReferences":[{"uid":"o"},7],"finalizers":["f",7]},"spec":{}}"#,
    );
    let expected = RemoteObject {
        owners: ["o".into(), "".into()].into(),
        finalizers: ["f".into()].into(),
        is_deleting: true,
        ..object("n/a", "u")
    };
    assert_eq!(read_whole, Some(expected));
    assert_eq!(read(r#"{"metadata":{"name":"a"}}"#), Some(object("a", "")));
    for wrong in ["{}", r#"{"metadata":{}}"#, r#"{"metadata":7}"#, r#"{"metadata":{"name":7}}"#] {
        assert_eq!(read(wrong), None, "{wrong}");
    }
}
