//! Forks, faults and the clock of a server.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use k8s_openapi::api::core::v1::ConfigMap;
use keelson_test::{Error, Rule, Server};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

async fn server() -> Server {
    let builder = Server::builder().binary(testkit::release_binary()).flag("--controllers=-*");
    builder.with_faults().start().await.unwrap()
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::default_namespaced(client)
}

#[tokio::test]
async fn fork_has_objects_of_its_own_until_it_is_discarded() {
    let server = server().await;
    let post = PostParams::default();
    maps(server.client()).create(&post, &map("shared")).await.unwrap();
    let [one, other] = [server.fork().await.unwrap(), server.fork_named("other").await.unwrap()];
    assert_eq!(other.name(), "other");
    assert_ne!(one.url(), other.url());
    assert!(one.revision().parse::<u64>().unwrap() > 0);
    maps(one.client()).create(&post, &map("mine")).await.unwrap();
    maps(one.client()).delete("shared", &DeleteParams::default()).await.unwrap();
    for client in [server.client(), other.client()] {
        assert!(maps(client.clone()).get_opt("mine").await.unwrap().is_none());
        assert!(maps(client).get_opt("shared").await.unwrap().is_some());
    }
    one.reset().await.unwrap();
    assert!(maps(one.client()).get_opt("shared").await.unwrap().is_some());
    assert!(maps(one.client()).get_opt("mine").await.unwrap().is_none());
    let client = one.client();
    one.discard().await.unwrap();
    let gone = maps(client).list(&Default::default()).await.unwrap_err();
    assert!(matches!(&gone, kube::Error::Api(status) if status.code == 404), "{gone}");
}

#[tokio::test]
async fn faults_meet_the_requests_of_their_rules() {
    let server = server().await;
    let rule = Rule::new("busy").verbs(["create"]).resources(["configmaps"]).times(1).error(503);
    assert_eq!(server.faults().set(7, &[rule]).await.unwrap().seed, 7);
    let maps = maps(server.client());
    let refused = maps.create(&PostParams::default(), &map("a")).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 503), "{refused}");
    maps.create(&PostParams::default(), &map("a")).await.unwrap();
    let counted = server.faults().read().await.unwrap();
    assert_eq!((counted.rules[0].name.as_str(), counted.rules[0].injected), ("busy", 1));
    server.faults().clear().await.unwrap();
    assert!(server.faults().read().await.unwrap().rules.is_empty());
    let wrong = server.faults().set(1, &[Rule::new("no fault")]).await.unwrap_err();
    assert!(matches!(wrong, Error::Request(_)), "{wrong}");
}

#[tokio::test]
async fn clock_moves() {
    let server = server().await;
    let before = server.clock().read().await.unwrap();
    server.clock().step("48h").await.unwrap();
    let after = server.clock().read().await.unwrap();
    assert!(after.now[..10] > before.now[..10], "{after:?}");
    server.clock().run_at(60.0).await.unwrap();
    assert_eq!(server.clock().read().await.unwrap().rate, 60.0);
    server.clock().reset().await.unwrap();
    assert_eq!(server.clock().read().await.unwrap().rate, 1.0);
}
