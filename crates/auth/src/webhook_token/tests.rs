use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::https::{Authority, HttpsServer, Reply, Request};

const FAST: Backoff = Backoff { initial: Duration::from_millis(1), factor: 1.0, jitter: 0.0, attempts: 2 };

struct Setup {
    server: HttpsServer,
    tokens: WebhookTokens,
}

fn setup(version: Version, answers: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Setup {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let server = HttpsServer::start(&serving, None, answers).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    server.kubeconfig(&path, "/authenticate", &authority, "{}").unwrap();
    let endpoint = outbound::Kubeconfig::read(&path).unwrap().endpoint().unwrap();
    let config = Config {
        version,
        cache_ttl: Duration::from_secs(60),
        audiences: vec!["api".into(), "other".into()],
        backoff: FAST,
    };
    Setup { server, tokens: WebhookTokens::new(endpoint, config).unwrap() }
}

fn review(status: &str) -> Reply {
    Reply::ok(format!(
        r#"{{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{status}}}"#
    ))
}

const JANE: &str =
    r#"{"authenticated":true,"user":{"username":"jane","uid":"7","groups":["a"],"extra":{"k":["v"]}}}"#;

impl Setup {
    async fn ask(&self, token: &str, audiences: &[&str]) -> TokenOutcome {
        let audiences: Vec<String> = audiences.iter().map(|audience| (*audience).to_owned()).collect();
        self.tokens.authenticate(Token(token), &audiences).wait().await
    }
}

#[tokio::test]
async fn user_of_the_answer_is_the_user_of_the_token() {
    let v1 = setup(Version::V1, |_| review(JANE));
    let identity = v1.ask("t", &["api", "third"]).await.unwrap().unwrap();
    let jane = User {
        name: "jane".into(),
        uid: "7".into(),
        groups: vec!["a".into()],
        extra: vec![("k".into(), vec!["v".into()])],
    };
    assert_eq!(identity, TokenIdentity::new(jane, vec!["api".into()]));
    let request = &v1.server.requests()[0];
    assert_eq!(request.path, "/authenticate?timeout=10s");
    assert!(request.body.contains(r#""spec":{"token":"t","audiences":["api","third"]}"#), "{}", request.body);

    let beta = setup(Version::V1beta1, |_| {
        Reply::ok(format!(
            r#"{{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1","status":{JANE}}}"#
        ))
    });
    assert_eq!(beta.ask("t", &[]).await.unwrap().unwrap().user.name, "jane");
    assert!(beta.server.requests()[0].body.contains("authentication.k8s.io/v1beta1"));
}

#[tokio::test]
async fn token_for_other_audiences_is_not_one_of_this_server() {
    let with = |audiences: &str| JANE.replace(r#""user""#, &format!(r#""audiences":{audiences},"user""#));
    let (mine, theirs) = (with(r#"["x","api"]"#), with(r#"["x"]"#));
    let setup = setup(Version::V1, move |request| {
        review(if request.body.contains("mine") { &mine } else { &theirs })
    });
    assert_eq!(setup.ask("mine", &["api"]).await.unwrap().unwrap().audiences, ["api"]);
    assert_eq!(setup.ask("theirs", &["api"]).await, Ok(None));
    assert!(setup.ask("theirs", &[]).await.unwrap().is_some());
}

#[tokio::test]
async fn answers_are_kept_and_errors_are_not() {
    let setup = setup(Version::V1, |request| {
        if request.body.contains("good") {
            review(JANE)
        } else if request.body.contains("bad") {
            review("{}")
        } else {
            review(r#"{"error":"what is hush?"}"#)
        }
    });
    let asked = async |token: &str, audiences: &[&str]| {
        let before = setup.server.requests().len();
        let outcome = setup.ask(token, audiences).await;
        (outcome.map(|identity| identity.is_some()), setup.server.requests().len() - before)
    };
    assert_eq!(asked("good", &[]).await, (Ok(true), 1));
    assert_eq!(asked("good", &[]).await, (Ok(true), 0));
    assert_eq!(asked("good", &["api"]).await, (Ok(true), 1));
    assert_eq!(asked("bad", &[]).await, (Ok(false), 1));
    assert_eq!(asked("bad", &[]).await, (Ok(false), 0));
    for _ in 0..2 {
        assert_eq!(asked("hush", &[]).await, (Err(InvalidToken::from("what is [withheld]?")), 1));
    }
}

#[tokio::test]
async fn equal_tokens_are_asked_for_once_and_slow_ones_hold_up_nobody() {
    let count = Arc::new(AtomicUsize::new(0));
    let setup = setup(Version::V1, {
        let count = count.clone();
        move |request| {
            count.fetch_add(1, Ordering::SeqCst);
            let time = if request.body.contains("hang") { 30_000 } else { 100 };
            Reply::After(Duration::from_millis(time), Box::new(review(JANE)))
        }
    });
    let hanging = setup.tokens.authenticate(Token("hang"), &[]);
    let (one, other) = tokio::join!(setup.ask("t", &[]), setup.ask("t", &[]));
    assert_eq!(one, other);
    assert!(one.unwrap().is_some());
    assert_eq!(count.load(Ordering::SeqCst), 2);
    assert_eq!(setup.tokens.0.under_way.lock().unwrap().len(), 1);
    drop(hanging);
}

#[tokio::test]
async fn wrong_answers_are_errors_without_the_token() {
    for reply in [
        Reply::Json(500, r#"{"kind":"Status","status":"Failure","message":"hush is not known"}"#.into()),
        Reply::ok("hush"),
        Reply::ok(r#"{"kind":"hush","apiVersion":"v1"}"#),
        // Texts are cut, also in the middle of a token.
        Reply::Json(500, format!("{}hush", "x".repeat((1 << 10) - 2))),
        Reply::Close,
    ] {
        let setup = setup(Version::V1, move |_| reply.clone());
        let error = setup.ask("hush", &[]).await.unwrap_err().to_string();
        assert!(!error.is_empty() && !error.contains("hu"), "{error}");
        assert_eq!(setup.tokens.0.under_way.lock().unwrap().len(), 0);
    }
}
