//! What servers do by options that most of them do not have.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod common;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Running, closed, request, start, start_with, start_with_layers, whole};
use http::{HeaderValue, Method};
use pki::{Names, Pki};
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, SignatureScheme};
use server::tls::{NamedPair, Serving, TlsConfig};
use server::{Cors, Goaway, Limits, OptionalLayers, TransportSecurity, Unserved};
use testkit::Folder;

fn with_layers(layers: OptionalLayers) -> Running {
    start_with_layers(Unserved, Limits::default(), Duration::ZERO, TlsConfig::default(), |_| layers)
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_allowed_origins_are_told_so_and_preflights_are_answered() {
    let cors = Cors::new(&[r"//example\.com(:|$)".to_owned()]).unwrap();
    let security = TransportSecurity::new(&["max-age=1".to_owned(), "preload".to_owned()]).unwrap();
    let server = with_layers(OptionalLayers {
        cors: Some(cors),
        transport_security: Some(security),
        ..OptionalLayers::default()
    });
    let mut client = server.http1().await;
    for (method, origin, status, allowed) in [
        (Method::GET, "https://example.com", 404, true),
        (Method::OPTIONS, "https://example.com:1", 204, true),
        (Method::OPTIONS, "https://other.com", 404, false),
        (Method::GET, "", 404, false),
    ] {
        let mut asked = request(method.clone(), "/nothing");
        asked.headers_mut().insert("origin", HeaderValue::from_static(origin));
        client.sender.ready().await.unwrap();
        let answer = whole(client.sender.send_request(asked).await.unwrap()).await;
        assert_eq!(answer.status, status, "{method} {origin}");
        let header = |name: &str| answer.headers.get(name).map(|value| value.to_str().unwrap());
        assert_eq!(header("access-control-allow-origin"), allowed.then_some(origin), "{method} {origin}");
        assert_eq!(header("access-control-allow-credentials"), allowed.then_some("true"));
        let methods = "POST, GET, OPTIONS, PUT, DELETE, PATCH";
        assert_eq!(header("access-control-allow-methods"), allowed.then_some(methods));
        assert_eq!(header("access-control-expose-headers"), allowed.then_some("Date"));
        assert_eq!(header("strict-transport-security"), Some("max-age=1; preload"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_2_connections_end_by_chance_after_a_response() {
    let server = with_layers(OptionalLayers { goaway: Goaway::new(1.0), ..OptionalLayers::default() });
    let mut http2 = server.http2().await;
    let answer = http2.ask(Method::GET, "/livez").await;
    assert_eq!((answer.status, answer.headers.get("connection")), (200, None));
    closed(http2.ended).await.unwrap();
    let mut http1 = server.http1().await;
    for _ in 0..2 {
        assert_eq!(http1.ask(Method::GET, "/livez").await.status, 200, "HTTP/1.1 goes on");
    }
    assert!(Goaway::new(0.0).is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_cipher_suites_are_the_only_ones_of_tls_1_2() {
    let suites = vec!["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256".to_owned()];
    let chosen = TlsConfig { suites, ..TlsConfig::default() };
    let server = start_with(Unserved, Limits::default(), Duration::ZERO, chosen);
    let suite = async |server: &Running, version| {
        let stream = server.tls(server.client_config_for(b"", &[version])).await;
        stream.get_ref().1.negotiated_cipher_suite().unwrap().suite()
    };
    let only = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    assert_eq!(suite(&server, &rustls::version::TLS12).await, only);
    assert_eq!(suite(&server, &rustls::version::TLS13).await, CipherSuite::TLS13_AES_256_GCM_SHA384);
    let usual = start(Unserved, Limits::default(), Duration::ZERO);
    assert_ne!(suite(&usual, &rustls::version::TLS12).await, only);
}

#[tokio::test(flavor = "multi_thread")]
async fn client_gets_the_certificate_of_the_name_it_sends() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let folder = Folder::new().unwrap();
    let names = Names::of_this_host("10.0.0.1".parse().unwrap());
    let other = Pki::new(folder.path()).ensure(&names, clock::now()).unwrap().serving;
    let serving = |names: &[&str]| Serving {
        pair: server.material.serving.clone(),
        named: vec![NamedPair {
            pair: other.clone(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        }],
    };
    // The client trusts the certificate of the server, not the other one, and sends `localhost`.
    assert!(server.identity.replace(serving(&["example.com"])).unwrap());
    assert!(server.try_tls(server.client_config(b"")).await.is_ok());
    for names in [&["localhost"][..], &["*"], &[]] {
        assert!(server.identity.replace(serving(names)).unwrap());
        assert!(server.try_tls(server.client_config(b"")).await.is_err(), "{names:?}");
    }
    let mut nameless = server.client_config(b"");
    nameless.enable_sni = false;
    assert!(server.try_tls(nameless.clone()).await.is_ok());
    server.identity.replace(serving(&["127.0.0.1"])).unwrap();
    assert!(server.try_tls(server.client_config(b"")).await.is_ok());
    assert!(server.try_tls(nameless).await.is_err(), "the address has a certificate of its own");
}

/// Notes which authorities the server names.
#[derive(Debug, Default)]
struct Named(Mutex<Vec<Vec<u8>>>);

impl ResolvesClientCert for Named {
    fn resolve(&self, authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        *self.0.lock().unwrap() = authorities.iter().map(|name| name.to_vec()).collect();
        None
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handshake_names_the_authorities_of_client_certificates_as_they_are() {
    let server = start(Unserved, Limits::default(), Duration::ZERO);
    let named = async || {
        let named = Arc::new(Named::default());
        let mut config = server.client_config(b"http/1.1");
        config.client_auth_cert_resolver = named.clone();
        assert_eq!(server.http1_with(config).await.ask(Method::GET, "/livez").await.status, 200);
        named.0.lock().unwrap().clone()
    };
    let before = named().await;
    assert_eq!(before.len(), 1);
    let folder = Folder::new().unwrap();
    let names = Names::of_this_host("10.0.0.1".parse().unwrap());
    let pki = Pki::new(folder.path()).ensure(&names, clock::now() - Duration::from_secs(60)).unwrap();
    let authorities = [&server.material.authority, &pki.authority];
    let both = authorities.iter().flat_map(|pem| pki::certificates(pem).unwrap()).collect();
    server.authenticators.certificates.as_ref().unwrap().authorities().replace(both).unwrap();
    let after = named().await;
    assert_eq!((after.len(), &after[0]), (2, &before[0]));
}
