//! Controllers with a planted bug each, made with kube-rs: without a fault nobody notices the bug, a fault
//! finds it, and another run with the same seed finds the same again.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use testkit::Server;
use tokio::time::{sleep, timeout};

const SEED: u64 = 20;
const FAULTS: &str = "/keelson/v1/faults";
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and a client of it.
struct World {
    server: Server,
    client: Client,
}

fn binary() -> PathBuf {
    testkit::release_binary()
}

async fn client(server: &Server) -> Client {
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

impl World {
    async fn start(fault: Option<&Value>) -> Self {
        let flags = ["--storage=memory", "--controllers=-*", "--enable-fault-injection"];
        Self::of(Server::start(&binary(), &flags).unwrap(), fault).await
    }

    async fn of(server: Server, fault: Option<&Value>) -> Self {
        if let Some(rule) = fault {
            let mut rule = rule.clone();
            rule["name"] = "planted".into();
            rule["match"]["resources"] = json!(["configmaps"]);
            let (status, answer) =
                server.call("PUT", FAULTS, &json!({"seed": SEED, "rules": [rule]})).unwrap();
            assert_eq!(status, 200, "{answer}");
        }
        let client = client(&server).await;
        Self { server, client }
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// How many requests have met the fault.
    fn injected(&self) -> u64 {
        let (status, answer) = self.server.call("GET", FAULTS, &Value::Null).unwrap();
        assert_eq!(status, 200);
        answer["rules"][0]["injected"].as_u64().unwrap_or_default()
    }

    /// The names of the config maps that the tests made, as the server has them. No fault meets a look at the
    /// exact client's bytes: it is a list of one page of the most recent state.
    fn there(&self) -> Vec<String> {
        self.server.call("DELETE", FAULTS, &Value::Null).unwrap();
        let path = "/api/v1/namespaces/default/configmaps?labelSelector=app%3Dtest";
        let (status, answer) = self.server.call("GET", path, &Value::Null).unwrap();
        assert_eq!(status, 200, "{answer}");
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"app": "test"}}})).unwrap()
}

/// A config map whose name the server chooses.
fn generated(prefix: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"generateName": prefix, "labels": {"app": "test"}}})).unwrap()
}

/// Runs a controller without a fault, and twice with it. Gives what it did without, and with.
async fn found<T: PartialEq + std::fmt::Debug>(rule: Value, controller: impl AsyncFn(&World) -> T) -> (T, T) {
    let right = controller(&World::start(None).await).await;
    let mut runs = Vec::new();
    for _ in 0..2 {
        let world = World::start(Some(&rule)).await;
        let outcome = controller(&world).await;
        runs.push(outcome);
    }
    let (again, first) = (runs.pop().unwrap(), runs.pop().unwrap());
    assert_eq!(first, again, "the same seed finds the same");
    assert_ne!(right, first, "the fault finds the bug");
    (right, first)
}

/// Makes twenty objects. The bug: what fails is not tried again.
async fn without_retry(world: &World) -> Vec<String> {
    for number in 0..20 {
        let _ = world.maps().create(&PostParams::default(), &map(&format!("m{number:02}"))).await;
    }
    world.there()
}

#[tokio::test]
async fn errors_find_a_controller_that_does_not_try_again() {
    let rule = json!({"match": {"verbs": ["create"]}, "share": 0.3, "fault": {"error": {"code": 503, "retryAfterSeconds": 1}}});
    let (right, wrong) = found(rule, without_retry).await;
    assert_eq!(right.len(), 20);
    assert!((8..20).contains(&wrong.len()), "{wrong:?}");
}

#[tokio::test]
async fn throttling_finds_a_controller_that_takes_every_4xx_for_final() {
    let rule = json!({"match": {"verbs": ["create"]}, "share": 0.3, "fault": {"throttle": {"retryAfterSeconds": 1}}});
    let (_, wrong) = found(rule, async |world: &World| {
        for number in 0..20 {
            let map = map(&format!("m{number:02}"));
            loop {
                match world.maps().create(&PostParams::default(), &map).await {
                    Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => break,
                    Err(_) => {}
                    Ok(_) => break,
                }
            }
        }
        world.there()
    })
    .await;
    assert!((8..20).contains(&wrong.len()), "{wrong:?}");
}

#[tokio::test]
async fn conflicts_after_a_commit_find_a_controller_that_counts_twice() {
    let rule =
        json!({"match": {"verbs": ["update"]}, "share": 0.4, "fault": {"conflict": {"afterCommit": true}}});
    let (right, wrong) = found(rule, async |world: &World| {
        world.maps().create(&PostParams::default(), &map("counter")).await.unwrap();
        for _ in 0..10 {
            // The bug: a conflict may be that of the own write.
            loop {
                let mut counter = world.maps().get("counter").await.unwrap();
                let count =
                    counter.data.as_ref().and_then(|data| data.get("count")?.parse().ok()).unwrap_or(0_u32);
                counter.data = Some(BTreeMap::from([("count".to_owned(), (count + 1).to_string())]));
                match world.maps().replace("counter", &PostParams::default(), &counter).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    outcome => break drop(outcome.unwrap()),
                }
            }
        }
        world.maps().get("counter").await.unwrap().data.unwrap()["count"].parse::<u32>().unwrap()
    })
    .await;
    assert_eq!(right, 10);
    assert!(wrong > 10, "{wrong}");
}

#[tokio::test]
async fn delays_find_a_controller_that_relies_on_the_order_of_its_requests() {
    let rule = json!({"match": {"verbs": ["patch"]}, "times": 1, "fault": {"delay": {"duration": "2s"}}});
    let (right, wrong) = found(rule, async |world: &World| {
        world.maps().create(&PostParams::default(), &map("state")).await.unwrap();
        let set = |state: &'static str| {
            let maps = world.maps();
            async move {
                let patch = Patch::Merge(json!({"data": {"state": state}}));
                maps.patch("state", &PatchParams::default(), &patch).await.unwrap();
            }
        };
        // The bug: the second does not wait for the first.
        let first = tokio::spawn(set("starting"));
        sleep(Duration::from_millis(500)).await;
        set("ready").await;
        first.await.unwrap();
        world.maps().get("state").await.unwrap().data.unwrap()["state"].clone()
    })
    .await;
    assert_eq!((right.as_str(), wrong.as_str()), ("ready", "starting"));
}

/// Makes one object for each of five tasks, with a name that the server chooses. The bug: what was tried in
/// vain may have been done.
async fn tries_again(world: &World) -> usize {
    for _ in 0..5 {
        for _ in 0..10 {
            if world.maps().create(&PostParams::default(), &generated("task-")).await.is_ok() {
                break;
            }
        }
    }
    world.there().len()
}

#[tokio::test]
async fn lost_answers_find_a_controller_that_makes_an_object_twice() {
    let rule = json!({"match": {"verbs": ["create"]}, "share": 0.4, "fault": {"loseAnswer": {}}});
    let (right, wrong) = found(rule, tries_again).await;
    assert_eq!(right, 5);
    assert!(wrong > 5, "{wrong}");
}

#[tokio::test]
async fn cut_connections_find_a_controller_that_takes_every_error_for_an_absence() {
    let rule = json!({"match": {"verbs": ["get"]}, "after": 1, "times": 1, "fault": {"cutConnection": {}}});
    let (right, wrong) = found(rule, async |world: &World| {
        for round in 0..3 {
            // The bug: the object is there.
            let known = world.maps().get("notes").await.ok();
            let mut notes = known.and_then(|notes| notes.data).unwrap_or_default();
            notes.insert(format!("round-{round}"), "done".to_owned());
            let whole = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "labels": {"app": "test"}}, "data": notes,
            });
            let force = PatchParams::apply("notes").force();
            world.maps().patch("notes", &force, &Patch::Apply(&whole)).await.unwrap();
        }
        world.maps().get("notes").await.unwrap().data.unwrap().len()
    })
    .await;
    assert_eq!(right, 3);
    assert!(wrong < 3, "{wrong}");
}

/// Follows the config maps while others are made and deleted, and gives what it takes for the state at the
/// end. The bug: a watch that ends is begun anew, and what was deleted meanwhile is not noticed.
async fn follows_without_listing(world: &World) -> BTreeSet<String> {
    for name in ["a", "b", "c"] {
        world.maps().create(&PostParams::default(), &map(name)).await.unwrap();
    }
    let mut known = BTreeSet::new();
    let parameters = WatchParams::default().labels("app=test");
    let mut version = String::new();
    let mut is_changed = false;
    loop {
        let maps = world.maps();
        let mut events = maps.watch(&parameters, &version).await.unwrap().boxed();
        loop {
            match timeout(Duration::from_secs(3), events.next()).await {
                // Nothing happens any more.
                Err(_) => return known,
                Ok(Some(Ok(WatchEvent::Added(map) | WatchEvent::Modified(map)))) => {
                    drop(known.insert(map.name_any()))
                }
                Ok(Some(Ok(WatchEvent::Deleted(map)))) => drop(known.remove(&map.name_any())),
                Ok(Some(Ok(WatchEvent::Bookmark(_)))) => {}
                Ok(Some(Ok(WatchEvent::Error(_)) | Err(_)) | None) => break,
            }
            if known.len() == 3 && !is_changed {
                is_changed = true;
                let maps = world.maps();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(500)).await;
                    maps.delete("b", &DeleteParams::default()).await.unwrap();
                });
            }
        }
        sleep(Duration::from_secs(1)).await;
        version = String::new();
    }
}

#[tokio::test]
async fn ends_of_watches_find_a_controller_that_does_not_list_again() {
    for with in ["expired", "silence", "cut"] {
        let rule = json!({"times": 1, "fault": {"endWatch": {"after": 3, "with": with}}});
        let (right, wrong) = found(rule, follows_without_listing).await;
        assert_eq!(right.len(), 2);
        assert!(wrong.contains("b"), "{with} {wrong:?}");
    }
}

#[tokio::test]
async fn late_events_find_a_controller_that_relies_on_its_cache() {
    let rule = json!({"fault": {"delayEvents": {"duration": "2s"}}});
    let (right, wrong) = found(rule, async |world: &World| {
        let (maps, parameters) = (world.maps(), WatchParams::default().labels("app=test"));
        let mut events = maps.watch(&parameters, "").await.unwrap().boxed();
        let mut known = 0;
        for _ in 0..3 {
            // The bug: that the cache has no object does not mean that there is none.
            if known == 0 {
                world.maps().create(&PostParams::default(), &generated("one-")).await.unwrap();
            }
            while let Ok(Some(Ok(WatchEvent::Added(_)))) =
                timeout(Duration::from_millis(500), events.next()).await
            {
                known += 1;
            }
        }
        world.there().len()
    })
    .await;
    assert_eq!(right, 1);
    assert!(wrong > 1, "{wrong}");
}

#[tokio::test]
async fn omitted_bookmarks_find_a_controller_that_waits_for_one() {
    let rule = json!({"fault": {"omitBookmarks": {}}});
    let (right, wrong) = found(rule, async |world: &World| {
        world.maps().create(&PostParams::default(), &map("a")).await.unwrap();
        let version =
            world.maps().list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        let (maps, parameters) = (world.maps(), WatchParams::default().timeout(4));
        let mut events = maps.watch(&parameters, &version).await.unwrap().boxed();
        // Another type moves the revision.
        let secrets: Api<k8s_openapi::api::core::v1::Secret> =
            Api::namespaced(world.client.clone(), "default");
        let secret = serde_json::from_value(json!({"metadata": {"name": "s"}})).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        // The bug: a server need not send any.
        let mut is_synced = false;
        while let Some(Ok(event)) = events.next().await {
            is_synced |= matches!(event, WatchEvent::Bookmark(_));
        }
        is_synced
    })
    .await;
    assert_eq!((right, wrong), (true, false));
}

#[tokio::test]
async fn stale_reads_find_a_controller_that_starts_from_any_state() {
    for by in [json!(1000), json!("1h")] {
        let rule = json!({"match": {"verbs": ["list"]}, "fault": {"staleRead": {"by": by}}});
        let (right, wrong) = found(rule, async |world: &World| {
            // The revision that an hour ago means here.
            let any = ListParams::default().labels("app=test").match_any();
            world.maps().list(&any).await.unwrap();
            for _ in 0..3 {
                // The bug: what a restarted controller sees may be old.
                if world.maps().list(&any).await.unwrap().items.is_empty() {
                    world.maps().create(&PostParams::default(), &generated("one-")).await.unwrap();
                }
            }
            world.there().len()
        })
        .await;
        assert_eq!((right, wrong), (1, 3), "{by}");
    }
}

#[tokio::test]
async fn crashes_find_a_controller_that_makes_an_object_twice_and_nothing_acknowledged_is_lost() {
    for (at, there_after, made_after) in [("beforeCommit", 2, 5), ("afterCommit", 3, 6)] {
        let flags = ["--controllers=-*", "--enable-fault-injection"];
        let rule = json!({"match": {"verbs": ["create"]}, "after": 2, "fault": {"crash": {"at": at}}});
        let mut world = World::of(Server::start(&binary(), &flags).unwrap(), Some(&rule)).await;
        let mut acknowledged = BTreeSet::new();
        for _ in 0..5 {
            // The bug: the answer that did not come may have been a success.
            loop {
                match timeout(PATIENCE, world.maps().create(&PostParams::default(), &generated("task-")))
                    .await
                    .unwrap()
                {
                    Ok(map) => break drop(acknowledged.insert(map.name_any())),
                    Err(_) => {
                        let folder = world.server.kill().unwrap();
                        let server = Server::at(folder, &binary(), &flags).unwrap();
                        let client = client(&server).await;
                        world = World { server, client };
                        assert_eq!(world.there().len(), there_after, "{at}");
                    }
                }
            }
        }
        let there: BTreeSet<String> = world.there().into_iter().collect();
        assert_eq!(there.len(), made_after, "{at}");
        assert!(acknowledged.is_subset(&there), "{at}");
    }
}

/// The rule that the answer to a GET of a config map names.
fn header(server: &Server) -> Option<String> {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let path = "/api/v1/namespaces/default/configmaps/x";
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        target.authority(),
        server.token()
    );
    connection.send(head.as_bytes()).unwrap();
    connection.head("GET").unwrap().header("x-keelson-fault").map(str::to_owned)
}

#[tokio::test]
async fn rules_say_what_they_did_and_answers_name_them() {
    let world =
        World::start(Some(&json!({"times": 3, "fault": {"error": {"code": 500, "message": "planted"}}})))
            .await;
    assert_eq!(header(&world.server), Some("planted".to_owned()));
    for expected in [Some("planted"), Some("planted"), None] {
        let outcome = world.maps().get_opt("x").await;
        let message = match &outcome {
            Err(kube::Error::Api(status)) => Some(status.message.as_str()),
            _ => None,
        };
        assert_eq!(message, expected, "{outcome:?}");
    }
    assert_eq!(world.injected(), 3);
    let (_, metrics) = world.server.text("GET", "/metrics", "").unwrap();
    assert!(metrics.contains("keelson_faults_injected_total{rule=\"planted\"} 3"), "the metric counts");
    assert_eq!(header(&world.server), None);
    // A plain server knows nothing of it.
    let plain = Server::start(&binary(), &["--storage=memory", "--controllers=-*"]).unwrap();
    assert_eq!(plain.text("GET", FAULTS, "").unwrap().0, 404);
}
