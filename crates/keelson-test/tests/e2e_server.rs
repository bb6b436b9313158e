//! A server by itself: it starts, has a client, and leaves nothing behind.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use k8s_openapi::api::core::v1::ConfigMap;
use keelson_test::{Builder, Error, Server};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};

fn builder() -> Builder {
    Server::builder().binary(testkit::release_binary()).flag("--controllers=-*")
}

#[tokio::test]
async fn server_has_a_client_and_leaves_nothing_behind() {
    let server = builder().start().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
    let map = ConfigMap { metadata, ..ConfigMap::default() };
    let made = maps.create(&PostParams::default(), &map).await.unwrap();
    assert!(made.metadata.uid.is_some());
    assert!(server.url().starts_with("https://127.0.0.1:") && !server.token().is_empty());
    let folder = server.kubeconfig().parent().unwrap().to_owned();
    assert!(folder.join("data").is_dir() && server.log().contains("made "));
    server.kill().await.unwrap();
    assert!(!folder.exists());
}

#[tokio::test]
async fn server_that_does_not_start_says_why() {
    let error = builder().flag("--nonsense").start().await.unwrap_err();
    assert!(matches!(&error, Error::NotReady { log } if log.contains("unknown flag: --nonsense")), "{error}");
    let error = Server::builder().binary("/does/not/exist").start().await.unwrap_err();
    assert!(matches!(error, Error::Start { .. }), "{error}");
}
