//! Client certificates of several authorities, authorities that change, and authenticating proxies.

use std::path::Path;
use std::time::{Duration, Instant};

use pki::{Client as Subject, Names, Pair, Pki};
use testkit::Folder;
use testkit::http::Target;

use super::{As, Client, PATIENCE, start};

/// An authority of its own, in a folder.
struct Authority {
    folder: Folder,
    pki: Pki,
}

impl Authority {
    fn new() -> Self {
        let folder = Folder::new().unwrap();
        let pki = Pki::new(folder.path());
        pki.ensure(&Names::default(), clock::now()).unwrap();
        Self { folder, pki }
    }

    fn file(&self) -> std::path::PathBuf {
        self.folder.path().join("ca.crt")
    }

    fn issue(&self, user: &str, groups: &[&str]) -> Pair {
        let groups: Vec<String> = groups.iter().map(|group| (*group).to_owned()).collect();
        let life = Duration::from_secs(3600);
        self.pki.issue(&Subject { user, groups: &groups, life }, clock::now()).unwrap()
    }
}

/// A client that shows a certificate.
fn shows(target: &Target, pair: &Pair) -> Client {
    Client { target: target.identified(&pair.certificate, &pair.key).unwrap(), connection: None }
}

/// The status of a request without other credentials, and its body.
fn ask(client: &mut Client) -> (u16, String) {
    let who = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let answer = client.ask(As::Nobody, "POST", who, "{}");
    (answer.status, answer.text())
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

#[test]
fn certificates_of_given_authorities_count_and_those_of_others_are_refused() {
    let (one, two, other) = (Authority::new(), Authority::new(), Authority::new());
    let bundle = one.folder.path().join("bundle.crt");
    let write = |authorities: &[&Authority]| {
        let text: String =
            authorities.iter().map(|authority| std::fs::read_to_string(authority.file()).unwrap()).collect();
        std::fs::write(&bundle, text).unwrap();
    };
    write(&[&one, &two]);
    let server = start(&[&flag("client-ca-file", &bundle)]);
    let target = server.target().unwrap();
    let [mut of_one, mut of_two, mut of_other] =
        [&one, &two, &other].map(|authority| shows(&target, &authority.issue("jane", &["dev", "ops"])));
    for client in [&mut of_one, &mut of_two] {
        let (status, text) = ask(client);
        assert_eq!(status, 201, "{text}");
        assert!(
            text.contains(r#""username":"jane","groups":["dev","ops","system:authenticated"]"#),
            "{text}"
        );
    }
    assert_eq!(ask(&mut of_other).0, 401, "it is not anonymous");
    let public = of_other.ask(As::Nobody, "GET", "/healthz", "");
    assert_eq!(public.status, 401, "on no path");

    // The bundle changes: for open connections too.
    write(&[&two, &other]);
    let begin = Instant::now();
    while ask(&mut of_one).0 == 201 {
        assert!(begin.elapsed() < PATIENCE, "the authorities were not read again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(ask(&mut of_one).0, 401);
    assert_eq!(ask(&mut of_two).0, 201);
    assert_eq!(ask(&mut of_other).0, 201);

    // A bundle that cannot be used changes nothing.
    std::fs::write(&bundle, "no certificates").unwrap();
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!(ask(&mut of_two).0, 201);
}

#[test]
fn headers_of_a_proxy_count_with_a_certificate_of_its_authority_only() {
    let proxies = Authority::new();
    let server = start(&[
        &flag("requestheader-client-ca-file", &proxies.file()),
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-allowed-names=front-proxy,other-proxy",
    ]);
    let target = server.target().unwrap();
    let says = |client: &mut Client, headers: &str| {
        let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let answer = client.ask_with(headers, "POST", path, "{}");
        (answer.status, answer.text())
    };
    let headers =
        "X-Remote-User: jane\r\nX-Remote-Group: dev\r\nX-Remote-Group: ops\r\nX-Remote-Extra-Scopes: a\r\n";
    let mut proxy = shows(&target, &proxies.issue("front-proxy", &[]));
    let (status, text) = says(&mut proxy, headers);
    assert_eq!(status, 201, "{text}");
    let user = r#""username":"jane","groups":["dev","ops","system:authenticated"],"extra":{"scopes":["a"]}"#;
    assert!(text.contains(user), "{text}");
    // Without the headers it is nobody: its certificate is no user's.
    assert_eq!(says(&mut proxy, "").0, 401);
    let mut impostor = shows(&target, &proxies.issue("somebody", &[]));
    assert_eq!(says(&mut impostor, headers).0, 401, "its name is not allowed");
    let mut other = shows(&target, &Authority::new().issue("front-proxy", &[]));
    assert_eq!(says(&mut other, headers).0, 401, "its authority is not trusted");
    let mut nobody = Client::new(&server);
    let (status, text) = says(&mut nobody, headers);
    assert_eq!(status, 403, "headers alone are nothing: {text}");
    assert!(text.contains("system:anonymous"), "{text}");

    let config = nobody.ask(
        As::Admin,
        "GET",
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        "",
    );
    let data = &config.json()["data"];
    assert_eq!(data["requestheader-username-headers"], r#"["X-Remote-User"]"#);
    assert_eq!(data["requestheader-allowed-names"], r#"["front-proxy","other-proxy"]"#);
    let authority = std::fs::read_to_string(proxies.file()).unwrap();
    assert_eq!(data["requestheader-client-ca-file"], authority.as_str());
}
