//! Secrets that are given to the server, and must not be seen in anything that it writes.

use std::path::PathBuf;

use testkit::{Folder, Process};

use super::{As, Client, binary};
use testkit::http::Target;

const PLANTED: &str = "pl4nted-s3cret-t0ken";

#[test]
fn planted_secrets_are_in_no_log_no_answer_and_no_file() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, format!("{PLANTED},admin,admin-uid,\"system:masters\"\n")).unwrap();
    let flags = ["-v=10", &format!("--token-auth-file={}", tokens.display())];
    let process = Process::start(&binary(), &data, &flags).unwrap();
    let target = Target::new(process.url(), &data.join("pki/ca.crt")).unwrap();
    let mut client = Client { target, connection: None };
    let admin = As::Token(PLANTED);
    assert_eq!(client.ask(admin, "GET", "/api/v1/namespaces", "").status, 200);
    // Requests that fail in many ways, with the token in each of them, and in places where it does not
    // belong.
    let review = "/apis/authentication.k8s.io/v1/tokenreviews";
    let mut answers = String::new();
    for (user, method, path, body) in [
        (admin, "GET", "/api/v1/namespaces/x/pods/y", ""),
        (admin, "POST", "/api/v1/namespaces/default/pods", "{"),
        (admin, "PUT", "/api/v1/namespaces/default/pods/x", "{}"),
        (admin, "GET", "/nope", ""),
        (As::Token("pl4nted-s3cret-t0ken-not"), "GET", "/api/v1/pods", ""),
        (As::Nobody, "GET", "/api/v1/pods", ""),
    ] {
        answers.push_str(&client.ask(user, method, path, body).text());
    }
    let unknown = format!(r#"{{"spec":{{"token":"a.b.c-{PLANTED}"}}}}"#);
    assert_eq!(client.ask(admin, "POST", review, &unknown).status, 201);
    assert_eq!(testkit::files_with(&data, PLANTED).unwrap(), Vec::<PathBuf>::new());
    let log = process.terminate().unwrap().log;
    assert!(!answers.contains(PLANTED), "{answers}");
    assert!(!log.contains(PLANTED), "the log has the token");
    assert!(log.contains("a token was refused"), "the log was written at the highest verbosity: {log}");
}
