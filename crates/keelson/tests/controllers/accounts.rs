//! Bootstrap tokens, tokens of service accounts in Secrets, and the authority in each namespace.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey};
use object::time::Time;
use testkit::https::Authority;
use testkit::{Cli, Folder, Process, Server};

/// The longest that a controller may take.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: &str = "abc123.0123456789abcdef";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn start() -> Server {
    Server::start(&binary(), &["--storage=memory", "--enable-bootstrap-token-auth"]).unwrap()
}

fn kubectl(server: &Server) -> Cli {
    Cli::new(testkit::tool("kubectl").unwrap(), server)
}

/// Waits until something is there.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("there is never {what}");
}

/// Creates what a text describes.
fn create(cli: &Cli, folder: &Path, text: &str) {
    let file = folder.join("object.yaml");
    std::fs::write(&file, text).unwrap();
    cli.ok(&["create", "-f", file.to_str().unwrap()]).unwrap();
}

/// A value of an object by its path: `data.token`; empty if it is not there.
fn value(cli: &Cli, object: &str, path: &str) -> String {
    let output = format!("jsonpath={{.{path}}}");
    cli.ok(&["get", object, "--ignore-not-found", "-o", &output]).unwrap()
}

/// A value of a Secret.
fn secret_value(cli: &Cli, secret: &str, key: &str) -> Vec<u8> {
    STANDARD.decode(value(cli, &format!("secret/{secret}"), &format!("data.{key}"))).unwrap()
}

#[test]
fn bootstrap_token_signs_and_has_an_identity_until_it_expires() {
    let server = start();
    let admin = kubectl(&server);
    let (system, public) = (admin.with(&["-n", "kube-system"]), admin.with(&["-n", "kube-public"]));
    create(
        &system,
        server.folder(),
        "apiVersion: v1\nkind: Secret\ntype: bootstrap.kubernetes.io/token\n\
         metadata: {name: bootstrap-token-abc123}\n\
         stringData:\n  token-id: abc123\n  token-secret: 0123456789abcdef\n\
         \x20 usage-bootstrap-authentication: 'true'\n  usage-bootstrap-signing: 'true'\n\
         \x20 auth-extra-groups: system:bootstrappers:workers\n",
    );
    let signature = || value(&public, "configmap/cluster-info", r"data.jws-kubeconfig-abc123");
    let signed = until("a signature", || Some(signature()).filter(|text| !text.is_empty()));

    let content = value(&public, "configmap/cluster-info", "data.kubeconfig");
    let (header, signature_part) = signed.split_once("..").unwrap();
    assert_eq!(URL_SAFE_NO_PAD.decode(header).unwrap(), br#"{"alg":"HS256","kid":"abc123"}"#);
    let is_signed_by = |secret: &str, content: &str| {
        let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
        let key = DecodingKey::from_secret(secret.as_bytes());
        jsonwebtoken::crypto::verify(signature_part, message.as_bytes(), &key, Algorithm::HS256).unwrap()
    };
    assert!(is_signed_by("0123456789abcdef", &content));
    assert!(!is_signed_by("0123456789abcdeg", &content));
    assert!(!is_signed_by("0123456789abcdef", &content.replace("https", "http")));
    assert!(!content.contains("users") && !content.contains("key-data"), "{content}");

    // What was signed leads to the server; the token is all that is to be added.
    let joining = server.folder().join("joining.kubeconfig");
    std::fs::write(&joining, &content).unwrap();
    let joining = format!("--kubeconfig={}", joining.display());
    let node = admin.with(&[&joining, &format!("--token={TOKEN}")]);
    let who = node.ok(&["auth", "whoami", "-o", "json"]).unwrap();
    for part in ["system:bootstrap:abc123", "\"system:bootstrappers\"", "system:bootstrappers:workers"] {
        assert!(who.contains(part), "{part}: {who}");
    }
    // It is for people to open it to everybody.
    let nobody = public.with(&["--as=system:anonymous", "--as-group=system:unauthenticated"]);
    nobody.fails(&["auth", "can-i", "get", "configmap/cluster-info"]).unwrap();

    let soon = Time::from_unix(Time::now().unix() + 2);
    let patch = format!(r#"{{"stringData":{{"expiration":"{soon}"}}}}"#);
    system.ok(&["patch", "secret", "bootstrap-token-abc123", "-p", &patch]).unwrap();
    let is_gone = || value(&system, "secret/bootstrap-token-abc123", "metadata.name").is_empty();
    until("an end of the token", || is_gone().then_some(()));
    assert!(Time::now() >= soon);
    until("an end of the signature", || signature().is_empty().then_some(()));
    let refused = node.fails(&["auth", "whoami"]).unwrap();
    assert!(refused.contains("Unauthorized"), "{refused}");
    assert_eq!(value(&public, "configmap/cluster-info", "data.kubeconfig"), content);
}

#[test]
fn cluster_info_is_made_once_and_only_if_it_is_signed() {
    let folder = Folder::new().unwrap();
    let run = |process: &Process, arguments: &[&str]| {
        let mut command = std::process::Command::new(testkit::tool("kubectl").unwrap());
        command.env("HOME", folder.path()).arg(format!("--kubeconfig={}", process.kubeconfig().display()));
        let output = command.args(["-n", "kube-public"]).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let get = ["get", "configmap", "cluster-info", "--ignore-not-found", "-o", "jsonpath={.data.kubeconfig}"];
    let data = folder.path().join("data");
    let process = Process::start(&binary(), &data, &["--controllers=*,-bootstrapsigner"]).unwrap();
    assert_eq!(run(&process, &get), "");
    process.terminate().unwrap();
    let process = Process::start(&binary(), &data, &["--advertise-address=192.0.2.7"]).unwrap();
    assert!(run(&process, &get).contains("server: https://192.0.2.7:"));
    run(&process, &["patch", "configmap", "cluster-info", "-p", r#"{"data":{"kubeconfig":"mine"}}"#]);
    process.terminate().unwrap();
    let process = Process::start(&binary(), &data, &[]).unwrap();
    assert_eq!(run(&process, &get), "mine");
}

#[test]
fn token_in_a_secret_is_that_of_its_account_until_the_account_goes() {
    let server = start();
    let admin = kubectl(&server);
    admin.ok(&["create", "serviceaccount", "robot"]).unwrap();
    let secret = |name: &str, account: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\n\
             metadata: {{name: {name}, annotations: {{kubernetes.io/service-account.name: {account}}}}}\n"
        )
    };
    create(&admin, server.folder(), &secret("robot-token", "robot"));
    let token = until("a token", || {
        Some(secret_value(&admin, "robot-token", "token")).filter(|token| !token.is_empty())
    });
    let token = String::from_utf8(token).unwrap();
    assert_eq!(secret_value(&admin, "robot-token", "namespace"), b"default");
    let authority = server.folder().join("of-secret.crt");
    std::fs::write(&authority, secret_value(&admin, "robot-token", r"ca\.crt")).unwrap();

    let robot = admin.with(&[
        "--kubeconfig=/dev/null",
        &format!("--server={}", server.url()),
        &format!("--certificate-authority={}", authority.display()),
        &format!("--token={token}"),
    ]);
    let who = robot.ok(&["auth", "whoami", "-o", "json"]).unwrap();
    assert!(who.contains("system:serviceaccount:default:robot"), "{who}");
    // The use was noted at the Secret, and the Secret stays as it is.
    let label = r"metadata.labels.kubernetes\.io/legacy-token-last-used";
    until("a note", || Some(value(&admin, "secret/robot-token", label)).filter(|day| day.len() == 10));
    assert_eq!(secret_value(&admin, "robot-token", "token"), token.as_bytes());

    let is_gone = |name: &str| value(&admin, &format!("secret/{name}"), "metadata.name").is_empty();
    create(&admin, server.folder(), &secret("of-nobody", "nobody"));
    until("an end of the Secret without an account", || is_gone("of-nobody").then_some(()));
    admin.ok(&["delete", "serviceaccount", "robot"]).unwrap();
    until("an end of the Secret", || is_gone("robot-token").then_some(()));
    let refused = robot.fails(&["auth", "whoami"]).unwrap();
    assert!(refused.contains("Unauthorized"), "{refused}");
}

#[test]
fn every_namespace_has_the_authority_that_verifies_the_server() {
    let server = start();
    let admin = kubectl(&server);
    admin.ok(&["create", "namespace", "team"]).unwrap();
    for namespace in ["team", "default", "kube-system"] {
        let of_namespace = admin.with(&["-n", namespace]);
        let read = || value(&of_namespace, "configmap/kube-root-ca.crt", r"data.ca\.crt");
        let authority = until("an authority", || Some(read()).filter(|text| !text.is_empty()));
        let file = server.folder().join("ca.crt");
        std::fs::write(&file, authority).unwrap();
        let pod = admin.with(&[
            "--kubeconfig=/dev/null",
            &format!("--server={}", server.url()),
            &format!("--certificate-authority={}", file.display()),
            &format!("--token={}", server.token()),
        ]);
        assert_eq!(pod.ok(&["get", "--raw", "/readyz"]).unwrap(), "ok");
    }
    let team = admin.with(&["-n", "team"]);
    let uid = || value(&team, "configmap/kube-root-ca.crt", "metadata.uid");
    let before = uid();
    team.ok(&["delete", "configmap", "kube-root-ca.crt"]).unwrap();
    until("another config map", || Some(uid()).filter(|uid| !uid.is_empty() && *uid != before));
}

#[test]
fn given_certificate_is_published_and_again_when_it_is_replaced() {
    let folder = Folder::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let replace = || {
        let pair = Authority::new().unwrap().issue(&["127.0.0.1"]).unwrap();
        std::fs::write(path("tls.crt"), &pair.certificate).unwrap();
        std::fs::write(path("tls.key"), &pair.key).unwrap();
        pair.certificate
    };
    let first = replace();
    let flags = [
        "--storage=memory".to_owned(),
        format!("--tls-cert-file={}", path("tls.crt").display()),
        format!("--tls-private-key-file={}", path("tls.key").display()),
    ];
    let flags = flags.each_ref().map(String::as_str);
    let process = Process::start(&binary(), &path("data"), &flags).unwrap();
    // While the kubeconfig is written anew the client may fail.
    let published = || {
        let mut command = std::process::Command::new(testkit::tool("kubectl").unwrap());
        command.env("HOME", folder.path()).arg(format!("--kubeconfig={}", process.kubeconfig().display()));
        command.args(["get", "configmap", "kube-root-ca.crt", "-o", r"jsonpath={.data.ca\.crt}"]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    until("the certificate", || (published() == first).then_some(()));
    let second = replace();
    until("the second certificate", || (published() == second).then_some(()));
}
