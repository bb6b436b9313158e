//! `--service-account-signing-endpoint`: tokens that a program beside the server signs, over real gRPC.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::time::Duration;

use access::token_signer::fake::{FakeKey, FakeSigner};
use serde_json::{Value, json};
use testkit::{Folder, Server, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    server: Server,
    signer: FakeSigner,
    _runtime: tokio::runtime::Runtime,
    _folder: Folder,
}

impl World {
    fn start() -> Self {
        let folder = Folder::new().unwrap();
        let socket = folder.path().join("signer.sock");
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let signer = runtime.block_on(async { FakeSigner::start(&socket) });
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let flags = [
            "--feature-gates=ExternalServiceAccountTokenSigner=true",
            &format!("--service-account-signing-endpoint={}", socket.display()),
        ];
        let server = Server::start(&binary, &flags).unwrap();
        Self { server, signer, _runtime: runtime, _folder: folder }
    }

    fn token(&self, seconds: u64) -> (u16, Value) {
        let spec = json!({"spec": {"expirationSeconds": seconds}});
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        self.server.call("POST", path, &spec).unwrap()
    }

    /// Whether a token is accepted.
    fn is_accepted(&self, token: &str) -> bool {
        let review = json!({"spec": {"token": token}});
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let (code, review) = self.server.call("POST", path, &review).unwrap();
        assert_eq!(code, 201, "{review}");
        review["status"]["authenticated"] == true
    }

    fn key_ids(&self) -> Vec<String> {
        let (_, keys) = self.server.call("GET", "/openid/v1/jwks", &Value::Null).unwrap();
        let ids = keys["keys"].as_array().unwrap().iter().map(|key| key["kid"].as_str().unwrap().to_owned());
        ids.collect()
    }
}

#[test]
fn tokens_are_signed_by_a_program_and_verified_by_its_keys() {
    let world = World::start();
    eventually("the service account is there", PATIENCE, || world.token(600).0 == 201);
    let (_, request) = world.token(600);
    let first = request["status"]["token"].as_str().unwrap().to_owned();
    assert!(world.is_accepted(&first));
    assert_eq!(world.key_ids(), ["one"]);
    // The program supports a day.
    let (_, long) = world.token(48 * 3600);
    assert_eq!(long["spec"]["expirationSeconds"], 24 * 3600);

    // Another key: tokens of it are accepted at once, those of the key that went are refused.
    let two = FakeKey::new("two");
    world.signer.set(|behaviour| {
        (behaviour.keys, behaviour.signs_by) = (vec![two.clone()], two);
    });
    let (code, request) = world.token(600);
    assert_eq!(code, 201, "{request}");
    assert!(world.is_accepted(request["status"]["token"].as_str().unwrap()));
    assert_eq!(world.key_ids(), ["two"]);
    assert!(!world.is_accepted(&first));

    world.signer.set(|behaviour| behaviour.refuses = Some("not today".into()));
    let (code, said) = world.token(600);
    assert_eq!(code, 500);
    let why = "failed to generate token: while signing jwt: rpc error: code = Internal desc = not today";
    assert!(said["message"].as_str().unwrap().ends_with(why), "{said}");
    let (_, metrics) = world.server.text("GET", "/metrics", "").unwrap();
    for line in [
        r#"apiserver_externaljwt_sign_request_total{code="Internal"} 1"#,
        r#"apiserver_externaljwt_fetch_keys_data_timestamp 1.7e+09"#,
        r#"apiserver_externaljwt_fetch_keys_request_total{code="OK"} 3"#,
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[test]
fn start_without_the_program_fails_and_says_why() {
    let folder = Folder::new().unwrap();
    let socket = folder.path().join("signer.sock");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let signer = runtime.block_on(async { FakeSigner::start(&socket) });
    signer.set(|behaviour| behaviour.longest = 60);
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let endpoint = format!("--service-account-signing-endpoint={}", socket.display());
    let refused = |flags: &[&str]| Server::start(&binary, flags).map(drop).unwrap_err().to_string();
    let why = refused(&["--feature-gates=ExternalServiceAccountTokenSigner=true", &endpoint]);
    assert!(
        why.contains("max token life supported by external-jwt-signer (60s) is less than acceptable"),
        "{why}"
    );
    assert!(refused(&[&endpoint]).contains("requires enabling ExternalServiceAccountTokenSigner"));
}
